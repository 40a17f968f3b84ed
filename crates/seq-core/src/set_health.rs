//! Whether another set responds: pure, on any clock that never goes back.
//!
//! A set is unknown before its first probe, *up* after a response, and *down* after [`ROUNDS`] rounds of probes without
//! one: a process that stood still for a moment misses one of them. While it is down a round is due every
//! [`PROBE_INTERVAL`], as long as calls come; they are refused meanwhile. For [`FALLEN`] after it was up, rounds follow
//! each other and calls wait for [`RECOVERY`] before they are refused: machines stand still for longer than a set may
//! be silent. While it is up and requests are under way, a round is due when nothing was received for [`SILENCE`]:
//! requests may wait at the other set for long, a probe never does.

use core::time::Duration;

/// How long a set with requests under way may send nothing before it is probed.
const SILENCE: Duration = Duration::from_millis(60);

/// How long a round of probes may take: [`ROUNDS`] of them after [`SILENCE`], and some time for tasks to wake, and a
/// call of a set that stops responding has its response within 250 ms.
pub const PROBE_TIMEOUT: Duration = Duration::from_millis(80);

/// Rounds of probes in a row without a response after which a set is down.
pub const ROUNDS: u32 = 2;

/// Interval of rounds while a set is down, and least interval of those that refresh its routes.
const PROBE_INTERVAL: Duration = Duration::from_millis(200);

/// Least interval of rounds while requests find nodes that cannot be reached: whether any other can is urgent.
const URGENT_INTERVAL: Duration = Duration::from_millis(25);

/// How long after it was up a set that is down is expected to respond again.
pub const FALLEN: Duration = Duration::from_secs(2);

/// How long a call waits for a set that is expected to respond again: less than a set may be silent before it is down,
/// so that no call has its response later than the first ones.
pub const RECOVERY: Duration = Duration::from_millis(160);

/// How long a set without further calls is still watched: the loop is not woken for each call.
pub const IN_USE: Duration = Duration::from_secs(1);

/// Whether a set responds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Nothing is known yet.
    Unknown,
    /// It responded to the last round.
    Up,
    /// It did not, [`ROUNDS`] times in a row.
    Down,
}

impl Health {
    /// Returns the health after a round of probes, and the rounds in a row without a response then. `missed`: those
    /// before this one.
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

/// What a set did last. Times are since any origin.
#[derive(Clone, Copy, Debug)]
pub struct Observed {
    /// Whether it responds.
    pub health: Health,
    /// When something was received last, or the first of the requests under way was sent.
    pub received: Duration,
    /// When a call came last.
    pub used: Duration,
    /// When the last round began; `None` before the first.
    pub probed: Option<Duration>,
    /// Requests under way.
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

/// When a round of probes is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Now.
    Now,
    /// Not before then; look again.
    At(Duration),
    /// When a call comes.
    Idle,
}

impl Observed {
    /// Returns when the next round is due, at this time.
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
