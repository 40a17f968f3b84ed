//! Changes of the store's members, made by its leader.
//!
//! Each step may be repeated and leaves the group whole: adding a learner is one entry; a change of votes is two, and when the
//! leader is lost between them, [`MemberChanges::keep_settled`] beside the next one makes the second. One change is made at a
//! time, each from the list of members that it was planned on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use openraft::errors::{ChangeMembershipError, ClientWriteError, RaftError};
use openraft::raft::Precondition;
use openraft::{ChangeMembers, Instant as _};
use seq_proto::Reason;
use tokio::sync::Mutex;
use tonic::Status;

use crate::claims;
use crate::config::StoreOptions;
use crate::greeting::Prober;
use crate::handover::{STEP_DOWN_PATIENCE, hand_over};
use crate::members::{Group, MAX_LAG, Plan, Refusal, Wish};
use crate::nonce::Fingerprint;
use crate::proposer::{ProposeError, Proposer};
use crate::storage::SharedState;
use crate::types::{LogId, Member, Raft, StoredMembership};

/// How long a hand-over may take: the chosen member may first have to get the end of the log.
const HANDOVER_PATIENCE: Duration = Duration::from_secs(2);

/// When an unfinished change is tried again.
const RETRY: Duration = Duration::from_millis(200);

/// A member that has not answered the leader for this many of the longest election timeouts is not counted on.
const SILENT_ELECTIONS: u32 = 2;

/// How often a leader looks whether somebody who was silent has answered; about a heartbeat.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

type Changes = ChangeMembers<u64, Member>;

/// Makes changes of the members. Clones make one at a time.
#[derive(Clone)]
pub(crate) struct MemberChanges {
    raft: Raft,
    state: SharedState,
    proposer: Proposer,
    prober: Prober,
    /// How long one entry may take to be committed.
    commit_timeout: Duration,
    /// A member that has not answered for this long is not counted on.
    live_within: Duration,
    /// Held while a change is made.
    one: Arc<Mutex<()>>,
}

/// The members as the leader sees them.
pub(crate) struct Seen {
    pub(crate) group: Group,
    pub(crate) list: Arc<StoredMembership>,
    pub(crate) last_log_index: u64,
    /// How many entries of the leader's log each member is not known to have.
    pub(crate) lags: BTreeMap<u64, u64>,
}

impl MemberChanges {
    pub(crate) fn new(
        raft: Raft,
        state: SharedState,
        proposer: Proposer,
        prober: Prober,
        options: &StoreOptions,
    ) -> MemberChanges {
        let (commit_timeout, live_within) = (options.commit_timeout, options.election_max * SILENT_ELECTIONS);
        MemberChanges { raft, state, proposer, prober, commit_timeout, live_within, one: Arc::default() }
    }

    /// What the leader sees.
    ///
    /// # Errors
    /// This member does not lead.
    pub(crate) fn seen(&self) -> Result<Seen, ChangeError> {
        let metrics = self.raft.metrics().borrow_watched().clone();
        let (true, Some(replication), Some(heard)) = (self.raft.is_leader(), &metrics.replication, &metrics.heartbeat)
        else {
            return Err(self.proposer.not_leader().into());
        };
        let last = metrics.last_log_index.unwrap_or(0);
        let membership = metrics.membership_config.membership();
        let mut seen = Seen {
            group: Group { leader: metrics.id, voters: membership.voter_ids().collect(), ..Group::default() },
            list: metrics.membership_config.clone(),
            last_log_index: last,
            lags: BTreeMap::new(),
        };
        for (id, _) in membership.nodes() {
            let mine = *id == metrics.id;
            let live =
                mine || heard.get(id).copied().flatten().is_some_and(|heard| heard.elapsed() <= self.live_within);
            let matched = replication.get(id).copied().flatten();
            // Counted in entries, so one that has nothing lacks the one at 0 as well.
            let lag =
                if mine { 0 } else { (last + 1).saturating_sub(matched.map_or(0, |matched| matched.index() + 1)) };
            seen.lags.insert(*id, lag);
            seen.group.live.extend(live.then_some(*id));
            seen.group.caught_up.extend((live && lag <= MAX_LAG).then_some(*id));
        }
        seen.group.learners = membership.learner_ids().collect();
        seen.group.used = self.state.read(|state| state.store_ids.iter().copied().collect());
        seen.group.used.extend(membership.nodes().map(|(id, _)| *id));
        Ok(seen)
    }

    /// Adds members without a vote; answers which of them are new.
    pub(crate) async fn add(&self, wanted: BTreeMap<u64, Member>) -> Result<Vec<u64>, ChangeError> {
        let _one = self.begin()?;
        let seen = self.settled().await?;
        let membership = seen.list.membership();
        let mut new = BTreeMap::new();
        for (id, member) in wanted {
            match membership.get_node(&id) {
                Some(there) if (&there.name, &there.addr) == (&member.name, &member.addr) => continue,
                Some(Member { name, addr, .. }) => {
                    return Err(Refusal::OtherMember { id, name: name.clone(), addr: addr.clone() }.into());
                }
                None => seen.group.check_new_id(id)?,
            }
            let others = membership.nodes().chain(&new);
            let taken = others.into_iter().find(|(_, there)| there.name == member.name || there.addr == member.addr);
            if let Some((id, Member { name, addr, .. })) = taken {
                return Err(Refusal::Taken { id: *id, name: name.clone(), addr: addr.clone() }.into());
            }
            new.insert(id, member);
        }
        // The list names the data directory of each member: only that one is the member.
        for (id, member) in &mut new {
            member.fingerprint = self.directory(*id, &member.addr).await?;
        }
        let ids: Vec<u64> = new.keys().copied().collect();
        if !new.is_empty() {
            tracing::info!(?new, "adding members without a vote");
            self.write(ChangeMembers::AddNodes(new), &seen.list).await?;
        }
        for id in &ids {
            claims::claim(&self.proposer, &self.state, *id).await?;
        }
        Ok(ids)
    }

    /// The data directory of a store that is to become a member; it may be starting at this moment.
    async fn directory(&self, id: u64, addr: &str) -> Result<Fingerprint, ChangeError> {
        let deadline = tokio::time::Instant::now() + self.commit_timeout;
        loop {
            match self.prober.directory(id, addr).await {
                Ok(directory) => return Ok(directory),
                Err(_) if tokio::time::Instant::now() < deadline => tokio::time::sleep(RETRY).await,
                Err(why) => return Err(ChangeError::NotReached { id, addr: addr.to_owned(), why }),
            }
        }
    }

    /// Changes who votes; answers the voters, and whether anything was done.
    pub(crate) async fn change(&self, wish: &Wish) -> Result<(BTreeSet<u64>, bool), ChangeError> {
        if wish.foresee {
            let (seen, plan) = self.judged(|group| group.plan(wish)).await?;
            return Ok(match plan {
                Plan::Change { voters, .. } => (voters, false),
                Plan::Nothing | Plan::HandOver { .. } => (seen.group.voters, false),
            });
        }
        let _one = self.begin()?;
        self.settled().await?;
        let (seen, plan) = self.judged(|group| group.plan(wish)).await?;
        match plan {
            Plan::Nothing => Ok((seen.group.voters, false)),
            Plan::HandOver { to } => {
                tracing::info!(to, "the leader is to be removed: handing over first");
                hand_over(&self.raft, to, HANDOVER_PATIENCE).await;
                Err(self.proposer.not_leader().into())
            }
            Plan::Change { promote, demote, drop, voters } => {
                // An id is claimed before it leaves, whoever brought it in.
                for id in demote.iter().chain(&drop).chain(&promote) {
                    claims::claim(&self.proposer, &self.state, *id).await?;
                }
                tracing::info!(?promote, ?demote, ?drop, "changing members");
                let mut list = seen.list;
                if !drop.is_empty() {
                    self.write(ChangeMembers::RemoveNodes(drop), &list).await?;
                    list = self.settled().await?.list;
                }
                if !(promote.is_empty() && demote.is_empty()) {
                    let both = vec![ChangeMembers::AddVoterIds(promote), ChangeMembers::RemoveVoters(demote)];
                    self.write(ChangeMembers::Batch(both), &list).await?;
                }
                tracing::info!(?voters, "members changed");
                Ok((voters, true))
            }
        }
    }

    /// Hands leadership over to a voter; answers who leads.
    pub(crate) async fn lead(&self, to: u64) -> Result<u64, ChangeError> {
        let _one = self.begin()?;
        let (seen, ()) = self.judged(|group| group.check_successor(to)).await?;
        if seen.group.leader == to {
            return Ok(to);
        }
        match hand_over(&self.raft, to, HANDOVER_PATIENCE).await {
            Some(leader) if leader == to => Ok(to),
            _ => Err(ChangeError::NotTakenOver { to }),
        }
    }

    /// Gives leadership to the voter with the longest log beside this leader; answers which. This leader may not learn
    /// whether it took over: no message of the others may reach it.
    pub(crate) async fn lead_other(&self) -> Result<u64, ChangeError> {
        let _one = self.begin()?;
        let seen = self.seen()?;
        let to = seen.group.longest_log(&seen.lags)?;
        hand_over(&self.raft, to, STEP_DOWN_PATIENCE).await;
        Ok(to)
    }

    /// Ends changes whose leader was lost between their two entries, while this member leads. Runs until it is dropped.
    pub(crate) async fn keep_settled(self) {
        let mut metrics = self.raft.server_metrics();
        loop {
            let joint = metrics.borrow_watched().membership_config.membership().get_joint_config().len() > 1;
            if joint && self.raft.is_leader() {
                let _one = self.one.lock().await;
                if let Err(error) = self.settled().await {
                    tracing::info!(%error, "a change of members could not be ended yet");
                    tokio::time::sleep(RETRY).await;
                }
            } else if metrics.changed().await.is_err() {
                // The Raft library has stopped, and its task says why.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Judges what the leader sees. One that leads for a short time only may not have heard of everybody yet, so a refusal for
    /// their silence is given only after as long as it takes to be called silent.
    async fn judged<T>(&self, judge: impl Fn(&Group) -> Result<T, Refusal>) -> Result<(Seen, T), ChangeError> {
        let deadline = tokio::time::Instant::now() + self.live_within;
        loop {
            let seen = self.seen()?;
            match judge(&seen.group) {
                Err(refusal) if refusal.is_for_silence() && tokio::time::Instant::now() < deadline => {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
                verdict => return Ok((seen, verdict?)),
            }
        }
    }

    fn begin(&self) -> Result<tokio::sync::MutexGuard<'_, ()>, ChangeError> {
        self.one.try_lock().map_err(|_| ChangeError::InProgress)
    }

    /// Waits until the newest list of members is committed, applied here, and not joint, ending an unfinished change.
    async fn settled(&self) -> Result<Seen, ChangeError> {
        let mut metrics = self.raft.metrics();
        let settling = async {
            loop {
                let seen = self.seen()?;
                if seen.list.log_id().is_some() && *seen.list.log_id() <= self.state.last_applied() {
                    if seen.list.membership().get_joint_config().len() == 1 {
                        return Ok(seen);
                    }
                    // Asking for nothing makes one list of two.
                    self.write(ChangeMembers::AddVoterIds(BTreeSet::new()), &seen.list).await?;
                    continue;
                }
                if metrics.changed().await.is_err() {
                    return Err(ProposeError::Stopping.into());
                }
            }
        };
        let late = |_| ChangeError::from(ProposeError::TimedOut { after: self.commit_timeout });
        tokio::time::timeout(self.commit_timeout, settling).await.map_err(late)?
    }

    /// Writes one change, provided that the newest list of members is `from`.
    async fn write(&self, changes: Changes, from: &StoredMembership) -> Result<(), ChangeError> {
        let last_membership_log_id: Option<LogId> = *from.log_id();
        let conditions = [Precondition::LastMembershipLogId { last_membership_log_id }];
        // A removed member is no learner afterwards: its id is used up.
        let written = self.raft.change_membership_if(changes, false, conditions);
        let late = |_| ProposeError::TimedOut { after: self.commit_timeout };
        match tokio::time::timeout(self.commit_timeout, written).await.map_err(late)? {
            Ok(_) => Ok(()),
            Err(RaftError::APIError(
                ClientWriteError::ChangeMembershipError(ChangeMembershipError::InProgress(_))
                | ClientWriteError::PreconditionFailed(_),
            )) => Err(ChangeError::InProgress),
            Err(error) => Err(self.proposer.read(error).into()),
        }
    }
}

/// Why a change was not made, or not to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Propose(#[from] ProposeError),
    #[error("another change of members is under way")]
    InProgress,
    #[error("store {id} at {addr} does not name its data directory: {why}; start it with --join first")]
    NotReached { id: u64, addr: String, why: String },
    #[error("store {to} did not take over in time")]
    NotTakenOver { to: u64 },
}

impl From<ChangeError> for Status {
    fn from(error: ChangeError) -> Status {
        let text = error.to_string();
        let reason = match error {
            ChangeError::Refused(refusal) => return refusal.into(),
            ChangeError::Propose(error) => return error.into(),
            ChangeError::InProgress => Reason::ChangeInProgress,
            ChangeError::NotReached { .. } => Reason::MemberNotReached,
            ChangeError::NotTakenOver { .. } => Reason::NotTakenOver,
        };
        reason.status(text)
    }
}
