//! Alerts as an operator sees them: faults on real processes, scraped by a real Prometheus with the shipped rules, and
//! the seconds until each alert fires and resolves.
//!
//! **Invariant:** each rule has a scene, and each scene stages exactly the alerts of its `ALERTS`; `rules` compares
//! them.

mod allocators;
mod ceilings;
pub(crate) mod disks;
mod ids;
mod keys;
mod monitoring;
mod notifications;
mod ownership;
mod rules;
mod security;
mod stores;
mod upgrades;
mod writes;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use seq_testkit::eventually;
use serde_json::Value;

use crate::cluster::{Place, Server};

/// Limit of open files of a process, unless a fault is about files.
pub(crate) const FILES: usize = 1 << 16;

/// Longest times until a rule fires, and until it resolves: some rules wait, or look back, for fifteen minutes.
const FIRES_WITHIN: Duration = Duration::from_secs(1_200);
const RESOLVES_WITHIN: Duration = Duration::from_secs(1_200);

/// A set with its Prometheus; all end when it is dropped.
pub(crate) struct Scene {
    stores: Vec<Option<Server>>,
    allocs: Vec<Option<Server>>,
    _monitoring: Vec<Server>,
    pub(crate) url: String,
    pub(crate) set: String,
    scheme: &'static str,
    /// The release that processes are started with.
    program: PathBuf,
    /// The alerts that the scene has to stage, and their replaced waits.
    alerts: &'static [&'static str],
    waits: &'static [(&'static str, &'static str)],
    expected: Vec<Expected>,
    /// Last, so that the logs are still there when the servers are dropped.
    place: Place,
}

/// An alert that has to fire.
struct Expected {
    alert: &'static str,
    fault: &'static str,
    since: Instant,
    fired: Option<Duration>,
    /// Time at which the fault ended.
    end: Option<Instant>,
    resolved: Option<Duration>,
    /// The reason why the alert does not resolve, if it does not.
    stays: Option<&'static str>,
}

/// The differences between scenes.
pub(crate) struct Setup<'a> {
    /// Seqs between two raises of a section.
    pub(crate) step: &'a str,
    /// Stores with a disk of 4 GiB each, in memory.
    pub(crate) disks: &'a [u64],
    /// Whether the processes use TLS.
    pub(crate) secure: bool,
    /// Settings of the allocators; `DIR` is the directory of the scene.
    pub(crate) settings: &'a str,
    /// Tenants, in `DIR/tenants.toml`.
    pub(crate) tenants: &'a str,
    /// Settings of the stores.
    pub(crate) store_settings: &'a str,
    /// The alerts that are staged.
    pub(crate) alerts: &'static [&'static str],
    /// Alerts that wait for hours, with a shorter `for` so that a test can end.
    pub(crate) waits: &'static [(&'static str, &'static str)],
    /// The release of the processes; the tested build by default.
    pub(crate) program: Option<PathBuf>,
    /// Whether Prometheus sends alerts to an Alertmanager.
    pub(crate) notifies: bool,
}

impl Default for Setup<'_> {
    /// Creates a setup with a step that lasts only a moment, so that ceilings are raised often.
    fn default() -> Self {
        Setup {
            step: "100",
            disks: &[],
            secure: false,
            settings: "",
            tenants: "",
            store_settings: "",
            alerts: &[],
            waits: &[],
            program: None,
            notifies: false,
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
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
        let settings = setup.settings.replace("DIR", &place.dir.path().display().to_string());
        fs::write(place.path("settings.toml"), settings).unwrap();
        fs::write(place.path("stores.toml"), setup.store_settings).unwrap();
        fs::write(place.path("tenants.toml"), setup.tenants).unwrap();
        let mut scene = Scene {
            stores: vec![None, None, None],
            allocs: vec![None, None],
            _monitoring: monitoring::start(&place, scheme, setup),
            url: format!("http://{}:9090", place.host),
            set,
            scheme,
            program: setup.program.clone().unwrap_or_else(|| env!("CARGO_BIN_EXE_seqsvr").into()),
            alerts: setup.alerts,
            waits: setup.waits,
            expected: Vec::new(),
            place,
        };
        for store in setup.disks {
            let data = scene.data(*store);
            fs::create_dir(&data).unwrap();
            let mounted =
                Command::new("mount").args(["-t", "tmpfs", "-o", "size=4G,mode=700", "none"]).arg(&data).status();
            assert!(mounted.unwrap().success(), "a file system in memory");
        }
        (1..=3).for_each(|store| scene.start_store(store));
        (0..2).for_each(|alloc| scene.start_alloc(alloc, FILES));
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

    /// Runs a command as a caller.
    fn call(&self, args: &[&str]) -> Output {
        self.place.seqsvr_as("client/backend", args)
    }

    fn data(&self, store: u64) -> PathBuf {
        self.place.path(&format!("s{store}"))
    }

    fn start_store(&mut self, store: u64) {
        let (data, config) = (self.data(store).display().to_string(), self.place.path("stores.toml"));
        let (id, config) = (store.to_string(), config.display().to_string());
        let args = ["store", "--set", &self.set, "--id", &id, "--data", &data, "--config", &config];
        self.stores[store as usize - 1] = Some(self.start_node(&format!("s{store}"), &args, FILES));
    }

    fn start_alloc(&mut self, alloc: usize, files: usize) {
        let name = format!("a{}", alloc + 1);
        let settings = self.place.path("settings.toml").display().to_string();
        let args = ["alloc", "--set", &self.set, "--name", &name, "--cores", "1", "--config", &settings];
        self.allocs[alloc] = Some(self.start_node(&name, &args, files));
    }

    /// Starts a process of the scene's release with a limit of open files.
    fn start_node(&self, name: &str, args: &[&str], files: usize) -> Server {
        // The shell replaces itself, so the child's id is that of the server.
        let (script, program) = (format!("ulimit -n {files}; exec \"$@\""), self.program.display().to_string());
        self.place.server_of("sh".as_ref(), name, &[&["-c", &script, "sh", &program], args].concat())
    }

    /// Kills an allocator, and starts it again a while later.
    pub(crate) fn restart_alloc(&mut self, alloc: usize, after: Duration) {
        self.allocs[alloc] = None;
        wait(after);
        self.start_alloc(alloc, FILES);
    }

    /// Kills a store, and starts it again a while later.
    pub(crate) fn restart_store(&mut self, store: u64, after: Duration) {
        self.stores[store as usize - 1] = None;
        wait(after);
        self.start_store(store);
    }

    /// Sends load to one port of allocator 1 until the result is dropped.
    pub(crate) fn load_at(&self, name: &str, port: u16, args: &[&str]) -> Server {
        let addr = self.addr(port);
        self.place.server(name, &[&["bench", "--addr", &addr, "--duration-s", "3000"], args].concat())
    }

    /// Sends load to both allocators until the result is dropped.
    pub(crate) fn load(&self, name: &str, args: &[&str]) -> Server {
        let (a1, a2) = (self.addr(7400), self.addr(7401));
        let common = ["bench", "--addr", &a1, "--addr", &a2, "--duration-s", "3000"];
        self.place.server(name, &[&common[..], args].concat())
    }

    /// Returns the value of a query with one result.
    fn query(&self, query: &str) -> Option<f64> {
        let (url, query) = (format!("{}/api/v1/query", self.url), format!("query={query}"));
        let output =
            Command::new("curl").args(["-s", "--max-time", "5", &url, "--data-urlencode", &query]).output().unwrap();
        let value = serde_json::from_slice::<Value>(&output.stdout).ok()?;
        value["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    }

    /// Returns the alerts that fire now.
    fn firing(&self) -> BTreeSet<String> {
        let url = format!("{}/api/v1/alerts", self.url);
        let output = Command::new("curl").args(["-s", "--max-time", "5", &url]).output().unwrap();
        let alerts = serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default();
        let alerts = alerts["data"]["alerts"].as_array().cloned().unwrap_or_default();
        let firing = alerts.iter().filter(|alert| alert["state"] == "firing");
        firing.map(|alert| alert["labels"]["alertname"].as_str().unwrap().to_owned()).collect()
    }

    /// Records which alerts have fired and resolved; returns the firing alerts.
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

    /// Records the beginning of a fault that has to fire these alerts.
    fn expect(&mut self, fault: &'static str, alerts: &[&'static str]) {
        let already = self.firing();
        let since = Instant::now();
        for alert in alerts {
            assert!(self.alerts.contains(alert), "{alert} is none of the scene's: {:?}", self.alerts);
            assert!(!already.contains(*alert), "{alert} fires before: {fault}");
            let (fired, end, resolved, stays) = (None, None, None, None);
            self.expected.push(Expected { alert, fault, since, fired, end, resolved, stays });
        }
    }

    /// Waits until these alerts have fired.
    fn fired(&mut self, alerts: &[&'static str]) {
        self.fired_under(alerts, |_| ());
    }

    /// Waits until these alerts have fired, and keeps the fault up at each poll.
    fn fired_under(&mut self, alerts: &[&'static str], mut keep_up: impl FnMut(&mut Scene)) {
        let since = Instant::now();
        loop {
            keep_up(self);
            let firing = self.poll();
            let quiet = |expected: &&Expected| alerts.contains(&expected.alert) && expected.fired.is_none();
            let missing: Vec<_> = self.expected.iter().filter(quiet).map(|expected| expected.alert).collect();
            if missing.is_empty() {
                return;
            }
            assert!(since.elapsed() < FIRES_WITHIN, "{missing:?} do not fire; firing {firing:?}");
        }
    }

    /// Records that this alert does not resolve, and the reason.
    fn stays(&mut self, alert: &'static str, reason: &'static str) {
        assert!(self.firing().contains(alert), "{alert} fires");
        for expected in self.expected.iter_mut().filter(|expected| expected.alert == alert) {
            expected.stays = Some(reason);
        }
    }

    /// Records the end of the fault behind these alerts.
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
        let staged: BTreeSet<&str> = self.expected.iter().map(|expected| expected.alert).collect();
        assert_eq!(staged, self.alerts.iter().copied().collect(), "the scene stages its alerts");
        let since = Instant::now();
        while self.expected.iter().any(|expected| expected.resolved.is_none() && expected.stays.is_none()) {
            let firing = self.poll();
            assert!(since.elapsed() < RESOLVES_WITHIN, "still firing: {firing:?}");
        }
        println!("| alert | staged fault | fires after, s | resolves after, s | page |\n|---|---|---|---|---|");
        let rules = rules::all();
        for Expected { alert, fault, fired, resolved, stays, .. } in &self.expected {
            let rule = rules.iter().find(|rule| rule.alert == *alert).unwrap();
            let mut fires = format!("{:.0}", fired.unwrap().as_secs_f64());
            if let Some((_, wait)) = self.waits.iter().find(|(of, _)| of == alert) {
                fires += &format!(", with `for: {wait}` in place of `{}`", rule.wait);
            }
            let resolves = stays
                .map_or_else(|| format!("{:.0}", resolved.unwrap().as_secs_f64()), |reason| format!("not: {reason}"));
            println!("| {alert} | {fault} | {fires} | {resolves} | {} |", rule.page());
        }
    }
}

/// Waits for a time.
pub(crate) fn wait(time: Duration) {
    let since = Instant::now();
    while let Some(left) = time.checked_sub(since.elapsed()) {
        std::thread::park_timeout(left);
    }
}
