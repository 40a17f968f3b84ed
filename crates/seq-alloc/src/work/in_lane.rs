//! Numbers of lanes, at the time of the clock, and the choice of a lane.
//!
//! **Invariant:** the numbers of a lane are unique and rise whatever the clock reads, because it only moves the first
//! number of a call forwards.

use std::cell::Cell;

use seq_api::ids::IdSeries;
use seq_api::service::{Allocation, Item};
use seq_core::lease::Clocks;
use seq_core::section::Window;
use seq_core::{Refusal, SectionId, Seq, SlotIndex, Take, limits};

use crate::lanes::LaneClock;
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
                    Ok(taken) => {
                        let is_stuck = matches!(taken, Take::AtCeiling { .. });
                        // A raise is requested in either case, as the store's clock may be right by now.
                        self.taken(served, &item, taken)
                            .or_else(|| if is_stuck { self.clock_ahead(served, now).map(Err) } else { None })
                    }
                    Err(_) => Some(Err(Refusal::LaneAhead { section })),
                }
            }
        }
    }

    /// Returns the refusal of a call that waits for a ceiling, if this node's clock is so far ahead that no raise
    /// reaches it.
    #[cold]
    fn clock_ahead(&self, served: Served<'_>, now: Clocks) -> Option<Refusal> {
        let (owned, node) = (served.owned(), self.registration.node());
        let ahead_ms = self.clock_ahead.bounds(&owned.clock?.clock, owned.ceiling(), now)?;
        Some(Refusal::ClockAhead { section: owned.id, node, ahead_ms })
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

    /// Returns a lane of a series: of the first section that is served here at the present, else of a section of another
    /// owner. Each call of a thread returns the next lane of the section. The other sections are not raised, so their
    /// ceilings are in the past when a crash leaves the used section at rest. `attempt` is the number of sections of
    /// which the request has tried lanes: later attempts go on to further sections.
    pub(crate) fn choose_lane(&self, series: &IdSeries, attempt: u32, now: Clocks) -> Option<u32> {
        let turn = CHOSEN.replace(CHOSEN.get().wrapping_add(1));
        let lane = |section: SectionId| {
            let (first, lanes) = series.lanes_of(section)?;
            Some(first + turn % lanes)
        };
        let owned = self.ownership.owned();
        let served = series.sections.iter().filter_map(|section| Some((section, owned.get(section)?)));
        let (mut passed, mut resting) = (0, None);
        for (section, owned) in served {
            let rests = |clock: LaneClock| {
                clock.rests(now) || self.clock_ahead.bounds(&clock.clock, owned.ceiling(), now).is_some()
            };
            if owned.clock.is_some_and(rests) {
                resting = resting.or(Some(section));
            } else if passed == attempt {
                return lane(section);
            } else {
                passed += 1;
            }
        }
        let routes = self.routes();
        let owned = series.sections.iter().filter_map(|section| {
            let route = routes.as_ref()?.get(section)?;
            let owner = route.owner.filter(|owner| *owner != self.registration.node());
            let place = (route.other_set(), owner);
            (place != (None, None)).then_some((section, place))
        });
        elsewhere(owned, turn, attempt - passed).or(resting).and_then(lane)
    }
}

/// Returns a section of another owner: the owners take turns, and the first attempt at each owner takes its first
/// section. An owner uses that section for its own callers as well, so no other section of it is raised.
fn elsewhere<O: PartialEq>(owned: impl Iterator<Item = (SectionId, O)>, turn: u32, attempt: u32) -> Option<SectionId> {
    let mut owners: Vec<(O, Vec<SectionId>)> = Vec::new();
    for (section, owner) in owned {
        match owners.iter_mut().find(|(other, _)| *other == owner) {
            Some((_, sections)) => sections.push(section),
            None => owners.push((owner, vec![section])),
        }
    }
    let (_, sections) = owners.get((turn as usize).checked_rem(owners.len())?)?;
    sections.get(attempt as usize % sections.len()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_section_of_each_owner_is_used_before_any_other() {
        let owned =
            [(2, 'a'), (3, 'b'), (5, 'a'), (6, 'b'), (7, 'b')].map(|(section, owner)| (SectionId(section), owner));
        let chosen = |turn, attempt| elsewhere(owned.into_iter(), turn, attempt).map(|section| section.0);
        assert_eq!([chosen(0, 0), chosen(1, 0), chosen(2, 0), chosen(3, 0)], [2, 3, 2, 3].map(Some));
        assert_eq!([chosen(0, 1), chosen(1, 1), chosen(0, 2), chosen(1, 2)], [5, 6, 2, 7].map(Some));
        assert_eq!(elsewhere(std::iter::empty::<(SectionId, char)>(), 1, 1), None);
    }
}
