//! Tools for tests of several crates and for tests that start processes: waits for conditions, callers of ids, and a
//! collector of traces.
//!
//! Crates depend on this crate only as a dev-dependency. Its functions panic if a test has failed.

mod collector;
pub mod ids;
mod wait;

pub use collector::{CollectedSpan, Collector};
pub use wait::{TIMEOUT, eventually, eventually_within, until};
