//! Defaults of client libraries: content types, codecs, versions of HTTP and of reflection. An unsupported request is
//! refused before a number is allocated, in a form that the library can decode.

use std::net::SocketAddr;

use seq_proto::v1;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic_reflection::pb::v1alpha::ServerReflectionRequest;
use tonic_reflection::pb::v1alpha::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1alpha::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1alpha::server_reflection_response::MessageResponse;

use crate::http::{HttpResponse, http1, http2};
use crate::resp::TIMEOUT;
use crate::twin::TestServer;

const SERVICE: &str = "/seqsvr.v1.SequenceService";

/// `NextRequest { uid: 4, count: 1, above: None }` in protobuf.
const NEXT: &str = "\x08\x04\x10\x01";

/// The same message in a gRPC frame.
const FRAMED: &str = "\0\0\0\0\x04\x08\x04\x10\x01";

async fn post(addr: SocketAddr, method: &str, content_type: &str, body: &str) -> HttpResponse {
    http1(addr, "POST", &format!("{SERVICE}/{method}"), &[("content-type", content_type)], body).await
}

async fn json(server: &TestServer, method: &str, body: &str) -> (u16, Value) {
    let answer = post(server.addr, method, "application/json", body).await;
    (answer.status, answer.json())
}

#[tokio::test]
async fn reflection_is_served_in_both_versions() {
    let server = TestServer::open().await;
    let mut client = ServerReflectionClient::new(server.channel.clone());
    let ask = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let answers = client.server_reflection_info(tokio_stream::once(ask)).await;
    let answer = answers.expect("reflection v1alpha is served").into_inner().message().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else { panic!("{answer:?}") };
    let names: Vec<_> = list.service.iter().map(|service| service.name.as_str()).collect();
    for name in ["grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    assert!(names.contains(&"seqsvr.v1.SequenceService"), "{names:?}");
}

#[tokio::test]
async fn other_kinds_of_grpc_are_refused_before_a_number_is_taken() {
    let server = TestServer::open().await;
    let others = ["-web", "-web+proto", "-web-text", "foo", "+json", "+thrift", "+proto2"];
    for other in others.map(|other| format!("application/grpc{other}")) {
        let headers = [("content-type", other.as_str()), ("te", "trailers")];
        for answer in [
            http1(server.addr, "POST", &format!("{SERVICE}/Next"), &headers, FRAMED).await,
            http2(&server.channel, "POST", &format!("{SERVICE}/Next"), &headers, FRAMED).await,
        ] {
            assert_eq!(answer.status, 415, "{other}: {answer:?}");
            assert!(answer.body.contains("application/grpc"), "{other}: {answer:?}");
        }
    }
    for content_type in ["application/grpc", "application/grpc+proto"] {
        let answer = post(server.addr, "Next", content_type, FRAMED).await;
        assert_eq!(answer.status, 415, "{content_type} over HTTP/1.1: {answer:?}");
        assert!(answer.body.contains("HTTP/2"), "{answer:?}");
    }
    assert_eq!((server.twin.last(4), server.twin.calls().len()), (0, 0), "what was refused took nothing");
    let path = format!("{SERVICE}/Next");
    for (content_type, value) in
        [("application/grpc", 1), ("application/grpc+proto", 2), ("application/grpc;charset=utf-8", 3)]
    {
        let headers = [("content-type", content_type), ("te", "trailers")];
        assert_eq!(http2(&server.channel, "POST", &path, &headers, FRAMED).await.status, 200, "{content_type}");
        assert_eq!(server.twin.last(4), value, "{content_type}");
    }
}

#[tokio::test]
async fn connect_works_in_its_default_codec() {
    let server = TestServer::open().await;
    let answer = post(server.addr, "Next", "application/proto", NEXT).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/proto")), "{answer:?}");
    assert_eq!(answer.body, "\x08\x01\x18\x01", "value 1, no prev, epoch 1");
    // Errors are JSON in both codecs.
    let table = [
        ("Next", "\x08\u{1}\x10\u{1}\x28\x03", 400, "invalid_argument", "TOO_MANY_HOPS"),
        ("Next", "\x0f", 400, "invalid_argument", "MALFORMED"),
        ("NextMany", "", 400, "invalid_argument", "EMPTY_BATCH"),
    ];
    for (method, body, status, code, reason) in table {
        let answer = post(server.addr, method, "application/proto", body).await;
        let error = answer.json();
        assert_eq!((answer.status, answer.header("content-type")), (status, Some("application/json")), "{answer:?}");
        assert_eq!((&error["code"], &error["details"][0]["debug"]["reason"]), (&json!(code), &json!(reason)));
    }
    let current = post(server.addr, "Current", "application/proto", "\x08\x04").await;
    assert_eq!(current.body, "\x08\x01\x10\x01\x18\x01", "value 1, exact, epoch 1");
    assert_eq!(post(server.addr, "GetRoutes", "application/proto", "").await.status, 200);
}

#[tokio::test]
async fn a_path_that_is_no_unary_method_gets_the_error_of_connect() {
    let server = TestServer::open().await;
    for (method, content_type) in
        [("Nothing", "application/json"), ("NextStream", "application/proto"), ("next", "application/json")]
    {
        let answer = post(server.addr, method, content_type, "{}").await;
        assert_eq!(answer.header("content-type"), Some("application/json"), "{method}: {answer:?}");
        let error = answer.json();
        assert_eq!((answer.status, &error["code"]), (501, &json!("unimplemented")), "{method}: {answer:?}");
        assert!(error["message"].as_str().unwrap().contains(method), "{error}");
    }
    // A stream ends with a message of its own that holds the error.
    let stream = post(server.addr, "NextStream", "application/connect+proto", "\0\0\0\0\0").await;
    assert_eq!((stream.status, stream.header("content-type")), (200, Some("application/connect+proto")), "{stream:?}");
    let (head, end) = stream.body.split_at(5);
    assert_eq!(head.as_bytes()[0], 2, "the flag of the end");
    let end: Value = serde_json::from_str(end).unwrap();
    assert_eq!(end["error"]["code"], "unimplemented", "{end}");
}

#[tokio::test]
async fn a_body_is_read_before_it_is_refused() {
    let server = TestServer::open().await;
    let large = "x".repeat(900_000);
    for (path, content_type) in [
        (format!("{SERVICE}/Next"), "text/plain"),
        (format!("{SERVICE}/Nothing"), "application/json"),
        ("/nowhere".to_owned(), "application/json"),
        (format!("{SERVICE}/Next"), "application/grpc-web+proto"),
    ] {
        let mut stream = TcpStream::connect(server.addr).await.unwrap();
        let head = |length: usize, more: &str| {
            format!(
                "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n{more}\r\n"
            )
        };
        // The connection stays usable: no byte of the first body is left on it.
        let requests = [head(large.len(), ""), large.clone(), head(0, "connection: close\r\n")].concat();
        stream.write_all(requests.as_bytes()).await.unwrap_or_else(|error| panic!("{path} {content_type}: {error}"));
        let mut answers = Vec::new();
        let read = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut answers)).await.expect("the responses");
        read.unwrap_or_else(|error| panic!("{path} {content_type}: {error}"));
        let answers = String::from_utf8(answers).unwrap();
        assert_eq!(answers.matches("HTTP/1.1 ").count(), 2, "{path} {content_type}: {answers}");
    }
    assert_eq!(server.twin.calls(), []);
}

#[tokio::test]
async fn a_request_without_a_count_takes_one_number() {
    let server = TestServer::open().await;
    let next = v1::NextRequest { uid: Some(4), ..v1::NextRequest::default() };
    assert_eq!(server.client().next(next).await.unwrap().into_inner().value, 1);
    for (body, value) in [(r#"{"uid":4}"#, "2"), (r#"{"uid":4,"count":0}"#, "3"), (r#"{"uid":"4","count":"0"}"#, "4")] {
        let (status, answer) = json(&server, "Next", body).await;
        assert_eq!((status, &answer["value"]), (200, &json!(value)), "{body}: {answer}");
    }
    let many = v1::NextManyRequest { uids: vec![4, 4, 4], counts: vec![0, 2, 0], ..v1::NextManyRequest::default() };
    let many = server.client().next_many(many).await.unwrap().into_inner();
    assert_eq!((many.values, many.errors), (vec![5, 7, 8], vec![]));
}

#[tokio::test]
async fn json_is_decoded_by_the_mapping_of_proto3() {
    let server = TestServer::open().await;
    let good = [
        (r#"{"uid":4,"count":1,"later":{"x":[1,null]},"more":null}"#, "a newer client's field"),
        (r#"{"uid":4,"count":null,"routeVersion":null,"epoch":null,"hops":null}"#, "null is a field's default"),
        (r#"{"uid":"4","count":"1"}"#, "strings"),
    ];
    for (body, why) in good {
        let (status, answer) = json(&server, "Next", body).await;
        assert_eq!(status, 200, "{why}: {answer}");
    }
    let (status, answer) = json(&server, "NextMany", r#"{"uids":[4,"4"],"counts":null,"knownEpochs":null}"#).await;
    assert_eq!((status, &answer["values"]), (200, &json!(["4", "5"])), "{answer}");
    let words = "must be a number or a string of digits";
    let bad = [
        (r#"{"uid":"+5"}"#, "uid: "),
        (r#"{"uid":" 5"}"#, "uid: "),
        (r#"{"uid":""}"#, "uid: "),
        (r#"{"uid":9007199254740993.5}"#, "uid: "),
        (r#"{"uid":true}"#, "uid: "),
        (r#"{"uid":[1]}"#, "uid: "),
        (r#"{"uid":-1}"#, "uid: "),
        (r#"{"uid":18446744073709551616}"#, "uid: "),
        (r#"{"uid":1,"count":"4294967296"}"#, "count: "),
    ];
    let before = server.twin.last(4);
    for (body, field) in bad {
        let (status, error) = json(&server, "Next", body).await;
        let message = error["message"].as_str().unwrap();
        assert!(status == 400 && message.starts_with(field), "{body}: {error}");
        assert!(message.contains(words) || message.contains("is not in 0..="), "{body}: {error}");
        assert!(!message.contains("untagged"), "{body}: {error}");
    }
    let (status, error) = json(&server, "NextMany", r#"{"uids":[1,null]}"#).await;
    assert!(status == 400 && error["message"].as_str().unwrap().starts_with("uids[1]: "), "{error}");
    assert_eq!(server.twin.last(4), before, "what was refused took nothing");
}
