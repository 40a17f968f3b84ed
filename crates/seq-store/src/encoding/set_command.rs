//! Archived types of the commands between sets, and the conversions from and to the types of `seq-core`.

use std::time::Duration;

use rkyv::{Archive, Deserialize, Serialize};
use seq_core::directory::{Claim, ClaimRun};
use seq_core::plan::Fingerprint;
use seq_core::state::{
    self, Arrive, Arrived, Arriving, BeginLineage, Close, Closing, Complete, Depart, DepartSilent, EndQuarantine,
    Fence, LearnDirectory, Rollback, SetPace, StartMigration, StartReturn,
};
use seq_core::{
    Epoch, HandoverId, Incarnation, LayoutId, Lineage, Liveness, MigrationId, NodeId, Revision, SectionId, Seq, SetId,
};

use super::Contradiction;
use super::command::{Runs, nanos};
use super::recovery_columns::FenceResponse;

/// Archived form of a command between sets. The order of the variants is part of the format.
#[derive(Archive, Serialize, Deserialize, Debug)]
pub(crate) enum SetCommand {
    StartMigration {
        id: u64,
        to: u64,
        lineage: u64,
        layout_id: u64,
        runs: Runs,
        pace: Pace,
        fingerprint: u64,
    },
    Pace {
        id: u64,
        pace: Pace,
    },
    Depart {
        section: u32,
        epoch: u64,
        from: u32,
        incarnation: u64,
        to: Destination,
        handover_id: u64,
        migration: u64,
    },
    DepartSilent {
        sections: Vec<u32>,
        expected: Vec<u64>,
        liveness: Vec<Option<u64>>,
        to: Vec<u64>,
        lineages: Vec<u64>,
        migrations: Vec<u64>,
    },
    Arrive {
        from: u64,
        from_lineage: u64,
        to_lineage: u64,
        layout_id: u64,
        sections: Arrivals,
    },
    Arrived {
        at: u64,
        lineage: u64,
        sections: Vec<u32>,
        epochs: Vec<u64>,
        ended: Vec<u64>,
    },
    Rollback {
        id: u64,
    },
    Complete {
        id: u64,
    },
    StartReturn {
        of: u64,
        to: u64,
        id: u64,
        pace: Pace,
        settled: bool,
    },
    Fence {
        set: u64,
        lineage: u64,
    },
    LearnDirectory {
        claims: Claims,
        sets: Vec<Facts>,
    },
    EndQuarantine {
        lineage: u64,
    },
    LearnRecords(Box<FenceResponse>),
    BeginLineage {
        lineage: u64,
    },
    Close,
}

/// Archived form of a migration's pace.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug)]
pub(crate) struct Pace {
    rate: u32,
    max_pause_nanos: u64,
    paused: bool,
}

impl From<state::Pace> for Pace {
    fn from(pace: state::Pace) -> Pace {
        Pace { rate: pace.rate, max_pause_nanos: nanos(pace.max_pause), paused: pace.paused }
    }
}

impl From<Pace> for state::Pace {
    fn from(pace: Pace) -> state::Pace {
        let max_pause = Duration::from_nanos(pace.max_pause_nanos);
        state::Pace { rate: pace.rate, max_pause, paused: pace.paused }
    }
}

/// Archived form of the target of a section's departure: the set, and the owner in it.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug)]
pub(crate) struct Destination {
    set: u64,
    lineage: u64,
    /// Node that owns the section in the target set; 0 if no owner is named.
    node: u32,
    incarnation: u64,
}

impl From<state::Destination> for Destination {
    fn from(to: state::Destination) -> Destination {
        let node = to.node.map_or(0, |node| node.0);
        Destination { set: to.set.0, lineage: to.lineage.0, node, incarnation: to.incarnation.0 }
    }
}

impl From<Destination> for state::Destination {
    fn from(to: Destination) -> state::Destination {
        let node = (to.node != 0).then_some(NodeId(to.node));
        let (set, lineage) = (SetId(to.set), Lineage(to.lineage));
        state::Destination { set, lineage, node, incarnation: Incarnation(to.incarnation) }
    }
}

/// Archived form of arriving sections, with one vector for each field.
#[derive(Archive, Serialize, Deserialize, Debug)]
pub(crate) struct Arrivals {
    sections: Vec<u32>,
    epochs: Vec<u64>,
    max_seqs: Vec<u64>,
    handover_ids: Vec<u64>,
    /// Node that owns the section after its arrival; 0 if no owner is named.
    nodes: Vec<u32>,
    incarnations: Vec<u64>,
    migrations: Vec<u64>,
}

impl Arrivals {
    fn from_core(sections: &[Arriving]) -> Arrivals {
        Arrivals {
            sections: sections.iter().map(|one| one.section.0).collect(),
            epochs: sections.iter().map(|one| one.epoch.0).collect(),
            max_seqs: sections.iter().map(|one| one.max_seq.0).collect(),
            handover_ids: sections.iter().map(|one| one.handover_id.0).collect(),
            nodes: sections.iter().map(|one| one.node.map_or(0, |node| node.0)).collect(),
            incarnations: sections.iter().map(|one| one.incarnation.0).collect(),
            migrations: sections.iter().map(|one| one.migration.0).collect(),
        }
    }

    fn into_core(self) -> Result<Vec<Arriving>, Contradiction> {
        let Arrivals { sections, epochs, max_seqs, handover_ids, nodes, incarnations, migrations } = self;
        let rows = sections.len();
        let lengths = [epochs.len(), max_seqs.len(), handover_ids.len(), nodes.len(), incarnations.len()];
        if lengths != [rows; 5] || migrations.len() != rows {
            return Err("an arrival's columns differ in length");
        }
        let one = |row: usize| Arriving {
            section: SectionId(sections[row]),
            epoch: Epoch(epochs[row]),
            max_seq: Seq(max_seqs[row]),
            handover_id: HandoverId(handover_ids[row]),
            node: (nodes[row] != 0).then_some(NodeId(nodes[row])),
            incarnation: Incarnation(incarnations[row]),
            migration: MigrationId(migrations[row]),
        };
        Ok((0..rows).map(one).collect())
    }
}

/// Archived form of claims, with one vector for each field.
#[derive(Archive, Serialize, Deserialize, Debug, Default)]
pub(crate) struct Claims {
    runs: Runs,
    since: Vec<u64>,
    sets: Vec<u64>,
}

impl Claims {
    pub(super) fn from_core(claims: &[ClaimRun]) -> Claims {
        Claims {
            runs: Runs::from_core(claims.iter().map(|run| run.sections)),
            since: claims.iter().map(|run| run.claim.since.0).collect(),
            sets: claims.iter().map(|run| run.claim.set.0).collect(),
        }
    }

    pub(super) fn into_core(self) -> Result<Vec<ClaimRun>, Contradiction> {
        let Claims { runs, since, sets } = self;
        if [since.len(), sets.len()] != [runs.len(); 2] {
            return Err("the columns of claims differ in length");
        }
        let claims = since.into_iter().map(Epoch).zip(sets.into_iter().map(SetId));
        let claims = claims.map(|(since, set)| Claim { since, set });
        Ok(runs.into_core()?.into_iter().zip(claims).map(|(sections, claim)| ClaimRun { sections, claim }).collect())
    }
}

/// Archived form of the facts that a set states about itself.
#[derive(Archive, Serialize, Deserialize, Debug)]
pub(crate) struct Facts {
    id: u64,
    lineage: u64,
    revision: u64,
    name: String,
    stores: Vec<String>,
    allocs: Vec<String>,
    closing: u8,
    refuses: Vec<u64>,
    /// For each set in `refuses`, the lineage of that set that the stating set has fenced.
    refused_lineages: Vec<u64>,
}

impl From<&state::SetFacts> for Facts {
    fn from(facts: &state::SetFacts) -> Facts {
        let state::SetFacts { id, lineage, revision, name, stores, allocs, closing, refuses, .. } = facts;
        let (name, stores, allocs) = (name.clone(), stores.clone(), allocs.clone());
        Facts {
            id: id.0,
            lineage: lineage.0,
            revision: revision.0,
            name,
            stores,
            allocs,
            closing: closing_number(*closing),
            refuses: refuses.iter().map(|(set, _)| set.0).collect(),
            refused_lineages: refuses.iter().map(|(_, lineage)| lineage.0).collect(),
        }
    }
}

impl Facts {
    pub(super) fn into_core(self) -> Result<state::SetFacts, Contradiction> {
        let Facts { id, lineage, revision, name, stores, allocs, closing, refuses, refused_lineages } = self;
        if refused_lineages.len() != refuses.len() {
            return Err("the columns of refused sets differ in length");
        }
        let refuses = refuses.into_iter().map(SetId).zip(refused_lineages.into_iter().map(Lineage)).collect();
        let (id, lineage, revision) = (SetId(id), Lineage(lineage), Revision(revision));
        let closing = closing_of(closing)?;
        // What follows is of format 8.
        let (inherited, quarantined) = (Vec::new(), false);
        Ok(state::SetFacts { id, lineage, revision, name, stores, allocs, closing, refuses, inherited, quarantined })
    }
}

/// Returns the number that stands for whether a set is open, closing or closed.
pub(super) fn closing_number(closing: Closing) -> u8 {
    match closing {
        Closing::Open => 0,
        Closing::Closing => 1,
        Closing::Closed => 2,
    }
}

pub(super) fn closing_of(number: u8) -> Result<Closing, Contradiction> {
    [Closing::Open, Closing::Closing, Closing::Closed].get(usize::from(number)).copied().ok_or("a set closes in no way")
}

impl SetCommand {
    /// # Panics
    /// When the command does not concern other sets.
    pub(super) fn from_core(command: &state::Command) -> SetCommand {
        match command {
            state::Command::StartMigration(start) => SetCommand::StartMigration {
                id: start.id.0,
                to: start.to.0,
                lineage: start.lineage.0,
                layout_id: start.layout_id.0,
                runs: Runs::from_core(start.runs.iter().copied()),
                pace: start.pace.into(),
                fingerprint: start.fingerprint.0,
            },
            state::Command::Pace(pace) => SetCommand::Pace { id: pace.id.0, pace: pace.pace.into() },
            state::Command::Rollback(rollback) => SetCommand::Rollback { id: rollback.id.0 },
            // The set in which the migration began is of format 8.
            state::Command::Complete(complete) => SetCommand::Complete { id: complete.id.0 },
            state::Command::StartReturn(start) => SetCommand::StartReturn {
                of: start.of.0,
                to: start.to.0,
                id: start.id.0,
                pace: start.pace.into(),
                settled: start.settled,
            },
            state::Command::Fence(fence) => SetCommand::Fence { set: fence.set.0, lineage: fence.lineage.0 },
            state::Command::LearnDirectory(learned) => SetCommand::LearnDirectory {
                claims: Claims::from_core(&learned.claims),
                sets: learned.sets.iter().map(Facts::from).collect(),
            },
            state::Command::LearnRecords(response) => {
                SetCommand::LearnRecords(Box::new(FenceResponse::from_core(response)))
            }
            state::Command::BeginLineage(begin) => SetCommand::BeginLineage { lineage: begin.lineage.0 },
            state::Command::EndQuarantine(end) => SetCommand::EndQuarantine { lineage: end.lineage.0 },
            state::Command::Close(Close) => SetCommand::Close,
            section => SetCommand::from_section(section),
        }
    }

    /// Converts a command that moves sections between sets.
    fn from_section(command: &state::Command) -> SetCommand {
        match command {
            state::Command::Depart(depart) => SetCommand::Depart {
                section: depart.section.0,
                epoch: depart.epoch.0,
                from: depart.from.0,
                incarnation: depart.incarnation.0,
                to: depart.to.into(),
                handover_id: depart.handover_id.0,
                migration: depart.migration.0,
            },
            state::Command::DepartSilent(departs) => SetCommand::DepartSilent {
                sections: departs.iter().map(|one| one.section.0).collect(),
                expected: departs.iter().map(|one| one.expected.0).collect(),
                liveness: departs.iter().map(|one| one.liveness.map(|liveness| liveness.0)).collect(),
                to: departs.iter().map(|one| one.to.0).collect(),
                lineages: departs.iter().map(|one| one.lineage.0).collect(),
                migrations: departs.iter().map(|one| one.migration.0).collect(),
            },
            state::Command::Arrive(arrive) => SetCommand::Arrive {
                from: arrive.from.0,
                from_lineage: arrive.from_lineage.0,
                to_lineage: arrive.to_lineage.0,
                layout_id: arrive.layout_id.0,
                sections: Arrivals::from_core(&arrive.sections),
            },
            state::Command::Arrived(arrived) => SetCommand::Arrived {
                at: arrived.at.0,
                lineage: arrived.lineage.0,
                sections: arrived.sections.iter().map(|(section, _)| section.0).collect(),
                epochs: arrived.sections.iter().map(|(_, epoch)| epoch.0).collect(),
                ended: arrived.ended.iter().map(|id| id.0).collect(),
            },
            other => unreachable!("{other:?} is a command within a set"),
        }
    }

    pub(super) fn into_core(self) -> Result<state::Command, Contradiction> {
        Ok(match self {
            SetCommand::StartMigration { id, to, lineage, layout_id, runs, pace, fingerprint } => {
                state::Command::StartMigration(StartMigration {
                    id: MigrationId(id),
                    to: SetId(to),
                    lineage: Lineage(lineage),
                    layout_id: LayoutId(layout_id),
                    runs: runs.into_core()?,
                    pace: pace.into(),
                    fingerprint: Fingerprint(fingerprint),
                })
            }
            SetCommand::Pace { id, pace } => state::Command::Pace(SetPace { id: MigrationId(id), pace: pace.into() }),
            SetCommand::Depart { section, epoch, from, incarnation, to, handover_id, migration } => {
                state::Command::Depart(Depart {
                    section: SectionId(section),
                    epoch: Epoch(epoch),
                    from: NodeId(from),
                    incarnation: Incarnation(incarnation),
                    to: to.into(),
                    handover_id: HandoverId(handover_id),
                    migration: MigrationId(migration),
                })
            }
            SetCommand::Arrive { from, from_lineage, to_lineage, layout_id, sections } => {
                state::Command::Arrive(Arrive {
                    from: SetId(from),
                    from_lineage: Lineage(from_lineage),
                    to_lineage: Lineage(to_lineage),
                    layout_id: LayoutId(layout_id),
                    sections: sections.into_core()?,
                })
            }
            SetCommand::Rollback { id } => state::Command::Rollback(Rollback { id: MigrationId(id) }),
            SetCommand::Complete { id } => state::Command::Complete(Complete { id: MigrationId(id), by: None }),
            SetCommand::StartReturn { of, to, id, pace, settled } => {
                let (of, to, id) = (MigrationId(of), SetId(to), MigrationId(id));
                state::Command::StartReturn(StartReturn { of, to, id, pace: pace.into(), settled })
            }
            SetCommand::Fence { set, lineage } => {
                state::Command::Fence(Fence { set: SetId(set), lineage: Lineage(lineage) })
            }
            SetCommand::LearnDirectory { claims, sets } => {
                let sets = sets.into_iter().map(Facts::into_core).collect::<Result<_, _>>()?;
                state::Command::LearnDirectory(LearnDirectory { from: None, claims: claims.into_core()?, sets })
            }
            SetCommand::EndQuarantine { lineage } => {
                state::Command::EndQuarantine(EndQuarantine { lineage: Lineage(lineage) })
            }
            SetCommand::BeginLineage { lineage } => {
                state::Command::BeginLineage(BeginLineage { lineage: Lineage(lineage) })
            }
            SetCommand::LearnRecords(response) => state::Command::LearnRecords(response.into_core()?),
            SetCommand::Close => state::Command::Close(Close),
            columns => return columns.into_rows(),
        })
    }

    /// Converts a command whose items are stored with one vector for each field.
    fn into_rows(self) -> Result<state::Command, Contradiction> {
        match self {
            SetCommand::DepartSilent { sections, expected, liveness, to, lineages, migrations } => {
                let lengths = [expected.len(), liveness.len(), to.len(), lineages.len(), migrations.len()];
                if lengths != [sections.len(); 5] {
                    return Err("a departure's columns differ in length");
                }
                let one = |row: usize| DepartSilent {
                    section: SectionId(sections[row]),
                    expected: Epoch(expected[row]),
                    liveness: liveness[row].map(Liveness),
                    to: SetId(to[row]),
                    lineage: Lineage(lineages[row]),
                    migration: MigrationId(migrations[row]),
                };
                Ok(state::Command::DepartSilent((0..sections.len()).map(one).collect()))
            }
            SetCommand::Arrived { at, lineage, sections, epochs, ended } => {
                if epochs.len() != sections.len() {
                    return Err("the columns of noted arrivals differ in length");
                }
                let sections = sections.into_iter().map(SectionId).zip(epochs.into_iter().map(Epoch)).collect();
                let ended = ended.into_iter().map(MigrationId).collect();
                Ok(state::Command::Arrived(Arrived { at: SetId(at), lineage: Lineage(lineage), sections, ended }))
            }
            other => unreachable!("{other:?} has no columns"),
        }
    }
}
