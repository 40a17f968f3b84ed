//! Serves numbers of keys as plain text, for shells: `curl -sX POST HOST/api/key/next/main/conv:42`.
//!
//! A key is the rest of the path, in which a byte may be written as `%` and two digits. So a key is any bytes, and a
//! `/` in it is written as `%2F`. A GET only reads, with the exception and for the reasons that `text.rs` has.

use std::sync::Arc;

use http::request::Parts;
use http::{Method, Response, StatusCode};
use seq_api::service::{SequenceService, Via};
use seq_proto::{status, v1};
use tonic::Status;
use tonic::body::Body;

use super::text::{EXACTNESS, count, exactness, no_parameters, refused};
use super::{TEXT, browser, not_allowed, respond};
use crate::handlers::{Handlers, RequestContext};
use crate::timeout::{Deadline, Refused};

/// A path of this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Called<'a> {
    /// Whether the request allocates numbers.
    takes: bool,
    keyspace: &'a str,
    /// The key as it is in the path.
    key: &'a str,
}

/// Returns the kind of request that a path names; `None` if the path belongs to another module.
pub(super) fn called(path: &str) -> Option<Called<'_>> {
    let mut parts = path.strip_prefix("/api/key/")?.split('/');
    let takes = match parts.next()? {
        "next" => true,
        "current" => false,
        _ => return None,
    };
    let (keyspace, key) = (parts.next()?, parts.next()?);
    let whole = parts.next().is_none() && !keyspace.is_empty() && !key.is_empty();
    whole.then_some(Called { takes, keyspace, key })
}

pub(super) async fn handle<F: SequenceService>(
    handlers: &Arc<Handlers<F>>,
    called: Called<'_>,
    head: &Parts,
) -> Response<Body> {
    match (called.takes, handlers.allocate_on_get, &head.method) {
        (true, _, &Method::POST) | (true, true, &Method::GET) | (false, _, &Method::GET | &Method::HEAD) => {}
        (true, true, _) => return not_allowed("GET, POST"),
        (true, false, _) => return not_allowed("POST"),
        (false, ..) => return not_allowed("GET, HEAD"),
    }
    let response = async {
        let caller = super::caller(handlers, head)?;
        if called.takes {
            browser::check(head)?;
        }
        let deadline = Deadline::unstated();
        let context = RequestContext { deadline, via: Via::Json, caller, memory: super::memory(head) };
        let query = head.uri.query();
        if called.takes {
            next(handlers, context, called, query).await
        } else {
            current(handlers, context, called, query).await
        }
    };
    response.await.unwrap_or_else(|status| refused(&status))
}

async fn next<F: SequenceService>(
    handlers: &Handlers<F>,
    context: RequestContext,
    called: Called<'_>,
    query: Option<&str>,
) -> Result<Response<Body>, Status> {
    let (keyspace, raw_key) = (called.keyspace.to_owned(), decoded(called.key)?);
    let request = v1::NextKeyRequest { keyspace, raw_key, count: count(query)?, ..v1::NextKeyRequest::default() };
    let deadline = context.deadline;
    let allocation = handlers.next_key(context, request).await.map_err(|refusal| refusal.status_by(deadline))?;
    Ok(respond(StatusCode::OK, TEXT, format!("{}\n", allocation.value)))
}

async fn current<F: SequenceService>(
    handlers: &Handlers<F>,
    context: RequestContext,
    called: Called<'_>,
    query: Option<&str>,
) -> Result<Response<Body>, Status> {
    no_parameters(query, "current")?;
    let (keyspace, raw_key) = (called.keyspace.to_owned(), decoded(called.key)?);
    let request = v1::CurrentKeyRequest { keyspace, raw_key, ..v1::CurrentKeyRequest::default() };
    let deadline = context.deadline;
    let current = handlers.current_key(context, request).await.map_err(|refusal| refusal.status_by(deadline))?;
    let mut response = respond(StatusCode::OK, TEXT, format!("{}\n", current.value));
    response.headers_mut().insert(EXACTNESS, exactness(current.exactness() == v1::Exactness::Exact));
    Ok(response)
}

/// Returns the bytes of a key in a path. Each `%` begins a byte in two hexadecimal digits, and any other byte stands
/// for itself.
fn decoded(text: &str) -> Result<Vec<u8>, Status> {
    let (mut key, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((byte, after)) = rest.split_first() {
        let (byte, after) = match (byte, after) {
            (b'%', [high, low, after @ ..]) => {
                (digit(*high).zip(digit(*low)).map(|(high, low)| high << 4 | low), after)
            }
            (b'%', _) => (None, after),
            (byte, after) => (Some(*byte), after),
        };
        let at = text.len() - rest.len();
        key.push(byte.ok_or_else(|| {
            status::malformed(format!("the key has % without two hexadecimal digits at byte {at}: write % as %25"))
        })?);
        rest = after;
    }
    Ok(key)
}

/// Returns the value of a hexadecimal digit.
fn digit(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_keyspace_and_one_key() {
        let of = |takes, key| Some(Called { takes, keyspace: "main", key });
        assert_eq!(called("/api/key/next/main/conv:42"), of(true, "conv:42"));
        assert_eq!(called("/api/key/current/main/a%2Fb"), of(false, "a%2Fb"));
        for path in ["next/main", "next/main/", "next//a", "next/main/a/b", "last/main/a", "next", ""] {
            assert_eq!(called(&format!("/api/key/{path}")), None, "{path}");
        }
    }

    #[test]
    fn a_key_is_decoded_byte_by_byte() {
        for (text, key) in [("a%2fb", &b"a/b"[..]), ("%00%ff%0A", b"\0\xff\n"), ("a+b%25", b"a+b%"), ("%2525", b"%25")]
        {
            assert_eq!(decoded(text).unwrap(), key, "{text}");
        }
        for (text, at) in [("%", 0), ("a%2", 1), ("ab%zz", 2), ("a%2%41", 1), ("%+1", 0)] {
            let error = decoded(text).unwrap_err();
            assert!(error.message().contains(&format!("at byte {at}:")), "{text}: {error}");
        }
    }
}
