//! Wire validation from outside: encoding and decoding return the same value, and errors name the invalid field.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use seq_core::high_water::Mark;
use seq_core::keyspace::{Hashing, Seed};
use seq_core::layout::{Lanes, TickClock};
use seq_core::owner::OwnershipUpdate;
use seq_core::route::{self, Route, RouteNode, RouteUpdate};
use seq_core::series::Series;
use seq_core::{Count, Epoch, Layout, NodeId, Refusal, RouteVersion, SectionId, Seq, SetId, Uid};
use seq_proto::convert::{Items, RoutesError, check_hops};
use seq_proto::series::{self, SeriesError};
use seq_proto::{Reason, status, v1};
use tonic::Code;
use tonic_types::StatusExt;

/// Lays out this many sections, up to `lanes` of them as the lanes of two series.
fn laid_out(sections: u32, lanes: u32, routed: RouteVersion) -> (Layout, Vec<Series>) {
    let lanes = lanes.min(sections - 1);
    let mut layout = Layout::new(500..500 + u64::from(sections - lanes) * 10, 10).unwrap();
    let mut series = Vec::new();
    let clock = TickClock { epoch_ms: 1, unit_ms: 2, seq_bits: 3, lead_ms: 4 };
    for (count, clock) in [(lanes / 2, None), (lanes - lanes / 2, Some(clock))].into_iter().filter(|one| one.0 > 0) {
        let lanes = Lanes { count, per_section: 1, start: Seq(5), margin: 6, clock, keys: None };
        let (next, sections) = layout.append(lanes).unwrap();
        layout = next;
        let (name, shape) = (format!("s{}", series.len()), vec![1, 2]);
        let (home, retired) = (SetId(9), clock.is_none());
        series.push(Series { name, shape, lanes, sections, created_ms: 7, home, retired, routed });
    }
    (layout, series)
}

fn updates() -> impl Strategy<Value = RouteUpdate> {
    let routes = prop::collection::vec(prop::option::of((0u32..4, 0u64..3)), 1..40);
    (routes, 1u64..100, 0u64..5, 0u32..40).prop_map(|(routes, version, base, lanes)| {
        let (layout, series) = laid_out(routes.len() as u32, lanes, RouteVersion(version + base));
        let listed = routes.iter().enumerate().filter_map(|(section, route)| {
            route.map(|(owner, epoch)| {
                let owner = (owner > 0).then_some(NodeId(owner));
                (SectionId(section as u32), Route::here(owner, Epoch(epoch)))
            })
        });
        RouteUpdate {
            id: SetId(7),
            sets: BTreeMap::new(),
            set: "im-a".into(),
            layout,
            series: series.into(),
            version: RouteVersion(version + base),
            base: RouteVersion(base),
            nodes: (1..4)
                .map(|id| (NodeId(id), RouteNode { name: format!("a{id}"), addr: format!("127.0.0.1:{id}") }))
                .collect(),
            runs: route::runs(listed),
        }
    })
}

proptest! {
    #[test]
    fn routes_survive_the_wire(update in updates()) {
        prop_assert_eq!(RouteUpdate::try_from(&v1::Routes::from(&update)), Ok(update));
    }
}

/// Clients and nodes agree about the layout, although clients do not know the seed.
#[test]
fn the_seed_of_a_keyspace_is_in_messages_to_nodes_alone() {
    let seed = Seed::new([7; 16]);
    let (layout, sections) = Layout::new(0..100, 10).unwrap().append(Lanes::of_keyspace(Hashing::new(seed))).unwrap();
    let (name, lanes, home, routed) =
        ("main".into(), Lanes::of_keyspace(Hashing::new(seed)), SetId(9), RouteVersion(3));
    let series = Series { name, shape: Vec::new(), lanes, sections, created_ms: 7, home, retired: false, routed };
    let update = RouteUpdate {
        id: SetId(7),
        sets: BTreeMap::new(),
        set: "im-a".into(),
        layout,
        series: vec![series.clone()].into(),
        version: routed,
        base: RouteVersion(0),
        nodes: BTreeMap::new(),
        runs: Vec::new(),
    };
    let seeds = |routes: &v1::Routes| {
        let received = RouteUpdate::try_from(routes).unwrap();
        assert_eq!(received, update);
        received.layout.keyspaces().map(|(keys, _)| keys.seed()).collect::<Vec<_>>()
    };
    let routes = v1::Routes::from(&update);
    assert_eq!(seeds(&routes), [None]);
    let ownership = OwnershipUpdate {
        routes: Some(update.clone()),
        grants: Vec::new(),
        handovers: Vec::new(),
        no_other_candidate: false,
        copies: Vec::new(),
        mark: Mark::default(),
    };
    assert_eq!(seeds(&v1::OwnershipUpdate::from(&ownership).routes.unwrap()), [Some(seed)]);
    let with_seed = series::with_seed(&series);
    assert_eq!(series::stated_with_seed(&with_seed).unwrap().create.lanes.keys.unwrap().seed(), Some(seed));
    let refused = |change: fn(&mut v1::Hashing)| {
        let mut stored = with_seed.clone();
        change(stored.lanes.as_mut().unwrap().keys.as_mut().unwrap());
        assert_eq!(series::stated_with_seed(&stored), Err(SeriesError::Seed { name: "main".into() }));
    };
    refused(|keys| keys.seed.clear());
    refused(|keys| keys.seed[0] += 1);
    refused(|keys| _ = keys.seed.pop());
    refused(|keys| keys.digest += 1);
}

fn wire() -> v1::Routes {
    v1::Routes {
        set_id: 7,
        sets: vec![],
        set: "im-a".into(),
        version: 2,
        base_version: 0,
        uid_start: 0,
        uid_end: 100,
        section_size: 10,
        nodes: vec![v1::RouteNode { id: 1, name: "a1".into(), addr: "127.0.0.1:1".into() }],
        runs: vec![v1::RouteRun { first_section: 0, sections: 10, owner: 1, epoch: 1, away_set_id: 0 }],
        series: vec![v1::StoredSeries {
            name: "a".into(),
            shape: vec![],
            lanes: Some(v1::Lanes { count: 4, per_section: 2, first_section: 10, ..v1::Lanes::default() }),
            created_ms: 0,
            retired: false,
            home_set_id: 9,
        }],
        lane_runs: vec![v1::RouteRun { first_section: 10, sections: 2, owner: 1, epoch: 1, away_set_id: 0 }],
    }
}

#[test]
fn bad_routes_are_named() {
    let refused = |change: fn(&mut v1::Routes)| {
        let mut routes = wire();
        change(&mut routes);
        RouteUpdate::try_from(&routes).unwrap_err()
    };
    assert!(matches!(refused(|r| r.uid_end = 0), RoutesError::Layout { .. }));
    assert!(matches!(refused(|r| r.version = 0), RoutesError::Version { .. }));
    assert!(matches!(refused(|r| r.base_version = 2), RoutesError::Version { .. }));
    assert!(matches!(refused(|r| r.nodes[0].id = 0), RoutesError::NodeId { .. }));
    assert!(matches!(refused(|r| r.runs[0].sections = 0), RoutesError::Run { .. }));
    assert!(matches!(refused(|r| r.runs[0].sections = u32::MAX), RoutesError::Run { .. }));
    assert!(matches!(refused(|r| r.runs[0].owner = 9), RoutesError::UnknownOwner { owner: 9, .. }));
    assert!(matches!(refused(|r| r.runs.push(r.runs[0])), RoutesError::Run { .. }));
    assert!(matches!(refused(|r| r.series[0].lanes = None), RoutesError::Series { .. }));
    fn first(r: &mut v1::Routes, first: u32) {
        r.series[0].lanes.as_mut().unwrap().first_section = first;
    }
    assert!(matches!(refused(|r| first(r, 11)), RoutesError::Lanes { .. }));
    assert!(matches!(refused(|r| r.series.push(r.series[0].clone())), RoutesError::Lanes { .. }));
    assert!(matches!(refused(|r| r.series.clear()), RoutesError::Run { .. }), "no section of lanes without a series");
    assert!(matches!(refused(|r| r.lane_runs[0].first_section = 9), RoutesError::Run { .. }));
    assert!(matches!(refused(|r| r.runs.push(r.lane_runs[0])), RoutesError::Run { .. }));
}

#[test]
fn batches_are_checked_before_anything_moves() {
    assert_eq!(Items::new(&[], &[], &[]).unwrap_err(), Refusal::EmptyBatch);
    let many = vec![1; 10_001];
    assert_eq!(Items::new(&many, &[], &[]).unwrap_err(), Refusal::BatchTooLarge { items: 10_001 });
    assert_eq!(Items::new(&[1, 2], &[1], &[]).unwrap_err(), Refusal::CountsMismatch { uids: 2, counts: 1 });
    assert_eq!(Items::new(&[1, 2], &[], &[1]).unwrap_err(), Refusal::CountsMismatch { uids: 2, counts: 1 });
    let items = Items::new(&[7, 8, 9], &[3, 0, 1_000_001], &[0, 9, 0]).unwrap();
    let items: Vec<_> = items.iter().collect();
    let large = Err(Refusal::CountOutOfRange { count: 1_000_001 });
    let expected = [(Uid(7), Count::new(3), Epoch(0)), (Uid(8), Ok(Count::ONE), Epoch(9)), (Uid(9), large, Epoch(0))];
    assert_eq!(items, expected, "0 is no count, and takes one number");
    assert_eq!(check_hops(2), Ok(()));
    assert_eq!(check_hops(3), Err(Refusal::TooManyHops { hops: 3 }));
}

/// Returns one of each refusal; a new variant fails to compile in `Reason::of` first and is added here.
fn refusals() -> Vec<Refusal> {
    let section = SectionId(3);
    vec![
        Refusal::UidOutOfRange { uid: Uid(1), start: 2, end: 3 },
        Refusal::UidMissing,
        Refusal::ToMissing,
        Refusal::DeadlinePassed { section },
        Refusal::CountOutOfRange { count: 0 },
        Refusal::EmptyBatch,
        Refusal::LeaseExpired { section },
        Refusal::TooManyPending { section, pending: 9 },
        Refusal::BatchTooLarge { items: 10_001 },
        Refusal::CountsMismatch { uids: 1, counts: 2 },
        Refusal::NotOwner { section, owner: None },
        Refusal::Unserved { section },
        Refusal::OwnerUnreachable { section, owner: NodeId(1) },
        Refusal::OwnerTimedOut { section, owner: NodeId(1) },
        Refusal::OwnerConnectionLost { section, owner: NodeId(1) },
        Refusal::StaleEpoch { section, mine: Epoch(1), callers: Epoch(2) },
        Refusal::CeilingStalled { section },
        Refusal::Exhausted { uid: Uid(1), count: 1 },
        Refusal::TooManyHops { hops: 2 },
        Refusal::AdvanceTooFar { to: u64::MAX, bound: Seq(7) },
        Refusal::AlreadyPast { uid: Uid(1) },
        Refusal::ShuttingDown,
    ]
}

#[test]
fn every_refusal_has_its_own_reason_and_keeps_it_on_the_wire() {
    let mut reasons = BTreeSet::new();
    for refusal in refusals() {
        let reason = Reason::of(&refusal);
        assert!(reasons.insert(reason), "{reason} stands for two refusals");
        let sent = status::to_status(&refusal);
        assert_eq!((status::known_reason(&sent), sent.code()), (Some(reason), reason.code()));
        assert_eq!(sent.message(), refusal.to_string());
        let hint = sent.get_details_retry_info().and_then(|info| info.retry_delay);
        assert_eq!(hint, reason.retry().after(), "{refusal}");
        let transient = matches!(sent.code(), Code::Unavailable | Code::DeadlineExceeded);
        // A node with too many pending requests soon has room again; a uid without numbers never gets more.
        let transient = transient || reason == Reason::TooManyPending;
        assert_eq!(hint.is_some(), transient, "{refusal}");
    }
}

#[test]
fn a_late_refusal_has_the_code_of_an_elapsed_deadline_and_no_hint() {
    for refusal in refusals() {
        let (reason, late, item) =
            (Reason::of(&refusal), status::to_late_status(&refusal), status::to_late_item(7, &refusal));
        // A retry of the other refusals would fail again.
        let code = if reason.retry().after().is_some() { Code::DeadlineExceeded } else { reason.code() };
        let found = (status::known_reason(&late), late.code(), status::retry_after(&late));
        assert_eq!(found, (Some(reason), code, None), "{refusal}");
        let found = (item.index, &*item.reason, item.code, item.retry_after_ms);
        assert_eq!(found, (7, reason.name(), code as u32, 0), "{refusal}");
        assert_eq!((late.message(), &*item.message), (&*refusal.to_string(), &*refusal.to_string()));
    }
}

#[test]
fn every_service_is_in_the_descriptors() {
    let pool: BTreeMap<&str, usize> =
        ["SequenceService", "ControlService", "RaftService", "StatusService", "StoreAdminService"]
            .map(|name| {
                (name, seq_proto::DESCRIPTORS.windows(name.len()).filter(|part| *part == name.as_bytes()).count())
            })
            .into();
    assert!(pool.values().all(|count| *count > 0), "{pool:?}");
}
