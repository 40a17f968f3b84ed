//! A whole store in one process: real gRPC on loopback, each member with a task group of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use seq_core::set_spec::{AllocSpec, Genesis, SetSpec, StoreSpec};
use seq_kit::tasks::TaskGroup;
use seq_proto::status;
use seq_proto::v1::control_service_client::ControlServiceClient;
use seq_proto::v1::status_response::Role;
use seq_proto::v1::status_service_client::StatusServiceClient;
use seq_proto::v1::store_admin_service_client::StoreAdminServiceClient;
use seq_proto::v1::{
    OwnershipUpdate, RaiseCeilingsRequest, RegisterRequest, RegisterResponse, RenewRequest, RenewResponse,
    StatusRequest, StoreStatus,
};
use seq_store::{DataDir, Dial, MemoryDisk, Sockets, StartError, Store, StoreConfig, StoreHandle, StoreOptions};
use seq_testkit::until;
use socket2::{Domain, Protocol, Socket, Type};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::links::Links;

/// Timeout of any step on a slow, busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Timeout of one call.
const CALL: Duration = Duration::from_secs(2);

/// Interval at which a condition is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Kind of place where members keep their data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disk {
    Memory,
    Sled,
}

pub(crate) struct Cluster {
    pub(crate) spec: SetSpec,
    /// Name of the set's cluster.
    pub(crate) name: String,
    pub(crate) options: StoreOptions,
    pub(crate) data: Vec<DataDir>,
    pub(crate) links: Links,
    /// The stores that each member's set file names. The files of all other members name `first`.
    pub(crate) files: BTreeMap<u64, Vec<u64>>,
    /// Members that are started to join.
    pub(crate) joins: BTreeSet<u64>,
    /// Whether a store of one member may form from an empty data directory.
    pub(crate) forms: bool,
    /// The stores that form the group, unless a test chooses others.
    pub(crate) first: Vec<u64>,
    members: Vec<Option<Member>>,
    /// Sockets that keep the ports reserved while a member is stopped.
    ports: Vec<Socket>,
    dirs: Vec<tempfile::TempDir>,
}

/// Lease with which the incarnations of these tests register.
pub(crate) const LEASE_MS: u64 = 500;

/// Longer than any of these tests, so an incarnation needs no renewals but the test's.
const LEASE_WAIT: Duration = Duration::from_secs(600);

pub(crate) struct Member {
    pub(crate) handle: StoreHandle,
    pub(crate) tasks: TaskGroup,
}

impl Cluster {
    /// Creates a set with `stores` stores, ten sections of a hundred uids, and the AllocSvrs a1 and a2. Nothing is
    /// started.
    pub(crate) fn new(stores: usize, disk: Disk) -> Cluster {
        let alloc = |name: &str, port| AllocSpec {
            name: name.into(),
            addr: format!("127.0.0.1:{port}"),
            peer: format!("127.0.0.1:{}", port + 2),
            http: format!("127.0.0.1:{}", port + 1),
            redis: None,
            redis_cluster: None,
            weight: 1,
            listen: Default::default(),
        };
        let spec = SetSpec {
            name: "im-a".into(),
            uids: 0..1_000,
            section_size: 100,
            step: 1_000,
            stores: Vec::new(),
            allocs: vec![alloc("a1", 10), alloc("a2", 20)],
            genesis: Genesis::Start,
        };
        let mut cluster = Cluster {
            name: spec.name.clone(),
            spec,
            options: StoreOptions { lease_wait: LEASE_WAIT, ..StoreOptions::DEFAULTS },
            data: Vec::new(),
            links: Links::default(),
            files: BTreeMap::new(),
            joins: BTreeSet::new(),
            forms: true,
            first: (1..=stores as u64).collect(),
            members: Vec::new(),
            ports: Vec::new(),
            dirs: Vec::new(),
        };
        for _ in 0..stores {
            cluster.place(disk);
        }
        cluster
    }

    /// Adds one more store; returns its id.
    fn place(&mut self, disk: Disk) -> u64 {
        let id = self.data.len() as u64 + 1;
        let port = reserve();
        let admin_port = reserve();
        let addr = |port: &Socket| port.local_addr().unwrap().as_socket().unwrap().to_string();
        let (addr, admin) = (addr(&port), Some(addr(&admin_port)));
        self.ports.push(admin_port);
        self.spec.stores.push(StoreSpec {
            id,
            name: format!("s{id}"),
            http: addr.clone(),
            raft: addr.clone(),
            addr,
            admin,
            listen: Default::default(),
        });
        self.data.push(match disk {
            Disk::Memory => DataDir::Memory(MemoryDisk::new()),
            Disk::Sled => {
                let dir = tempfile::tempdir().unwrap();
                let data = DataDir::Path(dir.path().join("data"));
                self.dirs.push(dir);
                data
            }
        });
        self.ports.push(port);
        self.members.push(None);
        id
    }

    /// Adds a store that is not in the group and not started; its set file names `file` and itself.
    pub(crate) fn newcomer(&mut self, disk: Disk, file: &[u64]) -> u64 {
        let id = self.place(disk);
        self.files.insert(id, [file, &[id]].concat());
        self.joins.insert(id);
        id
    }

    pub(crate) async fn started(stores: usize, disk: Disk) -> Cluster {
        let mut cluster = Cluster::new(stores, disk);
        cluster.start_all().await;
        cluster.ready().await;
        cluster
    }

    pub(crate) fn config(&self, id: u64) -> StoreConfig {
        let listen = |addr: &str| seq_kit::listen::bind(addr.parse().unwrap(), 1).unwrap().remove(0).into();
        let mut spec = self.spec.clone();
        let named = self.files.get(&id).unwrap_or(&self.first);
        spec.stores.retain(|store| named.contains(&store.id));
        StoreConfig {
            spec,
            cluster: self.name.clone(),
            id,
            data: self.data[id as usize - 1].clone(),
            join: self.joins.contains(&id),
            form: self.forms,
            sockets: Sockets { peers: listen(self.addr(id)), raft: None, admin: Some(listen(self.admin_addr(id))) },
            options: self.options.clone(),
            clock: seq_api::clock::Clock::System,
            revision: "test".into(),
            cpu_us: || 0,
            settings: Default::default(),
            events: Default::default(),
        }
    }

    pub(crate) fn addr(&self, id: u64) -> &str {
        &self.spec.stores[id as usize - 1].addr
    }

    pub(crate) fn admin_addr(&self, id: u64) -> &str {
        self.spec.stores[id as usize - 1].admin.as_deref().unwrap()
    }

    pub(crate) fn ids(&self) -> Vec<u64> {
        self.first.clone()
    }

    pub(crate) async fn start_all(&mut self) {
        let starts = self.ids().into_iter().map(|id| start_with(self.config(id), self.dial(id)));
        let members = futures::future::join_all(starts).await;
        for (id, member) in self.ids().into_iter().zip(members) {
            self.members[id as usize - 1] = Some(member.unwrap());
        }
    }

    pub(crate) async fn start(&mut self, id: u64) {
        self.try_start(id).await.unwrap();
    }

    pub(crate) async fn try_start(&mut self, id: u64) -> Result<(), StartError> {
        self.members[id as usize - 1] = Some(start_with(self.config(id), self.dial(id)).await?);
        Ok(())
    }

    fn dial(&self, id: u64) -> Dial {
        self.links.dial(self.addr(id))
    }

    pub(crate) async fn stop(&mut self, id: u64) {
        let Member { handle, tasks } = self.take(id);
        handle.shutdown().await.unwrap();
        tasks.shutdown(TIMEOUT).await.unwrap();
    }

    /// Takes a running member out of the cluster.
    pub(crate) fn take(&mut self, id: u64) -> Member {
        self.members[id as usize - 1].take().expect("it runs")
    }

    pub(crate) async fn stop_all(&mut self) {
        for id in self.running() {
            self.stop(id).await;
        }
    }

    pub(crate) fn running(&self) -> Vec<u64> {
        (1..).zip(&self.members).filter(|(_, member)| member.is_some()).map(|(id, _)| id).collect()
    }

    pub(crate) fn member(&self, id: u64) -> &Member {
        self.members[id as usize - 1].as_ref().expect("it runs")
    }

    /// Waits until every running member is ready.
    pub(crate) async fn ready(&self) {
        let ready = self.running().into_iter().map(|id| self.member(id).handle.ready());
        let ready = tokio::time::timeout(TIMEOUT, futures::future::join_all(ready)).await;
        assert!(ready.is_ok(), "the store gets ready: {:?}", self.states());
    }

    /// Returns the status of each running member.
    fn states(&self) -> Vec<String> {
        let state = |id| {
            let Member { handle, tasks } = self.member(id);
            format!("{id}: leader {:?}, failed {:?}, {:?}", handle.leader(), tasks.failed(), handle.readiness().ask())
        };
        self.running().into_iter().map(state).collect()
    }

    /// Waits until all running members agree on a running leader.
    pub(crate) async fn leader(&self) -> u64 {
        until("a leader", async || {
            let leaders: Vec<_> = self.running().iter().map(|id| self.member(*id).handle.leader()).collect();
            let leader = leaders[0].filter(|leader| self.running().contains(leader))?;
            leaders.iter().all(|other| *other == Some(leader)).then_some(leader)
        })
        .await
    }

    pub(crate) async fn follower(&self) -> u64 {
        let leader = self.leader().await;
        self.running().into_iter().find(|id| *id != leader).expect("there is a follower")
    }

    pub(crate) async fn status(&self, id: u64) -> StoreStatus {
        let response = StatusServiceClient::new(channel(self.addr(id))).status(StatusRequest {}).await.unwrap();
        match response.into_inner().role {
            Some(Role::Store(status)) => status,
            other => panic!("the status of a store is {other:?}"),
        }
    }

    /// Waits until all running members have applied the same last entry; returns its index.
    pub(crate) async fn level(&self) -> u64 {
        until("the same applied index", async || {
            let mut seen = Vec::new();
            for id in self.running() {
                let status = self.status(id).await;
                seen.push((status.applied_index, status.last_log_index));
            }
            let (applied, last) = seen[0];
            (applied == last && seen.iter().all(|other| *other == (applied, last))).then_some(applied)
        })
        .await
    }

    pub(crate) fn control(&self, id: u64) -> ControlServiceClient<Channel> {
        ControlServiceClient::new(channel(self.addr(id)))
    }

    pub(crate) fn admin(&self, id: u64) -> StoreAdminServiceClient<Channel> {
        StoreAdminServiceClient::new(channel(self.admin_addr(id)))
    }

    /// Sends a request to members in turn until a member responds without a retry hint.
    pub(crate) async fn ask<T, F>(&self, call: impl Fn(ControlServiceClient<Channel>) -> F) -> Result<T, Status>
    where
        F: Future<Output = Result<tonic::Response<T>, Status>>,
    {
        until("a response of the leader", async || {
            for id in self.running() {
                match tokio::time::timeout(CALL, call(self.control(id))).await {
                    Ok(Ok(response)) => return Some(Ok(response.into_inner())),
                    Ok(Err(status)) if matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded) => {}
                    Ok(Err(status)) => return Some(Err(status)),
                    Err(_) => {}
                }
            }
            None
        })
        .await
    }

    pub(crate) async fn register(&self, node: &str, token: u64) -> RegisterResponse {
        let addr = "127.0.0.1:9".to_owned();
        let mut request = RegisterRequest {
            set: self.spec.name.clone(),
            node: node.into(),
            addr,
            token,
            lease_ms: LEASE_MS,
            ..RegisterRequest::default()
        };
        loop {
            let response = self
                .ask(|mut control| {
                    let request = request.clone();
                    async move { control.register(request).await }
                })
                .await;
            match response {
                Ok(response) => return response,
                Err(refusal) => request.follows = follows(&refusal).unwrap_or_else(|| panic!("{refusal:?}")),
            }
        }
    }

    pub(crate) async fn renew(&self, session: &RegisterResponse, renew_seq: u64) -> Result<RenewResponse, Status> {
        let (node_id, incarnation) = (session.node_id, session.incarnation);
        let request = RenewRequest { node_id, incarnation, renew_seq, ..RenewRequest::default() };
        self.ask(|mut control| {
            let request = request.clone();
            async move { control.renew(request).await }
        })
        .await
    }

    /// Renews until the incarnation owns `sections` sections; returns the number of the last renewal, and the owned
    /// sections.
    pub(crate) async fn owns(&self, session: &RegisterResponse, sections: usize) -> (u64, OwnershipUpdate) {
        let mut renew_seq = 0;
        let renewals = async {
            loop {
                renew_seq += 1;
                let owned = self.renew(session, renew_seq).await.unwrap().update.unwrap();
                if owned.sections.len() == sections {
                    return owned;
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        let owned = tokio::time::timeout(TIMEOUT, renewals).await.expect("the arbiter assigns sections");
        (renew_seq, owned)
    }

    /// Raises one section; returns its ceiling, or 0 if the raise was refused.
    pub(crate) async fn raise(
        &self,
        session: &RegisterResponse,
        section: u32,
        epoch: u64,
        to: u64,
    ) -> Result<u64, Status> {
        let request = raise_request(session, section, epoch, to);
        let response = self
            .ask(|mut control| {
                let request = request.clone();
                async move { control.raise_ceilings(request).await }
            })
            .await?;
        assert_eq!(response.ceilings.len(), 1);
        Ok(response.ceilings[0])
    }
}

/// Returns the newest incarnation, if a registration was refused because it does not follow that incarnation.
pub(crate) fn follows(refusal: &Status) -> Option<u64> {
    let details = refusal.get_error_details();
    let info = details.error_info().filter(|info| info.reason == "OTHER_PREDECESSOR")?;
    info.metadata["current"].parse().ok()
}

pub(crate) fn raise_request(session: &RegisterResponse, section: u32, epoch: u64, to: u64) -> RaiseCeilingsRequest {
    RaiseCeilingsRequest {
        node_id: session.node_id,
        incarnation: session.incarnation,
        sections: vec![section],
        epochs: vec![epoch],
        ceilings: vec![to],
        route_version: 0,
    }
}

pub(crate) async fn start(config: StoreConfig) -> Result<Member, StartError> {
    start_with(config, Dial::tcp()).await
}

async fn start_with(config: StoreConfig, dial: Dial) -> Result<Member, StartError> {
    let tasks = TaskGroup::new();
    match Store::start_with(config, dial, tasks.clone()).await {
        Ok(handle) => Ok(Member { handle, tasks }),
        Err(error) => {
            tasks.shutdown(TIMEOUT).await.unwrap();
            Err(error)
        }
    }
}

pub(crate) fn channel(addr: &str) -> Channel {
    Endpoint::from_shared(format!("http://{addr}")).unwrap().connect_timeout(CALL).timeout(CALL * 4).connect_lazy()
}

/// Returns the reason of a refusal.
pub(crate) fn reason<T: std::fmt::Debug>(refusal: Result<T, Status>) -> String {
    let refusal = refusal.unwrap_err();
    status::reason(&refusal).unwrap_or_else(|| panic!("no reason in {refusal:?}"))
}

/// Reserves a port without listening on it.
fn reserve() -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket.set_reuse_port(true).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket
}
