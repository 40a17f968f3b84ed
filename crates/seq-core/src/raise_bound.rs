//! Bounds the raises of a request at the leader of the store, before they are proposed.
//!
//! **Invariant:** no raise moves a ceiling by more than its distance here, or, for ticks, above the highest ceiling at
//! the time of the store. The distance is counted from the committed ceiling as read here; ceilings never fall, so an
//! applied raise moves the ceiling by this distance at most. A raise whose ownership is not on record has no distance,
//! so that a node cannot exhaust the bucket of another node's section in [`raise_rate`](crate::raise_rate). It moves
//! nothing either: its target is lowered to the ceiling as read, in case the ownership begins before the raise is
//! applied.
//!
//! The bounds are part of no command, because a command that was proposed may be applied much later.

use alloc::vec::Vec;

use crate::id::{SectionId, Seq};
use crate::limits;
use crate::owner::Session;
use crate::state::{Raise, SectionRecord, State};

/// The largest distances by which raises of one request move the ceilings of their sections.
pub type Distances = Vec<(SectionId, u64)>;

/// Raises of one request whose target was lowered because their ownership is not on record, each with its position in
/// the request and its requested target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lowered(Vec<(usize, Seq)>);

impl Lowered {
    /// Returns the position of the first such raise that was accepted all the same, because its ownership began after
    /// it was looked up. The request is to be repeated then. `ceilings` are the committed ceilings, in the order of the
    /// request.
    #[must_use]
    pub fn first_accepted(&self, ceilings: &[Option<Seq>]) -> Option<usize> {
        let accepted = |(index, requested): &(usize, Seq)| {
            ceilings.get(*index).copied().flatten().is_some_and(|ceiling| ceiling < *requested)
        };
        self.0.iter().find(|one| accepted(one)).map(|(index, _)| *index)
    }
}

/// Returns the largest distance by which each raise by the owner on record moves its ceiling, and lowers the targets of
/// all other raises to the committed ceiling. A raise of ticks has no distance: its target is lowered to the highest
/// ceiling at this time of the store, in milliseconds since 1970.
pub fn bound(state: &State, session: Session, raises: &mut [Raise], unix_ms: u64) -> (Distances, Lowered) {
    let layout = state.set.as_ref().map(|set| &set.layout);
    let (mut distances, mut lowered) = (Vec::with_capacity(raises.len()), Vec::new());
    for (index, raise) in raises.iter_mut().enumerate() {
        let committed = committed(state, raise.section);
        let owns = state.sections.resident(raise.section).is_some_and(|record| {
            record.owner == Some(session.node)
                && record.incarnation == session.incarnation
                && record.epoch == raise.epoch
        });
        if let Some(clock) = layout.and_then(|layout| layout.clock_of(raise.section)).filter(|_| owns) {
            // A raise that is cut short is no refusal: the owner requests again.
            raise.to = raise.to.min(clock.clamp(unix_ms));
        } else if owns {
            distances.push((raise.section, raise.to.0.saturating_sub(committed.0).min(limits::MAX_RAISE)));
        } else if raise.to > committed {
            lowered.push((index, raise.to));
            raise.to = committed;
        }
    }
    (distances, Lowered(lowered))
}

/// Returns the committed ceiling of a section; 0 if the set has no record of it.
#[must_use]
pub fn committed(state: &State, section: SectionId) -> Seq {
    state.sections.get(section).map_or(Seq::ZERO, SectionRecord::max_seq)
}

#[cfg(all(test, not(loom)))]
mod tests;
