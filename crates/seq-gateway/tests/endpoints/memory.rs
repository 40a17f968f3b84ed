//! The memory of requests: a request that does not fit is refused and moves nothing, and in the end all memory is free
//! again.

use std::time::Duration;

use metrics::{Counter, Gauge};
use seq_kit::memory::{MemoryBudget, MemoryMetrics};
use seq_proto::{status, v1};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::transport::Endpoint;
use tonic::{Code, Status};

use crate::http::http1;
use crate::resp::Port;
use crate::twin::TestServer;

/// Timeout of any wait, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Returns a budget of 1 MiB for a thousand connections: each has a quarter of a KiB, and a single connection about 24
/// KiB.
fn small() -> MemoryBudget {
    MemoryBudget::new(1 << 20, 1_000, MemoryMetrics { used: Gauge::noop(), refused: Counter::noop() })
}

async fn released(budget: &MemoryBudget) {
    let released = async {
        while budget.used() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, released).await.unwrap_or_else(|_| panic!("{budget:?}"));
}

fn batch(items: u64) -> v1::NextManyRequest {
    v1::NextManyRequest { uids: (0..items).collect(), ..v1::NextManyRequest::default() }
}

fn refused(status: &Status) {
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert_eq!(status::reason(status).as_deref(), Some("OUT_OF_MEMORY"));
    assert!(status::retry_after(status).is_some());
}

#[tokio::test]
async fn a_batch_that_does_not_fit_is_refused_and_moves_nothing() {
    let budget = small();
    let server = TestServer::open_within(budget.clone()).await;
    refused(&server.client().next_many(batch(10_000)).await.unwrap_err());
    refused(&server.client().next_many(batch(1_000)).await.unwrap_err());
    let fits = server.client().next_many(batch(20)).await.unwrap().into_inner();
    assert_eq!(fits.values, vec![1; 20], "the refused ones allocated nothing");
    let uids: Vec<String> = (0..1_000).map(|uid| uid.to_string()).collect();
    let body = serde_json::json!({ "uids": uids }).to_string();
    let path = "/seqsvr.v1.SequenceService/NextMany";
    let json = http1(server.addr, "POST", path, &[("content-type", "application/json")], &body).await;
    assert_eq!((json.status, json.json()["code"].as_str()), (429, Some("resource_exhausted")), "{json:?}");
    assert!(json.header("retry-after").is_some());
    released(&budget).await;
}

#[tokio::test]
async fn a_message_of_a_stream_that_does_not_fit_is_refused_alone() {
    let budget = small();
    let server = TestServer::open_within(budget.clone()).await;
    let message =
        |tag, items| v1::NextStreamRequest { tag, request: Some(batch(items)), ..v1::NextStreamRequest::default() };
    let sent = tokio_stream::iter([message(1, 1), message(2, 1_000), message(3, 1)]);
    let mut responses = server.client().next_stream(sent).await.unwrap().into_inner();
    let mut outcomes = std::collections::BTreeMap::new();
    while let Some(response) = responses.message().await.unwrap() {
        outcomes.insert(response.tag, response.outcome.unwrap());
    }
    let v1::next_stream_response::Outcome::Refusal(refusal) = &outcomes[&2] else { panic!("{outcomes:?}") };
    assert_eq!(refusal.reason, "OUT_OF_MEMORY");
    for tag in [1, 3] {
        assert!(matches!(&outcomes[&tag], v1::next_stream_response::Outcome::Response(_)), "{outcomes:?}");
    }
    drop(responses);
    released(&budget).await;
}

#[tokio::test]
async fn responses_are_held_until_they_are_read() {
    // A budget for two connections: each may hold at least an eighth of it.
    let budget = MemoryBudget::new(64 << 20, 2, MemoryMetrics { used: Gauge::noop(), refused: Counter::noop() });
    let server = TestServer::open_within(budget.clone()).await;
    // A window of 64 KiB for the whole connection, of which nothing is read.
    let endpoint = Endpoint::from_shared(format!("http://{}", server.addr)).unwrap();
    let window = 65_535;
    let endpoint = endpoint.initial_connection_window_size(window).initial_stream_window_size(window);
    let client = v1::sequence_service_client::SequenceServiceClient::new(endpoint.connect().await.unwrap());
    let sent = tokio_stream::iter((0..64).map(|tag| {
        let uids = (0..10_000).map(|uid| uid << 40).collect();
        let request = v1::NextManyRequest { uids, ..v1::NextManyRequest::default() };
        v1::NextStreamRequest { tag, request: Some(request), ..v1::NextStreamRequest::default() }
    }));
    let mut unread = client.clone().next_stream(sent).await.unwrap().into_inner();
    let held = async {
        while budget.used() < 100_000 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, held).await.expect("what is unread is held");
    assert!(budget.used() < 16 << 20, "{budget:?}");
    // Another connection is served at the same time.
    let one = v1::NextRequest { uid: Some(7), count: 1, ..v1::NextRequest::default() };
    server.client().next(one).await.unwrap();
    let mut messages = 0;
    while unread.message().await.unwrap().is_some() {
        messages += 1;
    }
    assert_eq!(messages, 64);
    drop(unread);
    released(&budget).await;
}

#[tokio::test]
async fn an_idle_stream_holds_the_buffer_of_its_messages_and_no_items() {
    let budget = MemoryBudget::new(64 << 20, 2, MemoryMetrics { used: Gauge::noop(), refused: Counter::noop() });
    let server = TestServer::open_within(budget.clone()).await;
    let (send, messages) = tokio::sync::mpsc::channel(1);
    let mut responses =
        server.client().next_stream(tokio_stream::wrappers::ReceiverStream::new(messages)).await.unwrap().into_inner();
    send.send(v1::NextStreamRequest { request: Some(batch(10_000)), ..v1::NextStreamRequest::default() })
        .await
        .unwrap();
    responses.message().await.unwrap().expect("a response");
    let idle = async {
        // The message has 20 KB; its items had a megabyte.
        while !(20_000..80_000).contains(&budget.used()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, idle).await.unwrap_or_else(|_| panic!("{budget:?}"));
    drop((send, responses));
    released(&budget).await;
}

#[tokio::test]
async fn a_redis_command_that_does_not_fit_closes_its_connection_only() {
    let budget = small();
    let port = Port::open_within(budget.clone());
    let (mut greedy, mut light) = (port.call().await, port.call().await);
    // The start of a command of ten thousand keys.
    let keys = "$7\r\nseq:100\r\n".repeat(9_000);
    // The connection may be closed before all bytes are sent.
    let _ = greedy.stream.write_all(format!("*10001\r\n$4\r\nMGET\r\n{keys}").as_bytes()).await;
    let mut reply = Vec::new();
    let _ = tokio::time::timeout(TIMEOUT, greedy.stream.read_to_end(&mut reply)).await.expect("it is closed");
    light.send("INCR seq:1\r\n").await;
    assert_eq!(light.receive(4).await, b":1\r\n");
    assert!(reply.is_empty() || reply.starts_with(b"-TRYAGAIN the node has no memory"), "{}", reply.escape_ascii());
    released(&budget).await;
}
