//! Rarely needed state of a user. It consists of the holes between the user's numbers, the values that reads returned,
//! and the numbers that a `prev` or an exact read reported as allocated before any call had got them.

use std::time::Duration;

use crate::runs::{Run, RunSet};

/// Largest number of orphans kept per user. If there are more, the oldest orphans are dropped and only counted.
pub(super) const MAX_ORPHANS: usize = 64;

/// Largest number of lost attempts kept per user. A lost attempt has an unknown outcome, so it may have got a number
/// that a `prev` or a read reported as allocated. Older attempts are only counted, and each of them is assumed to be
/// able to explain any number.
const MAX_LOST: usize = 1_024;

/// State of a user other than the run with the user's largest numbers.
#[derive(Debug, Default)]
pub(super) struct Cold {
    /// Runs below the run with the largest numbers.
    pub(super) older: RunSet,
    /// Numbers between the `prev` and the first number of an allocation. No call may get any of them.
    pub(super) closed: RunSet,
    /// Numbers of calls, each without the last number of its call. They are kept for calls that ended while a read was
    /// in flight. No exact read may return any of them.
    pub(super) inner: RunSet,
    /// Targets of advances. An exact read may return a target as soon as the request of the advance was sent.
    pub(super) targets: RunSet,
    /// Numbers that a `prev` or an exact read reported as allocated before any call had got them. A call may have got
    /// some of them since then. If there are more than [`MAX_ORPHANS`], the oldest are dropped and only counted, in
    /// `orphans_dropped`.
    pub(super) orphans: Vec<Orphan>,
    pub(super) orphans_dropped: u64,
    /// Lowest number of the user in the history. It is set when the user's numbers have a hole for the first time.
    /// Lower numbers were allocated before the history began, so no call needs to explain them.
    pub(super) begin: Option<u64>,
    /// Attempts with an unknown outcome. `lost_dropped` counts the older attempts that are no longer kept.
    lost: Vec<Attempt>,
    lost_dropped: usize,
    /// `read` is the largest number that a read returned or an advance reached. `read_bound` is the largest of
    /// these numbers that was an upper bound or the target of an advance.
    pub(super) read: u64,
    pub(super) read_bound: u64,
    /// Total number of runs above which old runs are dropped. It has no effect while it is below `MAX_RUNS`.
    pub(super) fold_at: usize,
}

/// A number that a `prev` or an exact read reported as allocated before any call had got it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Orphan {
    pub(super) number: u64,
    /// Whether a read reported the number.
    pub(super) read: bool,
    /// Time at which the number was first reported as allocated. `named` counts the starts and ends of calls so far,
    /// and `at` is the time since the start of the history.
    pub(super) named: u64,
    pub(super) at: Duration,
}

/// Attempt of a call with an unknown outcome, so it may have got a number. `started` is the count of starts and ends of
/// calls at which the attempt's call started, and `floor` is the floor of that call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    pub(super) started: u64,
    pub(super) floor: u64,
}

impl Attempt {
    /// Returns whether the attempt may have got the orphan's number. The attempt may have got the number if its call
    /// started before the number was reported as allocated, and if the number is above the call's floor.
    fn explains(self, orphan: &Orphan) -> bool {
        self.started < orphan.named && self.floor < orphan.number
    }
}

impl Cold {
    /// Records a number that a `prev` or a read reported as allocated. The call that got the number need not have ended
    /// yet.
    pub(super) fn must_be_given(&mut self, top: Run, orphan: Orphan) {
        let number = orphan.number;
        let is_target = orphan.read && self.targets.contains(number);
        if self.older.contains(number) || top.contains(number) || is_target {
            return;
        }
        if let Some(known) = self.orphans.iter_mut().find(|known| known.number == number) {
            known.read |= orphan.read;
            return;
        }
        if self.orphans.len() == MAX_ORPHANS {
            self.settle(top);
        }
        if self.orphans.len() == MAX_ORPHANS {
            self.orphans.remove(0);
            self.orphans_dropped += 1;
        }
        self.orphans.push(orphan);
    }

    /// Removes each orphan whose number a call has got since the number was reported as allocated.
    pub(super) fn settle(&mut self, top: Run) {
        let older = &self.older;
        self.orphans.retain(|orphan| !top.contains(orphan.number) && !older.contains(orphan.number));
    }

    /// Processes a call that got the numbers in `run`. Removes the orphans with these numbers. If the call is `sound`,
    /// which means that it broke no promise itself, also removes the orphans from exact reads that the call
    /// contradicts, and returns the count of these orphans. The call contradicts a read if the read returned a number
    /// of the call other than its last number, or a number in `gap`, the numbers between the call's `prev` and its
    /// first number.
    pub(super) fn take_in(&mut self, run: Run, gap: Option<Run>, sound: bool) -> u64 {
        let inner = inner(run);
        let mut inexact = 0;
        self.orphans.retain(|Orphan { number, read, .. }| {
            let contradicted = inner.contains(*number) || gap.is_some_and(|gap| gap.contains(*number));
            let is_inexact = sound && *read && contradicted;
            inexact += u64::from(is_inexact);
            !is_inexact && !run.contains(*number)
        });
        inexact
    }

    /// Records attempts with unknown outcome.
    pub(super) fn lose(&mut self, attempt: Attempt, attempts: u32) {
        for _ in 0..attempts {
            if self.lost.len() == MAX_LOST {
                // The attempt whose call started first can explain the most numbers.
                let oldest = (0..MAX_LOST).min_by_key(|at| self.lost[*at].started).expect("there are some");
                self.lost.swap_remove(oldest);
                self.lost_dropped += 1;
            }
            self.lost.push(attempt);
        }
    }

    /// Returns the orphans above `begin` that neither a lost attempt nor one of the calls in flight, `flights`,
    /// explains, and the count of dropped orphans that no lost attempt explains.
    ///
    /// Each lost attempt explains at most one orphan. If the attempts are sorted by their start, the attempts that can
    /// explain an orphan are at the beginning of the list, because an attempt that started later never has a lower
    /// floor. So this function first assigns attempts to the orphans that the fewest attempts can explain, which leaves
    /// as few orphans as possible unexplained.
    pub(super) fn unexplained(&self, top: Run, begin: u64, flights: &[Attempt]) -> (Vec<Orphan>, u64) {
        let given = |number| top.contains(number) || self.older.contains(number);
        let mut open: Vec<(usize, Orphan)> = self
            .orphans
            .iter()
            .filter(|orphan| orphan.number > begin && !given(orphan.number))
            .filter(|orphan| !flights.iter().any(|flight| flight.explains(orphan)))
            .map(|orphan| (self.lost_dropped + self.lost.iter().filter(|lost| lost.explains(orphan)).count(), *orphan))
            .collect();
        open.sort_by_key(|(attempts, orphan)| (*attempts, orphan.named));
        let mut used = 0;
        open.retain(|(attempts, _)| {
            let explained = used < *attempts;
            used += usize::from(explained);
            !explained
        });
        let left = (self.lost_dropped + self.lost.len() - used) as u64;
        (open.into_iter().map(|(_, orphan)| orphan).collect(), self.orphans_dropped.saturating_sub(left))
    }
}

/// Returns the numbers of a call except its last number.
pub(super) fn inner(run: Run) -> Run {
    Run { first: run.first, last: run.last - 1 }
}
