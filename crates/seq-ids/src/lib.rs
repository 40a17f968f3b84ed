//! Id schemes: pure functions from the value of a counter to a 64-bit id, and back.
//!
//! A *shape* maps a lane and the value of that lane's counter to an id. All schemes have the same uniqueness argument:
//! the counters of different lanes never give out a value twice, because each value is below a ceiling that was
//! persisted first, and [`Shape::id`] maps no two pairs of lane and value to one id. No clock and no lease is in that
//! argument.
//!
//! | shape | value of the counter | id |
//! |---|---|---|
//! | [`Shape::Counter`] | 1, 2, 3, ... | `offset + (value - 1) * increment` |
//! | [`Shape::Timed`] | a *tick*, `time << seq_bits \| seq` | time, lane and sequence number in one integer |
//!
//! The counter of a timed shape moves to the tick of the clock where that is ahead of it. So the ids of a lane rise,
//! also when the clock goes back.
//!
//! The feature `serde` serializes ids as strings.
//!
//! A further scheme is a file in `shapes/` with its preset and its vectors, and a row of [`PRESETS`].

#![no_std]

extern crate alloc;

mod id;
#[cfg(feature = "serde")]
mod serde;
mod shape;
mod shapes;

pub use id::{Id, NotAnId};
pub use shape::{BadShape, CounterShape, Ended, Parts, Shape, TimedShape};
pub use shapes::{AHEAD_MS, LaneField, PRESETS, Preset, preset};
