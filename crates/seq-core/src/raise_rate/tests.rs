use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::limits::{MAX_RAISE, RAISE_BURST, RAISE_RATE};

const SECTION: SectionId = SectionId(7);

/// Raises of a full bucket, each of the largest distance.
const BURST_RAISES: u64 = RAISE_BURST / MAX_RAISE;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Admits raises of one section by `distance` until one is refused; returns their number and the refusal.
fn exhaust(rate: &mut RaiseRate, now: Duration, distance: u64) -> (u64, TooFast) {
    let mut admitted = 0;
    loop {
        match rate.admit(now, &[(SECTION, distance)]) {
            Ok(()) => admitted += 1,
            Err(refusal) => return (admitted, refusal),
        }
    }
}

#[test]
fn a_full_bucket_admits_the_burst_and_then_what_is_refilled() {
    let (mut rate, start) = (RaiseRate::new(), secs(1_000));
    let whole = TooFast { section: SECTION, after: secs(MAX_RAISE / RAISE_RATE) };
    assert_eq!(exhaust(&mut rate, start, MAX_RAISE), (BURST_RAISES, whole));
    assert_eq!(rate.admit(start, &[(SECTION, 1)]).unwrap_err().after, Duration::from_nanos(1));
    // Half of a raise has been refilled; the raise is admitted when the rest is, and not before.
    let later = start + whole.after / 2;
    let half = TooFast { section: SECTION, after: whole.after / 2 };
    assert_eq!(rate.admit(later, &[(SECTION, MAX_RAISE)]), Err(half));
    let nearly = later + half.after - Duration::from_nanos(1);
    assert!(rate.admit(nearly, &[(SECTION, MAX_RAISE)]).is_err());
    assert_eq!(rate.admit(later + half.after, &[(SECTION, MAX_RAISE)]), Ok(()));
    assert_eq!(exhaust(&mut rate, start + 3 * FILL_TIME, MAX_RAISE).0, BURST_RAISES, "no more than full");
}

#[test]
fn sections_have_buckets_of_their_own() {
    let mut rate = RaiseRate::new();
    exhaust(&mut rate, secs(1), MAX_RAISE);
    assert_eq!(rate.admit(secs(1), &[(SectionId(8), MAX_RAISE)]), Ok(()));
}

#[test]
fn a_refused_request_takes_nothing() {
    let mut rate = RaiseRate::new();
    exhaust(&mut rate, secs(1), MAX_RAISE);
    let others = [SectionId(1), SectionId(2)];
    let request = [(others[0], MAX_RAISE), (others[1], 5), (others[0], MAX_RAISE), (SECTION, 1), (SectionId(9), 1)];
    for _ in 0..2 * BURST_RAISES {
        assert_eq!(rate.admit(secs(1), &request).unwrap_err().section, SECTION);
    }
    assert_eq!(rate.admit(secs(1), &[(others[0], MAX_RAISE); BURST_RAISES as usize]), Ok(()));
}

#[test]
fn raises_that_move_nothing_are_free_and_none_counts_for_more_than_it_moves() {
    let mut rate = RaiseRate::new();
    assert_eq!(exhaust(&mut rate, secs(1), u64::MAX).0, BURST_RAISES);
    assert_eq!(rate.admit(secs(1), &[(SECTION, 0)]), Ok(()));
    assert_eq!(rate.admit(secs(1), &[(SectionId(1), 0)]), Ok(()));
}

/// A simple twin: every admitted raise since the start, added up anew for each question.
#[derive(Default)]
struct Twin(Vec<(Duration, SectionId, u64)>);

impl Twin {
    /// Returns the time that the bucket of a section takes to be full, in nanoseconds.
    fn missing(&self, now: Duration, section: SectionId) -> u128 {
        let (mut missing, mut at) = (0_u128, Duration::ZERO);
        for (then, _, distance) in self.0.iter().filter(|(_, one, _)| *one == section) {
            missing = missing.saturating_sub((*then - at).as_nanos()) + Twin::nanos(*distance);
            at = *then;
        }
        missing.saturating_sub((now - at).as_nanos())
    }

    fn nanos(distance: u64) -> u128 {
        (u128::from(distance) * 1_000_000_000).div_ceil(u128::from(RAISE_RATE))
    }

    fn admit(&mut self, now: Duration, raises: &[(SectionId, u64)]) -> Result<(), (SectionId, u128)> {
        let before = self.0.len();
        for &(section, distance) in raises {
            let over = (self.missing(now, section) + Twin::nanos(distance)).saturating_sub(FILL_TIME.as_nanos());
            if over > 0 && distance > 0 {
                self.0.truncate(before);
                return Err((section, over));
            }
            self.0.push((now, section, distance));
        }
        Ok(())
    }

    /// Returns the most numbers of a section that were admitted beyond the refill, within any interval of time.
    fn most_at_once(&self, section: SectionId) -> u128 {
        let raises: Vec<_> = self.0.iter().filter(|(_, one, _)| *one == section).collect();
        let mut most = 0;
        for (first, (start, ..)) in raises.iter().enumerate() {
            let mut sum = 0_u128;
            for (end, _, distance) in &raises[first..] {
                sum += u128::from(*distance);
                let refilled = (*end - *start).as_nanos() * u128::from(RAISE_RATE) / 1_000_000_000;
                most = most.max(sum.saturating_sub(refilled));
            }
        }
        most
    }
}

/// Generates pauses between requests, mostly too short for a bucket to be full again.
fn pauses() -> impl Strategy<Value = Duration> {
    prop_oneof![
        3 => Just(Duration::ZERO),
        3 => (0..2_000_000_000_u64).prop_map(Duration::from_nanos),
        3 => (0..40_u64).prop_map(Duration::from_secs),
        1 => (0..600_u64).prop_map(Duration::from_secs),
    ]
}

/// Generates raises of a request, which may name a section twice.
fn requests() -> impl Strategy<Value = Vec<(SectionId, u64)>> {
    let distance = prop_oneof![Just(0), 1..20_000_u64, 1..=MAX_RAISE, Just(MAX_RAISE)];
    proptest::collection::vec(((0..3_u32).prop_map(SectionId), distance), 1..6)
}

proptest! {
    #[test]
    fn it_admits_as_the_dumb_twin_and_never_more_than_the_bound(
        requests in proptest::collection::vec((pauses(), requests()), 1..120),
    ) {
        let (mut rate, mut twin, mut now) = (RaiseRate::new(), Twin::default(), Duration::ZERO);
        for (pause, raises) in requests {
            now += pause;
            let expected = twin.admit(now, &raises);
            let admitted = rate.admit(now, &raises);
            prop_assert_eq!(admitted.map_err(|too_fast| (too_fast.section, too_fast.after.as_nanos())), expected);
            if let Err(TooFast { section, after }) = admitted {
                // If the request raises the section once, exactly the refused raise is admitted then.
                prop_assert!(after > Duration::ZERO);
                let once: Vec<_> = raises.iter().filter(|(one, _)| *one == section).copied().collect();
                if let [raise] = once[..] {
                    prop_assert!(after <= LONGEST_WAIT);
                    let early = now + after - Duration::from_nanos(1);
                    prop_assert!(rate.clone().admit(early, &[raise]).is_err());
                    prop_assert_eq!(rate.clone().admit(now + after, &[raise]), Ok(()));
                }
            }
            for section in (0..3).map(SectionId) {
                let full_at = rate.full_at.get(section.0 as usize).copied().unwrap_or(0);
                prop_assert_eq!(u128::from(full_at.saturating_sub(nanos(now))), twin.missing(now, section));
            }
        }
        for section in (0..3).map(SectionId) {
            prop_assert!(twin.most_at_once(section) <= u128::from(RAISE_BURST));
        }
    }
}
