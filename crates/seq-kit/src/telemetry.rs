//! Logging to stderr, as text or JSON, filtered by target and level.

use std::io::IsTerminal;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{Format, JsonFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

mod limit;
pub mod traces;

use limit::Limit;

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One line of text for each event.
    #[default]
    Plain,
    /// One JSON object for each event.
    Json,
}

/// An error in setting up logging.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter cannot be parsed.
    #[error("log filter {filter:?} cannot be read")]
    Filter {
        /// The filter.
        filter: String,
        /// The parser's error.
        source: tracing_subscriber::filter::ParseError,
    },
    /// The process has a logger already.
    #[error("the process has a logger already")]
    Twice(#[source] TryInitError),
}

/// The filter of a process' log.
#[derive(Clone, Debug)]
pub struct LogFilter(reload::Handle<Targets, Registry>);

impl LogFilter {
    /// Replaces the filter. The new filter applies to all later events.
    ///
    /// # Errors
    /// [`TelemetryError::Filter`]
    pub fn set(&self, filter: &str) -> Result<(), TelemetryError> {
        // This fails only if the logger no longer exists or a thread panicked in it. In both cases nothing is logged
        // any more.
        let _ = self.0.reload(parse(filter)?);
        Ok(())
    }
}

/// Starts logging to stderr. It must be called only once in a process. `filter` is a list such as
/// "info,seq_store=debug". The log is coloured if `color` is set and stderr is a terminal.
///
/// # Errors
/// [`TelemetryError`]
pub fn init(format: LogFormat, filter: &str, color: bool) -> Result<LogFilter, TelemetryError> {
    let (filter, handle) = reload::Layer::new(parse(filter)?);
    let registry = tracing_subscriber::registry().with(filter);
    // The library's internal errors are not logged, because the library prints them to stderr and panics if stderr is a
    // closed pipe.
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).log_internal_errors(false);
    let started = match format {
        LogFormat::Plain => {
            let ansi = color && std::io::stderr().is_terminal();
            let layer = layer.with_ansi(ansi).event_format(Limit::new(Format::default(), false));
            registry.with(layer).try_init()
        }
        LogFormat::Json => {
            let limit = Limit::new(Format::default().json().flatten_event(true), true);
            registry.with(layer.fmt_fields(JsonFields::new()).event_format(limit)).try_init()
        }
    };
    started.map_err(TelemetryError::Twice)?;
    Ok(LogFilter(handle))
}

/// Parses a filter. A filter consists only of targets and levels. Patterns of spans and fields are not supported,
/// because they would need the regular expressions of a large library, and this program opens no spans of the library
/// `tracing`.
fn parse(filter: &str) -> Result<Targets, TelemetryError> {
    filter.parse().map_err(|source| TelemetryError::Filter { filter: filter.to_owned(), source })
}

/// Validates a filter without starting to log.
///
/// # Errors
/// [`TelemetryError::Filter`]
pub fn check_filter(filter: &str) -> Result<(), TelemetryError> {
    parse(filter).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_filter_is_named() {
        assert!(check_filter("info,seq_store=debug").is_ok());
        let error = check_filter("seq_store=loud").unwrap_err();
        assert_eq!(error.to_string(), "log filter \"seq_store=loud\" cannot be read");
    }
}
