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

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use core::time::Duration;

use crate::id::SectionId;
use crate::limits;

/// Time that an empty bucket takes to fill.
pub const FILL_TIME: Duration = Duration::from_secs(limits::RAISE_BURST / limits::RAISE_RATE);

/// The longest time after which a refused raise is admitted, unless other raises of the section come first: a raise
/// moves a ceiling by at most [`limits::MAX_RAISE`].
pub const LONGEST_WAIT: Duration = Duration::from_secs(limits::MAX_RAISE.div_ceil(limits::RAISE_RATE));

/// Interval at which entries of full buckets are dropped. Most raises are a step, which is refilled within
/// microseconds, and reading the entries of all sections of the largest set takes milliseconds.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

const _: () = assert!(limits::MAX_RAISE <= limits::RAISE_BURST, "a full bucket admits every raise");
const _: () = assert!(limits::RAISE_BURST.is_multiple_of(limits::RAISE_RATE), "whole seconds");

/// The buckets of a set's sections.
#[derive(Clone, Debug, Default)]
pub struct RaiseRate {
    /// Time when the bucket of a section is full again; a section without an entry has a full bucket. At most one entry
    /// for each section of the set, because the caller names no other sections.
    full_at: BTreeMap<SectionId, Duration>,
    /// Time when entries of full buckets were dropped last.
    swept: Duration,
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
        self.sweep(now);
        for (index, &(section, distance)) in raises.iter().enumerate() {
            if let Err(after) = self.take(now, section, distance) {
                raises[..index].iter().for_each(|&(section, distance)| self.give_back(now, section, distance));
                return Err(TooFast { section, after });
            }
        }
        Ok(())
    }

    /// Returns the number of sections with an entry.
    #[must_use]
    pub fn sections(&self) -> usize {
        self.full_at.len()
    }

    /// Takes the numbers of one raise.
    ///
    /// # Errors
    /// The time after which the bucket has enough numbers, if it has too few.
    fn take(&mut self, now: Duration, section: SectionId, distance: u64) -> Result<(), Duration> {
        if distance == 0 {
            return Ok(());
        }
        let full_at = self.full_at.get(&section).map_or(now, |at| now.max(*at)) + fill_time(distance);
        match (full_at - now).checked_sub(FILL_TIME) {
            None | Some(Duration::ZERO) => {
                self.full_at.insert(section, full_at);
                Ok(())
            }
            Some(after) => Err(after),
        }
    }

    /// Undoes [`RaiseRate::take`] at the same time.
    fn give_back(&mut self, now: Duration, section: SectionId, distance: u64) {
        if let Entry::Occupied(mut entry) = self.full_at.entry(section) {
            *entry.get_mut() -= fill_time(distance);
            if *entry.get() <= now {
                entry.remove();
            }
        }
    }

    /// Drops the entries of full buckets, once in [`SWEEP_INTERVAL`].
    fn sweep(&mut self, now: Duration) {
        if now.saturating_sub(self.swept) >= SWEEP_INTERVAL {
            self.full_at.retain(|_, at| *at > now);
            self.swept = now;
        }
    }
}

/// Returns the time that a bucket takes to get so many numbers, rounded up to a nanosecond, so that nothing is admitted
/// for free.
fn fill_time(numbers: u64) -> Duration {
    let nanos = (u128::from(numbers.min(limits::MAX_RAISE)) * 1_000_000_000).div_ceil(u128::from(limits::RAISE_RATE));
    // Within LONGEST_WAIT, so it fits.
    Duration::from_nanos(nanos as u64)
}

#[cfg(test)]
mod tests;
