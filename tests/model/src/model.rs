//! A model of the protocol by which sections change hands: leases, raises, changes of owner, planned moves.
//!
//! The model is written for this, apart from the code: it shows that the *rules* keep the promises of docs/safety.md, in every
//! interleaving within its bounds, and that each rule is needed. [stateright](https://www.stateright.rs) enumerates the
//! interleavings. That the code follows the rules is for other tests to show.
//!
//! # What there is
//!
//! One section with one uid; two AllocSvrs and, where a run has it, a second life of one of them beside its first; a store that is
//! a linearizable register; an arbiter that looks at it whenever it likes. Every message is a step of its own when it is sent
//! and when it arrives. Messages are lost (never delivered), overtake each other, and some arrive twice. Whoever takes no step
//! for a while is paused, and for good, has crashed; that can begin between any two steps. So there is no step for a crash:
//! a life that registers anew finds the first one anywhere in its work.
//!
//! A call is three steps: it arrives and the clock is read; lease and table are looked at; the slot is moved and the call
//! answered. Clocks tick together, but an owner's may fall one tick behind the arbiter's, which is what their rates may differ by
//! in one wait: a lease is 2 ticks and the wait is 3.
//!
//! # Three settings
//!
//! * **Timed**: leases, waits, renewals. All promises.
//! * **Clockless**: owners never stop by themselves, arbiters propose whenever they like, and nothing that was heard is compared.
//!   The promises that assume no clock: no number twice, none above the ceiling, no ceiling above what was asked for.
//! * **Calm**: nothing is lost and nobody dies. A planned move leaves no gap and refuses nobody, and all the rest holds.
//!
//! # Runs
//!
//! [`runs`] says what each run explores. Each must come across the events it is there for, or it fails: a model in which
//! nothing happens proves nothing. They explore 7.8 million states in all, 30,000 to 2.3 million each; docs/safety.md has the
//! table. `MODEL_DEPTH=large` widens most bounds by one.
//!
//! [`bounds::Bug`] lists variations of the protocol. Each is planted in a small world, where it must be caught, and which must keep
//! every promise without it. Printed for each bug is the number of steps to the broken promise, and with `MODEL_TRACE=1` the steps:
//!
//! ```sh
//! cargo test -p seq-model                                             # all
//! MODEL_TRACE=1 cargo test -p seq-model planted -- --nocapture        # what each bug leads to
//! MODEL_DEPTH=large cargo test --release -p seq-model -- --nocapture --test-threads 1
//! ```
//!
//! # What it leaves out
//!
//! * The numbers of renewals: the model's store takes any renewal of a life that goes on, the real one only the next or the
//!   last again. The routes that callers name: the model's owner answers whatever epoch they know. Both allow more than the real
//!   ones do, so what holds here holds there.
//! * More than one section and uid. A lease belongs to a node, and what is said of one section holds for each; the slots of
//!   a section are frozen and copied one by one, each as this one is.
//! * The store's inside: elections, its log, its disk. It is linearizable, by Raft.
//! * Counts above 1, deadlines, the bound on calls that are held, placement (anybody may be proposed), SIGTERM (that is
//!   a planned move or a release).
//! * Three clocks that make one: the owner's is one that never stops, and a bug lets it stop.
//! * Clocks of owners that run ahead of the arbiter's: their leases only end sooner.
//! * A call that was read a clock for outside of the lease waits for a renewal for one tick, then its caller tries again.

mod arbiter;
mod bounds;
mod calls;
mod moves;
mod owner;
mod protocol;
mod runs;
mod seen;
mod store;
mod world;

use std::time::Instant;

use bounds::{Bounds, Bug};
use protocol::{Protocol, Step};
use runs::Run;
use seen::{Event, Seen};
use stateright::{Checker, CheckerBuilder, HasDiscoveries, Model};

/// What an exploration found.
struct Outcome {
    states: usize,
    seen: Vec<(Event, u64)>,
    seconds: f64,
    /// A broken promise, with the steps that lead there.
    broken: Option<(&'static str, Vec<Step>)>,
}

/// Explores every world that the bounds allow, or up to a broken promise. Depth first takes little memory.
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
    let model = Protocol { bounds: bounds.clone(), seen: Seen::nothing() };
    model.checker().finish_when(HasDiscoveries::AnyFailures)
}

fn outcome(checker: impl Checker<Protocol>, start: Instant) -> Outcome {
    let broken = checker.discoveries().into_iter().map(|(promise, path)| (promise, path.into_actions()));
    Outcome {
        states: checker.unique_state_count(),
        seen: Event::ALL.iter().map(|event| (*event, checker.model().seen.count(*event))).collect(),
        seconds: start.elapsed().as_secs_f64(),
        broken: broken.min_by_key(|(promise, steps)| (steps.len(), *promise)),
    }
}

/// The trace, one step a line.
fn trace(steps: &[Step]) -> String {
    steps.iter().zip(1..).map(|(step, number)| format!("  {number:2} {step:?}\n")).collect()
}

/// Whether the bigger bounds are asked for.
fn is_large() -> bool {
    asked("MODEL_DEPTH").is_some_and(|depth| depth == "large")
}

#[expect(clippy::disallowed_methods, reason = "a test has no configuration but its environment")]
fn asked(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The correct protocol holds in every run, and each run comes across what it is there for.
fn holds(runs: Vec<Run>) {
    for Run { name, bounds, must_see } in runs {
        let outcome = explore(&bounds);
        println!("{name}: {} states, {:.1} s", outcome.states, outcome.seconds);
        if outcome.broken.is_some() {
            let (promise, steps) = shortest(&bounds).broken.expect("it was broken before");
            panic!("{name}: not kept: {promise}\n{}", trace(&steps));
        }
        for event in must_see {
            let seen = outcome.seen.iter().any(|(other, count)| other == event && *count > 0);
            assert!(seen, "{name} never came across {event:?}, so it says nothing; it saw {:?}", outcome.seen);
        }
    }
}

#[test]
fn leases_keep_the_promises() {
    holds(runs::timed(is_large()));
}

#[test]
fn planned_moves_keep_the_promises() {
    holds(runs::moves(is_large()));
}

#[test]
fn planned_moves_are_not_felt() {
    holds(runs::calm(is_large()));
}

#[test]
fn every_planted_bug_is_caught() {
    let mut missed = Vec::new();
    for bug in Bug::ALL {
        let outcome = shortest(&Bounds { bug: Some(*bug), ..runs::where_it_shows(*bug) });
        let Some((promise, steps)) = outcome.broken else {
            println!("{bug:?}: not caught in {} states; it was seen {:?}", outcome.states, outcome.seen);
            missed.push(bug);
            continue;
        };
        println!("{bug:?}: {} steps, {} states: not kept: {promise}", steps.len(), outcome.states);
        if asked("MODEL_TRACE").is_some() {
            print!("{}", trace(&steps));
        }
    }
    assert!(missed.is_empty(), "the model misses {missed:?}");
}

/// Without the bug its world keeps every promise: it was the bug that was caught.
#[test]
fn without_its_bug_each_world_keeps_the_promises() {
    let runs = [runs::timed(false), runs::moves(false), runs::calm(false)];
    let mut explored: Vec<Bounds> = runs.into_iter().flatten().map(|run| run.bounds).collect();
    for bug in Bug::ALL {
        let bounds = runs::where_it_shows(*bug);
        if !explored.contains(&bounds) {
            if let Some((promise, steps)) = explore(&bounds).broken {
                panic!("the world of {bug:?} without it: not kept: {promise}\n{}", trace(&steps));
            }
            explored.push(bounds);
        }
    }
}
