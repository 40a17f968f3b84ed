//! A node of a fake cluster: the endpoints of a real node, on loopback ports.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use seq_api::node_events::NodeEvents;
use seq_client::fake::World;
use seq_command::version::{VERSION, revision};
use seq_command::{process, utc};
use seq_gateway::grpc;
use seq_gateway::resp::{self, RespNode};
use seq_kit::admission::{Admission, ConnectionMetrics};
use seq_kit::http::Checks;
use seq_kit::memory::MemoryBudget;
use seq_kit::tasks::TaskGroup;
use seq_proto::v1;
use tonic::service::Routes;

use super::faults::Faults;
use super::service::{FakeService, Names};
use crate::settings::Settings;

/// Limit on the connections of a node: more than a test makes.
const MAX_CONNECTIONS: usize = 1_000;

/// Time for which the tasks of a node may run after its connections were cut.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The sockets of a node's ports.
#[derive(Debug)]
pub(super) struct Sockets {
    pub(super) grpc: TcpListener,
    redis: TcpListener,
}

impl Sockets {
    /// Binds the ports at two addresses.
    ///
    /// # Errors
    /// An address with its error.
    pub(super) fn bind(grpc: SocketAddr, redis: SocketAddr) -> anyhow::Result<Sockets> {
        let bind = |addr| TcpListener::bind(addr).map_err(|error| anyhow::anyhow!("cannot listen at {addr}: {error}"));
        Ok(Sockets { grpc: bind(grpc)?, redis: bind(redis)? })
    }
}

/// A node. Its ports are open while it has tasks.
pub(super) struct Node {
    /// Name in the node's set.
    pub(super) name: String,
    /// Index of the node's set.
    pub(super) set: usize,
    /// Index of the node in its set.
    pub(super) index: usize,
    pub(super) grpc: SocketAddr,
    pub(super) redis: SocketAddr,
    set_name: String,
    pub(super) faults: Arc<Faults>,
    service: FakeService,
    started: Instant,
    tasks: Option<TaskGroup>,
}

impl Node {
    /// Creates a node and opens its ports.
    ///
    /// # Errors
    /// If a socket cannot be registered with the runtime.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(super) fn start(
        (set, set_name): (usize, &str),
        index: usize,
        (world, names): (Arc<World>, Arc<Names>),
        sockets: Sockets,
    ) -> anyhow::Result<Node> {
        let faults = Arc::new(Faults::default());
        let chosen = Arc::new(AtomicU32::new(0));
        let mut node = Node {
            name: format!("a{}", index + 1),
            set,
            index,
            grpc: sockets.grpc.local_addr()?,
            redis: sockets.redis.local_addr()?,
            set_name: set_name.to_owned(),
            service: FakeService { set, world, names, faults: faults.clone(), chosen },
            faults,
            started: Instant::now(),
            tasks: None,
        };
        node.open(sockets)?;
        Ok(node)
    }

    pub(super) fn is_running(&self) -> bool {
        self.tasks.is_some()
    }

    /// Opens the ports at the same addresses as before.
    ///
    /// # Errors
    /// An address that another process has taken in the meantime.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(super) fn restart(&mut self) -> anyhow::Result<()> {
        self.open(Sockets::bind(self.grpc, self.redis)?)?;
        Ok(())
    }

    /// Closes the ports and cuts all connections, as if the process had been killed.
    pub(super) async fn stop(&mut self) {
        let Some(tasks) = self.tasks.take() else { return };
        tasks.cancel();
        self.faults.connections.cut().await;
        if let Err(hung) = tasks.shutdown(STOP_TIMEOUT).await {
            tracing::warn!(node = self.name, %hung, "a stopped node");
        }
    }

    fn open(&mut self, sockets: Sockets) -> io::Result<()> {
        let (tasks, events, settings) = (TaskGroup::new(), NodeEvents::default(), Settings::default());
        let admission = Admission::of(&self.name, MAX_CONNECTIONS, ConnectionMetrics::none());
        let (memory, ready) = (MemoryBudget::unlimited(), Checks::new());
        let connections = &self.faults.connections;
        let redis = RespNode::new(
            settings.redis,
            (admission.clone(), &events),
            None,
            memory.clone(),
            ready.departure().clone(),
        );
        resp::serve(self.service.clone(), &redis, &self.set_name, connections.listen(sockets.redis, &tasks)?, &tasks)?;
        let node = grpc::Node {
            admin: self.status(),
            ready,
            beside: Routes::default(),
            admission,
            allocate_on_get: settings.http.allocate_on_get,
            tenants: None,
            memory,
        };
        grpc::serve(self.service.clone(), node, connections.listen(sockets.grpc, &tasks)?, &tasks)?;
        self.tasks = Some(tasks);
        Ok(())
    }

    /// Returns the source of the node's status, which has the fields of an AllocSvr that a fake node knows.
    fn status(&self) -> grpc::AdminView {
        let (set, node, started) = (self.set_name.clone(), self.name.clone(), self.started);
        let (world, set_index, index) = (self.service.world.clone(), self.set, self.index);
        let instance = process::draw_instance();
        Arc::new(move || v1::StatusResponse {
            version: VERSION.to_owned(),
            revision: revision().to_owned(),
            set: set.clone(),
            node: node.clone(),
            uptime_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            pid: std::process::id(),
            cpu_us: process::cpu_us(),
            instance,
            clock_ms: utc::now_ms(),
            role: Some(v1::status_response::Role::Alloc(v1::AllocStatus {
                id: u32::try_from(index + 1).unwrap_or(u32::MAX),
                incarnation: 1,
                last_incarnation: 1,
                sections: u32::try_from(world.sections_of(set_index, index).len()).unwrap_or(u32::MAX),
                route_version: world.route_version(set_index).0,
                ..v1::AllocStatus::default()
            })),
            ..v1::StatusResponse::default()
        })
    }
}
