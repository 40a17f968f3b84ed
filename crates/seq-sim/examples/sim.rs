//! Runs seeds of the simulator, or one of them again.
//!
//! `sim run SEEDS [FROM]`, `sim replay SEED [FAULTS]` with the numbers of its faults as 3,17,40, `sim bugs`.

use std::process::ExitCode;
use std::time::Instant;

use seq_sim::{Bug, Coverage, Run, Situation, hunt, run, shrink};

/// Hunts for each planted bug, and most seeds of one.
const HUNTS: u64 = 5;
const MOST_SEEDS: u64 = 10_000;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| args.get(at).and_then(|text| text.parse::<u64>().ok());
    match (args.first().map(String::as_str), number(1)) {
        (Some("run"), Some(seeds)) => run_seeds(number(2).unwrap_or(0), seeds),
        (Some("replay"), Some(seed)) => {
            let faults = args.get(2).map(|list| list.split(',').filter_map(|text| text.parse().ok()).collect());
            replay(Run { seed, faults, trace: true, bug: None })
        }
        (Some("bugs"), _) => bugs(),
        _ => {
            eprintln!("sim run SEEDS [FROM] | sim replay SEED [FAULTS] | sim bugs");
            ExitCode::from(2)
        }
    }
}

fn run_seeds(from: u64, seeds: u64) -> ExitCode {
    let began = Instant::now();
    let mut coverage = Coverage::default();
    let mut simulated = 0.0;
    for seed in from..from + seeds {
        let outcome = run(&Run { seed, ..Run::default() });
        coverage.add(&outcome.coverage);
        simulated += outcome.simulated.as_secs_f64();
        if let Some(violation) = outcome.violation {
            println!("seed {seed}, {}: {violation:?}", outcome.weather);
            if let Some(shrunk) = shrink(&Run { seed, ..Run::default() }) {
                let list: Vec<String> = shrunk.faults.iter().map(ToString::to_string).collect();
                println!("{}\nagain: sim replay {seed} {}", shrunk.described.join("\n"), list.join(","));
            }
            return ExitCode::FAILURE;
        }
    }
    for &situation in Situation::ALL {
        println!("{:>12}  {}", coverage.count(situation), situation.name());
    }
    let took = began.elapsed().as_secs_f64();
    println!("{seeds} seeds, {simulated:.0} s simulated in {took:.1} s, {:.0} times real time", simulated / took);
    ExitCode::SUCCESS
}

fn replay(of: Run) -> ExitCode {
    let outcome = run(&of);
    println!("{}", outcome.trace.join("\n"));
    for (number, fault) in outcome.faults.iter().enumerate() {
        println!("fault {number} {fault}");
    }
    println!("{} hash {:016x}: {:?}", outcome.weather, outcome.hash, outcome.violation);
    if outcome.violation.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn bugs() -> ExitCode {
    let mut missed = false;
    for &bug in Bug::ALL {
        let caught: Vec<_> = (0..HUNTS).map(|hunted| hunt(bug, hunted * 1_000_000, MOST_SEEDS)).collect();
        let mut seeds: Vec<u64> = caught.iter().map(|one| one.as_ref().map_or(u64::MAX, |one| one.seeds)).collect();
        seeds.sort_unstable();
        missed |= caught.contains(&None);
        println!("{:<20} median {:>5} of {seeds:?} seeds: {}", bug.name(), seeds[seeds.len() / 2], bug.about());
    }
    if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
