//! The rules of the core in a simulated world, broken by a seed.
//!
//! The machines of `seq-core` run as they are: `State` behind a network that loses, doubles and delays, `Arbiter`
//! beside members that lead or believe so, `Owner`, `Section` and `Lease` in AllocSvrs that stall, crash and are
//! started twice. What is simulated is the shell around them: sockets, disks, clocks, threads. Every number taken is
//! held against what is promised. [`run`] is one seed; [`shrink()`] finds which of its faults matter.
//!
//! **Invariant:** a seed makes everything. Nothing here reads a clock, the environment, or a map in random order.

use std::time::Duration;

mod bugs;
mod check;
mod client;
mod clock;
mod coverage;
mod events;
mod faults;
mod forwarding;
mod handover;
mod hosts;
mod inject;
mod leader;
mod net;
mod other_set;
mod peer_routes;
mod process;
mod records;
mod restores;
mod rng;
mod rollback;
mod scenes;
mod serving;
mod session;
mod sets;
mod shrink;
mod store;
mod store_bugs;
mod swarm;
mod trace;
mod world;

pub use bugs::{Bug, Caught, hunt};
pub use check::Violation;
pub use coverage::{Coverage, Situation};
pub use shrink::{Shrunk, shrink};

use world::World;

/// A run to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// What makes everything.
    pub seed: u64,
    /// Sets of the world: 2 for two, 3 for three with restores upon restores, else one. A planted bug between sets has
    /// two, one of restores three.
    pub sets: u32,
    /// A planted bug.
    pub bug: Option<Bug>,
    /// Numbers of the faults that happen; `None`: all of the seed's.
    pub faults: Option<Vec<usize>>,
    /// Whether what happens is written down.
    pub trace: bool,
}

/// What became of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The promise that was broken, if one was.
    pub violation: Option<Violation>,
    /// The same for two runs that were the same.
    pub hash: u64,
    /// Virtual time that passed.
    pub simulated: Duration,
    /// Events that happened.
    pub events: u64,
    /// How often each situation came about.
    pub coverage: Coverage,
    /// What kind of world it was.
    pub weather: &'static str,
    /// The faults of the seed, by number, in words.
    pub faults: Vec<String>,
    /// What happened, where it was asked for; the last of it.
    pub trace: Vec<String>,
}

/// Makes a run.
#[must_use]
pub fn run(run: &Run) -> Outcome {
    if run.sets == 3 || run.bug.is_some_and(Bug::is_of_restores) {
        return run_restores(run);
    }
    let sets = if run.sets == 2 || run.bug.is_some_and(Bug::is_between_sets) { sets::SETS } else { 1 };
    let mut world = World::new(run, sets);
    world.run();
    Outcome {
        violation: world.check.violation.take(),
        hash: world.trace.hash(),
        simulated: Duration::from_nanos(world.now),
        events: world.events,
        weather: if sets == 1 { world.swarm.weather.name() } else { "two sets" },
        faults: world.swarm.faults.iter().map(faults::Fault::describe).collect(),
        coverage: world.coverage,
        trace: world.trace.into_lines(),
    }
}

fn run_restores(run: &Run) -> Outcome {
    let mut world = restores::World::new(run.seed, run.bug, run.faults.as_deref(), run.trace);
    world.run();
    Outcome {
        violation: world.check.violation.take(),
        hash: world.trace.hash(),
        simulated: Duration::from_nanos(world.now),
        events: world.events,
        weather: "restores",
        faults: world.faults.iter().map(restores::Fault::describe).collect(),
        coverage: world.coverage,
        trace: world.trace.into_lines(),
    }
}
