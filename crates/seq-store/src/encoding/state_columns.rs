//! Archived types for the state of a set ([`seq_core::state::State`]), and the conversions from and to this type.

use std::collections::BTreeMap;
use std::time::Duration;

use rkyv::{Archive, Deserialize, Serialize};
use seq_core::layout::Lanes;
use seq_core::state::{self, NodeRecord, Residence, SectionRecord, SectionRecords};
use seq_core::{
    Epoch, HandoverId, Incarnation, Lineage, Liveness, MigrationId, NodeId, RenewSeq, Revision, RouteVersion,
    SectionId, Seq,
};

use super::Contradiction;
use super::command::{Set, Terms, nanos};
use super::recovery_columns::Recovery;
use super::set_columns::{Directory, Elsewhere, Migration, PeerSet};
use super::set_command::{closing_number, closing_of};

/// Archived form of the state of a set.
#[derive(Archive, Serialize, Deserialize, Debug)]
pub(crate) struct State {
    set: Option<Set>,
    route_version: u64,
    sections: Sections,
    nodes: Nodes,
    store_ids: Vec<u64>,
    terms: Option<Terms>,
    revision: u64,
    elsewhere: Elsewhere,
    lineage: u64,
    recovery: Option<Recovery>,
    directory: Directory,
    sets: Vec<PeerSet>,
    migrations: Vec<Migration>,
    closing: u8,
}

/// Archived form of the records of the sections that are in the set, in the order of the sections, with one vector for
/// each field.
#[derive(Archive, Serialize, Deserialize, Debug, Default)]
struct Sections {
    ids: Vec<u32>,
    since: Vec<u64>,
    epochs: Vec<u64>,
    /// Owner of each section; 0 if it has none.
    owners: Vec<u32>,
    incarnations: Vec<u64>,
    max_seqs: Vec<u64>,
    routed: Vec<u64>,
    handover_ids: Vec<u64>,
    came_by: Vec<u64>,
}

/// Archived form of the records of the nodes, with one vector for each field. The position of a node in the vectors is
/// its id minus one.
#[derive(Archive, Serialize, Deserialize, Debug, Default)]
struct Nodes {
    names: Vec<String>,
    addrs: Vec<String>,
    peer_addrs: Vec<String>,
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
            elsewhere: Elsewhere::from_core(&state.sections),
            lineage: state.lineage.0,
            recovery: state.recovery.as_ref().map(Recovery::from_core),
            directory: (&state.directory).into(),
            sets: state.sets.iter().map(PeerSet::from_core).collect(),
            migrations: state.migrations.iter().map(Migration::from_core).collect(),
            closing: closing_number(state.closing),
        }
    }
}

impl State {
    /// Converts to the state. Appends `lanes` to the state's layout, because this format does not contain them.
    pub(crate) fn into_core(self, lanes: &[Lanes]) -> Result<state::State, Contradiction> {
        let mut set = self.set.map(Set::into_core).transpose()?;
        for lanes in lanes {
            let set = set.as_mut().ok_or("there are lanes, and no set")?;
            set.layout = set.layout.append(*lanes).map_err(|_| "the lanes do not fit the layout")?.0;
        }
        let nodes = self.nodes.into_core()?;
        let layout_sections = set.as_ref().map_or(0, |set| set.layout.sections());
        let mut sections = SectionRecords::new(layout_sections);
        for (section, record) in self.sections.into_core(nodes.len())?.chain(self.elsewhere.into_core()) {
            if section.0 >= layout_sections {
                return Err("a section is not of the layout");
            }
            if sections.get(section) != Some(&SectionRecord::Never) {
                return Err("a section has two records");
            }
            sections.put(section, record);
        }
        let migrations: BTreeMap<MigrationId, state::Migration> =
            self.migrations.into_iter().map(Migration::into_core).collect::<Result<_, _>>()?;
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
            lineage: Lineage(self.lineage),
            recovery: self.recovery.map(Recovery::into_core).transpose()?,
            directory: self.directory.into_core()?,
            sets: self.sets.into_iter().map(PeerSet::into_core).collect::<Result<_, _>>()?,
            migrations,
            closing: closing_of(self.closing)?,
            // The fields below belong to later formats.
            series: Vec::new(),
            writer: None,
            events: state::Events::default(),
            restored_ms: None,
            foreign_migrations: BTreeMap::new(),
            fences: BTreeMap::new(),
            forgotten: RouteVersion(0),
            loss: None,
            copies: state::Copies::default(),
            balancing: state::Balancing::default(),
            rules: state::Rules::Seven,
            audit: state::Audit::default(),
            restore_margin: state::RestoreMargin::default(),
        })
    }
}

impl Sections {
    fn from_core(records: &SectionRecords) -> Sections {
        let mut sections = Sections::default();
        for (id, record) in records.residents() {
            let Residence { since, epoch, owner, incarnation, max_seq, routed, handover_id, came_by, began: _ } =
                *record;
            sections.ids.push(id.0);
            sections.since.push(since.0);
            sections.epochs.push(epoch.0);
            sections.owners.push(owner.map_or(0, |owner| owner.0));
            sections.incarnations.push(incarnation.0);
            sections.max_seqs.push(max_seq.0);
            sections.routed.push(routed.0);
            sections.handover_ids.push(handover_id.0);
            sections.came_by.push(came_by.0);
        }
        sections
    }

    fn into_core(self, nodes: usize) -> Result<impl Iterator<Item = (SectionId, SectionRecord)>, Contradiction> {
        let rows = self.ids.len();
        let Sections { since, epochs, owners, incarnations, max_seqs, routed, handover_ids, came_by, .. } = &self;
        let numbers = [since, epochs, incarnations, max_seqs, routed, handover_ids, came_by];
        if numbers.iter().any(|column| column.len() != rows) || owners.len() != rows {
            return Err("the sections' columns differ in length");
        }
        if self.owners.iter().any(|owner| *owner as usize > nodes) {
            return Err("a section's owner is no node");
        }
        if self.max_seqs.iter().any(|max_seq| *max_seq > Seq::MAX.0) {
            return Err("a ceiling is above 2^63-1");
        }
        Ok((0..rows).map(move |row| {
            let residence = Residence {
                since: Epoch(self.since[row]),
                epoch: Epoch(self.epochs[row]),
                owner: (self.owners[row] != 0).then(|| NodeId(self.owners[row])),
                incarnation: Incarnation(self.incarnations[row]),
                max_seq: Seq(self.max_seqs[row]),
                routed: RouteVersion(self.routed[row]),
                handover_id: HandoverId(self.handover_ids[row]),
                came_by: MigrationId(self.came_by[row]),
                began: state::Beginning::default(),
            };
            (SectionId(self.ids[row]), SectionRecord::Resident(residence))
        }))
    }
}

impl Nodes {
    fn from_core(records: &[NodeRecord]) -> Nodes {
        Nodes {
            names: records.iter().map(|record| record.name.clone()).collect(),
            addrs: records.iter().map(|record| record.addr.clone()).collect(),
            peer_addrs: records.iter().map(|record| record.peer_addr.clone()).collect(),
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
        if [addrs.len(), self.peer_addrs.len()] != [rows; 2]
            || numbers.iter().any(|column| column.len() != rows)
            || [drained.len(), leaving.len()] != [rows; 2]
        {
            return Err("the nodes' columns differ in length");
        }
        let record = |(row, ((name, addr), peer_addr))| NodeRecord {
            name,
            addr,
            peer_addr,
            incarnation: Incarnation(self.incarnations[row]),
            token: self.tokens[row],
            renew_seq: RenewSeq(self.renew_seqs[row]),
            liveness: Liveness(self.liveness[row]),
            drained: self.drained[row],
            leaving: self.leaving[row],
            // These fields belong to a later format.
            reads_lanes: false,
            process: 0,
            died: None,
            registered_at: Liveness(self.registered_at[row]),
            lease: Duration::from_nanos(self.lease_nanos[row]),
        };
        Ok(self.names.into_iter().zip(self.addrs).zip(self.peer_addrs).enumerate().map(record).collect())
    }
}
