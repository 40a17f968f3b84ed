//! How long the disk has kept the writing thread waiting.
//!
//! A disk that fails is an error, and the process stops. A disk that hangs is none: the thread waits, nothing is
//! acknowledged, and from outside the member looks alive, because heartbeats need no disk. Who looks here can tell.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A handle on the writing thread's watch. Clones see the same thread.
#[derive(Clone, Debug)]
pub struct Stall {
    made: Instant,
    /// When the batch that is being written began, in microseconds since `made`, plus one; 0 while nothing is.
    since: Arc<AtomicU64>,
}

impl Stall {
    /// Nothing is being written.
    pub(crate) fn new() -> Stall {
        Stall { made: Instant::now(), since: Arc::default() }
    }

    /// How long the batch that is being written has been; zero while nothing is.
    #[must_use]
    pub fn lasts(&self) -> Duration {
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
