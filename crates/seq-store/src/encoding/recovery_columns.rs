//! Archived types for the records of other sets that a restored set learns, and the conversions from and to the types
//! of `seq-core`.

use std::time::Duration;

use rkyv::{Archive, Deserialize, Serialize};
use seq_core::directory::Claim;
use seq_core::state::{self, RecordClaim};
use seq_core::{Epoch, Lineage, MigrationId, SectionId, Seq, SetId};

use super::Contradiction;
use super::command::nanos;

/// Archived form of one page of records in the response to a fence.
#[derive(Archive, Serialize, Deserialize, Debug)]
pub(crate) struct FenceResponse {
    set: u64,
    lineage: u64,
    fenced: u64,
    first: u32,
    next: Option<u32>,
    records: RecordClaims,
    sets: Vec<u64>,
    closing: bool,
}

impl FenceResponse {
    pub(super) fn from_core(response: &state::FenceResponse) -> FenceResponse {
        let state::FenceResponse { set, lineage, fenced, first, next, records, sets, closing, .. } = response;
        FenceResponse {
            set: set.0,
            lineage: lineage.0,
            fenced: fenced.0,
            first: first.0,
            next: next.map(|next| next.0),
            records: RecordClaims::from_core(records.iter().copied()),
            sets: sets.iter().map(|set| set.0).collect(),
            closing: *closing,
        }
    }

    pub(super) fn into_core(self) -> Result<state::FenceResponse, Contradiction> {
        let FenceResponse { set, lineage, fenced, first, next, records, sets, closing } = self;
        Ok(state::FenceResponse {
            set: SetId(set),
            lineage: Lineage(lineage),
            fenced: Lineage(fenced),
            first: SectionId(first),
            next: next.map(SectionId),
            records: records.into_core()?.collect(),
            sets: sets.into_iter().map(SetId).collect(),
            closing,
            // These fields were added in format 8.
            wait: Duration::ZERO,
            inherited: Vec::new(),
        })
    }
}

/// Archived form of the records that a set in quarantine has learned so far, and of its progress.
#[derive(Archive, Serialize, Deserialize, Debug)]
pub(crate) struct Recovery {
    wait_nanos: u64,
    responded: Vec<u64>,
    /// For each set that responded, the first section whose record its responses have not contained yet; `None` if they
    /// have contained all records.
    next: Vec<Option<u32>>,
    claims: RecordClaims,
}

impl Recovery {
    pub(super) fn from_core(recovery: &state::Recovery) -> Recovery {
        let state::Recovery { wait, responses, claims, .. } = recovery;
        Recovery {
            wait_nanos: nanos(*wait),
            responded: responses.keys().map(|set| set.0).collect(),
            next: responses.values().map(|next| next.map(|next| next.0)).collect(),
            claims: RecordClaims::from_core(claims.iter().map(|(section, claim)| (*section, *claim))),
        }
    }

    pub(super) fn into_core(self) -> Result<state::Recovery, Contradiction> {
        let Recovery { wait_nanos, responded, next, claims } = self;
        if responded.len() != next.len() {
            return Err("the columns of responses differ in length");
        }
        let next = next.into_iter().map(|next| next.map(SectionId));
        let responses = responded.into_iter().map(SetId).zip(next).collect();
        let wait = Duration::from_nanos(wait_nanos);
        Ok(state::Recovery { wait, responses, claims: claims.into_core()?.collect(), ..state::Recovery::default() })
    }
}

/// Archived form of other sets' statements about the records of sections, with one vector for each field.
#[derive(Archive, Serialize, Deserialize, Debug, Default)]
struct RecordClaims {
    sections: Vec<u32>,
    since: Vec<u64>,
    sets: Vec<u64>,
    lineages: Vec<u64>,
    max_seqs: Vec<u64>,
    migrations: Vec<u64>,
}

impl RecordClaims {
    fn from_core(records: impl Iterator<Item = (SectionId, RecordClaim)>) -> RecordClaims {
        let mut columns = RecordClaims::default();
        for (section, RecordClaim { claim, lineage, max_seq, migration }) in records {
            columns.sections.push(section.0);
            columns.since.push(claim.since.0);
            columns.sets.push(claim.set.0);
            columns.lineages.push(lineage.0);
            columns.max_seqs.push(max_seq.0);
            columns.migrations.push(migration.0);
        }
        columns
    }

    fn into_core(self) -> Result<impl Iterator<Item = (SectionId, RecordClaim)>, Contradiction> {
        let RecordClaims { sections, since, sets, lineages, max_seqs, migrations } = self;
        let rows = sections.len();
        if [since.len(), sets.len(), lineages.len(), max_seqs.len(), migrations.len()] != [rows; 5] {
            return Err("the columns of records differ in length");
        }
        Ok((0..rows).map(move |row| {
            let claim = RecordClaim {
                claim: Claim { since: Epoch(since[row]), set: SetId(sets[row]) },
                lineage: Lineage(lineages[row]),
                max_seq: Seq(max_seqs[row]),
                migration: MigrationId(migrations[row]),
            };
            (SectionId(sections[row]), claim)
        }))
    }
}
