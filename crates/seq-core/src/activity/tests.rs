use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::id::Seq;

const SECOND: u64 = 1_000;

fn numbers(numbers: u64, seconds: u64) -> Figures {
    Figures { numbers, ms: (seconds * SECOND) as u32, ..Figures::default() }
}

fn level(count: u64, seconds: u64) -> u8 {
    Level::of(count, seconds * SECOND).0
}

fn entered(sections: &[u32]) -> Activity {
    let mut activity = Activity::default();
    activity.close_until(0);
    sections.iter().for_each(|section| activity.enter(SectionId(*section), true));
    activity
}

fn levels_of(activity: &Activity, layer: Layer, resolution: Resolution, section: u32) -> Vec<u8> {
    let history = activity.columns(layer, resolution, 0).history(SectionId(section), 1);
    if history.sections != [SectionId(section)] {
        return Vec::new();
    }
    history.columns.iter().map(|column| column.levels[0].0).collect()
}

fn levels(activity: &Activity, resolution: Resolution, section: u32) -> Vec<u8> {
    levels_of(activity, Layer::Numbers, resolution, section)
}

#[derive(Clone, Debug)]
enum Op {
    Pass(u64),
    Enter(u32, bool),
    Record(u32, Figures),
    Leave(u32),
}

/// Keeps every operation with its time, and computes each column from all of them.
#[derive(Default)]
struct Twin(Vec<(u64, Op)>);

impl Twin {
    /// Returns the begins of the closed columns that are kept.
    fn columns(&self, resolution: Resolution) -> Vec<u64> {
        let period = u64::from(resolution.period_ms());
        let mut begins: Vec<u64> = self.0.iter().map(|(at, _)| at / period * period).collect();
        begins.dedup();
        begins.pop();
        begins.split_off(begins.len().saturating_sub(resolution.columns()))
    }

    /// Returns the level of a section in the column that began at a time.
    fn level(&self, layer: Layer, resolution: Resolution, begin: u64, section: u32) -> Level {
        let period = u64::from(resolution.period_ms());
        let (mut sum, mut last) = (Figures::default(), Figures::default());
        let (mut is_here, mut counts, mut in_part) = (false, false, false);
        for (at, op) in self.0.iter().take_while(|(at, _)| *at < begin + period) {
            let is_now = *at >= begin;
            match op {
                Op::Enter(of, with_numbers) if *of == section => {
                    (is_here, counts, last) = (true, *with_numbers, Figures::default());
                    in_part |= is_now;
                }
                Op::Leave(of) if *of == section && is_here => {
                    is_here = false;
                    in_part |= is_now;
                }
                Op::Record(of, figures) if *of == section && is_here => {
                    last = *figures;
                    if is_now {
                        sum.numbers += figures.numbers;
                        sum.writes += figures.writes;
                        sum.ms += figures.ms;
                    }
                }
                _ => {}
            }
        }
        match sum.ms {
            _ if layer == Layer::Numbers && !counts => Level::NO_RECORD,
            0 if is_here => last.level(layer),
            0 => Level::NO_RECORD,
            _ if in_part => Figures { ms: sum.ms.max(resolution.period_ms()), ..sum }.level(layer),
            _ => sum.level(layer),
        }
    }
}

fn op() -> impl Strategy<Value = Op> {
    let section = || 0..4_u32;
    let figures = (0..5_000_u64, 0..9_u32, 1..9_000_u32);
    prop_oneof![
        4 => (0..20_000_u64).prop_map(Op::Pass),
        1 => (0..2_000_000_u64).prop_map(Op::Pass),
        3 => (section(), prop::bool::weighted(0.8)).prop_map(|(section, counts)| Op::Enter(section, counts)),
        9 => (section(), figures).prop_map(|(section, (numbers, writes, ms))| {
            Op::Record(section, Figures { numbers, writes, raised: 0, ms })
        }),
        2 => section().prop_map(Op::Leave),
    ]
}

proptest! {
    #[test]
    fn columns_are_as_computed_from_all_operations(ops in prop::collection::vec(op(), 1..120)) {
        let (mut activity, mut twin, mut now) = (Activity::default(), Twin::default(), 0);
        let mut here = [false; 4];
        activity.close_until(now);
        twin.0.push((now, Op::Pass(0)));
        for op in ops {
            match op {
                Op::Pass(ms) => now += ms,
                // The reader enters no section twice, and records and leaves only entered sections.
                Op::Enter(section, _) if here[section as usize] => continue,
                Op::Record(section, _) | Op::Leave(section) if !here[section as usize] => continue,
                _ => {}
            }
            activity.close_until(now);
            match op {
                Op::Pass(_) => {}
                Op::Enter(section, counts) => {
                    here[section as usize] = true;
                    activity.enter(SectionId(section), counts);
                }
                Op::Record(section, figures) => activity.record(SectionId(section), figures),
                Op::Leave(section) => {
                    here[section as usize] = false;
                    activity.leave(SectionId(section));
                }
            }
            twin.0.push((now, op));
        }
        for layer in Layer::ALL {
            for resolution in Resolution::ALL {
                let history = activity.columns(layer, resolution, 0).history(SectionId(0), 9);
                let begins: Vec<u64> = history.columns.iter().map(|column| column.since_ms).collect();
                prop_assert_eq!(&begins, &twin.columns(resolution));
                for section in 0..4 {
                    let place = history.sections.iter().position(|listed| listed.0 == section);
                    for column in &history.columns {
                        let found = place.map_or(Level::NO_RECORD, |place| column.levels[place]);
                        let expected = twin.level(layer, resolution, column.since_ms, section);
                        prop_assert_eq!(found, expected, "{:?} {:?} {} {}", layer, resolution, column.since_ms, section);
                    }
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn a_level_is_near_its_rate(a_minute in 1..1_400_000_000_u64) {
        let middle = Level::of(a_minute, 60_000).a_minute().unwrap() as f64;
        let error = (middle / a_minute as f64).max(a_minute as f64 / middle);
        // The middles of the lowest levels are rounded to whole numbers.
        prop_assert!(error <= if a_minute < 20 { 1.5 } else { 1.2 }, "{a_minute} is level of {middle}");
    }

    #[test]
    fn levels_rise_with_rates(low in 0..u64::MAX, high in 0..u64::MAX, ms in 1..u64::MAX) {
        let (low, high) = (low.min(high), low.max(high));
        prop_assert!(Level::of(low, ms).0 <= Level::of(high, ms).0);
        prop_assert_eq!(Level::of(low, ms) == Level::NONE, low == 0);
        prop_assert!(Level::of(high, ms).0 <= Level::HIGHEST.0);
    }
}

#[test]
fn levels_are_half_octaves() {
    let level = |a_minute| Level::of(a_minute, 60_000).0;
    assert_eq!([0, 1, 2, 4, 1_024, 1 << 30, u64::MAX].map(level), [0, 1, 3, 5, 21, 61, 62]);
    assert_eq!(Level::of(1, 900_000), Level(1), "less than one a minute");
    assert_eq!(
        [0, 1, 3, 21, 22, 255].map(|level| Level(level).a_minute()),
        [Some(0), Some(1), Some(2), Some(1_024), Some(1_448), None]
    );
    assert_eq!(Level::NO_RECORD.max(Level(0)), Level(0));
    assert_eq!(Level(3).max(Level(2)), Level(3));
}

#[test]
fn a_section_has_a_level_for_each_period() {
    let mut activity = entered(&[7]);
    for second in 1..=40 {
        activity.close_until(second * SECOND);
        activity.record(SectionId(7), numbers(if second <= 20 { 100 } else { 0 }, 1));
    }
    // A record at the begin of a column covers the second before.
    let busy = level(100, 1);
    assert_eq!(levels(&activity, Resolution::Fine, 7), [level(400, 5), busy, busy, busy, level(100, 5), 0, 0, 0]);
    assert_eq!(levels(&activity, Resolution::Middle, 7), [level(2_000, 30)]);
    assert_eq!(levels_of(&activity, Layer::Writes, Resolution::Middle, 7), [0]);
    let later = activity.columns(Layer::Numbers, Resolution::Fine, 10 * SECOND).history(SectionId(0), 9);
    assert_eq!(later.columns[0].since_ms, 10 * SECOND);
    assert_eq!(activity.figures(SectionId(7)), Some(numbers(0, 5)));
}

#[test]
fn a_pass_that_is_longer_than_a_column_fills_all_of_them() {
    let mut activity = entered(&[0]);
    for pass in 1..=4 {
        for second in 1..=25 {
            activity.close_until(((pass - 1) * 25 + second) * SECOND);
        }
        activity.record(SectionId(0), numbers(2_500, 25));
    }
    activity.close_until(105 * SECOND);
    // The first 25 s have no record.
    assert_eq!(levels(&activity, Resolution::Fine, 0), [[255; 5].as_slice(), &[level(100, 1); 16]].concat());
    let figures = activity.all_figures(Layer::Numbers);
    assert_eq!(top(figures, Layer::Numbers, 3), [(SectionId(0), numbers(2_500, 25))]);
}

#[test]
fn a_section_that_left_keeps_its_columns_and_has_no_more() {
    let mut activity = entered(&[1, 2]);
    activity.record(SectionId(1), numbers(5, 1));
    activity.record(SectionId(2), numbers(5, 1));
    activity.leave(SectionId(1));
    assert_eq!(activity.figures(SectionId(1)), None);
    assert_eq!(activity.all_figures(Layer::Numbers).len(), 1);
    for second in 1..=1_000 {
        activity.close_until(second * SECOND);
        activity.record(SectionId(2), numbers(5, 1));
        if second == 20 {
            assert_eq!(levels(&activity, Resolution::Fine, 1), [level(5, 5), 255, 255, 255]);
        }
    }
    assert_eq!(levels(&activity, Resolution::Fine, 1), []);
    assert_eq!(levels(&activity, Resolution::Coarse, 1), [level(5, 900)]);
    assert_eq!(activity.sections.len(), 1, "it is forgotten once its columns are closed");
}

#[test]
fn the_rates_of_two_owners_of_a_column_add_up() {
    let (mut old, mut new) = (entered(&[3]), entered(&[]));
    old.record(SectionId(3), numbers(3_000, 3));
    old.leave(SectionId(3));
    new.enter(SectionId(3), true);
    new.record(SectionId(3), numbers(2_000, 2));
    for activity in [&mut old, &mut new] {
        activity.close_until(5 * SECOND);
    }
    let rates = [&old, &new].map(|activity| levels(activity, Resolution::Fine, 3));
    assert_eq!(rates, [[level(600, 1)], [level(400, 1)]]);
    assert_eq!(new.figures(SectionId(3)), Some(numbers(2_000, 5)));
}

#[test]
fn the_highest_rates_come_first() {
    let mut activity = entered(&[0, 1, 2, 3, 4]);
    for (section, count, seconds) in [(0, 50, 1), (1, 60, 2), (2, 0, 1), (3, 900, 5), (4, 50, 1)] {
        activity.record(SectionId(section), numbers(count, seconds));
    }
    let first = top(activity.all_figures(Layer::Numbers), Layer::Numbers, 3);
    assert_eq!(first.iter().map(|(section, _)| section.0).collect::<Vec<_>>(), [3, 0, 4]);
    assert_eq!(activity.all_figures(Layer::Numbers).len(), 4, "a section at rest is left out");
    assert_eq!(activity.all_figures(Layer::Writes), []);
    let raised = Figures { writes: 1, raised: 10_000, ms: 1_000, ..Figures::default() };
    activity.record(SectionId(2), raised);
    assert_eq!(activity.all_figures(Layer::Writes), [(SectionId(2), raised)]);
}

#[test]
fn a_section_whose_numbers_are_not_counted_has_writes_only() {
    let mut activity = entered(&[]);
    activity.enter(SectionId(5), false);
    activity.record(SectionId(5), Figures { writes: 2, ms: 5_000, ..Figures::default() });
    activity.close_until(5 * SECOND);
    assert_eq!(levels(&activity, Resolution::Fine, 5), []);
    assert_eq!(levels_of(&activity, Layer::Writes, Resolution::Fine, 5), [level(2, 5)]);
}

#[test]
fn sections_are_listed_in_pages() {
    let mut activity = entered(&[3, 9, 40_000]);
    for section in [3, 9, 40_000] {
        activity.record(SectionId(section), numbers(1, 1));
    }
    activity.close_until(5 * SECOND);
    let columns = activity.columns(Layer::Numbers, Resolution::Fine, 0);
    let first = columns.history(SectionId(0), 2);
    assert_eq!((first.sections, first.next), (vec![SectionId(3), SectionId(9)], Some(SectionId(40_000))));
    let second = columns.history(SectionId(40_000), 2);
    assert_eq!((second.sections.len(), second.next), (1, None));
    let none = Activity::default().columns(Layer::Numbers, Resolution::Coarse, 0);
    assert_eq!(none.history(SectionId(0), 2).sections, []);
}

#[test]
fn neighbours_share_a_place_in_a_large_layout() {
    let mut activity = entered(&[0, 1, 2 * MAX_PLACES - 1]);
    activity.record(SectionId(0), numbers(1, 5));
    activity.record(SectionId(1), numbers(900, 5));
    activity.record(SectionId(2 * MAX_PLACES - 1), numbers(1, 5));
    activity.close_until(5 * SECOND);
    assert_eq!([0, 1].map(|section| levels(&activity, Resolution::Fine, section)), [[level(900, 5)], [level(900, 5)]]);
}

#[test]
fn resolutions_reach_back() {
    use Resolution::{Coarse, Fine, Middle};
    let reached = [0, 300_000, 300_001, 3_600_000, 3_600_001, u64::MAX].map(Resolution::reaching);
    assert_eq!(reached, [Fine, Fine, Middle, Middle, Coarse, Coarse]);
}

#[test]
fn the_last_raises_are_kept() {
    let mut raises = RaiseRing::default();
    let raised = |at: u64| Raised {
        section: SectionId((at % 3) as u32),
        took_us: 1_900,
        requested_ms: at,
        from: Seq(at),
        to: Seq(at + 1),
    };
    (0..30_000).for_each(|at| raises.push(raised(at)));
    let kept = |limit| raises.of(SectionId(1), limit).iter().map(|raised| raised.requested_ms).collect::<Vec<_>>();
    assert_eq!(kept(2), [29_995, 29_998]);
    assert_eq!((kept(usize::MAX).len(), kept(usize::MAX)[0]), (5_461, 13_618));
    assert_eq!(raises.of(SectionId(3), 9), []);
}

/// Checks the memory of full rings, with levels that scatter as in a cluster under load.
#[test]
fn full_rings_take_less_than_150_bytes_a_section() {
    let mut random = 7_u64;
    let mut draw = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for (owned, every, most) in [(42_950_u32, 1, 150), (430, 100, 1_400)] {
        let mut activity = Activity::default();
        (0..owned).for_each(|section| activity.enter(SectionId(section * every), true));
        for turn in 0..=4 {
            activity.close_until(turn * u64::from(Resolution::Coarse.period_ms()));
            for section in 0..owned {
                let rate = 100 << (section % 4);
                let writes = u32::from(draw().is_multiple_of(16));
                let figures = Figures { writes, raised: 0, ..numbers(rate + draw() % rate, 1) };
                activity.record(SectionId(section * every), figures);
            }
        }
        let columns = activity.rings.iter().flat_map(|ring| &ring.columns[0]).count();
        let column = activity.column_bytes() / columns;
        let full: usize = Resolution::ALL.iter().map(|resolution| resolution.columns() * column).sum();
        let section = full / owned as usize;
        assert!(section <= most, "{section} bytes for each of {owned} sections");
    }
}
