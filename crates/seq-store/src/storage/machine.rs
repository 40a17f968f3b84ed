//! The state machine as the Raft library sees it: the applied state in memory, snapshots of it on disk.
//!
//! Applying writes nothing. A restart loads the snapshot, and the Raft library applies the log behind it again.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::{Stream, TryStreamExt};
use openraft::storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use parking_lot::RwLock;
use seq_core::state::{Answer, State};

use super::io::die;
use super::snapshot::{Contents, Snapshots, decode_announced};
use crate::types::{Applied, Entry, LogId, Payload, Snapshot, SnapshotMeta, StoredMembership, TypeConfig};

/// The applied state, to be read.
#[derive(Clone)]
pub struct SharedState(Arc<Shared>);

struct Shared {
    contents: RwLock<Contents>,
    /// Raises that were accepted by entries applied since the start.
    raises: AtomicU64,
}

impl SharedState {
    pub(crate) fn new(contents: Contents) -> SharedState {
        SharedState(Arc::new(Shared { contents: RwLock::new(contents), raises: AtomicU64::new(0) }))
    }

    /// Reads the state. Applying waits meanwhile, so keep it short.
    pub fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.0.contents.read().state)
    }

    /// Reads the state together with the newest committed list of members, as of one entry.
    pub(crate) fn read_with_members<T>(&self, read: impl FnOnce(&State, &StoredMembership) -> T) -> T {
        let applied = self.0.contents.read();
        read(&applied.state, &applied.membership)
    }

    /// The last entry that the state covers.
    #[must_use]
    pub fn last_applied(&self) -> Option<LogId> {
        self.0.contents.read().last_applied
    }

    /// Ceiling raises that entries applied since the start have made.
    #[must_use]
    pub fn raises_applied(&self) -> u64 {
        self.0.raises.load(Ordering::Relaxed)
    }

    /// Applies one committed entry.
    fn apply(&self, entry: Entry) -> Applied {
        /// A broken invariant inside `apply` leaves the state half changed: nobody may read it.
        struct StopOnPanic(LogId);

        impl Drop for StopOnPanic {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    let broken = io::Error::other("an invariant of the state is broken, see the panic above");
                    die(&format!("applying log entry {}", self.0), &broken);
                }
            }
        }

        let command = match &entry.payload {
            // Skipping it would make this member differ from the others.
            Payload::Normal(command) => Some(command.decode().unwrap_or_else(|error| {
                die(&format!("applying log entry {}", entry.log_id), &error);
            })),
            Payload::Blank | Payload::Membership(_) => None,
        };
        let mut applied = self.0.contents.write();
        // Behind the lock, so that it is still held when the process stops.
        let _stop = StopOnPanic(entry.log_id);
        assert!(applied.last_applied < Some(entry.log_id), "entries are applied once, in order");
        applied.last_applied = Some(entry.log_id);
        if let Payload::Membership(members) = entry.payload {
            applied.membership = StoredMembership::new(Some(entry.log_id), members);
        }
        let Some(command) = command else { return Applied::Raft };
        let answer = applied.state.apply(&command);
        if let Answer::Raised(Ok(ceilings)) = &answer {
            self.0.raises.fetch_add(ceilings.iter().flatten().count() as u64, Ordering::Relaxed);
        }
        Applied::Command(answer)
    }
}

impl fmt::Debug for SharedState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedState").field(&self.last_applied()).finish()
    }
}

/// Applies the log.
pub struct StateMachine {
    shared: SharedState,
    pub(super) snapshots: Arc<Snapshots>,
}

impl StateMachine {
    pub(crate) fn new(shared: SharedState, snapshots: Arc<Snapshots>) -> StateMachine {
        StateMachine { shared, snapshots }
    }
}

/// Makes one snapshot, of the state as it was when the builder was made.
pub struct SnapshotBuilder {
    /// Taken by the one building.
    contents: Option<Contents>,
    snapshots: Arc<Snapshots>,
}

impl RaftSnapshotBuilder<TypeConfig> for SnapshotBuilder {
    type SnapshotData = Bytes;

    async fn build_snapshot(&mut self) -> Result<Snapshot, io::Error> {
        let contents = self.contents.take().ok_or_else(|| io::Error::other("a builder makes one snapshot"))?;
        self.snapshots.build(contents).await
    }
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotData = Bytes;
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        let applied = self.shared.0.contents.read();
        Ok((applied.last_applied, applied.membership.clone()))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> Result<(), io::Error>
    where
        Strm: Stream<Item = Result<EntryResponder<TypeConfig>, io::Error>> + Unpin + Send,
    {
        while let Some((entry, responder)) = entries.try_next().await? {
            let applied = self.shared.apply(entry);
            if let Some(responder) = responder {
                responder.send(applied);
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder {
        // Applying waits only for the copy, a millisecond for 40,000 sections; encoding and writing happen beside it.
        let contents = self.shared.0.contents.read().clone();
        SnapshotBuilder { contents: Some(contents), snapshots: self.snapshots.clone() }
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: Bytes) -> Result<(), io::Error> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let contents = decode_announced(meta, &snapshot).map_err(invalid)?;
        // Durable, then visible.
        self.snapshots.keep(Snapshot { meta: meta.clone(), snapshot }).await?;
        let mut applied = self.shared.0.contents.write();
        // The state never goes back.
        if contents.last_applied > applied.last_applied {
            *applied = contents;
        }
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, io::Error> {
        Ok(self.snapshots.current().await)
    }
}
