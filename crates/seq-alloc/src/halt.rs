//! Cause for which this process permanently stops serving.
//!
//! There are four causes: another process has registered under this process' name, the set in the store differs from
//! the set file, the store has lost entries that it had acknowledged, or this process was reported dead. Once a cause
//! is set, it is never replaced or removed. The reason is that a store which lost committed entries looks intact again
//! after other processes have written to it. If this process then served again, it would allocate numbers twice.

use seq_api::node_events::NodeEvents;
use seq_core::high_water::{Refused, StoreBehind};
use seq_core::node_events::Fact;
use seq_core::owner::Session;
use seq_core::{Incarnation, RenewSeq};
use seq_proto::Reason;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::store_link::StoreError;

/// Cause for which this process no longer serves. The process never serves again. An operator has to start a new
/// process.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    /// Registration of another process under the same name.
    #[error("another process took the name of this process: it runs at {addr}")]
    Evicted {
        /// Address of the other process, "host:port".
        addr: String,
    },
    /// Difference between the uids or sections of the set in the store and those in the set file. The uids and sections
    /// of a set never change, so waiting does not help.
    #[error("{what}")]
    OtherSet {
        /// Description of the difference.
        what: String,
    },
    /// Report of the death of this process, although it runs. Its sections have other owners without a wait, so this
    /// process must not serve them.
    #[error(
        "this process was reported dead: only its parent may report that, after it has reaped the process; the process is \
         to be started again"
    )]
    ReportedDead,
    /// Loss of committed entries by the store. No node may serve numbers from this store until an operator has decided
    /// what to do.
    #[error(
        "the store lost entries that it had acknowledged to this process ({evidence}): its data directories were restored \
         from older copies, or most of them are lost; serving would allocate numbers again, so this process serves nothing \
         until it is started again"
    )]
    StoreBehind {
        /// Description of the response that showed the loss.
        evidence: String,
        /// Incarnation whose entries the store lost: an incarnation of this process, or of the target of a handover.
        incarnation: Incarnation,
    },
}

/// Latch of the cause for which this process no longer serves. It is set at most once.
#[derive(Debug)]
pub(crate) struct HaltLatch {
    set: watch::Sender<Option<Halt>>,
    /// Token of the allocator's shutdown. The shutdown is begun by the task group, or when a cause is set. A cause of
    /// the kind [`Halt::StoreBehind`] does not begin it, so that the process keeps running and its status shows the
    /// loss.
    shutdown: CancellationToken,
    events: NodeEvents,
}

impl HaltLatch {
    /// Creates a latch that is not set.
    pub(crate) fn new(shutdown: CancellationToken, events: NodeEvents) -> HaltLatch {
        HaltLatch { set: watch::Sender::new(None), shutdown, events }
    }

    /// Sets the cause, unless a cause is set.
    fn set(&self, halt: Halt) {
        let ends = !matches!(halt, Halt::StoreBehind { .. });
        let first = self.set.send_if_modified(|current| {
            let first = current.is_none();
            if first {
                let event = self.events.note(Fact::Halted { cause: &halt.to_string() });
                tracing::error!(event, reason = %halt, "this process no longer serves");
                *current = Some(halt);
            }
            first
        });
        if first && ends {
            // The shutdown begins after the cause is set, so that every task that it ends can read the cause.
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
        // This latch owns the sender, so the wait cannot fail.
        let _ = self.set.subscribe().wait_for(Option::is_some).await;
    }

    /// Sets the cause if `error`, the store's response to a request, shows that this process may no longer serve.
    /// `session` is the session that sent the request, `renewed` the number of its last renewal that got a response,
    /// and `addr` the address of this process.
    pub(crate) fn judge(&self, session: Session, renewed: RenewSeq, addr: &str, error: &StoreError) {
        if let Some(halt) = judge(session, renewed, addr, error) {
            self.set(halt);
        }
    }

    /// Sets the cause to [`Halt::OtherSet`] with the description `what`.
    pub(crate) fn other_set(&self, what: String) {
        self.set(Halt::OtherSet { what });
    }

    /// Handles the store's refusal of a handover because the target node is in another incarnation than the request
    /// names. The store had earlier reported the target in incarnation `target`, and its refusal names incarnation
    /// `current`. If `current` is the earlier of the two, the store lost entries, and the commit of this handover may
    /// be among them. Then this process may no longer serve, and the section must stay frozen. Returns whether this is
    /// so.
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
        Reason::ProcessDied => return Some(Halt::ReportedDead),
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
            (over("PROCESS_DIED", 0, ""), Some(Halt::ReportedDead)),
            // A registration under this process' own name and address, as after a lost response.
            (over("OTHER_INCARNATION", 5, "a:1"), None),
        ] {
            assert_eq!(judge(session, RenewSeq(18), "a:1", &error), expected, "{error}");
        }
    }

    #[test]
    fn a_target_in_an_earlier_incarnation_than_reported_is_a_loss() {
        let latch = HaltLatch::new(CancellationToken::new(), NodeEvents::default());
        for current in [3, 4] {
            assert!(!latch.judge_target(Incarnation(3), Incarnation(current), "m".into()));
            assert_eq!(latch.get(), None);
        }
        assert!(latch.judge_target(Incarnation(3), Incarnation(2), "m".into()));
        assert_eq!(latch.get(), Some(Halt::StoreBehind { evidence: "m".into(), incarnation: Incarnation(3) }));
    }
}
