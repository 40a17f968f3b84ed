//! Applied state in memory, and the adapter through which the Raft library applies entries and takes snapshots.
//!
//! Applying writes no data. A restart loads the snapshot, and the Raft library applies the later entries again.
//!
//! [`Replica`] hides the type of the state machine, so all code below the handle is compiled only once and sees encoded
//! bytes.

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

/// The Raft library's instance over this storage.
pub(crate) type Raft = openraft::Raft<TypeConfig, Machine>;

/// Observer of each applied command and its output, on every member.
pub type Observer<M> = Box<dyn Fn(&<M as StateMachine>::Command, &<M as StateMachine>::Output) + Send + Sync>;

/// Handle to read the applied state. Clones read the same state.
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

    /// Calls `read` with the state. `read` must be short, because no entry is applied until it returns.
    pub fn read<T>(&self, read: impl FnOnce(&M) -> T) -> T {
        read(&self.0.contents.read().state)
    }

    /// Calls `read` with the state and the index of the last entry that the state covers; 0 for none.
    pub fn read_applied<T>(&self, read: impl FnOnce(&M, u64) -> T) -> T {
        let contents = self.0.contents.read();
        read(&contents.state, contents.last_applied.map_or(0, |id| id.index))
    }

    /// Returns the index of the last entry that the state covers.
    #[must_use]
    pub fn last_applied(&self) -> Option<u64> {
        self.0.contents.read().last_applied.map(|id| id.index)
    }

    /// Returns the group's format, as of the last entry that the state covers.
    #[must_use]
    pub fn format(&self) -> u16 {
        self.0.contents.read().format
    }

    /// Returns the same state without its type.
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

/// Installs a decoded snapshot as the applied state, unless the applied state is newer.
pub(crate) type Install = Box<dyn FnOnce() + Send>;

/// Applied state without the type of its state machine.
pub(crate) trait Replica: Send + Sync {
    /// Applies one committed entry. All of its commands are applied under one lock, so readers never see a state in the
    /// middle of an entry.
    fn apply(&self, entry: Entry) -> Outputs;

    /// Returns the last entry that the state covers, and the list of members as of that entry.
    fn applied(&self) -> (Option<LogId>, StoredMembership);

    /// Copies the state. Applying waits only for the copy, which takes a millisecond for 40,000 sections.
    fn freeze(&self) -> Frozen;

    /// Decodes a received snapshot and checks that it matches its description `meta`.
    fn decode_snapshot(self: Arc<Self>, meta: &SnapshotMeta, bytes: &[u8]) -> Result<Install, SnapshotError>;

    /// Reads the committed list of members and the ids that members ever had, as of the same entry.
    fn visit_members(&self, visit: &mut dyn FnMut(&StoredMembership, &[u64]));

    /// Encodes the command that claims an id for a member.
    fn claim_member_id(&self, id: u64) -> Result<EncodedCommand, CommandTooLarge>;

    /// Returns the history of the group, for plans of operators.
    fn history(&self) -> u64;

    /// Returns the digests of the state after marked entries.
    fn digests(&self) -> &Arc<Digests>;

    /// Returns the group's format.
    fn format(&self) -> u16;

    /// Converts a reported format to the newest format that the reporting release reads. 0 means that the release
    /// reports no format, and such a release reads the first format.
    fn newest_of(&self, reported: u32) -> u16;
}

impl dyn Replica + '_ {
    /// Calls [`Replica::visit_members`] and returns the result of `read`.
    pub(crate) fn read_members<T>(&self, read: impl FnOnce(&StoredMembership, &[u64]) -> T) -> T {
        let (mut read, mut result) = (Some(read), None);
        self.visit_members(&mut |members, ids| result = read.take().map(|read| read(members, ids)));
        result.expect("members are visited once")
    }

    /// Returns the last entry that the state covers.
    pub(crate) fn last_applied(&self) -> Option<LogId> {
        self.applied().0
    }
}

impl<M: StateMachine> Replica for Shared<M> {
    fn apply(&self, entry: Entry) -> Outputs {
        /// Stops the process if `apply` panics, because the half-changed state must not be read again.
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
            // A skipped record would make this member differ from the others.
            Payload::Normal(commands) => encoding::read_batch::<M>(commands.bytes()).unwrap_or_else(|error| {
                abort_on_io_error(&format!("applying log entry {}", entry.log_id), &error);
            }),
            Payload::Blank | Payload::Membership(_) => Vec::new(),
        };
        let mut applied = self.contents.write();
        // Declared after the lock, so that the lock is still held when the process stops.
        let _stop = StopOnPanic(entry.log_id);
        assert!(applied.last_applied < Some(entry.log_id), "entries are applied once, in order");
        applied.last_applied = Some(entry.log_id);
        if let Payload::Membership(members) = entry.payload {
            applied.membership = StoredMembership::new(Some(entry.log_id), members);
        }
        let mut marked = false;
        let apply = |record| match record {
            // The format was raised between the encoding of the command and its entry.
            Record::Command { format, .. } if format < applied.format && applied.format >= M::STRICT_FORMAT => {
                Output::OVERTAKEN
            }
            Record::Command { command, .. } => {
                let output = applied.state.apply(&command);
                (self.observe)(&command, &output);
                Output::of(output)
            }
            // Two leaders may have raised the format.
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
            // Never installs an older state.
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

/// Adapter that the Raft library drives.
pub(crate) struct Machine {
    replica: Arc<dyn Replica>,
    pub(super) snapshots: Arc<Snapshots>,
}

impl Machine {
    pub(crate) fn new(replica: Arc<dyn Replica>, snapshots: Arc<Snapshots>) -> Machine {
        Machine { replica, snapshots }
    }
}

/// Builder of one snapshot. The snapshot has the state at the time when the builder was created.
pub(crate) struct SnapshotBuilder {
    /// Taken by the only build.
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
        // The copy is encoded and written concurrently with applying.
        SnapshotBuilder { frozen: Some(self.replica.freeze()), snapshots: self.snapshots.clone() }
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: Bytes) -> Result<(), io::Error> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let install = self.replica.clone().decode_snapshot(meta, &snapshot).map_err(invalid)?;
        // Durable, then visible.
        self.snapshots.keep(Snapshot { meta: meta.clone(), snapshot }).await?;
        install();
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, io::Error> {
        Ok(self.snapshots.current().await)
    }
}
