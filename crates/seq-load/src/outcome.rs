//! Functions that convert results of the SDK for reports, which count failures by reason, and for the order checker,
//! which needs the number of attempts of a call that may have consumed numbers.

use std::rc::Rc;

use seq_client::{Allocation, CallError, Current};
use seq_core::Seq;
use seq_order::{Outcome, Reading};
use seq_proto::Reason;
use seq_proto::reason::ClientReason;
use tonic::Status;

use crate::reply::{Failure, Reply};

/// Number of attempts that are assumed to have consumed numbers, if any attempt of a failed call may have. The SDK does
/// not report how many of its attempts may have consumed numbers, and a node may have forwarded and retried each
/// attempt.
pub const UNKNOWN_ATTEMPTS: u32 = 8;

/// Converts the result of one item of an SDK call to a reply.
#[must_use]
pub fn reply(result: Result<Allocation, CallError>) -> Reply {
    match result {
        Ok(Allocation { value, prev, lost, .. }) => Reply::Given { value: Seq(value), prev: Seq(prev), lost },
        Err(error) => Reply::Failed(Rc::new(failure(&error))),
    }
}

/// Converts the error of an SDK call to a failure for reports and the order checker.
#[must_use]
pub fn failure(error: &CallError) -> Failure {
    let (reason, attempts) = reason(error);
    Failure {
        reason: reason.to_owned(),
        message: Chain(error).to_string(),
        retryable: error.is_retryable(),
        // The SDK does not report the number of lost attempts, so every attempt counts as lost.
        lost: if error.may_have_applied() { attempts.max(1) } else { 0 },
    }
}

/// Returns the reason of an error in capitals, and the number of the call's attempts.
fn reason(error: &CallError) -> (&str, u32) {
    match error {
        CallError::UidOutside { .. } => (ClientReason::UidOutside.name(), 0),
        CallError::CountOutOfRange { .. } => (Reason::CountOutOfRange.name(), 0),
        CallError::Refused(refused) if refused.reason.is_empty() => {
            (ClientReason::RefusedByOthers.name(), refused.attempts)
        }
        CallError::Refused(refused) => (&*refused.reason, refused.attempts),
        CallError::SetUnavailable(unavailable) => (Reason::SetUnavailable.name(), unavailable.attempts),
        CallError::Unreachable(unreachable) => (ClientReason::Unreachable.name(), unreachable.attempts),
        CallError::DeadlineExceeded { attempts, .. } => (ClientReason::DeadlineExceeded.name(), *attempts),
        CallError::BadAnswer { .. } => (ClientReason::BadAnswer.name(), 1),
        _ => (ClientReason::Other.name(), 1),
    }
}

/// Converts the result of one item of an SDK call for the order checker. A failed item that may have consumed numbers
/// gets [`UNKNOWN_ATTEMPTS`] lost attempts.
#[must_use]
pub fn outcome(result: &Result<Allocation, CallError>) -> Outcome {
    match result {
        Ok(Allocation { value, prev, count, lost, .. }) => {
            Outcome::Given { value: *value, prev: *prev, count: *count, lost: *lost }
        }
        Err(error) if error.may_have_applied() => Outcome::Maybe { lost: UNKNOWN_ATTEMPTS },
        Err(_) => Outcome::Refused,
    }
}

/// Converts the result of a read for the order checker.
#[must_use]
pub fn reading(result: &Result<Current, CallError>) -> Reading {
    match result {
        Ok(Current { value, exact: true, .. }) => Reading::Exact(*value),
        Ok(Current { value, exact: false, .. }) => Reading::UpperBound(*value),
        Err(_) => Reading::Failed,
    }
}

/// Removes the error numbers that the standard library appends to error texts, e.g. ` (os error 111)`.
#[must_use]
pub fn without_os_error(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(" (os error ") {
        kept.push_str(before);
        let digits = after.trim_start_matches(|c: char| c.is_ascii_digit());
        rest = digits.strip_prefix(')').unwrap_or(digits);
    }
    kept + rest
}

/// Displays an error with its causes on one line.
#[derive(Debug)]
pub struct Chain<'a>(pub &'a (dyn std::error::Error + 'static));

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut last = String::new();
        for error in std::iter::successors(Some(self.0), |error| error.source()) {
            // The Display of a status includes debug details; its message is the readable part.
            let text =
                error.downcast_ref().map_or_else(|| error.to_string(), |status: &Status| status.message().to_owned());
            let text = without_os_error(&text);
            // The layers of the transport repeat the same message.
            if text == "transport error" || last.ends_with(&text) {
                continue;
            }
            let separator = if last.is_empty() { "" } else { ": " };
            write!(f, "{separator}{text}")?;
            last = text;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_without_their_numbers() {
        assert_eq!(without_os_error("a: No such file (os error 2): b (os error 13)"), "a: No such file: b");
        assert_eq!(without_os_error("nothing to remove"), "nothing to remove");
    }

    #[test]
    fn a_failure_counts_attempts_that_may_have_advanced_the_counter() {
        let outside = failure(&CallError::UidOutside { uid: 7 });
        assert_eq!((&*outside.reason, outside.retryable, outside.lost), ("UID_OUTSIDE", false, 0));
        let late = failure(&CallError::DeadlineExceeded { attempts: 3, may_have_applied: true });
        assert_eq!((&*late.reason, late.retryable, late.lost), ("DEADLINE_EXCEEDED", true, 3));
        let never_sent = failure(&CallError::DeadlineExceeded { attempts: 3, may_have_applied: false });
        assert_eq!(never_sent.lost, 0);
    }
}
