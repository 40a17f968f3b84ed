use alloc::vec;

use proptest::prelude::*;

use super::*;

/// Sections of the layout: few, so that claims overlap.
const SECTIONS: u32 = 24;

fn run(first: u32, sections: u32, since: u64, set: u64) -> ClaimRun {
    ClaimRun {
        sections: SectionRun { first: SectionId(first), sections },
        claim: Claim { since: Epoch(since), set: SetId(set) },
    }
}

/// Merges the claims in the next version.
fn merge(directory: &mut Directory, claims: &[ClaimRun]) -> bool {
    let version = RouteVersion(directory.version().0 + 1);
    directory.merge(claims, version)
}

fn merged<'a>(batches: impl IntoIterator<Item = &'a Vec<ClaimRun>>) -> Directory {
    let mut directory = Directory::default();
    for batch in batches {
        merge(&mut directory, batch);
    }
    directory
}

fn claims(directory: &Directory) -> Vec<ClaimRun> {
    directory.runs().collect()
}

#[test]
fn the_larger_since_wins_and_the_rest_of_a_run_stays() {
    let mut directory = Directory::default();
    assert!(merge(&mut directory, &[run(0, 10, 0, 1), run(10, 10, 0, 2)]));
    assert!(merge(&mut directory, &[run(3, 2, 7, 2)]));
    assert!(!merge(&mut directory, &[run(0, 20, 0, 1)]), "older than what is known of half of them");
    assert!(!merge(&mut directory, &[run(3, 2, 6, 1)]));
    assert_eq!(claims(&directory), [run(0, 3, 0, 1), run(3, 2, 7, 2), run(5, 5, 0, 1), run(10, 10, 0, 2)]);
    assert_eq!(directory.get(SectionId(4)), Some(Claim { since: Epoch(7), set: SetId(2) }));
    assert_eq!(directory.get(SectionId(20)), None);
}

#[test]
fn an_update_has_the_changed_runs_and_none_is_sent_twice() {
    let mut directory = Directory::default();
    assert_eq!(directory.since(RouteVersion(0)).count(), 0, "nothing is known");
    merge(&mut directory, &[run(0, 1_000, 0, 1), run(1_000, 1_000, 0, 2)]);
    let version = directory.version();
    assert_eq!(directory.since(version).count(), 0);
    merge(&mut directory, &[run(500, 1, 3, 2)]);
    assert_eq!(directory.since(version).collect::<Vec<_>>(), [run(500, 1, 3, 2)]);
}

#[test]
fn changes_that_no_copy_consists_of_are_refused() {
    let from = |changes: &[(ClaimRun, u64)]| {
        let changes = changes.iter().map(|(run, version)| (*run, RouteVersion(*version)));
        Directory::from_changes(RouteVersion(3), changes)
    };
    let good = [(run(0, 4, 0, 1), 1), (run(4, 1, 7, 2), 3)];
    assert!(from(&good).is_some());
    assert_eq!(from(&[good[1], good[0]]), None, "out of order");
    assert_eq!(from(&[good[0], (run(3, 1, 7, 2), 3)]), None, "overlapping");
    assert_eq!(from(&[good[0], (run(4, 1, 0, 1), 3)]), None, "one run in two");
    assert_eq!(from(&[good[0], (run(4, 1, 7, 2), 4)]), None, "newer than the copy");
    assert_eq!(from(&[(run(0, 0, 0, 1), 1)]), None, "no section");
}

#[test]
fn a_run_past_the_last_section_id_is_skipped() {
    let mut directory = Directory::default();
    assert!(!merge(&mut directory, &[run(7, 0, 1, 1), run(u32::MAX, 2, 1, 1), run(2, u32::MAX, 1, 1)]));
    assert_eq!(directory, Directory::default());
}

/// `cargo test -p seq-core directories_stay_small -- --nocapture` prints the sizes.
#[test]
fn directories_stay_small() {
    extern crate std;
    const UIDS_2_32: u32 = 42_950;
    // The size in columns of varints, as a message holds them: sections since the last run, sections, since, set's
    // index.
    let varint = |value: u64| (64 - value.max(1).leading_zeros() as usize).div_ceil(7);
    let bytes = |runs: &[ClaimRun]| -> usize {
        let one = |run: &ClaimRun| 1 + varint(run.sections.sections.into()) + varint(run.claim.since.0) + 1;
        runs.iter().map(one).sum()
    };
    // The size of the runs and their keys, in nodes of a B-tree that are at least half full.
    let memory = |directory: &Directory| 2 * directory.runs.len() * (size_of::<Run>() + size_of::<u32>());
    for sets in [1, 4, 64] {
        let mut directory = Directory::default();
        let share = UIDS_2_32.div_ceil(sets);
        let home = |set: u32| run(set * share, share.min(UIDS_2_32 - set * share), 0, u64::from(set) + 1);
        merge(&mut directory, &(0..sets).map(home).collect::<Vec<_>>());
        let (whole, version) = (claims(&directory), directory.version());
        assert_eq!(whole.len(), sets as usize);
        merge(&mut directory, &[run(UIDS_2_32 / 2, 1, 9, 77)]);
        let delta = directory.since(version).collect::<Vec<_>>();
        assert_eq!(delta.len(), 1);
        std::println!(
            "{UIDS_2_32} sections in runs of {sets} sets: {} B in memory, {} B as a message, {} B for one move",
            memory(&directory),
            bytes(&whole),
            bytes(&delta)
        );
        // The worst case: every section moved on its own, so that no two neighbours have the same claim.
        let scattered = (0..UIDS_2_32)
            .map(|section| run(section, 1, 1 + u64::from(section % 100), 1 + u64::from(section % sets)))
            .collect::<Vec<_>>();
        merge(&mut directory, &scattered);
        std::println!(
            "{UIDS_2_32} sections scattered over {sets} sets: {} kB in memory, {} kB as a message",
            memory(&directory) / 1_000,
            bytes(&claims(&directory)) / 1_000
        );
        assert!(memory(&directory) <= 4_000_000 && bytes(&claims(&directory)) <= 250_000);
    }
}

fn batches() -> impl Strategy<Value = Vec<Vec<ClaimRun>>> {
    let one = (0..SECTIONS, 0..=SECTIONS, 0..6u64, 1..4u64)
        .prop_map(|(first, sections, since, set)| run(first, sections.min(SECTIONS - first), since, set));
    prop::collection::vec(prop::collection::vec(one, 0..6), 0..8)
}

proptest! {
    /// Checks that the claims are those of a map of single sections, the runs are as long as possible, and nothing
    /// falls.
    #[test]
    fn a_directory_is_the_map_of_its_newest_claims(batches in batches()) {
        let mut directory = Directory::default();
        let mut twin: BTreeMap<u32, Claim> = BTreeMap::new();
        for batch in &batches {
            let before = directory.clone();
            let mut changed = false;
            for one in batch {
                for section in one.sections.first.0..one.sections.end().unwrap_or(one.sections.first.0) {
                    let known = twin.entry(section).or_insert(one.claim);
                    changed |= before.get(SectionId(section)).is_none_or(|known| known < one.claim);
                    *known = one.claim.max(*known);
                }
            }
            prop_assert_eq!(merge(&mut directory, batch), changed);
            prop_assert_eq!(directory.version() > before.version(), changed);
            for section in 0..SECTIONS {
                prop_assert_eq!(directory.get(SectionId(section)), twin.get(&section).copied());
                prop_assert!(directory.get(SectionId(section)) >= before.get(SectionId(section)));
            }
            prop_assert_eq!(Directory::from_changes(directory.version(), directory.changes()), Some(directory.clone()));
            let runs = claims(&directory);
            for pair in runs.windows(2) {
                let (end, next) = (pair[0].sections.end().unwrap(), pair[1].sections.first.0);
                prop_assert!(end < next || (end == next && pair[0].claim != pair[1].claim), "{:?}", runs);
            }
        }
    }

    /// Checks that the result does not depend on the order of batches, and on how often a batch comes.
    #[test]
    fn merging_is_commutative_associative_and_idempotent(
        (batches, order) in batches().prop_flat_map(|batches| {
            let order: Vec<usize> = (0..batches.len()).chain(0..batches.len()).collect();
            (Just(batches), Just(order).prop_shuffle())
        }),
        split in any::<prop::sample::Index>(),
    ) {
        let all = merged(&batches);
        prop_assert_eq!(claims(&merged(order.iter().map(|index| &batches[*index]))), claims(&all));
        let at = split.index(batches.len() + 1);
        let (mut left, right) = (merged(&batches[..at]), merged(&batches[at..]));
        merge(&mut left, &claims(&right));
        prop_assert_eq!(claims(&left), claims(&all));
        prop_assert!(!merge(&mut left, &claims(&all)), "a repeat changed something");
    }

    /// Checks that a follower that lost updates has the whole copy after the next update, and after any duplicate.
    #[test]
    fn followed_updates_are_the_whole_copy(batches in batches(), lost in prop::collection::vec(any::<bool>(), 8)) {
        let (mut leader, mut follower) = (Directory::default(), Directory::default());
        let (mut version, mut sent) = (RouteVersion(0), vec![]);
        for (batch, lost) in batches.iter().zip(lost) {
            if !merge(&mut leader, batch) {
                continue;
            }
            let update: Vec<_> = leader.since(version).collect();
            if !lost {
                merge(&mut follower, &update);
                version = leader.version();
                prop_assert_eq!(claims(&follower), claims(&leader));
            }
            sent.push((leader.version(), update));
        }
        let before = claims(&follower);
        for (_, update) in sent.iter().filter(|(sent, _)| *sent <= version) {
            merge(&mut follower, update);
        }
        prop_assert_eq!(claims(&follower), before);
    }
}
