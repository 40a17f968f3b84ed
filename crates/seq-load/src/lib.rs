//! Load on a cluster: callers, loops, endpoints, and the figures of a run.
//!
//! * [`caller`]: SDK calls recorded in one history, for tests that inject faults into a cluster: `tests/chaos` in real
//!   time, `tests/turmoil` in simulated time.
//! * [`load`]: a benchmark of one [`endpoint`], in a closed loop or at a rate ([`open_loop`]), over a
//!   [`key_distribution`]; [`thresholds`] and a [`time_series`] of its figures.
//! * [`replay`]: a recorded trace of messages through the service.
//! * [`reply`], [`outcome`]: classification of replies; [`latency`], [`silence`], [`raises`]: figures.
//!
//! The feature `measure` has everything except callers and classification, because a simulation needs neither sockets
//! nor histograms. The order checker, `seq-order`, checks every call.
//!
//! `benches/compare` instead runs the command `seqsvr bench`: each load generator of the comparison, including the load
//! generators of other systems, is a process with its own CPU time.
//!
//! **Architecture Invariant:** this crate measures and checks, and prints nothing: reports and exit codes belong to the
//! binary. It uses the protocols of the servers, never their crates.

pub mod caller;
#[cfg(feature = "measure")]
pub mod endpoint;
#[cfg(feature = "measure")]
pub mod key_distribution;
#[cfg(feature = "measure")]
pub mod latency;
#[cfg(feature = "measure")]
pub mod load;
#[cfg(feature = "measure")]
pub mod open_loop;
pub mod outcome;
#[cfg(feature = "measure")]
pub mod raises;
#[cfg(feature = "measure")]
pub mod replay;
pub mod reply;
pub mod silence;
#[cfg(feature = "measure")]
pub mod thresholds;
#[cfg(feature = "measure")]
pub mod time_series;
