use proptest::prelude::*;
use seq_core::activity::{Layer, Resolution};
use seq_core::section::{Advance, AnyCopy};
use seq_core::{AdvanceLimit, Count, Epoch, Section, Seq, SlotIndex, Step, Take, Target};

use super::*;
use crate::ownership::{Served, Start};

/// More pages than a slice reads.
const UIDS: u32 = 40_960;

const ID: SectionId = SectionId(3);

fn clocks(ms: u64) -> Clocks {
    Clocks { boottime: ms * 1_000_000, raw: 0, realtime: 0 }
}

fn owned(epoch: u64, section: Section, ms: u64) -> Arc<OwnedSection> {
    let _ = section.raised(Seq(1 << 50));
    OwnedSection::new((ID, Epoch(epoch)), None, section, (ms * 1_000_000, Start::Exact))
}

fn copied(copy: &AnyCopy) -> Section {
    let AnyCopy::Slots(copy) = copy else { panic!("a section of uids has no keys") };
    Section::handed_over(UIDS, copy, Seq(1 << 50), Step(10)).unwrap()
}

fn take(owned: &Arc<OwnedSection>, slot: u32, count: u32) -> bool {
    matches!(Served::unleased(owned).take(SlotIndex(slot), Count::new(count).unwrap()), Take::Given { .. })
}

fn table(owned: &Arc<OwnedSection>) -> Table {
    Table::of([owned.clone()], owned.began)
}

#[derive(Clone, Debug)]
enum Op {
    Take(u32, u32),
    Advance(u32, u64),
    Raise(u64),
    Handover,
    Thaw,
    Takeover,
    Slice,
    Sweep,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..UIDS, 1..1_000_u32).prop_map(|(slot, count)| Op::Take(slot, count)),
        4 => (0..UIDS, 1..1_000_000_u64).prop_map(|(slot, to)| Op::Advance(slot, to)),
        2 => (1..10_000_u64).prop_map(Op::Raise),
        1 => Just(Op::Handover),
        1 => Just(Op::Thaw),
        1 => Just(Op::Takeover),
        6 => Just(Op::Slice),
        2 => Just(Op::Sweep),
    ]
}

/// Reads to the end of a pass, and once more.
fn read_all(reader: &mut Reader, activity: &NodeActivity, table: &Table, now: Clocks) {
    while !reader.slice(activity, table, now).is_last {}
    reader.end_pass();
    while !reader.slice(activity, table, now).is_last {}
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Compares the numbers and raises that the reader records with a count of the calls, over changes of the owner.
    #[test]
    fn every_number_and_raise_is_recorded_once(ops in prop::collection::vec(op(), 1..60)) {
        let (activity, mut reader) = (NodeActivity::new(clocks(0)), Reader::default());
        let (mut epoch, mut ms) = (1, 1);
        let mut section = owned(epoch, Section::takeover(UIDS, Seq(5_000), Step(10)), ms);
        let (mut taken, mut raised) = (0_u64, (0_u32, 0_u64));
        // Touched, so that slices end within the section.
        for page in 0..UIDS / 2_048 {
            assert!(take(&section, page * 2_048, 1));
            taken += 1;
        }
        for op in ops {
            ms += 1;
            match op {
                Op::Take(slot, count) => taken += if take(&section, slot, count) { u64::from(count) } else { 0 },
                Op::Advance(slot, to) => {
                    let to = Target::new(5_000 + to).unwrap();
                    let advanced = Served::unleased(&section).advance(SlotIndex(slot), to, AdvanceLimit(1 << 40));
                    let is_known = matches!(advanced, Advance::Done { .. } | Advance::Past);
                    prop_assert!(is_known, "{:?}", advanced);
                }
                Op::Raise(distance) => {
                    activity.raised(std::iter::once((ID, (Seq(7), Seq(7 + distance)))), clocks(ms), clocks(ms));
                    raised = (raised.0 + 1, raised.1 + distance);
                }
                Op::Handover | Op::Thaw => {
                    // A section that came and left within a second has no record.
                    reader.sweep(&activity, &table(&section), clocks(ms));
                    epoch += u64::from(matches!(op, Op::Handover));
                    section = owned(epoch, copied(&section.freeze()), ms);
                }
                Op::Takeover => {
                    // The numbers since the last pass would not be known.
                    read_all(&mut reader, &activity, &table(&section), clocks(ms));
                    epoch += 1;
                    section = owned(epoch, Section::takeover(UIDS, Seq(5_000), Step(10)), ms);
                }
                Op::Slice => {
                    reader.slice(&activity, &table(&section), clocks(ms));
                }
                Op::Sweep => reader.sweep(&activity, &table(&section), clocks(ms)),
            }
        }
        read_all(&mut reader, &activity, &table(&section), clocks(ms + 1));
        prop_assert!(reader.take_violations().is_empty());
        activity.close_until(clocks(5_000));
        let figures = activity.recorded.lock().activity.figures(ID).unwrap();
        prop_assert_eq!((figures.numbers, figures.ms), (taken, 5_000));
        prop_assert_eq!((figures.writes, figures.raised), raised);
    }
}

#[test]
fn a_slice_ends_within_a_section_and_a_pass_after_the_last_one() {
    let (activity, mut reader) = (NodeActivity::new(clocks(0)), Reader::default());
    let section = owned(1, Section::takeover(UIDS, Seq(0), Step(10)), 0);
    for page in 0..UIDS / 2_048 {
        assert!(take(&section, page * 2_048, 2));
    }
    let first = reader.slice(&activity, &table(&section), clocks(1));
    assert!(!first.is_last && first.bytes < SLICE + 16_384, "{first:?}");
    assert_eq!(activity.recorded.lock().activity.figures(ID), None, "the section is not complete");
    let second = reader.slice(&activity, &table(&section), clocks(2));
    assert!(second.is_last, "{second:?}");
    assert_eq!(first.bytes + second.bytes, u64::from(UIDS) * 8 + SECTION_BYTES);
    assert_eq!(reader.end_pass(), u64::from(UIDS) * 8);
    assert_eq!(activity.recorded.lock().activity.figures(ID).unwrap().numbers, 40);
}

#[test]
fn a_section_that_left_is_dropped_and_has_its_exact_numbers() {
    let (activity, mut reader) = (NodeActivity::new(clocks(0)), Reader::default());
    let section = owned(1, Section::takeover(UIDS, Seq(0), Step(10)), 0);
    reader.slice(&activity, &table(&section), clocks(1_000));
    assert!(take(&section, 7, 500));
    let _ = section.freeze();
    assert!(!take(&section, 7, 1));
    let weak = Arc::downgrade(&section);
    drop(section);
    reader.sweep(&activity, &Table::of([], 2), clocks(1_500));
    assert!(weak.upgrade().is_none(), "its slots are freed");
    activity.close_until(clocks(5_000));
    let columns = activity.recorded.lock().activity.columns(Layer::Numbers, Resolution::Fine, 0);
    let history = columns.history(ID, 1);
    assert_eq!(history.sections, [ID]);
    let rate = Figures { numbers: 500, ms: 5_000, ..Figures::default() };
    assert_eq!(history.columns[0].levels, [rate.level(Layer::Numbers)]);
}
