//! The buffer of a handle's fetched ids. It is a state machine without I/O and without a clock of its own.
//!
//! Invariants: ids are unique and increasing, because each fetch is for ids above all ids that were fetched before, and
//! only one fetch is in flight at a time. The number of ids that were fetched but not used is at most twice the number
//! of used ids, plus 2. If ids are dropped because of their age, each fetch can exceed this bound by 1.

use std::time::Duration;

use seq_ids::Id;
use tokio::time::Instant;

use crate::ids::Ids;

/// First pause after a failed fetch. It need not be shorter, because the fetch itself has already waited between its
/// attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Longest pause after a failed fetch.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Number of times that the state of the fetch is checked during the use of one range, while a fetch is in flight or
/// after it failed.
const CHECKS: u32 = 16;

/// Limits of a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Time for which a fetched range lasts at the present rate of use.
    pub(super) hold: Duration,
    /// Age above which a range is dropped; `None` for ids that contain no time.
    pub(super) max_age: Option<Duration>,
    /// Limit on the ids in a range.
    pub(super) max_size: u32,
}

/// A request for a range of ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fetch {
    /// Number of ids, 1 or above.
    pub(super) size: u32,
    /// The highest id that was fetched earlier. All ids of this fetch must be greater.
    pub(super) after: Option<Id>,
}

/// The result of a take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// The next id.
    Given(Id),
    /// No id, because none is fetched.
    Wait,
}

/// A range of ids from one fetch.
#[derive(Debug)]
struct Range {
    ids: Ids,
    size: u32,
    /// Time at which the response arrived.
    at: Instant,
}

/// The ids that have been fetched but not used, and the state of the fetch in flight.
#[derive(Debug)]
pub(super) struct Buffer {
    limits: Limits,
    present: Option<Range>,
    spare: Option<Range>,
    is_fetching: bool,
    /// Number of ids that can be taken from the present range before a fetch may be due and before the clock has to be
    /// read.
    free: u32,
    given: u64,
    /// Number of ids that were dropped because their ranges were too old.
    dropped: u64,
    /// Size of the last fetched range; 0 before the first.
    last_size: u32,
    highest: Option<Id>,
    /// Time at which the last fetch began, and the number of ids that had been taken until then. The present rate of
    /// use is measured from this time.
    measured: Option<(Instant, u64)>,
    /// Time before which a failed fetch is not repeated.
    retry_at: Option<Instant>,
    failures: u32,
}

impl Buffer {
    /// Creates an empty buffer, for ids above `after`.
    pub(super) fn new(limits: Limits, after: Option<Id>) -> Buffer {
        Buffer {
            limits,
            present: None,
            spare: None,
            is_fetching: false,
            free: 0,
            given: 0,
            dropped: 0,
            last_size: 0,
            highest: after,
            measured: None,
            retry_at: None,
            failures: 0,
        }
    }

    /// Takes an id of the present range if neither a fetch can be due nor the clock has to be read; otherwise returns
    /// `None`.
    #[inline]
    pub(super) fn quick(&mut self) -> Option<Id> {
        self.free = self.free.checked_sub(1)?;
        self.given += 1;
        self.present.as_mut()?.ids.next()
    }

    /// Takes the next id. If the method also returns a fetch, the caller has to make this request and report its result
    /// later.
    pub(super) fn take(&mut self, now: Instant) -> (Taken, Option<Fetch>) {
        self.drop_old(now);
        if self.present.as_ref().is_none_or(|range| range.ids.len() == 0) {
            self.present = self.spare.take();
        }
        let taken = match self.present.as_mut().and_then(|range| range.ids.next()) {
            Some(id) => {
                self.given += 1;
                Taken::Given(id)
            }
            None => Taken::Wait,
        };
        let fetch = self.due(now, taken == Taken::Wait);
        self.free = self.free_takes();
        (taken, fetch)
    }

    /// Adds the ids of a fetch whose response arrived at `at`.
    pub(super) fn fetched(&mut self, ids: Ids, at: Instant) {
        (self.is_fetching, self.failures, self.retry_at) = (false, 0, None);
        (self.last_size, self.highest) = (ids.len() as u32, Some(ids.last_id()));
        let range = Range { size: ids.len() as u32, ids, at };
        // If the present range has no ids left, the next call of `take` replaces it by this range.
        self.spare = Some(range);
    }

    /// Ends a fetch that failed. The next fetch begins only after a pause.
    pub(super) fn failed(&mut self, now: Instant) {
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(16)).min(MAX_PAUSE);
        (self.is_fetching, self.failures, self.retry_at) = (false, self.failures + 1, Some(now + pause));
    }

    /// Returns the time before which no fetch begins, if the last fetch failed; otherwise `None`.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    /// Returns the number of ids that were fetched but not used, including the dropped ids.
    pub(super) fn unused(&self) -> u64 {
        self.held() + self.dropped
    }

    fn held(&self) -> u64 {
        let left = |range: &Option<Range>| range.as_ref().map_or(0, |range| range.ids.len() as u64);
        left(&self.present) + left(&self.spare)
    }

    /// Drops ranges whose age is above the limit.
    fn drop_old(&mut self, now: Instant) {
        let Some(max_age) = self.limits.max_age else { return };
        for range in [&mut self.present, &mut self.spare] {
            if let Some(old) = range.take_if(|range| now.saturating_duration_since(range.at) > max_age) {
                self.dropped += old.ids.len() as u64;
            }
        }
    }

    /// Begins a fetch if one is due. A fetch is due if a caller waits for an id (`waits`), or if at least half of the
    /// present range is used. No fetch is due while another fetch is in flight, while there is a spare range, or during
    /// the pause after a failure. After the first id of the handle, no fetch begins until a caller takes another id,
    /// because the handle may never need a second id.
    fn due(&mut self, now: Instant, waits: bool) -> Option<Fetch> {
        if self.is_fetching || self.spare.is_some() || self.retry_at.is_some_and(|at| now < at) {
            return None;
        }
        let is_half_used = self.present.as_ref().is_none_or(|range| range.ids.len() * 2 <= range.size as usize);
        if !waits && (self.given < 2 || !is_half_used) {
            return None;
        }
        let size = self.size(now);
        (self.is_fetching, self.measured) = (true, Some((now, self.given)));
        Some(Fetch { size, after: self.highest })
    }

    /// Returns the number of ids of the next range. It is the number of ids that are used during `hold` at the present
    /// rate of use, but at most twice the size of the last range, and at most so large that the bound on unused ids
    /// holds.
    fn size(&self, now: Instant) -> u32 {
        let used = self.measured.map_or(0, |(at, given)| {
            let elapsed = now.saturating_duration_since(at).as_nanos().max(1);
            u128::from(self.given - given).saturating_mul(self.limits.hold.as_nanos()) / elapsed
        });
        let most = u64::from(self.last_size) * 2;
        let room = (self.given * 2 + 2).saturating_sub(self.unused());
        let size = used.min(most.min(room).min(self.limits.max_size.into()).into());
        (size as u32).max(1)
    }

    /// Returns the number of ids that can be taken next before a fetch may be due and before the clock has to be read.
    fn free_takes(&self) -> u32 {
        let Some(Range { ids, size, .. }) = self.present.as_ref().filter(|_| self.limits.max_age.is_none()) else {
            return 0;
        };
        let left = ids.len() as u32;
        if self.spare.is_some() {
            left
        } else if self.is_fetching || self.retry_at.is_some() {
            left.min(size / CHECKS)
        } else {
            left.saturating_sub(size / 2 + 1)
        }
    }
}

#[cfg(test)]
mod tests;
