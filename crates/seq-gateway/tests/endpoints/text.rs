//! Plain text over HTTP.

use seq_api::service::Via;

use crate::http::{HttpResponse, UNSOLICITED, http1, http2};
use crate::twin::TestServer;

async fn get(server: &TestServer, path: &str) -> HttpResponse {
    http1(server.addr, "GET", path, &[], "").await
}

/// Allocates by POST, or reads by GET.
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
    for (path, allowed, method) in
        [("next", "POST", "GET"), ("next", "POST", "HEAD"), ("next", "POST", "PUT"), ("current", "GET, HEAD", "POST")]
    {
        let answer = http1(server.addr, method, &format!("/api/seq/{path}/1"), &[], "").await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some(allowed)), "{method} {path}");
    }
    assert_eq!(server.twin.last(1), 0, "what was refused moved nothing");
    server.twin.refuse(true);
    let answer = call(&server, "/api/seq/next/1").await;
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")), "{answer:?}");
}

#[tokio::test]
async fn head_is_get_without_a_body_and_allocates_nothing() {
    let server = TestServer::open_with(true).await;
    assert_eq!(call(&server, "/api/seq/next/42?n=10").await.body, "10\n");
    for path in ["/api/seq/current/42", "/api/seq/current/1000", "/", "/api/openapi.json", "/livez", "/readyz"] {
        let whole = get(&server, path).await;
        for head in
            [http1(server.addr, "HEAD", path, &[], "").await, http2(&server.channel, "HEAD", path, &[], "").await]
        {
            assert_eq!((head.status, head.body.as_str()), (whole.status, ""), "{path}: {head:?}");
            assert_eq!(head.header("content-length"), Some(&*whole.body.len().to_string()), "{path}: {head:?}");
            for name in ["content-type", "seq-exactness", "seq-reason"] {
                assert_eq!(head.header(name), whole.header(name), "{path}: {head:?}");
            }
        }
    }
    let answer = http1(server.addr, "HEAD", "/api/seq/next/42", &[], "").await;
    assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, POST")), "{answer:?}");
    assert_eq!(server.twin.last(42), 10);
}

#[tokio::test]
async fn a_load_balancer_can_probe_the_port() {
    let server = TestServer::open().await;
    let ready = server.twin.ready.clone();
    let probe = async |path| {
        let answer = get(&server, path).await;
        (answer.status, answer.body)
    };
    for (is_ready, status, text) in [(false, 503, "not ready\n"), (true, 200, "ready\n"), (false, 503, "not ready\n")] {
        ready.store(is_ready, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(probe("/readyz").await, (status, text.to_owned()));
        assert_eq!(http2(&server.channel, "GET", "/readyz", &[], "").await.status, status);
        assert_eq!(probe("/livez").await, (200, "alive\n".to_owned()), "a node that is not ready is alive");
    }
    assert_eq!(http1(server.addr, "POST", "/readyz", &[], "").await.status, 405);
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
