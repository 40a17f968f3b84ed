//! Calls in worlds of restores. A call requests one number of a random uid, and the number is checked against the
//! promises.

use seq_core::SectionId;
use seq_order::Outcome;

use super::process::Process;
use super::{Event, SECTIONS, World};
use crate::check::Flight;
use crate::coverage::Situation;
use crate::faults::MS;

/// Mean time between two calls.
const THINK: u64 = 12 * MS;

/// The longest time for which a call searches for a process that serves its section.
const CALL_TIME: u64 = 300 * MS;

/// The time between two searches of a call for a process that serves its section.
const CALL_AGAIN: u64 = 20 * MS;

/// A call in flight.
#[derive(Debug)]
pub(super) struct Call {
    id: Flight,
    uid: u64,
    until: u64,
    probe: bool,
}

impl World {
    pub(super) fn next_call(&mut self) {
        let uid = self.rng.below(u64::from(SECTIONS));
        self.call(uid, CALL_TIME, false);
        let wait = self.rng.below(2 * THINK);
        self.after(wait, Event::NextCall);
    }

    /// Begins a call for a number of a uid.
    pub(super) fn call(&mut self, uid: u64, time: u64, probe: bool) {
        let id = self.check.start(self.now, uid);
        let wait = self.rng.between(MS / 10, 3 * MS);
        self.after(wait, Event::Arrive(Call { id, uid, until: self.now + time, probe }));
    }

    /// Takes a number for a call at a random process that serves the section, even if this process got its lease before
    /// a restore of its set. If no process serves the section, tries the call again later.
    pub(super) fn arrive(&mut self, call: Call) {
        let section = SectionId(call.uid as u32);
        let now = self.now;
        let serving: Vec<usize> = (0..self.procs.len()).filter(|p| self.procs[*p].serves(section, now)).collect();
        let back = self.rng.between(MS / 10, 3 * MS);
        if serving.is_empty() {
            if now < call.until {
                return self.after(CALL_AGAIN, Event::Arrive(call));
            }
            return self.after(back, Event::Return(call.id, Outcome::Refused));
        }
        let p = serving[self.rng.index(serving.len())];
        let Process { set, session, .. } = self.procs[p];
        let owned = self.procs[p].table.get_mut(&section).expect("it serves the section");
        owned.last += 1;
        let (value, epoch) = (owned.last, owned.epoch);
        self.note([2, call.uid, value], || {
            format!("process {p} of set {set}: uid {} takes {value} under epoch {epoch}", call.uid)
        });
        let ceiling = self.highest[section.0 as usize];
        self.check.taken(now, call.uid, value, value, ceiling.0);
        self.coverage.saw(Situation::Given);
        let newest = self.sets[set].state.lineage.first_number();
        if session.is_some_and(|one| one.incarnation.0 < newest) {
            self.coverage.saw(Situation::RestoresOlderLineage);
        }
        if call.probe {
            self.unserved.retain(|uid| *uid != call.uid);
        }
        self.after(back, Event::Return(call.id, Outcome::Given { value, prev: 0, count: 1, lost: 0 }));
    }
}
