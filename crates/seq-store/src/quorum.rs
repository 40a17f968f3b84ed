//! Whether this member sees a majority: as leader by the voters' acknowledgements, as follower by the messages of its
//! leader.
//!
//! A leader that lost its majority goes on believing that it leads, and a follower that lost its leader goes on naming
//! it: the Raft library deposes neither by itself. What is said here is for probes, operators and logs alone; no entry
//! is committed and no call refused to an AllocSvr because of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use openraft::Instant as _;
use openraft::async_runtime::WatchReceiver;
use openraft::metrics::RaftMetrics;
use parking_lot::Mutex;
use seq_kit::repeats::Repeats;

use crate::config::StoreOptions;
use crate::link_times::RoundTrips;
use crate::types::{Raft, TypeConfig};

type Instant = openraft::type_config::alias::InstantOf<TypeConfig>;

/// Looks in one election time: a change is noticed soon after it happened.
const LOOKS_PER_ELECTION: u32 = 4;

/// What one member sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// It leads, and a majority acknowledged it within an election time.
    Leads,
    /// It leads since less than an election time, and no majority acknowledged it yet.
    Begins,
    /// It leads, and no majority acknowledged it within an election time.
    Alone {
        /// How many vote.
        voters: usize,
        /// Those of them that acknowledged lately, this member among them.
        live: usize,
        /// How long ago a majority last acknowledged.
        lost: Duration,
    },
    /// It follows a leader whose message it received within an election time.
    Follows,
    /// It knows no leader, or received nothing of it within an election time.
    Leaderless {
        /// How long ago it last received something of a leader; `None`: not since it started.
        lost: Option<Duration>,
    },
}

impl Sight {
    pub(crate) fn has_quorum(&self) -> bool {
        matches!(self, Sight::Leads | Sight::Follows)
    }

    /// How long ago a majority was last seen; zero where that is now, or never was.
    pub(crate) fn lost(&self) -> Duration {
        match self {
            Sight::Alone { lost, .. } => *lost,
            Sight::Leaderless { lost } => lost.unwrap_or_default(),
            Sight::Leads | Sight::Begins | Sight::Follows => Duration::ZERO,
        }
    }
}

impl fmt::Display for Sight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sight::Leads => f.write_str("leads"),
            Sight::Follows => f.write_str("follows"),
            Sight::Begins => f.write_str("leads, and no majority has acknowledged it yet"),
            Sight::Alone { voters, live, lost } => {
                let (needed, lost) = (voters / 2 + 1, lost.as_secs_f64());
                write!(f, "no quorum since {lost:.1} s: of {voters} voters {live} respond and {needed} must; ")?;
                f.write_str("nothing can be committed")
            }
            Sight::Leaderless { lost: Some(lost) } => {
                write!(f, "no quorum since {:.1} s: no leader is heard of", lost.as_secs_f64())
            }
            Sight::Leaderless { lost: None } => f.write_str("no leader is known"),
        }
    }
}

/// Looks at one member's Raft. Clones see the same member.
#[derive(Clone)]
pub(crate) struct Quorum {
    raft: Raft,
    set: Arc<str>,
    node: Arc<str>,
    /// The longest election time: a leader that is not acknowledged for as long may have been replaced.
    within: Duration,
    /// What the last look found that the library's metrics do not have.
    noted: Arc<Mutex<Noted>>,
    round_trips: Arc<RoundTrips>,
    /// The longest round trip that the timeouts carry.
    carried: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
struct Noted {
    /// When the member last received a message of its leader.
    heard: Option<Instant>,
    /// Since when it leads, in which term.
    leads: Option<(u64, Instant)>,
}

impl Quorum {
    pub(crate) fn new(
        raft: Raft,
        (set, node): (&str, &str),
        options: &StoreOptions,
        round_trips: Arc<RoundTrips>,
    ) -> Quorum {
        let (set, node) = (set.into(), node.into());
        let (within, carried) = (options.election_max, options.max_round_trip());
        Quorum { raft, set, node, within, noted: Arc::default(), round_trips, carried }
    }

    /// What the member sees now.
    pub(crate) fn sight(&self) -> Sight {
        let metrics = self.raft.metrics().borrow_watched().clone();
        judge(&metrics, *self.noted.lock(), self.within)
    }

    /// The term that the member leads, as far as it knows.
    pub(crate) fn leads(&self) -> Option<u64> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        (metrics.current_leader == Some(metrics.id)).then_some(metrics.current_term)
    }

    /// The member's Raft, its set's name and its own.
    pub(crate) fn of(&self) -> (&Raft, &str, &str) {
        (&self.raft, &self.set, &self.node)
    }

    /// The last measured round trip to a member, on the leader.
    pub(crate) fn round_trip(&self, id: u64) -> Option<Duration> {
        self.round_trips.get(id)
    }

    pub(crate) fn carried(&self) -> Duration {
        self.carried
    }

    /// The members that acknowledged this leader within `within`, itself among them; empty on others.
    pub(crate) fn live(metrics: &RaftMetrics<TypeConfig>, within: Duration) -> BTreeSet<u64> {
        let Some(acknowledged) = &metrics.heartbeat else { return BTreeSet::new() };
        let lately = |at: Option<Instant>| at.is_some_and(|at| at.elapsed() <= within);
        let others = acknowledged.iter().filter(|(_, at)| lately(at.map(|at| *at))).map(|(id, _)| *id);
        others.chain([metrics.id]).collect()
    }

    pub(crate) fn within(&self) -> Duration {
        self.within
    }

    /// Keeps what [`Quorum::sight`] needs, and logs what changes. Runs until it is dropped.
    pub(crate) async fn watch(self) {
        let mut metrics = self.raft.server_metrics();
        let mut log = Log::new(&self);
        let mut tick = tokio::time::interval(self.within / LOOKS_PER_ELECTION);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                // The Raft library has stopped, and its task logs why.
                changed = metrics.changed() => if changed.is_err() { return std::future::pending().await },
            }
            let heard = self.raft.with_raft_state(|state| state.vote_last_modified()).await.ok().flatten();
            let metrics = self.raft.metrics().borrow_watched().clone();
            let leads = (metrics.current_leader == Some(metrics.id)).then_some(metrics.current_term);
            {
                let mut noted = self.noted.lock();
                noted.heard = heard;
                let since = noted.leads.filter(|(term, _)| leads == Some(*term)).map(|(_, since)| since);
                noted.leads = leads.map(|term| (term, since.unwrap_or_else(Instant::now)));
            }
            log.note(&self, &metrics);
        }
    }
}

fn judge(metrics: &RaftMetrics<TypeConfig>, noted: Noted, within: Duration) -> Sight {
    let voters: BTreeSet<u64> = metrics.membership_config.membership().voter_ids().collect();
    let Some(leader) = metrics.current_leader else {
        return Sight::Leaderless { lost: noted.heard.map(|heard| heard.elapsed()) };
    };
    if leader != metrics.id {
        return match noted.heard.map(|heard| heard.elapsed()) {
            Some(since) if since <= within => Sight::Follows,
            lost => Sight::Leaderless { lost },
        };
    }
    if voters.iter().eq([&metrics.id]) {
        return Sight::Leads;
    }
    let acknowledged = metrics.last_quorum_acked.map(|at| at.elapsed());
    let leads = noted.leads.filter(|(term, _)| *term == metrics.current_term).map(|(_, since)| since.elapsed());
    match (acknowledged, leads) {
        (Some(since), _) if since <= within => Sight::Leads,
        (_, None) => Sight::Begins,
        (_, Some(leads)) if leads <= within => Sight::Begins,
        (acknowledged, Some(leads)) => Sight::Alone {
            voters: voters.len(),
            live: Quorum::live(metrics, within).intersection(&voters).count(),
            lost: acknowledged.map_or(leads, |since| since.min(leads)),
        },
    }
}

/// What was logged last, so that only changes are.
struct Log {
    set: Arc<str>,
    node: Arc<str>,
    leader: Option<u64>,
    quorum: bool,
    /// Members that do not respond to this leader, each with how often that was found.
    silent: BTreeMap<u64, (Instant, Repeats)>,
    /// The members of the last look, while this one leads; a leader that begins gives the others time.
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
        let (leader, term) = (metrics.current_leader, metrics.current_term);
        if leader != self.leader {
            let (was, is) = (self.leader == Some(metrics.id), leader == Some(metrics.id));
            match leader {
                _ if is => tracing::info!(set, node, term, "this member leads"),
                Some(leader) if was => tracing::info!(set, node, term, leader, "leadership lost"),
                None if was => tracing::info!(set, node, term, "leadership lost; no leader is known"),
                Some(leader) => tracing::info!(set, node, term, leader, "this member follows a leader"),
                None => tracing::info!(set, node, term, "no leader is known"),
            }
            self.leader = leader;
            self.leads_since = is.then(Instant::now);
        }
        let sight = judge(metrics, *quorum.noted.lock(), quorum.within);
        if sight.has_quorum() != self.quorum && sight != Sight::Begins {
            self.quorum = sight.has_quorum();
            match self.quorum {
                true => tracing::info!(set, node, term, leader, "quorum won"),
                false => tracing::warn!(set, node, term, leader, "quorum lost: {sight}"),
            }
        }
        self.note_members(quorum, metrics);
    }

    /// Members that stop responding to this leader, and that respond again: a line each, and one a minute meanwhile.
    fn note_members(&mut self, quorum: &Quorum, metrics: &RaftMetrics<TypeConfig>) {
        // Twice the election time, as the commands for members count it.
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
                let carried_ms = quorum.carried.as_millis();
                if let Some(trip) = quorum.round_trip(*id).filter(|trip| *trip > quorum.carried)
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
                        carried_ms,
                        repeated,
                        "the round trip to a member is longer than the timeouts carry; see store.preset"
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
        (id, Member { name: format!("s{id}"), addr: format!("h:{id}"), fingerprint: Fingerprint::NONE })
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

    /// A leader acknowledged by each of these members so many milliseconds ago, by a majority `quorum` milliseconds
    /// ago.
    fn leading(quorum: Option<u64>, acknowledged: &[(u64, u64)]) -> RaftMetrics<TypeConfig> {
        let at = |ms| Instant::now() - Duration::from_millis(ms);
        let mut metrics = metrics(Some(1), &[1, 2, 3]);
        metrics.last_quorum_acked = quorum.map(|ms| SerdeInstant::new(at(ms)));
        metrics.heartbeat = Some(acknowledged.iter().map(|(id, ms)| (*id, Some(SerdeInstant::new(at(*ms))))).collect());
        metrics
    }

    fn led(ms: u64) -> Noted {
        let since = Instant::now() - Duration::from_millis(ms);
        Noted { heard: None, leads: Some((7, since)) }
    }

    #[tokio::test]
    async fn a_leader_without_a_majority_says_since_when() {
        let well = leading(Some(80), &[(2, 80), (3, 9_000)]);
        assert_eq!(judge(&well, led(60_000), WITHIN), Sight::Leads);
        let alone = leading(Some(6_000), &[(2, 6_000), (3, 9_000)]);
        let sight = judge(&alone, led(60_000), WITHIN);
        assert!(!sight.has_quorum());
        let text = sight.to_string();
        assert!(text.starts_with("no quorum since 6.0 s: of 3 voters 1 respond and 2 must"), "{text}");
        // A new leader was not acknowledged yet: that is no loss until an election time is over.
        assert_eq!(judge(&leading(None, &[]), led(100), WITHIN), Sight::Begins);
        assert!(matches!(judge(&leading(None, &[]), led(2_000), WITHIN), Sight::Alone { voters: 3, live: 1, .. }));
        assert_eq!(judge(&metrics(Some(1), &[1]), led(60_000), WITHIN), Sight::Leads, "it is a majority alone");
    }

    #[tokio::test]
    async fn a_follower_names_a_leader_only_while_it_receives_from_it() {
        let heard = |ms| Noted { heard: Some(Instant::now() - Duration::from_millis(ms)), leads: None };
        let follower = metrics(Some(2), &[1, 2, 3]);
        assert_eq!(judge(&follower, heard(100), WITHIN), Sight::Follows);
        let lost = judge(&follower, heard(3_000), WITHIN);
        assert_eq!(lost.to_string(), "no quorum since 3.0 s: no leader is heard of");
        assert_eq!(judge(&follower, Noted::default(), WITHIN), Sight::Leaderless { lost: None });
        assert_eq!(judge(&metrics(None, &[1, 2, 3]), Noted::default(), WITHIN).to_string(), "no leader is known");
    }
}
