//! Detects that a store lost committed entries, because a response covers fewer commands than an earlier response.
//!
//! A store applies commands in order, and normally never loses a command to which it has responded. So if a process
//! sends a request after it has received a response, the response to this request covers more commands than the earlier
//! response. If it does not, the store has lost committed entries, because its data directories were restored from
//! older copies or a majority of them is gone. The store would then allocate numbers up to a lost ceiling again, so the
//! process must stop before it uses such a response.
//!
//! Two counters are compared. The revision counts all commands of the set. After a loss, commands of other nodes can
//! raise the revision to its earlier value before this process sends its next request. The liveness counter of a node
//! counts only commands of this node's process, so the loss of such a command shows in the next response.
//!
//! A refusal has no counters. Instead, the incarnation or the renewal that a refusal names is compared with the
//! incarnation or the renewal in earlier responses, see [`Refused`].
//!
//! Two kinds of losses are not detected. The first is a loss of entries for which no running process has received a
//! response. The second is a loss that new commands make up for before the process receives its next response. This is
//! the case if the store has applied at least as many new commands as it lost, both of this process and of the whole
//! set.

use crate::id::{Incarnation, Liveness, RenewSeq, Revision};
use crate::state::CommandRefusal;

/// Progress of a store, as one response states it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Number of commands applied for the whole set.
    pub revision: Revision,
    /// The node's liveness counter.
    pub liveness: Liveness,
}

/// A response that does not cover all commands which an earlier response of the same store covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the store is behind an earlier response: revision {} and liveness {} after revision {} and liveness {}; committed \
     entries are lost, as after a restore of old data directories",
    response.revision, response.liveness, seen.revision, seen.liveness
)]
pub struct StoreBehind {
    /// The newest mark when the request was sent.
    pub seen: Mark,
    /// The mark in the response.
    pub response: Mark,
}

/// The highest revision and the highest liveness counter in any response so far. Invariant: neither of them falls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HighWater(Mark);

impl HighWater {
    /// Returns the newest mark. The caller reads the mark before it sends a request, and passes it to
    /// [`HighWater::on_response`] together with the mark in the response.
    #[must_use]
    pub fn mark(&self) -> Mark {
        self.0
    }

    /// Checks `response`, the mark in a response of the store, and remembers it. `seen` is the result of
    /// [`HighWater::mark`] from before the request was sent. `counts` is whether the request was a renewal, a raise or
    /// a transfer, because these commands increase the liveness counter.
    ///
    /// # Errors
    /// [`StoreBehind`] if the response does not cover the commands of `seen`. No part of the response may be used then.
    pub fn on_response(&mut self, seen: Mark, response: Mark, counts: bool) -> Result<(), StoreBehind> {
        let liveness = if counts { response.liveness > seen.liveness } else { response.liveness >= seen.liveness };
        if response.revision <= seen.revision || !liveness {
            return Err(StoreBehind { seen, response });
        }
        let Mark { revision, liveness } = &mut self.0;
        *revision = response.revision.max(*revision);
        *liveness = response.liveness.max(*liveness);
        Ok(())
    }
}

/// A fact in a store's refusal that can show a loss of committed entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The store itself detected that it has not reached the revision in the request.
    Behind,
    /// No such node ever registered.
    UnknownNode,
    /// The newest incarnation of the node.
    Incarnation(Incarnation),
    /// The last renewal in the incarnation.
    Renewal(RenewSeq),
}

impl Refused {
    /// Returns the fact in the refusal of a command that can show a loss; `None` if the refusal has no such fact.
    #[must_use]
    pub fn of(refusal: &CommandRefusal) -> Option<Refused> {
        match refusal {
            CommandRefusal::StoreBehind { .. } => Some(Refused::Behind),
            CommandRefusal::UnknownNode { .. } => Some(Refused::UnknownNode),
            CommandRefusal::OtherIncarnation { current, .. } | CommandRefusal::OtherPredecessor { current, .. } => {
                Some(Refused::Incarnation(*current))
            }
            CommandRefusal::OtherRenewal { current, .. } => Some(Refused::Renewal(*current)),
            _ => None,
        }
    }

    /// Returns whether only a store that lost committed entries can send this refusal. `incarnation` and `renewed` are
    /// the node's incarnation and its last applied renewal according to earlier responses. Without a loss, neither of
    /// these two falls.
    #[must_use]
    pub fn shows_loss(self, incarnation: Incarnation, renewed: RenewSeq) -> bool {
        match self {
            Refused::Behind | Refused::UnknownNode => true,
            Refused::Incarnation(current) => current < incarnation,
            Refused::Renewal(current) => current < renewed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(revision: u64, liveness: u64) -> Mark {
        Mark { revision: Revision(revision), liveness: Liveness(liveness) }
    }

    #[test]
    fn responses_in_any_order_are_taken_in() {
        let mut water = HighWater::default();
        let first = water.mark();
        assert_eq!(water.on_response(first, mark(5, 0), false), Ok(()));
        let both = water.mark();
        assert_eq!(water.on_response(both, mark(9, 2), true), Ok(()), "the second of two requests");
        assert_eq!(water.on_response(both, mark(7, 1), true), Ok(()), "the first, whose response took longer");
        assert_eq!(water.mark(), mark(9, 2));
    }

    #[test]
    fn a_response_behind_an_earlier_one_is_refused() {
        for (response, counts) in [(mark(8, 3), true), (mark(9, 3), true), (mark(30, 2), true), (mark(30, 1), false)] {
            let mut water = HighWater(mark(9, 2));
            let behind = water.on_response(mark(9, 2), response, counts).unwrap_err();
            assert_eq!(behind, StoreBehind { seen: mark(9, 2), response });
            assert_eq!(water.mark(), mark(9, 2), "nothing of it was taken in");
        }
        let mut water = HighWater(mark(9, 2));
        assert_eq!(water.on_response(mark(9, 2), mark(30, 2), false), Ok(()), "a registration moves no liveness");
    }

    #[test]
    fn a_refusal_with_an_older_record_shows_a_loss() {
        for (refused, shows) in [
            (Refused::Behind, true),
            (Refused::UnknownNode, true),
            (Refused::Incarnation(Incarnation(3)), true),
            (Refused::Incarnation(Incarnation(4)), false),
            (Refused::Incarnation(Incarnation(5)), false),
            (Refused::Renewal(RenewSeq(17)), true),
            (Refused::Renewal(RenewSeq(18)), false),
            (Refused::Renewal(RenewSeq(19)), false),
        ] {
            assert_eq!(refused.shows_loss(Incarnation(4), RenewSeq(18)), shows, "{refused:?}");
        }
    }
}
