//! Calls into worlds of two sets: numbers and readings of random uids, held against what is promised.

use seq_core::section::Take;
use seq_core::{Count, SectionId, SlotIndex};
use seq_order::{CallId, Outcome, Reading};

use super::process::Process;
use super::{Event, SECTION_SIZE, UIDS, World};
use crate::coverage::Situation;
use crate::faults::MS;

/// Time between two calls.
const THINK: u64 = 12 * MS;

/// How long a call looks for an owner.
const CALL_TIME: u64 = 400 * MS;

/// Pause of a call that found no owner.
const CALL_AGAIN: u64 = 20 * MS;

/// A call under way.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: CallId,
    uid: u64,
    read: bool,
    until: u64,
    probe: bool,
}

impl World {
    pub(super) fn next_call(&mut self) {
        let uid = self.rng.below(UIDS);
        let read = self.rng.chance(200);
        self.call(uid, read, CALL_TIME, false);
        let wait = self.rng.below(2 * THINK);
        self.after(wait, Event::NextCall);
    }

    pub(super) fn call(&mut self, uid: u64, read: bool, time: u64, probe: bool) {
        let id = if read { self.check.start_read(self.now, uid) } else { self.check.start(self.now, uid) };
        let wait = self.rng.between(MS / 10, 3 * MS);
        self.after(wait, Event::Arrive(Call { id, uid, read, until: self.now + time, probe }));
    }

    /// A call arrives at a process that serves its section, whichever lineage that is of.
    pub(super) fn arrive(&mut self, call: Call) {
        let section = SectionId((call.uid / u64::from(SECTION_SIZE)) as u32);
        let slot = SlotIndex((call.uid % u64::from(SECTION_SIZE)) as u32);
        let clock = self.clock();
        let serves = |process: &Process| {
            process.alive
                && process.stalled_until <= self.now
                && process.lease.holds(clock)
                && process.table.contains_key(&section)
        };
        let serving: Vec<usize> = (0..self.procs.len()).filter(|p| serves(&self.procs[*p])).collect();
        let back = self.rng.between(MS / 10, 3 * MS);
        if !serving.is_empty() {
            let p = serving[self.rng.index(serving.len())];
            let owned = &self.procs[p].table[&section];
            if call.read {
                if let Some(reading) = owned.section.current(slot) {
                    let value = reading.value.0;
                    let reading = if reading.exact { Reading::Exact(value) } else { Reading::UpperBound(value) };
                    return self.after(back, Event::ReturnRead(call, reading));
                }
            } else if let Take::Given { value, prev, .. } = owned.section.take(slot, Count::ONE) {
                let (now, epoch, set) = (self.now, owned.epoch, self.procs[p].set);
                self.trace.note(now, [2, call.uid, value.0], || {
                    format!("process {p} of set {set}: uid {} takes {value} under epoch {epoch}", call.uid)
                });
                let ceiling = self.highest[section.0 as usize];
                self.check.taken(now, call.uid, value.0, value.0, ceiling.0);
                self.coverage.saw(Situation::Given);
                let session = self.procs[p].owner.session();
                if session.is_some_and(|one| one.incarnation.0 < self.sets[set].state.lineage.first_number()) {
                    self.coverage.saw(Situation::OlderLineage);
                }
                if call.probe {
                    self.unserved.retain(|uid| *uid != call.uid);
                }
                let outcome = Outcome::Given { value: value.0, prev: prev.0, count: 1, lost: 0 };
                return self.after(back, Event::Return(call, outcome));
            }
        }
        if self.now < call.until {
            return self.after(CALL_AGAIN, Event::Arrive(call));
        }
        let ended =
            if call.read { Event::ReturnRead(call, Reading::Failed) } else { Event::Return(call, Outcome::Refused) };
        self.after(back, ended);
    }
}
