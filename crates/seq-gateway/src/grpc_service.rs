//! `SequenceService` over gRPC: the handlers, with the deadline of `grpc-timeout`.

use std::future::Future;
use std::sync::Arc;

use seq_api::service::{SequenceService, Via};
use seq_core::Refusal;
use seq_proto::{status, v1};
use tonic::{Request, Response, Status, Streaming};

use crate::handlers::{Handlers, RequestContext};
use crate::stream::Responses;
use crate::timeout;

/// The gRPC service of one endpoint.
pub(crate) struct Service<F>(pub(crate) Arc<Handlers<F>>);

/// Runs a handler with the deadline of the request.
#[inline]
async fn handle<Q, A, Handled>(
    request: Request<Q>,
    handler: impl FnOnce(RequestContext, Q) -> Handled,
) -> Result<Response<A>, Status>
where
    Handled: Future<Output = Result<A, Refusal>>,
{
    let context = RequestContext { deadline: timeout::deadline(request.metadata()), via: Via::Grpc };
    match handler(context, request.into_inner()).await {
        Ok(response) => Ok(Response::new(response)),
        Err(refusal) => Err(status::to_status(&refusal)),
    }
}

#[tonic::async_trait]
impl<F: SequenceService> v1::sequence_service_server::SequenceService for Service<F> {
    async fn next(&self, request: Request<v1::NextRequest>) -> Result<Response<v1::NextResponse>, Status> {
        handle(request, |context, request| self.0.next(context, request)).await
    }

    async fn next_many(&self, request: Request<v1::NextManyRequest>) -> Result<Response<v1::NextManyResponse>, Status> {
        handle(request, |context, request| self.0.next_many(context, request)).await
    }

    type NextStreamStream = Responses<F>;

    async fn next_stream(
        &self,
        request: Request<Streaming<v1::NextStreamRequest>>,
    ) -> Result<Response<Responses<F>>, Status> {
        Ok(Response::new(Responses::new(self.0.clone(), request.into_inner())))
    }

    async fn current(&self, request: Request<v1::CurrentRequest>) -> Result<Response<v1::CurrentResponse>, Status> {
        handle(request, |context, request| self.0.current(context, request)).await
    }

    async fn current_many(
        &self,
        request: Request<v1::CurrentManyRequest>,
    ) -> Result<Response<v1::CurrentManyResponse>, Status> {
        handle(request, |context, request| self.0.current_many(context, request)).await
    }

    async fn advance(&self, request: Request<v1::AdvanceRequest>) -> Result<Response<v1::AdvanceResponse>, Status> {
        handle(request, |context, request| self.0.advance(context, request)).await
    }

    async fn get_routes(
        &self,
        request: Request<v1::GetRoutesRequest>,
    ) -> Result<Response<v1::GetRoutesResponse>, Status> {
        Ok(Response::new(self.0.get_routes(request.into_inner())))
    }
}
