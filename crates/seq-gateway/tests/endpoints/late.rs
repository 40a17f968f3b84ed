//! In every protocol, a request whose caller's deadline is over is refused with DEADLINE_EXCEEDED and without a retry
//! hint, for any reason of its wait. A limit of the node is no deadline of the caller, so a retry is worthwhile.

use bytes::Bytes;
use http::Request as HttpRequest;
use seq_core::{Epoch, NodeId, Refusal, SectionId, SetId};
use seq_proto::v1::next_stream_response::Outcome;
use seq_proto::{Reason, status, v1};
use serde_json::json;
use tokio::net::TcpStream;
use tonic::{Code, Status};

use crate::http::http1;
use crate::resp::TIMEOUT;
use crate::twin::TestServer;

const SERVICE: &str = "/seqsvr.v1.SequenceService";

/// `NextRequest { uid: 4, count: 1, above: None }` in a gRPC frame.
const NEXT: &[u8] = b"\0\0\0\0\x04\x08\x04\x10\x01";

/// Refusals of a call that waits until its deadline.
fn waits() -> [Refusal; 9] {
    let (section, owner, set) = (SectionId(1), NodeId(2), SetId(3));
    [
        Refusal::DeadlinePassed { section },
        Refusal::Unserved { section },
        Refusal::NotOwner { section, owner: Some(owner) },
        Refusal::LeaseExpired { section },
        Refusal::StaleEpoch { section, mine: Epoch(1), callers: Epoch(2) },
        Refusal::CeilingStalled { section },
        Refusal::OwnerUnreachable { section, owner },
        Refusal::OwnerTimedOut { section, owner },
        Refusal::SetUnavailable { section, set },
    ]
}

#[tokio::test]
async fn every_wait_ends_as_an_elapsed_deadline_in_every_protocol() {
    let server = TestServer::open().await;
    for refusal in waits() {
        server.twin.stall(Some(refusal));
        let reason = Reason::of(&refusal).name();
        let refused = grpc_status(&server, "40m", Some(NEXT)).await.expect("a refusal");
        assert_eq!((refused.code(), status::retry_after(&refused)), (Code::DeadlineExceeded, None), "{refused}");
        assert_eq!(status::reason(&refused).as_deref(), Some(reason), "{refused}");

        let many = v1::NextManyRequest { uids: vec![1, 5_000], ..Default::default() };
        let message = v1::NextStreamRequest { tag: 1, request: Some(many), timeout_ms: 40, now_only: false };
        let mut responses = server.client().next_stream(tokio_stream::iter([message])).await.unwrap().into_inner();
        let response = responses.message().await.unwrap().unwrap();
        let Some(Outcome::Response(response)) = response.outcome else { panic!("{response:?}") };
        let item = &response.errors[0];
        assert_eq!((item.code, &*item.reason, item.retry_after_ms), (Code::DeadlineExceeded as u32, reason, 0));

        let headers = [("content-type", "application/json"), ("connect-timeout-ms", "40")];
        for (method, body) in
            [("Next", r#"{"uid":1}"#), ("Current", r#"{"uid":1}"#), ("Advance", r#"{"uid":1,"to":5}"#)]
        {
            let answer = http1(server.addr, "POST", &format!("{SERVICE}/{method}"), &headers, body).await;
            let error = answer.json();
            let found = (answer.status, &error["code"], answer.header("retry-after"));
            assert_eq!(found, (504, &json!("deadline_exceeded"), None), "{method}: {answer:?}");
            assert_eq!(error["details"][0]["debug"]["reason"], reason, "{method}: {answer:?}");
            assert_eq!(error["details"].as_array().unwrap().len(), 1, "no RetryInfo: {answer:?}");
        }
        for (method, body) in [("NextMany", r#"{"uids":[1]}"#), ("CurrentMany", r#"{"uids":[1]}"#)] {
            let answer = http1(server.addr, "POST", &format!("{SERVICE}/{method}"), &headers, body).await;
            let item = &answer.json()["errors"][0];
            let found = (&item["code"], &item["reason"], &item["retryAfterMs"]);
            assert_eq!(found, (&json!(4), &json!(reason), &json!(0)), "{method}: {answer:?}");
        }
    }
    assert_eq!((server.twin.last(1), server.twin.last(4)), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_the_node_leaves_code_and_hint() {
    let server = TestServer::open().await;
    server.twin.stall(Some(Refusal::CeilingStalled { section: SectionId(1) }));
    let answer = http1(server.addr, "POST", "/api/seq/next/1", &[], "").await;
    let found = (answer.status, answer.header("seq-reason"), answer.header("retry-after"));
    assert_eq!(found, (503, Some("CEILING_STALLED"), Some("1")), "{answer:?}");
}

/// Sends `Next` with this timeout and body, without a timer on the client's side; returns the refusal.
async fn grpc_status(server: &TestServer, timeout: &str, body: Option<&'static [u8]>) -> Option<Status> {
    let stream = TcpStream::connect(server.addr).await.unwrap();
    let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
    let request = HttpRequest::post(format!("http://{}{SERVICE}/Next", server.addr))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("grpc-timeout", timeout)
        .body(())
        .unwrap();
    let (response, mut send) = client.send_request(request, false).unwrap();
    if let Some(body) = body {
        send.send_data(Bytes::from_static(body), true).unwrap();
    }
    let response = tokio::select! {
        response = response => response.unwrap(),
        end = connection => panic!("the connection ended: {end:?}"),
        () = tokio::time::sleep(TIMEOUT) => panic!("no response"),
    };
    Status::from_header_map(response.headers())
}

#[tokio::test]
async fn no_timeout_is_too_short_for_its_status() {
    let server = TestServer::open().await;
    server.twin.stall(Some(Refusal::Unserved { section: SectionId(1) }));
    for timeout in ["0n", "1n", "10u", "300u", "999u", "1m", "3m", "20m"] {
        for body in [Some(NEXT), None] {
            for _ in 0..10 {
                let status = grpc_status(&server, timeout, body).await;
                let code = status.map(|status| status.code());
                assert_eq!(code, Some(Code::DeadlineExceeded), "{timeout}, with a body: {}", body.is_some());
            }
        }
    }
    assert_eq!(server.twin.last(4), 0);
}
