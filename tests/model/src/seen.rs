//! What happened in a run, so that a model in which nothing happens cannot pass.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! events {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// Something that a run should come across.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Event { $($(#[doc = $doc])* $name,)* }

        impl Event {
            /// All of them, in order.
            pub(crate) const ALL: &[Event] = &[$(Event::$name,)*];
        }
    };
}

events! {
    /// A section was taken from an owner by Reassign.
    Failover,
    /// The same, where the owner's life was over.
    FailoverOfEndedLife,
    /// A section that was given up got an owner.
    ReleasedSectionAssigned,
    /// A Reassign was refused, because its owner was heard of since.
    ReassignLostToRenewal,
    /// A number was given out by an owner that had started at the ceiling.
    NumberAfterTakeover,
    /// A number was given out by an owner that had started from a copy.
    NumberAfterMove,
    /// A raise was refused by its epoch.
    RaiseRefused,
    /// A raise was refused, or a renewal, because the life was over.
    EndedLifeRefused,
    /// A ceiling was raised.
    Raised,
    /// A call was not admitted, because the lease was over at the reading.
    LeaseOver,
    /// A lease was extended after a call's reading that was outside of it, and the call admitted.
    ExtendedForHeldCall,
    /// News came that were older than what the node knew.
    OldNewsIgnored,
    /// A call moved a slot of a section that had left its node's table.
    SlotOfLostSectionMoved,
    /// A new leader's arbiter started fresh.
    LeaderChanged,
    /// A counter was raised by an advance.
    Advanced,
    /// An advance was refused, because the counter was past its target.
    AdvancePast,
    /// A number was given out above an advance's target.
    NumberAfterAdvance,
    /// `Current` was answered exactly.
    ExactRead,
    /// `Current` was answered with an upper bound.
    UpperBoundRead,
    /// The arbiter's thread stood still inside of a look.
    StalledLookEnded,
    /// A life ended at the count that the arbiter had read last, and the wait went on.
    WaitGoesOn,
    /// An Activate made the target of a planned move ask its store.
    AskedAtActivate,
    /// A planned move ended by the grant in an answer of the store.
    Granted,
    /// A stranger's Activate arrived.
    ForgedActivate,
    /// A node that held a staged copy was granted the section by something else.
    StaleCopyPassedOver,
    /// A section was thawed.
    Thawed,
    /// A Transfer was refused.
    TransferRefused,
    /// A Transfer was repeated after it was applied.
    TransferRepeated,
    /// An Activate came after the node knew of it, or of something later.
    LateActivateIgnored,
    /// A call that was admitted found its slot frozen.
    FrozenSlotMet,
    /// A call reached the target before the section, and was held.
    EarlyCallHeld,
    /// A call was forwarded.
    Forwarded,
    /// A call was forwarded as often as one may be.
    ForwardedToTheLimit,
}

/// How often each event was seen.
#[derive(Debug)]
pub(crate) struct Seen(Vec<AtomicU64>);

impl Seen {
    /// Nothing yet.
    pub(crate) fn nothing() -> Seen {
        Seen(Event::ALL.iter().map(|_| AtomicU64::new(0)).collect())
    }

    /// Counts one.
    pub(crate) fn mark(&self, event: Event) {
        self.0[event as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How often it was seen.
    pub(crate) fn count(&self, event: Event) -> u64 {
        self.0[event as usize].load(Ordering::Relaxed)
    }
}
