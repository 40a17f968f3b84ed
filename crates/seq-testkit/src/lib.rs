//! Tools that tests of several crates and tests of processes share: waits for conditions, callers of ids, and
//! a collector of traces.
//!
//! Only dev-dependencies name this crate. Its functions panic where a test has failed.

mod collector;
pub mod ids;
mod wait;

pub use collector::{CollectedSpan, Collector};
pub use wait::{TIMEOUT, eventually, eventually_within, until};
