//! When an answer is given: after the sync, and many of them after one.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use futures::FutureExt;

use super::*;

/// Long enough for the slowest machine; a wait that is over earlier ends earlier.
const PATIENCE: Duration = Duration::from_secs(60);

/// Stops before each sync until the test lets it go on.
struct Gate {
    file: File,
    arrived: Sender<()>,
    go: Receiver<()>,
}

impl Syncer for Gate {
    fn sync(&mut self) -> io::Result<()> {
        // A test that does not look any more has closed its ends.
        let _ = self.arrived.send(());
        let _ = self.go.recv();
        self.file.sync_data()
    }
}

fn open_gated(dir: &Path) -> (Opened, Receiver<()>, Sender<()>) {
    let (arrived, arrivals) = channel();
    let (let_go, go) = channel();
    let gate = |file| Box::new(Gate { file, arrived, go }) as Box<dyn Syncer>;
    let opened = prepare(&at(dir), CLUSTER, 1).unwrap().open_with(gate).unwrap();
    (opened, arrivals, let_go)
}

#[tokio::test]
async fn an_append_is_answered_after_its_sync() {
    let dir = tempfile::tempdir().unwrap();
    let (mut opened, arrivals, let_go) = open_gated(dir.path());
    let mut answer = Box::pin(start_append(&mut opened.log, vec![blank(1, 0)]).await);
    arrivals.recv_timeout(PATIENCE).unwrap();
    // Readable already, but not acknowledged.
    assert_eq!(entries(&mut opened.log).await.len(), 1);
    assert!(answer.as_mut().now_or_never().is_none());
    let_go.send(()).unwrap();
    answer.await.unwrap().unwrap();
    drop(let_go);
    close(opened).await;
}

#[tokio::test]
async fn a_sync_that_hangs_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let (mut opened, arrivals, let_go) = open_gated(dir.path());
    assert_eq!(opened.stall.lasts(), Duration::ZERO);
    let answer = start_append(&mut opened.log, vec![blank(1, 0)]).await;
    arrivals.recv_timeout(PATIENCE).unwrap();
    let before = opened.stall.lasts();
    assert!(before > Duration::ZERO);
    while opened.stall.lasts() == before {
        tokio::task::yield_now().await;
    }
    let_go.send(()).unwrap();
    answer.await.unwrap().unwrap();
    // The thread says so itself, right after it has answered.
    while opened.stall.lasts() > Duration::ZERO {
        tokio::task::yield_now().await;
    }
    drop(let_go);
    close(opened).await;
}

#[tokio::test]
async fn a_vote_is_answered_after_its_sync_and_never_before_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let (mut opened, arrivals, let_go) = open_gated(dir.path());
    let mut first = Box::pin(start_append(&mut opened.log, vec![blank(1, 0)]).await);
    arrivals.recv_timeout(PATIENCE).unwrap();
    let term = vote(2);
    {
        let mut voting = Box::pin(opened.log.save_vote(&term));
        assert!(voting.as_mut().now_or_never().is_none());
        assert!(first.as_mut().now_or_never().is_none());
        let_go.send(()).unwrap();
        first.await.unwrap().unwrap();
        // The vote came after the first sync had begun, so it needs one of its own.
        arrivals.recv_timeout(PATIENCE).unwrap();
        assert!(voting.as_mut().now_or_never().is_none());
        let_go.send(()).unwrap();
        voting.await.unwrap();
    }
    drop(let_go);
    close(opened).await;
}

#[tokio::test]
async fn what_gathers_during_a_sync_shares_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let (mut opened, arrivals, let_go) = open_gated(dir.path());
    let mut answers = vec![start_append(&mut opened.log, vec![blank(1, 0)]).await];
    arrivals.recv_timeout(PATIENCE).unwrap();
    for index in 1..200 {
        answers.push(start_append(&mut opened.log, vec![blank(1, index)]).await);
    }
    drop(let_go);
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
    let (mut opened, arrivals, let_go) = open_gated(dir.path());
    let mut answers = Vec::new();
    for index in 0..40 {
        answers.push(start_append(&mut opened.log, vec![raise(1, index, 4_096)]).await);
    }
    arrivals.recv_timeout(PATIENCE).unwrap();
    drop(let_go);
    for answer in answers {
        answer.await.unwrap().unwrap();
    }
    let (_, syncs) = opened.log.appends_and_syncs();
    assert!(syncs >= 10, "{syncs} syncs for 3 MiB");
    close(opened).await;
}
