//! Records that correspond to types of the Raft library: log ids, votes, lists of members, and entries.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use rkyv::{Archive, Deserialize, Serialize};

use super::Malformed;
use crate::nonce::{FINGERPRINT_BYTES, Fingerprint};
use crate::types::{self, EncodedBatch, LeaderId, Member, Payload};

/// Position of a log entry: the leader that created it, and its index.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogId {
    term: u64,
    node: u64,
    pub(crate) index: u64,
}

/// Newest leader or candidate that the member accepts.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vote {
    term: u64,
    node: u64,
    committed: bool,
}

/// List of members, with the position of the log entry that contains it.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredMembership {
    log_id: Option<LogId>,
    members: Membership,
}

/// List of members, stored by columns: `ids`, `names`, `addrs`, `raft_addrs` and `fingerprints` have the same length,
/// and the values at one position belong to one member.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Membership {
    /// Sets of voters. There are two sets while a change of voters is in progress.
    configs: Vec<Vec<u64>>,
    ids: Vec<u64>,
    names: Vec<String>,
    addrs: Vec<String>,
    raft_addrs: Vec<String>,
    fingerprints: Vec<[u8; FINGERPRINT_BYTES]>,
}

/// Log entry.
#[derive(Archive, Serialize, Deserialize, Debug)]
pub(crate) struct Entry {
    log_id: LogId,
    payload: EntryPayload,
}

/// Payload of a log entry. The order of the variants is part of the format.
#[derive(Archive, Serialize, Deserialize, Debug)]
enum EntryPayload {
    Blank,
    /// Concatenated records of one or more commands.
    Commands(Vec<u8>),
    Membership(Membership),
}

impl From<&types::LogId> for LogId {
    fn from(id: &types::LogId) -> LogId {
        LogId { term: id.leader_id.term, node: id.leader_id.node_id, index: id.index }
    }
}

impl LogId {
    pub(crate) fn into_library(self) -> types::LogId {
        types::LogId::new(LeaderId { term: self.term, node_id: self.node }, self.index)
    }
}

impl From<&types::Vote> for Vote {
    fn from(vote: &types::Vote) -> Vote {
        Vote { term: vote.leader_id.term, node: vote.leader_id.node_id, committed: vote.committed }
    }
}

impl Vote {
    pub(crate) fn into_library(self) -> types::Vote {
        types::Vote { leader_id: LeaderId { term: self.term, node_id: self.node }, committed: self.committed }
    }
}

impl From<&types::StoredMembership> for StoredMembership {
    fn from(stored: &types::StoredMembership) -> StoredMembership {
        StoredMembership {
            log_id: stored.log_id().as_ref().map(LogId::from),
            members: Membership::from(stored.membership()),
        }
    }
}

impl StoredMembership {
    pub(crate) fn into_library(self) -> Result<types::StoredMembership, Malformed> {
        Ok(types::StoredMembership::new(self.log_id.map(LogId::into_library), self.members.into_library()?))
    }
}

impl From<&types::Membership> for Membership {
    fn from(members: &types::Membership) -> Membership {
        Membership {
            configs: members.get_joint_config().iter().map(|voters| voters.iter().copied().collect()).collect(),
            ids: members.nodes().map(|(id, _)| *id).collect(),
            names: members.nodes().map(|(_, member)| member.name.clone()).collect(),
            addrs: members.nodes().map(|(_, member)| member.addr.clone()).collect(),
            raft_addrs: members.nodes().map(|(_, member)| member.raft_addr.clone()).collect(),
            fingerprints: members.nodes().map(|(_, member)| member.fingerprint.bytes()).collect(),
        }
    }
}

impl Membership {
    fn into_library(self) -> Result<types::Membership, Malformed> {
        let count = self.ids.len();
        let columns = [self.names.len(), self.addrs.len(), self.raft_addrs.len(), self.fingerprints.len()];
        if columns != [count; 4] {
            return Err("the members' columns differ in length");
        }
        if self.configs.is_empty() {
            // Only the membership of an empty store has no voters.
            return if self.ids.is_empty() { Ok(types::Membership::default()) } else { Err("members without voters") };
        }
        let configs: Vec<BTreeSet<u64>> = self.configs.into_iter().map(|ids| ids.into_iter().collect()).collect();
        let mut nodes = BTreeMap::new();
        let columns = self.names.into_iter().zip(self.addrs).zip(self.raft_addrs).zip(self.fingerprints);
        for (id, (((name, addr), raft_addr), fingerprint)) in self.ids.into_iter().zip(columns) {
            nodes.insert(id, Member { name, addr, raft_addr, fingerprint: Fingerprint::stored(fingerprint) });
        }
        types::Membership::new(configs, nodes).map_err(|_| "the voters are not among the members")
    }
}

impl From<&types::Entry> for Entry {
    fn from(entry: &types::Entry) -> Entry {
        let payload = match &entry.payload {
            Payload::Blank => EntryPayload::Blank,
            Payload::Normal(commands) => EntryPayload::Commands(commands.bytes().to_vec()),
            Payload::Membership(members) => EntryPayload::Membership(members.into()),
        };
        Entry { log_id: LogId::from(&entry.log_id), payload }
    }
}

impl Entry {
    pub(crate) fn into_library(self) -> Result<types::Entry, Malformed> {
        let payload = match self.payload {
            EntryPayload::Blank => Payload::Blank,
            EntryPayload::Commands(bytes) => Payload::Normal(EncodedBatch::from_bytes(Bytes::from(bytes))),
            EntryPayload::Membership(members) => Payload::Membership(members.into_library()?),
        };
        Ok(types::Entry { log_id: self.log_id.into_library(), payload })
    }
}
