//! The records that a set's log keeps of migrations and of other sets.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::closing::Closing;
use super::inheritance::Inheritance;
use super::record::Residence;
use crate::id::{Lineage, MigrationId, Revision, RouteVersion, SectionId, SetId};
use crate::layout::SectionRun;

/// A migration of sections from this set to another set. This record has no list of the moved sections. The records of
/// the sections show which of them have departed, and which are still in this set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// The other set.
    pub to: SetId,
    /// The sections.
    pub scope: Scope,
    /// Speed of the migration.
    pub pace: Pace,
    /// Progress of the migration.
    pub phase: Phase,
    /// Revision of this set's state at which the migration began.
    pub began: Revision,
}

/// The sections of a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Runs of sections, in order. All these sections were in this set when the migration began.
    Runs(Vec<SectionRun>),
    /// The sections that came to this set by a migration that the other set has rolled back. This migration is their
    /// return.
    Return {
        /// The migration that was rolled back.
        of: MigrationId,
        /// Whether the return is settled, so that no more sections can come to this set by the migration that was
        /// rolled back.
        settled: bool,
    },
}

/// Speed of a migration. A change of the speed affects only moves of sections that are planned afterwards. A departure
/// that was requested before the change is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Sections a second, 1 or above.
    pub rate: u32,
    /// The longest accepted pause of a section. After a longer pause, the coordinator moves sections at half the rate
    /// for a while.
    pub max_pause: Duration,
    /// Whether the migration is paused, so that no further section departs for now.
    pub paused: bool,
}

/// Progress of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Sections depart.
    Open,
    /// The migration was rolled back. No further section departs, and the sections that have departed are to return.
    RolledBack {
        /// Whether the target set has confirmed that its log has the settled return of all departed sections.
        noted: bool,
    },
    /// The migration is completed permanently. No further section departs, and no departed section returns. All its
    /// sections have arrived, unless an operator ended the migration while this set was closing. In that case, the
    /// sections that had departed still arrive in the target set, and the other sections stay in this set.
    Completed {
        /// Whether the target set has confirmed that its log has the completion.
        noted: bool,
    },
}

impl Migration {
    /// Returns whether sections depart by this migration.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Returns whether this migration is to move the given section, which is in this set with the given residence.
    #[must_use]
    pub fn covers(&self, section: SectionId, residence: &Residence) -> bool {
        match &self.scope {
            Scope::Return { of, .. } => residence.came_by == *of,
            Scope::Runs(runs) => {
                let after = runs.partition_point(|run| run.first <= section);
                after > 0 && runs[after - 1].end().is_some_and(|end| section.0 < end)
            }
        }
    }

    /// Returns the first section in `runs` that is also in the runs of this migration; `None` if there is none, or if
    /// this migration is a return.
    pub(super) fn overlap(&self, runs: &[SectionRun]) -> Option<SectionId> {
        let Scope::Runs(mine) = &self.scope else { return None };
        let meets = |one: &SectionRun, other: &SectionRun| {
            let first = one.first.max(other.first);
            (Some(first.0) < one.end().min(other.end())).then_some(first)
        };
        runs.iter().find_map(|one| mine.iter().find_map(|other| meets(one, other)))
    }
}

/// Facts that a set states about itself to all other sets. The set reads them from its own log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetFacts {
    /// The set.
    pub id: SetId,
    /// Lineage of the set.
    pub lineage: Lineage,
    /// Revision of the set when it stated the facts. Another set replaces the facts that it knows by facts of a newer
    /// lineage, or of a newer revision in the same lineage.
    pub revision: Revision,
    /// Name of the set.
    pub name: String,
    /// Addresses of its store's members, "host:port".
    pub stores: Vec<String>,
    /// Addresses of its AllocSvrs, "host:port".
    pub allocs: Vec<String>,
    /// Whether it takes sections.
    pub closing: Closing,
    /// The closing sets to which this set permanently sends no more sections, and to which none of its sections is on
    /// the way. Each is stated with the fence that the log of this set has for it.
    pub refuses: Vec<(SetId, Lineage)>,
    /// The closing sets whose final records this set has inherited, each with the lineage of these records.
    pub inherited: Vec<(SetId, Lineage)>,
    /// Whether the set is in quarantine after a restore, and serves no sections yet.
    pub quarantined: bool,
}

/// Another set, as this set's log knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerSet {
    /// The fence: the oldest lineage of the set whose messages this log accepts.
    pub fenced: Lineage,
    /// The newest lineage of the set for which this log has applied a [`Fence`](super::Fence) that the set requested.
    /// Only after that does this set respond to the fence.
    pub admitted: Lineage,
    /// Whether the set is closing, so that no section ever departs to it again.
    pub closing: bool,
    /// The newest facts that the set has stated; `None` if it has not stated any yet.
    pub facts: Option<SetFacts>,
    /// Version of this set's route table that first contained the facts.
    pub routed: RouteVersion,
    /// Progress of inheriting the set's final records; `None` if none are inherited.
    pub inherited: Option<Inheritance>,
}

impl PeerSet {
    /// Returns the highest count of restores among the lineages of this set that the log knows.
    pub(super) fn restores(&self) -> u32 {
        let stated = self.facts.as_ref().map_or(Lineage(0), |facts| facts.lineage);
        self.fenced.max(self.admitted).max(stated).restores()
    }

    /// Keeps the facts if they are newer than the known facts. `version` is the first version of the route table that
    /// contains them. Returns whether this record changed.
    pub(super) fn learn(&mut self, facts: &SetFacts, version: RouteVersion) -> bool {
        let closes = facts.closing > Closing::Open && !self.closing;
        self.closing |= closes;
        let newer = self.facts.as_ref().is_none_or(|old| (old.lineage, old.revision) < (facts.lineage, facts.revision));
        if newer {
            (self.facts, self.routed) = (Some(facts.clone()), version);
        }
        closes || newer
    }
}
