//! Bugs that are planted into worlds of restores: in the place of an entry, in what it has written, or as the rules of
//! formats before 8 for one command.

use seq_core::state::{
    Answer, Arrival, Command, Inherit, Recovery, Residence, Rules, SectionRecord, StartReturn, State, Tombstone,
};
use seq_core::{Lineage, SectionId};

use super::World;
use crate::bugs::Bug;

/// A state as the rules of formats up to 7 read it.
pub(super) fn by_former_rules(state: &State) -> State {
    State { rules: Rules::Seven, ..state.clone() }
}

impl World {
    /// Applies an entry, with the planted bug.
    pub(super) fn apply_planted(&mut self, set: usize, command: &Command) -> Answer {
        let bug = self.bug;
        if let Some(stray) = &mut self.sets[set].stray {
            stray.apply(command);
        }
        apply(&mut self.sets[set].state, command, bug)
    }
}

fn apply(state: &mut State, command: &Command, bug: Option<Bug>) -> Answer {
    let Some(bug) = bug else { return state.apply(command) };
    let before = state.clone();
    let command = rewritten(state, command, bug);
    let former = matches!(
        (bug, &command),
        (Bug::FenceOfOwnCount, Command::Fence(_)) | (Bug::ClosedNotAwaited, Command::EndQuarantine(_))
    );
    if former {
        state.rules = Rules::Seven;
    }
    let answer = state.apply(&command);
    state.rules = Rules::Eight;
    after(state, &command, answer, &before, bug)
}

/// Bugs in what is proposed.
fn rewritten(state: &State, command: &Command, bug: Bug) -> Command {
    match (bug, command.clone()) {
        (Bug::InheritanceSkipped, Command::Inherit(Inherit(mut page))) => {
            (page.records, page.next) = (Vec::new(), None);
            Command::Inherit(Inherit(page))
        }
        (Bug::ClosesBesideQuarantine, Command::LearnDirectory(mut learned)) => {
            learned.sets.iter_mut().for_each(|facts| facts.quarantined = false);
            Command::LearnDirectory(learned)
        }
        (Bug::RestoresSilentAtOnce, Command::DepartSilent(mut departs)) => {
            for depart in &mut departs {
                let owner = state.sections.resident(depart.section).and_then(|record| record.owner);
                depart.liveness = owner.and_then(|owner| state.node(owner)).map(|node| node.liveness);
            }
            Command::DepartSilent(departs)
        }
        (Bug::ReturnNeverWaits, Command::StartReturn(start)) => {
            Command::StartReturn(StartReturn { settled: true, ..start })
        }
        (Bug::OldNoteOfArrival, Command::Arrived(mut arrived)) => {
            arrived.lineage = Lineage(u64::MAX);
            Command::Arrived(arrived)
        }
        (_, command) => command,
    }
}

/// Bugs in what an entry has written.
fn after(state: &mut State, command: &Command, answer: Answer, before: &State, bug: Bug) -> Answer {
    match (bug, command, answer) {
        (Bug::FenceSkipsOne, Command::Fence(_) | Command::LearnRecords(_), answer) => {
            let unsure = |(section, record): (SectionId, &SectionRecord)| match (record, before.sections.get(section)) {
                (SectionRecord::Departed(now), Some(SectionRecord::Departed(then))) if then.arrived && !now.arrived => {
                    Some((section, *now))
                }
                _ => None,
            };
            let skipped = state.sections.known().filter_map(unsure).next();
            if let Some((section, tombstone)) = skipped {
                state.sections.put(section, SectionRecord::Departed(Tombstone { arrived: true, ..tombstone }));
            }
            answer
        }
        (Bug::QuarantineForgetsWait, Command::BeginLineage(_), answer @ Answer::LineageBegun(Ok(()))) => {
            let wait = state.terms().lease_wait;
            if let Some(recovery) = &mut state.recovery {
                recovery.wait = wait;
            }
            answer
        }
        (Bug::VoidKeepsClaims, Command::Fence(_) | Command::LearnRecords(_), answer) => {
            keep_claims(state.recovery.as_mut(), before.recovery.as_ref());
            answer
        }
        (Bug::EqualFenceArrives, Command::Arrive(arrive), Answer::Arrived(Ok(mut outcome))) => {
            for (one, outcome) in arrive.sections.iter().zip(&mut outcome) {
                let departed = match before.sections.get(one.section) {
                    Some(SectionRecord::Departed(tombstone)) if tombstone.epoch == one.epoch => Some(*tombstone),
                    _ => None,
                };
                if let (Some(tombstone), Arrival::Past) = (departed, *outcome) {
                    let record = Residence {
                        since: one.epoch,
                        epoch: one.epoch,
                        max_seq: one.max_seq.max(tombstone.max_seq),
                        routed: state.route_version,
                        ..Residence::default()
                    };
                    state.sections.put(one.section, SectionRecord::Resident(record));
                    *outcome = Arrival::Arrived;
                }
            }
            Answer::Arrived(Ok(outcome))
        }
        (.., answer) => answer,
    }
}

/// Puts the responses back that a newer lineage of another set has voided.
fn keep_claims(recovery: Option<&mut Recovery>, before: Option<&Recovery>) {
    let (Some(recovery), Some(before)) = (recovery, before) else { return };
    for (set, next) in &before.responses {
        recovery.responses.entry(*set).or_insert(*next);
    }
    for (section, claim) in &before.claims {
        let known = recovery.claims.entry(*section).or_insert(*claim);
        *known = (*known).max(*claim);
    }
}
