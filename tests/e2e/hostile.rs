//! Hostile clients that exhaust a node; wants an optimized build and an idle machine: `just hostile`.
//!
//! A hundred connections of each kind call one AllocSvr, together with a light caller. The memory of the node stays
//! within the budget, its lease is kept, and the light caller is served.

use std::fs;
use std::future::Future;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use prost::Message;
use seq_proto::v1::{NextManyRequest, NextStreamRequest};
use seq_testkit::eventually;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::Request;
use tonic::transport::{Channel, Endpoint};

use crate::cluster::{Place, Server, seqsvr, seqsvr_json};

/// Connections of each kind.
const CONNECTIONS: usize = 100;

/// Requests in flight on each connection of HTTP/2: as many as the node admits.
const STREAMS: usize = 256;

/// Seconds of the light caller, alone and during each attack.
const SECONDS: &str = "10";

/// Interval between samples of the node.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// Memory of a node in addition to the budget, in MiB: 50 for the process; for each connection 1 for a window of bytes
/// that no stream has read and 1 for a read buffer; and a quarter of the rest for freed memory that the allocator keeps
/// for a while.
const BESIDE_MIB: f64 = 250.0;

/// Default budget.
const BUDGET_MIB: f64 = 256.0;

struct Node {
    place: Place,
    alloc: Server,
    _others: Vec<Server>,
}

impl Node {
    fn start() -> Node {
        let place = Place::new();
        let set = place.set_file("three-node.toml").display().to_string();
        let mut others = Vec::new();
        for id in ["1", "2", "3"] {
            let data = place.path(&format!("s{id}")).display().to_string();
            others.push(place.server(&format!("s{id}"), &["store", "--set", &set, "--id", id, "--data", &data]));
        }
        let alloc = place.server("a1", &["alloc", "--set", &set, "--name", "a1"]);
        let node = Node { place, alloc, _others: others };
        let url = node.addr(7400);
        eventually("numbers are allocated", || seqsvr(&["next", "42", "--addr", &url]).status.success().then_some(()));
        node
    }

    fn addr(&self, port: u16) -> String {
        format!("{}:{port}", self.place.host)
    }

    /// Returns the resident memory, in MiB.
    fn resident(&self) -> f64 {
        let path = format!("/proc/{}/statm", self.alloc.pid().as_raw_nonzero());
        let pages: f64 = fs::read_to_string(path).unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        pages * 4096.0 / f64::from(1 << 20)
    }

    fn metric(&self, name: &str) -> f64 {
        let url = format!("http://{}/metrics", self.addr(7480));
        let output = std::process::Command::new("curl").args(["--silent", "--max-time", "5", &url]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_default()
    }
}

/// Samples of the node while the light caller runs.
#[derive(Default)]
struct Seen {
    resident: f64,
    counted: f64,
    lease: f64,
}

/// Runs the light caller, and samples the node until it ends.
fn light(node: &Node) -> (Value, Seen) {
    let (ended, end) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let looking = scope.spawn(move || {
            let mut seen = Seen { lease: f64::MAX, ..Seen::default() };
            while end.recv_timeout(SAMPLE_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                seen.resident = seen.resident.max(node.resident());
                seen.counted = seen.counted.max(node.metric("seqsvr_request_memory_bytes{") / f64::from(1 << 20));
                seen.lease = seen.lease.min(node.metric("seqsvr_lease_remaining_seconds{"));
            }
            seen
        });
        let url = node.addr(7400);
        let args = [
            "bench",
            "--endpoint",
            "grpc",
            "--addr",
            &url,
            "--rate",
            "200",
            "--duration-s",
            SECONDS,
            "--warmup-s",
            "0",
        ];
        let output = seqsvr(&[&args[..], &["--check", "--uids", "1000", "-o", "json"]].concat());
        drop(ended);
        let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        (report, looking.join().unwrap())
    })
}

/// Frames a gRPC message: the flag "not compressed", the length, the message.
fn framed(message: &impl Message) -> bytes::Bytes {
    let body = message.encode_to_vec();
    [&[0][..], &(body.len() as u32).to_be_bytes(), &body].concat().into()
}

fn batch() -> NextManyRequest {
    NextManyRequest { uids: (0..10_000).map(|uid| 5_000_000 + uid).collect(), ..NextManyRequest::default() }
}

/// Opens a connection whose responses stay in the node, because its windows only take a few bytes each.
async fn connect(addr: &str) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{addr}")).unwrap();
    endpoint.initial_stream_window_size(1_024).initial_connection_window_size(65_535).connect().await.unwrap()
}

fn request(method: &str, body: Body) -> Request<Body> {
    let request = Request::post(format!("http://node/seqsvr.v1.SequenceService/{method}"));
    request.header("content-type", "application/grpc").header("te", "trailers").body(body).unwrap()
}

/// Sends requests on one connection until it is dropped, and reads no response.
async fn unread(addr: String, make: fn() -> Request<Body>) {
    let channel = connect(&addr).await;
    let calls = (0..STREAMS).map(|_| {
        let mut channel = channel.clone();
        async move {
            if std::future::poll_fn(|cx| Service::<Request<Body>>::poll_ready(&mut channel, cx)).await.is_ok() {
                let response = channel.call(make()).await;
                std::future::pending::<()>().await;
                drop(response);
            }
        }
    });
    futures::future::join_all(calls).await;
}

fn batches(node: &Node) -> impl Future<Output = ()> + Send + use<> {
    unread(node.addr(7400), || request("NextMany", Body::new(http_body_util::Full::new(framed(&batch())))))
}

fn streams(node: &Node) -> impl Future<Output = ()> + Send + use<> {
    unread(node.addr(7400), || {
        let message = NextStreamRequest { request: Some(batch()), ..NextStreamRequest::default() };
        let frame = framed(&message);
        let frames =
            futures::stream::repeat_with(move || Ok::<_, tonic::Status>(http_body::Frame::data(frame.clone())));
        request("NextStream", Body::new(http_body_util::StreamBody::new(frames)))
    })
}

/// Sends increments, and never reads the replies.
fn pipelines(node: &Node) -> impl Future<Output = ()> + Send + use<> {
    let addr = node.addr(7479);
    async move {
        let mut stream = TcpStream::connect(addr).await.unwrap();
        let pipeline = "INCR seq:5000000\r\n".repeat(10_000);
        while stream.write_all(pipeline.as_bytes()).await.is_ok() {}
        std::future::pending().await
    }
}

/// Sends the start of a command and of a body, each of the maximum size.
fn halves(node: &Node) -> impl Future<Output = ()> + Send + use<> {
    let (redis, http) = (node.addr(7479), node.addr(7400));
    async move {
        let mut command = TcpStream::connect(redis).await.unwrap();
        let keys = "$11\r\nseq:5000000\r\n".repeat(9_999);
        let _ = command.write_all(format!("*10001\r\n$4\r\nMGET\r\n{keys}").as_bytes()).await;
        let mut body = TcpStream::connect(http).await.unwrap();
        let head = "POST /seqsvr.v1.SequenceService/NextMany HTTP/1.1\r\nhost: node\r\ncontent-type: application/json\r\n\
                    connect-timeout-ms: 10000\r\ncontent-length: 1000000\r\n\r\n";
        let _ = body.write_all(head.as_bytes()).await;
        let _ = body.write_all(&[b' '; 900_000]).await;
        std::future::pending::<()>().await;
        drop((command, body));
    }
}

#[test]
#[ignore = "measures: wants an optimized build and an idle machine; `just hostile`"]
fn a_hundred_hostile_connections_of_each_kind() {
    let node = Node::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    println!("attack       light p50 us  p99 us  failed  resident MiB  counted MiB  refused  least lease s");
    let row = |name: &str| {
        let refused = node.metric("seqsvr_requests_out_of_memory_total{");
        let (report, seen) = light(&node);
        let refused = node.metric("seqsvr_requests_out_of_memory_total{") - refused;
        let latency = |which: &str| report["latency"][which].as_u64().unwrap();
        let (p50, p99, failed) = (latency("p50_us"), latency("p99_us"), &report["failed"]);
        let Seen { resident, counted, lease } = seen;
        println!("{name:12} {p50:12} {p99:7} {failed:>7} {resident:13.0} {counted:12.1} {refused:8.0} {lease:14.2}");
        assert!(resident < BUDGET_MIB + BESIDE_MIB && counted < BUDGET_MIB + 8.0 && lease > 0.0, "{name}");
        assert_eq!(
            (&report["order"]["decreases"], &report["order"]["duplicates"]),
            (&0.into(), &0.into()),
            "{report:#}"
        );
    };
    row("none");
    let attack = |name: &str, make: &dyn Fn() -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| {
        let attackers: Vec<_> = (0..CONNECTIONS).map(|_| runtime.spawn(make())).collect();
        row(name);
        attackers.iter().for_each(tokio::task::JoinHandle::abort);
    };
    attack("batches", &|| Box::pin(batches(&node)));
    attack("streams", &|| Box::pin(streams(&node)));
    attack("pipelines", &|| Box::pin(pipelines(&node)));
    attack("half sent", &|| Box::pin(halves(&node)));
    row("none");
    let status = seqsvr_json(&["next", "42", "--addr", &node.addr(7400)]);
    assert!(status["items"][0]["value"].is_string(), "{status}");
}
