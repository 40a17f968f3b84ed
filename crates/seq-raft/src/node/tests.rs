//! A group of three on loopback with the test journal: proposals, restarts, and a change of voters that lost its leader
//! between its two entries.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use openraft::raft::{Precondition, VoteRequest};
use seq_api::node_events::NodeEvents;
use seq_proto::v1::raft_service_server::RaftService;
use seq_proto::v1::raft_service_server::RaftServiceServer;
use tonic::Request;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use seq_proto::dial::Dial;

use super::*;
use crate::encoding;
use crate::leadership::quorum::QuorumStatus;
use crate::options::RaftOptions;
use crate::peer::Peer;
use crate::propose::ProposeError;
use crate::storage::{DataDir, MemoryDisk, OpenError, RestoredGroup, form_restored};
use crate::test_machine::{Command, Journal, OLDEST, unobserved};
use crate::transport::client;
use crate::types::{Membership, Payload, TypeConfig, Vote};

mod formats;
mod states;

/// Timeout of each wait on a slow, busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Three members on loopback, and the data directory of each.
async fn three(tasks: &TaskGroup) -> Vec<RunningNode<Journal>> {
    let ports: Vec<TcpListener> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let addr = |port: &TcpListener| port.local_addr().unwrap().to_string();
    let peer = |(id, port)| Peer { id, name: format!("s{id}"), addr: addr(port), raft_addr: addr(port) };
    let peers: Vec<Peer> = (1..).zip(&ports).map(peer).collect();
    let start = |(id, port)| start(id, port, peers.clone(), DataDir::Memory(MemoryDisk::new()), tasks);
    futures::future::join_all((1..).zip(ports).map(start)).await
}

async fn start<const NEWEST: u16>(
    id: u64,
    port: TcpListener,
    peers: Vec<Peer>,
    data: DataDir,
    tasks: &TaskGroup,
) -> RunningNode<Journal<NEWEST>> {
    run(prepare(id, peers, data, tasks), port, tasks).await
}

fn prepare<const NEWEST: u16>(
    id: u64,
    peers: Vec<Peer>,
    data: DataDir,
    tasks: &TaskGroup,
) -> RaftNode<Journal<NEWEST>> {
    let config = RaftConfig {
        cluster: "test".into(),
        set: "test".into(),
        id,
        node: format!("s{id}"),
        data,
        peers,
        join: false,
        auto_upgrade: false,
        options: RaftOptions { comparison_interval: Duration::from_millis(100), ..RaftOptions::DEFAULTS },
        events: NodeEvents::default(),
        dial: Dial::tcp(),
    };
    RaftNode::prepare(config, tasks).unwrap()
}

async fn run<const NEWEST: u16>(
    node: RaftNode<Journal<NEWEST>>,
    port: TcpListener,
    tasks: &TaskGroup,
) -> RunningNode<Journal<NEWEST>> {
    let service = RaftServiceServer::new(node.server());
    port.set_nonblocking(true).unwrap();
    let incoming = TcpIncoming::from(tokio::net::TcpListener::from_std(port).unwrap());
    let stopping = tasks.token();
    tasks.spawn("server", Kind::Disposable, async move {
        let stopped = stopping.cancelled_owned();
        Server::builder().add_service(service).serve_with_incoming_shutdown(incoming, stopped).await.unwrap();
    });
    let loaded = node.load::<StartError>(unobserved(), |_| Ok(())).await.unwrap();
    loaded.run(tasks)
}

async fn stop(members: Vec<RunningNode<Journal>>, tasks: &TaskGroup) {
    for end in futures::future::join_all(members.into_iter().map(|member| member.shutdown(tasks, || {}))).await {
        end.unwrap();
    }
    tasks.shutdown(TIMEOUT).await.unwrap();
}

/// Waits until a condition, checked after each change, holds for a member.
async fn until<M: StateMachine, T>(member: &RaftHandle<M>, mut check: impl FnMut(&RaftHandle<M>) -> Option<T>) -> T {
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
    // Without the acknowledgement of a majority it accepts no proposal.
    until(leader, |member| (member.quorum() == QuorumStatus::Leads).then_some(())).await;
    leader
}

/// Returns a member that leads now.
async fn leading(members: &[RunningNode<Journal>]) -> &RaftHandle<Journal> {
    let leads = |member: &&RaftHandle<Journal>| member.quorum() == QuorumStatus::Leads;
    let found = async {
        loop {
            if let Some(leader) = members.iter().map(RunningNode::handle).find(leads) {
                return leader;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TIMEOUT, found).await.expect("a member leads in time")
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
async fn proposals_that_wait_share_entries_and_each_has_its_own_output() {
    const PROPOSALS: usize = 500;
    let tasks = TaskGroup::new();
    let members = three(&tasks).await;
    let leader = leader(&members).await;
    let word = |number: usize| format!("word {number}").into_bytes();
    let before = until(leader, |member| member.state().last_applied()).await;
    let too_large = Command::Append(vec![0; crate::types::MAX_COMMAND_BYTES]);
    let commands: Vec<Command> = (0..PROPOSALS)
        .map(|number| if number == 7 { too_large.clone() } else { Command::Append(word(number)) })
        .collect();
    let mut outputs = futures::future::join_all(commands.iter().map(|command| leader.propose(command))).await;
    // It is refused alone.
    assert!(matches!(outputs.remove(7), Err(ProposeError::TooLarge(_))));
    // The others arrive in this order, and no other command is proposed.
    let expected: Vec<_> = (1..PROPOSALS).map(Ok).collect();
    assert_eq!(outputs, expected);
    let words: Vec<_> = (0..PROPOSALS).filter(|number| *number != 7).map(word).collect();
    assert_eq!(leader.state().read(|journal| journal.words.clone()), words);
    let entries = leader.state().last_applied().unwrap() - before;
    assert!(entries < PROPOSALS as u64 / 4, "{entries} entries");
    stop(members, &tasks).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_leader_is_read_only_after_it_has_applied_what_its_predecessor_committed() {
    const TRANSFERS: usize = 20;
    const WORDS: usize = 50;
    let tasks = TaskGroup::new();
    let members = three(&tasks).await;
    let mut transfers = 0;
    for _ in 0..10 * TRANSFERS {
        let leader = leading(&members).await;
        let word = Command::Append(b"word".to_vec());
        let outputs = futures::future::join_all((0..WORDS).map(|_| leader.propose(&word))).await;
        // On a busy machine, the members may elect another leader at any time. Then the next attempt counts.
        let Ok(outputs) = outputs.into_iter().collect::<Result<Vec<usize>, _>>() else { continue };
        let failed = AtomicBool::new(false);
        let transfer = async {
            let transferred = leader.transfer_leadership().await;
            failed.store(transferred.is_err(), Relaxed);
            transferred.is_ok()
        };
        // A member that does not lead refuses, and the member that leads next answers as soon as it can.
        let reads = members.iter().map(RunningNode::handle).filter(|member| member.id() != leader.id());
        let reads = reads.map(|member| {
            Box::pin(async {
                while member.linearize().await.is_err() {
                    if failed.load(Relaxed) {
                        return None;
                    }
                    tokio::task::yield_now().await;
                }
                Some(member.state().read(|journal| journal.words.len()))
            })
        });
        let (transferred, (words, ..)) = tokio::join!(transfer, futures::future::select_all(reads));
        if let Some(words) = words {
            assert!(
                words >= outputs[WORDS - 1],
                "{words} words are read after {} in transfer {transfers}",
                outputs[WORDS - 1]
            );
        }
        transfers += usize::from(transferred && words.is_some());
        if transfers == TRANSFERS {
            break;
        }
    }
    assert_eq!(transfers, TRANSFERS);
    stop(members, &tasks).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proposal_whose_leader_changes_is_applied_once_at_most() {
    const PROPOSALS: usize = 300;
    let tasks = TaskGroup::new();
    let members = three(&tasks).await;
    let leader = leader(&members).await;
    let commands: Vec<Command> =
        (0..PROPOSALS).map(|number| Command::Append(format!("word {number}").into_bytes())).collect();
    let propose = |command| leader.propose(command);
    let first = futures::future::join_all(commands[..PROPOSALS / 2].iter().map(propose));
    let transfer = leader.transfer_leadership();
    let second = futures::future::join_all(commands[PROPOSALS / 2..].iter().map(propose));
    let (first, transferred, second) = tokio::join!(first, transfer, second);
    let next = transferred.unwrap();
    let next = members.iter().map(RunningNode::handle).find(|member| member.id() == next).unwrap();
    until(next, |member| (member.quorum() == QuorumStatus::Leads).then_some(())).await;
    // Applied after all entries that the former leader has committed.
    next.propose(&Command::Append(b"last".to_vec())).await.unwrap();
    let mut words = next.state().read(|journal| journal.words.clone());
    for (command, outcome) in commands.iter().zip(first.into_iter().chain(second)) {
        let Command::Append(word) = command else { unreachable!("all append") };
        match outcome {
            Ok(output) => assert_eq!(&words[output - 1], word),
            Err(ProposeError::NotLeader { .. } | ProposeError::LeaderChanged { .. }) => {}
            Err(ProposeError::TimedOut { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
    let applied = words.len();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), applied, "no word is applied twice");
    stop(members, &tasks).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_voters_that_lost_its_leader_is_completed_by_the_next_one() {
    let tasks = TaskGroup::new();
    let members = three(&tasks).await;
    let leader = leader(&members).await;
    // The library makes no change of voters before an entry of the leader's own term is committed.
    leader.propose(&Command::Append(b"of this term".to_vec())).await.unwrap();
    let list = leader.raft.server_metrics().borrow_watched().membership_config.clone();
    let nodes: BTreeMap<_, _> = list.membership().nodes().map(|(id, member)| (*id, member.clone())).collect();
    let (old, new) = (BTreeSet::from([1, 2, 3]), BTreeSet::from([leader.id()]));
    // Writes the first entry of a change; no task waits to write the second.
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_sends_as_another_one_is_refused() {
    let tasks = TaskGroup::new();
    let ports: Vec<TcpListener> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let addr = |port: &TcpListener| port.local_addr().unwrap().to_string();
    let peers: Vec<Peer> = (1..)
        .zip(&ports)
        .map(|(id, port)| Peer { id, name: format!("s{id}"), addr: addr(port), raft_addr: addr(port) })
        .collect();
    let nodes: Vec<RaftNode<Journal>> =
        (1..=3).map(|id| prepare(id, peers.clone(), DataDir::Memory(MemoryDisk::new()), &tasks)).collect();
    let (receiver, mine) = (nodes[0].server(), nodes[0].me.clone());
    let sender = nodes[1].me.clone();
    let members = nodes.into_iter().zip(ports).map(|(node, port)| run(node, port, &tasks));
    let members = futures::future::join_all(members).await;
    leader(&members).await;
    // The message proves store 2 by its data directory; the certificate is checked separately.
    let send = async |holder: Option<&str>| {
        let payload = client::encode(&VoteRequest::<TypeConfig>::new(Vote::new(0, 2), None));
        let mut request = Request::new(sender.message(1, mine.fingerprint(), 1, payload));
        if let Some(holder) = holder {
            let identity = seq_auth::Identity::of_node("test", seq_auth::Role::Store, "test", holder).unwrap();
            request.extensions_mut().insert(seq_kit::connection::Peer::identified(identity));
        }
        receiver.pre_vote(request).await.map(drop).map_err(|status| seq_proto::status::reason(&status).unwrap())
    };
    assert_eq!(send(None).await, Ok(()), "no TLS");
    assert_eq!(send(Some("s2")).await, Ok(()));
    assert_eq!(send(Some("s3")).await, Err("OTHER_HOLDER".to_owned()));
    stop(members, &tasks).await;
}

/// Each member forms its directory on its own; together they are a group that continues from the state.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restored_members_form_a_group_that_continues_from_the_state() {
    let (tasks, dir) = (TaskGroup::new(), tempfile::tempdir().unwrap());
    let ports: Vec<TcpListener> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let addr = |port: &TcpListener| port.local_addr().unwrap().to_string();
    let peers: Vec<Peer> = (1..)
        .zip(&ports)
        .map(|(id, port)| Peer { id, name: format!("s{id}"), addr: addr(port), raft_addr: addr(port) })
        .collect();
    let state: Journal = Journal { words: vec![b"before".to_vec()], ids: vec![1, 2, 3, 9] };
    let start = |(id, port): (u64, TcpListener)| {
        let (place, group) = (dir.path().join(id.to_string()), group(&peers));
        form_restored(&place, id, &group, state.clone()).unwrap();
        start(id, port, peers.clone(), DataDir::Path(place), &tasks)
    };
    let members = futures::future::join_all((1..).zip(ports).map(start)).await;
    let leader = leader(&members).await;
    assert_eq!(leader.propose(&Command::Append(b"after".to_vec())).await, Ok(2));
    for member in &members {
        let state = |member: &RaftHandle<Journal>| member.state().read(Clone::clone);
        let state = until(member.handle(), |member| Some(state(member)).filter(|state| state.words.len() == 2)).await;
        assert_eq!(state, Journal { words: vec![b"before".to_vec(), b"after".to_vec()], ids: vec![1, 2, 3, 9] });
        assert_eq!(member.handle().status().members.len(), 3);
    }
    stop(members, &tasks).await;
}

fn group(peers: &[Peer]) -> RestoredGroup<'_> {
    RestoredGroup { cluster: "test", peers, format: OLDEST, seed: [7; 32] }
}

#[test]
fn a_directory_with_contents_is_not_formed() {
    let dir = tempfile::tempdir().unwrap();
    let peers = [Peer { id: 1, name: "s1".into(), addr: "127.0.0.1:1".into(), raft_addr: "127.0.0.1:1".into() }];
    let state: Journal = Journal { words: Vec::new(), ids: vec![1] };
    let form = || form_restored(dir.path(), 1, &group(&peers), state.clone());
    form().unwrap();
    assert!(matches!(form(), Err(OpenError::NotEmpty { .. })), "formed already");
    // An interrupted creation leaves no identity: the directory is neither valid nor empty.
    std::fs::remove_file(dir.path().join("identity")).unwrap();
    assert!(matches!(form(), Err(OpenError::NotEmpty { .. })));
    let refused = storage::prepare(&DataDir::Path(dir.path().to_owned()), "test", 1);
    assert!(matches!(refused, Err(OpenError::NoIdentity { .. })));
}
