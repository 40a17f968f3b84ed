//! Raises ceilings. The module sends the calls to the store that the queue in `seq_core::raises` decides on, and adopts
//! their outcomes.
//!
//! **Invariant:** the outcome of a response is reported to the queue, and the new ceilings to the sections, before the
//! ownership update in the same response is adopted.

use std::sync::Arc;
use std::time::Duration;

use seq_core::lease::Clocks;
use seq_core::owner::Session;
use seq_core::raises::{RaiseBatch, RaiseOutcome as Outcome, RaiseQueue, RaisedSection};
use seq_core::section::RaiseTicket;
use seq_core::state::Raise;
use seq_core::{Epoch, SectionId, Seq, Step};
use seq_kit::repeats::Repeats;
use seq_kit::telemetry::traces::{self, Span};
use seq_proto::v1;
use tokio::time::Instant;

use crate::counters::RaiseOutcome;
use crate::ownership::OwnedSection;
use crate::shared::Shared;
use crate::store_link::{StoreError, StoreLink};

impl RaisedSection for OwnedSection {
    fn id(&self) -> SectionId {
        self.id
    }

    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn ceiling(&self) -> Seq {
        OwnedSection::ceiling(self)
    }

    fn is_in_ticks(&self) -> bool {
        OwnedSection::is_in_ticks(self)
    }

    fn raise_target(&self) -> Option<Seq> {
        OwnedSection::raise_target(self)
    }

    fn adapt_step(&self, since: Duration, most: Step) {
        OwnedSection::adapt_step(self, since, most);
    }

    fn raised(&self, committed: Seq) -> Option<RaiseTicket> {
        let next = OwnedSection::raised(self, committed);
        self.changed.notify_waiters();
        next
    }
}

type Queue = RaiseQueue<Arc<OwnedSection>>;

type Batch = RaiseBatch<Arc<OwnedSection>>;

/// State of the raises. They keep each section's ceiling above the numbers that will be allocated next.
pub(crate) struct Raises {
    shared: Arc<Shared>,
    /// Origin of the queue's times.
    origin: Instant,
    queue: Queue,
    /// Limit on log lines about raises that the store delays.
    delays: Repeats,
    /// Limit on log lines about raises that fail.
    failures: Repeats,
}

/// Batch to be sent.
pub(crate) struct RaiseCall {
    shared: Arc<Shared>,
    batch: Batch,
    /// Reading of the clocks before the request is sent. If the store accepts the raise, the lease is renewed from this
    /// time on.
    sent: Clocks,
}

/// Batch whose call ended.
pub(crate) struct AnsweredRaise {
    batch: Batch,
    sent: Clocks,
    response: Result<v1::RaiseCeilingsResponse, StoreError>,
    /// Trace span from the request until the ceilings in the response are adopted.
    span: Span,
}

impl RaiseCall {
    pub(crate) async fn send(self, link: &StoreLink) -> AnsweredRaise {
        let RaiseCall { shared, batch, sent } = self;
        let started = Instant::now();
        let Session { node, incarnation } = batch.session();
        let request = v1::RaiseCeilingsRequest {
            node_id: node.0,
            incarnation: incarnation.0,
            sections: batch.raises().map(|raise| raise.section.0).collect(),
            epochs: batch.raises().map(|raise| raise.epoch.0).collect(),
            ceilings: batch.raises().map(|raise| raise.to.0).collect(),
            route_version: shared.ownership.known_version().0,
        };
        let mut span = shared.described(traces::sampled("raise"));
        if !span.is_none() {
            span.set("seqsvr.sections", batch.sections());
            batch.raises().take(1).for_each(|raise| span.set("seqsvr.section", raise.section.0));
        }
        let response = span.scope(link.call(request)).await;
        span.fail_if(&response);
        shared.counters.raise_took(started.elapsed(), batch.sections());
        AnsweredRaise { batch, sent, response, span }
    }
}

impl Raises {
    /// Creates the state with an empty queue.
    pub(crate) fn new(shared: Arc<Shared>) -> Raises {
        let queue = RaiseQueue::new(shared.config.options.raises());
        Raises { shared, origin: Instant::now(), queue, delays: Repeats::default(), failures: Repeats::default() }
    }

    /// Returns the time at which the next batch may be due if no section is enqueued and no call ends before that time.
    pub(crate) fn retry_due(&self) -> Option<Instant> {
        self.queue.next_deadline().map(|at| self.origin + at)
    }

    /// Returns the call for the batch to send now; `None` if the queue is empty, or if its next batch has to wait.
    pub(crate) fn next_call(&mut self) -> Option<RaiseCall> {
        let shared = &self.shared;
        // The tickets are read before the table, because a section enters the table before a ticket for it is issued.
        shared.raises.drain_into(&mut self.queue);
        let (session, table) = shared.ownership.session_and_table();
        let batch = self.queue.next_batch(self.origin.elapsed(), session, |owned| table.has(owned))?;
        Some(RaiseCall { shared: shared.clone(), batch, sent: shared.clock.now() })
    }

    /// Adopts the response to a call. Reports the outcome to the queue first, then adopts the ceilings, and then the
    /// store's ownership update.
    pub(crate) fn on_done(&mut self, answered: AnsweredRaise) {
        let AnsweredRaise { batch, sent, response, span } = answered;
        let (session, sections) = (batch.session(), batch.sections());
        match response {
            Ok(v1::RaiseCeilingsResponse { ceilings, update, .. }) => {
                let ceilings: Vec<_> = ceilings.into_iter().map(|to| (to > 0).then_some(Seq(to))).collect();
                if !batch.fits(&ceilings) {
                    tracing::error!("the store's response to a raise does not fit the request");
                    return self.fail(batch);
                }
                self.failures.end();
                // This is recorded before the waiting calls are notified, because they use it for their decisions.
                self.note_cut_short(&batch, &ceilings);
                let outcome = self.queue.on_response(batch, &ceilings);
                self.record(&outcome, &ceilings, sent);
                let raised = outcome.raised.iter().copied().zip(ceilings.iter().flatten().copied());
                self.shared.ownership.adopt_ceilings(raised);
                self.settle(outcome);
                let shared = &self.shared;
                let update = shared.read_update(update.as_ref(), session.node);
                let adopted =
                    update.map(|update| shared.step(|owner, effects| owner.on_update(session, sent, update, effects)));
                if !matches!(adopted, Ok(Ok(()))) {
                    tracing::error!(?adopted, "cannot use the store's ownership update");
                }
            }
            Err(error @ (StoreError::SessionOver { .. } | StoreError::Behind(_))) => {
                tracing::warn!(%error, "a raise was refused because this incarnation is over");
                self.shared.judge(session, &error);
                self.shared.counters.raise(RaiseOutcome::Refused, sections);
                self.queue.on_session_over(batch);
                self.shared.end_session(session);
            }
            Err(StoreError::TooFast { section, after, message }) => {
                if let Some(repeated) = self.delays.admit() {
                    let trace = span.trace();
                    tracing::warn!(section = section.0, ?after, message, repeated, trace, "the store delays a raise");
                }
                self.shared.counters.raise(RaiseOutcome::Delayed, 1);
                let failed = self.queue.on_too_fast(batch, section, after, self.origin.elapsed(), fastrand::u32(..));
                self.report_failed(&failed);
            }
            Err(error) => {
                if let Some(repeated) = self.failures.admit() {
                    tracing::warn!(%error, sections, repeated, trace = span.trace(), "cannot raise ceilings");
                }
                self.fail(batch);
            }
        }
    }

    /// Counts the raises of ceilings in ticks that the store cut short because this node's clock is ahead of the
    /// store's clock, and records this difference of the clocks.
    fn note_cut_short(&self, batch: &Batch, ceilings: &[Option<Seq>]) {
        let shared = &self.shared;
        let short = |(raise, ceiling): (Raise, &Option<Seq>)| {
            let ceiling = ceiling.filter(|ceiling| *ceiling < raise.to)?;
            let clock = shared.ownership.owned().get(raise.section)?.clock?;
            shared.clock_ahead.on_cut_short(&clock.clock, ceiling, shared.clock.now()).then_some(())
        };
        let clamped = batch.raises().zip(ceilings).filter_map(short).count();
        if clamped > 0 {
            shared.counters.clamped(clamped);
        }
    }

    /// Adds the raises that the store committed to the recorded activity of their sections. `sent` is the time at which
    /// the request was sent.
    fn record(&self, outcome: &Outcome, ceilings: &[Option<Seq>], sent: Clocks) {
        let raised = outcome.raised.iter().zip(&outcome.distances).zip(ceilings.iter().flatten());
        let raises = raised.map(|((&(section, _), distance), to)| (section, (Seq(to.0 - distance), *to)));
        self.shared.activity.raised(raises, sent, self.shared.clock.now());
    }

    /// Reports to the owner's state machine the ownerships whose ceilings the store committed, and the ownerships that
    /// are over.
    fn settle(&self, outcome: Outcome) {
        let Outcome { raised, distances, lost } = outcome;
        let shared = &self.shared;
        distances.iter().for_each(|distance| shared.counters.raise_moved(*distance));
        shared.counters.raise(RaiseOutcome::Raised, raised.len());
        shared.step(|owner, effects| {
            owner.on_raised(&raised);
            owner.on_lost(&lost, effects);
        });
        if !lost.is_empty() {
            shared.counters.raise(RaiseOutcome::Refused, lost.len());
            tracing::info!(sections = lost.len(), "sections have another owner now");
            shared.registration.request_renewal();
        }
    }

    fn fail(&mut self, batch: Batch) {
        self.shared.counters.raise(RaiseOutcome::Failed, batch.sections());
        let failed = self.queue.on_failed(batch, self.origin.elapsed(), fastrand::u32(..));
        self.report_failed(&failed);
    }

    /// Reports to the owner's state machine the ownerships whose raises got no usable response. If a section's raises
    /// keep failing, the state machine releases the section. Sections whose raises the store delays are not reported,
    /// because another owner could not raise them any sooner.
    fn report_failed(&self, failed: &[(SectionId, Epoch)]) {
        let now = self.shared.clock.now();
        self.shared.step(|owner, _| owner.on_raise_failed(failed, now));
    }
}
