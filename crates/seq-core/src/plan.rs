//! Plans of operators. A plan is a change that is checked and shown to the operator, but not made. The change is made
//! later only if the facts on which its plan is based are still the same.
//!
//! **Invariant:** a fingerprint covers only preconditions. These are the kind and the arguments of the change, and
//! values that change only if an operator makes another change. Values that change without an operator, such as
//! ceilings, owners, renewals and positions in the log, are not covered, so a plan stays valid while the set serves.

use core::fmt;
use core::str::FromStr;

use crate::layout::{NO_SPACES, fnv1a};

/// Hexadecimal digits of a fingerprint in text.
const DIGITS: usize = 16;

/// Hash of the facts on which the plan of a change is based; 0 stands for no plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint(pub u64);

impl Fingerprint {
    /// Fingerprint that stands for no plan. A change that does not require a plan has this fingerprint.
    pub const NONE: Fingerprint = Fingerprint(0);

    /// Checks whether a change that requires this plan may be made. `now` is the fingerprint that a new plan of the
    /// change would have. The two must be equal, unless this fingerprint is [`Fingerprint::NONE`].
    ///
    /// # Errors
    /// [`StalePlan`] if the change may not be made.
    pub fn check(self, now: Fingerprint) -> Result<(), StalePlan> {
        let allows = self == Fingerprint::NONE || self == now;
        if allows { Ok(()) } else { Err(StalePlan { expected: self, now }) }
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0DIGITS$x}", self.0)
    }
}

impl FromStr for Fingerprint {
    type Err = MalformedFingerprint;

    fn from_str(text: &str) -> Result<Fingerprint, MalformedFingerprint> {
        let is_hex = text.len() == DIGITS && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let read = is_hex.then(|| u64::from_str_radix(text, 16).ok()).flatten().map(Fingerprint);
        read.filter(|plan| *plan != Fingerprint::NONE).ok_or(MalformedFingerprint)
    }
}

/// Refusal of a change, because the facts on which its plan is based have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the plan {expected} is stale, or of another change: the plan of this change is {now} now")]
pub struct StalePlan {
    /// The fingerprint of the plan that the change requires.
    pub expected: Fingerprint,
    /// The fingerprint that a new plan of the change would have.
    pub now: Fingerprint,
}

/// Error because a text is not the fingerprint of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not 16 hexadecimal digits, as --dry-run prints them")]
pub struct MalformedFingerprint;

/// Hash of the facts on which a plan is based. The facts are added to it as values, one by one. The order of the values
/// matters, and different lists of values are always hashed as different bytes.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Preconditions(u64);

impl Preconditions {
    /// Begins the preconditions of a kind of change, for example "drain". The kind is hashed too, so plans of two kinds
    /// of changes differ even if their values are equal.
    pub fn of(change: &str) -> Preconditions {
        Preconditions(NO_SPACES.0).text(change)
    }

    /// Adds a number.
    pub fn number(self, number: u64) -> Preconditions {
        Preconditions(fnv1a(self.0, &number.to_le_bytes()))
    }

    /// Adds a boolean value.
    pub fn flag(self, flag: bool) -> Preconditions {
        self.number(flag.into())
    }

    /// Adds a text.
    pub fn text(self, text: &str) -> Preconditions {
        let counted = self.number(text.len() as u64);
        Preconditions(fnv1a(counted.0, text.as_bytes()))
    }

    /// Adds a list of numbers, in its order.
    pub fn numbers(self, numbers: impl IntoIterator<Item = u64>) -> Preconditions {
        let (hash, count) =
            numbers.into_iter().fold((self, 0), |(hash, count), number| (hash.number(number), count + 1));
        hash.number(count)
    }

    /// Returns the fingerprint of all values; never [`Fingerprint::NONE`].
    #[must_use]
    pub fn fingerprint(self) -> Fingerprint {
        Fingerprint(self.0.max(1))
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn values_and_their_borders_are_part_of_a_fingerprint() {
        let of = |change: &str, texts: [&str; 2], numbers: &[u64]| {
            let [one, other] = texts;
            let preconditions = Preconditions::of(change).text(one).text(other).numbers(numbers.iter().copied());
            preconditions.flag(true).fingerprint()
        };
        let plan = of("drain", ["a", "bc"], &[1, 2]);
        assert_eq!(plan, of("drain", ["a", "bc"], &[1, 2]), "the same values are the same plan");
        for other in [
            of("close", ["a", "bc"], &[1, 2]),
            of("drain", ["ab", "c"], &[1, 2]),
            of("drain", ["a", "bc"], &[2, 1]),
            of("drain", ["a", "bc"], &[1, 2, 0]),
            of("drain", ["a", "bc"], &[]),
        ] {
            assert_ne!(plan, other);
        }
    }

    #[test]
    fn a_change_that_requires_no_plan_is_made_whatever_holds() {
        let plan = Preconditions::of("drain").fingerprint();
        let other = Preconditions::of("close").fingerprint();
        assert_eq!((Fingerprint::NONE.check(plan), plan.check(plan)), (Ok(()), Ok(())));
        assert_eq!(plan.check(other), Err(StalePlan { expected: plan, now: other }));
        assert!(plan.check(Fingerprint::NONE).is_err());
    }

    #[test]
    fn a_fingerprint_is_read_as_it_is_printed_and_nothing_else_is() {
        let plan = Fingerprint(0x0f3c_0a77_d1e2_5b48);
        assert_eq!(plan.to_string(), "0f3c0a77d1e25b48");
        assert_eq!("0f3c0a77d1e25b48".parse(), Ok(plan));
        for text in
            ["", "0f3c0a77d1e25b4", "0f3c0a77d1e25b480", "0F3C0A77D1E25B48", "+f3c0a77d1e25b48", "0000000000000000"]
        {
            assert_eq!(text.parse::<Fingerprint>(), Err(MalformedFingerprint), "{text:?}");
        }
    }
}
