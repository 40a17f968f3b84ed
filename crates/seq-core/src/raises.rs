//! The raise queue of an AllocSvr: it decides which ceilings are requested from the store, in which batches, and when.
//!
//! A section is queued together with its [`RaiseTicket`]. Each section has only one ticket, so at most one raise of a
//! section is queued or in flight. A raise that failed is queued again. After a failed call no batch is sent until a
//! wait has ended, so a store that does not respond gets only one round of calls in each wait. A raise that the store
//! refused is not repeated, because the ownership is over. If the store refuses a batch because the ceiling of one
//! section would rise too fast, only that section is delayed. Its ownership continues, and the other sections of the
//! batch are raised at once. A section of lanes with a clock is also delayed if the store raised its ceiling by less
//! than requested.
//!
//! Times are durations since any origin that is the same in all calls; the caller reads the clock.

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

/// Pause after a raise of lanes with a clock for which the store committed a lower ceiling than requested. A node whose
/// clock is wrong would request a raise at every call. The pause keeps such a node from filling the store's log.
const SHORT_RAISE_PAUSE: Duration = Duration::from_millis(100);

/// Batches and intervals of raises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaiseOptions {
    /// Most sections raised by one call, 1 up to [`limits::MAX_RAISES`].
    pub batch: usize,
    /// Most calls in flight, 1 or above.
    pub in_flight: usize,
    /// Wait after the first failed call. The wait doubles with each further failed call.
    pub retry_min: Duration,
    /// Longest wait after a failed call.
    pub retry_max: Duration,
}

impl RaiseOptions {
    /// Options for a network within a region. If more calls were in flight, they would only wait for each other in the
    /// store's log.
    pub const DEFAULTS: RaiseOptions = RaiseOptions {
        batch: limits::MAX_RAISES,
        in_flight: 4,
        retry_min: RenewalOptions::DEFAULTS.retry_min,
        retry_max: RenewalOptions::DEFAULTS.retry_max,
    };
}

/// Functions of a section that the raise queue needs. The queue holds handles of sections, which are also in the
/// caller's table of sections.
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
    /// Sections to raise, oldest first. If a section left and entered again, its old and its new ownership may both be
    /// here, until the old one is left out of a batch and dropped.
    pending: VecDeque<(S, RaiseTicket)>,
    /// Sections whose ceiling would rise too fast, or for which the store last committed a lower ceiling than
    /// requested. Each has the time from which it is pending again. There is at most one entry for each ticket. Usually
    /// there are few entries, because a section that raises its ceiling only as fast as it allocates numbers is never
    /// delayed.
    delayed: Vec<(Duration, S, RaiseTicket)>,
    /// Sections of lanes with a clock for which the store last committed a lower ceiling than requested. Each has the
    /// time before which its next raise is not requested. There is at most one entry for each section.
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

    /// Returns whether a response fits the batch. It must have one entry for each raise: `None` if the raise is
    /// refused, or else a ceiling that is at least the requested ceiling or at least [`limits::MAX_RAISE`]. For lanes
    /// with a clock any ceiling fits. No ceiling may be above [`Seq::MAX`].
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

    /// Queues a section. If the store last committed a lower ceiling for it than requested, delays the section.
    pub fn enqueue(&mut self, section: S, ticket: RaiseTicket) {
        match self.cut_short.remove(&section.id()) {
            Some(at) => self.delayed.push((at, section, ticket)),
            None => self.pending.push_back((section, ticket)),
        }
    }

    /// Returns the batch to send now, under the current incarnation; `None` if no section is pending, or the batch must
    /// wait.
    ///
    /// `owns` returns whether the caller's table has exactly this section, under this ownership. The table must be read
    /// after the sections were queued. A section that is missing in the table has left permanently, and is dropped.
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
    /// bounded by the number of sections in the batch. Returns no ownerships. But if the section is not in the batch,
    /// handles the refusal like [`RaiseQueue::on_failed`], with the same result. `random` is any 32 bits.
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
