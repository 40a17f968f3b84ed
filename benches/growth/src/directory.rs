//! The directory of 2^32 uids over a number of sets: memory of a node's route table, the lookup of a section, the
//! response to a client without routes, and the delta of one section that migrated.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::io;
use std::time::{Duration, Instant};

use prost::Message;
use seq_core::route::{Adopted, Route, RouteNode, RouteRun, RouteSet, RouteTable, RouteUpdate};
use seq_core::{Epoch, Layout, NodeId, RouteVersion, SectionId, SetId};
use seq_proto::v1;

use crate::Scale;
use crate::measure::{Random, in_turn};
use crate::memory::{SECTION_SIZE, resident_bytes};
use crate::report::Report;

/// Uids of the cluster: 42,950 sections.
const UIDS: u64 = 1 << 32;

/// Numbers of sets.
const SETS: [u64; 3] = [1, 4, 64];

/// Allocators of a set.
const ALLOCS: u32 = 4;

/// Neighbouring sections of one set, as after many splits; with one set, of one owner.
const RUN: u64 = 50;

/// Measures tables of as many sets.
pub(crate) fn scenario(scale: Scale, report: &mut Report) -> io::Result<()> {
    let repeats = if scale == Scale::Full { 200 } else { 2 };
    // All copies stay, so that none is in the memory of another.
    let tables = SETS.map(|sets| {
        let update = whole(sets);
        let before = resident_bytes();
        let copies: Vec<RouteTable> = (0..8).map(|_| RouteTable::from_whole(&update).expect("a whole table")).collect();
        let bytes = resident_bytes().saturating_sub(before) / copies.len();
        (sets, copies, bytes)
    });
    let lookups = lookups(&tables, repeats * 10_000);
    let mut rows = Vec::new();
    for ((sets, copies, bytes), lookup) in tables.iter().zip(lookups) {
        let table = &copies[0];
        let (cold, cold_bytes) = responses(table, RouteVersion(0), repeats);
        let mut moved = table.clone();
        let section = SectionId(20_000);
        let to = if *sets > 1 { Route::away(SetId(2), Epoch(9)) } else { Route::here(Some(NodeId(2)), Epoch(9)) };
        assert_eq!(moved.adopt(&delta(table, section, to)), Adopted::Newer);
        let (warm, warm_bytes) = responses(&moved, table.version(), repeats);
        rows.push(vec![
            sets.to_string(),
            whole(*sets).runs.len().to_string(),
            format!("{:.2}", *bytes as f64 / (1 << 20) as f64),
            format!("{lookup:.2}"),
            format!("{:.0}", cold * 1e6),
            cold_bytes.to_string(),
            format!("{:.1}", warm * 1e6),
            warm_bytes.to_string(),
        ]);
        if *sets == SETS[2] {
            report.goal(format!("bytes of the delta of one section, {sets} sets"), warm_bytes as f64, 512.0);
            report.goal(format!("seconds to answer a client without routes, {sets} sets"), cold, 0.01);
        }
    }
    let head = ["sets", "runs", "MiB", "ns a lookup", "us whole", "bytes whole", "us delta", "bytes delta"];
    report.table("The directory of 42,950 sections", &head, &rows);
    Ok(())
}

/// The whole table of the first of so many sets.
fn whole(sets: u64) -> RouteUpdate {
    let layout = Layout::new(0..UIDS, SECTION_SIZE).expect("a good layout");
    let node = |id| (NodeId(id), RouteNode { name: format!("a{id}"), addr: format!("10.0.0.{id}:7400") });
    let other = |set: u64| {
        let allocs = (1..=ALLOCS).map(|id| format!("10.0.{set}.{id}:7400")).collect();
        (SetId(set), RouteSet { name: format!("set-{set}"), allocs })
    };
    let run = |first: u64| {
        let nth = first / RUN;
        let route = match nth % sets {
            0 => Route::here(Some(NodeId((nth / sets % u64::from(ALLOCS)) as u32 + 1)), Epoch(3)),
            other => Route::away(SetId(other + 1), Epoch(3)),
        };
        let sections = RUN.min(u64::from(layout.sections()) - first) as u32;
        RouteRun { first: SectionId(first as u32), sections, route }
    };
    RouteUpdate {
        series: [].into(),
        set: "set-1".to_owned(),
        id: SetId(1),
        version: RouteVersion(10),
        base: RouteVersion(0),
        nodes: (1..=ALLOCS).map(node).collect(),
        sets: (2..=sets).map(other).collect(),
        runs: (0..u64::from(layout.sections())).step_by(RUN as usize).map(run).collect(),
        layout,
    }
}

fn delta(table: &RouteTable, section: SectionId, route: Route) -> RouteUpdate {
    RouteUpdate {
        series: [].into(),
        set: table.set().to_owned(),
        id: table.id(),
        layout: table.layout().clone(),
        version: RouteVersion(table.version().0 + 1),
        base: table.version(),
        nodes: table.nodes().clone(),
        sets: BTreeMap::new(),
        runs: vec![RouteRun { first: section, sections: 1, route }],
    }
}

/// Seconds to make and encode the routes since a version, and their bytes.
fn responses(table: &RouteTable, since: RouteVersion, repeats: usize) -> (f64, usize) {
    let encode = || {
        let update = table.since(since).expect("it is newer");
        let response = v1::GetRoutesResponse { routes: Some(v1::Routes::from(&update)) };
        response.encode_to_vec()
    };
    let bytes = encode().len();
    let began = Instant::now();
    for _ in 0..repeats {
        black_box(encode());
    }
    (began.elapsed().as_secs_f64() / repeats as f64, bytes)
}

/// Nanoseconds of a lookup in each table, in turn.
fn lookups(tables: &[(u64, Vec<RouteTable>, usize)], numbers: usize) -> Vec<f64> {
    let mut contenders: Vec<_> = tables.iter().map(|(_, copies, _)| || lookup(&copies[0], numbers)).collect();
    let mut contenders: Vec<&mut dyn FnMut() -> Duration> =
        contenders.iter_mut().map(|contender| contender as &mut dyn FnMut() -> Duration).collect();
    in_turn(&mut contenders).into_iter().map(|seconds| seconds * 1e9 / numbers as f64).collect()
}

fn lookup(table: &RouteTable, numbers: usize) -> Duration {
    let mut random = Random::new();
    let began = Instant::now();
    for _ in 0..numbers {
        let section = SectionId(random.below(table.layout().sections().into()) as u32);
        black_box(table.get(section));
    }
    began.elapsed()
}
