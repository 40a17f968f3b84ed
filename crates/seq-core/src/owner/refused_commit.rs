//! Decides how the source of a handover continues after the store refused to commit the handover.
//!
//! **Invariant:** a section is thawed only after a refusal that every repeat of the same request would get too. A
//! repeat may be in flight, and if the store committed it after the thaw, the section would have two owners.

use super::handover::Commit;
use crate::id::{Incarnation, NodeId};
use crate::state::{CommandRefusal, SetRefusal};

/// The meaning of a refused commit for the source of the handover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedCommit {
    /// The source's own incarnation is over.
    SessionOver,
    /// The target's incarnation is over or about to exit, so the store will also refuse every repeat of the request.
    TargetGone {
        /// The target's newest incarnation; 0 if the store knows no such node.
        current: Incarnation,
    },
    /// The store will also refuse every repeat of the request.
    Permanent,
    /// A later entry of the log may lift the refusal.
    Inconclusive,
    /// The source does not own the section any more.
    NotOwned,
    /// The store neither committed nor refused the handover in its log.
    Undecided,
}

impl RefusedCommit {
    /// Returns the meaning of a refusal. `target` is the next owner if it is in this set. It is `None` if the section
    /// departs to another set, because this set's log does not know that set's nodes.
    #[must_use]
    pub fn of(refusal: &CommandRefusal, target: Option<NodeId>) -> RefusedCommit {
        match refusal {
            CommandRefusal::OtherIncarnation { node, current, .. } if Some(*node) == target => {
                RefusedCommit::TargetGone { current: *current }
            }
            CommandRefusal::UnknownNode { node } if Some(*node) == target => {
                RefusedCommit::TargetGone { current: Incarnation(0) }
            }
            CommandRefusal::TargetLeaves { incarnation, .. } => RefusedCommit::TargetGone { current: *incarnation },
            CommandRefusal::ProcessDied { node, incarnation } if Some(*node) == target => {
                RefusedCommit::TargetGone { current: *incarnation }
            }
            CommandRefusal::OtherIncarnation { .. }
            | CommandRefusal::ProcessDied { .. }
            | CommandRefusal::UnknownNode { .. }
            | CommandRefusal::OtherRenewal { .. } => RefusedCommit::SessionOver,
            CommandRefusal::OtherOwnership { .. } | CommandRefusal::NotInSet { .. } => RefusedCommit::NotOwned,
            // The set is to be restored, and the node's next renewal reports it.
            CommandRefusal::StoreBehind { .. } | CommandRefusal::EntriesLost { .. } => RefusedCommit::Undecided,
            CommandRefusal::BetweenSets(refusal) => RefusedCommit::of_departure(refusal),
            // No commit is refused with these. Giving the section up is safe after any refusal.
            CommandRefusal::OtherSet { .. }
            | CommandRefusal::NoSet
            | CommandRefusal::TooManyNodes
            | CommandRefusal::TooManyMoved { .. }
            | CommandRefusal::UnknownName { .. }
            | CommandRefusal::OtherTerms { .. }
            | CommandRefusal::BadTerms { .. }
            | CommandRefusal::LeaseTooLong { .. }
            | CommandRefusal::OtherPredecessor { .. }
            | CommandRefusal::AuditTextTooLong { .. }
            | CommandRefusal::UnknownOperation { .. }
            | CommandRefusal::BadSeriesName { .. }
            | CommandRefusal::ShapeTooLong { .. }
            | CommandRefusal::SeriesExists { .. }
            | CommandRefusal::KeyspaceOfUidsExists { .. }
            | CommandRefusal::UnknownSeries { .. }
            | CommandRefusal::NotSeriesWriter { .. }
            | CommandRefusal::OtherSeries { .. }
            | CommandRefusal::Layout(_) => RefusedCommit::Inconclusive,
        }
    }

    fn of_departure(refusal: &SetRefusal) -> RefusedCommit {
        match refusal {
            // A migration that is over never opens again, and a set that closes never opens.
            SetRefusal::MigrationOver { .. } | SetRefusal::SetClosing { .. } => RefusedCommit::Permanent,
            // The log may know the migration by the time that a repeat is applied.
            SetRefusal::OtherMigration { .. } | SetRefusal::OldLineage { .. } => RefusedCommit::Inconclusive,
            // No departure is refused with these. Giving the section up is safe after any refusal.
            SetRefusal::OwnSet
            | SetRefusal::UnknownSet { .. }
            | SetRefusal::TooManySets
            | SetRefusal::OtherLayout { .. }
            | SetRefusal::OtherLineage { .. }
            | SetRefusal::FarLineage { .. }
            | SetRefusal::TooFewRestores { .. }
            | SetRefusal::WritesLayout { .. }
            | SetRefusal::LayoutNotTaken { .. }
            | SetRefusal::NotClosing { .. }
            | SetRefusal::InQuarantine { .. }
            | SetRefusal::AwaitsSection { .. }
            | SetRefusal::NameTaken { .. }
            | SetRefusal::NameChanged { .. }
            | SetRefusal::NotOfSender { .. }
            | SetRefusal::FarRevision { .. }
            | SetRefusal::BadRuns
            | SetRefusal::StalePlan { .. }
            | SetRefusal::NotEmpty { .. }
            | SetRefusal::MayReturn { .. }
            | SetRefusal::NotResident { .. }
            | SetRefusal::SectionMigrates { .. }
            | SetRefusal::NotArrived { .. }
            | SetRefusal::BadPace { .. }
            | SetRefusal::TooManyMigrations
            | SetRefusal::NotQuarantined
            | SetRefusal::NotResponded { .. }
            | SetRefusal::ClockNotNoted
            | SetRefusal::FenceNotApplied { .. }
            | SetRefusal::BadResponse { .. }
            | SetRefusal::BadEpoch { .. } => RefusedCommit::Inconclusive,
        }
    }

    /// Returns the outcome for [`Owner::on_committed`](super::Owner::on_committed); `None` if the source's incarnation
    /// is over.
    #[must_use]
    pub fn commit(self) -> Option<Commit> {
        match self {
            RefusedCommit::SessionOver => None,
            RefusedCommit::TargetGone { .. } | RefusedCommit::Permanent => Some(Commit::Refused),
            RefusedCommit::Inconclusive => Some(Commit::Inconclusive),
            RefusedCommit::NotOwned => Some(Commit::Lost),
            RefusedCommit::Undecided => Some(Commit::Unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Epoch, Lineage, MigrationId, RenewSeq, Revision, SectionId, SetId};
    use crate::state::Loss;

    const SOURCE: NodeId = NodeId(1);
    const TARGET: NodeId = NodeId(2);

    #[test]
    fn a_section_is_thawed_only_after_a_refusal_that_every_repeat_gets() {
        let (migration, set, lineage) = (MigrationId(7), SetId(2), Lineage(1));
        let rows = [
            (SetRefusal::MigrationOver { migration }, Commit::Refused),
            (SetRefusal::SetClosing { set }, Commit::Refused),
            (SetRefusal::OtherMigration { migration }, Commit::Inconclusive),
            (SetRefusal::OldLineage { set, newest: lineage, given: lineage }, Commit::Inconclusive),
            (SetRefusal::StalePlan { migration }, Commit::Inconclusive),
        ];
        for (refusal, commit) in rows {
            let meaning = RefusedCommit::of(&CommandRefusal::BetweenSets(refusal.clone()), None);
            assert_eq!(meaning.commit(), Some(commit), "{refusal}");
        }
    }

    #[test]
    fn refusals_of_the_target_and_of_the_source_are_told_apart() {
        let (current, given) = (Incarnation(4), Incarnation(3));
        let other = |node| CommandRefusal::OtherIncarnation { node, current, given };
        let (gone, unknown) = (RefusedCommit::TargetGone { current }, CommandRefusal::UnknownNode { node: TARGET });
        assert_eq!(RefusedCommit::of(&other(TARGET), Some(TARGET)), gone);
        assert_eq!(RefusedCommit::of(&other(SOURCE), Some(TARGET)), RefusedCommit::SessionOver);
        assert_eq!(RefusedCommit::of(&other(TARGET), None), RefusedCommit::SessionOver, "a node of the other set");
        let never_registered = RefusedCommit::TargetGone { current: Incarnation(0) };
        assert_eq!(RefusedCommit::of(&unknown, Some(TARGET)), never_registered);
        let leaves = CommandRefusal::TargetLeaves { node: TARGET, incarnation: current };
        assert_eq!(RefusedCommit::of(&leaves, Some(TARGET)), gone);
        let died = |node| CommandRefusal::ProcessDied { node, incarnation: current };
        assert_eq!(RefusedCommit::of(&died(TARGET), Some(TARGET)), gone);
        assert_eq!(RefusedCommit::of(&died(SOURCE), Some(TARGET)), RefusedCommit::SessionOver);
        let renewal = CommandRefusal::OtherRenewal { node: SOURCE, current: RenewSeq(2), given: RenewSeq(9) };
        assert_eq!(RefusedCommit::of(&renewal, Some(TARGET)), RefusedCommit::SessionOver);
        assert_eq!(RefusedCommit::SessionOver.commit(), None);
        assert_eq!(gone.commit(), Some(Commit::Refused));
    }

    #[test]
    fn an_ownership_that_is_over_is_lost_and_a_store_without_its_entries_decides_nothing() {
        let (section, current, given) = (SectionId(3), Epoch(9), Epoch(8));
        let other = CommandRefusal::OtherOwnership { section, current, from: SOURCE, given };
        assert_eq!(RefusedCommit::of(&other, Some(TARGET)).commit(), Some(Commit::Lost));
        let loss = Loss { node: "a1".into(), seen: Revision(5), noted: Revision(3) };
        let lost = CommandRefusal::EntriesLost { loss };
        assert_eq!(RefusedCommit::of(&lost, None).commit(), Some(Commit::Unknown));
    }
}
