//! A minimal service behind the real endpoints.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;
use seq_api::ids::IdSeries;
use seq_api::keys::{HashedKey, KeyedItems, Keyspace};
use seq_api::service::{Allocation, Call, Current, DecodedItem, Item, ItemReply, Redirects, SequenceService, Via};
use seq_core::keyspace::{BUCKETS, Hashing, KeyHash, Seed};
use seq_core::layout::{Lanes, SectionRun};
use seq_core::route::{RouteNode, RouteRun, RouteTable, RouteUpdate};
use seq_core::{Epoch, Layout, NodeId, Reading, Refusal, RouteVersion, SectionId, Seq, Target, Uid};
use seq_gateway::grpc::Node;
use seq_kit::admission::{Admission, ConnectionMetrics};
use seq_kit::http::Checks;
use seq_kit::listen;
use seq_kit::memory::MemoryBudget;
use seq_kit::tasks::TaskGroup;
use seq_proto::v1;
use seq_tenant::Tenants;
use tokio::sync::watch;
use tonic::service::Routes;
use tonic::transport::{Channel, Endpoint};

use crate::series;

/// Uids of the twin's set.
pub(crate) const UIDS: u64 = 1_000;

/// Service that counts in a map. Clones are handles on it.
#[derive(Clone, Default)]
pub(crate) struct Twin {
    inner: Arc<Mutex<Inner>>,
    /// The uids whose requests wait, and the sections of keys whose requests wait.
    held: watch::Sender<BTreeSet<u64>>,
    /// Whether the node is ready.
    pub(crate) ready: Arc<AtomicBool>,
    /// Whether no section has an owner.
    unserved: Arc<AtomicBool>,
    /// Whether the last numbers of keys are read as upper bounds.
    pub(crate) bounds_of_keys: Arc<AtomicBool>,
}

/// Returns the refusal of a call for a section of another node, or of a section without an owner.
fn not_owned(routes: Option<&RouteTable>, call: Call, section: SectionId) -> Result<(), Refusal> {
    match routes.and_then(|routes| routes.get(section)).map(|route| route.owner) {
        Some(None) => Err(Refusal::Unserved { section }),
        Some(owner) if owner != Some(NodeId(1)) && call.redirects == Redirects::Refuse => {
            Err(Refusal::NotOwner { section, owner })
        }
        _ => Ok(()),
    }
}

#[derive(Default)]
struct Inner {
    last: BTreeMap<Uid, u64>,
    keys: BTreeMap<KeyHash, u64>,
    /// Every call from the endpoint.
    calls: Vec<Call>,
    /// The refusal of calls that wait until their deadline.
    stalled: Option<Refusal>,
    routes: Option<RouteTable>,
    routes_made: usize,
}

impl Twin {
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.inner.lock().calls.clone()
    }

    /// Returns how often the endpoint computed a route update.
    pub(crate) fn routes_made(&self) -> usize {
        self.inner.lock().routes_made
    }

    /// Returns the last number of a uid.
    pub(crate) fn last(&self, uid: u64) -> u64 {
        self.inner.lock().last.get(&Uid(uid)).copied().unwrap_or(0)
    }

    /// Makes node 1 the owner of all sections, in version `version` of the routes.
    pub(crate) fn route(&self, version: u64) {
        let layout = Layout::new(0..UIDS, 100).unwrap();
        let node = RouteNode { name: "a1".to_owned(), addr: "127.0.0.1:7100".to_owned() };
        let route = seq_core::route::Route::here(Some(NodeId(1)), Epoch(version));
        let update = RouteUpdate {
            series: [].into(),
            id: seq_core::SetId(7),
            sets: BTreeMap::new(),
            set: "test".to_owned(),
            layout,
            version: RouteVersion(version),
            base: RouteVersion(0),
            nodes: BTreeMap::from([(NodeId(1), node)]),
            runs: vec![RouteRun { first: SectionId(0), sections: 10, route }],
        };
        self.inner.lock().routes = RouteTable::from_whole(&update);
    }

    /// Makes the nodes 1 and 2, and from then on others, the owners of ranges of slots of the keyspace, in version
    /// `version` of the routes. Each range has its last slot; the first range begins at slot 0. The twin is node 1 and
    /// refuses calls for slots of other nodes if the calls' clients follow redirects.
    pub(crate) fn route_slots(&self, version: u64, owners: &[(u16, Option<u32>)]) {
        let layout = Layout::new(0..UIDS, 100).unwrap();
        let lanes = Lanes::of_keyspace(Hashing::new(Seed::new([7; 16])));
        let (layout, buckets) = layout.append(lanes).unwrap();
        let node = |id: u32| RouteNode { name: format!("a{id}"), addr: format!("127.0.0.1:710{id}") };
        let mut first = buckets.first.0;
        let runs = owners.iter().map(|(last, owner)| {
            let sections = buckets.first.0 + u32::from(*last) + 1 - first;
            let route = seq_core::route::Route::here(owner.map(NodeId), Epoch(version));
            let run = RouteRun { first: SectionId(first), sections, route };
            first += sections;
            run
        });
        let update = RouteUpdate {
            series: [].into(),
            id: seq_core::SetId(7),
            sets: BTreeMap::new(),
            set: "test".to_owned(),
            layout,
            version: RouteVersion(version),
            base: RouteVersion(0),
            nodes: (1..=3).map(|id| (NodeId(id), node(id))).collect(),
            runs: runs.collect(),
        };
        self.inner.lock().routes = RouteTable::from_whole(&update);
    }

    /// Lets the requests for exactly these uids, and for the keys of exactly these sections, wait.
    pub(crate) fn hold(&self, uids: &[u64]) {
        self.held.send_replace(uids.iter().copied().collect());
    }

    /// Refuses every request for numbers, or no request.
    pub(crate) fn refuse(&self, all: bool) {
        self.unserved.store(all, Relaxed);
    }

    /// Lets calls wait until their deadline, and then refuses them; `None` ends this.
    pub(crate) fn stall(&self, refusal: Option<Refusal>) {
        self.inner.lock().stalled = refusal;
    }

    async fn stalled(&self, call: Call) -> Result<(), Refusal> {
        let Some(refusal) = self.inner.lock().stalled else { return Ok(()) };
        tokio::time::sleep_until(call.deadline).await;
        Err(refusal)
    }

    /// Takes numbers of a lane, all of them above a number.
    fn take_in_lane(&self, ask: Item, above: Seq) -> Result<Allocation, Refusal> {
        if self.unserved.load(Relaxed) {
            return Err(Refusal::Unserved { section: SectionId(10) });
        }
        let mut inner = self.inner.lock();
        let last = inner.last.entry(ask.uid).or_default();
        let series = series::of(ask.uid);
        let next = series::first(&series).max(*last + 1);
        if above.0 > next + 1_000_000 && above.0 > series::last(&series) {
            return Err(Refusal::AfterTooFar { section: SectionId(10), above });
        }
        let prev = *last;
        let value = next.max(above.0 + 1) + u64::from(ask.count.get()) - 1;
        if value > series.shape.last_value() {
            return Err(Refusal::Exhausted { uid: ask.uid, count: ask.count.get() });
        }
        *last = value;
        Ok(Allocation { value: Seq(*last), prev: Seq(prev), epoch: Epoch(1), lost: 0 })
    }

    fn take(&self, ask: Item) -> Result<Allocation, Refusal> {
        if ask.uid.0 >= UIDS {
            return Err(Refusal::UidOutOfRange { uid: ask.uid, start: 0, end: UIDS });
        }
        if self.unserved.load(Relaxed) {
            return Err(Refusal::Unserved { section: SectionId(0) });
        }
        let mut inner = self.inner.lock();
        let last = inner.last.entry(ask.uid).or_default();
        let prev = *last;
        *last += u64::from(ask.count.get());
        Ok(Allocation { value: Seq(*last), prev: Seq(prev), epoch: Epoch(1), lost: 0 })
    }

    fn read(&self, uid: Uid) -> Result<Current, Refusal> {
        if uid.0 >> 63 == 1 {
            let (value, exact) = (Seq(self.last(uid.0)), series::of(uid).name != "tickets");
            return Ok(Current { reading: Reading { value, exact }, epoch: Epoch(1) });
        }
        if uid.0 >= UIDS {
            return Err(Refusal::UidOutOfRange { uid, start: 0, end: UIDS });
        }
        let value = Seq(self.last(uid.0));
        Ok(Current { reading: Reading { value, exact: uid.0.is_multiple_of(2) }, epoch: Epoch(1) })
    }
}

impl SequenceService for Twin {
    async fn next(&self, call: Call, ask: Item) -> Result<Allocation, Refusal> {
        self.inner.lock().calls.push(call);
        self.stalled(call).await?;
        self.take(ask)
    }

    fn try_next_batch(&self, _: Via, items: &[DecodedItem], results: &mut Vec<ItemReply<Allocation>>) {
        let held = self.held.borrow();
        for item in items {
            let stalled = self.inner.lock().stalled.is_some();
            let waits = item.is_ok_and(|item| stalled || held.contains(&item.uid.0));
            results.push((!waits).then(|| item.and_then(|item| self.take(item))));
        }
    }

    async fn complete_batch(&self, call: Call, items: &[DecodedItem], results: &mut [ItemReply<Allocation>]) {
        self.inner.lock().calls.push(call);
        let stalled = self.stalled(call).await;
        for (item, result) in items.iter().zip(results) {
            if let Err(refusal) = stalled {
                *result = Some(Err(refusal));
            } else if result.is_none() {
                let item = item.unwrap();
                self.held.subscribe().wait_for(|held| !held.contains(&item.uid.0)).await.unwrap();
                *result = Some(self.take(item));
            }
        }
    }

    async fn next_many(&self, call: Call, items: &[DecodedItem]) -> Vec<Result<Allocation, Refusal>> {
        self.inner.lock().calls.push(call);
        let stalled = self.stalled(call).await;
        items.iter().map(|item| stalled.and_then(|()| self.take((*item)?))).collect()
    }

    async fn current(&self, call: Call, uid: Uid, _: Epoch) -> Result<Current, Refusal> {
        self.inner.lock().calls.push(call);
        self.stalled(call).await?;
        self.read(uid)
    }

    async fn current_many(&self, call: Call, uids: Vec<(Uid, Epoch)>) -> Vec<Result<Current, Refusal>> {
        self.inner.lock().calls.push(call);
        let stalled = self.stalled(call).await;
        uids.into_iter().map(|(uid, _)| stalled.and_then(|()| self.read(uid))).collect()
    }

    async fn advance(&self, call: Call, uid: Uid, to: Target, _: Epoch) -> Result<Epoch, Refusal> {
        self.stalled(call).await?;
        let mut inner = self.inner.lock();
        inner.calls.push(call);
        let last = inner.last.entry(uid).or_default();
        if *last > to.seq().0 {
            return Err(Refusal::AlreadyPast { uid });
        }
        *last = to.seq().0;
        Ok(Epoch(1))
    }

    async fn next_in_lane(&self, call: Call, ask: Item, above: Seq) -> Result<Allocation, Refusal> {
        self.inner.lock().calls.push(call);
        self.stalled(call).await?;
        self.take_in_lane(ask, above)
    }

    fn keyspace(&self, name: &str) -> Option<Arc<Keyspace>> {
        let (hashing, sections) = (Hashing::new(Seed::new([7; 16])), BUCKETS.into());
        let buckets = SectionRun { first: SectionId(10), sections };
        // The keys of "users" are uids.
        let keyspace = Keyspace { name: name.to_owned(), hashing: hashing.with_uids(name == "users"), buckets };
        (["main", "users"].contains(&name) && self.route_version() > RouteVersion(0)).then(|| Arc::new(keyspace))
    }

    async fn next_keys(&self, call: Call, items: KeyedItems) -> Vec<Result<Allocation, Refusal>> {
        let is_held = |held: &BTreeSet<u64>| items.items.iter().any(|item| held.contains(&item.key.section.0.into()));
        self.held.subscribe().wait_for(|held| !is_held(held)).await.unwrap();
        let mut inner = self.inner.lock();
        inner.calls.push(call);
        let routes = inner.routes.clone();
        let mut take = |key: HashedKey, count: u64| {
            not_owned(routes.as_ref(), call, key.section)?;
            let last: &mut u64 = inner.keys.entry(key.hash).or_default();
            // The numbers of keys end here at the highest number to which one can be raised.
            if *last + count >= 1 << 62 {
                return Err(Refusal::Exhausted { uid: Uid(0), count: count as u32 });
            }
            let prev = std::mem::replace(last, *last + count);
            Ok(Allocation { value: Seq(*last), prev: Seq(prev), epoch: Epoch(1), lost: 0 })
        };
        items.items.iter().map(|item| take(item.key, item.count.get().into())).collect()
    }

    async fn current_keys(&self, call: Call, items: KeyedItems) -> Vec<Result<Current, Refusal>> {
        let mut inner = self.inner.lock();
        inner.calls.push(call);
        let exact = !self.bounds_of_keys.load(Relaxed);
        let value = |hash| Seq(inner.keys.get(&hash).copied().unwrap_or(0));
        let current = |key: HashedKey| {
            not_owned(inner.routes.as_ref(), call, key.section)?;
            Ok(Current { reading: Reading { value: value(key.hash), exact }, epoch: Epoch(1) })
        };
        items.items.iter().map(|item| current(item.key)).collect()
    }

    async fn advance_keys(&self, call: Call, items: KeyedItems, to: Target) -> Vec<Result<Epoch, Refusal>> {
        let mut inner = self.inner.lock();
        inner.calls.push(call);
        let routes = inner.routes.clone();
        let mut advance = |key: HashedKey| {
            not_owned(routes.as_ref(), call, key.section)?;
            let last: &mut u64 = inner.keys.entry(key.hash).or_default();
            if *last > to.seq().0 {
                return Err(Refusal::AlreadyPast { uid: Uid(0) });
            }
            *last = to.seq().0;
            Ok(Epoch(1))
        };
        items.items.iter().map(|item| advance(item.key)).collect()
    }

    fn all_series(&self) -> Vec<Arc<IdSeries>> {
        if self.route_version() == RouteVersion(0) { Vec::new() } else { series::all() }
    }

    fn choose_lane(&self, series: &IdSeries, _attempt: u32) -> Option<u32> {
        Some(series::LANE.min(series.lanes.count - 1))
    }

    fn route_version(&self) -> RouteVersion {
        self.inner.lock().routes.as_ref().map_or(RouteVersion(0), RouteTable::version)
    }

    fn routes_since(&self, since: RouteVersion) -> Option<RouteUpdate> {
        let mut inner = self.inner.lock();
        inner.routes_made += 1;
        inner.routes.as_ref()?.since(since)
    }
}

/// The twin behind a gRPC endpoint, and a connection to it.
pub(crate) struct TestServer {
    pub(crate) twin: Twin,
    pub(crate) group: TaskGroup,
    pub(crate) addr: SocketAddr,
    pub(crate) channel: Channel,
}

impl TestServer {
    pub(crate) async fn open() -> TestServer {
        TestServer::open_for(1_000).await
    }

    /// Starts a server whose GETs allocate numbers, or do not.
    pub(crate) async fn open_with(allocate_on_get: bool) -> TestServer {
        TestServer::open_as(1_000, allocate_on_get).await
    }

    /// Starts a server that admits `connections` connections, one of which it opens itself.
    pub(crate) async fn open_for(connections: usize) -> TestServer {
        TestServer::open_as(connections, false).await
    }

    /// Starts a server whose requests hold memory of `memory`.
    pub(crate) async fn open_within(memory: MemoryBudget) -> TestServer {
        TestServer::open_full(1_000, false, memory, None).await
    }

    /// Starts a server whose callers are of tenants.
    pub(crate) async fn open_to(tenants: Tenants) -> TestServer {
        TestServer::open_full(1_000, true, MemoryBudget::unlimited(), Some(tenants)).await
    }

    async fn open_as(connections: usize, allocate_on_get: bool) -> TestServer {
        TestServer::open_full(connections, allocate_on_get, MemoryBudget::unlimited(), None).await
    }

    async fn open_full(
        connections: usize,
        allocate_on_get: bool,
        memory: MemoryBudget,
        tenants: Option<Tenants>,
    ) -> TestServer {
        let twin = Twin::default();
        let group = TaskGroup::new();
        let listener = listen::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap().remove(0);
        let addr = listener.local_addr().unwrap();
        let status = || v1::StatusResponse { node: "a1".to_owned(), ..v1::StatusResponse::default() };
        let (flag, mut ready) = (twin.ready.clone(), Checks::new());
        ready.add("twin", move || if flag.load(Relaxed) { Ok(()) } else { Err("not yet".to_owned()) });
        let (beside, admission) = (Routes::default(), Admission::of("a1", connections, ConnectionMetrics::none()));
        let node = Node { admin: Arc::new(status), ready, beside, admission, allocate_on_get, tenants, memory };
        seq_gateway::grpc::serve(twin.clone(), node, listener, &group).unwrap();
        let channel = Endpoint::from_shared(format!("http://{addr}")).unwrap().connect().await.unwrap();
        TestServer { twin, group, addr, channel }
    }

    pub(crate) fn client(&self) -> v1::sequence_service_client::SequenceServiceClient<Channel> {
        v1::sequence_service_client::SequenceServiceClient::new(self.channel.clone())
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.group.cancel();
    }
}
