//! Allocators against a store that is the core's `State` behind real tonic, and that can be told to misbehave.

mod batched;
mod books;
mod ceilings;
mod departures;
mod forwarding;
mod handover;
mod session;
mod store;
mod strangers;
mod threads;
mod world;
