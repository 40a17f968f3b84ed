//! Two sets: migrations between them, and restores of each from a backup, broken by a seed.
//!
//! The machines of `seq-core` run as they are: a `State` with its `Arbiter` and its `Coordinator` in each set, `Owner`,
//! `Section` and `Lease` in AllocSvrs. What the worlds of one set are for is simpler here: clocks are true, a process
//! takes each step at once, and a call reaches any process that serves its section, also one of an older lineage.
//!
//! **Invariant:** as in a world of one set, a seed makes everything.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use seq_core::state::{SectionRecord, SetDefinition, State};
use seq_core::{Epoch, Layout, SectionId, Seq};
use seq_order::{Outcome, Reading};

use crate::bugs::Bug;
use crate::check::Check;
use crate::coverage::Coverage;
use crate::faults::{MS, SECOND, Weather};
use crate::hosts::{index_of as index, set_id};
use crate::rng::Rng;
use crate::trace::Trace;

mod calls;
mod faults;
mod handover;
mod planted;
mod process;
mod recovery;
mod store;

use calls::Call;
pub(crate) use faults::Fault;
use process::{Message, Process};
use store::{Between, Entry, Request, Set};

/// Number of sets.
const SETS: usize = 2;

/// AllocSvrs of each set.
const NAMES: usize = 2;

/// Uids in a section.
const SECTION_SIZE: u32 = 2;

/// Sections. The first half begins in the first set.
const SECTIONS: u32 = 4;

const UIDS: u64 = (SECTIONS * SECTION_SIZE) as u64;

/// When the last fault is over.
const FAULTS_END: u64 = 16 * SECOND;

/// How long after that every section is served: a quarantine, a lease wait, and the repeats of what was lost.
const LIVENESS_BOUND: u64 = 15 * SECOND;

/// How long each uid's probe may take then.
const PROBE_TIME: u64 = 3 * SECOND;

/// Far more events than a run has.
const MOST_EVENTS: u64 = 600_000;

/// Something that happens.
#[derive(Debug)]
enum Event {
    /// An entry of a set's log is applied, unless a restore has replaced the log.
    Apply(usize, u64, Box<Entry>),
    Request(usize, usize, u64, Request),
    Message(usize, Message),
    Between(usize, Between),
    Evaluate(usize),
    Tick(usize),
    Start(usize, usize),
    NextCall,
    Arrive(Call),
    Return(Call, Outcome),
    ReturnRead(Call, Reading),
    Begin(usize),
    Over(usize),
    Heal,
    Probe,
    End,
}

#[derive(Debug)]
struct Queued(u64, u64, Event);

impl PartialEq for Queued {
    fn eq(&self, other: &Queued) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}

impl Eq for Queued {}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Queued) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Queued {
    fn cmp(&self, other: &Queued) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

/// The world.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) now: u64,
    rng: Rng,
    bug: Option<Bug>,
    queue: BinaryHeap<Reverse<Queued>>,
    numbers: u64,
    layout: Layout,
    sets: [Set; SETS],
    procs: Vec<Process>,
    /// The newest process of each name.
    newest: [[Option<usize>; NAMES]; SETS],
    pub(crate) faults: Vec<Fault>,
    loss: u64,
    duplicates: u64,
    slow_ms: u64,
    /// Until when messages between the sets are lost or late.
    divided_until: u64,
    /// The highest ceiling that was ever committed for each section.
    highest: Vec<Seq>,
    /// The set of each epoch.
    epochs: BTreeMap<(SectionId, Epoch), usize>,
    pub(crate) check: Check,
    pub(crate) coverage: Coverage,
    pub(crate) trace: Trace,
    pub(crate) events: u64,
    healed: bool,
    over: bool,
    unserved: Vec<u64>,
}

impl World {
    /// The world of a seed, with all its faults or some of them.
    pub(crate) fn new(seed: u64, bug: Option<Bug>, faults: Option<&[usize]>, text: bool) -> World {
        let mut rng = Rng::new(seed ^ 0x2_5e75);
        let layout = Layout::new(0..UIDS, SECTION_SIZE).expect("a sound layout");
        let check = Check::new(Weather::Stormy, UIDS as usize);
        let all = faults::draw(&mut rng);
        let mut world = World {
            now: 0,
            rng,
            bug,
            queue: BinaryHeap::new(),
            numbers: 0,
            sets: std::array::from_fn(|set| Set::new(defined(set, &layout))),
            layout,
            procs: Vec::new(),
            newest: [[None; NAMES]; SETS],
            faults: all,
            loss: 0,
            duplicates: 0,
            slow_ms: 0,
            divided_until: 0,
            highest: vec![Seq::ZERO; SECTIONS as usize],
            epochs: BTreeMap::new(),
            check,
            coverage: Coverage::default(),
            trace: Trace::new(text),
            events: 0,
            healed: false,
            over: false,
            unserved: Vec::new(),
        };
        for number in 0..world.faults.len() {
            if faults.is_none_or(|some| some.contains(&number)) {
                world.after(world.faults[number].at, Event::Begin(number));
            }
        }
        for set in 0..SETS {
            world.after(0, Event::Evaluate(set));
            (0..NAMES).for_each(|name| world.after(0, Event::Start(set, name)));
        }
        world.after(500 * MS, Event::NextCall);
        world.after(FAULTS_END, Event::Heal);
        world
    }

    /// Runs until the end, or until a promise is broken.
    pub(crate) fn run(&mut self) {
        while !self.over && self.check.violation.is_none() {
            let Some(Reverse(Queued(at, _, event))) = self.queue.pop() else { break };
            self.now = at;
            self.events += 1;
            if self.events > MOST_EVENTS {
                let text = format!("{} events, and no end: the next is {event:?}", self.events);
                self.check.broken(self.now, "no storm of messages", text);
            }
            self.happen(event);
        }
    }

    fn fresh(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn after(&mut self, wait: u64, event: Event) {
        let number = self.fresh();
        self.queue.push(Reverse(Queued(self.now + wait, number, event)));
    }

    fn time(&self) -> Duration {
        Duration::from_nanos(self.now)
    }

    /// A message on the network: lost, doubled, late.
    fn send(&mut self, event: impl Fn() -> Event) {
        let copies = 1 + u32::from(self.rng.chance(self.duplicates));
        for _ in 0..copies {
            if self.rng.chance(self.loss) {
                continue;
            }
            let usual = self.rng.between(MS / 10, MS);
            let slow = self.slow_ms > 0 && self.rng.chance(300);
            let wait = if slow { usual + self.rng.below(self.slow_ms * MS) } else { usual };
            self.after(wait, event());
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Apply(set, log, entry) => self.apply(set, log, *entry),
            Event::Request(set, p, rpc, request) => self.requested(set, p, rpc, &request),
            Event::Message(p, message) => self.receive(p, message),
            Event::Between(set, message) => self.receive_between(set, message),
            Event::Evaluate(set) => self.evaluate(set),
            Event::Tick(p) => self.tick(p),
            Event::Start(set, name) => self.start(set, name),
            Event::NextCall => self.next_call(),
            Event::Arrive(call) => self.arrive(call),
            Event::Return(call, outcome) => self.check.end(call.id, self.now, outcome),
            Event::ReturnRead(call, reading) => self.check.end_read(call.id, self.now, reading),
            Event::Begin(number) => self.begin(number),
            Event::Over(number) => self.end(number),
            Event::Heal => self.heal(),
            Event::Probe => self.probe(),
            Event::End => self.conclude(),
        }
    }

    fn heal(&mut self) {
        self.healed = true;
        (self.loss, self.duplicates, self.slow_ms, self.divided_until) = (0, 0, 0, 0);
        for set in 0..SETS {
            self.sets[set].down_until = 0;
            self.resume_all(set);
            for name in 0..NAMES {
                let runs = self.newest[set][name].is_some_and(|p| self.procs[p].alive);
                if !runs {
                    self.after(0, Event::Start(set, name));
                }
            }
        }
        for process in &mut self.procs {
            process.stalled_until = 0;
        }
        self.after(LIVENESS_BOUND, Event::Probe);
    }

    /// Each section is in one set, and each of its uids is given a number.
    fn probe(&mut self) {
        for section in (0..SECTIONS).map(SectionId) {
            let homes = self.homes(section);
            if homes != 1 {
                let records: Vec<_> = self.sets.iter().map(|set| set.state.sections.get(section)).collect();
                let text = format!("section {section} is in {homes} sets: {records:?}");
                self.check.broken(self.now, "no section is lost", text);
            }
        }
        self.unserved = (0..UIDS).collect();
        (0..UIDS).for_each(|uid| self.call(uid, false, PROBE_TIME, true));
        self.after(PROBE_TIME, Event::End);
    }

    fn conclude(&mut self) {
        self.over = true;
        if !self.unserved.is_empty() {
            let text = format!("uids {:?} are not served", self.unserved);
            self.check.broken(self.now, "served again", text);
        }
    }

    fn homes(&self, section: SectionId) -> usize {
        self.sets.iter().filter(|set| set.state.sections.resident(section).is_some()).count()
    }

    /// Compares what an entry has changed with all that was ever committed.
    fn look_at_records(&mut self, set: usize, before: &seq_core::state::SectionRecords) {
        for section in (0..SECTIONS).map(SectionId) {
            let after = *self.sets[set].state.sections.get(section).expect("the layout has it");
            let fence = before.get(section).map_or(Epoch(0), SectionRecord::fence);
            let SectionRecord::Resident(record) = after else { continue };
            let (highest, homes) = (self.highest[section.0 as usize], self.homes(section));
            let now = self.now;
            if homes > 1 {
                self.check.broken(now, "one residence", format!("section {section} is in {homes} sets: {record:?}"));
            }
            if record.max_seq < highest {
                let text = format!("section {section}: the ceiling {highest} became {record:?}");
                self.check.broken(now, "what is committed never falls", text);
            }
            self.highest[section.0 as usize] = record.max_seq;
            if record.epoch > fence && self.epochs.insert((section, record.epoch), set).is_some() {
                self.check.broken(now, "an epoch begins once", format!("section {section}: {record:?}"));
            }
        }
    }
}

/// The state of a set that knows the other one.
fn defined(set: usize, layout: &Layout) -> State {
    use seq_core::layout::SectionRun;
    use seq_core::state::{Command, Home, LearnDirectory, SetFacts};
    let half = SECTIONS / 2;
    let home = |set: usize| Home {
        sections: SectionRun { first: SectionId(set as u32 * half), sections: half },
        set: set_id(set),
    };
    let mut state = State::default();
    let homes = (0..SETS).map(home).collect();
    let definition = SetDefinition { name: format!("s{set}"), id: set_id(set), layout: layout.clone(), homes };
    state.apply(&Command::DefineSet(definition));
    let other = 1 - set;
    let facts =
        SetFacts { id: set_id(other), revision: state.revision, name: format!("s{other}"), ..SetFacts::default() };
    state.apply(&Command::LearnDirectory(LearnDirectory::of(facts)));
    state
}
