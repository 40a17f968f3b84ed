//! The scenarios: scaling over uids, sections, allocators and steps.

use std::io;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use seq_alloc::Allocator;
use seq_core::Layout;

use crate::Scale;
use crate::measure::{self, Random};
use crate::memory;
use crate::plot::Plot;
use crate::report::{Report, short};
use crate::world::{World, ask};

/// The step of the set files.
const STEP: u64 = 10_000;
/// The largest step: no section is raised.
const NO_RAISE: u64 = 1 << 32;
/// Limit on the cost of a number above the smallest case, in cache misses of the bare array: the section, its page and
/// the slot are three reads, the array has one.
const MOST_MISSES: f64 = 3.0;

fn rate(numbers: u64, seconds: f64) -> f64 {
    numbers as f64 / seconds
}

/// Numbers per second of one core with 10^3 to 10^8 touched uids, in sections of 100,000.
pub(crate) fn uids(scale: Scale, report: &mut Report) -> io::Result<()> {
    let (most, numbers) = if scale == Scale::Full { (8, 4_000_000) } else { (5, 20_000) };
    let powers: Vec<u64> = (3..=most).map(|power| 10_u64.pow(power)).collect();
    let bar = report.progress("uids", powers.len());
    let widest = powers[powers.len() - 1];
    let layout = Layout::new(0..widest, memory::SECTION_SIZE).expect("a good layout");
    let world = World::start(layout.clone(), STEP, 1);
    let (mut rows, mut lines) = (Vec::new(), [const { Vec::new() }; 3]);
    let mut touched = 0;
    for &uids in &powers {
        measure::touch(&world, touched..uids);
        touched = uids;
        let array = measure::array(uids);
        let sections = memory::sections(uids);
        memory::touch(&sections);
        let times = measure::in_turn(&mut [
            &mut || measure::bare(&array, numbers),
            &mut || measure::sections(&layout, &sections, uids, numbers),
            &mut || {
                let mut random = Random::new();
                measure::batches(&world, &world.allocators[0], numbers, || random.below(uids)).0
            },
        ]);
        push(&mut rows, &mut lines, uids, numbers, &times);
        bar.inc(1);
    }
    bar.finish_and_clear();
    world.stop();
    let ns = |line: &[(f64, f64)]| 1e9 / line[line.len() - 1].1 - 1e9 / line[0].1;
    let miss = ns(&lines[0]);
    report.goal(format!("misses more a number with {widest} uids than with 1,000"), ns(&lines[2]) / miss, MOST_MISSES);
    report.table(
        &format!(
            "Uids: numbers/s of one core, batches of {} through the allocator; a miss costs {miss:.1} ns",
            measure::BATCH
        ),
        &["touched uids", "bare array", "locate and take, one by one", "allocator", "allocator of bare"],
        &rows,
    );
    report.draw("uids", &rates("Numbers of one core over touched uids", "touched uids", lines))
}

/// Numbers per second of one core with 4.3 million touched uids in 1 to 42,950 sections.
pub(crate) fn sections(scale: Scale, report: &mut Report) -> io::Result<()> {
    let (uids, counts, numbers): (u64, &[u64], u64) = match scale {
        Scale::Full => (4_295_000, &[1, 10, 100, 1_000, 10_000, 42_950], 4_000_000),
        Scale::Smoke => (10_000, &[1, 100], 20_000),
    };
    let bar = report.progress("sections", counts.len());
    let array = measure::array(uids);
    let (mut rows, mut lines) = (Vec::new(), [const { Vec::new() }; 3]);
    for &count in counts {
        let layout = Layout::new(0..uids, uids.div_ceil(count) as u32).expect("a good layout");
        let sections = memory::sections_of(&layout);
        memory::touch(&sections);
        let started = Instant::now();
        let world = World::start(layout.clone(), STEP, 1);
        let started = started.elapsed();
        measure::touch(&world, 0..uids);
        let times = measure::in_turn(&mut [
            &mut || measure::bare(&array, numbers),
            &mut || measure::sections(&layout, &sections, uids, numbers),
            &mut || {
                let mut random = Random::new();
                measure::batches(&world, &world.allocators[0], numbers, || random.below(uids)).0
            },
        ]);
        world.stop();
        push(&mut rows, &mut lines, u64::from(layout.sections()), numbers, &times);
        rows.last_mut().expect("just pushed").push(format!("{:.2} s", started.as_secs_f64()));
        bar.inc(1);
    }
    bar.finish_and_clear();
    let (first, last) = (lines[2][0].1, lines[2][lines[2].len() - 1].1);
    report.goal("cost of a number with the most sections beside one section", first / last, MOST_MISSES);
    report.table(
        "Sections: numbers/s of one core, the same touched uids",
        &[
            "sections",
            "bare array",
            "locate and take, one by one",
            "allocator",
            "allocator of bare",
            "start to all owned",
        ],
        &rows,
    );
    report.draw("sections", &rates("Numbers of one core over sections", "sections", lines))
}

/// One to sixteen allocators in one process, each with its own uids, loaded by one thread and by two.
pub(crate) fn allocators(scale: Scale, report: &mut Report) -> io::Result<()> {
    let (counts, numbers): (&[usize], u64) =
        if scale == Scale::Full { (&[1, 2, 4, 8, 16], 4_000_000) } else { (&[1, 2], 20_000) };
    let bar = report.progress("allocators", counts.len());
    let (mut rows, mut lines) = (Vec::new(), [const { Vec::new() }; 2]);
    for &count in counts {
        let world = World::start(Layout::new(0..1_600_000, 1_000).expect("a good layout"), STEP, count);
        let owned: Vec<Vec<u64>> = world.allocators.iter().map(|allocator| world.owned_by(allocator)).collect();
        assert!(owned.iter().all(|firsts| !firsts.is_empty()), "every allocator owns some sections");
        let all = || drive(&world, &owned, numbers);
        all();
        let times = measure::in_turn(&mut [&mut || all(), &mut || {
            let start = Instant::now();
            std::thread::scope(|scope| {
                let other = scope.spawn(all);
                all();
                other.join().expect("no panic");
            });
            start.elapsed()
        }]);
        world.stop();
        let (one, two) = (rate(numbers, times[0]), rate(2 * numbers, times[1]));
        rows.push(vec![count.to_string(), short(one), short(two)]);
        lines[0].push((count as f64, one));
        lines[1].push((count as f64, two));
        bar.inc(1);
    }
    bar.finish_and_clear();
    let (first, last) = (lines[0][0].1, lines[0][counts.len() - 1].1);
    report.goal("cost of a number with the most allocators beside one", first / last, 1.5);
    report.table("Allocators in one process: numbers/s", &["allocators", "one thread", "two threads"], &rows);
    let [one, two] = lines;
    report.draw(
        "allocators",
        &Plot {
            title: "Allocators in one process",
            x: "allocators",
            y: "numbers/s",
            log_y: false,
            lines: vec![("one thread", one), ("two threads", two)],
        },
    )
}

/// Sends batches to the allocators in turn, each of its own uids.
fn drive(world: &World, owned: &[Vec<u64>], numbers: u64) -> Duration {
    let share = numbers / owned.len() as u64;
    let size = u64::from(world.layout.section_size());
    let start = Instant::now();
    let mut random = Random::new();
    for (allocator, firsts) in world.allocators.iter().zip(owned) {
        let uid = || firsts[random.below(firsts.len() as u64) as usize] + random.below(size);
        measure::batches(world, allocator, share, uid);
    }
    start.elapsed()
}

/// Ten hot uids, each alone in its section: every number counts towards a raise, which gives the highest rate of
/// raises.
pub(crate) fn steps(scale: Scale, report: &mut Report) -> io::Result<()> {
    let (steps, numbers): (&[u64], u64) = match scale {
        Scale::Full => (&[100, 1_000, 10_000, 100_000, 1_000_000], 5_000_000),
        Scale::Smoke => (&[1_000, 10_000], 20_000),
    };
    let bar = report.progress("steps", steps.len() + 1);
    let (mut rows, mut raising, mut tail, mut speed) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let layout = Layout::new(0..HOT, 1).expect("a good layout");
    // Warm-up: every section has its first ceiling before the measurement.
    let warm = |world: World| {
        singles(&world, 100 * HOT);
        world
    };
    let quiet = warm(World::start(layout.clone(), NO_RAISE, 1));
    bar.inc(1);
    for &step in steps {
        let world = warm(World::start(layout.clone(), step, 1));
        let (mut with, mut without, mut waited, mut seconds) = (Vec::new(), Vec::new(), Duration::ZERO, Vec::new());
        let before = world.raises();
        for _ in 0..ROUNDS {
            without.push(singles(&quiet, numbers).p999_ns);
            let one = singles(&world, numbers);
            with.push(one.p999_ns);
            waited += one.waited;
            seconds.push(one.took.as_secs_f64());
        }
        let raises = (world.raises() - before) as f64;
        world.stop();
        let taken = (numbers * ROUNDS as u64) as f64;
        let (with, without) = (measure::median(with), measure::median(without));
        let per_second = raises / seconds.iter().sum::<f64>();
        let most = taken / step as f64 + HOT as f64;
        rows.push(vec![
            short(step as f64),
            short(rate(numbers, measure::median(seconds.clone()))),
            short(per_second),
            format!("{:.2}", raises / most),
            format!("{with:.0} ns"),
            format!("{:.2}", with / without),
            format!("{:.1} ms", waited.as_secs_f64() * 1e3),
        ]);
        raising.push((step as f64, per_second.max(0.1)));
        tail.push((step as f64, with));
        speed.push((step as f64, rate(numbers, measure::median(seconds))));
        if step == STEP {
            report.goal("raises of numbers/step and sections, step 10,000", raises / most, 1.0);
            report.goal("p99.9 with step 10,000 of p99.9 without a raise", with / without, 1.1);
            report.goal("seconds that calls waited at a ceiling, step 10,000", waited.as_secs_f64(), 0.0);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    quiet.stop();
    report.table(
        "Steps: single calls to ten hot uids, each alone in its section; the store keeps its log in memory",
        &["step", "numbers/s", "raises/s", "raises of the most allowed", "p99.9", "of p99.9 without a raise", "waited"],
        &rows,
    );
    let plot = |title, y, lines| Plot { title, x: "step", y, log_y: true, lines };
    report.draw(
        "raises",
        &plot("Ceiling raises over the step", "a second", vec![("raises", raising), ("numbers", speed)]),
    )?;
    report.draw("p999", &plot("p99.9 of a call over the step", "ns", vec![("p99.9", tail)]))
}

/// Hot uids of the scenario over steps.
const HOT: u64 = 10;
/// Rounds in which a world with raises and one without are measured in turn.
const ROUNDS: usize = 3;

struct Singles {
    took: Duration,
    waited: Duration,
    p999_ns: f64,
}

/// Allocates one number a call, and times each call.
fn singles(world: &World, numbers: u64) -> Singles {
    let allocator: &Allocator = &world.allocators[0];
    let mut replies = Vec::with_capacity(1);
    let mut random = Random::new();
    let mut times = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).expect("good bounds");
    let mut waited = Duration::ZERO;
    let begin = Instant::now();
    let mut before = begin;
    for _ in 0..numbers {
        waited += world.take(allocator, &[ask(random.below(HOT))], &mut replies);
        let now = Instant::now();
        times.saturating_record((now - before).as_nanos() as u64);
        before = now;
    }
    Singles { took: begin.elapsed(), waited, p999_ns: times.value_at_quantile(0.999) as f64 }
}

type Lines = [Vec<(f64, f64)>; 3];

/// Adds the measurement at `x` to a table and to the lines of a plot.
fn push(rows: &mut Vec<Vec<String>>, lines: &mut Lines, x: u64, numbers: u64, times: &[f64]) {
    let rates: Vec<f64> = times.iter().map(|seconds| rate(numbers, *seconds)).collect();
    let mut row = vec![short(x as f64)];
    row.extend(rates.iter().map(|rate| short(*rate)));
    row.push(format!("{:.2}", rates[2] / rates[0]));
    rows.push(row);
    for (line, rate) in lines.iter_mut().zip(rates) {
        line.push((x as f64, rate));
    }
}

fn rates(title: &'static str, x: &'static str, lines: Lines) -> Plot {
    let [bare, sections, front] = lines;
    let lines = vec![("bare array", bare), ("locate and take, one by one", sections), ("allocator, batches", front)];
    Plot { title, x, y: "numbers/s of one core", log_y: false, lines }
}
