//! Decides whether another set responds. It does no I/O, and its times may be of any clock that never goes back.
//!
//! A set is *unknown* before its first probe, *up* after a response, and *down* after [`ROUNDS`] rounds of probes in a
//! row without a response. A single round is not enough, because a process that pauses for a moment misses a round.
//!
//! While a set is down, a round is due every [`PROBE_INTERVAL`] as long as calls for the set arrive, and the calls are
//! refused. For [`FALLEN`] after it was up, rounds follow each other faster, and calls wait for [`RECOVERY`] before
//! they are refused: a machine can pause for longer than a set may be silent before it is down, and then respond again.
//!
//! While a set is up and requests to it are in flight, a round is due when nothing was received for [`SILENCE`]. A
//! request may have to wait in the other set for long, but a probe gets its response at once.

use core::time::Duration;

/// Time for which a set with requests in flight may send nothing before it is probed.
const SILENCE: Duration = Duration::from_millis(60);

/// Timeout of a round of probes. [`SILENCE`], [`ROUNDS`] such rounds, and the time until tasks wake take less than 250
/// ms, so that a call to a set that stops responding gets a response within 250 ms.
pub const PROBE_TIMEOUT: Duration = Duration::from_millis(80);

/// Rounds of probes in a row without a response after which a set is down.
pub const ROUNDS: u32 = 2;

/// Interval of rounds while a set is down, and least interval of rounds that refresh its routes.
const PROBE_INTERVAL: Duration = Duration::from_millis(200);

/// Least interval between rounds while requests find nodes of the set unreachable, or while the set is down but was up
/// a moment ago. It is short, because callers wait to know whether any other node of the set can be reached.
const URGENT_INTERVAL: Duration = Duration::from_millis(25);

/// Time for which a set that is down is expected to respond again, counted from the time when it was last up.
pub const FALLEN: Duration = Duration::from_secs(2);

/// Time for which a call waits for a set that is expected to respond again. It is less than the time for which a set is
/// silent before it is down, so no such call waits longer than the calls that were in flight when the set stopped
/// responding.
pub const RECOVERY: Duration = Duration::from_millis(160);

/// Time for which a set is still watched after its last call, so that the loop of probes need not be woken for each
/// call.
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
    /// Returns the health after a round of probes, and the number of rounds in a row without a response, up to and
    /// including this round. `missed` is that number before this round.
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

/// Last observations of a set. Times are since any origin.
#[derive(Clone, Copy, Debug)]
pub struct Observed {
    /// Whether it responds.
    pub health: Health,
    /// Time of the last message from the set or, if later, the time when the first of the requests in flight was sent.
    pub received: Duration,
    /// Time of the last call.
    pub used: Duration,
    /// Time when the last round began; `None` before the first round.
    pub probed: Option<Duration>,
    /// Number of requests in flight.
    pub in_flight: usize,
    /// Whether its routes proved old.
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
    /// The round is not due before this time, at which the caller calls [`Observed::due`] again.
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
            // A request that is sent next is watched in time.
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
