//! Identity of data directories, messages and set files: strangers are refused with a reason.

use seq_proto::v1::raft_service_client::RaftServiceClient;
use seq_proto::v1::{LogPosition, ProbeRequest, RaftMessage};
use seq_raft::StateMachine;
use seq_store::{DataDir, MemoryDisk, RaftStartError, SetState, StartError};

use crate::cluster::{Cluster, Disk, TIMEOUT, channel, reason, start};
use crate::forged::Forger;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_unknown_senders_are_refused_by_name() {
    let (cluster, forger) = Forger::beside_a_store().await;
    let mut raft = RaftServiceClient::new(channel(cluster.addr(1)));
    let good = RaftMessage { payload: vec![0xff].into(), ..forger.message(2, 1, &()) };
    let other = || vec![0x5a; 16].into();
    for (message, expected) in [
        (RaftMessage { cluster_id: "im-b".into(), ..good.clone() }, "OTHER_CLUSTER"),
        (RaftMessage { to: 3, ..good.clone() }, "OTHER_MEMBER"),
        (RaftMessage { nonce: vec![].into(), ..good.clone() }, "NO_NONCE"),
        (RaftMessage { nonce: vec![0; 16].into(), ..good.clone() }, "NO_NONCE"),
        (RaftMessage { format: 0, ..good.clone() }, "OTHER_FORMAT"),
        (RaftMessage { format: 4, ..good.clone() }, "OTHER_FORMAT"),
        (RaftMessage { receiver: vec![].into(), ..good.clone() }, "OTHER_RECEIVER"),
        (RaftMessage { receiver: vec![7; 32].into(), ..good.clone() }, "OTHER_RECEIVER"),
        (RaftMessage { from: 9, ..good.clone() }, "UNKNOWN_MEMBER"),
        (RaftMessage { from: 0, ..good.clone() }, "UNKNOWN_MEMBER"),
        // A newer list of members, from a sender that does not know the receiver.
        (RaftMessage { from: 9, membership: u64::MAX, receiver: vec![7; 32].into(), ..good.clone() }, "OTHER_RECEIVER"),
        (RaftMessage { nonce: other(), ..good.clone() }, "OTHER_DATA_DIRECTORY"),
        (RaftMessage { nonce: other(), membership: u64::MAX, ..good.clone() }, "OTHER_DATA_DIRECTORY"),
        // The member itself, with malformed content.
        (good.clone(), "MALFORMED_MESSAGE"),
    ] {
        assert_eq!(reason(raft.append_entries(message.clone()).await), expected, "{message:?}");
        assert_eq!(reason(raft.vote(message.clone()).await), expected, "{message:?}");
        assert_eq!(reason(raft.pre_vote(message.clone()).await), expected, "{message:?}");
        assert_eq!(reason(raft.transfer_leader(message.clone()).await), expected, "{message:?}");
    }
    forger.still_serves(cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_probe_reveals_no_data_directory_and_binds_none() {
    let (cluster, forger) = Forger::beside_a_store().await;
    let mut raft = RaftServiceClient::new(channel(cluster.addr(1)));
    let probe = |from, directory: Vec<u8>| ProbeRequest {
        cluster_id: "im-a".into(),
        from,
        to: 1,
        fingerprint: directory,
        membership: 0,
        vote_term: u64::MAX,
        last_log: Some(LogPosition { term: 9, leader: 1, index: u64::MAX }),
        starting: true,
        newest_format: SetState::FORMAT.into(),
        digests: Vec::new(),
    };
    for id in [2, 3] {
        assert_eq!(reason(raft.probe(probe(id, vec![7; 32])).await), "OTHER_DATA_DIRECTORY");
        assert_eq!(reason(raft.probe(probe(id, Vec::new())).await), "NO_NONCE");
    }
    // A probe that names the right directory of a member, and a probe from an id that never was a member.
    for (id, directory) in [(2, forger.fingerprint(2)), (9, vec![7; 32])] {
        let response = raft.probe(probe(id, directory)).await.unwrap().into_inner();
        assert_eq!(response.fingerprint, Vec::<u8>::new(), "a member of a group does not name its directory");
    }
    // No content of a probe is stored.
    forger.still_serves(cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_disk_does_not_come_back_under_its_old_id() {
    for disk in [Disk::Memory, Disk::Sled] {
        let mut cluster = Cluster::started(3, disk).await;
        cluster.level().await;
        let lost = cluster.follower().await;
        cluster.stop(lost).await;
        let before = lose(&mut cluster, lost);
        let error = cluster.try_start(lost).await.unwrap_err();
        assert!(matches!(error, StartError::Raft(RaftStartError::Refused { .. })), "{error}");
        let expected = format!(
            "store {lost} of cluster \"im-a\" has another data directory; a lost disk comes back under a new id"
        );
        assert!(error.to_string().ends_with(&expected), "{error}");
        // The old disk is found again.
        cluster.data[lost as usize - 1] = before;
        cluster.start(lost).await;
        cluster.ready().await;
        cluster.stop_all().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_disk_that_no_peer_was_reached_for_stops_once_one_is() {
    let mut cluster = Cluster::started(3, Disk::Memory).await;
    cluster.level().await;
    cluster.stop_all().await;
    lose(&mut cluster, 3);
    cluster.start(3).await;
    let tasks = cluster.member(3).tasks.clone();
    cluster.start(1).await;
    cluster.start(2).await;
    tokio::time::timeout(TIMEOUT, tasks.shutting_down()).await.expect("it notices");
    assert_eq!(tasks.failed(), Some("store probe"));
    cluster.stop(3).await;
    // The other members continue, and the committed entries are there.
    cluster.ready().await;
    cluster.register("a1", 1).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_directory_of_another_cluster_or_member_is_refused() {
    let mut cluster = Cluster::started(1, Disk::Sled).await;
    cluster.stop_all().await;
    let mut config = cluster.config(1);
    config.cluster = "im-b".into();
    let error = start(config).await.err().unwrap();
    assert!(matches!(error, StartError::Raft(RaftStartError::Storage(_))), "{error}");

    let mut config = cluster.config(1);
    config.spec.stores[0].id = 2;
    config.id = 2;
    let error = start(config).await.err().unwrap();
    assert!(matches!(error, StartError::Raft(RaftStartError::Storage(_))), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_of_one_forms_anew_only_with_the_form_option() {
    for disk in [Disk::Memory, Disk::Sled] {
        let mut cluster = Cluster::new(1, disk);
        cluster.forms = false;
        let error = cluster.try_start(1).await.unwrap_err();
        assert!(matches!(error, StartError::MayHaveHeldData { .. }) && error.to_string().contains("--form"), "{error}");
        cluster.forms = true;
        cluster.start(1).await;
        cluster.ready().await;
        cluster.register("a1", 1).await;
        cluster.stop(1).await;
        // From then on its directory is enough, and its loss is noticed.
        cluster.forms = false;
        cluster.start(1).await;
        cluster.ready().await;
        cluster.stop(1).await;
        lose(&mut cluster, 1);
        let error = cluster.try_start(1).await.unwrap_err();
        assert!(matches!(error, StartError::MayHaveHeldData { .. }), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_file_that_does_not_match_the_stored_set_is_refused() {
    for disk in [Disk::Memory, Disk::Sled] {
        let mut cluster = Cluster::started(1, disk).await;
        cluster.stop_all().await;
        cluster.spec.uids = 0..2_000;
        // If the definition is only in the log, it is found once the log is applied.
        match cluster.try_start(1).await {
            Err(error) => assert_eq!(
                error.to_string(),
                "the set file has set \"im-a\" with uids 0..2000 in sections of 100, but the store holds set \"im-a\" \
                 with uids 0..1000 in sections of 100; a set keeps its uids and sections for good"
            ),
            Ok(()) => {
                let tasks = cluster.member(1).tasks.clone();
                tokio::time::timeout(TIMEOUT, tasks.shutting_down()).await.expect("it notices");
                assert_eq!(tasks.failed(), Some("store set"));
                let failing = cluster.member(1).handle.readiness().ask().unwrap_err();
                assert!(
                    failing.iter().any(|(name, why)| name == "store-set" && why.contains("0..2000")),
                    "{failing:?}"
                );
                cluster.stop_all().await;
            }
        }
        cluster.spec.uids = 0..1_000;
        cluster.start_all().await;
        cluster.ready().await;
        cluster.stop_all().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_port_speaks_health_and_reflection() {
    let mut cluster = Cluster::started(1, Disk::Memory).await;
    let mut health = tonic_health::pb::health_client::HealthClient::new(channel(cluster.addr(1)));
    let request = tonic_health::pb::HealthCheckRequest { service: "seqsvr.v1.ControlService".into() };
    let response = health.check(request).await.unwrap().into_inner();
    assert_eq!(response.status(), tonic_health::pb::health_check_response::ServingStatus::Serving);

    use tonic_reflection::pb::v1::ServerReflectionRequest;
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut reflection = ServerReflectionClient::new(channel(cluster.addr(1)));
    let mut responses = reflection.server_reflection_info(futures::stream::iter([request])).await.unwrap().into_inner();
    let Some(MessageResponse::ListServicesResponse(services)) =
        responses.message().await.unwrap().unwrap().message_response
    else {
        panic!("no list of services")
    };
    let names: Vec<&str> = services.service.iter().map(|service| service.name.as_str()).collect();
    for name in ["ControlService", "InterSetService", "StatusService", "ForwardService"] {
        assert!(names.contains(&format!("seqsvr.v1.{name}").as_str()), "{names:?}");
    }
    assert!(names.contains(&"grpc.health.v1.Health"), "{names:?}");
    cluster.stop_all().await;
}

/// Replaces a member's disk by an empty disk; returns the old disk.
pub(crate) fn lose(cluster: &mut Cluster, id: u64) -> DataDir {
    let data = &mut cluster.data[id as usize - 1];
    let empty = match &*data {
        DataDir::Path(path) => DataDir::Path(path.with_file_name("empty")),
        DataDir::Memory(_) => DataDir::Memory(MemoryDisk::new()),
    };
    std::mem::replace(data, empty)
}
