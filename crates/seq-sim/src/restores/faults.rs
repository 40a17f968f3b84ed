//! Draws and begins the faults of worlds of restores. Faults are actions of the operator, such as migrations, merges
//! and backups, and failures, such as the loss of a set, the end of processes, and lost messages.

use std::time::Duration;

use seq_core::MigrationId;
use seq_core::state::{Command, Migration, Rollback};

use super::store::{Existence, Origin};
use super::{Event, FAULTS_END, NAMES, SETS, World};
use crate::faults::{MS, SECOND};
use crate::rng::Rng;

/// Limits of the number of single faults in a run. The lower limit is inclusive, the upper limit exclusive.
const FAULTS: (u64, u64) = (10, 40);

/// Limits of the number of groups of faults in a run. The lower limit is inclusive, the upper limit exclusive. The
/// faults of a group happen so close together that they affect each other.
const STORIES: (u64, u64) = (1, 5);

/// The time within which all faults of a group of faults begin.
const STORY: u64 = 12 * SECOND;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Migrate,
    Rollback,
    Complete,
    Merge,
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
    /// Messages between sets are lost or arrive seconds late. The messages are either all messages from the set to
    /// another set, or all messages of the set to and from all other sets.
    Divide,
    Backup,
    /// The store of the set is lost. The operator restores the set when the fault ends.
    Lose,
    /// All sets are lost.
    LoseAll,
}

/// A fault.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    /// Time of its begin, in nanoseconds.
    pub(crate) at: u64,
    time: u64,
    kind: Kind,
    set: usize,
    pick: u64,
}

impl Fault {
    /// Returns a description of the fault.
    pub(crate) fn describe(&self) -> String {
        let (at, time) = (Duration::from_nanos(self.at), Duration::from_nanos(self.time));
        format!("{:?} of set {} at {at:?} for {time:?}, {}", self.kind, self.set, self.pick)
    }
}

/// Draws the faults of a seed.
pub(crate) fn draw(rng: &mut Rng) -> Vec<Fault> {
    let count = rng.between(FAULTS.0, FAULTS.1);
    let mut faults = Vec::new();
    for _ in 0..count {
        let kind = match rng.below(32) {
            0..8 => Kind::Migrate,
            8 => Kind::Rollback,
            9..11 => Kind::Complete,
            11 | 12 => Kind::NewLeader,
            13 => Kind::Outage,
            14 => Kind::Kill,
            15 => Kind::Blackout,
            16 => Kind::Stall,
            17..19 => Kind::Cut,
            19 => Kind::Loss,
            20 => Kind::Duplicates,
            21 => Kind::Slow,
            22..24 => Kind::Divide,
            24..28 => Kind::Backup,
            28 => Kind::Merge,
            29 | 30 => Kind::Lose,
            _ => Kind::LoseAll,
        };
        let at = rng.between(2 * SECOND, FAULTS_END - 2 * SECOND);
        faults.push(fault(rng, kind, at));
    }
    for _ in 0..rng.between(STORIES.0, STORIES.1) {
        let at = rng.between(2 * SECOND, FAULTS_END - STORY);
        let set = rng.index(SETS);
        match rng.below(6) {
            0 => faults.extend(lost_again(rng, at, set)),
            1 => faults.extend(two_lost(rng, at, set)),
            2 => faults.extend(lost_in_migration(rng, at, set)),
            3 => faults.extend(all_lost_twice(rng, at)),
            4 => faults.extend(older_owner(rng, at, set)),
            _ => faults.extend(merged_and_lost(rng, at, set)),
        }
    }
    faults
}

fn fault(rng: &mut Rng, kind: Kind, at: u64) -> Fault {
    let time = match kind {
        Kind::Lose | Kind::LoseAll => rng.between(200 * MS, 3 * SECOND),
        // This is long enough for the wait of an arbiter, after which sections without a living owner can depart.
        Kind::Blackout => rng.between(3 * SECOND, 9 * SECOND),
        _ => rng.between(20 * MS, 5 * SECOND),
    };
    Fault { at, time: time.min(FAULTS_END - MS - at), kind, set: rng.index(SETS), pick: rng.below(1 << 20) }
}

fn of(rng: &mut Rng, kind: Kind, at: u64, set: usize) -> Fault {
    Fault { set, ..fault(rng, kind, at) }
}

/// Draws two or three losses of a set. The set is lost again while it is in the quarantine after the previous loss, or
/// soon after this quarantine.
fn lost_again(rng: &mut Rng, at: u64, set: usize) -> Vec<Fault> {
    let mut faults = vec![of(rng, Kind::Backup, at, set)];
    let mut next = at + rng.between(100 * MS, SECOND);
    for _ in 0..rng.between(2, 4) {
        faults.push(of(rng, Kind::Lose, next, set));
        next += rng.between(SECOND, 4 * SECOND);
    }
    faults
}

/// Draws losses of two sets. The second set is lost while the first set is still lost or in quarantine.
fn two_lost(rng: &mut Rng, at: u64, set: usize) -> Vec<Fault> {
    let (other, next) = ((set + 1 + rng.index(SETS - 1)) % SETS, at + rng.between(10 * MS, 4 * SECOND));
    vec![of(rng, Kind::Migrate, at, set), of(rng, Kind::Lose, at + 200 * MS, set), of(rng, Kind::Lose, next, other)]
}

/// Draws a migration, and the loss of its source set or its target set while sections are departing or have not arrived
/// yet.
fn lost_in_migration(rng: &mut Rng, at: u64, set: usize) -> Vec<Fault> {
    let (other, lost) = ((set + 1 + rng.index(SETS - 1)) % SETS, at + rng.between(20 * MS, 600 * MS));
    let victim = if rng.chance(500) { set } else { other };
    vec![
        of(rng, Kind::Backup, at, victim),
        of(rng, Kind::Migrate, at + 10 * MS, set),
        of(rng, Kind::Divide, at + 150 * MS, set),
        of(rng, Kind::Lose, lost, victim),
    ]
}

/// Draws two losses of all sets. The second loss happens before the operator has read, after the first loss, the count
/// of restores of every set.
fn all_lost_twice(rng: &mut Rng, at: u64) -> Vec<Fault> {
    let mut faults = vec![fault(rng, Kind::LoseAll, at)];
    let again = at + rng.between(4 * SECOND, 11 * SECOND);
    faults.push(fault(rng, Kind::LoseAll, again));
    faults
}

/// Draws a restore of a set of which a process of the set receives no notice, so that the process continues to serve
/// under its earlier lease until the lease expires. The process may serve sections that migrated after the backups were
/// made, so that in the backups these sections are in another set.
fn older_owner(rng: &mut Rng, at: u64, set: usize) -> Vec<Fault> {
    let other = (set + 1 + rng.index(SETS - 1)) % SETS;
    let lost = at + rng.between(SECOND, 3 * SECOND);
    // If `pick` is even, the processes of the lost set stay alive.
    let alive = |fault: Fault| Fault { pick: fault.pick & !1, time: short(fault.time), ..fault };
    vec![
        of(rng, Kind::Backup, at, set),
        of(rng, Kind::Backup, at, other),
        of(rng, Kind::Migrate, at + 10 * MS, set),
        of(rng, Kind::Migrate, at + 20 * MS, set),
        of(rng, Kind::Cut, lost - 50 * MS, other),
        alive(of(rng, Kind::Lose, lost, other)),
        alive(of(rng, Kind::Lose, lost + 10 * MS, set)),
    ]
}

/// Returns a time of 200 to 500 ms, which is the time from the loss of a set to its restore. It is derived from the
/// drawn time `time`.
fn short(time: u64) -> u64 {
    200 * MS + time % (300 * MS)
}

/// Draws the merge of a set into another set, and the loss of the other set right after the merge.
fn merged_and_lost(rng: &mut Rng, at: u64, set: usize) -> Vec<Fault> {
    let merge = of(rng, Kind::Merge, at, set);
    vec![of(rng, Kind::Complete, at, set), Fault { pick: merge.pick | 1, ..merge }]
}

impl World {
    pub(super) fn begin(&mut self, number: usize) {
        let Fault { time, kind, set, pick, .. } = self.faults[number].clone();
        let (now, other) = (self.now, (set + 1 + (pick / 2) as usize % (SETS - 1)) % SETS);
        self.note([6, number as u64, 0], || format!("fault {number}: {kind:?} of set {set}"));
        self.after(time, Event::Over(number));
        match kind {
            Kind::Migrate => self.migrate(set, pick),
            Kind::Rollback => self.roll_back(set),
            Kind::Complete => (0..SETS).for_each(|set| self.complete_all(set)),
            Kind::Merge => self.merge(set, other, pick),
            Kind::NewLeader => self.elect(set),
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
            Kind::Loss => self.loss = 50 + pick % 250,
            Kind::Duplicates => self.duplicates = 100 + pick % 500,
            Kind::Slow => self.slow_ms = 20 + pick % 1_000,
            Kind::Divide if pick % 2 == 0 => self.divided_until[set][other] = now + time,
            Kind::Divide => {
                for one in 0..SETS {
                    (self.divided_until[set][one], self.divided_until[one][set]) = (now + time, now + time);
                }
            }
            Kind::Backup => self.back_up(set),
            Kind::Lose => self.lose(set, pick % 2 == 1),
            Kind::LoseAll => (0..SETS).for_each(|set| self.lose(set, pick % 2 == 1)),
        }
    }

    pub(super) fn end(&mut self, number: usize) {
        if self.healed {
            return;
        }
        let Fault { kind, set, pick, .. } = self.faults[number].clone();
        let is_gone = self.sets[set].existence == Existence::Gone;
        match kind {
            Kind::Kill if !is_gone => self.start_again(set, pick as usize % NAMES),
            Kind::Blackout if !is_gone => (0..NAMES).for_each(|name| self.start_again(set, name)),
            Kind::Loss => self.loss = 0,
            Kind::Duplicates => self.duplicates = 0,
            Kind::Slow => self.slow_ms = 0,
            Kind::Lose => self.restore(set, pick / 2),
            Kind::LoseAll => {
                // The sets are restored in a random order, each after some time.
                for set in 0..SETS {
                    let (wait, pick) = (self.rng.below(2 * SECOND), self.rng.next());
                    self.after(wait, Event::Restore(set, pick));
                }
            }
            _ => {}
        }
    }

    /// Rolls back the newest open migration of a set.
    fn roll_back(&mut self, set: usize) {
        let open = |(_, one): &(&MigrationId, &Migration)| one.is_open();
        let id = self.sets[set].state.migrations.iter().filter(open).map(|(id, _)| *id).next_back();
        if let Some(id) = id {
            self.propose(set, Command::Rollback(Rollback { id }), Origin::Here);
        }
    }
}
