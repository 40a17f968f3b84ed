//! Schedule of an open loop, in which calls become due at a fixed rate, even if earlier calls have not completed.
//!
//! The latency of a call counts from the call's scheduled time. So a stall of the service shows in the latency of every
//! call scheduled during the stall, not only in the calls that were sent before it (Gil Tene, "How NOT to Measure
//! Latency", 2013).
//!
//! A dedicated thread releases the calls at their scheduled times, because timers of a busy async runtime fire up to a
//! millisecond late.

use std::cell::Cell;
use std::sync::Arc;
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Longest sleep of the thread that releases calls. It limits the time until the thread notices [`OpenLoop::stop`].
const MAX_SLEEP: Duration = Duration::from_millis(10);

/// Shortest sleep of the thread that releases calls. Calls that become due during one sleep are released together. With
/// a shorter sleep, the thread would be in a busy loop.
const MIN_SLEEP: Duration = Duration::from_micros(100);

/// Schedule that releases calls at a fixed rate.
#[derive(Debug)]
pub struct OpenLoop {
    schedule: Schedule,
    /// One permit for each call that is due and has not been sent.
    due: Arc<Semaphore>,
    sent: Cell<u64>,
    thread: Option<JoinHandle<()>>,
}

/// The scheduled time of each call.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    began: Instant,
    per_second: f64,
}

impl Schedule {
    fn due(&self, call: u64) -> Instant {
        self.began + Duration::from_secs_f64(call as f64 / self.per_second)
    }

    /// Returns the number of calls that are due by `now`.
    fn calls(&self, now: Instant) -> u64 {
        (now.saturating_duration_since(self.began).as_secs_f64() * self.per_second) as u64 + 1
    }
}

impl OpenLoop {
    /// Starts to release calls at the rate `per_second`. The first call is released immediately.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(per_second: f64) -> std::io::Result<OpenLoop> {
        let schedule = Schedule { began: Instant::now(), per_second };
        let due = Arc::new(Semaphore::new(0));
        let permits = due.clone();
        let thread = std::thread::Builder::new().name("bench-rate".to_owned()).spawn(move || {
            let mut released = 0;
            while !permits.is_closed() {
                let now = Instant::now();
                let calls = schedule.calls(now);
                permits.add_permits((calls - released).min(Semaphore::MAX_PERMITS as u64 / 2) as usize);
                released = calls;
                let wait = schedule.due(calls).saturating_duration_since(now);
                std::thread::park_timeout(wait.clamp(MIN_SLEEP, MAX_SLEEP));
            }
        })?;
        Ok(OpenLoop { schedule, due, sent: Cell::new(0), thread: Some(thread) })
    }

    /// Waits until at least one call is due, and takes all due calls, up to `most`. Returns the scheduled time of the
    /// first call and the number of calls; `None` after [`OpenLoop::stop`].
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, it takes no call.
    pub async fn take(&self, most: usize) -> Option<(Instant, usize)> {
        self.due.acquire().await.ok()?.forget();
        let more = self.due.forget_permits(most - 1);
        let first = self.sent.get();
        self.sent.set(first + 1 + more as u64);
        Some((self.schedule.due(first), 1 + more))
    }

    /// Stops releasing calls.
    pub fn stop(&self) {
        self.due.close();
        self.thread.as_ref().map(JoinHandle::thread).inspect(|thread| Thread::unpark(thread));
    }

    /// Returns the number of calls that were due by `end` and were not sent.
    pub fn unsent(&self, end: Instant) -> u64 {
        self.schedule.calls(end).saturating_sub(self.sent.get())
    }
}

impl Drop for OpenLoop {
    fn drop(&mut self) {
        self.stop();
        // If the thread panicked, the panic has been printed.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn calls_are_due_at_the_rate_even_if_none_is_taken() {
        let open_loop = OpenLoop::start(10_000.0).unwrap();
        let began = open_loop.schedule.began;
        let mut taken = 0;
        while taken < 200 {
            let (due, calls) = open_loop.take(50).await.unwrap();
            assert_eq!(due, began + Duration::from_micros(100) * taken);
            assert!(Instant::now() >= due && (1..=50).contains(&calls));
            taken += calls as u32;
        }
        assert_eq!(open_loop.unsent(began + Duration::from_secs(1)), 10_001 - u64::from(taken));
        open_loop.stop();
        assert!(open_loop.take(1).await.is_none());
    }
}
