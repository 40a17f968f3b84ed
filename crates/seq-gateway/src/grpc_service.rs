//! Implements `SequenceService`, `IdService` and the services of keys over gRPC. Each method calls its handler, with
//! the deadline that the header `grpc-timeout` states.

use std::future::Future;
use std::sync::Arc;

use futures::stream::{BoxStream, StreamExt};
use seq_api::service::{SequenceService, Via};
use seq_proto::v1;
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Status, Streaming};

use crate::handlers::{Handlers, RequestContext};
use crate::memory::Memory;
use crate::stream::Responses;
use crate::timeout::{Deadline, Refused};

/// The gRPC service of one endpoint.
pub(crate) struct Service<F>(pub(crate) Arc<Handlers<F>>);

/// Runs a handler with the deadline and the caller of the request.
#[inline]
async fn handle<F: SequenceService, Q, A, R: Refused, Handled>(
    handlers: &Handlers<F>,
    request: Request<Q>,
    handler: impl FnOnce(RequestContext, Q) -> Handled,
) -> Result<Response<A>, Status>
where
    Handled: Future<Output = Result<A, R>>,
{
    let caller = handlers.caller(request.extensions().get(), authorization(&request))?;
    let deadline = Deadline::of(request.metadata());
    let context = RequestContext { deadline, via: Via::Grpc, caller, memory: memory(&request) };
    match handler(context, request.into_inner()).await {
        Ok(response) => Ok(Response::new(response)),
        Err(refusal) => Err(refusal.status_by(deadline)),
    }
}

/// Returns the counted memory of a request. [`crate::dispatch`] has stored it in the request's extensions.
fn memory<Q>(request: &Request<Q>) -> Memory {
    request.extensions().get::<Memory>().expect("each request has its memory").clone()
}

/// Returns the value of the header `authorization`.
fn authorization<Q>(request: &Request<Q>) -> Option<&[u8]> {
    request.metadata().get("authorization").map(MetadataValue::as_encoded_bytes)
}

#[tonic::async_trait]
impl<F: SequenceService> v1::sequence_service_server::SequenceService for Service<F> {
    async fn next(&self, request: Request<v1::NextRequest>) -> Result<Response<v1::NextResponse>, Status> {
        handle(&self.0, request, |context, request| self.0.next(context, request)).await
    }

    async fn next_many(&self, request: Request<v1::NextManyRequest>) -> Result<Response<v1::NextManyResponse>, Status> {
        handle(&self.0, request, |context, request| self.0.next_many(context, request)).await
    }

    type NextStreamStream = Responses<F>;

    async fn next_stream(
        &self,
        request: Request<Streaming<v1::NextStreamRequest>>,
    ) -> Result<Response<Responses<F>>, Status> {
        let memory = memory(&request);
        let session = self.0.session(request.extensions().get(), authorization(&request))?;
        Ok(Response::new(Responses::new(self.0.clone(), session, memory, request.into_inner())))
    }

    async fn current(&self, request: Request<v1::CurrentRequest>) -> Result<Response<v1::CurrentResponse>, Status> {
        handle(&self.0, request, |context, request| self.0.current(context, request)).await
    }

    async fn current_many(
        &self,
        request: Request<v1::CurrentManyRequest>,
    ) -> Result<Response<v1::CurrentManyResponse>, Status> {
        handle(&self.0, request, |context, request| self.0.current_many(context, request)).await
    }

    async fn advance(&self, request: Request<v1::AdvanceRequest>) -> Result<Response<v1::AdvanceResponse>, Status> {
        handle(&self.0, request, |context, request| self.0.advance(context, request)).await
    }

    async fn get_routes(
        &self,
        request: Request<v1::GetRoutesRequest>,
    ) -> Result<Response<v1::GetRoutesResponse>, Status> {
        handle(&self.0, request, |context, request| async move { self.0.get_routes(&context, request) }).await
    }
}

#[tonic::async_trait]
impl<F: SequenceService> v1::id_service_server::IdService for Service<F> {
    async fn next(&self, request: Request<v1::NextIdsRequest>) -> Result<Response<v1::NextIdsResponse>, Status> {
        handle(&self.0, request, |context, request| self.0.next_ids(context, request)).await
    }

    async fn current(&self, request: Request<v1::CurrentIdRequest>) -> Result<Response<v1::CurrentIdResponse>, Status> {
        handle(&self.0, request, |context, request| self.0.current_id(context, request)).await
    }

    async fn advance(&self, request: Request<v1::AdvanceIdRequest>) -> Result<Response<v1::AdvanceIdResponse>, Status> {
        handle(&self.0, request, |context, request| self.0.advance_id(context, request)).await
    }

    async fn decode(&self, request: Request<v1::DecodeIdRequest>) -> Result<Response<v1::DecodeIdResponse>, Status> {
        handle(&self.0, request, |context, request| async move { self.0.decode_id(&context, &request) }).await
    }

    async fn list_series(
        &self,
        request: Request<v1::ListSeriesRequest>,
    ) -> Result<Response<v1::ListSeriesResponse>, Status> {
        handle(&self.0, request, |context, _| async move { self.0.list_series(&context) }).await
    }
}

#[tonic::async_trait]
impl<F: SequenceService> v1::key_service_server::KeyService for Service<F> {
    async fn next(&self, request: Request<v1::NextKeyRequest>) -> Result<Response<v1::NextResponse>, Status> {
        handle(&self.0, request, |context, request| self.0.next_key(context, request)).await
    }

    async fn next_many(&self, request: Request<v1::NextKeysRequest>) -> Result<Response<v1::NextManyResponse>, Status> {
        handle(&self.0, request, |context, request| self.0.next_keys(context, request)).await
    }

    type NextStreamStream = BoxStream<'static, Result<v1::NextStreamResponse, Status>>;

    async fn next_stream(
        &self,
        request: Request<Streaming<v1::NextKeysMessage>>,
    ) -> Result<Response<Self::NextStreamStream>, Status> {
        let memory = memory(&request);
        let session = self.0.session(request.extensions().get(), authorization(&request))?;
        Ok(Response::new(self.0.clone().key_stream(session, memory, request.into_inner()).boxed()))
    }

    async fn current(&self, request: Request<v1::CurrentKeyRequest>) -> Result<Response<v1::CurrentResponse>, Status> {
        handle(&self.0, request, |context, request| self.0.current_key(context, request)).await
    }

    async fn current_many(
        &self,
        request: Request<v1::CurrentKeysRequest>,
    ) -> Result<Response<v1::CurrentManyResponse>, Status> {
        handle(&self.0, request, |context, request| self.0.current_keys(context, request)).await
    }

    async fn advance(&self, request: Request<v1::AdvanceKeyRequest>) -> Result<Response<v1::AdvanceResponse>, Status> {
        handle(&self.0, request, |context, request| self.0.advance_key(context, request)).await
    }
}

#[tonic::async_trait]
impl<F: SequenceService> v1::key_owner_service_server::KeyOwnerService for Service<F> {
    async fn next_hashed(
        &self,
        request: Request<v1::HashedKeysRequest>,
    ) -> Result<Response<v1::NextManyResponse>, Status> {
        handle(&self.0, request, |context, request| self.0.next_hashed(context, request)).await
    }

    async fn current_hashed(
        &self,
        request: Request<v1::HashedKeysRequest>,
    ) -> Result<Response<v1::CurrentManyResponse>, Status> {
        handle(&self.0, request, |context, request| self.0.current_hashed(context, request)).await
    }

    async fn advance_hashed(
        &self,
        request: Request<v1::AdvanceHashedRequest>,
    ) -> Result<Response<v1::AdvanceResponse>, Status> {
        handle(&self.0, request, |context, request| self.0.advance_hashed(context, request)).await
    }
}
