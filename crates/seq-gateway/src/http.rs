//! Serves HTTP on the gRPC port: JSON as defined by the Connect protocol, plain text for shells, and the OpenAPI
//! description of both.
//!
//! Every response is built from a whole request, within limits on the request's bytes and time, in the same way for
//! HTTP/1.1 and HTTP/2. If a request is refused before its body was read, the body is then read and discarded, within
//! limits. Otherwise the connection would be closed with unread bytes, and the client might not get the refusal.

use std::sync::Arc;
use std::time::Duration;

use http::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, RETRY_AFTER,
    TRANSFER_ENCODING, X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::{BodyExt, Full};
use seq_api::service::SequenceService;
use seq_proto::status;
use seq_tenant::Caller;
use tonic::body::Body;
use tonic::{Code, Status};

use crate::handlers::Handlers;
use crate::memory::Memory;

mod browser;
mod connect;
mod id_text;
mod key_text;
mod text;

/// The OpenAPI description of the HTTP endpoints.
const OPENAPI: &str = include_str!("../api/openapi.json");

const HINT: &str = "seqsvr allocates sequence numbers and ids.\n\n\
    POST /api/seq/next/{uid}       allocates the next number, as text; ?n=10 allocates ten and returns the last one\n\
    GET  /api/seq/current/{uid}    the last number allocated\n\
    POST /api/id/next/{name}       takes the next id of a series, as text; ?n=10 takes ten; also lane= and after=\n\
    GET  /api/id/current/{name}    the last id of a counter\n\
    GET  /api/id/decode/{name}/{id}    the parts of an id\n\
    POST /api/key/next/{keyspace}/{key}    allocates the next number of a key, as text, also with ?n=\n\
    GET  /api/key/current/{keyspace}/{key}    the last number of a key\n\
    POST /api/segment/get/{key}, /api/snowflake/get/{key}    an id, as Leaf returns it\n\
    POST /seqsvr.v1.SequenceService/{Next,NextMany,Current,CurrentMany,Advance,GetRoutes}    JSON, as Connect defines it\n\
    POST /seqsvr.v1.IdService/{Next,Current,Advance,Decode,ListSeries}    likewise\n\
    POST /seqsvr.v1.KeyService/{Next,NextMany,Current,CurrentMany,Advance}    likewise\n\
    GET  /api/openapi.json         describes them\n\
    GET  /readyz, /livez           200 or 503, for load balancers\n\n\
    gRPC is on this port as well.\n";

/// Limit on the bytes of a refused request that are read and discarded. It is the size of the largest message, with
/// some margin.
const DRAIN_BYTES: usize = 2 << 20;

/// Timeout for reading the rest of a refused request. A sender that is slower than this may not get the refusal.
const DRAIN_TIME: Duration = Duration::from_secs(2);

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// Handles a request that is not gRPC.
pub(crate) async fn handle<F: SequenceService>(handlers: &Arc<Handlers<F>>, request: Request<Body>) -> Response<Body> {
    let (head, mut body) = request.into_parts();
    let mut response = respond_to(handlers, &head, &mut body).await;
    if head.method == Method::HEAD {
        response = without_body(response);
    }
    // If reading the body has timed out, the rest of the body is not read.
    if response.status() != StatusCode::GATEWAY_TIMEOUT {
        drain(&head, &mut body).await;
    }
    response
}

async fn respond_to<F: SequenceService>(handlers: &Arc<Handlers<F>>, head: &Parts, body: &mut Body) -> Response<Body> {
    let path = head.uri.path();
    if has_other_framing(head) {
        let mut refused = respond(StatusCode::BAD_REQUEST, TEXT, "Transfer-Encoding may state chunked, once\n");
        refused.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        return refused;
    }
    if is_any_grpc(head) {
        let text = "gRPC here is application/grpc or application/grpc+proto over HTTP/2. Over HTTP/1.1, and from browsers, send \
                    application/json or application/proto as Connect defines them\n";
        return respond(StatusCode::UNSUPPORTED_MEDIA_TYPE, TEXT, text);
    }
    if let Some(method) = connect::method(path) {
        return connect::handle(handlers, method, head, body).await;
    }
    if let Some(called) = id_text::called(path) {
        return id_text::handle(handlers, called, head).await;
    }
    if let Some(called) = key_text::called(path) {
        return key_text::handle(handlers, called, head).await;
    }
    if path.starts_with(text::PREFIX) {
        return text::handle(handlers, head).await;
    }
    let (status, content_type, page) = match path {
        "/" => (StatusCode::OK, TEXT, HINT),
        "/api/openapi.json" => (StatusCode::OK, JSON, OPENAPI),
        "/livez" => (StatusCode::OK, TEXT, "alive\n"),
        "/readyz" if handlers.is_ready() => (StatusCode::OK, TEXT, "ready\n"),
        "/readyz" => (StatusCode::SERVICE_UNAVAILABLE, TEXT, "not ready\n"),
        _ => return not_found(path),
    };
    if matches!(head.method, Method::GET | Method::HEAD) {
        respond(status, content_type, page)
    } else {
        not_allowed("GET, HEAD")
    }
}

/// Removes the body of a response to HEAD, and states its length.
fn without_body(response: Response<Body>) -> Response<Body> {
    let (mut head, body) = response.into_parts();
    if let Some(bytes) = body.size_hint().exact() {
        head.headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes));
    }
    Response::from_parts(head, Body::empty())
}

/// Returns the sender of a request.
fn caller<F: SequenceService>(handlers: &Handlers<F>, head: &Parts) -> Result<Caller, Status> {
    handlers.caller(head.extensions.get(), head.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes))
}

/// Returns the counted memory of a request. [`crate::dispatch`] has stored it in the request's extensions.
fn memory(head: &Parts) -> Memory {
    head.extensions.get::<Memory>().expect("each request has its memory").clone()
}

/// Returns whether the request has a content type of gRPC. Such a request is refused here, because requests that can be
/// served as gRPC are not passed to this module.
fn is_any_grpc(head: &Parts) -> bool {
    let content_type = head.headers.get(CONTENT_TYPE).map_or(&b""[..], |is| is.as_bytes());
    content_type.get(..16).is_some_and(|start| start.eq_ignore_ascii_case(b"application/grpc"))
}

/// Returns whether a proxy could compute another length of the body than this server does, because the request's
/// transfer encodings are not exactly `chunked` (RFC 9112, section 6.1). The HTTP library refuses unknown encodings,
/// but accepts a repeated `chunked`.
fn has_other_framing(head: &Parts) -> bool {
    let mut encodings = head.headers.get_all(TRANSFER_ENCODING).iter();
    let first = encodings.next();
    first.is_some_and(|first| !first.as_bytes().eq_ignore_ascii_case(b"chunked")) || encodings.next().is_some()
}

/// Reads and discards the rest of a body, within [`DRAIN_BYTES`] and [`DRAIN_TIME`].
async fn drain(head: &Parts, body: &mut Body) {
    // A client that waits for "100 Continue" has not sent a body.
    if body.is_end_stream() || head.headers.contains_key(EXPECT) {
        return;
    }
    let reading = async {
        let mut left = DRAIN_BYTES;
        while let Some(Ok(frame)) = body.frame().await {
            let bytes = frame.data_ref().map_or(0, bytes::Bytes::len);
            let Some(rest) = left.checked_sub(bytes) else { return };
            left = rest;
        }
    };
    let _ = tokio::time::timeout(DRAIN_TIME, reading).await;
}

/// Returns the response to a request that was refused before any handler was called.
pub(crate) fn refused(status: &Status) -> Response<Body> {
    connect::refused(status)
}

fn respond(code: StatusCode, content_type: &'static str, body: impl Into<bytes::Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::new(Full::new(body.into())));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    // If a response were cached, two callers could get the same number.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // A browser that guesses content types could treat the text of a refusal as a web page.
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn not_found(path: &str) -> Response<Body> {
    respond(StatusCode::NOT_FOUND, TEXT, format!("nothing is at {path:?}; GET / lists what there is\n"))
}

fn not_allowed(allowed: &'static str) -> Response<Body> {
    let mut response = respond(StatusCode::METHOD_NOT_ALLOWED, TEXT, format!("the method must be {allowed}\n"));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

/// Adds `retry-after` to a refusal, in whole seconds, as HTTP defines it.
fn hint_retry(response: &mut Response<Body>, status: &Status) {
    if let Some(after) = status::retry_after(status) {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(after.as_millis().div_ceil(1_000) as u64));
    }
}

/// Returns the HTTP status for a gRPC code, as the Connect protocol defines it.
fn http_status(code: Code) -> StatusCode {
    let number = match code {
        Code::Ok => 200,
        Code::Cancelled => 499,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => 400,
        Code::Unauthenticated => 401,
        Code::PermissionDenied => 403,
        Code::NotFound => 404,
        Code::AlreadyExists | Code::Aborted => 409,
        Code::ResourceExhausted => 429,
        Code::Unimplemented => 501,
        Code::Unavailable => 503,
        Code::DeadlineExceeded => 504,
        Code::Unknown | Code::Internal | Code::DataLoss => 500,
    };
    StatusCode::from_u16(number).expect("a status of three digits")
}
