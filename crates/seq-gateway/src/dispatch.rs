//! Dispatch of a port's requests by content type: gRPC to its services, everything else to the HTTP handlers.
//!
//! **Invariant:** a gRPC request to `SequenceService` allocates no memory here and reads two header fields, one of the
//! request and one of the response.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::CONTENT_TYPE;
use http::{Request, Response, Version};
use seq_api::service::SequenceService;
use seq_proto::status;
use seq_proto::v1::sequence_service_server::{SERVICE_NAME, SequenceServiceServer};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service};
use tonic::service::Routes;

use crate::grpc_service;
use crate::handlers::Handlers;
use crate::http as http_handlers;

/// The services of a port. Clones are handles.
pub(crate) struct Dispatch<F>(Arc<Inner<F>>);

struct Inner<F> {
    handlers: Arc<Handlers<F>>,
    /// Separate from the others: the path lookup among them costs more than an allocation.
    sequences: SequenceServiceServer<grpc_service::Service<F>>,
    services: Routes,
}

impl<F: SequenceService> Dispatch<F> {
    /// Sends requests of `SequenceService` to the handlers, other gRPC requests to `services`.
    pub(crate) fn new(handlers: Arc<Handlers<F>>, services: Routes) -> Dispatch<F> {
        let sequences = SequenceServiceServer::new(grpc_service::Service(handlers.clone()))
            .max_decoding_message_size(seq_core::limits::MAX_CALL_BYTES)
            .max_encoding_message_size(seq_core::limits::MAX_RESPONSE_BYTES);
        Dispatch(Arc::new(Inner { handlers, sequences, services }))
    }
}

impl<F> Clone for Dispatch<F> {
    fn clone(&self) -> Dispatch<F> {
        Dispatch(self.0.clone())
    }
}

impl<F: SequenceService> Service<Request<Body>> for Dispatch<F> {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> ResponseFuture {
        if !is_grpc(&request) {
            let handlers = self.0.handlers.clone();
            return ResponseFuture::Http(Box::pin(async move { Ok(http_handlers::handle(&handlers, request).await) }));
        }
        if is_sequence_service(request.uri().path()) {
            return ResponseFuture::Grpc(self.0.sequences.clone().call(request));
        }
        let mut services = self.0.services.clone();
        ResponseFuture::Grpc(Box::pin(async move { services.call(request).await }))
    }
}

/// Whether a request is gRPC as supported here: protobuf over HTTP/2. Other kinds (gRPC-Web, other codecs, HTTP/1.1)
/// need another framing of the response: their clients could not read the allocated number.
pub(crate) fn is_grpc(request: &Request<Body>) -> bool {
    let suffix = request.headers().get(CONTENT_TYPE).and_then(|is| is.as_bytes().strip_prefix(b"application/grpc"));
    let Some(suffix) = suffix else { return false };
    let parameters = suffix.strip_prefix(b"+proto").unwrap_or(suffix);
    request.version() == Version::HTTP_2 && matches!(parameters.first(), None | Some(b';' | b' '))
}

fn is_sequence_service(path: &str) -> bool {
    path.strip_prefix('/').and_then(|path| path.strip_prefix(SERVICE_NAME)).is_some_and(|rest| rest.starts_with('/'))
}

/// The future of a response.
pub(crate) enum ResponseFuture {
    Grpc(BoxFuture<Response<Body>, Infallible>),
    Http(BoxFuture<Response<Body>, Infallible>),
}

impl Future for ResponseFuture {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            ResponseFuture::Http(response) => response.as_mut().poll(context),
            ResponseFuture::Grpc(response) => {
                response.as_mut().poll(context).map(|response| response.map(normalize_status))
            }
        }
    }
}

/// Replaces the library's status for an undecodable message by this service's code and reason. A status is in the head
/// of a response only if there is no message.
fn normalize_status(response: Response<Body>) -> Response<Body> {
    if !response.headers().contains_key(Status::GRPC_STATUS) {
        return response;
    }
    match Status::from_header_map(response.headers()) {
        Some(status) if status::is_unread(&status) => status::unread(&status).into_http(),
        _ => response,
    }
}
