//! The clocks of a simulated machine. Each clock has its own rate, the machine may be suspended, and its wall clock may
//! be set.

use seq_core::lease::Clocks;

use crate::lanes::WALL_MS;
use crate::rng::Rng;

/// The rate of a correct clock, in millionths.
pub(crate) const TRUE_RATE: u64 = 1_000_000;

/// The largest error of a clock's rate, in millionths, with which the promises still hold. The margin and the wait in
/// `LeaseTerms` allow for this error.
pub(crate) const RATE_MARGIN: u64 = 110_000;

/// Limits of the error of a machine's wall clock when the world begins, in milliseconds. For each machine, one of these
/// limits is drawn. Even with the largest limit, two wall clocks differ by less than a restore assumes.
const MOST_OFF_MS: [u64; 3] = [1, 2_000, 25_000];

/// The clocks of a machine. Each clock runs at a constant rate until the next call of a function that changes the
/// clocks.
#[derive(Clone, Debug)]
pub(crate) struct MachineClock {
    since: u64,
    read: Clocks,
    /// Rates of boottime, raw and realtime, in millionths.
    rates: [u64; 3],
    suspended: bool,
}

impl MachineClock {
    /// Returns clocks with random values.
    pub(crate) fn new(rng: &mut Rng, rates: [u64; 3]) -> MachineClock {
        let boottime = rng.between(1, 1 << 50);
        let raw = rng.between(1, boottime + 1);
        let most = MOST_OFF_MS[rng.index(3)] * 1_000_000;
        let realtime = WALL_MS * 1_000_000 + rng.below(2 * most) - most;
        MachineClock { since: 0, read: Clocks { boottime, raw, realtime }, rates, suspended: false }
    }

    /// Returns the values of the clocks at a true time.
    pub(crate) fn at(&self, now: u64) -> Clocks {
        let gone = |rate: u64| (u128::from(now - self.since) * u128::from(rate) / u128::from(TRUE_RATE)) as u64;
        Clocks {
            boottime: self.read.boottime + gone(self.rates[0]),
            raw: self.read.raw + if self.suspended { 0 } else { gone(self.rates[1]) },
            realtime: self.read.realtime + gone(self.rates[2]),
        }
    }

    /// Returns the time of the wall clock, in milliseconds since 1970.
    pub(crate) fn unix_ms(&self, now: u64) -> u64 {
        self.at(now).realtime / 1_000_000
    }

    /// Suspends or resumes the machine; its raw clock stops in suspend.
    pub(crate) fn suspend(&mut self, now: u64, suspended: bool) {
        self.settle(now);
        self.suspended = suspended;
    }

    pub(crate) fn set_rates(&mut self, now: u64, rates: [u64; 3]) {
        self.settle(now);
        self.rates = rates;
    }

    /// Sets the wall clock forward or back, in nanoseconds.
    pub(crate) fn step_wall(&mut self, now: u64, by: i64) {
        self.settle(now);
        self.read.realtime = self.read.realtime.saturating_add_signed(by);
    }

    /// Sets the wall clock to a time in nanoseconds since 1970.
    pub(crate) fn set_wall(&mut self, now: u64, unix_ns: u64) {
        self.settle(now);
        self.read.realtime = unix_ns;
    }

    fn settle(&mut self, now: u64) {
        self.read = self.at(now);
        self.since = now;
    }
}
