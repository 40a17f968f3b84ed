//! Measures two sets of real processes; wants an optimized build and an idle machine: `just sets`.
//!
//! A thousand sections of 100,000 users migrate under 20,000 seqs per second over every endpoint: split, paused, rolled
//! back half-way, split again, merged back, and the empty set is closed. Then one set is lost, and the latency of the
//! other set is compared with the time before.

use std::fs;
use std::time::{Duration, Instant};

use seq_testkit::eventually;
use serde_json::{Value, json};

use crate::cluster::{Server, digits, seqsvr, seqsvr_json};
use crate::two_sets::{ALLOC_PORTS, SetServers, TwoSets};

/// Users of both sets, and users of a section.
const UIDS: u64 = 204_000_000;
const SECTION: u64 = 100_000;

/// Sections of each load, and how many of them migrate: 1,002 in all.
const SECTIONS: u64 = 340;
const MIGRATE: u64 = 167;

/// Seconds of the load: longer than all events during it.
const LOAD_S: &str = "160";

/// Longest time that a migration may take.
const MIGRATION_TIMEOUT: Duration = Duration::from_secs(60);

/// Interval between readings of a migration's progress.
const READ_INTERVAL: Duration = Duration::from_millis(500);

/// Users of each section that a load allocates for.
const USERS: u64 = 10;

/// The endpoints, with 20,000 seqs per second in all, at different nodes. Most use batches, because all processes share
/// few cores.
const LOADS: [(&str, u16, &[&str]); 6] = [
    ("sdk", 7400, &["--rate", "24", "--batch", "200"]),
    ("many", 7401, &["--rate", "24", "--batch", "200"]),
    ("stream", 7401, &["--rate", "24", "--batch", "200"]),
    ("json", 7420, &["--rate", "24", "--batch", "200"]),
    ("resp", 7421, &["--rate", "800", "--pipeline", "200", "--concurrency", "1"]),
    ("grpc", 7400, &["--rate", "200"]),
];

#[test]
#[ignore = "measures: minutes, with an optimized build; `just sets`"]
fn a_thousand_sections_migrate_under_load() {
    let sets = TwoSets::new(UIDS);
    let _servers = sets.start();
    let csv = sets.place.path("stays.csv");
    touch(&sets);
    let (reports, stays, times) = std::thread::scope(|scope| {
        let load = |(at, (endpoint, port, flags)): (usize, (&'static str, u16, &'static [&str]))| {
            let sets = &sets;
            scope.spawn(move || {
                let (addr, redis) = (sets.addr(port), format!("{}:{}", sets.place.host, port + 12));
                let (first, uids) = ((at as u64 * SECTIONS * SECTION).to_string(), (SECTIONS * USERS).to_string());
                let stride = (SECTION / USERS).to_string();
                let mut args = vec!["bench", "--endpoint", endpoint, "--addr", &addr, "--warmup-s", "0"];
                args.extend(["--first-uid", &first, "--uids", &uids, "--uid-stride", &stride, "--duration-s", LOAD_S]);
                args.extend(["--deadline-ms", "20000"]);
                args.extend(flags);
                // A reply of the Redis protocol has no previous seq, so missing seqs are found at the end.
                match endpoint {
                    "resp" => args.extend(["--check", "--redis", &redis]),
                    _ => args.push("--seamless"),
                }
                (endpoint, seqsvr_json(&args))
            })
        };
        let loads: Vec<_> = LOADS.into_iter().enumerate().map(load).collect();
        // An additional load on sections that stay records the latency of each second.
        let stays = scope.spawn(|| {
            let (addr, csv) = (sets.addr(7400), csv.display().to_string());
            // The users of the last load are ten thousand apart, so these users are others.
            let first = ((((LOADS.len() as u64 - 1) * SECTIONS + MIGRATE) * SECTION) + 5).to_string();
            let (uids, stride) = (((SECTIONS - MIGRATE) * USERS).to_string(), (SECTION / USERS).to_string());
            let mut args = vec!["bench", "--seamless", "--endpoint", "sdk", "--rate", "200", "--addr", &addr];
            args.extend(["--first-uid", &first, "--uids", &uids, "--uid-stride", &stride, "--duration-s", LOAD_S]);
            args.extend(["--csv", &csv]);
            seqsvr_json(&args)
        });
        let began = Instant::now();
        let times = story(&sets, began);
        let took = began.elapsed();
        println!("all of it: {:.1} s", took.as_secs_f64());
        assert!(took.as_secs_f64() < LOAD_S.parse().unwrap(), "the load ended first");
        let reports: Vec<_> = loads.into_iter().map(|load| load.join().unwrap()).collect();
        (reports, stays.join().unwrap(), times)
    });
    let (at, resp) = (0..).zip(&reports).find(|(_, (endpoint, _))| *endpoint == "resp").unwrap();
    assert_eq!(allocated(&sets, at), resp.1["numbers"].as_u64().unwrap(), "resp: numbers are missing");
    for (endpoint, report) in reports.iter().map(|(endpoint, report)| (*endpoint, report)).chain([("stays", &stays)]) {
        let (order, latency) = (&report["order"], &report["latency"]);
        let micros = |name: &str| latency[name].as_u64().unwrap();
        println!(
            "{endpoint}: {} numbers, {:.0} a second, failed {}, unsent {}, decreases {}, duplicates {}, chain breaks {}, gaps {}; \
             p50 {} us, p99 {} us, longest {} us",
            report["numbers"],
            report["numbers_per_second"].as_f64().unwrap(),
            report["failed_items"],
            report["unsent"],
            order["decreases"],
            order["duplicates"],
            order["chain_breaks"],
            order["gaps"],
            micros("p50_us"),
            micros("p99_us"),
            micros("max_us"),
        );
        assert_eq!(report["failed_items"], json!({}), "{endpoint}");
        for fault in ["decreases", "duplicates", "chain_breaks", "gaps"] {
            assert_eq!(order[fault], 0, "{endpoint}: {report:#}");
        }
    }
    print_stays(&fs::read_to_string(&csv).unwrap(), &times);
}

/// Returns the sum of the seqs of a load's users.
fn allocated(sets: &TwoSets, load: u64) -> u64 {
    let uids: Vec<String> =
        (0..SECTIONS * USERS).map(|user| (load * SECTIONS * SECTION + user * (SECTION / USERS)).to_string()).collect();
    let read = |uids: &[String]| {
        let (addr, uids) = (sets.addr(7400), uids.iter().map(String::as_str));
        let report = seqsvr_json(&["current", "--addr", &addr].into_iter().chain(uids).collect::<Vec<_>>());
        report["items"].as_array().unwrap().iter().map(|item| digits(&item["value"])).sum::<u64>()
    };
    uids.chunks(500).map(read).sum()
}

/// Seconds of the run in which sections migrate at a rate.
struct Migrates {
    rate: &'static str,
    from: u64,
    until: u64,
}

/// Runs all events during the load; returns the times of migrations.
fn story(sets: &TwoSets, began: Instant) -> Vec<Migrates> {
    let mut times = Vec::new();
    let mut migrates = |rate: &'static str, what: &dyn Fn(&str)| {
        let from = began.elapsed().as_secs();
        what(rate);
        times.push(Migrates { rate, from, until: began.elapsed().as_secs() });
    };
    // The first seconds are the basis of the comparison.
    std::thread::park_timeout(Duration::from_secs(15));
    migrates("50", &|rate| {
        let first = split(sets, rate);
        wait_departed(sets, &first, 200);
        sets.run(&["migration", "pause", &first]);
        eventually("no section is in flight", || (migration(sets, &first)["in_flight"] == 0).then_some(()));
        sets.run(&["migration", "resume", &first]);
        wait_departed(sets, &first, 500);
        sets.run(&["migration", "rollback", &first, "--yes"]);
        wait(sets, "rolled back half-way", &first, "rolled_back");
    });
    migrates("200", &|rate| {
        let second = split(sets, rate);
        wait(sets, "split", &second, "arrived");
        sets.run(&["migration", "complete", &second, "--yes"]);
    });
    std::thread::park_timeout(Duration::from_secs(5));
    migrates("200", &|rate| {
        let merged = Instant::now();
        sets.cli(&["set", "merge", "im-b", "--into", "im-a", "--yes", "--rate", rate]);
        let migrations = sets.run(&["migration", "list"]);
        let merge = migrations["items"].as_array().unwrap().iter().find(|one| one["from"] == "im-b").unwrap();
        let id = merge["id"].as_str().unwrap();
        wait(sets, "merged", id, "completed");
        println!("merged and closed after {:.1} s", merged.elapsed().as_secs_f64());
    });
    eventually("the second set is closed", || {
        let list = sets.run(&["set", "list"]);
        list["items"].as_array().unwrap().iter().any(|set| set["state"] == "closed").then_some(())
    });
    times
}

/// A fault of a whole set.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Killed,
    Frozen,
}

#[test]
#[ignore = "measures: minutes, with an optimized build; `just sets`"]
fn a_lost_set_costs_the_other_nothing() {
    let sets = TwoSets::new(10_000_000);
    let [_a, mut b] = sets.start();
    sets.split_for_good("5_000_000");
    for fault in [Fault::Killed, Fault::Frozen] {
        // Loads both sets through one node, before and during the fault.
        let before = both_halves(&sets);
        match fault {
            Fault::Killed => b.kill(),
            Fault::Frozen => b.stores.iter().chain(&b.allocs).for_each(Server::freeze),
        }
        let during = both_halves(&sets);
        let began = Instant::now();
        match fault {
            Fault::Killed => b = SetServers { stores: sets.stores("b", "b"), allocs: sets.allocs("b") },
            Fault::Frozen => b.stores.iter().chain(&b.allocs).for_each(Server::thaw),
        }
        eventually("the set serves again", || {
            let args = ["next", "9999999", "--addr", &sets.addr(7400), "--deadline-ms", "500"];
            seqsvr(&args).status.success().then_some(())
        });
        let back = began.elapsed();
        for (half, [before, during]) in ["stays", "lost"].iter().zip([[&before.0, &during.0], [&before.1, &during.1]]) {
            let figures = |report: &Value| {
                let [calls, failed, latency] = ["calls", "failed_items", "latency"].map(|name| report[name].clone());
                let [p50, p99, max] = ["p50_us", "p99_us", "max_us"].map(|name| latency[name].as_u64().unwrap());
                format!("{calls} calls, failed {failed}, p50 {p50} us, p99 {p99} us, longest {max} us")
            };
            println!("{fault:?}, {half}: before {}; during {}", figures(before), figures(during));
        }
        println!("{fault:?}: it serves again {:.1} s after its start", back.as_secs_f64());
        assert_eq!(during.0["failed_items"], json!({}), "calls of the other set's users failed");
        assert_eq!(during.1["failed_items"], json!({ "SET_UNAVAILABLE": during.1["calls"] }));
    }
}

/// Makes unary calls at a node of the first set: for its own users, and for the users of the other set.
fn both_halves(sets: &TwoSets) -> (Value, Value) {
    let bench = |first: &str, rate: &str| {
        let addr = sets.addr(7400);
        let mut args = vec!["bench", "--endpoint", "grpc", "--addr", &addr, "--first-uid", first, "--uids", "50"];
        args.extend(["--uid-stride", "100000", "--rate", rate, "--duration-s", "15", "-o", "json"]);
        let output = seqsvr(&args);
        serde_json::from_slice(&output.stdout).unwrap()
    };
    std::thread::scope(|scope| {
        let stays = scope.spawn(|| bench("3", "300"));
        let other = bench("5000003", "30");
        (stays.join().unwrap(), other)
    })
}

/// Compares the seconds of migrations with the seconds before, for the sections that stayed.
fn print_stays(csv: &str, times: &[Migrates]) {
    let mut lines = csv.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column = |name: &str| names.iter().position(|one| *one == name).unwrap();
    let rows: Vec<Vec<u64>> = lines.map(|line| line.split(',').map(|cell| cell.parse().unwrap()).collect()).collect();
    let median = |name: &str, is: &dyn Fn(u64) -> bool| {
        let mut values: Vec<u64> =
            rows.iter().filter(|row| is(row[column("second")])).map(|row| row[column(name)]).collect();
        values.sort_unstable();
        values.get(values.len() / 2).copied().unwrap_or(0)
    };
    for name in ["p50_us", "p99_us", "max_us"] {
        let first = times[0].from;
        let before = median(name, &|second| (2..first.saturating_sub(1)).contains(&second));
        let during = ["50", "200"].map(|rate| {
            let migrates =
                |second: u64| times.iter().any(|one| one.rate == rate && (one.from + 2..one.until).contains(&second));
            median(name, &migrates)
        });
        println!(
            "sections that stay, {name}, median of seconds: before {before}, while 50 a second migrate {}, 200 {}",
            during[0], during[1]
        );
    }
}

/// Allocates once in each section, so that all memory is in use before the measurement, and every node has forwarded to
/// the other nodes.
fn touch(sets: &TwoSets) {
    for port in ALLOC_PORTS {
        let (addr, uids, stride) = (sets.addr(port), (UIDS / SECTION).to_string(), SECTION.to_string());
        let calls = UIDS.div_ceil(SECTION * 100).to_string();
        let mut args = vec!["bench", "--endpoint", "many", "--batch", "100", "--concurrency", "1", "--addr", &addr];
        args.extend(["--distribution", "sequential", "--first-uid", "9", "--uids", &uids, "--uid-stride", &stride]);
        args.extend(["--calls", &calls, "--warmup-s", "0", "--expect", "failed<=0"]);
        seqsvr_json(&args);
    }
}

/// Starts the migration of a part of each load's sections; returns its id.
fn split(sets: &TwoSets, rate: &str) -> String {
    let ranges: Vec<String> =
        (0..LOADS.len() as u64).map(|load| format!("{}..{}", load * SECTIONS, load * SECTIONS + MIGRATE)).collect();
    let ranges = ranges.iter().flat_map(|range| ["--sections", range]);
    let args: Vec<&str> =
        ["set", "split", "im-a", "--into", "im-b", "--yes", "--rate", rate].into_iter().chain(ranges).collect();
    sets.run(&args)["migration"]["id"].as_str().expect("the id of a migration").to_owned()
}

fn migration(sets: &TwoSets, id: &str) -> Value {
    let list = sets.run(&["migration", "list"]);
    list["items"].as_array().unwrap().iter().find(|one| one["id"] == id).unwrap().clone()
}

/// Waits for a phase of a migration, and prints its figures.
fn wait(sets: &TwoSets, what: &str, id: &str, phase: &str) {
    let began = Instant::now();
    let mut printed = began;
    let last = loop {
        let migration = migration(sets, id);
        if migration["phase"] == phase {
            break migration;
        }
        assert!(began.elapsed() < MIGRATION_TIMEOUT, "not within {MIGRATION_TIMEOUT:?}: migration {id} is {phase}");
        if printed.elapsed().as_secs() >= 5 {
            printed = Instant::now();
            let [departed, arrived] = ["departed", "arrived"].map(|count| &migration[count]);
            println!("  {what}, {:.0} s: {departed} departed, {arrived} arrived", began.elapsed().as_secs_f64());
        }
        // Each reading starts a process, which takes time from the measured processes.
        std::thread::park_timeout(READ_INTERVAL);
    };
    let millis = |key: &str| last[key].as_f64().unwrap() / 1e3;
    println!(
        "{what}: {} sections, {:.1} s until {phase}, pauses p50 {:.1} ms, p99 {:.1} ms, longest {:.1} ms",
        last["sections"],
        began.elapsed().as_secs_f64(),
        millis("pause_p50_us"),
        millis("pause_p99_us"),
        millis("pause_max_us"),
    );
}

/// Waits until a number of sections have departed.
fn wait_departed(sets: &TwoSets, id: &str, sections: u64) {
    eventually("sections have departed", || {
        std::thread::park_timeout(READ_INTERVAL);
        (migration(sets, id)["departed"].as_u64().unwrap() >= sections).then_some(())
    });
}
