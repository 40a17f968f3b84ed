//! Several sets: their creation, and the requests of operators.

use std::time::Duration;

use seq_core::set_spec::Genesis;
use seq_proto::v1::event_service_client::EventServiceClient;
use seq_proto::v1::set_admin_service_client::SetAdminServiceClient;
use seq_proto::v1::{
    CloseSetRequest, CompleteMigrationRequest, CreateSetRequest, ListMigrationsRequest, ListSectionsRequest,
    ListSectionsResponse, ListSetEventsRequest, ListSetsRequest, MigrationPace, MigrationPhase, MigrationPlan,
    PlanMigrationRequest, PlanMigrationResponse, RegisterRequest, RenewRequest, RollbackMigrationRequest, SectionRange,
    SectionState, SetInfo, SetPaceRequest, SetState, StartMigrationRequest,
};
use seq_testkit::until;
use tonic::transport::Channel;

use crate::cluster::{Cluster, Disk, LEASE_MS, channel, reason};
use crate::layout_writer::hand_over_series;
use crate::members;

/// Entries of the audit log for one operation: its begin and its end.
const RECORDS: u64 = 2;

/// Returns a set of one store, not started.
pub(crate) fn set(name: &str, cluster: &str, genesis: Genesis) -> Cluster {
    let mut set = Cluster::new(1, Disk::Memory);
    (set.spec.name, set.spec.genesis, set.name) = (name.into(), genesis, cluster.into());
    set
}

pub(crate) fn sets(cluster: &Cluster, id: u64) -> SetAdminServiceClient<Channel> {
    SetAdminServiceClient::new(channel(cluster.admin_addr(id)))
}

pub(crate) fn create(cluster: &Cluster, join: &[&str]) -> CreateSetRequest {
    CreateSetRequest { name: cluster.spec.name.clone(), join: join.iter().map(|addr| (*addr).to_owned()).collect() }
}

pub(crate) async fn list(cluster: &Cluster) -> Vec<SetInfo> {
    sets(cluster, 1).list_sets(ListSetsRequest {}).await.unwrap().into_inner().sets
}

pub(crate) async fn sections(cluster: &Cluster, summarize: bool) -> ListSectionsResponse {
    let request = ListSectionsRequest { summarize, ..ListSectionsRequest::default() };
    sets(cluster, 1).list_sections(request).await.unwrap().into_inner()
}

/// Waits until only the set itself is missing, and until the step of the format and the note of the leader, which the
/// leader proposes by itself, are in the log. After that, nothing enters the log without a request.
pub(crate) async fn waits(cluster: &Cluster, command: &str) {
    let expected = format!("the set is not created yet: run `seqsvr set {command} --set FILE`");
    until("the set is all that is missing", async || {
        let failing = cluster.member(1).handle.readiness().ask().unwrap_err();
        (failing.len() == 1 && failing[0].1 == expected).then_some(())
    })
    .await;
    until("the group has the newest format", async || {
        let list = members::list(cluster).await;
        (list.format == list.members[0].newest_format).then_some(())
    })
    .await;
    until("the event log has the leader and the members", async || {
        let mut events = EventServiceClient::new(channel(cluster.admin_addr(1)));
        let listed = events.list_set_events(ListSetEventsRequest::default()).await.ok()?.into_inner().events;
        ["leader", "members"].iter().all(|kind| listed.iter().any(|event| event.kind == *kind)).then_some(())
    })
    .await;
}

/// Starts two sets that know each other: im-a with all sections, and im-b without sections.
pub(crate) async fn two_sets() -> (Cluster, Cluster) {
    let (mut a, mut b) = (set("im-a", "im", Genesis::Start), set("im-b", "im", Genesis::Create));
    // Sections of a silent owner soon depart.
    a.options.lease_wait = Duration::from_millis(1_200);
    a.start_all().await;
    a.ready().await;
    b.start_all().await;
    waits(&b, "create").await;
    let join = ["127.0.0.1:1", a.addr(1)];
    sets(&b, 1).create_set(create(&b, &join)).await.unwrap();
    b.ready().await;
    until("the first set knows the second", async || (list(&a).await.len() == 2).then_some(())).await;
    (a, b)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_that_waits_for_its_command_is_not_ready_and_refuses_allocators() {
    for (genesis, command) in [(Genesis::Init, "init"), (Genesis::Create, "create")] {
        let mut cluster = set("im-a", "im", genesis);
        cluster.start_all().await;
        waits(&cluster, command).await;
        let before = cluster.level().await;
        let (set, node, addr) = ("im-a".into(), "a1".into(), "127.0.0.1:9".into());
        let register = RegisterRequest { set, node, addr, token: 1, lease_ms: LEASE_MS, ..RegisterRequest::default() };
        assert_eq!(reason(cluster.control(1).register(register).await), "NO_SET");
        let renew = RenewRequest { node_id: 1, incarnation: 1, renew_seq: 1, ..RenewRequest::default() };
        assert_eq!(reason(cluster.control(1).renew(renew).await), "NO_SET");
        assert_eq!(reason(sets(&cluster, 1).list_sets(ListSetsRequest {}).await), "NO_SET");
        assert_eq!(cluster.level().await, before, "refused before anything is proposed");
        cluster.stop_all().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_set_is_created_once_also_through_a_follower() {
    let mut cluster = Cluster::new(3, Disk::Memory);
    cluster.spec.genesis = Genesis::Init;
    cluster.start_all().await;
    let follower = cluster.follower().await;
    let mut admin = sets(&cluster, follower);
    let other = CreateSetRequest { name: "im-b".into(), join: vec![] };
    assert_eq!(reason(admin.create_set(other).await), "OTHER_SET");
    assert_eq!(reason(admin.create_set(create(&cluster, &["127.0.0.1:1"])).await), "OTHER_GENESIS");
    let info = admin.create_set(create(&cluster, &[])).await.unwrap().into_inner().set.unwrap();
    assert_eq!((info.name.as_str(), info.sections, info.state()), ("im-a", 10, SetState::Open));
    assert_eq!((info.uid_start, info.uid_end, info.section_size), (0, 1_000, 100));
    cluster.ready().await;
    let again = admin.create_set(create(&cluster, &[])).await;
    assert!(again.as_ref().unwrap_err().message().contains(&info.id.to_string()), "{again:?}");
    assert_eq!(reason(again), "SET_EXISTS");
    assert_eq!(reason(admin.create_set(create(&cluster, &["127.0.0.1:1"])).await), "SET_EXISTS");
    let known = admin.list_sets(ListSetsRequest {}).await.unwrap().into_inner().sets;
    assert_eq!(known.iter().map(|set| set.id).collect::<Vec<_>>(), [info.id]);
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_that_does_not_fit_the_cluster_is_not_created() {
    let mut a = set("im-a", "im", Genesis::Start);
    a.start_all().await;
    a.ready().await;
    let mut wider = set("im-b", "im", Genesis::Create);
    wider.spec.section_size = 50;
    for (mut b, expected) in [
        (set("im-a", "im", Genesis::Create), "SET_NAME_TAKEN"),
        (set("im-b", "other", Genesis::Create), "OTHER_CLUSTER"),
        (wider, "OTHER_LAYOUT"),
    ] {
        b.start_all().await;
        waits(&b, "create").await;
        let before = b.level().await;
        assert_eq!(reason(sets(&b, 1).create_set(create(&b, &["127.0.0.1:1"])).await), "SET_UNAVAILABLE");
        assert_eq!(reason(sets(&b, 1).create_set(create(&b, &[])).await), "OTHER_GENESIS");
        assert_eq!(reason(sets(&b, 1).create_set(create(&b, &[a.addr(1)])).await), expected);
        assert_eq!(b.level().await, before + 3 * RECORDS, "their records alone are proposed");
        waits(&b, "create").await;
        b.stop_all().await;
    }
    assert_eq!(list(&a).await.len(), 1, "no refused set is known");
    a.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_created_set_has_no_sections_and_knows_where_they_are() {
    let (mut a, mut b) = two_sets().await;
    let known = list(&b).await;
    let shown: Vec<_> = known.iter().map(|set| (set.name.as_str(), set.sections)).collect();
    assert_eq!(shown, [("im-b", 0), ("im-a", 10)]);
    assert_eq!(known[1].id, list(&a).await[0].id);
    assert_eq!(known[1].stores, [a.addr(1)]);
    let there = sections(&b, true).await.sections;
    assert_eq!(there.len(), 1, "{there:?}");
    assert_eq!((there[0].state(), there[0].set.as_str(), there[0].uid_end), (SectionState::Never, "im-a", 1_000));
    assert_eq!(reason(sets(&b, 1).create_set(create(&b, &[a.addr(1)])).await), "SET_EXISTS");
    b.stop_all().await;
    a.stop_all().await;
}

fn runs(runs: &[(u32, u32)]) -> Vec<SectionRange> {
    runs.iter().map(|&(first_section, sections)| SectionRange { first_section, sections }).collect()
}

pub(crate) async fn plan(cluster: &Cluster, to: &str, given: &[(u32, u32)]) -> PlanMigrationResponse {
    let request = PlanMigrationRequest { to: to.into(), runs: runs(given), ..PlanMigrationRequest::default() };
    sets(cluster, 1).plan_migration(request).await.unwrap().into_inner()
}

pub(crate) async fn start(cluster: &Cluster, plan: MigrationPlan) -> Result<u64, tonic::Status> {
    // The migration stays where it is until a test resumes it.
    let pace = MigrationPace { paused: true, ..MigrationPace::default() };
    let request = StartMigrationRequest { plan: Some(plan), pace: Some(pace) };
    let response = sets(cluster, 1).start_migration(request).await?.into_inner();
    Ok(response.migration.unwrap().id)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_prevents_a_migration_is_named_and_nothing_changes() {
    let (mut a, mut b) = two_sets().await;
    let before = sections(&a, false).await;
    let no_allocator = plan(&a, "im-b", &[(0, 2)]).await;
    assert_eq!(no_allocator.problems.len(), 1, "{:?}", no_allocator.problems);
    assert!(no_allocator.problems[0].contains("NO_CANDIDATE"), "{:?}", no_allocator.problems);
    b.register("a1", 7).await;
    until("the other set has an allocator", async || {
        plan(&a, "im-b", &[(0, 2)]).await.problems.is_empty().then_some(())
    })
    .await;

    type Runs = &'static [(u32, u32)];
    let table: [(&str, Runs, &str); 9] = [
        ("im-c", &[(0, 2)], "set \"im-c\" is not known to set \"im-a\""),
        ("im-a", &[(0, 2)], "the sections are in set \"im-a\" already"),
        ("im-b", &[(0, 2), (4, 0)], "run 2 from section 4 is empty or reversed"),
        ("im-b", &[(8, 3)], "run 1, sections 8..11, is not of the layout, which has sections 0..10"),
        ("im-b", &[(12, 1)], "run 1, sections 12..13, is not of the layout, which has sections 0..10"),
        ("im-b", &[(u32::MAX, u32::MAX)], "run 1, sections 4294967295..8589934590, is not of the layout"),
        ("im-b", &[(4, 2), (0, 5)], "run 2, sections 0..5, overlaps run 1, sections 4..6"),
        ("im-b", &[(4, 2), (4, 2)], "run 1, sections 4..6, overlaps run 2, sections 4..6"),
        ("im-b", &[], "the request names no sections"),
    ];
    for (to, given, expected) in table {
        let response = plan(&a, to, given).await;
        assert_eq!(response.problems.len(), 1, "{:?}", response.problems);
        assert!(response.problems[0].starts_with(expected), "{:?}", response.problems);
        assert_eq!(
            reason(start(&a, response.plan.unwrap()).await),
            "STALE_PLAN",
            "a plan with problems does not start"
        );
    }
    // The sections are in the other set, or never were in this set.
    let response = plan(&b, "im-a", &[(3, 2)]).await;
    let expected = "section 3 is not in set \"im-b\" but in set \"im-a\", the first of 2 such sections";
    assert!(response.problems.contains(&expected.to_owned()), "{:?}", response.problems);
    b.stop_all().await;
    let response = plan(&a, "im-b", &[(0, 2)]).await;
    assert!(response.problems[0].starts_with("set \"im-b\" does not respond"), "{:?}", response.problems);

    assert_eq!(sections(&a, false).await, before);
    let migrations = sets(&a, 1).list_migrations(ListMigrationsRequest { id: 0 }).await.unwrap().into_inner();
    assert_eq!(migrations.migrations, []);
    a.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_starts_one_migration_and_an_old_one_none() {
    let (mut a, mut b) = two_sets().await;
    b.register("a1", 7).await;
    until("the other set has an allocator", async || {
        plan(&a, "im-b", &[(0, 2)]).await.problems.is_empty().then_some(())
    })
    .await;
    let response = plan(&a, "im-b", &[(4, 2), (0, 2), (2, 1)]).await;
    assert_eq!((response.sections, response.uids, response.unowned, response.target_allocs), (5, 500, 5, 1));
    let first = response.plan.unwrap();
    assert_eq!(first.runs, runs(&[(0, 3), (4, 2)]));
    let old = plan(&a, "im-b", &[(5, 2)]).await.plan.unwrap();

    let of_other = MigrationPlan { from_set_id: 9, ..first.clone() };
    assert_eq!(reason(start(&a, of_other).await), "OTHER_SET");
    for changed in [
        MigrationPlan { fingerprint: first.fingerprint ^ 1, ..first.clone() },
        MigrationPlan { from_lineage: 1 << 32, ..first.clone() },
        MigrationPlan { runs: runs(&[(0, 3), (4, 3)]), ..first.clone() },
    ] {
        assert_eq!(reason(start(&a, changed.clone()).await), "STALE_PLAN", "{changed:?}");
    }
    let id = start(&a, first.clone()).await.unwrap();
    assert_eq!(id, first.id);
    assert_eq!(start(&a, first.clone()).await.unwrap(), id, "a repeat is the same migration");
    let refusal = start(&a, old).await;
    assert!(refusal.as_ref().unwrap_err().message().contains("section 5 is part of migration"), "{refusal:?}");
    assert_eq!(reason(refusal), "STALE_PLAN");
    let second = plan(&a, "im-b", &[(2, 2)]).await;
    let problem =
        format!("section 2 is part of migration {id}, which is not complete: complete it or roll it back first");
    assert_eq!(second.problems, [problem]);

    let mut admin = sets(&a, 1);
    let pace = Some(MigrationPace { rate: 7, max_pause_ms: 0, paused: true });
    let status = admin.set_pace(SetPaceRequest { id, pace }).await.unwrap().into_inner().migration.unwrap();
    assert_eq!(status.pace, Some(MigrationPace { rate: 7, max_pause_ms: 100, paused: true }));
    assert_eq!((status.phase(), status.sections, status.departed), (MigrationPhase::Open, 5, 0));
    assert_eq!(reason(admin.complete_migration(CompleteMigrationRequest { id }).await), "NOT_ARRIVED");
    let close = CloseSetRequest { name: "im-a".into(), ..CloseSetRequest::default() };
    let refusal = admin.close_set(close).await;
    assert!(refusal.as_ref().unwrap_err().message().contains("10 sections are in this set"), "{refusal:?}");
    assert_eq!(reason(refusal), "SET_NOT_EMPTY");
    for unknown in [id ^ 1, 0] {
        assert_eq!(reason(admin.set_pace(SetPaceRequest { id: unknown, pace }).await), "UNKNOWN_MIGRATION");
        let rollback = RollbackMigrationRequest { id: unknown };
        assert_eq!(reason(admin.rollback_migration(rollback).await), "UNKNOWN_MIGRATION");
        let complete = CompleteMigrationRequest { id: unknown };
        assert_eq!(reason(admin.complete_migration(complete).await), "UNKNOWN_MIGRATION");
    }
    admin.rollback_migration(RollbackMigrationRequest { id }).await.unwrap();
    until("nothing had departed, so all have returned", async || {
        let list = sets(&a, 1).list_migrations(ListMigrationsRequest { id }).await.unwrap().into_inner();
        (list.migrations[0].phase() == MigrationPhase::RolledBack).then_some(())
    })
    .await;
    assert_eq!(reason(admin.complete_migration(CompleteMigrationRequest { id }).await), "MIGRATION_OVER");
    assert_eq!(reason(admin.set_pace(SetPaceRequest { id, pace }).await), "MIGRATION_OVER");
    b.stop_all().await;
    a.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_whose_sections_have_all_migrated_is_closed() {
    let (mut a, mut b) = two_sets().await;
    b.register("a1", 7).await;
    let session = a.register("a1", 8).await;
    // It sends nothing after that, so its sections depart without an owner once the lease wait is over.
    a.owns(&session, 10).await;
    let request = PlanMigrationRequest { to: "im-b".into(), all: true, ..PlanMigrationRequest::default() };
    let plan = until("a plan without problems", async || {
        let response = sets(&a, 1).plan_migration(request.clone()).await.unwrap().into_inner();
        response.problems.is_empty().then_some(response)
    })
    .await;
    assert_eq!((plan.sections, plan.target_sections), (10, 0));
    let id = start(&a, plan.plan.unwrap()).await.unwrap();
    let mut admin = sets(&a, 1);
    admin.set_pace(SetPaceRequest { id, pace: Some(MigrationPace::default()) }).await.unwrap();
    until("every section arrives", async || {
        let list = sets(&a, 1).list_migrations(ListMigrationsRequest { id }).await.unwrap().into_inner();
        let status = list.migrations.into_iter().next().unwrap();
        (status.phase() == MigrationPhase::Arrived).then(|| assert_eq!((status.departed, status.arrived), (10, 10)))
    })
    .await;
    let close = CloseSetRequest { name: "im-a".into(), ..CloseSetRequest::default() };
    let refusal = admin.close_set(close.clone()).await;
    assert!(refusal.as_ref().unwrap_err().message().contains(&format!("migration {id}")), "{refusal:?}");
    assert_eq!(reason(refusal), "SET_NOT_EMPTY");
    admin.complete_migration(CompleteMigrationRequest { id }).await.unwrap();
    assert_eq!(reason(admin.rollback_migration(RollbackMigrationRequest { id }).await), "MIGRATION_OVER");

    assert_eq!(
        reason(admin.close_set(CloseSetRequest { name: "im-b".into(), ..CloseSetRequest::default() }).await),
        "OTHER_SET"
    );
    assert_eq!(reason(admin.close_set(close.clone()).await), "LAYOUT_WRITER");
    hand_over_series(&a, "im-b").await;
    let closing = admin.close_set(close.clone()).await.unwrap().into_inner();
    assert_eq!((closing.state(), closing.waiting_for), (SetState::Closing, vec!["im-b".to_owned()]));
    until("the other set has recorded it", async || (list(&a).await[0].state() == SetState::Closed).then_some(()))
        .await;
    assert_eq!(admin.close_set(close).await.unwrap().into_inner().state(), SetState::Closed);
    until("the other set knows that it is closed", async || {
        (list(&b).await[1].state() == SetState::Closed).then_some(())
    })
    .await;
    let all = PlanMigrationRequest { to: "im-a".into(), all: true, ..PlanMigrationRequest::default() };
    let back = sets(&b, 1).plan_migration(all).await.unwrap().into_inner();
    assert!(back.problems.contains(&"set \"im-a\" is closing and takes no more sections".to_owned()), "{back:?}");
    let here = sections(&b, true).await.sections;
    assert_eq!((here.len(), here[0].state(), here[0].uid_end), (1, SectionState::Resident, 1_000));
    b.stop_all().await;
    a.stop_all().await;
}
