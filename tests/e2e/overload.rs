//! Measures one AllocSvr on its own CPU under more calls than it can serve; wants an optimized build and an idle
//! machine of two CPUs: `just overload`.
//!
//! Each call counts for the second in which it was due. Goodput is the number of responses within the deadline of their
//! call.

use std::fs;
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use seq_testkit::eventually;

use crate::cluster::{Place, Server, seqsvr};
use crate::open_calls::{OpenCalls, Second, run};

/// The CPU of the AllocSvr, and the CPU of all other processes.
const SERVER_CPU: &str = "0";
const OTHER_CPU: &str = "1";

/// Deadline of each call.
const DEADLINE: Duration = Duration::from_secs(1);

/// Longest time that a caller waits for a free stream of its connection.
const PATIENCE: Duration = Duration::from_millis(50);

/// Length of the overload, and of the phases before and after it, in seconds.
const OVERLOAD: usize = 60;
const CALM: usize = 5;

/// Interval between samples of the lease.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);

/// The rate of the overload, in multiples of the server's capacity.
const FACTOR: f64 = 3.0;

/// The rate before and after the overload, in the same unit.
const CALM_SHARE: f64 = 0.5;

/// Connections of the callers.
const CONNECTIONS: [usize; 3] = [16, 128, 1_000];

/// Calls in flight in a closed loop, over as many connections as later. Their rate is the server's capacity.
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
raft = "HOST:7307"
http = "HOST:7311"
[[alloc]]
name = "a1"
addr = "HOST:7400"
peer = "HOST:7404"
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

    /// Returns the CPU time of the AllocSvr, in seconds.
    pub(crate) fn cpu_s(&self) -> f64 {
        self.alloc.cpu_s()
    }

    /// Returns the memory of the AllocSvr, in MiB.
    pub(crate) fn rss_mib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.alloc.pid().as_raw_nonzero())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() >> 10
    }

    /// Returns the remaining time of the AllocSvr's lease, in seconds.
    fn lease_s(&self) -> f64 {
        let url = format!("http://{}:7480/metrics", self.place.host);
        let output = Command::new("curl").args(["--silent", "--max-time", "5", &url]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find(|line| line.starts_with("seqsvr_lease_remaining_seconds{"));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
    }
}

fn pin_this_thread(cpu: &str) {
    let thread = fs::read_link("/proc/thread-self").unwrap();
    let id = thread.file_name().unwrap().to_str().unwrap().to_owned();
    assert!(Command::new("taskset").args(["-cp", cpu, &id]).output().unwrap().status.success());
}

/// Returns the sum of the results of some seconds.
fn total(seconds: &[Second]) -> Second {
    let mut all = seconds.iter().fold(Second::default(), |mut sum, second| {
        sum.latencies_us.extend(&second.latencies_us);
        Second {
            due: sum.due + second.due,
            served: sum.served + second.served,
            refused: sum.refused + second.refused,
            late: sum.late + second.late,
            unsent: sum.unsent + second.unsent,
            lost: sum.lost + second.lost,
            ..sum
        }
    });
    all.latencies_us.sort_unstable();
    all
}

/// Runs the plan. Returns the results of the calls, the CPU time of the AllocSvr at the start of each second and at the
/// end, and the shortest remaining time of its lease, both in seconds.
fn observed(node: &OneNode, plan: OpenCalls) -> (Vec<Second>, Vec<f64>, f64) {
    let (ended, end) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let looking = scope.spawn(move || {
            let mut least = f64::MAX;
            while end.recv_timeout(SAMPLE_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                least = least.min(node.lease_s());
            }
            least
        });
        let mut cpu_s = Vec::new();
        let seconds = run(plan, |_| cpu_s.push(node.cpu_s()));
        drop(ended);
        (seconds, cpu_s, looking.join().unwrap())
    })
}

#[test]
#[ignore = "measures: minutes, with an optimized build; `just overload`"]
fn goodput_under_three_times_the_capacity() {
    let node = OneNode::start("");
    let addr = std::net::SocketAddr::from((node.place.host, 7400));
    println!(
        "connections  phase      due/s  served/s  of capacity  refused/s  late/s  unsent/s  lost/s  p50 ms  p99 ms  least/s  CPU us"
    );
    for connections in CONNECTIONS {
        let closed = OpenCalls {
            addr,
            connections,
            rates: vec![0.0; CALM],
            closed: Some(CLOSED.div_ceil(connections)),
            patience: DEADLINE,
            deadline: DEADLINE,
            first_uid: 0,
            uids: 10_000_000,
        };
        // The first run only touches memory.
        run(closed.clone(), |_| ());
        let (seconds, cpu_s, _) = observed(&node, closed.clone());
        let served = total(&seconds).served as f64;
        let capacity = served / CALM as f64;
        println!(
            "{connections:11}  closed   {capacity:7.0}/s, {:.1} us of CPU each",
            (cpu_s[CALM] - cpu_s[0]) / served * 1e6
        );
        let phases = [("before", CALM_SHARE, CALM), ("overload", FACTOR, OVERLOAD), ("after", CALM_SHARE, CALM)];
        let rates = phases.iter().flat_map(|(_, share, seconds)| vec![share * capacity; *seconds]).collect();
        let (seconds, cpu_s, lease_s) =
            observed(&node, OpenCalls { rates, closed: None, patience: PATIENCE, ..closed });
        let mut begin = 0;
        for (phase, _, length) in phases {
            let of_phase = &seconds[begin..begin + length];
            let (cpu, all) = (cpu_s[begin + length] - cpu_s[begin], total(of_phase));
            begin += length;
            let per_s = |count: u64| count as f64 / length as f64;
            let least = of_phase.iter().map(|second| second.served).min().unwrap();
            let latency_ms = |part: f64| {
                let at = (all.latencies_us.len() as f64 * part) as usize;
                all.latencies_us.get(at).map_or(f64::NAN, |us| f64::from(*us) / 1e3)
            };
            println!(
                "{connections:11}  {phase:8} {:7.0} {:9.0} {:11.0}% {:10.0} {:7.0} {:9.0} {:7.0} {:7.1} {:7.1} {least:8} {:7.1}",
                per_s(all.due),
                per_s(all.served),
                100.0 * per_s(all.served) / capacity,
                per_s(all.refused),
                per_s(all.late),
                per_s(all.unsent),
                per_s(all.lost),
                latency_ms(0.5),
                latency_ms(0.99),
                cpu / all.served as f64 * 1e6,
            );
        }
        let after = &seconds[CALM + OVERLOAD..];
        let last = after.iter().rposition(|second| second.served < second.due);
        let recovered =
            last.map_or(Duration::ZERO, |second| Duration::from_secs(second as u64) + after[second].last_failed);
        let rss = node.rss_mib();
        println!("{connections:11}  recovered after {recovered:?}, least lease {lease_s:.2} s, resident {rss} MiB");
        assert!(lease_s > 0.0, "the lease was lost");
    }
}
