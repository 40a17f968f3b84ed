//! Simulation of the rules of `seq-core` in worlds whose faults a seed draws.
//!
//! The state machines of `seq-core` run unchanged. `State` runs behind a network that loses, doubles and delays
//! messages. `Arbiter` runs in members that lead, or believe that they lead. `Owner`, `Section` and `Lease` run in
//! AllocSvrs that stall, crash and are started twice. The shell around these state machines is simulated: sockets,
//! disks, clocks, threads. Every number that is taken is checked against the promises. [`run`] runs a seed, and
//! [`shrink()`] finds the faults that are needed for a violation.
//!
//! **Invariant:** the seed determines everything that happens. Nothing here reads a clock, the environment, or a map in
//! random order.

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
mod lane_calls;
mod lanes;
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

/// The parameters of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// The seed of all random choices.
    pub seed: u64,
    /// Number of sets of the world. With 2, sections migrate between the sets; with 3, sets are also restored again and
    /// again; with any other number, there is one set. A planted bug between sets always runs with two sets, and a
    /// planted bug of restores with three.
    pub sets: u32,
    /// The planted bug, if any.
    pub bug: Option<Bug>,
    /// Numbers of the faults that happen; with `None`, all faults of the seed.
    pub faults: Option<Vec<usize>>,
    /// Whether the outcome has a trace of the events.
    pub trace: bool,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The first promise that was broken, if any.
    pub violation: Option<Violation>,
    /// Hash of the events, which is equal for two runs of the same seed.
    pub hash: u64,
    /// Virtual time of the run.
    pub simulated: Duration,
    /// Number of events.
    pub events: u64,
    /// Number of occurrences of each situation.
    pub coverage: Coverage,
    /// Kind of the world, for reports.
    pub weather: &'static str,
    /// Descriptions of all faults of the seed, by number.
    pub faults: Vec<String>,
    /// The last lines of the trace, if the run has one.
    pub trace: Vec<String>,
}

/// Runs a world until its end, or until a promise is broken.
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
