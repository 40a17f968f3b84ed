//! Results of calls for numbers. They are validated when a response is decoded.

use std::ops::RangeInclusive;
use std::sync::Arc;

use seq_proto::v1;

use crate::error::{CallError, NUMBERS_OUT_OF_ORDER};

/// Numbers allocated for one uid: all numbers from [`Allocation::first`] to [`Allocation::value`]. No other request
/// gets any of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Allocation {
    /// The last of the allocated numbers, `1 ..= 2^63-1`. If `count` is 1, it is the only number.
    pub value: u64,
    /// The number that was allocated for the uid directly before [`Allocation::first`]; 0 if there was none, if the
    /// owner does not know it, or if the uid has been advanced since. A receiver that has not seen `prev` has missed a
    /// message, unless `prev` was consumed by an attempt that `lost` counts.
    pub prev: u64,
    /// Epoch of the ownership that allocated the numbers, 1 or above. For one uid, no later allocation has a smaller
    /// epoch.
    pub epoch: u64,
    /// Count of the numbers, `1 ..= 1_000_000`.
    pub count: u32,
    /// Number of earlier attempts of this call that got no response, whether this client sent them or a node that
    /// forwarded the call. Each such attempt may have consumed `count` numbers, which are then skipped. 0 unless a
    /// failure occurred.
    pub lost: u32,
}

/// The last number of a uid, or an upper bound of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Current {
    /// The last number allocated, or an upper bound of this number, `0 ..= 2^63-1`. It is never smaller than a value
    /// that was returned earlier for the same uid.
    pub value: u64,
    /// Whether `value` is exactly the last number allocated. An exact 0 means that the uid never had a number. If
    /// `false`, `value` is an upper bound: no number above it was allocated. This is so after a crash of the section's
    /// owner, until the next number of the uid is allocated.
    pub exact: bool,
    /// Epoch of the ownership that responded, 1 or above.
    pub epoch: u64,
}

impl Allocation {
    /// Returns the first number.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.value - u64::from(self.count) + 1
    }

    /// Returns all numbers, in order.
    #[must_use]
    pub fn numbers(&self) -> RangeInclusive<u64> {
        self.first()..=self.value
    }

    /// Creates the allocation from the fields of a response, after validating them. The first number must be 1 or
    /// greater and greater than `prev`.
    pub(crate) fn checked(
        value: u64,
        prev: u64,
        epoch: u64,
        count: u32,
        addr: &Arc<str>,
    ) -> Result<Allocation, CallError> {
        let fits =
            value <= seq_core::Seq::MAX.0 && prev.checked_add(u64::from(count)).is_some_and(|least| least <= value);
        if !fits {
            return Err(CallError::BadAnswer { addr: addr.clone(), what: NUMBERS_OUT_OF_ORDER });
        }
        Ok(Allocation { value, prev, epoch, count, lost: 0 })
    }
}

impl Current {
    /// Validates the fields of a response.
    pub(crate) fn checked(value: u64, exactness: i32, epoch: u64, addr: &Arc<str>) -> Result<Current, CallError> {
        let exact = match v1::Exactness::try_from(exactness) {
            Ok(v1::Exactness::Exact) => true,
            Ok(v1::Exactness::UpperBound) => false,
            Ok(v1::Exactness::Unspecified) | Err(_) => {
                return Err(CallError::BadAnswer {
                    addr: addr.clone(),
                    what: "a value that is neither exact nor a bound",
                });
            }
        };
        Ok(Current { value, exact, epoch })
    }
}

/// Decodes the list `lost` of a response to a batch. Returns the pair `(item index, number of attempts)` for each item
/// for which nodes made forwarding attempts with an unknown outcome.
pub(crate) fn lost(lost: Option<&v1::LostAttempts>) -> impl Iterator<Item = (usize, u32)> {
    lost.into_iter()
        .flat_map(|lost| lost.indexes.iter().map(|index| *index as usize).zip(lost.attempts.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_not_above_the_number_before_are_out_of_order() {
        let checked = |value, prev, count| Allocation::checked(value, prev, 1, count, &"a:1".into());
        assert_eq!(checked(6, 5, 1).unwrap().first(), 6);
        assert_eq!(checked(7, 5, 2).unwrap().numbers(), 6..=7);
        for (value, prev, count) in [(5, 5, 1), (4, 5, 1), (6, 5, 2), (1 << 63, 5, 1)] {
            let error = checked(value, prev, count).unwrap_err();
            assert!(error.is_out_of_order(), "{value} after {prev}, {count} numbers: {error}");
        }
    }
}
