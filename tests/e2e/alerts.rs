//! Alerts as their reader sees them: faults on real processes, scraped by a real Prometheus with the rules as shipped, and the
//! seconds until each alert fires and resolves.

mod allocators;
mod disks;
mod security;
mod stores;
mod writes;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cluster::{Place, Server, eventually};

/// Intervals of scrapes and evaluations, in seconds.
const INTERVAL: u64 = 1;

/// The longest that a rule takes to fire, and to resolve: some wait, or look back, for fifteen minutes.
const FIRES_WITHIN: Duration = Duration::from_secs(1_200);
const RESOLVES_WITHIN: Duration = Duration::from_secs(1_200);

/// A set with its Prometheus; all end when it is dropped.
pub(crate) struct Scene {
    stores: Vec<Option<Server>>,
    allocs: Vec<Option<Server>>,
    prometheus: Child,
    pub(crate) url: String,
    pub(crate) set: String,
    scheme: &'static str,
    place: Place,
    expected: Vec<Expected>,
}

/// An alert that is to fire.
struct Expected {
    alert: &'static str,
    fault: &'static str,
    since: Instant,
    fired: Option<Duration>,
    /// When the fault ended.
    end: Option<Instant>,
    resolved: Option<Duration>,
}

/// What scenes differ in.
pub(crate) struct Setup<'a> {
    /// Numbers between two writes of a section.
    pub(crate) step: &'a str,
    /// Stores with a disk of 4 GiB of their own, in memory.
    pub(crate) disks: &'a [u64],
    /// With TLS.
    pub(crate) secure: bool,
    /// Settings of the allocators; `DIR` is the directory of the scene.
    pub(crate) settings: &'a str,
    /// Tenants, in `DIR/tenants.toml`.
    pub(crate) tenants: &'a str,
}

impl Default for Setup<'_> {
    /// A step that lasts a moment, so that ceilings are raised often.
    fn default() -> Self {
        Setup { step: "100", disks: &[], secure: false, settings: "", tenants: "" }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.prometheus.kill();
        let _ = self.prometheus.wait();
        for store in 1..=3 {
            let data = self.data(store);
            let _ = Command::new("umount").arg("-l").arg(data).stderr(Stdio::null()).status();
        }
    }
}

impl Scene {
    pub(crate) fn start(setup: &Setup<'_>) -> Scene {
        let place = Place::new();
        let make = if setup.secure { Place::secure_set_file } else { Place::set_file };
        let set = make(&place, "three-node.toml").display().to_string();
        let scheme = if setup.secure { "https" } else { "http" };
        let text = fs::read_to_string(&set).unwrap();
        fs::write(&set, text.replace("step = 10_000", &format!("step = {}", setup.step))).unwrap();
        let (host, dir) = (place.host, place.dir.path().to_owned());
        fs::write(dir.join("settings.toml"), setup.settings.replace("DIR", &dir.display().to_string())).unwrap();
        fs::write(dir.join("tenants.toml"), setup.tenants).unwrap();
        let rules = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy/prometheus/rules");
        let ports: Vec<String> = [7311, 7312, 7313, 7480, 7481].map(|port| format!("'{host}:{port}'")).into();
        let tls = if setup.secure { "tls_config: {ca_file: certs/ca.crt}" } else { "" };
        let config = format!(
            "global: {{scrape_interval: {INTERVAL}s, evaluation_interval: {INTERVAL}s}}\nrule_files: ['{}/*.yaml']\n\
             scrape_configs:\n  - job_name: seqsvr\n    scheme: {scheme}\n    {tls}\n    static_configs: [{{targets: [{}]}}]\n",
            rules.display(),
            ports.join(", ")
        );
        fs::write(dir.join("prometheus.yaml"), config).unwrap();
        let log = File::create(dir.join("prometheus.log")).unwrap();
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", dir.join("prometheus.yaml").display()));
        command.arg(format!("--storage.tsdb.path={}", dir.join("prometheus").display()));
        command.arg(format!("--web.listen-address={host}:9090")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let prometheus = command.spawn().expect("prometheus, of the Debian package of that name");
        let url = format!("http://{host}:9090");
        let mut scene = Scene {
            stores: vec![None, None, None],
            allocs: vec![None, None],
            prometheus,
            url,
            set,
            scheme,
            place,
            expected: Vec::new(),
        };
        for store in setup.disks {
            let data = scene.data(*store);
            fs::create_dir(&data).unwrap();
            let mounted =
                Command::new("mount").args(["-t", "tmpfs", "-o", "size=4G,mode=700", "none"]).arg(&data).status();
            assert!(mounted.unwrap().success(), "a file system in memory");
        }
        (1..=3).for_each(|store| scene.start_store(store));
        (0..2).for_each(|alloc| scene.start_alloc(alloc, 1 << 16));
        let addr = scene.addr(7400);
        eventually("all targets are scraped", || (scene.query("count(up == 1)") == Some(5.0)).then_some(()));
        eventually("a number is allocated", || {
            scene.call(&["next", "1", "--addr", &addr]).status.success().then_some(())
        });
        scene
    }

    fn addr(&self, port: u16) -> String {
        format!("{}://{}:{port}", self.scheme, self.place.host)
    }

    /// A command of a caller.
    fn call(&self, args: &[&str]) -> Output {
        self.place.seqsvr_as("client/backend", args)
    }

    fn data(&self, store: u64) -> PathBuf {
        self.place.path(&format!("s{store}"))
    }

    fn start_store(&mut self, store: u64) {
        let data = self.data(store).display().to_string();
        let args = ["store", "--set", &self.set, "--id", &store.to_string(), "--data", &data];
        self.stores[store as usize - 1] = Some(self.place.server(&format!("s{store}"), &args));
    }

    fn start_alloc(&mut self, alloc: usize, files: usize) {
        let name = format!("a{}", alloc + 1);
        let settings = self.place.path("settings.toml").display().to_string();
        let args = ["alloc", "--set", &self.set, "--name", &name, "--cores", "1", "--config", &settings];
        self.allocs[alloc] = Some(self.place.server_with_files(&name, &args, files));
    }

    /// Kills an allocator, and starts it again a while later.
    pub(crate) fn restart_alloc(&mut self, alloc: usize, after: Duration) {
        self.allocs[alloc] = None;
        wait(after);
        self.start_alloc(alloc, 1 << 16);
    }

    /// Kills a store, and starts it again a while later.
    pub(crate) fn restart_store(&mut self, store: u64, after: Duration) {
        self.stores[store as usize - 1] = None;
        wait(after);
        self.start_store(store);
    }

    /// Calls of one port of allocator 1 until it is dropped.
    pub(crate) fn load_at(&self, name: &str, port: u16, args: &[&str]) -> Server {
        let addr = self.addr(port);
        self.place.server(name, &[&["bench", "--addr", &addr, "--duration-s", "3000"], args].concat())
    }

    /// Calls for so many uids of section 0 until it is dropped.
    pub(crate) fn load(&self, name: &str, args: &[&str]) -> Server {
        let (a1, a2) = (self.addr(7400), self.addr(7401));
        let common = ["bench", "--addr", &a1, "--addr", &a2, "--duration-s", "3000"];
        self.place.server(name, &[&common[..], args].concat())
    }

    /// The value of a query with one result.
    fn query(&self, query: &str) -> Option<f64> {
        let (url, query) = (format!("{}/api/v1/query", self.url), format!("query={query}"));
        let output =
            Command::new("curl").args(["-s", "--max-time", "5", &url, "--data-urlencode", &query]).output().unwrap();
        let value = serde_json::from_slice::<Value>(&output.stdout).ok()?;
        value["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    }

    /// The alerts that fire now.
    fn firing(&self) -> BTreeSet<String> {
        let url = format!("{}/api/v1/alerts", self.url);
        let output = Command::new("curl").args(["-s", "--max-time", "5", &url]).output().unwrap();
        let alerts = serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default();
        let alerts = alerts["data"]["alerts"].as_array().cloned().unwrap_or_default();
        let firing = alerts.iter().filter(|alert| alert["state"] == "firing");
        firing.map(|alert| alert["labels"]["alertname"].as_str().unwrap().to_owned()).collect()
    }

    /// Notes which alerts have fired and resolved; returns those that fire.
    fn poll(&mut self) -> BTreeSet<String> {
        std::thread::park_timeout(Duration::from_millis(500));
        let firing = self.firing();
        for expected in &mut self.expected {
            let fires = firing.contains(expected.alert);
            match (expected.fired, expected.end, expected.resolved) {
                (None, ..) if fires => expected.fired = Some(expected.since.elapsed()),
                (Some(_), Some(end), None) if !fires => expected.resolved = Some(end.elapsed()),
                _ => {}
            }
        }
        firing
    }

    /// A fault begins that these alerts are about.
    fn expect(&mut self, fault: &'static str, alerts: &[&'static str]) {
        let already = self.firing();
        let since = Instant::now();
        for alert in alerts {
            assert!(!already.contains(*alert), "{alert} fires before: {fault}");
            self.expected.push(Expected { alert, fault, since, fired: None, end: None, resolved: None });
        }
    }

    /// Waits until these alerts have fired.
    fn fired(&mut self, alerts: &[&'static str]) {
        let since = Instant::now();
        loop {
            let firing = self.poll();
            let quiet = |expected: &&Expected| alerts.contains(&expected.alert) && expected.fired.is_none();
            let missing: Vec<_> = self.expected.iter().filter(quiet).map(|expected| expected.alert).collect();
            if missing.is_empty() {
                return;
            }
            assert!(since.elapsed() < FIRES_WITHIN, "{missing:?} do not fire; firing {firing:?}");
        }
    }

    /// The fault that these alerts are about is over.
    fn ended(&mut self, alerts: &[&'static str]) {
        for expected in self.expected.iter_mut().filter(|expected| alerts.contains(&expected.alert)) {
            expected.end = Some(Instant::now());
        }
    }

    /// Stages a fault until all these alerts have fired, and ends it.
    fn stage(
        &mut self,
        fault: &'static str,
        alerts: &[&'static str],
        begin: impl FnOnce(&mut Scene),
        end: impl FnOnce(&mut Scene),
    ) {
        self.expect(fault, alerts);
        begin(self);
        self.fired(alerts);
        end(self);
        self.ended(alerts);
    }

    /// Waits until every alert has resolved, and prints the rows of the table.
    fn print(mut self) {
        let since = Instant::now();
        while self.expected.iter().any(|expected| expected.resolved.is_none()) {
            let firing = self.poll();
            assert!(since.elapsed() < RESOLVES_WITHIN, "still firing: {firing:?}");
        }
        println!("| alert | staged fault | fires after, s | resolves after, s |\n|---|---|---|---|");
        for Expected { alert, fault, fired, resolved, .. } in &self.expected {
            let (fired, resolved) = (fired.unwrap().as_secs_f64(), resolved.unwrap().as_secs_f64());
            println!("| {alert} | {fault} | {fired:.0} | {resolved:.0} |");
        }
    }
}

/// Waits for so long.
pub(crate) fn wait(time: Duration) {
    let since = Instant::now();
    while let Some(left) = time.checked_sub(since.elapsed()) {
        std::thread::park_timeout(left);
    }
}
