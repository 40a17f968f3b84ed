//! A rate in one byte.

/// A rate per minute, rounded to a logarithmic scale that has two levels for each doubling of the rate. For rates up to
/// 24 million per second, the rounded rate differs from the exact rate by at most 19 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level(pub u8);

impl Level {
    /// No numbers.
    pub const NONE: Level = Level(0);
    /// Highest level of a rate.
    pub const HIGHEST: Level = Level(62);
    /// The rate is not known, for example because the section was owned by a process other than this process.
    pub const NO_RECORD: Level = Level(255);

    /// Returns the level for a rate of `count` per `ms` milliseconds; `ms` is 1 or above. Level 1 stands for all rates
    /// above 0 and up to 1.19 per minute.
    #[must_use]
    pub fn of(count: u64, ms: u64) -> Level {
        if count == 0 {
            return Level::NONE;
        }
        let a_minute = u128::from(count) * 60_000 / u128::from(ms.max(1));
        // A level is 1 + k if the rate is nearest to 2^(k/2), that is, if 2^(2k-1) <= rate^4 < 2^(2k+1).
        let fourth = a_minute.clamp(1, (1 << 31) - 1).pow(4);
        let level = 1 + fourth.ilog2().div_ceil(2);
        Level(level as u8).at_most(Level::HIGHEST)
    }

    fn at_most(self, most: Level) -> Level {
        Level(self.0.min(most.0))
    }

    /// Returns the rate per minute in the middle of the range for which the level stands; `None` for
    /// [`Level::NO_RECORD`].
    #[must_use]
    pub fn a_minute(self) -> Option<u64> {
        match self.0 {
            0 => Some(0),
            1..=62 => Some((4_u64 << (self.0 - 1)).isqrt().div_ceil(2)),
            _ => None,
        }
    }

    /// Returns the higher of two levels. Every other level is higher than [`Level::NO_RECORD`].
    #[must_use]
    pub fn max(self, other: Level) -> Level {
        match (self, other) {
            (Level::NO_RECORD, level) | (level, Level::NO_RECORD) => level,
            (Level(level), Level(other)) => Level(level.max(other)),
        }
    }
}
