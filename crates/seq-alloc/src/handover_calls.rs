//! Calls that the source of a handover makes: prepare, stage and activate to the target, which may be in another set,
//! and commit to the store of the source's set. Steps of one kind of several handovers to one target of the set travel
//! in one call, because a node that stops may have thousands of sections.
//!
//! **Invariant:** a call decides nothing. It returns its outcome, and `handover` acts on it. Each call has its own
//! deadline, because the callers of a section wait from its freeze until its commit.

use std::sync::Arc;
use std::time::Duration;

use seq_core::arbiter::Departure;
use seq_core::lease::Clocks;
use seq_core::owner::Session;
use seq_core::owner::handover::{Handover, HandoverOffer};
use seq_core::section::AnyCopy;
use seq_core::{LayoutId, SetId};
use seq_kit::telemetry::traces;
use seq_proto::v1::handover_service_client::HandoverServiceClient;
use seq_proto::{owners, staged, status, v1};
use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::ownership::OwnedSection;
use crate::peers::Peers;
use crate::shared::Shared;
use crate::store_link::{self, StoreError, StoreLink};

/// Timeout for the target's response to prepare or activate. It is long enough for a round trip and for a target whose
/// CPU core is busy.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(500);

/// Timeout for staging the smallest copy. It is long enough for a round trip and for a target whose CPU core is busy.
/// It is short, because callers of the section wait while the copy is sent, and a target that has stopped must not keep
/// the section frozen for long.
const STAGE_TIME: Duration = Duration::from_millis(200);

/// Assumed minimum rate at which a target receives a copy, in touched uids per millisecond, that is, uids whose slots
/// the copy contains. 4,000 touched uids take about 50 KB on the wire, which a link of half a gigabit per second
/// carries in a millisecond.
const STAGED_SLOTS_PER_MS: usize = 4_000;

/// Number of slots of the largest section that is frozen and copied on the thread that also sends renewals. Such a
/// section has 2 MiB of slots, which take less than a millisecond. A larger section is frozen and copied on a separate
/// thread, so that no renewal is delayed.
const FROZEN_INLINE: usize = 262_144;

/// Maximum number of slots in the copies of one call. The copies of this number of slots of uids, or of half as many
/// keys, take less than half a megabyte on the wire.
pub(crate) const MAX_SLOTS_TOGETHER: usize = 32_768;

/// Outcomes of steps of several handovers, in the order of the handovers.
pub(crate) type Outcomes = Vec<Result<(), Status>>;

/// Returns the timeout for staging a copy with `slots` touched uids.
pub(crate) fn stage_time(slots: usize) -> Duration {
    STAGE_TIME + Duration::from_millis((slots / STAGED_SLOTS_PER_MS) as u64)
}

/// Response of the store to one attempt to commit a handover.
pub(crate) struct CommitResponse {
    /// Reading of the clocks before the request was sent. A lease that the response grants begins at this time.
    pub(crate) sent: Clocks,
    pub(crate) response: Result<Committed, Arc<StoreError>>,
}

/// Response that reports a handover as committed.
pub(crate) enum Committed {
    /// The ownership update in the response.
    Update(Option<Box<v1::OwnershipUpdate>>),
    /// The response reports several handovers, of which another one has the update.
    WithOthers,
}

impl Shared {
    /// Announces sections to their common target. Returns the outcomes in the order of the handovers.
    pub(crate) async fn prepare_all(&self, handovers: &[Handover]) -> Outcomes {
        if let [handover] = handovers {
            return vec![self.prepare(handover).await];
        }
        let offer = |handover| v1::PrepareRequest { offer: Some(self.offer(handover)) };
        let prepare = handovers.iter().map(offer).collect();
        self.make_steps(handovers, v1::StepsRequest { prepare, ..Default::default() }, RESPONSE_TIMEOUT).await
    }

    /// Freezes sections and sends their copies to their common target. Returns the outcomes in the order of the
    /// handovers.
    pub(crate) async fn stage_all(&self, handovers: &[Handover]) -> Outcomes {
        if let [handover] = handovers {
            return vec![self.stage(handover).await];
        }
        let mut outcomes: Outcomes = Vec::with_capacity(handovers.len());
        let (mut staged, mut stage, mut slots) = (Vec::new(), Vec::new(), 0);
        for handover in handovers {
            let Some(owned) = self.served(handover) else {
                outcomes.push(Err(Status::aborted("the section left")));
                continue;
            };
            let copy = owned.freeze();
            let copied = copy.slots();
            let mut messages = staged::to_stage(self.offer(handover), copy);
            let first = messages.next().expect("a copy has a message");
            if messages.next().is_some() || slots + copied > MAX_SLOTS_TOGETHER {
                // The section has grown since the request was chosen for this call.
                outcomes.push(self.stage(handover).await);
                continue;
            }
            slots += copied;
            staged.push((outcomes.len(), handover.clone()));
            stage.push(first);
            outcomes.push(Ok(()));
        }
        let (places, handovers): (Vec<usize>, Vec<Handover>) = staged.into_iter().unzip();
        let request = v1::StepsRequest { stage, ..Default::default() };
        let made = self.make_steps(&handovers, request, stage_time(slots)).await;
        places.into_iter().zip(made).for_each(|(place, outcome)| outcomes[place] = outcome);
        outcomes
    }

    /// Notifies the common target of handovers that they are committed. Returns the outcomes in the order of the
    /// handovers.
    pub(crate) async fn activate_all(&self, handovers: &[Handover]) -> Outcomes {
        if let [handover] = handovers {
            return vec![self.activate(handover).await];
        }
        let offer = |handover| v1::ActivateRequest { offer: Some(self.offer(handover)) };
        let activate = handovers.iter().map(offer).collect();
        self.make_steps(handovers, v1::StepsRequest { activate, ..Default::default() }, RESPONSE_TIMEOUT).await
    }

    /// Makes steps of handovers to one target in one call. If the call fails, each step fails with its error.
    async fn make_steps(&self, handovers: &[Handover], request: v1::StepsRequest, time: Duration) -> Outcomes {
        let Some(first) = handovers.first() else { return Vec::new() };
        let mut target = match self.target(first) {
            Ok(target) => target,
            Err(status) => return vec![Err(status); handovers.len()],
        };
        let mut outcomes = Vec::new();
        let made = within(time, request, async |request| {
            outcomes = target.make_steps(request).await?.into_inner().outcomes;
            Ok(())
        });
        if let Err(status) = made.await {
            return vec![Err(status); handovers.len()];
        }
        let missing = || Err(Status::unknown("the response has no outcome of the step"));
        let outcome = |at: usize| outcomes.get(at).map_or_else(missing, status::step_outcome);
        (0..handovers.len()).map(outcome).collect()
    }

    async fn prepare(&self, handover: &Handover) -> Result<(), Status> {
        let request = v1::PrepareRequest { offer: Some(self.offer(handover)) };
        let mut target = self.target(handover)?;
        within(RESPONSE_TIMEOUT, request, async |request| target.prepare(request).await.map(drop)).await
    }

    /// Freezes the section and sends its copy to the target.
    async fn stage(&self, handover: &Handover) -> Result<(), Status> {
        let Some(owned) = self.served(handover) else { return Err(Status::aborted("the section left")) };
        let mut target = self.target(handover)?;
        let copy = freeze(owned).await?;
        let time = stage_time(copy.slots());
        let messages = staged::to_stage(self.offer(handover), copy);
        within(time, futures::stream::iter(messages), async |request| target.stage(request).await.map(drop)).await
    }

    /// Returns the section of a handover, if this node still owns it under the same ownership.
    fn served(&self, handover: &Handover) -> Option<Arc<OwnedSection>> {
        self.ownership.owned().get(handover.section).filter(|owned| owned.epoch == handover.epoch).cloned()
    }

    /// Returns the number of slots whose copies take at least as much memory as the copy of the section of a handover.
    pub(crate) fn slots_of(&self, handover: &Handover) -> usize {
        self.served(handover).map_or(0, |owned| owned.slots())
    }

    /// Makes one attempt to commit handovers to one target in the store. Returns the responses in the order of the
    /// handovers. The response to the last handover that was made has the ownership update.
    pub(crate) async fn commit_all(&self, link: &StoreLink, handovers: &[&Handover]) -> Vec<CommitResponse> {
        if let [handover] = handovers {
            return vec![self.commit(link, handover).await];
        }
        let Some(first) = handovers.first() else { return Vec::new() };
        let sent = self.clock.now();
        let request = v1::TransferManyRequest {
            node_id: first.session.node.0,
            incarnation: first.session.incarnation.0,
            route_version: self.ownership.known_version().0,
            transfers: handovers.iter().map(|handover| self.transfer(handover)).collect(),
        };
        let v1::TransferManyResponse { outcomes, update } = match link.call(request).await {
            Ok(response) => response,
            Err(error) => {
                let error = Arc::new(error);
                let response = |_| CommitResponse { sent, response: Err(error.clone()) };
                return handovers.iter().map(response).collect();
            }
        };
        let outcome = |at: usize| {
            let response = store_link::committed(outcomes.get(at)).map(|()| Committed::WithOthers);
            CommitResponse { sent, response: response.map_err(Arc::new) }
        };
        let mut responses: Vec<_> = (0..handovers.len()).map(outcome).collect();
        let last = responses.iter_mut().rev().find(|response| response.response.is_ok());
        if let Some(last) = last {
            last.response = Ok(Committed::Update(update.map(Box::new)));
        }
        responses
    }

    /// Makes one attempt to commit a handover in the store.
    async fn commit(&self, link: &StoreLink, handover: &Handover) -> CommitResponse {
        let sent = self.clock.now();
        let update = match &handover.departure {
            None => link.call(self.transfer(handover)).await.map(|response| response.update),
            Some(departure) => link.call(self.depart(handover, departure)).await.map(|response| response.update),
        };
        CommitResponse {
            sent,
            response: update.map(|update| Committed::Update(update.map(Box::new))).map_err(Arc::new),
        }
    }

    fn transfer(&self, handover: &Handover) -> v1::TransferRequest {
        let Session { node, incarnation } = handover.session;
        v1::TransferRequest {
            node_id: node.0,
            incarnation: incarnation.0,
            section: handover.section.0,
            epoch: handover.epoch.0,
            to_node_id: handover.to.0,
            to_incarnation: handover.incarnation.0,
            handover_id: handover.handover_id.0,
            route_version: self.ownership.known_version().0,
        }
    }

    fn depart(&self, handover: &Handover, departure: &Departure) -> v1::DepartRequest {
        let Session { node, incarnation } = handover.session;
        v1::DepartRequest {
            node_id: node.0,
            incarnation: incarnation.0,
            section: handover.section.0,
            epoch: handover.epoch.0,
            to_node_id: handover.to.0,
            to_incarnation: handover.incarnation.0,
            handover_id: handover.handover_id.0,
            departure: Some(departure.into()),
            route_version: self.ownership.known_version().0,
        }
    }

    async fn activate(&self, handover: &Handover) -> Result<(), Status> {
        let request = v1::ActivateRequest { offer: Some(self.offer(handover)) };
        let mut target = self.target(handover)?;
        within(RESPONSE_TIMEOUT, request, async |request| target.activate(request).await.map(drop)).await
    }

    fn offer(&self, handover: &Handover) -> v1::HandoverOffer {
        let Handover { section, epoch, handover_id, incarnation, .. } = *handover;
        let offer = |from_set| HandoverOffer { section, epoch: epoch.next(), handover_id, incarnation, from_set };
        match &handover.departure {
            None => owners::to_offer(&offer(SetId(0)), &self.config.set),
            Some(departure) => {
                let layout_id = self.layout().id_of(section).unwrap_or(LayoutId(0));
                owners::to_offer_between_sets(&offer(self.ownership.set_id()), departure.set, layout_id)
            }
        }
    }

    /// Returns a client for the target of `handover`. It connects to the address for handovers that the store of the
    /// target's set stated, or, if there is none, to the address in the routes. The connection accepts only a server
    /// that is an AllocSvr of the target's set.
    fn target(&self, handover: &Handover) -> Result<HandoverServiceClient<Channel>, Status> {
        let channel = match &handover.departure {
            Some(departure) => self.channel_of_set(departure.set, &departure.addr)?,
            None => match self.handovers.targets.get(handover.to) {
                Some(addr) => get(&self.peers, &addr)?,
                None => {
                    self.channel(handover.to).ok_or_else(|| Status::unavailable("the target's address is not known"))?
                }
            },
        };
        Ok(HandoverServiceClient::new(channel))
    }

    /// Returns a connection to an AllocSvr of another set.
    fn channel_of_set(&self, set: SetId, addr: &str) -> Result<Channel, Status> {
        match self.other_set(set) {
            Some(set) => get(&set.peers, addr),
            None => get(self.other_sets.unnamed(), addr),
        }
    }
}

fn get(peers: &Peers, addr: &str) -> Result<Channel, Status> {
    peers.here().pool.get(addr).map_err(|error| Status::unavailable(error.to_string()))
}

/// Freezes a section, and copies it.
async fn freeze(owned: Arc<OwnedSection>) -> Result<AnyCopy, Status> {
    if owned.slots() <= FROZEN_INLINE {
        return Ok(owned.freeze());
    }
    let frozen = tokio::task::spawn_blocking(move || owned.freeze()).await;
    frozen.map_err(|error| Status::aborted(format!("the section was not frozen: {error}")))
}

/// Makes a call that must complete within `time`. The request also carries this timeout to the server.
async fn within<M>(
    time: Duration,
    message: M,
    call: impl AsyncFnOnce(Request<M>) -> Result<(), Status>,
) -> Result<(), Status> {
    let mut request = Request::new(message);
    request.set_timeout(time);
    traces::inject(request.metadata_mut());
    match tokio::time::timeout(time, call(request)).await {
        Ok(response) => response,
        Err(_) => Err(Status::deadline_exceeded(format!("no response within {time:?}"))),
    }
}
