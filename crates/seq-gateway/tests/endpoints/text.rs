//! Plain text over HTTP.

use seq_api::service::Via;

use crate::http::{HttpResponse, UNSOLICITED, http1, http2};
use crate::twin::TestServer;

async fn get(server: &TestServer, path: &str) -> HttpResponse {
    http1(server.addr, "GET", path, &[], "").await
}

/// Allocates by POST, reads by GET.
async fn call(server: &TestServer, path: &str) -> HttpResponse {
    let method = if path.starts_with("/api/seq/next/") { "POST" } else { "GET" };
    http1(server.addr, method, path, &[], "").await
}

#[tokio::test]
async fn a_number_is_a_line() {
    let server = TestServer::open().await;
    for (path, body) in [("next/42", "1\n"), ("next/42?n=10", "11\n"), ("next/42?", "12\n"), ("current/42", "12\n")] {
        let answer = call(&server, &format!("/api/seq/{path}")).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, body), "{path}");
        assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
        assert_eq!(answer.header("cache-control"), Some("no-store"), "a cached number would be given out twice");
    }
    assert_eq!(http2(&server.channel, "POST", "/api/seq/next/42", &[], "").await.body, "13\n");
    let exactness = async |uid: &str| {
        get(&server, &format!("/api/seq/current/{uid}")).await.header("seq-exactness").map(str::to_owned)
    };
    assert_eq!(exactness("42").await.as_deref(), Some("exact"));
    assert_eq!(exactness("43").await.as_deref(), Some("upper_bound"));
    assert!(server.twin.calls().iter().all(|call| call.via == Via::Json));
}

#[tokio::test]
async fn refusals_have_a_reason() {
    let server = TestServer::open().await;
    let table = [
        ("next/1000", 400, "UID_OUT_OF_RANGE", "outside"),
        ("next/1?n=0", 400, "COUNT_OUT_OF_RANGE", "1..=1000000"),
        ("next/1?n=1000001", 400, "COUNT_OUT_OF_RANGE", "1..=1000000"),
        ("next/1?n=4294967296", 400, "MALFORMED", "n: "),
        ("next/1?n=", 400, "MALFORMED", "n: "),
        ("next/1?n=1&n=2", 400, "MALFORMED", "twice"),
        ("next/1?m=1", 400, "MALFORMED", "\"m\""),
        ("next/x", 400, "MALFORMED", "uid: "),
        ("next/+1", 400, "MALFORMED", "uid: "),
        ("next/-1", 400, "MALFORMED", "uid: "),
        ("next/18446744073709551616", 400, "MALFORMED", "uid: "),
        ("current/1?n=1", 400, "MALFORMED", "\"n\""),
        ("current/1000", 400, "UID_OUT_OF_RANGE", "outside"),
    ];
    for (path, status, reason, text) in table {
        let answer = call(&server, &format!("/api/seq/{path}")).await;
        assert_eq!((answer.status, answer.header("seq-reason")), (status, Some(reason)), "{path}: {answer:?}");
        assert!(answer.body.starts_with(&format!("{reason}: ")) && answer.body.contains(text), "{path}: {answer:?}");
    }
    for path in ["next", "next/", "next/1/2", "last/1", ""] {
        assert_eq!(get(&server, &format!("/api/seq/{path}")).await.status, 404, "{path}");
    }
    for (path, allowed, method) in [
        ("next", "POST", "GET"),
        ("next", "POST", "HEAD"),
        ("next", "POST", "PUT"),
        ("current", "GET", "POST"),
        ("current", "GET", "HEAD"),
    ] {
        let answer = http1(server.addr, method, &format!("/api/seq/{path}/1"), &[], "").await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some(allowed)), "{method} {path}");
    }
    assert_eq!(server.twin.last(1), 0, "what was refused moved nothing");
    server.twin.refuse(true);
    let answer = call(&server, "/api/seq/next/1").await;
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")), "{answer:?}");
}

#[tokio::test]
async fn a_get_allocates_numbers_only_if_configured() {
    let server = TestServer::open().await;
    assert_eq!(get(&server, "/api/seq/next/1").await.status, 405);
    assert_eq!(server.twin.last(1), 0);
    let server = TestServer::open_with(true).await;
    assert_eq!(get(&server, "/api/seq/next/1").await.body, "1\n");
    assert_eq!(call(&server, "/api/seq/next/1?n=2").await.body, "3\n");
    let answer = http1(server.addr, "PUT", "/api/seq/next/1", &[], "").await;
    assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, POST")));
}

#[tokio::test]
async fn pages_of_other_sites_take_no_numbers() {
    let server = TestServer::open_with(true).await;
    let here = format!("http://{}", server.addr);
    let refused = UNSOLICITED;
    for method in ["GET", "POST"] {
        for header in refused {
            let answer = http1(server.addr, method, "/api/seq/next/1?n=1000000", &[header], "").await;
            assert_eq!(
                (answer.status, answer.header("seq-reason")),
                (403, Some("UNSOLICITED")),
                "{header:?}: {answer:?}"
            );
        }
        for header in [("sec-fetch-site", "same-origin"), ("sec-fetch-site", "none"), ("origin", &here)] {
            let answer = http1(server.addr, method, "/api/seq/next/2", &[header], "").await;
            assert_eq!(answer.status, 200, "{header:?}: {answer:?}");
        }
    }
    assert_eq!((server.twin.last(1), server.twin.last(2)), (0, 6));
}
