//! A backend with Snowflake ids and hashes as user ids calls the service with them unchanged, over each protocol, while
//! an owner is killed.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use seq_client::Client;
use seq_testkit::eventually;
use serde_json::Value;

use crate::cluster::{Place, Server, digits, seqsvr, seqsvr_json};
use crate::redis::{Node, forwarded};

/// Snowflake ids, a hash, the highest uid, and the lowest uid that the set file does not declare.
const SPARSE: [u64; 5] =
    [1_234_567_890_123_456_789, 1_234_567_890_123_456_790, 0xcbf2_9ce4_8422_2325, u64::MAX, 10_000_000];

/// A uid that the set file declares.
const DECLARED: u64 = 42;

const TIMEOUT: Duration = Duration::from_secs(20);

/// Starts a set of three stores and two AllocSvrs. Returns the path of its set file, its servers and the AllocSvrs.
fn start(place: &Place) -> (String, BTreeMap<&'static str, Server>, [Node; 2]) {
    let (file, host) = (place.set_file("three-node.toml").display().to_string(), place.host.to_string());
    let mut servers = BTreeMap::new();
    for (name, id) in [("s1", "1"), ("s2", "2"), ("s3", "3")] {
        let data = place.path(name).display().to_string();
        servers.insert(name, place.server(name, &["store", "--set", &file, "--id", id, "--data", &data]));
    }
    for name in ["a1", "a2"] {
        servers.insert(name, place.server(name, &["alloc", "--set", &file, "--name", name, "--cores", "1"]));
    }
    let node = |grpc: &str, port: &str| Node {
        grpc: format!("http://{host}:{grpc}"),
        host: host.clone(),
        port: port.to_owned(),
    };
    seqsvr_json(&["health", "--wait-s", "60", "--set", &file]);
    (file, servers, [node("7400", "7479"), node("7401", "7478")])
}

/// Sends a command in one line to the Redis port of a node, and returns the first line of the reply.
fn redis(node: &Node, command: &str) -> String {
    let mut stream = TcpStream::connect(format!("{}:{}", node.host, node.port)).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// Sends a POST request to a node, and returns the body of the response.
fn post(node: &Node, path: &str, body: &str) -> String {
    let addr = node.grpc.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: {addr}\r\n{kind}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (_, body) = response.split_once("\r\n\r\n").unwrap_or_default();
    body.trim_end().to_owned()
}

/// Takes the next number of a uid over JSON; `None` if it is refused for now.
fn json(node: &Node, uid: u64) -> Option<u64> {
    let body = post(node, "/seqsvr.v1.SequenceService/Next", &format!(r#"{{"uid":"{uid}"}}"#));
    let response: Value = serde_json::from_str(&body).ok()?;
    response["value"].as_str()?.parse().ok()
}

/// The last numbers of uids, to which every new number is compared.
#[derive(Default)]
struct Last(BTreeMap<u64, u64>);

impl Last {
    fn add(&mut self, uid: u64, value: u64, via: &str) {
        let last = self.0.entry(uid).or_default();
        assert!(value > *last, "uid {uid} got {value} over {via} after {last}");
        *last = value;
    }

    /// Takes numbers of each uid over each protocol from a node, and repeats refused calls.
    async fn round(&mut self, client: &Client, node: &Node) {
        let repeat = |what: &str, take: &dyn Fn() -> Option<u64>| eventually(what, take);
        for uid in SPARSE.into_iter().chain([DECLARED]) {
            self.add(uid, client.next(uid).await.unwrap().value, "gRPC");
            let incr = || redis(node, &format!("INCR seq:{uid}")).strip_prefix(':')?.parse().ok();
            self.add(uid, repeat("INCR", &incr), "RESP");
            self.add(uid, repeat("JSON", &|| json(node, uid)), "JSON");
            let text = || post(node, &format!("/api/seq/next/{uid}"), "").parse().ok();
            self.add(uid, repeat("text", &text), "text");
        }
        let uids: Vec<u64> = SPARSE.into_iter().chain([DECLARED, SPARSE[0]]).collect();
        for (uid, taken) in uids.iter().zip(client.next_many(&uids).await.unwrap()) {
            self.add(*uid, taken.unwrap().value, "a batch");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sparse_uids_are_served_as_declared_ones_while_an_owner_is_killed() {
    let place = Place::new();
    let (file, mut servers, [one, two]) = start(&place);
    let outside = redis(&two, &format!("INCR seq:{}", SPARSE[0]));
    assert!(outside.starts_with("-ERR") && outside.contains("is outside the set's uids"), "{outside}");
    let made = seqsvr_json(&["keyspace", "create", "users", "--uids", "--yes", "--set", &file]);
    assert_eq!((made["changed"].as_bool(), made["keyspace"]["uids"].as_bool()), (Some(true), Some(true)), "{made:#}");
    let second = seqsvr(&["keyspace", "create", "more", "--uids", "--yes", "--set", &file]);
    let text = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(text.contains("TOO_MANY_SERIES") && text.contains("\"users\""), "{text}");
    let client = Client::builder().seed(&two.grpc).deadline(TIMEOUT).connect().await.unwrap();
    for uid in SPARSE {
        eventually("both nodes serve the uid", || {
            let served = [&one, &two].map(|node| redis(node, &format!("GET seq:{uid}")));
            served.iter().all(|reply| reply == "$-1").then_some(())
        });
    }

    let mut last = Last::default();
    for node in [&one, &two, &two] {
        last.round(&client, node).await;
    }
    for uid in SPARSE {
        let value = last.0[&uid].to_string();
        let read = &seqsvr_json(&["current", &uid.to_string(), "--addr", &one.grpc])["items"][0];
        assert_eq!((read["value"].as_str(), read["exactness"].as_str()), (Some(&*value), Some("exact")), "{read:#}");
    }
    let set = redis(&one, &format!("SET seq:{} 5000", u64::MAX));
    assert_eq!(set, "+OK");
    last.add(u64::MAX, 5_000, "SET");
    let read = client.current_many(&[u64::MAX, DECLARED]).await.unwrap();
    assert_eq!(read[0].as_ref().unwrap().value, 5_000);
    assert!(forwarded(&one) > 0, "{} nodes forward hashes to owners", servers.len());

    servers.get_mut("a1").unwrap().kill();
    for _ in 0..3 {
        last.round(&client, &two).await;
    }
    let taken = &seqsvr_json(&["next", &SPARSE[0].to_string(), "--addr", &two.grpc])["items"][0];
    last.add(SPARSE[0], digits(&taken["value"]), "the command");
    let slot = seqsvr_json(&["keyspace", "slot", &SPARSE[0].to_string(), "--addr", &two.grpc]);
    assert_eq!((slot["bucket"].as_u64(), slot["owner"].as_str()), (Some(5_033), Some("a2")), "{slot:#}");
}
