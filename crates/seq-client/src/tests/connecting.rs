//! Connecting: seeds and the discovery of sets.

use std::net::TcpListener;
use std::time::Duration;

use seq_proto::Reason;

use crate::directory::RoutesError;
use crate::error::{CallError, ConnectError};
use crate::fake::FakeServer;
use crate::{Client, Code};

use super::{client, seeds, servers, within};

/// Returns an address without a listener: its port was free a moment ago.
fn dead() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[tokio::test]
async fn bad_urls_are_refused_by_name() {
    for url in [
        "",
        "127.0.0.1",
        "http://",
        "http://h:x",
        "http://h:1/path",
        "h:1/",
        "https://h:1",
        "redis://h:1",
        "http://u@h:1",
    ] {
        let error = Client::connect(url).await.unwrap_err();
        assert!(matches!(&error, ConnectError::BadUrl { url: named, .. } if named == url), "{url}: {error}");
        assert!(!error.is_retryable());
    }
    assert!(matches!(Client::builder().connect().await, Err(ConnectError::NoSeeds)));
}

#[tokio::test]
async fn urls_may_leave_out_the_scheme_or_end_in_a_slash() {
    let server = FakeServer::start();
    let url = server.url();
    for url in [&url, &format!("{url}/"), url.trim_start_matches("http://")] {
        Client::connect(url).await.unwrap();
    }
}

#[tokio::test]
async fn an_unreachable_seed_is_named_at_once_and_one_reachable_is_enough() {
    let (server, dead) = (FakeServer::start(), dead());
    let error = within(Client::connect(&dead)).await.unwrap_err();
    assert!(
        matches!(&error, ConnectError::Unreachable { addr, source } if **addr == *dead && source.code() == Code::Unavailable)
    );
    assert!(error.is_retryable());
    let client = Client::builder().seed(&dead).seed(server.url()).connect().await.unwrap();
    client.next(1).await.unwrap();
}

#[test]
fn a_seed_that_refuses_the_client_for_good_is_no_reason_to_connect_again() {
    for (reason, is_retryable) in [(Reason::UnknownToken, false), (Reason::RoleDenied, false), (Reason::Unserved, true)]
    {
        let error = ConnectError::Unreachable { addr: "a1".into(), source: reason.status("planted") };
        assert_eq!(error.is_retryable(), is_retryable, "{reason:?}");
    }
}

#[tokio::test]
async fn a_seed_without_routes_is_polled_until_it_has_some() {
    let server = FakeServer::start();
    server.know_routes(false);
    let error = seeds([&server]).deadline(Duration::from_millis(100)).connect().await.unwrap_err();
    assert!(matches!(error, ConnectError::NoRoutes { .. }), "{error:?}");
    let learn = async {
        tokio::task::yield_now().await;
        server.know_routes(true);
    };
    let (client, ()) = within(async { tokio::join!(client([&server]), learn) }).await;
    client.next(1).await.unwrap();
}

#[tokio::test]
async fn sets_that_claim_the_same_uids_are_refused_by_name() {
    let (a, b) = (servers("a", 0..100, 1), servers("b", 90..200, 1));
    let error = seeds([&a[0], &b[0]]).connect().await.unwrap_err();
    let ConnectError::BadRoutes { source, .. } = &error else { panic!("{error:?}") };
    assert!(matches!(source, RoutesError::Overlap { .. }));
    assert_eq!(source.to_string(), "set \"b\" with uids 90..200 overlaps set \"a\" with uids 0..100");
}

#[tokio::test]
async fn a_uid_outside_is_refused_locally_after_one_fetch_of_new_sets() {
    let (low, high) = (servers("low", 0..100, 1), servers("high", 100..200, 1));
    high[0].know_routes(false);
    let client = client([&low[0], &high[0]]).await;
    high[0].know_routes(true);
    assert_eq!(client.next(150).await.unwrap().value, 1, "the set was found");
    for uid in [200, u64::MAX] {
        let error = client.next(uid).await.unwrap_err();
        assert!(matches!(error, CallError::UidOutside { uid: outside } if outside == uid));
        assert_eq!(error.to_string(), format!("uid {uid} is outside every known set"));
        assert!(!error.is_retryable() && !error.may_have_applied());
        client.current(uid).await.unwrap_err();
        let results = client.next_many(&[uid, 150]).await.unwrap();
        assert!(matches!(results[0], Err(CallError::UidOutside { .. })));
        assert!(results[1].is_ok());
    }
    assert!(low[0].seen().is_empty(), "uids outside never reach a server");
}
