//! An AllocSvr as a host: the real allocator behind the real gRPC door.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use seq_alloc::{AllocConfig, AllocTuning, Allocator};
use seq_client::pool::Dial;
use seq_core::set_spec::SetSpec;
use seq_kit::tasks::TaskGroup;
use seq_proto::v1;

use crate::books::Books;
use crate::net;

/// The nodes that run, by name.
#[derive(Clone, Debug, Default)]
pub struct Nodes(Rc<RefCell<BTreeMap<String, Allocator>>>);

impl Nodes {
    /// What a node knows of itself, while it runs.
    #[must_use]
    pub fn status(&self, name: &str) -> Option<v1::AllocStatus> {
        self.0.borrow().get(name).map(Allocator::status)
    }

    /// Forgets a node that crashed, and answers what it knew of itself.
    pub(crate) fn forget(&self, name: &str) -> Option<v1::AllocStatus> {
        self.0.borrow_mut().remove(name).map(|node| node.status())
    }
}

/// What a node is started with, again and again.
#[derive(Clone, Debug)]
pub struct Node {
    /// The set.
    pub spec: SetSpec,
    /// Its name in the set.
    pub name: String,
    /// Paces and bounds.
    pub tuning: AllocTuning,
    /// Where it is found while it runs.
    pub nodes: Nodes,
    /// Where its end would be noted.
    pub books: Books,
}

/// Runs a node until it crashes.
///
/// # Errors
/// When it cannot start, or ends by itself: neither may happen.
pub async fn run(node: Node) -> turmoil::Result {
    let Node { spec, name, tuning, nodes, books } = node;
    let (set, tasks) = (spec.name.clone(), TaskGroup::new());
    let listener = net::listen().await?;
    let config = AllocConfig { spec, name: name.clone(), advertise: net::addr(&name), tuning, clock: net::clock() };
    let allocator = Allocator::start_with(config, &Dial::new(net::dial), &tasks)?;
    let (view, node) = (allocator.clone(), name.clone());
    let admin = move || v1::StatusResponse {
        set: set.clone(),
        node: node.clone(),
        role: Some(v1::status_response::Role::Alloc(view.status())),
        ..v1::StatusResponse::default()
    };
    seq_gateway::grpc::serve(allocator.clone(), Arc::new(admin), allocator.peer_routes(), listener, &tasks)?;
    nodes.0.borrow_mut().insert(name.clone(), allocator);
    tasks.shutting_down().await;
    books.violation(format_args!("{name} ended by itself: {:?}", tasks.failed()));
    Ok(())
}
