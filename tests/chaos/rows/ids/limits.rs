//! The limits of a lane: more ids than its shape has in a millisecond, and the last id of a shape.

use std::time::{Duration, Instant};

use seq_kit::wall_clock::now_ms;
use seq_order::IdCall;
use seq_proto::v1::id_service_client::IdServiceClient;
use seq_testkit::eventually;
use seq_testkit::ids::{Clocks, MEDIA, NARROW, Series, TWEETS, take};
use tonic::transport::{Channel, Endpoint};

use crate::cluster::{Cluster, Shape};
use crate::machine::pause;
use crate::rows::clocks::WallClock;
use crate::rows::ids::create;

/// Ids of a lane of `narrow` in a millisecond.
const PER_MS: u64 = 128;

/// Ids of a call: the most of a series with a time.
const COUNT: u32 = 10_000;

/// Callers of the lane, and the time for which they call without a pause.
const CALLERS: usize = 8;
const LENGTH: Duration = Duration::from_secs(5);

/// Time before the end of a shape at which a cluster is started.
const BEFORE_END: Duration = Duration::from_secs(30);

/// The last milliseconds of the ids of `media` and `tweets`, since 1970.
const ENDS: [(Series, u64); 2] = [(MEDIA, 2_413_731_649_496), (TWEETS, 3_487_858_230_208)];

/// Callers ask for more ids of one lane than the lane has.
pub(in crate::rows) fn overflow() {
    let cluster = Cluster::start(Shape::USUAL);
    create(&cluster, NARROW, &[]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let first = client(&runtime, &cluster.allocs[0].addr);
    eventually("the lane is served", || runtime.block_on(take(first.clone(), NARROW, 1)).ok());
    let began = Instant::now();
    let callers = (0..CALLERS).map(|at| {
        let client = client(&runtime, &cluster.allocs[at % cluster.allocs.len()].addr);
        runtime.spawn(async move {
            let mut calls = Vec::new();
            while began.elapsed() < LENGTH {
                calls.extend(take(client.clone(), NARROW, COUNT).await);
            }
            calls
        })
    });
    let callers: Vec<_> = callers.collect();
    let calls: Vec<IdCall> = callers.into_iter().flat_map(|caller| runtime.block_on(caller).unwrap()).collect();
    // The first id of a call is within the bound, and the call goes on from there.
    let last = Duration::from_millis(u64::from(COUNT).div_ceil(PER_MS));
    let clocks = Clocks { ahead: Clocks::RIGHT.ahead + last, ..Clocks::RIGHT };
    let (ids, ms) = (NARROW.check(&calls, clocks) as u64, began.elapsed().as_millis() as u64);
    println!("  {ids} ids of one lane in {ms} ms, {:.3} of its limit", ids as f64 / (PER_MS * ms) as f64);
    // A lane may be ahead of its clock by the second that the checker allows.
    let most = PER_MS * (ms + clocks.ahead.as_millis() as u64 + 1);
    assert!(ids <= most, "{ids} ids are more than {most}");
    assert!(ids > PER_MS * ms / 2, "{ids} ids: the callers are too slow to reach the limit");
}

/// All clocks read the last seconds of a shape: its last ids are positive, and then there are none.
pub(in crate::rows) fn end() {
    for (series, end_ms) in ENDS {
        let mut cluster = Cluster::prepare(Shape::USUAL);
        let file = cluster.path("clock");
        let clock = WallClock::of(&mut cluster.stores, file.clone());
        WallClock::of(&mut cluster.allocs, file);
        let ahead = Duration::from_millis(end_ms - now_ms()) - BEFORE_END;
        clock.step(&format!("+{}s", ahead.as_secs()));
        cluster.start_all();
        create(&cluster, series, &["--allow-short"]);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let client = client(&runtime, &cluster.allocs[0].addr);
        let mut calls = Vec::new();
        eventually("the last id was given out", || {
            let taken = runtime.block_on(take(client.clone(), series, 100));
            let refusal = taken.map(|call| calls.push(call)).err();
            refusal.filter(|refusal| refusal == "SERIES_ENDED")
        });
        let clocks = Clocks { behind: Duration::ZERO, ahead: ahead + Clocks::RIGHT.ahead };
        let ids = series.check(&calls, clocks);
        pause(Duration::from_secs(2));
        let again = runtime.block_on(take(client.clone(), series, 1)).map(|call| call.ids);
        assert_eq!(again, Err("SERIES_ENDED".to_owned()));
        let last = calls.iter().flat_map(|call| &call.ids).max();
        println!("  {}: {ids} ids to the end of its time, the last one {last:?}", series.name);
        assert!(ids > 0);
    }
}

fn client(runtime: &tokio::runtime::Runtime, addr: &str) -> IdServiceClient<Channel> {
    let _within = runtime.enter();
    IdServiceClient::new(Endpoint::from_shared(format!("http://{addr}")).unwrap().connect_lazy())
}
