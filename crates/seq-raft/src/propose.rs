//! Proposals of commands. Only a proposal adds a command to the log. The command is appended, committed and applied,
//! and the proposer then receives its output.
//!
//! Many proposals are in flight at once, and proposals that wait at the same time share a log entry ([`Batches`]). The
//! number of proposals in flight is bounded, and so is the waiting time of each proposal. A command whose proposal
//! timed out may still be committed, but only once. Its proposer may propose it again, because every command may be
//! applied repeatedly.

mod batches;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use metrics::Histogram;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::{ClientWriteError, ForwardToLeader, RaftError};
use seq_api::metrics::RAFT_COMMIT_SECONDS;
use seq_proto::reason::{Reason, Retry, key};
use seq_proto::status;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

pub(crate) use self::batches::Batches;
use self::batches::Waiting;
use crate::encoding::CommandTooLarge;
use crate::storage::Raft;
use crate::types::{EncodedCommand, Member, Output, TypeConfig};

/// Maximum number of proposals in flight, including proposals whose caller no longer waits. If each command has 128
/// KiB, this number of commands takes 512 MiB. If each command has the raises of one call of an AllocSvr, they take a
/// thousandth of that.
const MAX_IN_FLIGHT: usize = 4_096;

/// Sender of proposals. All clones together may have [`MAX_IN_FLIGHT`] proposals in flight.
#[derive(Clone)]
pub(crate) struct Proposer {
    raft: Raft,
    /// Histogram of the time from the proposal of a command to its output. The histogram is looked up once, because a
    /// lookup hashes the metric's name and labels, which is slow compared with a proposal.
    commits: Histogram,
    /// Addresses of the members' ports for peers, from the set file. They may be newer than the addresses in the
    /// replicated list of members.
    addrs: Arc<BTreeMap<u64, String>>,
    permits: Arc<Semaphore>,
    /// Queue of commands for the task that creates log entries. It has room for as many commands as there are permits.
    queue: mpsc::Sender<Waiting>,
    timeout: Duration,
    stopping: CancellationToken,
    /// Raft id of the member that all proposals name as the leader when they fail, as long as this member cannot lead;
    /// `None` otherwise.
    redirected: Arc<watch::Sender<Option<u64>>>,
}

impl Proposer {
    /// Creates the proposer, and the task that creates log entries of the proposed commands.
    pub(crate) fn new(
        raft: Raft,
        set: &str,
        addrs: BTreeMap<u64, String>,
        timeout: Duration,
        stopping: CancellationToken,
    ) -> (Proposer, Batches) {
        let commits = metrics::histogram!(RAFT_COMMIT_SECONDS, "set" => set.to_owned());
        let permits = Arc::new(Semaphore::new(MAX_IN_FLIGHT));
        let redirected = Arc::new(watch::Sender::new(None));
        let (queue, waiting) = mpsc::channel(MAX_IN_FLIGHT);
        let batches = Batches::new(raft.clone(), waiting, timeout);
        let addrs = Arc::new(addrs);
        (Proposer { raft, commits, addrs, permits, queue, timeout, stopping, redirected }, batches)
    }

    /// Makes all proposals fail, including waiting proposals, with an error that names the member `to` as the leader. A
    /// call with `None` ends this. The Raft library itself cannot redirect proposals while it waits for the disk.
    pub(crate) fn redirect(&self, to: Option<u64>) {
        self.redirected.send_replace(to);
    }

    /// Proposes the command that `written` encodes in the group's format. If the group's format is raised before the
    /// command is applied, encodes and proposes the command again. If the future is dropped, the command may still be
    /// committed.
    pub(crate) async fn propose_anew(
        &self,
        written: impl Fn() -> Result<EncodedCommand, CommandTooLarge>,
    ) -> Result<Output, ProposeError> {
        loop {
            let output = self.propose(written()?).await?;
            // This member has applied the raise, so each raise overtakes the command at most once.
            if !output.is_overtaken() {
                return Ok(output);
            }
        }
    }

    /// Proposes an encoded command and waits until this member has applied it. If the future is dropped, the command
    /// may still be committed.
    pub(crate) async fn propose(&self, command: EncodedCommand) -> Result<Output, ProposeError> {
        let mut redirected = self.redirected.subscribe();
        let leader = *redirected.borrow();
        if let Some(leader) = leader {
            // The proposal could not proceed and would hold a permit until the disk has recovered.
            return Err(self.leader_changed(leader));
        }
        let permit = self.permits.clone().try_acquire_owned().map_err(|_| ProposeError::Busy)?;
        let proposed = Instant::now();
        let (respond, response) = oneshot::channel();
        // The queue has room for each permit, and its task ends only when the member stops.
        self.queue.try_send(Waiting { command, respond, _permit: permit }).map_err(|_| ProposeError::Stopping)?;
        let written = tokio::select! {
            () = self.stopping.cancelled() => return Err(ProposeError::Stopping),
            () = tokio::time::sleep(self.timeout) => return Err(ProposeError::TimedOut { after: self.timeout }),
            leader = redirected.wait_for(Option::is_some) => {
                let leader = leader.ok().and_then(|leader| *leader);
                return Err(leader.map_or(ProposeError::Stopping, |leader| self.leader_changed(leader)));
            }
            written = response => match written {
                Ok(written) => written,
                Err(_) if self.stopping.is_cancelled() => return Err(ProposeError::Stopping),
                // The entry has timed out.
                Err(_) => return Err(ProposeError::TimedOut { after: self.timeout }),
            },
        };
        let output = written.map_err(|error| self.read_error(error))?;
        self.commits.record(proposed.elapsed());
        Ok(output)
    }

    /// Returns the error with which a proposal fails while proposals are redirected to the member `leader`.
    fn leader_changed(&self, leader: u64) -> ProposeError {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        let member = metrics.membership_config.membership().get_node(&leader);
        ProposeError::LeaderChanged { leader: self.addr(leader, member) }
    }

    /// Converts an error with which the Raft library failed to write an entry. The result contains the leader's address
    /// if this member knows it.
    pub(crate) fn read_error(&self, error: RaftError<TypeConfig, ClientWriteError<TypeConfig>>) -> ProposeError {
        match error {
            RaftError::APIError(ClientWriteError::ForwardToLeader(forward)) => {
                ProposeError::NotLeader { leader: self.leader(&forward) }
            }
            RaftError::APIError(ClientWriteError::LogEntryDiscarded(forward)) => {
                ProposeError::LeaderChanged { leader: self.leader(&forward) }
            }
            RaftError::APIError(other) => ProposeError::Raft { what: other.to_string() },
            RaftError::Fatal(fatal) => ProposeError::Raft { what: fatal.to_string() },
        }
    }

    fn leader(&self, forward: &ForwardToLeader<TypeConfig>) -> Option<String> {
        self.addr(forward.leader_id?, forward.leader_node.as_ref())
    }

    /// Returns the error with which a follower refuses a proposal. The error contains the leader's address if this
    /// member knows it.
    pub(crate) fn not_leader(&self) -> ProposeError {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        let leader = metrics.current_leader.filter(|leader| *leader != metrics.id);
        let member = leader.and_then(|id| metrics.membership_config.membership().get_node(&id));
        ProposeError::NotLeader { leader: leader.and_then(|id| self.addr(id, member)) }
    }

    /// Returns the address of the member `id`. The address in the set file takes precedence over the address in
    /// `member`.
    pub(crate) fn addr(&self, id: u64, member: Option<&Member>) -> Option<String> {
        self.addrs.get(&id).cloned().or_else(|| member.map(|member| member.addr.clone()))
    }
}

/// Reason why a proposal returned no output.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// This member does not lead; nothing was proposed.
    #[error("this member of the store does not lead")]
    NotLeader {
        /// Address of the leader, if it is known.
        leader: Option<String>,
    },
    /// This member lost leadership while the proposal waited, so the command may still be applied.
    #[error("this member of the store no longer leads; the command may still be applied, and can be repeated")]
    LeaderChanged {
        /// Address of the leader, if it is known.
        leader: Option<String>,
    },
    /// The command was not committed and applied within the timeout, and may still be applied.
    #[error("not committed within {after:?}; the command may still be applied, and can be repeated")]
    TimedOut {
        /// The timeout.
        after: Duration,
    },
    /// Too many proposals are in flight; nothing was proposed.
    #[error("{MAX_IN_FLIGHT} proposals wait already")]
    Busy,
    /// This member is stopping. The command may still be applied.
    #[error("this member of the store is stopping; the command may still be applied, and can be repeated")]
    Stopping,
    /// The command does not fit into an entry; nothing was proposed.
    #[error(transparent)]
    TooLarge(#[from] CommandTooLarge),
    /// The Raft library has stopped or refuses the proposal.
    #[error("this member of the store takes no proposals: {what}")]
    Raft {
        /// Error text of the Raft library.
        what: String,
    },
}

impl From<ProposeError> for Status {
    fn from(error: ProposeError) -> Status {
        let text = error.to_string();
        match error {
            ProposeError::NotLeader { leader } | ProposeError::LeaderChanged { leader } => {
                Reason::NotLeader.status_with(text, [(key::LEADER, leader.unwrap_or_default())])
            }
            ProposeError::TimedOut { .. } => Reason::CommitTimedOut.status(text),
            ProposeError::Busy => Reason::TooManyProposals.status(text),
            // Another member leads after about one election.
            ProposeError::Stopping => {
                status::with_reason(Code::Unavailable, Reason::ShuttingDown, text, [], Retry::Leader.after())
            }
            ProposeError::TooLarge(_) => Reason::CommandTooLarge.status(text),
            ProposeError::Raft { .. } => Reason::RaftStopped.status(text),
        }
    }
}
