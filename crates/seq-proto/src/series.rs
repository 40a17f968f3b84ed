//! Encoding and decoding of series and their shapes. The store keeps the encoded shape of a series without decoding it.

use prost::Message as _;
use seq_core::keyspace::{Hashing, Seed};
use seq_core::layout::{Lanes, SectionRun, TickClock};
use seq_core::series::Series;
use seq_core::state::{CreateSeries, LayoutWriter, StatedSeries};
use seq_core::{RouteVersion, SectionId, Seq, SetId, limits};
use seq_ids::{CounterShape, Shape, TimedShape};

use crate::v1;

/// The shape of a series, with the rules by which its ids are allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SeriesShape {
    /// The shape of the ids.
    pub shape: Shape,
    /// Whether the caller names the lane; otherwise the server chooses one.
    pub named_lanes: bool,
    /// Time by which an id may be ahead of the clock, in milliseconds, at most [`MAX_AHEAD_MS`].
    pub ahead_ms: u32,
}

/// Longest time by which an id may be ahead of the clock, in milliseconds. If two ids were made within this time of
/// each other, the id that was made later may be the smaller one.
pub const MAX_AHEAD_MS: u32 = 10_000;

/// Error of a message that does not describe a valid series or shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SeriesError {
    /// The message has no shape, or its shape is of a kind that this release does not know.
    #[error("the series has no shape that this release knows")]
    NoShape,
    /// A field of the shape is out of range.
    #[error(transparent)]
    BadShape(#[from] seq_ids::BadShape),
    /// Ids would be too far ahead of the clock.
    #[error("ids up to {ahead_ms} ms ahead of the clock: at most {MAX_AHEAD_MS} ms")]
    Ahead {
        /// The time in the message.
        ahead_ms: u32,
    },
    /// A number of bits is too large for a byte.
    #[error("{bits} bits are more than an id has")]
    Bits {
        /// The number in the message.
        bits: u32,
    },
    /// The seed of a keyspace does not have the stated digest.
    #[error("the seed of keyspace {name:?} does not have the digest of the message")]
    Seed {
        /// Name of the keyspace.
        name: String,
    },
    /// The series has no lanes.
    #[error("series {name:?} has no lanes")]
    NoLanes {
        /// Name of the series.
        name: String,
    },
}

impl SeriesShape {
    /// Returns the shape that the record of a series contains.
    ///
    /// # Errors
    /// [`SeriesError`] if another release wrote the shape and this release cannot read it.
    pub fn of(series: &Series) -> Result<SeriesShape, SeriesError> {
        let shape = v1::Shape::decode(series.shape.as_slice()).map_err(|_| SeriesError::NoShape)?;
        SeriesShape::try_from(&shape)
    }

    /// Encodes the shape, as the record of a series contains it. The result has at most [`limits::MAX_SHAPE_BYTES`]
    /// bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let bytes = v1::Shape::from(self).encode_to_vec();
        debug_assert!(bytes.len() <= limits::MAX_SHAPE_BYTES, "{bytes:?}");
        bytes
    }
}

impl TryFrom<&v1::Shape> for SeriesShape {
    type Error = SeriesError;

    fn try_from(shape: &v1::Shape) -> Result<SeriesShape, SeriesError> {
        let byte = |bits: u32| u8::try_from(bits).map_err(|_| SeriesError::Bits { bits });
        match shape.kind.as_ref().ok_or(SeriesError::NoShape)? {
            v1::shape::Kind::Counter(counter) => {
                let v1::CounterShape { offset, increment, max_id } = *counter;
                let shape = Shape::Counter(CounterShape { offset, increment, max_id }).checked()?;
                Ok(SeriesShape { shape, named_lanes: false, ahead_ms: 0 })
            }
            v1::shape::Kind::Timed(timed) => {
                let v1::TimedShape { epoch_ms, unit_ms, spread, named_lanes, ahead_ms, .. } = *timed;
                let (time_bits, lane_bits, seq_bits) =
                    (byte(timed.time_bits)?, byte(timed.lane_bits)?, byte(timed.seq_bits)?);
                let shape = TimedShape { epoch_ms, unit_ms, time_bits, lane_bits, seq_bits, spread };
                if ahead_ms > MAX_AHEAD_MS {
                    return Err(SeriesError::Ahead { ahead_ms });
                }
                Ok(SeriesShape { shape: Shape::Timed(shape).checked()?, named_lanes, ahead_ms })
            }
        }
    }
}

impl From<&SeriesShape> for v1::Shape {
    fn from(shape: &SeriesShape) -> v1::Shape {
        let SeriesShape { shape, named_lanes, ahead_ms } = *shape;
        let kind = match shape {
            Shape::Counter(CounterShape { offset, increment, max_id }) => {
                v1::shape::Kind::Counter(v1::CounterShape { offset, increment, max_id })
            }
            Shape::Timed(TimedShape { epoch_ms, unit_ms, time_bits, lane_bits, seq_bits, spread }) => {
                v1::shape::Kind::Timed(v1::TimedShape {
                    epoch_ms,
                    unit_ms,
                    time_bits: time_bits.into(),
                    lane_bits: lane_bits.into(),
                    seq_bits: seq_bits.into(),
                    spread,
                    named_lanes,
                    ahead_ms,
                })
            }
        };
        v1::Shape { kind: Some(kind) }
    }
}

impl From<&Series> for v1::Series {
    fn from(series: &Series) -> v1::Series {
        let v1::StoredSeries { name, shape, lanes, created_ms, retired, home_set_id: _ } = series.into();
        // If this release cannot decode the shape, because only a later release knows it, the caller gets no shape.
        v1::Series { name, shape: v1::Shape::decode(shape.as_slice()).ok(), lanes, created_ms, retired }
    }
}

impl From<&Series> for v1::StoredSeries {
    fn from(series: &Series) -> v1::StoredSeries {
        let Series { name, shape, lanes, sections, created_ms, home, retired, routed: _ } = series;
        v1::StoredSeries {
            name: name.clone(),
            shape: shape.clone(),
            lanes: Some(self::lanes(lanes, sections.first)),
            created_ms: *created_ms,
            retired: *retired,
            home_set_id: home.0,
        }
    }
}

/// Encodes a series for a node of the cluster, with the seed of a keyspace. Messages to clients must not contain the
/// seed.
#[must_use]
pub fn with_seed(series: &Series) -> v1::StoredSeries {
    let mut stored = v1::StoredSeries::from(series);
    let keys = stored.lanes.as_mut().and_then(|lanes| lanes.keys.as_mut());
    if let (Some(keys), Some(seed)) = (keys, series.lanes.keys.and_then(|keys| keys.seed())) {
        keys.seed = seed.secret().to_vec();
    }
    stored
}

/// Encodes lanes, without the seed of a keyspace.
#[must_use]
pub fn lanes(lanes: &Lanes, first: SectionId) -> v1::Lanes {
    let Lanes { count, per_section, start, margin, clock, keys } = *lanes;
    let clock = clock.map(|TickClock { epoch_ms, unit_ms, seq_bits, lead_ms }| {
        let seq_bits = seq_bits.into();
        v1::TickClock { epoch_ms, unit_ms, seq_bits, lead_ms }
    });
    let keys = keys.map(|keys| v1::Hashing { digest: keys.digest(), seed: Vec::new(), of_uids: keys.has_uids() });
    v1::Lanes { count, per_section, start: start.0, margin, clock, first_section: first.0, keys }
}

/// Decodes a series as a set states it to another set.
///
/// # Errors
/// [`SeriesError::NoLanes`]; [`SeriesError::Bits`] if the number of a clock's bits does not fit into a byte; or
/// [`SeriesError::Seed`]. The other numbers are checked by the layout.
pub fn stated(series: &v1::StoredSeries) -> Result<StatedSeries, SeriesError> {
    let v1::StoredSeries { name, shape, lanes, created_ms, retired, home_set_id } = series;
    let lanes = lanes.as_ref().ok_or_else(|| SeriesError::NoLanes { name: name.clone() })?;
    let clock = lanes.clock.map(|clock| {
        let v1::TickClock { epoch_ms, unit_ms, seq_bits: bits, lead_ms } = clock;
        let seq_bits = u8::try_from(bits).map_err(|_| SeriesError::Bits { bits })?;
        Ok::<_, SeriesError>(TickClock { epoch_ms, unit_ms, seq_bits, lead_ms })
    });
    let keys = lanes.keys.as_ref().map(|keys| hashing(keys).ok_or_else(|| SeriesError::Seed { name: name.clone() }));
    let (clock, keys) = (clock.transpose()?, keys.transpose()?);
    let v1::Lanes { count, per_section, start, margin, .. } = *lanes;
    let lanes = Lanes { count, per_section, start: Seq(start), margin, clock, keys };
    let create = CreateSeries { name: name.clone(), shape: shape.clone(), lanes, created_ms: *created_ms };
    Ok(StatedSeries { create, home: SetId(*home_set_id), retired: *retired })
}

/// Decodes the hashing of a keyspace; `None` if the seed is not the seed of the digest.
fn hashing(keys: &v1::Hashing) -> Option<Hashing> {
    let digest = Hashing::of_digest(keys.digest).with_uids(keys.of_uids);
    if keys.seed.is_empty() {
        return Some(digest);
    }
    let seed = <[u8; 16]>::try_from(keys.seed.as_slice()).ok()?;
    Some(Hashing::new(Seed::new(seed)).with_uids(keys.of_uids)).filter(|hashing| *hashing == digest)
}

/// Decodes a series as a set states it to another set, with the seed of a keyspace.
///
/// # Errors
/// As [`stated`], and [`SeriesError::Seed`] if the message lacks the seed.
pub fn stated_with_seed(series: &v1::StoredSeries) -> Result<StatedSeries, SeriesError> {
    let stated = stated(series)?;
    match stated.create.lanes.keys {
        Some(keys) if keys.seed().is_none() => Err(SeriesError::Seed { name: stated.create.name }),
        _ => Ok(stated),
    }
}

impl From<&LayoutWriter> for v1::LayoutWriter {
    fn from(writer: &LayoutWriter) -> v1::LayoutWriter {
        let LayoutWriter { term, from, set, changes, restores, taken } = *writer;
        v1::LayoutWriter { term, from_set_id: from.0, set_id: set.0, changes, restores, taken }
    }
}

/// Decodes the layout writer that a set states.
#[must_use]
pub fn writer(stated: &v1::LayoutWriter) -> LayoutWriter {
    let v1::LayoutWriter { term, from_set_id, set_id, changes, restores, taken } = *stated;
    LayoutWriter { term, from: SetId(from_set_id), set: SetId(set_id), changes, restores, taken }
}

/// Decodes a series of a route table, which has the version `version`. The sections of the series are checked later,
/// when its lanes are appended to the layout.
///
/// # Errors
/// As [`stated`].
pub(crate) fn routed(series: &v1::StoredSeries, version: RouteVersion) -> Result<Series, SeriesError> {
    let StatedSeries { create: CreateSeries { name, shape, lanes, created_ms }, home, retired } = stated(series)?;
    let first = SectionId(series.lanes.as_ref().map_or(0, |lanes| lanes.first_section));
    let sections = SectionRun { first, sections: if lanes.per_section == 0 { 0 } else { lanes.sections() } };
    Ok(Series { name, shape, lanes, sections, created_ms, home, retired, routed: version })
}
