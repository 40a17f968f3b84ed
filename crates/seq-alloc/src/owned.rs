//! The sections this process serves from, as one table that readers load with one atomic and never wait for.
//!
//! Which sections those are is decided by `seq_core::owner`; here they are. Owners change seldom and numbers are given out
//! always, so a change copies the table.

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

    /// Whether this very section is served.
    pub(crate) fn has(&self, owned: &Arc<OwnedSection>) -> bool {
        self.get(owned.id).is_some_and(|now| Arc::ptr_eq(now, owned))
    }
}

/// A change of one section.
#[derive(Debug)]
pub(crate) enum Change {
    /// It is served from now on; what was served of it before leaves.
    Enter(Arc<OwnedSection>),
    /// It is served no more under this ownership.
    Leave(SectionId, Epoch),
}

/// The table.
#[derive(Debug)]
pub(crate) struct OwnedTable {
    current: ArcSwap<Owned>,
    /// Held while a change is made.
    changing: Mutex<()>,
}

impl OwnedTable {
    pub(crate) fn new(sections: u32) -> OwnedTable {
        let sections = vec![None; sections as usize].into();
        OwnedTable { current: ArcSwap::from_pointee(Owned { sections }), changing: Mutex::new(()) }
    }

    /// The table as it stands. Do not keep the guard over a wait.
    #[inline]
    pub(crate) fn load(&self) -> Guard<Arc<Owned>> {
        self.current.load()
    }

    /// Makes changes, in order and in one step.
    ///
    /// # Panics
    /// When a section enters under an older ownership than the one that is served: two lives of a section would overlap.
    pub(crate) fn change(&self, changes: Vec<Change>) {
        if changes.is_empty() {
            return;
        }
        let _changing = self.changing.lock();
        let mut next = Owned::clone(&self.current.load());
        let mut left = Vec::new();
        for change in changes {
            match change {
                Change::Enter(section) => {
                    let entry = &mut next.sections[section.id.0 as usize];
                    let older = entry.as_ref().is_none_or(|served| served.epoch <= section.epoch);
                    assert!(older, "section {} would fall back to epoch {}", section.id, section.epoch);
                    left.extend(entry.replace(section));
                }
                Change::Leave(id, epoch) => {
                    let entry = &mut next.sections[id.0 as usize];
                    if entry.as_ref().is_some_and(|served| served.epoch == epoch) {
                        left.extend(entry.take());
                    }
                }
            }
        }
        self.current.store(Arc::new(next));
        // Out of the table first, then the signal: a waiter that wakes, or that looked just before, finds it gone.
        for section in &left {
            section.changed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use seq_core::{Seq, Step};

    use super::*;

    fn enter(id: u32, epoch: u64) -> Change {
        let section = Section::takeover(10, Seq(0), Step(10));
        Change::Enter(OwnedSection::new(SectionId(id), Epoch(epoch), section))
    }

    fn leave(id: u32, epoch: u64) -> Change {
        Change::Leave(SectionId(id), Epoch(epoch))
    }

    fn epochs(table: &OwnedTable) -> Vec<(u32, u64)> {
        table.load().iter().map(|section| (section.id.0, section.epoch.0)).collect()
    }

    #[test]
    fn sections_come_and_go_by_ownership() {
        let table = OwnedTable::new(4);
        table.change(vec![enter(0, 1), enter(2, 1)]);
        table.change(vec![leave(0, 2), leave(2, 1)]);
        assert_eq!(epochs(&table), [(0, 1)], "another ownership than the one that leaves stays");
        table.change(vec![enter(0, 2), enter(2, 2), leave(0, 1)]);
        assert_eq!(epochs(&table), [(0, 2), (2, 2)]);
    }

    #[tokio::test]
    async fn whoever_waits_for_a_section_hears_that_it_left() {
        let table = OwnedTable::new(1);
        table.change(vec![enter(0, 1)]);
        let waited_for = table.load().get(SectionId(0)).cloned().unwrap();
        let mut waiting = std::pin::pin!(waited_for.changed.notified());
        waiting.as_mut().enable();
        table.change(vec![enter(0, 2)]);
        waiting.await;
        assert!(!table.load().has(&waited_for));
    }

    #[test]
    #[should_panic(expected = "section 0 would fall back to epoch 1")]
    fn an_older_ownership_never_replaces_a_newer_one() {
        let table = OwnedTable::new(1);
        table.change(vec![enter(0, 2)]);
        table.change(vec![enter(0, 1)]);
    }
}
