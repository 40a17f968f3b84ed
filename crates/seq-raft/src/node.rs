//! Start, run and stop of a member of the Raft group.
//!
//! Starting a member is safe because of the order of these steps:
//!
//! 1. Read the identity of the data directory.
//! 2. If the directory is empty, ask the other members whether they know this member's id with another data directory.
//! 3. Load the data.
//! 4. If the directory has data, ask the other members whether this member acknowledged more entries to them than are
//!    stored here.
//! 5. Open the services.
//! 6. Start the Raft library.
//!
//! So this member asks the other members before it makes any durable change or grants any vote.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use seq_api::node_events::NodeEvents;
use seq_core::node_events::Fact;
use seq_kit::tasks::{Hung, Kind, TaskGroup};
use tokio::sync::watch::Receiver;
use tokio_util::sync::CancellationToken;

use crate::comparing::Comparison;
use crate::config::RaftConfig;
use crate::error::StartError;
use crate::eviction::Eviction;
use crate::gate::Gate;
use crate::handle::RaftHandle;
use crate::leadership::quorum::Quorum;
use crate::leadership::slow_disk;
use crate::membership::changes::MemberChanges;
use crate::membership::format;
use crate::membership::probe::{self, PeerProbe, Prober};
use crate::membership::service::MemberAdmin;
use crate::own_clock::OwnClock;
use crate::propose::{Batches, Proposer};
use crate::state_machine::StateMachine;
use crate::status;
use crate::storage::{self, AppliedState, Closed, DataDir, Observer, Opened, Prepared, Raft};
use crate::transport::client::Network;
use crate::transport::formats::Formats;
use crate::transport::identity::Identity;
use crate::transport::link::LinkTimeouts;
use crate::transport::server::{self, RaftServer};

/// Maximum time for which [`RunningNode::shutdown`] waits until storage has finished its last writes.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Member whose data directory is locked and is checked to belong to this member. Its data is not loaded yet, and it
/// has made no durable change.
pub struct RaftNode<M> {
    config: RaftConfig,
    me: Identity,
    prepared: Prepared,
    server: RaftServer,
    members: Gate<MemberAdmin>,
    stopping: CancellationToken,
    machine: PhantomData<fn() -> M>,
}

impl<M: StateMachine> RaftNode<M> {
    /// Locks the data directory and checks the identity that is stored there. When `tasks` shuts down, the calls that
    /// the member's services are processing end.
    ///
    /// # Errors
    /// The data directory belongs to another cluster or member, has a newer format than this program reads, is damaged,
    /// or is in use by another process.
    pub fn prepare(config: RaftConfig, tasks: &TaskGroup) -> Result<RaftNode<M>, StartError> {
        let prepared = storage::prepare(&config.data, &config.cluster, config.id)?.named(&config.set, &config.node);
        let (cluster, id, nonce) = (config.cluster.clone(), config.id, prepared.nonce());
        let me = Identity { cluster, id, nonce, newest_format: M::FORMAT };
        let (is_fresh, stopping) = (prepared.is_fresh(), tasks.token());
        let server = RaftServer { me: me.clone(), is_fresh, gate: Gate::closed(), stopping: stopping.clone() };
        let (members, machine) = (Gate::closed(), PhantomData);
        Ok(RaftNode { config, me, prepared, server, members, stopping, machine })
    }

    /// Returns whether the data directory is still empty.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.prepared.is_fresh()
    }

    /// Returns the service that other members call. The caller of this function must start serving it before
    /// [`RaftNode::load`], because other members that start at the same time probe this member.
    #[must_use]
    pub fn server(&self) -> RaftServer {
        self.server.clone()
    }

    /// Returns the gate of the service with which operators list and change members. The gate opens in
    /// [`LoadedNode::run`].
    #[must_use]
    pub fn member_admin(&self) -> Gate<MemberAdmin> {
        self.members.clone()
    }

    /// Probes the other members and loads the stored data. `check` may refuse the loaded state before any other code
    /// uses it. `observe` is called with the output of each command that this member applies after loading.
    ///
    /// # Errors
    /// [`StartError`], or the error of `check`. In both cases the lock on the data directory is released.
    pub async fn load<E: From<StartError>>(
        self,
        observe: Observer<M>,
        check: impl FnOnce(&AppliedState<M>) -> Result<(), E>,
    ) -> Result<LoadedNode<M>, E> {
        let RaftNode { config, me, prepared, server, members, stopping, machine: PhantomData } = self;
        let addrs: BTreeMap<u64, String> = config.peers.iter().map(|peer| (peer.id, peer.addr.clone())).collect();
        let of_raft: BTreeMap<u64, String> =
            config.peers.iter().map(|peer| (peer.id, peer.raft_addr.clone())).collect();
        let (opened, unreached) = open(prepared, (&me, &config), &of_raft, observe, check).await?;
        let Opened { log, machine, state, stall, closed, .. } = opened;
        let (reader, timeouts) = (log.reader(), LinkTimeouts::new(&config.options));
        let network = Network::new(me.clone(), reader.clone(), config.dial.clone(), of_raft, timeouts);
        let library = config.options.library(&config.cluster)?;
        let raft = Raft::build(config.id, library, network.clone(), log, machine)
            .await
            .map_err(|error| StartError::raft(&error))?;
        network.membership().watch(&raft);
        let (proposer, batches) =
            Proposer::new(raft.clone(), &config.set, addrs, config.options.commit_timeout, stopping);
        let names = (&*config.set, &*config.node);
        let quorum = Quorum::new(raft.clone(), names, &config.options, network.round_trips(), config.events.clone());
        let prober = Prober { me: me.clone(), dial: config.dial.clone() };
        let replica = state.replica();
        let formats = Formats { mine: M::FORMAT, reported: network.formats() };
        let changes =
            MemberChanges::new(raft.clone(), replica.clone(), proposer.clone(), prober, formats, &config.options);
        let receiver = server::Receiver::new(&raft, &replica, &reader, &network);
        let dial = config.dial.clone();
        let disk = status::LastDiskSpace::default();
        let clock = OwnClock::default();
        let handle = RaftHandle { raft, state, proposer, quorum, changes, dial, timeouts, disk, stall, clock };
        Ok(LoadedNode { config, me, handle, batches, network, server, receiver, members, unreached, closed })
    }
}

/// Member whose data is loaded, but whose Raft library does not run yet. The member accepts no Raft message and grants
/// no vote.
pub struct LoadedNode<M: StateMachine> {
    config: RaftConfig,
    me: Identity,
    handle: RaftHandle<M>,
    batches: Batches,
    network: Network,
    server: RaftServer,
    receiver: server::Receiver,
    members: Gate<MemberAdmin>,
    unreached: BTreeMap<u64, String>,
    closed: Closed,
}

impl<M: StateMachine> LoadedNode<M> {
    /// Returns the handle with which the member's services propose commands and read the state.
    #[must_use]
    pub fn handle(&self) -> &RaftHandle<M> {
        &self.handle
    }

    /// Opens the gates of the member's services and starts the Raft library. If the member later cannot continue, for
    /// example because it was removed from the group, `tasks` shuts down.
    pub fn run(self, tasks: &TaskGroup) -> RunningNode<M> {
        let LoadedNode { config, me, handle, batches, network, server, receiver, members, unreached, closed } = self;
        let RaftHandle { raft, quorum, changes, proposer, stall, .. } = handle.clone();
        server.gate.open(receiver);
        let set = config.set.as_str().into();
        members.open(MemberAdmin { set, changes: changes.clone(), quorum: quorum.clone() });
        raft.run();

        let evictions = network.evictions();
        let evicted = evictions.subscribe();
        let digests = handle.state.replica().digests().clone();
        let comparison = Comparison {
            me: me.clone(),
            dial: config.dial.clone(),
            raft: raft.clone(),
            replica: handle.state.replica(),
            proposer: proposer.clone(),
            addrs: config.peers.iter().map(|peer| (peer.id, peer.raft_addr.clone())).collect(),
            membership: network.membership(),
            evictions: evictions.clone(),
            data: config.data.clone(),
            clock: handle.clock.clone(),
            interval: config.options.comparison_interval,
        };
        let probe = PeerProbe {
            me,
            dial: config.dial,
            raft: raft.clone(),
            peers: config.peers,
            join: config.join,
            unreached,
            membership: network.membership(),
            evictions,
        };
        let watching = watch(raft.clone(), evicted.clone(), tasks.clone(), config.events.clone());
        spawn(tasks, "store raft", Kind::Critical, watching);
        spawn(tasks, "store proposals", Kind::Critical, batches.run());
        spawn(tasks, "store quorum", Kind::Critical, quorum.clone().watch());
        spawn(tasks, "store probe", Kind::Critical, probe.run());
        spawn(tasks, "store comparison", Kind::Critical, comparison.run());
        if config.auto_upgrade {
            spawn(tasks, "store format", Kind::Critical, format::raise_when_read(changes.clone()));
        }
        spawn(tasks, "store members", Kind::Critical, changes.clone().complete_joint_changes());
        let disk = slow_disk::watch(raft.clone(), stall, proposer, config.events);
        spawn(tasks, "store disk", Kind::Critical, disk);
        spawn(
            tasks,
            "store raft gauges",
            Kind::Disposable,
            status::update_gauges(raft, quorum, changes, (digests, handle.clock.clone())),
        );
        if let DataDir::Path(dir) = config.data {
            let gauges = status::update_disk_gauges(dir, config.set, config.node, handle.disk.clone());
            spawn(tasks, "store disk gauges", Kind::Disposable, gauges);
        }
        RunningNode { handle, evicted, closed }
    }
}

/// Running member. If this value is dropped, the member runs on until its group of tasks shuts down.
pub struct RunningNode<M: StateMachine> {
    handle: RaftHandle<M>,
    evicted: Receiver<Option<Eviction>>,
    closed: Closed,
}

impl<M: StateMachine> RunningNode<M> {
    /// Returns the handle with which the member's services propose commands and read the state.
    #[must_use]
    pub fn handle(&self) -> &RaftHandle<M> {
        &self.handle
    }

    /// Returns a function that reports whether this member was removed from its group and stops for this reason. The
    /// function can be called at any time, even after the member has stopped.
    pub fn removal(&self) -> impl Fn() -> bool + Send + Sync + 'static + use<M> {
        let evicted = self.evicted.clone();
        move || matches!(&*evicted.borrow(), Some(Eviction::Removed(_)))
    }

    /// Stops the member. Transfers leadership to another voter if this member leads, ends the tasks of the group
    /// `tasks`, and stops the Raft library. Returns when all data is written and the lock on the data directory is
    /// released. `dropped` must drop all other [`RaftHandle`]s of this member, because they keep the storage open.
    ///
    /// # Errors
    /// [`Hung`] when storage has not finished its last writes within 10 s.
    pub async fn shutdown(self, tasks: &TaskGroup, dropped: impl FnOnce()) -> Result<(), Hung> {
        let RunningNode { handle, closed, .. } = self;
        handle.stop(|| tasks.cancel()).await;
        drop(handle);
        dropped();
        tokio::time::timeout(CLOSE_TIMEOUT, closed.wait()).await.map_err(|_| Hung { tasks: vec!["store storage"] })
    }
}

impl<M: StateMachine> fmt::Debug for RunningNode<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningNode").field("handle", &self.handle).finish_non_exhaustive()
    }
}

/// Probes the other members about this member's data directory and loads the data. `check` may refuse the loaded state.
/// If the directory is empty, also returns the other members that could not be probed, by Raft id.
async fn open<M: StateMachine, E: From<StartError>>(
    prepared: Prepared,
    (me, config): (&Identity, &RaftConfig),
    peers: &BTreeMap<u64, String>,
    observe: Observer<M>,
    check: impl FnOnce(&AppliedState<M>) -> Result<(), E>,
) -> Result<(Opened<M>, BTreeMap<u64, String>), E> {
    if prepared.is_fresh() {
        let unreached = probe::probe_for_fresh(me, &config.dial, peers.clone(), config.join).await?;
        return Ok((prepared.open(observe).map_err(StartError::from)?, unreached));
    }
    let opened = prepared.open(observe).map_err(StartError::from)?;
    let mut checked = check(&opened.state);
    if checked.is_ok() {
        let position = opened.log.reader().position();
        checked = probe::probe_for_data(me, &position, &config.dial, peers.clone()).await.map_err(E::from);
    }
    if let Err(refusal) = checked {
        let Opened { log, machine, closed, .. } = opened;
        drop((log, machine));
        closed.wait().await;
        return Err(refusal);
    }
    Ok((opened, BTreeMap::new()))
}

/// Spawns a task in the group `tasks`. The task runs until it ends by itself or the group shuts down.
fn spawn(tasks: &TaskGroup, name: &'static str, kind: Kind, task: impl Future<Output = ()> + Send + 'static) {
    let stopping = tasks.token();
    tasks.spawn(name, kind, async move {
        // Cancellation is polled first, because a shutdown also ends the objects that the task watches, and this end is
        // no fault of the task.
        tokio::select! {
            biased;
            () = stopping.cancelled() => {}
            () = task => {}
        }
    });
}

/// Waits until this member cannot continue, because the Raft library has stopped or `evicted` gives a reason to stop
/// permanently. Logs the reason.
async fn watch(raft: Raft, mut evicted: Receiver<Option<Eviction>>, tasks: TaskGroup, events: NodeEvents) {
    let mut metrics = raft.server_metrics();
    loop {
        let eviction = evicted.borrow_and_update().clone();
        if let Some(eviction) = &eviction {
            events.note(Fact::Halted { cause: eviction.cause() });
        }
        match eviction {
            Some(Eviction::OtherDataDirectory(why)) => {
                tracing::error!(why, "this data directory is not the one in the list of members");
                return;
            }
            Some(Eviction::AcknowledgedDataLost(why)) => {
                tracing::error!(why, "this data directory lacks what it acknowledged");
                return;
            }
            Some(Eviction::Contradicted(why)) => {
                tracing::error!(why, "the leader lost entries that are committed here; this member stops to keep them");
                return;
            }
            Some(Eviction::Outvoted(difference)) => {
                tracing::error!(%difference, "the majority of the voters has another state; this member stops and does not start again");
                return;
            }
            Some(Eviction::Removed(why)) => {
                tracing::warn!(why, "this member was removed from the store and stops");
                // A planned end, without loss.
                tasks.cancel();
                return;
            }
            None => {}
        }
        tokio::select! {
            changed = evicted.changed() => if changed.is_err() { return },
            changed = metrics.changed() => if changed.is_err() {
                let metrics = raft.metrics();
                tracing::error!(state = ?metrics.borrow_watched().running_state, "raft has stopped");
                return;
            },
        }
    }
}

#[cfg(test)]
mod tests;
