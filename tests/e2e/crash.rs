//! Effects of a killed process, and of a refused far advance, on JSON and Redis clients.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use seq_testkit::eventually;

use crate::cluster::{Place, Server};

/// Timeout of a reply on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

struct Cluster {
    servers: Vec<Server>,
    allocs: [Server; 2],
    place: Place,
}

impl Cluster {
    /// Starts three stores, and two allocators with a Redis port each.
    fn start() -> Cluster {
        let place = Place::new();
        let set = place.set_file("three-node.toml").display().to_string();
        let servers = (1..=3).map(|id| {
            let (name, id) = (format!("s{id}"), id.to_string());
            let data = place.path(&name).display().to_string();
            place.server(&name, &["store", "--set", &set, "--id", &id, "--data", &data])
        });
        let servers = servers.collect();
        let alloc = |name| place.server(name, &["alloc", "--set", &set, "--name", name, "--cores", "1"]);
        let allocs = [alloc("a1"), alloc("a2")];
        let cluster = Cluster { servers, allocs, place };
        // Both nodes allocate a seq of every section: then each of them owns some sections and has routes to the
        // others.
        eventually("both nodes serve every section", || {
            let replies = [0, 1].map(|node| cluster.redis(node, &cluster.of_all_sections("INCR")));
            replies.iter().all(|replies| replies.lines().all(|reply| reply.starts_with(':'))).then_some(())
        });
        eventually("both nodes own sections", || {
            let owned = |port| {
                let metrics = crate::dev::get(&format!("{}:{port}", cluster.place.host), "/metrics");
                metrics.lines().any(|line| line.starts_with("seqsvr_sections{") && !line.ends_with(" 0"))
            };
            ([7480, 7481].into_iter().all(owned)).then_some(())
        });
        cluster
    }

    /// Returns one command for a uid of each of 20 sections.
    fn of_all_sections(&self, command: &str) -> String {
        (0..20).map(|section| format!("{command} seq:{}\r\n", section * 100_000 + 7)).collect()
    }

    /// Returns the replies of a node to the commands of one connection.
    fn redis(&self, node: usize, commands: &str) -> String {
        let Ok(mut stream) = TcpStream::connect((self.place.host, [7479, 7478][node])) else {
            return "closed".to_owned();
        };
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.write_all(format!("{commands}QUIT\r\n").as_bytes()).unwrap();
        let mut replies = String::new();
        stream.read_to_string(&mut replies).unwrap();
        replies.strip_suffix("+OK\r\n").unwrap_or(&replies).to_owned()
    }

    /// Returns the value of the metric of a1 whose line has this prefix.
    fn metric(&self, line: &str) -> f64 {
        let metrics = crate::dev::get(&format!("{}:7480", self.place.host), "/metrics");
        let found = metrics.lines().find(|found| found.starts_with(line)).unwrap_or_else(|| panic!("no {line}"));
        found.rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// Returns the response of a1 to a JSON request.
    fn json(&self, method: &str, body: &str) -> String {
        let mut stream = TcpStream::connect((self.place.host, 7400)).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let length = body.len();
        write!(
            stream,
            "POST /seqsvr.v1.SequenceService/{method} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }
}

#[test]
fn a_crash_is_a_slow_call_and_no_error() {
    let mut cluster = Cluster::start();
    let [_, a2] = &mut cluster.allocs;
    a2.kill();
    // All calls start at once, each on its own connection, so every call for a section of a2 waits for the whole
    // failover.
    let cluster = &cluster;
    let responses: Vec<String> = thread::scope(|scope| {
        let calls: Vec<_> = (0..20)
            .map(|section| {
                let uid = section * 100_000 + 7;
                scope.spawn(move || match section % 2 {
                    0 => cluster.redis(0, &format!("INCR seq:{uid}\r\n")),
                    _ => cluster.json("Next", &format!(r#"{{"uid":{uid}}}"#)),
                })
            })
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    for response in responses {
        assert!(response.starts_with(':') || response.contains(r#"{"value":"#), "{response}");
    }
    // Neighbours without a seq: `GET` returns the bound of a lost section, and `SEQ.GET` reports it as a bound.
    let (mut lost, mut kept) = (0, 0);
    for uid in (0..20).map(|section| section * 100_000 + 8) {
        let reply =
            cluster.redis(0, &format!("SEQ.GET seq:{uid}\r\nGET seq:{uid}\r\nINCR seq:{uid}\r\nSEQ.GET seq:{uid}\r\n"));
        match &reply.lines().collect::<Vec<_>>()[..] {
            ["*3", ":0", "$5", "exact", _, "$-1", ":1", "*3", ":1", "$5", "exact", _] => kept += 1,
            ["*3", ":10000", "$11", "upper_bound", _, "$5", "10000", ":10001", "*3", ":10001", "$5", "exact", _] => {
                lost += 1
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(lost > 0 && kept > 0, "{lost} sections of a2, {kept} of a1");
    let probe = crate::dev::get(&format!("{}:7400", cluster.place.host), "/readyz");
    assert!(probe.starts_with("HTTP/1.1 200 ") && probe.ends_with("\r\n\r\nready\n"), "{probe}");
    assert_eq!(cluster.servers.len(), 3);
}

#[test]
fn a_far_advance_does_not_take_the_neighbours_along() {
    let mut cluster = Cluster::start();
    let refused = (0..2)
        .map(|node| cluster.redis(node, &cluster.of_all_sections("SET").replace("\r\n", " 4611686018427387903\r\n")));
    for replies in refused.collect::<Vec<_>>() {
        for reply in replies.lines() {
            assert!(reply.starts_with("-ERR 4611686018427387903 is above 10000"), "{reply}");
        }
    }
    let refused = cluster.json("Advance", r#"{"uid":7,"to":"9007199254740993"}"#);
    assert!(refused.contains("ADVANCE_TOO_FAR") && refused.starts_with("HTTP/1.1 400"), "{refused}");
    let [_, a2] = &mut cluster.allocs;
    a2.kill();
    // These uids have no seq, and are next to the uids of the refused advances.
    let neighbours = cluster.of_all_sections("INCR").replace("07\r\n", "08\r\n");
    let values = eventually("every section has an owner", || {
        let replies = cluster.redis(0, &neighbours);
        replies.lines().map(|reply| reply.strip_prefix(':')?.parse::<u64>().ok()).collect::<Option<Vec<_>>>()
    });
    assert!(values.iter().all(|value| *value < 100_000), "{values:?}");
    let highest = cluster.metric("seqsvr_ceiling_max{");
    assert!(highest > 0.0 && highest < 200_000.0, "{highest}");

    // Each section of a2 loses at most all numbers below its first ceiling, 10,000.
    let burned = |cause| cluster.metric(&[r#"seqsvr_burned_sequences_total{set="im-a",cause=""#, cause].concat());
    let sections = burned("takeover") / 10_000.0;
    assert!(sections.fract() == 0.0 && (1.0..=20.0).contains(&sections), "{sections}");
    assert_eq!((burned("handover"), burned("advance")), (0.0, 0.0), "a refused advance skips nothing");
    let advanced = cluster.json("Advance", r#"{"uid":9,"to":"2000000"}"#);
    assert!(advanced.starts_with("HTTP/1.1 200"), "{advanced}");
    let skipped = eventually("the advance is counted", || Some(burned("advance")).filter(|skipped| *skipped > 0.0));
    assert!((1_900_000.0..=2_000_000.0).contains(&skipped), "{skipped}");
}
