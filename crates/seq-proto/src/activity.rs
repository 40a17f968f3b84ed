//! Conversion of the recorded activity of sections to the responses that are sent on the wire.

use seq_core::SectionId;
use seq_core::activity::{self, Activity, Columns, Figures, Layer, Levels, Resolution};

use crate::v1::{ActivityColumn, ActivityLayer, ListActivityRequest, ListActivityResponse, SectionFigures};

/// Limit on the sections whose activity over time is in one response. The activity levels of this number of sections
/// take a megabyte.
const MAX_SECTIONS: u32 = 8_192;

/// Busiest sections in a response.
const MAX_TOP: u32 = 10_000;

/// Smallest difference between recorded times and the wall clock, in milliseconds, for which recorded times are
/// corrected when they are sent. Times with a smaller difference are not corrected, so that the periods for which
/// activity was recorded begin at the same times on all nodes.
const CORRECTED_FROM_MS: u64 = 1_000;

/// Conversion between recorded times and the wall clock. Recorded times do not jump when the wall clock is set. All
/// times are milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    now_ms: u64,
    /// Milliseconds that are added to a recorded time to convert it to a time of the wall clock.
    shift: i64,
}

impl Times {
    /// Creates the conversion from two readings that were made at the same time: of the wall clock, and of the clock
    /// for recorded times.
    #[must_use]
    pub fn new(wall_ms: u64, recorded_ms: u64) -> Times {
        let shift = wall_ms.wrapping_sub(recorded_ms).cast_signed();
        Times { now_ms: wall_ms, shift: if shift.unsigned_abs() < CORRECTED_FROM_MS { 0 } else { shift } }
    }

    /// Returns the wall clock.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Converts a recorded time to the wall clock's time.
    #[must_use]
    pub fn shown(&self, recorded_ms: u64) -> u64 {
        recorded_ms.saturating_add_signed(self.shift)
    }

    fn recorded(&self, shown_ms: u64) -> u64 {
        shown_ms.saturating_add_signed(self.shift.saturating_neg())
    }
}

/// The part of a node's activity that a request asks for. It is copied while the activity is locked, and converted to a
/// response after the lock was released.
#[derive(Debug)]
pub enum Extract {
    /// Figures of the sections that are not at rest.
    Top(Vec<(SectionId, Figures)>, Layer),
    /// Activity levels in columns, one column for each period of time, and the resolution, which determines the length
    /// of the periods.
    Columns(Columns, Resolution),
}

impl Extract {
    /// Copies the part of `activity` that `request` asks for. `times` converts the time in the request.
    #[must_use]
    pub fn of(activity: &Activity, request: &ListActivityRequest, times: &Times) -> Extract {
        let layer = match request.layer() {
            ActivityLayer::Writes => Layer::Writes,
            ActivityLayer::Numbers | ActivityLayer::Unspecified => Layer::Numbers,
        };
        if request.top > 0 {
            return Extract::Top(activity.all_figures(layer), layer);
        }
        let resolution = Resolution::reaching(times.now_ms.saturating_sub(request.since_ms));
        Extract::Columns(activity.columns(layer, resolution, times.recorded(request.since_ms)), resolution)
    }

    /// Converts the copied part and adds it to `response`. This takes milliseconds.
    pub fn fill(self, request: &ListActivityRequest, times: &Times, response: &mut ListActivityResponse) {
        let (columns, resolution) = match self {
            Extract::Top(figures, layer) => {
                let top = activity::top(figures, layer, request.top.min(MAX_TOP) as usize);
                response.top = top.into_iter().map(|(section, figures)| section_figures(section, figures)).collect();
                return;
            }
            Extract::Columns(columns, resolution) => (columns, resolution),
        };
        let limit = if request.limit == 0 { MAX_SECTIONS } else { request.limit.min(MAX_SECTIONS) };
        let history = columns.history(SectionId(request.first_section), limit as usize);
        response.column_ms = resolution.period_ms();
        response.sections = history.sections.iter().map(|section| section.0).collect();
        response.next_section = history.next.map_or(0, |section| section.0);
        let column = |column: Levels| ActivityColumn {
            since_ms: times.shown(column.since_ms),
            levels: column.levels.iter().map(|level| level.0).collect(),
        };
        response.columns = history.columns.into_iter().map(column).collect();
    }
}

/// Returns the figures of a section in the form in which they are sent.
#[must_use]
pub fn section_figures(section: SectionId, figures: Figures) -> SectionFigures {
    let Figures { numbers, raised, writes, ms } = figures;
    SectionFigures { section: section.0, numbers, writes: writes.into(), raised, ms }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_corrected_by_a_wall_clock_that_was_set() {
        let steady = Times::new(5_008_200, 5_007_300);
        assert_eq!(
            (steady.now_ms(), steady.shown(5_000_000), steady.recorded(5_000_000)),
            (5_008_200, 5_000_000, 5_000_000)
        );
        let set_back = Times::new(2_007_300, 5_007_300);
        assert_eq!((set_back.shown(5_001_000), set_back.recorded(2_001_000)), (2_001_000, 5_001_000));
        assert_eq!(set_back.recorded(0), 3_000_000, "all columns");
        let set_forward = Times::new(9_007_300, 5_007_300);
        assert_eq!((set_forward.shown(5_001_000), set_forward.recorded(0)), (9_001_000, 0));
    }

    #[test]
    fn a_request_is_for_columns_or_for_the_busiest_sections() {
        let mut activity = Activity::default();
        activity.close_until(0);
        for (section, numbers, writes) in [(3, 500, 0), (9, 100, 2)] {
            activity.enter(SectionId(section), true);
            activity.record(SectionId(section), Figures { numbers, raised: 7, writes, ms: 5_000 });
        }
        activity.close_until(5_000);
        let times = Times::new(6_000, 6_000);
        let respond = |request: ListActivityRequest| {
            let mut response = ListActivityResponse::default();
            Extract::of(&activity, &request, &times).fill(&request, &times, &mut response);
            response
        };
        let top = |layer: ActivityLayer, top| -> Vec<(u32, u64, u64)> {
            let response = respond(ListActivityRequest { layer: layer.into(), top, ..Default::default() });
            response.top.iter().map(|figures| (figures.section, figures.numbers, figures.writes)).collect()
        };
        assert_eq!(top(ActivityLayer::Unspecified, u32::MAX), [(3, 500, 0), (9, 100, 2)]);
        assert_eq!(top(ActivityLayer::Numbers, 1), [(3, 500, 0)]);
        assert_eq!(top(ActivityLayer::Writes, 2), [(9, 100, 2)]);
        let page = |first_section| respond(ListActivityRequest { first_section, limit: 1, ..Default::default() });
        let (first, second) = (page(0), page(9));
        assert_eq!((first.column_ms, &first.sections[..], first.next_section), (5_000, &[3][..], 9));
        assert_eq!((&second.sections[..], second.next_section), (&[9][..], 0));
        assert_eq!((first.columns[0].since_ms, &first.columns[0].levels[..]), (0, &[26][..]));
        let unknown = respond(ListActivityRequest { layer: 77, since_ms: 1, ..Default::default() });
        assert_eq!(unknown.columns, [], "the column began before");
    }
}
