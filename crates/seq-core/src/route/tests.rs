use alloc::format;
use alloc::vec;

use proptest::prelude::*;

use super::*;
use crate::id::Seq;
use crate::keyspace::{Hashing, Seed};
use crate::layout::Lanes;

const SECTIONS: u32 = 12;

fn route(owner: u32, epoch: u64) -> Route {
    Route::here((owner > 0).then_some(NodeId(owner)), Epoch(epoch))
}

fn run(first: u32, sections: u32, owner: u32) -> RouteRun {
    RouteRun { first: SectionId(first), sections, route: route(owner, 1) }
}

/// Creates an update of three nodes.
fn update(base: u64, version: u64, runs: Vec<RouteRun>) -> RouteUpdate {
    let node = |id| (NodeId(id), RouteNode { name: format!("a{id}"), addr: format!("a{id}:{version}") });
    RouteUpdate {
        id: SetId(7),
        sets: BTreeMap::new(),
        set: "dev".into(),
        layout: Layout::new(0..u64::from(SECTIONS) * 10, 10).unwrap(),
        version: RouteVersion(version),
        base: RouteVersion(base),
        nodes: (1..=3).map(node).collect(),
        runs,
        series: [].into(),
    }
}

fn table(version: u64, runs: Vec<RouteRun>) -> RouteTable {
    RouteTable::from_whole(&update(0, version, runs)).unwrap()
}

/// Passes `update` to a table that must not adopt it, and checks that the table is unchanged.
fn check_unchanged(update: &RouteUpdate, expected: Adopted) {
    let mut table = table(5, vec![run(0, 6, 1), run(6, 6, 3)]);
    let before = table.clone();
    assert_eq!(table.adopt(update), expected, "{update:?}");
    assert_eq!(table, before);
}

#[test]
fn neighbours_with_one_route_are_one_run() {
    let routes = [(0, 1), (1, 1), (2, 2), (4, 2), (5, 2), (6, 0)];
    let routes = routes.map(|(section, owner)| (SectionId(section), route(owner, 1)));
    assert_eq!(runs(routes.into_iter()), [run(0, 2, 1), run(2, 1, 2), run(4, 2, 2), run(6, 1, 0)]);
}

#[test]
fn a_version_that_is_not_newer_is_not_adopted() {
    check_unchanged(&update(0, 5, vec![run(0, 12, 2)]), Adopted::NotNewer);
    check_unchanged(&update(0, 4, vec![run(0, 12, 2)]), Adopted::NotNewer);
    check_unchanged(&update(3, 4, vec![run(0, 12, 2)]), Adopted::NotNewer);
}

#[test]
fn a_delta_with_a_gap_before_it_is_not_adopted() {
    check_unchanged(&update(6, 7, vec![run(0, 12, 2)]), Adopted::Mismatch);
}

#[test]
fn an_update_of_another_set_or_layout_is_not_adopted() {
    check_unchanged(&RouteUpdate { id: SetId(8), ..update(5, 6, vec![]) }, Adopted::Mismatch);
    let layout = Layout::new(0..240, 20).unwrap();
    check_unchanged(&RouteUpdate { layout, ..update(5, 6, vec![]) }, Adopted::Mismatch);
}

/// Checks the layout after a series is appended between two versions of the table, even past the end of a chunk. The
/// layout never gets shorter afterwards.
#[test]
fn a_longer_layout_is_adopted_with_the_routes_of_its_sections() {
    let lanes = |sections| Lanes { count: sections, per_section: 1, start: Seq(0), margin: 1, clock: None, keys: None };
    for sections in [1, CHUNK as u32 - SECTIONS, CHUNK as u32, 3 * CHUNK as u32] {
        let last = SECTIONS + sections - 1;
        let (layout, appended) = update(5, 6, vec![]).layout.append(lanes(sections)).unwrap();
        let longer = RouteUpdate { layout: layout.clone(), ..update(5, 6, vec![run(SECTIONS, sections, 2)]) };
        let mut table = table(5, vec![run(0, SECTIONS, 1)]);
        assert_eq!(table.adopt(&longer), Adopted::Newer);
        assert_eq!((table.layout(), table.get(appended.first)), (&layout, Some(route(2, 1))));
        assert_eq!([last, last + 1].map(|section| table.get(SectionId(section))), [Some(route(2, 1)), None]);
        assert_eq!(table.get(SectionId(0)), Some(route(1, 1)));
        let before = table.clone();
        assert_eq!(table.adopt(&update(0, 6, vec![run(0, SECTIONS, 3)])), Adopted::NotNewer);
        assert_eq!(table.adopt(&update(6, 7, vec![run(0, SECTIONS, 3)])), Adopted::Mismatch, "a shorter layout");
        assert_eq!(table, before);
        // A table of the previous version gets both from this table.
        let mut other = self::table(5, vec![run(0, SECTIONS, 1)]);
        assert_eq!(other.adopt(&table.since(RouteVersion(5)).unwrap()), Adopted::Newer);
        assert_eq!(other, table);
    }
}

/// The routes of a peer have no seeds. They neither take a seed away nor hide the seed that the store states later.
#[test]
fn a_seed_is_kept_and_learned_at_any_version() {
    let hashing = Hashing::new(Seed::new([7; 16]));
    let layout = |hashing| update(0, 1, vec![]).layout.append(Lanes::of_keyspace(hashing)).unwrap().0;
    let of = |hashing, version| RouteUpdate { layout: layout(hashing), ..update(0, version, vec![]) };
    let (store, peer) = (|version| of(hashing, version), |version| of(Hashing::of_digest(hashing.digest()), version));
    let knows = |table: &RouteTable| table.layout().keyspaces().all(|(hashing, _)| hashing.seed().is_some());
    let mut table = RouteTable::from_whole(&store(5)).unwrap();
    assert_eq!((table.adopt(&peer(6)), knows(&table)), (Adopted::Newer, true));
    let mut late = RouteTable::from_whole(&peer(6)).unwrap();
    assert!(!knows(&late) && !late.learn_seeds(&peer(7)));
    assert!(late.learn_seeds(&store(5)) && knows(&late) && !late.learn_seeds(&store(5)));
    let mut other = RouteTable::from_whole(&peer(6)).unwrap();
    assert!(!other.learn_seeds(&of(Hashing::new(Seed::new([8; 16])), 6)), "the seed of another keyspace");
    assert!(!other.learn_seeds(&RouteUpdate { id: SetId(8), ..store(6) }));
}

#[test]
fn an_update_whose_runs_do_not_fit_is_not_adopted() {
    for runs in [
        vec![run(12, 1, 1)],
        vec![run(11, 2, 1)],
        vec![run(0, u32::MAX, 1)],
        vec![run(u32::MAX, u32::MAX, 1)],
        vec![run(3, 0, 1)],
        vec![run(3, 2, 1), run(4, 1, 2)],
        vec![run(3, 2, 1), run(0, 1, 2)],
        vec![run(3, 2, 4)],
    ] {
        check_unchanged(&update(5, 6, runs.clone()), Adopted::Mismatch);
        assert_eq!(RouteTable::from_whole(&update(0, 6, runs)), None);
    }
}

#[test]
fn a_delta_without_a_known_node_is_not_adopted() {
    let mut gone = update(5, 6, vec![run(0, 1, 2)]);
    gone.nodes.remove(&NodeId(3));
    check_unchanged(&gone, Adopted::Mismatch);
}

/// A restored set begins without nodes, while AllocSvr processes that still run have a table with the nodes from before
/// the restore.
#[test]
fn a_whole_table_replaces_one_with_nodes_that_are_gone() {
    let mut table = table(5, vec![run(0, 6, 1), run(6, 6, 3)]);
    let mut whole = update(0, 6, vec![run(0, 2, 2)]);
    whole.nodes.remove(&NodeId(3));
    assert_eq!(table.adopt(&whole), Adopted::Newer);
    assert_eq!(Some(&table), RouteTable::from_whole(&whole).as_ref());
    assert_eq!(table.get(SectionId(7)), Some(Route::default()), "no route is left of the node that is gone");
}

#[test]
fn a_delta_is_not_a_whole_table() {
    assert_eq!(RouteTable::from_whole(&update(1, 2, vec![])), None);
}

#[test]
fn a_section_that_the_layout_does_not_have_has_no_route() {
    let table = table(1, vec![run(0, 12, 1)]);
    assert_eq!(table.get(SectionId(11)), Some(route(1, 1)));
    assert_eq!(table.get(SectionId(12)), None);
}

/// An operation on some tables that start out equal.
#[derive(Clone, Debug)]
enum Op {
    /// The first table, which stands for the store, changes some sections.
    Change(Vec<(u32, u32)>),
    /// Table `to` requests from table `from` the routes that are newer than its own version.
    Update { to: usize, from: usize },
    /// Table `to` receives an earlier update again.
    Repeat { to: usize, which: prop::sample::Index },
    /// Table `to` is replaced by the whole of table `from`.
    Fetch { to: usize, from: usize },
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let change = prop::collection::vec((0..SECTIONS, 0..4u32), 0..5).prop_map(Op::Change);
    let op = prop_oneof![
        4 => change,
        6 => (1..4usize, 0..4usize).prop_map(|(to, from)| Op::Update { to, from }),
        3 => (1..4usize, any::<prop::sample::Index>()).prop_map(|(to, which)| Op::Repeat { to, which }),
        1 => (1..4usize, 0..4usize).prop_map(|(to, from)| Op::Fetch { to, from }),
    ];
    prop::collection::vec(op, 1..60)
}

fn routes(table: &RouteTable) -> Vec<Route> {
    (0..SECTIONS).map(|section| table.get(SectionId(section)).unwrap()).collect()
}

proptest! {
    /// Checks that a table has the routes of its version and never goes back, if the tables send updates to each other
    /// in any order.
    #[test]
    fn a_table_is_always_some_version_of_the_truth(ops in ops()) {
        let mut tables = vec![table(1, vec![]); 4];
        let mut sent = vec![tables[0].since(RouteVersion(0)).unwrap()];
        let mut truth = vec![vec![], routes(&tables[0])];
        for op in ops {
            match op {
                Op::Change(changes) => {
                    let mut now = truth.last().unwrap().clone();
                    let version = truth.len() as u64;
                    for &(section, owner) in &changes {
                        now[section as usize] = route(owner, version);
                    }
                    let mut changed: Vec<u32> = changes.iter().map(|(section, _)| *section).collect();
                    changed.sort_unstable();
                    changed.dedup();
                    let runs = runs(changed.into_iter().map(|section| (SectionId(section), now[section as usize])));
                    prop_assert_eq!(tables[0].adopt(&update(version - 1, version, runs)), Adopted::Newer);
                    truth.push(now);
                }
                Op::Update { to, from } => {
                    let version = tables[to].version();
                    match tables[from].since(version) {
                        None => prop_assert!(tables[from].version() <= version),
                        Some(update) => {
                            prop_assert_eq!(tables[to].adopt(&update), Adopted::Newer);
                            prop_assert_eq!(&tables[to].nodes, &tables[from].nodes);
                            sent.push(update);
                        }
                    }
                }
                Op::Repeat { to, which } => {
                    let (update, before) = (which.get(&sent), tables[to].clone());
                    match tables[to].adopt(update) {
                        Adopted::Newer => prop_assert!(tables[to].version() > before.version()),
                        Adopted::NotNewer | Adopted::Mismatch => prop_assert_eq!(&tables[to], &before),
                    }
                }
                Op::Fetch { to, from } => {
                    let whole = RouteTable::from_whole(&tables[from].since(RouteVersion(0)).unwrap()).unwrap();
                    prop_assert_eq!(routes(&whole), routes(&tables[from]));
                    if whole.version() > tables[to].version() {
                        tables[to] = whole;
                    }
                }
            }
            for table in &tables {
                prop_assert_eq!(&routes(table), &truth[table.version().0 as usize]);
            }
        }
    }
}

#[test]
fn a_change_copies_the_chunks_that_it_names() {
    let sections = 5 * CHUNK as u32 / 2;
    let layout = Layout::new(0..u64::from(sections) * 10, 10).unwrap();
    let whole = RouteUpdate { layout: layout.clone(), ..update(0, 1, vec![run(0, sections, 1)]) };
    let before = RouteTable::from_whole(&whole).unwrap();
    let mut after = before.clone();
    let changed = run(CHUNK as u32 - 1, 2, 2);
    assert_eq!(after.adopt(&RouteUpdate { layout, ..update(1, 2, vec![changed]) }), Adopted::Newer);
    let shared: Vec<_> = before.chunks.iter().zip(&after.chunks).map(|(old, new)| Arc::ptr_eq(old, new)).collect();
    assert_eq!(shared, [false, false, true]);
    assert_eq!(after.since(RouteVersion(1)).unwrap().runs, [changed]);
    assert_eq!(after.since(RouteVersion(0)).unwrap().runs.iter().map(|run| run.sections).sum::<u32>(), sections);
    assert_eq!(after.get(SectionId(sections - 1)), Some(route(1, 1)));
    assert_eq!(after.get(SectionId(sections)), None, "the last chunk has room for more sections than there are");
}
