//! The keyspace of a world with keys. It has two buckets, and more keys in the first of them than fit into its first
//! table, so that the table grows. Evictions drop counters at any time.
//!
//! In calls and in the history, a key is a uid above all uids of the world. The first process that receives a call
//! computes the bucket and the hash of its key, as `seq-gateway` does; the owner compares the digest of the seed.
//! Callers name the bucket as well, sometimes a wrong one, because a client may have a fault.

use std::rc::Rc;

use seq_core::key_room::KeyBound;
use seq_core::keyspace::{Bucket, Hashing, KeyHash, Seed};
use seq_core::layout::{Lanes, SectionRun};
use seq_core::section::{Distance, Full, Keep, KeyedCopy, KeyedSection, Rebuilt};
use seq_core::state::CreateSeries;
use seq_core::{Advance, AdvanceLimit, Count, Epoch, Layout, Reading, Refusal, SectionId, Seq, SlotIndex, Take, Uid};

use crate::bugs::Bug;
use crate::client::{Call, Wish};
use crate::coverage::Situation;
use crate::events::{Event, Step};
use crate::faults::{MS, Weather};
use crate::numbers::{At, Numbers, Owned};
use crate::process::Process;
use crate::world::{STEP, World};

/// Number of callers for numbers of keys in a world with keys.
pub(crate) const KEY_CLIENTS: usize = 3;

/// The uid that stands for the first key. It is above all uids of a world, and below all addresses of lanes.
const FIRST: u64 = 1_000;

/// The keys. Most of them are in one bucket, by their hash tags.
const KEYS: [&str; 12] =
    ["{a}:0", "{a}:1", "{a}:2", "{a}:3", "{a}:4", "{a}:5", "{a}:6", "{a}:7", "{a}:8", "{b}:0", "{b}:1", "{b}:2"];

/// Number of buckets. It is so small that the world has no more sections than necessary.
const BUCKETS: u16 = 2;

/// The name of the keyspace.
const NAME: &str = "keys";

/// The seed of the keyspace, and for [`Bug::OtherSeed`] the seed that some processes use instead.
const SEEDS: [[u8; 16]; 2] = [[7; 16], [9; 16]];

/// Bound on the keys of a process. There is room for the first tables of both buckets, and for a larger one of one of
/// them only after evictions.
const BOUND: u64 = 16;

/// Mean time between two rounds of evictions of a process.
const EVICTION: u64 = 300 * MS;

/// The keyspace of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorldKeys {
    /// The sections of the buckets.
    sections: SectionRun,
}

/// Hash of a call's key, with the digest of the seed under which it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HashedKey {
    digest: u64,
    hash: KeyHash,
}

fn lanes() -> Lanes {
    Lanes::of_buckets(Hashing::new(Seed::new(SEEDS[0])), BUCKETS)
}

impl WorldKeys {
    /// Returns the keyspace and the layout to which its buckets were appended.
    pub(crate) fn append(layout: &Layout) -> (WorldKeys, Layout) {
        let (layout, sections) = layout.append(lanes()).expect("sound buckets");
        (WorldKeys { sections }, layout)
    }

    /// Returns the command that creates the keyspace.
    pub(crate) fn create(created_ms: u64) -> CreateSeries {
        CreateSeries { name: NAME.to_owned(), shape: Vec::new(), lanes: lanes(), created_ms }
    }

    /// Returns the number of keys.
    pub(crate) fn count() -> usize {
        KEYS.len()
    }

    /// Returns the uids that stand for the keys.
    pub(crate) fn uids() -> std::ops::Range<u64> {
        FIRST..FIRST + KEYS.len() as u64
    }

    /// Returns the index of the key for which this uid stands.
    pub(crate) fn index(uid: Uid) -> Option<usize> {
        WorldKeys::uids().contains(&uid.0).then(|| (uid.0 - FIRST) as usize)
    }

    /// Returns the section of the bucket of a key, and the index of the key.
    pub(crate) fn locate(&self, uid: Uid) -> Option<(SectionId, SlotIndex)> {
        let index = WorldKeys::index(uid)?;
        let bucket = Bucket::of(KEYS[index].as_bytes()).index() % BUCKETS;
        Some((SectionId(self.sections.first.0 + u32::from(bucket)), SlotIndex(index as u32)))
    }

    /// Returns whether a section is a bucket.
    pub(crate) fn has(&self, section: SectionId) -> bool {
        self.sections.iter().any(|bucket| bucket == section)
    }

    /// Returns a section of another bucket.
    fn other(&self, section: SectionId) -> SectionId {
        self.sections.iter().find(|bucket| *bucket != section).expect("there are two buckets")
    }
}

/// Returns the hash of the key with this index under a seed.
fn hashed(index: usize, seed: Seed) -> HashedKey {
    HashedKey { digest: Hashing::new(seed).digest(), hash: seed.hash(KEYS[index].as_bytes()) }
}

impl Process {
    /// Returns the seed of the keyspace, if the process knows it.
    fn seed(&self, bug: Option<Bug>) -> Option<Seed> {
        if bug == Some(Bug::OtherSeed) && self.name % 2 == 1 {
            return Some(Seed::new(SEEDS[1]));
        }
        let (hashing, _) = self.owner.routes()?.layout().keyspaces().next()?;
        hashing.seed()
    }
}

impl World {
    /// Returns whether a caller may request numbers of keys. In calm weather, in which no call may be refused, every
    /// store and every process must know the keyspace.
    pub(crate) fn has_keyspace(&self) -> bool {
        let Some(keys) = self.series.keys else { return false };
        let knows = |process: &Process| {
            process.owner.routes().is_none_or(|routes| routes.layout().has_keys(keys.sections.first))
        };
        let calm = self.swarm.weather == Weather::Calm;
        let known = || {
            self.stores.iter().all(|store| store.state.series(NAME).is_some())
                && self.procs.iter().filter(|process| process.alive).all(knows)
        };
        self.is_keyspace_created() && (!calm || known())
    }

    /// Returns whether a set has the keyspace.
    pub(crate) fn is_keyspace_created(&self) -> bool {
        self.stores.iter().any(|store| store.state.series(NAME).is_some())
    }

    /// Draws the key of the next call of a caller; `None` if the keyspace was not created yet.
    pub(crate) fn draw_key(&mut self) -> Option<Uid> {
        let uids = WorldKeys::uids();
        let drawn = Uid(self.rng.between(uids.start, uids.end));
        Some(drawn).filter(|_| self.has_keyspace())
    }

    /// Returns the section that a caller names for a key that is in `section`. It may be another bucket, if the caller
    /// names no epoch.
    pub(crate) fn hinted(&mut self, uid: Uid, section: SectionId, epoch: Epoch) -> SectionId {
        let keys = self.series.keys.filter(|_| WorldKeys::index(uid).is_some() && epoch == Epoch(0));
        match keys {
            Some(keys) if self.rng.chance(300) => keys.other(section),
            _ => section,
        }
    }

    /// Returns a call for a key with the section and the hash of its key, which the first process computes. Returns
    /// calls for other numbers unchanged.
    ///
    /// # Errors
    /// A refusal if the process does not know the keyspace.
    pub(crate) fn locate_key(&mut self, p: usize, mut call: Call) -> Result<Call, Refusal> {
        let (Some(keys), Some(index)) = (self.series.keys, WorldKeys::index(call.uid)) else { return Ok(call) };
        if call.hops == 0 {
            let (section, slot) = keys.locate(call.uid).expect("a key");
            if section != call.section {
                self.coverage.saw(Situation::WrongBucket);
            }
            if self.bug != Some(Bug::BucketBelieved) {
                call.section = section;
            }
            call.slot = slot;
        }
        let process = &self.procs[p];
        let routes = process.owner.routes().filter(|_| process.reads_lanes);
        if routes.is_some_and(|routes| !routes.layout().has_keys(call.section)) || !process.reads_lanes {
            let uids = self.layout.uids();
            return Err(Refusal::UidOutOfRange { uid: call.uid, start: uids.start, end: uids.end });
        }
        if call.key.is_none() {
            call.key = process.seed(self.bug).map(|seed| hashed(index, seed));
        }
        Ok(call)
    }

    /// Returns the counter of a call in a section that process `p` owns; `None` if the call has to wait.
    pub(crate) fn counter(&self, p: usize, call: &Call, owned: &Owned) -> Option<At> {
        if owned.keys().is_none() {
            return Some(At::Slot(call.slot));
        }
        let seed = self.procs[p].seed(self.bug)?;
        let index = WorldKeys::index(call.uid)?;
        let own = hashed(index, seed);
        let key = call.key.unwrap_or(own);
        (key.digest == own.digest || self.bug == Some(Bug::OtherSeed)).then_some(At::Key(key.hash))
    }

    /// Takes numbers for a call.
    ///
    /// # Errors
    /// [`Refusal::KeysExhausted`], or `None` if the call has to wait.
    pub(crate) fn take_at(
        &mut self,
        p: usize,
        call: &Call,
        owned: &Rc<Owned>,
        count: Count,
    ) -> Result<Take, Option<Refusal>> {
        let at = self.counter(p, call, owned).ok_or(None)?;
        owned.take(at, count).map_err(|Full| self.grow(p, owned))
    }

    /// Advances the counter of a call.
    ///
    /// # Errors
    /// As for [`World::take_at`].
    pub(crate) fn advance_at(
        &mut self,
        p: usize,
        call: &Call,
        owned: &Rc<Owned>,
        limit: AdvanceLimit,
    ) -> Result<Advance, Option<Refusal>> {
        let Wish::Advance(to) = call.wish else { return Err(None) };
        let at = self.counter(p, call, owned).ok_or(None)?;
        owned.advance(at, to, limit).map_err(|Full| self.grow(p, owned))
    }

    /// Reads the counter of a call; `None` if the call has to wait.
    pub(crate) fn read_at(&mut self, p: usize, call: &Call, owned: &Rc<Owned>) -> Option<Reading> {
        let at = self.counter(p, call, owned)?;
        let mut reading = owned.current(at)?;
        if owned.keys().is_some() && !reading.exact {
            self.coverage.saw(Situation::AbsentRead);
            reading.exact |= self.bug == Some(Bug::AbsentExact);
        }
        Some(reading)
    }

    /// Replaces a bucket that has no room for another key, unless a handover or a release has frozen it, or is about to
    /// freeze it: see `seq-alloc/src/ownership/keys.rs`. Returns a refusal if the bucket may not grow.
    fn grow(&mut self, p: usize, full: &Rc<Owned>) -> Option<Refusal> {
        if !self.is_replaceable(p, full) {
            return None;
        }
        if let Err(refusal) = self.key_bound().grow(full.keys()?.keys(), self.held(p)) {
            self.procs[p].rounds.note(refusal);
            self.coverage.saw(Situation::KeysRefused);
            return Some(Refusal::KeysExhausted { section: full.id });
        }
        self.rebuild(p, full, Keep::All);
        self.coverage.saw(Situation::BucketGrown);
        None
    }

    /// Returns the bound on the keys of a process. It is never reached in calm weather, in which no call may be
    /// refused, nor after everything healed: a key without a counter is refused for as long as all other counters are
    /// in use.
    fn key_bound(&self) -> KeyBound {
        let is_unbounded = self.swarm.weather == Weather::Calm || self.healed;
        KeyBound { most: if is_unbounded { u64::MAX } else { BOUND } }
    }

    /// Returns the number of keys for which the buckets of a process have room.
    fn held(&self, p: usize) -> u64 {
        self.procs[p].table.values().filter_map(|owned| Some(owned.keys()?.room() as u64)).sum()
    }

    fn is_replaceable(&self, p: usize, owned: &Rc<Owned>) -> bool {
        let process = &self.procs[p];
        let is_current = process.table.get(&owned.id).is_some_and(|now| Rc::ptr_eq(now, owned));
        is_current && (!process.owner.is_frozen(owned.id) || self.bug == Some(Bug::RebuildInHandover))
    }

    /// Visits the buckets of process `p`, of which some evict the counters that were not used since the visit before,
    /// and schedules the next round. In most rounds a random bucket evicts them although neither it nor the process is
    /// crowded, because evictions must be safe at any time. There are no evictions in calm weather, in which numbers
    /// have no gaps.
    pub(crate) fn evict(&mut self, p: usize) {
        let wait = self.rng.below(2 * EVICTION);
        self.after(wait, Event::Step(p, Step::Evict));
        let process = &self.procs[p];
        let buckets: Vec<Rc<Owned>> = process.table.values().filter(|owned| owned.keys().is_some()).cloned().collect();
        if buckets.is_empty() || self.swarm.weather == Weather::Calm {
            return;
        }
        let drawn = self.rng.index(buckets.len() + 1);
        for (index, owned) in buckets.iter().enumerate() {
            let keys = owned.keys().map_or(0, KeyedSection::keys);
            let evicts = self.key_bound().evicts(keys, self.held(p), self.procs[p].rounds);
            if (index == drawn || evicts) && self.is_replaceable(p, owned) {
                self.rebuild(p, owned, Keep::Recent);
            }
        }
        self.procs[p].rounds.next();
    }

    /// Replaces a bucket by one that continues it under the same ownership.
    fn rebuild(&mut self, p: usize, owned: &Rc<Owned>, keep: Keep) {
        let Some(section) = owned.keys() else { return };
        let next = match (self.bug, keep) {
            (Some(Bug::UnfrozenRebuild), Keep::All) => self.rebuilt_unfrozen(owned, section),
            (Some(Bug::EvictionWithoutFloor | Bug::FloorOfLowest), Keep::Recent) => self.evicted_badly(section),
            (_, keep) => {
                let Rebuilt { section, evicted, .. } = section.rebuild(keep);
                if evicted > 0 {
                    self.coverage.saw(Situation::KeysEvicted);
                }
                section
            }
        };
        let (id, epoch, base, clock) = (owned.id, owned.epoch, owned.base, owned.clock);
        self.procs[p].table.insert(id, Owned::new((id, epoch), Numbers::Keys(next), base, clock));
        self.procs[p].rebuilt = true;
    }

    /// Plants [`Bug::UnfrozenRebuild`]. Returns a section with the same counters, while calls that have read the table
    /// before still take numbers from the section that it replaces.
    fn rebuilt_unfrozen(&self, owned: &Owned, section: &KeyedSection) -> KeyedSection {
        let counter = |index: usize| {
            let key = hashed(index, Seed::new(SEEDS[0])).hash;
            let reading = section.current(key).filter(|reading| reading.exact && reading.value > Seq::ZERO)?;
            Some((key, Distance::new(reading.value.0 - owned.base.0, false)?))
        };
        let mut distances: Vec<_> = (0..KEYS.len()).filter_map(counter).collect();
        distances.sort_unstable_by_key(|(key, _)| *key);
        let copy = KeyedCopy { base: owned.base, floor: section.floor(), distances };
        KeyedSection::from_copy(&copy, section.ceiling(), STEP).expect("its own values fit")
    }

    /// Plants [`Bug::EvictionWithoutFloor`] and [`Bug::FloorOfLowest`]. Returns a section from which random counters
    /// are dropped.
    fn evicted_badly(&mut self, section: &KeyedSection) -> KeyedSection {
        let mut copy = section.freeze();
        let mut lowest = None;
        let rng = &mut self.rng;
        copy.distances.retain(|(_, distance)| {
            let stays = rng.chance(500);
            if !stays {
                lowest = Some(lowest.unwrap_or(u64::MAX).min(distance.get()));
            }
            stays
        });
        if let Some(lowest) = lowest.filter(|_| self.bug == Some(Bug::FloorOfLowest)) {
            copy.floor = copy.floor.max(Seq(copy.base.0 + lowest));
        }
        KeyedSection::from_copy(&copy, section.ceiling(), STEP).expect("its own values fit")
    }

    /// Adopts ceilings that the store committed for buckets, of which some may have been replaced since the raises were
    /// requested.
    pub(crate) fn adopt_ceilings(&mut self, p: usize, raised: impl Iterator<Item = ((SectionId, Epoch), Seq)>) {
        for ((section, epoch), committed) in raised {
            let owned = self.procs[p].table.get(&section).filter(|owned| owned.epoch == epoch);
            if let Some(keys) = owned.and_then(|owned| owned.keys()) {
                keys.adopt_ceiling(committed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_has_more_keys_than_its_first_table() {
        let layout = Layout::new(0..12, 2).unwrap();
        let (keys, layout) = WorldKeys::append(&layout);
        let sections: Vec<u32> = WorldKeys::uids().map(|uid| keys.locate(Uid(uid)).unwrap().0.0).collect();
        assert_eq!(sections, [[7; 9].as_slice(), &[6; 3]].concat());
        assert!(layout.has_keys(SectionId(6)) && layout.has_keys(SectionId(7)));
    }
}
