//! The clocks of leases: simulated time, at a different rate on each host.
//!
//! Timers run by simulated time. The clocks of a lease start anywhere, as the clocks of machines do, and run too fast
//! or too slow.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use seq_api::clock::Clock;
use seq_core::lease::Clocks;

/// Largest deviation of the rates of clocks from real time: almost the margin of the service.
const BOUND: f64 = 0.105;

/// Rates that break every bound.
const WILD: [f64; 2] = [0.1, 3.0];

/// Range of the rates of clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rates {
    /// Anywhere within the bounds on which the order of numbers depends.
    Sound,
    /// At the bounds: the clocks of the nodes are slow, the clocks of the store fast.
    Extreme,
    /// Much too slow or too fast.
    Wild,
}

/// Draws the clocks of one host, which keep their rates over restarts.
#[must_use]
pub fn draw(rates: Rates, is_store: bool, rng: &mut fastrand::Rng) -> Clock {
    let rates = match rates {
        Rates::Sound => [(); 3].map(|()| 1.0 + BOUND * (2.0 * rng.f64() - 1.0)),
        Rates::Extreme if is_store => [1.0 + BOUND; 3],
        Rates::Extreme => [1.0 - BOUND; 3],
        // All clocks of a machine have the same rate: an owner goes by the fastest of them, an arbiter by the slowest.
        Rates::Wild => [WILD[rng.usize(..WILD.len())]; 3],
    };
    let starts = [(); 3].map(|()| rng.u64(..1 << 50));
    let last = AtomicU64::new(0);
    Clock::Other(Arc::new(move || {
        if let Some(elapsed) = turmoil::sim_elapsed() {
            last.fetch_max(elapsed.as_nanos() as u64, Relaxed);
        }
        // Outside of all hosts, e.g. for a status, the time does not advance.
        let elapsed = last.load(Relaxed) as f64;
        let [boottime, raw, realtime] = [0, 1, 2].map(|clock| starts[clock] + (elapsed * rates[clock]) as u64);
        Clocks { boottime, raw, realtime }
    }))
}
