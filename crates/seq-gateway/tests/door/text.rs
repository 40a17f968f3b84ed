//! Plain text over HTTP.

use seq_kit::frontend::Via;

use crate::http::{Answer, http1, http2};
use crate::twin::Door;

async fn get(door: &Door, path: &str) -> Answer {
    http1(door.addr, "GET", path, &[], "").await
}

#[tokio::test]
async fn a_number_is_a_line() {
    let door = Door::open().await;
    for (path, body) in [("next/42", "1\n"), ("next/42?n=10", "11\n"), ("next/42?", "12\n"), ("current/42", "12\n")] {
        let answer = get(&door, &format!("/api/seq/{path}")).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, body), "{path}");
        assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
        assert_eq!(answer.header("cache-control"), Some("no-store"), "a cached number would be given out twice");
    }
    assert_eq!(http2(&door.channel, "GET", "/api/seq/next/42", &[], "").await.body, "13\n");
    let exactness = async |uid: &str| {
        get(&door, &format!("/api/seq/current/{uid}")).await.header("seq-exactness").map(str::to_owned)
    };
    assert_eq!(exactness("42").await.as_deref(), Some("exact"));
    assert_eq!(exactness("43").await.as_deref(), Some("upper_bound"));
    assert!(door.twin.calls().iter().all(|call| call.via == Via::Json));
}

#[tokio::test]
async fn refusals_say_why() {
    let door = Door::open().await;
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
    for (path, status, reason, says) in table {
        let answer = get(&door, &format!("/api/seq/{path}")).await;
        assert_eq!((answer.status, answer.header("seq-reason")), (status, Some(reason)), "{path}: {answer:?}");
        assert!(answer.body.starts_with(&format!("{reason}: ")) && answer.body.contains(says), "{path}: {answer:?}");
    }
    for path in ["next", "next/", "next/1/2", "last/1", ""] {
        assert_eq!(get(&door, &format!("/api/seq/{path}")).await.status, 404, "{path}");
    }
    for method in ["POST", "HEAD", "PUT"] {
        let answer = http1(door.addr, method, "/api/seq/next/1", &[], "").await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some("GET")), "{method}");
    }
    assert_eq!(door.twin.last(1), 0, "what was refused moved nothing");
    door.twin.refuse(true);
    let answer = get(&door, "/api/seq/next/1").await;
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")), "{answer:?}");
}
