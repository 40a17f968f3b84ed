//! Questions to whichever member of a store leads, from any address of its set.
//!
//! Every question may be repeated. A member that does not lead names the leader, an allocator names the stores; who is silent is
//! passed over. A refusal that is not about who leads, or about what passes, is the answer.

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
    ListMembersRequest, ListMembersResponse, ListNodesRequest, ListNodesResponse, NewMember, StatusRequest,
    TransferLeaderRequest,
};
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

use crate::exit::{Exit, Failure};
use crate::set_file::{self, SetFile};
use crate::target::{DEFAULT_ADDR, host_port};

/// How long a leader is looked for: several elections, and every member of a file may be silent for a second.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long anybody is looked for: a store that starts answers within that.
const SILENCE: Duration = Duration::from_secs(5);

/// How long one answer may take: a change waits for two entries, and a hand-over comes before it.
const CALL: Duration = Duration::from_secs(15);

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
    /// The way to the set's leader.
    pub(crate) fn leader(&self) -> anyhow::Result<Leader> {
        let set = self.set.as_deref().map(load).transpose()?;
        Ok(Leader::new(set.as_ref(), &self.addrs))
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
}

impl Leader {
    /// From the stores of a set file, the addresses given, or else the development cluster's.
    pub(crate) fn new(set: Option<&SetFile>, addrs: &Addrs) -> Leader {
        let stores = set.into_iter().flat_map(|set| &set.spec.stores).map(|store| store.addr.clone());
        let mut known: Vec<String> = stores.chain(addrs.addrs.iter().map(|addr| host_port(addr).to_owned())).collect();
        if known.is_empty() {
            known.push(host_port(DEFAULT_ADDR).to_owned());
        }
        let set = set.map_or_else(String::new, |set| set.spec.name.clone());
        Leader { pool: Pool::with_connections(1), known, next: 0, set }
    }

    /// The members. Learns the set's name where no file said it.
    pub(crate) async fn list(&mut self) -> anyhow::Result<ListMembersResponse> {
        let list = self.ask(async |to| StoreAdmin::new(to).list_members(ListMembersRequest {}).await).await?;
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
        let added = self.ask(async |to| StoreAdmin::new(to).add_learners(timed(request.clone())).await).await?;
        Ok(added.added)
    }

    pub(crate) async fn change_voters(
        &mut self,
        request: &ChangeVotersRequest,
    ) -> anyhow::Result<ChangeVotersResponse> {
        let request = ChangeVotersRequest { set: self.set.clone(), ..request.clone() };
        self.ask(async |to| StoreAdmin::new(to).change_voters(timed(request.clone())).await).await
    }

    /// The AllocSvrs. Learns the set's name where no file said it.
    pub(crate) async fn nodes(&mut self) -> anyhow::Result<ListNodesResponse> {
        let list = self.ask(async |to| NodeAdmin::new(to).list_nodes(ListNodesRequest {}).await).await?;
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
        self.ask(async |to| NodeAdmin::new(to).drain_node(timed(request.clone())).await).await
    }

    pub(crate) async fn transfer(&mut self, to: u64) -> anyhow::Result<u64> {
        let request = TransferLeaderRequest { set: self.set.clone(), to };
        let answer = self.ask(async |to| StoreAdmin::new(to).transfer_leader(timed(request.clone())).await).await?;
        Ok(answer.leader)
    }

    async fn ask<T>(&mut self, question: impl AsyncFn(Channel) -> Result<Response<T>, Status>) -> anyhow::Result<T> {
        let since = Instant::now();
        let mut answered = false;
        loop {
            let addr = self.known[self.next].clone();
            let channel = self.pool.get(&addr).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
            let status = match tokio::time::timeout(CALL, question(channel.clone())).await {
                Ok(Ok(answer)) => return Ok(answer.into_inner()),
                Ok(Err(status)) => status,
                Err(_) => Status::deadline_exceeded(format!("{addr} did not answer within {CALL:?}")),
            };
            let reason = status::reason(&status);
            answered |= reason.is_some() || status.code() == Code::Unimplemented;
            match (reason.as_deref(), status.code()) {
                (Some("NOT_LEADER"), _) => self.follow(&status),
                (None, Code::Unimplemented) => self.learn_stores(channel).await,
                (Some(_), Code::Unavailable | Code::Aborted | Code::DeadlineExceeded) | (None, _) => self.turn(),
                (Some(reason), _) => return Err(refused(reason, &status).into()),
            }
            if since.elapsed() > if answered { PATIENCE } else { SILENCE } {
                return Err(no_leader(answered, &addr, &status).into());
            }
            tokio::time::sleep(AGAIN).await;
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
        if let Ok(Ok(answer)) = tokio::time::timeout(CALL, admin.status(StatusRequest {})).await
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
fn timed<T>(request: T) -> Request<T> {
    let mut request = Request::new(request);
    request.set_timeout(CALL);
    request
}

/// A refusal as an error of this program, with what can be done about it.
fn refused(reason: &str, status: &Status) -> Failure {
    let exit = if reason == "NOT_CAUGHT_UP" { Exit::Unhealthy } else { Exit::Failed };
    let failure = Failure::new(exit, format!("{} ({reason})", status.message()));
    match reason {
        "EVEN_VOTERS" => failure.hint("name two members in one command, or say --allow-even"),
        "UNKNOWN_NODE" => failure.hint("`seqsvr node list` lists them"),
        "LAST_NODE" => failure.hint("start another allocator, or undrain one, first"),
        "UNKNOWN_MEMBER" => failure.hint("`seqsvr store members` lists them"),
        "NO_MAJORITY" => failure.hint("remove or replace the silent ones first"),
        _ => failure,
    }
}

fn no_leader(answered: bool, addr: &str, status: &Status) -> Failure {
    let exit = if answered { Exit::Unhealthy } else { Exit::CannotConnect };
    let message = format!("no member of the store answered as its leader; {addr} said last: {}", status.message());
    Failure::new(exit, message).hint("`seqsvr status` shows who answers; --set FILE or --addr URL says where to ask")
}
