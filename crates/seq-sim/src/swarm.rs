//! The random choices of a seed for a world of one set. They are the kind of the world, its faults, and some
//! parameters.
//!
//! The seed also selects the kinds of faults and the number of faults of each kind. If all kinds of faults occurred at
//! once in every world, no world would get far enough for rare combinations of two faults.

use crate::faults::{FAULTS_END, Fault, Kind, MS, SECOND, Weather};
use crate::hosts::{Hosts, MEMBERS, NAMES};
use crate::rng::Rng;
use crate::scenes::{MOST_SCENES, STORMY_KINDS, draw, scene, stormy};

/// The time after the end of all faults within which each section must be served.
const LIVENESS_BOUND: u64 = 12 * SECOND;

/// The choices of a seed.
#[derive(Clone, Debug)]
pub(crate) struct Swarm {
    pub(crate) weather: Weather,
    /// The chance, in a thousand, that a thread is preempted between two steps of a call, so that other events occur in
    /// between.
    pub(crate) interleave: u64,
    /// Whether the rates of clocks may have the largest error for which leases allow.
    pub(crate) edge_rates: bool,
    /// Whether the sets begin with the terms [`LONG_TERMS`](crate::store::LONG_TERMS), with which the first AllocSvr
    /// registers with a longer lease. During the run, a command sets shorter terms.
    pub(crate) long_terms: bool,
    /// Mean pause between two calls of a caller for numbers, in milliseconds. In calm weather, each pause is half of
    /// this value.
    pub(crate) think_ms: u64,
    /// The time at which everything heals.
    pub(crate) ends: u64,
    /// The time after `ends` within which each section must be served.
    pub(crate) liveness_bound: u64,
    /// The faults, which are numbered from 0.
    pub(crate) faults: Vec<Fault>,
}

/// Exclusive upper limit of the number of faults of one kind in a run, not counting the faults of scenes.
const MOST_OF_A_KIND: u64 = 7;

/// Number of worlds, of a thousand worlds with failures, in which the store is put back to an earlier state. The number
/// is small because all processes stop afterwards, so that nothing more is tested.
const ROLLED_BACK: u64 = 80;

/// The longest time, in milliseconds, by which the store is put back. Earlier states are kept for this time.
pub(crate) const MOST_BACK_MS: u64 = 5_000;

/// Number of worlds, of a thousand, in which an operator moves sections and may pause balancing.
const OPERATED: u64 = 200;

/// Number that is combined with the seed of a run to draw the actions of an operator, so that this draw is independent
/// of the other draws of the run.
const OPERATOR_SEED: u64 = 0x3c91_55e0_d47a_180b;

/// Number that is combined with the seed of a run to draw the fault that puts the store back, so that this draw is
/// independent of the other draws of the run.
const ROLLBACK_SEED: u64 = 0x7b1d_0c4a_6e55_92f3;

impl Swarm {
    /// Adds a fault that puts the store back to an earlier state, and faults that happen shortly before it, if the
    /// draws from `seed` select this.
    pub(crate) fn add_rollback(&mut self, seed: u64) {
        let rng = &mut Rng::new(seed ^ ROLLBACK_SEED);
        if self.weather == Weather::Calm || !rng.chance(ROLLED_BACK) {
            return;
        }
        let at = rng.between(10 * SECOND, FAULTS_END);
        let most = *[200, 1_000, MOST_BACK_MS].get(rng.index(3)).expect("three of them");
        let mut back = rng.below(most);
        let mut add = |before: u64, lasts: u64, kind: Kind| {
            self.faults.push(Fault { at: at - before * MS, lasts: lasts * MS, kind });
        };
        if rng.chance(400) {
            // These faults make the store commit handovers to new incarnations, while its responses are lost. Then the
            // store loses these incarnations, because it is put back.
            let name = rng.index(NAMES);
            let restart = rng.between(2_000, 4_500);
            back = restart + rng.below(400);
            for other in (0..NAMES).filter(|other| *other != name) {
                add(restart, 150, Kind::Crash(other));
            }
            let moves = rng.between(200, 1_000);
            add(moves + 30, moves + 30, Kind::NoCommitResponses(name));
            add(moves, 4_000, Kind::Drain(name));
            add(moves - rng.between(10, 200), moves + 600, Kind::OnlyCommits(name));
        } else if rng.chance(800) {
            // These faults start second processes under all names, so that a process may be about to register when the
            // store is put back.
            for name in 0..NAMES {
                add(rng.between(100, 4_000), rng.between(4_000, 8_000), Kind::Twin(name));
            }
        }
        add(0, 1, Kind::RollBack(back));
        self.faults.sort_by_key(|fault| fault.at);
    }

    /// Adds the actions of an operator that moves sections and may pause balancing, if the draws from `seed` select an
    /// operator.
    pub(crate) fn add_operator(&mut self, seed: u64, sections: u32) {
        let rng = &mut Rng::new(seed ^ OPERATOR_SEED);
        if !rng.chance(OPERATED) {
            return;
        }
        for _ in 0..rng.between(2, 12) {
            let kind = Kind::Move(rng.below(sections.into()) as u32, rng.index(NAMES));
            self.faults.push(draw(rng, kind, 500, 12_000));
        }
        if rng.chance(500) {
            self.faults.push(draw(rng, Kind::PauseBalancing(0), 1, 2));
        }
        self.faults.sort_by_key(|fault| fault.at);
    }

    /// Returns whether the store is put back to an earlier state at some time.
    pub(crate) fn rolls_back(&self) -> bool {
        self.faults.iter().any(|fault| matches!(fault.kind, Kind::RollBack(_)))
    }

    pub(crate) fn draw(rng: &mut Rng) -> Swarm {
        let hosts = Hosts { sets: 1 };
        let weather = match rng.below(10) {
            0 => Weather::Calm,
            1 | 2 => Weather::Wild,
            _ => Weather::Stormy,
        };
        let mut faults = Vec::new();
        if weather == Weather::Calm {
            for _ in 0..rng.between(2, 8) {
                let name = rng.index(NAMES);
                let kind = match rng.below(5) {
                    0 => Kind::Forge(name),
                    1 | 2 => Kind::Drain(name),
                    _ => Kind::Leave(name),
                };
                faults.push(draw(rng, kind, 1_000, 5_000));
            }
        } else {
            if weather == Weather::Wild || rng.chance(600) {
                for _ in 0..rng.between(1, MOST_SCENES) {
                    scene(rng, &mut faults, weather, hosts);
                }
            }
            for kind in 0..STORMY_KINDS {
                if rng.chance(400) {
                    for _ in 0..rng.between(1, MOST_OF_A_KIND) {
                        let one = stormy(rng, kind, hosts);
                        faults.push(one);
                    }
                }
            }
            if weather == Weather::Wild {
                for _ in 0..rng.between(2, 8) {
                    let rate = *[0, 100_000, 500_000, 2_000_000].get(rng.index(4)).expect("four of them");
                    let kind = Kind::WildRate(rng.index(NAMES + MEMBERS), rate);
                    faults.push(draw(rng, kind, 2_000, 15_000));
                }
            }
        }
        faults.sort_by_key(|fault| fault.at);
        Swarm {
            weather,
            interleave: if weather == Weather::Wild || rng.chance(600) { rng.between(10, 200) } else { 0 },
            edge_rates: rng.chance(400),
            long_terms: weather != Weather::Calm && rng.chance(250),
            think_ms: rng.between(10, 120),
            ends: FAULTS_END,
            liveness_bound: LIVENESS_BOUND,
            faults,
        }
    }
}
