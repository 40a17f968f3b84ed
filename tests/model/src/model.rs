//! A model of section ownership: leases, raises, changes of owner, peer routes, handovers.
//!
//! The model shares no code with the service. It shows that the *rules* keep the promises of docs/safety.md in every
//! interleaving within its bounds, and that each rule is needed. [stateright](https://www.stateright.rs) enumerates the
//! interleavings. That the code follows the rules is left to other tests.
//!
//! # The world
//!
//! One section with one uid; two AllocSvrs and, in some runs, a second session of one AllocSvr while its first still
//! runs; a store that is a linearizable register; an arbiter that evaluates it at any time. Sending and delivery of a
//! message are two steps. Messages are lost (never delivered), reordered, and some are delivered twice. A participant
//! without a step is paused, and permanently, crashed; that can begin between any two steps. So there is no step for a
//! crash: a session that registers anew finds the earlier session at any point of its work. Only a death that a parent
//! reports is a step, because the report says that the process takes no step any more.
//!
//! A call is three steps: it arrives and the clock is read; lease and table are checked; the slot is moved and the
//! response sent. Clocks tick together, but an owner's clock may fall one tick behind the arbiter's, which is the most
//! that their rates may differ by in one wait: a lease is 2 ticks and the wait is 3.
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
//! [`runs`] lists the runs and their bounds. Each must reach the events that it is made for, or it fails, because a
//! model in which nothing happens proves nothing. docs/safety.md has the table of states. `MODEL_DEPTH=large` widens
//! most bounds by one.
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
//! * Renewal numbers: the model's store accepts any renewal of a current session, the real store only the next or the
//!   last again. The epochs in calls: the model's owner serves a call with any epoch. Both allow more than the real
//!   store and owner, so a promise that holds here holds there.
//! * More than one section and uid. A lease belongs to a node, and the rules are the same for each section. The slots
//!   of a section are frozen and copied one after another, each like the slot in the model.
//! * The store's inside: elections, its log, its disk. It is linearizable, by Raft.
//! * Counts above 1, deadlines, the bound on pending calls, placement (any session may be proposed), SIGTERM (a
//!   handover or a release).
//! * The three clocks of a node: the model's owner has a single clock that never stops, and a bug lets it stop.
//! * Clocks of owners that run ahead of the arbiter's: their leases only end sooner.
//! * A call whose clock was read outside of the lease waits one tick for a renewal, then its caller retries.
//! * Peer routes of a session that is over: it does not respond here. They are as old as the session's last update,
//!   which some earlier response of the session carried as well.

mod arbiter;
mod bounds;
mod calls;
mod events;
mod explore;
mod handover;
mod owner;
mod protocol;
mod restores;
mod runs;
mod sets;
mod store;
mod world;

use bounds::{Bounds, Bug};
use events::Event;
use explore::{Events, Explorable, Listed, all_hold, explore, holds, is_large, is_traced, shortest, trace};
use protocol::Protocol;
use runs::Run;

impl Explorable for Protocol {
    type Event = Event;

    fn events(&self) -> &Events<Event> {
        &self.events
    }
}

fn protocol(bounds: &Bounds) -> Protocol {
    Protocol { bounds: bounds.clone(), events: Events::none() }
}

/// Checks that the correct protocol holds in every run, and that each run reaches the events that it is made for.
fn hold(runs: &[Run]) {
    let result = |run: &Run| {
        let outcome = explore(protocol(&run.bounds));
        holds(run.name, outcome, run.must_reach, || shortest(protocol(&run.bounds)))
    };
    all_hold(runs.iter().map(result));
}

#[test]
fn leases_keep_the_promises() {
    hold(&runs::timed(is_large()));
}

#[test]
fn handovers_keep_the_promises() {
    hold(&runs::handovers(is_large()));
}

#[test]
fn handovers_are_invisible_to_callers() {
    hold(&runs::calm(is_large()));
}

#[test]
fn every_planted_bug_is_caught() {
    let mut missed = Vec::new();
    for bug in Bug::ALL {
        let outcome = shortest(protocol(&Bounds { bug: Some(*bug), ..runs::world_of(*bug) }));
        let Some((promise, steps)) = outcome.broken else {
            println!("{bug:?}: not caught in {} states; events: {:?}", outcome.states, outcome.reached);
            missed.push(bug);
            continue;
        };
        println!("{bug:?}: {} steps, {} states: broken: {promise}", steps.len(), outcome.states);
        if is_traced() {
            print!("{}", trace(&steps));
        }
    }
    assert!(missed.is_empty(), "the model misses {missed:?}");
}

/// Without the bug its world keeps every promise, so the bug itself was caught.
#[test]
fn without_its_bug_each_world_keeps_the_promises() {
    let runs = [runs::timed(false), runs::handovers(false), runs::calm(false)];
    let mut explored: Vec<Bounds> = runs.into_iter().flatten().map(|run| run.bounds).collect();
    for bug in Bug::ALL {
        let bounds = runs::world_of(*bug);
        if !explored.contains(&bounds) {
            if let Some((promise, steps)) = explore(protocol(&bounds)).broken {
                panic!("the world of {bug:?} without it: broken: {promise}\n{}", trace(&steps));
            }
            explored.push(bounds);
        }
    }
}
