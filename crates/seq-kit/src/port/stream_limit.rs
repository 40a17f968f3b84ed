//! Limits the number of requests that the connections of a listener may have in flight at a time.
//!
//! A thread that gets more requests than it can serve has a queue. Requests also wait unread in the sockets, so not all
//! of the queue is in this process, and a new request is served only after all others. If requests wait until the
//! deadlines of their callers have passed, the thread works for callers that no longer wait. Refusing such requests
//! would not help, because a refusal costs about as much as a response. So the queue must not form in the server. By
//! Little's law the length of the queue follows from the number of requests that callers may have in flight, and HTTP/2
//! lets a server limit this number at any time (SETTINGS_MAX_CONCURRENT_STREAMS). Requests above the limit wait at the
//! callers, and cost the server nothing when they expire.
//!
//! All connections of a listener share one limit on the requests in flight. This limit is lowered while the thread is
//! late, for any reason. The delay of the thread is measured with a timer: it is the time from the instant for which
//! the timer was set to the instant at which it runs, after all tasks that were ready before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use metrics::Counter;
use tokio::time::Instant;

/// Largest limit that the connections share. So many small requests are a few tenths of a second of work for a thread,
/// and each read then returns enough requests to serve them at the lowest cost.
const MAX_SHARED: u32 = 16_384;

/// Smallest limit that the connections share. It is reached by a thread that gets little CPU time or has large
/// requests.
const MIN_SHARED: u32 = 256;

/// Smallest limit of a single connection, for any number of connections. It allows for streams that stay open and some
/// other requests.
const LEAST: u32 = 4;

/// Interval at which the delay is measured.
const INTERVAL: Duration = Duration::from_millis(50);

/// Delay of the thread above which the shared limit is halved. A request passes through the thread's queue about three
/// times: when it is read, when it is served and when its response is sent. So it takes about three times this delay.
const TOO_LATE: Duration = Duration::from_millis(200);

/// Delay of the thread below which the shared limit is doubled again. The delay must be below this value in
/// `IN_TIME_FOR` consecutive intervals, because after each change a frame is sent on each connection.
const IN_TIME: Duration = Duration::from_millis(25);
const IN_TIME_FOR: u32 = 10;

/// The limit on the requests of a listener's connections. Clones share the limit.
#[derive(Clone)]
pub(super) struct StreamLimit(Arc<Inner>);

struct Inner {
    /// Largest limit of a single connection. It applies if there are few connections.
    most: u32,
    /// Limit on the requests in flight that all connections share.
    shared: AtomicU32,
    connections: AtomicU32,
    /// Counter of how often the shared limit was halved because the thread was late.
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

    /// Measures the delay of the current thread repeatedly, and adjusts the shared limit to it. Never completes.
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
    /// Returns the largest number of requests that a single connection may have in flight at any time.
    pub(super) fn most(&self) -> u32 {
        self.0.0.most
    }

    /// Returns the number of requests that this connection may have in flight now, which is its part of the shared
    /// limit. For this computation the number of connections is rounded up to a power of two, so that the result does
    /// not change with each additional connection.
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
