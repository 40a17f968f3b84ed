//! The choices of a seed: the weather, and a list of faults.
//!
//! A seed also draws which kinds of faults it has and how many of each, because a world in which everything breaks at
//! once never gets far enough for rare combinations of two faults.

use crate::faults::{FAULTS_END, Fault, Kind, MS, SECOND, Weather};
use crate::hosts::{Hosts, MEMBERS, NAMES};
use crate::rng::Rng;
use crate::scenes::{MOST_SCENES, STORMY_KINDS, draw, scene, stormy};

/// The time within which each section must be served after all faults have ended.
const LIVENESS_BOUND: u64 = 12 * SECOND;

/// The choices of a seed.
#[derive(Clone, Debug)]
pub(crate) struct Swarm {
    pub(crate) weather: Weather,
    /// The chance, in a thousand, that a thread is preempted inside of a call, so that other events occur in between.
    pub(crate) interleave: u64,
    /// Whether clock rates reach the edge of their margin.
    pub(crate) edge_rates: bool,
    /// Whether the first AllocSvr begins with a longer lease. The terms of its set are then long at first, and are
    /// shortened during the run.
    pub(crate) long_terms: bool,
    /// Mean pause between a caller's calls, in milliseconds. In calm weather, the pause is always half of this mean.
    pub(crate) think_ms: u64,
    /// The time at which everything heals.
    pub(crate) ends: u64,
    /// The time after `ends` within which each section must be served.
    pub(crate) liveness_bound: u64,
    /// The faults, which are numbered from 0.
    pub(crate) faults: Vec<Fault>,
}

/// Limit on the faults of a kind in a run, exclusive.
const MOST_OF_A_KIND: u64 = 7;

/// Number of worlds, in a thousand with failures, in which the store is put back to an earlier state. There are few of
/// them, because nothing is served afterwards.
const ROLLED_BACK: u64 = 80;

/// The longest time by which the store is put back, in milliseconds.
pub(crate) const MOST_BACK_MS: u64 = 5_000;

/// Number of worlds, in a thousand, in which an operator moves sections and may pause balancing.
const OPERATED: u64 = 200;

/// Number that is mixed into the seed, so that the draws for an operator are independent of the other draws, and all
/// other worlds stay as they are.
const OPERATOR_SEED: u64 = 0x3c91_55e0_d47a_180b;

/// Number that is mixed into the seed, so that the draws for a rollback are independent of the other draws, and all
/// other worlds stay as they are.
const ROLLBACK_SEED: u64 = 0x7b1d_0c4a_6e55_92f3;

impl Swarm {
    /// Adds the fault that puts the store back to an earlier state, if the seed has it.
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
            // Sections are handed over to incarnations that the store then loses, by commits whose responses are lost.
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
            // Second processes of all names, so that some process is about to register.
            for name in 0..NAMES {
                add(rng.between(100, 4_000), rng.between(4_000, 8_000), Kind::Twin(name));
            }
        }
        add(0, 1, Kind::RollBack(back));
        self.faults.sort_by_key(|fault| fault.at);
    }

    /// Adds the actions of an operator that moves sections and may pause balancing, if the seed has such an operator.
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
