//! Task with which a member compares its state and its wall clock with the states and wall clocks of the other members.
//! If the member leads, the task marks log entries. After each marked entry, every member computes a digest of its own
//! state. At each interval, it requests the digests and the clocks of the other members and compares them with its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use seq_proto::dial::Dial;
use seq_proto::v1;

use crate::comparison::{Difference, Digests, StateDigest, Verdict, judge};
use crate::encoding;
use crate::eviction::{Eviction, Evictions};
use crate::membership_status::OwnMembership;
use crate::own_clock::OwnClock;
use crate::propose::Proposer;
use crate::storage::{DataDir, Files, Raft, Replica, outvoted};
use crate::transport::client::{self, Probed};
use crate::transport::identity::Identity;

/// Timeout of a request for one other member's digests. A member that does not respond is asked again in the next
/// round.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Task that compares the state of this member with the states of the other members.
pub(crate) struct Comparison {
    pub(crate) me: Identity,
    pub(crate) dial: Dial,
    pub(crate) raft: Raft,
    pub(crate) replica: Arc<dyn Replica>,
    pub(crate) proposer: Proposer,
    /// Addresses of the members' ports for Raft, from the set file. They may be newer than the addresses in the
    /// replicated list of members.
    pub(crate) addrs: BTreeMap<u64, String>,
    pub(crate) membership: Arc<OwnMembership>,
    pub(crate) evictions: Evictions,
    pub(crate) data: DataDir,
    pub(crate) clock: OwnClock,
    /// Interval at which the leader marks entries and each member compares its state.
    pub(crate) interval: Duration,
}

impl Comparison {
    /// Runs until the future is dropped.
    pub(crate) async fn run(self) {
        let digests = self.replica.digests().clone();
        let mut tick = tokio::time::interval(self.interval);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                due = digests.due() => digests.keep(self.blocking(due).await),
                _ = tick.tick() => {
                    self.mark(&digests).await;
                    if let Some(difference) = self.compare(&digests).await {
                        return self.stop(&difference).await;
                    }
                }
            }
        }
    }

    /// Proposes a marked entry if this member leads a group of several members and has applied an entry since the last
    /// marked entry.
    async fn mark(&self, digests: &Digests) {
        let last = digests.kept().last().map(|digest| digest.index);
        let applied = self.replica.last_applied().map(|id| id.index);
        if applied == last || !self.raft.is_leader() || self.members().1.is_empty() {
            return;
        }
        if let Err(error) = self.proposer.propose(encoding::write_raise(self.replica.format())).await {
            tracing::debug!(%error, "no entry is marked for a comparison now");
        }
    }

    /// Requests the digests and the clocks of the other members, and records the results. If a majority of the voters
    /// has another state than this member, returns the difference between the members' states.
    async fn compare(&self, digests: &Digests) -> Option<Difference> {
        let (voters, others) = self.members();
        if others.is_empty() {
            return None;
        }
        let mine = digests.kept();
        let (id, number) = (self.me.id, self.membership.number());
        let wire: Vec<v1::StateDigest> = mine.iter().map(|digest| digest.into_wire()).collect();
        let request = |to| v1::ProbeRequest { digests: wire.clone(), ..self.me.probe(to, number, None) };
        let responses = client::probe(request, &self.dial, others, TIMEOUT).await;
        let probed = responses.into_iter().filter_map(|(id, probed)| Some((id, probed.ok()?)));
        let (clocks, read): (Vec<_>, Vec<_>) =
            probed.map(|(id, Probed { response, clock })| (clock, (id, StateDigest::read(response.digests)))).unzip();
        self.clock.note(clocks.into_iter().flatten());
        let all: BTreeMap<u64, Vec<StateDigest>> = read.into_iter().chain([(id, mine)]).collect();
        if let outvoted @ Verdict::Outvoted(_) = judge(id, &voters, &all) {
            digests.note(&outvoted);
            return digests.difference();
        }
        digests.note(&judge(id, &voters, &digests.with_heard(all)));
        None
    }

    /// Returns the Raft ids of the voters, and the addresses of the members other than this member.
    fn members(&self) -> (BTreeSet<u64>, BTreeMap<u64, String>) {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        let membership = metrics.membership_config.membership();
        let others = membership.nodes().filter(|(id, _)| **id != self.me.id);
        let addr = |id: &u64, listed: &String| self.addrs.get(id).unwrap_or(listed).clone();
        (membership.voter_ids().collect(), others.map(|(id, member)| (*id, addr(id, &member.raft_addr))).collect())
    }

    /// Marks this member's data directory as outvoted, so that the member cannot be started again with the state in it,
    /// and stops the member.
    async fn stop(&self, difference: &Difference) {
        let (files, text) = (Files::of(&self.data), difference.to_string());
        let written = self.blocking(move || outvoted::mark(&files, &text)).await;
        if let Err(error) = written {
            tracing::error!(%error, "the data directory cannot be marked; do not start this member again");
        }
        self.evictions.send_replace(Some(Eviction::Outvoted(difference.to_string())));
        std::future::pending().await
    }

    /// Runs work that takes some milliseconds on a thread outside the async runtime. In a simulation, which has only
    /// one thread, runs the work on this thread.
    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        match self.data {
            DataDir::Memory(_) => work(),
            DataDir::Path(_) => match tokio::task::spawn_blocking(work).await {
                Ok(done) => done,
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            },
        }
    }
}
