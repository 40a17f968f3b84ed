//! Draws and begins the faults of worlds of two sets. They are actions of the operator, such as migrations, restores
//! and a merge, and failures, such as the end of processes and lost messages. Some faults are the same as in worlds of
//! one set.

use seq_core::state::{Command, Complete, Rollback};

use super::SETS;
use super::operator::Merge;
use crate::faults::{Fault, Kind, MS, SECOND, Weather};
use crate::hosts::{Hosts, NAMES, names_of};
use crate::lanes::AllSeries;
use crate::rng::Rng;
use crate::scenes::{MOST_SCENES, STORMY_KINDS, scene, stormy};
use crate::swarm::Swarm;
use crate::world::World;

/// The time at which the last fault is over.
const FAULTS_END: u64 = 20 * SECOND;

/// The time after the end of the last fault within which every section must be served again. It is long enough for a
/// quarantine, a wait for the end of a lease, and the repetition of lost messages.
const LIVENESS_BOUND: u64 = 15 * SECOND;

/// Number of runs, of a thousand runs, in which sections change owner only by handovers and migrations.
const CALM: u64 = 150;

/// The shortest time between two changes in calm weather.
const CALM_PAUSE: u64 = 2 * SECOND;

/// Number of runs, of a thousand runs with failures, in which an operator merges one set into the other while commits
/// of departures are late.
const MERGED: u64 = 150;

/// Number that is combined with the seed of a run to draw a merge, so that this draw is independent of the other draws
/// of the run.
const MERGE_SEED: u64 = 0x51c6_0e3d_97b2_4f1a;

/// Number of runs, of a thousand runs, in which an operator hands the creation of series from one set to the other.
const HANDED_OVER: u64 = 250;

/// Exclusive upper limit of the number of hand-overs in a run.
const MOST_HAND_OVERS: u64 = 5;

/// Number that is combined with the seed of a run to draw hand-overs, so that this draw is independent of the other
/// draws of the run.
const HAND_OVER_SEED: u64 = 0x2d84_b7f0_6c19_e35b;

/// Limits of the number of single faults in a run. The lower limit is inclusive, the upper limit exclusive.
const FAULTS: (u64, u64) = (12, 40);

/// Limits of the number of groups of faults in a run. The lower limit is inclusive, the upper limit exclusive. The
/// faults of a group happen so close together that they affect each other.
const STORIES: (u64, u64) = (1, 4);

/// The time within which all faults of a group of faults begin.
const STORY: u64 = 4 * SECOND;

/// Draws the faults of a seed.
pub(crate) fn draw(rng: &mut Rng, hosts: Hosts) -> Swarm {
    let calm = rng.chance(CALM);
    let faults = if calm { calm_faults(rng, hosts) } else { stormy_faults(rng, hosts) };
    Swarm {
        weather: if calm { Weather::Calm } else { Weather::Stormy },
        interleave: if rng.chance(400) { rng.between(10, 200) } else { 0 },
        edge_rates: rng.chance(300),
        long_terms: false,
        think_ms: rng.between(10, 60),
        ends: FAULTS_END,
        liveness_bound: LIVENESS_BOUND,
        faults,
    }
}

/// Draws migrations and drains, with pauses of at least [`CALM_PAUSE`] between them, so that no call is refused.
fn calm_faults(rng: &mut Rng, hosts: Hosts) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut at = 2 * SECOND;
    while at < FAULTS_END - CALM_PAUSE {
        let set = rng.index(hosts.sets);
        let kind = match rng.below(5) {
            0 => Kind::Drain(names_of(set).start + rng.index(NAMES)),
            _ => Kind::Migrate(set, rng.below(1_000)),
        };
        faults.push(Fault { at, lasts: rng.between(20 * MS, SECOND), kind });
        at += rng.between(CALM_PAUSE, 2 * CALM_PAUSE);
    }
    faults
}

fn stormy_faults(rng: &mut Rng, hosts: Hosts) -> Vec<Fault> {
    let restores = rng.chance(600);
    let mut faults = Vec::new();
    for _ in 0..rng.between(FAULTS.0, FAULTS.1) {
        let set = rng.index(hosts.sets);
        let kind = drawn(rng, set, restores);
        let at = rng.between(SECOND, FAULTS_END - 2 * SECOND);
        let lasts = rng.between(20 * MS, 4 * SECOND);
        // This is long enough for the wait of an arbiter, after which sections without a living owner can depart.
        let lasts = if matches!(kind, Kind::Blackout(_)) { lasts + 3 * SECOND } else { lasts };
        faults.push(Fault { at, lasts: lasts.min(FAULTS_END - MS - at), kind });
    }
    if rng.chance(400) {
        storms(rng, hosts, &mut faults);
    }
    for _ in 0..rng.between(STORIES.0, STORIES.1) {
        let (at, set) = (rng.between(SECOND, FAULTS_END - STORY), rng.index(hosts.sets));
        match rng.below(if restores { 8 } else { 6 }) {
            0 | 1 => faults.extend(hesitation(rng, at, set)),
            2 => faults.extend(silence(rng, at, set)),
            3 => faults.extend(unsettled(rng, at, set)),
            4 | 5 => faults.extend(unknown_departures(rng, at, set)),
            6 => faults.extend(restore_in_progress(rng, at, set)),
            _ => faults.extend(older_owner(rng, at, set)),
        }
    }
    faults.sort_by_key(|fault| fault.at);
    faults
}

fn drawn(rng: &mut Rng, set: usize, restores: bool) -> Kind {
    let name = names_of(set).start + rng.index(NAMES);
    match rng.below(if restores { 29 } else { 23 }) {
        0..6 => Kind::Migrate(set, rng.below(1_000)),
        6..8 => Kind::PauseMigrations(set),
        8 => Kind::Rollback(set),
        9 => Kind::Complete(set),
        10 => Kind::Elect(names_of(set).start + rng.index(NAMES)),
        11 => Kind::StorePause(set),
        12 => Kind::Crash(name),
        13 => Kind::Blackout(set),
        14 => Kind::Stall(name),
        15 => Kind::Severed(name),
        16 => Kind::Loss(rng.between(50, 300)),
        17 => Kind::Duplicates(rng.between(100, 600)),
        18 => Kind::Slow(rng.between(20, 1_000)),
        19 => Kind::Divide,
        20 => Kind::Silence(set),
        21 => Kind::Unsettle(name),
        22 => Kind::Merge(set, rng.chance(700)),
        23..26 => Kind::Backup(set),
        _ => Kind::Restore(set),
    }
}

/// Draws single faults and scenes of the kinds that also occur in worlds of one set, and adds them to `faults`.
fn storms(rng: &mut Rng, hosts: Hosts, faults: &mut Vec<Fault>) {
    for _ in 0..rng.between(1, 6) {
        let kind = rng.index(STORMY_KINDS);
        faults.push(stormy(rng, kind, hosts));
    }
    if rng.chance(500) {
        for _ in 0..rng.between(1, MOST_SCENES / 2) {
            scene(rng, faults, Weather::Stormy, hosts);
        }
    }
    faults.retain(|fault| fault.at + SECOND < FAULTS_END);
}

/// Draws a migration that is paused again and again while messages are doubled and late. So requests for departures of
/// its sections are repeated, are applied long after they were sent, and get late responses.
fn hesitation(rng: &mut Rng, at: u64, set: usize) -> Vec<Fault> {
    let mut faults = vec![
        Fault { at, lasts: STORY - MS, kind: Kind::Duplicates(rng.between(300, 600)) },
        Fault { at, lasts: STORY - MS, kind: Kind::Slow(rng.between(200, 900)) },
        Fault { at, lasts: MS, kind: Kind::Migrate(set, rng.below(1_000)) },
    ];
    let mut next = at + rng.between(30 * MS, 300 * MS);
    while next < at + STORY - SECOND {
        let lasts = rng.between(40 * MS, 300 * MS);
        faults.push(Fault { at: next, lasts, kind: Kind::PauseMigrations(set) });
        next += lasts + rng.between(40 * MS, 300 * MS);
    }
    faults
}

/// Draws faults by which the processes of a set receive calls from processes of the other set but their responses are
/// lost, while sections migrate to this set.
fn silence(rng: &mut Rng, at: u64, set: usize) -> Vec<Fault> {
    let silent = at + rng.between(100 * MS, SECOND);
    vec![
        Fault { at, lasts: MS, kind: Kind::Migrate(1 - set, rng.below(1_000)) },
        Fault { at: silent, lasts: rng.between(30 * MS, 2 * SECOND), kind: Kind::Silence(set) },
        Fault { at: silent + 2 * SECOND, lasts: rng.between(30 * MS, 300 * MS), kind: Kind::Silence(set) },
    ]
}

/// Draws faults by which the routes of a set's processes wrongly state that sections are in the other set, while
/// sections migrate to the set.
fn unsettled(rng: &mut Rng, at: u64, set: usize) -> Vec<Fault> {
    let mut faults = vec![Fault { at, lasts: MS, kind: Kind::Migrate(1 - set, rng.below(1_000)) }];
    for name in names_of(set) {
        let at = at + rng.below(SECOND);
        faults.push(Fault { at, lasts: rng.between(200 * MS, 2 * SECOND), kind: Kind::Unsettle(name) });
    }
    faults
}

/// Draws a migration whose departures are committed while the responses to the owners are lost.
fn unknown_departures(rng: &mut Rng, at: u64, set: usize) -> Vec<Fault> {
    let mut faults = vec![Fault { at, lasts: MS, kind: Kind::Migrate(set, 2 * rng.below(500)) }];
    for name in names_of(set) {
        let lasts = rng.between(600 * MS, 2 * SECOND);
        faults.push(Fault { at, lasts, kind: Kind::NoCommitResponses(name) });
        if rng.chance(500) {
            faults.push(Fault { at, lasts: lasts + SECOND, kind: Kind::NoRenewals(name) });
        }
    }
    faults
}

/// Draws a restore of a set from a backup that was made just before sections departed. The restore happens while these
/// sections are still on their way to the other set.
fn restore_in_progress(rng: &mut Rng, at: u64, set: usize) -> Vec<Fault> {
    let divided = at + rng.between(40 * MS, 100 * MS);
    let restored = divided + rng.between(300 * MS, 900 * MS);
    let lasts = restored - divided + rng.below(100 * MS);
    vec![
        Fault { at, lasts: MS, kind: Kind::Backup(set) },
        Fault { at: at + MS, lasts: MS, kind: Kind::Migrate(set, rng.below(1_000)) },
        Fault { at: divided, lasts, kind: Kind::Divide },
        Fault { at: restored, lasts: MS, kind: Kind::Restore(set) },
    ]
}

/// Draws a restore of a set of which a process of the set receives no notice, so that the process continues to serve
/// under its earlier lease until the lease expires.
fn older_owner(rng: &mut Rng, at: u64, set: usize) -> Vec<Fault> {
    let cut = at + rng.below(400 * MS);
    let name = names_of(set).start + rng.index(NAMES);
    vec![
        Fault { at, lasts: MS, kind: Kind::Backup(set) },
        Fault { at: cut, lasts: STORY - SECOND, kind: Kind::Severed(name) },
        Fault { at: cut + rng.below(100 * MS), lasts: MS, kind: Kind::Restore(set) },
    ]
}

/// Adds the faults of worlds of two sets that are drawn independently of all other faults. They are a merge, a loss of
/// series, and hand-overs of the creation of series.
pub(crate) fn add_faults(swarm: &mut Swarm, seed: u64) {
    add_merge(swarm, seed);
    AllSeries::add_loss(swarm, seed);
    add_hand_overs(swarm, seed);
}

/// Adds the merge of a set into the other set, if the draws from `seed` select a merge. Faults delay the commits of the
/// last departures to the merged set until this set is closing.
fn add_merge(swarm: &mut Swarm, seed: u64) {
    let rng = &mut Rng::new(seed ^ MERGE_SEED);
    if swarm.weather == Weather::Calm || !rng.chance(MERGED) {
        return;
    }
    let (set, at) = (rng.index(SETS), rng.between(SECOND, FAULTS_END / 2));
    let ends = FAULTS_END - SECOND;
    swarm.faults.push(Fault { at, lasts: MS, kind: Kind::Merge(set, true) });
    for name in names_of(1 - set) {
        let mut next = at + rng.below(SECOND);
        while next < ends {
            let lasts = rng.between(300 * MS, 1_500 * MS);
            swarm.faults.push(Fault { at: next, lasts, kind: Kind::NoCommits(name) });
            next += lasts + rng.between(50 * MS, 400 * MS);
        }
    }
    swarm.faults.sort_by_key(|fault| fault.at);
}

/// Adds hand-overs of the creation of series, if the draws from `seed` select them. During half of the hand-overs, the
/// sets are divided, so that the set that gets this task has not adopted the newest series.
fn add_hand_overs(swarm: &mut Swarm, seed: u64) {
    let rng = &mut Rng::new(seed ^ HAND_OVER_SEED);
    if !rng.chance(HANDED_OVER) {
        return;
    }
    for _ in 0..rng.between(1, MOST_HAND_OVERS) {
        let at = rng.between(SECOND, FAULTS_END - 4 * SECOND);
        if rng.chance(500) && swarm.weather != Weather::Calm {
            let (before, lasts) = (rng.below(SECOND), rng.between(500 * MS, 3 * SECOND));
            swarm.faults.push(Fault { at: at - before, lasts, kind: Kind::Divide });
        }
        swarm.faults.push(Fault { at, lasts: MS, kind: Kind::HandOver });
    }
    swarm.faults.sort_by_key(|fault| fault.at);
}

impl World {
    /// Begins a fault of one of the kinds that occur only in worlds of two sets.
    pub(crate) fn begin_of_sets(&mut self, kind: Kind, lasts: u64) {
        let now = self.now;
        match kind {
            Kind::Migrate(set, pick) => self.migrate(set, pick),
            Kind::PauseMigrations(set) => self.pace(set, true),
            Kind::Rollback(set) => self.with_newest(set, |id| Command::Rollback(Rollback { id })),
            Kind::Complete(set) => self.with_newest(set, |id| Command::Complete(Complete { id, by: None })),
            Kind::Blackout(set) => {
                for name in names_of(set) {
                    if let Some(p) = self.running(name) {
                        self.kill(p);
                    }
                }
            }
            Kind::Divide => self.divided_until = self.divided_until.max(now + lasts),
            Kind::Backup(set) => self.stores[set].backup = Some(self.stores[set].state.clone()),
            Kind::Restore(set) => self.restore(set),
            Kind::Merge(set, crossed) => self.merge(Merge { set, crossed }),
            Kind::HandOver => self.hand_over_series(),
            other => unreachable!("{other:?} is no fault of several sets"),
        }
    }

    /// Ends a fault of one of the kinds that occur only in worlds of two sets.
    pub(crate) fn end_of_sets(&mut self, kind: Kind) {
        match kind {
            Kind::PauseMigrations(set) => self.pace(set, false),
            Kind::Blackout(set) => names_of(set).for_each(|name| self.restart(name)),
            _ => {}
        }
    }
}
