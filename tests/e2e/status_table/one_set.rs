//! Conditions of one set: its start, nodes that are killed, paused, drained and moved, disks, clocks, and addresses.

use std::fs;

use seq_testkit::eventually;

use super::{Scene, Table};
use crate::backup_disk::Disk;
use crate::cluster::{Place, Server};
use crate::verdicts::{Nodes, Set, copy, other_build};
use crate::wrong_clock::WrongClock;

const OK: &str = "im-a: ok: 100 of 100 sections are served; 3 of 3 voters respond";

pub(super) fn nodes(table: &mut Table) {
    let place = Place::new();
    let file = place.set_file("three-node.toml").display().to_string();
    let set = Set { place: &place, file: file.clone(), dirs: "n" };
    let disk = Disk::mount(place.path("n-s3"), "size=64m,mode=700");
    let mut scene = Scene::new(table, &place, &["--set", &file]);
    let mut nodes = starts(&mut scene, set);
    stores(&mut scene, &mut nodes);
    allocators(&mut scene, &mut nodes);
    operators(&mut scene, &mut nodes);
    if let Some(disk) = &disk {
        disks(&mut scene, disk);
    }
    clocks(&mut scene, &mut nodes);
    addresses(&mut scene);
    majorities(&mut scene, &mut nodes);
    drop(nodes);
}

fn starts<'a>(scene: &mut Scene<'_>, set: Set<'a>) -> Nodes<'a> {
    scene.caused("nothing was started");
    scene.says("no node responds", 4, &["no node responds"]);
    scene.caused("store 1 of 3 is started, for the first time");
    let mut stores = vec![set.store(1, &[])];
    scene.says("one new store", 3, &["NO QUORUM: s1 responds, and the store is not formed yet"]);
    scene.caused("stores 2 and 3 are started");
    stores.extend([2, 3].map(|id| set.store(id, &[])));
    scene.says("stores without allocators", 3, &["UNSERVED", "no allocator responds"]);
    scene.caused("both allocators are started");
    let allocs = ["a1", "a2"].map(|name| set.alloc(name)).into();
    scene.says("ok", 0, &[OK]);
    Nodes { set, stores, allocs }
}

fn stores(scene: &mut Scene<'_>, nodes: &mut Nodes<'_>) {
    let follower = (nodes.leader() + 1) % 3;
    scene.caused("a follower store is killed");
    nodes.stores[follower].kill();
    scene.says("a dead store", 3, &["DEGRADED", "no response of store"]);
    scene.ended();
    nodes.start_store(follower);
    scene.over(&[OK]);

    scene.caused("a follower store is paused");
    nodes.stores[follower].freeze();
    scene.says("a store that hangs", 3, &["DEGRADED", "no response of store"]);
    scene.ended();
    nodes.stores[follower].thaw();
    scene.over(&[OK]);

    let leader = nodes.leader();
    scene.caused("the leader is killed");
    nodes.stores[leader].kill();
    scene.says("a dead leader", 3, &["DEGRADED", "no response of store"]);
    scene.ended();
    nodes.start_store(leader);
    scene.over(&[OK]);
}

fn allocators(scene: &mut Scene<'_>, nodes: &mut Nodes<'_>) {
    scene.caused("an allocator is killed");
    nodes.allocs[0].kill();
    scene.says("an allocator is lost", 3, &["UNSERVED", "no response of a1"]);
    scene.says("its sections are taken over", 3, &["DEGRADED: 100 of 100", "no response of allocator a1"]);
    scene.ended();
    nodes.allocs[0] = nodes.set.alloc("a1");
    scene.over(&[OK]);
    eventually("a1 has sections", || {
        let list = nodes.set.place.seqsvr_json(&["node", "list", "--set", &nodes.set.file]);
        list["nodes"].as_array()?.iter().find(|node| node["name"] == "a1")?["sections"].as_u64().filter(|all| *all > 20)
    });

    scene.caused("an allocator is killed, and started again at once");
    nodes.allocs[0].kill();
    nodes.allocs[0] = nodes.set.alloc("a1");
    scene.says("an allocator restarts", 3, &["UNSERVED"]);
    scene.over(&[OK]);

    scene.caused("both allocators are killed");
    nodes.allocs.iter_mut().for_each(Server::kill);
    scene.says("all allocators are dead", 3, &["UNSERVED", "no allocator responds"]);
    scene.ended();
    nodes.allocs = ["a1", "a2"].map(|name| nodes.set.alloc(name)).into();
    scene.over(&[OK]);
}

/// Stages changes by operators.
fn operators(scene: &mut Scene<'_>, nodes: &mut Nodes<'_>) {
    let args = ["node", "drain", "a1", "--yes", "--set", &nodes.set.file];
    scene.caused("`seqsvr node drain a1`");
    let mut drain = nodes.set.place.server("drain", &args);
    scene.may_say("a drain", 0, &[OK, "a1 is draining"], "a1 is drained");
    scene.says("a drained allocator", 0, &[OK, "a1 is drained"]);
    assert_eq!(drain.wait_exit(), Some(0), "{}", drain.log());
    scene.caused("the drained allocator is stopped");
    assert_eq!(nodes.allocs[0].terminate(), Some(0));
    scene.says("a drained allocator that stopped", 0, &[OK, "a1 is drained"]);
    nodes.allocs[0] = nodes.set.alloc("a1");
    nodes.cli(&["health", "--wait-s", "60"]);
    scene.ended();
    nodes.cli(&["node", "undrain", "a1"]);
    scene.over(&[OK]);

    scene.caused("`seqsvr section balance --pause`");
    nodes.cli(&["section", "balance", "--pause"]);
    scene.says("balancing is paused", 0, &[OK, "balancing is paused"]);
    scene.ended();
    nodes.cli(&["section", "balance", "--resume"]);
    scene.over(&[OK]);

    scene.caused("store 3 is started again from another build");
    nodes.stores[2].terminate();
    let other = other_build(nodes.set.place);
    nodes.stores[2] = nodes.set.store_of(&other, 3, &[]);
    scene.says("two builds", 0, &[OK, "different releases"]);
    scene.ended();
    nodes.stores[2].terminate();
    nodes.start_store(2);
    scene.over(&[OK]);
}

fn disks(scene: &mut Scene<'_>, disk: &Disk) {
    let file = disk.0.join("other");
    let space = rustix::fs::statvfs(&disk.0).unwrap();
    let left = usize::try_from(space.f_bavail * space.f_frsize).unwrap();
    scene.caused("5 MiB of 64 are left on the disk of store 3");
    fs::write(&file, vec![7; left - (5 << 20)]).unwrap();
    scene.says("a disk is low", 0, &[OK, "disk of s3 is low"]);
    scene.ended();
    fs::remove_file(&file).unwrap();
    scene.over(&[OK]);
}

/// Steps the clock of a2.
fn clocks(scene: &mut Scene<'_>, nodes: &mut Nodes<'_>) {
    let place = nodes.set.place;
    let Some(clock) = WrongClock::new(place) else { return };
    nodes.allocs[1].terminate();
    let args = ["alloc", "--set", &nodes.set.file, "--name", "a2", "--cores", "1"];
    nodes.allocs[1] = clock.server(place, "n-a2", &args);
    scene.well(&[OK]);
    scene.caused("the clock of a2 steps an hour ahead");
    clock.step(3_600);
    scene.says("a clock is wrong", 0, &[OK, "clock of a2 is 60 min ahead"]);
    scene.ended();
    clock.step(0);
    scene.over(&[OK]);
    nodes.allocs[1].terminate();
    nodes.allocs[1] = nodes.set.alloc("a2");
    scene.well(&[OK]);
}

/// Stages wrong addresses.
fn addresses(scene: &mut Scene<'_>) {
    let host = scene.place.host;
    let cases: [(&str, &str, Vec<String>, i32, &str); 4] = [
        ("nothing listens", "`--addr` names a closed port", vec![format!("http://{host}:1")], 4, "no node responds"),
        (
            "an unknown address next to a known address",
            "`--addr` names a closed port, and a store",
            vec![format!("http://{host}:1"), format!("http://{host}:7301")],
            3,
            "which no set lists",
        ),
        (
            "the wrong port",
            "`--addr` names a port for metrics",
            vec![format!("http://{host}:7311")],
            2,
            "is a port for",
        ),
        (
            "no certificates",
            "`--addr https://` of a set without TLS",
            vec![format!("https://{host}:7301")],
            2,
            "ca.crt: cannot be read",
        ),
    ];
    let place = scene.place;
    for (condition, cause, addrs, code, words) in cases {
        let args: Vec<&str> = addrs.iter().flat_map(|addr| ["--addr", addr]).collect();
        let mut scene = Scene::new(scene.table, place, &args);
        scene.caused(cause);
        scene.says(condition, code, &[words]);
    }
}

fn majorities(scene: &mut Scene<'_>, nodes: &mut Nodes<'_>) {
    scene.caused("two stores are killed");
    (1..3).for_each(|index| nodes.stores[index].kill());
    scene.says("no majority", 3, &["NO QUORUM", "leases end in", "start s2, s3 again"]);
    scene.says("the leases have ended", 3, &["NO QUORUM", "every call is refused"]);
    scene.ended();
    (1..3).for_each(|index| nodes.start_store(index));
    scene.over(&[OK]);
    scene.caused("the stores were away for seconds");
    scene.says("leases expired lately", 0, &[OK, "leases expired in the last 10 minutes"]);

    scene.caused("all stores are killed");
    (0..3).for_each(|index| nodes.stores[index].kill());
    scene.says("no store responds", 3, &["NO QUORUM: no store responds", "start its stores again"]);
    scene.ended();
    (0..3).for_each(|index| nodes.start_store(index));
    scene.over(&[OK]);

    // No process dials these ports, as behind a firewall.
    let (place, mut text) = (nodes.set.place, fs::read_to_string(&nodes.set.file).unwrap());
    for id in 1..=3 {
        let named = format!("name = \"s{id}\"");
        text = text.replacen(&named, &format!("{named}\nlisten = {{ raft = \"{}:1730{id}\" }}", place.host), 1);
    }
    let apart = place.path("apart.toml");
    fs::write(&apart, text).unwrap();
    let apart = Set { place, file: apart.display().to_string(), dirs: nodes.set.dirs };
    (0..3).for_each(|index| nodes.stores[index].kill());
    scene.caused("all stores start again, and do not reach each other's ports for Raft");
    nodes.stores = apart.stores();
    scene.says("an election", 3, &["ELECTION: 3 of 3 voters respond"]);
    scene.says("no leader for ten seconds", 3, &["NO QUORUM: 3 of 3 voters respond"]);
    scene.ended();
    (0..3).for_each(|index| {
        nodes.stores[index].kill();
        nodes.start_store(index);
    });
    scene.over(&[OK]);
}

/// Stages a set that moved to another address, a copy of it, and another set with its name.
pub(super) fn copies(table: &mut Table) {
    let place = Place::new();
    let [first, second, third, fourth] = place.host.octets();
    let elsewhere = std::net::Ipv4Addr::new(first, second + 64, third, fourth).to_string();
    let file = place.set_file("three-node.toml");
    let text = fs::read_to_string(&file).unwrap();
    let old = Set { place: &place, file: file.display().to_string(), dirs: "a" };
    let moved = place.path("moved.toml");
    fs::write(&moved, text.replace(&place.host.to_string(), &elsewhere)).unwrap();
    let new = Set { place: &place, file: moved.display().to_string(), dirs: "a" };
    let addr = format!("http://{elsewhere}:7301");
    let mut scene = Scene::new(table, &place, &["--set", &old.file]);
    let (mut stores, mut allocs) = (old.stores(), ["a1", "a2"].map(|name| old.alloc(name)));
    scene.ended();
    scene.well(&[OK]);
    stores.iter_mut().chain(&mut allocs).for_each(|server| assert_eq!(server.terminate(), Some(0)));
    for id in 1..=3 {
        copy(&place.path(&format!("a-s{id}")), &place.path(&format!("copy-s{id}")));
    }
    scene.args.extend(["--addr".to_owned(), addr]);
    scene.caused("the set is started at other addresses; `--set` names the old file, `--addr` a new address");
    let (_stores, _allocs) = (new.stores(), ["a1", "a2"].map(|name| new.alloc(name)));
    scene.says("a set that moved", 0, &[OK]);

    scene.caused("copies of the stores run at the old addresses");
    let copied = Set { place: &place, file: old.file.clone(), dirs: "copy" };
    let running = copied.stores();
    scene.says("a copy runs", 3, &["CLONED: one store responds as two processes"]);
    scene.ended();
    drop(running);
    scene.over(&[OK]);

    scene.caused("a new set of the same file runs at the old addresses");
    let namesake = Set { place: &place, file: old.file.clone(), dirs: "b" };
    let _running = namesake.stores();
    scene.says("two sets have one name", 3, &["CLONED: sets with several ids"]);
}
