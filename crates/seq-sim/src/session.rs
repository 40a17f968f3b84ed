//! A process and its store: registering, renewing, raising, and the way to whichever member leads.
//!
//! The rules are those of `seq-alloc`'s `session.rs`, `ceiling.rs` and `store_link.rs`: the clocks are read before the first
//! attempt, an attempt without an answer goes to the next member, and a late one is dropped. A response is
//! compared with earlier ones before it is used: see `rollback.rs`.

use std::rc::Rc;

use seq_core::high_water::Mark;
use seq_core::lease::{Clocks, LeaseTerms};
use seq_core::owner::handover::Handover;
use seq_core::owner::{AdoptError, OwnershipUpdate, Renewal, Session};
use seq_core::state::Raise;
use seq_core::{Epoch, SectionId, Seq};

use crate::bugs::Bug;
use crate::coverage::Situation;
use crate::faults::{MEMBERS, MS};
use crate::net::{Address, Body, Question, Told};
use crate::process::Owned;
use crate::store::{LONG_LEASE, LONG_TERMS};
use crate::world::{Event, Step, TERMS, World};

/// How long one member may take.
const STORE_TIMEOUT: u64 = 500 * MS;

/// Time between renewals while nothing is expected.
const RENEW_EVERY: u64 = 400 * MS;

/// The least time between two renewals.
const CLAIM_EVERY: u64 = 50 * MS;

/// The least time between two renewals that Activates ask for.
const GRANT_EVERY: u64 = 5 * MS;

/// Calls for raises under way.
const RAISES_IN_FLIGHT: u32 = 4;

/// Sections in a batch of raises: few, so that batches are cut.
const RAISE_BATCH: usize = 4;

/// What a question is about.
#[derive(Clone, Debug)]
pub(crate) enum About {
    Register,
    Renew(Renewal),
    Raise(Session, Vec<(Rc<Owned>, Seq)>),
    Commit(Handover),
}

/// A question under way.
#[derive(Clone, Debug)]
pub(crate) struct Rpc {
    pub(crate) about: About,
    question: Rc<Question>,
    sent: Clocks,
    attempt: u32,
    /// What had been seen when the attempt was sent, and what had been answered.
    pub(crate) seen: Mark,
    pub(crate) answered: Mark,
}

impl World {
    /// Begins an incarnation, or goes on trying to.
    pub(crate) fn register(&mut self, p: usize) {
        if self.procs[p].owner.session().is_some() || self.procs[p].stopped {
            return;
        }
        let terms = self.terms_of(self.procs[p].name);
        let process = &mut self.procs[p];
        process.terms = terms;
        let (name, port, token, follows) = (process.name, process.port, process.token, process.follows);
        let seen = process.water.mark().revision;
        self.ask(p, About::Register, Question::Register { name, port, token, lease: terms.lease, follows, seen });
    }

    /// The terms that a name registers with now: the first one's leases are longer where the set's terms allow for it.
    fn terms_of(&self, name: usize) -> LeaseTerms {
        let long = name == 0 && self.store.state.terms() == LONG_TERMS;
        if long { LeaseTerms { lease: LONG_LEASE, ..TERMS } } else { TERMS }
    }

    /// Renews, if it is time.
    pub(crate) fn renew(&mut self, p: usize) {
        let (now, process) = (self.now, &mut self.procs[p]);
        if process.renewing || now < process.renew_due {
            return;
        }
        let Some(renewal) = process.owner.renewal() else { return };
        process.renewing = true;
        process.grant_due = false;
        process.renewed_at = now;
        process.renew_due = u64::MAX;
        self.ask(p, About::Renew(renewal.clone()), Question::Renew(renewal));
    }

    /// Has the next renewal sent no later than at a time.
    fn renew_at(&mut self, p: usize, due: u64) {
        let process = &mut self.procs[p];
        if due < process.renew_due {
            process.renew_due = due;
            let now = self.now;
            self.after(due.saturating_sub(now), Event::Step(p, Step::Renew));
        }
    }

    /// What is known here proved old.
    pub(crate) fn renew_now(&mut self, p: usize) {
        if !self.procs[p].renewing && self.procs[p].owner.session().is_some() {
            self.renew_at(p, (self.procs[p].renewed_at + CLAIM_EVERY).max(self.now));
        }
    }

    /// A peer says that a planned move to this process is committed.
    pub(crate) fn ask_grant(&mut self, p: usize) {
        self.procs[p].grant_due = true;
        if !self.procs[p].renewing && self.procs[p].owner.session().is_some() {
            self.renew_at(p, (self.procs[p].renewed_at + GRANT_EVERY).max(self.now));
        }
    }

    /// Asks the store. The clocks are read here, before anything is sent.
    pub(crate) fn ask(&mut self, p: usize, about: About, question: Question) {
        let id = self.fresh();
        let (sent, none) = (self.clock(p), Mark::default());
        let rpc = Rpc { about, question: Rc::new(question), sent, attempt: 0, seen: none, answered: none };
        self.procs[p].rpcs.insert(id, rpc);
        self.attempt_ask(p, id);
    }

    fn attempt_ask(&mut self, p: usize, id: u64) {
        let process = &mut self.procs[p];
        let rpc = process.rpcs.get_mut(&id).expect("it is under way");
        (rpc.seen, rpc.answered) = (process.water.mark(), process.answered);
        let (attempt, question) = (rpc.attempt, rpc.question.clone());
        let (host, leader) = (process.name, process.leader);
        self.send(host, Address::Member(leader), Body::Ask { process: p, rpc: id, attempt, question });
        self.after(STORE_TIMEOUT, Event::Step(p, Step::AskTimeout(id, attempt)));
    }

    pub(crate) fn ask_timed_out(&mut self, p: usize, id: u64, attempt: u32) {
        if self.procs[p].rpcs.get(&id).is_some_and(|rpc| rpc.attempt == attempt) {
            let next = (self.procs[p].leader + 1) % MEMBERS;
            self.ask_next(p, id, next);
        }
    }

    fn ask_next(&mut self, p: usize, id: u64, member: usize) {
        let process = &mut self.procs[p];
        process.leader = member;
        let rpc = process.rpcs.get_mut(&id).expect("it is under way");
        rpc.attempt += 1;
        if rpc.attempt as usize <= MEMBERS {
            return self.attempt_ask(p, id);
        }
        let rpc = process.rpcs.remove(&id).expect("it is under way");
        self.ask_failed(p, rpc.about);
    }

    /// No member answered as the leader.
    fn ask_failed(&mut self, p: usize, about: About) {
        match about {
            About::Register => {
                let wait = self.backoff(p);
                self.after(wait, Event::Step(p, Step::Register));
            }
            About::Renew(renewal) => {
                if self.procs[p].owner.session() == Some(renewal.session) {
                    self.procs[p].renewing = false;
                    let due = self.now + self.backoff(p);
                    self.renew_at(p, due);
                }
            }
            About::Raise(_, batch) => {
                let failed: Vec<_> = batch.iter().map(|(owned, _)| (owned.id, owned.epoch)).collect();
                let now = self.clock(p);
                self.step(p, |owner, _| owner.on_raise_failed(&failed, now));
                let wait = self.backoff(p);
                let process = &mut self.procs[p];
                process.raises -= 1;
                process.line.extend(batch.into_iter().map(|(owned, _)| owned));
                process.raise_waits = true;
                self.after(wait, Event::Step(p, Step::RaiseAgain));
            }
            About::Commit(handover) => self.commit_unknown(p, handover),
        }
    }

    /// A message of a member arrived.
    pub(crate) fn told(&mut self, p: usize, id: u64, attempt: u32, rollbacks: u32, told: &Rc<Told>) {
        if self.procs[p].rpcs.get(&id).is_none_or(|rpc| rpc.attempt != attempt) {
            self.coverage.saw(Situation::LateAnswer);
            return;
        }
        if let Told::NotLeader(leader) = **told {
            let at = self.procs[p].leader;
            let next = if leader == at { (at + 1) % MEMBERS } else { leader };
            return self.ask_next(p, id, next);
        }
        let rpc = self.procs[p].rpcs.remove(&id).expect("it is under way");
        if !self.may_use(p, &rpc, rollbacks, told) {
            return;
        }
        if self.bug == Some(Bug::LeaseBeforeNews)
            && matches!(**told, Told::Renewed(_) | Told::Raised(..))
            && self.procs[p].owner.session().is_some()
        {
            self.extend(p, rpc.sent);
            let wait = self.rng.between(MS, 50 * MS);
            return self.after(wait, Event::Step(p, Step::Settle(Box::new(rpc), told.clone())));
        }
        self.settle(p, rpc, told);
    }

    /// An answer is taken in.
    pub(crate) fn settle(&mut self, p: usize, rpc: Rpc, told: &Told) {
        match (rpc.about, told) {
            (About::Register, Told::Registered(session, _)) => self.registered(p, *session),
            (About::Register, Told::Follow(newest)) => {
                self.procs[p].follows = *newest;
                self.after(0, Event::Step(p, Step::Register));
            }
            (About::Renew(renewal), Told::Renewed(update)) => {
                self.procs[p].backoff = 0;
                let (sent, update) = (rpc.sent, update.clone());
                let taken = self.step(p, |owner, effects| owner.on_renewed(&renewal, sent, update, effects));
                self.news_taken(p, taken);
                if self.procs[p].owner.session() == Some(renewal.session) {
                    self.procs[p].renewing = false;
                    let wait = match (self.procs[p].grant_due, self.expects_update(p)) {
                        (true, _) => GRANT_EVERY,
                        (false, true) => CLAIM_EVERY,
                        (false, false) => RENEW_EVERY,
                    };
                    self.renew_at(p, (self.procs[p].renewed_at + wait).max(self.now));
                }
            }
            (About::Renew(renewal), Told::SessionOver(_)) => self.end_session(p, renewal.session),
            (About::Raise(session, batch), Told::Raised(ceilings, update)) => {
                self.procs[p].backoff = 0;
                self.raised(p, session, batch, ceilings, rpc.sent, update.clone());
            }
            (About::Raise(session, _), Told::SessionOver(_)) => {
                self.procs[p].raises -= 1;
                self.coverage.saw(Situation::RaiseRefused);
                self.end_session(p, session);
            }
            (About::Commit(handover), told) => self.commit_told(p, handover, rpc.sent, told),
            (about, _) => self.ask_failed(p, about),
        }
    }

    fn registered(&mut self, p: usize, session: Session) {
        if self.procs[p].owner.session().is_some() {
            return;
        }
        self.procs[p].node = session.node;
        self.procs[p].follows = session.incarnation;
        self.step(p, |owner, _| owner.on_registered(session));
        let process = &mut self.procs[p];
        process.renewing = false;
        process.backoff = 0;
        process.renew_due = u64::MAX;
        let now = self.now;
        self.renew_at(p, now);
    }

    /// Whether the next answer may well bring what somebody waits for.
    fn expects_update(&self, p: usize) -> bool {
        let process = &self.procs[p];
        let owner = &process.owner;
        if process.awaits_owner() || owner.handovers_in_progress() > 0 || owner.is_leaving() {
            return true;
        }
        let Some(routes) = owner.routes() else { return true };
        let may_come =
            |id| routes.get(SectionId(id)).is_some_and(|route| route.owner.is_none_or(|owner| owner == process.node));
        owner.owned().next().is_none() && (0..self.layout.sections()).any(may_come)
    }

    /// Sends raises for the sections in line.
    pub(crate) fn raise(&mut self, p: usize) {
        loop {
            let process = &mut self.procs[p];
            if process.raise_waits || process.raises == RAISES_IN_FLIGHT || process.line.is_empty() {
                return;
            }
            let Some(session) = process.owner.session() else {
                process.line.clear();
                return;
            };
            let many = process.line.len().min(RAISE_BATCH);
            let waiting: Vec<_> = process.line.drain(..many).collect();
            let held = waiting.into_iter().filter(|owned| process.has(owned));
            let batch: Vec<_> =
                held.filter_map(|owned| owned.section.raise_target().map(|target| (owned, target))).collect();
            if batch.is_empty() {
                continue;
            }
            process.raises += 1;
            let raises =
                batch.iter().map(|(owned, to)| Raise { section: owned.id, epoch: owned.epoch, to: *to }).collect();
            let since = process.owner.known_version();
            self.ask(p, About::Raise(session, batch), Question::Raise { session, raises, since });
        }
    }

    fn raised(
        &mut self,
        p: usize,
        session: Session,
        batch: Vec<(Rc<Owned>, Seq)>,
        ceilings: &[Option<Seq>],
        sent: Clocks,
        update: OwnershipUpdate,
    ) {
        self.procs[p].raises -= 1;
        let mut after = AfterRaise { session, sent, update, raised: Vec::new(), lost: Vec::new() };
        for ((owned, _), ceiling) in batch.into_iter().zip(ceilings) {
            let Some(ceiling) = ceiling else {
                self.coverage.saw(Situation::RaiseRefused);
                after.lost.push((owned.id, owned.epoch));
                continue;
            };
            after.raised.push((owned.id, owned.epoch));
            self.coverage.saw(Situation::Raised);
            if owned.section.raised(*ceiling) {
                self.procs[p].line.push(owned);
            }
        }
        self.wake(p);
        if self.swarm.interleave > 0 && self.rng.chance(self.swarm.interleave) {
            let gap = self.gap();
            self.after(gap, Event::Step(p, Step::AfterRaise(Box::new(after))));
        } else {
            self.after_raise(p, after);
        }
    }

    /// The rest of an answer to a raise, when the ceilings are in place already.
    pub(crate) fn after_raise(&mut self, p: usize, after: AfterRaise) {
        let AfterRaise { session, sent, update, raised, lost } = after;
        self.step(p, |owner, effects| {
            owner.on_raised(&raised);
            owner.on_lost(&lost, effects);
        });
        if !lost.is_empty() {
            self.renew_now(p);
        }
        let taken = self.step(p, |owner, effects| owner.on_update(session, sent, update, effects));
        self.news_taken(p, taken);
        self.wake(p);
        self.raise(p);
    }

    /// Every delta builds on what its question named, so a store that answers as it should is always understood.
    pub(crate) fn news_taken(&mut self, p: usize, taken: Result<(), AdoptError>) {
        if let Err(error) = taken {
            self.check.broken(self.now, "update are understood", format!("process {p}: {error}"));
        }
    }
}

/// What is left to do with an answer to a raise.
#[derive(Debug)]
pub(crate) struct AfterRaise {
    session: Session,
    sent: Clocks,
    update: OwnershipUpdate,
    raised: Vec<(SectionId, Epoch)>,
    lost: Vec<(SectionId, Epoch)>,
}
