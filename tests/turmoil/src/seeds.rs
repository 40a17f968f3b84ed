//! Runs a world for many seeds, each in a process of its own, and prints the command that repeats a failing seed.
//!
//! Each seed has a process of its own for two reasons: tokio numbers tasks per process and ends them in an order that
//! depends on the numbers, and a service that finds a broken invariant ends its process.
//!
//! | variable | effect |
//! |---|---|
//! | `TURMOIL_SEEDS=N` | runs the seeds 0 to N-1 instead of the test's own number of seeds |
//! | `TURMOIL_SEED=N` | runs only this seed, in this process |
//! | `TURMOIL_LOG=1` | with one seed, prints the services' logs |
//! | `TURMOIL_MESSAGES=1` | with one seed, traces every message, too |
//!
//! A test fails if no seed reaches a situation for which the test is made, because it would have shown nothing.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::meters::Meters;
use crate::trace::{Detail, Trace};
use crate::world::Failure;

/// Counts of the situations that a run reached, and its simulated time.
pub type Outcome = Result<(BTreeMap<&'static str, u64>, Duration), Failure>;

const SEEDS: &str = "TURMOIL_SEEDS";
const SEED: &str = "TURMOIL_SEED";
const LOG: &str = "TURMOIL_LOG";
const MESSAGES: &str = "TURMOIL_MESSAGES";

/// Prefix of the lines through which a run reports to its parent process.
const MARK: &str = "turmoil: ";

/// The report of one run.
#[derive(Debug, Default)]
struct Report {
    simulated: Duration,
    /// Sum of the trace, and its number of events.
    trace: String,
    counts: BTreeMap<String, u64>,
}

/// Runs a world for `seeds` seeds, as the test of this name.
///
/// # Panics
/// If a seed fails, with the command that repeats it, or if a situation of `must_happen` never happened.
pub fn check(test: &str, seeds: u64, must_happen: &[&str], run: impl Fn(u64) -> Outcome) {
    if let Some(seed) = variable(SEED) {
        return run_here(test, seed, run);
    }
    let seeds = variable(SEEDS).unwrap_or(seeds);
    let started = Instant::now();
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    let mut simulated = Duration::ZERO;
    for seed in 0..seeds {
        let report = run_apart(test, seed, false);
        simulated += report.simulated;
        report.counts.into_iter().for_each(|(situation, times)| *sums.entry(situation).or_default() += times);
    }
    let (simulated, took) = (simulated.as_secs_f64(), started.elapsed().as_secs_f64());
    let table: String = sums.iter().map(|(situation, times)| format!("{times:9} {situation}\n")).collect();
    eprint!("{test}: {seeds} seeds, {simulated:.0} s simulated in {took:.1} s, {:.0} x\n{table}", simulated / took);
    for situation in must_happen {
        assert!(sums.contains_key(*situation), "{test}: in {seeds} seeds there were no {situation}");
    }
}

/// Checks that a seed of the test of this name makes the same run each time, message for message, and that another seed
/// makes another run.
///
/// # Panics
/// If either does not hold.
pub fn check_repeats(test: &str, seed: u64) {
    let first = run_apart(test, seed, true).trace;
    assert_eq!(run_apart(test, seed, true).trace, first, "{test}: seed {seed} went another way the second time");
    assert_ne!(run_apart(test, seed + 1, true).trace, first, "{test}: another seed went the same way");
}

/// Runs one seed in this process and reports.
fn run_here(test: &str, seed: u64, run: impl Fn(u64) -> Outcome) {
    let detail = if variable::<u8>(MESSAGES).is_some() { Detail::Messages } else { Detail::Log };
    let trace = Trace::new(detail, variable::<u8>(LOG).is_some());
    let meters = Meters::default();
    match meters.during(|| trace.during(|| run(seed))) {
        Ok((counts, simulated)) => {
            let (sum, events) = trace.sum();
            println!("\n{MARK}{} simulated microseconds", simulated.as_micros());
            println!("{MARK}{sum} of {events} traced events");
            counts.iter().for_each(|(situation, times)| println!("{MARK}{times} {situation}"));
            meters.sums().iter().for_each(|(name, sum)| println!("{MARK}{sum} {name}"));
        }
        Err(Failure { what, events }) => panic!("{events}{test}: seed {seed} failed: {what}"),
    }
}

/// Runs one seed in a separate process.
fn run_apart(test: &str, seed: u64, with_messages: bool) -> Report {
    let binary = std::env::current_exe().expect("a test knows its program");
    let mut command = Command::new(binary);
    // The events are more useful than the location of the panic.
    command.args([test, "--exact", "--nocapture"]).env(SEED, seed.to_string()).env("RUST_BACKTRACE", "0");
    if with_messages {
        command.env(MESSAGES, "1");
    }
    let output = command.output().expect("a program that runs can be started");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains(MARK),
        "{}\n{text}{test}: seed {seed} failed, {}; repeat it with:\n  (cd tests/turmoil && TURMOIL_SEED={seed} cargo test {test} \
         -- --exact --nocapture)",
        String::from_utf8_lossy(&output.stderr),
        output.status
    );
    let mut report = Report::default();
    for line in text.lines().filter_map(|line| line.strip_prefix(MARK)) {
        let (number, what) = line.split_once(' ').expect("a number and what it counts");
        match what {
            "simulated microseconds" => report.simulated = Duration::from_micros(parsed(number)),
            what if what.ends_with("traced events") => report.trace = line.to_owned(),
            what => drop(report.counts.insert(what.to_owned(), parsed(number))),
        }
    }
    report
}

#[expect(clippy::disallowed_methods, reason = "a test has no other way to be told")]
fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok().map(|text| parsed(&text))
}

fn parsed<T: std::str::FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is not a number"))
}
