//! The wall clock, for what people and certificates read. Nothing of the protocol depends on it.

use std::time::{Duration, SystemTime};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

pub(crate) use seq_kit::wall_clock::{now, now_ms};

/// A time as date and time in UTC, to the second.
pub(crate) fn text(at: SystemTime) -> String {
    let at = OffsetDateTime::from(at).replace_nanosecond(0).expect("0 is a nanosecond");
    at.format(&Rfc3339).unwrap_or_else(|_| "after the year 9999".to_owned())
}

/// As [`text`], for milliseconds since 1970.
pub(crate) fn text_of_ms(unix_ms: u64) -> String {
    // A damaged file may have any number here: the largest time is in the year 9999.
    const LAST_MS: u64 = 253_402_300_799_000;
    text(SystemTime::UNIX_EPOCH + Duration::from_millis(unix_ms.min(LAST_MS)))
}

/// An age in its largest unit that has two of it.
pub(crate) fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_utc_to_the_second() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
        ] {
            assert_eq!(text_of_ms(seconds * 1_000 + 999), text);
        }
        assert_eq!(text_of_ms(u64::MAX), "9999-12-31T23:59:59Z");
    }

    #[test]
    fn ages_have_two_or_more_of_their_unit() {
        let ages = [0, 119, 120, 7_199, 7_200, 172_799, 172_800].map(age);
        assert_eq!(ages, ["0 s", "119 s", "2 min", "119 min", "2 h", "47 h", "2 days"]);
    }
}
