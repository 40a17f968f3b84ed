//! What a set's log knows of migrations and of other sets.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::closing::Closing;
use super::inheritance::Inheritance;
use super::record::Residence;
use crate::id::{Lineage, MigrationId, Revision, RouteVersion, SectionId, SetId};
use crate::layout::SectionRun;

/// A migration of sections from this set to another one. The section records are its journal: those that departed, and
/// those that are still here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// The other set.
    pub to: SetId,
    /// The sections.
    pub scope: Scope,
    /// How fast it goes.
    pub pace: Pace,
    /// How far it is.
    pub phase: Phase,
    /// The revision that began it.
    pub began: Revision,
}

/// The sections of a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// These, in order, all of which were here when it began.
    Runs(Vec<SectionRun>),
    /// Those that came here by another migration, which was rolled back.
    Return {
        /// The migration that was rolled back.
        of: MigrationId,
        /// Whether no more sections can come by it.
        settled: bool,
    },
}

/// How fast a migration goes. It acts where the next move is planned; a departure that was requested under another
/// pace is accepted all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Sections a second, 1 or above.
    pub rate: u32,
    /// The longest pause of a section that is accepted: a longer one halves the rate for a while.
    pub max_pause: Duration,
    /// Whether no further section is moved for now.
    pub paused: bool,
}

/// How far a migration is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Sections depart.
    Open,
    /// No section departs any more, for good; those that did are to return.
    RolledBack {
        /// Whether the other set's log has it that all return.
        noted: bool,
    },
    /// No section departs any more, and none returns, for good. All have arrived, unless an operator ended it in a
    /// closing set: the sections that departed arrive, and the others stay.
    Completed {
        /// Whether the other set's log has it.
        noted: bool,
    },
}

impl Migration {
    /// Whether sections depart by it.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Whether a section that is here is one of those to be moved.
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

    /// The first section of these runs, in order, that is one of this migration's runs.
    pub(super) fn overlap(&self, runs: &[SectionRun]) -> Option<SectionId> {
        let Scope::Runs(mine) = &self.scope else { return None };
        let meets = |one: &SectionRun, other: &SectionRun| {
            let first = one.first.max(other.first);
            (Some(first.0) < one.end().min(other.end())).then_some(first)
        };
        runs.iter().find_map(|one| mine.iter().find_map(|other| meets(one, other)))
    }
}

/// What a set states of itself to all others. It comes from that set's own log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetFacts {
    /// The set.
    pub id: SetId,
    /// Its lineage.
    pub lineage: Lineage,
    /// Its revision when it stated them. Facts of a newer lineage, and in one lineage those of a newer revision,
    /// replace older ones.
    pub revision: Revision,
    /// Its name.
    pub name: String,
    /// Addresses of its store's members, "host:port".
    pub stores: Vec<String>,
    /// Addresses of its AllocSvrs, "host:port".
    pub allocs: Vec<String>,
    /// Whether it takes sections.
    pub closing: Closing,
    /// The sets to which it sends no section any more, for good, and to which none is on its way, each with its lineage
    /// that the log has fenced.
    pub refuses: Vec<(SetId, Lineage)>,
    /// The closing sets whose records it has inherited, each with the lineage that they are of.
    pub inherited: Vec<(SetId, Lineage)>,
    /// Whether it was restored and serves nothing yet.
    pub quarantined: bool,
}

/// Another set, as this set's log knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerSet {
    /// Nothing of an older lineage of it is accepted any more.
    pub fenced: Lineage,
    /// The newest lineage of it whose fence was accepted: the one that responses are sent to.
    pub admitted: Lineage,
    /// Whether no section departs to it any more, for good.
    pub closing: bool,
    /// The newest facts; `None` while only its fence is known.
    pub facts: Option<SetFacts>,
    /// Version of the route table that has them.
    pub routed: RouteVersion,
    /// How far its records are inherited, where it closes.
    pub inherited: Option<Inheritance>,
}

impl PeerSet {
    /// The highest count of a restore of it that this log knows.
    pub(super) fn restores(&self) -> u32 {
        let stated = self.facts.as_ref().map_or(Lineage(0), |facts| facts.lineage);
        self.fenced.max(self.admitted).max(stated).restores()
    }

    /// Keeps the newer facts, which the route table has from this version on. Returns whether anything changed.
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
