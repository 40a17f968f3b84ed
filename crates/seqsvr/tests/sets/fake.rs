//! Stores of two sets that implement the part of `SetAdminService` that a client needs to receive every response.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use parking_lot::Mutex;
use seq_proto::reason::Reason;
use seq_proto::v1::set_admin_service_server::{SetAdminService, SetAdminServiceServer};
use seq_proto::v1::{
    CloseSetRequest, CloseSetResponse, CompleteMigrationRequest, CompleteMigrationResponse, CreateSetRequest,
    CreateSetResponse, ForgetSetRequest, ForgetSetResponse, ListMigrationsRequest, ListMigrationsResponse,
    ListSectionsRequest, ListSectionsResponse, ListSetsRequest, ListSetsResponse, MigrationPace, MigrationPhase,
    MigrationPlan, MigrationStatus, PlanMigrationRequest, PlanMigrationResponse, RollbackMigrationRequest,
    RollbackMigrationResponse, SectionInfo, SectionRange, SectionState, SetInfo, SetPaceRequest, SetPaceResponse,
    SetState, StartMigrationRequest, StartMigrationResponse,
};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

/// Number of sections of the cluster, each of 100,000 uids.
pub(crate) const SECTIONS: u32 = 100;

/// Responses of the members of a set's store.
#[derive(Default)]
pub(crate) struct State {
    /// The set and the other sets that it knows; empty while the set is not defined.
    pub(crate) sets: Vec<SetInfo>,
    /// Set of each section, as an index into `sets`.
    pub(crate) sections: Vec<usize>,
    pub(crate) migrations: Vec<MigrationStatus>,
    /// Responses to the next requests for one migration; the last of them is repeated. `None`: the member has no leader
    /// for a while.
    pub(crate) steps: VecDeque<Option<MigrationStatus>>,
    pub(crate) warnings: Vec<String>,
    pub(crate) problems: Vec<String>,
    /// Whether the state changes between a plan and its start.
    pub(crate) turns_stale: bool,
    /// Whether the member runs an older release, which does not compare plans and closes a set even at a dry run.
    pub(crate) is_older: bool,
    /// Requested changes, as texts.
    pub(crate) changes: Vec<String>,
    /// Sets that have not recorded the closing; each request removes one set.
    pub(crate) waiting_for: Vec<String>,
}

/// The fingerprint of the plan to close a set.
const CLOSE_PLAN: u64 = 0x0c10_5e5e_7000_0001;

/// A member of a store.
#[derive(Clone)]
struct Member {
    state: Arc<Mutex<State>>,
    /// The store of the other set.
    other: Arc<Mutex<State>>,
}

/// Stores of the sets im-a and im-b, which run in this process.
pub(crate) struct Cluster {
    _runtime: tokio::runtime::Runtime,
    pub(crate) a: Arc<Mutex<State>>,
    pub(crate) b: Arc<Mutex<State>>,
    /// Addresses: leader and follower of im-a, and the only member of im-b.
    pub(crate) addrs: [String; 3],
    pub(crate) dir: tempfile::TempDir,
}

/// The set that creates series.
const WRITER: &str = "im-b";

pub(crate) fn set(name: &str, sections: u32, stores: &[String]) -> SetInfo {
    SetInfo {
        id: u64::from(name.as_bytes()[3]) * 1_000_003,
        name: name.to_owned(),
        lineage: 7,
        sections,
        stores: stores.to_vec(),
        allocs: vec![format!("{name}.example:7100"), format!("{name}.example:7101")],
        state: SetState::Open.into(),
        responded_ms: 0,
        layout_id: 4_711,
        uid_start: 0,
        uid_end: 10_000_000,
        section_size: 100_000,
        lane_sections: TWEETS.sections,
        writes_series: name == WRITER,
    }
}

/// The sections of the series `tweets`, with 64 lanes each.
const TWEETS: SectionRange = SectionRange { first_section: 100, sections: 16 };

impl Cluster {
    /// Starts the stores; both sets are defined, and im-a has all sections.
    pub(crate) fn start() -> Cluster {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (a, b) = (Arc::<Mutex<State>>::default(), Arc::<Mutex<State>>::default());
        let member = |state: &Arc<Mutex<State>>, other: &Arc<Mutex<State>>| {
            serve(&runtime, Member { state: state.clone(), other: other.clone() })
        };
        let (leader, follower, other) = (member(&a, &b), member(&a, &b), member(&b, &a));
        let of_a = set("im-a", SECTIONS, &[leader.clone(), follower.clone()]);
        let of_b = set("im-b", 0, std::slice::from_ref(&other));
        let seen = |set: &SetInfo| SetInfo { responded_ms: 1_200, ..set.clone() };
        let sections = vec![0; SECTIONS as usize];
        *a.lock() = State { sets: vec![of_a.clone(), seen(&of_b)], sections, ..State::default() };
        let sections = vec![1; SECTIONS as usize];
        *b.lock() = State { sets: vec![of_b, seen(&of_a)], sections, ..State::default() };
        let dir = tempfile::tempdir().unwrap();
        Cluster { _runtime: runtime, a, b, addrs: [leader, follower, other], dir }
    }

    /// Runs a command at the follower of im-a; returns its output and exit code, with names for addresses.
    pub(crate) fn run(&self, args: &[&str]) -> String {
        let addr = format!("http://{}", self.addrs[1]);
        self.run_bare(&[args, &["--addr", &addr]].concat())
    }

    /// Runs a command without further arguments.
    pub(crate) fn run_bare(&self, args: &[&str]) -> String {
        self.output(self.spawn(args))
    }

    /// Starts a command.
    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seqsvr"));
        command.args(args).current_dir(self.dir.path()).env_clear().env("COLUMNS", "120");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Waits for a command; returns its output and exit code, with names for addresses.
    pub(crate) fn output(&self, child: Child) -> String {
        let output = child.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let code = output.status.code().unwrap();
        let text = format!("{}{}exit {code}\n", text(&output.stdout), text(&output.stderr));
        let named = self.addrs.iter().zip(["A1", "A2", "B1"]);
        named.fold(text, |text, (addr, name)| text.replace(addr, name))
    }

    /// Writes a set file for the stores of im-a or im-b into the directory of the commands.
    pub(crate) fn set_file(&self, name: &str, genesis: &str) -> String {
        let of_b = name == "im-b";
        let addr = if of_b { &self.addrs[2] } else { &self.addrs[0] };
        // The port is the same, but one address for two keys would be refused.
        let admin = addr.replace("127.0.0.1", "localhost");
        let text = format!(
            "name = \"{name}\"\ncluster = \"shop\"\ngenesis = \"{genesis}\"\nuids = \"0..10_000_000\"\n\
             plaintext = true\nplaintext_on_network = true\n\
             section_size = 100_000\nstep = 10_000\n\
             store = [{{ id = 1, name = \"s1\", addr = \"{addr}\", admin = \"{admin}\", raft = \"{name}:5\", http = \"h:2\" }}]\n\
             alloc = [{{ name = \"a1\", addr = \"{name}:3\", peer = \"{name}:6\", http = \"{name}:4\" }}]\n"
        )
        .replace("h:2", &format!("{name}:2"));
        let path = format!("{name}.toml");
        std::fs::write(self.dir.path().join(&path), text).unwrap();
        path
    }
}

/// Returns the fields of a section's beginning. The time of section 0 is not known; the store knows no beginning of odd
/// sections, as if they had owners before it was upgraded.
fn beginning(section: u32) -> SectionInfo {
    let (at, by, ceiling) = match section {
        0 => (0, "first_owners", Some(0)),
        _ if section % 2 == 1 => (0, "", None),
        _ => (1_767_225_600_000, "takeover", Some(5_000)),
    };
    let began_by = by.to_owned();
    SectionInfo { began_at_unix_ms: at, began_by, began_ceiling: ceiling, ..SectionInfo::default() }
}

/// Returns a migration of sections 60..100 from im-a to im-b.
pub(crate) fn migration(phase: MigrationPhase, departed: u32, arrived: u32) -> MigrationStatus {
    let moves = matches!(phase, MigrationPhase::Open | MigrationPhase::RollingBack) && arrived > 0;
    MigrationStatus {
        id: 12_345,
        from: "im-a".to_owned(),
        to: "im-b".to_owned(),
        to_set_id: set("im-b", 0, &[]).id,
        phase: phase.into(),
        pace: Some(MigrationPace { rate: 200, max_pause_ms: 100, paused: false }),
        sections: 40,
        departed,
        arrived,
        in_flight: departed - arrived,
        sections_per_second: if moves { 10.0 } else { 0.0 },
        pause_p50_us: if arrived > 0 { 4_100 } else { 0 },
        pause_p99_us: if arrived > 0 { 24_000 } else { 0 },
        pause_max_us: if arrived > 0 { 88_300 } else { 0 },
        stuck: String::new(),
        is_return: false,
        runs: vec![SectionRange { first_section: 60, sections: 40 }],
        started_unix_ms: 1_767_225_600_000,
        ended_unix_ms: if matches!(phase, MigrationPhase::RolledBack | MigrationPhase::Completed) {
            1_767_225_660_000
        } else {
            0
        },
    }
}

fn serve(runtime: &tokio::runtime::Runtime, member: Member) -> String {
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let addr: SocketAddr = listener.local_addr().unwrap();
    let server = tonic::transport::Server::builder().add_service(SetAdminServiceServer::new(member));
    runtime.spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    addr.to_string()
}

impl Member {
    /// Returns the state; a follower forwards to the leader.
    fn leads(&self) -> Result<parking_lot::MutexGuard<'_, State>, Status> {
        Ok(self.state.lock())
    }

    /// Returns the state of a set; an error if the set is not defined.
    fn defined(&self) -> Result<parking_lot::MutexGuard<'_, State>, Status> {
        let state = self.leads()?;
        if state.sets.is_empty() { Err(Reason::NoSet.status("the set is not created yet")) } else { Ok(state) }
    }
}

impl State {
    fn migration(&mut self, id: u64) -> Result<&mut MigrationStatus, Status> {
        let found = self.migrations.iter_mut().find(|migration| migration.id == id);
        found.ok_or_else(|| Reason::UnknownMigration.status(format!("no migration {id} began in this set")))
    }

    fn resident(&self) -> u32 {
        self.sections.iter().filter(|set| **set == 0).count() as u32
    }
}

#[tonic::async_trait]
impl SetAdminService for Member {
    async fn create_set(&self, request: Request<CreateSetRequest>) -> Result<Response<CreateSetResponse>, Status> {
        let CreateSetRequest { name, join } = request.into_inner();
        let joined = self.other.lock().sets.first().cloned();
        let mut state = self.leads()?;
        if let Some(set) = state.sets.first() {
            return Err(Reason::SetExists.status(format!("set {} is defined already", set.name)));
        }
        state.changes.push(format!("create {name} with {} addresses", join.len()));
        let sections = if join.is_empty() { SECTIONS } else { 0 };
        let created = set(&name, sections, &["127.0.0.1:1".to_owned()]);
        state.sets.push(created.clone());
        state.sets.extend(joined.filter(|_| !join.is_empty()));
        drop(state);
        let mut other = self.other.lock();
        if !join.is_empty() && !other.sets.iter().any(|set| set.name == name) {
            other.sets.push(created.clone());
        }
        drop(other);
        Ok(Response::new(CreateSetResponse { set: Some(created) }))
    }

    async fn list_sets(&self, _: Request<ListSetsRequest>) -> Result<Response<ListSetsResponse>, Status> {
        let state = self.defined()?;
        Ok(Response::new(ListSetsResponse { sets: state.sets.clone(), plans: !state.is_older }))
    }

    async fn close_set(&self, request: Request<CloseSetRequest>) -> Result<Response<CloseSetResponse>, Status> {
        let mut state = self.defined()?;
        let CloseSetRequest { name, dry_run, plan } = request.into_inner();
        let (is_open, is_older) = (state.sets[0].state() == SetState::Open, state.is_older);
        let fingerprint = if is_older { 0 } else { CLOSE_PLAN };
        if dry_run && !is_older {
            let (state, waiting_for) = (state.sets[0].state, Vec::new());
            return Ok(Response::new(CloseSetResponse { state, waiting_for, fingerprint }));
        }
        if is_open && plan != 0 && (state.turns_stale || plan != fingerprint) {
            return Err(Reason::StalePlan.status("a section has arrived since"));
        }
        state.changes.push(format!("close {name}"));
        let waiting_for = state.waiting_for.clone();
        let closes = if state.waiting_for.pop().is_some() { SetState::Closing } else { SetState::Closed };
        state.sets[0].state = closes.into();
        drop(state);
        // The other set is notified before the next request.
        self.other.lock().sets.iter_mut().filter(|set| set.name == name).for_each(|set| set.state = closes.into());
        Ok(Response::new(CloseSetResponse { state: closes.into(), waiting_for, fingerprint }))
    }

    async fn forget_set(&self, request: Request<ForgetSetRequest>) -> Result<Response<ForgetSetResponse>, Status> {
        let mut state = self.defined()?;
        let ForgetSetRequest { name, forget_id, dry_run, plan } = request.into_inner();
        let known = state.sets[1..].iter().any(|set| set.id == forget_id);
        if !dry_run {
            assert_eq!(plan, CLOSE_PLAN, "the shown plan is made");
            state.changes.push(format!("{name} forgets {forget_id}"));
            state.sets.retain(|set| set.id != forget_id);
        }
        Ok(Response::new(ForgetSetResponse { known, fingerprint: CLOSE_PLAN }))
    }

    async fn plan_migration(
        &self,
        request: Request<PlanMigrationRequest>,
    ) -> Result<Response<PlanMigrationResponse>, Status> {
        let PlanMigrationRequest { to, mut runs, all, pace, series } = request.into_inner();
        let rate = pace.map(|pace| pace.rate).filter(|rate| *rate > 0).unwrap_or(200);
        let state = self.defined()?;
        let to = state.sets.iter().find(|set| set.id.to_string() == to).unwrap();
        if all {
            runs = vec![SectionRange { first_section: 0, sections: state.resident() }];
        }
        let sections: u32 = runs.iter().map(|run| run.sections).sum();
        let of_series = if series.is_empty() { 0 } else { TWEETS.sections };
        runs.extend(series.iter().map(|_| TWEETS));
        let mut hash = DefaultHasher::new();
        (runs.iter().map(|run| (run.first_section, run.sections)).collect::<Vec<_>>(), to.id).hash(&mut hash);
        let is_possible = state.problems.is_empty();
        let plan = MigrationPlan {
            id: if is_possible { 12_345 } else { 0 },
            from_set_id: state.sets[0].id,
            from: state.sets[0].name.clone(),
            from_lineage: state.sets[0].lineage,
            to_set_id: to.id,
            to: to.name.clone(),
            to_lineage: to.lineage,
            layout_id: to.layout_id,
            runs,
            fingerprint: if is_possible { hash.finish() } else { 0 },
        };
        Ok(Response::new(PlanMigrationResponse {
            plan: Some(plan),
            sections: sections + of_series,
            uids: u64::from(sections) * 100_000,
            lanes: u64::from(of_series) * 64,
            unowned: 1,
            target_allocs: 2,
            target_sections: to.sections,
            writes: 2 + 2 * u64::from(sections),
            seconds: u64::from(sections.div_ceil(rate)),
            warnings: state.warnings.clone(),
            problems: state.problems.clone(),
        }))
    }

    async fn start_migration(
        &self,
        request: Request<StartMigrationRequest>,
    ) -> Result<Response<StartMigrationResponse>, Status> {
        let request = request.into_inner();
        let (plan, pace) = (request.plan.unwrap(), request.pace.unwrap());
        let mut state = self.defined()?;
        if state.turns_stale {
            return Err(Reason::StalePlan.status("section 61 is part of migration 7 by now"));
        }
        state.changes.push(format!("start {} at {}/s", plan.id, pace.rate));
        let sections = plan.runs.iter().map(|run| run.sections).sum();
        let started = MigrationStatus {
            id: plan.id,
            from: plan.from,
            to: plan.to,
            sections,
            runs: plan.runs,
            ..migration(MigrationPhase::Open, 0, 0)
        };
        state.migrations.push(started.clone());
        Ok(Response::new(StartMigrationResponse { migration: Some(started) }))
    }

    async fn set_pace(&self, request: Request<SetPaceRequest>) -> Result<Response<SetPaceResponse>, Status> {
        let SetPaceRequest { id, pace } = request.into_inner();
        let pace = pace.unwrap();
        let mut state = self.defined()?;
        state.changes.push(format!("pace of {id}: {} {} {}", pace.rate, pace.max_pause_ms, pace.paused));
        let migration = state.migration(id)?;
        migration.pace = Some(MigrationPace { paused: pace.paused, ..migration.pace.unwrap() });
        Ok(Response::new(SetPaceResponse { migration: Some(migration.clone()) }))
    }

    async fn rollback_migration(
        &self,
        request: Request<RollbackMigrationRequest>,
    ) -> Result<Response<RollbackMigrationResponse>, Status> {
        let id = request.into_inner().id;
        let mut state = self.defined()?;
        state.changes.push(format!("roll {id} back"));
        let migration = state.migration(id)?;
        if migration.phase() == MigrationPhase::Completed {
            return Err(Reason::MigrationOver.status(format!("migration {id} is completed")));
        }
        migration.phase = MigrationPhase::RollingBack.into();
        Ok(Response::new(RollbackMigrationResponse { migration: Some(migration.clone()) }))
    }

    async fn complete_migration(
        &self,
        request: Request<CompleteMigrationRequest>,
    ) -> Result<Response<CompleteMigrationResponse>, Status> {
        let id = request.into_inner().id;
        let mut state = self.defined()?;
        state.changes.push(format!("complete {id}"));
        let migration = state.migration(id)?;
        migration.phase = MigrationPhase::Completed.into();
        let migration = migration.clone();
        Ok(Response::new(CompleteMigrationResponse { migration: Some(migration) }))
    }

    async fn list_migrations(
        &self,
        request: Request<ListMigrationsRequest>,
    ) -> Result<Response<ListMigrationsResponse>, Status> {
        let id = request.into_inner().id;
        let mut state = self.defined()?;
        if id != 0
            && let Some(step) = state.steps.pop_front()
        {
            match step {
                Some(step) => *state.migration(id)? = step,
                None => return Err(Reason::NoLeader.status("the store has no leader now")),
            }
        }
        let mut migrations = state.migrations.clone();
        migrations.retain(|migration| id == 0 || migration.id == id);
        Ok(Response::new(ListMigrationsResponse { migrations }))
    }

    async fn list_sections(
        &self,
        request: Request<ListSectionsRequest>,
    ) -> Result<Response<ListSectionsResponse>, Status> {
        let ListSectionsRequest { first_section, limit, summarize } = request.into_inner();
        let state = self.defined()?;
        let record = |section: u32, set: usize| SectionInfo {
            range: Some(SectionRange { first_section: section, sections: 1 }),
            state: if set == 0 { SectionState::Resident } else { SectionState::Arrived }.into(),
            set: state.sets[set].name.clone(),
            owner: if set == 0 && !summarize { format!("a{}", section % 2 + 1) } else { String::new() },
            epoch: if set == 0 && !summarize { 3 } else { 0 },
            ceiling: if set == 0 && !summarize { 10_000 } else { 0 },
            uid_start: u64::from(section) * 100_000,
            uid_end: u64::from(section + 1) * 100_000,
            migration_id: 0,
            moved_to: String::new(),
            ..if set == 0 && !summarize { beginning(section) } else { SectionInfo::default() }
        };
        let mut records: Vec<SectionInfo> = Vec::new();
        for (section, set) in (0..).zip(&state.sections).skip(first_section as usize) {
            let next = record(section, *set);
            match records.last_mut() {
                Some(last) if summarize && last.state == next.state && last.set == next.set => {
                    last.range.as_mut().unwrap().sections += 1;
                    last.uid_end = next.uid_end;
                }
                _ => records.push(next),
            }
        }
        // Pages are small, so that a client must request several pages.
        let most = if limit == 0 { 7 } else { limit as usize };
        let next_section = records.get(most).map_or(0, |next| next.range.unwrap().first_section);
        records.truncate(most);
        Ok(Response::new(ListSectionsResponse { sections: records, next_section }))
    }
}
