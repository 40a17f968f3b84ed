//! The source's side of handovers: sends the requests of `seq_core::owner::handover`, and gives it their outcome.
//!
//! Every handover is a row of short calls, one after the other, and several handovers are under way at a time. From the freeze
//! to the commit callers of the section wait, so nothing here waits for anything else.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use seq_core::backoff::Backoff;
use seq_core::owner::Session;
use seq_core::owner::handover::{Commit, Handover, HandoverOffer, HandoverRequest};
use seq_core::section::SectionCopy;
use seq_core::{Incarnation, NodeId, SectionId};
use seq_proto::v1::handover_service_client::HandoverServiceClient;
use seq_proto::{Reason, owners, v1};
use tokio::sync::Notify;
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::counters::HandoverOutcome;
use crate::ownership::OwnedSection;
use crate::shared::Shared;
use crate::store_link::{StoreError, StoreLink};

/// How long a target may take to expect a section or to start it: a round trip, and a busy core.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(500);

/// How long a target may take to receive the smallest copy: a round trip, and a busy core. Callers of the section wait all the
/// while, so a target that stopped must not keep it frozen for much longer.
const STAGE_TIME: Duration = Duration::from_millis(200);

/// How much of a copy a target receives in a millisecond at least: 4,000 touched uids are some 50 KB on the wire, which half
/// a gigabit a second carries.
const STAGED_SLOTS_PER_MS: usize = 4_000;

/// Largest section, in uids, that is frozen and copied on the thread that renews: 2 MiB of slots, less than a millisecond. A
/// larger one goes to a thread of its own, so that no renewal waits behind it.
const FROZEN_INLINE: u32 = 262_144;

/// How long a copy of so many touched uids may take to be received.
pub(crate) fn stage_time(slots: usize) -> Duration {
    STAGE_TIME + Duration::from_millis((slots / STAGED_SLOTS_PER_MS) as u64)
}

/// Requests to be sent. Bounded by the handovers that are under way, each of which waits for one response.
#[derive(Debug, Default)]
pub(crate) struct HandoverQueue {
    pending: Mutex<VecDeque<HandoverRequest>>,
    arrived: Notify,
    /// When each section that is handed over was frozen.
    frozen: Mutex<BTreeMap<SectionId, Instant>>,
    /// Requests that were pushed and have no outcome yet.
    open: AtomicUsize,
}

impl HandoverQueue {
    pub(crate) fn push(&self, request: HandoverRequest) {
        self.open.fetch_add(1, SeqCst);
        self.pending.lock().push_back(request);
        self.arrived.notify_one();
    }

    /// Whether every request has its outcome.
    pub(crate) fn are_done(&self) -> bool {
        self.open.load(SeqCst) == 0
    }
}

/// Sends until shutdown.
pub(crate) async fn run(shared: Arc<Shared>, link: Arc<StoreLink>) {
    let mut under_way = FuturesUnordered::new();
    loop {
        while let Some(request) = { shared.handovers.pending.lock().pop_front() } {
            let (shared, link) = (&*shared, &*link);
            under_way.push(async move {
                send(shared, link, request).await;
                shared.handovers.open.fetch_sub(1, SeqCst);
            });
        }
        tokio::select! {
            () = shared.shutdown.cancelled() => return,
            () = shared.handovers.arrived.notified() => {}
            Some(()) = under_way.next() => {}
        }
    }
}

async fn send(shared: &Shared, link: &StoreLink, request: HandoverRequest) {
    match request {
        HandoverRequest::Prepare(handover) => {
            let accepted = accepted("prepare", &handover, shared.prepare(&handover).await);
            shared.step(|owner, effects| owner.on_prepared(&handover, accepted, effects));
            if !accepted {
                shared.counters.handover(HandoverOutcome::Refused);
            }
        }
        HandoverRequest::Stage(handover) => {
            shared.handovers.frozen.lock().insert(handover.section, Instant::now());
            let accepted = accepted("stage", &handover, shared.stage(&handover).await);
            shared.step(|owner, effects| owner.on_staged(&handover, accepted, effects));
            if !accepted {
                shared.counters.handover(HandoverOutcome::Thawed);
            }
        }
        HandoverRequest::Commit(handover) => commit(shared, link, &handover).await,
        HandoverRequest::Activate(handover) => {
            // Without it the target is granted the section with its next renewal.
            accepted("activate", &handover, shared.activate(&handover).await);
            shared.counters.handover(HandoverOutcome::Made);
            if let Some(since) = shared.handovers.frozen.lock().remove(&handover.section) {
                shared.counters.handover_paused(since.elapsed());
            }
            // There may be more to hand over.
            shared.renew_now.notify_one();
        }
    }
}

/// A target that does not respond has not accepted.
fn accepted(step: &'static str, handover: &Handover, outcome: Result<(), Status>) -> bool {
    if let Err(status) = &outcome {
        let (section, to) = (handover.section.0, handover.to.0);
        tracing::warn!(step, section, to, status = status.message(), "a step of a handover failed");
    }
    outcome.is_ok()
}

/// Has the store commit a handover, until there is a response or the incarnation that owns the section is over.
async fn commit(shared: &Shared, link: &StoreLink, handover: &Handover) {
    let Session { node, incarnation } = handover.session;
    let mut backoff = Backoff::new(shared.options.retry_min, shared.options.retry_max);
    loop {
        let sent = shared.clock.now();
        let request = v1::TransferRequest {
            node_id: node.0,
            incarnation: incarnation.0,
            section: handover.section.0,
            epoch: handover.epoch.0,
            to_node_id: handover.to.0,
            to_incarnation: handover.incarnation.0,
            handover_id: handover.handover_id.0,
            route_version: shared.known_version().0,
        };
        let outcome = match link.call(request).await {
            Ok(response) => match shared.read_update(response.update.as_ref(), node) {
                Ok(update) => Commit::Made(update),
                // It may be committed; the next response reports it again.
                _ => Commit::Unknown,
            },
            Err(StoreError::Refused { reason, message, current, .. }) if reason == Reason::TargetGone => {
                if shared.halt.judge_target(handover.incarnation, Incarnation(current), message) {
                    return shared.step(|owner, effects| owner.on_session_over(handover.session, effects));
                }
                Commit::TargetGone
            }
            Err(StoreError::Refused { reason, .. }) if reason == Reason::OtherOwnership => Commit::Lost,
            Err(error @ (StoreError::SessionOver { .. } | StoreError::Behind(_))) => {
                shared.judge(handover.session, &error);
                return shared.step(|owner, effects| owner.on_session_over(handover.session, effects));
            }
            Err(error) => {
                tracing::warn!(%error, section = handover.section.0, "a handover is not committed yet");
                Commit::Unknown
            }
        };
        if matches!(outcome, Commit::Unknown) {
            tokio::time::sleep(backoff.wait(fastrand::u32(..))).await;
            if shared.ownership.machine().session() == Some(handover.session) {
                continue;
            }
            return;
        }
        if !matches!(outcome, Commit::Made(_)) {
            shared.counters.handover(HandoverOutcome::Thawed);
        }
        let adopted = shared.step(|owner, effects| owner.on_committed(handover, sent, outcome, effects));
        if let Err(error) = adopted {
            tracing::error!(%error, "cannot use the store's ownership update");
        }
        return;
    }
}

impl Shared {
    async fn prepare(&self, handover: &Handover) -> Result<(), Status> {
        let request = v1::PrepareRequest { offer: Some(self.offer(handover)) };
        let mut target = self.target(handover.to)?;
        within(RESPONSE_TIMEOUT, request, async |request| target.prepare(request).await.map(drop)).await
    }

    /// Freezes the section and sends its copy.
    async fn stage(&self, handover: &Handover) -> Result<(), Status> {
        let served =
            self.ownership.owned().get(handover.section).filter(|owned| owned.epoch == handover.epoch).cloned();
        let Some(owned) = served else { return Err(Status::aborted("the section left")) };
        let mut target = self.target(handover.to)?;
        let copy = freeze(owned).await?;
        let time = stage_time(copy.distances.len());
        let messages = owners::to_stage(self.offer(handover), copy);
        within(time, futures::stream::iter(messages), async |request| target.stage(request).await.map(drop)).await
    }

    async fn activate(&self, handover: &Handover) -> Result<(), Status> {
        let request = v1::ActivateRequest { offer: Some(self.offer(handover)) };
        let mut target = self.target(handover.to)?;
        within(RESPONSE_TIMEOUT, request, async |request| target.activate(request).await.map(drop)).await
    }

    fn offer(&self, handover: &Handover) -> v1::HandoverOffer {
        let Handover { section, epoch, handover_id, incarnation, .. } = *handover;
        owners::to_offer(&HandoverOffer { section, epoch: epoch.next(), handover_id, incarnation }, &self.set)
    }

    fn target(&self, to: NodeId) -> Result<HandoverServiceClient<Channel>, Status> {
        let channel = self.channel(to).ok_or_else(|| Status::unavailable("the target's address is not known"))?;
        Ok(HandoverServiceClient::new(channel))
    }
}

/// Freezes a section, and copies it.
async fn freeze(owned: Arc<OwnedSection>) -> Result<SectionCopy, Status> {
    if owned.uids() <= FROZEN_INLINE {
        return Ok(owned.freeze());
    }
    let frozen = tokio::task::spawn_blocking(move || owned.freeze()).await;
    frozen.map_err(|error| Status::aborted(format!("the section was not frozen: {error}")))
}

/// Makes a call that carries its own deadline.
async fn within<M>(
    time: Duration,
    message: M,
    call: impl AsyncFnOnce(Request<M>) -> Result<(), Status>,
) -> Result<(), Status> {
    let mut request = Request::new(message);
    request.set_timeout(time);
    match tokio::time::timeout(time, call(request)).await {
        Ok(response) => response,
        Err(_) => Err(Status::deadline_exceeded(format!("no response within {time:?}"))),
    }
}
