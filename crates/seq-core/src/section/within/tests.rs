use alloc::vec;

use super::*;
use crate::id::{AdvanceLimit, Step};
use crate::request::Target;
use crate::section::{Distance, RaiseTicket, SectionCopy};

mod twin;

const LANE: SlotIndex = SlotIndex(0);

/// Creates a section of ticks with a lead of 100, whose lanes continue after `base`.
fn ticks(base: u64, ceiling: u64) -> Section {
    let section = Section::takeover(2, Seq(base), Step(100)).in_ticks(Step(100));
    assert_eq!(section.raised(Seq(ceiling)), None);
    section
}

fn take(section: &Section, count: u32, window: Window) -> Result<Take, Ahead> {
    section.take_within(LANE, Count::new(count).unwrap(), window)
}

fn from(floor: u64) -> Window {
    Window { floor: Seq(floor), ..Window::ALL }
}

fn given(value: u64, prev: u64) -> Result<Take, Ahead> {
    Ok(Take::Given { value: Seq(value), prev: Seq(prev), ticket: None })
}

fn at_ceiling(needed: u64, ticket: Option<RaiseTicket>) -> Result<Take, Ahead> {
    Ok(Take::AtCeiling { needed: Seq(needed), ticket })
}

#[test]
fn the_first_number_is_the_next_one_or_the_floor() {
    let section = ticks(100, 10_000);
    assert_eq!(take(&section, 1, from(50)), given(101, 0));
    assert_eq!(take(&section, 3, from(200)), given(202, 101));
    assert_eq!(take(&section, 1, from(150)), given(203, 202), "the clock went back");
    assert_eq!(take(&section, 2, from(204)), given(205, 203));
    assert_eq!(take(&section, 1, from(207)), given(207, 205));
    assert_eq!(section.take_within(SlotIndex(1), Count::ONE, Window::ALL), given(101, 0), "the neighbour stays");
}

/// Units of 16 ticks.
#[test]
fn a_sequence_continues_in_the_next_unit() {
    let section = ticks(0x104, 0x10_000);
    let take = |count, floor| take(&section, count, Window { spread: 0xf, ..from(floor) });
    assert_eq!(take(1, 0x100), given(0x105, 0));
    assert_eq!(take(1, 0x200), given(0x206, 0x105), "the next unit");
    assert_eq!(take(8, 0x200), given(0x20e, 0x206), "the same unit");
    assert_eq!(take(4, 0x200), given(0x212, 0x20e), "carried into the unit after it");
    assert_eq!(take(13, 0x210), given(0x21f, 0x212), "a full unit");
    assert_eq!(take(1, 0x220), given(0x220, 0x21f), "the unit that follows is full, too");
    assert_eq!(take(1, 0x100), given(0x221, 0x220), "the clock went back");
    assert_eq!(take(1, 0x900), given(0x902, 0x221));
}

#[test]
fn a_first_number_above_the_limit_takes_nothing() {
    let section = ticks(100, 1_000);
    let until = |limit| Window { limit: Seq(limit), ..Window::ALL };
    assert_eq!(take(&section, 1, until(100)), Err(Ahead { first: Seq(101) }));
    assert_eq!(take(&section, 5, until(101)), given(105, 0), "the first number is within");
    assert_eq!(take(&section, 1, Window { floor: Seq(301), ..until(300) }), Err(Ahead { first: Seq(301) }));
    assert_eq!(take(&section, 1, Window { floor: Seq(300), ..until(300) }), given(300, 105));
    // A call whose numbers are ahead of the clock waits for the clock, so it requests no raise.
    assert_eq!(take(&section, 1, Window { floor: Seq(2_000), ..until(1_999) }), Err(Ahead { first: Seq(2_000) }));
    assert_eq!(section.raise_target(), None);
    let highest = Window { floor: Seq(u64::MAX), limit: Seq::MAX, spread: u64::MAX };
    assert_eq!(take(&section, 1, highest), Err(Ahead { first: Seq(u64::MAX) }), "no sum wraps around");
    assert_eq!(take(&section, 2, Window { limit: Seq(u64::MAX), ..highest }), Ok(Take::Exhausted));
}

#[test]
fn a_raise_leads_the_tick_that_is_needed() {
    let section = ticks(100, 100);
    let now = 1 << 50;
    assert_eq!(take(&section, 2, from(now)), at_ceiling(now + 1, Some(RaiseTicket(()))));
    assert_eq!(take(&section, 1, from(now)), at_ceiling(now, None));
    assert_eq!(section.raise_target(), Some(Seq(now + 101)), "one raise goes to the present");
    assert_eq!(section.raised(Seq(now + 101)), None);
    assert_eq!(take(&section, 50, from(now)), given(now + 49, 0));
    let half = take(&section, 1, from(now + 51));
    assert_eq!(
        half,
        Ok(Take::Given { value: Seq(now + 51), prev: Seq(now + 49), ticket: Some(RaiseTicket(())) }),
        "half of the lead is left"
    );
    assert_eq!(section.raise_target(), Some(Seq(now + 151)));
}

#[test]
fn a_raise_that_was_cut_short_is_requested_by_the_next_call() {
    let section = ticks(100, 100);
    for (committed, lead) in [(100, Step(10_000)), (399, Step(7))] {
        assert_eq!(take(&section, 1, from(400)), at_ceiling(400, Some(RaiseTicket(()))));
        assert_eq!(take(&section, 1, from(700)), at_ceiling(700, None), "the ticket is queued");
        assert_eq!(section.raise_target(), Some(Seq(800)));
        assert_eq!(section.raised(Seq(committed)), None, "the next raise is requested by a call alone");
        assert_eq!(section.raise_target(), None);
        section.set_step(lead);
    }
    assert_eq!(take(&section, 1, from(300)), given(300, 0), "the part that was committed serves");
    assert_eq!(take(&section, 1, from(400)), at_ceiling(400, Some(RaiseTicket(()))));
    assert_eq!(section.raise_target(), Some(Seq(500)), "the lead of ticks stays");
    assert!(section.is_in_ticks() && !Section::takeover(1, Seq(0), Step(1)).is_in_ticks());
}

/// A request for more numbers than are left takes none of them. The numbers that are left can still be allocated.
#[test]
fn numbers_end_where_their_series_ends() {
    let section = Section::takeover(1, Seq(95), Step(10)).up_to(Seq(100));
    let plain = |count| section.take(SlotIndex(0), Count::new(count).unwrap());
    assert_eq!(plain(6), Take::Exhausted);
    let Take::AtCeiling { needed: Seq(100), ticket: Some(_) } = plain(5) else { panic!() };
    assert_eq!(section.raise_target(), Some(Seq(105)));
    assert_eq!(section.raised(Seq(105)), None);
    assert_eq!(section.ceiling(), Seq(100));
    assert_eq!(take(&section, 6, from(0)), Ok(Take::Exhausted));
    assert_eq!(take(&section, 1, from(101)), Ok(Take::Exhausted));
    assert_eq!(plain(5), Take::Given { value: Seq(100), prev: Seq(0), ticket: None });
    assert_eq!((plain(1), section.raise_target()), (Take::Exhausted, None));
    let past = Section::takeover(1, Seq(105), Step(10)).up_to(Seq(100));
    assert_eq!(past.take(SlotIndex(0), Count::ONE), Take::Exhausted);
}

#[test]
fn a_frozen_lane_gives_nothing_and_the_next_owner_continues() {
    let section = ticks(100, 1_000);
    assert_eq!(take(&section, 3, from(200)), given(202, 0));
    let copy = section.freeze();
    let distances = vec![(LANE, Distance::new(102, false).unwrap())];
    assert_eq!(copy, SectionCopy { base: Seq(100), distances });
    for window in [Window::ALL, from(5_000), Window { limit: Seq(0), ..Window::ALL }] {
        assert_eq!(take(&section, 1, window), Ok(Take::Frozen));
    }
    let next = Section::handed_over(2, &copy, Seq(1_000), Step(100)).unwrap().in_ticks(Step(100));
    assert_eq!(take(&next, 1, from(150)), given(203, 202));
    let taken_over = ticks(1_000, 2_000);
    assert_eq!(take(&taken_over, 1, from(300)), given(1_001, 0));
}

#[test]
fn the_last_number_is_given_and_then_none() {
    let section = ticks(Seq::MAX.0 - 10, Seq::MAX.0);
    assert_eq!(take(&section, 4, from(Seq::MAX.0 - 2)), Ok(Take::Exhausted));
    assert_eq!(take(&section, 3, from(Seq::MAX.0 - 2)), given(Seq::MAX.0, 0));
    assert_eq!(take(&section, 1, Window::ALL), Ok(Take::Exhausted));
    let slot = ticks(5, Seq::MAX.0);
    let end = 5 + Distance::MAX;
    assert_eq!(take(&slot, 2, from(end)), Ok(Take::Exhausted), "a slot holds no more");
    assert_eq!(take(&slot, 1, from(end)), given(end, 0));
}

/// Sections with a clock have no advances, but a window may be used for any uid.
#[test]
fn the_target_of_an_advance_is_passed_and_named_by_no_call() {
    let section = ticks(0, 1_000);
    let _ = section.advance(LANE, Target::new(50).unwrap(), AdvanceLimit(0));
    assert_eq!(take(&section, 1, from(20)), given(51, 0));
    assert_eq!(take(&section, 1, from(20)), given(52, 51));
}
