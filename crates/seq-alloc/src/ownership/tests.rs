use seq_core::Layout;
use seq_core::layout::{Lanes, TickClock};
use seq_core::lease::LeaseTerms;
use seq_core::owner::{Grant, OwnershipUpdate};
use seq_core::route::{Route, RouteNode, RouteRun, RouteUpdate};
use seq_core::series::Series;
use seq_core::{Count, HandoverId, Incarnation, NodeId, RouteVersion, SlotIndex, Take};

use seq_proto::series::SeriesShape;

use super::*;

const ME: Session = Session { node: NodeId(1), incarnation: Incarnation(1) };

fn layout() -> Layout {
    Layout::new(0..20, 10).unwrap()
}

fn ownership() -> Ownership {
    let terms = LeaseTerms::DEFAULTS;
    let ownership =
        Ownership::new(Owner::new("s", layout(), terms), (Step(10), Step(0)), terms.served(), Clock::System);
    let ((), followup) = ownership.step(|owner, _| owner.on_registered(ME));
    assert!(!followup.changed);
    ownership
}

/// Both sections under an epoch, for one node, at a version of the routes.
fn update(node: NodeId, epoch: u64, version: u64) -> OwnershipUpdate {
    let route = Route::here(Some(node), Epoch(epoch));
    let nodes = [1, 2].map(|id| (NodeId(id), RouteNode { name: format!("a{id}"), addr: format!("a{id}:1") }));
    let grant = |id: u32| Grant {
        section: SectionId(id),
        epoch: Epoch(epoch),
        ceiling: Seq(0),
        handover_id: HandoverId(0),
        copied: false,
    };
    OwnershipUpdate {
        routes: Some(RouteUpdate {
            series: [].into(),
            id: seq_core::SetId(7),
            sets: [].into(),
            set: "s".to_owned(),
            layout: layout(),
            version: RouteVersion(version),
            base: RouteVersion(0),
            nodes: nodes.into(),
            runs: vec![RouteRun { first: SectionId(0), sections: 2, route }],
        }),
        grants: if node == ME.node { (0..2).map(grant).collect() } else { Vec::new() },
        ..OwnershipUpdate::default()
    }
}

fn adopt(ownership: &Ownership, sent: Clocks, update: OwnershipUpdate) -> Followup {
    let (adopted, followup) = ownership.step(|owner, effects| owner.on_update(ME, sent, update, effects));
    adopted.unwrap();
    followup
}

#[test]
fn nothing_is_served_without_a_lease_and_all_of_it_under_one() {
    let ownership = ownership();
    let sent = Clock::System.now();
    assert!(ownership.serve(sent).is_none());
    let followup = adopt(&ownership, sent, update(ME.node, 1, 1));
    assert!(followup.changed && followup.extended);
    assert_eq!((followup.transitions.taken_over, followup.transitions.left), (2, 0));
    let serving = ownership.serve(sent).unwrap();
    let taken = serving.get(SectionId(0)).unwrap().take(SlotIndex(0), Count::ONE);
    assert!(matches!(taken, Take::AtCeiling { .. }), "{taken:?}");
    assert!(serving.get(SectionId(2)).is_none());
    assert_eq!(ownership.confirmed(), sent.boottime);
    let over = Clocks { boottime: sent.boottime + 3_000_000_000, ..sent };
    assert!(ownership.serve(over).is_none());
    assert_eq!(ownership.owned().iter().count(), 2, "they stay owned");
}

#[test]
fn what_left_is_gone_before_the_lease_is_extended() {
    let ownership = ownership();
    let sent = Clock::System.now();
    adopt(&ownership, sent, update(ME.node, 1, 1)).transitions.log("s", "a1");
    let followup = adopt(&ownership, sent, update(NodeId(2), 2, 2));
    assert_eq!(followup.transitions.left, 2);
    assert!(ownership.serve(sent).unwrap().get(SectionId(0)).is_none());
    assert_eq!(ownership.routes().as_ref().unwrap().version(), RouteVersion(2));
    let followup = adopt(&ownership, sent, OwnershipUpdate::default());
    assert!(followup.extended && !followup.changed, "a renewal as such wakes no call");
}

#[test]
fn the_end_of_an_incarnation_ends_the_lease_and_empties_the_table() {
    let ownership = ownership();
    let sent = Clock::System.now();
    adopt(&ownership, sent, update(ME.node, 1, 1)).transitions.log("s", "a1");
    let ((), followup) = ownership.step(|owner, effects| owner.on_session_over(ME, effects));
    assert!(followup.changed && ownership.serve(sent).is_none());
    assert_eq!(ownership.owned().iter().count(), 0);
    assert_eq!(ownership.machine().session(), None);
}

/// The update with the sections 2 to 4 of three series: a counter, lanes that the node chooses, and named lanes.
fn with_series() -> OwnershipUpdate {
    let timed = |named_lanes| {
        let shape = seq_ids::preset("snowflake").unwrap().shape;
        SeriesShape { shape, named_lanes, ahead_ms: 1_000 }.to_bytes()
    };
    let counter = seq_ids::preset("counter").unwrap().shape;
    let counter = SeriesShape { shape: counter, named_lanes: false, ahead_ms: 0 }.to_bytes();
    let clock = TickClock { epoch_ms: 1_288_834_974_657, unit_ms: 1, seq_bits: 12, lead_ms: 60_000 };
    let mut update = update(ME.node, 1, 1);
    let routes = update.routes.as_mut().unwrap();
    let mut all = Vec::new();
    for (name, shape, clock) in
        [("a", counter, None), ("b", timed(false), Some(clock)), ("c", timed(true), Some(clock))]
    {
        let lanes = Lanes { count: 1, per_section: 1, start: Seq(0), margin: 0, clock, keys: None };
        let (layout, sections) = routes.layout.append(lanes).unwrap();
        routes.layout = layout;
        let (name, routed) = (name.to_owned(), RouteVersion(1));
        let home = seq_core::SetId(7);
        all.push(Series { name, shape, lanes, sections, created_ms: 0, home, retired: false, routed });
    }
    routes.series = all.into();
    routes.runs[0].sections = 5;
    let grant = |id| Grant { section: SectionId(id), ceiling: Seq(1 << 60), ..update.grants[0] };
    update.grants = (0..5).map(grant).collect();
    update
}

#[test]
fn only_lanes_that_the_node_chooses_are_served_without_a_lease() {
    let ownership = ownership();
    let sent = Clock::System.now();
    adopt(&ownership, sent, with_series()).transitions.log("s", "a1");
    let over = Clocks { boottime: sent.boottime + 3_000_000_000, ..sent };
    assert!(ownership.serve(sent).is_some() && ownership.serve(over).is_none());
    let unleased: Vec<u32> = (0..5).filter(|id| ownership.serve_unleased().get(SectionId(*id)).is_some()).collect();
    assert_eq!(unleased, [3]);
    ownership.step(|owner, effects| owner.on_session_over(ME, effects)).1.transitions.log("s", "a1");
    assert!(ownership.serve_unleased().get(SectionId(3)).is_none(), "the incarnation is over");
}
