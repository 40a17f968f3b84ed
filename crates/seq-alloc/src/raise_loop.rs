//! Sends what the raise queue of `seq_core::raises` decides, and gives it the outcome.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use seq_core::lease::Clocks;
use seq_core::owner::Session;
use seq_core::raises::{RaiseBatch, RaiseOutcome as Outcome, RaiseQueue, RaisedSection};
use seq_core::section::RaiseTicket;
use seq_core::{Epoch, SectionId, Seq};
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

    fn raise_target(&self) -> Option<Seq> {
        OwnedSection::raise_target(self)
    }

    fn raised(&self, committed: Seq) -> Option<RaiseTicket> {
        let next = OwnedSection::raised(self, committed);
        self.changed.notify_waiters();
        next
    }
}

type Queue = RaiseQueue<Arc<OwnedSection>>;

type Batch = RaiseBatch<Arc<OwnedSection>>;

/// A batch whose call ended.
struct Answered {
    batch: Batch,
    /// Read before the request was sent: a raise renews the lease, counted from here.
    sent: Clocks,
    response: Result<v1::RaiseCeilingsResponse, StoreError>,
}

/// Keeps ceilings ahead of the numbers until shutdown.
pub(crate) async fn run(shared: Arc<Shared>, link: Arc<StoreLink>) {
    let mut queue: Queue = RaiseQueue::new(shared.options.raises());
    let origin = Instant::now();
    let mut in_flight = FuturesUnordered::new();
    loop {
        while let Some(batch) = next_batch(&shared, &mut queue, origin) {
            in_flight.push(send(&shared, &link, batch));
        }
        let retry = queue.next_deadline().map(|at| origin + at);
        tokio::select! {
            () = shared.shutdown.cancelled() => return,
            () = shared.raises.arrived() => {}
            Some(answered) = in_flight.next() => adopt(&shared, &mut queue, origin, answered),
            () = tokio::time::sleep_until(retry.unwrap_or(origin)), if retry.is_some() => {}
        }
    }
}

fn next_batch(shared: &Shared, queue: &mut Queue, origin: Instant) -> Option<Batch> {
    // First the tickets, then the table: a section was in the table before its ticket was issued.
    shared.raises.drain_into(queue);
    let (session, table) = shared.ownership.session_and_table();
    queue.next_batch(origin.elapsed(), session, |owned| table.has(owned))
}

async fn send(shared: &Shared, link: &StoreLink, batch: Batch) -> Answered {
    let started = Instant::now();
    let sent = shared.clock.now();
    let Session { node, incarnation } = batch.session();
    let request = v1::RaiseCeilingsRequest {
        node_id: node.0,
        incarnation: incarnation.0,
        sections: batch.raises().map(|raise| raise.section.0).collect(),
        epochs: batch.raises().map(|raise| raise.epoch.0).collect(),
        ceilings: batch.raises().map(|raise| raise.to.0).collect(),
        route_version: shared.known_version().0,
    };
    let response = link.call(request).await;
    shared.counters.raise_took(started.elapsed(), batch.sections());
    Answered { batch, sent, response }
}

/// Gives the queue the outcome of a call, and adopts what the store reports of owners after the ceilings.
fn adopt(shared: &Shared, queue: &mut Queue, origin: Instant, answered: Answered) {
    let Answered { batch, sent, response } = answered;
    let (session, sections) = (batch.session(), batch.sections());
    match response {
        Ok(v1::RaiseCeilingsResponse { ceilings, update, .. }) => {
            let ceilings: Vec<_> = ceilings.into_iter().map(|to| (to > 0).then_some(Seq(to))).collect();
            if !batch.fits(&ceilings) {
                tracing::error!("the store's response to a raise does not fit the request");
                return fail(shared, queue, origin, batch);
            }
            settle(shared, queue.on_response(batch, &ceilings));
            let update = shared.read_update(update.as_ref(), session.node);
            let adopted =
                update.map(|update| shared.step(|owner, effects| owner.on_update(session, sent, update, effects)));
            if !matches!(adopted, Ok(Ok(()))) {
                tracing::error!(?adopted, "cannot use the store's ownership update");
            }
        }
        Err(error @ (StoreError::SessionOver { .. } | StoreError::Behind(_))) => {
            tracing::warn!(%error, "a raise was refused because this incarnation is over");
            shared.judge(session, &error);
            shared.counters.raise(RaiseOutcome::Refused, sections);
            queue.on_session_over(batch);
            shared.end_session(session);
        }
        Err(error) => {
            tracing::warn!(%error, sections, "cannot raise ceilings");
            fail(shared, queue, origin, batch);
        }
    }
}

/// Reports to the owner's machine which ceilings are committed and which ownerships are over.
fn settle(shared: &Shared, outcome: Outcome) {
    let Outcome { raised, distances, lost } = outcome;
    distances.iter().for_each(|distance| shared.counters.raise_moved(*distance));
    shared.counters.raise(RaiseOutcome::Raised, raised.len());
    shared.step(|owner, effects| {
        owner.on_raised(&raised);
        owner.on_lost(&lost, effects);
    });
    if !lost.is_empty() {
        shared.counters.raise(RaiseOutcome::Refused, lost.len());
        tracing::info!(sections = lost.len(), "sections have another owner now");
        shared.renew_now.notify_one();
    }
}

fn fail(shared: &Shared, queue: &mut Queue, origin: Instant, batch: Batch) {
    shared.counters.raise(RaiseOutcome::Failed, batch.sections());
    let failed = queue.on_failed(batch, origin.elapsed(), fastrand::u32(..));
    let now = shared.clock.now();
    shared.step(|owner, _| owner.on_raise_failed(&failed, now));
}
