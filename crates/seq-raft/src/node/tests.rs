//! A group of three on loopback with the journal of the tests: proposals, restarts, and a change of voters that lost its leader
//! between its two entries.

use std::collections::BTreeSet;
use std::net::TcpListener;

use openraft::raft::Precondition;
use seq_proto::v1::raft_service_server::RaftServiceServer;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use super::*;
use crate::storage::MemoryDisk;
use crate::test_machine::{Command, Journal, unobserved};
use crate::types::{Membership, Payload};

/// How long anything may take on a slow, busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Three members on loopback, and the data directory of each.
async fn three(tasks: &TaskGroup) -> Vec<RunningNode<Journal>> {
    let ports: Vec<TcpListener> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let addr = |port: &TcpListener| port.local_addr().unwrap().to_string();
    let peer = |(id, port)| Peer { id, name: format!("s{id}"), addr: addr(port) };
    let peers: Vec<Peer> = (1..).zip(&ports).map(peer).collect();
    let start = |(id, port)| start(id, port, peers.clone(), tasks);
    futures::future::join_all((1..).zip(ports).map(start)).await
}

async fn start(id: u64, port: TcpListener, peers: Vec<Peer>, tasks: &TaskGroup) -> RunningNode<Journal> {
    let config = RaftConfig {
        cluster: "test".into(),
        set: "test".into(),
        id,
        node: format!("s{id}"),
        data: DataDir::Memory(MemoryDisk::new()),
        peers,
        join: false,
        options: RaftOptions::DEFAULTS,
        dial: Dial::tcp(),
    };
    let node = RaftNode::prepare(config, tasks).unwrap();
    let service = RaftServiceServer::new(node.server());
    port.set_nonblocking(true).unwrap();
    let incoming = TcpIncoming::from(tokio::net::TcpListener::from_std(port).unwrap());
    let stopping = tasks.token();
    tasks.spawn("server", Kind::Disposable, async move {
        let stopped = stopping.cancelled_owned();
        Server::builder().add_service(service).serve_with_incoming_shutdown(incoming, stopped).await.unwrap();
    });
    let loaded = node.load::<Journal, StartError>(unobserved(), |_| Ok(())).await.unwrap();
    loaded.run(tasks)
}

async fn stop(members: Vec<RunningNode<Journal>>, tasks: &TaskGroup) {
    for end in futures::future::join_all(members.into_iter().map(|member| member.shutdown(tasks, || {}))).await {
        end.unwrap();
    }
    tasks.shutdown(TIMEOUT).await.unwrap();
}

/// Waits until a condition holds for a member, which is checked after each change.
async fn until<T>(member: &RaftHandle<Journal>, mut check: impl FnMut(&RaftHandle<Journal>) -> Option<T>) -> T {
    let mut changes = member.changes();
    let held = async {
        loop {
            if let Some(held) = check(member) {
                return held;
            }
            changes.changed().await.unwrap();
        }
    };
    tokio::time::timeout(TIMEOUT, held).await.expect("the condition holds in time")
}

async fn leader(members: &[RunningNode<Journal>]) -> &RaftHandle<Journal> {
    let id = until(members[0].handle(), RaftHandle::leader).await;
    let leader = members.iter().map(RunningNode::handle).find(|member| member.id() == id).unwrap();
    until(leader, |member| member.is_leader().then_some(())).await;
    leader
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_is_applied_by_every_member_and_its_output_returned() {
    let tasks = TaskGroup::new();
    let members = three(&tasks).await;
    let leader = leader(&members).await;
    assert_eq!(leader.propose(&Command::Append(b"one".to_vec())).await, Ok(1));
    assert_eq!(leader.propose(&Command::Append(b"two".to_vec())).await, Ok(2));
    for member in &members {
        let words = |member: &RaftHandle<Journal>| member.state().read(|journal| journal.words.clone());
        let both = until(member.handle(), |member| Some(words(member)).filter(|words| words.len() == 2)).await;
        assert_eq!(both, [b"one", b"two"]);
    }
    let follower = members.iter().map(RunningNode::handle).find(|member| member.id() != leader.id()).unwrap();
    let refusal = follower.propose(&Command::Append(b"three".to_vec())).await.unwrap_err();
    assert_eq!(refusal, follower.not_leader());
    stop(members, &tasks).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_voters_that_lost_its_leader_is_completed_by_the_next_one() {
    let tasks = TaskGroup::new();
    let members = three(&tasks).await;
    let leader = leader(&members).await;
    let list = leader.raft.server_metrics().borrow_watched().membership_config.clone();
    let nodes: BTreeMap<_, _> = list.membership().nodes().map(|(id, member)| (*id, member.clone())).collect();
    let (old, new) = (BTreeSet::from([1, 2, 3]), BTreeSet::from([leader.id()]));
    // The first entry of a change, and no task that waits to make the second.
    let joint = Membership::new(vec![old, new.clone()], nodes).unwrap();
    let conditions = [Precondition::LastMembershipLogId { last_membership_log_id: *list.log_id() }];
    leader.raft.append_membership(joint, Payload::Blank, conditions).await.unwrap();
    until(leader, |member| {
        let metrics = member.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        let committed = metrics.membership_config == metrics.committed_membership_config;
        let complete = metrics.membership_config.membership().get_joint_config() == std::slice::from_ref(&new);
        (committed && complete).then_some(())
    })
    .await;
    stop(members, &tasks).await;
}
