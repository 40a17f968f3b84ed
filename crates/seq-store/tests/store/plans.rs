//! Plans of operators: a stale plan changes nothing, no matter which member receives it; a good plan is made once.

use std::time::Duration;

use seq_proto::status;
use seq_proto::v1::node_admin_service_client::NodeAdminServiceClient;
use seq_proto::v1::{
    AddLearnersRequest, ChangeVotersRequest, CloseSetRequest, DrainNodeRequest, DrainNodeResponse, ListNodesRequest,
    NewMember, RaiseFormatRequest, SetState, SetTermsRequest, TransferLeaderRequest,
};
use seq_testkit::until;
use tonic::Status;
use tonic::transport::Channel;

use crate::cluster::{Cluster, Disk, channel, reason};
use crate::members;
use crate::sets::{sets, two_sets};

/// A fingerprint that no plan has except by accident.
const OTHER: u64 = 0x5eed;

const STALE: &str = "STALE_PLAN";

fn nodes(cluster: &Cluster, id: u64) -> NodeAdminServiceClient<Channel> {
    NodeAdminServiceClient::new(channel(cluster.admin_addr(id)))
}

fn set() -> String {
    "im-a".to_owned()
}

fn drain(node: &str, drained: bool) -> DrainNodeRequest {
    DrainNodeRequest { set: set(), node: node.into(), drained, ..DrainNodeRequest::default() }
}

/// Sends a request to a follower, which forwards it to the leader.
async fn drained(cluster: &Cluster, request: DrainNodeRequest) -> Result<DrainNodeResponse, Status> {
    let follower = cluster.follower().await;
    nodes(cluster, follower).drain_node(request).await.map(tonic::Response::into_inner)
}

/// Returns the names of the drained nodes.
async fn all_drained(cluster: &Cluster) -> Vec<String> {
    let list = nodes(cluster, cluster.leader().await).list_nodes(ListNodesRequest {}).await.unwrap().into_inner();
    list.nodes.into_iter().filter(|node| node.drained).map(|node| node.name).collect()
}

/// Starts three stores with three live AllocSvrs.
pub(crate) async fn three_nodes() -> Cluster {
    let mut cluster = Cluster::new(3, Disk::Memory);
    let a3 = seq_core::set_spec::AllocSpec { name: "a3".into(), ..cluster.spec.allocs[1].clone() };
    cluster.spec.allocs.push(a3);
    cluster.start_all().await;
    cluster.ready().await;
    for node in ["a1", "a2", "a3"] {
        cluster.register(node, 1).await;
    }
    until("the arbiter sees all nodes live", async || {
        let leader = cluster.leader().await;
        let list = nodes(&cluster, leader).list_nodes(ListNodesRequest {}).await.ok()?.into_inner();
        (list.nodes.iter().filter(|node| node.living).count() == 3).then_some(())
    })
    .await;
    cluster
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_is_made_only_while_the_same_nodes_are_left() {
    let mut cluster = three_nodes().await;
    let plan = async |node, is| {
        let shown = drained(&cluster, DrainNodeRequest { dry_run: true, ..drain(node, is) }).await.unwrap();
        assert!(!shown.changed && shown.fingerprint != 0, "{shown:?}");
        shown.fingerprint
    };
    let (of_a1, of_a2) = (plan("a1", true).await, plan("a2", true).await);
    assert_ne!(of_a1, of_a2);
    assert!(all_drained(&cluster).await.is_empty());
    assert_eq!(reason(drained(&cluster, DrainNodeRequest { plan: OTHER, ..drain("a1", true) }).await), STALE);
    assert_eq!(reason(drained(&cluster, DrainNodeRequest { plan: of_a2, ..drain("a1", true) }).await), STALE);
    assert!(all_drained(&cluster).await.is_empty());

    // Another node is drained in the meantime, so fewer nodes are left than in the plan.
    let made = drained(&cluster, DrainNodeRequest { plan: of_a2, ..drain("a2", true) }).await.unwrap();
    assert!(made.changed && made.fingerprint == of_a2, "{made:?}");
    let refusal = drained(&cluster, DrainNodeRequest { plan: of_a1, ..drain("a1", true) }).await;
    let now = plan("a1", true).await;
    let text =
        format!("the plan {of_a1:016x} is stale, or of another change: the plan of this change is {now:016x} now");
    assert_eq!(refusal.as_ref().unwrap_err().message(), text);
    assert_eq!(reason(refusal), STALE);
    assert_eq!(all_drained(&cluster).await, ["a2"]);

    // A second operator with the plan of a finished drain finds nothing to do.
    let again = drained(&cluster, DrainNodeRequest { plan: of_a2, ..drain("a2", true) }).await.unwrap();
    assert!(!again.changed, "{again:?}");
    // The end of a drain has another plan.
    assert_eq!(reason(drained(&cluster, DrainNodeRequest { plan: of_a2, ..drain("a2", false) }).await), STALE);
    let end = plan("a2", false).await;
    assert!(drained(&cluster, DrainNodeRequest { plan: end, ..drain("a2", false) }).await.unwrap().changed);
    assert!(all_drained(&cluster).await.is_empty());
    assert_eq!(plan("a1", true).await, of_a1, "what the plan rests on is as it was");
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_are_drained_together_are_planned_before_the_first_of_them_is() {
    let mut cluster = three_nodes().await;
    let together = |node, others: &[&str]| DrainNodeRequest {
        together: others.iter().map(|name| (*name).to_owned()).collect(),
        ..drain(node, true)
    };
    let plan = async |request: DrainNodeRequest| {
        drained(&cluster, DrainNodeRequest { dry_run: true, ..request }).await.unwrap().fingerprint
    };
    let (one, other) = (together("a1", &["a2"]), together("a2", &["a1"]));
    let plans = [plan(one.clone()).await, plan(other.clone()).await];
    assert!(drained(&cluster, DrainNodeRequest { plan: plans[0], ..one }).await.unwrap().changed);
    assert!(drained(&cluster, DrainNodeRequest { plan: plans[1], ..other }).await.unwrap().changed);
    assert_eq!(all_drained(&cluster).await, ["a1", "a2"]);
    for name in ["a1", "a2"] {
        drained(&cluster, drain(name, false)).await.unwrap();
    }
    let all = together("a1", &["a2", "a3"]);
    assert_eq!(reason(drained(&cluster, all).await), "LAST_NODE", "together they are all that could own sections");
    assert!(all_drained(&cluster).await.is_empty());
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_drains_at_once_one_node_is_left() {
    /// Each round is a race that a leader without the lock loses more often than not.
    const ROUNDS: usize = 20;
    let mut cluster = three_nodes().await;
    let leader = cluster.leader().await;
    // One connection, so that the requests arrive together.
    let admin = nodes(&cluster, leader);
    for round in 0..ROUNDS {
        let drains = ["a1", "a2", "a3"].map(|name| {
            let mut admin = admin.clone();
            async move { admin.drain_node(drain(name, true)).await }
        });
        let results = futures::future::join_all(drains).await;
        let refused: Vec<_> = results.into_iter().filter_map(Result::err).collect();
        assert_eq!(refused.len(), 1, "round {round}: {refused:?}");
        assert_eq!(status::reason(&refused[0]).as_deref(), Some("LAST_NODE"));
        let left = all_drained(&cluster).await;
        assert_eq!(left.len(), 2);
        for name in left {
            admin.clone().drain_node(drain(&name, false)).await.unwrap();
        }
    }
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terms_are_changed_only_where_the_planned_ones_are_in_force() {
    let mut cluster = Cluster::started(3, Disk::Memory).await;
    let mut nodes = nodes(&cluster, cluster.follower().await);
    let terms = |lease_wait_ms| SetTermsRequest { set: set(), lease_wait_ms, ..SetTermsRequest::default() };
    // Set, not read: the leader's first terms may still be in flight, and would be in force between two reads.
    let before = nodes.set_terms(terms(6_000)).await.unwrap().into_inner().lease_wait_ms;
    let shown = nodes.set_terms(SetTermsRequest { dry_run: true, ..terms(9_000) }).await.unwrap().into_inner();
    assert_eq!((shown.lease_wait_ms, shown.changed), (before, false));
    let too_long = SetTermsRequest { dry_run: true, ..terms(3_600_001) };
    assert_eq!(reason(nodes.set_terms(too_long).await), "BAD_TERMS", "refused before it is confirmed");

    // The plan of one change fits no other change, and is stale once other terms are in force.
    let with = |request, plan| SetTermsRequest { plan, ..request };
    assert_eq!(reason(nodes.set_terms(with(terms(8_000), shown.fingerprint)).await), STALE);
    assert!(nodes.set_terms(terms(7_000)).await.unwrap().into_inner().changed);
    assert_eq!(reason(nodes.set_terms(with(terms(9_000), shown.fingerprint)).await), STALE);
    assert_eq!(nodes.set_terms(terms(0)).await.unwrap().into_inner().lease_wait_ms, 7_000);

    let shown = nodes.set_terms(SetTermsRequest { dry_run: true, ..terms(9_000) }).await.unwrap().into_inner();
    let made = nodes.set_terms(with(terms(9_000), shown.fingerprint)).await.unwrap().into_inner();
    assert_eq!((made.lease_wait_ms, made.changed), (9_000, true));
    let again = nodes.set_terms(with(terms(9_000), shown.fingerprint)).await.unwrap().into_inner();
    assert_eq!((again.lease_wait_ms, again.changed), (9_000, false));
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_are_changed_only_from_the_list_that_was_planned_on() {
    let mut cluster = Cluster::new(3, Disk::Memory);
    let (new, other) = (cluster.newcomer(Disk::Memory, &[1, 2]), cluster.newcomer(Disk::Memory, &[1, 2]));
    cluster.start_all().await;
    cluster.ready().await;
    // A store that is not yet a member knows no leader.
    let leader = cluster.leader().await;
    let mut admin = cluster.admin(cluster.follower().await);
    cluster.start(new).await;
    cluster.start(other).await;
    let member =
        |id: u64| NewMember { id, name: format!("s{id}"), addr: cluster.addr(id).to_owned(), ..NewMember::default() };
    let learner = |id| AddLearnersRequest { set: set(), members: vec![member(id)], ..AddLearnersRequest::default() };
    let old = leader % 3 + 1;
    let replace =
        ChangeVotersRequest { set: set(), add: vec![new], remove: vec![old], ..ChangeVotersRequest::default() };

    let before = members::list(&cluster).await;
    let votes = ChangeVotersRequest { dry_run: true, ..replace.clone() };
    let votes = admin.change_voters(votes).await.unwrap().into_inner();
    let adds = AddLearnersRequest { dry_run: true, ..learner(new) };
    let adds = admin.add_learners(adds).await.unwrap().into_inner();
    assert_eq!((adds.added, votes.changed), (vec![new], false));
    let remove = |plan| ChangeVotersRequest {
        set: set(),
        remove: vec![old],
        allow_even: true,
        dry_run: plan == 0,
        plan,
        ..ChangeVotersRequest::default()
    };
    let planned = admin.change_voters(remove(0)).await.unwrap().into_inner().fingerprint;
    let elsewhere = NewMember { addr: "127.0.0.1:9".into(), ..member(new) };
    let elsewhere =
        AddLearnersRequest { members: vec![elsewhere], plan: adds.fingerprint, ..AddLearnersRequest::default() };
    assert_eq!(reason(admin.add_learners(AddLearnersRequest { set: set(), ..elsewhere }).await), STALE);
    assert_eq!(reason(admin.add_learners(AddLearnersRequest { plan: OTHER, ..learner(new) }).await), STALE);
    assert_eq!(members::list(&cluster).await.membership, before.membership, "nothing was changed");

    // Another operator adds a member, so both halves of the plan are stale.
    admin.add_learners(learner(other)).await.unwrap();
    let changed = members::list(&cluster).await;
    let stale = AddLearnersRequest { plan: adds.fingerprint, ..learner(new) };
    assert_eq!(reason(admin.add_learners(stale).await), STALE);
    assert_eq!(reason(admin.change_voters(remove(planned)).await), STALE);
    let to = 6 - leader - old;
    let leads = TransferLeaderRequest { set: set(), to, ..TransferLeaderRequest::default() };
    assert_eq!(reason(admin.transfer_leader(TransferLeaderRequest { plan: OTHER, ..leads }).await), STALE);
    let after = members::list(&cluster).await;
    assert_eq!((after.membership, after.leader), (changed.membership, leader), "nothing was changed");

    // The plan of a replacement survives its own first half.
    let votes = ChangeVotersRequest { dry_run: true, ..replace.clone() };
    let votes = admin.change_voters(votes).await.unwrap().into_inner().fingerprint;
    let adds = AddLearnersRequest { dry_run: true, ..learner(new) };
    let adds = admin.add_learners(adds).await.unwrap().into_inner().fingerprint;
    admin.add_learners(AddLearnersRequest { plan: adds, ..learner(new) }).await.unwrap();
    let made = until("the new member has caught up", async || {
        let request = ChangeVotersRequest { plan: votes, ..replace.clone() };
        match admin.change_voters(request).await {
            Ok(response) => Some(response.into_inner()),
            Err(refusal) => {
                assert_eq!(status::reason(&refusal).as_deref(), Some("NOT_CAUGHT_UP"), "{refusal:?}");
                None
            }
        }
    })
    .await;
    assert!(made.changed && made.voters.contains(&new) && !made.voters.contains(&old), "{made:?}");
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_is_made_already_needs_no_plan() {
    let mut cluster = Cluster::started(3, Disk::Memory).await;
    let leader = cluster.leader().await;
    let mut admin = cluster.admin(cluster.follower().await);
    let votes = ChangeVotersRequest { set: set(), add: vec![1, 2], plan: OTHER, ..ChangeVotersRequest::default() };
    assert!(!admin.change_voters(votes).await.unwrap().into_inner().changed);
    let member = NewMember { id: 1, name: "s1".into(), addr: cluster.addr(1).to_owned(), ..NewMember::default() };
    let adds = AddLearnersRequest { set: set(), members: vec![member], plan: OTHER, dry_run: false };
    assert!(admin.add_learners(adds).await.unwrap().into_inner().added.is_empty());
    let leads = TransferLeaderRequest { set: set(), to: leader, plan: OTHER, dry_run: false };
    assert_eq!(admin.transfer_leader(leads).await.unwrap().into_inner().leader, leader);
    until("the new group has the newest format", async || {
        let list = members::list(&cluster).await;
        (list.format == list.members[0].newest_format).then_some(())
    })
    .await;
    let raise = RaiseFormatRequest { set: set(), plan: OTHER, dry_run: false };
    let raised = admin.raise_format(raise).await.unwrap().into_inner();
    assert!(raised.from == raised.to && raised.fingerprint != 0, "{raised:?}");
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leadership_is_transferred_by_its_plan_whichever_member_leads_meanwhile() {
    let mut cluster = Cluster::started(3, Disk::Memory).await;
    let leader = cluster.leader().await;
    let (first, second) = (leader % 3 + 1, 6 - leader - (leader % 3 + 1));
    let leads = |to| TransferLeaderRequest { set: set(), to, ..TransferLeaderRequest::default() };
    let shown = until("it could take over", async || {
        let request = TransferLeaderRequest { dry_run: true, ..leads(second) };
        Some(cluster.admin(first).transfer_leader(request).await.ok()?.into_inner())
    })
    .await;
    assert_eq!(shown.leader, leader, "a dry run transfers nothing");
    members::lead(&cluster, first).await;
    until("the plan is made", async || {
        let request = TransferLeaderRequest { plan: shown.fingerprint, ..leads(second) };
        match cluster.admin(cluster.leader().await).transfer_leader(request).await {
            Ok(response) => {
                assert_eq!(response.into_inner().leader, second);
                Some(())
            }
            Err(refusal) => {
                assert_ne!(status::reason(&refusal).as_deref(), Some(STALE), "{refusal:?}");
                None
            }
        }
    })
    .await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_is_closed_only_as_it_was_planned() {
    let (mut a, mut b) = two_sets().await;
    let mut admin = sets(&b, 1);
    let close = CloseSetRequest { name: "im-b".into(), ..CloseSetRequest::default() };
    let of_a = CloseSetRequest { name: "im-a".into(), dry_run: true, ..CloseSetRequest::default() };
    assert_eq!(reason(sets(&a, 1).close_set(of_a).await), "SET_NOT_EMPTY", "refused before it is confirmed");
    let shown = admin.close_set(CloseSetRequest { dry_run: true, ..close.clone() }).await.unwrap().into_inner();
    assert_eq!((shown.state(), shown.waiting_for.len()), (SetState::Open, 0));
    assert_eq!(reason(admin.close_set(CloseSetRequest { plan: OTHER, ..close.clone() }).await), STALE);
    let still = admin.close_set(CloseSetRequest { dry_run: true, ..close.clone() }).await.unwrap().into_inner();
    assert_eq!((still.state(), still.fingerprint), (SetState::Open, shown.fingerprint));
    let planned = CloseSetRequest { plan: shown.fingerprint, ..close };
    assert_ne!(admin.close_set(planned.clone()).await.unwrap().into_inner().state(), SetState::Open);
    // Its repeat, and a second operator, wait for the other sets as well.
    until("the set is closed", async || {
        (admin.close_set(planned.clone()).await.unwrap().into_inner().state() == SetState::Closed).then_some(())
    })
    .await;
    b.stop_all().await;
    a.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_outlives_the_leader_that_made_it() {
    let mut cluster = Cluster::new(3, Disk::Memory);
    cluster.options.registration_grace = Duration::from_millis(1);
    cluster.start_all().await;
    cluster.ready().await;
    for node in ["a1", "a2"] {
        cluster.register(node, 1).await;
    }
    let leader = cluster.leader().await;
    let shown = until("both nodes live", async || {
        let request = DrainNodeRequest { dry_run: true, ..drain("a1", true) };
        Some(nodes(&cluster, leader).drain_node(request).await.ok()?.into_inner())
    })
    .await;
    cluster.stop(leader).await;
    let next = cluster.leader().await;
    let made = until("the next leader makes the change", async || {
        let request = DrainNodeRequest { plan: shown.fingerprint, ..drain("a1", true) };
        match nodes(&cluster, next).drain_node(request).await {
            Ok(response) => Some(response.into_inner()),
            Err(refusal) => {
                // Its arbiter may not have evaluated the state yet; until then no node counts as live.
                let passes = ["STALE_PLAN", "LAST_NODE", "NOT_LEADER", "NO_LEADER", "NO_MAJORITY"];
                let reason = status::reason(&refusal);
                assert!(reason.as_deref().is_none_or(|reason| passes.contains(&reason)), "{refusal:?}");
                None
            }
        }
    })
    .await;
    assert!(made.changed);
    cluster.stop_all().await;
}
