//! Bugs that are planted into worlds of restores: in the place of an entry, in what it has written, or as the rules of
//! formats before 8 for one command.

use seq_core::state::{Answer, Command, Inherit, Recovery, Rules, State};

use super::World;
use crate::bugs::Bug;

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
    let command = rewritten(command, bug);
    let former = matches!((bug, &command), (Bug::FenceOfOwnCount, Command::Fence(_)));
    if former {
        state.rules = Rules::Seven;
    }
    let answer = state.apply(&command);
    state.rules = Rules::Eight;
    after(state, &command, answer, &before, bug)
}

/// Bugs in proposals.
fn rewritten(command: &Command, bug: Bug) -> Command {
    match (bug, command.clone()) {
        (Bug::InheritanceSkipped, Command::Inherit(Inherit(mut page))) => {
            (page.records, page.next) = (Vec::new(), None);
            Command::Inherit(Inherit(page))
        }
        (_, command) => command,
    }
}

/// Bugs in what an entry has written.
fn after(state: &mut State, command: &Command, answer: Answer, before: &State, bug: Bug) -> Answer {
    match (bug, command, answer) {
        (Bug::VoidKeepsClaims, Command::Fence(_) | Command::LearnRecords(_), answer) => {
            keep_claims(state.recovery.as_mut(), before.recovery.as_ref());
            answer
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
