//! Bugs that are planted into the stores in worlds of two sets. A bug replaces a command of the log, or changes the
//! records after a command was applied.

use seq_core::limits::RESTORE_MARGIN;
use seq_core::migration::{Coordinator, Effect};
use seq_core::state::{
    Answer, Command, Depart, Destination, Fence, LayoutWriter, Residence, SectionRecord, SectionRecords, SetRefusal,
    State, Tombstone,
};
use seq_core::{Epoch, Incarnation, Lineage, MigrationId, NodeId, SectionId, Seq};

use super::between::{Asked, Between};
use crate::bugs::Bug;
use crate::hosts::{index_of, set_id, set_of_member};
use crate::store::Store;
use crate::world::World;

impl World {
    /// Plants [`Bug::QuarantineByReading`]. Responds to a fence after only reading the state, without an entry in the
    /// log.
    pub(crate) fn respond_by_reading(&mut self, set: usize, asked: Asked, lineage: Lineage) {
        let kept = self.stores[set].state.clone();
        let answer = self.stores[set].state.apply(&Command::Fence(Fence { set: set_id(1 - set), lineage }));
        self.respond_to_set(set, asked, answer);
        self.stores[set].state = kept;
    }

    /// If the planted bug replaces `command`, applies the bug instead, and returns the result. Otherwise returns
    /// `None`, so that the caller applies the command itself.
    pub(crate) fn apply_planted(&mut self, set: usize, command: &Command) -> Option<Answer> {
        let state = &mut self.stores[set].state;
        match (self.bug?, command) {
            // The refusal `MigrationOver` states that every repeat of the request will be refused, too. The refusal
            // `OtherMigration` states that a later entry may lift the refusal.
            (
                bug @ (Bug::PauseRefuses | Bug::SetsThawInconclusive),
                Command::Depart(Depart { section, migration, .. }),
            ) => {
                let (paused, migration) =
                    (state.migrations.get(migration).is_some_and(|one| one.pace.paused), *migration);
                let refusal = match bug {
                    Bug::PauseRefuses => SetRefusal::MigrationOver { migration },
                    _ => SetRefusal::OtherMigration { migration },
                };
                let refuses = paused && state.sections.resident(*section).is_some();
                refuses.then(|| Answer::Departed(Err(refusal.into())))
            }
            (Bug::SilentAtOnce, Command::DepartSilent(departs)) => {
                let mut departs = departs.clone();
                for depart in &mut departs {
                    let owner = state.sections.resident(depart.section).and_then(|record| record.owner);
                    depart.liveness = owner.and_then(|owner| state.node(owner)).map(|node| node.liveness);
                }
                Some(state.apply(&Command::DepartSilent(departs)))
            }
            (Bug::FormerWriterAppends | Bug::WriterBeforeAdoption, Command::CreateSeries(_)) => {
                self.create_as_writer(set, command)
            }
            _ => None,
        }
    }

    /// Plants [`Bug::FormerWriterAppends`] or [`Bug::WriterBeforeAdoption`]. Lets a set create a series although it has
    /// handed the creation of series to the other set, or before it has adopted the hand-over of this task to itself.
    fn create_as_writer(&mut self, set: usize, command: &Command) -> Option<Answer> {
        let (own, other) = (set_id(set), self.stores[1 - set].state.layout_writer());
        let state = &mut self.stores[set].state;
        let known = state.layout_writer()?;
        let is_former = self.bug == Some(Bug::FormerWriterAppends) && known.from == own && known.set != own;
        let is_next = self.bug == Some(Bug::WriterBeforeAdoption)
            && other.is_some_and(|other| other.set == own && other.term > known.term);
        if !is_former && !is_next {
            return None;
        }
        let kept = state.writer.replace(LayoutWriter { set: own, changes: 0, ..known });
        let answer = state.apply(command);
        state.writer = kept;
        Some(answer)
    }

    /// Changes the records that a command has written, if the planted bug is a bug in records. `before` has the records
    /// before the command.
    pub(crate) fn after_planted(&mut self, set: usize, command: &Command, answer: &Answer, before: &SectionRecords) {
        let Store { state, armed_at, .. } = &mut self.stores[set];
        match (self.bug, command, answer) {
            (Some(Bug::CeilingOfThePlan), Command::Depart(depart), Answer::Departed(Ok(_))) => {
                if let Some(SectionRecord::Departed(one)) = state.sections.get(depart.section).copied()
                    && let Some(max_seq) = armed_at.get(&depart.section)
                {
                    let record = Tombstone { max_seq: *max_seq, ..one };
                    state.sections.put(depart.section, SectionRecord::Departed(record));
                }
            }
            (Some(Bug::TombstoneDeleted), Command::Arrived(arrived), _) => {
                for (section, epoch) in &arrived.sections {
                    let noted = |one: &Tombstone| one.arrived && one.epoch == *epoch;
                    if matches!(state.sections.get(*section), Some(SectionRecord::Departed(one)) if noted(one)) {
                        state.sections.put(*section, SectionRecord::Never);
                    }
                }
            }
            (Some(Bug::RepeatedArriveWrites), Command::Arrive(arrive), Answer::Arrived(Ok(_))) => {
                for one in &arrive.sections {
                    if let Some(SectionRecord::Resident(old)) = before.get(one.section)
                        && let Some(SectionRecord::Resident(record)) = state.sections.get(one.section).copied()
                        && old.since == one.epoch
                    {
                        let record = Residence { max_seq: one.max_seq, ..record };
                        state.sections.put(one.section, SectionRecord::Resident(record));
                    }
                }
            }
            (Some(Bug::RollbackByFiat), Command::Rollback(rollback), Answer::RolledBack(Ok(()))) => {
                let back = |(section, record): (SectionId, &SectionRecord)| match record {
                    SectionRecord::Departed(one) if one.by == rollback.id => Some((section, *one)),
                    _ => None,
                };
                let back: Vec<_> = state.sections.known().filter_map(back).collect();
                for (section, Tombstone { epoch, max_seq, .. }) in back {
                    let (since, routed) = (epoch.next(), state.route_version);
                    let record = Residence { since, epoch: since, max_seq, routed, ..Residence::default() };
                    state.sections.put(section, SectionRecord::Resident(record));
                }
            }
            (Some(Bug::OneMargin), Command::EndQuarantine(_), Answer::QuarantineEnded(Ok(()))) => {
                for (section, record) in before.known() {
                    if let SectionRecord::Quarantined(old) = record
                        && let Some(SectionRecord::Resident(record)) = state.sections.get(section).copied()
                        && record.max_seq.0 > old.max_seq.0 + RESTORE_MARGIN
                    {
                        let record = Residence { max_seq: Seq(old.max_seq.0 + RESTORE_MARGIN), ..record };
                        state.sections.put(section, SectionRecord::Resident(record));
                    }
                }
            }
            (Some(Bug::GossipFences), Command::Reassign(_) | Command::Renew { .. }, _) => self.adopt_claims(set),
            _ => after_planted_in_lanes(self.bug, state, (command, answer), before),
        }
    }

    /// Plants [`Bug::GossipFences`]. Raises the fences of sections in a store because the directory of the other set
    /// has newer claims.
    fn adopt_claims(&mut self, set: usize) {
        let claims: Vec<_> = self.stores[1 - set].state.directory.runs().collect();
        let state = &mut self.stores[set].state;
        for run in claims {
            for section in run.sections.iter() {
                let record = state.sections.get(section).copied().unwrap_or_default();
                if run.claim.since > record.fence() && record.resident().is_none() {
                    let to = Destination {
                        set: run.claim.set,
                        lineage: Lineage(0),
                        node: None,
                        incarnation: Incarnation(0),
                    };
                    let epoch: Epoch = run.claim.since;
                    let fence = Tombstone {
                        epoch,
                        to,
                        handover_id: seq_core::HandoverId(0),
                        max_seq: Seq::ZERO,
                        by: MigrationId(0),
                        arrived: true,
                        routed: state.route_version,
                    };
                    state.sections.put(section, SectionRecord::Departed(fence));
                }
            }
        }
    }

    /// Plants [`Bug::ArriveBeforeCommit`]. Sends the arrival of a section to the other set although the section's
    /// departure is only proposed. The proposal is never committed.
    pub(crate) fn send_proposed(&mut self, member: usize, depart: &Depart) {
        let set = set_of_member(member);
        let mut proposed = self.stores[set].state.clone();
        let answer = proposed.apply(&Command::Depart(*depart));
        let living = |_: NodeId, _: Incarnation| true;
        if let Answer::Departed(Ok(_)) = answer {
            for effect in Coordinator::default().evaluate(&proposed, &[], living, self.elapsed()) {
                if let Effect::Arrive { to, arrive } = effect {
                    self.send_to_set(member, index_of(to), Between::Arrive(arrive));
                }
            }
        }
    }
    /// Plants [`Bug::ServesAtOnce`]. Ends the quarantine of a restored set at once, and makes all its sections resident
    /// at the ceilings of its backup.
    pub(crate) fn serve_at_once(&mut self, set: usize) {
        let state = &mut self.stores[set].state;
        state.recovery = None;
        let quarantined = |(section, record): (_, &SectionRecord)| match record {
            SectionRecord::Quarantined(one) => Some((section, *one)),
            _ => None,
        };
        let all: Vec<_> = state.sections.known().filter_map(quarantined).collect();
        for (section, one) in all {
            let (since, routed) = (one.epoch.next(), state.route_version);
            let record = Residence { since, epoch: since, max_seq: one.max_seq, routed, ..Residence::default() };
            state.sections.put(section, SectionRecord::Resident(record));
        }
    }
}

/// Changes the records of lanes that a command has written, if the planted bug is a bug in records of lanes. `before`
/// has the records before the command.
fn after_planted_in_lanes(bug: Option<Bug>, state: &mut State, entry: (&Command, &Answer), before: &SectionRecords) {
    match (bug, entry.0, entry.1) {
        (Some(Bug::RestoredWithoutClock), Command::EndQuarantine(_), Answer::QuarantineEnded(Ok(()))) => {
            let layout = state.set.as_ref().map(|set| set.layout.clone()).expect("the set is defined");
            for (section, record) in before.known() {
                if let (SectionRecord::Quarantined(old), Some(clock)) = (record, layout.clock_of(section))
                    && let Some(SectionRecord::Resident(record)) = state.sections.get(section).copied()
                {
                    let record = Residence { max_seq: Seq(old.max_seq.0 + clock.lead().0), ..record };
                    state.sections.put(section, SectionRecord::Resident(record));
                }
            }
        }
        (Some(Bug::RecreatedAtStart), Command::CreateSeries(create), Answer::SeriesCreated(Ok(sections))) => {
            for section in sections.iter() {
                if let Some(SectionRecord::Resident(record)) = state.sections.get(section).copied()
                    && before.get(section).is_none()
                {
                    let record = Residence { max_seq: create.lanes.start, ..record };
                    state.sections.put(section, SectionRecord::Resident(record));
                }
            }
        }
        _ => {}
    }
}
