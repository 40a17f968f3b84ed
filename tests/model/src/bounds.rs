//! Bounds of a run of the model, and the bugs that can be planted in it.

use crate::explore::listed;
use crate::world::{LEASE, SESSIONS, Session, WAIT};

/// The bounds of a run and the setting of its world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The promises that the run checks.
    pub(crate) setting: Setting,
    /// Calls of `Next`, one number each.
    pub(crate) takes: u8,
    /// Calls of `Current`.
    pub(crate) reads: u8,
    /// Calls of `Advance`, each to the same target.
    pub(crate) advances: u8,
    /// Whether calls also arrive at nodes that do not own the section (yet). If they are not forwarded, they only wait
    /// there.
    pub(crate) misrouted: bool,
    /// Whether the ownership update of a response may be read later than its entry was applied, up to the delivery.
    pub(crate) late_update: bool,
    /// The committed ceiling at the start.
    pub(crate) max_seq: u8,
    /// Renewals that each session sends.
    pub(crate) renewals: [u8; SESSIONS],
    /// Raises, by any owner of the section.
    pub(crate) raises: u8,
    /// Changes of owner that an arbiter proposes.
    pub(crate) reassigns: u8,
    /// Messages that are delivered twice.
    pub(crate) duplicates: u8,
    /// Handovers that begin.
    pub(crate) handovers: u8,
    /// Forged pairs of a Stage and an Activate for the next epoch.
    pub(crate) forged: u8,
    /// Times that an owner releases the section because its raises fail.
    pub(crate) releases: u8,
    /// New leaders of the store, each with an arbiter that starts empty.
    pub(crate) leaders: u8,
    /// Evaluations of the arbiter whose thread stalls between the state and the clock.
    pub(crate) stalls: u8,
    /// Clocks of owners that fall behind the arbiter's, by one tick in all.
    pub(crate) slips: u8,
    /// Requests of a session without a lease for the routes of a peer.
    pub(crate) fetches: u8,
    /// Processes that end, each of which its parent reports to the store.
    pub(crate) deaths: u8,
    /// The node that registers a second session, while its first session may still run.
    pub(crate) reregistered: Option<Session>,
    /// Whether the process of that node, which is A, was restarted before the beginning.
    pub(crate) restarted: bool,
    /// The bug that is planted.
    pub(crate) bug: Option<Bug>,
}

impl Bounds {
    /// Returns bounds with two sessions, a section that A owns under a ceiling of 2, and no event.
    pub(crate) const fn quiet(setting: Setting) -> Bounds {
        Bounds {
            setting,
            takes: 0,
            reads: 0,
            advances: 0,
            misrouted: false,
            late_update: false,
            max_seq: 2,
            renewals: [0; SESSIONS],
            raises: 0,
            reassigns: 0,
            duplicates: 0,
            handovers: 0,
            forged: 0,
            releases: 0,
            leaders: 0,
            stalls: 0,
            slips: 0,
            fetches: 0,
            deaths: 0,
            reregistered: None,
            restarted: false,
            bug: None,
        }
    }

    /// Returns how long the arbiter waits.
    pub(crate) fn wait(&self) -> i8 {
        if self.has(Bug::WaitOfALease) { LEASE } else { WAIT }
    }

    /// Returns whether the bug is planted.
    pub(crate) fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }
}

/// Kind of world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// Clocks run at bounded rates; leases and waits are counted. Every promise holds.
    Timed,
    /// Clocks have no meaning: an owner never stops by itself, an arbiter proposes at any time, and no liveness counter
    /// is compared. The promises that assume no clock hold.
    Clockless,
    /// No message is lost, no session ends and no lease expires; calls are forwarded. A handover leaves no gap and
    /// refuses no call, and all other promises hold as well.
    Calm,
}

listed! {
    /// A variation of the protocol that must be caught.
    enum Bug;

    /// The lease is counted from the response, not from before the request was sent.
    ExpiryFromResponse,
    /// The lease of a call is checked with a clock that was read before the call arrived.
    CachedClock,
    /// Reassign is applied although the owner's liveness counter moved since.
    LivenessNotCompared,
    /// Reassign, proposed when the owner's session was the current one, is not compared because that session is over by
    /// now.
    EndedSessionNotCompared,
    /// The wait for a session that is over counts from when its counter was last observed to move.
    EndedSessionWaitKept,
    /// The arbiter reads its clock, and the state after it.
    ClockBeforeState,
    /// The arbiter waits as long as a lease lasts, no longer.
    WaitOfALease,
    /// A raise is applied under any epoch.
    UnfencedRaise,
    /// A raise is relative to the ceiling instead of absolute.
    RelativeRaise,
    /// A takeover starts below the ceiling.
    StartBelowCeiling,
    /// The lease is extended first, and the ownership update of the same response adopted afterwards.
    LeaseBeforeUpdate,
    /// A section that the store gave to another session stays in the table.
    LostSectionKept,
    /// A deposed leader responds to a renewal from its memory.
    ResponseFromMemory,
    /// A response to a request that the store did not count for liveness extends the lease.
    RefusalExtends,
    /// The owner's clock stops while its machine sleeps.
    ClockStopsInSuspend,
    /// Ownership updates older than the node's route are adopted.
    OldUpdateAdopted,
    /// The slots are copied without being frozen.
    CopyWithoutFreeze,
    /// A slot is found not frozen, and then added to blindly.
    BlindAdd,
    /// A staged copy is used by its epoch alone, of any attempt.
    StaleCopy,
    /// The owner thaws although a Transfer was sent and got no definite response.
    ThawWithoutResponse,
    /// The owner thaws at a refusal before it adopts the ownership update of the same response.
    ThawBeforeUpdate,
    /// An Activate is adopted although the node's route names a later owner.
    LateActivate,
    /// After a takeover the ceiling is the `prev` of the first number.
    PrevIsCeiling,
    /// After an advance its target is the `prev` of the next number.
    PrevIsTarget,
    /// A takeover's start is read as exact.
    ExactAlways,
    /// An advance is acknowledged before the ceiling covers its target, and moves nothing.
    AdvanceUncovered,
    /// A target starts on an Activate alone, without the grant of its store.
    TrustsActivate,
    /// A forged message has the number of an attempt.
    GuessedAttempt,
    /// Peer routes that name the session as the owner start the ownership, without the grant of its store.
    PeerRoutesGrant,
    /// The response of a peer extends the lease.
    PeerRoutesExtendLease,
    /// A process is reported dead while it still runs.
    DeathNotReaped,
    /// The report of a death names the node instead of the process.
    DeathOfNode,
    /// The report of a death ends the wait for an earlier session of the node as well.
    DeathOfEarlier,
}
