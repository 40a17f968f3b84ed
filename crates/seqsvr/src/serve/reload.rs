//! SIGHUP: reads the settings again, and applies those that need no restart.

use std::io;

use seq_kit::config::Key;
use seq_kit::telemetry::LogFilter;
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::Failure;
use crate::settings::Loaded;

/// The key that is applied while a process runs; the certificates and the tenants are read again without a signal.
const LIVE: &str = "log.filter";

/// Applies the settings at each SIGHUP until it is dropped. Wrong settings change nothing: those in use stay.
///
/// # Errors
/// When the system refuses the handler.
pub(super) fn watch(
    running: Vec<Key>,
    load: impl Fn() -> Result<Loaded, Failure>,
    filter: LogFilter,
) -> io::Result<impl Future<Output = ()>> {
    let mut hangups = signal(SignalKind::hangup())?;
    Ok(async move {
        let mut live = running.clone();
        while hangups.recv().await.is_some() {
            match load() {
                Ok(loaded) => {
                    apply(&live, &loaded, &filter);
                    let pending = changed(&running, &loaded.keys).filter(|name| *name != LIVE);
                    let pending: Vec<&str> = pending.collect();
                    if !pending.is_empty() {
                        tracing::warn!(keys = pending.join(", "), "settings changed that a restart applies");
                    }
                    live = loaded.keys;
                }
                Err(error) => tracing::error!(%error, "settings not reloaded; those in use stay"),
            }
        }
    })
}

/// Applies what can be applied, where it differs from what is in use.
fn apply(live: &[Key], loaded: &Loaded, filter: &LogFilter) {
    if !changed(live, &loaded.keys).any(|name| name == LIVE) {
        tracing::info!("settings reloaded");
        return;
    }
    // Checked when the settings were read.
    match filter.set(&loaded.value.log.filter) {
        Ok(()) => tracing::info!(log.filter = loaded.value.log.filter, "settings reloaded"),
        Err(error) => tracing::error!(%error, "log filter not applied"),
    }
}

/// The names of the keys whose values differ. Both lists have all keys, in one order.
fn changed<'a>(from: &'a [Key], to: &'a [Key]) -> impl Iterator<Item = &'a str> {
    from.iter().zip(to).filter(|(from, to)| from.value != to.value).map(|(from, _)| from.name.as_str())
}
