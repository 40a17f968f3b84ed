//! What this process owns: the owner's state machine (`seq_core::owner`), the table of served sections, the routes and
//! the lease.
//!
//! **Invariant:** the table of served sections, the routes and the lease change in [`Ownership::step`] only, under the
//! state machine's lock, in the order of the machine's effects, with the lease last. Readers use the opposite order:
//! [`Ownership::serve`] checks the lease first and then loads the table. So a reader that sees an extended lease never
//! uses an older table with it. Only a [`Serving`] gives access to a section's numbers, except for sections that may be
//! served without a lease.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use parking_lot::{Mutex, MutexGuard};
use seq_api::clock::Clock;
use seq_core::lane_clock::serves_unleased;
use seq_core::lease::{Clocks, Lease};
use seq_core::owner::handover::HandoverRequest;
use seq_core::owner::{CopyLoss, Effect, Effects, LeaseEffect, Owner, Session, TableEffect};
use seq_core::route::RouteTable;
use seq_core::section::AnyCopy;
use seq_core::{Epoch, SectionId, Seq, Step, raise};

use crate::lanes::{self, SeriesIndex};

mod keys;
mod routes;
mod section;
mod table;

use keys::KeyRoom;
use section::Numbers;
pub(crate) use section::{OwnedSection, Served, Start};
pub(crate) use table::Table;
use table::{Change, SectionTable};

/// State machine of the owner, together with the state that readers load without the state machine's lock.
#[derive(Debug)]
pub(crate) struct Ownership {
    /// Number of seqs by which a raise moves a ceiling. It is changed under the state machine's lock, together with the
    /// step of each section in the table.
    step: AtomicU64,
    /// Limit on the step of a busy section, as in [`RaiseOptions`](seq_core::raises::RaiseOptions).
    step_max: Step,
    /// Time for which this process serves under a granted lease. It is shorter than the lease by the lease margin.
    served: Duration,
    clock: Clock,
    /// State machine that decides all changes of ownership. Its lock is never taken for the allocation of a number.
    machine: Mutex<Owner>,
    sections: SectionTable,
    room: KeyRoom,
    routes: ArcSwapOption<RouteTable>,
    /// The series of the routes.
    series: ArcSwap<SeriesIndex>,
    lease: Lease,
    /// Send time of the newest request to the store whose response was adopted, in nanoseconds of the boot clock; 0
    /// before the first response. It never falls.
    confirmed: AtomicU64,
}

/// Effects of one step of the state machine that remain for the caller of [`Ownership::step`] to carry out.
#[must_use = "requests must be sent, and waiting calls notified"]
#[derive(Debug, Default)]
pub(crate) struct Followup {
    /// Steps of handovers to send.
    pub(crate) requests: Vec<HandoverRequest>,
    /// Whether a renewal has to be sent at once, because the store's response to it will grant a section.
    pub(crate) renew_now: bool,
    /// Whether pending calls have to be notified, because the table of served sections or the routes changed, a step of
    /// a handover was requested, the lease ended, or a new lease began after the old lease had expired.
    pub(crate) changed: bool,
    /// Whether the lease was extended.
    pub(crate) extended: bool,
    /// Time for which the lease had expired when it was extended, and the number of sections that this node owned
    /// during that time and still owns. The time is zero if the lease had not expired.
    pub(crate) unserved: (Duration, usize),
    /// Sections that entered or left.
    pub(crate) transitions: Transitions,
}

/// Changes of one step to the table of served sections.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Transitions {
    /// Number of sections that started at their ceiling.
    pub(crate) taken_over: usize,
    /// Number of sections that started from a copy.
    pub(crate) handed_over: usize,
    /// Number of sections that left.
    pub(crate) left: usize,
    /// Number of sections that were handed over to this node but started at their ceilings, because their copies could
    /// not be used.
    pub(crate) copies_lost: usize,
    /// Number of sections that started at a ceiling above 0 that an earlier ownership had left, for any cause. The
    /// numbers below this ceiling that the earlier ownership had not allocated are skipped.
    pub(crate) at_ceiling: usize,
    /// Upper bound of the count of numbers skipped by the sections of `at_ceiling`, summed over these sections.
    pub(crate) skipped: u64,
    /// Newest epoch of the sections that entered or left.
    pub(crate) epoch: Epoch,
    /// Last ownership that started at its ceiling because the copy of its handover could not be used.
    lost_last: Option<(SectionId, Epoch)>,
}

/// Access to the served sections, under a lease that was checked after the current calls had arrived. A value must not
/// be held across an await.
pub(crate) struct Serving<'a> {
    table: Guard<Arc<Table>>,
    ownership: PhantomData<&'a Ownership>,
}

/// Access to the owned sections that may be served without a lease. A value must not be held across an await.
pub(crate) struct Unleased<'a> {
    table: Guard<Arc<Table>>,
    ownership: PhantomData<&'a Ownership>,
}

impl Unleased<'_> {
    /// Returns a section for the allocation of numbers; `None` if this node does not own the section, or if the section
    /// may be served only under a lease.
    pub(crate) fn get(&self, id: SectionId) -> Option<Served<'_>> {
        self.table.get(id).filter(|owned| serves_unleased(owned.clock.as_ref())).map(Served::new)
    }
}

impl Serving<'_> {
    /// Returns a section for the allocation of numbers; `None` if this node does not serve the section.
    #[inline]
    pub(crate) fn get(&self, id: SectionId) -> Option<Served<'_>> {
        self.table.get(id).map(Served::new)
    }
}

impl Ownership {
    /// Creates the state of a process that owns no section. `step` is the number of seqs by which a raise moves a
    /// ceiling, `step_max` the limit on the step of a busy section, and `served` the time for which the process serves
    /// under a granted lease.
    pub(crate) fn new(machine: Owner, (step, step_max): (Step, Step), served: Duration, clock: Clock) -> Ownership {
        Ownership {
            sections: SectionTable::new(machine.layout().sections()),
            room: KeyRoom::default(),
            step: step.0.into(),
            step_max,
            served,
            clock,
            machine: Mutex::new(machine),
            routes: ArcSwapOption::empty(),
            series: ArcSwap::default(),
            lease: Lease::default(),
            confirmed: AtomicU64::new(0),
        }
    }

    /// Returns the step of raises.
    pub(crate) fn raise_step(&self) -> Step {
        Step(self.step.load(Relaxed))
    }

    /// Returns the largest step that an owner of the set may have had, if all nodes have the same limit.
    pub(crate) fn most_step(&self) -> Step {
        self.raise_step().max(self.step_max)
    }

    /// Changes the step of raises for the sections that are owned now and for sections that enter later.
    pub(crate) fn set_raise_step(&self, step: Step) {
        let machine = self.machine.lock();
        self.step.store(step.0, Relaxed);
        self.sections.load().iter().for_each(|owned| owned.set_step(step));
        drop(machine);
    }

    /// Returns access to the served sections if the lease holds at `now`; otherwise `None`. The caller must have read
    /// `now` after the current calls had arrived.
    #[inline]
    pub(crate) fn serve(&self, now: Clocks) -> Option<Serving<'_>> {
        // The lease is checked first, and the table is loaded afterwards: see `seq_core::lease`.
        if !self.lease.holds(now) {
            return None;
        }
        Some(Serving { table: self.sections.load(), ownership: PhantomData })
    }

    /// Returns access to the owned sections that may be served without a lease. These are the sections of series for
    /// which the node chooses the lane of a call, because callers of such series are promised no order in real time.
    /// The numbers of these sections are unique even without a lease: the next ownership begins at the committed
    /// ceiling, and no number of this ownership is above that ceiling.
    pub(crate) fn serve_unleased(&self) -> Unleased<'_> {
        Unleased { table: self.sections.load(), ownership: PhantomData }
    }

    /// Returns whether the lease holds at `now`.
    pub(crate) fn is_leased(&self, now: Clocks) -> bool {
        self.lease.holds(now)
    }

    /// Returns the remaining time of the lease at `now`, which is zero once the lease has expired.
    pub(crate) fn lease_left(&self, now: Clocks) -> Duration {
        self.lease.left(now)
    }

    /// Returns the time since the lease expired, which is zero if it holds.
    pub(crate) fn lease_expired_for(&self, now: Clocks) -> Duration {
        self.lease.expired_for(now)
    }

    /// Returns the send time of the newest request to the store whose response was adopted, in nanoseconds of the boot
    /// clock; 0 before the first response.
    pub(crate) fn confirmed(&self) -> u64 {
        self.confirmed.load(Acquire)
    }

    /// Returns the table of owned sections, whether or not the lease holds. The returned guard must not be held across
    /// an await.
    pub(crate) fn owned(&self) -> Guard<Arc<Table>> {
        self.sections.load()
    }

    /// Returns the current session and the table of the sections that it owns. Between two incarnations the table is
    /// empty.
    pub(crate) fn session_and_table(&self) -> (Option<Session>, Guard<Arc<Table>>) {
        let machine = self.machine.lock();
        (machine.session(), self.sections.load())
    }

    /// Locks the machine, to read from it.
    pub(crate) fn machine(&self) -> MachineView<'_> {
        MachineView(self.machine.lock())
    }

    /// Runs `step` on the state machine under its lock, and carries out the effects before the lock is released.
    /// Returns the result of `step`, and the effects that remain for the caller.
    pub(crate) fn step<T>(&self, step: impl FnOnce(&mut Owner, &mut Effects) -> T) -> (T, Followup) {
        let mut machine = self.machine.lock();
        let mut effects = Effects::new();
        let outcome = step(&mut machine, &mut effects);
        let mut frozen = Vec::new();
        let followup =
            if effects.is_empty() { Followup::default() } else { self.carry_out(&machine, effects, &mut frozen) };
        for (section, epoch) in frozen {
            let owned = self.sections.load().get(section).filter(|owned| owned.epoch == epoch).cloned();
            if let Some(owned) = owned {
                machine.on_frozen(section, epoch, &owned.freeze());
            }
        }
        (outcome, followup)
    }

    /// Carries out the effects of a step. Adds to `frozen` the sections that the caller has to freeze before it unlocks
    /// the state machine.
    fn carry_out(&self, machine: &Owner, effects: Effects, frozen: &mut Vec<(SectionId, Epoch)>) -> Followup {
        let mut followup = Followup::default();
        let mut changes = Vec::new();
        for effect in effects {
            match effect {
                Effect::Table(TableEffect::Freeze { section, epoch }) => frozen.push((section, epoch)),
                Effect::Table(effect) => {
                    followup.changed = true;
                    self.change_table(machine, effect, &mut changes, &mut followup.transitions);
                }
                Effect::Lease(LeaseEffect::Extend { sent }) => {
                    self.sections.change(std::mem::take(&mut changes));
                    let now = self.clock.now();
                    followup.changed |= !self.lease.holds(now);
                    followup.unserved = self.unserved(now);
                    followup.extended = true;
                    self.lease.extend(sent, self.served);
                    self.confirmed.fetch_max(sent.boottime, Release);
                }
                Effect::Lease(LeaseEffect::End) => {
                    followup.changed = true;
                    self.lease.end();
                }
                Effect::Send(request) => {
                    followup.changed = true;
                    followup.requests.push(request);
                }
                Effect::RenewNow => followup.renew_now = true,
                Effect::CopyLost { section, epoch, why } => {
                    followup.changed = true;
                    followup.transitions.lose_copy(section, epoch, &why);
                }
            }
        }
        self.sections.change(changes);
        followup
    }

    /// Returns the time since the lease expired, and the number of sections that were owned then and still are. Both
    /// are zero if the lease has not expired.
    fn unserved(&self, now: Clocks) -> (Duration, usize) {
        let time = self.lease_expired_for(now);
        if time.is_zero() {
            return (time, 0);
        }
        let expired = now.boottime.saturating_sub(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        (time, self.sections.load().iter().filter(|owned| owned.began < expired).count())
    }

    fn change_table(
        &self,
        machine: &Owner,
        effect: TableEffect,
        changes: &mut Vec<Change>,
        transitions: &mut Transitions,
    ) {
        match effect {
            TableEffect::Publish => {
                self.routes.store(machine.routes().cloned());
                let newer = machine.routes().and_then(|routes| self.series.load().newer(routes));
                newer.into_iter().for_each(|newer| self.series.store(Arc::new(newer)));
            }
            TableEffect::Enter { section, epoch, ceiling, copy } => {
                transitions.enter(epoch, copy.is_some());
                changes.push(Change::Enter(self.start(machine, (section, epoch, ceiling), copy.as_ref(), transitions)));
            }
            TableEffect::Leave { section, epoch } => {
                transitions.leave(epoch);
                changes.push(Change::Leave(section, epoch));
            }
            // `step` freezes the section after the table has all changes.
            TableEffect::Freeze { .. } => {}
            TableEffect::Thaw { section, epoch } => {
                changes.extend(self.thaw(machine, section, epoch, transitions).map(Change::Enter));
            }
        }
    }

    /// Creates the section for a new ownership. The section starts at the exact values of `copy`, or, without a usable
    /// copy, at its ceiling, which is above all numbers that may have been allocated.
    fn start(
        &self,
        machine: &Owner,
        (id, epoch, ceiling): (SectionId, Epoch, Seq),
        copy: Option<&AnyCopy>,
        transitions: &mut Transitions,
    ) -> Arc<OwnedSection> {
        let counters = machine.layout().counters_of(id);
        let clock = machine.routes().and_then(|routes| lanes::clock_of(id, routes));
        let step = self.raise_step();
        let last = machine.routes().map_or(Seq::MAX, |routes| lanes::last_number(id, routes));
        let exact = copy.map(|copy| Numbers::from_copy(counters, copy, ceiling, step, &self.room));
        let exact = exact
            .and_then(|exact| exact.inspect_err(|misfit| transitions.lose_copy(id, epoch, &(*misfit).into())).ok());
        let start = match exact {
            None if transitions.lost_last == Some((id, epoch)) => Start::CopyLost,
            None if ceiling > Seq(0) => Start::Takeover,
            _ => Start::Exact,
        };
        let began = (self.clock.now().boottime, start);
        let Some(clock) = clock else {
            if exact.is_none() && ceiling > Seq(0) {
                transitions.at_ceiling += 1;
                // A uid or key can skip at most all numbers up to the ceiling.
                transitions.skipped += raise::most_skipped(self.most_step()).min(ceiling.0);
            }
            let numbers = exact.unwrap_or_else(|| Numbers::from_ceiling(counters, ceiling, step, &self.room));
            return OwnedSection::new((id, epoch), None, numbers.up_to(last), began);
        };
        // Skipped ticks are times that pass in any case, so they do not count as numbers that a takeover skipped.
        let numbers = exact.unwrap_or_else(|| Numbers::from_ceiling(counters, ceiling, step, &self.room));
        let lead = clock.clock.lead();
        OwnedSection::new((id, epoch), Some(clock), numbers.in_ticks(lead).up_to(last), began)
    }

    /// Creates a section from the values of a section that was frozen for a handover, after this handover failed.
    /// Returns `None` if this node no longer owns the frozen section.
    fn thaw(
        &self,
        machine: &Owner,
        id: SectionId,
        epoch: Epoch,
        transitions: &mut Transitions,
    ) -> Option<Arc<OwnedSection>> {
        let frozen = self.sections.load().get(id).filter(|owned| owned.epoch == epoch).cloned()?;
        Some(self.start(machine, (id, epoch, frozen.ceiling()), Some(&frozen.freeze()), transitions))
    }
}

/// Locked state machine that can only be read. Changes go through [`Ownership::step`].
pub(crate) struct MachineView<'a>(MutexGuard<'a, Owner>);

impl std::ops::Deref for MachineView<'_> {
    type Target = Owner;

    fn deref(&self) -> &Owner {
        &self.0
    }
}

impl Transitions {
    fn enter(&mut self, epoch: Epoch, copied: bool) {
        if copied {
            self.handed_over += 1;
        } else {
            self.taken_over += 1;
        }
        self.epoch = self.epoch.max(epoch);
    }

    fn leave(&mut self, epoch: Epoch) {
        self.left += 1;
        self.epoch = self.epoch.max(epoch);
    }

    /// Counts and logs a section that starts at its ceiling because the copy of its handover could not be used. Such a
    /// start is safe, but skips numbers.
    fn lose_copy(&mut self, section: SectionId, epoch: Epoch, why: &CopyLoss) {
        self.copies_lost += 1;
        self.lost_last = Some((section, epoch));
        tracing::warn!(section = section.0, epoch = epoch.0, %why, "a handover leaves a gap: its copy is not used");
    }

    /// Logs the changes of one step in a single line, for any number of changed sections.
    pub(crate) fn log(&self, set: &str, name: &str) {
        let Transitions { taken_over, handed_over, left, epoch, .. } = *self;
        if taken_over + handed_over + left > 0 {
            tracing::info!(set, name, taken_over, handed_over, left, epoch = epoch.0, "sections changed owner");
        }
    }
}

#[cfg(test)]
mod tests;
