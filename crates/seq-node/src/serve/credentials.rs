//! Reloads a server's credentials when their files have changed.

use std::time::{Duration, SystemTime};

use metrics::{counter, gauge};
use seq_api::metrics::{CERTIFICATE_EXPIRY_SECONDS, CERTIFICATE_RELOADS_TOTAL};
use seq_api::node_events::NodeEvents;
use seq_auth::Credentials;
use seq_core::node_events::Fact;

/// Interval between checks of the files. A certificate that was copied to the files is in use after this time at the
/// latest.
const INTERVAL: Duration = Duration::from_secs(2);

/// Reads the files of the credentials again whenever they have changed, until the future is dropped. The certificate in
/// use is kept if a file is damaged, or if the new certificate has expired, is not valid yet or belongs to another
/// holder. A lasting fault is logged only once.
pub(super) async fn renew(credentials: Credentials, node: String, events: NodeEvents) {
    let mut fault = None;
    let reloads = |outcome| counter!(CERTIFICATE_RELOADS_TOTAL, "node" => node.clone(), "outcome" => outcome);
    let expiry = gauge!(CERTIFICATE_EXPIRY_SECONDS, "node" => node.clone());
    let (loaded, failed) = (reloads("loaded"), reloads("failed"));
    let mut tick = tokio::time::interval(INTERVAL);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let reloaded = credentials.reload();
        // The certificate in use has an end also while its files are damaged.
        let certificate = credentials.certificate();
        let at = certificate.not_after.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        expiry.set(at.as_secs_f64());
        let event = events.note(Fact::Certificate { not_after: at.as_secs(), is_new: matches!(reloaded, Ok(true)) });
        match reloaded {
            Ok(changed) => {
                fault = None;
                if changed {
                    loaded.increment(1);
                    let (identity, serial) = (certificate.identity, certificate.serial);
                    tracing::info!(event, %identity, serial, not_after = seq_command::utc::text(certificate.not_after), "certificate reloaded");
                }
            }
            Err(error) => {
                failed.increment(1);
                let lasting = Some(std::mem::discriminant(&error));
                if fault != lasting {
                    let event = events.note(Fact::ReloadFailed { error: &error.to_string() });
                    tracing::warn!(event, %error, "certificate not reloaded; the certificate in use stays");
                }
                fault = lasting;
            }
        }
    }
}
