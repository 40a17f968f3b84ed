//! The retry budget: retries may add a fifth to a client's calls, no more.
//!
//! When a node or a set fails, every caller wants to repeat; without a bound the repeats are the load that keeps it down.
//! Calls earn, retries spend. A small income by time lets a quiet client ride out a change of owner.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use tokio::time::Instant;

/// What one call earns, in retries: 20 %.
pub(crate) const RETRY_RATIO: f64 = 0.2;

/// What a second earns, in retries: one caller who retries at the longest backoff, several times over.
pub(crate) const RETRIES_PER_SECOND: f64 = 10.0;

/// Most retries that can be saved up, and what a new client starts with: the callers of one busy process, once each. They
/// come together when a stream breaks that carried them all.
pub(crate) const MAX_SAVED_RETRIES: f64 = 1_000.0;

/// What a client may still spend on retries.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Calls since the account was last looked at: the only thing that a call which succeeds writes.
    calls: AtomicU64,
    account: Mutex<Account>,
}

#[derive(Debug)]
struct Account {
    saved: f64,
    looked_at: Instant,
}

impl Budget {
    /// A full budget.
    pub(crate) fn new(now: Instant) -> Budget {
        Budget { calls: AtomicU64::new(0), account: Mutex::new(Account { saved: MAX_SAVED_RETRIES, looked_at: now }) }
    }

    /// Notes a call that is sent for the first time.
    pub(crate) fn earn(&self) {
        self.calls.fetch_add(1, Relaxed);
    }

    /// Takes one retry; answers whether there was one.
    pub(crate) fn spend(&self, now: Instant) -> bool {
        let mut account = self.account.lock();
        let calls = self.calls.swap(0, Relaxed) as f64;
        let seconds = now.saturating_duration_since(account.looked_at).as_secs_f64();
        let earned = calls * RETRY_RATIO + seconds * RETRIES_PER_SECOND;
        account.saved = (account.saved + earned).min(MAX_SAVED_RETRIES);
        account.looked_at = now;
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
    fn a_full_budget_ends_and_calls_earn_a_fifth() {
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
    fn time_earns_for_a_quiet_client() {
        let now = Instant::now();
        let budget = Budget::new(now);
        spend_all(&budget, now);
        assert_eq!(spend_all(&budget, now + Duration::from_millis(550)), 5);
        assert_eq!(spend_all(&budget, now + Duration::from_secs(3_600)), 1_000);
    }
}
