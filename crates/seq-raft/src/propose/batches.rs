//! Group commit of proposals. Commands that wait at the same time share a log entry.
//!
//! While fewer than [`ENTRIES_IN_FLIGHT`] entries are in flight, a command is proposed at once. Otherwise the command
//! waits until one of these entries is applied, and the next entry then carries all waiting commands, up to the maximum
//! number and length of a batch. A full batch is proposed without waiting, so the number of entries in flight does not
//! limit throughput.
//!
//! **Invariant:** commands are proposed in the order of their arrival, each in at most one entry. The caller of each
//! command receives the output of that command or the error of its entry.

use std::collections::VecDeque;
use std::future::Future;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use openraft::errors::{ClientWriteError, RaftError};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use crate::storage::Raft;
use crate::types::{EncodedBatch, EncodedCommand, MAX_BATCH_BYTES, MAX_BATCH_COMMANDS, Output, Outputs, TypeConfig};

/// Minimum number of entries in flight at which a batch that is not full waits. While the entries of one sync are
/// replicated and synced, the entries that are created meanwhile share the next sync. With fewer entries in flight,
/// some callers wait for a third sync; with more, batches are smaller and no caller waits less (docs/performance.md).
const ENTRIES_IN_FLIGHT: usize = 8;

/// Reason why a log entry was not applied.
pub(super) type WriteError = RaftError<TypeConfig, ClientWriteError<TypeConfig>>;

/// Command that waits until it becomes part of a log entry, and then for its output.
pub(super) struct Waiting {
    pub(super) command: EncodedCommand,
    /// Sender of the output to the caller. It is closed if the caller no longer waits.
    pub(super) respond: oneshot::Sender<Result<Output, WriteError>>,
    /// Permit that is held until the command's entry is applied or has timed out, so that the bound on proposals in
    /// flight includes proposals whose caller no longer waits.
    pub(super) _permit: OwnedSemaphorePermit,
}

/// Task that creates log entries of the proposed commands.
pub(crate) struct Batches {
    raft: Raft,
    arriving: mpsc::Receiver<Waiting>,
    /// Timeout of an entry. When an entry times out, the callers whose commands it carries have already timed out,
    /// because they began to wait earlier.
    timeout: Duration,
}

impl Batches {
    pub(super) fn new(raft: Raft, arriving: mpsc::Receiver<Waiting>, timeout: Duration) -> Batches {
        Batches { raft, arriving, timeout }
    }

    /// Creates and proposes entries until all [`Proposer`](super::Proposer)s are dropped.
    pub(crate) async fn run(self) {
        let Batches { raft, arriving, timeout } = self;
        let leads = || raft.is_leader();
        let write = |batch: EncodedBatch| {
            let raft = &raft;
            async move {
                let written = tokio::time::timeout(timeout, raft.client_write(batch)).await.ok()?;
                Some(written.map(|response| response.data))
            }
        };
        run(arriving, leads, write).await;
    }
}

/// Loop of [`Batches::run`]. It does not depend on the Raft library, so that tests can call it. `leads` returns whether
/// this member leads. `write` proposes an entry, and returns `None` if the entry timed out.
async fn run<W>(mut arriving: mpsc::Receiver<Waiting>, leads: impl Fn() -> bool, write: impl Fn(EncodedBatch) -> W)
where
    W: Future<Output = Option<Result<Outputs, WriteError>>>,
{
    let mut queue = Queue::default();
    let mut in_flight = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some(()) = in_flight.next() => {}
            first = arriving.recv() => {
                let Some(first) = first else { return };
                queue.push(first);
                // Callers that are ready to run enqueue their commands before the entry is created.
                tokio::task::yield_now().await;
            }
        }
        while let Ok(next) = arriving.try_recv() {
            queue.push(next);
        }
        // A member that does not lead refuses commands at once, and does not wait for its entries in flight.
        while queue.is_full() || (!queue.is_empty() && (in_flight.len() < ENTRIES_IN_FLIGHT || !leads())) {
            let batch = queue.next_batch();
            if !batch.is_empty() {
                let commands: Vec<EncodedCommand> = batch.iter().map(|waiting| waiting.command.clone()).collect();
                let written = write(EncodedBatch::of(&commands));
                in_flight.push(async move { respond(batch, written.await) });
            }
        }
    }
}

/// Sends each caller in `batch` the output of its own command, or the error of the entry.
fn respond(batch: Vec<Waiting>, written: Option<Result<Outputs, WriteError>>) {
    // The entry has timed out, so its callers have timed out too.
    let Some(written) = written else { return };
    match written {
        Ok(Outputs(outputs)) => {
            assert_eq!(outputs.len(), batch.len(), "each command of an entry has an output");
            for (waiting, output) in batch.into_iter().zip(outputs) {
                // The caller may have gone away.
                let _ = waiting.respond.send(Ok(output));
            }
        }
        Err(error) => {
            for waiting in batch {
                let _ = waiting.respond.send(Err(error.clone()));
            }
        }
    }
}

/// Commands that are not proposed yet, in order of arrival. Whenever the task waits, the queue holds less than a full
/// batch.
#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    bytes: usize,
}

impl Queue {
    fn push(&mut self, waiting: Waiting) {
        self.bytes += waiting.command.bytes().len();
        self.waiting.push_back(waiting);
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns whether the waiting commands fill a batch, so that the batch need not wait for more commands.
    fn is_full(&self) -> bool {
        self.waiting.len() >= MAX_BATCH_COMMANDS || self.bytes >= MAX_BATCH_BYTES
    }

    /// Removes the commands of one entry from the queue and returns them. Drops commands whose caller no longer waits,
    /// so the batch may be empty.
    fn next_batch(&mut self) -> Vec<Waiting> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(next) = self.waiting.pop_front() {
            let length = next.command.bytes().len();
            let fits = batch.len() < MAX_BATCH_COMMANDS && bytes + length <= MAX_BATCH_BYTES;
            if !next.respond.is_closed() {
                if !batch.is_empty() && !fits {
                    self.waiting.push_front(next);
                    break;
                }
                bytes += length;
                batch.push(next);
            }
            self.bytes -= length;
        }
        batch
    }
}

#[cfg(test)]
mod tests;
