//! Encoding of durations in settings files as whole numbers. The name of a key ends with the unit of its number.

/// Milliseconds: `#[serde(rename = "..._ms", with = "durations::ms")]`.
pub mod ms {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Serialises the duration as whole milliseconds.
    ///
    /// # Errors
    /// An error of the serialiser.
    pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    /// Reads whole milliseconds.
    ///
    /// # Errors
    /// The value is no whole number from 0.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}

/// Seconds, where 0 stands for `None`: `#[serde(rename = "..._s", with = "durations::optional_s")]`.
pub mod optional_s {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Serialises the duration as whole seconds, and `None` as 0.
    ///
    /// # Errors
    /// An error of the serialiser.
    pub fn serialize<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(duration.map_or(0, |duration| duration.as_secs()))
    }

    /// Reads whole seconds, and 0 as `None`.
    ///
    /// # Errors
    /// The value is no whole number from 0.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        Ok(Some(u64::deserialize(deserializer)?).filter(|seconds| *seconds > 0).map(Duration::from_secs))
    }
}
