//! Huge pages of the kernel: no process has any, also with counters that would fill some.

use std::fs;

use seq_testkit::eventually;

use crate::cluster::{Server, seqsvr_json};
use crate::plans::Cluster;

#[test]
fn no_process_has_huge_pages_with_or_without_counters() {
    assert!(of_status("self", "THP_enabled:").eq("1"), "this test needs a kernel with transparent huge pages");
    let cluster = Cluster::start();
    let pids = ["a1", "a2", "a3", "s1", "s2", "s3"].map(|name| pid(&cluster.servers[name]));
    assert_eq!(pids.each_ref().map(|pid| of_status(pid, "THP_enabled:")), ["0"; 6]);
    // Where the kernel uses huge pages without being asked, a process may have some from before `main`.
    let before = pids.each_ref().map(|pid| anonymous_huge_pages(pid));

    // Each uid is most probably in a page of its own, and a page has 16 KiB: more than 8 MiB for each allocator.
    let addr = format!("http://{}:7400", cluster.place.host);
    let load = ["--endpoint", "many", "--uids", "10000000", "--batch", "100", "--calls", "60", "--warmup", "0s"];
    let report = seqsvr_json(&[&["bench", "--addr", &addr][..], &load].concat());
    assert_eq!(report["failed"], 0, "{report:#}");
    for allocator in &pids[..3] {
        let resident = || of_status(allocator, "RssAnon:").parse::<u32>().unwrap() > 8 << 10;
        eventually("the allocator's counters are resident", || resident().then_some(()));
    }
    assert_eq!(pids.each_ref().map(|pid| anonymous_huge_pages(pid)), before);
}

fn pid(server: &Server) -> String {
    server.pid().as_raw_nonzero().to_string()
}

/// Returns the first word after a name in the status of a process.
fn of_status(pid: &str, name: &str) -> String {
    word_after(&format!("/proc/{pid}/status"), name)
}

/// Returns the KiB of a process in huge pages.
fn anonymous_huge_pages(pid: &str) -> String {
    word_after(&format!("/proc/{pid}/smaps_rollup"), "AnonHugePages:")
}

fn word_after(file: &str, name: &str) -> String {
    let text = fs::read_to_string(file).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().next().unwrap().to_owned()
}
