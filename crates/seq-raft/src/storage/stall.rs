//! Stopwatch for the time that the writing thread has waited for the disk, with the times of the recent syncs.
//!
//! If a disk fails, a write returns an error and the process stops. If a disk hangs, no error occurs. The writing
//! thread waits and no write is acknowledged, but to the other members this member looks alive, because heartbeats need
//! no disk. Only the time that a write lasts shows that the disk hangs.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Time after which a disk that has not completed a write counts as not responding. A working disk needs far less time
/// under any load, and proposals should not wait longer than this time before another member leads.
pub(crate) const STALL_TIMEOUT: Duration = Duration::from_secs(1);

/// Time for which a sync is recent. It is long enough for a hundred syncs even if a set is idle, because renewals are
/// synced too, and short enough that a slow disk is noticed within seconds.
const RECENT: Duration = Duration::from_secs(60);

/// Maximum number of syncs that are kept. More syncs in a minute are possible only on a disk that is fast.
const MAX_RECENT: usize = 4_096;

/// Number of syncs of which one may be slow.
const HUNDRED: usize = 100;

/// Stopwatch that the writing thread starts and stops. Clones read the same stopwatch.
#[derive(Clone, Debug)]
pub(crate) struct Stall {
    made: Instant,
    /// Start of the batch that is being written, in microseconds since `made`, plus one; 0 if no batch is being
    /// written.
    since: Arc<AtomicU64>,
    /// End and duration of the recent syncs, in the order of their ends.
    syncs: Arc<Mutex<VecDeque<(Instant, Duration)>>>,
}

impl Stall {
    /// Creates a stopwatch that does not run.
    pub(crate) fn new() -> Stall {
        Stall { made: Instant::now(), since: Arc::default(), syncs: Arc::default() }
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

    /// Records a sync that has just ended.
    pub(crate) fn synced(&self, took: Duration) {
        let mut syncs = self.syncs.lock();
        if syncs.len() == MAX_RECENT {
            syncs.pop_front();
        }
        syncs.push_back((Instant::now(), took));
    }

    /// Returns the 99th percentile of the durations of the recent syncs. One slow sync is ignored in any case, because
    /// a single sync may wait for other work of the machine. If the disk does not respond, returns for how long it has
    /// not. Returns `None` if there were fewer than two syncs in the last minute.
    pub(crate) fn sync_p99(&self) -> Option<Duration> {
        let hung = Some(self.lasts()).filter(|lasts| *lasts >= STALL_TIMEOUT);
        hung.or_else(|| percentile(self.recent()))
    }

    /// Returns the durations of the recent syncs, and forgets the others. The lock is held only for the copy, because
    /// the writing thread waits for it before it acknowledges.
    fn recent(&self) -> Vec<Duration> {
        let mut syncs = self.syncs.lock();
        while syncs.front().is_some_and(|(ended, _)| ended.elapsed() > RECENT) {
            syncs.pop_front();
        }
        syncs.iter().map(|(_, took)| *took).collect()
    }
}

/// Returns the longest of the durations without the slowest hundredth, which is at least one.
fn percentile(mut durations: Vec<Duration>) -> Option<Duration> {
    let ignored = (durations.len() / HUNDRED).max(1);
    let place = durations.len().checked_sub(1 + ignored)?;
    Some(*durations.select_nth_unstable(place).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slow_sync_in_a_hundred_is_ignored_and_two_are_not() {
        let ms = Duration::from_millis;
        let with = |slow: usize, all: usize| {
            let durations = (0..all).map(|sync| ms(if sync < slow { 120 } else { 1 })).collect();
            percentile(durations)
        };
        assert_eq!([with(0, 0), with(1, 1)], [None, None], "a single sync proves nothing");
        assert_eq!([with(1, 2), with(2, 2)], [Some(ms(1)), Some(ms(120))]);
        assert_eq!([with(1, 100), with(2, 100)], [Some(ms(1)), Some(ms(120))]);
        assert_eq!([with(10, 1_000), with(11, 1_000)], [Some(ms(1)), Some(ms(120))]);
    }

    #[test]
    fn the_newest_syncs_are_kept() {
        let stall = Stall::new();
        (0..MAX_RECENT).for_each(|_| stall.synced(Duration::from_millis(120)));
        assert_eq!(stall.sync_p99(), Some(Duration::from_millis(120)));
        (0..MAX_RECENT).for_each(|_| stall.clone().synced(Duration::from_millis(1)));
        assert_eq!(stall.sync_p99(), Some(Duration::from_millis(1)));
        assert_eq!(stall.syncs.lock().len(), MAX_RECENT);
    }
}
