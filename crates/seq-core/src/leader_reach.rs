//! Decides when a leader that no AllocSvr reaches transfers leadership to another member of the store.
//!
//! If AllocSvrs cannot connect to the leader, but the followers can, the followers forward the calls of the AllocSvrs
//! to the leader. If the followers cannot connect to the leader either, although the leader's own connections to them
//! work, the leader keeps its majority, but no lease is renewed and no ceiling is raised. The other members cannot
//! detect this, because the leader's heartbeats still arrive.
//!
//! **Invariant:** stopped AllocSvrs cause no transfers of leadership. A leader keeps leadership for longer than its
//! arbiter takes to count a stopped incarnation as dead, and does not transfer leadership while no incarnation is live.
//!
//! The caller reads the clock, counts the calls that the member receives from AllocSvrs, and makes the transfer.

use core::time::Duration;

use crate::arbiter::Plan;
use crate::state::State;

/// Divisor of the lease. If a leader receives no call for the lease divided by this number, it counts as not reached.
/// Half a lease is two and a half default renewal intervals, and longer than any renewal interval that the rule
/// `renew_interval * 3 < lease` allows. The other half of the lease is enough for the AllocSvrs to find the next
/// leader.
const SILENCES_PER_LEASE: u32 = 2;

/// Shortest time for which a leader keeps leadership, as a number of the arbiter's waits. After the first wait, stopped
/// incarnations no longer count as live. The second wait is added because the arbiter may begin later than the
/// leadership.
const WAITS_OF_TENURE: u32 = 2;

/// Shortest time between two transfers of leadership by the same member, as a number of the arbiter's waits. So even if
/// AllocSvrs reach no member of the store, leadership moves only a few times a minute.
const WAITS_BETWEEN_TRANSFERS: u32 = 12;

/// The inputs of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The term that the member leads; `None` while the member does not lead.
    pub term: Option<u64>,
    /// Whether a majority of the members recently acknowledged this member's leadership. Without a majority no other
    /// member can become the leader.
    pub quorum: bool,
    /// Number of calls of AllocSvrs that the member has received so far.
    pub calls: u64,
    /// The live incarnations; `None` if there are none.
    pub live: Option<Live>,
}

/// Leases of the live incarnations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// The longest lease of any live incarnation.
    pub lease: Duration,
    /// The arbiter's wait for an incarnation with that lease.
    pub wait: Duration,
}

impl Live {
    /// Returns the longest lease of the plan's live nodes, and the arbiter's wait for it. Nodes that are about to exit
    /// are left out, because they soon send no more renewals. Returns `None` if no node is left.
    #[must_use]
    pub fn of(state: &State, plan: &Plan) -> Option<Live> {
        let staying = plan.living.iter().filter_map(|id| state.node(*id)).filter(|node| !node.leaving);
        let lease = staying.map(|node| node.lease).max()?;
        Some(Live { lease, wait: state.terms().wait_for(lease) })
    }
}

/// Decides when leadership is transferred.
#[derive(Debug, Default)]
pub struct LeaderReach {
    /// The term that the member leads, and the time when this object first observed that the member leads this term.
    leads: Option<(u64, Duration)>,
    calls: u64,
    /// Latest time at which a call had arrived, the member did not lead, or no incarnation was live.
    silent_since: Duration,
    /// Time when this member last transferred leadership.
    transferred: Option<Duration>,
}

impl LeaderReach {
    /// Evaluates the inputs at the time `now` of a monotonic clock. If the member should transfer leadership, returns
    /// the time for which the member has received no call. Further evaluations also return this time, until
    /// [`LeaderReach::transferred`] is called.
    pub fn observe(&mut self, now: Duration, inputs: Observation) -> Option<Duration> {
        let led = self.leads.filter(|(term, _)| inputs.term == Some(*term));
        let reached = inputs.calls != self.calls || inputs.live.is_none() || led.is_none();
        self.calls = inputs.calls;
        self.leads = led.or(inputs.term.map(|term| (term, now)));
        if reached {
            self.silent_since = now;
        }
        let ((_, since), live) = (self.leads?, inputs.live?);
        let silence = now.saturating_sub(self.silent_since);
        let due = inputs.quorum
            && silence >= live.lease / SILENCES_PER_LEASE
            && now.saturating_sub(since) >= live.wait * WAITS_OF_TENURE
            && self.transferred.is_none_or(|at| now.saturating_sub(at) >= live.wait * WAITS_BETWEEN_TRANSFERS);
        due.then_some(silence)
    }

    /// Notes that leadership was transferred at `now`.
    pub fn transferred(&mut self, now: Duration) {
        self.transferred = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec::Vec;

    use super::*;

    /// Time between two observations.
    const TICK: Duration = Duration::from_millis(100);

    const LIVE: Live = Live { lease: Duration::from_millis(2_000), wait: Duration::from_millis(2_500) };

    const NONE: [u64; 0] = [];

    /// A member and its inputs, one observation per tick.
    struct World {
        reach: LeaderReach,
        now: Duration,
        inputs: Observation,
    }

    impl World {
        fn new() -> World {
            let inputs = Observation { term: Some(1), quorum: true, calls: 0, live: Some(LIVE) };
            World { reach: LeaderReach::default(), now: Duration::from_secs(100), inputs }
        }

        /// Lets `ms` milliseconds pass, and returns the times after which leadership was transferred, in milliseconds.
        fn pass(&mut self, ms: u64, calls: bool) -> Vec<u64> {
            let ticks = ms / 100;
            let mut transfers = Vec::new();
            for tick in 1..=ticks {
                self.now += TICK;
                self.inputs.calls += u64::from(calls && tick % 4 == 0);
                if self.reach.observe(self.now, self.inputs).is_some() {
                    self.reach.transferred(self.now);
                    transfers.push(tick * 100);
                }
            }
            transfers
        }
    }

    #[test]
    fn a_leader_that_is_reached_keeps_leadership() {
        let mut world = World::new();
        assert_eq!(world.pass(600_000, true), NONE);
    }

    #[test]
    fn a_leader_that_is_no_longer_reached_transfers_leadership_half_a_lease_later() {
        let mut world = World::new();
        world.pass(10_000, true);
        assert_eq!(world.pass(1_500, false), [1_000]);
    }

    #[test]
    fn a_leader_that_was_never_reached_transfers_it_after_two_waits_of_the_arbiter() {
        let mut world = World::new();
        assert_eq!(world.pass(7_000, false), [5_100], "observed first after a tick");
    }

    #[test]
    fn no_leader_transfers_within_two_waits_of_its_election() {
        let mut world = World::new();
        world.pass(60_000, true);
        world.inputs.term = Some(3);
        world.pass(800, true);
        assert_eq!(world.pass(4_200, false), NONE, "it leads since less than two waits");
        assert_eq!(world.pass(500, false), [100]);
    }

    #[test]
    fn leadership_is_transferred_once_in_twelve_waits() {
        let mut world = World::new();
        world.pass(10_000, true);
        assert_eq!(world.pass(61_000, false), [1_000, 31_000, 61_000]);
        // Not in another term either: the member that it went to may be unreached as well.
        world.inputs.term = Some(2);
        assert_eq!(world.pass(29_000, false), NONE);
        assert_eq!(world.pass(2_000, false), [1_000]);
    }

    #[test]
    fn what_was_not_transferred_is_due_again() {
        let mut world = World::new();
        world.pass(10_000, true);
        world.now += Duration::from_secs(2);
        assert!(world.reach.observe(world.now, world.inputs).is_some());
        assert!(world.reach.observe(world.now, world.inputs).is_some());
        world.reach.transferred(world.now);
        assert_eq!(world.reach.observe(world.now, world.inputs), None);
    }

    #[test]
    fn without_a_live_incarnation_or_a_majority_or_leadership_nothing_moves() {
        let changes: [fn(&mut Observation); 3] =
            [|inputs| inputs.live = None, |inputs| inputs.quorum = false, |inputs| inputs.term = None];
        for change in changes {
            let mut world = World::new();
            world.pass(10_000, true);
            change(&mut world.inputs);
            assert_eq!(world.pass(120_000, false), NONE, "{:?}", world.inputs);
        }
    }

    #[test]
    fn the_silence_begins_with_the_first_live_incarnation() {
        let mut world = World::new();
        world.inputs.live = None;
        world.pass(60_000, false);
        world.inputs.live = Some(LIVE);
        assert_eq!(world.pass(1_200, false), [1_000]);
    }

    #[test]
    fn the_longest_lease_of_those_that_stay_counts() {
        use crate::id::{Incarnation, NodeId, Revision};
        use crate::layout::Layout;
        use crate::state::{Command, Registration, SetDefinition, SetTerms, Terms};

        let mut state = State::default();
        let layout = Layout::new(0..1_000, 100).unwrap();
        state.apply(&Command::DefineSet(SetDefinition::only("im-a", layout)));
        state.apply(&Command::SetTerms(SetTerms {
            replaces: None,
            terms: Terms { lease_wait: Duration::from_secs(10) },
        }));
        for (name, lease) in [("a1", 2), ("a2", 4), ("a3", 8)] {
            state.apply(&Command::Register(Registration {
                name: name.into(),
                addr: format!("{name}:1"),
                peer_addr: format!("{name}:2"),
                token: lease,
                lease: Duration::from_secs(lease),
                follows: Incarnation(0),
                seen: Revision(0),
                process: 0,
            }));
        }
        let plan = |living: &[u32]| Plan { living: living.iter().copied().map(NodeId).collect(), ..Plan::default() };
        let live = |lease| Some(Live { lease: Duration::from_secs(lease), wait: Duration::from_secs(10) });
        assert_eq!(Live::of(&state, &plan(&[1, 2])), live(4), "the third is not alive");
        state.nodes[1].leaving = true;
        assert_eq!(Live::of(&state, &plan(&[1, 2])), live(2));
        assert_eq!(Live::of(&state, &plan(&[2])), None);
        assert_eq!(Live::of(&state, &plan(&[])), None);
    }
}
