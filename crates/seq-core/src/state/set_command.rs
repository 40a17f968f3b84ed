//! The commands that move sections between sets, and the reasons for which such a command is refused.
//!
//! A set's log takes from the log of another set only facts that stay true, for example that a section departed or
//! arrived, or that an older lineage is over. So the result does not depend on which member of the other set's store
//! sent a fact, on how late the fact arrives, or on how often.

use alloc::string::String;
use alloc::vec::Vec;

use super::migration::{Pace, SetFacts};
use super::record::Destination;
use super::recovery::FenceResponse;
use crate::directory::ClaimRun;
use crate::id::{
    Epoch, HandoverId, Incarnation, LayoutId, Lineage, Liveness, MigrationId, NodeId, Revision, SectionId, Seq, SetId,
};
use crate::layout::SectionRun;
use crate::limits;
use crate::plan::Fingerprint;

/// Command that begins a migration, if the facts on which its plan depends still hold. The sections need not have
/// owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartMigration {
    /// Id of the migration, not 0. It was drawn at random when the migration was planned, so another command with the
    /// same id is a repeat.
    pub id: MigrationId,
    /// The set that the sections migrate to.
    pub to: SetId,
    /// Lineage of this set when the migration was planned.
    pub lineage: Lineage,
    /// Hash of the layout up to the space of the last section.
    pub layout_id: LayoutId,
    /// The sections, in order, not overlapping, at most [`limits::MAX_RUNS`] runs.
    pub runs: Vec<SectionRun>,
    /// Speed of the migration.
    pub pace: Pace,
    /// Value of [`State::fingerprint`](super::State::fingerprint) when the migration was planned.
    pub fingerprint: Fingerprint,
}

/// Command that changes the pace of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetPace {
    /// The migration.
    pub id: MigrationId,
    /// The new pace.
    pub pace: Pace,
}

/// Command that sends a section to another set. The departure cannot be undone. The section's owner, which has frozen
/// the section, sends the request.
///
/// All reasons to refuse a departure are permanent, so a refused departure never takes effect later. After a refusal,
/// the owner may serve the section again only if the refusal is [`SetRefusal::MigrationOver`] or
/// [`SetRefusal::SetClosing`], because in these two cases it still owns the section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depart {
    /// The section.
    pub section: SectionId,
    /// Epoch of the ownership that ends.
    pub epoch: Epoch,
    /// The owner.
    pub from: NodeId,
    /// Incarnation of the owner.
    pub incarnation: Incarnation,
    /// The target set, and the next owner in it, which holds a copy of the frozen section.
    pub to: Destination,
    /// Number of the handover attempt, not 0. It identifies the copy that the next owner holds.
    pub handover_id: HandoverId,
    /// The migration by which the section departs.
    pub migration: MigrationId,
}

/// Command that sends a section without a living owner to another set. Like [`Reassign`](super::Reassign), it is
/// applied only if the section's record is still as the proposer read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepartSilent {
    /// The section.
    pub section: SectionId,
    /// The section's epoch as the proposer read it.
    pub expected: Epoch,
    /// The liveness counter of the section's owner as the proposer read it; `None` if the section had no owner, or the
    /// owner's incarnation was over.
    pub liveness: Option<Liveness>,
    /// The target set.
    pub to: SetId,
    /// Lineage of the target set.
    pub lineage: Lineage,
    /// The migration by which the section departs.
    pub migration: MigrationId,
}

/// Command by which this set takes sections that departed to it from another set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrive {
    /// The source set.
    pub from: SetId,
    /// Lineage of the source set.
    pub from_lineage: Lineage,
    /// The lineage of this set to which the sections departed, according to the tombstones.
    pub to_lineage: Lineage,
    /// Hash of the layout up to the space of the sections, which are all in the same space.
    pub layout_id: LayoutId,
    /// The sections, at most [`limits::MAX_MOVES`].
    pub sections: Vec<Arriving>,
}

/// A section that departed to this set, with the content of its tombstone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arriving {
    /// The section.
    pub section: SectionId,
    /// The epoch that begins here.
    pub epoch: Epoch,
    /// The section's ceiling when it departed.
    pub max_seq: Seq,
    /// The handover attempt whose copy the owner may start from; 0 for none.
    pub handover_id: HandoverId,
    /// The next owner, which holds the copy; `None` if there is none yet.
    pub node: Option<NodeId>,
    /// Incarnation of the owner.
    pub incarnation: Incarnation,
    /// The migration by which the section departed.
    pub migration: MigrationId,
}

/// Outcome for a section that departed to this set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The section is here, by this command or by an earlier command.
    Arrived,
    /// The log of this set has already seen the section under that epoch or a later epoch, so the arrival is out of
    /// date.
    Past,
    /// The section departed to an earlier lineage of this set. This set is in quarantine, and has not learned from all
    /// other sets yet whether the earlier lineage sent the section to another set. The source set must send the
    /// departure again.
    Waits,
    /// The arrival was refused, and nothing changed. No correct set sends such an arrival. The section is in this set
    /// under an earlier epoch, is not in the layout, or has an epoch or ceiling that is out of range.
    Refused,
}

/// Command that notes which sections and which ends of migrations the log of another set has received from this set, so
/// that they need not be sent again. It changes nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The other set.
    pub at: SetId,
    /// The other set's lineage when it responded.
    pub lineage: Lineage,
    /// Sections whose arrival the other set's log has, or which it has seen under a later epoch. Each has the epoch of
    /// its departure from this set.
    pub sections: Vec<(SectionId, Epoch)>,
    /// Migrations of this set whose end the other set's log has. The end of a completed migration is its completion,
    /// and the end of a migration that was rolled back is its settled return.
    pub ended: Vec<MigrationId>,
}

/// Command that fences another set, which was restored from a backup. Messages of the older lineages of that set are
/// refused permanently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The set.
    pub set: SetId,
    /// The set's newest lineage.
    pub lineage: Lineage,
}

/// Command that cancels a migration permanently. No further section departs, and a migration in the other direction
/// brings the departed sections back. If the source set is closing, it takes no sections back. Instead, the migration
/// then counts as complete, and the departed sections stay in the target set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rollback {
    /// The migration.
    pub id: MigrationId,
}

/// Command that completes a migration permanently after every section has arrived, so that it can no longer be rolled
/// back. In the log of the target set, the command has the effect that the sections which came by the migration stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Complete {
    /// The migration.
    pub id: MigrationId,
    /// The set in which the migration began, if this command is in the log of the target set; `None` in the log of the
    /// source set.
    pub by: Option<SetId>,
}

/// Command that begins the return of the sections that came to this set by a migration which the other set has rolled
/// back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartReturn {
    /// The migration that was rolled back.
    pub of: MigrationId,
    /// The set in which that migration began, to which the sections return.
    pub to: SetId,
    /// Id of the return, not 0. If the return has begun already, the id in the first request stays.
    pub id: MigrationId,
    /// Speed of the return.
    pub pace: Pace,
    /// Whether the return is settled: every section that departed by the migration `of` has arrived in this set, so
    /// that no more can come by it.
    pub settled: bool,
}

/// Command that keeps claims and facts that another set stated. They change no section record.
///
/// A set can make statements only about itself. These are its own facts, and claims about sections that it has as far
/// as this log knows, or whose set this log does not know. So a set can redirect the requests for its own sections, but
/// not for sections that another set is known to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnDirectory {
    /// The set that made the statements. `None` if the command was proposed by an earlier release, under which a set
    /// could make statements about any set. Only [`Rules::Seven`](super::Rules) accepts such a command.
    pub from: Option<SetId>,
    /// The claims, at most [`limits::MAX_RUNS`].
    pub claims: Vec<ClaimRun>,
    /// Facts that the set `from` states about itself. The command is refused if it has facts about any other set.
    pub sets: Vec<SetFacts>,
}

impl LearnDirectory {
    /// Creates a command with the facts that a set stated about itself, without claims.
    #[must_use]
    pub fn of(facts: SetFacts) -> LearnDirectory {
        LearnDirectory { from: Some(facts.id), claims: Vec::new(), sets: Vec::from([facts]) }
    }
}

/// Command with a page of the final records of a closing set. The set that applies the command keeps these records as
/// tombstones. When the processes of the closed set are gone, a restored set learns from these tombstones where its own
/// sections are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inherit(pub FenceResponse);

/// Command that removes another set and its claims from this log, because an operator states that the set does not
/// exist, or that wrong facts about it are known. If the set does exist, this log learns of it again from the set's own
/// statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forget {
    /// The set.
    pub set: SetId,
}

/// Command that begins a newer lineage of a set in quarantine, because another set has refused the fence of the present
/// lineage, which counts too few restores.
///
/// The command works like a restore from the present state, because the set has served no section since it was restored
/// from the backup. Sessions end, the responses received so far are void, and the wait of the quarantine begins again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeginLineage {
    /// The new lineage. Its count of restores is at least the count that [`SetRefusal::TooFewRestores`] states.
    pub lineage: Lineage,
}

/// Command that ends the quarantine of a restored set, after every other set has fenced the older lineages of this set,
/// and this set has applied every page of their responses. Sections that are in other sets get tombstones, sections
/// that departed to this set arrive, and the other sections of the backup are resident again.
///
/// The store's leader proposes the command no sooner than [`State::quarantine_wait`](super::State::quarantine_wait)
/// after the restore, because until then an AllocSvr may serve under a lease from an older lineage. If terms with a
/// longer wait were set after the backup was made, the restore has lost them, and the operator must add that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndQuarantine {
    /// The lineage that the restore began.
    pub lineage: Lineage,
}

/// Command that closes this set permanently, so that it takes no more sections. A repeat of the command after all other
/// sets have recorded the closing completes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close;

/// Reason why a command between sets changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetRefusal {
    /// The command names this set as the other set.
    #[error("the command names this set as the other set")]
    OwnSet,
    /// No facts of the set are known.
    #[error("set {set} is not known here")]
    UnknownSet {
        /// The set in the command.
        set: SetId,
    },
    /// This log knows as many other sets as the limit allows.
    #[error("{} other sets are known, the most there may be", limits::MAX_SETS)]
    TooManySets,
    /// The other set takes no more sections.
    #[error("set {set} is closing and takes no more sections")]
    SetClosing {
        /// The set.
        set: SetId,
    },
    /// The layout of the sections in the command differs from the layout of these sections in this set.
    #[error("the sections are of layout {given}, not of layout {ours}")]
    OtherLayout {
        /// Hash of the whole layout here.
        ours: LayoutId,
        /// The hash in the command.
        given: LayoutId,
    },
    /// This set has another lineage.
    #[error("this set is of lineage {current}, not {given}")]
    OtherLineage {
        /// This set's lineage.
        current: Lineage,
        /// The lineage in the command.
        given: Lineage,
    },
    /// The other set was restored since it sent the message, so the lineage in the command is over.
    #[error("set {set} is of lineage {newest} by now, and {given} counts no more restores than that")]
    OldLineage {
        /// The set.
        set: SetId,
        /// The set's newest lineage.
        newest: Lineage,
        /// The lineage in the command.
        given: Lineage,
    },
    /// The lineage does not count more restores than every lineage that the sets of the cluster know. [`BeginLineage`]
    /// begins a lineage with a higher count.
    #[error("lineage {given} counts too few restores, at least {least} are needed: one more than any set knows")]
    TooFewRestores {
        /// The lineage in the command.
        given: Lineage,
        /// The least accepted count.
        least: u32,
    },
    /// The count of restores of the lineage is further above the highest known count than one fence may raise it.
    #[error(
        "lineage {given} of set {set} counts {} restores, and the log knows {known}: a fence adds {} at most",
        given.restores(), limits::MAX_RESTORE_STEP
    )]
    FarLineage {
        /// The set.
        set: SetId,
        /// The lineage in the command.
        given: Lineage,
        /// The highest count that the log knows, of any set.
        known: u32,
    },
    /// The set cannot be closed or forgotten, because it is the layout writer. Without it, no set could create series.
    #[error("set {set} creates the series of the cluster: `seqsvr set layout-writer` hands that to another set first")]
    WritesLayout {
        /// The set.
        set: SetId,
    },
    /// The set cannot be closed, because the set to which it handed the layout has not stated yet that it has taken the
    /// layout over.
    #[error("set {set} has not taken over the series of the cluster yet: it does within seconds while it serves")]
    LayoutNotTaken {
        /// The set that is to create series.
        set: SetId,
    },
    /// The set is not closing, so its records are not final.
    #[error("set {set} is not closing")]
    NotClosing {
        /// The set.
        set: SetId,
    },
    /// The set is in quarantine, so it has not learned yet which sections are in it.
    #[error("set {set} is in quarantine after a restore: wait until it serves again")]
    InQuarantine {
        /// The set.
        set: SetId,
    },
    /// The set cannot be forgotten, because a section may still be on its way to it.
    #[error("section {section} departed to set {set}, which has not confirmed that it arrived")]
    AwaitsSection {
        /// The set.
        set: SetId,
        /// The first such section.
        section: SectionId,
    },
    /// Another set with that name is known.
    #[error("the name {name:?} is that of set {known} already, and set {set} states it, too")]
    NameTaken {
        /// The set that states the name.
        set: SetId,
        /// The set that is known under this name.
        known: SetId,
        /// The name.
        name: String,
    },
    /// A set states another name than the name by which this log knows it.
    #[error(
        "set {set} is known as {known:?} and states the name {given:?}: a set keeps its name; \
         `seqsvr set forget` makes this set learn it anew"
    )]
    NameChanged {
        /// The set.
        set: SetId,
        /// The name that is known.
        known: String,
        /// The name in the command.
        given: String,
    },
    /// A set stated facts about a set other than itself.
    #[error("set {from} stated facts of set {set}: a set speaks for itself only")]
    NotOfSender {
        /// The set that sent them.
        from: SetId,
        /// The set that they describe.
        set: SetId,
    },
    /// The revision that a set states is further ahead of its last known revision than the set can have advanced since.
    #[error(
        "set {set} states revision {given}, and {known} is known: `seqsvr set forget` makes this set learn it anew"
    )]
    FarRevision {
        /// The set.
        set: SetId,
        /// The revision that is known.
        known: Revision,
        /// The revision in the command.
        given: Revision,
    },
    /// The runs of sections in the command overlap, are out of order or out of range, or are too many.
    #[error("the runs of sections overlap, are out of order or out of range, or more than {}", limits::MAX_RUNS)]
    BadRuns,
    /// A fact that the plan of the migration rests on has changed.
    #[error("a fact that the plan of migration {migration} rests on has changed: make another plan")]
    StalePlan {
        /// The migration.
        migration: MigrationId,
    },
    /// The set cannot be closed, because sections are in it.
    #[error("{sections} sections are in this set, the first is section {section}: migrate them to other sets")]
    NotEmpty {
        /// The first section in the set.
        section: SectionId,
        /// Number of sections in the set.
        sections: u32,
    },
    /// The set cannot be closed, because sections may return to it.
    #[error("section {section} can return to this set by migration {migration}: complete that migration")]
    MayReturn {
        /// The first section that may return.
        section: SectionId,
        /// The migration that the section departed by.
        migration: MigrationId,
    },
    /// A section of the migration is not in this set.
    #[error("section {section} is not in this set")]
    NotResident {
        /// The section.
        section: SectionId,
    },
    /// A section is part of another migration.
    #[error("section {section} is part of migration {migration}, which is not complete")]
    SectionMigrates {
        /// The section.
        section: SectionId,
        /// The other migration.
        migration: MigrationId,
    },
    /// No migration with this id began in this set, or it began with other content than the command states.
    #[error("migration {migration} did not begin here, or not with these sections and this set")]
    OtherMigration {
        /// The id in the command.
        migration: MigrationId,
    },
    /// The migration was rolled back or completed.
    #[error("migration {migration} was rolled back or completed")]
    MigrationOver {
        /// The migration.
        migration: MigrationId,
    },
    /// Sections of the migration are still in this set, or on their way to the target set.
    #[error("not every section of migration {migration} has arrived")]
    NotArrived {
        /// The migration.
        migration: MigrationId,
    },
    /// The pace is out of bounds.
    #[error("a rate of {} sections a second and a pause of {:?}: both must be above 0", pace.rate, pace.max_pause)]
    BadPace {
        /// The pace in the command.
        pace: Pace,
    },
    /// As many migrations have begun in this set as the limit allows.
    #[error("{} migrations began here, the most there may be", limits::MAX_MIGRATIONS)]
    TooManyMigrations,
    /// The set is not in quarantine.
    #[error("this set is not in quarantine")]
    NotQuarantined,
    /// The quarantine cannot end, because the response of another set to the fence is not complete.
    #[error("the response of set {set} to the fence is not complete")]
    NotResponded {
        /// The set.
        set: SetId,
    },
    /// The quarantine cannot end, because the time of the restore is not noted yet.
    #[error("the time of the restore is not noted yet")]
    ClockNotNoted,
    /// This state does not have the fence that the request names.
    #[error("the fence of lineage {lineage} of set {set} is not applied here")]
    FenceNotApplied {
        /// The set.
        set: SetId,
        /// The lineage in the request.
        lineage: Lineage,
    },
    /// The response contradicts itself, or is out of bounds.
    #[error("the response of set {set} contradicts itself or is out of bounds")]
    BadResponse {
        /// The set.
        set: SetId,
    },
    /// An epoch is out of range.
    #[error("epoch {given} is above {}", limits::MAX_ARRIVED_EPOCH)]
    BadEpoch {
        /// The epoch in the command.
        given: Epoch,
    },
}
