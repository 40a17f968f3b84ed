//! The target's side of planned moves: the service that other AllocSvrs of the set call.

use seq_core::Seq;
use seq_core::limits;
use seq_core::owner::handing::{Offer, OfferRefusal};
use seq_core::section::SectionCopy;
use seq_proto::owners::{self, OfferError};
use seq_proto::v1::handover_service_server::{HandoverService, HandoverServiceServer};
use seq_proto::{status, v1};
use tonic::service::Routes;
use tonic::{Code, Request, Response, Status, Streaming};

use crate::allocator::Allocator;

impl Allocator {
    /// What other AllocSvrs of the set call to hand sections over; served beside the doors, on the same port.
    #[must_use]
    pub fn peer_routes(&self) -> Routes {
        let service = HandoverServiceServer::new(Target(self.clone()));
        Routes::new(service.max_decoding_message_size(limits::MAX_REQUEST_BYTES * 2))
    }
}

struct Target(Allocator);

#[tonic::async_trait]
impl HandoverService for Target {
    async fn prepare(&self, request: Request<v1::PrepareRequest>) -> Result<Response<v1::PrepareResponse>, Status> {
        let offer = self.offer(request.get_ref().offer.as_ref())?;
        self.0.shared.step(|owner, _| owner.on_prepare(&offer)).map_err(|refusal| refused(&refusal))?;
        Ok(Response::new(v1::PrepareResponse {}))
    }

    async fn stage(
        &self,
        request: Request<Streaming<v1::StageRequest>>,
    ) -> Result<Response<v1::StageResponse>, Status> {
        let mut messages = request.into_inner();
        let first = messages.message().await?.ok_or_else(|| malformed(&OfferError::Missing))?;
        let offer = self.offer(first.offer.as_ref())?;
        if first.base > Seq::MAX.0 {
            let (section, base) = (offer.section.0, first.base);
            return Err(malformed(&OfferError::Slot { section, slot: 0, distance: 0, base }));
        }
        let layout = &self.0.shared.layout;
        let mut copy = SectionCopy { base: Seq(first.base), distances: Vec::new() };
        let mut next = Some(first);
        while let Some(message) = next {
            owners::extend_copy(&mut copy, &message, offer.section, layout).map_err(|error| malformed(&error))?;
            next = messages.message().await?;
        }
        self.0.shared.step(|owner, _| owner.on_stage(&offer, copy)).map_err(|refusal| refused(&refusal))?;
        Ok(Response::new(v1::StageResponse {}))
    }

    async fn activate(&self, request: Request<v1::ActivateRequest>) -> Result<Response<v1::ActivateResponse>, Status> {
        let v1::ActivateRequest { offer, ceiling } = request.into_inner();
        let offer = self.offer(offer.as_ref())?;
        if ceiling > Seq::MAX.0 {
            let text = format!("section {}: ceiling {ceiling} is above {}", offer.section, Seq::MAX);
            return Err(status::with_reason(Code::InvalidArgument, "BAD_CEILING", text, [], None));
        }
        let shared = &self.0.shared;
        shared
            .step(|owner, effects| owner.on_activate(&offer, Seq(ceiling), effects))
            .map_err(|refusal| refused(&refusal))?;
        Ok(Response::new(v1::ActivateResponse {}))
    }
}

impl Target {
    fn offer(&self, offer: Option<&v1::HandoverOffer>) -> Result<Offer, Status> {
        let shared = &self.0.shared;
        owners::offer(offer, &shared.set, &shared.layout).map_err(|error| malformed(&error))
    }
}

fn malformed(error: &OfferError) -> Status {
    let (code, reason) = match error {
        OfferError::OtherSet { .. } => (Code::FailedPrecondition, "OTHER_SET"),
        _ => (Code::InvalidArgument, "BAD_OFFER"),
    };
    status::with_reason(code, reason, error.to_string(), [], None)
}

fn refused(refusal: &OfferRefusal) -> Status {
    let reason = match refusal {
        OfferRefusal::OtherIncarnation { .. } => "OTHER_INCARNATION",
        OfferRefusal::Leaving => "LEAVING",
        OfferRefusal::Past { .. } => "PAST",
        OfferRefusal::UnknownSection { .. } => "UNKNOWN_SECTION",
    };
    status::with_reason(Code::FailedPrecondition, reason, refusal.to_string(), [], None)
}
