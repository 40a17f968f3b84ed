//! Unary requests of the Connect protocol at a fake server: each becomes a gRPC request to the same service.
//!
//! The protocol is <https://connectrpc.com/docs/protocol>, here with messages in protobuf only. Clients without an HTTP
//! library that has trailers speak it, over HTTP/1.1 too.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use http_body_util::Full;
use seq_proto::status;
use serde_json::json;
use tonic::body::Body;
use tonic::codegen::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use tonic::codegen::http::{HeaderValue, Request, Response, StatusCode};
use tonic::codegen::{Body as _, BoxFuture, Bytes, Service};
use tonic::server::NamedService;
use tonic::{Code, Status};

/// Content types of messages, of errors, and of gRPC.
const PROTO: HeaderValue = HeaderValue::from_static("application/proto");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

/// Headers with the timeout of a request, in the protocol and in gRPC.
const TIMEOUT: &str = "connect-timeout-ms";
const GRPC_TIMEOUT: &str = "grpc-timeout";

/// Bytes in front of a message of gRPC.
const PREFIX: usize = 5;

/// A gRPC service that also serves unary requests of the Connect protocol.
#[derive(Clone, Debug)]
pub(super) struct Connect<S>(pub(super) S);

impl<S: NamedService> NamedService for Connect<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Connect<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if request.headers().get(CONTENT_TYPE) != Some(&PROTO) {
            return Box::pin(self.0.call(request));
        }
        // A generated service is always ready.
        let mut service = self.0.clone();
        Box::pin(async move {
            let response = match encode(request).await {
                Ok(request) => match service.call(request).await {
                    Ok(response) => decode(response).await,
                },
                Err(status) => Err(status),
            };
            Ok(match response {
                Ok(message) => respond(StatusCode::OK, PROTO, message),
                Err(status) => refuse(&status),
            })
        })
    }
}

/// Converts a request to gRPC.
async fn encode(request: Request<Body>) -> Result<Request<Body>, Status> {
    let (mut head, body) = request.into_parts();
    let (message, _) = read(body).await?;
    if let Some(timeout) = head.headers.remove(TIMEOUT) {
        let timeout = timeout.to_str().ok().and_then(|ms| HeaderValue::try_from(format!("{ms}m")).ok());
        let timeout = timeout.ok_or_else(|| status::malformed(format!("{TIMEOUT} is no number")))?;
        head.headers.insert(GRPC_TIMEOUT, timeout);
    }
    head.headers.remove(CONTENT_LENGTH);
    head.headers.insert(CONTENT_TYPE, GRPC);
    let length =
        u32::try_from(message.len()).map_err(|_| status::malformed("the body has more than 4 GiB".to_owned()))?;
    let framed = [&[0][..], &length.to_be_bytes(), &message].concat();
    Ok(Request::from_parts(head, Body::new(Full::new(Bytes::from(framed)))))
}

/// Returns the message of a response of gRPC.
async fn decode(response: Response<Body>) -> Result<Vec<u8>, Status> {
    let (head, body) = response.into_parts();
    let (mut message, trailer) = read(body).await?;
    // A refused request has its status in the headers, because it has no message.
    match Status::from_header_map(&head.headers).or(trailer) {
        Some(status) if status.code() != Code::Ok => Err(status),
        _ if message.len() < PREFIX => Err(Status::internal("the response has no message")),
        _ => Ok(message.split_off(PREFIX)),
    }
}

/// Reads a body; returns its bytes, and the status in its trailers.
async fn read(body: Body) -> Result<(Vec<u8>, Option<Status>), Status> {
    let (mut body, mut bytes, mut trailer) = (pin!(body), Vec::new(), None);
    while let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
        match frame?.into_data() {
            Ok(data) => bytes.extend_from_slice(&data),
            Err(frame) => trailer = frame.trailers_ref().and_then(Status::from_header_map),
        }
    }
    Ok((bytes, trailer))
}

fn respond(code: StatusCode, content_type: HeaderValue, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::new(Full::new(Bytes::from(body))));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// Returns a status as the protocol defines it.
fn refuse(status: &Status) -> Response<Body> {
    let details: Vec<_> = status::details(status)
        .into_iter()
        .map(|detail| json!({ "type": detail.name, "value": STANDARD_NO_PAD.encode(detail.value) }))
        .collect();
    let (name, code) = in_protocol(status.code());
    let error = json!({ "code": name, "message": status.message(), "details": details });
    respond(code, JSON, error.to_string().into_bytes())
}

/// Returns the name of a code, and the status of its HTTP response.
fn in_protocol(code: Code) -> (&'static str, StatusCode) {
    let (name, number) = match code {
        Code::Cancelled => ("canceled", 499),
        Code::InvalidArgument => ("invalid_argument", 400),
        Code::DeadlineExceeded => ("deadline_exceeded", 504),
        Code::NotFound => ("not_found", 404),
        Code::AlreadyExists => ("already_exists", 409),
        Code::PermissionDenied => ("permission_denied", 403),
        Code::ResourceExhausted => ("resource_exhausted", 429),
        Code::FailedPrecondition => ("failed_precondition", 400),
        Code::Aborted => ("aborted", 409),
        Code::OutOfRange => ("out_of_range", 400),
        Code::Unimplemented => ("unimplemented", 501),
        Code::Internal => ("internal", 500),
        Code::Unavailable => ("unavailable", 503),
        Code::DataLoss => ("data_loss", 500),
        Code::Unauthenticated => ("unauthenticated", 401),
        // A refusal never has the code `Ok`.
        Code::Unknown | Code::Ok => ("unknown", 500),
    };
    (name, StatusCode::from_u16(number).expect("a status of three digits"))
}
