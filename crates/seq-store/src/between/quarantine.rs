//! Ends the quarantine of a restored set, beside the leader: when the leases of its older lineages are over, and every other
//! set has fenced those lineages.
//!
//! **Invariant:** nothing ends a quarantine but the entry that the state accepts: it refuses one without the responses of all
//! sets that it knows. The wait is counted from when this process leads and has the restored state, which is after the
//! restore, so a new leader waits anew.

use std::time::Duration;

use seq_core::Lineage;
use seq_core::state::{EndQuarantine, State};
use tokio::sync::watch;
use tokio::time::Instant;

use super::Between;

/// Pause between two attempts to end a quarantine.
const RETRY: Duration = Duration::from_millis(200);

/// What a quarantine waits for, for operators; empty where this member does not lead.
pub(crate) type Awaited = watch::Receiver<String>;

/// Why a restored set serves nothing, for refusals, probes and operators.
pub(crate) fn text(set: &str, awaited: &str) -> String {
    let awaited = if awaited.is_empty() { "its leader ends the quarantine" } else { awaited };
    format!("QUARANTINED: set {set:?} was restored from a backup and serves nothing yet: {awaited}")
}

/// A channel for what is awaited.
pub(crate) fn awaited() -> (watch::Sender<String>, Awaited) {
    watch::channel(String::new())
}

/// Runs until it is dropped, or the Raft library has stopped.
pub(crate) async fn run(between: Between, awaited: watch::Sender<String>) {
    let set = &between.replicated;
    let mut changes = set.raft().changes();
    // The lineage whose quarantine this leader ends, and since when.
    let mut since: Option<(Lineage, Instant)> = None;
    loop {
        let quarantined = |state: &State| state.is_quarantined().then(|| (state.lineage, state.terms().lease_wait));
        match set.read(quarantined).filter(|_| set.raft().is_leader()) {
            Some((lineage, wait)) => {
                let known = since.filter(|(one, _)| *one == lineage);
                let (_, began) = known.unwrap_or_else(|| (lineage, Instant::now()));
                since = Some((lineage, began));
                let outcome = step(&between, lineage, wait.saturating_sub(began.elapsed())).await;
                publish(&awaited, outcome.err().unwrap_or_default());
                tokio::time::sleep(RETRY).await;
            }
            None => {
                since = None;
                publish(&awaited, String::new());
                if changes.changed().await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Does what can be done now; the error is what is awaited.
async fn step(between: &Between, lineage: Lineage, left: Duration) -> Result<(), String> {
    if !left.is_zero() {
        return Err(format!("the leases of before the restore may last for {:.1} s", left.as_secs_f64()));
    }
    let end = EndQuarantine { lineage, responded: Vec::new() };
    let outcome = between.replicated.propose(end).await.map_err(|error| error.to_string())?;
    outcome.map_err(|refusal| refusal.to_string())?;
    tracing::info!(lineage = lineage.0, "the quarantine is over, and the set serves");
    Ok(())
}

fn publish(awaited: &watch::Sender<String>, text: String) {
    awaited.send_if_modified(|published| {
        let differs = *published != text;
        if differs {
            if !text.is_empty() {
                tracing::debug!(awaited = text, "the set is in quarantine");
            }
            *published = text;
        }
        differs
    });
}
