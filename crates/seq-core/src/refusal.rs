//! Reasons to refuse a request for numbers. A refused request moved no counter.

use crate::id::{Epoch, NodeId, SectionId, Seq, SetId, Uid};
use crate::limits;

/// Reason why a request for numbers is refused. A refusal is a normal response and not an error of the service. It is
/// compared, counted and sent, but never logged as an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The node's set does not hold the uid.
    #[error("uid {uid} is outside the set's uids {start}..{end}")]
    UidOutOfRange {
        /// The uid in the request.
        uid: Uid,
        /// First uid of the set.
        start: u64,
        /// End of the set's uids, exclusive.
        end: u64,
    },
    /// The request has no uid. A missing uid does not mean user 0.
    #[error("the request has no uid: send its field uid, also for user 0")]
    UidMissing,
    /// The request to advance has no number. A missing number does not mean the number 0.
    #[error("the request has no number to advance to: send its field to")]
    ToMissing,
    /// The count is 0, or more than a call may take.
    #[error("count {count} is not in 1..={}", limits::MAX_COUNT)]
    CountOutOfRange {
        /// The count in the request.
        count: u32,
    },
    /// The uid belongs to another tenant.
    #[error("uid {uid} is not one of the tenant's")]
    OtherTenantsUid {
        /// The uid in the request.
        uid: Uid,
    },
    /// The count is above the number that the quota of the caller's tenant allows for one item.
    #[error("count {count} is above the tenant's quota of {most} for an item")]
    CountAboveQuota {
        /// The count in the request.
        count: u32,
        /// The quota.
        most: u32,
    },
    /// The caller's tenant has used up its rate on this node.
    #[error("the tenant's quota is used up for now")]
    QuotaExceeded,
    /// The request does not fit into the memory that is left for its connection.
    #[error("the node has no memory left for another request of this connection")]
    OutOfMemory,
    /// The batch has no items.
    #[error("the request names no uid; send 1..={} of them", limits::MAX_ITEMS)]
    EmptyBatch,
    /// The batch has more items than a call may carry.
    #[error("{items} items are more than the {} a request may carry", limits::MAX_ITEMS)]
    BatchTooLarge {
        /// Number of items in the request.
        items: usize,
    },
    /// Counts or epochs were given, but not one for each uid.
    #[error("{counts} counts or epochs for {uids} uids: send one for each uid, or none")]
    CountsMismatch {
        /// Number of uids in the request.
        uids: usize,
        /// Number of counts or epochs in the request.
        counts: usize,
    },
    /// The call was forwarded to this node, which does not own the section and may not forward the call again.
    #[error("section {section} is not owned by this node, and the call was forwarded already")]
    NotOwner {
        /// The uid's section.
        section: SectionId,
        /// The owner in this node's route table.
        owner: Option<NodeId>,
    },
    /// The section has no owner in this node's route table.
    #[error("section {section} has no owner now")]
    Unserved {
        /// The uid's section.
        section: SectionId,
    },
    /// The deadline passed before the call could be sent to the owner of the section, or to another set.
    #[error("the deadline passed before the request for section {section} was sent to its owner")]
    DeadlinePassed {
        /// The uid's section.
        section: SectionId,
    },
    /// A request to the owner failed before the owner could have received it.
    #[error("node {owner}, the owner of section {section}, cannot be reached")]
    OwnerUnreachable {
        /// The uid's section.
        section: SectionId,
        /// The section's owner.
        owner: NodeId,
    },
    /// A request to the owner got no response; numbers may have been consumed.
    #[error("node {owner}, the owner of section {section}, did not answer in time; numbers may have been consumed")]
    OwnerTimedOut {
        /// The uid's section.
        section: SectionId,
        /// The section's owner.
        owner: NodeId,
    },
    /// A request to another set got no response; numbers may have been consumed.
    #[error("set {set}, which section {section} is in, did not answer in time; numbers may have been consumed")]
    SetTimedOut {
        /// The uid's section.
        section: SectionId,
        /// The set that it is in.
        set: SetId,
    },
    /// The connection to the owner broke before the response; numbers may have been consumed.
    #[error(
        "the connection to node {owner}, the owner of section {section}, broke before it responded; numbers may have been \
         consumed"
    )]
    OwnerConnectionLost {
        /// The uid's section.
        section: SectionId,
        /// The section's owner.
        owner: NodeId,
    },
    /// The request names a newer epoch of the section than this node knows.
    #[error("section {section} is at epoch {mine} here, and the caller has seen epoch {callers}")]
    StaleEpoch {
        /// The uid's section.
        section: SectionId,
        /// This node's epoch.
        mine: Epoch,
        /// The caller's epoch.
        callers: Epoch,
    },
    /// The node owns the section, but the node's lease has expired, so another node may own the section by now.
    #[error("section {section} waits for the node's lease to be renewed")]
    LeaseExpired {
        /// The uid's section.
        section: SectionId,
    },
    /// The section cannot be served now, and the maximum number of calls is already pending at this node.
    #[error("section {section} cannot be served now, and {pending} calls are pending already")]
    TooManyPending {
        /// The uid's section.
        section: SectionId,
        /// The bound.
        pending: usize,
    },
    /// The section is in another set, and the maximum number of calls is already pending for sections of that set, or
    /// in flight to it.
    #[error("section {section} is in set {set}, and {pending} calls for that set are pending already")]
    TooManyPendingOfSet {
        /// The uid's section.
        section: SectionId,
        /// The set that it is in.
        set: SetId,
        /// The bound.
        pending: usize,
    },
    /// The section's ceiling was not raised before the request's deadline.
    #[error("section {section} waits for its ceiling to be raised")]
    CeilingStalled {
        /// The uid's section.
        section: SectionId,
    },
    /// The uid has used up its numbers.
    #[error("uid {uid} has no {count} numbers left below 2^63")]
    Exhausted {
        /// The uid.
        uid: Uid,
        /// Number of requested numbers.
        count: u32,
    },
    /// The advance goes to a number that is too high for the other uids of its section.
    #[error(
        "{to} is above {bound}, the highest number that a uid or key of this section is raised to now: the section's ceiling would \
         go there permanently, and its next owner starts all of them at the ceiling"
    )]
    AdvanceTooFar {
        /// The number in the request.
        to: u64,
        /// The highest number that is accepted now.
        bound: Seq,
    },
    /// The last number of the uid is above the number to which the uid should be advanced, or may be above it.
    #[error("uid {uid} is past that number, and numbers never go back")]
    AlreadyPast {
        /// The uid.
        uid: Uid,
    },
    /// The request has more hops than servers make.
    #[error("{hops} hops are more than the {} servers make", limits::MAX_HOPS)]
    TooManyHops {
        /// Number of hops in the request.
        hops: u32,
    },
    /// The ids of the lane are already as far ahead of the clock as the series allows.
    #[error("the ids of the lane in section {section} are as far ahead of the clock as its series allows")]
    LaneAhead {
        /// The lane's section.
        section: SectionId,
    },
    /// The clock of the lane's owner is so far ahead of the store's clock that the store does not raise the ceiling to
    /// the time of the owner's clock.
    #[error(
        "the clock of node {node}, the owner of section {section}, is {}.{:03} s ahead of its store's clock, so the store \
         raises no ceiling as far: check the time synchronization of the node, and of the store's members",
        ahead_ms / 1_000,
        ahead_ms % 1_000
    )]
    ClockAhead {
        /// The lane's section.
        section: SectionId,
        /// The section's owner.
        node: NodeId,
        /// Milliseconds by which its clock is ahead of the store's.
        ahead_ms: u64,
    },
    /// The request asks for numbers above a number that is further ahead than a request may skip.
    #[error("the lane in section {section} would skip to {above}, more than {} numbers ahead", limits::MAX_AFTER)]
    AfterTooFar {
        /// The lane's section.
        section: SectionId,
        /// The number to be above.
        above: Seq,
    },
    /// The key has no counter, and its owner has no room for another one.
    #[error("the bucket {section} has no room for another key: its owner has as many keys as it may")]
    KeysExhausted {
        /// The section of the key's bucket.
        section: SectionId,
    },
    /// The node is about to exit.
    #[error("the node is shutting down")]
    ShuttingDown,
    /// The section is in another set, and the call was already forwarded to this node. The node that forwarded the call
    /// sends it to that set itself.
    #[error("section {section} is in set {set} since epoch {since}")]
    Moved {
        /// The uid's section.
        section: SectionId,
        /// The set that it is in.
        set: SetId,
        /// The epoch since which it is there.
        since: Epoch,
    },
    /// No node of the section's set can be reached. The attempt consumed no number.
    #[error("section {section} is in set {set}, of which no node can be reached")]
    SetUnavailable {
        /// The uid's section.
        section: SectionId,
        /// The set that it is in.
        set: SetId,
    },
}

impl Refusal {
    /// Returns whether the refusal is transient. If an owner refuses a forwarded item with a transient refusal, the
    /// owner consumed no numbers, and another attempt, at the same or another node, may succeed soon.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Refusal::NotOwner { .. }
                | Refusal::Unserved { .. }
                | Refusal::DeadlinePassed { .. }
                | Refusal::OwnerUnreachable { .. }
                | Refusal::StaleEpoch { .. }
                | Refusal::LeaseExpired { .. }
                | Refusal::ShuttingDown
        )
    }
}
