//! SIGKILL at random moments: what was answered before the kill is never answered again, and nothing goes back.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::cluster::{Place, assert_clean, trace};
use crate::dev::start;

/// Kills in CI; a longer run sets `E2E_KILLS`.
const KILLS: u32 = 3;

/// The latest moment of a kill after the cluster became ready. Short, so that most kills meet the first raises and the
/// assignment of owners, the moments when something is being written.
const LATEST: Duration = Duration::from_millis(700);

/// Exit code of a client command that reached nobody.
const CANNOT_CONNECT: i32 = 4;

#[test]
fn kills_repeat_no_number_and_lose_no_ceiling() {
    let kills = std::env::var("E2E_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let place = Place::new();
    let (mut server, addr) = start(&place);
    let mut replay = Replay::start(&place, &addr);
    let mut reports = Vec::new();
    for _ in 0..kills {
        std::thread::park_timeout(Duration::from_millis(fastrand::u64(..LATEST.as_millis() as u64)));
        server.kill();
        (server, _) = start(&place);
        // A replay that came to its end is followed by another; the floors join their histories.
        if let Some(report) = replay.finished() {
            reports.extend(report);
            replay = Replay::start(&place, &addr);
        }
    }
    reports.push(replay.finish());
    for report in &reports {
        assert_clean(report);
        let of = |key: &str| report[key].clone();
        println!(
            "{} numbers, {} restarts seen, {} calls unknown, {} ceiling raises, 0 decreases, 0 duplicates",
            of("allocations"),
            of("restarts"),
            of("unknown_calls"),
            of("ceiling_raises"),
        );
    }
    println!("{kills} kills, {} replays", reports.len());
}

/// A replay beside the kills. It rides over a restart; its floors carry the order over to the next one.
pub(crate) struct Replay {
    child: Child,
}

impl Replay {
    pub(crate) fn start(place: &Place, addr: &str) -> Replay {
        let child = Command::new(env!("CARGO_BIN_EXE_seqsvr"))
            .args(["replay", &trace(), "--addr", addr, "--patience-s", "120", "-o", "json", "--floors"])
            .arg(place.path("floors.csv"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Replay { child }
    }

    /// Whether it came to its end, and its report. One that met a dead cluster at its first call has none to give.
    fn finished(&mut self) -> Option<Option<Value>> {
        self.child.try_wait().unwrap()?;
        Some(self.report())
    }

    pub(crate) fn finish(mut self) -> Value {
        self.report().expect("the cluster was up")
    }

    /// Reads the report to its end; blocks while the replay lasts.
    fn report(&mut self) -> Option<Value> {
        let mut text = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let status = self.child.wait().unwrap();
        if status.code() == Some(CANNOT_CONNECT) {
            return None;
        }
        assert!(status.success(), "{status}: {text}");
        Some(serde_json::from_str(&text).unwrap())
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
