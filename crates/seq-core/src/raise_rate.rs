//! Bounds how fast ceilings rise, with a token bucket for each section at the leader of the store.
//!
//! [`limits::MAX_RAISE`] bounds the distance of a raise, but not the number of raises. Without a bound on the rate, a
//! faulty or compromised AllocSvr could use up the numbers of its sections within hours. A full bucket has
//! [`limits::RAISE_BURST`] numbers, and a bucket that is not full gets [`limits::RAISE_RATE`] more each second. A raise
//! takes as many numbers as it moves the ceiling.
//!
//! **Invariant:** within any time `t`, the admitted raises of a section move its ceiling by at most
//! `RAISE_BURST + RAISE_RATE * t`.
//!
//! The buckets are not part of the replicated state, because clocks differ between members, and because a raise cannot
//! be refused after it is committed. A new leader begins with full buckets. Times are durations since any origin that
//! is the same in all calls; the caller reads the clock.

use alloc::vec::Vec;
use core::time::Duration;

use crate::id::SectionId;
use crate::limits;

/// Time that an empty bucket takes to fill.
pub const FILL_TIME: Duration = Duration::from_secs(limits::RAISE_BURST / limits::RAISE_RATE);

/// Longest time after which a refused raise is admitted, if no other raise of the section is admitted before. It is
/// bounded because a raise moves a ceiling by at most [`limits::MAX_RAISE`].
pub const LONGEST_WAIT: Duration = Duration::from_secs(limits::MAX_RAISE.div_ceil(limits::RAISE_RATE));

/// Nanoseconds of a second.
const NANOS: u64 = 1_000_000_000;

const _: () = assert!(limits::MAX_RAISE < u64::MAX / NANOS, "the time of a raise fits");
const _: () = assert!(limits::MAX_RAISE <= limits::RAISE_BURST, "a full bucket admits every raise");
const _: () = assert!(limits::RAISE_BURST.is_multiple_of(limits::RAISE_RATE), "whole seconds");

/// The buckets of a set's sections.
#[derive(Clone, Debug, Default)]
pub struct RaiseRate {
    /// Time in nanoseconds when the bucket of each section is full again, by section. Sections beyond the end of the
    /// vector have full buckets. The vector ends at the last section that was raised by its owner on record
    /// ([`raise_bound`](crate::raise_bound)), so it has at most [`limits::MAX_SECTIONS`] entries, which take 8 MiB. For
    /// 42,950 sections it takes 344 kB.
    full_at: Vec<u64>,
}

/// Refusal of a request because the bucket of a section does not have enough numbers yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFast {
    /// The first such section in the request.
    pub section: SectionId,
    /// Time after which the raise of the section is admitted, above 0 and up to [`LONGEST_WAIT`].
    pub after: Duration,
}

impl RaiseRate {
    /// Creates full buckets.
    #[must_use]
    pub fn new() -> RaiseRate {
        RaiseRate::default()
    }

    /// Takes the numbers for all raises of a request from the buckets, or takes nothing. Each raise is a section and
    /// the distance by which the raise moves the ceiling, `0 ..= limits::MAX_RAISE`. A larger distance counts as this
    /// limit, because only raises of lanes with a clock go further. `now` never falls.
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

/// Returns the nanoseconds after which a bucket has got this number of numbers. They are rounded up, so that no number
/// is free.
fn fill_nanos(numbers: u64) -> u64 {
    (numbers.min(limits::MAX_RAISE) * NANOS).div_ceil(limits::RAISE_RATE)
}

/// Returns a duration in nanoseconds; centuries fit.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2)
}

#[cfg(test)]
mod tests;
