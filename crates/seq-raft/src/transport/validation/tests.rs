//! Each rule is broken once, next to a message that keeps all rules.

use std::collections::{BTreeMap, BTreeSet};

use openraft::storage::RaftLogStorage;

use super::*;
use crate::encoding;
use crate::storage::{self, DataDir, LogStore, MemoryDisk};
use crate::test_machine::{Command, Journal, OLDEST, unobserved};
use crate::transport::client;
use crate::types::{EncodedBatch, LeaderId, Member, SnapshotMeta, StoredMembership};

/// A store of members 1 to 3, whose log has entries 0 to 9 of leader 1 in term 3. Entries up to 6 are committed, none
/// is purged.
async fn log() -> (LogStore, LogReader) {
    let opened = storage::prepare(&DataDir::Memory(MemoryDisk::new()), "test", 2)
        .unwrap()
        .open::<Journal>(unobserved())
        .unwrap();
    let mut log = opened.log;
    log.save_vote(&vote(3, 1, true)).await.unwrap();
    openraft::storage::RaftLogStorageExt::blocking_append(&mut log, (0..10).map(|index| blank(3, 1, index)))
        .await
        .unwrap();
    log.save_committed(Some(id(3, 1, 6))).await.unwrap();
    let reader = log.reader();
    (log, reader)
}

fn vote(term: u64, node_id: u64, committed: bool) -> Vote {
    Vote { leader_id: LeaderId { term, node_id }, committed }
}

fn id(term: u64, node_id: u64, index: u64) -> LogId {
    LogId::new(LeaderId { term, node_id }, index)
}

fn entry(log_id: LogId, payload: Payload) -> Entry {
    Entry { log_id, payload }
}

fn blank(term: u64, node: u64, index: u64) -> Entry {
    entry(id(term, node, index), Payload::Blank)
}

fn append(prev: LogId, entries: Vec<Entry>) -> AppendEntriesRequest<TypeConfig> {
    AppendEntriesRequest { vote: vote(4, 1, true), prev_log_id: Some(prev), entries, leader_commit: Some(id(3, 1, 8)) }
}

fn list(change: impl FnOnce(&mut BTreeMap<u64, Member>)) -> Membership {
    let member = |id: u64| Member {
        name: format!("s{id}"),
        addr: format!("s{id}:7201"),
        raft_addr: format!("s{id}:7207"),
        fingerprint: Fingerprint::from_bytes(&[id as u8; 32]).unwrap(),
    };
    let mut nodes = (1..=3).map(|id| (id, member(id))).collect();
    change(&mut nodes);
    // As received from the wire, where nothing was checked.
    Membership::new_with_defaults(vec![BTreeSet::from([1, 2, 3])], []).nodes().count();
    network_copy(&[BTreeSet::from([1, 2, 3])], &nodes)
}

/// Creates a list of members that only received bytes can contain.
fn network_copy(configs: &[BTreeSet<u64>], nodes: &BTreeMap<u64, Member>) -> Membership {
    client::decode(&client::encode(&(configs, nodes))).unwrap()
}

fn reason<M: Validate>(message: &M, log: &LogReader) -> String {
    message.validate(1, log).map_or_else(|invalid| invalid.to_string(), |()| "valid".to_owned())
}

#[tokio::test]
async fn votes() {
    let (_log, log) = log().await;
    let request = |vote, last| VoteRequest::<TypeConfig> { vote, last_log_id: last, leadership_transfer: true };
    let own = id(3, 1, 9);
    assert_eq!(reason(&request(vote(4, 1, false), Some(own)), &log), "valid");
    assert_eq!(reason(&request(vote(3 + MAX_JUMP, 1, false), Some(own)), &log), "valid");
    for (request, expected) in [
        (
            request(vote(u64::MAX, 1, false), Some(own)),
            "term 18446744073709551615 is more than 2^32 above this member's 3",
        ),
        (request(vote(4 + MAX_JUMP, 1, false), Some(own)), "term 4294967300 is more than 2^32 above this member's 3"),
        (request(vote(4, 2, false), Some(own)), "the vote is of store 2, and the sender is store 1"),
        (request(vote(4, 1, true), Some(own)), "a request for a vote carries a vote that is granted already"),
        (
            request(vote(4, 1, false), Some(id(3, 1, u64::MAX))),
            "index 18446744073709551615 is more than 2^32 above this member's 9",
        ),
        (
            request(vote(4, 1, false), Some(id(5, 1, 9))),
            "T5-N1.9 is of a later leader than the vote <T4-N1:-> it comes with",
        ),
    ] {
        assert_eq!(reason(&request, &log), expected);
    }
    let response = |vote, last| VoteResponse::<TypeConfig>::new(vote, last, false);
    assert_eq!(reason(&response(vote(5, 3, false), Some(own)), &log), "valid");
    assert!(reason(&response(vote(u64::MAX, 3, false), Some(own)), &log).starts_with("term 18446744073709551615"));
    assert!(
        reason(&response(vote(5, 3, false), Some(id(3, 1, u64::MAX))), &log).starts_with("index 18446744073709551615")
    );
}

#[tokio::test]
async fn appends() {
    let (_log, log) = log().await;
    let command = |bytes: Vec<u8>| Payload::Normal(EncodedBatch::from_bytes(bytes.into()));
    let good = encoding::write_command::<Journal>(OLDEST, &Command::ClaimId(9)).unwrap().bytes().to_vec();
    let last = id(3, 1, 9);
    let whole = vec![blank(3, 1, 10), entry(id(4, 1, 11), command(good.clone())), blank(4, 1, 12)];
    assert_eq!(reason(&append(last, whole), &log), "valid");
    assert_eq!(reason(&append(last, vec![entry(id(4, 1, 10), Payload::Membership(list(|_| {})))]), &log), "valid");
    let full = entry(id(4, 1, 10), command(good.repeat(MAX_BATCH_COMMANDS)));
    assert_eq!(reason(&append(last, vec![full]), &log), "valid");
    // Not committed here: a later leader may have other entries.
    assert_eq!(reason(&append(id(3, 1, 6), vec![blank(4, 1, 7)]), &log), "valid");
    let damaged = [&good[..good.len() - 1], &[good[good.len() - 1] ^ 1]].concat();
    for (request, expected) in [
        (append(last, vec![blank(4, 1, 11)]), "entry 11 stands where entry 10 follows"),
        (append(last, vec![blank(4, 1, 10), blank(4, 1, 12)]), "entry 12 stands where entry 11 follows"),
        (append(last, vec![blank(4, 1, 10), blank(4, 1, 10)]), "entry 10 stands where entry 11 follows"),
        (append(last, vec![blank(2, 1, 10)]), "entry T2-N1.10 stands behind T3-N1.9, which a later leader made"),
        (append(last, vec![blank(5, 1, 10)]), "T5-N1.10 is of a later leader than the vote <T4-N1:Q> it comes with"),
        (append(id(3, 1, u64::MAX), vec![]), "index 18446744073709551615 is more than 2^32 above this member's 9"),
        (
            AppendEntriesRequest { leader_commit: Some(id(9, 1, 9)), ..append(last, vec![]) },
            "T9-N1.9 is of a later leader than the vote <T4-N1:Q> it comes with",
        ),
        (
            AppendEntriesRequest { vote: vote(4, 1, false), ..append(last, vec![]) },
            "a request to append carries a vote that is not granted",
        ),
        (
            append(last, vec![entry(id(4, 1, 10), command(vec![]))]),
            "a command of entry 10 cannot be applied: command record of 0 bytes",
        ),
        (
            append(last, vec![entry(id(4, 1, 10), command(damaged))]),
            "a command of entry 10 cannot be applied: command record of",
        ),
        (
            append(last, vec![entry(id(4, 1, 10), command(vec![0; MAX_COMMAND_BYTES + 1]))]),
            "the commands of entry 10 have 131073 bytes, more than 131072",
        ),
        (
            append(last, vec![entry(id(4, 1, 10), command([&good[..], &good[1..]].concat()))]),
            "a command of entry 10 cannot be applied: command record of",
        ),
        (
            append(last, vec![entry(id(4, 1, 10), command(good.repeat(MAX_BATCH_COMMANDS + 1)))]),
            "entry 10 has 33 commands, more than 32",
        ),
        (
            append(id(2, 1, 5), vec![]),
            "T2-N1.5 contradicts T3-N1.5, which is committed here: acknowledged data was lost elsewhere",
        ),
        (
            append(id(3, 1, 5), vec![blank(4, 1, 6)]),
            "T4-N1.6 contradicts T3-N1.6, which is committed here: acknowledged data was lost elsewhere",
        ),
    ] {
        let found = reason(&request, &log);
        assert!(found.starts_with(expected), "{found:?} for {expected:?}");
    }
    // A request of an earlier leader proves nothing: the library refuses it.
    let earlier = AppendEntriesRequest { vote: vote(2, 1, true), leader_commit: None, ..append(id(2, 1, 5), vec![]) };
    assert_eq!(reason(&earlier, &log), "valid");
}

#[tokio::test]
async fn lists_of_members() {
    let (_log, log) = log().await;
    let bad = |members: Membership| {
        reason(&append(id(3, 1, 9), vec![entry(id(4, 1, 10), Payload::Membership(members))]), &log)
    };
    for (members, expected) in [
        (list(|nodes| drop(nodes.remove(&2))), "a voter is not a member"),
        (
            list(|nodes| nodes.get_mut(&2).unwrap().fingerprint = Fingerprint::NONE),
            "a member has no id, or no data directory",
        ),
        (list(|nodes| nodes.get_mut(&2).unwrap().name.clear()), "a member's name or address is empty or too long"),
        (
            list(|nodes| nodes.get_mut(&2).unwrap().addr = "a".repeat(5_000)),
            "a member's name or address is empty or too long",
        ),
        (network_copy(&[], &BTreeMap::new()), "it has no voters, or more than two sets of them"),
        (network_copy(&[BTreeSet::new()], &BTreeMap::new()), "it has no voters, or more than two sets of them"),
    ] {
        assert_eq!(bad(members), format!("a list of members is malformed: {expected}"));
    }
}

#[tokio::test]
async fn acknowledgements_and_snapshots() {
    let (_log, log) = log().await;
    let acknowledged = |at| -> StreamAppendResult<TypeConfig> { Ok(Some(at)) };
    assert_eq!(reason(&acknowledged(id(3, 1, 9)), &log), "valid");
    for at in [id(3, 1, 10), id(4, 1, 9), id(3, 1, u64::MAX)] {
        assert_eq!(reason(&acknowledged(at), &log), format!("{at} is acknowledged, which is not in this member's log"));
    }
    let header = |last: Option<LogId>, bytes| -> SnapshotHeader {
        let members = StoredMembership::new(Some(id(0, 1, 0)), list(|_| {}));
        (vote(4, 1, true), SnapshotMeta { last_log_id: last, last_membership: members }, bytes)
    };
    assert_eq!(reason(&header(Some(id(3, 1, 50)), 100), &log), "valid");
    for (header, expected) in [
        (header(Some(id(3, 1, 50)), 0), "a snapshot of 0 bytes is not 1..=268435456 bytes long"),
        (
            header(Some(id(3, 1, 50)), u64::MAX),
            "a snapshot of 18446744073709551615 bytes is not 1..=268435456 bytes long",
        ),
        (header(None, 100), "the snapshot covers no entry"),
        (header(Some(id(5, 1, 50)), 100), "T5-N1.50 is of a later leader than the vote <T4-N1:Q> it comes with"),
        (
            header(Some(id(4, 1, 5)), 100),
            "T4-N1.5 contradicts T3-N1.6, which is committed here: acknowledged data was lost elsewhere",
        ),
    ] {
        assert_eq!(reason(&header, &log), expected);
    }
}
