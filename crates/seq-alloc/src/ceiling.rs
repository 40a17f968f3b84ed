//! The ceiling keeper: gathers the sections that stand in line, has the store commit their ceilings, wakes who waits.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use seq_core::owner::Session;
use seq_core::{Epoch, SectionId, Seq, limits};
use seq_proto::v1;
use tokio::time::Instant;

use crate::counters::RaiseOutcome;
use crate::ownership::OwnedSection;
use crate::shared::Shared;
use crate::store_link::{Backoff, StoreError, StoreLink};

/// Sections and the ceilings to ask for, under one incarnation of the node.
struct Batch {
    session: Session,
    sections: Vec<(Arc<OwnedSection>, Seq)>,
}

/// Whether the store answered a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ItemReply {
    Yes,
    No,
}

/// Keeps ceilings ahead of the numbers until shutdown. While the store does not answer, sections stay in line and one
/// round of calls is made for each wait.
pub(crate) async fn keep(shared: Arc<Shared>, link: Arc<StoreLink>) {
    let mut in_flight = FuturesUnordered::new();
    let mut backoff = Backoff::new(shared.options.retry_min, shared.options.retry_max);
    let mut held_until: Option<Instant> = None;
    loop {
        while held_until.is_none() && in_flight.len() < shared.options.raises_in_flight {
            let Some(batch) = gather(&shared) else { break };
            in_flight.push(raise(&shared, &link, batch));
        }
        tokio::select! {
            () = shared.shutdown.cancelled() => return,
            () = shared.line.arrived() => {}
            Some(answered) = in_flight.next() => match answered {
                ItemReply::Yes => {
                    backoff.reset();
                    held_until = None;
                }
                ItemReply::No => held_until = Some(Instant::now() + backoff.wait()),
            },
            () = tokio::time::sleep_until(held_until.unwrap_or_else(far_away)), if held_until.is_some() => {
                held_until = None;
            }
        }
    }
}

fn far_away() -> Instant {
    Instant::now() + Duration::from_secs(3_600)
}

/// Takes a batch out of the line; `None` when nothing in it needs a raise. An ownership that is over leaves the line here
/// for good, so a section stands in a batch at most once.
fn gather(shared: &Shared) -> Option<Batch> {
    loop {
        // First the line, then the table: whoever joined the line was in the table by then, so what is missing has gone.
        let waiting = shared.line.take(shared.options.raise_batch);
        if waiting.is_empty() {
            return None;
        }
        let (session, table) = shared.held()?;
        let held = waiting.into_iter().filter(|owned| table.has(owned));
        let mut sections: Vec<_> =
            held.filter_map(|owned| owned.raise_target().map(|target| (owned, target))).collect();
        if !sections.is_empty() {
            // In this order the store sees without a copy that none stands in it twice.
            sections.sort_unstable_by_key(|(owned, _)| owned.id);
            return Some(Batch { session, sections });
        }
    }
}

async fn raise(shared: &Shared, link: &StoreLink, batch: Batch) -> ItemReply {
    let started = Instant::now();
    // Read before the question goes out: a raise renews the lease, counted from here.
    let sent = shared.clock.now();
    let question = v1::RaiseCeilingsRequest {
        node_id: batch.session.node.0,
        incarnation: batch.session.incarnation.0,
        sections: batch.sections.iter().map(|(owned, _)| owned.id.0).collect(),
        epochs: batch.sections.iter().map(|(owned, _)| owned.epoch.0).collect(),
        ceilings: batch.sections.iter().map(|(_, target)| target.0).collect(),
        route_version: shared.known_version().0,
    };
    let answer = link.call(question).await;
    shared.counters.raise_took(started.elapsed(), batch.sections.len());
    match answer {
        Ok(answer) if is_sound(&batch, &answer.ceilings) => {
            let session = batch.session;
            settle(shared, batch, &answer.ceilings);
            let update = shared.read_update(answer.update.as_ref(), session.node);
            let adopted =
                update.map(|update| shared.step(|owner, effects| owner.on_update(session, sent, update, effects)));
            if !matches!(adopted, Ok(Ok(()))) {
                tracing::error!(?adopted, "cannot use what the store says of owners");
            }
            ItemReply::Yes
        }
        Ok(_) => {
            tracing::error!("the store's answer to a raise does not fit the request");
            put_back(shared, batch);
            ItemReply::No
        }
        Err(error @ (StoreError::SessionOver { .. } | StoreError::Behind(_))) => {
            tracing::warn!(%error, "a raise was refused because this incarnation is over");
            shared.judge(batch.session, &error);
            shared.counters.raise(RaiseOutcome::Refused, batch.sections.len());
            shared.end_session(batch.session);
            ItemReply::Yes
        }
        Err(error) => {
            tracing::warn!(%error, sections = batch.sections.len(), "cannot raise ceilings");
            put_back(shared, batch);
            ItemReply::No
        }
    }
}

/// One ceiling for each raise: refused, or at least what was asked for, or as far as one raise goes.
fn is_sound(batch: &Batch, ceilings: &[u64]) -> bool {
    let fits = |((_, target), ceiling): (&(Arc<OwnedSection>, Seq), &u64)| {
        *ceiling == 0 || (*ceiling >= target.0.min(limits::MAX_RAISE) && *ceiling <= Seq::MAX.0)
    };
    ceilings.len() == batch.sections.len() && batch.sections.iter().zip(ceilings).all(fits)
}

/// Durable, then visible: the ceilings in the store's answer are committed, and only now do they become the sections'.
fn settle(shared: &Shared, batch: Batch, ceilings: &[u64]) {
    let mut lost = Vec::new();
    let mut raised = Vec::new();
    for ((owned, _), ceiling) in batch.sections.into_iter().zip(ceilings) {
        if *ceiling == 0 {
            lost.push((owned.id, owned.epoch));
            continue;
        }
        raised.push((owned.id, owned.epoch));
        shared.counters.raise_moved(ceiling - owned.ceiling().0.min(*ceiling));
        let again = owned.raised(Seq(*ceiling));
        owned.changed.notify_waiters();
        if again {
            shared.line.join(owned);
        }
    }
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

fn put_back(shared: &Shared, batch: Batch) {
    shared.counters.raise(RaiseOutcome::Failed, batch.sections.len());
    let failed: Vec<(SectionId, Epoch)> = batch.sections.iter().map(|(owned, _)| (owned.id, owned.epoch)).collect();
    let now = shared.clock.now();
    shared.step(|owner, _| owner.on_raise_failed(&failed, now));
    for (owned, _) in batch.sections {
        shared.line.join(owned);
    }
}
