//! Request coalescing: fewer messages than calls, and no other difference that a caller could observe.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use futures::future::join_all;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use seq_channel::batch::Bounds;
use seq_core::{NodeId, Refusal, SectionId, Uid};

use crate::error::CallError;
use crate::fake::FakeServer;
use crate::{Client, Code};

use super::{TIMEOUT, client, requested, seeds, servers, within};

/// Returns the uids of every stream message and of every unary request that a server received.
fn by_method(server: &FakeServer) -> (Vec<Vec<u64>>, Vec<Vec<u64>>) {
    let (streamed, unary): (Vec<_>, Vec<_>) = server.seen().into_iter().partition(|seen| seen.method == "NextStream");
    let uids = |seen: Vec<crate::fake::Seen>| seen.into_iter().map(|seen| seen.uids).collect();
    (uids(streamed), uids(unary))
}

async fn bounded(server: &FakeServer, items: usize, in_flight: usize) -> Client {
    let bounds = Bounds { items, in_flight, ..Bounds::DEFAULT };
    seeds([server]).bounds(bounds).connect().await.unwrap()
}

/// Polls a call that does not complete until the server has received `seen` requests.
async fn sent<T: std::fmt::Debug>(server: &FakeServer, seen: u64, call: impl Future<Output = T>) {
    tokio::select! {
        biased;
        answer = call => panic!("held, yet answered {answer:?}"),
        () = within(server.until_seen(seen)) => {}
    }
}

/// Polls a call once.
async fn pends(call: &mut (impl Future + Unpin)) -> bool {
    std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut *call).poll(context).is_pending())).await
}

#[tokio::test]
async fn concurrent_calls_share_a_message() {
    let servers = servers("a", 0..100, 2);
    let client = client(&servers).await;
    let calls = (0..256).map(|index| client.next_n([5, 6, 15][index % 3], 1 + index as u32 % 2));
    let answers = join_all(calls).await;
    let mut numbers = BTreeMap::<usize, Vec<u64>>::new();
    for (index, answer) in answers.into_iter().enumerate() {
        numbers.entry(index % 3).or_default().extend(answer.unwrap().numbers());
    }
    for numbers in numbers.values_mut() {
        numbers.sort_unstable();
        assert_eq!(*numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    }
    for server in &servers {
        let (streamed, unary) = by_method(server);
        assert!(streamed.len() <= 8 && unary.is_empty(), "{} messages, {} requests", streamed.len(), unary.len());
    }
}

#[tokio::test]
async fn without_coalescing_requests_are_unary() {
    let server = FakeServer::start();
    let client = seeds([&server]).coalesce(false).connect().await.unwrap();
    join_all((0..8).map(|uid| client.next(uid))).await.into_iter().for_each(|answer| assert!(answer.is_ok()));
    let (streamed, unary) = by_method(&server);
    assert_eq!((streamed.len(), unary.len()), (0, 8));
}

#[tokio::test]
async fn a_lone_call_is_sent_at_once_with_its_routes() {
    let servers = servers("a", 0..100, 2);
    let client = client([&servers[0]]).await;
    servers[1].take_section_of(5);
    assert_eq!(client.next(5).await.unwrap().epoch, 2, "the old owner forwards");
    for value in 2..5 {
        assert_eq!(client.next(5).await.unwrap().value, value);
    }
    assert_eq!(requested(&servers[0]), [[5]]);
    assert_eq!(requested(&servers[1]), [[5], [5], [5]]);
    let seen = servers[1].seen();
    assert!(seen.iter().all(|seen| seen.route_version == Some(2) && seen.epochs == [2] && seen.has_deadline));
    // A batch carries its known epochs as well.
    client.next_many(&[5, 15]).await.unwrap();
    assert_eq!(servers[1].seen().last().unwrap().epochs, [2, 1]);
    client.current_many(&[15, 5]).await.unwrap();
    assert_eq!(servers[1].seen().last().unwrap().epochs, [1, 2]);
}

#[tokio::test]
async fn no_call_waits_for_the_response_to_another_message() {
    let server = FakeServer::start();
    let client = client([&server]).await;
    server.delay(TIMEOUT * 2);
    let mut slow = Box::pin(client.next(5));
    sent(&server, 1, &mut slow).await;
    server.delay(Duration::ZERO);
    for value in 1..10 {
        assert_eq!(within(client.next(5)).await.unwrap().value, value);
    }
    assert!(pends(&mut slow).await);
}

#[tokio::test]
async fn no_call_waits_for_another_items_section() {
    let server = FakeServer::start();
    let client = client([&server]).await;
    server.orphan_section_of(5_000);
    let (mut waits, answered) = (Box::pin(client.next(5_000)), client.next(5));
    tokio::select! {
        biased;
        answer = &mut waits => panic!("the section has no owner, yet {answer:?}"),
        answer = within(answered) => assert_eq!(answer.unwrap().value, 1),
    }
    assert_eq!(by_method(&server).0, [[5_000, 5]], "one message");
    server.take_section_of(5_000);
    assert_eq!(within(waits).await.unwrap().value, 1);
}

#[tokio::test]
async fn an_item_with_a_retryable_refusal_is_retried_as_unary() {
    let server = FakeServer::start();
    let client = client([&server]).await;
    let retryable = Refusal::CeilingStalled { section: SectionId(0) };
    server.refuse_uid(6, [retryable, retryable]);
    server.refuse_uid(7, [Refusal::Exhausted { uid: Uid(7), count: 1 }]);
    let (five, six, seven) = tokio::join!(client.next(5), client.next(6), client.next(7));
    assert_eq!((five.unwrap().value, six.unwrap().value), (1, 1));
    let error = seven.unwrap_err();
    let CallError::Refused(refused) = &error else { panic!("{error:?}") };
    assert_eq!((refused.code, &*refused.reason, refused.attempts), (Code::ResourceExhausted, "EXHAUSTED", 1));
    assert!(!error.may_have_applied());
    let (streamed, unary) = by_method(&server);
    assert_eq!((streamed, unary), (vec![vec![5, 6, 7]], vec![vec![6], vec![6]]));
}

#[tokio::test]
async fn attempts_with_unknown_outcome_are_counted() {
    let server = FakeServer::start();
    let client = client([&server]).await;
    let unknown = Refusal::OwnerTimedOut { section: SectionId(0), owner: NodeId(1) };
    server.refuse_uid(6, [unknown, unknown]);
    let (five, six) = tokio::join!(client.next(5), client.next_n(6, 3));
    assert_eq!((five.unwrap().lost, six.unwrap().lost), (0, 2));
    assert_eq!(client.next(6).await.unwrap().lost, 0);
    server.refuse_uid(6, [unknown, unknown]);
    let many = client.next_many(&[5, 6]).await.unwrap();
    assert_eq!(many.into_iter().map(|answer| answer.unwrap().lost).collect::<Vec<_>>(), [0, 2]);
}

#[tokio::test]
async fn calls_of_a_broken_stream_are_lost_attempts_and_are_retried_at_another_node() {
    let servers = servers("a", 0..100, 2);
    let client = client(&servers).await;
    servers[0].hold(true);
    let calls = join_all((0..20).map(|_| client.next(5)));
    let stop = async {
        servers[0].until_seen(1).await;
        servers[0].stop();
    };
    let (answers, ()) = within(async { tokio::join!(calls, stop) }).await;
    let mut values: Vec<_> = answers
        .into_iter()
        .map(|answer| {
            let answer = answer.unwrap();
            assert_eq!(answer.lost, 1);
            answer.value
        })
        .collect();
    values.sort_unstable();
    assert_eq!(values, (1..=20).collect::<Vec<_>>());
    assert_eq!(by_method(&servers[1]).1.len(), 20);
}

#[tokio::test]
async fn a_call_ends_at_its_own_deadline() {
    let server = FakeServer::start();
    let client = client([&server]).await;
    server.hold(true);
    let mut patient = Box::pin(client.next(5));
    sent(&server, 1, &mut patient).await;
    let hasty = client.with_deadline(Duration::from_millis(50));
    let expired = within(join_all([hasty.next(6), hasty.next(6)])).await;
    for error in expired.into_iter().map(Result::unwrap_err) {
        assert!(matches!(error, CallError::DeadlineExceeded { attempts: 1, may_have_applied: true }), "{error:?}");
    }
    server.hold(false);
    assert_eq!(within(patient).await.unwrap().value, 1);
}

#[tokio::test]
async fn calls_wait_for_a_permit_when_all_are_taken() {
    let server = FakeServer::start();
    let client = bounded(&server, 2, 8).await;
    server.hold(true);
    let (mut first, mut second) = (Box::pin(client.next(1)), Box::pin(client.next(2)));
    sent(&server, 1, &mut first).await;
    sent(&server, 2, &mut second).await;
    let hasty = client.with_deadline(Duration::from_millis(50));
    let error = within(hasty.next(3)).await.unwrap_err();
    assert!(matches!(error, CallError::DeadlineExceeded { attempts: 0, may_have_applied: false }), "{error:?}");
    assert_eq!(server.seen().len(), 2, "it was never sent");
    // A dropped call releases its permit although its response is outstanding.
    drop(first);
    let mut third = Box::pin(client.next(3));
    sent(&server, 3, &mut third).await;
    server.hold(false);
    assert_eq!(within(third).await.unwrap().value, 1);
    assert_eq!(within(second).await.unwrap().value, 1);
}

#[tokio::test]
async fn calls_to_a_slow_node_accumulate_in_the_queue() {
    let server = FakeServer::start();
    let client = bounded(&server, 100, 1).await;
    server.hold(true);
    let mut first = Box::pin(client.next(1));
    sent(&server, 1, &mut first).await;
    let mut others = Box::pin(join_all((2..10).map(|uid| client.next(uid))));
    // One of the pending calls is dropped before it is sent.
    let mut dropped = Box::pin(client.next(50));
    assert!(pends(&mut others).await && pends(&mut dropped).await);
    drop(dropped);
    server.hold(false);
    within(others).await.into_iter().for_each(|answer| assert_eq!(answer.unwrap().value, 1));
    within(first).await.unwrap();
    assert_eq!(by_method(&server).0, [vec![1], (2..10).collect()]);
}

#[tokio::test]
async fn a_node_without_streams_gets_unary_requests() {
    let server = FakeServer::start();
    let client = client([&server]).await;
    server.know_streams(false);
    for value in 1..4 {
        let answers = join_all([client.next(5), client.next(6)]).await;
        answers.into_iter().for_each(|answer| assert_eq!(answer.unwrap(), super::allocated(value)));
    }
    server.know_streams(true);
    client.next(5).await.unwrap();
    assert_eq!(by_method(&server).0.len(), 0, "it is not tried again soon");
}

#[tokio::test]
async fn each_callers_numbers_grow() {
    let server = FakeServer::start();
    let client = client([&server]).await;
    let caller = |index: u64| {
        let client = &client;
        async move {
            let mut last = 0;
            for _ in 0..50 {
                let next = client.next(index % 4).await.unwrap();
                assert!(next.value > last && next.prev >= last);
                last = next.value;
            }
        }
    };
    within(join_all((0..32).map(caller))).await;
    assert_eq!(client.next(0).await.unwrap().value, 8 * 50 + 1);
}

#[test]
fn coalesced_and_unary_calls_get_the_same_numbers() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (a, b) = (servers("a", 0..60, 3), servers("b", 0..60, 3));
    let coalesced = runtime.block_on(client(&a));
    let unary = runtime.block_on(async { seeds(&b).coalesce(false).connect().await.unwrap() });
    let rounds = prop::collection::vec(prop::collection::vec((0u64..70, 1u32..5), 1..30), 1..5);
    let config = Config { cases: 32, failure_persistence: None, ..Config::default() };
    // Concurrent calls may be served in any order: the numbers are compared per uid.
    let numbers = |client: &Client, round: &[(u64, u32)]| {
        let answers = runtime.block_on(join_all(round.iter().map(|(uid, count)| client.next_n(*uid, *count))));
        let mut numbers = BTreeMap::<u64, Vec<u64>>::new();
        for ((uid, count), answer) in round.iter().zip(answers) {
            match answer {
                Ok(answer) => {
                    assert_eq!((answer.count, answer.lost, answer.prev + 1), (*count, 0, answer.first()));
                    numbers.entry(*uid).or_default().extend(answer.numbers());
                }
                Err(error) => assert!(matches!(error, CallError::UidOutside { .. }) && *uid >= 60, "{error:?}"),
            }
        }
        numbers.values_mut().for_each(|numbers| numbers.sort_unstable());
        numbers
    };
    let run = TestRunner::new(config).run(&rounds, |rounds| {
        for round in rounds {
            prop_assert_eq!(numbers(&coalesced, &round), numbers(&unary, &round));
        }
        Ok(())
    });
    run.unwrap();
}

#[test]
fn no_call_hangs_after_its_runtime_has_shut_down() {
    let server = FakeServer::start();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let client = first.block_on(client([&server]));
    first.block_on(client.next(5)).unwrap();
    drop(first);
    runtime().block_on(within(client.with_deadline(Duration::from_secs(1)).next(5))).unwrap_err();
}
