//! Planted bugs. Each bug changes the simulated code around the state machines of `seq-core`, or the data that this
//! code exchanges with them. The simulator is tested by planting a bug, which its checks must catch.

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
    /// An owner counts its lease from the arrival of the store's response instead of from the time at which it sent the
    /// request.
    ExpiryFromAnswer: "expiry-from-answer", "a lease counted from its answer",
    /// The clock was read before the call arrived.
    CachedClock: "cached-clock", "a clock read before the call arrived",
    /// The store applies a change of owner even if the owner's liveness counter has moved since the arbiter decided the
    /// change.
    NoCompare: "no-compare", "a change of owner applied although the owner renewed since",
    /// The store applies a change of owner even if the owner's incarnation has ended since the arbiter decided the
    /// change.
    NoCompareOver: "no-compare-over", "the same, where the owner's session ended in between",
    /// Before it replaces an owner whose incarnation has ended, the arbiter counts its wait from the last move of that
    /// incarnation's liveness counter, instead of from the end of the incarnation.
    WaitOfOver: "wait-of-over", "the wait for an ended session, counted from its last renewal",
    /// A raise is applied under any epoch.
    UnfencedRaise: "unfenced-raise", "a raise applied whatever its epoch",
    /// A new owner starts below the ceiling.
    BelowCeiling: "below-ceiling", "a takeover that starts below the ceiling",
    /// The arbiter waits less than a lease.
    ShortWait: "short-wait", "a wait shorter than the lease",
    /// The owner makes the copy for a handover while it still allocates numbers.
    NoFreeze: "no-freeze", "a copy made without freezing",
    /// An owner extends its lease before it adopts the ownership update that came in the same response.
    LeaseBeforeNews: "lease-before-update", "a lease extended before the update of the same response is adopted",
    /// A call reads the table of owned sections before it reads the lease.
    TableBeforeLease: "table-before-lease", "the table read before the lease",
    /// The next owner starts a section from a staged copy even if the copy was staged by another attempt of the
    /// handover.
    StaleCopy: "stale-copy", "a staged copy used by its epoch alone",
    /// A section is thawed although its handover may have been committed.
    ThawUnknown: "thaw-unknown", "a thaw without a definite answer",
    /// A section that was frozen for its release is served again.
    ThawReleased: "thaw-released", "a section served again after its copy was sent for its release",
    /// The store does not delete a kept copy after an ownership has started from the copy, so a second ownership can
    /// start from it.
    CopyUsedTwice: "copy-used-twice", "a kept copy that two ownerships start from",
    /// The store keeps the copy of an ended ownership even if another ownership of the section has begun since then.
    CopyOfOlder: "copy-of-older", "a kept copy of an older ownership than the last one",
    /// An owner thaws a section because the store refused the repeated commit of the section's handover, although the
    /// first commit may have been applied.
    ThawLost: "thaw-lost", "a thaw at a refusal, whatever the ownership update contains",
    /// A refused commit extends the lease.
    RefusedExtends: "refused-extends", "a lease extended by a refused commit",
    /// The owner uses only the raw clock, which stops while the machine is suspended.
    SuspendStops: "suspend-stops", "an owner's clock that stands still in suspend",
    /// The arbiter reads its clock before it reads the state, so that the state may be newer than the reading of the
    /// clock.
    ClockBeforeState: "clock-before-state", "an arbiter's clock read before the state that it dates",
    /// Before it replaces an owner, the arbiter waits only for the lease wait in the set's current terms, even if the
    /// owner's incarnation was granted a longer lease.
    WaitByTerms: "wait-by-terms", "a wait by the terms in force, not by the lease that the incarnation was granted",
    /// The store accepts a registration even if the incarnation that the registration names as its predecessor is not
    /// the newest incarnation of the node.
    AnyPredecessor: "any-predecessor", "a delayed duplicate of a registration that begins a new incarnation",
    /// A process keeps serving a section although the store gave the section to another owner.
    KeepsLost: "keeps-lost", "a section kept that the store gave to somebody else",
    /// The first number after a takeover has the ceiling as its `prev`.
    PrevIsCeiling: "prev-is-ceiling", "a `prev` after a takeover that is the ceiling",
    /// The first number after an advance has the target of the advance as its `prev`.
    PrevIsTarget: "prev-is-target", "a `prev` after an advance that is its target",
    /// A copy lacks the marks of advanced slots.
    UnmarkedCopy: "unmarked-copy", "a copy without the marks of advanced uids",
    /// Every reading is marked as exact.
    ExactAlways: "exact-always", "an upper bound that is called exact",
    /// If a node gave up and retried a call that it had forwarded, the response to the caller does not count the
    /// attempts that were given up.
    UncountedRepeat: "uncounted-repeat", "a forwarded call repeated after a timeout, and not counted as lost",
    /// A node gives up a call that it forwarded to an owner as soon as that owner is replaced, before the owner can
    /// respond.
    AbandonsAtOnce: "abandons-at-once", "a forwarded call abandoned as soon as its owner is replaced",
    /// A node never gives up a call that it forwarded to an owner, even if that owner is replaced.
    NeverAbandons: "never-abandons", "a forwarded call that waits for an owner that was replaced",
    /// A node retries a pending call only if its table of owned sections, its routes, its lease or a ceiling changes,
    /// but not after some time without a change.
    NeverRetries: "never-retries", "a pending call without retries",
    /// A forwarded call does not count its hops.
    UncountedHops: "uncounted-hops", "a forwarded call whose hops are not counted",
    /// A call waits at a node that will not own the call's section.
    WaitsAstray: "waits-astray", "a call that was forwarded twice and waits where its section is not expected",
    /// The target of a handover serves the section as soon as the source sends an Activate, without a grant of the
    /// store.
    TrustsActivate: "trusts-activate", "a section served on an Activate, without a grant of the store",
    /// A process uses responses of a store that was put back to an earlier state.
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
    /// A process that begins a new incarnation forgets the newest revision of the store that it has received, which its
    /// registration should state.
    ForgetsWhatItSaw: "forgets-what-it-saw", "a registration that does not say what its process has seen of the store",
    /// A registration replaces the recorded lease of its node even if the incarnation that the registration ends was
    /// granted a longer lease.
    NewestLease: "newest-lease", "a registration that forgets the longer lease of the incarnation before",
    /// A repeated renewal that the store applies again does not move the liveness counter of the node.
    RepeatNotCounted: "repeat-not-counted", "a repeated renewal that moves no liveness counter",
    /// A raise request does not move the liveness counter of its node if the store refuses the raise of each of its
    /// sections.
    RefusedRaiseNotCounted: "refused-raise-not-counted", "a raise without an accepted section that moves no liveness counter",
    /// A repeated transfer that the store applies again does not move the liveness counter of the node.
    TransferRepeatNotCounted: "transfer-repeat-not-counted", "a repeated transfer that moves no liveness counter",
    /// The owner serves until a margin after the end of its lease, instead of a margin before the end.
    ServedPastMargin: "served-past-margin", "an owner that serves for the lease and its margin",
    /// After a process has adopted routes of a peer, its next request to the store names the version of these routes,
    /// so the store sends only the changes since that version instead of the whole table.
    PeerRoutesNoWhole: "peer-routes-no-whole", "routes of a peer after which the store is not asked for the whole table",
    /// While balancing is paused, the arbiter replaces no dead owners.
    PauseStopsTakeovers: "pause-stops-takeovers", "a pause of balancing that stops takeovers too",
    /// The arbiter replaces the owner of a section that an operator moves, as if the owner were dead, instead of
    /// planning a handover.
    MoveByReassign: "move-by-reassign", "a section that an operator moves without its living owner",
    /// The report of the death of a process ends the newest incarnation of the node, even if the incarnation belongs to
    /// another process.
    DeathOfNode: "death-of-node", "deaths: a report that names the node and not the process",
    /// The death of a process is reported when the process got the signal to end, while it still serves.
    DeathOfSignalled: "death-of-signalled", "deaths: a process that is reported before it is reaped",
    /// The death of a process is reported because the process does not respond.
    DeathOfSilent: "death-of-silent", "deaths: a process that is reported because it is silent",
    /// After a process of a node has died, the arbiter gives the sections of all incarnations of the node to other
    /// nodes without a wait.
    DeathOfEarlier: "death-of-earlier", "deaths: sections of another incarnation given away without a wait",
    /// All processes of an AllocSvr state the same number.
    ReusedProcessNumber: "reused-process-number", "deaths: a number that the next process has as well",
    /// The store applies commands of an incarnation that was reported dead.
    DeadMayRaise: "dead-may-raise", "deaths: a raise of a dead incarnation that is applied",
    /// The store accepts registrations of a process that was reported dead.
    DeadMayRegister: "dead-may-register", "deaths: a registration of a dead process that is accepted",
    /// An ownership of timed lanes begins at the tick of its owner's clock instead of at the ceiling.
    StartsAtClock: "starts-at-clock", "lanes: an ownership that begins at its clock, not at the ceiling",
    /// An owner gives out an id above the ceiling, and raises the ceiling afterwards.
    ReportedAfter: "reported-after", "lanes: a ceiling that is raised after its ids were given out",
    /// The store grants a section of timed lanes with the ceiling that the section had when its handover was planned,
    /// instead of its current ceiling.
    EarlierCeiling: "earlier-ceiling", "lanes: a ceiling handed over that was read before the change of owner",
    /// After its clock was set back, an owner gives out a tick again that it has given out before.
    RepeatsBack: "repeats-back", "lanes: the last tick forgotten when the clock goes back",
    /// If the sequence number in an id overflows, it wraps around within the same unit of time, instead of carrying
    /// into the time.
    OverflowWraps: "overflow-wraps", "lanes: a sequence number that wraps around within its unit",
    /// An owner gives out an id above the ceiling, and does not raise the ceiling at all.
    AboveCeiling: "above-ceiling", "lanes: an id above the ceiling",
    /// The arbiter gives sections of lanes to AllocSvrs of an earlier release, which cannot serve lanes.
    LanesToOldNodes: "lanes-to-old-nodes", "lanes: a section of lanes given to an AllocSvr that does not read them",
    /// There is no limit on the time by which the times in ids may be ahead of the clock.
    UnboundedAhead: "unbounded-ahead", "lanes: borrowing that `ahead` does not bound",
    /// The store does not limit how far a raise of timed lanes sets the ceiling ahead of the store's clock.
    UnclampedRaise: "unclamped-raise", "lanes: a raise of ticks that the clock of the store does not bound",
    /// An owner serves counters, and lanes that callers name, even without a lease.
    AllUnleased: "all-unleased", "lanes: a counter or a named lane served without a lease",
    /// An eviction drops counters, and the floor of the bucket stays as it is.
    EvictionWithoutFloor: "eviction-without-floor", "keys: counters dropped without raising the floor",
    /// An eviction raises the floor of the bucket only to the lowest number that it drops.
    FloorOfLowest: "floor-of-lowest", "keys: a floor below the highest number that was dropped",
    /// A copy of a bucket has the base as its floor.
    FloorNotCopied: "floor-not-copied", "keys: a copy without the floor",
    /// The table of a bucket is replaced by a copy of it without being frozen.
    UnfrozenRebuild: "unfrozen-rebuild", "keys: a table that is copied while it gives numbers",
    /// A bucket that a handover has frozen is replaced by a table that continues it.
    RebuildInHandover: "rebuild-in-handover", "keys: a table that grows after its copy was staged",
    /// The floor is returned as the exact last number of an absent key.
    AbsentExact: "absent-exact", "keys: the floor that is called an exact number",
    /// Some processes hash keys under another seed, and no process compares the digests of seeds.
    OtherSeed: "other-seed", "keys: hashes under another seed that are served",
    /// A process uses the bucket that a caller names, without computing it.
    BucketBelieved: "bucket-believed", "keys: a bucket of the caller that is believed",
    /// A store sends the arrival of a section to the other set although the section's departure was only proposed, and
    /// is never committed.
    ArriveBeforeCommit: "arrive-before-commit", "two sets: an arrival of a departure that is only proposed",
    /// A store raises its fence of a section because the directory has a newer claim to the section.
    GossipFences: "gossip-fences", "two sets: a claim of the directory that raises a fence",
    /// A tombstone is deleted once its section has arrived.
    TombstoneDeleted: "tombstone-deleted", "two sets: a tombstone deleted when its section has arrived",
    /// A repeated arrival of a section overwrites the section's ceiling.
    RepeatedArriveWrites: "repeated-arrive-writes", "two sets: a repeated arrival that writes the record again",
    /// A tombstone has the ceiling that its section had when the other set was requested to name the next owner,
    /// instead of the ceiling at the departure.
    CeilingOfThePlan: "ceiling-of-the-plan", "two sets: a tombstone with the ceiling of when the move was planned",
    /// A section departs without its owner although the owner is alive.
    SilentAtOnce: "silent-at-once", "two sets: a section that departs without its living owner",
    /// A set that rolls back a migration makes the departed sections its own again without any agreement of the other
    /// set.
    RollbackByFiat: "rollback-by-fiat", "two sets: a rollback that takes the sections without the other set",
    /// A restored set serves its sections at once, at the ceilings of its backup, without a quarantine.
    ServesAtOnce: "serves-at-once", "two sets: a restored set without quarantine",
    /// A restored set adds a single margin to its ceilings, for any number of restores.
    OneMargin: "one-margin", "two sets: one margin for any number of restores",
    /// A departure is refused while its migration is paused.
    PauseRefuses: "pause-refuses", "two sets: a departure refused while its migration is paused",
    /// A set in quarantine accepts a response for which the other set only read its state, although the log of the
    /// other set has no entry for the fence.
    QuarantineByReading: "quarantine-by-reading", "two sets: a quarantine that ends without a fence in the other log",
    /// A quarantine ends before the leases of the older lineage have expired.
    QuarantineWithoutWait: "quarantine-without-wait", "two sets: a quarantine that outlasts no lease",
    /// The next owner of an arriving section starts from a staged copy even if the copy was staged by another attempt
    /// of the departure.
    SetsStaleCopy: "sets-stale-copy", "two sets: a staged copy used by its epoch alone",
    /// A section is thawed although its departure may have been committed.
    SetsThawUnknown: "sets-thaw-unknown", "two sets: a thaw without a definite response",
    /// An owner thaws a section because the store refused the section's departure, although a later log entry may lift
    /// the reason of this refusal, so that a copy of the request could still be applied.
    SetsThawInconclusive: "sets-thaw-inconclusive", "two sets: a thaw after a refusal that a later entry lifts",
    /// A repeated departure that the store applies again does not move the liveness counter of the node.
    DepartRepeatNotCounted: "depart-repeat-not-counted", "two sets: a repeated departure that moves no liveness counter",
    /// A node that received a call from another set forwards the call to a further set. Only the first node of a call
    /// may send it to another set.
    SendsOnward: "sends-onward", "two sets: a call that any node forwards to another set",
    /// A node sends a call to another set a second time at once, even if the claim that now names the set is not newer
    /// than the claim that the call followed the first time.
    FollowsAgain: "follows-again", "two sets: a claim that is followed although it is not newer",
    /// A closing set names next owners for sections of other sets' migrations.
    ReservesWhileClosing: "reserves-while-closing", "two sets: a closing set that names owners for sections to come",
    /// A set counts as down after a single round of probes without a response.
    DownTooEarly: "down-too-early", "two sets: a set that counts as down after one missed probe",
    /// A counter series with few ids has the same restore margin as a section of uids. This margin is far larger than
    /// the number of ids of the series.
    WideMargin: "wide-margin", "two sets: a margin of 2^40 for a small counter",
    /// A counter series has no restore margin, so a restore does not raise its ceiling.
    NoMargin: "no-margin", "two sets: a counter without a margin",
    /// After a restore, the ceiling of timed lanes is only one step above the ceiling in the backup, even if the
    /// restore is long after the backup.
    RestoredWithoutClock: "restored-without-clock", "two sets: a ceiling of ticks restored without the time of the restore",
    /// A series that was lost in a restore is created again with its first number, without a margin.
    RecreatedAtStart: "recreated-at-start", "two sets: a lost series that is created again at its start",
    /// A set creates a series although it has handed the creation of series to the other set.
    FormerWriterAppends: "former-writer-appends", "two sets: a series created by the set that handed this to the other set",
    /// The set to which the creation of series was handed creates a series before it has adopted the series that were
    /// created earlier.
    WriterBeforeAdoption: "writer-before-adoption", "two sets: a series created by the next set before it has the earlier ones",
    /// The operator computes the count of restores for a new lineage only from the count in the backup and the restores
    /// since the backup was made.
    NthOfBackup: "nth-of-backup", "restores: a count of the restores since the backup was made",
    /// The operator computes the count of restores for a new lineage from the operator's notebook and the backup alone,
    /// although a set may have begun a lineage with a higher count that is not in the notebook.
    NotebookAlone: "notebook-alone", "restores: a count above the notebook alone, while a set may have moved on unseen",
    /// The operator restores a set from a backup whose history was abandoned, because the set was later restored from
    /// an older backup.
    AbandonedHistory: "abandoned-history", "restores: a backup of a history that was given up for an older backup",
    /// A set that receives a fence compares the count of restores in the fenced lineage only with the count in the
    /// set's own lineage.
    FenceOfOwnCount: "fence-of-own-count", "restores: a fence compared with the own count only, and a lineage of the count that one set requires",
    /// A quarantine waits only until leases under the terms of its own set have expired, although another set may have
    /// longer leases.
    WaitsByOwnTerms: "waits-by-own-terms", "restores: a quarantine that outlasts the leases of its own set's terms only",
    /// The fingerprint that restored store members compare before they form a group is computed from the lineage alone,
    /// so that members restored from different backups can form one group.
    MembersNeedNotAgree: "members-need-not-agree", "restores: a group whose members began with different backups",
    /// A restore with a larger margin increases the count of restores only by 1, so the next restore has the default
    /// margin again.
    MarginFalls: "margin-falls", "restores: a larger margin that is followed by the default one",
    /// A restore from a backup that `seqsvr unsafe recover` made has the count of restores that follows the count in
    /// the backup, although the set may have been restored since then.
    RecoveredCountedAnew: "recovered-counted-anew", "restores: a recovered backup whose restores are counted anew",
    /// A set notes that it has received the final records of a closing set, but does not keep these records.
    InheritanceSkipped: "inheritance-skipped", "restores: a set that closes before another one has its records",
    /// A set in quarantine keeps claims that another set stated, although the other set was restored since then.
    VoidKeepsClaims: "void-keeps-claims", "restores: responses kept although their set was restored since",
    /// A set closes while sections may be on their way to it.
    ClosesAtOnce: "closes-at-once", "restores: a set that closes without waiting for the other sets",
    /// A section departs to a set that closes.
    DepartsToClosing: "departs-to-closing", "restores: a departure to a closing set that is accepted",
    /// A set accepts the arrival of a section although the set's record of the section already has the epoch of the
    /// arrival.
    EqualFenceArrives: "equal-fence-arrives", "restores: an arrival accepted under the epoch of the record",
}

impl Bug {
    /// Returns whether the bug is planted in worlds of two sets.
    #[must_use]
    pub fn is_between_sets(self) -> bool {
        self as usize >= Bug::ArriveBeforeCommit as usize && !self.is_of_restores()
    }

    /// Returns whether the bug concerns reports of deaths.
    pub(crate) fn is_of_deaths(self) -> bool {
        (Bug::DeathOfNode as usize..=Bug::DeadMayRegister as usize).contains(&(self as usize))
    }

    /// Returns whether the bug concerns keys.
    #[must_use]
    pub fn is_of_keys(self) -> bool {
        (Bug::EvictionWithoutFloor as usize..=Bug::BucketBelieved as usize).contains(&(self as usize))
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

/// Runs one seed after another, beginning with `from`, until a run with the planted bug breaks a promise. Returns
/// `None` if no run of `most` seeds breaks a promise.
#[must_use]
pub fn hunt(bug: Bug, from: u64, most: u64) -> Option<Caught> {
    (1..).zip(from..from + most).find_map(|(seeds, seed)| {
        let violation = run(&Run { seed, bug: Some(bug), ..Run::default() }).violation?;
        Some(Caught { seed, seeds, violation })
    })
}
