//! Protection against requests that a web page sends without its user's knowledge. If a page of another site makes the
//! user's browser send a request, the request is refused.
//!
//! A browser may be inside a network to which the authors of its pages have no access. No response has a CORS header,
//! so a page of another site cannot read any response. The refusal in this module also prevents the page from changing
//! state. Requests without the headers that browsers add are not affected.

use http::header::{HOST, ORIGIN};
use http::request::Parts;
use seq_proto::Reason;
use tonic::Status;

/// Refuses a request that a browser sent although its user did not intend it: a request for a page of another site, or
/// a prefetch.
pub(super) fn check(head: &Parts) -> Result<(), Status> {
    unsolicited(head).map_or(Ok(()), |text| Err(Reason::Unsolicited.status(text)))
}

/// Returns the text of the refusal; `None` if the user intended the request.
fn unsolicited(head: &Parts) -> Option<String> {
    let header = |name: &str| head.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
    if let Some(site) = header("sec-fetch-site").filter(|site| !matches!(&**site, "same-origin" | "none")) {
        return Some(format!("sec-fetch-site: {site}: a page of another site may not send requests"));
    }
    let early = |name: &&str| header(name).is_some_and(|purpose| purpose.to_ascii_lowercase().contains("prefetch"));
    if let Some(name) = ["sec-purpose", "purpose", "x-purpose", "x-moz"].into_iter().find(|name| early(name)) {
        return Some(format!("{name}: a prefetch may not allocate numbers"));
    }
    let origin = header(ORIGIN.as_str())?;
    let here = head.uri.authority().map(|authority| authority.as_str().into()).or_else(|| header(HOST.as_str()));
    let same = origin.split_once("://").is_some_and(|(_, authority)| here.is_some_and(|here| here == authority));
    (!same).then(|| format!("origin: {origin}: a page of another site may not send requests"))
}
