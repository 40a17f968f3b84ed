//! The command `sim`, which runs the simulator with many seeds, replays one seed, or measures how many seeds the
//! simulator needs to detect planted bugs.
//!
//! A seed determines all events of a run, which are the same on every machine.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use clap::{Args, Subcommand};
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, grouped};
use seq_kit::cores;
use seq_sim::{Bug, Coverage, Run, Situation};
use serde::Serialize;

/// Number of searches for each planted bug.
const HUNTS: u64 = 5;

/// Distance between the first seeds of two searches for the same bug. It is far larger than the number of seeds that a
/// search usually needs, so that no two searches use the same seed.
const HUNT_STRIDE: u64 = 1_000_000;

/// The figures of a progress bar.
const FIGURES: &str = "{human_pos}/{human_len}  {per_sec:0}  ETA {eta}";

/// The simulator commands.
#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// Runs many seeds; stops at a violation and shrinks its faults.
    #[command(after_help = "Examples:\n  seqsvr sim run\n  seqsvr sim run --seeds 10000 --from 200 -o json\n  \
                            seqsvr sim run --sets 2\n  seqsvr sim run --keys\n\n\
                            Exit codes: 0 no promise was broken, 1 a promise was broken.")]
    Run(RunArgs),
    /// Replays a seed and prints its events.
    #[command(after_help = "Examples:\n  seqsvr sim replay --seed 17\n  seqsvr sim replay --seed 17 --faults 3,5\n  \
                            seqsvr sim replay --seed 102 --bug expiry-from-answer\n\n\
                            Exit codes: 0 no promise was broken, 1 a promise was broken.")]
    Replay(ReplayArgs),
    /// Measures the number of seeds until each planted bug is found; exit 1 if a bug is not found.
    #[command(after_help = "Example:\n  seqsvr sim bugs --most 10000\n\n\
                            Exit codes: 0 every search found its bug, 1 a search did not find its bug.")]
    Bugs(BugsArgs),
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// Number of seeds.
    #[arg(long, value_name = "N", default_value_t = 200)]
    seeds: u64,
    /// The first seed.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    from: u64,
    /// Sets of each world: 1, 2 with migrations between them and restores of both, or 3 with restores upon restores.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=3))]
    sets: u32,
    /// Gives each world of one or two sets a keyspace.
    #[arg(long)]
    keys: bool,
    /// Number of threads; 0: one for each core.
    #[arg(long, value_name = "N", default_value_t = 0)]
    jobs: usize,
}

#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The seed to replay.
    #[arg(long, value_name = "SEED")]
    seed: u64,
    /// Sets of the world, 1 to 3. A planted bug between sets needs 2, a planted bug of restores needs 3.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=3))]
    sets: u32,
    /// Gives the world a keyspace, as in `seqsvr sim run --keys`.
    #[arg(long)]
    keys: bool,
    /// Numbers of the faults to inject, as 3,17,40; by default all faults of the seed.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    faults: Option<Vec<usize>>,
    /// A planted bug, by its name in `seqsvr sim bugs`.
    #[arg(long, value_name = "BUG", value_parser = bug)]
    bug: Option<Bug>,
}

#[derive(Debug, Args)]
pub struct BugsArgs {
    /// Limit on the seeds of one search.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    most: u64,
    /// Searches only for this bug; repeat the flag for more.
    #[arg(long = "bug", value_name = "BUG", value_parser = bug)]
    bugs: Vec<Bug>,
}

fn bug(text: &str) -> Result<Bug, String> {
    let names = || Bug::ALL.iter().map(|bug| bug.name()).collect::<Vec<_>>().join(", ");
    Bug::ALL.iter().find(|bug| bug.name() == text).copied().ok_or_else(|| format!("not one of {}", names()))
}

pub fn run(command: SimCommand, output: &Output) -> anyhow::Result<Exit> {
    match command {
        SimCommand::Run(args) => run_seeds(&args, output),
        SimCommand::Replay(args) => replay(args, output),
        SimCommand::Bugs(args) => bugs(args, output),
    }
}

/// The result of many seeds.
#[derive(Serialize)]
struct Summary {
    seeds: u64,
    from: u64,
    simulated_hours: f64,
    seconds: f64,
    /// Simulated seconds per second of real time.
    speed: f64,
    situations: Vec<(&'static str, u64)>,
    violation: Option<Broken>,
}

#[derive(Clone, Serialize)]
struct Broken {
    seed: u64,
    weather: &'static str,
    what: String,
    /// Descriptions of the faults that cause the violation, in the smallest set of faults that was found to cause it.
    faults: Vec<String>,
    again: String,
}

fn run_seeds(args: &RunArgs, output: &Output) -> anyhow::Result<Exit> {
    let began = Instant::now();
    let end = args.from.checked_add(args.seeds).filter(|_| args.seeds > 0);
    let end = end.ok_or_else(|| Failure::new(Exit::Usage, "no seeds between --from and the end"))?;
    let bar = output.progress_bar(args.seeds, FIGURES);
    let (next, stop) = (AtomicU64::new(args.from), AtomicBool::new(false));
    let sums = Mutex::new((Coverage::default(), 0.0, None::<Broken>));
    let work = || {
        while !stop.load(Relaxed) {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= end {
                return;
            }
            let run = Run { seed, sets: args.sets, keys: args.keys, ..Run::default() };
            let outcome = seq_sim::run(&run);
            bar.inc(1);
            let broken = outcome.violation.as_ref().map(|violation| {
                stop.store(true, Relaxed);
                shrunk(&run, outcome.weather, format!("{violation:?}"))
            });
            let mut sums = sums.lock().expect("no thread panics while it adds");
            sums.0.add(&outcome.coverage);
            sums.1 += outcome.simulated.as_secs_f64();
            sums.2 = sums.2.take().or(broken);
        }
    };
    let jobs = if args.jobs == 0 { cores::available() } else { args.jobs };
    std::thread::scope(|scope| (0..jobs).for_each(|_| drop(scope.spawn(work))));
    bar.finish_and_clear();
    let (coverage, simulated, violation) = sums.into_inner().expect("every thread has ended");
    let seconds = began.elapsed().as_secs_f64();
    let summary = Summary {
        seeds: args.seeds,
        from: args.from,
        simulated_hours: simulated / 3_600.0,
        seconds,
        speed: simulated / seconds.max(f64::MIN_POSITIVE),
        situations: Situation::ALL.iter().map(|one| (one.name(), coverage.count(*one))).collect(),
        violation,
    };
    let exit = if summary.violation.is_none() { Exit::Ok } else { Exit::Failed };
    if output.is_json() {
        output.json(&summary)?;
    } else {
        print(&summary, output)?;
    }
    Ok(exit)
}

fn shrunk(run: &Run, weather: &'static str, what: String) -> Broken {
    let Run { seed, sets, keys, .. } = *run;
    let shrunk = seq_sim::shrink(run);
    let (numbers, faults) = shrunk.map_or((None, Vec::new()), |one| (Some(one.faults), one.described));
    let list = numbers.map(|numbers| numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(","));
    let only = list.map_or_else(String::new, |list| format!(" --faults {list}"));
    let of = if sets > 1 { format!(" --sets {sets}") } else { String::new() };
    let with = if keys { " --keys" } else { "" };
    Broken { seed, weather, what, faults, again: format!("seqsvr sim replay --seed {seed}{of}{with}{only}") }
}

fn print(summary: &Summary, output: &Output) -> std::io::Result<()> {
    for (name, count) in &summary.situations {
        output.line(format_args!("{:>14}  {name}", grouped(*count)))?;
    }
    let Summary { seeds, simulated_hours, seconds, speed, .. } = summary;
    output.line(format_args!(
        "{} seeds, {simulated_hours:.1} hours simulated in {seconds:.1} s: {speed:.0} times real time, {:.1} hours a minute",
        grouped(*seeds),
        speed / 60.0
    ))?;
    let Some(Broken { seed, weather, what, faults, again }) = &summary.violation else {
        return output.line("no promise was broken  PASS");
    };
    output.line(format_args!("seed {seed}, {weather}: {what}  FAIL"))?;
    for fault in faults {
        output.line(format_args!("  {fault}"))?;
    }
    output.line(format_args!("again: {again}"))
}

/// A replayed seed.
#[derive(Serialize)]
struct Replayed<'a> {
    seed: u64,
    weather: &'a str,
    hash: String,
    simulated_s: f64,
    events: u64,
    faults: &'a [String],
    violation: Option<String>,
    trace: &'a [String],
}

fn replay(args: ReplayArgs, output: &Output) -> anyhow::Result<Exit> {
    let ReplayArgs { seed, sets, keys, faults, bug } = args;
    let outcome = seq_sim::run(&Run { seed, sets, keys, faults, bug, trace: true });
    let violation = outcome.violation.as_ref().map(|violation| format!("{violation:?}"));
    let exit = if violation.is_some() { Exit::Failed } else { Exit::Ok };
    let replayed = Replayed {
        seed,
        weather: outcome.weather,
        hash: format!("{:016x}", outcome.hash),
        simulated_s: outcome.simulated.as_secs_f64(),
        events: outcome.events,
        faults: &outcome.faults,
        violation,
        trace: &outcome.trace,
    };
    if output.is_json() {
        output.json(&replayed)?;
        return Ok(exit);
    }
    for line in replayed.trace {
        output.line(line)?;
    }
    for (number, fault) in replayed.faults.iter().enumerate() {
        output.line(format_args!("fault {number}: {fault}"))?;
    }
    let verdict = replayed.violation.as_deref().unwrap_or("no promise was broken");
    output.line(format_args!(
        "seed {seed}, {}, {} events, hash {}: {verdict}",
        replayed.weather, replayed.events, replayed.hash
    ))?;
    Ok(exit)
}

/// The detection of a planted bug.
#[derive(Serialize)]
struct Hunted {
    bug: &'static str,
    about: &'static str,
    /// Number of seeds that each successful search took, ascending.
    seeds: Vec<u64>,
    median: Option<u64>,
    missed: u64,
}

fn bugs(args: BugsArgs, output: &Output) -> anyhow::Result<Exit> {
    let wanted = if args.bugs.is_empty() { Bug::ALL.to_vec() } else { args.bugs };
    let bar = output.progress_bar(wanted.len() as u64 * HUNTS, FIGURES);
    let mut missed = false;
    let mut all = Vec::new();
    for bug in wanted {
        let mut seeds = Vec::new();
        for hunt in 0..HUNTS {
            seeds.extend(seq_sim::hunt(bug, hunt * HUNT_STRIDE, args.most).map(|caught| caught.seeds));
            bar.inc(1);
        }
        seeds.sort_unstable();
        let in_vain = HUNTS - seeds.len() as u64;
        missed |= in_vain > 0;
        let median = seeds.get(HUNTS as usize / 2).copied();
        let hunted = Hunted { bug: bug.name(), about: bug.about(), seeds, median, missed: in_vain };
        if !output.is_json() {
            let median = hunted.median.map_or_else(|| "-".to_owned(), |median| median.to_string());
            bar.suspend(|| {
                output.line(format_args!(
                    "{:<20} median {median:>5} of {:?} seeds, {in_vain} missed: {}",
                    hunted.bug, hunted.seeds, hunted.about
                ))
            })?;
        }
        all.push(hunted);
    }
    bar.finish_and_clear();
    if output.is_json() {
        output.json_items(&all)?;
    }
    Ok(if missed { Exit::Failed } else { Exit::Ok })
}
