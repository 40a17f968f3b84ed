//! Memory of the counters of keys, and the growth of a bucket that has no room for another key.
//!
//! **Invariant:** a bucket is replaced under the same ownership only while no handover and no release has frozen it, or
//! is about to freeze it. Otherwise the next owner could start from the copy of a section that this node continues.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use seq_core::{Epoch, SectionId, Seq, limits};

use super::table::Change;
use super::{OwnedSection, Ownership};

/// Number of keys for which the buckets of this node have room.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyRoom(Arc<AtomicU64>);

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
        self.0.fetch_add(keys, Relaxed);
        HeldRoom { all: self.clone(), keys }
    }

    /// Returns the number of keys for which there is room.
    fn keys(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Drop for HeldRoom {
    fn drop(&mut self) {
        self.all.0.fetch_sub(self.keys, Relaxed);
    }
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
        // The larger table has room for half as many keys again, and for a few in any case.
        let more = u64::from(full.uids()) / 2 + 7;
        if full.uids() as usize >= limits::MAX_BUCKET_KEYS || self.room.keys() + more > most {
            return Err(NoRoom);
        }
        let grown = full.grown(&self.room, self.clock.now().boottime);
        self.sections.change(grown.map(Change::Enter).into_iter().collect());
        drop(machine);
        Ok(())
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
