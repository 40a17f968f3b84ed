//! Counter series of a cluster: their ids are numbers, so they are imported and exported as the numbers of users are.

use seq_client::{Client, Series};
use seq_ids::{Id, Shape};
use seq_load::outcome::Chain;

/// Returns the counter series of a name.
///
/// # Errors
/// The reason for which the series cannot be imported or exported, for a reader.
pub(crate) async fn find(client: &Client, name: &str) -> Result<Series, String> {
    let series = client.series(name).await.map_err(|error| Chain(&error).to_string())?;
    match series.shape() {
        Shape::Counter(_) => Ok(series),
        Shape::Timed(_) => Err(format!("series {name:?} is no counter: its ids follow the clock")),
    }
}

/// Returns the counter series of the cluster that are not retired, in the order in which they were created.
pub(crate) fn all(client: &Client) -> Vec<Series> {
    let is_served = |series: &Series| matches!(series.shape(), Shape::Counter(_)) && !series.record().retired;
    client.all_known_series().into_iter().filter(is_served).collect()
}

/// Returns the number from which an id of a series was made; 0 for no id.
pub(crate) fn number(series: &Series, id: u64) -> u64 {
    Id::new(id).and_then(|id| series.shape().parts(id)).map_or(0, |parts| parts.value)
}

/// Returns whether the last id of a series was given out: before its first id, a series is at the id before its start.
pub(crate) fn is_given_out(series: &Series, last: Id) -> bool {
    number(series, last.get()) > series.record().lanes.start.0
}
