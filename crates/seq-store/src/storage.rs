//! Durable storage of a store's member: log, vote, snapshots, and whose they are.
//!
//! [`prepare`] locks a data directory and says whose it is; [`Prepared::open`] loads and checks everything.
//!
//! | in the directory | what | module |
//! |---|---|---|
//! | `lock` | held by the process that uses it | [`identity`] |
//! | `identity` | cluster, node, nonce | [`identity`] |
//! | `acknowledged` | what others were told is durable | [`watermark`] |
//! | `log/` | sled: entries, vote, committed and purged log id, the snapshot's manifest | [`sled_backend`] |
//! | `snapshot-*` | the applied state | [`snapshot`] |
//!
//! **Architecture Invariant:** nothing is acknowledged before it is durable, and a start never goes on with less than what
//! was acknowledged: damage anywhere is refused by name.

use std::fmt;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::disk::Identity;
use crate::nonce::Nonce;

mod backend;
mod error;
mod files;
mod identity;
mod io;
mod loaded;
mod log;
mod machine;
mod memory;
mod sled_backend;
mod snapshot;
mod stall;
mod watermark;

pub use error::{LoadError, OpenError};
pub(crate) use log::Position;
pub use log::{LogReader, LogStore};
pub use machine::{SharedState, SnapshotBuilder, StateMachine};
pub use memory::MemoryDisk;
pub use snapshot::{SnapshotError, check_snapshot};
pub use stall::Stall;

use backend::LogBackend;
use files::Files;
use identity::DirLock;
use io::{Gauges, Io, Worker};
use memory::MemoryBackend;
use sled_backend::{SledBackend, Syncer};
use snapshot::{Contents, Snapshots};
use watermark::WatermarkFile;

/// Where a member keeps its data.
#[derive(Clone, Debug)]
pub enum DataDir {
    /// A directory; it is made when it is missing.
    Path(PathBuf),
    /// Memory. It survives a simulated restart as long as the caller keeps the handle.
    Memory(Arc<MemoryDisk>),
}

/// A data directory that is locked and known to be this member's, not loaded yet.
pub struct Prepared {
    data: DataDir,
    files: Files,
    identity: Identity,
    is_fresh: bool,
    lock: DirLock,
    gauges: Option<Gauges>,
}

/// Loaded storage. It closes when `log` with its readers and `machine` with its builders are dropped.
pub struct Opened {
    /// The log and the vote, for the Raft library.
    pub log: LogStore,
    /// The state machine, for the Raft library.
    pub machine: StateMachine,
    /// The applied state, for the services to read.
    pub state: SharedState,
    /// Number of the data directory, see [`Prepared::nonce`].
    pub nonce: Nonce,
    /// How long the disk has kept the writing thread waiting.
    pub stall: Stall,
    /// Tells when everything is written and the directory is free again.
    pub closed: Closed,
}

/// Locks a data directory, makes it when it is missing, and reads whose it is.
///
/// # Errors
/// It is another cluster's or node's, of a newer format, damaged, or in use.
pub fn prepare(data: &DataDir, cluster: &str, node: u64) -> Result<Prepared, OpenError> {
    let lock = identity::lock(data)?;
    let files = match data {
        DataDir::Path(dir) => Files::Dir(dir.clone()),
        DataDir::Memory(disk) => Files::Memory(disk.clone()),
    };
    let (identity, is_fresh) = identity::read_or_draw(&files, cluster, node)?;
    Ok(Prepared { data: data.clone(), files, identity, is_fresh, lock, gauges: None })
}

impl Prepared {
    /// Secret number of the data directory: tells it from every other directory of the same node.
    ///
    /// That of a fresh directory is drawn anew by each [`prepare`] until one is opened, so nobody may remember it before.
    #[must_use]
    pub fn nonce(&self) -> Nonce {
        Nonce::from_bytes(&self.identity.nonce).expect("checked when it was read")
    }

    /// Whether the directory holds nothing yet.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    /// Names the member in metrics, as the set file does. Unnamed, it is the cluster and the node's id.
    #[must_use]
    pub fn named(self, set: &str, node: &str) -> Prepared {
        Prepared { gauges: Some(Gauges::of(set, node)), ..self }
    }

    /// Makes the identity of a fresh directory durable, then loads and checks everything. Blocks while it reads.
    ///
    /// # Errors
    /// What is damaged, missing or lost, and where.
    pub fn open(self) -> Result<Opened, OpenError> {
        self.open_with(|file| Box::new(file))
    }

    /// [`Prepared::open`] with something else that syncs the log's file.
    pub(crate) fn open_with(self, wrap: impl FnOnce(File) -> Box<dyn Syncer>) -> Result<Opened, OpenError> {
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
            None => (Contents::default(), None),
        };
        Snapshots::remove_leftovers(&files, loaded.manifest.as_ref())
            .map_err(|source| LoadError::Io { place: log_dir.clone(), source })?;

        let (closed, wait) = oneshot::channel();
        let gauges = gauges.unwrap_or_else(|| Gauges::of(&identity.cluster, &identity.node.to_string()));
        let worker = Worker::new(backend, watermark, &loaded, gauges, Box::new(lock), closed);
        let (counters, stall) = (worker.counters(), worker.stall());
        let io = match data {
            DataDir::Path(_) => {
                Io::thread(worker).map_err(|source| LoadError::Io { place: "the storage thread".into(), source })?
            }
            DataDir::Memory(_) => Io::inline(worker),
        };
        let state = SharedState::new(contents);
        let machine = StateMachine::new(state.clone(), Snapshots::new(files, io.clone(), current));
        let log = LogStore::new(io, loaded, counters);
        Ok(Opened { log, machine, state, nonce, stall, closed: Closed(wait) })
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

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").field("state", &self.state).finish_non_exhaustive()
    }
}

/// Tells when storage is closed.
#[derive(Debug)]
pub struct Closed(oneshot::Receiver<()>);

impl Closed {
    /// Waits until the last handle is dropped, all is written, and the directory is free.
    pub async fn wait(self) {
        // Nothing is ever sent: the sender is dropped with the last thing that is closed.
        let _ = self.0.await;
    }
}

#[cfg(test)]
mod tests;
