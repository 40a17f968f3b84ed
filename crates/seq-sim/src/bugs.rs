//! Planted bugs. A bug is in the simulated shell around the state machines of `seq-core`, or between the shell and
//! these state machines. The checks of the simulator must catch each bug.

use std::fmt;

use crate::{Run, Violation, run};

macro_rules! bugs {
    ($($(#[$doc:meta])* $name:ident: $short:literal, $text:literal,)*) => {
        /// A planted bug.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Bug {
            $($(#[$doc])* $name,)*
        }

        impl Bug {
            /// All planted bugs, in the order of their declaration.
            pub const ALL: &'static [Bug] = &[$(Bug::$name,)*];

            /// Returns the bug's name on the command line.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Bug::$name => $short,)* }
            }

            /// Returns a description of the bug in a few words.
            #[must_use]
            pub fn about(self) -> &'static str {
                match self { $(Bug::$name => $text,)* }
            }
        }
    };
}

bugs! {
    /// The lease is counted from the arrival of the response instead of from the sending of the request.
    ExpiryFromAnswer: "expiry-from-answer", "a lease counted from its answer",
    /// The clock was read before the call arrived.
    CachedClock: "cached-clock", "a clock read before the call arrived",
    /// A change of owner is applied even if the owner's liveness counter has moved since the arbiter's evaluation.
    NoCompare: "no-compare", "a change of owner applied although the owner renewed since",
    /// A change of owner is applied even if the owner's incarnation has ended since the arbiter's evaluation.
    NoCompareOver: "no-compare-over", "the same, where the owner's session ended in between",
    /// The arbiter's wait before it replaces an ended incarnation counts from the last move of that incarnation's
    /// liveness counter.
    WaitOfOver: "wait-of-over", "the wait for an ended session, counted from its last renewal",
    /// A raise is applied under any epoch.
    UnfencedRaise: "unfenced-raise", "a raise applied whatever its epoch",
    /// A new owner starts below the ceiling.
    BelowCeiling: "below-ceiling", "a takeover that starts below the ceiling",
    /// The arbiter waits less than a lease.
    ShortWait: "short-wait", "a wait shorter than the lease",
    /// The copy is made while numbers are still allocated.
    NoFreeze: "no-freeze", "a copy made without freezing",
    /// The lease is extended before the ownership update of the same response is adopted.
    LeaseBeforeNews: "lease-before-update", "a lease extended before the update of the same response is adopted",
    /// A call reads the table of owned sections before it reads the lease.
    TableBeforeLease: "table-before-lease", "the table read before the lease",
    /// A staged copy is used even if it belongs to another attempt of the handover.
    StaleCopy: "stale-copy", "a staged copy used by its epoch alone",
    /// A section is thawed although its handover may have been committed.
    ThawUnknown: "thaw-unknown", "a thaw without a definite answer",
    /// A section that was frozen for its release is served again.
    ThawReleased: "thaw-released", "a section served again after its copy was sent for its release",
    /// The store keeps a copy after an ownership has started from it.
    CopyUsedTwice: "copy-used-twice", "a kept copy that two ownerships start from",
    /// The store keeps the copy of an ownership even if another ownership has begun since.
    CopyOfOlder: "copy-of-older", "a kept copy of an older ownership than the last one",
    /// A section is thawed because a repeated commit was refused.
    ThawLost: "thaw-lost", "a thaw at a refusal, whatever the ownership update contains",
    /// A refused commit extends the lease.
    RefusedExtends: "refused-extends", "a lease extended by a refused commit",
    /// The owner uses only the raw clock, which stops while the machine is suspended.
    SuspendStops: "suspend-stops", "an owner's clock that stands still in suspend",
    /// The arbiter reads its clock before it reads the state, so that the state may be newer than the reading of the
    /// clock.
    ClockBeforeState: "clock-before-state", "an arbiter's clock read before the state that it dates",
    /// The arbiter waits for as long as the set's terms require, even if the incarnation was granted a longer lease.
    WaitByTerms: "wait-by-terms", "a wait by the terms in force, not by the lease that the incarnation was granted",
    /// A registration is accepted even if it names an older incarnation than the newest as its predecessor.
    AnyPredecessor: "any-predecessor", "a delayed duplicate of a registration that begins a new incarnation",
    /// A process keeps a section although the store gave it to another owner.
    KeepsLost: "keeps-lost", "a section kept that the store gave to somebody else",
    /// After a takeover the ceiling is the `prev` of the first number.
    PrevIsCeiling: "prev-is-ceiling", "a `prev` after a takeover that is the ceiling",
    /// After an advance its target is the `prev` of the next number.
    PrevIsTarget: "prev-is-target", "a `prev` after an advance that is its target",
    /// A copy lacks the marks of advanced slots.
    UnmarkedCopy: "unmarked-copy", "a copy without the marks of advanced uids",
    /// Every reading is marked as exact.
    ExactAlways: "exact-always", "an upper bound that is called exact",
    /// If a forwarded call was given up and retried, the response does not count the attempts that were given up.
    UncountedRepeat: "uncounted-repeat", "a forwarded call repeated after a timeout, and not counted as lost",
    /// A call that was forwarded to an owner is abandoned as soon as the owner is replaced, before the owner can
    /// respond.
    AbandonsAtOnce: "abandons-at-once", "a forwarded call abandoned as soon as its owner is replaced",
    /// A call that was forwarded to an owner is never abandoned, even if the owner is replaced.
    NeverAbandons: "never-abandons", "a forwarded call that waits for an owner that was replaced",
    /// A pending call is retried only if the table, the routes, the lease or a ceiling changes.
    NeverRetries: "never-retries", "a pending call without retries",
    /// A forwarded call does not count its hops.
    UncountedHops: "uncounted-hops", "a forwarded call whose hops are not counted",
    /// A call waits at a node that will not own the call's section.
    WaitsAstray: "waits-astray", "a call that was forwarded twice and waits where its section is not expected",
    /// The target of a handover serves the section as soon as the source sends an Activate, without a grant of the
    /// store.
    TrustsActivate: "trusts-activate", "a section served on an Activate, without a grant of the store",
    /// A process uses responses of a store that was restored to an earlier state.
    TrustsRolledBackStore: "trusts-rolled-back-store", "a response used although the store is behind what it answered before",
    /// A response of a peer extends an expired lease.
    PeerRoutesExtend: "peer-routes-extend-lease", "a lease extended by the routes of a peer",
    /// The lease counts from the clocks that were read before the latest attempt of a request, even if the response
    /// belongs to an earlier attempt.
    ClockPerAttempt: "clock-per-attempt", "a lease counted from a later attempt than the one that was answered",
    /// A renewal without a response is not repeated.
    RenewsOnce: "renews-once", "a renewal that failed and is not repeated",
    /// A raise without a response is not queued again.
    ForgetsFailedRaise: "forgets-failed-raise", "a raise that failed and is not queued again",
    /// Numbers are allocated up to a requested ceiling before the store has committed the ceiling.
    CeilingBeforeCommit: "ceiling-before-commit", "a ceiling used before the store has committed it",
    /// A process that begins a new incarnation forgets the newest state of the store that it has seen.
    ForgetsWhatItSaw: "forgets-what-it-saw", "a registration that does not say what its process has seen of the store",
    /// A registration replaces the lease on record even if the incarnation that it ends has a longer lease.
    NewestLease: "newest-lease", "a registration that forgets the longer lease of the incarnation before",
    /// A renewal that is applied again does not move the liveness counter.
    RepeatNotCounted: "repeat-not-counted", "a repeated renewal that moves no liveness counter",
    /// A raise of which no section was accepted does not move the liveness counter.
    RefusedRaiseNotCounted: "refused-raise-not-counted", "a raise without an accepted section that moves no liveness counter",
    /// A transfer that is applied again does not move the liveness counter.
    TransferRepeatNotCounted: "transfer-repeat-not-counted", "a repeated transfer that moves no liveness counter",
    /// The owner serves until a margin after the end of its lease, instead of a margin before the end.
    ServedPastMargin: "served-past-margin", "an owner that serves for the lease and its margin",
    /// After a process has adopted routes of a peer, its next request to the store names the version of these routes,
    /// so that the store does not send the whole table.
    PeerRoutesNoWhole: "peer-routes-no-whole", "routes of a peer after which the store is not asked for the whole table",
    /// A pause of balancing keeps sections at dead owners.
    PauseStopsTakeovers: "pause-stops-takeovers", "a pause of balancing that stops takeovers too",
    /// A section that an operator moves is reassigned as if its owner were dead.
    MoveByReassign: "move-by-reassign", "a section that an operator moves without its living owner",
    /// An ownership of timed lanes begins at the tick of its owner's clock instead of at the ceiling.
    StartsAtClock: "starts-at-clock", "lanes: an ownership that begins at its clock, not at the ceiling",
    /// An id above the ceiling is given out, and the ceiling is raised afterwards.
    ReportedAfter: "reported-after", "lanes: a ceiling that is raised after its ids were given out",
    /// A section of timed lanes is granted with the ceiling that the section had when its handover was planned.
    EarlierCeiling: "earlier-ceiling", "lanes: a ceiling handed over that was read before the change of owner",
    /// After the clock went back, a tick that was given out before is given out again.
    RepeatsBack: "repeats-back", "lanes: the last tick forgotten when the clock goes back",
    /// A sequence number that overflows wraps around within the same unit of time.
    OverflowWraps: "overflow-wraps", "lanes: a sequence number that wraps around within its unit",
    /// An id above the ceiling is given out, and no ceiling is raised.
    AboveCeiling: "above-ceiling", "lanes: an id above the ceiling",
    /// The arbiter gives sections of lanes to AllocSvrs of an earlier release, which cannot serve lanes.
    LanesToOldNodes: "lanes-to-old-nodes", "lanes: a section of lanes given to an AllocSvr that does not read them",
    /// The distance by which ids may be ahead of the clock has no limit.
    UnboundedAhead: "unbounded-ahead", "lanes: borrowing that `ahead` does not bound",
    /// Raises of timed lanes are not bounded by the clock of the store.
    UnclampedRaise: "unclamped-raise", "lanes: a raise of ticks that the clock of the store does not bound",
    /// Counters and lanes that callers name are served without a lease.
    AllUnleased: "all-unleased", "lanes: a counter or a named lane served without a lease",
    /// A store sends the arrival of a section to the other set although the departure is only proposed, and never
    /// committed.
    ArriveBeforeCommit: "arrive-before-commit", "two sets: an arrival of a departure that is only proposed",
    /// A store raises its fence of a section because the directory has a newer claim.
    GossipFences: "gossip-fences", "two sets: a claim of the directory that raises a fence",
    /// A tombstone is deleted once its section has arrived.
    TombstoneDeleted: "tombstone-deleted", "two sets: a tombstone deleted when its section has arrived",
    /// A repeated arrival of a section overwrites the section's ceiling.
    RepeatedArriveWrites: "repeated-arrive-writes", "two sets: a repeated arrival that writes the record again",
    /// A tombstone has the ceiling that its section had when the migration was planned.
    CeilingOfThePlan: "ceiling-of-the-plan", "two sets: a tombstone with the ceiling of when the move was planned",
    /// A section departs without its owner although the owner is alive.
    SilentAtOnce: "silent-at-once", "two sets: a section that departs without its living owner",
    /// A set that rolls back a migration takes its sections back without the other set.
    RollbackByFiat: "rollback-by-fiat", "two sets: a rollback that takes the sections without the other set",
    /// A restored set serves its sections at once, at the ceilings of its backup, without a quarantine.
    ServesAtOnce: "serves-at-once", "two sets: a restored set without quarantine",
    /// A restored set adds a single margin to its ceilings, for any number of restores.
    OneMargin: "one-margin", "two sets: one margin for any number of restores",
    /// A departure is refused while its migration is paused.
    PauseRefuses: "pause-refuses", "two sets: a departure refused while its migration is paused",
    /// A quarantine ends after a response that another set only read from its state. The log of that set has no entry
    /// for the fence.
    QuarantineByReading: "quarantine-by-reading", "two sets: a quarantine that ends without a fence in the other log",
    /// A quarantine ends before the leases of the older lineage have expired.
    QuarantineWithoutWait: "quarantine-without-wait", "two sets: a quarantine that outlasts no lease",
    /// The staged copy of a departure is used even if it belongs to another attempt.
    SetsStaleCopy: "sets-stale-copy", "two sets: a staged copy used by its epoch alone",
    /// A section is thawed although its departure may have been committed.
    SetsThawUnknown: "sets-thaw-unknown", "two sets: a thaw without a definite response",
    /// A section is thawed because its departure was refused, although a later log entry may lift this refusal.
    SetsThawInconclusive: "sets-thaw-inconclusive", "two sets: a thaw after a refusal that a later entry lifts",
    /// A departure that is applied again does not move the liveness counter.
    DepartRepeatNotCounted: "depart-repeat-not-counted", "two sets: a repeated departure that moves no liveness counter",
    /// A node that received a call from another set forwards the call to another set again.
    SendsOnward: "sends-onward", "two sets: a call that any node forwards to another set",
    /// A call is sent to another set again at once, even if the claim that names the set is not newer than the claim
    /// that the call followed before.
    FollowsAgain: "follows-again", "two sets: a claim that is followed although it is not newer",
    /// A closing set names owners for sections that would arrive from other sets.
    ReservesWhileClosing: "reserves-while-closing", "two sets: a closing set that names owners for sections to come",
    /// A set counts as down after one round of probes.
    DownTooEarly: "down-too-early", "two sets: a set that counts as down after one missed probe",
    /// A counter with few ids has the restore margin of uids, which is far too large for it.
    WideMargin: "wide-margin", "two sets: a margin of 2^40 for a small counter",
    /// A counter of a series has no restore margin.
    NoMargin: "no-margin", "two sets: a counter without a margin",
    /// After a restore, the ceiling of timed lanes is a lead above the ceiling in the backup, even if the backup is
    /// much older than the restore.
    RestoredWithoutClock: "restored-without-clock", "two sets: a ceiling of ticks restored without the time of the restore",
    /// A series that a restore has lost is created again at its start.
    RecreatedAtStart: "recreated-at-start", "two sets: a lost series that is created again at its start",
    /// A set creates a series although it has handed the creation of series to the other set.
    FormerWriterAppends: "former-writer-appends", "two sets: a series created by the set that handed this to the other set",
    /// A set to which the creation of series was handed creates a series before it has adopted the earlier series.
    WriterBeforeAdoption: "writer-before-adoption", "two sets: a series created by the next set before it has the earlier ones",
    /// The operator computes the count of a restore from the restores since the backup was made.
    NthOfBackup: "nth-of-backup", "restores: a count of the restores since the backup was made",
    /// The operator computes the count of a restore from the notebook alone, although a set may have begun a lineage
    /// that is not in the notebook.
    NotebookAlone: "notebook-alone", "restores: a count above the notebook alone, while a set may have moved on unseen",
    /// The operator restores from a backup whose history was abandoned when the set was restored from an older backup.
    AbandonedHistory: "abandoned-history", "restores: a backup of a history that was given up for an older backup",
    /// A set compares the count of a fence only with the count of its own lineage.
    FenceOfOwnCount: "fence-of-own-count", "restores: a fence compared with the own count only, and a lineage of the count that one set requires",
    /// A quarantine waits only for as long as leases under the terms of its own set last.
    WaitsByOwnTerms: "waits-by-own-terms", "restores: a quarantine that outlasts the leases of its own set's terms only",
    /// The fingerprint that restored store members compare before they form a group is computed from the lineage alone,
    /// so that members restored from different backups can form one group.
    MembersNeedNotAgree: "members-need-not-agree", "restores: a group whose members began with different backups",
    /// A restore with a larger margin does not increase the count of restores, so the next restore uses the default
    /// margin again.
    MarginFalls: "margin-falls", "restores: a larger margin that is followed by the default one",
    /// The count of a restore from a recovered backup is the next count after the backup, although there may have been
    /// restores since.
    RecoveredCountedAnew: "recovered-counted-anew", "restores: a recovered backup whose restores are counted anew",
    /// A set notes that it has received a closing set's final records, without keeping the records.
    InheritanceSkipped: "inheritance-skipped", "restores: a set that closes before another one has its records",
    /// Claims that a set stated are kept although the set was restored since.
    VoidKeepsClaims: "void-keeps-claims", "restores: responses kept although their set was restored since",
    /// A set closes while sections may be on their way to it.
    ClosesAtOnce: "closes-at-once", "restores: a set that closes without waiting for the other sets",
    /// A section departs to a set that closes.
    DepartsToClosing: "departs-to-closing", "restores: a departure to a closing set that is accepted",
    /// An arrival is accepted although the record of the section already has the epoch of the arrival.
    EqualFenceArrives: "equal-fence-arrives", "restores: an arrival accepted under the epoch of the record",
}

impl Bug {
    /// Returns whether the bug is planted in worlds of two sets.
    #[must_use]
    pub fn is_between_sets(self) -> bool {
        self as usize >= Bug::ArriveBeforeCommit as usize && !self.is_of_restores()
    }

    /// Returns whether the bug is planted in worlds of restores.
    #[must_use]
    pub fn is_of_restores(self) -> bool {
        self as usize >= Bug::NthOfBackup as usize
    }
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A seed in which a planted bug breaks a promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caught {
    /// The first seed that breaks a promise.
    pub seed: u64,
    /// Number of seeds that were run, including `seed`.
    pub seeds: u64,
    /// The broken promise.
    pub violation: Violation,
}

/// Runs seeds from `from` on until a planted bug is caught; returns `None` if `most` seeds were not enough.
#[must_use]
pub fn hunt(bug: Bug, from: u64, most: u64) -> Option<Caught> {
    (1..).zip(from..from + most).find_map(|(seeds, seed)| {
        let violation = run(&Run { seed, bug: Some(bug), ..Run::default() }).violation?;
        Some(Caught { seed, seeds, violation })
    })
}
