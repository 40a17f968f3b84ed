//! Id schemes. A scheme consists of two pure functions, from the value of a counter to a 64-bit id, and back.
//!
//! A *shape* is such a scheme. It maps a lane and the value of that lane's counter to an id. Ids are unique in every
//! shape for the same two reasons: the counter of a lane never gives out a value twice, because each value is at most a
//! ceiling that was made durable before, and [`Shape::id`] never maps two different pairs of lane and value to the same
//! id. Neither reason depends on a clock or a lease.
//!
//! | shape | value of the counter | id |
//! |---|---|---|
//! | [`Shape::Counter`] | 1, 2, 3, ... | `offset + (value - 1) * increment` |
//! | [`Shape::Timed`] | a *tick*, `time << seq_bits \| seq` | time, lane and sequence number in one integer |
//!
//! If the current time is ahead of the counter of a timed shape, the counter is first raised to the tick of that time.
//! So the ids of a lane rise even if the clock is set back.
//!
//! The feature `serde` serializes ids as strings.
//!
//! To add a scheme, add a file with its preset to `shapes/`, a row to [`PRESETS`], and test vectors to
//! `shapes/tests.rs`.

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
