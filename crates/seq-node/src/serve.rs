//! Lifecycle of a server process. A process has stages, which start in one order and stop in the reverse order.
//!
//! A shutdown has these steps. The node becomes not ready. If it has a load balancer, it continues to serve for a
//! while. The allocators hand their sections over while requests are still served. The endpoints stop accepting
//! connections and finish the requests in flight. The allocators stop. The stores stop Raft and flush their data. The
//! port for metrics and probes is closed. A task that does not end within the timeout of its step is logged and
//! abandoned.
//!
//! Invariant: a stage is cancelled only after all stages that were started later have ended, so that no request loses a
//! part of the process that it needs.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use seq_alloc::{Allocator, Halt};
use seq_api::metrics;
use seq_api::node_events::NodeEvents;
use seq_auth::Credentials;
use seq_channel::Dial;
use seq_command::exit::{Exit, Failure};
use seq_command::signals::Wait;
use seq_command::version::{VERSION, revision};
use seq_command::{environment, panic, process, security, signals};
use seq_kit::cores::Cores;
use seq_kit::departure::Departure;
use seq_kit::http::Checks;
use seq_kit::listen::{self, Sockets};
use seq_kit::metrics::Recorder;
use seq_kit::tasks::{CancelOnDrop, Hung, Kind, TaskGroup};
use seq_kit::telemetry::LogFilter;
use seq_kit::telemetry::traces::{self, Service, Traces};
use seq_kit::{cgroup, http, telemetry};
use seq_store::StoreHandle;
use seq_tenant::Tenants;
use tokio::signal::unix::Signal;

use reload::Reload;

use crate::settings::{Settings, TraceOptions};

pub(crate) mod alloc_node;
mod credentials;
pub(crate) mod events;
mod memory;
pub(crate) mod reload;
mod supervisor;
mod tenants;

/// Names and role of a process. The first line of its log states them.
pub(crate) struct Banner<'a> {
    /// `store`, `alloc`, `proxy` or `dev`.
    pub(crate) role: &'static str,
    pub(crate) set: &'a str,
    /// Name of the node in the set file.
    pub(crate) node: &'a str,
    /// Data directory of the process, if it has one.
    pub(crate) data: Option<&'a Path>,
}

impl Banner<'_> {
    fn log(&self) {
        let Banner { role, set, node, data } = self;
        let (pid, data) = (std::process::id(), data.map(|data| tracing::field::display(data.display())));
        tracing::info!(version = VERSION, revision = revision(), role, set, node, data, pid, "seqsvr starts");
    }

    /// Returns the names under which collectors of traces list this process.
    fn service(&self) -> Service {
        let Banner { role, set, node, .. } = *self;
        let name = if role == "dev" { role } else { node };
        Service {
            name: format!("seqsvr-{name}"),
            namespace: set.to_owned(),
            instance: name.to_owned(),
            version: VERSION.to_owned(),
            program: "seqsvr".to_owned(),
        }
    }
}

/// A part of a process that is started and stopped as a whole.
pub(crate) struct Stage {
    name: &'static str,
    tasks: TaskGroup,
    threads: Vec<Cores>,
    /// Members of a store. They are shut down before the other tasks of the stage.
    stores: Vec<StoreHandle>,
    /// Allocators. They hand their sections over before any stage is shut down.
    allocators: Vec<Allocator>,
    /// Guard that ends the tasks in an orderly way if the stage is dropped before it is added to a process, for example
    /// because of a signal during the start.
    _end: CancelOnDrop,
}

impl Stage {
    /// Creates a stage without tasks.
    pub(crate) fn new(name: &'static str) -> Stage {
        let tasks = TaskGroup::new();
        let end = tasks.cancel_on_drop();
        Stage { name, tasks, threads: Vec::new(), stores: Vec::new(), allocators: Vec::new(), _end: end }
    }

    /// Returns the group of the stage's tasks. The tasks may run on any runtime.
    pub(crate) fn tasks(&self) -> &TaskGroup {
        &self.tasks
    }

    /// Adds threads that end with the stage.
    pub(crate) fn threads(&mut self, threads: Cores) {
        self.threads.push(threads);
    }

    /// Adds a member of a store. Its tasks belong to the group of this stage.
    pub(crate) fn store(&mut self, store: StoreHandle) {
        self.stores.push(store);
    }

    /// Adds an allocator. Its tasks belong to the group of this stage.
    pub(crate) fn allocator(&mut self, allocator: Allocator) {
        self.allocators.push(allocator);
    }

    /// Cancels all tasks and waits for them.
    async fn shutdown(&mut self, timeout: Duration) -> Result<(), Hung> {
        let stores = futures::future::join_all(self.stores.drain(..).map(StoreHandle::shutdown)).await;
        let tasks = self.tasks.shutdown(timeout).await;
        stores.into_iter().collect::<Result<(), Hung>>().and(tasks)
    }
}

/// Completes when all tasks of a stage have ended, or after the timeout. A thread of the stage waits for it, so that
/// the thread's runtime exists until then.
pub(crate) async fn run_until_shutdown(tasks: TaskGroup, timeout: Duration) {
    tasks.shutting_down().await;
    // Tasks that hang are logged by the main thread. On this thread they end together with the runtime.
    let _ = tasks.shutdown(timeout).await;
}

/// A server process: its port for metrics and probes, and its stages in the order in which they were started.
pub(crate) struct Process {
    settings: Settings,
    filter: LogFilter,
    /// Tasks that end when a stop of the process is requested. Once this group is cancelled, the node is not ready.
    root: TaskGroup,
    /// The departure of the node. It begins when `root` is cancelled.
    departure: Departure,
    /// The time for which a node that leaves continues to serve because of its load balancers. A second signal ends
    /// this wait.
    wait: Wait,
    /// Tasks of the port for metrics and probes.
    probes: TaskGroup,
    /// Tasks of the signal handler and of the notifications to the supervisor. They end last, because a second signal
    /// must be able to end a shutdown that hangs, and because the supervisor's watchdog runs during the whole shutdown.
    signals: TaskGroup,
    stages: Vec<Stage>,
    /// The exporter of traces. It ends after all tasks whose trace spans it exports.
    traces: Option<Traces>,
    /// Event log of the process' node. In `dev`, which has several nodes with their own logs, no node has this log.
    events: NodeEvents,
}

impl Process {
    /// Sets up the parts of the process that all stages use: logging, the panic hook, the limits on files and memory,
    /// and metrics. Opens no socket.
    pub(crate) fn new(settings: Settings, is: &Banner<'_>) -> anyhow::Result<(Process, Recorder)> {
        let color = !environment::refuses_color();
        let filter = telemetry::init(settings.log.format, &settings.log.filter, color)?;
        is.log();
        panic::abort_on_panic();
        if !settings.limits.core_dumps {
            process::hide_memory().context("limits.core_dumps: the system does not turn them off")?;
        }
        process::raise_file_limit().map_err(|few| Failure::new(Exit::Config, few.to_string()))?;
        memory::check(is.role, &settings.limits, cgroup::memory_limit().as_ref())?;
        let recorder = metrics::install()?;
        metrics::build_info(VERSION, revision());
        let traces = start_traces(&settings.traces, is)?;
        let (root, probes, signals) = (TaskGroup::new(), TaskGroup::new(), TaskGroup::new());
        let departure = Departure::at(root.token());
        let (wait, stages, events) = (Wait::default(), Vec::new(), NodeEvents::default());
        let process = Process { settings, filter, root, departure, wait, probes, signals, stages, traces, events };
        Ok((process, recorder))
    }

    /// Returns the event log of the process' node.
    pub(crate) fn events(&self) -> NodeEvents {
        self.events.clone()
    }

    /// Timeout of each step of the shutdown.
    pub(crate) fn shutdown_timeout(&self) -> Duration {
        self.settings.shutdown.timeout
    }

    /// Returns an empty list of readiness checks, to which the caller adds checks. Even without checks, the list
    /// reports the node as not ready once a stop of the process is requested.
    pub(crate) fn checks(&self) -> Checks {
        Checks::until(self.departure.clone())
    }

    /// Installs the signal handlers, on the current runtime.
    pub(crate) fn watch_signals(&self) -> anyhow::Result<()> {
        signals::watch(&self.root, &self.wait, &self.signals, None).context("cannot listen for signals")
    }

    /// Installs the signal handlers like [`Process::watch_signals`], for a process that ends when its terminal is
    /// closed.
    pub(crate) fn watch_terminal(&self) -> anyhow::Result<()> {
        let hangups = signals::closed_terminal();
        hangups
            .and_then(|hangups| signals::watch(&self.root, &self.wait, &self.signals, hangups))
            .context("cannot listen for signals")
    }

    /// Starts a task on the current runtime that reloads the settings and the set file whenever `hangups` receives
    /// SIGHUP.
    pub(crate) fn reload_at(&self, hangups: Signal, reload: Reload) {
        let (end, reloading) = (self.signals.token(), reload.watch(hangups, self.filter.clone(), self.events()));
        self.signals.spawn("reload", Kind::Disposable, async move {
            end.run_until_cancelled(reloading).await;
        });
    }

    /// Waits until a signal requests a stop.
    pub(crate) fn stop_requested(&self) -> impl Future<Output = ()> + use<> {
        self.root.token().cancelled_owned()
    }

    /// Returns the connector with which this process connects to other processes. If there are credentials, also starts
    /// a task on the current runtime that reloads them when their files change.
    pub(crate) fn secure(&self, credentials: Option<&Credentials>, node: &str) -> Dial {
        let Some(credentials) = credentials else { return Dial::tcp() };
        let renewing = credentials::renew(credentials.clone(), node.to_owned(), self.events());
        let stopping = self.root.token();
        self.root.spawn("credentials", Kind::Disposable, async move {
            stopping.run_until_cancelled(renewing).await;
        });
        seq_channel::tls::dial(credentials.clone())
    }

    /// Returns the tenants to which callers belong; `None` if the settings name no tenants file. If there are tenants,
    /// also starts a task on the current runtime that reloads them when the file changes.
    pub(crate) fn tenants(&self, node: &str) -> anyhow::Result<Option<Tenants>> {
        let (Some(path), Some(specs)) = (self.settings.tenants.path(), self.settings.tenants.load()?) else {
            return Ok(None);
        };
        let tenants = Tenants::new(node, specs.clone(), &self.events);
        let renewing = tenants::renew(tenants.clone(), path.to_owned(), specs, (node.to_owned(), self.events()));
        let stopping = self.root.token();
        self.root.spawn("tenants", Kind::Disposable, async move {
            stopping.run_until_cancelled(renewing).await;
        });
        Ok(Some(tenants))
    }

    /// Opens the port for metrics and probes on the current runtime. Also starts a task that notifies the supervisor of
    /// the results of the same checks.
    pub(crate) fn open(
        &self,
        sockets: Sockets,
        credentials: Option<&Credentials>,
        recorder: Recorder,
        checks: Checks,
    ) -> anyhow::Result<()> {
        let (end, notifying) = (self.signals.token(), supervisor::notify(checks.clone(), self.stop_requested()));
        self.signals.spawn("supervisor", Kind::Disposable, async move {
            end.run_until_cancelled(notifying).await;
        });
        let of_port = metrics::connection_metrics(http::NODE, &self.events);
        let (connections, tls) =
            ((of_port, metrics::unfinished_dropped(http::NODE)), security::open(credentials, http::NODE, &self.events));
        http::serve(sockets, tls, recorder, checks, connections, &self.probes)
            .context("cannot serve metrics and probes")
    }

    /// Adds a stage to the process. The stage must have been started after all stages that were added before.
    pub(crate) fn push(&mut self, stage: Stage) {
        self.stages.push(stage);
    }

    /// Returns the Raft id of the leader of a store that has a member in this process, if the member knows the leader.
    pub(crate) fn leader(&self) -> Option<u64> {
        self.stages.iter().flat_map(|stage| &stage.stores).find_map(StoreHandle::leader)
    }

    /// Waits until the process must stop, because a signal requests it or because a critical task of a stage has
    /// failed.
    pub(crate) async fn ending(&self) {
        let stages = self.stages.iter().map(|stage| Box::pin(stage.tasks.token().cancelled_owned()));
        let own = [&self.root, &self.probes].map(|group| Box::pin(group.token().cancelled_owned()));
        futures::future::select_all(stages.chain(own)).await;
    }

    /// If load balancers probe this node and a stop was requested, waits for `shutdown.delay_ms`. During this wait the
    /// node is not ready, but serves all requests. The wait ends early at a second signal, or if a critical task fails.
    pub(crate) async fn serve_on(&self) {
        let delay = self.settings.shutdown.delay;
        if !self.departure.has_begun() || !self.departure.is_watched() || delay.is_zero() {
            return;
        }
        tracing::info!(?delay, "not ready; still serving until load balancers notice; a second signal ends the wait");
        let failed = self.stages.iter().map(|stage| Box::pin(stage.tasks.token().cancelled_owned()));
        let failed = futures::future::select_all(failed);
        let waiting = async {
            tokio::time::sleep(delay / 2).await;
            self.departure.end_connections();
            tokio::time::sleep(delay / 2).await;
        };
        tokio::select! {
            () = waiting => {}
            () = self.wait.until_signal() => {}
            _ = failed => {}
        }
    }

    /// Stops every stage, in the reverse order of their start. Returns the exit code of the process.
    pub(crate) async fn shutdown(&mut self) -> Exit {
        // From here on, `/readyz` fails.
        self.root.cancel();
        let mut exit = Exit::Ok;
        let timeout = self.shutdown_timeout();
        self.hand_over().await;
        for stage in self.stages.iter_mut().rev() {
            if let Some(task) = stage.tasks.failed() {
                tracing::error!(stage = stage.name, task, "stage stopped: a required task failed");
                exit = Exit::Failed;
            }
            if let Err(hung) = stage.shutdown(timeout).await {
                tracing::error!(stage = stage.name, "{hung}");
                exit = Exit::Failed;
                // Threads with hung tasks cannot be joined.
                stage.threads.clear();
            }
        }
        if self.root.failed().or(self.probes.failed()).is_some() {
            exit = Exit::Failed;
        }
        let halt = self.stages.iter().flat_map(|stage| &stage.allocators).find_map(Allocator::halt);
        match halt.filter(|_| exit == Exit::Ok) {
            Some(Halt::Evicted { addr }) => {
                tracing::error!(
                    addr,
                    "evicted; if restarted, this process waits until the process at that address ends"
                );
                exit = Exit::Evicted;
            }
            Some(Halt::OtherSet { what }) => {
                tracing::error!("{what}; a restart does not help until the set file is the set file of the store");
                exit = Exit::Config;
            }
            Some(halt @ Halt::ReportedDead) => {
                tracing::error!("{halt}");
                exit = Exit::Failed;
            }
            Some(Halt::StoreBehind { .. }) | None => {}
        }
        for (group, name) in [(&self.root, "process"), (&self.probes, "probes"), (&self.signals, "signals")] {
            if let Err(hung) = group.shutdown(timeout).await {
                tracing::error!(stage = name, "{hung}");
            }
        }
        exit
    }

    /// Makes every allocator hand its sections over, while its endpoints and background tasks are still running.
    async fn hand_over(&self) {
        let running = self.stages.iter().filter(|stage| !stage.tasks.token().is_cancelled());
        let leaving =
            running.flat_map(|stage| &stage.allocators).map(|allocator| allocator.drain(self.shutdown_timeout()));
        if !futures::future::join_all(leaving).await.into_iter().all(|drained| drained) {
            tracing::warn!("sections not handed over; they are taken over when their lease expires");
        }
    }

    /// Joins the threads of all stages, and exports the last trace spans. This blocks, so it must be called outside of
    /// a runtime, after [`Process::shutdown`].
    pub(crate) fn join(self) {
        for cores in self.stages.into_iter().flat_map(|stage| stage.threads) {
            cores.join();
        }
        if let Some(traces) = self.traces {
            traces.end();
        }
    }
}

/// Starts the exporter of traces, if the settings have a collector.
fn start_traces(options: &TraceOptions, is: &Banner<'_>) -> anyhow::Result<Option<Traces>> {
    let TraceOptions { endpoint, one_in } = options;
    if endpoint.is_empty() {
        return Ok(None);
    }
    let service = is.service();
    let traces = traces::start(endpoint, *one_in, service, metrics::span_counts()).context("traces")?;
    tracing::info!(endpoint, one_in, "traces are exported");
    Ok(Some(traces))
}

/// Binds the sockets of a port for `threads` threads. If the host in `addr` is a name, the port listens at all
/// addresses of the name that belong to this machine.
pub(crate) fn bind(addr: &str, threads: usize) -> anyhow::Result<Vec<Sockets>> {
    let resolved: Vec<SocketAddr> =
        addr.to_socket_addrs().with_context(|| format!("cannot find the host of {addr:?}"))?.collect();
    anyhow::ensure!(!resolved.is_empty(), "the host of {addr:?} has no address");
    let left_out = |other: SocketAddr| {
        tracing::warn!(addr, other = %other.ip(), "the host has an address that does not belong to this machine; not listening there");
    };
    let sockets = listen::bind_all(&resolved, threads, left_out).map_err(|error| {
        let failure = Failure::new(Exit::Failed, error.to_string());
        match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                failure.hint("another process has the port: stop it, or choose another port")
            }
            std::io::ErrorKind::AddrNotAvailable => failure.hint(
                "the address does not belong to this machine; if other nodes dial an address that this machine does not \
                 have, set the key listen to the node's own address",
            ),
            _ => failure,
        }
    })?;
    Ok(sockets)
}

/// Binds the sockets of a port for one thread.
pub(crate) fn bind_one(addr: &str) -> anyhow::Result<Sockets> {
    Ok(bind(addr, 1)?.remove(0))
}
