//! Calls a second of an SDK, and the CPU time of its process for a call, beside the Rust SDK in turn.

use std::fs;
use std::time::{Duration, Instant};

use seq_testkit::eventually;
use seq_testkit::rows::note;
use serde_json::json;

use crate::cluster::{Cluster, Shape};
use crate::driver::{Client, Driver, Sdk};
use crate::sdks;

/// Callers, each of which waits for a response before its next call.
const CALLERS: u64 = 256;

/// Users of the calls.
const UIDS: u64 = 10_000;

/// Calls of the first burst, which also opens the connections, and limits on the calls of a measured burst.
const FIRST: u64 = 4_000;
const MOST: u64 = 1_000_000;

/// Length of a measured burst. It is a hundred times the unit in which the kernel states CPU time.
const LENGTH: Duration = Duration::from_secs(1);

/// Measured bursts of each SDK; the median is printed.
const ROUNDS: usize = 5;

pub(super) fn speed(sdk: &Sdk) {
    let cluster = Cluster::start(Shape::USUAL);
    let uids: Vec<u64> = (0..UIDS).map(|number| number * cluster.uid_count() / UIDS).collect();
    let beside = sdks::rust();
    let drivers = [Driver::start(sdk), Driver::start(&beside)];
    let mut total = 0;
    for coalesce in [true, false] {
        let clients = drivers.each_ref().map(|driver| {
            let client = driver.open_with(&cluster.seeds(), json!({"coalesce": coalesce}));
            Measured { client, driver, uids: &uids, calls: FIRST, bursts: Vec::new() }
        });
        let mut clients = clients.map(Measured::adapt);
        for _ in 0..ROUNDS {
            clients.iter_mut().for_each(Measured::measure);
        }
        let [own, rust] = clients.map(|measured| {
            total += measured.calls_made();
            measured.median()
        });
        note(format_args!(
            "{} of {CALLERS} callers: {:.0} calls/s with {:.1} us of CPU time each; Rust {:.0} with {:.1}; ratio {:.2} and {:.2}",
            if coalesce { "coalesced calls" } else { "calls in requests of their own" },
            own.rate,
            own.cpu_us,
            rust.rate,
            rust.cpu_us,
            own.rate / rust.rate,
            own.cpu_us / rust.cpu_us
        ));
    }
    let allocated = || cluster.metric("seqsvr_allocations_total") as u64;
    eventually("the nodes publish what they have counted", || (allocated() >= total).then_some(()));
    assert_eq!(allocated(), total, "each call takes one number");
    drivers.into_iter().for_each(Driver::finish);
}

/// A client whose bursts are measured.
struct Measured<'a> {
    client: Client<'a>,
    driver: &'a Driver,
    uids: &'a [u64],
    /// Calls of the next burst.
    calls: u64,
    /// The calls, the wall time and the CPU time of each burst.
    bursts: Vec<(u64, Duration, Duration)>,
}

/// The speed of a burst.
struct Speed {
    /// Calls a second.
    rate: f64,
    /// CPU time of the driver's process for a call, in microseconds.
    cpu_us: f64,
}

impl Measured<'_> {
    /// Makes two bursts that are not counted, and chooses the number of calls of the counted bursts.
    fn adapt(mut self) -> Self {
        for _ in 0..2 {
            self.measure();
            let (calls, took, _) = self.bursts[self.bursts.len() - 1];
            self.calls = ((calls as f64 / took.as_secs_f64() * LENGTH.as_secs_f64()) as u64).clamp(FIRST, MOST);
        }
        self
    }

    fn measure(&mut self) {
        let (began, cpu) = (Instant::now(), cpu_time(self.driver.pid()));
        self.client.quiet_burst(self.uids, self.calls, CALLERS);
        self.bursts.push((self.calls, began.elapsed(), cpu_time(self.driver.pid()) - cpu));
    }

    fn calls_made(&self) -> u64 {
        self.bursts.iter().map(|(calls, ..)| calls).sum()
    }

    /// Returns the medians of the last [`ROUNDS`] bursts.
    fn median(&self) -> Speed {
        let counted = &self.bursts[self.bursts.len() - ROUNDS..];
        let median = |of: fn(&(u64, Duration, Duration)) -> f64| {
            let mut values: Vec<f64> = counted.iter().map(of).collect();
            values.sort_unstable_by(f64::total_cmp);
            values[ROUNDS / 2]
        };
        Speed {
            rate: median(|(calls, took, _)| *calls as f64 / took.as_secs_f64()),
            cpu_us: median(|(calls, _, cpu)| cpu.as_secs_f64() * 1e6 / *calls as f64),
        }
    }
}

/// Returns the CPU time that a process has used, in units of 10 ms: fields 14 and 15 of proc_pid_stat(5).
fn cpu_time(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').expect("the name of the program is in brackets");
    let ticks: u64 = fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}
