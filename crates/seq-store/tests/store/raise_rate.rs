//! How fast an AllocSvr may raise its ceilings: the leader refuses raises that would exhaust the numbers of a section,
//! and no raise of an honest AllocSvr.

use std::time::{Duration, Instant};

use futures::future::join_all;
use seq_core::limits::{MAX_RAISE, RAISE_BURST, RAISE_RATE};
use seq_core::raise_rate::LONGEST_WAIT;
use seq_proto::reason::key;
use seq_proto::status;
use seq_proto::v1::control_service_client::ControlServiceClient;
use seq_proto::v1::{OwnershipUpdate, RaiseCeilingsRequest, RegisterResponse};
use tonic::Status;
use tonic::transport::Channel;

use crate::cluster::{Cluster, Disk, raise_request};

/// More raises than a full bucket admits together with the refill while the test sends them.
const MANY: u64 = 8 * RAISE_BURST / MAX_RAISE;

/// The last possible number: a raise to it moves a ceiling as far as one raise may.
const LAST: u64 = (1 << 63) - 1;

/// Starts a store whose sections all belong to one AllocSvr.
async fn owned_by_one(members: usize) -> (Cluster, RegisterResponse, OwnershipUpdate) {
    let mut cluster = Cluster::new(members, Disk::Sled);
    cluster.spec.allocs.truncate(1);
    cluster.start_all().await;
    cluster.ready().await;
    let session = cluster.register("a1", 1).await;
    let (_, owned) = cluster.owns(&session, 10).await;
    (cluster, session, owned)
}

/// Raises a section, each time as far as one raise may, until the store refuses; returns the last committed ceiling and
/// the refusal.
async fn exhaust(cluster: &Cluster, session: &RegisterResponse, section: u32, epoch: u64) -> (u64, Status) {
    let mut ceiling = 0;
    for _ in 0..MANY {
        match cluster.raise(session, section, epoch, LAST).await {
            Ok(raised) => ceiling = raised,
            Err(refusal) => return (ceiling, refusal),
        }
    }
    panic!("{MANY} raises moved the ceiling of section {section} to {ceiling}");
}

/// Returns the most by which the ceiling of a section may have risen since `start`.
fn bound(start: Instant) -> u64 {
    RAISE_BURST + RAISE_RATE * (start.elapsed().as_secs() + 1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_raises_are_refused_and_honest_ones_are_not() {
    let (mut cluster, session, owned) = owned_by_one(3).await;
    let fast = owned.sections[0];
    let start = Instant::now();
    let (ceiling, refusal) = exhaust(&cluster, &session, fast, owned.epochs[0]).await;
    assert!((RAISE_BURST..=bound(start)).contains(&ceiling), "{ceiling}");
    assert_eq!(status::reason(&refusal).unwrap(), "RAISE_TOO_FAST");
    assert_eq!(status::metadata(&refusal, key::SECTION), Some(fast.to_string()));
    let after = status::retry_after(&refusal).unwrap();
    assert!(after > Duration::ZERO && after <= LONGEST_WAIT, "{after:?}");

    // The same raise in one request with an honest raise: nothing is proposed. Alone, the honest raise is committed. On
    // a slow machine, refilled numbers may admit the request first.
    let mut refused = false;
    for (&other, &epoch) in owned.sections[1..].iter().zip(&owned.epochs[1..]) {
        let both = RaiseCeilingsRequest {
            sections: vec![fast, other],
            epochs: vec![owned.epochs[0], epoch],
            ceilings: vec![LAST, 10_000],
            ..raise_request(&session, 0, 1, 1)
        };
        let ask = |mut control: ControlServiceClient<Channel>| {
            let both = both.clone();
            async move { control.raise_ceilings(both).await }
        };
        let Err(refusal) = cluster.ask(ask).await else { continue };
        assert_eq!(status::reason(&refusal).unwrap(), "RAISE_TOO_FAST");
        assert_eq!(cluster.raise(&session, other, epoch, 1).await.unwrap(), 1);
        assert_eq!(cluster.raise(&session, other, epoch, 10_000).await.unwrap(), 10_000);
        refused = true;
        break;
    }
    assert!(refused);

    // Through a follower, it is still the leader that refuses.
    let mut follower = cluster.control(cluster.follower().await);
    let mut raised = 0;
    let refusal = loop {
        match follower.raise_ceilings(raise_request(&session, fast, owned.epochs[0], LAST)).await {
            Err(refusal) => break refusal,
            Ok(_) => raised += 1,
        }
        assert!(raised < MANY);
    };
    assert_eq!(status::reason(&refusal).unwrap(), "RAISE_TOO_FAST");
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn raises_at_the_same_time_share_the_bucket_and_those_of_others_take_nothing() {
    let (mut cluster, session, owned) = owned_by_one(1).await;
    let (section, epoch) = (owned.sections[4], owned.epochs[4]);
    // A raise under another epoch moves nothing, and no AllocSvr exhausts the bucket of a section that it does not own.
    for _ in 0..MANY {
        assert_eq!(cluster.raise(&session, section, epoch + 1, LAST).await.unwrap(), 0);
    }
    let start = Instant::now();
    let raises = (0..MANY).map(|_| cluster.raise(&session, section, epoch, LAST));
    let raised: Vec<u64> = join_all(raises).await.into_iter().filter_map(Result::ok).collect();
    assert!(raised.len() as u64 >= RAISE_BURST / MAX_RAISE, "{} raises were committed", raised.len());
    let ceiling = cluster.raise(&session, section, epoch, 1).await.unwrap();
    assert!((RAISE_BURST..=bound(start)).contains(&ceiling), "{ceiling}");
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_leader_and_a_restarted_one_begin_with_full_buckets() {
    let (mut cluster, session, owned) = owned_by_one(3).await;
    let (section, epoch) = (owned.sections[0], owned.epochs[0]);
    let (first, _) = exhaust(&cluster, &session, section, epoch).await;

    let leader = cluster.leader().await;
    cluster.stop(leader).await;
    assert_ne!(cluster.leader().await, leader, "another one leads");
    let (second, _) = exhaust(&cluster, &session, section, epoch).await;
    assert!(second - first >= RAISE_BURST, "{first}, {second}");

    cluster.stop_all().await;
    cluster.start_all().await;
    cluster.ready().await;
    let (third, refusal) = exhaust(&cluster, &session, section, epoch).await;
    assert!(third - second >= RAISE_BURST, "{second}, {third}");
    assert_eq!(status::reason(&refusal).unwrap(), "RAISE_TOO_FAST");
    cluster.stop_all().await;
}
