//! JSON as the Connect protocol defines it, over HTTP/1.1 and HTTP/2.

use std::time::Duration;

use seq_api::service::Via;
use seq_core::limits::MAX_ITEMS;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::http::{HttpResponse, http1, http2};
use crate::twin::TestServer;

const SERVICE: &str = "/seqsvr.v1.SequenceService";

fn json_headers<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [&[("content-type", "application/json")], more].concat()
}

async fn call(server: &TestServer, method: &str, body: &str) -> HttpResponse {
    http1(server.addr, "POST", &format!("{SERVICE}/{method}"), &json_headers(&[]), body).await
}

async fn message(server: &TestServer, method: &str, body: Value) -> Value {
    let answer = call(server, method, &body.to_string()).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")), "{answer:?}");
    answer.json()
}

#[tokio::test]
async fn numbers_are_served_over_both_versions_of_http() {
    let server = TestServer::open().await;
    let path = format!("{SERVICE}/Next");
    let headers = json_headers(&[("connect-protocol-version", "1")]);
    let first = http1(server.addr, "POST", &path, &headers, r#"{"uid":"4","count":1}"#).await;
    assert_eq!((first.status, first.json()), (200, json!({ "value": "1", "prev": "0", "epoch": "1" })));
    let second = http2(&server.channel, "POST", &path, &headers, r#"{"uid":4,"count":"10"}"#).await;
    assert_eq!((second.status, second.json()), (200, json!({ "value": "11", "prev": "1", "epoch": "1" })));
    assert!(server.twin.calls().iter().all(|call| (call.via, call.hops) == (Via::Json, 0)));
}

#[tokio::test]
async fn every_unary_method_is_served() {
    let server = TestServer::open().await;
    let many = message(&server, "NextMany", json!({ "uids": ["4", 5, "5000"], "counts": [2, 1, 1] })).await;
    assert_eq!((&many["values"], &many["prevs"]), (&json!(["2", "1", "0"]), &json!(["0", "0", "0"])), "{many}");
    assert_eq!((&many["errors"][0]["index"], &many["errors"][0]["reason"]), (&json!(2), &json!("UID_OUT_OF_RANGE")));
    let current = message(&server, "Current", json!({ "uid": 4 })).await;
    assert_eq!(current, json!({ "value": "2", "exactness": "EXACTNESS_EXACT", "epoch": "1" }));
    let currents = message(&server, "CurrentMany", json!({ "uids": [5, 4] })).await;
    assert_eq!(currents["exactness"], json!(["EXACTNESS_UPPER_BOUND", "EXACTNESS_EXACT"]));
    let advanced = message(&server, "Advance", json!({ "uid": 4, "to": "9007199254740993" })).await;
    assert_eq!(advanced["epoch"], "1");
    assert_eq!(server.twin.last(4), 9_007_199_254_740_993, "beyond what a double holds");
    assert_eq!(message(&server, "GetRoutes", json!({})).await, json!({}));
    server.twin.route(3);
    let routes = message(&server, "GetRoutes", json!({ "knownVersion": "0" })).await;
    assert_eq!((&routes["routes"]["version"], &routes["routes"]["runs"][0]["sections"]), (&json!("3"), &json!(10)));
    let next = message(&server, "Next", json!({ "uid": 1, "count": 1, "route_version": 2 })).await;
    assert_eq!(next["routes"]["baseVersion"], "2", "names of fields may be those of the proto");
}

#[tokio::test]
async fn refusals_carry_code_status_reason_and_details() {
    let server = TestServer::open().await;
    let table = [
        ("Next", json!({ "uid": "1000", "count": 1 }), 400, "out_of_range", "UID_OUT_OF_RANGE"),
        ("Next", json!({ "uid": "1", "count": 1_000_001 }), 400, "invalid_argument", "COUNT_OUT_OF_RANGE"),
        ("Next", json!({ "uid": "1", "count": 1, "hops": 3 }), 400, "invalid_argument", "TOO_MANY_HOPS"),
        ("NextMany", json!({ "uids": [] }), 400, "invalid_argument", "EMPTY_BATCH"),
        ("NextMany", json!({ "uids": vec![1; MAX_ITEMS + 1] }), 400, "invalid_argument", "BATCH_TOO_LARGE"),
        ("CurrentMany", json!({}), 400, "invalid_argument", "EMPTY_BATCH"),
    ];
    for (method, body, status, code, reason) in table {
        let answer = call(&server, method, &body.to_string()).await;
        let error = answer.json();
        assert_eq!((answer.status, &error["code"]), (status, &json!(code)), "{answer:?}");
        let detail = &error["details"][0];
        assert_eq!((&detail["type"], &detail["debug"]["reason"]), (&json!("google.rpc.ErrorInfo"), &json!(reason)));
        assert!(!detail["value"].as_str().unwrap().contains('='), "base64 without padding: {error}");
        assert_eq!(answer.header("retry-after"), None);
    }
    server.twin.refuse(true);
    let answer = call(&server, "Next", r#"{"uid":1,"count":1}"#).await;
    assert_eq!((answer.status, &answer.json()["code"]), (503, &json!("unavailable")), "{answer:?}");
    assert_eq!(answer.header("retry-after"), Some("1"));
    let error = answer.json();
    let retry = error["details"].as_array().unwrap().iter().find(|detail| detail["type"] == "google.rpc.RetryInfo");
    assert_eq!(retry.unwrap()["debug"]["retryDelay"], "0.02s", "{error}");
}

#[tokio::test]
async fn an_invalid_message_is_refused_with_field_and_position() {
    let server = TestServer::open().await;
    let table = [
        ("", "line 1 column 0"),
        ("{", "line 1 column 1"),
        ("null", "line 1 column 4"),
        ("[1,2]", "line 1 column"),
        (r#"{"uid":1} x"#, "line 1 column 11"),
        (r#"{"uid":"x","count":1}"#, "uid: "),
        (r#"{"uid":-1,"count":1}"#, "uid: "),
        (r#"{"uid":1.5,"count":1}"#, "uid: "),
        (r#"{"uid":18446744073709551616,"count":1}"#, "uid: "),
        (r#"{"uid":1,"count":4294967296}"#, "count: "),
        (r#"{"uid":1,"uid":2}"#, "duplicate field `uid`"),
        ("{\"uid\":\"\u{fffd}\"}", "uid: "),
    ];
    for (body, text) in table {
        let answer = call(&server, "Next", body).await;
        let error = answer.json();
        assert_eq!((answer.status, &error["code"]), (400, &json!("invalid_argument")), "{body}: {answer:?}");
        assert_eq!(error["details"][0]["debug"]["reason"], "MALFORMED", "{body}");
        assert!(error["message"].as_str().unwrap().contains(text), "{body}: {error} does not contain {text:?}");
    }
    let answer = call(&server, "NextMany", r#"{"uids":[1,2,"x"]}"#).await;
    assert!(answer.json()["message"].as_str().unwrap().starts_with("uids"), "{answer:?}");
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(call(&server, "Next", &deep).await.status, 400);
    assert_eq!(server.twin.calls(), []);
}

#[tokio::test]
async fn the_protocol_is_enforced() {
    let server = TestServer::open().await;
    let (path, good) = (format!("{SERVICE}/Next"), r#"{"uid":1,"count":1}"#);
    let ask = async |method: &str, path: &str, headers: &[(&str, &str)]| {
        http1(server.addr, method, path, headers, good).await
    };
    for method in ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let answer = ask(method, &path, &json_headers(&[])).await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")), "{method}");
    }
    for content_type in ["text/plain", "application/xml", "application/protobuf", "application/jsonp", ""] {
        let answer = ask("POST", &path, &[("content-type", content_type)]).await;
        assert_eq!(
            (answer.status, answer.header("accept-post")),
            (415, Some("application/json, application/proto")),
            "{content_type}"
        );
    }
    assert_eq!(ask("POST", &path, &[]).await.status, 415);
    for content_type in ["application/json; charset=utf-8", "Application/JSON", "application/json;charset=utf-8"] {
        assert_eq!(ask("POST", &path, &[("content-type", content_type)]).await.status, 200, "{content_type}");
    }
    for method in ["NextStream", "Nothing", "Next/", "next"] {
        assert_eq!(ask("POST", &format!("{SERVICE}/{method}"), &json_headers(&[])).await.status, 501, "{method}");
    }
    let bad = [
        ("connect-protocol-version", "2", 400),
        ("connect-timeout-ms", "soon", 400),
        ("connect-timeout-ms", "-1", 400),
        ("connect-timeout-ms", "0", 400),
        ("connect-timeout-ms", "", 400),
        ("connect-timeout-ms", "12345678901", 400),
        ("content-encoding", "gzip", 501),
    ];
    for (name, value, status) in bad {
        assert_eq!(ask("POST", &path, &json_headers(&[(name, value)])).await.status, status, "{name}: {value}");
    }
}

#[tokio::test]
async fn the_deadline_of_a_request_is_that_of_its_caller() {
    let server = TestServer::open().await;
    let held = async |headers: &[(&str, &str)]| {
        let sent = Instant::now();
        let answer =
            http1(server.addr, "POST", &format!("{SERVICE}/Next"), &json_headers(headers), r#"{"uid":1,"count":1}"#)
                .await;
        assert_eq!(answer.status, 200);
        server.twin.calls().last().unwrap().deadline.saturating_duration_since(sent)
    };
    let (short, usual) = (held(&[("connect-timeout-ms", "1000")]).await, held(&[]).await);
    let longest = held(&[("connect-timeout-ms", "9999999999")]).await;
    assert!(usual > Duration::from_secs(3), "longer than a failover of 2.5 s and its detection: {usual:?}");
    assert!(
        short < usual && usual < longest && longest < Duration::from_secs(3_600),
        "{short:?} {usual:?} {longest:?}"
    );
}

#[tokio::test]
async fn a_body_is_bounded_in_bytes_and_in_time() {
    let server = TestServer::open().await;
    let large = format!("{{\"uid\":1,\"count\":1{}}}", " ".repeat(1 << 20));
    let path = format!("{SERVICE}/Next");
    for answer in [
        http1(server.addr, "POST", &path, &json_headers(&[]), &large).await,
        http2(&server.channel, "POST", &path, &json_headers(&[]), &large).await,
    ] {
        assert_eq!((answer.status, &answer.json()["code"]), (429, &json!("resource_exhausted")), "{answer:?}");
        assert_eq!(answer.json()["details"][0]["debug"]["reason"], "MESSAGE_TOO_LARGE");
    }
    let headers = json_headers(&[("content-length", "100"), ("connect-timeout-ms", "50")]);
    let answer = http1(server.addr, "POST", &path, &headers, "{").await;
    assert_eq!((answer.status, &answer.json()["code"]), (504, &json!("deadline_exceeded")), "{answer:?}");
    assert_eq!(server.twin.calls(), []);
    // The largest batch fits, with each number at its widest.
    let batch = json!({ "uids": vec![u64::MAX.to_string(); MAX_ITEMS], "counts": vec![1_000_000; MAX_ITEMS],
        "knownEpochs": vec![u64::MAX.to_string(); MAX_ITEMS] });
    assert_eq!(call(&server, "NextMany", &batch.to_string()).await.status, 200);
}

#[tokio::test]
async fn the_description_matches_the_served_paths() {
    let server = TestServer::open().await;
    server.twin.route(1);
    let answer = http1(server.addr, "GET", "/api/openapi.json", &[], "").await;
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let api = answer.json();
    assert_eq!(api["openapi"], "3.1.0");
    let mut methods = 0;
    for (path, operations) in api["paths"].as_object().unwrap() {
        let is_rpc = path.starts_with("/seqsvr.v1.");
        methods += usize::from(is_rpc);
        let key = if path.starts_with("/api/snowflake/") { "tweets" } else { "orders" };
        let concrete = path.replace("{uid}", "1").replace("{name}", key).replace("{key}", key).replace("{id}", "1");
        let concrete = concrete.replace("{keyspace}", "main");
        let takes = is_rpc || path.contains("/next/") || path.contains("/get/");
        let verb = if takes { "POST" } else { "GET" };
        assert_eq!(operations.as_object().unwrap().keys().collect::<Vec<_>>(), [&verb.to_lowercase()]);
        let body = if is_rpc { r#"{"series":"orders","keyspace":"main","key":"conv:42"}"# } else { "" };
        let status = http1(server.addr, verb, &concrete, &json_headers(&[]), body).await.status;
        assert!(status == 200 || status == 400 && is_rpc, "{verb} {concrete}: {status}");
    }
    assert_eq!(methods, 6 + 5 + 5, "every unary method of the services");
    let hint = http1(server.addr, "GET", "/", &[], "").await;
    let key = "/api/key/next/{keyspace}/{key}";
    for path in ["/api/seq/next/{uid}", key, "/api/id/next/{name}", "/api/segment/get/{key}", "/api/openapi.json"] {
        assert!(hint.body.contains(path), "{path}: {hint:?}");
    }
    assert_eq!(http1(server.addr, "POST", "/", &[], "").await.status, 405);
    assert_eq!(http1(server.addr, "GET", "/favicon.ico", &[], "").await.status, 404);
}
