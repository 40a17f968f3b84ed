//! Encodes refusals as gRPC statuses and as items of a batch, and decodes them.
//!
//! A status carries `google.rpc.ErrorInfo` with [`DOMAIN`] and the [`Reason`] of the refusal. If a repeated request can
//! succeed, the status also carries `google.rpc.RetryInfo`. The refusal of an item of a batch has the same information
//! in the fields of its `ItemError`.

use std::time::Duration;

use prost::Message;
use seq_core::Refusal;
use seq_core::arbiter::NotReserved;
use seq_core::layout::AppendError;
use seq_core::state::{CommandRefusal, SetRefusal};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::reason::{Reason, key};
use crate::v1;

/// The domain of every reason.
pub const DOMAIN: &str = "seqsvr";

impl Reason {
    /// Returns the reason of a refusal.
    #[must_use]
    pub const fn of(refusal: &Refusal) -> Reason {
        match refusal {
            Refusal::UidOutOfRange { .. } => Reason::UidOutOfRange,
            Refusal::UidMissing => Reason::UidMissing,
            Refusal::ToMissing => Reason::ToMissing,
            Refusal::CountOutOfRange { .. } => Reason::CountOutOfRange,
            Refusal::OtherTenantsUid { .. } => Reason::OtherTenantsUid,
            Refusal::CountAboveQuota { .. } => Reason::CountAboveQuota,
            Refusal::QuotaExceeded => Reason::QuotaExceeded,
            Refusal::OutOfMemory => Reason::OutOfMemory,
            Refusal::EmptyBatch => Reason::EmptyBatch,
            Refusal::BatchTooLarge { .. } => Reason::BatchTooLarge,
            Refusal::CountsMismatch { .. } => Reason::CountsMismatch,
            Refusal::NotOwner { .. } => Reason::NotOwner,
            Refusal::Unserved { .. } => Reason::Unserved,
            Refusal::DeadlinePassed { .. } => Reason::DeadlinePassed,
            Refusal::OwnerUnreachable { .. } => Reason::OwnerUnreachable,
            Refusal::OwnerTimedOut { .. } | Refusal::SetTimedOut { .. } => Reason::OwnerTimedOut,
            Refusal::OwnerConnectionLost { .. } => Reason::OwnerConnectionLost,
            Refusal::StaleEpoch { .. } => Reason::StaleEpoch,
            Refusal::LeaseExpired { .. } => Reason::LeaseExpired,
            Refusal::TooManyPending { .. } | Refusal::TooManyPendingOfSet { .. } => Reason::TooManyPending,
            Refusal::CeilingStalled { .. } => Reason::CeilingStalled,
            Refusal::Exhausted { .. } => Reason::Exhausted,
            Refusal::AdvanceTooFar { .. } => Reason::AdvanceTooFar,
            Refusal::AlreadyPast { .. } => Reason::AlreadyPast,
            Refusal::TooManyHops { .. } => Reason::TooManyHops,
            Refusal::LaneAhead { .. } => Reason::LaneAhead,
            Refusal::ClockAhead { .. } => Reason::ClockAhead,
            Refusal::AfterTooFar { .. } => Reason::AfterTooFar,
            Refusal::KeysExhausted { .. } => Reason::KeysExhausted,
            Refusal::ShuttingDown => Reason::ShuttingDown,
            Refusal::Moved { .. } => Reason::Moved,
            Refusal::SetUnavailable { .. } => Reason::SetUnavailable,
        }
    }

    /// Returns the reason for which a command of the store changed nothing.
    #[must_use]
    pub const fn of_command(refusal: &CommandRefusal) -> Reason {
        match refusal {
            CommandRefusal::OtherSet { .. } => Reason::OtherSet,
            CommandRefusal::NoSet => Reason::NoSet,
            CommandRefusal::TooManyNodes => Reason::TooManyNodes,
            CommandRefusal::UnknownNode { .. } => Reason::UnknownNode,
            CommandRefusal::OtherIncarnation { .. } => Reason::OtherIncarnation,
            CommandRefusal::ProcessDied { .. } => Reason::ProcessDied,
            CommandRefusal::NotInSet { .. } => Reason::NotResident,
            CommandRefusal::TooManyMoved { .. } => Reason::BadCount,
            CommandRefusal::UnknownName { .. } => Reason::UnknownName,
            CommandRefusal::TargetLeaves { .. } => Reason::TargetGone,
            CommandRefusal::OtherOwnership { .. } => Reason::OtherOwnership,
            CommandRefusal::OtherRenewal { .. } => Reason::OtherRenewal,
            CommandRefusal::OtherTerms { .. } => Reason::OtherTerms,
            CommandRefusal::BadTerms { .. } => Reason::BadTerms,
            CommandRefusal::LeaseTooLong { .. } => Reason::LeaseTooLong,
            CommandRefusal::OtherPredecessor { .. } => Reason::OtherPredecessor,
            CommandRefusal::StoreBehind { .. } | CommandRefusal::EntriesLost { .. } => Reason::StoreBehind,
            CommandRefusal::AuditTextTooLong { .. } | CommandRefusal::UnknownOperation { .. } => Reason::Malformed,
            CommandRefusal::BadSeriesName { .. } => Reason::BadName,
            CommandRefusal::ShapeTooLong { .. } => Reason::BadShape,
            CommandRefusal::SeriesExists { .. } => Reason::SeriesExists,
            CommandRefusal::KeyspaceOfUidsExists { .. } => Reason::TooManySeries,
            CommandRefusal::UnknownSeries { .. } => Reason::UnknownSeries,
            CommandRefusal::NotSeriesWriter { .. } => Reason::LayoutWriter,
            CommandRefusal::OtherSeries { .. } => Reason::OtherLayout,
            CommandRefusal::Layout(error) => Reason::of_append(error),
            CommandRefusal::BetweenSets(refusal) => Reason::between_sets(refusal),
        }
    }

    /// Returns the reason for which lanes cannot be appended to the layout.
    const fn of_append(error: &AppendError) -> Reason {
        match error {
            AppendError::TooManySpaces | AppendError::TooManyKeyspaces | AppendError::SecondKeyspaceOfUids => {
                Reason::TooManySeries
            }
            AppendError::TooManySections { .. } | AppendError::UidsTooHigh { .. } => Reason::LayoutFull,
            AppendError::BadLanes { .. }
            | AppendError::BadStart { .. }
            | AppendError::BadClock { .. }
            | AppendError::BadKeyspace => Reason::BadShape,
        }
    }

    /// Returns the reason for which a command that concerns several sets changed nothing.
    #[must_use]
    pub const fn between_sets(refusal: &SetRefusal) -> Reason {
        match refusal {
            SetRefusal::OwnSet => Reason::OwnSet,
            SetRefusal::UnknownSet { .. } => Reason::UnknownSet,
            SetRefusal::TooManySets => Reason::TooManySets,
            SetRefusal::SetClosing { .. } => Reason::SetClosing,
            SetRefusal::OtherLayout { .. } => Reason::OtherLayout,
            SetRefusal::OtherLineage { .. } | SetRefusal::FarLineage { .. } => Reason::OtherLineage,
            SetRefusal::OldLineage { .. } => Reason::OldLineage,
            SetRefusal::BadRuns => Reason::BadRuns,
            SetRefusal::StalePlan { .. } => Reason::StalePlan,
            SetRefusal::WritesLayout { .. } | SetRefusal::LayoutNotTaken { .. } => Reason::LayoutWriter,
            SetRefusal::NotEmpty { .. } | SetRefusal::MayReturn { .. } => Reason::SetNotEmpty,
            SetRefusal::NotResident { .. } => Reason::NotResident,
            SetRefusal::SectionMigrates { .. } => Reason::SectionMigrates,
            SetRefusal::OtherMigration { .. } => Reason::UnknownMigration,
            SetRefusal::MigrationOver { .. } => Reason::MigrationOver,
            SetRefusal::NotArrived { .. } | SetRefusal::AwaitsSection { .. } | SetRefusal::NotClosing { .. } => {
                Reason::NotArrived
            }
            SetRefusal::InQuarantine { .. } => Reason::Quarantined,
            SetRefusal::NameTaken { .. } => Reason::SetNameTaken,
            SetRefusal::BadPace { .. } => Reason::BadPace,
            SetRefusal::TooManyMigrations => Reason::TooManyMigrations,
            SetRefusal::TooFewRestores { .. } => Reason::TooFewRestores,
            SetRefusal::NotQuarantined => Reason::NotQuarantined,
            SetRefusal::NotResponded { .. } | SetRefusal::ClockNotNoted => Reason::NotResponded,
            SetRefusal::FenceNotApplied { .. } => Reason::FenceNotApplied,
            SetRefusal::BadResponse { .. }
            | SetRefusal::NotOfSender { .. }
            | SetRefusal::NameChanged { .. }
            | SetRefusal::FarRevision { .. } => Reason::BadResponse,
            SetRefusal::BadEpoch { .. } => Reason::BadEpoch,
        }
    }

    /// Returns the reason for which this set refused to name the next owners of sections that are to migrate to it.
    #[must_use]
    pub const fn not_reserved(refusal: &NotReserved) -> Reason {
        match refusal {
            NotReserved::NoSet => Reason::NoSet,
            NotReserved::InQuarantine { .. } => Reason::Quarantined,
            NotReserved::Closing { .. } => Reason::SetClosing,
            NotReserved::TooMany { .. } => Reason::BadRuns,
            NotReserved::OtherLayout { .. } => Reason::OtherLayout,
            NotReserved::NoCandidate { .. } => Reason::NoCandidate,
        }
    }

    /// Returns the status of a refusal with this reason. It has the reason's code and retry hint, and no metadata.
    #[must_use]
    pub fn status(self, message: impl Into<String>) -> Status {
        self.status_with(message, [])
    }

    /// Returns the same status as [`Reason::status`] with metadata. The keys of the metadata must be among
    /// [`Reason::metadata`].
    #[must_use]
    pub fn status_with<const N: usize>(self, message: impl Into<String>, metadata: [(&str, String); N]) -> Status {
        with_reason(self.code(), self, message.into(), metadata, self.retry().after())
    }

    /// Returns the same status as [`Reason::status`] with the gRPC code `code`, which must be among [`Reason::codes`].
    #[must_use]
    pub fn status_as(self, code: Code, message: impl Into<String>) -> Status {
        with_reason(code, self, message.into(), [], self.retry().after())
    }

    /// Returns the refusal of the item at `index` of a batch.
    #[must_use]
    pub fn item(self, index: u32, message: impl Into<String>) -> v1::ItemError {
        let after = self.retry().after();
        v1::ItemError {
            index,
            code: self.code() as u32,
            reason: self.name().to_owned(),
            message: message.into(),
            retry_after_ms: after.map_or(0, |after| u32::try_from(after.as_millis()).unwrap_or(u32::MAX)),
            set_id: None,
            since: None,
        }
    }
}

/// Returns the status of a refused call.
#[must_use]
pub fn to_status(refusal: &Refusal) -> Status {
    let reason = Reason::of(refusal);
    match refusal {
        Refusal::AdvanceTooFar { bound, .. } => {
            reason.status_with(refusal.to_string(), [(key::BOUND, bound.to_string())])
        }
        Refusal::ClockAhead { ahead_ms, .. } => {
            reason.status_with(refusal.to_string(), [(key::AHEAD_MS, ahead_ms.to_string())])
        }
        Refusal::Moved { set, since, .. } => {
            reason.status_with(refusal.to_string(), [(key::SET, set.0.to_string()), (key::SINCE, since.0.to_string())])
        }
        Refusal::SetUnavailable { set, .. } => reason.status_with(refusal.to_string(), [(key::SET, set.0.to_string())]),
        _ => reason.status(refusal.to_string()),
    }
}

/// Returns a status in the domain [`DOMAIN`] with a retry hint that differs from the hint of the reason. All other
/// statuses are built with [`Reason::status`].
#[must_use]
pub fn with_reason<const N: usize>(
    code: Code,
    reason: Reason,
    message: String,
    metadata: [(&str, String); N],
    retry_after: Option<Duration>,
) -> Status {
    debug_assert!(reason.codes().contains(&code), "{reason} is not sent with {code:?}");
    debug_assert!(metadata.iter().all(|(key, _)| reason.metadata().contains(key)), "{reason}: {metadata:?}");
    let metadata = metadata.map(|(key, value)| (key.to_owned(), value));
    let mut details = ErrorDetails::with_error_info(reason.name(), DOMAIN, metadata);
    if retry_after.is_some() {
        details.set_retry_info(retry_after);
    }
    Status::with_error_details(code, message, details)
}

/// Returns the status of a refused call whose deadline has passed. The reason still names the cause for which the call
/// waited. If the refusal has a retry hint, the status has the code DEADLINE_EXCEEDED and no retry hint, because the
/// caller no longer waits.
#[must_use]
pub fn to_late_status(refusal: &Refusal) -> Status {
    let status = to_status(refusal);
    let Some(info) = status.get_details_error_info() else { return status };
    if Reason::of(refusal).retry().after().is_none() {
        return status;
    }
    let details = ErrorDetails::with_error_info(info.reason, info.domain, info.metadata);
    Status::with_error_details(Code::DeadlineExceeded, status.message(), details)
}

/// Returns the refusal of one item of a batch whose deadline has passed. It differs from the result of [`to_item`] as
/// the result of [`to_late_status`] differs from that of [`to_status`].
#[must_use]
pub fn to_late_item(index: u32, refusal: &Refusal) -> v1::ItemError {
    let item = to_item(index, refusal);
    if item.retry_after_ms == 0 {
        return item;
    }
    v1::ItemError { code: Code::DeadlineExceeded as u32, retry_after_ms: 0, ..item }
}

/// Returns the refusal of one item of a batch.
#[must_use]
pub fn to_item(index: u32, refusal: &Refusal) -> v1::ItemError {
    let (set_id, since) = match refusal {
        Refusal::Moved { set, since, .. } => (Some(set.0), Some(since.0)),
        Refusal::SetUnavailable { set, .. } => (Some(set.0), None),
        _ => (None, None),
    };
    v1::ItemError { set_id, since, ..Reason::of(refusal).item(index, refusal.to_string()) }
}

/// Returns the refusal of an item that would have to wait although its request excludes waiting. The item itself is
/// valid, so the caller can send it at once in a unary request.
#[must_use]
pub fn would_wait(index: u32) -> v1::ItemError {
    Reason::WouldWait.item(index, "the item must wait, or another node owns it")
}

/// Returns the value of a key in the metadata of a status; `None` if the status is not in the domain [`DOMAIN`], or if
/// the value is missing or empty.
#[must_use]
pub fn metadata(status: &Status, key: &str) -> Option<String> {
    let details = status.get_error_details();
    let info = details.error_info().filter(|info| info.domain == DOMAIN)?;
    info.metadata.get(key).filter(|value| !value.is_empty()).cloned()
}

/// Returns the name of the reason of a status; `None` if the status is not in the domain [`DOMAIN`].
#[must_use]
pub fn reason(status: &Status) -> Option<String> {
    status.get_error_details().error_info().filter(|info| info.domain == DOMAIN).map(|info| info.reason.clone())
}

/// Returns the reason of a status; `None` if the status is not in the domain [`DOMAIN`], or if this release does not
/// know the reason.
#[must_use]
pub fn known_reason(status: &Status) -> Option<Reason> {
    reason(status).and_then(|name| Reason::parse(&name))
}

/// Encodes the outcome of a step of a handover.
#[must_use]
pub fn to_step_outcome<T>(outcome: &Result<T, Status>) -> v1::StepOutcome {
    let Err(status) = outcome else { return v1::StepOutcome::default() };
    let current = metadata(status, key::CURRENT).and_then(|current| current.parse().ok()).unwrap_or(0);
    // A refusal without a reason has no meaning for the receiver, which then takes the step as not made.
    let reason = reason(status).unwrap_or_else(|| "UNKNOWN".to_owned());
    v1::StepOutcome { reason, message: status.message().to_owned(), current }
}

/// Decodes the outcome of a step of a handover. The error has the reason if this release knows the reason.
///
/// # Errors
/// The refusal of the step.
pub fn step_outcome(outcome: &v1::StepOutcome) -> Result<(), Status> {
    if outcome.reason.is_empty() {
        return Ok(());
    }
    let message = outcome.message.clone();
    Err(match Reason::parse(&outcome.reason) {
        Some(reason) => reason.status(message),
        None => Status::unknown(message),
    })
}

/// Returns the retry hint of a status, that is, the time after which a repeated request can succeed; `None` if the
/// status has no hint.
#[must_use]
pub fn retry_after(status: &Status) -> Option<Duration> {
    status.get_error_details().retry_info().and_then(|info| info.retry_delay)
}

/// Returns the refusal of bytes that cannot be decoded. `text` states where the error is.
#[must_use]
pub fn malformed(text: String) -> Status {
    Reason::Malformed.status(text)
}

/// Returns the refusal of a message with too many bytes.
#[must_use]
pub fn too_large(limit: usize) -> Status {
    Reason::MessageTooLarge.status(format!("the message is larger than the {limit} bytes that one may have"))
}

/// Beginnings of the texts of the statuses that the library tonic makes for messages that it could not decode.
const UNREAD: [&str; 2] = ["failed to decode Protobuf message", "Error, decoded message length too large"];

/// Returns whether the library tonic made a status because it could not decode a message.
#[must_use]
pub fn is_unread(status: &Status) -> bool {
    UNREAD.iter().any(|text| status.message().starts_with(text))
}

/// If the library tonic made a status because it could not decode a message, returns a status with the code and reason
/// of this service. Otherwise returns the status unchanged.
#[must_use]
pub fn unread(status: &Status) -> Status {
    let text = status.message().to_owned();
    match UNREAD.iter().position(|unread| text.starts_with(unread)) {
        Some(0) => malformed(text),
        Some(_) => Reason::MessageTooLarge.status(text),
        None => status.clone(),
    }
}

/// One detail of a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    /// Full name of the detail's message type, for example `google.rpc.ErrorInfo`.
    pub name: String,
    /// The message, encoded.
    pub value: Vec<u8>,
}

/// Returns the details of a status, for protocols that carry the details in another form than gRPC does.
#[must_use]
pub fn details(status: &Status) -> Vec<Detail> {
    let details = tonic_types::pb::Status::decode(status.details()).map(|status| status.details).unwrap_or_default();
    let name = |url: &str| url.rsplit('/').next().unwrap_or_default().to_owned();
    details.into_iter().map(|any| Detail { name: name(&any.type_url), value: any.value }).collect()
}
