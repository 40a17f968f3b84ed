//! What calls are answered with.

use std::ops::RangeInclusive;
use std::sync::Arc;

use seq_proto::v1;

use crate::error::CallError;

/// Numbers given out to one uid: [`Allocation::first`] `..=` [`Allocation::value`]. They are the caller's alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Allocation {
    /// The last number, `1 ..= 2^63-1`; the only one where one was asked for.
    pub value: u64,
    /// The number given out before the first one. 0 when there was none, when the owner does not know it, or when the uid was
    /// advanced since. A receiver that has not seen `prev` has missed a message, unless an attempt of this call that is
    /// counted in `lost` took it.
    pub prev: u64,
    /// Number of the ownership that gave them out, 1 or above; it never falls for one uid.
    pub epoch: u64,
    /// How many numbers, `1 ..= 1_000_000`.
    pub count: u32,
    /// Attempts of the same call before, of this client or of a node, that may have taken `count` numbers each without an answer: gaps, if they did. 0
    /// unless something failed.
    pub lost: u32,
}

/// What is known of a uid's last number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Current {
    /// The last number given out or a bound on it, `0 ..= 2^63-1`. Never below a number that was answered before.
    pub value: u64,
    /// Whether `value` is the last number given out, 0 meaning that none ever was. If not, no number above `value` was;
    /// that is so after an owner's crash until the uid's next allocation.
    pub exact: bool,
    /// Number of the ownership that answered, 1 or above.
    pub epoch: u64,
}

impl Allocation {
    /// The first number.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.value - u64::from(self.count) + 1
    }

    /// All of them, in order.
    #[must_use]
    pub fn numbers(&self) -> RangeInclusive<u64> {
        self.first()..=self.value
    }

    /// Checks what came from the wire, so that [`Allocation::first`] exists and chains to `prev`.
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
            return Err(CallError::BadAnswer { addr: addr.clone(), what: "numbers that do not follow each other" });
        }
        Ok(Allocation { value, prev, epoch, count, lost: 0 })
    }
}

impl Current {
    /// Checks what came from the wire.
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

/// Attempts that nodes made for items of a batch and do not know the outcome of, by index.
pub(crate) fn lost(lost: Option<&v1::LostAttempts>) -> impl Iterator<Item = (usize, u32)> {
    lost.into_iter()
        .flat_map(|lost| lost.indexes.iter().map(|index| *index as usize).zip(lost.attempts.iter().copied()))
}
