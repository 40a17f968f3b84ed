//! Service for handovers to this node. The AllocSvrs that call it are of the same set, or of the set from which a
//! section departs. Other processes may reach the port too, so the service checks every request.
//!
//! **Invariant:** no request to this service starts an ownership. An ownership starts only when the store grants it, as
//! `seq_core::owner::handover` decides. The memory that requests can make this node hold is bounded, even while copies
//! are being received.

use std::time::Duration;

use seq_core::SectionId;
use seq_core::limits;
use seq_core::owner::handover::{HandoverOffer, MAX_OUTGOING, OfferRefusal};
use seq_core::owner::{Effects, Owner};
use seq_core::section::AnyCopy;
use seq_proto::owners::{self, OfferError};
use seq_proto::v1::handover_service_server::{HandoverService, HandoverServiceServer};
use seq_proto::{Reason, v1};
use seq_proto::{staged, status};
use tokio::sync::SemaphorePermit;
use tonic::service::Routes;
use tonic::{Code, Request, Response, Status, Streaming};

use crate::allocator::Allocator;
use crate::handover_calls;

/// Limit on how long a request `Activate` waits for the store's grant. It is long enough for the store's response to
/// one renewal, and well below the source's timeout.
const GRANT_TIME: Duration = Duration::from_millis(400);

impl Allocator {
    /// Returns the service that other AllocSvrs call to hand sections over to this node. It has to be served on the
    /// port for peers.
    #[must_use]
    pub fn handover_service(&self) -> Routes {
        let service = HandoverServiceServer::new(Service(self.clone()));
        Routes::new(service.max_decoding_message_size(limits::MAX_REQUEST_BYTES * 2))
    }
}

struct Service(Allocator);

#[tonic::async_trait]
impl HandoverService for Service {
    async fn prepare(&self, request: Request<v1::PrepareRequest>) -> Result<Response<v1::PrepareResponse>, Status> {
        let offer = self.offer(request.get_ref().offer.as_ref())?;
        self.0.shared.step(|owner, _| owner.on_prepare(&offer)).map_err(|refusal| self.refused(&refusal))?;
        Ok(Response::new(v1::PrepareResponse {}))
    }

    async fn stage(
        &self,
        request: Request<Streaming<v1::StageRequest>>,
    ) -> Result<Response<v1::StageResponse>, Status> {
        let mut messages = request.into_inner();
        let first = messages.message().await?.ok_or_else(|| malformed(&OfferError::Missing))?;
        let offer = self.offer(first.offer.as_ref())?;
        // The offer is checked before the second message is received.
        self.0.shared.ownership.machine().check_offer(&offer).map_err(|refusal| self.refused(&refusal))?;
        let time = handover_calls::stage_time(self.0.shared.config.layout.section_size() as usize);
        let copy = tokio::time::timeout(time, self.receive(first, messages, offer.section)).await;
        let (copy, _room) = copy.map_err(|_| Status::deadline_exceeded(format!("no whole copy within {time:?}")))??;
        self.0.shared.step(|owner, _| owner.on_stage(&offer, copy)).map_err(|refusal| self.refused(&refusal))?;
        Ok(Response::new(v1::StageResponse {}))
    }

    async fn activate(&self, request: Request<v1::ActivateRequest>) -> Result<Response<v1::ActivateResponse>, Status> {
        let offer = self.offer(request.get_ref().offer.as_ref())?;
        let shared = &self.0.shared;
        shared.step(|owner, effects| owner.on_activate(&offer, effects)).map_err(|refusal| self.refused(&refusal))?;
        self.wait_settled(std::slice::from_ref(&offer)).await;
        self.settled(&offer)?;
        Ok(Response::new(v1::ActivateResponse {}))
    }

    async fn make_steps(&self, request: Request<v1::StepsRequest>) -> Result<Response<v1::StepsResponse>, Status> {
        let v1::StepsRequest { prepare, stage, activate } = request.into_inner();
        let steps = prepare.len() + stage.len() + activate.len();
        if steps > MAX_OUTGOING {
            let text = format!("{steps} steps are more than the {MAX_OUTGOING} of one call");
            return Err(Reason::BatchTooLarge.status(text));
        }
        let prepared = self.prepare_all(&prepare);
        let staged = self.stage_all(stage);
        let activated = self.activate_all(&activate).await;
        let outcomes = prepared.iter().chain(&staged).chain(&activated).map(status::to_step_outcome);
        Ok(Response::new(v1::StepsResponse { outcomes: outcomes.collect() }))
    }
}

impl Service {
    fn prepare_all(&self, requests: &[v1::PrepareRequest]) -> Vec<Result<(), Status>> {
        let offers: Vec<_> = requests.iter().map(|request| self.offer(request.offer.as_ref())).collect();
        self.step_all(offers, |owner, offer, _| owner.on_prepare(offer))
    }

    /// Handles copies of sections, each of which is in one message.
    fn stage_all(&self, requests: Vec<v1::StageRequest>) -> Vec<Result<(), Status>> {
        let receiving = &self.0.shared.handovers.receiving;
        let mut room = match receiving.begin() {
            Ok(room) => room,
            Err(status) => return vec![Err(status); requests.len()],
        };
        let layout = self.0.shared.layout();
        let mut read = |request: &v1::StageRequest| -> Result<(HandoverOffer, AnyCopy), Status> {
            let offer = self.offer(request.offer.as_ref())?;
            receiving.make_room(&mut room, staged::slots_of(request))?;
            let mut copy = staged::begin_copy(request, offer.section, &layout).map_err(|error| malformed(&error))?;
            staged::extend_copy(&mut copy, request, offer.section, &layout).map_err(|error| malformed(&error))?;
            copy.shrink_to_fit();
            Ok((offer, copy))
        };
        let (offers, mut copies): (Vec<_>, Vec<_>) = requests
            .iter()
            .map(|request| match read(request) {
                Ok((offer, copy)) => (Ok(offer), Some(copy)),
                Err(status) => (Err(status), None),
            })
            .unzip();
        let mut copies = copies.drain(..).flatten();
        self.step_all(offers, |owner, offer, _| {
            let copy = copies.next().expect("each offer that was read has a copy");
            owner.on_stage(offer, copy)
        })
    }

    /// Handles notifications of committed handovers. Waits until this node owns the sections, for [`GRANT_TIME`].
    async fn activate_all(&self, requests: &[v1::ActivateRequest]) -> Vec<Result<(), Status>> {
        let offers: Vec<_> = requests.iter().map(|request| self.offer(request.offer.as_ref())).collect();
        let activated = self.step_all(offers.clone(), |owner, offer, effects| owner.on_activate(offer, effects));
        let awaited: Vec<HandoverOffer> = offers
            .iter()
            .zip(&activated)
            .filter_map(|(offer, outcome)| offer.as_ref().ok().filter(|_| outcome.is_ok()))
            .copied()
            .collect();
        self.wait_settled(&awaited).await;
        let settled = |(offer, outcome): (Result<HandoverOffer, Status>, Result<(), Status>)| {
            outcome.and_then(|()| self.settled(&offer?))
        };
        offers.into_iter().zip(activated).map(settled).collect()
    }

    /// Runs `step` on the owner's state machine for each offer that was read.
    fn step_all(
        &self,
        offers: Vec<Result<HandoverOffer, Status>>,
        mut step: impl FnMut(&mut Owner, &HandoverOffer, &mut Effects) -> Result<(), OfferRefusal>,
    ) -> Vec<Result<(), Status>> {
        let stepped: Vec<_> = self.0.shared.step(|owner, effects| {
            offers.into_iter().map(|offer| offer.map(|offer| step(owner, &offer, effects))).collect()
        });
        let outcome = |stepped: Result<Result<(), OfferRefusal>, Status>| {
            stepped.and_then(|outcome| outcome.map_err(|refusal| self.refused(&refusal)))
        };
        stepped.into_iter().map(outcome).collect()
    }

    /// Waits until the ownerships in `offers` have begun at this node or can no longer begin, for [`GRANT_TIME`].
    async fn wait_settled(&self, offers: &[HandoverOffer]) {
        let shared = &self.0.shared;
        let settled = async {
            loop {
                let changed = shared.pending.ownership_changed();
                let all = {
                    let machine = shared.ownership.machine();
                    offers.iter().all(|offer| machine.is_settled(offer))
                };
                if all {
                    return;
                }
                changed.await;
            }
        };
        // The caller checks each ownership.
        let _ = tokio::time::timeout(GRANT_TIME, settled).await;
    }

    /// Returns an error if the ownership in an offer has not begun at this node, and can still begin.
    fn settled(&self, offer: &HandoverOffer) -> Result<(), Status> {
        if self.0.shared.ownership.machine().is_settled(offer) {
            return Ok(());
        }
        let text = format!("the store did not grant section {} within {GRANT_TIME:?}", offer.section);
        Err(Reason::NotGranted.status(text))
    }
}

impl Service {
    /// Receives a copy of a section, of which `first` is the first message and `messages` are the others. Returns the
    /// copy, and the permit that accounts for the memory of its slots.
    async fn receive(
        &self,
        first: v1::StageRequest,
        mut messages: Streaming<v1::StageRequest>,
        section: SectionId,
    ) -> Result<(AnyCopy, SemaphorePermit<'_>), Status> {
        let shared = &self.0.shared;
        let mut room = shared.handovers.receiving.begin()?;
        let mut copy = staged::begin_copy(&first, section, &shared.layout()).map_err(|error| malformed(&error))?;
        let mut next = Some(first);
        while let Some(message) = next {
            shared.handovers.receiving.make_room(&mut room, staged::slots_of(&message))?;
            staged::extend_copy(&mut copy, &message, section, &shared.layout()).map_err(|error| malformed(&error))?;
            next = messages.message().await?;
        }
        // The permit accounts for the slots of the copy, but not for spare capacity of the vector.
        copy.shrink_to_fit();
        Ok((copy, room))
    }

    fn offer(&self, offer: Option<&v1::HandoverOffer>) -> Result<HandoverOffer, Status> {
        let shared = &self.0.shared;
        let offer = owners::offer(offer, &shared.config.set, shared.ownership.set_id(), &shared.layout());
        offer.map_err(|error| {
            if matches!(error, OfferError::Section { .. }) {
                // The section belongs to a new series that the source knows but this node does not yet know. The
                // response to the renewal contains the series.
                shared.registration.request_renewal();
                return Reason::UnknownSection.status_as(Code::FailedPrecondition, error.to_string());
            }
            malformed(&error)
        })
    }
}

impl Service {
    fn refused(&self, refusal: &OfferRefusal) -> Status {
        let reason = match refusal {
            OfferRefusal::OtherIncarnation { .. } => Reason::OtherIncarnation,
            OfferRefusal::Leaving => Reason::Leaving,
            OfferRefusal::Past { .. } => Reason::Past,
            OfferRefusal::UnknownSection { .. } => Reason::UnknownSection,
            OfferRefusal::UnknownEpoch { .. } => Reason::UnknownEpoch,
            OfferRefusal::Copy { .. } => Reason::BadCopy,
        };
        if matches!(refusal, OfferRefusal::UnknownEpoch { .. }) {
            // The source may have newer routes than this node. The response to the renewal contains them and arrives
            // before the source's next attempt.
            self.0.shared.registration.request_renewal();
        }
        reason.status_as(Code::FailedPrecondition, refusal.to_string())
    }
}

fn malformed(error: &OfferError) -> Status {
    let reason = match error {
        OfferError::OtherSet { .. } | OfferError::OtherTarget { .. } => Reason::OtherSet,
        OfferError::OtherLayout { .. } => Reason::OtherLayout,
        _ => Reason::BadOffer,
    };
    reason.status(error.to_string())
}
