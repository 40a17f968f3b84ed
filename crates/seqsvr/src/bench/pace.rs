//! The open loop: calls are due at a rate, whether or not the earlier ones are answered.
//!
//! A call's latency counts from when it was due, so a service that stands still shows in every call that should have been
//! sent meanwhile, and not only in those that were (Gil Tene, "How NOT to Measure Latency", 2013).
//!
//! A thread of its own keeps the time, because timers of a busy runtime are a millisecond late.

use std::cell::Cell;
use std::sync::Arc;
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Longest sleep of the thread: how late it hears that it should end.
const LOOK: Duration = Duration::from_millis(10);

/// Shortest sleep of the thread: calls that are due within it are let go together. Below it the thread would do nothing else.
const GRAIN: Duration = Duration::from_micros(100);

/// Lets calls go when they are due.
#[derive(Debug)]
pub(crate) struct Pace {
    clock: Clock,
    /// A permit for each call that is due and was not sent.
    due: Arc<Semaphore>,
    sent: Cell<u64>,
    thread: Option<JoinHandle<()>>,
}

/// When each call is due.
#[derive(Clone, Copy, Debug)]
struct Clock {
    began: Instant,
    per_second: f64,
}

impl Clock {
    fn due(&self, call: u64) -> Instant {
        self.began + Duration::from_secs_f64(call as f64 / self.per_second)
    }

    /// Calls that are due.
    fn calls(&self, now: Instant) -> u64 {
        (now.saturating_duration_since(self.began).as_secs_f64() * self.per_second) as u64 + 1
    }
}

impl Pace {
    /// Calls at a rate, the first one now.
    pub(crate) fn start(per_second: f64) -> std::io::Result<Pace> {
        let clock = Clock { began: Instant::now(), per_second };
        let due = Arc::new(Semaphore::new(0));
        let permits = due.clone();
        let thread = std::thread::Builder::new().name("bench-pace".to_owned()).spawn(move || {
            let mut let_go = 0;
            while !permits.is_closed() {
                let now = Instant::now();
                let calls = clock.calls(now);
                permits.add_permits((calls - let_go).min(Semaphore::MAX_PERMITS as u64 / 2) as usize);
                let_go = calls;
                let wait = clock.due(calls).saturating_duration_since(now);
                std::thread::park_timeout(wait.clamp(GRAIN, LOOK));
            }
        })?;
        Ok(Pace { clock, due, sent: Cell::new(0), thread: Some(thread) })
    }

    /// Waits until a call is due and takes it, with up to `most` in all that are due by then. Answers when the first of them
    /// was due and how many they are; `None` once the pace was stopped.
    pub(crate) async fn take(&self, most: usize) -> Option<(Instant, usize)> {
        self.due.acquire().await.ok()?.forget();
        let more = self.due.forget_permits(most - 1);
        let first = self.sent.get();
        self.sent.set(first + 1 + more as u64);
        Some((self.clock.due(first), 1 + more))
    }

    /// Lets nothing go any more.
    pub(crate) fn stop(&self) {
        self.due.close();
        self.thread.as_ref().map(JoinHandle::thread).inspect(|thread| Thread::unpark(thread));
    }

    /// Calls that were due by `end` and were not sent.
    pub(crate) fn unsent(&self, end: Instant) -> u64 {
        self.clock.calls(end).saturating_sub(self.sent.get())
    }
}

impl Drop for Pace {
    fn drop(&mut self) {
        self.stop();
        // A panic of the thread has been printed.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn calls_are_due_at_the_rate_also_when_nobody_takes_them() {
        let pace = Pace::start(10_000.0).unwrap();
        let began = pace.clock.began;
        let mut taken = 0;
        while taken < 200 {
            let (due, calls) = pace.take(50).await.unwrap();
            assert_eq!(due, began + Duration::from_micros(100) * taken);
            assert!(Instant::now() >= due && (1..=50).contains(&calls));
            taken += calls as u32;
        }
        assert_eq!(pace.unsent(began + Duration::from_secs(1)), 10_001 - u64::from(taken));
        pace.stop();
        assert!(pace.take(1).await.is_none());
    }
}
