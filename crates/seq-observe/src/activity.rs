//! The busiest sections, as their owners measure them.

use std::collections::HashMap;
use std::time::Duration;

use seq_channel::Pool;
use seq_command::output::{digits, grouped};
use seq_proto::v1::status_service_client::StatusServiceClient;
use seq_proto::v1::{ActivityLayer, ListActivityRequest, SectionFigures};
use serde::Serialize;

use crate::response::within;

/// Order of the busiest sections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// Numbers allocated in a second.
    #[default]
    Numbers,
    /// Raises of the section's ceiling per second. Members of the store write each raise to disk.
    Writes,
}

impl By {
    fn layer(self) -> ActivityLayer {
        match self {
            By::Numbers => ActivityLayer::Numbers,
            By::Writes => ActivityLayer::Writes,
        }
    }

    /// Returns the rate by which sections are ordered, per second.
    #[must_use]
    pub fn rate(self, figures: &SectionFigures) -> f64 {
        match self {
            By::Numbers => a_second(figures.numbers, figures.ms),
            By::Writes => a_second(figures.writes, figures.ms),
        }
    }
}

/// Activity of a section in the last seconds, as JSON.
#[derive(Clone, Debug, Serialize)]
pub struct FiguresView {
    /// Numbers allocated in a second.
    pub numbers_per_second: f64,
    /// Raises of the ceiling in a second.
    pub writes_per_second: f64,
    /// Numbers allocated in the measured time.
    #[serde(serialize_with = "digits")]
    pub numbers: u64,
    /// Raises of the ceiling in the measured time.
    #[serde(serialize_with = "digits")]
    pub writes: u64,
    /// Sum of the distances by which the raises moved the ceiling.
    #[serde(serialize_with = "digits")]
    pub raised: u64,
    /// Time in which the numbers and raises were counted, in milliseconds.
    pub measured_ms: u32,
}

impl FiguresView {
    /// Converts figures to their JSON form.
    #[must_use]
    pub fn new(figures: &SectionFigures) -> FiguresView {
        let SectionFigures { numbers, writes, raised, ms, .. } = *figures;
        FiguresView {
            numbers_per_second: a_second(numbers, ms),
            writes_per_second: a_second(writes, ms),
            numbers,
            writes,
            raised,
            measured_ms: ms,
        }
    }
}

fn a_second(count: u64, ms: u32) -> f64 {
    if ms == 0 { 0.0 } else { (count as f64 * 100_000.0 / f64::from(ms)).round() / 100.0 }
}

/// Formats a rate for a table. A rate below 10 has one decimal place, and a higher rate is rounded to a whole number.
#[must_use]
pub fn rate_text(rate: f64) -> String {
    if rate > 0.0 && rate < 10.0 { format!("{rate:.1}") } else { grouped(rate.round() as u64) }
}

/// Requests the `count` busiest sections of the AllocSvr at `addr`, with their activity, within `timeout`.
///
/// # Errors
/// The AllocSvr does not respond within `timeout`, or refuses the request. The text describes the cause.
pub async fn request(
    pool: &Pool,
    addr: &str,
    by: By,
    count: u32,
    timeout: Duration,
) -> Result<Vec<SectionFigures>, String> {
    let request = ListActivityRequest { layer: by.layer().into(), top: count, ..ListActivityRequest::default() };
    let mut node = StatusServiceClient::new(pool.get(addr).map_err(|error| error.to_string())?);
    within(timeout, node.list_activity(request)).await.map(|response| response.top)
}

/// Merges the figures that several AllocSvrs report, and sorts them by their rates, the highest first. If the owner of
/// a section has just changed, two AllocSvrs may report the section. The result then has the figures with the higher
/// rate. `T` is any data about the reporting AllocSvr, which the result keeps with the figures.
#[must_use]
pub fn merge<T: Copy>(found: impl IntoIterator<Item = (SectionFigures, T)>, by: By) -> Vec<(SectionFigures, T)> {
    let mut merged: HashMap<u32, (SectionFigures, T)> = HashMap::new();
    for reported in found {
        let known = merged.entry(reported.0.section).or_insert(reported);
        if by.rate(&reported.0) > by.rate(&known.0) {
            *known = reported;
        }
    }
    let mut all: Vec<_> = merged.into_values().collect();
    all.sort_by(|(one, _), (other, _)| by.rate(other).total_cmp(&by.rate(one)).then(one.section.cmp(&other.section)));
    all
}
