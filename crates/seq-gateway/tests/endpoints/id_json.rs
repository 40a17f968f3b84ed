//! `IdService` in JSON, as the Connect protocol defines it.

use serde_json::{Value, json};

use crate::http::{HttpResponse, http1};
use crate::series::{NOW_MS, TWEET};
use crate::twin::TestServer;

const SERVICE: &str = "/seqsvr.v1.IdService";

async fn call(server: &TestServer, method: &str, body: &Value) -> HttpResponse {
    let headers = [("content-type", "application/json")];
    http1(server.addr, "POST", &format!("{SERVICE}/{method}"), &headers, &body.to_string()).await
}

async fn open() -> TestServer {
    let server = TestServer::open().await;
    server.twin.route(1);
    server
}

#[tokio::test]
async fn every_method_is_served() {
    let server = open().await;
    let table = [
        (
            "Next",
            json!({ "series": "orders" }),
            json!({ "runs": [{ "first": "1", "count": 1 }], "step": "1", "epoch": "1", "lane": 0 }),
        ),
        (
            "Next",
            json!({ "series": "orders", "count": 1_000_000 }),
            json!({ "runs": [{ "first": "2", "count": 1_000_000 }], "step": "1", "epoch": "1", "lane": 0 }),
        ),
        (
            "Next",
            json!({ "series": "tweets", "count": 5_000, "after": TWEET.to_string() }),
            json!({
                "runs": [
                    { "first": (TWEET + 1).to_string(), "count": 4_095 },
                    { "first": (TWEET + (1 << 22)).to_string(), "count": 905 },
                ],
                "step": "1",
                "epoch": "1",
                "lane": 378,
            }),
        ),
        ("Current", json!({ "series": "orders" }), json!({ "id": "1000001", "exact": true, "epoch": "1" })),
        ("Advance", json!({ "series": "orders", "to": "9007199254740993" }), json!({ "epoch": "1" })),
        ("Current", json!({ "series": "orders" }), json!({ "id": "9007199254740993", "exact": true, "epoch": "1" })),
        (
            "Decode",
            json!({ "series": "tweets", "id": TWEET.to_string() }),
            json!({
                "lane": 378,
                "number": ((NOW_MS - 1_288_834_974_657) << 12).to_string(),
                "unixMs": NOW_MS.to_string(),
                "seq": "0",
            }),
        ),
    ];
    for (method, body, expected) in table {
        let answer = call(&server, method, &body).await;
        assert_eq!((answer.status, answer.json()), (200, expected), "{method} {body}");
    }
    let series = call(&server, "ListSeries", &json!({})).await.json();
    let names: Vec<&str> = series["series"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, ["orders", "tickets", "tweets", "media", "old"]);
    assert_eq!(series["series"][4]["retired"], true);
}

#[tokio::test]
async fn refusals_carry_their_reason() {
    let server = open().await;
    let table = [
        ("Next", json!({ "series": "nothing" }), 404, "UNKNOWN_SERIES"),
        ("Next", json!({ "series": "a".repeat(10_000) }), 404, "UNKNOWN_SERIES"),
        ("Next", json!({ "series": "old" }), 400, "SERIES_RETIRED"),
        ("Next", json!({ "series": "media" }), 400, "LANE_REQUIRED"),
        ("Next", json!({ "series": "orders", "lane": 0 }), 400, "LANE_NOT_ALLOWED"),
        ("Next", json!({ "series": "media", "lane": 8192 }), 400, "LANE_OUT_OF_RANGE"),
        ("Next", json!({ "series": "tweets", "count": 10_001 }), 400, "COUNT_OUT_OF_RANGE"),
        ("Next", json!({ "series": "orders", "count": 1_000_001 }), 400, "COUNT_OUT_OF_RANGE"),
        ("Next", json!({ "series": "orders", "after": "9223372036854775808" }), 400, "NOT_AN_ID"),
        ("Next", json!({ "series": "orders", "after": "1e18" }), 400, "MALFORMED"),
        ("Next", json!({ "series": "orders", "after": "-1" }), 400, "MALFORMED"),
        ("Next", json!({ "series": "orders", "after": 5_000_000 }), 400, "AFTER_TOO_FAR"),
        ("Current", json!({ "series": "tweets" }), 400, "NOT_A_COUNTER"),
        ("Advance", json!({ "series": "tickets", "to": "3" }), 400, "NOT_AN_ID"),
        ("Decode", json!({ "series": "orders", "id": "0" }), 400, "NOT_AN_ID"),
        ("Decode", json!({ "series": "orders", "id": "+5" }), 400, "MALFORMED"),
        ("Retire", json!({}), 501, "UNKNOWN_METHOD"),
    ];
    for (method, body, status, reason) in table {
        let answer = call(&server, method, &body).await;
        let error = answer.json();
        let detail = &error["details"][0]["debug"]["reason"];
        assert_eq!((answer.status, detail), (status, &json!(reason)), "{method} {body}: {answer:?}");
        assert!(answer.body.len() < 1_000, "{method}: {} bytes", answer.body.len());
    }
    let unknown = call(&server, "Retire", &json!({})).await.json();
    assert!(unknown["message"].as_str().unwrap().starts_with("seqsvr.v1.IdService has no"), "{unknown}");
    assert_eq!(call(&server, "Current", &json!({ "series": "orders" })).await.json()["id"], "0", "nothing moved");
}
