use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use super::*;
use crate::arbiter::{Arbiter, ArbiterTimeouts, Declared};
use crate::id::{Epoch, Incarnation, Lineage, NodeId, SectionId, Seq, SetId};
use crate::keyspace::BUCKETS;
use crate::layout::Layout;
use crate::limits;
use crate::state::{Command, NoteReadsLanes, Registration, Replicated, RetireSeries, SetDefinition};

const SECTIONS: u32 = 10;

/// The set with which the cluster began, and another set, which joined.
fn sets() -> [State; 2] {
    let layout = Layout::new(0..100, 10).unwrap();
    let definitions =
        [SetDefinition::first("im-a", SetId(1), layout.clone()), SetDefinition::joining("im-b", SetId(2), layout)];
    definitions.map(|definition| {
        let mut state = State::default();
        state.apply(&Command::DefineSet(definition));
        state
    })
}

fn applied<C: Replicated>(state: &mut State, command: C) -> C::Output {
    C::output(state.apply(&command.into()))
}

fn keyspace(name: &str, seed: u8) -> CreateKeyspace {
    CreateKeyspace { name: name.into(), seed: Seed::new([seed; 16]), of_uids: false, created_ms: 5 }
}

fn of_uids(name: &str) -> CreateKeyspace {
    CreateKeyspace { of_uids: true, ..keyspace(name, 7) }
}

fn series(name: &str) -> CreateSeries {
    let lanes = Lanes { count: 1, per_section: 1, start: Seq(7), margin: 3, clock: None, keys: None };
    CreateSeries { name: name.into(), shape: Vec::new(), lanes, created_ms: 5 }
}

#[test]
fn the_buckets_of_a_keyspace_are_resident_from_0_on() {
    let [mut state, _] = sets();
    let sections = SectionRun { first: SectionId(SECTIONS), sections: BUCKETS.into() };
    assert_eq!(state.foresee_keyspace(&keyspace("main", 7)), Ok(sections));
    assert_eq!(applied(&mut state, keyspace("main", 7)), Ok(sections));
    for section in [sections.first, SectionId(SECTIONS + u32::from(BUCKETS) - 1)] {
        let resident = state.sections.resident(section).unwrap();
        assert_eq!((resident.max_seq, resident.epoch, resident.owner), (Seq(0), Epoch(0), None));
    }
    let keyspaces: Vec<_> = state.set.as_ref().unwrap().layout.keyspaces().collect();
    assert_eq!(keyspaces, [(Hashing::new(Seed::new([7; 16])), sections)]);
    let before = state.clone();
    assert_eq!(applied(&mut state, keyspace("main", 8)), Ok(sections), "a repeat, for which another seed was drawn");
    assert_eq!(State { revision: before.revision, ..state }, before);
}

#[test]
fn a_name_is_of_one_series_or_one_keyspace() {
    let [mut state, mut other] = sets();
    applied(&mut state, keyspace("main", 7)).unwrap();
    applied(&mut state, series("orders")).unwrap();
    let exists = |name: &str| Err(CommandRefusal::SeriesExists { name: name.into(), retired: false });
    assert_eq!(applied(&mut state, series("main")), exists("main"));
    assert_eq!(applied(&mut state, keyspace("orders", 7)), exists("orders"));
    let unknown = CommandRefusal::UnknownSeries { name: "main".into() };
    assert_eq!(applied(&mut state, RetireSeries { name: "main".into() }), Err(unknown), "it is no series");
    for name in ["", "Main", "a b"] {
        assert_eq!(applied(&mut state, keyspace(name, 7)), Err(CommandRefusal::BadSeriesName { name: name.into() }));
    }
    assert_eq!(applied(&mut other, keyspace("main", 7)), Err(CommandRefusal::NotSeriesWriter { writer: None }));
}

#[test]
fn a_cluster_has_one_keyspace_of_uids() {
    let [mut state, mut other] = sets();
    assert_eq!(state.keyspace_of_uids(), None);
    applied(&mut state, keyspace("main", 7)).unwrap();
    let sections = applied(&mut state, of_uids("users")).unwrap();
    assert_eq!(sections.first, SectionId(SECTIONS + u32::from(BUCKETS)));
    assert_eq!(state.keyspace_of_uids().map(|users| (users.name.as_str(), users.sections)), Some(("users", sections)));
    assert_eq!(applied(&mut state, of_uids("users")), Ok(sections), "a repeat");
    let first = Err(CommandRefusal::KeyspaceOfUidsExists { name: "users".into() });
    assert_eq!(
        (state.foresee_keyspace(&of_uids("more")), applied(&mut state, of_uids("more"))),
        (first.clone(), first)
    );
    let exists = |name: &str| Err(CommandRefusal::SeriesExists { name: name.into(), retired: false });
    assert_eq!(applied(&mut state, keyspace("users", 7)), exists("users"), "of the other kind");
    let first = Err(CommandRefusal::KeyspaceOfUidsExists { name: "users".into() });
    assert_eq!(applied(&mut state, of_uids("main")), first);
    applied(&mut other, state.stated_series()).unwrap();
    let layout = |state: &State| state.set.as_ref().unwrap().layout.clone();
    assert_eq!(layout(&other), layout(&state));
    let of_other = layout(&other).keyspace_of_uids().unwrap();
    assert_eq!((of_other.1, of_other.0.seed()), (sections, Some(Seed::new([7; 16]))));
}

/// Another set adopts a keyspace with its seed, between two series.
#[test]
fn another_set_adopts_keyspaces_in_order() {
    let [mut writer, mut other] = sets();
    applied(&mut writer, series("a")).unwrap();
    applied(&mut writer, keyspace("main", 7)).unwrap();
    applied(&mut writer, series("b")).unwrap();
    assert_eq!(applied(&mut other, writer.stated_series()), Ok(true));
    assert_eq!(other.stated_series().series, writer.stated_series().series);
    let layout = |state: &State| state.set.as_ref().unwrap().layout.clone();
    assert_eq!(layout(&other).id(), layout(&writer).id());
    let seeds: Vec<_> = layout(&other).keyspaces().map(|(keys, _)| keys.seed()).collect();
    assert_eq!(seeds, [Some(Seed::new([7; 16]))]);
    applied(&mut writer, keyspace("more", 8)).unwrap();
    let mut changed = writer.stated_series();
    changed.series[1].create.lanes = Lanes::of_keyspace(Hashing::new(Seed::new([9; 16])));
    assert_eq!(applied(&mut other, changed), Err(CommandRefusal::OtherSeries { from: SetId(1) }), "another seed");
}

/// A node of an earlier release owns no buckets. Neighbouring buckets get one owner.
#[test]
fn buckets_go_to_nodes_that_can_own_them_in_groups() {
    let [mut state, _] = sets();
    applied(&mut state, keyspace("main", 7)).unwrap();
    applied(&mut state, series("orders")).unwrap();
    let names = ["a1", "a2", "a3"];
    for (token, name) in (1..).zip(names) {
        applied(&mut state, Registration::new(name, "h:1", token)).unwrap();
    }
    let declared = names.map(|name| Declared { name, weight: 1 });
    let mut arbiter = Arbiter::new(ArbiterTimeouts { registration_grace: Duration::ZERO, stable_for: Duration::ZERO });
    // The owner that is planned for each section, and the number of sections for which there is none.
    let mut planned = |state: &State| {
        let plan = arbiter.evaluate(state, &declared, || Duration::ZERO);
        let owners: BTreeMap<u32, u32> = plan.reassigns.iter().map(|one| (one.section.0, one.to.0)).collect();
        (owners, plan.stranded.len())
    };
    let (owners, stranded) = planned(&state);
    assert_eq!((owners.len(), stranded), (10, usize::from(BUCKETS) + 1), "no node is known to be able");
    let incarnation = Incarnation(1);
    for node in [2, 3].map(NodeId) {
        applied(&mut state, NoteReadsLanes { node, incarnation }).unwrap();
    }
    let (owners, stranded) = planned(&state);
    assert_eq!(stranded, 0);
    let buckets = SECTIONS..SECTIONS + u32::from(BUCKETS);
    for group in buckets.clone().step_by(16) {
        let of_group: BTreeSet<u32> = (group..group + 16).map(|bucket| owners[&bucket]).collect();
        assert!(of_group.len() == 1 && !of_group.contains(&1), "{of_group:?}");
    }
    assert_ne!(owners[&buckets.end], 1, "the lane of the series");
    let owned = |node| owners.range(buckets.clone()).filter(|(_, owner)| **owner == node).count();
    assert!(owned(2) > 6_000 && owned(3) > 6_000, "{} and {}", owned(2), owned(3));
}

/// A restore may have lost a keyspace whose buckets had the same sections, so the keys begin above its numbers.
#[test]
fn a_keyspace_after_a_restore_begins_a_margin_above_0() {
    let [mut state, _] = sets();
    state.lineage = Lineage::of_restore(2, 5);
    let sections = applied(&mut state, keyspace("main", 7)).unwrap();
    let resident = state.sections.resident(sections.first).unwrap();
    assert_eq!(resident.max_seq, Seq(2 * limits::RESTORE_MARGIN));
}

#[test]
fn the_encoding_of_buckets_has_their_kind_and_seed() {
    for (of_uids, kind) in [(false, 2), (true, 3)] {
        let lanes = Lanes::of_keyspace(Hashing::new(Seed::new([7; 16])).with_uids(of_uids));
        let mut body = Vec::new();
        lanes.put(&mut body);
        assert_eq!(body[24..], [[kind].as_slice(), &[7; 16]].concat());
        let mut rest = body.as_slice();
        let taken = Lanes::take(&mut rest).unwrap();
        assert_eq!((taken, taken.keys.unwrap().seed(), rest), (lanes, Some(Seed::new([7; 16])), [].as_slice()));
        for end in 0..body.len() {
            assert_eq!(Lanes::take(&mut &body[..end]), None, "{end} bytes");
        }
    }
}
