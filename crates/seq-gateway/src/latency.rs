//! Sampled latency of requests.
//!
//! Measuring a request takes two readings of the clock and a record in a histogram, which cost several times as much as
//! an allocation. So only a sample of the requests is measured. A request is chosen for the sample independently of its
//! latency, so the sample has the same distribution of latencies as all requests.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;

use metrics::{Histogram, histogram};
use seq_api::metrics::REQUEST_SECONDS;
use seq_api::service::Via;

/// Number of requests of which one is measured. The first request of an endpoint is always measured.
const ONE_IN: u32 = 16;

/// The latency histograms of one endpoint.
pub(crate) struct Latency {
    turn: AtomicU32,
    seconds: [Histogram; Via::ALL.len()],
}

impl Latency {
    pub(crate) fn new(set: &str) -> Latency {
        let seconds = |via: Via| histogram!(REQUEST_SECONDS, "set" => set.to_owned(), "via" => via.name());
        Latency { turn: AtomicU32::new(0), seconds: Via::ALL.map(seconds) }
    }

    /// If the current request is in the sample, returns a value that measures the request until it is dropped;
    /// otherwise returns `None`.
    pub(crate) fn sample(&self, via: Via) -> Option<Sample<'_>> {
        let turn = self.turn.fetch_add(1, Relaxed);
        turn.is_multiple_of(ONE_IN).then(|| Sample { began: Instant::now(), seconds: &self.seconds[via as usize] })
    }
}

/// A running measurement of one request.
pub(crate) struct Sample<'a> {
    began: Instant,
    seconds: &'a Histogram,
}

impl Drop for Sample<'_> {
    fn drop(&mut self) {
        self.seconds.record(self.began.elapsed());
    }
}
