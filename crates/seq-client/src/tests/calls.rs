//! Single calls: their targets, their results, and the adoption of newer routes.

use seq_proto::Reason;

use crate::allocation::{Allocation, Current};
use crate::error::CallError;
use crate::fake::FakeServer;

use super::{client, requested, servers};

#[tokio::test]
async fn numbers_are_consecutive_and_results_hold_their_range() {
    let server = FakeServer::start();
    let client = client([&server]).await;
    assert_eq!(client.current(42).await.unwrap(), Current { value: 0, exact: true, epoch: 1 });
    assert_eq!(client.next(42).await.unwrap(), Allocation { value: 1, prev: 0, epoch: 1, count: 1, lost: 0 });
    let five = client.next_n(42, 5).await.unwrap();
    assert_eq!(five, Allocation { value: 6, prev: 1, epoch: 1, count: 5, lost: 0 });
    assert_eq!(five.numbers(), 2..=6);
    assert_eq!(client.next(43).await.unwrap().value, 1);
    assert_eq!(client.current(42).await.unwrap(), Current { value: 6, exact: true, epoch: 1 });
    assert!(server.seen().iter().all(|seen| seen.has_deadline));
}

#[tokio::test]
async fn user_0_is_a_user() {
    for streams in [true, false] {
        let server = FakeServer::start();
        server.know_streams(streams);
        let client = client([&server]).await;
        assert_eq!(client.next(0).await.unwrap().value, 1);
        assert_eq!(client.next_many(&[0]).await.unwrap()[0].as_ref().unwrap().value, 2);
        assert_eq!(client.advance(0, 5).await.unwrap(), 1);
        assert_eq!(client.advance(1, 0).await.unwrap(), 1);
        assert_eq!(client.current(0).await.unwrap(), Current { value: 5, exact: true, epoch: 1 });
    }
}

#[tokio::test]
async fn calls_go_to_the_owner() {
    let servers = servers("a", 0..100, 2);
    let client = client([&servers[0]]).await;
    for uid in [5, 15, 25, 35] {
        client.next(uid).await.unwrap();
        client.current(uid).await.unwrap();
    }
    assert_eq!(requested(&servers[0]), [[5], [5], [25], [25]]);
    assert_eq!(requested(&servers[1]), [[15], [15], [35], [35]]);
}

#[tokio::test]
async fn newer_routes_of_a_response_are_adopted() {
    let servers = servers("a", 0..100, 2);
    let client = client([&servers[0]]).await;
    servers[1].take_section_of(5);
    assert_eq!(client.next(5).await.unwrap().epoch, 2);
    assert_eq!(requested(&servers[0]), [[5]], "the old owner gets the request and forwards it");
    assert_eq!(client.next(5).await.unwrap().value, 2);
    assert_eq!(client.next_many(&[5]).await.unwrap()[0].as_ref().unwrap().value, 3);
    assert_eq!(requested(&servers[1]), [[5], [5]]);
    let versions: Vec<_> = servers.iter().flat_map(FakeServer::seen).map(|seen| seen.route_version).collect();
    assert_eq!(versions, [Some(1), Some(2), Some(2)]);
}

#[tokio::test]
async fn newer_routes_of_a_batch_are_adopted_too() {
    let servers = servers("a", 0..100, 2);
    let client = client([&servers[0]]).await;
    servers[1].take_section_of(5);
    client.current_many(&[5]).await.unwrap();
    client.next(5).await.unwrap();
    assert_eq!(requested(&servers[1]), [[5]]);
}

#[tokio::test]
async fn reads_after_a_crash_are_bounds_until_the_next_number() {
    let server = FakeServer::start();
    let client = client([&server]).await;
    client.next_n(7, 3).await.unwrap();
    server.take_over_section_of(7);
    let bound = client.current(7).await.unwrap();
    assert!(!bound.exact && bound.value >= 3 && bound.epoch == 2, "{bound:?}");
    let next = client.next(7).await.unwrap();
    assert_eq!(next, Allocation { value: bound.value + 1, prev: 0, epoch: 2, count: 1, lost: 0 });
    assert_eq!(client.current(7).await.unwrap(), Current { value: next.value, exact: true, epoch: 2 });
}

#[tokio::test]
async fn an_advance_goes_to_the_owner_and_is_retried() {
    let servers = servers("a", 0..100, 2);
    let client = client([&servers[0]]).await;
    client.next(15).await.unwrap();
    servers[1].refuse([Reason::Unserved.status("a refusal that is retried")]);
    client.advance(15, 1_000).await.unwrap();
    client.advance(15, 1_000).await.unwrap();
    assert_eq!(requested(&servers[1]), [[15], [15], [15], [15]]);
    assert_eq!(client.next(15).await.unwrap().value, 1_001);
    match client.advance(15, 1_000).await.unwrap_err() {
        CallError::Refused(refused) => {
            assert_eq!(refused.reason, Reason::AlreadyPast.name());
            assert!(!refused.is_retryable() && !refused.may_have_applied);
        }
        error => panic!("{error}"),
    }
    let outside = client.advance(100, 1).await.unwrap_err();
    assert!(matches!(outside, CallError::UidOutside { uid: 100 }), "{outside}");
    assert!(requested(&servers[0]).is_empty());
}

#[tokio::test]
async fn one_client_uses_several_sets() {
    let (low, high) = (servers("low", 0..100, 1), servers("high", 100..200, 2));
    // The versions differ, and a set's version must never be sent to the other set.
    high[0].take_section_of(100);
    let client = client([&low[0], &high[1]]).await;
    let uids = [99, 100, 110, 0];
    for (uid, result) in uids.iter().zip(client.next_many(&uids).await.unwrap()) {
        assert_eq!(result.unwrap().value, 1, "uid {uid}");
    }
    assert_eq!(requested(&low[0]), [[99, 0]]);
    assert_eq!(requested(&high[0]), [[100]]);
    assert_eq!(requested(&high[1]), [[110]]);
    assert_eq!(low[0].seen()[0].route_version, Some(1));
    assert_eq!(high[0].seen()[0].route_version, Some(2));
}

#[tokio::test]
async fn a_count_out_of_range_is_refused_before_anything_is_sent() {
    let server = FakeServer::start();
    let client = client([&server]).await;
    for count in [0, 1_000_001] {
        let error = client.next_n(3, count).await.unwrap_err();
        assert_eq!(error.to_string(), format!("uid 3: count {count} is not in 1..=1000000"));
        assert!(!error.is_retryable() && !error.may_have_applied());
        let error = client.next_many_n(&[(2, 1), (3, count)]).await.unwrap_err();
        assert!(matches!(error, CallError::CountOutOfRange { uid: Some(3), .. }));
    }
    assert!(requested(&server).is_empty());
    assert_eq!(client.next_n(3, 1_000_000).await.unwrap().numbers(), 1..=1_000_000);
}

#[tokio::test]
async fn futures_can_move_between_threads() {
    fn check<T: Send>(call: T) -> T {
        call
    }
    let server = FakeServer::start();
    let client = check(crate::Client::connect(server.url())).await.unwrap();
    check(client.next(1)).await.unwrap();
    check(client.current(1)).await.unwrap();
    check(client.next_many(&[1])).await.unwrap();
    check(client.current_many(&[1])).await.unwrap();
}
