//! Bugs that are planted into the world's own shell, or between it and the core. Each must be caught.

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
    /// The lease is counted from the response.
    ExpiryFromAnswer: "expiry-from-answer", "a lease counted from its answer",
    /// The clock was read before the call arrived.
    CachedClock: "cached-clock", "a clock read before the call arrived",
    /// Commands that were applied since the arbiter's evaluation are not compared.
    NoCompare: "no-compare", "a change of owner applied although the owner renewed since",
    /// Commands since the arbiter's evaluation are not compared if the owner's incarnation ended in the meantime.
    NoCompareOver: "no-compare-over", "the same, where the owner's session ended in between",
    /// The arbiter's wait for an ended incarnation counts from the last move of its liveness counter.
    WaitOfOver: "wait-of-over", "the wait for an ended session, counted from its last renewal",
    /// A raise is applied under any epoch.
    UnfencedRaise: "unfenced-raise", "a raise applied whatever its epoch",
    /// A new owner starts below the ceiling.
    BelowCeiling: "below-ceiling", "a takeover that starts below the ceiling",
    /// The arbiter waits less than a lease.
    ShortWait: "short-wait", "a wait shorter than the lease",
    /// The copy is made while numbers are still allocated.
    NoFreeze: "no-freeze", "a copy made without freezing",
    /// The lease is extended, then the ownership update is adopted.
    LeaseBeforeNews: "lease-before-update", "a lease extended before the update of the same response is adopted",
    /// The table is read, then the lease.
    TableBeforeLease: "table-before-lease", "the table read before the lease",
    /// A staged copy is used even if it belongs to another attempt.
    StaleCopy: "stale-copy", "a staged copy used by its epoch alone",
    /// A section is thawed although its handover may have been committed.
    ThawUnknown: "thaw-unknown", "a thaw without a definite answer",
    /// A section that was frozen for its release is served again.
    ThawReleased: "thaw-released", "a section served again after its copy was sent for its release",
    /// The store keeps a copy after an ownership has started from it.
    CopyUsedTwice: "copy-used-twice", "a kept copy that two ownerships start from",
    /// The store keeps a copy even if another ownership began since.
    CopyOfOlder: "copy-of-older", "a kept copy of an older ownership than the last one",
    /// A section is thawed because a repeated commit was refused.
    ThawLost: "thaw-lost", "a thaw at a refusal, whatever the ownership update contains",
    /// A refused commit extends the lease.
    RefusedExtends: "refused-extends", "a lease extended by a refused commit",
    /// The owner trusts the raw clock alone, which stops in suspend.
    SuspendStops: "suspend-stops", "an owner's clock that stands still in suspend",
    /// The arbiter reads its clock before the state, so that the state may be newer than its time.
    ClockBeforeState: "clock-before-state", "an arbiter's clock read before the state that it dates",
    /// The arbiter waits by the set's terms, without regard to the lease of the incarnation.
    WaitByTerms: "wait-by-terms", "a wait by the terms in force, not by the lease that the incarnation was granted",
    /// A registration is accepted even if it follows an older incarnation than the newest.
    AnyPredecessor: "any-predecessor", "a delayed duplicate of a registration that begins a new incarnation",
    /// A section that the store gave to another owner is kept.
    KeepsLost: "keeps-lost", "a section kept that the store gave to somebody else",
    /// After a takeover the ceiling is the `prev` of the first number.
    PrevIsCeiling: "prev-is-ceiling", "a `prev` after a takeover that is the ceiling",
    /// After an advance its target is the `prev` of the next number.
    PrevIsTarget: "prev-is-target", "a `prev` after an advance that is its target",
    /// A copy lacks the marks of advanced slots.
    UnmarkedCopy: "unmarked-copy", "a copy without the marks of advanced uids",
    /// Every reading is marked as exact.
    ExactAlways: "exact-always", "an upper bound that is called exact",
    /// The response to a call that was forwarded, given up and retried counts one attempt.
    UncountedRepeat: "uncounted-repeat", "a forwarded call repeated after a timeout, and not counted as lost",
    /// A request to an owner that was replaced is abandoned before that owner can respond.
    AbandonsAtOnce: "abandons-at-once", "a forwarded call abandoned as soon as its owner is replaced",
    /// A request to an owner that was replaced is never abandoned.
    NeverAbandons: "never-abandons", "a forwarded call that waits for an owner that was replaced",
    /// A pending call is retried only if the table, the routes, the lease or a ceiling changes.
    NeverRetries: "never-retries", "a pending call without retries",
    /// A forwarded call does not count its hops.
    UncountedHops: "uncounted-hops", "a forwarded call whose hops are not counted",
    /// A call waits at a node that will not own its section.
    WaitsAstray: "waits-astray", "a call that was forwarded twice and waits where its section is not expected",
    /// A target serves on the Activate of a peer.
    TrustsActivate: "trusts-activate", "a section served on an Activate, without a grant of the store",
    /// A process uses responses of a store that was restored to an earlier state.
    TrustsRolledBackStore: "trusts-rolled-back-store", "a response used although the store is behind what it answered before",
    /// A response of a peer extends an expired lease.
    PeerRoutesExtend: "peer-routes-extend-lease", "a lease extended by the routes of a peer",
    /// The lease counts from the clocks before the latest attempt, even if an earlier attempt gets the response.
    ClockPerAttempt: "clock-per-attempt", "a lease counted from a later attempt than the one that was answered",
    /// A renewal without a response is not repeated.
    RenewsOnce: "renews-once", "a renewal that failed and is not repeated",
    /// A raise without a response is not queued again.
    ForgetsFailedRaise: "forgets-failed-raise", "a raise that failed and is not queued again",
    /// Numbers are allocated up to the ceiling that is requested.
    CeilingBeforeCommit: "ceiling-before-commit", "a ceiling used before the store has committed it",
    /// A process that begins a new incarnation forgets the newest response that it received.
    ForgetsWhatItSaw: "forgets-what-it-saw", "a registration that does not say what its process has seen of the store",
    /// A registration forgets the longer lease of the incarnation that it ends.
    NewestLease: "newest-lease", "a registration that forgets the longer lease of the incarnation before",
    /// A renewal that is applied again does not move the liveness counter.
    RepeatNotCounted: "repeat-not-counted", "a repeated renewal that moves no liveness counter",
    /// A raise without an accepted section does not move the liveness counter.
    RefusedRaiseNotCounted: "refused-raise-not-counted", "a raise without an accepted section that moves no liveness counter",
    /// A transfer that is applied again does not move the liveness counter.
    TransferRepeatNotCounted: "transfer-repeat-not-counted", "a repeated transfer that moves no liveness counter",
    /// The owner serves for the lease and its margin.
    ServedPastMargin: "served-past-margin", "an owner that serves for the lease and its margin",
    /// Routes of a peer are adopted, and the next request names their version.
    PeerRoutesNoWhole: "peer-routes-no-whole", "routes of a peer after which the store is not asked for the whole table",
    /// A pause of balancing keeps sections at dead owners.
    PauseStopsTakeovers: "pause-stops-takeovers", "a pause of balancing that stops takeovers too",
    /// A section is moved as if its owner were dead.
    MoveByReassign: "move-by-reassign", "a section that an operator moves without its living owner",
    /// An ownership of ticks begins at the clock of its owner.
    StartsAtClock: "starts-at-clock", "lanes: an ownership that begins at its clock, not at the ceiling",
    /// A tick above the ceiling is given out, and the ceiling is raised afterwards.
    ReportedAfter: "reported-after", "lanes: a ceiling that is raised after its ids were given out",
    /// A section of ticks is granted with the ceiling that it had when its handover was planned.
    EarlierCeiling: "earlier-ceiling", "lanes: a ceiling handed over that was read before the change of owner",
    /// The tick of a clock that went back is given out again.
    RepeatsBack: "repeats-back", "lanes: the last tick forgotten when the clock goes back",
    /// A sequence number that overflows begins the same unit of time again.
    OverflowWraps: "overflow-wraps", "lanes: a sequence number that wraps around within its unit",
    /// A tick above the ceiling is given out, and no ceiling is raised.
    AboveCeiling: "above-ceiling", "lanes: an id above the ceiling",
    /// The arbiter proposes AllocSvrs of an earlier release for lanes.
    LanesToOldNodes: "lanes-to-old-nodes", "lanes: a section of lanes given to an AllocSvr that does not read them",
    /// The window of a tick has no limit.
    UnboundedAhead: "unbounded-ahead", "lanes: borrowing that `ahead` does not bound",
    /// Raises of ticks are proposed as requested.
    UnclampedRaise: "unclamped-raise", "lanes: a raise of ticks that the clock of the store does not bound",
    /// Counters and lanes that callers name are served without a lease.
    AllUnleased: "all-unleased", "lanes: a counter or a named lane served without a lease",
    /// A store sends the Arrive of a departure that is only proposed, and never committed.
    ArriveBeforeCommit: "arrive-before-commit", "two sets: an arrival of a departure that is only proposed",
    /// A store raises its fence to a newer claim of the directory.
    GossipFences: "gossip-fences", "two sets: a claim of the directory that raises a fence",
    /// A tombstone is deleted once its section has arrived.
    TombstoneDeleted: "tombstone-deleted", "two sets: a tombstone deleted when its section has arrived",
    /// A repeated arrival writes its ceiling.
    RepeatedArriveWrites: "repeated-arrive-writes", "two sets: a repeated arrival that writes the record again",
    /// A tombstone has the ceiling that its section had when the move was planned.
    CeilingOfThePlan: "ceiling-of-the-plan", "two sets: a tombstone with the ceiling of when the move was planned",
    /// A section of a living owner departs without it.
    SilentAtOnce: "silent-at-once", "two sets: a section that departs without its living owner",
    /// A set that rolls back takes its sections by itself.
    RollbackByFiat: "rollback-by-fiat", "two sets: a rollback that takes the sections without the other set",
    /// A restored set is resident at once, at the ceilings of its backup.
    ServesAtOnce: "serves-at-once", "two sets: a restored set without quarantine",
    /// A restored set adds one margin, for any number of restores.
    OneMargin: "one-margin", "two sets: one margin for any number of restores",
    /// A departure is refused while its migration is paused.
    PauseRefuses: "pause-refuses", "two sets: a departure refused while its migration is paused",
    /// A quarantine ends on a response that another set only read from its state, without an entry in its log.
    QuarantineByReading: "quarantine-by-reading", "two sets: a quarantine that ends without a fence in the other log",
    /// A quarantine ends before the leases of the older lineage.
    QuarantineWithoutWait: "quarantine-without-wait", "two sets: a quarantine that outlasts no lease",
    /// A staged copy is used even if it belongs to another attempt.
    SetsStaleCopy: "sets-stale-copy", "two sets: a staged copy used by its epoch alone",
    /// A section is thawed although its departure may have been committed.
    SetsThawUnknown: "sets-thaw-unknown", "two sets: a thaw without a definite response",
    /// A section is thawed after a refusal of its departure that a later entry lifts.
    SetsThawInconclusive: "sets-thaw-inconclusive", "two sets: a thaw after a refusal that a later entry lifts",
    /// A departure that is applied again does not move the liveness counter.
    DepartRepeatNotCounted: "depart-repeat-not-counted", "two sets: a repeated departure that moves no liveness counter",
    /// A node that received a call from another set sends it to another set again.
    SendsOnward: "sends-onward", "two sets: a call that any node forwards to another set",
    /// A section is followed at once on a claim that is not newer.
    FollowsAgain: "follows-again", "two sets: a claim that is followed although it is not newer",
    /// A closing set names owners for sections of other sets.
    ReservesWhileClosing: "reserves-while-closing", "two sets: a closing set that names owners for sections to come",
    /// A set counts as down after one round of probes.
    DownTooEarly: "down-too-early", "two sets: a set that counts as down after one missed probe",
    /// The margin of a small counter is that of uids.
    WideMargin: "wide-margin", "two sets: a margin of 2^40 for a small counter",
    /// A counter has no margin.
    NoMargin: "no-margin", "two sets: a counter without a margin",
    /// The ceiling of ticks after a restore is a lead above that of the backup.
    RestoredWithoutClock: "restored-without-clock", "two sets: a ceiling of ticks restored without the time of the restore",
    /// A series that a restore has lost is created again at its start.
    RecreatedAtStart: "recreated-at-start", "two sets: a lost series that is created again at its start",
    /// A set creates a series although it has handed the creation of series to the other set.
    FormerWriterAppends: "former-writer-appends", "two sets: a series created by the set that handed this to the other set",
    /// A set creates a series although it has not adopted the series before the hand-over to it.
    WriterBeforeAdoption: "writer-before-adoption", "two sets: a series created by the next set before it has the earlier ones",
    /// The operator counts the restores since a backup.
    NthOfBackup: "nth-of-backup", "restores: a count of the restores since the backup was made",
    /// The operator trusts the notebook alone, although a set may have begun a lineage unseen.
    NotebookAlone: "notebook-alone", "restores: a count above the notebook alone, while a set may have moved on unseen",
    /// The operator restores from a backup whose history the restore of an older backup has abandoned.
    AbandonedHistory: "abandoned-history", "restores: a backup of a history that was given up for an older backup",
    /// A set compares a fence with the count of its own lineage only.
    FenceOfOwnCount: "fence-of-own-count", "restores: a fence compared with the own count only, and a lineage of the count that one set requires",
    /// A quarantine waits by the terms of its own set.
    WaitsByOwnTerms: "waits-by-own-terms", "restores: a quarantine that outlasts the leases of its own set's terms only",
    /// The identity of a restored group covers only its lineage, so that members with other backups may join.
    MembersNeedNotAgree: "members-need-not-agree", "restores: a group whose members began with different backups",
    /// A larger margin does not increase the count, and the next restore uses the default margin.
    MarginFalls: "margin-falls", "restores: a larger margin that is followed by the default one",
    /// The first restore from a recovered backup has the first count after the backup.
    RecoveredCountedAnew: "recovered-counted-anew", "restores: a recovered backup whose restores are counted anew",
    /// A set notes the pages of a closing set's records without keeping the records.
    InheritanceSkipped: "inheritance-skipped", "restores: a set that closes before another one has its records",
    /// The claims of a set are kept although the set was restored since.
    VoidKeepsClaims: "void-keeps-claims", "restores: responses kept although their set was restored since",
    /// A set closes while sections may be on their way to it.
    ClosesAtOnce: "closes-at-once", "restores: a set that closes without waiting for the other sets",
    /// A section departs to a set that closes.
    DepartsToClosing: "departs-to-closing", "restores: a departure to a closing set that is accepted",
    /// An arrival is accepted under the epoch that the record already has.
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
