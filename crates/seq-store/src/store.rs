//! A member of the store, from its configuration to its end.
//!
//! The order of the start is the safety of it: whose data directory this is, then (with an empty one) whether the
//! others know this id under another directory, then loading, then (with data) whether the others remember more than
//! there is, then the services, and Raft last of all. Nothing durable is made and no vote is given before the others
//! were asked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openraft::async_runtime::WatchReceiver;
use openraft::{Config, SnapshotPolicy};
use seq_api::metrics::connection_metrics;
use seq_core::set_spec::SetSpec;
use seq_core::state::{SetDefinition, Terms};
use seq_kit::admission::{Admission, FewFiles, OwnFiles};
use seq_kit::http::Checks;
use seq_kit::tasks::{Hung, Kind, TaskGroup};
use seq_proto::dial::Dial;
use tokio::sync::watch::Receiver;

use crate::arbiter::ArbiterShell;
use crate::bootstrap::{self, SetMismatch};
use crate::config::{ConfigError, DataDir, StoreConfig, StoreOptions};
use crate::control_forward::LeaderLink;
use crate::control_service::Control;
use crate::greeting::{self, Greeter, Prober};
use crate::handover;
use crate::link_times::LinkTimes;
use crate::member_changes::MemberChanges;
use crate::member_service::StoreAdmin;
use crate::network::{Disownment, Network};
use crate::node_service::NodeAdmin;
use crate::peers::Identity;
use crate::proposer::Proposer;
use crate::quorum::Quorum;
use crate::raft_service::RaftDoor;
use crate::server;
use crate::status::View;
use crate::storage::{self, Closed, OpenError, Opened, Prepared};
use crate::types::Raft;
use crate::unreached;

mod slow_disk;

/// Most connections to one other member: for Raft's messages, for control calls, and for the questions of a start.
const CONNECTIONS_PER_MEMBER: usize = 4;

/// How long storage may take to write what is left.
const CLOSE_PATIENCE: Duration = Duration::from_secs(10);

/// How often a member that waits to be ready looks again.
const READY_AGAIN: Duration = Duration::from_millis(50);

/// Log entries in one message to a follower: about what the others gather while one message is on its way.
const MAX_ENTRIES_PER_MESSAGE: u64 = 1_024;

/// Purged entries wait for this many more, so that a purge is worth its sync and still short.
const PURGE_BATCH: u64 = 256;

/// How soon a member that cannot be reached is tried again: quickly at first, as a restarted process is back within that.
const RECONNECT: &str = "20ms 40ms 80ms ...320ms";

/// A member of the store.
#[derive(Debug)]
pub struct Store;

impl Store {
    /// Starts a member on the current runtime. It listens when this returns; it is ready when [`StoreHandle::readiness`]
    /// says so. When the member cannot go on, the group shuts down.
    ///
    /// # Errors
    /// [`StartError`]; the group shuts down then, too.
    pub async fn start(config: StoreConfig, tasks: TaskGroup) -> Result<StoreHandle, StartError> {
        Store::start_with(config, Dial::tcp(), tasks).await
    }

    /// Starts a member that reaches the others by `dial`.
    ///
    /// # Errors
    /// [`StartError`]; the group shuts down then, too.
    pub async fn start_with(config: StoreConfig, dial: Dial, tasks: TaskGroup) -> Result<StoreHandle, StartError> {
        let started = start(config, dial, &tasks).await;
        if started.is_err() {
            tasks.cancel();
        }
        started
    }
}

/// A running member. Dropping it leaves the member running until its group shuts down.
pub struct StoreHandle {
    raft: Raft,
    view: View,
    tasks: TaskGroup,
    closed: Closed,
    disowned: Receiver<Option<Disownment>>,
}

impl StoreHandle {
    /// Raft id of the leader, where this member knows one.
    #[must_use]
    pub fn leader(&self) -> Option<u64> {
        self.view.leader()
    }

    /// Whether this member leads.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.raft.is_leader()
    }

    /// Tells, at any time and after the end too, whether this member was removed from its store: it stops then.
    pub fn removal(&self) -> impl Fn() -> bool + Send + Sync + 'static + use<> {
        let disowned = self.disowned.clone();
        move || matches!(&*disowned.borrow(), Some(Disownment::Removed(_)))
    }

    /// Named checks of whether this member takes part and is current.
    #[must_use]
    pub fn readiness(&self) -> Checks {
        self.view.readiness()
    }

    /// Waits until every check of [`StoreHandle::readiness`] holds. Cancel safe.
    pub async fn ready(&self) {
        let checks = self.readiness();
        let mut metrics = self.raft.metrics();
        while checks.ask().is_err() {
            tokio::select! {
                changed = metrics.changed() => if changed.is_err() {
                    // Raft has stopped: the member never gets ready, and its group shuts down.
                    std::future::pending::<()>().await;
                },
                // What a follower received lately changes no metric.
                () = tokio::time::sleep(READY_AGAIN) => {}
            }
        }
    }

    /// Stops the member: hands leadership over where it has it, ends the group's tasks, stops Raft, and returns when
    /// everything is written and the data directory is free.
    ///
    /// # Errors
    /// [`Hung`] when storage did not end in time.
    pub async fn shutdown(self) -> Result<(), Hung> {
        let StoreHandle { raft, view, tasks, closed, .. } = self;
        handover::step_down(&raft).await;
        tasks.cancel();
        // Its only error is a panic of Raft's task, which the watch has reported.
        let _ = raft.shutdown().await;
        drop((raft, view));
        tokio::time::timeout(CLOSE_PATIENCE, closed.wait()).await.map_err(|_| Hung { tasks: vec!["store storage"] })
    }
}

/// Why a member does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration cannot be.
    #[error("configuration")]
    Config(#[from] ConfigError),
    /// The process may open too few files.
    #[error(transparent)]
    Files(#[from] FewFiles),
    /// The data directory cannot be used.
    #[error("data directory")]
    Storage(#[from] OpenError),
    /// Another member refuses this one.
    #[error("store {by} refuses: {why}")]
    Refused {
        /// Raft id of the other member.
        by: u64,
        /// What it says.
        why: String,
    },
    /// The group has removed this member.
    #[error("store {by} refuses: {why}")]
    Removed {
        /// Raft id of the other member.
        by: u64,
        /// What it says.
        why: String,
    },
    /// The only store of a set has an empty data directory.
    #[error(
        "data directory {place} is empty, and the set has no other store that could tell whether it ever held data: a store that \
         lost its data would give out all numbers again; start it with --form if it is new"
    )]
    MayHaveHeldData {
        /// The directory.
        place: String,
    },
    /// There is a group, and this member is not of it.
    #[error(
        "store {by} is of a group that has no store {id}: start this one with --join, and add it with \
         `seqsvr store add {id}`"
    )]
    NotAMember {
        /// Raft id of the other member.
        by: u64,
        /// Raft id of this one.
        id: u64,
    },
    /// The set file describes another set.
    #[error(transparent)]
    Set(#[from] SetMismatch),
    /// The gRPC port cannot be served.
    #[error("gRPC port")]
    Listen(#[source] std::io::Error),
    /// The Raft library cannot start.
    #[error("raft: {what}")]
    Raft {
        /// What it says.
        what: String,
    },
}

async fn start(config: StoreConfig, dial: Dial, tasks: &TaskGroup) -> Result<StoreHandle, StartError> {
    let started = Instant::now();
    let set = Arc::new(config.validate()?);
    let node = config.me()?.name.clone();
    let StoreConfig { spec, cluster, id, data, join, form, listener, options, clock, revision, cpu_us } = config;
    let addrs: BTreeMap<u64, String> = spec.stores.iter().map(|store| (store.id, store.addr.clone())).collect();

    let prepared = storage::prepare(&data, &cluster, id)?;
    let me = Identity { cluster: cluster.clone(), id, nonce: prepared.nonce() };
    check_form(&prepared, &data, &spec, form)?;
    let admission = Admission::new(
        &node,
        OwnFiles { dials: addrs.len() * CONNECTIONS_PER_MEMBER, threads: 1 },
        connection_metrics(&node),
    )?;
    let doors = server::Doors::closed(&me, prepared.is_fresh(), admission, tasks.token());
    // The other members may be starting too, and ask the same questions.
    server::serve(doors.clone(), listener, tasks).map_err(StartError::Listen)?;
    let (opened, unasked) = open(prepared.named(&spec.name, &node), &set, (&me, &dial), &addrs, join).await?;
    let Opened { log, machine, state, stall, closed, .. } = opened;
    let reader = log.reader();
    let network = Network::new(me.clone(), reader.clone(), dial.clone(), addrs.clone(), LinkTimes::new(&options));
    let round_trips = network.round_trips();
    let (standing, disowned) = (network.standing(), network.disowned());
    let raft = build(id, raft_config(&cluster, &options)?, network.clone(), log, machine).await?;
    standing.watch(&raft);
    let proposer = Proposer::new(raft.clone(), &set.name, addrs, options.commit_timeout, tasks.token());
    let quorum = Quorum::new(raft.clone(), (&set.name, &node), &options, round_trips);
    doors.control.link.open(LeaderLink::new(quorum.clone(), proposer.clone(), dial.clone(), &options));
    let view = View {
        raft: raft.clone(),
        quorum: quorum.clone(),
        state: state.clone(),
        set: set.clone(),
        node: node.into(),
        revision: revision.into(),
        cpu_us,
        started,
    };
    let prober = Prober { me: me.clone(), dial: dial.clone() };
    let changes = MemberChanges::new(raft.clone(), state.clone(), proposer.clone(), prober, &options);
    doors.raft.gate.open(RaftDoor::new(&raft, &state, &reader, &network));
    let timeouts = (options.arbiter_timeouts(), clock);
    let (arbiter, plan) =
        ArbiterShell::new(raft.clone(), state.clone(), proposer.clone(), spec.allocs.clone(), timeouts);
    let control = Control::new(set.clone(), &spec.allocs, proposer.clone(), state.clone(), plan.clone());
    let calls = control.calls.clone();
    doors.control.local.open(control);
    doors.admin.open(view.clone());
    doors.members.open(StoreAdmin { set: set.clone(), changes: changes.clone(), quorum: quorum.clone() });
    doors.nodes.open(NodeAdmin::new(set.clone(), quorum.clone(), state.clone(), proposer.clone(), plan.clone()));
    raft.run();

    let (seen, gone) = (view.clone(), disowned.subscribe());
    let handle = StoreHandle { raft: raft.clone(), view: seen, tasks: tasks.clone(), closed, disowned: gone };
    let stores = spec.stores;
    let greeter = Greeter { me, dial, raft: raft.clone(), stores, join, unasked, standing, disowned };
    spawn(tasks, "store raft", Kind::Critical, watch(raft.clone(), handle.disowned.clone(), tasks.clone()));
    let reach = unreached::watch(quorum.clone(), state.clone(), plan, calls, changes.clone());
    spawn(tasks, "store reach", Kind::Critical, reach);
    spawn(tasks, "store quorum", Kind::Critical, quorum.watch());
    spawn(tasks, "store arbiter", Kind::Critical, arbiter.run());
    spawn(
        tasks,
        "store set",
        Kind::Critical,
        keep_set(raft.clone(), state, proposer.clone(), (set, Terms { lease_wait: options.lease_wait })),
    );
    spawn(tasks, "store hello", Kind::Critical, greeter.run());
    spawn(tasks, "store members", Kind::Critical, changes.keep_settled());
    spawn(tasks, "store disk", Kind::Critical, slow_disk::watch(raft, stall, proposer));
    tracing::info!(store = %view.node, cluster, set = view.set.name, id, round_trip = ?options.max_round_trip(), "the store member listens");
    spawn(tasks, "store gauges", Kind::Disposable, view.keep_gauges());
    Ok(handle)
}

/// The only store of a set may have lost its data, and no other one can tell.
fn check_form(prepared: &Prepared, data: &DataDir, spec: &SetSpec, form: bool) -> Result<(), StartError> {
    if form || !prepared.is_fresh() || spec.stores.len() > 1 {
        return Ok(());
    }
    let place = match data {
        DataDir::Path(dir) => dir.display().to_string(),
        DataDir::Memory(_) => "in memory".to_owned(),
    };
    Err(StartError::MayHaveHeldData { place })
}

/// Introduces the directory to the other stores and loads the data, which is refused when it is of another set while
/// nothing uses it yet; answers also which stores could not be asked about an empty directory.
async fn open(
    prepared: Prepared,
    set: &SetDefinition,
    (me, dial): (&Identity, &Dial),
    stores: &BTreeMap<u64, String>,
    join: bool,
) -> Result<(Opened, BTreeMap<u64, String>), StartError> {
    if prepared.is_fresh() {
        let unasked = greeting::introduce(me, dial, stores.clone(), join).await?;
        return Ok((prepared.open()?, unasked));
    }
    let opened = prepared.open()?;
    let mut checked = bootstrap::check_set(&opened.state, set).map(drop).map_err(StartError::from);
    if checked.is_ok() {
        checked = greeting::reintroduce(me, &opened.log.reader().position(), dial, stores.clone()).await;
    }
    if let Err(refusal) = checked {
        let Opened { log, machine, closed, .. } = opened;
        drop((log, machine));
        closed.wait().await;
        return Err(refusal);
    }
    Ok((opened, BTreeMap::new()))
}

async fn build(
    id: u64,
    config: Arc<Config>,
    network: Network,
    log: storage::LogStore,
    machine: storage::StateMachine,
) -> Result<Raft, StartError> {
    Raft::build(id, config, network, log, machine).await.map_err(|error| raft_error(&error))
}

/// The Raft library's configuration; everything it names otherwise is its default.
fn raft_config(cluster: &str, options: &StoreOptions) -> Result<Arc<Config>, StartError> {
    let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let config = Config {
        cluster_name: cluster.to_owned(),
        heartbeat_interval: ms(options.heartbeat),
        election_timeout_min: ms(options.election_min),
        election_timeout_max: ms(options.election_max),
        install_snapshot_timeout: ms(options.snapshot_timeout),
        max_payload_entries: MAX_ENTRIES_PER_MESSAGE,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(options.snapshot_every),
        max_in_snapshot_log_to_keep: options.log_kept,
        purge_batch_size: PURGE_BATCH,
        // A member that was cut off must not depose the leader when it comes back.
        enable_pre_vote: Some(true),
        // A leader that restarts stands for election: restored without one, it could answer from a state that is behind.
        enable_leader_restore: Some(false),
        backoff: RECONNECT.to_owned(),
        ..Config::default()
    };
    config.validate().map(Arc::new).map_err(|error| raft_error(&error))
}

/// Runs a task until it ends or the group shuts down.
fn spawn(tasks: &TaskGroup, name: &'static str, kind: Kind, task: impl Future<Output = ()> + Send + 'static) {
    let stopping = tasks.token();
    tasks.spawn(name, kind, async move {
        // In this order, because a shutdown also ends what the task watches, and that is no fault then.
        tokio::select! {
            biased;
            () = stopping.cancelled() => {}
            () = task => {}
        }
    });
}

/// Ends when this member cannot go on: the Raft library has stopped, or the others refuse this member for good.
async fn watch(raft: Raft, mut disowned: Receiver<Option<Disownment>>, tasks: TaskGroup) {
    let mut metrics = raft.server_metrics();
    loop {
        match &*disowned.borrow_and_update() {
            Some(Disownment::OtherDataDirectory(why)) => {
                tracing::error!(why, "this data directory is not the one that the store knows");
                return;
            }
            Some(Disownment::AcknowledgedDataLost(why)) => {
                tracing::error!(why, "this data directory lacks what it acknowledged");
                return;
            }
            Some(Disownment::Contradicted(why)) => {
                tracing::error!(why, "the leader lost entries that are committed here; this member stops to keep them");
                return;
            }
            Some(Disownment::Removed(why)) => {
                tracing::warn!(why, "this member was removed from the store and stops");
                // As it is asked to: nothing is lost by it.
                tasks.cancel();
                return;
            }
            None => {}
        }
        tokio::select! {
            changed = disowned.changed() => if changed.is_err() { return },
            changed = metrics.changed() => if changed.is_err() {
                let metrics = raft.metrics();
                tracing::error!(state = ?metrics.borrow_watched().running_state, "raft has stopped");
                return;
            },
        }
    }
}

/// Defines the set, or ends when the stored one is another.
async fn keep_set(
    raft: Raft,
    state: storage::SharedState,
    proposer: Proposer,
    (set, terms): (Arc<SetDefinition>, Terms),
) {
    if let Err(mismatch) = bootstrap::define_set(&raft, &state, &proposer, &set).await {
        return tracing::error!(error = %mismatch, "the set file does not match the store");
    }
    match bootstrap::agree_on_terms(&raft, &state, &proposer, terms).await {
        // The definition never changes, and later terms are data: nothing is left to do.
        Ok(()) => std::future::pending().await,
        Err(mismatch) => tracing::error!(error = %mismatch, "the settings do not match the store"),
    }
}

fn raft_error(error: &impl std::fmt::Display) -> StartError {
    StartError::Raft { what: error.to_string() }
}

#[cfg(test)]
mod tests;
