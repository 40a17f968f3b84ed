//! How a server process lives: stages that start in one order and stop in the opposite one.
//!
//! Shutdown: the process is not ready, the allocators hand their sections over while all is served, the doors stop accepting and finish what is in flight, the allocators stop, the
//! stores stop Raft and flush, the port for probes closes. What does not end in time is named and left.
//!
//! Invariant: a stage is asked to end only after every later one has ended, so no call loses what it waits for.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use seq_alloc::{Allocator, Halt};
use seq_kit::cores::Cores;
use seq_kit::http::Checks;
use seq_kit::tasks::{Hung, TaskGroup};
use seq_kit::{http, listen, metrics, panic, process, signals, telemetry};
use seq_store::StoreHandle;

use crate::exit::{Exit, Failure};
use crate::settings::Settings;
use crate::version::{REVISION, VERSION};

pub(crate) mod alloc_node;

/// What a process is; its first line in the log.
pub(crate) struct Banner<'a> {
    /// `store`, `alloc` or `dev`.
    pub(crate) role: &'static str,
    pub(crate) set: &'a str,
    /// Name of the node in the set file.
    pub(crate) node: &'a str,
    /// Its data directory, where it has one.
    pub(crate) data: Option<&'a Path>,
}

impl Banner<'_> {
    fn log(&self) {
        let Banner { role, set, node, data } = self;
        let (pid, data) = (std::process::id(), data.map(|data| tracing::field::display(data.display())));
        tracing::info!(version = VERSION, revision = REVISION, role, set, node, data, pid, "seqsvr starts");
    }
}

/// One part of a process that starts and stops as a whole.
pub(crate) struct Stage {
    name: &'static str,
    tasks: TaskGroup,
    threads: Vec<Cores>,
    /// Members of the store; they end before the rest of the stage.
    stores: Vec<StoreHandle>,
    /// Allocators; they hand their sections over before anything ends.
    allocators: Vec<Allocator>,
}

impl Stage {
    /// A stage without tasks.
    pub(crate) fn new(name: &'static str) -> Stage {
        Stage { name, tasks: TaskGroup::new(), threads: Vec::new(), stores: Vec::new(), allocators: Vec::new() }
    }

    /// Its tasks, wherever they run.
    pub(crate) fn tasks(&self) -> &TaskGroup {
        &self.tasks
    }

    /// Adds threads that end with the stage.
    pub(crate) fn threads(&mut self, threads: Cores) {
        self.threads.push(threads);
    }

    /// Adds a member of the store, whose tasks are among the stage's.
    pub(crate) fn store(&mut self, store: StoreHandle) {
        self.stores.push(store);
    }

    /// Adds an allocator, whose tasks are among the stage's.
    pub(crate) fn allocator(&mut self, allocator: Allocator) {
        self.allocators.push(allocator);
    }

    /// Asks everything to end and waits for it.
    async fn shutdown(&mut self, patience: Duration) -> Result<(), Hung> {
        let stores = futures::future::join_all(self.stores.drain(..).map(StoreHandle::shutdown)).await;
        let tasks = self.tasks.shutdown(patience).await;
        stores.into_iter().collect::<Result<(), Hung>>().and(tasks)
    }
}

/// What a thread of a stage does once its tasks are spawned: it keeps its runtime alive until all tasks of the stage have
/// ended.
pub(crate) async fn linger(tasks: TaskGroup, patience: Duration) {
    tasks.shutting_down().await;
    // The main thread names what hung; here it only ends with its runtime.
    let _ = tasks.shutdown(patience).await;
}

/// A server process: its port for probes and its stages, in the order they were started.
pub(crate) struct Process {
    settings: Settings,
    /// Ends when the process is asked to: the node is not ready from then on.
    root: TaskGroup,
    stages: Vec<Stage>,
}

impl Process {
    /// Sets up what a process has once: logging, the panic rule, the limit of files, metrics. Opens no socket.
    pub(crate) fn new(settings: Settings, is: &Banner<'_>) -> anyhow::Result<(Process, metrics::Recorder)> {
        let color = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        telemetry::init(settings.log.format, &settings.log.filter, color)?;
        is.log();
        panic::abort_on_panic();
        process::raise_file_limit().map_err(|few| Failure::new(Exit::Config, few.to_string()))?;
        let recorder = metrics::Recorder::install()?;
        metrics::build_info(VERSION, REVISION);
        Ok((Process { settings, root: TaskGroup::new(), stages: Vec::new() }, recorder))
    }

    /// How long a shutdown may take.
    pub(crate) fn patience(&self) -> Duration {
        self.settings.patience()
    }

    /// Listens for signals, on the current runtime.
    pub(crate) fn watch_signals(&self) -> anyhow::Result<()> {
        signals::watch(&self.root).context("cannot listen for signals")
    }

    /// Completes when a signal asks the process to end.
    pub(crate) fn asked_to_end(&self) -> impl Future<Output = ()> + use<> {
        self.root.token().cancelled_owned()
    }

    /// Opens the port for metrics and probes, on the current runtime.
    pub(crate) fn open(
        &self,
        listener: TcpListener,
        recorder: metrics::Recorder,
        checks: Checks,
    ) -> anyhow::Result<()> {
        http::serve(listener, recorder, checks, &self.root).context("cannot serve metrics and probes")
    }

    /// Adds a stage that was started after all there are.
    pub(crate) fn push(&mut self, stage: Stage) {
        self.stages.push(stage);
    }

    /// Raft id of the leader, where a store of this process knows one.
    pub(crate) fn leader(&self) -> Option<u64> {
        self.stages.iter().flat_map(|stage| &stage.stores).find_map(StoreHandle::leader)
    }

    /// Completes when the process is to end: by a signal, or because a stage lost a task it cannot do without.
    pub(crate) async fn ending(&self) {
        let stages = self.stages.iter().map(|stage| Box::pin(stage.tasks.token().cancelled_owned()));
        let any = futures::future::select_all(stages.chain([Box::pin(self.root.token().cancelled_owned())]));
        any.await;
    }

    /// Stops every stage, the last one first. Answers the outcome of the process.
    pub(crate) async fn shutdown(&mut self) -> Exit {
        // From here on `/readyz` says no.
        self.root.cancel();
        let mut exit = Exit::Ok;
        self.hand_over().await;
        for stage in self.stages.iter_mut().rev() {
            if let Some(task) = stage.tasks.failed() {
                tracing::error!(stage = stage.name, task, "ended by the loss of a task");
                exit = Exit::Failed;
            }
            if let Err(hung) = stage.shutdown(self.settings.patience()).await {
                tracing::error!(stage = stage.name, "{hung}");
                exit = Exit::Failed;
                // Their threads cannot be waited for.
                stage.threads.clear();
            }
        }
        if self.root.failed().is_some() {
            exit = Exit::Failed;
        }
        let halt = self.stages.iter().flat_map(|stage| &stage.allocators).find_map(Allocator::halt);
        if let Some(Halt::Evicted { addr }) = halt.filter(|_| exit == Exit::Ok) {
            tracing::error!(addr, "evicted; started again, this process waits until the one at that address ends");
            exit = Exit::Evicted;
        }
        if let Err(hung) = self.root.shutdown(self.settings.patience()).await {
            tracing::error!(stage = "probes", "{hung}");
        }
        exit
    }

    /// Has the sections of every allocator moved away, while its doors and keepers still run.
    async fn hand_over(&self) {
        let running = self.stages.iter().filter(|stage| !stage.tasks.token().is_cancelled());
        let leaving = running.flat_map(|stage| &stage.allocators).map(|allocator| allocator.leave(self.patience()));
        if !futures::future::join_all(leaving).await.into_iter().all(|emptied| emptied) {
            tracing::warn!("sections were left behind; they are served again when their lease is over");
        }
    }

    /// Waits for the threads of the stages that ended. Blocks; after [`Process::shutdown`], outside of a runtime.
    pub(crate) fn join(self) {
        for cores in self.stages.into_iter().flat_map(|stage| stage.threads) {
            cores.join();
        }
    }
}

/// Binds an address of a set file, which may be a name.
pub(crate) fn bind(addr: &str, sockets: usize) -> anyhow::Result<Vec<TcpListener>> {
    let resolved: SocketAddr = addr
        .to_socket_addrs()
        .with_context(|| format!("cannot find the host of {addr:?}"))?
        .next()
        .with_context(|| format!("the host of {addr:?} has no address"))?;
    let listeners = listen::bind(resolved, sockets).map_err(|error| {
        let failure = Failure::new(Exit::Failed, error.to_string());
        match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                failure.hint("another process has the port: stop it, or choose another port")
            }
            std::io::ErrorKind::AddrNotAvailable => failure.hint("the address is not one of this machine"),
            _ => failure,
        }
    })?;
    Ok(listeners)
}

/// Binds one socket.
pub(crate) fn bind_one(addr: &str) -> anyhow::Result<TcpListener> {
    Ok(bind(addr, 1)?.remove(0))
}
