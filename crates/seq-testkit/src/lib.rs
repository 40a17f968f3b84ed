//! Tools that tests of several crates and tests of processes share: waits for conditions, and callers of ids.
//!
//! Only dev-dependencies name this crate. Its functions panic where a test has failed.

pub mod ids;
mod wait;

pub use wait::{TIMEOUT, eventually, eventually_within, until};
