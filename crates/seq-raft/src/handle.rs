//! Handle on a running member: proposals, the applied state, and what its services need to know of the group.

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
use crate::propose::{ProposeError, Proposer};
use crate::state_machine::StateMachine;
use crate::status::{LastDiskSpace, RaftStatus};
use crate::storage::{AppliedState, Raft};
use crate::transport::link::{self, LinkTimeouts};
use crate::types::TypeConfig;

/// A member of the group. Clones are handles on the same member.
pub struct RaftHandle<M: StateMachine> {
    pub(crate) raft: Raft,
    pub(crate) state: AppliedState<M>,
    pub(crate) proposer: Proposer,
    pub(crate) quorum: Quorum,
    pub(crate) changes: MemberChanges,
    pub(crate) dial: Dial,
    pub(crate) timeouts: LinkTimeouts,
    pub(crate) disk: LastDiskSpace,
}

impl<M: StateMachine> RaftHandle<M> {
    /// Proposes a command and waits until this member has applied it. Cancel safe; a cancelled proposal may be
    /// committed.
    ///
    /// # Errors
    /// [`ProposeError`]; some of its cases leave open whether the command is applied.
    pub async fn propose(&self, command: &M::Command) -> Result<M::Output, ProposeError> {
        let written = || encoding::write_command::<M>(self.state.format(), command);
        Ok(self.proposer.propose_anew(written).await?.downcast())
    }

    /// The applied state.
    #[must_use]
    pub fn state(&self) -> &AppliedState<M> {
        &self.state
    }

    /// Raft id of this member.
    #[must_use]
    pub fn id(&self) -> u64 {
        *self.raft.node_id()
    }

    /// Raft id of the leader, where this member knows one.
    #[must_use]
    pub fn leader(&self) -> Option<u64> {
        self.raft.metrics().borrow_watched().current_leader
    }

    /// Whether this member leads.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.raft.is_leader()
    }

    /// The term that this member leads, as far as it knows.
    #[must_use]
    pub fn leads(&self) -> Option<u64> {
        self.quorum.leads()
    }

    /// Whether this member sees a majority.
    #[must_use]
    pub fn quorum(&self) -> QuorumStatus {
        self.quorum.status()
    }

    /// Refuses what needs an entry to be committed while this leader has no majority, or no leader is known.
    ///
    /// # Errors
    /// `NO_MAJORITY` or `NO_LEADER`.
    pub fn check_quorum(&self) -> Result<(), Status> {
        Refusal::check_quorum(&self.quorum.status()).map_err(Status::from)
    }

    /// The refusal of a member that follows, with the leader where it knows one.
    #[must_use]
    pub fn not_leader(&self) -> ProposeError {
        self.proposer.not_leader()
    }

    /// The leader and its address, where another member leads as far as this one knows.
    #[must_use]
    pub fn other_leader(&self) -> Option<(u64, String)> {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        let leader = metrics.current_leader.filter(|leader| *leader != metrics.id)?;
        let member = metrics.membership_config.membership().get_node(&leader);
        Some((leader, self.proposer.addr(leader, member)?))
    }

    /// Addresses of all members, this one first.
    #[must_use]
    pub fn member_addrs(&self) -> Vec<String> {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        let addr = |(id, member)| self.proposer.addr(id, Some(member));
        let nodes = || metrics.membership_config.membership().nodes().map(|(id, member)| (*id, member));
        let mine = nodes().filter(|(id, _)| *id == metrics.id);
        mine.chain(nodes().filter(|(id, _)| *id != metrics.id)).filter_map(addr).collect()
    }

    /// A connection to another member, with the timeouts of the Raft transport; made lazily.
    ///
    /// # Errors
    /// The address is none.
    pub fn connect(&self, addr: &str) -> Result<Channel, tonic::transport::Error> {
        link::connect(&self.dial, addr, self.timeouts)
    }

    /// As [`RaftHandle::connect`], to a server that is no member of this group.
    ///
    /// # Errors
    /// The address is none.
    pub fn connect_expecting(&self, addr: &str, expected: ExpectedServer) -> Result<Channel, tonic::transport::Error> {
        link::connect(&self.dial.expecting(expected), addr, self.timeouts)
    }

    /// Transfers leadership to the voter with the longest log beside this leader; returns which. Whether it took over
    /// may stay unknown here.
    ///
    /// # Errors
    /// [`NotTransferred`] where this member does not lead, no other voter has caught up, or members are being changed.
    pub async fn transfer_leadership(&self) -> Result<u64, NotTransferred> {
        self.changes.transfer_to_any().await.map_err(|error| NotTransferred { why: error.to_string() })
    }

    /// Raises the group's format to the newest one of this member's program, once every member has reported that it
    /// reads it. A member that has not responded lately is waited for as long as makes it silent.
    ///
    /// # Errors
    /// [`NotRaised`] where this member does not lead, a member reads only older formats, or one is silent.
    pub async fn raise_format(&self) -> Result<FormatRaise, NotRaised> {
        let raised = self.changes.raise_format(REQUIRES_NO_PLAN).await;
        raised.map(|(raise, _)| raise).map_err(|error| NotRaised { why: error.to_string() })
    }

    /// Begins a change of an operator that is compared with what its plan rests on: what was proposed before is applied
    /// when this returns, and no other change is compared or made until the guard is dropped.
    ///
    /// # Errors
    /// `CHANGE_IN_PROGRESS`, or the reason why this member cannot propose.
    pub async fn begin_change(&self) -> Result<ChangeGuard<'_>, Status> {
        self.changes.exclusive().await.map_err(Status::from)
    }

    /// What operators and probes see of this member.
    #[must_use]
    pub fn status(&self) -> RaftStatus {
        let mut status = RaftStatus::new(&self.raft, &self.quorum, self.state.replica().digests(), *self.disk.lock());
        for member in &mut status.members {
            // A member that moved is where this member's set file has it, as messages to it are.
            member.addr = self.proposer.addr(member.id, None).unwrap_or_else(|| member.addr.clone());
        }
        status
    }

    /// Notified of changes: of leadership, term, members, and applied entries.
    #[must_use]
    pub fn changes(&self) -> Changes {
        Changes(self.raft.metrics())
    }

    /// Transfers leadership where this member has it, and stops the Raft library.
    pub(crate) async fn stop(&self, stopping: impl FnOnce()) {
        transfer::step_down(&self.raft).await;
        stopping();
        // Its only error is a panic of Raft's task, which the watch has logged.
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
        }
    }
}

impl<M: StateMachine> fmt::Debug for RaftHandle<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RaftHandle").field("id", &self.id()).finish_non_exhaustive()
    }
}

/// Why leadership was not transferred.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct NotTransferred {
    /// The refusal.
    pub why: String,
}

/// Why the group's format was not raised.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct NotRaised {
    /// The refusal.
    pub why: String,
}

/// The Raft library has stopped; the member's group shuts down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the Raft library has stopped")]
pub struct Stopped;

/// Notifies of changes of one member. Changes between two waits count as one.
pub struct Changes(WatchReceiverOf<TypeConfig, RaftMetrics<TypeConfig>>);

impl Changes {
    /// Waits for the next change. Cancel safe.
    ///
    /// # Errors
    /// [`Stopped`] when there will be none.
    pub async fn changed(&mut self) -> Result<(), Stopped> {
        self.0.changed().await.map_err(|_| Stopped)
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Changes")
    }
}
