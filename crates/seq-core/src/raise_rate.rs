//! Bounds how fast ceilings rise, with a token bucket for each section at the leader of the store.
//!
//! A raise is bounded by [`limits::MAX_RAISE`], but the number of raises is not: without this bound, a faulty or
//! compromised AllocSvr could spend the numbers of its sections within hours. A bucket has [`limits::RAISE_BURST`]
//! numbers, and gets [`limits::RAISE_RATE`] more each second; a raise takes as many as it moves the ceiling.
//!
//! **Invariant:** within any time `t`, the admitted raises of a section move its ceiling by at most
//! `RAISE_BURST + RAISE_RATE * t`.
//!
//! The buckets are no part of the replicated state, because clocks differ between members and a committed raise is
//! never taken back. A new leader begins with full buckets. Time is a duration since any origin, the same in all calls;
//! the shell reads it.

use alloc::vec::Vec;
use core::time::Duration;

use crate::id::SectionId;
use crate::limits;

/// Time that an empty bucket takes to fill.
pub const FILL_TIME: Duration = Duration::from_secs(limits::RAISE_BURST / limits::RAISE_RATE);

/// The longest time after which a refused raise is admitted, unless other raises of the section come first: a raise
/// moves a ceiling by at most [`limits::MAX_RAISE`].
pub const LONGEST_WAIT: Duration = Duration::from_secs(limits::MAX_RAISE.div_ceil(limits::RAISE_RATE));

/// Nanoseconds of a second.
const NANOS: u64 = 1_000_000_000;

const _: () = assert!(limits::MAX_RAISE < u64::MAX / NANOS, "the time of a raise fits");
const _: () = assert!(limits::MAX_RAISE <= limits::RAISE_BURST, "a full bucket admits every raise");
const _: () = assert!(limits::RAISE_BURST.is_multiple_of(limits::RAISE_RATE), "whole seconds");

/// The buckets of a set's sections.
#[derive(Clone, Debug, Default)]
pub struct RaiseRate {
    /// Time when the bucket of each section is full again, in nanoseconds, by section; a section beyond the end has a
    /// full bucket. It ends at the last section that was raised by its owner on record
    /// ([`raise_bound`](crate::raise_bound)), so it has at most [`limits::MAX_SECTIONS`] entries, 8 MiB, and 344 kB
    /// for 42,950 sections.
    full_at: Vec<u64>,
}

/// A refused request: the section whose bucket does not have enough numbers, and the time until it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFast {
    /// The first such section of the request.
    pub section: SectionId,
    /// Time after which its raise is admitted, above 0 and up to [`LONGEST_WAIT`].
    pub after: Duration,
}

impl RaiseRate {
    /// Creates full buckets.
    #[must_use]
    pub fn new() -> RaiseRate {
        RaiseRate::default()
    }

    /// Takes the numbers of all raises of a request, or of none. Each raise has its section and the distance that it
    /// moves the ceiling, `0 ..= limits::MAX_RAISE`; a larger distance counts as that limit, because only raises of
    /// ticks go further. `now` never falls.
    ///
    /// # Errors
    /// [`TooFast`] if any of the raises would exceed the bound; nothing is taken then.
    pub fn admit(&mut self, now: Duration, raises: &[(SectionId, u64)]) -> Result<(), TooFast> {
        let now = nanos(now);
        for (index, &(section, distance)) in raises.iter().enumerate() {
            if let Err(after) = self.take(now, section, distance) {
                raises[..index].iter().for_each(|&(section, distance)| self.give_back(section, distance));
                return Err(TooFast { section, after: Duration::from_nanos(after) });
            }
        }
        Ok(())
    }

    /// Takes the numbers of one raise, at a time in nanoseconds.
    ///
    /// # Errors
    /// The nanoseconds after which the bucket has enough numbers, if it has too few.
    fn take(&mut self, now: u64, section: SectionId, distance: u64) -> Result<(), u64> {
        if distance == 0 {
            return Ok(());
        }
        let index = section.0 as usize;
        if index >= self.full_at.len() {
            self.full_at.resize(index + 1, 0);
        }
        let full_at = now.max(self.full_at[index]) + fill_nanos(distance);
        match (full_at - now).saturating_sub(nanos(FILL_TIME)) {
            0 => {
                self.full_at[index] = full_at;
                Ok(())
            }
            after => Err(after),
        }
    }

    /// Undoes [`RaiseRate::take`] of the same request.
    fn give_back(&mut self, section: SectionId, distance: u64) {
        if distance > 0 {
            self.full_at[section.0 as usize] -= fill_nanos(distance);
        }
    }
}

/// Returns the nanoseconds that a bucket takes to get so many numbers, rounded up, so that nothing is admitted for
/// free.
fn fill_nanos(numbers: u64) -> u64 {
    (numbers.min(limits::MAX_RAISE) * NANOS).div_ceil(limits::RAISE_RATE)
}

/// Returns a duration in nanoseconds; centuries fit.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2)
}

#[cfg(test)]
mod tests;
