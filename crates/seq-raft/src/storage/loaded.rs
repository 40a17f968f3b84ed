//! Decoded contents of a log backend, and the checks of these contents that are the same for all backends.

use std::collections::VecDeque;

use super::error::LoadError;
use crate::encoding;
use crate::encoding::envelope::Kind;
use crate::state_machine::StateMachine;
use crate::types::{Entry, LogId, Payload, Vote};

/// Kinds of records that a log backend stores once, in addition to the log entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meta {
    Vote,
    Committed,
    Purged,
    Manifest,
}

impl Meta {
    pub(crate) const ALL: [Meta; 4] = [Meta::Vote, Meta::Committed, Meta::Purged, Meta::Manifest];

    /// Returns the key of the record in the log's database.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Meta::Vote => "vote",
            Meta::Committed => "committed",
            Meta::Purged => "purged",
            Meta::Manifest => "manifest",
        }
    }
}

/// Decoded contents of a log backend.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Loaded {
    pub(crate) vote: Option<Vote>,
    pub(crate) committed: Option<LogId>,
    pub(crate) purged: Option<LogId>,
    pub(crate) manifest: Option<encoding::Manifest>,
    /// Consecutive log entries. The first entry directly follows the entry `purged`.
    pub(crate) entries: VecDeque<Entry>,
}

impl Loaded {
    /// Decodes a record that is not a log entry, and stores it in its field. `place` names the database in errors.
    pub(crate) fn set(&mut self, meta: Meta, record: &[u8], place: &str) -> Result<(), LoadError> {
        let damaged = |source| LoadError::Record { place: format!("key {:?} of {place}", meta.key()), source };
        match meta {
            Meta::Vote => self.vote = Some(encoding::read_vote(record).map_err(damaged)?),
            Meta::Committed => self.committed = Some(encoding::read_log_id(Kind::Committed, record).map_err(damaged)?),
            Meta::Purged => self.purged = Some(encoding::read_log_id(Kind::Purged, record).map_err(damaged)?),
            Meta::Manifest => self.manifest = Some(encoding::read_manifest(record).map_err(damaged)?),
        }
        Ok(())
    }

    /// Decodes and adds the next log entry. The caller must add the entries in the order of their keys, after all calls
    /// of [`Loaded::set`].
    pub(crate) fn push(&mut self, key: u64, record: &[u8], place: &str) -> Result<(), LoadError> {
        let here = || format!("log entry {key} of {place}");
        let entry = encoding::read_entry(record).map_err(|source| LoadError::Record { place: here(), source })?;
        if entry.log_id.index != key {
            return Err(LoadError::Misplaced { place: here(), what: format!("entry {}", entry.log_id) });
        }
        let purged = self.purged.map_or(0, |id| id.index + 1);
        if key < purged {
            return Ok(()); // The rest of an interrupted purge; the next purge continues it.
        }
        let expected = self.entries.back().map_or(purged, |last| last.log_id.index + 1);
        if key != expected {
            return Err(LoadError::Hole { place: place.into(), first: expected, last: key - 1 });
        }
        if let Some(last) = self.entries.back()
            && last.log_id > entry.log_id
        {
            let what = format!("entry {}, older than {} before it", entry.log_id, last.log_id);
            return Err(LoadError::Misplaced { place: here(), what });
        }
        self.entries.push_back(entry);
        Ok(())
    }

    /// Checks, after all parts are loaded, that log, snapshot, purge mark and committed entry do not contradict each
    /// other.
    pub(crate) fn check(&self, place: &str) -> Result<(), LoadError> {
        let covered = self.snapshot_end();
        if self.purged > covered {
            let (from, to) = (covered.map_or(0, |id| id.index + 1), self.purged.map_or(0, |id| id.index));
            return Err(LoadError::Hole {
                place: format!("{place}, purged without a snapshot"),
                first: from,
                last: to,
            });
        }
        let end = self.last().max(covered);
        if let Some(committed) = self.committed
            && end.is_none_or(|end| end.index < committed.index)
        {
            let first = end.map_or(0, |end| end.index + 1);
            return Err(LoadError::Hole {
                place: format!("{place}, although committed"),
                first,
                last: committed.index,
            });
        }
        Ok(())
    }

    /// Returns an error if an entry has a format that this program cannot read. A newer program wrote such an entry
    /// after the group's format was raised.
    pub(crate) fn check_formats<M: StateMachine>(&self, place: &str) -> Result<(), LoadError> {
        for entry in &self.entries {
            if let Payload::Normal(records) = &entry.payload {
                let place = || format!("log entry {} of {place}", entry.log_id.index);
                encoding::check_formats::<M>(records.bytes())
                    .map_err(|source| LoadError::Record { place: place(), source })?;
            }
        }
        Ok(())
    }

    /// Returns the log id of the last entry of the log. If all entries are purged, this is the last purged entry.
    pub(crate) fn last(&self) -> Option<LogId> {
        self.entries.back().map(|entry| entry.log_id).or(self.purged)
    }

    /// Returns the log id of the last entry that the current snapshot covers.
    pub(crate) fn snapshot_end(&self) -> Option<LogId> {
        self.manifest.as_ref().and_then(|manifest| manifest.last_log_id).map(encoding::newest::LogId::into_library)
    }

    /// Returns the entry at `index`, if the log contains it.
    pub(crate) fn entry(&self, index: u64) -> Option<&Entry> {
        let first = self.entries.front()?.log_id.index;
        self.entries.get(usize::try_from(index.checked_sub(first)?).ok()?)
    }
}
