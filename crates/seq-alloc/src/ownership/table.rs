//! Table of the served sections. Readers load the table with one atomic operation and never wait for a writer.
//!
//! Numbers are allocated all the time, but owners change rarely, so a change makes a new table and leaves the old one
//! unchanged. The change copies the list of chunks and only those chunks that it changes. It does not copy every
//! section, because a handover of all sections of a large set changes the table once for each section.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use seq_core::{Epoch, SectionId};

use super::OwnedSection;

/// Number of sections in a chunk. A change copies a chunk of 2 KiB and the list of chunks, which has one pointer for
/// each chunk. In a set of 65,536 sections a chunk and the list have the same size.
const CHUNK: usize = 256;

/// Neighbouring sections. An entry is `None` if this node does not serve the section.
type Chunk = [Option<Arc<OwnedSection>>; CHUNK];

/// State of the table.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// Chunks of sections, in the order of section ids. Invariant: the chunks have an entry for every section that was
    /// ever served here.
    chunks: Vec<Arc<Chunk>>,
    /// Number of changes so far.
    changes: u64,
}

impl Table {
    #[inline]
    pub(crate) fn get(&self, id: SectionId) -> Option<&Arc<OwnedSection>> {
        let id = id.0 as usize;
        self.chunks.get(id / CHUNK)?[id % CHUNK].as_ref()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<OwnedSection>> {
        self.chunks.iter().flat_map(|chunk| chunk.iter().flatten())
    }

    /// Returns the number of changes that led to this state.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the served sections whose ids are `id` or higher.
    pub(crate) fn iter_from(&self, id: SectionId) -> impl Iterator<Item = &Arc<OwnedSection>> {
        let first = id.0 as usize;
        let chunks = self.chunks.iter().enumerate().skip(first / CHUNK);
        chunks.flat_map(move |(place, chunk)| chunk[first.saturating_sub(place * CHUNK)..].iter().flatten())
    }

    /// Returns whether `owned` is in the table, under the same ownership.
    pub(crate) fn has(&self, owned: &Arc<OwnedSection>) -> bool {
        self.get(owned.id).is_some_and(|now| Arc::ptr_eq(now, owned))
    }

    /// Creates a table with the given sections, and with `changes` as its count of changes.
    #[cfg(test)]
    pub(crate) fn of(sections: impl IntoIterator<Item = Arc<OwnedSection>>, changes: u64) -> Table {
        let mut table = Table { chunks: Vec::new(), changes };
        for owned in sections {
            let id = owned.id;
            *table.entry(id) = Some(owned);
        }
        table
    }

    /// Returns the entry of a section, which the caller may change. If the entry is in a part that other tables share,
    /// first makes a copy of this part for this table.
    fn entry(&mut self, id: SectionId) -> &mut Option<Arc<OwnedSection>> {
        let id = id.0 as usize;
        if id / CHUNK >= self.chunks.len() {
            self.chunks.resize_with(id / CHUNK + 1, empty);
        }
        &mut Arc::make_mut(&mut self.chunks[id / CHUNK])[id % CHUNK]
    }
}

/// Returns a chunk that has no section.
fn empty() -> Arc<Chunk> {
    Arc::new([const { None }; CHUNK])
}

/// Change of one section.
#[derive(Debug)]
pub(crate) enum Change {
    /// Begin of an ownership of a section. If the table has an earlier ownership of the section, that ownership leaves
    /// the table.
    Enter(Arc<OwnedSection>),
    /// End of the ownership of this section under this epoch.
    Leave(SectionId, Epoch),
}

/// Table of the served sections.
#[derive(Debug)]
pub(crate) struct SectionTable {
    current: ArcSwap<Table>,
}

impl SectionTable {
    pub(crate) fn new(sections: u32) -> SectionTable {
        let chunks = vec![empty(); (sections as usize).div_ceil(CHUNK)];
        SectionTable { current: ArcSwap::from_pointee(Table { chunks, changes: 0 }) }
    }

    /// Returns the current table. The returned guard must not be held across an await.
    #[inline]
    pub(crate) fn load(&self) -> Guard<Arc<Table>> {
        self.current.load()
    }

    /// Replaces the table by a table with all `changes`, which are applied in their order. The caller must hold the
    /// lock of the owner's state machine.
    ///
    /// # Panics
    /// If a section enters with a smaller epoch than it has in the table, because then two ownerships would overlap.
    pub(super) fn change(&self, changes: Vec<Change>) {
        if changes.is_empty() {
            return;
        }
        let mut next = Table::clone(&self.current.load());
        next.changes += 1;
        let mut left = Vec::new();
        for change in changes {
            match change {
                Change::Enter(section) => {
                    let entry = next.entry(section.id);
                    let older = entry.as_ref().is_none_or(|served| served.epoch <= section.epoch);
                    assert!(older, "section {} would fall back to epoch {}", section.id, section.epoch);
                    left.extend(entry.replace(section));
                }
                Change::Leave(id, epoch) => {
                    if next.get(id).is_some_and(|served| served.epoch == epoch) {
                        left.extend(next.entry(id).take());
                    }
                }
            }
        }
        self.current.store(Arc::new(next));
        // The new table is stored before waiting calls are notified, so that a notified call no longer finds the
        // section in the table.
        for section in &left {
            section.changed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use seq_core::{Section, Seq, Step};

    use super::*;
    use crate::ownership::Start;

    fn enter(id: u32, epoch: u64) -> Change {
        let section = Section::takeover(10, Seq(0), Step(10));
        Change::Enter(OwnedSection::new((SectionId(id), Epoch(epoch)), None, section, (0, Start::Exact)))
    }

    fn leave(id: u32, epoch: u64) -> Change {
        Change::Leave(SectionId(id), Epoch(epoch))
    }

    fn epochs(table: &SectionTable) -> Vec<(u32, u64)> {
        table.load().iter().map(|section| (section.id.0, section.epoch.0)).collect()
    }

    #[test]
    fn sections_enter_and_leave_by_ownership() {
        let table = SectionTable::new(4);
        table.change(vec![enter(0, 1), enter(2, 1)]);
        table.change(vec![leave(0, 2), leave(2, 1)]);
        assert_eq!(epochs(&table), [(0, 1)], "another ownership than the one that leaves stays");
        table.change(vec![enter(0, 2), enter(2, 2), leave(0, 1)]);
        assert_eq!(epochs(&table), [(0, 2), (2, 2)]);
    }

    #[test]
    fn a_change_copies_the_chunks_that_it_names() {
        let chunk = CHUNK as u32;
        let table = SectionTable::new(2 * chunk + 1);
        table.change(vec![enter(0, 1), enter(chunk - 1, 1), enter(chunk, 1), enter(2 * chunk, 1)]);
        let before = table.load();
        table.change(vec![leave(chunk, 1), leave(0, 2)]);
        let after = table.load();
        let shared: Vec<_> = before.chunks.iter().zip(&after.chunks).map(|(old, new)| Arc::ptr_eq(old, new)).collect();
        assert_eq!(shared, [true, false, true]);
        assert_eq!(epochs(&table), [(0, 1), (chunk - 1, 1), (2 * chunk, 1)]);
        let from = |id| after.iter_from(SectionId(id)).map(|section| section.id.0).collect::<Vec<_>>();
        assert_eq!(from(0), [0, chunk - 1, 2 * chunk]);
        assert_eq!([from(1), from(chunk - 1)], [[chunk - 1, 2 * chunk]; 2]);
        assert!(from(2 * chunk + 1).is_empty() && from(9 * chunk).is_empty());
        assert!(after.get(SectionId(3 * chunk)).is_none(), "the set has no such section");
    }

    #[tokio::test]
    async fn a_waiter_of_a_section_is_notified_when_it_left() {
        let table = SectionTable::new(1);
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
        let table = SectionTable::new(1);
        table.change(vec![enter(0, 2)]);
        table.change(vec![enter(0, 1)]);
    }
}
