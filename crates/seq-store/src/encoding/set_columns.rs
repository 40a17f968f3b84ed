//! Archived types for a set's records of other sets, of migrations, and of sections that are not in the set, and the
//! conversions from and to the types of `seq-core`.

use rkyv::{Archive, Deserialize, Serialize};
use seq_core::directory::Directory as CoreDirectory;
use seq_core::state::{self, Phase, Quarantine, Scope, SectionRecord, SectionRecords, Tombstone};
use seq_core::{Epoch, HandoverId, Lineage, MigrationId, Revision, RouteVersion, SectionId, Seq, SetId};

use super::Contradiction;
use super::command::Runs;
use super::set_command::{Claims, Destination, Facts, Pace};

/// Archived form of the directory.
#[derive(Archive, Serialize, Deserialize, Debug, Default)]
pub(crate) struct Directory {
    version: u64,
    claims: Claims,
    /// For each claim, the version of the directory in which it was last changed.
    changed: Vec<u64>,
}

impl From<&CoreDirectory> for Directory {
    fn from(directory: &CoreDirectory) -> Directory {
        let (claims, changed): (Vec<_>, Vec<_>) = directory.changes().map(|(run, changed)| (run, changed.0)).unzip();
        Directory { version: directory.version().0, claims: Claims::from_core(&claims), changed }
    }
}

impl Directory {
    pub(super) fn into_core(self) -> Result<CoreDirectory, Contradiction> {
        let Directory { version, claims, changed } = self;
        let claims = claims.into_core()?;
        if claims.len() != changed.len() {
            return Err("the directory's columns differ in length");
        }
        let changes = claims.into_iter().zip(changed.into_iter().map(RouteVersion));
        CoreDirectory::from_changes(RouteVersion(version), changes).ok_or("the claims of the directory are none")
    }
}

/// Archived form of this set's record of another set.
#[derive(Archive, Serialize, Deserialize, Debug)]
pub(crate) struct PeerSet {
    id: u64,
    fenced: u64,
    admitted: u64,
    closing: bool,
    facts: Option<Facts>,
    routed: u64,
}

impl PeerSet {
    pub(super) fn from_core((id, set): (&SetId, &state::PeerSet)) -> PeerSet {
        let facts = set.facts.as_ref().map(Facts::from);
        let (fenced, admitted, routed) = (set.fenced.0, set.admitted.0, set.routed.0);
        PeerSet { id: id.0, fenced, admitted, closing: set.closing, facts, routed }
    }

    pub(super) fn into_core(self) -> Result<(SetId, state::PeerSet), Contradiction> {
        let facts = self.facts.map(Facts::into_core).transpose()?;
        let (fenced, admitted, routed) = (Lineage(self.fenced), Lineage(self.admitted), RouteVersion(self.routed));
        Ok((SetId(self.id), state::PeerSet { fenced, admitted, closing: self.closing, facts, routed, inherited: None }))
    }
}

/// Archived form of a migration that began in this set.
#[derive(Archive, Serialize, Deserialize, Debug)]
pub(crate) struct Migration {
    id: u64,
    to: u64,
    /// Runs of sections that the migration moves. They are empty for a return.
    runs: Runs,
    /// The migration whose sections this migration brings back; 0 if this migration is not a return.
    return_of: u64,
    settled: bool,
    pace: Pace,
    /// Phase of the migration: 0 if it is open, 1 if it is rolled back, 2 if it is completed.
    phase: u8,
    noted: bool,
    began: u64,
}

impl Migration {
    pub(super) fn from_core((id, migration): (&MigrationId, &state::Migration)) -> Migration {
        let (runs, return_of, settled) = match &migration.scope {
            Scope::Runs(runs) => (Runs::from_core(runs.iter().copied()), 0, false),
            Scope::Return { of, settled } => (Runs::default(), of.0, *settled),
        };
        let (phase, noted) = match migration.phase {
            Phase::Open => (0, false),
            Phase::RolledBack { noted } => (1, noted),
            Phase::Completed { noted } => (2, noted),
        };
        let (to, pace) = (migration.to.0, migration.pace.into());
        Migration { id: id.0, to, runs, return_of, settled, pace, phase, noted, began: migration.began.0 }
    }

    pub(super) fn into_core(self) -> Result<(MigrationId, state::Migration), Contradiction> {
        let Migration { id, to, runs, return_of, settled, pace, phase, noted, began } = self;
        let scope = match return_of {
            0 => Scope::Runs(runs.into_core()?),
            of => Scope::Return { of: MigrationId(of), settled },
        };
        let phase = match phase {
            0 => Phase::Open,
            1 => Phase::RolledBack { noted },
            2 => Phase::Completed { noted },
            _ => return Err("a migration is in no phase"),
        };
        Ok((
            MigrationId(id),
            state::Migration { to: SetId(to), scope, pace: pace.into(), phase, began: Revision(began) },
        ))
    }
}

/// Archived form of the records of sections that left this set or are in quarantine. Each record is one item, and its
/// fields are not separate vectors, because there are few such records.
#[derive(Archive, Serialize, Deserialize, Debug, Default)]
pub(crate) struct Elsewhere {
    departed: Vec<Departed>,
    quarantined: Vec<Quarantined>,
}

#[derive(Archive, Serialize, Deserialize, Debug)]
struct Departed {
    section: u32,
    epoch: u64,
    to: Destination,
    handover_id: u64,
    max_seq: u64,
    by: u64,
    arrived: bool,
    routed: u64,
}

#[derive(Archive, Serialize, Deserialize, Debug)]
struct Quarantined {
    section: u32,
    since: u64,
    epoch: u64,
    max_seq: u64,
    came_by: u64,
    routed: u64,
}

impl Elsewhere {
    pub(super) fn from_core(records: &SectionRecords) -> Elsewhere {
        let mut elsewhere = Elsewhere::default();
        for (SectionId(section), record) in records.known() {
            match *record {
                SectionRecord::Never | SectionRecord::Resident(_) => {}
                SectionRecord::Departed(Tombstone { epoch, to, handover_id, max_seq, by, arrived, routed }) => {
                    elsewhere.departed.push(Departed {
                        section,
                        epoch: epoch.0,
                        to: to.into(),
                        handover_id: handover_id.0,
                        max_seq: max_seq.0,
                        by: by.0,
                        arrived,
                        routed: routed.0,
                    });
                }
                SectionRecord::Quarantined(Quarantine { since, epoch, max_seq, came_by, routed }) => {
                    elsewhere.quarantined.push(Quarantined {
                        section,
                        since: since.0,
                        epoch: epoch.0,
                        max_seq: max_seq.0,
                        came_by: came_by.0,
                        routed: routed.0,
                    });
                }
            }
        }
        elsewhere
    }

    /// Returns the records with their sections.
    pub(super) fn into_core(self) -> impl Iterator<Item = (SectionId, SectionRecord)> {
        let departed = self.departed.into_iter().map(|one| {
            let tombstone = Tombstone {
                epoch: Epoch(one.epoch),
                to: one.to.into(),
                handover_id: HandoverId(one.handover_id),
                max_seq: Seq(one.max_seq),
                by: MigrationId(one.by),
                arrived: one.arrived,
                routed: RouteVersion(one.routed),
            };
            (SectionId(one.section), SectionRecord::Departed(tombstone))
        });
        let quarantined = self.quarantined.into_iter().map(|one| {
            let quarantine = Quarantine {
                since: Epoch(one.since),
                epoch: Epoch(one.epoch),
                max_seq: Seq(one.max_seq),
                came_by: MigrationId(one.came_by),
                routed: RouteVersion(one.routed),
            };
            (SectionId(one.section), SectionRecord::Quarantined(quarantine))
        });
        departed.chain(quarantined)
    }
}
