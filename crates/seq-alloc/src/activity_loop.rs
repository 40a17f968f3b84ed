//! Loop that reads the slots of all owned sections in repeated passes, slowly enough to use only one percent of a core.
//! The loop reads 256 KiB in about 30 us and then waits, so that it does not delay the other tasks of the control
//! runtime. A pass takes a second or longer. For 20 million uids that have used their slots, a pass takes 5 s.
//!
//! The readings also show whether a counter fell or is above its ceiling, which must never be.

use std::sync::Arc;
use std::time::Duration;

use seq_core::SectionId;
use tokio::time::{Instant, sleep_until};

use crate::activity::reader::{self, Reader};
use crate::fault_metrics::Violation;
use crate::shared::Shared;

/// Pace of the reader.
const BYTES_PER_SECOND: u64 = 32 << 20;

/// Interval at which the loop looks for sections that entered or left the table of served sections. The slots of a
/// section that left stay in memory until then.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Reads until shutdown.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut reader = Reader::default();
    loop {
        let began = Instant::now();
        let mut swept: Option<Instant> = None;
        let mut bytes = 0;
        loop {
            let is_over = {
                let (table, now) = (shared.ownership.owned(), shared.clock.now());
                if swept.is_none_or(|at| at.elapsed() >= SWEEP_EVERY) {
                    reader.sweep(&shared.activity, &table, now);
                    swept = Some(Instant::now());
                }
                let slice = reader.slice(&shared.activity, &table, now);
                bytes += slice.bytes;
                slice.is_last
            };
            report(&shared, reader.take_violations());
            let due = began + Duration::from_micros(bytes * 1_000_000 / BYTES_PER_SECOND);
            let due = if is_over { due.max(began + Duration::from_millis(reader::MIN_PASS_MS.into())) } else { due };
            tokio::select! {
                () = shared.halt.shutdown().cancelled() => return,
                () = sleep_until(due) => {}
            }
            if is_over {
                break;
            }
            tokio::task::yield_now().await;
        }
        shared.activity.end_pass(reader.end_pass(), began.elapsed().as_millis() as u64);
        shared.counters.publish_slots(shared.activity.slot_bytes());
    }
}

/// Counts and logs violations of the order. The node serves on: an operator decides whether it is stopped.
fn report(shared: &Shared, violations: Vec<(SectionId, Violation)>) {
    let (set, name) = (&shared.config.set, &shared.config.name);
    for (section, violation) in violations {
        shared.counters.faults.violated(violation);
        let section = section.0;
        let cause = violation.name();
        tracing::error!(set, name, section, cause, "the order of numbers is violated: stop this process");
    }
}
