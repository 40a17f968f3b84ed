use super::*;

/// The whole route table of a set with nodes a1 and a2 that own one section each.
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
        set_id: 7,
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

/// The same with the first section given to node 2 since `base`.
fn moved(set: &str, uids: std::ops::Range<u64>, base: u64, version: u64) -> v1::Routes {
    let runs = vec![v1::RouteRun { first_section: 0, sections: 1, owner: 2, epoch: version, away_set_id: 0 }];
    v1::Routes { base_version: base, runs, ..whole(set, uids, version) }
}

fn seed() -> Option<Arc<str>> {
    Some(Arc::from("seed:1"))
}

fn owner(routes: &Routes, uid: u64) -> Option<(u32, u64)> {
    let directory = routes.load();
    let route = directory.set(directory.set_of(uid)?).route(uid);
    Some((route.owner?.0, route.epoch.0))
}

#[test]
fn each_uid_is_found_in_its_set_only() {
    let routes = Routes::default();
    for (set, uids) in [("c", 50..60), ("a", 10..20), ("b", 20..30)] {
        assert_eq!(routes.adopt(&whole(set, uids, 1), seed().as_ref()), Ok(true));
    }
    let found = |uid: u64| {
        let directory = routes.load();
        directory.set_of(uid).map(|index| directory.set(index).table.set().to_owned())
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
    assert_eq!(routes.adopt(&moved("a", 0..10, 5, 6), None), Ok(true));
    assert_eq!(owner(&routes, 0), Some((2, 6)));
    for old in [whole("a", 0..10, 5), moved("a", 0..10, 5, 6), whole("a", 0..10, 1), whole("a", 0..8, 4)] {
        assert_eq!(routes.adopt(&old, None), Ok(false));
    }
    assert_eq!(owner(&routes, 0), Some((2, 6)));
}

#[test]
fn changes_to_an_unknown_table_request_the_whole_one_once() {
    let routes = Routes::default();
    routes.adopt(&whole("a", 0..10, 5), seed().as_ref()).unwrap();
    assert!(matches!(routes.adopt(&moved("a", 0..10, 7, 8), None), Err(RoutesError::Mismatch { .. })));
    let set = routes.load().set(0).clone();
    assert_eq!([routes.known_version(&set), routes.known_version(&set)], [0, 5]);
    assert_eq!(owner(&routes, 0), Some((1, 1)));
}

#[test]
fn a_set_may_change_its_layout_but_not_overlap_another() {
    let routes = Routes::default();
    routes.adopt(&whole("a", 0..10, 1), seed().as_ref()).unwrap();
    routes.adopt(&whole("b", 20..30, 1), seed().as_ref()).unwrap();
    assert_eq!(routes.adopt(&whole("a", 0..20, 2), None), Ok(true));
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
    let set = routes.load().set(0).clone();
    let owner = set.route(0).owner;
    let host = |excluded: Option<&str>, suspects: &[&str]| set.host(owner, excluded, |addr| suspects.contains(&addr));
    for _ in 0..50 {
        assert_eq!(&*host(None, &[]), "a-1:1");
        assert_ne!(&*host(Some("a-1:1"), &[]), "a-1:1");
        assert_ne!(&*host(None, &["a-1:1"]), "a-1:1");
        assert_eq!(&*host(Some("a-1:1"), &["a-2:1"]), "seed:1");
        assert_ne!(&*host(Some("a-1:1"), &["a-1:1", "a-2:1", "seed:1"]), "a-1:1");
    }
    assert!(["a-2:1", "seed:1"].iter().all(|addr| routes.load().has_addr(addr)) && !routes.load().has_addr("b-1:1"));
}
