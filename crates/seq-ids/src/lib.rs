//! Shapes, which are rules that map values of counters to unique 64-bit ids, and back.
//!
//! A *shape* consists of two pure functions. [`Shape::id`] maps a lane and a value of that lane's counter to an id.
//! [`Shape::parts`] maps an id to its lane and value. Two properties make the ids of every shape unique. The counter of
//! a lane never gives out a value twice, because the service makes a ceiling durable before it gives out values up to
//! that ceiling. And [`Shape::id`] never maps two different pairs of lane and value to the same id. Neither property
//! depends on a clock or a lease.
//!
//! | shape | value of the counter | id |
//! |---|---|---|
//! | [`Shape::Counter`] | 1, 2, 3, ... | `offset + (value - 1) * increment` |
//! | [`Shape::Timed`] | a *tick*, `time << seq_bits \| seq` | time, lane and sequence number in one integer |
//!
//! Before a counter of a timed shape gives out values, the service raises it to the tick of the current time, unless
//! the counter is already above that tick. The counter never falls, so the ids of a lane rise even if the clock is set
//! back.
//!
//! The crate feature `serde` serializes ids as strings.
//!
//! To add a named shape, add a file with its [`Preset`] to `shapes/`, a row to [`PRESETS`], and test vectors to
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
