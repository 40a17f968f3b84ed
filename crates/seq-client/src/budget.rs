//! The retry budget of a set. It limits a client's retries to about 20 % of the client's other requests to the set.
//!
//! When a node or a set fails, all its callers retry their requests. Without a limit, these retries would keep the node
//! or the set overloaded. Each call adds to the budget's balance, and each retry takes from it. The balance also grows
//! by a small amount each second, so that a client that makes few calls can retry during a change of owner.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use tokio::time::Instant;

/// Retries that each call earns: 20 %.
pub(crate) const RETRY_RATIO: f64 = 0.2;

/// Retries that are added to the balance each second. They are enough for several callers that retry at the longest
/// backoff.
pub(crate) const RETRIES_PER_SECOND: f64 = 10.0;

/// Largest balance, in retries. It is also the first balance of a new client. It allows one retry for each caller in a
/// busy process, because the break of a stream causes a retry of all calls in the stream at once.
pub(crate) const MAX_SAVED_RETRIES: f64 = 1_000.0;

/// Retries that a client may still make to a set.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Number of calls that have not been added to the balance yet. A call whose first attempt succeeds changes only
    /// this field.
    calls: AtomicU64,
    account: Mutex<Account>,
}

#[derive(Debug)]
struct Account {
    saved: f64,
    updated_at: Instant,
}

impl Budget {
    /// Creates a full budget.
    pub(crate) fn new(now: Instant) -> Budget {
        Budget { calls: AtomicU64::new(0), account: Mutex::new(Account { saved: MAX_SAVED_RETRIES, updated_at: now }) }
    }

    /// Counts a call at its first attempt.
    pub(crate) fn earn(&self) {
        self.calls.fetch_add(1, Relaxed);
    }

    /// Takes one retry; returns `false` if the budget is exhausted.
    pub(crate) fn spend(&self, now: Instant) -> bool {
        let mut account = self.account.lock();
        let calls = self.calls.swap(0, Relaxed) as f64;
        let seconds = now.saturating_duration_since(account.updated_at).as_secs_f64();
        let earned = calls * RETRY_RATIO + seconds * RETRIES_PER_SECOND;
        account.saved = (account.saved + earned).min(MAX_SAVED_RETRIES);
        account.updated_at = now;
        let granted = account.saved >= 1.0;
        if granted {
            account.saved -= 1.0;
        }
        granted
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn spend_all(budget: &Budget, now: Instant) -> u32 {
        (0..).find(|_| !budget.spend(now)).expect("a budget ends")
    }

    #[test]
    fn a_full_budget_is_exhausted_and_calls_earn_a_fifth() {
        let now = Instant::now();
        let budget = Budget::new(now);
        assert_eq!(spend_all(&budget, now), 1_000);
        assert_eq!(spend_all(&budget, now), 0);
        (0..50).for_each(|_| budget.earn());
        assert_eq!(spend_all(&budget, now), 10);
        (0..1_000_000).for_each(|_| budget.earn());
        assert_eq!(spend_all(&budget, now), 1_000);
    }

    #[test]
    fn time_earns_for_an_idle_client() {
        let now = Instant::now();
        let budget = Budget::new(now);
        spend_all(&budget, now);
        assert_eq!(spend_all(&budget, now + Duration::from_millis(550)), 5);
        assert_eq!(spend_all(&budget, now + Duration::from_secs(3_600)), 1_000);
    }
}
