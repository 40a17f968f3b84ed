//! Ids that are fetched ahead, against fake servers.

use std::time::{Duration, Instant};

use seq_core::Refusal;
use seq_ids::{CounterShape, Id, Shape, preset};
use seq_proto::status::to_status;

use super::{client, within};
use crate::error::CallError;
use crate::fake::FakeServer;

fn counter() -> Shape {
    Shape::Counter(CounterShape { offset: 1, increment: 1, max_id: 10_000 })
}

#[tokio::test]
async fn ids_are_fetched_ahead_and_increase() {
    let server = FakeServer::start();
    server.create_series("orders", counter(), false);
    server.create_series("tweets", preset("snowflake").unwrap().shape, false);
    let client = client([&server]).await;
    for name in ["orders", "tweets"] {
        let series = client.series(name).await.unwrap();
        let mut ids = series.after(Id::new(5).unwrap()).segments().open();
        assert_eq!(ids.try_next(), None);
        let mut last = within(ids.next()).await.unwrap();
        assert!(last.get() > 5);
        assert_eq!(ids.unused(), 0);
        let before = server.seen().len();
        for _ in 0..1_000 {
            let id = within(ids.next()).await.unwrap();
            assert!(id > last, "{id} after {last}");
            last = id;
        }
        let requests = server.seen().len() - before;
        assert!(requests < 100, "{requests} requests for 1,000 ids");
        assert!(ids.close() <= 2 + 2 * 1_001);
    }
}

#[tokio::test]
async fn a_failed_fetch_is_reported_and_repeated() {
    let server = FakeServer::start();
    server.create_series("orders", counter(), false);
    let client = client([&server]).await;
    let mut ids = client.series("orders").await.unwrap().segments().hold(Duration::from_secs(1)).open();
    server.refuse([to_status(&Refusal::EmptyBatch)]);
    let error = within(ids.next()).await.unwrap_err();
    assert!(matches!(&error, CallError::Refused(refused) if refused.reason == "EMPTY_BATCH"), "{error:?}");
    let began = Instant::now();
    assert_eq!(within(ids.next()).await.unwrap().get(), 1);
    assert!(began.elapsed() >= Duration::from_millis(50), "after a pause");
    while within(ids.next()).await.is_ok() {}
    let ended = within(ids.next()).await.unwrap_err();
    assert!(matches!(&ended, CallError::Refused(refused) if refused.reason == "SERIES_ENDED"), "{ended:?}");
}

#[tokio::test]
async fn ids_go_on_while_the_server_is_stopped() {
    let server = FakeServer::start();
    server.create_series("orders", counter(), false);
    let client = client([&server]).await;
    let mut ids = client.series("orders").await.unwrap().segments().open();
    for _ in 0..500 {
        within(ids.next()).await.unwrap();
    }
    server.stop();
    for _ in 0..ids.unused() {
        assert!(ids.try_next().is_some());
    }
}
