//! Link between two members: the connection, its timeouts, which follow from [`RaftOptions`], and its measured round
//! trips.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use seq_proto::dial::Dial;
use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint};

use crate::options::RaftOptions;

/// Minimum timeout for establishing a connection. It allows for a busy member, which accepts connections late.
const MIN_CONNECT: Duration = Duration::from_millis(500);

/// Minimum interval of pings on an idle connection, and minimum timeout for the response to a ping.
const MIN_KEEP_ALIVE: Duration = Duration::from_millis(300);

/// Timeouts of a connection to another member and of calls on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkTimeouts {
    /// Timeout for establishing a connection.
    pub(crate) connect: Duration,
    /// Interval of pings on an idle connection, and timeout for the response to a ping.
    pub(crate) keep_alive: Duration,
    /// Timeout for the response to each batch of entries in flight. It is long enough for a slow disk to store a batch,
    /// so that the batch is not sent a second time.
    pub(crate) append: Duration,
}

impl LinkTimeouts {
    /// Returns the timeouts for `options`. Each timeout is longer than [`RaftOptions::max_round_trip`].
    pub(crate) fn new(options: &RaftOptions) -> LinkTimeouts {
        LinkTimeouts {
            connect: MIN_CONNECT.max(options.heartbeat * 2),
            keep_alive: MIN_KEEP_ALIVE.max(options.heartbeat * 3),
            append: options.election_min,
        }
    }
}

/// Creates a connection to another member, which is established when it is first used.
pub(crate) fn connect(dial: &Dial, addr: &str, timeouts: LinkTimeouts) -> Result<Channel, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(format!("http://{addr}"))?
        .connect_timeout(timeouts.connect)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(timeouts.keep_alive)
        .keep_alive_timeout(timeouts.keep_alive)
        .keep_alive_while_idle(true);
    Ok(dial.connect(endpoint))
}

/// Last measured round trip to each member, by Raft id.
#[derive(Debug, Default)]
pub(crate) struct RoundTrips(Mutex<BTreeMap<u64, Duration>>);

impl RoundTrips {
    pub(crate) fn get(&self, id: u64) -> Option<Duration> {
        self.0.lock().get(&id).copied()
    }

    /// Begins to measure a round trip to the member `id`. The measurement ends when the returned value is dropped. If
    /// this happens before the response arrives, the time until then counts as the round trip, because the real round
    /// trip is at least as long.
    pub(crate) fn begin(self: &Arc<RoundTrips>, id: u64) -> Measurement {
        Measurement { trips: self.clone(), id, since: Some(Instant::now()) }
    }
}

/// Measurement of a round trip that is in progress.
#[derive(Debug)]
pub(crate) struct Measurement {
    trips: Arc<RoundTrips>,
    id: u64,
    since: Option<Instant>,
}

impl Measurement {
    /// Ends the measurement without a result, because the connection failed and the time until then is not a round
    /// trip.
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
    fn every_timeout_of_a_link_is_longer_than_the_longest_round_trip() {
        for options in [RaftOptions::DEFAULTS, RaftOptions::WAN] {
            let LinkTimeouts { connect, keep_alive, append } = LinkTimeouts::new(&options);
            for timeout in [connect, keep_alive, append] {
                assert!(timeout > options.max_round_trip(), "{timeout:?} of {options:?}");
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
