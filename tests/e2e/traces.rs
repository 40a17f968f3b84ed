//! Traces of real processes: spans of raises, takeovers, handovers and requests at a collector, and collectors that are
//! down or silent.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures::future::join_all;
use seq_proto::v1::NextRequest;
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use seq_testkit::{CollectedSpan, Collector, eventually};
use tonic::Request;

use crate::cluster::{Place, Server, seqsvr, seqsvr_json};
use crate::dev;

/// Span of a caller that records its trace.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

fn traceparent(trace: &str, flags: &str) -> String {
    format!("00-{trace}-{PARENT}-{flags}")
}

/// Three stores and two allocators that export their traces.
struct Cluster {
    collector: Collector,
    set: String,
    stores: Vec<Server>,
    allocs: Vec<Server>,
    /// Last, so that the logs are still there when the servers are dropped.
    place: Place,
}

impl Cluster {
    fn start() -> Cluster {
        let place = Place::new();
        let collector = Collector::start(place.host);
        let set = place.set_file("three-node.toml").display().to_string();
        let config = place.path("seqsvr.toml").display().to_string();
        let text = format!("[traces]\nendpoint = \"{}\"\none_in = 1\n", collector.endpoint());
        std::fs::write(&config, text).unwrap();
        let store = |id: &str| {
            let (name, data) = (format!("s{id}"), place.path(&format!("s{id}")).display().to_string());
            place.server(&name, &["store", "--set", &set, "--id", id, "--data", &data, "--config", &config])
        };
        let alloc = |name: &str| {
            place.server(name, &["alloc", "--set", &set, "--name", name, "--cores", "1", "--config", &config])
        };
        let (stores, allocs) = (["1", "2", "3"].map(store).into(), ["a1", "a2"].map(alloc).into());
        let cluster = Cluster { collector, set, stores, allocs, place };
        let health = seqsvr(&["health", "--wait-s", "60", "--set", &cluster.set]);
        assert!(health.status.success(), "{}", String::from_utf8_lossy(&health.stderr));
        cluster
    }

    fn addr(&self, port: u16) -> String {
        format!("http://{}:{port}", self.place.host)
    }

    /// Waits for a span.
    fn span(&self, what: &str, is: impl Fn(&CollectedSpan) -> bool) -> CollectedSpan {
        eventually(what, || self.collector.spans().into_iter().find(&is))
    }

    /// Returns the owner of the section of a uid.
    fn owner(&self, uid: u64) -> String {
        let section = (uid / 100_000).to_string();
        let shown = seqsvr_json(&["section", "show", &section, "--set", &self.set]);
        shown["owner"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns the first uids of two sections of a node.
    fn uids_of(&self, node: &str) -> [u64; 2] {
        eventually("the node owns sections", || {
            let mut owned = (0..100).map(|section| section * 100_000).filter(|uid| self.owner(*uid) == node);
            Some([owned.next()?, owned.next()?])
        })
    }
}

/// Takes a number over gRPC, with this header.
async fn take(client: &mut SequenceServiceClient<tonic::transport::Channel>, uid: u64, header: Option<&str>) {
    let mut request = Request::new(NextRequest { uid: Some(uid), count: 1, ..NextRequest::default() });
    if let Some(header) = header {
        request.metadata_mut().insert("traceparent", header.parse().unwrap());
    }
    client.next(request).await.unwrap();
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Takes a number as text over HTTP/1.1, with this header.
fn take_as_text(host: Ipv4Addr, port: u16, uid: u64, header: &str) -> String {
    let mut stream = TcpStream::connect((host, port)).unwrap();
    let request = format!("POST /api/seq/next/{uid} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{header}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

#[test]
fn rare_work_of_a_cluster_is_traced_across_its_processes() {
    let mut cluster = Cluster::start();
    let [uid, _] = cluster.uids_of("a1");
    let section = (uid / 100_000).to_string();
    seqsvr_json(&["next", &uid.to_string(), "--addr", &cluster.addr(7400)]);
    let raise = cluster.span("the raise", |span| span.name == "raise" && span.attribute("seqsvr.section") == section);
    assert_eq!((&*raise.service, &*raise.parent, &raise.failure), ("seqsvr-a1", "", &None));
    assert_eq!((raise.attribute("seqsvr.set"), raise.attribute("seqsvr.node")), ("im-a", "a1"));
    let apply = cluster.span("its command", |span| span.parent == raise.id);
    assert_eq!((&*apply.name, &*apply.trace, apply.attribute("seqsvr.command")), ("apply", &*raise.trace, "Raise"));
    assert!(apply.service.starts_with("seqsvr-s") && apply.lasted_ns < raise.lasted_ns, "{apply:?} {raise:?}");
    cluster.span("a renewal", |span| (&*span.name, &*span.service) == ("renew", "seqsvr-a2"));
    cluster
        .span("the first owners", |span| span.name == "assignment" && span.attribute("seqsvr.from_nodes").is_empty());

    seqsvr_json(&["section", "move", &section, "--to", "a2", "--yes", "--wait", "--set", &cluster.set]);
    let is_moved = |span: &CollectedSpan| span.name == "handover" && span.attribute("seqsvr.section") == section;
    let handover = cluster.span("the handover", is_moved);
    let of_trace = cluster.collector.of_trace(&handover.trace);
    let steps: Vec<_> = of_trace.iter().filter(|span| span.parent == handover.id).map(|span| &*span.name).collect();
    assert_eq!(steps, ["handover prepare", "handover stage", "handover commit", "handover activate"]);
    let commit = of_trace.iter().find(|span| span.name == "handover commit").unwrap();
    let is_command = |span: &CollectedSpan| span.parent == commit.id && span.attribute("seqsvr.command") == "Transfer";
    cluster.span("its command", is_command);

    cluster.allocs[1].kill();
    let takeover = cluster.span("the takeover", |span| span.name == "takeover");
    assert!(takeover.service.starts_with("seqsvr-s"), "{takeover:?}");
    assert_eq!(takeover.attribute("seqsvr.from_nodes"), "a2", "{takeover:?}");
    let requests: Vec<_> = cluster.collector.spans().into_iter().filter(|span| span.is_request).collect();
    assert_eq!(requests, [], "no caller records its trace");
    for store in &mut cluster.stores {
        assert!(store.log().contains("traces are exported"), "{}", store.log());
    }
    let log: String = cluster.stores.iter().map(Server::log).collect();
    let line = log.lines().find(|line| line.contains("owners assigned") && line.contains(&takeover.trace));
    assert!(line.is_some(), "{log}");
}

#[test]
fn a_request_is_traced_if_its_caller_records_its_trace() {
    let mut cluster = Cluster::start();
    let ([own, fresh], [other, _]) = (cluster.uids_of("a1"), cluster.uids_of("a2"));
    let traces: [String; 5] = std::array::from_fn(|index| format!("{:032x}", index + 1));
    run(async {
        let mut client = SequenceServiceClient::connect(cluster.addr(7400)).await.unwrap();
        take(&mut client, own, None).await;
        take(&mut client, own, Some(&traceparent(&traces[0], "00"))).await;
        take(&mut client, own, Some("nonsense")).await;
        take(&mut client, own, Some(&traceparent(TRACE, "01"))).await;
        take(&mut client, other, Some(&traceparent(&traces[1], "01"))).await;
        take(&mut client, fresh, Some(&traceparent(&traces[4], "01"))).await;
    });
    let wait = cluster.span("the wait for the first raise", |span| span.trace == traces[4] && span.name == "wait");
    assert_eq!(wait.attribute("seqsvr.cause"), "ceiling or handover", "{wait:?}");
    let header = format!("traceparent: {}\r\n", traceparent(&traces[2], "01"));
    assert!(take_as_text(cluster.place.host, 7400, own, &header).starts_with("HTTP/1.1 200"));
    assert!(take_as_text(cluster.place.host, 7400, 99_999_999, &header).starts_with("HTTP/1.1 400"));
    let of_http = || {
        let spans = cluster.collector.of_trace(&traces[2]);
        (spans.len() == 2).then_some(spans)
    };
    let of_http = eventually("both requests over HTTP", of_http);
    assert!(of_http.iter().all(|span| span.name == "/api/seq/next" && span.parent == PARENT), "{of_http:?}");
    assert_eq!(of_http[1].failure.as_deref(), Some("HTTP 400"));

    let near = cluster.span("the request", |span| span.trace == TRACE);
    assert_eq!((&*near.parent, &*near.service, near.is_request), (PARENT, "seqsvr-a1", true));
    assert_eq!((&*near.name, &near.failure), ("seqsvr.v1.SequenceService/Next", &None));
    assert_eq!((near.attribute("seqsvr.set"), near.attribute("seqsvr.node")), ("im-a", "a1"));
    let far = cluster.span("the forwarded one", |span| span.trace == traces[1] && span.parent == PARENT);
    let forward = cluster.span("its way", |span| span.trace == traces[1] && span.name == "forward");
    assert_eq!((&forward.parent, &*forward.service), (&far.id, "seqsvr-a1"));
    // Its first number waits for a raise, so it follows in a request of its own.
    let owner = cluster.span("its owner", |span| span.parent == forward.id);
    assert_eq!((&*owner.service, owner.is_request), ("seqsvr-a2", true));
    let requests = cluster.collector.spans().into_iter().filter(|span| span.is_request).count();
    assert_eq!(requests, 6, "of callers that record their traces, and their way");

    // A call to a node that is gone waits for the next owner.
    cluster.allocs[1].kill();
    run(async {
        let mut client = SequenceServiceClient::connect(cluster.addr(7400)).await.unwrap();
        take(&mut client, other, Some(&traceparent(&traces[3], "01"))).await;
    });
    let wait = cluster.span("its wait", |span| span.trace == traces[3] && span.name == "wait");
    assert_eq!(wait.attribute("seqsvr.node"), "a1", "{wait:?}");
    for alloc in &mut cluster.allocs[..1] {
        assert_eq!(alloc.terminate(), Some(0));
    }
}

/// Starts a development cluster that exports to an address.
fn exporting(place: &Place, endpoint: &str) -> (Server, String) {
    let (grpc, http) = (format!("{}:7100", place.host), format!("{}:7180", place.host));
    let args = ["dev", "-o", "json", "--ports", "random", "--grpc", &grpc, "--http", &http];
    let variables = [("SEQSVR_TRACES_ENDPOINT", endpoint.to_owned()), ("SEQSVR_TRACES_ONE_IN", "1".to_owned())];
    let mut server = place.server_with_environment("dev", &args, variables);
    server.ready();
    (server, format!("http://{grpc}"))
}

/// Returns the spans of a development cluster with an outcome.
fn spans(place: &Place, outcome: &str) -> u64 {
    let metrics = dev::get(&format!("{}:7180", place.host), "/metrics");
    let sample = ["seqsvr_trace_spans_total{outcome=\"", outcome, "\"} "].concat();
    metrics.lines().find_map(|line| line.strip_prefix(&sample)?.parse().ok()).unwrap_or(0)
}

#[test]
fn a_collector_that_is_down_delays_nothing() {
    let place = Place::new();
    let closed = TcpListener::bind((place.host, 0)).unwrap().local_addr().unwrap();
    let (mut server, addr) = exporting(&place, &format!("http://{closed}"));
    seqsvr_json(&["next", "42", "--addr", &addr]);
    eventually("spans fail", || (spans(&place, "failed") > 0).then_some(()));
    assert_eq!(spans(&place, "exported"), 0);
    let began = Instant::now();
    assert_eq!(server.terminate(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    let log = server.log();
    assert_eq!(log.lines().filter(|line| line.contains("spans were not exported")).count(), 1, "{log}");
}

#[test]
fn a_collector_that_is_silent_costs_spans_and_a_second_at_the_end() {
    let place = Place::new();
    let silent = TcpListener::bind((place.host, 0)).unwrap();
    let (mut server, addr) = exporting(&place, &format!("http://{}", silent.local_addr().unwrap()));
    let header = traceparent(TRACE, "01");
    // More than the queue takes.
    run(async {
        let client = SequenceServiceClient::connect(addr.clone()).await.unwrap();
        let callers = (0..32).map(|_| {
            let (mut client, header) = (client.clone(), header.clone());
            async move {
                for _ in 0..100 {
                    take(&mut client, 42, Some(&header)).await;
                }
            }
        });
        join_all(callers).await;
    });
    eventually("spans are dropped", || (spans(&place, "dropped") > 500).then_some(()));
    assert_eq!(seqsvr_json(&["next", "42", "--addr", &addr])["items"][0]["value"], "3201", "each number is given");
    let began = Instant::now();
    assert_eq!(server.terminate(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
}

/// Program of a collector in Rust that `.ci/run` installs: see CONTRIBUTING.md.
fn rotel() -> Option<PathBuf> {
    let lib = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/collector/lib"));
    let pythons = std::fs::read_dir(&lib).into_iter().flatten().flatten();
    let found = pythons.map(|python| python.path().join("site-packages/rotel/rotel-agent")).find(|path| path.is_file());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "rotel is not installed below {}", lib.display());
        eprintln!("skipped: rotel is not installed below {}", lib.display());
    }
    found
}

#[test]
fn a_collector_of_others_reads_the_spans() {
    let Some(rotel) = rotel() else { return };
    let place = Place::new();
    let [grpc, http] = [(), ()].map(|()| TcpListener::bind((place.host, 0)).unwrap().local_addr().unwrap().to_string());
    let (rotel, pid) = (rotel.display().to_string(), place.path("rotel.pid").display().to_string());
    // The collector prints what it reads; its output is its log here.
    let shell = ["-c", "exec \"$0\" \"$@\" >&2", &rotel, "start", "--pid-file", &pid];
    let ports = ["--otlp-grpc-endpoint", &grpc, "--otlp-http-endpoint", &http];
    let prints = ["--exporter", "blackhole", "--debug-log", "traces", "--debug-log-verbosity", "detailed"];
    let collector = place.server_of(Path::new("/bin/sh"), "rotel", &[&shell[..], &ports, &prints].concat());
    eventually("it listens", || TcpStream::connect(&grpc).ok());
    let (_server, addr) = exporting(&place, &format!("http://{grpc}"));
    run(async {
        let mut client = SequenceServiceClient::connect(addr).await.unwrap();
        take(&mut client, 42, Some(&traceparent(TRACE, "01"))).await;
    });
    let fields =
        |log: &str| log.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>();
    let printed = eventually("the request is printed", || {
        let lines = fields(&collector.log());
        lines.contains(&format!("Parent ID : {PARENT}")).then_some(lines)
    });
    for expected in [
        &format!("Trace ID : {TRACE}"),
        "Name : seqsvr.v1.SequenceService/Next",
        "Kind : SPAN_KIND_SERVER",
        "-> service.name: Str(seqsvr-dev)",
        "-> seqsvr.set: Str(dev)",
    ] {
        assert!(printed.iter().any(|line| line == expected), "no line {expected:?}");
    }
    assert_eq!(spans(&place, "failed"), 0);
}
