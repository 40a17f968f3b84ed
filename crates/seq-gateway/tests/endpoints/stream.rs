//! Messages of a stream: each gets one response, with its tag, as soon as it is complete.

use std::collections::BTreeMap;
use std::time::Duration;

use seq_core::limits;
use seq_proto::v1;
use seq_proto::v1::next_stream_response::Outcome;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::twin::TestServer;

/// Timeout of a response, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Most pending messages of a stream.
const MAX_PENDING: u64 = 512;

struct Client {
    send: mpsc::Sender<v1::NextStreamRequest>,
    responses: Streaming<v1::NextStreamResponse>,
}

impl Client {
    async fn open(server: &TestServer) -> Client {
        let (send, messages) = mpsc::channel(8);
        let responses = server.client().next_stream(ReceiverStream::new(messages)).await.unwrap().into_inner();
        Client { send, responses }
    }

    async fn send_items(&self, tag: u64, uids: Vec<u64>) {
        self.send(v1::NextStreamRequest { tag, request: Some(request(uids)), timeout_ms: 10_000, now_only: false })
            .await;
    }

    async fn send(&self, message: v1::NextStreamRequest) {
        tokio::time::timeout(TIMEOUT, self.send.send(message)).await.expect("the message is taken").unwrap();
    }

    async fn receive(&mut self) -> v1::NextStreamResponse {
        tokio::time::timeout(TIMEOUT, self.responses.message()).await.expect("a response").unwrap().expect("one more")
    }

    async fn values(&mut self) -> (u64, Vec<u64>) {
        match self.receive().await {
            v1::NextStreamResponse { tag, outcome: Some(Outcome::Response(answer)) } => (tag, answer.values),
            other => panic!("{other:?}"),
        }
    }
}

fn request(uids: Vec<u64>) -> v1::NextManyRequest {
    v1::NextManyRequest { uids, ..v1::NextManyRequest::default() }
}

#[tokio::test]
async fn every_message_gets_one_response_with_its_tag() {
    let server = TestServer::open().await;
    let mut client = Client::open(&server).await;
    let mut expected = BTreeMap::new();
    for tag in 0..300 {
        client.send_items(tag, vec![tag % 7, 500]).await;
        expected.insert(tag, vec![tag / 7 + 1, tag + 1]);
        if tag % 50 == 49 {
            for _ in 0..50 {
                let (tag, values) = client.values().await;
                assert_eq!(expected.remove(&tag), Some(values), "tag {tag}");
            }
        }
    }
    drop(client.send);
    assert!(client.responses.message().await.unwrap().is_none(), "the stream ends after its last response");
}

#[tokio::test]
async fn a_waiting_message_blocks_no_other() {
    let server = TestServer::open().await;
    server.twin.hold(&[1, 2]);
    let mut client = Client::open(&server).await;
    client.send_items(10, vec![5, 1]).await;
    client.send_items(20, vec![2]).await;
    for tag in 30..40 {
        client.send_items(tag, vec![3]).await;
        assert_eq!(client.values().await, (tag, vec![tag - 29]));
    }
    server.twin.hold(&[1]);
    assert_eq!(client.values().await, (20, vec![1]));
    server.twin.hold(&[]);
    assert_eq!(client.values().await, (10, vec![1, 1]));
}

#[tokio::test]
async fn now_only_items_are_refused_instead_of_held() {
    let server = TestServer::open().await;
    server.twin.hold(&[1]);
    let mut client = Client::open(&server).await;
    client
        .send(v1::NextStreamRequest {
            tag: 7,
            request: Some(request(vec![5, 1, 6])),
            timeout_ms: 10_000,
            now_only: true,
        })
        .await;
    let Some(Outcome::Response(answer)) = client.receive().await.outcome else { panic!("refused as a whole") };
    assert_eq!(answer.values, [1, 0, 1]);
    let [refused] = &answer.errors[..] else { panic!("{:?}", answer.errors) };
    assert_eq!((refused.index, &*refused.reason), (1, "WOULD_WAIT"));
    assert_eq!(server.twin.last(1), 0);
}

#[tokio::test]
async fn shutdown_completes_the_messages_that_were_read_and_ends_the_stream() {
    let server = TestServer::open().await;
    server.twin.hold(&[1]);
    let mut client = Client::open(&server).await;
    client.send_items(1, vec![1]).await;
    client.send_items(2, vec![2]).await;
    assert_eq!(client.values().await, (2, vec![1]));
    server.group.cancel();
    server.twin.hold(&[]);
    assert_eq!(client.values().await, (1, vec![1]));
    let end = tokio::time::timeout(TIMEOUT, client.responses.message())
        .await
        .expect("the stream ends although the caller keeps it open");
    assert!(end.unwrap().is_none());
}

#[tokio::test]
async fn a_bad_message_is_refused_alone() {
    let server = TestServer::open().await;
    let mut client = Client::open(&server).await;
    let too_many = vec![1; limits::MAX_ITEMS + 1];
    let counts = v1::NextManyRequest { counts: vec![1], ..request(vec![1, 2]) };
    let hops = v1::NextManyRequest { hops: limits::MAX_HOPS + 1, ..request(vec![1]) };
    let bad = [
        (None, "EMPTY_BATCH"),
        (Some(request(Vec::new())), "EMPTY_BATCH"),
        (Some(request(too_many)), "BATCH_TOO_LARGE"),
        (Some(counts), "COUNTS_MISMATCH"),
        (Some(hops), "TOO_MANY_HOPS"),
    ];
    for (tag, (request, reason)) in (1..).zip(bad) {
        client.send(v1::NextStreamRequest { tag, request, ..v1::NextStreamRequest::default() }).await;
        match client.receive().await {
            v1::NextStreamResponse { tag: answered, outcome: Some(Outcome::Refusal(refusal)) } => {
                assert_eq!((answered, &*refusal.reason), (tag, reason));
            }
            other => panic!("{reason}: {other:?}"),
        }
    }
    // An invalid item is refused alone.
    let counted = v1::NextManyRequest { counts: vec![1, 1_000_001], ..request(vec![1, 2]) };
    client.send(v1::NextStreamRequest { tag: 9, request: Some(counted), ..v1::NextStreamRequest::default() }).await;
    let Some(Outcome::Response(answer)) = client.receive().await.outcome else { panic!("refused as a whole") };
    assert_eq!((answer.values, &*answer.errors[0].reason), (vec![1, 0], "COUNT_OUT_OF_RANGE"));
    assert_eq!(server.twin.last(1), 1, "refused items moved nothing");
}

#[tokio::test]
async fn a_stream_with_too_many_pending_messages_is_not_read() {
    let server = TestServer::open().await;
    server.twin.hold(&[1]);
    let mut client = Client::open(&server).await;
    for tag in 0..MAX_PENDING {
        client.send_items(tag, vec![1]).await;
    }
    // One more than the limit: it is not read, although it could complete.
    client.send_items(MAX_PENDING, vec![2]).await;
    let held = async {
        loop {
            if server.twin.calls().len() as u64 == MAX_PENDING {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TIMEOUT, held).await.expect("all are held");
    assert_eq!(server.twin.last(2), 0);
    server.twin.hold(&[]);
    for _ in 0..=MAX_PENDING {
        client.receive().await;
    }
    assert_eq!((server.twin.last(1), server.twin.last(2)), (MAX_PENDING, 1));
}
