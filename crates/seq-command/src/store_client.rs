//! The client of a set's store. The client starts from any addresses of the set, finds an admin port of the store, and
//! sends requests to this port. The leader of the store handles all requests.
//!
//! Every request is idempotent, so the client may send it again. A member of the store that is not the leader forwards
//! requests to the leader. A port of the set that is no admin port returns the addresses of the admin ports. If a
//! member does not respond, the client tries the next address. A refusal ends the request, unless the reason is
//! transient or means that the leader is not known.
//!
//! **Invariant:** no command runs longer than its own deadline, even if a node hangs. If a command needs a majority of
//! the store and there is none, the command ends with NO_MAJORITY before its deadline.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use seq_channel::Pool;
use seq_load::outcome::Chain;
use seq_proto::reason::{Reason, key};
use seq_proto::status;
use seq_proto::v1::audit_service_client::AuditServiceClient as AuditClient;
use seq_proto::v1::backup_service_client::BackupServiceClient as BackupClient;
use seq_proto::v1::event_service_client::EventServiceClient as EventClient;
use seq_proto::v1::node_admin_service_client::NodeAdminServiceClient as NodeAdmin;
use seq_proto::v1::status_service_client::StatusServiceClient;
use seq_proto::v1::store_admin_service_client::StoreAdminServiceClient as StoreAdmin;
use seq_proto::v1::{
    AuditEvent, CreateBackupRequest, CreateBackupResponse, ListEventsRequest, ListMembersRequest, ListMembersResponse,
    ListNodesRequest, ListNodesResponse, ListSetEventsRequest, ListSetEventsResponse, StatusRequest,
    WatchSetEventsRequest, WatchSetEventsResponse,
};
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status, Streaming};

use crate::exit::{Exit, Failure};
use crate::port_kind::{self, Needed};
use crate::security;
use crate::set_file::SetFile;
use crate::target::{self, load_set};
use crate::target::{DEFAULT_ADDR, host_port, node_url};
use crate::time_limit::time;

mod changes;
mod series;
mod sets;

/// Maximum time of the search for a leader if members of the store respond. It is long enough for a transfer of
/// leadership and several elections.
const LEADER_SEARCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Time during which all members that respond may report that they have no leader. After it, the client concludes that
/// the store has no majority. It is longer than an election.
const ELECTION_TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum time of the search for a leader if no member of the store responds. A store that is starting responds within
/// this time.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout of one attempt of a request that reads. After it, the client tries the next member of the store, so that one
/// member that hangs does not block the command.
const READ_TIMEOUT: Duration = Duration::from_secs(2);

/// Timeout of one attempt of a request that changes the set. It is long enough for the commit of two log entries, even
/// after a transfer of leadership.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(15);

/// Pause between attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Addresses of a set from which the client starts.
#[derive(Clone, Debug, clap::Args)]
pub struct Addrs {
    /// Address of a node of the set to start from, as http://host:port; repeat the flag for more.
    #[arg(long = "addr", value_name = "URL", env = "SEQSVR_ADDR", value_delimiter = ',', value_parser = node_url)]
    pub addrs: Vec<String>,
}

/// A set, given by its set file or by addresses of its nodes.
#[derive(Debug, clap::Args)]
pub struct SetAddress {
    /// The set file, which has the addresses of its nodes.
    #[arg(long, value_name = "FILE", env = "SEQSVR_SET")]
    set: Option<PathBuf>,
    #[command(flatten)]
    addrs: Addrs,
}

impl SetAddress {
    /// Returns whether a set file supplies the nodes.
    pub fn is_set_file(&self) -> bool {
        self.set.is_some()
    }
}

/// A node that a command connects to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Name of the node; `None` if no set file states it.
    pub name: Option<String>,
    /// Address of the gRPC port, as `host:port`.
    pub addr: String,
    /// Address of the node's port for metrics and probes. It is `None` if no set file states it.
    pub http: Option<String>,
    /// Address of the node's Redis port. It is `None` if the node has none, or if no set file states it.
    pub redis: Option<String>,
    /// Name of the node's set, and role of the node in this set. It is `None` if no set file states them.
    pub of: Option<(String, NodeRole)>,
}

/// The role of a node in its set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeRole {
    /// A StoreSvr.
    Store,
    /// An AllocSvr.
    Alloc,
}

impl Node {
    /// Returns a node of which only the address is known.
    pub fn at(addr: &str) -> Node {
        Node { name: None, addr: addr.to_owned(), http: None, redis: None, of: None }
    }
}

/// Returns the nodes of a set file.
pub fn nodes_of(set: &SetFile) -> impl Iterator<Item = Node> {
    let stores = set.spec.stores.iter().map(|store| Node {
        name: Some(store.name.clone()),
        http: Some(store.http.clone()),
        of: Some((set.spec.name.clone(), NodeRole::Store)),
        ..Node::at(&store.addr)
    });
    let allocs = set.spec.allocs.iter().map(|alloc| Node {
        name: Some(alloc.name.clone()),
        http: Some(alloc.http.clone()),
        redis: alloc.redis.clone(),
        of: Some((set.spec.name.clone(), NodeRole::Alloc)),
        ..Node::at(&alloc.addr)
    });
    stores.chain(allocs)
}

impl SetAddress {
    /// Returns the nodes of the set file, followed by a node for each other given address. If the user gave neither,
    /// returns the first AllocSvr of a development cluster.
    pub fn nodes(&self) -> anyhow::Result<Vec<Node>> {
        let set = self.set.as_deref().map(load_set).transpose()?;
        let mut nodes: Vec<Node> = set.iter().flat_map(nodes_of).collect();
        let mut add = |addr: &str| {
            let addr = host_port(addr);
            if !nodes.iter().any(|node| node.addr == addr) {
                nodes.push(Node::at(addr));
            }
        };
        target::use_scheme_of(&self.addrs.addrs)?;
        self.addrs.addrs.iter().for_each(|addr| add(addr));
        if set.is_none() && self.addrs.addrs.is_empty() {
            add(DEFAULT_ADDR);
        }
        Ok(nodes)
    }

    /// Returns the flags that make another command use the same set. A space precedes each flag, so that the text can
    /// be appended to a command.
    pub fn flags(&self) -> String {
        let set = self.set.iter().map(|set| format!(" --set {}", set.display()));
        set.chain(self.addrs.addrs.iter().map(|addr| format!(" --addr {addr}"))).collect()
    }

    /// Returns a client of the store's leader, for a command that may take up to `timeout`.
    pub fn client(&self, timeout: Duration) -> anyhow::Result<StoreClient> {
        let set = self.set.as_deref().map(load_set).transpose()?;
        target::use_scheme_of(&self.addrs.addrs)?;
        Ok(StoreClient::new(set.as_ref(), &self.addrs, timeout))
    }
}

/// The time limit of a command.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct TimeoutArgs {
    /// Time limit of the whole command.
    #[arg(long, value_name = "TIME", alias = "timeout-s", default_value = "20s", value_parser = time)]
    timeout: Duration,
}

impl TimeoutArgs {
    /// Default time limit. It applies to commands that do not have this flag `--timeout`.
    pub const DEFAULT: Duration = Duration::from_secs(20);

    /// Returns the time limit.
    pub fn duration(self) -> Duration {
        self.timeout
    }
}

/// Sends requests to the leader of a store.
pub struct StoreClient {
    pool: Pool,
    /// Addresses of the set that are known so far. The client tries them one after another, and `next` is the index of
    /// the next attempt.
    known: Vec<String>,
    next: usize,
    /// Name of the set; empty until it is known.
    set: String,
    /// Whether the leader's release compares the fingerprints of plans. It is `None` until the leader has stated it.
    plans: Option<bool>,
    since: Instant,
    /// Time limit of the command.
    timeout: Duration,
}

/// Progress of the search for the leader. The search begins anew when a member names a leader.
#[derive(Default)]
struct Search {
    /// Time at which a member first reported that it has no leader.
    leaderless_since: Option<Instant>,
    leaderless: BTreeSet<usize>,
    silent: BTreeSet<usize>,
    /// Indexes of the known addresses that are no admin ports. These ports are only asked for the addresses of admin
    /// ports.
    others: BTreeSet<usize>,
}

impl Search {
    /// Returns whether the search has failed. It has failed if all of the `known` addresses were tried without finding
    /// the leader, and if members have stated for longer than an election takes that they have no leader.
    fn is_over(&self, known: usize) -> bool {
        let tried = &(&self.leaderless | &self.silent) | &self.others;
        tried.len() >= known && self.leaderless_since.is_some_and(|since| since.elapsed() >= ELECTION_TIMEOUT)
    }
}

impl StoreClient {
    /// Creates a client that starts from the stores of the set file and from `addrs`. If there are neither, it starts
    /// from the first AllocSvr of a development cluster.
    pub fn new(set: Option<&SetFile>, addrs: &Addrs, timeout: Duration) -> StoreClient {
        let stores = set.map(admin_addrs).unwrap_or_default().into_iter();
        let mut known: Vec<String> = stores.chain(addrs.addrs.iter().map(|addr| host_port(addr).to_owned())).collect();
        if known.is_empty() {
            known.push(host_port(DEFAULT_ADDR).to_owned());
        }
        let set = set.map_or_else(String::new, |set| set.spec.name.clone());
        StoreClient { pool: security::pool(), known, next: 0, set, plans: None, since: Instant::now(), timeout }
    }

    /// Creates a client that starts from the stores of the set file. It does not check the name of the set in
    /// responses, because no set may be defined in the stores yet.
    pub fn of_file(set: &SetFile, timeout: Duration) -> StoreClient {
        let known = admin_addrs(set);
        StoreClient {
            pool: security::pool(),
            known,
            next: 0,
            set: String::new(),
            plans: None,
            since: Instant::now(),
            timeout,
        }
    }

    /// Creates a client of the store of the set `set`. `stores` are addresses of its admin ports, or of other ports of
    /// the set.
    pub fn at(set: &str, stores: &[String], timeout: Duration) -> StoreClient {
        let (known, set) = (stores.to_vec(), set.to_owned());
        StoreClient { pool: security::pool(), known, next: 0, set, plans: None, since: Instant::now(), timeout }
    }

    /// Requests the list of the store's members. If the set's name is not known yet, the client adopts the name in the
    /// response.
    pub async fn list(&mut self) -> anyhow::Result<ListMembersResponse> {
        let list =
            self.call(READ_TIMEOUT, async |to| StoreAdmin::new(to).list_members(ListMembersRequest {}).await).await?;
        self.learn_set(&list.set)?;
        self.plans = Some(list.plans);
        Ok(list)
    }

    /// Returns whether the leader's release compares the fingerprints of plans. Requests this from the leader if it is
    /// not known yet. A leader that does not compare them must get no dry run, because it would ignore the field
    /// `dry_run` and make the change.
    pub async fn compares_plans(&mut self) -> anyhow::Result<bool> {
        match self.plans {
            Some(plans) => Ok(plans),
            None => Ok(self.list().await?.plans),
        }
    }

    fn learn_set(&mut self, stored: &str) -> anyhow::Result<()> {
        if self.set.is_empty() {
            stored.clone_into(&mut self.set);
        }
        if stored != self.set {
            let message = format!("the store holds set {stored}, but the file describes set {}", self.set);
            return Err(Failure::new(Exit::Usage, message).into());
        }
        Ok(())
    }

    /// Requests the list of the set's AllocSvrs. If the set's name is not known yet, the client adopts the name in the
    /// response.
    pub async fn nodes(&mut self) -> anyhow::Result<ListNodesResponse> {
        let list = self.call(READ_TIMEOUT, async |to| NodeAdmin::new(to).list_nodes(ListNodesRequest {}).await).await?;
        self.learn_set(&list.set)?;
        Ok(list)
    }

    /// Requests the events that the store still has of the audit log. Also returns whether the set records operations
    /// in an audit log.
    pub async fn events(&mut self) -> anyhow::Result<(Vec<AuditEvent>, bool)> {
        let mut events: Vec<AuditEvent> = Vec::new();
        loop {
            let after = events.last().map_or(0, |event| event.index);
            let list = async |to| AuditClient::new(to).list_events(ListEventsRequest { after }).await;
            let page = self.call(READ_TIMEOUT, list).await?;
            self.learn_set(&page.set)?;
            let is_last = page.events.is_empty();
            events.extend(page.events);
            if is_last || events.last().is_some_and(|event| event.index >= page.last) {
                return Ok((events, page.recorded));
            }
        }
    }

    /// Requests a page of the event log of the set.
    pub async fn set_events(&mut self, request: &ListSetEventsRequest) -> anyhow::Result<ListSetEventsResponse> {
        let list = async |to| EventClient::new(to).list_set_events(request.clone()).await;
        let page = self.call(READ_TIMEOUT, list).await?;
        self.learn_set(&page.set)?;
        Ok(page)
    }

    /// Requests a stream of the events of the set. The stream returns each event when the store records it, and ends
    /// when the member that sends the stream stops.
    pub async fn watch_set_events(
        &mut self,
        request: &WatchSetEventsRequest,
    ) -> anyhow::Result<Streaming<WatchSetEventsResponse>> {
        self.call(READ_TIMEOUT, async |to| EventClient::new(to).watch_set_events(request.clone()).await).await
    }

    /// Requests a backup, and returns the stream of its parts.
    pub async fn backup(&mut self) -> anyhow::Result<Streaming<CreateBackupResponse>> {
        let request = CreateBackupRequest { set: self.set.clone() };
        let limit = self.left();
        self.call(limit, async |to| BackupClient::new(to).create_backup(timed(request.clone(), limit)).await).await
    }

    /// Starts the command's time limit anew. Commands call it after a confirmation, because the time that the user
    /// needs to confirm must not count.
    pub fn restart_time(&mut self) {
        self.since = Instant::now();
    }

    /// Returns the time left for the command.
    fn left(&self) -> Duration {
        self.timeout.saturating_sub(self.since.elapsed())
    }

    /// Sends a request repeatedly until the leader responds, the search for the leader fails, or the time limit of the
    /// command ends. `limit` is the timeout of one attempt.
    async fn call<T>(
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
                Ok(Ok(response)) => return Ok(response.into_inner()),
                Ok(Err(status)) => status,
                Err(_) => Status::deadline_exceeded(format!("{addr} did not respond within {limit:?}")),
            };
            let reason = status::reason(&status);
            responded |= reason.is_some() || status.code() == Code::Unimplemented;
            match (reason.as_deref(), status.code()) {
                (Some(reason), _) if *reason == Reason::NotLeader => {
                    if status::metadata(&status, key::LEADER).is_some() {
                        search = Search::default();
                    }
                    // A member that now knows the leader will forward the next attempt.
                    self.next_member();
                }
                // This member has no leader, or has no connection to the leader.
                (Some(reason), _) if *reason == Reason::NoLeader || *reason == Reason::LeaderUnreachable => {
                    search.leaderless.insert(place);
                    search.leaderless_since.get_or_insert_with(Instant::now);
                    self.next_member();
                }
                (None, Code::Unimplemented) => {
                    // The address is a port of another kind.
                    let is_first = search.others.insert(place);
                    if is_first && let Some(failure) = wrong_port(&addr, &status).await {
                        return Err(failure.into());
                    }
                    let states_none = !self.learn_admin_ports(channel).await;
                    if states_none && search.others.len() == self.known.len() {
                        return Err(no_admin_port(&addr).into());
                    }
                }
                // The leader has recorded its decision. If the request were sent again, it would be refused and
                // recorded again.
                (Some(reason), _) if *reason == Reason::MemberNotReached => {
                    return Err(refused(reason, &status).into());
                }
                (Some(_), Code::Unavailable | Code::Aborted | Code::DeadlineExceeded) => self.next_member(),
                (None, _) => {
                    let is_first = search.silent.insert(place);
                    if is_first && let Some(failure) = wrong_port(&addr, &status).await {
                        return Err(failure.into());
                    }
                    self.next_member();
                }
                (Some(reason), _) => return Err(refused(reason, &status).into()),
            }
            // The remaining time does not suffice for a pause and another attempt.
            if self.left() <= RETRY_INTERVAL {
                return Err(timed_out(self.timeout, &addr, &status).into());
            }
            if search.is_over(self.known.len()) {
                return Err(no_majority(&search, &status).into());
            }
            if since.elapsed() > if responded { LEADER_SEARCH_TIMEOUT } else { CONNECT_TIMEOUT } {
                return Err(no_leader(responded, &addr, &status).into());
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    /// Selects the next known address.
    fn next_member(&mut self) {
        self.next = (self.next + 1) % self.known.len();
    }

    /// Requests the addresses of admin ports from a node, and adds them to the known addresses. Selects the first added
    /// address for the next attempt, or the next known address if no address was added. Returns `false` only if the
    /// node responds but states no address.
    async fn learn_admin_ports(&mut self, channel: Channel) -> bool {
        let known = self.known.len();
        let mut node = StatusServiceClient::new(channel);
        let response = tokio::time::timeout(READ_TIMEOUT.min(self.left()), node.status(StatusRequest {})).await;
        let stated = response.ok().and_then(Result::ok).map(|response| response.into_inner().admin_addrs);
        stated.iter().flatten().for_each(|addr| self.add_addr(addr));
        match known < self.known.len() {
            true => self.next = known,
            false => self.next_member(),
        }
        stated.is_none_or(|stated| !stated.is_empty())
    }

    fn add_addr(&mut self, addr: &str) {
        if !self.known.iter().any(|known| known == addr) {
            self.known.push(addr.to_owned());
        }
    }
}

/// Returns the addresses of the admin ports in a set file. If the file has none, returns the gRPC addresses of its
/// stores, because the stores may report their admin ports.
fn admin_addrs(set: &SetFile) -> Vec<String> {
    let stores = &set.spec.stores;
    let mut admins: Vec<String> = stores.iter().filter_map(|store| store.admin.clone()).collect();
    // Admin ports are often on loopback, so the admin ports of different machines may have the same address.
    admins.dedup();
    if admins.is_empty() { stores.iter().map(|store| store.addr.clone()).collect() } else { admins }
}

/// Sets the deadline of a request, so that the server stops working on the request when the client stops waiting for
/// the response.
fn timed<T>(request: T, limit: Duration) -> Request<T> {
    let mut request = Request::new(request);
    request.set_timeout(limit);
    request
}

/// Converts a refusal by a server to a failure of the command, with an exit code and a hint.
fn refused(reason: &str, status: &Status) -> Failure {
    let known = Reason::parse(reason);
    let exit = match known {
        Some(Reason::NotCaughtUp | Reason::NoMajority | Reason::NoSet | Reason::MemberNotReached) => Exit::Unhealthy,
        Some(Reason::SetUnavailable | Reason::NoCandidate | Reason::Quarantined) => Exit::Unhealthy,
        Some(Reason::StalePlan) => Exit::StalePlan,
        Some(Reason::BadName | Reason::BadShape) => Exit::Usage,
        _ => Exit::Failed,
    };
    let failure = Failure::new(exit, format!("{} ({reason})", status.message())).reason(reason);
    match known {
        Some(Reason::RoleDenied) => failure
            .hint("the role of the certificate does not allow it; --identity names another holder, as operator/NAME"),
        Some(Reason::EvenVoters) => failure.hint("name two members in one command, or pass --allow-even"),
        Some(Reason::UnknownNode) => failure.hint("`seqsvr node list` lists them"),
        Some(Reason::LastNode) => failure.hint("start another allocator, or undrain one, first"),
        Some(Reason::UnknownMember) => failure.hint("`seqsvr store members` lists them"),
        Some(Reason::NoMajority) => failure.hint(START_SILENT_MEMBERS),
        Some(Reason::StalePlan) => failure.hint("the change was not made: run the command again for a new plan"),
        Some(Reason::UnknownSeries) => failure.hint("`seqsvr series list` lists them"),
        Some(Reason::SeriesExists) => failure.hint("choose another name; `seqsvr series show NAME` shows the series"),
        Some(Reason::LayoutWriter) => failure.hint("--addr names a node of that set; `seqsvr set list` lists the sets"),
        Some(Reason::UnknownSet) => failure.hint("`seqsvr set list` lists them"),
        Some(Reason::UnknownMigration) => failure.hint("`seqsvr migration list` lists them"),
        Some(Reason::SetNotEmpty) => failure.hint("`seqsvr set merge` migrates them into another set and closes it"),
        _ => failure,
    }
}

/// Hint for a store without a majority.
const START_SILENT_MEMBERS: &str =
    "restart the silent members, `seqsvr status` lists them; a change of members needs a majority that responds";

/// Returns the failure of the command if the port at `addr` is not a gRPC port of a node. Returns `None` if it is a
/// gRPC port of a node, or if its kind cannot be found out.
async fn wrong_port(addr: &str, status: &Status) -> Option<Failure> {
    if status.code() == Code::DeadlineExceeded {
        return None;
    }
    port_kind::identify(addr).await?.failure(addr, Needed::Node)
}

fn no_admin_port(addr: &str) -> Failure {
    let message = format!("{addr} is not an admin port, and states no admin port of its set");
    Failure::new(Exit::Usage, message).hint(
        "`admin` of a [[store]] in the set file gives the store one; with TLS, a node states it to operators only",
    )
}

fn no_majority(search: &Search, status: &Status) -> Failure {
    let (some, none) = (search.leaderless.len(), search.silent.len());
    let message = format!(
        "the store has no leader: {some} members respond and {none} do not; last error: {} (NO_MAJORITY)",
        Chain(status)
    );
    Failure::new(Exit::Unhealthy, message).hint(START_SILENT_MEMBERS)
}

fn timed_out(timeout: Duration, addr: &str, status: &Status) -> Failure {
    let message = format!("not done within {timeout:?}; last error of {addr}: {}", Chain(status));
    Failure::new(Exit::Deadline, message).hint(
        "the change may continue at the store: repeat the command, with a longer --timeout; `seqsvr status` shows which nodes respond",
    )
}

fn no_leader(responded: bool, addr: &str, status: &Status) -> Failure {
    let exit = if responded { Exit::Unhealthy } else { Exit::CannotConnect };
    let message = format!("no leader of the store responded; last error of {addr}: {}", Chain(status));
    Failure::new(exit, message)
        .hint("`seqsvr status` shows which nodes respond; an admin port on loopback is reached on its machine only; --set FILE or --addr URL names the store")
}
