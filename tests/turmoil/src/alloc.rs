//! An AllocSvr as a host: the real allocator behind the real gRPC endpoint.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use seq_alloc::{AllocConfig, AllocOptions, Allocator};
use seq_api::clock::Clock;
use seq_api::node_events::NodeEvents;
use seq_channel::Dial;
use seq_core::set_spec::SetSpec;
use seq_gateway::grpc;
use seq_kit::admission::{Admission, ConnectionMetrics};
use seq_kit::http::Checks;
use seq_kit::memory::MemoryBudget;
use seq_kit::tasks::TaskGroup;
use seq_proto::v1;

use crate::net;
use crate::report::Report;

/// Interval at which a node checks whether it should leave.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Time for a node to hand over all sections, and then time to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// The running nodes, by name.
#[derive(Clone, Debug, Default)]
pub struct Nodes(Rc<RefCell<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// Number of processes so far. It is the number of the newest process.
    processes: u64,
    /// The number of each node's newest process, by name.
    newest: BTreeMap<String, u64>,
    running: BTreeMap<String, Allocator>,
    leaving: BTreeSet<String>,
    left: BTreeSet<String>,
}

impl Nodes {
    /// Returns the status of a node, or `None` if it does not run.
    #[must_use]
    pub fn status(&self, name: &str) -> Option<v1::AllocStatus> {
        self.0.borrow().running.get(name).map(Allocator::status)
    }

    /// Returns the number of a process that a node starts now.
    fn draw_process(&self, name: &str) -> u64 {
        let mut inner = self.0.borrow_mut();
        inner.processes += 1;
        let process = inner.processes;
        inner.newest.insert(name.to_owned(), process);
        process
    }

    /// Returns the number of a node's newest process; `None` before its first start.
    pub(crate) fn process(&self, name: &str) -> Option<u64> {
        self.0.borrow().newest.get(name).copied()
    }

    /// Requests a node to hand over all sections and to end.
    pub(crate) fn leave(&self, name: &str) {
        self.0.borrow_mut().leaving.insert(name.to_owned());
    }

    fn is_leaving(&self, name: &str) -> bool {
        self.0.borrow().leaving.contains(name)
    }

    /// Returns whether a node has ended after such a request.
    pub(crate) fn has_left(&self, name: &str) -> bool {
        self.0.borrow().left.contains(name)
    }

    /// Forgets a node that has ended.
    pub(crate) fn forget(&self, name: &str) {
        let mut inner = self.0.borrow_mut();
        inner.running.remove(name);
        inner.leaving.remove(name);
        inner.left.remove(name);
    }
}

/// Options of a node, for each of its starts.
#[derive(Clone, Debug)]
pub struct Node {
    /// The set.
    pub spec: SetSpec,
    /// Its name in the set.
    pub name: String,
    /// Intervals and limits.
    pub options: AllocOptions,
    /// The clocks of its machine.
    pub clock: Clock,
    /// Registry of nodes that lists it while it runs.
    pub nodes: Nodes,
    /// Report that notes its end.
    pub report: Report,
}

/// Runs a node until it crashes, or until it has left.
///
/// # Errors
/// If the node cannot start, or ends by itself; neither may happen.
pub async fn run(node: Node) -> turmoil::Result {
    let Node { spec, name, options, clock, nodes, report } = node;
    let (set, tasks) = (spec.name.clone(), TaskGroup::new());
    let listener = net::listen().await?;
    // One listener for callers and peers, because a host of the simulated network has only one.
    let (advertise, advertise_to_peers) = (net::addr(&name), None);
    let config = AllocConfig {
        spec,
        name: name.clone(),
        advertise,
        advertise_to_peers,
        replace: false,
        process: nodes.draw_process(&name),
        options,
        events: NodeEvents::new(clock.clone()),
        clock,
    };
    let allocator = Allocator::start_with(config, &Dial::new(net::dial), &tasks)?;
    let (view, node) = (allocator.clone(), name.clone());
    let admin = move || v1::StatusResponse {
        set: set.clone(),
        node: node.clone(),
        role: Some(v1::status_response::Role::Alloc(view.status())),
        ..v1::StatusResponse::default()
    };
    let mut ready = Checks::new();
    allocator.add_checks(&mut ready);
    let (beside, admission) = (allocator.handover_service(), Admission::of(&name, 1_000, ConnectionMetrics::none()));
    let door = grpc::Node {
        admin: Arc::new(admin),
        ready,
        beside,
        admission,
        allocate_on_get: false,
        tenants: None,
        memory: MemoryBudget::unlimited(),
    };
    grpc::serve(allocator.clone(), door, listener, &tasks)?;
    nodes.0.borrow_mut().running.insert(name.clone(), allocator.clone());
    while !nodes.is_leaving(&name) {
        if tasks.token().is_cancelled() {
            return Err(format!("{name} ended by itself: {:?}", tasks.failed()).into());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    // The same order in which the program ends.
    let is_empty = allocator.drain(PATIENCE).await;
    report.count(if is_empty { "nodes left with nothing" } else { "nodes left with sections" });
    tasks.shutdown(PATIENCE).await?;
    report.note(format_args!("{name} has left"));
    nodes.0.borrow_mut().left.insert(name);
    // Its process is gone. Its host ends with the connections, which are not closed here.
    std::future::pending().await
}
