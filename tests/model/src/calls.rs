//! A call: its arrival, where the clock is read, its admission, and the step that moves or reads the slot.
//!
//! Every promise to callers is checked here, in the step that answers.

use crate::bounds::{Bug, Setting};
use crate::protocol::Protocol;
use crate::seen::Event;
use crate::world::{Call, HOPS, Kind, Life, Promise, Section, TARGET, Wish, World};

impl Protocol {
    /// A call arrives and the node reads its clock for it.
    pub(crate) fn arrive(&self, world: &mut World, call: usize, at: Life) {
        let (wish, floor, hops) = match world.calls[call] {
            Call::Unsent { wish } => (wish, world.history.floor, 0),
            Call::Forwarded { wish, floor, hops, .. } => (wish, floor, hops),
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
        world.calls[call] = Call::Arrived { wish, floor, at, in_lease, age: 0, hops };
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
        let Call::Arrived { wish, floor, at, hops, .. } = world.calls[call] else {
            unreachable!("only a call that has arrived is admitted")
        };
        let node = &world.nodes[at];
        world.calls[call] = match (node.table, node.route) {
            (Some(section), _) => Call::Admitted { wish, floor, section, hops },
            // The caller tries again, which is a new call.
            _ if self.bounds.setting != Setting::Calm => Call::Unsent { wish },
            // The limit is for one move at a time: two of them during one call may need a third.
            (None, Some(to)) if to != at && (hops < HOPS || self.bounds.moves > 1) => {
                self.seen.mark(if hops + 1 < HOPS { Event::Forwarded } else { Event::ForwardedToTheLimit });
                Call::Forwarded { wish, floor, to, hops: (hops + 1).min(HOPS) }
            }
            _ => Call::Refused,
        };
    }

    /// Whether an admitted call can move its slot; at the ceiling it waits for a raise.
    pub(crate) fn can_take(&self, world: &World, call: usize) -> bool {
        let Call::Admitted { wish, section, .. } = world.calls[call] else { return false };
        let section = &world.sections[section];
        section.frozen
            || match wish {
                Wish::Take => section.cur < section.ceiling,
                Wish::Read => true,
                Wish::Advance => TARGET <= section.ceiling.max(section.cur) || self.bounds.has(Bug::AdvanceUncovered),
            }
    }

    /// The compare-and-swap on the slot, or the load of a read; and the answer. The slot of a read may be frozen: nothing that
    /// is given out after its freezing was answered before the read was sent.
    pub(crate) fn take(&self, world: &mut World, call: usize) {
        let Call::Admitted { wish, floor, section: index, hops } = world.calls[call] else {
            unreachable!("only an admitted call takes")
        };
        let section = world.sections[index];
        if wish != Wish::Read && section.frozen && !self.bounds.has(Bug::BlindAdd) {
            self.seen.mark(Event::FrozenSlotMet);
            let held = Call::Arrived { wish, floor, at: section.life, in_lease: true, age: 0, hops };
            world.calls[call] = if self.bounds.setting == Setting::Calm { held } else { Call::Unsent { wish } };
            return;
        }
        if world.nodes[section.life].table != Some(index) {
            self.seen.mark(Event::SlotOfLostSectionMoved);
        }
        world.calls[call] = Call::Answered;
        let value = match wish {
            Wish::Take => self.judge_number(world, index, floor),
            Wish::Read => self.judge_read(world, section, floor),
            Wish::Advance => self.judge_advance(world, index, floor),
        };
        world.history.floor = world.history.floor.max(value);
    }

    fn judge_number(&self, world: &mut World, index: usize, floor: u8) -> u8 {
        let section = &mut world.sections[index];
        let named = match section.kind {
            Kind::Number => true,
            Kind::Target => self.bounds.has(Bug::PrevIsTarget),
            Kind::Bound => self.bounds.has(Bug::PrevIsCeiling),
        };
        let prev = if named { section.cur } else { 0 };
        section.cur += 1;
        section.kind = Kind::Number;
        let number = section.cur;
        if section.epoch > 1 {
            let moved = section.moved;
            self.seen.mark(if moved { Event::NumberAfterMove } else { Event::NumberAfterTakeover });
        }
        let (last, max_seq) = (world.history.last(), world.store.record.max_seq);
        if world.history.advanced && number > TARGET {
            self.seen.mark(Event::NumberAfterAdvance);
        }
        world.require(prev == 0 || world.history.was_given(prev), Promise::Chained);
        world.require(!world.history.was_given(number), Promise::Unique);
        world.require(number <= max_seq, Promise::UnderTheCeiling);
        world.require(number > floor || self.bounds.setting == Setting::Clockless, Promise::Ordered);
        let last = if world.history.advanced { last.max(TARGET) } else { last };
        world.require(number == last + 1 || self.bounds.setting != Setting::Calm, Promise::NoGap);
        world.history.given |= 1 << (number - 1);
        number
    }

    /// An advance is done when the slot stands at its target; one that is past it is refused.
    fn judge_advance(&self, world: &mut World, index: usize, floor: u8) -> u8 {
        let uncovered = self.bounds.has(Bug::AdvanceUncovered) && TARGET > world.sections[index].ceiling;
        let section = &mut world.sections[index];
        if section.cur > TARGET {
            self.seen.mark(Event::AdvancePast);
            return floor;
        }
        if !uncovered {
            // Where the slot stands there already it moves nothing, and what is known of it stays as it was.
            if section.cur < TARGET {
                section.kind = Kind::Target;
            }
            section.cur = TARGET;
        }
        self.seen.mark(Event::Advanced);
        let max_seq = world.store.record.max_seq;
        world.history.advanced = true;
        world.require(TARGET <= max_seq, Promise::UnderTheCeiling);
        world.require(TARGET >= floor || self.bounds.setting == Setting::Clockless, Promise::Ordered);
        TARGET
    }

    /// A reading is never below what was answered before the call was sent; an exact one was a last number meanwhile.
    fn judge_read(&self, world: &mut World, section: Section, floor: u8) -> u8 {
        let value = section.cur;
        let is_number = value == 0 || world.history.was_last(value);
        let ordered = value >= floor || self.bounds.setting == Setting::Clockless;
        let exact = section.kind != Kind::Bound;
        world.require(ordered && (is_number || !exact), Promise::TruthfulReads);
        self.seen.mark(if exact { Event::ExactRead } else { Event::UpperBoundRead });
        value
    }
}
