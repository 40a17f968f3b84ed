//! Records of migrations and of other sets in a set's log.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::closing::Closing;
use super::inheritance::Inheritance;
use super::record::Residence;
use crate::id::{Lineage, MigrationId, Revision, RouteVersion, SectionId, SetId};
use crate::layout::SectionRun;

/// A migration of sections from this set to another set. It keeps no list of moved sections: the records of the
/// sections show which of them departed, and which are still here.
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
    /// The revision that began it.
    pub began: Revision,
}

/// The sections of a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// These sections, in order, all of which were here when the migration began.
    Runs(Vec<SectionRun>),
    /// The sections that came here by another migration, which was rolled back.
    Return {
        /// The migration that was rolled back.
        of: MigrationId,
        /// Whether no more sections can come by that migration.
        settled: bool,
    },
}

/// Speed of a migration. It takes effect when the next move is planned; a departure that was requested under another
/// pace is still accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Sections a second, 1 or above.
    pub rate: u32,
    /// The longest accepted pause of a section's service. A longer pause halves the rate for a while.
    pub max_pause: Duration,
    /// Whether no further section is moved for now.
    pub paused: bool,
}

/// Progress of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Sections depart.
    Open,
    /// No section departs any more, permanently; the sections that departed are to return.
    RolledBack {
        /// Whether the other set's log has noted that all sections return.
        noted: bool,
    },
    /// Permanently, no section departs any more, and no departed section returns. All sections have arrived, unless an
    /// operator ended the migration in a closing set. In that case the departed sections still arrive, and the other
    /// sections stay here.
    Completed {
        /// Whether the other set's log has the completion.
        noted: bool,
    },
}

impl Migration {
    /// Returns whether sections depart by this migration.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Returns whether this migration moves a section that is here.
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

    /// Returns the first section of these runs, in order, that is also in this migration's runs.
    pub(super) fn overlap(&self, runs: &[SectionRun]) -> Option<SectionId> {
        let Scope::Runs(mine) = &self.scope else { return None };
        let meets = |one: &SectionRun, other: &SectionRun| {
            let first = one.first.max(other.first);
            (Some(first.0) < one.end().min(other.end())).then_some(first)
        };
        runs.iter().find_map(|one| mine.iter().find_map(|other| meets(one, other)))
    }
}

/// Facts that a set states of itself to all other sets. They come from that set's own log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetFacts {
    /// The set.
    pub id: SetId,
    /// Lineage of the set.
    pub lineage: Lineage,
    /// Revision of the set when it stated the facts. Facts of a newer lineage replace older facts, and so do facts of a
    /// newer revision in the same lineage.
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
    /// the way. Each has the lineage of that set that this set's log has fenced.
    pub refuses: Vec<(SetId, Lineage)>,
    /// The closing sets whose records this set has inherited, each with the lineage of the records.
    pub inherited: Vec<(SetId, Lineage)>,
    /// Whether the set was restored and serves nothing yet.
    pub quarantined: bool,
}

/// Another set, as this set's log knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerSet {
    /// The lineage for which this log has fenced the set. Messages of the set's older lineages are refused.
    pub fenced: Lineage,
    /// The newest lineage of the set for which this log has accepted a fence. This set sends its response to that
    /// lineage.
    pub admitted: Lineage,
    /// Whether no section departs to the set any more, permanently.
    pub closing: bool,
    /// The newest facts; `None` while only the set's fence is known.
    pub facts: Option<SetFacts>,
    /// Version of the route table that has the facts.
    pub routed: RouteVersion,
    /// Progress of inheriting its records, if it closes.
    pub inherited: Option<Inheritance>,
}

impl PeerSet {
    /// Returns the highest count of a restore of this set that this log knows.
    pub(super) fn restores(&self) -> u32 {
        let stated = self.facts.as_ref().map_or(Lineage(0), |facts| facts.lineage);
        self.fenced.max(self.admitted).max(stated).restores()
    }

    /// Keeps the facts if they are newer than the known facts. `version` is the first version of the route table that
    /// has them. Returns whether anything changed.
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
