//! Metrics of a process. The module defines the rows of a catalogue of metrics, and the recorder that renders the
//! metrics as text.
//!
//! The catalogue itself is defined by the program.

use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Never decreases.
    Counter,
    /// Increases and decreases.
    Gauge,
    /// A distribution in buckets.
    Histogram,
}

/// The unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A plain number.
    Count,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
}

/// A row of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// Its name in Prometheus.
    pub name: &'static str,
    /// Kind of the metric.
    pub kind: Kind,
    /// Unit of its values.
    pub unit: Unit,
    /// Meaning of the metric, in a sentence.
    pub help: &'static str,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// Upper bounds of the buckets; empty unless it is a histogram.
    pub buckets: &'static [f64],
}

/// Interval at which samples of histograms are moved into their buckets. Otherwise samples would accumulate in memory
/// for as long as no scraper reads the metrics.
pub const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// The metrics of the process. Clones are handles to the same metrics.
#[derive(Clone)]
pub struct Recorder {
    handle: PrometheusHandle,
    refresh: Arc<dyn Fn() + Send + Sync>,
}

impl Recorder {
    /// Installs the recorder of the process and describes every metric in `catalogue`. It must be called only once in a
    /// process. `refresh` is called before every rendering, and sets the gauges that no other code updates.
    ///
    /// # Errors
    /// If the process already has a recorder.
    pub fn install(catalogue: &[Metric], refresh: impl Fn() + Send + Sync + 'static) -> Result<Recorder, InstallError> {
        let handle = builder(catalogue)?.install_recorder()?;
        describe(catalogue);
        Ok(Recorder { handle, refresh: Arc::new(refresh) })
    }

    /// Returns every metric with a value, as Prometheus text.
    #[must_use]
    pub fn render(&self) -> String {
        (self.refresh)();
        self.handle.render()
    }

    /// Moves samples of histograms into their buckets. It is called every [`UPKEEP_INTERVAL`].
    pub fn upkeep(&self) {
        self.handle.run_upkeep();
    }
}

/// An error in installing the recorder.
#[derive(Debug, thiserror::Error)]
#[error("cannot install the metrics recorder")]
pub struct InstallError(#[from] BuildError);

fn builder(catalogue: &[Metric]) -> Result<PrometheusBuilder, BuildError> {
    let mut histograms = catalogue.iter().filter(|metric| metric.kind == Kind::Histogram);
    histograms.try_fold(PrometheusBuilder::new(), |builder, metric| {
        builder.set_buckets_for_metric(Matcher::Full(metric.name.to_owned()), metric.buckets)
    })
}

fn describe(catalogue: &[Metric]) {
    for metric in catalogue {
        let unit = match metric.unit {
            Unit::Count => metrics::Unit::Count,
            Unit::Seconds => metrics::Unit::Seconds,
            Unit::Bytes => metrics::Unit::Bytes,
        };
        match metric.kind {
            Kind::Counter => metrics::describe_counter!(metric.name, unit, metric.help),
            Kind::Gauge => metrics::describe_gauge!(metric.name, unit, metric.help),
            Kind::Histogram => metrics::describe_histogram!(metric.name, unit, metric.help),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CATALOGUE: &[Metric] = &[
        Metric {
            name: "test_raises_total",
            kind: Kind::Counter,
            unit: Unit::Count,
            help: "Raises.",
            labels: &["set", "outcome"],
            buckets: &[],
        },
        Metric {
            name: "test_sync_seconds",
            kind: Kind::Histogram,
            unit: Unit::Seconds,
            help: "Time of a sync.",
            labels: &["set"],
            buckets: &[0.000_2, 0.000_3],
        },
    ];

    #[test]
    fn samples_are_rendered_in_the_catalogues_buckets() {
        let recorder = builder(CATALOGUE).unwrap().build_recorder();
        let handle = recorder.handle();
        metrics::with_local_recorder(&recorder, || {
            describe(CATALOGUE);
            metrics::counter!("test_raises_total", "set" => "dev", "outcome" => "committed").increment(3);
            metrics::histogram!("test_sync_seconds", "set" => "dev").record(0.000_25);
        });
        let text = handle.render();
        let has = |line: &str| assert!(text.lines().any(|is| is == line), "no line {line:?} in:\n{text}");
        has("# TYPE test_raises_total counter");
        has(r#"test_raises_total{set="dev",outcome="committed"} 3"#);
        has(r#"test_sync_seconds_bucket{set="dev",le="0.0002"} 0"#);
        has(r#"test_sync_seconds_bucket{set="dev",le="0.0003"} 1"#);
    }
}
