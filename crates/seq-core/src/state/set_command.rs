//! Commands that move sections between sets.
//!
//! From another set's log, a set's log takes only facts that stay true, for example that a section departed or arrived,
//! or that an older lineage is over. So it does not matter which member of a store sent a fact, how late it arrives,
//! and how often.

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

/// Begins a migration, if the facts on which its plan depends still hold. The sections need not have owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartMigration {
    /// Id of the migration, not 0, which was drawn at random for the plan. Another command with the same id is a
    /// repeat.
    pub id: MigrationId,
    /// The set that the sections migrate to.
    pub to: SetId,
    /// Lineage of this set in the plan.
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

/// Changes the pace of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetPace {
    /// The migration.
    pub id: MigrationId,
    /// The new pace.
    pub pace: Pace,
}

/// Sends a section to another set. The departure cannot be undone. The section's owner, which has frozen the section,
/// sends the request.
///
/// Every reason to refuse a departure is permanent, so a refused departure never takes effect later. After a refusal,
/// the owner may serve the section again only if the refusal is [`SetRefusal::MigrationOver`] or
/// [`SetRefusal::SetClosing`], because in these cases it still owns the section.
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
    /// The other set, and the next owner in that set, which holds a copy of the frozen section.
    pub to: Destination,
    /// Number of the handover attempt, not 0; it identifies the copy.
    pub handover_id: HandoverId,
    /// The migration that the departure is part of.
    pub migration: MigrationId,
}

/// Sends a section without a living owner to another set. Like [`Reassign`](super::Reassign), the command is applied
/// only if the section's record is still as the proposer read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepartSilent {
    /// The section.
    pub section: SectionId,
    /// The section's epoch as the proposer read it.
    pub expected: Epoch,
    /// The liveness counter of the section's owner as the proposer read it; `None` if the section had no owner, or the
    /// incarnation of its owner was over.
    pub liveness: Option<Liveness>,
    /// The set.
    pub to: SetId,
    /// Lineage of the target set.
    pub lineage: Lineage,
    /// The migration that the departure is part of.
    pub migration: MigrationId,
}

/// Takes sections that departed from another set to this set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrive {
    /// The set that they departed from.
    pub from: SetId,
    /// Lineage of the source set.
    pub from_lineage: Lineage,
    /// The lineage of this set that the departures name.
    pub to_lineage: Lineage,
    /// Hash of the layout up to the space of the sections, which are all in the same space.
    pub layout_id: LayoutId,
    /// The sections, at most [`limits::MAX_MOVES`].
    pub sections: Vec<Arriving>,
}

/// A section that departed to this set: the content of its tombstone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arriving {
    /// The section.
    pub section: SectionId,
    /// The epoch that begins here.
    pub epoch: Epoch,
    /// The ceiling when it departed.
    pub max_seq: Seq,
    /// The handover attempt whose copy the owner may start from; 0 for none.
    pub handover_id: HandoverId,
    /// The owner that holds the copy; `None`: none.
    pub node: Option<NodeId>,
    /// Incarnation of the owner.
    pub incarnation: Incarnation,
    /// The migration that the departure is part of.
    pub migration: MigrationId,
}

/// Outcome for a section that departed to this set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The section is here, by this command or by an earlier command.
    Arrived,
    /// The log of this set has already seen the section under that epoch or a later epoch.
    Past,
    /// The section departed to an earlier lineage of this set. This set, which is in quarantine, has yet to learn from
    /// the other sets whether that lineage sent the section to another set. The departure must be sent again.
    Waits,
    /// The arrival was refused and nothing changed, because no set that keeps the rules sends it: the section is here
    /// under an earlier epoch, or an epoch or ceiling is out of range.
    Refused,
}

/// Notes the sections and ends of migrations that another set's log has received from this set, so that they need not
/// be sent again. Nothing else changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The other set.
    pub at: SetId,
    /// The other set's lineage when it responded.
    pub lineage: Lineage,
    /// Sections that arrived in the other set, or that its log has seen under a later epoch, each with the epoch of the
    /// departure.
    pub sections: Vec<(SectionId, Epoch)>,
    /// Migrations whose end the other set's log has: their completion, or the return of all their sections.
    pub ended: Vec<MigrationId>,
}

/// Fences a set that was restored from a backup: messages of the set's older lineages are refused permanently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The set.
    pub set: SetId,
    /// The set's newest lineage.
    pub lineage: Lineage,
}

/// Command that cancels a migration permanently: no further section departs, and a migration in the other direction
/// brings the departed sections back. A source set that closes takes no sections back; its migration then counts as
/// complete, and the departed sections stay in the target set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rollback {
    /// The migration.
    pub id: MigrationId,
}

/// Ends a migration permanently after every section has arrived, so that it can no longer be rolled back. In the log of
/// the target set, it has the effect that the sections of the migration stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Complete {
    /// The migration.
    pub id: MigrationId,
    /// The other set in which the migration began; `None`: it began here.
    pub by: Option<SetId>,
}

/// Begins the return of the sections that came here by a migration that the other set has rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartReturn {
    /// The migration that was rolled back.
    pub of: MigrationId,
    /// The set that the sections came from.
    pub to: SetId,
    /// Id of the return, not 0. If the return has begun already, the id of the first request counts.
    pub id: MigrationId,
    /// Speed of the return.
    pub pace: Pace,
    /// Whether every section that departed by that migration has arrived, so that no more can come by it.
    pub settled: bool,
}

/// Claims and facts that another set stated. They route requests and change no record.
///
/// A set can make statements only about itself: its own facts, and claims about sections that are in that set as far as
/// this log knows, or whose set this log does not know. So a set can redirect the requests for its own sections, and
/// for no others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnDirectory {
    /// The set that made the statements, from which the proposer has read them. `None` if an earlier release learned
    /// them from any set, which only [`Rules::Seven`](super::Rules) accepts.
    pub from: Option<SetId>,
    /// The claims, at most [`limits::MAX_RUNS`].
    pub claims: Vec<ClaimRun>,
    /// Facts that the set `from` states about itself. Facts of any other set are refused.
    pub sets: Vec<SetFacts>,
}

impl LearnDirectory {
    /// Creates a command with the facts of a set, as it stated them, without claims.
    #[must_use]
    pub fn of(facts: SetFacts) -> LearnDirectory {
        LearnDirectory { from: Some(facts.id), claims: Vec::new(), sets: Vec::from([facts]) }
    }
}

/// A page of the final records of a closing set. The set that applies the command keeps the records as its own
/// tombstones. When the processes of the closed set are gone, a restored set learns from these tombstones where its
/// sections are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inherit(pub FenceResponse);

/// Removes another set and its claims from this log, because an operator states that the set does not exist, or that
/// the known facts of it are wrong. If the set does exist, this log learns of it again from the set's own statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forget {
    /// The set.
    pub set: SetId,
}

/// Begins a newer lineage of a set in quarantine, because another set has refused the fence of its present lineage,
/// which counts too few restores.
///
/// The command works like a restore from the present state, in which no section of the backup was served. Sessions end,
/// the responses received until then are void, and the wait of the quarantine begins again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeginLineage {
    /// The lineage, which counts at least the restores that [`SetRefusal::TooFewRestores`] states.
    pub lineage: Lineage,
}

/// Ends the quarantine of a restored set, after every other set has fenced the older lineages of this set, and this set
/// has learned every page of their responses. Sections that are in other sets get tombstones, sections that departed to
/// this set arrive, and the other sections of the backup are resident again.
///
/// The leader proposes the command no sooner than [`State::quarantine_wait`](super::State::quarantine_wait) after the
/// restore, because until then a session of an older lineage may serve under its lease. If terms with a longer wait
/// were set after the backup was made, the restore has lost them, and the operator must add that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndQuarantine {
    /// The lineage that the restore began.
    pub lineage: Lineage,
}

/// Closes this set permanently, so that it takes no more sections. If the command is repeated after all other sets have
/// recorded the closing, it completes the closing.
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
    /// As many other sets are known as the limit allows.
    #[error("{} other sets are known, the most there may be", limits::MAX_SETS)]
    TooManySets,
    /// The other set takes no more sections.
    #[error("set {set} is closing and takes no more sections")]
    SetClosing {
        /// The set.
        set: SetId,
    },
    /// The sections in the command have another layout.
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
    /// The other set was restored in the meantime, so the lineage in the command is over.
    #[error("set {set} is of lineage {newest} by now, and {given} counts no more restores than that")]
    OldLineage {
        /// The set.
        set: SetId,
        /// The set's newest lineage.
        newest: Lineage,
        /// The lineage in the command.
        given: Lineage,
    },
    /// The lineage does not count more restores than every lineage that a set of the cluster knows. [`BeginLineage`]
    /// begins a lineage with a higher count.
    #[error("lineage {given} counts too few restores, at least {least} are needed: one more than any set knows")]
    TooFewRestores {
        /// The lineage in the command.
        given: Lineage,
        /// The least accepted count.
        least: u32,
    },
    /// The lineage counts more restores than one fence may add.
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
    /// The set creates the series of the cluster. If it were gone, no set could create series.
    #[error("set {set} creates the series of the cluster: `seqsvr set layout-writer` hands that to another set first")]
    WritesLayout {
        /// The set.
        set: SetId,
    },
    /// The set that is to create the series of the cluster has not stated yet that it does.
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
    /// A set in quarantine has not learned yet where its sections are.
    #[error("set {set} is in quarantine after a restore: wait until it serves again")]
    InQuarantine {
        /// The set.
        set: SetId,
    },
    /// The set cannot be forgotten, because sections are on their way to it, or a migration moves sections to it.
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
    /// A set that is known by a name states another name.
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
    /// A set stated facts about another set than itself.
    #[error("set {from} stated facts of set {set}: a set speaks for itself only")]
    NotOfSender {
        /// The set that sent them.
        from: SetId,
        /// The set that they describe.
        set: SetId,
    },
    /// The revision is further ahead of the set's last known revision than the set can have come since.
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
    /// The runs of sections overlap, are out of order or out of range, or are too many.
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
    /// No migration with this id began here, or its content differs from the command.
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
    /// Sections of the migration are here or on their way.
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
    /// As many migrations began here as the limit allows.
    #[error("{} migrations began here, the most there may be", limits::MAX_MIGRATIONS)]
    TooManyMigrations,
    /// The set is not in quarantine.
    #[error("this set is not in quarantine")]
    NotQuarantined,
    /// The quarantine cannot end, because the response of a set to the fence is not complete.
    #[error("the response of set {set} to the fence is not complete")]
    NotResponded {
        /// The set.
        set: SetId,
    },
    /// The quarantine cannot end, because the time of the restore is not noted.
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
