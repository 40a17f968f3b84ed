//! An id as a value and as text.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;
use core::num::NonZeroU64;
use core::str::FromStr;

/// A unique id, which is an integer in `1 ..= 2^63 - 1`. The range ends there so that an id is positive in languages
/// without unsigned integers.
///
/// JavaScript stores numbers as doubles, which are not exact above 2^53 - 1, so ids should be sent to JavaScript as
/// text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(NonZeroU64);

impl Id {
    /// The largest id.
    pub const MAX: u64 = i64::MAX as u64;

    /// Returns the id with this number; `None` if the number is 0 or above [`Id::MAX`].
    #[must_use]
    pub fn new(number: u64) -> Option<Id> {
        NonZeroU64::new(number).filter(|number| number.get() <= Id::MAX).map(Id)
    }

    /// Returns the id as a number in `1 ..= 2^63 - 1`.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// Error of a text that is not an id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no id: ids have digits alone, and are 1 to 9223372036854775807")]
pub struct NotAnId {
    /// The text.
    pub text: String,
}

impl FromStr for Id {
    type Err = NotAnId;

    /// Parses an id from decimal digits alone. A text with a sign, a fraction or an exponent is refused, because such a
    /// text usually comes from a number that was rounded or has overflowed.
    fn from_str(text: &str) -> Result<Id, NotAnId> {
        let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit());
        let id = text.parse().ok().filter(|_| is_decimal).and_then(Id::new);
        id.ok_or_else(|| NotAnId { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn ids_are_decimal_digits() {
        for (text, number) in [("1", 1), ("007", 7), ("9223372036854775807", Id::MAX)] {
            assert_eq!(text.parse::<Id>().map(Id::get), Ok(number));
        }
        let refused =
            ["", "0", "-1", "+1", "1.0", "1e18", " 1", "1 ", "0x1", "9223372036854775808", "18446744073709551616"];
        for text in refused {
            let refusal = text.parse::<Id>().unwrap_err();
            assert_eq!(refusal, NotAnId { text: text.to_string() });
        }
        assert_eq!(Id::new(41).unwrap().to_string(), "41");
    }
}
