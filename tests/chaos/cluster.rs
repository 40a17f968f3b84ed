//! One or two sets of real processes, each process on its own host, and queries of their status.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use seq_proto::v1;
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use seq_proto::v1::set_admin_service_client::SetAdminServiceClient;
use seq_proto::v1::status_response::Role;
use seq_proto::v1::status_service_client::StatusServiceClient;
use seq_testkit::eventually;
use serde_json::Value;
use tonic::transport::{Channel, Endpoint};

use crate::net::{Host, Net, scratch};
use crate::node::{Node, SmallDisk};

const STORE_PORT: u16 = 7300;
pub(crate) const ALLOC_PORT: u16 = 7400;
const HTTP_PORT: u16 = 7480;
const RAFT_PORT: u16 = 7306;
const ADMIN_PORT: u16 = 7490;
const PEER_PORT: u16 = 7495;

/// Uids of a section.
pub(crate) const SECTION_SIZE: u32 = 10_000;

/// Step of the ceilings: small, so that raises are always in flight.
pub(crate) const STEP: u64 = 400;

/// Settings with frequent snapshots, so that a member that was away sometimes needs a snapshot.
const STORE_SETTINGS: &str =
    "[store]\nsnapshot_interval_entries = 2000\nlog_retained_entries = 200\nrebalance_after_ms = 1000\n";

/// Wait for the lease of a silent node: the default of `store.lease_wait_ms`.
pub(crate) const LEASE_WAIT: Duration = Duration::from_millis(2_500);

/// Timeout of an operator's request at one member.
const ADMIN_TIMEOUT: Duration = Duration::from_secs(3);

/// Timeout of a query.
const QUERY_TIMEOUT: Duration = Duration::from_millis(300);

/// Size and layout of a set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) stores: u64,
    pub(crate) allocs: u32,
    pub(crate) sections: u32,
    /// Megabytes of the first store's own disk; 0 if it has none.
    pub(crate) small_disk: u64,
    /// Distance between the stores; `None` if they are as near as all other hosts.
    pub(crate) apart: Option<Apart>,
    /// Whether there is a second set, with as many stores and allocators, that begins without sections.
    pub(crate) two_sets: bool,
}

/// Durations of ceiling raises.
#[derive(Clone, Debug, Default)]
pub(crate) struct Raises {
    /// Number of raises within each bound of the metric's buckets, in milliseconds.
    within_ms: BTreeMap<u64, u64>,
    seconds: f64,
}

impl Raises {
    /// Returns the raises after an earlier reading.
    pub(crate) fn since(&self, before: &Raises) -> Raises {
        let earlier = |ms: &u64| before.within_ms.get(ms).copied().unwrap_or(0);
        let within_ms = self.within_ms.iter().map(|(ms, count)| (*ms, count - earlier(ms))).collect();
        Raises { within_ms, seconds: self.seconds - before.seconds }
    }

    pub(crate) fn count(&self) -> u64 {
        self.within_ms.values().max().copied().unwrap_or(0)
    }

    pub(crate) fn mean(&self) -> Duration {
        Duration::from_secs_f64(self.seconds.max(0.0) / self.count().max(1) as f64)
    }

    /// Returns the bound of the bucket within which this share of the raises lies, in milliseconds.
    pub(crate) fn within_ms(&self, share: f64) -> u64 {
        let needed = self.count() as f64 * share;
        self.within_ms.iter().find(|(_, count)| **count as f64 >= needed).map_or(0, |(ms, _)| *ms)
    }
}

/// Delay between the stores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Apart {
    pub(crate) round_trip: Duration,
    /// Whether all nodes have `store.preset = "wan"`.
    pub(crate) wan: bool,
}

impl Shape {
    pub(crate) const USUAL: Shape =
        Shape { stores: 3, allocs: 3, sections: 12, small_disk: 0, apart: None, two_sets: false };
}

/// A running set. Fields are dropped in the order of their declaration: processes, disks, network, files.
pub(crate) struct Cluster {
    pub(crate) stores: Vec<Node>,
    pub(crate) allocs: Vec<Node>,
    /// The second set; has no nodes if the shape has one set.
    pub(crate) other: OtherSet,
    pub(crate) disk: Option<SmallDisk>,
    pub(crate) net: Net,
    pub(crate) shape: Shape,
    runtime: tokio::runtime::Runtime,
    dir: tempfile::TempDir,
}

/// Name of the keyspace that [`Cluster::create_keyspace`] creates.
pub(crate) const KEYSPACE: &str = "main";

/// Names of the sets.
pub(crate) const SET: &str = "chaos";
pub(crate) const OTHER_SET: &str = "other";

/// The nodes of the second set.
#[derive(Default)]
pub(crate) struct OtherSet {
    pub(crate) stores: Vec<Node>,
    pub(crate) allocs: Vec<Node>,
}

impl Cluster {
    /// Creates the network and the files; no process runs yet.
    pub(crate) fn prepare(shape: Shape) -> Cluster {
        let mut net = Net::new();
        let dir = scratch();
        let (set, config) = (dir.path().join("set.toml"), dir.path().join("config.toml"));
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<String>>();
        let (set_arg, config_arg) = (set.display().to_string(), config.display().to_string());
        let disk = (shape.small_disk > 0).then(|| SmallDisk::new(dir.path(), "s1-disk", shape.small_disk));
        let mut nodes = |set: &str, (store, alloc): (&str, &str)| {
            let mut stores = Vec::new();
            for id in 1..=shape.stores {
                let (name, id) = (format!("{store}{id}"), id.to_string());
                let data = match &disk {
                    Some(disk) if name == "s1" => disk.path.join("data"),
                    _ => dir.path().join(&name),
                };
                let data = data.display().to_string();
                let args = words(&["store", "--set", set, "--id", &id, "--data", &data, "--config", &config_arg]);
                stores.push(Node::new(&name, net.host(&name), STORE_PORT, args, dir.path()));
            }
            let mut allocs = Vec::new();
            for number in 1..=shape.allocs {
                let name = format!("{alloc}{number}");
                let args = words(&["alloc", "--set", set, "--name", &name, "--cores", "1", "--config", &config_arg]);
                allocs.push(Node::new(&name, net.host(&name), ALLOC_PORT, args, dir.path()));
            }
            (stores, allocs)
        };
        let (stores, allocs) = nodes(&set_arg, ("s", "a"));
        let other_set = dir.path().join("other.toml");
        let other = if shape.two_sets {
            let (stores, allocs) = nodes(&other_set.display().to_string(), ("t", "b"));
            OtherSet { stores, allocs }
        } else {
            OtherSet::default()
        };
        if let Some(apart) = shape.apart {
            let hosts: Vec<Host> = stores.iter().map(|node| node.host.clone()).collect();
            net.delay_packets(&hosts, apart.round_trip);
        }
        let preset = if shape.apart.is_some_and(|apart| apart.wan) { "preset = \"wan\"\n" } else { "" };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let cluster = Cluster { stores, allocs, other, disk, net, shape, runtime, dir };
        fs::write(&set, cluster.set_file(SET)).unwrap();
        if shape.two_sets {
            fs::write(&other_set, cluster.other_set_file()).unwrap();
        }
        fs::write(&config, format!("{STORE_SETTINGS}{preset}")).unwrap();
        cluster
    }

    /// Writes a settings file for skewed nodes: like that of all nodes, with another lease and wait.
    pub(crate) fn skewed_settings(&self, lease: Duration, wait: Duration) -> PathBuf {
        let (lease, wait) = (lease.as_millis(), wait.as_millis());
        let file = self.path(&format!("skewed-{lease}-{wait}.toml"));
        let text = format!("{STORE_SETTINGS}lease_wait_ms = {wait}\n[alloc]\nlease_ms = {lease}\n");
        fs::write(&file, text).unwrap();
        file
    }

    /// Writes a settings file for stores that hand sections over only once the live nodes have been the same for the
    /// default time.
    pub(crate) fn steady_settings(&self) -> PathBuf {
        let file = self.path("steady.toml");
        fs::write(&file, STORE_SETTINGS.replace("rebalance_after_ms = 1000\n", "")).unwrap();
        file
    }

    /// Adds lines to the settings file of all nodes.
    pub(crate) fn add_settings(&self, lines: &str) {
        let text = fs::read_to_string(self.settings()).unwrap();
        fs::write(self.settings(), text + lines).unwrap();
    }

    /// Creates a keyspace, once the cluster can, and returns the section of its first bucket.
    pub(crate) fn create_keyspace(&self) -> u32 {
        let set = self.path("set.toml").display().to_string();
        let args = ["keyspace", "create", KEYSPACE, "--yes", "-o", "json", "--set", &set];
        let text = eventually("the keyspace is created", || seqsvr(&args).ok());
        let made: Value = serde_json::from_str(&text).unwrap();
        u32::try_from(made["keyspace"]["first_section"].as_u64().unwrap()).unwrap()
    }

    /// Returns the path of the settings file of all nodes.
    pub(crate) fn settings(&self) -> PathBuf {
        self.path("config.toml")
    }

    /// Starts a set, and waits until every section has an owner.
    pub(crate) fn start(shape: Shape) -> Cluster {
        let mut cluster = Cluster::prepare(shape);
        cluster.start_all();
        cluster
    }

    /// Starts every process and waits until every section has an owner.
    pub(crate) fn start_all(&mut self) {
        self.stores.iter_mut().chain(&mut self.allocs).for_each(Node::start);
        if self.shape.two_sets {
            self.other.stores.iter_mut().chain(&mut self.other.allocs).for_each(Node::start);
            self.join_other_set();
        }
        eventually("every section has an owner", || {
            let owners = self.owners();
            (!owners.is_empty() && owners.iter().all(|owner| !owner.is_empty())).then_some(())
        });
    }

    /// Returns the text of the set file of a cluster with this name on these hosts.
    pub(crate) fn set_file(&self, name: &str) -> String {
        let cluster = if self.shape.two_sets { "cluster = \"chaos\"\n" } else { "" };
        self.set_text(name, cluster, &self.stores, &self.allocs)
    }

    fn other_set_file(&self) -> String {
        let cluster = "cluster = \"chaos\"\ngenesis = \"create\"\n";
        self.set_text(OTHER_SET, cluster, &self.other.stores, &self.other.allocs)
    }

    fn set_text(&self, name: &str, cluster: &str, stores: &[Node], allocs: &[Node]) -> String {
        let uids = u64::from(self.shape.sections) * u64::from(SECTION_SIZE);
        let mut text =
            format!("name = \"{name}\"\n{cluster}uids = \"0..{uids}\"\nsection_size = {SECTION_SIZE}\nstep = {STEP}\n");
        // Plaintext is safe here, because the hosts are namespaces of this machine.
        text += "plaintext = true\nplaintext_on_network = true\n";
        for (index, node) in stores.iter().enumerate() {
            let (id, name, addr, ip) = (index + 1, &node.name, &node.addr, node.host.ip);
            let http = format!("{ip}:{HTTP_PORT}");
            let admin = format!("{ip}:{ADMIN_PORT}");
            writeln!(text, "[[store]]\nid = {id}\nname = \"{name}\"\naddr = \"{addr}\"").unwrap();
            writeln!(text, "raft = \"{ip}:{RAFT_PORT}\"\nadmin = \"{admin}\"\nhttp = \"{http}\"").unwrap();
        }
        for node in allocs {
            let (name, addr, ip) = (&node.name, &node.addr, node.host.ip);
            writeln!(text, "[[alloc]]\nname = \"{name}\"\naddr = \"{addr}\"").unwrap();
            writeln!(text, "peer = \"{ip}:{PEER_PORT}\"\nhttp = \"{ip}:{HTTP_PORT}\"").unwrap();
        }
        text
    }

    /// Creates an allocator with its own set file on a new host; `text` makes the set file from the host's address.
    pub(crate) fn outsider(&mut self, host: &str, name: &str, text: impl FnOnce(&Cluster, &str) -> String) -> Node {
        let host_on_net = self.net.host(host);
        let set = self.path(&format!("{host}.toml"));
        fs::write(&set, text(self, &host_on_net.ip.to_string())).unwrap();
        let args = ["alloc", "--set", &set.display().to_string(), "--name", name, "--cores", "1"];
        Node::new(host, host_on_net, ALLOC_PORT, args.iter().map(ToString::to_string).collect(), self.dir.path())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the addresses that clients start from.
    pub(crate) fn seeds(&self) -> Vec<String> {
        self.allocs.iter().map(|node| node.addr.clone()).collect()
    }

    /// Returns the index of the leading store: the member of the newest term whose status names itself.
    pub(crate) fn leader(&self) -> Option<usize> {
        self.leader_of(&self.stores)
    }

    /// Returns the index of the leader of these stores.
    pub(crate) fn leader_of(&self, stores: &[Node]) -> Option<usize> {
        let leads = |(index, node): (usize, &Node)| {
            let status = self.store_status(node)?;
            (status.leader == status.id).then_some((status.term, index))
        };
        stores.iter().enumerate().filter_map(leads).max().map(|(_, index)| index)
    }

    /// Waits until a store leads; returns its index.
    pub(crate) fn wait_leader(&self) -> usize {
        eventually("a store leads", || self.leader())
    }

    /// Drops the requests of all other stores and allocators to a store. Its own requests still get responses, so a
    /// leader keeps its leadership.
    pub(crate) fn deafen(&self, store: usize) {
        let target = &self.stores[store].host;
        let others = self.stores.iter().chain(&self.allocs).filter(|node| node.host.ip != target.ip);
        for node in others {
            for port in [STORE_PORT, RAFT_PORT] {
                self.net.refuse_connections(&node.host, target, port);
            }
        }
    }

    /// Drops this percentage of the packets between stores.
    pub(crate) fn lose_between_stores(&self, percent: u32) {
        self.net.lose_packets(&self.store_hosts(), percent);
    }

    /// Returns the number of dropped packets between stores.
    pub(crate) fn lost_between_stores(&self) -> u64 {
        self.net.lost_packets(&self.store_hosts())
    }

    fn store_hosts(&self) -> Vec<Host> {
        self.stores.iter().map(|node| node.host.clone()).collect()
    }

    /// Returns the raises of all allocators so far, by their metric.
    pub(crate) fn raises(&self) -> Raises {
        let mut raises = Raises::default();
        for node in &self.allocs {
            let text = metrics(node.host.ip);
            for line in text.lines().filter_map(|line| line.strip_prefix("seqsvr_ceiling_raise_seconds_")) {
                let (name, value) = line.rsplit_once(' ').expect("a sample has a value");
                let value: f64 = value.parse().expect("a number");
                if name.starts_with("sum{") {
                    raises.seconds += value;
                } else if let Some(le) = name.split("le=\"").nth(1).and_then(|rest| rest.split('"').next()) {
                    let ms = le.parse().map_or(u64::MAX, |seconds: f64| (seconds * 1e3).ceil() as u64);
                    *raises.within_ms.entry(ms).or_default() += value as u64;
                }
            }
        }
        raises
    }

    /// Returns the values of a gauge or a counter of all running allocators of the first set, by its metric.
    pub(crate) fn gauges(&mut self, name: &str) -> Vec<f64> {
        let running = self.allocs.iter_mut().filter_map(|node| node.is_running().then_some(node.host.ip));
        let samples = |text: String| -> f64 {
            let values = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{')?.rsplit_once(' '));
            values.map(|(_, value)| value.parse::<f64>().expect("a number")).sum()
        };
        running.map(|ip| samples(metrics(ip))).collect()
    }

    /// Returns the newest term of the stores.
    pub(crate) fn term(&self) -> u64 {
        let term = |node: &Node| self.store_status(node).map(|status| status.term);
        eventually("a store responds with its term", || self.stores.iter().filter_map(term).max())
    }

    /// Returns the uptime of a node, by its own clock.
    pub(crate) fn uptime(&self, addr: &str) -> Duration {
        let query = || async {
            let mut client = StatusServiceClient::new(channel(addr));
            client.status(v1::StatusRequest {}).await
        };
        Duration::from_millis(eventually("the node responds", || self.within(query())).uptime_ms)
    }

    /// Returns the status of a store; `None` without a response.
    pub(crate) fn store_status(&self, node: &Node) -> Option<v1::StoreStatus> {
        let query = async {
            let mut client = StatusServiceClient::new(channel(&node.addr));
            client.status(v1::StatusRequest {}).await
        };
        match self.within(query)?.role? {
            Role::Store(status) => Some(status),
            Role::Alloc(_) => None,
        }
    }

    /// Returns the largest index that any of these stores has applied.
    pub(crate) fn applied(&self, stores: &[usize]) -> u64 {
        let status = |index: &usize| self.store_status(&self.stores[*index]);
        stores.iter().filter_map(status).map(|status| status.applied_index).max().unwrap_or(0)
    }

    /// Returns the name of each section's owner, from the newest table of each set that an allocator has; the name is
    /// empty if no table has the section.
    pub(crate) fn owners(&self) -> Vec<String> {
        self.ownerships().into_iter().map(|(_, owner)| owner).collect()
    }

    /// Returns the epoch and the owner of each section of uids, as [`Cluster::owners`] does.
    pub(crate) fn ownerships(&self) -> Vec<(u64, String)> {
        self.ownerships_of(0..self.shape.sections as usize)
    }

    /// Returns the epoch and the owner of each of these sections, as [`Cluster::owners`] does.
    pub(crate) fn ownerships_of(&self, range: Range<usize>) -> Vec<(u64, String)> {
        let tables = [&self.allocs, &self.other.allocs].map(|allocs| {
            let tables = allocs.iter().filter_map(|node| {
                let query = async {
                    let mut client = SequenceServiceClient::new(channel(&node.addr));
                    client.get_routes(v1::GetRoutesRequest { known_version: 0 }).await
                };
                self.within(query)?.routes.into_iter().next()
            });
            tables.max_by_key(|table| table.version)
        });
        let mut owners = vec![(0, String::new()); range.len()];
        for table in tables.iter().flatten() {
            for run in table.runs.iter().chain(&table.lane_runs) {
                let name = table.nodes.iter().find(|node| node.id == run.owner).map_or("", |node| &*node.name);
                let place = |section: u32| (section as usize).clamp(range.start, range.end) - range.start;
                let places = place(run.first_section)..place(run.first_section + run.sections);
                let older = owners[places].iter_mut().filter(|(epoch, _)| *epoch <= run.epoch);
                older.for_each(|owner| *owner = (run.epoch, name.to_owned()));
            }
        }
        owners
    }

    /// Returns the newest incarnation of an allocator that a store knows.
    pub(crate) fn incarnation(&self, alloc: usize) -> u64 {
        let name = &self.allocs[alloc].name;
        let statuses = self.stores.iter().filter_map(|store| self.store_status(store));
        let known = statuses.flat_map(|status| status.allocs).filter(|node| node.name == *name);
        known.map(|node| node.incarnation).max().unwrap_or(0)
    }

    /// Returns the number of deaths that the stores have noted, by their metric.
    pub(crate) fn deaths_noted(&self) -> u64 {
        let noted = |store: &Node| {
            let text = metrics(store.host.ip);
            let samples = text.lines().filter(|line| line.starts_with("seqsvr_deaths_reported_total{"));
            let value = |line: &str| line.rsplit(' ').next()?.parse::<u64>().ok();
            samples.map(|line| value(line).unwrap_or_else(|| panic!("{line}"))).sum::<u64>()
        };
        self.stores.iter().map(noted).sum()
    }

    /// Returns the events of a kind of the first set.
    pub(crate) fn events(&self, kind: &str) -> Vec<Value> {
        let set = self.path("set.toml").display().to_string();
        let text = seqsvr(&["events", "list", "--set", &set, "--kind", kind, "-o", "json"]).unwrap();
        let list: Value = serde_json::from_str(&text).unwrap();
        list["items"].as_array().unwrap().clone()
    }

    /// Returns the sections that an allocator owns.
    pub(crate) fn sections_of(&self, alloc: usize) -> Vec<usize> {
        let name = &self.allocs[alloc].name;
        self.owners().iter().enumerate().filter(|(_, owner)| *owner == name).map(|(section, _)| section).collect()
    }

    /// Sends an operator's request to the leader of a set's store: to each member in turn, until one responds.
    pub(crate) fn set_admin<A>(
        &self,
        stores: &[Node],
        call: impl AsyncFn(SetAdminServiceClient<Channel>) -> Result<tonic::Response<A>, tonic::Status>,
    ) -> Result<A, tonic::Status> {
        let mut last = tonic::Status::unavailable("no member");
        for node in stores {
            let response = self.runtime.block_on(async {
                let admin = channel(&format!("{}:{ADMIN_PORT}", node.host.ip));
                tokio::time::timeout(ADMIN_TIMEOUT, call(SetAdminServiceClient::new(admin))).await
            });
            match response {
                Ok(Ok(response)) => return Ok(response.into_inner()),
                Ok(Err(status)) => last = status,
                Err(_) => {}
            }
        }
        Err(last)
    }

    /// Lets the second set join the cluster of the first set, and waits until both know each other.
    fn join_other_set(&self) {
        let join: Vec<String> = self.stores.iter().map(|node| node.addr.clone()).collect();
        let request = v1::CreateSetRequest { name: OTHER_SET.to_owned(), join };
        let create = async |mut client: SetAdminServiceClient<Channel>| client.create_set(request.clone()).await;
        eventually("the second set is created", || match self.set_admin(&self.other.stores, create) {
            Ok(_) => Some(()),
            Err(status) if status.code() == tonic::Code::AlreadyExists => Some(()),
            Err(_) => None,
        });
        let list = async |mut client: SetAdminServiceClient<Channel>| client.list_sets(v1::ListSetsRequest {}).await;
        for stores in [&self.stores, &self.other.stores] {
            eventually("the sets know each other", || {
                let sets = self.set_admin(stores, list).ok()?.sets;
                (sets.len() == 2 && sets.iter().all(|set| !set.allocs.is_empty())).then_some(())
            });
        }
    }

    fn within<T>(&self, query: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>) -> Option<T> {
        let response = self.runtime.block_on(async { tokio::time::timeout(QUERY_TIMEOUT, query).await });
        Some(response.ok()?.ok()?.into_inner())
    }
}

/// Runs a command. Returns its output, or its error text if it failed.
pub(crate) fn seqsvr(args: &[&str]) -> Result<String, String> {
    let output = Command::new(env!("CARGO_BIN_EXE_seqsvr")).args(args).stdin(Stdio::null()).output().unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    if output.status.success() { Ok(stdout) } else { Err(stdout + &stderr) }
}

/// Creates a connection for one query.
fn channel(addr: &str) -> Channel {
    Endpoint::from_shared(format!("http://{addr}")).unwrap().connect_timeout(QUERY_TIMEOUT).connect_lazy()
}

/// Returns the metrics of a process.
fn metrics(ip: Ipv4Addr) -> String {
    let mut connection = TcpStream::connect((ip, HTTP_PORT)).expect("the metrics port accepts");
    connection.write_all(b"GET /metrics HTTP/1.1\r\nhost: chaos\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    connection.read_to_string(&mut text).unwrap();
    text
}
