//! Durable storage of a member: log, vote, snapshots, and the identity of the data directory.
//!
//! [`prepare`] locks a data directory and reads its identity, and [`Prepared::open`] then loads and checks its
//! contents. [`form_restored`] creates a data directory whose first content is a restored state. [`read_survivor`]
//! reads the data directory of a stopped member.
//!
//! | file or directory | content | module |
//! |---|---|---|
//! | `lock` | nothing; the process that uses the directory has locked this file | [`identity`] |
//! | `identity` | the cluster's name, the member's Raft id, the nonce | [`identity`] |
//! | `acknowledged` | the watermark, which states how far data was acknowledged | [`watermark`] |
//! | `log/` | sled database: entries, vote, committed and purged log id, snapshot's manifest | [`sled_backend`] |
//! | `snapshot-*` | a snapshot of the applied state | [`snapshot`] |
//! | `outvoted` | the reason why the state must not be used any more | [`outvoted`] |
//!
//! **Architecture Invariant:** no write is acknowledged before it is durable, and a member never starts with less data
//! than it has acknowledged. If data is damaged, the start fails with an error that names the file or the record.

use std::fmt;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use crate::encoding::{self, Identity};
use crate::nonce::Nonce;
use crate::state_machine::StateMachine;

mod abort;
mod backend;
mod error;
mod files;
mod form;
mod identity;
mod io;
mod loaded;
mod log;
mod machine;
mod memory;
pub(crate) mod outvoted;
mod sled_backend;
mod snapshot;
mod stall;
mod survivor;
mod watermark;

pub use error::{LoadError, OpenError};
pub use form::{RestoredGroup, form_restored};
pub(crate) use log::{LogReader, LogStore, Position};
pub use machine::{AppliedState, Observer};
pub(crate) use machine::{Machine, Raft, Replica};
pub use memory::MemoryDisk;
pub(crate) use stall::{STALL_TIMEOUT, Stall};
pub use survivor::{Survivor, read_survivor};

use backend::LogBackend;
pub(crate) use files::Files;
use identity::DirLock;
use io::{Gauges, Io, Worker};
use memory::MemoryBackend;
use sled_backend::{SledBackend, Syncer};
use snapshot::{Contents, Snapshots};
use watermark::WatermarkFile;

/// Location of a member's data.
#[derive(Clone, Debug)]
pub enum DataDir {
    /// Data directory, which is created if it is missing.
    Path(PathBuf),
    /// Memory instead of a disk. The data survives a simulated restart of the member as long as the caller keeps the
    /// [`MemoryDisk`].
    Memory(Arc<MemoryDisk>),
}

/// Data directory that is locked and checked to belong to this member, but is not loaded yet.
pub(crate) struct Prepared {
    data: DataDir,
    files: Files,
    identity: Identity,
    is_fresh: bool,
    lock: DirLock,
    gauges: Option<Gauges>,
}

/// Storage after loading. It closes when `log`, `machine`, all readers of the log and all builders of snapshots are
/// dropped.
pub(crate) struct Opened<M: StateMachine> {
    /// The log and the vote, which the Raft library reads and writes.
    pub(crate) log: LogStore,
    /// The state machine, which the Raft library drives.
    pub(crate) machine: Machine,
    /// The applied state, which the services read.
    pub(crate) state: AppliedState<M>,
    /// Nonce of the data directory, see [`Prepared::nonce`].
    #[cfg_attr(not(test), expect(dead_code, reason = "tests compare it over restarts"))]
    pub(crate) nonce: Nonce,
    /// Stopwatch for the time that the writing thread has waited for the disk in the current batch.
    pub(crate) stall: Stall,
    /// Waiter for the end of storage: it completes when all data is written and the lock on the directory is released.
    pub(crate) closed: Closed,
}

/// Locks a data directory, creates it if it is missing, and reads its identity.
///
/// # Errors
/// The directory belongs to another cluster or member, has a newer format than this program reads, is damaged, or is in
/// use by another process.
pub(crate) fn prepare(data: &DataDir, cluster: &str, node: u64) -> Result<Prepared, OpenError> {
    let lock = identity::lock(data)?;
    let files = Files::of(data);
    let (identity, is_fresh) = identity::read_or_draw(&files, cluster, node)?;
    outvoted::check(&files)?;
    Ok(Prepared { data: data.clone(), files, identity, is_fresh, lock, gauges: None })
}

impl Prepared {
    /// Returns the secret nonce, which distinguishes this data directory from all other directories of a member with
    /// this id.
    ///
    /// If the directory is fresh, each [`prepare`] draws a new nonce until the directory is opened. So no other member
    /// may store this nonce until then.
    pub(crate) fn nonce(&self) -> Nonce {
        Nonce::from_bytes(&self.identity.nonce).expect("checked when it was read")
    }

    /// Returns whether the directory is still empty.
    pub(crate) fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    /// Sets the names of the set and of the member, as in the set file, for metrics. If this function is not called,
    /// metrics name the cluster and the member's id.
    pub(crate) fn named(self, set: &str, node: &str) -> Prepared {
        Prepared { gauges: Some(Gauges::of(set, node)), ..self }
    }

    /// Makes the identity of a fresh directory durable, then loads and checks all contents. `observe` is called for
    /// each command applied later. Blocks the thread while it reads.
    ///
    /// # Errors
    /// The reason why the data cannot be loaded. The error names the damaged, missing or lost data and the place where
    /// it should be.
    pub(crate) fn open<M: StateMachine>(self, observe: Observer<M>) -> Result<Opened<M>, OpenError> {
        self.open_with(observe, |file| Box::new(file))
    }

    /// Opens the storage as [`Prepared::open`] does, but lets `wrap` replace the [`Syncer`] of the log's file.
    pub(crate) fn open_with<M: StateMachine>(
        self,
        observe: Observer<M>,
        wrap: impl FnOnce(File) -> Box<dyn Syncer>,
    ) -> Result<Opened<M>, OpenError> {
        let nonce = self.nonce();
        let Prepared { data, files, identity, is_fresh, lock, gauges } = self;
        if is_fresh {
            identity::write(&files, &identity)?;
        }
        let watermark = WatermarkFile::open(&files)?;
        let log_dir = files.place(identity::LOG_DIR);
        let mut backend: Box<dyn LogBackend> = match &data {
            DataDir::Path(dir) => Box::new(SledBackend::open(&dir.join(identity::LOG_DIR), wrap)?),
            DataDir::Memory(disk) => Box::new(MemoryBackend(disk.clone())),
        };
        let loaded = backend.load()?;
        watermark::check(watermark.current(), &loaded)?;
        loaded.check(&log_dir)?;
        let (contents, current) = match &loaded.manifest {
            Some(manifest) => {
                let (contents, snapshot) = Snapshots::load(&files, manifest)?;
                (contents, Some(snapshot))
            }
            None => (Contents::empty(), None),
        };
        loaded.check_formats::<M>(&log_dir)?;
        Snapshots::remove_leftovers(&files, loaded.manifest.as_ref())
            .map_err(|source| LoadError::Io { place: log_dir.clone(), source })?;

        let (closed, wait) = oneshot::channel();
        let gauges = gauges.unwrap_or_else(|| Gauges::of(&identity.cluster, &identity.node.to_string()));
        let worker = Worker::new(backend, watermark, &loaded, gauges, Box::new(lock), closed);
        let (counters, stall) = (worker.counters(), worker.stall());
        let (io, thread) = match data {
            DataDir::Path(_) => {
                let started = Io::thread(worker);
                let (io, thread) =
                    started.map_err(|source| LoadError::Io { place: "the storage thread".into(), source })?;
                (io, Some(thread))
            }
            DataDir::Memory(_) => (Io::inline(worker), None),
        };
        let state = AppliedState::new(contents, observe);
        let machine = Machine::new(state.replica(), Snapshots::new(files, io.clone(), current));
        let log = LogStore::new(io, loaded, counters, |records| {
            encoding::read_batch::<M>(records).map(|commands| commands.len())
        });
        Ok(Opened { log, machine, state, nonce, stall, closed: Closed { wait, thread } })
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Identity { cluster, node, nonce: _ } = &self.identity;
        f.debug_struct("Prepared")
            .field("cluster", cluster)
            .field("node", node)
            .field("is_fresh", &self.is_fresh)
            .finish()
    }
}

impl<M: StateMachine> fmt::Debug for Opened<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").field("state", &self.state).finish_non_exhaustive()
    }
}

/// Waiter for the end of storage. It owns the writing thread.
#[derive(Debug)]
pub(crate) struct Closed {
    wait: oneshot::Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl Closed {
    /// Waits until all users of the storage have dropped it, all data is written, the lock on the directory is
    /// released, and the writing thread has ended.
    pub(crate) async fn wait(self) {
        // No message is ever sent. The worker drops the sender last, when all else is closed.
        let _ = self.wait.await;
        if let Some(thread) = self.thread {
            // Blocks only for the thread's last instructions. A panic in it has already ended the process.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
