//! How many requests at a time the connections of a listener may have: fewer while its thread is late.
//!
//! A thread that is given more requests than it can serve has a queue. It is not in this process alone: requests lie
//! unread in the sockets, and the last one to be served has waited for all others. Past the deadlines of the callers
//! the thread works for callers that have gone, and a refusal costs about as much as a response. So the queue must not
//! form here: by Little's law it is as long as the requests that callers may have under way, and that is what HTTP/2
//! lets a server limit, at any time (SETTINGS_MAX_CONCURRENT_STREAMS). What is above the limit waits at the callers,
//! and costs nothing when it expires.
//!
//! The delay that counts is that of a timer: how much later than its time it runs, behind everything that was ready
//! before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;

/// Interval of measuring the delay.
const INTERVAL: Duration = Duration::from_millis(50);

/// Delay above which the limit falls: a small part of the time that callers wait, and well above what a busy thread has
/// at times.
const TOO_LATE: Duration = Duration::from_millis(40);

/// Delay below which the limit rises again.
const IN_TIME: Duration = Duration::from_millis(10);

/// Lowest limit: streams that stay open, and requests beside them.
const LEAST: u32 = 4;

/// Most that the limit falls in one step: the delay of one moment may have another cause than requests.
const MAX_FALL: u32 = 8;

/// The limit of the connections of one listener. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct StreamLimit(Arc<AtomicU32>);

impl StreamLimit {
    pub(super) fn new(most: u32) -> StreamLimit {
        StreamLimit(Arc::new(AtomicU32::new(most)))
    }

    /// Requests that a connection may have now.
    #[inline]
    pub(super) fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }

    /// Follows the delay of the current thread, for ever.
    pub(super) async fn follow_delay(self) {
        let most = self.get();
        loop {
            let due = Instant::now() + INTERVAL;
            tokio::time::sleep_until(due).await;
            self.0.store(next(self.get(), most, due.elapsed()), Relaxed);
        }
    }

    #[cfg(test)]
    pub(super) fn set(&self, limit: u32) {
        self.0.store(limit, Relaxed);
    }
}

/// The limit after a delay.
fn next(limit: u32, most: u32, delay: Duration) -> u32 {
    if delay > TOO_LATE {
        let times = u32::try_from(delay.as_millis() / TOO_LATE.as_millis()).unwrap_or(MAX_FALL);
        (limit / times.clamp(2, MAX_FALL)).max(LEAST)
    } else if delay < IN_TIME {
        limit.saturating_mul(2).min(most)
    } else {
        limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_falls_with_the_delay_and_rises_to_where_it_was() {
        let after = |limit, millis| next(limit, 256, Duration::from_millis(millis));
        assert_eq!([after(256, 41), after(256, 160), after(256, 60_000)], [128, 64, 32]);
        assert_eq!([after(6, 100), after(LEAST, 100), after(LEAST, 60_000)], [LEAST; 3]);
        assert_eq!([after(LEAST, 20), after(200, 40)], [LEAST, 200], "it stays in between");
        assert_eq!([after(LEAST, 0), after(100, 9), after(256, 0)], [8, 200, 256]);
        let rises = std::iter::successors(Some(LEAST), |limit| Some(after(*limit, 1)));
        assert_eq!(rises.take_while(|limit| *limit < 256).count(), 6, "within half a second");
    }

    #[tokio::test(start_paused = true)]
    async fn a_thread_that_is_late_lowers_the_limit() {
        let limit = StreamLimit::new(256);
        let following = tokio::spawn(limit.clone().follow_delay());
        tokio::time::sleep(INTERVAL * 10).await;
        assert_eq!(limit.get(), 256, "it is in time");
        for _ in 0..10 {
            // Nothing else of the thread runs meanwhile.
            tokio::time::advance(INTERVAL * 10).await;
            tokio::task::yield_now().await;
        }
        assert!(limit.get() < 16, "{}", limit.get());
        tokio::time::sleep(INTERVAL * 20).await;
        assert_eq!(limit.get(), 256);
        following.abort();
    }
}
