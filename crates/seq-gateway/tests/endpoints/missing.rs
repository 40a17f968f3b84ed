//! A request that lacks a field is refused where its absence could be taken for a zero: a caller with a misspelt field
//! must not get numbers of user 0.

use seq_proto::v1::next_stream_response::Outcome;
use seq_proto::{status, v1};
use serde_json::json;
use tonic::{Code, Status};

use crate::http::{http1, http2};
use crate::resp::Port;
use crate::twin::TestServer;

const SERVICE: &str = "/seqsvr.v1.SequenceService";

fn check(what: &str, refused: &Status, reason: &str) {
    let found = (refused.code(), status::reason(refused), status::retry_after(refused));
    assert_eq!(found, (Code::InvalidArgument, Some(reason.to_owned()), None), "{what}: {refused}");
}

#[tokio::test]
async fn a_grpc_request_without_a_uid_is_refused() {
    let server = TestServer::open().await;
    let mut client = server.client();
    check("Next", &client.next(v1::NextRequest { count: 1, ..Default::default() }).await.unwrap_err(), "UID_MISSING");
    check("Current", &client.current(v1::CurrentRequest::default()).await.unwrap_err(), "UID_MISSING");
    let advance = |uid, to| v1::AdvanceRequest { uid, to, ..Default::default() };
    check("Advance", &client.advance(advance(None, Some(9))).await.unwrap_err(), "UID_MISSING");
    check("Advance", &client.advance(advance(Some(4), None)).await.unwrap_err(), "TO_MISSING");
    check("NextMany", &client.next_many(v1::NextManyRequest::default()).await.unwrap_err(), "EMPTY_BATCH");
    check("CurrentMany", &client.current_many(v1::CurrentManyRequest::default()).await.unwrap_err(), "EMPTY_BATCH");
    let messages = [None, Some(v1::NextManyRequest::default())].map(|request| v1::NextStreamRequest {
        tag: 3,
        request,
        timeout_ms: 0,
        now_only: false,
    });
    let mut responses = client.next_stream(tokio_stream::iter(messages)).await.unwrap().into_inner();
    for _ in 0..2 {
        let response = responses.message().await.unwrap().expect("a response to each message");
        let Some(Outcome::Refusal(refused)) = response.outcome else { panic!("{response:?}") };
        assert_eq!((response.tag, refused.reason.as_str()), (3, "EMPTY_BATCH"));
    }
    assert_eq!((server.twin.last(0), server.twin.last(4), server.twin.calls().len()), (0, 0, 0));
}

#[tokio::test]
async fn a_connect_request_without_a_uid_is_refused() {
    let server = TestServer::open().await;
    let json = [
        ("Next", r#"{"userId":"42"}"#, "UID_MISSING"),
        ("Next", r#"{"UID":42,"count":1}"#, "UID_MISSING"),
        ("Next", r#"{"uids":[42]}"#, "UID_MISSING"),
        ("Next", r#"{"uid":null,"count":1}"#, "UID_MISSING"),
        ("Next", "{}", "UID_MISSING"),
        ("Current", "{}", "UID_MISSING"),
        ("Advance", r#"{"to":"5"}"#, "UID_MISSING"),
        ("Advance", r#"{"uid":"4","value":"5"}"#, "TO_MISSING"),
        ("Advance", r#"{"uid":"4","to":null}"#, "TO_MISSING"),
        ("Next", r#"{"uid":""}"#, "MALFORMED"),
        ("NextMany", r#"{"uid":[1]}"#, "EMPTY_BATCH"),
        ("NextMany", r#"{"uids":[1,null]}"#, "MALFORMED"),
        ("NextMany", r#"{"uids":null}"#, "EMPTY_BATCH"),
        ("CurrentMany", r#"{"uids":[null]}"#, "MALFORMED"),
    ]
    .map(|(method, body, reason)| ("application/json", method, body, reason));
    let proto = [
        ("Next", "", "UID_MISSING"),
        ("Next", "\x10\x01", "UID_MISSING"),
        ("Current", "", "UID_MISSING"),
        ("Advance", "\x10\x05", "UID_MISSING"),
        ("Advance", "\x08\x04", "TO_MISSING"),
    ]
    .map(|(method, body, reason)| ("application/proto", method, body, reason));
    for (content_type, method, body, reason) in json.into_iter().chain(proto) {
        let (path, headers) = (format!("{SERVICE}/{method}"), [("content-type", content_type)]);
        for answer in [
            http1(server.addr, "POST", &path, &headers, body).await,
            http2(&server.channel, "POST", &path, &headers, body).await,
        ] {
            let error = answer.json();
            let found = (answer.status, &error["code"], &error["details"][0]["debug"]["reason"]);
            assert_eq!(found, (400, &json!("invalid_argument"), &json!(reason)), "{method} {body:?}: {answer:?}");
        }
    }
    assert_eq!((server.twin.last(0), server.twin.last(4), server.twin.calls().len()), (0, 0, 0));
}

#[tokio::test]
async fn a_path_or_key_without_a_uid_is_refused() {
    let server = TestServer::open_with(true).await;
    for path in ["next/", "next", "next/?n=1", "current/", "current"] {
        let answer = http1(server.addr, "GET", &format!("/api/seq/{path}"), &[], "").await;
        assert_eq!(answer.status, 404, "{path}: {answer:?}");
    }
    assert_eq!(server.twin.last(0), 0);
    let port = Port::open();
    let mut client = port.call().await;
    for command in ["INCR seq:", "INCRBY seq: 1", "SET seq: 5", "GET seq:"] {
        let reply = client.ask(format!("{command}\r\n")).await;
        assert!(reply.starts_with("-ERR 'seq:' is no sequence"), "{command}: {reply}");
    }
    assert_eq!(port.twin.last(0), 0);
}

#[tokio::test]
async fn a_zero_that_is_sent_is_user_0() {
    let server = TestServer::open().await;
    let mut client = server.client();
    let next = v1::NextRequest { uid: Some(0), ..Default::default() };
    assert_eq!(client.next(next).await.unwrap().into_inner().value, 1);
    let headers = [("content-type", "application/json")];
    for (method, body) in [
        ("Next", r#"{"uid":0}"#),
        ("Next", r#"{"uid":"0"}"#),
        ("Current", r#"{"uid":0}"#),
        ("Advance", r#"{"uid":0,"to":"7"}"#),
        ("Advance", r#"{"uid":1,"to":0}"#),
        ("NextMany", r#"{"uids":[0]}"#),
    ] {
        let answer = http1(server.addr, "POST", &format!("{SERVICE}/{method}"), &headers, body).await;
        assert_eq!(answer.status, 200, "{method} {body}: {answer:?}");
    }
    let headers = [("content-type", "application/proto")];
    let proto = http1(server.addr, "POST", &format!("{SERVICE}/Next"), &headers, "\x08\0").await;
    assert_eq!(proto.body, "\x08\x09\x10\x08\x18\x01", "value 9 after 8");
    // A node of an earlier release forwards a request for user 0 without its uid.
    let forwarded = v1::NextRequest { count: 1, hops: 1, ..Default::default() };
    assert_eq!(client.next(forwarded).await.unwrap().into_inner().value, 10);
    let forwarded = v1::AdvanceRequest { hops: 1, to: Some(20), ..Default::default() };
    client.advance(forwarded).await.unwrap();
    assert_eq!((server.twin.last(0), server.twin.last(1)), (20, 0));
}
