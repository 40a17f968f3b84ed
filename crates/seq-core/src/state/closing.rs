//! Closes a set for good.
//!
//! A closing set is armed for no more sections, and each other set's log refuses departures to it from the entry on by
//! which it learned so. A log that refuses them, and has sent nothing there that has not arrived, states so in its
//! facts, and that stays true for the lineage of the closing set that it has fenced: a restore makes it send again what
//! had arrived. Once every other set states it, nothing is on its way here and nothing ever will be. Then the records
//! of the closing set are final, and every other set inherits them (`inheritance.rs`): the processes of a closed set
//! stop, and its tombstones may be all that shows a restored set where its sections are.
//!
//! **Invariant:** a closed set has no sections, none of its own can return to it, and none can be sent to it; the log
//! of every other set has its tombstones.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::migration::{PeerSet, Phase, SetFacts};
use super::record::{SectionRecord, Tombstone};
use super::set_command::{Close, SetRefusal};
use super::{CommandRefusal, Rules, State};
use crate::id::{Lineage, SectionId, SetId};

/// Whether a set takes sections. Never goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Closing {
    /// It does.
    #[default]
    Open,
    /// It takes no more; what was on its way arrives.
    Closing,
    /// It has none, and none can come.
    Closed,
}

impl State {
    pub(super) fn close(&mut self, Close: &Close) -> Result<Closing, CommandRefusal> {
        self.check_close()?;
        self.closing = self.closing.max(Closing::Closing);
        self.settle_closing();
        Ok(self.closing)
    }

    /// Whether the set may be closed: nothing is in it, and nothing that departed can return. One that is closing may
    /// be closed again.
    ///
    /// # Errors
    /// [`SetRefusal::NotEmpty`], [`SetRefusal::MayReturn`], [`SetRefusal::InQuarantine`], or [`CommandRefusal::NoSet`].
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
        // The restored set has yet to learn from this one what departed here.
        let quarantined = |peer: &PeerSet| peer.facts.as_ref().is_some_and(|facts| facts.quarantined);
        if let Some((set, _)) = self.sets.iter().find(|(_, peer)| quarantined(peer)) {
            return Err(SetRefusal::InQuarantine { set: *set }.into());
        }
        if let Some((section, tombstone)) = self.tombstones().find(|(_, tombstone)| self.may_return(tombstone)) {
            return Err(SetRefusal::MayReturn { section, migration: tombstone.by }.into());
        }
        Ok(())
    }

    /// Closes a closing set for good where nothing is here, nothing can return, and nothing can come.
    pub(super) fn settle_closing(&mut self) {
        if self.has_final_records() && self.heirs_awaited().next().is_none() {
            self.closing = Closing::Closed;
        }
    }

    /// Whether this set closes, and none of its records changes any more: nothing is here, nothing can return, and
    /// nothing can come.
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

    /// The other sets that this closing one waits for: they have not stated yet that nothing is on its way here and
    /// never will be, or that their logs have the records of this set.
    pub fn closing_waits_for(&self) -> impl Iterator<Item = SetId> {
        let refusals: BTreeSet<SetId> = self.refusals_awaited().collect();
        let heirs = self.heirs_awaited().filter(|set| !refusals.contains(set)).collect::<Vec<_>>();
        refusals.into_iter().chain(heirs)
    }

    fn refusals_awaited(&self) -> impl Iterator<Item = SetId> {
        self.sets_without(|facts| &facts.refuses)
    }

    /// None by the rules before format 8, whose facts do not state it.
    fn heirs_awaited(&self) -> impl Iterator<Item = SetId> {
        self.sets_without(|facts| &facts.inherited).filter(|_| self.rules >= Rules::Eight)
    }

    /// The other sets, but for closed ones, whose facts do not list this set in its lineage. A set whose final records
    /// are here has sent all that it had, and may be gone.
    fn sets_without(&self, list: fn(&SetFacts) -> &Vec<(SetId, Lineage)>) -> impl Iterator<Item = SetId> {
        let own = self.set.as_ref().map(|set| set.id);
        let listed = move |(set, lineage): &(SetId, Lineage)| Some(*set) == own && *lineage >= self.lineage;
        let others = self.sets.iter().filter(|(set, peer)| !self.has_records_of(**set, peer));
        let without = others.filter(move |(_, peer)| match &peer.facts {
            // What it stated before it was restored does not count.
            Some(facts) if facts.lineage >= peer.fenced => {
                facts.closing != Closing::Closed && (facts.quarantined || !list(facts).iter().any(listed))
            }
            _ => true,
        });
        without.map(|(set, _)| *set)
    }

    /// The sets to which no section departs any more, and to which none is on its way.
    pub(super) fn refuses(&self) -> Vec<(SetId, Lineage)> {
        let closing = self.sets.iter().filter(|(_, peer)| peer.closing);
        let mut refuses: Vec<(SetId, Lineage)> = closing.map(|(set, peer)| (*set, peer.fenced)).collect();
        if !refuses.is_empty() {
            let sent: Vec<SetId> = self.tombstones().filter(|one| !one.1.arrived).map(|one| one.1.to.set).collect();
            refuses.retain(|(set, _)| !sent.contains(set));
        }
        refuses
    }

    /// The sections that are here, or in quarantine.
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

    /// Whether a section that departed may come back by this log's own doing: it is on its way, or its migration can be
    /// rolled back, or was.
    fn may_return(&self, tombstone: &Tombstone) -> bool {
        // A migration of another set's log, as a restored set learns it, is not this log's to roll back.
        let completed =
            self.migrations.get(&tombstone.by).is_none_or(|one| matches!(one.phase, Phase::Completed { .. }));
        !tombstone.arrived || !completed
    }
}

#[cfg(test)]
mod tests;
