//! The clocks that leases are counted with.
//!
//! Not `std::time::Instant`: on Linux it stands still while the machine sleeps, and a lease must not. They are read through
//! libc, so that a test can put another clock under a real process.

use std::fmt;
use std::sync::Arc;

use rustix::time::{ClockId, clock_gettime};
use seq_core::lease::Clocks;

/// Reads clocks. Clones read the same ones.
#[derive(Clone, Default)]
pub enum Clock {
    /// The machine's.
    #[default]
    System,
    /// Others, for a simulation.
    Other(Arc<dyn Fn() -> Clocks + Send + Sync>),
}

impl Clock {
    /// Reads all three: some 0.1 us, so once for each batch that was received.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Clocks {
        match self {
            Clock::System => system(),
            Clock::Other(read) => read(),
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Clock::System => "Clock::System",
            Clock::Other(_) => "Clock::Other",
        })
    }
}

fn system() -> Clocks {
    let read = |id| {
        let time = clock_gettime(id);
        // Before 1970 a wall clock reads as 0: that ends no lease.
        u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
    };
    Clocks { boottime: read(ClockId::Boottime), raw: read(ClockId::MonotonicRaw), realtime: read(ClockId::Realtime) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_clocks_run() {
        let clock = Clock::System;
        let first = clock.now();
        assert!(first.boottime > 0 && first.raw > 0 && first.realtime > 0);
        let mut later = clock.now();
        while later.boottime == first.boottime || later.raw == first.raw {
            later = clock.now();
        }
        assert!(later.boottime > first.boottime && later.raw > first.raw);
        assert!(later.at_least_since(first) <= later.since(first));
    }
}
