//! The sections this process serves from, as one table that readers load with one atomic and never wait for.
//!
//! Owners change seldom and numbers are given out always, so a change copies the table.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use seq_core::{Epoch, Section, SectionId};
use tokio::sync::Notify;

/// A section in this process' hands.
#[derive(Debug)]
pub(crate) struct OwnedSection {
    pub(crate) id: SectionId,
    /// The ownership.
    pub(crate) epoch: Epoch,
    pub(crate) section: Section,
    /// Signalled after the ceiling was raised and after the section left the table.
    pub(crate) changed: Notify,
}

impl OwnedSection {
    pub(crate) fn new(id: SectionId, epoch: Epoch, section: Section) -> Arc<OwnedSection> {
        Arc::new(OwnedSection { id, epoch, section, changed: Notify::new() })
    }
}

/// One state of the table.
#[derive(Clone, Debug)]
pub(crate) struct Owned {
    sections: Box<[Option<Arc<OwnedSection>>]>,
}

impl Owned {
    #[inline]
    pub(crate) fn get(&self, id: SectionId) -> Option<&Arc<OwnedSection>> {
        self.sections.get(id.0 as usize)?.as_ref()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<OwnedSection>> {
        self.sections.iter().flatten()
    }
}

/// The table.
#[derive(Debug)]
pub(crate) struct OwnedTable {
    current: ArcSwap<Owned>,
    /// Held while a change is made: the newest epoch that was ever held of each section. Invariant: a section enters the
    /// table only under a higher one.
    held: Mutex<Box<[Epoch]>>,
}

impl OwnedTable {
    pub(crate) fn new(sections: u32) -> OwnedTable {
        let sections = sections as usize;
        OwnedTable {
            current: ArcSwap::from_pointee(Owned { sections: vec![None; sections].into() }),
            held: Mutex::new(vec![Epoch(0); sections].into()),
        }
    }

    /// The table as it stands. Do not keep the guard over a wait.
    #[inline]
    pub(crate) fn load(&self) -> Guard<Arc<Owned>> {
        self.current.load()
    }

    /// Takes sections in and drops those that `keep` does not want, in one step. A granted section replaces one of an
    /// older epoch; one whose epoch was held already is left out. Answers how many entered and how many left.
    pub(crate) fn change(
        &self,
        granted: Vec<Arc<OwnedSection>>,
        keep: impl Fn(&OwnedSection) -> bool,
    ) -> (usize, usize) {
        let mut held = self.held.lock();
        let mut next = Owned::clone(&self.current.load());
        let mut left = Vec::new();
        let mut entered = 0;
        for section in granted {
            let index = section.id.0 as usize;
            if section.epoch <= held[index] {
                continue;
            }
            held[index] = section.epoch;
            entered += 1;
            left.extend(next.sections[index].replace(section));
        }
        for entry in &mut next.sections {
            if entry.as_ref().is_some_and(|section| !keep(section)) {
                left.extend(entry.take());
            }
        }
        if entered == 0 && left.is_empty() {
            return (0, 0);
        }
        self.current.store(Arc::new(next));
        // Out of the table first, then the signal: a waiter that wakes, or that looked just before, finds it gone.
        for section in &left {
            section.changed.notify_waiters();
        }
        (entered, left.len())
    }

    /// Drops sections under exactly these ownerships.
    pub(crate) fn lose(&self, lost: &[Arc<OwnedSection>]) {
        let lost: BTreeMap<SectionId, Epoch> = lost.iter().map(|lost| (lost.id, lost.epoch)).collect();
        self.change(Vec::new(), |section| lost.get(&section.id) != Some(&section.epoch));
    }

    /// Drops all sections.
    pub(crate) fn clear(&self) {
        self.change(Vec::new(), |_| false);
    }
}

#[cfg(test)]
mod tests {
    use seq_core::{Seq, Step};

    use super::*;

    fn section(id: u32, epoch: u64) -> Arc<OwnedSection> {
        let section = Section::takeover(10, Seq(0), Step(10));
        OwnedSection::new(SectionId(id), Epoch(epoch), section)
    }

    fn epochs(table: &OwnedTable) -> Vec<(u32, u64)> {
        table.load().iter().map(|section| (section.id.0, section.epoch.0)).collect()
    }

    #[test]
    fn an_epoch_is_held_once() {
        let table = OwnedTable::new(4);
        assert_eq!(table.change(vec![section(0, 1), section(2, 1)], |_| true), (2, 0));
        let lost = table.load().get(SectionId(2)).cloned().unwrap();
        table.lose(&[lost]);
        assert_eq!(epochs(&table), [(0, 1)]);
        assert_eq!(table.change(vec![section(0, 1), section(2, 1)], |_| true), (0, 0), "held before");
        assert_eq!(table.change(vec![section(0, 2), section(2, 2)], |_| true), (2, 1));
        assert_eq!(epochs(&table), [(0, 2), (2, 2)]);
    }

    #[test]
    fn losing_an_old_ownership_leaves_the_new_one() {
        let table = OwnedTable::new(1);
        let old = section(0, 1);
        table.change(vec![old.clone()], |_| true);
        table.change(vec![section(0, 2)], |_| true);
        table.lose(&[old]);
        assert_eq!(epochs(&table), [(0, 2)]);
        table.clear();
        assert_eq!(epochs(&table), []);
    }
}
