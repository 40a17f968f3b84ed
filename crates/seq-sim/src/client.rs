//! Simulated callers. Each caller makes one call at a time. It sends the call to the last owner of the section that it
//! knows or to a random node, and reports the start and the end of the call to the checker.

use seq_core::{Count, Epoch, NodeId, Reading, Refusal, SectionId, Seq, SlotIndex, Target, Uid};
use seq_order::{Advancing, Outcome};

use crate::check::Flight;
use crate::coverage::Situation;
use crate::events::{Event, Step};
use crate::faults::{MS, Weather};
use crate::keys::HashedKey;
use crate::lane_calls::LaneWish;
use crate::lanes::SERIES;
use crate::net::{Address, Body};
use crate::serving::FORGED_EPOCH;
use crate::world::World;

/// Time from a call to its deadline.
const PATIENCE: u64 = 3_000 * MS;

/// Time for which a caller waits for a response after the deadline of its call, because a node may send a refusal at
/// the deadline, and the refusal then needs some time to arrive.
const GRACE: u64 = 200 * MS;

/// Factor by which a caller for ids pauses longer between two calls than other callers.
const ID_PAUSE: u64 = 2;

/// Distance from the largest number of a uid down to the lowest target of its advances.
const ADVANCE_BACK: u64 = 10;
/// Number of consecutive targets that an advance is drawn from.
const MOST_ADVANCE: u64 = 60;

/// The purpose of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Take(Count),
    Read,
    Advance(Target),
    InLane(LaneWish),
}

/// The caller that waits for the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Client(usize),
    /// Index of the process that forwarded the call, and the number by which this process identifies the call.
    Process(usize, u64),
}

/// A call in a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) id: u64,
    pub(crate) uid: Uid,
    pub(crate) section: SectionId,
    pub(crate) slot: SlotIndex,
    /// Hash of the key, if the call is for a key and has passed a process that knows the keyspace.
    pub(crate) key: Option<HashedKey>,
    pub(crate) wish: Wish,
    pub(crate) epoch: Epoch,
    pub(crate) hops: u32,
    /// Whether the network made this copy.
    pub(crate) doubled: bool,
    pub(crate) deadline: u64,
    pub(crate) origin: Origin,
}

/// The response to a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reply {
    /// Numbers were taken. `lost` is the number of other attempts of the call that got no response and may have taken
    /// numbers, too.
    Given {
        uid: Uid,
        value: Seq,
        prev: Seq,
        epoch: Epoch,
        lost: u32,
    },
    Read {
        reading: Reading,
        epoch: Epoch,
    },
    Advanced {
        past: bool,
        epoch: Epoch,
    },
    /// The call was refused. `lost` is the number of attempts that may have taken numbers. If `lost` is 0, the call
    /// certainly took no numbers.
    Refused {
        refusal: Refusal,
        lost: u32,
    },
}

/// A caller.
#[derive(Debug, Default)]
pub(crate) struct Client {
    /// The call in progress.
    flight: Option<(Call, Flight)>,
    /// The newest epoch of each section that a response to this caller has stated.
    epochs: Vec<Epoch>,
    /// The name of the owner of each section, as of the last response to this caller for the section.
    owners: Vec<usize>,
    /// The only uid that the caller requests, if the caller is a probe. A probe makes no further calls after its first
    /// number.
    probe: Option<Uid>,
    /// For a caller for ids, the last id that this caller got from each series; `None` for a caller that requests
    /// numbers of uids.
    pub(crate) ids: Option<[u64; SERIES]>,
    pub(crate) served: bool,
    /// Whether the caller requests numbers of keys.
    of_keys: bool,
}

impl Client {
    pub(crate) fn new(sections: u32) -> Client {
        let sections = sections as usize;
        Client { epochs: vec![Epoch(0); sections], owners: vec![0; sections], ..Client::default() }
    }

    /// Returns a caller that requests a single number of a given uid.
    pub(crate) fn probing(sections: u32, uid: Uid) -> Client {
        Client { probe: Some(uid), ..Client::new(sections) }
    }

    /// Returns a caller that requests a single id of a given lane.
    pub(crate) fn probing_id(sections: u32, lane: Uid) -> Client {
        Client { ids: Some([0; SERIES]), ..Client::probing(sections, lane) }
    }

    /// Returns a caller that requests ids.
    pub(crate) fn of_ids(sections: u32) -> Client {
        Client { ids: Some([0; SERIES]), ..Client::new(sections) }
    }

    /// Returns a caller that requests numbers of keys.
    pub(crate) fn of_keys(sections: u32) -> Client {
        Client { of_keys: true, ..Client::new(sections) }
    }

    /// Returns the uid of a probe that was not served.
    pub(crate) fn unserved(&self) -> Option<Uid> {
        self.probe.filter(|_| !self.served)
    }
}

impl World {
    /// Makes the next call of a caller, unless the caller has a call in progress.
    pub(crate) fn call(&mut self, c: usize) {
        if self.clients[c].flight.is_some() {
            return;
        }
        let uids = self.layout.uids();
        let some = Uid(self.rng.between(uids.start, uids.end));
        let Some((uid, wish)) = (match (self.clients[c].ids, self.clients[c].probe) {
            (Some(last), probe) => self.lane_wish(&last, probe),
            (None, probe) => {
                let drawn = if self.clients[c].of_keys { self.draw_key() } else { Some(some) };
                probe.or(drawn).map(|uid| (uid, self.wish(c, uid)))
            }
        }) else {
            return self.next_call(c);
        };
        let (section, slot) = self.series.locate(uid).expect("the uid was drawn from the layout");
        let seen = self.clients[c].epochs[section.0 as usize];
        let epoch = match self.rng.below(20) {
            0 => Epoch(0),
            1 => Epoch(seen.0 + 1),
            2 if self.rng.chance(100) => FORGED_EPOCH,
            _ => seen,
        };
        let name = if self.rng.chance(500) {
            self.clients[c].owners[section.0 as usize]
        } else {
            self.rng.index(self.hosts.names())
        };
        let section = self.hinted(uid, section, epoch);
        let port = usize::from(self.listeners[name][1].is_some() && self.rng.chance(500));
        let id = self.fresh();
        let call = Call {
            id,
            uid,
            section,
            slot,
            key: None,
            wish,
            epoch,
            hops: 0,
            doubled: false,
            deadline: self.now + PATIENCE,
            origin: Origin::Client(c),
        };
        let flight = match wish {
            Wish::Take(_) | Wish::InLane(_) => self.check.start(self.now, self.series.user(uid)),
            Wish::Read => self.check.start_read(self.now, self.series.user(uid)),
            Wish::Advance(to) => self.check.start_advance(self.now, self.series.user(uid), to.seq().0),
        };
        self.clients[c].flight = Some((call, flight));
        self.after(PATIENCE + GRACE, Event::CallTimeout(c, id));
        self.send(self.hosts.of_clients(), Address::Port(name, port), Body::Call(call));
    }

    /// Draws the purpose of the next call of caller `c`. Most calls request numbers, some are reads, and a few are
    /// advances.
    fn wish(&mut self, c: usize, uid: Uid) -> Wish {
        let count = if self.rng.chance(30) { self.rng.between(20, 60) } else { self.rng.between(1, 4) };
        let drawn = if self.clients[c].probe.is_some() { u64::MAX } else { self.rng.below(1_000) };
        match drawn {
            0..150 => Wish::Read,
            // The target may be below the uid's largest number, equal to it, above it, or above the ceiling.
            150..180 => {
                let to = self.check.largest(self.series.user(uid)).saturating_sub(ADVANCE_BACK)
                    + self.rng.below(MOST_ADVANCE);
                Wish::Advance(Target::new(to).expect("a small number"))
            }
            _ => Wish::Take(Count::new(count as u32).expect("a small number")),
        }
    }

    /// Handles a call that found no process at its address, so it certainly took no number. If the call came from a
    /// caller, sends it to a random node. If a process forwarded the call, sends a refusal to that process.
    pub(crate) fn undelivered(&mut self, call: Call) {
        match call.origin {
            Origin::Client(c) if self.is_waiting(c, call.id) => {
                // The message is not sent by `send`, because `send` may double each copy of a doubled call again.
                let to = Address::Port(self.rng.index(self.hosts.names()), 0);
                let wait = self.rng.between(MS, 5 * MS);
                self.after(wait, Event::Message { to, body: Body::Call(call) });
            }
            Origin::Client(_) => {}
            Origin::Process(p, id) => {
                let refusal = Refusal::OwnerUnreachable { section: call.section, owner: NodeId(0) };
                let wait = self.rng.between(MS, 5 * MS);
                self.after(wait, Event::Step(p, Step::Forwarded(id, Reply::Refused { refusal, lost: 0 })));
            }
        }
    }

    /// Records that a process gave up a call that it had forwarded, and will retry the call. If the call is a copy that
    /// the network made, or if its caller has given it up, no response will count the lost attempt, so the attempt is
    /// recorded as a call of its own.
    pub(crate) fn note_repeat(&mut self, call: &Call) {
        let is_known = |client: &Client| client.flight.as_ref().is_some_and(|(flight, _)| flight.id == call.id);
        if call.doubled || !self.clients.iter().any(is_known) {
            self.check.doubled(self.now, self.series.user(call.uid), call.id);
        } else {
            self.check.repeated(call.id);
        }
    }

    fn is_waiting(&self, c: usize, id: u64) -> bool {
        self.clients[c].flight.as_ref().is_some_and(|(call, _)| call.id == id)
    }

    /// Passes the response to a call of caller `c` to the checker, and schedules the next call of this caller.
    pub(crate) fn answered(&mut self, c: usize, id: u64, reply: Reply) {
        if !self.is_waiting(c, id) {
            return;
        }
        let Some((call, flight)) = self.clients[c].flight.take() else { return };
        let now = self.now;
        self.trace.note(now, [3, call.uid.0, id], || format!("caller {c}: uid {} is answered {reply:?}", call.uid));
        // The node may have chosen another lane than the lane in the call.
        let given = if let Reply::Given { uid, .. } = reply { uid } else { call.uid };
        let section = self.series.locate(given).map_or(call.section, |(section, _)| section).0 as usize;
        if let Reply::Given { epoch, .. } | Reply::Read { epoch, .. } | Reply::Advanced { epoch, .. } = reply {
            let seen = &mut self.clients[c].epochs[section];
            *seen = epoch.max(*seen);
            let mut owners = self.stores.iter().filter_map(|store| store.owner_name(SectionId(section as u32)));
            self.clients[c].owners[section] = owners.next_back().unwrap_or(0);
        }
        match (reply, call.wish) {
            (Reply::Given { uid, value, prev, lost, .. }, Wish::InLane(wish)) => {
                self.clients[c].served = true;
                self.got_ids(c, &wish, uid, value);
                let lost = self.check.lost(id, lost);
                let outcome = Outcome::Given { value: value.0, prev: prev.0, count: wish.count.get(), lost };
                self.check.end(flight, now, outcome);
            }
            (Reply::Given { value, prev, lost, .. }, Wish::Take(count)) => {
                self.coverage.saw(Situation::Given);
                if lost > 0 {
                    self.coverage.saw(Situation::LostCounted);
                }
                self.clients[c].served = true;
                let lost = self.check.lost(id, lost);
                let outcome = Outcome::Given { value: value.0, prev: prev.0, count: count.get(), lost };
                self.check.end(flight, now, outcome);
            }
            (Reply::Read { reading, .. }, _) => {
                self.coverage.saw(Situation::Read);
                let (value, exact) = (reading.value.0, reading.exact);
                if !exact || value > 0 {
                    self.coverage.saw(if exact { Situation::ReadExact } else { Situation::ReadBound });
                }
                let reading =
                    if exact { seq_order::Reading::Exact(value) } else { seq_order::Reading::UpperBound(value) };
                self.check.end_read(flight, now, reading);
            }
            (Reply::Advanced { past, .. }, Wish::Advance(_)) => {
                self.coverage.saw(if past { Situation::AdvancePast } else { Situation::Advanced });
                self.check.end_advance(flight, now, if past { Advancing::Past } else { Advancing::Done });
            }
            (Reply::Refused { lost, .. }, wish) => {
                let lost = self.check.lost(id, lost);
                self.no_answer(flight, wish, lost);
            }
            (reply, wish) => unreachable!("{wish:?} was answered {reply:?}"),
        }
        self.next_call(c);
    }

    /// Ends a call that got no response in time.
    pub(crate) fn call_timed_out(&mut self, c: usize, id: u64) {
        if self.is_waiting(c, id)
            && let Some((call, flight)) = self.clients[c].flight.take()
        {
            let lost = self.check.lost_unanswered(id);
            self.no_answer(flight, call.wish, lost);
            self.next_call(c);
        }
    }

    /// Reports the end of a failed call to the checker. `lost` is the number of attempts of the call that may have
    /// taken numbers.
    fn no_answer(&mut self, flight: Flight, wish: Wish, lost: u32) {
        self.coverage.saw(Situation::Maybe);
        let now = self.now;
        match wish {
            Wish::Read => self.check.end_read(flight, now, seq_order::Reading::Failed),
            Wish::Advance(_) => self.check.end_advance(flight, now, Advancing::Failed),
            Wish::Take(_) | Wish::InLane(_) if lost == 0 => self.check.end(flight, now, Outcome::Refused),
            Wish::Take(_) | Wish::InLane(_) => self.check.end(flight, now, Outcome::Maybe { lost }),
        }
    }

    fn next_call(&mut self, c: usize) {
        if self.clients[c].served && self.clients[c].probe.is_some() {
            return;
        }
        let pause = if self.clients[c].ids.is_some() { ID_PAUSE } else { 1 };
        let most = self.swarm.think_ms * MS * 2 * pause;
        let think = if self.swarm.weather == Weather::Calm { most / 4 } else { self.rng.below(most) };
        self.after(think, Event::NextCall(c));
    }
}
