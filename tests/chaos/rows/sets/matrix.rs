//! Each step of a migration with each victim: the step is held, the victim is killed or cut off, the step is released,
//! and the victim returns later.
//!
//! The sections go to and fro: each cell begins in the set where the previous cell ended.

use std::fmt::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use seq_proto::v1::{self, MigrationPhase};

use seq_testkit::eventually;

use super::{Admin, TWO_SETS, Way, admin, complete, is_in, pace, sections_of, start_paused, status, stores, wait};
use crate::cluster::Cluster;
use crate::machine::pause;
use crate::net::Host;
use crate::node::Node;
use crate::scene::Scene;

/// The sections of a cell's migration.
const SECTIONS: std::ops::Range<u32> = 8..12;

/// Time that a victim stays down after the step is released: longer than an election, and than a lease.
const DOWN: Duration = Duration::from_secs(4);

/// Time that a step is held after its visible effect, so that a message between two nodes has arrived.
const SETTLED: Duration = Duration::from_millis(300);

/// Time longer than the arming of a section lasts.
const ARMED: Duration = Duration::from_secs(6);

/// Interval between checks of whether a step is held.
const POLL: Duration = Duration::from_millis(100);

/// A held step of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The source's leader sends `Arm`, and the target does not receive it.
    Arm,
    /// The store has planned the handover, and the owner has not received the plan.
    Plan,
    /// The owner offers the section, and the next owner does not respond.
    Offer,
    /// The section is staged; its `Depart` does not reach the source's store.
    Depart,
    /// The tombstone is committed; `Arrive` does not reach the target.
    Arrive,
    /// The arrival is committed; the next owner is not notified.
    Grant,
    /// The arrival is committed; the source's leader gets no response.
    Note,
    /// The completion is committed; the target does not receive it.
    Complete,
    /// The rollback is committed; the target does not receive it.
    Rollback,
    /// The sections return; their owner there does not respond.
    Return,
}

const STEPS: [Step; 10] = [
    Step::Arm,
    Step::Plan,
    Step::Offer,
    Step::Depart,
    Step::Arrive,
    Step::Grant,
    Step::Note,
    Step::Complete,
    Step::Rollback,
    Step::Return,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    SourceLeader,
    TargetLeader,
    SourceAllocs,
    TargetAllocs,
    Network,
    Cli,
}

const VICTIMS: [Victim; 6] = [
    Victim::SourceLeader,
    Victim::TargetLeader,
    Victim::SourceAllocs,
    Victim::TargetAllocs,
    Victim::Network,
    Victim::Cli,
];

/// The end of a cell's migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Completed,
    RolledBack,
}

pub(in crate::rows) fn matrix() {
    let mut scene = Scene::start(TWO_SETS);
    let mut way = Way::Out;
    let mut table = format!("{:>9}", "");
    VICTIMS.iter().for_each(|victim| write!(table, "  {:>18}", format!("{victim:?}")).unwrap());
    for (row, step) in STEPS.into_iter().enumerate() {
        write!(table, "\n{:>9}", format!("{step:?}")).unwrap();
        for (column, victim) in VICTIMS.into_iter().enumerate() {
            let began = Instant::now();
            let ending = match step {
                Step::Complete => Ending::Completed,
                Step::Rollback | Step::Return => Ending::RolledBack,
                _ if (row + column).is_multiple_of(2) => Ending::Completed,
                _ => Ending::RolledBack,
            };
            cell(&mut scene.cluster, way, step, victim, ending);
            scene.load.wait_served();
            scene.load.report().assert_order();
            let took = format!("{ending:?} {:.1} s", began.elapsed().as_secs_f64());
            println!("  {step:?}, {victim:?}: {took}");
            write!(table, "  {took:>18}").unwrap();
            if ending == Ending::Completed {
                way = way.reversed();
            }
        }
    }
    println!("{table}");
    scene.end("each step with each victim");
}

/// Runs one migration, after which all its sections are in one set.
fn cell(cluster: &mut Cluster, way: Way, step: Step, victim: Victim, ending: Ending) {
    let all = |way: Way, cluster: &Cluster| sections_of(cluster, stores(cluster, way));
    let before = (all(way, cluster), all(way.reversed(), cluster));
    let id = start_paused(cluster, way, SECTIONS);
    let mut cli = (victim == Victim::Cli).then(|| watch(cluster, way, id));
    hold(cluster, way, step, id);
    if let Some(cli) = &mut cli {
        cli.kill().unwrap();
        cli.wait().unwrap();
    }
    strike(cluster, way, victim);
    pause(DOWN);
    recover(cluster);
    if ending == Ending::RolledBack {
        if !matches!(step, Step::Rollback | Step::Return) {
            rollback(cluster, way, id);
        }
        wait(cluster, way, id, "all sections have returned", is_in(MigrationPhase::RolledBack));
        eventually("the sections are where they were", || {
            ((all(way, cluster), all(way.reversed(), cluster)) == before).then_some(())
        });
    } else {
        if step != Step::Complete {
            wait(cluster, way, id, "all sections have arrived", is_in(MigrationPhase::Arrived));
            complete(cluster, way, id);
        }
        wait(cluster, way, id, "the migration is complete", is_in(MigrationPhase::Completed));
        let moved = SECTIONS.len();
        let after = (before.0 - moved, before.1 + moved);
        assert_eq!((all(way, cluster), all(way.reversed(), cluster)), after, "the sections are in the other set");
    }
}

/// Advances a paused migration to a step, and leaves it there.
fn hold(cluster: &Cluster, way: Way, step: Step, id: u64) {
    let resume = || pace(cluster, stores(cluster, way), id, false);
    let in_flight = || in_flight(cluster, way, id);
    let (source, target) = (allocs(cluster, way), allocs(cluster, way.reversed()));
    match step {
        Step::Arm => {
            cut_stores(cluster);
            resume();
            pause(SETTLED);
        }
        Step::Plan => {
            source.iter().for_each(Node::freeze);
            resume();
            in_flight();
        }
        Step::Offer => {
            target.iter().for_each(Node::freeze);
            resume();
            in_flight();
        }
        Step::Depart => {
            target.iter().for_each(Node::freeze);
            resume();
            in_flight();
            for (alloc, store) in pairs(&hosts(source), &hosts(stores(cluster, way))) {
                cluster.net.cut(alloc, store);
            }
            target.iter().for_each(Node::thaw);
            pause(SETTLED);
        }
        Step::Arrive | Step::Grant => {
            depart_into(
                cluster,
                way,
                id,
                || cut_stores(cluster),
                || status(cluster, way, id).is_some_and(|status| status.departed > 0),
            );
            if step == Step::Grant {
                target.iter().for_each(Node::freeze);
                cluster.net.heal();
                wait(cluster, way, id, "a section arrived", |status| status.arrived > 0);
            }
        }
        Step::Note => {
            let sections = || sections_of(cluster, stores(cluster, way.reversed()));
            let before = sections();
            let mute_target = || {
                for (from, to) in pairs(&hosts(stores(cluster, way.reversed())), &hosts(stores(cluster, way))) {
                    cluster.net.drop_packets(from, to);
                }
            };
            depart_into(cluster, way, id, mute_target, || sections() > before);
        }
        Step::Complete | Step::Rollback | Step::Return => {
            resume();
            wait(cluster, way, id, "all sections have arrived", is_in(MigrationPhase::Arrived));
            hold_end(cluster, way, step, id);
        }
    }
}

/// Lets sections depart while the links between the stores are cut, which happens once the sections are armed. The
/// arming ends after some seconds, so this is repeated until the step is held.
fn depart_into(cluster: &Cluster, way: Way, id: u64, cut: impl Fn(), is_held: impl Fn() -> bool) {
    let target = allocs(cluster, way.reversed());
    eventually("sections depart into the cut", || {
        target.iter().for_each(Node::freeze);
        pace(cluster, stores(cluster, way), id, false);
        in_flight(cluster, way, id);
        cut();
        target.iter().for_each(Node::thaw);
        let began = Instant::now();
        while began.elapsed() < ARMED {
            if is_held() {
                return Some(());
            }
            pause(POLL);
        }
        cluster.net.heal();
        pace(cluster, stores(cluster, way), id, true);
        wait(cluster, way, id, "no section is in flight", |status| status.in_flight == 0);
        None
    });
}

fn in_flight(cluster: &Cluster, way: Way, id: u64) {
    wait(cluster, way, id, "sections are in flight", |status| status.in_flight > 0 || status.departed > 0);
    pause(SETTLED);
}

/// Lets a migration end whose sections have all arrived, and holds the end.
fn hold_end(cluster: &Cluster, way: Way, step: Step, id: u64) {
    if step == Step::Return {
        allocs(cluster, way).iter().for_each(Node::freeze);
    } else {
        cut_stores(cluster);
    }
    if step == Step::Complete {
        admin(stores(cluster, way), cluster, async |mut client: Admin| {
            client.complete_migration(v1::CompleteMigrationRequest { id }).await
        });
    } else {
        rollback(cluster, way, id);
    }
    pause(SETTLED);
}

/// Kills or cuts off the victim, and releases all other processes.
fn strike(cluster: &mut Cluster, way: Way, victim: Victim) {
    let side = if matches!(victim, Victim::SourceLeader | Victim::SourceAllocs) { way } else { way.reversed() };
    match victim {
        Victim::SourceLeader | Victim::TargetLeader => {
            let leader = eventually("a store leads", || cluster.leader_of(stores(cluster, side)));
            let stores = if side == Way::Out { &mut cluster.stores } else { &mut cluster.other.stores };
            stores[leader].kill();
        }
        Victim::SourceAllocs | Victim::TargetAllocs => {
            let allocs = if side == Way::Out { &mut cluster.allocs } else { &mut cluster.other.allocs };
            allocs.iter_mut().for_each(Node::kill);
        }
        Victim::Network | Victim::Cli => {}
    }
    cluster.net.heal();
    if victim == Victim::Network {
        let of = |way: Way| [hosts(stores(cluster, way)), hosts(allocs(cluster, way))].concat();
        pairs(&of(Way::Out), &of(Way::Back)).for_each(|(one, other)| cluster.net.cut(one, other));
    }
    cluster.allocs.iter_mut().chain(&mut cluster.other.allocs).filter_map(running).for_each(|node| node.thaw());
}

fn running(node: &mut Node) -> Option<&mut Node> {
    node.is_running().then_some(node)
}

fn recover(cluster: &mut Cluster) {
    super::recover(cluster);
}

fn rollback(cluster: &Cluster, way: Way, id: u64) {
    admin(stores(cluster, way), cluster, async |mut client: Admin| {
        client.rollback_migration(v1::RollbackMigrationRequest { id }).await
    });
}

/// Starts the command that watches a migration.
fn watch(cluster: &Cluster, way: Way, id: u64) -> Child {
    let addr = format!("http://{}", stores(cluster, way)[0].addr);
    let mut command = Command::new(env!("CARGO_BIN_EXE_seqsvr"));
    command.args(["migration", "watch", &id.to_string(), "--addr", &addr]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn allocs(cluster: &Cluster, way: Way) -> &[Node] {
    if way == Way::Out { &cluster.allocs } else { &cluster.other.allocs }
}

fn cut_stores(cluster: &Cluster) {
    let (one, other) = (hosts(&cluster.stores), hosts(&cluster.other.stores));
    pairs(&one, &other).for_each(|(one, other)| cluster.net.cut(one, other));
}

fn hosts(nodes: &[Node]) -> Vec<Host> {
    nodes.iter().map(|node| node.host.clone()).collect()
}

fn pairs<'a>(ones: &'a [Host], others: &'a [Host]) -> impl Iterator<Item = (&'a Host, &'a Host)> {
    ones.iter().flat_map(move |one| others.iter().map(move |other| (one, other)))
}
