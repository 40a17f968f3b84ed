//! Responses of owners. A response is an output, or a failure from which the refusal for the caller is made.

use seq_api::service::{Allocation, Current, Item};
use seq_core::calls::Destination;
use seq_core::{Epoch, Layout, NodeId, Reading, Refusal, Seq, SetId};
use seq_proto::reason::{Reason, key};
use seq_proto::refusals::{Details, RefusedItem};
use seq_proto::{status, v1};
use tonic::Status;

use crate::pending_item::PendingItem;

/// Cause for which an owner returned no usable response.
#[derive(Clone)]
pub(super) enum Failure {
    /// The owner certainly did not process the call.
    NotProcessed,
    /// The deadline passed before the call was sent.
    NotSent,
    /// The connection broke, and the owner may have processed the call.
    Broken,
    /// The deadline passed, or the response is unusable; the owner may have processed the call.
    TimedOut,
    /// The owner refused.
    Refused(Refused),
    /// As many items as allowed are in flight to the owner, so nothing was sent.
    QueueFull(usize),
}

/// Refusal of an owner, as decoded from the wire.
#[derive(Clone)]
pub(super) struct Refused {
    reason: Reason,
    set: Option<SetId>,
    since: Option<Epoch>,
    bound: Option<Seq>,
    ahead_ms: Option<u64>,
}

impl Failure {
    /// Decodes the status of a failed request.
    pub(super) fn of_status(status: &Status) -> Failure {
        if seq_channel::not_processed(status) {
            return Failure::NotProcessed;
        }
        let number = |key| status::metadata(status, key).and_then(|number| number.parse().ok());
        match status::reason(status) {
            Some(reason) => {
                let (set, since) = (number(key::SET).map(SetId), number(key::SINCE).map(Epoch));
                let (bound, ahead_ms) = (number(key::BOUND).map(Seq), number(key::AHEAD_MS));
                Failure::of_reason(&reason, |reason| Refused { reason, set, since, bound, ahead_ms })
            }
            None if seq_channel::is_broken(status) => Failure::Broken,
            None => Failure::TimedOut,
        }
    }

    /// Decodes the refusal of an item.
    pub(super) fn of_item(error: &v1::ItemError) -> Failure {
        let v1::ItemError { reason, set_id, since, .. } = error;
        let (set, since) = (set_id.map(SetId), since.map(Epoch));
        Failure::of_reason(reason, |reason| Refused { reason, set, since, bound: None, ahead_ms: None })
    }

    /// Returns the failure for a refusal with a reason. If this version does not know the reason, the failure is that
    /// of a missing response, because numbers may have been consumed.
    fn of_reason(reason: &str, refused: impl FnOnce(Reason) -> Refused) -> Failure {
        Reason::parse(reason).map_or(Failure::TimedOut, |reason| Failure::Refused(refused(reason)))
    }

    /// Returns the refusal that the caller of an item gets for this failure. `target` is the number that an advance
    /// requested.
    pub(super) fn refusal(self, to: Destination, item: &PendingItem, target: Option<u64>, layout: &Layout) -> Refusal {
        let section = item.section;
        let refused = match (self, to) {
            (Failure::NotSent, _) => return Refusal::DeadlinePassed { section },
            (Failure::NotProcessed, Destination::Node(owner)) => return Refusal::OwnerUnreachable { section, owner },
            (Failure::NotProcessed, Destination::Set(set)) => return Refusal::SetUnavailable { section, set },
            (Failure::QueueFull(pending), Destination::Node(_)) => return Refusal::TooManyPending { section, pending },
            (Failure::QueueFull(pending), Destination::Set(set)) => {
                return Refusal::TooManyPendingOfSet { section, set, pending };
            }
            (Failure::Broken, Destination::Node(owner)) => return Refusal::OwnerConnectionLost { section, owner },
            (Failure::Broken | Failure::TimedOut, _) => return to.timed_out(section),
            (Failure::Refused(refused), _) => refused,
        };
        let owner = if let Destination::Node(owner) = to { owner } else { NodeId(0) };
        let Item { uid, count, epoch } = item.item;
        let (count, uids) = (count.get(), layout.uids());
        let about = RefusedItem { uid, count, to: target, epoch, section, owner, uids };
        let Refused { reason, set, since, bound, ahead_ms } = refused;
        // A text would state the quota of a tenant, and nodes do not count requests of other nodes for any tenant.
        let details = Details { set, since, bound, ahead_ms, text: "" };
        match (about.refusal(reason, details), to) {
            // A node of the other set could not reach the owner in that set, so nothing was sent to the owner.
            (Some(Refusal::OwnerUnreachable { .. }), Destination::Set(set)) => Refusal::SetUnavailable { section, set },
            (Some(Refusal::OwnerConnectionLost { .. }), Destination::Set(_)) | (None, _) => to.timed_out(section),
            (Some(refusal), _) => refusal,
        }
    }
}

/// Decodes an allocation from an owner's response; `None` if its numbers contradict each other.
pub(super) fn given(value: u64, prev: u64, epoch: u64, lost: u32) -> Option<Allocation> {
    let sound = value > prev && value <= Seq::MAX.0 && epoch > 0;
    sound.then_some(Allocation { value: Seq(value), prev: Seq(prev), epoch: Epoch(epoch), lost })
}

/// Decodes a reading from an owner's response; `None` if it is malformed.
pub(super) fn read(value: u64, exactness: i32, epoch: u64) -> Option<Current> {
    let exact = match v1::Exactness::try_from(exactness).ok()? {
        v1::Exactness::Exact => true,
        v1::Exactness::UpperBound => false,
        v1::Exactness::Unspecified => return None,
    };
    let sound = value <= Seq::MAX.0 && epoch > 0;
    sound.then_some(Current { reading: Reading { value: Seq(value), exact }, epoch: Epoch(epoch) })
}
