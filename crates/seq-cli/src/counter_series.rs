//! Counter series of a cluster. They can be exported and imported like the numbers of users, because every id of a
//! counter series is made of one number of one counter.

use seq_client::{Client, Series};
use seq_ids::{Id, Shape};
use seq_load::outcome::Chain;

/// Returns the series with the given name, if it is a counter series.
///
/// # Errors
/// The reason why a series with this name cannot be exported or imported.
pub(crate) async fn find(client: &Client, name: &str) -> Result<Series, String> {
    let series = client.series(name).await.map_err(|error| Chain(&error).to_string())?;
    match series.shape() {
        Shape::Counter(_) => Ok(series),
        Shape::Timed(_) => Err(format!("series {name:?} is no counter: its ids follow the clock")),
    }
}

/// Returns all counter series of the cluster that are not retired, ordered by their creation.
pub(crate) fn all(client: &Client) -> Vec<Series> {
    let is_served = |series: &Series| matches!(series.shape(), Shape::Counter(_)) && !series.record().retired;
    client.all_known_series().into_iter().filter(is_served).collect()
}

/// Returns the number from which the series made `id`, or 0 if the series has no such id.
pub(crate) fn number(series: &Series, id: u64) -> u64 {
    Id::new(id).and_then(|id| series.shape().parts(id)).map_or(0, |parts| parts.value)
}

/// Returns whether `last`, the last id of the series as the cluster reports it, was really allocated. If the series has
/// not allocated an id yet, the cluster reports the id before the first one.
pub(crate) fn is_given_out(series: &Series, last: Id) -> bool {
    number(series, last.get()) > series.record().lanes.start.0
}
