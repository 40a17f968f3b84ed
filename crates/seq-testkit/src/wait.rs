//! Waits for conditions, each with a time limit.

use std::time::{Duration, Instant};

/// Time limit of a wait. It is generous because the machine may run a build at the same time.
pub const TIMEOUT: Duration = Duration::from_secs(90);

/// Interval between evaluations of a condition about other processes. It is longer than [`TASKS`] because an evaluation
/// may itself start a process.
const PROCESSES: Duration = Duration::from_millis(20);

/// Interval between evaluations of a condition about the test's own process.
const TASKS: Duration = Duration::from_millis(5);

/// Evaluates `condition` repeatedly until it returns a value, and returns that value. Blocks the thread between
/// evaluations, so it is for conditions about other processes.
///
/// # Panics
///
/// If the condition does not hold within [`TIMEOUT`]; the message names the condition.
pub fn eventually<T>(what: &str, condition: impl FnMut() -> Option<T>) -> T {
    eventually_within(TIMEOUT, what, condition)
}

/// Works like [`eventually`], but with `limit` in place of [`TIMEOUT`].
///
/// # Panics
///
/// If the condition does not hold within the limit; the message names the condition.
pub fn eventually_within<T>(limit: Duration, what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::park_timeout(PROCESSES);
    }
}

/// Evaluates `condition` repeatedly until it returns a value, and returns that value. Sleeps on the clock of the
/// runtime between evaluations, so it is for conditions about the test's own process, also in simulated time.
///
/// # Panics
///
/// If the condition does not hold within [`TIMEOUT`]; the message names the condition.
pub async fn until<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let held = async {
        loop {
            if let Some(value) = condition().await {
                return value;
            }
            tokio::time::sleep(TASKS).await;
        }
    };
    tokio::time::timeout(TIMEOUT, held).await.unwrap_or_else(|_| panic!("not within {TIMEOUT:?}: {what}"))
}
