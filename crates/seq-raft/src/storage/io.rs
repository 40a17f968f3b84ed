//! A first-in-first-out queue for all writes, and the single thread that executes them.
//!
//! The thread takes all queued operations, writes them, syncs once for all of them, and only then acknowledges them. So
//! many appends share a write and a sync (group commit), and a vote never overtakes the log. **Durable, then visible**
//! is the rule of [`Worker::commit`].
//!
//! No caller waits for a purge. The thread removes a few records at a time after the acknowledgements, and the next
//! sync makes the removal durable.
//!
//! An error of a write or a sync stops the process ([`must_succeed`]), without a retry or an acknowledgement.
//!
//! In memory the same worker runs inline, in the caller, because a simulation has no threads.

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

/// Maximum number of queued operations. Further callers wait until the queue has room. The Raft library has one
/// outstanding write for each batch of proposals, so the queue is full only when the disk stalls.
const QUEUE_OPS: usize = 4_096;
/// Maximum number of bytes of entries under one sync, which is half a segment of sled. sled must not fill several
/// segments between two syncs, because it reuses an old segment as soon as it believes that the successor of that
/// segment is written.
const BATCH_BYTES: usize = 256 * 1024;
/// Maximum number of records that are purged between two syncs. An append that arrives in the meantime waits for their
/// removal, which takes a fraction of a millisecond. Ten thousand records at once would delay the append by 100 ms or
/// more.
pub(crate) const PURGE_KEYS: usize = 64;

/// A write operation.
pub(crate) enum Op {
    /// Acknowledged when the vote is durable.
    Vote(Vote, oneshot::Sender<()>),
    /// Acknowledged when the entries are durable.
    Append(Vec<Entry>, IOFlushed<TypeConfig>),
    /// Removes the entries from the index `from` on; `last` is the last remaining entry. The removal is durable after
    /// the next sync, for which no caller waits.
    Truncate { from: u64, last: Option<LogId> },
    /// Removes the entries up to this entry, a few at a time. No caller waits for the removal.
    Purge(LogId),
    /// Records the last committed entry. The record is durable after a later sync. If it is lost, the leader reports
    /// the entry again.
    Committed(LogId),
    /// Acknowledged when the manifest is durable.
    Manifest(encoding::Manifest, oneshot::Sender<()>),
}

/// Numbers of operations since the start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) appends: AtomicU64,
    pub(crate) syncs: AtomicU64,
}

/// Histograms of each sync.
pub(crate) struct Gauges {
    seconds: Histogram,
    entries: Histogram,
}

impl Gauges {
    /// Returns the histograms of the member with this name in the set file.
    pub(crate) fn of(set: &str, node: &str) -> Gauges {
        let labels = [("set", set.to_owned()), ("node", node.to_owned())];
        Gauges {
            seconds: metrics::histogram!(STORAGE_SYNC_SECONDS, &labels),
            entries: metrics::histogram!(STORAGE_SYNC_ENTRIES, &labels),
        }
    }
}

/// Handle on the queue. When the last handle is dropped, queued operations are written and storage closes.
#[derive(Clone)]
pub(crate) struct Io(Mode);

#[derive(Clone)]
enum Mode {
    Thread(mpsc::Sender<Op>),
    Inline(Arc<Mutex<Worker>>),
}

impl Io {
    /// Creates a queue whose operations are written by a separate thread. The thread ends after the last handle is
    /// dropped, and [`super::Closed`] joins the thread.
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

    /// Writes in the calling task.
    pub(crate) fn inline(worker: Worker) -> Io {
        Io(Mode::Inline(Arc::new(Mutex::new(worker))))
    }

    /// Returns whether callers may block, because a thread serves a real disk.
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
            // The purge continues without a new operation.
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

/// Writes and syncs.
pub(crate) struct Worker {
    backend: Box<dyn LogBackend>,
    watermark: WatermarkFile,
    /// Bounds that the next sync acknowledges.
    mark: Watermark,
    /// Whether an operation waits for a sync.
    dirty: bool,
    batch_bytes: usize,
    batch_entries: u32,
    /// Unwritten records of consecutive entries, and the index of the first.
    pending: Vec<Vec<u8>>,
    pending_from: u64,
    /// Last committed entry that is not written yet. It is written once for each sync, because only the last such
    /// record is valid.
    committed: Option<LogId>,
    /// Index up to which the log is being purged, step by step.
    purging: Option<u64>,
    waiting: Vec<Waiter>,
    counters: Arc<Counters>,
    /// Runs from the first write of a batch to its sync.
    stall: Stall,
    gauges: Gauges,
    /// Lock of the directory. It is dropped after the backend is closed, and `_closed` is dropped after the lock.
    _lock: Box<dyn Send>,
    _closed: oneshot::Sender<()>,
}

enum Waiter {
    Flushed(IOFlushed<TypeConfig>),
    Done(oneshot::Sender<()>),
}

impl Worker {
    /// Creates a worker on a loaded backend. `lock` and `closed` are dropped after all other parts are closed.
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

    /// Takes one operation, and keeps its waiter until [`Worker::commit`]. Operations are written in order of arrival.
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

    /// Writes an operation that is not batched.
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

    /// Truncates the log. First lowers the watermark durably, so that the watermark never covers removed entries.
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

    /// Makes all operations durable, then acknowledges them, then continues a purge.
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
        self.gauges.seconds.record(start.elapsed());
        if self.batch_entries > 0 {
            self.gauges.entries.record(f64::from(self.batch_entries));
        }
        self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        (self.batch_bytes, self.batch_entries) = (0, 0);

        // Durable, and visible from here on: the watermark is written first, so that no acknowledgement is forgotten.
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
