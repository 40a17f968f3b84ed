extern crate std;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::*;
use crate::Refusal;
use crate::limits;

fn count(count: u32) -> Count {
    Count::new(count).unwrap()
}

fn given(value: u64, prev: u64) -> Take {
    Take::Given { value: Seq(value), prev: Seq(prev), ticket: None }
}

fn distance(distance: u64) -> Distance {
    Distance::new(distance, false).unwrap()
}

fn exact(value: u64) -> Option<Reading> {
    Some(Reading { value: Seq(value), exact: true })
}

/// A simple model of a section, without atomics, pages or distances.
struct Twin {
    base: u64,
    ceiling: u64,
    last: BTreeMap<u32, u64>,
    /// Slots whose last value is the target of an advance.
    advanced: BTreeSet<u32>,
    frozen: bool,
    /// Whether the section is in the raise queue, because its ticket was issued.
    queued: bool,
    /// The highest number that a call waits for.
    waits_for: u64,
    /// Numbers that were allocated.
    given: u64,
}

#[derive(Clone, Debug)]
enum Op {
    Take {
        slot: u32,
        count: u32,
    },
    Current {
        slot: u32,
    },
    /// Advances a uid to its value plus `difference`. If `difference` is negative, the target is lower than the value.
    Advance {
        slot: u32,
        difference: i64,
    },
    /// Runs the raise loop once. It requests the raise target from the store, and the store commits that ceiling plus
    /// `surplus`.
    Raise {
        surplus: u64,
    },
    /// Adopts a committed ceiling that this section did not request: the ceiling plus `difference`. If `difference` is
    /// negative, it is an old ceiling.
    Committed {
        difference: i64,
    },
    Freeze,
    /// Hands over to a new section.
    HandOver,
    /// Restarts with a new section at the ceiling.
    TakeOver,
}

const UIDS: u32 = 5_000;

/// Limit below some of the differences that are tried.
const LIMIT: AdvanceLimit = AdvanceLimit(40);

fn ops() -> impl Strategy<Value = Vec<Op>> {
    // A few slots, on three pages and at the very end, so that calls meet on the same slot.
    let slot = || prop::sample::select(vec![0, 1, 2, 2_047, 2_048, UIDS - 1]);
    let count = prop_oneof![8 => 1..4u32, 2 => 1..60u32, 1 => Just(limits::MAX_COUNT)];
    let op = prop_oneof![
        20 => (slot(), count).prop_map(|(slot, count)| Op::Take { slot, count }),
        4 => slot().prop_map(|slot| Op::Current { slot }),
        5 => (slot(), -3..60i64).prop_map(|(slot, difference)| Op::Advance { slot, difference }),
        6 => prop_oneof![Just(0), 0..30u64].prop_map(|surplus| Op::Raise { surplus }),
        1 => (-9..9i64).prop_map(|difference| Op::Committed { difference }),
        1 => Just(Op::Freeze),
        1 => Just(Op::HandOver),
        1 => Just(Op::TakeOver),
    ];
    prop::collection::vec(op, 1..120)
}

fn starts() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 1..100u64, Seq::MAX.0 - 200..=Seq::MAX.0]
}

impl Twin {
    fn new(base: u64) -> Twin {
        Twin {
            base,
            ceiling: base,
            last: BTreeMap::new(),
            advanced: BTreeSet::new(),
            frozen: false,
            queued: false,
            waits_for: 0,
            given: 0,
        }
    }

    /// Checks the tally of all pages, whole and in parts, and the count of allocated numbers that follows from it.
    fn tally(&self, section: &Section) -> TestCaseResult {
        let mut tally = Tally::default();
        (0..section.pages()).for_each(|page| tally.add(section.tally(page..page + 1)));
        prop_assert_eq!(tally, section.tally(0..usize::MAX));
        let distances = || self.last.values().map(|value| value - self.base);
        prop_assert_eq!(tally.sum, distances().fold(0, u64::wrapping_add));
        prop_assert_eq!(tally.highest, distances().max().unwrap_or(0));
        prop_assert_eq!(tally.touched as usize, self.last.len());
        prop_assert_eq!(tally.bytes, section.slot_bytes() as u64);
        prop_assert_eq!(section.numbers(tally.sum), Some(self.given));
        Ok(())
    }

    fn value(&self, slot: u32) -> u64 {
        self.last.get(&slot).copied().unwrap_or(self.base)
    }

    fn take(&mut self, slot: u32, count: u32, step: Step, took: Take) -> TestCaseResult {
        let value = self.value(slot) + u64::from(count);
        let due = |ticket: Option<RaiseTicket>, twin: &mut Twin| {
            prop_assert!(!(ticket.is_some() && twin.queued), "two tickets");
            twin.queued |= ticket.is_some();
            Ok(())
        };
        match took {
            Take::Frozen => prop_assert!(self.frozen),
            Take::Exhausted => prop_assert!(!self.frozen && value > Seq::MAX.0),
            Take::AtCeiling { needed, ticket } => {
                prop_assert!(!self.frozen && value > self.ceiling && value <= Seq::MAX.0);
                prop_assert_eq!(needed, Seq(value));
                due(ticket, self)?;
                prop_assert!(self.queued, "a call waits for a raise that is not queued");
                self.waits_for = self.waits_for.max(value);
            }
            Take::Given { value: got, prev, ticket } => {
                prop_assert!(!self.frozen && value <= self.ceiling);
                prop_assert_eq!(got, Seq(value));
                self.given += u64::from(count);
                let last = self.last.insert(slot, value).filter(|_| !self.advanced.contains(&slot));
                self.advanced.remove(&slot);
                prop_assert_eq!(prev.0, last.unwrap_or(0));
                due(ticket, self)?;
                prop_assert!(self.queued || !raise::is_due(got, Seq(self.ceiling), step), "a raise was forgotten");
            }
        }
        Ok(())
    }

    fn advance(&mut self, slot: u32, to: u64, step: Step, done: Advance) -> TestCaseResult {
        let issued = match &done {
            Advance::Frozen => {
                prop_assert!(self.frozen);
                return Ok(());
            }
            Advance::Past => {
                prop_assert!(to < self.value(slot));
                return Ok(());
            }
            Advance::TooFar { bound } => {
                prop_assert!(!self.frozen && to > bound.0);
                prop_assert_eq!(bound.0, self.ceiling.saturating_add(LIMIT.0).min(limits::MAX_ADVANCE));
                return Ok(());
            }
            Advance::AtCeiling { ticket } => {
                prop_assert!(!self.frozen && to > self.ceiling && to <= self.ceiling + LIMIT.0);
                self.waits_for = self.waits_for.max(to);
                ticket.is_some()
            }
            Advance::Done { ticket, .. } => {
                prop_assert!(!self.frozen && to >= self.value(slot) && to <= self.ceiling);
                if to > self.value(slot) {
                    self.last.insert(slot, to);
                    self.advanced.insert(slot);
                }
                ticket.is_some()
            }
        };
        prop_assert!(!(issued && self.queued), "two tickets");
        self.queued |= issued;
        let moved = self.last.contains_key(&slot);
        let due = matches!(done, Advance::AtCeiling { .. }) || moved && raise::is_due(Seq(to), Seq(self.ceiling), step);
        prop_assert!(self.queued || !due, "a raise was forgotten");
        Ok(())
    }

    fn current(&self, slot: u32, reading: Option<Reading>) -> TestCaseResult {
        let exact = self.base == 0 || self.last.contains_key(&slot);
        let expected = Reading { value: Seq(self.value(slot)), exact };
        prop_assert_eq!(reading, (!self.frozen).then_some(expected));
        Ok(())
    }

    fn raise_target(&mut self, target: Option<Seq>, step: Step) -> TestCaseResult {
        match target {
            Some(target) => {
                prop_assert!(self.queued);
                prop_assert!(target.0 > self.ceiling && target.0 >= self.waits_for);
                prop_assert!(target.0 <= (self.ceiling + step.0).max(self.waits_for));
            }
            None => {
                prop_assert!(self.waits_for <= self.ceiling, "a waiting call was dropped");
                self.queued = false;
            }
        }
        Ok(())
    }

    fn raised(&mut self, committed: Seq, again: bool) -> TestCaseResult {
        self.ceiling = self.ceiling.max(committed.0);
        prop_assert!(!again || self.queued);
        prop_assert!(again || self.waits_for <= self.ceiling, "a waiting call was dropped");
        self.queued = again;
        Ok(())
    }

    fn copy(&self) -> SectionCopy {
        let distance = |(slot, value): (&u32, &u64)| {
            (SlotIndex(*slot), Distance::new(value - self.base, self.advanced.contains(slot)).unwrap())
        };
        SectionCopy { base: Seq(self.base), distances: self.last.iter().map(distance).collect() }
    }
}

proptest! {
    #[test]
    fn a_section_does_what_its_twin_does(start in starts(), step in 1..40u64, ops in ops()) {
        let step = Step(step);
        let mut section = Section::takeover(UIDS, Seq(start), step);
        let mut twin = Twin::new(start);
        for op in ops {
            match op {
                Op::Take { slot, count: n } => {
                    twin.take(slot, n, step, section.take(SlotIndex(slot), count(n)))?;
                }
                Op::Current { slot } => twin.current(slot, section.current(SlotIndex(slot)))?,
                Op::Advance { slot, difference } => {
                    let to = twin.value(slot).saturating_add_signed(difference);
                    if let Ok(target) = Target::new(to) {
                        twin.advance(slot, to, step, section.advance(SlotIndex(slot), target, LIMIT))?;
                    }
                }
                Op::Raise { surplus } => {
                    let target = section.raise_target();
                    twin.raise_target(target, step)?;
                    if let Some(target) = target {
                        let committed = Seq(target.0 + surplus).min(Seq::MAX);
                        twin.raised(committed, section.raised(committed).is_some())?;
                    }
                }
                Op::Committed { difference } => {
                    let committed = Seq(twin.ceiling.saturating_add_signed(difference)).min(Seq::MAX);
                    twin.raised(committed, section.raised(committed).is_some())?;
                }
                Op::Freeze => {
                    prop_assert_eq!(section.freeze(), twin.copy());
                    twin.frozen = true;
                }
                Op::HandOver => {
                    let copy = section.freeze();
                    prop_assert_eq!(&copy, &twin.copy());
                    section = Section::handed_over(UIDS, &copy, Seq(twin.ceiling), step).unwrap();
                    twin = Twin { frozen: false, queued: false, waits_for: 0, given: 0, ..twin };
                }
                Op::TakeOver => {
                    section = Section::takeover(UIDS, Seq(twin.ceiling), step);
                    twin = Twin::new(twin.ceiling);
                }
            }
            prop_assert_eq!(section.ceiling(), Seq(twin.ceiling));
            twin.tally(&section)?;
        }
        for slot in 0..UIDS {
            twin.current(slot, section.current(SlotIndex(slot)))?;
        }
    }
}

#[test]
fn a_call_at_the_ceiling_moves_nothing() {
    let section = Section::takeover(10, Seq(0), Step(5));
    assert_eq!(section.raised(Seq(5)), None);
    assert_eq!(section.take(SlotIndex(3), count(2)), given(2, 0));
    for _ in 0..3 {
        assert!(matches!(section.take(SlotIndex(3), count(4)), Take::AtCeiling { needed: Seq(6), .. }));
        assert_eq!(section.current(SlotIndex(3)), exact(2));
    }
    assert!(matches!(section.take(SlotIndex(3), count(3)), Take::Given { value: Seq(5), prev: Seq(2), .. }));
}

#[test]
fn only_the_first_call_that_needs_a_raise_enqueues_it() {
    let section = Section::takeover(10, Seq(0), Step(10));
    let first = section.take(SlotIndex(0), count(7));
    assert_eq!(first, Take::AtCeiling { needed: Seq(7), ticket: Some(RaiseTicket(())) });
    let second = section.take(SlotIndex(1), count(30));
    assert_eq!(second, Take::AtCeiling { needed: Seq(30), ticket: None });
    assert_eq!(section.raise_target(), Some(Seq(30)), "the raise covers all who wait");
    assert!(section.raised(Seq(10)).is_some(), "thirty are wanted still");
    assert_eq!(section.raise_target(), Some(Seq(30)));
    assert_eq!(section.raised(Seq(30)), None);
    assert_eq!(section.raise_target(), None);
}

#[test]
fn a_changed_step_counts_from_the_next_raise_on() {
    let section = Section::takeover(1, Seq(0), Step(10));
    let Take::AtCeiling { .. } = section.take(SlotIndex(0), count(1)) else { panic!("the ceiling is 0") };
    section.set_step(Step(1_000));
    assert_eq!(section.raise_target(), Some(raise::target(Seq(0), Seq(1), Step(1_000))));
    let _ = section.raised(Seq(1_000));
    // Half of the new step is left when the next raise is due.
    for value in 1..=499 {
        assert!(matches!(section.take(SlotIndex(0), count(1)), Take::Given { ticket: None, .. }), "{value}");
    }
    assert!(matches!(section.take(SlotIndex(0), count(1)), Take::Given { ticket: Some(_), .. }));
}

#[test]
fn the_last_number_is_given_and_then_none() {
    let section = Section::takeover(10, Seq(Seq::MAX.0 - 3), Step(10_000));
    assert!(matches!(section.take(SlotIndex(0), count(3)), Take::AtCeiling { needed: Seq::MAX, .. }));
    assert_eq!(section.raise_target(), Some(Seq::MAX));
    assert_eq!(section.raised(Seq::MAX), None);
    assert_eq!(section.take(SlotIndex(0), count(4)), Take::Exhausted);
    assert_eq!(section.take(SlotIndex(0), count(3)), given(Seq::MAX.0, 0));
    assert_eq!(section.take(SlotIndex(0), Count::ONE), Take::Exhausted);
    assert_eq!(section.take(SlotIndex(0), count(limits::MAX_COUNT)), Take::Exhausted);
    assert_eq!(section.current(SlotIndex(0)), exact(Seq::MAX.0));
    assert_eq!(section.raise_target(), None, "there is nothing to raise to");
}

#[test]
fn an_ownership_ends_where_a_slot_holds_no_more_and_the_next_one_goes_on() {
    let base = Seq(100);
    let end = base.0 + Distance::MAX;
    let copy = SectionCopy { base, distances: vec![(SlotIndex(0), distance(Distance::MAX - 3))] };
    let section = Section::handed_over(10, &copy, Seq(end - 1), Step(10)).unwrap();
    assert!(matches!(section.take(SlotIndex(0), count(2)), Take::Given { ticket: Some(RaiseTicket(())), .. }));
    assert_eq!(section.raise_target(), Some(Seq(end + 9)));
    assert_eq!(section.raised(Seq(end + 9)), None);
    assert_eq!(section.ceiling(), Seq(end), "what is above cannot be allocated here");
    assert_eq!(section.take(SlotIndex(0), count(2)), Take::Exhausted);
    assert_eq!(section.take(SlotIndex(0), count(1)), given(end, end - 1));
    assert_eq!(section.take(SlotIndex(0), count(1)), Take::Exhausted);
    assert_eq!(section.raise_target(), None);
    let first = Section::handed_over(10, &SectionCopy { base: Seq(0), ..copy }, Seq(end), Step(10)).unwrap();
    let far = first.advance(SlotIndex(0), Target::new(limits::MAX_ADVANCE).unwrap(), AdvanceLimit(u64::MAX));
    assert!(matches!(far, Advance::Done { .. }));
    assert_eq!(first.take(SlotIndex(0), count(1)), Take::Exhausted);
    let next = Section::takeover(10, Seq(end + 9), Step(10));
    assert_eq!(next.raised(Seq(end + 19)), None);
    assert!(matches!(next.take(SlotIndex(0), Count::ONE), Take::Given { value, .. } if value.0 == end + 10));
}

#[test]
fn a_copy_carries_what_was_advanced() {
    let section = Section::takeover(10, Seq(0), Step(10));
    assert_eq!(section.raised(Seq(100)), None);
    for slot in [2, 7] {
        section.advance(SlotIndex(slot), Target::new(50).unwrap(), LIMIT);
    }
    assert_eq!(section.take(SlotIndex(7), Count::ONE), Take::Given { value: Seq(51), prev: Seq(0), ticket: None });
    let copy = section.freeze();
    assert_eq!(copy.distances, [(SlotIndex(2), Distance::new(50, true).unwrap()), (SlotIndex(7), distance(51))]);
    assert_eq!([2, 7].map(|slot| section.take(SlotIndex(slot), Count::ONE)), [Take::Frozen, Take::Frozen]);
    let next = Section::handed_over(10, &copy, Seq(100), Step(10)).unwrap();
    assert_eq!([2, 7].map(|slot| next.take(SlotIndex(slot), Count::ONE)), [given(51, 0), given(52, 51)]);
}

#[test]
fn a_uid_is_raised_and_never_lowered() {
    let section = Section::takeover(10, Seq(500), Step(10));
    assert_eq!(section.raised(Seq(2_000)), None);
    let advance = |to| section.advance(SlotIndex(0), Target::new(to).unwrap(), LIMIT);
    let done = |skipped| Advance::Done { skipped, ticket: None };
    assert_eq!(advance(499), Advance::Past, "it may have been given out before the takeover");
    assert_eq!(advance(500), done(0));
    assert_eq!(section.current(SlotIndex(0)), Some(Reading { value: Seq(500), exact: false }), "nothing moved");
    for skipped in [500, 0] {
        assert_eq!(advance(1_000), done(skipped));
        assert_eq!(section.current(SlotIndex(0)), exact(1_000));
    }
    assert_eq!(advance(999), Advance::Past);
    assert_eq!(section.take(SlotIndex(0), Count::ONE), given(1_001, 0), "no call was given 1,000");
    assert_eq!(advance(1_001), done(0));
    assert_eq!(
        section.take(SlotIndex(0), Count::ONE),
        given(1_002, 1_001),
        "an advance to where it stands changes nothing"
    );
    assert_eq!(section.take(SlotIndex(1), Count::ONE), given(501, 0), "the neighbours stay");
    assert_eq!(advance(2_001), Advance::AtCeiling { ticket: Some(RaiseTicket(())) });
    assert_eq!(section.raise_target(), Some(Seq(2_010)));
    let _ = section.freeze();
    assert_eq!([advance(499), advance(1_999)], [Advance::Past, Advance::Frozen]);
    assert!(Target::new(limits::MAX_ADVANCE).is_ok());
    let (to, bound) = (limits::MAX_ADVANCE + 1, Seq(limits::MAX_ADVANCE));
    assert_eq!(Target::new(to), Err(Refusal::AdvanceTooFar { to, bound }));
}

#[test]
fn a_freeze_allocates_no_memory_for_pages_without_a_touched_slot() {
    let section = Section::takeover(100_000, Seq(0), Step(10));
    assert_eq!(section.raised(Seq(10)), None);
    let (touched, neighbour, untouched) = (SlotIndex(40_000), SlotIndex(40_001), SlotIndex(99_999));
    assert!(matches!(section.take(touched, Count::ONE), Take::Given { value: Seq(1), .. }));
    let bytes = section.slot_bytes();
    let copy = section.freeze();
    assert_eq!(copy.distances, [(touched, Distance::new(1, false).unwrap())]);
    assert_eq!([touched, neighbour, untouched].map(|slot| section.current(slot)), [None; 3]);
    assert_eq!(section.slot_bytes(), bytes);
    for slot in [touched, neighbour, untouched] {
        assert_eq!(section.take(slot, Count::ONE), Take::Frozen);
    }
    assert_eq!(section.freeze(), copy, "a second copy differs");
}

#[test]
fn an_advance_beyond_the_limit_is_refused_and_requests_no_raise() {
    let section = Section::takeover(10, Seq(0), Step(10));
    assert_eq!(section.raised(Seq(10)), None);
    let advance = |to, limit| section.advance(SlotIndex(0), Target::new(to).unwrap(), AdvanceLimit(limit));
    let default = limits::DEFAULT_MAX_ADVANCE;
    for to in [default + 11, 1 << 53, limits::MAX_ADVANCE] {
        assert_eq!(advance(to, default), Advance::TooFar { bound: Seq(default + 10) });
    }
    assert_eq!(section.raise_target(), None, "what was refused does not move the neighbours' ceiling");
    assert_eq!(advance(default + 10, default), Advance::AtCeiling { ticket: Some(RaiseTicket(())) });
    assert_eq!(section.raise_target(), Some(Seq(default + 10)));
    // Any configured limit leaves half of the numbers.
    assert_eq!(advance(limits::MAX_ADVANCE, u64::MAX), Advance::AtCeiling { ticket: None });
    let high = Section::takeover(10, Seq(limits::MAX_ADVANCE + 5), Step(10));
    let past = high.advance(SlotIndex(0), Target::new(limits::MAX_ADVANCE).unwrap(), AdvanceLimit(u64::MAX));
    assert_eq!(past, Advance::Past);
}

#[test]
fn a_far_advance_takes_raises_of_a_bounded_length_and_only_while_its_caller_retries() {
    let section = Section::takeover(10, Seq(0), Step(10));
    let to = Target::new(3 * limits::MAX_RAISE + 7).unwrap();
    let advance = || section.advance(SlotIndex(0), to, AdvanceLimit(u64::MAX));
    for raise in 1..=4 {
        assert_eq!(advance(), Advance::AtCeiling { ticket: Some(RaiseTicket(())) });
        let target = section.raise_target().unwrap();
        assert_eq!(target.0, (raise * limits::MAX_RAISE).min(3 * limits::MAX_RAISE + 10), "raise {raise}");
        assert_eq!(section.raised(target), None, "the next raise is requested by the next try alone");
        assert_eq!(section.raise_target(), None);
    }
    assert_eq!(advance(), Advance::Done { skipped: to.seq().0, ticket: Some(RaiseTicket(())) });
}

#[test]
fn a_takeover_reads_as_a_bound_until_the_first_number() {
    let section = Section::takeover(10, Seq(500), Step(10));
    assert_eq!(section.current(SlotIndex(0)), Some(Reading { value: Seq(500), exact: false }));
    assert_eq!(section.raised(Seq(600)), None);
    assert_eq!(section.take(SlotIndex(0), Count::ONE), given(501, 0));
    assert_eq!(section.current(SlotIndex(0)), exact(501));
}

#[test]
fn memory_is_taken_by_touched_pages_only() {
    let section = Section::takeover(100_000, Seq(0), Step(10));
    assert_eq!(section.raised(Seq(10)), None);
    assert_eq!(section.slot_bytes(), 0);
    for slot in 0..100_000 {
        assert_eq!(section.current(SlotIndex(slot)), exact(0));
    }
    assert_eq!(section.slot_bytes(), 0, "a read touches nothing");
    for slot in [0, 1, 2_047] {
        section.take(SlotIndex(slot), Count::ONE);
    }
    assert_eq!(section.slot_bytes(), 8 * 2_048);
}

#[test]
fn a_late_response_lowers_no_ceiling() {
    let section = Section::takeover(1, Seq(10), Step(1));
    assert_eq!(section.raised(Seq(30)), None);
    assert_eq!(section.raised(Seq(20)), None);
    assert_eq!(section.ceiling(), Seq(30));
}

#[test]
#[should_panic(expected = "ceiling 9223372036854775808")]
fn a_ceiling_past_the_end_stops_the_process() {
    let _ = Section::takeover(1, Seq(10), Step(1)).raised(Seq(1 << 63));
}

#[test]
fn a_copy_that_does_not_fit_is_refused() {
    let start = |base: u64, distances: &[(u32, u64)]| {
        let distances = distances
            .iter()
            .map(|(slot, distance)| (SlotIndex(*slot), Distance::new(*distance, false).unwrap()))
            .collect();
        Section::handed_over(3, &SectionCopy { base: Seq(base), distances }, Seq(10), Step(1)).map(drop)
    };
    let above = |highest| Err(CopyMisfit::AboveCeiling { highest: Seq(highest), ceiling: Seq(10) });
    assert_eq!(start(4, &[(0, 6), (2, 1)]), Ok(()));
    assert_eq!(start(4, &[(0, 1), (2, 7)]), above(11));
    assert_eq!(start(11, &[]), above(11));
    let slot = |slot| Err(CopyMisfit::Slot { slot: SlotIndex(slot), uids: 3 });
    assert_eq!(
        [start(0, &[(3, 1)]), start(0, &[(2, 1), (1, 1)]), start(0, &[(1, 1), (1, 1)])],
        [slot(3), slot(1), slot(1)]
    );
    let distance = |base, distance| Err(CopyMisfit::Distance { slot: SlotIndex(0), distance, base: Seq(base) });
    let half = 1 << 62;
    assert_eq!(start(half + 1, &[(0, half - 1)]), distance(half + 1, half - 1));
    assert_eq!([0, half, u64::MAX].map(|distance| Distance::new(distance, true)), [None; 3]);
    let past = Seq(u64::MAX);
    assert_eq!(start(past.0, &[]), Err(CopyMisfit::AboveCeiling { highest: past, ceiling: Seq::MAX }));
}

#[test]
#[should_panic(expected = "slot 10 of 10")]
fn a_slot_of_another_section_stops_the_process() {
    let _ = Section::takeover(10, Seq(0), Step(1)).take(SlotIndex(10), Count::ONE);
}

/// The allocations of a thread: slot, value, count, prev.
type Taken = (u32, u64, u32, u64);

/// Takes numbers until the section freezes, waiting at the ceiling for the raise loop.
fn taker(section: &Section, due: &AtomicBool, seed: u32) -> Vec<Taken> {
    let mut taken = Vec::new();
    let mut random = seed;
    loop {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (slot, n) = ((random >> 16) % 4 * 2_048, (random >> 24) % 3 + 1);
        match section.take(SlotIndex(slot), count(n)) {
            Take::Given { value, prev, ticket } => {
                assert!(value <= section.ceiling());
                taken.push((slot, value.0, n, prev.0));
                assert!(!(ticket.is_some() && due.swap(true, Ordering::AcqRel)), "two tickets");
            }
            Take::AtCeiling { ticket, .. } => {
                assert!(!(ticket.is_some() && due.swap(true, Ordering::AcqRel)), "two tickets");
                std::thread::yield_now();
            }
            Take::Frozen => return taken,
            Take::Exhausted => unreachable!("far from the end"),
        }
    }
}

/// Raises the ceiling whenever the section is enqueued. Freezes the section while other threads take numbers, or after
/// one of them has failed.
fn raise_loop(section: &Section, due: &AtomicBool, raises: u32, failed: impl Fn() -> bool) -> SectionCopy {
    let mut made = 0;
    while made < raises && !failed() {
        if !due.load(Ordering::Acquire) {
            std::thread::yield_now();
            continue;
        }
        // The section is dequeued before its ceiling is raised, because the next call may enqueue it again at once.
        due.store(false, Ordering::Release);
        let mut target = section.raise_target();
        while let Some(committed) = target {
            made += 1;
            target = section.raised(committed).and_then(|_| section.raise_target());
        }
    }
    section.freeze()
}

#[test]
fn many_threads_get_every_number_once_and_the_copy_is_exact() {
    for round in 0..20 {
        let section = Section::takeover(8_192, Seq(1_000), Step(64));
        let due = AtomicBool::new(false);
        let (copy, taken) = std::thread::scope(|scope| {
            let takers: Vec<_> = (0..4)
                .map(|thread| (&section, &due, round * 4 + thread))
                .map(|(section, due, seed)| scope.spawn(move || taker(section, due, seed)))
                .collect();
            let copy = raise_loop(&section, &due, 50, || takers.iter().any(|taker| taker.is_finished()));
            (copy, takers.into_iter().map(|taker| taker.join().unwrap()).collect::<Vec<_>>())
        });

        let mut last: BTreeMap<(usize, u32), u64> = BTreeMap::new();
        for (thread, &(slot, value, _, _)) in
            taken.iter().enumerate().flat_map(|(thread, all)| all.iter().map(move |one| (thread, one)))
        {
            assert!(last.insert((thread, slot), value) < Some(value), "a thread saw a number fall");
        }

        let mut all: Vec<Taken> = taken.into_iter().flatten().collect();
        all.sort_unstable();
        let mut values: BTreeMap<u32, u64> = BTreeMap::new();
        for (slot, value, n, prev) in all {
            let before = values.insert(slot, value);
            assert_eq!(prev, before.unwrap_or(0), "slot {slot}: the chain is broken before {value}");
            assert_eq!(
                value - u64::from(n),
                before.unwrap_or(1_000),
                "slot {slot}: a gap or a duplicate before {value}"
            );
            assert!(value <= section.ceiling().0);
        }
        let exact: Vec<_> = values.iter().map(|(slot, value)| (SlotIndex(*slot), distance(value - 1_000))).collect();
        assert_eq!(copy.distances, exact);
    }
}
