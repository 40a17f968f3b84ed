//! The service of a node of a fake cluster: the counters and routes of the cluster's [`World`], behind the faults of
//! the node. The endpoints of a real node serve it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use seq_api::ids::IdSeries;
use seq_api::keys::{KeyedItem, KeyedItems, Keyspace};
use seq_api::service::{Allocation, Call, Current, DecodedItem, Item, ItemReply, SequenceService, Via};
use seq_client::fake::World;
use seq_command::utc;
use seq_core::route::RouteUpdate;
use seq_core::{Count, Epoch, Refusal, RouteVersion, SectionId, Seq, Target, Uid};
use seq_proto::Reason;

use super::faults::{Faults, Refused, refusal};

/// Series and keyspaces of a cluster, in the form that endpoints use.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) series: Vec<Arc<IdSeries>>,
    pub(super) keyspaces: Vec<Arc<Keyspace>>,
}

/// The service of a node.
#[derive(Clone, Debug)]
pub(super) struct FakeService {
    /// Index of the node's set.
    pub(super) set: usize,
    pub(super) world: Arc<World>,
    pub(super) names: Arc<Names>,
    pub(super) faults: Arc<Faults>,
    /// Number of lanes that the node has chosen.
    pub(super) chosen: Arc<AtomicU32>,
}

/// Returns the refusal of an item on request.
fn refused(reason: Reason, item: Refused) -> Refusal {
    refusal(reason, item).expect("the reason was checked when the fault was requested")
}

impl FakeService {
    /// Applies a request to its items, with the faults of the node. Returns the results in the order of the items.
    async fn request<I: Copy, R>(
        &self,
        call: Call,
        items: &[I],
        place: impl Fn(I) -> Refused,
        apply: impl Fn(I) -> Result<R, Refusal>,
    ) -> Vec<Result<R, Refusal>> {
        let reason = self.faults.admit(call.deadline).await;
        let result = |item: &I| match reason {
            Some(reason) => Err(refused(reason, place(*item))),
            None => apply(*item),
        };
        let results = items.iter().map(result).collect();
        self.faults.respond().await;
        results
    }

    /// Does the same as [`FakeService::request`] for one item.
    async fn one<R>(&self, call: Call, item: Item, apply: impl Fn(Item) -> Result<R, Refusal>) -> Result<R, Refusal> {
        let apply = |item: Item| self.unless_refused(item).and_then(|()| apply(item));
        let mut results = self.request(call, &[item], |item| self.place(item), apply).await;
        results.pop().expect("one result for one item")
    }

    /// Returns the refusal of an item that a fault refuses because of its uid.
    fn unless_refused(&self, item: Item) -> Result<(), Refusal> {
        let reason = self.faults.of_uid(item.uid);
        reason.map_or(Ok(()), |reason| Err(refused(reason, self.place(item))))
    }

    fn place(&self, Item { uid, count, epoch }: Item) -> Refused {
        // A uid outside of the cluster is in no section, and the text of its refusal names the first one.
        let section = self.world.section_of(uid).unwrap_or(SectionId(0));
        Refused { uid, section, count: count.get(), epoch }
    }

    fn take(&self, item: Item) -> Result<Allocation, Refusal> {
        self.world.next(self.set, item.uid, item.count, item.epoch).map(allocation)
    }

    fn take_decoded(&self, item: DecodedItem) -> Result<Allocation, Refusal> {
        let item = item?;
        self.unless_refused(item)?;
        self.take(item)
    }

    fn read(&self, uid: Uid, epoch: Epoch) -> Result<Current, Refusal> {
        let (reading, epoch) = self.world.current(self.set, uid, epoch)?;
        Ok(Current { reading, epoch })
    }

    /// Returns whether the keys are hashed under the seed of a keyspace.
    fn knows(&self, keyed: &KeyedItems) -> bool {
        self.names.keyspaces.iter().any(|keyspace| keyspace.hashing.digest() == keyed.digest)
    }

    /// Applies a request for keys. A keyspace is known by the digest of its seed.
    async fn keys<R>(
        &self,
        call: Call,
        keyed: &KeyedItems,
        apply: impl Fn(KeyedItem) -> Result<R, Refusal>,
    ) -> Vec<Result<R, Refusal>> {
        let is_known = self.knows(keyed);
        let place = |KeyedItem { key, count, epoch }: KeyedItem| Refused {
            uid: Uid(0),
            section: key.section,
            count: count.get(),
            epoch,
        };
        let apply = |item: KeyedItem| match is_known {
            true => apply(item),
            false => Err(Refusal::Unserved { section: item.key.section }),
        };
        self.request(call, &keyed.items, place, apply).await
    }
}

fn allocation((value, prev, epoch): (Seq, Seq, Epoch)) -> Allocation {
    Allocation { value, prev, epoch, lost: 0 }
}

impl SequenceService for FakeService {
    async fn next(&self, call: Call, item: Item) -> Result<Allocation, Refusal> {
        self.one(call, item, |item| self.take(item)).await
    }

    /// Leaves all items to [`SequenceService::complete_batch`] if they may run into a fault, because a fault takes
    /// time.
    fn try_next_batch(&self, _: Via, items: &[DecodedItem], replies: &mut Vec<ItemReply<Allocation>>) {
        let is_calm = self.faults.is_calm();
        replies.extend(items.iter().map(|item| is_calm.then(|| self.take_decoded(*item))));
    }

    async fn complete_batch(&self, call: Call, items: &[DecodedItem], replies: &mut [ItemReply<Allocation>]) {
        let left: Vec<DecodedItem> =
            items.iter().zip(&*replies).filter(|(_, reply)| reply.is_none()).map(|(item, _)| *item).collect();
        let place = |item: DecodedItem| match item {
            Ok(item) => self.place(item),
            Err(_) => Refused { uid: Uid(0), section: SectionId(0), count: 0, epoch: Epoch(0) },
        };
        let results = self.request(call, &left, place, |item| self.take_decoded(item)).await;
        for (reply, result) in replies.iter_mut().filter(|reply| reply.is_none()).zip(results) {
            *reply = Some(result);
        }
    }

    async fn current(&self, call: Call, uid: Uid, epoch: Epoch) -> Result<Current, Refusal> {
        self.one(call, Item { uid, count: Count::ONE, epoch }, |item| self.read(item.uid, item.epoch)).await
    }

    async fn current_many(&self, call: Call, uids: Vec<(Uid, Epoch)>) -> Vec<Result<Current, Refusal>> {
        let items: Vec<Item> = uids.into_iter().map(|(uid, epoch)| Item { uid, count: Count::ONE, epoch }).collect();
        let read = |item: Item| self.unless_refused(item).and_then(|()| self.read(item.uid, item.epoch));
        self.request(call, &items, |item| self.place(item), read).await
    }

    async fn advance(&self, call: Call, uid: Uid, to: Target, epoch: Epoch) -> Result<Epoch, Refusal> {
        let item = Item { uid, count: Count::ONE, epoch };
        self.one(call, item, |item| self.world.advance(self.set, item.uid, to, item.epoch)).await
    }

    async fn next_in_lane(&self, call: Call, item: Item, above: Seq) -> Result<Allocation, Refusal> {
        let take = |Item { uid, count, epoch }: Item| {
            self.world.next_in_lane(self.set, (uid, epoch), count, (above, utc::now_ms())).map(allocation)
        };
        self.one(call, item, take).await
    }

    fn all_series(&self) -> Vec<Arc<IdSeries>> {
        self.names.series.clone()
    }

    fn choose_lane(&self, series: &IdSeries, _: u32) -> Option<u32> {
        Some(self.chosen.fetch_add(1, Relaxed) % series.lanes.count)
    }

    fn keyspace(&self, name: &str) -> Option<Arc<Keyspace>> {
        self.names.keyspaces.iter().find(|keyspace| keyspace.name == name).cloned()
    }

    async fn next_keys(&self, call: Call, items: KeyedItems) -> Vec<Result<Allocation, Refusal>> {
        let take = |KeyedItem { key, count, epoch }: KeyedItem| {
            self.world.next_key(self.set, (key.section, key.hash), count, epoch).map(allocation)
        };
        self.keys(call, &items, take).await
    }

    fn try_next_keys(&self, _: Via, items: &KeyedItems) -> Vec<ItemReply<Allocation>> {
        let is_calm = self.faults.is_calm() && self.knows(items);
        let take = |KeyedItem { key, count, epoch }: &KeyedItem| {
            self.world.next_key(self.set, (key.section, key.hash), *count, *epoch).map(allocation)
        };
        items.items.iter().map(|item| is_calm.then(|| take(item))).collect()
    }

    async fn current_keys(&self, call: Call, items: KeyedItems) -> Vec<Result<Current, Refusal>> {
        let read = |KeyedItem { key, epoch, .. }: KeyedItem| {
            let (reading, epoch) = self.world.current_key(self.set, (key.section, key.hash), epoch)?;
            Ok(Current { reading, epoch })
        };
        self.keys(call, &items, read).await
    }

    async fn advance_keys(&self, call: Call, items: KeyedItems, to: Target) -> Vec<Result<Epoch, Refusal>> {
        let advance = |KeyedItem { key, epoch, .. }: KeyedItem| {
            self.world.advance_key(self.set, (key.section, key.hash), to, epoch)
        };
        self.keys(call, &items, advance).await
    }

    fn route_version(&self) -> RouteVersion {
        self.world.route_version(self.set)
    }

    fn routes_since(&self, since: RouteVersion) -> Option<RouteUpdate> {
        self.world.routes_since(self.set, since)
    }
}
