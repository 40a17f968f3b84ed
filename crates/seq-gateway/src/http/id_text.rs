//! Serves ids as plain text, for shells and for callers of Meituan Leaf: `curl -sX POST HOST/api/id/next/orders`.
//!
//! A GET takes ids only if the settings allow this, as for numbers. A caller of Leaf sends GETs to the paths that
//! Leaf's own server has, and gets only the id, without an end of the line. For any fault, Leaf responds with status
//! 500, but here these paths respond with the status of the refusal.

use std::fmt::Write;
use std::sync::Arc;

use http::request::Parts;
use http::{Method, Response, StatusCode};
use seq_api::service::{SequenceService, Via};
use seq_core::Count;
use seq_ids::Shape;
use seq_proto::{Reason, status, v1};
use tonic::Status;
use tonic::body::Body;

use super::text::{EXACTNESS, exactness, no_parameters, number, parameters, refused};
use super::{TEXT, browser, not_allowed, respond};
use crate::handlers::{Handlers, RequestContext};
use crate::ids::{self, IdRefusal, IdRequest, MAX_LISTED};
use crate::timeout::{Deadline, Refused};

/// Bytes of the longest id, with the end of its line.
const ID_BYTES: usize = 20;

/// A path of this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Called<'a> {
    /// `/api/id/next/NAME`
    Next(&'a str),
    /// `/api/id/current/NAME`
    Current(&'a str),
    /// `/api/id/decode/NAME/ID`
    Decode(&'a str, &'a str),
    /// `/api/segment/get/KEY`: the next id of a counter, for callers of Leaf.
    Segment(&'a str),
    /// `/api/snowflake/get/KEY`: the next id of a timed series, for callers of Leaf.
    Snowflake(&'a str),
}

/// Returns the kind of request that a path names; `None` if the path belongs to another module.
pub(super) fn called(path: &str) -> Option<Called<'_>> {
    let mut parts = path.strip_prefix("/api/")?.split('/');
    let called = match (parts.next()?, parts.next()?, parts.next()?, parts.next()) {
        ("id", "next", name, None) => Called::Next(name),
        ("id", "current", name, None) => Called::Current(name),
        ("id", "decode", name, Some(id)) => Called::Decode(name, id),
        ("segment", "get", key, None) => Called::Segment(key),
        ("snowflake", "get", key, None) => Called::Snowflake(key),
        _ => return None,
    };
    let named = !matches!(called, Called::Next("") | Called::Current("") | Called::Segment("") | Called::Snowflake(""));
    Some(called).filter(|_| named && parts.next().is_none())
}

impl Called<'_> {
    /// Returns whether the request takes ids.
    fn takes(self) -> bool {
        !matches!(self, Called::Current(_) | Called::Decode(..))
    }
}

pub(super) async fn handle<F: SequenceService>(
    handlers: &Arc<Handlers<F>>,
    called: Called<'_>,
    head: &Parts,
) -> Response<Body> {
    match (called.takes(), handlers.allocate_on_get, &head.method) {
        (true, _, &Method::POST) | (true, true, &Method::GET) | (false, _, &Method::GET | &Method::HEAD) => {}
        (true, true, _) => return not_allowed("GET, POST"),
        (true, false, _) => return not_allowed("POST"),
        (false, ..) => return not_allowed("GET, HEAD"),
    }
    let caller = match super::caller(handlers, head) {
        Ok(caller) => caller,
        Err(status) => return refused(&status),
    };
    if called.takes()
        && let Err(status) = browser::check(head)
    {
        return refused(&status);
    }
    let deadline = Deadline::unstated();
    let context = RequestContext { deadline, via: Via::Json, caller, memory: super::memory(head) };
    let query = head.uri.query();
    let response = match called {
        Called::Next(name) => next(handlers, &context, name, query).await,
        Called::Current(name) => current(handlers, &context, name, query).await,
        Called::Decode(name, id) => decode(handlers, &context, (name, id), query),
        Called::Segment(_) | Called::Snowflake(_) => leaf(handlers, &context, called).await,
    };
    response.unwrap_or_else(|Refusal(status)| refused(&status))
}

/// The status of a refused request.
struct Refusal(Status);

impl From<Status> for Refusal {
    fn from(status: Status) -> Refusal {
        Refusal(status)
    }
}

/// Returns a function that converts the refusal of a request for ids to the [`Refusal`] of this module.
fn by(context: &RequestContext) -> impl Fn(IdRefusal) -> Refusal {
    let deadline = context.deadline;
    move |refusal| Refusal(refusal.status_by(deadline))
}

async fn next<F: SequenceService>(
    handlers: &Handlers<F>,
    context: &RequestContext,
    name: &str,
    query: Option<&str>,
) -> Result<Response<Body>, Refusal> {
    let series = handlers.ids().find(name).map_err(by(context))?;
    let (mut count, mut lane, mut after) = (None, None, None);
    for (key, value) in parameters(query) {
        match key {
            "n" if count.is_none() => count = Some(listed(number("n", value, u32::MAX.into())? as u32)?),
            "lane" if lane.is_none() => lane = Some(number("lane", value, u32::MAX.into())? as u32),
            "after" if after.is_none() => after = Some(ids::parse_after(&series, value).map_err(by(context))?),
            key => {
                let text = format!("query: {key:?} is not n, lane or after, or occurs twice");
                return Err(status::malformed(text).into());
            }
        }
    }
    let count = count.unwrap_or(Count::ONE);
    let bytes = count.get() as usize * ID_BYTES;
    context.memory.add_response(bytes).map_err(|refusal| Refusal(status::to_status(&refusal)))?;
    let request = IdRequest { series, count, lane, after: after.unwrap_or(0) };
    let ids = handlers.ids().take(context.of_ids(), &request).await.map_err(by(context))?;
    let mut lines = String::with_capacity(bytes);
    for id in ids.iter() {
        let _ = writeln!(lines, "{id}");
    }
    Ok(respond(StatusCode::OK, TEXT, lines))
}

/// Checks the count of a request whose response lists every id, and returns it.
fn listed(count: u32) -> Result<Count, Refusal> {
    Count::new(count).ok().filter(|count| count.get() <= MAX_LISTED).ok_or_else(|| {
        let text =
            format!("n: {count} is not in 1..={MAX_LISTED}; IdService.Next in JSON takes more, as it returns runs");
        Refusal(Reason::CountOutOfRange.status(text))
    })
}

async fn current<F: SequenceService>(
    handlers: &Handlers<F>,
    context: &RequestContext,
    name: &str,
    query: Option<&str>,
) -> Result<Response<Body>, Refusal> {
    no_parameters(query, "current")?;
    let series = handlers.ids().find(name).map_err(by(context))?;
    let current = handlers.ids().current(context.of_ids(), &series).await.map_err(by(context))?;
    let mut response = respond(StatusCode::OK, TEXT, format!("{}\n", current.id));
    response.headers_mut().insert(EXACTNESS, exactness(current.exact));
    Ok(response)
}

/// Returns the parts of an id as text. Each line has the name of a part, a blank and the value of the part.
fn decode<F: SequenceService>(
    handlers: &Handlers<F>,
    context: &RequestContext,
    (name, id): (&str, &str),
    query: Option<&str>,
) -> Result<Response<Body>, Refusal> {
    no_parameters(query, "decode")?;
    let series = handlers.ids().find(name).map_err(by(context))?;
    let id = ids::parse(&series, id).map_err(by(context))?;
    let parts = handlers.ids().decode(context.of_ids(), &series, id).map_err(by(context))?;
    let v1::DecodeIdResponse { lane, number, unix_ms, seq } = parts;
    let mut lines = format!("lane {lane}\nnumber {number}\n");
    for (name, value) in [("unix_ms", unix_ms), ("seq", seq)] {
        if let Some(value) = value {
            let _ = writeln!(lines, "{name} {value}");
        }
    }
    Ok(respond(StatusCode::OK, TEXT, lines))
}

/// Takes one id for a caller of Leaf. Parameters of the request are ignored, because Leaf ignores them too.
async fn leaf<F: SequenceService>(
    handlers: &Handlers<F>,
    context: &RequestContext,
    called: Called<'_>,
) -> Result<Response<Body>, Refusal> {
    let (Called::Segment(name) | Called::Snowflake(name)) = called else {
        unreachable!("{called:?} is no path of Leaf")
    };
    let series = handlers.ids().find(name).map_err(by(context))?;
    let of_counters = matches!(called, Called::Segment(_));
    if of_counters != matches!(series.shape, Shape::Counter(_)) {
        let (is, path) = if of_counters { ("follow the clock", "snowflake") } else { ("are a counter's", "segment") };
        let text = format!("the ids of series {name:?} {is}: they are at /api/{path}/get/{name}");
        return Err(Refusal(Reason::UnknownSeries.status(text)));
    }
    let request = IdRequest { series, count: Count::ONE, lane: None, after: 0 };
    let ids = handlers.ids().take(context.of_ids(), &request).await.map_err(by(context))?;
    Ok(respond(StatusCode::OK, TEXT, ids.iter().map(|id| id.to_string()).collect::<String>()))
}
