//! One look at the clock for all calls that arrived together.
//!
//! A lease must be checked against a clock that was read after the call's bytes had arrived; one that was read before could
//! miss that the lease has ended and somebody else serves. Nothing says that each call needs a reading of its own: until more
//! bytes arrive, the last one is later than all that are there. So the connections of a thread count what they read, and a
//! reading holds for as long as the count stands still.
//!
//! Invariant: a reading is used only for bytes that were read on its own thread, and before it.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use seq_core::lease::Clocks;
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::clock::Clock;

thread_local! {
    /// How often connections of this thread have read something.
    static ARRIVED: Cell<u64> = const { Cell::new(0) };
    /// The last reading: whose it is, and how much had arrived before it.
    static LAST: Cell<Option<(u64, u64, Clocks)>> = const { Cell::new(None) };
}

/// Bytes have arrived on this thread.
pub(crate) fn note() {
    ARRIVED.set(ARRIVED.get().wrapping_add(1));
}

/// Reads a clock for calls whose bytes all arrive on one thread.
#[derive(Debug)]
pub struct ArrivalClock {
    clock: Clock,
    /// Tells its readings from those of others on the same thread.
    id: u64,
}

impl ArrivalClock {
    /// For the calls of a [`crate::connection::Connection`] of the current runtime.
    ///
    /// # Panics
    /// Outside of a current-thread runtime: elsewhere a call may be answered on another thread than the one that read it.
    #[must_use]
    pub fn new(clock: Clock) -> ArrivalClock {
        let flavor = Handle::current().runtime_flavor();
        assert_eq!(flavor, RuntimeFlavor::CurrentThread, "calls must be answered on the thread that reads them");
        static NEXT: AtomicU64 = AtomicU64::new(0);
        ArrivalClock { clock, id: NEXT.fetch_add(1, Relaxed) }
    }

    /// A reading that is later than everything that has arrived on this thread.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Clocks {
        let arrived = ARRIVED.get();
        match LAST.get() {
            Some((id, before, clocks)) if id == self.id && before == arrived => clocks,
            _ => {
                let clocks = self.clock.now();
                LAST.set(Some((self.id, arrived, clocks)));
                clocks
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_stream::StreamExt;

    use super::*;
    use crate::connection::Listener;

    /// A clock that goes on by one with each reading.
    fn counting() -> Clock {
        let readings = AtomicU64::new(0);
        Clock::Other(Arc::new(move || Clocks { raw: readings.fetch_add(1, Relaxed) + 1, ..Clocks::default() }))
    }

    #[tokio::test]
    async fn a_reading_holds_until_more_arrives() {
        let (near, far) = tokio::io::duplex(64);
        let (clock, other) = (ArrivalClock::new(counting()), ArrivalClock::new(counting()));
        let mut incoming = Listener::new(tokio_stream::once(Ok(near))).incoming().unwrap();
        let mut connection = incoming.next().await.unwrap().unwrap();
        let mut peer = far;
        for arrivals in 1..=3 {
            peer.write_all(b"call").await.unwrap();
            connection.read_exact(&mut [0; 4]).await.unwrap();
            assert_eq!([clock.now().raw, clock.now().raw], [arrivals; 2]);
        }
        // Readings of another clock are not taken for its own, and do not last.
        assert_eq!((other.now().raw, other.now().raw), (1, 1));
        assert_eq!((clock.now().raw, clock.now().raw), (4, 4));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    #[should_panic(expected = "on the thread that reads them")]
    async fn a_runtime_of_many_threads_has_none() {
        let _ = ArrivalClock::new(Clock::System);
    }
}
