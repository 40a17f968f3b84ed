//! Bugs that are planted into worlds of restores. A bug changes a command before it is applied, changes the records
//! after a command was applied, or applies a command by the rules of the state before format 8.

use seq_core::SectionId;
use seq_core::state::{Answer, Arrival, Closing, Command, Inherit, Recovery, Residence, Rules, SectionRecord, State};

use super::{SECTIONS, World};
use crate::bugs::Bug;

impl World {
    /// Applies a command to the state of a set, and to the state of a stray member, with the planted bug.
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
    let command = rewritten(command, bug);
    let former = matches!((bug, &command), (Bug::FenceOfOwnCount, Command::Fence(_)));
    if former {
        state.rules = Rules::Seven;
    }
    let departs = matches!(command, Command::Depart(_) | Command::DepartSilent(_));
    if bug == Bug::DepartsToClosing && departs {
        state.sets.values_mut().for_each(|peer| peer.closing = false);
    }
    let answer = state.apply(&command);
    state.rules = Rules::Eight;
    if bug == Bug::DepartsToClosing && departs {
        state
            .sets
            .iter_mut()
            .for_each(|(set, peer)| peer.closing = before.sets.get(set).is_some_and(|one| one.closing));
    }
    after(state, command, answer, &before, bug)
}

/// Returns `command`, changed if `bug` is a bug that changes commands.
fn rewritten(command: &Command, bug: Bug) -> Command {
    match (bug, command.clone()) {
        (Bug::InheritanceSkipped, Command::Inherit(Inherit(mut page))) => {
            (page.records, page.next) = (Vec::new(), None);
            Command::Inherit(Inherit(page))
        }
        (_, command) => command,
    }
}

/// Changes the records that `command` has written, if `bug` is a bug that changes records. Returns the result of the
/// command. `before` is the state before the command.
fn after(state: &mut State, command: Command, answer: Answer, before: &State, bug: Bug) -> Answer {
    match (bug, command, answer) {
        (Bug::VoidKeepsClaims, Command::Fence(_) | Command::LearnRecords(_), answer) => {
            keep_claims(state.recovery.as_mut(), before.recovery.as_ref());
            answer
        }
        (Bug::EqualFenceArrives, Command::Arrive(arrive), Answer::Arrived(Ok(mut outcome))) => {
            for (one, result) in arrive.sections.iter().zip(&mut outcome) {
                let equal = before.sections.get(one.section).filter(|record| record.fence() == one.epoch);
                if *result == Arrival::Past && equal.is_some_and(|record| record.resident().is_none()) {
                    let (since, routed) = (one.epoch, state.route_version);
                    let record =
                        Residence { since, epoch: since, max_seq: one.max_seq, routed, ..Residence::default() };
                    state.sections.put(one.section, SectionRecord::Resident(record));
                    *result = Arrival::Arrived;
                }
            }
            Answer::Arrived(Ok(outcome))
        }
        (Bug::ClosesAtOnce, _, answer) => {
            let is_empty = (0..SECTIONS).map(SectionId).all(|section| {
                !matches!(state.sections.get(section), Some(SectionRecord::Resident(_) | SectionRecord::Quarantined(_)))
            });
            if state.closing == Closing::Closing && is_empty && !state.is_quarantined() {
                state.closing = Closing::Closed;
            }
            answer
        }
        (.., answer) => answer,
    }
}

/// Puts the responses and claims back into `recovery` that a command removed because another set has begun a newer
/// lineage. `before` is the recovery before the command.
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
