//! Limits on the number of reports that a node makes for operators, so that open consoles do not slow down the node's
//! callers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Limit on concurrent reports of all sections.
const MAX_LISTINGS: usize = 16;

/// Limit on reports of one section in a second.
const MAX_DETAILS: u32 = 10;

/// Limits of one node. Clones share them.
#[derive(Clone, Debug)]
pub struct ReportLimits {
    listings: Arc<Semaphore>,
    details: Arc<Mutex<Details>>,
}

/// Reports of one section in the current second.
#[derive(Debug)]
struct Details {
    /// Begin of the second; `None` before the first report.
    since: Option<Instant>,
    made: u32,
}

/// Permit of a report of all sections, which is held while the report is being made.
#[derive(Debug)]
pub struct Listing {
    _permit: OwnedSemaphorePermit,
}

/// Error of a request for a report: the node already makes the allowed number of reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooManyReports {
    /// Limit on concurrent reports.
    #[error("this node makes {MAX_LISTINGS} reports of its sections at a time: repeat the request")]
    Listings,
    /// Limit on reports in a second.
    #[error("this node makes {MAX_DETAILS} reports of a section a second: repeat the request")]
    Details,
}

impl Default for ReportLimits {
    fn default() -> ReportLimits {
        let details = Details { since: None, made: 0 };
        ReportLimits { listings: Arc::new(Semaphore::new(MAX_LISTINGS)), details: Arc::new(Mutex::new(details)) }
    }
}

impl ReportLimits {
    /// Begins a report of all sections.
    ///
    /// # Errors
    /// [`TooManyReports`].
    pub fn begin_listing(&self) -> Result<Listing, TooManyReports> {
        let permit = self.listings.clone().try_acquire_owned().map_err(|_| TooManyReports::Listings)?;
        Ok(Listing { _permit: permit })
    }

    /// Counts a report of one section.
    pub fn count_detail(&self, now: Instant) -> Result<(), TooManyReports> {
        let mut details = self.details.lock();
        if details.since.is_none_or(|since| now.saturating_duration_since(since) >= Duration::from_secs(1)) {
            *details = Details { since: Some(now), made: 0 };
        }
        if details.made == MAX_DETAILS {
            return Err(TooManyReports::Details);
        }
        details.made += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_are_bounded_at_a_time() {
        let limits = ReportLimits::default();
        let mut made: Vec<Listing> = (0..MAX_LISTINGS).map(|_| limits.begin_listing().unwrap()).collect();
        assert_eq!(limits.clone().begin_listing().unwrap_err(), TooManyReports::Listings);
        made.pop();
        assert!(limits.begin_listing().is_ok());
    }

    #[test]
    fn details_are_bounded_in_a_second() {
        let (limits, start) = (ReportLimits::default(), Instant::now());
        let made = |ms| (0..20).filter(|_| limits.count_detail(start + Duration::from_millis(ms)).is_ok()).count();
        assert_eq!([made(0), made(999), made(1_000), made(1_999), made(9_000)], [10, 0, 10, 0, 10]);
    }
}
