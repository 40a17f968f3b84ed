//! Checks whether callers can reach this node, by connecting to it as its callers do. If they cannot and another node
//! of the set can take over, this module withdraws the node. `seq_core::self_check` makes these decisions.
//!
//! The node also connects to a few other nodes in the same way, and its status names the nodes that it cannot reach. So
//! each node learns from the status of other nodes whether they can reach it (`seq_core::peer_reach`).
//!
//! Each round makes new connections, with their handshakes, because an open connection would not prove that the next
//! caller can connect. The request over a connection is `Status`, which `seqsvr status` sends too. The response names
//! the node that sent it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use futures::future::join_all;
use seq_channel::{Dial, ExpectedServer, Pool};
use seq_core::NodeId;
use seq_core::peer_reach::PeerReach;
use seq_core::self_check::{Decision, Round, SelfCheck, Witnesses};
use seq_kit::tasks::{Kind, TaskGroup};
use seq_proto::v1;
use seq_proto::v1::status_response::Role;
use seq_proto::v1::status_service_client::StatusServiceClient;

use crate::allocator::Allocator;
use crate::config::NodeConfig;
use crate::shared::Shared;

/// Timeout of a connection together with the request over it.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Number of other nodes, chosen at random, whose status is requested in a round in which this node found a fault of
/// its own. A single response is enough to withdraw this node. If the fault is that other nodes
/// cannot reach this node, the status of all other nodes is requested instead.
const ASKED: usize = 3;

/// Limit on the number of unreachable nodes that this node's status names.
const NAMED: usize = 64;

/// Function that returns the expiry of this node's certificate, in seconds since 1970, or `None` without TLS.
type Expiry = dyn Fn() -> Option<u64> + Send + Sync;

impl Allocator {
    /// Starts a task in `endpoints`, on the current runtime, that checks whether callers can reach this node. The task
    /// connects to other nodes with `dial`. It connects to this node with `own`, or with `dial` if `own` is `None`.
    /// `own` is for a node that does not listen at the address to which callers connect, because a machine may not
    /// reach its own translated address although callers do. `expiry` returns the expiry of the certificate in use, in
    /// seconds since 1970.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn check_itself(
        &self,
        dial: &Dial,
        own: Option<&Dial>,
        expiry: impl Fn() -> Option<u64> + Send + Sync + 'static,
        endpoints: &TaskGroup,
    ) {
        let stopping = endpoints.token();
        let expecting = |dial: &Dial| dial.expecting(ExpectedServer::alloc().of_set(&self.shared.config.set));
        let (own, dial) = (expecting(own.unwrap_or(dial)), expecting(dial));
        let (shared, expiry, reach) = (self.shared.clone(), Box::new(expiry), PeerReach::default());
        let checking = Checking { shared, own, dial, expiry, origin: None, reach }.run();
        endpoints.spawn("self check", Kind::Disposable, async move {
            stopping.run_until_cancelled(checking).await;
        });
    }
}

struct Checking {
    shared: Arc<Shared>,
    /// Dialer of this node.
    own: Dial,
    /// Dialer of other nodes.
    dial: Dial,
    expiry: Box<Expiry>,
    /// Origin of the times that the state machine of the checks gets, in nanoseconds of the boot clock; `None` before
    /// the first round.
    origin: Option<u64>,
    reach: PeerReach,
}

impl Checking {
    async fn run(mut self) {
        let mut machine = SelfCheck::new(self.shared.config.options.certificate_margin);
        let mut withdrew = false;
        loop {
            let reached = self.reaches_itself().await;
            let suspected = self.dial_peers().await;
            let witnesses = Witnesses::default();
            let mut round = Round { reached, left: self.left(), other: None, suspected, witnesses };
            if machine.needs_others(&round) {
                let asked = if machine.needs_witnesses(&round) { usize::MAX } else { ASKED };
                (round.other, round.witnesses) = self.others(asked).await;
            }
            let now = self.now();
            if withdrew && !self.shared.ownership.machine().is_withdrawn() {
                machine.on_no_other_candidate(now);
            }
            let decision = machine.on_round(now, &round);
            self.on_decision(decision);
            withdrew = matches!(decision, Decision::HandOver(_));
            tokio::time::sleep(machine.pause(self.left(), decision)).await;
        }
    }

    fn now(&mut self) -> Duration {
        let now = self.shared.clock.now().boottime;
        Duration::from_nanos(now.saturating_sub(*self.origin.get_or_insert(now)))
    }

    /// Returns how long this node's certificate is still valid.
    fn left(&self) -> Option<Duration> {
        (self.expiry)().map(|at| self.until(at))
    }

    fn until(&self, expiry: u64) -> Duration {
        Duration::from_secs(expiry).saturating_sub(Duration::from_nanos(self.shared.clock.now().realtime))
    }

    async fn reaches_itself(&self) -> bool {
        let (shared, addr) = (&self.shared, &self.shared.config.advertise);
        match ask(&self.own, addr).await {
            Ok(response) if (&response.set, &response.node) == (&shared.config.set, &shared.config.name) => true,
            Ok(response) => {
                tracing::debug!(addr, found = response.node, "another node responds at the own address");
                false
            }
            Err(error) => {
                tracing::debug!(addr, error, "this node does not reach itself");
                false
            }
        }
    }

    /// Returns the other nodes of the set according to the routes, each with its name and its address for callers.
    fn peers(&self) -> BTreeMap<NodeId, (String, String)> {
        let routes = self.shared.routes();
        let nodes = routes.as_ref().into_iter().flat_map(|routes| routes.nodes());
        let others = nodes.filter(|(_, node)| node.name != self.shared.config.name);
        others.map(|(id, node)| (*id, (node.name.clone(), node.addr.clone()))).collect()
    }

    /// Connects to a few other nodes, as [`PeerReach`] selects them, and publishes the names of the nodes that this
    /// node cannot reach. Returns whether a node that responded states that it cannot reach this node.
    async fn dial_peers(&mut self) -> bool {
        let peers = self.peers();
        let due = self.reach.due(&peers.keys().copied().collect::<BTreeSet<_>>());
        let dialled = due.iter().filter_map(|id| Some((*id, peers.get(id)?)));
        let (shared, mut suspected) = (self.shared.clone(), false);
        let responses = join_all(dialled.map(async |(id, (name, addr))| (id, name, ask(&self.dial, addr).await))).await;
        for (id, name, response) in responses {
            let response =
                response.ok().filter(|response| (&response.set, &response.node) == (&shared.config.set, name));
            self.reach.dialled(id, response.is_some());
            suspected |= response.is_some_and(|response| is_against(&response, &shared.config.name));
        }
        let names = self.reach.unreached().filter_map(|id| Some(peers.get(&id)?.0.clone()));
        let unreached: Vec<String> = names.take(NAMED).collect();
        shared.counters.peers_unreached(unreached.len());
        let before = shared.reachability.set_unreached(unreached.clone());
        if before != unreached && !unreached.is_empty() {
            let (set, name) = (&shared.config.set, &shared.config.name);
            tracing::warn!(set, name, ?unreached, "other nodes are not reached at their addresses for callers");
        }
        suspected
    }

    /// Requests the status of up to `most` other nodes, chosen at random. Considers the nodes that respond and hold a
    /// lease. Returns the longest remaining validity of their certificates, and the number of them that state that they
    /// cannot reach this node. Also returns whether any node that responded has withdrawn itself.
    async fn others(&self, most: usize) -> (Option<Duration>, Witnesses) {
        let (peers, own) = (self.peers(), &self.shared.config.name);
        let asked = Rng::new().choose_multiple(peers.values(), most.min(peers.len()));
        let responses = join_all(asked.into_iter().map(async |(name, addr)| {
            let response = ask(&self.dial, addr).await.ok();
            response.filter(|response| (&response.set, &response.node) == (&self.shared.config.set, name))
        }));
        let (mut longest, mut witnesses) = (None, Witnesses { of: peers.len(), ..Witnesses::default() });
        for response in responses.await.into_iter().flatten() {
            let Some(Role::Alloc(alloc)) = &response.role else { continue };
            if !alloc.withdrawn.is_empty() {
                witnesses.one_left = true;
            } else if alloc.lease_remaining_ms > 0 {
                witnesses.against += usize::from(is_against(&response, own));
                let left = response.certificate_not_after.map_or(Duration::MAX, |at| self.until(at));
                longest = longest.max(Some(left));
            }
        }
        (longest, witnesses)
    }

    /// Carries out a decision of the state machine of the checks. If the decision differs from the previous decision,
    /// logs it.
    fn on_decision(&self, decision: Decision) {
        let shared = &self.shared;
        let before = shared.reachability.decide(decision);
        let withdrawn = matches!(decision, Decision::HandOver(_) | Decision::Stop);
        if shared.ownership.machine().is_withdrawn() != withdrawn {
            shared.step(|owner, _| owner.withdraw(withdrawn));
        }
        if before == decision {
            return;
        }
        shared.registration.request_renewal();
        let NodeConfig { set, name, advertise: addr, .. } = &shared.config;
        match decision {
            Decision::Serve => tracing::info!(set, name, addr, "callers reach this node again"),
            Decision::Report(cause) => {
                tracing::warn!(set, name, addr, "{cause}; no other node can take over, so it goes on serving");
            }
            Decision::HandOver(cause) => {
                shared.counters.withdrawn();
                tracing::warn!(set, name, addr, "{cause}; its sections are handed over, and it is not ready");
            }
            Decision::Stop => {
                tracing::error!(set, name, addr, "{}; it sends no renewal", seq_core::self_check::Cause::Expired)
            }
        }
    }
}

/// Requests the status of the node at `addr`, over a new connection.
async fn ask(dial: &Dial, addr: &str) -> Result<v1::StatusResponse, String> {
    let pool = Pool::with_dial(1, dial.clone());
    let channel = pool.get(addr).map_err(|error| error.to_string())?;
    let mut client = StatusServiceClient::new(channel);
    match tokio::time::timeout(TIMEOUT, client.status(v1::StatusRequest {})).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => Err(status.message().to_owned()),
        Err(_) => Err(format!("no response within {TIMEOUT:?}")),
    }
}

/// Returns whether a node states that it cannot reach the node `name`.
fn is_against(response: &v1::StatusResponse, name: &String) -> bool {
    matches!(&response.role, Some(Role::Alloc(alloc)) if alloc.unreached.contains(name))
}
