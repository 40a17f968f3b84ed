//! Clocks of leases.
//!
//! The clocks do not use `std::time::Instant`, because it stops on Linux while the machine is suspended, and the time
//! of a lease must not stop. The clocks are read through libc, so that a test can replace the clocks of a running
//! process.

use std::fmt;
use std::sync::Arc;

use rustix::time::{ClockId, clock_gettime};
use seq_core::lease::Clocks;

/// A source of clock readings. Clones of it read the same clocks.
#[derive(Clone, Default)]
pub enum Clock {
    /// The clocks of the machine.
    #[default]
    System,
    /// Simulated clocks.
    Other(Arc<dyn Fn() -> Clocks + Send + Sync>),
}

impl Clock {
    /// Reads the boot clock, the raw monotonic clock and the wall clock. This takes about 0.1 us, so a thread reads the
    /// clocks only once for all requests that it received together.
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
        // A wall clock before 1970 is read as 0, which expires no lease.
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
