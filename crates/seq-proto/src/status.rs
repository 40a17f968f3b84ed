//! The one map from refusals to gRPC: code, reason and retry hint.
//!
//! A status carries `google.rpc.ErrorInfo` with [`DOMAIN`] and the reason, and `google.rpc.RetryInfo` where calling again
//! later can succeed. An item of a batch carries the same three in its `ItemError`.

use std::time::Duration;

use prost::Message;
use seq_core::Refusal;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::v1;

/// The domain of every reason.
pub const DOMAIN: &str = "seqsvr";

/// Code, reason and retry hint of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The gRPC code.
    pub code: Code,
    /// The reason, in capitals.
    pub reason: &'static str,
    /// How long to wait before calling again; `None` where repeating does not help.
    pub retry_after: Option<Duration>,
}

/// The reason of [`would_wait`].
pub const WOULD_WAIT: &str = "WOULD_WAIT";

/// An owner is being found: about a renewal later there is one.
const OWNER_RETRY: Duration = Duration::from_millis(100);

/// A raise is on its way, or the store elects a leader.
const CEILING_RETRY: Duration = Duration::from_millis(200);

/// The verdict on a refusal.
#[must_use]
pub fn verdict(refusal: &Refusal) -> Verdict {
    let (code, reason, retry_after) = match refusal {
        Refusal::UidOutOfRange { .. } => (Code::OutOfRange, "UID_OUT_OF_RANGE", None),
        Refusal::CountOutOfRange { .. } => (Code::InvalidArgument, "COUNT_OUT_OF_RANGE", None),
        Refusal::EmptyBatch => (Code::InvalidArgument, "EMPTY_BATCH", None),
        Refusal::BatchTooLarge { .. } => (Code::InvalidArgument, "BATCH_TOO_LARGE", None),
        Refusal::CountsMismatch { .. } => (Code::InvalidArgument, "COUNTS_MISMATCH", None),
        Refusal::NotOwner { .. } => (Code::Unavailable, "NOT_OWNER", Some(OWNER_RETRY)),
        Refusal::Unserved { .. } => (Code::Unavailable, "UNSERVED", Some(OWNER_RETRY)),
        Refusal::OwnerUnreachable { .. } => (Code::Unavailable, "OWNER_UNREACHABLE", Some(OWNER_RETRY)),
        Refusal::OwnerTimedOut { .. } => (Code::DeadlineExceeded, "OWNER_TIMED_OUT", Some(OWNER_RETRY)),
        Refusal::OwnerConnectionLost { .. } => (Code::Unavailable, "OWNER_CONNECTION_LOST", Some(OWNER_RETRY)),
        Refusal::StaleEpoch { .. } => (Code::Unavailable, "STALE_EPOCH", Some(OWNER_RETRY)),
        Refusal::LeaseExpired { .. } => (Code::Unavailable, "LEASE_EXPIRED", Some(OWNER_RETRY)),
        Refusal::TooManyHeld { .. } => (Code::ResourceExhausted, "TOO_MANY_HELD", Some(CEILING_RETRY)),
        Refusal::CeilingStalled { .. } => (Code::Unavailable, "CEILING_STALLED", Some(CEILING_RETRY)),
        Refusal::Exhausted { .. } => (Code::ResourceExhausted, "EXHAUSTED", None),
        Refusal::AdvanceTooFar { .. } => (Code::InvalidArgument, "ADVANCE_TOO_FAR", None),
        Refusal::AlreadyPast { .. } => (Code::FailedPrecondition, "ALREADY_PAST", None),
        Refusal::TooManyHops { .. } => (Code::InvalidArgument, "TOO_MANY_HOPS", None),
        Refusal::ShuttingDown => (Code::Unavailable, "SHUTTING_DOWN", Some(OWNER_RETRY)),
    };
    Verdict { code, reason, retry_after }
}

/// The key of a status' metadata under which a refused advance finds the highest number that is accepted now.
pub const BOUND: &str = "bound";

/// The status of a refused call.
#[must_use]
pub fn to_status(refusal: &Refusal) -> Status {
    let Verdict { code, reason, retry_after } = verdict(refusal);
    match refusal {
        Refusal::AdvanceTooFar { bound, .. } => {
            with_reason(code, reason, refusal.to_string(), [(BOUND, bound.to_string())], retry_after)
        }
        _ => with_reason(code, reason, refusal.to_string(), [], retry_after),
    }
}

/// A status with a reason of this service's domain, for refusals that are not about numbers.
#[must_use]
pub fn with_reason<const N: usize>(
    code: Code,
    reason: &'static str,
    message: String,
    metadata: [(&str, String); N],
    retry_after: Option<Duration>,
) -> Status {
    let metadata = metadata.map(|(key, value)| (key.to_owned(), value));
    let mut details = ErrorDetails::with_error_info(reason, DOMAIN, metadata);
    if retry_after.is_some() {
        details.set_retry_info(retry_after);
    }
    Status::with_error_details(code, message, details)
}

/// The refusal of one item of a batch.
#[must_use]
pub fn to_item(index: u32, refusal: &Refusal) -> v1::ItemError {
    let Verdict { code, reason, retry_after } = verdict(refusal);
    v1::ItemError {
        index,
        code: code as u32,
        reason: reason.to_owned(),
        message: refusal.to_string(),
        retry_after_ms: retry_after.map_or(0, |after| u32::try_from(after.as_millis()).unwrap_or(u32::MAX)),
    }
}

/// The refusal of an item that must wait, to a caller who said that it shall not. Nothing is wrong with it: asked for alone, it
/// can be answered at once.
#[must_use]
pub fn would_wait(index: u32) -> v1::ItemError {
    v1::ItemError {
        index,
        code: Code::Unavailable as u32,
        reason: WOULD_WAIT.to_owned(),
        message: "the item must wait, or another node owns it".to_owned(),
        retry_after_ms: 1,
    }
}

/// What a status of this service's domain says under a key of its metadata; `None` where it says nothing.
#[must_use]
pub fn metadata(status: &Status, key: &str) -> Option<String> {
    let details = status.get_error_details();
    let info = details.error_info().filter(|info| info.domain == DOMAIN)?;
    info.metadata.get(key).filter(|value| !value.is_empty()).cloned()
}

/// The reason a status gives in this service's domain, or `None` when it is not this service's.
#[must_use]
pub fn reason(status: &Status) -> Option<String> {
    status.get_error_details().error_info().filter(|info| info.domain == DOMAIN).map(|info| info.reason.clone())
}

/// How long a status says to wait before calling again; `None` where repeating does not help.
#[must_use]
pub fn retry_after(status: &Status) -> Option<Duration> {
    status.get_error_details().retry_info().and_then(|info| info.retry_delay)
}

/// What came in is not a message. The text says where it is wrong.
#[must_use]
pub fn malformed(text: String) -> Status {
    with_reason(Code::InvalidArgument, "MALFORMED", text, [], None)
}

/// A message of more bytes than one may have.
#[must_use]
pub fn too_large(limit: usize) -> Status {
    let text = format!("the message is larger than the {limit} bytes that one may have");
    with_reason(Code::ResourceExhausted, "MESSAGE_TOO_LARGE", text, [], None)
}

/// How the library's statuses begin for messages that it did not read.
const UNREAD: [&str; 2] = ["failed to decode Protobuf message", "Error, decoded message length too large"];

/// Whether a status is what the library says of a message that it did not read.
#[must_use]
pub fn is_unread(status: &Status) -> bool {
    UNREAD.iter().any(|text| status.message().starts_with(text))
}

/// What the library says of a message it did not read, with this service's code and reason; other statuses as they are.
#[must_use]
pub fn unread(status: &Status) -> Status {
    let text = status.message().to_owned();
    match UNREAD.iter().position(|unread| text.starts_with(unread)) {
        Some(0) => malformed(text),
        Some(_) => with_reason(Code::ResourceExhausted, "MESSAGE_TOO_LARGE", text, [], None),
        None => status.clone(),
    }
}

/// One detail of a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    /// Full name of its message, as `google.rpc.ErrorInfo`.
    pub name: String,
    /// The message, encoded.
    pub value: Vec<u8>,
}

/// The details of a status, for protocols that carry them in another form than gRPC does.
#[must_use]
pub fn details(status: &Status) -> Vec<Detail> {
    let details = tonic_types::pb::Status::decode(status.details()).map(|status| status.details).unwrap_or_default();
    let name = |url: &str| url.rsplit('/').next().unwrap_or_default().to_owned();
    details.into_iter().map(|any| Detail { name: name(&any.type_url), value: any.value }).collect()
}
