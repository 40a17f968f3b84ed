//! Why this process no longer serves, for good.
//!
//! Three things end its work: another process took its name, the set of the store is not that of its set file, or the
//! store lost entries that it had reported. They are latched: a store that lost committed entries looks sound again
//! once others have written to it, and a process that went on would give out numbers twice.

use seq_core::high_water::{Refused, StoreBehind};
use seq_core::owner::Session;
use seq_core::{Incarnation, RenewSeq};
use seq_proto::Reason;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::store_link::StoreError;

/// Why this process no longer serves. It stays so until an operator starts another one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    /// Another process registered under this one's name.
    #[error("another process took the name of this one: it runs at {addr}")]
    Evicted {
        /// Its address, "host:port".
        addr: String,
    },
    /// The store's set has other uids or sections than the set file. They never change, so waiting does not help.
    #[error("{what}")]
    OtherSet {
        /// What differs.
        what: String,
    },
    /// The store lost committed entries. It must not be served from before an operator has decided what to do.
    #[error(
        "the store lost what it had answered to this process ({evidence}): its data directories were restored from older \
         copies, or most of them are lost; serving would give numbers out again, so this process serves nothing until it is \
         started again"
    )]
    StoreBehind {
        /// What showed it.
        evidence: String,
        /// The incarnation of the response that is lost.
        incarnation: Incarnation,
    },
}

/// Set at most once.
#[derive(Debug)]
pub(crate) struct HaltLatch {
    set: watch::Sender<Option<Halt>>,
    /// The allocator's shutdown. A process whose store lost entries stays, and shows what it knows; any other ends.
    shutdown: CancellationToken,
}

impl HaltLatch {
    /// Not set.
    pub(crate) fn new(shutdown: CancellationToken) -> HaltLatch {
        HaltLatch { set: watch::Sender::new(None), shutdown }
    }

    /// The first reason counts.
    fn set(&self, halt: Halt) {
        let ends = !matches!(halt, Halt::StoreBehind { .. });
        let first = self.set.send_if_modified(|current| {
            let first = current.is_none();
            if first {
                tracing::error!(reason = %halt, "this process no longer serves");
                *current = Some(halt);
            }
            first
        });
        if first && ends {
            // After the reason: what stops because of it can read why.
            self.shutdown.cancel();
        }
    }

    /// The reason, once there is one.
    pub(crate) fn get(&self) -> Option<Halt> {
        self.set.borrow().clone()
    }

    /// Follows it.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<Halt>> {
        self.set.subscribe()
    }

    /// Waits until it is set.
    pub(crate) async fn wait(&self) {
        // The sender is held here, so this does not fail.
        let _ = self.set.subscribe().wait_for(Option::is_some).await;
    }

    /// Judges the store's refusal of a request of an incarnation, whose last renewal with a response was `renewed`, of
    /// a process that is reached at `addr`.
    pub(crate) fn judge(&self, session: Session, renewed: RenewSeq, addr: &str, error: &StoreError) {
        if let Some(halt) = judge(session, renewed, addr, error) {
            self.set(halt);
        }
    }

    /// The store's set is not that of the set file.
    pub(crate) fn other_set(&self, what: String) {
        self.set(Halt::OtherSet { what });
    }

    /// Judges the refusal of a handover because its target, which the store had reported in incarnation `target`, is in
    /// incarnation `current`. Returns whether this process may no longer serve: a store in which `current` is the
    /// earlier one lost entries. The handover may have been committed among them, so its section must not be thawed.
    pub(crate) fn judge_target(&self, target: Incarnation, current: Incarnation, message: String) -> bool {
        let lost = Refused::Incarnation(current).shows_loss(target, RenewSeq(0));
        if lost {
            self.set(Halt::StoreBehind { evidence: message, incarnation: target });
        }
        lost
    }
}

fn judge(session: Session, renewed: RenewSeq, addr: &str, error: &StoreError) -> Option<Halt> {
    let incarnation = session.incarnation;
    let behind = |evidence: &dyn ToString| Some(Halt::StoreBehind { evidence: evidence.to_string(), incarnation });
    let (reason, message, current, other) = match error {
        StoreError::Behind(evidence @ StoreBehind { .. }) => return behind(evidence),
        StoreError::SessionOver { reason, message, current, addr }
        | StoreError::Refused { reason, message, current, addr } => (Reason::parse(reason)?, message, *current, addr),
        StoreError::TooFast { .. } | StoreError::NoLeader { .. } => return None,
    };
    let refused = match reason {
        Reason::StoreBehind => Refused::Behind,
        Reason::UnknownNode => Refused::UnknownNode,
        Reason::OtherIncarnation | Reason::OtherPredecessor => Refused::Incarnation(Incarnation(current)),
        Reason::OtherRenewal => Refused::Renewal(RenewSeq(current)),
        _ => return None,
    };
    match refused {
        refused if refused.shows_loss(session.incarnation, renewed) => behind(message),
        Refused::Incarnation(_) if !other.is_empty() && other != addr => Some(Halt::Evicted { addr: other.clone() }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use seq_core::{Incarnation, NodeId};

    use super::*;

    #[test]
    fn a_response_that_shows_lost_entries_is_distinguished_from_the_rest() {
        let session = Session { node: NodeId(1), incarnation: Incarnation(4) };
        let over = |reason: &str, current, addr: &str| StoreError::SessionOver {
            reason: reason.into(),
            message: "m".into(),
            current,
            addr: addr.into(),
        };
        let behind = Some(Halt::StoreBehind { evidence: "m".into(), incarnation: Incarnation(4) });
        let evicted = Some(Halt::Evicted { addr: "b:1".into() });
        for (error, expected) in [
            (over("OTHER_RENEWAL", 6, ""), behind.clone()),
            (over("OTHER_RENEWAL", 19, ""), None),
            (over("OTHER_INCARNATION", 3, "a:1"), behind.clone()),
            (over("OTHER_PREDECESSOR", 3, ""), behind.clone()),
            (over("OTHER_PREDECESSOR", 5, ""), None),
            (over("UNKNOWN_NODE", 0, ""), behind),
            (over("OTHER_INCARNATION", 5, "b:1"), evicted),
            // A registration in this process' own name, as after a lost response.
            (over("OTHER_INCARNATION", 5, "a:1"), None),
        ] {
            assert_eq!(judge(session, RenewSeq(18), "a:1", &error), expected, "{error}");
        }
    }

    #[test]
    fn a_target_in_an_earlier_incarnation_than_reported_is_a_loss() {
        let latch = HaltLatch::new(CancellationToken::new());
        for current in [3, 4] {
            assert!(!latch.judge_target(Incarnation(3), Incarnation(current), "m".into()));
            assert_eq!(latch.get(), None);
        }
        assert!(latch.judge_target(Incarnation(3), Incarnation(2), "m".into()));
        assert_eq!(latch.get(), Some(Halt::StoreBehind { evidence: "m".into(), incarnation: Incarnation(3) }));
    }
}
