//! The series of the twin: their lanes are counters above all uids.

use std::sync::Arc;

use seq_api::ids::IdSeries;
use seq_core::layout::{Lanes, SectionRun, TickClock};
use seq_core::{SectionId, Seq, Uid};
use seq_ids::{CounterShape, Id, Shape, TimedShape, preset};

/// The clock of the twin, in milliseconds since 1970: 2022-06-28T16:07:40.105Z.
pub(crate) const NOW_MS: u64 = 1_656_432_460_105;

/// The id of lane 378 and sequence number 0 at [`NOW_MS`].
pub(crate) const TWEET: u64 = 1_541_815_603_606_036_480;

/// The lane that the twin chooses.
pub(crate) const LANE: u32 = 378;

/// Returns the series: two counters, of which the second ends soon and has an inexact last id; two timed series, the
/// second of which has lanes that the caller names; and a retired counter.
pub(crate) fn all() -> Vec<Arc<IdSeries>> {
    let counter = |offset, increment, max_id| Shape::Counter(CounterShape { offset, increment, max_id });
    let shape = |name| preset(name).unwrap().shape;
    let series = [
        ("orders", counter(1, 1, Id::MAX)),
        ("tickets", counter(2, 10, 52)),
        ("tweets", shape("snowflake")),
        ("media", shape("instagram")),
        ("old", counter(1, 1, Id::MAX)),
    ];
    let series = series.into_iter().zip(0..).map(|((name, shape), section)| IdSeries {
        name: name.to_owned(),
        shape,
        named_lanes: name == "media",
        ahead_ms: 1_000,
        lanes: lanes(&shape),
        sections: SectionRun { first: SectionId(10 + section), sections: 1 },
        created_ms: NOW_MS,
        retired: name == "old",
    });
    series.map(Arc::new).collect()
}

/// Returns the lanes of a shape, in one section.
fn lanes(shape: &Shape) -> Lanes {
    let clock = match *shape {
        Shape::Counter(_) => None,
        Shape::Timed(TimedShape { epoch_ms, unit_ms, seq_bits, .. }) => {
            Some(TickClock { epoch_ms, unit_ms, seq_bits, lead_ms: 60_000 })
        }
    };
    Lanes { count: shape.lanes(), per_section: shape.lanes(), start: Seq(0), margin: 0, clock, keys: None }
}

/// Returns the series of an address.
pub(crate) fn of(address: Uid) -> Arc<IdSeries> {
    let of = |series: &Arc<IdSeries>| (0..series.lanes.count).any(|lane| series.address(lane) == address);
    all().into_iter().find(of).expect("the address of a lane")
}

/// Returns the first number of a series at [`NOW_MS`].
pub(crate) fn first(series: &IdSeries) -> u64 {
    match series.shape {
        Shape::Counter(_) => 1,
        Shape::Timed(timed) => timed.tick(NOW_MS).unwrap(),
    }
}

/// Returns the highest number of a series above which ids are taken: a second in front of the clock of this machine.
pub(crate) fn last(series: &IdSeries) -> u64 {
    match series.shape {
        Shape::Counter(_) => 0,
        Shape::Timed(timed) => timed.tick(seq_kit::wall_clock::now_ms() + 1_000).unwrap(),
    }
}
