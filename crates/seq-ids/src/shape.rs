//! Shapes, which map a lane and the value of its counter to an id.

use core::cmp::Ordering;
use core::fmt;

use crate::id::Id;

/// Rule by which a lane and a value of its counter become an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Numbers at a fixed distance from each other.
    Counter(CounterShape),
    /// Time, lane and sequence number.
    Timed(TimedShape),
}

/// Shape of ids at a fixed distance from each other: `offset`, `offset + increment` and so on, as a PostgreSQL sequence
/// makes them. It has a single lane.
///
/// Two series with the same increment and different offsets have no id in common. Flickr's two ticket servers work this
/// way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CounterShape {
    /// The first id, `1 ..= increment`.
    pub offset: u64,
    /// The distance between neighbouring ids, `1 ..= 2^32`.
    pub increment: u64,
    /// The largest id, up to [`Id::MAX`].
    pub max_id: u64,
}

/// Shape of ids that consist of a time, a lane and a sequence number, from the highest bits to the lowest, as Twitter's
/// Snowflake makes them.
///
/// The value of a lane's counter is a tick: `time << seq_bits | seq`. A sequence number that overflows carries into the
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimedShape {
    /// Time 0, in milliseconds since 1970.
    pub epoch_ms: u64,
    /// Length of a unit of time in milliseconds, `1 ..= 86,400,000`.
    pub unit_ms: u32,
    /// Number of bits of the time, at least 1. The time counts units since the epoch.
    pub time_bits: u8,
    /// Number of bits of the lane.
    pub lane_bits: u8,
    /// Number of bits of the sequence number within a unit of time. Time, lane and sequence number have at most 63 bits
    /// in total.
    pub seq_bits: u8,
    /// Whether the sequence number continues from its last value when a new unit of time begins. If false, the sequence
    /// number restarts at 0 in each unit. At a low rate of requests, most ids are then multiples of `2^seq_bits`, so
    /// tables that are partitioned by `id % n` fill unevenly.
    pub spread: bool,
}

/// The parts of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The lane; 0 for a counter.
    pub lane: u32,
    /// The value of the lane's counter.
    pub value: u64,
    /// For a timed shape, the time in milliseconds since 1970 and the sequence number within that unit of time; `None`
    /// for a counter.
    pub timed: Option<(u64, u64)>,
}

/// Error of a counter value that has no id, because it is past the last time of a timed shape or past the largest id of
/// a counter shape. Ids never wrap around.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the ids of this shape have ended: the last one is {last}")]
pub struct Ended {
    /// The last id of the lane.
    pub last: u64,
}

/// A shape that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadShape {
    /// The increment is 0 or too large.
    #[error("the increment {increment} is not 1 to {}", CounterShape::MAX_INCREMENT)]
    Increment {
        /// As given.
        increment: u64,
    },
    /// The offset is not in `1 ..= increment`.
    #[error("the offset {offset} is not 1 to the increment {increment}")]
    Offset {
        /// As given.
        offset: u64,
        /// As given.
        increment: u64,
    },
    /// The largest id is below the first id, or above [`Id::MAX`].
    #[error("the largest id {max_id} is below the first id, or above {}", Id::MAX)]
    MaxId {
        /// As given.
        max_id: u64,
    },
    /// The unit of time is 0 or longer than a day.
    #[error("a unit of {unit_ms} ms is not 1 ms to a day")]
    Unit {
        /// As given.
        unit_ms: u32,
    },
    /// The time has no bit, the lane has more than 20 bits, or time, lane and sequence number have more than 63 bits in
    /// total.
    #[error("{time}/{lane}/{seq} bits: the time has at least 1 bit, a lane at most 20, and all have at most 63 in sum")]
    Bits {
        /// Number of bits of the time.
        time: u8,
        /// Number of bits of the lane.
        lane: u8,
        /// Number of bits of the sequence number.
        seq: u8,
    },
    /// The last time of the shape is after the year 9999, so it cannot be displayed.
    #[error("the times of {time} bits of {unit_ms} ms end after the year 9999: use fewer bits or a smaller unit")]
    EndsLate {
        /// Number of bits of the time.
        time: u8,
        /// Length of a unit of time in milliseconds.
        unit_ms: u32,
    },
}

impl Shape {
    /// Returns the shape, if it can be used.
    ///
    /// # Errors
    /// [`BadShape`] names the first field that cannot be used.
    pub fn checked(self) -> Result<Shape, BadShape> {
        match self {
            Shape::Counter(counter) => counter.check()?,
            Shape::Timed(timed) => timed.check()?,
        }
        Ok(self)
    }

    /// Returns the number of lanes.
    #[must_use]
    pub fn lanes(&self) -> u32 {
        match self {
            Shape::Counter(_) => 1,
            Shape::Timed(timed) => 1 << timed.lane_bits,
        }
    }

    /// Returns the id for a lane and a value of that lane's counter. Different pairs of lane and value have different
    /// ids.
    ///
    /// # Errors
    /// [`Ended`] if the value is above the last value that has an id, or is 0, which no counter gives out.
    ///
    /// # Panics
    /// If the shape has no such lane.
    pub fn id(&self, lane: u32, value: u64) -> Result<Id, Ended> {
        assert!(lane < self.lanes(), "lane {lane} of {}", self.lanes());
        let id = match self {
            Shape::Counter(counter) => counter.id(value),
            Shape::Timed(timed) => timed.id(lane, value),
        };
        id.and_then(Id::new).filter(|_| value > 0).ok_or(Ended { last: self.last(lane) })
    }

    /// Returns the smallest value of the lane's counter whose id is above the id `after`. The value is at least 1. An
    /// `after` of 0, which is not an id, is below every id.
    ///
    /// # Errors
    /// [`Ended`] if no id of the lane is above `after`.
    pub fn floor(&self, lane: u32, after: u64) -> Result<u64, Ended> {
        let number = match self {
            Shape::Counter(counter) => match after.checked_sub(counter.offset) {
                None => 1,
                Some(above) => above / counter.increment + 2,
            },
            Shape::Timed(timed) => timed.floor(lane, after).max(1),
        };
        self.id(lane, number).map(|_| number)
    }

    /// Returns the parts of an id; `None` if the shape has no such id.
    #[must_use]
    pub fn parts(&self, id: Id) -> Option<Parts> {
        match self {
            Shape::Counter(counter) => {
                let value = counter.value(id.get())?;
                Some(Parts { lane: 0, value, timed: None })
            }
            Shape::Timed(timed) => timed.parts(id.get()),
        }
    }

    /// Returns the largest value of a lane's counter that has an id. It is the same for all lanes.
    #[must_use]
    pub fn last_value(&self) -> u64 {
        match self {
            Shape::Counter(counter) => (counter.last() - counter.offset) / counter.increment + 1,
            Shape::Timed(timed) => (1 << (timed.time_bits + timed.seq_bits)) - 1,
        }
    }

    /// Returns the last id of a lane.
    #[must_use]
    pub fn last(&self, lane: u32) -> u64 {
        match self {
            Shape::Counter(counter) => counter.last(),
            Shape::Timed(timed) => timed.join(timed.last_time(), lane, (1 << timed.seq_bits) - 1),
        }
    }
}

impl CounterShape {
    /// The largest increment.
    pub const MAX_INCREMENT: u64 = 1 << 32;

    /// Returns the last id.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.max_id - (self.max_id - self.offset) % self.increment
    }

    fn check(&self) -> Result<(), BadShape> {
        let CounterShape { offset, increment, max_id } = *self;
        if !(1..=CounterShape::MAX_INCREMENT).contains(&increment) {
            return Err(BadShape::Increment { increment });
        }
        if !(1..=increment).contains(&offset) {
            return Err(BadShape::Offset { offset, increment });
        }
        if !(offset..=Id::MAX).contains(&max_id) {
            return Err(BadShape::MaxId { max_id });
        }
        Ok(())
    }

    fn id(&self, value: u64) -> Option<u64> {
        let above = value.checked_sub(1)?.checked_mul(self.increment)?;
        self.offset.checked_add(above).filter(|id| *id <= self.max_id)
    }

    fn value(&self, id: u64) -> Option<u64> {
        let above = id.checked_sub(self.offset).filter(|above| above % self.increment == 0 && id <= self.max_id)?;
        Some(above / self.increment + 1)
    }
}

impl TimedShape {
    /// The largest number of bits of a lane. It allows 2^20 lanes, which is also the largest number of sections in a
    /// cluster.
    pub const MAX_LANE_BITS: u8 = 20;
    /// The longest unit of time in milliseconds, a day.
    pub const MAX_UNIT_MS: u32 = 86_400_000;
    /// The last millisecond of the year 9999, counted from 1970.
    pub const LAST_MS: u64 = 253_402_300_799_999;

    fn check(&self) -> Result<(), BadShape> {
        let TimedShape { unit_ms, time_bits: time, lane_bits: lane, seq_bits: seq, .. } = *self;
        if !(1..=TimedShape::MAX_UNIT_MS).contains(&unit_ms) {
            return Err(BadShape::Unit { unit_ms });
        }
        let sum = u32::from(time) + u32::from(lane) + u32::from(seq);
        if time == 0 || lane > TimedShape::MAX_LANE_BITS || sum > 63 {
            return Err(BadShape::Bits { time, lane, seq });
        }
        if self.end_ms().is_none_or(|end| end > TimedShape::LAST_MS) {
            return Err(BadShape::EndsLate { time, unit_ms });
        }
        Ok(())
    }

    /// Returns the last time that has ids, in milliseconds since 1970; `None` if that time is above 2^64 - 1.
    #[must_use]
    pub fn end_ms(&self) -> Option<u64> {
        let units = self.last_time().checked_add(1)?;
        units.checked_mul(self.unit_ms.into())?.checked_add(self.epoch_ms)?.checked_sub(1)
    }

    /// Returns the first tick of the unit of time that contains `unix_ms`, a time in milliseconds since 1970; `None` if
    /// `unix_ms` is before the epoch or after the last unit.
    #[must_use]
    pub fn tick(&self, unix_ms: u64) -> Option<u64> {
        let units = unix_ms.checked_sub(self.epoch_ms)? / u64::from(self.unit_ms);
        (units <= self.last_time()).then_some(units << self.seq_bits)
    }

    /// Returns the number of ids that a lane has for each second of time.
    #[must_use]
    pub fn ids_per_second(&self) -> f64 {
        (1_u64 << self.seq_bits) as f64 * 1_000.0 / f64::from(self.unit_ms)
    }

    /// Returns the smallest tick whose id in the lane is above the id `after`.
    fn floor(&self, lane: u32, after: u64) -> u64 {
        let (above, seq) = self.split(after);
        let (time, of) = (above >> self.lane_bits, above & ((1 << self.lane_bits) - 1));
        match u64::from(lane).cmp(&of) {
            Ordering::Greater => time << self.seq_bits,
            Ordering::Equal => (time << self.seq_bits | seq) + 1,
            Ordering::Less => (time + 1) << self.seq_bits,
        }
    }

    fn last_time(&self) -> u64 {
        (1 << self.time_bits) - 1
    }

    fn join(&self, time: u64, lane: u32, seq: u64) -> u64 {
        (time << self.lane_bits | u64::from(lane)) << self.seq_bits | seq
    }

    fn split(&self, tick: u64) -> (u64, u64) {
        (tick >> self.seq_bits, tick & ((1 << self.seq_bits) - 1))
    }

    fn id(&self, lane: u32, tick: u64) -> Option<u64> {
        let (time, seq) = self.split(tick);
        (time <= self.last_time()).then(|| self.join(time, lane, seq))
    }

    fn parts(&self, id: u64) -> Option<Parts> {
        let (above, seq) = self.split(id);
        let (time, lane) = (above >> self.lane_bits, above & ((1 << self.lane_bits) - 1));
        if time > self.last_time() {
            return None;
        }
        let unix_ms = self.epoch_ms + time * u64::from(self.unit_ms);
        Some(Parts { lane: lane as u32, value: time << self.seq_bits | seq, timed: Some((unix_ms, seq)) })
    }
}

impl fmt::Display for Shape {
    /// Writes the numbers of bits of a timed shape, such as `41/10/12 bits of time, lane and sequence`, or the first
    /// ids of a counter shape, such as `3, 5, 7, ...`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Counter(CounterShape { offset, increment, .. }) => {
                write!(f, "{offset}, {}, {}, ...", offset + increment, offset + 2 * increment)
            }
            Shape::Timed(TimedShape { time_bits, lane_bits, seq_bits, .. }) => {
                write!(f, "{time_bits}/{lane_bits}/{seq_bits} bits of time, lane and sequence")
            }
        }
    }
}

#[cfg(test)]
mod tests;
