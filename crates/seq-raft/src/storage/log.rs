//! Adapter through which the Raft library reads and writes the log.
//!
//! All entries that are not purged are also held decoded in memory. So readers never access the disk, and they see an
//! entry as soon as `append` returns, even before the entry is durable. The memory is bounded, because a member
//! regularly takes snapshots and then purges the entries that they cover. An entry is held only once in memory while it
//! is written, replicated and applied, because its commands are shared bytes.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use openraft::storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage};
use parking_lot::RwLock;

use super::abort::abort_on_io_error;
use super::io::{Counters, Io, Op};
use super::loaded::Loaded;
use crate::encoding::envelope::ReadError;
use crate::types::{EncodedBatch, Entry, LogId, Payload, TypeConfig, Vote};

/// Maximum length in bytes of the commands in one message to a follower. A message has at least one entry, even if that
/// entry is longer. So a message stays well below the size limit of the Raft port, and a heartbeat to the follower is
/// not delayed by a large message.
const REPLICATION_BYTES: usize = 1024 * 1024;

/// Function that decodes the commands in an entry and returns their number. It calls the state machine's decoder, but
/// its own type does not depend on the state machine.
pub(crate) type CheckCommands = fn(&[u8]) -> Result<usize, ReadError>;

/// Writer of the log and the vote, for the Raft library.
pub(crate) struct LogStore {
    io: Io,
    mirror: Arc<RwLock<Mirror>>,
    #[cfg_attr(not(test), expect(dead_code, reason = "tests count appends and syncs"))]
    counters: Arc<Counters>,
    check_commands: CheckCommands,
}

/// Reader of the log and the vote. Clones read the same log.
#[derive(Clone)]
pub(crate) struct LogReader {
    mirror: Arc<RwLock<Mirror>>,
    check_commands: CheckCommands,
}

/// Vote, last entry and last committed entry of a log, including writes that are queued but not durable yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) vote: Option<Vote>,
    /// Last entry of the log. If all entries are purged, this is the last purged entry.
    pub(crate) last: Option<LogId>,
    /// Last entry that this member knows to be committed.
    pub(crate) committed: Option<LogId>,
}

impl LogReader {
    /// Returns the current vote, last entry and last committed entry.
    pub(crate) fn position(&self) -> Position {
        self.mirror.read().position()
    }

    /// Returns the log id of the entry at `index`, if the log contains the entry.
    #[cfg(any(fuzzing, test))]
    pub(crate) fn at(&self, index: u64) -> Option<LogId> {
        self.mirror.read().id_at(index)
    }

    /// Returns the number of commands in an entry, or an error if the state machine cannot decode them.
    pub(crate) fn check_commands(&self, commands: &EncodedBatch) -> Result<usize, ReadError> {
        (self.check_commands)(commands.bytes())
    }

    /// Returns whether the log contains the entry `id`, or may have contained it before a purge.
    pub(crate) fn has(&self, id: &LogId) -> bool {
        let mirror = self.mirror.read();
        match mirror.purged {
            Some(purged) if id.index <= purged.index => *id <= purged,
            _ => mirror.id_at(id.index) == Some(*id),
        }
    }

    /// Returns the committed entry that this log has at the index of `id`, if it is not the entry `id` itself. If the
    /// entry at that index is purged, its term is unknown, but is at most the term of the last purged entry. In this
    /// case, returns the last purged entry if `id` is greater than that entry.
    pub(crate) fn contradicts_committed(&self, id: &LogId) -> Option<LogId> {
        let mirror = self.mirror.read();
        let committed = mirror.settled()?;
        if id.index > committed.index {
            return None;
        }
        let own = match mirror.purged {
            Some(purged) if id.index < purged.index => return (*id > purged).then_some(purged),
            Some(purged) if id.index == purged.index => purged,
            _ => mirror.id_at(id.index)?,
        };
        (own != *id).then_some(own)
    }
}

/// Copy of the log's contents in memory, including writes that are queued but not durable yet.
struct Mirror {
    vote: Option<Vote>,
    committed: Option<LogId>,
    purged: Option<LogId>,
    /// Last entry that the snapshot covered when the log was opened. The entry is committed and applied, even if the
    /// log does not record it as committed.
    covered: Option<LogId>,
    /// Consecutive log entries that are not purged.
    entries: VecDeque<Entry>,
}

impl Mirror {
    fn first_index(&self) -> u64 {
        self.entries.front().map_or(0, |entry| entry.log_id.index)
    }

    fn id_at(&self, index: u64) -> Option<LogId> {
        let offset = usize::try_from(index.checked_sub(self.first_index())?).ok()?;
        self.entries.get(offset).map(|entry| entry.log_id)
    }

    fn last(&self) -> Option<LogId> {
        self.entries.back().map(|entry| entry.log_id).or(self.purged)
    }

    /// Returns the last entry that this member knows to be committed. Only a purge may remove this entry and the
    /// entries before it.
    fn settled(&self) -> Option<LogId> {
        self.committed.max(self.covered).max(self.purged)
    }

    fn position(&self) -> Position {
        Position { vote: self.vote, last: self.last().max(self.covered), committed: self.settled() }
    }

    /// Returns the entries whose index is in `range` and that are not purged.
    fn range(&self, range: &impl RangeBounds<u64>) -> impl Iterator<Item = &Entry> {
        let start = match range.start_bound() {
            Bound::Included(index) => *index,
            Bound::Excluded(index) => index.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(index) => index.saturating_add(1),
            Bound::Excluded(index) => *index,
            Bound::Unbounded => u64::MAX,
        };
        let offset = |index: u64| (index.saturating_sub(self.first_index()) as usize).min(self.entries.len());
        let (start, end) = (offset(start), offset(end));
        self.entries.range(start..end.max(start))
    }
}

/// Error of a member whose leader requires that the member removes committed entries.
#[derive(Debug, thiserror::Error)]
#[error(
    "the leader's log lacks entries from {from} on, but entries up to {settled} are committed here: acknowledged data was \
     lost elsewhere; stop all members, and restore the set from the members with the most data"
)]
struct CommittedLost {
    from: u64,
    settled: LogId,
}

impl LogStore {
    pub(crate) fn new(io: Io, loaded: Loaded, counters: Arc<Counters>, check_commands: CheckCommands) -> LogStore {
        let covered = loaded.snapshot_end();
        let Loaded { vote, committed, purged, entries, manifest: _ } = loaded;
        let mirror = Mirror { vote, committed, purged, covered, entries };
        LogStore { io, mirror: Arc::new(RwLock::new(mirror)), counters, check_commands }
    }

    /// Returns a reader of this log.
    pub(crate) fn reader(&self) -> LogReader {
        LogReader { mirror: self.mirror.clone(), check_commands: self.check_commands }
    }

    /// Returns the numbers of appended batches and of syncs since the start.
    #[cfg(test)]
    pub(crate) fn appends_and_syncs(&self) -> (u64, u64) {
        use std::sync::atomic::Ordering::Relaxed;
        (self.counters.appends.load(Relaxed), self.counters.syncs.load(Relaxed))
    }
}

impl RaftLogReader<TypeConfig> for LogReader {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + Send>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, io::Error> {
        Ok(self.mirror.read().range(&range).cloned().collect())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        Ok(self.mirror.read().vote)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, io::Error> {
        let mut bytes = 0;
        let mut fits = |entry: &&Entry| {
            let first = bytes == 0;
            // The exact length of an entry without commands does not matter, but must not be zero.
            bytes += 1 + if let Payload::Normal(commands) = &entry.payload { commands.bytes().len() } else { 0 };
            first || bytes <= REPLICATION_BYTES
        };
        Ok(self.mirror.read().range(&(start..end)).take_while(|entry| fits(entry)).cloned().collect())
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = LogReader;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, io::Error> {
        let mirror = self.mirror.read();
        Ok(LogState { last_purged_log_id: mirror.purged, last_log_id: mirror.last() })
    }

    async fn get_log_reader(&mut self) -> LogReader {
        self.reader()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        // Readers see the new vote at once and no longer serve the old leader. The response waits for the disk.
        self.mirror.write().vote = Some(*vote);
        self.io.durable(|done| Op::Vote(*vote, done)).await
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), io::Error> {
        self.mirror.write().committed = committed;
        match committed {
            Some(id) => self.io.submit(Op::Committed(id)).await,
            None => Ok(()),
        }
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, io::Error> {
        Ok(self.mirror.read().committed)
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<TypeConfig>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry> + Send,
        I::IntoIter: Send,
    {
        let entries: Vec<Entry> = entries.into_iter().collect();
        {
            let mut mirror = self.mirror.write();
            for entry in &entries {
                if let Some(last) = mirror.entries.back() {
                    assert_eq!(last.log_id.index + 1, entry.log_id.index, "the log has no holes");
                }
                mirror.entries.push_back(entry.clone());
            }
        }
        self.io.submit(Op::Append(entries, callback)).await
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> Result<(), io::Error> {
        let from = last.map_or(0, |id| id.index + 1);
        let last = {
            let mut mirror = self.mirror.write();
            if let Some(settled) = mirror.settled()
                && from <= settled.index
                && mirror.entries.iter().any(|entry| (from..=settled.index).contains(&entry.log_id.index))
            {
                // A leader that lacks a committed entry was elected by members that had lost the entry.
                let lost = CommittedLost { from, settled };
                abort_on_io_error("removing entries from the log", &lost);
            }
            let keep = mirror.entries.partition_point(|entry| entry.log_id.index < from);
            if keep == mirror.entries.len() {
                return Ok(());
            }
            mirror.entries.truncate(keep);
            mirror.last()
        };
        self.io.submit(Op::Truncate { from, last }).await
    }

    async fn purge(&mut self, upto: LogId) -> Result<(), io::Error> {
        {
            let mut mirror = self.mirror.write();
            if mirror.purged >= Some(upto) {
                return Ok(());
            }
            mirror.purged = Some(upto);
            let gone = mirror.entries.partition_point(|entry| entry.log_id.index <= upto.index);
            mirror.entries.drain(..gone);
        }
        self.io.submit(Op::Purge(upto)).await
    }
}
