//! Each command gets its own output.

use alloc::vec;
use core::time::Duration;

use super::*;
use crate::id::{HandoverId, Lineage, RenewSeq, Revision, SectionId, SetId};
use crate::layout::{Layout, SectionRun};
use crate::state::{Arriving, Destination, Pace, Raise, SetFacts, SetRefusal, Terms};

fn apply<C: Replicated>(state: &mut State, command: C) -> C::Output {
    C::output(state.apply(&command.into()))
}

#[test]
fn every_command_gets_its_own_output() {
    let state = &mut State::default();
    let layout = Layout::new(0..1_000, 100).unwrap();
    assert_eq!(apply(state, SetDefinition::only("dev", layout)), Ok(()));
    let terms = Terms { lease_wait: Duration::from_secs(10) };
    assert_eq!(apply(state, SetTerms { replaces: None, terms }), Ok(()));
    let (one, incarnation) = apply(state, Registration::new("a1", "a1:1", 1)).unwrap();
    let (two, to_incarnation) = apply(state, Registration::new("a2", "a2:1", 2)).unwrap();
    let (section, epoch) = (SectionId(0), Epoch(1));
    let first = Reassign { section, expected: Epoch(0), liveness: None, to: one, incarnation };
    assert_eq!(apply(state, vec![first]), [Some(epoch)]);
    let renew = Renew { node: one, incarnation, renew_seq: RenewSeq(1), ..Renew::default() };
    assert_eq!(apply(state, renew), Ok(()));
    let raises = vec![Raise { section, epoch, to: Seq(7) }];
    assert_eq!(apply(state, RaiseCeilings { node: one, incarnation, raises }), Ok(vec![Some(Seq(7))]));
    let handover_id = HandoverId(5);
    let transfer = Transfer { section, epoch, from: one, incarnation, to: two, to_incarnation, handover_id };
    assert_eq!(apply(state, transfer), Ok(Transferred { epoch: Epoch(2), max_seq: Seq(7) }));
    assert_eq!(apply(state, Drain { name: "a1".into(), drained: true }), Ok(one));
    assert_eq!(apply(state, MoveSections { sections: vec![section], to: Some(one) }), Ok(()));
    assert_eq!(apply(state, PauseBalancing(None)), Ok(()));
    assert!(apply(state, ClaimStoreId { id: 4 }));
}

#[test]
fn every_command_between_sets_gets_its_own_output() {
    let state = &mut State::default();
    let layout = Layout::new(0..1_000, 100).unwrap();
    assert_eq!(apply(state, SetDefinition::only("dev", layout.clone())), Ok(()));
    let (from, incarnation) = apply(state, Registration::new("a1", "a1:1", 1)).unwrap();
    let (to, id, lineage) = (SetId(9), MigrationId(5), Lineage(0));
    let (name, revision) = ("other".into(), Revision(1));
    let facts = SetFacts { id: to, lineage, revision, name, ..SetFacts::default() };
    let learned = LearnDirectory { from: Some(to), claims: vec![], sets: vec![facts] };
    assert_eq!(apply(state, learned), Ok(true));
    let pace = Pace { rate: 1, max_pause: Duration::from_secs(1), paused: false };
    let (layout_id, runs) = (layout.id(), vec![SectionRun { first: SectionId(0), sections: 2 }]);
    let fingerprint = state.fingerprint(to, &runs).unwrap();
    assert_eq!(apply(state, StartMigration { id, to, lineage, layout_id, runs, pace, fingerprint }), Ok(id));
    assert_eq!(apply(state, SetPace { id, pace }), Ok(()));
    let (section, epoch, handover_id) = (SectionId(0), Epoch(1), HandoverId(3));
    let first = Reassign { section, expected: Epoch(0), liveness: None, to: from, incarnation };
    assert_eq!(apply(state, vec![first]), [Some(epoch)]);
    let there = Destination { set: to, lineage, node: None, incarnation: Incarnation(0) };
    let depart = Depart { section, epoch, from, incarnation, to: there, handover_id, migration: id };
    assert_eq!(apply(state, depart), Ok(Transferred { epoch: Epoch(2), max_seq: Seq(0) }));
    let (section, expected, liveness) = (SectionId(1), Epoch(0), None);
    let silent = DepartSilent { section, expected, liveness, to, lineage, migration: id };
    assert_eq!(apply(state, vec![silent]), [Some(Epoch(1))]);
    let sections = vec![(SectionId(0), Epoch(2)), (SectionId(1), Epoch(1)), (SectionId(1), Epoch(9))];
    assert_eq!(apply(state, Arrived { at: to, lineage, sections, ended: vec![] }), 2);
    assert_eq!(apply(state, Rollback { id }), Ok(()));
    assert_eq!(apply(state, Complete { id, by: None }), Err(SetRefusal::MigrationOver { migration: id }.into()));
    let (epoch, max_seq, migration) = (Epoch(2), Seq(70), MigrationId(6));
    let back = Arriving { section, epoch, max_seq, handover_id, node: Some(from), incarnation, migration };
    let sections = vec![back, Arriving { epoch: Epoch(1), ..back }];
    let arrive = Arrive { from: to, from_lineage: lineage, to_lineage: lineage, layout_id, sections };
    assert_eq!(apply(state, arrive), Ok(vec![Arrival::Arrived, Arrival::Past]));
    let back = StartReturn { of: MigrationId(6), to, id: MigrationId(7), pace, settled: true };
    assert_eq!(apply(state, back), Ok(MigrationId(7)));
    let sections = 9;
    assert_eq!(apply(state, Close), Err(SetRefusal::NotEmpty { section: SectionId(1), sections }.into()));
    assert_eq!(apply(state, Fence { set: to, lineage: Lineage(1 << 32) }), Ok(()));
    let (first, next) = (SectionId(0), None);
    let (records, sets, closing, wait) = (vec![], vec![], false, Duration::ZERO);
    let page = FenceResponse {
        set: to,
        lineage: Lineage(1),
        fenced: lineage,
        first,
        next,
        records,
        sets,
        closing,
        wait,
        inherited: vec![],
    };
    assert_eq!(apply(state, page.clone()), Ok(false), "the set is not in quarantine");
    assert_eq!(apply(state, Inherit(page)), Err(SetRefusal::NotClosing { set: to }.into()));
    assert_eq!(apply(state, Forget { set: SetId(77) }), Ok(false));
    assert_eq!(apply(state, EndQuarantine { lineage }), Ok(()));
    assert_eq!(
        apply(state, ReportLoss { node: "a1".into(), incarnation, seen: Revision(99), certain: true }),
        Ok(true)
    );
    let begin = BeginLineage { lineage: Lineage(2 << 32) };
    assert_eq!(apply(state, begin), Err(SetRefusal::NotQuarantined.into()));
    let (at_unix_ms, plan) = (0, 0);
    let [principal, node, operation] = ["operator/a", "s1", "set close im-a"].map(Into::into);
    assert_eq!(apply(state, BeginOperation { at_unix_ms, principal, node, operation, plan }), Ok(1));
    assert_eq!(apply(state, EndOperation { at_unix_ms, operation: 1, refusal: None }), Ok(()));
}
