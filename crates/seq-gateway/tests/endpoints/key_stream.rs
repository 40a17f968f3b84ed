//! Messages of a stream for keys: each gets one response, with its tag, as soon as it is complete.

use std::time::Duration;

use seq_core::keyspace::Bucket;
use seq_proto::v1;
use seq_proto::v1::key_service_client::KeyServiceClient;
use seq_proto::v1::next_stream_response::Outcome;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::twin::TestServer;

/// Timeout of a response, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

struct Client {
    send: mpsc::Sender<v1::NextKeysMessage>,
    responses: Streaming<v1::NextStreamResponse>,
}

impl Client {
    async fn open(server: &TestServer) -> Client {
        server.twin.route(1);
        let (send, messages) = mpsc::channel(8);
        let mut client = KeyServiceClient::new(server.channel.clone());
        let responses = client.next_stream(ReceiverStream::new(messages)).await.unwrap().into_inner();
        Client { send, responses }
    }

    async fn send(&self, tag: u64, keyspace: &str, keys: &[&str]) {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        let request = v1::NextKeysRequest { keyspace: keyspace.to_owned(), keys, ..v1::NextKeysRequest::default() };
        let message = v1::NextKeysMessage { tag, request: Some(request), timeout_ms: 10_000 };
        tokio::time::timeout(TIMEOUT, self.send.send(message)).await.expect("the message is taken").unwrap();
    }

    /// Returns the tag of the next response, and its values or the reason for which the message was refused.
    async fn receive(&mut self) -> (u64, Result<Vec<u64>, String>) {
        let response = tokio::time::timeout(TIMEOUT, self.responses.message()).await.expect("a response");
        let v1::NextStreamResponse { tag, outcome } = response.unwrap().expect("one more");
        match outcome.unwrap() {
            Outcome::Response(response) => (tag, Ok(response.values)),
            Outcome::Refusal(refusal) => (tag, Err(refusal.reason)),
        }
    }
}

#[tokio::test]
async fn every_message_gets_one_response_with_its_tag() {
    let server = TestServer::open().await;
    let mut client = Client::open(&server).await;
    for tag in 0..300 {
        client.send(tag, "main", &["conv:1", "conv:2", "conv:1"]).await;
        assert_eq!(client.receive().await, (tag, Ok(vec![2 * tag + 1, tag + 1, 2 * tag + 2])));
    }
    drop(client.send);
    assert!(client.responses.message().await.unwrap().is_none(), "the stream ends after its last response");
}

#[tokio::test]
async fn a_waiting_message_blocks_no_other_and_is_completed_at_a_shutdown() {
    let server = TestServer::open().await;
    // The buckets of the twin's keyspace are its sections from 10 on.
    server.twin.hold(&[10 + u64::from(Bucket::of(b"held").index())]);
    let mut client = Client::open(&server).await;
    client.send(1, "main", &["held"]).await;
    for tag in 2..10 {
        client.send(tag, "main", &["other"]).await;
        assert_eq!(client.receive().await, (tag, Ok(vec![tag - 1])));
    }
    server.group.cancel();
    server.twin.hold(&[]);
    assert_eq!(client.receive().await, (1, Ok(vec![1])));
    let end = tokio::time::timeout(TIMEOUT, client.responses.message()).await;
    assert!(end.expect("the stream ends although the caller keeps it open").unwrap().is_none());
}

#[tokio::test]
async fn a_bad_message_is_refused_alone() {
    let server = TestServer::open().await;
    let mut client = Client::open(&server).await;
    let bad: [(&str, &[&str], &str); 2] = [("main", &[], "EMPTY_BATCH"), ("nothing", &["a"], "UNKNOWN_KEYSPACE")];
    for (tag, (keyspace, keys, reason)) in (1..).zip(bad) {
        client.send(tag, keyspace, keys).await;
        assert_eq!(client.receive().await, (tag, Err(reason.to_owned())));
    }
    client.send(9, "main", &["a"]).await;
    assert_eq!(client.receive().await, (9, Ok(vec![1])), "the refused messages moved nothing");
    let long = "x".repeat(513);
    client.send(10, "main", &["a", &long, "", "a"]).await;
    assert_eq!(client.receive().await, (10, Ok(vec![2, 0, 0, 3])), "keys of a bad size are refused alone");
}
