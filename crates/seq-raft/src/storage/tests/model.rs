//! The sled backend against its twin in memory: the same operations give the same contents after each reopening.

use proptest::prelude::*;
use tempfile::TempDir;

use super::super::backend::LogBackend;
use super::super::loaded::{Loaded, Meta};
use super::super::memory::MemoryBackend;
use super::super::sled_backend::SledBackend;
use super::*;
use crate::encoding::envelope::Kind;

#[derive(Clone, Debug)]
enum Step {
    /// Number of raises in each of the new entries; many raises make a record of several parts.
    Append(Vec<usize>),
    /// Keeps this share of the log, in percent.
    Truncate(u64),
    /// Purges this share of the log, in steps of at most this many keys, optionally not to the end.
    Purge(u64, usize, bool),
    Vote(u64),
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let raises = prop_oneof![8 => 0..10_usize, 1 => 600..4_000_usize];
    let step = prop_oneof![
        4 => prop::collection::vec(raises, 1..8).prop_map(Step::Append),
        1 => (0..100_u64).prop_map(Step::Truncate),
        1 => (0..100_u64, 1..5_usize, any::<bool>()).prop_map(|(share, keys, whole)| Step::Purge(share, keys, whole)),
        1 => (1..50_u64).prop_map(Step::Vote),
        2 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..30)
}

fn sled_at(dir: &TempDir) -> SledBackend {
    SledBackend::open(&dir.path().join("log"), |file| Box::new(file)).unwrap()
}

fn run(steps: Vec<Step>) {
    let dir = TempDir::new().unwrap();
    let disk = MemoryDisk::new();
    let mut sled = sled_at(&dir);
    let mut memory = MemoryBackend(disk.clone());
    let mut model = Loaded::default();
    let mut both = |sled: &mut SledBackend, act: &dyn Fn(&mut dyn LogBackend)| {
        act(sled);
        act(&mut memory);
    };
    for (number, step) in steps.into_iter().chain([Step::Reopen]).enumerate() {
        let (first, last) = (model.purged.map_or(0, |id| id.index + 1), model.last().map_or(0, |id| id.index));
        let term = number as u64 + 1;
        match step {
            Step::Append(sizes) => {
                let begin = model.last().map_or(0, |id| id.index + 1);
                let entries: Vec<Entry> =
                    (begin..).zip(sizes).map(|(index, raises)| raise(term, index, raises)).collect();
                let records: Vec<Vec<u8>> = entries.iter().map(encoding::write_entry).collect();
                both(&mut sled, &|backend| backend.append(begin, &records).unwrap());
                model.entries.extend(entries);
            }
            Step::Truncate(share) => {
                let from = first + (model.entries.len() as u64) * share / 100;
                both(&mut sled, &|backend| backend.truncate_from(from).unwrap());
                model.entries.retain(|entry| entry.log_id.index < from);
            }
            Step::Purge(share, keys, whole) => {
                let upto = log_id(term, first + (last + 1).saturating_sub(first) * share / 100);
                let record = encoding::write_log_id(Kind::Purged, &upto);
                both(&mut sled, &|backend| {
                    backend.put_meta(Meta::Purged, &record).unwrap();
                    while !backend.purge_step(upto.index, keys).unwrap() && whole {}
                });
                model.purged = Some(upto);
                model.entries.retain(|entry| entry.log_id.index > upto.index);
            }
            Step::Vote(term) => {
                let record = encoding::write_vote(&vote(term));
                both(&mut sled, &|backend| backend.put_meta(Meta::Vote, &record).unwrap());
                model.vote = Some(vote(term));
            }
            Step::Reopen => {
                both(&mut sled, &|backend| backend.sync().unwrap());
                drop(sled);
                sled = sled_at(&dir);
                both(&mut sled, &|backend| assert_eq!(backend.load().unwrap(), model));
            }
        }
    }
    let blobs = std::fs::read_dir(dir.path().join("log/blobs")).unwrap().count();
    assert_eq!(blobs, 0, "sled does not sync its blob files, so there must be none");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sled_and_memory_hold_the_same(steps in steps()) {
        run(steps);
    }
}

#[test]
fn a_full_load_of_the_largest_entries_makes_no_blob() {
    run((0..6).map(|_| Step::Append(vec![4_096; 16])).collect());
}

#[test]
fn a_hole_in_the_log_is_refused() {
    let dir = TempDir::new().unwrap();
    let mut sled = sled_at(&dir);
    let mut memory = MemoryBackend(MemoryDisk::new());
    for backend in [&mut sled as &mut dyn LogBackend, &mut memory] {
        for index in [0, 1, 4] {
            backend.append(index, &[encoding::write_entry(&blank(1, index))]).unwrap();
        }
        let error = backend.load().unwrap_err().to_string();
        assert!(error.starts_with("log entries 2 to 3 are missing in "), "{error}");
    }
}

#[test]
fn an_unfinished_record_at_the_end_is_no_record() {
    let dir = TempDir::new().unwrap();
    let mut sled = sled_at(&dir);
    sled.append(0, &[encoding::write_entry(&blank(1, 0))]).unwrap();
    let long = encoding::write_entry(&raise(1, 1, 4_000));
    sled.append(1, &[long]).unwrap();
    sled.remove_first_part(1);
    assert_eq!(sled.load().unwrap().entries, [blank(1, 0)]);
    // The rest of the unfinished record does not mix with a shorter successor.
    let short = raise(1, 1, 1_000);
    sled.append(1, &[encoding::write_entry(&short)]).unwrap();
    assert_eq!(sled.load().unwrap().entries, [blank(1, 0), short]);
}
