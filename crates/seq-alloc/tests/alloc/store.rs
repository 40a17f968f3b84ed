//! A store without Raft: applies commands to one `State`, and delays, refuses or loses responses on demand. It refuses
//! the same proposals as the real store, by the same checks.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use parking_lot::Mutex;
use seq_core::arbiter::{Departure, Plan, PlannedHandover};
use seq_core::directory::{Claim, ClaimRun};
use seq_core::keyspace::Seed;
use seq_core::layout::{Lanes, SectionRun, TickClock};
use seq_core::owner::handover::MAX_OUTGOING;
use seq_core::owner::{OwnershipUpdate, Session};
use seq_core::state::{
    Answer, Arrive, Arriving, Command, CommandRefusal, CreateKeyspace, CreateSeries, Died, LearnDirectory, Pace,
    RaiseCeilings, Reassign, Registration, ReportLoss, Residence, SectionRecord, SetDefinition, SetFacts,
    StartMigration, State, Transfer,
};
use seq_core::{
    Epoch, HandoverId, Incarnation, Layout, MigrationId, NodeId, Revision, RouteVersion, SectionId, Seq, SetId,
};
use seq_ids::{Shape, TimedShape};
use seq_kit::listen;
use seq_kit::tasks::{Kind, TaskGroup};
use seq_kit::wall_clock;
use seq_proto::reason::{Reason, key};
use seq_proto::series::SeriesShape;
use seq_proto::v1::control_service_server::{ControlService, ControlServiceServer};
use seq_proto::{control, status, v1};
use tokio::sync::watch;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::NamedService;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Code, Request, Response, Status};

/// Treatment of calls by the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Applies and responds.
    Serve,
    /// Responds to no raise until the mode changes, and serves other calls.
    HoldRaises,
    /// Applies, and then fails the call as a lost connection would.
    ForgetAnswers,
    /// Fails every call without applying it.
    Down,
}

/// Handle of the store. Clones share the store; a follower shares its state.
#[derive(Clone)]
pub(crate) struct Store {
    pub(crate) state: Arc<Mutex<State>>,
    pub(crate) mode: Arc<watch::Sender<Mode>>,
    /// Number of raise calls received, including held calls.
    pub(crate) raise_calls: Arc<AtomicUsize>,
    /// Section whose raises are refused, because its ceiling would rise too fast.
    pub(crate) too_fast: Arc<Mutex<Option<u32>>>,
    /// Milliseconds by which the clocks of nodes are ahead of the store's clock.
    pub(crate) ahead: Arc<Mutex<BTreeMap<NodeId, u64>>>,
    pub(crate) calls: Arc<AtomicUsize>,
    /// Number of departures received.
    pub(crate) departures: Arc<AtomicUsize>,
    /// Number of calls received that commit one or more handovers.
    pub(crate) commits: Arc<AtomicUsize>,
    /// Whether the store commits one handover in a call only, as the release before did.
    pub(crate) commits_singly: Arc<AtomicBool>,
    /// Sections that should be handed over.
    handovers: Arc<Mutex<Vec<PlannedHandover>>>,
    /// Store of another set at which sections arrive as they depart; `None` if they stay in transit.
    arrive_at: Arc<Mutex<Option<Store>>>,
    /// Address of the leader, on a follower.
    leader: Option<String>,
}

impl Store {
    /// Creates the store of a cluster's only set.
    pub(crate) fn only(set: &str, layout: Layout) -> Store {
        Store::new(SetDefinition::only(set, layout))
    }

    pub(crate) fn new(definition: SetDefinition) -> Store {
        let mut state = State::default();
        let defined = state.apply(&Command::DefineSet(definition));
        assert_eq!(defined, Answer::SetDefined(Ok(())));
        Store {
            state: Arc::new(Mutex::new(state)),
            mode: Arc::new(watch::Sender::new(Mode::Serve)),
            raise_calls: Arc::default(),
            too_fast: Arc::default(),
            ahead: Arc::default(),
            calls: Arc::default(),
            departures: Arc::default(),
            commits: Arc::default(),
            commits_singly: Arc::default(),
            handovers: Arc::default(),
            arrive_at: Arc::default(),
            leader: None,
        }
    }

    /// Creates a member that redirects every request to `leader`.
    pub(crate) fn follower(&self, leader: SocketAddr) -> Store {
        Store { leader: Some(leader.to_string()), calls: Arc::default(), ..self.clone() }
    }

    /// Serves on a port of the kernel's choice.
    pub(crate) fn serve(&self, group: &TaskGroup) -> SocketAddr {
        serve(ControlServiceServer::new(self.clone()), group)
    }

    /// Serves a service of the test, which is of no node of the set.
    pub(crate) fn serve_beside<S>(&self, service: S, group: &TaskGroup) -> SocketAddr
    where
        S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
        S: NamedService + Clone + Send + Sync + 'static,
        S::Future: Send,
    {
        serve(service, group)
    }

    /// Registers a node that responds with a service of the test.
    pub(crate) fn serve_as<S>(&self, node: &str, service: S, group: &TaskGroup) -> SocketAddr
    where
        S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
        S: NamedService + Clone + Send + Sync + 'static,
        S::Future: Send,
    {
        let addr = serve(service, group);
        self.register_as(node, addr);
        addr
    }

    /// Registers a node that listens at an address.
    pub(crate) fn register_as(&self, node: &str, addr: SocketAddr) {
        let register = Command::Register(Registration::new(node, &addr.to_string(), 1));
        assert!(matches!(self.state.lock().apply(&register), Answer::Registered(Ok(_))));
    }

    pub(crate) fn set_mode(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// Assigns sections to the newest incarnation of a node, from any owner.
    pub(crate) fn assign(&self, node: &str, sections: impl IntoIterator<Item = u32>) {
        let mut state = self.state.lock();
        let (to, incarnation) = life_of(&state, node).expect("the node registered");
        let moves = sections
            .into_iter()
            .map(|section| {
                let record = record(&state, section);
                let owner = record.owner.and_then(|owner| state.node(owner));
                let liveness =
                    owner.filter(|owner| owner.incarnation == record.incarnation).map(|owner| owner.liveness);
                Reassign { section: SectionId(section), expected: record.epoch, liveness, to, incarnation }
            })
            .collect();
        let Answer::Reassigned(done) = state.apply(&Command::Reassign(moves)) else { unreachable!() };
        assert!(done.iter().all(Option::is_some));
    }

    /// Registers another process under a name.
    pub(crate) fn register_other(&self, node: &str, addr: &str) {
        let mut state = self.state.lock();
        let follows = life_of(&state, node).map_or(Incarnation(0), |(_, incarnation)| incarnation);
        let token = 1_000_000 + state.revision.0;
        let registration = Registration { follows, ..Registration::new(node, addr, token) };
        let Answer::Registered(done) = state.apply(&Command::Register(registration)) else { unreachable!() };
        assert!(done.is_ok(), "{done:?}");
    }

    /// Begins exact handovers of sections from the newest incarnation of a node to the newest incarnation of another
    /// node.
    pub(crate) fn plan(&self, sections: Range<u32>, to: &str) {
        let state = self.state.lock();
        let (to, incarnation) = life_of(&state, to).expect("the node registered");
        let one = |section: u32| {
            let record = record(&state, section);
            PlannedHandover {
                section: SectionId(section),
                epoch: record.epoch,
                from: record.owner.unwrap(),
                to,
                incarnation,
                departure: None,
            }
        };
        *self.handovers.lock() = sections.map(one).collect();
    }

    /// Returns the id of the set.
    pub(crate) fn id(&self) -> SetId {
        self.state.lock().set.as_ref().expect("it is defined").id
    }

    /// Adopts the addresses of another set's nodes.
    pub(crate) fn learn(&self, other: &Store) {
        let facts = other.state.lock().facts(Vec::new()).expect("it is defined");
        let learned = LearnDirectory::of(facts);
        let answer = self.state.lock().apply(&Command::LearnDirectory(learned));
        assert_eq!(answer, Answer::DirectoryLearned(Ok(true)));
    }

    /// Adopts that sections are in another set, whose only node has this address.
    pub(crate) fn place(&self, sections: Range<u32>, set: SetId, since: Epoch, addr: SocketAddr) {
        self.place_at(sections, set, since, &[addr]);
    }

    /// Adopts that sections are in another set, whose nodes have these addresses.
    pub(crate) fn place_at(&self, sections: Range<u32>, set: SetId, since: Epoch, addrs: &[SocketAddr]) {
        let facts = SetFacts {
            id: set,
            revision: Revision(1),
            name: format!("set{set}"),
            allocs: addrs.iter().map(ToString::to_string).collect(),
            ..SetFacts::default()
        };
        let run = SectionRun { first: SectionId(sections.start), sections: sections.end - sections.start };
        let claims = vec![ClaimRun { sections: run, claim: Claim { since, set } }];
        // The source set reports the new set of the sections.
        let mut state = self.state.lock();
        let from = state.directory.get(run.first).map(|known| known.set);
        for learned in [LearnDirectory::of(facts), LearnDirectory { from, claims, sets: Vec::new() }] {
            let answer = state.apply(&Command::LearnDirectory(learned));
            assert!(matches!(answer, Answer::DirectoryLearned(Ok(_))), "{answer:?}");
        }
        assert_eq!(state.directory.get(run.first), Some(Claim { since, set }));
    }

    /// Begins a migration of sections to another set.
    pub(crate) fn migrate(&self, sections: Range<u32>, to: &Store) -> MigrationId {
        let to = to.id();
        let mut state = self.state.lock();
        let id = MigrationId(u64::from(sections.start) + 1);
        let layout = &state.set.as_ref().expect("it is defined").layout;
        let layout_id = layout.id_of(SectionId(sections.end - 1)).expect("a section");
        let runs = vec![SectionRun { first: SectionId(sections.start), sections: sections.end - sections.start }];
        let pace = Pace { rate: 1, max_pause: Duration::from_secs(1), paused: false };
        let fingerprint = state.fingerprint(to, &runs).expect("the set is known");
        let start = StartMigration { id, to, lineage: state.lineage, layout_id, runs, pace, fingerprint };
        assert_eq!(state.apply(&Command::StartMigration(start)), Answer::MigrationStarted(Ok(id)));
        id
    }

    /// Begins handovers of sections from their owners to a node of another set.
    pub(crate) fn plan_departures(&self, sections: Range<u32>, migration: MigrationId, to: &Store, node: &str) {
        let departure = |state: &State| {
            let (to, incarnation) = life_of(state, node).expect("the node registered");
            let (set, addr) = (state.set.as_ref().unwrap().id, state.node(to).unwrap().addr.clone());
            (to, incarnation, Arc::new(Departure { set, lineage: state.lineage, migration, addr }))
        };
        let (to, incarnation, departure) = departure(&to.state.lock());
        let state = self.state.lock();
        let one = |section: u32| {
            let Residence { epoch, owner, .. } = record(&state, section);
            let (section, from, departure) = (SectionId(section), owner.unwrap(), Some(departure.clone()));
            PlannedHandover { section, epoch, from, to, incarnation, departure }
        };
        *self.handovers.lock() = sections.map(one).collect();
    }

    /// Delivers sections to another set as they depart, and sections that departed before.
    pub(crate) fn arrive_at(&self, other: &Store) {
        *self.arrive_at.lock() = Some(other.clone());
        self.deliver(other);
    }

    /// Delivers all departed sections to their set.
    fn deliver(&self, to: &Store) {
        let state = self.state.lock();
        let set = state.set.as_ref().expect("it is defined");
        for (section, record) in state.sections.known() {
            let SectionRecord::Departed(tombstone) = *record else { continue };
            let one = Arriving {
                section,
                epoch: tombstone.epoch,
                max_seq: tombstone.max_seq,
                handover_id: tombstone.handover_id,
                node: tombstone.to.node,
                incarnation: tombstone.to.incarnation,
                migration: tombstone.by,
            };
            let arrive = Arrive {
                from: set.id,
                from_lineage: state.lineage,
                to_lineage: tombstone.to.lineage,
                layout_id: set.layout.id_of(section).expect("a section"),
                sections: vec![one],
            };
            let answer = to.state.lock().apply(&Command::Arrive(arrive));
            assert!(matches!(answer, Answer::Arrived(Ok(_))), "{answer:?}");
        }
    }

    /// Commits a handover of a section, as its owner requested under this attempt.
    pub(crate) fn commit(&self, section: u32, to: &str, handover_id: u64) {
        let mut state = self.state.lock();
        let (to, to_incarnation) = life_of(&state, to).expect("the node registered");
        let Residence { epoch, owner, incarnation, .. } = record(&state, section);
        let (section, from, handover_id) = (SectionId(section), owner.unwrap(), HandoverId(handover_id));
        let transfer = Transfer { section, epoch, from, incarnation, to, to_incarnation, handover_id };
        let Answer::Transferred(made) = state.apply(&Command::Transfer(transfer)) else { unreachable!() };
        made.unwrap();
    }

    fn layout(&self) -> Layout {
        self.state.lock().set.as_ref().expect("it is defined").layout.clone()
    }

    /// Returns the ownership update since a version, for one incarnation.
    fn update(&self, session: Session, since: u64) -> v1::OwnershipUpdate {
        let state = self.state.lock();
        let stands = |one: &&PlannedHandover| {
            let record = state.sections.resident(one.section);
            one.from == session.node && record.is_some_and(|record| record.epoch == one.epoch)
        };
        let wanted = self.handovers.lock();
        let leaving = state.node(session.node).is_some_and(|node| node.leaving);
        let update = OwnershipUpdate::of(&state, &Plan::default(), &[], session, RouteVersion(since));
        (&OwnershipUpdate {
            handovers: wanted.iter().filter(stands).take(MAX_OUTGOING).cloned().collect(),
            no_other_candidate: leaving && wanted.is_empty(),
            ..update.unwrap_or_default()
        })
            .into()
    }

    /// Creates a series whose lanes are in so many sections. Returns its sections.
    pub(crate) fn create_series(&self, name: &str, shape: SeriesShape, sections: u32) -> Range<u32> {
        let clock = match shape.shape {
            Shape::Counter(_) => None,
            Shape::Timed(TimedShape { epoch_ms, unit_ms, seq_bits, .. }) => {
                Some(TickClock { epoch_ms, unit_ms, seq_bits, lead_ms: 2_000 })
            }
        };
        let count = shape.shape.lanes();
        let lanes = Lanes { count, per_section: count / sections, start: Seq(0), margin: 0, clock, keys: None };
        let create = CreateSeries { name: name.to_owned(), shape: shape.to_bytes(), lanes, created_ms: 0 };
        let mut state = self.state.lock();
        let first = state.set.as_ref().unwrap().layout.sections();
        let created = state.apply(&Command::CreateSeries(create));
        assert!(matches!(created, Answer::SeriesCreated(Ok(_))), "{created:?}");
        first..first + sections
    }

    /// Creates a keyspace with this seed. Returns the sections of its buckets.
    pub(crate) fn create_keyspace(&self, name: &str, seed: [u8; 16]) -> Range<u32> {
        self.create(CreateKeyspace { name: name.to_owned(), seed: Seed::new(seed), of_uids: false, created_ms: 0 })
    }

    /// Creates the keyspace of uids. Returns the sections of its buckets.
    pub(crate) fn create_keyspace_of_uids(&self, name: &str) -> Range<u32> {
        self.create(CreateKeyspace { name: name.to_owned(), seed: Seed::new([9; 16]), of_uids: true, created_ms: 0 })
    }

    fn create(&self, create: CreateKeyspace) -> Range<u32> {
        match self.state.lock().apply(&Command::CreateKeyspace(create)) {
            Answer::KeyspaceCreated(Ok(buckets)) => buckets.first.0..buckets.first.0 + buckets.sections,
            refused => panic!("{refused:?}"),
        }
    }

    /// Sets by how much the clock of a node is ahead of the store's clock.
    pub(crate) fn set_ahead(&self, node: &str, ahead: Duration) {
        let (node, _) = life_of(&self.state.lock(), node).expect("the node registered");
        self.ahead.lock().insert(node, ahead.as_millis() as u64);
    }

    /// Returns the newest incarnation of a node.
    pub(crate) fn incarnation(&self, node: &str) -> Option<Incarnation> {
        life_of(&self.state.lock(), node).map(|(_, incarnation)| incarnation)
    }

    pub(crate) fn ceiling(&self, section: u32) -> Seq {
        record(&self.state.lock(), section).max_seq
    }

    pub(crate) fn epoch(&self, section: u32) -> Epoch {
        record(&self.state.lock(), section).epoch
    }

    /// Returns the name of a section's owner.
    pub(crate) fn owner(&self, section: u32) -> Option<String> {
        let state = self.state.lock();
        state.node(record(&state, section).owner?).map(|node| node.name.clone())
    }

    fn refused(&self, refusal: &CommandRefusal) -> Status {
        let state = self.state.lock();
        let addr = match refusal {
            CommandRefusal::OtherIncarnation { node, .. } => state.node(*node).map(|record| record.addr.as_str()),
            _ => None,
        };
        refused(refusal, addr)
    }

    /// Applies a command according to the mode.
    fn apply(&self, command: &Command) -> Result<Answer, Status> {
        self.calls.fetch_add(1, SeqCst);
        if let Some(leader) = &self.leader {
            let text = "this member does not lead".to_owned();
            return Err(status::with_reason(
                Code::Unavailable,
                Reason::NotLeader,
                text,
                [(key::LEADER, leader.clone())],
                None,
            ));
        }
        let mode = *self.mode.borrow();
        if mode == Mode::Down {
            return Err(Status::unavailable("the store is down"));
        }
        let answer = self.state.lock().apply(command);
        if mode == Mode::ForgetAnswers { Err(Status::unavailable("the answer was lost")) } else { Ok(answer) }
    }
}

/// Serves one service on a port of the kernel's choice.
fn serve<S>(service: S, group: &TaskGroup) -> SocketAddr
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S: NamedService + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let listener = listen::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap().remove(0);
    let addr = listener.local_addr().unwrap();
    let incoming = TcpIncoming::from(tokio::net::TcpListener::from_std(listener).unwrap()).with_nodelay(Some(true));
    let server = Server::builder().add_service(service);
    let token = group.token();
    group.spawn("service", Kind::Disposable, async move {
        // Dropped at shutdown, because the clients keep their connections open.
        tokio::select! {
            served = server.serve_with_incoming(incoming) => served.unwrap(),
            () = token.cancelled() => {}
        }
    });
    addr
}

fn life_of(state: &State, node: &str) -> Option<(NodeId, Incarnation)> {
    state.nodes().find(|(_, record)| record.name == node).map(|(id, record)| (id, record.incarnation))
}

/// Returns the status of a refusal; `addr` is the address of the newest incarnation.
fn refused(refusal: &CommandRefusal, addr: Option<&str>) -> Status {
    let (reason, current) = match refusal {
        CommandRefusal::OtherIncarnation { current, .. } => (Reason::OtherIncarnation, current.0),
        CommandRefusal::OtherPredecessor { current, .. } => (Reason::OtherPredecessor, current.0),
        CommandRefusal::OtherRenewal { current, .. } => (Reason::OtherRenewal, current.0),
        CommandRefusal::ProcessDied { .. } => return Reason::ProcessDied.status(refusal.to_string()),
        CommandRefusal::UnknownNode { .. } => return Reason::UnknownNode.status(refusal.to_string()),
        CommandRefusal::StoreBehind { .. } => return Reason::StoreBehind.status(refusal.to_string()),
        CommandRefusal::OtherOwnership { .. } => return Reason::OtherOwnership.status(refusal.to_string()),
        CommandRefusal::BetweenSets(between) => return Reason::between_sets(between).status(refusal.to_string()),
        _ => return Status::failed_precondition(refusal.to_string()),
    };
    let addr = addr.unwrap_or_default().to_owned();
    reason.status_with(refusal.to_string(), [(key::CURRENT, current.to_string()), (key::ADDR, addr)])
}

impl Store {
    fn transfer_one(&self, request: v1::TransferRequest) -> Result<v1::TransferResponse, Status> {
        let session = control::session(request.node_id, request.incarnation)?;
        let transfer = Command::Transfer(control::transfer(session, &request, &self.layout())?);
        let Answer::Transferred(answer) = self.apply(&transfer)? else { unreachable!() };
        let made = answer.map_err(|refusal| match refusal {
            CommandRefusal::TargetLeaves { incarnation: current, .. } => {
                Reason::TargetGone.status_with(refusal.to_string(), [(key::CURRENT, current.0.to_string())])
            }
            CommandRefusal::OtherIncarnation { node, current, .. } if node.0 == request.to_node_id => {
                Reason::TargetGone.status_with(refusal.to_string(), [(key::CURRENT, current.0.to_string())])
            }
            refusal => self.refused(&refusal),
        })?;
        let update = Some(self.update(session, request.route_version));
        Ok(v1::TransferResponse { ceiling: made.max_seq.0, update })
    }
}

#[tonic::async_trait]
impl ControlService for Store {
    async fn register(&self, request: Request<v1::RegisterRequest>) -> Result<Response<v1::RegisterResponse>, Status> {
        let v1::RegisterRequest { node, addr, token, lease_ms, follows, seen_revision, process, .. } =
            request.into_inner();
        assert!(lease_ms > 0, "a node says how long its lease is");
        let registration = Registration {
            follows: Incarnation(follows),
            seen: Revision(seen_revision),
            process,
            ..Registration::new(&node, &addr, token)
        };
        let Answer::Registered(answer) = self.apply(&Command::Register(registration))? else { unreachable!() };
        let (node, incarnation) = answer.map_err(|refusal| refused(&refusal, None))?;
        let state = self.state.lock();
        let (revision, liveness) = (state.revision.0, state.node(node).map_or(0, |record| record.liveness.0));
        Ok(Response::new(v1::RegisterResponse {
            node_id: node.0,
            incarnation: incarnation.0,
            revision,
            liveness,
            ..Default::default()
        }))
    }

    async fn renew(&self, request: Request<v1::RenewRequest>) -> Result<Response<v1::RenewResponse>, Status> {
        let request = request.into_inner();
        let session = control::session(request.node_id, request.incarnation)?;
        let renew = control::renewal(session, &request)?.into();
        let Answer::Renewed(answer) = self.apply(&renew)? else { unreachable!() };
        answer.map_err(|refusal| self.refused(&refusal))?;
        Ok(Response::new(v1::RenewResponse {
            update: Some(self.update(session, request.route_version)),
            ..Default::default()
        }))
    }

    async fn transfer(&self, request: Request<v1::TransferRequest>) -> Result<Response<v1::TransferResponse>, Status> {
        self.commits.fetch_add(1, SeqCst);
        self.transfer_one(request.into_inner()).map(Response::new)
    }

    async fn transfer_many(
        &self,
        request: Request<v1::TransferManyRequest>,
    ) -> Result<Response<v1::TransferManyResponse>, Status> {
        self.commits.fetch_add(1, SeqCst);
        if self.commits_singly.load(SeqCst) {
            return Err(Status::unimplemented("the method of a later release"));
        }
        let v1::TransferManyRequest { node_id, incarnation, route_version, transfers } = request.into_inner();
        let session = control::session(node_id, incarnation)?;
        let mut outcomes = Vec::new();
        for transfer in transfers {
            let transfer = v1::TransferRequest { node_id, incarnation, route_version, ..transfer };
            let outcome = self.transfer_one(transfer);
            if outcome.as_ref().is_err_and(|status| status::reason(status).is_none()) {
                return Err(outcome.unwrap_err());
            }
            outcomes.push(status::to_step_outcome(&outcome));
        }
        let made = outcomes.iter().any(|outcome| outcome.reason.is_empty());
        let update = made.then(|| self.update(session, route_version));
        Ok(Response::new(v1::TransferManyResponse { outcomes, update }))
    }

    async fn depart(&self, request: Request<v1::DepartRequest>) -> Result<Response<v1::DepartResponse>, Status> {
        let request = request.into_inner();
        let session = control::session(request.node_id, request.incarnation)?;
        let depart = Command::Depart(control::depart(session, &request, &self.layout())?);
        self.departures.fetch_add(1, SeqCst);
        let Answer::Departed(answer) = self.apply(&depart)? else { unreachable!() };
        let made = answer.map_err(|refusal| self.refused(&refusal))?;
        let other = self.arrive_at.lock().clone();
        if let Some(other) = other {
            self.deliver(&other);
        }
        let update = Some(self.update(session, request.route_version));
        Ok(Response::new(v1::DepartResponse { ceiling: made.max_seq.0, update }))
    }

    async fn report_loss(
        &self,
        request: Request<v1::ReportLossRequest>,
    ) -> Result<Response<v1::ReportLossResponse>, Status> {
        let v1::ReportLossRequest { node, incarnation, seen_revision, .. } = request.into_inner();
        let (incarnation, seen) = (Incarnation(incarnation), Revision(seen_revision));
        self.apply(&Command::ReportLoss(ReportLoss { node, incarnation, seen, certain: true }))?;
        Ok(Response::new(v1::ReportLossResponse {}))
    }

    async fn report_death(
        &self,
        request: Request<v1::ReportDeathRequest>,
    ) -> Result<Response<v1::ReportDeathResponse>, Status> {
        let v1::ReportDeathRequest { node, process, .. } = request.into_inner();
        let id = self.state.lock().nodes().find(|(_, record)| record.name == node).map(|(id, _)| id);
        let node = id.ok_or_else(|| Reason::UnknownNode.status("no such node"))?;
        let Answer::DeathNoted(answer) = self.apply(&Command::Died(Died { node, process }))? else { unreachable!() };
        let incarnation = answer.map_err(|refusal| self.refused(&refusal))?;
        Ok(Response::new(v1::ReportDeathResponse { incarnation: incarnation.map_or(0, |incarnation| incarnation.0) }))
    }

    async fn raise_ceilings(
        &self,
        request: Request<v1::RaiseCeilingsRequest>,
    ) -> Result<Response<v1::RaiseCeilingsResponse>, Status> {
        self.raise_calls.fetch_add(1, SeqCst);
        self.mode.subscribe().wait_for(|mode| *mode != Mode::HoldRaises).await.unwrap();
        let request = request.into_inner();
        let session = control::session(request.node_id, request.incarnation)?;
        let mut raises = control::raises(&request, &self.layout())?;
        let ahead_ms = self.ahead.lock().get(&session.node).copied().unwrap_or(0);
        for raise in &mut raises {
            if let Some(clock) = self.layout().clock_of(raise.section) {
                raise.to = raise.to.min(clock.clamp(wall_clock::now_ms() - ahead_ms));
            }
        }
        if let Some(section) = self.too_fast.lock().filter(|section| request.sections.contains(section)) {
            let section = [(key::SECTION, section.to_string())];
            return Err(Reason::RaiseTooFast.status_with("the ceiling would rise too fast", section));
        }
        let Session { node, incarnation } = session;
        let raise = Command::Raise(RaiseCeilings { node, incarnation, raises });
        let Answer::Raised(answer) = self.apply(&raise)? else { unreachable!() };
        let committed = answer.map_err(|refusal| self.refused(&refusal))?;
        let ceilings = committed.into_iter().map(|ceiling| ceiling.map_or(0, |ceiling| ceiling.0)).collect();
        let update = Some(self.update(session, request.route_version));
        Ok(Response::new(v1::RaiseCeilingsResponse { ceilings, update }))
    }
}

/// Returns the record of a section that is in this set.
pub(crate) fn record(state: &State, section: u32) -> Residence {
    *state.sections.resident(SectionId(section)).expect("it is in the set")
}
