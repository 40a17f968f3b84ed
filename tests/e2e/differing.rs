//! One of three stores has a state that differs from the others: it stops with a reason, `status` names it, and it is
//! replaced.

use std::fs;
use std::path::Path;

use seq_core::SectionId;
use seq_core::state::SectionRecord;
use seq_raft::{Peer, RestoredGroup, StateMachine as _, form_restored};
use seq_store::SetState;
use seq_store::backup::Backup;
use seq_testkit::eventually;
use serde_json::Value;

use crate::cluster::{Place, Server, seqsvr, seqsvr_json};

/// Settings that compare the members' states ten times as often as by default.
pub(crate) const OFTEN: &str = "[store]\ncomparison_interval_ms = 1_000\n";

/// Exit code of a server with wrong data: no supervisor starts it again.
const DATA: i32 = 64;

/// Forms the directories `s1` to `s3` of a stopped three-node set from its backup; in store 3, the ceiling of section 3
/// is higher by one. In contrast to `restore`, directories with different contents get the same identity.
pub(crate) fn form(place: &Place, backup: &str) {
    let backup = Backup::decode(&fs::read(backup).unwrap()).unwrap();
    let addr = |port: u64| format!("{}:{port}", place.host);
    let peer = |id| Peer { id, name: format!("s{id}"), addr: addr(7300 + id), raft_addr: addr(7306 + id) };
    let peers: Vec<Peer> = (1..=3).map(peer).collect();
    for id in 1..=3 {
        let mut state = backup.state().clone();
        state.raise_format(SetState::FORMAT);
        state.0.store_ids = vec![1, 2, 3];
        if id == 3 {
            let Some(SectionRecord::Resident(record)) = state.0.sections.get(SectionId(3)) else { unreachable!() };
            let mut record = *record;
            record.max_seq.0 += 1;
            state.0.sections.put(SectionId(3), SectionRecord::Resident(record));
        }
        let group =
            RestoredGroup { cluster: &backup.header.cluster, peers: &peers, format: SetState::FORMAT, seed: [7; 32] };
        form_restored(&place.path(&format!("s{id}")), id, &group, state).unwrap();
    }
}

#[test]
fn a_store_whose_state_differs_stops_and_is_replaced() {
    let place = Place::new();
    let set = place.set_file("three-node.toml").display().to_string();
    let config = place.path("store.toml").display().to_string();
    fs::write(&config, OFTEN).unwrap();
    let store = |set: &str, id: u64, more: &[&str]| {
        let (name, id) = (format!("s{id}"), id.to_string());
        let data = place.path(&name).display().to_string();
        let args = [&["store", "--set", set, "--id", &id, "--data", &data, "--config", &config], more].concat();
        place.server(&name, &args)
    };
    let alloc = |name| place.server(name, &["alloc", "--set", &set, "--name", name, "--cores", "1"]);
    let verdict = |set: &str| {
        let output = seqsvr(&["status", "--set", set, "-o", "json"]);
        let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (output.status.code(), status["verdict"].as_str().unwrap_or_default().to_owned())
    };
    let serves = |set: &str| verdict(set).1.starts_with("ok").then_some(());

    let before: Vec<Server> = (1..=3).map(|id| store(&set, id, &[])).collect();
    let allocs = ["a1", "a2"].map(alloc);
    eventually("the set serves", || serves(&set));
    let backup = place.path("set.backup").display().to_string();
    seqsvr_json(&["backup", "create", "--set", &set, "--out", &backup]);
    drop((before, allocs));
    for id in 1..=3 {
        fs::remove_dir_all(place.path(&format!("s{id}"))).unwrap();
    }
    form(&place, &backup);

    let mut stores: Vec<Server> = (1..=3).map(|id| store(&set, id, &[])).collect();
    let _allocs = ["a1", "a2"].map(alloc);
    assert!(stores[2].wait_exit().is_some_and(|code| code != 0), "{}", stores[2].log());
    assert!(stores[2].log().contains("that of store 3 is") || stores[2].log().contains("of store 3 is"));
    let (code, text) =
        eventually("status says so", || Some(verdict(&set)).filter(|(_, text)| text.contains("DIFFERS")));
    assert!(code == Some(3) && text.contains("stores 1 and 2"), "{code:?} {text}");
    assert!(text.contains("next: replace the stores outside of the majority"), "{text}");
    // No supervisor starts it again, and no recovery takes its state.
    stores[2] = store(&set, 3, &[]);
    assert_eq!(stores[2].wait_exit(), Some(DATA), "{}", stores[2].log());
    assert!(stores[2].log().contains("is not that of the majority"), "{}", stores[2].log());
    let (data, out) = (place.path("s3").display().to_string(), place.path("no.backup").display().to_string());
    let recover = ["unsafe", "recover", "--set", &set, "--data", &data, "--out", &out, "--count", "1", "--offline"];
    let recovered = seqsvr(&[&recover[..], &["--confirm", "im-a"]].concat());
    let text = String::from_utf8_lossy(&recovered.stderr);
    assert!(recovered.status.code() == Some(2) && text.contains("not that of the majority"), "{text}");
    assert!(!Path::new(&out).exists());

    // The other stores continue to serve, and the difference ends with the replacement of the member.
    let addr = format!("http://{}:7400", place.host);
    eventually("a number is allocated", || seqsvr(&["next", "1", "--addr", &addr]).status.success().then_some(()));
    let text = fs::read_to_string(&set).unwrap().replace("id = 3\nname = \"s3\"", "id = 4\nname = \"s4\"");
    let ports = [(7303, 7321), (7306, 7324), (7309, 7327), (7313, 7331)];
    let moved = |text: String, (old, new): (u16, u16)| text.replace(&format!(":{old}"), &format!(":{new}"));
    let new = place.path("new.toml").display().to_string();
    fs::write(&new, ports.into_iter().fold(text, moved)).unwrap();
    let _joined = store(&new, 4, &["--join"]);
    seqsvr_json(&["store", "replace", "3", "4", "--set", &new, "--yes"]);
    eventually("all voters are equal again", || serves(&new));
}
