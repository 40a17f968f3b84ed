//! A counter that falls in the memory of a running allocator, as it would after a fault of the memory or of the
//! program: the allocator finds it, counts it in its metrics and events, and logs it.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use seq_testkit::eventually;
use serde_json::Value;

use crate::cluster::{Place, Server, digits, seqsvr};
use crate::dev::get;
use crate::verdicts::Set;

/// Number to which the user is advanced. Its slot has the mark of an advance, so few other words of the memory have the
/// same value.
const ADVANCED_TO: u64 = 123_456;

/// Mark in the slot of a user that was advanced.
const MARK: u64 = 1 << 62;

/// Number that the slot has after it was made to fall.
const FALLEN: u64 = 123_000;

/// Open files of an allocator.
const FILES: usize = 4_096;

/// Makes the counter of a user fall in the memory of `owner`, the process that owns the section. The process may dump
/// its core, so that this process may read its memory, and the ownership of the section began at 0. `call` runs a
/// command as a caller of the set.
pub(crate) fn make_counter_fall(owner: &Server, uid: &str, call: impl Fn(&[&str]) -> Value) {
    call(&["advance", uid, &ADVANCED_TO.to_string(), "--yes"]);
    let memory = Memory::of(owner);
    let candidates = memory.places_of(ADVANCED_TO | MARK);
    let next = digits(&call(&["next", uid])["items"][0]["value"]);
    assert_eq!(next, ADVANCED_TO + 1);
    // Only the slot has changed with the counter.
    let slots: Vec<u64> = candidates.into_iter().filter(|at| memory.read(*at) == Some(next)).collect();
    assert_eq!(slots.len(), 1, "places of the counter: {slots:?}");
    memory.write(slots[0], FALLEN);
    let again = digits(&call(&["next", uid])["items"][0]["value"]);
    assert_eq!(again, FALLEN + 1, "the number is allocated a second time");
}

/// The memory of another process.
struct Memory {
    file: File,
    /// Ranges of addresses that the process may write.
    writable: Vec<(u64, u64)>,
}

impl Memory {
    fn of(server: &Server) -> Memory {
        let dir = format!("/proc/{}", server.pid().as_raw_nonzero());
        let maps = fs::read_to_string(format!("{dir}/maps")).unwrap();
        let range = |line: &str| {
            let mut words = line.split(' ');
            let (start, end) = words.next()?.split_once('-')?;
            let is_writable = words.next()?.starts_with("rw");
            let number = |hex| u64::from_str_radix(hex, 16).ok();
            is_writable.then_some((number(start)?, number(end)?))
        };
        let writable = maps.lines().filter_map(range).collect();
        let file = File::options().read(true).write(true).open(format!("{dir}/mem"));
        Memory { file: file.expect("the memory of a child that may dump its core"), writable }
    }

    /// Returns the addresses of the aligned words with this value.
    fn places_of(&self, word: u64) -> Vec<u64> {
        const BLOCK: u64 = 1 << 20;
        let (mut places, mut block) = (Vec::new(), vec![0; BLOCK as usize]);
        for (start, end) in &self.writable {
            for from in (*start..*end).step_by(BLOCK as usize) {
                let length = BLOCK.min(end - from) as usize;
                // A range may have been unmapped since.
                if self.file.read_exact_at(&mut block[..length], from).is_err() {
                    continue;
                }
                let words = block[..length].chunks_exact(8).enumerate();
                let same = words.filter(|(_, bytes)| **bytes == word.to_ne_bytes());
                places.extend(same.map(|(at, _)| from + 8 * at as u64));
            }
        }
        places
    }

    fn read(&self, at: u64) -> Option<u64> {
        let mut word = [0; 8];
        self.file.read_exact_at(&mut word, at).ok()?;
        Some(u64::from_ne_bytes(word))
    }

    fn write(&self, at: u64, word: u64) {
        self.file.write_all_at(&word.to_ne_bytes(), at).unwrap();
    }
}

#[test]
fn a_counter_that_falls_in_memory_is_counted_and_logged() {
    let place = Place::new();
    let set = place.set_file("three-node.toml").display().to_string();
    let _stores = Set { place: &place, file: set.clone(), dirs: "n" }.stores();
    // There is one allocator, so that it owns the section.
    let a1 = place.server_with_files("a1", &["alloc", "--set", &set, "--name", "a1", "--cores", "1"], FILES);
    let addr = format!("http://{}:7400", place.host);
    eventually("a number is allocated", || seqsvr(&["next", "1", "--addr", &addr]).status.success().then_some(()));
    let violations = |cause: &str| {
        let line = ["seqsvr_order_violation_total{node=\"a1\",cause=\"", cause, "\"} "].concat();
        let text = get(&format!("{}:7480", place.host), "/metrics");
        text.lines().find_map(|text| text.strip_prefix(&line)?.parse::<u64>().ok())
    };
    for cause in ["fell", "above_ceiling", "response"] {
        assert_eq!(violations(cause), Some(0), "{cause}");
    }
    make_counter_fall(&a1, "1", |args| crate::cluster::seqsvr_json(&[args, &["--addr", &addr]].concat()));
    eventually("the violation is counted", || violations("fell").filter(|count| *count > 0));
    assert_eq!(violations("above_ceiling"), Some(0));
    let listed = crate::cluster::seqsvr_json(&["events", "list", "--set", &set, "--kind", "order_violated"]);
    let event = &listed["items"][0];
    assert!(event["source"] == "a1" && event["severity"] == "fault", "{listed:#}");
    let log = a1.log();
    assert!(log.contains("the order of numbers is violated"), "{log}");
}
