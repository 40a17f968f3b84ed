//! Whole sets on a simulated network. See the crate for how they run, and `CONTRIBUTING.md` for how a run is repeated.

use std::time::Duration;

use seq_turmoil::clocks::Rates;
use seq_turmoil::seeds::{self, Outcome};
use seq_turmoil::world::{Failure, PARENT, Shape, World};

/// Seeds of each random world in the gate: together they take a minute of one core.
const SEEDS: u64 = 10;

/// Seeds of worlds with wild clocks; about one in six seeds shows a violation of the order.
const WILD_SEEDS: u64 = 40;

/// Time during which faults are injected.
const DISTURBED: Duration = Duration::from_secs(30);

/// Handovers that are interrupted in one run.
const INTERRUPTIONS: u32 = 6;

/// Time within which everything must work after everything healed: many times the duration of elections, failovers and
/// the longest backoffs.
const HEALED: Duration = Duration::from_secs(30);

/// The store alone, with bare clients.
const STORE: Shape = Shape { allocs: 0, raisers: 2, callers: 0, parents: false, rates: Rates::Sound };

/// The whole system.
const SYSTEM: Shape = Shape { allocs: 3, raisers: 0, callers: 2, parents: false, rates: Rates::Sound };

fn stores(seed: u64) -> Outcome {
    let mut world = World::new(seed, STORE);
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
        "requests of an earlier session refused",
        "raises of an earlier epoch refused",
        "links held",
    ];
    seeds::check("acknowledged_ceilings_are_never_lost", SEEDS, &must_happen, stores);
}

/// Checks that a member that was cut off for any time does not disturb the others when it is back.
fn pre_vote(seed: u64) -> Outcome {
    let mut world = World::new(seed, STORE);
    let elected = |world: &World| world.report().leader().is_some();
    world.run_until("a leader is elected", HEALED, elected)?;
    world.run_for(Duration::from_secs(2))?;
    let (leader, elections) = (world.report().leader(), world.report().times("elections"));
    let follower = (1..=3).map(|id| format!("s{id}")).find(|name| leader.as_ref() != Some(name)).expect("one leads");
    let away = Duration::from_secs(2 + seed % 8);
    world.cut_off(world.index(&follower), away);
    world.run_for(away + Duration::from_secs(5))?;
    if (world.report().leader(), world.report().times("elections")) != (leader, elections) {
        world.report().violation(format_args!("{follower} was away, and the leader was deposed"));
    }
    world.finish()
}

#[test]
fn a_member_that_was_cut_off_does_not_depose_the_leader() {
    let test = "a_member_that_was_cut_off_does_not_depose_the_leader";
    seeds::check(test, SEEDS / 2, &["hosts cut off", "raises acknowledged"], pre_vote);
}

fn system(seed: u64) -> Outcome {
    let mut world = World::new(seed, SYSTEM);
    world.disturb_for(DISTURBED)?;
    world.heal();
    world.run_until("every uid is answered again", HEALED, |world| world.history().all_served())?;
    world.finish()
}

#[test]
fn numbers_are_given_out_once_and_in_order() {
    let must_happen = [
        "elections",
        "networks split",
        "nodes crashed",
        "nodes left with nothing",
        "numbers answered",
        "exact reads",
        "upper bounds read",
        "advances",
        "seqsvr_forwarded_total",
        "seqsvr_wrong_owner_total",
        "seqsvr_ceiling_raises_total outcome=committed",
        "seqsvr_ceiling_raises_total outcome=refused",
        "seqsvr_handovers_total outcome=made",
        "seqsvr_handovers_total outcome=refused",
        "seqsvr_renewals_total outcome=failed",
    ];
    seeds::check("numbers_are_given_out_once_and_in_order", SEEDS, &must_happen, system);
}

/// Waits until every uid is served and every node has sections.
fn settle(world: &mut World) -> Result<(), Failure> {
    world.history().expect_all();
    world.run_until("every uid is answered", HEALED, |world| world.history().all_served())?;
    world.run_until("every node owns sections", HEALED, |world| {
        world.is_whole() && world.owned().len() == 3 && world.owned().values().all(|sections| *sections > 0)
    })
}

/// A node from which the store receives nothing loses its sections, and gets some when it is back. One backend reaches
/// only that node, the other backend all other nodes. The last responses to the node are late, and the clocks are as
/// far apart as allowed.
fn cut_off_from_the_store(seed: u64) -> Outcome {
    let mut world = World::new(seed, Shape { rates: Rates::Extreme, ..SYSTEM });
    settle(&mut world)?;
    let name = format!("a{}", 1 + seed % 3);
    let late = Duration::from_millis(world.draw(450));
    world.hold(&name, 's', late);
    // The held messages arrive, and after them no other.
    world.run_for(late + Duration::from_millis(10))?;
    world.split(&[&name, "c2"], Duration::from_secs(8));
    world.run_until("the others own everything", Duration::from_secs(8), |world| {
        let others = world.owned().into_iter().filter(|(other, _)| *other != name);
        others.map(|(_, sections)| sections as usize).sum::<usize>() == world.sections()
    })?;
    world.report().count("failovers");
    world.history().expect_all();
    world.run_until("every uid is answered", HEALED, |world| world.history().all_served())?;
    world.run_for(Duration::from_secs(8))?;
    settle(&mut world)?;
    world.finish()
}

#[test]
fn a_node_cut_off_from_the_store_is_replaced_and_comes_back() {
    let test = "a_node_cut_off_from_the_store_is_replaced_and_comes_back";
    seeds::check(test, SEEDS / 2, &["failovers", "seqsvr_handovers_total outcome=made"], cut_off_from_the_store);
}

/// The processes of nodes crash, and their parents report it. Before random faults, the store's leader is cut off
/// together with the parents, so it takes a report that it cannot commit.
fn reported_deaths(seed: u64) -> Outcome {
    let mut world = World::new(seed, Shape { parents: true, ..SYSTEM });
    settle(&mut world)?;
    let leader = world.report().leader().expect("every node owns sections");
    let away = Duration::from_secs(1 + world.draw(6));
    world.split(&[&leader, PARENT], away);
    let name = format!("a{}", 1 + seed % 3);
    world.crash(world.index(&name));
    world.run_for(away)?;
    settle(&mut world)?;
    world.disturb_for(DISTURBED)?;
    world.heal();
    world.run_until("every uid is answered again", HEALED, |world| world.history().all_served())?;
    world.finish()
}

#[test]
fn reported_deaths_keep_the_order() {
    let must_happen = [
        "nodes crashed",
        "deaths noted",
        "reports that changed nothing",
        "seqsvr_deaths_reported_total",
        "networks split",
        "elections",
        "numbers answered",
    ];
    seeds::check("reported_deaths_keep_the_order", SEEDS, &must_happen, reported_deaths);
}

/// Restarts the nodes one after the other, as planned and under load, which clients must not notice.
fn rolling_restart(seed: u64) -> Outcome {
    let mut world = World::new(seed, SYSTEM);
    settle(&mut world)?;
    world.history().seamless();
    for name in ["a1", "a2", "a3"] {
        world.leave(name);
        world.run_for(Duration::from_secs(2))?;
        settle(&mut world)?;
    }
    world.finish()
}

#[test]
fn a_rolling_restart_skips_no_number_and_fails_no_call() {
    let test = "a_rolling_restart_skips_no_number_and_fails_no_call";
    let must_happen = ["nodes left with nothing", "seqsvr_handovers_total outcome=made"];
    seeds::check(test, SEEDS / 2, &must_happen, rolling_restart);
}

/// A node leaves, and during its handovers a host crashes or is cut off.
fn interrupted_moves(seed: u64) -> Outcome {
    let mut world = World::new(seed, SYSTEM);
    settle(&mut world)?;
    for _ in 0..INTERRUPTIONS {
        let (source, other) = (1 + world.draw(3), 1 + world.draw(3));
        world.leave(&format!("a{source}"));
        let moment = Duration::from_millis(world.draw(300));
        world.run_for(moment)?;
        let other = format!("a{other}");
        if world.draw(2) == 0 {
            world.crash(world.index(&other));
        } else {
            let time = Duration::from_millis(1 + world.draw(3_000));
            world.split(&[&other], time);
        }
        world.run_for(Duration::from_secs(1))?;
    }
    settle(&mut world)?;
    world.finish()
}

#[test]
fn an_interrupted_move_ends_somewhere() {
    let must_happen = [
        "seqsvr_handovers_total outcome=made",
        "seqsvr_handovers_total outcome=refused",
        "seqsvr_handovers_total outcome=thawed",
    ];
    seeds::check("an_interrupted_move_ends_somewhere", SEEDS, &must_happen, interrupted_moves);
}

/// The order of numbers depends on the rates of clocks, but their uniqueness does not.
fn wild_clocks(seed: u64) -> Outcome {
    let mut world = World::new(seed, Shape { rates: Rates::Wild, ..SYSTEM });
    world.history().unordered();
    world.run_until("every uid is answered", HEALED, |world| world.history().all_served())?;
    world.split(&[&format!("a{}", 1 + seed % 3), "c2"], Duration::from_secs(8));
    world.run_for(Duration::from_secs(8))?;
    world.disturb_for(DISTURBED)?;
    world.finish()
}

#[test]
fn numbers_are_given_out_once_whatever_clocks_say() {
    let test = "numbers_are_given_out_once_whatever_clocks_say";
    // The numbers are out of order: the checker detects it when the bound on clocks does not hold.
    seeds::check(test, WILD_SEEDS, &["numbers answered", "answers out of order"], wild_clocks);
}

#[test]
fn a_seed_makes_one_run() {
    seeds::check_repeats("acknowledged_ceilings_are_never_lost", 1);
    seeds::check_repeats("numbers_are_given_out_once_and_in_order", 1);
}
