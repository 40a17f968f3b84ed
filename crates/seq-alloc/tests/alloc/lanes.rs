//! Lanes of series, and nodes whose clock is ahead of the store's.

use std::sync::Arc;
use std::time::Duration;

use seq_api::ids::IdSeries;
use seq_api::service::{Allocation, Call, SequenceService, Via};
use seq_core::{Refusal, Seq};
use seq_ids::{CounterShape, Shape};
use seq_proto::series::SeriesShape;
use tokio::time::Instant;

use crate::books::recorder;
use crate::world::{Node, PATIENCE, World, ask, call};

/// Sections of the series in a world.
const SECTIONS: u32 = 4;

/// The first lane of the second node, which has the second half.
const THEIRS: u32 = 512;

/// Starts two nodes, each with half of a series' lanes.
async fn start(set: &str, named_lanes: bool) -> (World, Node, Node, Arc<IdSeries>) {
    let world = World::of(set);
    let shape = seq_ids::preset("snowflake").unwrap().shape;
    let shape = SeriesShape { shape, named_lanes, ahead_ms: 1_000 };
    let sections = world.store.create_series("tweets", shape, SECTIONS);
    let middle = sections.start + SECTIONS / 2;
    let one = world.start_owning("a1", sections.start..middle).await;
    let two = world.start_owning("a2", middle..sections.end).await;
    world.routed(&[&one, &two]).await;
    let series = one.allocator.series("tweets").unwrap();
    (world, one, two, series)
}

/// Takes an id of a lane.
async fn next(node: &Node, series: &IdSeries, lane: u32) -> Result<Allocation, Refusal> {
    take(node, series, lane, 1).await
}

/// Takes ids of a lane.
async fn take(node: &Node, series: &IdSeries, lane: u32, count: u32) -> Result<Allocation, Refusal> {
    let call = Call { via: Via::Id, ..call() };
    node.allocator.next_in_lane(call, ask(series.address(lane).0, count), Seq::ZERO).await
}

/// Returns by how many milliseconds a refusal states that a clock is ahead.
fn ahead_ms(refused: Result<Allocation, Refusal>) -> u64 {
    match refused {
        Err(Refusal::ClockAhead { ahead_ms, .. }) => ahead_ms,
        other => panic!("{other:?}"),
    }
}

/// Takes an id of a lane again until it is given.
async fn served(node: &Node, series: &IdSeries, lane: u32) {
    let since = Instant::now();
    while let Err(refusal) = next(node, series, lane).await {
        assert!(since.elapsed() < PATIENCE, "{refusal}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_node_whose_clock_is_ahead_chooses_lanes_of_others() {
    let recorder = recorder();
    let (world, one, two, series) = start("ahead", false).await;
    world.store.set_ahead("a1", Duration::from_secs(3_600));
    let lane = one.allocator.choose_lane(&series, 0).unwrap();
    assert!(lane < THEIRS, "a lane of its own, as no raise has failed yet");
    for refused in [next(&one, &series, lane).await, next(&two, &series, lane).await] {
        let ahead_ms = ahead_ms(refused);
        assert!((3_599_000..3_620_000).contains(&ahead_ms), "{ahead_ms} ms ahead");
    }
    for _ in 0..100 {
        let lane = one.allocator.choose_lane(&series, 0).unwrap();
        assert!(lane >= THEIRS, "{lane}");
        next(&one, &series, lane).await.unwrap();
    }
    // Its lanes are served again once its clock is right.
    world.store.set_ahead("a1", Duration::ZERO);
    served(&one, &series, lane).await;
    assert!(one.allocator.choose_lane(&series, 0).unwrap() < THEIRS);
    let text = recorder.render();
    let clamped = "seqsvr_raises_clamped_total{set=\"ahead\",node=\"a1\"} ";
    let count: f64 = text.lines().find_map(|line| line.strip_prefix(clamped)).unwrap().parse().unwrap();
    assert!((1.0..10.0).contains(&count), "{count} raises, as it requests at most ten in a second");
}

#[tokio::test]
async fn calls_for_a_named_lane_of_such_a_node_do_not_wait() {
    let (world, one, _two, series) = start("named", true).await;
    world.store.set_ahead("a1", Duration::from_secs(20));
    let since = Instant::now();
    for lane in [0, 7, THEIRS - 1] {
        let ahead_ms = ahead_ms(next(&one, &series, lane).await);
        assert!((19_000..30_000).contains(&ahead_ms), "{ahead_ms} ms ahead");
    }
    assert!(since.elapsed() < PATIENCE, "{:?}", since.elapsed());
    next(&one, &series, THEIRS).await.unwrap();
    // Below the lead and ten seconds, ids go on.
    world.store.set_ahead("a1", Duration::from_secs(8));
    served(&one, &series, 7).await;
}

#[tokio::test]
async fn a_request_for_more_than_is_left_of_a_counter_moves_nothing() {
    let world = World::of("ends");
    let shape = Shape::Counter(CounterShape { offset: 2, increment: 10, max_id: 58 });
    let sections = world.store.create_series("tickets", SeriesShape { shape, named_lanes: false, ahead_ms: 0 }, 1);
    let one = world.start_owning("a1", sections).await;
    let two = world.start_owning("a2", 0..1).await;
    world.routed(&[&one, &two]).await;
    let series = one.allocator.series("tickets").unwrap();
    // The ids are 2, 12, ..., 52: six of them.
    assert_eq!(take(&one, &series, 0, 3).await.unwrap().value, Seq(3));
    for node in [&one, &two] {
        let refused = take(node, &series, 0, 4).await.unwrap_err();
        assert!(matches!(refused, Refusal::Exhausted { count: 4, .. }), "{refused:?}");
    }
    assert_eq!(take(&two, &series, 0, 2).await.unwrap().value, Seq(5), "forwarded");
    assert_eq!(take(&one, &series, 0, 1).await.unwrap().value, Seq(6));
    assert!(matches!(take(&two, &series, 0, 1).await, Err(Refusal::Exhausted { .. })));
}
