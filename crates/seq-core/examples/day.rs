//! Simulates the raises of one section in a day of 10^12 numbers for 10^9 uids, and in a day of ten times as many.
//!
//! `cargo run --release -p seq-core --example day -- WEIGHTS`. The optional file has one activity on each line, for
//! example the messages of a person in a chat log; uid `k` gets the activity of line `k` modulo the number of lines.
//! Each line of the output has the raises of the section, their ratio to the bound numbers/step, the calls that waited
//! at the ceiling, and the raises of all sections. The sampled uids depend on the seed alone.
//!
//! The core requests a raise as soon as half a step is left below the ceiling. The example commits the raise after as
//! many numbers as a section allocates in 100 ms at the peak (10 ms in the larger day).

use seq_core::{Count, Section, Seq, SlotIndex, Step, Take};

const SECTION_SIZE: u32 = 100_000;
const STEP: Step = Step(10_000);
const SECTIONS: u64 = 10_000;
/// Numbers of a section in a day of 10^12 numbers in [`SECTIONS`] sections.
const NUMBERS: u64 = 100_000_000;
/// Numbers of a section in 100 ms at the peak, which is three times the mean.
const ROUND_TRIP: u64 = 3 * NUMBERS / 864_000;
const SEED: u64 = 1;

fn main() {
    print_days("uniform", |_| 1.0);
    print_days("Zipf 1.0", |uid| 1.0 / f64::from(uid + 1));
    if let Some(file) = std::env::args().nth(1) {
        let text = std::fs::read_to_string(file).expect("a readable file of weights");
        let weights: Vec<f64> = text.lines().map(|line| line.trim().parse().expect("a number on each line")).collect();
        print_days("file", |uid| weights[uid as usize % weights.len()]);
    }
    print_days("one uid", |uid| if uid == 0 { 1.0 } else { 0.0 });
}

/// Prints the raises of a section whose uids have these activities. The larger day continues the smaller one.
fn print_days(name: &str, activity: impl Fn(u32) -> f64) {
    let mut sampler = Sampler::new(&(0..SECTION_SIZE).map(activity).collect::<Vec<_>>());
    let mut raises =
        Raises { section: Section::takeover(SECTION_SIZE, Seq(0), STEP), pending: None, count: 0, waits: 0 };
    for number in 1..=10 * NUMBERS {
        raises.take(sampler.sample(), number);
        if number == NUMBERS || number == 10 * NUMBERS {
            let bound = number / STEP.0;
            println!(
                "{name:<10} {number:>10}: {:>6} raises, {:.5} of {bound}; {} waits; {} writes, {:.1}/s",
                raises.count,
                raises.count as f64 / bound as f64,
                raises.waits,
                raises.count * SECTIONS,
                (raises.count * SECTIONS) as f64 / 86_400.0,
            );
        }
    }
}

/// A section, and its raise in flight: the number before which the raise is committed, and the requested ceiling.
struct Raises {
    section: Section,
    pending: Option<(u64, Seq)>,
    count: u64,
    waits: u64,
}

impl Raises {
    /// Takes the `number`th number of the section.
    fn take(&mut self, slot: SlotIndex, number: u64) {
        if self.pending.is_some_and(|(due, _)| due == number) {
            self.commit(number);
        }
        loop {
            match self.section.take(slot, Count::ONE) {
                Take::Given { ticket: None, .. } => return,
                Take::Given { ticket: Some(_), .. } => return self.request(number),
                Take::AtCeiling { ticket, .. } => {
                    self.waits += 1;
                    if ticket.is_some() {
                        self.request(number);
                    }
                    self.commit(number);
                }
                take => panic!("{take:?}"),
            }
        }
    }

    fn request(&mut self, number: u64) {
        self.pending = self.section.raise_target().map(|ceiling| (number + ROUND_TRIP, ceiling));
        self.count += u64::from(self.pending.is_some());
    }

    fn commit(&mut self, number: u64) {
        let (_, ceiling) = self.pending.take().expect("a raise is in flight");
        if self.section.raised(ceiling).is_some() {
            self.request(number);
        }
    }
}

/// Samples uids by their activities, with Vose's alias method.
struct Sampler {
    /// The probability to keep a uid, in units of 2^-32, and the uid that replaces it otherwise.
    aliases: Vec<(u64, u32)>,
    state: u64,
}

impl Sampler {
    fn new(weights: &[f64]) -> Sampler {
        let scale = weights.len() as f64 / weights.iter().sum::<f64>();
        let mut rest: Vec<f64> = weights.iter().map(|weight| weight * scale).collect();
        let mut aliases: Vec<(u64, u32)> = (0..weights.len() as u32).map(|uid| (1 << 32, uid)).collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            (0..weights.len() as u32).partition(|&uid| rest[uid as usize] < 1.0);
        while let (Some(&to), Some(from)) = (large.last(), small.pop()) {
            aliases[from as usize] = ((rest[from as usize] * (1_u64 << 32) as f64) as u64, to);
            rest[to as usize] -= 1.0 - rest[from as usize];
            if rest[to as usize] < 1.0 {
                small.extend(large.pop());
            }
        }
        Sampler { aliases, state: SEED }
    }

    /// Returns the slot of the next uid: the upper half of a random word selects the entry, the lower half compares.
    fn sample(&mut self) -> SlotIndex {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let word = word ^ (word >> 31);
        let entry = (((word >> 32) * self.aliases.len() as u64) >> 32) as u32;
        let (keep, alias) = self.aliases[entry as usize];
        SlotIndex(if word & 0xffff_ffff < keep { entry } else { alias })
    }
}
