//! The rules of the sequence service. The crate has no I/O, no clocks and no threads.
//!
//! Every decision of the service is made and tested here. Other crates read the clocks, send the messages and write the
//! files. The main decisions, by module:
//!
//! * [`layout`]: which section a uid is in
//! * [`section`]: how a number is taken; [`lane_clock`]: how a number that follows a clock is taken
//! * [`raise`]: when a ceiling is raised; [`raises`]: which ceilings an AllocSvr requests; [`raise_bound`]: how far a
//!   raise may go; [`raise_rate`]: how fast a ceiling may rise
//! * [`lease`]: how long an owner may serve; [`renewals`]: when an AllocSvr renews; [`store_calls`]: to which member of
//!   the store it sends a renewal
//! * [`owner`]: which sections an AllocSvr owns; [`calls`]: how a call that cannot be served at once waits
//! * [`state`]: which commands the store accepts
//! * [`route`]: how routes are versioned; [`directory`]: which set has a section
//! * [`placement`]: which owner is proposed for a section; [`arbiter`]: when an owner is proposed
//! * [`migration`]: how sections move to another set; [`confirmation`]: whether sections were really sent to this set;
//!   [`set_health`]: when another set counts as down
//! * [`leader_reach`]: when a leader that no AllocSvr reaches transfers leadership
//! * [`plan`]: which facts an operator's plan is based on
//! * [`activity`]: how busy sections were
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
