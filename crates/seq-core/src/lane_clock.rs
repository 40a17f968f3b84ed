//! Allocates numbers from the lanes of series. The module computes the window that the clock allows for the next
//! number, chooses the section for a call, and decides which sections are served without a lease.
//!
//! **Invariant:** whatever time the clock shows, the numbers of a lane are unique and rise, because the clock can only
//! raise the first number of a call, never lower it.

use alloc::vec;
use alloc::vec::Vec;

use crate::id::{SectionId, Seq, SlotIndex};
use crate::layout::{SectionRun, TickClock};
use crate::limits;
use crate::request::Count;
use crate::section::{Section, Take, Window};

/// The clock that the lanes of a section follow during one ownership, with the rules of the lanes' series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneClock {
    /// The clock that the numbers follow.
    pub clock: TickClock,
    /// Longest time by which the first number of a call may be ahead of the clock, in milliseconds.
    pub ahead_ms: u32,
    /// Whether the sequence number within a unit of time continues from the unit before, instead of starting at 0.
    pub spreads: bool,
    /// Whether the node chooses the lane of a call, instead of the caller. If the node chooses, successive calls may
    /// get numbers from different lanes, so callers are not promised increasing numbers.
    pub is_chosen: bool,
}

/// Reason why no number of a lane was taken. The lane is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// The first number would be too far ahead of the clock. The caller retries when the clock has advanced.
    Ahead,
    /// The caller requests numbers above a given number, and this number is itself too far ahead of the clock or of the
    /// lane.
    AfterTooFar,
}

impl LaneClock {
    /// Returns the window in which the first number of a call must be. `unix_ms` is the time of the call, in
    /// milliseconds since 1970.
    #[must_use]
    pub fn window(&self, unix_ms: u64) -> Window {
        let limit = self.clock.last_tick(unix_ms.saturating_add(self.ahead_ms.into()));
        let spread = if self.spreads { self.clock.seq_mask() } else { 0 };
        Window { floor: self.clock.tick(unix_ms), limit, spread }
    }

    /// Returns whether the section rests. This means that none of its lanes can allocate a number at the time
    /// `unix_ms`, because the ownership began at a number too far ahead of the clock. If a section that rests is handed
    /// over, it also rests at its next owner, because all numbers of the next ownership are above the same base.
    #[must_use]
    pub fn rests(&self, section: &Section, unix_ms: u64) -> bool {
        section.base() >= self.window(unix_ms).limit
    }
}

/// Returns whether the owner serves the lanes of a section, up to the section's ceiling, even without a lease. It does
/// so only if the node chooses the lane of a call. Even then all numbers are unique, because the next ownership begins
/// at the committed ceiling, and no number of this ownership is above that ceiling. But after the next ownership has
/// begun, this ownership would allocate numbers that are smaller than the next owner's. Callers of counters, and
/// callers that name the lane, are promised increasing numbers, so their sections require a lease.
#[must_use]
pub fn serves_unleased(clock: Option<&LaneClock>) -> bool {
    clock.is_some_and(|clock| clock.is_chosen)
}

/// Takes `count` numbers of the lane in `slot`, all of them greater than `above`, at the time `unix_ms`, in
/// milliseconds since 1970. `clock` is `None` for a counter, whose numbers follow no clock.
///
/// # Errors
/// [`NotTaken`].
///
/// # Panics
/// When the section has no such slot.
pub fn take(
    section: &Section,
    clock: Option<&LaneClock>,
    (slot, count): (SlotIndex, Count),
    above: Seq,
    unix_ms: u64,
) -> Result<Take, NotTaken> {
    let window = match clock {
        None if above == Seq::ZERO => return Ok(section.take(slot, count)),
        None => {
            let Some(last) = section.current(slot) else { return Ok(Take::Frozen) };
            if above.0 > last.value.0.saturating_add(limits::MAX_AFTER) {
                return Err(NotTaken::AfterTooFar);
            }
            return Ok(section.take_above(slot, count, above));
        }
        Some(clock) => {
            let window = clock.window(unix_ms);
            if above > window.limit {
                return Err(NotTaken::AfterTooFar);
            }
            window
        }
    };
    let window = Window { floor: window.floor.max(Seq(above.0.saturating_add(1))), ..window };
    section.take_within(slot, count, window).map_err(|_| NotTaken::Ahead)
}

/// Position of one choice of a section in the sequence of all choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Number of choices before this choice, for all calls of the node.
    pub turn: u32,
    /// Number of sections that the same call has tried in vain, because their lanes were too far ahead of the clock.
    pub attempt: u32,
}

/// Chooses the section for a call that leaves the choice of its lane to the node. The first choice is a section that
/// this node owns and that does not rest; the second choice is a section of another owner; the last choice is a section
/// of this node that rests. Sections that the call has tried in vain are passed over. Returns `None` if there is no
/// such section.
///
/// `rests` returns whether a section rests ([`LaneClock::rests`]), or `None` if this node does not own the section.
/// `elsewhere` returns the other node or the other set that has a section; `None` if there is none.
///
/// Other owners are chosen in turn. Of each owner, the call first gets the owner's first section, which this owner also
/// uses for its own callers. So the ceilings of the owner's other sections are not raised. If the owner crashes, its
/// first section rests, but its other sections can be used at once, because their ceilings are in the past.
pub fn choose<P: PartialEq>(
    sections: SectionRun,
    Turn { turn, attempt }: Turn,
    rests: impl Fn(SectionId) -> Option<bool>,
    elsewhere: impl Fn(SectionId) -> Option<P>,
) -> Option<SectionId> {
    let (mut passed, mut resting) = (0, None);
    for section in sections.iter() {
        match rests(section) {
            Some(false) if passed == attempt => return Some(section),
            Some(false) => passed += 1,
            Some(true) => resting = resting.or(Some(section)),
            None => {}
        }
    }
    let mut owners: Vec<(P, Vec<SectionId>)> = Vec::new();
    for section in sections.iter() {
        let Some(owner) = elsewhere(section) else { continue };
        match owners.iter_mut().find(|(other, _)| *other == owner) {
            Some((_, theirs)) => theirs.push(section),
            None => owners.push((owner, vec![section])),
        }
    }
    let chosen = (turn as usize).checked_rem(owners.len()).and_then(|index| {
        let (_, theirs) = &owners[index];
        theirs.get((attempt - passed) as usize % theirs.len()).copied()
    });
    chosen.or(resting)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::id::Step;

    /// 4 ticks in each 10 ms.
    const CLOCK: TickClock = TickClock { epoch_ms: 1_000, unit_ms: 10, seq_bits: 2, lead_ms: 1_000 };

    const LANES: LaneClock = LaneClock { clock: CLOCK, ahead_ms: 20, spreads: false, is_chosen: true };

    fn one(section: &Section, above: u64, unix_ms: u64) -> Result<u64, NotTaken> {
        match take(section, Some(&LANES), (SlotIndex(0), Count::ONE), Seq(above), unix_ms)? {
            Take::Given { value, .. } => Ok(value.0),
            taken => panic!("{taken:?}"),
        }
    }

    #[test]
    fn the_first_number_is_from_the_clock_to_the_last_tick_of_the_unit_that_is_ahead() {
        let section = Section::takeover(1, Seq(100), Step(40)).in_ticks(CLOCK.lead());
        let _ = section.raised(Seq(1_000));
        assert_eq!(one(&section, 0, 1_500), Ok(200));
        assert_eq!(one(&section, 0, 1_490), Ok(201), "the clock went back");
        assert_eq!(one(&section, 206, 1_500), Ok(207));
        for value in 208..212 {
            assert_eq!(one(&section, 0, 1_500), Ok(value));
        }
        assert_eq!(one(&section, 0, 1_500), Err(NotTaken::Ahead));
        assert_eq!(one(&section, 211, 1_500), Err(NotTaken::Ahead), "above the last number of the limit");
        assert_eq!(one(&section, 212, 1_500), Err(NotTaken::AfterTooFar));
        assert_eq!(one(&section, 0, 1_510), Ok(212));
    }

    #[test]
    fn a_counter_skips_up_to_the_number_that_a_call_names() {
        let section = Section::takeover(1, Seq(0), Step(40));
        let _ = section.raised(Seq(1_000));
        let at = (SlotIndex(0), Count::ONE);
        let value = |taken| match taken {
            Ok(Take::Given { value, .. }) => value.0,
            taken => panic!("{taken:?}"),
        };
        assert_eq!(value(take(&section, None, at, Seq(0), 0)), 1);
        assert_eq!(value(take(&section, None, at, Seq(7), 0)), 8);
        assert_eq!(value(take(&section, None, at, Seq(3), 0)), 9);
        let far = Seq(9 + limits::MAX_AFTER);
        assert!(matches!(take(&section, None, at, far, 0), Ok(Take::AtCeiling { .. })));
        assert_eq!(take(&section, None, at, Seq(far.0 + 1), 0), Err(NotTaken::AfterTooFar));
        let _ = section.freeze();
        assert_eq!(take(&section, None, at, Seq(3), 0), Ok(Take::Frozen));
    }

    #[test]
    fn only_lanes_that_the_node_chooses_are_served_without_a_lease() {
        assert!(serves_unleased(Some(&LANES)));
        assert!(!serves_unleased(Some(&LaneClock { is_chosen: false, ..LANES })), "the caller names the lane");
        assert!(!serves_unleased(None), "a counter");
    }

    #[test]
    fn a_section_rests_until_the_clock_has_come_to_the_ceiling_at_which_it_began() {
        let taken_over = Section::takeover(2, Seq(211), Step(40)).in_ticks(CLOCK.lead());
        let copy = taken_over.freeze();
        let handed_over = Section::handed_over(2, &copy, Seq(211), Step(40)).unwrap().in_ticks(CLOCK.lead());
        for section in [taken_over, handed_over] {
            assert!(LANES.rests(&section, 1_509), "the window ends with 211");
            assert!(!LANES.rests(&section, 1_510));
        }
    }

    /// Three sections from the fifth on.
    const SECTIONS: SectionRun = SectionRun { first: SectionId(5), sections: 3 };

    #[test]
    fn the_first_section_here_that_does_not_rest_is_chosen() {
        let chosen = |all: [Option<bool>; 3], attempt, place: u32| {
            let rests = |section: SectionId| all[section.0 as usize - 5];
            let elsewhere = |section: SectionId| (section.0 == place).then_some(());
            choose(SECTIONS, Turn { turn: 9, attempt }, rests, elsewhere).map(|section| section.0)
        };
        assert_eq!(chosen([None, Some(true), Some(false)], 0, 5), Some(7));
        assert_eq!(chosen([Some(false), None, Some(false)], 0, 6), Some(5));
        assert_eq!(chosen([Some(false), None, Some(false)], 1, 6), Some(7), "the lanes of the first one are ahead");
        assert_eq!(chosen([Some(false), None, Some(false)], 2, 6), Some(6), "those of the other one are ahead, too");
        assert_eq!(chosen([Some(true), None, None], 0, 6), Some(6), "another node's, because the own section rests");
        assert_eq!(chosen([Some(true), None, None], 0, 1), Some(5));
        assert_eq!(chosen([None, None, None], 0, 1), None);
    }

    #[test]
    fn the_first_section_of_each_other_owner_is_used_before_any_other() {
        let owners = ['a', 'b', 'a'];
        let chosen = |turn, attempt| {
            let elsewhere = |section: SectionId| owners.get(section.0 as usize - 5).copied();
            choose(SECTIONS, Turn { turn, attempt }, |_| None, elsewhere).map(|section| section.0)
        };
        assert_eq!([chosen(0, 0), chosen(1, 0), chosen(2, 0), chosen(3, 0)], [5, 6, 5, 6].map(Some));
        assert_eq!([chosen(0, 1), chosen(1, 1), chosen(2, 2)], [7, 6, 5].map(Some));
    }
}
