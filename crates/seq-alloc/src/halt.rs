//! Cause for which this process permanently stops serving.
//!
//! There are three causes: another process has registered under its name, the store's set differs from the set file, or
//! the store has lost entries that it had acknowledged. The cause is latched. A store that lost committed entries looks
//! sound again once other processes have written to it, and a process that continued to serve would then allocate
//! numbers twice.

use seq_core::high_water::{Refused, StoreBehind};
use seq_core::owner::Session;
use seq_core::{Incarnation, RenewSeq};
use seq_proto::Reason;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::store_link::StoreError;

/// Cause for which this process no longer serves. The process never serves again, so an operator has to start a new
/// process.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    /// Registration of another process under the same name.
    #[error("another process took the name of this process: it runs at {addr}")]
    Evicted {
        /// Address of the other process, "host:port".
        addr: String,
    },
    /// Different uids or sections in the store's set than in the set file. The uids and sections of a set never change,
    /// so waiting does not help.
    #[error("{what}")]
    OtherSet {
        /// Description of the difference.
        what: String,
    },
    /// Loss of committed entries in the store. No node may serve from this store before an operator has decided what to
    /// do.
    #[error(
        "the store lost entries that it had acknowledged to this process ({evidence}): its data directories were restored \
         from older copies, or most of them are lost; serving would allocate numbers again, so this process serves nothing \
         until it is started again"
    )]
    StoreBehind {
        /// Description of the response that showed the loss.
        evidence: String,
        /// Incarnation in the response whose entries the store lost.
        incarnation: Incarnation,
    },
}

/// Latch of the cause, which is set at most once.
#[derive(Debug)]
pub(crate) struct HaltLatch {
    set: watch::Sender<Option<Halt>>,
    /// Shutdown of the allocator, which its task group or a cause begins. Only the loss of entries in the store does
    /// not begin it, so that the status of the process still shows this loss.
    shutdown: CancellationToken,
}

impl HaltLatch {
    /// Creates a latch that is not set.
    pub(crate) fn new(shutdown: CancellationToken) -> HaltLatch {
        HaltLatch { set: watch::Sender::new(None), shutdown }
    }

    /// Sets the cause, unless a cause is set.
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
            // After the cause is set, so that every task that the shutdown ends can read the cause.
            self.shutdown.cancel();
        }
    }

    /// Returns the token of the allocator's shutdown.
    pub(crate) fn shutdown(&self) -> &CancellationToken {
        &self.shutdown
    }

    /// Returns the cause; `None` if none is set.
    pub(crate) fn get(&self) -> Option<Halt> {
        self.set.borrow().clone()
    }

    /// Returns a receiver of the cause.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<Halt>> {
        self.set.subscribe()
    }

    /// Waits until a cause is set.
    pub(crate) async fn wait(&self) {
        // The sender is owned by this latch, so the wait does not fail.
        let _ = self.set.subscribe().wait_for(Option::is_some).await;
    }

    /// Sets the cause if the store's refusal of a request shows that this process may no longer serve. `session` is the
    /// incarnation that sent the request, `renewed` its last renewal that got a response, and `addr` the address of
    /// this process.
    pub(crate) fn judge(&self, session: Session, renewed: RenewSeq, addr: &str, error: &StoreError) {
        if let Some(halt) = judge(session, renewed, addr, error) {
            self.set(halt);
        }
    }

    /// Sets the cause that the store's set differs from the set file.
    pub(crate) fn other_set(&self, what: String) {
        self.set(Halt::OtherSet { what });
    }

    /// Judges a store's refusal of a handover whose target is in another incarnation. The store had reported the target
    /// in incarnation `target`, and the refusal names incarnation `current`. If `current` is the earlier of the two,
    /// the store lost entries. Then the commit of the handover may be among the lost entries, so the section must not
    /// be thawed. Returns whether this process may no longer serve.
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
            // A registration under this process' own name and address, as after a lost response.
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
