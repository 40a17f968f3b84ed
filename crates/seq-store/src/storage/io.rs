//! One first-in-first-out queue for everything that is written, and the one thread that writes it.
//!
//! The thread takes what has gathered, writes it, syncs once for all of it, and only then answers: many appends share a write
//! and a sync (group commit), and a vote never overtakes the log. **Durable, then visible** is [`Worker::commit`].
//!
//! Purging is nobody's wait: a few records at a time, after the answers, and made durable by the next sync.
//!
//! An error of a write or a sync stops the process (see [`die`]); nothing is retried and nobody is answered.
//!
//! In memory the same worker runs inline, in the caller: a simulation has no threads.

use std::io::{self, Write};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use metrics::Histogram;
use openraft::storage::IOFlushed;
use parking_lot::Mutex;
use seq_api::metrics::{STORAGE_SYNC_ENTRIES, STORAGE_SYNC_SECONDS};
use tokio::sync::{mpsc, oneshot};

use super::backend::LogBackend;
use super::loaded::{Loaded, Meta};
use super::stall::Stall;
use super::watermark::WatermarkFile;
use crate::disk::{self, Watermark};
use crate::envelope::Kind;
use crate::types::{Entry, LogId, TypeConfig, Vote};

/// Most operations that wait; further callers wait for room. The Raft core has one write outstanding for each batch of
/// proposals, so this is only reached when the disk stalls.
const QUEUE_OPS: usize = 4_096;
/// Most bytes of entries under one sync. Half a segment of sled: between two syncs it must not fill segment after segment,
/// because it reuses an old one as soon as it believes its successor written.
const BATCH_BYTES: usize = 256 * 1024;
/// Most records purged between two syncs. An append that comes meanwhile waits for them: a fraction of a millisecond. Ten
/// thousand at once would stall it for 100 ms and more.
pub(crate) const PURGE_KEYS: usize = 64;

/// Something to write.
pub(crate) enum Op {
    /// Answered when it is durable.
    Vote(Vote, oneshot::Sender<()>),
    /// Answered when they are durable.
    Append(Vec<Entry>, IOFlushed<TypeConfig>),
    /// Removes the entries from this index on; `last` is the last one left. Later appends cover it.
    Truncate { from: u64, last: Option<LogId> },
    /// Removes the entries up to this one, a few at a time. Nobody waits for it.
    Purge(LogId),
    /// Durable with a later sync; losing it costs a re-read from the leader.
    Committed(LogId),
    /// Answered when it is durable.
    Manifest(disk::Manifest, oneshot::Sender<()>),
}

/// How much was written since the start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) appends: AtomicU64,
    pub(crate) syncs: AtomicU64,
}

/// What is measured of each sync.
pub(crate) struct Gauges {
    seconds: Histogram,
    entries: Histogram,
}

impl Gauges {
    /// Of the member with this name in the set file.
    pub(crate) fn of(set: &str, node: &str) -> Gauges {
        let labels = [("set", set.to_owned()), ("node", node.to_owned())];
        Gauges {
            seconds: metrics::histogram!(STORAGE_SYNC_SECONDS, &labels),
            entries: metrics::histogram!(STORAGE_SYNC_ENTRIES, &labels),
        }
    }
}

/// A handle on the queue. When the last one is dropped, what is queued is written and storage closes.
#[derive(Clone)]
pub(crate) struct Io(Way);

#[derive(Clone)]
enum Way {
    Thread(mpsc::Sender<Op>),
    Inline(Arc<Mutex<Worker>>),
}

impl Io {
    /// Writes on a thread of its own.
    pub(crate) fn thread(worker: Worker) -> io::Result<Io> {
        let (sender, receiver) = mpsc::channel(QUEUE_OPS);
        std::thread::Builder::new().name("seqsvr-storage".into()).spawn(move || {
            let run = panic::catch_unwind(AssertUnwindSafe(|| run(worker, receiver)));
            if run.is_err() {
                die("writing", &io::Error::other("the storage thread panicked"));
            }
        })?;
        Ok(Io(Way::Thread(sender)))
    }

    /// Writes in the caller.
    pub(crate) fn inline(worker: Worker) -> Io {
        Io(Way::Inline(Arc::new(Mutex::new(worker))))
    }

    /// Whether callers may block, because there is a real disk and a thread for it.
    pub(crate) fn is_threaded(&self) -> bool {
        matches!(self.0, Way::Thread(_))
    }

    /// Queues an operation behind all earlier ones.
    pub(crate) async fn submit(&self, op: Op) -> io::Result<()> {
        match &self.0 {
            Way::Thread(sender) => sender.send(op).await.map_err(|_| stopped()),
            Way::Inline(worker) => {
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

    /// Queues an operation and waits until it is durable.
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
            // There is something to do anyway.
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
            break; // An unfinished purge goes on at the next start.
        }
    }
    worker.dirty = true;
    worker.commit();
}

/// Writes and syncs.
pub(crate) struct Worker {
    backend: Box<dyn LogBackend>,
    watermark: WatermarkFile,
    /// What will be acknowledged by the next sync.
    mark: Watermark,
    /// Something waits for a sync.
    dirty: bool,
    batch_bytes: usize,
    batch_entries: u32,
    /// Records of consecutive entries that were taken and are not written yet; the first one's index.
    gathered: Vec<Vec<u8>>,
    gathered_from: u64,
    /// Not written yet: one record a sync is enough, because only the last one counts.
    committed: Option<LogId>,
    /// Purge up to here, step by step.
    purging: Option<u64>,
    waiting: Vec<Waiter>,
    counters: Arc<Counters>,
    /// Runs from the first write of a batch to its sync.
    stall: Stall,
    gauges: Gauges,
    /// Dropped last: tells that backend and lock are free.
    _lock: Box<dyn Send>,
    _closed: oneshot::Sender<()>,
}

enum Waiter {
    Flushed(IOFlushed<TypeConfig>),
    Done(oneshot::Sender<()>),
}

impl Worker {
    /// Takes over a loaded backend. `lock` is dropped and `closed` told after everything else is closed.
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
            gathered: Vec::new(),
            gathered_from: 0,
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

    /// Takes one operation; its waiter is kept until [`Worker::commit`]. Everything is written in the order in which it came.
    pub(super) fn take(&mut self, op: Op) {
        match op {
            Op::Append(entries, done) => {
                self.gather(&entries);
                self.counters.appends.fetch_add(1, Ordering::Relaxed);
                self.wait(Waiter::Flushed(done));
            }
            Op::Committed(id) => self.committed = Some(id),
            op => {
                self.write_gathered();
                self.write(op);
            }
        }
    }

    fn gather(&mut self, entries: &[Entry]) {
        for entry in entries {
            let index = entry.log_id.index;
            if self.gathered_from + self.gathered.len() as u64 != index {
                self.write_gathered();
                self.gathered_from = index;
            }
            let record = disk::write_entry(entry);
            self.batch_bytes += record.len();
            self.batch_entries += 1;
            self.gathered.push(record);
            self.mark.last = Some((&entry.log_id).into());
        }
    }

    fn write_gathered(&mut self) {
        if !self.gathered.is_empty() {
            ok("appending to the log", self.backend.append(self.gathered_from, &self.gathered));
            self.gathered_from += self.gathered.len() as u64;
            self.gathered.clear();
        }
    }

    /// Writes one of the operations that are not gathered.
    fn write(&mut self, op: Op) {
        match op {
            Op::Append(..) | Op::Committed(_) => unreachable!("these are gathered"),
            Op::Vote(vote, done) => {
                ok("writing the vote", self.backend.put_meta(Meta::Vote, &disk::write_vote(&vote)));
                self.mark.vote = Some((&vote).into());
                self.wait(Waiter::Done(done));
            }
            Op::Truncate { from, last } => self.truncate(from, last),
            Op::Purge(upto) => {
                let record = disk::write_log_id(Kind::Purged, &upto);
                ok("writing the purge mark", self.backend.put_meta(Meta::Purged, &record));
                self.mark.purged = Some((&upto).into());
                if self.mark.last.is_none_or(|last| last.index < upto.index) {
                    self.mark.last = self.mark.purged;
                }
                self.purging = Some(upto.index);
                self.dirty = true;
            }
            Op::Manifest(manifest, done) => {
                let record = disk::write_manifest(&manifest);
                ok("writing the snapshot manifest", self.backend.put_meta(Meta::Manifest, &record));
                self.mark.snapshot = manifest.last_log_id;
                self.wait(Waiter::Done(done));
            }
        }
    }

    /// The log gets shorter. Before any of it can be seen, the watermark must not promise what goes.
    fn truncate(&mut self, from: u64, last: Option<LogId>) {
        self.mark.last = last.as_ref().map(Into::into);
        if self.watermark.current().last.is_some_and(|acknowledged| acknowledged.index >= from) {
            let lowered = Watermark { last: self.mark.last, ..*self.watermark.current() };
            ok("lowering the watermark", self.watermark.write_durably(lowered));
        }
        ok("truncating the log", self.backend.truncate_from(from));
        self.dirty = true;
    }

    fn wait(&mut self, waiter: Waiter) {
        self.dirty = true;
        self.waiting.push(waiter);
    }

    /// Makes everything durable, then answers, then goes on purging.
    pub(super) fn commit(&mut self) {
        self.write_gathered();
        if std::mem::take(&mut self.dirty) {
            if let Some(id) = self.committed.take() {
                let record = disk::write_log_id(Kind::Committed, &id);
                ok("writing the committed log id", self.backend.put_meta(Meta::Committed, &record));
            }
            self.sync_and_answer();
        }
        if let Some(upto) = self.purging {
            let done = ok("purging the log", self.backend.purge_step(upto, PURGE_KEYS));
            self.dirty = true;
            if done {
                self.purging = None;
            }
        }
    }

    fn sync_and_answer(&mut self) {
        let start = Instant::now();
        ok("syncing the log", self.backend.sync());
        self.gauges.seconds.record(start.elapsed());
        if self.batch_entries > 0 {
            self.gauges.entries.record(f64::from(self.batch_entries));
        }
        self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        (self.batch_bytes, self.batch_entries) = (0, 0);

        // Durable, and from here on visible: the watermark first, so that no answer is forgotten.
        ok("writing the watermark", self.watermark.write(self.mark));
        for waiter in self.waiting.drain(..) {
            match waiter {
                Waiter::Flushed(flushed) => flushed.io_completed(Ok(())),
                // Whoever waited may be gone.
                Waiter::Done(done) => drop(done.send(())),
            }
        }
    }
}

fn ok<T>(doing: &str, result: io::Result<T>) -> T {
    result.unwrap_or_else(|error| die(doing, &error))
}

/// Stops the process at once, because what is on disk is not known any more.
///
/// After a failed sync the kernel may have dropped the unwritten pages, and a second sync would succeed without them. So
/// nothing is retried, nobody is answered, and no destructor runs: the process ends by `SIGABRT` (a shell shows 134), and
/// the next start reads what really is there.
pub(crate) fn die(doing: &str, error: &dyn std::error::Error) -> ! {
    let mut reason = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        reason = format!("{reason}: {cause}");
        source = cause.source();
    }
    tracing::error!(doing, %reason, "storage failed, the process stops");
    // The log may be filtered or buffered; these last words are not.
    let _ = writeln!(io::stderr(), "seqsvr: storage failed while {doing}: {reason}; the process stops");
    std::process::abort();
}
