//! How long the writing thread has waited for the disk.
//!
//! A disk that fails is an error, and the process stops. A disk that hangs is none: the thread waits, nothing is
//! acknowledged, and from outside the member looks alive, because heartbeats need no disk. Only this value shows it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Stopwatch of the writing thread. Clones read the same one.
#[derive(Clone, Debug)]
pub(crate) struct Stall {
    made: Instant,
    /// When the batch that is being written began, in microseconds since `made`, plus one; 0 while nothing is.
    since: Arc<AtomicU64>,
}

impl Stall {
    /// Nothing is being written.
    pub(crate) fn new() -> Stall {
        Stall { made: Instant::now(), since: Arc::default() }
    }

    /// Age of the batch that is being written; zero while none is.
    pub(crate) fn lasts(&self) -> Duration {
        match self.since.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => self.made.elapsed().saturating_sub(Duration::from_micros(since - 1)),
        }
    }

    /// A batch begins.
    pub(crate) fn begin(&self) {
        let now = u64::try_from(self.made.elapsed().as_micros()).unwrap_or(u64::MAX - 1);
        self.since.store(now + 1, Ordering::Relaxed);
    }

    /// The batch is durable.
    pub(crate) fn end(&self) {
        self.since.store(0, Ordering::Relaxed);
    }
}
