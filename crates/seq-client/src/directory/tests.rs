use proptest::prelude::*;
use seq_core::NodeId;
use seq_core::keyspace::Hashing;
use seq_core::layout::Lanes;
use seq_core::route::{Adopted, Route, RouteNode, RouteSet, RouteTable};
use seq_core::series::Series;

use super::*;

/// Derives the id of a set from its name.
fn id(set: &str) -> u64 {
    set.bytes().map(u64::from).sum()
}

/// Returns the whole route table of a set with nodes a1 and a2 that own one section each.
fn whole(set: &str, uids: std::ops::Range<u64>, version: u64) -> v1::Routes {
    let section_size = u32::try_from((uids.end - uids.start).div_ceil(2)).unwrap();
    let node = |id: u32| v1::RouteNode { id, name: format!("a{id}"), addr: format!("{set}-{id}:1") };
    let run = |first_section: u32| v1::RouteRun {
        first_section,
        sections: 1,
        owner: first_section + 1,
        epoch: 1,
        away_set_id: 0,
    };
    v1::Routes {
        series: Vec::new(),
        lane_runs: Vec::new(),
        set_id: id(set),
        sets: vec![],
        set: set.to_owned(),
        version,
        base_version: 0,
        uid_start: uids.start,
        uid_end: uids.end,
        section_size,
        nodes: vec![node(1), node(2)],
        runs: vec![run(0), run(1)],
    }
}

/// Returns the table's changes since `base`: the first section has moved to node 2.
fn moved(set: &str, uids: std::ops::Range<u64>, base: u64, version: u64) -> v1::Routes {
    let runs = vec![v1::RouteRun { first_section: 0, sections: 1, owner: 2, epoch: version, away_set_id: 0 }];
    v1::Routes { base_version: base, runs, ..whole(set, uids, version) }
}

const CHANGED: Change = Change { any: true, addrs: true };

fn seed() -> Option<Arc<str>> {
    Some(Arc::from("seed:1"))
}

fn owner(routes: &Routes, uid: u64) -> Option<(u32, u64)> {
    let route = routes.load().route(uid)?;
    Some((route.owner?.0, route.epoch.0))
}

/// A client gets the routes of buckets, and no other routes of sections after those of uids.
#[test]
fn buckets_have_routes_and_lanes_have_none() {
    let layout = Layout::new(0..10, 5).unwrap();
    let counter = Lanes { count: 1, per_section: 1, start: seq_core::Seq(0), margin: 0, clock: None, keys: None };
    let (layout, lane) = layout.append(counter).unwrap();
    let keys = Lanes::of_keyspace(Hashing::of_digest(7));
    let (layout, buckets) = layout.append(keys).unwrap();
    let series = |name: &str, lanes, sections| {
        let (name, home, routed) = (name.into(), SetId(id("a")), RouteVersion(1));
        Series { name, shape: Vec::new(), lanes, sections, created_ms: 0, home, retired: false, routed }
    };
    let run = |first: u32, sections: u32, owner: u32, epoch: u64| RouteRun {
        first: SectionId(first),
        sections,
        route: Route { owner: Some(NodeId(owner)), epoch: Epoch(epoch), ..Route::default() },
    };
    let first = lane.first.0;
    let update = |version: u64, base: u64, runs: Vec<RouteRun>| {
        let nodes = [1, 2].map(|id| (NodeId(id), RouteNode { name: format!("a{id}"), addr: format!("a-{id}:1") }));
        v1::Routes::from(&RouteUpdate {
            set: "a".into(),
            id: SetId(id("a")),
            layout: layout.clone(),
            version: RouteVersion(version),
            base: RouteVersion(base),
            nodes: nodes.into(),
            sets: BTreeMap::new(),
            runs,
            series: vec![series("orders", counter, lane), series("main", keys, buckets)].into(),
        })
    };
    let routes = Routes::default();
    // The second run has the lane and the first ten buckets.
    let whole = update(1, 0, vec![run(0, first, 1, 1), run(first, 11, 2, 3), run(first + 11, 16_374, 1, 1)]);
    routes.adopt(&whole, seed().as_ref()).unwrap();
    let owner_of = |section: u32| {
        let route = routes.load().bucket(SetIndex(0), SectionId(section))?;
        Some((route.owner?.0, route.epoch.0))
    };
    let last = first + 16_384;
    assert_eq!(
        [first, first + 1, first + 10, first + 11, last].map(owner_of),
        [None, Some((2, 3)), Some((2, 3)), Some((1, 1)), Some((1, 1))]
    );
    assert_eq!([last + 1, last + 1_000].map(owner_of), [None, None]);
    assert_eq!(owner(&routes, 3), Some((1, 1)));
    routes.adopt(&update(2, 1, vec![run(last, 1, 2, 2)]), None).unwrap();
    assert_eq!([last - 1, last].map(owner_of), [Some((1, 1)), Some((2, 2))]);
    assert_eq!(routes.load().bucket(SetIndex(1), SectionId(last)), None, "of another cluster");
}

/// Sparse uids are routed by their buckets, and claims of other sets replace these routes.
#[test]
fn sparse_uids_have_the_routes_of_their_buckets() {
    let (layout, uid) = (Layout::new(0..10, 5).unwrap(), 1_234_567_890_123_456_789);
    let of_uids = Lanes::of_keyspace(Hashing::of_digest(7).with_uids(true));
    let (layout, buckets) = layout.append(of_uids).unwrap();
    let bucket = layout.bucket_of_uid(Uid(uid)).unwrap();
    let update = |version: u64, with_keyspace: bool| {
        let (home, routed) = (SetId(id("a")), RouteVersion(1));
        let (name, sections) = ("users".into(), buckets);
        let lanes = of_uids;
        let users = Series { name, shape: Vec::new(), lanes, sections, created_ms: 0, home, retired: false, routed };
        let run = |first: u32, sections: u32, owner: u32| RouteRun {
            first: SectionId(first),
            sections,
            route: Route { owner: Some(NodeId(owner)), epoch: Epoch(version), ..Route::default() },
        };
        let runs = if with_keyspace { vec![run(0, bucket.0, 1), run(bucket.0, 1, 2)] } else { vec![run(0, 2, 1)] };
        let nodes = [1, 2].map(|id| (NodeId(id), RouteNode { name: format!("a{id}"), addr: format!("a-{id}:1") }));
        v1::Routes::from(&RouteUpdate {
            set: "a".into(),
            id: home,
            layout: if with_keyspace { layout.clone() } else { layout.declared() },
            version: RouteVersion(version),
            base: RouteVersion(0),
            nodes: nodes.into(),
            sets: BTreeMap::new(),
            runs,
            series: if with_keyspace { vec![users].into() } else { [].into() },
        })
    };
    let routes = Routes::default();
    routes.adopt(&update(1, false), seed().as_ref()).unwrap();
    assert_eq!(routes.load().route(uid), None, "no keyspace is known");
    routes.adopt(&update(2, true), None).unwrap();
    assert_eq!(owner(&routes, uid), Some((2, 2)));
    assert_eq!(routes.load().section_of(uid), Some(bucket));
    let (without, directory) = (u64::MAX, routes.load());
    let route = directory.route(without).unwrap();
    assert_eq!((route.owner, route.set, route.epoch), (None, SetIndex(0), Epoch(0)), "its bucket has no route");
    assert_eq!(owner(&routes, 3), Some((1, 2)));
    routes.adopt_claims(&[(Place::Uid(uid), Claim { set: SetId(77), since: Epoch(5) })]);
    let route = routes.load().route(uid).unwrap();
    assert_eq!((route.owner, route.epoch, route.is_claim), (None, Epoch(5), true));
    assert_eq!(routes.load().set(route.set).id(), SetId(77));
    assert_eq!(owner(&routes, 3), Some((1, 2)), "the routes of declared uids stay");
}

#[test]
fn each_uid_is_found_in_its_set_only() {
    let routes = Routes::default();
    for (set, uids) in [("c", 50..60), ("a", 10..20), ("b", 20..30)] {
        assert_eq!(routes.adopt(&whole(set, uids, 1), seed().as_ref()), Ok(CHANGED));
    }
    let found = |uid: u64| {
        let directory = routes.load();
        directory.route(uid).map(|route| directory.set(route.set).name().to_owned())
    };
    let expected =
        [(9, None), (10, Some("a")), (19, Some("a")), (20, Some("b")), (30, None), (59, Some("c")), (60, None)];
    for (uid, set) in expected {
        assert_eq!(found(uid).as_deref(), set, "uid {uid}");
    }
}

#[test]
fn route_versions_are_monotonic() {
    let routes = Routes::default();
    routes.adopt(&whole("a", 0..10, 5), seed().as_ref()).unwrap();
    assert_eq!(routes.adopt(&moved("a", 0..10, 5, 6), None), Ok(Change { addrs: false, ..CHANGED }));
    assert_eq!(owner(&routes, 0), Some((2, 6)));
    for old in [whole("a", 0..10, 5), moved("a", 0..10, 5, 6), whole("a", 0..10, 1), whole("a", 0..8, 4)] {
        assert_eq!(routes.adopt(&old, None), Ok(Change::default()));
    }
    assert_eq!(owner(&routes, 0), Some((2, 6)));
}

#[test]
fn changes_to_an_unknown_table_request_the_whole_one_once() {
    let routes = Routes::default();
    routes.adopt(&whole("a", 0..10, 5), seed().as_ref()).unwrap();
    assert!(matches!(routes.adopt(&moved("a", 0..10, 7, 8), None), Err(RoutesError::Mismatch { .. })));
    let set = routes.load().set(SetIndex(0)).clone();
    assert_eq!([set.known_version(), set.known_version()], [Some(0), Some(5)]);
    assert_eq!(owner(&routes, 0), Some((1, 1)));
}

#[test]
fn a_set_may_change_its_layout_but_not_overlap_another() {
    let routes = Routes::default();
    routes.adopt(&whole("a", 0..10, 1), seed().as_ref()).unwrap();
    routes.adopt(&whole("b", 20..30, 1), seed().as_ref()).unwrap();
    assert_eq!(routes.adopt(&whole("a", 0..20, 2), None), Ok(Change { addrs: false, ..CHANGED }));
    assert_eq!(owner(&routes, 15), Some((2, 1)));
    assert!(matches!(routes.adopt(&whole("a", 0..21, 3), None), Err(RoutesError::Overlap { .. })));
    assert!(matches!(routes.adopt(&whole("c", 28..31, 3), seed().as_ref()), Err(RoutesError::Overlap { .. })));
    assert_eq!(owner(&routes, 20), Some((1, 1)));
}

#[test]
fn only_a_seed_adds_a_set() {
    let routes = Routes::default();
    assert!(matches!(routes.adopt(&whole("a", 0..10, 1), None), Err(RoutesError::Mismatch { .. })));
    assert!(routes.load().is_empty());
}

#[test]
fn bad_routes_are_refused() {
    let routes = Routes::default();
    let bad = v1::Routes { section_size: 0, ..whole("a", 0..10, 1) };
    assert!(matches!(routes.adopt(&bad, seed().as_ref()), Err(RoutesError::Bad(_))));
}

#[test]
fn the_owner_is_chosen_unless_suspect_or_excluded() {
    let routes = Routes::default();
    routes.adopt(&whole("a", 0..10, 1), seed().as_ref()).unwrap();
    let set = routes.load().set(SetIndex(0)).clone();
    let owner = routes.load().route(0).unwrap().owner;
    let host = |excluded: Option<&str>, suspects: &[&str]| {
        set.host(owner, excluded, |addr| suspects.contains(&addr)).expect("it has hosts")
    };
    for _ in 0..50 {
        assert_eq!(&*host(None, &[]), "a-1:1");
        assert_ne!(&*host(Some("a-1:1"), &[]), "a-1:1");
        assert_ne!(&*host(None, &["a-1:1"]), "a-1:1");
        assert_eq!(&*host(Some("a-1:1"), &["a-2:1"]), "seed:1");
        assert_ne!(&*host(Some("a-1:1"), &["a-1:1", "a-2:1", "seed:1"]), "a-1:1");
    }
    assert_eq!(routes.load().addrs().into_iter().collect::<Vec<_>>(), ["a-1:1", "a-2:1", "seed:1"]);
}

const SECTIONS: u32 = 4;
const SETS: u64 = 3;

/// A cluster of sets whose sections move, and every message about it that was ever sent.
struct Twin {
    tables: Vec<RouteTable>,
    /// Set, epoch and owner of each section.
    homes: Vec<(u64, u64, u32)>,
    sent: Vec<v1::Routes>,
}

impl Twin {
    fn new() -> Twin {
        let layout = Layout::new(0..u64::from(SECTIONS) * 10, 10).unwrap();
        let homes: Vec<_> = (0..SECTIONS).map(|section| (u64::from(section) % SETS, 1, 1)).collect();
        let mut twin = Twin { tables: Vec::new(), homes, sent: Vec::new() };
        for set in 0..SETS {
            let node = |id: u32| (NodeId(id), RouteNode { name: format!("a{id}"), addr: format!("set-{set}-{id}:1") });
            let other = |set: u64| (SetId(set + 1), RouteSet { name: format!("set-{set}"), allocs: Vec::new() });
            let update = RouteUpdate {
                series: [].into(),
                set: format!("set-{set}"),
                id: SetId(set + 1),
                layout: layout.clone(),
                version: RouteVersion(1),
                base: RouteVersion(0),
                nodes: (1..=2).map(node).collect(),
                sets: (0..SETS).filter(|other| *other != set).map(other).collect(),
                runs: (0..SECTIONS).map(|section| twin.run(set, section)).collect(),
            };
            twin.tables.push(RouteTable::from_whole(&update).unwrap());
        }
        twin
    }

    fn run(&self, set: u64, section: u32) -> RouteRun {
        let (home, epoch, owner) = self.homes[section as usize];
        let epoch = Epoch(epoch);
        let owner = (owner > 0).then_some(NodeId(owner));
        let route = if home == set { Route::here(owner, epoch) } else { Route::away(SetId(home + 1), epoch) };
        RouteRun { first: SectionId(section), sections: 1, route }
    }

    /// Updates the route of a section in a set's table.
    fn inform(&mut self, set: u64, section: u32) {
        let run = self.run(set, section);
        let table = &mut self.tables[set as usize];
        let base = table.version();
        let update = RouteUpdate {
            series: [].into(),
            version: RouteVersion(base.0 + 1),
            base,
            runs: vec![run],
            sets: [].into(),
            ..table.since(RouteVersion(0)).unwrap()
        };
        assert_eq!(table.adopt(&update), Adopted::Newer);
    }

    fn send(&mut self, set: u64, since: u64) {
        let update = self.tables[set as usize].since(RouteVersion(since));
        self.sent.extend(update.as_ref().map(v1::Routes::from));
    }

    /// Returns set, epoch and owner of each section, which all sets will know in the end.
    fn truth(&self) -> Vec<(u64, u64, u32)> {
        self.homes.clone()
    }
}

fn known(routes: &Routes) -> Vec<(u64, u64, u32)> {
    let directory = routes.load();
    let route = |section: u32| {
        let route = directory.route(u64::from(section) * 10).unwrap();
        (directory.set(route.set).id().0 - 1, route.epoch.0, route.owner.map_or(0, |owner| owner.0))
    };
    (0..SECTIONS).map(route).collect()
}

#[derive(Clone, Debug)]
enum Op {
    /// A section gets another owner, or leaves for another set. The two sets learn of it, and all the others if the
    /// flag is set.
    Move { section: u32, set: u64, owner: u32, all: bool },
    /// A set sends its changes since a version.
    Send { set: u64, since: prop::sample::Index },
    /// The client receives any message that was ever sent.
    Deliver(prop::sample::Index),
    /// The client receives the claim of any refusal that was ever sent.
    Claim(prop::sample::Index),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        3 => (0..SECTIONS, 0..SETS, 0..3u32, any::<bool>())
            .prop_map(|(section, set, owner, all)| Op::Move { section, set, owner, all }),
        4 => (0..SETS, any::<prop::sample::Index>()).prop_map(|(set, since)| Op::Send { set, since }),
        6 => any::<prop::sample::Index>().prop_map(Op::Deliver),
        1 => any::<prop::sample::Index>().prop_map(Op::Claim),
    ];
    prop::collection::vec(op, 1..80)
}

proptest! {
    /// However late, repeated or reordered the messages are, no section falls to an older epoch, each route was true at
    /// some time, and the tables of all sets together are the truth.
    #[test]
    fn routes_of_several_sets_become_one_truth(ops in ops()) {
        let (mut twin, routes) = (Twin::new(), Routes::default());
        let mut truths: BTreeSet<(u32, (u64, u64))> = BTreeSet::new();
        let remember = |twin: &Twin, truths: &mut BTreeSet<_>| {
            truths.extend((0..).zip(twin.truth()).map(|(section, (set, epoch, _))| (section, (set, epoch))));
        };
        remember(&twin, &mut truths);
        twin.send(0, 0);
        routes.adopt(&twin.sent[0], seed().as_ref()).unwrap();
        for op in ops {
            let before = known(&routes);
            match op {
                Op::Move { section, set, owner, all } => {
                    let (from, epoch, _) = twin.homes[section as usize];
                    twin.homes[section as usize] = (set, epoch + 1, owner);
                    remember(&twin, &mut truths);
                    for other in 0..SETS {
                        if all || other == set || other == from {
                            twin.inform(other, section);
                        }
                    }
                }
                Op::Send { set, since } => {
                    let version = twin.tables[set as usize].version().0;
                    twin.send(set, since.index(version as usize) as u64);
                }
                Op::Deliver(which) => {
                    let message = which.get(&twin.sent).clone();
                    match routes.adopt(&message, None) {
                        Ok(_) => {}
                        Err(error) => prop_assert!(matches!(error, RoutesError::Mismatch { .. }), "{}", error),
                    }
                }
                Op::Claim(which) => {
                    let (section, (set, since)) = *which.get(&truths.iter().collect::<Vec<_>>());
                    let claim = Claim { set: SetId(set + 1), since: Epoch(*since) };
                    routes.adopt_claims(&[(Place::Uid(u64::from(*section) * 10), claim)]);
                }
            }
            for (section, (was, is)) in (0..).zip(before.iter().zip(&known(&routes))) {
                prop_assert!(was == is || is.1 >= was.1, "{:?} fell to {:?}", was, is);
                prop_assert!(truths.contains(&(section, (is.0, is.1))), "{:?} never was", is);
            }
        }
        for set in 0..SETS {
            let whole = twin.tables[set as usize].since(RouteVersion(0)).unwrap();
            routes.adopt(&v1::Routes::from(&whole), None).unwrap();
        }
        prop_assert_eq!(known(&routes), twin.truth());
    }
}

#[test]
fn sets_with_one_layout_are_one_cluster() {
    let twin = Twin::new();
    let routes = Routes::default();
    for table in &twin.tables {
        let whole = v1::Routes::from(&table.since(RouteVersion(0)).unwrap());
        routes.adopt(&whole, seed().as_ref()).unwrap();
    }
    let directory = routes.load();
    assert!(directory.uids().eq(std::iter::once(0..u64::from(SECTIONS) * 10)));
    assert_eq!(directory.others(directory.set(SetIndex(0))).count(), 2);
    // Another layout of the same uids is another cluster, which would overlap.
    let error = routes.adopt(&whole("other", 5..25, 1), seed().as_ref()).unwrap_err();
    assert!(matches!(error, RoutesError::Overlap { .. }), "{error}");
}
