//! One history of numbers over faults that take a while: a trace is replayed again and again, each replay retries
//! through what happens, and the floors join them, so that one exact check spans all of it.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use serde_json::Value;

use crate::cluster::{Place, assert_clean, eventually, json};

/// Groups of the trace, and members of each.
const GROUPS: u64 = 40;
const MEMBERS: u64 = 5;

/// Messages of one replay: a number for each member of a group.
const MESSAGES: u64 = 2_000;

/// Distance of two uids: two are in a section of 100,000, over ten million.
const STRIDE: u64 = 49_999;

/// Exit code of a client command that reached no node.
const CANNOT_CONNECT: i32 = 4;

/// Callers that allocate numbers until they are stopped.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    replays: Arc<AtomicU64>,
    thread: JoinHandle<u64>,
}

impl Load {
    /// Starts them, by way of these addresses.
    pub(crate) fn start(place: &Place, addrs: &[String]) -> Load {
        let (trace, floors) = (place.path("load.csv"), place.path("load-floors.csv"));
        fs::write(&trace, messages()).unwrap();
        let (stop, replays) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, count, addrs) = (stop.clone(), replays.clone(), addrs.to_vec());
        let thread = std::thread::spawn(move || {
            let mut numbers = 0;
            while !stopped.load(Ordering::Relaxed) {
                if let Some(report) = replay(&trace, &floors, &addrs) {
                    assert_clean(&report);
                    numbers += report["allocations"].as_u64().unwrap();
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
            numbers
        });
        Load { stop, replays, thread }
    }

    /// Waits until a replay has been completed that began after this call.
    pub(crate) fn wait_replay(&self) {
        let before = self.replays.load(Ordering::Relaxed);
        eventually("a replay is complete", || {
            assert!(!self.thread.is_finished(), "a replay has failed, see above");
            (self.replays.load(Ordering::Relaxed) >= before + 2).then_some(())
        });
    }

    /// Stops after the replay at hand; returns how many numbers were checked.
    pub(crate) fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let numbers = self.thread.join().expect("every replay was in order");
        assert!(numbers > 0);
        numbers
    }
}

/// `None` where no node responded at its start.
fn replay(trace: &PathBuf, floors: &PathBuf, addrs: &[String]) -> Option<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seqsvr"));
    command.arg("replay").arg(trace).args(["--timeout-s", "120", "-o", "json", "--floors"]).arg(floors);
    command.args(addrs.iter().flat_map(|addr| ["--addr", addr]));
    let output = command.stdin(Stdio::null()).output().unwrap();
    (output.status.code() != Some(CANNOT_CONNECT)).then(|| json(&["replay"], &output))
}

/// A trace in which every member of a group has sent before it receives.
fn messages() -> String {
    let mut text = "second,group,sender\n".to_owned();
    for message in 0..MESSAGES {
        let (group, member) = (message % GROUPS, message / GROUPS % MEMBERS);
        let sender = 7 + (group * MEMBERS + member) * STRIDE;
        writeln!(text, "{message},{group},{sender}").unwrap();
    }
    text
}
