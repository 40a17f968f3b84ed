//! A call: its arrival, where the clock is read, its admission, and the step that moves or reads the slot.
//!
//! Every promise to callers is checked here, in the step that responds.

use crate::bounds::{Bug, Setting};
use crate::events::Event;
use crate::protocol::Protocol;
use crate::world::{Call, HOPS, Kind, Op, Promise, Section, Session, TARGET, World};

impl Protocol {
    /// Lets a call arrive; the node reads its clock for it.
    pub(crate) fn arrive(&self, world: &mut World, call: usize, at: Session) {
        let (op, floor, hops) = match world.calls[call] {
            Call::Unsent { op } => (op, world.history.floor, 0),
            Call::Forwarded { op, floor, hops, .. } => (op, floor, hops),
            other => unreachable!("not on its way: {other:?}"),
        };
        let node = &world.nodes[at];
        let now = if self.bounds.has(Bug::CachedClock) { node.cached } else { node.lease > 0 };
        let in_lease = now || self.bounds.setting != Setting::Timed;
        if !in_lease {
            self.events.mark(Event::LeaseOver);
        }
        if node.table.is_none() && node.prepared != 0 {
            self.events.mark(Event::EarlyCallHeld);
        }
        world.calls[call] = Call::Arrived { op, floor, at, in_lease, age: 0, hops };
    }

    /// Returns whether a call that has arrived can be admitted; otherwise it is pending.
    pub(crate) fn can_admit(&self, world: &World, call: usize) -> bool {
        let Call::Arrived { at, in_lease, .. } = world.calls[call] else { return false };
        match world.owned(at) {
            Some(section) => in_lease && !section.frozen,
            None => world.nodes[at].prepared == 0,
        }
    }

    /// Checks the lease of the node, then its table: it admits the call, or forwards it.
    pub(crate) fn admit(&self, world: &mut World, call: usize) {
        let Call::Arrived { op, floor, at, hops, .. } = world.calls[call] else {
            unreachable!("only a call that has arrived is admitted")
        };
        let node = &world.nodes[at];
        world.calls[call] = match (node.table, node.route) {
            (Some(section), _) => Call::Admitted { op, floor, section, hops },
            // The caller retries, which is a new call.
            _ if self.bounds.setting != Setting::Calm => Call::Unsent { op },
            // The limit is for one handover during a call: two handovers may need a third hop.
            (None, Some(to)) if to != at && (hops < HOPS || self.bounds.handovers > 1) => {
                self.events.mark(if hops + 1 < HOPS { Event::Forwarded } else { Event::ForwardedToTheLimit });
                Call::Forwarded { op, floor, to, hops: (hops + 1).min(HOPS) }
            }
            _ => Call::Refused,
        };
    }

    /// Returns whether an admitted call can move its slot; at the ceiling it waits for a raise.
    pub(crate) fn can_take(&self, world: &World, call: usize) -> bool {
        let Call::Admitted { op, section, .. } = world.calls[call] else { return false };
        let section = &world.sections[section];
        section.frozen
            || match op {
                Op::Take => section.cur < section.ceiling,
                Op::Read => true,
                Op::Advance => TARGET <= section.ceiling.max(section.cur) || self.bounds.has(Bug::AdvanceUncovered),
            }
    }

    /// Makes the compare-and-swap on the slot, or the load of a read, and responds. The slot of a read may be frozen,
    /// because no number allocated after the freeze was in a response before the read was sent.
    pub(crate) fn take(&self, world: &mut World, call: usize) {
        let Call::Admitted { op, floor, section: index, hops } = world.calls[call] else {
            unreachable!("only an admitted call takes")
        };
        let section = world.sections[index];
        if op != Op::Read && section.frozen && !self.bounds.has(Bug::BlindAdd) {
            self.events.mark(Event::FrozenSlotMet);
            let held = Call::Arrived { op, floor, at: section.session, in_lease: true, age: 0, hops };
            world.calls[call] = if self.bounds.setting == Setting::Calm { held } else { Call::Unsent { op } };
            return;
        }
        if world.nodes[section.session].table != Some(index) {
            self.events.mark(Event::SlotOfLostSectionMoved);
        }
        world.calls[call] = Call::Answered;
        let value = match op {
            Op::Take => self.check_number(world, index, floor),
            Op::Read => self.check_read(world, section, floor),
            Op::Advance => self.check_advance(world, index, floor),
        };
        world.history.floor = world.history.floor.max(value);
    }

    fn check_number(&self, world: &mut World, index: usize, floor: u8) -> u8 {
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
            let handed_over = section.handed_over;
            self.events.mark(if handed_over { Event::NumberAfterHandover } else { Event::NumberAfterTakeover });
        }
        let (last, max_seq) = (world.history.last(), world.store.record.max_seq);
        if world.history.advanced && number > TARGET {
            self.events.mark(Event::NumberAfterAdvance);
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

    /// Checks that an advance is done when the slot is at its target; if the slot is past its target, the advance is
    /// refused.
    fn check_advance(&self, world: &mut World, index: usize, floor: u8) -> u8 {
        let uncovered = self.bounds.has(Bug::AdvanceUncovered) && TARGET > world.sections[index].ceiling;
        let section = &mut world.sections[index];
        if section.cur > TARGET {
            self.events.mark(Event::AdvancePast);
            return floor;
        }
        if !uncovered {
            // A slot that is at the target already does not move, and keeps its kind.
            if section.cur < TARGET {
                section.kind = Kind::Target;
            }
            section.cur = TARGET;
        }
        self.events.mark(Event::Advanced);
        let max_seq = world.store.record.max_seq;
        world.history.advanced = true;
        world.require(TARGET <= max_seq, Promise::UnderTheCeiling);
        world.require(TARGET >= floor || self.bounds.setting == Setting::Clockless, Promise::Ordered);
        TARGET
    }

    /// Checks that a read value is never below the values in responses before the call was sent, and that an exact
    /// value was a last number since then.
    fn check_read(&self, world: &mut World, section: Section, floor: u8) -> u8 {
        let value = section.cur;
        let is_number = value == 0 || world.history.was_last(value);
        let ordered = value >= floor || self.bounds.setting == Setting::Clockless;
        let exact = section.kind != Kind::Bound;
        world.require(ordered && (is_number || !exact), Promise::TruthfulReads);
        self.events.mark(if exact { Event::ExactRead } else { Event::UpperBoundRead });
        value
    }
}
