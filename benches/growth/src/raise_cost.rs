//! Cost of raises at a store and at its allocator, at the step of the set and at a step that follows the rate.
//!
//! An adaptive step would double while a section is raised more often than twice a second. The scenario has the rates
//! of raises that a thousand sections with 100,000 numbers a second each have at a step of 10,000 (ten a second), and
//! with such a step (two a second). Numbers and steps are a hundredth of those rates, because the scenario measures
//! raises.

use std::io;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use seq_api::service::{DecodedItem, Item};
use seq_core::{Count, Epoch, Layout, Uid};

use crate::Scale;
use crate::measure::median;
use crate::report::{Report, short};
use crate::world::World;

/// Sections of one uid each.
const SECTIONS: u64 = 1_000;
/// Numbers a second of each section.
const RATE: u64 = 1_000;
/// The step of the set: ten raises a second of each section.
const STEP: u64 = RATE / 10;
/// The step to which an adaptive step would grow: two raises a second.
const ADAPTED: u64 = RATE / 2;
/// A step at which no section is raised: the cost of the rest.
const NO_RAISE: u64 = 1 << 32;
/// Time between two batches, each of which takes numbers for all sections.
const TICK: Duration = Duration::from_millis(10);

/// Measures the CPU time of all threads but the one that takes the numbers, with each step in turn.
pub(crate) fn scenario(scale: Scale, report: &mut Report) -> io::Result<()> {
    let (rounds, seconds) = if scale == Scale::Full { (3, 10.0) } else { (1, 0.2) };
    let bar = report.progress("raise cost", rounds);
    let layout = Layout::new(0..SECTIONS, 1).expect("a good layout");
    let worlds = [NO_RAISE, STEP, ADAPTED].map(|step| World::start(layout.clone(), step, 1));
    let mut measured = [const { (Vec::new(), Vec::new()) }; 3];
    for _ in 0..rounds {
        for (world, (cpu, raises)) in worlds.iter().zip(&mut measured) {
            let (used, raised) = load(world, Duration::from_secs_f64(seconds));
            cpu.push(used / seconds);
            raises.push(raised / seconds);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    worlds.into_iter().for_each(World::stop);
    let [(idle, _), (by_step, raises), (by_adapted, fewer)] =
        measured.map(|(cpu, raises)| (median(cpu), median(raises)));
    let of_raises = |cpu: f64| (cpu - idle).max(0.0);
    let row = |what: &str, raises: f64, cpu: f64| {
        let (used, one) = (of_raises(cpu), of_raises(cpu) * 1e6 / raises);
        vec![what.to_owned(), short(raises), format!("{:.1} ms", used * 1e3), format!("{one:.2} us")]
    };
    report.table(
        "Raises: a thousand sections, ten and two raises a second each; the store keeps its log in memory",
        &["step", "raises/s", "CPU a second", "CPU a raise"],
        &[row("of the set", raises, by_step), row("five times as large", fewer, by_adapted)],
    );
    Ok(())
}

/// Takes [`RATE`] numbers a second for each section. Returns the seconds of CPU time of all other threads, and the
/// number of raises.
fn load(world: &World, duration: Duration) -> (f64, f64) {
    let count = Count::new((RATE as f64 * TICK.as_secs_f64()) as u32).expect("a good count");
    let items: Vec<DecodedItem> = (0..SECTIONS).map(|uid| Ok(Item { uid: Uid(uid), count, epoch: Epoch(0) })).collect();
    let mut replies = Vec::with_capacity(items.len());
    let (before, raises, begin) = (others(), world.raises(), Instant::now());
    let mut due = begin;
    while begin.elapsed() < duration {
        world.take(&world.allocators[0], &items, &mut replies);
        due += TICK;
        std::thread::park_timeout(due.saturating_duration_since(Instant::now()));
    }
    (others() - before, (world.raises() - raises) as f64)
}

/// Returns the seconds of CPU time that all threads but this one have used.
fn others() -> f64 {
    let seconds = |clock| {
        let time = clock_gettime(clock);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    seconds(ClockId::ProcessCPUTime) - seconds(ClockId::ThreadCPUTime)
}
