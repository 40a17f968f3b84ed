//! The directory of sets, which records as claims which set has which section. Claims can be merged in any order.
//!
//! A claim states that a section arrived in a set, or departed to it, under the epoch `since`. No two ownerships of a
//! section have the same epoch, even in different sets, so of two claims the claim with the larger `since` is newer. A
//! merge keeps the newer claim. Merging is commutative, associative and idempotent, so a directory never returns to an
//! older claim, in whichever order messages arrive.
//!
//! **Invariant:** a claim of a section is replaced only by a newer claim, and neighbouring sections with the same claim
//! are stored as one run.
//!
//! A directory is used only to route requests. Only the section records in the stores' logs decide which set may
//! allocate numbers of a section (see [`crate::state`]). A request that is routed by an outdated copy of the directory
//! takes longer, but its result is right.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::id::{Epoch, RouteVersion, SectionId, SetId};
use crate::layout::SectionRun;

/// The set that a section is in.
///
/// Claims are ordered by `since`. Two sets never have a section under the same epoch. If two claims with the same epoch
/// arrive nevertheless, the claim with the larger set id is kept, so that every directory that received both keeps the
/// same claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    /// The epoch under which the section arrived in the set; 0 if the section has been in the set from the beginning.
    pub since: Epoch,
    /// The set.
    pub set: SetId,
}

/// Neighbouring sections with the same claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimRun {
    /// The sections.
    pub sections: SectionRun,
    /// The claim of all these sections.
    pub claim: Claim,
}

/// The claims that a process has learned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directory {
    /// Version of the last change of any claim.
    version: RouteVersion,
    /// The runs, each under the index of its first section. Runs do not overlap, and adjacent runs have different
    /// claims.
    runs: BTreeMap<u32, Run>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// Index past the last section.
    end: u32,
    claim: Claim,
    /// The version that last changed a section of this run.
    changed: RouteVersion,
}

impl ClaimRun {
    /// Splits the run into two parts: the sections before `section`, and the sections from `section` on. A part without
    /// sections is `None`.
    #[must_use]
    pub fn split_at(self, section: SectionId) -> (Option<ClaimRun>, Option<ClaimRun>) {
        let ClaimRun { sections: SectionRun { first, sections }, claim } = self;
        let before = section.0.saturating_sub(first.0).min(sections);
        let run = |first, sections| {
            (sections > 0).then_some(ClaimRun { sections: SectionRun { first: SectionId(first), sections }, claim })
        };
        (run(first.0, before), run(first.0 + before, sections - before))
    }
}

impl Directory {
    /// Merges claims, and keeps the newer claim of each section. Returns whether any claim changed. If so, `version`
    /// becomes the version of the directory and of the changed claims. `version` must not be below the version in an
    /// earlier call. A run for which [`SectionRun::end`] returns `None` is skipped.
    pub fn merge<'a>(&mut self, claims: impl IntoIterator<Item = &'a ClaimRun>, version: RouteVersion) -> bool {
        debug_assert!(version >= self.version, "the versions of a directory never fall");
        let mut changed = false;
        for ClaimRun { sections, claim } in claims {
            if let Some(end) = sections.end() {
                changed |= self.merge_run(sections.first.0, end, *claim, version);
            }
        }
        if changed {
            self.version = version;
        }
        changed
    }

    fn merge_run(&mut self, first: u32, end: u32, claim: Claim, changed: RouteVersion) -> bool {
        // Sections whose known claim is newer than `claim` or equal to it keep their claim. `newer` has the ranges of
        // the other sections.
        let mut newer = Vec::new();
        let mut replaced = Vec::new();
        let mut at = first;
        let before = self.runs.range(..first).next_back().filter(|(_, run)| run.end > first);
        for (start, run) in before.into_iter().chain(self.runs.range(first..end)) {
            if run.claim < claim {
                replaced.push(*start);
                continue;
            }
            if at < *start {
                newer.push((at, *start));
            }
            at = run.end;
        }
        if at < end {
            newer.push((at, end));
        }
        for start in replaced {
            let old = self.runs.remove(&start).expect("it was found above");
            if start < first {
                self.runs.insert(start, Run { end: first, ..old });
            }
            if old.end > end {
                self.runs.insert(end, old);
            }
        }
        for (start, end) in &newer {
            self.insert(*start, Run { end: *end, claim, changed });
        }
        !newer.is_empty()
    }

    /// Inserts a run into a gap between the runs, and joins it with adjacent runs that have the same claim. The whole
    /// joined run counts as changed, because in an update it takes no more bytes than its changed part alone.
    fn insert(&mut self, mut first: u32, mut run: Run) {
        if let Some((&start, left)) = self.runs.range(..first).next_back()
            && left.end == first
            && left.claim == run.claim
        {
            self.runs.remove(&start);
            first = start;
        }
        if let Some(right) = self.runs.get(&run.end).filter(|right| right.claim == run.claim) {
            let end = right.end;
            self.runs.remove(&run.end);
            run.end = end;
        }
        self.runs.insert(first, run);
    }

    /// Drops all claims that name `set`, so that no claim is known for their sections. If any claim was dropped,
    /// `version` becomes the version of the directory.
    pub fn forget(&mut self, set: SetId, version: RouteVersion) {
        let before = self.runs.len();
        self.runs.retain(|_, run| run.claim.set != set);
        if self.runs.len() < before {
            self.version = version;
        }
    }

    /// Returns the newest claim of a section; `None` if none is known.
    #[must_use]
    pub fn get(&self, section: SectionId) -> Option<Claim> {
        let (_, run) = self.runs.range(..=section.0).next_back()?;
        (section.0 < run.end).then_some(run.claim)
    }

    /// Returns the runs that changed after the version `since` of the directory, in order of section.
    pub fn since(&self, since: RouteVersion) -> impl Iterator<Item = ClaimRun> {
        let any = self.version > since;
        let changed = self.runs.iter().filter(move |(_, run)| any && run.changed > since);
        changed.map(claim_run)
    }

    /// Returns every claim, in order of section.
    pub fn runs(&self) -> impl Iterator<Item = ClaimRun> {
        self.runs.iter().map(claim_run)
    }

    /// Returns every run, together with the version that last changed it. A stored copy of the directory has these
    /// pairs.
    pub fn changes(&self) -> impl Iterator<Item = (ClaimRun, RouteVersion)> {
        self.runs.iter().map(|entry| (claim_run(entry), entry.1.changed))
    }

    /// Creates a directory from a stored copy, that is, from its version and its [`Directory::changes`]. Returns `None`
    /// if no directory can have these changes: if runs overlap or are out of order, adjacent runs have the same claim,
    /// or a change is newer than `version`.
    #[must_use]
    pub fn from_changes(
        version: RouteVersion,
        changes: impl IntoIterator<Item = (ClaimRun, RouteVersion)>,
    ) -> Option<Directory> {
        let mut runs = BTreeMap::new();
        let mut last: Option<Run> = None;
        for (ClaimRun { sections, claim }, changed) in changes {
            let run = Run { end: sections.end()?, claim, changed };
            let follows = last.is_none_or(|last| {
                last.end < sections.first.0 || (last.end == sections.first.0 && last.claim != claim)
            });
            if !follows || changed > version || changed == RouteVersion(0) {
                return None;
            }
            runs.insert(sections.first.0, run);
            last = Some(run);
        }
        Some(Directory { version, runs })
    }

    /// Returns the version of the last change of any claim.
    #[must_use]
    pub fn version(&self) -> RouteVersion {
        self.version
    }
}

fn claim_run((&first, run): (&u32, &Run)) -> ClaimRun {
    ClaimRun { sections: SectionRun { first: SectionId(first), sections: run.end - first }, claim: run.claim }
}

#[cfg(test)]
mod tests;
