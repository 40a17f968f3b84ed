//! Limits the requests that the connections of a listener may have in flight at a time.
//!
//! A thread that gets more requests than it can serve has a queue. The queue is not only in this process: requests also
//! wait unread in the sockets, and the last request to be served has waited for all others. When requests wait past the
//! deadlines of their callers, the thread works for callers that have gone, and a refusal costs about as much as a
//! response. So the queue must not form here. By Little's law the queue is as long as the number of requests that
//! callers may have in flight, and HTTP/2 lets a server limit this number at any time
//! (SETTINGS_MAX_CONCURRENT_STREAMS). Requests above the limit wait at the callers, and cost nothing when they expire.
//!
//! The connections of a listener share a number of requests. The number is lowered while the thread is late, for any
//! reason. The thread's delay is measured with a timer: it is the time between the instant for which the timer was set
//! and the instant at which it runs, after all tasks that were ready before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use metrics::Counter;
use tokio::time::Instant;

/// Largest number of requests that the connections share. Small requests in this number are a few tenths of a second of
/// work for a thread, and each read then returns enough requests to serve them at the lowest cost.
const MAX_SHARED: u32 = 16_384;

/// Smallest number of requests that the connections share. It applies to a thread that gets little CPU time or has
/// large requests.
const MIN_SHARED: u32 = 256;

/// Smallest number of requests that a connection may have, for any number of connections. It allows for streams that
/// stay open and some other requests.
const LEAST: u32 = 4;

/// Interval at which the delay is measured.
const INTERVAL: Duration = Duration::from_millis(50);

/// Delay above which the number is halved. A request passes the thread's queue about three times, when it is read, when
/// it is served and when it is responded to. So it takes about three times this delay.
const TOO_LATE: Duration = Duration::from_millis(200);

/// Delay below which the number is doubled again. It must be below this value in `IN_TIME_FOR` consecutive intervals,
/// because each change is a frame for each connection.
const IN_TIME: Duration = Duration::from_millis(25);
const IN_TIME_FOR: u32 = 10;

/// The limit on the requests of a listener's connections. Clones share the limit.
#[derive(Clone)]
pub(super) struct StreamLimit(Arc<Inner>);

struct Inner {
    /// Largest number of requests that a connection may have, even if there are few connections.
    most: u32,
    /// Number of requests that all connections share.
    shared: AtomicU32,
    connections: AtomicU32,
    /// Counter of the times that the number was halved because the thread was late.
    lowered: Counter,
}

impl StreamLimit {
    pub(super) fn new(most: u32, lowered: Counter) -> StreamLimit {
        let (shared, connections) = (AtomicU32::new(MAX_SHARED), AtomicU32::new(0));
        StreamLimit(Arc::new(Inner { most, shared, connections, lowered }))
    }

    /// Counts a connection until the returned value is dropped.
    pub(super) fn join(&self) -> Member {
        self.0.connections.fetch_add(1, Relaxed);
        Member(self.clone())
    }

    #[cfg(test)]
    pub(super) fn share(&self, requests: u32) {
        self.0.shared.store(requests, Relaxed);
    }

    /// Measures the delay of the current thread and adjusts the number to it. Never completes.
    pub(super) async fn follow_delay(self) {
        let Inner { shared, lowered, .. } = &*self.0;
        let mut in_time_for = 0;
        loop {
            let due = Instant::now() + INTERVAL;
            tokio::time::sleep_until(due).await;
            let (now, delay) = (shared.load(Relaxed), due.elapsed());
            in_time_for = if delay < IN_TIME { in_time_for + 1 } else { 0 };
            if delay > TOO_LATE && now > MIN_SHARED {
                shared.store(now / 2, Relaxed);
                lowered.increment(1);
            } else if in_time_for == IN_TIME_FOR {
                in_time_for = 0;
                shared.store((now * 2).min(MAX_SHARED), Relaxed);
            }
        }
    }
}

/// A connection of a listener.
pub(super) struct Member(StreamLimit);

impl Member {
    /// Returns the largest number of requests that a connection may have at any time.
    pub(super) fn most(&self) -> u32 {
        self.0.0.most
    }

    /// Returns the number of requests that the connection may have now. For this, the number of connections is rounded
    /// up to a power of two, so that the limit does not change with each further connection.
    #[inline]
    pub(super) fn limit(&self) -> u32 {
        let Inner { most, shared, connections, .. } = &*self.0.0;
        let connections = connections.load(Relaxed).next_power_of_two();
        (shared.load(Relaxed) / connections).clamp(LEAST, *most)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.0.0.connections.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u32 = 256;

    fn limit() -> StreamLimit {
        StreamLimit::new(MOST, Counter::noop())
    }

    #[test]
    fn many_connections_share_what_a_few_do_not_reach() {
        let limit = limit();
        let mut members = Vec::new();
        for (connections, share) in [(1, 256), (64, 256), (65, 128), (1_000, 16), (1_024, 16), (5_000, LEAST)] {
            members.resize_with(connections, || limit.join());
            assert_eq!(members[0].limit(), share, "{connections} connections");
        }
        members.truncate(64);
        assert_eq!(members[0].limit(), 256);
    }

    #[tokio::test(start_paused = true)]
    async fn a_thread_that_is_late_lowers_the_limit_until_it_is_in_time() {
        let (limit, other) = (limit(), limit());
        let members: Vec<_> = (0..64).map(|_| limit.join()).collect();
        let test = async {
            tokio::time::sleep(INTERVAL * 10).await;
            assert_eq!(members[0].limit(), 256, "it is in time");
            let late = async |intervals: u32, delay: Duration| {
                for _ in 0..intervals {
                    // No other task of the thread runs in the meantime.
                    tokio::time::advance(INTERVAL + delay).await;
                    tokio::task::yield_now().await;
                }
                members[0].limit()
            };
            assert_eq!(late(1, TOO_LATE * 2).await, 128);
            assert_eq!(late(40, TOO_LATE / 2).await, 128, "it stays in between");
            assert_eq!(late(40, TOO_LATE * 2).await, LEAST);
            assert_eq!(other.join().limit(), 256);
            tokio::time::sleep(INTERVAL * (IN_TIME_FOR + 2)).await;
            assert_eq!(members[0].limit(), 8, "it doubles");
            tokio::time::sleep(INTERVAL * IN_TIME_FOR * 6).await;
            assert_eq!(members[0].limit(), 256);
        };
        tokio::select! {
            () = limit.follow_delay() => unreachable!("it follows for ever"),
            () = test => {}
        }
    }
}
