//! One port, three protocols: gRPC goes to its services, everything else to the HTTP side, by content type.
//!
//! **Invariant:** the way of a gRPC call for numbers allocates nothing here and looks at two header fields, one of the request and
//! one of the response.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::CONTENT_TYPE;
use http::{Request, Response, Version};
use seq_kit::frontend::Frontend;
use seq_proto::status;
use seq_proto::v1::sequence_service_server::{SERVICE_NAME, SequenceServiceServer};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service};
use tonic::service::Routes;

use crate::calls::Sequence;
use crate::http as door;
use crate::sequence;

/// The services of a port. Clones are handles.
pub(crate) struct Dispatch<F>(Arc<Inner<F>>);

struct Inner<F> {
    sequence: Arc<Sequence<F>>,
    /// Apart from the others: looking a path up among them costs more than giving a number out.
    numbers: SequenceServiceServer<sequence::Service<F>>,
    services: Routes,
}

impl<F: Frontend> Dispatch<F> {
    /// The calls for numbers go to `sequence`, the other gRPC calls to `services`.
    pub(crate) fn new(sequence: Arc<Sequence<F>>, services: Routes) -> Dispatch<F> {
        let numbers = SequenceServiceServer::new(sequence::Service(sequence.clone()))
            .max_decoding_message_size(seq_core::limits::MAX_CALL_BYTES)
            .max_encoding_message_size(seq_core::limits::MAX_RESPONSE_BYTES);
        Dispatch(Arc::new(Inner { sequence, numbers, services }))
    }
}

impl<F> Clone for Dispatch<F> {
    fn clone(&self) -> Dispatch<F> {
        Dispatch(self.0.clone())
    }
}

impl<F: Frontend> Service<Request<Body>> for Dispatch<F> {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Answer {
        if !is_grpc(&request) {
            let sequence = self.0.sequence.clone();
            return Answer::Http(Box::pin(async move { Ok(door::answer(&sequence, request).await) }));
        }
        if is_for_numbers(request.uri().path()) {
            return Answer::Grpc(self.0.numbers.clone().call(request));
        }
        let mut services = self.0.services.clone();
        Answer::Grpc(Box::pin(async move { services.call(request).await }))
    }
}

/// Whether a request is gRPC as this port speaks it: protobuf over HTTP/2. Other kinds (gRPC-Web, other codecs, HTTP/1.1) need
/// another framing of the response: their callers could not read the number that was taken for them.
fn is_grpc(request: &Request<Body>) -> bool {
    let suffix = request.headers().get(CONTENT_TYPE).and_then(|is| is.as_bytes().strip_prefix(b"application/grpc"));
    let Some(suffix) = suffix else { return false };
    let parameters = suffix.strip_prefix(b"+proto").unwrap_or(suffix);
    request.version() == Version::HTTP_2 && matches!(parameters.first(), None | Some(b';' | b' '))
}

fn is_for_numbers(path: &str) -> bool {
    path.strip_prefix('/').and_then(|path| path.strip_prefix(SERVICE_NAME)).is_some_and(|rest| rest.starts_with('/'))
}

/// The answer to come.
pub(crate) enum Answer {
    Grpc(BoxFuture<Response<Body>, Infallible>),
    Http(BoxFuture<Response<Body>, Infallible>),
}

impl Future for Answer {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Answer::Http(answer) => answer.as_mut().poll(context),
            Answer::Grpc(answer) => answer.as_mut().poll(context).map(|answer| answer.map(in_our_words)),
        }
    }
}

/// What the library says of a message it could not read gets this service's code and reason. A status is in the head of a
/// response only when there is no message.
fn in_our_words(response: Response<Body>) -> Response<Body> {
    if !response.headers().contains_key(Status::GRPC_STATUS) {
        return response;
    }
    match Status::from_header_map(response.headers()) {
        Some(status) if status::is_unread(&status) => status::unread(&status).into_http(),
        _ => response,
    }
}
