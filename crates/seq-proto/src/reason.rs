//! The reasons of refusals, in one enum that servers use to send them and clients use to match on them.
//!
//! **Invariant:** the name of a reason is written in this file and nowhere else in product code, and never changes once
//! it is released; `cargo xtask tidy` finds a second place. `docs/reference/reasons.md` is generated from this file.

use std::fmt;
use std::time::Duration;

use tonic::Code;

pub use client::ClientReason;

mod client;

/// Keys of the metadata of a refusal.
pub mod key {
    /// Number on record that the refusal concerns, in decimal digits: an incarnation or a renewal; 0 if there is none.
    pub const CURRENT: &str = "current";
    /// Address of the leader, as `host:port`; empty if the member does not know a leader.
    pub const LEADER: &str = "leader";
    /// Address of the node's newest incarnation, as `host:port`; empty if the refusal does not concern an incarnation.
    pub const ADDR: &str = "addr";
    /// Highest number or id to which an advance is accepted at present, in decimal digits.
    pub const BOUND: &str = "bound";
    /// Milliseconds by which the clock of the section's owner is ahead of the clock of the owner's store, in decimal
    /// digits.
    pub const AHEAD_MS: &str = "ahead_ms";
    /// Id of the set that the section is in, in decimal digits.
    pub const SET: &str = "set";
    /// Epoch since which the section has been in that set, in decimal digits.
    pub const SINCE: &str = "since";
    /// Number of the section that the refusal concerns, in decimal digits.
    pub const SECTION: &str = "section";
}

/// Time at which a repeated request can succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// No hint. A repeated request cannot succeed until the request is changed, or until the condition that caused the
    /// refusal has changed.
    Never,
    /// Immediately, as a unary request.
    Unary,
    /// A few syncs of the store's log later, when there is room for another proposal.
    Sync,
    /// When the section has another owner. The hint is shorter than a takeover after a reported crash, because a
    /// caller's backoff doubles by itself: a longer hint would add to the time without a response.
    Owner,
    /// When a process has started, or when the store's leader has defined the set.
    Start,
    /// When the ceiling is raised.
    Ceiling,
    /// A tenth of a second later, when there is room in a quota, in the memory, in the rate of raises, or in a lane.
    Quota,
    /// About an election later, when the store has a leader.
    Leader,
    /// After a fraction of the time for which a node may be silent before it counts as failed.
    Silence,
}

impl Retry {
    /// Returns the retry hint, which is the wait before the request is repeated; `None` for [`Retry::Never`].
    #[must_use]
    pub const fn after(self) -> Option<Duration> {
        let millis = match self {
            Retry::Never => return None,
            Retry::Unary => 1,
            Retry::Sync | Retry::Owner => 20,
            Retry::Start | Retry::Quota => 100,
            Retry::Ceiling | Retry::Leader => 200,
            Retry::Silence => 500,
        };
        Some(Duration::from_millis(millis))
    }
}

/// Whether a refused request may have taken effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The request changed nothing.
    Unchanged,
    /// The request may have been applied or may still be applied, because no response came from the process that
    /// applies it.
    Unknown,
}

/// Defines the reasons, in one table for each subject. A row is `Variant = "NAME", [code, codes of other services],
/// retry, outcome, [metadata];`.
macro_rules! reasons {
    ($($subject:literal {
        $($(#[doc = $doc:literal])+
        $reason:ident = $name:literal, [$code:ident $(, $other:ident)*], $retry:ident, $outcome:ident
            $(, [$($key:ident),+])?;)+
    })+) => {
        /// The machine-readable reason of a refusal.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($($(#[doc = $doc])+ $reason,)+)+
        }

        impl Reason {
            /// Every reason, by subject.
            pub const ALL: &[Reason] = &[$($(Reason::$reason,)+)+];

            /// Returns the name on the wire.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $($(Reason::$reason => $name,)+)+
                }
            }

            /// Returns the reason with this name; `None` if this version does not know the name.
            #[must_use]
            pub fn parse(name: &str) -> Option<Reason> {
                match name {
                    $($($name => Some(Reason::$reason),)+)+
                    _ => None,
                }
            }

            /// Returns the gRPC code. If services use several codes for this reason, it is the first of
            /// [`Reason::codes`].
            #[must_use]
            pub const fn code(self) -> Code {
                match self {
                    $($(Reason::$reason => Code::$code,)+)+
                }
            }

            /// Returns the gRPC codes that services use for this reason.
            #[must_use]
            pub const fn codes(self) -> &'static [Code] {
                match self {
                    $($(Reason::$reason => &[Code::$code $(, Code::$other)*],)+)+
                }
            }

            /// Returns the time at which a repeated request can succeed.
            #[must_use]
            pub const fn retry(self) -> Retry {
                match self {
                    $($(Reason::$reason => Retry::$retry,)+)+
                }
            }

            /// Returns whether the request may have taken effect.
            #[must_use]
            pub const fn outcome(self) -> Outcome {
                match self {
                    $($(Reason::$reason => Outcome::$outcome,)+)+
                }
            }

            /// Returns the keys of the metadata that a refusal with this reason may carry.
            #[must_use]
            pub const fn metadata(self) -> &'static [&'static str] {
                match self {
                    $($(Reason::$reason => &[$($(key::$key),+)?],)+)+
                }
            }

            /// Returns the subject of most requests that are refused with this reason. Requests of other subjects may
            /// be refused with it too.
            #[must_use]
            pub const fn subject(self) -> &'static str {
                match self {
                    $($(Reason::$reason)|+ => $subject,)+
                }
            }

            /// Returns the description that is also in the reference (`docs/reference/reasons.md`).
            #[must_use]
            pub fn doc(self) -> &'static str {
                match self {
                    $($(Reason::$reason => concat!($($doc),+).trim_start(),)+)+
                }
            }
        }
    };
}

reasons! {
    "Allocation" {
        /// The uid is outside the uids of the set.
        UidOutOfRange = "UID_OUT_OF_RANGE", [OutOfRange], Never, Unchanged;
        /// The request has no uid. Earlier releases treat such a request as one for user 0, because their clients do
        /// not send the uid 0.
        UidMissing = "UID_MISSING", [InvalidArgument], Never, Unchanged;
        /// The request to advance has no number.
        ToMissing = "TO_MISSING", [InvalidArgument], Never, Unchanged;
        /// The count is not in 1..=1,000,000.
        CountOutOfRange = "COUNT_OUT_OF_RANGE", [InvalidArgument], Never, Unchanged;
        /// The batch has no item.
        EmptyBatch = "EMPTY_BATCH", [InvalidArgument], Never, Unchanged;
        /// The batch has more items than one request may carry.
        BatchTooLarge = "BATCH_TOO_LARGE", [InvalidArgument], Never, Unchanged;
        /// There are counts or epochs, but not one for each uid.
        CountsMismatch = "COUNTS_MISMATCH", [InvalidArgument], Never, Unchanged;
        /// The request was forwarded, and this node does not own the section either.
        NotOwner = "NOT_OWNER", [Unavailable], Owner, Unchanged;
        /// The section has no owner now.
        Unserved = "UNSERVED", [Unavailable], Owner, Unchanged;
        /// The request's deadline was over before it was sent to the owner.
        DeadlinePassed = "DEADLINE_PASSED", [DeadlineExceeded], Owner, Unchanged;
        /// The owner cannot be reached; it did not process the request.
        OwnerUnreachable = "OWNER_UNREACHABLE", [Unavailable], Owner, Unchanged;
        /// The owner did not respond in time; numbers may have been consumed.
        OwnerTimedOut = "OWNER_TIMED_OUT", [DeadlineExceeded], Owner, Unknown;
        /// The connection to the owner broke before the response; numbers may have been consumed.
        OwnerConnectionLost = "OWNER_CONNECTION_LOST", [Unavailable], Owner, Unknown;
        /// The caller has seen a newer epoch of the section than this node has.
        StaleEpoch = "STALE_EPOCH", [Unavailable], Owner, Unchanged;
        /// The node's lease has expired, so another node may own the section by now.
        LeaseExpired = "LEASE_EXPIRED", [Unavailable], Owner, Unchanged;
        /// The section cannot be served now, and the limit of pending requests is reached.
        TooManyPending = "TOO_MANY_PENDING", [ResourceExhausted], Ceiling, Unchanged;
        /// The section's ceiling was not raised before the request's deadline.
        CeilingStalled = "CEILING_STALLED", [Unavailable], Ceiling, Unchanged;
        /// The uid has fewer numbers left below 2^63 than the request allocates.
        Exhausted = "EXHAUSTED", [ResourceExhausted], Never, Unchanged;
        /// The advance leads further above the section's ceiling than `alloc.max_advance`, or further above the last
        /// number than the tenant's `max_advance`.
        AdvanceTooFar = "ADVANCE_TOO_FAR", [InvalidArgument], Never, Unchanged, [BOUND];
        /// The uid is past the number of the advance, or may be past it.
        AlreadyPast = "ALREADY_PAST", [FailedPrecondition], Never, Unchanged;
        /// The request was forwarded more often than allowed.
        TooManyHops = "TOO_MANY_HOPS", [InvalidArgument], Never, Unchanged;
        /// The node is shutting down. An AllocSvr has not processed the request; a command that was sent to a StoreSvr
        /// may still be applied, and can be repeated.
        ShuttingDown = "SHUTTING_DOWN", [Unavailable], Start, Unchanged;
        /// The item would have to wait or to be forwarded, and the request excludes both. Repeat the item as a unary
        /// request.
        WouldWait = "WOULD_WAIT", [Unavailable], Unary, Unchanged;
        /// The section is in another set, and the request was forwarded from another set already.
        Moved = "MOVED", [Unavailable], Unary, Unchanged, [SET, SINCE];
        /// No node of the other set can be reached.
        SetUnavailable = "SET_UNAVAILABLE", [Unavailable], Ceiling, Unchanged, [SET];
    }
    "Ids" {
        /// No series has this name.
        UnknownSeries = "UNKNOWN_SERIES", [NotFound], Never, Unchanged;
        /// A series with this name exists with another shape or other lanes, or is retired, or the name is that of a
        /// keyspace. A name is used only once.
        SeriesExists = "SERIES_EXISTS", [AlreadyExists], Never, Unchanged;
        /// The series is retired: it gives out no more ids.
        SeriesRetired = "SERIES_RETIRED", [FailedPrecondition], Never, Unchanged;
        /// The ids of the series have ended: its time or its numbers are used up.
        SeriesEnded = "SERIES_ENDED", [OutOfRange], Never, Unchanged;
        /// The shape cannot be used: the text names the field.
        BadShape = "BAD_SHAPE", [InvalidArgument], Never, Unchanged;
        /// Callers name the lane of this series, and the request names none.
        LaneRequired = "LANE_REQUIRED", [InvalidArgument], Never, Unchanged;
        /// The request names a lane, but the server chooses the lanes of this series, or the series has only one lane.
        LaneNotAllowed = "LANE_NOT_ALLOWED", [InvalidArgument], Never, Unchanged;
        /// The series has no such lane.
        LaneOutOfRange = "LANE_OUT_OF_RANGE", [OutOfRange], Never, Unchanged;
        /// The ids would have to be above an id that is further ahead than the series can move at once, or than the
        /// tenant's `max_advance` allows.
        AfterTooFar = "AFTER_TOO_FAR", [OutOfRange], Never, Unchanged;
        /// The number is no id of the series.
        NotAnId = "NOT_AN_ID", [InvalidArgument], Never, Unchanged;
        /// Ids of a timed series can be neither read nor advanced, because they follow the clock.
        NotACounter = "NOT_A_COUNTER", [FailedPrecondition], Never, Unchanged;
        /// No more ids of the lane are within `ahead_ms` of the clock.
        LaneAhead = "LANE_AHEAD", [Unavailable], Quota, Unchanged;
        /// The clock of the lane's owner is so far ahead of the clock of its store that the store raises no ceiling to
        /// the time of the owner's clock.
        ClockAhead = "CLOCK_AHEAD", [Unavailable], Ceiling, Unchanged, [AHEAD_MS];
        /// The cluster has as many series or keyspaces as it may, or it has a keyspace of uids already.
        TooManySeries = "TOO_MANY_SERIES", [ResourceExhausted], Never, Unchanged;
        /// The lanes do not fit the layout of the cluster.
        LayoutFull = "LAYOUT_FULL", [ResourceExhausted], Never, Unchanged;
        /// Another set creates the series of the cluster. Or this set creates them, and therefore can be neither closed
        /// nor forgotten.
        LayoutWriter = "LAYOUT_WRITER", [FailedPrecondition], Never, Unchanged;
        /// A live AllocSvr is of a release that knows no series: upgrade it first. Or the store of another set does not
        /// know yet which set creates series: upgrade that store, or try again in a few seconds.
        SetOutdated = "SET_OUTDATED", [FailedPrecondition], Never, Unchanged;
    }
    "Keys" {
        /// No keyspace has this name, or its keys are uids, for which calls name no keyspace.
        UnknownKeyspace = "UNKNOWN_KEYSPACE", [NotFound], Never, Unchanged;
        /// The key is empty or has too many bytes.
        KeySize = "KEY_SIZE", [InvalidArgument], Never, Unchanged;
        /// The key has no counter yet, and the owner of its bucket has counters for as many keys as it may. Keys with a
        /// counter are served.
        KeysExhausted = "KEYS_EXHAUSTED", [ResourceExhausted], Quota, Unchanged;
    }
    "Endpoints" {
        /// The message cannot be decoded.
        Malformed = "MALFORMED", [InvalidArgument], Never, Unchanged;
        /// The message has more bytes than allowed.
        MessageTooLarge = "MESSAGE_TOO_LARGE", [ResourceExhausted], Never, Unchanged;
        /// The service has no unary method of this name.
        UnknownMethod = "UNKNOWN_METHOD", [Unimplemented], Never, Unchanged;
        /// The body has a content encoding; send it uncompressed.
        UnsupportedEncoding = "UNSUPPORTED_ENCODING", [Unimplemented], Never, Unchanged;
        /// The body did not arrive before the request's deadline.
        BodyTimedOut = "BODY_TIMED_OUT", [DeadlineExceeded], Never, Unchanged;
        /// The request does not fit into the memory that is left for its connection: read responses, or send less at a
        /// time.
        OutOfMemory = "OUT_OF_MEMORY", [ResourceExhausted], Quota, Unchanged;
        /// The node makes as many reports of activity or of sections as it may make at the same time or within a
        /// second.
        TooManyReports = "TOO_MANY_REPORTS", [ResourceExhausted], Quota, Unchanged;
        /// A browser sent the request for a page of another site, or as a prefetch.
        Unsolicited = "UNSOLICITED", [PermissionDenied], Never, Unchanged;
    }
    "Roles" {
        /// The role in the certificate does not allow the method here; see docs/reference/roles.md.
        RoleDenied = "ROLE_DENIED", [PermissionDenied], Never, Unchanged;
        /// The certificate belongs to another node than the node that the request acts for.
        OtherHolder = "OTHER_HOLDER", [PermissionDenied], Never, Unchanged;
    }
    "Tenants" {
        /// The token is of no tenant, or the request has neither a token nor a certificate.
        UnknownToken = "UNKNOWN_TOKEN", [Unauthenticated], Never, Unchanged;
        /// The certificate of the client is of no tenant.
        NoTenant = "NO_TENANT", [PermissionDenied], Never, Unchanged;
        /// The uid does not belong to the tenant.
        OtherTenantsUid = "OTHER_TENANTS_UID", [PermissionDenied], Never, Unchanged;
        /// The series does not belong to the tenant.
        OtherTenantsSeries = "OTHER_TENANTS_SERIES", [PermissionDenied], Never, Unchanged;
        /// The key does not belong to the tenant.
        OtherTenantsKey = "OTHER_TENANTS_KEY", [PermissionDenied], Never, Unchanged;
        /// The count is above the tenant's quota for an item.
        CountAboveQuota = "COUNT_ABOVE_QUOTA", [InvalidArgument], Never, Unchanged;
        /// The tenant's rate of requests or numbers on this node is used up for now.
        QuotaExceeded = "QUOTA_EXCEEDED", [ResourceExhausted], Quota, Unchanged;
        /// The tenant has the largest allowed number of connections to this node.
        TooManyConnections = "TOO_MANY_CONNECTIONS", [ResourceExhausted], Quota, Unchanged;
    }
    "Handover" {
        /// The offer describes no possible handover.
        BadOffer = "BAD_OFFER", [InvalidArgument], Never, Unchanged;
        /// The staged copy does not fit the section.
        BadCopy = "BAD_COPY", [FailedPrecondition], Never, Unchanged;
        /// The limit of touched uids in concurrently received copies is reached.
        TooMuchStaged = "TOO_MUCH_STAGED", [ResourceExhausted], Never, Unchanged;
        /// The target is shutting down.
        Leaving = "LEAVING", [FailedPrecondition], Never, Unchanged;
        /// The offer's epoch, or its attempt, is no longer the newest at the target.
        Past = "PAST", [FailedPrecondition], Never, Unchanged;
        /// The offer's epoch does not directly follow the newest epoch that the target knows.
        UnknownEpoch = "UNKNOWN_EPOCH", [FailedPrecondition], Never, Unchanged;
        /// The store did not grant the section to the target in time.
        NotGranted = "NOT_GRANTED", [Unavailable], Never, Unknown;
    }
    "Control" {
        /// The set in the request has another name than the set of the store or of the target.
        OtherSet = "OTHER_SET", [FailedPrecondition], Never, Unchanged;
        /// The store has not defined the set yet.
        NoSet = "NO_SET", [Unavailable], Start, Unchanged;
        /// The set file names no AllocSvr of this name.
        UndeclaredNode = "UNDECLARED_NODE", [FailedPrecondition], Never, Unchanged;
        /// The address is not `host:port`, or too long.
        BadAddr = "BAD_ADDR", [InvalidArgument], Never, Unchanged;
        /// The token is 0.
        BadToken = "BAD_TOKEN", [InvalidArgument], Never, Unchanged;
        /// A process of this name runs at another address and is alive: end it, or start the new process with
        /// `--replace`.
        NodeAlive = "NODE_ALIVE", [FailedPrecondition], Silence, Unchanged, [ADDR];
        /// The set has the largest allowed number of nodes.
        TooManyNodes = "TOO_MANY_NODES", [ResourceExhausted], Never, Unchanged;
        /// The lease is longer than the store's terms allow.
        LeaseTooLong = "LEASE_TOO_LONG", [FailedPrecondition], Never, Unchanged;
        /// The registration does not follow the node's newest incarnation.
        OtherPredecessor = "OTHER_PREDECESSOR", [FailedPrecondition], Never, Unchanged, [CURRENT, ADDR];
        /// The store lacks entries that it had acknowledged to this node.
        StoreBehind = "STORE_BEHIND", [FailedPrecondition], Never, Unchanged;
        /// The store knows no node with this id or name.
        UnknownNode = "UNKNOWN_NODE", [FailedPrecondition, NotFound], Never, Unchanged;
        /// The set has no node of this name.
        UnknownName = "UNKNOWN_NAME", [NotFound], Never, Unchanged;
        /// The node is in another incarnation.
        OtherIncarnation = "OTHER_INCARNATION", [FailedPrecondition], Never, Unchanged, [CURRENT, ADDR];
        /// The parent of the process reported that the process has ended.
        ProcessDied = "PROCESS_DIED", [FailedPrecondition], Never, Unchanged;
        /// The renewal is neither the next renewal nor a repeat of the last renewal.
        OtherRenewal = "OTHER_RENEWAL", [FailedPrecondition], Never, Unchanged, [CURRENT, ADDR];
        /// The section has another owner or epoch than the transfer names.
        OtherOwnership = "OTHER_OWNERSHIP", [FailedPrecondition], Never, Unchanged;
        /// The target of the transfer is unknown, or has another incarnation than the transfer names.
        TargetGone = "TARGET_GONE", [FailedPrecondition], Never, Unchanged, [CURRENT];
        /// The node id is 0.
        BadNodeId = "BAD_NODE_ID", [InvalidArgument], Never, Unchanged;
        /// The incarnation is 0.
        BadIncarnation = "BAD_INCARNATION", [InvalidArgument], Never, Unchanged;
        /// The number of the renewal is 0.
        BadRenewSeq = "BAD_RENEW_SEQ", [InvalidArgument], Never, Unchanged;
        /// Parallel lists differ in length.
        ListsMismatch = "LISTS_MISMATCH", [InvalidArgument], Never, Unchanged;
        /// The set has no such section, or the target does not know it.
        UnknownSection = "UNKNOWN_SECTION", [InvalidArgument, FailedPrecondition], Never, Unchanged;
        /// The section is in the request twice.
        DuplicateSection = "DUPLICATE_SECTION", [InvalidArgument], Never, Unchanged;
        /// The epoch is 0.
        BadEpoch = "BAD_EPOCH", [InvalidArgument], Never, Unchanged;
        /// The ceiling is 0, or above 2^63 - 1.
        BadCeiling = "BAD_CEILING", [InvalidArgument], Never, Unchanged;
        /// The ceiling of a section would rise faster than allowed; the hint in the refusal is the time after which
        /// this raise is accepted.
        RaiseTooFast = "RAISE_TOO_FAST", [ResourceExhausted], Quota, Unknown, [SECTION];
        /// The transfer is to no node, or to its sender.
        BadTarget = "BAD_TARGET", [InvalidArgument], Never, Unchanged;
        /// The number of the handover is 0.
        BadHandover = "BAD_HANDOVER", [InvalidArgument], Never, Unchanged;
        /// The lease terms are out of bounds.
        BadTerms = "BAD_TERMS", [InvalidArgument], Never, Unchanged;
        /// Another command has changed the lease terms in the meantime.
        OtherTerms = "OTHER_TERMS", [Aborted], Never, Unchanged;
        /// The node is not live, is drained, is about to exit, or is not in the set file of the store's leader.
        UnfitTarget = "UNFIT_TARGET", [FailedPrecondition], Never, Unchanged;
        /// The group writes a format without this change: run `seqsvr store upgrade`.
        OldFormat = "OLD_FORMAT", [FailedPrecondition], Never, Unchanged;
        /// No other node of the set could own sections.
        LastNode = "LAST_NODE", [FailedPrecondition], Never, Unchanged;
    }
    "Sets" {
        /// The set is defined already.
        SetExists = "SET_EXISTS", [AlreadyExists], Never, Unchanged;
        /// The command is for another `genesis` than the set file has.
        OtherGenesis = "OTHER_GENESIS", [FailedPrecondition], Never, Unchanged;
        /// Another set has the name.
        SetNameTaken = "SET_NAME_TAKEN", [AlreadyExists], Never, Unchanged;
        /// The set has sections, or some may return to it.
        SetNotEmpty = "SET_NOT_EMPTY", [FailedPrecondition], Never, Unchanged;
        /// The request names this set instead of another set.
        OwnSet = "OWN_SET", [InvalidArgument], Never, Unchanged;
        /// The store knows no set of this name or id.
        UnknownSet = "UNKNOWN_SET", [NotFound], Never, Unchanged;
        /// The largest allowed number of sets is known already.
        TooManySets = "TOO_MANY_SETS", [ResourceExhausted], Never, Unchanged;
        /// The set is closing and takes no more sections.
        SetClosing = "SET_CLOSING", [FailedPrecondition], Never, Unchanged;
        /// The set was restored from a backup and waits for the other sets.
        Quarantined = "QUARANTINED", [Unavailable], Silence, Unchanged;
        /// No allocator of the set can own sections now.
        NoCandidate = "NO_CANDIDATE", [Unavailable], Silence, Unchanged;
        /// The sections are of another layout.
        OtherLayout = "OTHER_LAYOUT", [FailedPrecondition], Never, Unchanged;
        /// The set is of another lineage than the request names.
        OtherLineage = "OTHER_LINEAGE", [FailedPrecondition], Never, Unchanged;
        /// The other set has been restored in the meantime, so the lineage in the request has ended.
        OldLineage = "OLD_LINEAGE", [FailedPrecondition], Never, Unchanged;
        /// The runs of sections overlap, are out of order or out of range, or are too many.
        BadRuns = "BAD_RUNS", [InvalidArgument], Never, Unchanged;
        /// A section of the migration is not in this set.
        NotResident = "NOT_RESIDENT", [FailedPrecondition], Never, Unchanged;
        /// A section is part of a migration that is not complete.
        SectionMigrates = "SECTION_MIGRATES", [FailedPrecondition], Never, Unchanged;
        /// A precondition of the plan has changed: make a new plan.
        StalePlan = "STALE_PLAN", [FailedPrecondition], Never, Unchanged;
        /// No such migration began in this set.
        UnknownMigration = "UNKNOWN_MIGRATION", [NotFound], Never, Unchanged;
        /// The migration was rolled back or completed.
        MigrationOver = "MIGRATION_OVER", [FailedPrecondition], Never, Unchanged;
        /// Sections of the migration are here or on their way.
        NotArrived = "NOT_ARRIVED", [FailedPrecondition], Never, Unchanged;
        /// The pace of the migration is out of bounds.
        BadPace = "BAD_PACE", [InvalidArgument], Never, Unchanged;
        /// Too many migrations have begun in this set.
        TooManyMigrations = "TOO_MANY_MIGRATIONS", [ResourceExhausted], Never, Unchanged;
        /// The lineage counts fewer restores than a set of the cluster knows.
        TooFewRestores = "TOO_FEW_RESTORES", [FailedPrecondition], Never, Unchanged;
        /// The set is not in quarantine.
        NotQuarantined = "NOT_QUARANTINED", [FailedPrecondition], Never, Unchanged;
        /// Another set has not responded to the fence of this set's lineage.
        NotResponded = "NOT_RESPONDED", [FailedPrecondition], Never, Unchanged;
        /// The response is from before the fence was applied there.
        FenceNotApplied = "FENCE_NOT_APPLIED", [FailedPrecondition], Never, Unchanged;
        /// The data from another set contradicts itself or is out of bounds, describes a set other than its sender,
        /// changes the name of that set, or has a revision too far above the last known revision.
        BadResponse = "BAD_RESPONSE", [InvalidArgument], Never, Unchanged;
    }
    "Proposals" {
        /// The member of the store is starting.
        Starting = "STARTING", [Unavailable], Start, Unchanged;
        /// The member of the store does not lead; if it led when the request arrived, the command may still be applied.
        NotLeader = "NOT_LEADER", [Unavailable], Leader, Unknown, [LEADER];
        /// A follower cannot forward the request to the leader.
        LeaderUnreachable = "LEADER_UNREACHABLE", [Unavailable, DeadlineExceeded], Leader, Unknown;
        /// The command was not committed in time; it may still be applied, and can be repeated.
        CommitTimedOut = "COMMIT_TIMED_OUT", [DeadlineExceeded], Leader, Unknown;
        /// The limit of pending proposals is reached.
        TooManyProposals = "TOO_MANY_PROPOSALS", [Unavailable], Sync, Unchanged;
        /// The command has more bytes than an entry of the log may have.
        CommandTooLarge = "COMMAND_TOO_LARGE", [InvalidArgument], Never, Unchanged;
        /// Raft has stopped on this member.
        RaftStopped = "RAFT_STOPPED", [Unavailable], Leader, Unknown;
    }
    "Membership" {
        /// The store id is 0.
        BadStoreId = "BAD_STORE_ID", [InvalidArgument], Never, Unchanged;
        /// The change names no member, or more than a store may have.
        BadCount = "BAD_COUNT", [InvalidArgument], Never, Unchanged;
        /// The name of the member or series is invalid: it is empty, too long, or has other characters than allowed.
        BadName = "BAD_NAME", [InvalidArgument], Never, Unchanged;
        /// The change adds and removes the same member.
        AddedAndRemoved = "ADDED_AND_REMOVED", [InvalidArgument], Never, Unchanged;
        /// The store has no member with this id.
        UnknownMember = "UNKNOWN_MEMBER", [NotFound, PermissionDenied], Never, Unchanged;
        /// The member has no vote.
        NotAVoter = "NOT_A_VOTER", [FailedPrecondition], Never, Unchanged;
        /// Another member had the id before. An id belongs to one disk permanently.
        UsedStoreId = "USED_STORE_ID", [FailedPrecondition], Never, Unchanged;
        /// The id belongs to a member with another name or address, or the message is for another member.
        OtherMember = "OTHER_MEMBER", [AlreadyExists, FailedPrecondition], Never, Unchanged;
        /// Another member has the name or the address.
        Taken = "TAKEN", [AlreadyExists], Never, Unchanged;
        /// The member does not respond, or lacks too many entries to vote or lead.
        NotCaughtUp = "NOT_CAUGHT_UP", [FailedPrecondition], Never, Unchanged;
        /// The change would leave no voter.
        NoVoters = "NO_VOTERS", [FailedPrecondition], Never, Unchanged;
        /// The change would leave more voters than a store may have.
        TooManyVoters = "TOO_MANY_VOTERS", [FailedPrecondition], Never, Unchanged;
        /// The change would leave an even number of voters; `--allow-even` permits it.
        EvenVoters = "EVEN_VOTERS", [FailedPrecondition], Never, Unchanged;
        /// Too few voters respond, now or after the change, for anything to be committed.
        NoMajority = "NO_MAJORITY", [FailedPrecondition], Never, Unchanged;
        /// The store has no leader now.
        NoLeader = "NO_LEADER", [Unavailable], Leader, Unchanged;
        /// The leader is to be removed, and no remaining voter has the whole log.
        NoSuccessor = "NO_SUCCESSOR", [FailedPrecondition], Never, Unchanged;
        /// Another change of the set is in progress.
        ChangeInProgress = "CHANGE_IN_PROGRESS", [Unavailable], Leader, Unchanged;
        /// The new member does not respond, so its data directory is not known: start it with `--join` first.
        MemberNotReached = "MEMBER_NOT_REACHED", [Unavailable], Leader, Unchanged;
        /// The member did not take over leadership in time.
        NotTakenOver = "NOT_TAKEN_OVER", [Aborted], Leader, Unknown;
    }
    "Raft" {
        /// The message is for another cluster.
        OtherCluster = "OTHER_CLUSTER", [FailedPrecondition], Never, Unchanged;
        /// The message does not name the data directory of its sender.
        NoNonce = "NO_NONCE", [InvalidArgument], Never, Unchanged;
        /// The message is for another data directory of this member. That data directory may come back.
        OtherReceiver = "OTHER_RECEIVER", [PermissionDenied], Never, Unchanged;
        /// The members use different message formats: run one version.
        OtherFormat = "OTHER_FORMAT", [FailedPrecondition], Never, Unchanged;
        /// A member runs a release that does not read the format which the group writes, or is to write.
        OutdatedMember = "OUTDATED_MEMBER", [FailedPrecondition], Never, Unchanged;
        /// The sender was removed from the cluster permanently; the sender stops.
        RemovedMember = "REMOVED_MEMBER", [FailedPrecondition], Never, Unchanged;
        /// The sender has the id of a member, but another data directory than that member. The sender stops.
        OtherDataDirectory = "OTHER_DATA_DIRECTORY", [FailedPrecondition], Never, Unchanged;
        /// The sender lacks entries that it acknowledged; the sender stops.
        AcknowledgedDataLost = "ACKNOWLEDGED_DATA_LOST", [FailedPrecondition], Never, Unchanged;
        /// The Raft message cannot be decoded.
        MalformedMessage = "MALFORMED_MESSAGE", [InvalidArgument], Never, Unchanged;
        /// The Raft message contradicts itself or the log of this member.
        InvalidRaftMessage = "INVALID_RAFT_MESSAGE", [InvalidArgument], Never, Unchanged;
        /// The message is too many terms or entries ahead of this member to be genuine.
        RaftJumpTooFar = "RAFT_JUMP_TOO_FAR", [InvalidArgument], Never, Unchanged;
        /// The message contradicts an entry that is committed here: acknowledged data was lost elsewhere.
        CommittedEntriesContradicted = "COMMITTED_ENTRIES_CONTRADICTED", [InvalidArgument], Never, Unchanged;
        /// The snapshot is empty, or larger than a snapshot may be.
        SnapshotTooLarge = "SNAPSHOT_TOO_LARGE", [InvalidArgument], Never, Unchanged;
        /// The body of the snapshot has another length than its header states, or ends early.
        MalformedSnapshot = "MALFORMED_SNAPSHOT", [InvalidArgument], Never, Unchanged;
        /// A snapshot of this sender, or the largest allowed number of other snapshots, is being received already.
        SnapshotUnderWay = "SNAPSHOT_UNDER_WAY", [ResourceExhausted], Never, Unchanged;
    }
}

/// Returns the name of a code in gRPC's own spelling, such as `OUT_OF_RANGE`.
#[must_use]
pub fn code_name(code: Code) -> String {
    let mut name = String::new();
    for letter in format!("{code:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Compares a name from the wire.
impl PartialEq<Reason> for str {
    fn eq(&self, reason: &Reason) -> bool {
        self == reason.name()
    }
}

/// Compares a name from the wire.
impl PartialEq<Reason> for String {
    fn eq(&self, reason: &Reason) -> bool {
        self == reason.name()
    }
}

#[cfg(test)]
mod tests;
