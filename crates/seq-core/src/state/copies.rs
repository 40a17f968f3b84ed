//! Kept copies: the exact numbers of a section whose last owner stopped in an orderly way, kept by the store for the
//! next ownership of the section.
//!
//! If an AllocSvr stops while no other AllocSvr can take its sections, it freezes each section permanently and sends
//! the copy to the store in parts, with its renewals; then it releases the section. The next ownership starts from the
//! copy instead of the ceiling, so that a restart of a whole set skips no number.
//!
//! **Invariant:** the section of a kept copy is frozen, and exactly one ownership, the next, starts from the copy. Any
//! other change of the section's record removes the copy ([`Copies::follow`]), so that no later ownership starts from
//! an old copy. A section without a complete copy starts at its ceiling.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::State;
use super::record::SectionRecord;
use crate::id::{Epoch, HandoverId, Incarnation, NodeId, SectionId, Seq};
use crate::limits;

/// A part of the copy of a frozen section, from its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyPart {
    /// The section.
    pub section: SectionId,
    /// Epoch of the ownership that has frozen the section.
    pub epoch: Epoch,
    /// The highest number in the copy.
    pub highest: Seq,
    /// Length of the whole copy in bytes, up to [`limits::MAX_KEPT_COPY_BYTES`]. 0 if only the highest number is sent,
    /// at which the next ownership starts then.
    pub length: u32,
    /// Offset of the part in the copy, in bytes. A part with offset 0 replaces all parts received before.
    pub offset: u32,
    /// Bytes of the part.
    pub bytes: Vec<u8>,
}

/// The ownership for which a copy is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptFor {
    /// The next ownership after the ownership with this epoch, which has frozen the section.
    After(Epoch),
    /// The ownership with this epoch, which has begun.
    Granted(Epoch),
}

/// The copy of a section that the store keeps.
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

    /// Creates the copies of a decoded state; `None` if they break an invariant.
    #[must_use]
    pub fn from_parts(kept: BTreeMap<SectionId, KeptCopy>) -> Option<Copies> {
        let fits = |one: &KeptCopy| {
            one.length as usize <= limits::MAX_KEPT_COPY_BYTES && one.bytes.len() <= one.length as usize
        };
        let bytes = kept.values().map(|one| u64::from(one.length)).sum();
        (kept.values().all(fits) && bytes <= limits::MAX_KEPT_BYTES).then_some(Copies { kept, bytes })
    }

    /// Returns whether an ownership starts from a kept copy.
    #[must_use]
    pub fn is_granted(&self, section: SectionId, epoch: Epoch) -> bool {
        self.kept.get(&section).is_some_and(|kept| kept.kept_for == KeptFor::Granted(epoch))
    }

    /// Returns the complete copy that the owner before left for the next ownership of a section.
    pub(super) fn left(&self, section: SectionId) -> Option<&KeptCopy> {
        let kept = self.kept.get(&section)?;
        (kept.is_complete() && matches!(kept.kept_for, KeptFor::After(_))).then_some(kept)
    }

    /// Keeps a part of a copy. A part after offset 0 that does not begin where the kept parts end is a repeat, and
    /// changes nothing.
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

    /// Removes the copy that is kept for an ownership, because the ownership has started, from the copy or from the
    /// ceiling, and no later ownership may start from the copy.
    pub(super) fn on_started(&mut self, section: SectionId, epoch: Epoch) {
        if self.is_granted(section, epoch) {
            self.remove(section);
        }
    }

    /// Keeps or removes the copy of a section after a change of the section's record: the copy stays only if it is
    /// still meant for the next ownership, or for the ownership that has just begun.
    pub(super) fn follow(&mut self, section: SectionId, record: &SectionRecord) {
        let Some(kept) = self.kept.get_mut(&section) else { return };
        let complete = kept.is_complete();
        let stays = record.resident().and_then(|record| match kept.kept_for {
            KeptFor::After(epoch) if record.epoch == epoch => Some(kept.kept_for),
            KeptFor::After(_) if record.owner.is_none() && complete => Some(kept.kept_for),
            // An ownership that a handover begins has the copy of that handover.
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
    /// Returns the kept copies that an incarnation's ownerships start from, in order of section.
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

    /// Removes copies that ownerships have started from.
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
