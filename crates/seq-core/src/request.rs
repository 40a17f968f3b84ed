//! Validated values of a request. A value outside its range is refused before any state is changed.

use core::num::NonZeroU32;

use crate::id::Seq;
use crate::limits;
use crate::refusal::Refusal;

/// The number to which an advance raises a uid, `0 ..= limits::MAX_ADVANCE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target(Seq);

impl Target {
    /// Checks the number in a request to advance.
    ///
    /// # Errors
    /// [`Refusal::AdvanceTooFar`] if the number is above [`limits::MAX_ADVANCE`].
    pub fn new(to: u64) -> Result<Target, Refusal> {
        let bound = Seq(limits::MAX_ADVANCE);
        if to > bound.0 { Err(Refusal::AdvanceTooFar { to, bound }) } else { Ok(Target(Seq(to))) }
    }

    /// Returns the number.
    #[must_use]
    pub fn seq(self) -> Seq {
        self.0
    }
}

/// Count of the numbers that an item of a call takes, `1 ..= limits::MAX_COUNT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count(NonZeroU32);

impl Count {
    /// One number, the usual call.
    pub const ONE: Count = Count(NonZeroU32::MIN);

    /// Checks the count in a request.
    ///
    /// # Errors
    /// [`Refusal::CountOutOfRange`] if the count is 0 or above [`limits::MAX_COUNT`].
    pub fn new(count: u32) -> Result<Count, Refusal> {
        match NonZeroU32::new(count) {
            Some(count) if count.get() <= limits::MAX_COUNT => Ok(Count(count)),
            _ => Err(Refusal::CountOutOfRange { count }),
        }
    }

    /// Returns the count as a plain number.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0.get()
    }
}
