//! Tests owners of ticks, whose clocks step by hours, against a simple model: the highest tick of each lane, and the
//! set of all allocated ticks.
//!
//! Ownerships end by handovers and by takeovers. After a takeover, the previous owner continues to allocate up to its
//! own ceiling, because no lease bounds ticks.

extern crate std;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::*;
use crate::layout::TickClock;
use crate::seeded_tests::{PrintSeed, Random};

const SEEDS: u64 = 100;
const STEPS: u64 = 10_000;
const LANES: usize = 3;
const HOUR: u64 = 3_600_000;
/// The present time at the beginning of each world, years after the epoch of the clock.
const START: u64 = 1_700_000_000_000;

/// An ownership, and its twin.
struct Owner {
    section: Section,
    /// The last tick of each lane. Before a lane's first tick in this ownership, the tick above which the lane
    /// continues.
    last: [u64; LANES],
    /// Whether `last` was allocated.
    given: [bool; LANES],
    frozen: bool,
    /// Whether the section's ticket is at hand.
    ticket: bool,
    requested: Option<Seq>,
    /// The committed ceiling in a response that has not arrived yet.
    response: Option<Seq>,
}

impl Owner {
    fn new(section: Section, last: [u64; LANES], given: [bool; LANES]) -> Owner {
        Owner { section, last, given, frozen: false, ticket: false, requested: None, response: None }
    }

    fn takeover(ceiling: Seq, lead: Step) -> Owner {
        let section = Section::takeover(LANES as u32, ceiling, lead).in_ticks(lead);
        Owner::new(section, [ceiling.0; LANES], [false; LANES])
    }

    /// Adopts the response to a raise, if there is one. This ends the ticket.
    fn adopt_response(&mut self) {
        if let Some(committed) = self.response.take() {
            assert_eq!(self.section.raised(committed), None);
            assert_eq!(self.section.ceiling(), committed);
            self.ticket = false;
        }
    }

    fn keep_ticket(&mut self, ticket: Option<RaiseTicket>) {
        assert!(!(self.ticket && ticket.is_some()), "two tickets");
        self.ticket |= ticket.is_some();
    }
}

struct World {
    random: Random,
    /// How often each event occurred, so that a test fails if its worlds never had the event.
    seen: BTreeMap<&'static str, u64>,
    clock: TickClock,
    ahead_ms: u64,
    /// The owners' clock and the clock of the store's leader.
    now: u64,
    leader_now: u64,
    committed: Seq,
    owner: Owner,
    earlier: Vec<Owner>,
    /// Every allocated tick, with its lane.
    given: BTreeSet<(usize, u64)>,
}

impl World {
    fn new(seed: u64, seen: BTreeMap<&'static str, u64>) -> World {
        let mut random = Random((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let clock = TickClock {
            epoch_ms: random.pick(&[0, 1_288_834_974_657]),
            unit_ms: random.pick(&[1, 10, 1_000]),
            seq_bits: random.pick(&[0, 3, 12]),
            lead_ms: random.pick(&[1, 50, 2_000, 60_000]),
        };
        let ahead_ms = random.pick(&[0, 1_000, 10_000]);
        let committed = Seq(0);
        let owner = Owner::takeover(committed, clock.lead());
        let (earlier, given) = (Vec::new(), BTreeSet::new());
        World { random, seen, clock, ahead_ms, now: START, leader_now: START, committed, owner, earlier, given }
    }

    fn saw(&mut self, event: &'static str) {
        *self.seen.entry(event).or_default() += 1;
    }

    fn step(&mut self) {
        self.move_clocks();
        match self.random.below(1_000) {
            0..3 => self.take_over(),
            3..6 => self.freeze(),
            6..30 => self.hand_over(),
            30..300 => self.raise(),
            300..350 => self.take_from_earlier(),
            _ => self.take(),
        }
    }

    fn move_clocks(&mut self) {
        self.leader_now += self.random.pick(&[0, 0, 0, 0, 1, 3, 20, 500]);
        self.now = match self.random.below(1_000) {
            0 => self.now.saturating_sub(self.random.below(9 * HOUR)),
            1 => self.now + self.random.below(9 * HOUR),
            2 => 0,
            3..60 => self.leader_now,
            60..500 => self.now,
            _ => self.now + self.random.below(3 * u64::from(self.clock.unit_ms)),
        };
        if self.random.below(2_000) == 0 {
            self.leader_now = self.leader_now + self.random.below(4 * HOUR) - self.random.below(2 * HOUR);
        }
    }

    fn take(&mut self) {
        let lane = self.random.below(LANES as u64) as usize;
        let count = self.random.pick(&[1, 1, 1, 1, 1, 1, 2, 3, 20]);
        let unit = (1 << self.clock.seq_bits) - 1;
        let spread = self.random.pick(&[0, unit]);
        let (present, farthest) = (self.clock.tick(self.now).0, self.clock.tick(self.now + self.ahead_ms).0 | unit);
        let owner = &mut self.owner;
        let last = owner.last[lane];
        // A caller may request a number above a given number, which need not be the first of a unit of time.
        let after = last.saturating_add(self.random.below(9 << self.clock.seq_bits));
        let floor = if self.random.below(8) == 0 { present.max(after) } else { present };
        let window = Window { floor: Seq(floor), limit: Seq(farthest), spread };
        let next = last + 1;
        match owner.section.take_within(SlotIndex(lane as u32), Count::new(count).unwrap(), window) {
            Ok(Take::Given { value, prev, ticket }) => {
                let first = value.0 - u64::from(count) + 1;
                assert!(!owner.frozen, "a frozen lane gave {first}");
                assert!(first >= next && first >= floor, "{first} is below {next} or {floor}");
                assert!(first == next || first == floor + (next & spread), "{first} skips ticks above {floor}");
                assert!(floor & spread > 0 || first & spread == next & spread, "{first} begins its sequence anew");
                assert!((present..=farthest).contains(&first), "{first} is not the present, {present} to {farthest}");
                assert!(value <= owner.section.ceiling() && value <= self.committed, "{value} is above the ceiling");
                assert_eq!(prev.0, if owner.given[lane] { last } else { 0 });
                for tick in first..=value.0 {
                    assert!(self.given.insert((lane, tick)), "{tick} of lane {lane} is given twice");
                }
                (owner.last[lane], owner.given[lane]) = (value.0, true);
                owner.keep_ticket(ticket);
                self.saw(if first == next { "a tick by the lane" } else { "a tick by the clock" });
            }
            Ok(Take::AtCeiling { needed, ticket }) => {
                assert!(!owner.frozen && needed > owner.section.ceiling());
                owner.keep_ticket(ticket);
                assert!(owner.ticket, "a call waits for a raise that is not queued");
                self.saw("a call at the ceiling");
            }
            Ok(Take::Frozen) => {
                assert!(owner.frozen);
                self.saw("a call at a freeze");
            }
            Ok(Take::Exhausted) => panic!("far from the end"),
            Err(Ahead { first }) => {
                assert!(!owner.frozen && first.0 > farthest && first.0 == next.max(floor + (next & spread)));
                self.saw("a call ahead of the clock");
            }
        }
    }

    /// Takes ticks from an owner that does not know that another owner has replaced it.
    fn take_from_earlier(&mut self) {
        if self.earlier.is_empty() {
            return;
        }
        let index = self.random.below(self.earlier.len() as u64) as usize;
        core::mem::swap(&mut self.owner, &mut self.earlier[index]);
        let before = self.given.len();
        self.take();
        if self.given.len() > before {
            self.saw("a tick of an earlier owner");
        }
        core::mem::swap(&mut self.owner, &mut self.earlier[index]);
    }

    /// Makes the next step of an owner's raise: its request, its commit, or its response. The store refuses the
    /// requests of earlier owners, but these owners may still get a response to an earlier request.
    fn raise(&mut self) {
        self.earlier.iter_mut().for_each(Owner::adopt_response);
        let owner = &mut self.owner;
        if owner.response.is_some() {
            // The ticket of a lost response is queued again.
            owner.response = owner.response.filter(|_| self.random.below(8) > 0);
            owner.adopt_response();
        } else if let Some(requested) = owner.requested.take() {
            let bound = self.clock.clamp(self.leader_now);
            if bound < requested {
                self.saw("a raise cut short");
            }
            self.committed = self.committed.max(requested.min(bound));
            self.owner.response = Some(self.committed);
        } else if owner.ticket {
            owner.requested = owner.section.raise_target();
            owner.ticket = owner.requested.is_some();
            assert!(owner.requested.is_none_or(|to| to > owner.section.ceiling()), "a raise that raises nothing");
        }
    }

    fn freeze(&mut self) {
        let copy = self.owner.section.freeze();
        let lanes = (0..LANES).filter(|lane| self.owner.given[*lane]);
        let distance = |lane: usize| Distance::new(self.owner.last[lane] - copy.base.0, false).unwrap();
        let exact: Vec<_> = lanes.map(|lane| (SlotIndex(lane as u32), distance(lane))).collect();
        assert_eq!(copy.distances, exact);
        self.owner.frozen = true;
    }

    /// Starts the next ownership at the exact ticks of an owner that is frozen.
    fn hand_over(&mut self) {
        if !self.owner.frozen {
            return;
        }
        let copy = self.owner.section.freeze();
        let section = Section::handed_over(LANES as u32, &copy, self.committed, self.clock.lead()).unwrap();
        let (last, given) = (self.owner.last, self.owner.given);
        self.start(Owner::new(section.in_ticks(self.clock.lead()), last, given));
        self.saw("a handover");
    }

    fn take_over(&mut self) {
        self.start(Owner::takeover(self.committed, self.clock.lead()));
        self.saw("a takeover");
    }

    fn start(&mut self, owner: Owner) {
        self.earlier.push(core::mem::replace(&mut self.owner, owner));
        if self.earlier.len() > 2 {
            self.earlier.remove(0);
        }
    }
}

#[test]
fn no_tick_is_given_twice_for_any_clocks() {
    let mut seen = BTreeMap::new();
    for seed in 0..SEEDS {
        let _printed = PrintSeed(seed);
        let mut world = World::new(seed, seen);
        (0..STEPS).for_each(|_| world.step());
        seen = world.seen;
    }
    assert!(seen.len() == 9 && seen.values().all(|times| *times > SEEDS), "{seen:?}");
}
