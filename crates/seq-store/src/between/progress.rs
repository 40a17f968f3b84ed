//! Progress of the open migrations, as this leader observes it. Operators see it. It is not replicated, so the next
//! leader begins without it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use seq_core::MigrationId;
use tokio::time::Instant;

/// Time over which the speed of a migration is averaged.
const WINDOW: Duration = Duration::from_secs(10);

/// Maximum number of pauses of sections that are kept for one migration, to compute their quantiles.
const MOST_PAUSES: usize = 65_536;

/// Time for which requests of a migration fail, without an arrival, before the event log of the set gets an event about
/// it. A change of leader in the other set takes less.
const STUCK_AFTER: Duration = Duration::from_secs(10);

/// Time without a failed request after which the failures before it are no longer counted. The coordinator repeats a
/// failed request much sooner.
const FAILURES_END: Duration = Duration::from_secs(30);

/// Progress of each migration, by its id.
pub(crate) type Progress = BTreeMap<MigrationId, MigrationProgress>;

/// Progress of one migration.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct MigrationProgress {
    /// Number of sections that are armed, are planned to depart, or are on their way.
    pub(crate) in_flight: usize,
    /// Number of sections per second that arrived during the last ten seconds.
    pub(crate) per_second: f64,
    /// Median, 99 % quantile and maximum of the pauses of sections; `None` if no section has arrived.
    pub(crate) pauses: Option<[Duration; 3]>,
    /// Error of the last failed request of the migration; `None` if a section has arrived since.
    pub(crate) stuck: Option<String>,
}

/// Arrivals of one migration's sections, as this leader observed them.
#[derive(Debug, Default)]
pub(crate) struct Observations {
    recent: VecDeque<Instant>,
    /// Pauses of the sections that arrived, in ascending order.
    pauses: Vec<Duration>,
    pub(crate) stuck: Option<String>,
    /// Failed requests since the last arrival; `None` for none.
    failures: Option<Failures>,
}

/// Failed requests of one migration.
#[derive(Clone, Copy, Debug)]
struct Failures {
    first: Instant,
    last: Instant,
    /// Whether the event log got an event about them.
    is_noted: bool,
}

impl Observations {
    /// Records that a request of the migration failed at the time `now`, for the reason `cause`. Returns whether the
    /// event log should get an event about it: once until a section arrives, or until no request fails for
    /// [`FAILURES_END`].
    pub(crate) fn failed(&mut self, now: Instant, cause: &str) -> bool {
        self.stuck = Some(cause.to_owned());
        let known = self.failures.filter(|failures| now.duration_since(failures.last) < FAILURES_END);
        let mut failures = known.unwrap_or(Failures { first: now, last: now, is_noted: false });
        failures.last = now;
        let is_event = !failures.is_noted && now.duration_since(failures.first) >= STUCK_AFTER;
        failures.is_noted |= is_event;
        self.failures = Some(failures);
        is_event
    }

    /// Records that a section arrived at the time `now`, and that its pause lasted `pause`.
    pub(crate) fn arrived(&mut self, now: Instant, pause: Duration) {
        (self.stuck, self.failures) = (None, None);
        self.recent.push_back(now);
        if self.pauses.len() < MOST_PAUSES {
            let at = self.pauses.partition_point(|other| *other < pause);
            self.pauses.insert(at, pause);
        }
    }

    pub(crate) fn progress(&mut self, now: Instant, in_flight: usize) -> MigrationProgress {
        while self.recent.front().is_some_and(|at| now.duration_since(*at) > WINDOW) {
            self.recent.pop_front();
        }
        let since = self.recent.front().map_or(Duration::ZERO, |at| now.duration_since(*at));
        // For a new migration, the time before its first arrival is not included in the average.
        let per_second = self.recent.len() as f64 / since.as_secs_f64().clamp(1.0, WINDOW.as_secs_f64());
        let quantile =
            |hundredths: usize| self.pauses[(self.pauses.len() * hundredths / 100).min(self.pauses.len() - 1)];
        let pauses = (!self.pauses.is_empty()).then(|| [quantile(50), quantile(99), quantile(100)]);
        MigrationProgress { in_flight, per_second, pauses, stuck: self.stuck.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn failures_are_one_event_until_a_section_arrives() {
        let (start, mut observed) = (Instant::now(), Observations::default());
        let at = |seconds| start + Duration::from_secs(seconds);
        let events: Vec<bool> = [0, 5, 9, 10, 15, 40].map(|now| observed.failed(at(now), "no response")).into();
        assert_eq!(events, [false, false, false, true, false, false]);
        observed.arrived(at(41), Duration::ZERO);
        assert_eq!(observed.stuck, None);
        let events: Vec<bool> = [42, 51, 52].map(|now| observed.failed(at(now), "no response")).into();
        assert_eq!(events, [false, false, true]);
        // A pause of the migration ends the failures.
        assert!(!observed.failed(at(900), "no response"));
    }
}
