//! `SequenceService` in gRPC: the calls, with the deadline that `grpc-timeout` states.

use std::future::Future;
use std::sync::Arc;

use seq_core::Refusal;
use seq_kit::frontend::{Frontend, Via};
use seq_proto::{status, v1};
use tonic::{Request, Response, Status, Streaming};

use crate::calls::{Arrival, Sequence};
use crate::stream::Answers;
use crate::timeout;

/// The service of one door.
pub(crate) struct Service<F>(pub(crate) Arc<Sequence<F>>);

/// Reads when the call ends, and has it answered.
#[inline]
async fn answer<Q, A, Answer>(
    request: Request<Q>,
    ask: impl FnOnce(Arrival, Q) -> Answer,
) -> Result<Response<A>, Status>
where
    Answer: Future<Output = Result<A, Refusal>>,
{
    let arrival = Arrival { deadline: timeout::deadline(request.metadata()), via: Via::Grpc };
    match ask(arrival, request.into_inner()).await {
        Ok(answer) => Ok(Response::new(answer)),
        Err(refusal) => Err(status::to_status(&refusal)),
    }
}

#[tonic::async_trait]
impl<F: Frontend> v1::sequence_service_server::SequenceService for Service<F> {
    async fn next(&self, request: Request<v1::NextRequest>) -> Result<Response<v1::NextResponse>, Status> {
        answer(request, |arrival, request| self.0.next(arrival, request)).await
    }

    async fn next_many(&self, request: Request<v1::NextManyRequest>) -> Result<Response<v1::NextManyResponse>, Status> {
        answer(request, |arrival, request| self.0.next_many(arrival, request)).await
    }

    type NextStreamStream = Answers<F>;

    async fn next_stream(
        &self,
        request: Request<Streaming<v1::NextStreamRequest>>,
    ) -> Result<Response<Answers<F>>, Status> {
        Ok(Response::new(Answers::new(self.0.clone(), request.into_inner())))
    }

    async fn current(&self, request: Request<v1::CurrentRequest>) -> Result<Response<v1::CurrentResponse>, Status> {
        answer(request, |arrival, request| self.0.current(arrival, request)).await
    }

    async fn current_many(
        &self,
        request: Request<v1::CurrentManyRequest>,
    ) -> Result<Response<v1::CurrentManyResponse>, Status> {
        answer(request, |arrival, request| self.0.current_many(arrival, request)).await
    }

    async fn advance(&self, request: Request<v1::AdvanceRequest>) -> Result<Response<v1::AdvanceResponse>, Status> {
        answer(request, |arrival, request| self.0.advance(arrival, request)).await
    }

    async fn get_routes(
        &self,
        request: Request<v1::GetRoutesRequest>,
    ) -> Result<Response<v1::GetRoutesResponse>, Status> {
        Ok(Response::new(self.0.get_routes(request.into_inner())))
    }
}
