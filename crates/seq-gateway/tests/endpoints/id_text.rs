//! Ids as plain text over HTTP, also for callers of Leaf.

use seq_api::service::Via;

use crate::http::{HttpResponse, UNSOLICITED, http1, http2};
use crate::series::TWEET;
use crate::twin::TestServer;

/// Starts a server that has routes.
async fn open(allocate_on_get: bool) -> TestServer {
    let server = TestServer::open_with(allocate_on_get).await;
    server.twin.route(1);
    server
}

async fn get(server: &TestServer, path: &str) -> HttpResponse {
    http1(server.addr, "GET", path, &[], "").await
}

/// Takes ids by POST, or reads by GET.
async fn call(server: &TestServer, path: &str) -> HttpResponse {
    let reads = path.starts_with("/api/id/current") || path.starts_with("/api/id/decode");
    http1(server.addr, if reads { "GET" } else { "POST" }, path, &[], "").await
}

#[tokio::test]
async fn an_id_is_a_line() {
    let server = open(false).await;
    for (path, body) in [
        ("next/orders", "1\n".to_owned()),
        ("next/orders?n=3", "2\n3\n4\n".to_owned()),
        ("next/orders?after=99&n=2", "100\n101\n".to_owned()),
        ("current/orders", "101\n".to_owned()),
        ("current/old", "0\n".to_owned()),
        ("next/tickets", "2\n".to_owned()),
        ("next/tweets", format!("{TWEET}\n")),
        (&format!("next/tweets?after={TWEET}"), format!("{}\n", TWEET + 1)),
        (
            "decode/tweets/1541815603606036480",
            "lane 378\nnumber 1505679300395008\nunix_ms 1656432460105\nseq 0\n".to_owned(),
        ),
        ("decode/orders/5", "lane 0\nnumber 5\n".to_owned()),
    ] {
        let answer = call(&server, &format!("/api/id/{path}")).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, body.as_str()), "{path}");
        assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
        assert_eq!(answer.header("cache-control"), Some("no-store"), "a cached id would be given out twice");
    }
    assert_eq!(http2(&server.channel, "POST", "/api/id/next/orders", &[], "").await.body, "102\n");
    let answer = call(&server, "/api/id/next/media?lane=1341").await;
    let parts = call(&server, &format!("/api/id/decode/media/{}", answer.body.trim())).await;
    assert!(parts.body.starts_with("lane 1341\n") && parts.body.contains("\nunix_ms 1656432460105\n"), "{parts:?}");
    let exactness = async |name: &str| {
        get(&server, &format!("/api/id/current/{name}")).await.header("seq-exactness").map(str::to_owned)
    };
    assert_eq!(exactness("orders").await.as_deref(), Some("exact"));
    assert_eq!(exactness("tickets").await.as_deref(), Some("upper_bound"));
    assert!(server.twin.calls().iter().all(|call| call.via == Via::Id));
}

#[tokio::test]
async fn the_paths_of_leaf_return_a_bare_id() {
    let server = open(true).await;
    for (path, body) in [
        ("/api/segment/get/orders", "1".to_owned()),
        ("/api/segment/get/orders?x=1", "2".to_owned()),
        ("/api/snowflake/get/tweets", TWEET.to_string()),
    ] {
        for (method, status) in [("GET", 200), ("PUT", 405)] {
            let answer = http1(server.addr, method, path, &[], "").await;
            assert_eq!((answer.status, answer.body == body), (status, status == 200), "{method} {path}: {answer:?}");
        }
    }
    for (path, status, reason, text) in [
        ("/api/segment/get/tweets", 404, "UNKNOWN_SERIES", "/api/snowflake/get/tweets"),
        ("/api/snowflake/get/orders", 404, "UNKNOWN_SERIES", "/api/segment/get/orders"),
        ("/api/segment/get/nothing", 404, "UNKNOWN_SERIES", "nothing"),
        ("/api/snowflake/get/media", 400, "LANE_REQUIRED", "8191"),
        ("/api/segment/get/old", 400, "SERIES_RETIRED", "old"),
    ] {
        let answer = get(&server, path).await;
        assert_eq!((answer.status, answer.header("seq-reason")), (status, Some(reason)), "{path}: {answer:?}");
        assert!(answer.body.contains(text), "{path}: {answer:?}");
    }
}

#[tokio::test]
async fn refusals_have_a_reason() {
    let server = open(false).await;
    let not_ids = ["0", "-1", "+1", "1.5", "1e18", "9223372036854775808", "18446744073709551616", "x", "%31"];
    for id in not_ids {
        let path = format!("/api/id/decode/tweets/{id}");
        let answer = get(&server, &path).await;
        assert_eq!((answer.status, answer.header("seq-reason")), (400, Some("NOT_AN_ID")), "{path}: {answer:?}");
        assert!(answer.body.contains(&format!("{id:?}")), "{path}: {answer:?}");
        if id != "0" {
            let path = format!("/api/id/next/tweets?after={id}");
            assert_eq!(call(&server, &path).await.header("seq-reason"), Some("NOT_AN_ID"), "{path}");
        }
    }
    let table = [
        ("next/nothing", 404, "UNKNOWN_SERIES", "nothing"),
        ("next/Orders", 404, "UNKNOWN_SERIES", "Orders"),
        ("next/old", 400, "SERIES_RETIRED", "old"),
        ("next/orders?n=0", 400, "COUNT_OUT_OF_RANGE", "1..=10000"),
        ("next/orders?n=10001", 400, "COUNT_OUT_OF_RANGE", "1..=10000"),
        ("next/orders?n=4294967296", 400, "MALFORMED", "n: "),
        ("next/orders?n=", 400, "MALFORMED", "n: "),
        ("next/orders?n=1&n=1", 400, "MALFORMED", "twice"),
        ("next/orders?m=1", 400, "MALFORMED", "\"m\""),
        ("next/orders?lane=0", 400, "LANE_NOT_ALLOWED", "lane 0"),
        ("next/media", 400, "LANE_REQUIRED", "8191"),
        ("next/media?lane=8192", 400, "LANE_OUT_OF_RANGE", "8192"),
        ("next/media?lane=-1", 400, "MALFORMED", "lane: "),
        ("next/orders?after=5000000", 400, "AFTER_TOO_FAR", "5000000"),
        ("next/orders?after=9223372036854775807", 400, "SERIES_ENDED", "9223372036854775807"),
        ("current/tweets", 400, "NOT_A_COUNTER", "tweets"),
        ("current/orders?n=1", 400, "MALFORMED", "\"n\""),
        ("decode/orders/1?n=1", 400, "MALFORMED", "\"n\""),
        ("decode/tickets/3", 400, "NOT_AN_ID", "2, 12, 22"),
    ];
    for (path, status, reason, text) in table {
        let answer = call(&server, &format!("/api/id/{path}")).await;
        assert_eq!((answer.status, answer.header("seq-reason")), (status, Some(reason)), "{path}: {answer:?}");
        assert!(answer.body.starts_with(&format!("{reason}: ")) && answer.body.contains(text), "{path}: {answer:?}");
    }
    assert_eq!(get(&server, "/api/id/current/orders").await.body, "0\n", "a refused request moved nothing");
    for path in
        ["id/next", "id/next/", "id/next/a/2", "id/decode/a", "id/decode/a/1/2", "segment/get", "segment/get/", "id"]
    {
        assert_eq!(get(&server, &format!("/api/{path}")).await.status, 404, "{path}");
    }
    let long = format!("/api/id/decode/orders/{}", "1".repeat(1_000));
    assert!(get(&server, &long).await.body.len() < 300, "an error repeats the start of a text");
    server.twin.refuse(true);
    let answer = call(&server, "/api/id/next/orders").await;
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")), "{answer:?}");
    let unready = TestServer::open().await;
    assert_eq!(call(&unready, "/api/id/next/orders").await.header("seq-reason"), Some("UNSERVED"));
}

#[tokio::test]
async fn a_get_takes_ids_only_if_configured() {
    let (closed, server) = (open(false).await, open(true).await);
    for path in ["/api/id/next/orders", "/api/segment/get/orders", "/api/snowflake/get/tweets"] {
        for (method, allowed, of) in [
            ("GET", "POST", &closed),
            ("HEAD", "POST", &closed),
            ("PUT", "GET, POST", &server),
            ("HEAD", "GET, POST", &server),
        ] {
            let answer = http1(of.addr, method, path, &[], "").await;
            assert_eq!((answer.status, answer.header("allow")), (405, Some(allowed)), "{method} {path}");
        }
        for method in ["GET", "POST"] {
            for header in UNSOLICITED {
                let answer = http1(server.addr, method, path, &[header], "").await;
                assert_eq!(
                    (answer.status, answer.header("seq-reason")),
                    (403, Some("UNSOLICITED")),
                    "{path} {header:?}"
                );
            }
            assert_eq!(http1(server.addr, method, path, &[("sec-fetch-site", "none")], "").await.status, 200, "{path}");
        }
    }
    for path in ["/api/id/current/orders", "/api/id/decode/orders/7"] {
        assert_eq!(http1(server.addr, "POST", path, &[], "").await.header("allow"), Some("GET, HEAD"));
        let (whole, head) = (get(&server, path).await, http1(server.addr, "HEAD", path, &[], "").await);
        assert_eq!((head.status, head.body.as_str()), (200, ""));
        assert_eq!(head.header("content-length"), Some(&*whole.body.len().to_string()), "{path}");
    }
    assert_eq!(get(&closed, "/api/id/current/orders").await.body, "0\n");
}
