//! The wall clock, for people, certificates and quotas alone: no part of the protocol depends on it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the current time.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "people and certificates read it; nothing of the protocol depends on it")]
pub fn now() -> SystemTime {
    SystemTime::now()
}

/// Returns the current time, in milliseconds since 1970.
#[must_use]
pub fn now_ms() -> u64 {
    let since = now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
