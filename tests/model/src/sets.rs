//! A model of two sets: migrations of a section between them, their directory, restores of a store from its backup.
//!
//! # The world
//!
//! One section with one uid, resident in the set S; another set T. Each set has a store that is a linearizable register
//! with the section's record (never here, resident, departed, quarantined), a fence (the highest epoch it has
//! recorded), a lineage (the count of its restores), the oldest lineage of the other set that it accepts, and a
//! directory. Each set has one AllocSvr with its later sessions, whose processes run at the same time. There are calls,
//! readings, and a client with a directory. Sending and delivery of a message are two steps; messages are lost,
//! reordered, repeated by their sender until it has the response, and some are delivered twice. A participant may pause
//! between any two steps, even permanently.
//!
//! A migration: the store plans it, the owner copies the frozen section to a session of the other set, its store
//! commits the tombstone under the next epoch, and the other store commits the arrival. A section whose owner is silent
//! departs without a copy. A migration may be paused, completed, or rolled back, which requests a migration back from
//! the other set. A backup is made at any time, and replaces the store at any later time.
//!
//! # Three settings
//!
//! * **Calm**: no message is lost, no session ends, and calls are routed by directories. A migration leaves no gap,
//!   every call gets a response, and all other promises hold.
//! * **Ordered**: a lease is a flag, which ends before its section gets another owner without a handover. The flag
//!   replaces clocks and waits, which the model of one set has. All promises to callers hold, except the promises of a
//!   calm world.
//! * **Clockless**: no session ever stops, owners are replaced at any time. The promises that assume no clock.
//!
//! A call reaches an owner in one step, at any set where the owner serves: no call is sent later than that, so its
//! floor is the highest that it could have. In a calm world it is routed, which is one step for each hop.
//!
//! # Promises
//!
//! Promises to callers and clients: no number twice, order, no number above the ceiling, truthful reads, no gap and no
//! unanswered call (calm), no circle, a directory that never falls, and a section that is never lost: some record
//! always leads to its next residence. The records of stores promise each other: one residence, one home of an epoch,
//! claims that lead somewhere.
//!
//! # Left out
//!
//! * Parts of the model of one set: clocks, renewals, liveness counters, handovers inside of a set, the race of a call
//!   with the freeze of its slot.
//! * More than two sets, and closing a set. A fence is between two lineages, so each pair of sets is like these two;
//!   the response to a Fence is taken only when every set has responded.
//! * More than one section: sections share nothing but the fence of lineages, which is per set.
//! * Two backups of one store: the same backup is restored again. Margins count from the lineage of a ceiling.
//! * The response of the other set about its capacity, before the handover begins: it is advice. A handover to a
//!   session that is gone by then is in the model.

mod alloc_svr;
mod bounds;
mod calls;
mod directory;
mod events;
mod promises;
mod protocol;
mod restore;
mod runs;
mod store;
mod world;

use bounds::{Bounds, Bug};
use protocol::Protocol;
use runs::Run;

use crate::explore::{Events, Listed, Outcome, all_hold, explore, holds, is_large, is_traced, shortest, trace};

fn protocol(bounds: Bounds, callers_only: bool) -> Protocol {
    Protocol { bounds, events: Events::none(), callers_only }
}

/// Explores the correct protocol. A quarantined store repeats its Fence at any time, which makes cycles.
fn explored(bounds: Bounds) -> Outcome<Protocol> {
    let explore = if bounds.restores() { shortest } else { explore };
    explore(protocol(bounds, false))
}

/// Checks that the correct protocol holds in every run, and that each run reaches the events that it is made for.
fn hold(runs: &[Run]) {
    let result =
        |run: &Run| holds(run.name, explored(run.bounds), run.must_reach, || shortest(protocol(run.bounds, false)));
    all_hold(runs.iter().map(result));
}

#[test]
fn migrations_are_invisible_to_callers() {
    hold(&runs::calm_runs(is_large()));
}

#[test]
fn migrations_keep_the_promises() {
    hold(&runs::ordered_runs(is_large()));
}

#[test]
fn migrations_keep_the_promises_without_clocks() {
    hold(&runs::clockless_runs(is_large()));
}

#[test]
fn restores_keep_the_promises() {
    hold(&runs::restores(is_large()));
}

/// The records of the stores may show the first sign of a bug; callers and clients notice it later.
#[test]
fn every_planted_bug_of_sets_is_caught() {
    let mut missed = Vec::new();
    for bug in Bug::ALL {
        let bounds = Bounds { bug: Some(*bug), ..runs::world_of(*bug) };
        let first = shortest(protocol(bounds, false));
        let is_noticed = first.broken.as_ref().is_some_and(|(promise, _)| !promises::OF_RECORDS.contains(promise));
        let noticed = if is_noticed { &first } else { &shortest(protocol(bounds, true)) };
        println!("{bug:?}: first sign: {}; callers: {}", summary(&first), summary(noticed));
        match &noticed.broken {
            Some((_, steps)) if is_traced() => print!("{}", trace(steps)),
            Some(_) => {}
            None => missed.push(bug),
        }
    }
    assert!(missed.is_empty(), "the model misses {missed:?}");
}

fn summary(outcome: &Outcome<Protocol>) -> String {
    match &outcome.broken {
        Some((promise, steps)) => format!("{} steps, {} states, broken: {promise}", steps.len(), outcome.states),
        None => format!("not caught in {} states, {:?}", outcome.states, outcome.reached),
    }
}

/// Without the bug its world keeps every promise, so the bug itself was caught.
#[test]
fn without_its_bug_each_world_of_sets_keeps_the_promises() {
    let mut seen: Vec<Bounds> = Vec::new();
    for bug in Bug::ALL {
        let bounds = runs::world_of(*bug);
        if !seen.contains(&bounds) {
            let outcome = explored(bounds);
            println!("the world of {bug:?}: {} states, {:.1} s", outcome.states, outcome.seconds);
            assert!(!outcome.is_cut, "the world of {bug:?} was cut short");
            if let Some((promise, steps)) = outcome.broken {
                panic!("the world of {bug:?} without it: broken: {promise}\n{}", trace(&steps));
            }
            seen.push(bounds);
        }
    }
}
