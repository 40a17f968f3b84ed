//! Applies the commands that move a section out of this set, or into it.
//!
//! A section is in one set at a time, because only the log of the set that has the section can send it away, under an
//! epoch that no ownership had before. When a section arrives, its departure is already committed in another log. So
//! this log does not refuse a valid arrival, unless it has seen the section under a later epoch.

use alloc::vec::Vec;

use super::beginning::Beginning;
use super::events::EventRecord;
use super::record::{Destination, Residence, SectionRecord, Tombstone};
use super::set_command::{Arrival, Arrive, Arrived, Arriving, Depart, DepartSilent, Fence, LearnDirectory, SetRefusal};
use super::{CommandRefusal, PeerSet, Phase, Rules, SetFacts, State, Transferred};
use crate::directory::{Claim, ClaimRun};
use crate::id::{Epoch, HandoverId, Incarnation, Lineage, MigrationId, RouteVersion, SectionId, Seq, SetId};
use crate::layout::SectionRun;
use crate::limits;

impl State {
    pub(super) fn depart(&mut self, depart: &Depart) -> Result<Transferred, CommandRefusal> {
        let Depart { section, epoch, from, incarnation, to, handover_id, migration } = *depart;
        // A repeat of an ended incarnation is refused as well, because each confirmation extends the sender's lease.
        self.living(from, incarnation)?;
        let other = |current| CommandRefusal::OtherOwnership { section, current, from, given: epoch };
        let record = *self.sections.get(section).ok_or(other(Epoch(0)))?;
        let made = match record {
            SectionRecord::Resident(residence)
                if (residence.epoch, residence.owner, residence.incarnation) == (epoch, Some(from), incarnation) =>
            {
                self.may_depart(section, &residence, to.set, migration)?;
                self.send_away(section, &residence, to, handover_id, migration)
            }
            // A repeat. The epoch comes from a request, so it is incremented only by a checked addition.
            SectionRecord::Departed(tombstone)
                if epoch.0.checked_add(1) == Some(tombstone.epoch.0)
                    && (tombstone.to, tombstone.handover_id, tombstone.by) == (to, handover_id, migration)
                    && handover_id != HandoverId(0) =>
            {
                Transferred { epoch: tombstone.epoch, max_seq: tombstone.max_seq }
            }
            _ => return Err(other(record.fence())),
        };
        let liveness = &mut self.nodes[from.0 as usize - 1].liveness;
        *liveness = liveness.next();
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

    /// Checks whether a section may depart by a migration. A pause of the migration is no reason to refuse. If a
    /// departure were refused during a pause, the owner would serve the section again. Then a late repeat of the
    /// message could be applied after the pause, while the section is served.
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
        self.refuse_after_loss()?;
        if self.sets.get(&to).is_some_and(|set| set.closing) {
            return Err(SetRefusal::SetClosing { set: to }.into());
        }
        Ok(())
    }

    /// Replaces the record of a section by a tombstone with the present ceiling. A raise by the owner is either before
    /// this entry in the log, and so part of this ceiling, or it is refused.
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
        self.check_fence(*from, *from_lineage)?;
        if *to_lineage > self.lineage {
            return Err(SetRefusal::OtherLineage { current: self.lineage, given: *to_lineage }.into());
        }
        let laid_out = |one: &Arriving| set.layout.id_of(one.section) == Some(*layout_id);
        if sections.len() > limits::MAX_MOVES || !sections.iter().all(laid_out) {
            return Err(SetRefusal::OtherLayout { ours: set.layout.id(), given: *layout_id }.into());
        }
        let version = RouteVersion(self.route_version.0 + 1);
        let mut outcome = Vec::with_capacity(sections.len());
        for one in sections {
            outcome.push(if *to_lineage == self.lineage {
                self.arrive_one(one, *one, Some(*from), version)
            } else if self.is_quarantined() {
                Arrival::Waits
            } else {
                self.arrive_after_restore(one, Some(*from), version)
            });
        }
        Ok(outcome)
    }

    /// Makes resident a section that departed to an earlier lineage of this set. If the earlier lineage has served the
    /// section and sent it to another set, this log has a record with a later epoch by now, because every other set has
    /// stated its records. In that case, nothing changes.
    pub(super) fn arrive_after_restore(
        &mut self,
        one: &Arriving,
        from: Option<SetId>,
        version: RouteVersion,
    ) -> Arrival {
        let fence = self.sections.get(one.section).map_or(Epoch(0), SectionRecord::fence);
        if fence >= one.epoch {
            return Arrival::Past;
        }
        // If the section departed after the restore, no earlier lineage has served it.
        let restored = self.restored(one.section, one.epoch, one.max_seq);
        let (epoch, max_seq) = restored.unwrap_or((one.epoch, one.max_seq));
        let begins = Arriving {
            epoch,
            max_seq,
            // The owner's incarnation and its copy belong to the earlier lineage.
            handover_id: HandoverId(0),
            node: None,
            incarnation: Incarnation(0),
            ..*one
        };
        self.arrive_one(one, begins, from, version)
    }

    /// Makes resident a section that another set sent to this set. `sent` is the content of the tombstone. `begins` has
    /// the epoch and the ceiling with which the section continues in this set; after a restore, they differ from those
    /// in `sent`. `from` is the set that sent the section; `None` if this restored set learned of the departure from
    /// the records of any set.
    pub(super) fn arrive_one(
        &mut self,
        sent: &Arriving,
        begins: Arriving,
        from: Option<SetId>,
        version: RouteVersion,
    ) -> Arrival {
        let Arriving { section, epoch, max_seq, handover_id, node, incarnation, migration } = begins;
        let Some(record) = self.sections.get(section).copied() else { return Arrival::Refused };
        if sent.epoch == Epoch(0) || epoch.0 > limits::MAX_ARRIVED_EPOCH || max_seq > Seq::MAX {
            return Arrival::Refused;
        }
        // A repeat leaves the record as it is, because the owner may have raised the ceiling since.
        match record {
            SectionRecord::Resident(residence) if residence.since == epoch => return Arrival::Arrived,
            _ if record.fence() >= epoch => return Arrival::Past,
            SectionRecord::Resident(_) => return Arrival::Refused,
            _ => {}
        }
        // The section is taken even if its next owner is gone. The arbiter then assigns another owner.
        let owner = node.filter(|node| self.living(*node, incarnation).is_ok());
        let residence = Residence {
            since: epoch,
            epoch,
            owner,
            incarnation: if owner.is_some() { incarnation } else { Incarnation(0) },
            max_seq: max_seq.max(record.max_seq()),
            routed: version,
            handover_id: if owner.is_some() { handover_id } else { HandoverId(0) },
            came_by: from.map_or(migration, |from| self.bind(migration, from)),
            began: Beginning::default(),
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
        // An earlier lineage may have had sections that the restored lineage lacks.
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
        if self.rules >= Rules::Eight && !self.sets.contains_key(&set) {
            return Err(SetRefusal::UnknownSet { set }.into());
        }
        if self.peer_set(set)?.admitted == lineage {
            return Ok(());
        }
        let least = self.least_of_fence(set);
        if lineage.restores() < least {
            return Err(SetRefusal::TooFewRestores { given: lineage, least }.into());
        }
        self.check_step(set, lineage)?;
        self.fence_set(set, lineage)?;
        self.peer_set(set)?.admitted = lineage;
        self.note_event(EventRecord::Fenced { set, lineage });
        Ok(())
    }

    /// Returns the least count of restores that a lineage of another set must have, so that its fence is accepted. This
    /// set or a third set may have served sections that the other set lost in its restore. So the count must be above
    /// the counts of all lineages in which they may have done this.
    pub(super) fn least_of_fence(&self, set: SetId) -> u32 {
        // The epoch of a section that this set has served contains the count of this set's lineage. In quarantine, this
        // set has served nothing in its lineage.
        let own = self.lineage.restores() + u32::from(!self.is_quarantined());
        if self.rules < Rules::Eight {
            return own;
        }
        let others = self.sets.iter().map(|(id, peer)| (*id, peer.restores()));
        let forgotten = self.fences.iter().map(|(id, fenced)| (*id, fenced.restores()));
        let counts = others.chain(forgotten).filter(|(id, count)| *id != set && *count > 0);
        counts.map(|(_, count)| count.saturating_add(1)).fold(own, Ord::max)
    }

    /// Returns the fence of another set, which is the oldest lineage of that set whose messages are accepted.
    fn fence_of(&self, set: SetId) -> Lineage {
        let known = self.sets.get(&set).map(|peer| peer.fenced);
        known.or_else(|| self.fences.get(&set).copied()).unwrap_or_default()
    }

    /// Refuses a lineage of another set that is older than the fence of that set.
    pub(super) fn check_fence(&self, set: SetId, lineage: Lineage) -> Result<(), CommandRefusal> {
        let newest = self.fence_of(set);
        match lineage < newest {
            true => Err(SetRefusal::OldLineage { set, newest, given: lineage }.into()),
            false => Ok(()),
        }
    }

    /// Checks that the count of restores of another set's lineage exceeds the highest count that this log knows by at
    /// most [`limits::MAX_RESTORE_STEP`].
    fn check_step(&self, set: SetId, lineage: Lineage) -> Result<(), CommandRefusal> {
        let known = self.most_restores();
        let bound = known.saturating_add(limits::MAX_RESTORE_STEP);
        if self.rules >= Rules::Eight && lineage.restores() > bound {
            return Err(SetRefusal::FarLineage { set, given: lineage, known }.into());
        }
        Ok(())
    }

    /// Notes that a migration began in the set `of`. Returns the migration, or 0 if it was noted for a different set
    /// before, or if there is no room for another note. Sections that arrive with the migration 0 cannot return by a
    /// rollback.
    pub(super) fn bind(&mut self, migration: MigrationId, of: SetId) -> MigrationId {
        if self.rules < Rules::Eight || migration == MigrationId(0) || self.migrations.contains_key(&migration) {
            return migration;
        }
        if !self.may_bind(migration, of) {
            return MigrationId(0);
        }
        self.foreign_migrations.insert(migration, of);
        migration
    }

    /// Returns whether a migration is noted as a migration that began in the set `of`, or is not noted yet and there is
    /// room for another note.
    pub(super) fn may_bind(&self, migration: MigrationId, of: SetId) -> bool {
        match self.foreign_migrations.get(&migration) {
            Some(known) => *known == of,
            None => self.foreign_migrations.len() < limits::MAX_MIGRATIONS,
        }
    }

    /// Fences the lineages of another set that are older than `lineage`. From then on, messages of these older lineages
    /// are refused. Sections that departed to an older lineage are sent again, even if they had arrived, because the
    /// backup from which the other set was restored may lack them.
    pub(super) fn fence_set(&mut self, set: SetId, lineage: Lineage) -> Result<(), CommandRefusal> {
        let peer = self.peer_set(set)?;
        if lineage == peer.fenced {
            return Ok(());
        }
        // Margins are multiplied by the count, so two lineages with the same count would allocate the same numbers.
        if lineage.restores() <= peer.fenced.restores() {
            return Err(SetRefusal::OldLineage { set, newest: peer.fenced, given: lineage }.into());
        }
        peer.fenced = lineage;
        self.void_responses(set);
        let unsure = |(section, record): (SectionId, &SectionRecord)| match record {
            SectionRecord::Departed(one) if one.arrived && one.to.set == set && one.to.lineage < lineage => {
                Some((section, *one))
            }
            _ => None,
        };
        let unsure: Vec<(SectionId, Tombstone)> = self.sections.known().filter_map(unsure).collect();
        for (section, tombstone) in unsure {
            self.advance(section, SectionRecord::Departed(Tombstone { arrived: false, ..tombstone }));
        }
        for migration in self.migrations.values_mut().filter(|migration| migration.to == set) {
            if let Phase::RolledBack { noted } | Phase::Completed { noted } = &mut migration.phase {
                *noted = false;
            }
        }
        Ok(())
    }

    pub(super) fn learn(&mut self, learned: &LearnDirectory) -> Result<bool, CommandRefusal> {
        let LearnDirectory { from, claims, sets } = learned;
        let sections = self.sections.len() as u32;
        let fits = |run: &ClaimRun| run.sections.end().is_some_and(|end| end <= sections);
        if claims.len() > limits::MAX_RUNS || !claims.iter().all(fits) {
            return Err(SetRefusal::BadRuns.into());
        }
        if let Some(run) = claims.iter().find(|run| run.claim.since.0 > limits::MAX_ARRIVED_EPOCH) {
            return Err(SetRefusal::BadEpoch { given: run.claim.since }.into());
        }
        let own = self.set.as_ref().map(|set| set.id);
        let version = self.route_version.next();
        for facts in sets.iter().filter(|_| self.rules >= Rules::Eight) {
            self.check_facts(*from, facts)?;
        }
        let mut changed = match from.filter(|_| self.rules >= Rules::Eight) {
            Some(from) => self.directory.merge(&self.vouched_claims(from, claims), version),
            None if self.rules >= Rules::Eight => false,
            None => self.directory.merge(claims, version),
        };
        for facts in sets.iter().filter(|facts| Some(facts.id) != own) {
            changed |= self.peer_set(facts.id)?.learn(facts, version);
        }
        if changed {
            self.route_version = version;
        }
        self.settle_closing();
        Ok(changed)
    }

    /// Checks facts that the set `from` stated. They must be about the set `from` itself, and have a name that no other
    /// set has. Their lineage and revision must not be further ahead of the facts that this log knows of the set than
    /// the set can have advanced since then.
    fn check_facts(&self, from: Option<SetId>, facts: &SetFacts) -> Result<(), CommandRefusal> {
        let set = facts.id;
        if from != Some(set) {
            return Err(SetRefusal::NotOfSender { from: from.unwrap_or_default(), set }.into());
        }
        let named = |(_, peer): &(&SetId, &PeerSet)| peer.facts.as_ref().is_some_and(|one| one.name == facts.name);
        let own = self.set.as_ref().filter(|own| own.name == facts.name).map(|own| own.id);
        let taken = self.sets.iter().filter(|(id, _)| **id != set).find(named).map(|(id, _)| *id).or(own);
        if let Some(known) = taken.filter(|known| *known != set) {
            return Err(SetRefusal::NameTaken { set, known, name: facts.name.clone() }.into());
        }
        self.check_fence(set, facts.lineage)?;
        self.check_step(set, facts.lineage)?;
        let Some(known) = self.sets.get(&set).and_then(|peer| peer.facts.as_ref()) else { return Ok(()) };
        // Certificates are issued for names, so a set under another name would have another certificate.
        if facts.name != known.name {
            let (known, given) = (known.name.clone(), facts.name.clone());
            return Err(SetRefusal::NameChanged { set, known, given }.into());
        }
        let restores = u64::from(facts.lineage.restores().saturating_sub(known.lineage.restores()));
        let step = limits::MAX_REVISION_STEP.saturating_mul(restores + 1);
        if facts.revision.0 > known.revision.0.saturating_add(step) {
            let (known, given) = (known.revision, facts.revision);
            return Err(SetRefusal::FarRevision { set, known, given }.into());
        }
        Ok(())
    }

    /// Returns the parts of the claims of the set `from` that are newer than the claims that this log knows, and that
    /// the set may make. The set may make claims about sections that it has as far as this log knows, and about
    /// sections whose set this log does not know. Claims that name this set are left out, because the records of this
    /// log state which sections are in this set.
    #[must_use]
    pub fn vouched_claims(&self, from: SetId, claims: &[ClaimRun]) -> Vec<ClaimRun> {
        let mut vouched: Vec<ClaimRun> = Vec::new();
        let own = self.set.as_ref().map(|set| set.id);
        for ClaimRun { sections, claim } in claims.iter().filter(|run| Some(run.claim.set) != own) {
            for section in sections.iter() {
                let known = self.directory.get(section);
                if known.is_some_and(|known| known.set != from || known >= *claim) {
                    continue;
                }
                match vouched.last_mut().filter(|run| run.claim == *claim && run.sections.end() == Some(section.0)) {
                    Some(run) => run.sections.sections += 1,
                    None => {
                        let sections = SectionRun { first: section, sections: 1 };
                        vouched.push(ClaimRun { sections, claim: *claim });
                    }
                }
            }
        }
        vouched
    }

    /// Returns the record of another set. If this log has no record of the set yet, adds it.
    pub(super) fn peer_set(&mut self, set: SetId) -> Result<&mut PeerSet, CommandRefusal> {
        if self.set.as_ref().ok_or(CommandRefusal::NoSet)?.id == set {
            return Err(SetRefusal::OwnSet.into());
        }
        if self.sets.len() == limits::MAX_SETS && !self.sets.contains_key(&set) {
            return Err(SetRefusal::TooManySets.into());
        }
        let fences = &mut self.fences;
        let anew = || PeerSet { fenced: fences.remove(&set).unwrap_or_default(), ..PeerSet::default() };
        Ok(self.sets.entry(set).or_insert_with(anew))
    }

    pub(super) fn claim(&mut self, section: SectionId, since: Epoch, set: SetId) {
        let sections = SectionRun { first: section, sections: 1 };
        self.directory.merge(&[ClaimRun { sections, claim: Claim { since, set } }], self.route_version);
    }

    pub(super) fn advance(&mut self, section: SectionId, next: SectionRecord) {
        let before = self.sections.get(section).copied().unwrap_or_default();
        let next = self.begun(section, &before, next);
        self.sections.advance(section, next);
        self.note_change(section, &before, &next);
        self.copies.follow(section, &next);
        if !matches!(next, SectionRecord::Resident(_)) {
            self.balancing.left(section);
        }
    }

    /// Returns the epoch and the ceiling with which a section continues after a restore. `epoch` and `ceiling` are the
    /// newest values that are still known, but the restore may have lost newer values. The returned epoch is above all
    /// epochs of the section in any lineage of any set, and the returned ceiling is above all numbers that any lineage
    /// has allocated. Returns `None` if `epoch` began after the restore, so that no newer value was lost.
    ///
    /// The count of a restore is above the counts of all earlier restores of any set. The epoch of each section that a
    /// restore makes resident contains the count of this restore, so no earlier lineage has used this epoch. The
    /// ceiling is raised by a margin for each restore that may have lost a part of the section's history. For lanes, it
    /// is the margin of their series. If the numbers are ticks, the ceiling is set instead as far above the time of the
    /// restore as any raise of an earlier lineage can have set it.
    pub(super) fn restored(&self, section: SectionId, epoch: Epoch, ceiling: Seq) -> Option<(Epoch, Seq)> {
        let lineage = self.lineage;
        let restores = lineage.restores().checked_sub(epoch.restores()).filter(|restores| *restores > 0)?;
        let epoch = Epoch(lineage.first_number() | (epoch.0 & u64::from(u32::MAX)));
        let time = self.restored_ms.unwrap_or(0);
        Some((epoch, self.raised_by(section, ceiling, (restores, time))))
    }

    /// Returns `ceiling`, raised above all numbers of the section that may have been lost in `restores` restores.
    /// `restored_ms` is the time of the newest of these restores, in milliseconds since 1970.
    pub(super) fn raised_by(&self, section: SectionId, ceiling: Seq, (restores, restored_ms): (u32, u64)) -> Seq {
        let lanes = self.set.as_ref().and_then(|set| set.layout.lanes_at(section));
        if let Some(clock) = lanes.and_then(|lanes| lanes.clock) {
            return ceiling.max(clock.clamp(restored_ms.saturating_add(limits::MAX_CLOCK_SPREAD_MS)));
        }
        let margin = lanes.map_or(self.restore_margin.0, |lanes| lanes.margin);
        let more = u64::from(restores).saturating_mul(margin);
        Seq(ceiling.0.saturating_add(more)).min(Seq::MAX)
    }
}
