//! Members with emptied disks, started in the worst order: before the members that have the acknowledged data.

use seq_proto::v1::RegisterResponse;
use seq_store::{RaftStartError, StartError};
use seq_testkit::until;

use crate::cluster::{Cluster, Disk, TIMEOUT};
use crate::identity::lose;

/// The raise that was acknowledged before the faults.
struct Acknowledged {
    session: RegisterResponse,
    section: u32,
    epoch: u64,
    ceiling: u64,
}

impl Acknowledged {
    /// Checks that the store still has the acknowledged ceiling, and takes more raises.
    async fn check(&self, cluster: &Cluster) {
        // A raise below the ceiling returns the ceiling.
        let stored = cluster.raise(&self.session, self.section, self.epoch, 1).await.unwrap();
        assert_eq!(stored, self.ceiling, "an acknowledged ceiling is lost");
        let more = self.ceiling + 1_000;
        assert_eq!(cluster.raise(&self.session, self.section, self.epoch, more).await.unwrap(), more);
    }
}

/// Returns a store that member 1 has led since it was formed, so that followers never exchanged a message. Member 2 was
/// cut off before the last raise, which all others have. All members are stopped.
async fn lagging(stores: usize, disk: Disk) -> (Cluster, Acknowledged) {
    loop {
        let mut cluster = Cluster::new(stores, disk);
        cluster.options.registration_grace = std::time::Duration::from_millis(1);
        cluster.start_all().await;
        cluster.ready().await;
        if cluster.leader().await != 1 {
            cluster.stop_all().await;
            continue;
        }
        let session = cluster.register("a1", 1).await;
        let (_, owned) = cluster.owns(&session, 10).await;
        let (section, epoch) = (owned.sections[0], owned.epochs[0]);
        assert_eq!(cluster.raise(&session, section, epoch, 1_000).await.unwrap(), 1_000);
        cluster.level().await;

        cluster.links.cut_off(cluster.addr(2));
        let mut ceiling = 1_000;
        for _ in 0..5 {
            ceiling += 1_000;
            assert_eq!(cluster.raise(&session, section, epoch, ceiling).await.unwrap(), ceiling);
        }
        let last = cluster.status(1).await.last_log_index;
        for id in 3..=stores as u64 {
            until("it has the raises", async || (cluster.status(id).await.last_log_index >= last).then_some(())).await;
        }
        assert!(cluster.status(2).await.last_log_index < last, "member 2 lags");
        // Followers stop first, because a stopping leader would transfer leadership, and its successor would request
        // votes.
        for id in (1..=stores as u64).rev() {
            cluster.stop(id).await;
        }
        cluster.links.mend();
        return (cluster, Acknowledged { session, section, epoch, ceiling });
    }
}

/// Starts an emptied member, and checks that it is refused with a reason.
async fn is_refused(cluster: &mut Cluster, id: u64, acknowledged: &Acknowledged) {
    match cluster.try_start(id).await {
        Err(error) => {
            assert!(matches!(error, StartError::Raft(RaftStartError::Refused { .. })), "{error}");
            let expected = format!(
                "store {id} of cluster \"im-a\" has another data directory; a lost disk comes back under a new id"
            );
            assert!(error.to_string().ends_with(&expected), "{error}");
        }
        Ok(()) => {
            // The member takes part: find out whether data is lost by it.
            let leader = cluster.leader().await;
            let Acknowledged { session, section, epoch, ceiling } = acknowledged;
            let stored = cluster.raise(session, *section, *epoch, 1).await.unwrap();
            panic!("emptied store {id} takes part; store {leader} leads and has ceiling {stored} of {ceiling}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_disk_does_not_vote_for_a_member_that_lags() {
    for disk in [Disk::Memory, Disk::Sled] {
        let (mut cluster, acknowledged) = lagging(3, disk).await;
        lose(&mut cluster, 3);
        cluster.start(2).await;
        is_refused(&mut cluster, 3, &acknowledged).await;
        // The member may still name the leader that it followed.
        assert_ne!(cluster.member(2).handle.leader(), Some(2), "no member can be elected");
        // The member that has all data comes back, so two of three run.
        cluster.start(1).await;
        cluster.ready().await;
        acknowledged.check(&cluster).await;
        cluster.stop_all().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_disk_that_starts_first_stops_when_a_member_is_there() {
    let (mut cluster, acknowledged) = lagging(3, Disk::Memory).await;
    lose(&mut cluster, 3);
    // No other member can be asked yet.
    cluster.start(3).await;
    let tasks = cluster.member(3).tasks.clone();
    cluster.start(2).await;
    tokio::time::timeout(TIMEOUT, tasks.shutting_down()).await.expect("the emptied one stops");
    assert_eq!(tasks.failed(), Some("store probe"));
    assert_ne!(cluster.member(2).handle.leader(), Some(2), "no member was elected");
    cluster.stop(3).await;
    cluster.start(1).await;
    cluster.ready().await;
    acknowledged.check(&cluster).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_emptied_disks_of_five_do_not_vote_for_a_member_that_lags() {
    let (mut cluster, acknowledged) = lagging(5, Disk::Memory).await;
    lose(&mut cluster, 4);
    lose(&mut cluster, 5);
    cluster.start(4).await;
    let fourth = cluster.member(4).tasks.clone();
    cluster.start(2).await;
    tokio::time::timeout(TIMEOUT, fourth.shutting_down())
        .await
        .unwrap_or_else(|_| panic!("emptied store 4 takes part, and follows {:?}", cluster.member(4).handle.leader()));
    cluster.stop(4).await;
    is_refused(&mut cluster, 5, &acknowledged).await;
    assert_ne!(cluster.member(2).handle.leader(), Some(2), "no member can be elected");
    cluster.start(1).await;
    cluster.start(3).await;
    cluster.ready().await;
    acknowledged.check(&cluster).await;
    cluster.stop_all().await;
}
