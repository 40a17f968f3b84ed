//! The event log of a set of three stores and two allocators: a takeover, a drain and a change of leader are one event
//! each, and a watch sees them across the change of leader. The record of a section keeps how its ownership began.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use parking_lot::Mutex;
use seq_command::utc;
use seq_testkit::eventually;
use serde_json::Value;

use crate::cluster::{Place, Server, digits, seqsvr, seqsvr_json};
use crate::unserved::{STORES, sum};

/// A set whose processes run, and a watch of its events.
struct Cluster {
    set: PathBuf,
    stores: Vec<Server>,
    allocs: Vec<Option<Server>>,
    watch: Watch,
    /// Last, so that the logs are still there when the servers are dropped.
    place: Place,
}

/// A process that watches events; ended on drop.
pub(crate) struct Watch {
    child: Child,
    /// Events in the order in which they were printed, each with the time of its line in milliseconds since 1970.
    lines: Arc<Mutex<Vec<(u64, Value)>>>,
}

impl Watch {
    pub(crate) fn start(set: &str) -> Watch {
        let args = ["events", "watch", "--set", set, "-o", "json"];
        let mut child = Command::new(env!("CARGO_BIN_EXE_seqsvr")).args(args).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let lines = Arc::new(Mutex::new(Vec::new()));
        let seen = lines.clone();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                seen.lock().push((utc::now_ms(), serde_json::from_str(&line).unwrap()));
            }
        });
        Watch { child, lines }
    }

    /// Waits for an event.
    pub(crate) fn see(&self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        eventually(&format!("the watch shows {what}"), || self.seen(&is))
    }

    /// Returns the last matching event that the watch has shown.
    pub(crate) fn seen(&self, is: impl Fn(&Value) -> bool) -> Option<Value> {
        self.lines.lock().iter().rev().find(|(_, one)| is(one)).map(|(_, one)| one.clone())
    }

    /// Returns the milliseconds from the last change of an event, by the clock of the leader, until the watch first
    /// showed the event with this change.
    fn delay(&self, event: &Value) -> u64 {
        let lines = self.lines.lock();
        let (seen, _) = lines.iter().find(|(_, one)| one == event).expect("the watch has shown the event");
        seen.saturating_sub(utc::parse_ms(event["until"].as_str().unwrap()).unwrap())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Cluster {
    fn start() -> Cluster {
        let place = Place::new();
        let set = place.set_file("three-node.toml");
        let text = set.display().to_string();
        let store = |id: u64| {
            let data = place.path(&format!("s{id}")).display().to_string();
            place.server(&format!("s{id}"), &["store", "--set", &text, "--id", &id.to_string(), "--data", &data])
        };
        let stores: Vec<Server> = (1..=3).map(store).collect();
        let allocs = ["a1", "a2"].map(|name| Some(alloc(&place, &text, name)));
        eventually("all sections are served", || {
            let health = seqsvr(&["health", "--set", &text]);
            health.status.success().then_some(())
        });
        let watch = Watch::start(&text);
        Cluster { set, stores, allocs: allocs.into(), watch, place }
    }

    fn run(&self, args: &[&str]) -> Value {
        let set = self.set.display().to_string();
        seqsvr_json(&[args, &["--set", &set]].concat())
    }

    fn list(&self, args: &[&str]) -> Vec<Value> {
        self.run(&[&["events", "list"], args].concat())["items"].as_array().unwrap().clone()
    }

    fn owned(&self, node: &str) -> u64 {
        let sections = self.run(&["section", "list", "--owner", node]);
        sections["items"].as_array().unwrap().len() as u64
    }
}

fn alloc(place: &Place, set: &str, name: &str) -> Server {
    place.server(name, &["alloc", "--set", set, "--name", name, "--cores", "1"])
}

fn of(kind: &str) -> impl Fn(&Value) -> bool {
    move |event| event["kind"] == kind
}

#[test]
fn a_takeover_a_drain_and_a_change_of_leader_are_events() {
    let mut cluster = Cluster::start();
    let set = cluster.set.display().to_string();
    let first = cluster.list(&["--kind", "first_owners"]);
    assert_eq!(first.len(), 1, "{first:?}");
    assert_eq!(first[0]["sections"]["count"], cluster.owned("a1") + cluster.owned("a2"));
    for kind in ["set_defined", "leader", "registered"] {
        assert!(!cluster.list(&["--kind", kind]).is_empty(), "{kind}");
    }

    // A section has a ceiling once a number of it was allocated.
    let taken = seqsvr_json(&["next", "1", "--set", &set]);
    assert_eq!(digits(&taken["items"][0]["value"]), 1);
    let section = cluster.run(&["section", "show", "--uid", "1"]);
    let owner = section["owner"].as_str().unwrap().to_owned();
    let (dead, other) = if owner == "a1" { (0, "a2") } else { (1, "a1") };
    let owned = cluster.owned(&owner);
    cluster.allocs[dead].as_mut().unwrap().kill();
    let takeover = cluster.watch.see("the takeover of all sections", |event| {
        event["kind"] == "takeover" && event["sections"]["count"] == owned
    });
    println!("the takeover of {owned} sections is an event after {} ms", cluster.watch.delay(&takeover));
    assert_eq!((&takeover["node"], &takeover["severity"]), (&owner.as_str().into(), &"attention".into()));
    assert_eq!(takeover["owners"], serde_json::json!([{ "node": other, "sections": owned }]));
    assert!(digits(&takeover["lasted_ms"]) >= 1_000, "{takeover}");
    let ceiling = digits(&cluster.run(&["section", "show", "--uid", "1"])["ceiling"]);
    assert!((1..=ceiling).contains(&digits(&takeover["most_skipped"])), "{takeover}, ceiling {ceiling}");
    let silent = cluster.watch.see("the silence before", of("silent"));
    assert!(digits(&silent["number"]) < digits(&takeover["number"]));
    let metric = |name: &str| sum(&cluster.place, &STORES, name, "");
    let of_watchers = (metric("seqsvr_event_watchers{"), metric("seqsvr_events_lost_total{"));
    assert_eq!(of_watchers, (Some(1.0), Some(0.0)));
    let listed = cluster.list(&["--kind", "takeover"]);
    assert_eq!(listed.len(), 1, "one event for all sections: {listed:?}");

    // The watch goes on at the next leader.
    let led = digits(&cluster.list(&["--kind", "leader"]).last().unwrap()["store"]);
    cluster.stores[led as usize - 1].kill();
    let leader = cluster.watch.see("the next leader", |event| event["kind"] == "leader");
    assert_ne!(digits(&leader["store"]), led);
    cluster.allocs[dead] = Some(alloc(&cluster.place, &set, &owner));
    cluster.watch.see("the registration", |event| event["kind"] == "registered" && event["node"] == owner.as_str());
    let drained = seqsvr(&["node", "drain", other, "--set", &set, "--yes"]);
    assert!(drained.status.success(), "{}", String::from_utf8_lossy(&drained.stderr));
    cluster.watch.see("the drain", |event| event["kind"] == "drained" && event["node"] == other);
    let handover = cluster.watch.see("all handovers", |event| {
        event["kind"] == "handover" && event["node"] == other && event["sections"]["count"].as_u64() >= Some(owned)
    });
    assert_eq!(handover["owners"][0]["node"], owner.as_str());
    assert_eq!(handover["severity"], "info");

    let attention = cluster.list(&["--severity", "attention"]);
    assert!(attention.iter().all(|event| event["severity"] != "info") && attention.len() >= 2, "{attention:?}");
    assert_eq!(cluster.list(&["--limit", "1"]).len(), 1);
    let section = section["first_section"].to_string();
    let around = cluster.list(&["--section", &section, "--kind", "takeover"]);
    assert_eq!(around.len(), 1);
    let unknown = seqsvr(&["events", "list", "--kind", "takeovers", "--set", &set]);
    assert_eq!(unknown.status.code(), Some(2));
    let text = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(text.contains("takeovers") && text.contains("migration_started"), "{text}");
}

#[test]
fn a_section_shows_the_takeover_that_its_ownership_began_with() {
    let mut cluster = Cluster::start();
    let set = cluster.set.display().to_string();
    // A section has a ceiling once a number of it was allocated.
    seqsvr_json(&["next", "1", "--set", &set]);
    let before = cluster.run(&["section", "show", "--uid", "1"]);
    let owner = before["owner"].as_str().unwrap();
    assert_ne!(before["began_by"], "takeover", "{before:#}");
    assert!(digits(&before["began_ceiling"]) < digits(&before["ceiling"]), "{before:#}");
    let (dead, owned) = (if owner == "a1" { 0 } else { 1 }, cluster.owned(owner));
    cluster.allocs[dead].as_mut().unwrap().kill();
    let takeover = cluster.watch.see("the takeover of all sections", |event| {
        event["kind"] == "takeover" && event["sections"]["count"] == owned
    });

    let after = cluster.run(&["section", "show", "--uid", "1"]);
    assert_ne!(after["owner"], before["owner"]);
    assert_eq!((&after["began_by"], &after["began_ceiling"]), (&"takeover".into(), &before["ceiling"]), "{after:#}");
    let at = after["began_at"].as_str().unwrap();
    // Events have milliseconds, the record of a section has seconds.
    let [first, last] = ["time", "until"].map(|end| takeover[end].as_str().unwrap().split_once('.').unwrap().0);
    assert!((first..=last).contains(&at.trim_end_matches('Z')), "{after:#}, {takeover:#}");
    let listed = cluster.run(&["section", "list", "--uids", "0..100_000"]);
    for field in ["began_at", "began_by", "began_ceiling"] {
        assert_eq!(listed["items"][0][field], after[field], "{listed:#}");
    }
    let text = seqsvr(&["section", "show", "--uid", "1", "--set", &set]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains(&format!("ownership: began {at} (takeover), at the ceiling 10,000\n")), "{text}");
}
