//! What few users need: holes in their numbers, what was read of them, and numbers that were named but given to no call.

use std::time::Duration;

use crate::runs::{Run, RunSet};

/// Unexplained numbers kept per user; of more of them only the number is kept.
pub(super) const MAX_ORPHANS: usize = 64;

/// Lost attempts kept per user with what they can explain; the oldest of more are taken to explain everything.
const MAX_LOST: usize = 1_024;

/// What is known of a user beside the newest run of numbers.
#[derive(Debug, Default)]
pub(super) struct Cold {
    /// Runs below the newest one.
    pub(super) older: RunSet,
    /// Numbers between a `prev` and its first number: no call may be given one.
    pub(super) closed: RunSet,
    /// Numbers of a call before its last one, while reads are in flight: no exact read answers one.
    pub(super) inner: RunSet,
    /// Targets of advances that were sent: an exact read may name one from then on.
    pub(super) targets: RunSet,
    /// Numbers that were named and given to no call so far, or not when they were named; the oldest are only counted in
    /// `orphans_dropped`.
    pub(super) orphans: Vec<Orphan>,
    pub(super) orphans_dropped: u64,
    /// The lowest number of the history, once a hole was seen; what came before it is unknown.
    pub(super) begin: Option<u64>,
    /// Attempts without an answer, and how many older ones are only counted.
    lost: Vec<Attempt>,
    lost_dropped: usize,
    /// The largest number read or advanced to, and the largest one that was read as an upper bound.
    pub(super) read: u64,
    pub(super) read_bound: u64,
    /// Length of the sets at which folding is tried next.
    pub(super) fold_at: usize,
}

/// A number that a `prev` or an exact read named.
#[derive(Clone, Copy, Debug)]
pub(super) struct Orphan {
    pub(super) number: u64,
    /// Whether a read named it.
    pub(super) read: bool,
    /// When it was named first: by the count of events, and by the clock of the history.
    pub(super) named: u64,
    pub(super) at: Duration,
}

/// An attempt that may have taken a number: when its call was sent, by the count of events, and the call's floor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    pub(super) started: u64,
    pub(super) floor: u64,
}

impl Attempt {
    /// Whether the attempt may have been given the number: it was sent before the number was named, and what it was given
    /// lies above its floor.
    fn explains(self, orphan: &Orphan) -> bool {
        self.started < orphan.named && self.floor < orphan.number
    }
}

impl Cold {
    /// Notes a number that was named as given out. The call that it was given to may end later.
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

    /// Forgets the numbers that a call was given meanwhile.
    pub(super) fn settle(&mut self, top: Run) {
        let older = &self.older;
        self.orphans.retain(|orphan| !top.contains(orphan.number) && !older.contains(orphan.number));
    }

    /// Takes the numbers of a call in: orphans among them were given. Answers how many exact reads a sound call contradicts,
    /// because they answered a number before its last one or one in its gap.
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

    /// Notes attempts whose outcome stayed unknown.
    pub(super) fn lose(&mut self, attempt: Attempt, attempts: u32) {
        for _ in 0..attempts {
            if self.lost.len() == MAX_LOST {
                // The one that was sent first explains more than any other already.
                let oldest = (0..MAX_LOST).min_by_key(|at| self.lost[*at].started).expect("there are some");
                self.lost.swap_remove(oldest);
                self.lost_dropped += 1;
            }
            self.lost.push(attempt);
        }
    }

    /// The orphans above `begin` that neither a lost attempt nor a call in flight explains, and how many dropped ones.
    ///
    /// What explains an orphan are all attempts up to some point: later ones have a later start and no lower floor. So taking
    /// the orphans that fewest attempts explain first leaves as few as possible without one.
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

/// The numbers of a call before its last one.
pub(super) fn inner(run: Run) -> Run {
    Run { first: run.first, last: run.last - 1 }
}
