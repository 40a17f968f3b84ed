//! Handle on a running member. Through the handle, the member's services propose commands and read the applied state
//! and the state of the group.

use std::fmt;

use openraft::async_runtime::WatchReceiver;
use openraft::metrics::RaftMetrics;
use openraft::type_config::alias::WatchReceiverOf;
use seq_proto::dial::{Dial, ExpectedServer};
use tonic::Status;
use tonic::transport::Channel;

use crate::encoding;
use crate::leadership::quorum::{Quorum, QuorumStatus};
use crate::leadership::transfer;
use crate::membership::Refusal;
use crate::membership::changes::MemberChanges;
use crate::membership::format::{FormatRaise, REQUIRES_NO_PLAN};
use crate::membership::preconditions::ChangeGuard;
use crate::own_clock::OwnClock;
use crate::propose::{ProposeError, Proposer};
use crate::state_machine::StateMachine;
use crate::status::{LastDiskSpace, RaftStatus};
use crate::storage::{AppliedState, Raft};
use crate::transport::link::{self, LinkTimeouts};
use crate::types::TypeConfig;

/// Handle on a member of the group. Clones refer to the same member.
pub struct RaftHandle<M: StateMachine> {
    pub(crate) raft: Raft,
    pub(crate) state: AppliedState<M>,
    pub(crate) proposer: Proposer,
    pub(crate) quorum: Quorum,
    pub(crate) changes: MemberChanges,
    pub(crate) dial: Dial,
    pub(crate) timeouts: LinkTimeouts,
    pub(crate) disk: LastDiskSpace,
    pub(crate) clock: OwnClock,
}

impl<M: StateMachine> RaftHandle<M> {
    /// Proposes a command and waits until this member has applied it. Cancel safe, but the command may still be
    /// committed if the future is dropped.
    ///
    /// # Errors
    /// [`ProposeError`]. For some of its variants it is unknown whether the command will be applied.
    pub async fn propose(&self, command: &M::Command) -> Result<M::Output, ProposeError> {
        let written = || encoding::write_command::<M>(self.state.format(), command);
        Ok(self.proposer.propose_anew(written).await?.downcast())
    }

    /// Returns the applied state.
    #[must_use]
    pub fn state(&self) -> &AppliedState<M> {
        &self.state
    }

    /// Returns the Raft id of this member.
    #[must_use]
    pub fn id(&self) -> u64 {
        *self.raft.node_id()
    }

    /// Returns the Raft id of the leader, if this member knows it.
    #[must_use]
    pub fn leader(&self) -> Option<u64> {
        self.raft.metrics().borrow_watched().current_leader
    }

    /// Returns whether this member leads.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.raft.is_leader()
    }

    /// Returns the term that this member leads, to its knowledge.
    #[must_use]
    pub fn leads(&self) -> Option<u64> {
        self.quorum.leads()
    }

    /// Returns whether this member sees a majority.
    #[must_use]
    pub fn quorum(&self) -> QuorumStatus {
        self.quorum.status()
    }

    /// Refuses a request that needs a committed entry, if this leader has no majority or if no leader is known.
    ///
    /// # Errors
    /// `NO_MAJORITY` or `NO_LEADER`.
    pub fn check_quorum(&self) -> Result<(), Status> {
        Refusal::check_quorum(&self.quorum.status()).map_err(Status::from)
    }

    /// Returns the error with which a follower refuses a proposal. The error names the leader if the leader is known.
    #[must_use]
    pub fn not_leader(&self) -> ProposeError {
        self.proposer.not_leader()
    }

    /// Returns the Raft id and the address of the leader, if this member knows that another member leads.
    #[must_use]
    pub fn other_leader(&self) -> Option<(u64, String)> {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        let leader = metrics.current_leader.filter(|leader| *leader != metrics.id)?;
        let member = metrics.membership_config.membership().get_node(&leader);
        Some((leader, self.proposer.addr(leader, member)?))
    }

    /// Returns the addresses of all members, this member first.
    #[must_use]
    pub fn member_addrs(&self) -> Vec<String> {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        let addr = |(id, member)| self.proposer.addr(id, Some(member));
        let nodes = || metrics.membership_config.membership().nodes().map(|(id, member)| (*id, member));
        let mine = nodes().filter(|(id, _)| *id == metrics.id);
        mine.chain(nodes().filter(|(id, _)| *id != metrics.id)).filter_map(addr).collect()
    }

    /// Creates a lazy connection to another member, with the timeouts of the Raft transport.
    ///
    /// # Errors
    /// When the address is invalid.
    pub fn connect(&self, addr: &str) -> Result<Channel, tonic::transport::Error> {
        link::connect(&self.dial, addr, self.timeouts)
    }

    /// Creates a lazy connection, as [`RaftHandle::connect`] does, to a server outside this group.
    ///
    /// # Errors
    /// When the address is invalid.
    pub fn connect_expecting(&self, addr: &str, expected: ExpectedServer) -> Result<Channel, tonic::transport::Error> {
        link::connect(&self.dial.expecting(expected), addr, self.timeouts)
    }

    /// Transfers leadership to the other voter with the longest log, and returns that voter's Raft id. Returns the id
    /// even if this member does not see in time that the voter leads.
    ///
    /// # Errors
    /// [`NotTransferred`] if this member does not lead, no other voter has caught up, or a membership change is in
    /// progress.
    pub async fn transfer_leadership(&self) -> Result<u64, NotTransferred> {
        self.changes.transfer_to_any().await.map_err(|error| NotTransferred { why: error.to_string() })
    }

    /// Raises the group's format to the newest format of this member's program after every member has reported that it
    /// reads that format. Waits for a missing report until its member counts as silent.
    ///
    /// # Errors
    /// [`NotRaised`] if this member does not lead, or a member is silent or reads only older formats.
    pub async fn raise_format(&self) -> Result<FormatRaise, NotRaised> {
        let raised = self.changes.raise_format(REQUIRES_NO_PLAN).await;
        raised.map(|(raise, _)| raise).map_err(|error| NotRaised { why: error.to_string() })
    }

    /// Begins a change by an operator. While the caller holds the guard, it compares the preconditions of the change's
    /// plan with the state and makes the change, and no other change is compared or made. When this function returns,
    /// this member has applied all earlier proposals.
    ///
    /// # Errors
    /// `CHANGE_IN_PROGRESS`, or the reason why this member cannot propose.
    pub async fn begin_change(&self) -> Result<ChangeGuard<'_>, Status> {
        self.changes.exclusive().await.map_err(Status::from)
    }

    /// Waits until this member has applied every entry that was committed before the call. A change that the state does
    /// not show afterwards was not committed before the call.
    ///
    /// # Errors
    /// [`ProposeError`]. The call changes no state, even if it fails.
    pub async fn catch_up(&self) -> Result<(), ProposeError> {
        self.changes.catch_up().await
    }

    /// Returns the status for operators and probes.
    #[must_use]
    pub fn status(&self) -> RaftStatus {
        let mut status = RaftStatus::new(&self.raft, &self.quorum, self.state.replica().digests(), *self.disk.lock());
        for member in &mut status.members {
            // If a member has moved, this member's set file has its current address, and messages go to that address.
            member.addr = self.proposer.addr(member.id, None).unwrap_or_else(|| member.addr.clone());
        }
        status
    }

    /// Returns the time of the store in milliseconds since 1970, which is the median of the members' wall clocks by the
    /// last comparison.
    #[must_use]
    pub fn clock_ms(&self) -> u64 {
        self.clock.middle_ms()
    }

    /// Returns a notifier of changes of leadership, term, members and applied entries.
    #[must_use]
    pub fn changes(&self) -> Changes {
        Changes(self.raft.metrics())
    }

    /// Transfers leadership if this member leads, calls `stopping`, and stops the Raft library.
    pub(crate) async fn stop(&self, stopping: impl FnOnce()) {
        transfer::step_down(&self.raft).await;
        stopping();
        // The only error is a panic of Raft's task, which `watch` has logged.
        let _ = self.raft.shutdown().await;
    }
}

impl<M: StateMachine> Clone for RaftHandle<M> {
    fn clone(&self) -> RaftHandle<M> {
        RaftHandle {
            raft: self.raft.clone(),
            state: self.state.clone(),
            proposer: self.proposer.clone(),
            quorum: self.quorum.clone(),
            changes: self.changes.clone(),
            dial: self.dial.clone(),
            timeouts: self.timeouts,
            disk: self.disk.clone(),
            clock: self.clock.clone(),
        }
    }
}

impl<M: StateMachine> fmt::Debug for RaftHandle<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RaftHandle").field("id", &self.id()).finish_non_exhaustive()
    }
}

/// Reason why leadership was not transferred.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct NotTransferred {
    /// The refusal.
    pub why: String,
}

/// Reason why the group's format was not raised.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct NotRaised {
    /// The refusal.
    pub why: String,
}

/// Error that the Raft library has stopped. The member's group of tasks then shuts down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the Raft library has stopped")]
pub struct Stopped;

/// Notifier of changes of one member. Several changes between two waits count as one change.
pub struct Changes(WatchReceiverOf<TypeConfig, RaftMetrics<TypeConfig>>);

impl Changes {
    /// Waits for the next change. Cancel safe.
    ///
    /// # Errors
    /// [`Stopped`] when no change can follow.
    pub async fn changed(&mut self) -> Result<(), Stopped> {
        self.0.changed().await.map_err(|_| Stopped)
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Changes")
    }
}
