//! How long calls take, from a sample of them.
//!
//! Reading the clock twice and keeping a sample costs several times what giving a number out does, so not every call
//! pays for it. Which calls are measured does not depend on how long they take, so the distribution is that of all calls.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;

use metrics::{Histogram, histogram};
use seq_kit::frontend::Via;
use seq_kit::metrics::REQUEST_SECONDS;

/// One call in so many is measured, the first one of a door included.
const ONE_IN: u32 = 16;

/// The measurements of one door.
pub(crate) struct Latency {
    turn: AtomicU32,
    seconds: [Histogram; Via::ALL.len()],
}

impl Latency {
    pub(crate) fn new(set: &str) -> Latency {
        let seconds = |via: Via| histogram!(REQUEST_SECONDS, "set" => set.to_owned(), "via" => via.name());
        Latency { turn: AtomicU32::new(0), seconds: Via::ALL.map(seconds) }
    }

    /// Measures until the answer is dropped, when it is this call's turn.
    pub(crate) fn sample(&self, via: Via) -> Option<Sample<'_>> {
        let turn = self.turn.fetch_add(1, Relaxed);
        turn.is_multiple_of(ONE_IN).then(|| Sample { began: Instant::now(), seconds: &self.seconds[via as usize] })
    }
}

/// A call under measurement.
pub(crate) struct Sample<'a> {
    began: Instant,
    seconds: &'a Histogram,
}

impl Drop for Sample<'_> {
    fn drop(&mut self) {
        self.seconds.record(self.began.elapsed());
    }
}
