//! What goes wrong in a world, and when: a list drawn from the seed, each fault with a number.
//!
//! Which kinds a seed has, and how many of them, is drawn as well: a world in which everything breaks at once never
//! gets far enough for the rare meetings of two faults. Faults are windows of time, so that a run can be repeated with
//! some of them.

use crate::hosts::{Hosts, MEMBERS, NAMES};
use crate::rng::Rng;
use crate::scenes::{MOST_SCENES, draw, scene, stormy};

/// Nanoseconds in a millisecond.
pub(crate) const MS: u64 = 1_000_000;

/// Nanoseconds in a second.
pub(crate) const SECOND: u64 = 1_000 * MS;

/// How long after everything healed each section must be served.
const LIVENESS_BOUND: u64 = 12 * SECOND;

/// How long things go wrong.
pub(crate) const FAULTS_END: u64 = 30 * SECOND;

/// One kind of fault, with its victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Messages from one host to another are lost.
    CutOneWay { from: usize, to: usize },
    /// Messages between two hosts are lost.
    Cut { a: usize, b: usize },
    /// A host is cut off, outwards, inwards or both.
    Isolate { host: usize, outward: bool, inward: bool },
    /// Messages are lost, so many in a thousand.
    Loss(u64),
    /// Messages arrive twice, so many in a thousand.
    Duplicates(u64),
    /// Messages take up to so long, in milliseconds.
    Slow(u64),
    /// A few messages are delivered up to 20 seconds later.
    Ancient(u64),
    /// Responses of the store are lost, so many in a thousand.
    ResponsesLost(u64),
    /// Responses of other AllocSvrs in handovers are lost, so many in a thousand.
    PeerResponsesLost(u64),
    /// A process does nothing for a while.
    Stall(usize),
    /// A machine sleeps.
    Suspend(usize),
    /// A process dies, and another one starts after a while.
    Crash(usize),
    /// A second process is started under a name.
    Twin(usize),
    /// A process leaves in good order, and another one starts.
    Leave(usize),
    /// An operator drains an AllocSvr.
    Drain(usize),
    /// An operator moves a section to an AllocSvr, and has it balanced again later.
    Move(u32, usize),
    /// An operator pauses balancing in a set permanently.
    PauseBalancing(usize),
    /// A wall clock is set, by so many milliseconds.
    WallStep(usize, i64),
    /// Another member leads; the old one does not know for a while.
    Elect(usize),
    /// Nothing is committed in a set.
    StorePause(usize),
    /// A member of the store does nothing for a while; what is sent to it waits.
    StallMember(usize),
    /// The arbiters of a set evaluate late.
    LateLook(usize),
    /// Proposals of the arbiters of a set are committed late.
    LateReassign(usize),
    /// Responses of a set are read from the state later than their entry was applied.
    LateNews(usize),
    /// The link between a machine and the store is cut; those to callers and other AllocSvrs work.
    Severed(usize),
    /// One process under a name receives no response of the store.
    Mute(usize, usize),
    /// Renewals of a name are lost, and raises too; commits of handovers arrive.
    OnlyCommits(usize),
    /// Raises of a name are lost.
    NoRaises(usize),
    /// Commits of handovers of a name are lost.
    NoCommits(usize),
    /// The responses to them are lost.
    NoCommitResponses(usize),
    /// Renewals of a name are lost.
    NoRenewals(usize),
    /// Forged messages of a handover are sent to a name.
    Forge(usize),
    /// Every member's data directory is put back to its state of so many milliseconds before, and all of them start
    /// again.
    RollBack(u64),
    /// Some sections of a set are to migrate.
    Migrate(usize, u64),
    /// The migrations of a set are paused.
    PauseMigrations(usize),
    /// The newest migration of a set is rolled back.
    Rollback(usize),
    /// The newest migration of a set is completed.
    Complete(usize),
    /// All processes of a set end.
    Blackout(usize),
    /// Messages between the stores of two sets are lost, or arrive seconds later.
    Divide,
    /// Processes of a set receive what those of the other set send, and none of their responses arrives there.
    Silence(usize),
    /// The routes of a process have sections in the other set that are not there, under the epoch of the caller.
    Unsettle(usize),
    /// A backup of a set is made.
    Backup(usize),
    /// A set is restored from its backup.
    Restore(usize),
    /// A set is merged into the other one; a migration to it may begin just before it closes.
    Merge(usize, bool),
    /// A clock runs at a rate beyond every margin, in millionths: only promises without clocks hold.
    WildRate(usize, u64),
}

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) at: u64,
    pub(crate) lasts: u64,
    pub(crate) kind: Kind,
}

impl Fault {
    pub(crate) fn describe(&self) -> String {
        let (at, lasts) = (self.at as f64 / SECOND as f64, self.lasts as f64 / SECOND as f64);
        format!("at {at:.3} s for {lasts:.3} s: {:?}", self.kind)
    }
}

/// What kind of a world a seed makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weather {
    /// Sections change owner only by handover: no gap, no request refused.
    Calm,
    /// Everything breaks, clocks within their margin: every promise.
    Stormy,
    /// Clocks beyond any margin: the promises that need none.
    Wild,
}

/// What a seed chose.
#[derive(Clone, Debug)]
pub(crate) struct Swarm {
    pub(crate) weather: Weather,
    /// Whether threads of a process meet inside of a call, so often in a thousand.
    pub(crate) interleave: u64,
    /// Whether clock rates lie at the edge of their margin.
    pub(crate) edge_rates: bool,
    /// Whether one name has longer leases, under terms of the set that are shortened on the way.
    pub(crate) long_terms: bool,
    /// Pause between a caller's calls, in milliseconds.
    pub(crate) think_ms: u64,
    /// When everything heals.
    pub(crate) ends: u64,
    /// The time after that within which each section must be served.
    pub(crate) liveness_bound: u64,
    /// Numbered from 0.
    pub(crate) faults: Vec<Fault>,
}

/// Kinds of faults that are switched on and off by themselves.
pub(crate) const STORMY_KINDS: usize = 26;

/// Most faults of one kind in a run.
const MOST_OF_A_KIND: u64 = 7;

/// How often in a thousand worlds in which something breaks the store is put back to an earlier state. Seldom: nothing
/// is served afterwards.
const ROLLED_BACK: u64 = 80;

/// The longest time that it is put back by, in milliseconds.
pub(crate) const MOST_BACK_MS: u64 = 5_000;

/// How often in a thousand worlds an operator moves sections and pauses balancing.
const OPERATED: u64 = 200;

/// Makes the chance of an operator another one than that of the rest, so that all other worlds stay as they are.
const OPERATOR_SEED: u64 = 0x3c91_55e0_d47a_180b;

/// Makes the chance of a rollback another one than that of the rest, so that all other worlds stay as they are.
const ROLLBACK_SEED: u64 = 0x7b1d_0c4a_6e55_92f3;

impl Swarm {
    /// Adds a store that is put back to an earlier state, if the seed has it.
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
            // Planned moves to incarnations that are lost, with commits whose responses were lost.
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
            // Names that run twice, so that some process is just about to register.
            for name in 0..NAMES {
                add(rng.between(100, 4_000), rng.between(4_000, 8_000), Kind::Twin(name));
            }
        }
        add(0, 1, Kind::RollBack(back));
        self.faults.sort_by_key(|fault| fault.at);
    }

    /// Adds an operator who moves sections and pauses balancing, if the seed has one.
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

    /// Whether the store is put back to an earlier state at some time.
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

impl Weather {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Weather::Calm => "calm",
            Weather::Stormy => "stormy",
            Weather::Wild => "wild",
        }
    }
}
