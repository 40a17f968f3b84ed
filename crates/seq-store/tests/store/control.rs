//! The control service: which member responds, which requests are refused before a proposal, and which senders may
//! raise.

use std::time::Duration;

use seq_proto::v1::node_admin_service_client::NodeAdminServiceClient;
use seq_proto::v1::status_service_client::StatusServiceClient;
use seq_proto::v1::{
    ListCeilingsRequest, RaiseCeilingsRequest, RegisterRequest, RegisterResponse, RenewRequest, SetTermsRequest,
    TransferRequest,
};
use seq_testkit::until;
use tonic::transport::Channel;
use tonic_types::StatusExt;

use crate::cluster::{Cluster, Disk, LEASE_MS, TIMEOUT, channel, raise_request, reason};

#[expect(clippy::too_many_lines, reason = "one table of requests and their responses")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_requests_are_refused_by_name_and_propose_nothing() {
    let mut cluster = Cluster::started(1, Disk::Memory).await;
    let session = cluster.register("a1", 1).await;
    // The leader proposes owners after a registration.
    cluster.owns(&session, 10).await;
    let before = cluster.level().await;

    let good = RegisterRequest {
        set: "im-a".into(),
        node: "a1".into(),
        addr: "127.0.0.1:9".into(),
        token: 1,
        lease_ms: LEASE_MS,
        ..RegisterRequest::default()
    };
    let long = format!("{}:1", "h".repeat(300));
    for (request, expected) in [
        (RegisterRequest { set: "im-b".into(), ..good.clone() }, "OTHER_SET"),
        (RegisterRequest { node: String::new(), ..good.clone() }, "UNDECLARED_NODE"),
        (RegisterRequest { node: "a3".into(), ..good.clone() }, "UNDECLARED_NODE"),
        (RegisterRequest { addr: String::new(), ..good.clone() }, "BAD_ADDR"),
        (RegisterRequest { addr: "host".into(), ..good.clone() }, "BAD_ADDR"),
        (RegisterRequest { addr: "host:0".into(), ..good.clone() }, "BAD_ADDR"),
        (RegisterRequest { addr: "host:65536".into(), ..good.clone() }, "BAD_ADDR"),
        (RegisterRequest { addr: long, ..good.clone() }, "BAD_ADDR"),
        (RegisterRequest { lease_ms: 0, ..good.clone() }, "LEASE_TOO_LONG"),
        (RegisterRequest { lease_ms: u64::MAX, ..good.clone() }, "LEASE_TOO_LONG"),
        (RegisterRequest { token: 0, ..good.clone() }, "BAD_TOKEN"),
    ] {
        assert_eq!(reason(cluster.control(1).register(request.clone()).await), expected, "{request:?}");
    }

    let good = RenewRequest { node_id: 1, incarnation: 1, renew_seq: 1, ..RenewRequest::default() };
    let released = |sections: usize, epochs: usize| RenewRequest {
        released: vec![1; sections],
        released_epochs: vec![1; epochs],
        ..good.clone()
    };
    for (request, expected) in [
        (RenewRequest { node_id: 0, ..good.clone() }, "BAD_NODE_ID"),
        (RenewRequest { incarnation: 0, ..good.clone() }, "BAD_INCARNATION"),
        (RenewRequest { renew_seq: 0, ..good.clone() }, "BAD_RENEW_SEQ"),
        (released(2, 1), "LISTS_MISMATCH"),
        (released(4_097, 4_097), "BATCH_TOO_LARGE"),
    ] {
        assert_eq!(reason(cluster.control(1).renew(request.clone()).await), expected, "{request:?}");
    }

    let good = TransferRequest {
        node_id: 1,
        incarnation: 1,
        section: 0,
        epoch: 1,
        to_node_id: 2,
        to_incarnation: 1,
        handover_id: 1,
        route_version: 0,
    };
    for (request, expected) in [
        (TransferRequest { node_id: 0, ..good }, "BAD_NODE_ID"),
        (TransferRequest { incarnation: 0, ..good }, "BAD_INCARNATION"),
        (TransferRequest { section: 10, ..good }, "UNKNOWN_SECTION"),
        (TransferRequest { epoch: 0, ..good }, "BAD_EPOCH"),
        (TransferRequest { to_node_id: 0, ..good }, "BAD_TARGET"),
        (TransferRequest { to_node_id: 1, ..good }, "BAD_TARGET"),
        (TransferRequest { to_incarnation: 0, ..good }, "BAD_TARGET"),
        (TransferRequest { handover_id: 0, ..good }, "BAD_HANDOVER"),
    ] {
        assert_eq!(reason(cluster.control(1).transfer(request).await), expected, "{request:?}");
    }

    let session = RegisterResponse { node_id: 1, incarnation: 1, ..RegisterResponse::default() };
    let good = raise_request(&session, 0, 1, 1);
    let many = |sections: u32| RaiseCeilingsRequest {
        sections: (0..sections).collect(),
        epochs: vec![1; sections as usize],
        ceilings: vec![1; sections as usize],
        ..good.clone()
    };
    for (request, expected) in [
        (RaiseCeilingsRequest { node_id: 0, ..good.clone() }, "BAD_NODE_ID"),
        (RaiseCeilingsRequest { incarnation: 0, ..good.clone() }, "BAD_INCARNATION"),
        (many(0), "EMPTY_BATCH"),
        (many(4_097), "BATCH_TOO_LARGE"),
        (many(11), "UNKNOWN_SECTION"),
        (RaiseCeilingsRequest { epochs: vec![], ..good.clone() }, "LISTS_MISMATCH"),
        (RaiseCeilingsRequest { ceilings: vec![1, 2], ..good.clone() }, "LISTS_MISMATCH"),
        (RaiseCeilingsRequest { sections: vec![u32::MAX], ..good.clone() }, "UNKNOWN_SECTION"),
        (
            RaiseCeilingsRequest { sections: vec![3, 3], epochs: vec![1; 2], ceilings: vec![1; 2], ..good.clone() },
            "DUPLICATE_SECTION",
        ),
        (RaiseCeilingsRequest { epochs: vec![0], ..good.clone() }, "BAD_EPOCH"),
        (RaiseCeilingsRequest { ceilings: vec![0], ..good.clone() }, "BAD_CEILING"),
        (RaiseCeilingsRequest { ceilings: vec![1 << 63], ..good.clone() }, "BAD_CEILING"),
    ] {
        assert_eq!(reason(cluster.control(1).raise_ceilings(request.clone()).await), expected, "{request:?}");
    }
    assert_eq!(cluster.level().await, before, "nothing was proposed");
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_owner_under_its_epoch_in_its_life_raises() {
    let mut cluster = Cluster::new(3, Disk::Memory);
    cluster.spec.allocs.truncate(1);
    cluster.options.lease_wait = Duration::from_secs(1);
    cluster.start_all().await;
    cluster.ready().await;
    let first = cluster.register("a1", 1).await;
    let again = cluster.register("a1", 1).await;
    assert_eq!((again.node_id, again.incarnation), (first.node_id, first.incarnation), "a repeat is the same session");
    let (renewed, owned) = cluster.owns(&first, 10).await;
    assert_eq!(owned.sections, (0..10).collect::<Vec<u32>>());
    assert_eq!(owned.epochs, vec![1; 10]);
    assert_eq!(owned.ceilings, vec![0; 10]);
    assert_eq!(owned.routes.unwrap().nodes[0].name, "a1");

    assert_eq!(cluster.raise(&first, 3, 1, 5_000).await.unwrap(), 5_000);
    assert_eq!(cluster.raise(&first, 3, 1, 4_000).await.unwrap(), 5_000, "a ceiling never falls");
    assert_eq!(cluster.raise(&first, 3, 2, 9_000).await.unwrap(), 0, "an epoch that is not");
    // A repeat of the last renewal gets its response again; a renewal that skips a number is out of order.
    cluster.renew(&first, renewed).await.unwrap();
    assert_eq!(reason(cluster.renew(&first, renewed + 2).await), "OTHER_RENEWAL");

    // The process restarts as a new incarnation. When the earlier incarnation's lease is certainly over, it gets the
    // same sections under the next epoch, from the committed ceilings.
    let second = cluster.register("a1", 2).await;
    assert_eq!((second.node_id, second.incarnation), (first.node_id, first.incarnation + 1));
    let (_, owned) = cluster.owns(&second, 10).await;
    assert_eq!(owned.epochs, vec![2; 10]);
    assert_eq!(owned.ceilings[3], 5_000);
    assert_eq!(reason(cluster.raise(&first, 3, 1, 9_000).await), "OTHER_INCARNATION");
    assert_eq!(reason(cluster.raise(&first, 3, 2, 9_000).await), "OTHER_INCARNATION");
    assert_eq!(reason(cluster.renew(&first, renewed + 1).await), "OTHER_INCARNATION");
    assert_eq!(cluster.raise(&second, 3, 1, 9_000).await.unwrap(), 0, "the old epoch");
    assert_eq!(cluster.raise(&second, 3, 2, 1).await.unwrap(), 5_000, "the refused raises moved nothing");

    cluster.level().await;
    for id in cluster.ids() {
        assert_eq!(cluster.status(id).await.raises_applied, 3, "refused raises are not counted");
    }

    let stranger = RegisterResponse { node_id: 9, incarnation: 1, ..RegisterResponse::default() };
    assert_eq!(reason(cluster.renew(&stranger, 1).await), "UNKNOWN_NODE");
    cluster.stop_all().await;
}

/// Sends the requests of a broken or hostile caller of the control service, some of which used to end the set
/// permanently.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_command_poisons_the_log() {
    let mut cluster = Cluster::new(3, Disk::Memory);
    cluster.spec.allocs.truncate(1);
    cluster.start_all().await;
    cluster.ready().await;
    let session = cluster.register("a1", 1).await;
    let (_, owned) = cluster.owns(&session, 10).await;
    let leader = cluster.leader().await;
    for (epoch, handover_id) in [(u64::MAX, 1), (u64::MAX - 1, u64::MAX), (2, 1)] {
        let request = TransferRequest {
            node_id: session.node_id,
            incarnation: session.incarnation,
            section: 0,
            epoch,
            to_node_id: 7,
            to_incarnation: u64::MAX,
            handover_id,
            route_version: u64::MAX,
        };
        assert_eq!(reason(cluster.control(leader).transfer(request).await), "OTHER_OWNERSHIP", "epoch {epoch}");
    }
    // Raises the ceilings of all sections to the last possible number: each rises as far as one raise may.
    let most = RaiseCeilingsRequest {
        sections: owned.sections.clone(),
        epochs: owned.epochs.clone(),
        ceilings: vec![(1 << 63) - 1; owned.sections.len()],
        ..raise_request(&session, 0, 1, 1)
    };
    let raised = cluster.control(leader).raise_ceilings(most).await.unwrap().into_inner().ceilings;
    assert_eq!(raised, vec![seq_core::limits::MAX_RAISE; owned.sections.len()]);
    for id in cluster.ids() {
        cluster.stop(id).await;
    }
    cluster.start_all().await;
    cluster.ready().await;
    let next = cluster.register("a1", 2).await;
    assert_eq!(next.incarnation, session.incarnation + 1, "the log is applied and the set goes on");
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registration_at_another_address_is_refused_while_the_first_is_alive_unless_it_replaces_it() {
    let mut cluster = Cluster::new(1, Disk::Memory);
    cluster.spec.allocs.truncate(1);
    cluster.start_all().await;
    cluster.ready().await;
    let first = cluster.register("a1", 1).await;
    let (renewed, _) = cluster.owns(&first, 10).await;
    let other = RegisterRequest {
        set: "im-a".into(),
        node: "a1".into(),
        addr: "127.0.0.1:10".into(),
        token: 2,
        lease_ms: LEASE_MS,
        follows: first.incarnation,
        ..RegisterRequest::default()
    };
    let refusal = cluster.control(1).register(other.clone()).await.unwrap_err();
    let details = refusal.get_error_details();
    let info = details.error_info().unwrap();
    assert_eq!((info.reason.as_str(), info.metadata["addr"].as_str()), ("NODE_ALIVE", "127.0.0.1:9"));
    cluster.renew(&first, renewed + 1).await.unwrap();
    // A delayed duplicate of an earlier registration ends nothing either.
    let stale = RegisterRequest { token: 9, addr: "127.0.0.1:9".into(), follows: 0, ..other.clone() };
    assert_eq!(reason(cluster.control(1).register(stale).await), "OTHER_PREDECESSOR");
    cluster.renew(&first, renewed + 2).await.unwrap();
    let behind = RegisterRequest { token: 9, addr: "127.0.0.1:9".into(), seen_revision: u64::MAX, ..other.clone() };
    assert_eq!(reason(cluster.control(1).register(behind).await), "STORE_BEHIND");
    cluster.renew(&first, renewed + 3).await.unwrap();
    let replaced = RegisterRequest { replace: true, ..other.clone() };
    let second = cluster.control(1).register(replaced).await.unwrap().into_inner();
    assert_eq!(second.incarnation, first.incarnation + 1);
    let over = cluster.renew(&first, renewed + 4).await.unwrap_err();
    let details = over.get_error_details();
    let info = details.error_info().unwrap();
    let (reason, addr) = (info.reason.as_str(), info.metadata["addr"].as_str());
    assert_eq!((reason, addr, info.metadata["current"].as_str()), ("OTHER_INCARNATION", "127.0.0.1:10", "2"));
    cluster.stop_all().await;
}

/// The leader has a long lease wait and an allocator a long lease; the other members have the usual wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lease_wait_is_the_sets_and_a_member_with_another_one_ends() {
    let mut cluster = Cluster::new(3, Disk::Memory);
    cluster.options.lease_wait = Duration::from_secs(10);
    cluster.start_all().await;
    cluster.ready().await;
    cluster.register("a1", 1).await;
    let (leader, follower) = (cluster.leader().await, cluster.follower().await);
    let mut nodes = NodeAdminServiceClient::new(channel(cluster.admin_addr(leader)));
    let terms = async |nodes: &mut NodeAdminServiceClient<Channel>, lease_wait_ms| {
        let request = SetTermsRequest { set: "im-a".into(), lease_wait_ms, ..SetTermsRequest::default() };
        nodes.set_terms(request).await.map(|response| (response.get_ref().lease_wait_ms, response.get_ref().changed))
    };
    assert_eq!(terms(&mut nodes, 0).await.unwrap(), (10_000, false));
    assert_eq!(terms(&mut nodes, 9_000).await.unwrap(), (9_000, true));
    assert_eq!(terms(&mut nodes, 9_000).await.unwrap(), (9_000, false));
    assert_eq!(reason(terms(&mut nodes, u64::MAX).await), "BAD_TERMS");
    assert_eq!(terms(&mut nodes, 10_000).await.unwrap(), (10_000, true));
    cluster.stop(follower).await;
    cluster.options.lease_wait = Duration::from_millis(2_500);
    cluster.start(follower).await;
    let token = cluster.member(follower).tasks.token();
    tokio::time::timeout(TIMEOUT, token.cancelled()).await.expect("the member with other settings ends");
    let ended = cluster.take(follower);
    ended.handle.shutdown().await.unwrap();
    ended.tasks.shutdown(TIMEOUT).await.unwrap();
    assert_eq!(cluster.leader().await, leader);
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sections_go_to_those_who_came_once_the_grace_is_over() {
    let mut cluster = Cluster::new(1, Disk::Memory);
    cluster.options.registration_grace = Duration::from_millis(50);
    cluster.start_all().await;
    cluster.ready().await;
    let session = cluster.register("a2", 1).await;
    cluster.owns(&session, 10).await;
    // The second allocator, which is late, becomes a node of the table without a section.
    cluster.register("a1", 1).await;
    let status = until("both nodes", async || {
        let status = cluster.status(1).await;
        (status.allocs.len() == 2).then_some(status)
    })
    .await;
    assert_eq!((status.allocs[0].sections, status.allocs[1].sections, status.sections_unowned), (10, 0, 0));
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ceilings_of_a_member_are_those_that_it_has_applied() {
    let mut cluster = Cluster::started(1, Disk::Memory).await;
    let session = cluster.register("a1", 1).await;
    cluster.owns(&session, 10).await;
    assert_eq!(cluster.raise(&session, 3, 1, 500).await.unwrap(), 500);
    let mut node = StatusServiceClient::new(channel(cluster.addr(1)));
    let mut list = async |first_section| {
        let response = node.list_ceilings(ListCeilingsRequest { first_section }).await.unwrap().into_inner();
        assert_eq!((response.set.as_str(), response.next_section), ("im-a", 0));
        response.ceilings.into_iter().map(|one| (one.section, one.ceiling)).collect::<Vec<_>>()
    };
    assert_eq!(list(0).await.len(), 10);
    assert_eq!(list(3).await[..2], [(3, 500), (4, 0)]);
    assert!(list(10).await.is_empty());
    cluster.stop_all().await;
}
