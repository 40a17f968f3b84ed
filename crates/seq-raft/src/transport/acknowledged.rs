//! Acknowledgements of other members, and detection of members that have lost acknowledged data.
//!
//! A member whose data directory was restored from an older copy lacks entries and votes that it had acknowledged. The
//! Raft library would silently replicate to such a member again. But a missing entry may be committed only because of
//! the member's acknowledgement, and the member could vote again in a term in which it has voted already. So the
//! members that received its acknowledgements refuse it with a reason. They hold the acknowledgements in memory only,
//! so a started process has none.
//!
//! **Invariant:** a member is not refused because it lacks entries that were never committed. A later leader may have
//! removed such entries from the member's log.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::storage::LogReader;
use crate::types::{LogId, Vote};

/// Acknowledgements of the other members.
pub(crate) struct Acknowledged {
    log: LogReader,
    members: Mutex<BTreeMap<u64, Record>>,
}

#[derive(Clone, Debug, Default)]
struct Record {
    /// Greatest term in which the member granted a vote or followed a leader.
    term: u64,
    /// Last entry that the member acknowledged, with the vote under which this member, as leader, sent the entry.
    last: Option<(Vote, LogId)>,
    /// Whether an acknowledged entry was once found missing, and the member has acknowledged no entry since then.
    suspected: bool,
    /// Description of the missing entries.
    lost: Option<String>,
}

impl Acknowledged {
    pub(crate) fn new(log: LogReader) -> Acknowledged {
        Acknowledged { log, members: Mutex::default() }
    }

    /// Records that a member granted its vote in this term, or follows the leader of this term.
    pub(crate) fn on_vote(&self, id: u64, term: u64) {
        let mut members = self.members.lock();
        let record = members.entry(id).or_default();
        record.term = record.term.max(term);
    }

    /// Records that a member has the log of this leader up to `last`.
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

    /// Records that a member lacks the entry `at` of this leader's log. Returns whether the member had acknowledged
    /// that entry.
    pub(crate) fn on_conflict(&self, id: u64, vote: Vote, at: LogId) -> bool {
        let mut members = self.members.lock();
        let Some(record) = members.get_mut(&id) else { return false };
        let Some((under, last)) = record.last else { return false };
        if at.index > last.index || !(under == vote || self.is_committed(&last)) {
            return false;
        }
        // The first such response is no proof, because an acknowledgement on another connection may have overtaken it.
        // The second response is a proof.
        if !std::mem::replace(&mut record.suspected, true) {
            return true;
        }
        let lost = format!("it had entries up to {last}, and lacks {at}");
        tracing::error!(store = id, lost, "a member lacks what it acknowledged; its responses are ignored");
        record.lost = Some(lost);
        true
    }

    /// Returns the description of a member's missing entries, if any were found missing.
    pub(crate) fn lost(&self, id: u64) -> Option<String> {
        self.members.lock().get(&id)?.lost.clone()
    }

    /// Compares the position that a starting member reports with the acknowledgements of that member. Returns an error
    /// that names the missing data.
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
        // The member's own directory is back.
        record.lost = None;
        Ok(())
    }

    fn is_committed(&self, id: &LogId) -> bool {
        let committed = self.log.position().committed;
        committed.is_some_and(|committed| id.index <= committed.index) && self.log.has(id)
    }
}
