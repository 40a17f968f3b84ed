//! Decides whether a node that callers may be unable to reach should give its sections to another node.
//!
//! A node dials itself as its callers do, and knows when its certificate expires. Its own view alone is no reason to
//! *leave*, which is to give all its sections to other nodes: a fault that all nodes have, for example names that no
//! longer resolve, would make all of them leave, and no node would serve the set. So a node that does not reach itself,
//! or whose certificate is about to expire, dials other nodes of its set in the same round. It leaves only if another
//! node responds, and, if the fault is its certificate, only if another node's certificate lasts longer. It also needs
//! another node to which the store can give the sections: if there is none, the node stays and requests a handover
//! again later.
//!
//! A node reaches itself even through a firewall that blocks its callers. So the nodes dial each other too, a few at a
//! time ([`crate::peer_reach`]), and each node reports which nodes it does not reach. A node also leaves if most other
//! nodes report that they do not reach it, another node can take over, and no other node has left.
//!
//! **Invariant:** a single node that reports falsely, or whose network is broken, cannot make another node leave. It
//! takes the reports of at least two nodes, and of a majority of all other nodes, including nodes that do not respond.
//!
//! **Invariant:** while no other node responds, a node does not leave before its certificate has expired. A node that
//! never reached itself only reports the fault, because its network may not route its own address back to it.

use core::fmt;
use core::time::Duration;

/// Pause between two rounds while the node finds no fault. Three such rounds and a handover take less than half a
/// minute.
pub const INTERVAL: Duration = Duration::from_secs(5);

/// Pause between two rounds while the node finds a fault.
pub const RETRY: Duration = Duration::from_secs(1);

/// Number of failed rounds in a row after which a node counts as unreachable, and of successful rounds in a row after
/// which it counts as reachable again.
const ROUNDS: u32 = 3;

/// Least number of nodes whose statements can make another node leave.
const MIN_WITNESSES: usize = 2;

/// Time for which a node stays after the store had no other node for its sections.
const STAYS: Duration = Duration::from_secs(60);

/// Observations of a round about the node itself and about the other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// Whether the node reached itself at its address for callers.
    pub reached: bool,
    /// Time for which its certificate is still valid; `None` without TLS.
    pub left: Option<Duration>,
    /// Time for which the certificates of the other nodes that responded are still valid, the longest of them;
    /// [`Duration::MAX`] without TLS; `None` if no other node was dialled or responded.
    pub other: Option<Duration>,
    /// Whether one of the nodes that this node dialled in this round states that it does not reach this node.
    pub suspected: bool,
    /// The statements of the other nodes; none if they were not requested.
    pub witnesses: Witnesses,
}

/// Statements of other nodes about this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Witnesses {
    /// Number of other nodes that serve and state that they do not reach this node.
    pub against: usize,
    /// Number of all other nodes of the set.
    pub of: usize,
    /// Whether any of the other nodes has left, that is, has withdrawn from serving.
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
    /// The node has a fault, but no other node could serve better. The node continues to serve, and reports the fault.
    Report(Cause),
    /// The node gives its sections to other nodes, serves until they have them, and states that it is not ready.
    HandOver(Cause),
    /// The node no longer renews its lease, because its certificate has expired: no caller can dial it, and the store
    /// refuses its requests.
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
    /// Time before its expiry from which a certificate counts as expiring.
    margin: Duration,
    /// Whether the node ever reached itself.
    proved: bool,
    unreachable: Lasting,
    isolated: Lasting,
    /// Whether the node left because it is isolated.
    left_isolated: bool,
    /// Time until which the node stays, because the store had no other node for its sections.
    stays_until: Duration,
}

impl SelfCheck {
    /// Creates the machine of a node that has not reached itself yet, and that gives its sections to other nodes
    /// `margin` before its certificate expires.
    #[must_use]
    pub fn new(margin: Duration) -> SelfCheck {
        let (unreachable, isolated) = (Lasting::default(), Lasting::default());
        SelfCheck { margin, proved: false, unreachable, isolated, left_isolated: false, stays_until: Duration::ZERO }
    }

    /// Returns whether the other nodes are to be dialled in a round whose `other` is not known yet.
    #[must_use]
    pub fn needs_others(&self, round: &Round) -> bool {
        !round.reached || self.unreachable.holds || self.expires(round.left) || self.needs_witnesses(round)
    }

    /// Returns whether all other nodes are to be dialled, for their statements about this node.
    #[must_use]
    pub fn needs_witnesses(&self, round: &Round) -> bool {
        round.suspected || self.isolated.holds
    }

    /// Returns the decision after a round, at the time `now` of any clock that never goes back.
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

    /// Notes that the store has no other node to which it can give the sections of this node.
    pub fn on_no_other_candidate(&mut self, now: Duration) {
        self.stays_until = now + STAYS;
    }

    /// Returns the pause after a round that led to `decision`. `left` is the time for which the certificate is still
    /// valid.
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
        /// Checks that the node continues to serve if a minority of the other nodes states that it does not reach the
        /// node, or if the only other node does.
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
        // Peers refuse the node by then, and so does its own port.
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
