//! Decodes the responses of owners to forwarded requests. A response is either an output, or a [`Failure`] that is
//! converted to the refusal for the caller.

use seq_api::service::{Allocation, Current, Item};
use seq_core::calls::Destination;
use seq_core::{Epoch, Layout, NodeId, Reading, Refusal, Seq, SetId};
use seq_proto::reason::{Reason, key};
use seq_proto::refusals::{Details, RefusedItem};
use seq_proto::{status, v1};
use tonic::Status;

use crate::pending_item::PendingItem;

/// Cause for which a forwarded request got no usable response from the owner.
#[derive(Clone)]
pub(super) enum Failure {
    /// The owner certainly did not process the call.
    NotProcessed,
    /// The deadline passed before the call was sent.
    NotSent,
    /// The connection broke after the call was sent, so the owner may have processed the call.
    Broken,
    /// The deadline passed before a response arrived, or the response is unusable. The owner may have processed the
    /// call.
    TimedOut,
    /// The owner refused.
    Refused(Refused),
    /// The limit on items in flight to the owner is reached, so nothing was sent. The value is this limit.
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

    /// Returns the failure for a refusal with the reason `reason`. If this release does not know the reason, returns
    /// [`Failure::TimedOut`], because the refused request may have consumed numbers.
    fn of_reason(reason: &str, refused: impl FnOnce(Reason) -> Refused) -> Failure {
        Reason::parse(reason).map_or(Failure::TimedOut, |reason| Failure::Refused(refused(reason)))
    }

    /// Converts this failure of a request to `to` to the refusal that is sent to the caller of `item`. If the item was
    /// to be advanced, `target` is the number to which it was to be advanced.
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
        // The text of a refusal would state the quota of a tenant. It is empty here, because nodes do not count the
        // requests of other nodes for any tenant.
        let details = Details { set, since, bound, ahead_ms, text: "" };
        match (about.refusal(reason, details), to) {
            // A node of the other set could not reach the owner in that set, so nothing was sent to the owner.
            (Some(Refusal::OwnerUnreachable { .. }), Destination::Set(set)) => Refusal::SetUnavailable { section, set },
            (Some(Refusal::OwnerConnectionLost { .. }), Destination::Set(_)) | (None, _) => to.timed_out(section),
            (Some(refusal), _) => refusal,
        }
    }
}

/// Decodes an allocation from the numbers in an owner's response. Returns `None` if these numbers contradict each
/// other.
pub(super) fn given(value: u64, prev: u64, epoch: u64, lost: u32) -> Option<Allocation> {
    let sound = value > prev && value <= Seq::MAX.0 && epoch > 0;
    sound.then_some(Allocation { value: Seq(value), prev: Seq(prev), epoch: Epoch(epoch), lost })
}

/// Decodes a reading from the fields of an owner's response. Returns `None` if a field is malformed.
pub(super) fn read(value: u64, exactness: i32, epoch: u64) -> Option<Current> {
    let exact = match v1::Exactness::try_from(exactness).ok()? {
        v1::Exactness::Exact => true,
        v1::Exactness::UpperBound => false,
        v1::Exactness::Unspecified => return None,
    };
    let sound = value <= Seq::MAX.0 && epoch > 0;
    sound.then_some(Current { reading: Reading { value: Seq(value), exact }, epoch: Epoch(epoch) })
}
