//! The conditions of `seqsvr status` with real processes: each condition is staged, named, and ended.
//!
//! Short conditions, such as an election, are rows of the table in `status_table`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use seq_testkit::eventually;
use serde_json::Value;

use crate::cluster::{Place, Server};
use crate::two_sets::{STORES, TwoSets};

/// The exit code and the page of a status.
struct Shown {
    code: Option<i32>,
    page: Value,
}

impl Shown {
    fn of(place: &Place, args: &[&str]) -> Option<Shown> {
        let output = place.seqsvr(&[&["status", "-o", "json", "--timeout", "500ms"], args].concat());
        let page: Value = serde_json::from_slice(&output.stdout).ok()?;
        // If no node responds, the page is an error.
        page["sets"].is_array().then_some(Shown { code: output.status.code(), page })
    }

    fn set(&self, name: &str) -> &Value {
        let sets = self.page["sets"].as_array().unwrap();
        sets.iter().find(|set| set["name"] == name).unwrap_or(&Value::Null)
    }

    fn is(&self, name: &str, condition: &str) -> bool {
        self.set(name)["condition"] == condition
    }

    fn says(&self, name: &str, words: &str) -> bool {
        self.set(name)["verdict"].as_str().is_some_and(|verdict| verdict.contains(words))
    }
}

/// Waits for a status for which a condition holds.
fn shown(place: &Place, what: &str, args: &[&str], holds: impl Fn(&Shown) -> bool) -> Shown {
    let mut last = None;
    let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        eventually(what, || {
            let shown = Shown::of(place, args)?;
            if holds(&shown) {
                return Some(shown);
            }
            last = Some(shown.page);
            None
        })
    }));
    found.unwrap_or_else(|_| panic!("{what}: {last:#?}"))
}

/// Two sets of one cluster, as a status from the first set's store shows them.
pub(crate) struct Pair(pub(crate) TwoSets);

impl Pair {
    fn wait(&self, what: &str, holds: impl Fn(&Shown) -> bool) -> Shown {
        shown(&self.0.place, what, &["--addr", &self.0.addr(7301)], holds)
    }

    fn wait_well(&self) {
        let both = |shown: &Shown| shown.code == Some(0) && shown.is("im-a", "ok") && shown.is("im-b", "ok");
        self.wait("both sets are well", both);
    }

    /// Returns the migrations of responding sets: the command fails for a set without a majority, and still lists the
    /// others' migrations.
    pub(crate) fn migrations(&self) -> Vec<Value> {
        let output = self.0.place.seqsvr(&["migration", "list", "--addr", &self.0.addr(7301), "-o", "json"]);
        let page: Value = serde_json::from_slice(&output.stdout).unwrap();
        page["items"].as_array().unwrap().clone()
    }

    /// Starts a migration into the second set; returns its id.
    pub(crate) fn migrate(&self, sections: &str, rate: &str) -> String {
        let args = ["set", "migrate", "im-a", "--sections", sections, "--into", "im-b", "--rate", rate, "--yes"];
        self.0.run(&args)["migration"]["id"].as_str().unwrap().to_owned()
    }

    /// Runs a migration to its end at full speed, and completes it.
    pub(crate) fn complete(&self, id: &str) {
        self.0.cli(&["migration", "resume", id, "--rate", "1000"]);
        eventually("all have arrived", || {
            let moved = self.migrations().into_iter().find(|one| one["id"] == *id)?;
            (moved["phase"] == "arrived").then_some(())
        });
        self.0.cli(&["migration", "complete", id, "--yes"]);
    }

    /// Migrates ten sections from `first` on, and freezes the followers of the target's leader, so that no arrival of a
    /// departed section is committed; then freezes the leader. Returns the migration. In most runs, sections are then
    /// in transit.
    pub(crate) fn freeze_on_the_way(&self, stores: &[Server], first: u64) -> String {
        let members = self.0.place.seqsvr_json(&["store", "members", "--addr", &self.0.addr(7321)]);
        let leader = members["leader"].as_u64().unwrap();
        let id = self.migrate(&format!("{first}..{}", first + 10), "10");
        let count = |name: &str| self.migrations().last().unwrap()[name].as_u64().unwrap();
        eventually("sections depart", || (count("departed") > 0).then_some(()));
        STORES.iter().zip(stores).filter(|(id, _)| **id != leader).for_each(|(_, store)| store.freeze());
        (0..10).any(|_| count("departed") > count("arrived"));
        stores.iter().for_each(Server::freeze);
        id
    }
}

#[test]
fn two_sets_in_many_conditions() {
    let pair = Pair(TwoSets::new(10_000_000));
    let sets = &pair.0;
    let file = sets.file("a").display().to_string();
    let (mut first, _allocs) = (sets.stores("a", "a"), sets.allocs("a"));
    let (mut stores, mut allocs) = (sets.stores("b", "b"), sets.allocs("b"));
    let undefined = shown(&sets.place, "no set", &["--set", &file], |shown| shown.is("im-a", "no set is defined"));
    assert!(undefined.code == Some(3) && undefined.says("im-a", "next: `seqsvr set init --set FILE`"));

    let dir = sets.place.path("sets/two").display().to_string();
    eventually("the sets are defined", || {
        sets.place.seqsvr(&["set", "apply", &dir, "--yes"]).status.success().then_some(())
    });
    sets.wait_known();
    pair.wait_well();
    let unknown = format!("http://{}:1", sets.place.host);
    let output = sets.place.seqsvr(&["status", "--addr", &sets.addr(7301), "--addr", &unknown]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(text.contains("im-b: ok") && text.contains("\nunknown: no response from"), "no set is blamed: {text}");

    sections_that_do_not_arrive(&pair, &stores);
    allocators_that_are_dead(&pair, &mut allocs);

    a_closed_set(&pair, &mut stores, &mut allocs);
    stores_that_are_lost(&pair, &mut first);
}

/// Freezes the target's stores while sections are in transit to it.
fn sections_that_do_not_arrive(pair: &Pair, stores: &[Server]) {
    let mut sections = (0..90).step_by(10);
    let delayed = eventually("sections are on their way", || {
        let id = pair.freeze_on_the_way(stores, sections.next().expect("one of nine migrations is on its way"));
        let looks = (0..5).map(|_| Shown::of(&pair.0.place, &["--addr", &pair.0.addr(7301)]));
        let delayed = looks.flatten().find(|shown| shown.is("im-a", "sections do not arrive"));
        stores.iter().for_each(Server::thaw);
        pair.complete(&id);
        delayed
    });
    assert_eq!((delayed.code, &delayed.set("im-a")["state"]), (Some(3), &"unserved".into()));
    assert!(delayed.says("im-a", "departed to another set and ha"), "{:#}", delayed.page);
    assert!(delayed.set("im-a")["sections_delayed"].as_u64() > Some(0) && delayed.is("im-b", "no store responds"));
    pair.wait_well();
}

/// Kills the allocators of the target, while its stores are healthy and a migration into it is open.
fn allocators_that_are_dead(pair: &Pair, allocs: &mut Vec<Server>) {
    let id = pair.migrate("90..100", "1");
    eventually("a section has arrived", || (pair.migrations().last()?["arrived"].as_u64()? > 0).then_some(()));
    allocs.iter_mut().for_each(Server::kill);
    let args = ["set", "migrate", "im-a", "--all", "--into", "im-b", "--dry-run", "-o", "json"];
    let planned = pair.0.place.seqsvr(&[&args[..], &["--addr", &pair.0.addr(7301)]].concat());
    let planned: Value = serde_json::from_slice(&planned.stdout).unwrap();
    let warned =
        planned["target_allocs_leased"] == 0 || planned["problems"].as_array().is_some_and(|list| !list.is_empty());
    assert!(warned, "the plan counts allocators that live: {planned:#}");
    let dead = pair.wait("the allocators are dead", |shown| shown.is("im-b", "no allocator responds"));
    assert!(dead.code == Some(3) && dead.set("im-b")["stores"] == 3, "{:#}", dead.page);
    assert!(dead.says("im-b", "3 of 3 voters respond") && dead.says("im-b", "next: start a1, a2 again"));
    let stuck = |shown: &Shown| shown.set("im-a")["migrations"][0]["stuck"].as_str().is_some_and(|why| !why.is_empty());
    let stuck = pair.wait("the migration is stuck", stuck);
    assert_eq!(stuck.set("im-a")["migrations"][0]["id"], *id);
    let noted = eventually("the stuck migration is an event", || {
        let args = ["events", "list", "--kind", "migration_stuck", "-o", "json", "--addr", &pair.0.addr(7301)];
        let events: Value = serde_json::from_slice(&pair.0.place.seqsvr(&args).stdout).ok()?;
        events["items"].as_array()?.iter().find(|event| event["migration"] == *id).cloned()
    });
    assert!(noted["severity"] == "attention" && !noted["detail"].as_str().unwrap().is_empty(), "{noted:#}");
    let listed = pair.migrations().pop().unwrap();
    assert!(
        listed["started"].as_str().is_some_and(|at| at.ends_with('Z')) && listed.get("ended").is_none(),
        "{listed:#}"
    );
    let text = pair.0.place.seqsvr(&["status", "--addr", &pair.0.addr(7301)]).stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains(&format!("im-a: migration {id} to im-b: ")) && text.contains("  stuck: "), "{text}");
    allocs.clear();
    allocs.extend(pair.0.allocs("b"));
    pair.complete(&id);
    pair.wait_well();
}

/// Merges and closes the set, and then ends its processes.
fn a_closed_set(pair: &Pair, stores: &mut [Server], allocs: &mut [Server]) {
    let sets = &pair.0;
    sets.cli(&["set", "merge", "im-b", "--into", "im-a", "--yes"]);
    let closed = |shown: &Shown| shown.code == Some(0) && shown.is("im-b", "closed");
    pair.wait("the set is closed", closed);
    eventually("the other set knows it", || {
        let list = sets.place.seqsvr_json(&["set", "list", "--addr", &sets.addr(7301)]);
        list["items"].as_array()?.iter().any(|set| set["state"] == "closed").then_some(())
    });
    stores.iter_mut().chain(allocs).for_each(Server::kill);
    pair.wait("the closed set is gone", closed);
    let addrs = [sets.addr(7301), sets.addr(7321)];
    let named = ["--addr", &addrs[0], "--addr", &addrs[1]];
    shown(&sets.place, "its address is no fault", &named, closed);
    let list = sets.place.seqsvr(&["migration", "list", "--addr", &addrs[0]]);
    let stderr = String::from_utf8(list.stderr).unwrap();
    assert!(list.status.success() && stderr.is_empty(), "nothing of a closed set is missing: {stderr}");
    let first = &pair.migrations()[0];
    assert!(first["phase"] == "completed" && first["ended"].as_str() >= first["started"].as_str(), "{first:#}");
    let set = sets.run(&["set", "show", "im-b"]);
    assert_eq!((&set["state"], &set["sections"]), (&"closed".into(), &0.into()));
}

/// Kills two stores of the first set, and then the third.
fn stores_that_are_lost(pair: &Pair, stores: &mut [Server]) {
    stores[1..].iter_mut().for_each(Server::kill);
    let lost = pair.wait("two stores are lost", |shown| shown.is("im-a", "no majority responds"));
    assert!(lost.says("im-a", "1 of 3 voters responds") && lost.says("im-a", "if their disks are lost"));
    assert!(lost.code == Some(3) && lost.is("im-b", "closed"), "{:#}", lost.page);
    stores[0].kill();
    let args = ["--addr", &pair.0.addr(7400)];
    let gone = shown(&pair.0.place, "all are lost", &args, |shown| shown.is("im-a", "no store responds"));
    assert!(gone.says("im-a", "start its stores again: ") && gone.says("im-a", ":7301"), "{:#}", gone.page);
}

/// A set of three stores and two allocators, with its own file and directories.
pub(crate) struct Set<'a> {
    pub(crate) place: &'a Place,
    pub(crate) file: String,
    pub(crate) dirs: &'a str,
}

impl Set<'_> {
    pub(crate) fn stores(&self) -> Vec<Server> {
        (1..=3).map(|id| self.store(id, &[])).collect()
    }

    pub(crate) fn store(&self, id: u64, more: &[&str]) -> Server {
        self.store_of(env!("CARGO_BIN_EXE_seqsvr").as_ref(), id, more)
    }

    /// Starts a store of another program.
    pub(crate) fn store_of(&self, program: &Path, id: u64, more: &[&str]) -> Server {
        let (name, id) = (format!("{}-s{id}", self.dirs), id.to_string());
        let data = self.place.path(&name).display().to_string();
        let args = [&["store", "--set", &self.file, "--id", &id, "--data", &data], more].concat();
        self.place.server_of(program, &name, &args)
    }

    pub(crate) fn alloc(&self, name: &str) -> Server {
        let args = ["alloc", "--set", &self.file, "--name", name, "--cores", "1"];
        self.place.server(&format!("{}-{name}", self.dirs), &args)
    }
}

/// A set and its processes.
pub(crate) struct Nodes<'a> {
    pub(crate) set: Set<'a>,
    /// Stores 1, 2 and 3.
    pub(crate) stores: Vec<Server>,
    /// Allocators a1 and a2.
    pub(crate) allocs: Vec<Server>,
}

impl Nodes<'_> {
    pub(crate) fn cli(&self, args: &[&str]) {
        let output = self.set.place.seqsvr(&[args, &["--set", &self.set.file]].concat());
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Returns the index of the leader.
    pub(crate) fn leader(&self) -> usize {
        let members = self.set.place.seqsvr_json(&["store", "members", "--set", &self.set.file]);
        usize::try_from(members["leader"].as_u64().unwrap()).unwrap() - 1
    }

    /// Starts a store that has ended.
    pub(crate) fn start_store(&mut self, index: usize) {
        self.stores[index] = self.set.store(index as u64 + 1, &[]);
    }
}

pub(crate) fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").args(["-a".as_ref(), from, to]).status().unwrap().success());
}

/// Copies the program and changes its revision.
pub(crate) fn other_build(place: &Place) -> PathBuf {
    let version = place.seqsvr_json(&["version"]);
    let revision = version["revision"].as_str().unwrap().as_bytes().to_vec();
    let mut program = fs::read(env!("CARGO_BIN_EXE_seqsvr")).unwrap();
    let found: Vec<usize> =
        (0..program.len() - revision.len()).filter(|at| program[*at..].starts_with(&revision)).collect();
    for at in found {
        program[at..at + revision.len()].fill(b'0');
    }
    let path = place.path("seqsvr-other");
    fs::copy(env!("CARGO_BIN_EXE_seqsvr"), &path).unwrap();
    fs::write(&path, program).unwrap();
    path
}

#[test]
fn a_set_that_moved_is_well_and_a_copy_beside_it_is_not() {
    let (place, elsewhere) = (Place::new(), Place::new().host.to_string());
    let file = place.set_file("three-node.toml");
    let text = fs::read_to_string(&file).unwrap();
    let set = Set { place: &place, file: file.display().to_string(), dirs: "a" };
    let (mut stores, mut a1) = (set.stores(), set.alloc("a1"));
    let missing = shown(&place, "an allocator was never started", &["--set", &set.file], |shown| {
        shown.set("im-a")["sections_served"] == 100 && shown.is("im-a", "degraded")
    });
    assert!(missing.says("im-a", "no response of allocator a2 (") && missing.code == Some(3), "{:#}", missing.page);
    let mut a2 = set.alloc("a2");
    shown(&place, "all run", &["--set", &set.file], |shown| shown.code == Some(0) && shown.is("im-a", "ok"));
    for server in stores.iter_mut().chain([&mut a1, &mut a2]) {
        server.terminate();
    }
    for id in 1..=3 {
        copy(&place.path(&format!("a-s{id}")), &place.path(&format!("copy-s{id}")));
    }

    let file = place.path("moved.toml");
    fs::write(&file, text.replace(&place.host.to_string(), &elsewhere)).unwrap();
    let moved = Set { place: &place, file: file.display().to_string(), dirs: "a" };
    let (_stores, _allocs) = (moved.stores(), ["a1", "a2"].map(|name| moved.alloc(name)));
    let well = |shown: &Shown| shown.code == Some(0) && shown.is("im-a", "ok");
    shown(&place, "all run elsewhere", &["--set", &moved.file], well);
    let addr = format!("http://{elsewhere}:7301");
    let old = shown(&place, "the old file", &["--set", &set.file, "--addr", &addr], well);
    let states = old.page["unreachable"].as_array().unwrap().iter().map(|node| node["state"].clone());
    assert!(states.eq(["moved"; 5]), "{:#}", old.page);
    let members = place.seqsvr_json(&["store", "members", "--set", &moved.file]);
    assert!(members["members"].to_string().contains(&elsewhere), "{members:#}");

    let copied = Set { place: &place, file: set.file.clone(), dirs: "copy" };
    let _copy = copied.stores();
    let both = shown(&place, "a copy runs", &["--set", &set.file, "--addr", &addr], |shown| {
        shown.is("im-a", "two processes are one store")
    });
    assert!(both.code == Some(3) && both.says("im-a", "CLONED") && both.says("im-a", &elsewhere), "{:#}", both.page);
}
