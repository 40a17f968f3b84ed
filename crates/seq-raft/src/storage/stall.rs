//! Time that the writing thread has waited for the disk.
//!
//! A disk that fails causes an error, and the process stops. A disk that hangs causes no error. The thread waits and no
//! write is acknowledged, but from outside the member looks alive, because heartbeats need no disk. Only this time
//! shows that the disk hangs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Stopwatch of the writing thread. Clones read the same stopwatch.
#[derive(Clone, Debug)]
pub(crate) struct Stall {
    made: Instant,
    /// Start of the batch that is being written, in microseconds since `made`, plus one; 0 without a batch.
    since: Arc<AtomicU64>,
}

impl Stall {
    /// Creates a stopwatch without a batch.
    pub(crate) fn new() -> Stall {
        Stall { made: Instant::now(), since: Arc::default() }
    }

    /// Returns the age of the batch that is being written; zero without a batch.
    pub(crate) fn lasts(&self) -> Duration {
        match self.since.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => self.made.elapsed().saturating_sub(Duration::from_micros(since - 1)),
        }
    }

    /// Marks the begin of a batch.
    pub(crate) fn begin(&self) {
        let now = u64::try_from(self.made.elapsed().as_micros()).unwrap_or(u64::MAX - 1);
        self.since.store(now + 1, Ordering::Relaxed);
    }

    /// Marks the current batch as durable.
    pub(crate) fn end(&self) {
        self.since.store(0, Ordering::Relaxed);
    }
}
