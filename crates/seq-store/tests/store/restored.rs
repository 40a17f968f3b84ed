//! A store that is restored from a backup: its members form a group, and its set is in quarantine.

use std::path::Path;
use std::time::Duration;

use seq_proto::v1::backup_service_client::BackupServiceClient;
use seq_proto::v1::node_admin_service_client::NodeAdminServiceClient;
use seq_proto::v1::{
    CreateBackupRequest, ListMigrationsRequest, MigrationPace, MigrationPhase, RegisterRequest, RenewRequest,
    SectionState, SetPaceRequest, SetTermsRequest,
};
use seq_store::DataDir;
use seq_store::backup::{Backup, RestoreConfig, restore};
use seq_testkit::until;

use crate::cluster::{Cluster, Disk, LEASE_MS, channel, reason};
use crate::sets::{plan, sections, sets, start, two_sets};

/// Reads a backup from the leader.
pub(crate) async fn backup(cluster: &Cluster) -> Backup {
    let leader = cluster.leader().await;
    let mut client = BackupServiceClient::new(channel(cluster.admin_addr(leader)));
    let request = CreateBackupRequest { set: cluster.spec.name.clone() };
    let mut parts = client.create_backup(request).await.unwrap().into_inner();
    let mut file = Vec::new();
    while let Some(part) = parts.message().await.unwrap() {
        file.extend_from_slice(&part.data);
        assert!(file.len() as u64 <= part.file_bytes);
    }
    Backup::decode(&file).unwrap()
}

/// Restores all members in directories below `place`.
fn restored(cluster: &mut Cluster, backup: &Backup, place: &Path, count: u32) {
    for id in cluster.ids() {
        let (spec, name, dir) = (cluster.spec.clone(), cluster.name.clone(), place.join(id.to_string()));
        restore(backup, &RestoreConfig { spec, cluster: name, id, dir: dir.clone(), count }).unwrap();
        cluster.data[id as usize - 1] = DataDir::Path(dir);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_store_forms_again_and_serves_nothing_in_quarantine() {
    let mut cluster = Cluster::started(3, Disk::Sled).await;
    let session = cluster.register("a1", 1).await;
    cluster.owns(&session, 10).await;
    let follower = cluster.follower().await;
    let mut other = BackupServiceClient::new(channel(cluster.admin_addr(follower)));
    let mut forwarded = other.create_backup(CreateBackupRequest::default()).await.unwrap().into_inner();
    assert!(forwarded.message().await.unwrap().is_some_and(|part| part.file_bytes > 0), "by way of a follower");
    let backup = backup(&cluster).await;
    let before = cluster.level().await;
    cluster.stop_all().await;

    let place = tempfile::tempdir().unwrap();
    restored(&mut cluster, &backup, place.path(), 1);
    for id in cluster.ids() {
        cluster.start(id).await;
    }
    let leader = cluster.leader().await;
    let status = until("the leader states the quarantine", async || {
        let status = cluster.status(leader).await;
        status.quarantine.contains("leases").then_some(status)
    })
    .await;
    assert_eq!((status.lineage >> 32, status.members.len()), (1, 3));
    assert!(status.quarantine.starts_with("QUARANTINED"), "{}", status.quarantine);
    assert!(status.applied_index < before, "the log began anew");
    for id in cluster.ids() {
        let failing = format!("{:?}", cluster.member(id).handle.readiness().ask());
        assert!(failing.contains("QUARANTINED"), "{failing}");
    }

    // Neither a former session nor a new session is accepted.
    let mut control = cluster.control(leader);
    let renewed = control.renew(RenewRequest {
        node_id: session.node_id,
        incarnation: session.incarnation,
        renew_seq: 2,
        ..Default::default()
    });
    assert_eq!(reason(renewed.await), "QUARANTINED");
    let request = RegisterRequest {
        set: "im-a".into(),
        node: "a1".into(),
        addr: "127.0.0.1:10".into(),
        token: 9,
        lease_ms: LEASE_MS,
        ..Default::default()
    };
    assert_eq!(reason(control.register(request).await), "QUARANTINED");

    // A restarted member has its directory, and is in the group.
    cluster.stop(leader).await;
    cluster.start(leader).await;
    until("all have the same log", async || {
        let mut indexes = Vec::new();
        for id in cluster.ids() {
            indexes.push(cluster.status(id).await.applied_index);
        }
        (indexes.iter().all(|index| *index == indexes[0] && *index > 1)).then_some(())
    })
    .await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quarantine_lasts_until_every_other_set_has_fenced_the_older_lineages() {
    let (mut one, mut other) = two_sets().await;
    // A quarantine outlasts the leases of the other set, too.
    other.options.lease_wait = one.options.lease_wait;
    set_terms(&other, other.options.lease_wait).await;
    let session = one.register("a1", 1).await;
    let backup = backup(&one).await;
    one.stop_all().await;
    other.stop_all().await;

    let place = tempfile::tempdir().unwrap();
    restored(&mut one, &backup, place.path(), 1);
    one.start_all().await;
    until("the other set is awaited by name", async || {
        let awaited = one.status(1).await.quarantine;
        awaited.contains("set \"im-b\" has not responded to the fence").then_some(())
    })
    .await;

    other.start_all().await;
    one.ready().await;
    let status = one.status(1).await;
    assert_eq!((status.quarantine.as_str(), status.lineage >> 32), ("", 1));
    // The former session is over, as after any later registration; the next session is of the new lineage.
    let refusal = one.renew(&session, 2).await.unwrap_err();
    assert_eq!(seq_proto::status::metadata(&refusal, "current"), Some((1u64 << 32).to_string()));
    assert_eq!(reason(Err::<(), _>(refusal)), "OTHER_INCARNATION");
    assert_eq!(one.register("a1", 2).await.incarnation, (1 << 32) + 1);
    one.stop_all().await;
    other.stop_all().await;
}

/// Migrates sections of a silent owner, and completes the migration.
async fn migrate(from: &Cluster, to: &str, runs: &[(u32, u32)]) {
    let plan = until("a plan without problems", async || {
        let response = plan(from, to, runs).await;
        response.problems.is_empty().then_some(response.plan.unwrap())
    })
    .await;
    let id = start(from, plan).await.unwrap();
    let pace = Some(MigrationPace::default());
    sets(from, 1).set_pace(SetPaceRequest { id, pace }).await.unwrap();
    until("every section arrives", async || {
        let list = sets(from, 1).list_migrations(ListMigrationsRequest { id }).await.unwrap().into_inner();
        (list.migrations[0].phase() == MigrationPhase::Arrived).then_some(())
    })
    .await;
}

/// Restores a set of one store, and waits until it serves.
async fn restore_and_start(cluster: &mut Cluster, backup: &Backup, count: u32) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    cluster.stop_all().await;
    restored(cluster, backup, place.path(), count);
    cluster.start_all().await;
    cluster.ready().await;
    place
}

/// Changes the lease wait.
async fn set_terms(cluster: &Cluster, wait: Duration) {
    let mut admin = NodeAdminServiceClient::new(channel(cluster.admin_addr(1)));
    let lease_wait_ms = u64::try_from(wait.as_millis()).unwrap();
    admin
        .set_terms(SetTermsRequest { set: cluster.spec.name.clone(), lease_wait_ms, ..SetTermsRequest::default() })
        .await
        .unwrap();
}

/// Returns the sections of a set, with their ceilings.
async fn resident(cluster: &Cluster) -> Vec<(u32, u64)> {
    let list = sections(cluster, false).await.sections;
    let here = list.into_iter().filter(|one| one.state() == SectionState::Resident);
    here.map(|one| (one.range.unwrap().first_section, one.ceiling)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_section_is_in_one_set_whichever_set_is_restored_to_before_a_migration() {
    let (mut a, mut b) = two_sets().await;
    b.register("a1", 7).await;
    let session = a.register("a1", 8).await;
    // It sends nothing afterwards, so its sections depart without it.
    a.owns(&session, 10).await;
    let a_before_split = backup(&a).await;
    // A restored set waits for the duration of its leases according to the backup; the allocator of b is alive for
    // the lease wait of b.
    let b_waits = std::mem::replace(&mut b.options.lease_wait, a.options.lease_wait);
    set_terms(&b, b.options.lease_wait).await;
    let b_before_split = backup(&b).await;
    set_terms(&b, b_waits).await;
    migrate(&a, "im-b", &[(5, 5)]).await;
    let a_before_merge = backup(&a).await;
    migrate(&a, "im-b", &[(0, 5)]).await;
    assert_eq!((resident(&a).await.len(), resident(&b).await.len()), (0, 10));
    set_terms(&b, b.options.lease_wait).await;

    // The source loses its tombstones, and restores them from the records of the target.
    let first = restore_and_start(&mut a, &a_before_merge, 1).await;
    assert_eq!((resident(&a).await, resident(&b).await.len()), (vec![], 10));
    let second = restore_and_start(&mut a, &a_before_split, 2).await;
    assert_eq!((resident(&a).await, resident(&b).await.len()), (vec![], 10));

    // The target loses all sections, and the tombstones of the source bring them back. At first its lineage counts too
    // few restores, because the source was restored twice in the meantime.
    let third = restore_and_start(&mut b, &b_before_split, 1).await;
    let back = until("all sections are back", async || Some(resident(&b).await).filter(|here| here.len() == 10)).await;
    assert!(back.iter().all(|(_, ceiling)| *ceiling >= 1 << 40), "{back:?}");
    assert_eq!(resident(&a).await, []);
    assert_eq!(b.status(1).await.lineage >> 32, 3);
    b.stop_all().await;
    a.stop_all().await;
    drop((first, second, third));
}
