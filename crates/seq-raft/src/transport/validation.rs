//! Validation of Raft messages before they reach the Raft library.
//!
//! The Raft library trusts the other members. It asserts conditions that a correct member never violates, and adopts
//! any greater term. A message of a faulty or hostile member must not stop this member, use up its term numbers, or
//! leave a hole in its log. Every message of a correct member passes all checks. A message that fails a check is
//! refused with a reason and changes nothing.
//!
//! **Invariant:** the Raft library receives entries only in order and without a hole, only with the vote of a leader
//! that can have these entries, and only if their commands and lists of members can be applied.

use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendError, StreamAppendResult,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use seq_core::limits;
use seq_proto::Reason;
use tonic::Status;

use crate::encoding::envelope::ReadError;
use crate::nonce::Fingerprint;
use crate::storage::LogReader;
use crate::types::{
    Entry, LogId, MAX_BATCH_COMMANDS, MAX_COMMAND_BYTES, Membership, Payload, SnapshotHeader, TransferLeader,
    TypeConfig, Vote,
};

/// Maximum amount by which a term or an index in a message may exceed this member's own term or index. Between two
/// messages of a correct member, a store advances by far less, and a hostile member would need 2^32 messages to use up
/// the term numbers.
const MAX_JUMP: u64 = 1 << 32;

/// Maximum number of members in a list of members. It is several times the number that a change of all voters needs,
/// which are the voters before and after the change and as many learners.
const MAX_MEMBERS: usize = 64;

/// Maximum size of a snapshot that a member accepts, in bytes. A snapshot of a set with the maximum number of sections
/// has 40 MiB.
pub(crate) const MAX_SNAPSHOT_BYTES: u64 = 256 * 1024 * 1024;

/// Reason why a message is not passed to the Raft library.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Invalid {
    #[error("{what} {theirs} is more than 2^32 above this member's {own}")]
    Jump { what: &'static str, theirs: u64, own: u64 },
    #[error("the vote is of store {named}, and the sender is store {from}")]
    OtherVoter { named: u64, from: u64 },
    #[error("a {what} carries a vote that {how}")]
    WrongVote { what: &'static str, how: &'static str },
    #[error("entry {found} stands where entry {expected} follows")]
    Hole { found: u64, expected: u64 },
    #[error("entry {later} stands behind {earlier}, which a later leader made")]
    TermFalls { earlier: LogId, later: LogId },
    #[error("{id} is of a later leader than the vote {vote} it comes with")]
    BeyondVote { id: LogId, vote: Vote },
    #[error("the commands of entry {index} have {bytes} bytes, more than {MAX_COMMAND_BYTES}")]
    BatchTooLarge { index: u64, bytes: usize },
    #[error("entry {index} has {commands} commands, more than {MAX_BATCH_COMMANDS}")]
    BatchTooLong { index: u64, commands: usize },
    #[error("a command of entry {index} cannot be applied: {source}")]
    Command { index: u64, source: ReadError },
    #[error("a list of members is malformed: {what}")]
    Members { what: &'static str },
    #[error("{acknowledged} is acknowledged, which is not in this member's log")]
    NotInLog { acknowledged: LogId },
    #[error("a snapshot of {bytes} bytes is not 1..={MAX_SNAPSHOT_BYTES} bytes long")]
    SnapshotLength { bytes: u64 },
    #[error("the snapshot covers no entry")]
    EmptySnapshot,
    #[error("{theirs} contradicts {own}, which is committed here: acknowledged data was lost elsewhere")]
    Contradiction { theirs: LogId, own: LogId },
}

impl Invalid {
    /// Returns whether the message proves that other members have lost committed entries.
    pub(crate) fn is_lost_data(&self) -> bool {
        matches!(self, Invalid::Contradiction { .. })
    }

    fn reason(&self) -> Reason {
        match self {
            Invalid::Jump { .. } => Reason::RaftJumpTooFar,
            Invalid::Contradiction { .. } => Reason::CommittedEntriesContradicted,
            Invalid::SnapshotLength { .. } => Reason::SnapshotTooLarge,
            _ => Reason::InvalidRaftMessage,
        }
    }
}

impl From<Invalid> for Status {
    fn from(invalid: Invalid) -> Status {
        invalid.reason().status(invalid.to_string())
    }
}

/// Request or response of the Raft library that can be checked against this member's log.
pub(crate) trait Validate {
    /// Checks the message. `from` is the Raft id of its sender, whose identity was already checked.
    fn validate(&self, from: u64, log: &LogReader) -> Result<(), Invalid>;
}

impl Validate for VoteRequest<TypeConfig> {
    fn validate(&self, from: u64, log: &LogReader) -> Result<(), Invalid> {
        check_voter(&self.vote, from)?;
        if self.vote.committed {
            return Err(Invalid::WrongVote { what: "request for a vote", how: "is granted already" });
        }
        check_vote(&self.vote, log)?;
        check_log_id(self.last_log_id.as_ref(), &self.vote, log)
    }
}

impl Validate for AppendEntriesRequest<TypeConfig> {
    fn validate(&self, from: u64, log: &LogReader) -> Result<(), Invalid> {
        check_leader(&self.vote, from, "request to append", log)?;
        check_log_id(self.prev_log_id.as_ref(), &self.vote, log)?;
        check_log_id(self.leader_commit.as_ref(), &self.vote, log)?;
        let mut before = self.prev_log_id;
        for entry in &self.entries {
            check_entry(before.as_ref(), entry, &self.vote, log)?;
            before = Some(entry.log_id);
        }
        if log.position().vote.is_some_and(|own| self.vote < own) {
            // The Raft library refuses the request. A request of a replaced leader is no proof of lost data.
            return Ok(());
        }
        let ids = self.prev_log_id.iter().chain(self.entries.iter().map(|entry| &entry.log_id));
        for id in ids {
            if let Some(own) = log.contradicts_committed(id) {
                return Err(Invalid::Contradiction { theirs: *id, own });
            }
        }
        Ok(())
    }
}

impl Validate for TransferLeader {
    fn validate(&self, from: u64, log: &LogReader) -> Result<(), Invalid> {
        let (vote, _, last) = self;
        check_leader(vote, from, "transfer of leadership", log)?;
        check_log_id(last.as_ref(), vote, log)
    }
}

impl Validate for SnapshotHeader {
    fn validate(&self, from: u64, log: &LogReader) -> Result<(), Invalid> {
        let (vote, meta, bytes) = self;
        check_leader(vote, from, "snapshot", log)?;
        if !(1..=MAX_SNAPSHOT_BYTES).contains(bytes) {
            return Err(Invalid::SnapshotLength { bytes: *bytes });
        }
        let last = meta.last_log_id.as_ref().ok_or(Invalid::EmptySnapshot)?;
        check_log_id(Some(last), vote, log)?;
        let members = &meta.last_membership;
        if members.log_id().as_ref().is_none_or(|id| id > last) {
            return Err(Invalid::Members { what: "it lies behind the snapshot" });
        }
        check_members(members.membership())?;
        match log.position().committed {
            // The Raft library asserts that a snapshot whose last entry is greater than the last committed entry also
            // has a greater index.
            Some(own) if *last > own && last.index <= own.index => Err(Invalid::Contradiction { theirs: *last, own }),
            _ => Ok(()),
        }
    }
}

impl Validate for VoteResponse<TypeConfig> {
    fn validate(&self, _: u64, log: &LogReader) -> Result<(), Invalid> {
        check_vote(&self.vote, log)?;
        check_jump(self.last_log_id.as_ref(), log)
    }
}

impl Validate for AppendEntriesResponse<TypeConfig> {
    fn validate(&self, _: u64, log: &LogReader) -> Result<(), Invalid> {
        match self {
            AppendEntriesResponse::Success | AppendEntriesResponse::Conflict => Ok(()),
            AppendEntriesResponse::PartialSuccess(id) => check_acknowledged(id.as_ref(), log),
            AppendEntriesResponse::HigherVote(vote) => check_vote(vote, log),
        }
    }
}

impl Validate for StreamAppendResult<TypeConfig> {
    fn validate(&self, _: u64, log: &LogReader) -> Result<(), Invalid> {
        match self {
            Ok(id) => check_acknowledged(id.as_ref(), log),
            Err(StreamAppendError::Conflict(id)) => check_jump(Some(id), log),
            Err(StreamAppendError::HigherVote(vote)) => check_vote(vote, log),
        }
    }
}

impl Validate for SnapshotResponse<TypeConfig> {
    fn validate(&self, _: u64, log: &LogReader) -> Result<(), Invalid> {
        check_vote(&self.vote, log)
    }
}

impl Validate for TransferLeaderResponse<TypeConfig> {
    /// Accepts any response, because the Raft library only logs it.
    fn validate(&self, _: u64, _: &LogReader) -> Result<(), Invalid> {
        Ok(())
    }
}

/// Checks that `vote` is the sender's own vote and was granted by a majority, so that the sender leads.
fn check_leader(vote: &Vote, from: u64, what: &'static str, log: &LogReader) -> Result<(), Invalid> {
    check_voter(vote, from)?;
    if !vote.committed {
        return Err(Invalid::WrongVote { what, how: "is not granted" });
    }
    check_vote(vote, log)
}

fn check_voter(vote: &Vote, from: u64) -> Result<(), Invalid> {
    let named = vote.leader_id.node_id;
    if named == from { Ok(()) } else { Err(Invalid::OtherVoter { named, from }) }
}

fn check_vote(vote: &Vote, log: &LogReader) -> Result<(), Invalid> {
    let own = log.position().vote.map_or(0, |vote| vote.leader_id.term);
    bound("term", vote.leader_id.term, own)
}

/// Checks that a leader with the vote `vote` can have the entry `id`, and that the entry is not too far ahead of this
/// member's log.
fn check_log_id(id: Option<&LogId>, vote: &Vote, log: &LogReader) -> Result<(), Invalid> {
    let Some(id) = id else { return Ok(()) };
    if leader(id) > (vote.leader_id.term, vote.leader_id.node_id) {
        return Err(Invalid::BeyondVote { id: *id, vote: *vote });
    }
    check_jump(Some(id), log)
}

fn check_jump(id: Option<&LogId>, log: &LogReader) -> Result<(), Invalid> {
    let Some(id) = id else { return Ok(()) };
    let own = log.position();
    bound("index", id.index, own.last.map_or(0, |last| last.index))?;
    let term = own.vote.map_or(0, |vote| vote.leader_id.term).max(own.last.map_or(0, |last| last.leader_id.term));
    bound("term of an entry", id.leader_id.term, term)
}

fn bound(what: &'static str, theirs: u64, own: u64) -> Result<(), Invalid> {
    if theirs.saturating_sub(own) > MAX_JUMP { Err(Invalid::Jump { what, theirs, own }) } else { Ok(()) }
}

fn check_entry(before: Option<&LogId>, entry: &Entry, vote: &Vote, log: &LogReader) -> Result<(), Invalid> {
    let id = entry.log_id;
    // An index of 2^64-1 has no successor, but the limit on jumps has refused it already.
    let expected = before.map_or(0, |before| before.index.saturating_add(1));
    if id.index != expected {
        return Err(Invalid::Hole { found: id.index, expected });
    }
    if let Some(before) = before
        && leader(before) > leader(&id)
    {
        return Err(Invalid::TermFalls { earlier: *before, later: id });
    }
    if leader(&id) > (vote.leader_id.term, vote.leader_id.node_id) {
        return Err(Invalid::BeyondVote { id, vote: *vote });
    }
    match &entry.payload {
        Payload::Blank => Ok(()),
        Payload::Normal(commands) if commands.bytes().len() > MAX_COMMAND_BYTES => {
            Err(Invalid::BatchTooLarge { index: id.index, bytes: commands.bytes().len() })
        }
        // The commands are decoded here to make sure that decoding them later, when they are applied, does not fail.
        Payload::Normal(commands) => match log.check_commands(commands) {
            Ok(commands) if commands > MAX_BATCH_COMMANDS => Err(Invalid::BatchTooLong { index: id.index, commands }),
            Ok(_) => Ok(()),
            Err(source) => Err(Invalid::Command { index: id.index, source }),
        },
        Payload::Membership(members) => check_members(members),
    }
}

fn leader(id: &LogId) -> (u64, u64) {
    (id.leader_id.term, id.leader_id.node_id)
}

/// Checks that an entry that the other member acknowledges was sent to it. Such an entry is in this member's log or was
/// purged from it.
fn check_acknowledged(id: Option<&LogId>, log: &LogReader) -> Result<(), Invalid> {
    let Some(id) = id else { return Ok(()) };
    if log.has(id) { Ok(()) } else { Err(Invalid::NotInLog { acknowledged: *id }) }
}

fn check_members(members: &Membership) -> Result<(), Invalid> {
    let malformed = |what| Err(Invalid::Members { what });
    let configs = members.get_joint_config();
    if !(1..=2).contains(&configs.len()) || configs.iter().any(std::collections::BTreeSet::is_empty) {
        return malformed("it has no voters, or more than two sets of them");
    }
    if members.nodes().count() > MAX_MEMBERS {
        return malformed("it has too many members");
    }
    if configs.iter().flatten().any(|id| members.get_node(id).is_none()) {
        return malformed("a voter is not a member");
    }
    for (id, member) in members.nodes() {
        if *id == 0 || member.fingerprint == Fingerprint::NONE {
            return malformed("a member has no id, or no data directory");
        }
        let named = 1..=limits::MAX_NAME_BYTES;
        let is_addr = |addr: &str| (1..=limits::MAX_ADDR_BYTES).contains(&addr.len());
        if !named.contains(&member.name.len()) || !is_addr(&member.addr) || !is_addr(&member.raft_addr) {
            return malformed("a member's name or address is empty or too long");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
