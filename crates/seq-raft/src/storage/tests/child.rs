//! The process that is killed, traced or made to fail: this test binary again, running one test of this module.
//!
//! It prints each acknowledgement to standard output, one line each, before it continues.

use std::env;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Child, Command as Process, Stdio};

use fastrand::Rng;

use super::*;

/// Environment variables of its directory, and of its task there.
const DIR: &str = "SEQ_RAFT_TEST_DIR";
const TASK: &str = "SEQ_RAFT_TEST_TASK";

/// Task of a child.
#[derive(Clone, Copy)]
pub(super) enum Task {
    /// Writes until it is killed.
    Write,
    /// Writes until its 40th sync fails.
    FailingSync,
    /// Appends and votes a few times, in turn.
    Trace,
    /// Applies an entry without a valid command.
    Undecodable,
    /// Removes committed entries.
    TruncateCommitted,
    /// Makes a snapshot while no file can be opened, and again when files can be opened.
    OpenFiles,
}

impl Task {
    const ALL: [(&str, Task); 6] = [
        ("write", Task::Write),
        ("failing-sync", Task::FailingSync),
        ("trace", Task::Trace),
        ("undecodable", Task::Undecodable),
        ("truncate-committed", Task::TruncateCommitted),
        ("open-files", Task::OpenFiles),
    ];

    fn name(self) -> &'static str {
        Task::ALL.iter().find(|(_, task)| *task as u8 == self as u8).expect("every task is listed").0
    }
}

/// Starts a child; `before` is a command that runs it, such as strace.
pub(super) fn start(task: Task, dir: &Path, before: &[&str]) -> Child {
    let exe = env::current_exe().unwrap();
    let mut words = before.iter().map(PathBuf::from).chain([exe]);
    let mut process = Process::new(words.next().unwrap());
    process.args(words).args([
        "--exact",
        "storage::tests::child::child",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ]);
    process.env(DIR, dir).env(TASK, task.name());
    process.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
#[ignore = "started by the tests that kill it"]
#[expect(clippy::disallowed_methods, reason = "its parent passes its task through the environment")]
fn child() {
    let (Ok(dir), Ok(name)) = (env::var(DIR), env::var(TASK)) else { return };
    let (_, task) = Task::ALL.into_iter().find(|(known, _)| *known == name).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    // The test harness has begun a line, which this ends.
    print("");
    runtime.block_on(run(task, Path::new(&dir)));
}

fn print(line: &str) {
    let mut out = io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

async fn run(task: Task, dir: &Path) {
    let syncs = if let Task::FailingSync = task { 40 } else { u32::MAX };
    let wrap = |file| Box::new(Failing { file, syncs }) as Box<dyn Syncer>;
    let opened = prepare(&at(dir), CLUSTER, 1).unwrap().open_with(unobserved(), wrap).unwrap();
    match task {
        Task::Write | Task::FailingSync => Writer::new(opened).await.run().await,
        Task::Trace => trace(opened).await,
        Task::TruncateCommitted => {
            let mut log = opened.log;
            append(&mut log, (0..5).map(|index| blank(1, index)).collect()).await;
            log.save_committed(Some(log_id(1, 3))).await.unwrap();
            log.truncate_after(Some(log_id(1, 3))).await.unwrap();
            print("@removed what is not committed");
            log.truncate_after(Some(log_id(1, 2))).await.unwrap();
            print("@removed what is committed");
        }
        Task::OpenFiles => open_files(opened).await,
        Task::Undecodable => {
            let payload = Payload::Normal(EncodedBatch::from_bytes(vec![1, 2, 3].into()));
            let mut machine = opened.machine;
            apply(&mut machine, vec![Entry { log_id: log_id(1, 0), payload }]).await;
        }
    }
}

async fn open_files(mut opened: Opened<Journal>) {
    append(&mut opened.log, vec![blank(1, 0)]).await;
    apply(&mut opened.machine, vec![blank(1, 0)]).await;
    let mut builder = opened.machine.get_snapshot_builder().await;
    let mut files = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        files.push(file);
    }
    let mut building = std::pin::pin!(builder.build_snapshot());
    let waited = tokio::time::timeout(std::time::Duration::from_millis(300), &mut building).await;
    assert!(waited.is_err(), "no file can be opened");
    print("@waits");
    drop(files);
    building.await.unwrap();
    print("@written");
}

async fn trace(mut opened: Opened<Journal>) {
    print("@ready");
    for round in 0..10 {
        opened.log.save_vote(&vote(round + 1)).await.unwrap();
        print("@acknowledged");
        append(&mut opened.log, vec![raise(round + 1, round, 3)]).await;
        print("@acknowledged");
    }
}

/// Fails after `syncs` syncs.
struct Failing {
    file: File,
    syncs: u32,
}

impl Syncer for Failing {
    fn sync(&mut self) -> io::Result<()> {
        match self.syncs.checked_sub(1) {
            Some(left) => self.syncs = left,
            None => return Err(io::Error::other("injected")),
        }
        self.file.sync_data()
    }
}

/// Executes every storage operation at random, and prints acknowledgements.
struct Writer {
    opened: Opened<Journal>,
    rng: Rng,
    term: u64,
    /// Index of the next entry.
    next: u64,
    /// Entries below are applied.
    applied: u64,
}

impl Writer {
    async fn new(mut opened: Opened<Journal>) -> Writer {
        let term = read_vote(&mut opened.log).await.map_or(1, |vote| vote.leader_id.term);
        let next = opened.log.get_log_state().await.unwrap().last_log_id.map_or(0, |id| id.index + 1);
        let applied = opened.state.last_applied().map_or(0, |index| index + 1);
        Writer { opened, rng: Rng::new(), term, next, applied }
    }

    async fn run(mut self) {
        loop {
            match self.rng.u8(..40) {
                0..4 => self.vote().await,
                4..6 if self.next > self.applied + 8 => self.truncate().await,
                6 => self.snapshot().await,
                _ => self.append().await,
            }
        }
    }

    async fn vote(&mut self) {
        self.term += 1;
        self.opened.log.save_vote(&vote(self.term)).await.unwrap();
        print(&format!("@vote {}", self.term));
    }

    async fn append(&mut self) {
        let first = self.next;
        self.next += self.rng.u64(1..8);
        let raises = if self.rng.u8(..20) == 0 { 4_000 } else { 10 };
        let entries = (first..self.next).map(|index| raise(self.term, index, raises)).collect();
        append(&mut self.opened.log, entries).await;
        print(&format!("@end {} {}", self.next - 1, self.term));
    }

    async fn truncate(&mut self) {
        let from = self.next - self.rng.u64(1..6);
        print(&format!("@cut {from}"));
        let last = entries(&mut self.opened.log).await.into_iter().rfind(|entry| entry.log_id.index < from);
        self.opened.log.truncate_after(last.map(|entry| entry.log_id)).await.unwrap();
        self.next = from;
    }

    async fn snapshot(&mut self) {
        let behind = self.opened.log.get_log_reader().await.try_get_log_entries(self.applied..).await.unwrap();
        let Some(last) = behind.last().map(|entry| entry.log_id) else { return };
        apply(&mut self.opened.machine, behind).await;
        self.applied = last.index + 1;
        let snapshot = self.opened.machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
        assert_eq!(snapshot.meta.last_log_id, Some(last));
        print(&format!("@snapshot {}", last.index));
        self.opened.log.purge(last).await.unwrap();
    }
}
