//! Decides whether another set of the cluster responds, and when to probe it. The code does no I/O, and its times may
//! be of any clock that never goes back.
//!
//! In a *round of probes*, this process sends a probe to several nodes of the other set, and the first response ends
//! the round. A set is *up* after a round with a response, *down* after [`ROUNDS`] rounds in a row without a response,
//! and *unknown* before either. A single round without a response is not enough, because a process that pauses for a
//! moment misses a round.
//!
//! While a set is down, calls for it are refused, and a round is due every [`PROBE_INTERVAL`] as long as such calls
//! arrive. Within [`FALLEN`] after it was last up, a set that is down is expected to respond again, because its
//! machines may only have paused. During this time, rounds are more frequent, and a call waits up to [`RECOVERY`] for
//! the set before it is refused.
//!
//! While a set is up and requests to it are in flight, a round is due after nothing was received from the set for
//! [`SILENCE`]. A request may have to wait for long in the other set, so a late response is no sign of a failure. A
//! node that works responds to a probe at once.

use core::time::Duration;

/// Longest time for which a set may send nothing while requests to it are in flight. After this time, this process
/// probes the set.
const SILENCE: Duration = Duration::from_millis(60);

/// Timeout of a round of probes. The sum of [`SILENCE`], of [`ROUNDS`] rounds without a response, and of the delays
/// until tasks wake is less than 250 ms. So a call for a set that has just stopped responding gets a response within
/// 250 ms.
pub const PROBE_TIMEOUT: Duration = Duration::from_millis(80);

/// Rounds of probes in a row without a response after which a set is down.
pub const ROUNDS: u32 = 2;

/// Interval between rounds while a set is down, and least interval between rounds that are made to refresh this
/// process' copy of the set's routes.
const PROBE_INTERVAL: Duration = Duration::from_millis(200);

/// Least interval between rounds while requests find nodes of the set unreachable, or while the set is down but was up
/// within [`FALLEN`]. The interval is short, because callers wait until a round shows whether any node of the set can
/// be reached.
const URGENT_INTERVAL: Duration = Duration::from_millis(25);

/// Time for which a set that is down is expected to respond again, counted from when it was last up.
pub const FALLEN: Duration = Duration::from_secs(2);

/// Longest time for which a call waits for a set that is down and expected to respond again. It is less than the time
/// from the last response of a set until the set counts as down. So such a call waits no longer than a call that was in
/// flight when the set stopped responding.
pub const RECOVERY: Duration = Duration::from_millis(160);

/// Time for which the loop of probes continues to watch a set after the last call for the set, so that not every call
/// has to wake the loop.
pub const IN_USE: Duration = Duration::from_secs(1);

/// Health of a set, by its responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Nothing is known yet.
    Unknown,
    /// The set responded to the last round.
    Up,
    /// The set did not respond, [`ROUNDS`] times in a row.
    Down,
}

impl Health {
    /// Returns the health of a set after a round of probes, and the number of rounds in a row without a response,
    /// including this round. `missed` is the number of such rounds before this round.
    #[must_use]
    pub fn after_round(self, missed: u32, responded: bool) -> (Health, u32) {
        let missed = if responded { 0 } else { missed.saturating_add(1) };
        match missed {
            0 => (Health::Up, 0),
            ROUNDS.. => (Health::Down, missed),
            _ => (self, missed),
        }
    }
}

/// Observations of another set so far. All times are durations since a common origin.
#[derive(Clone, Copy, Debug)]
pub struct Observed {
    /// Whether it responds.
    pub health: Health,
    /// Time of the last message from the set. If the first of the requests that are now in flight was sent later than
    /// that, the time when it was sent.
    pub received: Duration,
    /// Time of the last call.
    pub used: Duration,
    /// Time when the last round began; `None` before the first round.
    pub probed: Option<Duration>,
    /// Number of requests in flight.
    pub in_flight: usize,
    /// Whether this process' copy of the set's routes was found to be old.
    pub stale: bool,
    /// Whether a request found a node that cannot be reached.
    pub unreachable: bool,
    /// Rounds in a row without a response.
    pub missed: u32,
    /// Whether it is down and was up in the last [`FALLEN`].
    pub fallen: bool,
}

/// Time when a round of probes is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// The round is due now.
    Now,
    /// The round is not due before this time. At this time, the caller calls [`Observed::due`] again, because the round
    /// may be due later still.
    At(Duration),
    /// The round is due when a call comes.
    Idle,
}

impl Observed {
    /// Returns when the next round is due, as of `now`.
    #[must_use]
    pub fn due(&self, now: Duration) -> Due {
        let in_use = self.in_flight > 0 || now.saturating_sub(self.used) < IN_USE;
        if !in_use {
            return Due::Idle;
        }
        let after = |interval| self.probed.map_or(now, |probed| probed + interval);
        let again = after(PROBE_INTERVAL);
        let at = match self.health {
            Health::Unknown => now,
            Health::Down if self.fallen => after(URGENT_INTERVAL),
            Health::Down => again,
            Health::Up if self.missed > 0 => now,
            Health::Up if self.unreachable => after(URGENT_INTERVAL),
            Health::Up if self.in_flight > 0 && self.stale => again.min(self.received + SILENCE),
            Health::Up if self.in_flight > 0 => self.received + SILENCE,
            Health::Up if self.stale => again,
            // The caller checks again soon, so that a request sent in the meantime is watched from its start.
            Health::Up => now + SILENCE / 3,
        };
        if at <= now { Due::Now } else { Due::At(at.min(now + SILENCE / 3)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    const UP: Observed = Observed {
        health: Health::Up,
        received: ms(1_000),
        used: ms(1_000),
        probed: Some(ms(900)),
        in_flight: 1,
        stale: false,
        unreachable: false,
        missed: 0,
        fallen: false,
    };

    #[test]
    fn a_set_is_down_after_two_rounds_without_a_response() {
        assert_eq!(Health::Up.after_round(0, false), (Health::Up, 1), "the process may have stood still");
        assert_eq!(Health::Up.after_round(1, false), (Health::Down, 2));
        assert_eq!(Health::Unknown.after_round(0, false), (Health::Unknown, 1));
        assert_eq!(Health::Down.after_round(2, false), (Health::Down, 3));
        assert_eq!(Health::Down.after_round(3, true), (Health::Up, 0));
    }

    #[test]
    fn a_set_with_requests_under_way_is_probed_once_it_is_silent() {
        assert!(matches!(UP.due(ms(1_059)), Due::At(_)));
        assert_eq!(UP.due(ms(1_060)), Due::Now);
        assert_eq!(Observed { missed: 1, ..UP }.due(ms(1_001)), Due::Now, "the next round follows at once");
        assert!(matches!(Observed { in_flight: 0, ..UP }.due(ms(1_500)), Due::At(_)), "nothing is waited for");
    }

    #[test]
    fn a_set_that_is_down_is_probed_five_times_a_second_while_calls_come() {
        let down = Observed { health: Health::Down, in_flight: 0, probed: Some(ms(1_000)), ..UP };
        assert!(matches!(down.due(ms(1_199)), Due::At(_)));
        assert_eq!(down.due(ms(1_200)), Due::Now);
        assert_eq!(down.due(ms(2_000)), Due::Idle);
        assert_eq!(Observed { fallen: true, ..down }.due(ms(1_025)), Due::Now, "it is expected to respond again");
    }

    #[test]
    fn stale_routes_are_fetched_five_times_a_second_at_most() {
        let stale = Observed { stale: true, in_flight: 0, probed: Some(ms(1_000)), ..UP };
        assert!(matches!(stale.due(ms(1_100)), Due::At(_)));
        assert_eq!(stale.due(ms(1_200)), Due::Now);
        assert_eq!(Observed { unreachable: true, ..stale }.due(ms(1_025)), Due::Now);
        assert_eq!(Observed { health: Health::Unknown, probed: None, ..UP }.due(ms(1_000)), Due::Now);
    }
}
