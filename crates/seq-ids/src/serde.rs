//! Serialization of ids. An id is written as a string, because JavaScript reads a number as a double, which is not
//! exact above 2^53 - 1. In human-readable formats, such as JSON, an id is read from a string or an integer; in other
//! formats, from a string only.

use core::fmt;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::id::Id;

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
        // Only human-readable formats state the type of a value.
        match deserializer.is_human_readable() {
            true => deserializer.deserialize_any(IdVisitor),
            false => deserializer.deserialize_str(IdVisitor),
        }
    }
}

/// Visitor that reads an id.
struct IdVisitor;

impl Visitor<'_> for IdVisitor {
    type Value = Id;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an id, 1 to 9223372036854775807, as a string of digits or an integer")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Id, E> {
        text.parse().map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Id, E> {
        Id::new(number).ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Id, E> {
        let id = u64::try_from(number).ok().and_then(Id::new);
        id.ok_or_else(|| E::invalid_value(Unexpected::Signed(number), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_string_in_json() {
        let id = Id::new(Id::MAX).unwrap();
        assert_eq!(serde_json::to_string(&id).unwrap(), r#""9223372036854775807""#);
        for text in [r#""9223372036854775807""#, "9223372036854775807"] {
            assert_eq!(serde_json::from_str::<Id>(text).unwrap(), id);
        }
        for text in ["0", "-1", "1.0", "1e3", r#""""#, r#""+1""#, "null", "9223372036854775808"] {
            assert!(serde_json::from_str::<Id>(text).is_err(), "{text}");
        }
    }
}
