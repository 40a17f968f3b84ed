//! Validation and encoding of the messages that the stores of different sets send each other on the wire.

use seq_core::directory::{Claim, ClaimRun};
use seq_core::layout::SectionRun;
use seq_core::set_spec::{is_dialled_addr, is_dns_label};
use seq_core::state::{
    Arrival, Arrive, Arriving, Closing, Destination, FenceResponse, RecordClaim, SetFacts, Tombstone,
};
use seq_core::{
    Epoch, HandoverId, Incarnation, LayoutId, Lineage, MigrationId, NodeId, Revision, RouteVersion, SectionId, Seq,
    SetId, limits,
};
use tonic::Status;

use crate::reason::Reason;
use crate::v1::{self, ArrivalOutcome};

impl From<&SetFacts> for v1::SetFacts {
    fn from(facts: &SetFacts) -> v1::SetFacts {
        let SetFacts { id, lineage, revision, name, stores, allocs, closing, refuses, inherited, quarantined } =
            facts.clone();
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
            quarantined,
            inherited_set_ids: inherited.iter().map(|(set, _)| set.0).collect(),
            inherited_lineages: inherited.iter().map(|(_, lineage)| lineage.0).collect(),
        }
    }
}

/// Decodes the facts that a set states about itself.
///
/// # Errors
/// A refusal that names the fact that is malformed.
pub fn facts(facts: &v1::SetFacts) -> Result<SetFacts, Status> {
    let v1::SetFacts { id, lineage, revision, name, stores, allocs, closing, closed, .. } = facts.clone();
    if id == 0 || !is_dns_label(&name) {
        let text = format!("facts of set {id} with name {name:?}: a set has an id, and a DNS label as its name");
        return Err(Reason::UnknownSet.status(text));
    }
    if let Some(addr) = stores.iter().chain(&allocs).find(|addr| !is_dialled_addr(addr)) {
        let start: String = addr.chars().take(limits::MAX_ADDR_BYTES).collect();
        return Err(Reason::BadAddr.status(format!("facts of set {name:?}: {start:?} is no address HOST:PORT")));
    }
    if allocs.len() > limits::MAX_SET_ADDRS || stores.len() > limits::MAX_SET_ADDRS {
        let text = format!("facts of set {name:?}: up to {} addresses of each kind", limits::MAX_SET_ADDRS);
        return Err(Reason::BadAddr.status(text));
    }
    let refuses = with_lineages(&name, "refused", &facts.refused_set_ids, &facts.refused_lineages)?;
    let inherited = with_lineages(&name, "inherited", &facts.inherited_set_ids, &facts.inherited_lineages)?;
    let closing = match (closed, closing) {
        (true, _) => Closing::Closed,
        (false, true) => Closing::Closing,
        (false, false) => Closing::Open,
    };
    let (id, lineage, revision) = (SetId(id), Lineage(lineage), Revision(revision));
    let quarantined = facts.quarantined;
    Ok(SetFacts { id, lineage, revision, name, stores, allocs, closing, refuses, inherited, quarantined })
}

/// Decodes a list of sets with their lineages. In the facts of a set, these are two parallel lists.
fn with_lineages(name: &str, what: &str, sets: &[u64], lineages: &[u64]) -> Result<Vec<(SetId, Lineage)>, Status> {
    if sets.len() != lineages.len() || sets.len() > limits::MAX_SETS {
        let lens = (sets.len(), lineages.len());
        let text = format!(
            "facts of set {name:?}: {lens:?} {what} sets and lineages: send up to {} of each",
            limits::MAX_SETS
        );
        return Err(Reason::ListsMismatch.status(text));
    }
    Ok(sets.iter().copied().map(SetId).zip(lineages.iter().copied().map(Lineage)).collect())
}

impl From<&FenceResponse> for v1::FenceResponse {
    fn from(page: &FenceResponse) -> v1::FenceResponse {
        let FenceResponse { lineage, fenced, first, next, records, sets, closing, wait, inherited, .. } = page;
        let column = |of: fn(&RecordClaim) -> u64| records.iter().map(|(_, record)| of(record)).collect();
        v1::FenceResponse {
            series: Vec::new(),
            writer: None,
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
            // The time is rounded up, because a quarantine must last longer than this time.
            wait_ms: u32::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX),
            inherited_set_ids: inherited.iter().map(|(set, _)| set.0).collect(),
            inherited_lineages: inherited.iter().map(|(_, lineage)| lineage.0).collect(),
        }
    }
}

/// Decodes a page of a set's records of sections. Only the lengths of the page's lists are checked here. The values in
/// the lists are checked when the page is applied.
///
/// # Errors
/// A refusal, if the lists differ in length or are too long.
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
    let inherited = with_lineages("in the response", "inherited", &page.inherited_set_ids, &page.inherited_lineages)?;
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
        wait: core::time::Duration::from_millis(page.wait_ms.into()),
        inherited,
    })
}

impl From<&ClaimRun> for v1::ClaimRun {
    fn from(run: &ClaimRun) -> v1::ClaimRun {
        let ClaimRun { sections, claim } = *run;
        let (first_section, sections) = (sections.first.0, sections.sections);
        v1::ClaimRun { first_section, sections, set_id: claim.set.0, since: claim.since.0 }
    }
}

/// Decodes the statement of a set that it has a run of sections, in a layout with `count` sections.
///
/// # Errors
/// A refusal that names the invalid run.
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

/// Decodes a request for this set to commit the arrival of sections that departed from the sender's set.
///
/// # Errors
/// A refusal, if the request is malformed.
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

/// Encodes a request for another set to commit the arrival of sections that departed from this set.
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

/// Decodes the outcomes of arrivals. An outcome that this release does not know is decoded as [`Arrival::Waits`], after
/// which this set sends the section again.
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

/// Encodes the tombstones of sections, in the order of the sections.
#[must_use]
pub fn to_confirmed(lineage: Lineage, tombstones: &[(SectionId, Tombstone)]) -> v1::ConfirmResponse {
    let column = |of: fn(&Tombstone) -> u64| tombstones.iter().map(|(_, tombstone)| of(tombstone)).collect();
    v1::ConfirmResponse {
        lineage: lineage.0,
        sections: tombstones.iter().map(|(section, _)| section.0).collect(),
        epochs: column(|one| one.epoch.0),
        set_ids: column(|one| one.to.set.0),
        lineages: column(|one| one.to.lineage.0),
        ceilings: column(|one| one.max_seq.0),
        handover_ids: column(|one| one.handover_id.0),
        node_ids: tombstones.iter().map(|(_, one)| one.to.node.map_or(0, |node| node.0)).collect(),
        incarnations: column(|one| one.to.incarnation.0),
        migration_ids: column(|one| one.by.0),
        ..v1::ConfirmResponse::default()
    }
}

/// Decodes the tombstones of sections. The message does not state whether a section has arrived, nor the version of the
/// routes that has its departure. Only the sender knows both, so they are set to false and 0.
///
/// # Errors
/// A refusal, if the lists differ in length or are too long.
pub fn confirmed(response: &v1::ConfirmResponse) -> Result<Vec<(SectionId, Tombstone)>, Status> {
    let rows = response.sections.len();
    let columns = [
        response.epochs.len(),
        response.set_ids.len(),
        response.lineages.len(),
        response.ceilings.len(),
        response.handover_ids.len(),
        response.node_ids.len(),
        response.incarnations.len(),
        response.migration_ids.len(),
    ];
    if columns != [rows; 8] || rows > limits::MAX_MOVES {
        let text = format!("{rows} tombstones with columns of {columns:?}: send up to {} of each", limits::MAX_MOVES);
        return Err(Reason::ListsMismatch.status(text));
    }
    let one = |row: usize| Tombstone {
        epoch: Epoch(response.epochs[row]),
        to: Destination {
            set: SetId(response.set_ids[row]),
            lineage: Lineage(response.lineages[row]),
            node: Some(NodeId(response.node_ids[row])).filter(|node| node.0 != 0),
            incarnation: Incarnation(response.incarnations[row]),
        },
        handover_id: HandoverId(response.handover_ids[row]),
        max_seq: Seq(response.ceilings[row]),
        by: MigrationId(response.migration_ids[row]),
        arrived: false,
        routed: RouteVersion(0),
    };
    Ok((0..rows).map(|row| (SectionId(response.sections[row]), one(row))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::reason;

    #[test]
    fn names_and_addresses_of_other_sets_are_those_of_a_set_file() {
        let stated = |name: &str, addr: &str| {
            let (name, addrs) = (name.to_owned(), vec![addr.to_owned()]);
            let stated = v1::SetFacts { id: 1, name, allocs: addrs.clone(), stores: addrs, ..v1::SetFacts::default() };
            facts(&stated).err().and_then(|status| reason(&status)).unwrap_or_default()
        };
        let long = "a".repeat(64);
        let table = [
            ("im-b", "10.0.0.1:7301", ""),
            ("im-b", "s1.example.com:7301", ""),
            ("im-b", "[::1]:7301", ""),
            ("", "s1:1", "UNKNOWN_SET"),
            (&long, "s1:1", "UNKNOWN_SET"),
            ("x\u{1b}[2J", "s1:1", "UNKNOWN_SET"),
            ("a\nb", "s1:1", "UNKNOWN_SET"),
            ("\u{430}", "s1:1", "UNKNOWN_SET"),
            ("im-b", "s1\u{1b}[31m:1", "BAD_ADDR"),
            ("im-b", "s1", "BAD_ADDR"),
            ("im-b", "0.0.0.0:1", "BAD_ADDR"),
            ("im-b", "s1:0", "BAD_ADDR"),
        ];
        for (name, addr, expected) in table {
            assert_eq!(stated(name, addr), expected, "{name:?} {addr:?}");
        }
    }
}
