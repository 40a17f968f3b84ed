//! What happens to two sets: migrations and their ends, restores, processes that end, networks that lose.

use std::time::Duration;

use seq_core::layout::SectionRun;
use seq_core::migration::Coordinator;
use seq_core::state::{Command, Complete, Pace, Rollback, SetPace, StartMigration};
use seq_core::{MigrationId, SectionId};

use super::store::{Origin, arbiter};
use super::{Event, FAULTS_END, NAMES, SECTIONS, SETS, World, set_id};
use crate::coverage::Situation;
use crate::faults::{MS, SECOND};
use crate::rng::Rng;

/// Fewest and most faults of a seed.
const FAULTS: (u64, u64) = (12, 40);

/// Fewest and most groups of faults that meet, of a seed.
const STORIES: (u64, u64) = (1, 4);

/// How long such a group takes.
const STORY: u64 = 4 * SECOND;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Migrate,
    Pause,
    Rollback,
    Complete,
    NewLeader,
    Outage,
    Kill,
    /// All processes of a set end.
    Blackout,
    Stall,
    Cut,
    Loss,
    Duplicates,
    Slow,
    /// Messages between the sets are lost, or come seconds later.
    Divide,
    Backup,
    Restore,
}

/// A fault.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) at: u64,
    time: u64,
    kind: Kind,
    set: usize,
    pick: u64,
}

impl Fault {
    pub(crate) fn describe(&self) -> String {
        let (at, time) = (Duration::from_nanos(self.at), Duration::from_nanos(self.time));
        format!("{:?} of set {} at {at:?} for {time:?}, {}", self.kind, self.set, self.pick)
    }
}

/// The faults of a seed.
pub(crate) fn draw(rng: &mut Rng) -> Vec<Fault> {
    let restores = rng.chance(600);
    let count = rng.between(FAULTS.0, FAULTS.1);
    let mut faults = Vec::new();
    for _ in 0..count {
        let kind = match rng.below(if restores { 27 } else { 21 }) {
            0..6 => Kind::Migrate,
            6..8 => Kind::Pause,
            8 => Kind::Rollback,
            9 => Kind::Complete,
            10 => Kind::NewLeader,
            11 => Kind::Outage,
            12 | 13 => Kind::Kill,
            14 => Kind::Blackout,
            15 => Kind::Stall,
            16 => Kind::Cut,
            17 => Kind::Loss,
            18 => Kind::Duplicates,
            19 => Kind::Slow,
            20 => Kind::Divide,
            21..24 => Kind::Backup,
            _ => Kind::Restore,
        };
        let at = rng.between(SECOND, FAULTS_END - 2 * SECOND);
        let time = rng.between(20 * MS, 4 * SECOND);
        // Long enough for the wait of an arbiter, and then a departure without an owner.
        let time = if kind == Kind::Blackout { time + 3 * SECOND } else { time };
        let time = time.min(FAULTS_END - MS - at);
        faults.push(Fault { at, time, kind, set: rng.index(SETS), pick: rng.below(1_000) });
    }
    for _ in 0..rng.between(STORIES.0, STORIES.1) {
        let (at, set) = (rng.between(SECOND, FAULTS_END - STORY), rng.index(SETS));
        match rng.below(if restores { 4 } else { 2 }) {
            0 | 1 => faults.extend(hesitation(rng, at, set)),
            2 => faults.extend(restore_under_way(rng, at, set)),
            _ => faults.extend(older_owner(rng, at, set)),
        }
    }
    faults
}

/// A migration that is paused again and again, while messages are doubled and late: its departures are repeated, are
/// applied long after they were sent, and their responses are lost.
fn hesitation(rng: &mut Rng, at: u64, set: usize) -> Vec<Fault> {
    let mut faults = vec![
        Fault { at, time: STORY - MS, kind: Kind::Duplicates, set, pick: rng.between(400, 1_000) },
        Fault { at, time: STORY - MS, kind: Kind::Slow, set, pick: rng.between(200, 900) },
        Fault { at, time: MS, kind: Kind::Migrate, set, pick: rng.below(1_000) },
    ];
    let mut next = at + rng.between(30 * MS, 300 * MS);
    while next < at + STORY - SECOND {
        let time = rng.between(40 * MS, 300 * MS);
        faults.push(Fault { at: next, time, kind: Kind::Pause, set, pick: 0 });
        next += time + rng.between(40 * MS, 300 * MS);
    }
    faults
}

/// A set is restored to just before sections departed, while their arrivals are under way.
fn restore_under_way(rng: &mut Rng, at: u64, set: usize) -> Vec<Fault> {
    let divided = at + rng.between(40 * MS, 100 * MS);
    let restored = divided + rng.between(300 * MS, 900 * MS);
    let time = restored - divided + rng.below(100 * MS);
    vec![
        Fault { at, time: MS, kind: Kind::Backup, set, pick: 0 },
        Fault { at: at + MS, time: MS, kind: Kind::Migrate, set, pick: rng.below(1_000) },
        Fault { at: divided, time, kind: Kind::Divide, set, pick: 0 },
        Fault { at: restored, time: MS, kind: Kind::Restore, set, pick: 0 },
    ]
}

/// A set is restored, and a process of before receives nothing of it: it serves as long as its lease holds.
fn older_owner(rng: &mut Rng, at: u64, set: usize) -> Vec<Fault> {
    let cut = at + rng.below(400 * MS);
    vec![
        Fault { at, time: MS, kind: Kind::Backup, set, pick: 0 },
        Fault { at: cut, time: STORY - SECOND, kind: Kind::Cut, set, pick: rng.below(1_000) },
        Fault { at: cut + rng.below(100 * MS), time: MS, kind: Kind::Restore, set, pick: 0 },
    ]
}

impl World {
    pub(super) fn begin(&mut self, number: usize) {
        let Fault { time, kind, set, pick, .. } = self.faults[number].clone();
        let now = self.now;
        self.trace.note(now, [6, number as u64, 0], || format!("fault {number}: {kind:?} of set {set}"));
        match kind {
            Kind::Migrate => self.migrate(set, pick),
            Kind::Pause => self.pace(set, true),
            Kind::Rollback => self.with_newest(set, |id| Command::Rollback(Rollback { id })),
            Kind::Complete => self.with_newest(set, |id| Command::Complete(Complete { id, by: None })),
            Kind::NewLeader => {
                let one = &mut self.sets[set];
                (one.arbiter, one.coordinator, one.plan) =
                    (arbiter(), Coordinator::default(), std::sync::Arc::default());
            }
            Kind::Outage => self.sets[set].down_until = now + time.min(2 * SECOND),
            Kind::Kill => self.kill(set, pick as usize % NAMES),
            Kind::Blackout => (0..NAMES).for_each(|name| self.kill(set, name)),
            Kind::Stall | Kind::Cut => {
                let Some(p) = self.newest[set][pick as usize % NAMES] else { return };
                if kind == Kind::Stall {
                    self.procs[p].stalled_until = now + time;
                } else {
                    self.procs[p].cut_until = now + time;
                }
            }
            Kind::Loss => self.loss = 50 + pick / 4,
            Kind::Duplicates => self.duplicates = 100 + pick / 2,
            Kind::Slow => self.slow_ms = 20 + pick,
            Kind::Divide => self.divided_until = now + time,
            Kind::Backup => self.sets[set].backup = Some(self.sets[set].state.clone()),
            Kind::Restore => self.restore(set),
        }
        self.after(time, Event::Over(number));
    }

    pub(super) fn end(&mut self, number: usize) {
        if self.healed {
            return;
        }
        let Fault { kind, set, pick, .. } = self.faults[number].clone();
        match kind {
            Kind::Pause => self.pace(set, false),
            Kind::Kill => self.start_again(set, pick as usize % NAMES),
            Kind::Blackout => (0..NAMES).for_each(|name| self.start_again(set, name)),
            Kind::Loss => self.loss = 0,
            Kind::Duplicates => self.duplicates = 0,
            Kind::Slow => self.slow_ms = 0,
            _ => {}
        }
    }

    fn kill(&mut self, set: usize, name: usize) {
        if let Some(p) = self.newest[set][name] {
            self.procs[p].alive = false;
        }
    }

    fn start_again(&mut self, set: usize, name: usize) {
        if self.newest[set][name].is_none_or(|p| !self.procs[p].alive) {
            self.after(0, Event::Start(set, name));
        }
    }

    /// Begins a migration of some of the sections that are in the set.
    fn migrate(&mut self, set: usize, pick: u64) {
        let state = &self.sets[set].state;
        let here: Vec<SectionId> = state.sections.residents().map(|(section, _)| section).collect();
        if here.is_empty() {
            return;
        }
        let first = here[pick as usize % here.len()];
        let mut sections = 1;
        while pick.is_multiple_of(2) && first.0 + sections < SECTIONS && here.contains(&SectionId(first.0 + sections)) {
            sections += 1;
        }
        let id = MigrationId(1_000 + pick * 1_000_000 + self.numbers);
        let (to, runs) = (set_id(1 - set), vec![SectionRun { first, sections }]);
        let Some(fingerprint) = state.fingerprint(to, &runs) else { return };
        let (lineage, layout_id) = (state.lineage, self.layout.id());
        let pace = Pace { rate: 50, max_pause: Duration::from_secs(1), paused: false };
        let start = StartMigration { id, to, lineage, layout_id, runs, pace, fingerprint };
        self.coverage.saw(Situation::MigrationStarted);
        self.propose(set, Command::StartMigration(start), Origin::Here);
    }

    fn with_newest(&mut self, set: usize, command: impl FnOnce(MigrationId) -> Command) {
        let open = |(_, one): &(&MigrationId, &seq_core::state::Migration)| one.phase == seq_core::state::Phase::Open;
        let id = self.sets[set].state.migrations.iter().filter(open).map(|(id, _)| *id).next_back();
        if let Some(id) = id {
            self.propose(set, command(id), Origin::Here);
        }
    }

    fn pace(&mut self, set: usize, paused: bool) {
        let paces: Vec<(MigrationId, Pace)> =
            self.sets[set].state.migrations.iter().map(|(id, one)| (*id, one.pace)).collect();
        for (id, pace) in paces {
            self.propose(set, Command::Pace(SetPace { id, pace: Pace { paused, ..pace } }), Origin::Here);
        }
    }

    pub(super) fn resume_all(&mut self, set: usize) {
        self.pace(set, false);
    }
}
