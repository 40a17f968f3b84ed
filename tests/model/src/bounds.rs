//! What a run of the model explores, and the bugs that can be planted in it.

use crate::world::{LEASE, LIVES, Life, WAIT};

/// How much of everything a run may use, and what kind of world it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Which promises are at stake.
    pub(crate) setting: Setting,
    /// Calls of `Next`, one number each.
    pub(crate) takes: u8,
    /// Calls of `Current`.
    pub(crate) reads: u8,
    /// Calls of `Advance`, each to the same target.
    pub(crate) advances: u8,
    /// Whether calls also reach nodes that do not own the section (yet). Where they are not forwarded, they only wait there.
    pub(crate) astray: bool,
    /// Whether the news in an answer may be read later than its entry was applied, up to when the answer arrives.
    pub(crate) late_news: bool,
    /// The committed ceiling at the start.
    pub(crate) max_seq: u8,
    /// Renewals that each life sends.
    pub(crate) renewals: [u8; LIVES],
    /// Raises, by whoever owns the section.
    pub(crate) raises: u8,
    /// Changes of owner that arbiters propose.
    pub(crate) reassigns: u8,
    /// Messages that arrive twice.
    pub(crate) duplicates: u8,
    /// Planned moves that are begun.
    pub(crate) moves: u8,
    /// Times that a stranger sends a node a Stage and an Activate for the epoch that comes next.
    pub(crate) forged: u8,
    /// Times that an owner gives the section up because its raises fail.
    pub(crate) give_ups: u8,
    /// New leaders of the store, each with an arbiter that starts fresh.
    pub(crate) leaders: u8,
    /// Looks of the arbiter whose thread stands still between the state and the clock.
    pub(crate) stalls: u8,
    /// Clocks of owners that fall behind the arbiter's, by one tick in all.
    pub(crate) slips: u8,
    /// The node that registers a second life, while the first one may still run.
    pub(crate) reborn: Option<Life>,
    /// The bug that is planted.
    pub(crate) bug: Option<Bug>,
}

impl Bounds {
    /// Two lives, one section that A owns under a ceiling of 2, and nothing that may happen.
    pub(crate) const fn quiet(setting: Setting) -> Bounds {
        Bounds {
            setting,
            takes: 0,
            reads: 0,
            advances: 0,
            astray: false,
            late_news: false,
            max_seq: 2,
            renewals: [0; LIVES],
            raises: 0,
            reassigns: 0,
            duplicates: 0,
            moves: 0,
            forged: 0,
            give_ups: 0,
            leaders: 0,
            stalls: 0,
            slips: 0,
            reborn: None,
            bug: None,
        }
    }

    /// How long the arbiter waits.
    pub(crate) fn wait(&self) -> i8 {
        if self.has(Bug::WaitOfALease) { LEASE } else { WAIT }
    }

    /// Whether the bug is planted.
    pub(crate) fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }
}

/// The world that a run is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// Clocks run at bounded rates; leases and waits are counted. Every promise holds.
    Timed,
    /// Clocks say anything: an owner never stops by itself, an arbiter proposes whenever it likes, and nothing that it
    /// heard is compared. The promises that assume no clock hold.
    Clockless,
    /// No message is lost, nobody dies and no lease runs out; calls are forwarded. A planned move leaves no gap and refuses
    /// nobody, and all the rest holds as well.
    Calm,
}

macro_rules! bugs {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// A variation of the protocol that must be caught.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Bug { $($(#[doc = $doc])* $name,)* }

        impl Bug {
            /// All of them, in order.
            pub(crate) const ALL: &[Bug] = &[$(Bug::$name,)*];
        }
    };
}

bugs! {
    /// The lease is counted from the answer, not from before the question was sent.
    ExpiryFromAnswer,
    /// The clock that a call is judged by was read before the call arrived.
    CachedClock,
    /// Reassign is applied although its owner was heard of since.
    HeardNotCompared,
    /// Reassign, proposed when the owner's life was the current one, is not compared because that life is over by now.
    EndedLifeNotCompared,
    /// The wait for a life that is over counts from when that life was seen to be heard of last.
    EndedLifeWaitKept,
    /// The arbiter reads its clock, and the state after it.
    ClockBeforeState,
    /// The arbiter waits as long as a lease lasts, no longer.
    WaitOfALease,
    /// A raise is applied whatever its epoch.
    UnfencedRaise,
    /// A raise adds to the ceiling instead of naming it.
    RelativeRaise,
    /// A takeover starts below the ceiling.
    StartBelowCeiling,
    /// The lease is extended first, and the news of the same answer adopted afterwards.
    LeaseBeforeNews,
    /// A section that the store gave to somebody else stays in the table.
    LostSectionKept,
    /// A renewal is answered from the memory of a leader that was deposed.
    AnswerFromMemory,
    /// An answer that the store did not count as hearing of the owner extends the lease.
    RefusalExtends,
    /// The owner's clock stands still while its machine sleeps.
    ClockStopsInSuspend,
    /// News that are older than what the node knows are adopted.
    OldNewsAdopted,
    /// The slots are copied without being frozen.
    CopyWithoutFreeze,
    /// A slot is found not frozen, and then added to blindly.
    BlindAdd,
    /// A staged copy is used by its epoch alone, whatever attempt it belongs to.
    StaleCopy,
    /// The owner thaws although a Transfer was sent and no definite answer came.
    ThawWithoutAnswer,
    /// The owner thaws at a refusal before it adopts the news that came with it.
    ThawBeforeNews,
    /// An Activate is obeyed although the node knows of a later owner.
    LateActivate,
    /// After a takeover the ceiling is named as the number given out before.
    PrevIsCeiling,
    /// After an advance its target is named as the number given out before.
    PrevIsTarget,
    /// A takeover's start is read as exact.
    ExactAlways,
    /// An advance is answered as done before the ceiling covers its target, and moves nothing.
    AdvanceUncovered,
    /// A target starts on an Activate alone, without the grant of its store.
    TrustsActivate,
    /// A stranger can guess the number of an attempt.
    GuessedAttempt,
}
