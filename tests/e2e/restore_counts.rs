//! Restores in clusters of small sets, with one store and one allocator each: after a set was closed, of sets with
//! other leases, and from a backup that was recovered from an older backup. These sequences of steps used to allocate
//! seqs twice, or in the wrong order.

use std::fs;
use std::process::Output;

use seq_testkit::eventually;
use serde_json::Value;

use crate::cluster::{Place, Server, digits};

/// A user; a cluster has ten sections.
const UID: &str = "5";

/// Settings with which owners serve for longer without their store, and the store waits for as long. A set with the
/// default terms leaves its quarantine earlier.
const LONG_LEASES: &str = "[store]\nlease_wait_ms = 8000\n[alloc]\nlease_ms = 6000\n";

/// A cluster whose sections all begin in the first set.
struct SmallSets {
    place: Place,
    names: &'static [&'static str],
    /// Flags of the processes of the last set.
    of_last: Vec<String>,
}

/// The processes of a set.
struct Pair {
    store: Server,
    alloc: Server,
}

impl Pair {
    fn kill(&mut self) {
        self.store.kill();
        self.alloc.kill();
    }
}

impl SmallSets {
    fn new(names: &'static [&'static str]) -> SmallSets {
        let sets = SmallSets { place: Place::new(), names, of_last: Vec::new() };
        fs::create_dir(sets.place.path("sets")).unwrap();
        for (index, name) in names.iter().enumerate() {
            fs::write(sets.file(name), sets.text(name, sets.port(name), index == 0)).unwrap();
        }
        sets
    }

    /// Returns the text of the set file for a store at these ports.
    fn text(&self, name: &str, store: u16, is_first: bool) -> String {
        let (host, alloc) = (self.place.host, self.port(name) + 10);
        let genesis = if is_first { "init" } else { "create" };
        let cluster = match self.names.len() {
            1 => String::new(),
            _ => format!("cluster = \"small\"\ngenesis = \"{genesis}\"\n"),
        };
        format!(
            "name = \"{name}\"\n{cluster}uids = \"0..1_000_000\"\nsection_size = 100_000\nstep = 10_000\nplaintext = true\n\
             [[store]]\nid = 1\nname = \"s1\"\naddr = \"{host}:{store}\"\nraft = \"{host}:{}\"\nadmin = \"{host}:{}\"\n\
             http = \"{host}:{}\"\n[[alloc]]\nname = \"a1\"\naddr = \"{host}:{alloc}\"\npeer = \"{host}:{}\"\n\
             http = \"{host}:{}\"\n",
            store + 1,
            store + 2,
            store + 3,
            alloc + 1,
            alloc + 2
        )
    }

    fn port(&self, name: &str) -> u16 {
        7300 + 20 * self.names.iter().position(|one| *one == name).unwrap() as u16
    }

    fn file(&self, name: &str) -> String {
        self.place.path(&format!("sets/{name}.toml")).display().to_string()
    }

    /// Returns the address of a set's allocator.
    fn alloc_addr(&self, name: &str) -> String {
        format!("http://{}:{}", self.place.host, self.port(name) + 10)
    }

    fn start_all(&self) -> Vec<Pair> {
        let form = |name: &&str| Pair { store: self.store(name, "first", true), alloc: self.alloc(name) };
        let pairs: Vec<Pair> = self.names.iter().map(form).collect();
        if self.names.len() > 1 {
            let dir = self.place.path("sets").display().to_string();
            eventually("the sets are defined", || {
                self.place.seqsvr(&["set", "apply", &dir, "--yes"]).status.success().then_some(())
            });
        }
        self.next(self.names[0]);
        pairs
    }

    fn store(&self, name: &str, dir: &str, is_new: bool) -> Server {
        self.store_of_file(name, &self.file(name), dir, is_new)
    }

    fn store_of_file(&self, name: &str, file: &str, dir: &str, is_new: bool) -> Server {
        let data = self.data(name, dir);
        let mut args = vec!["store", "--set", file, "--id", "1", "--data", &data];
        args.extend(is_new.then_some("--form"));
        args.extend(self.flags(name));
        self.place.server(&format!("{name}-store"), &args)
    }

    fn alloc(&self, name: &str) -> Server {
        let file = self.file(name);
        let mut args = vec!["alloc", "--set", &file, "--name", "a1", "--cores", "1"];
        args.extend(self.flags(name));
        self.place.server(&format!("{name}-alloc"), &args)
    }

    fn flags(&self, name: &str) -> impl Iterator<Item = &str> {
        let is_last = self.names.last() == Some(&name);
        self.of_last.iter().filter(move |_| is_last).map(String::as_str)
    }

    fn data(&self, name: &str, dir: &str) -> String {
        self.place.path(&format!("{name}-{dir}")).display().to_string()
    }

    fn backup(&self, name: &str, out: &str) -> String {
        let out = self.place.path(out).display().to_string();
        self.place.seqsvr_json(&["backup", "create", "--set", &self.file(name), "--out", &out]);
        out
    }

    fn try_restore(&self, name: &str, backup: &str, dir: &str, more: &[&str]) -> Output {
        let (file, data) = (self.file(name), self.data(name, dir));
        let args = ["restore", "--from", backup, "--set", &file, "--id", "1", "--data", &data, "-o", "json", "--yes"];
        self.place.seqsvr(&[&args[..], more].concat())
    }

    /// Restores a set, and returns the count.
    fn restore(&self, name: &str, backup: &str, dir: &str, more: &[&str]) -> u64 {
        let output = self.try_restore(name, backup, dir, more);
        assert!(output.status.success(), "{}", text(&output));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["count"].as_u64().unwrap()
    }

    fn serves(&self, name: &str) {
        let file = self.file(name);
        eventually("the set is ok", || self.place.seqsvr(&["status", "--set", &file]).status.success().then_some(()));
    }

    /// Returns the next seq by the allocator of a set; `None` if the allocator refuses.
    fn try_next(&self, name: &str) -> Option<u64> {
        let args = ["next", UID, "--addr", &self.alloc_addr(name), "--deadline-ms", "1000", "-o", "json"];
        let output = self.place.seqsvr(&args);
        let response: Value = output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())?;
        Some(digits(&response["items"][0]["value"]))
    }

    fn next(&self, name: &str) -> u64 {
        eventually("a number is allocated", || self.try_next(name))
    }

    /// Migrates all sections of one set into another set.
    fn move_all(&self, from: &str, into: &str, more: &[&str]) {
        let addr = self.store_addr(from);
        let args = ["set", "merge", from, "--into", into, "--yes", "--timeout-s", "60", "--addr", &addr];
        let output = self.place.seqsvr(&[&args[..], more].concat());
        assert!(output.status.success(), "{}", text(&output));
    }

    /// Completes the migration that began in a set.
    fn complete(&self, from: &str) {
        let addr = self.store_addr(from);
        let list = self.place.seqsvr_json(&["migration", "list", "--addr", &addr]);
        let id = list["items"][0]["id"].as_str().unwrap();
        eventually("the migration is complete", || {
            let args = ["migration", "complete", id, "--yes", "--addr", &addr, "--timeout-s", "60"];
            self.place.seqsvr(&args).status.success().then_some(())
        });
    }

    fn store_addr(&self, name: &str) -> String {
        format!("http://{}:{}", self.place.host, self.port(name))
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Set b sends its sections to a; a is restored, sends them back and is closed; then b is restored from a backup older
/// than all these steps. Only the third set knows of them: it has the closed set's records and its count.
#[test]
fn a_set_is_restored_from_before_it_sent_sections_to_a_set_that_was_restored_and_closed() {
    let sets = SmallSets::new(&["b", "a", "z"]);
    let [mut b, mut a, _z] = <[Pair; 3]>::try_from(sets.start_all()).ok().unwrap();
    let of_b = sets.backup("b", "b.backup");
    sets.move_all("b", "a", &["--keep-open"]);
    let of_a = sets.backup("a", "a.backup");
    a.store.kill();
    assert_eq!(sets.restore("a", &of_a, "second", &[]), 1);
    a.store = sets.store("a", "second", false);
    // In the backup, the migration is open. Set a receives its completion during the quarantine or later.
    sets.complete("b");
    sets.serves("a");
    let mut last = sets.next("b");
    assert!(last > 1 << 40, "{last} is above the margin");
    eventually("the sections may migrate again", || {
        let args = ["set", "merge", "a", "--into", "b", "--dry-run", "--addr", &sets.store_addr("a")];
        sets.place.seqsvr(&args).status.success().then_some(())
    });
    sets.move_all("a", "b", &[]);
    for _ in 0..3 {
        let number = sets.next("b");
        assert!(number > last, "{number} after {last}");
        last = number;
    }

    a.kill();
    b.kill();
    let refused = sets.try_restore("b", &of_b, "second", &["--count", "1"]);
    assert!(text(&refused).contains("the count 1 was used before"), "{}", text(&refused));
    assert_eq!(sets.restore("b", &of_b, "second", &[]), 2, "set z has seen the restore of the closed set");
    b = Pair { store: sets.store("b", "second", false), alloc: sets.alloc("b") };
    sets.serves("b");
    let number = sets.next("b");
    assert!(number > last, "{number} after {last}");
    drop(b);
}

/// Both sets are restored from backups older than the migration, and an old owner continues under a lease of the target
/// set that no record names any more.
#[test]
fn a_quarantine_outlasts_the_leases_of_another_restored_set() {
    let mut sets = SmallSets::new(&["s", "t"]);
    let settings = sets.place.path("long.toml");
    fs::write(&settings, LONG_LEASES).unwrap();
    sets.of_last = vec!["--config".to_owned(), settings.display().to_string()];
    let [mut s, mut t] = <[Pair; 2]>::try_from(sets.start_all()).ok().unwrap();
    let (of_s, of_t) = (sets.backup("s", "s.backup"), sets.backup("t", "t.backup"));
    sets.move_all("s", "t", &["--keep-open"]);
    sets.complete("s");
    let before = sets.next("t");
    s.kill();
    t.store.kill();
    assert_eq!(sets.restore("s", &of_s, "second", &["--count", "1"]), 1);
    assert_eq!(sets.restore("t", &of_t, "second", &["--count", "2"]), 2);
    // The restored store of t has another address, so the old owner cannot be notified.
    let moved = sets.place.path("moved.toml");
    fs::write(&moved, sets.text("t", sets.port("t") + 5, false)).unwrap();
    t.store = sets.store_of_file("t", &moved.display().to_string(), "second", false);
    s = Pair { store: sets.store("s", "second", false), alloc: sets.alloc("s") };
    let mut of_owner = 0;
    let first = eventually("the restored set serves", || {
        of_owner = sets.try_next("t").unwrap_or(0).max(of_owner);
        sets.try_next("s")
    });
    assert!(of_owner > before, "the owner of before went on: {of_owner} after {before}");
    assert!(first > of_owner.max(1 << 40), "{first} after {of_owner}");
    for _ in 0..10 {
        // From here the owner refuses, or knows the restored set.
        let later = sets.try_next("t").unwrap_or(u64::MAX);
        assert!(later > first, "{later} after {first}");
    }
    drop((s, t));
}

/// A set is restored, lost again with its allocator, and recovered from the same backup.
#[test]
fn a_backup_that_is_recovered_from_an_older_one_keeps_the_count() {
    let sets = SmallSets::new(&["s"]);
    let [mut s] = <[Pair; 1]>::try_from(sets.start_all()).ok().unwrap();
    let backup = sets.backup("s", "old.backup");
    s.kill();
    assert_eq!(sets.restore("s", &backup, "second", &["--count", "1"]), 1);
    s = Pair { store: sets.store("s", "second", false), alloc: sets.alloc("s") };
    let last = sets.next("s");
    s.kill();
    let (file, out) = (sets.file("s"), sets.place.path("new.backup").display().to_string());
    let recover = |more: &[&str]| {
        let args = ["unsafe", "recover", "--set", &file, "--from", &backup, "--out", &out, "--confirm", "s"];
        sets.place.seqsvr(&[&args[..], more].concat())
    };
    for (more, expected) in [(&[][..], "pass --count 2"), (&["--count", "1"], "the count 1 was used before")] {
        let refused = recover(more);
        assert!(!refused.status.success() && text(&refused).contains(expected), "{}", text(&refused));
    }
    let recovered = recover(&["--count", "2"]);
    let printed = String::from_utf8_lossy(&recovered.stdout).into_owned();
    assert!(recovered.status.success() && printed.contains("--data DIR --count 2"), "{printed}{}", text(&recovered));
    // The count is also checked without the notes.
    fs::remove_file(sets.place.path("s.restores")).unwrap();
    let refused = sets.try_restore("s", &out, "third", &["--count", "1"]);
    assert!(!refused.status.success() && text(&refused).contains("counts 2 or more"), "{}", text(&refused));
    assert_eq!(sets.restore("s", &out, "third", &["--count", "2"]), 2);
    s = Pair { store: sets.store("s", "third", false), alloc: sets.alloc("s") };
    let number = sets.next("s");
    assert!(number > last, "{number} after {last}");
    drop(s);
}
