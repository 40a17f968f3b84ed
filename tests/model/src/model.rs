//! A model of section ownership: leases, raises, changes of owner, peer routes, handovers.
//!
//! The model shares no code with the service. It shows that the *rules* keep the promises of docs/safety.md in every
//! interleaving within its bounds, and that each rule is needed. [stateright](https://www.stateright.rs) enumerates the
//! interleavings. That the code follows the rules is left to other tests.
//!
//! # The world
//!
//! One section with one uid; two AllocSvrs and, in some runs, a second session of one of them beside its first; a store
//! that is a linearizable register; an arbiter that evaluates it at any time. Sending and delivery of a message are two
//! steps. Messages are lost (never delivered), reordered, and some are delivered twice. A participant without a step is
//! paused, and for good, crashed; that can begin between any two steps. So there is no step for a crash: a session that
//! registers anew finds the first one at any point of its work.
//!
//! A call is three steps: it arrives and the clock is read; lease and table are checked; the slot is moved and the
//! response sent. Clocks tick together, but an owner's may fall one tick behind the arbiter's, the most that their
//! rates may differ by in one wait: a lease is 2 ticks and the wait is 3.
//!
//! # Three settings
//!
//! * **Timed**: leases, waits, renewals. All promises.
//! * **Clockless**: owners never stop by themselves, arbiters propose at any time, and no liveness counter is compared.
//!   The promises that assume no clock: no number twice, none above the ceiling, no ceiling above the requested one.
//! * **Calm**: no message is lost and no session ends. A handover leaves no gap and refuses no call, and all other
//!   promises hold.
//!
//! # Runs
//!
//! [`runs`] lists the runs and their bounds. Each must reach the events that it is made for, or it fails: a model in
//! which nothing happens proves nothing. docs/safety.md has the table of states. `MODEL_DEPTH=large` widens most bounds
//! by one.
//!
//! [`bounds::Bug`] lists variations of the protocol. Each is planted in a small world, where it must be caught, and
//! which must keep every promise without it. The test prints the number of steps to the broken promise, and with
//! `MODEL_TRACE=1` the steps:
//!
//! ```sh
//! cargo test -p seq-model                                             # all
//! MODEL_TRACE=1 cargo test -p seq-model planted -- --nocapture        # what each bug leads to
//! MODEL_DEPTH=large cargo test --release -p seq-model -- --nocapture --test-threads 1
//! ```
//!
//! # Left out
//!
//! * Renewal numbers: the model's store accepts any renewal of a current session, the real one only the next or the
//!   last again. The epochs in calls: the model's owner serves a call with any epoch. Both allow more than the real
//!   ones, so a promise that holds here holds there.
//! * More than one section and uid. A lease belongs to a node, and the rules are the same for each section; the slots
//!   of a section are frozen and copied one by one, like this one.
//! * The store's inside: elections, its log, its disk. It is linearizable, by Raft.
//! * Counts above 1, deadlines, the bound on pending calls, placement (any session may be proposed), SIGTERM (a
//!   handover or a release).
//! * The three clocks of a node: the model's owner has one that never stops, and a bug lets it stop.
//! * Clocks of owners that run ahead of the arbiter's: their leases only end sooner.
//! * A call whose clock was read outside of the lease waits one tick for a renewal, then its caller retries.
//! * Peer routes of a session that is over: it does not respond here. They are as old as the session's last update,
//!   which some earlier response of it carried as well.

mod arbiter;
mod bounds;
mod calls;
mod events;
mod handover;
mod owner;
mod protocol;
mod runs;
mod store;
mod world;

use std::time::Instant;

use bounds::{Bounds, Bug};
use events::{Event, Events};
use protocol::{Protocol, Step};
use runs::Run;
use stateright::{Checker, CheckerBuilder, HasDiscoveries, Model};

/// Result of an exploration.
struct Outcome {
    states: usize,
    events: Vec<(Event, u64)>,
    seconds: f64,
    /// A broken promise, with the steps that lead there.
    broken: Option<(&'static str, Vec<Step>)>,
}

/// Explores every world within the bounds, or up to a broken promise. Depth first takes little memory.
fn explore(bounds: &Bounds) -> Outcome {
    let start = Instant::now();
    outcome(checker(bounds).spawn_dfs().join(), start)
}

/// The same, breadth first, so that the counterexample is about as short as one can be.
fn shortest(bounds: &Bounds) -> Outcome {
    let start = Instant::now();
    outcome(checker(bounds).spawn_bfs().join(), start)
}

fn checker(bounds: &Bounds) -> CheckerBuilder<Protocol> {
    let model = Protocol { bounds: bounds.clone(), events: Events::none() };
    model.checker().finish_when(HasDiscoveries::AnyFailures)
}

fn outcome(checker: impl Checker<Protocol>, start: Instant) -> Outcome {
    let broken = checker.discoveries().into_iter().map(|(promise, path)| (promise, path.into_actions()));
    Outcome {
        states: checker.unique_state_count(),
        events: Event::ALL.iter().map(|event| (*event, checker.model().events.count(*event))).collect(),
        seconds: start.elapsed().as_secs_f64(),
        broken: broken.min_by_key(|(promise, steps)| (steps.len(), *promise)),
    }
}

/// The trace, one step a line.
fn trace(steps: &[Step]) -> String {
    steps.iter().zip(1..).map(|(step, number)| format!("  {number:2} {step:?}\n")).collect()
}

/// Whether the large bounds are requested.
fn is_large() -> bool {
    requested("MODEL_DEPTH").is_some_and(|depth| depth == "large")
}

#[expect(clippy::disallowed_methods, reason = "a test has no configuration but its environment")]
fn requested(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The correct protocol holds in every run, and each run reaches the events that it is made for.
fn holds(runs: Vec<Run>) {
    for Run { name, bounds, must_reach } in runs {
        let outcome = explore(&bounds);
        println!("{name}: {} states, {:.1} s", outcome.states, outcome.seconds);
        if outcome.broken.is_some() {
            let (promise, steps) = shortest(&bounds).broken.expect("it was broken before");
            panic!("{name}: broken: {promise}\n{}", trace(&steps));
        }
        for event in must_reach {
            let events = outcome.events.iter().any(|(other, count)| other == event && *count > 0);
            assert!(events, "{name} never reached {event:?}, so it proves nothing; it reached {:?}", outcome.events);
        }
    }
}

#[test]
fn leases_keep_the_promises() {
    holds(runs::timed(is_large()));
}

#[test]
fn handovers_keep_the_promises() {
    holds(runs::handovers(is_large()));
}

#[test]
fn handovers_are_invisible_to_callers() {
    holds(runs::calm(is_large()));
}

#[test]
fn every_planted_bug_is_caught() {
    let mut missed = Vec::new();
    for bug in Bug::ALL {
        let outcome = shortest(&Bounds { bug: Some(*bug), ..runs::world_of(*bug) });
        let Some((promise, steps)) = outcome.broken else {
            println!("{bug:?}: not caught in {} states; events: {:?}", outcome.states, outcome.events);
            missed.push(bug);
            continue;
        };
        println!("{bug:?}: {} steps, {} states: broken: {promise}", steps.len(), outcome.states);
        if requested("MODEL_TRACE").is_some() {
            print!("{}", trace(&steps));
        }
    }
    assert!(missed.is_empty(), "the model misses {missed:?}");
}

/// Without the bug its world keeps every promise: the bug itself was caught.
#[test]
fn without_its_bug_each_world_keeps_the_promises() {
    let runs = [runs::timed(false), runs::handovers(false), runs::calm(false)];
    let mut explored: Vec<Bounds> = runs.into_iter().flatten().map(|run| run.bounds).collect();
    for bug in Bug::ALL {
        let bounds = runs::world_of(*bug);
        if !explored.contains(&bounds) {
            if let Some((promise, steps)) = explore(&bounds).broken {
                panic!("the world of {bug:?} without it: broken: {promise}\n{}", trace(&steps));
            }
            explored.push(bounds);
        }
    }
}
