//! Sections that no node serves for a while: after handovers, without a lease, after a takeover and during a migration
//! the metrics have one sample for each section. The metrics of a migration have its sections by state.

use std::io::{Read, Write};
use std::net::TcpStream;

use seq_testkit::eventually;

use crate::cluster::{Place, Server, seqsvr, seqsvr_json};
use crate::two_sets::TwoSets;

/// Ports of the metrics of stores and allocators of a set.
const STORES: [u16; 3] = [7311, 7312, 7313];
const ALLOCS: [u16; 2] = [7480, 7481];

/// Returns the metrics at a port; empty if no process listens there.
fn metrics(place: &Place, port: u16) -> String {
    let mut metrics = String::new();
    let Ok(mut stream) = TcpStream::connect((place.host, port)) else { return metrics };
    let request = b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let _ = stream.write_all(request).and_then(|()| stream.read_to_string(&mut metrics));
    metrics
}

/// Returns the sum of the series at these ports whose line begins with `name` and has each of these labels.
fn sum(place: &Place, ports: &[u16], name: &str, labels: &[&str]) -> f64 {
    let of = |port: &u16| {
        let metrics = metrics(place, *port);
        let is = |line: &&str| line.starts_with(name) && labels.iter().all(|label| line.contains(label));
        let values = metrics.lines().filter(is).filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
        values.sum::<f64>()
    };
    ports.iter().map(of).sum()
}

/// Returns the number of sections that were unserved for this cause, and the sum of their seconds.
fn unserved(place: &Place, cause: &str) -> (f64, f64) {
    let (ports, cause) = ([&STORES[..], &ALLOCS].concat(), format!("cause=\"{cause}\""));
    let of = |name: &str| sum(place, &ports, name, &[&cause]);
    (of("seqsvr_section_unserved_seconds_count{"), of("seqsvr_section_unserved_seconds_sum{"))
}

#[test]
fn sections_that_are_handed_over_taken_over_or_without_a_lease_are_recorded() {
    let place = Place::new();
    let set = place.set_file("three-node.toml").display().to_string();
    let store = |id: u64| {
        let data = place.path(&format!("s{id}")).display().to_string();
        place.server(&format!("s{id}"), &["store", "--set", &set, "--id", &id.to_string(), "--data", &data])
    };
    let stores: Vec<Server> = (1..=3).map(store).collect();
    let alloc = |name: &str| place.server(name, &["alloc", "--set", &set, "--name", name, "--cores", "1"]);
    let (_a1, mut a2) = (alloc("a1"), alloc("a2"));
    eventually("the set serves", || seqsvr(&["health", "--set", &set]).status.success().then_some(()));
    let owned = |name: &str| {
        let sections = seqsvr_json(&["section", "list", "--owner", name, "--set", &set]);
        sections["items"].as_array().unwrap().len() as f64
    };
    let of_a1 = owned("a1");
    assert!(of_a1 > 0.0 && owned("a2") > 0.0);
    for cause in ["handover", "lease", "takeover", "migration"] {
        assert_eq!(unserved(&place, cause), (0.0, 0.0), "{cause}");
    }

    let drained = seqsvr(&["node", "drain", "a1", "--yes", "--set", &set]);
    assert!(drained.status.success(), "{}", String::from_utf8_lossy(&drained.stderr));
    eventually("each handover is recorded", || (unserved(&place, "handover").0 >= of_a1).then_some(()));
    let undrained = seqsvr(&["node", "undrain", "a1", "--set", &set]);
    assert!(undrained.status.success(), "{}", String::from_utf8_lossy(&undrained.stderr));

    // No store responds until the leases have expired.
    stores.iter().for_each(Server::freeze);
    let leases = || ALLOCS.map(|port| sum(&place, &[port], "seqsvr_lease_remaining_seconds{", &[]));
    eventually("the leases expire", || leases().iter().all(|left| *left == 0.0).then_some(()));
    stores.iter().for_each(Server::thaw);
    // A leader that was frozen may have given the sections of one node to the other, so not all have this cause.
    let (sections, seconds) = eventually("the sections without a lease are recorded", || {
        Some(unserved(&place, "lease")).filter(|(sections, _)| *sections > 0.0)
    });
    assert!(seconds > 0.0 && seconds / sections < 60.0, "{seconds} s for {sections} sections");

    eventually("the set serves", || seqsvr(&["health", "--set", &set]).status.success().then_some(()));
    let of_a2 = eventually("a2 owns sections", || Some(owned("a2")).filter(|sections| *sections > 0.0));
    let before = unserved(&place, "takeover");
    a2.kill();
    let after = eventually("each section of the takeover is recorded", || {
        Some(unserved(&place, "takeover")).filter(|(sections, _)| *sections >= before.0 + of_a2)
    });
    let mean = (after.1 - before.1) / (after.0 - before.0);
    assert!((2.0..60.0).contains(&mean), "a takeover takes the lease wait of 2.5 s: {mean} s");
}

#[test]
fn sections_of_a_migration_count_by_state_until_it_is_completed() {
    let sets = TwoSets::new(10_000_000);
    let _servers = sets.start();
    let of = |name: &str, label: &str| sum(&sets.place, &STORES, name, &[label]);
    let by_state = || {
        ["waiting", "departed", "arrived"].map(|state| of("seqsvr_migration_sections{", &format!("state=\"{state}\"")))
    };
    assert_eq!(by_state(), [0.0; 3]);
    sets.cli(&["set", "split", "im-a", "--at", "5000000", "--into", "im-b", "--yes", "--wait"]);
    // Each of the three members has the gauges.
    eventually("all sections have arrived", || (by_state() == [0.0, 0.0, 150.0]).then_some(()));
    let (sections, seconds) = unserved(&sets.place, "migration");
    assert!(sections == 50.0 && seconds > 0.0, "{sections} sections, {seconds} s");
    assert_eq!(of("seqsvr_migrations_stuck{", ""), 0.0);
    let id = sets.run(&["migration", "list"])["items"][0]["id"].as_str().unwrap().to_owned();
    sets.cli(&["migration", "complete", &id, "--yes"]);
    eventually("a completed migration counts no more", || (by_state() == [0.0; 3]).then_some(()));
}
