//! Budget for the memory that requests and their unread responses may hold in a node, in bytes.
//!
//! Three quarters of the budget are shared by all connections, and one quarter is guaranteed: every connection that the
//! node admits can hold its part of the guaranteed quarter, independently of other connections. Of the shared part, a
//! connection may hold a fraction of the bytes that are *free*, so the fewer bytes are free, the less may each
//! connection hold (dynamic thresholds: Choudhury and Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet
//! Switches", IEEE/ACM Transactions on Networking 6(2), 1998). If a hundred connections, one after another, take as
//! much as they can and release nothing, 4 % of the shared part remain free.
//!
//! **Invariant:** the number of used bytes of a budget is the sum of all its charges, and the number of used bytes of
//! an account is the sum of the account's charges. A dropped charge is no longer in these sums.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use metrics::{Counter, Gauge};

/// Divisor of the budget. One part in `GUARANTEED` is guaranteed to connections.
const GUARANTEED: usize = 4;

/// Divisor of the free shared memory. A connection may hold at most one part in `SHARE` of it.
const SHARE: usize = 32;

/// The memory of a node. Clones share it.
#[derive(Clone)]
pub struct MemoryBudget(Arc<Node>);

struct Node {
    /// Shared bytes.
    shared: usize,
    /// Bytes that every connection may hold even if no shared memory is free.
    guaranteed: usize,
    used: AtomicUsize,
    metrics: MemoryMetrics,
}

/// The metrics of a budget.
#[derive(Clone)]
pub struct MemoryMetrics {
    /// Bytes that connections hold at present.
    pub used: Gauge,
    /// Requests refused because they did not fit into the memory left for their connection.
    pub refused: Counter,
}

/// Error of a request that does not fit into the memory that is left for its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node has no memory left for another request of this connection")]
pub struct OutOfMemory;

impl MemoryBudget {
    /// Creates a budget of `most` bytes for up to `connections` connections.
    ///
    /// # Panics
    /// If `connections` is 0.
    #[must_use]
    pub fn new(most: usize, connections: usize, metrics: MemoryMetrics) -> MemoryBudget {
        let guaranteed = most / GUARANTEED / connections;
        let shared = most - guaranteed * connections;
        MemoryBudget(Arc::new(Node { shared, guaranteed, used: AtomicUsize::new(0), metrics }))
    }

    /// Creates a budget that is so large that no charge exceeds it. No metric records its use.
    #[must_use]
    pub fn unlimited() -> MemoryBudget {
        MemoryBudget::new(usize::MAX, 1, MemoryMetrics { used: Gauge::noop(), refused: Counter::noop() })
    }

    /// Creates the account of a new connection.
    #[must_use]
    pub fn account(&self) -> Account {
        Account(Arc::new(Connection { budget: self.clone(), used: AtomicUsize::new(0) }))
    }

    /// Returns the number of bytes that all connections together hold.
    #[must_use]
    pub fn used(&self) -> usize {
        self.0.used.load(Relaxed)
    }

    /// Brings the gauge up to date.
    pub fn publish(&self) {
        self.0.metrics.used.set(self.used() as f64);
    }
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBudget")
            .field("shared", &self.0.shared)
            .field("used", &self.used())
            .finish_non_exhaustive()
    }
}

/// The memory that a connection holds. Clones belong to the same connection.
#[derive(Clone, Debug)]
pub struct Account(Arc<Connection>);

#[derive(Debug)]
struct Connection {
    budget: MemoryBudget,
    used: AtomicUsize,
}

impl Account {
    /// Charges `bytes` further bytes to the connection, if its limit allows them. The connection holds them until the
    /// returned charge is dropped.
    ///
    /// # Errors
    /// [`OutOfMemory`]
    pub fn charge(&self, bytes: usize) -> Result<Charge, OutOfMemory> {
        let charge = self.empty();
        charge.grow(bytes).map(|()| charge)
    }

    /// Charges `bytes` bytes to the connection even if this exceeds its limit, because the bytes are already in memory.
    #[must_use]
    pub fn charge_present(&self, bytes: usize) -> Charge {
        let charge = self.empty();
        charge.set(bytes);
        charge
    }

    fn empty(&self) -> Charge {
        Charge { account: self.clone(), bytes: AtomicUsize::new(0) }
    }

    fn add(&self, bytes: usize) -> (usize, usize) {
        let own = self.0.used.fetch_add(bytes, Relaxed) + bytes;
        (own, self.0.budget.0.used.fetch_add(bytes, Relaxed) + bytes)
    }

    fn remove(&self, bytes: usize) {
        self.0.used.fetch_sub(bytes, Relaxed);
        self.0.budget.0.used.fetch_sub(bytes, Relaxed);
    }
}

/// Bytes that a connection holds until the charge is dropped.
#[derive(Debug)]
pub struct Charge {
    account: Account,
    bytes: AtomicUsize,
}

impl Charge {
    /// Returns the account that holds the bytes.
    #[must_use]
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Adds `bytes` bytes to the charge, if the limit of the connection allows them. Otherwise changes nothing.
    ///
    /// # Errors
    /// [`OutOfMemory`]
    pub fn grow(&self, bytes: usize) -> Result<(), OutOfMemory> {
        let node = &self.account.0.budget.0;
        let (own, used) = self.account.add(bytes);
        if own <= node.guaranteed || node.shared.checked_sub(used).is_some_and(|free| own <= free / SHARE) {
            self.bytes.fetch_add(bytes, Relaxed);
            return Ok(());
        }
        self.account.remove(bytes);
        node.metrics.refused.increment(1);
        Err(OutOfMemory)
    }

    /// Sets the charge to `bytes` bytes, even if this exceeds the connection's limit, because the bytes are already in
    /// memory.
    pub fn set(&self, bytes: usize) {
        if self.bytes.load(Relaxed) == bytes {
            return;
        }
        let before = self.bytes.swap(bytes, Relaxed);
        if bytes > before {
            self.account.add(bytes - before);
        } else {
            self.account.remove(before - bytes);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.remove(*self.bytes.get_mut());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CONNECTIONS: usize = 1_000;

    fn budget(most: usize) -> MemoryBudget {
        MemoryBudget::new(most, CONNECTIONS, MemoryMetrics { used: Gauge::noop(), refused: Counter::noop() })
    }

    /// Charges as much as an account can get, in pieces of `piece` bytes.
    fn hoard(account: &Account, piece: usize) -> Vec<Charge> {
        std::iter::from_fn(|| account.charge(piece).ok()).collect()
    }

    #[test]
    fn greedy_connections_leave_memory_for_others() {
        const MOST: usize = 256 << 20;
        let node = budget(MOST);
        let greedy: Vec<_> = (0..100).map(|_| hoard(&node.account(), 16 << 10)).collect();
        assert!(greedy[0].len() > 300, "{}", greedy[0].len());
        assert!(node.account().charge(200 << 10).is_ok(), "{} bytes are held", node.used());
        // There are as many connections as the node admits. Each gets its guaranteed bytes, and all together hold no
        // more than the node's memory.
        let rest: Vec<_> = (100..CONNECTIONS).map(|_| hoard(&node.account(), 1 << 10)).collect();
        assert!(rest.iter().all(|held| held.len() >= 64), "{:?}", rest.iter().map(Vec::len).min());
        assert!(node.used() <= MOST, "{} bytes are held", node.used());
        drop((greedy, rest));
        assert_eq!(node.used(), 0);
    }

    #[test]
    fn a_charge_follows_what_is_there() {
        let node = budget(1 << 20);
        let charge = node.account().charge(10).unwrap();
        charge.grow(100).unwrap();
        assert_eq!(charge.grow(2 << 20), Err(OutOfMemory));
        assert_eq!(node.used(), 110, "a refused charge changes nothing");
        charge.set(2 << 20);
        assert_eq!(node.used(), 2 << 20, "what is there counts");
        assert_eq!(node.account().charge(1_000).unwrap_err(), OutOfMemory);
        charge.set(1);
        assert_eq!(node.used(), 1);
        drop(charge);
        assert_eq!(node.used(), 0);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Charge(usize, usize),
        Grow(usize, usize),
        Set(usize, usize),
        Drop(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let (connection, bytes, charge) = (0..4usize, 0..40_000usize, any::<usize>());
        let step = prop_oneof![
            (connection, bytes.clone()).prop_map(|(at, bytes)| Step::Charge(at, bytes)),
            (charge, bytes.clone()).prop_map(|(at, bytes)| Step::Grow(at, bytes)),
            (charge, bytes).prop_map(|(at, bytes)| Step::Set(at, bytes)),
            charge.prop_map(Step::Drop),
        ];
        prop::collection::vec(step, 0..60)
    }

    proptest! {
        /// Checks that the account makes the same decisions as a list of charges that is summed up again for every
        /// decision.
        #[test]
        fn it_agrees_with_a_list_of_charges(steps in steps()) {
            const MOST: usize = 1 << 20;
            let node = budget(MOST);
            let accounts: Vec<_> = (0..4).map(|_| node.account()).collect();
            let mut charges: Vec<(usize, usize, Charge)> = Vec::new();
            let fits = |charges: &[(usize, usize, Charge)], at: usize, bytes: usize| {
                let sum = |own: Option<usize>| -> usize {
                    charges.iter().filter(|(of, ..)| own.is_none_or(|own| own == *of)).map(|(_, bytes, _)| bytes).sum()
                };
                let (own, used) = (sum(Some(at)) + bytes, sum(None) + bytes);
                let guaranteed = MOST / 4 / CONNECTIONS;
                let shared = MOST - guaranteed * CONNECTIONS;
                own <= guaranteed || used <= shared && own <= (shared - used) / 32
            };
            for step in steps {
                let index = |at: usize, charges: &[_]| (!charges.is_empty()).then(|| at % charges.len());
                match step {
                    Step::Charge(at, bytes) => {
                        let expected = fits(&charges, at, bytes);
                        let charge = accounts[at].charge(bytes);
                        prop_assert_eq!(charge.is_ok(), expected);
                        charges.extend(charge.ok().map(|charge| (at, bytes, charge)));
                    }
                    Step::Grow(at, bytes) => {
                        let Some(at) = index(at, &charges) else { continue };
                        let expected = fits(&charges, charges[at].0, bytes);
                        prop_assert_eq!(charges[at].2.grow(bytes).is_ok(), expected);
                        charges[at].1 += if expected { bytes } else { 0 };
                    }
                    Step::Set(at, bytes) => {
                        let Some(at) = index(at, &charges) else { continue };
                        charges[at].2.set(bytes);
                        charges[at].1 = bytes;
                    }
                    Step::Drop(at) => {
                        let Some(at) = index(at, &charges) else { continue };
                        charges.swap_remove(at);
                    }
                }
                prop_assert_eq!(node.used(), charges.iter().map(|(_, bytes, _)| bytes).sum::<usize>());
            }
        }
    }
}
