//! The clocks of a simulated machine: each with a rate of its own, in suspend, and set by hand.

use seq_core::lease::Clocks;

use crate::rng::Rng;

/// The rate of a clock that is right, in millionths.
pub(crate) const TRUE_RATE: u64 = 1_000_000;

/// How far rates may be off so that the promises on time hold: the margin of `LeaseTerms`, in millionths.
pub(crate) const RATE_MARGIN: u64 = 110_000;

/// One machine's clocks, as a straight line for each from the last change on.
#[derive(Clone, Debug)]
pub(crate) struct MachineClock {
    since: u64,
    read: Clocks,
    /// Of boottime, raw and realtime.
    rates: [u64; 3],
    suspended: bool,
}

impl MachineClock {
    /// Clocks that began anywhere.
    pub(crate) fn new(rng: &mut Rng, rates: [u64; 3]) -> MachineClock {
        let boottime = rng.between(1, 1 << 50);
        let raw = rng.between(1, boottime + 1);
        MachineClock {
            since: 0,
            read: Clocks { boottime, raw, realtime: rng.between(1 << 60, 1 << 61) },
            rates,
            suspended: false,
        }
    }

    /// Their values at a true time.
    pub(crate) fn at(&self, now: u64) -> Clocks {
        let gone = |rate: u64| (u128::from(now - self.since) * u128::from(rate) / u128::from(TRUE_RATE)) as u64;
        Clocks {
            boottime: self.read.boottime + gone(self.rates[0]),
            raw: self.read.raw + if self.suspended { 0 } else { gone(self.rates[1]) },
            realtime: self.read.realtime + gone(self.rates[2]),
        }
    }

    /// The raw clock stops while the machine sleeps.
    pub(crate) fn suspend(&mut self, now: u64, suspended: bool) {
        self.settle(now);
        self.suspended = suspended;
    }

    pub(crate) fn set_rates(&mut self, now: u64, rates: [u64; 3]) {
        self.settle(now);
        self.rates = rates;
    }

    /// Sets the wall clock.
    pub(crate) fn step_wall(&mut self, now: u64, by: i64) {
        self.settle(now);
        self.read.realtime = self.read.realtime.saturating_add_signed(by);
    }

    fn settle(&mut self, now: u64) {
        self.read = self.at(now);
        self.since = now;
    }
}
