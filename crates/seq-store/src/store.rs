//! Start, run and stop of a member of the store, which consists of the replicated log and of the services and tasks
//! around it.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use seq_api::metrics::connection_metrics;
use seq_core::set_spec::{AllocSpec, SetSpec, StoreSpec};
use seq_core::state::Terms;
use seq_kit::admission::{Admission, FewFiles, OwnFiles};
use seq_kit::http::Checks;
use seq_kit::nonce::draw_nonce;
use seq_kit::tasks::{Hung, Kind, TaskGroup};
use seq_proto::dial::{Dial, ExpectedServer};
use seq_raft::{DataDir, Peer, RaftConfig, RaftNode, RunningNode};
use tokio::sync::watch;

use crate::admin::events::EventLog;
use crate::admin::nodes::NodeAdmin;
use crate::admin::status::View;
use crate::admin::top_sections;
use crate::arbiter::ArbiterShell;
use crate::audit::service::AuditLog;
use crate::audit::{self, AuditFile};
use crate::backup::service::Backups;
use crate::between::migrations::Migrations;
use crate::between::{Between, exchange, quarantine};
use crate::config::{ConfigError, StoreConfig};
use crate::control::service::Control;
use crate::control::{losses, reach};
use crate::definition::{self, DeclaredSet, SetMismatch};
use crate::leader_link::LeaderLink;
use crate::replicated_set::{RaisesApplied, ReplicatedSet, SetState, read_state};
use crate::section_writes;
use crate::server::{self, Services};
use crate::set_admin::SetAdmin;

/// Maximum number of connections to one other member. They carry Raft's messages, forwarded requests of AllocSvrs, and
/// the probes at the start.
const CONNECTIONS_PER_MEMBER: usize = 4;

/// Interval at which [`StoreHandle::ready`] checks whether the member is ready.
const READY_INTERVAL: Duration = Duration::from_millis(50);

/// Entry point of a member of the store.
#[derive(Debug)]
pub struct Store;

impl Store {
    /// Starts a member on the current async runtime. When this function returns, the member accepts connections, but it
    /// is ready only when [`StoreHandle::readiness`] reports no failure. If the member fails later, the group of tasks
    /// `tasks` shuts down.
    ///
    /// # Errors
    /// [`StartError`]; in this case the group of tasks shuts down too.
    pub async fn start(config: StoreConfig, tasks: TaskGroup) -> Result<StoreHandle, StartError> {
        Store::start_with(config, Dial::tcp(), tasks).await
    }

    /// Starts a member like [`Store::start`]. The member opens its connections to other members through `dial`. At the
    /// addresses of a set's store, it accepts only servers whose certificate is of a store of that set.
    ///
    /// # Errors
    /// [`StartError`]; in this case the group of tasks shuts down too.
    pub async fn start_with(config: StoreConfig, dial: Dial, tasks: TaskGroup) -> Result<StoreHandle, StartError> {
        let started = boxed_start(config, dial, &tasks).await;
        if started.is_err() {
            tasks.cancel();
        }
        started
    }
}

/// Running member. If this value is dropped, the member runs on until its group of tasks shuts down.
pub struct StoreHandle {
    node: RunningNode<SetState>,
    view: View,
    allocs: watch::Sender<Arc<[AllocSpec]>>,
    tasks: TaskGroup,
}

impl StoreHandle {
    /// Returns a function that replaces the list of AllocSvrs from the set file, with their weights. While this member
    /// leads, it distributes sections among the AllocSvrs in the list and registers no other AllocSvr.
    pub fn declarer(&self) -> impl Fn(&[AllocSpec]) + Send + Sync + use<> {
        let allocs = self.allocs.clone();
        move |declared| {
            allocs.send_if_modified(|current| {
                let changed = **current != *declared;
                if changed {
                    *current = declared.into();
                }
                changed
            });
        }
    }

    /// Returns the Raft id of the leader, if this member knows the leader.
    #[must_use]
    pub fn leader(&self) -> Option<u64> {
        self.node.handle().leader()
    }

    /// Returns whether this member leads.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.node.handle().is_leader()
    }

    /// Returns a function that reports whether this member was removed from its store and stops for this reason. The
    /// function can be called at any time, even after the member has stopped.
    pub fn removal(&self) -> impl Fn() -> bool + Send + Sync + 'static + use<> {
        self.node.removal()
    }

    /// Returns the named readiness checks of this member: whether it is connected to a majority, has applied nearly all
    /// entries, and holds a defined set that is not in quarantine.
    #[must_use]
    pub fn readiness(&self) -> Checks {
        self.view.readiness()
    }

    /// Waits until every check of [`StoreHandle::readiness`] succeeds. Cancel safe.
    pub async fn ready(&self) {
        let checks = self.readiness();
        let mut changes = self.node.handle().changes();
        while checks.ask().is_err() {
            tokio::select! {
                changed = changes.changed() => if changed.is_err() {
                    // The Raft library has stopped, so the member never gets ready, and its group shuts down.
                    std::future::pending::<()>().await;
                },
                // A follower can become ready because of a message that it receives, and `changes` does not report such
                // a message.
                () = tokio::time::sleep(READY_INTERVAL) => {}
            }
        }
    }

    /// Stops the member. Transfers leadership to another voter if this member leads, ends the tasks of its group, and
    /// stops the Raft library. Returns when all data is written and the lock on the data directory is released.
    ///
    /// # Errors
    /// [`Hung`] if the storage has not finished its last writes within 10 s.
    pub async fn shutdown(self) -> Result<(), Hung> {
        boxed_shutdown(self).await
    }
}

/// Boxes the future that starts a member. The crate that polls or boxes a future compiles it. Without this function,
/// the caller's crate would compile the whole store with its Raft library a second time.
fn boxed_start(config: StoreConfig, dial: Dial, tasks: &TaskGroup) -> BoxFuture<'_, Result<StoreHandle, StartError>> {
    Box::pin(start(config, dial, tasks))
}

/// Boxes the future that stops a member, for the same reason as [`boxed_start`].
fn boxed_shutdown(store: StoreHandle) -> BoxFuture<'static, Result<(), Hung>> {
    let StoreHandle { node, view, tasks, .. } = store;
    Box::pin(async move { node.shutdown(&tasks, || drop(view)).await })
}

/// Reason why a member does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration is invalid.
    #[error("configuration")]
    Config(#[from] ConfigError),
    /// The operating system does not allow the process to open enough files.
    #[error(transparent)]
    Files(#[from] FewFiles),
    /// The member is the only store of its set, and its data directory is empty, so it may have lost its data.
    #[error(
        "data directory {place} is empty, and the set has no other store that could report whether it ever held data: a store \
         that lost its data would give out all numbers again; start it with --form if it is new"
    )]
    MayHaveHeldData {
        /// The directory.
        place: String,
    },
    /// The set file describes another set than the stored data.
    #[error(transparent)]
    Set(#[from] SetMismatch),
    /// A gRPC port cannot be served.
    #[error("gRPC port")]
    Listen(#[source] std::io::Error),
    /// The replicated log does not start, because of its data directory or because another member refuses to accept
    /// this member.
    #[error(transparent)]
    Raft(#[from] seq_raft::StartError),
}

async fn start(config: StoreConfig, dial: Dial, tasks: &TaskGroup) -> Result<StoreHandle, StartError> {
    let started = Instant::now();
    let (set, name) = (Arc::new(config.validate()?), config.me()?.name.clone());
    let StoreConfig { spec, cluster, id, data, join, form, sockets, options, clock, events, .. } = config;
    let raft = RaftConfig {
        cluster: cluster.clone(),
        set: set.name.clone(),
        id,
        node: name.clone(),
        data: data.clone(),
        peers: peers(&spec, sockets.raft.is_some()),
        join,
        options: options.raft(),
        auto_upgrade: options.auto_upgrade,
        dial: dial.expecting(ExpectedServer::store().of_set(&set.name)),
        events: events.clone(),
    };
    let node = RaftNode::<SetState>::prepare(raft, tasks)?;
    check_form(&node, &data, &spec, form)?;
    let admission = Admission::new(&name, own_files(&spec), connection_metrics(&name, &events))?;
    let services = Services::closed(&node, admission, events.clone());
    let tls = sockets.peers.tls().cloned();
    // The port is served before the data is loaded, because other members that start at the same time probe this
    // member.
    server::serve(services.clone(), &spec.name, sockets, tasks).map_err(StartError::Listen)?;

    let raises = RaisesApplied::default();
    let check = |state: &_| read_state(state, |state| definition::check_set(state, &set)).map(drop);
    let loaded = node.load(raises.observer(), |state| check(state).map_err(StartError::from)).await?;
    let replicated = ReplicatedSet::new(loaded.handle().clone(), raises);
    let names = (set.name.clone(), name.clone());
    services.leader.0.open(LeaderLink::new(loaded.handle().clone(), (&set.name, &name), options.commit_timeout));
    let (quarantine_awaits, awaited) = quarantine::awaited();
    let (allocs, declared) = watch::channel(Arc::from(spec.allocs.clone()));
    let (arbiter, plan) = ArbiterShell::new(&replicated, &allocs, (options.arbiter_timeouts(), clock), &set.name);
    let between = Between::new(&cluster, replicated.clone(), plan.clone());
    let (migrations, departures, progress) = Migrations::new(between.clone(), &set.name);
    let view = View {
        replicated: replicated.clone(),
        set: set.clone(),
        awaited: awaited.clone(),
        node: name.as_str().into(),
        admin_addrs: admin_addrs(&spec, id),
        revision: config.revision.into(),
        cpu_us: config.cpu_us,
        settings: config.settings,
        events,
        tls,
        started,
        instance: draw_nonce(),
        sets: SetAdmin::new(set.clone(), between.clone(), progress),
        on_their_way: crate::admin::status::OnTheirWay::default(),
    };
    let departing = (departures, between.arrivals.clone(), awaited);
    let control = Control::new(set.clone(), declared, replicated.clone(), plan.clone(), departing, &name);
    let (calls, asked) = (control.calls.clone(), control.asked.clone());
    services.control.local.0.open(control);
    services.admin.0.open(view.clone());
    services.inter_set.0.open(between.clone());
    services.sets.0.open(view.sets.clone());
    open_audit(&services, &replicated, (&set.name, &name), &data, tasks);
    services.backup.0.open(Backups::new(&cluster, replicated.clone()));
    services.nodes.0.open(NodeAdmin::new(set.clone(), replicated.clone(), plan.clone()));
    let node = loaded.run(tasks);
    spawn(tasks, "store losses", Kind::Disposable, losses::ask(replicated.clone(), asked));
    run_owners(tasks, arbiter, reach::watch(names, replicated.clone(), plan, calls));
    run_between(tasks, between, migrations, quarantine_awaits);
    let agreed = agree_on_definition(replicated, set.clone(), Terms { lease_wait: options.lease_wait });
    spawn(tasks, "store set", Kind::Critical, agreed);
    run_gauges(tasks, &view);
    tracing::info!(store = name, cluster, set = set.name, id, round_trip = ?options.max_round_trip(), "the store member listens");
    Ok(StoreHandle { node, view, allocs, tasks: tasks.clone() })
}

/// Starts the tasks that decide which node owns each section.
fn run_owners(tasks: &TaskGroup, arbiter: ArbiterShell, reach: impl Future<Output = ()> + Send + 'static) {
    spawn(tasks, "store reach", Kind::Critical, reach);
    spawn(tasks, "store arbiter", Kind::Critical, arbiter.run());
}

/// Starts the tasks that publish the member's gauges and record the writes of sections.
fn run_gauges(tasks: &TaskGroup, view: &View) {
    spawn(tasks, "store gauges", Kind::Disposable, view.clone().update_gauges());
    spawn(tasks, "top sections", Kind::Disposable, top_sections::update(view.clone()));
    let (writes, replicated) = (view.replicated.writes().clone(), view.replicated.clone());
    let read = move |first| replicated.read(|state| section_writes::ceilings(state, first));
    spawn(tasks, "section writes", Kind::Disposable, writes.record(read));
}

/// Starts the tasks that communicate with the stores of other sets.
fn run_between(tasks: &TaskGroup, between: Between, migrations: Migrations, awaits: watch::Sender<String>) {
    spawn(tasks, "store migrations", Kind::Critical, migrations.run());
    spawn(tasks, "store exchange", Kind::Critical, exchange::run(between.clone()));
    spawn(tasks, "store quarantine", Kind::Critical, quarantine::run(between, awaits));
}

/// Opens the recorder of operators' operations and the services that read them, and starts the tasks that write the
/// audit log. Called before the services whose operations are recorded are opened.
fn open_audit(
    services: &Services,
    replicated: &ReplicatedSet,
    (set, name): (&str, &str),
    data: &DataDir,
    tasks: &TaskGroup,
) {
    let (recorder, ends) = audit::ends(replicated, services.leader.clone(), name);
    services.recorder.open(recorder);
    services.audit.0.open(AuditLog::new(set, replicated.clone()));
    services.events.0.open(EventLog::new((set, name), replicated.clone()));
    spawn(tasks, "store audit", Kind::Critical, ends.run());
    if let DataDir::Path(dir) = data {
        let file = AuditFile::new(dir, replicated.clone());
        tasks.spawn("store audit file", Kind::Critical, file.run(tasks.clone()));
    }
}

/// Returns the number of files that a member opens for its own purposes, which do not include the connections of its
/// clients.
fn own_files(spec: &SetSpec) -> OwnFiles {
    OwnFiles { dials: spec.stores.len() * CONNECTIONS_PER_MEMBER, threads: 1 }
}

/// Returns the members that the set file lists. `apart` states whether Raft has a port of its own.
fn peers(spec: &SetSpec, apart: bool) -> Vec<Peer> {
    let peer = |store: &StoreSpec| Peer {
        id: store.id,
        name: store.name.clone(),
        addr: store.addr.clone(),
        raft_addr: if apart { store.raft.clone() } else { store.addr.clone() },
    };
    spec.stores.iter().map(peer).collect()
}

/// Returns the addresses of the admin ports of the set's stores. The address of this member comes first.
fn admin_addrs(spec: &SetSpec, id: u64) -> Vec<String> {
    let (own, others): (Vec<_>, Vec<_>) = spec.stores.iter().partition(|store| store.id == id);
    own.into_iter().chain(others).filter_map(|store| store.admin.clone()).collect()
}

/// Returns an error if the member is the only store of its set, has an empty data directory, and was started without
/// `form`. No other store could report whether this store ever held data.
fn check_form(node: &RaftNode<SetState>, data: &DataDir, spec: &SetSpec, form: bool) -> Result<(), StartError> {
    if form || !node.is_fresh() || spec.stores.len() > 1 {
        return Ok(());
    }
    let place = match data {
        DataDir::Path(dir) => dir.display().to_string(),
        DataDir::Memory(_) => "in memory".to_owned(),
    };
    Err(StartError::MayHaveHeldData { place })
}

/// Spawns a task in the group `tasks`. The task runs until it ends by itself or the group shuts down.
fn spawn(tasks: &TaskGroup, name: &'static str, kind: Kind, task: impl Future<Output = ()> + Send + 'static) {
    let stopping = tasks.token();
    tasks.spawn(name, kind, async move {
        // Shutdown is polled first, because it also ends the channels that the task watches, and this end is no fault
        // of the task.
        tokio::select! {
            biased;
            () = stopping.cancelled() => {}
            () = task => {}
        }
    });
}

/// Defines the set and its lease terms if they are not defined yet. Returns only if the stored values differ from `set`
/// or `terms`.
async fn agree_on_definition(replicated: ReplicatedSet, set: Arc<DeclaredSet>, terms: Terms) {
    if let Err(mismatch) = definition::define_set(&replicated, &set).await {
        return tracing::error!(error = %mismatch, "the set file does not match the store");
    }
    match definition::agree_on_terms(&replicated, terms).await {
        // The definition never changes, and a command may change the terms regardless of the settings, so nothing is
        // left to do.
        Ok(()) => std::future::pending().await,
        Err(mismatch) => tracing::error!(error = %mismatch, "the settings do not match the store"),
    }
}
