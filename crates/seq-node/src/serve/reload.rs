//! Reloads the settings and the set file at SIGHUP, and applies those changes that need no restart.

use std::path::PathBuf;

use seq_api::node_events::NodeEvents;
use seq_command::exit::Failure;
use seq_command::set_file;
use seq_core::node_events::Fact;
use seq_core::set_spec::SetSpec;
use seq_kit::config::Key;
use seq_kit::telemetry::LogFilter;
use seq_proto::settings::NodeSettings;
use tokio::signal::unix::Signal;

use crate::settings::{Loaded, of_node, table};

/// The only settings key whose change is applied at SIGHUP. Certificates and tenants are read again without a signal.
const LIVE: &str = "log.filter";

/// Functions and values with which a running process reads its settings and its set file again.
pub(crate) struct Reload {
    /// The settings with which the process started.
    pub(crate) running: Vec<Key>,
    /// Function that reads the settings in the same way as at the start.
    pub(crate) load: Box<dyn Fn() -> Result<Loaded, Failure> + Send + Sync>,
    /// The set file, if the process has one.
    pub(crate) set: Option<LiveSet>,
    /// The settings that the node reports. Applied changes are written to them.
    pub(crate) reported: NodeSettings,
}

/// The set file of a running node.
pub(crate) struct LiveSet {
    pub(crate) path: PathBuf,
    /// The set with which the process started.
    pub(crate) running: SetSpec,
    /// Function that returns a set without the parts that [`LiveSet::apply`] applies and without the parts that do not
    /// concern this node. If its result changes, the node needs a restart.
    pub(crate) fixed: Box<dyn Fn(&SetSpec) -> SetSpec + Send + Sync>,
    /// Function that applies the parts of the set that need no restart.
    pub(crate) apply: Box<dyn Fn(&SetSpec) + Send + Sync>,
}

impl Reload {
    /// Reads and applies the settings and the set file at each SIGHUP, until the future is dropped. If a file is wrong,
    /// the settings or the set in use are kept. Each reload is an event of the node, which lists the changes.
    pub(super) async fn watch(self, mut hangups: Signal, filter: LogFilter, events: NodeEvents) {
        let mut live = self.running.clone();
        let mut live_set = self.set.as_ref().map(|set| set.running.clone());
        while hangups.recv().await.is_some() {
            let (mut changes, mut is_read) = (Vec::new(), true);
            match (self.load)() {
                Ok(loaded) => {
                    apply(&live, &loaded, &filter, &self.reported);
                    let pending: Vec<&str> =
                        changed(&self.running, &loaded.keys).filter(|name| *name != LIVE).collect();
                    changes.extend(changed(&live, &loaded.keys).map(|name| match pending.contains(&name) {
                        true => format!("{name} (needs a restart)"),
                        false => name.to_owned(),
                    }));
                    if !pending.is_empty() {
                        tracing::warn!(keys = pending.join(", "), "some changed settings need a restart");
                    }
                    live = loaded.keys;
                }
                Err(error) => {
                    let event = events.note(Fact::ReloadFailed { error: &error.to_string() });
                    tracing::error!(event, %error, "settings not reloaded; the settings in use stay");
                    is_read = false;
                }
            }
            if let Some((set, live)) = self.set.as_ref().zip(live_set.as_mut()) {
                match set.reload(live, &self.reported) {
                    Ok(of_set) => changes.extend(of_set),
                    Err(error) => {
                        let event = events.note(Fact::ReloadFailed { error: &error.to_string() });
                        tracing::error!(event, %error, "set file not reloaded; the set file in use stays");
                        is_read = false;
                    }
                }
            }
            if is_read || !changes.is_empty() {
                let changes = changes.join(", ");
                let event = events.note(Fact::Reloaded { changes: &changes });
                tracing::info!(event, changes, "reloaded");
            }
        }
    }
}

impl LiveSet {
    /// Reads the set file and applies its changes. Returns texts about the changes since the set `live`, which was read
    /// last.
    fn reload(&self, live: &mut SetSpec, reported: &NodeSettings) -> Result<Vec<String>, Failure> {
        let file = set_file::load_for_server(&self.path)?;
        let (spec, path) = (&file.spec, self.path.display());
        let needs_restart = (self.fixed)(spec) != (self.fixed)(&self.running);
        if needs_restart {
            tracing::warn!(%path, "the set file has changes that need a restart");
        }
        (self.apply)(spec);
        reported.update(of_node::step(&file));
        tracing::info!(%path, step = spec.step, allocs = spec.allocs.len(), "set file reloaded");
        let mut changes = Vec::new();
        if spec.step != live.step {
            changes.push(format!("step {}", spec.step));
        }
        if spec.allocs != live.allocs {
            changes.push("allocators of the set file".to_owned());
        }
        if (self.fixed)(spec) != (self.fixed)(live) {
            changes.push(if needs_restart { "set file (needs a restart)" } else { "set file" }.to_owned());
        }
        *live = file.spec;
        Ok(changes)
    }
}

/// Applies the log filter in `loaded` if it differs from the filter in use, and writes it to `reported`. Changes of all
/// other keys need a restart.
fn apply(live: &[Key], loaded: &Loaded, filter: &LogFilter, reported: &NodeSettings) {
    if !changed(live, &loaded.keys).any(|name| name == LIVE) {
        return;
    }
    // The filter was already checked when the settings were read.
    match filter.set(&loaded.value.log.filter) {
        Ok(()) => {
            loaded.keys.iter().filter(|key| key.name == LIVE).for_each(|key| reported.update(table::row(key)));
            tracing::info!(log.filter = loaded.value.log.filter, "settings reloaded");
        }
        Err(error) => tracing::error!(%error, "log filter not applied"),
    }
}

/// Returns the names of the keys whose values differ. Both lists must have all keys in the same order.
fn changed<'a>(from: &'a [Key], to: &'a [Key]) -> impl Iterator<Item = &'a str> {
    from.iter().zip(to).filter(|(from, to)| from.value != to.value).map(|(from, _)| from.name.as_str())
}
