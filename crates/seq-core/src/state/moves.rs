//! Applies the commands that move a section out of this set, or into it.
//!
//! A section is in one set at a time, because only the log of the set that has it can send it away, under an epoch that
//! no ownership had before. What arrives is a fact, so it is refused only where this log is past it.

use alloc::vec::Vec;

use super::record::{Destination, Residence, SectionRecord, Tombstone};
use super::set_command::{Arrival, Arrive, Arrived, Arriving, Depart, DepartSilent, Fence, LearnDirectory, SetRefusal};
use super::{CommandRefusal, PeerSet, Phase, State, Transferred};
use crate::directory::{Claim, ClaimRun, Directory};
use crate::id::{Epoch, HandoverId, Incarnation, Lineage, MigrationId, RouteVersion, SectionId, Seq, SetId};
use crate::layout::SectionRun;
use crate::limits;

impl State {
    pub(super) fn depart(&mut self, depart: &Depart) -> Result<Transferred, CommandRefusal> {
        let Depart { section, epoch, from, incarnation, to, handover_id, migration } = *depart;
        let other = |current| CommandRefusal::OtherOwnership { section, current, from, given: epoch };
        let record = *self.sections.get(section).ok_or(other(Epoch(0)))?;
        let made = match record {
            SectionRecord::Resident(residence)
                if (residence.epoch, residence.owner, residence.incarnation) == (epoch, Some(from), incarnation) =>
            {
                self.living(from, incarnation)?;
                self.may_depart(section, &residence, to.set, migration)?;
                self.send_away(section, &residence, to, handover_id, migration)
            }
            // A repeat. The epoch comes from a request: it is added to only by a checked addition.
            SectionRecord::Departed(tombstone)
                if epoch.0.checked_add(1) == Some(tombstone.epoch.0)
                    && (tombstone.to, tombstone.handover_id, tombstone.by) == (to, handover_id, migration)
                    && handover_id != HandoverId(0) =>
            {
                Transferred { epoch: tombstone.epoch, max_seq: tombstone.max_seq }
            }
            _ => return Err(other(record.fence())),
        };
        if self.living(from, incarnation).is_ok() {
            let liveness = &mut self.nodes[from.0 as usize - 1].liveness;
            *liveness = liveness.next();
        }
        Ok(made)
    }

    pub(super) fn depart_silent(&mut self, departs: &[DepartSilent]) -> Vec<Option<Epoch>> {
        departs.iter().take(limits::MAX_MOVES).map(|depart| self.depart_silent_one(depart)).collect()
    }

    fn depart_silent_one(&mut self, depart: &DepartSilent) -> Option<Epoch> {
        let DepartSilent { section, expected, liveness, to, lineage, migration } = *depart;
        let residence = *self.sections.resident(section)?;
        if residence.epoch != expected || self.owner_liveness(&residence) != liveness {
            return None;
        }
        self.may_depart(section, &residence, to, migration).ok()?;
        let to = Destination { set: to, lineage, node: None, incarnation: Incarnation(0) };
        Some(self.send_away(section, &residence, to, HandoverId(0), migration).epoch)
    }

    /// Whether a section may depart under a migration. The pace is no reason to refuse: a departure that was refused
    /// while the migration was paused would be applied after it was resumed, when its owner serves again.
    fn may_depart(
        &self,
        section: SectionId,
        residence: &Residence,
        to: SetId,
        id: MigrationId,
    ) -> Result<(), CommandRefusal> {
        let planned = self.migrations.get(&id).filter(|one| one.to == to && one.covers(section, residence));
        let migration = planned.ok_or(SetRefusal::OtherMigration { migration: id })?;
        if migration.phase != Phase::Open {
            return Err(SetRefusal::MigrationOver { migration: id }.into());
        }
        if self.sets.get(&to).is_some_and(|set| set.closing) {
            return Err(SetRefusal::SetClosing { set: to }.into());
        }
        Ok(())
    }

    /// Writes the tombstone. The ceiling is the one of this entry's place in the log: each raise is before it, or refused.
    fn send_away(
        &mut self,
        section: SectionId,
        residence: &Residence,
        to: Destination,
        handover_id: HandoverId,
        by: MigrationId,
    ) -> Transferred {
        self.route_version.0 += 1;
        let (epoch, max_seq, routed) = (residence.epoch.next(), residence.max_seq, self.route_version);
        let tombstone = Tombstone { epoch, to, handover_id, max_seq, by, arrived: false, routed };
        self.advance(section, SectionRecord::Departed(tombstone));
        self.claim(section, epoch, to.set);
        Transferred { epoch, max_seq }
    }

    pub(super) fn arrive(&mut self, arrive: &Arrive) -> Result<Vec<Arrival>, CommandRefusal> {
        let Arrive { from, from_lineage, to_lineage, layout_id, sections } = arrive;
        let set = self.set.as_ref().ok_or(CommandRefusal::NoSet)?;
        if *from == set.id {
            return Err(SetRefusal::OwnSet.into());
        }
        let fenced = self.sets.get(from).map_or_else(Default::default, |set| set.fenced);
        if *from_lineage < fenced {
            return Err(SetRefusal::OldLineage { set: *from, newest: fenced, given: *from_lineage }.into());
        }
        if *to_lineage > self.lineage {
            return Err(SetRefusal::OtherLineage { current: self.lineage, given: *to_lineage }.into());
        }
        let laid_out = |one: &Arriving| set.layout.id_of(one.section) == Some(*layout_id);
        if sections.len() > limits::MAX_MOVES || !sections.iter().all(laid_out) {
            return Err(SetRefusal::OtherLayout { ours: set.layout.id(), given: *layout_id }.into());
        }
        let version = RouteVersion(self.route_version.0 + 1);
        let restores = self.lineage.restores_since(*to_lineage);
        let current = *to_lineage == self.lineage;
        let mut outcome = Vec::with_capacity(sections.len());
        for one in sections {
            outcome.push(if current {
                self.arrive_one(one, *one, version)
            } else if self.quarantined {
                Arrival::Waits
            } else {
                self.arrive_after_restore(one, restores, version)
            });
        }
        Ok(outcome)
    }

    /// The section departed to an earlier lineage of this set, which may have served it, and sent it on.
    fn arrive_after_restore(&mut self, one: &Arriving, restores: u32, version: RouteVersion) -> Arrival {
        // Every other set has responded, so it is known where the earlier lineage has sent the section. A newer claim for
        // this set is of this arrival in a lineage between, or of a tombstone that comes as well.
        let fence = self.sections.get(one.section).map_or(Epoch(0), SectionRecord::fence);
        if fence >= one.epoch {
            // The backup is past it, or it arrived after the restore.
            return Arrival::Past;
        }
        let own = self.set.as_ref().map(|set| set.id);
        let went_on = |claim: &Claim| claim.since > one.epoch && Some(claim.set) != own;
        if self.recalled.get(one.section).as_ref().is_some_and(went_on) || self.sections.resident(one.section).is_some()
        {
            return Arrival::Past;
        }
        let Some(epoch) = restored_epoch(one.epoch, restores) else { return Arrival::Refused };
        let begins = Arriving {
            epoch,
            max_seq: restored_ceiling(one.max_seq, restores),
            // The owner's incarnation and its copy are of the earlier lineage.
            handover_id: HandoverId(0),
            node: None,
            incarnation: Incarnation(0),
            ..*one
        };
        self.arrive_one(one, begins, version)
    }

    fn arrive_one(&mut self, sent: &Arriving, begins: Arriving, version: RouteVersion) -> Arrival {
        let Arriving { section, epoch, max_seq, handover_id, node, incarnation, migration } = begins;
        let Some(record) = self.sections.get(section).copied() else { return Arrival::Refused };
        if sent.epoch == Epoch(0) || epoch.0 > limits::MAX_ARRIVED_EPOCH || max_seq > Seq::MAX {
            return Arrival::Refused;
        }
        // A repeat leaves the record as it is: the owner may have raised the ceiling since.
        match record {
            SectionRecord::Resident(residence) if residence.since == epoch => return Arrival::Arrived,
            _ if record.fence() >= epoch => return Arrival::Past,
            SectionRecord::Resident(_) => return Arrival::Refused,
            _ => {}
        }
        let known = match record {
            SectionRecord::Quarantined(quarantine) => restored_ceiling(quarantine.max_seq, self.restores),
            _ => record.max_seq(),
        };
        // No reason to refuse the section: without its owner, it is the arbiter's to assign.
        let owner = node.filter(|node| self.living(*node, incarnation).is_ok());
        let residence = Residence {
            since: epoch,
            epoch,
            owner,
            incarnation: if owner.is_some() { incarnation } else { Incarnation(0) },
            max_seq: max_seq.max(known),
            routed: version,
            handover_id: if owner.is_some() { handover_id } else { HandoverId(0) },
            came_by: migration,
        };
        self.advance(section, SectionRecord::Resident(residence));
        self.route_version = version;
        if let Some(own) = self.set.as_ref().map(|set| set.id) {
            self.claim(section, epoch, own);
        }
        Arrival::Arrived
    }

    pub(super) fn arrived(&mut self, arrived: &Arrived) -> u32 {
        let mut noted = 0;
        // An earlier lineage may have had what the one that was restored lacks.
        if self.sets.get(&arrived.at).is_some_and(|set| arrived.lineage < set.fenced) {
            return noted;
        }
        for (section, epoch) in arrived.sections.iter().take(limits::MAX_MOVES) {
            let Some(SectionRecord::Departed(tombstone)) = self.sections.get(*section).copied() else { continue };
            if (tombstone.epoch, tombstone.to.set) == (*epoch, arrived.at) && !tombstone.arrived {
                self.advance(*section, SectionRecord::Departed(Tombstone { arrived: true, ..tombstone }));
                noted += 1;
            }
        }
        for id in arrived.ended.iter().take(limits::MAX_MOVES) {
            let Some(migration) = self.migrations.get_mut(id).filter(|one| one.to == arrived.at) else { continue };
            match &mut migration.phase {
                Phase::RolledBack { noted: ended } | Phase::Completed { noted: ended } if !*ended => {
                    *ended = true;
                    noted += 1;
                }
                _ => {}
            }
        }
        self.settle_closing();
        noted
    }

    pub(super) fn fence(&mut self, fence: &Fence) -> Result<(), CommandRefusal> {
        let Fence { set, lineage } = *fence;
        self.fence_set(set, lineage)
    }

    /// Accepts nothing of older lineages of another set any more. What was sent to them is sent again: the backup may lack
    /// it.
    pub(super) fn fence_set(&mut self, set: SetId, lineage: Lineage) -> Result<(), CommandRefusal> {
        let peer = self.peer_set(set)?;
        if lineage < peer.fenced {
            return Err(SetRefusal::OldLineage { set, newest: peer.fenced, given: lineage }.into());
        }
        if lineage == peer.fenced {
            return Ok(());
        }
        peer.fenced = lineage;
        self.sections.change_known(|_, record| {
            if let SectionRecord::Departed(tombstone) = *record
                && tombstone.to.set == set
                && tombstone.to.lineage < lineage
            {
                record.advance(SectionRecord::Departed(Tombstone { arrived: false, ..tombstone }));
            }
        });
        for migration in self.migrations.values_mut().filter(|migration| migration.to == set) {
            if let Phase::RolledBack { noted } | Phase::Completed { noted } = &mut migration.phase {
                *noted = false;
            }
        }
        Ok(())
    }

    pub(super) fn learn(&mut self, learned: &LearnDirectory) -> Result<bool, CommandRefusal> {
        let LearnDirectory { claims, recalled, sets } = learned;
        let sections = self.sections.len() as u32;
        let fits = |run: &ClaimRun| run.sections.end().is_some_and(|end| end <= sections);
        if claims.len() > limits::MAX_RUNS || !claims.iter().all(fits) {
            return Err(SetRefusal::BadRuns.into());
        }
        let own = self.set.as_ref().map(|set| set.id);
        let version = self.route_version.next();
        let mut changed = self.directory.merge(claims, version);
        for facts in sets.iter().filter(|facts| Some(facts.id) != own) {
            changed |= self.peer_set(facts.id)?.learn(facts, version);
        }
        if changed {
            self.route_version = version;
        }
        if *recalled {
            changed |= self.recalled.merge(claims, version);
        }
        self.settle_closing();
        Ok(changed)
    }

    /// The claims that are records of this set: where its sections are since when, and where it sent others. A restored
    /// set decides by these, once this log has its fence.
    #[must_use]
    pub fn record_claims(&self) -> Vec<ClaimRun> {
        let own = self.set.as_ref().map(|set| set.id);
        let claim = |(section, record): (SectionId, &SectionRecord)| {
            let claim = match record {
                SectionRecord::Resident(residence) => Claim { since: residence.since, set: own? },
                SectionRecord::Departed(tombstone) => Claim { since: tombstone.epoch, set: tombstone.to.set },
                _ => return None,
            };
            Some(ClaimRun { sections: SectionRun { first: section, sections: 1 }, claim })
        };
        let mut claims = Directory::default();
        claims.merge(&self.sections.known().filter_map(claim).collect::<Vec<_>>(), self.route_version);
        claims.runs().collect()
    }

    /// Another set, which may become known by this.
    fn peer_set(&mut self, set: SetId) -> Result<&mut PeerSet, CommandRefusal> {
        if self.set.as_ref().ok_or(CommandRefusal::NoSet)?.id == set {
            return Err(SetRefusal::OwnSet.into());
        }
        if self.sets.len() == limits::MAX_SETS && !self.sets.contains_key(&set) {
            return Err(SetRefusal::TooManySets.into());
        }
        Ok(self.sets.entry(set).or_default())
    }

    pub(super) fn claim(&mut self, section: SectionId, since: Epoch, set: SetId) {
        let sections = SectionRun { first: section, sections: 1 };
        self.directory.merge(&[ClaimRun { sections, claim: Claim { since, set } }], self.route_version);
    }

    pub(super) fn advance(&mut self, section: SectionId, next: SectionRecord) {
        self.sections.change(section, |record| record.advance(next));
    }
}

/// The epoch that follows one of a lineage that was restored this often since; `None` past the last one.
pub(super) fn restored_epoch(epoch: Epoch, restores: u32) -> Option<Epoch> {
    let more = u64::from(restores).checked_mul(limits::RESTORE_EPOCHS)?;
    epoch.0.checked_add(more).filter(|epoch| *epoch <= limits::MAX_ARRIVED_EPOCH).map(Epoch)
}

/// A ceiling above every number that a lineage, restored this often since, has allocated under it.
pub(super) fn restored_ceiling(ceiling: Seq, restores: u32) -> Seq {
    let more = u64::from(restores).saturating_mul(limits::RESTORE_MARGIN);
    Seq(ceiling.0.saturating_add(more)).min(Seq::MAX)
}
