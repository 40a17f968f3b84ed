//! Limits of a page in a browser: it can read no response of another site, and change nothing.

use serde_json::json;

use crate::http::{UNSOLICITED, http1, http2};
use crate::twin::TestServer;

/// Method, path and headers of a request.
type Sent<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);

const NEXT: &str = "/seqsvr.v1.SequenceService/Next";

#[tokio::test]
async fn pages_of_other_sites_call_no_method() {
    let server = TestServer::open().await;
    let here = format!("http://{}", server.addr);
    let body = |uid: u64| json!({ "uid": uid, "count": 1 }).to_string();
    for content_type in ["application/json", "application/proto", "text/plain"] {
        for header in UNSOLICITED {
            let answer = http1(server.addr, "POST", NEXT, &[("content-type", content_type), header], &body(1)).await;
            let error = answer.json();
            assert_eq!((answer.status, &error["code"]), (403, &json!("permission_denied")), "{header:?}: {answer:?}");
            assert_eq!(error["details"][0]["debug"]["reason"], "UNSOLICITED", "{header:?}: {answer:?}");
        }
    }
    for method in ["NextMany", "Current", "CurrentMany", "Advance", "GetRoutes"] {
        let headers = [("content-type", "application/json"), ("sec-fetch-site", "cross-site")];
        let answer = http1(server.addr, "POST", &NEXT.replace("Next", method), &headers, "{}").await;
        assert_eq!(answer.status, 403, "{method}: {answer:?}");
    }
    assert_eq!(server.twin.last(1), 0, "what was refused moved nothing");
    for header in [("sec-fetch-site", "same-origin"), ("sec-fetch-site", "none"), ("origin", &here)] {
        let answer = http1(server.addr, "POST", NEXT, &[("content-type", "application/json"), header], &body(2)).await;
        assert_eq!(answer.status, 200, "{header:?}: {answer:?}");
    }
    assert_eq!(server.twin.last(2), 3);
}

#[tokio::test]
async fn no_response_lets_pages_of_other_sites_read_it_or_guess_its_type() {
    let server = TestServer::open().await;
    let json = ("content-type", "application/json");
    let page = ("origin", "http://evil.example");
    let preflight = [page, ("access-control-request-method", "POST")];
    let table: [Sent<'_>; 11] = [
        ("GET", "/", &[page]),
        ("GET", "/api/openapi.json", &[page]),
        ("GET", "/nothing", &[page]),
        ("GET", "/api/seq/current/42", &[page]),
        ("POST", "/api/seq/next/42", &[page]),
        ("POST", "/api/seq/next/42", &[]),
        ("POST", NEXT, &[json, page]),
        ("POST", NEXT, &[json]),
        ("POST", "/seqsvr.v1.SequenceService/Nothing", &[json]),
        ("OPTIONS", NEXT, &preflight),
        ("OPTIONS", "/api/seq/next/42", &preflight),
    ];
    for (method, path, headers) in table {
        let body = if headers.contains(&json) { r#"{"uid":"4","count":1}"# } else { "" };
        for answer in [
            http1(server.addr, method, path, headers, body).await,
            http2(&server.channel, method, path, headers, body).await,
        ] {
            assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{method} {path}: {answer:?}");
            for cors in ["origin", "methods", "headers", "credentials"] {
                let name = format!("access-control-allow-{cors}");
                assert_eq!(answer.header(&name), None, "{method} {path}: {answer:?}");
            }
            assert!(method != "OPTIONS" || answer.status == 405, "{path}: {answer:?}");
        }
    }
}
