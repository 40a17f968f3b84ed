//! Partitions: the majority continues, the rest commits nothing, and a member that comes back does not disturb the
//! leader.

use std::time::Duration;

use seq_testkit::until;

use crate::cluster::{Cluster, Disk, raise_request};
use crate::load::Load;
use crate::members::{lead, promote};

/// Starts three members with elections so short that a test sees many of their timeouts.
async fn three() -> Cluster {
    let mut cluster = short_elections();
    cluster.start_all().await;
    cluster.ready().await;
    cluster
}

fn short_elections() -> Cluster {
    let mut cluster = Cluster::new(3, Disk::Memory);
    cluster.options.registration_grace = Duration::from_millis(1);
    cluster.options.heartbeat = Duration::from_millis(50);
    cluster.options.election_min = Duration::from_millis(200);
    cluster.options.election_max = Duration::from_millis(400);
    cluster
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_commits_nothing_and_follows_when_it_is_back() {
    let mut cluster = three().await;
    let load = Load::begin(&cluster).await;
    let old = cluster.leader().await;
    let session = cluster.register("a2", 2).await;
    load.beside(async {
        load.more(50).await;
        cluster.links.cut_off(cluster.addr(old));
        let new = until("the majority elects", async || {
            let others = cluster.running().into_iter().filter(|id| *id != old);
            let leaders: Vec<_> = others.map(|id| cluster.member(id).handle.leader()).collect();
            leaders[0].filter(|leader| *leader != old && leaders.iter().all(|other| *other == Some(*leader)))
        })
        .await;
        let term = cluster.status(new).await.term;
        load.more(50).await;
        // The old leader acknowledges no request.
        let refusal = cluster.control(old).raise_ceilings(raise_request(&session, 9, 1, 77)).await;
        assert!(refusal.is_err(), "{refusal:?}");
        assert!(cluster.status(old).await.term < term);

        cluster.links.mend();
        until("the old leader follows", async || (cluster.member(old).handle.leader() == Some(new)).then_some(()))
            .await;
        load.more(50).await;
        assert_eq!(cluster.status(new).await.term, term, "the one that came back deposed no leader");
    })
    .await;
    load.check(&cluster).await;
    cluster.level().await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_is_cut_off_deposes_no_leader_when_it_is_back() {
    let mut cluster = three().await;
    let load = Load::begin(&cluster).await;
    let leader = cluster.leader().await;
    let alone = cluster.follower().await;
    load.beside(async {
        let term = cluster.status(leader).await.term;
        cluster.links.cut_off(cluster.addr(alone));
        // The load takes longer than many election timeouts: a raise takes a millisecond or two.
        load.more(2_000).await;
        assert_eq!(cluster.status(alone).await.term, term, "it asks before it stands for election");
        cluster.links.mend();
        let behind = cluster.status(leader).await.last_log_index;
        until("it catches up", async || (cluster.status(alone).await.applied_index >= behind).then_some(())).await;
        load.more(200).await;
        let status = cluster.status(leader).await;
        assert_eq!((status.leader, status.term), (leader, term), "no leader was deposed");
    })
    .await;
    load.check(&cluster).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_was_away_during_a_change_accepts_the_leader_that_its_list_does_not_name() {
    let mut cluster = short_elections();
    let new = cluster.newcomer(Disk::Memory, &[1, 2]);
    cluster.start_all().await;
    cluster.ready().await;
    let load = Load::begin(&cluster).await;
    let away = cluster.follower().await;
    let goes = (1..=3).find(|id| *id != away && Some(*id) != cluster.member(*id).handle.leader()).unwrap();
    load.beside(async {
        cluster.links.cut_off(cluster.addr(away));
        cluster.start(new).await;
        promote(&cluster, &[new], &[goes]).await;
        lead(&cluster, new).await;
        load.more(50).await;
        // Neither its list of members nor its set file names the current leader.
        cluster.links.mend();
        until("it follows", async || (cluster.member(away).handle.leader() == Some(new)).then_some(())).await;
        cluster.stop(goes).await;
        // The member is needed, because the two are the majority.
        let other = 6 - away - goes;
        cluster.stop(other).await;
        load.more(50).await;
    })
    .await;
    load.check(&cluster).await;
    cluster.level().await;
    cluster.stop_all().await;
}
