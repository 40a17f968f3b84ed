//! Keys over HTTP: as plain text, and `KeyService` in JSON as the Connect protocol defines it.

use seq_api::service::Via;
use seq_proto::v1;
use seq_proto::v1::key_service_client::KeyServiceClient;
use serde_json::{Value, json};

use crate::http::{HttpResponse, UNSOLICITED, http1, http2};
use crate::twin::TestServer;

const SERVICE: &str = "/seqsvr.v1.KeyService";

async fn open() -> TestServer {
    let server = TestServer::open().await;
    server.twin.route(1);
    server
}

/// Allocates by POST, or reads by GET.
async fn text(server: &TestServer, path: &str) -> HttpResponse {
    let method = if path.starts_with("next/") { "POST" } else { "GET" };
    http1(server.addr, method, &format!("/api/key/{path}"), &[], "").await
}

async fn call(server: &TestServer, method: &str, body: &Value) -> HttpResponse {
    let headers = [("content-type", "application/json")];
    http1(server.addr, "POST", &format!("{SERVICE}/{method}"), &headers, &body.to_string()).await
}

#[tokio::test]
async fn a_number_of_a_key_is_a_line() {
    let server = open().await;
    for (path, body) in [
        ("next/main/conv:42", "1\n"),
        ("next/main/conv%3a42?n=10", "11\n"),
        ("current/main/conv%3A42", "11\n"),
        ("current/main/conv:43", "0\n"),
        ("next/main/a%2Fb", "1\n"),
        ("next/main/%00%ff", "1\n"),
        ("next/main/a+b", "1\n"),
        ("current/main/a%20b", "0\n"),
        ("current/main/%61+b", "1\n"),
    ] {
        let answer = text(&server, path).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, body), "{path}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "a cached number would be given out twice");
    }
    assert_eq!(http2(&server.channel, "POST", "/api/key/next/main/conv:42", &[], "").await.body, "12\n");
    assert_eq!(text(&server, "current/main/conv:42").await.header("seq-exactness"), Some("exact"));
    let head = http1(server.addr, "HEAD", "/api/key/current/main/conv:42", &[], "").await;
    assert_eq!((head.status, head.header("content-length")), (200, Some("3")));
    assert!(server.twin.calls().iter().all(|call| call.via == Via::Json));
    // The key of the text is the same counter in JSON, as text and as bytes.
    let current = call(&server, "Current", &json!({ "keyspace": "main", "key": "conv:42" })).await.json();
    assert_eq!(current, json!({ "value": "12", "exactness": "EXACTNESS_EXACT", "epoch": "1" }));
    assert_eq!(call(&server, "Current", &json!({ "keyspace": "main", "rawKey": "AP8=" })).await.json()["value"], "1");
}

#[tokio::test]
async fn refusals_of_keys_have_a_reason() {
    let server = open().await;
    let (longest, longer) = ("x".repeat(512), "x".repeat(513));
    let table = [
        (format!("next/main/{longer}"), 400, "KEY_SIZE", "513 bytes"),
        (format!("current/main/{longer}"), 400, "KEY_SIZE", "513 bytes"),
        ("next/other/conv:42".to_owned(), 404, "UNKNOWN_KEYSPACE", "\"other\""),
        ("current/other/conv:42".to_owned(), 404, "UNKNOWN_KEYSPACE", "seqsvr keyspace list"),
        // The key "42" of a keyspace of uids would have another counter than the uid 42.
        ("next/users/42".to_owned(), 404, "UNKNOWN_KEYSPACE", "call for the uid itself"),
        ("current/users/42".to_owned(), 404, "UNKNOWN_KEYSPACE", "\"users\""),
        ("next/main/a%2".to_owned(), 400, "MALFORMED", "at byte 1: write % as %25"),
        ("next/main/a?n=0".to_owned(), 400, "COUNT_OUT_OF_RANGE", "1..=1000000"),
        ("next/main/a?n=1&n=2".to_owned(), 400, "MALFORMED", "twice"),
        ("next/main/a?m=1".to_owned(), 400, "MALFORMED", "\"m\""),
        ("current/main/a?n=1".to_owned(), 400, "MALFORMED", "\"n\""),
    ];
    for (path, status, reason, part) in &table {
        let answer = text(&server, path).await;
        assert_eq!((answer.status, answer.header("seq-reason")), (*status, Some(*reason)), "{path}: {answer:?}");
        assert!(answer.body.starts_with(&format!("{reason}: ")) && answer.body.contains(part), "{path}: {answer:?}");
    }
    for path in ["next", "next/main", "next/main/", "next//a", "next/main/a/b", "last/main/a", ""] {
        assert_eq!(text(&server, path).await.status, 404, "{path}");
    }
    for (path, allowed, method) in
        [("next", "POST", "GET"), ("next", "POST", "HEAD"), ("next", "POST", "PUT"), ("current", "GET, HEAD", "POST")]
    {
        let answer = http1(server.addr, method, &format!("/api/key/{path}/main/a"), &[], "").await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some(allowed)), "{method} {path}");
    }
    for header in UNSOLICITED {
        let answer = http1(server.addr, "POST", "/api/key/next/main/a", &[header], "").await;
        assert_eq!((answer.status, answer.header("seq-reason")), (403, Some("UNSOLICITED")), "{header:?}");
    }
    assert_eq!(text(&server, "current/main/a").await.body, "0\n", "what was refused moved nothing");
    assert_eq!(text(&server, &format!("next/main/{longest}")).await.body, "1\n");
    let server = TestServer::open().await;
    let answer = text(&server, "next/main/a").await;
    assert_eq!((answer.status, answer.header("seq-reason")), (503, Some("UNSERVED")), "without routes: {answer:?}");
    let server = TestServer::open_with(true).await;
    server.twin.route(1);
    assert_eq!(http1(server.addr, "GET", "/api/key/next/main/a", &[], "").await.body, "1\n");
}

#[tokio::test]
async fn every_method_of_keys_is_served_in_json() {
    let server = open().await;
    let table = [
        (
            "Next",
            json!({ "keyspace": "main", "key": "conv:42", "count": 3 }),
            json!({ "value": "3", "prev": "0", "epoch": "1" }),
        ),
        (
            "NextMany",
            json!({ "keyspace": "main", "keys": ["conv:42", "é", "conv:42"], "counts": ["2", 1, 1] }),
            json!({ "values": ["5", "1", "6"], "prevs": ["3", "0", "5"], "epochs": ["1", "1", "1"], "errors": [] }),
        ),
        (
            "Advance",
            json!({ "keyspace": "main", "rawKey": "AP8=", "to": "4611686018427387903" }),
            json!({ "epoch": "1" }),
        ),
        (
            "CurrentMany",
            json!({ "keyspace": "main", "rawKeys": ["AP8=", "w6k=", "YQ=="] }),
            json!({
                "values": ["4611686018427387903", "1", "0"],
                "exactness": ["EXACTNESS_EXACT", "EXACTNESS_EXACT", "EXACTNESS_EXACT"],
                "epochs": ["1", "1", "1"],
                "errors": [],
            }),
        ),
    ];
    for (method, body, expected) in table {
        let answer = call(&server, method, &body).await;
        assert_eq!((answer.status, answer.json()), (200, expected), "{method} {body}");
    }
    let (longer, none) = ("x".repeat(513), json!({ "keyspace": "main" }));
    for (method, body, status, reason) in [
        ("Next", json!({ "keyspace": "nothing", "key": "a" }), 404, "UNKNOWN_KEYSPACE"),
        ("NextMany", json!({ "keyspace": "users", "rawKeys": ["KgAAAAAAAAA="] }), 404, "UNKNOWN_KEYSPACE"),
        ("Next", none.clone(), 400, "KEY_SIZE"),
        ("Next", json!({ "keyspace": "main", "key": longer }), 400, "KEY_SIZE"),
        ("Next", json!({ "keyspace": "main", "key": "a", "rawKey": "YQ==" }), 400, "MALFORMED"),
        ("Next", json!({ "keyspace": "main", "key": 5 }), 400, "MALFORMED"),
        ("Next", json!({ "keyspace": "main", "rawKey": "?" }), 400, "MALFORMED"),
        ("NextMany", none, 400, "EMPTY_BATCH"),
        ("Advance", json!({ "keyspace": "main", "key": "a" }), 400, "TO_MISSING"),
        ("NextHashed", json!({}), 501, "UNKNOWN_METHOD"),
    ] {
        let answer = call(&server, method, &body).await;
        let reasons = &answer.json()["details"][0]["debug"]["reason"];
        assert_eq!((answer.status, reasons), (status, &json!(reason)), "{method} {body}: {answer:?}");
    }
    let owners = http1(server.addr, "POST", "/seqsvr.v1.KeyOwnerService/NextHashed", &[], "{}").await;
    assert_eq!(owners.status, 404, "hashes are for gRPC between nodes");
}

#[tokio::test]
async fn a_key_of_a_bad_size_refuses_its_item_alone() {
    let server = open().await;
    let longer = "x".repeat(513);
    let refused = |answer: &Value| -> Vec<Value> {
        let errors = answer["errors"].as_array().unwrap().iter();
        errors.map(|error| json!([error["index"], error["reason"], error["message"]])).collect()
    };
    let sizes = [
        json!([1, "KEY_SIZE", "the key has 0 bytes: a key has 1 to 512"]),
        json!([2, "KEY_SIZE", "the key has 513 bytes: a key has 1 to 512"]),
    ];
    let batch = json!({ "keyspace": "main", "keys": ["a", "", longer, "a"], "counts": [1, 2, 3, 4] });
    let answer = call(&server, "NextMany", &batch).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["values"], json!(["1", "0", "0", "5"]), "each item has its count");
    assert_eq!(refused(&answer.json()), sizes);
    let batch = json!({ "keyspace": "main", "keys": ["a", "", longer, "b"] });
    let answer = call(&server, "CurrentMany", &batch).await.json();
    assert_eq!((&answer["values"], refused(&answer)), (&json!(["5", "0", "0", "0"]), sizes.to_vec()));

    let client = || KeyServiceClient::new(server.channel.clone());
    let (keyspace, raw_keys) = ("main".to_owned(), vec![vec![], b"a".to_vec()]);
    let many = v1::NextKeysRequest { keyspace, raw_keys: raw_keys.clone(), ..v1::NextKeysRequest::default() };
    let response = client().next_many(many.clone()).await.unwrap().into_inner();
    let errors: Vec<_> = response.errors.iter().map(|error| (error.index, error.reason.as_str())).collect();
    assert_eq!((response.values, errors), (vec![0, 6], vec![(0, "KEY_SIZE")]));
    // A batch without a key of a right size is served too.
    let many = v1::NextKeysRequest { raw_keys: vec![vec![]], ..many };
    let response = client().next_many(many).await.unwrap().into_inner();
    assert_eq!((response.values, response.errors.len()), (vec![0], 1));
    let many = v1::CurrentKeysRequest { keyspace: "main".to_owned(), raw_keys, ..v1::CurrentKeysRequest::default() };
    let response = client().current_many(many).await.unwrap().into_inner();
    assert_eq!((response.values, response.errors.len()), (vec![0, 6], 1));
}
