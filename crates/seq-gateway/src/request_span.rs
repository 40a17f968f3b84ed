//! Trace spans of requests whose caller records its trace. A span lasts from the head of a request to the head of its
//! response.
//!
//! If a request has no header of a trace, its only cost is the search for this header. On a node without traces there
//! is no cost. A stream has no span, because all its messages share one header, and because recording a span for each
//! message would take longer than allocating a number.

use std::convert::Infallible;

use http::{HeaderValue, Request, Response};
use seq_kit::telemetry::traces::{self, Span};
use seq_proto::roles::Called;
use tonic::body::Body;
use tonic::codegen::BoxFuture;
use tonic::{Code, Status};

/// End of the path of requests that are streams.
const STREAM: &str = "/NextStream";

/// Beginnings of the paths for plain text, up to the part that differs between requests.
const TEXTS: [&str; 7] = [
    "/api/seq/next/",
    "/api/seq/current/",
    "/api/id/next/",
    "/api/id/current/",
    "/api/id/decode/",
    "/api/segment/get/",
    "/api/snowflake/get/",
];

/// Names of a node in the spans of its requests.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) set: String,
    pub(crate) node: String,
}

impl Names {
    /// Returns the trace span of a request. The span is empty unless the caller of the request records its trace.
    #[inline]
    pub(crate) fn span(&self, request: &Request<Body>) -> Span {
        if !traces::are_on() {
            return Span::none();
        }
        match request.headers().get(traces::HEADER) {
            None => Span::none(),
            Some(header) => self.begin(header, request.uri().path()),
        }
    }

    #[cold]
    fn begin(&self, header: &HeaderValue, path: &str) -> Span {
        let Some(name) = name(path) else { return Span::none() };
        let mut span = traces::of_caller(header.as_bytes(), || name);
        span.set("seqsvr.set", self.set.as_str());
        span.set("seqsvr.node", self.node.as_str());
        span
    }
}

/// Returns the name of a request's span; `None` if the request has no span.
fn name(path: &str) -> Option<String> {
    let method = Called::by_path(path);
    if method.is_listed() {
        return (!path.ends_with(STREAM)).then(|| method.to_string());
    }
    let text = TEXTS.iter().find(|text| path.starts_with(**text))?;
    Some(text.trim_end_matches('/').to_owned())
}

/// Returns a future with the same response, which ends the span `span` of its request when the response is ready.
pub(crate) fn follow(
    mut span: Span,
    response: BoxFuture<Response<Body>, Infallible>,
) -> BoxFuture<Response<Body>, Infallible> {
    if span.is_none() {
        return response;
    }
    Box::pin(async move {
        // This mark is removed if a response follows.
        span.fail("the caller left, or its timeout passed");
        let Ok(response) = span.scope(response).await;
        match failure(&response) {
            Some(why) => span.fail(why),
            None => span.pass(),
        }
        Ok(response)
    })
}

/// Returns a description of the refusal in the head of a response; `None` if the head states no refusal.
fn failure(response: &Response<Body>) -> Option<String> {
    let status = response.status();
    if !status.is_success() {
        return Some(format!("HTTP {}", status.as_u16()));
    }
    // A gRPC response with a message has its status in its trailers, and its request was not refused.
    let code = response.headers().get(Status::GRPC_STATUS).map(|code| Code::from_bytes(code.as_bytes()))?;
    (code != Code::Ok).then(|| format!("{code:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_nothing_of_the_caller() {
        for (path, expected) in [
            ("/seqsvr.v1.SequenceService/Next", Some("seqsvr.v1.SequenceService/Next")),
            ("/seqsvr.v1.IdService/Decode", Some("seqsvr.v1.IdService/Decode")),
            ("/seqsvr.v1.SequenceService/NextStream", None),
            ("/seqsvr.v1.SequenceService/Other", None),
            ("/api/seq/next/42", Some("/api/seq/next")),
            ("/api/seq/nonsense/42", None),
            ("/api/id/decode/orders/7", Some("/api/id/decode")),
            ("/readyz", None),
            ("/<script>", None),
        ] {
            assert_eq!(name(path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn the_head_of_a_response_states_a_refusal() {
        let of = |status: u16, code: Option<&str>| {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = status.try_into().unwrap();
            if let Some(code) = code {
                response.headers_mut().insert(Status::GRPC_STATUS, code.parse().unwrap());
            }
            failure(&response)
        };
        assert_eq!((of(200, None), of(200, Some("0"))), (None, None));
        assert_eq!(of(200, Some("14")).as_deref(), Some("Unavailable"));
        assert_eq!(of(503, None).as_deref(), Some("HTTP 503"));
    }
}
