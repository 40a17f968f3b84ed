//! Requests of a process to its store. They are registrations, renewals, raises and commits of handovers. A request is
//! sent to one member after another until the leader responds.
//!
//! The modules `renewals`, `raises` and `store_calls` of `seq-core`, which `seq-alloc` uses, too, decide which request
//! is sent to which member and when. The code here reads the clocks before the first attempt of a request, drops
//! responses to abandoned attempts, and compares each response with earlier responses before it uses the response
//! (`rollback.rs`).

use std::rc::Rc;
use std::time::Duration;

use seq_core::high_water::Mark;
use seq_core::lease::{Clocks, LeaseTerms};
use seq_core::owner::handover::Handover;
use seq_core::owner::{AdoptError, OwnershipUpdate, Renewal, Session};
use seq_core::raise_bound::Lowered;
use seq_core::raises::{RaiseBatch, RaiseOptions, RaiseOutcome, RaisedSection};
use seq_core::renewals::Poll;
use seq_core::section::RaiseTicket;
use seq_core::store_calls::{AttemptFailure, DEFAULT_ATTEMPT_TIMEOUT, StoreCall};
use seq_core::{Epoch, SectionId, Seq};

use crate::bugs::Bug;
use crate::coverage::Situation;
use crate::events::{Event, Step};
use crate::faults::MS;
use crate::net::{Address, Body, StoreRequest, StoreResponse};
use crate::numbers::Owned;
use crate::store::{LONG_LEASE, LONG_TERMS};
use crate::world::{TERMS, World};

/// The options of raises in production, except that batches are small, so that the raises of a process need several
/// batches.
pub(crate) const RAISES: RaiseOptions = RaiseOptions { batch: 4, ..RaiseOptions::DEFAULTS };

impl RaisedSection for Owned {
    fn id(&self) -> SectionId {
        self.id
    }

    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn ceiling(&self) -> Seq {
        Owned::ceiling(self)
    }

    fn raise_target(&self) -> Option<Seq> {
        Owned::raise_target(self)
    }

    fn is_in_ticks(&self) -> bool {
        Owned::is_in_ticks(self)
    }

    fn adapt_step(&self, since: Duration, most: seq_core::Step) {
        Owned::adapt_step(self, since, most);
    }

    fn raised(&self, committed: Seq) -> Option<RaiseTicket> {
        Owned::raised(self, committed)
    }
}

/// The purpose of a request to the store.
#[derive(Debug)]
pub(crate) enum Purpose {
    Register,
    Renew(Renewal),
    Raise(RaiseBatch<Rc<Owned>>),
    Commit(Handover),
}

/// A request in flight to the store.
#[derive(Debug)]
pub(crate) struct Rpc {
    pub(crate) purpose: Purpose,
    request: Rc<StoreRequest>,
    sent: Clocks,
    call: StoreCall<usize>,
    /// The highest revision and liveness counter that the process had received when the attempt was sent. `answered` is
    /// the copy of this mark that the simulation keeps for its checks.
    pub(crate) seen: Mark,
    pub(crate) answered: Mark,
}

impl World {
    /// Sends the store a request to register the next incarnation of process `p`, unless the process has a session or
    /// has stopped.
    pub(crate) fn register(&mut self, p: usize) {
        if self.procs[p].owner.session().is_some() || self.procs[p].stopped {
            return;
        }
        let (terms, number) = (self.terms_of(self.procs[p].name), self.process_number(p));
        let process = &mut self.procs[p];
        process.terms = terms;
        let (name, port, token, follows) = (process.name, process.port, process.token, process.registrations.follows());
        let seen = process.water.mark().revision;
        self.request(
            p,
            Purpose::Register,
            StoreRequest::Register { name, port, token, lease: terms.lease, follows, seen, process: number },
        );
    }

    /// Returns the lease terms with which an AllocSvr registers now. The first AllocSvr registers with a longer lease
    /// as long as the terms of its set are [`LONG_TERMS`].
    fn terms_of(&self, name: usize) -> LeaseTerms {
        let long = name == 0 && self.stores[0].state.terms() == LONG_TERMS;
        if long { LeaseTerms { lease: LONG_LEASE, ..TERMS } } else { TERMS }
    }

    /// Returns the time that the state machines of `seq-core` get, which is the time since the begin of the world.
    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.now)
    }

    /// Draws the random part of the length of a wait.
    pub(crate) fn jitter(&mut self) -> u32 {
        (self.rng.next() >> 32) as u32
    }

    /// Sends a renewal of process `p` if it is due, or schedules the time at which it is due.
    pub(crate) fn renew(&mut self, p: usize) {
        let (now, expects) = (self.elapsed(), self.expects_update(p));
        let route_version = self.known_version(p);
        let process = &mut self.procs[p];
        process.polled_at = process.polled_at.filter(|at| *at > now);
        let Some(renewal) = process.owner.renewal() else { return };
        let renewal = Renewal { route_version, ..renewal };
        match process.renewals.poll(now, || expects) {
            Poll::Send => self.request(p, Purpose::Renew(renewal.clone()), StoreRequest::Renew(renewal)),
            Poll::Wait(due) if process.polled_at.is_none_or(|at| due < at) => {
                process.polled_at = Some(due);
                self.after((due - now).as_nanos() as u64, Event::Step(p, Step::Renew));
            }
            Poll::Wait(_) | Poll::Idle => {}
        }
    }

    /// Makes a renewal due soon, because process `p` has found that its routes or its table of owned sections is out of
    /// date.
    pub(crate) fn renew_now(&mut self, p: usize) {
        self.procs[p].renewals.on_stale();
        self.renew(p);
    }

    /// Makes a renewal due soon, because a peer has reported that a handover to process `p` is committed.
    pub(crate) fn on_grant_reported(&mut self, p: usize) {
        self.procs[p].renewals.on_grant_reported();
        self.renew(p);
    }

    /// Begins a request of process `p` to the store. Reads the clocks, from which the lease will count, before the
    /// first attempt of the request.
    pub(crate) fn request(&mut self, p: usize, purpose: Purpose, request: StoreRequest) {
        let id = self.fresh();
        let (sent, none) = (self.clock(p), Mark::default());
        let call = self.procs[p].members.begin();
        let rpc = Rpc { purpose, request: Rc::new(request), sent, call, seen: none, answered: none };
        self.procs[p].rpcs.insert(id, rpc);
        self.send_attempt(p, id);
    }

    fn send_attempt(&mut self, p: usize, id: u64) {
        let process = &mut self.procs[p];
        let rpc = process.rpcs.get_mut(&id).expect("it is under way");
        (rpc.seen, rpc.answered) = (process.water.mark(), process.answered);
        let (attempt, request) = (rpc.call.attempt(), rpc.request.clone());
        let (host, member) = (process.name, *rpc.call.member());
        self.send(host, Address::Member(member), Body::Request { process: p, rpc: id, attempt, request });
        let timeout = DEFAULT_ATTEMPT_TIMEOUT.as_nanos() as u64;
        self.after(timeout, Event::Step(p, Step::RequestTimeout(id, attempt)));
    }

    pub(crate) fn request_timed_out(&mut self, p: usize, id: u64, attempt: u32) {
        if self.procs[p].rpcs.get(&id).is_some_and(|rpc| rpc.call.attempt() == attempt) {
            self.next_attempt(p, id, AttemptFailure::NoResponse);
        }
    }

    fn next_attempt(&mut self, p: usize, id: u64, failure: AttemptFailure<usize>) {
        let (now, clocks) = (self.elapsed(), self.clock(p));
        let process = &mut self.procs[p];
        let rpc = process.rpcs.get_mut(&id).expect("it is under way");
        if self.bug == Some(Bug::ClockPerAttempt) {
            rpc.sent = clocks;
        }
        if process.members.on_failure(&mut rpc.call, failure, now) {
            return self.send_attempt(p, id);
        }
        let rpc = process.rpcs.remove(&id).expect("it is under way");
        self.request_failed(p, rpc.purpose);
    }

    /// Schedules the next request of the same purpose, after a request got no response from a leader.
    fn request_failed(&mut self, p: usize, purpose: Purpose) {
        match purpose {
            Purpose::Register => {
                let jitter = self.jitter();
                let wait = self.procs[p].registrations.on_failed(jitter);
                self.after(wait.as_nanos() as u64, Event::Step(p, Step::Register));
            }
            Purpose::Renew(renewal) => {
                let current = self.procs[p].owner.session() == Some(renewal.session);
                if current && self.bug != Some(Bug::RenewsOnce) {
                    let (now, jitter) = (self.elapsed(), self.jitter());
                    self.procs[p].renewals.on_failed(now, jitter);
                    self.renew(p);
                }
            }
            Purpose::Raise(batch) if self.bug == Some(Bug::ForgetsFailedRaise) => {
                self.procs[p].raises.on_session_over(batch);
            }
            Purpose::Raise(batch) => {
                let (now, jitter) = (self.elapsed(), self.jitter());
                let failed = self.procs[p].raises.on_failed(batch, now, jitter);
                let clocks = self.clock(p);
                self.step(p, |owner, _| owner.on_raise_failed(&failed, clocks));
                self.raise_later(p);
            }
            Purpose::Commit(handover) => self.commit_unknown(p, handover),
        }
    }

    /// Processes the response of a member of the store to an attempt of a request. Drops the response if the attempt
    /// was abandoned.
    pub(crate) fn response(&mut self, p: usize, id: u64, attempt: u32, rollbacks: u32, response: &Rc<StoreResponse>) {
        let any_attempt = self.bug == Some(Bug::ClockPerAttempt);
        if self.procs[p].rpcs.get(&id).is_none_or(|rpc| rpc.call.attempt() != attempt && !any_attempt) {
            self.coverage.saw(Situation::LateAnswer);
            return;
        }
        if let StoreResponse::NotLeader(leader) = **response {
            return self.next_attempt(p, id, AttemptFailure::NotLeader(Some(leader)));
        }
        let process = &mut self.procs[p];
        let rpc = process.rpcs.remove(&id).expect("it is under way");
        process.members.on_response(&rpc.call);
        if !self.may_use(p, &rpc, rollbacks, response) {
            return;
        }
        if self.bug == Some(Bug::LeaseBeforeNews)
            && matches!(**response, StoreResponse::Renewed(_) | StoreResponse::Raised(..))
            && self.procs[p].owner.session().is_some()
        {
            self.extend(p, rpc.sent);
            let wait = self.rng.between(MS, 50 * MS);
            return self.after(wait, Event::Step(p, Step::Settle(Box::new(rpc), response.clone())));
        }
        self.settle(p, rpc, response);
    }

    /// Adopts a response to a request after all checks of the response.
    pub(crate) fn settle(&mut self, p: usize, rpc: Rpc, response: &StoreResponse) {
        match (rpc.purpose, response) {
            (Purpose::Register, StoreResponse::Registered(session, _)) => self.registered(p, *session),
            (Purpose::Register, StoreResponse::Follow(newest)) => {
                if !self.procs[p].registrations.on_newer(*newest) {
                    return self.request_failed(p, Purpose::Register);
                }
                self.after(0, Event::Step(p, Step::Register));
            }
            (Purpose::Renew(renewal), StoreResponse::Renewed(update)) => {
                let (sent, update) = (rpc.sent, update.clone());
                let taken = self.step(p, |owner, effects| owner.on_renewed(&renewal, sent, update, effects));
                self.require_adopted(p, taken);
                if self.procs[p].owner.session() == Some(renewal.session) {
                    self.procs[p].renewals.on_response();
                    self.renew(p);
                }
            }
            (Purpose::Renew(renewal), StoreResponse::SessionOver(_)) => self.end_session(p, renewal.session),
            (Purpose::Raise(batch), StoreResponse::Raised(ceilings, update)) => {
                self.raised(p, batch, ceilings, rpc.sent, update.clone());
            }
            (Purpose::Raise(batch), StoreResponse::SessionOver(_)) => {
                let session = batch.session();
                self.procs[p].raises.on_session_over(batch);
                self.coverage.saw(Situation::RaiseRefused);
                self.end_session(p, session);
            }
            (Purpose::Commit(handover), response) => self.commit_response(p, handover, rpc.sent, response),
            (purpose, _) => self.request_failed(p, purpose),
        }
    }

    fn registered(&mut self, p: usize, session: Session) {
        if self.procs[p].owner.session().is_some() {
            return;
        }
        let now = self.elapsed();
        self.procs[p].node = session.node;
        self.procs[p].registrations.on_registered(now, session.incarnation);
        self.step(p, |owner, _| owner.on_registered(session));
        self.procs[p].renewals.on_registered();
        self.renew(p);
    }

    /// Returns whether process `p` or one of its calls waits for an ownership update, so that renewals should be more
    /// frequent.
    fn expects_update(&self, p: usize) -> bool {
        let process = &self.procs[p];
        process.awaits_owner() || process.owner.expects_update()
    }

    /// Sends all raises of process `p` that are due, in batches.
    pub(crate) fn raise(&mut self, p: usize) {
        let now = self.elapsed();
        loop {
            let since = self.known_version(p);
            let process = &mut self.procs[p];
            let (session, table) = (process.owner.session(), &process.table);
            let owns = |owned: &Rc<Owned>| table.get(&owned.id).is_some_and(|now| Rc::ptr_eq(now, owned));
            let Some(batch) = process.raises.next_batch(now, session, owns) else { return self.raise_later(p) };
            let raises: Vec<_> = batch.raises().collect();
            if self.bug == Some(Bug::CeilingBeforeCommit) {
                for raise in &raises {
                    let _ = process.table[&raise.section].raised(raise.to);
                }
            }
            let session = batch.session();
            let request = StoreRequest::Raise { session, raises, since, lowered: Lowered::default() };
            self.request(p, Purpose::Raise(batch), request);
        }
    }

    /// Schedules the time at which the next enqueued raises are due, unless an earlier time is scheduled.
    fn raise_later(&mut self, p: usize) {
        let (now, process) = (self.elapsed(), &mut self.procs[p]);
        process.raise_at = process.raise_at.filter(|at| *at > now);
        let Some(due) = process.raises.next_deadline().filter(|due| process.raise_at.is_none_or(|at| *due < at)) else {
            return;
        };
        process.raise_at = Some(due);
        self.after(due.saturating_sub(now).as_nanos() as u64, Event::Step(p, Step::RaiseAgain));
    }

    fn raised(
        &mut self,
        p: usize,
        batch: RaiseBatch<Rc<Owned>>,
        ceilings: &[Option<Seq>],
        sent: Clocks,
        update: OwnershipUpdate,
    ) {
        let session = batch.session();
        if !batch.fits(ceilings) {
            return self.check.broken(
                self.now,
                "a response to a raise fits its request",
                format!("process {p}: {ceilings:?}"),
            );
        }
        let outcome = self.procs[p].raises.on_response(batch, ceilings);
        self.adopt_ceilings(p, outcome.raised.iter().copied().zip(ceilings.iter().flatten().copied()));
        outcome.raised.iter().for_each(|_| self.coverage.saw(Situation::Raised));
        outcome.lost.iter().for_each(|_| self.coverage.saw(Situation::RaiseRefused));
        let after = AfterRaise { session, sent, update, outcome };
        self.wake(p);
        if self.swarm.interleave > 0 && self.rng.chance(self.swarm.interleave) {
            let gap = self.gap();
            self.after(gap, Event::Step(p, Step::AfterRaise(Box::new(after))));
        } else {
            self.after_raise(p, after);
        }
    }

    /// Adopts the rest of the response to a raise request, after the new ceilings were adopted. The rest is the refused
    /// raises and the ownership update.
    pub(crate) fn after_raise(&mut self, p: usize, after: AfterRaise) {
        let AfterRaise { session, sent, update, outcome: RaiseOutcome { raised, lost, .. } } = after;
        self.step(p, |owner, effects| {
            owner.on_raised(&raised);
            owner.on_lost(&lost, effects);
        });
        if !lost.is_empty() {
            self.renew_now(p);
        }
        let taken = self.step(p, |owner, effects| owner.on_update(session, sent, update, effects));
        self.require_adopted(p, taken);
        self.wake(p);
        self.raise(p);
    }

    /// Checks that process `p` could adopt an ownership update. The update of a correct store can always be adopted,
    /// because it is based on the route version that the request of the process named.
    pub(crate) fn require_adopted(&mut self, p: usize, taken: Result<(), AdoptError>) {
        if let Err(error) = taken {
            self.check.broken(self.now, "ownership updates are adopted", format!("process {p}: {error}"));
        }
    }
}

/// The part of the response to a raise request that is adopted after the new ceilings.
#[derive(Debug)]
pub(crate) struct AfterRaise {
    session: Session,
    sent: Clocks,
    update: OwnershipUpdate,
    outcome: RaiseOutcome,
}
