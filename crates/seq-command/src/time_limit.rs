//! Parses durations on the command line. A duration is a number with a unit, and has the same form for every command.

use std::time::Duration;

/// Longest time that a command accepts.
const LONGEST: Duration = Duration::from_secs(7 * 86_400);

/// Parses a duration on the command line, such as `500ms`, `2s`, `1.5m` or `1h`. A number without a unit means seconds.
///
/// # Errors
/// The text does not have this form, or the duration is 0 or longer than 7 days.
pub fn time(text: &str) -> Result<Duration, String> {
    let time = time_or_none(text)?;
    if time.is_zero() { Err("it must be above 0".to_owned()) } else { Ok(time) }
}

/// Parses a duration as [`time()`] does, but accepts 0 too.
///
/// # Errors
/// The text does not have this form, or the duration is longer than 7 days.
pub fn time_or_none(text: &str) -> Result<Duration, String> {
    let unit_at = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let seconds = match unit {
        "ms" => 0.001,
        "s" | "" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        _ => return Err("it must be a time such as 500ms, 2s, 5m or 1h".to_owned()),
    };
    let number: f64 = number.parse().map_err(|_| "it must be a time such as 500ms, 2s, 5m or 1h".to_owned())?;
    let time = Duration::try_from_secs_f64(number * seconds).ok().filter(|time| *time <= LONGEST);
    time.ok_or_else(|| "it must be 7 days or less".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit_and_seconds_without_one() {
        let ms = |text| time(text).map(|time| time.as_millis());
        assert_eq!(
            ["500ms", "2s", "1.5m", "1h", "20", "0.5"].map(ms),
            [500, 2_000, 90_000, 3_600_000, 20_000, 500].map(Ok)
        );
        for wrong in ["", "s", "-1s", "2 s", "2d", "1e3s", "..s", "8000h", "0", "0ms"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
        assert_eq!(time_or_none("0s"), Ok(Duration::ZERO));
    }
}
