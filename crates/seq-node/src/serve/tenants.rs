//! Reloads a server's tenants when the tenants file has changed.

use std::path::PathBuf;
use std::time::Duration;

use metrics::counter;
use seq_api::metrics::TENANT_RELOADS_TOTAL;
use seq_api::node_events::NodeEvents;
use seq_command::set_file;
use seq_core::node_events::Fact;
use seq_kit::repeats::Repeats;
use seq_tenant::{TenantSpec, Tenants};

use crate::tenant;

/// Pause between two readings of the file.
const INTERVAL: Duration = Duration::from_secs(2);

/// Reads the tenants file at intervals, and replaces the tenants when the file has changed, until the future is
/// dropped. If the file is damaged, the tenants in use are kept.
pub(super) async fn renew(
    tenants: Tenants,
    path: PathBuf,
    mut loaded: Vec<TenantSpec>,
    (node, events): (String, NodeEvents),
) {
    let mut failures = Repeats::default();
    let reloads = |outcome| counter!(TENANT_RELOADS_TOTAL, "node" => node.clone(), "outcome" => outcome);
    let (replaced, failed) = (reloads("loaded"), reloads("failed"));
    loop {
        tokio::time::sleep(INTERVAL).await;
        match tenant::load(&path) {
            Ok(specs) if specs == loaded => {
                failures.end();
            }
            Ok(specs) => {
                failures.end();
                replaced.increment(1);
                let changes = format!("{}, {} tenants", path.display(), specs.len());
                let event = events.note(Fact::Reloaded { changes: &changes });
                tracing::info!(event, tenants = specs.len(), "tenants reloaded");
                tenants.replace(specs.clone());
                loaded = specs;
            }
            Err(problems) => {
                failed.increment(1);
                let error = set_file::lines(&problems);
                if let Some(suppressed) = failures.admit() {
                    let event = events.note(Fact::ReloadFailed { error: &error });
                    tracing::error!(event, error, suppressed, "tenants not reloaded; the tenants in use stay");
                }
            }
        }
    }
}
