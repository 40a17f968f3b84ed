//! A set of real processes, each on a host of its own, and what they say of themselves.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use seq_proto::v1;
use seq_proto::v1::admin_service_client::AdminServiceClient;
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use seq_proto::v1::status_response::Role;
use tonic::transport::{Channel, Endpoint};

use crate::machine::eventually;
use crate::net::{Host, Net, scratch};
use crate::node::{Node, SmallDisk};

const STORE_PORT: u16 = 7300;
const ALLOC_PORT: u16 = 7400;
const HTTP_PORT: u16 = 7480;

/// Uids of a section.
pub(crate) const SECTION_SIZE: u32 = 10_000;

/// How far a ceiling is raised: so little that the store is asked all the time.
pub(crate) const STEP: u64 = 400;

/// Snapshots come often, so that a member that was away needs one sometimes.
const STORE_SETTINGS: &str = "[store]\nsnapshot_every = 2000\nlog_kept = 200\nrebalance_after_ms = 1000\n";

/// How long a node may take to say how it is.
const LOOK_DEADLINE: Duration = Duration::from_millis(300);

/// How large a set is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) stores: u64,
    pub(crate) allocs: u32,
    pub(crate) sections: u32,
    /// Megabytes of the disk of the first store; 0: it lies with all others.
    pub(crate) small_disk: u64,
    /// How far the stores are from each other; `None`: as near as all others.
    pub(crate) apart: Option<Apart>,
}

/// How long raises took.
#[derive(Clone, Debug, Default)]
pub(crate) struct Raises {
    /// How many took so many milliseconds at the most, by the bounds of the metric's buckets.
    within_ms: BTreeMap<u64, u64>,
    seconds: f64,
}

impl Raises {
    /// Those that came after an earlier reading.
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

    /// Milliseconds within which this share of the raises lies: the bound of a bucket.
    pub(crate) fn within_ms(&self, share: f64) -> u64 {
        let needed = self.count() as f64 * share;
        self.within_ms.iter().find(|(_, count)| **count as f64 >= needed).map_or(0, |(ms, _)| *ms)
    }
}

/// Stores that are far from each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Apart {
    pub(crate) round_trip: Duration,
    /// Whether all nodes have `store.preset = "wan"`.
    pub(crate) wan: bool,
}

impl Shape {
    pub(crate) const USUAL: Shape = Shape { stores: 3, allocs: 3, sections: 12, small_disk: 0, apart: None };
}

/// A running set. What is declared first is dropped first: processes, disks, network, files.
pub(crate) struct Cluster {
    pub(crate) stores: Vec<Node>,
    pub(crate) allocs: Vec<Node>,
    pub(crate) disk: Option<SmallDisk>,
    pub(crate) net: Net,
    pub(crate) shape: Shape,
    runtime: tokio::runtime::Runtime,
    dir: tempfile::TempDir,
}

impl Cluster {
    /// Makes the network and the files; nothing runs yet.
    pub(crate) fn prepare(shape: Shape) -> Cluster {
        let mut net = Net::new();
        let dir = scratch();
        let (set, config) = (dir.path().join("set.toml"), dir.path().join("config.toml"));
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<String>>();
        let (set_arg, config_arg) = (set.display().to_string(), config.display().to_string());
        let disk = (shape.small_disk > 0).then(|| SmallDisk::new(dir.path(), "s1-disk", shape.small_disk));
        let mut stores = Vec::new();
        for id in 1..=shape.stores {
            let (name, id) = (format!("s{id}"), id.to_string());
            let data = match &disk {
                Some(disk) if id == "1" => disk.path.join("data"),
                _ => dir.path().join(&name),
            };
            let data = data.display().to_string();
            let args = words(&["store", "--set", &set_arg, "--id", &id, "--data", &data, "--config", &config_arg]);
            stores.push(Node::new(&name, net.host(&name), STORE_PORT, args, dir.path()));
        }
        let mut allocs = Vec::new();
        for number in 1..=shape.allocs {
            let name = format!("a{number}");
            let args = words(&["alloc", "--set", &set_arg, "--name", &name, "--cores", "1", "--config", &config_arg]);
            allocs.push(Node::new(&name, net.host(&name), ALLOC_PORT, args, dir.path()));
        }
        if let Some(apart) = shape.apart {
            let hosts: Vec<Host> = stores.iter().map(|node| node.host.clone()).collect();
            net.put_apart(&hosts, apart.round_trip);
        }
        let preset = if shape.apart.is_some_and(|apart| apart.wan) { "preset = \"wan\"\n" } else { "" };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let cluster = Cluster { stores, allocs, disk, net, shape, runtime, dir };
        fs::write(&set, cluster.set_file("chaos")).unwrap();
        fs::write(&config, format!("{STORE_SETTINGS}{preset}")).unwrap();
        cluster
    }

    /// A file of settings like that of all nodes, with one lease and wait of its own.
    pub(crate) fn skewed_settings(&self, lease: Duration, wait: Duration) -> PathBuf {
        let (lease, wait) = (lease.as_millis(), wait.as_millis());
        let file = self.path(&format!("skewed-{lease}-{wait}.toml"));
        let text = format!("{STORE_SETTINGS}lease_wait_ms = {wait}\n[alloc]\nlease_ms = {lease}\n");
        fs::write(&file, text).unwrap();
        file
    }

    /// The settings of all nodes.
    pub(crate) fn settings(&self) -> PathBuf {
        self.path("config.toml")
    }

    /// A set whose every section is served.
    pub(crate) fn start(shape: Shape) -> Cluster {
        let mut cluster = Cluster::prepare(shape);
        cluster.start_all();
        cluster
    }

    /// Starts every process and waits until every section has an owner.
    pub(crate) fn start_all(&mut self) {
        self.stores.iter_mut().chain(&mut self.allocs).for_each(Node::start);
        eventually("every section has an owner", || {
            let owners = self.owners();
            (!owners.is_empty() && owners.iter().all(|owner| !owner.is_empty())).then_some(())
        });
    }

    /// The set file of a cluster of this name on these hosts.
    pub(crate) fn set_file(&self, name: &str) -> String {
        let uids = u64::from(self.shape.sections) * u64::from(SECTION_SIZE);
        let mut text =
            format!("name = \"{name}\"\nuids = \"0..{uids}\"\nsection_size = {SECTION_SIZE}\nstep = {STEP}\n");
        for (index, node) in self.stores.iter().enumerate() {
            let (id, name, addr, ip) = (index + 1, &node.name, &node.addr, node.host.ip);
            let http = format!("{ip}:{HTTP_PORT}");
            writeln!(text, "[[store]]\nid = {id}\nname = \"{name}\"\naddr = \"{addr}\"\nhttp = \"{http}\"").unwrap();
        }
        for node in &self.allocs {
            let (name, addr, ip) = (&node.name, &node.addr, node.host.ip);
            writeln!(text, "[[alloc]]\nname = \"{name}\"\naddr = \"{addr}\"\nhttp = \"{ip}:{HTTP_PORT}\"").unwrap();
        }
        text
    }

    /// An allocator of some set file on a new host. `text` is given the host's address.
    pub(crate) fn stranger(&mut self, host: &str, name: &str, text: impl FnOnce(&Cluster, &str) -> String) -> Node {
        let place = self.net.host(host);
        let set = self.path(&format!("{host}.toml"));
        fs::write(&set, text(self, &place.ip.to_string())).unwrap();
        let args = ["alloc", "--set", &set.display().to_string(), "--name", name, "--cores", "1"];
        Node::new(host, place, ALLOC_PORT, args.iter().map(ToString::to_string).collect(), self.dir.path())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Where callers begin.
    pub(crate) fn seeds(&self) -> Vec<String> {
        self.allocs.iter().map(|node| node.addr.clone()).collect()
    }

    /// The store that leads, by its index: the member of the newest term that says so itself.
    pub(crate) fn leader(&self) -> Option<usize> {
        let leads = |(index, node): (usize, &Node)| {
            let status = self.store_status(node)?;
            (status.leader == status.id).then_some((status.term, index))
        };
        self.stores.iter().enumerate().filter_map(leads).max().map(|(_, index)| index)
    }

    /// Waits for a store that leads.
    pub(crate) fn wait_leader(&self) -> usize {
        eventually("a store leads", || self.leader())
    }

    /// No other store and no allocator gets an answer at a store's port any more. What it sends itself is answered, so it
    /// stays the leader where it leads.
    pub(crate) fn deafen(&self, store: usize) {
        let deaf = &self.stores[store].host;
        let others = self.stores.iter().chain(&self.allocs).filter(|node| node.host.ip != deaf.ip);
        others.for_each(|node| self.net.refuse_connections(&node.host, deaf, STORE_PORT));
    }

    /// So many percent of the packets between stores are lost, from now on.
    pub(crate) fn lose_between_stores(&self, percent: u32) {
        self.net.lose_packets(&self.store_hosts(), percent);
    }

    /// How many packets between stores were lost since then.
    pub(crate) fn lost_between_stores(&self) -> u64 {
        self.net.lost_packets(&self.store_hosts())
    }

    fn store_hosts(&self) -> Vec<Host> {
        self.stores.iter().map(|node| node.host.clone()).collect()
    }

    /// The raises of all allocators so far, by their metric.
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

    /// The newest term that a store names.
    pub(crate) fn term(&self) -> u64 {
        let term = |node: &Node| self.store_status(node).map(|status| status.term);
        eventually("a store names its term", || self.stores.iter().filter_map(term).max())
    }

    /// How long a node runs, by its own clock.
    pub(crate) fn uptime(&self, addr: &str) -> Duration {
        let ask = || async {
            let mut client = AdminServiceClient::new(channel(addr));
            client.status(v1::StatusRequest {}).await
        };
        Duration::from_millis(eventually("the node answers", || self.within(ask())).uptime_ms)
    }

    /// What a store says of itself; `None` while it does not answer.
    pub(crate) fn store_status(&self, node: &Node) -> Option<v1::StoreStatus> {
        let ask = async {
            let mut client = AdminServiceClient::new(channel(&node.addr));
            client.status(v1::StatusRequest {}).await
        };
        match self.within(ask)?.role? {
            Role::Store(status) => Some(status),
            Role::Alloc(_) => None,
        }
    }

    /// The largest index that any of the stores named has applied.
    pub(crate) fn applied(&self, stores: &[usize]) -> u64 {
        let status = |index: &usize| self.store_status(&self.stores[*index]);
        stores.iter().filter_map(status).map(|status| status.applied_index).max().unwrap_or(0)
    }

    /// The name of each section's owner, from the newest table that an allocator has; empty where there is none.
    pub(crate) fn owners(&self) -> Vec<String> {
        let tables = self.allocs.iter().filter_map(|node| {
            let ask = async {
                let mut client = SequenceServiceClient::new(channel(&node.addr));
                client.get_routes(v1::GetRoutesRequest { known_version: 0 }).await
            };
            self.within(ask)?.routes.into_iter().next()
        });
        let Some(table) = tables.max_by_key(|table| table.version) else { return Vec::new() };
        let mut owners = vec![String::new(); self.shape.sections as usize];
        for run in &table.runs {
            let name = table.nodes.iter().find(|node| node.id == run.owner).map_or("", |node| &*node.name);
            let sections = run.first_section as usize..(run.first_section + run.sections) as usize;
            owners[sections].fill(name.to_owned());
        }
        owners
    }

    /// The sections that an allocator owns.
    pub(crate) fn sections_of(&self, alloc: usize) -> Vec<usize> {
        let name = &self.allocs[alloc].name;
        self.owners().iter().enumerate().filter(|(_, owner)| *owner == name).map(|(section, _)| section).collect()
    }

    fn within<T>(&self, ask: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>) -> Option<T> {
        let answer = self.runtime.block_on(async { tokio::time::timeout(LOOK_DEADLINE, ask).await });
        Some(answer.ok()?.ok()?.into_inner())
    }
}

/// A connection for one question.
fn channel(addr: &str) -> Channel {
    Endpoint::from_shared(format!("http://{addr}")).unwrap().connect_timeout(LOOK_DEADLINE).connect_lazy()
}

/// The metrics of a process.
fn metrics(ip: Ipv4Addr) -> String {
    let mut connection = TcpStream::connect((ip, HTTP_PORT)).expect("the metrics port answers");
    connection.write_all(b"GET /metrics HTTP/1.1\r\nhost: chaos\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    connection.read_to_string(&mut text).unwrap();
    text
}
