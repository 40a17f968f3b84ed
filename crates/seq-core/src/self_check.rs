//! Decides whether a node should give its sections to other nodes, because callers may be unable to reach it.
//!
//! In each *round* of checks, a node dials its own address for callers, and checks when its certificate expires. If it
//! finds a fault, it may *leave*, which means that it gives all its sections to other nodes. It must not leave because
//! of a fault that all nodes have, for example names that no longer resolve. If all nodes left, no node would serve the
//! set. So a node that finds a fault dials other nodes of its set in the same round. It leaves only if another node
//! responds and, if the fault is its certificate, only if another node's certificate is not about to expire. If the
//! store then has no other node that can own the sections, the node stays, and requests the handover again later.
//!
//! A node may reach itself even though a firewall blocks its callers. So the nodes dial each other too, a few at a time
//! ([`crate::peer_reach`]), and each node reports which other nodes it cannot reach. A node also leaves if most other
//! nodes report that they cannot reach it, another node responds, and no other node has left already.
//!
//! **Invariant:** a single node that reports falsely, or whose network is broken, cannot make another node leave. A
//! node leaves because of reports only if at least two nodes, and more than half of all other nodes of the set, report
//! that they cannot reach it. A node that does not respond reports nothing.
//!
//! **Invariant:** while no other node responds, a node does not leave before its certificate has expired. A node that
//! has never reached itself does not leave for this fault. It only reports the fault, because its network may be unable
//! to route its own address back to it.

use core::fmt;
use core::time::Duration;

/// Pause between two rounds of checks while the node finds no fault. At this pace, the three rounds until the node
/// leaves, and the handover of its sections, take less than half a minute.
pub const INTERVAL: Duration = Duration::from_secs(5);

/// Pause between two rounds while the node finds a fault.
pub const RETRY: Duration = Duration::from_secs(1);

/// Number of failed rounds in a row after which a node counts as unreachable, and number of successful rounds in a row
/// after which an unreachable node counts as reachable.
const ROUNDS: u32 = 3;

/// Least number of other nodes that must report that they cannot reach a node, before this node leaves.
const MIN_WITNESSES: usize = 2;

/// Time for which a node requests no handover of its sections, after the store had no other node that could own them.
const STAYS: Duration = Duration::from_secs(60);

/// Observations that a node made in one round of checks, about itself and about the other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// Whether the node reached itself at its address for callers.
    pub reached: bool,
    /// Time for which the node's own certificate is still valid; `None` without TLS.
    pub left: Option<Duration>,
    /// The longest time for which the certificate of any other node that responded is still valid; [`Duration::MAX`]
    /// without TLS. `None` if no other node was dialled, or none responded.
    pub other: Option<Duration>,
    /// Whether any node that this node dialled in this round states that it cannot reach this node.
    pub suspected: bool,
    /// Statements of all other nodes on whether they can reach this node. All zero if the node did not request them in
    /// this round.
    pub witnesses: Witnesses,
}

/// Statements of other nodes about this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Witnesses {
    /// Number of other nodes that serve and state that they cannot reach this node.
    pub against: usize,
    /// Number of all other nodes of the set.
    pub of: usize,
    /// Whether any other node has left, and so serves no sections or is handing its sections over.
    pub one_left: bool,
}

impl Witnesses {
    fn agree(self) -> bool {
        self.against >= MIN_WITNESSES && 2 * self.against > self.of
    }
}

/// Reason why callers cannot reach a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The node does not reach itself at its address for callers.
    Unreachable,
    /// Most other nodes do not reach the node at its address for callers.
    Isolated,
    /// The node's certificate expires soon.
    Expires,
    /// The node's certificate has expired.
    Expired,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Unreachable => {
                "it does not reach itself at its address for callers: check the address, firewalls and its log"
            }
            Cause::Isolated => {
                "most other AllocSvrs of the set do not reach its address for callers: check firewalls and routes to it"
            }
            Cause::Expires => "its certificate expires within minutes: `seqsvr cert rotate`",
            Cause::Expired => "its certificate has expired: `seqsvr cert rotate`",
        })
    }
}

/// The decision after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The node has no fault.
    Serve,
    /// The node has a fault, but no other node could serve better. The node continues to serve, and reports its fault
    /// to operators.
    Report(Cause),
    /// The node hands its sections over to other nodes and states that it is not ready. It serves each section until
    /// another node owns the section.
    HandOver(Cause),
    /// The node stops renewing its lease, because its certificate has expired. With an expired certificate, no caller
    /// can connect to the node, and the store refuses its requests.
    Stop,
}

impl Decision {
    /// Returns the fault, if there is one.
    #[must_use]
    pub fn cause(self) -> Option<Cause> {
        match self {
            Decision::Serve => None,
            Decision::Report(cause) | Decision::HandOver(cause) => Some(cause),
            Decision::Stop => Some(Cause::Expired),
        }
    }
}

/// A state that changes after [`ROUNDS`] contrary rounds in a row.
#[derive(Clone, Copy, Debug, Default)]
struct Lasting {
    holds: bool,
    /// Rounds in a row that contradict the state.
    contrary: u32,
}

impl Lasting {
    fn observe(&mut self, observed: bool) {
        self.contrary = if observed == self.holds { 0 } else { self.contrary + 1 };
        if self.contrary >= ROUNDS {
            *self = Lasting { holds: observed, contrary: 0 };
        }
    }
}

/// The machine of a node.
#[derive(Clone, Debug)]
pub struct SelfCheck {
    /// Time before the end of a certificate's validity during which the certificate counts as expiring.
    margin: Duration,
    /// Whether the node ever reached itself.
    proved: bool,
    unreachable: Lasting,
    isolated: Lasting,
    /// Whether the node left because it is isolated.
    left_isolated: bool,
    /// Time until which the node requests no handover, because the store had no other node that could own its sections.
    stays_until: Duration,
}

impl SelfCheck {
    /// Creates the state machine of a node that has not reached itself yet. When its certificate expires in `margin` or
    /// less, the node gives its sections to other nodes.
    #[must_use]
    pub fn new(margin: Duration) -> SelfCheck {
        let (unreachable, isolated) = (Lasting::default(), Lasting::default());
        SelfCheck { margin, proved: false, unreachable, isolated, left_isolated: false, stays_until: Duration::ZERO }
    }

    /// Returns whether this node should dial other nodes in this round. The caller calls this while [`Round::other`] is
    /// not known yet.
    #[must_use]
    pub fn needs_others(&self, round: &Round) -> bool {
        !round.reached || self.unreachable.holds || self.expires(round.left) || self.needs_witnesses(round)
    }

    /// Returns whether this node should dial all other nodes in this round, so that they state whether they can reach
    /// it.
    #[must_use]
    pub fn needs_witnesses(&self, round: &Round) -> bool {
        round.suspected || self.isolated.holds
    }

    /// Processes the observations of a round, and returns the decision. `now` is the time of any clock that never goes
    /// back.
    pub fn on_round(&mut self, now: Duration, round: &Round) -> Decision {
        self.proved |= round.reached;
        self.unreachable.observe(!round.reached);
        self.isolated.observe(round.witnesses.agree());
        let decision = self.decide(now, round);
        self.left_isolated = decision == Decision::HandOver(Cause::Isolated);
        decision
    }

    fn decide(&self, now: Duration, round: &Round) -> Decision {
        if round.left.is_some_and(|left| left.is_zero()) {
            return Decision::Stop;
        }
        let (cause, another) = if self.expires(round.left) {
            (Cause::Expires, round.other.is_some_and(|left| left > self.margin))
        } else if self.unreachable.holds {
            (Cause::Unreachable, self.proved && round.other.is_some())
        } else if self.isolated.holds {
            let is_turn = self.left_isolated || !round.witnesses.one_left;
            (Cause::Isolated, is_turn && round.other.is_some())
        } else {
            return Decision::Serve;
        };
        if another && now >= self.stays_until { Decision::HandOver(cause) } else { Decision::Report(cause) }
    }

    /// Notes that the store has no other node that could own this node's sections. For one minute, no further handover
    /// is decided.
    pub fn on_no_other_candidate(&mut self, now: Duration) {
        self.stays_until = now + STAYS;
    }

    /// Returns the pause between a round that led to `decision` and the next round. `left` is the time for which the
    /// node's certificate is still valid.
    #[must_use]
    pub fn pause(&self, left: Option<Duration>, decision: Decision) -> Duration {
        let is_calm = decision == Decision::Serve && self.unreachable.contrary + self.isolated.contrary == 0;
        let pause = if is_calm { INTERVAL } else { RETRY };
        let Some(left) = left else { return pause };
        // The pause ends no later than the margin's beginning and the certificate's end.
        [left.saturating_sub(self.margin), left].into_iter().filter(|at| !at.is_zero()).fold(pause, Duration::min)
    }

    fn expires(&self, left: Option<Duration>) -> bool {
        left.is_some_and(|left| left <= self.margin)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use Decision::{HandOver, Report, Serve, Stop};

    use super::*;

    const MARGIN: Duration = Duration::from_secs(300);
    const LONG: Option<Duration> = Some(Duration::from_secs(86_400));

    const CALM: Round = Round {
        reached: true,
        left: LONG,
        other: LONG,
        suspected: false,
        witnesses: Witnesses { against: 0, of: 0, one_left: false },
    };

    /// Creates a round in which `against` of `of` other nodes state that they do not reach the node.
    fn against(against: usize, of: usize) -> Round {
        Round { suspected: against > 0, witnesses: Witnesses { against, of, one_left: false }, ..CALM }
    }

    /// Returns the decisions on rounds, one round a second.
    fn on_rounds(check: &mut SelfCheck, rounds: &[Round]) -> Vec<Decision> {
        rounds.iter().zip(0..).map(|(round, at)| check.on_round(Duration::from_secs(at), round)).collect()
    }

    #[test]
    fn a_node_that_most_others_do_not_reach_leaves_and_begins_again_when_they_do() {
        let mut check = SelfCheck::new(MARGIN);
        let isolated = HandOver(Cause::Isolated);
        assert!(check.needs_witnesses(&against(1, 2)) && check.needs_others(&against(1, 2)));
        let (most, some) = (against(2, 3), against(1, 3));
        assert_eq!(on_rounds(&mut check, &[CALM, most, most, some, most, most]), [Serve; 6], "not three in a row");
        assert_eq!(on_rounds(&mut check, &[most, most, some, some]), [isolated; 4]);
        assert!(check.needs_witnesses(&CALM), "until they reach it");
        assert_eq!(on_rounds(&mut check, &[some, CALM]), [Serve; 2]);
        assert!(!check.needs_others(&CALM));
    }

    #[test]
    fn an_isolated_node_stays_while_another_one_has_left_or_none_responds() {
        let mut check = SelfCheck::new(MARGIN);
        let one_left = Round { witnesses: Witnesses { one_left: true, ..against(2, 3).witnesses }, ..against(2, 3) };
        let alone = Round { other: None, ..against(2, 3) };
        let stays = Report(Cause::Isolated);
        assert_eq!(on_rounds(&mut check, &[one_left; 5])[2..], [stays; 3]);
        assert_eq!(on_rounds(&mut check, &[alone; 2]), [stays; 2]);
        let left = [HandOver(Cause::Isolated); 3];
        assert_eq!(on_rounds(&mut check, &[against(2, 3), one_left, one_left]), left, "it was the first to leave");
    }

    proptest::proptest! {
        /// Checks that a node continues to serve if a minority of the other nodes, or its only other node, states that
        /// it cannot reach the node.
        #[test]
        fn false_statements_of_a_minority_or_of_one_node_move_nothing(
            rounds in proptest::collection::vec((0..4_usize, 0..8_usize), 1..60),
        ) {
            let mut check = SelfCheck::new(MARGIN);
            let rounds: Vec<Round> = rounds
                .into_iter()
                .map(|(liars, more)| if more == 0 { against(liars.min(1), 1) } else { against(liars, 2 * liars + more) })
                .collect();
            proptest::prop_assert!(on_rounds(&mut check, &rounds).iter().all(|decision| *decision == Serve));
        }
    }

    fn seconds(seconds: u64) -> Option<Duration> {
        Some(Duration::from_secs(seconds))
    }

    /// Returns the decisions on rounds, one round a second.
    fn decisions(
        check: &mut SelfCheck,
        from: u64,
        rounds: &[(bool, Option<Duration>, Option<Duration>)],
    ) -> Vec<Decision> {
        let rounds = rounds.iter().zip(from..);
        let decide = |((reached, left, other), at): (&(bool, _, _), u64)| {
            let round = Round { reached: *reached, left: *left, other: *other, ..CALM };
            check.on_round(Duration::from_secs(at), &round)
        };
        rounds.map(decide).collect()
    }

    #[test]
    fn a_node_that_does_not_reach_itself_leaves_where_another_responds() {
        let mut check = SelfCheck::new(MARGIN);
        let (own, down, up) = ((true, LONG, None), (false, LONG, LONG), (true, LONG, LONG));
        let unreachable = HandOver(Cause::Unreachable);
        assert_eq!(decisions(&mut check, 0, &[own, down, down, own, down, down]), [Serve; 6], "not three in a row");
        assert_eq!(decisions(&mut check, 6, &[down, down, up, up]), [unreachable; 4]);
        assert_eq!(decisions(&mut check, 10, &[down, up, up, up]), [unreachable, unreachable, unreachable, Serve]);
    }

    #[test]
    fn a_fault_that_all_nodes_have_empties_no_set() {
        let mut check = SelfCheck::new(MARGIN);
        let nobody = (false, LONG, None);
        assert_eq!(decisions(&mut check, 0, &[(true, LONG, None), nobody, nobody]), [Serve; 3]);
        assert_eq!(decisions(&mut check, 3, &[nobody; 50]), [Report(Cause::Unreachable); 50]);
        // The certificates expire together: each node would leave for a node whose certificate lasts no longer.
        let together = (true, seconds(200), seconds(200));
        let mut check = SelfCheck::new(MARGIN);
        assert_eq!(decisions(&mut check, 0, &[together; 5]), [Report(Cause::Expires); 5]);
        assert_eq!(decisions(&mut check, 5, &[(true, seconds(0), seconds(0))]), [Stop]);
    }

    #[test]
    fn a_node_that_never_reached_itself_only_reports_it() {
        let mut check = SelfCheck::new(MARGIN);
        let decided = decisions(&mut check, 0, &[(false, LONG, LONG); 20]);
        assert_eq!(decided[..2], [Serve; 2]);
        assert!(decided[2..].iter().all(|one| *one == Report(Cause::Unreachable)), "{decided:?}");
    }

    #[test]
    fn a_node_hands_over_before_its_certificate_expires_and_begins_again_with_a_new_one() {
        let mut check = SelfCheck::new(MARGIN);
        let at = |left| (true, seconds(left), LONG);
        let expires = HandOver(Cause::Expires);
        assert_eq!(decisions(&mut check, 0, &[at(301), at(300), at(1), at(0)]), [Serve, expires, expires, Stop]);
        // Other nodes refuse the node when its certificate has expired, and so does its own port.
        let expired = (false, seconds(0), None);
        assert_eq!(decisions(&mut check, 4, &[expired; 5]), [Stop; 5]);
        let renewed = decisions(&mut check, 9, &[at(86_400); 3]);
        assert_eq!(renewed.last(), Some(&Serve), "{renewed:?}");
    }

    #[test]
    fn where_the_store_has_no_other_candidate_it_stays_and_asks_again() {
        let mut check = SelfCheck::new(MARGIN);
        let expiring = (true, seconds(100), LONG);
        assert_eq!(decisions(&mut check, 0, &[expiring]), [HandOver(Cause::Expires)]);
        check.on_no_other_candidate(Duration::from_secs(1));
        assert_eq!(decisions(&mut check, 2, &[expiring; 59]), [Report(Cause::Expires); 59]);
        assert_eq!(decisions(&mut check, 61, &[expiring]), [HandOver(Cause::Expires)]);
    }

    #[test]
    fn neither_the_margin_nor_the_expiry_is_slept_through() {
        let check = SelfCheck::new(MARGIN);
        let pause = |left, decision| check.pause(left, decision).as_millis();
        assert_eq!([pause(None, Serve), pause(LONG, Serve)], [5_000; 2]);
        assert_eq!([pause(seconds(302), Serve), pause(seconds(300), Serve)], [2_000, 5_000]);
        assert_eq!(pause(Some(Duration::from_millis(300)), HandOver(Cause::Expires)), 300);
        assert_eq!(pause(seconds(0), Stop), 1_000);
    }
}
