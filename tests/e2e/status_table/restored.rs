//! Conditions of stores with changed disks: old directories, restores, and states that differ.

use std::fs;

use super::{Scene, Table};
use crate::cluster::{Place, Server, seqsvr_json};
use crate::two_sets::TwoSets;
use crate::verdicts::Set;
use crate::{differing, recover, restores};

pub(super) fn histories(table: &mut Table) {
    old_directories(table);
    other_restores(table);
    other_state(table);
    quarantine(table);
}

fn old_directories(table: &mut Table) {
    let set = recover::Set::small_steps();
    let stores = set.stores("first");
    let mut allocs = ["a1", "a2"].map(|name| set.alloc(name));
    let mut scene = Scene::new(table, &set.place, &["--set", &set.file]);
    scene.well(&["im-a: ok"]);
    scene.caused("old directories of all stores are put back");
    let _stores = set.put_back_old_directories(stores);
    scene.ended();
    scene.says("rolled back, as allocators saw", 3, &["ROLLED BACK: a1, a2 serve nothing"]);
    scene.caused("the allocators are started again");
    for (alloc, name) in allocs.iter_mut().zip(["a1", "a2"]) {
        alloc.kill();
        *alloc = set.alloc(name);
    }
    scene.says("rolled back, as the store has it", 3, &["ROLLED BACK", "committed entries of the store are gone"]);
}

fn other_restores(table: &mut Table) {
    let place = Place::new();
    let split = restores::restored_otherwise(&place);
    let mut scene = Scene::new(table, &place, &["--set", &split.file]);
    scene.caused("one store of three was restored under another set file, and all are started");
    let _stores = [1, 2, 3].map(|id| split.start(id));
    let _allocs =
        ["a1", "a2"].map(|name| place.server(name, &["alloc", "--set", &split.file, "--name", name, "--cores", "1"]));
    scene.says("stores were restored otherwise", 3, &["SPLIT: stores"]);
}

fn other_state(table: &mut Table) {
    let place = Place::new();
    let file = place.set_file("three-node.toml").display().to_string();
    let config = place.path("store.toml").display().to_string();
    fs::write(&config, differing::OFTEN).unwrap();
    // The directories that `differing::form` writes.
    let store = |id: u64| {
        let (name, id) = (format!("s{id}"), id.to_string());
        let data = place.path(&name).display().to_string();
        place.server(&name, &["store", "--set", &file, "--id", &id, "--data", &data, "--config", &config])
    };
    let set = Set { place: &place, file: file.clone(), dirs: "d" };
    let mut scene = Scene::new(table, &place, &["--set", &file]);
    let before: Vec<Server> = (1..=3).map(store).collect();
    let allocs = ["a1", "a2"].map(|name| set.alloc(name));
    scene.well(&["im-a: ok"]);
    let backup = place.path("set.backup").display().to_string();
    seqsvr_json(&["backup", "create", "--set", &file, "--out", &backup]);
    drop((before, allocs));
    (1..=3).for_each(|id| fs::remove_dir_all(place.path(&format!("s{id}"))).unwrap());
    differing::form(&place, &backup);
    scene.caused("store 3 has another ceiling than the others, which compare each second; all are started");
    let _stores: Vec<Server> = (1..=3).map(store).collect();
    let _allocs = ["a1", "a2"].map(|name| set.alloc(name));
    scene.says("states differ", 3, &["DIFFERS", "stores 1 and 2"]);
}

/// Restores a set while the other set of its cluster is down.
fn quarantine(table: &mut Table) {
    let sets = TwoSets::new(10_000_000);
    let [mut a, mut b] = sets.start();
    let (file, backup) = (sets.file("a").display().to_string(), restores::backup(&sets, "a", "a.backup"));
    let mut scene = Scene::new(table, &sets.place, &["--set", &file]);
    scene.well(&["im-a: ok"]);
    b.kill();
    a.kill();
    restores::restore(&sets, "a", (&backup, "a1"), &["--count", "1"]);
    scene.caused("a set is restored from its backup, and the other set of its cluster does not run");
    let (_stores, _allocs) = (sets.stores("a", "a1"), sets.allocs("a"));
    scene.says("a restored set waits", 3, &["QUARANTINED", "\"im-b\" has not responded"]);
    scene.ended();
    let _b = (sets.stores("b", "b"), sets.allocs("b"));
    scene.over(&["im-a: ok"]);
}
