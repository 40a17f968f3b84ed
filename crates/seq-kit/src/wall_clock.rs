//! The wall clock. It is used only for texts that people read, for certificates and for quotas. No part of the protocol
//! depends on it.

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

/// Returns the date in UTC of a time in milliseconds since 1970, in the form `2026-11-27`.
#[must_use]
pub fn date(unix_ms: u64) -> String {
    // The days are counted in eras of 400 years. A year begins on the first of March, so that a leap day is its last
    // day.
    const DAYS_TO_1970: u64 = 719_468;
    const DAYS_OF_ERA: u64 = 146_097;
    let days = unix_ms / 86_400_000 + DAYS_TO_1970;
    let (era, day) = (days / DAYS_OF_ERA, days % DAYS_OF_ERA);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
    format!("{:04}-{month:02}-{day:02}", era * 400 + year)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_that_of_the_calendar() {
        for (unix_ms, expected) in [
            (0, "1970-01-01"),
            (951_782_400_000, "2000-02-29"),
            (951_868_800_000, "2000-03-01"),
            (1_798_675_199_999, "2026-12-30"),
            (1_798_675_200_000, "2026-12-31"),
            (1_798_761_600_000, "2027-01-01"),
            (4_107_542_399_999, "2100-02-28"),
            (4_107_542_400_000, "2100-03-01"),
            (253_402_300_799_999, "9999-12-31"),
        ] {
            assert_eq!(date(unix_ms), expected, "{unix_ms}");
        }
    }
}
