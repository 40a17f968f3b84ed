//! Departure of a node behind load balancers. The node first reports that it is not ready, and continues to serve until
//! the balancers have noticed this.
//!
//! A balancer notices by its probes that a node leaves, and sends new connections to the node until then. So a node
//! that is probed continues to serve for a while. In some protocols no message can announce the end of a connection. In
//! the second half of this time, the node ends each connection of such a protocol together with a response, so that no
//! request is lost. A node that is not probed has no balancer, and leaves at once.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Number of probes within [`WATCHED_WITHIN`] from which a node concludes that a balancer or an orchestrator probes it.
/// An operator who waits until a node is ready sends fewer probes that find the node ready, because the operator stops
/// after the first.
const WATCHED_BY: usize = 3;

/// Time within which the last [`WATCHED_BY`] probes must have arrived. It is long enough, because balancers probe every
/// 10 s or more often.
const WATCHED_WITHIN: Duration = Duration::from_secs(60);

/// The departure of a node. Clones belong to the same node.
#[derive(Clone, Debug, Default)]
pub struct Departure(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    begun: CancellationToken,
    ending: CancellationToken,
    /// Times of the last probes that found the node ready, in ascending order.
    probes: Mutex<[Option<Instant>; WATCHED_BY]>,
}

impl Departure {
    /// Creates the departure of a node. It begins when `begun` is cancelled. From then on the node is not ready.
    #[must_use]
    pub fn at(begun: CancellationToken) -> Departure {
        Departure(Arc::new(Inner { begun, ..Inner::default() }))
    }

    /// Returns whether the node is about to leave, and therefore not ready.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.0.begun.is_cancelled()
    }

    /// Returns whether connections are ended after a response.
    #[inline]
    #[must_use]
    pub fn ends_connections(&self) -> bool {
        self.0.ending.is_cancelled()
    }

    /// Makes the node end its connections after a response from now on.
    pub fn end_connections(&self) {
        self.0.ending.cancel();
    }

    /// Records a probe that found the node ready.
    pub(crate) fn probed(&self) {
        let mut probes = self.0.probes.lock();
        probes.rotate_left(1);
        probes[WATCHED_BY - 1] = Some(Instant::now());
    }

    /// Returns whether a balancer or an orchestrator probes the node regularly.
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
