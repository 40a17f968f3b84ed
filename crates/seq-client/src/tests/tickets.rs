//! Tickets of two counters, in two clusters of fake servers.

use seq_core::Refusal;
use seq_ids::{CounterShape, Id, Shape, preset};
use seq_proto::Reason;
use seq_proto::status::to_status;

use super::{client, within};
use crate::error::CallError;
use crate::fake::FakeServer;
use crate::{Series, Tickets};

fn counter(offset: u64) -> Shape {
    Shape::Counter(CounterShape { offset, increment: 2, max_id: Id::MAX })
}

async fn photos(server: &FakeServer, shape: Shape) -> Series {
    server.create_series("photos", shape, false);
    client([server]).await.series("photos").await.unwrap()
}

fn reason(refused: &CallError) -> &str {
    match refused {
        CallError::Refused(refused) => &refused.reason,
        error => panic!("{error:?}"),
    }
}

#[tokio::test]
async fn tickets_are_taken_in_turn_and_increase() {
    let servers = [FakeServer::start(), FakeServer::start()];
    let sides = [photos(&servers[0], counter(1)).await, photos(&servers[1], counter(2)).await];
    sides[0].advance(Id::new(5_000_001).unwrap()).await.unwrap();
    let tickets = Tickets::over(sides).unwrap();
    let mut last = 0;
    for _ in 0..20 {
        let id = within(tickets.next()).await.unwrap().get();
        assert!(id > last, "{id} after {last}");
        last = id;
    }
    assert!((5_000_002..5_000_100).contains(&last), "{last}");
    let many: Vec<u64> = within(tickets.take(3)).await.unwrap().map(Id::get).collect();
    assert!(many[0] > last && many[2] == many[0] + 4, "{many:?}");
    let taken = |server: &FakeServer| server.seen().iter().filter(|seen| seen.method == "NextIds").count();
    assert!(servers.iter().all(|server| taken(server) >= 10));
}

#[tokio::test]
async fn a_counter_that_is_too_far_behind_is_raised() {
    let servers = [FakeServer::start(), FakeServer::start()];
    let sides = [photos(&servers[0], counter(1)).await, photos(&servers[1], counter(2)).await];
    let tickets = Tickets::over(sides.clone()).unwrap();
    sides[0].advance(Id::new(101).unwrap()).await.unwrap();
    assert_eq!(within(tickets.next()).await.unwrap().get(), 103);
    servers[1].refuse([Reason::AfterTooFar.status("too far")]);
    assert_eq!(within(tickets.next()).await.unwrap().get(), 104);
    assert!(servers[1].seen().iter().any(|seen| seen.method == "AdvanceId"));
}

#[tokio::test]
async fn an_unavailable_counter_is_left_out() {
    let servers = [FakeServer::start(), FakeServer::start()];
    let sides = [photos(&servers[0], counter(1)).await, photos(&servers[1], counter(2)).await];
    let tickets = Tickets::over(sides).unwrap();
    servers[0].stop();
    let mut last = 0;
    for _ in 0..300 {
        let id = within(tickets.next()).await.unwrap().get();
        assert!(id > last && id % 2 == 0);
        last = id;
    }
    // A permanent refusal is the error of the call, and a transient one is not.
    let transient = to_status(&Refusal::Unserved { section: seq_core::SectionId(0) });
    servers[1].refuse([transient]);
    assert!(within(tickets.next()).await.unwrap().get() > last);
    servers[1].refuse([to_status(&Refusal::EmptyBatch)]);
    assert_eq!(reason(&within(tickets.next()).await.unwrap_err()), "EMPTY_BATCH");
}

#[tokio::test]
async fn series_with_an_id_in_common_are_refused() {
    let servers = [FakeServer::start(), FakeServer::start()];
    let sides = [photos(&servers[0], counter(1)).await, photos(&servers[1], counter(1)).await];
    let overlap = Tickets::over(sides).unwrap_err();
    assert_eq!(reason(&overlap), "LANES_OVERLAP");
    assert!(!overlap.is_retryable() && !overlap.may_have_applied());
    let server = FakeServer::start();
    let tweets = photos(&server, preset("snowflake").unwrap().shape).await;
    assert_eq!(reason(&Tickets::over([tweets]).unwrap_err()), "NOT_A_COUNTER");
}
