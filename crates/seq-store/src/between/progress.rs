//! Progress of the open migrations, as this leader observes it. Operators read it. The next leader does not have it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use seq_core::MigrationId;
use tokio::time::Instant;

/// Time over which the speed is averaged.
const WINDOW: Duration = Duration::from_secs(10);

/// Maximum number of pauses of one migration that are kept for the quantiles.
const MOST_PAUSES: usize = 65_536;

/// Progress by migration.
pub(crate) type Progress = BTreeMap<MigrationId, MigrationProgress>;

/// Progress of one migration.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct MigrationProgress {
    /// Sections that are armed, planned or on their way.
    pub(crate) in_flight: usize,
    /// Sections per second that arrived over the last ten seconds.
    pub(crate) per_second: f64,
    /// Median, 99 % quantile and longest time from departure to arrival; `None` if no section arrived.
    pub(crate) pauses: Option<[Duration; 3]>,
    /// Reason why no section moves; `None` if sections move.
    pub(crate) stuck: Option<String>,
}

/// Observed arrivals of one migration.
#[derive(Debug, Default)]
pub(crate) struct Observations {
    recent: VecDeque<Instant>,
    /// Ascending.
    pauses: Vec<Duration>,
    pub(crate) stuck: Option<String>,
}

impl Observations {
    /// Records that a section arrived after this pause.
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
        // The speed of a new migration is not averaged over time before its start.
        let per_second = self.recent.len() as f64 / since.as_secs_f64().clamp(1.0, WINDOW.as_secs_f64());
        let quantile =
            |hundredths: usize| self.pauses[(self.pauses.len() * hundredths / 100).min(self.pauses.len() - 1)];
        let pauses = (!self.pauses.is_empty()).then(|| [quantile(50), quantile(99), quantile(100)]);
        MigrationProgress { in_flight, per_second, pauses, stuck: self.stuck.clone() }
    }
}
