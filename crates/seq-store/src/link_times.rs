//! The times of a link between two members: those it is given, from the settings, and those it takes, as measured.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::config::StoreOptions;

/// How long making a connection may take at least: a busy member accepts late.
const MIN_CONNECT: Duration = Duration::from_millis(500);

/// How often an idle connection is pinged at least, and how long the response may take at least.
const MIN_KEEP_ALIVE: Duration = Duration::from_millis(300);

/// What one member allows another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkTimes {
    /// For making a connection.
    pub(crate) connect: Duration,
    /// Between two pings of an idle connection, and for the response to one.
    pub(crate) keep_alive: Duration,
    /// For the response to one of the batches under way; a slow disk should not make them be sent again.
    pub(crate) append: Duration,
}

impl LinkTimes {
    /// What fits a heartbeat: it is at least the longest round trip that the settings carry.
    pub(crate) fn new(options: &StoreOptions) -> LinkTimes {
        LinkTimes {
            connect: MIN_CONNECT.max(options.heartbeat * 2),
            keep_alive: MIN_KEEP_ALIVE.max(options.heartbeat * 3),
            append: options.election_min,
        }
    }
}

/// The last measured round trip to each member.
#[derive(Debug, Default)]
pub(crate) struct RoundTrips(Mutex<BTreeMap<u64, Duration>>);

impl RoundTrips {
    pub(crate) fn get(&self, id: u64) -> Option<Duration> {
        self.0.lock().get(&id).copied()
    }

    /// Begins a measurement. One that is dropped counts as well: the response took at least as long.
    pub(crate) fn begin(self: &Arc<RoundTrips>, id: u64) -> Measurement {
        Measurement { trips: self.clone(), id, since: Some(Instant::now()) }
    }
}

/// A round trip under way.
#[derive(Debug)]
pub(crate) struct Measurement {
    trips: Arc<RoundTrips>,
    id: u64,
    since: Option<Instant>,
}

impl Measurement {
    /// The connection failed: that says nothing about the round trip.
    pub(crate) fn discard(mut self) {
        self.since = None;
    }
}

impl Drop for Measurement {
    fn drop(&mut self) {
        if let Some(since) = self.since {
            self.trips.0.lock().insert(self.id, since.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_allowance_of_a_link_is_longer_than_the_round_trip_that_is_carried() {
        for options in [StoreOptions::DEFAULTS, StoreOptions::WAN] {
            let LinkTimes { connect, keep_alive, append } = LinkTimes::new(&options);
            for allowance in [connect, keep_alive, append] {
                assert!(allowance > options.max_round_trip(), "{allowance:?} of {options:?}");
            }
        }
    }

    #[test]
    fn a_round_trip_that_was_given_up_took_at_least_as_long() {
        let trips = Arc::new(RoundTrips::default());
        let measurement = trips.begin(2);
        let since = measurement.since.unwrap();
        while since.elapsed() < Duration::from_millis(2) {
            std::hint::spin_loop();
        }
        drop(measurement);
        let measured = trips.get(2).unwrap();
        assert!(measured >= Duration::from_millis(2), "{measured:?}");
        trips.begin(2).discard();
        assert_eq!(trips.get(2), Some(measured));
        assert_eq!(trips.get(3), None);
    }
}
