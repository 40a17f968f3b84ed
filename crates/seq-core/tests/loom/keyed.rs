//! Sections of keys: counters that are added, changed and frozen at the same time. A table has four entries here, of
//! which three may be occupied.

use loom::sync::Arc;
use loom::thread;
use seq_core::keyspace::KeyHash;
use seq_core::section::{Full, Keep, KeyedCopy, KeyedSection};
use seq_core::{Advance, AdvanceLimit, Count, Reading, Seq, Step, Take, Target};

/// Returns a key whose counter is searched from the first entry. `hi` must be even.
fn key(lo: u64, hi: u64) -> KeyHash {
    KeyHash::from_bytes((u128::from(hi) << 64 | u128::from(lo)).to_le_bytes()).unwrap()
}

/// Returns two keys with an equal half, so that each of them could complete an entry that the other one began.
fn keys() -> [KeyHash; 2] {
    [key(1, 2), key(2, 2)]
}

/// Creates a section with the floor 10 in which no key has a counter, under a ceiling that no test reaches.
fn section() -> Arc<KeyedSection> {
    let section = KeyedSection::from_ceiling(Seq(10), Step(1));
    let _ = section.raised(Seq(1_000));
    Arc::new(section.rebuild(Keep::All).section)
}

fn take(section: &KeyedSection, key: KeyHash, count: u32) -> Result<Take, Full> {
    section.take(key, Count::new(count).unwrap())
}

/// Returns the last number taken; `None` if the section was frozen.
fn last(taken: Result<Take, Full>) -> Option<u64> {
    match taken.expect("there is room") {
        Take::Given { value, .. } => Some(value.0),
        Take::Frozen => None,
        other => panic!("{other:?}"),
    }
}

/// Returns the number of a key in a copy; `None` if the key is absent.
fn copied(copy: &KeyedCopy, key: KeyHash) -> Option<u64> {
    let (_, distance) = copy.distances.iter().find(|(other, _)| *other == key)?;
    Some(copy.base.0 + distance.get())
}

#[test]
fn two_first_takers_of_a_key_share_its_counter() {
    loom::model(|| {
        let (section, [key, _]) = (section(), keys());
        let other = section.clone();
        let taker = thread::spawn(move || last(take(&other, key, 2)).unwrap());
        let mine = last(take(&section, key, 3)).unwrap();
        let theirs = taker.join().unwrap();
        assert!((mine, theirs) == (13, 15) || (mine, theirs) == (15, 12), "{mine} and {theirs}");
        assert_eq!(section.keys(), 1, "the key has two counters");
        assert_eq!(section.current(key), Some(Reading { value: Seq(15), exact: true }));
        assert_eq!(section.numbers(section.tally(0..1).sum), Some(5));
    });
}

#[test]
fn two_keys_that_are_searched_from_one_entry_get_their_own_counters() {
    loom::model(|| {
        let (section, [first, second]) = (section(), keys());
        let other = section.clone();
        let taker = thread::spawn(move || [last(take(&other, second, 2)), last(take(&other, second, 1))]);
        assert_eq!(last(take(&section, first, 3)), Some(13));
        assert_eq!(last(take(&section, first, 1)), Some(14));
        assert_eq!(taker.join().unwrap(), [Some(12), Some(13)]);
        assert_eq!(section.keys(), 2);
        let copy = section.freeze();
        assert_eq!([first, second].map(|key| copied(&copy, key)), [Some(14), Some(13)]);
    });
}

/// Three takers, of which two have the same key. All schedules with up to two preemptions, or it would take minutes.
#[test]
fn takers_that_add_counters_at_once_never_share_or_split_one() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let (section, [first, second]) = (section(), keys());
        let takers = [first, second].map(|key| {
            let section = section.clone();
            thread::spawn(move || last(take(&section, key, 1)).unwrap())
        });
        let mine = last(take(&section, first, 1)).unwrap();
        let [theirs, other] = takers.map(|taker| taker.join().unwrap());
        assert_eq!((mine.min(theirs), mine.max(theirs), other), (11, 12, 11));
        assert_eq!(section.keys(), 2);
    });
}

#[test]
fn first_numbers_are_in_the_copy_and_none_follow_it() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let (section, [first, second]) = (section(), keys());
        let takers = [first, second].map(|key| {
            let section = section.clone();
            thread::spawn(move || last(take(&section, key, 1)))
        });
        let copy = section.freeze();
        for key in [first, second] {
            assert_eq!(take(&section, key, 1), Ok(Take::Frozen));
            assert_eq!(section.current(key), None);
        }
        let taken = takers.map(|taker| taker.join().unwrap());
        assert_eq!(taken, [first, second].map(|key| copied(&copy, key)), "the copy is not exact");
        assert_eq!(section.freeze(), copy, "a second copy differs");
    });
}

/// A key with a counter takes numbers and is advanced, while its section is rebuilt without the counters that were not
/// used. The next section continues above each number, if it keeps the counter and if it drops it.
#[test]
fn a_rebuild_during_takes_continues_above_all_numbers() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let [used, new] = keys();
        // After the second rebuild, the counter is kept only if the taker is earlier than the third.
        let first = section();
        assert_eq!(last(take(&first, used, 1)), Some(11));
        let section = Arc::new(first.rebuild(Keep::Recent).section);
        let (takes, advances) = (section.clone(), section.clone());
        let taker = thread::spawn(move || [last(take(&takes, used, 1)), last(take(&takes, new, 1))]);
        let advance = thread::spawn(move || {
            let advance = advances.advance(used, Target::new(20).unwrap(), AdvanceLimit(0)).expect("there is room");
            matches!(advance, Advance::Done { .. })
        });
        let next = section.rebuild(Keep::Recent).section;
        let ([taken, taken_new], advanced) = (taker.join().unwrap(), advance.join().unwrap());
        let highest = taken.into_iter().chain(advanced.then_some(20)).max().unwrap_or(11);
        let kept = taken.is_some() || advanced;
        let reading = next.current(used).unwrap();
        if reading.exact {
            assert_eq!(reading.value.0, highest);
        } else {
            assert!(!kept, "a counter that was used is dropped");
            assert_eq!(reading.value.0, 11, "the floor is the dropped number");
        }
        // A section of which nothing is left has no room, and grows for the first key.
        let next = if next.room() == 0 { next.rebuild(Keep::All).section } else { next };
        assert_eq!(last(take(&next, used, 1)), Some(highest + 1));
        let floor = next.floor().0;
        assert_eq!(last(take(&next, new, 1)), Some(taken_new.unwrap_or(floor) + 1));
    });
}
