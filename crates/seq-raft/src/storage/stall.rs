//! Stopwatch for the time that the writing thread has waited for the disk.
//!
//! If a disk fails, a write returns an error and the process stops. If a disk hangs, no error occurs. The writing
//! thread waits and no write is acknowledged, but to the other members this member looks alive, because heartbeats need
//! no disk. Only the time that a write lasts shows that the disk hangs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Stopwatch that the writing thread starts and stops. Clones read the same stopwatch.
#[derive(Clone, Debug)]
pub(crate) struct Stall {
    made: Instant,
    /// Start of the batch that is being written, in microseconds since `made`, plus one; 0 if no batch is being
    /// written.
    since: Arc<AtomicU64>,
}

impl Stall {
    /// Creates a stopwatch that does not run.
    pub(crate) fn new() -> Stall {
        Stall { made: Instant::now(), since: Arc::default() }
    }

    /// Returns the time since the start of the batch that is being written, or zero if no batch is being written.
    pub(crate) fn lasts(&self) -> Duration {
        match self.since.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => self.made.elapsed().saturating_sub(Duration::from_micros(since - 1)),
        }
    }

    /// Starts the stopwatch, because a batch begins.
    pub(crate) fn begin(&self) {
        let now = u64::try_from(self.made.elapsed().as_micros()).unwrap_or(u64::MAX - 1);
        self.since.store(now + 1, Ordering::Relaxed);
    }

    /// Stops the stopwatch, because the batch is durable.
    pub(crate) fn end(&self) {
        self.since.store(0, Ordering::Relaxed);
    }
}
