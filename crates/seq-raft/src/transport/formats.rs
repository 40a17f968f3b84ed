//! The newest format of commands and states that each other member can read, taken from its responses.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Newest format that each other member has reported. The first response after a member's restart with another release
/// replaces its earlier report.
#[derive(Debug, Default)]
pub(crate) struct ReportedFormats(Mutex<BTreeMap<u64, Report>>);

#[derive(Clone, Copy, Debug)]
struct Report {
    newest: u32,
    at: Instant,
}

impl ReportedFormats {
    /// Records the newest format `newest` that the member `id` has reported in a response; 0 if its release reports no
    /// format.
    pub(crate) fn on_response(&self, id: u64, newest: u32) {
        self.0.lock().insert(id, Report { newest, at: Instant::now() });
    }

    /// Returns the newest format that the member `id` last reported.
    pub(crate) fn newest(&self, id: u64) -> Option<u32> {
        self.0.lock().get(&id).map(|report| report.newest)
    }

    /// Returns the newest format that the member `id` last reported, if this report arrived at `began` or later.
    pub(crate) fn newest_since(&self, id: u64, began: Instant) -> Option<u32> {
        self.0.lock().get(&id).filter(|report| report.at >= began).map(|report| report.newest)
    }
}

/// Newest formats that this member and the other members can read.
#[derive(Clone)]
pub(crate) struct Formats {
    /// Newest format that this program can read.
    pub(crate) mine: u16,
    /// Newest formats that the other members have reported.
    pub(crate) reported: Arc<ReportedFormats>,
}
