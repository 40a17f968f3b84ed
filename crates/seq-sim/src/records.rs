//! Checks of the changes that a log entry makes to the state of a store. The checks use none of the rules by which the
//! store makes these changes.

use std::collections::BTreeMap;

use seq_core::state::{
    Answer, Arrival, Closing, Command, CommandRefusal, Copies, KeptCopy, KeptFor, NodeRecord, RaiseCeilings, Renew,
    Residence, SectionRecord, SectionRecords, SetRefusal, State,
};
use seq_core::{Epoch, HandoverId, SectionId, Seq, limits};

use crate::bugs::Bug;
use crate::coverage::Situation;
use crate::store::Store;
use crate::store_bugs::is_granted;
use crate::world::World;

/// The parts of a state that are compared after an entry.
#[derive(Debug)]
pub(crate) struct Before {
    pub(crate) sections: SectionRecords,
    pub(crate) copies: Copies,
    pub(crate) nodes: Vec<NodeRecord>,
    closing: Closing,
    quarantined: bool,
}

impl Before {
    pub(crate) fn of(state: &State) -> Before {
        let (sections, copies, nodes) = (state.sections.clone(), state.copies.clone(), state.nodes.clone());
        let (closing, quarantined) = (state.closing, state.is_quarantined());
        Before { sections, copies, nodes, closing, quarantined }
    }
}

impl World {
    /// Counts ownerships that start from a kept copy. If a bug in kept copies is planted, also grants an old kept copy
    /// to a later ownership.
    pub(crate) fn look_at_copies(&mut self, set: usize, before: &Copies) {
        let Store { state, older_copies, .. } = &mut self.stores[set];
        let began = |copies: &Copies, section| copies.iter().any(|(one, kept)| one == section && is_granted(kept));
        let starts = state.copies.iter().filter(|(section, kept)| is_granted(kept) && !began(before, *section)).count();
        (0..starts).for_each(|_| self.coverage.saw(Situation::StartedFromKept));
        let complete = before.iter().filter(|(_, kept)| kept.is_complete());
        match self.bug {
            Some(Bug::CopyUsedTwice) => {
                let granted = complete.filter(|(_, kept)| is_granted(kept));
                older_copies.extend(granted.map(|(section, kept)| (section, kept.clone())));
            }
            Some(Bug::CopyOfOlder) => {
                older_copies.extend(complete.map(|(section, kept)| (section, kept.clone())));
            }
            _ => return,
        }
        let mut kept: BTreeMap<SectionId, KeptCopy> =
            state.copies.iter().map(|(section, kept)| (section, kept.clone())).collect();
        for (section, older) in older_copies.iter() {
            let Some(record) = state.sections.resident(*section).filter(|record| record.owner.is_some()) else {
                continue;
            };
            let (KeptFor::After(epoch) | KeptFor::Granted(epoch)) = older.kept_for;
            // With the planted bug `CopyUsedTwice`, a copy from which an ownership has started is granted a second
            // time, but only to the next ownership of the section. The next ownership has the next epoch, or the epoch
            // after that if the section was released in between.
            let next = self.bug != Some(Bug::CopyUsedTwice) || record.epoch.0 <= epoch.0 + 2;
            if next && record.epoch > epoch && record.handover_id == HandoverId(0) && !kept.contains_key(section) {
                let kept_for = KeptFor::Granted(record.epoch);
                kept.insert(*section, KeptCopy { kept_for, ..older.clone() });
            }
        }
        state.copies = Copies::from_parts(kept).expect("copies of the simulator are small");
    }

    /// Checks the section records that an entry has changed in a set. Compares each record with the record before the
    /// entry, and with the highest ceiling and all epochs that were ever committed for its section.
    pub(crate) fn look_at_records(&mut self, set: usize, before: &Before) {
        let store = &self.stores[set];
        let (closed, rolled_back) = (store.state.closing == Closing::Closed, store.rolled_back.is_some());
        for section in (0..self.layout.sections()).map(SectionId) {
            let known = before.sections.get(section).copied().unwrap_or_default();
            let Some(SectionRecord::Resident(record)) = self.stores[set].state.sections.get(section).copied() else {
                continue;
            };
            if known == SectionRecord::Resident(record) {
                continue;
            }
            let (now, homes) = (self.now, self.homes(section));
            if homes > 1 {
                self.check.broken(now, "one residence", format!("section {section} is in {homes} sets: {record:?}"));
            }
            if closed {
                let text = format!("section {section} came to set {set}, which is closed: {record:?}");
                self.check.broken(now, "a closed set stays empty", text);
            }
            self.look_at_ceiling(section, record.max_seq);
            self.look_at_owner(set, section, &record, known.fence());
            let highest = &mut self.highest[section.0 as usize];
            // In a store that was put back, ceilings are lower than ceilings that were committed before.
            let floor = if rolled_back { known.resident().map_or(Seq::ZERO, |one| one.max_seq) } else { *highest };
            *highest = record.max_seq.max(*highest);
            if record.epoch < known.fence() || record.max_seq < floor {
                let text =
                    format!("section {section} of set {set}: {known:?} became {record:?}, the ceiling was {floor}");
                self.check.broken(now, "what is committed never falls", text);
            }
            let begins = record.epoch > known.fence() && !rolled_back;
            if begins && self.epochs.insert((section, record.epoch), set).is_some() {
                self.check.broken(now, "an epoch begins once", format!("section {section}: {record:?} in set {set}"));
            }
        }
    }

    /// Checks that the ceiling of a section of timed lanes is not further ahead of the store's clock than a raise may
    /// set it. After a restore, the ceiling may be further ahead by the largest difference that is assumed between
    /// clocks.
    fn look_at_ceiling(&mut self, section: SectionId, max_seq: Seq) {
        let Some(clock) = self.layout.clock_of(section) else { return };
        let restored = self.stores.iter().any(|store| store.restores > 0);
        let spread = if restored { limits::MAX_CLOCK_SPREAD_MS } else { 0 };
        let most = clock.clamp(self.latest_ms + spread);
        if max_seq > most {
            let text = format!("section {section}: the ceiling {max_seq} at {} ms, above {most}", self.latest_ms);
            self.check.broken(self.now, "ceilings of ticks are near the store's clock", text);
        }
    }

    /// Checks that a new owner of a section of lanes is an incarnation of a release that can own lanes.
    fn look_at_owner(&mut self, set: usize, section: SectionId, record: &Residence, before: Epoch) {
        let owner = record.owner.and_then(|owner| self.stores[set].state.node(owner));
        let old = owner.is_some_and(|node| node.incarnation == record.incarnation && !node.reads_lanes);
        if old && record.epoch > before && self.layout.lanes_at(section).is_some() {
            let text = format!("section {section} of set {set}: {record:?}");
            self.check.broken(self.now, "lanes are owned by processes that can own them", text);
        }
    }

    /// Returns the number of sets that have a section.
    pub(crate) fn homes(&self, section: SectionId) -> usize {
        self.stores.iter().filter(|store| store.state.sections.resident(section).is_some()).count()
    }

    /// Checks that an entry whose response extends a node's lease is of the node's newest incarnation, and moves the
    /// liveness counter of this node. The arbiter's wait before it replaces the node begins with the last move of the
    /// counter, or with the end of the incarnation.
    pub(crate) fn look_at_liveness(&mut self, set: usize, before: &Before, (command, answer): (&Command, &Answer)) {
        let (node, incarnation) = match (command, answer) {
            (Command::Renew(renew), Answer::Renewed(Ok(()))) => (renew.node, renew.incarnation),
            (Command::Raise(RaiseCeilings { node, incarnation, .. }), Answer::Raised(Ok(_))) => (*node, *incarnation),
            (Command::Transfer(transfer), Answer::Transferred(Ok(_))) => (transfer.from, transfer.incarnation),
            (Command::Depart(depart), Answer::Departed(Ok(_))) => (depart.from, depart.incarnation),
            _ => return,
        };
        let now = self.stores[set].state.node(node).filter(|now| now.incarnation == incarnation);
        let old = before.nodes.get(node.0 as usize - 1);
        if now.zip(old).is_none_or(|(now, old)| now.liveness <= old.liveness) {
            let text = format!("node {node} of set {set}: {command:?}");
            self.check.broken(self.now, "what extends a lease is a sign of life", text);
        }
    }

    /// Counts the situations that an entry brings about.
    pub(crate) fn look_at_entry(&mut self, set: usize, before: &Before, (command, answer): (&Command, &Answer)) {
        let state = &self.stores[set].state;
        let saw: &[Situation] = match (command, answer) {
            (Command::Renew(Renew { released, .. }), Answer::Renewed(Ok(()))) if !released.is_empty() => {
                let is_kept = |section| released.iter().any(|(one, _)| *one == section);
                let exactly = state.copies.iter().any(|(section, _)| is_kept(section));
                if exactly { &[Situation::Released, Situation::ReleasedExactly] } else { &[Situation::Released] }
            }
            (Command::Reassign(_), Answer::Reassigned(outcome)) if outcome.iter().any(Option::is_none) => {
                &[Situation::Overtaken]
            }
            (Command::Depart(depart), Answer::Departed(Ok(_))) => {
                let paused = state.migrations.get(&depart.migration).is_some_and(|one| one.pace.paused);
                if paused { &[Situation::Departed, Situation::PausedDeparture] } else { &[Situation::Departed] }
            }
            (Command::Arrive(_), Answer::Arrived(Err(CommandRefusal::BetweenSets(SetRefusal::OldLineage { .. })))) => {
                &[Situation::ArrivalFenced]
            }
            (Command::DepartSilent(_), Answer::DepartedSilently(outcome)) if outcome.iter().any(Option::is_some) => {
                &[Situation::DepartedSilently]
            }
            (Command::Arrive(_), Answer::Arrived(Ok(outcome))) if outcome.contains(&Arrival::Waits) => {
                &[Situation::ArrivalWaits]
            }
            (Command::StartMigration(_), Answer::MigrationStarted(Ok(_))) => &[Situation::MigrationStarted],
            (Command::StartReturn(_), Answer::ReturnStarted(Ok(_))) => &[Situation::Returned],
            (Command::Complete(_), Answer::Completed(Ok(()))) => &[Situation::MigrationCompleted],
            (Command::BeginLineage(_), Answer::LineageBegun(Ok(()))) => &[Situation::LineageBegun],
            (Command::EndQuarantine(_), Answer::QuarantineEnded(Ok(()))) if before.quarantined => {
                &[Situation::QuarantineEnded]
            }
            (Command::SetLayoutWriter(_), Answer::LayoutWriterSet(Ok(_))) => &[Situation::SeriesHandedOver],
            (Command::CreateSeries(_), Answer::SeriesCreated(outcome)) => match (outcome, state.writer) {
                (Ok(_), Some(_)) => &[Situation::CreatedByNext],
                (Err(CommandRefusal::NotSeriesWriter { .. }), Some(_)) => &[Situation::FormerRefused],
                _ => &[],
            },
            (Command::Close(_), Answer::Closed(Ok(_))) if before.closing == Closing::Open => &[Situation::SetCloses],
            (Command::Depart(_), Answer::Departed(Err(CommandRefusal::BetweenSets(SetRefusal::SetClosing { .. })))) => {
                &[Situation::DepartureToClosing]
            }
            _ => &[],
        };
        saw.iter().for_each(|one| self.coverage.saw(*one));
    }
}
