//! The record of a section in one set's log, and the functions that check and make every change of a record.
//!
//! **Invariant:** a record is never removed. The *fence* of a record is the highest epoch under which this log ever saw
//! the section. It never falls, so a late message with an earlier epoch is below the fence and changes nothing.

use super::beginning::Beginning;
use crate::id::{Epoch, HandoverId, Incarnation, Lineage, MigrationId, NodeId, RouteVersion, Seq, SetId};

/// The record of a section in one set's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SectionRecord {
    /// The section was never in this set. Its fence is 0.
    #[default]
    Never,
    /// The section is in this set, whose log alone assigns its owners.
    Resident(Residence),
    /// The section departed to another set. Usually this log has the entry of the departure. If the section departed
    /// from a third set, or if a restore has lost the entry, this log has learned of the departure from other sets. A
    /// tombstone cannot be taken back. The section returns only if it departs from the set that has it now.
    Departed(Tombstone),
    /// The section is in this set according to the backup from which this set was restored. It may have departed after
    /// the backup was made, so it is not served until every other set has responded.
    Quarantined(Quarantine),
}

/// The record of a section that is in this set. The default is a section that never had an owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residence {
    /// The epoch under which the section arrived in this set; 0 if it began in this set.
    pub since: Epoch,
    /// Epoch of the ownership; never falls.
    pub epoch: Epoch,
    /// The owner; `None` while the section has none.
    pub owner: Option<NodeId>,
    /// The incarnation of the owner that owns the section; 0 without an owner.
    pub incarnation: Incarnation,
    /// The ceiling: no number above it may leave an owner's process. It never falls.
    pub max_seq: Seq,
    /// Version of the route table that last changed the section's owner.
    pub routed: RouteVersion,
    /// The handover attempt that began this ownership; 0 if the ownership did not begin by a handover.
    pub handover_id: HandoverId,
    /// The migration that brought the section to this set, if it can still be rolled back; 0 for none.
    pub came_by: MigrationId,
    /// The beginning of the ownership, or of the last ownership while the section has no owner.
    pub began: Beginning,
}

/// The record of a section that departed to another set. The section is on its way there, or has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// The epoch that begins in the other set.
    pub epoch: Epoch,
    /// The set and the owner with which the section continues.
    pub to: Destination,
    /// The handover attempt whose copy the next owner may start from; 0 if the next owner must start at the ceiling.
    pub handover_id: HandoverId,
    /// The ceiling when the section departed. If this log has learned of the departure from another set, it may be a
    /// later ceiling of the section.
    pub max_seq: Seq,
    /// The migration by which the section departed; 0 if there was none, or none that can be rolled back.
    pub by: MigrationId,
    /// Whether the other set has confirmed that its log has the arrival, or the section under a later epoch. If the
    /// other set is restored, this becomes false again, because its backup may lack the arrival. Then only this
    /// tombstone can bring the section to that set again.
    pub arrived: bool,
    /// Version of the route table that has the departure.
    pub routed: RouteVersion,
}

/// The set to which a section departs, and the section's next owner in that set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The set.
    pub set: SetId,
    /// Lineage in which the target set confirmed that it can take the section.
    pub lineage: Lineage,
    /// The next owner; `None` if the other set is to assign one.
    pub node: Option<NodeId>,
    /// The next owner's incarnation; 0 without an owner.
    pub incarnation: Incarnation,
}

/// The record of a section that was resident in the backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quarantine {
    /// The epoch under which the section arrived in this set; 0 if it began in this set.
    pub since: Epoch,
    /// The last epoch in the backup.
    pub epoch: Epoch,
    /// The ceiling in the backup.
    pub max_seq: Seq,
    /// The migration that brought the section to this set, if it can still be rolled back; 0 for none.
    pub came_by: MigrationId,
    /// Version of the route table that has the restore.
    pub routed: RouteVersion,
}

impl SectionRecord {
    /// Returns the highest epoch under which this log ever saw the section; 0 for none.
    #[must_use]
    pub fn fence(&self) -> Epoch {
        match self {
            SectionRecord::Never => Epoch(0),
            SectionRecord::Resident(residence) => residence.epoch,
            SectionRecord::Departed(tombstone) => tombstone.epoch,
            SectionRecord::Quarantined(quarantine) => quarantine.epoch,
        }
    }

    /// Returns the residence if the section is in this set and not in quarantine, so that it may have an owner;
    /// otherwise `None`.
    #[must_use]
    pub fn resident(&self) -> Option<&Residence> {
        if let SectionRecord::Resident(residence) = self { Some(residence) } else { None }
    }

    /// Returns the version of the route table that last changed the section's route; 0 if none did.
    #[must_use]
    pub fn routed(&self) -> RouteVersion {
        match self {
            SectionRecord::Never => RouteVersion(0),
            SectionRecord::Resident(residence) => residence.routed,
            SectionRecord::Departed(tombstone) => tombstone.routed,
            SectionRecord::Quarantined(quarantine) => quarantine.routed,
        }
    }

    /// Returns the ceiling in the record; 0 if it has none.
    #[must_use]
    pub fn max_seq(&self) -> Seq {
        match self {
            SectionRecord::Never => Seq::ZERO,
            SectionRecord::Resident(residence) => residence.max_seq,
            SectionRecord::Departed(tombstone) => tombstone.max_seq,
            SectionRecord::Quarantined(quarantine) => quarantine.max_seq,
        }
    }

    /// Returns whether the section departed, and the other set has not confirmed its arrival yet.
    #[must_use]
    pub fn is_unconfirmed(&self) -> bool {
        matches!(self, SectionRecord::Departed(tombstone) if !tombstone.arrived)
    }

    /// Replaces the record by `next`, after it has checked that `next` may follow the present record.
    ///
    /// # Panics
    /// When an epoch or a ceiling would fall, or the section could be in two sets.
    pub(super) fn advance(&mut self, next: SectionRecord) {
        use SectionRecord::{Departed, Never, Quarantined, Resident};
        let (before, fence) = (*self, self.fence());
        assert!(next.fence() >= fence, "a fence would fall: {before:?} to {next:?}");
        let follows = match (&before, &next) {
            (Never, Resident(_)) => true,
            (Resident(old), Resident(new)) => {
                old.check(new);
                true
            }
            (Resident(old), Departed(new)) => new.epoch > fence && new.max_seq == old.max_seq && !new.arrived,
            (Resident(old), Quarantined(new)) => (new.epoch, new.max_seq) == (fence, old.max_seq),
            // The section returns only under a new epoch, and never below the ceiling that it had here.
            (Departed(_) | Quarantined(_), Resident(new)) => new.epoch > fence && new.max_seq >= before.max_seq(),
            (Departed(old), Departed(new)) if new.epoch == fence => Tombstone { arrived: new.arrived, ..*old } == *new,
            // The section left this set in entries that a restore has lost.
            (Never | Departed(_) | Quarantined(_), Departed(new)) => {
                new.epoch > fence && new.max_seq >= before.max_seq()
            }
            _ => false,
        };
        assert!(follows, "a record does not continue the one before: {before:?} to {next:?}");
        *self = next;
    }
}

impl Residence {
    /// Returns the beginning of the present ownership; `None` if the section has no owner, or if the ownership began
    /// before the store kept beginnings.
    #[must_use]
    pub fn beginning(&self) -> Option<Beginning> {
        (self.owner.is_some() && self.began != Beginning::default()).then_some(self.began)
    }

    /// Checks that `next` may follow this residence while the section stays in the set.
    fn check(&self, next: &Residence) {
        assert!(next.max_seq >= self.max_seq, "a ceiling would fall: {self:?} to {next:?}");
        let same_ownership = (next.owner, next.incarnation) == (self.owner, self.incarnation);
        let epoch_holds = if same_ownership { next.epoch >= self.epoch } else { next.epoch > self.epoch };
        assert!(epoch_holds, "an ownership would not get an epoch of its own: {self:?} to {next:?}");
        let stays = next.since == self.since && (next.came_by == self.came_by || next.came_by == MigrationId(0));
        assert!(stays, "a section would have come here another way: {self:?} to {next:?}");
    }

    /// Replaces this residence by a later residence in the same set, with the same checks as
    /// [`SectionRecord::advance`].
    pub(super) fn advance(&mut self, next: Residence) {
        self.check(&next);
        *self = next;
    }
}
