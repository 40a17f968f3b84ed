//! The raise queue of an AllocSvr: it decides which ceilings are requested from the store, in which batches, and when.
//!
//! A section is queued by its only [`RaiseTicket`], so at most one raise of a section is queued or in flight. A raise
//! that failed is queued again, and no batch is sent before its wait has ended, so a store that does not respond gets
//! one round of calls for each wait. A raise that the store refused is not repeated, because the ownership is over. If
//! the ceiling of a section would rise too fast, only that section is delayed: its ownership continues, and the other
//! sections are raised at once. The same holds for a section of ticks that the store raised by less than requested.
//!
//! Time is a duration since any origin, the same in all calls; the shell reads it.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::Deref;
use core::time::Duration;

use crate::backoff::Backoff;
use crate::id::{Epoch, SectionId, Seq};
use crate::limits;
use crate::owner::Session;
use crate::raise_rate::LONGEST_WAIT;
use crate::renewals::RenewalOptions;
use crate::section::RaiseTicket;
use crate::state::Raise;

/// Pause after a raise of ticks that the store cut short. A node whose clock is wrong requests at every call, and must
/// not fill the store's log.
const SHORT_RAISE_PAUSE: Duration = Duration::from_millis(100);

/// Batches and intervals of raises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaiseOptions {
    /// Most sections raised by one call, 1 up to [`limits::MAX_RAISES`].
    pub batch: usize,
    /// Most calls in flight, 1 or above.
    pub in_flight: usize,
    /// Wait after the first failed call; doubles with each further one.
    pub retry_min: Duration,
    /// Longest wait after a failed call.
    pub retry_max: Duration,
}

impl RaiseOptions {
    /// Options for a network within a region. If more calls are in flight, they queue in the store's log.
    pub const DEFAULTS: RaiseOptions = RaiseOptions {
        batch: limits::MAX_RAISES,
        in_flight: 4,
        retry_min: RenewalOptions::DEFAULTS.retry_min,
        retry_max: RenewalOptions::DEFAULTS.retry_max,
    };
}

/// A section as the raise queue needs it. The queue holds handles that the shell shares with its table.
pub trait RaisedSection {
    /// Returns the section's id.
    fn id(&self) -> SectionId;
    /// Returns the epoch of the ownership.
    fn epoch(&self) -> Epoch;
    /// Returns the committed ceiling as known here.
    fn ceiling(&self) -> Seq;
    /// Returns the ceiling to request; see [`Section::raise_target`](crate::Section::raise_target).
    fn raise_target(&self) -> Option<Seq>;
    /// Returns whether the store may commit less than requested; see
    /// [`Section::is_in_ticks`](crate::Section::is_in_ticks).
    fn is_in_ticks(&self) -> bool {
        false
    }
    /// Adopts a committed ceiling; see [`Section::raised`](crate::Section::raised). Also notifies the calls that wait
    /// at the ceiling.
    fn raised(&self, committed: Seq) -> Option<RaiseTicket>;
}

/// The raise queue.
#[derive(Debug)]
pub struct RaiseQueue<S> {
    options: RaiseOptions,
    /// Sections to raise, oldest first. A section that left may be here together with its successor until it is dropped
    /// from a batch.
    pending: VecDeque<(S, RaiseTicket)>,
    /// Sections whose ceiling would rise too fast, or whose last raise was cut short, with the time from which they are
    /// pending again. At most one for each ticket; few, because a section that raises its ceiling as fast as it
    /// allocates numbers is never delayed.
    delayed: Vec<(Duration, S, RaiseTicket)>,
    /// Sections whose last raise was cut short, with the time before which they request no other. At most one entry for
    /// each section of ticks.
    cut_short: BTreeMap<SectionId, Duration>,
    in_flight: usize,
    backoff: Backoff,
    /// Time before which no batch is sent.
    paused_until: Option<Duration>,
}

/// Sections and the ceilings to request, under one incarnation. The batch is returned to the queue with its outcome.
#[must_use = "sections of a batch are raised again only after its outcome is given back to the queue"]
#[derive(Debug)]
pub struct RaiseBatch<S> {
    session: Session,
    /// Time when the batch was sent.
    sent: Duration,
    raises: Vec<(S, RaiseTicket, Seq)>,
}

/// Effect of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RaiseOutcome {
    /// Ownerships whose ceiling is committed, for [`Owner::on_raised`](crate::owner::Owner::on_raised).
    pub raised: Vec<(SectionId, Epoch)>,
    /// Distance that each ceiling moved, in the order of `raised`.
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

    /// Returns whether a response fits: for each raise it has `None` if the raise is refused, or else a ceiling that
    /// covers the requested ceiling, as far as one raise goes. Ticks may get any ceiling.
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
            in_flight: 0,
            backoff: Backoff::new(options.retry_min, options.retry_max),
            paused_until: None,
        }
    }

    /// Queues a section, for a later time if its last raise was cut short.
    pub fn enqueue(&mut self, section: S, ticket: RaiseTicket) {
        match self.cut_short.remove(&section.id()) {
            Some(at) => self.delayed.push((at, section, ticket)),
            None => self.pending.push_back((section, ticket)),
        }
    }

    /// Returns the batch to send now, under the current incarnation; `None` if there is none, or it must wait.
    ///
    /// `owns` returns whether exactly this section is in the table, read after the sections were queued: a missing
    /// section has left permanently, and is dropped.
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
            return None;
        };
        while !self.pending.is_empty() {
            let most = self.pending.len().min(self.options.batch);
            let target = |(section, ticket): (S, RaiseTicket)| {
                let to = section.raise_target()?;
                Some((section, ticket, to))
            };
            let owned = self.pending.drain(..most).filter(|(section, _)| owns(section));
            let mut raises: Vec<_> = owned.filter_map(target).collect();
            // In this order the store checks without a copy that no section is in a batch twice.
            raises.sort_unstable_by_key(|(section, ..)| section.id());
            if !raises.is_empty() {
                self.in_flight += 1;
                return Some(RaiseBatch { session, sent: now, raises });
            }
        }
        None
    }

    /// Returns the time when [`RaiseQueue::next_batch`] may return a batch even if nothing was queued and no response
    /// came.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        self.paused_until.or_else(|| self.delayed.iter().map(|(at, ..)| *at).min())
    }

    /// Adopts the committed ceilings of a response that [fits](RaiseBatch::fits). Only now do the sections use them, so
    /// a ceiling is durable before it is visible.
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
            if ceiling < to {
                self.cut_short.insert(section.id(), batch.sent + SHORT_RAISE_PAUSE);
            }
            if let Some(next) = section.raised(ceiling) {
                self.enqueue(section, next);
            }
        }
        outcome
    }

    /// Queues the sections again after a wait, because the call failed, or its response does not fit. `random` is any
    /// 32 bits. Returns the ownerships, for [`Owner::on_raise_failed`](crate::owner::Owner::on_raise_failed).
    pub fn on_failed(&mut self, batch: RaiseBatch<S>, now: Duration, random: u32) -> Vec<(SectionId, Epoch)> {
        self.in_flight -= 1;
        self.paused_until = Some(now + self.backoff.wait(random));
        let failed = batch.ownerships();
        self.pending.extend(batch.raises.into_iter().map(|(section, ticket, _)| (section, ticket)));
        failed
    }

    /// Handles a refusal of the batch because the ceiling of `section` would rise too fast. Delays this section for
    /// `after`, limited to the range from the first wait of a failed call to [`LONGEST_WAIT`], and queues the other
    /// sections of the batch again at once. Each refusal delays one section, so the number of refusals in a row is
    /// bounded by the sections of the batch. `random` is any 32 bits. Returns no ownership; if the section is not in
    /// the batch, handles the refusal as [`RaiseQueue::on_failed`] and returns the same ownerships.
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
