//! Load on a cluster: callers, loops, endpoints, and the figures of a run.
//!
//! * [`caller`]: calls of the SDK that go into one history, for tests that break a cluster meanwhile: `tests/chaos` in
//!   real time, `tests/turmoil` in simulated time.
//! * [`load`]: a benchmark of one [`endpoint`], in a closed loop or at a rate ([`open_loop`]), over a
//!   [`key_distribution`]; [`thresholds`] and a [`time_series`] of its figures.
//! * [`replay`]: a recorded trace of messages through the service.
//! * [`reply`], [`outcome`]: classification of what came back; [`latency`], [`silence`], [`raises`]: figures.
//!
//! The feature `measure` holds everything but callers and classification: a simulation needs neither sockets nor
//! histograms. Every call is checked by the order checker, `seq-order`.
//!
//! `benches/compare` runs the command `seqsvr bench` instead: each load generator of the comparison, also those of
//! other systems, is a process with its own CPU time.
//!
//! **Architecture Invariant:** it measures and checks, and prints nothing: reports and exit codes are the binary's. It
//! uses the protocols of the servers, never their crates.

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
