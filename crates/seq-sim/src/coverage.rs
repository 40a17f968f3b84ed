//! Counts of the situations that the simulated worlds are meant to bring about. If a situation never occurs in a run of
//! many seeds, the behaviour of the code in this situation was not tested.

macro_rules! situations {
    ($($(#[$doc:meta])* $name:ident: $text:literal,)*) => {
        /// A situation that the worlds are meant to bring about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Situation {
            $($(#[$doc])* $name,)*
        }

        impl Situation {
            /// All situations, in the order of their declaration.
            pub const ALL: &'static [Situation] = &[$(Situation::$name,)*];

            /// Returns the situation's name in a report.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Situation::$name => $text,)* }
            }
        }
    };
}

situations! {
    /// A section was taken from a silent owner.
    Failover: "failovers",
    /// A proposed change of owner was refused, because a command of the owner was applied first.
    Overtaken: "reassigns overtaken",
    /// A raise was refused, because its ownership had ended.
    RaiseRefused: "raises refused by epoch",
    /// A raise was committed.
    Raised: "raises",
    /// A handover was committed.
    Moved: "planned moves",
    /// A section was started from an exact copy.
    Copied: "starts from a copy",
    /// A section started at the ceiling, because the staged copy belonged to another attempt.
    StaleCopy: "stale copies ignored",
    /// A frozen section was thawed.
    Thawed: "thaws",
    /// A section was frozen for its release.
    FrozenForRelease: "sections frozen for a release",
    /// A release left a copy in the store.
    ReleasedExactly: "releases with copies",
    /// An ownership started from a kept copy.
    StartedFromKept: "starts from a kept copy",
    /// A commit was requested again.
    CommitRepeated: "commits repeated",
    /// A target refused an offer.
    OfferRefused: "offers refused",
    /// A forged Activate made a process query its store.
    Forged: "forged Activates",
    /// A call arrived after the lease had expired.
    LeaseExpired: "calls under an expired lease",
    /// A call became pending.
    Held: "calls held",
    /// A pending call was served.
    HeldAnswered: "held calls answered",
    /// A call waited at the ceiling.
    AtCeiling: "calls at the ceiling",
    /// A call met a frozen section.
    Frozen: "calls at a frozen section",
    /// A call was forwarded.
    Forwarded: "calls forwarded",
    /// A call was forwarded a second time.
    ForwardedTwice: "calls forwarded twice",
    /// A call carried a newer epoch than the owner's.
    EpochAhead: "epochs ahead of the owner's",
    /// An incarnation ended, because its node had a newer incarnation.
    SessionOver: "sessions over",
    /// Two processes ran under one name at the same time.
    TwoLives: "two processes under one name",
    /// A process fetched newer routes from a peer after its lease had expired.
    PeerRoutes: "routes fetched from peers",
    /// Routes of a peer revoked a section.
    PeerRevoked: "sections revoked by routes of a peer",
    /// A process released a section, because the raises of the section failed or because the process was leaving.
    Released: "sections given up",
    /// A leaving process ended after it had handed over or released all its sections.
    Left: "processes that left empty",
    /// An arbiter's thread stalled between its reads of the state and of the clock.
    StalledLook: "stalls inside an arbiter's look",
    /// A store noted the death of a process.
    DeathNoted: "deaths of processes noted",
    /// A report of a death changed nothing, because it was a repeat, or because the next process had registered.
    DeathOfOther: "reports of deaths that were repeats or late",
    /// Two members of a store had an arbiter at the same time.
    TwoArbiters: "two arbiters at a time",
    /// An entry of a deposed leader was applied after all.
    LateEntry: "entries of a deposed leader applied",
    /// A response of the store arrived after the process had abandoned the request.
    LateAnswer: "responses that came too late",
    /// A process stalled after it had checked a call and before it took a number for the call.
    StalledInCall: "stalls between check and number",
    /// A machine was suspended.
    Suspended: "machines suspended",
    /// A read was served.
    Read: "reads",
    /// A read returned an exact value, after the first number.
    ReadExact: "exact reads",
    /// A read returned an upper bound.
    ReadBound: "upper bounds read",
    /// A uid was raised to a number.
    Advanced: "advances",
    /// An advance was refused, because the uid was already past the target.
    AdvancePast: "advances refused as past",
    /// A response stated that attempts of the call may be lost, because a node had given up and retried the forwarded
    /// call.
    LostCounted: "responses that count lost attempts",
    /// A leader that no AllocSvr reached transferred leadership.
    LeadershipTransferred: "transfers by an unreached leader",
    /// A member of the store stalled.
    MemberStalled: "members of the store that stood still",
    /// The store was put back to an earlier state.
    RolledBack: "stores put back to an earlier state",
    /// A process stopped permanently, because the state of the store was older than an earlier response of the store.
    Stopped: "processes stopped by a store that is behind",
    /// The store refused a registration, because the registration stated a newer revision than the store had.
    SeenMore: "registrations that had seen more than the store has",
    /// A process used a response of a store that was put back, because no counter in the response showed this.
    Masked: "rollbacks that no counter showed",
    /// Two sets: a migration was requested.
    MigrationStarted: "migrations started",
    /// Two sets: a section departed with its owner.
    Departed: "departures",
    /// Two sets: a section departed without an owner.
    DepartedSilently: "departures without an owner",
    /// Two sets: the sections of a migration began to return.
    Returned: "returns begun",
    /// Two sets: a migration was completed.
    MigrationCompleted: "migrations completed",
    /// Two sets: a set was restored from its backup.
    Restored: "sets restored",
    /// Two sets: a set was restored while the other set was in quarantine.
    BothQuarantined: "sets restored while the other was in quarantine",
    /// Two sets: a set in quarantine began a newer lineage, because the other set refused the fence of the set's
    /// lineage, whose count of restores was too low.
    LineageBegun: "newer lineages begun in quarantine",
    /// Two sets: a quarantine ended.
    QuarantineEnded: "quarantines that ended",
    /// Two sets: an arrival had to wait for the end of a quarantine.
    ArrivalWaits: "arrivals in a quarantine",
    /// Two sets: a departure was applied while its migration was paused.
    PausedDeparture: "departures under a paused migration",
    /// Two sets: a departure was requested again after it had been applied.
    DepartureUnknown: "departures repeated after they were applied",
    /// Two sets: a process began to serve a section that arrived from the other set, while it also had a staged copy of
    /// another attempt of the departure.
    OtherAttempt: "arrivals beside a copy of another attempt",
    /// Two sets: a set refused an arrival, because the arrival was sent under a lineage from before a restore, which
    /// the set has fenced.
    ArrivalFenced: "arrivals of a fenced lineage",
    /// Two sets: a call was forwarded to the other set.
    ForwardedToSet: "calls forwarded to another set",
    /// Two sets: a call was sent to a set again.
    Followed: "calls sent to a set again",
    /// Two sets: a node of the other set refused a forwarded call because the section was not in that set.
    MovedRefused: "calls refused because the section moved",
    /// Two sets: a set that had responded counted as down.
    SetDown: "sets that count as down",
    /// Two sets: a call was refused because its set does not respond.
    SetUnavailable: "calls refused because their set does not respond",
    /// Two sets: a set began to close.
    SetCloses: "sets that close",
    /// Two sets: a departure to a closing set was refused.
    DepartureToClosing: "departures to a closing set",
    /// Two sets: a process that got its lease before the restore of its set still served under this lease.
    OlderLineage: "allocations by processes of an older lineage",
    /// Restores: a section departed with its owner.
    RestoresDeparted: "restores: departures",
    /// Restores: a section departed without an owner.
    RestoresDepartedSilently: "restores: departures without an owner",
    /// Restores: the sections of a migration began to return.
    RestoresReturned: "restores: returns begun",
    /// Restores: a set was restored.
    RestoresRestored: "restores: sets restored",
    /// Restores: a set was restored from a backup that was not the newest backup of the set.
    RestoresOldBackup: "restores: restores from an old backup",
    /// Restores: the operator restored a set with a larger margin, by increasing the count of restores by more than 1.
    RestoresLargerMargin: "restores: restores with a larger margin",
    /// Restores: the operator might not have known the highest count of restores, and read the count of a set that was
    /// not in quarantine.
    RestoresAsked: "restores: counts asked of other sets",
    /// Restores: the operator might not have known the highest count of restores, and no set outside of quarantine
    /// responded.
    RestoresBlind: "restores: counts chosen while no set responds",
    /// Restores: all sets were lost at the same time.
    RestoresAllLost: "restores: disasters of all sets",
    /// Restores: a set was lost in quarantine.
    RestoresLostInQuarantine: "restores: sets lost in quarantine",
    /// Restores: a set was lost while another set was in quarantine.
    RestoresLostBesideQuarantine: "restores: sets lost beside a quarantine",
    /// Restores: a set was lost while one of its migrations was open, or after a section had departed from it and
    /// before the section had arrived.
    RestoresLostInMigration: "restores: sets lost in a migration",
    /// Restores: a set was lost right after another set was merged into it.
    RestoresLostAfterMerge: "restores: sets lost after a merge",
    /// Restores: a set inherited the final records of a closing set.
    RestoresInherited: "restores: inheritances",
    /// Restores: a migration to a set began just before the set was closed.
    RestoresCrossed: "restores: migrations to a set that closes",
    /// Restores: the processes of a closed set stopped permanently.
    RestoresStopped: "restores: closed sets that stopped",
    /// Restores: a set refused the fence of another set's lineage, because the lineage's count of restores was too low.
    RestoresFenceRefused: "restores: fences refused by count",
    /// Restores: a set outside of quarantine accepted a fence from one of the other two sets after it had accepted a
    /// fence from the second of them.
    RestoresFencedAfterThird: "restores: fences accepted after that of a third set",
    /// Restores: because a set had accepted a fence from a restored set, it sent the arrivals of sections that had
    /// departed to the restored set again.
    RestoresSentAgain: "restores: fences that make departures unconfirmed",
    /// Restores: a set in quarantine began another lineage by itself, without the operator.
    RestoresLineageBegun: "restores: lineages begun unseen",
    /// Restores: a quarantine ended.
    RestoresQuarantineEnded: "restores: quarantines that ended",
    /// Restores: a quarantine waited longer than the lease wait of its own set, because another set has longer leases.
    RestoresLongerWait: "restores: quarantines by another set's terms",
    /// Restores: a member of a store that began with another backup than the other members could not join their Raft
    /// group.
    RestoresMemberRefused: "restores: members of another content left out",
    /// Restores: a process that got its lease before the restore of its set still served under this lease.
    RestoresOlderLineage: "restores: allocations by processes of an older lineage",
    /// Ids were given out.
    GivenIds: "ids given out",
    /// Ids were given out without a lease.
    GivenUnleased: "ids given out without a lease",
    /// An id is of a time ahead of the clock.
    Borrowed: "ids ahead of the clock",
    /// A call was refused because the lane's next id would have been too far ahead of the clock.
    LaneAhead: "lanes too far ahead of the clock",
    /// A call requested ids above an id whose time is too far ahead of the clock.
    AfterTooFar: "calls above an id that is too far ahead",
    /// The operator could not create a series yet, because an AllocSvr of an earlier release, which does not know
    /// series, owned sections.
    CreationRefused: "series not created beside an earlier release",
    /// A set adopted series that another set had stated in a message.
    SeriesAdopted: "adoptions of series",
    /// A set handed the creation of series to another set.
    SeriesHandedOver: "series handed to another set",
    /// A set created a series after another set had handed the creation of series to it.
    CreatedByNext: "series created by the next set",
    /// A set refused a request to create a series, because the set had handed the creation of series to another set.
    FormerRefused: "creations that the former set refused",
    /// A bucket got a larger table.
    BucketGrown: "buckets that grew",
    /// Counters of a bucket were evicted.
    KeysEvicted: "evictions of counters",
    /// A key without a counter was refused, because its bucket could not grow.
    KeysRefused: "keys refused for want of room",
    /// A read of an absent key returned an upper bound.
    AbsentRead: "reads of absent keys",
    /// A caller named another bucket than that of its key.
    WrongBucket: "calls with a wrong bucket",
    /// Numbers were allocated.
    Given: "allocations",
    /// A call got no response.
    Maybe: "calls without an answer",
}

/// The counts of a run, or the sums of several runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage([u64; Situation::ALL.len()]);

impl Default for Coverage {
    fn default() -> Coverage {
        Coverage([0; Situation::ALL.len()])
    }
}

impl Coverage {
    /// Counts an occurrence of a situation.
    pub(crate) fn saw(&mut self, situation: Situation) {
        self.0[situation as usize] += 1;
    }

    /// Returns how often a situation occurred.
    #[must_use]
    pub fn count(&self, situation: Situation) -> u64 {
        self.0[situation as usize]
    }

    /// Adds another run's counts.
    pub fn add(&mut self, other: &Coverage) {
        for (sum, count) in self.0.iter_mut().zip(other.0) {
            *sum += count;
        }
    }

    /// Returns the situations with a count of 0, except [`Situation::Masked`], which the worlds are not meant to bring
    /// about.
    #[must_use]
    pub fn missing(&self) -> Vec<Situation> {
        let sought = Situation::ALL.iter().copied().filter(|situation| *situation != Situation::Masked);
        sought.filter(|situation| self.count(*situation) == 0).collect()
    }
}
