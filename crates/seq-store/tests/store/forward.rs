//! Calls of an AllocSvr that reaches only followers get the leader's own responses, after one hop.

use seq_proto::v1::{RegisterRequest, RegisterResponse, RenewRequest, TransferRequest};
use seq_testkit::until;
use tonic::{Code, Request};
use tonic_types::StatusExt;

use crate::cluster::{Cluster, Disk, LEASE_MS, raise_request, reason};

fn registration(token: u64) -> RegisterRequest {
    let (set, node, addr) = ("im-a".into(), "a1".into(), "127.0.0.1:9".into());
    RegisterRequest { set, node, addr, token, lease_ms: LEASE_MS, ..RegisterRequest::default() }
}

fn renewal(session: &RegisterResponse, renew_seq: u64) -> RenewRequest {
    let (node_id, incarnation) = (session.node_id, session.incarnation);
    RenewRequest { node_id, incarnation, renew_seq, ..RenewRequest::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_control_call_to_a_follower_is_answered_by_the_leader() {
    let mut cluster = Cluster::started(3, Disk::Memory).await;
    let (leader, follower) = (cluster.leader().await, cluster.follower().await);
    // From here on only the follower is called, as by an AllocSvr that cannot reach the leader.
    let mut control = cluster.control(follower);
    let session = control.register(registration(1)).await.unwrap().into_inner();
    assert_eq!((session.node_id, session.incarnation), (1, 1));
    let again = control.register(registration(1)).await.unwrap().into_inner();
    assert_eq!(again.incarnation, 1, "a repeat is recognised behind the hop too");

    let mut renew_seq = 0;
    let owned = until("the arbiter assigns sections", async || {
        renew_seq += 1;
        let update = control.renew(renewal(&session, renew_seq)).await.unwrap().into_inner().update.unwrap();
        (update.sections.len() == 10).then_some(update)
    })
    .await;
    let raise = raise_request(&session, owned.sections[0], owned.epochs[0], 5_000);
    let raised = control.raise_ceilings(raise).await.unwrap().into_inner();
    assert_eq!(raised.ceilings, [5_000]);
    // The response is the leader's, sent after it applied the entry: no other member could have sent it.
    let status = cluster.status(leader).await;
    assert_eq!((status.leader, status.raises_applied), (leader, 1));

    let transfer = TransferRequest {
        node_id: session.node_id,
        incarnation: session.incarnation,
        section: owned.sections[0],
        epoch: owned.epochs[0],
        to_node_id: 7,
        to_incarnation: 1,
        handover_id: 1,
        route_version: 0,
    };
    assert_eq!(reason(control.transfer(transfer).await), "TARGET_GONE", "a refusal of the leader comes back as it is");
    assert_eq!(reason(control.renew(renewal(&session, renew_seq + 9)).await), "OTHER_RENEWAL");
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forwarded_call_is_not_forwarded_again() {
    let mut cluster = Cluster::started(3, Disk::Memory).await;
    let (leader, follower) = (cluster.leader().await, cluster.follower().await);
    let mut request = Request::new(registration(1));
    request.metadata_mut().insert("seqsvr-forwarded-by", "3".parse().unwrap());
    let refusal = cluster.control(follower).register(request).await.unwrap_err();
    assert_eq!(refusal.code(), Code::Unavailable);
    let details = refusal.get_error_details();
    let info = details.error_info().unwrap();
    assert_eq!((info.reason.as_str(), info.domain.as_str()), ("NOT_LEADER", "seqsvr"));
    assert_eq!(info.metadata["leader"], cluster.addr(leader));
    assert!(details.retry_info().is_some());
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_is_cut_off_from_the_leader_refuses_and_the_other_one_responds() {
    let mut cluster = Cluster::started(3, Disk::Memory).await;
    let (leader, follower) = (cluster.leader().await, cluster.follower().await);
    let other = 6 - leader - follower;
    let session = cluster.control(leader).register(registration(1)).await.unwrap().into_inner();
    let term = cluster.status(leader).await.term;
    cluster.links.cut_between(cluster.addr(leader), cluster.addr(follower));
    // The refusal must not name the leader, because an AllocSvr that reaches neither member would alternate between the
    // two.
    let refusal = cluster.control(follower).renew(renewal(&session, 1)).await.unwrap_err();
    assert_eq!(seq_proto::status::reason(&refusal).as_deref(), Some("LEADER_UNREACHABLE"), "{refusal:?}");
    assert_eq!(seq_proto::status::metadata(&refusal, "leader"), None);
    let renewed = cluster.control(other).renew(renewal(&session, 1)).await.unwrap().into_inner();
    assert!(renewed.update.is_some());
    let status = cluster.status(leader).await;
    assert_eq!((status.leader, status.term), (leader, term), "one cut link deposes no leader");
    cluster.stop_all().await;
}
