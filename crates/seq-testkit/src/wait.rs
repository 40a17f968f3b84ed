//! Waits for conditions, each with a time limit.

use std::time::{Duration, Instant};

/// Time limit of a wait. It is generous because the machine may run a build at the same time.
pub const TIMEOUT: Duration = Duration::from_secs(90);

/// Interval between evaluations of a condition about processes. It is longer than [`TASKS`] because an evaluation may
/// start a process itself.
const PROCESSES: Duration = Duration::from_millis(20);

/// Interval between evaluations of a condition inside the process.
const TASKS: Duration = Duration::from_millis(5);

/// Evaluates a condition about processes repeatedly until it returns a value, and returns that value.
///
/// # Panics
///
/// If the condition does not hold within [`TIMEOUT`]; the message names the condition.
pub fn eventually<T>(what: &str, condition: impl FnMut() -> Option<T>) -> T {
    eventually_within(TIMEOUT, what, condition)
}

/// Works like [`eventually`], with another time limit.
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

/// Evaluates a condition about the test's own process repeatedly until it returns a value, and returns that value. It
/// is for use in a task; the time of the task may be simulated.
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
