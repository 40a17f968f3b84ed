//! Distant members: the round trips that the times of each preset allow, over links that delay every byte.

use std::time::Duration;

use seq_store::StoreOptions;
use seq_testkit::until;

use crate::cluster::{Cluster, Disk};
use crate::load::Load;

/// A round trip around the world.
const ROUND_TRIP: Duration = Duration::from_millis(400);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_wan_preset_commits_and_elects_over_a_round_trip_of_400_ms() {
    let mut cluster = Cluster::new(3, Disk::Memory);
    cluster.options = StoreOptions { lease_wait: cluster.options.lease_wait, ..StoreOptions::WAN };
    cluster.options.registration_grace = Duration::from_millis(1);
    cluster.links.delay(ROUND_TRIP);
    cluster.start_all().await;
    cluster.ready().await;
    let load = Load::begin(&cluster).await;
    let leader = cluster.leader().await;
    let term = cluster.status(leader).await.term;
    load.beside(load.more(20)).await;
    let status = cluster.status(leader).await;
    assert_eq!((status.term, status.quorum), (term, true), "no leader was deposed under load");
    let trips: Vec<u64> =
        status.members.iter().filter(|member| member.id != leader).map(|member| member.round_trip_us).collect();
    let plausible = |us: &u64| (400_000..540_000).contains(us);
    assert!(trips.len() == 2 && trips.iter().all(plausible), "{trips:?} are measured, and are carried");

    cluster.stop(leader).await;
    let new = until("another member leads", async || {
        let leaders: Vec<_> = cluster.running().iter().map(|id| cluster.member(*id).handle.leader()).collect();
        leaders[0].filter(|new| *new != leader && leaders.iter().all(|other| *other == Some(*new)))
    })
    .await;
    load.beside(load.more(8)).await;
    assert!(cluster.status(new).await.quorum);
    load.check(&cluster).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_defaults_carry_the_round_trip_that_they_state() {
    let mut cluster = Cluster::new(3, Disk::Memory);
    cluster.options.registration_grace = Duration::from_millis(1);
    // The stated maximum leaves a margin for the machine.
    cluster.links.delay(cluster.options.max_round_trip().mul_f64(0.8));
    cluster.start_all().await;
    cluster.ready().await;
    let load = Load::begin(&cluster).await;
    load.beside(load.more(20)).await;
    load.check(&cluster).await;
    cluster.stop_all().await;
}
