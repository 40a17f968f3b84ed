//! An AllocSvr process of one of two sets: `Owner`, its sections and its lease, and the shell around them.

use std::collections::BTreeMap;

use seq_core::lease::{Clocks, Lease};
use seq_core::owner::handover::{Commit, Handover, HandoverOffer};
use seq_core::owner::{
    AdoptError, Effect, Effects, LeaseEffect, Owner, OwnershipUpdate, Renewal, Session, TableEffect,
};
use seq_core::section::SectionCopy;
use seq_core::state::Raise;
use seq_core::{Epoch, Incarnation, Section, SectionId, Seq};

use super::store::Request;
use super::{Event, World};
use crate::bugs::Bug;
use crate::coverage::Situation;
use crate::faults::{MS, SECOND};
use crate::world::{STEP, TERMS};

/// How often a process looks at what is due.
const TICK: u64 = 20 * MS;

/// How long a request waits for its response.
pub(super) const TIMEOUT: u64 = 250 * MS;

/// When a process that ended is started again.
const RESTART: u64 = 300 * MS;

/// A section in memory.
#[derive(Debug)]
pub(super) struct Owned {
    pub(super) epoch: Epoch,
    pub(super) section: Section,
}

/// A response of the store.
#[derive(Clone, Debug)]
pub(super) enum Response {
    Registered(Session),
    /// The registration does not follow the newest incarnation, which this is.
    Follow(Incarnation),
    Renewed(OwnershipUpdate),
    Raised(Vec<Option<Seq>>, OwnershipUpdate),
    Committed(OwnershipUpdate),
    /// A commit was refused, with this outcome for its owner.
    CommitRefused(Commit),
    Refused,
    SessionOver,
}

/// A step of a handover at the target.
#[derive(Clone, Debug)]
pub(super) enum Offer {
    Prepare,
    Stage(SectionCopy),
    Activate,
}

/// A message to a process.
#[derive(Clone, Debug)]
pub(super) enum Message {
    Response(u64, Box<Response>),
    Offer { from: usize, id: u64, offer: HandoverOffer, step: Offer },
    Offered { id: u64, accepted: bool },
}

#[derive(Debug)]
pub(super) struct Sent<T> {
    pub(super) what: T,
    pub(super) rpc: u64,
    pub(super) sent: Clocks,
    pub(super) due: u64,
}

/// A process.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) set: usize,
    name: usize,
    pub(super) alive: bool,
    pub(super) stalled_until: u64,
    /// Until when nothing reaches the store.
    pub(super) cut_until: u64,
    pub(super) owner: Owner,
    pub(super) lease: Lease,
    pub(super) table: BTreeMap<SectionId, Owned>,
    token: u64,
    follows: Incarnation,
    register: Option<Sent<()>>,
    renewal: Option<Sent<Renewal>>,
    renew_at: u64,
    raise: Option<Sent<(Session, Vec<Raise>)>>,
    pub(super) commits: Vec<Sent<Handover>>,
    pub(super) offers: BTreeMap<u64, (Handover, bool, u64)>,
    /// Beside the machine: the first copy from another set that was staged for each ownership, whatever its attempt. To
    /// see that it is passed over, and to plant a bug.
    pub(super) staged: BTreeMap<(SectionId, Epoch), SectionCopy>,
}

impl World {
    pub(super) fn clock(&self) -> Clocks {
        let now = self.now + SECOND;
        Clocks { boottime: now, raw: now, realtime: now }
    }

    /// Starts a process, which replaces the one before.
    pub(super) fn start(&mut self, set: usize, name: usize) {
        if let Some(p) = self.newest[set][name] {
            self.procs[p].alive = false;
        }
        let (token, secret) = (self.fresh(), self.rng.next());
        let owner = Owner::new(&format!("s{set}"), self.layout.clone(), TERMS).with_secret(secret);
        self.newest[set][name] = Some(self.procs.len());
        self.procs.push(Process {
            set,
            name,
            alive: true,
            stalled_until: 0,
            cut_until: 0,
            owner,
            lease: Lease::default(),
            table: BTreeMap::new(),
            token,
            follows: Incarnation(0),
            register: None,
            renewal: None,
            renew_at: 0,
            raise: None,
            commits: Vec::new(),
            offers: BTreeMap::new(),
            staged: BTreeMap::new(),
        });
        self.after(0, Event::Tick(self.procs.len() - 1));
    }

    /// A process ends, and another one is started in its place.
    fn exit(&mut self, p: usize) {
        let (set, name) = (self.procs[p].set, self.procs[p].name);
        self.procs[p].alive = false;
        if self.newest[set][name] == Some(p) {
            self.after(RESTART, Event::Start(set, name));
        }
    }

    pub(super) fn send_to_store(&mut self, p: usize, rpc: u64, request: Request) {
        let set = self.procs[p].set;
        if self.procs[p].cut_until <= self.now {
            self.send(|| Event::Request(set, p, rpc, request.clone()));
        }
    }

    /// Sends what is due.
    pub(super) fn tick(&mut self, p: usize) {
        if !self.procs[p].alive {
            return;
        }
        self.after(TICK, Event::Tick(p));
        if self.procs[p].stalled_until > self.now {
            return;
        }
        let (now, sent) = (self.now, self.clock());
        if self.procs[p].owner.session().is_none() {
            if self.procs[p].register.as_ref().is_none_or(|request| request.due <= now) {
                let rpc = self.fresh();
                self.procs[p].register = Some(Sent { what: (), rpc, sent, due: now + TIMEOUT });
                let (name, token, follows) = (self.procs[p].name, self.procs[p].token, self.procs[p].follows);
                self.send_to_store(p, rpc, Request::Register { name, token, follows });
            }
            return;
        }
        let due = self.procs[p].renewal.as_ref().is_some_and(|request| request.due <= now);
        if due || (self.procs[p].renewal.is_none() && self.procs[p].renew_at <= now) {
            self.renew(p, sent);
        }
        self.raise(p, sent);
        for at in 0..self.procs[p].commits.len() {
            if self.procs[p].commits[at].due <= now {
                self.commit_timed_out(p, at);
                break;
            }
        }
        let late = self.procs[p].offers.iter().find(|(_, (.., due))| *due <= now).map(|(id, _)| *id);
        if let Some(id) = late {
            self.offered(p, id, false);
        }
    }

    fn renew(&mut self, p: usize, sent: Clocks) {
        let Some(renewal) = self.procs[p].owner.renewal() else { return };
        let rpc = self.fresh();
        self.procs[p].renewal = Some(Sent { what: renewal.clone(), rpc, sent, due: self.now + TIMEOUT });
        self.send_to_store(p, rpc, Request::Renew(renewal));
    }

    fn raise(&mut self, p: usize, sent: Clocks) {
        let process = &self.procs[p];
        let Some(session) = process.owner.session() else { return };
        if process.raise.as_ref().is_some_and(|request| request.due > self.now) {
            return;
        }
        let target = |(section, owned): (&SectionId, &Owned)| {
            let to = owned.section.raise_target()?;
            Some(Raise { section: *section, epoch: owned.epoch, to })
        };
        let raises: Vec<Raise> = process.table.iter().filter_map(target).collect();
        if raises.is_empty() {
            return;
        }
        let (rpc, since) = (self.fresh(), self.procs[p].owner.known_version());
        let what = (session, raises.clone());
        self.procs[p].raise = Some(Sent { what, rpc, sent, due: self.now + TIMEOUT });
        self.send_to_store(p, rpc, Request::Raise { session, raises, since });
    }

    pub(super) fn receive(&mut self, p: usize, message: Message) {
        if !self.procs[p].alive {
            return;
        }
        if self.procs[p].stalled_until > self.now {
            let wait = self.procs[p].stalled_until - self.now;
            return self.after(wait, Event::Message(p, message));
        }
        match message {
            Message::Response(rpc, response) => self.response(p, rpc, *response),
            Message::Offer { from, id, offer, step } => {
                let accepted = self.offer(p, &offer, step);
                self.send(|| Event::Message(from, Message::Offered { id, accepted }));
            }
            Message::Offered { id, accepted } => self.offered(p, id, accepted),
        }
    }

    fn response(&mut self, p: usize, rpc: u64, response: Response) {
        if self.procs[p].register.as_ref().is_some_and(|request| request.rpc == rpc) {
            self.procs[p].register = None;
            match response {
                Response::Registered(session) => self.procs[p].owner.on_registered(session),
                Response::Follow(current) => self.procs[p].follows = current,
                _ => {}
            }
            return;
        }
        if let Response::SessionOver = response {
            self.coverage.saw(Situation::SessionOver);
            return self.exit(p);
        }
        if self.procs[p].renewal.as_ref().is_some_and(|request| request.rpc == rpc) {
            let Some(Sent { what, sent, .. }) = self.procs[p].renewal.take() else { return };
            self.procs[p].renew_at = self.now + TERMS.renew_interval.as_nanos() as u64;
            if let Response::Renewed(update) = response {
                let taken = self.step(p, |owner, effects| owner.on_renewed(&what, sent, update, effects));
                self.require_adopted(taken);
            }
            return;
        }
        if self.procs[p].raise.as_ref().is_some_and(|request| request.rpc == rpc) {
            let Some(Sent { what: (session, raises), sent, .. }) = self.procs[p].raise.take() else { return };
            if let Response::Raised(ceilings, update) = response {
                self.raised(p, &raises, &ceilings);
                let taken = self.step(p, |owner, effects| owner.on_update(session, sent, update, effects));
                self.require_adopted(taken);
            }
            return;
        }
        if let Some(at) = self.procs[p].commits.iter().position(|request| request.rpc == rpc) {
            let Sent { what, sent, .. } = self.procs[p].commits.remove(at);
            let commit = match response {
                Response::Committed(update) => {
                    self.coverage.saw(Situation::Moved);
                    Commit::Made(update)
                }
                Response::CommitRefused(Commit::Inconclusive) if self.bug == Some(Bug::SetsThawInconclusive) => {
                    Commit::Refused
                }
                Response::CommitRefused(commit) => commit,
                _ => Commit::Unknown,
            };
            let taken = self.step(p, |owner, effects| owner.on_committed(&what, sent, commit, effects));
            self.require_adopted(taken);
        }
    }

    /// The update of another set is never sent here. One that builds on routes that are not held is sent again.
    pub(super) fn require_adopted(&mut self, taken: Result<(), AdoptError>) {
        if let Err(error @ AdoptError::OtherSet { .. }) = taken {
            self.check.broken(self.now, "updates are of the own set", error.to_string());
        }
    }

    fn raised(&mut self, p: usize, raises: &[Raise], ceilings: &[Option<Seq>]) {
        let mut lost = Vec::new();
        for (raise, ceiling) in raises.iter().zip(ceilings) {
            match (ceiling, self.procs[p].table.get(&raise.section)) {
                (Some(ceiling), Some(owned)) if owned.epoch == raise.epoch => {
                    // Whether more is wanted is read with the next tick.
                    let _ticket = owned.section.raised(*ceiling);
                }
                (None, _) => lost.push((raise.section, raise.epoch)),
                _ => {}
            }
        }
        if !lost.is_empty() {
            self.coverage.saw(Situation::RaiseRefused);
            self.step(p, |owner, effects| owner.on_lost(&lost, effects));
        }
    }

    /// Has the machine of a process take a step, and carries its effects out.
    pub(super) fn step<T>(&mut self, p: usize, step: impl FnOnce(&mut Owner, &mut Effects) -> T) -> T {
        let mut effects = Effects::new();
        let outcome = step(&mut self.procs[p].owner, &mut effects);
        for effect in effects {
            let now = self.now;
            self.trace.note(now, [1, p as u64, 0], || format!("process {p}: {effect:?}"));
            match effect {
                Effect::Table(effect) => self.change_table(p, effect),
                Effect::Lease(LeaseEffect::Extend { sent }) => self.procs[p].lease.extend(sent, TERMS.served()),
                Effect::Lease(LeaseEffect::End) => self.procs[p].lease.end(),
                Effect::RenewNow => self.procs[p].renew_at = 0,
                Effect::CopyLost { .. } => self.coverage.saw(Situation::StaleCopy),
                Effect::Send(request) => self.send_handover(p, request),
            }
        }
        outcome
    }

    fn change_table(&mut self, p: usize, effect: TableEffect) {
        match effect {
            TableEffect::Publish => {}
            TableEffect::Leave { section, epoch } => {
                if self.procs[p].table.get(&section).is_some_and(|owned| owned.epoch == epoch) {
                    self.procs[p].table.remove(&section);
                }
            }
            TableEffect::Enter { section, epoch, ceiling, copy } => {
                let staged = self.procs[p].staged.remove(&(section, epoch));
                if staged.is_some() && staged != copy {
                    self.coverage.saw(Situation::OtherAttempt);
                }
                let copy = if self.bug == Some(Bug::SetsStaleCopy) { staged.or(copy) } else { copy };
                self.coverage.saw(if copy.is_some() { Situation::Copied } else { Situation::Failover });
                let uids = super::SECTION_SIZE;
                let made = copy.as_ref().and_then(|copy| Section::handed_over(uids, copy, ceiling, STEP).ok());
                let made = made.unwrap_or_else(|| Section::takeover(uids, ceiling, STEP));
                self.procs[p].table.insert(section, Owned { epoch, section: made });
            }
            TableEffect::Freeze { section, epoch } => {
                let owned = self.procs[p].table.get(&section).filter(|owned| owned.epoch == epoch);
                if let Some(copy) = owned.map(|owned| owned.section.freeze()) {
                    self.procs[p].owner.on_frozen(section, epoch, &copy);
                }
            }
            TableEffect::Thaw { section, epoch } => {
                let Some(owned) = self.procs[p].table.get(&section).filter(|owned| owned.epoch == epoch) else {
                    return;
                };
                let (copy, ceiling) = (owned.section.freeze(), owned.section.ceiling());
                let made = Section::handed_over(owned.section.uids(), &copy, ceiling, STEP);
                let made = made.expect("its own values fit");
                self.procs[p].table.insert(section, Owned { epoch, section: made });
                self.coverage.saw(Situation::Thawed);
            }
        }
    }
}
