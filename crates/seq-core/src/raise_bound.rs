//! Limits the raises of a request at the store's leader, before the leader proposes them.
//!
//! **Invariant:** no raise moves a ceiling by more than the distance that is computed here. A raise of lanes with a
//! clock has no distance. It moves the ceiling at most to the highest ceiling that the present time of the leader's
//! clock allows. A distance is counted from the committed ceiling as read here. Ceilings never fall, so an applied
//! raise moves the ceiling by at most this distance.
//!
//! A raise gets no distance if its sender is not the owner in the section's record, so that a node cannot exhaust the
//! bucket of another node's section in [`raise_rate`](crate::raise_rate). The requested ceiling of such a raise is
//! lowered to the committed ceiling, so that the raise moves nothing, even if the sender's ownership begins before the
//! raise is applied.
//!
//! The limits are not part of the replicated command, because a proposed command may be applied much later.

use alloc::vec::Vec;

use crate::id::{SectionId, Seq};
use crate::limits;
use crate::owner::Session;
use crate::state::{Raise, SectionRecord, State};

/// For each raise in a request whose sender owns the section: the section, and the largest distance by which the raise
/// moves the section's ceiling.
pub type Distances = Vec<(SectionId, u64)>;

/// Raises of one request whose requested ceilings were lowered, because the sender is not the owner in the section's
/// record. Each has its position in the request and the ceiling that was requested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lowered(Vec<(usize, Seq)>);

impl Lowered {
    /// Returns the position of the first of these raises that the store accepted nevertheless, because the sender's
    /// ownership began after [`bound`] had read the record. If there is one, the request must be repeated. `ceilings`
    /// are the committed ceilings in the response, in the order of the request.
    #[must_use]
    pub fn first_accepted(&self, ceilings: &[Option<Seq>]) -> Option<usize> {
        let accepted = |(index, requested): &(usize, Seq)| {
            ceilings.get(*index).copied().flatten().is_some_and(|ceiling| ceiling < *requested)
        };
        self.0.iter().find(|one| accepted(one)).map(|(index, _)| *index)
    }
}

/// Limits the raises of one request of `session`. For each raise of a section that `session` owns, returns the largest
/// distance by which the raise moves the ceiling. For each other raise, lowers the requested ceiling to the committed
/// ceiling, and returns the raise in [`Lowered`]. An owner's raise of lanes with a clock gets no distance. Instead its
/// requested ceiling is lowered to the highest ceiling that is allowed at `unix_ms`, the time of the leader's clock in
/// milliseconds since 1970.
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
