//! Entry points of the fuzzer. They decode arbitrary bytes as stored records and as Raft messages. Each input must be
//! decoded or refused without a panic.

use std::sync::Arc;

use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult, VoteRequest, VoteResponse,
};
use openraft::storage::{RaftLogStorage, RaftLogStorageExt};

use crate::encoding::envelope::{self, Kind};
use crate::encoding::{self, newest};
use crate::state_machine::StateMachine;
use crate::storage::{self, DataDir, LogReader, LogStore, MemoryDisk, Replica};
use crate::transport::client;
use crate::transport::validation::Validate;
use crate::types::{Entry, LeaderId, LogId, Payload, SnapshotHeader, TransferLeader, TypeConfig, Vote};

/// Number of entries in the log to which the fuzzer's messages are applied. Leader 1 wrote the entries in term 3, and
/// the first half of them is committed.
const ENTRIES: u64 = 8;

/// Maximum length of the content of one message in the input of [`raft`], because two bytes state its length.
const MAX_CONTENT: usize = u16::MAX as usize;

/// Function that returns whether bytes can be decoded as one kind of record.
type Reader = fn(&[u8]) -> bool;

/// Returns each kind of record with the format in which it is written and with its decoder. The decoder in the last row
/// reads the payload of a log entry, which may contain several commands.
fn readers<M: StateMachine>() -> [(Kind, u16, Reader); 10] {
    let log = newest::VERSION;
    [
        (Kind::Command, M::FORMAT, |record| encoding::read_record::<M>(record).is_ok()),
        (Kind::Entry, log, |record| encoding::read_entry(record).is_ok()),
        (Kind::Vote, log, |record| encoding::read_vote(record).is_ok()),
        (Kind::Committed, log, |record| encoding::read_log_id(Kind::Committed, record).is_ok()),
        (Kind::Purged, log, |record| encoding::read_log_id(Kind::Purged, record).is_ok()),
        (Kind::Manifest, log, |record| encoding::read_manifest(record).is_ok()),
        (Kind::Snapshot, log, |record| encoding::read_snapshot(record).is_ok()),
        (Kind::Identity, log, |record| encoding::read_identity(record).is_ok()),
        (Kind::Watermark, log, |record| encoding::read_watermark(record).is_ok()),
        (Kind::Command, M::FORMAT, |records| encoding::read_batch::<M>(records).is_ok()),
    ]
}

/// Decodes `data` as a record of the kind that the first byte selects. Decodes the other bytes twice: once as a whole
/// record, and once as the body of a record with a valid frame, because a fuzzer hardly ever finds a valid checksum.
/// Also decodes them as a state.
pub fn record<M: StateMachine>(data: &[u8]) {
    let Some((kind, body)) = data.split_first() else { return };
    let readers = readers::<M>();
    let (kind, format, read) = readers[usize::from(*kind) % readers.len()];
    let _ = read(body);
    let _ = envelope::record_len(body);
    let _ = read(&envelope::seal_body(kind, format, body));
    let _ = M::decode(M::FORMAT, body);
}

/// Decodes `data` as a sequence of Raft messages to member 2. Each message consists of a byte that selects the kind, a
/// byte that selects the sender (1 to 4), two bytes of length (little-endian), and the content in postcard. Each
/// message that passes the validation is applied to a log in the same way as by the Raft library.
///
/// # Panics
/// When the validation accepts a message that breaks the log.
pub fn raft<M: StateMachine>(data: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(messages::<M>(data));
}

async fn messages<M: StateMachine>(mut data: &[u8]) {
    let (mut log, replica) = filled::<M>().await;
    let reader = log.reader();
    while let [kind, sender, low, high, rest @ ..] = data {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len()).min(MAX_CONTENT);
        let (content, next) = rest.split_at(length);
        let from = u64::from(sender % 4) + 1;
        match kind % 8 {
            0 | 1 => append(&mut log, &reader, from, content).await,
            2 => {
                if let Some(request) = valid::<VoteRequest<TypeConfig>>(&reader, from, content) {
                    vote(&mut log, &reader, request.vote).await;
                }
            }
            3 => {
                if let Some((vote, meta, _)) = valid::<SnapshotHeader>(&reader, from, content) {
                    assert_eq!((vote.leader_id.node_id, vote.committed), (from, true), "of its leader");
                    assert!(replica.clone().decode_snapshot(&meta, content).is_err(), "the header is no snapshot");
                }
            }
            4 => _ = valid::<TransferLeader>(&reader, from, content),
            5 => _ = valid::<VoteResponse<TypeConfig>>(&reader, from, content),
            6 => _ = valid::<AppendEntriesResponse<TypeConfig>>(&reader, from, content),
            _ => {
                _ = valid::<SnapshotResponse<TypeConfig>>(&reader, from, content);
                if let Some(Ok(Some(id))) = valid::<StreamAppendResult<TypeConfig>>(&reader, from, content) {
                    assert!(reader.has(&id), "only what is in the log is acknowledged");
                }
            }
        }
        data = next;
    }
}

async fn filled<M: StateMachine>() -> (LogStore, Arc<dyn Replica>) {
    let prepared = storage::prepare(&DataDir::Memory(MemoryDisk::new()), "fuzz", 2).expect("an empty disk");
    let opened = prepared.open::<M>(Box::new(M::apply)).expect("an empty disk");
    let (mut log, replica) = (opened.log, opened.state.replica());
    let leader_id = LeaderId { term: 3, node_id: 1 };
    log.save_vote(&Vote { leader_id, committed: true }).await.expect("memory");
    let entry = |index| Entry { log_id: LogId::new(leader_id, index), payload: Payload::Blank };
    log.blocking_append((0..ENTRIES).map(entry)).await.expect("memory");
    log.save_committed(Some(LogId::new(leader_id, ENTRIES / 2))).await.expect("memory");
    (log, replica)
}

/// Decodes and validates the content of a message. Returns `None` if it cannot be decoded or is invalid.
fn valid<M: serde::de::DeserializeOwned + Validate>(log: &LogReader, from: u64, content: &[u8]) -> Option<M> {
    let message: M = client::decode(content).ok()?;
    message.validate(from, log).is_ok().then_some(message)
}

async fn vote(log: &mut LogStore, reader: &LogReader, vote: Vote) {
    if reader.position().vote.is_none_or(|own| own < vote) {
        log.save_vote(&vote).await.expect("memory");
    }
}

/// Handles a request to append in the same way as the Raft library: adopts the vote, removes conflicting entries, and
/// appends the new entries.
async fn append(log: &mut LogStore, reader: &LogReader, from: u64, content: &[u8]) {
    let Some(request) = valid::<AppendEntriesRequest<TypeConfig>>(reader, from, content) else { return };
    let own = reader.position();
    if own.vote.is_some_and(|own| request.vote < own) {
        return;
    }
    vote(log, reader, request.vote).await;
    if let Some(prev) = &request.prev_log_id
        && !reader.has(prev)
    {
        if prev.index <= own.last.map_or(0, |last| last.index) && prev.index > own.committed.map_or(0, |id| id.index) {
            let before = reader.at(prev.index - 1);
            log.truncate_after(before).await.expect("memory");
        }
        return;
    }
    let Some(conflict) = request.entries.iter().position(|entry| !reader.has(&entry.log_id)) else { return };
    let before = match request.entries[conflict].log_id.index {
        0 => None,
        index => reader.at(index - 1),
    };
    log.truncate_after(before).await.expect("memory");
    log.blocking_append(request.entries[conflict..].to_vec()).await.expect("memory");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_machine::Journal;

    fn message(kind: u8, content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len()).unwrap().to_le_bytes();
        [&[kind, 0, length[0], length[1]], content].concat()
    }

    fn append_message(term: u64, prev: u64, indices: &[u64]) -> Vec<u8> {
        let id = |term, index| LogId::new(LeaderId { term, node_id: 1 }, index);
        let request = AppendEntriesRequest::<TypeConfig> {
            vote: Vote { leader_id: LeaderId { term, node_id: 1 }, committed: true },
            prev_log_id: Some(id(3, prev)),
            entries: indices.iter().map(|index| Entry { log_id: id(term, *index), payload: Payload::Blank }).collect(),
            leader_commit: None,
        };
        message(0, &client::encode(&request))
    }

    #[test]
    fn what_is_valid_is_done_and_what_is_not_changes_nothing() {
        raft::<Journal>(&append_message(4, 7, &[8, 9, 10]));
        raft::<Journal>(&append_message(4, 5, &[6, 7, 8, 9]));
        raft::<Journal>(&append_message(4, 7, &[9]));
        raft::<Journal>(&append_message(4, 2, &[3]));
        raft::<Journal>(&append_message(4, u64::MAX, &[0]));
    }

    proptest! {
        #[test]
        fn no_bytes_break_the_log(data in proptest::collection::vec(any::<u8>(), 0..200)) {
            raft::<Journal>(&data);
            for kind in 0..8 {
                raft::<Journal>(&message(kind, &data));
            }
            record::<Journal>(&data);
        }

        #[test]
        fn no_entries_break_the_log(
            messages in proptest::collection::vec((2u64..6, 0u64..12, proptest::collection::vec(0u64..14, 0..4)), 0..6),
            flip in any::<proptest::sample::Index>(),
            with in 0u8..3,
        ) {
            let mut data: Vec<u8> =
                messages.iter().flat_map(|(term, prev, indices)| append_message(*term, *prev, indices)).collect();
            if !data.is_empty() {
                let at = flip.index(data.len());
                data[at] ^= with;
            }
            raft::<Journal>(&data);
        }
    }
}
