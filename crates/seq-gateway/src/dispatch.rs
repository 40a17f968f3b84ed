//! Dispatches the requests of a port by their content type: gRPC requests to their services, and all other requests to
//! the HTTP handlers.
//!
//! **Invariant:** the memory of a request for numbers is counted for its connection from the
//! dispatch on. To keep the dispatch cheap, only three header fields are read here: the content type and the timeout of
//! the request, and the status of the response. A node with traces also reads the field with the caller's trace.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::{CONNECTION, CONTENT_TYPE};
use http::{HeaderValue, Request, Response, Version};
use seq_api::service::SequenceService;
use seq_kit::memory::MemoryBudget;
use seq_proto::status;
use seq_proto::v1::id_service_server::{IdServiceServer, SERVICE_NAME as IDS};
use seq_proto::v1::key_owner_service_server::{KeyOwnerServiceServer, SERVICE_NAME as KEY_OWNERS};
use seq_proto::v1::key_service_server::{KeyServiceServer, SERVICE_NAME as KEYS};
use seq_proto::v1::sequence_service_server::{SERVICE_NAME, SequenceServiceServer};
use tokio::time::{Instant, Sleep};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service};
use tonic::service::Routes;

use crate::grpc_service;
use crate::handlers::Handlers;
use crate::http as http_handlers;
use crate::memory::Memory;
use crate::request_span::{self, Names};
use crate::timeout;

/// Dispatcher of a port's requests. Clones are handles to the same dispatcher.
pub(crate) struct Dispatch<F>(Arc<Inner<F>>);

struct Inner<F> {
    handlers: Arc<Handlers<F>>,
    /// Service for numbers. It is separate from `services`, because looking up the path among all services costs more
    /// than the allocation of a number.
    sequences: SequenceServiceServer<grpc_service::Service<F>>,
    ids: IdServiceServer<grpc_service::Service<F>>,
    keys: KeyServiceServer<grpc_service::Service<F>>,
    key_owners: KeyOwnerServiceServer<grpc_service::Service<F>>,
    services: Routes,
    memory: MemoryBudget,
    names: Names,
}

impl<F: SequenceService> Dispatch<F> {
    /// Creates a dispatcher. It passes gRPC requests of the services for numbers, and all requests that are
    /// not gRPC, to `handlers`. It passes all other gRPC requests to `services`.
    pub(crate) fn new(handlers: Arc<Handlers<F>>, services: Routes, memory: MemoryBudget, names: Names) -> Dispatch<F> {
        let sequences = SequenceServiceServer::new(grpc_service::Service(handlers.clone()))
            .max_decoding_message_size(seq_core::limits::MAX_CALL_BYTES)
            .max_encoding_message_size(seq_core::limits::MAX_RESPONSE_BYTES);
        let ids = IdServiceServer::new(grpc_service::Service(handlers.clone()))
            .max_decoding_message_size(seq_core::limits::MAX_CALL_BYTES)
            .max_encoding_message_size(seq_core::limits::MAX_RESPONSE_BYTES);
        let keys = KeyServiceServer::new(grpc_service::Service(handlers.clone()))
            .max_decoding_message_size(seq_core::limits::MAX_CALL_BYTES)
            .max_encoding_message_size(seq_core::limits::MAX_RESPONSE_BYTES);
        let key_owners = KeyOwnerServiceServer::new(grpc_service::Service(handlers.clone()))
            .max_decoding_message_size(seq_core::limits::MAX_CALL_BYTES)
            .max_encoding_message_size(seq_core::limits::MAX_RESPONSE_BYTES);
        Dispatch(Arc::new(Inner { handlers, sequences, ids, keys, key_owners, services, memory, names }))
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
        let is_grpc = is_grpc(&request);
        let numbers = if is_grpc { Numbers::of(request.uri().path()) } else { None };
        if is_grpc && numbers.is_none() {
            let mut services = self.0.services.clone();
            return ResponseFuture::Service(Box::pin(async move { services.call(request).await }));
        }
        let memory = match Memory::of(&self.0.memory, request.extensions().get()) {
            Ok(memory) => memory,
            Err(status) if is_grpc => return ResponseFuture::Refused(Some(status.into_http())),
            Err(status) => return ResponseFuture::Refused(Some(http_handlers::refused(&status))),
        };
        let span = self.0.names.span(&request);
        let mut request = request.map(|body| memory.receive(body));
        request.extensions_mut().insert(memory.clone());
        if let Some(numbers) = numbers {
            let end = timeout::end(request.headers()).map(End::At);
            let response = match numbers {
                Numbers::Sequences => self.0.sequences.clone().call(request),
                Numbers::Ids => self.0.ids.clone().call(request),
                Numbers::Keys => self.0.keys.clone().call(request),
                Numbers::KeyOwners => self.0.key_owners.clone().call(request),
            };
            return ResponseFuture::Sequence(request_span::follow(span, response), Some(memory), end);
        }
        let (handlers, request) = (self.0.handlers.clone(), request.map(Body::new));
        let may_end = request.version() < Version::HTTP_2;
        let handling = async move {
            let mut response = http_handlers::handle(&handlers, request).await;
            if may_end && handlers.ends_connections() {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(response)
        };
        ResponseFuture::Sequence(request_span::follow(span, Box::pin(handling)), Some(memory), None)
    }
}

/// Returns whether a request is gRPC in the form that is supported here, which is protobuf over HTTP/2. The response to
/// other forms (gRPC-Web, other codecs, HTTP/1.1) needs another framing, so the clients could not read a number that
/// was allocated for them.
pub(crate) fn is_grpc(request: &Request<Body>) -> bool {
    let suffix = request.headers().get(CONTENT_TYPE).and_then(|is| is.as_bytes().strip_prefix(b"application/grpc"));
    let Some(suffix) = suffix else { return false };
    let parameters = suffix.strip_prefix(b"+proto").unwrap_or(suffix);
    request.version() == Version::HTTP_2 && matches!(parameters.first(), None | Some(b';' | b' '))
}

/// A service for numbers.
#[derive(Clone, Copy)]
enum Numbers {
    Sequences,
    Ids,
    Keys,
    KeyOwners,
}

impl Numbers {
    /// Returns the service that a path names; `None` if it is not one for numbers.
    fn of(path: &str) -> Option<Numbers> {
        let services = [
            (SERVICE_NAME, Numbers::Sequences),
            (IDS, Numbers::Ids),
            (KEYS, Numbers::Keys),
            (KEY_OWNERS, Numbers::KeyOwners),
        ];
        services.into_iter().find(|(service, _)| is_of(service, path)).map(|(_, numbers)| numbers)
    }
}

/// Returns whether a path is a method of a service.
fn is_of(service: &str, path: &str) -> bool {
    path.strip_prefix('/').and_then(|path| path.strip_prefix(service)).is_some_and(|rest| rest.starts_with('/'))
}

/// Timer of a gRPC request, which ends the request at the timeout that its caller stated. The library would end the
/// request at the same time, but with the code CANCELLED.
pub(crate) enum End {
    /// Time at which the request ends. A timer is created only when the request has to wait, because most responses are
    /// ready at once.
    At(Instant),
    Waiting(Pin<Box<Sleep>>),
}

impl End {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let End::At(at) = *self {
            *self = End::Waiting(Box::pin(tokio::time::sleep_until(at)));
        }
        let End::Waiting(sleep) = self else { return Poll::Pending };
        sleep.as_mut().poll(context)
    }
}

/// The future of a response.
pub(crate) enum ResponseFuture {
    /// Response of a service for which no memory is counted.
    Service(BoxFuture<Response<Body>, Infallible>),
    /// Response of a service for numbers or of the HTTP handlers. It has the memory that its request holds, and,
    /// over gRPC, the timer of the request if its caller stated a timeout.
    Sequence(BoxFuture<Response<Body>, Infallible>, Option<Memory>, Option<End>),
    /// Refusal of a request that belongs to no service.
    Refused(Option<Response<Body>>),
}

impl Future for ResponseFuture {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled_once = "a future is not polled after its end";
        match self.get_mut() {
            ResponseFuture::Service(response) => {
                response.as_mut().poll(context).map(|response| response.map(normalize_status))
            }
            ResponseFuture::Sequence(response, memory, end) => {
                let response = match (response.as_mut().poll(context), end) {
                    (Poll::Ready(Ok(response)), _) => response,
                    (Poll::Pending, Some(end)) => {
                        std::task::ready!(end.poll(context));
                        Status::deadline_exceeded("the request's timeout passed before its response").into_http()
                    }
                    (Poll::Pending, None) => return Poll::Pending,
                };
                let memory = memory.take().expect(polled_once);
                Poll::Ready(Ok(normalize_status(response).map(|body| memory.send(body, context))))
            }
            ResponseFuture::Refused(response) => Poll::Ready(Ok(response.take().expect(polled_once))),
        }
    }
}

/// If the response is the library's status for a message that it could not decode, replaces it by a status with this
/// service's code and reason. Only the head of the response is examined, because the head contains a status only if the
/// response has no message.
fn normalize_status(response: Response<Body>) -> Response<Body> {
    if !response.headers().contains_key(Status::GRPC_STATUS) {
        return response;
    }
    match Status::from_header_map(response.headers()) {
        Some(status) if status::is_unread(&status) => status::unread(&status).into_http(),
        _ => response,
    }
}
