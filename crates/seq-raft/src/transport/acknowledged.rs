//! Record of the entries and votes that other members have acknowledged to this member, and detection of members that
//! have lost acknowledged data.
//!
//! A member whose data directory was replaced by an older copy lacks entries and votes that it had acknowledged. The
//! Raft library would silently send the missing entries again. But a missing entry may be committed only because the
//! member acknowledged it, and until the member has the entry again, other members could elect a leader without it.
//! Also, the member could vote a second time in a term. So the members to which it acknowledged the data refuse its
//! messages with a reason. They hold this record only in memory, so a member that has just started has no record.
//!
//! **Invariant:** no member is refused because it lacks entries that were never committed. A later leader may have
//! removed such entries from the member's log.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::storage::LogReader;
use crate::types::{LogId, Vote};

/// Record of the acknowledgements that this member received from other members.
pub(crate) struct Acknowledged {
    log: LogReader,
    members: Mutex<BTreeMap<u64, Record>>,
}

#[derive(Clone, Debug, Default)]
struct Record {
    /// Greatest term in which the other member granted a vote or followed a leader.
    term: u64,
    /// Last log entry that the other member acknowledged, with the vote under which this member led when it sent the
    /// entry.
    last: Option<(Vote, LogId)>,
    /// Whether the other member has reported once that it lacks an acknowledged entry, and has acknowledged no entry
    /// since then.
    suspected: bool,
    /// Description of the acknowledged entries that the other member has lost.
    lost: Option<String>,
}

impl Acknowledged {
    pub(crate) fn new(log: LogReader) -> Acknowledged {
        Acknowledged { log, members: Mutex::default() }
    }

    /// Records that the member `id` granted its vote in the term `term`, or follows the leader of this term.
    pub(crate) fn on_vote(&self, id: u64, term: u64) {
        let mut members = self.members.lock();
        let record = members.entry(id).or_default();
        record.term = record.term.max(term);
    }

    /// Records that the member `id` has the log of this leader up to the entry `last`. `vote` is the vote under which
    /// this member leads.
    pub(crate) fn on_append(&self, id: u64, vote: Vote, last: Option<LogId>) {
        let mut members = self.members.lock();
        let record = members.entry(id).or_default();
        record.term = record.term.max(vote.leader_id.term);
        let Some(last) = last else { return };
        record.suspected = false;
        if record.last.is_none_or(|known| known < (vote, last)) {
            record.last = Some((vote, last));
        }
    }

    /// Records that the member `id` lacks the entry `at` of this leader's log. Returns whether that member had
    /// acknowledged the entry.
    pub(crate) fn on_conflict(&self, id: u64, vote: Vote, at: LogId) -> bool {
        let mut members = self.members.lock();
        let Some(record) = members.get_mut(&id) else { return false };
        let Some((under, last)) = record.last else { return false };
        if at.index > last.index || !(under == vote || self.is_committed(&last)) {
            return false;
        }
        // The first such response is no proof, because the member may have sent it before an acknowledgement that
        // arrived first on another connection. The second response is a proof.
        if !std::mem::replace(&mut record.suspected, true) {
            return true;
        }
        let lost = format!("it had entries up to {last}, and lacks {at}");
        tracing::error!(store = id, lost, "a member lacks what it acknowledged; its responses are ignored");
        record.lost = Some(lost);
        true
    }

    /// Returns the description of the acknowledged entries that the member `id` has lost, if it has lost any.
    pub(crate) fn lost(&self, id: u64) -> Option<String> {
        self.members.lock().get(&id)?.lost.clone()
    }

    /// Compares the term and the last entry that the starting member `id` reports with its recorded acknowledgements.
    /// Returns an error that names the missing data.
    pub(crate) fn check(&self, id: u64, term: u64, last: Option<LogId>) -> Result<(), String> {
        let mut members = self.members.lock();
        let Some(record) = members.get_mut(&id) else { return Ok(()) };
        if term < record.term {
            return Err(format!("it voted in term {}, and its vote is of term {term}", record.term));
        }
        if let Some((_, acknowledged)) = record.last
            && last.is_none_or(|last| last.index < acknowledged.index)
            && self.is_committed(&acknowledged)
        {
            let found = last.map_or_else(|| "none".to_owned(), |last| last.to_string());
            return Err(format!("it had entries up to {acknowledged}, and its last entry is {found}"));
        }
        // The member has started with its own, newest data directory again.
        record.lost = None;
        Ok(())
    }

    fn is_committed(&self, id: &LogId) -> bool {
        let committed = self.log.position().committed;
        committed.is_some_and(|committed| id.index <= committed.index) && self.log.has(id)
    }
}
