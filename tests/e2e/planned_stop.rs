//! A planned stop and a drain of an allocator with thousands of buckets: while clients count, all sections are handed
//! over with their exact counters, within the timeout of a shutdown and within half a minute.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use seq_testkit::eventually;

use crate::cluster::{Place, Server, seqsvr_json};

/// Keys that are counted; about 500 buckets of each of the two allocators have a key.
const KEYS: usize = 1_000;

/// Time between two calls of the load.
const PACE: Duration = Duration::from_millis(2);

/// A set of three stores and two allocators, with a keyspace.
struct Set {
    file: String,
    config: String,
    /// The processes by name. They are dropped before the place, which has their logs.
    servers: BTreeMap<&'static str, Server>,
    place: Place,
}

impl Set {
    fn start() -> Set {
        let place = Place::new();
        let (file, config) = (place.set_file("three-node.toml"), place.path("seqsvr.toml"));
        // Sections stay where they are unless an allocator stops or is drained.
        fs::write(&config, "[redis]\nkeyspace = \"main\"\n[store]\nrebalance_after_ms = 60000\n").unwrap();
        let (file, config) = (file.display().to_string(), config.display().to_string());
        let mut set = Set { file, config, servers: BTreeMap::new(), place };
        for (name, id) in [("s1", "1"), ("s2", "2"), ("s3", "3")] {
            let data = set.place.path(name).display().to_string();
            let args = ["store", "--set", &set.file, "--id", id, "--data", &data, "--config", &set.config];
            let server = set.place.server(name, &args);
            set.servers.insert(name, server);
        }
        ["a1", "a2"].into_iter().for_each(|name| set.start_alloc(name));
        seqsvr_json(&["health", "--wait-s", "60", "--set", &set.file]);
        set
    }

    fn start_alloc(&mut self, name: &'static str) {
        let args = ["alloc", "--set", &self.file, "--name", name, "--cores", "1", "--config", &self.config];
        self.servers.insert(name, self.place.server(name, &args));
    }

    /// Returns the number of sections of each allocator that lives.
    fn sections(&self) -> BTreeMap<String, u64> {
        let list = seqsvr_json(&["node", "list", "--set", &self.file]);
        let nodes = list["nodes"].as_array().unwrap().iter();
        let sections = |node: &serde_json::Value| node["sections"].as_u64().unwrap_or_default();
        nodes.map(|node| (node["name"].as_str().unwrap().to_owned(), sections(node))).collect()
    }

    fn redis(&self, port: u16) -> Redis {
        let stream = eventually("the port for Redis accepts", || TcpStream::connect((self.place.host, port)).ok());
        stream.set_nodelay(true).unwrap();
        Redis(BufReader::new(stream))
    }

    fn log(&self, name: &str) -> String {
        self.servers[name].log()
    }
}

/// A connection to a port for Redis.
struct Redis(BufReader<TcpStream>);

impl Redis {
    /// Sends a command, and returns the first line of the reply.
    fn send(&mut self, words: &[&str]) -> String {
        let mut command = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| command.push_str(&format!("${}\r\n{word}\r\n", word.len())));
        self.0.get_mut().write_all(command.as_bytes()).unwrap();
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Takes the next number of a key, which must follow `last`.
    fn next(&mut self, key: &str, last: &mut u64) {
        assert_eq!(self.send(&["INCR", key]), format!(":{}", *last + 1), "{key}");
        *last += 1;
    }
}

fn key(index: usize) -> String {
    format!("conv:{index}")
}

/// A client that counts all keys, one call at a time, until it is stopped. Every call must return the next number.
struct Load {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(Vec<u64>, Duration)>,
}

impl Load {
    fn start(mut redis: Redis, mut last: Vec<u64>) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut longest = Duration::ZERO;
            for index in (0..KEYS).cycle() {
                if stopping.load(Relaxed) {
                    break;
                }
                let sent = Instant::now();
                redis.next(&key(index), &mut last[index]);
                longest = longest.max(sent.elapsed());
                std::thread::park_timeout(PACE);
            }
            (last, longest)
        });
        Load { stop, thread }
    }

    /// Stops the client; returns the last number of each key, and the longest time of a call.
    fn stop(self) -> (Vec<u64>, Duration) {
        self.stop.store(true, Relaxed);
        self.thread.join().expect("each call returned the next number")
    }
}

#[test]
fn a_stop_and_a_drain_hand_over_thousands_of_buckets_in_time() {
    let mut set = Set::start();
    seqsvr_json(&["keyspace", "create", "main", "--yes", "--set", &set.file]);
    eventually("both allocators own about half of the sections", || {
        set.sections().values().all(|sections| *sections > 7_500).then_some(())
    });
    let mut redis = set.redis(7478);
    let mut last = vec![0; KEYS];
    (0..KEYS).for_each(|index| redis.next(&key(index), &mut last[index]));

    let load = Load::start(redis, last);
    let stopped = Instant::now();
    let code = set.servers.get_mut("a1").unwrap().terminate();
    let took = stopped.elapsed();
    let (last, longest) = load.stop();
    println!("stop of 8,192 buckets: {took:?}, longest call {longest:?}, {} numbers", last.iter().sum::<u64>());
    assert_eq!(code, Some(0), "{}", set.log("a1"));
    assert!(!set.log("a2").contains("a gap"), "{}", set.log("a2"));
    assert!(took < Duration::from_secs(10), "{took:?}");

    set.start_alloc("a1");
    let mut redis = set.redis(7479);
    eventually("the allocator serves again", || (redis.send(&["EXISTS", &key(0)]) == ":1").then_some(()));
    let load = Load::start(redis, last);
    let drained = Instant::now();
    seqsvr_json(&["node", "drain", "a2", "--yes", "--set", &set.file]);
    eventually("the drained allocator owns nothing", || (set.sections()["a2"] == 0).then_some(()));
    let took = drained.elapsed();
    let (last, longest) = load.stop();
    println!("drain of 16,384 buckets: {took:?}, longest call {longest:?}, {} numbers", last.iter().sum::<u64>());
    assert!(!set.log("a1").contains("a gap"), "{}", set.log("a1"));
    assert!(took < Duration::from_secs(30), "{took:?}");
    let mut redis = set.redis(7478);
    assert_eq!(set.sections()["a1"], 16_484);
    for (index, last) in last.iter().enumerate() {
        assert_eq!(redis.send(&["INCR", &key(index)]), format!(":{}", last + 1), "{}", key(index));
    }
}
