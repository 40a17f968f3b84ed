//! Elections, stops, restarts and catching up: acknowledged data stays.

use seq_testkit::until;

use crate::cluster::{Cluster, Disk, TIMEOUT};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_three_and_five_members_elect_and_accept_commands() {
    for (stores, disk) in [(1, Disk::Memory), (3, Disk::Memory), (5, Disk::Memory), (1, Disk::Sled), (3, Disk::Sled)] {
        let mut cluster = Cluster::started(stores, disk).await;
        let leader = cluster.leader().await;
        let session = cluster.register("a1", 7).await;
        assert_eq!((session.node_id, session.incarnation), (1, 1), "{stores} stores on {disk:?}");
        cluster.level().await;
        for id in cluster.ids() {
            let status = cluster.status(id).await;
            assert_eq!((status.id, status.leader, status.members.len()), (id, leader, stores));
            assert_eq!((status.uid_start, status.uid_end, status.section_size, status.sections), (0, 1_000, 100, 10));
            assert_eq!(status.allocs[0].name, "a1");
            assert!(status.members.iter().all(|member| member.voter));
        }
        cluster.stop_all().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_follower_catches_up_by_the_log() {
    for disk in [Disk::Memory, Disk::Sled] {
        let mut cluster = Cluster::started(3, disk).await;
        let follower = cluster.follower().await;
        cluster.stop(follower).await;
        cluster.register("a1", 1).await;
        cluster.register("a2", 2).await;
        cluster.start(follower).await;
        cluster.ready().await;
        cluster.level().await;
        let status = cluster.status(follower).await;
        assert_eq!(status.allocs.len(), 2);
        assert_eq!(status.snapshot_index, 0, "no snapshot was needed");
        cluster.stop_all().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_follower_catches_up_through_a_snapshot() {
    for disk in [Disk::Memory, Disk::Sled] {
        let mut cluster = Cluster::new(3, disk);
        cluster.options.snapshot_interval_entries = 40;
        cluster.options.log_retained_entries = 0;
        cluster.start_all().await;
        cluster.ready().await;
        let follower = cluster.follower().await;
        let behind = cluster.level().await;
        cluster.stop(follower).await;

        let session = cluster.register("a1", 1).await;
        cluster.register("a2", 2).await;
        // The log is purged in batches of 256 entries.
        let renewals = 400;
        for renew_seq in 1..=renewals {
            cluster.renew(&session, renew_seq).await.unwrap();
        }
        let leader = cluster.leader().await;
        until("a snapshot beyond the follower's log", async || {
            (cluster.status(leader).await.snapshot_index > behind + 256).then_some(())
        })
        .await;

        cluster.start(follower).await;
        cluster.ready().await;
        cluster.level().await;
        let status = cluster.status(follower).await;
        assert!(status.snapshot_index > behind, "{disk:?}: it got a snapshot");
        assert_eq!(status.allocs[0].renew_seq, renewals);
        // The installed snapshot is on its disk.
        cluster.stop(follower).await;
        cluster.start(follower).await;
        cluster.ready().await;
        cluster.level().await;
        assert_eq!(cluster.status(follower).await.allocs[0].renew_seq, renewals);
        cluster.stop_all().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accepted_raises_outlive_their_leader_and_restarts_of_all() {
    for disk in [Disk::Memory, Disk::Sled] {
        let mut cluster = Cluster::started(3, disk).await;
        let session = cluster.register("a1", 1).await;
        let other = cluster.register("a2", 2).await;
        let (_, owned) = cluster.owns(&session, section_count(&cluster, &session).await).await;
        let (_, others) = cluster.owns(&other, 10 - owned.sections.len()).await;
        assert!(!others.sections.is_empty());
        let (section, epoch) = (owned.sections[0], owned.epochs[0]);

        let mut ceiling = 0;
        for round in 0..3 {
            for _ in 0..20 {
                ceiling += 1_000;
                assert_eq!(cluster.raise(&session, section, epoch, ceiling).await.unwrap(), ceiling);
            }
            match round {
                0 => {
                    let leader = cluster.leader().await;
                    cluster.stop(leader).await;
                    assert_ne!(cluster.leader().await, leader, "another one leads");
                    // A raise below the ceiling returns the ceiling, so the ceiling is still there.
                    assert_eq!(cluster.raise(&session, section, epoch, 1).await.unwrap(), ceiling);
                    cluster.start(leader).await;
                }
                _ => {
                    cluster.stop_all().await;
                    cluster.start_all().await;
                }
            }
            cluster.ready().await;
            assert_eq!(
                cluster.raise(&session, section, epoch, 1).await.unwrap(),
                ceiling,
                "{disk:?} after round {round}"
            );
        }
        cluster.stop_all().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_stops_hands_over() {
    let mut cluster = Cluster::started(3, Disk::Memory).await;
    // From here on elections take longer than the test waits, so only a transfer brings the next leader. The first
    // leader was elected with the usual times, because split votes are repeated only after them.
    cluster.options.election_min = TIMEOUT * 2;
    cluster.options.election_max = TIMEOUT * 3;
    cluster.options.commit_timeout = TIMEOUT * 4;
    let leader = cluster.leader().await;
    for follower in cluster.running().into_iter().filter(|id| *id != leader).collect::<Vec<_>>() {
        cluster.stop(follower).await;
        cluster.start(follower).await;
        cluster.ready().await;
    }
    // A member takes over once it knows which part of its log is on disk; a restarted member learns this with the next
    // entry.
    cluster.register("a1", 1).await;
    cluster.level().await;
    let leader = cluster.leader().await;
    let term = cluster.status(leader).await.term;
    cluster.stop(leader).await;
    let next = cluster.leader().await;
    assert_ne!(next, leader);
    assert_eq!(cluster.status(next).await.term, term + 1);
    cluster.stop_all().await;
}

/// Returns the number of sections that the arbiter gives to an incarnation, once it has assigned all of them.
async fn section_count(cluster: &Cluster, session: &seq_proto::v1::RegisterResponse) -> usize {
    until("all sections owned", async || {
        let leader = cluster.leader().await;
        let status = cluster.status(leader).await;
        let mine = status.allocs.iter().find(|alloc| alloc.id == session.node_id)?;
        (status.sections_unowned == 0 && status.route_version > 0).then_some(mine.sections as usize)
    })
    .await
}
