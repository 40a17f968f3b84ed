//! Starts an AllocSvr, with its background tasks on one thread, and its endpoints on one thread for each core.
//!
//! The background tasks renew the lease and raise ceilings. If they ran on a busy serving thread, they would wait
//! behind requests, and ceilings would be raised late just when the load is highest.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::Context;
use metrics::{counter, gauge};
use seq_alloc::{AllocConfig, Allocator};
use seq_api::metrics::{REQUEST_MEMORY_BYTES, REQUESTS_OUT_OF_MEMORY_TOTAL, connection_metrics, unfinished_dropped};
use seq_api::node_events::NodeEvents;
use seq_auth::Credentials;
use seq_channel::Dial;
use seq_command::exit::{Exit, Failure};
use seq_command::version::{VERSION, revision};
use seq_command::{process, security, utc};
use seq_core::SectionId;
use seq_core::node_events::Refusals;
use seq_core::set_spec::AllocSpec;
use seq_gateway::grpc::{self, AdminView, NodeView, Report};
use seq_gateway::peers::{self, PeerNode};
use seq_gateway::resp::{self, ClusterNodes, RespConfig, RespNode};
use seq_kit::admission::{Admission, OwnFiles};
use seq_kit::connection::{Listener, Tls};
use seq_kit::cores::Cores;
use seq_kit::departure::Departure;
use seq_kit::http::Checks;
use seq_kit::listen;
use seq_kit::memory::{MemoryBudget, MemoryMetrics};
use seq_kit::proxy_protocol::Headers;
use seq_kit::tasks::{Kind, TaskGroup};
use seq_kit::unfinished::{CALLERS, FEW, Unfinished};
use seq_proto::settings::NodeSettings;
use seq_proto::v1;
use seq_tenant::Tenants;
use tonic::Status;
use tonic::service::Routes;

use crate::serve::{Stage, bind, events, run_until_shutdown};
use crate::settings::Settings;

/// Interval at which the gauge of the memory that requests hold is updated.
const PUBLISH_INTERVAL: Duration = Duration::from_secs(1);

/// The sockets of the ports of an AllocSvr or a proxy. Each port has one socket for each serving thread.
pub(crate) struct Ports {
    /// The port for callers.
    pub(crate) grpc: Vec<listen::Sockets>,
    /// The port for peers; a proxy has none.
    peers: Vec<listen::Sockets>,
    /// The Redis port, if the node has it.
    redis: Option<Vec<listen::Sockets>>,
    /// The port for clients of Redis Cluster, if the node has it.
    redis_cluster: Option<Vec<listen::Sockets>>,
    /// Options of the Redis ports.
    resp: RespConfig,
    /// Whether GET requests may allocate numbers.
    pub(crate) allocate_on_get: bool,
    /// TLS of the ports for callers.
    pub(crate) tls: Option<Tls>,
    peer_tls: Option<Tls>,
    /// The connector with which the node connects to itself, if it does not listen at the address to which other nodes
    /// connect; otherwise `None`.
    own_dial: Option<Dial>,
    /// The tenants to which callers belong; `None` if there are none.
    pub(crate) tenants: Option<Tenants>,
    /// The memory that requests may hold, in bytes.
    memory: usize,
    headers: Headers,
}

impl Ports {
    /// Binds the ports of a node for `threads` threads.
    pub(crate) fn bind(grpc: &str, redis: Option<&str>, threads: usize, settings: &Settings) -> anyhow::Result<Ports> {
        let grpc = bind(grpc, threads)?;
        Ok(Ports {
            grpc,
            peers: Vec::new(),
            redis: redis.map(|addr| bind(addr, threads)).transpose()?,
            redis_cluster: None,
            resp: settings.redis.clone(),
            allocate_on_get: settings.http.allocate_on_get,
            tls: None,
            peer_tls: None,
            own_dial: None,
            tenants: None,
            memory: settings.limits.memory_bytes(),
            headers: Headers::from(settings.proxy_protocol.networks()?),
        })
    }

    /// Binds the ports of an AllocSvr, for its callers and for its peers.
    pub(crate) fn of_alloc(
        alloc: &AllocSpec,
        credentials: Option<&Credentials>,
        threads: usize,
        settings: &Settings,
    ) -> anyhow::Result<Ports> {
        let at = alloc.listening();
        let ports = Ports::bind(&at.addr, at.redis.as_deref(), threads, settings)?;
        let own_dial = if at.addr == alloc.addr {
            None
        } else {
            let local = to_dial(ports.grpc[0].local_addr()?).to_string();
            Some(seq_channel::tls::via(credentials.cloned(), &local))
        };
        let redis_cluster = at.redis_cluster.map(|addr| bind(&addr, threads)).transpose()?;
        Ok(Ports { peers: bind(&at.peer, threads)?, redis_cluster, own_dial, ..ports })
    }

    /// Returns the bound address of the port for peers.
    pub(crate) fn peer_addr(&self) -> anyhow::Result<Option<String>> {
        let addr = self.peers.first().map(listen::Sockets::local_addr).transpose()?;
        Ok(addr.map(|addr| addr.to_string()))
    }

    /// Returns the same ports, with TLS if the node has credentials. Peers must present a certificate. Callers must
    /// present one too, unless there are tenants.
    pub(crate) fn secured(
        self,
        credentials: Option<&Credentials>,
        (node, events): (&str, &NodeEvents),
        tenants: Option<Tenants>,
    ) -> Ports {
        let peer_tls = security::certified(credentials, node, events);
        let tls = if tenants.is_some() { security::open(credentials, node, events) } else { peer_tls.clone() };
        Ports { tls, peer_tls, tenants, ..self }
    }

    /// Returns the budget for the memory that requests may hold. Requests that do not fit are counted in the node's
    /// `events`. A task in `tasks` updates the gauge of this memory.
    pub(crate) fn memory(&self, admission: &Admission, events: &NodeEvents, tasks: &TaskGroup) -> MemoryBudget {
        let node = admission.node();
        let metrics = MemoryMetrics {
            used: gauge!(REQUEST_MEMORY_BYTES, "node" => node.to_owned()),
            refused: events.counted(Refusals::Shed, counter!(REQUESTS_OUT_OF_MEMORY_TOTAL, "node" => node.to_owned())),
        };
        let memory = MemoryBudget::new(self.memory, admission.most_callers(), metrics);
        let (published, stopping) = (memory.clone(), tasks.token());
        let publishing = async move {
            loop {
                published.publish();
                tokio::time::sleep(PUBLISH_INTERVAL).await;
            }
        };
        tasks.spawn("memory gauge", Kind::Disposable, async move {
            stopping.run_until_cancelled(publishing).await;
        });
        memory
    }

    /// Returns the bound address of the Redis port.
    pub(crate) fn redis_addr(&self) -> anyhow::Result<Option<String>> {
        bound(self.redis.as_deref())
    }

    /// Returns the bound address of the port for clients of Redis Cluster.
    pub(crate) fn redis_cluster_addr(&self) -> anyhow::Result<Option<String>> {
        bound(self.redis_cluster.as_deref())
    }

    /// Returns the sockets of each serving thread, and the configuration of the Redis ports. `known` are addresses of
    /// other nodes, which may use the reserved seats of unfinished connections.
    pub(crate) fn by_thread(self, node: &str, known: &[IpAddr]) -> (Vec<Sockets>, RespConfig) {
        let Ports { grpc, peers, redis, redis_cluster, resp, tls, peer_tls, tenants, headers, .. } = self;
        let unfinished = |most| Unfinished::new(most, known.iter().copied(), unfinished_dropped(node));
        let asks = tenants.is_some() || resp.password.is_some();
        let proved = |port: Unfinished, asks| if asks { port.until_proved() } else { port };
        let of_callers = proved(unfinished(CALLERS), tenants.is_some());
        let (of_redis, of_peers) = (proved(unfinished(CALLERS), asks), unfinished(FEW));
        let socket = |listener, port| Listener::socket(listener, tls.clone()).of_port(port).with_headers(&headers);
        let of_cluster = proved(unfinished(CALLERS), asks);
        let mut redis = redis.into_iter().flatten().map(|listener| socket(listener, &of_redis));
        let mut redis_cluster = redis_cluster.into_iter().flatten().map(|listener| socket(listener, &of_cluster));
        let mut peers =
            peers.into_iter().map(|listener| Listener::socket(listener, peer_tls.clone()).of_port(&of_peers));
        let of_thread = |grpc| Sockets {
            grpc: socket(grpc, &of_callers),
            peers: peers.next(),
            redis: redis.next(),
            redis_cluster: redis_cluster.next(),
        };
        (grpc.into_iter().map(of_thread).collect(), resp)
    }
}

/// Returns the bound address of a port that a node may have.
fn bound(sockets: Option<&[listen::Sockets]>) -> anyhow::Result<Option<String>> {
    let addr = sockets.and_then(<[_]>::first).map(listen::Sockets::local_addr).transpose()?;
    Ok(addr.map(|addr| addr.to_string()))
}

/// Checks that the settings of an AllocSvr name the keyspace of its port for clients of Redis Cluster, if it has one.
pub(crate) fn check_redis_cluster(alloc: &AllocSpec, settings: &Settings) -> Result<(), Failure> {
    let Some(addr) = alloc.redis_cluster.as_ref().filter(|_| settings.redis.keyspace.is_empty()) else { return Ok(()) };
    let what = format!("redis_cluster = {addr:?} of alloc {}: the setting redis.keyspace is empty", alloc.name);
    Err(Failure::new(Exit::Config, what).hint(
        "clients of Redis Cluster use the keys of one keyspace: name it with redis.keyspace, or remove redis_cluster",
    ))
}

/// Returns an address with which this machine can connect to a socket that is bound to `bound`.
fn to_dial(bound: SocketAddr) -> SocketAddr {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, bound.port())
}

/// The sockets of one serving thread.
pub(crate) struct Sockets {
    pub(crate) grpc: Listener,
    peers: Option<Listener>,
    pub(crate) redis: Option<Listener>,
    redis_cluster: Option<Listener>,
}

/// Starts an AllocSvr with one serving thread for each socket of a port. Adds its background tasks to the stage
/// `background` and its endpoints to the stage `endpoints`. The node is ready if the checks in `ready` and the
/// allocator's own checks pass. The ports report this, and the settings `settings`. `cluster` is the name of the
/// cluster, which the ids of nodes for clients of Redis Cluster depend on.
pub(crate) fn start(
    (config, cluster): (AllocConfig, &str),
    (ports, dial): (Ports, Dial),
    (mut ready, settings): (Checks, NodeSettings),
    (background, endpoints): (&mut Stage, &mut Stage),
    timeout: Duration,
) -> anyhow::Result<Allocator> {
    let (node, set, events) = (config.name.clone(), config.spec.name.clone(), config.events.clone());
    events::tick(events.clone(), endpoints.tasks());
    let admission = Admission::new(&node, own_files(&config, ports.grpc.len()), connection_metrics(&node, &events))
        .map_err(|few| Failure::new(Exit::Config, few.to_string()))?;
    let known: Vec<IpAddr> = config.spec.ips().collect();
    let shown = cluster_nodes(cluster, &config);
    let identity = Identity {
        set: set.clone(),
        node: node.clone(),
        store_addrs: config.spec.stores.iter().map(|store| store.addr.clone()).collect(),
        admin_addrs: config.spec.stores.iter().filter_map(|store| store.admin.clone()).collect(),
    };
    let (tls, own_dial) = (ports.tls.clone(), ports.own_dial.clone());
    let allocator = start_background(config, dial.clone(), background, timeout)?;
    let admin = admin_view(allocator.clone(), identity, (settings, events.clone()), ports.tls.clone());
    allocator.add_checks(&mut ready);
    let services = allocator.handover_service();
    let of_peers = PeerNode { services, admin: admin.clone(), ready: ready.clone(), admission: admission.clone() };
    let (allocate_on_get, tenants) = (ports.allocate_on_get, ports.tenants.clone());
    let memory = ports.memory(&admission, &events, endpoints.tasks());
    let (sockets, resp) = ports.by_thread(&node, &known);
    let counted = (&admission, &events);
    let [resp, cluster_node] = redis_nodes((resp, shown), counted, tenants.as_ref(), (&memory, ready.departure()));
    let grpc_node = grpc::Node { admin, ready, beside: Routes::default(), admission, allocate_on_get, tenants, memory };
    let (tasks, serving) = (endpoints.tasks().clone(), allocator.clone());
    let (opened, outcomes) = mpsc::channel();
    let count = sockets.len();
    let threads = Cores::start(&node, sockets, move |Sockets { grpc: listener, peers, redis, redis_cluster }| {
        let (tasks, opened) = (tasks.clone(), opened.clone());
        let (serving, grpc_node, resp, set) = (serving.clone(), grpc_node.clone(), resp.clone(), set.clone());
        let (of_peers, cluster_node) = (of_peers.clone(), cluster_node.clone());
        async move {
            let allocator = serving.for_endpoints_of_this_thread();
            let open = || {
                for (listener, node) in [(redis, &resp), (redis_cluster, &cluster_node)] {
                    if let Some(listener) = listener {
                        resp::serve(allocator.clone(), node, &set, listener, &tasks)?;
                    }
                }
                if let Some(listener) = peers {
                    peers::serve(of_peers, listener, &tasks)?;
                }
                grpc::serve(allocator, grpc_node, listener, &tasks)
            };
            let outcome = open();
            let open = outcome.is_ok();
            // `start` receives every outcome, unless it has dropped its receiver because another thread failed.
            let _ = opened.send(outcome);
            if open {
                run_until_shutdown(tasks, timeout).await;
            }
        }
    })
    .context("cannot start the serving threads")?;
    endpoints.threads(threads);
    for outcome in outcomes.iter().take(count) {
        outcome.context("cannot open the ports")?;
    }
    allocator.check_itself(
        &dial,
        own_dial.as_ref(),
        move || tls.as_ref().map(Tls::certificate_not_after),
        endpoints.tasks(),
    );
    background.allocator(allocator.clone());
    Ok(allocator)
}

/// Returns the nodes of the set that have a port for clients of Redis Cluster, with their addresses in the set file.
fn cluster_nodes(cluster: &str, config: &AllocConfig) -> ClusterNodes {
    let allocs = config.spec.allocs.iter();
    let with_port = allocs.filter_map(|alloc| Some((&*alloc.name, alloc.redis_cluster.as_deref()?)));
    ClusterNodes::new((cluster, &config.spec.name, &config.name), with_port)
}

/// Creates the states of the Redis port and of the port for clients of Redis Cluster, which shows the nodes `shown`.
fn redis_nodes(
    (config, shown): (RespConfig, ClusterNodes),
    (admission, events): (&Admission, &NodeEvents),
    tenants: Option<&Tenants>,
    (memory, departure): (&MemoryBudget, &Departure),
) -> [RespNode; 2] {
    let counted = || (admission.clone(), events);
    let (tenants, memory, departure) = (|| tenants.cloned(), || memory.clone(), || departure.clone());
    [
        RespNode::new(config.clone(), counted(), tenants(), memory(), departure()),
        RespNode::of_cluster((config, shown), counted(), tenants(), memory(), departure()),
    ]
}

/// Returns the counts of open files that a node needs for itself. Each serving thread has its own connections to every
/// other AllocSvr, and so has the background thread.
fn own_files(config: &AllocConfig, serving: usize) -> OwnFiles {
    let threads = serving + 1;
    let peers = config.spec.allocs.len().saturating_sub(1);
    // Handovers are sent to the ports for peers, and only by the background tasks.
    let connections = peers * config.options.connections;
    OwnFiles { dials: connections * (threads + 1) + config.spec.stores.len(), threads }
}

fn start_background(
    config: AllocConfig,
    dial: Dial,
    stage: &mut Stage,
    timeout: Duration,
) -> anyhow::Result<Allocator> {
    let tasks = stage.tasks().clone();
    let name = format!("{}-background", config.name);
    let (started, outcome) = mpsc::channel();
    let threads = Cores::start(&name, vec![config], move |config| {
        let (tasks, started, dial) = (tasks.clone(), started.clone(), dial.clone());
        async move {
            let allocator = Allocator::start_with(config, &dial, &tasks);
            let running = allocator.is_ok();
            // The receiver is dropped only if `start` is dropped. In that case the stage is dropped too.
            let _ = started.send(allocator);
            if running {
                run_until_shutdown(tasks, timeout).await;
            }
        }
    })
    .context("cannot start the allocator's thread")?;
    stage.threads(threads);
    let allocator = outcome.recv().context("the allocator's thread ended")??;
    Ok(allocator)
}

/// The parts of a node's status that the allocator does not know.
struct Identity {
    set: String,
    node: String,
    store_addrs: Vec<String>,
    /// Addresses of the set's admin ports.
    admin_addrs: Vec<String>,
}

/// An allocator, with the parts of its node's status that it does not know.
struct View {
    allocator: Allocator,
    identity: Identity,
    settings: NodeSettings,
    events: NodeEvents,
    tls: Option<Tls>,
    started: Instant,
    /// Random number that distinguishes this start of the process from other starts.
    instance: u64,
}

fn admin_view(
    allocator: Allocator,
    identity: Identity,
    (settings, events): (NodeSettings, NodeEvents),
    tls: Option<Tls>,
) -> AdminView {
    let (started, instance) = (Instant::now(), process::draw_instance());
    Arc::new(View { allocator, identity, settings, events, tls, started, instance })
}

impl NodeView for View {
    fn status(&self) -> v1::StatusResponse {
        let View { identity, tls, started, instance, .. } = self;
        let mut status = self.allocator.status();
        if status.store_addrs.is_empty() {
            // The addresses from the set file are used until a response of the store has listed the store's members.
            status.store_addrs.clone_from(&identity.store_addrs);
        }
        v1::StatusResponse {
            version: VERSION.to_owned(),
            revision: revision().to_owned(),
            set: identity.set.clone(),
            node: identity.node.clone(),
            uptime_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            pid: std::process::id(),
            cpu_us: process::cpu_us(),
            certificate_not_after: tls.as_ref().map(Tls::certificate_not_after),
            admin_addrs: identity.admin_addrs.clone(),
            instance: *instance,
            clock_ms: utc::now_ms(),
            settings_digest: self.settings.digest(),
            role: Some(v1::status_response::Role::Alloc(status)),
        }
    }

    fn ceilings(&self, first: SectionId) -> v1::ListCeilingsResponse {
        self.allocator.ceilings(first)
    }

    fn activity(&self, request: v1::ListActivityRequest) -> Result<Report<v1::ListActivityResponse>, Status> {
        self.allocator.activity(request)
    }

    fn describe_section(
        &self,
        request: v1::DescribeSectionRequest,
    ) -> Result<Report<v1::DescribeSectionResponse>, Status> {
        self.allocator.describe_section(request)
    }

    fn settings(&self) -> NodeSettings {
        self.settings.clone()
    }

    fn events(&self) -> NodeEvents {
        self.events.clone()
    }
}
