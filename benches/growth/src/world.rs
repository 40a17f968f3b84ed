//! A store of one member and allocators of one set, in this process, connected by loopback.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use seq_alloc::{AllocConfig, AllocOptions, Allocator};
use seq_api::clock::Clock;
use seq_api::service::{Allocation, Call, DecodedItem, Item, ItemReply, Redirects, SequenceService, Via};
use seq_core::set_spec::{AllocSpec, Genesis, SetSpec, StoreSpec};
use seq_core::{Count, Epoch, Layout, NodeId, RouteVersion, SectionId, Uid};
use seq_kit::tasks::TaskGroup;
use seq_store::{DataDir, Sockets, Store, StoreConfig, StoreHandle, StoreOptions};
use tokio::runtime::Runtime;
use tokio::time::Instant;

/// Timeout of every wait.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
/// No section is handed over during a measurement.
const NEVER: Duration = Duration::from_secs(24 * 3_600);

pub(crate) struct World {
    pub(crate) layout: Layout,
    pub(crate) allocators: Vec<Allocator>,
    runtime: Runtime,
    store: StoreHandle,
    tasks: TaskGroup,
}

impl World {
    /// Starts all nodes and waits until every section has an owner.
    pub(crate) fn start(layout: Layout, step: u64, allocators: usize) -> World {
        // One thread for the parts that are not measured: renewals, raises, the store.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let tasks = TaskGroup::new();
        let (store, allocators) = runtime.block_on(start(&layout, step, allocators, &tasks));
        World { layout, allocators, runtime, store, tasks }
    }

    /// Allocates the numbers of a batch; returns how long its pending items had to wait.
    #[inline]
    pub(crate) fn take(
        &self,
        allocator: &Allocator,
        asks: &[DecodedItem],
        replies: &mut Vec<ItemReply<Allocation>>,
    ) -> Duration {
        take(&self.runtime, allocator, asks, replies)
    }

    /// The first uid of each section that an allocator owns.
    pub(crate) fn owned_by(&self, allocator: &Allocator) -> Vec<u64> {
        let routes = allocator.routes_since(RouteVersion(0)).expect("a ready allocator has routes");
        let mine = Some(NodeId(allocator.status().id));
        let runs = routes.runs.iter().filter(|run| run.route.owner == mine);
        let sections = runs.flat_map(|run| run.first.0..run.first.0 + run.sections);
        sections.map(|section| self.layout.uids_of(SectionId(section)).start).collect()
    }

    /// Ceilings raised so far.
    pub(crate) fn raises(&self) -> u64 {
        self.allocators.iter().map(|allocator| allocator.status().raises).sum()
    }

    pub(crate) fn stop(self) {
        let World { runtime, store, tasks, allocators, .. } = self;
        drop(allocators);
        runtime.block_on(async {
            tasks.cancel();
            // Tasks that hang end with the process.
            let _ = store.shutdown().await;
            let _ = tasks.shutdown(TIMEOUT).await;
        });
    }
}

/// Allocates the numbers of a batch; returns how long its pending items had to wait.
#[inline]
pub(crate) fn take(
    runtime: &Runtime,
    allocator: &Allocator,
    asks: &[DecodedItem],
    replies: &mut Vec<ItemReply<Allocation>>,
) -> Duration {
    replies.clear();
    allocator.try_next_batch(Via::Stream, asks, replies);
    if replies.iter().all(|reply| matches!(reply, Some(Ok(_)))) {
        return Duration::ZERO;
    }
    let start = Instant::now();
    let call = Call { deadline: start + TIMEOUT, hops: 0, redirects: Redirects::Forward, via: Via::Stream };
    runtime.block_on(allocator.complete_batch(call, asks, replies));
    let refused = replies.iter().find(|reply| !matches!(reply, Some(Ok(_))));
    assert!(refused.is_none(), "refused: {refused:?}");
    start.elapsed()
}

/// An item for the next number of one uid.
#[inline]
pub(crate) fn ask(uid: u64) -> DecodedItem {
    Ok(Item { uid: Uid(uid), count: Count::ONE, epoch: Epoch(0) })
}

async fn start(layout: &Layout, step: u64, allocators: usize, tasks: &TaskGroup) -> (StoreHandle, Vec<Allocator>) {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = seq_kit::listen::bind(any, 1).expect("a port").remove(0);
    let addr = listener.local_addr().expect("bound").to_string();
    let spec = spec(layout, step, addr, allocators);
    let store = start_store(&spec, listener, StoreOptions::DEFAULTS.registration_grace, tasks).await;
    let allocators: Vec<Allocator> = spec.allocs.iter().map(|alloc| start_allocator(&spec, alloc, tasks)).collect();
    let begun = Instant::now();
    let owned = || allocators.iter().map(|allocator| allocator.status().sections).sum::<u32>();
    while owned() < layout.sections() || allocators.iter().any(|allocator| allocator.ready().is_err()) {
        assert!(begun.elapsed() < TIMEOUT, "some sections have no owner");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    (store, allocators)
}

/// Starts the store of a set, its log in memory, and waits until it is ready. Its sections wait for
/// `registration_grace` for allocators that have not registered.
pub(crate) async fn start_store(
    spec: &SetSpec,
    listener: TcpListener,
    registration_grace: Duration,
    tasks: &TaskGroup,
) -> StoreHandle {
    let config = StoreConfig {
        spec: spec.clone(),
        cluster: spec.name.clone(),
        id: 1,
        data: DataDir::Memory(seq_store::MemoryDisk::new()),
        join: false,
        form: true,
        sockets: Sockets { peers: listener.into(), raft: None, admin: None },
        options: StoreOptions { rebalance_after: NEVER, registration_grace, ..StoreOptions::DEFAULTS },
        clock: Clock::System,
        revision: "growth".to_owned(),
        cpu_us: || 0,
        settings: Default::default(),
        events: Default::default(),
    };
    let store = Store::start(config, tasks.clone()).await.expect("the store starts");
    store.ready().await;
    store
}

/// Starts an allocator of a set on the current runtime.
pub(crate) fn start_allocator(spec: &SetSpec, alloc: &AllocSpec, tasks: &TaskGroup) -> Allocator {
    let config = AllocConfig {
        spec: spec.clone(),
        name: alloc.name.clone(),
        advertise: alloc.addr.clone(),
        advertise_to_peers: None,
        replace: false,
        process: 0,
        options: AllocOptions::DEFAULTS,
        clock: Clock::System,
        events: Default::default(),
    };
    Allocator::start(config, tasks).expect("the allocator starts")
}

/// A set of one store at `store` and of allocators at addresses that do not exist.
pub(crate) fn spec(layout: &Layout, step: u64, store: String, allocators: usize) -> SetSpec {
    let alloc = |number: usize| AllocSpec {
        name: format!("a{number}"),
        // Never connected to: every owner is in this process.
        addr: format!("127.0.0.1:{}", 3 * number),
        http: format!("127.0.0.1:{}", 3 * number + 1),
        peer: format!("127.0.0.1:{}", 3 * number + 2),
        redis: None,
        redis_cluster: None,
        weight: 1,
        listen: Default::default(),
    };
    SetSpec {
        name: "growth".to_owned(),
        uids: layout.uids(),
        section_size: layout.section_size(),
        step,
        stores: vec![StoreSpec {
            id: 1,
            name: "s1".to_owned(),
            http: "127.0.0.1:1".to_owned(),
            raft: "127.0.0.1:2".to_owned(),
            admin: None,
            addr: store,
            listen: Default::default(),
        }],
        allocs: (1..=allocators).map(alloc).collect(),
        genesis: Genesis::Start,
    }
}
