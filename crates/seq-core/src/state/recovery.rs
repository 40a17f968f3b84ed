//! Records of other sets that a restored set learns before it serves. The records claim which set has each section.
//!
//! A *response* of a set to a fence is complete: it has every section record of that set with the ceiling, as it was
//! after the set's log had the fence. A response comes in pages, each of which fits a log entry. Each record is a fact
//! by itself, so the pages may be read at different entries and from different members of the store.
//!
//! **Invariant:** a response counts only while its sender is in the lineage that this log has fenced for the sender. If
//! the sender is restored later, all responses received until then are void.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use super::record::SectionRecord;
use super::set_command::SetRefusal;
use super::{Closing, CommandRefusal, PeerSet, Rules, State};
use crate::directory::Claim;
use crate::id::{Epoch, Lineage, MigrationId, SectionId, Seq, SetId};
use crate::limits;

/// A claim from the record of a set, with all facts that are needed to bring the section to the set that the claim
/// names.
///
/// Values are ordered by the claim, then by the lineage, then by the ceiling. The greatest value is the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordClaim {
    /// The set of the section, and the epoch since which it has the section.
    pub claim: Claim,
    /// Lineage of the set that the claim names: the lineage to which the section departed, or in which that set stated
    /// that it has the section.
    pub lineage: Lineage,
    /// The ceiling.
    pub max_seq: Seq,
    /// The migration that brought the section there and can still be rolled back; 0 for none.
    pub migration: MigrationId,
}

/// A page of a set's response to a fence: the claims from its records of a range of sections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FenceResponse {
    /// The set that responds.
    pub set: SetId,
    /// Lineage of the set that responds.
    pub lineage: Lineage,
    /// Lineage of the restored set that the responding set's log has fenced. It equals the lineage in the request.
    pub fenced: Lineage,
    /// The first section of the page.
    pub first: SectionId,
    /// The first section of the next page; `None`: this is the last page.
    pub next: Option<SectionId>,
    /// The claims, in order of section, at most [`limits::MAX_MOVES`]. A claim since epoch 0, of a section in its first
    /// set, is left out, because no record is older.
    pub records: Vec<(SectionId, RecordClaim)>,
    /// The other sets that the responding set knows. The restored set requests the responses of these sets as well.
    pub sets: Vec<SetId>,
    /// Whether the responding set takes no more sections. The backup of the restored set may lack this fact.
    pub closing: bool,
    /// The longest time for which a session of the responding set may serve without its store, at most
    /// [`limits::MAX_LEASE_WAIT`]. The restored set waits for this time, because an owner in the responding set may
    /// have a lease on a section of which neither store knows any more. 0 if the sender has an earlier release.
    pub wait: Duration,
    /// The closing sets whose final records are among the records of the responding set, each with the lineage of its
    /// records, at most [`limits::MAX_SETS`]. These sets need not respond themselves.
    pub inherited: Vec<(SetId, Lineage)>,
}

/// Facts that a set in quarantine has learned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// The longest time after the restore for which a session of an older lineage of this set, or a session of a set
    /// that responded, may serve.
    pub wait: Duration,
    /// The sets that the backup knows as closed. They need not respond, because all sections that they sent had arrived
    /// before the backup was made. A set of which this set learns only now that it is closed is not among them.
    pub closed: BTreeSet<SetId>,
    /// For each set, the first section that its response does not cover yet; `None` if the response is complete.
    pub responses: BTreeMap<SetId, Option<SectionId>>,
    /// The closed sets whose records are in the responses, each with the newest lineage of its records.
    pub inherited: BTreeMap<SetId, Lineage>,
    /// The newest claim of each section in the responses. Claims that are not newer than the record here are left out.
    pub claims: BTreeMap<SectionId, RecordClaim>,
}

impl State {
    /// Returns a page of this set's response to a fence. Any member whose applied state has the fence may send it.
    ///
    /// # Errors
    /// [`SetRefusal::FenceNotApplied`]: this state does not have the fence yet. [`SetRefusal::OldLineage`]: the request
    /// is of a lineage that is over. [`SetRefusal::BadRuns`]: the layout has no such section.
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

    /// Returns a page of this set's final records, for the sets that inherit them.
    ///
    /// # Errors
    /// [`SetRefusal::NotClosing`]: the records of this set may still change. [`SetRefusal::BadRuns`]: the layout has no
    /// such section.
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

    /// Returns the longest time that a session of this set, of any of its lineages, may serve without a response of its
    /// store.
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

    /// Returns how long a quarantine lasts at least, counted from the last change of [`State::quarantine_lineages`];
    /// `None` outside of quarantine.
    #[must_use]
    pub fn quarantine_wait(&self) -> Option<Duration> {
        self.recovery.as_ref().map(|recovery| recovery.wait)
    }

    /// Returns this set's lineage, and the newest known lineages of the other sets. If a newer lineage replaces any of
    /// them, the wait of a quarantine begins again, because an owner of the older lineage may have a lease on a section
    /// that the restored store lacks.
    #[must_use]
    pub fn quarantine_lineages(&self) -> (Lineage, BTreeMap<SetId, Lineage>) {
        (self.lineage, self.sets.iter().map(|(set, peer)| (*set, peer.fenced)).collect())
    }

    /// Returns the sets whose responses are not complete, each with the first section to request. Returns none outside
    /// of quarantine. Leaves out sets that the backup knew as closed, and sets whose final records are in this log or
    /// in the responses of other sets, because the processes of these sets may be gone.
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

    /// Voids all responses if they include a response of the set `set`, which has a newer lineage now.
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
    /// Returns whether a set that keeps the rules can have sent this response.
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
