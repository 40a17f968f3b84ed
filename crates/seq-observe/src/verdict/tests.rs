//! Tests of every condition and every remark: its state, its text, and its page of the runbook.

use std::fmt::Write;

use expect_test::expect;

use super::*;

const DOCUMENT: &str = include_str!("../../../../docs/operations/watching.md");

/// Returns a healthy set of three stores and two allocators.
fn well() -> Facts {
    Facts {
        responding: 5,
        voters: voters([true; 3]),
        quorum: true,
        defined: true,
        store_uptime_ms: 60_000,
        sections: Some(10),
        served: 10,
        allocs: 2,
        lease_left_ms: 1_700,
        ..Facts::default()
    }
}

fn voters(respond: [bool; 3]) -> Vec<(String, bool)> {
    ["s1", "s2", "s3"].map(str::to_owned).into_iter().zip(respond).collect()
}

fn nodes<const N: usize>(nodes: [(&str, &str); N]) -> Nodes {
    let node = |(name, addrs): (&str, &str)| (name.to_owned(), addrs.split_whitespace().map(str::to_owned).collect());
    nodes.map(node).into_iter().collect()
}

/// Returns the facts of a store that has lost its leader.
fn leaderless(respond: [bool; 3], lost_ms: u64) -> Facts {
    Facts { voters: voters(respond), quorum: false, quorum_lost_ms: lost_ms, ..well() }
}

fn unserved(change: impl FnOnce(&mut Facts)) -> Facts {
    with(|facts| {
        facts.served = 5;
        change(facts);
    })
}

fn with(change: impl FnOnce(&mut Facts)) -> Facts {
    let mut facts = well();
    change(&mut facts);
    facts
}

/// Returns every staged condition by its name.
fn staged() -> Vec<(&'static str, Facts)> {
    [staged_stores(), staged_sections()].concat()
}

/// Returns the staged conditions of the store and of the set as a whole.
fn staged_stores() -> Vec<(&'static str, Facts)> {
    let s1 = |addrs| nodes([("s1", addrs)]);
    vec![
        ("closed", with(|facts| (facts.closed, facts.sections, facts.served) = (true, Some(0), 0))),
        ("closed", Facts { closed: true, silent_stores: s1("h:1"), ..Facts::default() }),
        (
            "rolled back, as an allocator saw",
            with(|facts| facts.halted = vec![("a2".into(), "entries are gone".into())]),
        ),
        ("rolled back, as the store has it", with(|facts| facts.entries_lost = "entries are gone".into())),
        ("two processes are one store", with(|facts| facts.copies = s1("h:1 h:11"))),
        (
            "two sets have one name",
            with(|facts| facts.set_ids = BTreeMap::from([(7, vec!["s1".into()]), (9, vec!["s1".into(), "s2".into()])])),
        ),
        (
            "two sets have one name",
            with(|facts| {
                facts.copies = s1("h:1 h:11");
                facts.set_ids = BTreeMap::from([(7, vec!["s1".into()]), (9, vec!["s1".into()])]);
            }),
        ),
        (
            "several lineages",
            with(|facts| facts.lineages = BTreeMap::from([(5, vec!["s1".into()]), (9, vec!["s2".into()])])),
        ),
        ("states differ", with(|facts| facts.difference = "behind entry 7 stores 1 and 2 differ from 3".into())),
        (
            "no store responds",
            Facts {
                silent_stores: nodes([("h:1", ""), ("h:2", "")]),
                silent_allocs: nodes([("h:7", ""), ("h:8", "")]),
                ..Facts::default()
            },
        ),
        ("no store responds", Facts { allocs: 2, lease_left_ms: 1_700, responding: 2, ..Facts::default() }),
        (
            "not formed",
            Facts {
                unformed: vec!["s1".into()],
                silent_stores: nodes([("s2", "h:2"), ("s3", "h:3")]),
                ..Facts::default()
            },
        ),
        ("not formed", Facts { unformed: vec!["s1".into(), "s2".into(), "s3".into()], ..Facts::default() }),
        (
            "no majority responds",
            Facts { lease_left_ms: 0, lease_ended_ms: 6_000, ..leaderless([false, true, false], 8_120) },
        ),
        ("an election", leaderless([false, true, true], 600)),
        ("an election", Facts { store_uptime_ms: 2_000, lease_left_ms: 0, ..leaderless([true; 3], 0) }),
        ("no leader", leaderless([true; 3], 12_000)),
        ("no set is defined", Facts { defined: false, served: 0, ..well() }),
        ("quarantined", with(|facts| facts.quarantine = "QUARANTINED: im-a waits for set im-b".into())),
    ]
}

/// Returns the staged conditions of a set whose store has a majority, so that only the allocators decide.
fn staged_sections() -> Vec<(&'static str, Facts)> {
    let s1 = |addrs| nodes([("s1", addrs)]);
    let a2 = || nodes([("a2", "h:8")]);
    vec![
        (
            "sections do not arrive",
            with(|facts| (facts.sections, facts.delayed, facts.delayed_ms) = (Some(12), 2, 20_800)),
        ),
        (
            "no allocator responds",
            unserved(|facts| {
                (facts.served, facts.allocs) = (0, 0);
                facts.silent_allocs = nodes([("a1", "h:7"), ("a2", "h:8")]);
            }),
        ),
        ("no allocator responds", unserved(|facts| (facts.served, facts.allocs) = (0, 0))),
        ("an allocator is lost", unserved(|facts| facts.silent_allocs = a2())),
        ("an allocator is lost", unserved(|facts| facts.unleased = vec!["a2".into()])),
        ("sections have no owner", unserved(|_| ())),
        ("degraded", with(|facts| (facts.silent_stores, facts.voters) = (s1("h:1"), voters([false, true, true])))),
        ("degraded", with(|facts| facts.silent_allocs = a2())),
        ("degraded", with(|facts| facts.unleased = vec!["a2".into()])),
        ("degraded", with(|facts| facts.disks = vec![("s2".into(), 9 << 20, 1 << 30)])),
        ("ok", well()),
        ("ok", with(|facts| (facts.sections, facts.served) = (Some(0), 0))),
    ]
}

/// Stages two nodes that other nodes do not reach, and a node that does not run.
fn unreached(facts: &mut Facts) {
    facts.present = ["a1", "a2", "a3"].map(String::from).into();
    let pairs = [("a3", "a1"), ("a9", "a1"), ("a3", "a2"), ("a1", "a3")];
    facts.unreached = pairs.map(|(name, by)| (name.to_owned(), by.to_owned())).into();
}

/// Returns the nodes of each kind by the digest of their settings.
fn settings(nodes: &[(&'static str, u64, &[&str])]) -> BTreeMap<&'static str, BTreeMap<u64, Vec<String>>> {
    let mut settings: BTreeMap<&'static str, BTreeMap<u64, Vec<String>>> = BTreeMap::new();
    for (kind, digest, names) in nodes {
        let names = names.iter().map(ToString::to_string).collect();
        settings.entry(kind).or_default().insert(*digest, names);
    }
    settings
}

/// Returns every staged remark by its name, in a set whose state stays.
fn remarked() -> Vec<(&'static str, Facts)> {
    let mut expiry = Expiry::default();
    expiry.add_expired("a2");
    vec![
        ("no lease", with(|facts| facts.unleased = vec!["a2".into()])),
        ("silent stores", with(|facts| facts.silent_stores = nodes([("s1", "h:1")]))),
        ("silent allocators", with(|facts| facts.silent_allocs = nodes([("a2", "h:8")]))),
        ("balancing", with(|facts| facts.paused = "paused by operator/alice since 03:00".into())),
        ("moved sections", with(|facts| facts.moved = 3)),
        ("withdrawn", with(|facts| facts.withdrawn = vec![("a1".into(), "callers do not reach it".into())])),
        ("certificates", with(|facts| facts.expiry = expiry)),
        ("restores", with(|facts| facts.restores = 3)),
        ("lineage", with(|facts| (facts.restores, facts.begun) = (3, 3))),
        ("disk", with(|facts| facts.disks = vec![("s1".into(), 90 << 20, 1 << 30), ("s2".into(), 110 << 20, 1 << 30)])),
        ("slow disk", with(|facts| facts.syncs = vec![("s1".into(), 121_900), ("s2".into(), 3_000)])),
        ("clock", with(|facts| facts.clocks = vec![("s3".into(), 3_600_000), ("a1".into(), -1_200)])),
        ("expired leases", with(|facts| facts.lapses = vec![("a1".into(), 4), ("a2".into(), 1)])),
        ("drained", with(|facts| facts.drained = vec![("a1".into(), 12), ("a2".into(), 0), ("a3".into(), 1)])),
        ("unreached", with(unreached)),
        (
            "releases",
            with(|facts| {
                let release =
                    |text: &str, nodes: &[&str]| (text.to_owned(), nodes.iter().map(ToString::to_string).collect());
                facts.releases =
                    [release("0.1.0 (3f1c2aa)", &["s1", "a1"]), release("0.2.0 (77b01fe)", &["s2"])].into();
            }),
        ),
        (
            "settings",
            with(|facts| facts.settings = settings(&[("allocators", 7, &["a1", "a3"]), ("allocators", 8, &["a2"])])),
        ),
        ("settings", with(|facts| facts.settings = settings(&[("stores", 7, &["s1"]), ("stores", 8, &["s2"])]))),
    ]
}

fn shown(rows: Vec<(&'static str, Facts)>) -> String {
    let mut text = String::new();
    for (name, facts) in rows {
        writeln!(text, "{name} | {}", facts.text()).unwrap();
    }
    text
}

#[test]
fn each_condition_has_its_words() {
    for (name, facts) in staged() {
        assert_eq!(facts.condition().name, name);
    }
    expect![[r#"
        closed | closed: its users are in other sets; 5 of its processes respond, and can be stopped
        closed | closed: its users are in other sets; its processes need not run
        rolled back, as an allocator saw | ROLLED BACK: a2 serve nothing; a2: entries are gone; next: stop all stores, keep their directories, and do not start these allocators again: `seqsvr unsafe recover --set FILE --data DIR --out BACKUP`, then on each store `seqsvr restore --set FILE --id N --data NEW_DIR --from BACKUP`
        rolled back, as the store has it | ROLLED BACK: no allocator registers and no section gets another owner; entries are gone; next: stop all stores, keep their directories: `seqsvr unsafe recover --set FILE --data DIR --out BACKUP`, then on each store `seqsvr restore --set FILE --id N --data NEW_DIR --from BACKUP`
        two processes are one store | CLONED: one store responds as two processes: s1 (h:1, h:11); a copy of the set runs, and gives out the same numbers; next: stop the copy, and name only the nodes of one of both
        two sets have one name | CLONED: sets with several ids have this name: s1 of set 7, and s1, s2 of set 9; next: name only the nodes of one of them
        two sets have one name | CLONED: sets with several ids have this name: s1 of set 7, and s1 of set 9; next: name only the nodes of one of them
        several lineages | SPLIT: stores s1 of lineage 5, and s2 of lineage 9: they were restored from other files or under other counts, and may allocate the same numbers; next: stop the stores that were restored otherwise, and restore them as the others
        states differ | DIFFERS: behind entry 7 stores 1 and 2 differ from 3; 3 of 3 voters respond; next: replace the stores outside of the majority under new ids (`seqsvr store replace`); without a majority of equal states, keep all directories and restore the newest backup (`seqsvr restore`)
        no store responds | NO QUORUM: no store responds; nothing can be committed; no allocator responds: h:7, h:8; next: start its stores again: h:1, h:2
        no store responds | NO QUORUM: no store responds; nothing can be committed; leases end in 1.7 s; next: no address of its stores is known here: name one with --addr
        not formed | NO QUORUM: s1 responds, and the store is not formed yet; nothing can be committed; next: start the others: s2, s3
        not formed | NO QUORUM: s1, s2, s3 respond, and the store is not formed yet; nothing can be committed; next: repeat within seconds, then look at the logs of the stores
        no majority responds | NO QUORUM: 1 of 3 voters responds, no majority since 8.1 s; nothing can be committed; leases ended 6.0 s ago: every call is refused; next: start s1, s3 again; if their disks are lost, `seqsvr unsafe recover --set FILE --data DIR --out BACKUP`, then on each store `seqsvr restore --set FILE --id N --data NEW_DIR --from BACKUP`
        an election | ELECTION: 2 of 3 voters respond, no majority since 0.6 s; nothing can be committed; leases end in 1.7 s; next: an election is under way: repeat within seconds
        an election | ELECTION: 3 of 3 voters respond; nothing can be committed; next: an election is under way: repeat within seconds
        no leader | NO QUORUM: 3 of 3 voters respond, no majority since 12 s; nothing can be committed; leases end in 1.7 s; next: the voters do not reach each other, or have just started: repeat, then look at their logs
        no set is defined | UNDEFINED: the store has no set yet (NO_SET); 3 of 3 voters respond; next: `seqsvr set init --set FILE`, or `seqsvr set create --set FILE --join ADDR` for a set of a cluster that exists
        quarantined | QUARANTINED: im-a waits for set im-b; next: start the stores of the sets that do not respond
        sections do not arrive | UNSERVED: 10 of 12 sections are served; 3 of 3 voters respond; 2 sections departed to another set and have not arrived for 20 s; next: `seqsvr migration list` shows what the other set does not do
        no allocator responds | UNSERVED: 0 of 10 sections are served; 3 of 3 voters respond; no allocator responds; no response of a1 (h:7), a2 (h:8); next: start a1, a2 again
        no allocator responds | UNSERVED: 0 of 10 sections are served; 3 of 3 voters respond; no allocator responds; next: start its allocators (`seqsvr alloc`)
        an allocator is lost | UNSERVED: 5 of 10 sections are served; 3 of 3 voters respond; no response of a2 (h:8); next: sections of a lost allocator move within seconds: repeat, then start allocators (`seqsvr node list`)
        an allocator is lost | UNSERVED: 5 of 10 sections are served; 3 of 3 voters respond; without a lease: a2; next: sections of a lost allocator move within seconds: repeat, then start allocators (`seqsvr node list`)
        sections have no owner | UNSERVED: 5 of 10 sections are served; 3 of 3 voters respond; next: sections get an owner within seconds: repeat, then `seqsvr node list`
        degraded | DEGRADED: 10 of 10 sections are served; no response of store s1 (h:1); next: start it again, or if its disk is lost, `seqsvr store replace`
        degraded | DEGRADED: 10 of 10 sections are served; no response of allocator a2 (h:8); next: start it again, or if it is to stay away, `seqsvr node drain a2`
        degraded | DEGRADED: 10 of 10 sections are served; without a lease: a2; next: repeat, then look at its log
        degraded | DEGRADED: 10 of 10 sections are served; disk of s2 is full: 9 MiB, 0 %, left; next: free space on it, a store ends where it cannot write
        ok | ok: 10 of 10 sections are served; 3 of 3 voters respond
        ok | ok: it has no sections; 3 of 3 voters respond
    "#]].assert_eq(&shown(staged()));
}

#[test]
fn each_remark_follows_a_verdict_that_it_does_not_change() {
    let may_be = |facts: &Facts| matches!(facts.state(), State::Ok | State::Degraded);
    assert!(remarked().iter().all(|(_, facts)| may_be(facts)));
    expect![[r#"
        no lease | DEGRADED: 10 of 10 sections are served; without a lease: a2; next: repeat, then look at its log
        silent stores | DEGRADED: 10 of 10 sections are served; no response of store s1 (h:1); next: start it again, or if its disk is lost, `seqsvr store replace`
        silent allocators | DEGRADED: 10 of 10 sections are served; no response of allocator a2 (h:8); next: start it again, or if it is to stay away, `seqsvr node drain a2`
        balancing | ok: 10 of 10 sections are served; 3 of 3 voters respond; balancing is paused by operator/alice since 03:00; next: `seqsvr section balance --resume`
        moved sections | ok: 10 of 10 sections are served; 3 of 3 voters respond; 3 sections are where operators moved them
        withdrawn | DEGRADED: 10 of 10 sections are served; a1: callers do not reach it
        certificates | DEGRADED: 10 of 10 sections are served; certificate expired: a2; next: `seqsvr cert rotate`
        restores | ok: 10 of 10 sections are served; 3 of 3 voters respond; restores are counted up to 3
        lineage | ok: 10 of 10 sections are served; 3 of 3 voters respond; restores are counted up to 3; it began the lineage that counts 3 by itself, as another set knew of more restores; next: add 3 to the notes beside the backups
        disk | ok: 10 of 10 sections are served; 3 of 3 voters respond; disk of s1 is low: 90 MiB, 8 %, left; next: free space on it, a store ends where it cannot write
        slow disk | ok: 10 of 10 sections are served; 3 of 3 voters respond; disk of s1 is slow: one sync in a hundred takes 121 ms or longer; next: look for other writers to it; `seqsvr store lead` transfers the leadership to another store
        clock | ok: 10 of 10 sections are served; 3 of 3 voters respond; clock of s3 is 60 min ahead, a1 is 1.2 s behind of most others; next: look at its time service; certificates are judged by that clock, numbers are not
        expired leases | ok: 10 of 10 sections are served; 3 of 3 voters respond; leases expired in the last 10 minutes: a1 4 times, a2 once; next: look for a store, a disk or a machine that is overloaded
        drained | ok: 10 of 10 sections are served; 3 of 3 voters respond; a1 is draining, 12 sections are left; a2 is drained; next: stop it, or `seqsvr node undrain a2`; a3 is draining, 1 section is left
        unreached | ok: 10 of 10 sections are served; 3 of 3 voters respond; a1 is not reached by a3 at its address for callers, a3 is not reached by a1, a2 at its address for callers; next: check firewalls and routes between their hosts
        releases | ok: 10 of 10 sections are served; 3 of 3 voters respond; different releases run: 0.1.0 (3f1c2aa) on s1, a1; 0.2.0 (77b01fe) on s2; next: end the upgrade
        settings | ok: 10 of 10 sections are served; 3 of 3 voters respond; a2 has other settings than most allocators; next: `seqsvr config diff` names the settings
        settings | ok: 10 of 10 sections are served; 3 of 3 voters respond; the stores s1, s2 have different settings; next: `seqsvr config diff` names the settings
    "#]].assert_eq(&shown(remarked()));
}

#[test]
fn every_condition_is_staged_and_documented() {
    let staged: BTreeSet<&str> = staged().into_iter().map(|(name, _)| name).collect();
    for condition in &CONDITIONS {
        assert!(staged.contains(condition.name), "{} is not staged", condition.name);
        let row = format!("| {} | ", condition.name);
        assert!(DOCUMENT.contains(&row), "docs/operations/watching.md has no row {row:?}");
    }
    let remarked: BTreeSet<&str> = remarked().into_iter().map(|(name, _)| name).collect();
    for remark in &REMARKS {
        assert!(remarked.contains(remark.name), "the remark {} is not staged", remark.name);
        assert!(
            DOCUMENT.contains(&format!("| {} | ", remark.name)),
            "docs/operations/watching.md has no remark {}",
            remark.name
        );
    }
    assert!(CONDITIONS[1..].is_sorted_by_key(|condition| severity(condition.state)), "the worst is first");
}

/// Maps states that exclude each other to one severity.
fn severity(state: State) -> State {
    if state == State::Election { State::NoQuorum } else { state }
}

#[test]
fn the_worst_condition_is_the_verdict() {
    let mut facts = staged().into_iter().find(|(name, _)| *name == "two processes are one store").unwrap().1;
    facts.quorum = false;
    assert_eq!(facts.state(), State::Cloned);
    facts.entries_lost = "entries are gone".into();
    assert_eq!(facts.state(), State::RolledBack);
    facts.closed = true;
    assert_eq!(facts.state(), State::Closed, "nothing of a closed set matters");
}
