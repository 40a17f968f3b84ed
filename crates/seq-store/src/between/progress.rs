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

/// Maximum number of migrations that have ended and whose observations are kept. An operator looks at the pauses of the
/// last ones, and the observations of one migration take up to 1 MiB.
const MOST_ENDED: usize = 16;

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
    /// Cause why the migration is stuck; `None` if it is not.
    pub(crate) stuck: Option<String>,
}

/// Arrivals of one migration's sections, as this leader observed them.
#[derive(Debug, Default)]
pub(crate) struct Observations {
    recent: VecDeque<Instant>,
    /// Pauses of the sections that arrived, in ascending order.
    pauses: Vec<Duration>,
    /// Time of the last arrival.
    last: Option<Instant>,
}

impl Observations {
    /// Records that a section arrived at the time `now`, and that its pause lasted `pause`.
    pub(crate) fn arrived(&mut self, now: Instant, pause: Duration) {
        self.recent.push_back(now);
        self.last = Some(now);
        if self.pauses.len() < MOST_PAUSES {
            let at = self.pauses.partition_point(|other| *other < pause);
            self.pauses.insert(at, pause);
        }
    }

    /// Returns the progress at the time `now`. The caller knows how many sections are in flight, and the cause why the
    /// migration is stuck.
    pub(crate) fn progress(&mut self, now: Instant, in_flight: usize, stuck: Option<String>) -> MigrationProgress {
        while self.recent.front().is_some_and(|at| now.duration_since(*at) > WINDOW) {
            self.recent.pop_front();
        }
        let since = self.recent.front().map_or(Duration::ZERO, |at| now.duration_since(*at));
        // For a new migration, the time before its first arrival is not included in the average.
        let per_second = self.recent.len() as f64 / since.as_secs_f64().clamp(1.0, WINDOW.as_secs_f64());
        let quantile =
            |hundredths: usize| self.pauses[(self.pauses.len() * hundredths / 100).min(self.pauses.len() - 1)];
        let pauses = (!self.pauses.is_empty()).then(|| [quantile(50), quantile(99), quantile(100)]);
        MigrationProgress { in_flight, per_second, pauses, stuck }
    }
}

/// Drops the observations of the migrations whose last arrival is the oldest, except of the [`MOST_ENDED`] newest. Keeps
/// those of the migrations for which `is_current` returns true.
pub(crate) fn forget_oldest(
    observed: &mut BTreeMap<MigrationId, Observations>,
    is_current: impl Fn(&MigrationId) -> bool,
) {
    let ended = observed.iter().filter(|(id, _)| !is_current(id));
    let mut ended: Vec<(Option<Instant>, MigrationId)> = ended.map(|(id, one)| (one.last, *id)).collect();
    ended.sort_unstable();
    for (_, id) in ended.iter().rev().skip(MOST_ENDED) {
        observed.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn observations_of_old_migrations_are_dropped() {
        let (start, mut observed) = (Instant::now(), BTreeMap::<MigrationId, Observations>::new());
        for id in 1..=20 {
            let at = start + Duration::from_secs(100 - id);
            observed.entry(MigrationId(id)).or_default().arrived(at, Duration::ZERO);
        }
        forget_oldest(&mut observed, |id| *id == MigrationId(20));
        let left: Vec<u64> = observed.keys().map(|id| id.0).collect();
        assert_eq!(left, (1..=16).chain([20]).collect::<Vec<u64>>());
    }
}
