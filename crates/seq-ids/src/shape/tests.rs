//! Properties of every shape.

use alloc::string::ToString;

use proptest::prelude::*;

use super::*;

fn counters() -> impl Strategy<Value = Shape> {
    let increments = prop_oneof![1..=3_u64, 1..=CounterShape::MAX_INCREMENT];
    let offsets = increments.prop_flat_map(|increment| (1..=increment, Just(increment)));
    let all = offsets.prop_flat_map(|(offset, increment)| {
        (Just(offset), Just(increment), prop_oneof![Just(Id::MAX), offset..=Id::MAX])
    });
    all.prop_map(|(offset, increment, max_id)| Shape::Counter(CounterShape { offset, increment, max_id }))
}

fn timed() -> impl Strategy<Value = Shape> {
    let bits = (0..=20_u8, 0..=22_u8, prop_oneof![Just(1_u32), Just(1_000)]);
    let all = bits.prop_flat_map(|(lane, seq, unit)| {
        let most = if unit == 1 { 43.min(63 - lane - seq) } else { 33.min(63 - lane - seq) };
        (Just((lane, seq, unit)), 1..=most, 0..2_000_000_000_000_u64, any::<bool>())
    });
    all.prop_map(|((lane_bits, seq_bits, unit_ms), time_bits, epoch_ms, spread)| {
        Shape::Timed(TimedShape { epoch_ms, unit_ms, time_bits, lane_bits, seq_bits, spread })
    })
}

fn shapes() -> impl Strategy<Value = Shape> {
    prop_oneof![counters(), timed()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// An id is positive, and its parts are the lane and the value that it was made from. Values above the last have no
    /// id.
    #[test]
    fn ids_and_their_parts_are_one_to_one(shape in shapes(), lane in any::<u32>(), values in prop::collection::vec(any::<u64>(), 6), small in 1..5_000_u64) {
        prop_assert_eq!(shape.checked(), Ok(shape));
        let lane = lane % shape.lanes();
        let last = shape.last(lane);
        let end = shape.parts(Id::new(last).unwrap()).unwrap();
        prop_assert_eq!((end.lane, shape.id(lane, end.value).map(Id::get)), (lane, Ok(last)));
        prop_assert_eq!(shape.id(lane, end.value + 1), Err(Ended { last }));
        let near = [small, end.value.saturating_sub(small).max(1), end.value];
        for value in values.into_iter().map(|value| value % end.value + 1).chain(near) {
            match shape.id(lane, value) {
                Ok(id) => {
                    prop_assert!(value <= end.value && id.get() <= last);
                    let parts = shape.parts(id).unwrap();
                    prop_assert_eq!((parts.lane, parts.value), (lane, value));
                }
                Err(Ended { .. }) => prop_assert!(value > end.value),
            }
        }
    }

    /// Ids of a lane are in the order of their values.
    #[test]
    fn ids_rise_with_the_values(shape in shapes(), lane in any::<u32>(), values in (1..u64::MAX, 1..u64::MAX)) {
        let lane = lane % shape.lanes();
        if let (Ok(one), Ok(other)) = (shape.id(lane, values.0), shape.id(lane, values.1)) {
            prop_assert_eq!(one.cmp(&other), values.0.cmp(&values.1));
        }
    }

    /// A number that has parts is the id of these parts.
    #[test]
    fn any_number_is_no_id_or_that_of_its_parts(shape in shapes(), number in 1..=Id::MAX) {
        let id = Id::new(number).unwrap();
        if let Some(parts) = shape.parts(id).filter(|parts| parts.value > 0) {
            prop_assert_eq!(shape.id(parts.lane, parts.value), Ok(id));
        }
    }

    /// The first tick of a time has that time as its part, rounded down to the unit.
    #[test]
    fn a_tick_states_its_time(shape in timed(), since in 0..2_000_000_000_000_u64) {
        let Shape::Timed(timed) = shape else { panic!("{shape:?}") };
        let at = timed.epoch_ms + since;
        let Some(tick) = timed.tick(at).filter(|tick| *tick > 0) else { return Ok(()) };
        let (unix_ms, seq) = shape.parts(shape.id(0, tick).unwrap()).unwrap().timed.unwrap();
        prop_assert_eq!(seq, 0);
        prop_assert!(unix_ms <= at && at - unix_ms < u64::from(timed.unit_ms));
    }
}

#[test]
fn a_shape_that_cannot_be_used_names_the_field() {
    let counter = CounterShape { offset: 1, increment: 1, max_id: Id::MAX };
    let timed = TimedShape { epoch_ms: 0, unit_ms: 1, time_bits: 41, lane_bits: 10, seq_bits: 12, spread: false };
    let refused = [
        (Shape::Counter(CounterShape { increment: 0, ..counter }), "the increment 0 is not 1 to 4294967296"),
        (Shape::Counter(CounterShape { offset: 2, ..counter }), "the offset 2 is not 1 to the increment 1"),
        (Shape::Counter(CounterShape { offset: 0, ..counter }), "the offset 0 is not 1 to the increment 1"),
        (
            Shape::Counter(CounterShape { max_id: 0, ..counter }),
            "the largest id 0 is below the first id, or above 9223372036854775807",
        ),
        (Shape::Timed(TimedShape { unit_ms: 0, ..timed }), "a unit of 0 ms is not 1 ms to a day"),
        (
            Shape::Timed(TimedShape { lane_bits: 11, ..timed }),
            "41/11/12 bits: the time has at least 1 bit, a lane at most 20, and all have at most 63 in sum",
        ),
        (
            Shape::Timed(TimedShape { time_bits: 0, ..timed }),
            "0/10/12 bits: the time has at least 1 bit, a lane at most 20, and all have at most 63 in sum",
        ),
        (
            Shape::Timed(TimedShape { time_bits: 63, lane_bits: 0, seq_bits: 0, ..timed }),
            "the times of 63 bits of 1 ms end after the year 9999: use fewer bits or a smaller unit",
        ),
    ];
    for (shape, text) in refused {
        assert_eq!(shape.checked().unwrap_err().to_string(), text);
    }
}

#[test]
fn shapes_are_shown_by_their_layout() {
    let counter = Shape::Counter(CounterShape { offset: 2, increment: 2, max_id: Id::MAX });
    assert_eq!(counter.to_string(), "2, 4, 6, ...");
    let timed = TimedShape { epoch_ms: 0, unit_ms: 1, time_bits: 41, lane_bits: 10, seq_bits: 12, spread: false };
    assert_eq!(Shape::Timed(timed).to_string(), "41/10/12 bits of time, lane and sequence");
}

#[test]
fn the_last_value_has_the_last_id() {
    let counter = |offset, increment, max_id| Shape::Counter(CounterShape { offset, increment, max_id });
    let shapes = crate::PRESETS.iter().map(|preset| preset.shape);
    for shape in shapes.chain([counter(2, 10, 52), counter(2, 10, 61), counter(1, 1, 1)]) {
        let last = shape.last_value();
        assert_eq!(shape.id(0, last).unwrap().get(), shape.last(0), "{shape}");
        assert_eq!(shape.id(0, last + 1).map(Id::get), Err(Ended { last: shape.last(0) }), "{shape}");
    }
}
