//! Bugs that are planted into stores. A bug changes the state that an arbiter evaluates, a proposal, or the records
//! after an entry was applied.

use std::borrow::Cow;
use std::time::Duration;

use seq_core::arbiter::{Plan, Stranded};
use seq_core::state::{
    Answer, Command, KeptCopy, KeptFor, NodeRecord, RaiseCeilings, Reassign, Residence, SectionRecord, State, Terms,
};
use seq_core::{Epoch, SectionId};

use crate::bugs::Bug;
use crate::leader::Seat;
use crate::world::{STEP, TERMS};

/// Changes the records of nodes after an entry was applied, if the planted bug is a bug in these records. A record then
/// lacks a longer lease, or a move of the liveness counter, on which the arbiter's wait depends.
pub(crate) fn uncount(
    bug: Option<Bug>,
    nodes: &mut [NodeRecord],
    before: &[NodeRecord],
    (command, answer, changed): (&Command, &Answer, bool),
) {
    let pairs = nodes.iter_mut().zip(before);
    match (bug, command, answer) {
        (Some(Bug::NewestLease), Command::Register(one), Answer::Registered(Ok(_))) => {
            pairs
                .filter(|(node, old)| node.incarnation != old.incarnation)
                .for_each(|(node, _)| node.lease = one.lease);
        }
        (Some(Bug::RepeatNotCounted), Command::Renew(renew), Answer::Renewed(Ok(()))) => {
            pairs
                .filter(|(_, old)| old.renew_seq == renew.renew_seq)
                .for_each(|(node, old)| node.liveness = old.liveness);
        }
        (Some(Bug::RefusedRaiseNotCounted), Command::Raise { .. }, Answer::Raised(Ok(ceilings)))
            if ceilings.iter().all(Option::is_none) =>
        {
            pairs.for_each(|(node, old)| node.liveness = old.liveness);
        }
        (Some(Bug::TransferRepeatNotCounted), Command::Transfer(_), Answer::Transferred(Ok(_)))
        | (Some(Bug::DepartRepeatNotCounted), Command::Depart(_), Answer::Departed(Ok(_)))
            if !changed =>
        {
            pairs.for_each(|(node, old)| node.liveness = old.liveness);
        }
        _ => {}
    }
}

/// Returns the state that an arbiter evaluates, changed by the planted bug if it is a bug in this state. With some
/// bugs, the terms and leases in the state make the arbiter's wait too short. With `LanesToOldNodes`, every node seems
/// to be able to own lanes.
pub(crate) fn shorten(bug: Option<Bug>, state: &State) -> Cow<'_, State> {
    if bug == Some(Bug::LanesToOldNodes) {
        let mut state = state.clone();
        state.nodes.iter_mut().for_each(|node| node.reads_lanes = true);
        return Cow::Owned(state);
    }
    let terms = match bug {
        Some(Bug::ShortWait) => Terms { lease_wait: TERMS.lease * 3 / 5 },
        Some(Bug::WaitByTerms) => state.terms(),
        _ => return Cow::Borrowed(state),
    };
    let mut state = state.clone();
    state.terms = Some(terms);
    state.nodes.iter_mut().for_each(|node| node.lease = Duration::ZERO);
    Cow::Owned(state)
}

/// Changes the changes of owner that an arbiter proposes, if `PauseStopsTakeovers` or `MoveByReassign` is planted. With
/// the first bug, no dead owner is replaced while balancing is paused. With the second bug, sections that an operator
/// moves change owner as if their owners were dead.
pub(crate) fn steer_wrongly(bug: Option<Bug>, state: &State, plan: &Plan, reassigns: &mut Vec<Reassign>) {
    match bug {
        Some(Bug::PauseStopsTakeovers) if state.balancing.paused().is_some() => {
            reassigns.retain(|change| change.expected == Epoch(0));
        }
        Some(Bug::MoveByReassign) => {
            for one in plan.handovers.iter().filter(|one| state.balancing.moved(one.section) == Some(one.to)) {
                let liveness = state.node(one.from).map(|owner| owner.liveness);
                let (section, expected, to, incarnation) = (one.section, one.epoch, one.to, one.incarnation);
                reassigns.push(Reassign { section, expected, liveness, to, incarnation });
            }
        }
        _ => {}
    }
}

/// Alters proposed changes of owner just before they are applied, if `NoCompare` or `NoCompareOver` is planted.
/// Replaces the liveness counter that a change names by the current value, so that the store's comparison of the two
/// always succeeds.
pub(crate) fn loosen(bug: Option<Bug>, state: &State, reassigns: &mut [Reassign]) {
    for change in reassigns {
        let Some(record) = state.sections.resident(change.section) else { continue };
        let owner = record.owner.and_then(|owner| state.node(owner));
        let liveness = owner.filter(|owner| owner.incarnation == record.incarnation).map(|owner| owner.liveness);
        match bug {
            Some(Bug::NoCompare) => change.liveness = liveness,
            Some(Bug::NoCompareOver) if liveness.is_none() => change.liveness = None,
            _ => {}
        }
    }
}

pub(crate) fn is_granted(kept: &KeptCopy) -> bool {
    matches!(kept.kept_for, KeptFor::Granted(_))
}

/// Plants [`Bug::UnfencedRaise`]. Applies the raises of `command` that the state has refused, and reports them in
/// `answer` as accepted.
pub(crate) fn raise_unfenced(state: &mut State, command: &Command, answer: &mut Answer) {
    let (Command::Raise(RaiseCeilings { raises, .. }), Answer::Raised(outcome)) = (command, answer) else { return };
    for (raise, ceiling) in raises.iter().zip(outcome.iter_mut().flatten()) {
        let Some(record) = state.sections.resident(raise.section).copied() else { continue };
        if ceiling.is_none() && record.max_seq.0 < raise.to.0 + 100 * STEP.0 {
            let raised = Residence { max_seq: record.max_seq.max(raise.to), ..record };
            state.sections.put(raise.section, SectionRecord::Resident(raised));
            *ceiling = Some(raise.to);
        }
    }
}

/// Plants [`Bug::WaitOfOver`]. Adds changes of owner for the sections of ended incarnations, after a wait that counts
/// from the last move of the ended incarnation's liveness counter.
pub(crate) fn reassign_over(seat: &mut Seat, now: Duration, state: &State, reassigns: &mut Vec<Reassign>) {
    for (id, node) in state.nodes() {
        let seen = seat.silent.entry((id, node.incarnation)).or_insert((node.liveness, now));
        if seen.0 != node.liveness {
            *seen = (node.liveness, now);
        }
    }
    for (section, record) in state.sections.residents() {
        let Some(owner) = record.owner.filter(|_| record.epoch > Epoch(0)) else { continue };
        let over = state.node(owner).is_some_and(|node| node.incarnation != record.incarnation);
        let silent = seat.silent.get(&(owner, record.incarnation));
        if !over || silent.is_none_or(|(_, since)| now - *since < TERMS.wait) {
            continue;
        }
        let is_lane = state.set.as_ref().is_some_and(|set| set.layout.lanes_at(section).is_some());
        let can_own = |node: &NodeRecord| node.reads_lanes || !is_lane;
        let Some((to, node)) = state.nodes().find(|(id, node)| *id != owner && can_own(node)) else { continue };
        if reassigns.iter().all(|change| change.section != section) {
            let (expected, incarnation) = (record.epoch, node.incarnation);
            reassigns.push(Reassign { section, expected, liveness: None, to, incarnation });
        }
    }
}

/// Plants [`Bug::SilentAtOnce`]. Returns all sections of a set as sections without a living owner.
pub(crate) fn all_stranded(state: &State) -> Vec<Stranded> {
    let stranded = |(section, record): (SectionId, &Residence)| Stranded {
        section,
        expected: record.epoch,
        liveness: record.owner.and_then(|owner| state.node(owner)).map(|node| node.liveness),
    };
    state.sections.residents().map(stranded).collect()
}
