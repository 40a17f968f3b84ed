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
}

impl Observations {
    /// Records that a section arrived at the time `now`, and that its pause lasted `pause`.
    pub(crate) fn arrived(&mut self, now: Instant, pause: Duration) {
        self.stuck = None;
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
