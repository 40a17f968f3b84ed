//! Decides when a raise is due, and which ceiling it requests.
//!
//! A raise is requested when half a step of numbers is left below the ceiling, so that there are still numbers to
//! allocate during its round trip. Each section has at most one raise in flight. A raise names the new ceiling instead
//! of a distance, so a repeated message does not raise the ceiling further.

use core::time::Duration;

use crate::id::{Seq, Step};
use crate::limits;

/// Time between the requests of two raises up to which the step grows. A section that is raised more
/// often writes more than it needs to.
const BUSY: Duration = Duration::from_millis(500);

/// Time without a raise after which the step shrinks.
const IDLE: Duration = Duration::from_secs(10);

/// Returns whether a raise is due after `value` was allocated under `ceiling`. It is due if at most half a step of
/// numbers is left, and the ceiling is below [`Seq::MAX`].
#[inline]
#[must_use]
pub fn is_due(value: Seq, ceiling: Seq, step: Step) -> bool {
    ceiling.0.saturating_sub(value.0) <= step.0 / 2 && ceiling < Seq::MAX
}

/// Returns the ceiling that a raise requests. It is one step above `ceiling`, or `wanted` if a call waits for a higher
/// number. The result is never more than [`limits::MAX_RAISE`] above `ceiling`, and never above [`Seq::MAX`].
#[must_use]
pub fn target(ceiling: Seq, wanted: Seq, step: Step) -> Seq {
    let target = ceiling.0.saturating_add(step.0).max(wanted.0);
    Seq(target.min(ceiling.0.saturating_add(limits::MAX_RAISE))).min(Seq::MAX)
}

/// Returns the ceiling that a raise requests for lanes with a clock. It is `lead` ticks above the tick `wanted`, at
/// most [`Seq::MAX`]. The distance of such a raise is not limited, because the first raise of a section goes from the
/// section's start to the present time. Instead, the store's leader limits the ceiling by its own clock.
#[must_use]
pub fn tick_target(wanted: Seq, lead: Step) -> Seq {
    Seq(wanted.0.saturating_add(lead.0)).min(Seq::MAX)
}

/// Returns the step of a raise that is requested `since` after the last raise of the ownership, which had the step
/// `last`: twice as much if the section is busy, half as much for each ten seconds without a raise. The step is
/// never below `least`, the step of the set, and never above `most` unless `least` is.
#[must_use]
pub fn adapted_step(last: Step, since: Duration, least: Step, most: Step) -> Step {
    let halvings = since.as_secs() / IDLE.as_secs();
    let step = if since <= BUSY {
        last.0.saturating_mul(2)
    } else {
        last.0.checked_shr(u32::try_from(halvings).unwrap_or(u32::MAX)).unwrap_or(0)
    };
    Step(step.clamp(least.0, most.0.max(least.0)))
}

/// Returns the largest count of numbers that a section usually skips when an ownership begins at its ceiling. It is one
/// and a half steps, because a raise by a whole step is requested when half a step is left. After an advance or a call
/// with a large count, more numbers may be skipped.
#[must_use]
pub fn most_skipped(step: Step) -> u64 {
    step.0.saturating_add(step.0 / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raise_is_due_with_half_a_step_left() {
        let step = Step(10_000);
        assert!(!is_due(Seq(4_999), Seq(10_000), step));
        assert!(is_due(Seq(5_000), Seq(10_000), step));
        assert!(is_due(Seq(10_000), Seq(10_000), step));
    }

    #[test]
    fn a_takeover_skips_no_more_than_a_raise_left_above_the_highest_number() {
        for step in [Step(1), Step(7), Step(10_000)] {
            let (mut value, mut ceiling, mut most) = (Seq(0), Seq(0), 0);
            while value.0 < 10 * step.0 {
                if is_due(value, ceiling, step) {
                    ceiling = target(ceiling, Seq(0), step);
                }
                most = most.max(ceiling.0 - value.0);
                value.0 += 1;
            }
            assert_eq!(most, most_skipped(step));
        }
    }

    #[test]
    fn a_step_doubles_while_a_section_is_busy_and_halves_while_it_is_idle() {
        let next = |last: u64, ms: u64| adapted_step(Step(last), Duration::from_millis(ms), Step(10), Step(100)).0;
        assert_eq!([next(10, 0), next(20, 500), next(80, 3), next(100, 3)], [20, 40, 100, 100]);
        assert_eq!([next(40, 501), next(40, 9_999)], [40, 40], "neither busy nor idle");
        assert_eq!([next(100, 10_000), next(100, 29_999), next(100, 40_000), next(100, u64::MAX)], [50, 25, 10, 10]);
        let never = adapted_step(Step(10), Duration::ZERO, Step(10), Step(0));
        assert_eq!(never, Step(10), "a limit below the step of the set changes nothing");
    }

    proptest::proptest! {
        /// A section whose users take numbers at any rates: its step stays within its limits, a crash skips at most one
        /// and a half of the larger of the last two steps, and a steady rate is raised at most twice a second as soon
        /// as the step has grown.
        #[test]
        fn a_step_follows_the_rate(rates in proptest::collection::vec(1_u64..200_000, 1..6)) {
            const MS: u64 = 1_000_000;
            let (least, most) = (Step(1_000), Step(1 << 20));
            let (mut value, mut ceiling, mut step, mut larger) = (0, Seq(0), least, least);
            let (mut now, mut committed) = (Duration::ZERO, None);
            for rate in rates {
                let mut recent = 0;
                for second in 0..12 {
                    for ms in 0..1_000 {
                        now += Duration::from_nanos(MS);
                        value += rate / 1_000 + u64::from(ms < rate % 1_000);
                        if is_due(Seq(value), ceiling, step) {
                            let next = committed.map_or(step, |at| adapted_step(step, now - at, least, most));
                            (step, larger) = (next, next.max(step));
                            ceiling = target(ceiling, Seq(value), step);
                            committed = Some(now);
                            recent += u64::from(second >= 9);
                        }
                        proptest::prop_assert!(least <= step && step <= most);
                        proptest::prop_assert!(value <= ceiling.0 && ceiling.0 - value <= most_skipped(larger));
                    }
                }
                proptest::prop_assert!(recent <= 2 * 3 + 1, "{recent} raises in three seconds at {rate}/s");
            }
        }
    }

    #[test]
    fn a_step_of_one_is_raised_at_the_ceiling_only() {
        assert!(!is_due(Seq(6), Seq(7), Step(1)));
        assert!(is_due(Seq(7), Seq(7), Step(1)));
    }

    #[test]
    fn no_raise_is_due_at_the_end_of_the_numbers() {
        assert!(!is_due(Seq::MAX, Seq::MAX, Step(10)));
        assert!(is_due(Seq(Seq::MAX.0 - 1), Seq(Seq::MAX.0 - 1), Step(10)));
    }

    /// Checks the requested ceiling for a tick within the lead, for a tick far above it, and at the end of the ticks.
    #[test]
    fn the_target_of_ticks_is_a_lead_above_the_wanted_tick() {
        let lead = Step(10_000);
        assert_eq!(tick_target(Seq(5_000), lead), Seq(15_000));
        assert_eq!(tick_target(Seq(1 << 60), lead), Seq((1 << 60) + 10_000), "no distance bounds it");
        assert_eq!(tick_target(Seq(Seq::MAX.0 - 3), lead), Seq::MAX);
        assert!(tick_target(Seq(7), Step(1)) > Seq(7), "a raise that is due moves the ceiling");
    }

    #[test]
    fn the_target_covers_the_wanted_number_and_stops_at_the_end() {
        let step = Step(10_000);
        assert_eq!(target(Seq(10_000), Seq(5_000), step), Seq(20_000));
        assert_eq!(target(Seq(10_000), Seq(1_010_000), step), Seq(1_010_000));
        assert_eq!(target(Seq(10), Seq(1 << 62), step), Seq(10 + limits::MAX_RAISE), "the rest takes more raises");
        assert_eq!(target(Seq(Seq::MAX.0 - 3), Seq(0), step), Seq::MAX);
        assert_eq!(target(Seq::MAX, Seq(0), step), Seq::MAX);
    }
}
