//! Calls for ids. This module draws the calls, chooses their lanes, and allocates numbers of lanes by the owner's
//! clock. The rules for the choice and the allocation are in [`seq_core::lane_clock`], which `seq-alloc` uses, too.
//!
//! **Promises:** ids are in `1 ..= 2^63-1` and belong to their lane. All ids of a call are above the id that the call
//! names. The time in the first id of a call is not before the time on the owner's clock, and ahead of that time by at
//! most the limit of the series.

use std::rc::Rc;

use seq_core::lane_clock::{self, LaneClock, NotTaken, Turn};
use seq_core::{Count, Refusal, SectionId, Seq, SlotIndex, Take, Uid};
use seq_ids::Shape;

use crate::bugs::Bug;
use crate::client::{Call, Origin, Reply, Wish};
use crate::coverage::Situation;
use crate::events::{Event, Step};
use crate::faults::MS;
use crate::lanes::{Choice, WorldSeries};
use crate::numbers::Owned;
use crate::serving::Pending;
use crate::world::World;

/// Time after which a node tries a call again, if the counter of the call's lane was too far ahead of the clock.
const AHEAD_WAIT: u64 = 100 * MS;

/// A call for ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneWish {
    /// Index of the series.
    pub(crate) series: usize,
    pub(crate) count: Count,
    /// The id above which all ids of the call must be; 0 if the call names no id.
    pub(crate) after: u64,
    /// The value of the lane's counter above which all values of the call must be. It is computed from `after` and the
    /// lane.
    pub(crate) above: Seq,
}

impl World {
    /// Draws a call for ids of a random series, and returns the address of its lane with the purpose of the call. If
    /// `probe` is given, the call is for one id of the lane at the address `probe`. `last` has the caller's last id of
    /// each series. Returns `None` if the series was not created yet.
    pub(crate) fn lane_wish(&mut self, last: &[u64], probe: Option<Uid>) -> Option<(Uid, Wish)> {
        let drawn = self.rng.index(self.series.all.len());
        let of_probe = probe.and_then(|uid| self.series.lane_at(uid));
        let index = match of_probe {
            Some((of, _)) => self.series.all.iter().position(|one| one.choice == of.choice)?,
            None => drawn,
        };
        let series = self.series.all[index];
        if !self.is_created(&series) {
            return None;
        }
        let lane = if series.choice == Choice::Chosen { 0 } else { self.rng.below(series.lanes.count.into()) as u32 };
        let count = if self.rng.chance(30) { self.rng.between(6, 20) } else { self.rng.between(1, 4) };
        let after = match self.rng.below(100) {
            _ if probe.is_some() => 0,
            0..30 => last[index],
            30..37 => last[index] + self.rng.below(64),
            37..39 => last[index].saturating_mul(2),
            _ => 0,
        };
        let count = Count::new(if probe.is_some() { 1 } else { count as u32 }).expect("a small number");
        let wish = LaneWish { series: index, count, after, above: Seq::ZERO };
        Some((probe.unwrap_or_else(|| series.address(lane)), Wish::InLane(wish)))
    }

    /// Checks the ids of a response.
    pub(crate) fn got_ids(&mut self, c: usize, wish: &LaneWish, uid: Uid, value: Seq) {
        self.coverage.saw(Situation::GivenIds);
        let first = value.0 + 1 - u64::from(wish.count.get());
        let Some((series, lane)) = self.series.lane_at(uid) else { return };
        let (low, high) = (series.id(lane, Seq(first)), series.id(lane, value));
        let (Some(low), Some(high)) = (low, high) else { return };
        if low.get() <= wish.after {
            let text = format!("a call for ids above {} got {low}", wish.after);
            self.check.broken(self.now, "ids are above the id that a call names", text);
        }
        if let Some(ids) = &mut self.clients[c].ids {
            ids[wish.series] = high.get();
        }
    }

    /// Returns the call with the fields that the process `p` fills in when it receives a call for ids: the address of a
    /// lane, which the process chooses if callers of the series name no lane, and the value of the lane's counter above
    /// which all values of the call must be. Returns forwarded calls and calls for other numbers unchanged.
    ///
    /// # Errors
    /// A refusal if the process does not know the series, or if the lane has no id above the id that the call names.
    pub(crate) fn locate_in_lane(&self, p: usize, call: Call) -> Result<Call, Refusal> {
        let Wish::InLane(wish) = call.wish else { return Ok(call) };
        let uids = self.layout.uids();
        let unknown = Refusal::UidOutOfRange { uid: call.uid, start: uids.start, end: uids.end };
        let process = &self.procs[p];
        let routes = process.owner.routes().filter(|_| process.reads_lanes).ok_or(unknown)?;
        if call.section.0 >= routes.layout().sections() {
            return Err(unknown);
        }
        if call.hops > 0 {
            return Ok(call);
        }
        let series = &self.series.all[wish.series];
        let mut call = call;
        if series.choice == Choice::Chosen {
            let lane = self.choose_lane(p, series, call.id).ok_or(unknown)?;
            call.uid = series.address(lane);
            (call.section, call.slot) = self.layout.locate(call.uid)?;
        }
        let (_, lane) = self.series.lane_at(call.uid).ok_or(unknown)?;
        let floor = series.shape.floor(lane, wish.after);
        let above = Seq(floor.map_err(|_| Refusal::AfterTooFar { section: call.section, above: Seq::MAX })? - 1);
        call.wish = Wish::InLane(LaneWish { above, ..wish });
        Ok(call)
    }

    fn choose_lane(&self, p: usize, series: &WorldSeries, turn: u64) -> Option<u32> {
        let (process, now_ms, turn) = (&self.procs[p], self.unix_ms(p), turn as u32);
        let rests = |owned: &Rc<Owned>| owned.clock.is_some_and(|clock| clock.rests(owned.slots(), now_ms));
        let rests = |section| process.table.get(&section).map(rests);
        let elsewhere = |section| {
            let route = process.owner.routes().and_then(|routes| routes.get(section))?;
            let place = (route.other_set(), route.owner.filter(|owner| *owner != process.node));
            (place != (None, None)).then_some(place)
        };
        let section = lane_clock::choose(series.sections, Turn { turn, attempt: 0 }, rests, elsewhere)?;
        let (first, lanes) = series.lanes_of(section);
        Some(first + turn % lanes)
    }

    /// Returns the time of the wall clock of a process' machine, in milliseconds since 1970.
    pub(crate) fn unix_ms(&self, p: usize) -> u64 {
        self.machines[self.procs[p].name].unix_ms(self.now)
    }

    /// Returns the section of a call if the process has no valid lease but may serve the call without a lease. Returns
    /// `None` otherwise.
    pub(crate) fn unleased(&mut self, p: usize, call: &Call) -> Option<Rc<Owned>> {
        let process = &self.procs[p];
        if !matches!(call.wish, Wish::InLane(_)) || process.lease.holds(self.clock(p)) || process.stopped {
            return None;
        }
        let owned = process.table.get(&call.section)?;
        let serves = lane_clock::serves_unleased(owned.clock.as_ref()) || self.bug == Some(Bug::AllUnleased);
        Some(owned.clone()).filter(|_| serves)
    }

    /// Serves a call without a lease. If the call cannot be served now, treats it like any other call, which waits for
    /// the lease.
    pub(crate) fn take_unleased(&mut self, p: usize, pending: Pending, owned: &Rc<Owned>) {
        let reply = if pending.call.epoch > owned.epoch { None } else { self.allocate_in_lane(p, &pending, owned) };
        match reply {
            Some(reply) => {
                if matches!(reply, Reply::Given { .. }) {
                    self.coverage.saw(Situation::GivenUnleased);
                }
                self.reply(p, pending, reply);
            }
            None => self.attempt(p, pending),
        }
        self.raise(p);
    }

    /// Takes numbers of a lane for a call. Returns the reply, or `None` if the call has to wait.
    pub(crate) fn allocate_in_lane(&mut self, p: usize, pending: &Pending, owned: &Rc<Owned>) -> Option<Reply> {
        let Call { section, slot, wish, .. } = pending.call;
        let Wish::InLane(LaneWish { count, above, .. }) = wish else { return None };
        let now_ms = self.unix_ms(p);
        let taken = self.taken_in_lane(p, owned, (slot, count), above, now_ms);
        match taken {
            Err(NotTaken::Ahead) => {
                self.coverage.saw(Situation::LaneAhead);
                Some(Reply::Refused { refusal: Refusal::LaneAhead { section }, lost: 0 })
            }
            Err(NotTaken::AfterTooFar) => {
                self.coverage.saw(Situation::AfterTooFar);
                Some(Reply::Refused { refusal: Refusal::AfterTooFar { section, above }, lost: 0 })
            }
            Ok(taken) => {
                if let (Take::Given { value, .. }, Some(clock)) = (&taken, owned.clock) {
                    self.look_at_time(p, &clock, (section, slot), value.0 + 1 - u64::from(count.get()), now_ms);
                }
                self.taken(p, pending, owned, count, taken)
            }
        }
    }

    /// Takes numbers from a section, with the planted bugs of lanes.
    fn taken_in_lane(
        &mut self,
        p: usize,
        owned: &Rc<Owned>,
        (slot, count): (SlotIndex, Count),
        above: Seq,
        now_ms: u64,
    ) -> Result<Take, NotTaken> {
        let (at, section) = ((slot, count), owned.slots());
        let clock = owned.clock.map(|clock| match self.bug {
            Some(Bug::UnboundedAhead) => LaneClock { ahead_ms: 3_600_000, ..clock },
            _ => clock,
        });
        let Some(clock) = clock else { return lane_clock::take(section, None, at, above, now_ms) };
        let given = |value: u64| Take::Given { value: Seq(value), prev: Seq::ZERO, ticket: None };
        let floor = clock.window(now_ms).floor.0;
        let latest = owned.latest_ms.replace(now_ms);
        let last = section.current(slot).map_or(0, |last| last.value.0);
        if self.bug == Some(Bug::RepeatsBack) && now_ms < latest && (floor..section.ceiling().0).contains(&last) {
            return Ok(given(floor + u64::from(count.get()) - 1));
        }
        let taken = lane_clock::take(section, Some(&clock), at, above, now_ms)?;
        let unit = 1 << clock.clock.seq_bits;
        match (self.bug, taken) {
            (Some(Bug::OverflowWraps), Take::Given { value, .. })
                if count == Count::ONE && value.0 > floor && value.0 == last + 1 && value.0.is_multiple_of(unit) =>
            {
                Ok(given(value.0 - unit))
            }
            (Some(Bug::AboveCeiling | Bug::ReportedAfter), Take::AtCeiling { needed, ticket }) => {
                if let Some(ticket) = ticket.filter(|_| self.bug == Some(Bug::ReportedAfter)) {
                    self.procs[p].raises.enqueue(owned.clone(), ticket);
                }
                let _ = section.raised(needed);
                lane_clock::take(section, Some(&clock), at, above, now_ms)
            }
            (_, taken) => Ok(taken),
        }
    }

    /// Checks the time in `tick`, the first tick that a call got. `now_ms` is the time on the owner's clock when the
    /// tick was taken. The time in the tick must not be before `now_ms`, and not further ahead of it than the series
    /// allows.
    fn look_at_time(&mut self, p: usize, clock: &LaneClock, of: (SectionId, SlotIndex), tick: u64, now_ms: u64) {
        let unit = |ms: u64| (ms - clock.clock.epoch_ms) / u64::from(clock.clock.unit_ms);
        let (time, now, most) = (tick >> clock.clock.seq_bits, unit(now_ms), unit(now_ms + u64::from(clock.ahead_ms)));
        if time > now {
            self.coverage.saw(Situation::Borrowed);
        }
        if time < now || time > most {
            let text = format!("process {p}: {of:?} gave unit {time} at unit {now}, and {most} at most");
            self.check.broken(self.now, "the time of an id is true", text);
        }
    }

    /// Checks that the first and the last number taken from a lane have ids of that lane.
    pub(crate) fn look_at_ids(&mut self, uid: Uid, first: u64, last: u64) {
        let Some((series, lane)) = self.series.lane_at(uid) else { return };
        for number in [first, last] {
            let id = series.id(lane, Seq(number));
            let parts = id.and_then(|id| series.shape.parts(id));
            if parts.is_none_or(|parts| (parts.lane, parts.value) != (lane, number)) {
                let what = match series.shape {
                    Shape::Counter(_) => "counter",
                    Shape::Timed(_) => "timed series",
                };
                let text = format!("number {number} of lane {lane} of a {what} is no id: {id:?}");
                self.check.broken(self.now, "every number is an id", text);
            }
        }
    }

    /// Returns whether process `p` tries a call again instead of sending `reply` to the caller. It does so if the reply
    /// is a refusal because the lane was too far ahead of the clock, and there is time before the deadline. Schedules
    /// the next attempt in this case.
    pub(crate) fn tries_again(&mut self, p: usize, call: &Call, reply: &Reply) -> bool {
        let again = matches!(reply, Reply::Refused { refusal: Refusal::LaneAhead { .. }, lost: 0 })
            && matches!(call.origin, Origin::Client(_))
            && self.now + AHEAD_WAIT < call.deadline;
        if again {
            self.after(AHEAD_WAIT, Event::Step(p, Step::CallAgain(Box::new(*call))));
        }
        again
    }
}
