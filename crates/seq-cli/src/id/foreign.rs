//! Parses ObjectIds of MongoDB, which have 96 bits, and UUIDs (RFC 9562), which have 128 bits. They may contain a time.

use std::time::{Duration, SystemTime};

use seq_command::utc;

/// The parts of an ObjectId or a UUID.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Foreign {
    pub(super) shape: &'static str,
    /// Time of the id; `None` if it has no time.
    pub(super) time: Option<String>,
    pub(super) fields: Vec<(&'static str, String)>,
}

/// Returns the parts of an ObjectId or a UUID. Returns `None` if the text is neither of them.
pub(super) fn parse(text: &str) -> Option<Foreign> {
    object_id(text).or_else(|| uuid(text))
}

/// Returns the parts of an ObjectId, which consists of 4 bytes with the time in seconds, 5 random bytes for the
/// process, and 3 bytes with a counter. Returns `None` if the text is not an ObjectId.
fn object_id(text: &str) -> Option<Foreign> {
    if text.len() != 24 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let seconds = u64::from_str_radix(&text[..8], 16).ok()?;
    let counter = u32::from_str_radix(&text[18..], 16).ok()?;
    let fields = vec![("process", text[8..18].to_owned()), ("counter", counter.to_string())];
    Some(Foreign { shape: "ObjectId", time: Some(utc::text_of_ms(seconds * 1_000)), fields })
}

fn uuid(text: &str) -> Option<Foreign> {
    let uuid = uuid::Uuid::try_parse(text).ok()?;
    let shape = match uuid.get_version_num() {
        1 => "UUIDv1",
        4 => "UUIDv4",
        6 => "UUIDv6",
        7 => "UUIDv7",
        _ => "UUID",
    };
    let at = uuid.get_timestamp().map(|stamp| {
        let (seconds, nanos) = stamp.to_unix();
        SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos)
    });
    Some(Foreign { shape, time: at.map(utc::text_to_ms), fields: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> (&'static str, Option<String>) {
        let Foreign { shape, time, .. } = parse(text).expect("a known form");
        (shape, time)
    }

    #[test]
    fn ids_of_other_systems_state_their_time() {
        let at = |text: &str| Some(text.to_owned());
        assert_eq!(time("5e576ba988846945965b4a41"), ("ObjectId", at("2020-02-27T07:11:37Z")));
        assert_eq!(
            parse("5e576ba988846945965b4a41").unwrap().fields,
            [("process", "8884694596".to_owned()), ("counter", "5982785".to_owned())]
        );
        // The examples of RFC 9562, one for each version.
        let rfc = [
            ("C232AB00-9414-11EC-B3C8-9F6BDECED846", "UUIDv1", at("2022-02-22T19:22:22.000Z")),
            ("1EC9414C-232A-6B00-B3C8-9F6BDECED846", "UUIDv6", at("2022-02-22T19:22:22.000Z")),
            ("017F22E2-79B0-7CC3-98C4-DC0C0C07398F", "UUIDv7", at("2022-02-22T19:22:22.000Z")),
            ("919108f7-52d1-4320-9bac-f847db4148a8", "UUIDv4", None),
        ];
        for (text, shape, at) in rfc {
            assert_eq!(time(text), (shape, at), "{text}");
        }
        for other in ["", "12", "5e576ba988846945965b4a4g", "017F22E2-79B0-7CC3-98C4-DC0C0C07398"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
