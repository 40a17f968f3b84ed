//! Continues a set from a backup. The restored set begins another lineage. It is in quarantine until all other sets
//! have fenced its older lineages.
//!
//! The backup lacks everything that was committed after it was made: departures of sections, raises of ceilings, and
//! registrations of incarnations. So until the other sets have responded, no section of the restored set is served or
//! departs, and no process that registered in an earlier lineage is accepted. Each other set responds only after its
//! log has an entry that fences the earlier lineages. A response before that entry would not be enough, because a
//! section that an earlier lineage sent could still arrive in the other set afterwards.
//!
//! If a response shows that a section is in another set, this log gets a tombstone of the section, even if the section
//! was never in this set according to the backup. If that other set is restored as well, this tombstone may be the only
//! record that brings the section back to it.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::beginning::Beginning;
use super::events::EventRecord;
use super::record::{Destination, Quarantine, Residence, SectionRecord, Tombstone};
use super::recovery::{RecordClaim, Recovery};
use super::set_command::{Arriving, BeginLineage, EndQuarantine, SetRefusal};
use super::{Closing, CommandRefusal, PeerSet, Phase, RestoreMargin, Rules, Scope, State};
use crate::id::{HandoverId, Incarnation, Lineage, RouteVersion, SectionId, SetId};
use crate::limits;

impl State {
    /// Begins `lineage` from this state, which was read from a backup.
    ///
    /// The lineage must count more restores than any lineage, of this set or of another set, that a set of the cluster
    /// knows, because the margins by which ceilings are raised are multiplied by the count. This function compares the
    /// count only with the lineages that the backup knows. Other sets refuse the fence of the lineage if its count is
    /// not above the counts that they know.
    ///
    /// # Errors
    /// [`SetRefusal::TooFewRestores`] if the count is below [`State::least_restores`]. [`SetRefusal::OtherLineage`] if
    /// the count is above [`limits::MAX_RESTORES`].
    pub fn restore(&mut self, lineage: Lineage) -> Result<(), CommandRefusal> {
        let backup = self.lineage;
        let least = self.least_restores();
        if lineage.restores() < least {
            return Err(SetRefusal::TooFewRestores { given: lineage, least }.into());
        }
        if lineage.restores() > limits::MAX_RESTORES {
            return Err(SetRefusal::OtherLineage { current: backup, given: lineage }.into());
        }
        let wait = self.longest_session();
        // Only the backup counts here, not the facts that a set in quarantine has learned since.
        let closed = match self.recovery.take() {
            Some(before) => before.closed,
            None => self.closed_sets(),
        };
        self.recovery = Some(Recovery { wait, closed, ..Recovery::default() });
        if self.rules >= Rules::Eight {
            self.restore_margin = self.restore_margin.max(RestoreMargin::default());
        }
        self.lineage = lineage;
        self.restored_ms = None;
        self.loss = None;
        // Processes have received revisions that the backup lacks. Each restore lacks less than 2^32 of them.
        let restores = lineage.restores() - backup.restores();
        self.revision.0 = self.revision.0.saturating_add(u64::from(restores) << 32);
        // AllocSvrs have copies of the route table with versions that the backup does not know.
        let routed = RouteVersion(self.route_version.0.max(lineage.first_number()) + 1);
        self.route_version = routed;
        let residents: Vec<(SectionId, Residence)> =
            self.sections.residents().map(|(section, residence)| (section, *residence)).collect();
        for (section, Residence { since, epoch, max_seq, came_by, .. }) in residents {
            let quarantine = Quarantine { since, epoch, max_seq, came_by, routed };
            self.advance(section, SectionRecord::Quarantined(quarantine));
        }
        self.nodes.clear();
        // Under earlier rules there is no event log.
        if self.rules >= Rules::Eleven {
            self.events.begin_lineage(lineage);
        }
        self.note_event(EventRecord::Restored { lineage });
        self.balancing.clear();
        for migration in self.migrations.values_mut().filter(|one| one.phase == Phase::Open) {
            migration.phase = match migration.scope {
                Scope::Runs(_) => Phase::RolledBack { noted: false },
                // The sections that have returned stay in the set to which they returned.
                Scope::Return { .. } => Phase::Completed { noted: false },
            };
        }
        Ok(())
    }

    /// Returns the least count of restores that the next lineage needs, as far as this log knows. Another set may
    /// require a higher count. It then states that count when it refuses the fence of the next lineage.
    #[must_use]
    pub fn least_restores(&self) -> u32 {
        match self.rules {
            Rules::Seven => {
                self.sets.values().map(|peer| peer.fenced.restores()).fold(self.lineage.restores() + 1, Ord::max)
            }
            // Another set may have served in a lineage with the highest known count, and sections that it sent to this
            // set show that count.
            Rules::Eight | Rules::Nine | Rules::Ten | Rules::Eleven => self.most_restores().saturating_add(1),
        }
    }

    /// Returns the highest count of restores among all lineages of all sets that this log knows.
    #[must_use]
    pub fn most_restores(&self) -> u32 {
        let forgotten = self.fences.values().map(|fenced| fenced.restores());
        self.sets.values().map(PeerSet::restores).chain(forgotten).fold(self.lineage.restores(), Ord::max)
    }

    /// Returns the sets that are closed according to the facts that they stated.
    fn closed_sets(&self) -> BTreeSet<SetId> {
        let is_closed = |peer: &PeerSet| peer.facts.as_ref().is_some_and(|facts| facts.closing == Closing::Closed);
        self.sets.iter().filter(|(_, peer)| is_closed(peer)).map(|(set, _)| *set).collect()
    }

    pub(super) fn begin_lineage(&mut self, command: &BeginLineage) -> Result<(), CommandRefusal> {
        let BeginLineage { lineage } = *command;
        if lineage == self.lineage {
            return Ok(());
        }
        if !self.is_quarantined() {
            return Err(SetRefusal::NotQuarantined.into());
        }
        // Unlike a restore from a backup, this happens at a time that the leader has noted.
        let now_ms = self.events.now_ms();
        self.restore(lineage)?;
        self.events.set_time(now_ms);
        Ok(())
    }

    pub(super) fn end_quarantine(&mut self, command: &EndQuarantine) -> Result<(), CommandRefusal> {
        let EndQuarantine { lineage } = *command;
        if lineage != self.lineage {
            return Err(SetRefusal::OtherLineage { current: self.lineage, given: lineage }.into());
        }
        let own = self.set.as_ref().ok_or(CommandRefusal::NoSet)?.id;
        if let Some((set, _)) = self.awaited_responses().next() {
            return Err(SetRefusal::NotResponded { set }.into());
        }
        if self.awaits_clock() {
            return Err(SetRefusal::ClockNotNoted.into());
        }
        let Some(Recovery { claims, inherited, .. }) = self.recovery.take() else { return Ok(()) };
        self.keep_inherited(&inherited);
        let version = self.route_version.next();
        self.route_version = version;
        for (section, claim) in claims {
            self.recover(section, &claim, own, version);
        }
        let quarantined = |(section, record): (SectionId, &SectionRecord)| match record {
            SectionRecord::Quarantined(quarantine) => Some((section, *quarantine)),
            _ => None,
        };
        let stayed: Vec<(SectionId, Quarantine)> = self.sections.known().filter_map(quarantined).collect();
        for (section, quarantine) in stayed {
            self.come_home(section, &quarantine, own, version);
        }
        self.note_event(EventRecord::QuarantineEnded);
        Ok(())
    }

    /// Adopts a claim about a section that another set stated, if the claim is newer than this log's record of the
    /// section.
    fn recover(&mut self, section: SectionId, stated: &RecordClaim, own: SetId, version: RouteVersion) {
        let RecordClaim { claim, lineage, max_seq, migration } = *stated;
        let Some(record) = self.sections.get(section).copied() else { return };
        // If the section is resident, it arrived in this lineage, which is later than any other set's statement.
        if claim.since <= record.fence() || record.resident().is_some() {
            return;
        }
        if claim.set == own {
            // The section departed to an older lineage of this set. It arrives now, because the other set may never
            // send it again.
            let (epoch, handover_id, incarnation) = (claim.since, HandoverId(0), Incarnation(0));
            let one = Arriving { section, epoch, max_seq, handover_id, node: None, incarnation, migration };
            if lineage == self.lineage {
                self.arrive_one(&one, one, None, version);
            } else {
                self.arrive_after_restore(&one, None, version);
            }
            return;
        }
        let tombstone = Tombstone {
            epoch: claim.since,
            to: Destination { set: claim.set, lineage, node: None, incarnation: Incarnation(0) },
            handover_id: HandoverId(0),
            max_seq: max_seq.max(record.max_seq()),
            by: migration,
            // The set from which the section departed may have been restored as well, so the arrival is sent until the
            // section's set has noted it.
            arrived: false,
            routed: version,
        };
        self.advance(section, SectionRecord::Departed(tombstone));
        self.claim(section, claim.since, claim.set);
    }

    /// Makes a section in quarantine resident again, because no other set has stated a newer record of it. The new
    /// epoch and ceiling are above all epochs and ceilings of the section that the restore may have lost.
    fn come_home(&mut self, section: SectionId, quarantine: &Quarantine, own: SetId, version: RouteVersion) {
        let Some((epoch, max_seq)) = self.restored(section, quarantine.epoch, quarantine.max_seq) else { return };
        let residence = Residence {
            since: epoch,
            epoch,
            owner: None,
            incarnation: Incarnation(0),
            max_seq,
            routed: version,
            handover_id: HandoverId(0),
            came_by: quarantine.came_by,
            began: Beginning::default(),
        };
        self.advance(section, SectionRecord::Resident(residence));
        self.claim(section, epoch, own);
    }
}
