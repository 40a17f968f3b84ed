//! Introductions: a member asks the others whether their list of members names its data directory, whether it still has
//! what it acknowledged, and whether there is a group.
//!
//! A group is formed once, by the store with the lowest id of the set file, with an empty log, and only after every
//! other store of the file has answered that it belongs to none and has named its data directory: the first list of
//! members names the directory of each. So a store that is added later never forms a second group beside the first one,
//! whatever its id, and whichever others are down at that moment. One that is told to join never forms any.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use seq_core::set_spec::StoreSpec;
use seq_proto::dial::Dial;
use seq_proto::{status, v1};
use tonic::Code;

use crate::bootstrap;
use crate::network::{self, Disowned, Disownment};
use crate::nonce::Fingerprint;
use crate::peers::{Identity, PeerRefusal};
use crate::standing::OwnStanding;
use crate::storage::Position;
use crate::store::StartError;
use crate::types::Raft;

/// How long the others are asked. One that cannot be reached is not waited for.
const TIMEOUT: Duration = Duration::from_secs(1);

/// How often a member asks again that has a reason to.
const AGAIN: Duration = Duration::from_secs(1);

/// How often the others are asked whether a group can be formed: they start at about the same time.
const FORM_AGAIN: Duration = Duration::from_millis(50);

/// What the others answered.
#[derive(Debug, Default)]
struct Answers {
    /// Those that did not.
    unasked: BTreeMap<u64, String>,
    /// The data directories of those that belong to no group and have one for good.
    directories: BTreeMap<u64, Fingerprint>,
    /// One that belongs to a group which this member is not of.
    stranger_to: Option<u64>,
    /// One that has this member in its group, or hears of a newer list that does.
    member_of: Option<u64>,
    /// How many belong to no group.
    groupless: usize,
}

impl Answers {
    /// Whoever is asked to start, and not to join, must be a member where there is a group.
    fn check_member(&self, id: u64) -> Result<(), StartError> {
        match self.stranger_to {
            Some(by) if self.member_of.is_none() => Err(StartError::NotAMember { by, id }),
            _ => Ok(()),
        }
    }
}

/// Asks others. `membership` is the number of the newest list of members that names this one.
async fn ask(
    me: &Identity,
    membership: u64,
    position: Option<&Position>,
    dial: &Dial,
    others: BTreeMap<u64, String>,
) -> Result<Answers, StartError> {
    let mut answers = Answers::default();
    for (by, answer) in network::hello(me, membership, position, dial, others.clone(), TIMEOUT).await {
        let answer = match answer {
            Ok(answer) => answer,
            Err(refusal) if refusal.code() == Code::FailedPrecondition && status::reason(&refusal).is_some() => {
                return Err(StartError::Refused { by, why: refusal.message().to_owned() });
            }
            Err(_) => {
                answers.unasked.insert(by, others[&by].clone());
                continue;
            }
        };
        if answer.standing() == v1::Standing::Removed {
            let why = PeerRefusal::Removed { cluster: me.cluster.clone(), id: me.id }.to_string();
            return Err(StartError::Removed { by, why });
        }
        match answer.standing() {
            v1::Standing::Member => answers.member_of = Some(by),
            v1::Standing::Stranger => answers.stranger_to = Some(by),
            v1::Standing::NoGroup => {
                answers.groupless += 1;
                answers
                    .directories
                    .extend(Fingerprint::from_bytes(&answer.fingerprint).map(|directory| (by, directory)));
            }
            v1::Standing::Unspecified | v1::Standing::Removed => {}
        }
    }
    Ok(answers)
}

/// Introduces an empty directory to the stores of a set file, before anything durable is made; answers those that could not
/// be asked.
pub(crate) async fn introduce(
    me: &Identity,
    dial: &Dial,
    mut stores: BTreeMap<u64, String>,
    join: bool,
) -> Result<BTreeMap<u64, String>, StartError> {
    stores.remove(&me.id);
    let answers = ask(me, 0, None, dial, stores).await?;
    if !join {
        answers.check_member(me.id)?;
    }
    Ok(answers.unasked)
}

/// Introduces a directory with data, before any vote is given: a member that remembers more than it has refuses it.
/// Those that cannot be asked are not waited for.
pub(crate) async fn reintroduce(
    me: &Identity,
    position: &Position,
    dial: &Dial,
    mut stores: BTreeMap<u64, String>,
) -> Result<(), StartError> {
    stores.remove(&me.id);
    ask(me, 0, Some(position), dial, stores).await.map(drop)
}

/// Asks a store that is to become a member which data directory it has.
#[derive(Clone)]
pub(crate) struct Prober {
    pub(crate) me: Identity,
    pub(crate) dial: Dial,
}

impl Prober {
    /// The fingerprint of the data directory of store `id`.
    ///
    /// # Errors
    /// Why it cannot become a member.
    pub(crate) async fn directory(&self, id: u64, addr: &str) -> Result<Fingerprint, String> {
        let others = [(id, addr.to_owned())];
        let mut answers = network::hello(&self.me, 0, None, &self.dial, others, TIMEOUT).await;
        let (_, answer) = answers.pop().expect("one was asked");
        let answer = answer.map_err(|refusal| refusal.message().to_owned())?;
        Fingerprint::from_bytes(&answer.fingerprint)
            .ok_or_else(|| "it is starting, or belongs to another group already".to_owned())
    }
}

/// Goes on asking as long as there is a reason.
pub(crate) struct Greeter {
    pub(crate) me: Identity,
    pub(crate) dial: Dial,
    pub(crate) raft: Raft,
    pub(crate) stores: Vec<StoreSpec>,
    pub(crate) join: bool,
    /// Those that could not be asked about an empty directory at the start. Meanwhile no harm is done: where the list
    /// of members names another directory, neither a request reaches this one nor does a response of it count.
    pub(crate) unasked: BTreeMap<u64, String>,
    pub(crate) standing: Arc<OwnStanding>,
    pub(crate) disowned: Disowned,
}

impl Greeter {
    /// Runs until it is dropped; ends when this member may not go on.
    pub(crate) async fn run(mut self) {
        if let Err(error) = self.form().await {
            return tracing::error!(error = %error, "this member has no place in the store");
        }
        loop {
            tokio::time::sleep(AGAIN).await;
            let mut others = std::mem::take(&mut self.unasked);
            if self.is_in_doubt() {
                others.extend(self.everybody());
            }
            if others.is_empty() {
                continue;
            }
            let answered = ask(&self.me, self.standing.number(), None, &self.dial, others).await;
            let checked = answered.and_then(|answers| match self.join {
                true => Ok(answers),
                false => answers.check_member(self.me.id).map(|()| answers),
            });
            match checked {
                // In doubt all are asked again anyway.
                Ok(answers) => self.unasked = answers.unasked,
                Err(StartError::Removed { why, .. }) => {
                    self.disowned.send_replace(Some(Disownment::Removed(why)));
                    return std::future::pending().await;
                }
                Err(refusal) => return tracing::error!(error = %refusal, "this member has no place in the store"),
            }
        }
    }

    /// Forms the group, where that is this member's to do.
    async fn form(&mut self) -> Result<(), StartError> {
        let failed = |what| StartError::Raft { what };
        let others: BTreeMap<u64, String> = self.others().collect();
        loop {
            if self.raft.is_initialized().await.map_err(|error| failed(error.to_string()))? {
                return Ok(());
            }
            let mut answers = ask(&self.me, 0, None, &self.dial, others.clone()).await?;
            self.unasked.retain(|id, _| answers.unasked.contains_key(id));
            if !self.join {
                answers.check_member(self.me.id)?;
            }
            let is_first = self.stores.iter().all(|store| store.id >= self.me.id);
            if self.join && answers.groupless > 0 && answers.stranger_to.or(answers.member_of).is_none() {
                tracing::warn!(
                    "stores of the set file are up and of no group; start those that form it without --join"
                );
            }
            if self.join || !is_first || answers.member_of.is_some() {
                return Ok(());
            }
            if answers.groupless == others.len() && answers.directories.len() == others.len() {
                answers.directories.insert(self.me.id, self.me.fingerprint());
                return bootstrap::form_group(&self.raft, &self.stores, &answers.directories).await.map_err(failed);
            }
            tokio::time::sleep(FORM_AGAIN).await;
        }
    }

    /// Without a vote or a leader, a member may have been removed without hearing of it.
    fn is_in_doubt(&self) -> bool {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        let votes = metrics.membership_config.membership().voter_ids().any(|id| id == self.me.id);
        !votes || metrics.current_leader.is_none()
    }

    /// The other stores of the set file.
    fn others(&self) -> impl Iterator<Item = (u64, String)> {
        let others = self.stores.iter().filter(|store| store.id != self.me.id);
        others.map(|store| (store.id, store.addr.clone()))
    }

    /// The other members, and the other stores of the set file, whose addresses are newer.
    fn everybody(&self) -> BTreeMap<u64, String> {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        let members = metrics.membership_config.membership().nodes().filter(|(id, _)| **id != self.me.id);
        members.map(|(id, member)| (*id, member.addr.clone())).chain(self.others()).collect()
    }
}
