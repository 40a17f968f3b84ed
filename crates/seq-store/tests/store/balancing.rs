//! Sections that operators move, and pauses of balancing: checked by the leader, kept by the group.

use seq_proto::v1::node_admin_service_client::NodeAdminServiceClient;
use seq_proto::v1::{
    DrainNodeRequest, MoveSectionsRequest, MoveSectionsResponse, PauseBalancingRequest, TransferLeaderRequest,
};
use seq_testkit::until;
use tonic::Status;
use tonic::transport::Channel;

use crate::cluster::{Cluster, channel, reason};
use crate::plans::three_nodes;

fn nodes(cluster: &Cluster, id: u64) -> NodeAdminServiceClient<Channel> {
    NodeAdminServiceClient::new(channel(cluster.admin_addr(id)))
}

/// Sends a request to a follower, which forwards it to the leader.
async fn moved(cluster: &Cluster, request: MoveSectionsRequest) -> Result<MoveSectionsResponse, Status> {
    let follower = cluster.follower().await;
    nodes(cluster, follower).move_sections(request).await.map(tonic::Response::into_inner)
}

fn request(sections: &[u32], node: &str) -> MoveSectionsRequest {
    let (set, node, sections) = ("im-a".into(), node.into(), sections.to_vec());
    MoveSectionsRequest { set, node, sections, ..MoveSectionsRequest::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sections_are_moved_to_a_node_that_can_own_them_by_a_plan_that_holds() {
    let mut cluster = three_nodes().await;
    for (sections, node, refused) in [
        (&[0, 1][..], "a9", "UNKNOWN_NODE"),
        (&[0, 77], "a2", "NOT_RESIDENT"),
        (&[], "a2", "BAD_COUNT"),
        (&[0; 1_001], "a2", "BAD_COUNT"),
    ] {
        assert_eq!(reason(moved(&cluster, request(sections, node)).await), refused);
    }
    let leader = cluster.leader().await;
    let drain = DrainNodeRequest { set: "im-a".into(), node: "a3".into(), drained: true, ..Default::default() };
    nodes(&cluster, leader).drain_node(drain).await.unwrap();
    // The arbiter may not have evaluated the drain yet.
    let planned = MoveSectionsRequest { dry_run: true, ..request(&[0], "a3") };
    let refusal = until("the drain is known", async || moved(&cluster, planned.clone()).await.err()).await;
    assert_eq!(refusal.message(), "a3 can own no sections now: it is drained (`seqsvr node undrain a3`)");
    assert_eq!(reason(Err::<(), _>(refusal)), "UNFIT_TARGET");

    let shown = moved(&cluster, MoveSectionsRequest { dry_run: true, ..request(&[1, 0, 1], "a2") }).await.unwrap();
    assert!(!shown.changed && shown.sections.iter().map(|one| one.section).eq([0, 1]), "{shown:?}");
    let plan = shown.fingerprint;
    assert_eq!(reason(moved(&cluster, MoveSectionsRequest { plan: 7, ..request(&[0, 1], "a2") }).await), "STALE_PLAN");
    let made = moved(&cluster, MoveSectionsRequest { plan, ..request(&[0, 1], "a2") }).await.unwrap();
    assert!(made.changed && made.sections.iter().all(|one| one.moved_to.is_empty()), "{made:?}");
    let again = moved(&cluster, MoveSectionsRequest { plan, ..request(&[0, 1], "a2") }).await.unwrap();
    assert!(!again.changed && again.sections.iter().all(|one| one.moved_to == "a2"), "{again:?}");
    // Another operator has moved a section since the plan.
    let stale = moved(&cluster, MoveSectionsRequest { plan, ..request(&[0, 1], "a1") }).await;
    assert_eq!(reason(stale), "STALE_PLAN");
    assert!(moved(&cluster, request(&[0], "")).await.unwrap().changed, "it is balanced again");
    assert_eq!(cluster.status(leader).await.sections_moved, 1);
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_outlasts_the_leader_and_names_who_began_it() {
    let mut cluster = three_nodes().await;
    let pause = |paused| PauseBalancingRequest { set: "im-a".into(), paused, ..PauseBalancingRequest::default() };
    let leader = cluster.leader().await;
    let shown = PauseBalancingRequest { dry_run: true, ..pause(true) };
    let plan = nodes(&cluster, leader).pause_balancing(shown).await.unwrap().into_inner().fingerprint;
    assert!(cluster.status(leader).await.balancing_paused.is_none());
    let begin = PauseBalancingRequest { plan, ..pause(true) };
    assert!(nodes(&cluster, leader).pause_balancing(begin.clone()).await.unwrap().into_inner().changed);
    assert!(!nodes(&cluster, leader).pause_balancing(begin).await.unwrap().into_inner().changed);

    let to = cluster.follower().await;
    let transfer = TransferLeaderRequest { set: "im-a".into(), to, ..TransferLeaderRequest::default() };
    cluster.admin(leader).transfer_leader(transfer).await.unwrap();
    let before = until("the next leader responds", async || {
        let response = nodes(&cluster, cluster.leader().await).pause_balancing(pause(true)).await.ok()?.into_inner();
        assert!(!response.changed, "{response:?}");
        response.before
    })
    .await;
    assert!(before.principal == "unauthenticated" && before.since_unix_ms > 0, "{before:?}");
    assert_eq!(cluster.status(to).await.balancing_paused, Some(before));

    let leader = cluster.leader().await;
    let stale = PauseBalancingRequest { plan, ..pause(false) };
    assert_eq!(reason(nodes(&cluster, leader).pause_balancing(stale).await), "STALE_PLAN");
    assert!(nodes(&cluster, leader).pause_balancing(pause(false)).await.unwrap().into_inner().changed);
    assert!(cluster.status(leader).await.balancing_paused.is_none());
    cluster.stop_all().await;
}
