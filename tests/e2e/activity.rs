//! Numbers and writes of sections over time, as allocators measure them and commands show them, under a known load.

use std::collections::BTreeMap;

use seq_proto::v1::status_service_client::StatusServiceClient;
use seq_proto::v1::{ActivityLayer, ListActivityRequest, ListActivityResponse, SectionFigures};
use seq_testkit::eventually;
use serde_json::Value;

use crate::cluster::{digits, seqsvr_json};
use crate::plans::Cluster;

/// Load on 100 uids of section 30: 200 calls a second for 5 uids each. A uid takes 10 numbers a second, so its
/// section is raised at the begin, and then once in minutes.
const LOAD: [&str; 10] =
    ["--endpoint", "many", "--batch", "5", "--first-uid", "3000000", "--uids", "100", "--rate", "200"];

/// Numbers of the load in a second.
const NUMBERS: f64 = 1_000.0;

impl Cluster {
    fn activity(&self, args: &[&str]) -> Value {
        seqsvr_json(&[&["section"], args, &["--set", &self.set]].concat())
    }

    /// Takes 400 times 5 numbers of section 30.
    fn take_2000(&self) {
        let addr = format!("http://{}:7400", self.place.host);
        let (load, calls) = (&LOAD[..8], ["--calls", "400", "--warmup", "0s", "--concurrency", "4"]);
        let report = seqsvr_json(&[&["bench", "--addr", &addr], load, &calls].concat());
        assert_eq!(report["failed"], 0, "{report:#}");
    }

    /// Returns the columns of an allocator for section 30, by their begin, as numbers a second.
    fn columns(&self, port: u16) -> BTreeMap<u64, f64> {
        let addr = format!("http://{}:{port}", self.place.host);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let response: ListActivityResponse = runtime.block_on(async {
            let mut node = StatusServiceClient::connect(addr).await.unwrap();
            let since_ms = node.list_activity(ListActivityRequest::default()).await.unwrap().into_inner().clock_ms;
            let since_ms = since_ms - 290_000;
            let request = ListActivityRequest { since_ms, first_section: 30, limit: 1, ..Default::default() };
            node.list_activity(request).await.unwrap().into_inner()
        });
        assert_eq!(response.column_ms, 5_000);
        if response.sections != [30] {
            return BTreeMap::new();
        }
        let rate = |level: u8| match level {
            0 | 255 => 0.0,
            level => 2_f64.powf(f64::from(level - 1) / 2.0) / 60.0,
        };
        response.columns.iter().map(|column| (column.since_ms, rate(column.levels[0]))).collect()
    }
}

/// Returns the sections with the most writes of the last seconds, as a node reports them.
pub(crate) fn top_writes(addr: String) -> Vec<SectionFigures> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut node = StatusServiceClient::connect(addr).await.unwrap();
        let layer = ActivityLayer::Writes.into();
        let request = ListActivityRequest { layer, top: 3, ..Default::default() };
        node.list_activity(request).await.unwrap().into_inner().top
    })
}

#[test]
fn a_section_counts_exactly_the_numbers_of_a_load_before_and_after_a_move() {
    let cluster = Cluster::start();
    cluster.take_2000();
    let before = cluster.activity(&["show", "30"]);
    assert_eq!(
        (digits(&before["activity"]["numbers_since"]), &before["activity"]["is_counted"]),
        (2_000, &true.into())
    );
    assert_eq!(before["activity"]["raises"].as_array().unwrap().len(), 1, "{before:#}");
    assert_eq!(before["activity"]["raises"][0]["to"], before["ceiling"]);
    let to = ["a1", "a2", "a3"].into_iter().find(|name| before["owner"] != *name).unwrap();
    seqsvr_json(&["section", "move", "30", "--to", to, "--yes", "--wait", "--set", &cluster.set]);
    let moved = cluster.activity(&["show", "30"]);
    assert_eq!((&moved["owner"], digits(&moved["activity"]["numbers_since"])), (&to.into(), 0), "{moved:#}");
    assert_eq!(moved["activity"]["highest"], before["activity"]["highest"]);
    cluster.take_2000();
    let after = cluster.activity(&["show", "30"]);
    assert_eq!(digits(&after["activity"]["numbers_since"]), 2_000, "{after:#}");
    assert!(digits(&after["activity"]["highest"]) > digits(&before["activity"]["highest"]), "{after:#}");
    let (_, text) = cluster.run(&["section", "show", "30"]);
    assert!(text.contains("2,000 since 20") && text.contains(" of 100,000 took a number"), "{text}");
}

#[test]
fn a_section_under_load_has_its_rate_also_while_it_moves() {
    let cluster = Cluster::start();
    let addr = format!("http://{}:7400", cluster.place.host);
    let args = [&["bench", "--addr", &addr, "--duration", "120s"], &LOAD[..]].concat();
    let mut bench = cluster.place.server("bench", &args);
    let found = eventually("the section has the rate of the load and no raise", || {
        let top = cluster.activity(&["list", "--top", "numbers", "--count", "3"]);
        let first = top["items"].as_array()?.first()?.clone();
        let rate = first["numbers_per_second"].as_f64()?;
        let is_near = (0.8 * NUMBERS..1.2 * NUMBERS).contains(&rate);
        (first["first_section"] == 30 && is_near && first["writes"] == "0").then_some(first)
    });
    assert_eq!((&found["writes_per_second"], &found["raised"]), (&0.0.into(), &"0".into()), "{found:#}");
    let to = ["a1", "a2", "a3"].into_iter().find(|name| found["owner"] != *name).unwrap();
    seqsvr_json(&["section", "move", "30", "--to", to, "--yes", "--wait", "--set", &cluster.set]);
    let ports = |owner: &str| 7399 + owner[1..].parse::<u16>().unwrap();
    let (old, new) = (ports(found["owner"].as_str().unwrap()), ports(to));
    eventually("the new owner has four columns under load", || {
        let busy = cluster.columns(new).into_values().filter(|rate| *rate > 0.5 * NUMBERS).count();
        (busy >= 4).then_some(())
    });
    let mut sums = cluster.columns(old);
    let (moved_from, new_columns) = (sums.len(), cluster.columns(new));
    for (since, rate) in &new_columns {
        *sums.entry(*since).or_default() += rate;
    }
    assert!(moved_from > 0, "the old owner keeps its columns");
    // The load began within the first column.
    let loaded: Vec<f64> = sums.into_values().skip_while(|rate| *rate == 0.0).skip(1).collect();
    // A level is up to 19 % from its rate, and the load of a busy machine is uneven.
    let is_near = |rate: &f64| (0.6 * NUMBERS..1.5 * NUMBERS).contains(rate);
    assert!(loaded.len() >= 3 && loaded.iter().all(is_near), "{loaded:?}");
    let top = cluster.activity(&["list", "--top", "numbers", "--owner", found["owner"].as_str().unwrap()]);
    assert_eq!(top["items"].as_array().unwrap().len(), 0, "the old owner has no section under load: {top:#}");
    bench.terminate();
}
