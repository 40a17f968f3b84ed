//! Faults of one node of a fake cluster, which requests to the node run into.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use seq_core::{Epoch, NodeId, Refusal, SectionId, Seq, SetId, Uid};
use seq_proto::Reason;
use seq_proto::refusals::{Details, RefusedItem};
use tokio::sync::watch;
use tokio::time::Instant;

use super::connections::Connections;

/// The faults of a node.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pending: Mutex<Pending>,
    held: watch::Sender<bool>,
    pub(super) connections: Connections,
}

/// Faults of the next requests.
#[derive(Debug, Default)]
struct Pending {
    refusals: Refusals,
    of_uids: HashMap<u64, Refusals>,
    delay: Duration,
    /// Number of the next requests whose responses are lost.
    lost: u64,
}

/// Refusals of the next requests, in order.
#[derive(Debug, Default)]
struct Refusals(VecDeque<(Reason, u64)>);

impl Refusals {
    fn push(&mut self, reason: Reason, times: u64) {
        self.0.push_back((reason, times));
    }

    fn pop(&mut self) -> Option<Reason> {
        let (reason, times) = self.0.front_mut()?;
        let (reason, left) = (*reason, *times - 1);
        *times = left;
        if left == 0 {
            self.0.pop_front();
        }
        Some(reason)
    }
}

impl Faults {
    /// Refuses the next `times` requests, or the next `times` items of a uid. `times` is 1 or above.
    pub(super) fn refuse(&self, uid: Option<u64>, reason: Reason, times: u64) {
        let mut pending = self.pending.lock();
        match uid {
            Some(uid) => pending.of_uids.entry(uid).or_default().push(reason, times),
            None => pending.refusals.push(reason, times),
        }
    }

    /// Delays each request.
    pub(super) fn delay(&self, delay: Duration) {
        self.pending.lock().delay = delay;
    }

    /// Holds all requests, or releases them.
    pub(super) fn hold(&self, hold: bool) {
        self.held.send_replace(hold);
    }

    /// Loses the responses of the next `times` requests: each request is applied, and then all connections of the node
    /// are cut.
    pub(super) fn lose(&self, times: u64) {
        self.pending.lock().lost += times;
    }

    /// Ends all faults.
    pub(super) fn clear(&self) {
        *self.pending.lock() = Pending::default();
        self.hold(false);
    }

    /// Returns whether no request runs into a fault.
    pub(super) fn is_calm(&self) -> bool {
        let Pending { refusals, of_uids, delay, lost } = &*self.pending.lock();
        refusals.0.is_empty() && of_uids.is_empty() && delay.is_zero() && *lost == 0 && !*self.held.borrow()
    }

    /// Waits for as long as a request is delayed and held, or until its connection is cut. Returns the reason to refuse
    /// the request, if there is one. A request whose deadline has passed in the meantime is refused.
    pub(super) async fn admit(&self, deadline: Instant) -> Option<Reason> {
        let (refusal, delay) = {
            let mut pending = self.pending.lock();
            (pending.refusals.pop(), pending.delay)
        };
        let cut = self.connections.until_cut();
        let mut held = self.held.subscribe();
        let waited = async {
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            // The sender is in `self`, so the wait ends only when the requests are released.
            let _ = held.wait_for(|held| !held).await;
        };
        tokio::select! {
            () = waited => refusal.or_else(|| (Instant::now() >= deadline).then_some(Reason::DeadlinePassed)),
            // No caller gets this refusal. It only ends the request, which must not be applied any more.
            () = cut => Some(Reason::ShuttingDown),
        }
    }

    /// Returns the reason to refuse an item of a uid, if there is one.
    pub(super) fn of_uid(&self, uid: Uid) -> Option<Reason> {
        let mut pending = self.pending.lock();
        let refusals = pending.of_uids.get_mut(&uid.0)?;
        let reason = refusals.pop();
        if refusals.0.is_empty() {
            pending.of_uids.remove(&uid.0);
        }
        reason
    }

    /// Cuts the connections if the response to the present request is to be lost. Its connection fails when the
    /// response is written.
    pub(super) async fn respond(&self) {
        let is_lost = {
            let mut pending = self.pending.lock();
            let is_lost = pending.lost > 0;
            pending.lost -= u64::from(is_lost);
            is_lost
        };
        if is_lost {
            self.connections.cut().await;
        }
    }
}

/// Item of a request, for the text of its refusal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused {
    pub(super) uid: Uid,
    pub(super) section: SectionId,
    pub(super) count: u32,
    pub(super) epoch: Epoch,
}

/// Returns the refusal of an item with a reason; `None` if it is no reason to refuse a call for numbers.
pub(super) fn refusal(reason: Reason, item: Refused) -> Option<Refusal> {
    let Refused { uid, section, count, epoch } = item;
    let (owner, set) = (NodeId(1), SetId(1));
    let refusal = match reason {
        // This reason leaves the outcome open, so a node that receives it does not decode it as a refusal.
        Reason::OwnerTimedOut => Refusal::OwnerTimedOut { section, owner },
        _ => {
            let epoch = epoch.max(Epoch(1));
            let refused = RefusedItem { uid, count, to: Some(0), epoch, section, owner, uids: 0..0 };
            let (since, bound) = (Some(epoch), Some(Seq::ZERO));
            let details = Details { set: Some(set), since, bound, ahead_ms: Some(1_000), text: "" };
            refused.refusal(reason, details)?
        }
    };
    (Reason::of(&refusal) == reason).then_some(refusal)
}

/// Returns the reasons with which calls for numbers can be refused on request.
pub(super) fn reasons() -> impl Iterator<Item = Reason> {
    let any = Refused { uid: Uid(0), section: SectionId(0), count: 1, epoch: Epoch(0) };
    Reason::ALL.iter().copied().filter(move |reason| refusal(*reason, any).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_used_up_in_order() {
        let faults = Faults::default();
        assert!(faults.is_calm());
        faults.refuse(None, Reason::Unserved, 2);
        faults.refuse(None, Reason::ShuttingDown, 1);
        faults.refuse(Some(7), Reason::Exhausted, 1);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let admit = || runtime.block_on(async { faults.admit(Instant::now() + Duration::from_secs(60)).await });
        assert_eq!([admit(), admit()], [Some(Reason::Unserved); 2]);
        assert_eq!([admit(), admit()], [Some(Reason::ShuttingDown), None]);
        assert!(!faults.is_calm(), "the refusal of an item is left");
        assert_eq!(faults.of_uid(Uid(8)), None);
        assert_eq!([faults.of_uid(Uid(7)), faults.of_uid(Uid(7))], [Some(Reason::Exhausted), None]);
        assert!(faults.is_calm());
    }

    #[test]
    fn faults_end_when_they_are_cleared() {
        let faults = Faults::default();
        faults.refuse(None, Reason::Unserved, 2);
        faults.delay(Duration::from_secs(1));
        faults.hold(true);
        faults.lose(1);
        assert!(!faults.is_calm());
        faults.clear();
        assert!(faults.is_calm());
    }

    #[test]
    fn reasons_are_those_of_calls_for_numbers() {
        let all: Vec<Reason> = reasons().collect();
        for reason in [Reason::Unserved, Reason::StaleEpoch, Reason::Exhausted, Reason::OwnerTimedOut, Reason::Moved] {
            assert!(all.contains(&reason), "{reason:?}");
        }
        for reason in [Reason::NoLeader, Reason::UnknownSeries, Reason::Malformed] {
            assert!(!all.contains(&reason), "{reason:?}");
        }
    }
}
