//! Measures one AllocSvr, on a CPU of its own, under more calls than it can serve; wants an optimized build and an idle
//! machine of two CPUs: `just overload`.
//!
//! Each call counts for the second in which it was due. Goodput is the responses within the deadline of their call.

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::cluster::{Place, Server, eventually, seqsvr};
use crate::open_calls::{OpenCalls, Second, run};

/// The CPU of the AllocSvr, and that of everything else.
const SERVER_CPU: &str = "0";
const OTHER_CPU: &str = "1";

/// Deadline of each call.
const DEADLINE: Duration = Duration::from_secs(1);

/// Most time that a caller waits for a free stream of its connection.
const PATIENCE: Duration = Duration::from_millis(50);

/// Length of the overload, and of the load before and after it.
const OVERLOAD: Duration = Duration::from_secs(60);
const CALM: Duration = Duration::from_secs(5);

/// The overload, in multiples of what the server can serve.
const FACTOR: f64 = 3.0;

/// The load before and after it.
const CALM_SHARE: f64 = 0.5;

/// Connections of the callers.
const CONNECTIONS: [usize; 3] = [16, 128, 1_000];

/// Calls in flight in a closed loop, over as many connections as later: what they get is what the server can serve.
const CLOSED: usize = 4_096;

const SET: &str = r#"
name = "overload"
uids = "0..10_000_000"
section_size = 100_000
step = 10_000
plaintext = true
[[store]]
id = 1
name = "s1"
addr = "HOST:7301"
http = "HOST:7311"
[[alloc]]
name = "a1"
addr = "HOST:7400"
http = "HOST:7480"
redis = "HOST:7479"
"#;

pub(crate) struct OneNode {
    alloc: Server,
    _store: Server,
    pub(crate) place: Place,
}

impl OneNode {
    /// Starts a store and an AllocSvr with one serving thread.
    pub(crate) fn start(settings: &str) -> OneNode {
        let place = Place::new();
        let (set, config) = (place.path("set.toml").display().to_string(), place.path("settings.toml"));
        fs::write(&set, SET.replace("HOST", &place.host.to_string())).unwrap();
        fs::write(&config, settings).unwrap();
        let (data, config) = (place.path("s1").display().to_string(), config.display().to_string());
        let store = place.server("s1", &["store", "--set", &set, "--id", "1", "--data", &data, "--form"]);
        let alloc = ["alloc", "--set", &set, "--name", "a1", "--cores", "1", "--config", &config];
        let alloc = place.server_on_cpu("a1", &alloc, SERVER_CPU);
        let node = OneNode { alloc, _store: store, place };
        eventually("a number is allocated", || {
            Some(seqsvr(&["next", "1", "--addr", &node.url()])).filter(|output| output.status.success())
        });
        pin_this_thread(OTHER_CPU);
        node
    }

    fn url(&self) -> String {
        format!("http://{}:7400", self.place.host)
    }

    /// CPU time of the AllocSvr, in seconds.
    pub(crate) fn cpu_s(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.alloc.pid().as_raw_nonzero())).unwrap();
        let fields: Vec<_> = stat.rsplit(')').next().unwrap().split(' ').collect();
        // User and system time, in ticks of 10 ms.
        (fields[12].parse::<f64>().unwrap() + fields[13].parse::<f64>().unwrap()) / 100.0
    }

    /// Memory of the AllocSvr, in MiB.
    pub(crate) fn rss_mib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.alloc.pid().as_raw_nonzero())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() >> 10
    }

    /// The value of a metric of the AllocSvr; 0 if it has none yet.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let url = format!("http://{}:7480/metrics", self.place.host);
        let output = Command::new("curl").args(["-s", "--max-time", "5", &url]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find(|line| line.starts_with(name));
        line.map_or(0.0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
    }
}

fn pin_this_thread(cpu: &str) {
    let thread = fs::read_link("/proc/thread-self").unwrap();
    let id = thread.file_name().unwrap().to_str().unwrap().to_owned();
    assert!(Command::new("taskset").args(["-cp", cpu, &id]).output().unwrap().status.success());
}

fn total(seconds: &[Second]) -> Second {
    seconds.iter().fold(Second::default(), |sum, second| Second {
        due: sum.due + second.due,
        served: sum.served + second.served,
        refused: sum.refused + second.refused,
        late: sum.late + second.late,
        unsent: sum.unsent + second.unsent,
        lost: sum.lost + second.lost,
    })
}

#[test]
#[ignore = "measures: minutes, with an optimized build; `just overload`"]
fn goodput_under_three_times_the_capacity() {
    let node = OneNode::start("");
    let addr = std::net::SocketAddr::from((node.place.host, 7400));
    println!(
        "connections  phase      due/s  served/s  of capacity  refused/s  late/s  unsent/s  lost/s  p50 ms  p99 ms  least/s  CPU us  RSS"
    );
    for connections in CONNECTIONS {
        let closed = OpenCalls {
            addr,
            connections,
            rate: 0.0,
            closed: Some(CLOSED.div_ceil(connections)),
            patience: DEADLINE,
            deadline: DEADLINE,
            duration: CALM,
            first_uid: 0,
            uids: 10_000_000,
        };
        // The first one touches memory.
        run(closed);
        let cpu = node.cpu_s();
        let served = total(&run(closed).seconds).served as f64;
        let capacity = served / CALM.as_secs_f64();
        println!(
            "{connections:11}  closed   {capacity:7.0}/s, {:.1} us of CPU each",
            (node.cpu_s() - cpu) / served * 1e6
        );
        for (phase, rate, duration) in [
            ("before", CALM_SHARE * capacity, CALM),
            ("overload", FACTOR * capacity, OVERLOAD),
            ("after", CALM_SHARE * capacity, CALM),
        ] {
            let cpu = node.cpu_s();
            let outcome = run(OpenCalls { connections, rate, duration, closed: None, patience: PATIENCE, ..closed });
            let (cpu, all) = (node.cpu_s() - cpu, total(&outcome.seconds));
            let per_s = |count: u64| count as f64 / duration.as_secs_f64();
            let least = outcome.seconds.iter().map(|second| second.served).min().unwrap();
            println!(
                "{connections:11}  {phase:8} {:7.0} {:9.0} {:11.0}% {:10.0} {:7.0} {:9.0} {:7.0} {:7.1} {:7.1} {least:8} {:7.1} {:4}",
                per_s(all.due),
                per_s(all.served),
                100.0 * per_s(all.served) / capacity,
                per_s(all.refused),
                per_s(all.late),
                per_s(all.unsent),
                per_s(all.lost),
                outcome.latency_ms(0.5),
                outcome.latency_ms(0.99),
                cpu / all.served as f64 * 1e6,
                node.rss_mib(),
            );
        }
    }
}
