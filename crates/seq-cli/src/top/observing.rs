//! Observes the cluster while the main loop draws the page, so that a node that does not respond does not delay the
//! handling of keys.

use std::sync::Arc;
use std::time::Duration;

use seq_command::security;
use seq_observe::activity::By;
use seq_observe::{BusySection, Observation, Observer};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use crate::section::activity::Described;

/// Number of the busiest sections that are requested for an observation. No terminal shows as many.
pub(super) const SECTIONS: u32 = 500;

/// Minimum time between two observations that events of sets cause. Many events may follow each other quickly, and each
/// observation sends requests to all nodes.
const LEAST_INTERVAL: Duration = Duration::from_millis(500);

/// Choices of the user that the next observation depends on, such as the order of the sections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Order of the sections.
    pub(super) by: By,
    /// Index of the section that is shown in detail.
    pub(super) detail: Option<u32>,
    /// Whether observations are paused.
    pub(super) paused: bool,
}

/// An observation. If the user has opened a section, it also has the index of this section and lines about its state.
pub(super) type Observed = (Arc<Observation>, Option<(u32, Vec<String>)>);

/// Observes the cluster after each interval, after an event of a set, and when `wanted` changes. Sends each
/// observation, or the reason why it failed. Ends when the receiver of the observations or the sender of `wanted` is
/// dropped.
///
/// # Cancel safety
/// If the future is dropped, no more observations are made. There is no other effect.
pub(super) async fn observe(
    mut observer: Observer,
    mut wanted: watch::Receiver<Wanted>,
    interval: Duration,
    send: mpsc::Sender<Result<Observed, String>>,
) {
    let mut last = Instant::now();
    loop {
        tokio::select! {
            () = sleep_until(last + interval) => {}
            () = observer.next_event() => sleep_until(last + LEAST_INTERVAL).await,
            changed = wanted.changed() => if changed.is_err() { return },
        }
        last = Instant::now();
        let Wanted { by, detail, paused } = *wanted.borrow_and_update();
        if paused {
            continue;
        }
        let observed = match observer.observe(by, SECTIONS).await {
            Ok(observation) => {
                let described = describe(detail, &observation).await;
                Ok((observation, described))
            }
            Err(failure) => Err(failure.to_string()),
        };
        if send.send(observed).await.is_err() {
            return;
        }
    }
}

/// Requests the state of the section that the user has opened from the owner of the section, and, if numbers were
/// skipped, the cause from the store of its set.
async fn describe(detail: Option<u32>, observation: &Observation) -> Option<(u32, Vec<String>)> {
    let section = detail?;
    let BusySection { set, owner, .. } = observation.sections.iter().find(|busy| busy.section == section)?;
    let cluster = &observation.cluster;
    let alloc = cluster.allocs.iter().find(|alloc| alloc.set == *set && alloc.name == *owner)?;
    let lines = match Described::request(&security::pool(), cluster, &alloc.addr, section).await {
        Ok(described) => described.lines(),
        Err(error) => vec![format!("{owner}: {error}")],
    };
    Some((section, lines))
}
