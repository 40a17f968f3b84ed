//! Decodes refusals: converts the reason and the other fields on the wire back to the refusal that the server had
//! encoded.
//!
//! **Invariant:** for each kind of request, every [`Reason`] is listed here once, and the code does not compile while a
//! new reason is not listed. A refusal after which the outcome is unknown is never decoded to a refusal that changed
//! nothing.

use std::ops::Range;

use seq_core::calls::MAX_PENDING;
use seq_core::owner::handover::Handover;
use seq_core::owner::refused_commit::RefusedCommit;
use seq_core::state::{CommandRefusal, SetRefusal};
use seq_core::{Epoch, Incarnation, Lineage, NodeId, Refusal, RenewSeq, SectionId, Seq, SetId, Uid};

use crate::reason::Reason;

/// A refusal to commit a handover, as the store sent it.
#[derive(Clone, Copy, Debug)]
pub struct RefusedHandover<'a> {
    /// The handover.
    pub handover: &'a Handover,
    /// Name of the reason.
    pub reason: &'a str,
    /// The number of the incarnation or renewal that the store has on record, if the refusal states it; otherwise 0.
    pub current: u64,
}

impl RefusedHandover<'_> {
    /// Returns the consequence of the refusal for the source of the handover.
    #[must_use]
    pub fn meaning(&self) -> RefusedCommit {
        let target = self.handover.target_here();
        match self.refusal() {
            Some(refusal) => RefusedCommit::of(&refusal, target),
            None => RefusedCommit::Undecided,
        }
    }

    /// Decodes the refusal of the command that commits the handover; `None` if the command may have been applied, or
    /// may still be applied. Fields of the refusal that the wire does not carry are set to 0.
    fn refusal(&self) -> Option<CommandRefusal> {
        let Handover { section, epoch, session, to, departure, .. } = self.handover;
        let (section, from, current) = (*section, session.node, Incarnation(self.current));
        let (set, migration) =
            departure.as_ref().map(|departure| (departure.set, departure.migration)).unwrap_or_default();
        let refusal: CommandRefusal = match Reason::parse(self.reason)? {
            Reason::TargetGone => CommandRefusal::TargetLeaves { node: *to, incarnation: current },
            Reason::OtherOwnership => {
                CommandRefusal::OtherOwnership { section, current: Epoch(0), from, given: *epoch }
            }
            Reason::NotResident => CommandRefusal::NotInSet { section },
            Reason::OtherIncarnation => {
                CommandRefusal::OtherIncarnation { node: from, current, given: session.incarnation }
            }
            Reason::ProcessDied => CommandRefusal::ProcessDied { node: from, incarnation: session.incarnation },
            Reason::UnknownNode => CommandRefusal::UnknownNode { node: from },
            Reason::OtherRenewal => {
                let (current, given) = (RenewSeq(self.current), RenewSeq(0));
                CommandRefusal::OtherRenewal { node: from, current, given }
            }
            Reason::MigrationOver => SetRefusal::MigrationOver { migration }.into(),
            Reason::SetClosing => SetRefusal::SetClosing { set }.into(),
            Reason::UnknownMigration => SetRefusal::OtherMigration { migration }.into(),
            Reason::OldLineage => {
                let given = departure.as_ref().map_or(Lineage(0), |departure| departure.lineage);
                SetRefusal::OldLineage { set, newest: Lineage(0), given }.into()
            }
            #[rustfmt::skip]
            Reason::UnknownSeries | Reason::SeriesExists | Reason::SeriesRetired | Reason::SeriesEnded |
            Reason::BadShape | Reason::LaneRequired | Reason::LaneNotAllowed | Reason::LaneOutOfRange |
            Reason::AfterTooFar | Reason::NotAnId | Reason::NotACounter | Reason::TooManySeries | Reason::LayoutFull |
            Reason::LayoutWriter | Reason::SetOutdated | Reason::LaneAhead | Reason::ClockAhead |
            Reason::UnknownKeyspace | Reason::KeySize | Reason::KeysExhausted | Reason::OtherTenantsKey |
            Reason::StoreBehind | Reason::UidOutOfRange | Reason::UidMissing | Reason::ToMissing |
            Reason::CountOutOfRange | Reason::EmptyBatch | Reason::BatchTooLarge | Reason::CountsMismatch |
            Reason::NotOwner | Reason::Unserved | Reason::DeadlinePassed | Reason::OwnerUnreachable |
            Reason::OwnerTimedOut | Reason::OwnerConnectionLost | Reason::StaleEpoch | Reason::LeaseExpired |
            Reason::TooManyPending | Reason::CeilingStalled | Reason::Exhausted | Reason::AdvanceTooFar |
            Reason::AlreadyPast | Reason::TooManyHops | Reason::ShuttingDown | Reason::WouldWait | Reason::Moved |
            Reason::SetUnavailable | Reason::Malformed | Reason::MessageTooLarge | Reason::UnknownMethod |
            Reason::UnsupportedEncoding | Reason::BodyTimedOut | Reason::OutOfMemory | Reason::Unsolicited |
            Reason::TooManyReports | Reason::RoleDenied | Reason::OtherHolder | Reason::UnknownToken |
            Reason::NoTenant | Reason::OtherTenantsUid | Reason::OtherTenantsSeries | Reason::CountAboveQuota |
            Reason::QuotaExceeded | Reason::TooManyConnections | Reason::BadOffer | Reason::BadCopy |
            Reason::TooMuchStaged | Reason::Leaving | Reason::Past | Reason::UnknownEpoch | Reason::NotGranted |
            Reason::OtherSet | Reason::NoSet | Reason::UndeclaredNode | Reason::BadAddr | Reason::BadToken |
            Reason::NodeAlive | Reason::TooManyNodes | Reason::LeaseTooLong | Reason::OtherPredecessor |
            Reason::UnknownName | Reason::BadNodeId | Reason::BadIncarnation | Reason::BadRenewSeq |
            Reason::ListsMismatch | Reason::UnknownSection | Reason::DuplicateSection | Reason::BadEpoch |
            Reason::BadCeiling | Reason::RaiseTooFast | Reason::BadTarget | Reason::BadHandover | Reason::BadTerms |
            Reason::OtherTerms | Reason::UnfitTarget | Reason::OldFormat | Reason::LastNode | Reason::SetExists |
            Reason::OtherGenesis | Reason::SetNameTaken | Reason::SetNotEmpty | Reason::OwnSet | Reason::UnknownSet |
            Reason::TooManySets | Reason::Quarantined | Reason::NoCandidate | Reason::OtherLayout |
            Reason::OtherLineage | Reason::BadRuns | Reason::SectionMigrates | Reason::StalePlan | Reason::NotArrived |
            Reason::BadPace | Reason::TooManyMigrations | Reason::TooFewRestores | Reason::NotQuarantined |
            Reason::NotResponded | Reason::FenceNotApplied | Reason::BadResponse | Reason::Starting |
            Reason::NotLeader | Reason::LeaderUnreachable | Reason::CommitTimedOut | Reason::TooManyProposals |
            Reason::CommandTooLarge | Reason::RaftStopped | Reason::BadStoreId | Reason::BadCount | Reason::BadName |
            Reason::AddedAndRemoved | Reason::UnknownMember | Reason::NotAVoter | Reason::UsedStoreId |
            Reason::OtherMember | Reason::Taken | Reason::NotCaughtUp | Reason::NoVoters | Reason::TooManyVoters |
            Reason::EvenVoters | Reason::NoMajority | Reason::NoLeader | Reason::NoSuccessor |
            Reason::ChangeInProgress | Reason::MemberNotReached | Reason::NotTakenOver | Reason::OtherCluster |
            Reason::NoNonce | Reason::OtherReceiver | Reason::OtherFormat | Reason::OutdatedMember |
            Reason::RemovedMember | Reason::OtherDataDirectory | Reason::AcknowledgedDataLost |
            Reason::MalformedMessage | Reason::InvalidRaftMessage | Reason::RaftJumpTooFar |
            Reason::CommittedEntriesContradicted | Reason::SnapshotTooLarge | Reason::MalformedSnapshot |
            Reason::SnapshotUnderWay => return None,
        };
        Some(refusal)
    }
}

/// A request for numbers of one user, which another server refused.
#[derive(Clone, Debug)]
pub struct RefusedItem {
    /// The requested uid.
    pub uid: Uid,
    /// Number of requested numbers; 1 for a read.
    pub count: u32,
    /// The number to advance to.
    pub to: Option<u64>,
    /// The newest epoch of the uid's section that the caller has seen; 0 if it has seen none.
    pub epoch: Epoch,
    /// The uid's section.
    pub section: SectionId,
    /// The node that refused.
    pub owner: NodeId,
    /// The range of uids of all sets of the cluster.
    pub uids: Range<u64>,
}

/// The fields of a refusal that only some reasons have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Details<'a> {
    /// The set that the section is in.
    pub set: Option<SetId>,
    /// The epoch since which the section has been in that set.
    pub since: Option<Epoch>,
    /// The highest number to which an advance of the uid is accepted at present.
    pub bound: Option<Seq>,
    /// Milliseconds by which the owner's clock is ahead of the clock of the owner's store.
    pub ahead_ms: Option<u64>,
    /// The text for humans.
    pub text: &'a str,
}

impl Details<'_> {
    /// Returns the refusal of an item whose section is in another set; `None` if the details do not state the set.
    fn moved(&self, section: SectionId) -> Option<Refusal> {
        Some(Refusal::Moved { section, set: self.set?, since: self.since? })
    }
}

impl RefusedItem {
    /// Decodes the refusal of the item; `None` if numbers may have been consumed. A refusal that concerns the request,
    /// the connection or the node instead of the item is decoded as [`Refusal::Unserved`].
    #[must_use]
    pub fn refusal(&self, reason: Reason, details: Details<'_>) -> Option<Refusal> {
        let RefusedItem { uid, count, to, epoch, section, owner, ref uids } = *self;
        let unserved = Refusal::Unserved { section };
        Some(match reason {
            Reason::UidOutOfRange => Refusal::UidOutOfRange { uid, start: uids.start, end: uids.end },
            Reason::UidMissing => Refusal::UidMissing,
            Reason::ToMissing => Refusal::ToMissing,
            Reason::CountOutOfRange => Refusal::CountOutOfRange { count },
            Reason::OtherTenantsUid => Refusal::OtherTenantsUid { uid },
            Reason::CountAboveQuota => Refusal::CountAboveQuota { count, most: last_number(details.text) },
            Reason::QuotaExceeded | Reason::TooManyConnections => Refusal::QuotaExceeded,
            Reason::OutOfMemory => Refusal::OutOfMemory,
            Reason::NotOwner => Refusal::NotOwner { section, owner: Some(owner) },
            Reason::DeadlinePassed => Refusal::DeadlinePassed { section },
            Reason::OwnerUnreachable => Refusal::OwnerUnreachable { section, owner },
            Reason::OwnerConnectionLost => Refusal::OwnerConnectionLost { section, owner },
            // The wire does not carry the node's epoch. It is smaller than the caller's epoch, so it is at most one
            // less.
            Reason::StaleEpoch if epoch > Epoch(0) => {
                Refusal::StaleEpoch { section, mine: Epoch(epoch.0 - 1), callers: epoch }
            }
            Reason::LeaseExpired => Refusal::LeaseExpired { section },
            Reason::TooManyPending => Refusal::TooManyPending { section, pending: MAX_PENDING },
            Reason::CeilingStalled => Refusal::CeilingStalled { section },
            // A series has no more ids if its lane has no more numbers, so the refusal is the same.
            Reason::Exhausted | Reason::SeriesEnded => Refusal::Exhausted { uid, count },
            Reason::AdvanceTooFar => Refusal::AdvanceTooFar { to: to?, bound: details.bound? },
            Reason::AlreadyPast => Refusal::AlreadyPast { uid },
            Reason::LaneAhead => Refusal::LaneAhead { section },
            Reason::ClockAhead => Refusal::ClockAhead { section, node: owner, ahead_ms: details.ahead_ms.unwrap_or(0) },
            Reason::AfterTooFar => Refusal::AfterTooFar { section, above: Seq(to?) },
            Reason::KeysExhausted => Refusal::KeysExhausted { section },
            Reason::ShuttingDown => Refusal::ShuttingDown,
            // If the refusal does not state the set, the section is decoded as unserved, and the call waits for newer
            // routes.
            Reason::Moved => details.moved(section).unwrap_or(unserved),
            Reason::SetUnavailable => details.set.map_or(unserved, |set| Refusal::SetUnavailable { section, set }),
            #[rustfmt::skip]
            Reason::UnknownKeyspace | Reason::KeySize | Reason::OtherTenantsKey | Reason::UnknownSeries |
            Reason::SeriesExists | Reason::SeriesRetired | Reason::BadShape | Reason::LaneRequired |
            Reason::LaneNotAllowed | Reason::LaneOutOfRange | Reason::NotAnId | Reason::NotACounter |
            Reason::TooManySeries | Reason::OtherTenantsSeries | Reason::LayoutFull | Reason::LayoutWriter |
            Reason::SetOutdated | Reason::Unserved | Reason::StaleEpoch | Reason::EmptyBatch | Reason::BatchTooLarge |
            Reason::CountsMismatch | Reason::TooManyHops | Reason::WouldWait | Reason::Malformed |
            Reason::MessageTooLarge | Reason::UnknownMethod | Reason::UnsupportedEncoding | Reason::BodyTimedOut |
            Reason::Unsolicited | Reason::RoleDenied | Reason::TooManyReports | Reason::OtherHolder |
            Reason::UnknownToken | Reason::NoTenant | Reason::BadOffer | Reason::BadCopy | Reason::TooMuchStaged |
            Reason::Leaving | Reason::Past | Reason::UnknownEpoch | Reason::OtherSet | Reason::NoSet |
            Reason::UndeclaredNode | Reason::BadAddr | Reason::BadToken | Reason::NodeAlive | Reason::TooManyNodes |
            Reason::LeaseTooLong | Reason::OtherPredecessor | Reason::StoreBehind | Reason::UnknownNode |
            Reason::UnknownName | Reason::OtherIncarnation | Reason::ProcessDied | Reason::OtherRenewal |
            Reason::OtherOwnership | Reason::TargetGone | Reason::BadNodeId | Reason::BadIncarnation |
            Reason::BadRenewSeq | Reason::ListsMismatch | Reason::UnknownSection | Reason::DuplicateSection |
            Reason::BadEpoch | Reason::BadCeiling | Reason::BadTarget | Reason::BadHandover | Reason::BadTerms |
            Reason::OtherTerms | Reason::UnfitTarget | Reason::OldFormat | Reason::LastNode | Reason::SetExists |
            Reason::OtherGenesis | Reason::SetNameTaken | Reason::SetNotEmpty | Reason::OwnSet | Reason::UnknownSet |
            Reason::TooManySets | Reason::SetClosing | Reason::Quarantined | Reason::NoCandidate | Reason::OtherLayout |
            Reason::OtherLineage | Reason::OldLineage | Reason::BadRuns | Reason::NotResident |
            Reason::SectionMigrates | Reason::StalePlan | Reason::UnknownMigration | Reason::MigrationOver |
            Reason::NotArrived | Reason::BadPace | Reason::TooManyMigrations | Reason::TooFewRestores |
            Reason::NotQuarantined | Reason::NotResponded | Reason::FenceNotApplied | Reason::BadResponse |
            Reason::Starting | Reason::TooManyProposals | Reason::CommandTooLarge | Reason::BadStoreId |
            Reason::BadCount | Reason::BadName | Reason::AddedAndRemoved | Reason::UnknownMember | Reason::NotAVoter |
            Reason::UsedStoreId | Reason::OtherMember | Reason::Taken | Reason::NotCaughtUp | Reason::NoVoters |
            Reason::TooManyVoters | Reason::EvenVoters | Reason::NoMajority | Reason::NoLeader | Reason::NoSuccessor |
            Reason::ChangeInProgress | Reason::MemberNotReached | Reason::OtherCluster | Reason::NoNonce |
            Reason::OtherReceiver | Reason::OtherFormat | Reason::OutdatedMember | Reason::RemovedMember |
            Reason::OtherDataDirectory | Reason::AcknowledgedDataLost | Reason::MalformedMessage |
            Reason::InvalidRaftMessage | Reason::RaftJumpTooFar | Reason::CommittedEntriesContradicted |
            Reason::SnapshotTooLarge | Reason::MalformedSnapshot | Reason::SnapshotUnderWay => unserved,
            #[rustfmt::skip]
            Reason::OwnerTimedOut | Reason::NotGranted | Reason::RaiseTooFast | Reason::NotLeader |
            Reason::LeaderUnreachable | Reason::CommitTimedOut | Reason::RaftStopped |
            Reason::NotTakenOver => return None,
        })
    }
}

/// Returns the last number in the text of a refusal. This number is the quota, for which a refusal has no field.
fn last_number(text: &str) -> u32 {
    let numbers = text.split(|letter: char| !letter.is_ascii_digit());
    numbers.rev().find_map(|number| number.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
