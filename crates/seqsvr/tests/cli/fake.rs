//! The command `fake`: its first line, its endpoints, faults on request, and its end.

use std::io::{self, BufRead, BufReader, Lines, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use seq_client::{CallError, Client};
use serde_json::{Value, json};

/// A running `seqsvr fake`. Its process ends with its stdin, which is dropped with this value.
struct Fake {
    process: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    ready: Value,
}

impl Fake {
    fn start(args: &[&str]) -> Fake {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seqsvr"));
        command.args(["fake", "-o", "json"]).args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let (stdin, stdout) = (process.stdin.take(), process.stdout.take().unwrap());
        let mut lines = BufReader::new(stdout).lines();
        let ready = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        Fake { process, stdin, lines, ready }
    }

    /// Requests a fault, and returns the response.
    fn request(&mut self, line: &str) -> Value {
        writeln!(self.stdin.as_ref().unwrap(), "{line}").unwrap();
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }

    #[track_caller]
    fn inject(&mut self, fault: &Value) {
        assert_eq!(self.request(&fault.to_string()), json!({"ok": true}), "{fault}");
    }

    fn grpc(&self, node: usize) -> String {
        self.ready["allocs"][node]["grpc"].as_str().unwrap().to_owned()
    }

    async fn client(&self) -> Client {
        Client::connect(self.grpc(0)).await.unwrap()
    }

    /// Sends a request for the next number as JSON, and returns the status line and the body.
    fn next_by_http(&self, node: usize, uid: u64) -> io::Result<(String, Value)> {
        let addr = self.grpc(node);
        let addr = addr.trim_start_matches("http://");
        let body = format!(r#"{{"uid":"{uid}"}}"#);
        let mut stream = connect(addr)?;
        write!(
            stream,
            "POST /seqsvr.v1.SequenceService/Next HTTP/1.1\r\nhost: {addr}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        let (head, body) = response.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok((head.lines().next().unwrap_or_default().to_owned(), serde_json::from_str(body)?))
    }

    fn redis(&self, node: usize) -> io::Result<Redis> {
        Ok(Redis(BufReader::new(connect(self.ready["allocs"][node]["redis"].as_str().unwrap())?)))
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        // A test that failed leaves the process behind otherwise until this value is dropped.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn connect(addr: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(addr)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    Ok(stream)
}

/// A connection to a Redis port.
struct Redis(BufReader<TcpStream>);

impl Redis {
    /// Sends a command, and returns the first line of the reply.
    fn send(&mut self, command: &str) -> io::Result<String> {
        write!(self.0.get_mut(), "{command}\r\n")?;
        let mut reply = String::new();
        match self.0.read_line(&mut reply)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(reply.trim_end().to_owned()),
        }
    }
}

#[track_caller]
fn reason(error: &CallError) -> &str {
    match error {
        CallError::Refused(refused) => &refused.reason,
        error => panic!("{error}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_endpoints_of_a_fake_cluster_have_the_same_counters() {
    let fake = Fake::start(&[]);
    let ready = &fake.ready;
    assert_eq!((&ready["ready"], &ready["uid_end"]), (&json!(true), &json!("1000000")), "{ready}");
    assert_eq!((&ready["series"], &ready["redis_prefix"]), (&json!(["tweets", "media", "orders"]), &json!("seq:")));
    let client = fake.client().await;
    assert_eq!(client.next(42).await.unwrap().value, 1);
    // A node serves sections of other nodes, too.
    for (node, value) in [(0, "2"), (1, "3")] {
        let (status, body) = fake.next_by_http(node, 42).unwrap();
        assert_eq!((status.as_str(), &body["value"]), ("HTTP/1.1 200 OK", &json!(value)), "{body}");
    }
    let mut redis = fake.redis(1).unwrap();
    assert_eq!(redis.send("INCRBY seq:42 5").unwrap(), ":8");
    let current = client.current(42).await.unwrap();
    assert_eq!((current.value, current.exact), (8, true));
    client.advance(42, 100).await.unwrap();
    assert_eq!(redis.send("INCR seq:42").unwrap(), ":101");

    assert_eq!(redis.send("INCR id:orders").unwrap(), ":1");
    assert_eq!(client.series("orders").await.unwrap().next().await.unwrap().get(), 2);
    let tweets = client.series("tweets").await.unwrap();
    let ids: Vec<_> = tweets.take(100).await.unwrap().collect();
    assert!(ids.len() == 100 && ids.is_sorted() && ids[0].get() > 1 << 60, "{ids:?}");

    let conversations = client.keyspace("main").await.unwrap();
    assert_eq!(conversations.next_n("conv:8f3a", 3).await.unwrap().value, 3);
    let many: Vec<String> = (0..2_000).map(|key| format!("{{tag}}{key}")).collect();
    for result in conversations.next_many(&many).await.unwrap() {
        assert_eq!(result.unwrap().value, 1);
    }
    conversations.advance("conv:8f3a", 10).await.unwrap();
    assert_eq!(conversations.current("conv:8f3a").await.unwrap().value, 10);
    assert_eq!(reason(&client.keyspace("other").await.unwrap_err()), "UNKNOWN_KEYSPACE");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_refused_on_request() {
    let mut fake = Fake::start(&[]);
    let client = fake.client().await;
    fake.inject(&json!({"fault": "refuse", "node": "a1", "reason": "EXHAUSTED"}));
    assert_eq!(reason(&client.next(42).await.unwrap_err()), "EXHAUSTED");
    assert_eq!(client.next(42).await.unwrap().value, 1);

    // The client retries what it may.
    fake.inject(&json!({"fault": "refuse", "reason": "unserved", "times": 2}));
    assert_eq!(client.next(42).await.unwrap().value, 2);
    fake.inject(&json!({"fault": "clear"}));

    // A refusal of a uid concerns no other item of a batch.
    fake.inject(&json!({"fault": "refuse", "uid": 43, "reason": "OTHER_TENANTS_UID"}));
    let mut results = client.next_many(&[42, 43, 44]).await.unwrap().into_iter();
    assert_eq!(results.next().unwrap().unwrap().value, 3);
    assert_eq!(reason(&results.next().unwrap().unwrap_err()), "OTHER_TENANTS_UID");
    assert_eq!(results.next().unwrap().unwrap().value, 1);
    fake.inject(&json!({"fault": "clear"}));

    fake.inject(&json!({"fault": "refuse", "reason": "QUOTA_EXCEEDED", "times": 2}));
    let (status, body) = fake.next_by_http(0, 42).unwrap();
    assert_eq!(status, "HTTP/1.1 429 Too Many Requests", "{body}");
    let details = body["details"].as_array().unwrap();
    assert!(details.iter().any(|detail| detail["debug"]["reason"] == "QUOTA_EXCEEDED"), "{body}");
    let mut redis = fake.redis(1).unwrap();
    let refused = redis.send("INCR seq:42").unwrap();
    assert!(refused.starts_with('-') && refused.contains("quota"), "{refused}");
    fake.inject(&json!({"fault": "clear"}));
    assert_eq!(redis.send("INCR seq:42").unwrap(), ":4");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_delayed_and_held_on_request() {
    let mut fake = Fake::start(&["--nodes", "1"]);
    let client = fake.client().await;
    fake.inject(&json!({"fault": "delay", "ms": 300}));
    let before = std::time::Instant::now();
    assert_eq!(client.next(42).await.unwrap().value, 1);
    assert!(before.elapsed() >= Duration::from_millis(300));
    fake.inject(&json!({"fault": "delay", "ms": 0}));

    // Nothing responds, so the outcome is unknown to the client; no number is consumed.
    fake.inject(&json!({"fault": "hold", "on": true}));
    client.with_deadline(Duration::from_millis(200)).next(42).await.unwrap_err();
    let patient = client.with_deadline(Duration::from_secs(20));
    let release = async { fake.inject(&json!({"fault": "hold", "on": false})) };
    let (held, ()) = tokio::join!(patient.next(43), release);
    assert_eq!(held.unwrap().value, 1);
    assert_eq!(client.next(42).await.unwrap().value, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_cut_on_request() {
    let mut fake = Fake::start(&[]);
    let client = fake.client().await;
    assert_eq!(client.next(42).await.unwrap().value, 1);

    // A lost response: the number is consumed, and the SDK takes the next number.
    fake.inject(&json!({"fault": "cut", "node": "a1", "times": 1}));
    let taken = client.next(42).await.unwrap();
    assert!(taken.value == 3 && taken.lost >= 1, "{taken:?}");
    fake.inject(&json!({"fault": "cut", "node": "a1", "times": 1}));
    fake.next_by_http(0, 42).unwrap_err();
    fake.inject(&json!({"fault": "cut", "node": "a2", "times": 1}));
    let mut redis = fake.redis(1).unwrap();
    redis.send("INCR seq:42").unwrap_err();
    assert_eq!(fake.redis(1).unwrap().send("INCR seq:42").unwrap(), ":6");

    // Open connections end at once, also those of requests in flight. New connections are accepted. A connection is
    // open for certain after its first reply.
    let (mut idle, mut held) = (fake.redis(0).unwrap(), fake.redis(1).unwrap());
    for redis in [&mut idle, &mut held] {
        assert_eq!(redis.send("GET seq:8").unwrap(), "$-1");
    }
    fake.inject(&json!({"fault": "hold", "on": true}));
    write!(held.0.get_mut(), "INCR seq:8\r\n").unwrap();
    fake.inject(&json!({"fault": "cut"}));
    let is_closed = |error: io::Error| !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
    assert!(is_closed(idle.send("GET seq:8").unwrap_err()));
    assert!(is_closed(held.0.read_line(&mut String::new()).unwrap_err()));
    fake.inject(&json!({"fault": "clear"}));
    assert_eq!(client.next(42).await.unwrap().prev, 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn sections_move_and_are_taken_over_on_request() {
    let mut fake = Fake::start(&["--sets", "2", "--uids", "4000", "--section-size", "1000"]);
    assert_eq!(fake.ready["further_sets"][0]["set"], "fake-2", "{}", fake.ready);
    let client = fake.client().await;
    let first = client.next(42).await.unwrap();
    assert_eq!((first.value, first.epoch), (1, 1));
    fake.inject(&json!({"fault": "move", "uid": "42", "to": "fake-2/a2"}));
    let moved = client.next(42).await.unwrap();
    assert_eq!((moved.value, moved.prev, moved.epoch), (2, 1, 2));

    fake.inject(&json!({"fault": "take_over", "uid": "42", "to": "fake/a2"}));
    let read = client.current(42).await.unwrap();
    assert!(!read.exact && read.value == 10_002, "{read:?}");
    let taken = client.next(42).await.unwrap();
    assert_eq!((taken.value, taken.prev, taken.epoch), (10_003, 0, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_stop_crash_and_start_on_request() {
    let mut fake = Fake::start(&["--uids", "4000", "--section-size", "1000"]);
    let client = fake.client().await;
    let conversations = client.keyspace("main").await.unwrap();
    for uid in [42, 1_042] {
        assert_eq!(client.next(uid).await.unwrap().value, 1);
    }
    // Some of these keys have each owner.
    let keys: Vec<String> = (0..8).map(|key| format!("conv:{key}")).collect();
    for key in &keys {
        assert_eq!(conversations.next(key).await.unwrap().value, 1);
    }

    // An orderly stop skips nothing.
    fake.inject(&json!({"fault": "stop", "node": "a1"}));
    let stopped = client.next(42).await.unwrap();
    assert_eq!((stopped.value, stopped.epoch), (2, 2));
    for key in &keys {
        assert_eq!(conversations.next(key).await.unwrap().prev, 1);
    }
    fake.next_by_http(0, 42).unwrap_err();
    fake.redis(0).map(|_| ()).unwrap_err();
    let again = fake.request(r#"{"fault":"kill","node":"a1"}"#);
    assert!(again["error"].as_str().unwrap().contains(r#"node "a1" is stopped"#), "{again}");
    fake.inject(&json!({"fault": "start", "node": "a1"}));
    assert_eq!(fake.next_by_http(0, 42).unwrap().1["value"], "3");

    // A crash skips numbers of the sections that the node had.
    fake.inject(&json!({"fault": "kill", "node": "a2"}));
    for uid in [42, 1_042] {
        let killed = client.next(uid).await.unwrap();
        assert!(killed.value > 10_000 && killed.prev == 0, "{killed:?}");
    }
    for key in &keys {
        assert!(conversations.next(key).await.unwrap().value > 10_000);
    }

    // Without any node, no request is served.
    fake.inject(&json!({"fault": "kill", "node": "a1"}));
    client.with_deadline(Duration::from_millis(200)).next(42).await.unwrap_err();
    fake.inject(&json!({"fault": "start", "node": "a1"}));
    assert!(client.next(42).await.unwrap().value > 20_000);
}

#[test]
fn wrong_faults_are_explained_and_the_cluster_ends_with_stdin() {
    let mut fake = Fake::start(&["--uids", "4000", "--section-size", "1000", "--sets", "2"]);
    for (line, said) in [
        ("{}", "`seqsvr fake --help` has examples"),
        (r#"{"fault":"stop","node":"a9"}"#, "the nodes are a1, a2, fake-2/a1, fake-2/a2"),
        (r#"{"fault":"refuse","reason":"NEVER"}"#, "the reasons are UID_OUT_OF_RANGE"),
        (r#"{"fault":"refuse","reason":"NO_LEADER"}"#, "no call for numbers is refused with the reason"),
        (r#"{"fault":"refuse","reason":"UNSERVED","times":0}"#, "times 0 is not in 1..=1000000"),
        (r#"{"fault":"move","uid":"4000","to":"a2"}"#, "in 0..4000"),
        (r#"{"fault":"start","node":"a1"}"#, "runs already"),
        (r#"{"fault":"delay","milliseconds":5}"#, "unknown field `milliseconds`"),
    ] {
        let error = fake.request(line);
        assert!(error["error"].as_str().is_some_and(|error| error.contains(said)), "{line}: {error}");
    }
    writeln!(fake.stdin.as_ref().unwrap()).unwrap();
    fake.inject(&json!({"fault": "clear"}));
    drop(fake.stdin.take());
    assert!(fake.process.wait().unwrap().success());
}

#[test]
fn the_faults_of_the_documents_are_known() {
    let page = include_str!("../../../../docs/testing.md");
    let help = Command::new(env!("CARGO_BIN_EXE_seqsvr")).args(["fake", "--help"]).output().unwrap().stdout;
    let help = String::from_utf8(help).unwrap();
    let mut kinds = std::collections::BTreeSet::new();
    for text in [page, &help] {
        for begin in text.match_indices(r#"{"fault""#).map(|(begin, _)| begin) {
            let line = &text[begin..=begin + text[begin..].find('}').unwrap()];
            kinds.insert(serde_json::from_str::<Value>(line).unwrap()["fault"].as_str().unwrap().to_owned());
            let mut fake = Fake::start(&[]);
            if line.contains("start") {
                fake.inject(&json!({"fault": "stop", "node": "a1"}));
            }
            assert_eq!(fake.request(line), json!({"ok": true}), "{line}");
        }
    }
    let all = ["clear", "cut", "delay", "hold", "kill", "move", "refuse", "start", "stop", "take_over"];
    assert!(kinds.iter().eq(all), "{kinds:?}");
}

#[test]
fn the_shell_script_of_the_documents_gets_the_numbers_that_it_states() {
    let page = include_str!("../../../../docs/testing.md");
    let (_, rest) = page.split_once("## Redis and JSON").unwrap();
    let (_, rest) = rest.split_once("```sh\n").unwrap();
    let (script, _) = rest.split_once("```").unwrap();
    // A comment at the end of a line of curl has the number.
    let stated: Vec<&str> =
        script.lines().filter_map(|line| Some(line.strip_prefix("curl")?.rsplit_once("# ")?.1)).collect();
    assert_eq!(stated, ["1", "10002"]);
    let (place, program) = (tempfile::tempdir().unwrap(), std::path::Path::new(env!("CARGO_BIN_EXE_seqsvr")));
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let script = script.replace("curl -s -X POST", "curl -s -w '\\n' -X POST");
    let output = Command::new("sh").args(["-ec", &script]).current_dir(&place).env("PATH", path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let printed: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(printed, stated, "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn sections_are_limited() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seqsvr"));
    let output = command.args(["fake", "--uids", "1000000000", "--section-size", "100"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("more than 100000 sections") && said.contains("--section-size"), "{said}");
}
