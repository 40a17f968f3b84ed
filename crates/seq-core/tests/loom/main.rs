//! Checks every interleaving, and every allowed order of memory, of a few threads over one section.
//!
//! Built and run only by the model checker: `RUSTFLAGS="--cfg loom" cargo test -p seq-core --test loom`. The tests also
//! track which thread installs an untouched page.
#![cfg(loom)]

use loom::sync::Arc;
use loom::thread;
use seq_core::section::{Distance, SectionCopy, Window};
use seq_core::{Advance, AdvanceLimit, Count, Section, Seq, SlotIndex, Step, Take, Target};

mod keyed;

const SLOT: SlotIndex = SlotIndex(0);

/// Creates a section of one untouched uid.
fn section(base: u64, ceiling: u64, step: u64) -> Arc<Section> {
    let section = Section::takeover(1, Seq(base), Step(step));
    let _ = section.raised(Seq(ceiling));
    Arc::new(section)
}

fn take(section: &Section, count: u32) -> Take {
    section.take(SLOT, Count::new(count).unwrap())
}

/// Returns the allocated numbers, from the number before the first to the last.
fn given(take: Take, count: u64) -> Option<(u64, u64)> {
    match take {
        Take::Given { value, .. } => Some((value.0 - count, value.0)),
        Take::AtCeiling { .. } | Take::Frozen | Take::Exhausted => None,
    }
}

/// Checks that the allocated numbers, in order, are one chain from the base to the copied value.
fn check_exact(base: u64, mut given: Vec<(u64, u64)>, copy: &SectionCopy) {
    given.sort_unstable();
    let mut last = base;
    for (before, value) in given {
        assert_eq!(before, last, "a gap or a duplicate");
        last = value;
    }
    let copied = copy.distances.iter().find(|(slot, _)| *slot == SLOT).map_or(0, |(_, distance)| distance.get());
    assert_eq!(base + copied, last, "the copy is not exact");
}

#[test]
fn two_takers_get_different_numbers() {
    loom::model(|| {
        let section = section(10, 1_000, 1);
        let other = section.clone();
        let taker = thread::spawn(move || [take(&other, 2), take(&other, 2)]);
        let mine = take(&section, 3);
        let theirs = taker.join().unwrap();
        let [first, second] = theirs;
        let all = [given(mine, 3), given(first, 2), given(second, 2)].map(|given| given.expect("far from the ceiling"));
        assert!(all[1].1 < all[2].1, "numbers fell");
        check_exact(10, all.to_vec(), &section.freeze());
    });
}

#[test]
fn allocated_numbers_are_in_the_copy_and_none_follow_it() {
    // Three threads over a page and a slot: all schedules with up to three preemptions, or it would take minutes.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let section = section(0, 1_000, 1);
        let takers = [2u32, 3].map(|count| {
            let section = section.clone();
            thread::spawn(move || given(take(&section, count), count.into()))
        });
        let copy = section.freeze();
        assert_eq!(take(&section, 1), Take::Frozen);
        assert_eq!(section.current(SLOT), None);
        let given = takers.into_iter().filter_map(|taker| taker.join().unwrap()).collect();
        check_exact(0, given, &copy);
        assert_eq!(section.freeze(), copy, "a second copy differs");
    });
}

#[test]
fn a_reader_never_sees_a_number_fall_or_one_that_was_not_allocated() {
    loom::model(|| {
        let section = section(0, 1_000, 1);
        let other = section.clone();
        let taker = thread::spawn(move || (take(&other, 2), take(&other, 3)));
        let first = section.current(SLOT).unwrap().value.0;
        let second = section.current(SLOT).unwrap().value.0;
        assert!(first <= second && [0, 2, 5].contains(&first) && [0, 2, 5].contains(&second));
        taker.join().unwrap();
        assert_eq!(section.current(SLOT).unwrap().value, Seq(5));
    });
}

/// Two callers at the ceiling and the raise queue: one ticket exists, as long as a call waits.
#[test]
fn a_tally_during_skips_counts_no_number_that_was_not_allocated() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let section = section(0, 1_000, 1);
        let other = section.clone();
        let advancing = thread::spawn(move || {
            let advanced = other.advance(SLOT, Target::new(50).unwrap(), AdvanceLimit(1_000));
            assert!(matches!(advanced, Advance::Done { .. } | Advance::Past));
            take(&other, 2)
        });
        let other = section.clone();
        let taking = thread::spawn(move || other.take_above(SLOT, Count::new(3).unwrap(), Seq(70)));
        let numbers = || section.numbers(section.tally(0..usize::MAX).sum).expect("counters").cast_signed();
        assert!(numbers() <= 5);
        assert!(given(advancing.join().unwrap(), 2).is_some());
        assert!(numbers() <= 5);
        assert!(given(taking.join().unwrap(), 3).is_some());
        assert_eq!(numbers(), 5);
    });
}

#[test]
fn a_raise_is_enqueued_once_and_never_lost() {
    loom::model(|| {
        let section = section(0, 10, 8);
        // A call waits for 12, and its ticket is queued.
        let Take::AtCeiling { ticket: Some(_), .. } = take(&section, 12) else { panic!("under the ceiling") };

        let takers = [7u32, 20].map(|count| {
            let section = section.clone();
            thread::spawn(move || take(&section, count))
        });
        let target = section.raise_target().expect("12 is wanted");
        assert!(target >= Seq(18));
        // The store may have committed only an older raise, or the requested raise.
        let mut tickets = u32::from(section.raised(Seq(18)).is_some());

        let mut waits_for = 0;
        for taker in takers {
            match taker.join().unwrap() {
                Take::Given { value, ticket, .. } => {
                    assert!(value <= section.ceiling());
                    tickets += u32::from(ticket.is_some());
                }
                Take::AtCeiling { needed, ticket } => {
                    tickets += u32::from(ticket.is_some());
                    waits_for = waits_for.max(needed.0);
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(tickets <= 1, "{tickets} tickets");
        if waits_for > section.ceiling().0 {
            assert_eq!(tickets, 1, "a call waits for {waits_for}, and no raise is queued");
            assert!(section.raise_target().unwrap().0 >= waits_for);
        }
    });
}

#[test]
fn a_raise_and_a_freeze_during_a_take() {
    loom::model(|| {
        let section = section(0, 3, 4);
        let (first, second) = (section.clone(), section.clone());
        let taker = thread::spawn(move || [given(take(&first, 2), 2), given(take(&first, 2), 2)]);
        let raiser = thread::spawn(move || {
            let _ = second.raised(Seq(8));
        });
        let copy = section.freeze();
        assert_eq!(take(&section, 1), Take::Frozen);
        let given: Vec<_> = taker.join().unwrap().into_iter().flatten().collect();
        assert!(given.iter().all(|(_, value)| *value <= 8), "above every ceiling");
        check_exact(0, given, &copy);
        raiser.join().unwrap();
    });
}

/// Two takers whose clocks differ, a raise that is cut short, and a freeze: no tick is given twice or above the
/// ceiling, the copy has the highest tick, and no raise is wanted without a ticket.
#[test]
fn takes_by_two_clocks_during_a_raise_and_a_freeze() {
    // As above: all schedules with up to two preemptions, or it would take minutes.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let section = Arc::new(Section::takeover(1, Seq(0), Step(4)).in_ticks(Step(4)));
        let _ = section.raised(Seq(20));
        let take = |section: &Section, now| {
            let window = Window { floor: Seq(now), ..Window::ALL };
            section.take_within(SLOT, Count::new(2).unwrap(), window).expect("no limit")
        };
        let Take::AtCeiling { ticket: Some(_), .. } = take(&section, 50) else { panic!("under the ceiling") };

        let takers = [10, 30].map(|now| {
            let section = section.clone();
            thread::spawn(move || (now, take(&section, now)))
        });
        let raised = section.clone();
        let raiser = thread::spawn(move || assert_eq!(raised.raised(Seq(40)), None));
        let copy = section.freeze();
        assert_eq!(take(&section, 10), Take::Frozen);

        let (mut tickets, mut given) = (0, Vec::new());
        for (now, taken) in takers.map(|taker| taker.join().unwrap()) {
            match taken {
                Take::Given { value, ticket, .. } => {
                    assert!(value.0 > now && value <= Seq(40));
                    tickets += u32::from(ticket.is_some());
                    given.push(value.0);
                }
                Take::AtCeiling { ticket, .. } => tickets += u32::from(ticket.is_some()),
                Take::Frozen => {}
                Take::Exhausted => panic!("far from the end"),
            }
        }
        raiser.join().unwrap();
        assert!(given.iter().all(|value| given.iter().all(|other| value == other || value.abs_diff(*other) >= 2)));
        assert_eq!(copy.distances.first().map(|(_, distance)| distance.get()), given.iter().copied().max());
        assert!(tickets <= 1, "{tickets} tickets");
        assert!(tickets == 1 || section.raise_target().is_none(), "a raise is wanted without a ticket");
    });
}

/// The target of an advance is no `prev`. The copy marks the slot until a number above the target is allocated.
#[test]
fn an_advance_between_takes_and_a_freeze() {
    // As above: all schedules with up to two preemptions, or it would take minutes.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let section = section(0, 100, 1);
        let (first, second) = (section.clone(), section.clone());
        let taker = thread::spawn(move || [take(&first, 1), take(&first, 1)]);
        let advance = thread::spawn(move || second.advance(SLOT, Target::new(10).unwrap(), AdvanceLimit(0)));
        let copy = section.freeze();
        let taken: Vec<(u64, u64)> = taker.join().unwrap().into_iter().filter_map(named).collect();
        let mut last = 0;
        for (prev, value) in &taken {
            assert!(*prev == last || *prev == 0 && *value == 11, "{prev} is named before {value} after {last}");
            last = *value;
        }
        let advanced = matches!(advance.join().unwrap(), Advance::Done { .. });
        let expected = if advanced && last < 10 { Distance::new(10, true) } else { Distance::new(last, false) };
        assert_eq!(copy.distances, expected.map(|distance| (SLOT, distance)).into_iter().collect::<Vec<_>>());
    });
}

/// Returns the number named as the previous number, and the last allocated number.
fn named(take: Take) -> Option<(u64, u64)> {
    if let Take::Given { value, prev, .. } = take { Some((prev.0, value.0)) } else { None }
}
