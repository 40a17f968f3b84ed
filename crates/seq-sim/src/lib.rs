//! Simulation of clusters that run the state machines of `seq-core`. A simulated cluster, with its callers, faults and
//! operators, is called a *world*. The seed of a run determines the faults of its world.
//!
//! The state machines of `seq-core` run unchanged. Members of stores run `State`, and receive messages by a network
//! that loses, doubles and delays messages. Members that lead, or believe that they lead, run `Arbiter`. AllocSvrs run
//! `Owner`, `Section` and `Lease`, stall, crash, and are started twice. The sockets, disks, clocks and threads around
//! the state machines are simulated. Every number that an AllocSvr takes is checked against the promises. [`run`] runs
//! the world of a seed, and [`shrink()`] finds the few faults that a violation needs.
//!
//! **Invariant:** the seed determines everything that happens in a world. No code of this crate reads a clock or the
//! environment, or iterates over a map in random order.

use std::time::Duration;

mod bugs;
mod check;
mod client;
mod clock;
mod coverage;
mod deaths;
mod events;
mod faults;
mod forwarding;
mod handover;
mod hosts;
mod inject;
mod keys;
mod lane_calls;
mod lanes;
mod leader;
mod net;
mod numbers;
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
    /// Number of sets of the world. In a world of 2 sets, sections migrate between the sets; in a world of 3 sets, sets
    /// are also restored again and again. Any other number selects a world of one set. If the planted bug needs two or
    /// three sets, the world has as many sets for any value of this field.
    pub sets: u32,
    /// Whether the world has a keyspace, which worlds of one and two sets may have. If the planted bug concerns keys,
    /// the world has a keyspace for any value of this field.
    pub keys: bool,
    /// The planted bug, if any.
    pub bug: Option<Bug>,
    /// Numbers of the faults that happen. `None` selects all faults of the seed.
    pub faults: Option<Vec<usize>>,
    /// Whether the outcome has a trace of the events.
    pub trace: bool,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The first promise that was broken, if any.
    pub violation: Option<Violation>,
    /// Hash of the events. Two runs with the same parameters have the same hash.
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
