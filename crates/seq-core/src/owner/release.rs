//! Releases of sections by a node that exits, and the starts of the next ownerships from exact copies. The store keeps
//! the copies in between.
//!
//! If a node is about to exit and no other node can take its sections, it freezes the sections a few at a time. Its
//! renewals carry the copy of each section to the store in parts. The renewal with the last part of a copy also
//! releases the section. A section that was frozen for its release is never thawed, because the store may already have
//! its copy. The grant of such a section to its next owner is marked, see [`Grant::copied`]. The next owner starts the
//! section when a response of the store has the copy. Until then calls for the section wait.
//!
//! **Invariant:** an ownership starts from a kept copy only if the store grants the ownership this copy, and only once,
//! because a section never enters twice under the same ownership. If the copy is missing or unusable, the ownership
//! starts at the ceiling.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{CopyLoss, Effect, Effects, Grant, Owner, TableEffect};
use crate::id::{Epoch, Revision, SectionId, Seq};
use crate::limits;
use crate::section::{AnyCopy, CopyMisfit};
use crate::state::CopyPart;

/// Maximum number of sections that are frozen for their release at the same time. It is limited because the copies of
/// these sections are in memory and their callers wait.
const MAX_PARTING: usize = 64;

/// Maximum number of ownerships that one renewal can note as started from their kept copies.
const MAX_TAKEN: usize = 256;

/// A copy that the store keeps for an ownership of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedCopy {
    /// The section.
    pub section: SectionId,
    /// Epoch of the ownership.
    pub epoch: Epoch,
    /// The highest number in the copy.
    pub highest: Seq,
    /// The encoded copy. If it is empty, every counter starts at the highest number.
    pub bytes: Arc<Vec<u8>>,
}

/// Sections whose copies are on their way from this node to the store, or from the store to this node.
#[derive(Debug, Default)]
pub(super) struct Releases {
    /// Sections that are frozen permanently, and still owned here.
    parting: BTreeMap<SectionId, Parting>,
    /// Grants whose copies this node does not have yet, each with the store's revision in the response that had the
    /// grant.
    arriving: BTreeMap<SectionId, (Grant, Revision)>,
    /// Ownerships that started from their kept copies, while the store still keeps these copies because no renewal has
    /// noted the start.
    taken: BTreeMap<SectionId, Epoch>,
}

#[derive(Debug)]
struct Parting {
    epoch: Epoch,
    highest: Seq,
    /// The encoded copy; `None` until the section is frozen.
    copy: Option<Vec<u8>>,
    /// Number of bytes of the copy that the store has.
    sent: usize,
}

impl Parting {
    fn is_sent(&self) -> bool {
        self.copy.as_ref().is_some_and(|copy| self.sent == copy.len())
    }
}

impl Releases {
    pub(super) fn is_parting(&self, section: SectionId) -> bool {
        self.parting.contains_key(&section)
    }

    pub(super) fn is_arriving(&self, section: SectionId) -> bool {
        self.arriving.contains_key(&section)
    }

    /// Returns whether the next response of the store may bring a copy from which a section starts, or confirm the
    /// release of a section.
    pub(super) fn expects_update(&self) -> bool {
        !self.parting.is_empty() || !self.arriving.is_empty() || !self.taken.is_empty()
    }

    pub(super) fn awaits_copies(&self) -> bool {
        !self.arriving.is_empty()
    }

    pub(super) fn remove(&mut self, section: SectionId) {
        self.parting.remove(&section);
    }

    /// Forgets the grants that still wait for a copy and for whose ownership `is_past` returns true, because a newer
    /// route has another ownership.
    pub(super) fn forget_past(&mut self, is_past: impl Fn(SectionId, Epoch) -> bool) {
        self.arriving.retain(|section, (grant, _)| !is_past(*section, grant.epoch));
    }

    /// Returns the parts of copies to send in the next renewal, and the ownerships whose copies the store has
    /// completely after this renewal.
    pub(super) fn parts(&self) -> (Vec<CopyPart>, Vec<(SectionId, Epoch)>) {
        let (mut parts, mut complete, mut room) = (Vec::new(), Vec::new(), limits::MAX_COPY_PART_BYTES);
        for (&section, parting) in &self.parting {
            let Parting { epoch, highest, copy: Some(copy), sent } = parting else { continue };
            let end = copy.len().min(sent + room);
            room -= end - sent;
            let (length, offset) = (copy.len() as u32, *sent as u32);
            let bytes = copy[*sent..end].to_vec();
            parts.push(CopyPart { section, epoch: *epoch, highest: *highest, length, offset, bytes });
            if end < copy.len() {
                break;
            }
            complete.push((section, *epoch));
        }
        (parts, complete)
    }

    /// Notes that the store has these parts.
    pub(super) fn on_sent(&mut self, parts: &[CopyPart]) {
        for part in parts {
            if let Some(parting) = self.parting.get_mut(&part.section)
                && (parting.epoch, parting.sent) == (part.epoch, part.offset as usize)
            {
                parting.sent += part.bytes.len();
            }
        }
    }

    /// Returns whether the store has the whole copy of a section that is frozen under this ownership.
    pub(super) fn is_sent(&self, section: SectionId, epoch: Epoch) -> bool {
        self.parting.get(&section).is_some_and(|parting| parting.epoch == epoch && parting.is_sent())
    }

    pub(super) fn taken(&self) -> Vec<(SectionId, Epoch)> {
        self.taken.iter().take(MAX_TAKEN).map(|(section, epoch)| (*section, *epoch)).collect()
    }

    pub(super) fn on_taken_noted(&mut self, noted: &[(SectionId, Epoch)]) {
        for (section, epoch) in noted {
            if self.taken.get(section) == Some(epoch) {
                self.taken.remove(section);
            }
        }
    }
}

impl Owner {
    /// Adds effects that freeze owned sections for their release, because no other node can take them. At most
    /// [`MAX_PARTING`] sections are frozen at the same time.
    pub(super) fn part(&mut self, effects: &mut Effects) {
        let room = MAX_PARTING - self.releases.parting.len().min(MAX_PARTING);
        let idle =
            |(section, _): &(SectionId, Epoch)| !self.outgoing.has(*section) && !self.releases.is_parting(*section);
        let next: Vec<_> = self.owned().filter(idle).take(room).collect();
        for (section, epoch) in next {
            let parting = Parting { epoch, highest: Seq::ZERO, copy: None, sent: 0 };
            self.releases.parting.insert(section, parting);
            effects.push(TableEffect::Freeze { section, epoch }.into());
        }
        if !self.releases.parting.is_empty() {
            effects.push(Effect::RenewNow);
        }
    }

    /// Keeps the copy of a section that the caller has frozen for its release. If the copy is too large for the store,
    /// only its highest number is kept.
    pub fn on_frozen(&mut self, section: SectionId, epoch: Epoch, copy: &AnyCopy) {
        let counters = self.layout.counters_of(section);
        let parting = self.releases.parting.get_mut(&section).filter(|parting| parting.epoch == epoch);
        let (Some(parting), Ok(highest)) = (parting, copy.check(counters)) else { return };
        let bytes = copy.encode();
        parting.highest = highest;
        parting.copy = Some(if bytes.len() <= limits::MAX_KEPT_COPY_BYTES { bytes } else { Vec::new() });
    }

    /// Keeps a grant until a response of the store has its copy.
    pub(super) fn await_copy(&mut self, grant: &Grant, revision: Revision) {
        self.releases.arriving.insert(grant.section, (*grant, revision));
    }

    /// Starts the granted sections whose copies are in `copies`, which are from a response of the store. `revision` is
    /// the revision of the response. If `copies` is empty, the store keeps no copies for this node, so all waiting
    /// sections that were granted up to this revision start at their ceilings.
    pub(super) fn start_from_copies(&mut self, copies: &[GrantedCopy], revision: Revision, effects: &mut Effects) {
        for copy in copies {
            let is_of = |(grant, _): &&(Grant, Revision)| grant.epoch == copy.epoch;
            let Some((grant, _)) = self.releases.arriving.get(&copy.section).filter(is_of).copied() else { continue };
            self.releases.arriving.remove(&copy.section);
            self.releases.taken.insert(copy.section, copy.epoch);
            let exact = self.read_copy(copy, grant.ceiling).map(Some);
            self.start(&grant, exact, effects);
        }
        if copies.is_empty() {
            let lost = |(_, since): &(Grant, Revision)| *since <= revision;
            let gone: Vec<_> =
                self.releases.arriving.values().filter(|one| lost(one)).map(|(grant, _)| *grant).collect();
            for grant in gone {
                self.releases.arriving.remove(&grant.section);
                self.start(&grant, Err(CopyLoss::Missing), effects);
            }
        }
    }

    fn read_copy(&self, granted: &GrantedCopy, ceiling: Seq) -> Result<AnyCopy, CopyLoss> {
        let counters = self.layout.counters_of(granted.section);
        let copy = match granted.bytes.as_slice() {
            [] => AnyCopy::above(granted.highest, counters),
            bytes => AnyCopy::decode(bytes, counters).ok_or(CopyLoss::Unreadable)?,
        };
        let highest = copy.check(counters)?;
        if highest > ceiling {
            return Err(CopyMisfit::AboveCeiling { highest, ceiling }.into());
        }
        Ok(copy)
    }
}
