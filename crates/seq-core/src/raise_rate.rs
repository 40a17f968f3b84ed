//! Limits how fast ceilings rise, with a token bucket for each section at the store's leader.
//!
//! [`limits::MAX_RAISE`] limits the distance of a raise, but not the number of raises. Without a limit on the rate, a
//! faulty or compromised AllocSvr could use up the numbers of its sections within hours. A full bucket has
//! [`limits::RAISE_BURST`] numbers, and a bucket that is not full gets [`limits::RAISE_RATE`] numbers each second. A
//! raise takes from the bucket as many numbers as the distance by which it moves the ceiling.
//!
//! **Invariant:** within any time `t`, the admitted raises of a section move its ceiling by at most
//! `RAISE_BURST + RAISE_RATE * t`.
//!
//! The buckets are not part of the replicated state, because clocks differ between members, and because a raise cannot
//! be refused after it is committed. A new leader begins with full buckets. Times are durations since an arbitrary
//! origin that is the same in all calls. The caller reads the clock.

use alloc::vec::Vec;
use core::time::Duration;

use crate::id::SectionId;
use crate::limits;

/// Time that an empty bucket takes to fill.
pub const FILL_TIME: Duration = Duration::from_secs(limits::RAISE_BURST / limits::RAISE_RATE);

/// Longest time that may pass until a refused raise would be admitted, if no other raise of the section is admitted in
/// the meantime. It is limited because a raise moves a ceiling by at most [`limits::MAX_RAISE`].
pub const LONGEST_WAIT: Duration = Duration::from_secs(limits::MAX_RAISE.div_ceil(limits::RAISE_RATE));

/// Nanoseconds of a second.
const NANOS: u64 = 1_000_000_000;

const _: () = assert!(limits::MAX_RAISE < u64::MAX / NANOS, "the time of a raise fits");
const _: () = assert!(limits::MAX_RAISE <= limits::RAISE_BURST, "a full bucket admits every raise");
const _: () = assert!(limits::RAISE_BURST.is_multiple_of(limits::RAISE_RATE), "whole seconds");

/// The buckets of a set's sections.
#[derive(Clone, Debug, Default)]
pub struct RaiseRate {
    /// For each section, the time in nanoseconds when its bucket is full again. Sections beyond the end of the vector
    /// have full buckets. The vector ends at the last section whose ceiling its owner has raised, because
    /// [`raise_bound`](crate::raise_bound) admits only raises of owners. So it has at most [`limits::MAX_SECTIONS`]
    /// entries, which take 8 MiB. For 42,950 sections it takes 344 kB.
    full_at: Vec<u64>,
}

/// Refusal of a request because the bucket of a section does not have enough numbers yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFast {
    /// The first section in the request whose bucket does not have enough numbers.
    pub section: SectionId,
    /// Time after which the raise of that section would be admitted, above 0 and up to [`LONGEST_WAIT`].
    pub after: Duration,
}

impl RaiseRate {
    /// Creates full buckets.
    #[must_use]
    pub fn new() -> RaiseRate {
        RaiseRate::default()
    }

    /// Takes the numbers for all raises of a request from the buckets, or takes nothing. Each raise is a section and
    /// the distance by which the raise moves the ceiling. A distance above [`limits::MAX_RAISE`] counts as this limit.
    /// `now` never falls.
    ///
    /// # Errors
    /// [`TooFast`] if any bucket does not have enough numbers. In this case no number is taken.
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

    /// Takes the numbers of one raise from its section's bucket. `now` is a time in nanoseconds.
    ///
    /// # Errors
    /// The time after which the bucket has enough numbers, in nanoseconds, if it has too few now.
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

    /// Undoes [`RaiseRate::take`] for an earlier raise of the same request.
    fn give_back(&mut self, section: SectionId, distance: u64) {
        if distance > 0 {
            self.full_at[section.0 as usize] -= fill_nanos(distance);
        }
    }
}

/// Returns the time in which a bucket gets this number of numbers, in nanoseconds. It is rounded up, so that no number
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
