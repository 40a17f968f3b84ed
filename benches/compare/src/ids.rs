//! Ids of series beside numbers of uids over the same endpoints, and beside the generators that other systems use. The
//! order that each promises stands in the names of the rows: `strict` for every caller in real time, `lane` for each
//! lane, `none` for unique ids without an order.

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use seq_core::layout::TickClock;
use seq_core::section::Window;
use seq_core::{Count, Section, Seq, SlotIndex, Step, Take};

use crate::cluster::{Cluster, UIDS};
use crate::peer::{Peer, free_port};
use crate::suite::{Bench, OURS, WIRE};
use crate::table::Goal;
use crate::tool::{self, Figure};

/// Time 0 of Twitter's ids in milliseconds since 1970, and the bits of their parts below the time.
const TWITTER_EPOCH_MS: u64 = 1_288_834_974_657;
const SEQ_BITS: u8 = 12;
const LANE_BITS: u8 = 10;

/// Series under measurement, with the arguments of their creation.
const SERIES: [(&str, &[&str]); 2] = [("orders", &["--counter"]), ("tweets", &["--shape", "snowflake"])];

/// Flags of 256 calls in flight.
const IN_FLIGHT: &str = "--connections 4 --concurrency 256";

/// Commands of `redis-benchmark` for each second of a run.
const COMMANDS: u64 = 1_200_000;

/// Measures everything once, in turn.
pub(crate) async fn measure(bench: &mut Bench, dir: &Path) -> anyhow::Result<()> {
    let time = Duration::from_secs(bench.seconds.into());
    bench.add("one lane in process, lane".to_owned(), one_lane(time));
    bench.add("Snowflake's loop in process, lane".to_owned(), snowflake(time));
    let cluster = Cluster::start(&bench.seqsvr, dir, 1, &[]).await?;
    for (name, shape) in SERIES {
        cluster.command(&[&["series", "create", name, "--yes"], shape].concat()).await?;
    }
    let addr = format!("127.0.0.1:{}", free_port()?);
    let mut bare = Peer::new(dir);
    bare.start(&bench.me, &["echo", "--addr", &addr], &addr).await?;
    let (server, echo) = (cluster.peer.addrs[0].clone(), bare.addrs[0].clone());
    let hundred = |series: &str| format!("--endpoint id --series {series} --batch 100 {IN_FLIGHT}");
    let unary = |series: &str| WIRE[0].1.replace("grpc", &format!("id --series {series}"));
    for (name, addr, flags) in [
        (format!("{OURS} unary, a uid, strict"), &server, WIRE[0].1.to_owned()),
        (format!("{OURS} unary, counter, strict"), &server, unary("orders")),
        (format!("{OURS} unary, snowflake, none"), &server, unary("tweets")),
        ("bare unary, 256 in flight".to_owned(), &echo, format!("--endpoint grpc {IN_FLIGHT}")),
        (format!("{OURS} 100 ids a request, counter, strict"), &server, hundred("orders")),
        (format!("{OURS} 100 ids a request, snowflake, none"), &server, hundred("tweets")),
    ] {
        let figure = tool::bench(&bench.seqsvr, addr, bench.seconds, UIDS, &flags).await?;
        bench.add(name, figure);
    }
    for (what, command) in [
        ("a uid, strict", &["INCR", "seq:__rand_int__"][..]),
        ("counter, strict", &["INCR", "id:orders"]),
        ("snowflake, none", &["SEQ.ID", "id:tweets"]),
    ] {
        let (before, numbers) = (cluster.peer.cpu(), COMMANDS * u64::from(bench.seconds));
        let (figure, _) = tool::redis(&cluster.redis[0], &[], command, 64, 1, numbers).await?;
        let cpu_us = Some((cluster.peer.cpu() - before) * 1e6 / figure.numbers as f64);
        bench.add(format!("{OURS} RESP, pipeline 64, {what}"), Figure { cpu_us, ..figure });
    }
    bare.stop().await?;
    cluster.peer.stop().await
}

/// The goals of this suite.
pub(crate) fn goals() -> Vec<Goal> {
    let goal = |ours: &str, theirs: &str, rate| {
        let (ours, theirs) = (ours.into(), theirs.into());
        Goal { ours, theirs, rate: Some(rate), cpu: None, p50: None, p99: None }
    };
    let uid = format!("{OURS} unary, a uid, strict");
    let (counter, timed) = (format!("{OURS} unary, counter, strict"), format!("{OURS} unary, snowflake, none"));
    let resp = format!("{OURS} RESP, pipeline 64, counter, strict");
    vec![
        goal("one lane in process, lane", "Snowflake's loop in process, lane", 0.99),
        goal(&counter, &uid, 0.95),
        goal(&timed, &uid, 0.95),
        goal(&format!("{OURS} 100 ids a request, counter, strict"), "bare unary, 256 in flight", 90.0),
        goal(&format!("{OURS} 100 ids a request, snowflake, none"), "bare unary, 256 in flight", 90.0),
        goal(&resp, &format!("{OURS} RESP, pipeline 64, a uid, strict"), 0.95),
        goal(&resp, "Redis, pipeline 64", 3.0),
        goal(&counter, "PostgreSQL nextval", 1.4),
        goal(&resp, "PostgreSQL nextval", 20.0),
        goal(&resp, "MariaDB REPLACE, MyISAM", 100.0),
        goal(&resp, "MariaDB REPLACE, InnoDB", 2_000.0),
    ]
}

/// Takes ticks of one lane as an AllocSvr does, no tick ahead of the clock.
fn one_lane(time: Duration) -> Figure {
    let clock = TickClock { epoch_ms: TWITTER_EPOCH_MS, unit_ms: 1, seq_bits: SEQ_BITS, lead_ms: 60_000 };
    let last_of_unit = (1 << SEQ_BITS) - 1;
    let section = Section::takeover(1, clock.tick(now_ms()), Step(1));
    let _ = section.raised(Seq::MAX);
    measured(time, || {
        let floor = clock.tick(now_ms());
        let window = Window { floor, limit: Seq(floor.0 | last_of_unit), spread: last_of_unit };
        matches!(section.take_within(SlotIndex(0), Count::ONE, window), Ok(Take::Given { .. }))
    })
}

/// Makes ids as Twitter's `IdWorker` did: under a lock, at most 4,096 in a millisecond, with a wait for the next one.
fn snowflake(time: Duration) -> Figure {
    let worker = Mutex::new((0, 0));
    measured(time, || {
        let mut state = worker.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (last, sequence) = &mut *state;
        let now = now_ms();
        *sequence = if now == *last { (*sequence + 1) & ((1 << SEQ_BITS) - 1) } else { 0 };
        if now == *last && *sequence == 0 {
            // The next call finds the next millisecond, or waits once more.
            *sequence = (1 << SEQ_BITS) - 1;
            return false;
        }
        *last = now;
        let id = (now - TWITTER_EPOCH_MS) << (LANE_BITS + SEQ_BITS) | *sequence;
        std::hint::black_box(id) != 0
    })
}

/// Calls a generator for a while; counts the calls that made an id.
fn measured(time: Duration, mut make: impl FnMut() -> bool) -> Figure {
    let (began, mut numbers) = (Instant::now(), 0);
    while began.elapsed() < time {
        for _ in 0..1_000 {
            numbers += u64::from(make());
        }
    }
    Figure { numbers, per_second: numbers as f64 / began.elapsed().as_secs_f64(), ..Figure::default() }
}

#[expect(clippy::disallowed_methods, reason = "ids with a time are of the wall clock")]
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970");
    u64::try_from(since.as_millis()).expect("a time of this age")
}
