//! The operator in worlds of restores. The operator restores lost sets, begins migrations and merges, and knows only
//! backups, a notebook, and responses of stores.
//!
//! Each lineage of a set has a count of restores. When the operator restores a set, the count of its new lineage is
//! above all counts in the notebook and in the backup, and the operator writes this count into the notebook. While a
//! restored set is in quarantine, it may begin a lineage with a higher count by itself. The operator writes such a
//! count into the notebook after reading it from the set. Until then, before a restore, the operator also reads the
//! counts of the sets that respond and are not in quarantine, because such a set has fenced every lineage under which
//! sections are served. If no such set responds, the operator skips [`RESERVE`] counts, because lineages that the
//! operator has not read may have these counts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use seq_core::layout::SectionRun;
use seq_core::limits::RESTORE_MARGIN;
use seq_core::plan::{Fingerprint, Preconditions};
use seq_core::state::{
    Close, Closing, Command, Complete, Forget, Migration, Pace, Phase, RestoreMargin, Scope, SectionRecord,
    SetLayoutWriter, StartMigration, State,
};
use seq_core::{Lineage, MigrationId, SectionId};

use super::store::{Existence, Origin};
use super::{Event, NAMES, SECTIONS, SETS, World, set_id};
use crate::bugs::Bug;
use crate::coverage::Situation;
use crate::faults::MS;

/// Number of counts of restores that a restore skips if a set may have begun a lineage that the operator has not read,
/// and no set outside of quarantine responds. The number is large enough, because a lineage that a set begins by itself
/// has the next count above all counts that any set knows, and few sets are in quarantine at the same time.
const RESERVE: u32 = 16;

/// Interval at which the operator looks at the stores that respond.
const LOOK: u64 = 300 * MS;

/// The chance, in a thousand, that the operator reads the count of restores of a set when looking at the set. Between
/// two reads, the set may begin a lineage that the operator does not know.
const READS: u64 = 250;

/// Largest number of backups that are kept of a set. They are the oldest backup and the newest backups of the set.
const MOST_BACKUPS: usize = 6;

/// A backup of a set.
#[derive(Clone, Debug)]
pub(super) struct Backup {
    /// Time of the backup.
    at: u64,
    state: State,
    /// The closed sets whose final records are in the backup. It is a copy of
    /// [`Set::heir_of`](super::store::Set::heir_of).
    heir_of: BTreeSet<usize>,
    /// Whether the set was restored from an older backup after this backup was made, so that the history of this backup
    /// is abandoned.
    abandoned: bool,
}

/// A merge of the set `set` into the set `into`. At its end, the set `set` is closed.
#[derive(Clone, Copy, Debug)]
struct Merge {
    set: usize,
    into: usize,
    /// Whether the set `into` is lost as soon as the processes of the merged set have stopped.
    strikes: bool,
    /// A set from which a migration to the merged set begins just before the merged set is closed, if any.
    crossed_by: Option<usize>,
}

/// The operator.
#[derive(Debug, Default)]
pub(super) struct Operator {
    /// The highest count of a restore in the notebook.
    notebook: u32,
    /// The restored sets whose counts of restores the operator has not read since the end of their quarantines.
    unread: BTreeSet<usize>,
    merge: Option<Merge>,
    /// Times of the restores of each set.
    restored_at: BTreeMap<usize, Vec<u64>>,
}

/// Returns the fingerprint that the members of a restored store compare before they form a Raft group.
fn identity(state: &State, bug: Option<Bug>) -> Fingerprint {
    let content = match bug {
        Some(Bug::MembersNeedNotAgree) => format!("{}", state.lineage),
        _ => format!("{state:?}"),
    };
    Preconditions::of("group").text(&content).fingerprint()
}

impl World {
    /// Loses the store of a set. If `with_processes` is true, also ends the processes of the set.
    pub(super) fn lose(&mut self, set: usize, with_processes: bool) {
        if self.sets[set].existence != Existence::Running {
            return;
        }
        let others = (0..SETS).filter(|other| *other != set && self.sets[*other].existence == Existence::Running);
        if others.filter(|other| self.sets[*other].state.is_quarantined()).count() > 0 {
            self.coverage.saw(Situation::RestoresLostBesideQuarantine);
        }
        let state = &self.sets[set].state;
        if state.is_quarantined() {
            self.coverage.saw(Situation::RestoresLostInQuarantine);
        }
        if state.sections.unconfirmed() > 0 || state.migrations.values().any(Migration::is_open) {
            self.coverage.saw(Situation::RestoresLostInMigration);
        }
        self.note([5, set as u64, 0], || format!("set {set} is lost"));
        let one = &mut self.sets[set];
        (one.existence, one.log, one.stray) = (Existence::Lost, one.log + 1, None);
        if with_processes {
            (0..NAMES).for_each(|name| self.kill(set, name));
        }
        if (0..SETS).all(|set| self.sets[set].existence != Existence::Running) {
            self.coverage.saw(Situation::RestoresAllLost);
        }
    }

    pub(super) fn back_up(&mut self, set: usize) {
        let (now, one) = (self.now, &mut self.sets[set]);
        if !one.responds(now) {
            return;
        }
        one.backups.push(Backup { at: now, state: one.state.clone(), heir_of: one.heir_of.clone(), abandoned: false });
        if one.backups.len() > MOST_BACKUPS {
            // A backup with the final records of a closed set is kept, because no other set may have these records.
            let without = (1..MOST_BACKUPS).find(|at| one.backups[*at].heir_of.is_empty());
            one.backups.remove(without.unwrap_or(1));
        }
    }

    /// Restores a lost set from one of its backups.
    pub(super) fn restore(&mut self, set: usize, pick: u64) {
        if self.sets[set].existence != Existence::Lost {
            return;
        }
        let mut usable: Vec<usize> = (0..self.sets[set].backups.len()).filter(|at| self.is_usable(set, *at)).collect();
        // If the set was restored from an older backup, an abandoned backup lacks the numbers that were allocated after
        // that restore.
        let goes_on = |at: &usize| !self.sets[set].backups[*at].abandoned;
        if self.bug != Some(Bug::AbandonedHistory) && usable.iter().any(goes_on) {
            usable.retain(goes_on);
        }
        if usable.is_empty() {
            let text = format!("no backup of set {set} has the records of the closed sets");
            return self.check.broken(self.now, "the operator keeps a backup", text);
        }
        let at = match pick % 4 {
            0 => usable[0],
            1 => usable[usable.len() - 1],
            _ => usable[(pick / 4) as usize % usable.len()],
        };
        if at + 1 < self.sets[set].backups.len() {
            self.coverage.saw(Situation::RestoresOldBackup);
        }
        let backup = self.sets[set].backups[at].clone();
        let larger = if self.rng.chance(120) { self.rng.between(2, 9) as u32 } else { 1 };
        let mut count = self.count(set, &backup).saturating_add(larger);
        let mut margin = RestoreMargin::default();
        if larger > 1 {
            self.coverage.saw(Situation::RestoresLargerMargin);
        }
        if self.bug == Some(Bug::MarginFalls) {
            (count, margin) = (count + 1 - larger, RestoreMargin(u64::from(larger) * RESTORE_MARGIN));
        }
        let lineage = Lineage(u64::from(count) << 32 | self.rng.below(1 << 16));
        let mut state = backup.state;
        if let Err(refusal) = state.restore(lineage) {
            let text = format!("a restore of set {set} counts {count}: {refusal}");
            return self.check.broken(self.now, "a restore is accepted", text);
        }
        if self.bug == Some(Bug::MarginFalls) {
            state.restore_margin = margin;
        }
        self.coverage.saw(Situation::RestoresRestored);
        self.note([5, set as u64, lineage.0], || format!("set {set} is restored from backup {at} with count {count}"));
        self.operator.notebook = self.operator.notebook.max(count);
        self.operator.unread.insert(set);
        self.operator.restored_at.entry(set).or_default().push(self.now);
        self.sets[set].backups[at + 1..].iter_mut().for_each(|backup| backup.abandoned = true);
        let stray = self.other_member(set, at, lineage, &state);
        let one = &mut self.sets[set];
        (one.existence, one.state, one.stray, one.heir_of) = (Existence::Running, state, stray, backup.heir_of);
        (one.log, one.fence_at, one.down_until) = (one.log + 1, 0, 0);
        self.elect(set);
        (0..NAMES).for_each(|name| self.start_again(set, name));
    }

    /// Draws whether one member of the restored store begins with another backup than the other two members. If it
    /// does, and its fingerprint equals the fingerprint of the others, it joins their group. Returns the state of a
    /// member that joined with another state.
    fn other_member(&mut self, set: usize, at: usize, lineage: Lineage, state: &State) -> Option<State> {
        let backups = self.sets[set].backups.len();
        if backups < 2 || !self.rng.chance(200) {
            return None;
        }
        let other = (at + 1 + self.rng.index(backups - 1)) % backups;
        let mut content = self.sets[set].backups[other].state.clone();
        content.restore(lineage).ok()?;
        if identity(&content, self.bug) == identity(state, self.bug) {
            return Some(content).filter(|content| content != state);
        }
        self.coverage.saw(Situation::RestoresMemberRefused);
        None
    }

    /// Returns whether the operator may restore a set from its backup with the index `at`. The backup may be used if,
    /// for each closed set whose processes have stopped, the final records are in the backup or in another set that
    /// responds and is not in quarantine.
    fn is_usable(&self, set: usize, at: usize) -> bool {
        let gone = (0..SETS).filter(|one| self.sets[*one].existence == Existence::Gone);
        let knows = |heir: usize, gone: usize| {
            let one = &self.sets[heir];
            heir != set && one.responds(self.now) && !one.state.is_quarantined() && one.heir_of.contains(&gone)
        };
        let backup = &self.sets[set].backups[at];
        gone.into_iter().all(|gone| backup.heir_of.contains(&gone) || (0..SETS).any(|heir| knows(heir, gone)))
    }

    /// Returns the highest count of restores that the operator knows or assumes. The count of the next restore must be
    /// above it.
    fn count(&mut self, set: usize, backup: &Backup) -> u32 {
        if self.bug == Some(Bug::NthOfBackup) {
            let restored = self.operator.restored_at.get(&set);
            let since = restored.map_or(0, |times| times.iter().filter(|time| **time > backup.at).count());
            return backup.state.most_restores() + since as u32;
        }
        if self.bug == Some(Bug::RecoveredCountedAnew) && self.rng.chance(500) {
            return backup.state.most_restores();
        }
        let known = self.operator.notebook.max(backup.state.most_restores());
        if self.operator.unread.is_empty() || self.bug == Some(Bug::NotebookAlone) {
            return known;
        }
        let asked = |one: &&super::store::Set| one.responds(self.now) && !one.state.is_quarantined();
        let counts = self.sets.iter().filter(asked).map(|one| one.state.most_restores());
        match counts.max() {
            Some(count) => {
                self.coverage.saw(Situation::RestoresAsked);
                known.max(count)
            }
            None => {
                self.coverage.saw(Situation::RestoresBlind);
                known + RESERVE
            }
        }
    }

    /// Does the regular work of the operator. For each set that responds, the operator may read the count of restores,
    /// make a backup, complete migrations, and make the set forget stopped sets. Then the operator continues a merge.
    pub(super) fn look(&mut self) {
        self.after(LOOK, Event::Look);
        for set in 0..SETS {
            if !self.sets[set].responds(self.now) {
                continue;
            }
            if self.healed || self.rng.chance(READS) {
                self.read_count(set);
            }
            if self.sets[set].backups.is_empty() || (!self.healed && self.rng.chance(40)) {
                self.back_up(set);
            }
            if self.rng.chance(150) {
                self.complete_all(set);
            }
            self.forget_gone(set);
        }
        if let Some(merge) = self.operator.merge {
            self.merge_step(merge);
        }
    }

    fn read_count(&mut self, set: usize) {
        let state = &self.sets[set].state;
        self.operator.notebook = self.operator.notebook.max(state.lineage.restores());
        if !state.is_quarantined() {
            self.operator.unread.remove(&set);
        }
    }

    /// Makes a restored set forget the sets whose processes have stopped permanently, if its quarantine waits for no
    /// other sets.
    fn forget_gone(&mut self, set: usize) {
        let awaited = self.awaited(set);
        let is_gone = |one: usize| self.sets[one].existence == Existence::Gone;
        if !awaited.is_empty() && awaited.iter().all(|(one, _)| is_gone(*one)) {
            for (gone, _) in awaited {
                self.propose(set, Command::Forget(Forget { set: set_id(gone) }), Origin::Here);
            }
        }
    }

    /// Begins a migration of some sections of a set.
    pub(super) fn migrate(&mut self, set: usize, pick: u64) {
        let to = (set + 1 + (pick / 8) as usize % (SETS - 1)) % SETS;
        let here: Vec<SectionId> = self.sets[set].state.sections.residents().map(|(section, _)| section).collect();
        if here.is_empty() || !self.sets[set].responds(self.now) {
            return;
        }
        let first = here[pick as usize % here.len()];
        let mut sections = 1;
        while pick.is_multiple_of(2) && first.0 + sections < SECTIONS && here.contains(&SectionId(first.0 + sections)) {
            sections += 1;
        }
        self.start_migration(set, to, vec![SectionRun { first, sections }]);
    }

    fn start_migration(&mut self, set: usize, to: usize, runs: Vec<SectionRun>) {
        let id = MigrationId(self.fresh());
        let (state, to) = (&self.sets[set].state, set_id(to));
        let Some(fingerprint) = state.fingerprint(to, &runs) else { return };
        let (lineage, layout_id) = (state.lineage, self.layout.id());
        let pace = Pace { rate: 50, max_pause: Duration::from_secs(1), paused: false };
        let start = StartMigration { id, to, lineage, layout_id, runs, pace, fingerprint };
        self.propose(set, Command::StartMigration(start), Origin::Here);
    }

    /// Completes those open migrations out of a set whose sections have all arrived.
    pub(super) fn complete_all(&mut self, set: usize) {
        let state = &self.sets[set].state;
        let ready = |(id, one): &(&MigrationId, &Migration)| {
            one.phase == Phase::Open && matches!(one.scope, Scope::Runs(_)) && state.has_arrived(**id, one)
        };
        let ready: Vec<MigrationId> = state.migrations.iter().filter(ready).map(|(id, _)| *id).collect();
        for id in ready {
            self.propose(set, Command::Complete(Complete { id, by: None }), Origin::Here);
        }
    }

    /// Begins to merge the set `set` into the set `into`, unless a merge is in progress.
    pub(super) fn merge(&mut self, set: usize, into: usize, pick: u64) {
        if self.operator.merge.is_none() && set != into {
            let (strikes, crossed_by) = (pick % 2 == 1, (pick / 4 % 2 == 1).then_some(into));
            self.operator.merge = Some(Merge { set, into, strikes, crossed_by });
        }
    }

    /// Begins a migration of one section from the set `from` to the set `to`, and closes the set `to` soon afterwards.
    /// In the meantime, the owner of the section may be cut off from its store, so that the section departs only while
    /// the set `to` is closing.
    fn cross(&mut self, from: usize, to: usize) {
        let residents = self.sets[from].state.sections.residents();
        let Some((section, owner)) = residents.map(|(section, record)| (section, record.owner)).next() else { return };
        self.coverage.saw(Situation::RestoresCrossed);
        self.start_migration(from, to, vec![SectionRun { first: section, sections: 1 }]);
        let wait = self.rng.between(10 * MS, 250 * MS);
        self.after(wait, Event::Close(to));
        let owns = |p: &usize| owner.is_some() && self.procs[*p].session.map(|session| session.node) == owner;
        let owner = self.newest[from].iter().flatten().copied().find(owns);
        if let Some(p) = owner.filter(|_| self.rng.chance(600)) {
            let (wait, time) = (wait + self.rng.below(40 * MS), self.rng.between(200 * MS, 2_000 * MS));
            self.after(wait, Event::CutOff(p, time));
        }
    }

    /// Does the next step of a merge. The steps are the migrations out of the merged set, their completion, the closing
    /// of the merged set, and the end of its processes.
    fn merge_step(&mut self, Merge { set, into, strikes, crossed_by }: Merge) {
        if !self.sets[set].responds(self.now) || (self.healed && self.sets[set].state.closing == Closing::Open) {
            return;
        }
        let state = &self.sets[set].state;
        match state.closing {
            Closing::Open if state.check_close().is_ok() => match crossed_by {
                Some(from) => {
                    self.operator.merge = Some(Merge { set, into, strikes, crossed_by: None });
                    self.cross(from, set);
                }
                None => self.close(set),
            },
            Closing::Open => {
                (0..SETS).for_each(|one| self.complete_all(one));
                let state = &self.sets[set].state;
                if let Some(writer) = state.layout_writer().filter(|_| state.writes_series()) {
                    let hand_over = SetLayoutWriter { term: writer.term, to: set_id(into) };
                    self.propose(set, Command::SetLayoutWriter(hand_over), Origin::Here);
                }
                let state = &self.sets[set].state;
                if state.migrations.values().all(|one| !one.is_open()) {
                    let is_here =
                        |section: &SectionId| matches!(state.sections.get(*section), Some(SectionRecord::Resident(_)));
                    let here: Vec<SectionId> = (0..SECTIONS).map(SectionId).filter(is_here).collect();
                    for section in here {
                        self.start_migration(set, into, vec![SectionRun { first: section, sections: 1 }]);
                    }
                }
            }
            Closing::Closing => self.close(set),
            Closing::Closed => self.stop_closed(set, into, strikes),
        }
    }

    /// Proposes to the log of a set the command that closes the set, if the set responds.
    pub(super) fn close(&mut self, set: usize) {
        if self.sets[set].responds(self.now) {
            self.propose(set, Command::Close(Close), Origin::Here);
        }
    }

    /// If every other set has the final records of the closed set `set`, makes a backup of every other set, and then
    /// stops the processes of the closed set permanently.
    fn stop_closed(&mut self, set: usize, into: usize, strikes: bool) {
        let others: Vec<usize> = (0..SETS).filter(|one| *one != set).collect();
        let ready = |one: usize| {
            let one = &self.sets[one];
            one.responds(self.now) && !one.state.is_quarantined() && one.heir_of.contains(&set)
        };
        if !others.iter().all(|one| ready(*one)) {
            return;
        }
        others.iter().for_each(|one| self.back_up(*one));
        self.read_count(set);
        self.coverage.saw(Situation::RestoresStopped);
        self.note([8, set as u64, 0], || format!("the processes of set {set} stop permanently"));
        let one = &mut self.sets[set];
        (one.existence, one.log) = (Existence::Gone, one.log + 1);
        (0..NAMES).for_each(|name| self.kill(set, name));
        self.operator.merge = None;
        if strikes && !self.healed {
            self.coverage.saw(Situation::RestoresLostAfterMerge);
            let (wait, pick) = (self.rng.between(300 * MS, 2_000 * MS), self.rng.next());
            self.lose(into, true);
            self.after(wait, Event::Restore(into, pick));
        }
    }
}
