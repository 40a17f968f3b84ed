//! The set that creates series hands this to the other set and is merged away, as real processes under a load of ids.

use seq_channel::Pool;
use seq_proto::status::reason;
use seq_proto::v1::series_admin_service_client::SeriesAdminServiceClient;
use seq_proto::v1::{CounterShape, CreateSeriesRequest, Shape, shape};
use seq_testkit::ids::{Clocks, IdLoad, MEDIA, ORDERS, SERIES, TWEETS};
use serde_json::{Value, json};

use crate::cluster::{digits, seqsvr};
use crate::two_sets::TwoSets;

/// The admin ports of the stores of the first set.
const ADMIN_PORTS: [u16; 3] = [7304, 7305, 7306];

/// Requests a series from each member of the store of the first set; returns the reasons of the refusals.
fn refusals(sets: &TwoSets, name: &str) -> Vec<Option<String>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let request = async |port: &u16| {
        let pool = Pool::new();
        let channel = pool.get(&format!("{}:{port}", sets.place.host)).unwrap();
        let counter = CounterShape { offset: 1, increment: 1, max_id: 1_000 };
        let shape = Some(Shape { kind: Some(shape::Kind::Counter(counter)) });
        let request = CreateSeriesRequest { name: name.to_owned(), shape, ..CreateSeriesRequest::default() };
        SeriesAdminServiceClient::new(channel).create_series(request).await.err().and_then(|status| reason(&status))
    };
    runtime.block_on(async {
        let mut refusals = Vec::new();
        for port in &ADMIN_PORTS {
            refusals.push(request(port).await);
        }
        refusals
    })
}

/// Returns whether each set creates series, as a set lists them.
fn writers(sets: &TwoSets, port: u16) -> Vec<(String, bool)> {
    let list = sets.place.seqsvr_json(&["set", "list", "--addr", &sets.addr(port)]);
    let writes = |set: &Value| (set["name"].as_str().unwrap().to_owned(), set["writes_series"] == true);
    list["items"].as_array().unwrap().iter().map(writes).collect()
}

fn ids(sets: &TwoSets, name: &str, port: u16) -> Vec<u64> {
    let taken = sets.place.seqsvr_json(&["id", "next", name, "-n", "5", "--addr", &sets.addr(port)]);
    taken["ids"].as_array().unwrap().iter().map(digits).collect()
}

#[test]
fn the_set_that_creates_series_hands_this_over_and_is_merged_away() {
    let sets = TwoSets::new(400_000);
    let [mut first, _second] = sets.start();
    let (of_first, of_second) = (sets.addr(7301), sets.addr(7321));
    let create = |args: &[&str]| seqsvr(&[args, &["--addr", &of_first]].concat()).status.success();
    [ORDERS, MEDIA].iter().for_each(|series| series.create(&[], create));
    let before = ids(&sets, "orders", 7400);
    let of_a = |writes: bool| vec![("im-a".to_owned(), writes), ("im-b".to_owned(), !writes)];
    assert_eq!(writers(&sets, 7301), of_a(true));

    // A merge would end in a refusal to close the set, so it does not begin.
    let merge = ["set", "merge", "im-a", "--into", "im-b", "--yes", "--addr", &of_first, "--timeout-s", "120"];
    let refused = seqsvr(&merge);
    let text = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{text}");
    assert!(
        text.contains("set im-a creates the series of the cluster, so it cannot be closed (LAYOUT_WRITER)"),
        "{text}"
    );
    let hint = format!("hint: `seqsvr set layout-writer im-b --addr {of_first}` hands that to set im-b first");
    assert!(text.contains(&hint), "{text}");
    assert_eq!(sets.sections("im-b"), 0);

    // The command finds the set that creates series from a node of the other set.
    let command = ["set", "layout-writer", "im-b", "--addr", &of_second, "--timeout-s", "60"];
    let shown = sets.place.seqsvr_json(&[&command[..], &["--dry-run"]].concat());
    let plan = shown["plan"].as_str().unwrap();
    assert_eq!(writers(&sets, 7301), of_a(true), "{shown:#}");
    let stale = sets.place.seqsvr(&[&command[..], &["--plan", "9f3c0a77d1e25b48"]].concat());
    assert_eq!(stale.status.code(), Some(5), "{}", String::from_utf8_lossy(&stale.stderr));
    let handed = sets.place.seqsvr_json(&[&command[..], &["--plan", plan]].concat());
    assert_eq!(handed, json!({"from": "im-a", "set": "im-b", "term": 1, "changed": true, "plan": plan}));
    assert_eq!(writers(&sets, 7301), of_a(false));
    assert_eq!(writers(&sets, 7321), [("im-b".to_owned(), true), ("im-a".to_owned(), false)]);
    let again = sets.place.seqsvr_json(&[&command[..], &["--yes"]].concat());
    assert_eq!(again, json!({"set": "im-b", "changed": false}));

    assert_eq!(refusals(&sets, "late"), vec![Some("LAYOUT_WRITER".to_owned()); 3]);
    TWEETS.create(&[], create);
    let load = IdLoad::start(&[7420, 7421].map(|port| format!("{}:{port}", sets.place.host)));
    load.wait_served();
    let merged = seqsvr(&merge);
    assert!(merged.status.success(), "{}", String::from_utf8_lossy(&merged.stderr));
    first.kill();
    load.wait_served();
    let failed: Vec<u64> = (0..SERIES.len()).map(|series| load.figures(series).failed).collect();
    assert_eq!(failed, [0; SERIES.len()], "calls fail");
    let calls = load.end("handed over and merged away", Clocks::RIGHT);
    assert!(calls.iter().all(|calls| !calls.is_empty()));

    // The ids of a series that the closed set created go on, and the other set creates further series.
    let after = ids(&sets, "orders", 7420);
    assert!(before.last() < after.first(), "{before:?} {after:?}");
    let late = ["series", "create", "late", "--counter", "--yes", "--addr", &of_second];
    let made = sets.place.seqsvr_json(&late);
    assert_eq!((&made["set"], &made["changed"]), (&json!("im-b"), &json!(true)), "{made:#}");
    assert_eq!(ids(&sets, "late", 7421), [1, 2, 3, 4, 5]);
}
