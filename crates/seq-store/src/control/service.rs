//! Control service for AllocSvrs. A request is checked and becomes a command in the log. Its response is read from the
//! applied state.
//!
//! **Invariant:** a malformed request is refused before anything is proposed, and a response contains only committed
//! values. The response to a renewal is read only after the member that proposed the renewal has applied it. Otherwise
//! the response could come from a leader that was replaced long ago.

use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use seq_auth::Identity;
use seq_core::arbiter::Plan;
use seq_core::owner::refused_commit::RefusedCommit;
use seq_core::owner::{OwnershipUpdate, Session};
use seq_core::set_spec::AllocSpec;
use seq_core::state::{
    CommandRefusal, EventKind, NoteReadsLanes, RaiseCeilings, Registration, Replicated, ReportLoss, Rules, State,
    Transfer, Transferred,
};
use seq_core::{Incarnation, Layout, NodeId, Revision, RouteVersion, limits};
use seq_proto::reason::{Reason, key};
use seq_proto::roles;
use seq_proto::v1::control_service_server::ControlService;
use seq_proto::v1::{
    DepartRequest, DepartResponse, RaiseCeilingsRequest, RaiseCeilingsResponse, RegisterRequest, RegisterResponse,
    RenewRequest, RenewResponse, ReportDeathRequest, ReportDeathResponse, ReportLossRequest, ReportLossResponse,
    TransferManyRequest, TransferManyResponse, TransferRequest, TransferResponse,
};
use seq_proto::{control, status};
use seq_raft::Gate;
use tokio::sync::watch;
use tonic::{Request, Response, Status};

use super::losses;
use super::raise_rate::{self, RaiseGate};
use super::reach::ControlCalls;
use crate::between::arrivals::Arrivals;
use crate::between::migrations::Departures;
use crate::between::quarantine::{self, Awaited};
use crate::definition::DeclaredSet;
use crate::replicated_set::ReplicatedSet;
use crate::sender::sender;

/// Maximum time for which the response to a departure waits until the section has arrived in the other set, which takes
/// one more round trip and one commit. If the sender of the departure gets the response after the arrival, the
/// section's new owner can begin to serve it immediately.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(1);

/// State of the service once the member is loaded.
#[derive(Clone)]
pub(crate) struct Control {
    pub(crate) set: Arc<DeclaredSet>,
    /// Receiver of the list of AllocSvrs in the set file.
    pub(crate) allocs: watch::Receiver<Arc<[AllocSpec]>>,
    pub(crate) replicated: ReplicatedSet,
    /// Receiver of the arbiter's newest plan. The plan is empty while this member does not lead.
    pub(crate) plan: watch::Receiver<Arc<Plan>>,
    /// Receiver of the departures to other sets that the owners of sections should make now.
    pub(crate) departures: watch::Receiver<Departures>,
    pub(crate) arrivals: Arc<Arrivals>,
    /// Receiver of the text with the condition for which the end of a quarantine waits.
    pub(crate) awaited: Awaited,
    /// Counter of calls from current incarnations, from which the member decides whether AllocSvrs reach it.
    pub(crate) calls: ControlCalls,
    /// Limits on how fast ceilings rise.
    rate: Arc<RaiseGate>,
    /// Name of the member, as it appears in metrics.
    node: Arc<str>,
    /// Sender of the flag whether the AllocSvrs have been asked, since this process started, which state they have
    /// seen.
    pub(crate) asked: watch::Sender<bool>,
}

/// The local service of this member, whose gate opens once the member is loaded.
#[derive(Clone)]
pub(crate) struct ControlServer(pub(crate) Gate<Control>);

#[tonic::async_trait]
impl ControlService for ControlServer {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<RegisterResponse>, Status> {
        let this = self.0.get()?;
        roles::check_acts_as(sender(&request)?.as_ref(), &request.get_ref().node)?;
        let request = request.into_inner();
        this.check_register(&request)?;
        this.check_alive(&request)?;
        this.wait_asked().await?;
        this.calls.count();
        let registration = registration(request);
        let (name, addr) = (registration.name.clone(), registration.addr.clone());
        let outcome = this.replicated.propose(registration).await?;
        let (node, incarnation) = outcome.map_err(|refusal| this.refused(refusal))?;
        let (event, set, id) = (EventKind::Registered.name(), &this.set.name, node.0);
        tracing::info!(event, set, node = name, id, addr, incarnation = incarnation.0, "an allocator registered");
        let mark =
            this.replicated.read(|state| (state.revision, state.node(node).map_or(0, |record| record.liveness.0)));
        Ok(Response::new(RegisterResponse {
            node_id: node.0,
            incarnation: incarnation.0,
            revision: mark.0.0,
            liveness: mark.1,
            ..Default::default()
        }))
    }

    async fn renew(&self, request: Request<RenewRequest>) -> Result<Response<RenewResponse>, Status> {
        let this = self.0.get()?;
        let caller = sender(&request)?;
        let request = request.into_inner();
        let session = this.session(caller.as_ref(), request.node_id, request.incarnation)?;
        let outcome = this.replicated.propose(control::renewal(session, &request)?).await?;
        outcome.map_err(|refusal| this.refused(refusal))?;
        if request.reads_lanes {
            this.note_reads_lanes(session).await?;
        }
        Ok(Response::new(RenewResponse {
            update: Some(this.update(session, request.route_version)?),
            clock_ms: this.replicated.raft().clock_ms(),
            ..Default::default()
        }))
    }

    async fn raise_ceilings(
        &self,
        request: Request<RaiseCeilingsRequest>,
    ) -> Result<Response<RaiseCeilingsResponse>, Status> {
        let this = self.0.get()?;
        let caller = sender(&request)?;
        let request = request.into_inner();
        let session = this.session(caller.as_ref(), request.node_id, request.incarnation)?;
        let mut raises = control::raises(&request, &this.layout())?;
        let lowered = this.rate.admit(&this.replicated, session, &mut raises)?;
        let Session { node, incarnation } = session;
        let outcome = this.replicated.propose(RaiseCeilings { node, incarnation, raises }).await?;
        let ceilings = outcome.map_err(|refusal| this.refused(refusal))?;
        raise_rate::check(&lowered, &request.sections, &ceilings)?;
        let ceilings = ceilings.into_iter().map(|ceiling| ceiling.map_or(0, |ceiling| ceiling.0)).collect();
        Ok(Response::new(RaiseCeilingsResponse {
            ceilings,
            update: Some(this.update(session, request.route_version)?),
        }))
    }

    async fn transfer(&self, request: Request<TransferRequest>) -> Result<Response<TransferResponse>, Status> {
        let this = self.0.get()?;
        let caller = sender(&request)?;
        let request = request.into_inner();
        let session = this.session(caller.as_ref(), request.node_id, request.incarnation)?;
        let transfer = control::transfer(session, &request, &this.layout())?;
        let outcome = this.replicated.propose(transfer).await?;
        let made = outcome.map_err(|refusal| this.refused_transfer(refusal, transfer.to))?;
        Ok(Response::new(TransferResponse {
            ceiling: made.max_seq.0,
            update: Some(this.update(session, request.route_version)?),
        }))
    }

    async fn transfer_many(
        &self,
        request: Request<TransferManyRequest>,
    ) -> Result<Response<TransferManyResponse>, Status> {
        let this = self.0.get()?;
        let caller = sender(&request)?;
        let request = request.into_inner();
        let session = this.session(caller.as_ref(), request.node_id, request.incarnation)?;
        let transfers = control::transfers(session, &request, &this.layout())?;
        // The proposals share a log entry. If one of them fails, the sender repeats all of them, and a repeat of a
        // committed handover gets the same response.
        let proposed = try_join_all(transfers.iter().map(|transfer| this.replicated.propose(*transfer))).await?;
        let refused = |(outcome, transfer): (Result<Transferred, CommandRefusal>, &Transfer)| {
            outcome.map_err(|refusal| this.refused_transfer(refusal, transfer.to))
        };
        let outcomes: Vec<_> = proposed.into_iter().zip(&transfers).map(refused).collect();
        let made = outcomes.iter().any(Result::is_ok);
        Ok(Response::new(TransferManyResponse {
            outcomes: outcomes.iter().map(status::to_step_outcome).collect(),
            update: if made { Some(this.update(session, request.route_version)?) } else { None },
        }))
    }

    async fn report_loss(&self, request: Request<ReportLossRequest>) -> Result<Response<ReportLossResponse>, Status> {
        let this = self.0.get()?;
        roles::check_acts_as(sender(&request)?.as_ref(), &request.get_ref().node)?;
        let ReportLossRequest { set, node, incarnation, seen_revision } = request.into_inner();
        if set != this.set.name {
            let text = format!("this is the store of set {:?}, not of {set:?}", this.set.name);
            return Err(Reason::OtherSet.status(text));
        }
        this.check_declared(&node)?;
        if this.replicated.read(|state| state.rules) < Rules::Eight {
            let text = "the group's format is below 8, which has no such command: `seqsvr store upgrade` raises it";
            return Err(Reason::OtherFormat.status(text));
        }
        let (incarnation, seen) = (Incarnation(incarnation), Revision(seen_revision));
        let report = ReportLoss { node: node.clone(), incarnation, seen, certain: true };
        let outcome = this.replicated.propose(report).await?;
        if outcome.map_err(|refusal| this.refused(refusal))? {
            let event = EventKind::EntriesLost.name();
            tracing::error!(event, node, seen = seen_revision, "an allocator reports that committed entries are lost");
        }
        Ok(Response::new(ReportLossResponse {}))
    }

    async fn report_death(
        &self,
        request: Request<ReportDeathRequest>,
    ) -> Result<Response<ReportDeathResponse>, Status> {
        let this = self.0.get()?;
        roles::check_acts_as(sender(&request)?.as_ref(), &request.get_ref().node)?;
        let incarnation = this.report_death(request.into_inner()).await?;
        Ok(Response::new(ReportDeathResponse { incarnation: incarnation.0 }))
    }

    async fn depart(&self, request: Request<DepartRequest>) -> Result<Response<DepartResponse>, Status> {
        let this = self.0.get()?;
        let caller = sender(&request)?;
        let request = request.into_inner();
        let session = this.session(caller.as_ref(), request.node_id, request.incarnation)?;
        let depart = control::depart(session, &request, &this.layout())?;
        let outcome = this.replicated.propose(depart).await?;
        let made = outcome.map_err(|refusal| this.refused(refusal))?;
        this.arrivals.wait(&this.replicated, depart.section, made.epoch, ARRIVAL_TIMEOUT).await;
        Ok(Response::new(DepartResponse {
            ceiling: made.max_seq.0,
            update: Some(this.update(session, request.route_version)?),
        }))
    }
}

impl Control {
    pub(crate) fn new(
        set: Arc<DeclaredSet>,
        allocs: watch::Receiver<Arc<[AllocSpec]>>,
        replicated: ReplicatedSet,
        plan: watch::Receiver<Arc<Plan>>,
        (departures, arrivals, awaited): (watch::Receiver<Departures>, Arc<Arrivals>, Awaited),
        name: &str,
    ) -> Control {
        let (calls, rate) = (ControlCalls::default(), Arc::new(RaiseGate::new(&set.name, name)));
        let asked = watch::Sender::new(false);
        let node = name.into();
        let control =
            Control { set, allocs, replicated, plan, departures, arrivals, awaited, calls, rate, node, asked };
        control.start_count();
        control
    }

    /// Returns the labels of metrics of this member.
    pub(super) fn labels(&self) -> [(&'static str, String); 2] {
        [("set", self.set.name.clone()), ("node", self.node.to_string())]
    }

    /// Returns the session of the AllocSvr that sent a request, and checks that the sender may use it. If the request
    /// comes from the node's newest incarnation, counts it, because it shows that AllocSvrs reach this member.
    ///
    /// # Errors
    /// `QUARANTINED` while the set is in quarantine; `NO_SET` while the set is not defined; the error of a malformed
    /// id; `OTHER_INCARNATION` for a session of an older lineage; `OTHER_HOLDER` if the sender's certificate belongs to
    /// another node.
    fn session(&self, caller: Option<&Identity>, node: u32, incarnation: u64) -> Result<Session, Status> {
        self.check_defined()?;
        let session = control::session(node, incarnation)?;
        // The lineage is checked before the holder. In an older lineage, the id may have belonged to another node. That
        // node registers again once it learns that its session is over.
        self.check_lineage(session)?;
        let record = |state: &State| state.node(session.node).map(|node| (node.name.clone(), node.incarnation));
        // If the id is unknown, the command is refused when it is applied.
        if let Some((name, newest)) = self.replicated.read(record) {
            roles::check_acts_as(caller, &name)?;
            if newest == session.incarnation {
                self.calls.count();
            }
        }
        Ok(session)
    }

    /// Returns an error for a session of an older lineage. The incarnations of each lineage are greater than the
    /// incarnations of all older lineages, and the ids of nodes begin anew in each lineage.
    fn check_lineage(&self, session: Session) -> Result<(), Status> {
        let Session { node, incarnation: given } = session;
        let current = Incarnation(self.replicated.read(|state| state.lineage.first_number()));
        if given >= current {
            return Ok(());
        }
        // The error has no address, because the id may belong to another node now.
        Err(refused(CommandRefusal::OtherIncarnation { node, current, given }, None))
    }

    /// Returns an error while the set is not defined or is in quarantine, so that nothing is proposed. A set may wait
    /// for days for the command that defines it, while its AllocSvrs retry. In quarantine, a restored set does not
    /// serve, because its earlier sessions are over and no new session may begin.
    pub(super) fn check_defined(&self) -> Result<(), Status> {
        match self.replicated.read(|state| (state.set.is_some(), state.is_quarantined())) {
            (true, false) => Ok(()),
            (true, true) => Err(Reason::Quarantined.status(quarantine::text(&self.set.name, &self.awaited.borrow()))),
            (false, _) => Err(Reason::NoSet.status(self.set.undefined())),
        }
    }

    /// Notes in the state that the incarnation of `session` can own sections of series. Does nothing if this is already
    /// noted, or if the group's format has no series.
    async fn note_reads_lanes(&self, session: Session) -> Result<(), Status> {
        let Session { node, incarnation } = session;
        let is_known = self.replicated.read(|state| state.node(node).is_none_or(|record| record.reads_lanes));
        if is_known || self.replicated.raft().state().format() < NoteReadsLanes::SINCE {
            return Ok(());
        }
        let outcome = self.replicated.propose(NoteReadsLanes { node, incarnation }).await?;
        outcome.map(drop).map_err(|refusal| self.refused(refusal))
    }

    /// Returns the layout in the applied state, or the layout in the set file if the set is not defined yet.
    fn layout(&self) -> Layout {
        let layout = self.replicated.read(|state| state.set.as_ref().map(|set| set.layout.clone()));
        layout.unwrap_or_else(|| self.set.layout.clone())
    }

    fn check_declared(&self, node: &str) -> Result<(), Status> {
        if self.allocs.borrow().iter().any(|alloc| alloc.name == node) {
            return Ok(());
        }
        Err(Reason::UndeclaredNode.status(format!("the set file of this store names no AllocSvr {node:?}")))
    }

    /// Waits until the AllocSvrs have been asked which state they have seen. Returns an error after
    /// [`losses::REGISTRATION_WAITS`].
    pub(super) async fn wait_asked(&self) -> Result<(), Status> {
        if !self.replicated.raft().is_leader() {
            // The proposal of the registration will fail with the leader's address.
            return Ok(());
        }
        let mut asked = self.asked.subscribe();
        match tokio::time::timeout(losses::REGISTRATION_WAITS, asked.wait_for(|asked| *asked)).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Status::unavailable("this member has just begun to lead: it asks the allocators first")),
        }
    }

    fn check_register(&self, request: &RegisterRequest) -> Result<(), Status> {
        if request.set != self.set.name {
            let text = format!("this is the store of set {:?}, not of {:?}", self.set.name, request.set);
            return Err(Reason::OtherSet.status(text));
        }
        self.check_declared(&request.node)?;
        check_addr("addr", &request.addr)?;
        if !request.peer_addr.is_empty() {
            check_addr("peer_addr", &request.peer_addr)?;
        }
        self.check_defined()?;
        let lease = Duration::from_millis(request.lease_ms);
        self.replicated.read(|state| state.check_lease(lease)).map_err(|refusal| refused(refusal, None))?;
        if request.token == 0 {
            return Err(Reason::BadToken.status("token 0: draw a random one for each session"));
        }
        Ok(())
    }

    /// Returns an error if another process with the same name is alive at another address, because each of the two
    /// would end the other's incarnation as long as both run. The arbiter's plan on this member states which nodes are
    /// alive. On a member that does not lead, the plan is empty, and the registration fails later.
    fn check_alive(&self, request: &RegisterRequest) -> Result<(), Status> {
        let plan = self.plan.borrow().clone();
        let other = self.replicated.read(|state| {
            let (id, record) = state.nodes().find(|(_, record)| record.name == request.node)?;
            let alive = plan.living.contains(&id) && !record.leaving && record.token != request.token;
            (alive && record.addr != request.addr).then(|| (record.addr.clone(), record.incarnation))
        });
        let Some((addr, incarnation)) = other.filter(|_| !request.replace) else { return Ok(()) };
        let text = format!(
            "{} runs at {addr} in incarnation {incarnation} and is alive; end that process, or start this one with --replace",
            request.node
        );
        Err(Reason::NodeAlive.status_with(text, [(key::ADDR, addr)]))
    }

    /// Returns the gRPC error of a refused command, with the metadata that its sender needs to continue.
    pub(super) fn refused(&self, refusal: CommandRefusal) -> Status {
        let addr = |node: NodeId| self.replicated.read(|state| state.node(node).map(|record| record.addr.clone()));
        let addr = match &refusal {
            CommandRefusal::OtherIncarnation { node, .. } => addr(*node),
            _ => None,
        };
        refused(refusal, addr)
    }

    /// Returns the gRPC error of a refused commit of a handover. If the next owner is lost, the error has a reason of
    /// its own.
    fn refused_transfer(&self, refusal: CommandRefusal, target: NodeId) -> Status {
        let RefusedCommit::TargetGone { current } = RefusedCommit::of(&refusal, Some(target)) else {
            return self.refused(refusal);
        };
        Reason::TargetGone.status_with(refusal.to_string(), [(key::CURRENT, current.0.to_string())])
    }

    /// Returns the ownership update for a session from the applied state. The state includes at least the command that
    /// this member has just applied.
    fn update(&self, session: Session, since: u64) -> Result<seq_proto::v1::OwnershipUpdate, Status> {
        let (plan, departures) = (self.plan.borrow().clone(), self.departures.borrow().clone());
        let ended = |state: &State| {
            let current = state.node(session.node).map_or(Incarnation(0), |record| record.incarnation);
            let addr = state.node(session.node).map(|record| record.addr.clone());
            refused(CommandRefusal::OtherIncarnation { node: session.node, current, given: session.incarnation }, addr)
        };
        let since = RouteVersion(since);
        let update = self
            .replicated
            .read(|state| OwnershipUpdate::of(state, &plan, &departures, session, since).ok_or_else(|| ended(state)))?;
        let mut update = seq_proto::v1::OwnershipUpdate::from(&update);
        self.replicated.read(|state| {
            for planned in update.handovers.iter_mut().filter(|planned| planned.departure.is_none()) {
                let to = state.node(NodeId(planned.to_node_id));
                planned.to_addr = to.map(|record| record.peer_addr.clone()).unwrap_or_default();
            }
        });
        Ok(update)
    }
}

fn check_addr(field: &str, addr: &str) -> Result<(), Status> {
    let port = addr.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    if port.is_some_and(|port| port > 0) && addr.len() <= limits::MAX_ADDR_BYTES {
        return Ok(());
    }
    let most = limits::MAX_ADDR_BYTES;
    Err(Reason::BadAddr.status(format!("{field} {addr:?} is not \"host:port\" of up to {most} bytes")))
}

fn registration(request: RegisterRequest) -> Registration {
    let RegisterRequest { node: name, addr, peer_addr, token, lease_ms, follows, seen_revision, process, .. } = request;
    Registration {
        name,
        peer_addr: if peer_addr.is_empty() { addr.clone() } else { peer_addr },
        addr,
        token,
        lease: Duration::from_millis(lease_ms),
        follows: Incarnation(follows),
        seen: Revision(seen_revision),
        process,
    }
}

/// Returns the gRPC error of a refused command. `addr` is the address of the node's newest incarnation, if the error
/// concerns an incarnation.
fn refused(refusal: CommandRefusal, addr: Option<String>) -> Status {
    let reason = Reason::of_command(&refusal);
    let current = match refusal {
        CommandRefusal::OtherIncarnation { current, .. } | CommandRefusal::OtherPredecessor { current, .. } => {
            current.0
        }
        CommandRefusal::OtherRenewal { current, .. } => current.0,
        _ => return reason.status(refusal.to_string()),
    };
    let metadata = [(key::CURRENT, current.to_string()), (key::ADDR, addr.unwrap_or_default())];
    reason.status_with(refusal.to_string(), metadata)
}
