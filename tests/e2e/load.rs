//! Load over long faults, checked as one history: a trace is replayed again and again. Each replay retries through the
//! fault, and the floors join the replays, so that one exact check spans all of them.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use seq_testkit::eventually;
use serde_json::Value;

use crate::cluster::{Place, assert_clean, json};

/// Groups of the trace, and members of each group.
const GROUPS: u64 = 40;
const MEMBERS: u64 = 5;

/// Messages of one replay: each message is a seq for each member of its group.
const MESSAGES: u64 = 2_000;

/// Distance between two uids: a section of 100,000 has two uids, over ten million.
const STRIDE: u64 = 49_999;

/// Exit code of a client command that reached no node.
const CANNOT_CONNECT: i32 = 4;

/// Callers that allocate seqs until they are stopped.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    replays: Arc<AtomicU64>,
    thread: JoinHandle<u64>,
}

impl Load {
    /// Starts the callers, with these addresses.
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

    /// Waits until a replay that began after this call is complete.
    pub(crate) fn wait_replay(&self) {
        let before = self.replays.load(Ordering::Relaxed);
        eventually("a replay is complete", || {
            assert!(!self.thread.is_finished(), "a replay has failed, see above");
            (self.replays.load(Ordering::Relaxed) >= before + 2).then_some(())
        });
    }

    /// Stops after the current replay; returns the number of checked seqs.
    pub(crate) fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let numbers = self.thread.join().expect("every replay was in order");
        assert!(numbers > 0);
        numbers
    }
}

/// Replays a trace; `None` if no node responded at the start.
fn replay(trace: &PathBuf, floors: &PathBuf, addrs: &[String]) -> Option<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seqsvr"));
    command.arg("replay").arg(trace).args(["--timeout-s", "120", "-o", "json", "--floors"]).arg(floors);
    command.args(addrs.iter().flat_map(|addr| ["--addr", addr]));
    let output = command.stdin(Stdio::null()).output().unwrap();
    (output.status.code() != Some(CANNOT_CONNECT)).then(|| json(&["replay"], &output))
}

/// Returns a trace in which every member of a group has sent before it receives.
fn messages() -> String {
    let mut text = "second,group,sender\n".to_owned();
    for message in 0..MESSAGES {
        let (group, member) = (message % GROUPS, message / GROUPS % MEMBERS);
        let sender = 7 + (group * MEMBERS + member) * STRIDE;
        writeln!(text, "{message},{group},{sender}").unwrap();
    }
    text
}
