//! The events of a run of the model of two sets.

use crate::explore::listed;

listed! {
    /// An event that a run should reach.
    enum Event;

    /// An owner started from the copy of the handover that its ownership began with.
    ExactStart,
    /// An owner started at the ceiling.
    CeilingStart,
    /// A node with a staged copy was granted the section by another attempt, or without an attempt.
    StaleCopySkipped,
    /// A Depart was repeated after it was applied.
    DepartRepeated,
    /// A Depart was refused, because the ownership that it names is over.
    DepartLost,
    /// A Depart was refused, because its migration was rolled back.
    DepartRefused,
    /// A section without a live owner departed.
    DepartSilent,
    /// A DepartSilent was refused, because the owner renewed since.
    SilentLostToRenewal,
    /// A section was thawed.
    Thawed,
    /// A call found its slot frozen.
    FrozenSlotMet,
    /// A call was forwarded to another set.
    Forwarded,
    /// A raise was refused by its epoch or its session.
    RaiseRefused,
    /// An Arrive was repeated after it was applied.
    ArriveRepeated,
    /// An Arrive came after the section had left again, or came back.
    ArrivePast,
    /// An Arrive named a session that is not the current session: the section has no owner yet.
    ArriveUnowned,
    /// An Arrive of an older lineage of its sender was refused.
    ArriveFenced,
    /// An Arrive was made for an older lineage of its receiver.
    ArriveOtherLineage,
    /// A tombstone in the response to a Fence was applied as its Arrive.
    TombstoneInResponse,
    /// The response to a Fence had a newer home: a quarantined or unknown section is recorded as gone.
    Gone,
    /// The response to a Fence had no newer home: a quarantined section is resident again.
    Home,
    /// Both sets were in quarantine at the same time.
    BothQuarantined,
    /// The response to a Fence came from an older lineage than the known lineage, and was dropped.
    OldResponseDropped,
    /// A migration was rolled back after its section had departed, and the section came back.
    Returned,
    /// A migration was completed.
    Completed,
    /// A claim was received that is older than the receiver's.
    GossipOlder,
    /// A claim was received that is newer than the receiver's.
    GossipNewer,
}
