//! `seqsvr proxy` in front of a real cluster: every endpoint, the order across endpoints, readiness, and an orderly
//! end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use parking_lot::Mutex;
use seq_kit::wall_clock::now_ms;
use seq_proto::v1::id_service_client::IdServiceClient;
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use seq_proto::v1::{self, next_stream_response::Outcome};
use seq_testkit::{eventually, until};
use tonic::transport::Channel;

use crate::cluster::{Place, Server, seqsvr, seqsvr_json};
use crate::dev;

/// Ports of the proxy: gRPC and JSON, Redis, metrics and probes.
pub(crate) const PORTS: [u16; 3] = [7600, 7690, 7680];

/// Uids per section of the development set, and number of its sections: calls to all of them reach both nodes.
const SECTION: u64 = 100_000;
const SECTIONS: u64 = 10;

fn start(place: &Place) -> Server {
    let [grpc, redis, http] = PORTS.map(|port| format!("{}:{port}", place.host));
    let seeds = format!("{}:7100", place.host);
    let args = [
        "proxy",
        "--plaintext",
        "--seeds",
        &seeds,
        "--listen",
        &grpc,
        "--redis",
        &redis,
        "--http",
        &http,
        "--cores",
        "2",
    ];
    place.server("proxy", &args)
}

/// Sends one HTTP/1.1 request; returns the status line and the body.
pub(crate) fn http(place: &Place, port: u16, request: &str, body: &str) -> Option<(String, String)> {
    let mut stream = TcpStream::connect((place.host, port)).ok()?;
    let head = format!("{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n");
    stream.write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes()).ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    let (head, body) = response.split_once("\r\n\r\n")?;
    Some((head.lines().next()?.to_owned(), body.to_owned()))
}

pub(crate) fn readyz(place: &Place) -> Option<(bool, String)> {
    let (status, body) = http(place, PORTS[2], "GET /readyz", "")?;
    Some((status.contains(" 200 "), body))
}

/// A connection to the Redis port.
struct Redis(BufReader<TcpStream>);

impl Redis {
    fn open(place: &Place) -> Redis {
        Redis(BufReader::new(TcpStream::connect((place.host, PORTS[1])).unwrap()))
    }

    fn incr(&mut self, key: &str) -> String {
        let command = format!("*2\r\n$4\r\nINCR\r\n${}\r\n{key}\r\n", key.len());
        self.0.get_mut().write_all(command.as_bytes()).unwrap();
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

fn next(uid: u64) -> v1::NextRequest {
    v1::NextRequest { uid: Some(uid), count: 1, ..v1::NextRequest::default() }
}

/// Sends one message in its own stream.
async fn stream(client: &mut SequenceServiceClient<Channel>, uids: Vec<u64>) -> v1::NextManyResponse {
    let request = Some(v1::NextManyRequest { uids, ..v1::NextManyRequest::default() });
    let message = v1::NextStreamRequest { tag: 9, request, timeout_ms: 0, now_only: false };
    let mut responses = client.next_stream(tokio_stream::iter([message])).await.unwrap().into_inner();
    let response = responses.message().await.unwrap().expect("a response to the message");
    assert_eq!(response.tag, 9);
    match response.outcome {
        Some(Outcome::Response(response)) => response,
        other => panic!("{other:?}"),
    }
}

async fn grpc(place: &Place) -> SequenceServiceClient<Channel> {
    SequenceServiceClient::connect(format!("http://{}:{}", place.host, PORTS[0])).await.unwrap()
}

#[tokio::test]
async fn every_endpoint_of_a_proxy_allocates_in_one_order() {
    let place = Place::new();
    let (_cluster, addr) = dev::start(&place);
    let mut proxy = start(&place);
    eventually("the proxy is ready", || readyz(&place).filter(|(ready, _)| *ready));
    let (mut client, mut redis) = (grpc(&place).await, Redis::open(&place));
    for uid in (0..SECTIONS).map(|section| section * SECTION + 42) {
        let first = client.next(next(uid)).await.unwrap().into_inner();
        assert_eq!((first.value, first.prev), (1, 0));
        let many = v1::NextManyRequest { uids: vec![uid, uid], counts: vec![1, 3], ..Default::default() };
        let many = client.next_many(many).await.unwrap().into_inner();
        assert_eq!((many.values, many.prevs, many.errors.len()), (vec![2, 5], vec![1, 2], 0));
        let streamed = stream(&mut client, vec![uid]).await;
        assert_eq!((streamed.values, streamed.prevs), (vec![6], vec![5]));
        assert_eq!(redis.incr(&format!("seq:{uid}")), ":7");
        let json = http(&place, PORTS[0], "POST /seqsvr.v1.SequenceService/Next", &format!(r#"{{"uid":{uid}}}"#));
        let json: serde_json::Value = serde_json::from_str(&json.unwrap().1).unwrap();
        assert_eq!((&json["value"], &json["prev"]), (&"8".into(), &"7".into()));
        let text = http(&place, PORTS[0], &format!("POST /api/seq/next/{uid}"), "").unwrap();
        assert_eq!(text.1.trim_end(), "9");
        let read =
            client.current(v1::CurrentRequest { uid: Some(uid), ..Default::default() }).await.unwrap().into_inner();
        assert_eq!((read.value, read.exactness()), (9, v1::Exactness::Exact));
        let advance = v1::AdvanceRequest { uid: Some(uid), to: Some(100), ..Default::default() };
        assert!(client.advance(advance).await.unwrap().into_inner().epoch >= 1);
        assert_eq!(client.next(next(uid)).await.unwrap().into_inner().value, 101);
        // A caller of the node itself gets the next seq.
        let direct = &seqsvr_json(&["next", &uid.to_string(), "--addr", &addr])["items"][0];
        assert_eq!(direct["value"], "102");
    }
    let outside = client.next(next(SECTIONS * SECTION)).await.unwrap_err();
    assert_eq!(seq_proto::status::reason(&outside).as_deref(), Some("UID_OUT_OF_RANGE"));
    let far = v1::AdvanceRequest { uid: Some(1), to: Some(1 << 61), ..Default::default() };
    let far = client.advance(far).await.unwrap_err();
    assert_eq!(seq_proto::status::reason(&far).as_deref(), Some("ADVANCE_TOO_FAR"));
    assert!(seq_proto::status::metadata(&far, "bound").is_some_and(|bound| bound != "0"));
    // The proxy's routes lead a client of the SDK to the cluster.
    let url = format!("http://{}:{}", place.host, PORTS[0]);
    let through = &seqsvr_json(&["next", "42", "--addr", &url])["items"][0];
    assert_eq!(through["value"], "103");
    assert_eq!(proxy.terminate(), Some(0));
}

/// Returns the ids of a response.
fn all(response: &v1::NextIdsResponse) -> Vec<u64> {
    let run = |run: &v1::IdRun| (0..u64::from(run.count)).map(|at| run.first + at * response.step).collect::<Vec<_>>();
    response.runs.iter().flat_map(run).collect()
}

/// Returns the reason of a refusal.
pub(crate) fn reason<T: std::fmt::Debug>(refused: Result<T, tonic::Status>) -> String {
    seq_proto::status::reason(&refused.unwrap_err()).unwrap_or_default()
}

fn ids(series: &str, count: u32) -> v1::NextIdsRequest {
    v1::NextIdsRequest { series: series.to_owned(), count, lane: None, after: None }
}

#[tokio::test]
async fn every_endpoint_of_a_proxy_gives_out_ids_in_one_order() {
    let place = Place::new();
    let (_cluster, addr) = dev::start(&place);
    let _proxy = start(&place);
    eventually("the proxy is ready", || readyz(&place).filter(|(ready, _)| *ready));
    let url = format!("http://{}:{}", place.host, PORTS[0]);
    let (mut client, mut redis) = (IdServiceClient::connect(url.clone()).await.unwrap(), Redis::open(&place));
    let text = |request: &str| http(&place, PORTS[0], request, "").unwrap().1.trim_end().to_owned();

    // A counter.
    assert_eq!(all(client.next(ids("orders", 3)).await.unwrap().get_ref()), [1, 2, 3]);
    let above = v1::NextIdsRequest { after: Some(99), ..ids("orders", 1) };
    assert_eq!(all(client.next(above).await.unwrap().get_ref()), [100]);
    assert_eq!(redis.incr("id:orders"), ":101");
    assert_eq!(text("POST /api/id/next/orders?n=2"), "102\n103");
    let json = http(&place, PORTS[0], "POST /seqsvr.v1.IdService/Next", r#"{"series":"orders"}"#).unwrap().1;
    assert!(json.contains(r#""first":"104""#), "{json}");
    let current = || v1::CurrentIdRequest { series: "orders".to_owned() };
    let read = client.current(current()).await.unwrap().into_inner();
    assert_eq!((read.id, read.exact), (104, true));
    assert_eq!(text("GET /api/id/current/orders"), "104");
    let advance = |to| v1::AdvanceIdRequest { series: "orders".to_owned(), to };
    assert!(client.advance(advance(1_000)).await.unwrap().into_inner().epoch >= 1);
    assert_eq!(reason(client.advance(advance(7)).await), "ALREADY_PAST");
    let direct = seqsvr_json(&["id", "next", "orders", "--addr", &addr]);
    assert_eq!(direct["ids"][0], "1001", "a caller of the node itself");
    let far = v1::NextIdsRequest { after: Some(9_000_000), ..ids("orders", 1) };
    assert_eq!(reason(client.next(far).await), "AFTER_TOO_FAR");

    // Ids with a time, of lanes that a node chooses, and of lanes that the caller names.
    let tweets = all(client.next(ids("tweets", 10_000)).await.unwrap().get_ref());
    assert!(tweets.len() == 10_000 && tweets.is_sorted_by(|one, other| one < other));
    let above = v1::NextIdsRequest { after: Some(tweets[9_999]), ..ids("tweets", 1) };
    assert!(all(client.next(above).await.unwrap().get_ref())[0] > tweets[9_999]);
    assert_eq!(reason(client.next(ids("tweets", 10_001)).await), "COUNT_OUT_OF_RANGE");
    assert_eq!(reason(client.next(ids("media", 1)).await), "LANE_REQUIRED");
    let media = client.next(v1::NextIdsRequest { lane: Some(1_341), ..ids("media", 1) }).await.unwrap().into_inner();
    assert_eq!(media.lane, 1_341);
    let decode = v1::DecodeIdRequest { series: "media".to_owned(), id: all(&media)[0] };
    let parts = client.decode(decode).await.unwrap().into_inner();
    assert_eq!(parts.lane, 1_341);
    assert!(parts.unix_ms.is_some_and(|ms| ms.abs_diff(now_ms()) < 60_000), "{parts:?}");

    // Series that begin and end.
    assert_eq!(reason(client.next(ids("short", 1)).await), "UNKNOWN_SERIES");
    let on_node = |args: &[&str]| {
        let output = seqsvr(&[args, &["--yes", "--addr", &addr]].concat());
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    on_node(&["series", "create", "short", "--counter", "--max-id", "2"]);
    let found =
        || http(&place, PORTS[0], "GET /api/id/current/short", "").filter(|(status, _)| status.contains(" 200 "));
    eventually("the proxy has the new series", found);
    // The proxy asks any node, and each node learns of a new series by itself.
    until("the node that the proxy asks has the new series", async || {
        let listed = client.list_series(v1::ListSeriesRequest {}).await.unwrap().into_inner().series;
        let names: Vec<&str> = listed.iter().map(|series| series.name.as_str()).collect();
        (names == ["tweets", "media", "orders", "short"]).then_some(())
    })
    .await;
    assert_eq!(all(client.next(ids("short", 2)).await.unwrap().get_ref()), [1, 2]);
    assert_eq!(reason(client.next(ids("short", 1)).await), "SERIES_ENDED");
    on_node(&["series", "retire", "short"]);
    let retired = || http(&place, PORTS[0], "POST /api/id/next/short", "").filter(|(_, body)| body.contains("RETIRED"));
    eventually("the proxy refuses for the retired series", retired);

    // A client of the SDK has the series from the proxy's routes.
    let sdk = seq_client::Client::connect(&url).await.unwrap();
    assert_eq!(sdk.series("orders").await.unwrap().next().await.unwrap().get(), 1_002);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_calls_through_two_proxies_endpoints_keep_their_order() {
    const CALLERS: u64 = 8;
    const CALLS: u64 = 100;
    let place = Place::new();
    let (_cluster, _) = dev::start(&place);
    let _proxy = start(&place);
    eventually("the proxy is ready", || readyz(&place).filter(|(ready, _)| *ready));
    // The largest seq of a received response: every later request gets a larger seq.
    let (largest, seen) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(Vec::new())));
    let callers = (0..CALLERS).map(|caller| {
        let (largest, seen) = (largest.clone(), seen.clone());
        let channel = grpc(&place);
        async move {
            let mut client = channel.await;
            for _ in 0..CALLS {
                let floor = *largest.lock();
                let value = if caller % 2 == 0 {
                    client.next(next(7)).await.unwrap().into_inner().value
                } else {
                    stream(&mut client, vec![7]).await.values[0]
                };
                assert!(value > floor, "{value} after {floor}");
                let mut largest = largest.lock();
                *largest = value.max(*largest);
                seen.lock().push(value);
            }
        }
    });
    futures::future::join_all(callers).await;
    let mut seen = std::mem::take(&mut *seen.lock());
    seen.sort_unstable();
    assert_eq!(seen, (1..=CALLERS * CALLS).collect::<Vec<_>>());
}

#[test]
fn a_proxy_is_ready_while_a_node_responds() {
    let place = Place::new();
    let mut proxy = start(&place);
    let (_, body) = eventually("the probe responds", || readyz(&place).filter(|(ready, _)| !ready));
    assert!(body.contains("backends"), "{body}");
    let (mut cluster, _) = dev::start(&place);
    eventually("the proxy is ready", || readyz(&place).filter(|(ready, _)| *ready));
    cluster.kill();
    eventually("the proxy is not ready", || readyz(&place).filter(|(ready, _)| !ready));
    let restarted = dev::start(&place);
    eventually("the proxy is ready again", || readyz(&place).filter(|(ready, _)| *ready));
    drop(restarted);
    assert_eq!(proxy.terminate(), Some(0));
}
