//! The atomics of the counters: core's, or loom's when its model checker runs the tests.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::AtomicU64;
pub(crate) use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::AtomicU64;
