//! Servers that refuse, hang or crash: which requests are retried, and the error of the call.

use std::time::{Duration, Instant};

use futures::future::join_all;
use seq_core::{NodeId, Refusal, SectionId, Uid};
use seq_proto::status::to_status;
use tonic::Status;

use crate::error::CallError;
use crate::fake::{Corruption, FakeServer};
use crate::{Client, Code};

use super::{client, requested, servers, within};

const UNSERVED: Refusal = Refusal::Unserved { section: SectionId(0) };

#[tokio::test]
async fn another_node_is_tried_when_the_owner_is_down() {
    let servers = servers("a", 0..100, 2);
    let client = client(&servers).await;
    client.next(5).await.unwrap();
    servers[0].stop();
    // More calls than the budget has retries: only the first calls may reach the dead node.
    for value in 2..300 {
        assert_eq!(client.next(5).await.unwrap().value, value);
    }
    let many = client.next_many(&[5, 15]).await.unwrap();
    assert!(many.iter().all(Result::is_ok), "{many:?}");
    servers[1].stop();
    let error = client.with_deadline(Duration::from_millis(300)).next(5).await.unwrap_err();
    assert!(matches!(error, CallError::Unreachable(_) | CallError::DeadlineExceeded { .. }), "{error:?}");
    assert!(error.is_retryable());
}

#[tokio::test]
async fn a_probe_finds_the_node_of_a_set_that_still_responds() {
    let servers = servers("a", 0..100, 4);
    let client = client(&servers).await;
    servers[1..].iter().for_each(FakeServer::stop);
    for _ in 0..4 {
        client.probe(Duration::from_secs(5)).await.unwrap();
    }
    servers[0].stop();
    let error = client.probe(Duration::from_secs(5)).await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
}

#[tokio::test]
async fn an_owner_that_a_node_cannot_reach_is_not_tried() {
    let servers = servers("a", 0..100, 2);
    let client = client(&servers).await;
    servers[0].refuse_uid(5, [Refusal::OwnerTimedOut { section: SectionId(0), owner: NodeId(1) }]);
    assert_eq!(client.next(5).await.unwrap().value, 1);
    assert_eq!((requested(&servers[0]), requested(&servers[1])), (vec![vec![5]], vec![vec![5]]));
}

#[tokio::test]
async fn a_request_that_was_never_sent_has_not_applied() {
    let server = FakeServer::start();
    let client = client([&server]).await;
    server.stop();
    // The connection may break during the first call; later only dials fail.
    let client = client.with_deadline(Duration::from_secs(1));
    let _ = client.next(1).await;
    let error = loop {
        // The deadline may pass during a dial.
        match client.next(1).await.unwrap_err() {
            CallError::DeadlineExceeded { .. } => {}
            error => break error,
        }
    };
    let CallError::Unreachable(unreachable) = &error else { panic!("{error:?}") };
    assert!(!error.may_have_applied(), "{unreachable:?}");
    assert_eq!(format!("http://{}", unreachable.addr), server.url());
}

#[tokio::test]
async fn a_call_waits_for_the_owner_of_its_section() {
    let server = FakeServer::start();
    let client = client([&server]).await;
    server.orphan_section_of(5);
    let find = async {
        server.until_seen(2).await;
        server.take_section_of(5);
    };
    let (next, ()) = within(async { tokio::join!(client.next(5), find) }).await;
    assert_eq!(next.unwrap().epoch, 3);
}

#[tokio::test]
async fn a_permanent_refusal_is_not_retried() {
    let server = FakeServer::start();
    let client = client([&server]).await;
    server.refuse_uid(5, [Refusal::Exhausted { uid: Uid(5), count: 1 }]);
    let error = client.next(5).await.unwrap_err();
    let CallError::Refused(refused) = &error else { panic!("{error:?}") };
    assert_eq!((refused.code, refused.reason.as_str()), (Code::ResourceExhausted, "EXHAUSTED"));
    assert_eq!(error.to_string(), "uid 5: uid 5 has no 1 numbers left below 2^63");
    assert!(!error.is_retryable() && !error.may_have_applied());
    assert_eq!(requested(&server), [[5]]);
    // A refusal that is not the service's own is returned unchanged.
    server.refuse([Status::permission_denied("no")]);
    let error = client.next(5).await.unwrap_err();
    assert!(matches!(&error, CallError::Refused(refused) if refused.reason.is_empty() && refused.message == "no"));
    assert!(!error.is_retryable() && error.may_have_applied());
}

#[tokio::test]
async fn an_unknown_outcome_of_an_earlier_attempt_is_kept() {
    let server = FakeServer::start();
    let client = client([&server]).await;
    let unknown = Refusal::OwnerTimedOut { section: SectionId(0), owner: NodeId(1) };
    server.refuse([unknown, UNSERVED, Refusal::EmptyBatch].map(|refusal| to_status(&refusal)));
    let error = client.next(5).await.unwrap_err();
    let CallError::Refused(refused) = &error else { panic!("{error:?}") };
    assert_eq!((refused.reason.as_str(), refused.attempts), ("EMPTY_BATCH", 3));
    assert!(error.may_have_applied());
}

#[tokio::test]
async fn a_call_ends_at_its_deadline_and_the_client_stays_usable() {
    let server = FakeServer::start();
    let client = client([&server]).await;
    server.hold(true);
    let error = within(client.with_deadline(Duration::from_millis(50)).next(5)).await.unwrap_err();
    assert!(matches!(error, CallError::DeadlineExceeded { attempts: 1, may_have_applied: true }), "{error:?}");
    server.hold(false);
    assert!(client.next(5).await.unwrap().value >= 1);
}

#[tokio::test]
async fn a_backoff_beyond_the_deadline_fails_at_once() {
    let server = FakeServer::start();
    let client = client([&server]).await;
    let hour = Some(Duration::from_secs(3_600));
    server.refuse([seq_proto::status::with_reason(
        Code::Unavailable,
        seq_proto::Reason::Unserved,
        "later".to_owned(),
        [],
        hour,
    )]);
    let error = within(client.next(5)).await.unwrap_err();
    assert!(matches!(&error, CallError::Refused(refused) if refused.retry_after == hour && refused.attempts == 1));
    assert!(error.is_retryable());
}

#[tokio::test]
async fn the_budget_bounds_retries() {
    const CALLS: usize = 400;
    let server = FakeServer::start();
    let client = client([&server]).await.with_deadline(Duration::from_secs(3));
    server.orphan_section_of(5);
    let began = Instant::now();
    let results = join_all((0..CALLS).map(|_| client.next(5))).await;
    assert!(results.iter().all(Result::is_err));
    // The initial balance, retries earned by calls, retries earned by time.
    let granted = 1_000.0 + 0.2 * CALLS as f64 + 10.0 * began.elapsed().as_secs_f64();
    let unary = server.seen().iter().filter(|seen| seen.method == "Next").count();
    let retries = unary - CALLS;
    assert!(retries as f64 <= granted, "{retries} retries, {granted} granted");
    assert!(retries >= 1, "the budget starts full");
}

#[tokio::test]
async fn a_dropped_call_leaves_the_client_usable() {
    let server = FakeServer::start();
    let client = client([&server]).await;
    server.hold(true);
    for calls in 1..=3 {
        tokio::select! {
            biased;
            answer = client.next_many(&[5, 6]) => panic!("held, yet answered {answer:?}"),
            () = within(server.until_seen(calls)) => {}
        }
    }
    server.hold(false);
    assert!(client.next(5).await.unwrap().value >= 1);
}

#[tokio::test]
async fn a_node_that_shuts_down_is_replaced_by_another() {
    let servers = servers("a", 0..100, 2);
    let client = client(&servers).await;
    servers[0].refuse([to_status(&Refusal::ShuttingDown)]);
    assert_eq!(client.next(5).await.unwrap().value, 1);
    assert_eq!((requested(&servers[0]).len(), requested(&servers[1]).len()), (1, 1));
}

#[tokio::test]
async fn a_server_that_breaks_the_protocol_is_named() {
    // A server of any other protocol, e.g. HTTP/1.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let answer = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut socket, b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        std::future::pending::<()>().await;
    };
    let connect = Client::connect(addr.to_string());
    let error = tokio::select! {
        error = within(connect) => error.unwrap_err(),
        () = answer => unreachable!("it waits forever"),
    };
    assert!(error.to_string().contains(&addr.to_string()), "{error}");
}

#[tokio::test]
async fn a_refused_share_of_all_requests_is_retried() {
    let server = FakeServer::start();
    let client = client([&server]).await;
    server.refuse_one_in(2, Some(to_status(&UNSERVED)));
    for value in 1..=3 {
        assert_eq!(client.next(5).await.unwrap().value, value);
    }
    let received = server.received();
    assert!(received.requests > 3 && received.items == received.requests, "{received:?}");
    server.refuse_one_in(1, None);
    client.next(5).await.unwrap();
    assert_eq!(server.received().requests, received.requests + 1);
}

#[tokio::test]
async fn corrupted_numbers_lists_and_tags_are_noticed() {
    let server = FakeServer::start();
    let client = client([&server]).await;
    for fault in [Corruption::Numbers, Corruption::Lists] {
        server.corrupt_next(fault);
        let error = client.next(5).await.unwrap_err();
        assert!(matches!(error, CallError::BadAnswer { .. }) && error.may_have_applied(), "{fault:?}: {error:?}");
    }
    server.corrupt_next(Corruption::Lists);
    let error = client.next_many(&[5, 6]).await.unwrap_err();
    assert!(matches!(error, CallError::BadAnswer { .. }), "{error:?}");
    // The stream has no response to the call, which is made again.
    server.corrupt_next(Corruption::Tag);
    assert_eq!(client.next(5).await.unwrap().lost, 1);
}
