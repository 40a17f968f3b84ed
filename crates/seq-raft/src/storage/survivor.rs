//! Reader of the committed state in the data directory of a stopped member. An operator uses it to recover a group that
//! has lost its majority permanently.
//!
//! **Invariant:** the state that is read contains only entries that this member knows to be committed. The entries
//! after them are counted but not applied, because the lost majority may have replaced them.

use std::fmt;
use std::path::Path;

use super::DataDir;
use super::error::{LoadError, OpenError};
use super::files::Files;
use super::identity::{self, DirLock};
use super::loaded::Loaded;
use super::machine::AppliedState;
use super::outvoted;
use super::sled_backend::SledBackend;
use super::snapshot::{Contents, Snapshots};
use super::watermark::{self, WatermarkFile};
use crate::encoding::Identity;
use crate::state_machine::StateMachine;
use crate::storage::backend::LogBackend;

/// Contents of a stopped member's data directory. The directory is locked as long as this value exists.
pub struct Survivor<M> {
    /// Name of the member's cluster.
    pub cluster: String,
    /// Raft id of the member.
    pub id: u64,
    /// State after the last entry that the member knows to be committed.
    pub state: M,
    /// Format of the group's commands and states after that entry.
    pub format: u16,
    /// Index of that entry, or 0 if there is no such entry.
    pub committed: u64,
    /// Index of the last entry in the member's log. It is unknown whether the entries above `committed` are committed.
    pub last: u64,
    _lock: DirLock,
}

impl<M> fmt::Debug for Survivor<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Survivor { cluster, id, committed, last, .. } = self;
        f.debug_struct("Survivor")
            .field("cluster", cluster)
            .field("id", id)
            .field("committed", committed)
            .field("last", last)
            .finish_non_exhaustive()
    }
}

/// Reads the data directory of a stopped member with the same checks as a start of the member. Blocks the thread while
/// it reads. State, log and vote remain unchanged, so the member can still be started afterwards.
///
/// # Errors
/// The directory is missing, has no identity, is in use by another process, or is damaged. The error names the file or
/// the record.
pub fn read_survivor<M: StateMachine>(dir: &Path) -> Result<Survivor<M>, OpenError> {
    let place = || dir.display().to_string();
    // This check comes first, because taking the lock would create a missing directory.
    std::fs::read_dir(dir).map_err(|source| LoadError::Io { place: place(), source })?;
    let files = Files::Dir(dir.to_owned());
    let Identity { cluster, node: id, nonce: _ } = identity::read(&files)?;
    let lock = identity::lock(&DataDir::Path(dir.to_owned()))?;
    outvoted::check(&files)?;
    let watermark = WatermarkFile::open(&files)?;
    let log_dir = dir.join(identity::LOG_DIR);
    let loaded = SledBackend::open(&log_dir, |file| Box::new(file))?.load()?;
    watermark::check(watermark.current(), &loaded)?;
    let log = log_dir.display().to_string();
    loaded.check(&log)?;
    let contents = match &loaded.manifest {
        Some(manifest) => Snapshots::load(&files, manifest)?.0,
        None => Contents::empty(),
    };
    loaded.check_formats::<M>(&log)?;
    let last = loaded.last().max(loaded.snapshot_end()).map_or(0, |last| last.index);
    let state = replay(contents, loaded);
    let committed = state.last_applied().unwrap_or(0);
    let (format, state) = (state.format(), state.read(Clone::clone));
    Ok(Survivor { cluster, id, state, format, committed, last, _lock: lock })
}

/// Applies the committed entries that follow the snapshot `contents`, and returns the state after them.
fn replay<M: StateMachine>(contents: Contents<M>, loaded: Loaded) -> AppliedState<M> {
    // The first index is 0, so an option is needed to represent "nothing".
    let covered = contents.last_applied.map(|last| last.index);
    let committed = loaded.committed.map(|last| last.index);
    let state = AppliedState::new(contents, Box::new(M::apply));
    let replica = state.replica();
    let is_next = |index: u64| Some(index) > covered && Some(index) <= committed;
    for entry in loaded.entries.into_iter().filter(|entry| is_next(entry.log_id.index)) {
        replica.apply(entry);
    }
    state
}
