//! Calls that the source of a handover makes: prepare, stage and activate to the target, which may be in another set,
//! and commit to the store of the source's set.
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
use seq_proto::{owners, staged, v1};
use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::ownership::OwnedSection;
use crate::peers::Peers;
use crate::shared::Shared;
use crate::store_link::{StoreError, StoreLink};

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

/// Returns the timeout for staging a copy with `slots` touched uids.
pub(crate) fn stage_time(slots: usize) -> Duration {
    STAGE_TIME + Duration::from_millis((slots / STAGED_SLOTS_PER_MS) as u64)
}

/// Response of the store to one attempt to commit a handover.
pub(crate) struct CommitResponse {
    /// Reading of the clocks before the request was sent. A lease that the response grants begins at this time.
    pub(crate) sent: Clocks,
    pub(crate) response: Result<Option<v1::OwnershipUpdate>, StoreError>,
}

impl Shared {
    pub(crate) async fn prepare(&self, handover: &Handover) -> Result<(), Status> {
        let request = v1::PrepareRequest { offer: Some(self.offer(handover)) };
        let mut target = self.target(handover)?;
        within(RESPONSE_TIMEOUT, request, async |request| target.prepare(request).await.map(drop)).await
    }

    /// Freezes the section and sends its copy to the target.
    pub(crate) async fn stage(&self, handover: &Handover) -> Result<(), Status> {
        let served =
            self.ownership.owned().get(handover.section).filter(|owned| owned.epoch == handover.epoch).cloned();
        let Some(owned) = served else { return Err(Status::aborted("the section left")) };
        let mut target = self.target(handover)?;
        let copy = freeze(owned).await?;
        let time = stage_time(copy.slots());
        let messages = staged::to_stage(self.offer(handover), copy);
        within(time, futures::stream::iter(messages), async |request| target.stage(request).await.map(drop)).await
    }

    /// Makes one attempt to commit a handover in the store.
    pub(crate) async fn commit(&self, link: &StoreLink, handover: &Handover) -> CommitResponse {
        let sent = self.clock.now();
        let response = match &handover.departure {
            None => link.call(self.transfer(handover)).await.map(|response| response.update),
            Some(departure) => link.call(self.depart(handover, departure)).await.map(|response| response.update),
        };
        CommitResponse { sent, response }
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

    pub(crate) async fn activate(&self, handover: &Handover) -> Result<(), Status> {
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
