//! Changes of the group's list of members, which the leader makes.
//!
//! Each step of a change may be repeated, and the group can commit entries after each step. Adding a learner takes one
//! log entry, and a change of voters takes two. If the leader fails between these two entries, the next leader writes
//! the second entry in [`MemberChanges::complete_joint_changes`]. The leader makes one change at a time. It refuses a
//! change if the current list of members is not the list for which the change was planned, or if other preconditions of
//! the plan no longer hold (see [`preconditions`](super::preconditions)).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use openraft::errors::{ChangeMembershipError, ClientWriteError, RaftError};
use openraft::raft::Precondition;
use openraft::{ChangeMembers, Instant as _};
use seq_core::plan::{Fingerprint as PlanFingerprint, StalePlan};
use seq_core::state::EventKind;
use seq_proto::Reason;
use tokio::sync::Mutex;
use tonic::Status;

use super::plan::{Group, MAX_LAG, MembershipRequest, Plan, Refusal};
use super::probe::Prober;
use crate::leadership::transfer::{STEP_DOWN_TIMEOUT, transfer_leader};
use crate::nonce::Fingerprint;
use crate::options::RaftOptions;
use crate::propose::{ProposeError, Proposer};
use crate::storage::{Raft, Replica};
use crate::transport::formats::Formats;
use crate::types::{LogId, Member, StoredMembership};

/// Timeout of a transfer of leadership. It includes the time in which the next leader receives the last entries of the
/// log.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum time to wait for the first response of a store that is to be added as a member, because the store may have
/// just been started.
const START_TIMEOUT: Duration = Duration::from_secs(1);

/// Pause before the completion of an unfinished change, or the probe of a new member, is retried.
const RETRY: Duration = Duration::from_millis(200);

/// Time after which a member that has not responded to the leader no longer counts as live, as a multiple of the
/// longest election timeout.
const SILENT_ELECTIONS: u32 = 2;

/// Interval at which a leader checks whether a member that did not respond has responded since; about a heartbeat.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

type Changes = ChangeMembers<u64, Member>;

/// Maker of changes of the list of members. All clones together make one change at a time.
#[derive(Clone)]
pub(crate) struct MemberChanges {
    pub(super) raft: Raft,
    pub(super) replica: Arc<dyn Replica>,
    pub(super) proposer: Proposer,
    prober: Prober,
    pub(super) formats: Formats,
    /// Maximum time that a change waits until one log entry is committed.
    pub(super) commit_timeout: Duration,
    /// Time after which a member that has not responded to the leader no longer counts as live.
    live_within: Duration,
    /// Lock that is held while an operator's plan is compared with the state and the operator's change is made, even if
    /// the change does not concern members.
    pub(super) one: Arc<Mutex<()>>,
}

/// The group's members and their progress, as the leader observes them.
pub(crate) struct Observed {
    pub(crate) group: Group,
    pub(crate) list: Arc<StoredMembership>,
    /// Term in which this leader leads.
    pub(crate) term: u64,
    pub(crate) last_log_index: u64,
    /// For each member, the number of entries in the leader's log that the member lacks, as far as the leader knows.
    pub(crate) lags: BTreeMap<u64, u64>,
}

/// Result of a change of the voters.
pub(crate) struct ChangedVoters {
    pub(crate) voters: BTreeSet<u64>,
    /// Whether this request changed the members.
    pub(crate) changed: bool,
    /// Fingerprint of the preconditions of the request's plan, computed before the change.
    pub(crate) fingerprint: PlanFingerprint,
}

impl MemberChanges {
    pub(crate) fn new(
        raft: Raft,
        replica: Arc<dyn Replica>,
        proposer: Proposer,
        prober: Prober,
        formats: Formats,
        options: &RaftOptions,
    ) -> MemberChanges {
        let (commit_timeout, live_within) = (options.commit_timeout, options.election_max * SILENT_ELECTIONS);
        MemberChanges { raft, replica, proposer, prober, formats, commit_timeout, live_within, one: Arc::default() }
    }

    /// Returns the address at which this member connects to the member `id`. The address in this member's set file
    /// takes precedence over the address in `member`.
    pub(crate) fn addr(&self, id: u64, member: &Member) -> String {
        self.proposer.addr(id, Some(member)).unwrap_or_default()
    }

    /// Returns the group's members as this member, which must be the leader, observes them now.
    ///
    /// # Errors
    /// When this member does not lead.
    pub(crate) fn observe(&self) -> Result<Observed, ChangeError> {
        let metrics = self.raft.metrics().borrow_watched().clone();
        let (true, Some(replication), Some(acknowledged)) =
            (self.raft.is_leader(), &metrics.replication, &metrics.heartbeat)
        else {
            return Err(self.proposer.not_leader().into());
        };
        let last = metrics.last_log_index.unwrap_or(0);
        let membership = metrics.membership_config.membership();
        let mut observed = Observed {
            group: Group { leader: metrics.id, voters: membership.voter_ids().collect(), ..Group::default() },
            list: metrics.membership_config.clone(),
            term: metrics.current_term,
            last_log_index: last,
            lags: BTreeMap::new(),
        };
        for (id, _) in membership.nodes() {
            let mine = *id == metrics.id;
            let live =
                mine || acknowledged.get(id).copied().flatten().is_some_and(|at| at.elapsed() <= self.live_within);
            let matched = replication.get(id).copied().flatten();
            // Counted in entries, because a member without any entry lacks entry 0 as well.
            let lag =
                if mine { 0 } else { (last + 1).saturating_sub(matched.map_or(0, |matched| matched.index() + 1)) };
            observed.lags.insert(*id, lag);
            observed.group.live.extend(live.then_some(*id));
            observed.group.caught_up.extend((live && lag <= MAX_LAG).then_some(*id));
        }
        observed.group.learners = membership.learner_ids().collect();
        observed.group.used = self.replica.read_members(|_, ids| ids.iter().copied().collect());
        observed.group.used.extend(membership.nodes().map(|(id, _)| *id));
        Ok(observed)
    }

    /// Adds the members in `wanted` that are not in the list yet, without a vote. With `dry_run`, only checks whether
    /// this is possible. Returns the ids of the new members, and the fingerprint of the preconditions of the request's
    /// plan, computed before the change.
    pub(crate) async fn add(
        &self,
        wanted: BTreeMap<u64, Member>,
        (dry_run, required): (bool, PlanFingerprint),
    ) -> Result<(Vec<u64>, PlanFingerprint), ChangeError> {
        if dry_run {
            let observed = self.observe()?;
            let plan = self.plan_of_learners(&observed.group, &wanted);
            return Ok((new_members(&observed, wanted)?.into_keys().collect(), plan));
        }
        let _one = self.begin()?;
        let observed = self.settled().await?;
        let plan = self.plan_of_learners(&observed.group, &wanted);
        let mut new = new_members(&observed, wanted)?;
        let ids: Vec<u64> = new.keys().copied().collect();
        if !new.is_empty() {
            required.check(plan)?;
        }
        // The list contains the fingerprint of each member's data directory, because only the directory identifies the
        // member.
        for (id, member) in &mut new {
            member.fingerprint = self.directory(*id, &member.raft_addr).await?;
        }
        if !new.is_empty() {
            tracing::info!(?new, "adding members without a vote");
            self.write(ChangeMembers::AddNodes(new), &observed.list).await?;
        }
        for id in &ids {
            self.claim(*id).await?;
        }
        Ok((ids, plan))
    }

    /// Claims `id` for a member in the replicated state, unless the id is already claimed. A claimed id belongs
    /// permanently to one data directory.
    async fn claim(&self, id: u64) -> Result<(), ProposeError> {
        if self.replica.read_members(|_, ids| ids.binary_search(&id).is_ok()) {
            return Ok(());
        }
        // The output is dropped, because it does not matter whether this proposal or an earlier one claimed the id.
        self.proposer.propose_anew(|| self.replica.claim_member_id(id)).await.map(drop)
    }

    /// Returns the fingerprint of the data directory of the store that is to become the member `id`. If the store does
    /// not respond, retries for [`START_TIMEOUT`], because the store may be starting.
    async fn directory(&self, id: u64, addr: &str) -> Result<Fingerprint, ChangeError> {
        let deadline = tokio::time::Instant::now() + START_TIMEOUT;
        loop {
            match self.prober.directory(id, addr).await {
                Ok((directory, reported)) => {
                    let (newest, to) = (self.replica.newest_of(reported), self.replica.format());
                    return if newest < to { Err(Refusal::Outdated { id, newest, to }.into()) } else { Ok(directory) };
                }
                Err(_) if tokio::time::Instant::now() < deadline => tokio::time::sleep(RETRY).await,
                Err(why) => return Err(ChangeError::NotReached { id, addr: addr.to_owned(), why }),
            }
        }
    }

    /// Changes the voters if the plan of the request, made from the current state, has the fingerprint that the request
    /// requires. If the voters are already as requested, the call succeeds with any fingerprint, so that a request can
    /// be repeated after its change was made.
    pub(crate) async fn change(&self, request: &MembershipRequest) -> Result<ChangedVoters, ChangeError> {
        if request.dry_run {
            let (observed, plan) = self.checked(|group| group.plan(request)).await?;
            let fingerprint = self.plan_of_voters(&observed.group, request);
            let voters = match plan {
                Plan::Change { voters, .. } => voters,
                Plan::Nothing | Plan::TransferLeader { .. } => observed.group.voters,
            };
            return Ok(ChangedVoters { voters, changed: false, fingerprint });
        }
        let _one = self.begin()?;
        self.settled().await?;
        let (observed, plan) = self.checked(|group| group.plan(request)).await?;
        let fingerprint = self.plan_of_voters(&observed.group, request);
        if plan != Plan::Nothing {
            request.required.check(fingerprint)?;
        }
        match plan {
            Plan::Nothing => Ok(ChangedVoters { voters: observed.group.voters, changed: false, fingerprint }),
            Plan::TransferLeader { to } => {
                tracing::info!(to, "the leader is to be removed: leadership is transferred first");
                transfer_leader(&self.raft, to, TRANSFER_TIMEOUT).await;
                Err(self.proposer.not_leader().into())
            }
            Plan::Change { promote, demote, drop, voters } => {
                // An id is claimed before its member leaves the group, no matter how the member was added.
                for id in demote.iter().chain(&drop).chain(&promote) {
                    self.claim(*id).await?;
                }
                tracing::info!(?promote, ?demote, ?drop, "changing members");
                let mut list = observed.list;
                if !drop.is_empty() {
                    self.write(ChangeMembers::RemoveNodes(drop), &list).await?;
                    list = self.settled().await?.list;
                }
                if !(promote.is_empty() && demote.is_empty()) {
                    let both = vec![ChangeMembers::AddVoterIds(promote), ChangeMembers::RemoveVoters(demote)];
                    self.write(ChangeMembers::Batch(both), &list).await?;
                }
                tracing::info!(event = EventKind::Members.name(), ?voters, "members changed");
                Ok(ChangedVoters { voters, changed: true, fingerprint })
            }
        }
    }

    /// Transfers leadership to the voter `to`. With `dry_run`, only checks whether this is possible. Returns the id of
    /// the leader after the call, and the fingerprint of the preconditions of the request's plan, computed before the
    /// transfer.
    pub(crate) async fn transfer_to(
        &self,
        to: u64,
        (dry_run, required): (bool, PlanFingerprint),
    ) -> Result<(u64, PlanFingerprint), ChangeError> {
        let _one = if dry_run { None } else { Some(self.begin()?) };
        if !dry_run {
            self.settled().await?;
        }
        let (observed, ()) = self.checked(|group| group.check_successor(to)).await?;
        let plan = self.plan_of_transfer(&observed.group, to);
        if observed.group.leader == to || dry_run {
            return Ok((observed.group.leader, plan));
        }
        required.check(plan)?;
        match transfer_leader(&self.raft, to, TRANSFER_TIMEOUT).await {
            Some(leader) if leader == to => Ok((to, plan)),
            _ => Err(ChangeError::NotTakenOver { to }),
        }
    }

    /// Transfers leadership to the voter with the longest log among the other voters, and returns that voter's id. Also
    /// returns the id if the transfer was sent but this member has not yet received a message of the new leader,
    /// because such messages may be lost.
    pub(crate) async fn transfer_to_any(&self) -> Result<u64, ChangeError> {
        let _one = self.begin()?;
        let observed = self.observe()?;
        let to = observed.group.longest_log(&observed.lags)?;
        transfer_leader(&self.raft, to, STEP_DOWN_TIMEOUT).await;
        Ok(to)
    }

    /// Completes, while this member leads, each change of voters of which an earlier leader wrote only the first of the
    /// two entries. Runs until the future is dropped.
    pub(crate) async fn complete_joint_changes(self) {
        let mut metrics = self.raft.server_metrics();
        loop {
            let joint = metrics.borrow_watched().membership_config.membership().get_joint_config().len() > 1;
            if joint && self.raft.is_leader() {
                let _one = self.one.lock().await;
                if let Err(error) = self.settled().await {
                    tracing::info!(%error, "a change of members could not be completed yet");
                    tokio::time::sleep(RETRY).await;
                }
            } else if metrics.changed().await.is_err() {
                // The Raft library has stopped, and its task logs the reason.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Calls `check` with the group as the leader observes it, and returns the result. If `check` refuses because a
    /// member does not respond, calls it again with the newest observation until the time has passed after which a
    /// member that does not respond no longer counts as live. A new leader may not have received a response from every
    /// member yet.
    pub(super) async fn checked<T>(
        &self,
        check: impl Fn(&Group) -> Result<T, Refusal>,
    ) -> Result<(Observed, T), ChangeError> {
        let deadline = tokio::time::Instant::now() + self.live_within;
        loop {
            let observed = self.observe()?;
            match check(&observed.group) {
                Err(refusal) if refusal.is_for_silence() && tokio::time::Instant::now() < deadline => {
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                result => return Ok((observed, result?)),
            }
        }
    }

    pub(super) fn begin(&self) -> Result<tokio::sync::MutexGuard<'_, ()>, ChangeError> {
        self.one.try_lock().map_err(|_| ChangeError::InProgress)
    }

    /// Completes an unfinished change of voters, and waits until the newest list of members is committed, applied here,
    /// and not joint. Also waits until this member has applied an entry of its own term, because the Raft library
    /// refuses changes until then.
    pub(super) async fn settled(&self) -> Result<Observed, ChangeError> {
        let mut metrics = self.raft.metrics();
        let settling = async {
            loop {
                let observed = self.observe()?;
                let applied = self.replica.last_applied();
                let of_own_term = applied.is_some_and(|id| id.leader_id.term == observed.term);
                if of_own_term && observed.list.log_id().is_some() && *observed.list.log_id() <= applied {
                    if observed.list.membership().get_joint_config().len() == 1 {
                        return Ok(observed);
                    }
                    // A change without ids replaces a joint list by the second of its two sets of voters.
                    self.write(ChangeMembers::AddVoterIds(BTreeSet::new()), &observed.list).await?;
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

    /// Writes one change to the log, if the newest list of members is still `from`.
    async fn write(&self, changes: Changes, from: &StoredMembership) -> Result<(), ChangeError> {
        let last_membership_log_id: Option<LogId> = *from.log_id();
        let conditions = [Precondition::LastMembershipLogId { last_membership_log_id }];
        // A removed voter does not become a learner, because its id must not be used any more.
        let written = self.raft.change_membership_if(changes, false, conditions);
        let late = |_| ProposeError::TimedOut { after: self.commit_timeout };
        match tokio::time::timeout(self.commit_timeout, written).await.map_err(late)? {
            Ok(_) => Ok(()),
            Err(RaftError::APIError(
                ClientWriteError::ChangeMembershipError(ChangeMembershipError::InProgress(_))
                | ClientWriteError::PreconditionFailed(_),
            )) => Err(ChangeError::InProgress),
            Err(error) => Err(self.proposer.read_error(error).into()),
        }
    }
}

/// Returns the members in `wanted` that are not in the group's list yet. Refuses ids, names and addresses that another
/// member has or had.
fn new_members(observed: &Observed, wanted: BTreeMap<u64, Member>) -> Result<BTreeMap<u64, Member>, Refusal> {
    let membership = observed.list.membership();
    let mut new = BTreeMap::new();
    for (id, member) in wanted {
        match membership.get_node(&id) {
            Some(there) if there.is_at(&member) => continue,
            Some(Member { name, addr, .. }) => {
                return Err(Refusal::OtherMember { id, name: name.clone(), addr: addr.clone() });
            }
            None => observed.group.check_new_id(id)?,
        }
        let others = membership.nodes().chain(&new);
        let taken = others.into_iter().find(|(_, there)| there.name == member.name || there.shares_address(&member));
        if let Some((id, Member { name, addr, .. })) = taken {
            return Err(Refusal::Taken { id: *id, name: name.clone(), addr: addr.clone() });
        }
        new.insert(id, member);
    }
    Ok(new)
}

/// Reason why a change was not made or was not completed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    #[error(transparent)]
    StalePlan(#[from] StalePlan),
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Propose(#[from] ProposeError),
    #[error("another change of the set is in progress")]
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
            ChangeError::StalePlan(_) => Reason::StalePlan,
            ChangeError::InProgress => Reason::ChangeInProgress,
            ChangeError::NotReached { .. } => Reason::MemberNotReached,
            ChangeError::NotTakenOver { .. } => Reason::NotTakenOver,
        };
        reason.status(text)
    }
}
