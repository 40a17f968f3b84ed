//! Serves unary requests as defined by <https://connectrpc.com/docs/protocol>, in both codecs: JSON and protobuf.
//!
//! JSON follows the mapping of proto3: 64-bit numbers are encoded as strings, and are decoded from strings or numbers.
//! Unknown fields are ignored, as in protobuf, so that a newer client can call an older node. Errors are encoded as
//! JSON with either codec.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use prost::Message;
use seq_api::service::{SequenceService, Via};
use seq_core::limits;
use seq_proto::Reason;
use seq_proto::status::{self, Detail};
use seq_proto::v1;
use seq_proto::v1::id_service_server::SERVICE_NAME as IDS;
use seq_proto::v1::key_service_server::SERVICE_NAME as KEYS;
use seq_proto::v1::sequence_service_server::SERVICE_NAME;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::Instant;
use tonic::body::Body;
use tonic::{Code, Status};

use super::{JSON, TEXT, browser, hint_retry, http_status, not_allowed, respond};
use crate::handlers::{Handlers, RequestContext};
use crate::timeout::{Deadline, Refused};

/// Limit on the bytes of a message in JSON. A full batch with counts and epochs has 560 KB if each number has its
/// greatest width and is in quotes.
const MAX_JSON_BYTES: usize = 1024 * 1024;

/// The content type of messages in protobuf, the default of most Connect clients.
const PROTO: &str = "application/proto";

/// Prefix of the content types of Connect streams.
const STREAM: &str = "application/connect+";

/// The flag of the message that ends a stream.
const END_OF_STREAM: u8 = 0b10;

/// Header: the caller's timeout in milliseconds.
const TIMEOUT: &str = "connect-timeout-ms";

/// Limit on the digits of [`TIMEOUT`], as the protocol defines it.
const MAX_TIMEOUT_DIGITS: usize = 10;

/// Header: the version of the protocol; optional.
const VERSION: &str = "connect-protocol-version";

/// The encoding of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Codec {
    Json,
    Proto,
}

impl Codec {
    /// Returns the codec of the content type, with or without parameters.
    fn of(headers: &HeaderMap) -> Option<Codec> {
        let content_type = media_type(headers)?;
        [Codec::Json, Codec::Proto].into_iter().find(|codec| content_type.eq_ignore_ascii_case(codec.content_type()))
    }

    fn content_type(self) -> &'static str {
        match self {
            Codec::Json => JSON,
            Codec::Proto => PROTO,
        }
    }

    /// Returns the largest size of a message, in bytes.
    fn most(self) -> usize {
        match self {
            Codec::Json => MAX_JSON_BYTES,
            Codec::Proto => limits::MAX_CALL_BYTES,
        }
    }

    fn decode<Q: DeserializeOwned + Message + Default>(self, body: &[u8]) -> Result<Q, Status> {
        match self {
            Codec::Json => decode_json(body),
            Codec::Proto => Q::decode(body).map_err(|error| status::malformed(error.to_string())),
        }
    }

    fn encode(
        self,
        response: Result<impl Serialize + Message, impl Refused>,
        deadline: Deadline,
    ) -> Result<Vec<u8>, Status> {
        let response = response.map_err(|refusal| refusal.status_by(deadline))?;
        match self {
            Codec::Json => serde_json::to_vec(&response).map_err(|error| Status::internal(error.to_string())),
            Codec::Proto => Ok(response.encode_to_vec()),
        }
    }
}

/// The target of a path below a service of this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Called<'a> {
    /// A unary method.
    Unary(Unary),
    /// Any other path below a service, that is, a streaming method or an unknown method.
    Other(&'static str, &'a str),
}

/// A unary method of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unary {
    Next,
    NextMany,
    Current,
    CurrentMany,
    Advance,
    GetRoutes,
    NextIds,
    CurrentId,
    AdvanceId,
    DecodeId,
    ListSeries,
    NextKey,
    NextKeys,
    CurrentKey,
    CurrentKeys,
    AdvanceKey,
}

/// Returns the method that a path names; `None` if the path is not below a service of this module.
pub(super) fn method(path: &str) -> Option<Called<'_>> {
    let (service, name) = path.strip_prefix('/')?.split_once('/')?;
    if service == IDS {
        return Some(Called::Unary(match name {
            "Next" => Unary::NextIds,
            "Current" => Unary::CurrentId,
            "Advance" => Unary::AdvanceId,
            "Decode" => Unary::DecodeId,
            "ListSeries" => Unary::ListSeries,
            other => return Some(Called::Other(IDS, other)),
        }));
    }
    if service == KEYS {
        return Some(Called::Unary(match name {
            "Next" => Unary::NextKey,
            "NextMany" => Unary::NextKeys,
            "Current" => Unary::CurrentKey,
            "CurrentMany" => Unary::CurrentKeys,
            "Advance" => Unary::AdvanceKey,
            other => return Some(Called::Other(KEYS, other)),
        }));
    }
    if service != SERVICE_NAME {
        return None;
    }
    Some(Called::Unary(match name {
        "Next" => Unary::Next,
        "NextMany" => Unary::NextMany,
        "Current" => Unary::Current,
        "CurrentMany" => Unary::CurrentMany,
        "Advance" => Unary::Advance,
        "GetRoutes" => Unary::GetRoutes,
        other => return Some(Called::Other(SERVICE_NAME, other)),
    }))
}

pub(super) async fn handle<F: SequenceService>(
    handlers: &Arc<Handlers<F>>,
    called: Called<'_>,
    head: &Parts,
    body: &mut Body,
) -> Response<Body> {
    let method = match called {
        Called::Unary(method) => method,
        Called::Other(service, name) => return unimplemented((service, name), &head.headers),
    };
    if head.method != Method::POST {
        return not_allowed("POST");
    }
    if let Err(status) = browser::check(head) {
        return refused(&status);
    }
    let Some(codec) = Codec::of(&head.headers) else {
        let text = "send application/json or application/proto\n";
        let mut response = respond(StatusCode::UNSUPPORTED_MEDIA_TYPE, TEXT, text);
        response.headers_mut().insert("accept-post", HeaderValue::from_static("application/json, application/proto"));
        return response;
    };
    match unary(handlers, method, codec, head, body).await {
        Ok(message) => respond(StatusCode::OK, codec.content_type(), message),
        Err(status) => refused(&status),
    }
}

/// Refuses a request whose path names no unary method, in a form that the caller can decode. If the request is a
/// stream, the response is a stream that ends with the error.
fn unimplemented((service, name): (&str, &str), headers: &HeaderMap) -> Response<Body> {
    let text = format!("{service} has no unary method {name:?}; streams are served over gRPC");
    let status = Reason::UnknownMethod.status(text);
    let content_type = media_type(headers).unwrap_or_default();
    let stream = ["proto", "json"].into_iter().find(|codec| content_type.strip_prefix(STREAM) == Some(codec));
    let Some(codec) = stream else { return refused(&status) };
    let end = json!({ "error": error(&status) }).to_string();
    let length = u32::try_from(end.len()).expect("an error is short").to_be_bytes();
    let message = [&[END_OF_STREAM][..], &length, end.as_bytes()].concat();
    respond(
        StatusCode::OK,
        if codec == "proto" { "application/connect+proto" } else { "application/connect+json" },
        message,
    )
}

async fn unary<F: SequenceService>(
    handlers: &Handlers<F>,
    method: Unary,
    codec: Codec,
    head: &Parts,
    body: &mut Body,
) -> Result<Vec<u8>, Status> {
    let headers = &head.headers;
    let (deadline, caller) = (deadline(headers)?, super::caller(handlers, head)?);
    let context = RequestContext { deadline, via: Via::Json, caller, memory: super::memory(head) };
    check(headers)?;
    let body = read(headers, body, codec.most(), deadline.at).await?;
    match method {
        Unary::Next => codec.encode(handlers.next(context, codec.decode(&body)?).await, deadline),
        Unary::NextMany => codec.encode(handlers.next_many(context, codec.decode(&body)?).await, deadline),
        Unary::Current => codec.encode(handlers.current(context, codec.decode(&body)?).await, deadline),
        Unary::CurrentMany => codec.encode(handlers.current_many(context, codec.decode(&body)?).await, deadline),
        Unary::Advance => codec.encode(handlers.advance(context, codec.decode(&body)?).await, deadline),
        Unary::GetRoutes => codec.encode(handlers.get_routes(&context, codec.decode(&body)?), deadline),
        Unary::NextIds => codec.encode(handlers.next_ids(context, codec.decode(&body)?).await, deadline),
        Unary::CurrentId => codec.encode(handlers.current_id(context, codec.decode(&body)?).await, deadline),
        Unary::AdvanceId => codec.encode(handlers.advance_id(context, codec.decode(&body)?).await, deadline),
        Unary::DecodeId => codec.encode(handlers.decode_id(&context, &codec.decode(&body)?), deadline),
        Unary::NextKey => codec.encode(handlers.next_key(context, codec.decode(&body)?).await, deadline),
        Unary::NextKeys => codec.encode(handlers.next_keys(context, codec.decode(&body)?).await, deadline),
        Unary::CurrentKey => codec.encode(handlers.current_key(context, codec.decode(&body)?).await, deadline),
        Unary::CurrentKeys => codec.encode(handlers.current_keys(context, codec.decode(&body)?).await, deadline),
        Unary::AdvanceKey => codec.encode(handlers.advance_key(context, codec.decode(&body)?).await, deadline),
        Unary::ListSeries => {
            codec.decode::<v1::ListSeriesRequest>(&body)?;
            codec.encode(handlers.list_series(&context), deadline)
        }
    }
}

/// Returns the content type without its parameters.
fn media_type(headers: &HeaderMap) -> Option<&str> {
    Some(headers.get(CONTENT_TYPE)?.to_str().ok()?.split(';').next()?.trim())
}

fn deadline(headers: &HeaderMap) -> Result<Deadline, Status> {
    let Some(value) = headers.get(TIMEOUT) else { return Ok(Deadline::unstated()) };
    let digits = value.to_str().ok().filter(|text| text.len() <= MAX_TIMEOUT_DIGITS);
    let digits = digits.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let millis = digits.and_then(|text| text.parse().ok()).filter(|millis| *millis > 0);
    let millis =
        millis.ok_or_else(|| status::malformed(format!("{TIMEOUT}: {value:?} is not 1 to 10 digits, above 0")))?;
    Ok(Deadline::stated(Duration::from_millis(millis)))
}

fn check(headers: &HeaderMap) -> Result<(), Status> {
    if let Some(version) = headers.get(VERSION).filter(|version| *version != "1") {
        return Err(status::malformed(format!("{VERSION}: {version:?} is not \"1\"")));
    }
    match headers.get(CONTENT_ENCODING).filter(|encoding| *encoding != "identity") {
        None => Ok(()),
        Some(encoding) => {
            let text = format!("the content encoding {encoding:?} is not supported; send the body uncompressed");
            Err(Reason::UnsupportedEncoding.status(text))
        }
    }
}

/// Reads the whole body of a request, until the request's deadline at the latest. Refuses a body with more than `most`
/// bytes.
async fn read(headers: &HeaderMap, body: &mut Body, most: usize, deadline: Instant) -> Result<Bytes, Status> {
    let stated = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if stated.is_some_and(|length| length > most as u64) {
        return Err(status::too_large(most));
    }
    match tokio::time::timeout_at(deadline, Limited::new(body, most).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(status::too_large(most)),
        Ok(Err(error)) => Err(status::malformed(format!("the body ended early: {error}"))),
        Err(_) => Err(Reason::BodyTimedOut.status("the body did not arrive in time")),
    }
}

fn decode_json<Q: DeserializeOwned>(body: &[u8]) -> Result<Q, Status> {
    serde_json::from_slice(body)
        .or_else(|_| {
            // The message is decoded a second time to find the path of the invalid field for the error. Only an invalid
            // message has this cost.
            let mut json = serde_json::Deserializer::from_slice(body);
            let message = serde_path_to_error::deserialize(&mut json).map_err(|error| error.to_string())?;
            json.end().map_err(|error| error.to_string())?;
            Ok(message)
        })
        .map_err(|error: String| status::malformed(error))
}

pub(super) fn refused(status: &Status) -> Response<Body> {
    let mut response = respond(http_status(status.code()), JSON, error(status).to_string());
    hint_retry(&mut response, status);
    response
}

/// Returns a status in the JSON form that the protocol defines.
fn error(status: &Status) -> serde_json::Value {
    let details: Vec<_> = status::details(status)
        .into_iter()
        .map(|Detail { name, value }| {
            let debug = debug(status, &name);
            json!({ "type": name, "value": STANDARD_NO_PAD.encode(value), "debug": debug })
        })
        .collect();
    json!({ "code": code_name(status.code()), "message": status.message(), "details": details })
}

/// Returns the human-readable form of a detail of a status.
fn debug(status: &Status, name: &str) -> serde_json::Value {
    match name {
        "google.rpc.ErrorInfo" => json!({ "reason": status::reason(status), "domain": status::DOMAIN }),
        "google.rpc.RetryInfo" => {
            let delay = status::retry_after(status).unwrap_or_default();
            json!({ "retryDelay": format!("{}s", delay.as_secs_f64()) })
        }
        _ => serde_json::Value::Null,
    }
}

/// Returns the name of a gRPC code in the protocol.
fn code_name(code: Code) -> &'static str {
    match code {
        Code::Cancelled => "canceled",
        Code::InvalidArgument => "invalid_argument",
        Code::DeadlineExceeded => "deadline_exceeded",
        Code::NotFound => "not_found",
        Code::AlreadyExists => "already_exists",
        Code::PermissionDenied => "permission_denied",
        Code::ResourceExhausted => "resource_exhausted",
        Code::FailedPrecondition => "failed_precondition",
        Code::Aborted => "aborted",
        Code::OutOfRange => "out_of_range",
        Code::Unimplemented => "unimplemented",
        Code::Internal => "internal",
        Code::Unavailable => "unavailable",
        Code::DataLoss => "data_loss",
        Code::Unauthenticated => "unauthenticated",
        // A refusal never has the code `Ok`.
        Code::Unknown | Code::Ok => "unknown",
    }
}
