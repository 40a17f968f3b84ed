//! Fingerprints of the preconditions of operators' plans, for changes that are commands in the set's log. The
//! preconditions for changes of the store's members are in the crate `seq_raft`.
//!
//! **Invariant:** a leader compares the preconditions while it holds the guard of
//! [`seq_raft::RaftHandle::begin_change`], and proposes the command before it releases the guard. So the preconditions
//! still hold when the command is applied (`docs/adr/0027-plans-are-compared-by-the-leader.md`).

use std::collections::BTreeSet;

use seq_core::plan::{Fingerprint, Preconditions};
use seq_core::state::{CreateKeyspace, CreateSeries, Fields, State, Terms};
use seq_core::{NodeId, SectionId, SetId};
use seq_proto::Reason;
use seq_raft::{ChangeGuard, RaftHandle, StateMachine};
use tonic::Status;

/// Conditions in an operator's request for a change: whether the change is a dry run, and the fingerprint of the plan
/// that the operator has seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Required {
    pub(crate) dry_run: bool,
    pub(crate) plan: Fingerprint,
}

impl Required {
    pub(crate) fn new(dry_run: bool, plan: u64) -> Required {
        Required { dry_run, plan: Fingerprint(plan) }
    }

    /// Returns a guard that excludes other changes, or `None` if the request is a dry run.
    pub(crate) async fn begin<'a, M: StateMachine>(
        &self,
        raft: &'a RaftHandle<M>,
    ) -> Result<Option<ChangeGuard<'a>>, Status> {
        if self.dry_run { Ok(None) } else { raft.begin_change().await.map(Some) }
    }

    /// Returns the error `STALE_PLAN` if `now`, the fingerprint of the plan that is computed now, differs from the
    /// fingerprint in the request.
    pub(crate) fn check(&self, now: Fingerprint) -> Result<(), Status> {
        self.plan.check(now).map_err(|stale| Reason::StalePlan.status(stale.to_string()))
    }
}

/// Returns a fingerprint of the set's id and its lineage. A restore from a backup changes the lineage.
pub(crate) fn history(state: &State) -> u64 {
    of("history", state).fingerprint().0
}

/// Returns the fingerprint of the preconditions for draining a node. It covers the set with its lineage, the node's
/// name, whether the node is already drained, and the other nodes that could own the node's sections.
pub(crate) fn drain(state: &State, name: &str, was: bool, left: &BTreeSet<NodeId>) -> Fingerprint {
    of("drain", state).text(name).flag(was).numbers(left.iter().map(|id| id.0.into())).fingerprint()
}

/// Returns the fingerprint of the preconditions for ending the drain of a node. It covers the set with its lineage, the
/// node's name, and whether the node is drained.
pub(crate) fn undrain(state: &State, name: &str, was: bool) -> Fingerprint {
    of("undrain", state).text(name).flag(was).fingerprint()
}

/// Returns the fingerprint of the preconditions for moving sections to `node`. It covers the set with its lineage,
/// `node`, and for each section the node to which an operator last moved it, if any.
pub(crate) fn move_sections(state: &State, node: &str, sections: &BTreeSet<SectionId>) -> Fingerprint {
    let moved = |section: &SectionId| [section.0, state.balancing.moved(*section).map_or(0, |node| node.0)];
    let numbers = sections.iter().flat_map(moved).map(u64::from);
    of("move sections", state).text(node).numbers(numbers).fingerprint()
}

/// Returns the fingerprint of the preconditions for pausing balancing or ending its pause. It covers the set with its
/// lineage, which of the two is requested, and whether balancing is paused now.
pub(crate) fn pause_balancing(state: &State, wanted: bool) -> Fingerprint {
    of("pause balancing", state).flag(wanted).flag(state.balancing.paused().is_some()).fingerprint()
}

/// Returns the fingerprint of the preconditions for changing the lease terms. It covers the set with its lineage, the
/// present terms, and the requested terms.
pub(crate) fn terms(state: &State, wanted: Option<Terms>) -> Fingerprint {
    let ms = |terms: Terms| u64::try_from(terms.lease_wait.as_millis()).unwrap_or(u64::MAX);
    of("terms", state).number(ms(state.terms())).numbers(wanted.map(ms)).fingerprint()
}

/// Returns the fingerprint of the preconditions for closing a set. It covers the set with its lineage, whether the set
/// is open, closing or closed, and the number of its sections.
pub(crate) fn close(state: &State) -> Fingerprint {
    of("close", state).number(state.closing as u64).number(state.sections.residents().count() as u64).fingerprint()
}

/// Returns the fingerprint of the preconditions for forgetting another set. It covers this set with its lineage, and
/// the other set's id, name and lineage as the other set last stated them.
pub(crate) fn forget(state: &State, set: SetId) -> Fingerprint {
    let facts = state.sets.get(&set).and_then(|peer| peer.facts.as_ref());
    let (name, lineage) = facts.map_or(("", 0), |facts| (&facts.name, facts.lineage.0));
    of("forget", state).number(set.0).text(name).number(lineage).fingerprint()
}

/// Returns the fingerprint of the preconditions for creating a series. It covers the set with its lineage, its layout,
/// and the name, shape and lanes of the series. It does not cover the series' creation time, because that time differs
/// between the dry run and the change.
pub(crate) fn create_series(state: &State, create: &CreateSeries) -> Fingerprint {
    let layout = state.set.as_ref().map_or(0, |set| set.layout.id().0);
    let mut lanes = Vec::new();
    create.lanes.put(&mut lanes);
    let bytes = create.shape.iter().chain(&lanes).map(|byte| u64::from(*byte));
    of("create series", state).number(layout).text(&create.name).numbers(bytes).fingerprint()
}

/// Returns the fingerprint of the preconditions for creating a keyspace. It covers the set with its lineage, its
/// layout, the name of the keyspace, and whether its keys are uids.
pub(crate) fn create_keyspace(state: &State, create: &CreateKeyspace) -> Fingerprint {
    let layout = state.set.as_ref().map_or(0, |set| set.layout.id().0);
    of("create keyspace", state).number(layout).text(&create.name).flag(create.of_uids).fingerprint()
}

/// Returns the fingerprint of the preconditions for retiring a series. It covers the set with its lineage, the name of
/// the series, and whether the series is already retired.
pub(crate) fn retire_series(state: &State, name: &str) -> Fingerprint {
    of("retire series", state).text(name).flag(state.series(name).is_some_and(|series| series.retired)).fingerprint()
}

/// Returns the fingerprint of the preconditions for making another set the layout writer. It covers this set with its
/// lineage, its layout, the present layout writer, and the other set's id, name and lineage as the other set last
/// stated them.
pub(crate) fn layout_writer(state: &State, to: SetId) -> Fingerprint {
    let layout = state.set.as_ref().map_or(0, |set| set.layout.id().0);
    let before = state.layout_writer().map(|writer| [writer.term, writer.from.0, writer.set.0]);
    let facts = state.sets.get(&to).and_then(|peer| peer.facts.as_ref());
    let (name, lineage) = facts.map_or(("", 0), |facts| (&facts.name, facts.lineage.0));
    let plan = of("layout writer", state).number(layout).numbers(before.into_iter().flatten());
    plan.number(to.0).text(name).number(lineage).fingerprint()
}

fn of(change: &str, state: &State) -> Preconditions {
    let id = state.set.as_ref().map_or(0, |set| set.id.0);
    Preconditions::of(change).number(id).number(state.lineage.0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use seq_core::state::Closing;
    use seq_core::{Lineage, Revision};

    use super::*;

    #[test]
    fn a_plan_rests_on_what_operators_change_and_on_nothing_that_moves_by_itself() {
        let before = State::default();
        let left = BTreeSet::from([NodeId(2)]);
        let plans = |state: &State| {
            let wanted = Some(Terms { lease_wait: Duration::from_secs(9) });
            let plans = [drain(state, "a1", false, &left), undrain(state, "a1", true), terms(state, wanted)];
            (plans, close(state), Fingerprint(history(state)))
        };
        let planned = plans(&before);
        let moved = State { revision: Revision(7), ..before.clone() };
        assert_eq!(plans(&moved), planned);

        let restored = plans(&State { lineage: Lineage(1 << 32), ..before.clone() });
        assert!(restored.0.iter().zip(&planned.0).all(|(one, other)| one != other));
        assert!(restored.1 != planned.1 && restored.2 != planned.2);
        assert_ne!(close(&State { closing: Closing::Closing, ..before.clone() }), planned.1);
        assert_ne!(drain(&before, "a1", false, &BTreeSet::new()), planned.0[0], "the last other node is gone");
        assert_ne!(drain(&before, "a1", true, &left), planned.0[0]);
        let in_force = State { terms: Some(Terms { lease_wait: Duration::from_secs(8) }), ..before.clone() };
        assert_ne!(plans(&in_force).0[2], planned.0[2]);
        assert_ne!(terms(&before, None), planned.0[2], "another change");
    }
}
