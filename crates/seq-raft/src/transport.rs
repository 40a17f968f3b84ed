//! Messages between members: the sending and the receiving side, proof of the sender's identity, and validation of each
//! message.

pub(crate) mod acknowledged;
mod append_stream;
pub(crate) mod client;
pub(crate) mod formats;
pub(crate) mod identity;
pub(crate) mod link;
pub(crate) mod server;
pub(crate) mod validation;

use std::time::Duration;

/// Converts a duration to whole milliseconds, for a message.
pub(crate) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Converts a duration to whole microseconds, for a message. Returns at least 1, because 0 stands for an unknown round
/// trip.
pub(crate) fn us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).max(1)
}
