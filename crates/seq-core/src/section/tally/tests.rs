extern crate std;

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use super::*;
use crate::id::{AdvanceLimit, Seq, SlotIndex, Step};
use crate::request::{Count, Target};
use crate::section::{Advance, Take, Window};

const UIDS: u32 = 5_000;

/// Creates a section with a ceiling that no test reaches.
fn section(base: u64) -> Section {
    let section = Section::takeover(UIDS, Seq(base), Step(10));
    let _ = section.raised(Seq(1 << 50));
    section
}

fn take(section: &Section, slot: u32, count: u32) {
    let taken = section.take(SlotIndex(slot), Count::new(count).unwrap());
    assert!(matches!(taken, Take::Given { .. }), "{taken:?}");
}

fn advance(section: &Section, slot: u32, to: u64) {
    let advanced = section.advance(SlotIndex(slot), Target::new(to).unwrap(), AdvanceLimit(1 << 40));
    assert!(matches!(advanced, Advance::Done { .. }), "{advanced:?}");
}

#[test]
fn marks_of_slots_are_not_counted() {
    let section = section(1_000);
    take(&section, 0, 3);
    take(&section, UIDS - 1, 4);
    advance(&section, 2_048, 1_100);
    let tally = Tally { sum: 107, highest: 100, touched: 3, bytes: 3 * 8 * 2_048 };
    assert_eq!((section.tally(0..usize::MAX), section.skipped()), (tally, 100));
    assert_eq!(section.numbers(tally.sum), Some(7));
    let copy = section.freeze();
    let frozen = Tally { bytes: tally.bytes, ..section.tally(0..usize::MAX) };
    assert_eq!((frozen, copy.sum()), (tally, 107), "frozen slots");
    let next = Section::handed_over(UIDS, &copy, Seq(1 << 50), Step(10)).unwrap();
    assert_eq!((next.tally(0..usize::MAX), next.skipped()), (tally, 0), "the skips of the ownership before");
    assert_eq!(next.numbers(107), Some(0), "the numbers of the ownership before");
    take(&next, 0, 2);
    assert_eq!(next.numbers(next.tally(0..usize::MAX).sum), Some(2));
}

#[test]
fn pages_past_the_end_and_untouched_pages_are_empty() {
    let section = section(0);
    assert_eq!(section.pages(), 3);
    take(&section, 2_048, 1);
    let touched = [0..1, 1..2, 2..9, 7..9].map(|pages| section.tally(pages).touched);
    assert_eq!(touched, [0, 1, 0, 0]);
    assert_eq!(section.slot_bytes(), 8 * 2_048, "a tally touches nothing");
}

#[test]
fn takes_above_a_number_skip_and_ticks_skip_uncounted() {
    let section = section(0);
    take(&section, 0, 5);
    let above = section.take_above(SlotIndex(0), Count::new(2).unwrap(), Seq(90));
    assert!(matches!(above, Take::Given { value: Seq(92), prev: Seq(5), .. }), "{above:?}");
    assert_eq!((section.tally(0..1).sum, section.skipped()), (92, 85));
    let low = section.take_above(SlotIndex(0), Count::ONE, Seq(10));
    assert!(matches!(low, Take::Given { value: Seq(93), .. }), "the number is past it: {low:?}");
    assert_eq!(section.skipped(), 85);
    let window = Window { floor: Seq(1_000), ..Window::ALL };
    assert!(section.take_within(SlotIndex(1), Count::ONE, window).is_ok());
    assert_eq!(section.skipped(), 85);
    assert_eq!(section.in_ticks(Step(10)).numbers(1_000), None, "distances of ticks are times");
}

#[test]
fn a_refused_skip_is_not_counted() {
    let section = section(0);
    advance(&section, 0, 50);
    let past = section.advance(SlotIndex(0), Target::new(49).unwrap(), AdvanceLimit(1 << 40));
    assert_eq!(past, Advance::Past);
    let _ = section.freeze();
    let frozen = section.advance(SlotIndex(0), Target::new(99).unwrap(), AdvanceLimit(1 << 40));
    assert_eq!((frozen, section.skipped()), (Advance::Frozen, 50));
}

#[test]
fn a_tally_beside_takers_is_between_the_sums_before_and_after() {
    let section = section(0);
    let (begun, ended, stopped) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for seed in 1..=2_u32 {
            let (section, begun, ended, stopped) = (&section, &begun, &ended, &stopped);
            scope.spawn(move || {
                for turn in 0.. {
                    let slot = turn * seed % UIDS;
                    if turn % 8 == 0 {
                        let at = section.current(SlotIndex(slot)).unwrap().value.0;
                        let far = Target::new(at + 1_000_000).unwrap();
                        let _ = section.advance(SlotIndex(slot), far, AdvanceLimit(1 << 40));
                    }
                    begun.fetch_add(3, SeqCst);
                    take(section, slot, 3);
                    ended.fetch_add(3, SeqCst);
                    if stopped.load(SeqCst) {
                        return;
                    }
                }
            });
        }
        let mut last = Tally::default();
        for _ in 0..200 {
            let tally = section.tally(0..usize::MAX);
            let numbers = section.numbers(tally.sum).unwrap().cast_signed();
            let most = begun.load(SeqCst);
            assert!(numbers <= most.cast_signed(), "{numbers} numbers of at most {most}");
            assert!(tally.sum >= last.sum && tally.highest >= last.highest && tally.touched >= last.touched);
            last = tally;
        }
        stopped.store(true, SeqCst);
    });
    let tally = section.tally(0..usize::MAX);
    assert_eq!(section.numbers(tally.sum), Some(ended.load(SeqCst)));
    assert!(section.skipped() > 0);
}
