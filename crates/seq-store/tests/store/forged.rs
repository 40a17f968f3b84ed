//! Raft messages that a member would never send, from a sender that has a member's own data directory. For any content,
//! the receiver refuses them with a reason and continues, and the store serves.
//!
//! Types of this file write the content; their fields are the fields of the Raft library's messages in postcard.

use std::collections::{BTreeMap, BTreeSet};

use futures::{Stream, StreamExt, stream};
use seq_proto::status;
use seq_proto::v1::raft_service_client::RaftServiceClient;
use seq_proto::v1::{RaftMessage, SnapshotChunk};
use seq_raft::StateMachine;
use seq_store::{DataDir, SetState};
use seq_testkit::until;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tonic::Status;
use tonic::transport::Channel;

use crate::cluster::{Cluster, Disk, TIMEOUT, channel, reason};

/// Format of the payloads.
const FORMAT: u32 = 3;

/// Bytes of the secret number of a data directory, at the end of its `identity` file.
const NONCE_BYTES: usize = 16;

/// The leader of a term: term and id.
type LeaderId = (u64, u64);
/// Leader and index of an entry.
type LogId = (LeaderId, u64);
/// Leader or candidate, and whether a majority granted its vote.
type Vote = (LeaderId, bool);
/// Name, addresses for peers and for Raft, and fingerprint of a member.
type Member = (String, String, String, [u8; 32]);
/// Sets of voters, and all members.
type Membership = (Vec<BTreeSet<u64>>, BTreeMap<u64, Member>);
/// A list of members with the id of its entry.
type StoredMembership = (Option<LogId>, Membership);
/// The entry and the members that a snapshot covers, and a field of former versions of the library that is empty.
type SnapshotMeta = (Option<LogId>, StoredMembership, String);

#[derive(Serialize)]
enum Payload {
    Blank,
    Command(Vec<u8>),
    Membership(Membership),
}

#[derive(Serialize)]
struct Entry {
    log_id: LogId,
    payload: Payload,
}

#[derive(Serialize)]
struct AppendEntries {
    vote: Vote,
    prev_log_id: Option<LogId>,
    entries: Vec<Entry>,
    leader_commit: Option<LogId>,
}

#[derive(Serialize)]
struct VoteRequest {
    vote: Vote,
    last_log_id: Option<LogId>,
    leadership_transfer: bool,
}

#[derive(Debug, Deserialize)]
struct VoteResponse {
    _vote: Vote,
    granted: bool,
    _last_log_id: Option<LogId>,
}

/// Sender of messages with the secret numbers of all data directories.
pub(crate) struct Forger {
    nonces: Vec<[u8; NONCE_BYTES]>,
}

impl Forger {
    /// Returns a store of three that has a leader, and a forger with the numbers of its data directories.
    pub(crate) async fn beside_a_store() -> (Cluster, Forger) {
        let cluster = Cluster::started(3, Disk::Sled).await;
        cluster.register("a1", 1).await;
        cluster.level().await;
        let forger = Forger::new(&cluster);
        (cluster, forger)
    }

    /// Reads the secret numbers in the data directories of a store.
    pub(crate) fn new(cluster: &Cluster) -> Forger {
        let nonce = |data: &DataDir| {
            let DataDir::Path(dir) = data else { panic!("a directory") };
            let identity = std::fs::read(dir.join("identity")).unwrap();
            *identity.last_chunk().unwrap()
        };
        Forger { nonces: cluster.data.iter().map(nonce).collect() }
    }

    pub(crate) fn fingerprint(&self, id: u64) -> Vec<u8> {
        Sha256::digest(self.nonces[id as usize - 1]).to_vec()
    }

    /// Returns a message of member `from` to member `to` that is valid except for its content.
    pub(crate) fn message(&self, from: u64, to: u64, content: &impl Serialize) -> RaftMessage {
        RaftMessage {
            cluster_id: "im-a".into(),
            from,
            to,
            nonce: self.nonces[from as usize - 1].to_vec().into(),
            payload: postcard::to_stdvec(content).unwrap().into(),
            newest_format: SetState::FORMAT.into(),
            membership: 1,
            format: FORMAT,
            receiver: self.fingerprint(to).into(),
        }
    }

    /// Checks that every member runs, and that the store takes commands, now and after a restart of all members.
    pub(crate) async fn still_serves(&self, mut cluster: Cluster) {
        for again in [false, true] {
            if again {
                cluster.stop_all().await;
                cluster.start_all().await;
            }
            assert_eq!(cluster.running(), [1, 2, 3]);
            for id in cluster.running() {
                assert!(!cluster.member(id).tasks.token().is_cancelled(), "store {id} runs");
            }
            cluster.ready().await;
            cluster.register("a2", 2 + u64::from(again)).await;
            assert!(cluster.status(1).await.term < 1_000, "terms were not used up");
        }
        cluster.stop_all().await;
    }
}

fn vote(term: u64, node: u64, granted: bool) -> Vote {
    ((term, node), granted)
}

fn id(term: u64, node: u64, index: u64) -> LogId {
    ((term, node), index)
}

fn blank(term: u64, node: u64, index: u64) -> Entry {
    Entry { log_id: id(term, node, index), payload: Payload::Blank }
}

/// Returns the leader, a follower, and the follower's term and last log index.
async fn followed(cluster: &Cluster) -> (u64, u64, u64, u64) {
    let leader = cluster.leader().await;
    let follower = cluster.follower().await;
    let status = cluster.status(follower).await;
    (leader, follower, status.term, status.last_log_index)
}

fn client(cluster: &Cluster, id: u64) -> RaftServiceClient<Channel> {
    RaftServiceClient::new(channel(cluster.addr(id))).max_encoding_message_size(64 << 20)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terms_and_indices_that_jump_are_refused_and_never_used_up() {
    let (cluster, forger) = Forger::beside_a_store().await;
    for term in [u64::MAX, u64::MAX - 1, 1 << 63, 1 << 34] {
        for to in 1..=3 {
            let from = to % 3 + 1;
            let mut raft = client(&cluster, to);
            let last = Some(id(1, 1, 1_000));
            let ask = VoteRequest { vote: vote(term, from, false), last_log_id: last, leadership_transfer: true };
            assert_eq!(reason(raft.vote(forger.message(from, to, &ask)).await), "RAFT_JUMP_TOO_FAR");
            assert_eq!(reason(raft.pre_vote(forger.message(from, to, &ask)).await), "RAFT_JUMP_TOO_FAR");
            let append =
                AppendEntries { vote: vote(term, from, true), prev_log_id: last, entries: vec![], leader_commit: None };
            let message = forger.message(from, to, &append);
            assert_eq!(reason(raft.append_entries(message.clone()).await), "RAFT_JUMP_TOO_FAR");
            let mut stream = raft.append_stream(stream::iter([message])).await.unwrap().into_inner();
            assert_eq!(reason(stream.message().await), "RAFT_JUMP_TOO_FAR");
            let transfer = (vote(term, from, true), to, last);
            assert_eq!(reason(raft.transfer_leader(forger.message(from, to, &transfer)).await), "RAFT_JUMP_TOO_FAR");
            let meta: SnapshotMeta = (last, StoredMembership::default(), String::new());
            let header = forger.message(from, to, &(vote(term, from, true), meta, 100u64));
            assert_eq!(reason(install(&mut raft, header, vec![]).await), "RAFT_JUMP_TOO_FAR");
            let far = VoteRequest {
                vote: vote(2, from, false),
                last_log_id: Some(id(1, 1, term)),
                leadership_transfer: false,
            };
            assert_eq!(reason(raft.vote(forger.message(from, to, &far)).await), "RAFT_JUMP_TOO_FAR");
        }
    }
    forger.still_serves(cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_to_be_the_chosen_successor_counts_only_right_after_the_leader() {
    let (cluster, forger) = Forger::beside_a_store().await;
    let (leader, follower, term, last) = followed(&cluster).await;
    let candidate = 6 - leader - follower;
    let end = id(term, leader, last + 100);
    let claim = |term: u64| VoteRequest {
        vote: vote(term, candidate, false),
        last_log_id: Some(end),
        leadership_transfer: true,
    };
    let mut raft = client(&cluster, follower);
    for far in [term + 2, term + 1_000] {
        let response = raft.vote(forger.message(candidate, follower, &claim(far))).await.unwrap().into_inner();
        let response: VoteResponse = postcard::from_bytes(&response.payload).unwrap();
        assert!(!response.granted, "the leader is alive: {response:?}");
    }
    assert_eq!(cluster.status(follower).await.term, term);
    assert_eq!(cluster.leader().await, leader);
    forger.still_serves(cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_that_no_leader_sends_are_refused() {
    let (cluster, forger) = Forger::beside_a_store().await;
    let (leader, follower, term, last) = followed(&cluster).await;
    let mut raft = client(&cluster, follower);
    let append = |prev: Option<LogId>, entries: Vec<Entry>| AppendEntries {
        vote: vote(term, leader, true),
        prev_log_id: prev,
        entries,
        leader_commit: None,
    };
    let end = id(term, leader, last);
    let rubbish = vec![1, 2, 3];
    let membership = Payload::Membership(Membership::default());
    for (content, what) in [
        (append(Some(end), vec![blank(term, leader, last + 7)]), "a hole before the first entry"),
        (
            append(Some(end), vec![blank(term, leader, last + 1), blank(term, leader, last + 3)]),
            "a hole between entries",
        ),
        (append(None, vec![blank(term, leader, 5)]), "a hole before everything"),
        (append(Some(end), vec![blank(0, leader, last + 1)]), "a term that falls"),
        (append(Some(end), vec![blank(term + 1, leader, last + 1)]), "an entry beyond its vote"),
        (
            append(Some(end), vec![Entry { log_id: id(term, leader, last + 1), payload: Payload::Command(rubbish) }]),
            "no command",
        ),
        (append(Some(end), vec![Entry { log_id: id(term, leader, last + 1), payload: membership }]), "no members"),
        (AppendEntries { vote: vote(term, leader, false), ..append(Some(end), vec![]) }, "a vote that is not granted"),
        (
            AppendEntries { vote: vote(term + 1, follower, true), ..append(Some(end), vec![]) },
            "the receiver's own vote",
        ),
    ] {
        let message = forger.message(leader, follower, &content);
        assert_eq!(reason(raft.append_entries(message.clone()).await), "INVALID_RAFT_MESSAGE", "{what}");
        let mut stream = raft.append_stream(stream::iter([message])).await.unwrap().into_inner();
        assert_eq!(reason(stream.message().await), "INVALID_RAFT_MESSAGE", "{what}");
    }
    // No request makes a member the leader.
    let granted =
        VoteRequest { vote: vote(term + 1, follower, true), last_log_id: Some(end), leadership_transfer: true };
    assert_eq!(reason(raft.vote(forger.message(leader, follower, &granted)).await), "INVALID_RAFT_MESSAGE");
    assert_eq!(cluster.leader().await, leader);
    forger.still_serves(cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_stops_before_its_committed_entries_are_contradicted() {
    let (mut cluster, forger) = Forger::beside_a_store().await;
    let (leader, follower, term, _) = followed(&cluster).await;
    let contradiction = AppendEntries {
        vote: vote(term + 1, leader, true),
        prev_log_id: Some(id(0, 1, 0)),
        entries: vec![blank(term + 1, leader, 1)],
        leader_commit: None,
    };
    let refusal = client(&cluster, follower).append_entries(forger.message(leader, follower, &contradiction)).await;
    assert_eq!(reason(refusal), "COMMITTED_ENTRIES_CONTRADICTED");
    let tasks = cluster.member(follower).tasks.clone();
    tokio::time::timeout(TIMEOUT, tasks.shutting_down()).await.expect("it stops, and keeps what it has");
    assert_eq!(tasks.failed(), Some("store raft"));
    cluster.stop(follower).await;
    // The follower's data is complete.
    cluster.start(follower).await;
    forger.still_serves(cluster).await;
}

async fn install(
    raft: &mut RaftServiceClient<Channel>,
    header: RaftMessage,
    body: Vec<Vec<u8>>,
) -> Result<tonic::Response<RaftMessage>, Status> {
    let header = SnapshotChunk { header: Some(header), data: Vec::new().into() };
    let body = body.into_iter().map(|data| SnapshotChunk { header: None, data: data.into() });
    raft.install_snapshot(stream::iter(std::iter::once(header).chain(body))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_is_judged_by_its_header_and_bounded_by_it() {
    let (cluster, forger) = Forger::beside_a_store().await;
    let (leader, follower, term, last) = followed(&cluster).await;
    let member: Member = ("s1".into(), "s1:1".into(), "s1:2".into(), forger.fingerprint(1).try_into().unwrap());
    let list: Membership = (vec![[1].into()], [(1, member)].into());
    let members: StoredMembership = (Some(id(0, 1, 0)), list);
    let header = |term: u64, index: u64, length: u64| {
        let meta: SnapshotMeta = (Some(id(term, leader, index)), members.clone(), String::new());
        forger.message(leader, follower, &(vote(term, leader, true), meta, length))
    };
    let mut raft = client(&cluster, follower);
    let newer = last + 1_000;
    for (header, body, expected) in [
        (header(term, newer, 0), vec![], "SNAPSHOT_TOO_LARGE"),
        (header(term, newer, (256 << 20) + 1), vec![], "SNAPSHOT_TOO_LARGE"),
        (header(term, newer, u64::MAX), vec![], "SNAPSHOT_TOO_LARGE"),
        (header(term, newer, 10), vec![vec![0; 9]], "MALFORMED_SNAPSHOT"),
        (header(term, newer, 10), vec![vec![0; 9], vec![0; 2]], "MALFORMED_SNAPSHOT"),
        (header(term, newer, 10), vec![vec![0; 10]], "MALFORMED_SNAPSHOT"),
    ] {
        assert_eq!(reason(install(&mut raft, header, body).await), expected);
    }
    // Headers of a leader that was replaced, and of a snapshot that covers less than is committed: the response comes
    // before the body.
    for header in [header(term - 1, newer, 100 << 20), header(term, last - 1, 100 << 20)] {
        let header = SnapshotChunk { header: Some(header), data: Vec::new().into() };
        let endless = stream::iter([header]).chain(stream::pending());
        let response = tokio::time::timeout(TIMEOUT, raft.install_snapshot(endless)).await;
        response.expect("it waits for no body").unwrap();
    }
    // A sender may send one snapshot at a time. Either snapshot may be the first to arrive; the stream that stays open
    // is sent again until it is.
    let (cut_off, cut) = watch::channel(false);
    let under_way = until("one is under way", async || {
        let first = SnapshotChunk { header: Some(header(term, newer, 100)), data: Vec::new().into() };
        let response = client(&cluster, follower).install_snapshot(open_until(first, cut.clone())).await;
        Some(reason(response)).filter(|reason| reason != "SNAPSHOT_UNDER_WAY")
    });
    let second = async {
        until("the second one is refused", async || {
            let response = install(&mut client(&cluster, follower), header(term, newer, 100), vec![vec![0; 1]]).await;
            (status::reason(&response.unwrap_err()).as_deref() == Some("SNAPSHOT_UNDER_WAY")).then_some(())
        })
        .await;
        cut_off.send_replace(true);
    };
    let (first, ()) = tokio::join!(under_way, second);
    assert_eq!(first, "MALFORMED_SNAPSHOT", "it was cut off");
    forger.still_serves(cluster).await;
}

/// Returns a body of one chunk that stays open until it is cut off.
fn open_until(first: SnapshotChunk, mut cut: watch::Receiver<bool>) -> impl Stream<Item = SnapshotChunk> {
    let end = async move { cut.wait_for(|cut| *cut).await.map_or(None, |_| None) };
    stream::iter([first]).chain(stream::once(end).filter_map(std::future::ready))
}
