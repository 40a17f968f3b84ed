//! One step of the owner's machine: it decides, and what it says is carried out in its order before anybody else has a turn.
//!
//! **Invariant:** the table of owned sections, the routes and the lease are changed here only, under the machine's lock, and
//! the lease last: who serves reads the lease first and the table after it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Release;

use seq_core::owner::{CopyLoss, Effect, Owner};
use seq_core::section::SectionCopy;
use seq_core::{Epoch, Section, SectionId, Seq};

use crate::owned::{Change, OwnedSection};
use crate::shared::Shared;

impl Shared {
    /// Lets the machine take a step.
    pub(crate) fn step<T>(&self, step: impl FnOnce(&mut Owner, &mut Vec<Effect>) -> T) -> T {
        let mut owner = self.owner.lock();
        let mut effects = Vec::new();
        let outcome = step(&mut owner, &mut effects);
        if !effects.is_empty() {
            self.carry_out(&owner, effects);
        }
        outcome
    }

    fn carry_out(&self, owner: &Owner, effects: Vec<Effect>) {
        let mut changes = Vec::new();
        let mut wakes = false;
        let mut moved = Moved::default();
        for effect in effects {
            wakes |= !matches!(effect, Effect::Extend { .. } | Effect::RenewNow);
            match effect {
                Effect::Publish => self.routes.store(owner.routes().cloned()),
                Effect::Enter { section, epoch, ceiling, copy } => {
                    moved.entered(epoch, copy.is_some());
                    changes.push(Change::Enter(self.section(section, epoch, ceiling, copy.as_ref())));
                }
                Effect::Leave { section, epoch } => {
                    moved.left(epoch);
                    changes.push(Change::Leave(section, epoch));
                }
                Effect::Thaw { section, epoch } => changes.extend(self.thawed(section, epoch).map(Change::Enter)),
                Effect::Extend { sent } => {
                    self.owned.change(std::mem::take(&mut changes));
                    // A lease that was over lets held calls go on, and so does an answer that some of them wait for.
                    wakes |= !self.leased() || self.pending.await_owner();
                    self.lease.extend(sent, self.options.terms().served());
                    self.confirmed.fetch_max(sent.boottime, Release);
                }
                Effect::EndLease => self.lease.end(),
                Effect::RenewNow => self.grants_due.notify_one(),
                Effect::CopyLost { section, epoch, why } => self.copy_lost(section, epoch, &why),
                effect @ (Effect::Prepare(_) | Effect::Stage(_) | Effect::Commit(_) | Effect::Activate(_)) => {
                    self.handovers.push(effect);
                }
            }
        }
        self.owned.change(changes);
        moved.log(&self.set, &self.name);
        if wakes {
            self.update.notify_waiters();
        }
    }

    /// A section as its ownership begins: at the exact values of a copy, or above everything that may have been given out.
    fn section(&self, id: SectionId, epoch: Epoch, ceiling: Seq, copy: Option<&SectionCopy>) -> Arc<OwnedSection> {
        let uids = self.layout.uids_of(id);
        let uids = (uids.end - uids.start) as u32;
        let start = copy.map(|copy| Section::handed_over(uids, copy, ceiling, self.step));
        let section = start.and_then(|start| start.inspect_err(|why| self.copy_lost(id, epoch, &(*why).into())).ok());
        let section = section.unwrap_or_else(|| Section::takeover(uids, ceiling, self.step));
        OwnedSection::new(id, epoch, section)
    }

    /// A section starts at its ceiling where it should have started from a copy: legal, and not what a planned move is for.
    fn copy_lost(&self, section: SectionId, epoch: Epoch, why: &CopyLoss) {
        tracing::warn!(section = section.0, epoch = epoch.0, %why, "a planned move leaves a gap: its copy is not used");
        self.counters.copy_lost();
    }

    /// A section with the values of one that was frozen for a move which failed for good; `None` when it left meanwhile.
    fn thawed(&self, id: SectionId, epoch: Epoch) -> Option<Arc<OwnedSection>> {
        let frozen = self.owned.load().get(id).filter(|owned| owned.epoch == epoch).cloned()?;
        Some(self.section(id, epoch, frozen.section.ceiling(), Some(&frozen.section.freeze())))
    }
}

/// What one step did to the table of owned sections, for one line in the log however many they are.
#[derive(Debug, Default)]
struct Moved {
    taken_over: usize,
    handed_over: usize,
    left: usize,
    /// The newest epoch among them.
    epoch: Epoch,
}

impl Moved {
    fn entered(&mut self, epoch: Epoch, copied: bool) {
        if copied {
            self.handed_over += 1
        } else {
            self.taken_over += 1
        }
        self.epoch = self.epoch.max(epoch);
    }

    fn left(&mut self, epoch: Epoch) {
        self.left += 1;
        self.epoch = self.epoch.max(epoch);
    }

    fn log(&self, set: &str, name: &str) {
        let Moved { taken_over, handed_over, left, epoch } = *self;
        if taken_over + handed_over + left > 0 {
            tracing::info!(set, name, taken_over, handed_over, left, epoch = epoch.0, "sections changed their owner");
        }
    }
}
