//! Newest formats that the other members read, from their responses.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Newest formats that the other members have reported. After a member has changed its release, its first response
/// updates its report.
#[derive(Debug, Default)]
pub(crate) struct ReportedFormats(Mutex<BTreeMap<u64, Report>>);

#[derive(Clone, Copy, Debug)]
struct Report {
    newest: u32,
    at: Instant,
}

impl ReportedFormats {
    /// Records the newest format that the sender of a response reads; 0 if the sender's release reports no format.
    pub(crate) fn on_response(&self, id: u64, newest: u32) {
        self.0.lock().insert(id, Report { newest, at: Instant::now() });
    }

    /// Returns a member's last report.
    pub(crate) fn newest(&self, id: u64) -> Option<u32> {
        self.0.lock().get(&id).map(|report| report.newest)
    }

    /// Returns a member's last report, if it arrived since `began`.
    pub(crate) fn newest_since(&self, id: u64, began: Instant) -> Option<u32> {
        self.0.lock().get(&id).filter(|report| report.at >= began).map(|report| report.newest)
    }
}

/// Formats that the members read.
#[derive(Clone)]
pub(crate) struct Formats {
    /// Newest format of this program.
    pub(crate) mine: u16,
    /// Newest formats that the other members reported.
    pub(crate) reported: Arc<ReportedFormats>,
}
