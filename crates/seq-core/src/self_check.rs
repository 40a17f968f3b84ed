//! Whether a node that callers may be unable to reach should give its sections to another one.
//!
//! A node dials itself as its callers do, and knows when its certificate expires. Its own view is no reason to
//! leave: a fault that all nodes have, such as names that no longer resolve, would empty the whole set. So a node that
//! does not reach itself, or is about to expire, asks the other nodes of its set in the same way at the same time, and
//! leaves only where one of them responds and will last longer. That the store has a candidate is its own condition:
//! where it has none, the node stays and asks again later.
//!
//! **Invariant:** without a response of another node nothing is given up before the certificate has expired. A node
//! that never reached itself only reports it: its network may not lead back to it.

use core::fmt;
use core::time::Duration;

/// Pause between two rounds while nothing is wrong: three of them, and a handover, are within half a minute.
pub const INTERVAL: Duration = Duration::from_secs(5);

/// Pause between two rounds while something is.
pub const RETRY: Duration = Duration::from_secs(1);

/// Rounds in a row that fail before a node counts as unreachable, and that succeed before it counts as reachable again.
const ROUNDS: u32 = 3;

/// How long a node stays after the store had no other candidate.
const STAYS: Duration = Duration::from_secs(60);

/// Observations of one round: of the node itself, and of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// Whether it reached itself at the address of its callers.
    pub reached: bool,
    /// How long its certificate is valid still; `None` without TLS.
    pub left: Option<Duration>,
    /// The other nodes that responded: how long the certificate of the longest-lasting one is valid, [`Duration::MAX`]
    /// without TLS; `None` where none responded, or none was asked.
    pub other: Option<Duration>,
}

/// Why callers cannot reach a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It does not reach itself at its address for callers.
    Unreachable,
    /// Its certificate expires soon.
    Expires,
    /// Its certificate has expired.
    Expired,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Unreachable => {
                "it does not reach itself at its address for callers: check the address, firewalls and its log"
            }
            Cause::Expires => "its certificate expires within minutes: `seqsvr cert rotate`",
            Cause::Expired => "its certificate has expired: `seqsvr cert rotate`",
        })
    }
}

/// The decision after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing is wrong.
    Serve,
    /// There is a fault, and no other node could do better: the node goes on, and reports the fault.
    Report(Cause),
    /// The node gives its sections to others while it serves on, and is not ready.
    HandOver(Cause),
    /// The node sends no renewal: no caller can dial it, and the store refuses it.
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

/// The machine of one node.
#[derive(Clone, Debug)]
pub struct SelfCheck {
    /// How long before its expiry a certificate counts as expiring.
    margin: Duration,
    /// Whether the node ever reached itself.
    proved: bool,
    unreachable: bool,
    /// Rounds in a row that contradict `unreachable`.
    contrary: u32,
    /// Until when it stays because the store had no other candidate.
    stays_until: Duration,
}

impl SelfCheck {
    /// A node that has not reached itself yet, and hands over so long before its certificate expires.
    #[must_use]
    pub fn new(margin: Duration) -> SelfCheck {
        SelfCheck { margin, proved: false, unreachable: false, contrary: 0, stays_until: Duration::ZERO }
    }

    /// Whether the other nodes are to be asked in a round, of which `other` is not known yet.
    #[must_use]
    pub fn needs_others(&self, round: &Round) -> bool {
        !round.reached || self.unreachable || self.expires(round.left)
    }

    /// Decides on a round, at `now` of any clock that does not fall.
    pub fn on_round(&mut self, now: Duration, round: &Round) -> Decision {
        self.proved |= round.reached;
        self.contrary = if round.reached == self.unreachable { self.contrary + 1 } else { 0 };
        if self.contrary >= ROUNDS {
            (self.unreachable, self.contrary) = (!self.unreachable, 0);
        }
        if round.left.is_some_and(|left| left.is_zero()) {
            return Decision::Stop;
        }
        let (cause, another) = if self.expires(round.left) {
            (Cause::Expires, round.other.is_some_and(|left| left > self.margin))
        } else if self.unreachable {
            (Cause::Unreachable, self.proved && round.other.is_some())
        } else {
            return Decision::Serve;
        };
        if another && now >= self.stays_until { Decision::HandOver(cause) } else { Decision::Report(cause) }
    }

    /// The store has no other candidate for the sections of this node.
    pub fn on_no_other_candidate(&mut self, now: Duration) {
        self.stays_until = now + STAYS;
    }

    /// How long to wait after a round, of which `left` and the decision are known.
    #[must_use]
    pub fn pause(&self, left: Option<Duration>, decision: Decision) -> Duration {
        let pause = if decision == Decision::Serve && self.contrary == 0 { INTERVAL } else { RETRY };
        let Some(left) = left else { return pause };
        // Neither the margin nor the end is slept through.
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

    fn seconds(seconds: u64) -> Option<Duration> {
        Some(Duration::from_secs(seconds))
    }

    /// The decisions on rounds, one a second.
    fn decisions(
        check: &mut SelfCheck,
        from: u64,
        rounds: &[(bool, Option<Duration>, Option<Duration>)],
    ) -> Vec<Decision> {
        let rounds = rounds.iter().zip(from..);
        let decide = |((reached, left, other), at): (&(bool, _, _), u64)| {
            let round = Round { reached: *reached, left: *left, other: *other };
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
        // Certificates that expire together: each node would leave for one that lasts no longer.
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
        // Peers refuse it by then, its own port too.
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
