//! Handle on a running member. With the handle, the member's services propose commands, and read the applied state and
//! the status of the group.

use std::fmt;

use openraft::ReadPolicy;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::{LinearizableReadError, RaftError};
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
use crate::storage::{AppliedState, Raft, Stall};
use crate::transport::link::{self, LinkTimeouts};
use crate::types::TypeConfig;

/// Handle on a running member of the group. Clones refer to the same member.
pub struct RaftHandle<M: StateMachine> {
    pub(crate) raft: Raft,
    pub(crate) state: AppliedState<M>,
    pub(crate) proposer: Proposer,
    pub(crate) quorum: Quorum,
    pub(crate) changes: MemberChanges,
    pub(crate) dial: Dial,
    pub(crate) timeouts: LinkTimeouts,
    pub(crate) disk: LastDiskSpace,
    pub(crate) stall: Stall,
    pub(crate) clock: OwnClock,
}

impl<M: StateMachine> RaftHandle<M> {
    /// Proposes a command and waits until this member has applied it. If the future is dropped, the command may still
    /// be committed.
    ///
    /// # Errors
    /// [`ProposeError`]. After an error whose description states this, the command may still be applied.
    pub async fn propose(&self, command: &M::Command) -> Result<M::Output, ProposeError> {
        let written = || encoding::write_command::<M>(self.state.format(), command);
        Ok(self.proposer.propose_anew(written).await?.downcast())
    }

    /// Returns the state after all entries that this member has applied so far.
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

    /// Returns the term in which this member leads, as far as it knows, or `None` if it does not lead.
    #[must_use]
    pub fn leads(&self) -> Option<u64> {
        self.quorum.leads()
    }

    /// Returns whether a majority of voters responds to this member if it leads, and otherwise whether messages of a
    /// leader arrive.
    #[must_use]
    pub fn quorum(&self) -> QuorumStatus {
        self.quorum.status()
    }

    /// Returns an error if the group cannot commit an entry as far as this member knows, because this member leads
    /// without a majority or because it knows no leader.
    ///
    /// # Errors
    /// `NO_MAJORITY` or `NO_LEADER`.
    pub fn check_quorum(&self) -> Result<(), Status> {
        Refusal::check_quorum(&self.quorum.status()).map_err(Status::from)
    }

    /// Returns an error unless this member leads with a majority, as far as it knows.
    ///
    /// # Errors
    /// `NO_MAJORITY`, `NO_LEADER`, or `NOT_LEADER` with the leader's address if this member knows it.
    pub fn check_leads(&self) -> Result<(), Status> {
        let quorum = self.quorum();
        Refusal::check_quorum(&quorum)?;
        if quorum == QuorumStatus::Leads { Ok(()) } else { Err(self.not_leader().into()) }
    }

    /// Waits until this member, which must lead, has applied all entries that the group had committed when the call
    /// began. A majority confirms first that no other member has led since. The state that is read next is therefore
    /// at least as new as each state that was read from the group before, even from an earlier leader: a new leader
    /// has entries that it has yet to apply.
    ///
    /// The rule is ReadIndex (section 6.4 of Ongaro's dissertation, "Consensus: Bridging Theory and Practice"). It
    /// costs one round trip to a majority. Cancel safe.
    ///
    /// # Errors
    /// The errors of [`RaftHandle::check_leads`], and an error if this member is stopping.
    pub async fn linearize(&self) -> Result<(), Status> {
        self.check_leads()?;
        match self.raft.ensure_linearizable(ReadPolicy::ReadIndex).await {
            Ok(_) => Ok(()),
            Err(RaftError::Fatal(fatal)) => Err(ProposeError::Raft { what: fatal.to_string() }.into()),
            Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(_))) => Err(self.not_leader().into()),
            Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(_))) => {
                // The status may still count acknowledgements from before the call.
                self.check_quorum()?;
                Err(self.not_leader().into())
            }
        }
    }

    /// Returns the error with which a follower refuses a proposal. The error contains the leader's address if this
    /// member knows it.
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

    /// Returns the Raft ids of the voters, in ascending order; `None` while the group is changing its voters.
    #[must_use]
    pub fn voters(&self) -> Option<Vec<u64>> {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        match &**metrics.membership_config.membership().get_joint_config() {
            [voters] => Some(voters.iter().copied().collect()),
            _ => None,
        }
    }

    /// Returns the addresses of all members' ports for peers. The first address is this member's own.
    #[must_use]
    pub fn member_addrs(&self) -> Vec<String> {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        let addr = |(id, member)| self.proposer.addr(id, Some(member));
        let nodes = || metrics.membership_config.membership().nodes().map(|(id, member)| (*id, member));
        let mine = nodes().filter(|(id, _)| *id == metrics.id);
        mine.chain(nodes().filter(|(id, _)| *id != metrics.id)).filter_map(addr).collect()
    }

    /// Creates a connection to another member with the timeouts of the Raft transport. The connection is established
    /// when it is first used.
    ///
    /// # Errors
    /// When the address is invalid.
    pub fn connect(&self, addr: &str) -> Result<Channel, tonic::transport::Error> {
        link::connect(&self.dial, addr, self.timeouts)
    }

    /// Creates a connection like [`RaftHandle::connect`], but to a server outside this group. The server's certificate
    /// must name the identity `expected`.
    ///
    /// # Errors
    /// When the address is invalid.
    pub fn connect_expecting(&self, addr: &str, expected: ExpectedServer) -> Result<Channel, tonic::transport::Error> {
        link::connect(&self.dial.expecting(expected), addr, self.timeouts)
    }

    /// Transfers leadership to the voter with the longest log among the other voters, and returns that voter's Raft id.
    /// Also returns the id if the transfer was sent but this member has not yet received a message of the new leader.
    ///
    /// # Errors
    /// [`NotTransferred`] if this member does not lead, if no other voter has nearly the whole log, or if a change of
    /// members is in progress.
    pub async fn transfer_leadership(&self) -> Result<u64, NotTransferred> {
        self.changes.transfer_to_any().await.map_err(|error| NotTransferred { why: error.to_string() })
    }

    /// Raises the group's format to the newest format of this member's program. First waits until each other member has
    /// reported that it can read this format, or counts as silent.
    ///
    /// # Errors
    /// [`NotRaised`] if this member does not lead, or if another member is silent or reads only older formats.
    pub async fn raise_format(&self) -> Result<FormatRaise, NotRaised> {
        let raised = self.changes.raise_format(REQUIRES_NO_PLAN).await;
        raised.map(|(raise, _)| raise).map_err(|error| NotRaised { why: error.to_string() })
    }

    /// Returns a guard under which a service makes an operator's change. While the caller holds the guard, it can
    /// compare the preconditions of the operator's plan with the state and then make the change, because no other
    /// change can begin. When this function returns, this member has applied all earlier proposals.
    ///
    /// # Errors
    /// `CHANGE_IN_PROGRESS` while another change holds the guard, or the reason why this member cannot propose.
    pub async fn begin_change(&self) -> Result<ChangeGuard<'_>, Status> {
        self.changes.exclusive().await.map_err(Status::from)
    }

    /// Waits until this member has applied every entry that was committed before this function was called. So if the
    /// state then does not show a change, this change was not committed before the call.
    ///
    /// # Errors
    /// [`ProposeError`]. Neither success nor an error of this function changes the replicated state.
    pub async fn catch_up(&self) -> Result<(), ProposeError> {
        self.changes.catch_up().await
    }

    /// Returns the status of this member and its view of the other members, for operators and for health probes.
    #[must_use]
    pub fn status(&self) -> RaftStatus {
        let disk = (*self.disk.lock(), self.stall.sync_p99());
        let mut status = RaftStatus::new(&self.raft, &self.quorum, self.state.replica().digests(), disk);
        for member in &mut status.members {
            // If a member has moved, this member's set file has its current address, and messages go to that address.
            member.addr = self.proposer.addr(member.id, None).unwrap_or_else(|| member.addr.clone());
        }
        status
    }

    /// Returns the store's time in milliseconds since 1970. It is the median of the members' wall clocks, computed from
    /// this member's clock and the clock differences that the last comparison measured.
    #[must_use]
    pub fn clock_ms(&self) -> u64 {
        self.clock.middle_ms()
    }

    /// Returns a notifier that reports changes of this member's leader, term, list of members and applied entries.
    #[must_use]
    pub fn changes(&self) -> Changes {
        Changes(self.raft.metrics())
    }

    /// Transfers leadership to another voter if this member leads, then calls `stopping`, and then stops the Raft
    /// library.
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
            stall: self.stall.clone(),
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
    /// Text of the refusal.
    pub why: String,
}

/// Reason why the group's format was not raised.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct NotRaised {
    /// Text of the refusal.
    pub why: String,
}

/// Error of a call after the Raft library of this member has stopped. The member's group of tasks then shuts down too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the Raft library has stopped")]
pub struct Stopped;

/// Notifier of changes that one member sees, from [`RaftHandle::changes`]. Several changes between two calls of
/// [`Changes::changed`] count as one change.
pub struct Changes(WatchReceiverOf<TypeConfig, RaftMetrics<TypeConfig>>);

impl Changes {
    /// Waits until a change has happened since the previous call. Cancel safe.
    ///
    /// # Errors
    /// [`Stopped`] when the Raft library has stopped, so that no further change can happen.
    pub async fn changed(&mut self) -> Result<(), Stopped> {
        self.0.changed().await.map_err(|_| Stopped)
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Changes")
    }
}
