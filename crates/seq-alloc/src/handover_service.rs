//! Service for handovers to this node. The AllocSvrs that call it are of the same set, or of the set from which a
//! section departs. Other processes may reach the port too, so the service checks every request.
//!
//! **Invariant:** no request to this service starts an ownership. An ownership starts only when the store grants it, as
//! `seq_core::owner::handover` decides. The memory that requests can make this node hold is bounded, even while copies
//! are being received.

use std::time::Duration;

use seq_core::SectionId;
use seq_core::limits;
use seq_core::owner::handover::{HandoverOffer, OfferRefusal};
use seq_core::section::AnyCopy;
use seq_proto::owners::{self, OfferError};
use seq_proto::staged;
use seq_proto::v1::handover_service_server::{HandoverService, HandoverServiceServer};
use seq_proto::{Reason, v1};
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
        let begun = async {
            loop {
                let changed = shared.pending.ownership_changed();
                if shared.ownership.machine().is_settled(&offer) {
                    return;
                }
                changed.await;
            }
        };
        match tokio::time::timeout(GRANT_TIME, begun).await {
            Ok(()) => Ok(Response::new(v1::ActivateResponse {})),
            Err(_) => {
                let text = format!("the store did not grant section {} within {GRANT_TIME:?}", offer.section);
                Err(Reason::NotGranted.status(text))
            }
        }
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
