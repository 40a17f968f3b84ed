//! Time of acknowledgements: after the sync, and many of them after one sync.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;

use super::super::backend::LogBackend;
use super::super::io::{Gauges, Op, PURGE_KEYS, Worker};
use super::super::loaded::{Loaded, Meta};
use super::super::memory::MemoryBackend;
use super::super::watermark::{self, WatermarkFile};
use super::*;

/// Long enough for the slowest machine; each wait ends as soon as its condition holds.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Waits before each sync until the test releases it.
struct Gate {
    file: File,
    arrived: Sender<()>,
    go: Receiver<()>,
}

impl Syncer for Gate {
    fn sync(&mut self) -> io::Result<()> {
        // A test that no longer waits has closed its ends.
        let _ = self.arrived.send(());
        let _ = self.go.recv();
        self.file.sync_data()
    }
}

fn open_gated(dir: &Path) -> (Opened<Journal>, Receiver<()>, Sender<()>) {
    let (arrived, arrivals) = channel();
    let (release, go) = channel();
    let gate = |file| Box::new(Gate { file, arrived, go }) as Box<dyn Syncer>;
    let opened = prepare(&at(dir), CLUSTER, 1).unwrap().open_with(unobserved(), gate).unwrap();
    (opened, arrivals, release)
}

#[tokio::test]
async fn an_append_is_acknowledged_after_its_sync() {
    let dir = tempfile::tempdir().unwrap();
    let (mut opened, arrivals, release) = open_gated(dir.path());
    let mut answer = Box::pin(start_append(&mut opened.log, vec![blank(1, 0)]).await);
    arrivals.recv_timeout(TIMEOUT).unwrap();
    // Readable already, but not acknowledged.
    assert_eq!(entries(&mut opened.log).await.len(), 1);
    assert!(answer.as_mut().now_or_never().is_none());
    release.send(()).unwrap();
    answer.await.unwrap().unwrap();
    drop(release);
    close(opened).await;
}

#[tokio::test]
async fn a_sync_that_hangs_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let (mut opened, arrivals, release) = open_gated(dir.path());
    assert_eq!(opened.stall.lasts(), Duration::ZERO);
    let answer = start_append(&mut opened.log, vec![blank(1, 0)]).await;
    arrivals.recv_timeout(TIMEOUT).unwrap();
    let before = opened.stall.lasts();
    assert!(before > Duration::ZERO);
    while opened.stall.lasts() == before {
        tokio::task::yield_now().await;
    }
    release.send(()).unwrap();
    answer.await.unwrap().unwrap();
    // The thread itself ends the stall, right after the acknowledgement.
    while opened.stall.lasts() > Duration::ZERO {
        tokio::task::yield_now().await;
    }
    drop(release);
    close(opened).await;
}

#[tokio::test]
async fn a_vote_is_answered_after_its_sync_and_never_before_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let (mut opened, arrivals, release) = open_gated(dir.path());
    let mut first = Box::pin(start_append(&mut opened.log, vec![blank(1, 0)]).await);
    arrivals.recv_timeout(TIMEOUT).unwrap();
    let term = vote(2);
    {
        let mut voting = Box::pin(opened.log.save_vote(&term));
        assert!(voting.as_mut().now_or_never().is_none());
        assert!(first.as_mut().now_or_never().is_none());
        release.send(()).unwrap();
        first.await.unwrap().unwrap();
        // The vote arrived after the first sync had begun, so it needs its own sync.
        arrivals.recv_timeout(TIMEOUT).unwrap();
        assert!(voting.as_mut().now_or_never().is_none());
        release.send(()).unwrap();
        voting.await.unwrap();
    }
    drop(release);
    close(opened).await;
}

#[tokio::test]
async fn what_gathers_during_a_sync_shares_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let (mut opened, arrivals, release) = open_gated(dir.path());
    let mut answers = vec![start_append(&mut opened.log, vec![blank(1, 0)]).await];
    arrivals.recv_timeout(TIMEOUT).unwrap();
    for index in 1..200 {
        answers.push(start_append(&mut opened.log, vec![blank(1, index)]).await);
    }
    drop(release);
    for answer in answers {
        answer.await.unwrap().unwrap();
    }
    let (appends, syncs) = opened.log.appends_and_syncs();
    assert_eq!((appends, syncs), (200, 2));
    close(opened).await;
}

#[tokio::test]
async fn a_long_queue_is_synced_in_bounded_batches() {
    let dir = tempfile::tempdir().unwrap();
    let (mut opened, arrivals, release) = open_gated(dir.path());
    let mut answers = Vec::new();
    for index in 0..40 {
        answers.push(start_append(&mut opened.log, vec![raise(1, index, 4_096)]).await);
    }
    arrivals.recv_timeout(TIMEOUT).unwrap();
    drop(release);
    for answer in answers {
        answer.await.unwrap().unwrap();
    }
    let (_, syncs) = opened.log.appends_and_syncs();
    assert!(syncs >= 10, "{syncs} syncs for 3 MiB");
    close(opened).await;
}

/// A backend that records its operations, in order.
struct Recorded {
    backend: MemoryBackend,
    record: Arc<Mutex<Vec<Act>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// Number of entries in one write.
    Append(usize),
    Committed,
    /// Bound on the purged records.
    Purge(usize),
    Sync,
}

impl LogBackend for Recorded {
    fn load(&mut self) -> Result<Loaded, LoadError> {
        self.backend.load()
    }

    fn append(&mut self, first: u64, records: &[Vec<u8>]) -> io::Result<()> {
        self.record.lock().push(Act::Append(records.len()));
        self.backend.append(first, records)
    }

    fn truncate_from(&mut self, index: u64) -> io::Result<()> {
        self.backend.truncate_from(index)
    }

    /// A purge takes three steps.
    fn purge_step(&mut self, upto: u64, max_keys: usize) -> io::Result<bool> {
        let mut record = self.record.lock();
        record.push(Act::Purge(max_keys));
        let steps = record.iter().filter(|act| matches!(act, Act::Purge(_))).count();
        self.backend.purge_step(upto, max_keys)?;
        Ok(steps % 3 == 0)
    }

    fn put_meta(&mut self, meta: Meta, record: &[u8]) -> io::Result<()> {
        if meta == Meta::Committed {
            self.record.lock().push(Act::Committed);
        }
        self.backend.put_meta(meta, record)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.record.lock().push(Act::Sync);
        self.backend.sync()
    }
}

/// Returns a separate worker to be driven step by step, and the operations of its backend.
fn recorded_worker() -> (Worker, Arc<Mutex<Vec<Act>>>) {
    let disk = MemoryDisk::new();
    let files = Files::Memory(disk.clone());
    watermark::create(&files).unwrap();
    let record = Arc::<Mutex<Vec<Act>>>::default();
    let backend = Recorded { backend: MemoryBackend(disk), record: record.clone() };
    let (watermark, loaded) = (WatermarkFile::open(&files).unwrap(), Loaded::default());
    let worker = Worker::new(
        Box::new(backend),
        watermark,
        &loaded,
        Gauges::of("test", "1"),
        Box::new(()),
        tokio::sync::oneshot::channel().0,
    );
    (worker, record)
}

fn op_append(entries: Vec<Entry>) -> (Op, OneshotReceiverOf<TypeConfig, io::Result<()>>) {
    let (done, answer) = TypeConfig::oneshot();
    (Op::Append(entries, IOFlushed::signal(done)), answer)
}

#[test]
fn queued_appends_are_one_write_and_one_sync() {
    let (mut worker, record) = recorded_worker();
    let mut answers = Vec::new();
    for index in 0..32 {
        let (op, answer) = op_append(vec![blank(1, 2 * index), blank(1, 2 * index + 1)]);
        worker.take(op);
        worker.take(Op::Committed(log_id(1, index)));
        answers.push(answer);
    }
    worker.commit();
    assert_eq!(*record.lock(), [Act::Append(64), Act::Committed, Act::Sync]);
    assert!(answers.into_iter().all(|answer| matches!(answer.now_or_never(), Some(Ok(Ok(()))))));
}

#[test]
fn a_vote_or_a_truncation_splits_queued_appends() {
    let (mut worker, record) = recorded_worker();
    let (first, _first) = op_append(vec![blank(1, 0), blank(1, 1)]);
    let (second, _second) = op_append(vec![blank(2, 1)]);
    worker.take(first);
    worker.take(Op::Truncate { from: 1, last: Some(log_id(1, 0)) });
    worker.take(second);
    worker.commit();
    assert_eq!(*record.lock(), [Act::Append(2), Act::Append(1), Act::Sync]);
}

#[test]
fn a_purge_delays_an_append_by_one_step_at_the_most() {
    let (mut worker, record) = recorded_worker();
    let (op, _answer) = op_append((0..1_000).map(|index| blank(1, index)).collect());
    worker.take(op);
    worker.commit();
    worker.take(Op::Purge(log_id(1, 900)));
    record.lock().clear();
    for index in 1_000..1_004 {
        let (op, answer) = op_append(vec![blank(1, index)]);
        worker.take(op);
        worker.commit();
        assert!(matches!(answer.now_or_never(), Some(Ok(Ok(())))), "acknowledged before the next step");
    }
    let step = Act::Purge(PURGE_KEYS);
    let (append, sync) = (Act::Append(1), Act::Sync);
    assert_eq!(*record.lock(), [append, sync, step, append, sync, step, append, sync, step, append, sync]);
}
