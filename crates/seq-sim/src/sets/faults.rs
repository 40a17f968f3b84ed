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
        let kind = match rng.below(if restores { 26 } else { 20 }) {
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
            20..23 => Kind::Backup,
            _ => Kind::Restore,
        };
        let at = rng.between(SECOND, FAULTS_END - 2 * SECOND);
        let time = rng.between(20 * MS, 4 * SECOND).min(FAULTS_END - MS - at);
        faults.push(Fault { at, time, kind, set: rng.index(SETS), pick: rng.below(1_000) });
    }
    faults
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
            Kind::Complete => self.with_newest(set, |id| Command::Complete(Complete { id })),
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
