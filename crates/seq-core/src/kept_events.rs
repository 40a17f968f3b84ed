//! Events that a log keeps, up to a maximum number. The event log of a set and the event log of a process use it.
//!
//! **Invariant:** the indexes of events grow and never repeat, and so do the numbers of changes. If there are more
//! events than the maximum, the oldest event of the most frequent kind is removed, so that thousands of events of one
//! kind do not push out the only event of another kind.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// An event that a log keeps.
pub(crate) trait KeptEvent {
    /// Maximum number of events that are kept.
    const MOST: usize;
    /// Number of kinds of events.
    const KINDS: usize;

    /// Returns the index of the event. It never changes.
    fn index(&self) -> u64;

    /// Returns the number of the last change to the event.
    fn change(&self) -> u64;

    /// Sets the number of the last change.
    fn set_change(&mut self, change: u64);

    /// Returns the number of the event's kind, below [`KeptEvent::KINDS`]. It never changes.
    fn kind_number(&self) -> usize;
}

/// The kept events of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptEvents<E> {
    /// Index of the newest event; 0 for none.
    last: u64,
    /// Number of the newest change of an event; 0 for none.
    changes: u64,
    /// The kept events, in order of index.
    kept: VecDeque<E>,
    /// For each kind, the number of kept events.
    counts: Vec<usize>,
}

impl<E: KeptEvent> Default for KeptEvents<E> {
    fn default() -> KeptEvents<E> {
        KeptEvents { last: 0, changes: 0, kept: VecDeque::new(), counts: vec![0; E::KINDS] }
    }
}

impl<E: KeptEvent> KeptEvents<E> {
    /// Creates a log from its parts; `None` if the indexes of events are not in order, an index or the number of a
    /// change is too high, or there are too many events.
    pub(crate) fn from_parts((last, changes): (u64, u64), kept: VecDeque<E>) -> Option<KeptEvents<E>> {
        let in_order = kept.iter().zip(kept.iter().skip(1)).all(|(one, next)| one.index() < next.index());
        let fits = kept.iter().all(|event| event.index() <= last && event.change() <= changes);
        let mut counts = vec![0; E::KINDS];
        kept.iter().for_each(|event| counts[event.kind_number()] += 1);
        (in_order && fits && kept.len() <= E::MOST).then_some(KeptEvents { last, changes, kept, counts })
    }

    /// Returns the kept events, in order of index.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &E> {
        self.kept.iter()
    }

    /// Returns the kept events whose last change has a number above `change`, in ascending order of this number.
    pub(crate) fn changed_after(&self, change: u64) -> Vec<&E> {
        if change >= self.changes {
            return Vec::new();
        }
        let mut changed: Vec<&E> = self.kept.iter().filter(|event| event.change() > change).collect();
        changed.sort_unstable_by_key(|event| event.change());
        changed
    }

    /// Returns the highest number of a change so far; 0 if there was no event.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the index of the newest event; 0 for none.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Appends the event that `new` returns for its index and the number of its first change.
    pub(crate) fn append(&mut self, new: impl FnOnce(u64, u64) -> E) {
        (self.last, self.changes) = (self.last + 1, self.changes + 1);
        let event = new(self.last, self.changes);
        self.counts[event.kind_number()] += 1;
        self.kept.push_back(event);
        if self.kept.len() > E::MOST {
            self.remove_one();
        }
    }

    /// Changes one event. Calls `change` with one of the newest `open` events after another, the newest first, until it
    /// returns true, which means that it has changed the event. Returns whether an event was changed.
    pub(crate) fn change_one(&mut self, open: usize, change: impl FnMut(&mut E) -> bool) -> bool {
        let mut change = change;
        let Some(event) = self.kept.iter_mut().rev().take(open).find_map(|event| change(event).then_some(event)) else {
            return false;
        };
        self.changes += 1;
        event.set_change(self.changes);
        true
    }

    /// Changes the newest events for which `is_due` returns true, up to the first one for which it does not.
    pub(crate) fn change_newest(&mut self, is_due: impl Fn(&E) -> bool, change: impl Fn(&mut E)) {
        let due = self.kept.iter().rev().take_while(|event| is_due(event)).count();
        let first = self.kept.len() - due;
        for event in self.kept.iter_mut().skip(first) {
            self.changes += 1;
            event.set_change(self.changes);
            change(event);
        }
    }

    /// Continues with indexes and numbers of changes above `number`.
    pub(crate) fn continue_above(&mut self, number: u64) {
        (self.last, self.changes) = (self.last.max(number), self.changes.max(number));
    }

    /// Removes the oldest event of the kind that has the most events.
    fn remove_one(&mut self) {
        let most = (0..self.counts.len()).max_by_key(|kind| self.counts[*kind]);
        let oldest = self.kept.iter().position(|event| Some(event.kind_number()) == most);
        if let Some(removed) = oldest.and_then(|place| self.kept.remove(place)) {
            self.counts[removed.kind_number()] -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An event of a log that keeps four events.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Small {
        index: u64,
        change: u64,
        kind: usize,
    }

    impl KeptEvent for Small {
        const MOST: usize = 4;
        const KINDS: usize = 3;

        fn index(&self) -> u64 {
            self.index
        }

        fn change(&self) -> u64 {
            self.change
        }

        fn set_change(&mut self, change: u64) {
            self.change = change;
        }

        fn kind_number(&self) -> usize {
            self.kind
        }
    }

    fn log(kinds: &[usize]) -> KeptEvents<Small> {
        let mut log = KeptEvents::default();
        kinds.iter().for_each(|&kind| log.append(|index, change| Small { index, change, kind }));
        log
    }

    fn indexes(log: &KeptEvents<Small>) -> Vec<u64> {
        log.iter().map(|event| event.index).collect()
    }

    #[test]
    fn the_oldest_event_of_the_most_frequent_kind_makes_room() {
        assert_eq!(indexes(&log(&[0, 1, 1, 2])), [1, 2, 3, 4]);
        assert_eq!(indexes(&log(&[0, 1, 1, 2, 0, 0, 0])), [2, 4, 6, 7]);
        let full = log(&[0, 1, 1, 2, 0, 0, 0]);
        let kept: VecDeque<Small> = full.iter().copied().collect();
        assert_eq!(KeptEvents::from_parts((7, 7), kept.clone()), Some(full), "the counts are those of the events");
        assert_eq!(KeptEvents::from_parts((6, 7), kept.clone()), None);
        assert_eq!(KeptEvents::from_parts((7, 6), kept.clone()), None);
        assert_eq!(KeptEvents::from_parts((7, 7), kept.iter().rev().copied().collect()), None);
        assert_eq!(
            KeptEvents::from_parts((9, 9), kept.iter().copied().chain(log(&[0; 9]).iter().copied()).collect()),
            None
        );
    }

    #[test]
    fn changes_are_numbered_in_one_series_over_all_events() {
        let mut log = log(&[0, 1, 2]);
        assert!(!log.change_one(2, |event| event.index == 1), "it is not open");
        assert!(log.change_one(3, |event| event.index == 1));
        log.change_newest(|event| event.index > 1, |event| assert!(event.index > 1));
        let changed: Vec<(u64, u64)> = log.changed_after(0).iter().map(|event| (event.index, event.change)).collect();
        assert_eq!((changed, log.changes(), log.last()), ([(1, 4), (2, 5), (3, 6)].into(), 6, 3));
        assert_eq!(log.changed_after(5).len(), 1);
        assert!(log.changed_after(6).is_empty());
        log.continue_above(100);
        log.append(|index, change| Small { index, change, kind: 0 });
        assert_eq!((log.last(), log.changes(), indexes(&log)), (101, 101, [1, 2, 3, 101].into()));
    }
}
