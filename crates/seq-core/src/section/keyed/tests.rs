extern crate std;

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::RwLock;

use super::*;
use crate::keyspace::Seed;
use crate::section::{Distance, RaiseTicket};

mod twin;

fn key(name: &str) -> KeyHash {
    Seed::new([7; 16]).hash(name.as_bytes())
}

fn count(count: u32) -> Count {
    Count::new(count).unwrap()
}

fn given(value: u64, prev: u64) -> Result<Take, Full> {
    Ok(Take::Given { value: Seq(value), prev: Seq(prev), ticket: None })
}

fn reading(value: u64, exact: bool) -> Option<Reading> {
    Some(Reading { value: Seq(value), exact })
}

const LIMIT: AdvanceLimit = AdvanceLimit(1_000);

fn advance(section: &KeyedSection, name: &str, to: u64) -> Result<Advance, Full> {
    section.advance(key(name), Target::new(to).unwrap(), LIMIT)
}

fn done(skipped: u64) -> Result<Advance, Full> {
    Ok(Advance::Done { skipped, ticket: None })
}

/// Creates a section that begins at the ceiling `base`, has room for seven keys, and may allocate up to `ceiling`.
fn section(base: u64, ceiling: u64) -> KeyedSection {
    let Rebuilt { section, evicted: 0, .. } = KeyedSection::from_ceiling(Seq(base), Step(10)).rebuild(Keep::All) else {
        panic!("nothing to evict")
    };
    assert_eq!(section.raised(Seq(ceiling)), None);
    section
}

#[test]
fn a_key_takes_consecutive_numbers_after_the_floor() {
    let section = section(500, 1_000);
    assert_eq!(section.current(key("a")), reading(500, false));
    assert_eq!(section.take(key("a"), count(3)), given(503, 0));
    assert_eq!(section.take(key("b"), count(1)), given(501, 0), "a key of its own");
    assert_eq!(section.take(key("a"), count(1)), given(504, 503));
    assert_eq!(section.current(key("a")), reading(504, true));
    assert_eq!((section.keys(), section.room(), section.counter_bytes()), (2, 7, 8 * 24), "a read adds no counter");
    let first = KeyedSection::from_ceiling(Seq(0), Step(10));
    assert_eq!(first.current(key("a")), reading(0, true), "no key of a new section was ever used");
}

/// At the ceiling, keys of which none may take a number fill no table.
#[test]
fn an_absent_key_at_the_ceiling_gets_no_counter() {
    let section = section(500, 500);
    let first = section.take(key("a"), count(2));
    assert_eq!(first, Ok(Take::AtCeiling { needed: Seq(502), ticket: Some(RaiseTicket(())) }));
    for name in ["b", "c", "d", "e", "f", "g", "h", "i"] {
        assert_eq!(section.take(key(name), count(1)), Ok(Take::AtCeiling { needed: Seq(501), ticket: None }));
        assert_eq!(advance(&section, name, 505), Ok(Advance::AtCeiling { ticket: None }));
        assert_eq!(advance(&section, name, 1_501), Ok(Advance::TooFar { bound: Seq(1_500) }));
    }
    assert_eq!(section.keys(), 0);
    assert_eq!(section.raise_target(), Some(Seq(510)));
}

#[test]
fn a_full_section_serves_the_keys_that_it_has_and_all_keys_after_a_rebuild() {
    let section = KeyedSection::from_ceiling(Seq(0), Step(10));
    assert_eq!(section.raised(Seq(100)), None);
    assert_eq!((section.take(key("a"), count(1)), advance(&section, "a", 5)), (Err(Full), Err(Full)));
    let Rebuilt { section, .. } = section.rebuild(Keep::All);
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    for name in names {
        assert_eq!(section.take(key(name), count(1)), given(1, 0));
    }
    assert_eq!((section.take(key("h"), count(1)), advance(&section, "h", 5)), (Err(Full), Err(Full)));
    assert_eq!(section.current(key("h")), reading(0, true), "it took no number");
    assert_eq!(section.take(key("g"), count(1)), given(2, 1));
    let Rebuilt { section: larger, evicted, .. } = section.rebuild(Keep::All);
    assert_eq!((evicted, larger.counter_bytes(), larger.floor(), larger.ceiling()), (0, 12 * 24, Seq(0), Seq(100)));
    assert_eq!(section.take(key("h"), count(1)), Ok(Take::Frozen));
    assert_eq!(larger.take(key("h"), count(1)), given(1, 0));
    assert_eq!(larger.take(key("g"), count(1)), given(3, 2));
    assert_eq!(larger.current(key("a")), reading(1, true));
}

/// A copy is made of a table at any load. The next owner's table has the same load.
#[test]
fn a_handover_adds_no_room() {
    let mut section = KeyedSection::from_ceiling(Seq(0), Step(10));
    assert_eq!(section.raised(Seq(100)), None);
    for number in 0..2_000 {
        let key = key(&std::format!("key {number}"));
        if section.take(key, count(1)) == Err(Full) {
            section = section.rebuild(Keep::All).section;
            assert_eq!(section.take(key, count(1)), given(1, 0));
        }
        if number % 97 == 0 || section.keys() as usize == section.room() {
            let frozen = section;
            section = KeyedSection::from_copy(&frozen.freeze(), frozen.ceiling(), Step(10)).unwrap();
            let shape = |section: &KeyedSection| (section.keys(), section.room(), section.counter_bytes());
            assert_eq!(shape(&section), shape(&frozen), "after {number} keys");
        }
    }
    let empty = KeyedSection::from_copy(&KeyedCopy::above(Seq(7)), Seq(7), Step(10)).unwrap();
    assert_eq!((empty.room(), empty.counter_bytes()), (0, 0), "a bucket without keys has no table");
}

#[test]
fn a_rebuilt_section_keeps_its_last_number_and_its_step() {
    let section = KeyedSection::from_ceiling(Seq(95), Step(10)).up_to(Seq(100));
    section.set_step(Step(3));
    let Rebuilt { section, .. } = section.rebuild(Keep::All);
    assert_eq!(section.take(key("a"), count(6)), Ok(Take::Exhausted));
    assert!(matches!(section.take(key("a"), count(2)), Ok(Take::AtCeiling { ticket: Some(_), .. })));
    assert_eq!(section.raise_target(), Some(Seq(98)));
    assert_eq!(section.raised(Seq(105)), None);
    assert_eq!((section.ceiling(), section.base()), (Seq(100), Seq(95)));
}

#[test]
fn an_eviction_drops_keys_that_were_not_used_since_the_last_one() {
    let section = section(0, 1_000);
    for (name, numbers) in [("a", 5), ("b", 9), ("c", 2)] {
        assert_eq!(section.take(key(name), count(numbers)), given(numbers.into(), 0));
    }
    // All keys are new, so the first eviction drops none.
    let Rebuilt { section, evicted: 0, .. } = section.rebuild(Keep::Recent) else { panic!("a new key was evicted") };
    assert_eq!(section.take(key("a"), count(1)), given(6, 5));
    // A growth in between is no eviction, so the key is still recent.
    let Rebuilt { section, evicted: 0, .. } = section.rebuild(Keep::All) else { panic!("a growth evicted") };
    let Rebuilt { section, evicted: 2, .. } = section.rebuild(Keep::Recent) else { panic!("b and c were not used") };
    assert_eq!(section.floor(), Seq(9), "the highest number of a dropped key");
    assert_eq!(section.current(key("a")), reading(6, true));
    for name in ["b", "c", "never used"] {
        assert_eq!(section.current(key(name)), reading(9, false));
    }
    assert_eq!(section.take(key("c"), count(1)), given(10, 0), "the numbers from 3 to 9 are a gap");
    assert_eq!(section.take(key("a"), count(1)), given(7, 6), "keys that stayed have none");
    let Rebuilt { section, evicted: 0, .. } = section.rebuild(Keep::Recent) else { panic!("both were used") };
    let Rebuilt { section, evicted: 2, .. } = section.rebuild(Keep::Recent) else { panic!("none was used") };
    assert_eq!((section.floor(), section.keys()), (Seq(10), 0));
}

#[test]
fn an_eviction_adds_no_room() {
    let mut section = section(0, 1_000);
    for round in 0..4 {
        for name in ["a", "b", "c", "d", "e", "f", "g"] {
            assert!(matches!(section.take(key(name), count(1)), Ok(Take::Given { .. })), "{name} in round {round}");
        }
        assert_eq!(section.take(key("another"), count(1)), Err(Full));
        let Rebuilt { section: kept, evicted: 0, .. } = section.rebuild(Keep::Recent) else { panic!("all were used") };
        assert_eq!((kept.keys(), kept.room()), (7, 7));
        section = kept;
    }
    assert_eq!(section.rebuild(Keep::All).section.room(), 10, "a bucket that grows has more");
}

#[test]
fn an_advance_is_a_use() {
    let section = section(0, 1_000);
    assert_eq!(advance(&section, "a", 40), done(40));
    let Rebuilt { section, .. } = section.rebuild(Keep::Recent);
    assert_eq!(advance(&section, "a", 40), done(0), "a repeated one, too");
    let Rebuilt { section, evicted: 0, .. } = section.rebuild(Keep::Recent) else { panic!("it was used") };
    assert_eq!(section.take(key("a"), count(1)), given(41, 0), "no call took 40");
}

#[test]
fn the_floor_never_falls() {
    let section = section(0, 1_000);
    assert_eq!(section.take(key("a"), count(9)), given(9, 0));
    let section = section.rebuild(Keep::Recent).section.rebuild(Keep::Recent).section;
    assert_eq!((section.room(), section.take(key("b"), count(1))), (0, Err(Full)), "nothing is left");
    let section = section.rebuild(Keep::All).section;
    assert_eq!(advance(&section, "b", 10), done(1));
    let section = section.rebuild(Keep::Recent).section.rebuild(Keep::Recent).section;
    assert_eq!(section.floor(), Seq(10));
    let copy =
        KeyedCopy { base: Seq(0), floor: Seq(10), distances: vec![(key("c"), Distance::new(4, false).unwrap())] };
    let section = KeyedSection::from_copy(&copy, Seq(20), Step(1)).unwrap();
    let Rebuilt { section, evicted: 1, .. } = section.rebuild(Keep::Recent) else { panic!("it was not used here") };
    assert_eq!(section.floor(), Seq(10), "the dropped number is below it");
}

#[test]
fn an_absent_key_is_past_every_number_up_to_the_floor() {
    let section = section(500, 2_000);
    assert_eq!(advance(&section, "a", 499), Ok(Advance::Past));
    assert_eq!(advance(&section, "a", 500), Ok(Advance::Past), "it may have taken 500");
    assert_eq!(section.keys(), 0);
    assert_eq!(advance(&section, "a", 501), done(1));
    assert_eq!(section.current(key("a")), reading(501, true));
    assert_eq!(advance(&section, "a", 500), Ok(Advance::Past));
    assert_eq!(section.take(key("a"), count(1)), given(502, 0), "no call took 501");
    assert_eq!(advance(&section, "a", 502), done(0), "it is there");
    assert_eq!(section.skipped(), 1);
    let copy =
        KeyedCopy { base: Seq(0), floor: Seq(10), distances: vec![(key("b"), Distance::new(3, false).unwrap())] };
    let section = KeyedSection::from_copy(&copy, Seq(20), Step(1)).unwrap();
    assert_eq!(advance(&section, "b", 5), done(2), "a key with a counter may be below the floor");
    assert_eq!(advance(&section, "a", 10), Ok(Advance::Past));
    assert_eq!(advance(&section, "a", 12), done(2));
    assert_eq!((section.skipped(), section.numbers(section.tally(0..1).sum)), (2 + 12, Some(0)));
}

#[test]
fn a_frozen_section_gives_nothing_and_the_copy_continues() {
    let section = section(100, 1_000);
    assert_eq!(section.take(key("a"), count(3)), given(103, 0));
    assert_eq!(advance(&section, "b", 150), done(50));
    let copy = section.freeze();
    let mut distances =
        vec![(key("a"), Distance::new(3, false).unwrap()), (key("b"), Distance::new(50, true).unwrap())];
    distances.sort_unstable_by_key(|(key, _)| *key);
    assert_eq!(copy, KeyedCopy { base: Seq(100), floor: Seq(100), distances });
    assert_eq!(section.freeze(), copy, "a second time");
    for name in ["a", "b", "c"] {
        assert_eq!(section.take(key(name), count(1)), Ok(Take::Frozen));
        assert_eq!(advance(&section, name, 200), Ok(Advance::Frozen));
        assert_eq!(section.current(key(name)), None);
    }
    let next = KeyedSection::from_copy(&copy, Seq(1_000), Step(10)).unwrap();
    assert_eq!(next.take(key("a"), count(1)), given(104, 103));
    assert_eq!(next.take(key("b"), count(1)), given(151, 0));
    assert_eq!(next.take(key("c"), count(1)), given(101, 0));
    let empty = KeyedSection::from_ceiling(Seq(0), Step(1));
    assert_eq!(empty.freeze(), KeyedCopy::above(Seq(0)));
    assert_eq!((empty.current(key("a")), empty.take(key("a"), count(1))), (None, Ok(Take::Frozen)));
}

#[test]
fn a_copy_that_does_not_fit_is_refused() {
    let start = |base: u64, floor: u64, keys: &[(KeyHash, u64)]| {
        let distances = keys.iter().map(|(key, distance)| (*key, Distance::new(*distance, false).unwrap())).collect();
        let copy = KeyedCopy { base: Seq(base), floor: Seq(floor), distances };
        KeyedSection::from_copy(&copy, Seq(10), Step(1)).map(drop)
    };
    let mut keys = [key("a"), key("b")];
    keys.sort_unstable();
    let [one, other] = keys;
    let above = |highest| Err(CopyMisfit::AboveCeiling { highest: Seq(highest), ceiling: Seq(10) });
    assert_eq!(start(4, 10, &[(one, 1), (other, 6)]), Ok(()));
    assert_eq!(start(4, 4, &[(one, 7), (other, 1)]), above(11));
    assert_eq!(start(4, 11, &[]), above(11));
    assert_eq!(start(11, 11, &[]), above(11));
    assert_eq!(start(4, 3, &[]), Err(CopyMisfit::Floor { floor: Seq(3), base: Seq(4) }));
    let far = Seq(Distance::MAX + 1);
    assert_eq!(start(0, far.0, &[]), Err(CopyMisfit::Floor { floor: far, base: Seq(0) }));
    for pair in [[other, one], [one, one]] {
        assert_eq!(start(0, 0, &pair.map(|key| (key, 1))), Err(CopyMisfit::Key { key: one }));
    }
    let (base, distance) = (Seq(Distance::MAX + 2), Distance::MAX);
    assert_eq!(start(base.0, base.0, &[(one, distance)]), Err(CopyMisfit::KeyDistance { key: one, distance, base }));
    let past = Seq(u64::MAX);
    assert_eq!(start(past.0, past.0, &[]), Err(CopyMisfit::AboveCeiling { highest: past, ceiling: Seq::MAX }));
}

/// The allocations of a thread: key, value, count, prev.
type Taken = (u32, u64, u32, u64);

/// Returns the key with this number. Keys of which the numbers divided by four are equal are searched from the same
/// entry, and have equal halves.
fn nth(number: u32) -> KeyHash {
    let spread = u64::from(number / 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) & !3;
    let (lo, hi) = (spread + u64::from(number % 2) + 1, u64::from(number % 4 / 2 + 1) << 1);
    KeyHash::from_halves(lo, hi).unwrap()
}

/// Takes numbers of random keys, and waits at the ceiling and while the section is rebuilt. Counts its calls.
fn taker(section: &RwLock<KeyedSection>, (calls, stop): (&AtomicU64, &AtomicBool), seed: u32) -> Vec<Taken> {
    let mut taken = Vec::new();
    let mut random = seed;
    while !stop.load(Ordering::Acquire) {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (number, n) = ((random >> 16) % 60, (random >> 24) % 3 + 1);
        let section = section.read().unwrap();
        match section.take(nth(number), count(n)) {
            Ok(Take::Given { value, prev, .. }) => {
                assert!(value <= section.ceiling());
                taken.push((number, value.0, n, prev.0));
            }
            Ok(Take::Exhausted) => unreachable!("far from the end"),
            Ok(Take::AtCeiling { .. } | Take::Frozen) | Err(Full) => std::thread::yield_now(),
        }
        calls.fetch_add(1, Ordering::Release);
    }
    taken
}

/// Rebuilds the section while other threads take numbers, or until one of them has failed. Returns the number of
/// evicted keys.
fn rebuilder(section: &RwLock<KeyedSection>, calls: &AtomicU64, failed: impl Fn() -> bool) -> usize {
    let mut evicted = 0;
    for rebuild in 1..=150 {
        let before = calls.load(Ordering::Acquire);
        while calls.load(Ordering::Acquire) < before + 50 && !failed() {
            std::thread::yield_now();
        }
        let _ = section.read().unwrap().raised(Seq(rebuild * 20));
        let keep = if rebuild % 3 == 0 { Keep::Recent } else { Keep::All };
        // A lock protects the exchange of the sections. The section is frozen while other threads take numbers from it.
        let rebuilt = section.read().unwrap().rebuild(keep);
        evicted += rebuilt.evicted;
        *section.write().unwrap() = rebuilt.section;
    }
    evicted
}

#[test]
fn threads_get_no_number_twice_while_sections_are_rebuilt() {
    let mut evicted = 0;
    for round in 0..10 {
        let section = RwLock::new(KeyedSection::from_ceiling(Seq(0), Step(1)));
        let (calls, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        let (taken, evictions) = std::thread::scope(|scope| {
            let takers: Vec<_> = (0..4)
                .map(|thread| (&section, (&calls, &stop), round * 4 + thread))
                .map(|(section, shared, seed)| scope.spawn(move || taker(section, shared, seed)))
                .collect();
            let evictions = rebuilder(&section, &calls, || takers.iter().any(|taker| taker.is_finished()));
            stop.store(true, Ordering::Release);
            (takers.into_iter().map(|taker| taker.join().unwrap()).collect::<Vec<_>>(), evictions)
        });
        evicted += evictions;
        for thread in &taken {
            let mut last = BTreeMap::new();
            assert!(thread.iter().all(|(key, value, ..)| last.insert(*key, *value) < Some(*value)), "a number fell");
        }
        let mut all: Vec<Taken> = taken.into_iter().flatten().collect();
        all.sort_unstable();
        let mut last: BTreeMap<u32, u64> = BTreeMap::new();
        for (key, value, n, prev) in all {
            let before = last.insert(key, value).unwrap_or(0);
            assert!(value - u64::from(n) >= before, "key {key}: {value} after {before} is a duplicate");
            assert!(prev == 0 || prev == before && prev + u64::from(n) == value, "key {key}: {prev} before {value}");
        }
        let section = section.into_inner().unwrap();
        for (key, last) in last {
            let Reading { value, exact } = section.current(nth(key)).unwrap();
            assert!(value.0 >= last && (!exact || value.0 == last), "key {key}: {value} after {last}");
        }
    }
    assert!(evicted > 0, "no eviction in any round");
}
