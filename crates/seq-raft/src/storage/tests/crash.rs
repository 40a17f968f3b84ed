//! Crashes: all acknowledged data is present afterwards.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command as Process};
use std::sync::Arc;

use parking_lot::Mutex;

use super::child::{Task, start};
use super::*;

/// Signal of `abort`, which ends the process after a failed sync.
const SIGABRT: i32 = 6;

/// Acknowledgements that a child has printed.
#[derive(Clone, Copy, Debug, Default)]
struct Acknowledged {
    vote: u64,
    /// Index and term of the last entry.
    end: Option<(u64, u64)>,
    snapshot: Option<u64>,
}

impl Acknowledged {
    fn hear(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        match words[0] {
            "@vote" => self.vote = number(1),
            "@end" => self.end = Some((number(1), number(2))),
            "@snapshot" => self.snapshot = Some(number(1)),
            // From here on the end may be lost; the next append makes it certain again.
            "@cut" => self.end = None,
            _ => {}
        }
    }

    /// Opens the directory and compares its contents.
    async fn check(self, dir: &Path) {
        let mut opened = open(&at(dir)).unwrap_or_else(|error| panic!("{}", text(&error)));
        let term = read_vote(&mut opened.log).await.map_or(0, |vote| vote.leader_id.term);
        assert!(term >= self.vote, "vote {term}: {self:?}");
        let last = opened.log.get_log_state().await.unwrap().last_log_id;
        if let Some((index, term)) = self.end {
            assert!(last.is_some_and(|last| last.index >= index), "log ends at {last:?}: {self:?}");
            if let Some(entry) = entries(&mut opened.log).await.iter().find(|entry| entry.log_id.index == index) {
                assert_eq!(entry.log_id, log_id(term, index));
            }
        }
        assert!(opened.state.last_applied() >= self.snapshot, "{self:?}");
        close(opened).await;
    }
}

/// Reads `lines` lines, or up to the end of the output.
fn listen(child: &mut Child, lines: usize, acknowledged: &mut Acknowledged) -> usize {
    let mut received = 0;
    let mut reader = BufReader::new(child.stdout.as_mut().unwrap());
    let mut line = String::new();
    while received < lines && reader.read_line(&mut line).unwrap() > 0 {
        if let Some(line) = line.strip_suffix('\n').filter(|line| line.starts_with('@')) {
            acknowledged.hear(line);
            received += 1;
        }
        line.clear();
    }
    // Lines that the reader has buffered must not be lost.
    let ahead = String::from_utf8_lossy(reader.buffer()).into_owned();
    for line in ahead.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
        acknowledged.hear(line);
    }
    received
}

#[tokio::test]
async fn ten_kills_lose_nothing_that_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged = Acknowledged::default();
    for _ in 0..10 {
        let mut child = start(Task::Write, dir.path(), &[]);
        let received = listen(&mut child, fastrand::usize(1..150), &mut acknowledged);
        child.kill().unwrap();
        let mut rest = String::new();
        child.stdout.as_mut().unwrap().read_to_string(&mut rest).unwrap();
        for line in rest.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            acknowledged.hear(line);
        }
        let mut complaint = String::new();
        child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
        child.wait().unwrap();
        assert!(received > 0, "the child printed nothing: {complaint}");
        acknowledged.check(dir.path()).await;
    }
}

#[tokio::test]
async fn a_failed_sync_stops_the_process_and_loses_nothing_that_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged = Acknowledged::default();
    let mut child = start(Task::FailingSync, dir.path(), &[]);
    listen(&mut child, usize::MAX, &mut acknowledged);
    let mut complaint = String::new();
    child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(SIGABRT), "{complaint}");
    assert!(complaint.contains("storage failed while syncing the log: injected; the process stops"), "{complaint}");
    assert!(acknowledged.end.is_some() || acknowledged.vote > 0, "{acknowledged:?}");
    acknowledged.check(dir.path()).await;
}

#[test]
fn an_entry_that_is_no_command_stops_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let output = start(Task::Undecodable, dir.path(), &[]).wait_with_output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(SIGABRT), "{complaint}");
    let expected = "storage failed while applying log entry T1-N1.0: command record of 3 bytes: truncated";
    assert!(complaint.contains(expected), "{complaint}");
}

/// Checks the real system calls: each acknowledgement follows an `fdatasync` of the database's file that began after
/// the last write to it.
#[test]
#[expect(clippy::disallowed_methods, reason = "the gate may not skip what a bare machine cannot run")]
fn the_system_calls_show_a_sync_before_each_answer() {
    if Process::new("strace").arg("-V").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "the gate installs strace");
        eprintln!("strace is not installed: not checked");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (data, trace) = (dir.path().join("data"), dir.path().join("trace"));
    let calls = "trace=write,pwrite64,fdatasync,fsync,sync_file_range";
    let strace = ["strace", "-f", "-y", "-e", calls, "-o", trace.to_str().unwrap()];
    let output = start(Task::Trace, &data, &strace).wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let trace = fs::read_to_string(trace).unwrap();
    let trace = trace.split_once("@ready").expect("the child starts").1;
    let (mut written, mut syncing, mut synced, mut acknowledged) = (false, None, false, 0);
    for line in trace.lines() {
        let thread = line.split(' ').next();
        let ends_well = line.ends_with("= 0");
        if line.contains("pwrite64(") && line.contains("/log/db>") {
            (written, synced, syncing) = (true, false, None);
        } else if line.contains("fdatasync(") && line.contains("/log/db>") {
            syncing = thread;
            synced = ends_well;
        } else if line.contains("fdatasync resumed") && syncing == thread {
            synced = ends_well;
        } else if line.contains("@acknowledged") {
            assert!(written && synced, "acknowledgement {acknowledged} came before the sync, at {line}");
            (written, synced) = (false, false);
            acknowledged += 1;
        }
    }
    assert_eq!(acknowledged, 20);
}

/// Keeps the database's file as of the last sync, the worst remains of a power cut.
struct Capture {
    file: File,
    db: PathBuf,
    image: Arc<Mutex<Vec<u8>>>,
    /// Number of real syncs; later syncs only report success.
    honest: u32,
}

impl Syncer for Capture {
    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        if let Some(left) = self.honest.checked_sub(1) {
            self.honest = left;
            *self.image.lock() = fs::read(&self.db)?;
        }
        Ok(())
    }
}

/// Writes, cuts the power at intervals, and returns the result of opening after each cut.
async fn cut_power(honest: u32) -> Vec<Result<(), String>> {
    let dir = tempfile::tempdir().unwrap();
    let image = Arc::new(Mutex::new(Vec::new()));
    let db = dir.path().join("log/db");
    let wrap = |file| Box::new(Capture { file, db, image: image.clone(), honest }) as Box<dyn Syncer>;
    let mut opened = prepare(&at(dir.path()), CLUSTER, 1).unwrap().open_with(unobserved(), wrap).unwrap();
    let mut verdicts = Vec::new();
    for index in 0..150 {
        let raises = if index % 7 == 0 { 3_000 } else { 20 };
        append(&mut opened.log, vec![raise(1, index, raises)]).await;
        if index % 5 == 4 {
            let cut = tempfile::tempdir().unwrap();
            fs::create_dir_all(cut.path().join("log/blobs")).unwrap();
            // The small files were synced when they were created; the watermark is written after each sync.
            for name in ["identity", "acknowledged", "log/conf"] {
                fs::copy(dir.path().join(name), cut.path().join(name)).unwrap();
            }
            fs::write(cut.path().join("log/db"), &*image.lock()).unwrap();
            verdicts.push(match open(&at(cut.path())) {
                Ok(mut after) => {
                    assert_eq!(entries(&mut after.log).await, entries(&mut opened.log).await, "cut after {index}");
                    close(after).await;
                    Ok(())
                }
                Err(error) => Err(text(&error)),
            });
        }
    }
    close(opened).await;
    verdicts
}

#[tokio::test]
async fn thirty_power_cuts_lose_nothing_that_was_acknowledged() {
    for verdict in cut_power(u32::MAX).await {
        verdict.unwrap();
    }
}

/// The same test without the `fdatasync`: data is lost, and the loss is detected.
#[tokio::test]
async fn a_disk_that_lies_about_syncs_is_found_out() {
    for verdict in cut_power(3).await {
        let error = verdict.unwrap_err();
        assert!(error.contains("data that was acknowledged is lost: log entries up to"), "{error}");
    }
}

#[test]
fn removing_what_is_committed_stops_the_process_and_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let output = child::start(Task::TruncateCommitted, dir.path(), &[]).wait_with_output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.signal(), Some(6), "{out} {err}");
    assert!(out.contains("@removed what is not committed") && !out.contains("@removed what is committed"), "{out}");
    assert!(err.contains("entries up to T1-N1.3 are committed here: acknowledged data was lost elsewhere"), "{err}");
    // All entries before are present.
    let opened = open(&at(dir.path())).unwrap();
    // It is not known whether the first removal was durable by then.
    assert!(opened.log.reader().position().last >= Some(log_id(1, 3)));
}

#[test]
fn a_snapshot_waits_for_open_files_and_does_not_stop_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let few = ["sh", "-c", "ulimit -n 64; exec \"$@\"", "sh"];
    let output = child::start(Task::OpenFiles, dir.path(), &few).wait_with_output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out} {err}");
    assert!(out.contains("@waits") && out.contains("@written"), "{out} {err}");
    let opened = open(&at(dir.path())).unwrap();
    assert_eq!(opened.state.last_applied(), Some(0));
}
