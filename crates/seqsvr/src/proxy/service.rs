//! The sequence service of a proxy: every call goes to the owner through an SDK client.
//!
//! Invariant: a refusal never hides numbers that may have been consumed: a call of unknown outcome is refused with a
//! reason of unknown outcome.

use std::time::Duration;

use seq_api::service::{Allocation, Call, Current, DecodedItem, Item, ItemReply, SequenceService, Via};
use seq_client::{CallError, Client};
use seq_core::route::RouteUpdate;
use seq_core::{Epoch, NodeId, Reading, Refusal, RouteVersion, SectionId, Seq, SetId, Target, Uid};
use seq_proto::Reason;
use tokio::time::Instant;

/// The service of one serving thread. Clones share its client.
#[derive(Clone)]
pub(super) struct ProxyService {
    client: Client,
}

impl ProxyService {
    pub(super) fn new(client: Client) -> ProxyService {
        ProxyService { client }
    }

    fn client(&self, call: Call) -> Client {
        let remaining: Duration = call.deadline.saturating_duration_since(Instant::now());
        self.client.with_deadline(remaining)
    }

    /// The refusal that a caller gets for a failed call.
    fn refusal(&self, error: &CallError, uid: Uid) -> Refusal {
        let view = self.client.section_of(uid.0);
        let section = view.map_or(SectionId(0), |view| view.section);
        let owner = view.and_then(|view| view.owner).unwrap_or(NodeId(0));
        if error.may_have_applied() {
            return match error {
                CallError::DeadlineExceeded { .. } => Refusal::OwnerTimedOut { section, owner },
                _ => Refusal::OwnerConnectionLost { section, owner },
            };
        }
        match error {
            CallError::UidOutside { .. } => {
                let known = self.client.known_uids();
                let start = known.first().map_or(0, |uids| uids.start);
                Refusal::UidOutOfRange { uid, start, end: known.last().map_or(0, |uids| uids.end) }
            }
            CallError::CountOutOfRange { count, .. } => Refusal::CountOutOfRange { count: *count },
            CallError::SetUnavailable(unavailable) => Refusal::SetUnavailable { section, set: SetId(unavailable.set) },
            CallError::Refused(refused) => match Reason::parse(&refused.reason) {
                Some(Reason::AlreadyPast) => Refusal::AlreadyPast { uid },
                Some(Reason::LeaseExpired) => Refusal::LeaseExpired { section },
                Some(Reason::CeilingStalled) => Refusal::CeilingStalled { section },
                Some(Reason::OwnerUnreachable) => Refusal::OwnerUnreachable { section, owner },
                Some(Reason::DeadlinePassed) => Refusal::DeadlinePassed { section },
                Some(Reason::ShuttingDown) => Refusal::ShuttingDown,
                // AllocSvrs may count the proxy itself as a tenant.
                Some(Reason::OtherTenantsUid) => Refusal::OtherTenantsUid { uid },
                Some(Reason::QuotaExceeded | Reason::TooManyConnections) => Refusal::QuotaExceeded,
                Some(Reason::OutOfMemory) => Refusal::OutOfMemory,
                Some(Reason::NotOwner) => Refusal::NotOwner { section, owner: Some(owner) },
                _ => Refusal::Unserved { section },
            },
            CallError::DeadlineExceeded { .. } => Refusal::DeadlinePassed { section },
            _ => Refusal::OwnerUnreachable { section, owner },
        }
    }

    /// As [`ProxyService::refusal`], for a call for numbers.
    fn refusal_of(&self, error: &CallError, item: &Item) -> Refusal {
        if !error.may_have_applied() && has_reason(error, Reason::Exhausted) {
            return Refusal::Exhausted { uid: item.uid, count: item.count.get() };
        }
        if has_reason(error, Reason::CountAboveQuota) {
            return Refusal::CountAboveQuota { count: item.count.get(), most: last_number(&error.to_string()) };
        }
        self.refusal(error, item.uid)
    }
}

/// Returns the last number in a text: the quota that a refusal states, which no field has.
fn last_number(text: &str) -> u32 {
    let numbers = text.split(|letter: char| !letter.is_ascii_digit());
    numbers.rev().find_map(|number| number.parse().ok()).unwrap_or_default()
}

fn has_reason(error: &CallError, reason: Reason) -> bool {
    matches!(error, CallError::Refused(refused) if refused.reason == reason)
}

fn allocation(given: seq_client::Allocation) -> Allocation {
    let seq_client::Allocation { value, prev, epoch, lost, .. } = given;
    Allocation { value: Seq(value), prev: Seq(prev), epoch: Epoch(epoch), lost }
}

fn current(read: seq_client::Current) -> Current {
    Current { reading: Reading { value: Seq(read.value), exact: read.exact }, epoch: Epoch(read.epoch) }
}

impl SequenceService for ProxyService {
    async fn next(&self, call: Call, item: Item) -> Result<Allocation, Refusal> {
        let result = self.client(call).next_n(item.uid.0, item.count.get()).await;
        result.map(allocation).map_err(|error| self.refusal_of(&error, &item))
    }

    fn try_next_batch(&self, _via: Via, items: &[DecodedItem], replies: &mut Vec<ItemReply<Allocation>>) {
        // Nothing is local: an item that the endpoint did not refuse must wait for its owner.
        replies.extend(items.iter().map(|item| item.err().map(Err)));
    }

    async fn complete_batch(&self, call: Call, items: &[DecodedItem], replies: &mut [ItemReply<Allocation>]) {
        let pending = replies.iter().zip(items).enumerate().filter(|(_, (reply, _))| reply.is_none());
        let pending: Vec<(usize, Item)> = pending.filter_map(|(index, (_, item))| Some((index, item.ok()?))).collect();
        let requests: Vec<(u64, u32)> = pending.iter().map(|(_, item)| (item.uid.0, item.count.get())).collect();
        match self.client(call).next_many_n(&requests).await {
            Ok(results) => {
                for ((index, item), result) in pending.iter().zip(results) {
                    let result = result.map(allocation).map_err(|error| self.refusal_of(&error, item));
                    replies[*index] = Some(result);
                }
            }
            Err(error) => {
                for (index, item) in &pending {
                    replies[*index] = Some(Err(self.refusal_of(&error, item)));
                }
            }
        }
    }

    async fn current(&self, call: Call, uid: Uid, _epoch: Epoch) -> Result<Current, Refusal> {
        let result = self.client(call).current(uid.0).await;
        result.map(current).map_err(|error| self.refusal(&error, uid))
    }

    async fn current_many(&self, call: Call, uids: Vec<(Uid, Epoch)>) -> Vec<Result<Current, Refusal>> {
        let requests: Vec<u64> = uids.iter().map(|(uid, _)| uid.0).collect();
        match self.client(call).current_many(&requests).await {
            Ok(results) => {
                let results = uids.iter().zip(results);
                results
                    .map(|((uid, _), result)| result.map(current).map_err(|error| self.refusal(&error, *uid)))
                    .collect()
            }
            Err(error) => uids.iter().map(|(uid, _)| Err(self.refusal(&error, *uid))).collect(),
        }
    }

    async fn advance(&self, call: Call, uid: Uid, to: Target, _epoch: Epoch) -> Result<Epoch, Refusal> {
        let result = self.client(call).advance(uid.0, to.seq().0).await;
        result.map(Epoch).map_err(|error| match &error {
            CallError::Refused(refused) if refused.reason == Reason::AdvanceTooFar => {
                Refusal::AdvanceTooFar { to: to.seq().0, bound: Seq(refused.bound.unwrap_or(0)) }
            }
            error => self.refusal(error, uid),
        })
    }

    fn route_version(&self) -> RouteVersion {
        self.client.route_version()
    }

    fn routes_since(&self, since: RouteVersion) -> Option<RouteUpdate> {
        // Whole tables only, on request: the changes since a version are those of one set, and this table is of all.
        if since == RouteVersion(0) { self.client.routes() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quota_of_a_count_is_read_from_the_text_of_its_refusal() {
        assert_eq!(last_number(&Refusal::CountAboveQuota { count: 11, most: 10 }.to_string()), 10);
        assert_eq!(last_number("without one"), 0);
    }
}
