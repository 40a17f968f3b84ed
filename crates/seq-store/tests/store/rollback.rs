//! Data directories restored from an older copy: a member that lacks acknowledged data is refused by the members that
//! received its acknowledgements.

use std::fs;
use std::path::Path;

use seq_proto::v1::raft_service_client::RaftServiceClient;
use seq_proto::v1::{MembershipStatus, ProbeRequest};
use seq_raft::StateMachine;
use seq_store::{DataDir, RaftStartError, SetState, StartError};
use seq_testkit::until;

use crate::cluster::{Cluster, Disk, TIMEOUT, channel, reason};
use crate::forged::Forger;

fn dir(cluster: &Cluster, id: u64) -> std::path::PathBuf {
    match &cluster.data[id as usize - 1] {
        DataDir::Path(path) => path.clone(),
        DataDir::Memory(_) => panic!("a directory"),
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Returns a store of three with a stopped follower, and an older copy of that follower's directory. After the copy the
/// follower ran and acknowledged registrations, and was stopped again.
async fn with_an_older_copy() -> (Cluster, u64, std::path::PathBuf) {
    let mut cluster = Cluster::started(3, Disk::Sled).await;
    cluster.register("a1", 1).await;
    cluster.level().await;
    let follower = cluster.follower().await;
    cluster.stop(follower).await;
    let older = dir(&cluster, follower).with_file_name("older");
    copy(&dir(&cluster, follower), &older);
    cluster.start(follower).await;
    cluster.ready().await;
    cluster.register("a2", 2).await;
    cluster.register("a1", 3).await;
    cluster.level().await;
    cluster.stop(follower).await;
    (cluster, follower, older)
}

fn restore(cluster: &Cluster, id: u64, older: &Path) {
    let dir = dir(cluster, id);
    fs::rename(&dir, dir.with_file_name("newer")).unwrap();
    copy(older, &dir);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_was_restored_is_refused_as_it_starts() {
    let (mut cluster, follower, older) = with_an_older_copy().await;
    restore(&cluster, follower, &older);
    let error = cluster.try_start(follower).await.expect_err("an older copy is refused");
    assert!(matches!(error, StartError::Raft(RaftStartError::Refused { .. })), "{error}");
    let text = error.to_string();
    assert!(text.contains("lacks what it acknowledged") && text.contains("an older copy"), "{text}");
    // The newer directory is found again.
    let dir = dir(&cluster, follower);
    fs::remove_dir_all(&dir).unwrap();
    fs::rename(dir.with_file_name("newer"), &dir).unwrap();
    cluster.start(follower).await;
    cluster.ready().await;
    cluster.level().await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_follower_without_peers_is_not_replicated_to_and_stops() {
    let (mut cluster, follower, older) = with_an_older_copy().await;
    restore(&cluster, follower, &older);
    // It starts while it can reach no other member, so that only the leader can detect the loss.
    cluster.links.cut_off(cluster.addr(follower));
    cluster.start(follower).await;
    let tasks = cluster.member(follower).tasks.clone();
    cluster.links.mend();
    tokio::time::timeout(TIMEOUT, tasks.shutting_down()).await.expect("it is refused, and stops");
    assert!(matches!(tasks.failed(), Some("store raft" | "store probe")), "{:?}", tasks.failed());
    cluster.stop(follower).await;
    // The other members continue.
    until("the store serves", async || Some(cluster.register("a2", 9).await)).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_member_that_starts_is_compared_with_its_acknowledgements() {
    let (cluster, forger) = Forger::beside_a_store().await;
    let (leader, follower) = (cluster.leader().await, cluster.follower().await);
    let mut raft = RaftServiceClient::new(channel(cluster.addr(leader)));
    let probe = |starting| ProbeRequest {
        cluster_id: "im-a".into(),
        from: follower,
        to: leader,
        fingerprint: forger.fingerprint(follower),
        newest_format: SetState::FORMAT.into(),
        starting,
        ..ProbeRequest::default()
    };
    // A statement of a running member: it may have voted and acknowledged since it wrote this.
    assert_eq!(raft.probe(probe(false)).await.unwrap().into_inner().status(), MembershipStatus::Member);
    assert_eq!(reason(raft.probe(probe(true)).await), "ACKNOWLEDGED_DATA_LOST");
    forger.still_serves(cluster).await;
}
