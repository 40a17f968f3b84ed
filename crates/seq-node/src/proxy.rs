//! The command `proxy`. A proxy has the same endpoints as an allocator, and sends every call to the owner with an SDK
//! client. It has no sections and no state.
//!
//! Each serving thread has its own client, so that a request stays on the thread that received it. The main thread has
//! another client to check the readiness.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use seq_api::metrics::connection_metrics;
use seq_api::node_events::NodeEvents;
use seq_auth::Credentials;
use seq_channel::Dial;
use seq_client::{Client, ConnectError};
use seq_command::exit::{Exit, Failure};
use seq_command::target::{host_and_port, host_port, node_url};
use seq_command::version::{VERSION, revision};
use seq_command::{process, security, set_file, signals, utc};
use seq_gateway::grpc::{self, NodeView};
use seq_gateway::resp::{self, RespNode};
use seq_kit::admission::{Admission, OwnFiles};
use seq_kit::connection::{Listener, Tls};
use seq_kit::cores::Cores;
use seq_kit::http::Checks;
use seq_kit::tasks::{Kind, TaskGroup};
use seq_proto::settings::NodeSettings;
use seq_proto::v1;

use crate::serve::alloc_node::{Ports, Sockets};
use crate::serve::reload::Reload;
use crate::serve::{Banner, Process, Stage, bind_one, events, run_until_shutdown};
use crate::settings::{Loaded, Settings, SettingsArgs, of_node, table};

mod readiness;
mod service;

use readiness::Readiness;
use service::ProxyService;

/// Number of nodes behind the proxy for whose connections open files are reserved. It is enough for several sets of
/// usual size. If there are more nodes, the connections to them use files that are intended for clients.
const PLANNED_NODES: usize = 64;

/// Pause between two attempts to connect to the cluster.
const CONNECT_INTERVAL: Duration = Duration::from_millis(250);

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  seqsvr proxy --seeds 10.0.0.1:7100,10.0.0.2:7100 --listen 127.0.0.1:7600 --http 127.0.0.1:7680\n\n\
                        Exit codes: 0 stopped by a signal, 1 failed, 2 wrong flags, 64 wrong settings, 130 a second signal."
)]
pub struct ProxyArgs {
    /// Allocators of any set of the cluster; their routes name all other nodes. Each is host:port or a URL; http://
    /// means --plaintext.
    #[arg(long, value_name = "URL", value_delimiter = ',', value_parser = node_url,
          required_unless_present = "set", conflicts_with = "set")]
    seeds: Vec<String>,
    /// A set file, whose allocators are the seeds.
    #[arg(long, value_name = "FILE")]
    set: Option<PathBuf>,
    /// Address of the port for gRPC and JSON.
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    listen: String,
    /// Address of the port for Redis clients; without this flag there is no such port.
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    redis: Option<String>,
    /// Address of the port for metrics and probes.
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    http: String,
    /// Uses no TLS, neither to the seeds nor on its own ports; with --set, the set file decides.
    #[arg(long, conflicts_with = "set")]
    plaintext: bool,
    /// Allows --plaintext for addresses that are not on loopback.
    #[arg(long, conflicts_with = "set")]
    plaintext_on_network: bool,
    /// Name of the process, in its log, its metrics and its certificate.
    #[arg(long, value_name = "NAME", default_value = "proxy")]
    name: String,
    /// Serving threads; 0: one for each core [key: alloc.cores]
    #[arg(long, value_name = "N")]
    cores: Option<usize>,
    #[command(flatten)]
    settings: SettingsArgs,
}

impl ProxyArgs {
    /// Returns the seeds, and the proxy's credentials if the cluster has TLS.
    ///
    /// # Errors
    /// The set file is wrong, some seeds have TLS and others do not, plaintext is not allowed for an address, or the
    /// credentials cannot be read.
    fn backends(&self) -> anyhow::Result<(Vec<String>, Option<Credentials>)> {
        let (seeds, secure) = match &self.set {
            Some(path) => {
                let set = set_file::load_for_server(path)?;
                let secure = set.is_secure();
                (set.spec.allocs.into_iter().map(|alloc| alloc.addr).collect(), secure)
            }
            None => {
                let secure = seeds_are_secure(&self.seeds, self.plaintext)?;
                (self.seeds.iter().map(|seed| host_port(seed).to_owned()).collect(), secure)
            }
        };
        let own = [&self.listen, &self.http].into_iter().chain(&self.redis);
        let reachable = own.chain(&seeds).find(|addr| !set_file::is_loopback(addr));
        let is_plaintext = self.set.is_none() && !secure;
        if let Some(addr) = reachable.filter(|_| is_plaintext && !self.plaintext_on_network) {
            let what = format!("without TLS, other machines can read and change the traffic of {addr}");
            return Err(Failure::new(Exit::Usage, what).hint("use https://, or add --plaintext-on-network").into());
        }
        let credentials = secure.then(|| security::of_proxy(&self.name)).transpose();
        let hint = format!(
            "`seqsvr cert issue proxy/{} --host HOST` makes them; for seeds without TLS, such as the allocators of `seqsvr dev`, use http:// \
             or --plaintext",
            self.name
        );
        let credentials =
            credentials.map_err(|failure| if self.set.is_none() { failure.hint(hint) } else { failure })?;
        Ok((seeds, credentials))
    }
}

impl ProxyArgs {
    /// Returns the settings that the proxy's own flags state, as rows of the settings table.
    fn rows(&self, seeds: &[String], is_secure: bool) -> Vec<v1::Setting> {
        let ports = [("addr", "--listen", &self.listen), ("http", "--http", &self.http)];
        let redis = self.redis.as_ref().map(|redis| ("redis", "--redis", redis));
        let ports: Vec<_> =
            ports.into_iter().chain(redis).map(|(key, flag, addr)| (key, flag, addr.as_str())).collect();
        let flag = if self.set.is_some() { "--set" } else { "--seeds" };
        of_node::of_proxy(&self.name, (flag, seeds), &ports, is_secure)
    }
}

/// Returns whether the seeds use TLS, according to the schemes of their URLs and to `--plaintext`.
///
/// # Errors
/// The schemes contradict each other or `--plaintext`.
fn seeds_are_secure(seeds: &[String], plaintext: bool) -> Result<bool, Failure> {
    let has = |scheme: &str| seeds.iter().find(|seed| seed.starts_with(scheme));
    match (has("https://"), has("http://")) {
        (Some(secure), Some(other)) => {
            let what = format!(
                "{secure} has TLS and {other} has none, but either all nodes of a cluster have TLS or none has"
            );
            Err(Failure::new(Exit::Usage, what))
        }
        (Some(secure), None) if plaintext => {
            Err(Failure::new(Exit::Usage, format!("{secure} has TLS, and --plaintext states that it has none")))
        }
        (secure, open) => Ok(secure.is_some() || (open.is_none() && !plaintext)),
    }
}

pub fn run(args: &ProxyArgs) -> anyhow::Result<Exit> {
    let (settings_args, cores) = (args.settings.clone(), args.cores);
    let load = move || settings_args.load(&Settings::default(), |layers| layers.flag("--cores", "alloc.cores", cores));
    let Loaded { value: settings, keys, .. } = load()?;
    let (seeds, credentials) = args.backends()?;
    settings.check_secure(credentials.is_some())?;
    let reported = NodeSettings::new(table::rows(&keys).into_iter().chain(args.rows(&seeds, credentials.is_some())));
    let seeds: Arc<[String]> = seeds.into();
    let threads = settings.serving_threads();
    let (mut process, recorder) =
        Process::new(settings.clone(), &Banner { role: "proxy", set: "", node: &args.name, data: None })?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let exit = runtime.block_on(async {
        let ports = Ports::bind(&args.listen, args.redis.as_deref(), threads, &settings)?;
        let events = process.events();
        let ports = ports.secured(credentials.as_ref(), (&args.name, &events), process.tenants(&args.name)?);
        let http = bind_one(&args.http)?;
        let dial = process.secure(credentials.as_ref(), &args.name);
        process.watch_signals()?;
        let reload = Reload { running: keys, load: Box::new(load), set: None, reported: reported.clone() };
        process.reload_at(signals::hangups()?, reload);
        let readiness = Arc::new(Readiness::new(threads));
        let (mut checks, timeout) = (process.checks(), process.shutdown_timeout());
        readiness.add_checks(&mut checks);
        let (backends, mut endpoints) = (Stage::new("backends"), Stage::new("endpoints"));
        let watch = readiness::watch(readiness.clone(), (seeds.clone(), dial.clone()), backends.tasks().clone());
        backends.tasks().spawn("backend probe", Kind::Critical, watch);
        let (name, checks_of_node) = (args.name.clone(), checks.clone());
        let node =
            Node { name, seeds, dial, readiness, checks: checks_of_node, settings: reported, events };
        start(&node, ports, &mut endpoints, timeout)?;
        process.push(backends);
        process.push(endpoints);
        tracing::info!(name = args.name, grpc = args.listen, redis = args.redis, http = %http.local_addr()?, threads, "listening");
        process.open(http, credentials.as_ref(), recorder, checks)?;
        process.ending().await;
        process.serve_on().await;
        anyhow::Ok(process.shutdown().await)
    })?;
    process.join();
    Ok(exit)
}

/// State that the serving threads share.
#[derive(Clone)]
struct Node {
    name: String,
    seeds: Arc<[String]>,
    dial: Dial,
    readiness: Arc<Readiness>,
    checks: Checks,
    settings: NodeSettings,
    events: NodeEvents,
}

/// Starts one serving thread for each socket of a port. A thread accepts connections only after its client has routes.
/// Until then, connections wait in the queue of the socket.
fn start(node: &Node, ports: Ports, endpoints: &mut Stage, timeout: Duration) -> anyhow::Result<()> {
    let threads = ports.grpc.len();
    events::tick(node.events.clone(), endpoints.tasks());
    // Each serving thread has one connection to each node, and so has the task that probes the nodes.
    let own = OwnFiles { dials: PLANNED_NODES * (threads + 1), threads };
    let admission = Admission::new(&node.name, own, connection_metrics(&node.name, &node.events))
        .map_err(|few| Failure::new(Exit::Config, few.to_string()))?;
    let (allocate_on_get, tenants, tls) = (ports.allocate_on_get, ports.tenants.clone(), ports.tls.clone());
    let memory = ports.memory(&admission, &node.events, endpoints.tasks());
    let (sockets, resp) = ports.by_thread(&node.name, &[]);
    let departure = node.checks.departure();
    let resp =
        RespNode::new(resp, (admission.clone(), &node.events), tenants.clone(), memory.clone(), departure.clone());
    let grpc_node = grpc::Node {
        admin: admin_view(node, tls),
        ready: node.checks.clone(),
        beside: tonic::service::Routes::default(),
        admission,
        allocate_on_get,
        tenants,
        memory,
    };
    let (node, tasks) = (node.clone(), endpoints.tasks().clone());
    let name = node.name.clone();
    let cores = Cores::start(&name, sockets, move |Sockets { grpc: listener, redis, .. }| {
        let endpoint = Endpoint {
            node: node.clone(),
            grpc: grpc_node.clone(),
            listener,
            redis: redis.map(|redis| (redis, resp.clone())),
        };
        let tasks = tasks.clone();
        async move {
            tasks.spawn("endpoints", Kind::Critical, endpoint.serve(tasks.clone()));
            run_until_shutdown(tasks, timeout).await;
        }
    });
    endpoints.threads(cores.context("cannot start the serving threads")?);
    Ok(())
}

/// The endpoints of one serving thread.
struct Endpoint {
    node: Node,
    grpc: grpc::Node,
    listener: Listener,
    redis: Option<(Listener, RespNode)>,
}

impl Endpoint {
    /// Serves until the task group shuts down. If an error ends this task, the process ends too, because the task is
    /// critical.
    async fn serve(self, tasks: TaskGroup) {
        let Endpoint { node, grpc, listener, redis } = self;
        let client = tokio::select! {
            client = connect(&node.seeds, &node.dial, |_| {}) => client,
            () = tasks.shutting_down() => return,
        };
        let open = || {
            let client = client.context("cannot connect to the cluster")?;
            tasks.spawn("routes", Kind::Critical, readiness::probe(client.clone(), tasks.clone(), drop));
            let service = ProxyService::new(client, &node.name);
            if let Some((listener, resp)) = redis {
                resp::serve(service.clone(), &resp, "", listener, &tasks)?;
            }
            anyhow::Ok(grpc::serve(service, grpc, listener, &tasks)?)
        };
        match open() {
            Ok(()) => {
                node.readiness.thread_serves();
                tasks.shutting_down().await;
            }
            Err(error) => tracing::error!("cannot serve: {error:#}"),
        }
    }
}

/// Connects a client to the seeds. After an error that is retryable, for example because no seed has routes yet, tries
/// again. `failed` is called with the error of each such attempt.
///
/// # Errors
/// An attempt failed with an error that is not retryable.
async fn connect(seeds: &[String], dial: &Dial, failed: impl Fn(&ConnectError)) -> Result<Client, ConnectError> {
    loop {
        let builder = Client::builder().connections(1).dial(dial.clone()).allocs_only();
        let error = match seeds.iter().fold(builder, |builder, seed| builder.seed(seed)).connect().await {
            Ok(client) => return Ok(client),
            Err(error) if error.is_retryable() => error,
            Err(error) => return Err(error),
        };
        failed(&error);
        tokio::time::sleep(CONNECT_INTERVAL).await;
    }
}

/// Source of the status that a proxy reports about itself. A proxy belongs to no set, so its status has no role.
struct View {
    node: String,
    settings: NodeSettings,
    events: NodeEvents,
    tls: Option<Tls>,
    started: Instant,
    /// Random number that distinguishes this start of the process from other starts.
    instance: u64,
}

fn admin_view(node: &Node, tls: Option<Tls>) -> grpc::AdminView {
    let (started, instance) = (Instant::now(), process::draw_instance());
    let Node { name, settings, events, .. } = node.clone();
    Arc::new(View { node: name, settings, events, tls, started, instance })
}

impl NodeView for View {
    fn status(&self) -> v1::StatusResponse {
        v1::StatusResponse {
            version: VERSION.to_owned(),
            revision: revision().to_owned(),
            set: String::new(),
            node: self.node.clone(),
            uptime_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            pid: std::process::id(),
            cpu_us: process::cpu_us(),
            certificate_not_after: self.tls.as_ref().map(Tls::certificate_not_after),
            admin_addrs: Vec::new(),
            instance: self.instance,
            clock_ms: utc::now_ms(),
            settings_digest: self.settings.digest(),
            role: None,
        }
    }

    fn settings(&self) -> NodeSettings {
        self.settings.clone()
    }

    fn events(&self) -> NodeEvents {
        self.events.clone()
    }
}
