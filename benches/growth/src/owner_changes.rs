//! Changes of owner over the number of sections: a drain, in which every section is handed over with its exact values,
//! and a takeover of every section after the end of its owner.
//!
//! A store of one member and three allocators in this process, each behind its own gRPC endpoint on loopback. One
//! allocator at a time owns all sections, and each section has one touched uid. The CPU time is that of the process:
//! source, target and store.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use seq_alloc::Allocator;
use seq_core::set_spec::SetSpec;
use seq_core::{Layout, Seq};
use seq_gateway::grpc;
use seq_kit::admission::{Admission, ConnectionMetrics};
use seq_kit::http::Checks;
use seq_kit::memory::MemoryBudget;
use seq_kit::tasks::TaskGroup;
use seq_proto::v1;
use seq_store::StoreHandle;
use tokio::runtime::Runtime;

use crate::Scale;
use crate::measure::BATCH;
use crate::plot::Plot;
use crate::report::{Report, short};
use crate::world::{self, ask};

/// The step of the set files.
const STEP: u64 = 10_000;
/// Allocators: the first drains to the second, whose sections the third takes over.
const NODES: usize = 3;
/// How long sections wait for allocators that have not registered: the first one gets all of them.
const GRACE: Duration = Duration::from_millis(1);
/// Worker threads of the runtime: source and target run at the same time.
const THREADS: usize = 2;
/// Timeout of a change of every section: ten times what a hundred sections a second take.
const TIMEOUT: Duration = Duration::from_secs(4_300);
/// Interval of counting the sections: the error of a measured time. Counting takes a microsecond a thousand sections.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Limit on the cost of a section with the most sections, beside the cost with the fewest: it does not grow.
const MOST_GROWTH: f64 = 1.5;

/// Measures a drain and a takeover of 1,000, 10,000 and 42,950 sections.
pub(crate) fn scenario(scale: Scale, report: &mut Report) -> io::Result<()> {
    let counts: &[u32] = if scale == Scale::Full { &[1_000, 10_000, 42_950] } else { &[10, 100] };
    let bar = report.progress("owners", 2 * counts.len());
    let (mut rows, mut drains, mut takeovers) = (Vec::new(), Vec::new(), Vec::new());
    for &count in counts {
        let mut cluster = Cluster::start(count)?;
        let first = cluster.start_node()?;
        cluster.runtime.block_on(first.owns(count));
        cluster.take_one_each(&first, Seq(1));
        let second = cluster.start_node()?;
        let drain = cluster.drain(first, &second, Seq(1));
        bar.inc(1);
        let third = cluster.start_node()?;
        let takeover = cluster.take_over(second, &third);
        bar.inc(1);
        cluster.end(third);
        cluster.stop();
        let mut row = vec![count.to_string()];
        for change in [&drain, &takeover] {
            row.push(format!("{:.2} s", change.took.as_secs_f64()));
            row.push(short(change.rate(count)));
            row.push(format!("{:.1} us", change.cpu.as_secs_f64() * 1e6 / f64::from(count)));
        }
        rows.push(row);
        drains.push((f64::from(count), drain.rate(count)));
        takeovers.push((f64::from(count), takeover.rate(count)));
    }
    bar.finish_and_clear();
    for (what, rates) in [("drain", &drains), ("takeover", &takeovers)] {
        let growth = rates[0].1 / rates[rates.len() - 1].1;
        report.goal(
            format!("cost of a section in a {what} with the most sections beside the fewest"),
            growth,
            MOST_GROWTH,
        );
    }
    report.table(
        "Changes of owner: every section from one allocator to another; the store keeps its log in memory",
        &["sections", "drain", "sections/s", "CPU a section", "takeover", "sections/s", "CPU a section"],
        &rows,
    );
    report.draw(
        "owner_changes",
        &Plot {
            title: "Changes of owner",
            x: "sections",
            y: "sections/s",
            log_y: true,
            lines: vec![("drain", drains), ("takeover", takeovers)],
        },
    )
}

/// A measured change of every section.
struct Change {
    took: Duration,
    cpu: Duration,
}

impl Change {
    fn rate(&self, sections: u32) -> f64 {
        f64::from(sections) / self.took.as_secs_f64()
    }
}

/// The store and the allocators.
struct Cluster {
    layout: Layout,
    runtime: Runtime,
    store: StoreHandle,
    tasks: TaskGroup,
    spec: SetSpec,
    /// Those of the allocators that have not started, in reverse order.
    listeners: Vec<TcpListener>,
}

/// An allocator and its tasks, which end apart from those of the others.
struct Node {
    allocator: Allocator,
    tasks: TaskGroup,
}

impl Cluster {
    /// Starts the store.
    fn start(sections: u32) -> io::Result<Cluster> {
        let size = u64::from(crate::memory::SECTION_SIZE);
        let layout = Layout::new(0..u64::from(sections) * size, crate::memory::SECTION_SIZE).expect("a good layout");
        let listener = || TcpListener::bind(("127.0.0.1", 0));
        let (store_listener, listeners) =
            (listener()?, (0..NODES).map(|_| listener()).collect::<io::Result<Vec<_>>>()?);
        let mut spec = world::spec(&layout, STEP, store_listener.local_addr()?.to_string(), NODES);
        for (alloc, listener) in spec.allocs.iter_mut().zip(&listeners) {
            alloc.addr = listener.local_addr()?.to_string();
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
        let tasks = TaskGroup::new();
        let store = runtime.block_on(world::start_store(&spec, store_listener, GRACE, &tasks));
        let listeners = listeners.into_iter().rev().collect();
        Ok(Cluster { layout, runtime, store, tasks, spec, listeners })
    }

    /// Starts the next allocator.
    fn start_node(&mut self) -> io::Result<Node> {
        let listener = self.listeners.pop().expect("there is a listener for each allocator");
        self.runtime.block_on(async {
            let node = start_node(&self.spec, NODES - 1 - self.listeners.len(), listener)?;
            node.is_ready().await;
            Ok(node)
        })
    }

    /// An allocator that owns every section hands them over to another one. Each section has given out `last` numbers.
    fn drain(&self, source: Node, target: &Node, last: Seq) -> Change {
        let (begun, cpu) = (Instant::now(), cpu_time());
        let is_empty = self.runtime.block_on(async {
            let is_empty = source.allocator.drain(TIMEOUT).await;
            target.owns(self.layout.sections()).await;
            is_empty
        });
        let change = Change { took: begun.elapsed(), cpu: cpu_time() - cpu };
        assert!(is_empty, "the drain did not end");
        self.end(source);
        // The exact values moved: no number is missing.
        self.take_one_each(target, Seq(last.0 + 1));
        change
    }

    /// An allocator that owns every section ends, as in a crash, and another one takes over. Measured from its first
    /// section to the last: the wait for the dead owner before that does not depend on the number of sections.
    fn take_over(&self, owner: Node, successor: &Node) -> Change {
        let sections = self.layout.sections();
        self.end(owner);
        self.runtime.block_on(async {
            let (mut begun, mut cpu) = (Instant::now(), cpu_time());
            while successor.sections() < sections {
                if successor.sections() == 0 {
                    (begun, cpu) = (Instant::now(), cpu_time());
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            Change { took: begun.elapsed(), cpu: cpu_time() - cpu }
        })
    }

    /// Takes a number of the first uid of every section and compares it.
    fn take_one_each(&self, node: &Node, expected: Seq) {
        let size = u64::from(self.layout.section_size());
        let uids: Vec<u64> = (0..u64::from(self.layout.sections())).map(|section| section * size).collect();
        let mut replies = Vec::with_capacity(BATCH);
        for uids in uids.chunks(BATCH) {
            let asks: Vec<_> = uids.iter().map(|uid| ask(*uid)).collect();
            world::take(&self.runtime, &node.allocator, &asks, &mut replies);
            let is_expected = replies.iter().flatten().flatten().all(|allocation| allocation.value == expected);
            assert!(is_expected, "{replies:?}");
        }
    }

    /// Ends an allocator without a handover.
    fn end(&self, node: Node) {
        node.tasks.cancel();
        // Tasks that hang end with the process.
        let _ = self.runtime.block_on(node.tasks.shutdown(world::TIMEOUT));
    }

    fn stop(self) {
        let Cluster { runtime, store, tasks, .. } = self;
        runtime.block_on(async {
            tasks.cancel();
            // Tasks that hang end with the process.
            let _ = store.shutdown().await;
            let _ = tasks.shutdown(world::TIMEOUT).await;
        });
    }
}

impl Node {
    fn sections(&self) -> u32 {
        self.allocator.status().sections
    }

    /// Waits until it owns `sections`.
    async fn owns(&self, sections: u32) {
        let begun = Instant::now();
        while self.sections() < sections {
            assert!(begun.elapsed() < TIMEOUT, "some sections have no owner");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    async fn is_ready(&self) {
        let begun = Instant::now();
        while let Err(reasons) = self.allocator.ready() {
            assert!(begun.elapsed() < world::TIMEOUT, "{reasons:?}");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// Starts the allocator of this index behind its endpoint.
fn start_node(spec: &SetSpec, index: usize, listener: TcpListener) -> io::Result<Node> {
    let tasks = TaskGroup::new();
    let alloc = &spec.allocs[index];
    let allocator = world::start_allocator(spec, alloc, &tasks);
    let (set, name, view) = (spec.name.clone(), alloc.name.clone(), allocator.clone());
    let admin = move || v1::StatusResponse {
        set: set.clone(),
        node: name.clone(),
        role: Some(v1::status_response::Role::Alloc(view.status())),
        ..v1::StatusResponse::default()
    };
    let mut ready = Checks::new();
    allocator.add_checks(&mut ready);
    let (beside, admission) =
        (allocator.handover_service(), Admission::of(&alloc.name, 100, ConnectionMetrics::none()));
    let node = grpc::Node {
        admin: Arc::new(admin),
        ready,
        beside,
        admission,
        allocate_on_get: false,
        tenants: None,
        memory: MemoryBudget::unlimited(),
    };
    grpc::serve(allocator.clone(), node, listener, &tasks)?;
    Ok(Node { allocator, tasks })
}

/// CPU time of all threads of the process.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
