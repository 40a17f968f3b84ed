//! The newest formats that the other members read, as their responses report them.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Reports of the other members. A member that is replaced by another release is known by its first response after
/// that.
#[derive(Debug, Default)]
pub(crate) struct ReportedFormats(Mutex<BTreeMap<u64, Report>>);

#[derive(Clone, Copy, Debug)]
struct Report {
    newest: u32,
    at: Instant,
}

impl ReportedFormats {
    /// A response reports the newest format that its sender reads; 0 is that of a release which reports none.
    pub(crate) fn on_response(&self, id: u64, newest: u32) {
        self.0.lock().insert(id, Report { newest, at: Instant::now() });
    }

    /// What a member has last reported.
    pub(crate) fn newest(&self, id: u64) -> Option<u32> {
        self.0.lock().get(&id).map(|report| report.newest)
    }

    /// What a member has reported since `began`.
    pub(crate) fn newest_since(&self, id: u64, began: Instant) -> Option<u32> {
        self.0.lock().get(&id).filter(|report| report.at >= began).map(|report| report.newest)
    }
}
