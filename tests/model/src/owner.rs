//! An AllocSvr: its lease, the news it adopts, its ceiling.

use crate::bounds::{Bug, Setting};
use crate::protocol::Protocol;
use crate::seen::Event;
use crate::world::{About, Call, Copied, HOLD, Kind, LEASE, Life, Message, Record, STEP, Section, World};

/// The version of a node whose life is over: nothing is news to it.
const OVER: u8 = u8::MAX;

impl Protocol {
    /// One tick of the arbiter's clock, and of every owner's but the one that stands still.
    pub(crate) fn tick(&self, world: &mut World, still: Option<Life>) {
        let ticks = |life: Life| still != Some(life);
        for (life, node) in world.nodes.iter_mut().enumerate().filter(|(life, _)| ticks(*life)) {
            node.lease = (node.lease - 1).max(0);
            for call in &mut world.calls {
                if let Call::Arrived { wish, at, in_lease: false, age, .. } = call
                    && *at == life
                {
                    *age += 1;
                    if *age > HOLD {
                        *call = Call::Unsent { wish: *wish };
                    }
                }
            }
        }
        for message in &mut world.network {
            if let Message::Renew { life, sent, .. }
            | Message::Raise { life, sent, .. }
            | Message::Transfer { life, sent, .. }
            | Message::Answer { life, sent, .. } = message
                && ticks(*life)
            {
                // Below that, not even a call that is held now could be served by it.
                *sent = (*sent - 1).max(-HOLD);
            }
        }
        for watch in &mut world.arbiter {
            watch.wait = (watch.wait - 1).max(0);
        }
        if let Some(stalled) = world.stalled.as_mut().filter(|_| self.bounds.has(Bug::ClockBeforeState)) {
            stalled.wait = (stalled.wait - 1).max(0);
        }
    }

    /// Reads the clock, then asks the store to renew.
    pub(crate) fn renew(&self, world: &mut World, life: Life) {
        world.left.renewals[life] -= 1;
        self.ask_renewal(world, life);
    }

    /// The same, beyond the renewals that a life sends by itself.
    pub(crate) fn ask_renewal(&self, world: &mut World, life: Life) {
        let node = &world.nodes[life];
        let (version, released) = (node.version, node.released);
        world.network.push(Message::Renew { life, sent: LEASE, version, released });
    }

    /// Whether the owner should raise its ceiling: half a step is left, and no raise is on its way.
    pub(crate) fn can_raise(&self, world: &World, life: Life) -> bool {
        let asks = |message: &Message| match message {
            Message::Raise { life: asker, .. } => *asker == life,
            Message::Answer { life: asker, about: About::Raise { .. }, .. } => *asker == life,
            _ => false,
        };
        let is_near = |section: &Section| section.ceiling - section.cur <= STEP / 2;
        world.left.raises > 0 && world.owned(life).is_some_and(is_near) && !world.network.iter().any(asks)
    }

    /// Reads the clock, then asks the store for an absolute ceiling.
    pub(crate) fn ask_raise(&self, world: &mut World, life: Life) {
        world.left.raises -= 1;
        let Section { epoch, ceiling, .. } = *world.owned(life).expect("an owner raises");
        let to = ceiling + STEP;
        world.history.asked = world.history.asked.max(to);
        let version = world.nodes[life].version;
        world.network.push(Message::Raise { life, sent: LEASE, version, epoch, to });
    }

    /// Raises fail for too long: the section leaves the table, and the next renewal says so.
    pub(crate) fn give_up(&self, world: &mut World, life: Life) {
        world.left.give_ups -= 1;
        let epoch = world.owned(life).expect("an owner gives up").epoch;
        world.nodes[life].released = epoch;
        drop_section(world, life);
    }

    /// Takes an answer of the store: the news are adopted first, then the lease is extended to LEASE after the question
    /// was sent, if the store counted the question, and then follows what the answer is about.
    pub(crate) fn on_answer(&self, world: &mut World, answer: Message) {
        let Message::Answer { life, sent, heard, over, news, about } = answer else {
            unreachable!("not an answer: {answer:?}")
        };
        if over {
            drop_section(world, life);
            world.nodes[life].version = OVER;
            world.nodes[life].lease = 0;
            return;
        }
        if self.bounds.has(Bug::LeaseBeforeNews) || self.bounds.has(Bug::ThawBeforeNews) {
            world.nodes[life].unread = news;
        } else if let Some(record) = news {
            if record.owner == Some(life)
                && world.nodes[life].staged.is_some_and(|copy| copy.handover == record.handover)
            {
                self.seen.mark(Event::Granted);
            }
            self.adopt(world, life, record);
        }
        if heard {
            let sent = if self.bounds.has(Bug::ExpiryFromAnswer) { LEASE } else { sent };
            self.extend(world, life, sent);
        }
        match about {
            About::Renewal => {}
            About::Raise { epoch, ceiling } => raised(world, life, epoch, ceiling),
            About::Transfer { to, epoch, handover, applied } => {
                self.on_transfer_answer(world, life, to, epoch, handover, applied);
            }
        }
    }

    /// Extends the lease; a reading from before may lie in what it covers now.
    fn extend(&self, world: &mut World, life: Life, sent: i8) {
        if self.bounds.setting != Setting::Timed {
            return;
        }
        world.nodes[life].lease = world.nodes[life].lease.max(sent);
        for call in &mut world.calls {
            if let Call::Arrived { at, in_lease, age, .. } = call
                && *at == life
                && !*in_lease
                && sent + *age > 0
            {
                (*in_lease, *age) = (true, 0);
                self.seen.mark(Event::ExtendedForHeldCall);
            }
        }
    }

    /// Adopts a route that is newer than what the node knows: a section that somebody else owns leaves the table at once,
    /// a grant enters it.
    pub(crate) fn adopt(&self, world: &mut World, life: Life, record: Record) {
        let node = &mut world.nodes[life];
        let owned = node.table.map(|index| world.sections[index].epoch);
        let old = record.epoch <= node.version;
        if old && !(self.bounds.has(Bug::OldNewsAdopted) && node.version != OVER && owned != Some(record.epoch)) {
            self.seen.mark(Event::OldNewsIgnored);
            return;
        }
        node.version = record.epoch;
        node.route = record.owner;
        node.released = 0;
        if record.owner == Some(life) {
            self.enter(world, life, record);
        } else if !self.bounds.has(Bug::LostSectionKept) {
            drop_section(world, life);
        }
    }

    /// Enters a section that was granted: from the copy that belongs to the grant, or at the ceiling.
    fn enter(&self, world: &mut World, life: Life, record: Record) {
        drop_section(world, life);
        let by_epoch = self.bounds.has(Bug::StaleCopy);
        let belongs = |copy: &Copied| copy.epoch == record.epoch && (copy.handover == record.handover || by_epoch);
        let staged = world.nodes[life].staged;
        if staged.is_some_and(|copy| copy.epoch == record.epoch && copy.handover != record.handover) {
            self.seen.mark(Event::StaleCopyPassedOver);
        }
        let start = if self.bounds.has(Bug::StartBelowCeiling) { record.max_seq - 1 } else { record.max_seq };
        let copy = staged.filter(belongs);
        let known = if self.bounds.has(Bug::ExactAlways) { Kind::Number } else { Kind::Bound };
        let (cur, kind) = copy.map_or((start, known), |copy| (copy.cur, copy.kind));
        let (epoch, ceiling) = (record.epoch, record.max_seq);
        world.put(Section { life, epoch, cur, kind, frozen: false, ceiling, moved: copy.is_some() });
    }
}

/// Adopts a higher ceiling, also where the section has left the table and only admitted calls still have it.
fn raised(world: &mut World, life: Life, epoch: u8, ceiling: Option<u8>) {
    let Some(ceiling) = ceiling else { return };
    for section in world.sections.iter_mut().filter(|section| section.life == life && section.epoch == epoch) {
        section.ceiling = section.ceiling.max(ceiling);
    }
}

/// Takes the section out of the table. Calls that were admitted keep it.
fn drop_section(world: &mut World, life: Life) {
    world.nodes[life].table = None;
    world.nodes[life].moving = None;
}
