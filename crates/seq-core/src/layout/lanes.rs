//! Lanes, which are the counters of series. Lanes have sections of their own, apart from the sections of uids.
//!
//! The buckets of a keyspace are lanes, too: a section of such lanes has one lane, in whose place are the counters of
//! the bucket's keys.
//!
//! A lane has an address, which is a number that takes the place of a uid when the section and the slot of the lane are
//! looked up, in calls between nodes, and in the copies of a handover. Every address is greater than all uids of the
//! cluster. An address contains the section and the slot of its lane, so no search is needed to locate the lane.

use crate::id::{LayoutId, SectionId, Seq, SlotIndex, Step, Uid};
use crate::keyspace::{BUCKETS, Hashing};
use crate::layout::{AppendError, fnv1a};
use crate::limits;

/// The lowest address of a lane. A layout in which any uid is this number or above cannot have lanes.
pub const ADDRESSES: u64 = 1 << 63;

/// Number of bits of an address that contain the slot. [`limits::MAX_SECTION_SIZE`] slots fit.
const SLOT_BITS: u32 = 24;

const _: () = assert!(limits::MAX_SECTION_SIZE == 1 << SLOT_BITS);

/// Returns the address of a lane, `1 << 63 | section << 24 | slot`.
///
/// # Panics
/// When the slot is not below [`limits::MAX_SECTION_SIZE`].
#[must_use]
pub fn address(section: SectionId, slot: SlotIndex) -> Uid {
    assert!(slot.0 < limits::MAX_SECTION_SIZE, "slot {} of section {section}", slot.0);
    Uid(ADDRESSES | u64::from(section.0) << SLOT_BITS | u64::from(slot.0))
}

/// Returns the section and the slot of an address; `None` if the number is below all addresses, or if its section would
/// be above the last possible section.
#[must_use]
pub fn locate(address: Uid) -> Option<(SectionId, SlotIndex)> {
    let offset = address.0.checked_sub(ADDRESSES)?;
    let section = u32::try_from(offset >> SLOT_BITS).ok()?;
    Some((SectionId(section), SlotIndex(offset as u32 & (limits::MAX_SECTION_SIZE - 1))))
}

/// The lanes of a series, or the buckets of a keyspace, as they are appended to a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lanes {
    /// Number of lanes, 1 or above.
    pub count: u32,
    /// Number of lanes in a section, `1 ..= MAX_SECTION_SIZE`; the last section may have fewer. The lanes of one
    /// section have the same owner and the same ceiling.
    pub per_section: u32,
    /// The ceiling at which the sections begin. All numbers of the lanes are above it.
    pub start: Seq,
    /// Distance by which each restore from a backup raises the ceilings of the sections.
    pub margin: u64,
    /// The clock that the numbers follow; `None` for numbers without gaps.
    pub clock: Option<TickClock>,
    /// Hashing of the keys, if these are the buckets of a keyspace; otherwise `None`. Buckets have no clock.
    pub keys: Option<Hashing>,
}

/// A clock that counts ticks. A tick is `time << seq_bits | seq`, where `time` is the number of units since `epoch_ms`,
/// and `seq` is a sequence number within the unit. The numbers of a lane with a clock are ticks. The lane's counter is
/// the last tick that was allocated from the lane, and the ceiling of the lane's section is the last tick that may be
/// allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickClock {
    /// Time 0, in milliseconds since 1970.
    pub epoch_ms: u64,
    /// Milliseconds of a unit of time, 1 or above.
    pub unit_ms: u32,
    /// Bits of the sequence number in a unit, `0 ..= 62`.
    pub seq_bits: u8,
    /// Time by which a raise moves the ceiling ahead of the clock, in milliseconds; 1 or above.
    pub lead_ms: u32,
}

impl TickClock {
    /// Returns the first tick of the unit that contains the time `unix_ms`, in milliseconds since 1970. The result is 0
    /// before `epoch_ms`, and at most [`Seq::MAX`].
    #[must_use]
    pub fn tick(&self, unix_ms: u64) -> Seq {
        self.ticks(unix_ms.saturating_sub(self.epoch_ms) / u64::from(self.unit_ms))
    }

    /// Returns the last tick of the unit that contains the time `unix_ms`, in milliseconds since 1970. The result is at
    /// most [`Seq::MAX`].
    #[must_use]
    pub fn last_tick(&self, unix_ms: u64) -> Seq {
        Seq(self.tick(unix_ms).0 | self.seq_mask()).min(Seq::MAX)
    }

    /// Returns the mask of the bits of a tick that contain the sequence number.
    #[must_use]
    pub fn seq_mask(&self) -> u64 {
        (1 << self.seq_bits) - 1
    }

    /// Returns the step by which a raise moves the ceiling. It is the number of ticks in the time `lead_ms`, 1 or
    /// above.
    #[must_use]
    pub fn lead(&self) -> Step {
        Step(self.span(self.lead_ms).0)
    }

    /// Returns the highest ceiling that the store's leader proposes when its own clock shows `unix_ms`. The ceiling is
    /// the sum of the tick at this time, the lead, and the ticks in [`limits::MAX_CLOCK_AHEAD_MS`]. The lead and these
    /// ticks are rounded up to whole units, so that even a long unit is completely below the ceiling.
    #[must_use]
    pub fn clamp(&self, unix_ms: u64) -> Seq {
        let margin = self.span(limits::MAX_CLOCK_AHEAD_MS).0;
        Seq(self.tick(unix_ms).0.saturating_add(self.lead().0).saturating_add(margin)).min(Seq::MAX)
    }

    /// Returns the time for which [`TickClock::clamp`] returns this ceiling, in milliseconds since 1970, rounded down
    /// to a whole unit.
    #[must_use]
    pub fn clamped_at(&self, ceiling: Seq) -> u64 {
        let margin = self.span(limits::MAX_CLOCK_AHEAD_MS).0;
        let tick = ceiling.0.saturating_sub(self.lead().0).saturating_sub(margin);
        self.epoch_ms.saturating_add((tick >> self.seq_bits).saturating_mul(self.unit_ms.into()))
    }

    /// Returns the number of ticks in `ms` milliseconds, rounded up to whole units of time.
    fn span(&self, ms: u32) -> Seq {
        self.ticks(ms.div_ceil(self.unit_ms).into())
    }

    /// Returns the number of ticks in `units` units of time, at most [`Seq::MAX`].
    fn ticks(&self, units: u64) -> Seq {
        let ticks = u128::from(units) << self.seq_bits;
        Seq(ticks.min(Seq::MAX.0.into()) as u64)
    }
}

const _: () = assert!(BUCKETS as u32 <= limits::MAX_SERIES_SECTIONS);

impl Lanes {
    /// Returns the buckets of a keyspace, whose keys begin at 1.
    #[must_use]
    pub fn of_keyspace(keys: Hashing) -> Lanes {
        Lanes::of_buckets(keys, BUCKETS)
    }

    /// Returns the buckets of a keyspace that has only so many of them, as the keyspaces of simulated worlds do. Stores
    /// create keyspaces of [`BUCKETS`] buckets, and a node serves no keyspace of fewer.
    #[must_use]
    pub fn of_buckets(keys: Hashing, buckets: u16) -> Lanes {
        let (count, margin) = (buckets.into(), limits::RESTORE_MARGIN);
        Lanes { count, per_section: 1, start: Seq::ZERO, margin, clock: None, keys: Some(keys) }
    }

    /// Returns the distance by which a restore from a backup raises the ceiling of a counter that has `numbers` numbers
    /// in total. It is a 1,024th of them, so that a small counter keeps most of its numbers after a restore, and at
    /// most [`limits::RESTORE_MARGIN`].
    #[must_use]
    pub fn margin_of(numbers: u64) -> u64 {
        (numbers >> 10).min(limits::RESTORE_MARGIN)
    }

    /// Returns false if these are the buckets of a keyspace of which this process does not know the seed.
    pub(super) fn knows_seed(&self) -> bool {
        self.keys.is_none_or(|keys| keys.seed().is_some())
    }

    /// Returns the number of sections, 1 or above.
    #[must_use]
    pub fn sections(&self) -> u32 {
        self.count.div_ceil(self.per_section)
    }

    /// Returns the number of lanes in the section with this index; 0 past the last section.
    pub(super) fn slots(&self, index: u32) -> u32 {
        let before = u64::from(index) * u64::from(self.per_section);
        u64::from(self.count).saturating_sub(before).min(u64::from(self.per_section)) as u32
    }

    pub(super) fn check(&self) -> Result<(), AppendError> {
        let Lanes { count, per_section, start, clock, keys, .. } = *self;
        let fits = count > 0 && (1..=limits::MAX_SECTION_SIZE).contains(&per_section);
        if !fits || self.sections() > limits::MAX_SERIES_SECTIONS {
            return Err(AppendError::BadLanes { count, per_section });
        }
        if start > Seq::MAX {
            return Err(AppendError::BadStart { start });
        }
        let buckets = u16::try_from(count).unwrap_or(u16::MAX).min(BUCKETS);
        if keys.is_some_and(|keys| *self != Lanes::of_buckets(keys, buckets)) {
            return Err(AppendError::BadKeyspace);
        }
        match clock.filter(|clock| clock.unit_ms == 0 || clock.lead_ms == 0 || clock.seq_bits > 62) {
            Some(clock) => Err(AppendError::BadClock { clock }),
            None => Ok(()),
        }
    }

    /// Returns the hash of these lanes and of all spaces before them; `layout` is the hash of the spaces before them.
    /// The hashed bytes must not change, because different versions of the program compare their hashes.
    pub(super) fn hash(&self, layout: LayoutId) -> LayoutId {
        /// Kinds of spaces: 2 for lanes without a clock, 3 for lanes with a clock, and 4 and 5 for buckets with the
        /// functions of [`keyspace`](crate::keyspace): 4 if the keys are any bytes, 5 if they are the sparse uids. Kind
        /// 1 is a space of uids.
        const PLAIN: u8 = 2;
        const TICKS: u8 = 3;
        const KEYS: u8 = 4;
        const KEYS_OF_UIDS: u8 = 5;
        let Lanes { count, per_section, start, margin, clock, keys } = *self;
        let kind = match (clock, keys) {
            (_, Some(keys)) if keys.has_uids() => KEYS_OF_UIDS,
            (_, Some(_)) => KEYS,
            (Some(_), None) => TICKS,
            (None, None) => PLAIN,
        };
        let mut hash = fnv1a(layout.0, &[kind]);
        for number in [u64::from(count), u64::from(per_section), start.0, margin] {
            hash = fnv1a(hash, &number.to_le_bytes());
        }
        if let Some(TickClock { epoch_ms, unit_ms, seq_bits, lead_ms }) = clock {
            for number in [epoch_ms, u64::from(unit_ms), u64::from(seq_bits), u64::from(lead_ms)] {
                hash = fnv1a(hash, &number.to_le_bytes());
            }
        }
        if let Some(keys) = keys {
            hash = fnv1a(hash, &keys.digest().to_le_bytes());
        }
        LayoutId(hash)
    }
}
