//! The decisions of the sequence service, as code without I/O, clocks and threads.
//!
//! Every decision of the service is made and tested here. Other crates read the clocks, send the messages and write the
//! files. The main decisions, by module:
//!
//! * [`layout`] maps a uid to its section.
//! * [`section`] allocates numbers from the counters of a section; [`lane_clock`] allocates numbers that follow a
//!   clock; [`keyspace`] maps keys of any bytes to sections and counters.
//! * [`raise`] decides when a raise is due and which ceiling it requests; [`raises`] decides when an AllocSvr sends
//!   which raises. At the store's leader, [`raise_bound`] limits the distance of a raise, and [`raise_rate`] limits how
//!   fast a ceiling rises.
//! * [`lease`] decides whether an owner may serve; [`renewals`] decides when an AllocSvr sends a renewal, and
//!   [`store_calls`] decides to which member of the store it sends the renewal.
//! * [`owner`] decides which sections an AllocSvr serves; [`calls`] decides about a call that cannot be served at once.
//! * [`state`] is the replicated state of a store, which applies or refuses each command.
//! * [`route`] has the route table and its versions; [`directory`] records which set has which section.
//! * [`placement`] proposes an owner for each section; [`arbiter`] decides when a section gets another owner.
//! * [`migration`] moves sections to another set; [`confirmation`] checks, before sections arrive in this set, that the
//!   sets which had them really sent them; [`set_health`] decides whether another set counts as down.
//! * [`leader_reach`] decides when a leader that no AllocSvr reaches transfers leadership.
//! * [`plan`] computes the fingerprint of the facts on which an operator's plan is based.
//! * [`activity`] records how busy each section was.
//! * [`node_events`] decides which facts about a process are events for operators.
//!
//! **Architecture Invariant:** nothing in this crate reads a clock, a file, a socket or a random number, and nothing in
//! it iterates a map in random order. All such inputs are arguments.
#![no_std]

extern crate alloc;

pub mod activity;
pub mod arbiter;
pub mod backoff;
pub mod calls;
pub mod clock_offset;
pub mod confirmation;
pub mod directory;
mod event_kinds;
pub mod high_water;
pub mod id;
pub mod key_room;
mod keyed;
pub mod keyspace;
pub mod lane_clock;
pub mod layout;
pub mod leader_reach;
pub mod lease;
pub mod limits;
pub mod migration;
pub mod node_events;
pub mod owner;
pub mod peer_reach;
pub mod placement;
pub mod plan;
pub mod quarantine;
pub mod raise;
pub mod raise_bound;
pub mod raise_rate;
pub mod raises;
pub mod refusal;
pub mod renewals;
pub mod request;
pub mod route;
pub mod section;
#[cfg(all(test, not(loom)))]
mod seeded_tests;
pub mod self_check;
pub mod series;
pub mod set_health;
pub mod set_spec;
mod slots;
pub mod state;
pub mod store_calls;
mod sync;
#[cfg(all(test, not(loom)))]
mod testdata;

pub use id::{
    AdvanceLimit, Epoch, HandoverId, Incarnation, LayoutId, Lineage, Liveness, MigrationId, NodeId, RenewSeq, Revision,
    RouteVersion, SectionId, Seq, SetId, SlotIndex, Step, Uid,
};
pub use layout::Layout;
pub use refusal::Refusal;
pub use request::{Count, Target};
pub use section::{Advance, Reading, Section, Take};
