//! A host that reports the deaths of nodes' processes to the store, as the parents of the processes do.
//!
//! It is a host of its own, so that it can be cut off from the members of the store while the node's host is not.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use seq_channel::Dial;
use seq_core::set_spec::SetSpec;

use crate::net;
use crate::report::Report;

/// Interval at which the parent checks whether a process has ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Time for a report. It is longer than that of real parents, so that reports arrive late.
const PATIENCE: Duration = Duration::from_secs(8);

/// A process that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    /// Name of the node.
    pub(crate) node: String,
    /// Number of the process.
    pub(crate) process: u64,
}

/// Processes that have ended and are not reported yet. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Deaths(Rc<RefCell<VecDeque<Ended>>>);

impl Deaths {
    /// Notes that a process has ended.
    pub(crate) fn push(&self, ended: Ended) {
        self.0.borrow_mut().push_back(ended);
    }
}

/// Reports each death twice, one after the other, until the run is over.
///
/// # Errors
/// If the store refuses a report, which may not happen.
pub async fn run(spec: SetSpec, deaths: Deaths, report: Report) -> turmoil::Result {
    let dial = Dial::new(net::dial);
    while !report.is_over() {
        let ended = deaths.0.borrow_mut().pop_front();
        let Some(Ended { node, process }) = ended else {
            tokio::time::sleep(LOOK_EVERY).await;
            continue;
        };
        for _ in 0..2 {
            let sent = seq_alloc::report_death(&spec, &dial, &node, process);
            match tokio::time::timeout(PATIENCE, sent).await {
                Ok(outcome) => {
                    let is_noted = outcome?.is_some();
                    report.note(format_args!("death of {node}: {}", if is_noted { "noted" } else { "no change" }));
                    report.count(if is_noted { "deaths noted" } else { "reports that changed nothing" });
                }
                Err(_) => report.count("reports given up"),
            }
        }
    }
    Ok(())
}
