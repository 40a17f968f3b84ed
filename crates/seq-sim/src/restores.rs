//! Worlds of restores. A world of this kind has three sets with different lease terms. An operator with backups and a
//! notebook restores sets again and again, while the faults of a seed happen.
//!
//! A set is simpler here than in the worlds of two sets. Its store consists of a single `State`, to which entries are
//! applied, an `Arbiter` and a `Coordinator`. Each process of a set has a clock with a rate of its own, by which its
//! lease expires, and starts each ownership at the ceiling. The operator has only the knowledge of a real operator,
//! which is backups of different ages, counts of restores in the notebook, and responses of stores (`operator.rs`).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use seq_core::layout::SectionRun;
use seq_core::lease::LeaseTerms;
use seq_core::state::{
    Closing, Command, Home, LearnDirectory, SectionRecord, SectionRecords, SetDefinition, SetFacts, SetTerms,
};
use seq_core::state::{State, Terms};
use seq_core::{Epoch, Layout, SectionId, Seq, SetId};
use seq_order::Outcome;

use crate::bugs::Bug;
use crate::check::{Check, Flight};
use crate::coverage::Coverage;
use crate::faults::{MS, SECOND, Weather};
use crate::rng::Rng;
use crate::trace::Trace;

mod calls;
mod faults;
mod operator;
mod planted;
mod process;
mod quarantine;
mod store;

use calls::Call;
pub(crate) use faults::Fault;
use operator::Operator;
use process::{Process, Response};
use store::{Between, Entry, Existence, Request, Set};

/// Number of sets. Most bugs that these worlds are meant to find need a third set with its own records.
const SETS: usize = 3;

/// Number of AllocSvrs of each set.
const NAMES: usize = 2;

/// Number of sections. Each section has one uid. At the begin of a world, each set has the same number of sections.
const SECTIONS: u32 = 6;

/// The time at which the last fault is over.
const FAULTS_END: u64 = 36 * SECOND;

/// The time after [`FAULTS_END`] within which every section must be served. It is long enough for the restores of lost
/// sets, the quarantines after them, and the longest wait of an arbiter after the quarantines. A quarantine lasts
/// longer than the longest lease, and may begin anew once for each other set.
const LIVENESS_BOUND: u64 = 60 * SECOND;

/// The time after [`LIVENESS_BOUND`] within which a call for a number of each uid must be served.
const PROBE_TIME: u64 = 3 * SECOND;

/// Limit on the number of events of a run. It is far above the usual number, and detects messages that cause each other
/// endlessly.
const MOST_EVENTS: u64 = 900_000;

const fn terms(lease: u64, margin: u64, wait: u64, renew_interval: u64) -> LeaseTerms {
    LeaseTerms {
        lease: Duration::from_millis(lease),
        margin: Duration::from_millis(margin),
        wait: Duration::from_millis(wait),
        renew_interval: Duration::from_millis(renew_interval),
    }
}

/// The lease terms of the three sets. The seed decides which set has which terms. Each lease is longer than the lease
/// waits of all earlier elements of the list.
const TERMS: [LeaseTerms; SETS] =
    [terms(500, 50, 630, 100), terms(1_500, 100, 1_900, 300), terms(4_000, 250, 5_000, 800)];

/// An event of a world.
#[derive(Debug)]
enum Event {
    /// The application of an entry to the log of a set, unless this log was lost in the meantime. The fields are the
    /// set, the number of the log, and the entry.
    Apply(usize, u64, Box<Entry>),
    Request(usize, usize, u64, Request),
    Response(usize, u64, Response),
    /// A message from a set to another set.
    Between(usize, usize, Box<Between>),
    Evaluate(usize),
    Tick(usize),
    Start(usize, usize),
    /// A report of the death of a process.
    Died(usize),
    NextCall,
    Arrive(Call),
    Return(Flight, Outcome),
    Begin(usize),
    Over(usize),
    /// A restore of a lost set by the operator.
    Restore(usize, u64),
    /// The operator's periodic look at the stores that respond.
    Look,
    /// The operator's command that closes a set.
    Close(usize),
    /// The start of a time during which a process and its store do not reach each other. The fields are the process and
    /// the duration.
    CutOff(usize, u64),
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

/// The state of a world of restores.
#[derive(Debug)]
pub(crate) struct World {
    /// True time since the world began, in nanoseconds.
    pub(crate) now: u64,
    rng: Rng,
    bug: Option<Bug>,
    queue: BinaryHeap<Reverse<Queued>>,
    numbers: u64,
    layout: Layout,
    sets: [Set; SETS],
    operator: Operator,
    procs: Vec<Process>,
    /// The newest process of each name.
    newest: [[Option<usize>; NAMES]; SETS],
    /// The faults of the seed.
    pub(crate) faults: Vec<Fault>,
    /// Messages that are lost, in a thousand.
    loss: u64,
    /// Messages that arrive twice, in a thousand.
    duplicates: u64,
    /// Limit on the additional delay of some messages, in milliseconds.
    slow_ms: u64,
    /// Time until which messages from one set to another are lost or late. The first index is the sending set, the
    /// second index the receiving set.
    divided_until: [[u64; SETS]; SETS],
    /// The highest ceiling that was ever committed for each section.
    highest: Vec<Seq>,
    /// The set in which each epoch of a section began.
    epochs: BTreeMap<(SectionId, Epoch), usize>,
    /// The checks of the promises.
    pub(crate) check: Check,
    /// The number of occurrences of each situation.
    pub(crate) coverage: Coverage,
    /// The trace of the run.
    pub(crate) trace: Trace,
    /// Number of events so far.
    pub(crate) events: u64,
    healed: bool,
    over: bool,
    /// The uids whose probe got no number yet.
    unserved: Vec<u64>,
}

/// Returns the id of a set.
fn set_id(set: usize) -> SetId {
    SetId(set as u64 + 1)
}

fn index(set: SetId) -> usize {
    set.0 as usize - 1
}

impl World {
    /// Returns the world of a seed. If `faults` is given, only the faults with these numbers happen; otherwise, all
    /// faults of the seed happen. `text` is whether the world keeps a trace as text.
    pub(crate) fn new(seed: u64, bug: Option<Bug>, faults: Option<&[usize]>, text: bool) -> World {
        let mut rng = Rng::new(seed ^ 0x3_5e75);
        let layout = Layout::new(0..u64::from(SECTIONS), 1).expect("a sound layout");
        let first = rng.index(SETS);
        let all = faults::draw(&mut rng);
        let sets = std::array::from_fn(|set| {
            let terms = TERMS[(first + set) % SETS];
            Set::new(defined(set, &layout, terms), terms)
        });
        let mut world = World {
            now: 0,
            rng,
            bug,
            queue: BinaryHeap::new(),
            numbers: 0,
            layout,
            sets,
            operator: Operator::default(),
            procs: Vec::new(),
            newest: [[None; NAMES]; SETS],
            faults: all,
            loss: 0,
            duplicates: 0,
            slow_ms: 0,
            divided_until: [[0; SETS]; SETS],
            highest: vec![Seq::ZERO; SECTIONS as usize],
            epochs: BTreeMap::new(),
            check: Check::new(Weather::Stormy, SECTIONS as usize),
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
            world.elect(set);
            world.after(0, Event::Evaluate(set));
            (0..NAMES).for_each(|name| world.after(0, Event::Start(set, name)));
        }
        world.after(500 * MS, Event::NextCall);
        world.after(SECOND, Event::Look);
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

    fn note(&mut self, words: [u64; 3], text: impl FnOnce() -> String) {
        self.trace.note(self.now, words, text);
    }

    /// Sends a message by the simulated network, which may lose, double or delay it. `event` creates the event that
    /// happens when the message arrives.
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
            Event::Response(p, rpc, response) => self.response(p, rpc, response),
            Event::Between(from, to, message) => self.receive_between(from, to, *message),
            Event::Evaluate(set) => self.evaluate(set),
            Event::Tick(p) => self.tick(p),
            Event::Start(set, name) => self.start(set, name),
            Event::Died(p) => self.report_death(p),
            Event::NextCall => self.next_call(),
            Event::Arrive(call) => self.arrive(call),
            Event::Return(id, outcome) => self.check.end(id, self.now, outcome),
            Event::Begin(number) => self.begin(number),
            Event::Over(number) => self.end(number),
            Event::Restore(set, pick) => self.restore(set, pick),
            Event::Look => self.look(),
            Event::Close(set) => self.close(set),
            Event::CutOff(p, time) => self.procs[p].cut_until = if self.healed { 0 } else { self.now + time },
            Event::Heal => self.heal(),
            Event::Probe => self.probe(),
            Event::End => self.conclude(),
        }
    }

    fn heal(&mut self) {
        self.healed = true;
        (self.loss, self.duplicates, self.slow_ms) = (0, 0, 0);
        self.divided_until = [[0; SETS]; SETS];
        for process in &mut self.procs {
            (process.stalled_until, process.cut_until) = (0, 0);
        }
        for set in 0..SETS {
            self.sets[set].down_until = 0;
            if self.sets[set].existence == Existence::Gone {
                continue;
            }
            if self.sets[set].existence == Existence::Lost {
                let pick = self.rng.next();
                self.after(SECOND, Event::Restore(set, pick));
            }
            (0..NAMES).for_each(|name| self.start_again(set, name));
        }
        self.after(LIVENESS_BOUND, Event::Probe);
    }

    /// Checks that no set is still in quarantine and that each section is in exactly one set. Then begins a call for a
    /// number of each uid.
    fn probe(&mut self) {
        for set in 0..SETS {
            let Set { existence, state, .. } = &self.sets[set];
            if *existence == Existence::Running && state.is_quarantined() {
                let awaited: Vec<_> = state.awaited_responses().collect();
                let text = format!("set {set} of lineage {} waits for {awaited:?}", state.lineage);
                self.check.broken(self.now, "a quarantine ends", text);
            }
        }
        for section in (0..SECTIONS).map(SectionId) {
            if self.homes(section) != 1 {
                let records: Vec<_> = self.sets.iter().map(|set| set.state.sections.get(section)).collect();
                let text = format!("section {section} is in {} sets: {records:?}", self.homes(section));
                self.check.broken(self.now, "no section is lost", text);
            }
        }
        self.unserved = (0..u64::from(SECTIONS)).collect();
        (0..u64::from(SECTIONS)).for_each(|uid| self.call(uid, PROBE_TIME, true));
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
        let running = self.sets.iter().filter(|set| set.existence == Existence::Running);
        running.filter(|set| set.state.sections.resident(section).is_some()).count()
    }

    /// Checks the section records that an entry has changed in a set. Compares each record with the record before the
    /// entry, and with the highest ceiling and all epochs that were ever committed for its section.
    fn look_at_records(&mut self, set: usize, before: &SectionRecords) {
        for section in (0..SECTIONS).map(SectionId) {
            let after = *self.sets[set].state.sections.get(section).expect("the layout has it");
            let known = before.get(section).copied().unwrap_or_default();
            let SectionRecord::Resident(record) = after else { continue };
            if after == known {
                continue;
            }
            let (highest, homes) = (self.highest[section.0 as usize], self.homes(section));
            let now = self.now;
            if homes > 1 {
                self.check.broken(now, "one residence", format!("section {section} is in {homes} sets: {record:?}"));
            }
            if self.sets[set].state.closing == Closing::Closed {
                let text = format!("section {section} came to set {set}, which is closed: {record:?}");
                self.check.broken(now, "a closed set stays empty", text);
            }
            if record.max_seq < highest {
                let text = format!("section {section}: the ceiling {highest} became {record:?} in set {set}");
                self.check.broken(now, "what is committed never falls", text);
            }
            self.highest[section.0 as usize] = record.max_seq;
            if record.epoch > known.fence() && self.epochs.insert((section, record.epoch), set).is_some() {
                self.check.broken(now, "an epoch begins once", format!("section {section}: {record:?} in set {set}"));
            }
        }
    }
}

/// Returns the state with which a set begins. In this state, the set knows the other sets.
fn defined(set: usize, layout: &Layout, terms: LeaseTerms) -> State {
    let share = SECTIONS / SETS as u32;
    let home = |set: usize| Home {
        sections: SectionRun { first: SectionId(set as u32 * share), sections: share },
        set: set_id(set),
    };
    let mut state = State::default();
    let homes = (0..SETS).map(home).collect();
    let definition = SetDefinition { name: format!("s{set}"), id: set_id(set), layout: layout.clone(), homes };
    state.apply(&Command::DefineSet(definition));
    state.apply(&Command::SetTerms(SetTerms { replaces: None, terms: Terms { lease_wait: terms.wait } }));
    for other in (0..SETS).filter(|other| *other != set) {
        let (id, revision, name) = (set_id(other), state.revision, format!("s{other}"));
        let facts = SetFacts { id, revision, name, ..SetFacts::default() };
        state.apply(&Command::LearnDirectory(LearnDirectory::of(facts)));
    }
    state
}
