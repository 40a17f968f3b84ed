//! A set of real processes for a row, on a loopback address of its own.

use std::fmt::Write;
use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use seq_core::keyspace::BUCKETS;
use seq_testkit::eventually;
use serde_json::Value;

pub(crate) use crate::place::{Place, Server};
use crate::proxy::Proxy;

/// Ports of the first node of each kind; the next nodes have the next ports.
const STORE: u16 = 7301;
const RAFT: u16 = 7321;
const STORE_HTTP: u16 = 7341;
const ADMIN: u16 = 7361;
const ALLOC: u16 = 7401;
const PEER: u16 = 7421;
const ALLOC_HTTP: u16 = 7441;
/// Ports at which allocators behind proxies listen.
const BEHIND: u16 = 7461;

/// Sections of a set, and uids of a section.
pub(crate) const SECTIONS: u64 = 10;
pub(crate) const SECTION_SIZE: u64 = 10_000;

/// Number of the nodes and kind of the set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) stores: u16,
    pub(crate) allocs: u16,
    /// Step of the ceilings.
    pub(crate) step: u64,
    /// Whether the nodes have TLS.
    pub(crate) tls: bool,
    /// Whether the routes name proxies in front of the allocators.
    pub(crate) proxies: bool,
}

impl Shape {
    pub(crate) const USUAL: Shape = Shape { stores: 1, allocs: 2, step: 10_000, tls: false, proxies: false };
}

/// A running set.
pub(crate) struct Cluster {
    pub(crate) proxies: Vec<Proxy>,
    pub(crate) stores: Vec<Server>,
    pub(crate) allocs: Vec<Server>,
    pub(crate) set: String,
    shape: Shape,
    /// Buckets of the keyspaces that were created.
    buckets: u64,
    /// Last, so that the logs are still there when the servers are dropped.
    pub(crate) place: Place,
}

impl Cluster {
    /// Starts the processes, and waits until each allocator owns its share of the sections.
    pub(crate) fn start(shape: Shape) -> Cluster {
        Cluster::start_with(shape, |_| String::new())
    }

    /// Works like [`Cluster::start`]. `tenants` makes the file of the tenants after the certificates exist; without
    /// tenants, the text is empty.
    pub(crate) fn start_with(shape: Shape, tenants: impl FnOnce(&Place) -> String) -> Cluster {
        let place = Place::new();
        let set = place.path("set.toml");
        fs::write(&set, set_file(&place, shape)).unwrap();
        let set = set.display().to_string();
        if shape.tls {
            let issued = place.seqsvr(&["cert", "issue", "--set", &set, "client/backend"]);
            assert!(issued.status.success(), "{}", String::from_utf8_lossy(&issued.stderr));
        }
        // A node that is back soon gets its share of the sections again.
        let (text, mut settings) = (tenants(&place), "[store]\nrebalance_after_ms = 1_000\n".to_owned());
        if !text.is_empty() {
            fs::write(place.path("tenants.toml"), text).unwrap();
            writeln!(settings, "[tenants]\nfile = \"{}\"", place.path("tenants.toml").display()).unwrap();
        }
        fs::write(place.path("settings.toml"), settings).unwrap();
        let (proxies, stores, allocs) = (Vec::new(), Vec::new(), Vec::new());
        let mut cluster = Cluster { proxies, stores, allocs, set, shape, buckets: 0, place };
        cluster.stores = (0..shape.stores).map(|index| cluster.store(index)).collect();
        for index in 0..shape.allocs {
            if shape.proxies {
                let [listen, node] = [ALLOC, BEHIND].map(|port| cluster.addr(port + index));
                cluster.proxies.push(Proxy::start(listen, node));
            }
            let alloc = cluster.alloc(index);
            cluster.allocs.push(alloc);
        }
        cluster.wait_shared();
        cluster
    }

    fn store(&self, index: u16) -> Server {
        let (id, name) = ((index + 1).to_string(), format!("s{}", index + 1));
        let data = self.place.path(&name).display().to_string();
        let config = self.config();
        let args = ["store", "--set", &self.set, "--id", &id, "--data", &data, "--config", &config];
        // A member without others forms its store only with `--form`.
        let form: &[&str] = if self.shape.stores == 1 { &["--form"] } else { &[] };
        self.place.server(&name, &[&args[..], form].concat())
    }

    fn alloc(&self, index: u16) -> Server {
        let (name, config) = (format!("a{}", index + 1), self.config());
        let args = ["alloc", "--set", &self.set, "--name", &name, "--cores", "1", "--config", &config];
        self.place.server(&name, &args)
    }

    fn config(&self) -> String {
        self.place.path("settings.toml").display().to_string()
    }

    /// Starts an allocator again, whose process has ended.
    pub(crate) fn restart(&mut self, index: u16) {
        self.allocs[usize::from(index)] = self.alloc(index);
    }

    /// Waits until the sections are shared evenly among all allocators, of a cluster without keyspaces.
    pub(crate) fn wait_shared(&self) {
        let share = SECTIONS / u64::from(self.shape.allocs);
        eventually("each allocator owns its share of the sections", || {
            let sections = self.sections();
            let total: u64 = sections.iter().sum();
            let is_shared = total == SECTIONS && sections.iter().all(|sections| *sections >= share);
            (is_shared && sections.len() == usize::from(self.shape.allocs)).then_some(())
        });
    }

    /// Creates a keyspace, and waits until its buckets have owners.
    pub(crate) fn create_keyspace(&mut self, name: &str) {
        self.command(&["keyspace", "create", name, "--yes"]);
        self.buckets += u64::from(BUCKETS);
        self.wait_owning();
    }

    /// Waits until every section and bucket has an owner, and each allocator owns some.
    pub(crate) fn wait_owning(&self) {
        let total = SECTIONS + self.buckets;
        eventually("each allocator owns sections", || {
            let sections = self.sections();
            let is_owning = sections.iter().sum::<u64>() == total && sections.iter().all(|sections| *sections > 0);
            (is_owning && sections.len() == usize::from(self.shape.allocs)).then_some(())
        });
    }

    /// Returns the number of sections of each allocator, by the records of the store; empty if it does not respond.
    fn sections(&self) -> Vec<u64> {
        let output = self.place.seqsvr(&["node", "list", "--set", &self.set, "-o", "json"]);
        let list: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let nodes = list["nodes"].as_array().into_iter().flatten();
        nodes.filter_map(|node| node["sections"].as_u64()).collect()
    }

    /// Returns the addresses of the allocators as seeds.
    pub(crate) fn seeds(&self) -> Vec<String> {
        (0..self.shape.allocs).map(|index| self.url(ALLOC + index)).collect()
    }

    /// Returns the address of a store as a seed, which it is not.
    pub(crate) fn store_url(&self) -> String {
        self.url(STORE)
    }

    /// Returns the address of an allocator for callers.
    pub(crate) fn alloc_addr(&self) -> SocketAddr {
        self.addr(ALLOC)
    }

    fn addr(&self, port: u16) -> SocketAddr {
        (self.place.host, port).into()
    }

    fn url(&self, port: u16) -> String {
        format!("{}://{}:{port}", if self.shape.tls { "https" } else { "http" }, self.place.host)
    }

    /// Returns one uid of each section.
    pub(crate) fn uids(&self) -> Vec<u64> {
        (0..SECTIONS).map(|section| section * SECTION_SIZE + 7).collect()
    }

    /// Returns the number of uids.
    pub(crate) fn uid_count(&self) -> u64 {
        SECTIONS * SECTION_SIZE
    }

    /// Runs a command for operators, which must succeed.
    pub(crate) fn command(&self, args: &[&str]) {
        let output = self.place.seqsvr(&[args, &["--set", &self.set]].concat());
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Returns the sum of a metric of all allocators, over all its labels.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        (0..self.shape.allocs).map(|index| self.metric_of(ALLOC_HTTP + index, name)).sum()
    }

    /// Waits until every process has read its certificate files again after `rotate` has changed them.
    pub(crate) fn wait_reloaded(&self, rotate: impl FnOnce()) {
        let Shape { stores, allocs, .. } = self.shape;
        let ports: Vec<u16> =
            (0..stores).map(|index| STORE_HTTP + index).chain((0..allocs).map(|index| ALLOC_HTTP + index)).collect();
        let loaded = |port: &u16| self.metric_of(*port, "seqsvr_certificate_reloads_total");
        let before: Vec<f64> = ports.iter().map(loaded).collect();
        rotate();
        eventually("all nodes have read the new files", || {
            ports.iter().zip(&before).all(|(port, before)| loaded(port) > *before).then_some(())
        });
    }

    /// Returns the sum of a metric of one process, over all its labels.
    fn metric_of(&self, port: u16, name: &str) -> f64 {
        let mut curl = Command::new("curl");
        curl.args([
            "--silent",
            "--show-error",
            "--insecure",
            "--max-time",
            "10",
            &format!("{}/metrics", self.url(port)),
        ]);
        let output = curl.output().expect("curl is installed");
        let text = String::from_utf8(output.stdout).expect("metrics are text");
        let lines = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).fold(0.0, |sum, value| sum + value)
    }
}

fn set_file(place: &Place, shape: Shape) -> String {
    let (host, Shape { stores, allocs, step, tls, proxies, .. }) = (place.host, shape);
    let uids = SECTIONS * SECTION_SIZE;
    let mut text = format!(
        "name = \"im-a\"\ncluster = \"conformance\"\nuids = \"0..{uids}\"\nsection_size = {SECTION_SIZE}\nstep = {step}\n\
         plaintext = {}\n",
        !tls
    );
    for index in 0..stores {
        let [addr, raft, http, admin] = [STORE, RAFT, STORE_HTTP, ADMIN].map(|port| format!("{host}:{}", port + index));
        let id = index + 1;
        writeln!(text, "[[store]]\nid = {id}\nname = \"s{id}\"\naddr = \"{addr}\"\nraft = \"{raft}\"").unwrap();
        writeln!(text, "http = \"{http}\"\nadmin = \"{admin}\"").unwrap();
    }
    for index in 0..allocs {
        let [addr, peer, http] = [ALLOC, PEER, ALLOC_HTTP].map(|port| format!("{host}:{}", port + index));
        writeln!(text, "[[alloc]]\nname = \"a{}\"\naddr = \"{addr}\"\npeer = \"{peer}\"", index + 1).unwrap();
        writeln!(text, "http = \"{http}\"").unwrap();
        if proxies {
            writeln!(text, "listen = {{ addr = \"{host}:{}\" }}", BEHIND + index).unwrap();
        }
    }
    text
}
