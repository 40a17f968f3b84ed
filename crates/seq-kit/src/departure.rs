//! The end of a node that load balancers know: it first becomes not ready, and serves until they have noticed.
//!
//! A balancer learns from its probes that a node leaves, and sends it new connections until then. So a node that is
//! probed continues to serve for a while. In the second half of that time it ends connections whose protocol has no
//! message for their end: it ends them together with a response, so that no request is lost. A node without probes has
//! no balancer, and leaves at once.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Number of probes within [`WATCHED_WITHIN`] that only a balancer or an orchestrator sends: an operator who waits for
/// a node to be ready sends no more probes once it is.
const WATCHED_BY: usize = 3;

/// Time within which the last [`WATCHED_BY`] probes must have come: balancers probe every 10 s or more often.
const WATCHED_WITHIN: Duration = Duration::from_secs(60);

/// The departure of a node. Clones belong to the same node.
#[derive(Clone, Debug, Default)]
pub struct Departure(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    begun: CancellationToken,
    ending: CancellationToken,
    /// Times of the last probes that found the node ready, the oldest first.
    probes: Mutex<[Option<Instant>; WATCHED_BY]>,
}

impl Departure {
    /// Creates the departure of a node that is not ready once `begun` is cancelled.
    #[must_use]
    pub fn at(begun: CancellationToken) -> Departure {
        Departure(Arc::new(Inner { begun, ..Inner::default() }))
    }

    /// Returns whether the node is about to leave, and therefore not ready.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.0.begun.is_cancelled()
    }

    /// Returns whether connections end after a response.
    #[inline]
    #[must_use]
    pub fn ends_connections(&self) -> bool {
        self.0.ending.is_cancelled()
    }

    /// Makes connections end after a response from now on.
    pub fn end_connections(&self) {
        self.0.ending.cancel();
    }

    /// Notes a probe that found the node ready.
    pub(crate) fn probed(&self) {
        let mut probes = self.0.probes.lock();
        probes.rotate_left(1);
        probes[WATCHED_BY - 1] = Some(Instant::now());
    }

    /// Returns whether a balancer or an orchestrator follows the node's readiness.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.0.probes.lock()[0].is_some_and(|oldest| oldest.elapsed() < WATCHED_WITHIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_node_is_watched_by_probes_that_go_on() {
        let departure = Departure::default();
        departure.probed();
        departure.probed();
        assert!(!departure.is_watched(), "an operator's");
        tokio::time::advance(Duration::from_secs(20)).await;
        departure.probed();
        assert!(departure.is_watched());
        tokio::time::advance(Duration::from_secs(41)).await;
        assert!(!departure.is_watched(), "two within a minute");
        departure.probed();
        assert!(!departure.is_watched(), "still two");
    }
}
