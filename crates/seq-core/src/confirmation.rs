//! Confirms an arrival before it is proposed: the sets that had the sections state that they departed to this one.
//!
//! A request that says that sections departed to this set is a hint, whoever sent it. The receiver begins at the set
//! that its own log knows to have had a section last, asks that set over a connection of its own, and follows the
//! tombstones: each names the next set under a higher epoch, up to the one to this set. A set that never had the
//! section is never asked, so it can confirm nothing.
//!
//! ```text
//! own log: section 7 is in set b since 4        b: departed to c, epoch 5        c: departed here, epoch 8
//! request of c: section 7, epoch 8                ask b ----------------------->  ask c -----------> confirmed
//! ```
//!
//! The content is that of the last tombstone, with the highest ceiling of all that were followed, and nothing of the
//! request. A set on the way that was restored since may have learned from the sender that the section departed here:
//! its tombstone ends the walk as well, and the section starts at its ceiling, without the copy that the sender has.
//!
//! **Invariant:** epochs rise along the way, and no set is asked twice about a section, so the walk ends.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use crate::directory::Claim;
use crate::id::{Epoch, HandoverId, Lineage, SectionId, Seq, SetId};
use crate::state::{Arrive, Arriving, State, Tombstone};

/// The walks of the sections of one arrival.
#[derive(Clone, Debug)]
pub struct Confirmation {
    own: SetId,
    arrive: Arrive,
    /// In order of the request; `None`: nothing is to be confirmed, because the record here is past that epoch, or the
    /// section is here and the arrival is refused.
    walks: Vec<Option<Walk>>,
    failure: Option<Unconfirmed>,
}

/// The way of one section.
#[derive(Clone, Debug)]
struct Walk {
    /// The set to be asked next, and the epoch since which it has the section; `None`: confirmed.
    at: Option<Claim>,
    asked: BTreeSet<SetId>,
    /// The highest ceiling on the way.
    ceiling: Seq,
}

/// Why an arrival is not confirmed. It may be later.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("that section {section} departed to this set under epoch {epoch} is not confirmed by set {set}: {why}")]
pub struct Unconfirmed {
    /// The section.
    pub section: SectionId,
    /// The epoch in the request.
    pub epoch: Epoch,
    /// The set that was asked.
    pub set: SetId,
    /// The cause.
    pub why: String,
}

impl Confirmation {
    /// Begins with the knowledge of this log.
    #[must_use]
    pub fn new(state: &State, arrive: Arrive) -> Confirmation {
        let own = state.set.as_ref().map(|set| set.id).unwrap_or_default();
        let walk = |one: &Arriving| {
            let record = state.sections.get(one.section)?;
            if record.fence() >= one.epoch || record.resident().is_some() {
                return None;
            }
            let known = state.directory.get(one.section);
            // A release before learned from others, too, that sections are on their way here.
            let at =
                known.filter(|known| known.set != own).unwrap_or(Claim { since: record.fence(), set: arrive.from });
            Some(Walk { at: Some(at), asked: BTreeSet::new(), ceiling: record.max_seq() })
        };
        let walks = arrive.sections.iter().map(walk).collect();
        Confirmation { own, arrive, walks, failure: None }
    }

    /// The sets to be asked now, each for its tombstones of these sections; none: the walks have ended.
    #[must_use]
    pub fn asks(&self) -> BTreeMap<SetId, Vec<SectionId>> {
        let mut asks: BTreeMap<SetId, Vec<SectionId>> = BTreeMap::new();
        for (one, at) in self.open().filter(|_| self.failure.is_none()) {
            asks.entry(at.set).or_default().push(one.section);
        }
        asks
    }

    /// Takes in the tombstones that a set of this lineage has of the sections that it was asked for.
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
                // It has that from the sender, because it was restored: then it knows of no copy.
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

    /// A set did not respond, or refused.
    pub fn fail(&mut self, set: SetId, why: &str) {
        let first = self.open().find(|(_, at)| at.set == set).map(|(one, _)| (one.section, one.epoch));
        if let Some((section, epoch)) = first {
            self.failure = Some(Unconfirmed { section, epoch, set, why: why.into() });
        }
    }

    /// Takes the rest of the walks as confirmed: a set that is asked is of a release that cannot respond.
    pub fn trust(&mut self, set: SetId) {
        for walk in self.walks.iter_mut().flatten().filter(|walk| walk.at.is_some_and(|at| at.set == set)) {
            walk.at = None;
        }
    }

    /// The arrival with the content of the tombstones, once no set is to be asked.
    ///
    /// # Errors
    /// [`Unconfirmed`]; nothing may be proposed.
    ///
    /// # Panics
    /// While sets are to be asked.
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

    /// The sections whose walks have not ended, with where they are.
    fn open(&self) -> impl Iterator<Item = (&Arriving, Claim)> {
        let walks = self.arrive.sections.iter().zip(&self.walks);
        walks.filter_map(|(one, walk)| Some((one, walk.as_ref()?.at?)))
    }
}

/// Whether the next owner may start from the copy of an attempt, or was named when the section departed.
fn starts_from_copy(tombstone: &Tombstone) -> bool {
    tombstone.handover_id != HandoverId(0) || tombstone.to.node.is_some()
}

/// An arrival as its tombstone has it.
fn content(section: SectionId, tombstone: &Tombstone) -> Arriving {
    let Tombstone { epoch, to, handover_id, max_seq, by, .. } = *tombstone;
    Arriving { section, epoch, max_seq, handover_id, node: to.node, incarnation: to.incarnation, migration: by }
}

#[cfg(all(test, not(loom)))]
mod tests;
