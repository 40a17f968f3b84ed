//! The real services on a simulated network: tonic, Raft, StoreSvr, AllocSvr and the SDK, unchanged, under partitions,
//! held and lost messages, crashes and restarts.
//!
//! One seed determines everything: the faults, the latencies, the order of tasks, and the requests of clients. Time is
//! simulated, so a run takes a small part of it in real time, and the same seed makes the same run, message for
//! message. A run has two phases. While faults are injected, no promise may break; then all faults are repaired, and
//! everything must work again.
//!
//! [`net`] replaces sockets, [`world`] runs the hosts and injects faults, [`store`] and [`alloc`] start members and
//! nodes, [`parent`] reports the deaths of their processes, [`raiser`] and [`caller`] are clients that check their
//! responses, [`report`] records events, and [`seeds`] runs a world for many seeds.
//!
//! **Architecture Invariant:** no code here runs on a thread of its own, reads a clock, or draws a number that does not
//! depend on the seed.

#[cfg(not(all(tokio_unstable, simulated_network)))]
compile_error!(
    "without `--cfg tokio_unstable` and `--cfg simulated_network` no run can be repeated: build in `tests/turmoil`, without RUSTFLAGS"
);

pub mod alloc;
pub mod caller;
pub mod clocks;
pub mod meters;
pub mod net;
pub mod parent;
pub mod raiser;
pub mod report;
pub mod seeds;
pub mod store;
pub mod trace;
pub mod world;
