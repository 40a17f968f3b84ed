//! Observes the cluster while the terminal is drawn, so that a node that does not respond delays no key.

use std::sync::Arc;
use std::time::Duration;

use seq_command::security;
use seq_observe::activity::By;
use seq_observe::{Observation, Observer};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use crate::section::activity::Described;

/// Sections that are requested; a terminal shows fewer.
pub(super) const SECTIONS: u32 = 500;

/// Least time between two observations, because many events may follow each other, and each observation is a request to
/// every node.
const LEAST_INTERVAL: Duration = Duration::from_millis(500);

/// The subject of the next observation, as the screen shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Order of the sections.
    pub(super) by: By,
    /// The section that is shown in detail.
    pub(super) detail: Option<u32>,
    /// Whether no observation is made.
    pub(super) paused: bool,
}

/// An observation, with the section in detail and the lines about it.
pub(super) type Observed = (Arc<Observation>, Option<(u32, Vec<String>)>);

/// Observes the cluster at each interval, after an event, and when other figures are wanted; sends each observation, or
/// the reason why none could be made. Ends when the screen is gone.
///
/// # Cancel safety
/// Dropping the future ends the observations and has no other effect.
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

/// Requests the state of the section in detail from its owner.
async fn describe(detail: Option<u32>, observation: &Observation) -> Option<(u32, Vec<String>)> {
    let section = detail?;
    let owner = &observation.sections.iter().find(|busy| busy.section == section)?.owner;
    let alloc = observation.cluster.allocs.iter().find(|alloc| alloc.name == *owner)?;
    let lines = match Described::request(&security::pool(), &alloc.addr, section).await {
        Ok(described) => described.lines(),
        Err(error) => vec![format!("{owner}: {error}")],
    };
    Some((section, lines))
}
