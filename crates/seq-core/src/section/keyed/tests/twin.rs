//! Tests sections of keys against a simple model: a map with the last number of each key that has a counter, and the
//! floor.
//!
//! Next to the map, the world keeps the last number of every key in all ownerships. It checks the promises with it: no
//! number is taken twice, and no reading is untrue. Few keys are used, and their counters are searched from the same
//! entries, so searches pass many other keys.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::*;
use crate::seeded_tests::{PrintSeed, Random};

const SEEDS: u64 = 100;
const STEPS: u64 = 10_000;
const KEYS: u64 = 60;

/// Counter of a key, as the model has it.
#[derive(Clone, Copy)]
struct Model {
    last: u64,
    /// Whether the last number is the target of an advance.
    advanced: bool,
    /// Whether the key was used since the last eviction.
    recent: bool,
}

struct World {
    random: Random,
    section: KeyedSection,
    counters: BTreeMap<u32, Model>,
    base: u64,
    floor: u64,
    ceiling: u64,
    frozen: bool,
    /// Whether the section's ticket is at hand.
    queued: bool,
    /// Numbers that this section has allocated.
    given: u64,
    /// The last number of each key in all ownerships.
    truth: [u64; KEYS as usize],
    /// How often each situation occurred in all worlds.
    seen: BTreeMap<&'static str, u64>,
}

impl World {
    fn new(seed: u64, seen: BTreeMap<&'static str, u64>) -> World {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let base = random.pick(&[0, 0, 7, 1 << 40]);
        World {
            random,
            section: KeyedSection::from_ceiling(Seq(base), Step(30)),
            counters: BTreeMap::new(),
            base,
            floor: base,
            ceiling: base,
            frozen: false,
            queued: false,
            given: 0,
            // All numbers up to the ceiling of an earlier owner may be taken.
            truth: [base; KEYS as usize],
            seen,
        }
    }

    fn saw(&mut self, situation: &'static str) {
        *self.seen.entry(situation).or_default() += 1;
    }

    fn step(&mut self) {
        match self.random.below(1_000) {
            0..3 => drop(self.freeze()),
            3..8 => self.hand_over(),
            8..10 => self.take_over(),
            10..30 => self.rebuild(Keep::All),
            30..50 => self.rebuild(Keep::Recent),
            50..180 => self.raise(),
            180..300 => self.read(),
            300..450 => self.advance(),
            _ => self.take(),
        }
        if self.random.below(20) == 0 {
            self.tally();
        }
    }

    /// Returns a key. Some keys are used much more often than others, so that evictions drop some and keep some.
    fn key(&mut self) -> u32 {
        let end = self.random.pick(&[4, 12, KEYS]);
        self.random.below(end) as u32
    }

    /// Returns whether the section has no room for another key.
    fn is_full(&self) -> bool {
        let entries = self.section.counter_bytes() / 24;
        self.counters.len() >= 7 * entries / 8
    }

    fn keep_ticket(&mut self, ticket: Option<RaiseTicket>) {
        assert!(!(ticket.is_some() && self.queued), "two tickets");
        self.queued |= ticket.is_some();
    }

    fn take(&mut self) {
        let (key, n) = (self.key(), self.random.pick(&[1, 1, 1, 2, 3, 20]));
        let before = self.counters.get(&key).copied();
        let value = before.map_or(self.floor, |before| before.last) + u64::from(n);
        match self.section.take(nth(key), count(n)) {
            Ok(Take::Given { value: got, prev, ticket }) => {
                assert!(!self.frozen && value <= self.ceiling && got.0 == value);
                assert!(before.is_some() || !self.is_full(), "there was no room");
                let last = before.filter(|before| !before.advanced).map_or(0, |before| before.last);
                assert_eq!(prev.0, last);
                assert!(value - u64::from(n) >= self.truth[key as usize], "{value} of key {key} is taken twice");
                self.saw(if before.is_some() { "a next number" } else { "a first number" });
                self.truth[key as usize] = value;
                self.given += u64::from(n);
                self.counters.insert(key, Model { last: value, advanced: false, recent: true });
                self.keep_ticket(ticket);
            }
            Ok(Take::AtCeiling { needed, ticket }) => {
                assert!(!self.frozen && value > self.ceiling && needed.0 == value);
                self.keep_ticket(ticket);
                assert!(self.queued, "a call waits for a raise that is not queued");
                self.touch(key);
                self.saw("a call at the ceiling");
            }
            Ok(Take::Frozen) => {
                assert!(self.frozen);
                self.touch(key);
            }
            Ok(Take::Exhausted) => panic!("far from the end"),
            Err(Full) => self.full(before, value),
        }
    }

    /// A call for a key counts as a use of its counter even if the call has to wait.
    fn touch(&mut self, key: u32) {
        self.counters.entry(key).and_modify(|counter| counter.recent = true);
    }

    fn full(&mut self, before: Option<Model>, value: u64) {
        assert!(!self.frozen && before.is_none() && value <= self.ceiling && self.is_full());
        self.saw("a full table");
        if self.random.below(4) > 0 {
            self.rebuild(Keep::All);
            assert!(!self.is_full(), "a rebuild makes no room");
        }
    }

    fn advance(&mut self) {
        let key = self.key();
        let before = self.counters.get(&key).copied();
        let last = before.map_or(self.floor, |before| before.last);
        let to = (last + self.random.below(60)).saturating_sub(self.random.pick(&[0, 0, 3, 100]));
        let limit = AdvanceLimit(40);
        let past = before.map_or(to <= self.floor, |before| to < before.last);
        match self.section.advance(nth(key), Target::new(to).unwrap(), limit) {
            Ok(Advance::Done { skipped, ticket }) => {
                assert!(!self.frozen && !past && to <= self.ceiling);
                assert!(before.is_some() || !self.is_full(), "there was no room");
                assert_eq!(skipped, to - last);
                assert!(to >= self.truth[key as usize]);
                self.truth[key as usize] = to;
                let advanced = to > last || before.is_some_and(|before| before.advanced);
                self.counters.insert(key, Model { last: to, advanced, recent: true });
                self.keep_ticket(ticket);
                self.saw("an advance");
            }
            Ok(Advance::Past) => {
                assert!(past);
                self.touch(key);
                self.saw("an advance to the past");
            }
            Ok(Advance::AtCeiling { ticket }) => {
                assert!(!self.frozen && !past && to > self.ceiling && to <= self.ceiling + limit.0);
                self.keep_ticket(ticket);
                assert!(self.queued);
                self.touch(key);
            }
            Ok(Advance::TooFar { bound }) => {
                assert!(!self.frozen && to > bound.0 && bound.0 == self.ceiling + limit.0);
                self.touch(key);
            }
            Ok(Advance::Frozen) => {
                assert!(self.frozen);
                self.touch(key);
            }
            Err(Full) => self.full(before, to),
        }
    }

    fn read(&mut self) {
        let key = self.key();
        let expected = match self.counters.get(&key) {
            Some(counter) => Reading { value: Seq(counter.last), exact: true },
            None => Reading { value: Seq(self.floor), exact: self.floor == 0 },
        };
        let reading = self.section.current(nth(key));
        assert_eq!(reading, (!self.frozen).then_some(expected));
        if let Some(Reading { value, exact }) = reading {
            let last = self.truth[key as usize];
            assert!(value.0 >= last && (!exact || value.0 == last), "key {key} has taken {last}, not {value}");
            self.saw(if exact { "an exact reading" } else { "an upper bound" });
        }
    }

    fn raise(&mut self) {
        let Some(target) = self.section.raise_target() else {
            self.queued = false;
            return;
        };
        assert!(self.queued && target.0 > self.ceiling);
        self.ceiling = target.0 + self.random.pick(&[0, 0, 9]);
        let again = self.section.raised(Seq(self.ceiling));
        self.queued = again.is_some();
    }

    fn tally(&mut self) {
        let tally = self.section.tally(0..usize::MAX);
        assert_eq!(tally.touched as usize, self.counters.len());
        assert_eq!(self.section.numbers(tally.sum), Some(self.given));
        assert_eq!(self.section.ceiling().0, self.ceiling);
        assert_eq!((self.section.floor().0, self.section.base().0), (self.floor, self.base));
        assert_eq!(self.section.keys() as usize, self.counters.len());
    }

    fn freeze(&mut self) -> KeyedCopy {
        let copy = self.section.freeze();
        let distance = |counter: &Model| Distance::new(counter.last - self.base, counter.advanced).unwrap();
        let mut distances: Vec<_> = self.counters.iter().map(|(key, one)| (nth(*key), distance(one))).collect();
        distances.sort_unstable_by_key(|(key, _)| *key);
        assert_eq!(copy, KeyedCopy { base: Seq(self.base), floor: Seq(self.floor), distances });
        self.frozen = true;
        copy
    }

    /// Starts the next ownership at the exact numbers, or continues this one after a handover that failed.
    fn hand_over(&mut self) {
        let copy = KeyedCopy::decode(&self.freeze().encode()).unwrap();
        let section = KeyedSection::from_copy(&copy, Seq(self.ceiling), Step(30)).unwrap();
        self.counters.values_mut().for_each(|counter| counter.recent = false);
        self.start(section);
        self.saw("a handover");
    }

    fn take_over(&mut self) {
        self.counters.clear();
        (self.base, self.floor) = (self.ceiling, self.ceiling);
        self.start(KeyedSection::from_ceiling(Seq(self.ceiling), Step(30)));
        self.saw("a takeover");
    }

    fn rebuild(&mut self, keep: Keep) {
        let Rebuilt { section, evicted, sum } = self.section.rebuild(keep);
        let before = self.counters.len();
        let distances = self.counters.values().map(|counter| counter.last - self.base);
        assert_eq!(sum, distances.sum::<u64>());
        if keep == Keep::Recent {
            let dropped = self.counters.extract_if(.., |_, counter| !core::mem::take(&mut counter.recent));
            self.floor = dropped.map(|(_, counter)| counter.last).fold(self.floor, u64::max);
        }
        assert_eq!(evicted, before - self.counters.len());
        if evicted > 0 {
            self.saw("an eviction");
        }
        self.start(section);
    }

    fn start(&mut self, section: KeyedSection) {
        self.section = section;
        (self.frozen, self.queued, self.given) = (false, false, 0);
    }
}

#[test]
fn a_section_of_keys_does_what_its_twin_does() {
    let mut seen = BTreeMap::new();
    for seed in 0..SEEDS {
        let _printed = PrintSeed(seed);
        let mut world = World::new(seed, seen);
        (0..STEPS).for_each(|_| world.step());
        seen = world.seen;
    }
    assert!(seen.len() == 11 && seen.values().all(|times| *times > SEEDS), "{seen:?}");
}
