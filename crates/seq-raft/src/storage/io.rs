//! Queue of all write operations of a data directory's log, and the single thread that executes them in order.
//!
//! The thread takes all queued operations, writes them, syncs once for all of them, and only then acknowledges them. So
//! many appends share one write and one sync (group commit), and a vote never becomes durable before earlier entries.
//! The function [`Worker::commit`] enforces the rule **durable, then visible**.
//!
//! No caller waits for a purge. After it has acknowledged the operations of a batch, the thread removes a few purged
//! records, and the next sync makes the removal durable.
//!
//! If a write or a sync fails, the process stops ([`must_succeed`]). The operation is neither retried nor acknowledged.
//!
//! If the data is in memory, the worker runs in the calling task instead of a thread, because a simulation has only one
//! thread.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use metrics::Histogram;
use openraft::storage::IOFlushed;
use parking_lot::Mutex;
use seq_api::metrics::{STORAGE_SYNC_ENTRIES, STORAGE_SYNC_SECONDS};
use tokio::sync::{mpsc, oneshot};

use super::abort::{abort_on_io_error, must_succeed};
use super::backend::LogBackend;
use super::loaded::{Loaded, Meta};
use super::stall::Stall;
use super::watermark::WatermarkFile;
use crate::encoding::envelope::Kind;
use crate::encoding::{self, Watermark};
use crate::types::{Entry, LogId, TypeConfig, Vote};

/// Maximum number of queued operations. If the queue is full, callers wait. The Raft library has one outstanding write
/// for each batch of proposals, so the queue is full only if the disk does not respond.
const QUEUE_OPS: usize = 4_096;
/// Maximum length in bytes of the entries that are written between two syncs, which is half a segment of sled. Between
/// two syncs, sled must not fill several segments, because it reuses an old segment as soon as it believes that the
/// segment that replaces it is written.
const BATCH_BYTES: usize = 256 * 1024;
/// Maximum number of records that are purged between two syncs. An append that arrives during their removal waits for
/// its end, which takes a fraction of a millisecond. If ten thousand records were removed at once, the append would
/// wait 100 ms or more.
pub(crate) const PURGE_KEYS: usize = 64;

/// Write operation on the log or on the records next to it.
pub(crate) enum Op {
    /// Stores the vote, and notifies the sender when the vote is durable.
    Vote(Vote, oneshot::Sender<()>),
    /// Appends the entries, and calls the callback when the entries are durable.
    Append(Vec<Entry>, IOFlushed<TypeConfig>),
    /// Removes the entries from the index `from` on. `last` is the last entry that remains. The removal becomes durable
    /// with the next sync, for which no caller waits.
    Truncate { from: u64, last: Option<LogId> },
    /// Removes the entries up to and including this entry, a few at a time. No caller waits for the removal.
    Purge(LogId),
    /// Records the last committed entry. The record becomes durable with a later sync. If it is lost in a power cut,
    /// the member learns it again from the leader.
    Committed(LogId),
    /// Stores the manifest of the snapshot, and notifies the sender when the manifest is durable.
    Manifest(encoding::Manifest, oneshot::Sender<()>),
}

/// Numbers of appends and syncs since the start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) appends: AtomicU64,
    pub(crate) syncs: AtomicU64,
}

/// Histograms of the duration of each sync and of the number of entries that it covers.
pub(crate) struct Gauges {
    seconds: Histogram,
    entries: Histogram,
}

impl Gauges {
    /// Returns the histograms of the member `node` of the set `set`, both named as in the set file.
    pub(crate) fn of(set: &str, node: &str) -> Gauges {
        let labels = [("set", set.to_owned()), ("node", node.to_owned())];
        Gauges {
            seconds: metrics::histogram!(STORAGE_SYNC_SECONDS, &labels),
            entries: metrics::histogram!(STORAGE_SYNC_ENTRIES, &labels),
        }
    }
}

/// Handle with which operations are enqueued. When the last handle is dropped, the queued operations are written and
/// storage closes.
#[derive(Clone)]
pub(crate) struct Io(Mode);

#[derive(Clone)]
enum Mode {
    Thread(mpsc::Sender<Op>),
    Inline(Arc<Mutex<Worker>>),
}

impl Io {
    /// Creates a queue whose operations a new thread executes. The thread ends after the last handle is dropped, and
    /// [`super::Closed`] waits for its end.
    pub(crate) fn thread(worker: Worker) -> io::Result<(Io, JoinHandle<()>)> {
        let (sender, receiver) = mpsc::channel(QUEUE_OPS);
        let thread = std::thread::Builder::new().name("seqsvr-storage".into()).spawn(move || {
            let run = panic::catch_unwind(AssertUnwindSafe(|| run(worker, receiver)));
            if run.is_err() {
                abort_on_io_error("writing", &io::Error::other("the storage thread panicked"));
            }
        })?;
        Ok((Io(Mode::Thread(sender)), thread))
    }

    /// Creates a handle without a queue. Each operation is executed in the calling task.
    pub(crate) fn inline(worker: Worker) -> Io {
        Io(Mode::Inline(Arc::new(Mutex::new(worker))))
    }

    /// Returns whether the data is on a real disk, with a thread that writes it. Callers may then use blocking threads
    /// too.
    pub(crate) fn is_threaded(&self) -> bool {
        matches!(self.0, Mode::Thread(_))
    }

    /// Enqueues an operation.
    pub(crate) async fn submit(&self, op: Op) -> io::Result<()> {
        match &self.0 {
            Mode::Thread(sender) => sender.send(op).await.map_err(|_| stopped()),
            Mode::Inline(worker) => {
                let mut worker = worker.lock();
                worker.take(op);
                worker.commit();
                while worker.is_purging() {
                    worker.commit();
                }
                Ok(())
            }
        }
    }

    /// Enqueues an operation and waits until it is durable.
    pub(crate) async fn durable(&self, op: impl FnOnce(oneshot::Sender<()>) -> Op) -> io::Result<()> {
        let (done, wait) = oneshot::channel();
        self.submit(op(done)).await?;
        wait.await.map_err(|_| stopped())
    }
}

fn stopped() -> io::Error {
    io::Error::other("the storage thread has stopped")
}

fn run(mut worker: Worker, mut queue: mpsc::Receiver<Op>) {
    loop {
        if worker.is_purging() {
            // No operation is awaited, because the purge continues without one.
            worker.stall.begin();
        } else if let Some(op) = queue.blocking_recv() {
            worker.stall.begin();
            worker.take(op);
        } else {
            break;
        }
        while worker.batch_bytes < BATCH_BYTES
            && let Ok(op) = queue.try_recv()
        {
            worker.take(op);
        }
        worker.commit();
        worker.stall.end();
        if queue.is_closed() && queue.is_empty() {
            break; // An unfinished purge continues at the next start.
        }
    }
    worker.dirty = true;
    worker.commit();
}

/// Executor of the operations on one backend.
pub(crate) struct Worker {
    backend: Box<dyn LogBackend>,
    watermark: WatermarkFile,
    /// Watermark that is written after the next sync.
    mark: Watermark,
    /// Whether a sync is needed, because an operation was written since the last sync.
    dirty: bool,
    batch_bytes: usize,
    batch_entries: u32,
    /// Records of consecutive entries that are not written yet. `pending_from` is the index of the first of them.
    pending: Vec<Vec<u8>>,
    pending_from: u64,
    /// Last committed entry, if it is not written yet. It is written only once for each sync, because each such record
    /// replaces the previous one.
    committed: Option<LogId>,
    /// Index up to which the log is being purged; `None` if no purge is in progress.
    purging: Option<u64>,
    waiting: Vec<Waiter>,
    counters: Arc<Counters>,
    /// Stopwatch that runs from the first operation of a batch to the end of its sync, with the times of the syncs.
    stall: Stall,
    gauges: Gauges,
    /// Lock on the data directory. The fields are dropped in their order: first the backend, then this lock, then
    /// `_closed`.
    _lock: Box<dyn Send>,
    _closed: oneshot::Sender<()>,
}

enum Waiter {
    Flushed(IOFlushed<TypeConfig>),
    Done(oneshot::Sender<()>),
}

impl Worker {
    /// Creates a worker for a loaded backend. `lock` is released and `closed` is dropped after all other parts are
    /// closed.
    pub(crate) fn new(
        backend: Box<dyn LogBackend>,
        watermark: WatermarkFile,
        loaded: &Loaded,
        gauges: Gauges,
        lock: Box<dyn Send>,
        closed: oneshot::Sender<()>,
    ) -> Worker {
        let mark = Watermark {
            generation: 0,
            vote: loaded.vote.as_ref().map(Into::into),
            last: loaded.last().as_ref().map(Into::into),
            purged: loaded.purged.as_ref().map(Into::into),
            snapshot: loaded.manifest.as_ref().and_then(|manifest| manifest.last_log_id),
        };
        Worker {
            backend,
            watermark,
            mark,
            dirty: false,
            batch_bytes: 0,
            batch_entries: 0,
            pending: Vec::new(),
            pending_from: 0,
            committed: None,
            purging: loaded.purged.map(|id| id.index),
            waiting: Vec::new(),
            counters: Arc::default(),
            stall: Stall::new(),
            gauges,
            _lock: lock,
            _closed: closed,
        }
    }

    pub(crate) fn counters(&self) -> Arc<Counters> {
        self.counters.clone()
    }

    pub(crate) fn stall(&self) -> Stall {
        self.stall.clone()
    }

    fn is_purging(&self) -> bool {
        self.purging.is_some()
    }

    /// Writes or enqueues one operation in the order of arrival, and keeps the waiter of the operation until
    /// [`Worker::commit`].
    pub(super) fn take(&mut self, op: Op) {
        match op {
            Op::Append(entries, done) => {
                self.add_pending(&entries);
                self.counters.appends.fetch_add(1, Ordering::Relaxed);
                self.wait(Waiter::Flushed(done));
            }
            Op::Committed(id) => self.committed = Some(id),
            op => {
                self.write_pending();
                self.write(op);
            }
        }
    }

    fn add_pending(&mut self, entries: &[Entry]) {
        for entry in entries {
            let index = entry.log_id.index;
            if self.pending_from + self.pending.len() as u64 != index {
                self.write_pending();
                self.pending_from = index;
            }
            let record = encoding::write_entry(entry);
            self.batch_bytes += record.len();
            self.batch_entries += 1;
            self.pending.push(record);
            self.mark.last = Some((&entry.log_id).into());
        }
    }

    fn write_pending(&mut self) {
        if !self.pending.is_empty() {
            must_succeed("appending to the log", self.backend.append(self.pending_from, &self.pending));
            self.pending_from += self.pending.len() as u64;
            self.pending.clear();
        }
    }

    /// Writes an operation of a kind that is not collected in a batch.
    fn write(&mut self, op: Op) {
        match op {
            Op::Append(..) | Op::Committed(_) => unreachable!("these are batched"),
            Op::Vote(vote, done) => {
                must_succeed("writing the vote", self.backend.put_meta(Meta::Vote, &encoding::write_vote(&vote)));
                self.mark.vote = Some((&vote).into());
                self.wait(Waiter::Done(done));
            }
            Op::Truncate { from, last } => self.truncate(from, last),
            Op::Purge(upto) => {
                let record = encoding::write_log_id(Kind::Purged, &upto);
                must_succeed("writing the purge mark", self.backend.put_meta(Meta::Purged, &record));
                self.mark.purged = Some((&upto).into());
                if self.mark.last.is_none_or(|last| last.index < upto.index) {
                    self.mark.last = self.mark.purged;
                }
                self.purging = Some(upto.index);
                self.dirty = true;
            }
            Op::Manifest(manifest, done) => {
                let record = encoding::write_manifest(&manifest);
                must_succeed("writing the snapshot manifest", self.backend.put_meta(Meta::Manifest, &record));
                self.mark.snapshot = manifest.last_log_id;
                self.wait(Waiter::Done(done));
            }
        }
    }

    /// Truncates the log. Before that, lowers the watermark durably, because the watermark must never include removed
    /// entries.
    fn truncate(&mut self, from: u64, last: Option<LogId>) {
        self.mark.last = last.as_ref().map(Into::into);
        if self.watermark.current().last.is_some_and(|acknowledged| acknowledged.index >= from) {
            let lowered = Watermark { last: self.mark.last, ..*self.watermark.current() };
            must_succeed("lowering the watermark", self.watermark.write_durably(lowered));
        }
        must_succeed("truncating the log", self.backend.truncate_from(from));
        self.dirty = true;
    }

    fn wait(&mut self, waiter: Waiter) {
        self.dirty = true;
        self.waiting.push(waiter);
    }

    /// Makes all operations since the last call durable, then acknowledges them, and then continues a purge.
    pub(super) fn commit(&mut self) {
        self.write_pending();
        if std::mem::take(&mut self.dirty) {
            if let Some(id) = self.committed.take() {
                let record = encoding::write_log_id(Kind::Committed, &id);
                must_succeed("writing the committed log id", self.backend.put_meta(Meta::Committed, &record));
            }
            self.sync_and_acknowledge();
        }
        if let Some(upto) = self.purging {
            let done = must_succeed("purging the log", self.backend.purge_step(upto, PURGE_KEYS));
            self.dirty = true;
            if done {
                self.purging = None;
            }
        }
    }

    fn sync_and_acknowledge(&mut self) {
        let start = Instant::now();
        must_succeed("syncing the log", self.backend.sync());
        let took = start.elapsed();
        self.gauges.seconds.record(took);
        self.stall.synced(took);
        if self.batch_entries > 0 {
            self.gauges.entries.record(f64::from(self.batch_entries));
        }
        self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        (self.batch_bytes, self.batch_entries) = (0, 0);

        // All operations are durable and become visible from here on. The watermark is written first, so that it
        // includes everything that is acknowledged.
        must_succeed("writing the watermark", self.watermark.write(self.mark));
        for waiter in self.waiting.drain(..) {
            match waiter {
                Waiter::Flushed(flushed) => flushed.io_completed(Ok(())),
                // The caller may have been cancelled.
                Waiter::Done(done) => drop(done.send(())),
            }
        }
    }
}
