//! Ids of tenants: the series that a tenant may use, and its quotas, over every protocol.

use seq_api::node_events::NodeEvents;
use seq_ids::{Shape, preset};
use seq_tenant::{Tenants, file, token};
use serde_json::json;
use tokio::time::timeout;

use crate::http::http1;
use crate::resp::{Port, TIMEOUT};
use crate::twin::TestServer;

/// Creates a tenant; returns it with its token.
fn tenant(lines: &str) -> (Tenants, String) {
    let (token, hash) = token::generate("im").unwrap();
    let text = format!("[[tenant]]\nname = \"im\"\ntokens = [\"{hash}\"]\n{lines}");
    (Tenants::new("a1", file::parse(&text).unwrap(), &NodeEvents::default()), token.to_string())
}

/// A server with one tenant, and the token of the tenant.
struct Server {
    server: TestServer,
    bearer: String,
}

impl Server {
    async fn open(lines: &str) -> Server {
        let (tenants, token) = tenant(lines);
        let server = TestServer::open_to(tenants).await;
        server.twin.route(1);
        Server { server, bearer: format!("Bearer {token}") }
    }

    /// Returns the body of a response to a GET, or the reason of a refusal.
    async fn text(&self, path: &str) -> String {
        let headers = [("authorization", self.bearer.as_str())];
        let response = http1(self.server.addr, "GET", &format!("/api/{path}"), &headers, "").await;
        let body = response.body.trim();
        if response.status == 200 { body.to_owned() } else { body.split([' ', ':']).next().unwrap().to_owned() }
    }

    /// Calls a method of `IdService` in JSON.
    async fn json(&self, method: &str, body: serde_json::Value) -> serde_json::Value {
        let headers = [("authorization", self.bearer.as_str()), ("content-type", "application/json")];
        let path = format!("/seqsvr.v1.IdService/{method}");
        http1(self.server.addr, "POST", &path, &headers, &body.to_string()).await.json()
    }
}

const OTHER: &str = "OTHER_TENANTS_SERIES";

#[tokio::test]
async fn a_tenant_uses_the_series_that_it_names_over_http() {
    let server = Server::open("uids = [\"0..10\"]\nseries = [\"orders\"]\nmax_advance = 1000").await;
    for (path, expected) in [
        ("id/next/orders", "1"),
        ("id/current/orders", "1"),
        ("segment/get/orders", "2"),
        ("id/next/tickets", OTHER),
        ("id/next/old", OTHER),
        ("id/current/tickets", OTHER),
        ("id/decode/tweets/1541815603606036480", OTHER),
        ("snowflake/get/tweets", OTHER),
        ("id/next/nothing", "UNKNOWN_SERIES"),
        ("seq/next/10", "OTHER_TENANTS_UID"),
    ] {
        assert_eq!(server.text(path).await, expected, "{path}");
    }
    for (method, body) in [
        ("Next", json!({ "series": "tickets" })),
        ("Current", json!({ "series": "tickets" })),
        ("Advance", json!({ "series": "tickets", "to": "12" })),
        ("Decode", json!({ "series": "tickets", "id": "12" })),
    ] {
        let refusal = server.json(method, body).await;
        assert_eq!(
            (refusal["code"].as_str(), refusal["details"][0]["debug"]["reason"].as_str()),
            (Some("permission_denied"), Some(OTHER)),
            "{method}: {refusal}"
        );
    }
    let listed = server.json("ListSeries", json!({})).await;
    assert_eq!(listed["series"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed["series"][0]["name"], "orders");
}

#[tokio::test]
async fn a_tenant_uses_the_series_that_it_names_over_redis() {
    let (tenants, token) = tenant("series = [\"orders\"]\nmax_count = 5");
    let port = Port::open_to(tenants);
    let mut client = port.call().await;
    let mut ask = async |command: &str| client.ask(format!("{command}\r\n")).await;
    assert_eq!(ask(&format!("AUTH im {token}")).await, "+OK\r\n");
    assert_eq!(ask("INCR id:orders").await, ":1\r\n");
    assert_eq!(ask("SEQ.ID id:orders COUNT 2").await, "*2\r\n$1\r\n2\r\n$1\r\n3\r\n");
    let refused = async |reply: String, reason: &str| assert!(reply.starts_with(&format!("-ERR {reason} ")), "{reply}");
    for command in ["INCR id:tweets", "SEQ.ID id:tweets", "GET id:tickets", "SET id:tickets 12", "MGET id:tickets"] {
        refused(ask(command).await, OTHER).await;
    }
    refused(ask("INCRBY id:orders 6").await, "COUNT_ABOVE_QUOTA").await;
    refused(ask("SET id:orders 100").await, "ADVANCE_TOO_FAR").await;
}

#[tokio::test]
async fn a_tenant_of_some_uids_has_no_series_and_one_of_all_uids_has_all() {
    for (lines, orders, listed) in [("uids = [\"0..10\"]", OTHER, 0), ("", "1", 5), ("series = []", OTHER, 0)] {
        let server = Server::open(lines).await;
        assert_eq!(server.text("id/next/orders").await, orders, "{lines}");
        let series = server.json("ListSeries", json!({})).await;
        assert_eq!(series["series"].as_array().map_or(0, Vec::len), listed, "{lines}: {series}");
    }
}

#[tokio::test]
async fn ids_are_charged_as_numbers_and_so_are_those_that_a_request_skips() {
    let server = Server::open("numbers_per_s = 1_000_000\nmax_count = 100\nmax_advance = 999_000").await;
    assert_eq!(server.text("id/next/orders?n=101").await, "COUNT_ABOVE_QUOTA");
    assert_eq!(server.text("id/next/orders?after=999001").await, "AFTER_TOO_FAR");
    assert_eq!(server.text("id/next/orders?after=999000").await, "999001");
    assert_eq!(server.text("id/next/orders?after=100").await, "999002", "it skips nothing");
    // 998 of the rate are left, and the rest only after almost a second.
    assert_eq!(server.text("id/next/orders?after=1998002").await, "QUOTA_EXCEEDED");
    let far = server.json("Advance", json!({ "series": "orders", "to": "1998003" })).await;
    assert_eq!(far["details"][0]["debug"]["reason"], "ADVANCE_TOO_FAR", "{far}");
    assert!(far["message"].as_str().unwrap().contains("raises series \"orders\" to 1998002 at most"), "{far}");
    assert_eq!(server.server.twin.last(1 << 63 | 10 << 24), 999_002);
}

/// Returns the id of lane 0 at a time from now.
fn tweet_in(ms: u64) -> u64 {
    let Shape::Timed(timed) = preset("snowflake").unwrap().shape else { unreachable!() };
    let now = seq_kit::wall_clock::now_ms();
    Shape::Timed(timed).id(0, timed.tick(now + ms).unwrap()).unwrap().get()
}

#[tokio::test]
async fn a_request_above_an_id_in_front_of_the_clock_waits_for_the_clock() {
    // Returns whether the clock had reached the given id when the response arrived.
    let is_reached = async |server: &Server, after: u64| {
        let id: u64 = server.text(&format!("id/next/tweets?after={after}")).await.parse().unwrap();
        assert!(id > after, "{id} after {after}");
        tweet_in(0) >= after
    };
    let server = Server::open("").await;
    assert!(is_reached(&server, tweet_in(300)).await, "the request waits");
    assert_eq!(server.text(&format!("id/next/tweets?after={}", tweet_in(5_000))).await, "AFTER_TOO_FAR");

    let server = Server::open("max_advance = 10_000_000").await;
    let at_once = async { while is_reached(&server, tweet_in(900)).await {} };
    // A machine that stalls may respond later, so the request is repeated.
    timeout(TIMEOUT, at_once).await.expect("the request does not wait");
}
