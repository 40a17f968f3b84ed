use alloc::collections::BTreeMap;

use super::*;

fn key(lo: u64, hi: u64) -> KeyHash {
    KeyHash::from_halves(lo, hi).unwrap()
}

fn counter(key: KeyHash, distance: u64) -> Counter {
    Counter { key, distance: Distance::new(distance, false).unwrap(), is_recent: false }
}

/// Returns a table with room for seven keys, none of which has an entry yet.
fn table() -> Keyed {
    Keyed::with([].into_iter(), 0)
}

/// Keys whose search begins at the last of eight entries. Some of them have equal halves.
fn neighbours() -> [KeyHash; 6] {
    let last = u64::MAX / 8 * 7 + 8;
    [(last, 2), (last + 1, 2), (last, 4), (last + 1, 4), (last + 2, 6), (u64::MAX, 2)].map(|(lo, hi)| key(lo, hi))
}

#[test]
fn a_key_has_one_entry_and_keys_with_equal_halves_have_their_own() {
    let table = table();
    for (number, key) in (1..).zip(neighbours()) {
        assert_eq!(table.find(key).map(|_| ()), None);
        table.insert(key).unwrap().store(number, Relaxed);
        assert_eq!(table.insert(key).unwrap().load(Relaxed), number, "the second time");
        assert_eq!(u64::from(table.keys()), number);
    }
    for (number, key) in (1..).zip(neighbours()) {
        assert_eq!(table.find(key).unwrap().slot.load(Relaxed), number);
    }
    // The last entry is followed by the first one, at which the search of another key begins.
    let first = key(1, 2);
    table.insert(first).unwrap().store(7, Relaxed);
    assert_eq!(table.find(first).unwrap().slot.load(Relaxed), 7);
    assert_eq!(table.insert(key(2, 2)).map(|_| ()), Err(NoEntry::Full));
    assert!(table.insert(first).is_err(), "the caller searches the key before it adds an entry");
}

/// A thread has set the first half of a key's hash, and not yet the second half.
#[test]
fn an_entry_that_is_being_added_belongs_to_the_first_key_that_completes_it() {
    let [one, other, ..] = neighbours();
    let table = table();
    table.entries[7].hi.store(one.hi() | RECENT, Relaxed);
    assert!(table.find(one).is_none() && table.find(other).is_none());
    table.insert(other).unwrap().store(5, Relaxed);
    assert_eq!(table.entries[7].lo.load(Relaxed), other.lo(), "both have the same first half");
    table.insert(one).unwrap().store(6, Relaxed);
    assert_eq!(table.find(one).unwrap().slot.load(Relaxed), 6);
    assert_eq!(table.find(other).unwrap().slot.load(Relaxed), 5);
}

#[test]
fn a_table_is_full_at_seven_eighths_and_the_next_one_is_half_as_large_again() {
    assert_eq!((limit(0), limit(8), limit(12), limit(1_000)), (0, 7, 10, 875));
    assert_eq!([0, 4, 5, 7, 10, 875].map(entries_for), [8, 8, 9, 12, 18, 1_500]);
    let empty = Keyed::empty(0);
    assert_eq!(empty.bytes(), 0);
    assert!(empty.find(key(1, 2)).is_none());
    assert_eq!(empty.insert(key(1, 2)).map(|_| ()), Err(NoEntry::Full));
    for keys in 0..5_000 {
        assert!(limit(entries_for(keys)) > keys as u64, "no room for a key above {keys}");
        assert!(limit(entries_for(keys)) < entries_for(keys) as u64, "a search would not end");
    }
}

#[test]
fn a_table_of_a_copy_is_as_large_as_one_that_grew() {
    assert_eq!([0, 1, 7, 8, 10, 11, 15, 16].map(grown_to), [0, 8, 8, 12, 12, 18, 18, 26]);
    let mut entries = MIN_ENTRIES;
    for keys in 1..100_000 {
        if limit(entries) < keys as u64 {
            entries = entries_for(keys - 1);
        }
        assert_eq!(grown_to(keys), entries, "{keys} keys, added one by one");
        assert!(keys < 8 || 12 * keys > 7 * entries, "{keys} keys take more than 24 bytes at a load of 7/12");
    }
    let counters = (1..=15).map(|number| counter(key(number << 54, 2), number));
    let full = Keyed::grown(counters.collect::<Vec<_>>().into_iter(), 0);
    assert_eq!((full.keys(), full.room(), full.bytes()), (15, 15, 18 * 24));
    assert_eq!(full.insert(key(1, 2)).map(|_| ()), Err(NoEntry::Full), "the bucket grows at the next key");
    assert_eq!((1..=15).filter(|number| full.find(key(number << 54, 2)).is_some()).count(), 15);
    assert_eq!(Keyed::grown([].into_iter(), 5).bytes(), 0);
}

#[test]
fn a_frozen_table_has_the_counters_of_all_keys_with_numbers() {
    let table = Keyed::with([counter(key(9, 2), 4), counter(key(3, 8), 5)].into_iter(), 2);
    table.find(key(9, 2)).unwrap().mark_recent();
    table.insert(key(5, 2)).unwrap();
    table.insert(key(6, 2)).unwrap().store(Distance::new(3, true).unwrap().word(), Relaxed);
    let counters: BTreeMap<KeyHash, _> =
        table.freeze().into_iter().map(|one| (one.key, (one.distance, one.is_recent))).collect();
    let expected = [
        (key(3, 8), (Distance::new(5, false).unwrap(), false)),
        (key(6, 2), (Distance::new(3, true).unwrap(), true)),
        (key(9, 2), (Distance::new(4, false).unwrap(), true)),
    ];
    assert_eq!(counters, BTreeMap::from(expected), "a key without a number has no counter");
    assert!(table.entries.iter().all(|entry| entry.slot.load(Relaxed) & FROZEN != 0), "a free entry is not frozen");
    assert_eq!(table.insert(key(7, 2)).map(|_| ()), Err(NoEntry::Frozen));
    assert!(table.is_frozen());
    assert_eq!(table.keys(), 4);
    assert_eq!(table.freeze().len(), 3, "a second time");
}

#[test]
fn pages_of_a_table_are_summed_up() {
    let counters = (1..=1_000).map(|number| counter(key(number << 54, 2), number));
    let table = Keyed::with(counters.collect::<Vec<_>>().into_iter(), 0);
    assert_eq!((table.pages(), table.bytes()), (4, 24 * 1_715));
    let mut tally = Tally::default();
    (0..table.pages()).for_each(|page| tally.add(table.tally(page..page + 1)));
    assert_eq!(tally, Tally { sum: 500_500, highest: 1_000, touched: 1_000, bytes: 24 * 1_715 });
    assert_eq!(table.tally(0..usize::MAX), tally);
    assert_eq!(table.tally(4..9), Tally::default());
}

#[test]
#[should_panic(expected = "a key has one counter")]
fn a_key_with_two_counters_stops_the_process() {
    let _ = Keyed::with([counter(key(9, 2), 4), counter(key(9, 2), 5)].into_iter(), 0);
}
