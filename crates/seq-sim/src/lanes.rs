//! The three series of a world, which are a counter, a series whose lanes the node chooses, and a series whose lanes
//! the caller names. Their shapes have few bits for sequence numbers, so that sequence numbers overflow and ids run
//! ahead of the clock.

use seq_core::lane_clock::LaneClock;
use seq_core::layout::{Lanes, SectionRun, TickClock, address};
use seq_core::series::Series;
use seq_core::state::{Command, CreateSeries, SetLayoutWriter};
use seq_core::{Layout, Refusal, SectionId, Seq, SlotIndex, Uid};
use seq_ids::{CounterShape, Id, Shape, TimedShape};

use crate::bugs::Bug;
use crate::client::Client;
use crate::coverage::Situation;
use crate::events::Event;
use crate::faults::{Fault, Kind, MS, SECOND, Weather};
use crate::hosts::{Hosts, index_of, members_of, set_id};
use crate::keys::WorldKeys;
use crate::rng::Rng;
use crate::swarm::Swarm;
use crate::world::World;

/// Number that is combined with the seed of a run to draw its series, so that this draw is independent of the other
/// draws of the run.
const LANES_SEED: u64 = 0x1a9e_5c0d_77e3_b1f5;

/// Number that is combined with the seed of a run to draw its steps of wall clocks, so that this draw is independent of
/// the other draws of the run.
const STEPS_SEED: u64 = 0x57e9_0b2d_61fa_c483;

/// Number that is combined with the seed of a run to draw a loss of series, so that this draw is independent of the
/// other draws of the run.
const LOSS_SEED: u64 = 0x7c3a_91e4_0d58_b26f;

/// Number of runs, of a thousand runs with two sets and failures, in which both sets are restored from backups that
/// were made before most series were created.
const LOST: u64 = 80;

/// Number of runs, of a thousand runs with failures, in which wall clocks are set forward or back.
const STEPPED: u64 = 600;

/// Exclusive upper limit of the number of steps of wall clocks in a run.
const MOST_STEPS: u64 = 9;

/// Limits of a step of a wall clock, in milliseconds. For each step, one of these limits is drawn.
const MOST_STEP_MS: [u64; 4] = [1_500, 10_000, 60_000, 3 * 3_600_000];

/// The wall clock at the begin of a world, in milliseconds since 1970.
pub(crate) const WALL_MS: u64 = 1_800_000_000_000;

/// The epoch of the shapes, in milliseconds since 1970.
const EPOCH_MS: u64 = WALL_MS - 1_000_000_000;

/// Largest time by which the time in an id may be ahead of the clock, in milliseconds.
const AHEAD_MS: u32 = 1_000;

/// Times in milliseconds by which a raise sets the ceiling of timed lanes ahead of the clock. The first time is for
/// lanes that the node chooses, and the second for lanes that the caller names.
const LEADS_MS: [u32; 2] = [12_000, 1_000];

/// The last id of the counter.
const LAST_ID: u64 = (1 << 31) - 1;

/// Time between two attempts of the operator to create a series.
const LOOK: u64 = 100 * MS;

/// Limit on the time between two creations.
const LONGEST_PAUSE: u64 = 3 * SECOND;

/// Number of series of a world.
pub(crate) const SERIES: usize = 3;

/// Way in which a series determines the lane of a call for ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// A counter, which has one lane.
    Counter,
    /// The caller names the lane.
    Named,
    /// The node chooses the lane.
    Chosen,
}

/// A series of a world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorldSeries {
    pub(crate) choice: Choice,
    pub(crate) shape: Shape,
    pub(crate) lanes: Lanes,
    /// The sections of the lanes.
    pub(crate) sections: SectionRun,
    spreads: bool,
}

/// The series of a world, in the order in which they are created.
#[derive(Clone, Debug)]
pub(crate) struct AllSeries {
    pub(crate) all: [WorldSeries; SERIES],
    /// The keyspace, if the world has one. It is created after all series.
    pub(crate) keys: Option<WorldKeys>,
    /// The layout with the sections of all series.
    pub(crate) layout: Layout,
    /// Whether some processes are of an earlier release, which does not know series.
    pub(crate) old_nodes: bool,
}

impl WorldSeries {
    fn new(choice: Choice, rng: &mut Rng, bug: Option<Bug>) -> WorldSeries {
        let (sections, spreads) = (SectionRun { first: SectionId(0), sections: 0 }, rng.chance(500));
        if choice == Choice::Counter {
            let shape = CounterShape { offset: rng.between(1, 3), increment: 2, max_id: LAST_ID };
            let margin = match bug {
                Some(Bug::WideMargin) => seq_core::limits::RESTORE_MARGIN,
                Some(Bug::NoMargin) => 0,
                _ => Lanes::margin_of(LAST_ID / 2),
            };
            let lanes = Lanes { count: 1, per_section: 1, start: Seq(0), margin, clock: None, keys: None };
            return WorldSeries { choice, shape: Shape::Counter(shape), lanes, sections, spreads: false };
        }
        let (unit_ms, seq_bits) = *[(20, 0), (50, 1), (100, 2)].get(rng.index(3)).expect("three of them");
        let lane_bits = if choice == Choice::Chosen { 2 } else { 1 };
        let shape = TimedShape { epoch_ms: EPOCH_MS, unit_ms, time_bits: 40, lane_bits, seq_bits, spread: spreads };
        let lead_ms = LEADS_MS[usize::from(choice == Choice::Named)];
        let clock = Some(TickClock { epoch_ms: EPOCH_MS, unit_ms, seq_bits, lead_ms });
        let lanes = Lanes { count: 1 << lane_bits, per_section: 2, start: Seq(0), margin: 0, clock, keys: None };
        WorldSeries { choice, shape: Shape::Timed(shape), lanes, sections, spreads }
    }

    pub(crate) fn name(&self) -> String {
        format!("{:?}", self.choice).to_lowercase()
    }

    /// Returns the address of a lane.
    pub(crate) fn address(&self, lane: u32) -> Uid {
        let per = self.lanes.per_section;
        address(SectionId(self.sections.first.0 + lane / per), SlotIndex(lane % per))
    }

    /// Returns the first lane of a section, and the number of its lanes.
    pub(crate) fn lanes_of(&self, section: SectionId) -> (u32, u32) {
        let first = (section.0 - self.sections.first.0) * self.lanes.per_section;
        (first, self.lanes.per_section.min(self.lanes.count - first))
    }

    /// Returns the id of a number of a lane.
    pub(crate) fn id(&self, lane: u32, number: Seq) -> Option<Id> {
        self.shape.id(lane, number.0).ok()
    }

    /// Returns the command that creates the series.
    pub(crate) fn create(&self, created_ms: u64) -> CreateSeries {
        let shape = vec![u8::from(self.choice == Choice::Chosen), u8::from(self.spreads)];
        CreateSeries { name: self.name(), shape, lanes: self.lanes, created_ms }
    }
}

impl AllSeries {
    /// Adds faults that set wall clocks forward or back, by up to three hours, if the draws from `seed` select this
    /// kind of fault. In each store, only the clock of the first member is changed, so that the median of the members'
    /// clocks stays correct.
    pub(crate) fn add_wall_steps(swarm: &mut Swarm, seed: u64, hosts: Hosts) {
        let rng = &mut Rng::new(seed ^ STEPS_SEED);
        if swarm.weather == Weather::Calm || !rng.chance(STEPPED) {
            return;
        }
        for _ in 0..rng.between(1, MOST_STEPS) {
            let machine = if rng.chance(800) {
                rng.index(hosts.names())
            } else {
                hosts.of_member(members_of(rng.index(hosts.sets)).start)
            };
            let most = *MOST_STEP_MS.get(rng.index(MOST_STEP_MS.len())).expect("some of them");
            let by = rng.between(1, most) as i64;
            let kind = Kind::WallStep(machine, if rng.chance(500) { by } else { -by });
            let at = rng.between(SECOND, swarm.ends - SECOND);
            swarm.faults.push(Fault { at, lasts: MS, kind });
        }
        swarm.faults.sort_by_key(|fault| fault.at);
    }

    /// Adds faults by which both sets lose series, if the draws from `seed` select this kind of fault. Both sets are
    /// restored from backups that were made before most series were created.
    pub(crate) fn add_loss(swarm: &mut Swarm, seed: u64) {
        let rng = &mut Rng::new(seed ^ LOSS_SEED);
        if swarm.weather == Weather::Calm || !rng.chance(LOST) {
            return;
        }
        let (backup, lost) = (rng.between(SECOND, 3 * SECOND), rng.between(6 * SECOND, swarm.ends - 6 * SECOND));
        swarm.faults.retain(|fault| !matches!(fault.kind, Kind::Backup(_)) || fault.at > lost + SECOND);
        for set in [1, 0] {
            let at = lost + rng.below(SECOND / 2);
            swarm.faults.push(Fault { at: backup, lasts: MS, kind: Kind::Backup(set) });
            swarm.faults.push(Fault { at, lasts: MS, kind: Kind::Restore(set) });
        }
        // A migration begins just before the restores, so that sections may be on their way to a set while this set is
        // restored, and arrive after the set has fenced the lineage under which they departed.
        let migrated = lost - rng.between(60 * MS, 200 * MS);
        swarm.faults.push(Fault { at: migrated, lasts: MS, kind: Kind::Migrate(rng.index(2), 2 * rng.below(500)) });
        swarm.faults.push(Fault { at: migrated + 50 * MS, lasts: SECOND, kind: Kind::Divide });
        swarm.faults.sort_by_key(|fault| fault.at);
    }

    /// Draws the series of a world from `seed`, and appends their lanes to the layout `declared`. If `with_keys` is
    /// set, appends the buckets of a keyspace as well.
    pub(crate) fn draw(seed: u64, declared: &Layout, bug: Option<Bug>, with_keys: bool) -> AllSeries {
        let rng = &mut Rng::new(seed ^ LANES_SEED);
        let mut layout = declared.clone();
        let mut order = [Choice::Counter, Choice::Named, Choice::Chosen];
        order.swap(rng.index(3), rng.index(3));
        order.swap(0, rng.index(3));
        let all = order.map(|choice| {
            let series = WorldSeries::new(choice, rng, bug);
            let (longer, sections) = layout.append(series.lanes).expect("sound lanes");
            layout = longer;
            WorldSeries { sections, ..series }
        });
        let keys = with_keys.then(|| WorldKeys::append(&layout));
        let (keys, layout) = keys.map_or((None, layout), |(keys, longer)| (Some(keys), longer));
        AllSeries { all, keys, layout, old_nodes: rng.chance(300) }
    }

    /// Returns the series whose lanes are in a section, and the first lane in the section; `None` for a section of
    /// uids.
    pub(crate) fn of(&self, section: SectionId) -> Option<(&WorldSeries, u32)> {
        let series = self.all.iter().find(|one| one.sections.iter().any(|other| other == section))?;
        Some((series, series.lanes_of(section).0))
    }

    /// Returns the series and the lane at an address.
    pub(crate) fn lane_at(&self, address: Uid) -> Option<(&WorldSeries, u32)> {
        let (section, slot) = self.layout.locate(address).ok()?;
        let (series, first) = self.of(section)?;
        Some((series, first + slot.0))
    }

    /// Returns the index of a uid, of the lane at the address `uid`, or of the key for which it stands, in a list of
    /// all uids followed by all lanes and all keys.
    pub(crate) fn user(&self, uid: Uid) -> u64 {
        if let Some(index) = WorldKeys::index(uid) {
            return (self.users_without_keys() + index) as u64;
        }
        let Some((of, lane)) = self.lane_at(uid) else { return uid.0 };
        let before = self.all.iter().take_while(|one| one.choice != of.choice).map(|one| one.lanes.count).sum::<u32>();
        self.layout.uids().end + u64::from(before + lane)
    }

    /// Returns the indexes of the lanes of the series with this choice.
    pub(crate) fn users_of(&self, choice: Choice) -> impl Iterator<Item = u64> {
        let of = self.all.iter().filter(move |one| one.choice == choice);
        of.flat_map(|one| (0..one.lanes.count).map(|lane| self.user(one.address(lane))))
    }

    /// Returns the section and the slot of a uid, of the address of a lane, or of a uid that stands for a key.
    pub(crate) fn locate(&self, uid: Uid) -> Result<(SectionId, SlotIndex), Refusal> {
        let of_key = self.keys.and_then(|keys| keys.locate(uid));
        of_key.map_or_else(|| self.layout.locate(uid), Ok)
    }

    /// Returns the number of all uids, lanes and keys.
    pub(crate) fn users(&self) -> usize {
        self.users_without_keys() + if self.keys.is_some() { WorldKeys::count() } else { 0 }
    }

    fn users_without_keys(&self) -> usize {
        self.layout.uids().end as usize + self.all.iter().map(|one| one.lanes.count as usize).sum::<usize>()
    }
}

/// Returns the clock that the lanes of a section follow. `series` is the list of series in a route table. Returns
/// `None` if the section has no lanes of these series, or if its lanes follow no clock.
pub(crate) fn clock_of(series: &[Series], section: SectionId) -> Option<LaneClock> {
    let of = series.iter().find(|one| one.sections.iter().any(|other| other == section))?;
    let [is_chosen, spreads] = of.shape[..] else { return None };
    let (is_chosen, spreads) = (is_chosen == 1, spreads == 1);
    Some(LaneClock { clock: of.lanes.clock?, ahead_ms: AHEAD_MS, spreads, is_chosen })
}

impl World {
    /// Returns whether a set has the series or the keyspace of a section, if the section is not one of uids.
    pub(crate) fn is_section_created(&self, section: SectionId) -> bool {
        let of_keys = self.series.keys.is_some_and(|keys| keys.has(section));
        let series = self.series.of(section).map(|(series, _)| *series);
        (!of_keys || self.is_keyspace_created()) && series.is_none_or(|series| self.is_created(&series))
    }

    /// Returns whether a set has a series.
    pub(crate) fn is_created(&self, series: &WorldSeries) -> bool {
        self.stores.iter().any(|store| store.state.series(&series.name()).is_some())
    }

    /// Begins the probes of series. They request one id of each counter and of each lane that callers name, and one id
    /// of each series whose lanes the node chooses.
    pub(crate) fn probe_lanes(&mut self) {
        for series in self.series.all {
            let lanes = if series.choice == Choice::Chosen { 1 } else { series.lanes.count };
            let lanes = if self.is_created(&series) { lanes } else { 0 };
            for lane in 0..lanes {
                self.clients.push(Client::probing_id(self.layout.sections(), series.address(lane)));
                self.after(0, Event::NextCall(self.clients.len() - 1));
            }
        }
    }

    /// Returns the set that creates series, according to the newest hand-over of this task that any set knows, and the
    /// term of this hand-over.
    fn writer(&self) -> (usize, u64) {
        let writers = self.stores.iter().filter_map(|store| store.state.layout_writer());
        // In a world of one set, the id of the set is not an index plus 1.
        let writers = writers.filter(|_| self.hosts.sets > 1);
        writers.max_by_key(|writer| writer.term).map_or((0, 0), |writer| (index_of(writer.set), writer.term))
    }

    /// Lets the operator hand the creation of series to the other set.
    pub(crate) fn hand_over_series(&mut self) {
        let (set, term) = self.writer();
        self.command(set, Command::SetLayoutWriter(SetLayoutWriter { term, to: set_id(1 - set) }));
    }

    /// Lets the operator request the next series from the set that creates series, unless an AllocSvr of a release
    /// without series owns sections. After a hand-over of this task, the operator sometimes sends the request to the
    /// set that had the task before.
    pub(crate) fn create_series(&mut self) {
        let (mut set, term) = self.writer();
        if term > 0 && !self.healed && self.rng.chance(300) {
            set = 1 - set;
        }
        let created_ms = self.store_ms(set);
        let store = &self.stores[set];
        let keyspace = self.series.keys.map(|_| WorldKeys::create(created_ms));
        let mut creates = self.series.all.iter().map(|one| one.create(created_ms)).chain(keyspace);
        let create = creates.find(|one| store.state.series(&one.name).is_none());
        let mut wait = LOOK;
        if let Some(create) = create.filter(|_| store.rolled_back.is_none()) {
            if store.state.outdated_owner().is_some() {
                self.coverage.saw(Situation::CreationRefused);
            } else if self.rng.chance(100) || self.healed {
                self.command(set, Command::CreateSeries(create));
                wait = if self.healed { LOOK } else { self.rng.between(LOOK, LONGEST_PAUSE) };
            }
        }
        self.after(wait, Event::CreateSeries);
    }
}
