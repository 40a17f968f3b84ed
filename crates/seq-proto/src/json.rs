//! Decoding of numbers in JSON, by the mapping of proto3. A number is a JSON number or a string of decimal digits, and
//! null stands for the default value of its field.
//!
//! The generated code (`crates/xtask/src/generate.rs`) decodes every number with these types, so that the texts of
//! errors use the terms of JSON.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

const WORDS: &str = "must be a number or a string of digits";

/// An integer field.
pub(crate) struct Number<T>(pub(crate) T);

/// A field that is a number, or null for its default.
pub(crate) struct Field<T>(pub(crate) T);

/// A field that is a list of numbers, or null for an empty list.
pub(crate) struct List<T>(Vec<Number<T>>);

impl<T> IntoIterator for List<T> {
    type Item = Number<T>;
    type IntoIter = std::vec::IntoIter<Number<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'de, T: TryFrom<u64> + Default> Deserialize<'de> for Number<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Number<T>, D::Error> {
        from.deserialize_any(Digits { null: false, number: PhantomData }).map(Number)
    }
}

impl<'de, T: TryFrom<u64> + Default> Deserialize<'de> for Field<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Field<T>, D::Error> {
        from.deserialize_any(Digits { null: true, number: PhantomData }).map(Field)
    }
}

impl<'de, T: TryFrom<u64> + Default> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<List<T>, D::Error> {
        Option::<Vec<Number<T>>>::deserialize(from).map(|list| List(list.unwrap_or_default()))
    }
}

struct Digits<T> {
    /// Whether null is accepted and stands for the default.
    null: bool,
    number: PhantomData<T>,
}

impl<'de, T: TryFrom<u64> + Default> Visitor<'de> for Digits<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or a string of digits")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<T, E> {
        T::try_from(value).map_err(|_| out_of_range::<T, E>(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<T, E> {
        u64::try_from(value).map_err(|_| out_of_range::<T, E>(value)).and_then(|value| self.visit_u64(value))
    }

    /// Refuses a number that has a fraction or an exponent, or that is too large for an integer type, because the
    /// decoder may have rounded it already.
    fn visit_f64<E: Error>(self, _: f64) -> Result<T, E> {
        Err(E::custom(format_args!("{WORDS}, without fraction and exponent, in 0..={}", largest::<T>())))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(E::custom(format_args!("{WORDS}, not {text:?}")));
        }
        let value = text.parse().map_err(|_| out_of_range::<T, E>(text))?;
        self.visit_u64(value)
    }

    fn visit_unit<E: Error>(self) -> Result<T, E> {
        if self.null { Ok(T::default()) } else { Err(E::custom(format_args!("{WORDS}, not null"))) }
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<T, E> {
        Err(E::custom(format_args!("{WORDS}, not {value}")))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<T, A::Error> {
        Err(A::Error::custom(format_args!("{WORDS}, not a list")))
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<T, A::Error> {
        Err(A::Error::custom(format_args!("{WORDS}, not an object")))
    }
}

fn out_of_range<T: TryFrom<u64>, E: Error>(value: impl fmt::Display) -> E {
    E::custom(format_args!("{value} is not in 0..={}", largest::<T>()))
}

/// Returns the largest value of a field.
fn largest<T: TryFrom<u64>>() -> u64 {
    if T::try_from(u64::MAX).is_ok() { u64::MAX } else { u32::MAX.into() }
}
