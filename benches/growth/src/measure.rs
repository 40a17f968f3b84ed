//! The timed loops: the same random uids on a bare array, on sections, and through an allocator.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use seq_alloc::Allocator;
use seq_core::{Count, Layout, Section, Take, Uid};

use crate::world::{World, ask};

/// Uids in a batch: a typical message of a stream, or of a client that batches.
pub(crate) const BATCH: usize = 100;
/// Rounds of measurements in turn; the result is the median.
const ROUNDS: usize = 3;
/// A ceiling that no run reaches.
const CEILING: u64 = 1 << 40;

/// A random number generator; the same sequence for every contender.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new() -> Random {
        Random(0x9e37_79b9_7f4a_7c15)
    }

    #[inline]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * u128::from(bound)) >> 64) as u64
    }
}

/// Seconds of each contender, the median of [`ROUNDS`] in turn.
pub(crate) fn in_turn(contenders: &mut [&mut dyn FnMut() -> Duration]) -> Vec<f64> {
    let mut times = vec![Vec::new(); contenders.len()];
    for _ in 0..ROUNDS {
        for (contender, times) in contenders.iter_mut().zip(&mut times) {
            times.push(contender().as_secs_f64());
        }
    }
    times.into_iter().map(median).collect()
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// An array of touched counters.
pub(crate) fn array(uids: u64) -> Vec<AtomicU64> {
    (0..uids).map(|_| AtomicU64::new(1)).collect()
}

/// A random `fetch_add` and a compare with a ceiling: the lower bound of the cost of a number.
pub(crate) fn bare(array: &[AtomicU64], numbers: u64) -> Duration {
    let ceiling = black_box(AtomicU64::new(CEILING));
    let mut random = Random::new();
    let start = Instant::now();
    for _ in 0..numbers {
        let value = array[random.below(array.len() as u64) as usize].fetch_add(1, Ordering::Relaxed) + 1;
        assert!(value <= ceiling.load(Ordering::Acquire));
    }
    start.elapsed()
}

/// Locates a uid and allocates its number, one at a time.
pub(crate) fn sections(layout: &Layout, sections: &[Section], uids: u64, numbers: u64) -> Duration {
    let mut random = Random::new();
    let start = Instant::now();
    for _ in 0..numbers {
        let (id, slot) = layout.locate(Uid(random.below(uids))).expect("in range");
        assert!(matches!(sections[id.0 as usize].take(slot, Count::ONE), Take::Given { .. }));
    }
    start.elapsed()
}

/// Sends batches of uids from `draw` through an allocator. Returns the duration, and the part of it spent waiting.
pub(crate) fn batches(
    world: &World,
    allocator: &Allocator,
    numbers: u64,
    mut draw: impl FnMut() -> u64,
) -> (Duration, Duration) {
    let (mut asks, mut replies) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
    let mut waited = Duration::ZERO;
    let start = Instant::now();
    for _ in 0..numbers / BATCH as u64 {
        asks.clear();
        asks.extend((0..BATCH).map(|_| ask(draw())));
        waited += world.take(allocator, &asks, &mut replies);
    }
    (start.elapsed(), waited)
}

/// Allocates a number for every uid of a range.
pub(crate) fn touch(world: &World, uids: std::ops::Range<u64>) {
    let mut next = uids.clone();
    let _ = batches(world, &world.allocators[0], uids.end - uids.start, || next.next().unwrap_or(uids.start));
}
