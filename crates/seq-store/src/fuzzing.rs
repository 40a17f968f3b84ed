//! The readers of stored records and of Raft's messages, as the fuzzer reaches them: any bytes are read or refused, never a
//! panic.

use openraft::raft::{AppendEntriesRequest, VoteRequest};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::disk::{self, newest};
use crate::envelope::{self, Kind};
use crate::network::{self, SnapshotHeader, TransferLeader};
use crate::types::TypeConfig;

/// Every kind of record, with its reader.
const READERS: [(Kind, fn(&[u8]) -> bool); 9] = [
    (Kind::Command, |record| disk::read_command(record).is_ok()),
    (Kind::Entry, |record| disk::read_entry(record).is_ok()),
    (Kind::Vote, |record| disk::read_vote(record).is_ok()),
    (Kind::Committed, |record| disk::read_log_id(Kind::Committed, record).is_ok()),
    (Kind::Purged, |record| disk::read_log_id(Kind::Purged, record).is_ok()),
    (Kind::Manifest, |record| disk::read_manifest(record).is_ok()),
    (Kind::Snapshot, |record| disk::read_snapshot(record).is_ok()),
    (Kind::Identity, |record| disk::read_identity(record).is_ok()),
    (Kind::Watermark, |record| disk::read_watermark(record).is_ok()),
];

/// Reads `data` as a record of the kind that its first byte chooses: as it is, and as the body of a record whose frame is
/// right, because no fuzzer finds a checksum.
pub fn record(data: &[u8]) {
    let Some((kind, body)) = data.split_first() else { return };
    let (kind, read) = READERS[usize::from(*kind) % READERS.len()];
    let _ = read(body);
    let _ = envelope::record_len(body);
    let _ = read(&envelope::seal_body(kind, newest::VERSION, body));
}

/// Every message of Raft, with its reader.
const MESSAGES: [fn(&[u8]); 4] = [
    turn::<AppendEntriesRequest<TypeConfig>>,
    turn::<VoteRequest<TypeConfig>>,
    turn::<SnapshotHeader>,
    turn::<TransferLeader>,
];

/// Reads `data` as the payload of a message of Raft, of the kind that its first byte chooses.
pub fn raft(data: &[u8]) {
    if let Some((kind, payload)) = data.split_first() {
        MESSAGES[usize::from(*kind) % MESSAGES.len()](payload);
    }
}

/// What can be read says the same after it was written again.
fn turn<M: Serialize + DeserializeOwned>(payload: &[u8]) {
    if let Ok(message) = network::decode::<M>(payload) {
        let written = network::encode(&message);
        let again = network::decode::<M>(&written).expect("what was written can be read");
        assert_eq!(network::encode(&again), written);
    }
}
