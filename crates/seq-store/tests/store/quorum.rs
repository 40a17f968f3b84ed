//! A store without a majority reports it: to probes, and to operators immediately.

use std::time::{Duration, Instant};

use seq_proto::status;
use seq_proto::v1::node_admin_service_client::NodeAdminServiceClient;
use seq_proto::v1::{ChangeVotersRequest, DrainNodeRequest, ListMembersRequest, ListNodesRequest};
use seq_testkit::until;

use crate::cluster::{Cluster, Disk, channel, reason};

/// Much shorter than the timeout of a proposal without a majority.
const AT_ONCE: Duration = Duration::from_secs(1);

fn set() -> String {
    "im-a".to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_lost_its_majority_is_not_ready_and_refuses_changes_at_once() {
    let mut cluster = Cluster::started(3, Disk::Memory).await;
    cluster.register("a1", 1).await;
    let leader = cluster.leader().await;
    let others: Vec<u64> = cluster.ids().into_iter().filter(|id| *id != leader).collect();
    // As after a kill: the members transfer nothing.
    cluster.links.cut_off(cluster.addr(leader));
    for id in &others {
        cluster.stop(*id).await;
    }
    let checks = cluster.member(leader).handle.readiness();
    let failing = until("the leader is not ready", async || checks.ask().err()).await;
    let text = &failing[0].1;
    assert!(failing[0].0 == "store-leader" && text.contains("no quorum since"), "{failing:?}");
    assert!(text.contains("of 3 voters 1 respond and 2 must"), "{text}");
    let seen = cluster.status(leader).await;
    assert_eq!((seen.leader, seen.quorum), (leader, false), "it leads no majority");
    assert!(seen.quorum_lost_ms >= 500, "{}", seen.quorum_lost_ms);

    let since = Instant::now();
    let change =
        |dry_run| ChangeVotersRequest { set: set(), remove: others.clone(), dry_run, ..ChangeVotersRequest::default() };
    for dry_run in [true, false] {
        let refused = cluster.admin(leader).change_voters(change(dry_run)).await;
        assert_eq!(reason(refused), "NO_MAJORITY", "dry run: {dry_run}");
    }
    let mut nodes = NodeAdminServiceClient::new(channel(cluster.admin_addr(leader)));
    assert_eq!(reason(nodes.list_nodes(ListNodesRequest {}).await), "NO_MAJORITY");
    let drain = DrainNodeRequest {
        set: set(),
        node: "a1".to_owned(),
        drained: true,
        dry_run: true,
        ..DrainNodeRequest::default()
    };
    assert_eq!(reason(nodes.drain_node(drain).await), "NO_MAJORITY");
    assert!(since.elapsed() < AT_ONCE, "{:?}", since.elapsed());
    // The members, and which of them respond, are still reported.
    let list = cluster.admin(leader).list_members(ListMembersRequest {}).await.unwrap().into_inner();
    assert!(!list.quorum && list.quorum_lost_ms > 0 && list.members.len() == 3, "{list:?}");

    // With one other member back, it leads a majority again, or follows a leader.
    cluster.links.mend();
    cluster.start(others[0]).await;
    cluster.ready().await;
    cluster.register("a2", 2).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_lost_its_leader_is_not_ready_and_names_none() {
    let mut cluster = Cluster::started(3, Disk::Memory).await;
    let alone = cluster.follower().await;
    for id in cluster.ids().into_iter().filter(|id| *id != alone) {
        // Cut off first, because a stopping leader would transfer leadership.
        cluster.links.cut_off(cluster.addr(id));
        cluster.stop(id).await;
    }
    let checks = cluster.member(alone).handle.readiness();
    let failing = until("the follower is not ready", async || checks.ask().err()).await;
    assert!(failing[0].1.contains("no message of a leader arrives"), "{failing:?}");
    assert!(!cluster.status(alone).await.quorum);
    let refusal = cluster.admin(alone).list_members(ListMembersRequest {}).await.unwrap_err();
    assert_eq!(status::reason(&refusal).as_deref(), Some("LEADER_UNREACHABLE"), "{refusal:?}");
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_of_one_is_a_majority() {
    let mut cluster = Cluster::started(1, Disk::Memory).await;
    assert!(cluster.status(1).await.quorum);
    assert_eq!(cluster.member(1).handle.readiness().ask(), Ok(()));
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_starts_alone_follows_no_leader_that_it_remembers() {
    let mut cluster = Cluster::started(3, Disk::Sled).await;
    let follower = cluster.follower().await;
    cluster.stop_all().await;
    cluster.start(follower).await;
    // Its vote is for the former leader, whose messages do not arrive.
    let seen = cluster.status(follower).await;
    assert!(!seen.quorum && seen.quorum_lost_ms == 0, "{seen:?}");
    let failing = cluster.member(follower).handle.readiness().ask().unwrap_err();
    assert!(failing.iter().any(|(name, _)| name == "store-leader"), "{failing:?}");
    cluster.stop_all().await;
}
