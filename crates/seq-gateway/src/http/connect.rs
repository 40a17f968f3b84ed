//! Unary calls in JSON, as <https://connectrpc.com/docs/protocol> defines them for `application/json`.
//!
//! Messages are read and written by the mapping of proto3: 64-bit numbers are written as strings and read as strings or
//! numbers. A field that the message does not have is refused by its name, so that a misspelt one does not count as absent.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use seq_core::Refusal;
use seq_kit::frontend::{Frontend, Via};
use seq_proto::status::{self, Detail};
use seq_proto::v1::sequence_service_server::SERVICE_NAME;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::Instant;
use tonic::body::Body;
use tonic::{Code, Status};

use super::{JSON, TEXT, hint_retry, http_status, not_allowed, respond};
use crate::calls::{Arrival, Sequence};
use crate::timeout;

/// Largest message in JSON: a full batch with counts and epochs, each number at its widest and in quotes, is 560 KB.
const MAX_JSON_BYTES: usize = 1024 * 1024;

/// How long the caller waits, in milliseconds.
const TIMEOUT: &str = "connect-timeout-ms";

/// Most digits of [`TIMEOUT`]; the protocol's bound.
const MAX_TIMEOUT_DIGITS: usize = 10;

/// The version of the protocol, which callers may leave out.
const VERSION: &str = "connect-protocol-version";

/// A method of the service that has one message each way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unary {
    Next,
    NextMany,
    Current,
    CurrentMany,
    Advance,
    GetRoutes,
}

/// The method that a path names.
pub(super) fn method(path: &str) -> Option<Unary> {
    let name = path.strip_prefix('/')?.strip_prefix(SERVICE_NAME)?.strip_prefix('/')?;
    Some(match name {
        "Next" => Unary::Next,
        "NextMany" => Unary::NextMany,
        "Current" => Unary::Current,
        "CurrentMany" => Unary::CurrentMany,
        "Advance" => Unary::Advance,
        "GetRoutes" => Unary::GetRoutes,
        _ => return None,
    })
}

pub(super) async fn answer<F: Frontend>(
    sequence: &Arc<Sequence<F>>,
    method: Unary,
    request: Request<Body>,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    if head.method != Method::POST {
        return not_allowed("POST");
    }
    if !is_json(&head.headers) {
        let mut response = respond(StatusCode::UNSUPPORTED_MEDIA_TYPE, TEXT, "send application/json\n");
        response.headers_mut().insert("accept-post", HeaderValue::from_static(JSON));
        return response;
    }
    match unary(sequence, method, &head.headers, body).await {
        Ok(answer) => respond(StatusCode::OK, JSON, answer),
        Err(status) => refused(&status),
    }
}

async fn unary<F: Frontend>(
    sequence: &Sequence<F>,
    method: Unary,
    headers: &HeaderMap,
    body: Body,
) -> Result<Vec<u8>, Status> {
    let arrival = Arrival { deadline: deadline(headers)?, via: Via::Json };
    check(headers)?;
    let body = read(headers, body, arrival.deadline).await?;
    match method {
        Unary::Next => say(sequence.next(arrival, hear(&body)?).await),
        Unary::NextMany => say(sequence.next_many(arrival, hear(&body)?).await),
        Unary::Current => say(sequence.current(arrival, hear(&body)?).await),
        Unary::CurrentMany => say(sequence.current_many(arrival, hear(&body)?).await),
        Unary::Advance => say(sequence.advance(arrival, hear(&body)?).await),
        Unary::GetRoutes => say(Ok(sequence.get_routes(hear(&body)?))),
    }
}

/// Whether the content type is JSON, with or without parameters.
fn is_json(headers: &HeaderMap) -> bool {
    let of = |value: &HeaderValue| {
        let value = value.to_str().ok()?.split(';').next()?.trim();
        Some(value.eq_ignore_ascii_case(JSON))
    };
    headers.get(CONTENT_TYPE).and_then(of).unwrap_or(false)
}

fn deadline(headers: &HeaderMap) -> Result<Instant, Status> {
    let Some(value) = headers.get(TIMEOUT) else { return Ok(timeout::after(timeout::DEFAULT_TIMEOUT)) };
    let digits = value.to_str().ok().filter(|text| text.len() <= MAX_TIMEOUT_DIGITS);
    let digits = digits.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let millis = digits.and_then(|text| text.parse().ok()).filter(|millis| *millis > 0);
    let millis =
        millis.ok_or_else(|| status::malformed(format!("{TIMEOUT}: {value:?} is not 1 to 10 digits, above 0")))?;
    Ok(timeout::after(Duration::from_millis(millis)))
}

fn check(headers: &HeaderMap) -> Result<(), Status> {
    if let Some(version) = headers.get(VERSION).filter(|version| *version != "1") {
        return Err(status::malformed(format!("{VERSION}: {version:?} is not \"1\"")));
    }
    match headers.get(CONTENT_ENCODING).filter(|encoding| *encoding != "identity") {
        None => Ok(()),
        Some(encoding) => {
            let text = format!("the content encoding {encoding:?} is not supported; send it as it is");
            Err(status::with_reason(Code::Unimplemented, "UNSUPPORTED_ENCODING", text, [], None))
        }
    }
}

/// The whole body, no more of it than there may be, and no longer than its caller waits.
async fn read(headers: &HeaderMap, body: Body, deadline: Instant) -> Result<Bytes, Status> {
    let stated = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if stated.is_some_and(|length| length > MAX_JSON_BYTES as u64) {
        return Err(status::too_large(MAX_JSON_BYTES));
    }
    match tokio::time::timeout_at(deadline, Limited::new(body, MAX_JSON_BYTES).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(status::too_large(MAX_JSON_BYTES)),
        Ok(Err(error)) => Err(status::malformed(format!("the body ended early: {error}"))),
        Err(_) => {
            let text = "the body did not arrive in time".to_owned();
            Err(status::with_reason(Code::DeadlineExceeded, "BODY_TIMED_OUT", text, [], None))
        }
    }
}

fn hear<Q: DeserializeOwned>(body: &[u8]) -> Result<Q, Status> {
    serde_json::from_slice(body)
        .or_else(|_| {
            // Once more, noting the way to each field: it costs only those whose message is wrong.
            let mut json = serde_json::Deserializer::from_slice(body);
            let message = serde_path_to_error::deserialize(&mut json).map_err(|error| error.to_string())?;
            json.end().map_err(|error| error.to_string())?;
            Ok(message)
        })
        .map_err(|error: String| status::malformed(error))
}

fn say(answer: Result<impl Serialize, Refusal>) -> Result<Vec<u8>, Status> {
    let answer = answer.map_err(|refusal| status::to_status(&refusal))?;
    serde_json::to_vec(&answer).map_err(|error| Status::internal(error.to_string()))
}

fn refused(status: &Status) -> Response<Body> {
    let details: Vec<_> = status::details(status)
        .into_iter()
        .map(|Detail { name, value }| {
            let debug = debug(status, &name);
            json!({ "type": name, "value": STANDARD_NO_PAD.encode(value), "debug": debug })
        })
        .collect();
    let error = json!({ "code": code_name(status.code()), "message": status.message(), "details": details });
    let mut response = respond(http_status(status.code()), JSON, error.to_string());
    hint_retry(&mut response, status);
    response
}

/// A detail as people read it.
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

/// The protocol's name of a code.
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
        // A refusal is never Ok.
        Code::Unknown | Code::Ok => "unknown",
    }
}
