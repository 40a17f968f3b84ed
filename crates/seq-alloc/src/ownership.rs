//! What this process owns and for how long: the owner's machine, the served sections, the routes and the lease, in one
//! place.
//!
//! **Invariant:** the table of sections, the routes and the lease change in [`Ownership::step`] only, under the
//! machine's lock, in the order that the machine gives, the lease last. Readers go the other way round:
//! [`Ownership::serve`] checks the lease and then loads the table, and only a [`Serving`] gives access to a section's
//! numbers. So a lease that was extended is never used with a table from before.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use arc_swap::{ArcSwapOption, Guard};
use parking_lot::{Mutex, MutexGuard};
use seq_api::clock::Clock;
use seq_core::lease::{Clocks, Lease};
use seq_core::owner::handover::HandoverRequest;
use seq_core::owner::{CopyLoss, Effect, Effects, LeaseEffect, Owner, Session, TableEffect};
use seq_core::route::RouteTable;
use seq_core::section::SectionCopy;
use seq_core::{Epoch, Layout, Section, SectionId, Seq, Step};

mod routes;
mod section;
mod table;

pub(crate) use section::{OwnedSection, Served};
pub(crate) use table::Table;
use table::{Change, SectionTable};

/// The machine, and what readers see of it.
#[derive(Debug)]
pub(crate) struct Ownership {
    layout: Layout,
    /// How far a raise goes. Changed under the machine's lock, with the sections of the table.
    step: AtomicU64,
    /// How long a lease is served under.
    served: Duration,
    clock: Clock,
    /// Decides. Never locked on the path of a number.
    machine: Mutex<Owner>,
    sections: SectionTable,
    routes: ArcSwapOption<RouteTable>,
    lease: Lease,
    /// When the newest request was sent whose response was adopted, on the boot clock, in nanoseconds; 0 before.
    confirmed: AtomicU64,
}

/// What one step of the machine leaves to its caller.
#[must_use = "requests must be sent, and waiting calls notified"]
#[derive(Debug, Default)]
pub(crate) struct Followup {
    /// To be sent.
    pub(crate) requests: Vec<HandoverRequest>,
    /// A renewal is to be sent at once, for a grant.
    pub(crate) renew_now: bool,
    /// The table or the routes changed, the lease ended, or a lease that was over began anew.
    pub(crate) changed: bool,
    /// The lease was extended.
    pub(crate) extended: bool,
    /// Sections that changed hands.
    pub(crate) transitions: Transitions,
}

/// What one step did to the table of served sections.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Transitions {
    /// Sections that started at their ceiling.
    pub(crate) taken_over: usize,
    /// Sections that started from a copy.
    pub(crate) handed_over: usize,
    /// Sections that left.
    pub(crate) left: usize,
    /// Sections of handovers that started at their ceiling.
    pub(crate) copies_lost: usize,
    /// Sections that started at a ceiling of before, for whichever reason: what was left below it is skipped.
    pub(crate) at_ceiling: usize,
    /// The newest epoch among those that entered or left.
    pub(crate) epoch: Epoch,
}

/// The served sections, under a lease that held after the calls at hand had arrived. Not to be kept over a wait.
pub(crate) struct Serving<'a> {
    table: Guard<Arc<Table>>,
    ownership: PhantomData<&'a Ownership>,
}

impl Serving<'_> {
    /// A section to take numbers from; `None` when it is not served here.
    #[inline]
    pub(crate) fn get(&self, id: SectionId) -> Option<Served<'_>> {
        self.table.get(id).map(Served::new)
    }
}

impl Ownership {
    /// Owns nothing. `step` is how far a raise goes, `served` how long a lease is served under.
    pub(crate) fn new(machine: Owner, layout: Layout, step: Step, served: Duration, clock: Clock) -> Ownership {
        Ownership {
            sections: SectionTable::new(layout.sections()),
            layout,
            step: step.0.into(),
            served,
            clock,
            machine: Mutex::new(machine),
            routes: ArcSwapOption::empty(),
            lease: Lease::default(),
            confirmed: AtomicU64::new(0),
        }
    }

    /// How far a raise goes.
    pub(crate) fn raise_step(&self) -> Step {
        Step(self.step.load(Relaxed))
    }

    /// Changes how far raises go, of the sections that are owned and of those to come.
    pub(crate) fn set_raise_step(&self, step: Step) {
        let machine = self.machine.lock();
        self.step.store(step.0, Relaxed);
        self.sections.load().iter().for_each(|owned| owned.set_step(step));
        drop(machine);
    }

    /// What is served, if the lease holds at `now`, a reading of the clocks from after the calls at hand had arrived.
    #[inline]
    pub(crate) fn serve(&self, now: Clocks) -> Option<Serving<'_>> {
        // The lease first, then the table: see `seq_core::lease`.
        if !self.lease.holds(now) {
            return None;
        }
        Some(Serving { table: self.sections.load(), ownership: PhantomData })
    }

    /// Whether the lease holds.
    pub(crate) fn is_leased(&self, now: Clocks) -> bool {
        self.lease.holds(now)
    }

    /// What is left of the lease.
    pub(crate) fn lease_left(&self, now: Clocks) -> Duration {
        self.lease.left(now)
    }

    /// When the newest request was sent whose response was adopted, on the boot clock, in nanoseconds; 0 before.
    pub(crate) fn confirmed(&self) -> u64 {
        self.confirmed.load(Acquire)
    }

    /// What is owned, whether or not the lease holds. Not to be kept over a wait.
    pub(crate) fn owned(&self) -> Guard<Arc<Table>> {
        self.sections.load()
    }

    /// Returns the bytes of the pages that hold counters of touched uids. Visits every page that there could be.
    pub(crate) fn slot_bytes(&self) -> u64 {
        self.owned().iter().map(|owned| owned.slot_bytes() as u64).sum()
    }

    /// The current incarnation, and what it owns: nothing between two of them.
    pub(crate) fn session_and_table(&self) -> (Option<Session>, Guard<Arc<Table>>) {
        let machine = self.machine.lock();
        (machine.session(), self.sections.load())
    }

    /// The machine, to read from it.
    pub(crate) fn machine(&self) -> MachineView<'_> {
        MachineView(self.machine.lock())
    }

    /// Has the machine take a step, and carries its effects out before the next step begins.
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

    /// Carries effects out. `frozen` gets the sections that are to be frozen for their release.
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
                    followup.changed |= !self.lease.holds(self.clock.now());
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

    fn change_table(
        &self,
        machine: &Owner,
        effect: TableEffect,
        changes: &mut Vec<Change>,
        transitions: &mut Transitions,
    ) {
        match effect {
            TableEffect::Publish => self.routes.store(machine.routes().cloned()),
            TableEffect::Enter { section, epoch, ceiling, copy } => {
                transitions.enter(epoch, copy.is_some());
                changes.push(Change::Enter(self.start(section, epoch, ceiling, copy.as_ref(), transitions)));
            }
            TableEffect::Leave { section, epoch } => {
                transitions.leave(epoch);
                changes.push(Change::Leave(section, epoch));
            }
            // Done once the table has all changes.
            TableEffect::Freeze { .. } => {}
            TableEffect::Thaw { section, epoch } => {
                changes.extend(self.thaw(section, epoch, transitions).map(Change::Enter));
            }
        }
    }

    /// A section as its ownership begins: at the exact values of a copy, or above everything that may have been given
    /// out.
    fn start(
        &self,
        id: SectionId,
        epoch: Epoch,
        ceiling: Seq,
        copy: Option<&SectionCopy>,
        transitions: &mut Transitions,
    ) -> Arc<OwnedSection> {
        let uids = self.layout.uids_of(id);
        let uids = (uids.end - uids.start) as u32;
        let exact = copy.map(|copy| Section::handed_over(uids, copy, ceiling, self.raise_step()));
        let exact = exact
            .and_then(|exact| exact.inspect_err(|misfit| transitions.lose_copy(id, epoch, &(*misfit).into())).ok());
        transitions.at_ceiling += usize::from(exact.is_none() && ceiling > Seq(0));
        let section = exact.unwrap_or_else(|| Section::takeover(uids, ceiling, self.raise_step()));
        OwnedSection::new(id, epoch, section)
    }

    /// A section with the values of one that was frozen for a handover which failed for good; `None` when it left
    /// meanwhile.
    fn thaw(&self, id: SectionId, epoch: Epoch, transitions: &mut Transitions) -> Option<Arc<OwnedSection>> {
        let frozen = self.sections.load().get(id).filter(|owned| owned.epoch == epoch).cloned()?;
        Some(self.start(id, epoch, frozen.ceiling(), Some(&frozen.freeze()), transitions))
    }
}

/// The locked machine, read only: a change of it goes through [`Ownership::step`].
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

    /// A section starts at its ceiling instead of from a copy: legal, and a gap that a handover should not leave.
    fn lose_copy(&mut self, section: SectionId, epoch: Epoch, why: &CopyLoss) {
        self.copies_lost += 1;
        tracing::warn!(section = section.0, epoch = epoch.0, %why, "a handover leaves a gap: its copy is not used");
    }

    /// Logs the step in one line, however many sections it changed.
    pub(crate) fn log(&self, set: &str, name: &str) {
        let Transitions { taken_over, handed_over, left, epoch, .. } = *self;
        if taken_over + handed_over + left > 0 {
            tracing::info!(set, name, taken_over, handed_over, left, epoch = epoch.0, "sections changed owner");
        }
    }
}

#[cfg(test)]
mod tests;
