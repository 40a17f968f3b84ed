//! Time for which sections have been on their way to another set, as this member observes it. A section is on its way
//! from its departure until its arrival is known. Only operators see these times.
//!
//! In a migration that makes progress, each section is on its way for some milliseconds. No set serves a section while
//! it is on its way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use seq_core::SectionId;
use seq_core::state::{SectionRecord, State};

/// Time after which a section that is on its way counts as delayed. The time is many times as long as the longest pause
/// of a section in a migration that makes progress.
const DELAYED_AFTER: Duration = Duration::from_secs(1);

/// Sections that are on their way, with the time at which this member first observed it. Clones share the map.
#[derive(Clone, Debug, Default)]
pub(crate) struct OnTheirWay(Arc<Mutex<BTreeMap<SectionId, Instant>>>);

impl OnTheirWay {
    /// Updates the map from `state`. Returns the number of delayed sections, and the longest time in milliseconds for
    /// which a section has been on its way.
    pub(crate) fn delayed(&self, state: &State) -> (u32, u64) {
        self.delayed_at(all(state), Instant::now())
    }

    fn delayed_at(&self, sections: impl Iterator<Item = SectionId>, now: Instant) -> (u32, u64) {
        let mut known = self.0.lock();
        let since: BTreeMap<SectionId, Instant> =
            sections.map(|section| (section, known.get(&section).copied().unwrap_or(now))).collect();
        *known = since;
        let times = known.values().map(|since| now.duration_since(*since)).filter(|time| *time >= DELAYED_AFTER);
        let (count, longest) = times.fold((0, Duration::ZERO), |(count, longest), time| (count + 1, longest.max(time)));
        (count, u64::try_from(longest.as_millis()).unwrap_or(u64::MAX))
    }
}

/// Returns the sections that have departed from this set and are not known to have arrived in another set.
pub(super) fn all(state: &State) -> impl Iterator<Item = SectionId> {
    let departed = |record: &SectionRecord| matches!(record, SectionRecord::Departed(one) if !one.arrived);
    state.sections.known().filter(move |(_, record)| departed(record)).map(|(section, _)| section)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_delayed_when_it_stays_on_its_way() {
        let (watched, start) = (OnTheirWay::default(), Instant::now());
        let look = |sections: &[u32], ms| {
            watched.delayed_at(sections.iter().copied().map(SectionId), start + Duration::from_millis(ms))
        };
        assert_eq!(look(&[1, 2], 0), (0, 0));
        assert_eq!(look(&[2, 3], 999), (0, 0));
        assert_eq!(look(&[2, 3], 1_000), (1, 1_000));
        assert_eq!(look(&[2, 3], 12_000), (2, 12_000));
        assert_eq!(look(&[], 12_001), (0, 0), "all have arrived");
        assert_eq!(look(&[2], 13_000), (0, 0), "it departed again");
    }
}
