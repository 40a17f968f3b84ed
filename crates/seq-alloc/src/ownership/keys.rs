//! Memory of the counters of keys, the growth of a bucket that has no room for another key, and eviction.
//!
//! **Invariant:** a bucket is replaced under the same ownership only while no handover and no release has frozen it, or
//! is about to freeze it. Otherwise the next owner could start from the copy of a section that this node continues.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use seq_core::section::Keep;
use seq_core::{Epoch, SectionId, Seq, limits};

use super::table::Change;
use super::{OwnedSection, Ownership};

/// Room of all buckets of this node.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyRoom(Arc<Room>);

#[derive(Debug, Default)]
struct Room {
    /// Number of keys for which the buckets have room.
    keys: AtomicU64,
    /// Whether this node had no room for a bucket since the last call of [`Ownership::was_room_refused`]. A bucket that
    /// has as many keys as a bucket may have does not count, because other buckets cannot make room for it.
    was_refused: AtomicBool,
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

/// Returns whether `keys` are more than 90 % of `most`.
fn crowds(keys: u64, most: u64) -> bool {
    u128::from(keys) * 10 > u128::from(most) * 9
}

/// Refusal of a bucket to grow, because it or this node has as many keys as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRoom;

impl Ownership {
    /// Replaces a bucket that has no room for another key by one with more room, under the same ownership. Does nothing
    /// if the bucket was replaced already, has left, or is frozen for the next owner: calls for it wait then until it
    /// is thawed or leaves. The buckets of this node grow only while they have room for fewer than `most` keys.
    ///
    /// # Errors
    /// [`NoRoom`].
    pub(crate) fn grow(&self, full: &Arc<OwnedSection>, most: u64) -> Result<(), NoRoom> {
        let machine = self.machine.lock();
        if !self.sections.load().has(full) || machine.is_frozen(full.id) {
            return Ok(());
        }
        if full.uids() as usize >= limits::MAX_BUCKET_KEYS {
            return Err(NoRoom);
        }
        // The larger table has room for half as many keys again, and for a few in any case.
        let more = u64::from(full.uids()) / 2 + 7;
        if self.room.keys() + more > most {
            self.room.0.was_refused.store(true, Relaxed);
            return Err(NoRoom);
        }
        self.rebuild(full, Keep::All);
        drop(machine);
        Ok(())
    }

    /// Evicts the counters of a bucket that no call has used since the last call of this function, under the same
    /// ownership, and returns their number. Does nothing if this node does not own the bucket, if the bucket is frozen
    /// for the next owner, or if neither the bucket nor this node, which may have room for `most` keys, is crowded.
    pub(crate) fn evict(&self, bucket: SectionId, most: u64) -> usize {
        let machine = self.machine.lock();
        let owned = self.sections.load().get(bucket).cloned();
        let is_crowded = |owned: &Arc<OwnedSection>| {
            crowds(self.room.keys(), most) || crowds(owned.uids().into(), limits::MAX_BUCKET_KEYS as u64)
        };
        // A bucket without counters has no room either.
        let owned = owned.filter(|owned| owned.has_keys() && owned.uids() > 0 && !machine.is_frozen(bucket));
        let evicted = owned.filter(is_crowded).map_or(0, |owned| self.rebuild(&owned, Keep::Recent));
        drop(machine);
        evicted
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

    /// Returns whether this node had no room for a bucket since the last call.
    pub(crate) fn was_room_refused(&self) -> bool {
        self.room.0.was_refused.swap(false, Relaxed)
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
