//! Questions to whichever member of a store leads, from any address of its set.
//!
//! Every request may be repeated. A member that does not lead names the leader, an allocator names the stores; one that
//! does not respond is passed over. A refusal that is not about who leads, and not transient, is the answer.
//!
//! **Invariant:** no command outlasts its own deadline, whatever stands still; and one that cannot be carried out
//! because no majority of the store is there ends at once with NO_MAJORITY.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use seq_client::pool::Pool;
use seq_proto::status;
use seq_proto::v1::admin_service_client::AdminServiceClient;
use seq_proto::v1::node_admin_service_client::NodeAdminServiceClient as NodeAdmin;
use seq_proto::v1::status_response::Role;
use seq_proto::v1::store_admin_service_client::StoreAdminServiceClient as StoreAdmin;
use seq_proto::v1::{
    AddLearnersRequest, ChangeVotersRequest, ChangeVotersResponse, DrainNodeRequest, DrainNodeResponse,
    ListMembersRequest, ListMembersResponse, ListNodesRequest, ListNodesResponse, NewMember, SetTermsRequest,
    SetTermsResponse, StatusRequest, TransferLeaderRequest,
};
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

use crate::exit::{Exit, Failure};
use crate::set_file::{self, SetFile};
use crate::target::{DEFAULT_ADDR, host_port};

/// How long a leader is looked for while members respond: several elections, and a hand-over that is under way.
const SEARCH: Duration = Duration::from_secs(10);

/// How long all members that respond may know no leader: an election takes less. After that there is no majority.
const ELECTION: Duration = Duration::from_secs(3);

/// How long anybody is looked for: a store that starts responds within that.
const SILENCE: Duration = Duration::from_secs(5);

/// How long the response to a request that only reads may take. A member that stands still must not hold the command
/// up: another one is asked then.
const READ: Duration = Duration::from_secs(2);

/// How long the response to a change may take: it waits for two entries, and a hand-over comes before it.
const CHANGE: Duration = Duration::from_secs(15);

/// Pause before the same question is asked again.
const AGAIN: Duration = Duration::from_millis(200);

/// Where a store may be found.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Addrs {
    /// Address of a node of the set to start from, as http://host:port; repeat it for more.
    #[arg(long = "addr", value_name = "URL", env = "SEQSVR_ADDR", value_delimiter = ',')]
    pub(crate) addrs: Vec<String>,
}

/// A set that may be found by its file or by an address.
#[derive(Debug, clap::Args)]
pub(crate) struct Somewhere {
    /// The set file: its stores are asked.
    #[arg(long, value_name = "FILE")]
    set: Option<PathBuf>,
    #[command(flatten)]
    addrs: Addrs,
}

impl Somewhere {
    /// The way to the set's leader, for a command that may take so long.
    pub(crate) fn leader(&self, patience: Duration) -> anyhow::Result<Leader> {
        let set = self.set.as_deref().map(load).transpose()?;
        Ok(Leader::new(set.as_ref(), &self.addrs, patience))
    }
}

/// How long a command may take.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Patience {
    /// How long the command may take in all, in seconds.
    #[arg(long, value_name = "S", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    patience_s: u64,
}

impl Patience {
    pub(crate) fn duration(self) -> Duration {
        Duration::from_secs(self.patience_s)
    }
}

/// The way to the leader.
pub(crate) struct Leader {
    pool: Pool,
    /// Where to ask next, and then, in turn.
    known: Vec<String>,
    next: usize,
    /// Name of the set, once it is known.
    set: String,
    since: Instant,
    /// How long the command may take.
    patience: Duration,
}

/// What the members called so far know of a leader, since one was last named.
#[derive(Default)]
struct Search {
    /// When the first of them knew none.
    leaderless_since: Option<Instant>,
    leaderless: BTreeSet<usize>,
    silent: BTreeSet<usize>,
    /// Allocators: they name stores and lead nothing.
    allocs: BTreeSet<usize>,
}

impl Search {
    /// Whether no member of `known` that responds knows a leader, for longer than an election takes.
    fn is_over(&self, known: usize) -> bool {
        let heard = &(&self.leaderless | &self.silent) | &self.allocs;
        heard.len() >= known && self.leaderless_since.is_some_and(|since| since.elapsed() >= ELECTION)
    }
}

impl Leader {
    /// From the stores of a set file, the addresses given, or else the development cluster's.
    pub(crate) fn new(set: Option<&SetFile>, addrs: &Addrs, patience: Duration) -> Leader {
        let stores = set.into_iter().flat_map(|set| &set.spec.stores).map(|store| store.addr.clone());
        let mut known: Vec<String> = stores.chain(addrs.addrs.iter().map(|addr| host_port(addr).to_owned())).collect();
        if known.is_empty() {
            known.push(host_port(DEFAULT_ADDR).to_owned());
        }
        let set = set.map_or_else(String::new, |set| set.spec.name.clone());
        Leader { pool: Pool::with_connections(1), known, next: 0, set, since: Instant::now(), patience }
    }

    /// The members. Learns the set's name where no file said it.
    pub(crate) async fn list(&mut self) -> anyhow::Result<ListMembersResponse> {
        let list = self.ask(READ, async |to| StoreAdmin::new(to).list_members(ListMembersRequest {}).await).await?;
        self.learn_set(&list.set)?;
        Ok(list)
    }

    fn learn_set(&mut self, stored: &str) -> anyhow::Result<()> {
        if self.set.is_empty() {
            stored.clone_into(&mut self.set);
        }
        if stored != self.set {
            let message = format!("the store keeps set {stored}, and the file describes set {}", self.set);
            return Err(Failure::new(Exit::Usage, message).into());
        }
        Ok(())
    }

    pub(crate) async fn add_learners(&mut self, members: Vec<NewMember>) -> anyhow::Result<Vec<u64>> {
        let request = AddLearnersRequest { set: self.set.clone(), members };
        let limit = self.left().min(CHANGE);
        let added =
            self.ask(CHANGE, async |to| StoreAdmin::new(to).add_learners(timed(request.clone(), limit)).await).await?;
        Ok(added.added)
    }

    pub(crate) async fn change_voters(
        &mut self,
        request: &ChangeVotersRequest,
    ) -> anyhow::Result<ChangeVotersResponse> {
        let request = ChangeVotersRequest { set: self.set.clone(), ..request.clone() };
        let limit = self.left().min(CHANGE);
        self.ask(CHANGE, async |to| StoreAdmin::new(to).change_voters(timed(request.clone(), limit)).await).await
    }

    /// The AllocSvrs. Learns the set's name where no file said it.
    pub(crate) async fn nodes(&mut self) -> anyhow::Result<ListNodesResponse> {
        let list = self.ask(READ, async |to| NodeAdmin::new(to).list_nodes(ListNodesRequest {}).await).await?;
        self.learn_set(&list.set)?;
        Ok(list)
    }

    /// Has a node drained, or not; asks what that would mean with `dry_run`.
    pub(crate) async fn drain(
        &mut self,
        node: &str,
        drained: bool,
        dry_run: bool,
    ) -> anyhow::Result<DrainNodeResponse> {
        let request = DrainNodeRequest { set: self.set.clone(), node: node.to_owned(), drained, dry_run };
        let limit = if dry_run { READ } else { self.left().min(CHANGE) };
        self.ask(limit, async |to| NodeAdmin::new(to).drain_node(timed(request.clone(), limit)).await).await
    }

    /// The set's lease terms, after changing them where `lease_wait_ms` is not 0.
    pub(crate) async fn terms(&mut self, lease_wait_ms: u64) -> anyhow::Result<SetTermsResponse> {
        let request = SetTermsRequest { set: self.set.clone(), lease_wait_ms };
        let limit = if lease_wait_ms == 0 { READ } else { self.left().min(CHANGE) };
        self.ask(limit, async |to| NodeAdmin::new(to).set_terms(timed(request.clone(), limit)).await).await
    }

    pub(crate) async fn transfer(&mut self, to: u64) -> anyhow::Result<u64> {
        let request = TransferLeaderRequest { set: self.set.clone(), to };
        let limit = self.left().min(CHANGE);
        let answer = self
            .ask(CHANGE, async |to| StoreAdmin::new(to).transfer_leader(timed(request.clone(), limit)).await)
            .await?;
        Ok(answer.leader)
    }

    /// Begins the command's time anew, after a person was asked.
    pub(crate) fn restart_time(&mut self) {
        self.since = Instant::now();
    }

    /// What is left of the command's time.
    fn left(&self) -> Duration {
        self.patience.saturating_sub(self.since.elapsed())
    }

    /// Sends a request until the leader responds. `limit` is for one response.
    async fn ask<T>(
        &mut self,
        limit: Duration,
        send: impl AsyncFn(Channel) -> Result<Response<T>, Status>,
    ) -> anyhow::Result<T> {
        let (since, mut responded, mut search) = (Instant::now(), false, Search::default());
        loop {
            let (place, addr) = (self.next, self.known[self.next].clone());
            let channel = self.pool.get(&addr).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
            let limit = limit.min(self.left());
            let status = match tokio::time::timeout(limit, send(channel.clone())).await {
                Ok(Ok(answer)) => return Ok(answer.into_inner()),
                Ok(Err(status)) => status,
                Err(_) => Status::deadline_exceeded(format!("{addr} did not respond within {limit:?}")),
            };
            let reason = status::reason(&status);
            responded |= reason.is_some() || status.code() == Code::Unimplemented;
            match (reason.as_deref(), status.code()) {
                (Some("NOT_LEADER"), _) => {
                    if status::metadata(&status, "leader").is_some() {
                        search = Search::default();
                    }
                    self.follow(&status);
                }
                (Some("NO_LEADER"), _) => {
                    search.leaderless.insert(place);
                    search.leaderless_since.get_or_insert_with(Instant::now);
                    self.turn();
                }
                (None, Code::Unimplemented) => {
                    search.allocs.insert(place);
                    self.learn_stores(channel).await;
                }
                (Some(_), Code::Unavailable | Code::Aborted | Code::DeadlineExceeded) => self.turn(),
                (None, _) => {
                    search.silent.insert(place);
                    self.turn();
                }
                (Some(reason), _) => return Err(refused(reason, &status).into()),
            }
            if self.left().is_zero() {
                return Err(too_late(self.patience, &addr, &status).into());
            }
            if search.is_over(self.known.len()) {
                return Err(no_majority(&search, &status).into());
            }
            if since.elapsed() > if responded { SEARCH } else { SILENCE } {
                return Err(no_leader(responded, &addr, &status).into());
            }
            tokio::time::sleep(AGAIN.min(self.left())).await;
        }
    }

    /// Asks the next one that is known.
    fn turn(&mut self) {
        self.next = (self.next + 1) % self.known.len();
    }

    /// Asks the leader that a member names, or another member.
    fn follow(&mut self, status: &Status) {
        match status::metadata(status, "leader") {
            Some(addr) => self.next = self.learn(&addr),
            None => self.turn(),
        }
    }

    /// An allocator knows where the stores are.
    async fn learn_stores(&mut self, channel: Channel) {
        let mut admin = AdminServiceClient::new(channel);
        if let Ok(Ok(answer)) = tokio::time::timeout(READ.min(self.left()), admin.status(StatusRequest {})).await
            && let Some(Role::Alloc(alloc)) = answer.into_inner().role
        {
            for addr in &alloc.store_addrs {
                self.learn(addr);
            }
        }
        self.turn();
    }

    fn learn(&mut self, addr: &str) -> usize {
        self.known.iter().position(|known| known == addr).unwrap_or_else(|| {
            self.known.push(addr.to_owned());
            self.known.len() - 1
        })
    }
}

/// Reads a set file for a client command.
pub(crate) fn load(path: &Path) -> anyhow::Result<SetFile> {
    Ok(set_file::load(path).map_err(|problems| set_file::failure(Exit::Usage, &problems))?)
}

/// The server gives up when the caller does.
fn timed<T>(request: T, limit: Duration) -> Request<T> {
    let mut request = Request::new(request);
    request.set_timeout(limit);
    request
}

/// A refusal as an error of this program, with what can be done about it.
fn refused(reason: &str, status: &Status) -> Failure {
    let exit = if matches!(reason, "NOT_CAUGHT_UP" | "NO_MAJORITY") { Exit::Unhealthy } else { Exit::Failed };
    let failure = Failure::new(exit, format!("{} ({reason})", status.message()));
    match reason {
        "EVEN_VOTERS" => failure.hint("name two members in one command, or say --allow-even"),
        "UNKNOWN_NODE" => failure.hint("`seqsvr node list` lists them"),
        "LAST_NODE" => failure.hint("start another allocator, or undrain one, first"),
        "UNKNOWN_MEMBER" => failure.hint("`seqsvr store members` lists them"),
        "NO_MAJORITY" => failure.hint(START_THEM),
        _ => failure,
    }
}

/// What helps a store without a majority.
const START_THEM: &str =
    "start the silent members again, `seqsvr status` names them; members are changed only by a majority that responds";

fn no_majority(search: &Search, status: &Status) -> Failure {
    let (some, none) = (search.leaderless.len(), search.silent.len());
    let message = format!(
        "no member of the store leads: {some} respond and {none} do not; the last one said: {} (NO_MAJORITY)",
        status.message()
    );
    Failure::new(Exit::Unhealthy, message).hint(START_THEM)
}

fn too_late(patience: Duration, addr: &str, status: &Status) -> Failure {
    let message = format!("not done within {patience:?}; {addr} said last: {}", status.message());
    Failure::new(Exit::Deadline, message).hint(
        "what was begun goes on at the store: repeat the command, with a longer --patience-s; `seqsvr status` shows who responds",
    )
}

fn no_leader(answered: bool, addr: &str, status: &Status) -> Failure {
    let exit = if answered { Exit::Unhealthy } else { Exit::CannotConnect };
    let message = format!("no member of the store answered as its leader; {addr} said last: {}", status.message());
    Failure::new(exit, message).hint("`seqsvr status` shows who answers; --set FILE or --addr URL says where to ask")
}
