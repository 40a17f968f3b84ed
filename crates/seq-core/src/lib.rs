//! The rules of the sequence service, without I/O, clocks or threads of its own.
//!
//! Every decision is made and tested here: which section a uid is in ([`layout`]), how a number is taken ([`section`]),
//! also at the time of a clock ([`lane_clock`]), when a ceiling is raised ([`raise`]), how long an owner may serve
//! ([`lease`]), which sections an AllocSvr owns ([`owner`]), which ceilings it requests ([`raises`]), when it renews
//! ([`renewals`]) and through which member of the store ([`store_calls`]), how a call waits that cannot be served at
//! once ([`calls`]), which commands the store accepts ([`state`]), how far a raise may go ([`raise_bound`]) and how
//! fast ceilings rise ([`raise_rate`]), how routes are versioned ([`route`]), which set has a section ([`directory`])
//! and whether it was sent here ([`confirmation`]), which owner is proposed ([`placement`]) and when ([`arbiter`]), how
//! sections move to another set ([`migration`]), when another set counts as down ([`set_health`]), when a leader that
//! nothing reaches steps down ([`leader_reach`]), which facts a plan of an operator rests on ([`plan`]), and how busy
//! sections were ([`activity`]). The crates around it move bytes.
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
pub mod high_water;
pub mod id;
pub mod lane_clock;
pub mod layout;
pub mod leader_reach;
pub mod lease;
pub mod limits;
pub mod migration;
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
