//! A call: its arrival, where the clock is read, its admission, and the step that moves or reads the slot.
//!
//! Every promise to callers is checked here, in the step that answers.

use crate::bounds::{Bug, Setting};
use crate::protocol::Protocol;
use crate::seen::Event;
use crate::world::{Call, HOPS, Life, Promise, Section, World};

impl Protocol {
    /// A call arrives and the node reads its clock for it.
    pub(crate) fn arrive(&self, world: &mut World, call: usize, at: Life) {
        let (reads, floor, hops) = match world.calls[call] {
            Call::Unsent { reads } => (reads, world.history.floor, 0),
            Call::Forwarded { reads, floor, hops, .. } => (reads, floor, hops),
            other => unreachable!("not on its way: {other:?}"),
        };
        let node = &world.nodes[at];
        let now = if self.bounds.has(Bug::CachedClock) { node.cached } else { node.lease > 0 };
        let in_lease = now || self.bounds.setting != Setting::Timed;
        if !in_lease {
            self.seen.mark(Event::LeaseOver);
        }
        if node.table.is_none() && node.prepared != 0 {
            self.seen.mark(Event::EarlyCallHeld);
        }
        world.calls[call] = Call::Arrived { reads, floor, at, in_lease, age: 0, hops };
    }

    /// Whether a call that has arrived can go on; otherwise it is held.
    pub(crate) fn can_admit(&self, world: &World, call: usize) -> bool {
        let Call::Arrived { at, in_lease, .. } = world.calls[call] else { return false };
        match world.owned(at) {
            Some(section) => in_lease && !section.frozen,
            None => world.nodes[at].prepared == 0,
        }
    }

    /// The node looks at its lease, then at its table: it admits the call, or passes it on.
    pub(crate) fn admit(&self, world: &mut World, call: usize) {
        let Call::Arrived { reads, floor, at, hops, .. } = world.calls[call] else {
            unreachable!("only a call that has arrived is admitted")
        };
        let node = &world.nodes[at];
        world.calls[call] = match (node.table, node.route) {
            (Some(section), _) => Call::Admitted { reads, floor, section, hops },
            // The caller tries again, which is a new call.
            _ if self.bounds.setting != Setting::Calm => Call::Unsent { reads },
            // The limit is for one move at a time: two of them during one call may need a third.
            (None, Some(to)) if to != at && (hops < HOPS || self.bounds.moves > 1) => {
                self.seen.mark(if hops + 1 < HOPS { Event::Forwarded } else { Event::ForwardedToTheLimit });
                Call::Forwarded { reads, floor, to, hops: (hops + 1).min(HOPS) }
            }
            _ => Call::Refused,
        };
    }

    /// Whether an admitted call can move its slot; at the ceiling it waits for a raise.
    pub(crate) fn can_take(&self, world: &World, call: usize) -> bool {
        let Call::Admitted { reads, section, .. } = world.calls[call] else { return false };
        let section = &world.sections[section];
        reads || section.frozen || section.cur < section.ceiling
    }

    /// The compare-and-swap on the slot, or the load of a read; and the answer.
    pub(crate) fn take(&self, world: &mut World, call: usize) {
        let Call::Admitted { reads, floor, section: index, hops } = world.calls[call] else {
            unreachable!("only an admitted call takes")
        };
        let section = world.sections[index];
        if !reads && section.frozen && !self.bounds.has(Bug::BlindAdd) {
            self.seen.mark(Event::FrozenSlotMet);
            let held = Call::Arrived { reads, floor, at: section.life, in_lease: true, age: 0, hops };
            world.calls[call] = if self.bounds.setting == Setting::Calm { held } else { Call::Unsent { reads } };
            return;
        }
        if world.nodes[section.life].table != Some(index) {
            self.seen.mark(Event::SlotOfLostSectionMoved);
        }
        world.calls[call] = Call::Answered;
        let value = if reads { self.judge_read(world, section, floor) } else { self.judge_number(world, index, floor) };
        world.history.floor = world.history.floor.max(value);
    }

    fn judge_number(&self, world: &mut World, index: usize, floor: u8) -> u8 {
        let section = &mut world.sections[index];
        section.cur += 1;
        section.exact = true;
        let number = section.cur;
        if section.epoch > 1 {
            let moved = section.moved;
            self.seen.mark(if moved { Event::NumberAfterMove } else { Event::NumberAfterTakeover });
        }
        let (last, max_seq) = (world.history.last(), world.store.record.max_seq);
        world.require(!world.history.was_given(number), Promise::Unique);
        world.require(number <= max_seq, Promise::UnderTheCeiling);
        world.require(number > floor || self.bounds.setting == Setting::Clockless, Promise::Ordered);
        world.require(number == last + 1 || self.bounds.setting != Setting::Calm, Promise::NoGap);
        world.history.given |= 1 << (number - 1);
        number
    }

    /// A reading is never below what was answered before the call was sent; an exact one was a last number meanwhile.
    fn judge_read(&self, world: &mut World, section: Section, floor: u8) -> u8 {
        let value = section.cur;
        let is_number = value == 0 || world.history.was_given(value);
        let ordered = value >= floor || self.bounds.setting == Setting::Clockless;
        world.require(ordered && (is_number || !section.exact), Promise::TruthfulReads);
        self.seen.mark(if section.exact { Event::ExactRead } else { Event::UpperBoundRead });
        value
    }
}
