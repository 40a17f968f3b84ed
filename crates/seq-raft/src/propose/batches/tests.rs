//! The task with a log that the test acknowledges.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use openraft::errors::ForwardToLeader;
use tokio::sync::Semaphore;

use super::*;

/// Bound on the commands that a test leaves waiting.
const PERMITS: usize = 1_000;

type Written = Option<Result<Outputs, WriteError>>;
type Response = oneshot::Receiver<Result<Output, WriteError>>;

/// A proposed entry, in bytes, and its acknowledgement.
struct Proposed {
    entry: Bytes,
    acknowledge: oneshot::Sender<Written>,
}

/// Callers and log of one task.
struct Test {
    queue: mpsc::Sender<Waiting>,
    proposed: mpsc::Receiver<Proposed>,
    permits: Arc<Semaphore>,
    leads: Rc<Cell<bool>>,
}

impl Test {
    /// Runs a test concurrently with the task.
    async fn run(test: impl AsyncFnOnce(&mut Test)) {
        let (queue, arriving) = mpsc::channel(PERMITS);
        let (proposing, proposed) = mpsc::channel(PERMITS);
        let leads = Rc::new(Cell::new(true));
        let own = leads.clone();
        let write = |batch: EncodedBatch| {
            let (acknowledge, written) = oneshot::channel();
            // The test may have ended.
            let _ = proposing.try_send(Proposed { entry: batch.bytes().clone(), acknowledge });
            async move { written.await.ok().flatten() }
        };
        let mut context = Test { queue, proposed, permits: Arc::new(Semaphore::new(PERMITS)), leads };
        tokio::select! {
            biased;
            () = run(arriving, move || own.get(), write) => unreachable!("the test holds the queue"),
            () = test(&mut context) => {}
        }
    }

    /// Proposes a command of these bytes.
    fn propose(&self, command: impl Into<Vec<u8>>) -> Response {
        let (respond, response) = oneshot::channel();
        let command = EncodedCommand::from_bytes(Bytes::from(command.into()));
        let permit = self.permits.clone().try_acquire_owned().unwrap();
        self.queue.try_send(Waiting { command, respond, _permit: permit }).unwrap_or_else(|_| panic!("the task runs"));
        response
    }

    /// Receives the next entry.
    async fn entry(&mut self) -> Proposed {
        self.proposed.recv().await.unwrap()
    }

    /// Checks that no entry is proposed, although the task has run.
    async fn no_entry(&mut self) {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert!(self.proposed.try_recv().is_err(), "commands wait");
    }

    /// Proposes entries that keep later commands waiting.
    async fn busy(&mut self) -> Vec<(Response, Proposed)> {
        let mut entries = Vec::new();
        for _ in 0..ENTRIES_IN_FLIGHT {
            let response = self.propose("x");
            entries.push((response, self.entry().await));
        }
        entries
    }
}

impl Proposed {
    /// Applies the entry; the output of each command is its position.
    fn apply(self, commands: usize) {
        let outputs = (0..commands).map(Output::of).collect();
        self.acknowledge.send(Some(Ok(Outputs(outputs)))).unwrap();
    }
}

async fn output(response: Response) -> usize {
    response.await.unwrap().unwrap().downcast()
}

#[tokio::test]
async fn a_command_alone_is_proposed_at_once() {
    Test::run(async |test| {
        for command in [&b"one"[..], b"two"] {
            let response = test.propose(command);
            let proposed = test.entry().await;
            assert_eq!(proposed.entry, command);
            proposed.apply(1);
            assert_eq!(output(response).await, 0);
        }
    })
    .await;
}

#[tokio::test]
async fn commands_that_wait_share_the_next_entry_in_order_with_an_output_each() {
    Test::run(async |test| {
        let mut busy = test.busy().await;
        let (a, b, c) = (test.propose("a"), test.propose("b"), test.propose("c"));
        test.no_entry().await;
        busy.pop().unwrap().1.apply(1);
        let proposed = test.entry().await;
        assert_eq!(proposed.entry, "abc");
        proposed.apply(3);
        assert_eq!((output(a).await, output(b).await, output(c).await), (0, 1, 2));
    })
    .await;
}

#[tokio::test]
async fn a_full_batch_does_not_wait_and_holds_the_bounds() {
    Test::run(async |test| {
        let _busy = test.busy().await;
        let _many: Vec<_> = (0..MAX_BATCH_COMMANDS + 1).map(|_| test.propose("y")).collect();
        assert_eq!(test.entry().await.entry, "y".repeat(MAX_BATCH_COMMANDS));
        test.no_entry().await;
        // The command left over, and as many further commands as fit.
        let half = "z".repeat(MAX_BATCH_BYTES / 2);
        let _large = [test.propose(half.clone()), test.propose(half.clone())];
        assert_eq!(test.entry().await.entry.len(), 1 + half.len());
        test.no_entry().await;
        let _huge = [test.propose("a"), test.propose("b".repeat(2 * MAX_BATCH_BYTES))];
        assert_eq!(test.entry().await.entry, half + "a");
        assert_eq!(test.entry().await.entry.len(), 2 * MAX_BATCH_BYTES);
        test.no_entry().await;
    })
    .await;
}

#[tokio::test]
async fn the_error_of_an_entry_is_that_of_each_of_its_commands() {
    Test::run(async |test| {
        let mut busy = test.busy().await;
        let waiting = [test.propose("a"), test.propose("b")];
        busy.pop().unwrap().1.apply(1);
        let lost = RaftError::APIError(ClientWriteError::LogEntryDiscarded(ForwardToLeader::empty()));
        test.entry().await.acknowledge.send(Some(Err(lost.clone()))).unwrap();
        for response in waiting {
            assert_eq!(response.await.unwrap().unwrap_err(), lost);
        }
        // An entry without a timely acknowledgement.
        let response = test.propose("c");
        test.entry().await.acknowledge.send(None).unwrap();
        assert!(response.await.is_err());
    })
    .await;
}

#[tokio::test]
async fn a_command_whose_caller_went_away_is_proposed_once_at_most() {
    Test::run(async |test| {
        let mut busy = test.busy().await;
        let (a, b, c) = (test.propose("a"), test.propose("b"), test.propose("c"));
        drop(b);
        busy.pop().unwrap().1.apply(1);
        let proposed = test.entry().await;
        assert_eq!(proposed.entry, "ac");
        // Command a is in flight already: it is applied, and its neighbour has its own output.
        drop(a);
        proposed.apply(2);
        assert_eq!(output(c).await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_member_that_does_not_lead_lets_no_command_wait() {
    Test::run(async |test| {
        let _busy = test.busy().await;
        let _waiting = test.propose("a");
        test.no_entry().await;
        test.leads.set(false);
        let _refused = test.propose("b");
        assert_eq!(test.entry().await.entry, "ab");
    })
    .await;
}

#[tokio::test]
async fn a_command_counts_as_waiting_until_its_entry_is_applied() {
    Test::run(async |test| {
        let response = test.propose("a");
        let proposed = test.entry().await;
        drop(response);
        assert_eq!(test.permits.available_permits(), PERMITS - 1);
        proposed.apply(1);
        test.no_entry().await;
        assert_eq!(test.permits.available_permits(), PERMITS);
    })
    .await;
}
