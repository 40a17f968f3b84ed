//! Staged faults of real processes, each of which `seqsvr status`, `seqsvr top --once` or the overview of the console
//! names alone within a minute, with a rule of the attention list and a sentence.
//!
//! The test prints a table: `fault  named by  sentence  seconds`. A fault that is not named within [`LIMIT`] fails it.
//! Faults that this machine cannot make are left out with a line, except under `CI`. `status_table` measures more
//! conditions of `status`, in minutes.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use seq_testkit::{eventually, eventually_within};
use serde_json::Value;

use crate::alerts::disks::{end_tracers, slow_syncs_of};
use crate::backup_disk::Disk;
use crate::browser::Console;
use crate::cluster::{Place, Server};
use crate::dev::get;
use crate::expiry;
use crate::two_sets::TwoSets;
use crate::verdicts::{Nodes, Pair, Set, other_build};
use crate::wrong_clock::WrongClock;

/// Time within which each fault has to be named.
const LIMIT: Duration = Duration::from_secs(60);

/// Group of the allocator that is cut off, which no other process has.
const GROUP: &str = "31416";

/// The place where an operator looks.
#[derive(Clone, Copy)]
enum Surface<'a> {
    Status(&'a Place, &'a [&'a str]),
    Top(&'a Place, &'a [&'a str]),
    /// The overview of the console at this `host:port`.
    Console(&'a str),
}

impl Surface<'_> {
    fn name(&self) -> &'static str {
        match self {
            Surface::Status(..) => "status",
            Surface::Top(..) => "top --once",
            Surface::Console(_) => "console",
        }
    }

    /// Returns the sentence with these words under this rule, if the surface has it.
    fn sentence(&self, rule: &str, words: &str) -> Option<String> {
        match self {
            Surface::Status(place, args) => listed(place, &["status"], args, rule, words),
            Surface::Top(place, args) => listed(place, &["top", "--once"], args, rule, words),
            // The list has the sentences, and not the names of the rules. Events elsewhere on the page have the same
            // words.
            Surface::Console(addr) => {
                let page = get(addr, "/");
                let (list, _) = page.split_once("data-region=\"attention\"")?.1.split_once("</ol>")?;
                let text = list.split(['<', '>']).find(|text| text.contains(words))?;
                Some(text.trim_start_matches(['✕', '▲', '○', ' ']).to_owned())
            }
        }
    }
}

fn listed(place: &Place, command: &[&str], args: &[&str], rule: &str, words: &str) -> Option<String> {
    let output = place.seqsvr(&[command, args, &["-o", "json"]].concat());
    let page: Value = serde_json::from_slice(&output.stdout).ok()?;
    let found = page["attention"]
        .as_array()?
        .iter()
        .find(|one| one["rule"] == rule && one["sentence"].as_str().is_some_and(|sentence| sentence.contains(words)))?;
    assert!(found["runbook"].as_str().is_some_and(|page| page.contains('#')), "{found:#}");
    Some(found["sentence"].as_str().unwrap().to_owned())
}

/// A fault that was named.
struct Row {
    fault: &'static str,
    named_by: &'static str,
    rule: &'static str,
    sentence: String,
    after: Duration,
}

/// The faults so far.
#[derive(Default)]
struct Table(Vec<Row>);

impl Table {
    /// Stages a fault, and waits until the surface names it under this rule with these words.
    fn named(
        &mut self,
        fault: &'static str,
        surface: Surface<'_>,
        (rule, words): (&'static str, &str),
        stage: impl FnOnce(),
    ) {
        eventually(&format!("{rule} is not listed before: {fault}"), || {
            surface.sentence(rule, words).is_none().then_some(())
        });
        let since = Instant::now();
        stage();
        let sentence =
            eventually_within(LIMIT, &format!("{} names: {fault}", surface.name()), || surface.sentence(rule, words));
        let after = since.elapsed();
        println!("{fault}: {} after {:.1} s: {sentence}", surface.name(), after.as_secs_f64());
        assert!(after < LIMIT, "{fault} was named after {after:?}");
        self.0.push(Row { fault, named_by: surface.name(), rule, sentence, after });
    }

    fn print(&self) {
        println!("\n| fault | named by | rule | sentence | seconds |\n|---|---|---|---|---|");
        for Row { fault, named_by, rule, sentence, after } in &self.0 {
            println!("| {fault} | {named_by} | {rule} | {sentence} | {:.1} |", after.as_secs_f64());
        }
    }
}

/// A rule of the packet filter: connections of the processes of [`GROUP`] to stores get no response.
struct Cut {
    rule: Vec<String>,
}

impl Cut {
    /// Cuts the processes off; `None` if this process may not, which fails under `CI`.
    fn new(place: &Place) -> Option<Cut> {
        let host = place.host.to_string();
        let rule = ["OUTPUT", "-p", "tcp", "-d", &host, "--dport", "7301:7303", "-m", "owner", "--gid-owner", GROUP];
        let cut = Cut { rule: rule.iter().chain(&["-j", "DROP"]).map(ToString::to_string).collect() };
        if rustix::process::geteuid().is_root() && cut.filter("-I") {
            return Some(cut);
        }
        assert!(std::env::var_os("CI").is_none(), "the packet filter takes no rule");
        eprintln!("skipped: it needs root and iptables to cut an allocator off");
        None
    }

    fn filter(&self, verb: &str) -> bool {
        let mut iptables = Command::new("iptables");
        iptables.args(["-w", verb]).args(&self.rule).stdout(Stdio::null()).stderr(Stdio::null());
        iptables.status().is_ok_and(|status| status.success())
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        self.filter("-D");
    }
}

/// A set of three stores and two allocators. a1 can be cut off, the clock of a2 can step, and store 3 has a small disk.
struct One<'a> {
    nodes: Nodes<'a>,
    clock: Option<&'a WrongClock>,
}

impl One<'_> {
    fn start_alloc(&mut self, index: usize, more: &[&str]) {
        self.nodes.allocs[index] = self.alloc(index, more);
    }

    fn alloc(&self, index: usize, more: &[&str]) -> Server {
        let name = ["a1", "a2"][index];
        let args = [&["alloc", "--set", &*self.nodes.set.file, "--name", name, "--cores", "1"], more].concat();
        let place = self.nodes.set.place;
        match (index, self.clock) {
            (1, Some(clock)) => clock.server(place, "n-a2", &args),
            (0, _) if rustix::process::geteuid().is_root() => {
                let group = ["--regid", GROUP, "--clear-groups", env!("CARGO_BIN_EXE_seqsvr")];
                place.server_of("setpriv".as_ref(), "n-a1", &[&group[..], &args].concat())
            }
            _ => place.server(&format!("n-{name}"), &args),
        }
    }

    /// Waits until the set is well and both allocators own sections.
    fn well(&self) {
        let set = &self.nodes.set;
        eventually("the set is well", || {
            let list = set.place.seqsvr(&["node", "list", "--set", &set.file, "-o", "json"]);
            let list: Value = serde_json::from_slice(&list.stdout).ok()?;
            let nodes = list["nodes"].as_array()?;
            let serves = |node: &Value| node["state"] == "serves";
            let status = set.place.seqsvr(&["status", "--set", &set.file]);
            (status.status.success() && nodes.len() == 2 && nodes.iter().all(serves)).then_some(())
        });
    }
}

fn one_set(table: &mut Table) {
    let place = Place::new();
    let file = place.set_file("three-node.toml").display().to_string();
    let (disk, clock) = (Disk::mount(place.path("n-s3"), "size=64m,mode=700"), WrongClock::new(&place));
    let set = Set { place: &place, file: file.clone(), dirs: "n" };
    let stores = set.stores();
    let mut one = One { nodes: Nodes { set, stores, allocs: Vec::new() }, clock: clock.as_ref() };
    one.nodes.allocs = (0..2).map(|index| one.alloc(index, &[])).collect();
    one.well();
    let console = Console::start(&place, &["--set", &file]);
    let args = ["--set", &*file];
    let (status, top) = (Surface::Status(&place, &args), Surface::Top(&place, &args));
    let console = Surface::Console(console.origin.trim_start_matches("http://"));
    allocators(table, &mut one, (status, top, console));
    stores_of(table, &mut one, (status, top));
    if let Some(disk) = &disk {
        let space = rustix::fs::statvfs(&disk.0).unwrap();
        let left = usize::try_from(space.f_bavail * space.f_frsize).unwrap();
        table.named("a store's disk is nearly full", status, ("disk", "disk of s3 is low"), || {
            fs::write(disk.0.join("other"), vec![7; left - (5 << 20)]).unwrap();
        });
        fs::remove_file(disk.0.join("other")).unwrap();
    }
    if let Some(clock) = &clock {
        table.named("an allocator's clock steps an hour ahead", top, ("clock", "clock of a2 is 60 min ahead"), || {
            clock.step(3_600);
        });
        clock.step(0);
    }
    let program = other_build(&place);
    let is_other = ("releases", "different releases run");
    let s3 = &mut one.nodes.stores[2];
    assert_eq!(s3.terminate(), Some(0), "{}", s3.log());
    table.named("a store is started from another build", top, is_other, || {
        one.nodes.stores[2] = one.nodes.set.store_of(&program, 3, &[]);
    });
    // Processes end before their disks.
    drop(one);
}

fn allocators(table: &mut Table, one: &mut One<'_>, (status, top, console): (Surface<'_>, Surface<'_>, Surface<'_>)) {
    let silent = ("silent allocators", "no response of allocator a1");
    table.named("an allocator is killed", top, silent, || one.nodes.allocs[0].kill());
    one.start_alloc(0, &[]);
    one.well();
    table.named("an allocator is stopped (SIGSTOP)", console, silent, || one.nodes.allocs[0].freeze());
    one.nodes.allocs[0].thaw();
    one.well();
    let mut cut = None;
    if Cut::new(one.nodes.set.place).is_some() {
        table.named("an allocator is cut off from all stores", status, ("no lease", "without a lease: a1"), || {
            cut = Cut::new(one.nodes.set.place);
        });
    }
    drop(cut);
    one.well();
    table.named("a drained allocator is forgotten", console, ("drained", "a1 is drained"), || {
        one.nodes.cli(&["node", "drain", "a1", "--yes"]);
    });
    one.nodes.cli(&["node", "undrain", "a1"]);
    table.named("balancing stays paused", status, ("balancing", "balancing is paused"), || {
        one.nodes.cli(&["section", "balance", "--pause"]);
    });
    one.nodes.cli(&["section", "balance", "--resume"]);
    let other = one.nodes.set.place.path("other-settings.toml");
    fs::write(&other, "[alloc]\nmax_advance = 5_000_000\n").unwrap();
    one.nodes.allocs[1].terminate();
    let differ = ("settings", "the allocators a1, a2 have different settings");
    table.named("an allocator has other settings", console, differ, || {
        one.start_alloc(1, &["--config", &other.display().to_string()]);
    });
    one.nodes.allocs[1].terminate();
    one.start_alloc(1, &[]);
    one.well();
}

/// Returns whether the system calls of a process can be delayed, which fails under `CI`.
fn is_traceable() -> bool {
    let trace = Command::new("strace").args(["-o", "/dev/null", "true"]).stderr(Stdio::null()).status();
    let is_traceable = trace.is_ok_and(|status| status.success());
    assert!(is_traceable || std::env::var_os("CI").is_none(), "strace traces no process");
    if !is_traceable {
        eprintln!("skipped: it needs strace to slow a disk down");
    }
    is_traceable
}

fn stores_of(table: &mut Table, one: &mut One<'_>, (status, top): (Surface<'_>, Surface<'_>)) {
    let follower = (one.nodes.leader() + 1) % 3;
    let silent = |index: usize| format!("no response of store s{}", index + 1);
    table
        .named("a store is killed", status, ("silent stores", &silent(follower)), || one.nodes.stores[follower].kill());
    one.nodes.start_store(follower);
    one.well();
    let leader = one.nodes.leader();
    let mut tracers = Vec::new();
    if is_traceable() {
        let slow = ("slow disk", &*format!("disk of s{} is slow", follower + 1));
        table.named("every sync of a store takes 0.12 s longer", status, slow, || {
            tracers.push(slow_syncs_of(&one.nodes.stores[follower]).unwrap());
        });
    }
    end_tracers(tracers);
    table.named("the leading store is frozen", top, ("silent stores", &silent(leader)), || {
        one.nodes.stores[leader].freeze()
    });
    one.nodes.stores[leader].thaw();
    one.well();
    let lost = ("no majority responds", "1 of 3 voters responds");
    table.named("two stores of three are killed", status, lost, || {
        one.nodes.stores[..2].iter_mut().for_each(Server::kill);
    });
    (0..2).for_each(|index| one.nodes.start_store(index));
    one.well();
}

fn certificates(table: &mut Table) {
    let cluster = expiry::cluster();
    let args = ["--set", &*cluster.set];
    let expires = ("certificates", "certificate expires soon: s1 (in 4 days)");
    table.named("certificates end in five days", Surface::Status(&cluster.place, &args), expires, || {
        let rotated = cluster.place.seqsvr(&["cert", "rotate", "--days", "5"]);
        assert!(rotated.status.success(), "{}", String::from_utf8_lossy(&rotated.stderr));
    });
}

fn two_sets(table: &mut Table) {
    let pair = Pair(TwoSets::new(10_000_000));
    let [_first, mut second] = pair.0.start();
    let addr = pair.0.addr(7301);
    let args = ["--addr", &*addr];
    let (status, top) = (Surface::Status(&pair.0.place, &args), Surface::Top(&pair.0.place, &args));
    eventually("both sets are well", || {
        pair.0.place.seqsvr(&["status", "--addr", &addr]).status.success().then_some(())
    });
    let id = pair.migrate("0..50", "1");
    let paused = format!("migration {id} to im-b is paused");
    table.named("a migration is paused and forgotten", top, ("paused migration", &paused), || {
        pair.0.cli(&["migration", "pause", &id]);
    });
    pair.0.cli(&["migration", "resume", &id, "--rate", "1"]);
    let stuck = format!("migration {id} to im-b does not move");
    table.named("the target of a migration has no allocator", status, ("stuck migration", &stuck), || {
        second.allocs.iter_mut().for_each(Server::kill);
    });
}

#[test]
fn each_staged_fault_is_named_within_a_minute_by_one_of_three_surfaces() {
    let mut table = Table::default();
    one_set(&mut table);
    certificates(&mut table);
    two_sets(&mut table);
    table.print();
    assert!(table.0.len() >= 10, "this machine made {} faults", table.0.len());
}
