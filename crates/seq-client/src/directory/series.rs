//! The series and keyspaces of a cluster, from the routes of its sets.

use std::sync::Arc;

use seq_core::series::Series;
use seq_proto::series::SeriesShape;

/// A series with its decoded shape, or a keyspace.
#[derive(Clone, Debug)]
pub(crate) struct KnownSeries {
    pub(crate) record: Series,
    /// Shape of the series; `None` if only later releases know it, or if this is a keyspace.
    pub(crate) shape: Option<SeriesShape>,
}

/// Decodes the shapes of series.
pub(super) fn decoded(series: &[Series]) -> Arc<[Arc<KnownSeries>]> {
    let known = |record: &Series| {
        if record.is_keyspace() {
            return Arc::new(KnownSeries { record: record.clone(), shape: None });
        }
        let shape = SeriesShape::of(record)
            .inspect_err(|error| tracing::debug!(series = record.name, %error, "the shape of a series is unknown"));
        Arc::new(KnownSeries { record: record.clone(), shape: shape.ok() })
    };
    series.iter().map(known).collect()
}
