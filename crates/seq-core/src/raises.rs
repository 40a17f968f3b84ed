//! The raise queue of an AllocSvr. It decides which raises are requested from the store, in which batches, and when.
//!
//! A section is queued together with its [`RaiseTicket`]. Each section has only one ticket, so at most one raise of a
//! section is queued or in flight. A raise that failed is queued again. After a failed call no batch is sent until a
//! wait has ended, so a store that does not respond gets only one round of calls in each wait. A raise that the store
//! refused is not repeated, because the ownership is over. If the store refuses a batch because the ceiling of one
//! section would rise too fast, only that section is delayed. Its ownership continues, and the other sections of the
//! batch are queued again at once. A section of lanes with a clock is also delayed if the store raised its ceiling by
//! less than requested.
//!
//! The step of a busy section may grow up to a limit, so that the section is raised less often. The queue changes the
//! step when it makes a batch with the section, at most once for each committed raise.
//!
//! Times are durations since an arbitrary origin that is the same in all calls. The caller reads the clock.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::Deref;
use core::time::Duration;

use crate::backoff::Backoff;
use crate::id::{Epoch, SectionId, Seq, Step};
use crate::limits;
use crate::owner::Session;
use crate::raise_rate::LONGEST_WAIT;
use crate::renewals::RenewalOptions;
use crate::section::RaiseTicket;
use crate::state::Raise;

/// Time before the next raise of a section of lanes with a clock, after the store committed a lower ceiling than
/// requested. Without this time, a node whose clock is wrong would request a raise at every call, and fill the store's
/// log.
const SHORT_RAISE_PAUSE: Duration = Duration::from_millis(100);

/// Batches and intervals of raises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaiseOptions {
    /// Maximum number of sections that one call to the store raises, 1 up to [`limits::MAX_RAISES`].
    pub batch: usize,
    /// Maximum number of calls to the store in flight, 1 or above.
    pub in_flight: usize,
    /// Wait after the first failed call to the store. The wait doubles with each further failed call.
    pub retry_min: Duration,
    /// Longest wait after a failed call to the store.
    pub retry_max: Duration,
    /// The step up to which that of a busy section grows. Below the step of the set, no step grows.
    pub step_max: Step,
}

impl RaiseOptions {
    /// Options for a network within a region. If more calls were in flight, the calls would only wait for each other in
    /// the store's log.
    pub const DEFAULTS: RaiseOptions = RaiseOptions {
        batch: limits::MAX_RAISES,
        in_flight: 4,
        retry_min: RenewalOptions::DEFAULTS.retry_min,
        retry_max: RenewalOptions::DEFAULTS.retry_max,
        step_max: Step(0),
    };
}

/// Functions of a section that the raise queue needs. The queue has handles of sections. The caller's table of sections
/// has handles of the same sections.
pub trait RaisedSection {
    /// Returns the section's id.
    fn id(&self) -> SectionId;
    /// Returns the epoch of the ownership.
    fn epoch(&self) -> Epoch;
    /// Returns the committed ceiling as known here.
    fn ceiling(&self) -> Seq;
    /// Returns the ceiling that a raise should request; see [`Section::raise_target`](crate::Section::raise_target).
    fn raise_target(&self) -> Option<Seq>;
    /// Returns whether the numbers of the section follow a clock, so that the store may commit a lower ceiling than
    /// requested; see [`Section::is_in_ticks`](crate::Section::is_in_ticks).
    fn is_in_ticks(&self) -> bool {
        false
    }
    /// Adapts the step to the time since the last raise of this ownership was requested; see
    /// [`Section::adapt_step`](crate::Section::adapt_step).
    fn adapt_step(&self, since: Duration, most: Step);
    /// Adopts a committed ceiling, and notifies the calls that wait at the ceiling. Returns a ticket if the section
    /// needs another raise; see [`Section::raised`](crate::Section::raised).
    fn raised(&self, committed: Seq) -> Option<RaiseTicket>;
}

/// The raise queue.
#[derive(Debug)]
pub struct RaiseQueue<S> {
    options: RaiseOptions,
    /// Sections to raise, in the order in which they were queued. If a section left and entered again, its old and its
    /// new ownership may both be here, until the old ownership is dropped when a batch is made.
    pending: VecDeque<(S, RaiseTicket)>,
    /// Sections whose ceiling would rise too fast, or for which the store last committed a lower ceiling than
    /// requested. Each has the time at which it becomes pending again. There is at most one entry for each ticket.
    /// Usually there are few entries, because a section that raises its ceiling only as fast as it allocates numbers is
    /// never delayed.
    delayed: Vec<(Duration, S, RaiseTicket)>,
    /// Sections of lanes with a clock for which the store last committed a lower ceiling than requested. Each has the
    /// time before which its next raise must not be requested. There is at most one entry for each section.
    cut_short: BTreeMap<SectionId, Duration>,
    /// Ownerships with a committed raise after which no raise has been requested, each with the time of that request.
    /// Empty if no step grows. There is at most one entry for each section of the set.
    committed: BTreeMap<SectionId, (Epoch, Duration)>,
    in_flight: usize,
    backoff: Backoff,
    /// Time before which no batch is sent.
    paused_until: Option<Duration>,
}

/// Sections and the ceilings that one call requests for them, under one incarnation. After the call, the caller gives
/// the batch back to the queue together with the outcome of the call.
#[must_use = "sections of a batch are raised again only after its outcome is given back to the queue"]
#[derive(Debug)]
pub struct RaiseBatch<S> {
    session: Session,
    /// Time when the batch was sent.
    sent: Duration,
    raises: Vec<(S, RaiseTicket, Seq)>,
}

/// Effect of the response to a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RaiseOutcome {
    /// Ownerships whose ceiling is committed, for [`Owner::on_raised`](crate::owner::Owner::on_raised).
    pub raised: Vec<(SectionId, Epoch)>,
    /// Distance by which each ceiling moved, in the order of `raised`.
    pub distances: Vec<u64>,
    /// Ownerships that are over, for [`Owner::on_lost`](crate::owner::Owner::on_lost).
    pub lost: Vec<(SectionId, Epoch)>,
}

impl<S: Deref<Target: RaisedSection>> RaiseBatch<S> {
    /// Returns the incarnation.
    #[must_use]
    pub fn session(&self) -> Session {
        self.session
    }

    /// Returns the number of sections, 1 or above.
    #[must_use]
    pub fn sections(&self) -> usize {
        self.raises.len()
    }

    /// Returns the raises to request.
    pub fn raises(&self) -> impl Iterator<Item = Raise> {
        self.raises.iter().map(|(section, _, to)| Raise { section: section.id(), epoch: section.epoch(), to: *to })
    }

    /// Returns whether `ceilings`, the content of a response, is a valid response to the batch. It must have one entry
    /// for each raise. The entry is `None` if the raise is refused. Otherwise it is a ceiling that is at least the
    /// requested ceiling or at least [`limits::MAX_RAISE`], and not above [`Seq::MAX`]. For lanes with a clock the
    /// ceiling may be lower.
    #[must_use]
    pub fn fits(&self, ceilings: &[Option<Seq>]) -> bool {
        let fits = |((section, _, to), ceiling): (&(S, RaiseTicket, Seq), &Option<Seq>)| {
            let covers = |ceiling: Seq| ceiling.0 >= to.0.min(limits::MAX_RAISE) || section.is_in_ticks();
            ceiling.is_none_or(|ceiling| covers(ceiling) && ceiling <= Seq::MAX)
        };
        ceilings.len() == self.raises.len() && self.raises.iter().zip(ceilings).all(fits)
    }

    fn ownerships(&self) -> Vec<(SectionId, Epoch)> {
        self.raises.iter().map(|(section, ..)| (section.id(), section.epoch())).collect()
    }
}

impl<S: Deref<Target: RaisedSection>> RaiseQueue<S> {
    /// Creates an empty queue.
    #[must_use]
    pub fn new(options: RaiseOptions) -> RaiseQueue<S> {
        RaiseQueue {
            options,
            pending: VecDeque::new(),
            delayed: Vec::new(),
            cut_short: BTreeMap::new(),
            committed: BTreeMap::new(),
            in_flight: 0,
            backoff: Backoff::new(options.retry_min, options.retry_max),
            paused_until: None,
        }
    }

    /// Queues a section. If the store last committed a lower ceiling for the section than requested, delays the
    /// section.
    pub fn enqueue(&mut self, section: S, ticket: RaiseTicket) {
        match self.cut_short.remove(&section.id()) {
            Some(at) => self.delayed.push((at, section, ticket)),
            None => self.pending.push_back((section, ticket)),
        }
    }

    /// Returns the batch to send now under the incarnation `session`; `None` if there is no incarnation, no section is
    /// pending, no further call may be in flight, or a wait has not ended.
    ///
    /// `owns` returns whether the caller's table has exactly this section, under the same ownership. The caller must
    /// read the table after the sections were queued. If the table does not have the section, the section has left
    /// permanently, and is dropped from the queue.
    pub fn next_batch(
        &mut self,
        now: Duration,
        session: Option<Session>,
        owns: impl Fn(&S) -> bool,
    ) -> Option<RaiseBatch<S>> {
        self.paused_until = self.paused_until.filter(|until| now < *until);
        let due = self.delayed.extract_if(.., |(at, ..)| *at <= now);
        self.pending.extend(due.map(|(_, section, ticket)| (section, ticket)));
        if self.paused_until.is_some() || self.in_flight >= self.options.in_flight {
            return None;
        }
        let Some(session) = session else {
            self.pending.clear();
            self.delayed.clear();
            self.committed.clear();
            return None;
        };
        while !self.pending.is_empty() {
            let most = self.pending.len().min(self.options.batch);
            let target = |(section, ticket): (S, RaiseTicket)| {
                if let Some((epoch, at)) = self.committed.remove(&section.id())
                    && epoch == section.epoch()
                {
                    section.adapt_step(now.saturating_sub(at), self.options.step_max);
                }
                let to = section.raise_target()?;
                Some((section, ticket, to))
            };
            let owned = self.pending.drain(..most).filter(|(section, _)| owns(section));
            let mut raises: Vec<_> = owned.filter_map(target).collect();
            // Because of this order the store can check without a copy of the batch that no section is in it twice.
            raises.sort_unstable_by_key(|(section, ..)| section.id());
            if !raises.is_empty() {
                self.in_flight += 1;
                return Some(RaiseBatch { session, sent: now, raises });
            }
        }
        None
    }

    /// Returns the time when [`RaiseQueue::next_batch`] may return a batch even if no section is queued and no response
    /// arrives until then.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        self.paused_until.or_else(|| self.delayed.iter().map(|(at, ..)| *at).min())
    }

    /// Adopts the committed ceilings of a response that [fits](RaiseBatch::fits). The sections use the ceilings only
    /// after this call, so no number is allocated under a ceiling before the ceiling is durable.
    ///
    /// # Panics
    /// When there are fewer ceilings than raises.
    pub fn on_response(&mut self, batch: RaiseBatch<S>, ceilings: &[Option<Seq>]) -> RaiseOutcome {
        assert!(ceilings.len() >= batch.raises.len(), "a response that does not fit");
        self.on_answered();
        let mut outcome = RaiseOutcome::default();
        for ((section, _, to), ceiling) in batch.raises.into_iter().zip(ceilings) {
            let ownership = (section.id(), section.epoch());
            let Some(ceiling) = *ceiling else {
                outcome.lost.push(ownership);
                continue;
            };
            outcome.raised.push(ownership);
            outcome.distances.push(ceiling.0.saturating_sub(section.ceiling().0));
            if self.options.step_max > Step(0) {
                self.committed.insert(ownership.0, (ownership.1, batch.sent));
            }
            if ceiling < to {
                self.cut_short.insert(section.id(), batch.sent + SHORT_RAISE_PAUSE);
            }
            if let Some(next) = section.raised(ceiling) {
                self.enqueue(section, next);
            }
        }
        outcome
    }

    /// Queues the sections of a batch again, because the call failed or its response does not fit. No batch is sent
    /// until a wait has ended. `random` is any 32 bits. Returns the ownerships of the batch, for
    /// [`Owner::on_raise_failed`](crate::owner::Owner::on_raise_failed).
    pub fn on_failed(&mut self, batch: RaiseBatch<S>, now: Duration, random: u32) -> Vec<(SectionId, Epoch)> {
        self.in_flight -= 1;
        self.paused_until = Some(now + self.backoff.wait(random));
        let failed = batch.ownerships();
        self.pending.extend(batch.raises.into_iter().map(|(section, ticket, _)| (section, ticket)));
        failed
    }

    /// Continues after the store refused the batch, because the ceiling of `section` would rise too fast. Delays this
    /// section for `after`, but at least for the first wait after a failed call and at most for [`LONGEST_WAIT`].
    /// Queues the other sections of the batch again at once, and returns no ownerships. Each refusal delays one
    /// section, so the number of refusals in a row is at most the number of sections in the batch. If the section is
    /// not in the batch, does the same as [`RaiseQueue::on_failed`]. `random` is any 32 bits.
    pub fn on_too_fast(
        &mut self,
        mut batch: RaiseBatch<S>,
        section: SectionId,
        after: Duration,
        now: Duration,
        random: u32,
    ) -> Vec<(SectionId, Epoch)> {
        let Some(index) = batch.raises.iter().position(|(one, ..)| one.id() == section) else {
            return self.on_failed(batch, now, random);
        };
        self.on_answered();
        let (section, ticket, _) = batch.raises.remove(index);
        self.delayed.push((now + after.clamp(self.options.retry_min.min(LONGEST_WAIT), LONGEST_WAIT), section, ticket));
        self.pending.extend(batch.raises.into_iter().map(|(section, ticket, _)| (section, ticket)));
        Vec::new()
    }

    /// Drops the batch, because the incarnation is over and no longer owns the sections.
    pub fn on_session_over(&mut self, batch: RaiseBatch<S>) {
        drop(batch);
        self.on_answered();
    }

    fn on_answered(&mut self) {
        self.in_flight -= 1;
        self.backoff.reset();
        self.paused_until = None;
    }
}

#[cfg(test)]
mod tests;
