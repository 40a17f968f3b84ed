//! Detection of whether this member is connected to a majority of the voters. A leader uses the acknowledgements of the
//! voters for this, and a follower uses the messages of its leader.
//!
//! The Raft library does not report the loss of a majority. A leader without a majority still reports that it leads,
//! and a follower that no longer reaches its leader still reports that leader. The status in this module is only for
//! probes, operators, logs and the refusal of requests that could not be committed. The correctness of commits does not
//! depend on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use openraft::Instant as _;
use openraft::async_runtime::WatchReceiver;
use openraft::metrics::RaftMetrics;
use parking_lot::Mutex;
use seq_api::node_events::NodeEvents;
use seq_core::node_events::Fact;
use seq_core::state::EventKind;
use seq_kit::repeats::Repeats;

use crate::options::RaftOptions;
use crate::storage::Raft;
use crate::transport::link::RoundTrips;
use crate::types::TypeConfig;

type Instant = openraft::type_config::alias::InstantOf<TypeConfig>;

/// Number of checks in one election timeout. It is large enough for a change of the status to be noticed soon.
const CHECKS_PER_ELECTION: u32 = 4;

/// State of one member's connection to a majority of the voters. A leader is connected directly, and a follower through
/// its leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuorumStatus {
    /// The member leads, and a majority of the voters has acknowledged its leadership within the last election timeout.
    Leads,
    /// The member began to lead less than an election timeout ago, and no majority has acknowledged its leadership yet.
    Begins,
    /// The member leads, but no majority has acknowledged its leadership within the last election timeout.
    NoMajority {
        /// Number of voters.
        voters: usize,
        /// Number of voters that acknowledged within the last election timeout, including this member.
        live: usize,
        /// Time since a majority last acknowledged the member's leadership.
        lost: Duration,
    },
    /// The member is a follower and has received a message of its leader within the last election timeout.
    Follows,
    /// The member knows no leader, or has received no message of its leader within the last election timeout.
    Leaderless {
        /// Time since the last message of a leader; `None` if no leader has sent a message since the member started.
        lost: Option<Duration>,
    },
}

impl QuorumStatus {
    /// Returns whether this member leads with a majority, or follows a leader whose messages arrive.
    #[must_use]
    pub fn has_quorum(&self) -> bool {
        matches!(self, QuorumStatus::Leads | QuorumStatus::Follows)
    }

    /// Returns whether the member takes part in an election that began less than an election timeout ago, `within`. A
    /// planned transfer of leadership is such an election, and the majority is not lost by it.
    fn is_election(&self, within: Duration) -> bool {
        match self {
            QuorumStatus::Begins => true,
            QuorumStatus::Leaderless { lost } => lost.is_some_and(|lost| lost <= within),
            QuorumStatus::Leads | QuorumStatus::NoMajority { .. } | QuorumStatus::Follows => false,
        }
    }

    /// Returns the time for which the member has had no majority. The time is zero if it has a majority now, or if it
    /// never had a majority or a leader since its start.
    #[must_use]
    pub fn lost(&self) -> Duration {
        match self {
            QuorumStatus::NoMajority { lost, .. } => *lost,
            QuorumStatus::Leaderless { lost } => lost.unwrap_or_default(),
            QuorumStatus::Leads | QuorumStatus::Begins | QuorumStatus::Follows => Duration::ZERO,
        }
    }
}

impl fmt::Display for QuorumStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QuorumStatus::Leads => f.write_str("leads"),
            QuorumStatus::Follows => f.write_str("follows"),
            QuorumStatus::Begins => f.write_str("leads, and no majority has acknowledged it yet"),
            QuorumStatus::NoMajority { voters, live, lost } => {
                let (needed, lost) = (voters / 2 + 1, lost.as_secs_f64());
                write!(f, "no quorum since {lost:.1} s: of {voters} voters {live} respond and {needed} must; ")?;
                f.write_str("nothing can be committed")
            }
            QuorumStatus::Leaderless { lost: Some(lost) } => {
                write!(f, "no quorum since {:.1} s: no message of a leader arrives", lost.as_secs_f64())
            }
            QuorumStatus::Leaderless { lost: None } => f.write_str("no leader is known"),
        }
    }
}

/// Observer of one member's connection to a majority. Clones observe the same member.
#[derive(Clone)]
pub(crate) struct Quorum {
    raft: Raft,
    set: Arc<str>,
    node: Arc<str>,
    /// Longest election timeout. If no majority has acknowledged a leader for this time, the other voters may have
    /// elected another leader.
    within: Duration,
    /// Results of the last check in [`Quorum::watch`], which are not in the Raft library's metrics.
    noted: Arc<Mutex<Noted>>,
    round_trips: Arc<RoundTrips>,
    /// Longest round trip between two members with which the configured timeouts work.
    max_round_trip: Duration,
    events: NodeEvents,
}

#[derive(Clone, Copy, Debug, Default)]
struct Noted {
    /// Time at which the last message of the member's leader arrived.
    received: Option<Instant>,
    /// Term in which the member leads, and the time at which it began to lead; `None` if it does not lead.
    leads: Option<(u64, Instant)>,
}

impl Quorum {
    pub(crate) fn new(
        raft: Raft,
        (set, node): (&str, &str),
        options: &RaftOptions,
        round_trips: Arc<RoundTrips>,
        events: NodeEvents,
    ) -> Quorum {
        let (set, node) = (set.into(), node.into());
        let (within, max_round_trip) = (options.election_max, options.max_round_trip());
        Quorum { raft, set, node, within, noted: Arc::default(), round_trips, max_round_trip, events }
    }

    /// Returns the member's current status.
    pub(crate) fn status(&self) -> QuorumStatus {
        let metrics = self.raft.metrics().borrow_watched().clone();
        status_of(&metrics, *self.noted.lock(), self.within)
    }

    /// Returns the term in which the member leads, as far as it knows, or `None` if it does not lead.
    pub(crate) fn leads(&self) -> Option<u64> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        (metrics.current_leader == Some(metrics.id)).then_some(metrics.current_term)
    }

    /// Returns the name of the set and the name of the member, for metrics and logs.
    pub(crate) fn names(&self) -> (&str, &str) {
        (&self.set, &self.node)
    }

    /// Returns the last round trip to the member `id` that this member measured while it led.
    pub(crate) fn round_trip(&self, id: u64) -> Option<Duration> {
        self.round_trips.get(id)
    }

    pub(crate) fn max_round_trip(&self) -> Duration {
        self.max_round_trip
    }

    /// Returns the ids of this leader and of the members that acknowledged it within the time `within`. If this member
    /// is a follower, the result is empty.
    pub(crate) fn live(metrics: &RaftMetrics<TypeConfig>, within: Duration) -> BTreeSet<u64> {
        let Some(acknowledged) = &metrics.heartbeat else { return BTreeSet::new() };
        let lately = |at: Option<Instant>| at.is_some_and(|at| at.elapsed() <= within);
        let others = acknowledged.iter().filter(|(_, at)| lately(at.map(|at| *at))).map(|(id, _)| *id);
        others.chain([metrics.id]).collect()
    }

    pub(crate) fn within(&self) -> Duration {
        self.within
    }

    /// Updates the values from which [`Quorum::status`] computes the status, and logs changes of the status. Runs until
    /// the future is dropped.
    pub(crate) async fn watch(self) {
        let mut metrics = self.raft.server_metrics();
        let mut log = Log::new(&self);
        // The vote that was loaded at the start also has a time in the metrics, although no message arrived at that
        // time.
        let mut loaded = None;
        let mut first = true;
        let mut tick = tokio::time::interval(self.within / CHECKS_PER_ELECTION);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                // The Raft library has stopped, and its task logs the reason.
                changed = metrics.changed() => if changed.is_err() { return std::future::pending().await },
            }
            let received = self.raft.with_raft_state(|state| state.vote_last_modified()).await.ok().flatten();
            if std::mem::take(&mut first) {
                loaded = received;
            }
            let received = received.filter(|_| received != loaded);
            let metrics = self.raft.metrics().borrow_watched().clone();
            let leads = (metrics.current_leader == Some(metrics.id)).then_some(metrics.current_term);
            {
                let mut noted = self.noted.lock();
                noted.received = received;
                let since = noted.leads.filter(|(term, _)| leads == Some(*term)).map(|(_, since)| since);
                noted.leads = leads.map(|term| (term, since.unwrap_or_else(Instant::now)));
            }
            log.note(&self, &metrics);
        }
    }
}

fn status_of(metrics: &RaftMetrics<TypeConfig>, noted: Noted, within: Duration) -> QuorumStatus {
    let voters: BTreeSet<u64> = metrics.membership_config.membership().voter_ids().collect();
    let Some(leader) = metrics.current_leader else {
        return QuorumStatus::Leaderless { lost: noted.received.map(|received| received.elapsed()) };
    };
    if leader != metrics.id {
        return match noted.received.map(|received| received.elapsed()) {
            Some(since) if since <= within => QuorumStatus::Follows,
            lost => QuorumStatus::Leaderless { lost },
        };
    }
    if voters.iter().eq([&metrics.id]) {
        return QuorumStatus::Leads;
    }
    let acknowledged = metrics.last_quorum_acked.map(|at| at.elapsed());
    let leads = noted.leads.filter(|(term, _)| *term == metrics.current_term).map(|(_, since)| since.elapsed());
    match (acknowledged, leads) {
        (Some(since), _) if since <= within => QuorumStatus::Leads,
        (_, None) => QuorumStatus::Begins,
        (_, Some(leads)) if leads <= within => QuorumStatus::Begins,
        (acknowledged, Some(leads)) => QuorumStatus::NoMajority {
            voters: voters.len(),
            live: Quorum::live(metrics, within).intersection(&voters).count(),
            lost: acknowledged.map_or(leads, |since| since.min(leads)),
        },
    }
}

/// Values that were last logged, so that only changes are logged.
struct Log {
    set: Arc<str>,
    node: Arc<str>,
    leader: Option<u64>,
    quorum: bool,
    /// Members that do not respond to this leader. For each, the map has the time at which its silence was first
    /// noticed, and the counter that limits how often its log line is repeated.
    silent: BTreeMap<u64, (Instant, Repeats)>,
    /// Time at which this member began to lead. Members that do not respond are logged only two election timeouts
    /// later, because they need time to respond to a new leader.
    leads_since: Option<Instant>,
    slow: BTreeMap<u64, Repeats>,
}

impl Log {
    fn new(quorum: &Quorum) -> Log {
        let (set, node) = (quorum.set.clone(), quorum.node.clone());
        Log {
            set,
            node,
            leader: None,
            quorum: false,
            silent: BTreeMap::new(),
            leads_since: None,
            slow: BTreeMap::new(),
        }
    }

    fn note(&mut self, quorum: &Quorum, metrics: &RaftMetrics<TypeConfig>) {
        let (set, node) = (&*self.set, &*self.node);
        // A member that has just started knows the leader from before its start, which may have stopped since.
        let received = quorum.noted.lock().received.is_some();
        let leader = metrics.current_leader.filter(|leader| received || *leader == metrics.id);
        let term = metrics.current_term;
        if leader != self.leader {
            let (was, is) = (self.leader == Some(metrics.id), leader == Some(metrics.id));
            match leader {
                _ if is => tracing::info!(event = EventKind::Leader.name(), set, node, term, "this member leads"),
                Some(leader) if was => tracing::info!(set, node, term, leader, "leadership lost"),
                None if was => tracing::info!(set, node, term, "leadership lost; no leader is known"),
                Some(leader) => tracing::info!(set, node, term, leader, "this member follows a leader"),
                None => tracing::info!(set, node, term, "no leader is known"),
            }
            self.leader = leader;
            self.leads_since = is.then(Instant::now);
        }
        let status = status_of(metrics, *quorum.noted.lock(), quorum.within);
        if status.has_quorum() != self.quorum && !status.is_election(quorum.within) {
            self.quorum = status.has_quorum();
            let event = quorum.events.note(Fact::Quorum { holds: self.quorum, status: &status.to_string() });
            match self.quorum {
                true => tracing::info!(event, set, node, term, leader, "quorum won"),
                false => tracing::warn!(event, set, node, term, leader, "quorum lost: {status}"),
            }
        }
        self.note_members(quorum, metrics);
    }

    /// Logs each member that stops responding to this leader, and each such member that responds again. While a member
    /// does not respond, repeats its log line each minute.
    fn note_members(&mut self, quorum: &Quorum, metrics: &RaftMetrics<TypeConfig>) {
        // Twice the election timeout; the commands that change members use the same time.
        let within = quorum.within * 2;
        if self.leads_since.is_none_or(|since| since.elapsed() < within) {
            if self.leads_since.is_none() {
                self.silent.clear();
            }
            return;
        }
        let (set, node) = (&*self.set, &*self.node);
        let live = Quorum::live(metrics, within);
        for (id, member) in metrics.membership_config.membership().nodes() {
            let (store, addr) = (&member.name, &member.addr);
            if live.contains(id) {
                if let Some((since, _)) = self.silent.remove(id) {
                    let seconds = since.elapsed().as_secs();
                    tracing::info!(set, node, id, store, addr, seconds, "a member of the store responds again");
                }
                let max_round_trip_ms = quorum.max_round_trip.as_millis();
                if let Some(trip) = quorum.round_trip(*id).filter(|trip| *trip > quorum.max_round_trip)
                    && let Some(repeated) = self.slow.entry(*id).or_default().admit()
                {
                    let trip_ms = trip.as_millis();
                    tracing::warn!(
                        set,
                        node,
                        id,
                        store,
                        addr,
                        trip_ms,
                        max_round_trip_ms,
                        repeated,
                        "the round trip to a member is longer than the timeouts allow; see store.preset"
                    );
                }
                continue;
            }
            let (since, repeats) = self.silent.entry(*id).or_insert_with(|| (Instant::now(), Repeats::default()));
            if let Some(repeated) = repeats.admit() {
                let seconds = since.elapsed().as_secs();
                tracing::warn!(set, node, id, store, addr, seconds, repeated, "a member of the store does not respond");
            }
        }
        self.silent.retain(|id, _| metrics.membership_config.membership().get_node(id).is_some());
    }
}

#[cfg(test)]
mod tests {
    use openraft::metrics::SerdeInstant;
    use openraft::{Membership, StoredMembership};

    use super::*;
    use crate::nonce::Fingerprint;
    use crate::types::Member;

    const WITHIN: Duration = Duration::from_millis(500);

    fn member(id: u64) -> (u64, Member) {
        (
            id,
            Member {
                name: format!("s{id}"),
                addr: format!("h:{id}"),
                raft_addr: format!("h:1{id}"),
                fingerprint: Fingerprint::NONE,
            },
        )
    }

    fn metrics(leader: Option<u64>, voters: &[u64]) -> RaftMetrics<TypeConfig> {
        let mut metrics = RaftMetrics::new_initial(1);
        let nodes: BTreeMap<u64, Member> = voters.iter().map(|id| member(*id)).collect();
        let list = Membership::new(vec![voters.iter().copied().collect()], nodes).unwrap();
        metrics.membership_config = Arc::new(StoredMembership::new(None, list));
        metrics.current_leader = leader;
        metrics.current_term = 7;
        metrics
    }

    /// Returns the metrics of a leader. A majority acknowledged it `quorum` milliseconds ago, and each member in
    /// `acknowledged` did so the given number of milliseconds ago.
    fn leading(quorum: Option<u64>, acknowledged: &[(u64, u64)]) -> RaftMetrics<TypeConfig> {
        let at = |ms| Instant::now() - Duration::from_millis(ms);
        let mut metrics = metrics(Some(1), &[1, 2, 3]);
        metrics.last_quorum_acked = quorum.map(|ms| SerdeInstant::new(at(ms)));
        metrics.heartbeat = Some(acknowledged.iter().map(|(id, ms)| (*id, Some(SerdeInstant::new(at(*ms))))).collect());
        metrics
    }

    fn led(ms: u64) -> Noted {
        let since = Instant::now() - Duration::from_millis(ms);
        Noted { received: None, leads: Some((7, since)) }
    }

    #[tokio::test]
    async fn a_leader_without_a_majority_reports_since_when() {
        let well = leading(Some(80), &[(2, 80), (3, 9_000)]);
        assert_eq!(status_of(&well, led(60_000), WITHIN), QuorumStatus::Leads);
        let alone = leading(Some(6_000), &[(2, 6_000), (3, 9_000)]);
        let status = status_of(&alone, led(60_000), WITHIN);
        assert!(!status.has_quorum());
        let text = status.to_string();
        assert!(text.starts_with("no quorum since 6.0 s: of 3 voters 1 respond and 2 must"), "{text}");
        // A new leader is not acknowledged yet, which counts as a loss only after an election time.
        assert_eq!(status_of(&leading(None, &[]), led(100), WITHIN), QuorumStatus::Begins);
        assert!(matches!(
            status_of(&leading(None, &[]), led(2_000), WITHIN),
            QuorumStatus::NoMajority { voters: 3, live: 1, .. }
        ));
        assert_eq!(
            status_of(&metrics(Some(1), &[1]), led(60_000), WITHIN),
            QuorumStatus::Leads,
            "it is a majority alone"
        );
    }

    #[tokio::test]
    async fn a_follower_names_a_leader_only_while_it_receives_from_it() {
        let received = |ms| Noted { received: Some(Instant::now() - Duration::from_millis(ms)), leads: None };
        let follower = metrics(Some(2), &[1, 2, 3]);
        assert_eq!(status_of(&follower, received(100), WITHIN), QuorumStatus::Follows);
        let election = status_of(&metrics(None, &[1, 2, 3]), received(100), WITHIN);
        assert!(!election.has_quorum() && election.is_election(WITHIN), "{election}");
        let lost = status_of(&follower, received(3_000), WITHIN);
        assert!(!lost.is_election(WITHIN), "{lost}");
        assert_eq!(lost.to_string(), "no quorum since 3.0 s: no message of a leader arrives");
        assert_eq!(status_of(&follower, Noted::default(), WITHIN), QuorumStatus::Leaderless { lost: None });
        assert_eq!(status_of(&metrics(None, &[1, 2, 3]), Noted::default(), WITHIN).to_string(), "no leader is known");
    }
}
