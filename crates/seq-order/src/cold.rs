//! Rarely needed state of a user: holes in its numbers, readings of them, and named numbers that no call has got.

use std::time::Duration;

use crate::runs::{Run, RunSet};

/// Most unexplained numbers kept per user; further numbers are only counted.
pub(super) const MAX_ORPHANS: usize = 64;

/// Most lost attempts kept per user with the facts that decide which numbers they explain; older attempts are only
/// counted, and assumed to explain any number.
const MAX_LOST: usize = 1_024;

/// State of a user other than its newest run of numbers.
#[derive(Debug, Default)]
pub(super) struct Cold {
    /// Runs below the newest run.
    pub(super) older: RunSet,
    /// Numbers between a `prev` and its first number: no call may get any of them.
    pub(super) closed: RunSet,
    /// Numbers of a call below its last number, while reads are in flight: no exact read may return any of them.
    pub(super) inner: RunSet,
    /// Targets of sent advances: an exact read may return a target from then on.
    pub(super) targets: RunSet,
    /// Named numbers that no call had got when they were named, and perhaps no call has got yet; the oldest are only
    /// counted, in `orphans_dropped`.
    pub(super) orphans: Vec<Orphan>,
    pub(super) orphans_dropped: u64,
    /// Lowest number of the history, once a hole was seen; numbers below it are unknown.
    pub(super) begin: Option<u64>,
    /// Attempts without a response, and the number of older attempts that are only counted.
    lost: Vec<Attempt>,
    lost_dropped: usize,
    /// Largest number read or advanced to, and largest number read as an upper bound.
    pub(super) read: u64,
    pub(super) read_bound: u64,
    /// Length of the sets at which the next fold is due.
    pub(super) fold_at: usize,
}

/// A number that a `prev` or an exact read named.
#[derive(Clone, Copy, Debug)]
pub(super) struct Orphan {
    pub(super) number: u64,
    /// Whether a read named it.
    pub(super) read: bool,
    /// Time of the first naming: in events, and on the clock of the history.
    pub(super) named: u64,
    pub(super) at: Duration,
}

/// An attempt that may have taken a number: when its call was sent, in events, and the call's floor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    pub(super) started: u64,
    pub(super) floor: u64,
}

impl Attempt {
    /// Returns whether the attempt may have got the number: it was sent before the number was named, and its numbers
    /// are above its floor.
    fn explains(self, orphan: &Orphan) -> bool {
        self.started < orphan.named && self.floor < orphan.number
    }
}

impl Cold {
    /// Records a number that was named as allocated. The call that got the number may end later.
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

    /// Removes orphans that a call has got since they were named.
    pub(super) fn settle(&mut self, top: Run) {
        let older = &self.older;
        self.orphans.retain(|orphan| !top.contains(orphan.number) && !older.contains(orphan.number));
    }

    /// Adds the numbers of a call, which explain the orphans among them. Returns how many exact reads a sound call
    /// contradicts, because they returned a number of the call below its last number, or a number in its gap.
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
                // The attempt that was sent first explains the most.
                let oldest = (0..MAX_LOST).min_by_key(|at| self.lost[*at].started).expect("there are some");
                self.lost.swap_remove(oldest);
                self.lost_dropped += 1;
            }
            self.lost.push(attempt);
        }
    }

    /// Returns the orphans above `begin` that neither a lost attempt nor a call in flight explains, and the number of
    /// dropped orphans without an explanation.
    ///
    /// In order of their start, the attempts that explain an orphan form a prefix, because a later attempt has no lower
    /// floor. So matching the orphans with the fewest candidates first leaves as few orphans as possible unexplained.
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

/// Returns the numbers of a call below its last number.
pub(super) fn inner(run: Run) -> Run {
    Run { first: run.first, last: run.last - 1 }
}
