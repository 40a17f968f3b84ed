//! Vectors of the original systems and of texts about them.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::*;
use crate::id::Id;
use crate::shape::{CounterShape, Ended, Parts, TimedShape};

fn timed(name: &str) -> TimedShape {
    match preset(name).expect("it has a name").shape {
        Shape::Timed(timed) => timed,
        Shape::Counter(_) => panic!("{name} has no time"),
    }
}

fn id(number: u64) -> Id {
    Id::new(number).expect("an id")
}

/// Time since 1970, lane and sequence number of an id.
fn parts(name: &str, number: u64) -> (u64, u32, u64) {
    let Parts { lane, timed, .. } = preset(name).unwrap().shape.parts(id(number)).expect("an id of the shape");
    let (unix_ms, seq) = timed.expect("a time");
    (unix_ms, lane, seq)
}

#[test]
fn every_shape_can_be_used_and_has_its_own_name() {
    let names: BTreeSet<&str> = PRESETS.iter().map(|preset| preset.name).collect();
    assert_eq!(names.len(), PRESETS.len());
    for preset in PRESETS {
        assert_eq!(preset.shape.checked(), Ok(preset.shape), "{}", preset.name);
        let bits: u32 = preset.lane_fields.iter().map(|field| u32::from(field.bits)).sum();
        assert_eq!(1 << bits, preset.shape.lanes(), "{}", preset.name);
        let is_timed = matches!(preset.shape, Shape::Timed(_));
        assert_eq!((preset.ahead_ms > 0, preset.named_lanes <= is_timed), (is_timed, true), "{}", preset.name);
    }
    assert_eq!(super::preset("snowflakes"), None);
}

/// The cases of Snowflake's `IdWorkerSpec`: ids of worker 0 a millisecond after the epoch, and the masks of the fields.
#[test]
fn snowflake_as_its_own_tests_have_it() {
    let shape = preset("snowflake").unwrap().shape;
    let tick = timed("snowflake").tick(1_288_834_974_658).unwrap();
    let first: Vec<u64> = (0..3).map(|seq| shape.id(0, tick + seq).unwrap().get()).collect();
    assert_eq!(first, [4_194_304, 4_194_305, 4_194_306]);
    let masks = [0x1F000, 0x3E0000].map(|mask| parts("snowflake", mask).1);
    let fields = masks.map(|lane| preset("snowflake").unwrap().fields_of(lane).collect::<Vec<_>>());
    assert_eq!(fields[0], [("datacenter", 0), ("worker", 31)]);
    assert_eq!(fields[1], [("datacenter", 31), ("worker", 0)]);
    assert_eq!(parts("snowflake", 0x7FFF_FFFF_FFC0_0000).0, timed("snowflake").end_ms().unwrap());
}

/// The example of a post in the English Wikipedia's article on Snowflake ids: 2022-06-28T16:07:40.105Z.
#[test]
fn a_post_of_2022() {
    assert_eq!(parts("snowflake", 1_541_815_603_606_036_480), (1_656_432_460_105, 378, 0));
    let fields: Vec<_> = preset("snowflake").unwrap().fields_of(378).collect();
    assert_eq!(fields, [("datacenter", 11), ("worker", 26)]);
}

/// A comment in Leaf's `LeafMonitorController`.
#[test]
fn leaf_as_its_source_has_it() {
    assert_eq!(parts("leaf", 1_169_786_042_799_259_000), (1_567_733_700_834, 39, 3_448));
}

/// The example of "Sharding & IDs at Instagram" is user 31341 of 2,000 shards, number 5,001 of that shard's sequence,
/// 1,387,263,000 ms after the epoch. The other id is from a question of a user.
#[test]
fn instagram_as_its_article_has_it() {
    let shape = preset("instagram").unwrap().shape;
    let (shard, seq) = (31_341 % 2_000, 5_001 % 1_024);
    assert_eq!((shard, seq), (1_341, 905));
    let tick = timed("instagram").tick(1_314_220_021_721 + 1_387_263_000).unwrap() + seq;
    assert_eq!(shape.id(shard, tick).unwrap().get(), 11_637_205_501_278_089);
    // 2017-12-16T22:25:27.280Z
    assert_eq!(parts("instagram", 1_671_372_309_237_077_023), (1_513_463_127_280, 5, 31));
}

/// With 41 bits of time, ids become negative in 2046; with 40 bits, they end.
#[test]
fn instagram_ends_while_its_ids_are_positive() {
    let shape = preset("instagram").unwrap().shape;
    // 2046-06-27T17:00:49.496Z
    let end = timed("instagram").end_ms().unwrap();
    assert_eq!(end, 2_413_731_649_496);
    let tick = timed("instagram").tick(end).unwrap() + 1_023;
    assert_eq!(shape.id(8_191, tick).unwrap().get(), Id::MAX);
    assert_eq!(shape.id(0, tick + 1), Err(Ended { last: shape.last(0) }));
    assert_eq!(timed("instagram").tick(end + 1), None);
}

#[test]
fn the_last_times_of_the_shapes() {
    let ends = ["snowflake", "leaf", "js53"].map(|name| timed(name).end_ms().unwrap());
    // 2080-07-10T17:30:30.208Z, and 2094-01-19T03:14:07.999Z.
    assert_eq!(ends, [3_487_858_230_208, 3_487_858_230_208, 3_914_709_247_999]);
    assert!(preset("js53").unwrap().shape.last(63) < 1 << 53);
    assert_eq!(timed("snowflake").ids_per_second(), 4_096_000.0);
}

/// A ticket of Flickr that is odd, so the first of the two servers made it, as its 36,078,811,613,595,212th ticket.
#[test]
fn tickets_of_two_servers() {
    let server = |offset| Shape::Counter(CounterShape { offset, increment: 2, max_id: Id::MAX });
    let ticket = id(72_157_623_227_190_423);
    let value = 36_078_811_613_595_212;
    assert_eq!(server(1).parts(ticket), Some(Parts { lane: 0, value, timed: None }));
    assert_eq!(server(1).id(0, value), Ok(ticket));
    assert_eq!(server(2).parts(ticket), None);
}

/// A sequence of four-byte integers ends at the same number as in PostgreSQL.
#[test]
fn a_counter_ends_at_its_largest_id() {
    let shape = Shape::Counter(CounterShape { offset: 3, increment: 10, max_id: 2_147_483_647 });
    assert_eq!([1, 2].map(|value| shape.id(0, value).unwrap().get()), [3, 13]);
    let last = 2_147_483_643;
    assert_eq!(shape.last(0), last);
    let value = shape.parts(id(last)).unwrap().value;
    assert_eq!(shape.id(0, value).map(Id::get), Ok(last));
    for above in [value + 1, u64::MAX] {
        assert_eq!(shape.id(0, above), Err(Ended { last }));
    }
    assert_eq!(shape.id(0, 0), Err(Ended { last }), "no counter gives out 0");
    assert_eq!(shape.parts(id(4)), None);
}
