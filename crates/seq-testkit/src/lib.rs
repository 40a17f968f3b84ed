//! Tools for the tests of several crates and for tests that start processes: waits for conditions, a load of callers
//! that take ids, the account of a run with faults, a collector of traces, and the harness of suites of rows.
//!
//! Crates depend on this crate only as a dev-dependency. Waits and loads panic if a test has failed.

pub mod account;
mod collector;
pub mod ids;
pub mod rows;
mod wait;

pub use collector::{CollectedSpan, Collector};
pub use wait::{TIMEOUT, eventually, eventually_within, until};
