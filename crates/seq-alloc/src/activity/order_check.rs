//! Check of the order of the numbers of an ownership, from the readings that the reader makes of its slots in any case.
//!
//! While an ownership lasts, no slot falls and the ceiling does not fall either. So of two successive readings, the
//! later one has no lower sum, no lower highest distance and no fewer touched slots, also if it was made in slices:
//! each slot is read after its reading in the pass before. Nothing in a sound process violates this; memory that was
//! overwritten does.
//!
//! The check does not find each violation: a slot that fell and was passed again between two readings is not noticed.

use seq_api::order_violations::OrderViolation;
use seq_core::Seq;
use seq_core::section::Tally;

/// State of the check of one ownership.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OrderCheck {
    last: Option<Tally>,
    /// Whether a number above the ceiling was found. It is found once for each ownership, because it stays there.
    is_above: bool,
}

impl OrderCheck {
    /// Checks a reading of all slots of an ownership with this base. `ceiling` is its ceiling, read after the slots.
    /// Returns the violations that no earlier reading had.
    pub(crate) fn check(&mut self, now: Tally, base: Seq, ceiling: Seq) -> [Option<OrderViolation>; 2] {
        let Some(last) = self.last.replace(now) else { return [None; 2] };
        let fell = is_lower(now.sum, last.sum) || now.highest < last.highest || now.touched < last.touched;
        // The distance is that of the reading before, because a thread may see a new number earlier than the raise of
        // the ceiling that allows it.
        let is_above = last.highest > 0 && base.0.saturating_add(last.highest) > ceiling.0;
        let begins = is_above && !std::mem::replace(&mut self.is_above, is_above);
        [fell.then_some(OrderViolation::Fell), begins.then_some(OrderViolation::AboveCeiling)]
    }

    /// Checks the sum of the copy that was made when the slots were frozen.
    pub(crate) fn check_final(&self, sum: u64) -> Option<OrderViolation> {
        self.last.filter(|last| is_lower(sum, last.sum)).map(|_| OrderViolation::Fell)
    }
}

/// Returns whether a sum is lower than an earlier sum. Both are modulo 2^64, and the sums of the slots of a section
/// grow by far less than 2^63 within a pass: the store bounds the rise of a ceiling to 2^38 at once.
fn is_lower(sum: u64, earlier: u64) -> bool {
    sum.wrapping_sub(earlier).cast_signed() < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Seq = Seq(10_000);
    const CEILING: Seq = Seq(20_000);

    fn tally(sum: u64, highest: u64, touched: u32) -> Tally {
        Tally { sum, highest, touched, bytes: 16_384 }
    }

    #[test]
    fn slots_that_rise_below_the_ceiling_are_no_violation() {
        let mut check = OrderCheck::default();
        for reading in [tally(0, 0, 0), tally(7, 5, 2), tally(7, 5, 2), tally(10_002, 10_000, 3)] {
            assert_eq!(check.check(reading, BASE, CEILING), [None, None], "{reading:?}");
        }
        assert_eq!(check.check_final(10_002), None);
        // The sum is modulo 2^64.
        let mut check = OrderCheck::default();
        for sum in [u64::MAX - 1, 3] {
            assert_eq!(check.check(tally(sum, 5, 2), BASE, CEILING), [None, None]);
        }
    }

    #[test]
    fn a_slot_that_fell_is_found_once_by_its_sum_or_by_the_others() {
        for fallen in [tally(11, 10, 2), tally(12, 9, 2), tally(12, 10, 1)] {
            let mut check = OrderCheck::default();
            check.check(tally(12, 10, 2), BASE, CEILING);
            assert_eq!(check.check(fallen, BASE, CEILING), [Some(OrderViolation::Fell), None], "{fallen:?}");
            assert_eq!(check.check(fallen, BASE, CEILING), [None, None], "{fallen:?}");
        }
        let mut check = OrderCheck::default();
        check.check(tally(12, 10, 2), BASE, CEILING);
        assert_eq!(check.check_final(11), Some(OrderViolation::Fell));
    }

    #[test]
    fn a_number_above_the_ceiling_is_found_at_the_next_reading_and_once() {
        let (mut check, above) = (OrderCheck::default(), tally(10_001, 10_001, 1));
        assert_eq!(check.check(above, BASE, CEILING), [None, None], "the raise may not be visible yet");
        assert_eq!(check.check(above, BASE, CEILING), [None, Some(OrderViolation::AboveCeiling)]);
        assert_eq!(check.check(above, BASE, CEILING), [None, None]);
        let mut check = OrderCheck::default();
        check.check(above, BASE, CEILING);
        assert_eq!(check.check(above, BASE, Seq(20_001)), [None, None], "it was raised");
    }
}
