//! Closes a set permanently.
//!
//! A set closes in these steps:
//!
//! * The set takes no more sections. It is *closing* now, and states this in its facts.
//! * Every other set that has learned this fact refuses departures to the closing set. When, in addition, all sections
//!   that the other set had sent to the closing set have arrived, the other set states in its facts that it *refuses*
//!   the closing set. The statement is valid only for the closing set's lineage that the other set's log has fenced,
//!   because after a restore of the closing set, the arrived sections are sent again.
//! * When every other set has made this statement, no section is on its way to the closing set, and none ever will be.
//!   Now the records of the closing set are final, and every other set inherits them (`inheritance.rs`).
//! * When every other set has stated that it has the records, the set is *closed*.
//!
//! Records are inherited because the processes of a closed set stop. Its tombstones may then be the only records from
//! which a restored set can learn where its own sections are.
//!
//! **Invariant:** a closed set has no sections, no section that departed from it can return to it, and no other section
//! can be sent to it. The log of every other set has the tombstones of the closed set.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::migration::{PeerSet, Phase, SetFacts};
use super::record::{SectionRecord, Tombstone};
use super::set_command::{Close, SetRefusal};
use super::{CommandRefusal, Rules, State};
use crate::id::{Lineage, SectionId, SetId};

/// Whether a set takes sections. A set passes through these states in this order and never goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Closing {
    /// The set takes sections.
    #[default]
    Open,
    /// The set takes no more sections. Sections that were on their way to it still arrive.
    Closing,
    /// The set has no sections, and none can come.
    Closed,
}

impl State {
    pub(super) fn close(&mut self, Close: &Close) -> Result<Closing, CommandRefusal> {
        self.check_close()?;
        let before = self.closing;
        self.closing = self.closing.max(Closing::Closing);
        self.note_closing(before);
        self.settle_closing();
        Ok(self.closing)
    }

    /// Checks that the set may be closed: no section is in it, no departed section can return to it, no other set is in
    /// quarantine, and another set is the layout writer. If the set is closing or closed already, the check passes,
    /// because the command may be a repeat.
    ///
    /// # Errors
    /// [`SetRefusal::NotEmpty`], [`SetRefusal::MayReturn`], [`SetRefusal::InQuarantine`], [`SetRefusal::WritesLayout`],
    /// [`SetRefusal::LayoutNotTaken`], or [`CommandRefusal::NoSet`].
    pub fn check_close(&self) -> Result<(), CommandRefusal> {
        if self.set.is_none() {
            return Err(CommandRefusal::NoSet);
        }
        if self.closing > Closing::Open {
            return Ok(());
        }
        if let Some(section) = self.sections_here().next() {
            let sections = self.sections_here().count() as u32;
            return Err(SetRefusal::NotEmpty { section, sections }.into());
        }
        // A set in quarantine has not learned yet from this set's log which sections departed from this set to it.
        let quarantined = |peer: &PeerSet| peer.facts.as_ref().is_some_and(|facts| facts.quarantined);
        if let Some((set, _)) = self.sets.iter().find(|(_, peer)| quarantined(peer)) {
            return Err(SetRefusal::InQuarantine { set: *set }.into());
        }
        if let Some((section, tombstone)) = self.tombstones().find(|(_, tombstone)| self.may_return(tombstone)) {
            return Err(SetRefusal::MayReturn { section, migration: tombstone.by }.into());
        }
        self.check_layout_writer()
    }

    /// Marks a closing set as closed if its records are final and every other set has stated that it has them.
    pub(super) fn settle_closing(&mut self) {
        if self.has_final_records() && self.heirs_awaited().next().is_none() {
            let before = core::mem::replace(&mut self.closing, Closing::Closed);
            self.note_closing(before);
        }
    }

    /// Returns whether this set is closing or closed, and its records can no longer change: no section is in the set,
    /// can return to it, or can still arrive.
    #[must_use]
    pub fn has_final_records(&self) -> bool {
        if self.closing == Closing::Open || self.is_quarantined() || self.refusals_awaited().next().is_some() {
            return false;
        }
        let ended = |phase| matches!(phase, Phase::RolledBack { noted: true } | Phase::Completed { noted: true });
        self.sections_here().next().is_none()
            && self.tombstones().all(|(_, tombstone)| !self.may_return(&tombstone))
            && self.migrations.values().all(|migration| ended(migration.phase))
    }

    /// Returns the other sets whose statements this closing set awaits. Either the other set has not stated that none
    /// of its sections is, or ever will be, on the way to this set, or it has not stated that its log has the records
    /// of this set.
    pub fn closing_waits_for(&self) -> impl Iterator<Item = SetId> {
        let refusals: BTreeSet<SetId> = self.refusals_awaited().collect();
        let heirs = self.heirs_awaited().filter(|set| !refusals.contains(set)).collect::<Vec<_>>();
        refusals.into_iter().chain(heirs)
    }

    fn refusals_awaited(&self) -> impl Iterator<Item = SetId> {
        self.sets_without(|facts| &facts.refuses)
    }

    /// Returns the other sets that have not stated that their logs have the records of this set. Returns none under the
    /// rules of formats before 8, because sets do not make this statement under these rules.
    fn heirs_awaited(&self) -> impl Iterator<Item = SetId> {
        self.sets_without(|facts| &facts.inherited).filter(|_| self.rules >= Rules::Eight)
    }

    /// Returns the other sets whose facts do not contain this set, with its present lineage, in the list that `list`
    /// selects. Leaves out closed sets, and sets whose final records this log has, because such sets have sent all
    /// their sections, and their processes may be gone.
    fn sets_without(&self, list: fn(&SetFacts) -> &Vec<(SetId, Lineage)>) -> impl Iterator<Item = SetId> {
        let own = self.set.as_ref().map(|set| set.id);
        let listed = move |(set, lineage): &(SetId, Lineage)| Some(*set) == own && *lineage >= self.lineage;
        let others = self.sets.iter().filter(|(set, peer)| !self.has_records_of(**set, peer));
        let without = others.filter(move |(_, peer)| match &peer.facts {
            // Facts that a set stated before it was restored do not count.
            Some(facts) if facts.lineage >= peer.fenced => {
                facts.closing != Closing::Closed && (facts.quarantined || !list(facts).iter().any(listed))
            }
            _ => true,
        });
        without.map(|(set, _)| *set)
    }

    /// Returns the closing sets to which this set sends no more sections, and to which none of its sections is on the
    /// way. Each is returned with the fence that this log has for it. The layout writer is left out.
    pub(super) fn refuses(&self) -> Vec<(SetId, Lineage)> {
        let closing = self.sets.iter().filter(|(_, peer)| peer.closing);
        let mut refuses: Vec<(SetId, Lineage)> = closing.map(|(set, peer)| (*set, peer.fenced)).collect();
        if !refuses.is_empty() {
            let sent: Vec<SetId> = self.tombstones().filter(|one| !one.1.arrived).map(|one| one.1.to.set).collect();
            // Either the layout is on its way to that set, or that set has it until it hands the layout over.
            refuses.retain(|(set, _)| !sent.contains(set) && !self.is_writer(*set));
        }
        refuses
    }

    /// Returns the sections whose records have them in this set, including records in quarantine.
    fn sections_here(&self) -> impl Iterator<Item = SectionId> {
        let here =
            |record: &SectionRecord| matches!(record, SectionRecord::Resident(_) | SectionRecord::Quarantined(_));
        self.sections.known().filter(move |(_, record)| here(record)).map(|(section, _)| section)
    }

    pub(super) fn tombstones(&self) -> impl Iterator<Item = (SectionId, Tombstone)> {
        self.sections.known().filter_map(|(section, record)| match record {
            SectionRecord::Departed(tombstone) => Some((section, *tombstone)),
            _ => None,
        })
    }

    /// Returns whether a departed section may still return to this set. It may if the target set has not confirmed its
    /// arrival, or if the migration by which it departed is not completed.
    fn may_return(&self, tombstone: &Tombstone) -> bool {
        // A restored set may know a migration that began in another set's log, which this log cannot roll back.
        let completed =
            self.migrations.get(&tombstone.by).is_none_or(|one| matches!(one.phase, Phase::Completed { .. }));
        !tombstone.arrived || !completed
    }
}

#[cfg(test)]
mod tests;
