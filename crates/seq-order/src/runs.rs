//! Sets of numbers. A set is stored as runs of consecutive numbers. The numbers of a user are nearly contiguous, so
//! their set has only a few runs.

/// The numbers `first ..= last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// The lowest number.
    pub(super) first: u64,
    /// The highest number; below `first` in an empty run.
    pub(super) last: u64,
}

impl Run {
    /// The empty run below number 1. If a user's first number is 1, that number extends this run.
    pub(super) const EMPTY: Run = Run { first: 1, last: 0 };

    pub(super) fn is_empty(self) -> bool {
        self.last < self.first
    }

    pub(super) fn contains(self, number: u64) -> bool {
        (self.first..=self.last).contains(&number)
    }

    fn overlaps(self, other: Run) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// A set of numbers. **Invariant:** its runs ascend, and no two of them touch or overlap.
#[derive(Debug, Default)]
pub(super) struct RunSet {
    runs: Vec<Run>,
}

impl RunSet {
    /// Adds a nonempty run; returns whether the set already contained any number of the run.
    pub(super) fn insert(&mut self, run: Run) -> bool {
        assert!(!run.is_empty());
        let from = self.runs.partition_point(|other| other.last + 1 < run.first);
        let to = from + self.runs[from..].partition_point(|other| other.first <= run.last + 1);
        let touched = &self.runs[from..to];
        let overlaps = touched.iter().any(|other| other.overlaps(run));
        let merged = touched
            .iter()
            .fold(run, |sum, other| Run { first: sum.first.min(other.first), last: sum.last.max(other.last) });
        self.runs.splice(from..to, [merged]);
        overlaps
    }

    /// Returns whether the set contains a number of the run.
    pub(super) fn overlaps(&self, run: Run) -> bool {
        if run.is_empty() {
            return false;
        }
        let at = self.runs.partition_point(|other| other.last < run.first);
        self.runs.get(at).is_some_and(|other| other.first <= run.last)
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        self.overlaps(Run { first: number, last: number })
    }

    /// Removes the highest run.
    pub(super) fn pop(&mut self) -> Option<Run> {
        self.runs.pop()
    }

    /// Returns the lowest number.
    pub(super) fn lowest(&self) -> Option<u64> {
        self.runs.first().map(|run| run.first)
    }

    /// Returns the number of runs.
    pub(super) fn len(&self) -> usize {
        self.runs.len()
    }

    /// Drops runs that end at or below `floor`, but always keeps the `keep` highest runs of the set.
    pub(super) fn forget(&mut self, floor: u64, keep: usize) {
        let below = self.runs.partition_point(|run| run.last <= floor);
        self.runs.drain(..below.min(self.runs.len().saturating_sub(keep)));
    }
}
