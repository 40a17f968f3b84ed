//! Confirms an arrival of sections before it is proposed to this set's store. The sets that had the sections must state
//! themselves that the sections departed to this set.
//!
//! A request which states that sections departed to this set is only a hint, because any process may have sent it. For
//! each section, the receiver of the request follows the section's way from set to set, which is called a *walk*. The
//! walk begins at the set that had the section last according to the receiver's own log. The receiver connects to that
//! set and requests the section's tombstone. The tombstone names the next set, and a higher epoch. The receiver then
//! requests the tombstone of the next set, and so on, until a tombstone names the receiver's own set. A set that never
//! had the section gets no request, so it can confirm nothing.
//!
//! ```text
//! own log: section 7 is in set b since 4        b: departed to c, epoch 5        c: departed here, epoch 8
//! request of c: section 7, epoch 8                ask b ----------------------->  ask c -----------> confirmed
//! ```
//!
//! The content of the arrival comes from the last tombstone of the walk, and its ceiling is the highest ceiling of all
//! tombstones of the walk. The content of the request is not used, unless a set on the walk has a release that cannot
//! send tombstones. If a set on the walk was restored from a backup, it may have learned from the sender of the request
//! that the section departed to this set. The tombstone of such a set also ends the walk, but names no copy, so the
//! section starts at its ceiling.
//!
//! **Invariant:** the epochs rise along a walk, and no set gets a second request about the same section, so every walk
//! ends.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use crate::directory::Claim;
use crate::id::{Epoch, HandoverId, Lineage, SectionId, Seq, SetId};
use crate::state::{Arrive, Arriving, State, Tombstone};

/// State of the confirmation of one arrival, with a walk for each section.
#[derive(Clone, Debug)]
pub struct Confirmation {
    own: SetId,
    arrive: Arrive,
    /// The walk of each section, in the order of the request. It is `None` for a section without need of a
    /// confirmation: either this set's record of the section has already reached the epoch in the request, or the
    /// section is in this set, so that the store will refuse its arrival.
    walks: Vec<Option<Walk>>,
    failure: Option<Unconfirmed>,
}

/// The walk along one section's tombstones, from set to set.
#[derive(Clone, Debug)]
struct Walk {
    /// The set from which the next tombstone is requested, and the epoch since which that set had the section. `None`
    /// once the section is confirmed.
    at: Option<Claim>,
    asked: BTreeSet<SetId>,
    /// The highest ceiling of the walk so far.
    ceiling: Seq,
}

/// Reason why an arrival is not confirmed. A later attempt may confirm the same arrival.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("that section {section} departed to this set under epoch {epoch} is not confirmed by set {set}: {why}")]
pub struct Unconfirmed {
    /// The section.
    pub section: SectionId,
    /// The epoch under which the section departed, according to the request to be confirmed.
    pub epoch: Epoch,
    /// The set that did not confirm the departure.
    pub set: SetId,
    /// The cause.
    pub why: String,
}

impl Confirmation {
    /// Begins the confirmation of `arrive`. The walk of each section begins at the set that has the section according
    /// to this set's log.
    #[must_use]
    pub fn new(state: &State, arrive: Arrive) -> Confirmation {
        let own = state.set.as_ref().map(|set| set.id).unwrap_or_default();
        let walk = |one: &Arriving| {
            let record = state.sections.get(one.section)?;
            if record.fence() >= one.epoch || record.resident().is_some() {
                return None;
            }
            let known = state.directory.get(one.section);
            // In earlier releases the directory may name this set already, because a third set stated that the section
            // is on its way here. Then the walk begins at the sender.
            let at =
                known.filter(|known| known.set != own).unwrap_or(Claim { since: record.fence(), set: arrive.from });
            Some(Walk { at: Some(at), asked: BTreeSet::new(), ceiling: record.max_seq() })
        };
        let walks = arrive.sections.iter().map(walk).collect();
        Confirmation { own, arrive, walks, failure: None }
    }

    /// Returns the sets from which the caller should request tombstones now, each with the sections whose tombstones
    /// are needed. The result is empty once all walks have ended, or a walk has failed.
    #[must_use]
    pub fn asks(&self) -> BTreeMap<SetId, Vec<SectionId>> {
        let mut asks: BTreeMap<SetId, Vec<SectionId>> = BTreeMap::new();
        for (one, at) in self.open().filter(|_| self.failure.is_none()) {
            asks.entry(at.set).or_default().push(one.section);
        }
        asks
    }

    /// Continues the walks with `records`, the tombstones in the response of the set `set`. `lineage` is the lineage of
    /// that set according to its response.
    pub fn on_records(&mut self, state: &State, set: SetId, lineage: Lineage, records: &[(SectionId, Tombstone)]) {
        let fenced = state.sets.get(&set).map_or(Lineage(0), |peer| peer.fenced);
        if lineage < fenced {
            self.fail(set, "it responded in an older lineage");
            return;
        }
        let records: BTreeMap<SectionId, Tombstone> = records.iter().copied().collect();
        let (own, from, to_lineage) = (self.own, self.arrive.from, self.arrive.to_lineage);
        let mut failed = None;
        for (one, walk) in self.arrive.sections.iter_mut().zip(&mut self.walks) {
            let Some((walk, at)) = walk.as_mut().and_then(|walk| Some((walk.at?, walk))).map(|(at, walk)| (walk, at))
            else {
                continue;
            };
            if at.set != set {
                continue;
            }
            let why = match records.get(&one.section) {
                None => Some("it has not sent the section away"),
                Some(found) if found.epoch <= at.since => Some("it has sent the section away before it got it"),
                Some(found) if found.epoch > one.epoch => Some("the section is past that epoch"),
                Some(found) if (found.to.set == own) != (found.epoch == one.epoch) => Some("it names another way"),
                // Only a set that was restored and learned of the departure from the sender may name this set, and it
                // knows of no copy.
                Some(found) if found.to.set == own && set != from && starts_from_copy(found) => {
                    Some("it has sent the section away itself")
                }
                Some(found) => {
                    walk.ceiling = walk.ceiling.max(found.max_seq);
                    walk.asked.insert(set);
                    let next = Claim { since: found.epoch, set: found.to.set };
                    walk.at = (found.epoch < one.epoch).then_some(next);
                    let repeats = walk.at.is_some_and(|next| walk.asked.contains(&next.set));
                    if walk.at.is_none() {
                        *one = content(one.section, found);
                    }
                    let other = walk.at.is_none() && found.to.lineage != to_lineage;
                    if other {
                        Some("it names another lineage of this set")
                    } else {
                        repeats.then_some("the way is a circle")
                    }
                }
            };
            if let Some(why) = why {
                failed = Some((one.section, one.epoch, why));
                break;
            }
        }
        if let Some((section, epoch, why)) = failed {
            self.failure = Some(Unconfirmed { section, epoch, set, why: why.into() });
        }
    }

    /// Ends the confirmation with a failure, because `set` did not respond or refused the request. Does nothing if no
    /// walk is at `set`.
    pub fn fail(&mut self, set: SetId, why: &str) {
        let first = self.open().find(|(_, at)| at.set == set).map(|(one, _)| (one.section, one.epoch));
        if let Some((section, epoch)) = first {
            self.failure = Some(Unconfirmed { section, epoch, set, why: why.into() });
        }
    }

    /// Ends each walk that is at `set` and counts its section as confirmed, because that set has a release that cannot
    /// send tombstones.
    pub fn trust(&mut self, set: SetId) {
        for walk in self.walks.iter_mut().flatten().filter(|walk| walk.at.is_some_and(|at| at.set == set)) {
            walk.at = None;
        }
    }

    /// Returns the confirmed arrival, with the content of the tombstones, after all walks have ended.
    ///
    /// # Errors
    /// [`Unconfirmed`] if a walk failed. In this case the arrival must not be proposed.
    ///
    /// # Panics
    /// If a walk has not ended yet.
    pub fn finish(mut self) -> Result<Arrive, Unconfirmed> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        assert!(self.open().next().is_none(), "a set is to be asked");
        for (one, walk) in self.arrive.sections.iter_mut().zip(&self.walks) {
            if let Some(walk) = walk {
                one.max_seq = one.max_seq.max(walk.ceiling);
            }
        }
        Ok(self.arrive)
    }

    /// Returns the sections whose walks have not ended, each with the set at which its walk is now.
    fn open(&self) -> impl Iterator<Item = (&Arriving, Claim)> {
        let walks = self.arrive.sections.iter().zip(&self.walks);
        walks.filter_map(|(one, walk)| Some((one, walk.as_ref()?.at?)))
    }
}

/// Returns whether the section departed by a handover or to a named next owner. In both cases the next owner may start
/// from an exact copy.
fn starts_from_copy(tombstone: &Tombstone) -> bool {
    tombstone.handover_id != HandoverId(0) || tombstone.to.node.is_some()
}

/// Returns the arrival of a section, with the content of the section's tombstone.
fn content(section: SectionId, tombstone: &Tombstone) -> Arriving {
    let Tombstone { epoch, to, handover_id, max_seq, by, .. } = *tombstone;
    Arriving { section, epoch, max_seq, handover_id, node: to.node, incarnation: to.incarnation, migration: by }
}

#[cfg(all(test, not(loom)))]
mod tests;
