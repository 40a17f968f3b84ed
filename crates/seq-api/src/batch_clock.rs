//! Clock for checking leases. It is read only once for all requests that a thread has read from its connections
//! together.
//!
//! A lease must be checked against a reading of the clock that was made after the request's bytes were received. With
//! an earlier reading, a node might not notice that its lease has expired and that another node owns the section now.
//! All connections of a thread increment a common counter at every read from the network. A cached reading of the clock
//! stays valid until this counter changes.
//!
//! Invariant: a reading of the clock is used only for requests whose bytes were received before the reading was made,
//! on the same thread.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use seq_core::lease::Clocks;
use seq_kit::connection::reads_on_this_thread;
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::clock::Clock;

thread_local! {
    /// The cached reading, with the id of the [`BatchClock`] that made it and the value of the read counter at that
    /// time.
    static LAST: Cell<Option<(u64, u64, Clocks)>> = const { Cell::new(None) };
}

/// A clock for checking leases in requests that the same thread receives and handles.
#[derive(Debug)]
pub struct BatchClock {
    clock: Clock,
    /// Number that distinguishes the cached readings of this clock from the readings of other clocks on the same
    /// thread.
    id: u64,
}

impl BatchClock {
    /// Creates a clock for requests that arrive on [`seq_kit::connection::Connection`]s of the current runtime.
    ///
    /// # Panics
    /// Outside of a current-thread runtime, because in other runtimes a request may be handled on another thread than
    /// the thread that read it.
    #[must_use]
    pub fn new(clock: Clock) -> BatchClock {
        let flavor = Handle::current().runtime_flavor();
        assert_eq!(flavor, RuntimeFlavor::CurrentThread, "requests must be handled on the thread that reads them");
        static NEXT: AtomicU64 = AtomicU64::new(0);
        BatchClock { clock, id: NEXT.fetch_add(1, Relaxed) }
    }

    /// Returns a reading of the clock that was made after every read from the network on this thread so far.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Clocks {
        let reads = reads_on_this_thread();
        match LAST.get() {
            Some((id, before, clocks)) if id == self.id && before == reads => clocks,
            _ => {
                let clocks = self.clock.now();
                LAST.set(Some((self.id, reads, clocks)));
                clocks
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use seq_kit::connection::Listener;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_stream::StreamExt;

    use super::*;

    /// Returns a clock that advances by one with each reading.
    fn counting() -> Clock {
        let readings = AtomicU64::new(0);
        Clock::Other(Arc::new(move || Clocks { raw: readings.fetch_add(1, Relaxed) + 1, ..Clocks::default() }))
    }

    #[tokio::test]
    async fn a_reading_is_cached_until_the_next_read() {
        let (near, far) = tokio::io::duplex(64);
        let (clock, other) = (BatchClock::new(counting()), BatchClock::new(counting()));
        let mut incoming = Listener::new(tokio_stream::once(Ok(near))).incoming().unwrap();
        let mut connection = incoming.next().await.unwrap().unwrap();
        let mut peer = far;
        for arrivals in 1..=3 {
            peer.write_all(b"call").await.unwrap();
            connection.read_exact(&mut [0; 4]).await.unwrap();
            assert_eq!([clock.now().raw, clock.now().raw], [arrivals; 2]);
        }
        // The second clock has readings of its own, which replace the cached reading of the first clock.
        assert_eq!((other.now().raw, other.now().raw), (1, 1));
        assert_eq!((clock.now().raw, clock.now().raw), (4, 4));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    #[should_panic(expected = "on the thread that reads them")]
    async fn a_multi_thread_runtime_is_refused() {
        let _ = BatchClock::new(Clock::System);
    }
}
