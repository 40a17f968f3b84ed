//! Calls in a process: checked, answered, held, sent on.
//!
//! **Order matters:** the clocks are read after the call is there, then the lease is looked at, then the table. Between any
//! two of these, and before the number is taken, other things may happen to the process, or it may stall.

use std::rc::Rc;

use seq_core::lease::Clocks;
use seq_core::{Advance, AdvanceLimit, Epoch, Seq, Take, Target, limits};

use crate::bugs::Bug;
use crate::client::{Call, Origin, Reply, Wish};
use crate::coverage::Situation;
use crate::faults::MS;
use crate::net::{Address, Body};
use crate::process::{LAST_WORD, Owned};
use crate::world::{Event, Step, World};

/// How far callers may raise a uid: as a server has it by default.
const FAR: AdvanceLimit = AdvanceLimit(limits::DEFAULT_MAX_ADVANCE);

/// Time between two tries of what is held, although nothing was heard.
const RETRY: u64 = 100 * MS;

/// Most calls that one process holds: few, so that the bound is met.
const MAX_HELD: usize = 64;

/// A call in a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) call: Call,
    arrived: Clocks,
    /// Whether it waits for an owner to be known.
    pub(crate) seeks: bool,
    /// Attempts that may have taken numbers without an answer.
    lost: u32,
    /// Whether it ever waited.
    waited: bool,
}

/// A call that was sent on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forward {
    held: Held,
    to: seq_core::NodeId,
    /// Since when its section is routed elsewhere.
    replaced: Option<u64>,
}

/// What a call was checked against.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    held: Held,
    leased: bool,
    /// A planted bug: what the table said before the lease was looked at.
    early: Option<Rc<Owned>>,
}

impl World {
    /// A call is in a process' memory.
    pub(crate) fn arrive(&mut self, p: usize, call: Call) {
        let held = Held { call, arrived: self.clock(p), seeks: false, lost: 0, waited: false };
        self.attempt(p, held);
    }

    fn attempt(&mut self, p: usize, held: Held) {
        let clocks = if self.bug == Some(Bug::CachedClock) { self.procs[p].cached_clock } else { self.clock(p) };
        let process = &self.procs[p];
        let leased = process.lease.holds(clocks);
        let bug = self.bug == Some(Bug::TableBeforeLease);
        let early = process.table.get(&held.call.section).filter(|_| bug).cloned();
        let checked = Checked { held, leased, early };
        if self.swarm.interleave > 0 && self.rng.chance(self.swarm.interleave) {
            self.procs[p].in_call += 1;
            let gap = self.gap();
            self.after(gap, Event::Step(p, Step::Look(Box::new(checked))));
        } else {
            self.look(p, checked);
        }
    }

    /// How long a thread may be away.
    pub(crate) fn gap(&mut self) -> u64 {
        let most = *[MS, 20 * MS, 200 * MS].get(self.rng.index(3)).expect("three of them");
        self.rng.below(most)
    }

    /// The table is looked at, after the lease was.
    pub(crate) fn look(&mut self, p: usize, checked: Checked) {
        let Checked { mut held, mut leased, early } = checked;
        let section = held.call.section;
        let mut owned = self.procs[p].table.get(&section).cloned();
        if self.bug == Some(Bug::TableBeforeLease) {
            leased = self.procs[p].lease.holds(self.clock(p));
            owned = early;
        }
        let Some(owned) = owned else { return self.elsewhere(p, held) };
        if !leased {
            self.coverage.saw(Situation::LeaseExpired);
            return self.hold(p, held, false);
        }
        if held.call.epoch > owned.epoch {
            self.coverage.saw(Situation::EpochAhead);
            if self.procs[p].confirmed <= held.arrived.boottime {
                self.renew_now(p);
                return self.hold(p, held, true);
            }
            // The store said after the call came that this ownership is the newest: the caller's word is wrong.
            held.call.epoch = owned.epoch;
        }
        if self.swarm.interleave > 0 && self.rng.chance(self.swarm.interleave) {
            self.procs[p].in_call += 1;
            let gap = self.gap();
            self.after(gap, Event::Step(p, Step::Take(Box::new(held), owned)));
        } else {
            self.take(p, held, &owned);
        }
    }

    /// The slot is moved, or read.
    pub(crate) fn take(&mut self, p: usize, held: Held, owned: &Rc<Owned>) {
        let Call { uid, section, slot, wish, .. } = held.call;
        let epoch = owned.epoch;
        let count = match wish {
            Wish::Take(count) => count,
            Wish::Advance(to) => return self.advance(p, held, owned, to),
            Wish::Read => {
                match owned.section.current(slot) {
                    Some(mut reading) => {
                        reading.exact |= self.bug == Some(Bug::ExactAlways);
                        self.reply(p, held, Reply::Read { reading, epoch });
                    }
                    None => self.hold(p, held, false),
                }
                return;
            }
        };
        let mut taken = owned.section.take(slot, count);
        if let Take::Given { ticket, .. } | Take::AtCeiling { ticket, .. } = &mut taken
            && let Some(ticket) = ticket.take()
        {
            self.procs[p].raises.enqueue(owned.clone(), ticket);
        }
        match taken {
            Take::Given { value, mut prev, .. } => {
                if self.bug == Some(Bug::PrevIsCeiling) && prev == Seq::ZERO {
                    prev = owned.base;
                }
                if self.bug == Some(Bug::PrevIsTarget)
                    && prev == Seq::ZERO
                    && value.0 > owned.base.0 + u64::from(count.get())
                {
                    prev = Seq(value.0 - u64::from(count.get()));
                }
                let first = value.0 - u64::from(count.get()) + 1;
                let ceiling = self.store.committed_ceiling(section);
                let now = self.now;
                self.trace.note(now, [2, uid.0, value.0], || {
                    format!("process {p}: uid {uid} takes {first}..={value} in section {section} under epoch {epoch}")
                });
                self.check.taken(now, uid.0, first, value.0, ceiling.0);
                self.reply(p, held, Reply::Given { value, prev, epoch, lost: 0 });
            }
            Take::AtCeiling { .. } => {
                self.coverage.saw(Situation::AtCeiling);
                self.hold(p, held, false);
            }
            Take::Frozen => {
                self.coverage.saw(Situation::Frozen);
                self.hold(p, held, false);
            }
            Take::Exhausted => self.reply(p, held, Reply::Refused { lost: 0 }),
        }
        self.raise(p);
    }

    /// The slot is raised to a number.
    fn advance(&mut self, p: usize, held: Held, owned: &Rc<Owned>, to: Target) {
        let Call { uid, section, slot, .. } = held.call;
        let epoch = owned.epoch;
        let mut advanced = owned.section.advance(slot, to, FAR);
        if let Advance::Done { ticket } | Advance::AtCeiling { ticket } = &mut advanced
            && let Some(ticket) = ticket.take()
        {
            self.procs[p].raises.enqueue(owned.clone(), ticket);
        }
        match advanced {
            Advance::Done { .. } => {
                let (now, to) = (self.now, to.seq());
                self.trace.note(now, [8, uid.0, to.0], || {
                    format!("process {p}: uid {uid} is raised to {to} in section {section} under epoch {epoch}")
                });
                let ceiling = self.store.committed_ceiling(section);
                self.check.advanced(now, uid.0, to.0, ceiling.0);
                self.reply(p, held, Reply::Advanced { past: false, epoch });
            }
            Advance::Past => self.reply(p, held, Reply::Advanced { past: true, epoch }),
            Advance::AtCeiling { .. } => self.hold(p, held, false),
            Advance::TooFar { .. } => self.reply(p, held, Reply::Refused { lost: 0 }),
            Advance::Frozen => self.hold(p, held, false),
        }
        self.raise(p);
    }

    /// The section is served somewhere else, or nowhere.
    fn elsewhere(&mut self, p: usize, held: Held) {
        let process = &self.procs[p];
        let route = process.owner.routes().and_then(|routes| routes.get(held.call.section));
        let owner = route.and_then(|route| route.owner).filter(|owner| *owner != process.node);
        let far = held.call.hops >= limits::MAX_HOPS;
        let astray = owner.is_some() && far && !process.owner.expects(held.call.section);
        if owner.is_none() || held.call.hops > 0 {
            self.renew_now(p);
        }
        if astray {
            // It waits better where it came from.
            return self.reply(p, held, Reply::Refused { lost: 0 });
        }
        let Some(to) = owner.filter(|_| !far) else { return self.hold(p, held, true) };
        let Some(address) = self.address_of(p, to) else { return self.hold(p, held, true) };
        self.coverage.saw(if held.call.hops == 0 { Situation::Forwarded } else { Situation::ForwardedTwice });
        let id = self.fresh();
        self.procs[p].forwards.insert(id, Forward { held, to, replaced: None });
        let call = Call { hops: held.call.hops + 1, origin: Origin::Process(p, id), ..held.call };
        let host = self.procs[p].name;
        self.send(host, address, Body::Call(call));
        self.retry_later(p);
    }

    /// Keeps a call until something changes, or its time is over.
    fn hold(&mut self, p: usize, held: Held, seeks: bool) {
        let held = Held { seeks, waited: true, ..held };
        self.coverage.saw(Situation::Held);
        if self.now >= held.call.deadline || self.procs[p].held.len() >= MAX_HELD {
            return self.reply(p, held, Reply::Refused { lost: 0 });
        }
        self.procs[p].held.push(held);
        if seeks {
            self.renew_now(p);
        }
        self.retry_later(p);
    }

    fn retry_later(&mut self, p: usize) {
        if !self.procs[p].retrying {
            self.procs[p].retrying = true;
            self.after(RETRY, Event::Step(p, Step::Retry));
        }
    }

    /// Tries everything again that is held, and gives up owners that are none any more and stay silent.
    pub(crate) fn retry(&mut self, p: usize) {
        self.procs[p].retrying = false;
        self.wake_now(p);
        if !(self.procs[p].held.is_empty() && self.procs[p].forwards.is_empty()) {
            self.retry_later(p);
        }
    }

    pub(crate) fn wake_now(&mut self, p: usize) {
        let now = self.now;
        let process = &mut self.procs[p];
        process.woken = false;
        let mut silent = Vec::new();
        for (id, forward) in &mut process.forwards {
            let routes = process.owner.routes();
            let owner = routes.and_then(|routes| routes.get(forward.held.call.section)).and_then(|route| route.owner);
            if owner == Some(forward.to) {
                forward.replaced = None;
            } else {
                forward.replaced.get_or_insert(now);
            }
            let replaced = forward.replaced.is_some_and(|since| now - since >= LAST_WORD.as_nanos() as u64);
            if replaced || now >= forward.held.call.deadline {
                silent.push(*id);
            }
        }
        for id in silent {
            let Forward { held, .. } = self.procs[p].forwards.remove(&id).expect("it was there");
            self.note_repeat(&held.call);
            self.hold(p, Held { lost: held.lost + 1, ..held }, true);
        }
        for held in std::mem::take(&mut self.procs[p].held) {
            if now >= held.call.deadline {
                self.reply(p, held, Reply::Refused { lost: 0 });
            } else {
                self.attempt(p, held);
            }
        }
    }

    /// The answer to a call that was sent on.
    pub(crate) fn forwarded(&mut self, p: usize, id: u64, reply: Reply) {
        let Some(Forward { held, .. }) = self.procs[p].forwards.remove(&id) else { return };
        match reply {
            Reply::Refused { lost } => self.hold(p, Held { lost: held.lost + lost, ..held }, true),
            reply => self.reply(p, held, reply),
        }
    }

    /// Answers a call; attempts that were lost on the way are counted in the answer.
    fn reply(&mut self, p: usize, held: Held, mut reply: Reply) {
        if let Reply::Given { lost, .. } | Reply::Refused { lost } = &mut reply
            && self.bug != Some(Bug::UncountedRepeat)
        {
            *lost += held.lost;
        }
        if held.waited && !matches!(reply, Reply::Refused { .. }) {
            self.coverage.saw(Situation::HeldAnswered);
        }
        let host = self.procs[p].name;
        let (to, id) = match held.call.origin {
            Origin::Client(client) => (Address::Client(client), held.call.id),
            Origin::Process(process, id) => (Address::Process(process), id),
        };
        self.send(host, to, Body::Reply { to: id, reply });
    }
}

/// An epoch nobody has: what a caller may make up.
pub(crate) const FORGED_EPOCH: Epoch = Epoch(1 << 40);
