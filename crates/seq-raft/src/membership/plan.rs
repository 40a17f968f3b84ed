//! Plans of changes of the group's members. A plan is computed from an operator's request and from the group as the
//! leader observes it.
//!
//! **Invariant:** after every planned change a majority of the voters responds to the leader, and a member gets a vote
//! only if it has nearly the whole log. So a change that has begun can be completed, and the group accepts writes
//! during the change.

use std::collections::{BTreeMap, BTreeSet};

use seq_core::limits;
use seq_core::plan::Fingerprint;
use seq_proto::Reason;
use tonic::Status;

use crate::leadership::quorum::QuorumStatus;

/// Maximum number of entries of the leader's log that a member may lack when it becomes a voter. At a high rate of
/// writes, this many entries arrive within half a second. After a snapshot, the log keeps more entries than this, so
/// the new voter gets the missing entries from the log and needs no snapshot.
pub(crate) const MAX_LAG: u64 = 4_000;

/// Maximum number of voters of a store. With more than five voters, each write would wait for more disks, and the store
/// would not be safer in practice.
pub(crate) const MAX_VOTERS: usize = *limits::STORE_COUNTS.last().expect("there are sizes");

type Ids = BTreeSet<u64>;

/// Members of a group, as its leader observes them. All values are Raft ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) leader: u64,
    pub(crate) voters: Ids,
    pub(crate) learners: Ids,
    /// Members that have recently responded to the leader, including the leader itself.
    pub(crate) live: Ids,
    /// Live members that lack at most [`MAX_LAG`] entries of the leader's log.
    pub(crate) caught_up: Ids,
    /// All ids of present and former members, as far as the replicated state contains them.
    pub(crate) used: Ids,
}

/// Change of the voters that an operator requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MembershipRequest {
    pub(crate) add: Ids,
    pub(crate) remove: Ids,
    pub(crate) allow_even: bool,
    /// Whether only to plan the change and not to make it. The plan then assumes that the members to add are already
    /// present, respond, and have the whole log.
    pub(crate) dry_run: bool,
    /// Fingerprint of the plan that the operator has seen. The leader makes the change only if its own plan has the
    /// same fingerprint.
    pub(crate) required: Fingerprint,
}

/// Result of planning a change of the voters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// The members are already as requested, so nothing needs to be done.
    Nothing,
    /// The request removes the leader, so leadership must be transferred first.
    TransferLeader {
        /// Raft id of the next leader.
        to: u64,
    },
    /// One change that removes learners, and adds and removes votes together.
    Change {
        /// Learners that become voters.
        promote: Ids,
        /// Voters that are removed from the group.
        demote: Ids,
        /// Learners that are removed from the group.
        drop: Ids,
        /// All voters after the change.
        voters: Ids,
    },
}

impl Group {
    /// Returns the plan of a requested change of the voters, or the reason why the change is refused.
    pub(crate) fn plan(&self, request: &MembershipRequest) -> Result<Plan, Refusal> {
        if let Some(id) = request.add.intersection(&request.remove).next() {
            return Err(Refusal::AddedAndRemoved { id: *id });
        }
        let promote: Ids = request.add.difference(&self.voters).copied().collect();
        for id in &promote {
            self.check_new_voter(*id, request.dry_run)?;
        }
        let is_member = |id: &u64| self.voters.contains(id) || self.learners.contains(id);
        if let Some(id) = request.remove.iter().find(|id| !is_member(id) && !self.used.contains(id)) {
            return Err(Refusal::UnknownMember { id: *id });
        }
        let demote: Ids = request.remove.intersection(&self.voters).copied().collect();
        let drop: Ids = request.remove.intersection(&self.learners).copied().collect();
        if promote.is_empty() && demote.is_empty() && drop.is_empty() {
            return Ok(Plan::Nothing);
        }
        let voters: Ids = self.voters.union(&promote).filter(|id| !demote.contains(id)).copied().collect();
        if voters != self.voters {
            self.check_voters(&voters, &promote, request)?;
        }
        if demote.contains(&self.leader) && !request.dry_run {
            return self.successor(&demote).map(|to| Plan::TransferLeader { to });
        }
        Ok(Plan::Change { promote, demote, drop, voters })
    }

    /// Returns a voter that can become the leader when the current leader is removed. The voter has nearly the whole
    /// log and is not in `leaving`.
    fn successor(&self, leaving: &Ids) -> Result<u64, Refusal> {
        let stays = |id: &&u64| **id != self.leader && !leaving.contains(id) && self.voters.contains(id);
        self.caught_up.iter().find(stays).copied().ok_or(Refusal::NoSuccessor)
    }

    /// Returns the caught-up voter, other than the leader, that lacks the fewest entries of the leader's log. `lags`
    /// holds the number of missing entries of each member.
    pub(crate) fn longest_log(&self, lags: &BTreeMap<u64, u64>) -> Result<u64, Refusal> {
        let others = self.caught_up.iter().filter(|id| **id != self.leader && self.voters.contains(id));
        others.copied().min_by_key(|id| lags.get(id).copied().unwrap_or(u64::MAX)).ok_or(Refusal::NoSuccessor)
    }

    /// Checks whether the member `to` can become the leader: it must be a caught-up voter.
    pub(crate) fn check_successor(&self, to: u64) -> Result<(), Refusal> {
        if !self.voters.contains(&to) {
            return Err(if self.learners.contains(&to) {
                Refusal::NotAVoter { id: to }
            } else {
                Refusal::UnknownMember { id: to }
            });
        }
        // A leader that transfers leadership accepts no writes until the next leader has the whole log.
        if to != self.leader && !self.caught_up.contains(&to) {
            return Err(Refusal::NotCaughtUp { id: to });
        }
        Ok(())
    }

    /// Checks whether `id` may be assigned to a new member. It must not be 0, and no present or former member may have
    /// it.
    pub(crate) fn check_new_id(&self, id: u64) -> Result<(), Refusal> {
        if id == 0 {
            return Err(Refusal::BadId);
        }
        if self.used.contains(&id) { Err(Refusal::UsedId { id }) } else { Ok(()) }
    }

    /// Checks whether every member can read the format `to`, which is the newest format of the leader's program.
    /// `newest` returns the newest format that a given member has reported to the leader, if it has reported any.
    pub(crate) fn check_format(&self, to: u16, newest: impl Fn(u64) -> Option<u16>) -> Result<(), Refusal> {
        let others = self.voters.union(&self.learners).filter(|id| **id != self.leader);
        for id in others.copied() {
            match newest(id) {
                Some(newest) if newest >= to => {}
                Some(newest) => return Err(Refusal::Outdated { id, newest, to }),
                None => return Err(Refusal::Silent { id, to }),
            }
        }
        Ok(())
    }

    fn check_new_voter(&self, id: u64, dry_run: bool) -> Result<(), Refusal> {
        match (self.learners.contains(&id), dry_run) {
            (true, true) => Ok(()),
            (false, true) => self.check_new_id(id),
            (false, false) => Err(Refusal::UnknownMember { id }),
            (true, false) if self.caught_up.contains(&id) => Ok(()),
            (true, false) => Err(Refusal::NotCaughtUp { id }),
        }
    }

    fn check_voters(&self, voters: &Ids, promote: &Ids, request: &MembershipRequest) -> Result<(), Refusal> {
        let count = voters.len();
        if count == 0 {
            return Err(Refusal::NoVoters);
        }
        if count > MAX_VOTERS {
            return Err(Refusal::TooManyVoters { voters: count });
        }
        if count.is_multiple_of(2) && !request.allow_even {
            return Err(Refusal::EvenVoters { voters: count });
        }
        let lives = |id: &&u64| self.live.contains(id) || (request.dry_run && promote.contains(id));
        let (live, needed) = (voters.iter().filter(lives).count(), count / 2 + 1);
        if live < needed {
            let silent = voters.iter().filter(|id| !lives(id)).copied().collect();
            return Err(Refusal::NoMajority { voters: count, live, needed, silent });
        }
        Ok(())
    }
}

/// Reason why an operator's change is refused. In each case no change was made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the request is about set {given:?}, and this is the store of set {mine:?}")]
    OtherSet { mine: String, given: String },
    #[error("an id of a store is 1 or above")]
    BadId,
    #[error("{count} members to add are not 1..={MAX_VOTERS}")]
    BadCount { count: usize },
    #[error("store {id} has the address {addr:?}, which is not \"host:port\"")]
    BadAddr { id: u64, addr: String },
    #[error("store {id} is named {name:?}, which is empty or too long")]
    BadName { id: u64, name: String },
    #[error("store {id} is to be added and removed at once")]
    AddedAndRemoved { id: u64 },
    #[error("no member of this store has or ever had id {id}")]
    UnknownMember { id: u64 },
    #[error("store {id} does not vote")]
    NotAVoter { id: u64 },
    #[error(
        "store id {id} was used before; an id belongs permanently to one disk, so give the new member an id that no \
         member ever had"
    )]
    UsedId { id: u64 },
    #[error("store {id} is a member already, as {name} at {addr}")]
    OtherMember { id: u64, name: String, addr: String },
    #[error("store {id} already has the name or an address of the member to add: {name} at {addr}")]
    Taken { id: u64, name: String, addr: String },
    #[error("store {id} has not caught up: it does not respond, or lacks more than {MAX_LAG} entries")]
    NotCaughtUp { id: u64 },
    #[error("no voter would be left; the last member of a store cannot be removed")]
    NoVoters,
    #[error(
        "{voters} voters are more than {MAX_VOTERS}: a write would wait for more disks and be no safer in practice"
    )]
    TooManyVoters { voters: usize },
    #[error(
        "{voters} voters survive no more failures than {}, and one more disk can fail; change two members at once, or \
         allow an even number",
        voters - 1
    )]
    EvenVoters { voters: usize },
    #[error(
        "of the {voters} voters after the change only {live} respond and {needed} must: no write would be accepted; \
         silent: {silent:?}"
    )]
    NoMajority { voters: usize, live: usize, needed: usize, silent: Vec<u64> },
    #[error("{status}")]
    NoQuorum { status: QuorumStatus },
    #[error("{status}")]
    NoLeader { status: QuorumStatus },
    #[error("the leader is to be removed, and no remaining voter has caught up")]
    NoSuccessor,
    #[error("store {id} runs a release that reads formats up to {newest}, and {to} is to be written: upgrade it first")]
    Outdated { id: u64, newest: u16, to: u16 },
    #[error("store {id} does not respond, so whether it reads format {to} is not known: start it, or remove it, first")]
    Silent { id: u64, to: u16 },
}

impl Refusal {
    /// Returns an error if this member cannot name the leader, because it knows no leader, receives no messages of the
    /// leader that it knows, or has just begun to lead. In this case, the caller may find the leader at another member.
    pub(crate) fn check_leader(status: &QuorumStatus) -> Result<(), Refusal> {
        match status {
            QuorumStatus::Leaderless { .. } | QuorumStatus::Begins => Err(Refusal::NoLeader { status: status.clone() }),
            QuorumStatus::Leads | QuorumStatus::Follows | QuorumStatus::NoMajority { .. } => Ok(()),
        }
    }

    /// Returns an error if this member cannot name the leader, or leads without a majority. A request that needs a
    /// committed entry would then wait in vain.
    pub(crate) fn check_quorum(status: &QuorumStatus) -> Result<(), Refusal> {
        match status {
            QuorumStatus::NoMajority { .. } => Err(Refusal::NoQuorum { status: status.clone() }),
            _ => Refusal::check_leader(status),
        }
    }

    /// Returns whether this refusal may end by itself, because its only reason is that a member has not responded or
    /// has not received nearly the whole log yet.
    pub(crate) fn is_for_silence(&self) -> bool {
        matches!(
            self,
            Refusal::NoMajority { .. } | Refusal::NotCaughtUp { .. } | Refusal::NoSuccessor | Refusal::Silent { .. }
        )
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Status {
        let reason = match refusal {
            Refusal::OtherSet { .. } => Reason::OtherSet,
            Refusal::BadId => Reason::BadStoreId,
            Refusal::BadCount { .. } => Reason::BadCount,
            Refusal::BadAddr { .. } => Reason::BadAddr,
            Refusal::BadName { .. } => Reason::BadName,
            Refusal::AddedAndRemoved { .. } => Reason::AddedAndRemoved,
            Refusal::UnknownMember { .. } => Reason::UnknownMember,
            Refusal::NotAVoter { .. } => Reason::NotAVoter,
            Refusal::UsedId { .. } => Reason::UsedStoreId,
            Refusal::OtherMember { .. } => Reason::OtherMember,
            Refusal::Taken { .. } => Reason::Taken,
            Refusal::NotCaughtUp { .. } | Refusal::Silent { .. } => Reason::NotCaughtUp,
            Refusal::Outdated { .. } => Reason::OutdatedMember,
            Refusal::NoVoters => Reason::NoVoters,
            Refusal::TooManyVoters { .. } => Reason::TooManyVoters,
            Refusal::EvenVoters { .. } => Reason::EvenVoters,
            Refusal::NoMajority { .. } | Refusal::NoQuorum { .. } => Reason::NoMajority,
            Refusal::NoLeader { .. } => Reason::NoLeader,
            Refusal::NoSuccessor => Reason::NoSuccessor,
        };
        reason.status(refusal.to_string())
    }
}

#[cfg(test)]
mod tests;
