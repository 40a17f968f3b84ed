use std::fmt::Write;

use expect_test::{Expect, expect};
use seq_core::keyspace::{Hashing, Seed};
use seq_core::layout::Lanes;
use seq_core::route::{Route, RouteNode, RouteRun};
use seq_core::{Epoch, Layout, SetId};

use super::*;

/// First section of the keyspace, behind the sections of uids.
const FIRST: u32 = 10;

/// The first and the last slot of a range, and its owner, which may be missing, or the other set that it is in.
type OfSlots = (u16, u16, Result<Option<u32>, u64>);

/// Returns the nodes a1 to a4, of which the nodes in `with_port` have a port. Their ids in the routes are 1 to 4.
fn nodes(with_port: &[&str]) -> ClusterNodes {
    let addrs: Vec<_> = with_port.iter().map(|name| (*name, format!("{name}.example.com:7{}75", &name[1..]))).collect();
    ClusterNodes::new(("im", "im-a", "a1"), addrs.iter().map(|(name, addr)| (*name, &**addr)))
}

/// Returns routes with these owners of uids and of ranges of slots.
fn routes(of_uids: Option<u32>, slots: &[OfSlots]) -> (RouteUpdate, SectionRun) {
    let layout = Layout::new(0..1_000, 100).unwrap();
    let (layout, buckets) = layout.append(Lanes::of_keyspace(Hashing::new(Seed::new([7; 16])))).unwrap();
    assert_eq!(buckets.first, SectionId(FIRST));
    let route = |owner: Result<Option<u32>, u64>| match owner {
        Ok(owner) => Route::here(owner.map(NodeId), Epoch(1)),
        Err(set) => Route::away(SetId(set), Epoch(1)),
    };
    let node = |id: u32| RouteNode { name: format!("a{id}"), addr: format!("h:{id}") };
    let run = |first: u32, sections: u32, owner| RouteRun { first: SectionId(first), sections, route: route(owner) };
    let mut runs = vec![run(0, FIRST, Ok(of_uids))];
    let of_slots =
        slots.iter().map(|(first, last, owner)| run(FIRST + u32::from(*first), u32::from(last - first) + 1, *owner));
    runs.extend(of_slots);
    let update = RouteUpdate {
        set: "im-a".to_owned(),
        id: SetId(1),
        layout,
        version: RouteVersion(8),
        base: RouteVersion(0),
        nodes: (1..=4).map(|id| (NodeId(id), node(id))).collect(),
        sets: BTreeMap::new(),
        runs,
        series: [].into(),
    };
    (update, buckets)
}

/// Compares the table: the node of each range of slots, and what happens to calls for other nodes.
fn check(with_port: &[&str], of_uids: Option<u32>, slots: &[OfSlots], table: Expect) {
    let (routes, buckets) = routes(of_uids, slots);
    let slots = Slots::new(&nodes(with_port), Some(buckets), routes.version, &routes);
    let mut text = String::new();
    for (first, last, node) in &slots.ranges {
        writeln!(text, "{first}-{last} {}", slots.node(*node).unwrap().host).unwrap();
    }
    writeln!(text, "{:?}", slots.redirects).unwrap();
    table.assert_eq(&text);
}

const LAST: u16 = BUCKETS - 1;

#[test]
fn each_slot_is_shown_at_its_owner() {
    let slots = [(0, 99, Ok(Some(2))), (100, 8_000, Ok(Some(1))), (8_001, LAST, Ok(Some(2)))];
    let table = expect![[r#"
        0-99 a2.example.com
        100-8000 a1.example.com
        8001-16383 a2.example.com
        Refuse
    "#]];
    check(&["a1", "a2", "a3"], Some(3), &slots, table);
}

#[test]
fn slots_of_another_set_and_slots_without_an_owner_are_spread_over_the_owners_of_the_others() {
    let slots = [(0, 99, Ok(Some(2))), (100, 199, Ok(Some(3))), (200, 12_000, Err(2)), (12_001, LAST, Ok(None))];
    let table = expect![[r#"
        0-99 a2.example.com
        100-199 a3.example.com
        200-8191 a2.example.com
        8192-16383 a3.example.com
        Refuse
    "#]];
    check(&["a1", "a2", "a3", "a4"], Some(1), &slots, table);
}

#[test]
fn while_an_owner_has_no_port_everything_is_forwarded() {
    let slots = [(0, 9_000, Ok(Some(1))), (9_001, LAST, Ok(Some(4)))];
    let table = expect![[r#"
        0-16383 a1.example.com
        Forward
    "#]];
    check(&["a1", "a2"], Some(1), &slots, table);
}

#[test]
fn a_set_without_slots_shows_them_at_the_owners_of_other_sections_or_at_all_nodes() {
    let table = expect![[r#"
        0-16383 a3.example.com
        Refuse
    "#]];
    check(&["a1", "a3"], Some(3), &[(0, LAST, Err(2))], table);
    let table = expect![[r#"
        0-8191 a1.example.com
        8192-16383 a3.example.com
        Refuse
    "#]];
    check(&["a1", "a3"], None, &[(0, LAST, Err(2))], table);
}

#[test]
fn without_the_keyspace_all_slots_are_shown() {
    let (routes, _) = routes(Some(2), &[]);
    let slots = Slots::new(&nodes(&["a1", "a2"]), None, routes.version, &routes);
    assert_eq!(slots.ranges, [(0, LAST, NodeId(2))]);
    assert_eq!(slots.slot(SectionId(FIRST)), None);
}

#[test]
fn a_node_without_slots_lists_itself_and_no_other_such_node() {
    let (routes, buckets) = routes(None, &[(0, LAST, Ok(Some(2)))]);
    let slots = Slots::new(&nodes(&["a1", "a2", "a3"]), Some(buckets), routes.version, &routes);
    assert_eq!(slots.shown().map(|(id, _)| id.0).collect::<Vec<_>>(), [1, 2]);
    let slot = |section| slots.slot(SectionId(section));
    assert_eq!([9, 10, 16_393, 16_394].map(slot), [None, Some(0), Some(LAST), None]);
}

#[test]
fn a_node_has_a_permanent_id_and_the_host_of_its_address() {
    let nodes = ClusterNodes::new(("im", "im-a", "a1"), [("a1", "[::1]:7175"), ("a2", "h:1")]);
    // The first 20 bytes of `printf im/im-a/a1 | sha256sum`.
    let own = Shown { id: "203d45887f85581e1390b477fcd1fc617f537018".to_owned(), host: "::1".to_owned(), port: 7175 };
    assert_eq!(nodes.own(), Some(&own));
}
