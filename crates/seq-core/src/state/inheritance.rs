//! Applies two commands about other sets. [`Inherit`] keeps the final records of a set that is closing, and [`Forget`]
//! removes a set that does not exist.
//!
//! Before a closing set is closed, its records become final. Every other set then reads these records page by page. If
//! such a record is newer than the reading set's own record of the section, the reading set keeps it as a tombstone. So
//! even after the processes of the closed set are gone, every other set can state to a restored set which sections the
//! closed set sent to it.
//!
//! **Invariant:** the pages of a closing set's records in one lineage are inherited in order. The records of the set
//! count as inherited only after the last page is inherited.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::migration::PeerSet;
use super::record::{Destination, SectionRecord, Tombstone};
use super::recovery::RecordClaim;
use super::set_command::{Forget, Inherit, SetRefusal};
use super::{Closing, CommandRefusal, State};
use crate::id::{HandoverId, Incarnation, Lineage, MigrationId, RouteVersion, SectionId, SetId};
use crate::limits;

/// Progress of inheriting the final records of a closing set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inheritance {
    /// The closing set's lineage, to which the records belong.
    pub lineage: Lineage,
    /// The first section whose record is not inherited yet; `None` after all records are inherited.
    pub next: Option<SectionId>,
}

impl State {
    /// Returns the closing sets whose final records this set has not read to the end, each with the first section of
    /// the next page. Returns none while this set is in quarantine.
    pub fn awaited_inheritances(&self) -> impl Iterator<Item = (SetId, SectionId)> {
        let closing = self.sets.iter().filter(|_| !self.is_quarantined());
        closing.filter_map(|(set, peer)| {
            let facts = peer.facts.as_ref().filter(|facts| facts.closing == Closing::Closing)?;
            Some((*set, peer.next_inherited(facts.lineage)?))
        })
    }

    /// Returns the closing and closed sets whose final records this log has, each with the lineage of these records.
    pub(super) fn inherited(&self) -> Vec<(SetId, Lineage)> {
        self.sets.iter().filter_map(|(set, peer)| Some((*set, peer.wholly_inherited()?))).collect()
    }

    /// Returns whether all final records of a closing set, in its newest known lineage, are in this log or in the
    /// responses of other sets to this set's fence.
    pub(super) fn has_records_of(&self, set: SetId, peer: &PeerSet) -> bool {
        let responded = self.recovery.as_ref().and_then(|recovery| recovery.inherited.get(&set).copied());
        let stated = peer.facts.as_ref().map_or(Lineage(0), |facts| facts.lineage);
        peer.wholly_inherited().max(responded).is_some_and(|lineage| lineage >= peer.fenced.max(stated))
    }

    /// Notes at the end of a quarantine that this log has the records of the closed sets in `inherited`, because the
    /// responses to the fence contained them.
    pub(super) fn keep_inherited(&mut self, inherited: &BTreeMap<SetId, Lineage>) {
        for (set, lineage) in inherited {
            let Some(peer) = self.sets.get_mut(set) else { continue };
            if peer.wholly_inherited() < Some(*lineage) {
                peer.inherited = Some(Inheritance { lineage: *lineage, next: None });
                peer.closing = true;
            }
        }
    }

    pub(super) fn inherit(&mut self, inherit: &Inherit) -> Result<bool, CommandRefusal> {
        let Inherit(page) = inherit;
        let own = self.set.as_ref().ok_or(CommandRefusal::NoSet)?.id;
        let set = page.set;
        if self.is_quarantined() {
            return Err(SetRefusal::InQuarantine { set: own }.into());
        }
        if !page.is_sound(self.sections.len()) {
            return Err(SetRefusal::BadResponse { set }.into());
        }
        let peer = self.sets.get_mut(&set).filter(|peer| peer.closing).ok_or(SetRefusal::NotClosing { set })?;
        if page.lineage < peer.fenced {
            return Err(SetRefusal::OldLineage { set, newest: peer.fenced, given: page.lineage }.into());
        }
        if peer.next_inherited(page.lineage) != Some(page.first) {
            return Ok(false);
        }
        peer.inherited = Some(Inheritance { lineage: page.lineage, next: page.next });
        let version = self.route_version.next();
        self.route_version = version;
        for (section, stated) in &page.records {
            self.inherit_one(*section, stated, own, version);
        }
        Ok(true)
    }

    fn inherit_one(&mut self, section: SectionId, stated: &RecordClaim, own: SetId, version: RouteVersion) {
        let RecordClaim { claim, lineage, max_seq, .. } = *stated;
        let Some(record) = self.sections.get(section).copied() else { return };
        // All sections that the closing set sent to this set have arrived before its records are final. So such a
        // section is in this set, or was in it.
        if claim.set == own || claim.since <= record.fence() || record.resident().is_some() {
            return;
        }
        let tombstone = Tombstone {
            epoch: claim.since,
            to: Destination { set: claim.set, lineage, node: None, incarnation: Incarnation(0) },
            handover_id: HandoverId(0),
            max_seq: max_seq.max(record.max_seq()),
            by: MigrationId(0),
            arrived: false,
            routed: version,
        };
        // This log has not seen the arrival in that set, so the tombstone is sent to that set until it confirms the
        // arrival.
        self.advance(section, SectionRecord::Departed(tombstone));
        self.claim(section, claim.since, claim.set);
    }

    /// Removes another set from this log. Refuses this if a section may still be on its way to that set. The fence of
    /// the removed set stays, because the set may exist after all.
    pub(super) fn forget(&mut self, forget: &Forget) -> Result<bool, CommandRefusal> {
        let Forget { set } = *forget;
        if self.set.as_ref().ok_or(CommandRefusal::NoSet)?.id == set {
            return Err(SetRefusal::OwnSet.into());
        }
        // A restored set may have to serve without the layout writer, if the writer was lost.
        if self.is_writer(set) && !self.is_quarantined() {
            return Err(SetRefusal::WritesLayout { set }.into());
        }
        // A set in quarantine may have learned that the section has departed from the closed set again. It learns this
        // from sets that inherited the records of the closed set.
        let learned = |section: SectionId| self.recovery.as_ref().and_then(|recovery| recovery.claims.get(&section));
        let awaits = |(section, record): &(SectionId, &SectionRecord)| match record {
            SectionRecord::Departed(tombstone) if tombstone.to.set == set && !tombstone.arrived => {
                learned(*section).is_none_or(|stated| stated.claim.since <= tombstone.epoch)
            }
            _ => false,
        };
        if let Some((section, _)) = self.sections.known().find(awaits) {
            return Err(SetRefusal::AwaitsSection { set, section }.into());
        }
        if let Some((migration, _)) = self.migrations.iter().find(|(_, one)| one.to == set && one.is_open()) {
            return Err(SetRefusal::NotArrived { migration: *migration }.into());
        }
        if self.fences.len() == limits::MAX_SETS {
            return Err(SetRefusal::TooManySets.into());
        }
        let known = self.sets.remove(&set);
        if let Some(peer) = &known {
            if peer.fenced > Lineage(0) {
                self.fences.insert(set, peer.fenced);
            }
            self.route_version = self.route_version.next();
            self.forgotten = self.route_version;
            self.directory.forget(set, self.route_version);
            // The claims that follow from this log's own departures stay.
            let departed: Vec<(SectionId, Tombstone)> = self.tombstones().filter(|one| one.1.to.set == set).collect();
            for (section, tombstone) in departed {
                self.claim(section, tombstone.epoch, set);
            }
            if let Some(recovery) = &mut self.recovery {
                recovery.responses.remove(&set);
            }
        }
        Ok(known.is_some())
    }
}

impl PeerSet {
    /// Returns the lineage of which all records are inherited.
    fn wholly_inherited(&self) -> Option<Lineage> {
        self.inherited.filter(|one| one.next.is_none()).map(|one| one.lineage)
    }

    /// Returns the first section of the next page that is to be inherited from the records of this set in `lineage`;
    /// `None` if all these records are inherited.
    fn next_inherited(&self, lineage: Lineage) -> Option<SectionId> {
        match self.inherited.filter(|one| one.lineage == lineage) {
            Some(one) => one.next,
            None => Some(SectionId(0)),
        }
    }
}
