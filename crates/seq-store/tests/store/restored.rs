//! A store that is restored from a backup: its members form a group, and its set is in quarantine.

use seq_proto::v1::backup_service_client::BackupServiceClient;
use seq_proto::v1::{CreateBackupRequest, RegisterRequest};
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_store_forms_again_and_serves_nothing_in_quarantine() {
    let mut cluster = Cluster::started(3, Disk::Sled).await;
    let session = cluster.register("a1", 1).await;
    let (version, update) = cluster.owns(&session, 10).await;
    assert!(version > 0);
    drop(update);
    let follower = cluster.follower().await;
    let mut other = BackupServiceClient::new(channel(cluster.addr(follower)));
    assert_eq!(reason(other.create_backup(CreateBackupRequest::default()).await), "NOT_LEADER");
    let backup = backup(&cluster).await;
    let before = cluster.level().await;
    cluster.stop_all().await;

    let (spec, name) = (cluster.spec.clone(), cluster.spec.name.clone());
    let place = tempfile::tempdir().unwrap();
    for id in cluster.ids() {
        let dir = place.path().join(id.to_string());
        let config = RestoreConfig { spec: spec.clone(), cluster: name.clone(), id, dir: dir.clone(), nth: 1 };
        restore(&backup, &config).unwrap();
        cluster.data[id as usize - 1] = DataDir::Path(dir);
    }
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
    let renewed = control.renew(seq_proto::v1::RenewRequest {
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
