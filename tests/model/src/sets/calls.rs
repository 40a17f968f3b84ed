//! Calls: at any owner, or routed by directories in a calm world. Every promise to callers is checked here.

use crate::sets::alloc_svr::is_frozen;
use crate::sets::bounds::{Bug, Setting};
use crate::sets::events::Event;
use crate::sets::protocol::Protocol;
use crate::sets::world::{AllocSvr, Call, Op, Promise, Section, Session, World};

/// Number of times that a call is forwarded beyond the migrations during it: from an old home, and from the home before
/// it.
const HOPS: u8 = 2;

impl Protocol {
    /// Lets a call reach the owner, at any set where it serves, and take a number.
    pub(crate) fn take(&self, world: &mut World, session: Session) {
        let floor = world.history.floor;
        let Some(section) = serving(world, session) else { return };
        if section.frozen {
            self.events.mark(Event::FrozenSlotMet);
        } else if section.cur < section.ceiling {
            world.left.takes -= 1;
            self.check_number(world, session, floor);
        }
    }

    /// Lets a reading reach the owner in the same way.
    pub(crate) fn read(&self, world: &mut World, session: Session) {
        let floor = world.history.floor;
        if serving(world, session).is_some_and(|section| !section.frozen) {
            world.left.reads -= 1;
            self.check_read(world, session, floor);
        }
    }

    /// Allocates the next number.
    fn check_number(&self, world: &mut World, session: Session, floor: u8) {
        let setting = self.bounds.setting;
        let node = world.node_mut(session).expect("it serves");
        let section = node.table.as_mut().expect("it serves");
        section.cur += 1;
        section.exact = true;
        let number = section.cur;
        let last = world.history.last();
        let committed = world.history.committed;
        world.require(!world.history.was_given(number), Promise::Unique);
        world.require(number <= committed, Promise::UnderTheCeiling);
        world.require(number > floor || setting == Setting::Clockless, Promise::Ordered);
        world.require(number == last + 1 || setting != Setting::Calm, Promise::NoGap);
        world.history.given |= 1 << (number - 1);
        world.history.floor = world.history.floor.max(number);
    }

    /// Checks that a read value is never below the values in responses before, and that an exact value is an allocated
    /// number.
    fn check_read(&self, world: &mut World, session: Session, floor: u8) {
        let Section { cur: value, exact, .. } = serving(world, session).expect("it serves");
        let is_number = value == 0 || world.history.was_given(value);
        let is_ordered = value >= floor || self.bounds.setting == Setting::Clockless;
        world.require(is_ordered && (is_number || !exact), Promise::TruthfulReads);
        world.history.floor = world.history.floor.max(value);
    }

    pub(crate) fn call_steps(&self, world: &World, steps: &mut Vec<crate::sets::protocol::Step>) {
        use crate::sets::protocol::Step;
        for call in 0..world.calls.len() {
            // Calls that are equal have the same future.
            if call > 0 && world.calls[call - 1] == world.calls[call] {
                continue;
            }
            match world.calls[call] {
                Call::Unsent { .. } => steps.push(Step::Send { call }),
                Call::Sent { .. } if self.can_handle(world, call) => steps.push(Step::Handle { call }),
                _ => {}
            }
        }
    }

    /// Sends a call to the home in the client's directory, with the epoch of that claim.
    pub(crate) fn send_call(&self, world: &mut World, call: usize) {
        let Call::Unsent { op } = world.calls[call] else { unreachable!("only once") };
        let (floor, to) = (world.history.floor, world.client.home);
        if is_frozen(world, to) {
            self.events.mark(Event::FrozenSlotMet);
        }
        world.calls[call] = Call::Sent { op, floor, since: world.client.since, to, hops: 0 };
    }

    /// Returns whether the node has something to do for a call: it serves the section, or has newer knowledge than the
    /// call. Otherwise the call is pending, while the node waits for an ownership update.
    fn can_handle(&self, world: &World, call: usize) -> bool {
        let Call::Sent { op, since, to, .. } = world.calls[call] else { return false };
        let node = node_of(world, world.current(to));
        match node.table {
            Some(section) => !section.frozen && (op == Op::Read || section.cur < section.ceiling),
            None => {
                let is_newer = node.claim.since > since || self.bounds.has(Bug::ForwardedWithoutNewerClaim);
                is_newer && node.claim.home != to
            }
        }
    }

    /// Serves the call, or forwards it to the home in the node's directory. A refusal with that claim, after which the
    /// client sends the call there, is the same step.
    pub(crate) fn handle(&self, world: &mut World, call: usize) {
        let Call::Sent { op, floor, to, hops, .. } = world.calls[call] else {
            unreachable!("only a call that was sent is handled")
        };
        let session = world.current(to);
        let node = node_of(world, session);
        let claim = node.claim;
        if node.table.is_none() {
            self.events.mark(Event::Forwarded);
            world.calls[call] = Call::Sent { op, floor, since: claim.since, to: claim.home, hops: hops + 1 };
            let most = world.migrations + HOPS;
            world.require(hops < most, Promise::NoCircle);
            return;
        }
        world.calls[call] = Call::Answered;
        world.client = world.client.max(claim);
        match op {
            Op::Take => self.check_number(world, session, floor),
            Op::Read => self.check_read(world, session, floor),
        }
    }
}

fn node_of(world: &World, session: Session) -> AllocSvr {
    *world.node(session).expect("in a calm world every set has a node")
}

/// Returns the section of a session that serves.
fn serving(world: &World, session: Session) -> Option<Section> {
    world.node(session).filter(|node| node.leased)?.table
}
