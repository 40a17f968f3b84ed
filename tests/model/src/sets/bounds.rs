//! Bounds of a run of the model of two sets, and the bugs that can be planted in it.

use crate::explore::listed;
use crate::sets::world::PerSet;

/// The bounds of a run and the setting of its world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The promises that the run checks.
    pub(crate) setting: Setting,
    /// The committed ceiling at the start.
    pub(crate) max_seq: u8,
    /// The events that may occur.
    pub(crate) budget: Budget,
    /// The bug that is planted.
    pub(crate) bug: Option<Bug>,
}

impl Bounds {
    /// Returns whether a store may be restored.
    pub(crate) fn restores(&self) -> bool {
        self.budget.restores != PerSet([0, 0])
    }

    /// Returns whether the bug is planted.
    pub(crate) fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }
}

/// Number of events of each kind that may occur: in a run, or from a state on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    /// Calls of `Next`, one number each.
    pub(crate) takes: u8,
    /// Calls of `Current`.
    pub(crate) reads: u8,
    /// Migrations that an operator starts, each from the set in which the section is resident.
    pub(crate) migrations: u8,
    /// Handovers that begin, of all migrations and their returns.
    pub(crate) handovers: u8,
    /// Departures of a section without a live owner that an arbiter proposes.
    pub(crate) silents: u8,
    /// Raises, by any owner.
    pub(crate) raises: u8,
    /// Leases that end while their session is the current session of its node.
    pub(crate) lapses: PerSet<u8>,
    /// Renewals of sessions whose lease has ended. Without any, such a session is over permanently.
    pub(crate) renewals: u8,
    /// Sessions that register in each set after its first session.
    pub(crate) registrations: PerSet<u8>,
    /// Owners that an arbiter assigns inside of a set.
    pub(crate) reassigns: u8,
    /// Messages that are delivered twice.
    pub(crate) duplicates: u8,
    /// Pauses of a migration.
    pub(crate) pauses: u8,
    /// Migrations that are rolled back.
    pub(crate) rollbacks: u8,
    /// Migrations that are completed.
    pub(crate) completions: u8,
    /// Restores of each set from its backup, which is made at any time.
    pub(crate) restores: PerSet<u8>,
    /// Claims that stores send to each other and to the client, in addition to the claims in responses.
    pub(crate) claims: u8,
}

impl Budget {
    /// No event.
    pub(crate) const NONE: Budget = Budget {
        takes: 0,
        reads: 0,
        migrations: 0,
        handovers: 0,
        silents: 0,
        raises: 0,
        lapses: PerSet([0, 0]),
        renewals: 0,
        registrations: PerSet([0, 0]),
        reassigns: 0,
        duplicates: 0,
        pauses: 0,
        rollbacks: 0,
        completions: 0,
        restores: PerSet([0, 0]),
        claims: 0,
    };
}

/// Kind of world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// No message is lost, no session ends, and calls are routed by the client's directory. A migration leaves no gap
    /// and every call gets a response; all other promises hold as well.
    Calm,
    /// A lease ends before its section gets another owner without a handover. All promises to callers hold, except
    /// those of [`Setting::Calm`]. Calls reach any owner.
    Ordered,
    /// No session ever stops, and owners are replaced at any time. The promises that assume no clock hold.
    Clockless,
}

listed! {
    /// A variation of the protocol that must be caught.
    enum Bug;

    /// An Arrive is sent for a tombstone that is proposed, and the proposal is lost with its leader.
    ProposedTombstoneSent,
    /// The tombstone has the ceiling of the time when the handover began.
    CeilingOfTheBeginning,
    /// A repeated Arrive writes the record again.
    RepeatedArriveWrites,
    /// A section that comes back gets the epoch of its earlier stay.
    ReturnTakesTheOldEpoch,
    /// A tombstone is deleted when its section has arrived.
    TombstoneDeleted,
    /// An older claim that a store receives lowers its fence.
    ClaimLowersTheFence,
    /// A store takes the epoch of a newer claim that it receives as its fence.
    NewerClaimIsAFence,
    /// The client adopts any claim that it receives.
    OlderClaimAdopted,
    /// A node forwards a call without newer knowledge than the call came with.
    ForwardedWithoutNewerClaim,
    /// The owner thaws although a Depart was sent and has no definite response.
    ThawWithoutResponse,
    /// A Depart is refused while the migration is paused.
    PauseRefusesDepart,
    /// The source of a migration takes the section back by itself.
    RollbackByFiat,
    /// The slots are copied without being frozen.
    CopyWithoutFreeze,
    /// A staged copy is used by its epoch alone, of any attempt.
    StaleCopy,
    /// A section departs without its owner and without the wait for the lease.
    SilentAtOnce,
    /// A DepartSilent is applied although the owner renewed since it was proposed.
    SilentNotCompared,
    /// No message carries a lineage: a session is known by its incarnation, which a restored store counts anew.
    LineageNotCompared,
    /// A restored store serves without quarantine.
    RestoredSourceContinues,
    /// The quarantine ends on a read of the other set, without an entry in its log.
    QuarantineEndsOnARead,
    /// A restored store applies an Arrive that was made for its older lineage as it is.
    RestoredTargetTakesArrive,
    /// The margin is added once, for any number of restores since the ceiling was committed.
    OneMargin,
    /// A restored store serves before the leases of its older lineage have ended.
    QuarantineWithoutWait,
    /// A restored store waits for the leases of its own older lineages, but not for leases of another restored set.
    WaitForOwnLeasesOnly,
    /// A restored store waits for the Arrive of a tombstone that it finds in the response to its Fence.
    TombstoneNotTakenFromResponse,
    /// A tombstone loses its ceiling and its target's lineage when its migration is completed.
    CompletedTombstoneShrinks,
    /// A restored store takes the response to its Fence from an older lineage of the other set.
    OldResponseTaken,
}
