//! SIGKILL at random moments: a seq allocated before the kill is never allocated again, and no sequence decreases.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::cluster::{Place, assert_clean, trace};
use crate::dev::start;

/// Default number of kills; `E2E_KILLS` replaces it.
const KILLS: u32 = 3;

/// Latest moment of a kill after the cluster is ready. Short, so that most kills hit the first raises and the
/// assignment of owners, while the store is writing.
const LATEST: Duration = Duration::from_millis(700);

/// Exit code of a client command that reached no node.
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
        // After a finished replay, the next replay starts, and the floors join their seqs.
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

/// A replay during the kills. It retries across a restart; its floors carry the order over to the next replay.
pub(crate) struct Replay {
    child: Child,
}

impl Replay {
    pub(crate) fn start(place: &Place, addr: &str) -> Replay {
        let child = Command::new(env!("CARGO_BIN_EXE_seqsvr"))
            .args(["replay", &trace(), "--addr", addr, "--timeout-s", "120", "-o", "json", "--floors"])
            .arg(place.path("floors.csv"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Replay { child }
    }

    /// Returns whether the replay has ended, and its report; `None` inside if it could not connect at its start.
    fn finished(&mut self) -> Option<Option<Value>> {
        self.child.try_wait().unwrap()?;
        Some(self.report())
    }

    pub(crate) fn finish(mut self) -> Value {
        self.report().expect("the cluster was up")
    }

    /// Reads the report; blocks until the replay ends.
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
