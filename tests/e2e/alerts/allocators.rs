//! Alerts about allocators: sections without an owner, restarts, connections, files, and late threads.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use seq_testkit::eventually;

use super::{FILES, Scene, Setup, wait};
use crate::cluster::seqsvr;

pub(super) const ALERTS: &[&str] = &["SeqsvrSectionsUnserved", "SeqsvrRestarts", "SeqsvrConnectionsRefused"];
pub(super) const ALERTS_OF_FILES: &[&str] = &["SeqsvrFilesLow"];
pub(super) const ALERTS_OF_OVERLOAD: &[&str] = &["SeqsvrOverloaded"];

/// Limit of open files of a process that is about to use them up. If the limit were 2,000, the connections of one
/// address could not reach the 80 % of the rule.
const FEW_FILES: usize = 8_000;

/// A pause long enough to make a thread late, and short enough to keep the lease.
const PAUSE: Duration = Duration::from_millis(500);

#[test]
#[ignore = "twenty minutes, as root, with Prometheus; `just alerts`"]
fn alerts_of_allocators_fire_and_resolve() {
    let mut scene = Scene::start(&Setup { alerts: ALERTS, ..Setup::default() });
    scene.stage(
        "both allocators are stopped",
        &["SeqsvrSectionsUnserved"],
        |scene| {
            for alloc in &mut scene.allocs {
                alloc.take().unwrap().terminate();
            }
        },
        |scene| (0..2).for_each(|alloc| scene.start_alloc(alloc, FILES)),
    );
    scene.stage(
        "allocator 1 is killed every five seconds",
        &["SeqsvrRestarts"],
        |scene| {
            for _ in 0..4 {
                scene.allocs[0] = None;
                scene.start_alloc(0, FILES);
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
            // The entry takes the place of a third allocator, and is removed when the fault ends.
            scene.allocs.push(Some(callers));
        },
        |scene| {
            drop(scene.allocs.pop());
            scene.allocs[0].take().unwrap().terminate();
            scene.start_alloc(0, FILES);
        },
    );
    scene.print();
}

#[test]
#[ignore = "a quarter of an hour, with Prometheus; `just alerts`"]
fn alerts_of_files_fire_and_resolve() {
    // This process needs as many files.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let mut scene = Scene::start(&Setup { alerts: ALERTS_OF_FILES, ..Setup::default() });
    let callers = std::cell::RefCell::new(Vec::new());
    scene.stage(
        "allocator 1 has 8,000 files, and idle callers hold connections until 85 % are open",
        ALERTS_OF_FILES,
        |scene| {
            scene.allocs[0].take().unwrap().terminate();
            scene.start_alloc(0, FEW_FILES);
            let files = format!("/proc/{}/fd", scene.allocs[0].as_ref().unwrap().pid().as_raw_nonzero());
            let addr = scene.addr(7400);
            let next = || seqsvr(&["next", "1", "--addr", &addr]).status.success().then_some(());
            eventually("the allocator serves again", next);
            while fs::read_dir(&files).unwrap().count() < FEW_FILES * 85 / 100 {
                // An unused connection would be closed.
                let mut caller = TcpStream::connect((scene.place.host, 7479)).unwrap();
                caller.write_all(b"PING\r\n").unwrap();
                let mut response = [0; 7];
                caller.read_exact(&mut response).unwrap();
                assert_eq!(&response, b"+PONG\r\n", "{} callers are admitted", callers.borrow().len());
                callers.borrow_mut().push(caller);
            }
        },
        |_| drop(callers.take()),
    );
    scene.print();
}

#[test]
#[ignore = "ten minutes, with Prometheus; `just alerts`"]
fn alerts_of_overload_fire_and_resolve() {
    let mut scene = Scene::start(&Setup { alerts: ALERTS_OF_OVERLOAD, ..Setup::default() });
    scene.expect("allocator 1 is paused for half a second, again and again", ALERTS_OF_OVERLOAD);
    scene.fired_under(ALERTS_OF_OVERLOAD, |scene| {
        let alloc = scene.allocs[0].as_ref().unwrap();
        alloc.freeze();
        wait(PAUSE);
        alloc.thaw();
    });
    scene.ended(ALERTS_OF_OVERLOAD);
    scene.print();
}
