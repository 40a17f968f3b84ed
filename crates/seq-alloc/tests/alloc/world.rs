//! A store and nodes of a set in one process, on ports of the kernel's choice. A world may have another set.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use seq_alloc::{AllocConfig, AllocOptions, Allocator};
use seq_api::clock::Clock;
use seq_api::service::{Allocation, Call, Item, Redirects, SequenceService, Via};
use seq_core::layout::SectionRun;
use seq_core::set_spec::{AllocSpec, Genesis, SetSpec, StoreSpec};
use seq_core::state::{Home, SetDefinition};
use seq_core::{Count, Epoch, Layout, Refusal, SectionId, Seq, SetId, Uid};
use seq_gateway::grpc;
use seq_kit::admission::{Admission, ConnectionMetrics};
use seq_kit::http::Checks;
use seq_kit::listen;
use seq_kit::memory::MemoryBudget;
use seq_kit::tasks::TaskGroup;
use seq_proto::dial::Dial;
use seq_proto::v1;
use tokio::time::Instant;

use crate::store::Store;

/// Timeout of every wait of a test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Uids in a section.
pub(crate) const SIZE: u64 = 100;
/// Sections in the set.
pub(crate) const SECTIONS: u32 = 100;
/// Step of raises.
pub(crate) const STEP: u64 = 10;

pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) spec: SetSpec,
    pub(crate) group: TaskGroup,
}

/// AllocSvr with its own task group, so that it can be stopped alone.
pub(crate) struct Node {
    pub(crate) allocator: Allocator,
    pub(crate) group: TaskGroup,
    pub(crate) addr: SocketAddr,
}

impl World {
    pub(crate) fn new() -> World {
        World::of("test")
    }

    /// Starts a world of the named set.
    pub(crate) fn of(set: &str) -> World {
        World::sized(set, SECTIONS)
    }

    /// Starts a world of a set with so many sections.
    pub(crate) fn sized(set: &str, sections: u32) -> World {
        World::defined(SetDefinition::only(set, Layout::new(0..SIZE * u64::from(sections), SIZE as u32).unwrap()))
    }

    /// Starts a world of a set in which only the first sections begin.
    pub(crate) fn with_homes(set: &str, sections: u32) -> World {
        let layout = Layout::new(0..SIZE * u64::from(SECTIONS), SIZE as u32).unwrap();
        let SetDefinition { id, .. } = SetDefinition::only(set, layout.clone());
        let home = |first, sections, set| Home { sections: SectionRun { first: SectionId(first), sections }, set };
        let homes = vec![home(0, sections, id), home(sections, SECTIONS - sections, SetId(99))];
        World::defined(SetDefinition { name: set.to_owned(), id, layout, homes })
    }

    fn defined(definition: SetDefinition) -> World {
        let group = TaskGroup::new();
        let (name, uids) = (definition.name.clone(), definition.layout.uids());
        let store = Store::new(definition);
        let addr = store.serve(&group);
        World { spec: SetSpec { name, uids, ..spec(&[addr]) }, store, group }
    }

    /// Starts the world of another set of the same cluster, which begins without sections.
    pub(crate) fn beside(&self, set: &str) -> World {
        let first = self.store.state.lock().set.clone().expect("it is defined");
        let SetDefinition { id, .. } = SetDefinition::only(set, first.layout.clone());
        World::defined(SetDefinition { name: set.to_owned(), id, ..first })
    }

    /// Starts a node that renews often.
    pub(crate) fn start(&self, name: &str) -> Node {
        self.start_with(name, quick())
    }

    pub(crate) fn start_with(&self, name: &str, options: AllocOptions) -> Node {
        self.start_dialing(name, options, &Dial::tcp())
    }

    /// Starts a node that connects to the store and the other nodes by `dial`.
    pub(crate) fn start_dialing(&self, name: &str, options: AllocOptions, dial: &Dial) -> Node {
        let listener = listen::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap().remove(0);
        let addr = listener.local_addr().unwrap();
        let advertise = addr.to_string();
        let group = TaskGroup::new();
        let (spec, name) = (self.spec.clone(), name.to_owned());
        let config = AllocConfig {
            spec,
            name: name.clone(),
            advertise,
            advertise_to_peers: None,
            replace: false,
            process: fastrand::u64(1..),
            options,
            clock: Clock::System,
            events: Default::default(),
        };
        let allocator = Allocator::start_with(config, dial, &group).unwrap();
        let admin = Arc::new(v1::StatusResponse::default);
        let (beside, admission) =
            (allocator.handover_service(), Admission::of(&name, 1_000, ConnectionMetrics::none()));
        let node = grpc::Node {
            admin,
            ready: Checks::new(),
            beside,
            admission,
            allocate_on_get: false,
            tenants: None,
            memory: MemoryBudget::unlimited(),
        };
        grpc::serve(allocator.clone(), node, listener, &group).unwrap();
        Node { allocator, group, addr }
    }

    /// Starts a node and gives it sections.
    pub(crate) async fn start_owning(&self, name: &str, sections: std::ops::Range<u32>) -> Node {
        self.start_owning_with(name, sections, quick()).await
    }

    pub(crate) async fn start_owning_with(
        &self,
        name: &str,
        sections: std::ops::Range<u32>,
        options: AllocOptions,
    ) -> Node {
        let before = self.store.incarnation(name);
        let node = self.start_with(name, options);
        self.registered_after(name, before).await;
        self.store.assign(name, sections.clone());
        until("the sections are granted", || node.allocator.status().sections == sections.len() as u32).await;
        node
    }

    pub(crate) async fn registered_after(&self, name: &str, before: Option<seq_core::Incarnation>) {
        until("the node registers", || self.store.incarnation(name) > before).await;
    }

    /// Waits until the nodes hold the newest routes.
    pub(crate) async fn routed(&self, nodes: &[&Node]) {
        let newest = self.store.state.lock().route_version;
        until("routes arrive", || nodes.iter().all(|node| node.allocator.route_version() >= newest)).await;
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.group.cancel();
    }
}

impl Node {
    pub(crate) async fn next(&self, uid: u64) -> Result<Allocation, Refusal> {
        self.allocator.next(call(), ask(uid, 1)).await
    }

    /// Allocates like [`Node::next`], in a call that waits a short time.
    pub(crate) async fn impatient(&self, uid: u64) -> Result<Allocation, Refusal> {
        self.allocator.next(impatient(), ask(uid, 1)).await
    }

    /// Allocates for a batch, and returns the last number of each item.
    pub(crate) async fn next_many(&self, asks: &[(u64, u32)]) -> Vec<Result<u64, Refusal>> {
        let asks: Vec<_> = asks.iter().map(|(uid, count)| Ok(ask(*uid, *count))).collect();
        let results = self.allocator.next_many(call(), &asks).await;
        results.into_iter().map(|result| result.map(|given| given.value.0)).collect()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.group.cancel();
    }
}

pub(crate) fn spec(stores: &[SocketAddr]) -> SetSpec {
    let store = |(id, addr): (u64, &SocketAddr)| StoreSpec {
        id,
        name: format!("s{id}"),
        addr: addr.to_string(),
        raft: format!("127.0.0.1:3{id}"),
        admin: None,
        http: format!("127.0.0.1:{id}"),
        listen: Default::default(),
    };
    let alloc = |name: &str, port: u16| AllocSpec {
        name: name.to_owned(),
        addr: format!("127.0.0.1:{port}"),
        peer: format!("127.0.0.1:{}", port + 2),
        http: format!("127.0.0.1:{}", port + 1),
        redis: None,
        redis_cluster: None,
        weight: 1,
        listen: Default::default(),
    };
    SetSpec {
        name: "test".to_owned(),
        uids: 0..SIZE * u64::from(SECTIONS),
        section_size: SIZE as u32,
        step: STEP,
        stores: (1..).zip(stores).map(store).collect(),
        allocs: vec![alloc("a1", 11), alloc("a2", 21)],
        genesis: Genesis::Start,
    }
}

/// Returns options for tests, with intervals of milliseconds instead of parts of a second.
pub(crate) fn quick() -> AllocOptions {
    AllocOptions {
        renew_interval: Duration::from_millis(10),
        min_renew_interval: Duration::from_millis(5),
        retry_min: Duration::from_millis(2),
        retry_max: Duration::from_millis(20),
        ..AllocOptions::DEFAULTS
    }
}

/// Returns options of a node that renews only when it has a cause to.
pub(crate) fn slow() -> AllocOptions {
    let (lease, renew_interval) = (Duration::from_secs(36_000), Duration::from_secs(3_600));
    AllocOptions { lease, renew_interval, min_renew_interval: Duration::from_millis(5), ..quick() }
}

pub(crate) fn call() -> Call {
    Call { deadline: Instant::now() + PATIENCE, hops: 0, redirects: Redirects::Forward, via: Via::Grpc }
}

/// Returns a call that waits a short time.
pub(crate) fn impatient() -> Call {
    Call { deadline: Instant::now() + Duration::from_millis(30), ..call() }
}

pub(crate) fn ask(uid: u64, count: u32) -> Item {
    Item { uid: Uid(uid), count: Count::new(count).unwrap(), epoch: Epoch(0) }
}

pub(crate) fn given(value: u64, prev: u64, epoch: u64) -> Allocation {
    Allocation { value: Seq(value), prev: Seq(prev), epoch: Epoch(epoch), lost: 0 }
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    seq_testkit::until(what, async || holds().then_some(())).await;
}
