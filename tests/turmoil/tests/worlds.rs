//! Whole sets on a simulated network; see the crate for how they run, and `CONTRIBUTING.md` for how one is repeated.

use std::time::Duration;

use seq_turmoil::seeds::{self, Outcome};
use seq_turmoil::world::{Shape, World};

/// Seeds of each random world in the gate: a minute of one core for all of them.
const SEEDS: u64 = 20;

/// How long things break.
const DISTURBED: Duration = Duration::from_secs(30);

/// How long it may take until everything works after everything healed: elections, failovers and the longest backoffs, many
/// times over.
const HEALED: Duration = Duration::from_secs(30);

fn stores(seed: u64) -> Outcome {
    let mut world = World::new(seed, Shape { allocs: 0, raisers: 2, callers: 0 });
    world.disturb_for(DISTURBED)?;
    world.heal();
    world.run_until("every section's ceiling is raised again", HEALED, |world| {
        world.ceilings().raised_again() == world.sections()
    })?;
    world.finish()
}

#[test]
fn acknowledged_ceilings_are_never_lost() {
    let must_happen = [
        "elections",
        "members crashed",
        "raises acknowledged",
        "calls to a member that does not lead",
        "calls of an earlier life refused",
        "raises of an earlier epoch refused",
        "links held",
    ];
    seeds::check("acknowledged_ceilings_are_never_lost", SEEDS, &must_happen, stores);
}

/// A member that hears nobody must not disturb the others when it is back, however long it was away.
fn pre_vote(seed: u64) -> Outcome {
    let mut world = World::new(seed, Shape { allocs: 0, raisers: 1, callers: 0 });
    let elected = |world: &World| world.books().leader().is_some();
    world.run_until("a leader is elected", HEALED, elected)?;
    world.run_for(Duration::from_secs(2))?;
    let (leader, elections) = (world.books().leader(), world.books().times("elections"));
    let follower = (1..=3).map(|id| format!("s{id}")).find(|name| leader.as_ref() != Some(name)).expect("one leads");
    let away = Duration::from_secs(2 + seed % 8);
    world.cut_off(world.index(&follower), away);
    world.run_for(away + Duration::from_secs(5))?;
    if (world.books().leader(), world.books().times("elections")) != (leader, elections) {
        world.books().violation(format_args!("{follower} was away, and the leader was deposed"));
    }
    world.finish()
}

#[test]
fn a_member_that_was_cut_off_does_not_depose_the_leader() {
    let test = "a_member_that_was_cut_off_does_not_depose_the_leader";
    seeds::check(test, SEEDS / 2, &["hosts cut off", "raises acknowledged"], pre_vote);
}

fn system(seed: u64) -> Outcome {
    let mut world = World::new(seed, Shape { allocs: 3, raisers: 0, callers: 2 });
    world.disturb_for(DISTURBED)?;
    world.heal();
    world.run_until("every uid is answered again", HEALED, |world| world.history().is_served_again())?;
    world.enter_nodes();
    world.finish()
}

#[test]
fn numbers_are_given_out_once_and_in_order() {
    let must_happen = ["elections", "nodes crashed", "numbers answered", "calls forwarded", "raises by nodes"];
    seeds::check("numbers_are_given_out_once_and_in_order", SEEDS, &must_happen, system);
}

#[test]
fn a_seed_makes_one_run() {
    seeds::check_repeats("acknowledged_ceilings_are_never_lost", 1);
    seeds::check_repeats("numbers_are_given_out_once_and_in_order", 1);
}
