//! Wire validation of what the stores of different sets send each other.

use seq_core::directory::{Claim, ClaimRun};
use seq_core::layout::SectionRun;
use seq_core::state::{Arrival, Arrive, Arriving, Closing, FenceResponse, RecordClaim, SetFacts};
use seq_core::{
    Epoch, HandoverId, Incarnation, LayoutId, Lineage, MigrationId, NodeId, Revision, SectionId, Seq, SetId, limits,
};
use tonic::Status;

use crate::reason::Reason;
use crate::v1::{self, ArrivalOutcome};

impl From<&SetFacts> for v1::SetFacts {
    fn from(facts: &SetFacts) -> v1::SetFacts {
        let SetFacts { id, lineage, revision, name, stores, allocs, closing, refuses, .. } = facts.clone();
        v1::SetFacts {
            id: id.0,
            lineage: lineage.0,
            revision: revision.0,
            name,
            stores,
            allocs,
            closing: closing > Closing::Open,
            closed: closing == Closing::Closed,
            refused_set_ids: refuses.iter().map(|(set, _)| set.0).collect(),
            refused_lineages: refuses.iter().map(|(_, lineage)| lineage.0).collect(),
        }
    }
}

/// Decodes what a set states of itself.
///
/// # Errors
/// The refusal, which names the fact.
pub fn facts(facts: &v1::SetFacts) -> Result<SetFacts, Status> {
    let v1::SetFacts { id, lineage, revision, name, stores, allocs, closing, closed, .. } = facts.clone();
    if id == 0 || name.is_empty() || name.len() > limits::MAX_NAME_BYTES {
        let text = format!("facts of set {id} with name {name:?}: a set has an id and a name of up to 63 characters");
        return Err(Reason::UnknownSet.status(text));
    }
    let long = stores.iter().chain(&allocs).find(|addr| addr.len() > limits::MAX_ADDR_BYTES);
    if long.is_some() || allocs.len() > limits::MAX_SET_ADDRS || stores.len() > limits::MAX_SET_ADDRS {
        let text = format!(
            "facts of set {name:?}: up to {} addresses of each kind, of up to {} bytes",
            limits::MAX_SET_ADDRS,
            limits::MAX_ADDR_BYTES
        );
        return Err(Reason::BadAddr.status(text));
    }
    let (sets, lineages) = (&facts.refused_set_ids, &facts.refused_lineages);
    if sets.len() != lineages.len() || sets.len() > limits::MAX_SETS {
        let lens = (sets.len(), lineages.len());
        let text = format!(
            "facts of set {name:?}: {lens:?} refused sets and lineages: send up to {} of each",
            limits::MAX_SETS
        );
        return Err(Reason::ListsMismatch.status(text));
    }
    let refuses = sets.iter().copied().map(SetId).zip(lineages.iter().copied().map(Lineage)).collect();
    let closing = match (closed, closing) {
        (true, _) => Closing::Closed,
        (false, true) => Closing::Closing,
        (false, false) => Closing::Open,
    };
    let (id, lineage, revision) = (SetId(id), Lineage(lineage), Revision(revision));
    let (inherited, quarantined) = (Vec::new(), false);
    Ok(SetFacts { id, lineage, revision, name, stores, allocs, closing, refuses, inherited, quarantined })
}

impl From<&FenceResponse> for v1::FenceResponse {
    fn from(page: &FenceResponse) -> v1::FenceResponse {
        let FenceResponse { lineage, fenced, first, next, records, sets, closing, .. } = page;
        let column = |of: fn(&RecordClaim) -> u64| records.iter().map(|(_, record)| of(record)).collect();
        v1::FenceResponse {
            lineage: lineage.0,
            fenced: fenced.0,
            least_restores: 0,
            first_section: first.0,
            next_section: next.map_or(0, |next| next.0),
            sections: records.iter().map(|(section, _)| section.0).collect(),
            since: column(|record| record.claim.since.0),
            set_ids: column(|record| record.claim.set.0),
            lineages: column(|record| record.lineage.0),
            ceilings: column(|record| record.max_seq.0),
            migration_ids: column(|record| record.migration.0),
            known_set_ids: sets.iter().map(|set| set.0).collect(),
            closing: *closing,
        }
    }
}

/// Decodes a page of a set's records. Its bounds are checked where it is applied.
///
/// # Errors
/// The refusal: the lists differ in length, or are too long.
pub fn fence_response(set: SetId, page: &v1::FenceResponse) -> Result<FenceResponse, Status> {
    let rows = page.sections.len();
    let columns =
        [page.since.len(), page.set_ids.len(), page.lineages.len(), page.ceilings.len(), page.migration_ids.len()];
    if columns != [rows; 5] {
        return Err(Reason::ListsMismatch.status(format!("lists of {columns:?} for {rows} sections")));
    }
    if rows > limits::MAX_MOVES || page.known_set_ids.len() > limits::MAX_SETS {
        let text = format!("{rows} sections and {} sets in a page", page.known_set_ids.len());
        return Err(Reason::BadRuns.status(text));
    }
    let record = |row: usize| RecordClaim {
        claim: Claim { since: Epoch(page.since[row]), set: SetId(page.set_ids[row]) },
        lineage: Lineage(page.lineages[row]),
        max_seq: Seq(page.ceilings[row]),
        migration: MigrationId(page.migration_ids[row]),
    };
    Ok(FenceResponse {
        set,
        lineage: Lineage(page.lineage),
        fenced: Lineage(page.fenced),
        first: SectionId(page.first_section),
        next: (page.next_section != 0).then_some(SectionId(page.next_section)),
        records: (0..rows).map(|row| (SectionId(page.sections[row]), record(row))).collect(),
        sets: page.known_set_ids.iter().copied().map(SetId).collect(),
        closing: page.closing,
        wait: core::time::Duration::ZERO,
    })
}

impl From<&ClaimRun> for v1::ClaimRun {
    fn from(run: &ClaimRun) -> v1::ClaimRun {
        let ClaimRun { sections, claim } = *run;
        let (first_section, sections) = (sections.first.0, sections.sections);
        v1::ClaimRun { first_section, sections, set_id: claim.set.0, since: claim.since.0 }
    }
}

/// Decodes a claim on sections of a layout of so many.
///
/// # Errors
/// The refusal, which names the run.
pub fn claim(run: &v1::ClaimRun, count: u32) -> Result<ClaimRun, Status> {
    let v1::ClaimRun { first_section, sections, set_id, since } = *run;
    let run = SectionRun { first: SectionId(first_section), sections };
    let fits = run.end().is_some_and(|end| end <= count);
    if !fits || set_id == 0 || since > limits::MAX_ARRIVED_EPOCH {
        let text = format!(
            "a claim of set {set_id} since epoch {since} on {sections} sections from {first_section}: the layout has \
             sections 0..{count}, and sections arrive under epochs up to {}",
            limits::MAX_ARRIVED_EPOCH
        );
        return Err(Reason::BadRuns.status(text));
    }
    Ok(ClaimRun { sections: run, claim: Claim { since: Epoch(since), set: SetId(set_id) } })
}

/// Decodes sections that departed.
///
/// # Errors
/// The refusal.
pub fn arrive(request: &v1::ArriveRequest, between: &v1::Between) -> Result<Arrive, Status> {
    let rows = request.sections.len();
    let columns = [
        request.epochs.len(),
        request.ceilings.len(),
        request.handover_ids.len(),
        request.node_ids.len(),
        request.incarnations.len(),
        request.migration_ids.len(),
    ];
    if columns != [rows; 6] || rows == 0 || rows > limits::MAX_MOVES {
        let text = format!("{rows} sections with columns of {columns:?}: send 1..={} of each", limits::MAX_MOVES);
        return Err(Reason::ListsMismatch.status(text));
    }
    let one = |row: usize| Arriving {
        section: SectionId(request.sections[row]),
        epoch: Epoch(request.epochs[row]),
        max_seq: Seq(request.ceilings[row]),
        handover_id: HandoverId(request.handover_ids[row]),
        node: Some(NodeId(request.node_ids[row])).filter(|node| node.0 != 0),
        incarnation: Incarnation(request.incarnations[row]),
        migration: MigrationId(request.migration_ids[row]),
    };
    Ok(Arrive {
        from: SetId(between.from_set_id),
        from_lineage: Lineage(between.from_lineage),
        to_lineage: Lineage(request.to_lineage),
        layout_id: LayoutId(request.layout_id),
        sections: (0..rows).map(one).collect(),
    })
}

/// Encodes sections that departed.
#[must_use]
pub fn to_arrive(arrive: &Arrive, between: v1::Between) -> v1::ArriveRequest {
    let sections = &arrive.sections;
    v1::ArriveRequest {
        between: Some(between),
        to_lineage: arrive.to_lineage.0,
        layout_id: arrive.layout_id.0,
        sections: sections.iter().map(|one| one.section.0).collect(),
        epochs: sections.iter().map(|one| one.epoch.0).collect(),
        ceilings: sections.iter().map(|one| one.max_seq.0).collect(),
        handover_ids: sections.iter().map(|one| one.handover_id.0).collect(),
        node_ids: sections.iter().map(|one| one.node.map_or(0, |node| node.0)).collect(),
        incarnations: sections.iter().map(|one| one.incarnation.0).collect(),
        migration_ids: sections.iter().map(|one| one.migration.0).collect(),
    }
}

impl From<Arrival> for ArrivalOutcome {
    fn from(arrival: Arrival) -> ArrivalOutcome {
        match arrival {
            Arrival::Arrived => ArrivalOutcome::Arrived,
            Arrival::Past => ArrivalOutcome::Past,
            Arrival::Waits => ArrivalOutcome::Waits,
            Arrival::Refused => ArrivalOutcome::Refused,
        }
    }
}

/// Decodes what became of sections; an outcome that this version does not know is sent again.
#[must_use]
pub fn arrivals(response: &v1::ArriveResponse) -> Vec<Arrival> {
    let arrival = |outcome: ArrivalOutcome| match outcome {
        ArrivalOutcome::Arrived => Arrival::Arrived,
        ArrivalOutcome::Past => Arrival::Past,
        ArrivalOutcome::Waits | ArrivalOutcome::Unspecified => Arrival::Waits,
        ArrivalOutcome::Refused => Arrival::Refused,
    };
    response.outcomes().map(arrival).collect()
}
