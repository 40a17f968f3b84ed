//! A server for tests of code that uses this crate. It serves the real protocol on a loopback port, keeps its counters
//! in memory, and has faults that a test can inject.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! use seq_client::{Client, fake::FakeServer};
//!
//! let server = FakeServer::start();
//! let client = Client::connect(server.url()).await?;
//! assert_eq!(client.next(42).await?.value, 1);
//! assert_eq!(client.next(42).await?.value, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Each server runs in its own runtime on its own thread, so a test may pause the clock of the test's runtime. The
//! servers of a cluster share their counters. So each of them serves any uid, as if it had forwarded the request to
//! the owner. Like a real server, they serve unary requests in the Connect protocol, too.

mod connect;
mod ids;
mod keys;
mod numbers;
mod series;
mod service;
mod world;

use std::net::{SocketAddr, TcpListener};
use std::ops::Range;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use seq_core::Refusal;
use seq_core::keyspace::Seed;
use seq_ids::Shape;
use seq_proto::v1::id_service_server::IdServiceServer;
use seq_proto::v1::key_service_server::KeyServiceServer;
use seq_proto::v1::sequence_service_server::SequenceServiceServer;
use tokio::sync::oneshot;
use tonic::Status;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

pub use service::{Corruption, Received, Seen};
pub use world::World;

use connect::Connect;
use service::{Node, Service};

/// Configuration of a set of fake servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeSet {
    /// Name of the set, a DNS label.
    pub name: String,
    /// Uids of the set. The end is exclusive.
    pub uids: Range<u64>,
    /// Uids per section, `1 ..= 16_777_216`. The sections are assigned to the servers in rotation: the first section
    /// to the first server, the second section to the second server, and so on.
    pub section_size: u32,
    /// Number of servers, 1 or above.
    pub servers: usize,
}

/// Configuration of a cluster of fake sets. Sections can migrate between these sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeCluster {
    /// The uids of the cluster. The end is exclusive.
    pub uids: Range<u64>,
    /// Uids per section, `1 ..= 16_777_216`. Each set starts with an equal number of neighbouring sections, in the
    /// order of the sets. The sections of a set are assigned to its servers in rotation.
    pub section_size: u32,
    /// Each set's name, which is a DNS label, and the number of the set's servers, which is 1 or above.
    pub sets: Vec<(String, usize)>,
}

/// A fake AllocSvr. It stops when this value is dropped.
#[derive(Debug)]
pub struct FakeServer {
    addr: SocketAddr,
    set: usize,
    index: usize,
    world: Arc<World>,
    node: Arc<Node>,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Default for FakeSet {
    /// Returns a set with one server for uids `0..1_000_000` in sections of 1,000.
    fn default() -> Self {
        FakeSet { name: "fake".to_owned(), uids: 0..1_000_000, section_size: 1_000, servers: 1 }
    }
}

impl FakeSet {
    /// Starts the servers. They accept requests when this function returns.
    ///
    /// # Panics
    /// If the configuration is invalid, or if no loopback port or thread is available.
    #[must_use]
    pub fn start(&self) -> Vec<FakeServer> {
        let FakeSet { name, uids, section_size, servers } = self.clone();
        FakeCluster { uids, section_size, sets: vec![(name, servers)] }.start().pop().expect("one set")
    }
}

impl FakeCluster {
    /// Starts the servers, and returns them grouped by set. They accept requests when this function returns.
    ///
    /// # Panics
    /// If the configuration is invalid, or if no loopback port or thread is available.
    #[must_use]
    pub fn start(&self) -> Vec<Vec<FakeServer>> {
        let bind = |_| {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
            listener.set_nonblocking(true).expect("a listener that does not block");
            let addr = listener.local_addr().expect("a bound listener has an address");
            (listener, addr)
        };
        let listeners: Vec<Vec<_>> = self.sets.iter().map(|(_, servers)| (0..*servers).map(bind).collect()).collect();
        let addrs: Vec<Vec<_>> = listeners
            .iter()
            .map(|set: &Vec<(TcpListener, SocketAddr)>| set.iter().map(|(_, addr)| *addr).collect())
            .collect();
        let world = Arc::new(World::new(self, &addrs));
        let start = |(set, listeners): (usize, Vec<(TcpListener, SocketAddr)>)| {
            let run = |(index, (listener, addr))| FakeServer::run(set, index, addr, listener, world.clone());
            listeners.into_iter().enumerate().map(run).collect()
        };
        listeners.into_iter().enumerate().map(start).collect()
    }
}

impl FakeServer {
    /// Starts the server of [`FakeSet::default`].
    ///
    /// # Panics
    /// If no loopback port or thread is available.
    #[must_use]
    pub fn start() -> FakeServer {
        FakeSet::default().start().pop().expect("one server")
    }

    /// Returns the server's URL, for [`crate::Client::connect`].
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Closes the server's port and every connection to it, as if the process had been killed. The counters and routes
    /// of the server's set are kept.
    pub fn stop(&self) {
        if let Some(Running { stop, thread }) = self.running.lock().take() {
            self.world.stopped(self.set);
            // The send fails if the server stopped by itself. In that case the join returns its panic.
            let _ = stop.send(());
            if thread.join().is_err() && !std::thread::panicking() {
                panic!("the fake server at {} panicked", self.addr);
            }
        }
    }

    /// Makes the server refuse its next requests. Each of these requests is refused with the next one of the given
    /// statuses. Refused requests change no counter.
    pub fn refuse(&self, refusals: impl IntoIterator<Item = Status>) {
        self.node.faults.lock().refusals.extend(refusals);
    }

    /// Makes the server refuse one request in `every`, which is 1 or above, with the status `refusal`, until this
    /// method is called again. Refused requests change no counter. `None` ends the refusals.
    pub fn refuse_one_in(&self, every: u64, refusal: Option<Status>) {
        self.node.faults.lock().one_in = refusal.map(|status| (every.max(1), status));
    }

    /// Makes the server refuse the next items of a uid, whether they are in the same request or in different requests.
    /// Each of these items is refused with the next of the given refusals and does not change the uid's counter.
    pub fn refuse_uid(&self, uid: u64, refusals: impl IntoIterator<Item = Refusal>) {
        self.node.faults.lock().uids.entry(uid).or_default().extend(refusals);
    }

    /// Corrupts the next response to which the fault applies. The numbers of the request are consumed.
    pub fn corrupt_next(&self, fault: Corruption) {
        self.node.faults.lock().corruption = Some(fault);
    }

    /// Delays the handling of each request by `delay`. The initial delay is zero.
    pub fn delay(&self, delay: Duration) {
        self.node.faults.lock().delay = delay;
    }

    /// If `hold` is true, makes the server hold each request after it recorded the request and before the request
    /// changes a counter. The requests are held until this method is called with `false`.
    pub fn hold(&self, hold: bool) {
        self.node.held.send_replace(hold);
    }

    /// Sets whether the server has routes. A server without routes behaves like a server of a set that is still
    /// starting.
    pub fn know_routes(&self, known: bool) {
        self.node.faults.lock().no_routes = !known;
    }

    /// Sets whether the server implements `NextStream`. With `false`, it behaves like a server of an older release.
    /// Streams that are open stay open.
    pub fn know_streams(&self, known: bool) {
        self.node.faults.lock().no_streams = !known;
    }

    /// Moves the uid's section to this server without skipping numbers. Within a set this acts like a handover, and
    /// between two sets like a migration. The section gets a new epoch, and the routes get a new version.
    ///
    /// # Panics
    /// If the uid is not in the cluster.
    pub fn take_section_of(&self, uid: u64) {
        self.world.assign(uid, self.set, Some(self.index));
    }

    /// Assigns the uid's section to this server's set, without an owner. Requests for the section are refused until
    /// [`FakeServer::take_section_of`] gives it an owner.
    ///
    /// # Panics
    /// If the uid is not in the cluster.
    pub fn orphan_section_of(&self, uid: u64) {
        self.world.assign(uid, self.set, None);
    }

    /// Changes the address by which the routes name this server, `host:port`, e.g. to that of a proxy in front of it.
    /// The server stays at its own address.
    pub fn advertise(&self, addr: &str) {
        self.world.advertise(self.set, self.index, addr);
    }

    /// Sets whether the routes of this server's set are updated when a section moves between two other sets. The
    /// default is `true`.
    pub fn learn_moves(&self, learn: bool) {
        self.world.learn(self.set, learn);
    }

    /// Sets whether the servers of this server's set forward requests to other sets. The default is `true`. With
    /// `false` they refuse such requests with `MOVED`, as if the requests had been forwarded to them by another set.
    pub fn forward_to_sets(&self, forward: bool) {
        self.world.forward(self.set, forward);
    }

    /// Creates a series in the cluster. `named_lanes` is whether callers of the series name the lane.
    ///
    /// # Panics
    /// If the cluster has too many series.
    pub fn create_series(&self, name: &str, shape: Shape, named_lanes: bool) {
        self.world.create_series(name, shape, named_lanes, 0);
    }

    /// Creates a keyspace in the cluster.
    ///
    /// # Panics
    /// If the cluster has too many keyspaces.
    pub fn create_keyspace(&self, name: &str) {
        self.world.create_keyspace(name, Seed::new([7; 16]));
    }

    /// Makes the server refuse the next items of a key of any keyspace, as [`FakeServer::refuse_uid`] refuses the items
    /// of a uid.
    pub fn refuse_key(&self, key: &[u8], refusals: impl IntoIterator<Item = Refusal>) {
        self.node.faults.lock().keys.entry(key.to_vec()).or_default().extend(refusals);
    }

    /// Assigns the bucket of a key to this server's set, without an owner. Requests for the bucket are refused until
    /// [`FakeServer::take_bucket_of`] gives it an owner.
    ///
    /// # Panics
    /// If the cluster has no such keyspace.
    pub fn orphan_bucket_of(&self, keyspace: &str, key: &[u8]) {
        self.world.assign_sections(self.set, &[(self.world.bucket_of(keyspace, key), None)]);
    }

    /// Moves the bucket of a key to this server without skipping numbers, as [`FakeServer::take_section_of`] moves a
    /// section.
    ///
    /// # Panics
    /// If the cluster has no such keyspace.
    pub fn take_bucket_of(&self, keyspace: &str, key: &[u8]) {
        self.world.assign_sections(self.set, &[(self.world.bucket_of(keyspace, key), Some(self.index))]);
    }

    /// Returns the id of the server's set.
    #[must_use]
    pub fn set_id(&self) -> u64 {
        self.world.set_id(self.set).0
    }

    /// Moves the uid's section to this server, as if the section's owner had crashed and this server had taken the
    /// section over. The section gets a new epoch, every uid starts at the ceiling, and reads of a uid are inexact
    /// until its next allocation.
    ///
    /// # Panics
    /// If the uid is not in the cluster.
    pub fn take_over_section_of(&self, uid: u64) {
        self.world.crash(uid);
        self.world.assign(uid, self.set, Some(self.index));
    }

    /// Returns the last 4,096 requests for numbers or reads that the server received, oldest first.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        self.node.seen.lock().iter().cloned().collect()
    }

    /// Waits until the server has received `calls` requests for numbers or reads since its start. Cancel safe.
    pub async fn until_seen(&self, calls: u64) {
        // The wait cannot fail, because the sender is in the node, which outlives this borrow.
        let _ = self.node.received.subscribe().wait_for(|received| received.requests >= calls).await;
    }

    /// Returns the counts of the requests for numbers or reads that the server has received since its start.
    #[must_use]
    pub fn received(&self) -> Received {
        *self.node.received.borrow()
    }

    fn run(set: usize, index: usize, addr: SocketAddr, listener: TcpListener, world: Arc<World>) -> FakeServer {
        let node = Arc::new(Node::default());
        let service = Service { set, world: world.clone(), node: node.clone() };
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
                let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
                let ids = Connect(IdServiceServer::new(service.clone()));
                let keys = KeyServiceServer::new(service.clone())
                    .max_decoding_message_size(seq_core::limits::MAX_REQUEST_BYTES);
                let server =
                    SequenceServiceServer::new(service).max_decoding_message_size(seq_core::limits::MAX_REQUEST_BYTES);
                let router = Server::builder().accept_http1(true).add_service(Connect(server));
                let router = router.add_service(ids).add_service(Connect(keys));
                tokio::select! {
                    served = router.serve_with_incoming(incoming) => {
                        served.expect("a fake server serves until it is stopped");
                    }
                    _ = stopped => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("fake-seqsvr".to_owned()).spawn(serve).expect("a thread");
        FakeServer { addr, set, index, world, node, running: Mutex::new(Some(Running { stop, thread })) }
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.stop();
    }
}
