//! Serves numbers as plain text, for shells: `curl -sX POST HOST/api/seq/next/42`.
//!
//! A GET only reads, because browsers prefetch GETs, crawlers follow links with them, and proxies retry them. A setting
//! lets a GET allocate numbers, for shells that support no other method. Even if this setting is on, requests from
//! pages of other sites are refused. No response may be cached.

use std::sync::Arc;

use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};
use seq_api::service::{SequenceService, Via};
use seq_core::{Count, Refusal};
use seq_proto::{status, v1};
use tonic::Status;
use tonic::body::Body;

use super::{TEXT, browser, hint_retry, http_status, not_allowed, not_found, respond};
use crate::handlers::{Handlers, RequestContext};
use crate::timeout::Deadline;

/// Prefix of the paths.
pub(super) const PREFIX: &str = "/api/seq/";

/// Header that carries the machine-readable reason of a refusal.
const REASON: &str = "seq-reason";

/// Header that states whether a number that was read is exact.
pub(super) const EXACTNESS: &str = "seq-exactness";

pub(super) async fn handle<F: SequenceService>(handlers: &Arc<Handlers<F>>, head: &Parts) -> Response<Body> {
    let uri = &head.uri;
    let path = uri.path().strip_prefix(PREFIX).and_then(|path| path.split_once('/'));
    let Some((verb @ ("next" | "current"), uid)) = path else { return not_found(uri.path()) };
    if uid.is_empty() || uid.contains('/') {
        return not_found(uri.path());
    }
    let allowed: &[Method] = match verb {
        "next" if handlers.allocate_on_get => &[Method::GET, Method::POST],
        "next" => &[Method::POST],
        _ => &[Method::GET, Method::HEAD],
    };
    if !allowed.contains(&head.method) {
        return not_allowed(match allowed {
            [_, Method::HEAD] => "GET, HEAD",
            [_, _] => "GET, POST",
            _ => "POST",
        });
    }
    let caller = match super::caller(handlers, head) {
        Ok(caller) => caller,
        Err(status) => return refused(&status),
    };
    let deadline = Deadline::unstated();
    let context = RequestContext { deadline, via: Via::Json, caller, memory: super::memory(head) };
    let response = match verb {
        "next" => match browser::check(head) {
            Ok(()) => next(handlers, context, uid, uri.query()).await,
            Err(status) => Err(status),
        },
        _ => current(handlers, context, uid, uri.query()).await,
    };
    response.unwrap_or_else(|status| refused(&status))
}

async fn next<F: SequenceService>(
    handlers: &Handlers<F>,
    context: RequestContext,
    uid: &str,
    query: Option<&str>,
) -> Result<Response<Body>, Status> {
    let (uid, count) = (number("uid", uid, u64::MAX)?, count(query)?);
    let request = v1::NextRequest { uid: Some(uid), count, ..v1::NextRequest::default() };
    let deadline = context.deadline;
    let allocation = handlers.next(context, request).await.map_err(|refusal| deadline.status(&refusal))?;
    Ok(respond(StatusCode::OK, TEXT, format!("{}\n", allocation.value)))
}

async fn current<F: SequenceService>(
    handlers: &Handlers<F>,
    context: RequestContext,
    uid: &str,
    query: Option<&str>,
) -> Result<Response<Body>, Status> {
    let uid = number("uid", uid, u64::MAX)?;
    no_parameters(query, "current")?;
    let request = v1::CurrentRequest { uid: Some(uid), ..v1::CurrentRequest::default() };
    let deadline = context.deadline;
    let current = handlers.current(context, request).await.map_err(|refusal| deadline.status(&refusal))?;
    let mut response = respond(StatusCode::OK, TEXT, format!("{}\n", current.value));
    response.headers_mut().insert(EXACTNESS, exactness(current.exactness() == v1::Exactness::Exact));
    Ok(response)
}

/// Returns the count in the query of a request that allocates numbers; 1 if it has none.
pub(super) fn count(query: Option<&str>) -> Result<u32, Status> {
    let mut count = None;
    for (key, value) in parameters(query) {
        match key {
            "n" if count.is_none() => {
                let n = number("n", value, u32::MAX.into())? as u32;
                count = Some(Count::new(n).map_err(status_of)?.get());
            }
            key => return Err(status::malformed(format!("query: {key:?} is not n, or occurs twice"))),
        }
    }
    Ok(count.unwrap_or(1))
}

/// Checks that a request, which is a call of `of`, has no query.
pub(super) fn no_parameters(query: Option<&str>, of: &str) -> Result<(), Status> {
    match parameters(query).next() {
        None => Ok(()),
        Some((key, _)) => Err(status::malformed(format!("query: {key:?} is not a parameter of {of}"))),
    }
}

/// Returns the value of the header [`EXACTNESS`].
pub(super) fn exactness(exact: bool) -> HeaderValue {
    HeaderValue::from_static(if exact { "exact" } else { "upper_bound" })
}

pub(super) fn parameters(query: Option<&str>) -> impl Iterator<Item = (&str, &str)> {
    let parts = query.unwrap_or_default().split('&').filter(|part| !part.is_empty());
    parts.map(|part| part.split_once('=').unwrap_or((part, "")))
}

/// Parses a number that consists of digits only and is at most `most`.
pub(super) fn number(name: &str, text: &str, most: u64) -> Result<u64, Status> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|number| digits && *number <= most);
    number.ok_or_else(|| status::malformed(format!("{name}: {text:?} is not a number of 0..={most}")))
}

fn status_of(refusal: Refusal) -> Status {
    status::to_status(&refusal)
}

pub(super) fn refused(status: &Status) -> Response<Body> {
    let reason = status::reason(status).unwrap_or_default();
    let mut response = respond(http_status(status.code()), TEXT, format!("{reason}: {}\n", status.message()));
    if let Ok(reason) = HeaderValue::try_from(reason) {
        response.headers_mut().insert(REASON, reason);
    }
    hint_retry(&mut response, status);
    response
}
