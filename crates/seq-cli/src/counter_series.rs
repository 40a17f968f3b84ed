//! Counter series of a cluster. They can be imported and exported like the numbers of users, because their ids are made
//! of the numbers of one counter.

use seq_client::{Client, Series};
use seq_ids::{Id, Shape};
use seq_load::outcome::Chain;

/// Returns the counter series with a name.
///
/// # Errors
/// Text with the reason why the series cannot be imported or exported.
pub(crate) async fn find(client: &Client, name: &str) -> Result<Series, String> {
    let series = client.series(name).await.map_err(|error| Chain(&error).to_string())?;
    match series.shape() {
        Shape::Counter(_) => Ok(series),
        Shape::Timed(_) => Err(format!("series {name:?} is no counter: its ids follow the clock")),
    }
}

/// Returns all counter series of the cluster that are not retired, in the order of their creation.
pub(crate) fn all(client: &Client) -> Vec<Series> {
    let is_served = |series: &Series| matches!(series.shape(), Shape::Counter(_)) && !series.record().retired;
    client.all_known_series().into_iter().filter(is_served).collect()
}

/// Returns the number from which a series made `id`; 0 if `id` is no id of the series.
pub(crate) fn number(series: &Series, id: u64) -> u64 {
    Id::new(id).and_then(|id| series.shape().parts(id)).map_or(0, |parts| parts.value)
}

/// Returns whether the last id of a series was really allocated. A series that has not allocated any id reports the id
/// below its start as its last id.
pub(crate) fn is_given_out(series: &Series, last: Id) -> bool {
    number(series, last.get()) > series.record().lanes.start.0
}
