//! Probes of the other members. From the responses a member learns whether the others' list of members contains its
//! data directory, whether it has acknowledged entries to another member and lost them since, and whether a group
//! exists.
//!
//! A group is formed once, by the store with the lowest id in the set file. This store forms the group only if its own
//! log is empty, and only after every other store in the set file has responded that it belongs to no group and has
//! named its data directory, because the first list of members contains the directory of each member. So a store that
//! is added later never forms a second group, whichever id it has and even if other stores are down at that moment. A
//! store that is started with `--join` never forms a group.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use openraft::errors::{InitializeError, RaftError};
use seq_proto::dial::Dial;
use seq_proto::{status, v1};
use tonic::Code;

use crate::error::StartError;
use crate::eviction::{Eviction, Evictions};
use crate::membership_status::OwnMembership;
use crate::nonce::Fingerprint;
use crate::peer::Peer;
use crate::storage::{Position, Raft};
use crate::transport::client;
use crate::transport::identity::{Identity, PeerRefusal};
use crate::types::Member;

/// Timeout of one probe. All members are probed at the same time, so an unreachable member does not delay the other
/// probes.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Pause between two rounds of probes that a running member makes.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// Pause between two rounds of probes before the group is formed. The pause is short, because the stores of a new group
/// start at about the same time.
const FORM_INTERVAL: Duration = Duration::from_millis(50);

/// Responses to one round of probes.
#[derive(Debug, Default)]
struct Responses {
    /// Addresses of the probed members that did not respond, by Raft id.
    unreached: BTreeMap<u64, String>,
    /// Fingerprints of the data directories that probed members without a group have named, by Raft id.
    directories: BTreeMap<u64, Fingerprint>,
    /// Raft id of a probed member whose group does not include this member.
    unknown_to: Option<u64>,
    /// Raft id of a probed member whose group includes this member.
    member_of: Option<u64>,
    /// Number of probed members that belong to no group.
    groupless: usize,
}

impl Responses {
    /// Returns an error if another member's group does not include this member, unless yet another member's group
    /// includes it. Called only if this member was started without `--join`.
    fn check_member(&self, id: u64) -> Result<(), StartError> {
        match self.unknown_to {
            Some(by) if self.member_of.is_none() => Err(StartError::NotAMember { by, id }),
            _ => Ok(()),
        }
    }
}

/// Probes the members in `others`. `membership` is the number of the newest list of members that names this member.
/// `position` is the end of this member's stored log, if the probed members shall check it.
async fn probe_all(
    me: &Identity,
    membership: u64,
    position: Option<&Position>,
    dial: &Dial,
    others: BTreeMap<u64, String>,
) -> Result<Responses, StartError> {
    let mut responses = Responses::default();
    for (by, response) in client::probe(|to| me.probe(to, membership, position), dial, others.clone(), TIMEOUT).await {
        let response = match response {
            Ok(probed) => probed.response,
            Err(refusal) if refusal.code() == Code::FailedPrecondition && status::reason(&refusal).is_some() => {
                return Err(StartError::Refused { by, why: refusal.message().to_owned() });
            }
            Err(_) => {
                responses.unreached.insert(by, others[&by].clone());
                continue;
            }
        };
        if response.status() == v1::MembershipStatus::Removed {
            let why = PeerRefusal::Removed { cluster: me.cluster.clone(), id: me.id }.to_string();
            return Err(StartError::Removed { by, why });
        }
        match response.status() {
            v1::MembershipStatus::Member => responses.member_of = Some(by),
            v1::MembershipStatus::UnknownMember => responses.unknown_to = Some(by),
            v1::MembershipStatus::NoGroup => {
                responses.groupless += 1;
                responses
                    .directories
                    .extend(Fingerprint::from_bytes(&response.fingerprint).map(|directory| (by, directory)));
            }
            v1::MembershipStatus::Unspecified | v1::MembershipStatus::Removed => {}
        }
    }
    Ok(responses)
}

/// Probes the other members on behalf of this member, whose data directory is empty, before this member makes any
/// durable change. Returns the addresses of the members that could not be reached, by Raft id.
pub(crate) async fn probe_for_fresh(
    me: &Identity,
    dial: &Dial,
    mut stores: BTreeMap<u64, String>,
    join: bool,
) -> Result<BTreeMap<u64, String>, StartError> {
    stores.remove(&me.id);
    let responses = probe_all(me, 0, None, dial, stores).await?;
    if !join {
        responses.check_member(me.id)?;
    }
    Ok(responses.unreached)
}

/// Probes the other members on behalf of this member, whose data directory is not empty, before this member grants any
/// vote. Another member refuses this member if it has received acknowledgements of more entries from this member than
/// `position` states. Does not wait for unreachable members.
pub(crate) async fn probe_for_data(
    me: &Identity,
    position: &Position,
    dial: &Dial,
    mut stores: BTreeMap<u64, String>,
) -> Result<(), StartError> {
    stores.remove(&me.id);
    probe_all(me, 0, Some(position), dial, stores).await.map(drop)
}

/// Prober with which the leader reads the fingerprint of the data directory of a store that is to become a member.
#[derive(Clone)]
pub(crate) struct Prober {
    pub(crate) me: Identity,
    pub(crate) dial: Dial,
}

impl Prober {
    /// Returns the fingerprint of the data directory of store `id`, and the newest format that the store can read.
    ///
    /// # Errors
    /// The reason why the store cannot become a member, or why it did not respond.
    pub(crate) async fn directory(&self, id: u64, addr: &str) -> Result<(Fingerprint, u32), String> {
        let others = [(id, addr.to_owned())];
        let mut responses = client::probe(|to| self.me.probe(to, 0, None), &self.dial, others, TIMEOUT).await;
        let (_, response) = responses.pop().expect("one was probed");
        let response = response.map_err(|refusal| refusal.message().to_owned())?.response;
        let directory = Fingerprint::from_bytes(&response.fingerprint)
            .ok_or_else(|| "it is starting, or belongs to another group already".to_owned())?;
        Ok((directory, response.newest_format))
    }
}

/// Task that forms the group if this member has to form it. Afterwards, the task probes the other members as long as
/// this member has no vote, knows no leader, or has not reached some member since its start.
pub(crate) struct PeerProbe {
    pub(crate) me: Identity,
    pub(crate) dial: Dial,
    pub(crate) raft: Raft,
    pub(crate) peers: Vec<Peer>,
    pub(crate) join: bool,
    /// Addresses of the members that were not reached when this member started with an empty data directory. The member
    /// may run before it reaches them. If the group's list of members contains another data directory for this member's
    /// id, then no other member sends it requests or counts its responses.
    pub(crate) unreached: BTreeMap<u64, String>,
    pub(crate) membership: Arc<OwnMembership>,
    pub(crate) evictions: Evictions,
}

impl PeerProbe {
    /// Runs until the future is dropped. Returns earlier if this member must not continue, because another member
    /// refuses it or the group does not include it.
    pub(crate) async fn run(mut self) {
        if let Err(error) = self.form().await {
            return tracing::error!(error = %error, "this member is not in the store's group");
        }
        loop {
            tokio::time::sleep(PROBE_INTERVAL).await;
            let mut others = std::mem::take(&mut self.unreached);
            if self.is_doubtful() {
                others.extend(self.all_peers());
            }
            if others.is_empty() {
                continue;
            }
            let round = probe_all(&self.me, self.membership.number(), None, &self.dial, others).await;
            let checked = round.and_then(|responses| match self.join {
                true => Ok(responses),
                false => responses.check_member(self.me.id).map(|()| responses),
            });
            match checked {
                // While this member is in doubt, all members are probed anyway.
                Ok(responses) => self.unreached = responses.unreached,
                Err(StartError::Removed { why, .. }) => {
                    self.evictions.send_replace(Some(Eviction::Removed(why)));
                    return std::future::pending().await;
                }
                Err(refusal) => return tracing::error!(error = %refusal, "this member is not in the store's group"),
            }
        }
    }

    /// Forms the group if this member must form it. Waits for the other stores of the set file in this case.
    async fn form(&mut self) -> Result<(), StartError> {
        let failed = |what| StartError::Raft { what };
        let others: BTreeMap<u64, String> = self.others().collect();
        loop {
            if self.raft.is_initialized().await.map_err(|error| failed(error.to_string()))? {
                return Ok(());
            }
            let mut responses = probe_all(&self.me, 0, None, &self.dial, others.clone()).await?;
            self.unreached.retain(|id, _| responses.unreached.contains_key(id));
            if !self.join {
                responses.check_member(self.me.id)?;
            }
            let is_first = self.peers.iter().all(|peer| peer.id >= self.me.id);
            if self.join && responses.groupless > 0 && responses.unknown_to.or(responses.member_of).is_none() {
                tracing::warn!(
                    "stores of the set file are up and belong to no group; start the stores that form it without --join"
                );
            }
            if self.join || !is_first || responses.member_of.is_some() {
                return Ok(());
            }
            if responses.groupless == others.len() && responses.directories.len() == others.len() {
                responses.directories.insert(self.me.id, self.me.fingerprint());
                return form_group(&self.raft, &self.peers, &responses.directories).await.map_err(failed);
            }
            tokio::time::sleep(FORM_INTERVAL).await;
        }
    }

    /// Returns whether this member has no vote or knows no leader. In both cases, it may have been removed from the
    /// group without having received the entry that removed it.
    fn is_doubtful(&self) -> bool {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        let votes = metrics.membership_config.membership().voter_ids().any(|id| id == self.me.id);
        !votes || metrics.current_leader.is_none()
    }

    /// Returns the ids and addresses of the other stores in the set file.
    fn others(&self) -> impl Iterator<Item = (u64, String)> {
        let others = self.peers.iter().filter(|peer| peer.id != self.me.id);
        others.map(|peer| (peer.id, peer.raft_addr.clone()))
    }

    /// Returns the addresses of the other members and of the other stores in the set file, by Raft id. If the list of
    /// members and the set file contain different addresses for an id, returns the address in the set file, because it
    /// is newer.
    fn all_peers(&self) -> BTreeMap<u64, String> {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        let members = metrics.membership_config.membership().nodes().filter(|(id, _)| **id != self.me.id);
        members.map(|(id, member)| (*id, member.raft_addr.clone())).chain(self.others()).collect()
    }
}

/// Forms the group through `raft`, whose log must be empty. All `peers` become voters, with the data directories in
/// `directories`.
async fn form_group(raft: &Raft, peers: &[Peer], directories: &BTreeMap<u64, Fingerprint>) -> Result<(), String> {
    let member = |Peer { id, name, addr, raft_addr }: &Peer| {
        let fingerprint = *directories.get(id).ok_or_else(|| format!("store {id} has named no data directory"))?;
        Ok((*id, Member { name: name.clone(), addr: addr.clone(), raft_addr: raft_addr.clone(), fingerprint }))
    };
    let members = peers.iter().map(member).collect::<Result<BTreeMap<u64, Member>, String>>()?;
    match raft.initialize(members).await {
        Ok(()) => Ok(()),
        // If another member's message has arrived since the check, the group already exists.
        Err(RaftError::APIError(InitializeError::NotAllowed(_))) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
