//! A leader that no AllocSvr calls any more, although one AllocSvr registered with it and is not known to be dead.

use std::time::Duration;

use seq_testkit::until;
use tokio::time::Instant;

use crate::cluster::{Cluster, Disk};

/// Time for which an incarnation is assumed to be alive. A leader keeps leadership for at least twice this time.
const LEASE_WAIT: Duration = Duration::from_millis(1_500);

/// Longer than the minimum time for which a leader keeps leadership, and than any wait in these tests.
const LONG: Duration = Duration::from_millis(3_500);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_no_alloc_calls_any_more_gives_leadership_away_once() {
    let mut cluster = Cluster::new(3, Disk::Memory);
    cluster.options.lease_wait = LEASE_WAIT;
    cluster.start_all().await;
    cluster.ready().await;
    let session = cluster.register("a1", 1).await;
    let mut renew_seq = 0;
    let mut renew_for = async |time: Duration| {
        let end = Instant::now() + time;
        while Instant::now() < end {
            renew_seq += 1;
            cluster.renew(&session, renew_seq).await.unwrap();
        }
    };
    let first = cluster.leader().await;
    let term = cluster.status(first).await.term;
    renew_for(LONG).await;
    assert_eq!(cluster.status(first).await.term, term, "it is reached");

    // Half the lease of this incarnation is a quarter of a second; after it, another member leads. The arbiter would
    // wait for six times as long.
    let second = until("another member leads", async || {
        let leaders: Vec<_> = cluster.running().iter().map(|id| cluster.member(*id).handle.leader()).collect();
        leaders[0].filter(|new| *new != first && leaders.iter().all(|other| *other == Some(*new)))
    })
    .await;
    let moved = cluster.status(second).await.term;
    assert_eq!(moved, term + 1);
    renew_for(LONG).await;
    assert_eq!(cluster.leader().await, second, "it is reached");

    // No renewals from here on. The second leader transfers leadership as well; by then the incarnation is dead.
    let third = until("another member leads again", async || {
        let leaders: Vec<_> = cluster.running().iter().map(|id| cluster.member(*id).handle.leader()).collect();
        leaders[0].filter(|new| *new != second && leaders.iter().all(|other| *other == Some(*new)))
    })
    .await;
    let since = Instant::now();
    until("a leader has kept leadership for long", async || {
        let status = cluster.status(third).await;
        assert_eq!((status.leader, status.term), (third, moved + 1), "leadership does not go round");
        (since.elapsed() > LEASE_WAIT * 4).then_some(())
    })
    .await;
    cluster.stop_all().await;
}
