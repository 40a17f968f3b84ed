//! An operation that an operator requests is recorded once, with its outcome, no matter which member receives it.

use seq_proto::v1::audit_event::Record;
use seq_proto::v1::audit_service_client::AuditServiceClient;
use seq_proto::v1::node_admin_service_client::NodeAdminServiceClient;
use seq_proto::v1::{AuditEvent, DrainNodeRequest, ListEventsRequest, SetTermsRequest, TransferLeaderRequest};
use seq_testkit::until;

use crate::cluster::{Cluster, Disk, channel, reason};

async fn events(cluster: &Cluster, id: u64, after: u64) -> Vec<AuditEvent> {
    let mut client = AuditServiceClient::new(channel(cluster.admin_addr(id)));
    client.list_events(ListEventsRequest { after }).await.unwrap().into_inner().events
}

/// Returns operations and their outcomes, by number.
fn outcomes(events: &[AuditEvent]) -> Vec<(u64, String, Option<Option<String>>)> {
    let mut outcomes = Vec::new();
    for event in events {
        match event.record.clone().unwrap() {
            Record::Begun(begun) => outcomes.push((event.index, begun.operation, None)),
            Record::Ended(ended) => {
                let one = outcomes.iter_mut().find(|(number, ..)| *number == ended.operation).unwrap();
                assert_eq!(one.2, None, "an operation ends once");
                one.2 = Some(ended.refusal.map(|text| text.split(':').next().unwrap().to_owned()));
            }
        }
    }
    outcomes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_is_recorded_once_with_its_outcome_through_any_member() {
    let mut cluster = Cluster::started(3, Disk::Memory).await;
    cluster.register("a1", 1).await;
    let leader = cluster.leader().await;
    let follower = cluster.follower().await;
    let drain = |node: &str, dry_run| {
        let (set, node) = ("im-a".into(), node.into());
        DrainNodeRequest { set, node, drained: true, dry_run, ..DrainNodeRequest::default() }
    };
    for id in [leader, follower] {
        let mut nodes = NodeAdminServiceClient::new(channel(cluster.admin_addr(id)));
        assert_eq!(reason(nodes.drain_node(drain("a9", false)).await), "UNKNOWN_NODE");
        assert_eq!(reason(nodes.drain_node(drain("a9", true)).await), "UNKNOWN_NODE");
        let lease_wait_ms = u64::MAX;
        let terms = SetTermsRequest { set: "im-a".into(), lease_wait_ms, ..SetTermsRequest::default() };
        assert_eq!(reason(nodes.set_terms(terms).await), "BAD_TERMS");
        let read = SetTermsRequest { set: "im-a".into(), ..SetTermsRequest::default() };
        nodes.set_terms(read).await.unwrap();
    }
    let drained = "node drain a9".to_owned();
    let terms = format!("store terms --lease-wait-ms {}", u64::MAX);
    let refused = |reason: &str| Some(Some(reason.to_owned()));
    let mut expected = Vec::new();
    for first in [1, 5] {
        expected.push((first, drained.clone(), refused("UNKNOWN_NODE")));
        expected.push((first + 2, terms.clone(), refused("BAD_TERMS")));
    }
    for id in [leader, follower] {
        assert_eq!(outcomes(&events(&cluster, id, 0).await), expected);
    }
    assert_eq!(events(&cluster, leader, 6).await.len(), 2);

    // The member that transfers leadership has another member record the end.
    let to = follower;
    let lead = TransferLeaderRequest { set: "im-a".into(), to, ..TransferLeaderRequest::default() };
    cluster.admin(leader).transfer_leader(lead).await.unwrap();
    expected.push((9, format!("store lead --to {to}"), Some(None)));
    until("the new leader has the end", async || (outcomes(&events(&cluster, to, 0).await) == expected).then_some(()))
        .await;
    cluster.stop_all().await;
}
