//! Huge pages of the kernel: a process has none until it gains by them.

use std::fs;

use seq_testkit::eventually;

use crate::cluster::{Server, seqsvr_json};
use crate::plans::Cluster;

#[test]
fn an_allocator_has_huge_pages_once_its_counters_take_room_and_a_store_has_none() {
    assert!(has_huge_pages("self"), "this test needs a kernel with transparent huge pages");
    let cluster = Cluster::start();
    let with_huge_pages = |names: [&str; 3]| names.map(|name| has_huge_pages(&pid(&cluster.servers[name])));
    assert_eq!(with_huge_pages(["a1", "a2", "a3"]), [false; 3]);
    assert_eq!(with_huge_pages(["s1", "s2", "s3"]), [false; 3]);

    // Each uid is most probably in a page of its own, and a page has 16 KiB: more than 8 MiB for each allocator.
    let addr = format!("http://{}:7400", cluster.place.host);
    let load = ["--endpoint", "many", "--uids", "10000000", "--batch", "100", "--calls", "60", "--warmup", "0s"];
    let report = seqsvr_json(&[&["bench", "--addr", &addr][..], &load].concat());
    assert_eq!(report["failed"], 0, "{report:#}");

    eventually("the allocators have huge pages", || (with_huge_pages(["a1", "a2", "a3"]) == [true; 3]).then_some(()));
    assert_eq!(with_huge_pages(["s1", "s2", "s3"]), [false; 3]);
}

fn pid(server: &Server) -> String {
    server.pid().as_raw_nonzero().to_string()
}

/// Returns whether the kernel may use huge pages for a process.
fn has_huge_pages(pid: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    status.lines().any(|line| line.split_whitespace().eq(["THP_enabled:", "1"]))
}
