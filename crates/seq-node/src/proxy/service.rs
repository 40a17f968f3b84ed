//! The sequence service of a proxy. It sends every call to the owner with an SDK client.
//!
//! Keys are sent as the caller sent them, because only AllocSvrs know the seeds under which they are hashed
//! (`service/keys.rs`).
//!
//! A request for ids is sent to a node unchanged, and that node chooses the lane, because a proxy does not know which
//! lanes can be served now.
//!
//! Invariant: a refusal never hides that numbers may have been consumed. If the outcome of a call is unknown, the call
//! is refused with a reason that states this.

use std::sync::Arc;
use std::time::Duration;

use seq_api::ids::{IdRequest, IdSeries};
use seq_api::keys::{KeyRefused, Keyspace, WholeKey};
use seq_api::metrics::order_violations;
use seq_api::service::{Allocation, Call, Current, DecodedItem, Item, ItemReply, SequenceService, Via};
use seq_client::{CallError, Client, CurrentId, Id, Series, Shape};
use seq_core::layout;
use seq_core::route::RouteUpdate;
use seq_core::{Epoch, NodeId, Reading, Refusal, RouteVersion, SectionId, Seq, SetId, Target, Uid};
use seq_proto::Reason;
use seq_proto::refusals::{Details, RefusedItem};
use seq_proto::series::SeriesShape;
use tokio::time::Instant;

mod keys;

/// The service of one serving thread. Its clones share one client.
#[derive(Clone)]
pub(super) struct ProxyService {
    client: Client,
    /// Count of responses of owners whose numbers are not in order.
    violations: metrics::Counter,
}

impl ProxyService {
    /// Creates the service of the proxy with this name.
    pub(super) fn new(client: Client, name: &str) -> ProxyService {
        ProxyService { client, violations: order_violations(name, "response") }
    }

    pub(super) fn client(&self, call: Call) -> Client {
        let remaining: Duration = call.deadline.saturating_duration_since(Instant::now());
        self.client.with_deadline(remaining)
    }

    /// Returns the refusal that the caller gets for a call that failed with `error`. If the call was an advance, `to`
    /// is the number to which the uid was to be advanced.
    fn refusal(&self, error: &CallError, (uid, count): (Uid, u32), to: Option<u64>) -> Refusal {
        let view = self.client.section_of(uid.0);
        let of_lane = layout::locate(uid).map(|(section, _)| section);
        let section = view.map(|view| view.section).or(of_lane).unwrap_or(SectionId(0));
        let owner = view.and_then(|view| view.owner).unwrap_or(NodeId(0));
        self.refusal_in((section, owner), error, (uid, count), to)
    }

    /// Returns the refusal for a call for the counter of a section, as [`ProxyService::refusal`] does. The uid of a key
    /// is 0, because endpoints name the key in its place.
    pub(super) fn refusal_in(
        &self,
        (section, owner): (SectionId, NodeId),
        error: &CallError,
        (uid, count): (Uid, u32),
        to: Option<u64>,
    ) -> Refusal {
        if error.is_out_of_order() {
            self.violations.increment(1);
            tracing::error!(%error, "the order of numbers is violated");
        }
        let known = self.client.known_uids();
        let uids = known.first().map_or(0, |uids| uids.start)..known.last().map_or(0, |uids| uids.end);
        let about = RefusedItem { uid, count, to, epoch: Epoch(0), section, owner, uids };
        let refused = |reason, details| about.refusal(reason, details);
        let lost = Refusal::OwnerConnectionLost { section, owner };
        let unserved = Refusal::Unserved { section };
        match error {
            CallError::DeadlineExceeded { may_have_applied: true, .. } => Refusal::OwnerTimedOut { section, owner },
            error if error.may_have_applied() => lost,
            CallError::UidOutside { .. } => refused(Reason::UidOutOfRange, Details::default()).unwrap_or(unserved),
            CallError::CountOutOfRange { count, .. } => Refusal::CountOutOfRange { count: *count },
            CallError::SetUnavailable(unavailable) => Refusal::SetUnavailable { section, set: SetId(unavailable.set) },
            // This release may not know the reason, but the SDK states that no number was consumed.
            CallError::Refused(error) => Reason::parse(&error.reason).map_or(unserved, |reason| {
                let details = Details { bound: error.bound.map(Seq), text: &error.message, ..Details::default() };
                refused(reason, details).unwrap_or(lost)
            }),
            CallError::DeadlineExceeded { .. } => Refusal::DeadlinePassed { section },
            _ => Refusal::OwnerUnreachable { section, owner },
        }
    }

    /// Returns the counter whose lane has the address `uid`; `None` if `uid` is the uid of a user, or the address of a
    /// lane of another series. Only calls for ids have addresses.
    fn counter_at(&self, call: Call, uid: Uid) -> Option<Counter> {
        let (section, _) = layout::locate(uid).filter(|_| call.via == Via::Id)?;
        let has_lane = |series: &Series| series.record().sections.iter().any(|one| one == section);
        let series = self.client(call).all_known_series().into_iter().find(has_lane)?;
        Some(Counter { shape: series.shape(), series })
    }

    /// Returns the refusal for a failed call for numbers; see [`ProxyService::refusal`].
    fn refusal_of(&self, error: &CallError, item: &Item) -> Refusal {
        self.refusal(error, (item.uid, item.count.get()), None)
    }
}

/// A series that is a counter. Its numbers are requested by the address of its lane.
struct Counter {
    series: Series,
    shape: Shape,
}

impl Counter {
    async fn current(&self) -> Result<Current, CallError> {
        let CurrentId { id, exact, epoch } = self.series.current().await?;
        let value = id.and_then(|id| self.shape.parts(id)).map_or(Seq::ZERO, |parts| Seq(parts.value));
        Ok(Current { reading: Reading { value, exact }, epoch: Epoch(epoch) })
    }

    /// Raises the counter to the id that it makes of the number `to`; `None` if this number has no id.
    async fn advance(&self, to: Target) -> Option<Result<Epoch, CallError>> {
        let id = self.shape.id(0, to.seq().0).ok()?;
        Some(self.series.advance(id).await.map(Epoch))
    }
}

/// Returns a series in the form that endpoints use.
fn served(series: &Series) -> Arc<IdSeries> {
    let SeriesShape { shape, named_lanes, ahead_ms } = series.rules();
    Arc::new(IdSeries::new(series.record(), shape, named_lanes, ahead_ms))
}

pub(super) fn allocation(given: seq_client::Allocation) -> Allocation {
    let seq_client::Allocation { value, prev, epoch, lost, .. } = given;
    Allocation { value: Seq(value), prev: Seq(prev), epoch: Epoch(epoch), lost }
}

pub(super) fn current(read: seq_client::Current) -> Current {
    Current { reading: Reading { value: Seq(read.value), exact: read.exact }, epoch: Epoch(read.epoch) }
}

impl SequenceService for ProxyService {
    async fn next(&self, call: Call, item: Item) -> Result<Allocation, Refusal> {
        let result = self.client(call).next_n(item.uid.0, item.count.get()).await;
        result.map(allocation).map_err(|error| self.refusal_of(&error, &item))
    }

    fn try_next_batch(&self, _via: Via, items: &[DecodedItem], replies: &mut Vec<ItemReply<Allocation>>) {
        // This process owns no section, so every item that the endpoint did not refuse has to be sent to an owner.
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
        let result = match self.counter_at(call, uid) {
            Some(counter) => counter.current().await,
            None => self.client(call).current(uid.0).await.map(current),
        };
        result.map_err(|error| self.refusal(&error, (uid, 1), None))
    }

    async fn current_many(&self, call: Call, uids: Vec<(Uid, Epoch)>) -> Vec<Result<Current, Refusal>> {
        let requests: Vec<u64> = uids.iter().map(|(uid, _)| uid.0).collect();
        match self.client(call).current_many(&requests).await {
            Ok(results) => {
                let results = uids.iter().zip(results);
                results
                    .map(|((uid, _), result)| {
                        result.map(current).map_err(|error| self.refusal(&error, (*uid, 1), None))
                    })
                    .collect()
            }
            Err(error) => uids.iter().map(|(uid, _)| Err(self.refusal(&error, (*uid, 1), None))).collect(),
        }
    }

    async fn advance(&self, call: Call, uid: Uid, to: Target, _epoch: Epoch) -> Result<Epoch, Refusal> {
        let result = match self.counter_at(call, uid) {
            Some(counter) => {
                let advanced = counter.advance(to).await;
                advanced.ok_or(Refusal::Exhausted { uid, count: 1 })?
            }
            None => self.client(call).advance(uid.0, to.seq().0).await.map(Epoch),
        };
        result.map_err(|error| self.refusal(&error, (uid, 1), Some(to.seq().0)))
    }

    async fn next_in_series(&self, call: Call, request: &IdRequest) -> Result<(u32, Allocation), Refusal> {
        let IdRequest { series, count, lane, after } = request;
        let address = series.address(lane.unwrap_or(0));
        let refused = |error: &CallError| self.refusal(error, (address, count.get()), Some(*after));
        // The series in the request was taken from the client's current routes or from older routes.
        let Some(mut known) = self.client(call).known_series(&series.name) else {
            let section = series.sections.first;
            return Err(Refusal::Unserved { section });
        };
        if let Some(lane) = lane {
            known = known.lane(*lane);
        }
        if let Some(after) = Id::new(*after) {
            known = known.after(after);
        }
        let ids = known.take(count.get()).await.map_err(|error| refused(&error))?;
        // The ids of one lane were made of consecutive numbers.
        let last = series.shape.parts(ids.last_id()).filter(|last| last.value >= count.get().into());
        let last = last.ok_or(Refusal::OwnerConnectionLost { section: series.sections.first, owner: NodeId(0) })?;
        let taken = Allocation { value: Seq(last.value), prev: Seq::ZERO, epoch: Epoch(ids.epoch()), lost: 0 };
        Ok((last.lane, taken))
    }

    fn series(&self, name: &str) -> Option<Arc<IdSeries>> {
        self.client.known_series(name).as_ref().map(served)
    }

    fn all_series(&self) -> Vec<Arc<IdSeries>> {
        self.client.all_known_series().iter().map(served).collect()
    }

    fn keyspace(&self, name: &str) -> Option<Arc<Keyspace>> {
        self.client.known_keyspace(name).map(|keyspace| Arc::new(keys::served(&keyspace)))
    }

    async fn next_whole_keys(
        &self,
        call: Call,
        keyspace: &Keyspace,
        keys: &[WholeKey<'_>],
    ) -> Vec<Result<Allocation, KeyRefused>> {
        self.next_keys_at_owners(call, keyspace, keys).await
    }

    async fn current_whole_keys(
        &self,
        call: Call,
        keyspace: &Keyspace,
        keys: &[WholeKey<'_>],
    ) -> Vec<Result<Current, KeyRefused>> {
        self.current_keys_at_owners(call, keyspace, keys).await
    }

    async fn advance_whole_key(
        &self,
        call: Call,
        keyspace: &Keyspace,
        key: WholeKey<'_>,
        to: Target,
    ) -> Result<Epoch, KeyRefused> {
        self.advance_key_at_owner(call, keyspace, key, to).await
    }

    fn route_version(&self) -> RouteVersion {
        self.client.route_version()
    }

    fn routes_since(&self, since: RouteVersion) -> Option<RouteUpdate> {
        // Only the whole table is available. Changes since a version are known only for the routes of a single set, but
        // this table has the routes of all sets.
        if since == RouteVersion(0) { self.client.routes() } else { None }
    }
}
