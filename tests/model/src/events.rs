//! The events of a run, which are counted so that a model in which nothing happens cannot pass.

use crate::explore::listed;

listed! {
    /// An event that a run should reach.
    enum Event;

    /// A section was taken from an owner by Reassign.
    Failover,
    /// A section was taken by Reassign from an owner whose session was over.
    FailoverOfEndedSession,
    /// A released section got an owner.
    ReleasedSectionAssigned,
    /// A Reassign was refused, because the owner's liveness counter moved since.
    ReassignLostToRenewal,
    /// An owner that had started at the ceiling allocated a number.
    NumberAfterTakeover,
    /// An owner that had started from a copy allocated a number.
    NumberAfterHandover,
    /// A raise was refused by its epoch.
    RaiseRefused,
    /// A raise or a renewal was refused, because the session was over.
    EndedSessionRefused,
    /// A ceiling was raised.
    Raised,
    /// A call was not admitted, because the lease was over at the reading.
    LeaseOver,
    /// A lease was extended after a call's reading that was outside of it, and the call admitted.
    ExtendedForHeldCall,
    /// An ownership update was older than the node's route.
    OldUpdateIgnored,
    /// A call moved a slot of a section that had left its node's table.
    SlotOfLostSectionMoved,
    /// A new leader's arbiter started empty.
    LeaderChanged,
    /// A counter was raised by an advance.
    Advanced,
    /// An advance was refused, because the counter was past its target.
    AdvancePast,
    /// A number above an advance's target was allocated.
    NumberAfterAdvance,
    /// `Current` returned an exact value.
    ExactRead,
    /// `Current` returned an upper bound.
    UpperBoundRead,
    /// The arbiter's thread continued an evaluation within which it had stalled.
    StalledEvaluationEnded,
    /// A session ended at the count that the arbiter had observed last, and the wait continued.
    WaitGoesOn,
    /// An Activate made the target of a handover renew.
    RenewedAtActivate,
    /// A handover ended by the grant in a response of the store.
    Granted,
    /// A forged Activate arrived.
    ForgedActivate,
    /// A node with a staged copy was granted the section by another attempt or a takeover.
    StaleCopySkipped,
    /// A section was thawed.
    Thawed,
    /// A Transfer was refused.
    TransferRefused,
    /// A Transfer was repeated after it was applied.
    TransferRepeated,
    /// An Activate arrived after the node's route had its epoch, or a later epoch.
    LateActivateIgnored,
    /// A call that was admitted found its slot frozen.
    FrozenSlotMet,
    /// A call arrived at the target before the section, and was pending.
    EarlyCallHeld,
    /// A call was forwarded.
    Forwarded,
    /// A call was forwarded as often as allowed.
    ForwardedToTheLimit,
    /// Peer routes named another owner under a newer epoch, and the section left the table.
    RevokedByPeerRoutes,
    /// A section was granted whose owner was in the node's peer routes already.
    GrantedAfterPeerRoutes,
    /// Newer peer routes were ignored, because the session had a handover in progress.
    PeerRoutesIgnored,
    /// The death of a process was noted.
    DeathNoted,
    /// The report of a death changed nothing, because the node had a newer session, or because the report was repeated.
    DeathIgnored,
    /// The report of a death ended a wait.
    WaitEndedByReport,
    /// A section was taken by Reassign from an owner whose process was reported dead.
    FailoverOfDead,
    /// An arbiter found the report of a death in its first state, and waited.
    DeathBeforeArbiter,
}
