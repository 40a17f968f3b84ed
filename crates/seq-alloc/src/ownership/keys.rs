//! Memory of the counters of keys, the growth of a bucket that has no room for another key, and eviction.
//!
//! **Invariant:** a bucket is replaced under the same ownership only while no handover and no release has frozen it, or
//! is about to freeze it. Otherwise the next owner could start from the copy of a section that this node continues.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use seq_core::key_room::{KeyBound, NoRoom, Rounds};
use seq_core::section::Keep;
use seq_core::{Epoch, SectionId, Seq};

use super::table::Change;
use super::{OwnedSection, Ownership};

/// Room of all buckets of this node.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyRoom(Arc<Room>);

#[derive(Debug, Default)]
struct Room {
    /// Number of keys for which the buckets have room.
    keys: AtomicU64,
    /// Rounds of evictions of this node.
    rounds: Mutex<Rounds>,
}

/// Room of one bucket, which is free again when the bucket is dropped.
#[derive(Debug)]
pub(crate) struct HeldRoom {
    all: KeyRoom,
    keys: u64,
}

impl KeyRoom {
    /// Counts the room of a bucket. A bucket that is handed over to this node is counted even if there is no room for
    /// it, because its keys would have gaps otherwise.
    pub(super) fn hold(&self, keys: usize) -> HeldRoom {
        let keys = keys as u64;
        self.0.keys.fetch_add(keys, Relaxed);
        HeldRoom { all: self.clone(), keys }
    }

    /// Returns the number of keys for which there is room.
    fn keys(&self) -> u64 {
        self.0.keys.load(Relaxed)
    }
}

impl Drop for HeldRoom {
    fn drop(&mut self) {
        self.all.0.keys.fetch_sub(self.keys, Relaxed);
    }
}

impl Ownership {
    /// Replaces a bucket that has no room for another key by one with more room, under the same ownership. Does nothing
    /// if the bucket was replaced already, has left, or is frozen for the next owner: calls for it wait then until it
    /// is thawed or leaves.
    ///
    /// # Errors
    /// [`NoRoom`].
    pub(crate) fn grow(&self, full: &Arc<OwnedSection>, bound: KeyBound) -> Result<(), NoRoom> {
        let machine = self.machine.lock();
        if self.sections.load().has(full) && !machine.is_frozen(full.id) {
            bound
                .grow(full.uids(), self.room.keys())
                .inspect_err(|refusal| self.room.0.rounds.lock().note(*refusal))?;
            self.rebuild(full, Keep::All);
        }
        drop(machine);
        Ok(())
    }

    /// Evicts the counters of a bucket that no call has used since the last call of this function, under the same
    /// ownership, and returns their number. Does nothing if this node does not own the bucket, if the bucket is frozen
    /// for the next owner, or if neither the bucket nor this node is crowded.
    pub(crate) fn evict(&self, bucket: SectionId, bound: KeyBound) -> usize {
        let machine = self.machine.lock();
        let owned = self.sections.load().get(bucket).filter(|owned| owned.has_keys()).cloned();
        let rounds = *self.room.0.rounds.lock();
        let evicts = |owned: &Arc<OwnedSection>| bound.evicts(owned.uids(), self.room.keys(), rounds);
        let owned = owned.filter(|owned| !machine.is_frozen(bucket) && evicts(owned));
        let evicted = owned.map_or(0, |owned| self.rebuild(&owned, Keep::Recent));
        drop(machine);
        evicted
    }

    /// Begins the next round of evictions.
    pub(crate) fn next_round(&self) {
        self.room.0.rounds.lock().next();
    }

    /// Replaces a bucket of the table, and returns the number of evicted counters. The caller holds the lock of the
    /// state machine.
    fn rebuild(&self, bucket: &OwnedSection, keep: Keep) -> usize {
        let rebuilt = bucket.rebuilt(keep, &self.room, self.clock.now().boottime);
        let Some((section, evicted)) = rebuilt else { return 0 };
        self.sections.change(vec![Change::Enter(section)]);
        evicted
    }

    /// Returns the buckets of this node, in ascending order.
    pub(crate) fn buckets(&self) -> Vec<SectionId> {
        self.sections.load().iter().filter(|owned| owned.has_keys()).map(|owned| owned.id).collect()
    }

    /// Returns the number of keys for which the buckets of this node have room.
    pub(crate) fn key_room(&self) -> u64 {
        self.room.keys()
    }

    /// Adopts ceilings that the store committed for buckets, of which some may have been replaced since the raises were
    /// requested.
    pub(crate) fn adopt_ceilings(&self, raised: impl IntoIterator<Item = ((SectionId, Epoch), Seq)>) {
        let machine = self.machine.lock();
        let table = self.sections.load();
        for ((section, epoch), committed) in raised {
            if let Some(owned) = table.get(section).filter(|owned| owned.epoch == epoch && owned.has_keys()) {
                owned.adopt_ceiling(committed);
            }
        }
        drop(machine);
    }
}
