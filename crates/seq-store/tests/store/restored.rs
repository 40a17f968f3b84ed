//! A store that is restored from a backup: its members form a group, and its set is in quarantine.

use std::path::Path;
use std::time::Duration;

use seq_proto::v1::backup_service_client::BackupServiceClient;
use seq_proto::v1::inter_set_service_client::InterSetServiceClient;
use seq_proto::v1::{Between, CreateBackupRequest, ExchangeRequest, RegisterRequest, RenewRequest, SetFacts};
use seq_store::DataDir;
use seq_store::backup::{Backup, RestoreConfig, restore};

use crate::cluster::{Cluster, Disk, LEASE_MS, channel, reason, until};

/// A backup, as the leader makes it.
async fn backup(cluster: &Cluster) -> Backup {
    let leader = cluster.leader().await;
    let mut client = BackupServiceClient::new(channel(cluster.addr(leader)));
    let mut parts = client.create_backup(CreateBackupRequest { set: "im-a".into() }).await.unwrap().into_inner();
    let mut file = Vec::new();
    while let Some(part) = parts.message().await.unwrap() {
        file.extend_from_slice(&part.data);
        assert!(file.len() as u64 <= part.file_bytes);
    }
    Backup::decode(&file).unwrap()
}

/// Restores all members in directories of this one.
fn restored(cluster: &mut Cluster, backup: &Backup, place: &Path) {
    for id in cluster.ids() {
        let (spec, name, dir) = (cluster.spec.clone(), cluster.name.clone(), place.join(id.to_string()));
        restore(backup, &RestoreConfig { spec, cluster: name, id, dir: dir.clone(), nth: 1 }).unwrap();
        cluster.data[id as usize - 1] = DataDir::Path(dir);
    }
}

/// What a set states of itself, and that it learns of another one.
async fn exchange(cluster: &Cluster, facts: Option<SetFacts>) -> SetFacts {
    let from_set_id = facts.as_ref().map_or(1, |facts| facts.id);
    let between = Some(Between { cluster: cluster.name.clone(), from_set_id, ..Between::default() });
    let mut member = InterSetServiceClient::new(channel(cluster.addr(1)));
    let response = member.exchange(ExchangeRequest { between, facts, ..Default::default() }).await.unwrap();
    response.into_inner().sets.into_iter().next().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_store_forms_again_and_serves_nothing_in_quarantine() {
    let mut cluster = Cluster::started(3, Disk::Sled).await;
    let session = cluster.register("a1", 1).await;
    cluster.owns(&session, 10).await;
    let follower = cluster.follower().await;
    let mut other = BackupServiceClient::new(channel(cluster.addr(follower)));
    assert_eq!(reason(other.create_backup(CreateBackupRequest::default()).await), "NOT_LEADER");
    let backup = backup(&cluster).await;
    let before = cluster.level().await;
    cluster.stop_all().await;

    let place = tempfile::tempdir().unwrap();
    restored(&mut cluster, &backup, place.path());
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

    // Neither a session of before nor another one is let in.
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

    // A member that starts again has its directory, and is of the group.
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
    let mut one = Cluster::new(1, Disk::Sled);
    // Longer than the leases of these tests, which are half a second.
    one.options.lease_wait = Duration::from_secs(1);
    let mut other = Cluster::new(1, Disk::Memory);
    other.spec.name = "im-b".into();
    for cluster in [&mut one, &mut other] {
        cluster.start_all().await;
        cluster.ready().await;
    }
    let facts = exchange(&one, None).await;
    let facts = exchange(&other, Some(facts)).await;
    exchange(&one, Some(facts)).await;
    let session = one.register("a1", 1).await;
    let backup = backup(&one).await;
    one.stop_all().await;
    other.stop_all().await;

    let place = tempfile::tempdir().unwrap();
    restored(&mut one, &backup, place.path());
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
    // The session of before is over, as after any later registration; the next one is of the new lineage.
    let refusal = one.renew(&session, 2).await.unwrap_err();
    assert_eq!(seq_proto::status::metadata(&refusal, "current"), Some((1u64 << 32).to_string()));
    assert_eq!(reason(Err::<(), _>(refusal)), "OTHER_INCARNATION");
    assert_eq!(one.register("a1", 2).await.incarnation, (1 << 32) + 1);
    one.stop_all().await;
    other.stop_all().await;
}
