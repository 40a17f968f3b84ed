//! The records that a restored set learns from other sets before it serves. They state which set has each section.
//!
//! When the log of another set has fenced the older lineages of the restored set, the other set sends its *response* to
//! the fence. The response has the other set's records of all sections, with the ceilings, as of the fence or later. It
//! comes in pages, each of which fits a log entry. Each record is true by itself, so the pages may be read at different
//! revisions and from different members of the store.
//!
//! **Invariant:** a response counts only while the set that sent it is in the lineage that this log has fenced for it.
//! If that set is itself restored later, all responses that this set has received until then are void.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use super::record::SectionRecord;
use super::set_command::SetRefusal;
use super::{Closing, CommandRefusal, PeerSet, Rules, State};
use crate::directory::Claim;
use crate::id::{Epoch, Lineage, MigrationId, SectionId, Seq, SetId};
use crate::limits;

/// A claim that a set reads from its record of a section, with all facts that are needed to bring the section to the
/// set that the claim names.
///
/// Values are ordered by the claim, then by the lineage, then by the ceiling. The greatest value for a section is the
/// newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordClaim {
    /// The set that has the section, and the epoch under which it got the section.
    pub claim: Claim,
    /// Lineage of the set that the claim names. If another set states the claim, it is the lineage to which the section
    /// departed. If the named set states the claim about itself, it is that set's lineage at the time of the statement.
    pub lineage: Lineage,
    /// The ceiling.
    pub max_seq: Seq,
    /// The migration that brought the section to the set that the claim names, if it can still be rolled back; 0 for
    /// none.
    pub migration: MigrationId,
}

/// A page of a set's response to a fence, with claims from the set's records in a range of sections. The final records
/// of a closing set come in such pages, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FenceResponse {
    /// The set that responds.
    pub set: SetId,
    /// Lineage of the set that responds.
    pub lineage: Lineage,
    /// Lineage of the restored set for which the responding set's log has the fence. It equals the lineage in the
    /// request.
    pub fenced: Lineage,
    /// The first section of the page.
    pub first: SectionId,
    /// The first section of the next page; `None` if this is the last page.
    pub next: Option<SectionId>,
    /// The claims, in ascending order of section, at most [`limits::MAX_MOVES`]. A claim with epoch 0, which states
    /// that a section is still in its first set, is left out, because no record can be older than it.
    pub records: Vec<(SectionId, RecordClaim)>,
    /// The other sets that the responding set knows. The restored set requests the responses of these sets as well.
    pub sets: Vec<SetId>,
    /// Whether the responding set is closing or closed. The backup of the restored set may lack this fact.
    pub closing: bool,
    /// The longest time for which a session of the responding set may serve without a response of its store, at most
    /// [`limits::MAX_LEASE_WAIT`]. The restored set waits for this time, because an owner in the responding set may
    /// have a lease on a section although neither store has a record of this ownership any more. 0 if the responding
    /// set has an earlier release.
    pub wait: Duration,
    /// The closing sets whose final records the responding set has inherited, so that they are among its own records.
    /// Each is stated with the lineage of its records; at most [`limits::MAX_SETS`]. These sets need not respond
    /// themselves.
    pub inherited: Vec<(SetId, Lineage)>,
}

/// Facts that a restored set has learned from other sets during its quarantine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// The longest time after the restore for which an AllocSvr may still serve under a lease that was granted by an
    /// older lineage of this set, or by a set that responded.
    pub wait: Duration,
    /// The sets that are closed according to the backup. They need not respond, because all sections that they sent had
    /// arrived before the backup was made. If this set learns only in quarantine that a set is closed, that set is not
    /// among them.
    pub closed: BTreeSet<SetId>,
    /// For each set that has responded, the first section of the next page of its response; `None` if the response is
    /// complete.
    pub responses: BTreeMap<SetId, Option<SectionId>>,
    /// The closing sets whose final records are in the responses, each with the newest lineage of these records.
    pub inherited: BTreeMap<SetId, Lineage>,
    /// For each section, the newest claim in the responses. Claims that are not newer than this log's own record of the
    /// section are left out.
    pub claims: BTreeMap<SectionId, RecordClaim>,
}

impl State {
    /// Returns one page of this set's response to a fence. The page begins with the section `first`. `to` is the
    /// restored set, and `lineage` is its lineage. Any member of this set's store whose applied state has the fence may
    /// send the page.
    ///
    /// # Errors
    /// [`SetRefusal::FenceNotApplied`] if this state does not have the fence yet. [`SetRefusal::OldLineage`] if the
    /// lineage is older than the fence. [`SetRefusal::BadRuns`] if the layout has no section `first`.
    pub fn fence_response(
        &self,
        to: SetId,
        lineage: Lineage,
        first: SectionId,
    ) -> Result<FenceResponse, CommandRefusal> {
        let own = self.set.as_ref().ok_or(CommandRefusal::NoSet)?.id;
        let fenced = |peer: &PeerSet| (peer.fenced, peer.admitted);
        let (newest, admitted) = self.sets.get(&to).map_or_else(Default::default, fenced);
        if newest > lineage {
            return Err(SetRefusal::OldLineage { set: to, newest, given: lineage }.into());
        }
        if admitted < lineage {
            return Err(SetRefusal::FenceNotApplied { set: to, lineage }.into());
        }
        if first.0 as usize >= self.sections.len() {
            return Err(SetRefusal::BadRuns.into());
        }
        Ok(FenceResponse { fenced: lineage, ..self.records_page(own, first, to) })
    }

    /// Returns one page of this set's final records, for the set `to`, which inherits them. The page begins with the
    /// section `first`.
    ///
    /// # Errors
    /// [`SetRefusal::NotClosing`] if the records of this set may still change. [`SetRefusal::BadRuns`] if the layout
    /// has no section `first`.
    pub fn final_records(&self, to: SetId, first: SectionId) -> Result<FenceResponse, CommandRefusal> {
        let own = self.set.as_ref().ok_or(CommandRefusal::NoSet)?.id;
        if !self.has_final_records() {
            return Err(SetRefusal::NotClosing { set: own }.into());
        }
        if first.0 as usize >= self.sections.len() {
            return Err(SetRefusal::BadRuns.into());
        }
        Ok(self.records_page(own, first, to))
    }

    fn records_page(&self, own: SetId, first: SectionId, to: SetId) -> FenceResponse {
        let claim = |(section, record)| Some((section, self.record_claim(own, record)?));
        let mut claims = self.sections.known_from(first).filter_map(claim);
        let records: Vec<(SectionId, RecordClaim)> = claims.by_ref().take(limits::MAX_MOVES).collect();
        let next = claims.next().map(|(section, _)| section);
        let sets = self.sets.keys().copied().filter(|set| *set != to).collect();
        let (lineage, closing) = (self.lineage, self.closing > Closing::Open);
        let (fenced, wait) = (Lineage(0), self.longest_session());
        let inherited = self.inherited();
        FenceResponse { set: own, lineage, fenced, first, next, records, sets, closing, wait, inherited }
    }

    /// Returns the longest time for which any AllocSvr of this set, in the present or an earlier lineage, may serve
    /// without a response of its store.
    pub(super) fn longest_session(&self) -> Duration {
        let terms = self.terms();
        let leases = self.nodes.iter().map(|node| terms.wait_for(node.lease));
        let before = self.recovery.as_ref().map(|recovery| recovery.wait);
        leases.chain(before).fold(terms.lease_wait, Ord::max)
    }

    fn record_claim(&self, own: SetId, record: &SectionRecord) -> Option<RecordClaim> {
        let claim = |since, set| Claim { since, set };
        let (claim, lineage, max_seq, migration) = match record {
            SectionRecord::Never => return None,
            SectionRecord::Resident(one) => (claim(one.since, own), self.lineage, one.max_seq, one.came_by),
            SectionRecord::Quarantined(one) => (claim(one.since, own), self.lineage, one.max_seq, one.came_by),
            SectionRecord::Departed(one) => (claim(one.epoch, one.to.set), one.to.lineage, one.max_seq, one.by),
        };
        (claim.since > Epoch(0)).then_some(RecordClaim { claim, lineage, max_seq, migration })
    }

    /// Returns whether the set was restored and serves nothing yet.
    #[must_use]
    pub fn is_quarantined(&self) -> bool {
        self.recovery.is_some()
    }

    /// Returns the least duration of the quarantine, counted from the last change of [`State::quarantine_lineages`];
    /// `None` outside of quarantine.
    #[must_use]
    pub fn quarantine_wait(&self) -> Option<Duration> {
        self.recovery.as_ref().map(|recovery| recovery.wait)
    }

    /// Returns this set's lineage, and the newest known lineage of each other set. If one of these lineages is replaced
    /// by a newer lineage, the wait of a quarantine begins again. An owner in the replaced lineage may have a lease on
    /// a section, and the restored store may have no record of its ownership.
    #[must_use]
    pub fn quarantine_lineages(&self) -> (Lineage, BTreeMap<SetId, Lineage>) {
        (self.lineage, self.sets.iter().map(|(set, peer)| (*set, peer.fenced)).collect())
    }

    /// Returns the sets whose responses are not complete, each with the first section of the page to request next.
    /// Returns none outside of quarantine. Leaves out sets that are closed according to the backup, and sets whose
    /// final records are in this log or in the responses of other sets, because the processes of these sets may be
    /// gone.
    pub fn awaited_responses(&self) -> impl Iterator<Item = (SetId, SectionId)> {
        let awaited = |recovery: &Recovery, set: &SetId| match recovery.responses.get(set) {
            None => Some(SectionId(0)),
            Some(next) => *next,
        };
        let is_stated = |peer: &PeerSet| peer.facts.as_ref().is_some_and(|facts| facts.closing == Closing::Closed);
        let was_closed = |set: &SetId| self.recovery.as_ref().is_some_and(|recovery| recovery.closed.contains(set));
        let is_closed = move |set: &SetId, peer: &PeerSet| match self.rules {
            Rules::Seven => is_stated(peer),
            Rules::Eight | Rules::Nine | Rules::Ten | Rules::Eleven => {
                was_closed(set) || self.has_records_of(*set, peer)
            }
        };
        let sets = self.sets.iter().filter(move |(set, peer)| !is_closed(set, peer)).map(|(set, _)| *set);
        let sets = self.recovery.iter().flat_map(move |recovery| sets.clone().map(move |set| (recovery, set)));
        sets.filter_map(move |(recovery, set)| Some((set, awaited(recovery, &set)?)))
    }

    pub(super) fn learn_records(&mut self, response: &FenceResponse) -> Result<bool, CommandRefusal> {
        let FenceResponse { set, lineage, fenced, first, next, records, sets, closing, wait, inherited } = response;
        let own = self.set.as_ref().ok_or(CommandRefusal::NoSet)?.id;
        if *fenced != self.lineage {
            return Err(SetRefusal::OtherLineage { current: self.lineage, given: *fenced }.into());
        }
        if !response.is_sound(self.sections.len()) {
            return Err(SetRefusal::BadResponse { set: *set }.into());
        }
        if self.recovery.is_none() {
            return Ok(false);
        }
        // The entry that fenced the older lineages of the responding set may be lost since the backup.
        self.fence_set(*set, *lineage)?;
        self.peer_set(*set)?.closing |= closing;
        for other in sets.iter().filter(|other| **other != own) {
            self.peer_set(*other)?;
        }
        let Some(recovery) = &mut self.recovery else { return Ok(false) };
        let Recovery { responses, claims, wait: longest, inherited: known, .. } = recovery;
        *longest = (*longest).max(*wait);
        for (set, lineage) in inherited.iter().filter(|(set, _)| *set != own) {
            known.entry(*set).and_modify(|known| *known = (*known).max(*lineage)).or_insert(*lineage);
        }
        let progress = responses.entry(*set).or_insert(Some(SectionId(0)));
        if *progress != Some(*first) {
            return Ok(false);
        }
        *progress = *next;
        for (section, claim) in records {
            let fence = self.sections.get(*section).map_or(Epoch(0), SectionRecord::fence);
            if claim.claim.since > fence {
                claims.entry(*section).and_modify(|known| *known = (*known).max(*claim)).or_insert(*claim);
            }
        }
        Ok(true)
    }

    /// Voids all responses that this restored set has received, if the set `set` is among the sets that responded.
    /// Called when that set has a newer lineage.
    pub(super) fn void_responses(&mut self, set: SetId) {
        // Claims are not kept by set, so all responses are requested again.
        if let Some(recovery) = &mut self.recovery
            && recovery.responses.contains_key(&set)
        {
            recovery.responses.clear();
            recovery.claims.clear();
            recovery.inherited.clear();
        }
    }
}

impl FenceResponse {
    /// Returns whether the response is consistent, and within its limits, for a layout with this number of sections.
    pub(super) fn is_sound(&self, sections: usize) -> bool {
        let end = self.next.map_or(sections, |next| next.0 as usize);
        let is_of_page = |section: SectionId| section >= self.first && (section.0 as usize) < end;
        let is_in_range =
            |one: &RecordClaim| (1..=limits::MAX_ARRIVED_EPOCH).contains(&one.claim.since.0) && one.max_seq <= Seq::MAX;
        end <= sections
            && self.next.is_none_or(|next| next > self.first)
            && self.records.len() <= limits::MAX_MOVES
            && self.sets.len() <= limits::MAX_SETS
            && self.inherited.len() <= limits::MAX_SETS
            && self.wait <= limits::MAX_LEASE_WAIT
            && self.records.is_sorted_by(|one, next| one.0 < next.0)
            && self.records.iter().all(|(section, claim)| is_of_page(*section) && is_in_range(claim))
    }
}
