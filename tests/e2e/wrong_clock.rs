//! A process with its own wall clock, by libfaketime, and how its set reports the difference.

use std::fs;
use std::path::PathBuf;

use seq_kit::wall_clock::now_ms;
use seq_testkit::eventually;

use crate::cluster::{Place, Server, digits};
use crate::dev::get;
use crate::drills::serves;
use crate::recover::Set;

/// The wall clock of the processes that are started with it; changes apply while they run.
pub(crate) struct WrongClock {
    library: PathBuf,
    file: PathBuf,
}

impl WrongClock {
    /// Returns a clock with the true time. `None` if the library is not installed, which fails under `CI`.
    pub(crate) fn new(place: &Place) -> Option<WrongClock> {
        let libs = fs::read_dir("/usr/lib").unwrap().flatten();
        let library = libs.map(|dir| dir.path().join("faketime/libfaketimeMT.so.1")).find(|path| path.is_file());
        let Some(library) = library else {
            assert!(std::env::var_os("CI").is_none(), "libfaketime is not installed");
            eprintln!("skipped: a wrong clock needs libfaketime");
            return None;
        };
        let clock = WrongClock { library, file: place.path("clock") };
        clock.step(0);
        Some(clock)
    }

    /// Sets the clock ahead of the true time by a number of seconds, or behind if it is negative.
    pub(crate) fn step(&self, seconds: i64) {
        // The file is replaced as a whole, because a process may read it at any time.
        let next = self.file.with_extension("next");
        fs::write(&next, format!("{seconds:+}s")).unwrap();
        fs::rename(next, &self.file).unwrap();
    }

    /// Starts a server with this clock; its monotonic clock is not changed.
    pub(crate) fn server(&self, place: &Place, name: &str, args: &[&str]) -> Server {
        let environment = [
            format!("LD_PRELOAD={}", self.library.display()),
            format!("FAKETIME_TIMESTAMP_FILE={}", self.file.display()),
            "FAKETIME_NO_CACHE=1".to_owned(),
            "FAKETIME_DONT_FAKE_MONOTONIC=1".to_owned(),
            "DONT_FAKE_MONOTONIC=1".to_owned(),
        ];
        let program = [env!("CARGO_BIN_EXE_seqsvr")];
        let args: Vec<&str> =
            environment.iter().map(String::as_str).chain(program).chain(args.iter().copied()).collect();
        place.server_of("env".as_ref(), name, &args)
    }
}

/// Leases depend on the monotonic clock, so the set continues to serve.
#[test]
fn a_wall_clock_that_steps_is_in_the_metrics_of_its_node() {
    let set = Set::small_steps();
    let Some(clock) = WrongClock::new(&set.place) else { return };
    let _stores = set.stores("store");
    let args = ["alloc", "--set", &set.file, "--name", "a1", "--cores", "1"];
    let (_a1, _a2) = (clock.server(&set.place, "a1", &args), set.alloc("a2"));
    eventually("the set serves", || serves(&set.file));
    let offset = |port: u16| {
        let metrics = get(&format!("{}:{port}", set.place.host), "/metrics");
        let line = metrics.lines().find(|line| line.starts_with("seqsvr_clock_offset_seconds{"))?;
        line.rsplit_once(' ')?.1.parse::<f64>().ok()
    };
    let within = |port: u16, least: f64, most: f64| {
        let is = || offset(port).filter(|offset| (least..=most).contains(offset)).map(drop);
        eventually("the offset of the clock is stated", is);
    };
    within(7480, -0.9, 0.9);
    within(7481, -0.9, 0.9);
    for seconds in [-7, 3_600] {
        clock.step(seconds);
        within(7480, seconds as f64 - 0.9, seconds as f64 + 0.9);
        let next = set.place.seqsvr(&["next", "7", "--addr", &format!("http://{}:7400", set.place.host)]);
        assert!(next.status.success(), "{next:?}");
    }
    within(7481, -0.9, 0.9);
}

/// Takes ids at a node whose clock is an hour ahead: of lanes of the other node where the node chooses, and of named
/// lanes unless they are its own.
#[test]
fn ids_at_a_node_whose_clock_is_ahead_are_of_the_lanes_of_others() {
    const EPOCH_MS: u64 = 1_288_834_974_657;
    let set = Set::small_steps();
    let Some(clock) = WrongClock::new(&set.place) else { return };
    let _stores = set.stores("store");
    let args = ["alloc", "--set", &set.file, "--name", "a1", "--cores", "1"];
    let (_a1, _a2) = (clock.server(&set.place, "a1", &args), set.alloc("a2"));
    eventually("the set serves", || serves(&set.file));
    let addr = format!("http://{}:7400", set.place.host);
    for (name, shape) in [("tweets", "snowflake"), ("media", "instagram")] {
        let create = ["series", "create", name, "--shape", shape, "--yes", "--addr", &addr];
        let made = set.place.seqsvr(&create);
        assert!(made.status.success(), "{made:?}");
    }
    let next = |args: &[&str]| {
        let common = ["--addr", &addr, "--deadline-ms", "5000", "-o", "json"];
        set.place.seqsvr(&[&["id", "next"], args, &common].concat())
    };
    assert!(next(&["tweets"]).status.success());
    clock.step(3_600);
    for _ in 0..10 {
        let taken = next(&["tweets", "-n", "100"]);
        assert!(taken.status.success(), "{taken:?}");
        let taken: serde_json::Value = serde_json::from_slice(&taken.stdout).unwrap();
        let last = (digits(taken["ids"].as_array().unwrap().last().unwrap()) >> 22) + EPOCH_MS;
        assert!(last < now_ms() + 60_000, "an id of {last} at {}", now_ms());
    }
    // The sections of the lanes have 512 lanes each, and both nodes have some of them.
    let (mut served, mut refused) = (0, 0);
    for section in 0..16 {
        let lane = (section * 512).to_string();
        let taken = next(&["media", "--lane", &lane]);
        let text = String::from_utf8_lossy(&taken.stderr).into_owned();
        match taken.status.success() {
            true => served += 1,
            false => {
                assert!(text.contains("CLOCK_AHEAD") && text.contains(" s ahead of its store's clock"), "{text}");
                refused += 1;
            }
        }
    }
    assert!(served > 0 && refused > 0, "{served} lanes served, {refused} refused");
    let counted = |name: &str, labels: &[&str]| {
        let metrics = get(&format!("{}:7480", set.place.host), "/metrics");
        let is = |line: &&str| line.starts_with(name) && labels.iter().all(|label| line.contains(label));
        metrics.lines().find(is).is_some_and(|line| !line.ends_with(" 0"))
    };
    eventually("the calls are counted", || {
        let all = counted("seqsvr_raises_clamped_total{", &["node=\"a1\""])
            && counted("seqsvr_ids_total{", &["shape=\"snowflake\"", "via=\"grpc\"", "code=\"OK\""])
            && counted("seqsvr_ids_total{", &["shape=\"instagram\"", "via=\"grpc\"", "code=\"UNAVAILABLE\""])
            && counted("seqsvr_series{", &["state=\"serves\""])
            && counted("seqsvr_series_end_seconds{", &[])
            && counted("seqsvr_lanes{", &["node=\"a1\""]);
        all.then_some(())
    });
    eventually("lanes of the node rest", || {
        next(&["tweets"]);
        counted("seqsvr_lanes_resting{", &["node=\"a1\""]).then_some(())
    });
    clock.step(0);
    eventually("every lane is served", || {
        (0..16).all(|section| next(&["media", "--lane", &(section * 512).to_string()]).status.success()).then_some(())
    });
}
