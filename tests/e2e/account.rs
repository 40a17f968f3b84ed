//! The account of a run with faults, to the number: two sets of real processes, many uids, and allocators that are
//! killed, drained and migrated from.
//!
//! For each uid, the last number is the sum of the numbers given, the numbers of lost responses, and the jumps; each
//! jump belongs to one event of the event log, or to one advance. For each section, the ceiling is the sum of the
//! raises that the stores applied. `seq_testkit::account` has the rules and the check; its tests show that the check
//! finds an error of one number, a missing event and a second event.
//!
//! The account is exact because one caller has each uid to itself: it repeats a call until it gets numbers, notes each
//! attempt whose outcome it does not know, and reads the uid at the end. `E2E_ACCOUNT_ROUNDS` repeats the faults.

mod load;
mod records;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use seq_testkit::account::{self, Account, Beginning, History};
use seq_testkit::eventually;

use crate::cluster::Server;
use crate::two_sets::{STORES, TwoSets};
use load::Load;
use records::Records;

/// Sections of the cluster, all of which begin in the first set.
const SECTIONS: u32 = 24;

/// Uids of a section.
const SECTION_SIZE: u64 = 100_000;

/// Step of the ceilings: small, so that raises are always in flight.
const STEP: u64 = 500;

/// Sections that migrate in one round, as long as there are enough.
const MIGRATED: u32 = 6;

/// Allocators of the first set, with the port for callers of each.
const ALLOCS: [(&str, u16); 3] = [("a1", 7400), ("a2", 7401), ("a3", 7402)];

/// Allocators of the second set.
const OTHERS: [(&str, u16); 2] = [("a1", 7420), ("a2", 7421)];

/// Settings of the stores: an allocator that is back gets its share soon, and yet so late that the ownerships before
/// are read from the records, which keep only the last one.
const SETTINGS: &str = "[store]\nrebalance_after_ms = 1_500\n";

/// Two sets whose processes run, under load.
struct Run {
    load: Load,
    records: Records,
    allocs: BTreeMap<(&'static str, &'static str), Server>,
    _stores: Vec<Server>,
    /// Last, so that the logs are still there when the servers are dropped.
    sets: TwoSets,
}

impl Run {
    fn start() -> Run {
        let sets = TwoSets::new(u64::from(SECTIONS) * SECTION_SIZE);
        for set in ["a", "b"] {
            let text = fs::read_to_string(sets.file(set)).unwrap();
            let mut text = text.replace("step = 10_000", &format!("step = {STEP}"));
            if set == "a" {
                let host = sets.place.host;
                text += &format!("\n[[alloc]]\nname = \"a3\"\naddr = \"{host}:7402\"\n");
                text += &format!("peer = \"{host}:7406\"\nhttp = \"{host}:7414\"\n");
            }
            fs::write(sets.file(set), text).unwrap();
        }
        fs::write(sets.place.path("stores.toml"), SETTINGS).unwrap();
        let stores = ["a", "b"].into_iter().flat_map(|set| STORES.map(|id| store(&sets, set, id))).collect();
        let dir = sets.place.path("sets/two").display().to_string();
        eventually("the sets are defined", || {
            sets.place.seqsvr(&["set", "apply", &dir, "--yes"]).status.success().then_some(())
        });
        // The records begin before the first allocator registers, so that they have the first ownership of each
        // section.
        let host = sets.place.host;
        let admin = |ports: [u16; 3]| ports.map(|port| format!("http://{host}:{port}")).to_vec();
        let records = Records::start(&[("im-a", admin([7304, 7305, 7306])), ("im-b", admin([7324, 7325, 7326]))]);
        let first = ALLOCS.map(|(name, _)| (("a", name), sets.alloc("a", name)));
        let other = OTHERS.map(|(name, _)| (("b", name), sets.alloc("b", name)));
        let allocs = first.into_iter().chain(other).collect();
        let load = Load::start(&sets.addr(7400), SECTIONS, SECTION_SIZE);
        let run = Run { load, records, allocs, _stores: stores, sets };
        ALLOCS.iter().for_each(|(name, _)| run.wait_owns("im-a", name));
        run.load.wait_served();
        run
    }

    /// Stages all faults once.
    fn faults(&mut self, round: u32) {
        // The sections of a1 are taken over twice, the second time from their new owners.
        let sections = self.records.owned("im-a", "a1");
        self.kill("a", "a1");
        let next = self.records.owner("im-a", *sections.first().expect("a1 owns sections"));
        let next = ALLOCS.iter().map(|(name, _)| *name).find(|name| *name == next).unwrap();
        self.kill("a", next);
        for name in ["a1", next] {
            self.start_alloc("a", name);
        }
        self.load.wait_served();
        // A process that is back before anything misses it takes its own sections over.
        let last = if next == "a3" { "a2" } else { "a3" };
        let before = self.records.count(Beginning::Takeover);
        self.allocs.get_mut(&("a", last)).unwrap().kill();
        self.start_alloc("a", last);
        eventually("the process that is back is noticed", || {
            (self.records.count(Beginning::Takeover) > before).then_some(())
        });
        self.load.wait_served();

        self.cli("a", &["node", "drain", last, "--yes"]);
        eventually("it is drained", || self.records.owned("im-a", last).is_empty().then_some(()));
        self.load.wait_served();
        self.cli("a", &["node", "undrain", last]);
        self.wait_owns("im-a", last);

        let leader = self.leader();
        self.cli("a", &["store", "lead", "--to", &(leader % 3 + 1).to_string()]);
        eventually("another store leads", || (self.leader() != leader).then_some(()));
        self.load.wait_served();

        let first = round * MIGRATED;
        if first + MIGRATED < SECTIONS {
            self.migrate(first..first + MIGRATED);
            let owner = self.records.owner("im-b", first);
            let owner = OTHERS.iter().map(|(name, _)| *name).find(|name| *name == owner).unwrap();
            self.kill("b", owner);
            self.start_alloc("b", owner);
            self.load.wait_served();
        }
    }

    /// Kills an allocator, and waits until other allocators own its sections.
    fn kill(&mut self, set: &'static str, name: &'static str) {
        self.allocs.get_mut(&(set, name)).unwrap().kill();
        let named = if set == "a" { "im-a" } else { "im-b" };
        eventually("its sections are taken over", || self.records.owned(named, name).is_empty().then_some(()));
        self.load.wait_served();
    }

    /// Starts an allocator that was killed, and waits until it owns sections again.
    fn start_alloc(&mut self, set: &'static str, name: &'static str) {
        let alloc = self.sets.alloc(set, name);
        self.allocs.insert((set, name), alloc);
        self.wait_owns(if set == "a" { "im-a" } else { "im-b" }, name);
    }

    fn wait_owns(&self, set: &str, name: &str) {
        eventually(&format!("{name} of {set} owns sections"), || {
            (!self.records.owned(set, name).is_empty()).then_some(())
        });
    }

    /// Migrates sections to the second set. Its balancing is paused while they arrive: it would hand a section over
    /// within milliseconds of its arrival, and a record keeps only the last ownership.
    fn migrate(&self, sections: std::ops::Range<u32>) {
        self.cli("b", &["section", "balance", "--pause"]);
        let range = format!("{}..{}", sections.start, sections.end);
        let args = ["set", "migrate", "im-a", "--sections", &range, "--into", "im-b", "--rate", "10", "--yes"];
        let id = self.sets.run(&args)["migration"]["id"].as_str().unwrap().to_owned();
        eventually("all sections have arrived", || {
            let list = self.sets.run(&["migration", "list"]);
            let moved = list["items"].as_array()?.iter().find(|one| one["id"] == *id)?.clone();
            (moved["phase"] == "arrived").then_some(())
        });
        self.load.wait_served();
        self.sets.cli(&["migration", "complete", &id, "--yes"]);
        self.cli("b", &["section", "balance", "--resume"]);
    }

    /// Runs a command at the stores of a set.
    fn cli(&self, set: &str, args: &[&str]) {
        let file = self.sets.file(set).display().to_string();
        let output = self.sets.place.seqsvr(&[args, &["--set", &file]].concat());
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn leader(&self) -> u64 {
        let file = self.sets.file("a").display().to_string();
        self.sets.place.seqsvr_json(&["store", "members", "--set", &file])["leader"].as_u64().unwrap_or(0)
    }

    /// Ends the load, and returns everything that is known about the run.
    fn history(self) -> History {
        let uids = self.load.finish();
        let host = self.sets.place.host;
        let nodes = ALLOCS.map(|(name, port)| ("im-a", name, port)).into_iter();
        let nodes = nodes.chain(OTHERS.map(|(name, port)| ("im-b", name, port)));
        let nodes: Vec<(&str, String)> = nodes.map(|(set, _, port)| (set, format!("http://{host}:{port}"))).collect();
        let (ownerships, events, ceilings) = self.records.finish(&nodes);
        History { uids, ownerships, events, ceilings }
    }
}

fn store(sets: &TwoSets, set: &str, id: u64) -> Server {
    let (file, data, id) = (sets.file(set).display().to_string(), sets.data(set, id), id.to_string());
    let config = sets.place.path("stores.toml").display().to_string();
    let args = ["store", "--set", &file, "--id", &id, "--data", &data, "--config", &config];
    sets.place.server(&format!("{set}-s{id}"), &args)
}

/// Prints the account, and each event with the jumps that it caused.
fn print(history: &History, account: &Account) {
    println!(
        "{} uids: last numbers {} = {} given + {} of lost responses + {} in {} jumps",
        account.uids,
        account.last,
        account.given,
        account.lost,
        account.jumped(),
        account.jumps.len()
    );
    println!(
        "{} ceilings: {} raised at the stores, {} of it with a response at an allocator that still runs",
        history.ceilings.len(),
        account.raised,
        account.responded
    );
    println!(
        "{:<6} {:>5} {:<13} {:<5} {:>8} {:>6} {:>9} {:>8} {:>8}",
        "set", "event", "began by", "from", "sections", "jumps", "numbers", "largest", "at most"
    );
    for (place, event) in history.events.iter().enumerate() {
        let is_of = |ownership: Option<usize>| ownership.is_some_and(|ownership| account.events[ownership] == place);
        let jumps: Vec<u64> =
            account.jumps.iter().filter(|jump| is_of(jump.ownership)).map(|jump| jump.numbers).collect();
        let most = event.most_skipped.map_or("?".to_owned(), |most| most.to_string());
        println!(
            "{:<6} {:>5} {:<13} {:<5} {:>8} {:>6} {:>9} {:>8} {most:>8}",
            event.set,
            event.index,
            format!("{:?}", event.by),
            event.from,
            event.sections,
            jumps.len(),
            jumps.iter().sum::<u64>(),
            jumps.iter().max().copied().unwrap_or(0)
        );
    }
    let advances: Vec<u64> =
        account.jumps.iter().filter(|jump| jump.ownership.is_none()).map(|jump| jump.numbers).collect();
    println!("advances: {} jumps, {} numbers", advances.len(), advances.iter().sum::<u64>());
}

#[test]
fn numbers_jumps_and_ceilings_add_up_in_a_run_with_faults() {
    let rounds = std::env::var("E2E_ACCOUNT_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap());
    let mut run = Run::start();
    (0..rounds).for_each(|round| run.faults(round));
    let history = run.history();
    let account = account::settle(&history).unwrap_or_else(|found| {
        let lines: Vec<String> = found.iter().take(20).map(ToString::to_string).collect();
        panic!("{} discrepancies:\n{}", found.len(), lines.join("\n"))
    });
    print(&history, &account);
    assert_eq!(account.last, account.given + account.lost + account.jumped());
    assert_eq!(account.uids, u64::from(SECTIONS) * load::UIDS.len() as u64);

    // Every kind of fault took place, and only the losses of owners and the advances skipped numbers.
    let ownerships = |by: Beginning| history.ownerships.iter().filter(move |one| one.by == by);
    for by in [Beginning::FirstOwner, Beginning::Takeover, Beginning::Handover, Beginning::Arrival] {
        assert!(ownerships(by).count() > 0, "{by:?}");
    }
    let mut taken: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
    for one in ownerships(Beginning::Takeover) {
        taken.entry(one.section).or_default().insert(&one.from);
    }
    assert!(taken.values().any(|from| from.len() > 1), "a section was taken over from two owners: {taken:?}");
    let causes: BTreeSet<Option<Beginning>> =
        account.jumps.iter().map(|jump| jump.ownership.map(|ownership| history.ownerships[ownership].by)).collect();
    assert_eq!(causes, BTreeSet::from([None, Some(Beginning::Takeover)]));
    assert!(account.responded > 0 && account.lost < account.given, "{} responded", account.responded);
}
