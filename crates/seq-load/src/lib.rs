//! Generators of load on a cluster, and the figures that they measure, such as latencies and rates.
//!
//! * [`caller`] sends calls through the SDK and records them in the history of a test. Tests that inject faults into a
//!   cluster use this module, `tests/chaos` in real time and `tests/turmoil` in simulated time.
//! * [`load`] is a benchmark of one [`endpoint`]. It sends calls in a closed loop or at a fixed rate ([`open_loop`]),
//!   and a [`key_distribution`] chooses their uids. [`thresholds`] checks the figures of the benchmark, and a
//!   [`time_series`] has the figures of each second.
//! * [`replay`] sends a recorded trace of messages through the service.
//! * [`reply`] and [`outcome`] classify replies of endpoints and results of the SDK. [`latency`], [`silence`] and
//!   [`raises`] are figures of a run.
//!
//! The crate feature `measure` enables every module except [`caller`], [`reply`], [`outcome`] and [`silence`]. A
//! simulation does not enable the feature, because a simulation needs neither sockets nor histograms. The order
//! checker, `seq-order`, checks the calls of every load, unless a benchmark switches the check off.
//!
//! `benches/compare`, which compares this service with other systems, does not call this crate, but runs the command
//! `seqsvr bench`. So each load generator of the comparison, including the load generators of the other systems, is a
//! process whose CPU time can be measured.
//!
//! **Architecture Invariant:** this crate measures and checks, but prints nothing, because reports and exit codes
//! belong to the binary. The crate depends on the protocols of the servers, never on the crates of the servers.

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
