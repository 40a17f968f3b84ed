//! Alerts as their reader sees them: faults on real processes, scraped by a real Prometheus with the rules as shipped, and the
//! seconds until each alert fires and resolves.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cluster::{Place, Server, eventually, seqsvr};

/// Intervals of scrapes and evaluations, in seconds.
const INTERVAL: u64 = 1;

/// The longest that a rule takes to fire, and to resolve: some look back fifteen minutes.
const FIRES_WITHIN: Duration = Duration::from_secs(420);
const RESOLVES_WITHIN: Duration = Duration::from_secs(1_200);

/// A set with its Prometheus; all end when it is dropped.
pub(crate) struct Scene {
    stores: Vec<Option<Server>>,
    allocs: Vec<Option<Server>>,
    prometheus: Child,
    pub(crate) url: String,
    pub(crate) set: String,
    place: Place,
    seen: Vec<Seen>,
}

/// An alert that fired.
struct Seen {
    alert: &'static str,
    fault: &'static str,
    fired: Duration,
    /// When the fault ended.
    end: Instant,
    resolved: Option<Duration>,
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
    pub(crate) fn start(disks: &[u64]) -> Scene {
        let place = Place::new();
        let set = place.set_file("three-node.toml").display().to_string();
        // Few files, so that callers can use them up; a step that lasts a moment, so that ceilings are raised often.
        let text = fs::read_to_string(&set).unwrap();
        fs::write(&set, text.replace("step = 10_000", "step = 100")).unwrap();
        let (host, dir) = (place.host, place.dir.path().to_owned());
        let rules = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy/prometheus/rules");
        let ports: Vec<String> = [7311, 7312, 7313, 7480, 7481].map(|port| format!("'{host}:{port}'")).into();
        let config = format!(
            "global: {{scrape_interval: {INTERVAL}s, evaluation_interval: {INTERVAL}s}}\nrule_files: ['{}/*.yaml']\n\
             scrape_configs:\n  - job_name: seqsvr\n    static_configs: [{{targets: [{}]}}]\n",
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
            place,
            seen: Vec::new(),
        };
        for store in disks {
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
        eventually("a number is allocated", || seqsvr(&["next", "1", "--addr", &addr]).status.success().then_some(()));
        scene
    }

    fn addr(&self, port: u16) -> String {
        format!("http://{}:{port}", self.place.host)
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
        let args = ["alloc", "--set", &self.set, "--name", &name, "--cores", "1"];
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

    /// Notes which alerts have resolved; returns those that fire.
    fn poll(&mut self) -> BTreeSet<String> {
        std::thread::park_timeout(Duration::from_millis(500));
        let firing = self.firing();
        for seen in self.seen.iter_mut().filter(|seen| seen.resolved.is_none() && !firing.contains(seen.alert)) {
            seen.resolved = Some(seen.end.elapsed());
        }
        firing
    }

    /// Stages a fault until all these alerts have fired, and ends it.
    fn stage(
        &mut self,
        fault: &'static str,
        alerts: &[&'static str],
        begin: impl FnOnce(&mut Scene),
        end: impl FnOnce(&mut Scene),
    ) {
        let already = self.poll();
        let since = Instant::now();
        begin(self);
        let mut fired: Vec<(&'static str, Duration)> = Vec::new();
        while fired.len() < alerts.len() {
            let firing = self.poll();
            for alert in alerts {
                if firing.contains(*alert) && !fired.iter().any(|(name, _)| name == alert) {
                    assert!(!already.contains(*alert), "{alert} fires before: {fault}");
                    fired.push((alert, since.elapsed()));
                }
            }
            let names: Vec<_> = fired.iter().map(|(name, _)| *name).collect();
            assert!(since.elapsed() < FIRES_WITHIN, "{fault}: of {alerts:?} only {names:?}; firing {firing:?}");
        }
        end(self);
        let end = Instant::now();
        self.seen.extend(fired.into_iter().map(|(alert, fired)| Seen { alert, fault, fired, end, resolved: None }));
    }

    /// Waits until every alert has resolved, and prints the rows of the table.
    fn print(mut self) {
        let since = Instant::now();
        while self.seen.iter().any(|seen| seen.resolved.is_none()) {
            let firing = self.poll();
            assert!(since.elapsed() < RESOLVES_WITHIN, "still firing: {firing:?}");
        }
        println!("| alert | staged fault | fires after, s | resolves after, s |\n|---|---|---|---|");
        for Seen { alert, fault, fired, resolved, .. } in &self.seen {
            let (fired, resolved) = (fired.as_secs_f64(), resolved.unwrap().as_secs_f64());
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

#[test]
#[ignore = "twenty minutes, as root, with Prometheus; `just alerts`"]
fn alerts_of_stores_fire_and_resolve() {
    let mut scene = Scene::start(&[]);
    let _load = scene.load("load", &["--rate", "200", "--uids", "10000000"]);
    scene.stage(
        "the leadership is transferred every second",
        &["SeqsvrLeaderChanges"],
        |scene| {
            for to in (1..=3).cycle().take(9) {
                let set = scene.set.clone();
                let lead = seqsvr(&["store", "lead", "--to", &to.to_string(), "--set", &set]);
                assert!(lead.status.success(), "{}", String::from_utf8_lossy(&lead.stderr));
                scene.poll();
            }
        },
        |_| {},
    );
    scene.stage(
        "store 3 is killed",
        &["SeqsvrVoterSilent", "SeqsvrDown"],
        |scene| {
            scene.stores[2] = None;
        },
        |scene| scene.start_store(3),
    );
    for _ in 0..2 {
        // Short outages: the third expiry of a lease within ten minutes is the alert's.
        (scene.stores[1], scene.stores[2]) = (None, None);
        eventually("no store leads", || scene.poll().contains("SeqsvrNoLeader").then_some(()));
        (2..=3).for_each(|store| scene.start_store(store));
        let over = ["SeqsvrNoLeader", "SeqsvrNoQuorum", "SeqsvrNoLease"];
        eventually("a store leads", || {
            let firing = scene.poll();
            over.iter().all(|alert| !firing.contains(*alert)).then_some(())
        });
    }
    let alerts = ["SeqsvrNoLeader", "SeqsvrNoQuorum", "SeqsvrNoLease", "SeqsvrLeasesExpire"];
    scene.stage(
        "stores 2 and 3 are killed, for the third time",
        &alerts,
        |scene| {
            (scene.stores[1], scene.stores[2]) = (None, None);
        },
        |scene| (2..=3).for_each(|store| scene.start_store(store)),
    );
    scene.print();
}

#[test]
#[ignore = "twenty minutes, as root, with Prometheus; `just alerts`"]
fn alerts_of_allocators_fire_and_resolve() {
    let mut scene = Scene::start(&[]);
    scene.stage(
        "both allocators are stopped",
        &["SeqsvrSectionsUnserved"],
        |scene| {
            for alloc in &mut scene.allocs {
                alloc.take().unwrap().terminate();
            }
        },
        |scene| (0..2).for_each(|alloc| scene.start_alloc(alloc, 1 << 16)),
    );
    scene.stage(
        "allocator 1 is killed every five seconds",
        &["SeqsvrRestarts"],
        |scene| {
            for _ in 0..4 {
                scene.allocs[0] = None;
                scene.start_alloc(0, 1 << 16);
                let since = Instant::now();
                while since.elapsed() < Duration::from_secs(5) {
                    scene.poll();
                }
            }
        },
        |_| {},
    );
    scene.stage(
        "callers of allocator 1 open more connections than its files allow",
        &["SeqsvrConnectionsRefused"],
        |scene| {
            scene.allocs[0].take().unwrap().terminate();
            scene.start_alloc(0, 600);
            let addr = scene.addr(7400);
            let next = || seqsvr(&["next", "1", "--addr", &addr]).status.success().then_some(());
            eventually("the allocator serves again", next);
            let args = ["bench", "--endpoint", "json", "--addr", &addr, "--concurrency", "900", "--rate", "900"];
            let callers = scene.place.server("callers", &[&args[..], &["--duration-s", "3000"]].concat());
            // In the place of a third allocator, which ends with the fault.
            scene.allocs.push(Some(callers));
        },
        |scene| {
            drop(scene.allocs.pop());
            scene.allocs[0].take().unwrap().terminate();
            scene.start_alloc(0, 1 << 16);
        },
    );
    scene.print();
}

#[test]
#[ignore = "twenty minutes, as root, with Prometheus; `just alerts`"]
fn alerts_of_disks_fire_and_resolve() {
    let mut scene = Scene::start(&[1, 2, 3]);
    let remount = |size: &'static str| {
        move |scene: &mut Scene| {
            let options = format!("remount,size={size}");
            assert!(Command::new("mount").args(["-o", &options]).arg(scene.data(1)).status().unwrap().success());
        }
    };
    scene.stage("512 MiB are left on the disk of store 1", &["SeqsvrStoreDiskFull"], remount("512M"), remount("4G"));
    let tracers = std::cell::RefCell::new(Vec::new());
    let alerts = ["SeqsvrStoreDiskSlow", "SeqsvrSectionWritesSlow", "SeqsvrCeilingStalls"];
    let load = std::cell::Cell::new(None);
    scene.stage(
        "every sync of a store takes 0.12 s more, under a load on few users",
        &alerts,
        |scene| {
            for store in scene.stores.iter().flatten() {
                let pid = store.pid().as_raw_nonzero().to_string();
                let mut command = Command::new("strace");
                command.args([
                    "-f",
                    "-p",
                    &pid,
                    "-e",
                    "trace=fdatasync,fsync",
                    "-e",
                    "inject=fdatasync,fsync:delay_enter=120000",
                ]);
                tracers.borrow_mut().push(command.args(["-o", "/dev/null"]).stderr(Stdio::null()).spawn().unwrap());
            }
            load.set(Some(
                scene.load("load", &["--endpoint", "many", "--uids", "100", "--batch", "100", "--concurrency", "4"]),
            ));
        },
        |_| {
            drop(load.take());
            for mut tracer in tracers.take() {
                // On SIGTERM it detaches; killed, it would leave the process stopped.
                let pid = rustix::process::Pid::from_child(&tracer);
                rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
                tracer.wait().unwrap();
            }
        },
    );
    scene.print();
}
