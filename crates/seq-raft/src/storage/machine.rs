//! The applied state in memory, and the adapter through which the Raft library applies entries and takes snapshots.
//!
//! Applying an entry writes no data. At a restart, the member loads the last snapshot, and the Raft library applies the
//! entries after it again.
//!
//! [`Replica`] hides the type of the state machine. So the code that uses it handles only encoded bytes and is compiled
//! only once.

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures::{Stream, TryStreamExt};
use openraft::storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use parking_lot::RwLock;

use super::abort::abort_on_io_error;
use super::snapshot::{Contents, Frozen, SnapshotError, Snapshots, decode_announced};
use crate::comparison::Digests;
use crate::encoding::{self, CommandTooLarge, Record};
use crate::state_machine::StateMachine;
use crate::types::{
    EncodedCommand, Entry, LogId, Output, Outputs, Payload, Snapshot, SnapshotMeta, StoredMembership, TypeConfig,
};

/// The Raft library's handle on a running member, with this module's state machine.
pub(crate) type Raft = openraft::Raft<TypeConfig, Machine>;

/// Function that applies each command to the state on every member, and returns the output. It may read the state
/// before and after the command. **Invariant:** it changes the state by one call of [`StateMachine::apply`] and in no
/// other way, because otherwise the members' states would differ.
pub type Observer<M> = Box<dyn Fn(&mut M, &<M as StateMachine>::Command) -> <M as StateMachine>::Output + Send + Sync>;

/// Handle with which the applied state is read. Clones read the same state.
pub struct AppliedState<M: StateMachine>(Arc<Shared<M>>);

struct Shared<M: StateMachine> {
    contents: RwLock<Contents<M>>,
    observe: Observer<M>,
    digests: Arc<Digests>,
}

impl<M: StateMachine> AppliedState<M> {
    pub(crate) fn new(contents: Contents<M>, observe: Observer<M>) -> AppliedState<M> {
        AppliedState(Arc::new(Shared { contents: RwLock::new(contents), observe, digests: Arc::default() }))
    }

    /// Calls `read` with the state, and returns the result. `read` must be short, because no entry is applied until it
    /// returns.
    pub fn read<T>(&self, read: impl FnOnce(&M) -> T) -> T {
        read(&self.0.contents.read().state)
    }

    /// Calls `read` with the state and the index of the last applied entry, or 0 if no entry was applied, and returns
    /// the result.
    pub fn read_applied<T>(&self, read: impl FnOnce(&M, u64) -> T) -> T {
        let contents = self.0.contents.read();
        read(&contents.state, contents.last_applied.map_or(0, |id| id.index))
    }

    /// Returns the index of the last applied entry.
    #[must_use]
    pub fn last_applied(&self) -> Option<u64> {
        self.0.contents.read().last_applied.map(|id| id.index)
    }

    /// Returns the format of the group's commands and states after the last applied entry.
    #[must_use]
    pub fn format(&self) -> u16 {
        self.0.contents.read().format
    }

    /// Returns a handle on this state. The type of the handle does not contain the type of the state machine.
    pub(crate) fn replica(&self) -> Arc<dyn Replica> {
        self.0.clone()
    }
}

impl<M: StateMachine> Clone for AppliedState<M> {
    fn clone(&self) -> AppliedState<M> {
        AppliedState(self.0.clone())
    }
}

impl<M: StateMachine> fmt::Debug for AppliedState<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AppliedState").field(&self.last_applied()).finish()
    }
}

/// Function that replaces the applied state by a decoded snapshot, unless the applied state is newer than the snapshot.
pub(crate) type Install = Box<dyn FnOnce() + Send>;

/// Interface to the applied state. It hides the type of the state machine from the code that uses it.
pub(crate) trait Replica: Send + Sync {
    /// Applies one committed entry. All commands of the entry are applied under one lock, so readers never see a state
    /// between two commands of an entry.
    fn apply(&self, entry: Entry) -> Outputs;

    /// Returns the log id of the last applied entry, and the list of members after that entry.
    fn applied(&self) -> (Option<LogId>, StoredMembership);

    /// Copies the state, and returns a function that encodes the copy as a snapshot. No entry is applied while the
    /// state is copied, which takes a millisecond for 40,000 sections.
    fn freeze(&self) -> Frozen;

    /// Decodes a received snapshot, checks that it matches its description `meta`, and returns a function that installs
    /// it.
    fn decode_snapshot(self: Arc<Self>, meta: &SnapshotMeta, bytes: &[u8]) -> Result<Install, SnapshotError>;

    /// Calls `visit` with the newest applied list of members and with the ids of all present and former members, both
    /// after the same entry.
    fn visit_members(&self, visit: &mut dyn FnMut(&StoredMembership, &[u64]));

    /// Encodes the command that claims `id` for a member.
    fn claim_member_id(&self, id: u64) -> Result<EncodedCommand, CommandTooLarge>;

    /// Returns the number of the group's history, which operators' plans contain.
    fn history(&self) -> u64;

    /// Returns the digests of the state after the last marked entries.
    fn digests(&self) -> &Arc<Digests>;

    /// Returns the group's format.
    fn format(&self) -> u16;

    /// Returns the newest format that a member can read, if it has reported the value `reported`. The value 0 means
    /// that the member's release reports no format, and such a release reads only the first format.
    fn newest_of(&self, reported: u32) -> u16;
}

impl dyn Replica + '_ {
    /// Calls `read` as [`Replica::visit_members`] calls its argument, and returns the result.
    pub(crate) fn read_members<T>(&self, read: impl FnOnce(&StoredMembership, &[u64]) -> T) -> T {
        let (mut read, mut result) = (Some(read), None);
        self.visit_members(&mut |members, ids| result = read.take().map(|read| read(members, ids)));
        result.expect("members are visited once")
    }

    /// Returns the log id of the last applied entry.
    pub(crate) fn last_applied(&self) -> Option<LogId> {
        self.applied().0
    }
}

impl<M: StateMachine> Replica for Shared<M> {
    fn apply(&self, entry: Entry) -> Outputs {
        /// Guard that stops the process if applying the entry panics, because the half-changed state must not be read
        /// afterwards.
        struct StopOnPanic(LogId);

        impl Drop for StopOnPanic {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    let broken = io::Error::other("an invariant of the state is broken, see the panic above");
                    abort_on_io_error(&format!("applying log entry {}", self.0), &broken);
                }
            }
        }

        let records = match &entry.payload {
            // If an unreadable record were skipped, this member's state would differ from the others'.
            Payload::Normal(commands) => encoding::read_batch::<M>(commands.bytes()).unwrap_or_else(|error| {
                abort_on_io_error(&format!("applying log entry {}", entry.log_id), &error);
            }),
            Payload::Blank | Payload::Membership(_) => Vec::new(),
        };
        let mut applied = self.contents.write();
        // The guard is declared after the lock, so that the lock is still held when the process stops.
        let _stop = StopOnPanic(entry.log_id);
        assert!(applied.last_applied < Some(entry.log_id), "entries are applied once, in order");
        applied.last_applied = Some(entry.log_id);
        if let Payload::Membership(members) = entry.payload {
            applied.membership = StoredMembership::new(Some(entry.log_id), members);
        }
        let mut marked = false;
        let apply = |record| match record {
            // The group's format was raised between the encoding of the command and its application.
            Record::Command { format, .. } if format < applied.format && applied.format >= M::STRICT_FORMAT => {
                Output::OVERTAKEN
            }
            Record::Command { command, .. } => Output::of((self.observe)(&mut applied.state, &command)),
            // Two leaders may have raised the format to the same value.
            Record::RaiseFormat(to) => {
                marked = true;
                if to > applied.format {
                    applied.format = to;
                    applied.state.raise_format(to);
                }
                Output::of(())
            }
        };
        let outputs = Outputs(records.into_iter().map(apply).collect());
        if marked {
            let contents = applied.clone();
            self.digests.mark(Box::new(move || contents.digest()));
        }
        outputs
    }

    fn applied(&self) -> (Option<LogId>, StoredMembership) {
        let applied = self.contents.read();
        (applied.last_applied, applied.membership.clone())
    }

    fn freeze(&self) -> Frozen {
        let contents = self.contents.read().clone();
        Box::new(move || contents.encode())
    }

    fn decode_snapshot(self: Arc<Self>, meta: &SnapshotMeta, bytes: &[u8]) -> Result<Install, SnapshotError> {
        let contents: Contents<M> = decode_announced(meta, bytes)?;
        Ok(Box::new(move || {
            let mut applied = self.contents.write();
            // An older state is never installed.
            if contents.last_applied > applied.last_applied {
                *applied = contents;
            }
        }))
    }

    fn visit_members(&self, visit: &mut dyn FnMut(&StoredMembership, &[u64])) {
        let applied = self.contents.read();
        visit(&applied.membership, applied.state.member_ids());
    }

    fn claim_member_id(&self, id: u64) -> Result<EncodedCommand, CommandTooLarge> {
        encoding::write_command::<M>(Replica::format(self), &M::claim_member_id(id))
    }

    fn history(&self) -> u64 {
        self.contents.read().state.history()
    }

    fn digests(&self) -> &Arc<Digests> {
        &self.digests
    }

    fn format(&self) -> u16 {
        self.contents.read().format
    }

    fn newest_of(&self, reported: u32) -> u16 {
        u16::try_from(reported).unwrap_or(u16::MAX).max(M::FIRST_FORMAT)
    }
}

/// State machine adapter that the Raft library drives.
pub(crate) struct Machine {
    replica: Arc<dyn Replica>,
    pub(super) snapshots: Arc<Snapshots>,
}

impl Machine {
    pub(crate) fn new(replica: Arc<dyn Replica>, snapshots: Arc<Snapshots>) -> Machine {
        Machine { replica, snapshots }
    }
}

/// Builder of one snapshot. The snapshot contains the state as it was when this builder was created.
pub(crate) struct SnapshotBuilder {
    /// Function that encodes the copied state. The builder's only build takes it.
    frozen: Option<Frozen>,
    snapshots: Arc<Snapshots>,
}

impl RaftSnapshotBuilder<TypeConfig> for SnapshotBuilder {
    type SnapshotData = Bytes;

    async fn build_snapshot(&mut self) -> Result<Snapshot, io::Error> {
        let frozen = self.frozen.take().ok_or_else(|| io::Error::other("a builder makes one snapshot"))?;
        self.snapshots.build(frozen).await
    }
}

impl RaftStateMachine<TypeConfig> for Machine {
    type SnapshotData = Bytes;
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        Ok(self.replica.applied())
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> Result<(), io::Error>
    where
        Strm: Stream<Item = Result<EntryResponder<TypeConfig>, io::Error>> + Unpin + Send,
    {
        while let Some((entry, responder)) = entries.try_next().await? {
            let outputs = self.replica.apply(entry);
            if let Some(responder) = responder {
                responder.send(outputs);
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder {
        // The copy is encoded and written while further entries are applied.
        SnapshotBuilder { frozen: Some(self.replica.freeze()), snapshots: self.snapshots.clone() }
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: Bytes) -> Result<(), io::Error> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let install = self.replica.clone().decode_snapshot(meta, &snapshot).map_err(invalid)?;
        // The snapshot is made durable before it becomes visible.
        self.snapshots.keep(Snapshot { meta: meta.clone(), snapshot }).await?;
        install();
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, io::Error> {
        Ok(self.snapshots.current().await)
    }
}
