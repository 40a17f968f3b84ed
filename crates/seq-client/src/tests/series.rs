//! Calls for ids: any node serves them, with the retries of other calls.

use std::time::{Duration, SystemTime};

use seq_core::{NodeId, Refusal, SectionId};
use seq_ids::{CounterShape, Id, Shape, preset};
use seq_proto::status::to_status;

use super::{client, seeds, servers, within};
use crate::error::CallError;
use crate::fake::{FakeCluster, FakeServer};
use crate::{Client, CurrentId};

fn counter(offset: u64, increment: u64) -> Shape {
    Shape::Counter(CounterShape { offset, increment, max_id: Id::MAX })
}

fn timed(name: &str) -> Shape {
    preset(name).unwrap().shape
}

fn id(number: u64) -> Id {
    Id::new(number).unwrap()
}

/// Returns the reason of a refusal, and the number of attempts.
fn reason(error: &CallError) -> (&str, u32) {
    match error {
        CallError::Refused(refused) => (&refused.reason, refused.attempts),
        error => panic!("{error:?}"),
    }
}

async fn orders(server: &FakeServer) -> (Client, crate::Series) {
    server.create_series("orders", counter(1, 2), false);
    let client = client([server]).await;
    let orders = client.series("orders").await.unwrap();
    (client, orders)
}

#[tokio::test]
async fn ids_of_a_counter_are_taken_read_and_advanced() {
    let server = FakeServer::start();
    let (_, orders) = orders(&server).await;
    assert_eq!(orders.current().await.unwrap(), CurrentId { id: None, exact: true, epoch: 1 });
    assert_eq!(orders.next().await.unwrap(), id(1));
    let three = orders.take(3).await.unwrap();
    assert_eq!((three.len(), three.last_id()), (3, id(7)));
    assert_eq!(three.map(Id::get).collect::<Vec<_>>(), [3, 5, 7]);
    assert_eq!(orders.after(id(100)).next().await.unwrap(), id(101));
    assert_eq!(orders.advance(id(1_001)).await.unwrap(), 1);
    assert_eq!(orders.current().await.unwrap(), CurrentId { id: Some(id(1_001)), exact: true, epoch: 1 });
    let past = orders.advance(id(7)).await.unwrap_err();
    assert_eq!(reason(&past), ("ALREADY_PAST", 1));
    assert_eq!(orders.decode(id(7)).unwrap().number, 4);
    assert_eq!(reason(&orders.decode(id(8)).unwrap_err()), ("NOT_AN_ID", 0));
    for count in [0, 1_000_001] {
        let error = orders.take(count).await.unwrap_err();
        assert_eq!(error.to_string(), format!("count {count} is not in 1..=1000000"));
    }
    assert!(server.seen().iter().all(|seen| seen.has_deadline));
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "ids have the time in them")]
async fn ids_with_a_time_have_the_lane_of_the_caller_and_the_time_of_the_call() {
    let server = FakeServer::start();
    server.create_series("tweets", timed("snowflake"), false);
    server.create_series("media", timed("instagram"), true);
    let client = client([&server]).await;
    let (tweets, media) = (client.series("tweets").await.unwrap(), client.series("media").await.unwrap());
    let before = SystemTime::now() - Duration::from_millis(1);
    let many: Vec<Id> = tweets.take(10_000).await.unwrap().collect();
    assert!(many.len() == 10_000 && many.is_sorted_by(|one, other| one < other));
    let next = tweets.after(many[9_999]).next().await.unwrap();
    assert!(next > many[9_999]);
    let one = media.lane(1_341).next().await.unwrap();
    let parts = media.decode(one).unwrap();
    assert_eq!(parts.lane, 1_341);
    assert!(parts.time.unwrap() >= before && parts.time.unwrap() <= SystemTime::now());
    assert_eq!(reason(&media.next().await.unwrap_err()), ("LANE_REQUIRED", 1));
    assert_eq!(reason(&media.lane(8_192).next().await.unwrap_err()), ("LANE_OUT_OF_RANGE", 1));
    assert_eq!(reason(&tweets.lane(1).next().await.unwrap_err()), ("LANE_NOT_ALLOWED", 1));
    assert_eq!(reason(&media.current().await.unwrap_err()), ("NOT_A_COUNTER", 1));
}

#[tokio::test]
async fn a_new_series_is_found_and_an_unknown_one_refused() {
    let server = FakeServer::start();
    let client = client([&server]).await;
    let unknown = client.series("orders").await.unwrap_err();
    assert_eq!(reason(&unknown), ("UNKNOWN_SERIES", 0));
    assert!(!unknown.is_retryable() && !unknown.may_have_applied());
    server.create_series("orders", counter(1, 1), false);
    // The routes of any response have the new series.
    client.next(1).await.unwrap();
    assert_eq!(client.series("orders").await.unwrap().next().await.unwrap(), id(1));
    // The seeds are requested otherwise.
    let other = seeds([&server]).connect().await.unwrap();
    server.create_series("photos", counter(1, 1), false);
    assert!(other.known_series("photos").is_none());
    assert_eq!(other.series("photos").await.unwrap().next().await.unwrap(), id(1));
}

#[tokio::test]
async fn failed_attempts_are_repeated_at_other_nodes() {
    let servers = servers("a", 0..100, 2);
    servers[0].create_series("orders", counter(1, 1), false);
    let client = client(&servers).await;
    let orders = client.series("orders").await.unwrap();
    let unknown = to_status(&Refusal::OwnerTimedOut { section: SectionId(0), owner: NodeId(1) });
    let transient = to_status(&Refusal::Unserved { section: SectionId(0) });
    for server in &servers {
        server.refuse([unknown.clone(), transient.clone()]);
    }
    assert_eq!(within(orders.next()).await.unwrap(), id(1));
    servers[0].stop();
    for _ in 0..50 {
        within(orders.next()).await.unwrap();
    }
}

#[tokio::test]
async fn an_unknown_outcome_of_an_earlier_attempt_is_kept() {
    let server = FakeServer::start();
    let (_, orders) = orders(&server).await;
    let unknown = Refusal::OwnerTimedOut { section: SectionId(0), owner: NodeId(1) };
    server.refuse([unknown, Refusal::EmptyBatch].map(|refusal| to_status(&refusal)));
    let error = within(orders.next()).await.unwrap_err();
    assert!(error.may_have_applied() && reason(&error) == ("EMPTY_BATCH", 2), "{error:?}");
}

#[tokio::test]
async fn another_set_forwards_while_a_set_is_down() {
    let cluster = FakeCluster { uids: 0..100, section_size: 10, sets: vec![("a".to_owned(), 1), ("b".to_owned(), 1)] };
    let sets = cluster.start();
    sets[0][0].create_series("orders", counter(1, 1), false);
    let client = client([&sets[0][0], &sets[1][0]]).await;
    let orders = client.series("orders").await.unwrap();
    assert_eq!(within(orders.next()).await.unwrap(), id(1));
    sets[0][0].stop();
    for _ in 0..50 {
        within(orders.next()).await.unwrap();
    }
    assert!(sets[1][0].seen().iter().any(|seen| seen.method == "NextIds"));
}

#[tokio::test]
async fn futures_can_move_between_threads() {
    fn check<T: Send>(call: T) -> T {
        call
    }
    let server = FakeServer::start();
    let (client, orders) = orders(&server).await;
    check(client.series("orders")).await.unwrap();
    check(orders.next()).await.unwrap();
    check(orders.take(2)).await.unwrap();
    check(orders.current()).await.unwrap();
    check(orders.advance(id(9))).await.unwrap();
}
