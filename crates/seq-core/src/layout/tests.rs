use alloc::vec;

use proptest::prelude::*;

use super::*;
use crate::id::Step;
use crate::keyspace::{BUCKETS, Bucket, Seed};

proptest! {
    /// Checks the widest offsets and the sizes next to powers of two, with which a reciprocal would be wrong.
    #[test]
    fn multiplying_by_the_reciprocal_divides(
        offset in prop_oneof![any::<u64>(), (0..64_u32, 0..3_u64).prop_map(|(bits, less)| (u64::MAX >> bits) - less.min(u64::MAX >> bits))],
        size in prop_oneof![1..=limits::MAX_SECTION_SIZE, (0..24_u32, 0..3_u32).prop_map(|(bits, more)| (1 << bits) + more)],
        multiple in any::<bool>(),
    ) {
        let space = Dense::new(0..1, size).unwrap();
        let size = u64::from(size);
        let offset = if multiple { offset - offset % size } else { offset };
        prop_assert_eq!(space.divide(offset), (offset / size, offset % size));
    }
}

#[test]
fn a_run_is_cut_to_the_sections_that_are_named() {
    let run = |first: u32, sections| SectionRun { first: SectionId(first), sections };
    let around = |sections: &[u32]| run(10, 5).around(&sections.iter().copied().map(SectionId).collect::<Vec<_>>());
    assert_eq!(around(&[]), None);
    assert_eq!(around(&[9, 15]), None);
    assert_eq!(around(&[9, 10, 15]), Some(run(10, 1)));
    assert_eq!(around(&[0, 11, 13, 14, 20]), Some(run(11, 4)));
    assert_eq!(run(u32::MAX, 2).around(&[SectionId(u32::MAX)]), None, "it is none");
}

#[test]
fn every_uid_of_a_section_is_located_in_it() {
    let layout = Layout::new(1_000..1_250, 100).unwrap();
    assert_eq!(layout.sections(), 3);
    for section in 0..3 {
        for (slot, uid) in layout.uids_of(SectionId(section)).enumerate() {
            assert_eq!(layout.locate(Uid(uid)), Ok((SectionId(section), SlotIndex(slot as u32))));
        }
    }
    assert_eq!(layout.uids_of(SectionId(2)), 1_200..1_250);
    assert!(layout.uids_of(SectionId(3)).is_empty());
}

#[test]
fn uids_outside_the_set_are_refused_by_name() {
    let layout = Layout::new(10..20, 100).unwrap();
    for uid in [0, 9, 20, u64::MAX] {
        assert_eq!(layout.locate(Uid(uid)), Err(Refusal::UidOutOfRange { uid: Uid(uid), start: 10, end: 20 }));
    }
}

#[test]
fn the_widest_range_has_no_overflow() {
    let layout = Layout::new(u64::MAX - 5..u64::MAX, 3).unwrap();
    assert_eq!(layout.uids_of(SectionId(1)), u64::MAX - 2..u64::MAX);
    assert_eq!(layout.locate(Uid(u64::MAX - 1)), Ok((SectionId(1), SlotIndex(1))));
}

#[test]
fn bad_layouts_are_refused() {
    assert!(matches!(Layout::new(5..5, 1), Err(LayoutError::EmptyRange { .. })));
    assert!(matches!(Layout::new(0..5, 0), Err(LayoutError::SectionSize { .. })));
    assert!(matches!(Layout::new(0..u64::MAX, 100_000), Err(LayoutError::TooManySections { .. })));
}

fn plain(count: u32, per_section: u32) -> Lanes {
    Lanes { count, per_section, start: Seq(7), margin: 1 << 20, clock: None, keys: None }
}

fn hashing() -> Hashing {
    Hashing::new(Seed::new([7; 16]))
}

const CLOCK: TickClock = TickClock { epoch_ms: 1_288_834_974_657, unit_ms: 1, seq_bits: 12, lead_ms: 60_000 };

/// Returns a layout of three spaces: sections 0..3 of uids, 3..5 of plain lanes, and 5..9 of ticks.
fn spaces() -> Layout {
    let layout = Layout::new(1_000..1_250, 100).unwrap();
    let (layout, plain) = layout.append(plain(20, 16)).unwrap();
    assert_eq!(plain, SectionRun { first: SectionId(3), sections: 2 });
    let (layout, ticks) = layout.append(Lanes { clock: Some(CLOCK), ..self::plain(256, 64) }).unwrap();
    assert_eq!(ticks, SectionRun { first: SectionId(5), sections: 4 });
    layout
}

#[test]
fn sections_are_numbered_through_all_spaces() {
    let layout = spaces();
    assert_eq!((layout.sections(), layout.uids(), layout.section_size()), (9, 1_000..1_250, 100));
    let mut located = 0;
    for section in 0..layout.sections() {
        for (slot, uid) in layout.uids_of(SectionId(section)).enumerate() {
            assert_eq!(layout.locate(Uid(uid)), Ok((SectionId(section), SlotIndex(slot as u32))));
            located += 1;
        }
    }
    assert_eq!(located, 250 + 20 + 256);
    assert!(layout.uids_of(SectionId(9)).is_empty());
    let clocks: Vec<_> = (0..10).map(|section| layout.clock_of(SectionId(section))).collect();
    assert_eq!(clocks, [&[None; 5][..], &[Some(CLOCK); 4], &[None]].concat());
    assert_eq!(layout.declared().clock_of(SectionId(5)), None);
    let outside = [999, 1_250, ADDRESSES - 1, ADDRESSES, u64::MAX];
    let past = [(2, 0), (3, 16), (4, 4), (8, 64), (9, 0)]
        .map(|(section, slot)| address(SectionId(section), SlotIndex(slot)).0);
    for uid in outside.into_iter().chain(past) {
        let refusal = Refusal::UidOutOfRange { uid: Uid(uid), start: 1_000, end: 1_250 };
        assert_eq!(layout.locate(Uid(uid)), Err(refusal), "{uid:#x}");
    }
}

/// An address is in messages between nodes, so it is part of the protocol.
#[test]
fn the_addresses_of_lanes_are_pinned() {
    assert_eq!(address(SectionId(5), SlotIndex(63)), Uid(0x8000_0000_0500_003f));
    assert_eq!(spaces().uids_of(SectionId(4)), 0x8000_0000_0400_0000..0x8000_0000_0400_0004);
}

/// The ids are in messages between sets, and on disk, so other values would refuse every message of the version
/// before.
#[test]
fn the_ids_of_layouts_are_pinned() {
    let (one, all) = (Layout::new(1_000..1_250, 100).unwrap(), spaces());
    assert_eq!(one.id(), LayoutId(0x2ea6_1e8b_6438_a93f), "{:#x}", one.id().0);
    assert_eq!(all.id(), LayoutId(0x3bd7_172b_db2c_d130), "{:#x}", all.id().0);
    assert_eq!(Layout::new(0..1 << 32, 100_000).unwrap().id(), LayoutId(0x5247_18cc_b824_43c2));
}

#[test]
fn appended_lanes_leave_the_ids_of_earlier_sections() {
    let (one, all) = (Layout::new(1_000..1_250, 100).unwrap(), spaces());
    let (two, _) = one.append(plain(20, 16)).unwrap();
    for (section, layout) in [(0, &one), (2, &one), (3, &two), (4, &two), (5, &all), (8, &all)] {
        assert_eq!(all.id_of(SectionId(section)), Some(layout.id()), "section {section}");
    }
    assert_eq!(all.id_of(SectionId(9)), None);
    assert_eq!(all.declared(), one);
}

#[test]
fn each_field_of_a_space_is_in_the_id() {
    let base = Layout::new(1_000..1_250, 100).unwrap();
    let with = |lanes: Lanes| base.append(lanes).unwrap().0.id();
    let ticks = |clock| with(Lanes { clock: Some(clock), ..plain(20, 16) });
    let ids = [
        base.id(),
        Layout::new(1_000..1_251, 100).unwrap().id(),
        Layout::new(1_001..1_250, 100).unwrap().id(),
        Layout::new(1_000..1_250, 99).unwrap().id(),
        with(plain(20, 16)),
        with(plain(21, 16)),
        with(plain(20, 17)),
        with(Lanes { start: Seq(8), ..plain(20, 16) }),
        with(Lanes { margin: 1, ..plain(20, 16) }),
        ticks(CLOCK),
        ticks(TickClock { epoch_ms: 0, ..CLOCK }),
        ticks(TickClock { unit_ms: 10, ..CLOCK }),
        ticks(TickClock { seq_bits: 10, ..CLOCK }),
        ticks(TickClock { lead_ms: 2_000, ..CLOCK }),
        with(Lanes::of_keyspace(hashing())),
        with(Lanes::of_keyspace(Hashing::of_digest(1))),
        with(Lanes::of_keyspace(hashing().with_uids(true))),
        with(Lanes { keys: None, ..Lanes::of_keyspace(hashing()) }),
    ];
    let distinct: alloc::collections::BTreeSet<u64> = ids.iter().map(|id| id.0).collect();
    assert_eq!(distinct.len(), ids.len());
}

#[test]
fn a_longer_layout_is_adopted_if_it_begins_with_the_shorter() {
    let (one, all) = (Layout::new(1_000..1_250, 100).unwrap(), spaces());
    let mut layout = one.clone();
    assert_eq!(layout.adopt(&one), Ok(false));
    assert_eq!(layout.adopt(&all), Ok(true));
    assert_eq!(layout, all);
    assert_eq!(layout.adopt(&one), Ok(false), "a shorter one is older");
    assert_eq!(layout, all);
    let (other, _) = one.append(plain(20, 5)).unwrap();
    for (mut ours, theirs) in [(all.clone(), &other), (other.clone(), &all), (Layout::new(0..9, 1).unwrap(), &all)] {
        let before = ours.clone();
        assert_eq!(ours.adopt(theirs), Err(OtherLayout { ours: before.id(), theirs: theirs.id() }));
        assert_eq!(ours, before);
    }
}

/// Buckets are sections as all others are, except that no uid and no address has a slot in them.
#[test]
fn buckets_are_numbered_through_all_spaces() {
    let (layout, buckets) = spaces().append(Lanes::of_keyspace(hashing())).unwrap();
    assert_eq!(buckets, SectionRun { first: SectionId(9), sections: BUCKETS.into() });
    assert_eq!(layout.keyspaces().collect::<Vec<_>>(), [(hashing(), buckets)]);
    let last = SectionId(9 + u32::from(BUCKETS) - 1);
    assert_eq!(
        [8, 9, last.0, last.0 + 1].map(|section| layout.has_keys(SectionId(section))),
        [false, true, true, false]
    );
    assert_eq!(
        [8, 9, 24, 25].map(|section| layout.bucket_group(SectionId(section)).map(|first| first.0)),
        [None, Some(9), Some(9), Some(25)]
    );
    assert_eq!(layout.clock_of(last), None);
    assert_eq!([8, 9].map(|section| layout.counters_of(SectionId(section))), [Counters::Slots(64), Counters::Keys]);
    let uid = address(last, SlotIndex(0));
    assert_eq!(layout.uids_of(last), uid.0..uid.0 + 1);
    assert_eq!(layout.locate(uid), Err(Refusal::UidOutOfRange { uid, start: 1_000, end: 1_250 }));
    assert_eq!(layout.id_of(SectionId(8)), Some(spaces().id()), "the sections before it keep their ids");
    assert_eq!(layout.id(), LayoutId(0x6ce9_0d95_5fe4_ca11), "{:#x}", layout.id().0);
    let (more, _) = layout.append(plain(1, 1)).unwrap();
    assert_eq!((more.has_keys(last), more.has_keys(SectionId(last.0 + 1))), (true, false));
}

#[test]
fn sparse_uids_are_in_the_buckets_of_the_keyspace_of_uids() {
    let without = spaces().append(Lanes::of_keyspace(hashing())).unwrap().0;
    assert_eq!((without.keyspace_of_uids(), without.bucket_of_uid(Uid(5))), (None, None));
    let of_uids = Hashing::of_digest(3).with_uids(true);
    let (layout, buckets) = without.append(Lanes::of_keyspace(of_uids)).unwrap();
    assert_eq!(layout.keyspace_of_uids(), Some((of_uids, buckets)));
    assert_eq!(buckets.first, SectionId(9 + u32::from(BUCKETS)));
    let address = layout.uids_of(buckets.first).start;
    for uid in [0, 999, 1_250, 1_234_567_890_123_456_789, address, u64::MAX].map(Uid) {
        let section = SectionId(buckets.first.0 + u32::from(Bucket::of_uid(uid).index()));
        assert_eq!(layout.bucket_of_uid(uid), Some(section), "{uid}");
        assert!(layout.locate(uid).is_err(), "{uid} has no slot");
    }
    for uid in [1_000, 1_249].map(Uid) {
        assert_eq!(layout.bucket_of_uid(uid), None, "{uid} is declared");
        assert!(layout.locate(uid).is_ok());
    }
    assert_eq!(layout.id(), LayoutId(0x2f81_aa92_38b1_c091), "{:#x}", layout.id().0);
    let again = Lanes::of_keyspace(Hashing::of_digest(4).with_uids(true));
    assert_eq!(layout.append(again), Err(AppendError::SecondKeyspaceOfUids));
    assert!(layout.append(Lanes::of_keyspace(Hashing::of_digest(4))).is_ok());
    let few = spaces().append(Lanes::of_buckets(of_uids, 1)).unwrap().0;
    assert_eq!(few.bucket_of_uid(Uid(5)), None, "a bucket that the keyspace does not have");
}

#[test]
fn a_process_adopts_the_seeds_that_it_does_not_know() {
    let digest = Hashing::of_digest(hashing().digest());
    let append = |layout: &Layout, lanes| layout.append(lanes).unwrap().0;
    let client = append(&spaces(), Lanes::of_keyspace(digest));
    let node = append(&spaces(), Lanes::of_keyspace(hashing()));
    let seeds = |layout: &Layout| layout.keyspaces().map(|(keys, _)| keys.seed()).collect::<Vec<_>>();
    assert_eq!((client.id(), &client), (node.id(), &node), "the seed is not public");
    let mut layout = client.clone();
    assert_eq!((layout.adopt(&node), seeds(&layout)), (Ok(true), seeds(&node)));
    for other in [&node, &client, &spaces()] {
        assert_eq!(layout.adopt(other), Ok(false));
    }
    let longer = append(&append(&client, plain(1, 1)), Lanes::of_keyspace(Hashing::of_digest(1)));
    assert_eq!(layout.adopt(&longer), Ok(true));
    assert_eq!((&layout, seeds(&layout)), (&longer, [seeds(&node), vec![None]].concat()));
    let mut longest = longer.clone();
    assert_eq!(longest.adopt(&node), Ok(true), "a shorter one, with a seed");
    assert_eq!((&longest, seeds(&longest)), (&longer, seeds(&layout)));
    let other = append(&spaces(), Lanes::of_keyspace(Hashing::new(Seed::new([8; 16]))));
    assert!(layout.adopt(&other).is_err(), "another seed");
}

#[test]
fn bad_keyspaces_are_refused() {
    let lanes = Lanes::of_keyspace(hashing());
    for bad in [
        Lanes { per_section: 2, ..lanes },
        Lanes { start: Seq(1), ..lanes },
        Lanes { margin: 0, ..lanes },
        Lanes { clock: Some(CLOCK), ..lanes },
    ] {
        assert_eq!(spaces().append(bad), Err(AppendError::BadKeyspace), "{bad:?}");
    }
    assert!(spaces().append(Lanes { count: u32::from(BUCKETS) + 1, ..lanes }).is_err());
    assert!(spaces().append(Lanes::of_buckets(hashing(), 4)).is_ok());
    let mut layout = spaces();
    for _ in 0..limits::MAX_KEYSPACES {
        layout = layout.append(lanes).unwrap().0;
    }
    assert_eq!(layout.append(lanes), Err(AppendError::TooManyKeyspaces));
    assert!(layout.append(plain(1, 1)).is_ok());
}

#[test]
fn bad_lanes_are_refused() {
    let layout = spaces();
    let most = limits::MAX_SERIES_SECTIONS;
    for (count, per_section) in [(0, 1), (1, 0), (1, limits::MAX_SECTION_SIZE + 1), (most + 1, 1)] {
        assert_eq!(layout.append(plain(count, per_section)), Err(AppendError::BadLanes { count, per_section }));
    }
    let start = Seq(Seq::MAX.0 + 1);
    assert_eq!(layout.append(Lanes { start, ..plain(1, 1) }), Err(AppendError::BadStart { start }));
    for clock in
        [TickClock { unit_ms: 0, ..CLOCK }, TickClock { lead_ms: 0, ..CLOCK }, TickClock { seq_bits: 63, ..CLOCK }]
    {
        let lanes = Lanes { clock: Some(clock), ..plain(1, 1) };
        assert_eq!(layout.append(lanes), Err(AppendError::BadClock { clock }));
    }
    let mut full = layout.clone();
    while full.sections() + most <= limits::MAX_SECTIONS {
        full = full.append(plain(most, 1)).unwrap().0;
    }
    let sections = full.sections() + most;
    assert_eq!(full.append(plain(most, 1)), Err(AppendError::TooManySections { sections }));
    let high = Layout::new(0..ADDRESSES + 1, limits::MAX_SECTION_SIZE);
    assert!(matches!(high, Err(LayoutError::TooManySections { .. })));
    let high = Layout::new(ADDRESSES - 1..ADDRESSES + 1, 1).unwrap();
    assert_eq!(high.append(plain(1, 1)), Err(AppendError::UidsTooHigh { end: ADDRESSES + 1 }));
    let mut many = layout;
    for _ in 3..limits::MAX_SPACES {
        many = many.append(plain(1, 1)).unwrap().0;
    }
    assert_eq!(many.append(plain(1, 1)), Err(AppendError::TooManySpaces));
}

#[test]
fn ticks_of_a_time() {
    let epoch = CLOCK.epoch_ms;
    for (unix_ms, tick) in [
        (0, 0),
        (epoch, 0),
        (epoch + 1, 1 << 12),
        (epoch + 367_597_485_448, 367_597_485_448 << 12),
        (u64::MAX, Seq::MAX.0),
    ] {
        assert_eq!(CLOCK.tick(unix_ms), Seq(tick), "{unix_ms}");
    }
    let seconds = TickClock { unit_ms: 1_000, seq_bits: 16, lead_ms: 2_500, ..CLOCK };
    for (after_ms, units) in [(0, 0), (999, 0), (1_000, 1), (86_400_999, 86_400)] {
        assert_eq!(seconds.tick(epoch + after_ms), Seq(units << 16), "{after_ms}");
    }
    assert_eq!((CLOCK.lead(), seconds.lead()), (Step(60_000 << 12), Step(3 << 16)));
    assert_eq!(TickClock { lead_ms: u32::MAX, seq_bits: 62, ..CLOCK }.lead(), Step(Seq::MAX.0));
}

#[test]
fn a_ceiling_of_ticks_is_within_the_lead_and_ten_seconds() {
    let now = CLOCK.epoch_ms + 123_456;
    assert_eq!(CLOCK.clamp(now), CLOCK.tick(now + 70_000));
    assert_eq!(CLOCK.clamp(u64::MAX), Seq::MAX);
    assert_eq!(CLOCK.clamp(0), CLOCK.tick(CLOCK.epoch_ms + 70_000), "a clock before the epoch");
    let days = TickClock { unit_ms: 86_400_000, ..CLOCK };
    assert_eq!(days.clamp(now), Seq(2 << 12), "the present day is whole");
}
