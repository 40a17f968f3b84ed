//! Sections that no node serves for a while: after handovers, without a lease, after a takeover and during a migration
//! the metrics have one sample for each section. The metrics of a migration have its sections by state.

use seq_core::lease::LeaseTerms;
use seq_testkit::eventually;

use crate::cluster::{Place, Server, seqsvr, seqsvr_json};
use crate::dev::try_get;
use crate::two_sets::TwoSets;
use crate::verdicts::Set;

/// Ports of the metrics of stores and allocators of a set.
pub(crate) const STORES: [u16; 3] = [7311, 7312, 7313];
const ALLOCS: [u16; 2] = [7480, 7481];

/// Returns the sum of the series at these ports whose line begins with `name` and has `label`; `None` if any port has
/// no such line.
pub(crate) fn sum(place: &Place, ports: &[u16], name: &str, label: &str) -> Option<f64> {
    let of = |port: &u16| {
        let metrics = try_get(&format!("{}:{port}", place.host), "/metrics").ok()?;
        let lines = metrics.lines().filter(|line| line.starts_with(name) && line.contains(label));
        let values: Vec<f64> = lines.map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap()).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>())
    };
    ports.iter().map(of).sum()
}

/// Returns the number of sections that were unserved for this cause, and the sum of their seconds; `None` if any
/// process that records the cause has no series of it.
fn unserved(place: &Place, cause: &str) -> Option<(f64, f64)> {
    let ports = if matches!(cause, "handover" | "lease") { &ALLOCS[..] } else { &STORES };
    let label = format!("cause=\"{cause}\"");
    let of = |name: &str| sum(place, ports, name, &label);
    Some((of("seqsvr_section_unserved_seconds_count{")?, of("seqsvr_section_unserved_seconds_sum{")?))
}

#[test]
fn sections_that_are_handed_over_taken_over_or_without_a_lease_are_recorded() {
    let place = Place::new();
    let set = place.set_file("three-node.toml").display().to_string();
    let processes = Set { place: &place, file: set.clone(), dirs: "n" };
    let (stores, _a1, mut a2) = (processes.stores(), processes.alloc("a1"), processes.alloc("a2"));
    eventually("the set serves", || seqsvr(&["health", "--set", &set]).status.success().then_some(()));
    let owned = |name: &str| {
        let sections = seqsvr_json(&["section", "list", "--owner", name, "--set", &set]);
        sections["items"].as_array().unwrap().len() as f64
    };
    let both_own = || ["a1", "a2"].iter().all(|name| owned(name) > 0.0).then_some(());
    eventually("both nodes own sections", both_own);
    for cause in ["handover", "lease", "takeover", "migration"] {
        let before = eventually(&format!("each process has the series of {cause}"), || unserved(&place, cause));
        // The node that registers second may get sections by handovers.
        assert!(before == (0.0, 0.0) || cause == "handover", "{cause}: {before:?}");
    }

    // No store responds until the leases have expired. Gauges are published once a second, the first time before there
    // is a lease.
    let leases = || ALLOCS.map(|port| sum(&place, &[port], "seqsvr_lease_remaining_seconds{", ""));
    eventually("each node publishes its lease", || leases().iter().all(|left| *left > Some(0.0)).then_some(()));
    stores.iter().for_each(Server::freeze);
    eventually("the leases expire", || (leases() == [Some(0.0); 2]).then_some(()));
    stores.iter().for_each(Server::thaw);
    // A leader that was frozen may give the sections of one node to the other, whose own sections have this cause.
    let (sections, seconds) = eventually("the sections without a lease are recorded", || {
        unserved(&place, "lease").filter(|(sections, _)| *sections > 0.0)
    });
    assert!(seconds > 0.0, "{seconds} s for {sections} sections");

    eventually("both nodes own sections again", both_own);
    let (handed_over, _) = unserved(&place, "handover").expect("each node has the series");
    let drained_at_least = handed_over + owned("a1");
    let drained = seqsvr(&["node", "drain", "a1", "--yes", "--set", &set]);
    assert!(drained.status.success(), "{}", String::from_utf8_lossy(&drained.stderr));
    eventually("each handover is recorded", || {
        unserved(&place, "handover").filter(|(sections, _)| *sections >= drained_at_least)
    });
    let undrained = seqsvr(&["node", "undrain", "a1", "--set", &set]);
    assert!(undrained.status.success(), "{}", String::from_utf8_lossy(&undrained.stderr));
    let of_a2 = eventually("a2 owns sections", || Some(owned("a2")).filter(|sections| *sections > 0.0));
    let before = unserved(&place, "takeover").expect("each store has the series");
    a2.kill();
    let after = eventually("each section of the takeover is recorded", || {
        unserved(&place, "takeover").filter(|(sections, _)| *sections >= before.0 + of_a2)
    });
    let mean = (after.1 - before.1) / (after.0 - before.0);
    let lease = LeaseTerms::DEFAULTS.lease.as_secs_f64();
    assert!(mean >= lease, "a takeover outlasts the lease of {lease} s: {mean} s");
}

#[test]
fn sections_of_a_migration_count_by_state_until_it_is_completed() {
    let sets = TwoSets::new(10_000_000);
    let _servers = sets.start();
    let of = |name: &str, label: &str| sum(&sets.place, &STORES, name, label);
    let by_state = || -> Option<Vec<f64>> {
        let of_state = |state| of("seqsvr_migration_sections{", &format!("state=\"{state}\""));
        ["waiting", "departed", "arrived"].into_iter().map(of_state).collect()
    };
    assert_eq!(eventually("each member has the gauges", by_state), [0.0; 3]);
    sets.cli(&["set", "split", "im-a", "--at", "5000000", "--into", "im-b", "--yes", "--wait"]);
    // Each of the three members counts the 50 sections.
    eventually("all sections have arrived", || by_state().filter(|states| *states == [0.0, 0.0, 150.0]));
    let (sections, seconds) = unserved(&sets.place, "migration").expect("each store has the series");
    assert!(sections == 50.0 && seconds > 0.0, "{sections} sections, {seconds} s");
    assert_eq!(of("seqsvr_migrations_stuck{", ""), Some(0.0));
    let id = sets.run(&["migration", "list"])["items"][0]["id"].as_str().unwrap().to_owned();
    sets.cli(&["migration", "complete", &id, "--yes"]);
    eventually("a completed migration counts no more", || by_state().filter(|states| *states == [0.0; 3]));
}
