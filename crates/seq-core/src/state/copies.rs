//! Kept copies. A kept copy has the exact counters of a section whose last owner stopped in an orderly way. The store
//! keeps it for the next ownership of the section.
//!
//! If an AllocSvr stops while no other AllocSvr can take its sections, it freezes each section permanently, sends the
//! copy to the store in parts, together with its renewals, and then releases the section. The next ownership starts
//! from the copy instead of the ceiling, so that a restart of a whole set skips no number.
//!
//! **Invariant:** the section of a kept copy is frozen, and only the next ownership can start from the copy. If the
//! section's record changes in any way that does not lead to this ownership, the copy is removed ([`Copies::follow`]),
//! so that no later ownership starts from an old copy. If there is no complete copy, the next ownership starts at the
//! ceiling.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::State;
use super::record::SectionRecord;
use crate::id::{Epoch, HandoverId, Incarnation, NodeId, SectionId, Seq};
use crate::limits;

/// A part of the exact copy of a frozen section. The section's owner sends the parts to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyPart {
    /// The section.
    pub section: SectionId,
    /// Epoch of the ownership that has frozen the section.
    pub epoch: Epoch,
    /// The highest number in the copy.
    pub highest: Seq,
    /// Length of the whole copy in bytes, up to [`limits::MAX_KEPT_COPY_BYTES`]. 0 if the owner sends only the highest
    /// number, in which case every uid continues after that number in the next ownership.
    pub length: u32,
    /// Offset of the part in the whole copy, in bytes. A part with offset 0 replaces all parts of the section that were
    /// received before.
    pub offset: u32,
    /// Bytes of the part.
    pub bytes: Vec<u8>,
}

/// The ownership for which a copy is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptFor {
    /// For the ownership that will follow the ownership with this epoch. The owner under this epoch has frozen the
    /// section.
    After(Epoch),
    /// For the ownership with this epoch, which has begun.
    Granted(Epoch),
}

/// The exact copy of a section that the store keeps for the section's next ownership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptCopy {
    /// The ownership that starts from the copy.
    pub kept_for: KeptFor,
    /// The highest number in the copy.
    pub highest: Seq,
    /// Length of the whole copy in bytes; 0 if only its highest number is kept.
    pub length: u32,
    /// The parts received so far. Invariant: no longer than `length`.
    pub bytes: Arc<Vec<u8>>,
}

impl KeptCopy {
    /// Returns whether all parts are here.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.bytes.len() == self.length as usize
    }
}

/// The kept copies of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    kept: BTreeMap<SectionId, KeptCopy>,
    /// Sum of the lengths. Invariant: up to [`limits::MAX_KEPT_BYTES`].
    bytes: u64,
}

impl Copies {
    /// Returns the kept copies, in order of section.
    pub fn iter(&self) -> impl Iterator<Item = (SectionId, &KeptCopy)> {
        self.kept.iter().map(|(section, kept)| (*section, kept))
    }

    /// Creates the kept copies of a state that is being decoded; `None` if they break an invariant of this type.
    #[must_use]
    pub fn from_parts(kept: BTreeMap<SectionId, KeptCopy>) -> Option<Copies> {
        let fits = |one: &KeptCopy| {
            one.length as usize <= limits::MAX_KEPT_COPY_BYTES && one.bytes.len() <= one.length as usize
        };
        let bytes = kept.values().map(|one| u64::from(one.length)).sum();
        (kept.values().all(fits) && bytes <= limits::MAX_KEPT_BYTES).then_some(Copies { kept, bytes })
    }

    /// Returns whether the ownership of a section under this epoch starts from a kept copy.
    #[must_use]
    pub fn is_granted(&self, section: SectionId, epoch: Epoch) -> bool {
        self.kept.get(&section).is_some_and(|kept| kept.kept_for == KeptFor::Granted(epoch))
    }

    /// Returns the copy that the last owner of a section left for the next ownership; `None` if there is no copy, it is
    /// not complete, or the next ownership has begun.
    pub(super) fn left(&self, section: SectionId) -> Option<&KeptCopy> {
        let kept = self.kept.get(&section)?;
        (kept.is_complete() && matches!(kept.kept_for, KeptFor::After(_))).then_some(kept)
    }

    /// Keeps a part of the copy of a section. A part with offset 0 begins a new copy. Any other part that does not
    /// begin where the kept parts end is a repeat, and changes nothing.
    fn keep(&mut self, part: &CopyPart) {
        let CopyPart { section, epoch, highest, length, offset, ref bytes } = *part;
        let kept_for = KeptFor::After(epoch);
        if offset == 0 {
            self.remove(section);
            let fits = length as usize <= limits::MAX_KEPT_COPY_BYTES
                && self.bytes + u64::from(length) <= limits::MAX_KEPT_BYTES;
            let length = if fits { length } else { 0 };
            self.bytes += u64::from(length);
            self.kept.insert(section, KeptCopy { kept_for, highest, length, bytes: Arc::default() });
        }
        let Some(kept) = self.kept.get_mut(&section) else { return };
        let continues = (kept.kept_for, kept.length, kept.bytes.len()) == (kept_for, length, offset as usize);
        if continues && bytes.len() <= length as usize - kept.bytes.len() {
            Arc::make_mut(&mut kept.bytes).extend_from_slice(bytes);
        }
    }

    /// Removes the copy that is kept for the ownership under this epoch. This ownership has started, either from the
    /// copy or at the ceiling, so no later ownership may start from the copy.
    pub(super) fn on_started(&mut self, section: SectionId, epoch: Epoch) {
        if self.is_granted(section, epoch) {
            self.remove(section);
        }
    }

    /// Updates the kept copy of a section after the section's record has changed to `record`. The copy stays only if it
    /// is still for the next ownership, or for the ownership that has just begun. Otherwise it is removed.
    pub(super) fn follow(&mut self, section: SectionId, record: &SectionRecord) {
        let Some(kept) = self.kept.get_mut(&section) else { return };
        let complete = kept.is_complete();
        let stays = record.resident().and_then(|record| match kept.kept_for {
            KeptFor::After(epoch) if record.epoch == epoch => Some(kept.kept_for),
            KeptFor::After(_) if record.owner.is_none() && complete => Some(kept.kept_for),
            // An ownership that begins by a handover starts from the copy of that handover.
            KeptFor::After(_) if record.owner.is_some() && record.handover_id == HandoverId(0) && complete => {
                Some(KeptFor::Granted(record.epoch))
            }
            KeptFor::Granted(epoch) if record.epoch == epoch => Some(kept.kept_for),
            KeptFor::After(_) | KeptFor::Granted(_) => None,
        });
        match stays {
            Some(kept_for) => kept.kept_for = kept_for,
            None => self.remove(section),
        }
    }

    fn remove(&mut self, section: SectionId) {
        if let Some(removed) = self.kept.remove(&section) {
            self.bytes -= u64::from(removed.length);
        }
    }
}

impl State {
    /// Returns the kept copies from which present ownerships of this incarnation start, in ascending order of section.
    pub fn copies_for(
        &self,
        node: NodeId,
        incarnation: Incarnation,
    ) -> impl Iterator<Item = (SectionId, Epoch, &KeptCopy)> {
        self.copies.iter().filter_map(move |(section, kept)| match kept.kept_for {
            KeptFor::Granted(epoch) => {
                self.owned_under(node, incarnation, section, epoch).map(|_| (section, epoch, kept))
            }
            KeptFor::After(_) => None,
        })
    }

    pub(super) fn keep_copies(&mut self, node: NodeId, incarnation: Incarnation, parts: &[CopyPart]) {
        for part in parts {
            if self.owned_under(node, incarnation, part.section, part.epoch).is_some() {
                self.copies.keep(part);
            }
        }
    }

    /// Removes the kept copies of the ownerships in `taken`, which have started from them.
    pub(super) fn drop_taken(&mut self, node: NodeId, incarnation: Incarnation, taken: &[(SectionId, Epoch)]) {
        for &(section, epoch) in taken {
            if self.owned_under(node, incarnation, section, epoch).is_some() {
                self.copies.on_started(section, epoch);
            }
        }
    }
}

#[cfg(test)]
mod tests;
