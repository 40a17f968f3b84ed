//! Batches: one request to each owner, and a separate result for every item, in request order.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use seq_core::{Refusal, SectionId, Uid};

use crate::allocation::{Allocation, Current};
use crate::error::CallError;
use crate::fake::FakeServer;

use super::{client, requested, servers, within};

const UNSERVED: Refusal = Refusal::Unserved { section: SectionId(0) };

fn values(results: &[Result<Allocation, CallError>]) -> Vec<Option<u64>> {
    results.iter().map(|result| result.as_ref().ok().map(|answer| answer.value)).collect()
}

#[tokio::test]
async fn each_owner_gets_one_request_and_duplicates_stay_in_order() {
    let servers = servers("a", 0..100, 3);
    let client = client(&servers).await;
    let results = client.next_many_n(&[(25, 1), (5, 10), (5, 1), (15, 3), (25, 1), (5, 1)]).await.unwrap();
    assert_eq!(values(&results), [Some(1), Some(10), Some(11), Some(3), Some(2), Some(12)]);
    assert_eq!(results[1].as_ref().unwrap().numbers(), 1..=10);
    assert_eq!(servers.iter().map(requested).collect::<Vec<_>>(), [[vec![5, 5, 5]], [vec![15]], [vec![25, 25]]]);
    let reads = client.current_many(&[5, 25, 99]).await.unwrap();
    let reads: Vec<Current> = reads.into_iter().map(Result::unwrap).collect();
    assert_eq!(
        reads.iter().map(|read| (read.value, read.exact)).collect::<Vec<_>>(),
        [(12, true), (2, true), (0, true)]
    );
}

#[tokio::test]
async fn an_empty_batch_sends_nothing() {
    let server = FakeServer::start();
    let client = client([&server]).await;
    assert_eq!(client.next_many(&[]).await.unwrap().len(), 0);
    assert!(requested(&server).is_empty());
}

#[test]
fn batches_agree_with_a_map_of_counters() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (low, high) = (servers("low", 0..60, 3), servers("high", 80..120, 2));
    let client = runtime.block_on(client(low.iter().chain(&high)));
    let twin = std::cell::RefCell::new(BTreeMap::<u64, u64>::new());
    let batches = prop::collection::vec((0u64..130, 1u32..5), 1..60);
    let config = Config { cases: 48, failure_persistence: None, ..Config::default() };
    let run = TestRunner::new(config).run(&batches, |items| {
        let results = runtime.block_on(client.next_many_n(&items)).expect("the servers are up");
        prop_assert_eq!(results.len(), items.len());
        for ((uid, count), result) in items.iter().zip(results) {
            if (0..60).contains(uid) || (80..120).contains(uid) {
                let answer = result.expect("a uid of a set");
                let mut twin = twin.borrow_mut();
                let last = twin.entry(*uid).or_default();
                prop_assert_eq!((answer.prev, answer.count), (*last, *count));
                *last += u64::from(*count);
                prop_assert_eq!(answer.value, *last);
            } else {
                let named = matches!(result, Err(CallError::UidOutside { uid: outside }) if outside == *uid);
                prop_assert!(named);
            }
        }
        Ok(())
    });
    run.unwrap();
}

#[tokio::test]
async fn a_batch_above_the_limit_is_sent_in_several_requests_in_order() {
    let servers = servers("a", 0..20, 2);
    let client = client(&servers).await;
    let item = |index: u32| (if index.is_multiple_of(5) { 15 } else { 5 }, 1 + index / 7 % 3);
    let items: Vec<(u64, u32)> = (0..25_000).map(item).collect();
    let results = client.next_many_n(&items).await.unwrap();
    let mut last = BTreeMap::new();
    for ((uid, count), result) in items.iter().zip(results) {
        let last = last.entry(*uid).or_insert(0);
        *last += u64::from(*count);
        assert_eq!(result.unwrap().value, *last);
    }
    let sizes = |server| requested(server).iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!((sizes(&servers[0]), sizes(&servers[1])), (vec![10_000, 10_000], vec![5_000]));
}

#[tokio::test]
async fn only_items_with_a_retryable_refusal_are_retried() {
    let servers = servers("a", 0..100, 2);
    let client = client(&servers).await;
    servers[0].refuse_uid(6, [UNSERVED, UNSERVED]);
    servers[0].refuse_uid(7, [UNSERVED]);
    servers[0].refuse_uid(8, [Refusal::Exhausted { uid: Uid(8), count: 4 }]);
    let results = client.next_many_n(&[(5, 1), (6, 2), (15, 1), (7, 3), (8, 4)]).await.unwrap();
    assert_eq!(values(&results), [Some(1), Some(2), Some(1), Some(3), None]);
    assert_eq!(requested(&servers[0]), [vec![5, 6, 7, 8], vec![6, 7], vec![6]]);
    assert_eq!(requested(&servers[1]), [[15]]);
    let Err(CallError::Refused(refused)) = &results[4] else { panic!("{:?}", results[4]) };
    assert_eq!((refused.uid, refused.reason.as_str(), refused.attempts), (Some(8), "EXHAUSTED", 1));
    assert!(!refused.is_retryable() && !refused.may_have_applied);
}

#[tokio::test]
async fn an_unknown_outcome_of_an_item_survives_retries() {
    let server = FakeServer::start();
    let client = client([&server]).await;
    let unknown = Refusal::OwnerTimedOut { section: SectionId(0), owner: seq_core::NodeId(1) };
    server.refuse_uid(7, [unknown]);
    let retried = client.next_many(&[6, 7]).await.unwrap();
    assert_eq!(values(&retried), [Some(1), Some(1)]);
    // An unknown outcome, then a permanent refusal: `may_have_applied` stays, and only for that item.
    let permanent = |uid| Refusal::Exhausted { uid: Uid(uid), count: 1 };
    server.refuse_uid(7, [unknown, permanent(7)]);
    server.refuse_uid(8, [UNSERVED, permanent(8)]);
    let results = client.next_many(&[6, 7, 8]).await.unwrap();
    assert!(results[0].is_ok());
    let flags = results[1..].iter().map(|result| {
        let error = result.as_ref().unwrap_err();
        (error.is_retryable(), error.may_have_applied())
    });
    assert_eq!(flags.collect::<Vec<_>>(), [(false, true), (false, false)]);
}

#[tokio::test]
async fn results_of_one_owner_are_kept_when_another_does_not_respond() {
    let servers = servers("a", 0..100, 2);
    let client = client(&servers).await.with_deadline(Duration::from_secs(2));
    servers[1].hold(true);
    let results = within(client.next_many(&[5, 15, 6])).await.unwrap();
    assert_eq!(values(&results), [Some(1), None, Some(1)]);
    assert!(matches!(results[1], Err(CallError::DeadlineExceeded { attempts: 1, may_have_applied: true })));
    // The whole call fails if there is no response at all.
    let error = within(client.next_many(&[15, 16])).await.unwrap_err();
    assert!(error.is_retryable() && error.may_have_applied(), "{error:?}");
}
