//! A model of restores: three sets, an operator who counts, margins, leases of different length, and closing.
//!
//! # The world
//!
//! One section with one uid, in one of three sets A, B and C. A set has a store (a linearizable register, as in `sets`)
//! and one owner, which takes numbers below the committed ceiling. Stores are lost together with everything that was
//! committed since their backup, and an operator restores them under a count. The owner of a lost store continues to
//! serve for its lease: 1, 3 and 2 ticks in A, B and C, with equal clocks. A set in quarantine sends a request to each
//! other set, which fences the older lineages first and refuses a count that is too low; then a newer lineage begins by
//! itself. A set that has sent its section away may close; the other sets inherit its record, and its processes stop.
//!
//! Some sequences in the model of two sets are one step here: a departure, an arrival with its note, a fence with its
//! response. A response that is lost, and a message that is late, are not in this model.
//!
//! # Promises
//!
//! No number twice, numbers in order, one residence, no ceiling that falls, and no section that is lost.

mod bounds;
mod protocol;
mod quarantine;
mod world;

use bounds::{Bounds, Budget, Bug, Event};
use protocol::Protocol;

use crate::explore::{Events, Listed, Outcome, all_hold, explore, holds, is_traced, shortest, trace};

fn protocol(bounds: Bounds) -> Protocol {
    Protocol { bounds, events: Events::none() }
}

const NONE: Budget =
    Budget { sets: 2, serves: 2, migrations: 0, backups: [0; 3], restores: [0; 3], larger: 0, begins: 2, closes: 0 };

/// Returns the runs of the correct protocol, with the events that each must reach.
fn runs() -> Vec<(&'static str, Budget, &'static [Event])> {
    use Event::{BegunByItself, Closed, Ghost, Gone, Home, InResponse, Inherited, SentAgain, Voided, Waited};
    vec![
        (
            "restores: two sets, one of them twice",
            Budget { migrations: 1, backups: [1, 1, 0], restores: [2, 1, 0], ..NONE },
            &[BegunByItself, Ghost, Home, InResponse, Gone, Waited, Voided, SentAgain],
        ),
        (
            "restores: both sets twice",
            Budget { backups: [1, 1, 0], restores: [2, 2, 0], ..NONE },
            &[BegunByItself, Ghost, Home, Waited, Voided],
        ),
        (
            "restores: two sets, two migrations",
            Budget { migrations: 2, backups: [1, 1, 0], restores: [1, 1, 0], ..NONE },
            &[BegunByItself, Ghost, Home, InResponse, Gone, Waited, Voided],
        ),
        (
            "restores: three sets, one of them lost with all that it had",
            Budget { sets: 3, migrations: 1, backups: [1, 0, 1], restores: [1, 0, 1], begins: 1, ..NONE },
            &[BegunByItself, Ghost, Home, Gone, Waited],
        ),
        (
            "restores: one set three times, larger margins",
            Budget { serves: 4, backups: [1, 0, 0], restores: [3, 0, 0], larger: 1, ..NONE },
            &[Ghost, Home],
        ),
        (
            "restores: a set closes, another one is restored",
            Budget { serves: 1, migrations: 2, backups: [0, 1, 0], restores: [0, 1, 0], closes: 1, ..NONE },
            &[Closed, Inherited, Home, InResponse],
        ),
        (
            "restores: a set of three closes, the others are restored",
            Budget {
                sets: 3,
                serves: 0,
                migrations: 1,
                backups: [0, 1, 1],
                restores: [0, 1, 1],
                begins: 1,
                closes: 1,
                ..NONE
            },
            &[Closed, Inherited, InResponse],
        ),
    ]
}

/// Returns the small world in which a bug is planted.
fn world_of(bug: Bug) -> Budget {
    match bug {
        Bug::NthOfBackup => Budget { backups: [1, 1, 0], restores: [2, 2, 0], ..NONE },
        Bug::OneMargin => Budget { serves: 3, backups: [1, 0, 0], restores: [2, 0, 0], ..NONE },
        Bug::MarginFalls => Budget { serves: 4, backups: [1, 0, 0], restores: [2, 0, 0], larger: 1, ..NONE },
        Bug::WaitsByOwnTerms => Budget { serves: 3, migrations: 1, backups: [1, 1, 0], restores: [1, 1, 0], ..NONE },
        Bug::VoidKeepsClaims => Budget { migrations: 2, backups: [1, 1, 0], restores: [1, 1, 0], ..NONE },
        Bug::RecoveredNotSent => {
            Budget { sets: 3, serves: 0, migrations: 1, backups: [1, 0, 1], restores: [1, 0, 1], ..NONE }
        }
        Bug::NoQuarantine => Budget { migrations: 1, backups: [1, 0, 0], restores: [1, 0, 0], ..NONE },
        Bug::ClosedNotAsked => {
            Budget { serves: 0, migrations: 1, backups: [0, 1, 0], restores: [0, 1, 0], closes: 1, ..NONE }
        }
        Bug::InheritanceSkipped => {
            Budget { sets: 3, serves: 0, migrations: 1, backups: [0, 1, 0], restores: [0, 1, 0], closes: 1, ..NONE }
        }
    }
}

#[test]
fn restores_of_three_sets_keep_the_promises() {
    let result = |(name, budget, must_reach): (&'static str, Budget, &[Event])| {
        let of = || protocol(Bounds { budget, bug: None });
        holds(name, explore(of()), must_reach, || shortest(of()))
    };
    all_hold(runs().into_iter().map(result));
}

#[test]
fn every_planted_bug_of_restores_is_caught() {
    let mut missed = Vec::new();
    for bug in Bug::ALL {
        let budget = world_of(*bug);
        let outcome = shortest(protocol(Bounds { budget, bug: Some(*bug) }));
        println!("{bug:?}: {}", summary(&outcome));
        match &outcome.broken {
            Some((_, steps)) if is_traced() => print!("{}", trace(steps)),
            Some(_) => {}
            None => missed.push(bug),
        }
        let without = explore(protocol(Bounds { budget, bug: None }));
        println!("    without it: {} states, {:.1} s", without.states, without.seconds);
        if let Some((promise, _)) = without.broken {
            let steps = shortest(protocol(Bounds { budget, bug: None })).broken.expect("it was broken before").1;
            panic!("the world of {bug:?} without it: broken: {promise}\n{}", trace(&steps));
        }
        assert!(!without.is_cut, "the world of {bug:?} was cut short");
    }
    assert!(missed.is_empty(), "the model misses {missed:?}");
}

fn summary(outcome: &Outcome<Protocol>) -> String {
    match &outcome.broken {
        Some((promise, steps)) => format!("{} steps, {} states, broken: {promise}", steps.len(), outcome.states),
        None => format!("not caught in {} states, {:?}", outcome.states, outcome.reached),
    }
}
