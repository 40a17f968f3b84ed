//! Results of calls, as a driver writes them. Every field is read strictly: a 64-bit value is a string of decimal
//! digits, and a missing field fails the row.

use seq_load::outcome::UNKNOWN_ATTEMPTS;
use seq_order::{Outcome, Reading};
use serde_json::Value;

/// Numbers that a call got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Allocation {
    pub(crate) first: u64,
    pub(crate) value: u64,
    pub(crate) prev: u64,
    pub(crate) epoch: u64,
    pub(crate) count: u32,
    pub(crate) lost: u32,
}

/// The last number of a uid, or an upper bound of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Current {
    pub(crate) value: u64,
    pub(crate) exact: bool,
    pub(crate) epoch: u64,
}

/// The error of a call, or of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallError {
    pub(crate) kind: String,
    pub(crate) reason: String,
    pub(crate) code: String,
    pub(crate) retryable: bool,
    pub(crate) may_have_applied: bool,
    pub(crate) retry_after_ms: u64,
    pub(crate) attempts: u64,
    pub(crate) message: String,
}

impl Allocation {
    pub(crate) fn read(ok: &Value) -> Allocation {
        let allocation = Allocation {
            first: digits(ok, "first"),
            value: digits(ok, "value"),
            prev: digits(ok, "prev"),
            epoch: digits(ok, "epoch"),
            count: number(ok, "count"),
            lost: number(ok, "lost"),
        };
        let Allocation { first, value, count, .. } = allocation;
        assert_eq!(first.checked_add(u64::from(count)), value.checked_add(1), "{ok}: {count} numbers");
        allocation
    }

    /// Converts the result of an item for the order checker.
    pub(crate) fn outcome(result: &Result<Allocation, CallError>) -> Outcome {
        match result {
            Ok(Allocation { value, prev, count, lost, .. }) => {
                Outcome::Given { value: *value, prev: *prev, count: *count, lost: *lost }
            }
            Err(error) if error.may_have_applied => Outcome::Maybe { lost: UNKNOWN_ATTEMPTS },
            Err(_) => Outcome::Refused,
        }
    }
}

impl Current {
    pub(crate) fn read(ok: &Value) -> Current {
        let exact = ok["exact"].as_bool().unwrap_or_else(|| panic!("`exact` of {ok} is no boolean"));
        Current { value: digits(ok, "value"), exact, epoch: digits(ok, "epoch") }
    }

    /// Converts the result of a read for the order checker.
    pub(crate) fn reading(result: &Result<Current, CallError>) -> Reading {
        match result {
            Ok(Current { value, exact: true, .. }) => Reading::Exact(*value),
            Ok(Current { value, exact: false, .. }) => Reading::UpperBound(*value),
            Err(_) => Reading::Failed,
        }
    }
}

impl CallError {
    fn read(error: &Value) -> CallError {
        let text = |field: &str| error[field].as_str().map(str::to_owned);
        let required = |field: &str| text(field).unwrap_or_else(|| panic!("`{field}` of {error} is no string"));
        let flag = |field: &str| error[field].as_bool().unwrap_or_else(|| panic!("`{field}` of {error} is no boolean"));
        CallError {
            kind: required("kind"),
            reason: text("reason").unwrap_or_default(),
            code: text("code").unwrap_or_default(),
            retryable: flag("retryable"),
            may_have_applied: flag("may_have_applied"),
            retry_after_ms: error["retry_after_ms"].as_u64().unwrap_or_default(),
            attempts: error["attempts"].as_u64().unwrap_or_default(),
            message: required("message"),
        }
    }

    /// Returns the reason of a refusal, and the kind of every other error.
    pub(crate) fn name(&self) -> &str {
        if self.reason.is_empty() { &self.kind } else { &self.reason }
    }
}

/// Reads a response or an item: either `ok`, which `read` reads, or `error`.
pub(crate) fn result<T>(value: &Value, read: impl FnOnce(&Value) -> T) -> Result<T, CallError> {
    match (&value["ok"], &value["error"]) {
        (ok @ Value::Object(_), Value::Null) => Ok(read(ok)),
        (Value::Null, error @ Value::Object(_)) => Err(CallError::read(error)),
        _ => panic!("{value} has neither `ok` nor `error`"),
    }
}

/// Reads the items of a batch.
pub(crate) fn items<T>(ok: &Value, count: usize, read: impl Fn(&Value) -> T) -> Vec<Result<T, CallError>> {
    let items = ok["items"].as_array().unwrap_or_else(|| panic!("{ok} has no items"));
    assert_eq!(items.len(), count, "one item for each uid");
    items.iter().map(|item| result(item, &read)).collect()
}

/// Returns a 64-bit value of a response.
pub(crate) fn digits(value: &Value, field: &str) -> u64 {
    let text = value[field].as_str().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = text.and_then(|text| text.parse().ok());
    number.unwrap_or_else(|| panic!("`{field}` of {value} is no string of decimal digits"))
}

fn number(value: &Value, field: &str) -> u32 {
    let number = value[field].as_u64().and_then(|number| u32::try_from(number).ok());
    number.unwrap_or_else(|| panic!("`{field}` of {value} is no number"))
}
