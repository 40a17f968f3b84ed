//! Dials this node as its callers do, and withdraws it where they cannot reach it and another node of the set can take
//! over. `seq_core::self_check` decides.
//!
//! Each round is a connection of its own, with its handshake: an open connection would prove nothing about the next
//! caller's. The request is the same as of `seqsvr status`, whose response names its node.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use futures::future::join_all;
use seq_channel::{Dial, ExpectedServer, Pool};
use seq_core::self_check::{Decision, Round, SelfCheck};
use seq_kit::tasks::{Kind, TaskGroup};
use seq_proto::v1;
use seq_proto::v1::status_response::Role;
use seq_proto::v1::status_service_client::StatusServiceClient;

use crate::allocator::Allocator;
use crate::shared::Shared;

/// Timeout of a connection and its request.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Number of other nodes that are asked in one round, at random: one response is enough.
const ASKED: usize = 3;

/// When the certificate of this node expires, in seconds since 1970; `None` without TLS.
type Expiry = dyn Fn() -> Option<u64> + Send + Sync;

impl Allocator {
    /// Begins to check whether callers reach this node, in `endpoints`, on the current runtime. `expiry` returns when
    /// the certificate in use expires, in seconds since 1970.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn check_itself(
        &self,
        dial: &Dial,
        expiry: impl Fn() -> Option<u64> + Send + Sync + 'static,
        endpoints: &TaskGroup,
    ) {
        let stopping = endpoints.token();
        let dial = dial.expecting(ExpectedServer::alloc().of_set(&self.shared.set));
        let checking = Checking { shared: self.shared.clone(), dial, expiry: Box::new(expiry), origin: None }.run();
        endpoints.spawn("self check", Kind::Disposable, async move {
            stopping.run_until_cancelled(checking).await;
        });
    }
}

struct Checking {
    shared: Arc<Shared>,
    dial: Dial,
    expiry: Box<Expiry>,
    /// Origin of the machine's times, on the clock of leases.
    origin: Option<u64>,
}

impl Checking {
    async fn run(mut self) {
        let mut machine = SelfCheck::new(self.shared.options.certificate_margin);
        let mut withdrew = false;
        loop {
            let mut round = Round { reached: self.reaches_itself().await, left: self.left(), other: None };
            if machine.needs_others(&round) {
                round.other = self.others().await;
            }
            let now = self.now();
            if withdrew && !self.shared.ownership.machine().is_withdrawn() {
                machine.on_no_other_candidate(now);
            }
            let decision = machine.on_round(now, &round);
            self.shared.on_decision(decision);
            withdrew = matches!(decision, Decision::HandOver(_));
            tokio::time::sleep(machine.pause(self.left(), decision)).await;
        }
    }

    fn now(&mut self) -> Duration {
        let now = self.shared.clock.now().boottime;
        Duration::from_nanos(now.saturating_sub(*self.origin.get_or_insert(now)))
    }

    /// How long the own certificate is valid still.
    fn left(&self) -> Option<Duration> {
        (self.expiry)().map(|at| self.until(at))
    }

    fn until(&self, expiry: u64) -> Duration {
        Duration::from_secs(expiry).saturating_sub(Duration::from_nanos(self.shared.clock.now().realtime))
    }

    async fn reaches_itself(&self) -> bool {
        let (shared, addr) = (&self.shared, &self.shared.advertise);
        match self.ask(addr).await {
            Ok(response) if (&response.set, &response.node) == (&shared.set, &shared.name) => true,
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

    /// How long the certificate of the longest-lasting other node is valid that responds and serves.
    async fn others(&self) -> Option<Duration> {
        let own = &self.shared.name;
        let routes = self.shared.routes();
        let nodes = routes.as_ref().into_iter().flat_map(|routes| routes.nodes().values());
        let others = nodes.filter(|node| node.name != *own).map(|node| node.addr.clone());
        let asked = Rng::new().choose_multiple(others, ASKED);
        let responses = join_all(asked.iter().map(|addr| self.ask(addr))).await;
        let left = |response: Result<v1::StatusResponse, String>| {
            let response = response.ok().filter(|response| response.set == self.shared.set && response.node != *own)?;
            let Some(Role::Alloc(alloc)) = &response.role else { return None };
            let serves = alloc.lease_remaining_ms > 0 && alloc.withdrawn.is_empty();
            serves.then(|| response.certificate_not_after.map_or(Duration::MAX, |at| self.until(at)))
        };
        responses.into_iter().filter_map(left).max()
    }

    /// Requests the status of the node at an address, over a connection that is made for it.
    async fn ask(&self, addr: &str) -> Result<v1::StatusResponse, String> {
        let pool = Pool::with_dial(1, self.dial.clone());
        let channel = pool.get(addr).map_err(|error| error.to_string())?;
        let mut client = StatusServiceClient::new(channel);
        match tokio::time::timeout(TIMEOUT, client.status(v1::StatusRequest {})).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(status.message().to_owned()),
            Err(_) => Err(format!("no response within {TIMEOUT:?}")),
        }
    }
}

impl Shared {
    /// Carries a decision out, and logs a new one.
    fn on_decision(&self, decision: Decision) {
        let before = std::mem::replace(&mut *self.self_check.lock(), decision);
        let withdrawn = matches!(decision, Decision::HandOver(_) | Decision::Stop);
        if self.ownership.machine().is_withdrawn() != withdrawn {
            self.step(|owner, _| owner.withdraw(withdrawn));
        }
        if before == decision {
            return;
        }
        self.renew_now.notify_one();
        let (set, name, addr) = (&self.set, &self.name, &self.advertise);
        match decision {
            Decision::Serve => tracing::info!(set, name, addr, "callers reach this node again"),
            Decision::Report(cause) => {
                tracing::warn!(set, name, addr, "{cause}; no other node can take over, so it goes on serving");
            }
            Decision::HandOver(cause) => {
                self.counters.withdrawn();
                tracing::warn!(set, name, addr, "{cause}; its sections are handed over, and it is not ready");
            }
            Decision::Stop => {
                tracing::error!(set, name, addr, "{}; it sends no renewal", seq_core::self_check::Cause::Expired)
            }
        }
    }

    /// Why this node is withdrawn: it hands its sections over, or sends no renewal.
    pub(crate) fn withdrawn(&self) -> Option<String> {
        let decision = *self.self_check.lock();
        let withdrawn = matches!(decision, Decision::HandOver(_) | Decision::Stop);
        decision.cause().filter(|_| withdrawn).map(|cause| cause.to_string())
    }

    /// Whether renewals and registrations wait for another certificate.
    pub(crate) fn is_stopped(&self) -> bool {
        *self.self_check.lock() == Decision::Stop
    }
}
