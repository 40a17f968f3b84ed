//! Series as endpoints use them: the shape of the ids, and the lanes with their addresses.

use seq_core::layout::{Lanes, SectionRun, address};
use seq_core::{SectionId, SlotIndex, Uid};
use seq_ids::Shape;

/// A series whose ids a node gives out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdSeries {
    /// Name of the series.
    pub name: String,
    /// The shape of its ids.
    pub shape: Shape,
    /// Whether the caller names the lane; otherwise the node chooses one.
    pub named_lanes: bool,
    /// Time by which an id may be ahead of the clock, in milliseconds.
    pub ahead_ms: u32,
    /// The lanes.
    pub lanes: Lanes,
    /// The sections of the lanes.
    pub sections: SectionRun,
    /// Milliseconds since 1970 when it was created.
    pub created_ms: u64,
    /// Whether it gives out no more ids.
    pub retired: bool,
}

impl IdSeries {
    /// Returns the address of a lane.
    ///
    /// # Panics
    /// When the series has no such lane.
    #[must_use]
    pub fn address(&self, lane: u32) -> Uid {
        let Lanes { count, per_section, .. } = self.lanes;
        assert!(lane < count, "lane {lane} of {count}");
        address(SectionId(self.sections.first.0 + lane / per_section), SlotIndex(lane % per_section))
    }

    /// Returns the first lane of a section, and the number of its lanes; `None` for a section of other counters.
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
        let lanes = Lanes { count: 5, per_section: 2, start: Seq(0), margin: 0, clock: None };
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
        assert_eq!(addresses, expected.map(|(section, slot)| address(SectionId(section), SlotIndex(slot))));
    }
}
