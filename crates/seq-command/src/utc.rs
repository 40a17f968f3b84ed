//! Wall clock, and formats of its times for output and certificates. The protocol between the nodes does not depend on
//! wall clocks.

use std::time::{Duration, SystemTime};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

pub use seq_kit::wall_clock::{now, now_ms};

/// Latest time that is converted to text, in milliseconds since 1970. It is the end of the year 9999. The limit is
/// needed because a damaged file may contain any number of milliseconds.
const LAST_MS: u64 = 253_402_300_799_999;

/// Formats a time as date and time in UTC, with whole seconds.
pub fn text(at: SystemTime) -> String {
    let at = OffsetDateTime::from(at).replace_nanosecond(0).expect("0 is a nanosecond");
    at.format(&Rfc3339).unwrap_or_else(|_| "after the year 9999".to_owned())
}

/// Formats a time, given in milliseconds since 1970, as date and time in UTC, with whole seconds.
pub fn text_of_ms(unix_ms: u64) -> String {
    text(SystemTime::UNIX_EPOCH + Duration::from_millis(unix_ms.min(LAST_MS)))
}

/// Formats a time like [`text_of_ms`]. Returns `None` if the time is 0, which means unknown.
pub fn text_if_known(unix_ms: u64) -> Option<String> {
    (unix_ms > 0).then(|| text_of_ms(unix_ms))
}

/// Formats a time as date and time in UTC, always with milliseconds.
pub fn text_to_ms(at: SystemTime) -> String {
    let at = OffsetDateTime::from(at);
    format!("{}.{:03}Z", text(at.into()).trim_end_matches('Z'), at.millisecond())
}

/// Formats a time, given in milliseconds since 1970, as date and time in UTC, always with milliseconds.
pub fn text_with_ms(unix_ms: u64) -> String {
    text_to_ms(SystemTime::UNIX_EPOCH + Duration::from_millis(unix_ms.min(LAST_MS)))
}

/// Formats a time like [`text_with_ms`]. Returns `None` if the time is 0, which means unknown.
pub fn text_with_ms_if_known(unix_ms: u64) -> Option<String> {
    (unix_ms > 0).then(|| text_with_ms(unix_ms))
}

/// Parses a time on the command line, such as `2026-01-01T00:00:00.5Z`. A date alone stands for its start in UTC.
/// Returns milliseconds since 1970.
///
/// # Errors
/// The text does not have this form, or the time is not in the years 1970 to 9999.
pub fn parse_ms(text: &str) -> Result<u64, String> {
    let whole = if text.len() == "2026-01-01".len() { &format!("{text}T00:00:00Z") } else { text };
    let at = OffsetDateTime::parse(whole, &Rfc3339)
        .map_err(|_| "it must be a time such as 2026-01-01 or 2026-01-01T00:00:00.000Z".to_owned())?;
    let ms = u64::try_from(at.unix_timestamp_nanos() / 1_000_000).ok().filter(|_| at >= OffsetDateTime::UNIX_EPOCH);
    ms.ok_or_else(|| "it must be in the years 1970 to 9999".to_owned())
}

/// Formats the time of day in UTC of a time in milliseconds since 1970, with whole seconds; a dash if the time is 0,
/// which means unknown.
pub fn time_of_day(unix_ms: u64) -> String {
    let text = text_of_ms(unix_ms);
    match text.get("2026-01-01T".len().."2026-01-01T00:00:00".len()) {
        Some(time) if unix_ms > 0 => time.to_owned(),
        _ => "-".to_owned(),
    }
}

/// Formats an age in the largest unit in which it is at least 2. For example, 90 seconds remain `90 s`, and 120 seconds
/// become `2 min`.
pub fn age(seconds: u64) -> String {
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
        assert_eq!((text_if_known(0), text_if_known(1_000)), (None, Some("1970-01-01T00:00:01Z".to_owned())));
    }

    #[test]
    fn times_are_read_as_they_are_shown() {
        for (text, ms) in
            [("1970-01-01", 0), ("2026-01-01", 1_767_225_600_000), ("2022-06-28T16:07:40.105Z", 1_656_432_460_105)]
        {
            assert_eq!(parse_ms(text), Ok(ms), "{text}");
        }
        assert_eq!(text_with_ms(1_656_432_460_105), "2022-06-28T16:07:40.105Z");
        assert_eq!(text_with_ms(1_767_225_600_000), "2026-01-01T00:00:00.000Z");
        assert_eq!(parse_ms("2026-01-01T02:00:00+02:00"), Ok(1_767_225_600_000), "with an offset");
        for wrong in ["", "2026", "2026-13-01", "2026-01-01T00:00", "1969-12-31", "yesterday", "2026-01-0x"] {
            assert!(parse_ms(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ages_have_two_or_more_of_their_unit() {
        let ages = [0, 119, 120, 7_199, 7_200, 172_799, 172_800].map(age);
        assert_eq!(ages, ["0 s", "119 s", "2 min", "119 min", "2 h", "47 h", "2 days"]);
    }
}
