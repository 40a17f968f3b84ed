//! Sections that migrate between two sets under load, and the loss of a set.

use std::time::{Duration, Instant};

use seq_proto::v1::set_admin_service_client::SetAdminServiceClient;
use seq_proto::v1::{self, MigrationPhase, MigrationStatus};
use seq_testkit::eventually;
use tonic::transport::Channel;

use crate::cluster::{Cluster, OTHER_SET, SECTION_SIZE, SET, Shape};
use crate::load::Report;
use crate::machine::pause;
use crate::node::Node;
use crate::scene::Scene;

pub(super) mod matrix;
pub(super) mod restores;

/// Two sets; all sections begin in the first set.
pub(super) const TWO_SETS: Shape = Shape { sections: 24, two_sets: true, allocs: 2, ..Shape::USUAL };

/// The sections that are split off.
const SPLIT: std::ops::Range<u32> = 8..24;

/// Sections per second: few, so that a migration takes some seconds.
const RATE: u32 = 8;

type Admin = SetAdminServiceClient<Channel>;

/// The direction of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Out,
    Back,
}

impl Way {
    fn reversed(self) -> Way {
        match self {
            Way::Out => Way::Back,
            Way::Back => Way::Out,
        }
    }
}

pub(super) fn split_and_merge() {
    let scene = Scene::start(TWO_SETS);
    scene.load.seamless();
    let cluster = &scene.cluster;

    // The first migration is paused, resumed, and rolled back half-way.
    let first = start(cluster, Way::Out, SPLIT, RATE);
    wait(cluster, Way::Out, first, "three sections departed", |status| status.departed >= 3);
    pace(cluster, &cluster.stores, first, true);
    let paused = wait(cluster, Way::Out, first, "no section is in flight", |status| status.in_flight == 0);
    pause(Duration::from_millis(500));
    let later = status(cluster, Way::Out, first).expect("it began");
    assert_eq!(later.departed, paused.departed, "a section departed while the migration was paused");
    assert!(later.departed < SPLIT.len() as u32, "the migration was paused half-way");
    pace(cluster, &cluster.stores, first, false);
    wait(cluster, Way::Out, first, "half of them departed", |status| status.departed >= 8);
    admin(&cluster.stores, cluster, async |mut client: Admin| {
        client.rollback_migration(v1::RollbackMigrationRequest { id: first }).await
    });
    wait(cluster, Way::Out, first, "all sections have returned", is_in(MigrationPhase::RolledBack));
    assert_eq!(sections_of(cluster, &cluster.other.stores), 0);

    // The second migration splits the sections off to the end.
    let began = Instant::now();
    let second = start(cluster, Way::Out, SPLIT, 200);
    let split = wait(cluster, Way::Out, second, "all sections have arrived", is_in(MigrationPhase::Arrived));
    print_migration("split", &split, began.elapsed());
    complete(cluster, Way::Out, second);
    assert_eq!(sections_of(cluster, &cluster.other.stores), SPLIT.len());
    scene.load.wait_served();

    // The sections return, and the other set is closed.
    let began = Instant::now();
    let back = start(cluster, Way::Back, SPLIT, 200);
    let merged = wait(cluster, Way::Back, back, "all sections have arrived", is_in(MigrationPhase::Arrived));
    print_migration("merge", &merged, began.elapsed());
    complete(cluster, Way::Back, back);
    let closed = async |mut client: Admin| {
        client.close_set(v1::CloseSetRequest { name: OTHER_SET.to_owned(), ..v1::CloseSetRequest::default() }).await
    };
    eventually("the set is closed", || {
        let response = cluster.set_admin(&cluster.other.stores, closed).ok()?;
        (response.state() == v1::SetState::Closed).then_some(())
    });
    let (report, _) = scene.end("split, rolled back, split, merged, closed");
    assert_nothing_failed(&report);
}

pub(super) fn set_lost() {
    let mut scene = Scene::start(TWO_SETS);
    let id = start(&scene.cluster, Way::Out, SPLIT, 200);
    wait(&scene.cluster, Way::Out, id, "all sections have arrived", is_in(MigrationPhase::Arrived));
    complete(&scene.cluster, Way::Out, id);
    scene.load.wait_served();
    scene.load.reset();
    pause(Duration::from_secs(3));
    let before = scene.load.report();
    before.print("both sets up");
    scene.load.reset();
    let other = &mut scene.cluster.other;
    other.stores.iter_mut().chain(&mut other.allocs).for_each(Node::kill);
    pause(Duration::from_secs(5));
    let during = scene.load.report();
    during.print("one set lost");
    let stayed = || (0..SPLIT.start as usize).map(|section| during.failed[section]).sum::<u64>();
    assert_eq!(stayed(), 0, "calls to the other set's sections failed: {:?}", during.failures);
    let began = Instant::now();
    let other = &mut scene.cluster.other;
    other.stores.iter_mut().chain(&mut other.allocs).for_each(Node::start);
    scene.load.wait_served();
    println!("  the lost set serves {:.2} s after its start", began.elapsed().as_secs_f64());
    scene.end("a set lost, and back");
}

/// The process or link that a fault hits while sections migrate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    SourceLeader,
    TargetLeader,
    SourceAllocs,
    TargetAllocs,
    NetworkBetweenSets,
}

const VICTIMS: [Victim; 5] = [
    Victim::SourceLeader,
    Victim::TargetLeader,
    Victim::SourceAllocs,
    Victim::TargetAllocs,
    Victim::NetworkBetweenSets,
];

/// Time that a cut lasts and a killed process stays down: longer than an election, and than a lease.
const FAULT: Duration = Duration::from_secs(4);

pub(super) fn faults() {
    let mut scene = Scene::start(TWO_SETS);
    for victim in VICTIMS {
        for way in [Way::Out, Way::Back] {
            let began = Instant::now();
            let id = start(&scene.cluster, way, SPLIT, RATE);
            wait(&scene.cluster, way, id, "three sections departed", |status| status.departed >= 3);
            strike(&mut scene.cluster, victim, way);
            pause(FAULT);
            recover(&mut scene.cluster);
            let status = wait(&scene.cluster, way, id, "all sections have arrived", is_in(MigrationPhase::Arrived));
            complete(&scene.cluster, way, id);
            scene.load.wait_served();
            print_migration(&format!("{victim:?}, {way:?}:"), &status, began.elapsed());
            scene.load.report().assert_order();
        }
    }
    scene.end("faults while sections migrate");
}

fn strike(cluster: &mut Cluster, victim: Victim, way: Way) {
    let leader = cluster.leader();
    let other_leader = cluster.leader_of(&cluster.other.stores);
    let (source, target) = if way == Way::Out { (leader, other_leader) } else { (other_leader, leader) };
    match victim {
        Victim::NetworkBetweenSets => {
            let stores = |stores: &[Node]| stores.iter().map(|node| node.host.clone()).collect::<Vec<_>>();
            for host in stores(&cluster.stores) {
                stores(&cluster.other.stores).iter().for_each(|other| cluster.net.cut(&host, other));
            }
        }
        Victim::SourceLeader => {
            let stores = if way == Way::Out { &mut cluster.stores } else { &mut cluster.other.stores };
            stores[source.expect("it leads")].kill();
        }
        Victim::TargetLeader => {
            let stores = if way == Way::Out { &mut cluster.other.stores } else { &mut cluster.stores };
            stores[target.expect("it leads")].kill();
        }
        Victim::SourceAllocs | Victim::TargetAllocs => {
            let first = (victim == Victim::SourceAllocs) == (way == Way::Out);
            let allocs = if first { &mut cluster.allocs } else { &mut cluster.other.allocs };
            allocs.iter_mut().for_each(Node::kill);
        }
    }
}

fn recover(cluster: &mut Cluster) {
    cluster.net.heal();
    let Cluster { stores, allocs, other, .. } = cluster;
    let nodes = stores.iter_mut().chain(allocs).chain(&mut other.stores).chain(&mut other.allocs);
    nodes.for_each(Node::ensure_runs);
}

/// Starts a migration of sections with a rate; returns its id.
pub(super) fn start(cluster: &Cluster, way: Way, sections: std::ops::Range<u32>, rate: u32) -> u64 {
    start_at(cluster, way, sections, v1::MigrationPace { rate, max_pause_ms: 1_000, paused: false })
}

/// Starts a migration that does not begin until it is resumed.
fn start_paused(cluster: &Cluster, way: Way, sections: std::ops::Range<u32>) -> u64 {
    start_at(cluster, way, sections, v1::MigrationPace { rate: 200, max_pause_ms: 1_000, paused: true })
}

/// Starts a migration of all sections of the set.
fn start_all(cluster: &Cluster, way: Way) -> u64 {
    start_runs(cluster, way, Vec::new(), v1::MigrationPace { rate: 200, max_pause_ms: 1_000, paused: false })
}

fn start_at(cluster: &Cluster, way: Way, sections: std::ops::Range<u32>, pace: v1::MigrationPace) -> u64 {
    let run = v1::SectionRange { first_section: sections.start, sections: sections.len() as u32 };
    start_runs(cluster, way, vec![run], pace)
}

/// Starts a migration of these runs, or of all sections if there are none.
fn start_runs(cluster: &Cluster, way: Way, runs: Vec<v1::SectionRange>, pace: v1::MigrationPace) -> u64 {
    let to = if way == Way::Out { OTHER_SET } else { SET };
    let all = runs.is_empty();
    let request = v1::PlanMigrationRequest { to: to.to_owned(), runs, all, pace: Some(pace), series: Vec::new() };
    // A set can be without a leader for a moment; the plan of the other set then reports that it takes no sections.
    let plan = eventually("the migration is possible", || {
        let call = async |mut client: Admin| client.plan_migration(request.clone()).await;
        Some(admin(stores(cluster, way), cluster, call)).filter(|plan| plan.problems.is_empty())
    });
    let request = v1::StartMigrationRequest { plan: plan.plan, pace: Some(pace) };
    let started =
        admin(stores(cluster, way), cluster, async |mut client: Admin| client.start_migration(request.clone()).await);
    started.migration.expect("it began").id
}

fn pace(cluster: &Cluster, stores: &[Node], id: u64, paused: bool) {
    let pace = v1::MigrationPace { rate: 0, max_pause_ms: 0, paused };
    admin(stores, cluster, async |mut client: Admin| {
        client.set_pace(v1::SetPaceRequest { id, pace: Some(pace) }).await
    });
}

pub(super) fn complete(cluster: &Cluster, way: Way, id: u64) {
    admin(stores(cluster, way), cluster, async |mut client: Admin| {
        client.complete_migration(v1::CompleteMigrationRequest { id }).await
    });
    wait(cluster, way, id, "the migration is complete", is_in(MigrationPhase::Completed));
}

fn status(cluster: &Cluster, way: Way, id: u64) -> Option<MigrationStatus> {
    let list = async |mut client: Admin| client.list_migrations(v1::ListMigrationsRequest { id }).await;
    cluster.set_admin(stores(cluster, way), list).ok()?.migrations.pop()
}

pub(super) fn wait(
    cluster: &Cluster,
    way: Way,
    id: u64,
    what: &str,
    is: impl Fn(&MigrationStatus) -> bool,
) -> MigrationStatus {
    eventually(what, || status(cluster, way, id).filter(|status| is(status)))
}

pub(super) fn is_in(phase: MigrationPhase) -> impl Fn(&MigrationStatus) -> bool {
    move |status| status.phase() == phase
}

/// Returns the number of sections of a set, by its own store.
fn sections_of(cluster: &Cluster, stores: &[Node]) -> usize {
    let list = async |mut client: Admin| client.list_sets(v1::ListSetsRequest {}).await;
    admin(stores, cluster, list).sets[0].sections as usize
}

fn stores(cluster: &Cluster, way: Way) -> &[Node] {
    if way == Way::Out { &cluster.stores } else { &cluster.other.stores }
}

/// Sends a request until it succeeds, at the latest when the store has a leader again.
fn admin<A>(
    stores: &[Node],
    cluster: &Cluster,
    call: impl AsyncFn(Admin) -> Result<tonic::Response<A>, tonic::Status>,
) -> A {
    eventually("an operator's request succeeds", || match cluster.set_admin(stores, &call) {
        Ok(response) => Some(response),
        Err(status) if matches!(status.code(), tonic::Code::Unavailable | tonic::Code::DeadlineExceeded) => None,
        Err(status) => panic!("{status}"),
    })
}

fn print_migration(what: &str, status: &MigrationStatus, took: Duration) {
    println!(
        "  {what} of {} sections of {SECTION_SIZE} uids in {:.2} s; from departure to arrival p50 {:.1} ms, p99 {:.1} ms, \
         longest {:.1} ms",
        status.sections,
        took.as_secs_f64(),
        status.pause_p50_us as f64 / 1e3,
        status.pause_p99_us as f64 / 1e3,
        status.pause_max_us as f64 / 1e3,
    );
}

fn assert_nothing_failed(report: &Report) {
    assert!(report.failures.is_empty(), "{:?}", report.failures);
}
