//! Load on a cluster: callers, loops, endpoints, and the figures of a run.
//!
//! * [`caller`] records calls of the SDK in one history. Tests that inject faults into a cluster use it: `tests/chaos`
//!   in real time, and `tests/turmoil` in simulated time.
//! * [`load`] is a benchmark of one [`endpoint`], in a closed loop or at a fixed rate ([`open_loop`]), with a
//!   [`key_distribution`] over the uids. [`thresholds`] checks its figures, and a [`time_series`] has them for each
//!   second.
//! * [`replay`] sends a recorded trace of messages through the service.
//! * [`reply`] and [`outcome`] classify replies. [`latency`], [`silence`] and [`raises`] are figures.
//!
//! The feature `measure` enables every module except [`caller`], [`reply`], [`outcome`] and [`silence`]. A simulation
//! does not enable it, because a simulation needs neither sockets nor histograms. Every call is checked by the order
//! checker, `seq-order`.
//!
//! `benches/compare` does not call this crate, but runs the command `seqsvr bench`. So each load generator of the
//! comparison, including the load generators of other systems, is a process with its own CPU time.
//!
//! **Architecture Invariant:** this crate measures and checks, but prints nothing, because reports and exit codes
//! belong to the binary. It depends on the protocols of the servers, never on their crates.

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
