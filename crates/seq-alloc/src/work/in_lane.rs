//! Numbers of lanes, at the time of the clock, and the choice of a lane.
//!
//! **Invariant:** the numbers of a lane are unique and rise whatever the clock reads, because it only moves the first
//! number of a call forwards.

use std::cell::Cell;

use seq_api::ids::IdSeries;
use seq_api::service::{Allocation, Item};
use seq_core::lease::Clocks;
use seq_core::section::Window;
use seq_core::{Refusal, SectionId, Seq, SlotIndex, limits};

use crate::ownership::Served;
use crate::pending_item::PendingItem;
use crate::shared::Shared;

thread_local! {
    /// Number of lanes that this thread has chosen.
    static CHOSEN: Cell<u32> = const { Cell::new(0) };
}

impl Shared {
    /// Takes numbers of a lane from a section that is served here; `None` if the item has to wait, as for
    /// [`Shared::take`].
    pub(crate) fn take_in_lane(
        &self,
        served: Served<'_>,
        item: &PendingItem,
        above: Seq,
        now: Clocks,
    ) -> Option<Result<Allocation, Refusal>> {
        let PendingItem { section, slot, item, .. } = *item;
        if item.epoch > served.epoch() {
            return None;
        }
        match served.owned().clock {
            None if above == Seq::ZERO => self.take(served, &item, slot),
            None => self.take_above(served, &item, (section, slot), above),
            Some(clock) => {
                let window = clock.window(now);
                if above > window.limit {
                    return Some(Err(Refusal::AfterTooFar { section, above }));
                }
                let window = Window { floor: window.floor.max(Seq(above.0 + 1)), ..window };
                match served.take_within(slot, item.count, window) {
                    Ok(taken) => self.taken(served, &item, taken),
                    Err(_) => Some(Err(Refusal::LaneAhead { section })),
                }
            }
        }
    }

    /// Takes numbers of a lane without a clock, all of them above a number.
    fn take_above(
        &self,
        served: Served<'_>,
        item: &Item,
        (section, slot): (SectionId, SlotIndex),
        above: Seq,
    ) -> Option<Result<Allocation, Refusal>> {
        let last = served.current(slot)?.value;
        if above.0 > last.0.saturating_add(limits::MAX_AFTER) {
            return Some(Err(Refusal::AfterTooFar { section, above }));
        }
        let taken = served.take_within(slot, item.count, Window { floor: Seq(above.0 + 1), ..Window::ALL });
        self.taken(served, item, taken.ok()?)
    }

    /// Returns a lane of a series: of the first section that is served here and does not rest, else of a section with
    /// an owner. Each call of a thread returns the next lane of the section. The other sections are not raised, so
    /// their ceilings are in the past when a crash leaves the used section at rest.
    pub(crate) fn choose_lane(&self, series: &IdSeries, now: Clocks) -> Option<u32> {
        let turn = CHOSEN.replace(CHOSEN.get().wrapping_add(1));
        let count = series.sections.sections;
        let lane = |section: SectionId| {
            let (first, lanes) = series.lanes_of(section)?;
            Some(first + turn % lanes)
        };
        let owned = self.ownership.owned();
        let served = series.sections.iter().filter_map(|section| Some((section, owned.get(section)?.clock)));
        let mut resting = None;
        for (section, clock) in served {
            if !clock.is_some_and(|clock| clock.rests(now)) {
                return lane(section);
            }
            resting = resting.or(Some(section));
        }
        let place = |index: u32| SectionId(series.sections.first.0 + turn.wrapping_add(index) % count);
        let routes = self.routes();
        let is_owned = |section: &SectionId| {
            let route = routes.as_ref().and_then(|routes| routes.get(*section)).unwrap_or_default();
            route.other_set().is_some() || route.owner.is_some_and(|owner| owner != self.registration.node())
        };
        (0..count).map(place).find(is_owned).or(resting).and_then(lane)
    }
}
