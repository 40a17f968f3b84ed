//! Allocators against a store that is the core's `State` behind real tonic, and that misbehaves on demand.

mod activity;
mod batched;
mod books;
mod ceilings;
mod departures;
mod forwarding;
mod handover;
mod impostors;
mod keys;
mod lanes;
mod other_sets;
mod session;
mod sparse;
mod store;
mod strangers;
mod threads;
mod world;
