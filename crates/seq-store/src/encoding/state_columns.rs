//! The state of a set: [`seq_core::state::State`] as columns, and back.

use std::time::Duration;

use rkyv::{Archive, Deserialize, Serialize};
use seq_core::state::{self, NodeRecord, SectionRecord};
use seq_core::{Epoch, HandoverId, Incarnation, Liveness, NodeId, RenewSeq, Revision, RouteVersion, Seq};

use super::Contradiction;
use super::command::{Set, Terms, nanos};

/// The state of a set.
#[derive(Archive, Serialize, Deserialize, Debug)]
pub(crate) struct State {
    set: Option<Set>,
    route_version: u64,
    sections: Sections,
    nodes: Nodes,
    store_ids: Vec<u64>,
    terms: Option<Terms>,
    revision: u64,
}

/// One column for each field of a section's record, by section id.
#[derive(Archive, Serialize, Deserialize, Debug, Default)]
struct Sections {
    epochs: Vec<u64>,
    /// 0: no owner.
    owners: Vec<u32>,
    incarnations: Vec<u64>,
    max_seqs: Vec<u64>,
    routed: Vec<u64>,
    handover_ids: Vec<u64>,
}

/// One column for each field of a node's record, by node id minus one.
#[derive(Archive, Serialize, Deserialize, Debug, Default)]
struct Nodes {
    names: Vec<String>,
    addrs: Vec<String>,
    incarnations: Vec<u64>,
    tokens: Vec<u64>,
    renew_seqs: Vec<u64>,
    liveness: Vec<u64>,
    drained: Vec<bool>,
    leaving: Vec<bool>,
    registered_at: Vec<u64>,
    lease_nanos: Vec<u64>,
}

impl From<&state::State> for State {
    fn from(state: &state::State) -> State {
        State {
            set: state.set.as_ref().map(Set::from),
            route_version: state.route_version.0,
            sections: Sections::from_core(&state.sections),
            nodes: Nodes::from_core(&state.nodes),
            store_ids: state.store_ids.clone(),
            terms: state.terms.map(Terms::from),
            revision: state.revision.0,
        }
    }
}

impl State {
    pub(crate) fn into_core(self) -> Result<state::State, Contradiction> {
        let set = self.set.map(Set::into_core).transpose()?;
        let nodes = self.nodes.into_core()?;
        let sections = self.sections.into_core(nodes.len())?;
        let expected = set.as_ref().map_or(0, |set| set.layout.sections() as usize);
        if sections.len() != expected {
            return Err("there is not one record for each section of the set");
        }
        if !self.store_ids.is_sorted_by(|a, b| a < b) {
            return Err("the ids of the store's members are not in order");
        }
        Ok(state::State {
            set,
            sections,
            nodes,
            route_version: RouteVersion(self.route_version),
            store_ids: self.store_ids,
            terms: self.terms.map(state::Terms::from),
            revision: Revision(self.revision),
        })
    }
}

impl Sections {
    fn from_core(records: &[SectionRecord]) -> Sections {
        Sections {
            epochs: records.iter().map(|record| record.epoch.0).collect(),
            owners: records.iter().map(|record| record.owner.map_or(0, |owner| owner.0)).collect(),
            incarnations: records.iter().map(|record| record.incarnation.0).collect(),
            max_seqs: records.iter().map(|record| record.max_seq.0).collect(),
            routed: records.iter().map(|record| record.routed.0).collect(),
            handover_ids: records.iter().map(|record| record.handover_id.0).collect(),
        }
    }

    fn into_core(self, nodes: usize) -> Result<Vec<SectionRecord>, Contradiction> {
        let rows = self.epochs.len();
        let Sections { owners, incarnations, max_seqs, routed, handover_ids, .. } = &self;
        if [owners.len(), incarnations.len(), max_seqs.len(), routed.len(), handover_ids.len()] != [rows; 5] {
            return Err("the sections' columns differ in length");
        }
        if self.owners.iter().any(|owner| *owner as usize > nodes) {
            return Err("a section's owner is no node");
        }
        if self.max_seqs.iter().any(|max_seq| *max_seq > Seq::MAX.0) {
            return Err("a ceiling is above 2^63-1");
        }
        let record = |row: usize| SectionRecord {
            epoch: Epoch(self.epochs[row]),
            owner: (self.owners[row] != 0).then(|| NodeId(self.owners[row])),
            incarnation: Incarnation(self.incarnations[row]),
            max_seq: Seq(self.max_seqs[row]),
            routed: RouteVersion(self.routed[row]),
            handover_id: HandoverId(self.handover_ids[row]),
        };
        Ok((0..rows).map(record).collect())
    }
}

impl Nodes {
    fn from_core(records: &[NodeRecord]) -> Nodes {
        Nodes {
            names: records.iter().map(|record| record.name.clone()).collect(),
            addrs: records.iter().map(|record| record.addr.clone()).collect(),
            incarnations: records.iter().map(|record| record.incarnation.0).collect(),
            tokens: records.iter().map(|record| record.token).collect(),
            renew_seqs: records.iter().map(|record| record.renew_seq.0).collect(),
            liveness: records.iter().map(|record| record.liveness.0).collect(),
            drained: records.iter().map(|record| record.drained).collect(),
            leaving: records.iter().map(|record| record.leaving).collect(),
            registered_at: records.iter().map(|record| record.registered_at.0).collect(),
            lease_nanos: records.iter().map(|record| nanos(record.lease)).collect(),
        }
    }

    fn into_core(self) -> Result<Vec<NodeRecord>, Contradiction> {
        let rows = self.names.len();
        let Nodes { addrs, incarnations, tokens, renew_seqs, liveness, drained, leaving, .. } = &self;
        let numbers = [incarnations, tokens, renew_seqs, liveness, &self.registered_at, &self.lease_nanos];
        if addrs.len() != rows
            || numbers.iter().any(|column| column.len() != rows)
            || [drained.len(), leaving.len()] != [rows; 2]
        {
            return Err("the nodes' columns differ in length");
        }
        let record = |(row, (name, addr))| NodeRecord {
            name,
            addr,
            incarnation: Incarnation(self.incarnations[row]),
            token: self.tokens[row],
            renew_seq: RenewSeq(self.renew_seqs[row]),
            liveness: Liveness(self.liveness[row]),
            drained: self.drained[row],
            leaving: self.leaving[row],
            registered_at: Liveness(self.registered_at[row]),
            lease: Duration::from_nanos(self.lease_nanos[row]),
        };
        Ok(self.names.into_iter().zip(self.addrs).enumerate().map(record).collect())
    }
}
