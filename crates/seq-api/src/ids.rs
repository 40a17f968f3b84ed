//! Series of the cluster in the form that endpoints use: with the decoded shape of their ids, and the addresses of
//! their lanes.

use std::sync::Arc;

use seq_core::layout::{self, Lanes, SectionRun, address};
use seq_core::series::Series;
use seq_core::{Count, Refusal, SectionId, Seq, SlotIndex, Uid};
use seq_ids::Shape;

/// A series whose ids a node allocates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdSeries {
    /// Name of the series.
    pub name: String,
    /// Shape of the series' ids.
    pub shape: Shape,
    /// Whether the caller names the lane; otherwise the node chooses one.
    pub named_lanes: bool,
    /// Largest difference between the time in an id of this series and the clock, if the id is ahead, in milliseconds.
    pub ahead_ms: u32,
    /// The lanes.
    pub lanes: Lanes,
    /// The sections of the lanes.
    pub sections: SectionRun,
    /// Time at which the series was created, in milliseconds since 1970.
    pub created_ms: u64,
    /// Whether the series allocates no more ids.
    pub retired: bool,
}

/// A request for ids of a series.
#[derive(Clone, Debug)]
pub struct IdRequest {
    /// The series.
    pub series: Arc<IdSeries>,
    /// Number of ids.
    pub count: Count,
    /// The lane that the caller names.
    pub lane: Option<u32>,
    /// Number above which all ids of the request must be; 0 if there is no such bound.
    pub after: u64,
}

impl IdRequest {
    /// Returns the number above which all numbers of a lane must be so that their ids are above `after`.
    ///
    /// # Errors
    /// [`Refusal::Exhausted`] if no id of the lane is above `after`.
    pub fn above(&self, lane: u32) -> Result<Seq, Refusal> {
        let exhausted = Refusal::Exhausted { uid: self.series.address(lane), count: self.count.get() };
        let floor = self.series.shape.floor(lane, self.after).map_err(|_| exhausted)?;
        Ok(Seq(floor.saturating_sub(1)))
    }
}

impl IdSeries {
    /// Creates a series from its record and from the rules that were decoded from the shape in the record.
    #[must_use]
    pub fn new(record: &Series, shape: Shape, named_lanes: bool, ahead_ms: u32) -> IdSeries {
        let Series { name, lanes, sections, created_ms, retired, .. } = record.clone();
        IdSeries { name, shape, named_lanes, ahead_ms, lanes, sections, created_ms, retired }
    }

    /// Returns the address of a lane.
    ///
    /// # Panics
    /// If the series has no such lane.
    #[must_use]
    pub fn address(&self, lane: u32) -> Uid {
        let Lanes { count, per_section, .. } = self.lanes;
        assert!(lane < count, "lane {lane} of {count}");
        address(SectionId(self.sections.first.0 + lane / per_section), SlotIndex(lane % per_section))
    }

    /// Returns the lane with this address; `None` if the address belongs to another series or is a uid.
    #[must_use]
    pub fn lane_at(&self, address: Uid) -> Option<u32> {
        let (section, slot) = layout::locate(address)?;
        let (first, lanes) = self.lanes_of(section)?;
        (slot.0 < lanes).then_some(first + slot.0)
    }

    /// Returns the first lane of a section and the number of lanes in the section; `None` if the section does not
    /// belong to this series.
    #[must_use]
    pub fn lanes_of(&self, section: SectionId) -> Option<(u32, u32)> {
        let index = section.0.checked_sub(self.sections.first.0).filter(|index| *index < self.sections.sections)?;
        let first = index * self.lanes.per_section;
        Some((first, self.lanes.per_section.min(self.lanes.count - first)))
    }
}

#[cfg(test)]
mod tests {
    use seq_core::Seq;
    use seq_ids::preset;

    use super::*;

    #[test]
    fn lanes_have_addresses_in_the_sections_of_their_series() {
        let lanes = Lanes { count: 5, per_section: 2, start: Seq(0), margin: 0, clock: None, keys: None };
        let series = IdSeries {
            name: "a".into(),
            shape: preset("snowflake").unwrap().shape,
            named_lanes: false,
            ahead_ms: 0,
            lanes,
            sections: SectionRun { first: SectionId(10), sections: 3 },
            created_ms: 0,
            retired: false,
        };
        let of = |section| series.lanes_of(SectionId(section));
        assert_eq!([of(9), of(10), of(11), of(12), of(13)], [None, Some((0, 2)), Some((2, 2)), Some((4, 1)), None]);
        let addresses: Vec<Uid> = (0..5).map(|lane| series.address(lane)).collect();
        let expected = [(10, 0), (10, 1), (11, 0), (11, 1), (12, 0)];
        assert!(addresses.iter().map(|address| series.lane_at(*address)).eq((0..5).map(Some)));
        let others = [(9, 0), (12, 1), (13, 0)].map(|(section, slot)| address(SectionId(section), SlotIndex(slot)));
        assert_eq!(others.map(|address| series.lane_at(address)), [None; 3]);
        assert_eq!(series.lane_at(Uid(7)), None);
        assert_eq!(addresses, expected.map(|(section, slot)| address(SectionId(section), SlotIndex(slot))));
    }
}
