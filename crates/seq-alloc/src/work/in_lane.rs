//! Allocation of the numbers of lanes, which may follow a clock, and the choice of a lane for a call.
//!
//! **Invariant:** the numbers of a lane are unique and increasing for any reading of the clock, because the reading can
//! only make the first number of a call larger.

use std::cell::{Cell, LazyCell};

use seq_api::ids::IdSeries;
use seq_api::service::Allocation;
use seq_core::lane_clock::{self, LaneClock, NotTaken, Turn};
use seq_core::lease::Clocks;
use seq_core::{Refusal, Seq, Take};

use crate::lanes::unix_ms;
use crate::ownership::{OwnedSection, Served};
use crate::pending_item::PendingItem;
use crate::shared::Shared;

thread_local! {
    /// Number of choices of a lane that this thread has made.
    static CHOSEN: Cell<u32> = const { Cell::new(0) };
}

impl Shared {
    /// Allocates an item's numbers from a lane of a section that this node serves. All of them are greater than
    /// `above`. Returns `None` if the item has to wait, for the same causes as in [`Shared::take`].
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
        match served.take_in_lane(slot, item.count, above, unix_ms(now)) {
            Ok(taken) => {
                let is_stuck = matches!(taken, Take::AtCeiling { .. });
                // The raise is enqueued even if the call is refused, because the store's clock may have been corrected.
                self.taken(served, &item, taken)
                    .or_else(|| if is_stuck { self.clock_ahead(served, now).map(Err) } else { None })
            }
            Err(NotTaken::Ahead) => Some(Err(Refusal::LaneAhead { section })),
            Err(NotTaken::AfterTooFar) => Some(Err(Refusal::AfterTooFar { section, above })),
        }
    }

    /// Returns the refusal of a call that would have to wait for a raise of the ceiling, if this node's clock is so far
    /// ahead of the store's clock that no raise reaches the present time of this node; otherwise `None`.
    #[cold]
    fn clock_ahead(&self, served: Served<'_>, now: Clocks) -> Option<Refusal> {
        let (owned, node) = (served.owned(), self.registration.node());
        let ahead_ms = self.clock_ahead.bounds(&owned.clock?.clock, owned.ceiling(), now)?;
        Some(Refusal::ClockAhead { section: owned.id, node, ahead_ms })
    }

    /// Returns whether the lanes of a section allocate no id now, because the ownership began at a number ahead of the
    /// clock, or because no raise reaches the present time of this node's clock.
    pub(crate) fn rests(&self, owned: &OwnedSection, clock: &LaneClock, now: Clocks) -> bool {
        owned.rests(unix_ms(now)) || self.clock_ahead.bounds(&clock.clock, owned.ceiling(), now).is_some()
    }

    /// Returns a lane of `series` for a call, in a section that [`lane_clock::choose`] selects. Successive calls on one
    /// thread return successive lanes of the selected section. `attempt` is the number of sections whose lanes the
    /// request has already tried in vain.
    pub(crate) fn choose_lane(&self, series: &IdSeries, attempt: u32, now: Clocks) -> Option<u32> {
        let turn = CHOSEN.replace(CHOSEN.get().wrapping_add(1));
        let owned = self.ownership.owned();
        let rests = |section| {
            let owned = owned.get(section)?;
            Some(owned.clock.is_some_and(|clock| self.rests(owned, &clock, now)))
        };
        // In most cases a lane of a section that this node owns is chosen, so the routes are read only if they are
        // needed.
        let routes = LazyCell::new(|| self.routes());
        let elsewhere = |section| {
            let route = routes.as_ref()?.get(section)?;
            let owner = route.owner.filter(|owner| *owner != self.registration.node());
            let place = (route.other_set(), owner);
            (place != (None, None)).then_some(place)
        };
        let section = lane_clock::choose(series.sections, Turn { turn, attempt }, rests, elsewhere)?;
        let (first, lanes) = series.lanes_of(section)?;
        Some(first + turn % lanes)
    }
}
