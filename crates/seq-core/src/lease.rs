//! The lease, which limits the time for which an owner may serve.
//!
//! The time of a lease is counted from before the renewal request is sent, not from when its response arrives.
//! Otherwise an owner could serve for longer than the arbiter waits before it assigns the sections to another owner. A
//! lease has one end for each of three clocks, and is over as soon as any of the clocks has reached its end. This is
//! necessary because each clock can stop or go back while the others run: the monotonic clock (`CLOCK_MONOTONIC_RAW`)
//! stops while the machine sleeps, the boot clock stops if a hypervisor freezes it, and the wall clock goes back if it
//! is set back. If a wall clock is set forward, the lease ends early, which costs no more than a renewal.
//!
//! **Order matters.** A serving thread first receives the whole request, then reads the clocks, then the lease, and
//! then the table of owned sections. The response to a renewal is applied in the opposite order: to the table first,
//! and to the lease last. So a thread never combines a renewed lease with an older table.

use core::time::Duration;

use crate::sync::{AcqRel, Acquire, AtomicU64, Release};

/// A reading of the machine's clocks, in nanoseconds. Readings are compared only within one incarnation of one process,
/// and never stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clocks {
    /// `CLOCK_BOOTTIME`, which continues while the machine sleeps.
    pub boottime: u64,
    /// `CLOCK_MONOTONIC_RAW`, whose rate is not adjusted.
    pub raw: u64,
    /// `CLOCK_REALTIME`, which may be set.
    pub realtime: u64,
}

impl Clocks {
    /// Returns the time since the reading `earlier`, as an owner counts it, which is the largest of the differences of
    /// the three clocks.
    #[must_use]
    pub fn since(&self, earlier: Clocks) -> Duration {
        let boottime = self.boottime.saturating_sub(earlier.boottime);
        let raw = self.raw.saturating_sub(earlier.raw);
        Duration::from_nanos(boottime.max(raw).max(self.realtime.saturating_sub(earlier.realtime)))
    }

    /// Returns the time since the reading `earlier`, as an arbiter counts it, which is the smaller of the differences
    /// of the two clocks that cannot be set.
    #[must_use]
    pub fn at_least_since(&self, earlier: Clocks) -> Duration {
        let boottime = self.boottime.saturating_sub(earlier.boottime);
        Duration::from_nanos(boottime.min(self.raw.saturating_sub(earlier.raw)))
    }
}

/// Durations of leases and of the arbiter's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    /// Duration of the lease that a response of the store grants, counted from when the request was sent.
    pub lease: Duration,
    /// Time by which the owner stops serving before its lease ends.
    pub margin: Duration,
    /// The arbiter's wait. If an owner's liveness counter does not change for this time, the arbiter reassigns the
    /// owner's sections.
    pub wait: Duration,
    /// Time between renewals.
    pub renew_interval: Duration,
}

/// Allowed deviation of a clock's rate from real time, in percent. A quartz clock deviates by 0.01 %, and a clock that
/// time synchronization is correcting deviates by 0.05 %. The larger allowance is for a virtual machine whose clock
/// drifts badly and is not corrected yet.
const RATE_MARGIN_PERCENT: u32 = 11;

/// Number of renewals that fit into a lease; two of them may be lost.
const RENEWALS_PER_LEASE: u32 = 3;

impl LeaseTerms {
    /// Terms for the network of one region.
    pub const DEFAULTS: LeaseTerms = LeaseTerms {
        lease: Duration::from_millis(2_000),
        margin: Duration::from_millis(100),
        wait: Duration::from_millis(2_500),
        renew_interval: Duration::from_millis(400),
    };

    /// Checks the relations between the terms. The relations ensure promise 2 of `docs/safety.md`, and that two lost
    /// renewals in a row do not end a lease.
    ///
    /// # Errors
    /// [`TermsError`] with the relation that does not hold, and the reason why it must hold.
    pub fn validate(&self) -> Result<(), TermsError> {
        let broken = |what, why| Err(TermsError { what, why, terms: *self });
        if self.renew_interval.is_zero() {
            return broken("renew_interval > 0", "renewals would follow each other without pause");
        }
        if self.margin >= self.lease {
            return broken("margin < lease", "nothing would be left of a lease");
        }
        if self.renew_interval * RENEWALS_PER_LEASE >= self.lease {
            return broken("renew_interval * 3 < lease", "two lost renewals in a row must not end a lease");
        }
        if !self.outlasted() {
            return broken(
                LeaseTerms::OUTLASTED,
                "with clocks whose rates differ a new owner could answer before the old one has stopped",
            );
        }
        Ok(())
    }

    /// The relation that [`LeaseTerms::outlasted`] checks.
    pub const OUTLASTED: &'static str = "wait >= lease * 1.11 / 0.89";

    /// Returns the shortest time for which an arbiter must wait to outlast `lease`, even if the owner's clock runs as
    /// slow and the arbiter's clock as fast as their allowed deviation permits.
    #[must_use]
    pub fn shortest_wait(lease: Duration) -> Duration {
        let nanos = lease.as_nanos() * u128::from(100 + RATE_MARGIN_PERCENT);
        let nanos = nanos.div_ceil(u128::from(100 - RATE_MARGIN_PERCENT));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns whether the arbiter's wait outlasts a lease, even if the owner's clock runs as slow and the arbiter's
    /// clock as fast as their allowed deviation permits.
    #[must_use]
    pub fn outlasted(&self) -> bool {
        self.wait >= LeaseTerms::shortest_wait(self.lease)
    }

    /// Returns how long an owner serves after a renewal, counted from when the renewal request was sent.
    #[must_use]
    pub fn served(&self) -> Duration {
        self.lease - self.margin
    }
}

/// Error because a relation between the terms does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} does not hold with {terms:?}: {why}")]
pub struct TermsError {
    /// The relation.
    pub what: &'static str,
    /// The reason why it must hold.
    pub why: &'static str,
    /// The terms.
    pub terms: LeaseTerms,
}

/// A lease that serving threads read without a lock, by one load for each clock.
///
/// Within an incarnation, the end of the lease on each clock only grows. A reader may see the end on one clock from
/// before an extension, and the end on another clock from after the extension. A lease holds only if it holds on all
/// clocks, so such a reader sees a lease that is shorter than the extended lease, never longer.
#[derive(Debug)]
pub struct Lease {
    boottime_end: AtomicU64,
    raw_end: AtomicU64,
    realtime_end: AtomicU64,
}

impl Default for Lease {
    fn default() -> Lease {
        Lease { boottime_end: AtomicU64::new(0), raw_end: AtomicU64::new(0), realtime_end: AtomicU64::new(0) }
    }
}

impl Lease {
    /// Extends the lease until `served` has passed since `sent`. On a clock on which the lease already ends later, its
    /// end is unchanged.
    pub fn extend(&self, sent: Clocks, served: Duration) {
        let served = u64::try_from(served.as_nanos()).unwrap_or(u64::MAX);
        self.boottime_end.fetch_max(sent.boottime.saturating_add(served), AcqRel);
        self.raw_end.fetch_max(sent.raw.saturating_add(served), AcqRel);
        self.realtime_end.fetch_max(sent.realtime.saturating_add(served), AcqRel);
    }

    /// Ends the lease, because the incarnation that held it is over.
    pub fn end(&self) {
        self.boottime_end.store(0, Release);
        self.raw_end.store(0, Release);
        self.realtime_end.store(0, Release);
    }

    /// Returns whether the lease holds at `now`, a reading of the clocks that was taken after the request had arrived.
    #[inline]
    #[must_use]
    pub fn holds(&self, now: Clocks) -> bool {
        now.boottime < self.boottime_end.load(Acquire)
            && now.raw < self.raw_end.load(Acquire)
            && now.realtime < self.realtime_end.load(Acquire)
    }

    /// Returns the time left; zero once the lease is over.
    #[must_use]
    pub fn left(&self, now: Clocks) -> Duration {
        let boottime = self.boottime_end.load(Acquire).saturating_sub(now.boottime);
        let raw = self.raw_end.load(Acquire).saturating_sub(now.raw);
        let realtime = self.realtime_end.load(Acquire).saturating_sub(now.realtime);
        Duration::from_nanos(boottime.min(raw).min(realtime))
    }

    /// Returns the time since the lease expired; zero if it holds, if it was ended by [`Lease::end`], or if there was
    /// no lease yet. The wall clock is not used, because a step of it is no time that has passed.
    #[must_use]
    pub fn expired_for(&self, now: Clocks) -> Duration {
        let since = |now: u64, end: &AtomicU64| match end.load(Acquire) {
            0 => 0,
            end => now.saturating_sub(end),
        };
        Duration::from_nanos(since(now.boottime, &self.boottime_end).max(since(now.raw, &self.raw_end)))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(boottime: u64, raw: u64, realtime: u64) -> Clocks {
        Clocks { boottime: boottime * SECOND, raw: raw * SECOND, realtime: realtime * SECOND }
    }

    #[test]
    fn a_lease_ends_at_the_first_clock_that_passes_its_end() {
        let lease = Lease::default();
        assert!(!lease.holds(at(0, 0, 0)), "nothing was granted yet");
        lease.extend(at(10, 20, 1_000), Duration::from_secs(2));
        assert!(lease.holds(at(11, 21, 1_001)));
        assert!(lease.holds(at(11, 21, 5)), "a wall clock that is set back alone ends nothing");
        for over in [at(12, 21, 1_001), at(11, 22, 1_001), at(11, 21, 1_002)] {
            assert!(!lease.holds(over), "{over:?}");
            assert_eq!(lease.left(over), Duration::ZERO);
        }
        assert_eq!(lease.left(at(11, 20, 1_000)), Duration::from_secs(1));
    }

    #[test]
    fn the_time_without_a_lease_is_that_of_the_clocks_that_do_not_step() {
        let (lease, seconds) = (Lease::default(), Duration::from_secs);
        assert_eq!(lease.expired_for(at(10, 20, 1_000)), Duration::ZERO, "nothing was granted yet");
        lease.extend(at(10, 20, 1_000), seconds(2));
        assert_eq!(lease.expired_for(at(11, 21, 1_001)), Duration::ZERO);
        assert_eq!(lease.expired_for(at(15, 23, 1_003)), seconds(3));
        assert_eq!(lease.expired_for(at(11, 21, 5_000)), Duration::ZERO, "the wall clock was set");
        lease.end();
        assert_eq!(lease.expired_for(at(15, 23, 1_003)), Duration::ZERO);
    }

    #[test]
    fn a_late_response_does_not_shorten_the_lease() {
        let lease = Lease::default();
        lease.extend(at(10, 10, 10), Duration::from_secs(2));
        lease.extend(at(9, 9, 9), Duration::from_secs(2));
        assert!(lease.holds(Clocks { boottime: 12 * SECOND - 1, raw: 12 * SECOND - 1, realtime: 12 * SECOND - 1 }));
    }

    #[test]
    fn an_owner_counts_the_most_and_an_arbiter_the_least() {
        let (earlier, later) = (at(10, 10, 100), at(15, 12, 40));
        assert_eq!(later.since(earlier), Duration::from_secs(5));
        assert_eq!(later.at_least_since(earlier), Duration::from_secs(2));
        assert_eq!(at(10, 10, 110).since(earlier), Duration::from_secs(10));
    }

    #[test]
    fn the_defaults_hold_and_each_relation_is_named() {
        let d = LeaseTerms::DEFAULTS;
        assert_eq!(d.validate(), Ok(()));
        let ms = Duration::from_millis;
        let table = [
            (LeaseTerms { renew_interval: ms(0), ..d }, "renew_interval > 0"),
            (LeaseTerms { margin: ms(2_000), ..d }, "margin < lease"),
            (LeaseTerms { renew_interval: ms(667), ..d }, "renew_interval * 3 < lease"),
            (LeaseTerms { wait: ms(2_494), ..d }, "wait >= lease * 1.11 / 0.89"),
        ];
        for (terms, what) in table {
            assert_eq!(terms.validate().unwrap_err().what, what);
        }
        assert_eq!(LeaseTerms { wait: ms(2_495), ..d }.validate(), Ok(()));
    }
}
