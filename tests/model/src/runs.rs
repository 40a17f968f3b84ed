//! The runs: their bounds, the events that each must reach, and the world of each planted bug.

use crate::bounds::{Bounds, Bug, Setting};
use crate::events::Event;
use crate::world::{A, B};

/// An exploration of the correct protocol.
pub(crate) struct Run {
    pub(crate) name: &'static str,
    pub(crate) bounds: Bounds,
    /// Events without which the run would prove nothing.
    pub(crate) must_reach: &'static [Event],
}

const TIMED: Bounds = Bounds::quiet(Setting::Timed);
const CLOCKLESS: Bounds = Bounds::quiet(Setting::Clockless);
const CALM: Bounds = Bounds { misrouted: true, ..Bounds::quiet(Setting::Calm) };

/// One taker and one reader, one renewal each, and a change of owner.
const FAILOVER: Bounds = Bounds { takes: 1, reads: 1, renewals: [1, 1, 0], reassigns: 1, ..TIMED };
/// The same events between two sessions of a node.
const REREGISTRATION: Bounds =
    Bounds { takes: 1, reads: 1, renewals: [1, 0, 1], reassigns: 1, reregistered: Some(A), ..TIMED };
/// A process that was restarted, and whose first report is late.
const RESTARTED: Bounds = Bounds { restarted: true, reregistered: Some(A), renewals: [0, 1, 1], ..FAILOVER };
/// Two takers and a handover.
const HANDOVER: Bounds = Bounds { takes: 2, handovers: 1, ..CLOCKLESS };
/// A handover under lease to a node that has begun its second session.
const REFUSED_HANDOVER: Bounds = Bounds { handovers: 1, renewals: [0, 0, 1], reregistered: Some(B), ..FAILOVER };
/// A handover and one back, with a taker and a reader.
const RETURN: Bounds = Bounds { takes: 1, reads: 1, renewals: [0, 1, 0], handovers: 2, ..CALM };

/// Returns the runs under lease and clock.
pub(crate) fn timed(large: bool) -> Vec<Run> {
    use Event::{
        ExactRead, ExtendedForHeldCall, Failover, LeaseOver, NumberAfterTakeover, OldUpdateIgnored, RaiseRefused,
        ReassignLostToRenewal, SlotOfLostSectionMoved, UpperBoundRead,
    };
    let more = u8::from(large);
    vec![
        Run {
            name: "a clock that falls behind",
            bounds: Bounds { slips: 1 + more, ..FAILOVER },
            must_reach: &[Failover, ReassignLostToRenewal, LeaseOver, UpperBoundRead],
        },
        Run {
            name: "a call that arrives too early",
            bounds: Bounds { misrouted: true, slips: more, ..FAILOVER },
            must_reach: &[Failover, ReassignLostToRenewal, ExtendedForHeldCall, UpperBoundRead],
        },
        Run {
            name: "reordered renewals",
            bounds: Bounds { renewals: [2, 1 + more, 0], slips: more, ..FAILOVER },
            must_reach: &[
                Failover,
                ReassignLostToRenewal,
                LeaseOver,
                ExtendedForHeldCall,
                OldUpdateIgnored,
                SlotOfLostSectionMoved,
                ExactRead,
                UpperBoundRead,
            ],
        },
        Run {
            name: "lease and raise",
            bounds: Bounds { takes: 2, raises: 1 + more, max_seq: 1, slips: more, reads: 0, ..FAILOVER },
            must_reach: &[Failover, Event::Raised, RaiseRefused, NumberAfterTakeover, ReassignLostToRenewal],
        },
        Run {
            name: "a second session beside the first",
            bounds: Bounds { slips: 1, renewals: [1 + more, 0, 1 + more], ..REREGISTRATION },
            must_reach: &[
                Failover,
                Event::FailoverOfEndedSession,
                Event::EndedSessionRefused,
                Event::WaitGoesOn,
                ReassignLostToRenewal,
            ],
        },
        Run {
            name: "there and back",
            bounds: Bounds { reassigns: 2, slips: more, late_update: true, ..FAILOVER },
            must_reach: &[Failover, ReassignLostToRenewal, SlotOfLostSectionMoved, UpperBoundRead],
        },
        Run {
            name: "an owner that releases its section",
            bounds: Bounds { releases: 1, slips: more, reassigns: 1 + more, ..FAILOVER },
            must_reach: &[Event::ReleasedSectionAssigned, Failover, SlotOfLostSectionMoved],
        },
        advance(more),
        peer_routes(more),
    ]
    .into_iter()
    .chain(arbiters(more))
    .chain(deaths(more))
    .collect()
}

/// Returns runs in which an arbiter is slow, or another member of the store becomes the leader.
fn arbiters(more: u8) -> [Run; 2] {
    use Event::{Failover, ReassignLostToRenewal};
    [
        Run {
            name: "a stalled arbiter",
            bounds: Bounds { stalls: 1 + more, slips: more, ..FAILOVER },
            must_reach: &[Failover, Event::StalledEvaluationEnded, ReassignLostToRenewal],
        },
        Run {
            name: "a new leader",
            bounds: Bounds { leaders: 1 + more, slips: more, renewals: [1 + more, 1, 0], ..FAILOVER },
            must_reach: &[Event::LeaderChanged, Failover, ReassignLostToRenewal],
        },
    ]
}

/// Returns runs in which processes end and their parents report it: the owner or another node; one of two sessions of a
/// node; a session whose report arrives, once or twice, after the next one owns the section.
fn deaths(more: u8) -> Vec<Run> {
    use Event::{DeathIgnored, DeathNoted, FailoverOfDead, UpperBoundRead, WaitEndedByReport};
    vec![
        Run {
            name: "a reported death",
            bounds: Bounds { deaths: 1, leaders: 1, slips: more, renewals: [1, 1, 0], ..FAILOVER },
            must_reach: &[
                DeathNoted,
                WaitEndedByReport,
                FailoverOfDead,
                Event::DeathBeforeArbiter,
                Event::ReassignLostToRenewal,
                UpperBoundRead,
            ],
        },
        Run {
            name: "a reported death of one of two sessions",
            bounds: Bounds { deaths: 1 + more, renewals: [1, 1, 0], ..REREGISTRATION },
            must_reach: &[
                DeathNoted,
                DeathIgnored,
                WaitEndedByReport,
                FailoverOfDead,
                Event::FailoverOfEndedSession,
                UpperBoundRead,
            ],
        },
        Run {
            name: "a late report",
            bounds: Bounds { deaths: 1, duplicates: 1, raises: more, ..RESTARTED },
            must_reach: &[DeathNoted, DeathIgnored, WaitEndedByReport, FailoverOfDead, Event::Failover, UpperBoundRead],
        },
        Run {
            name: "a reported death in a handover",
            bounds: Bounds { deaths: 1, handovers: 1, renewals: [0, 1, 0], slips: more, ..FAILOVER },
            must_reach: &[
                DeathNoted,
                WaitEndedByReport,
                FailoverOfDead,
                Event::TransferRefused,
                Event::Thawed,
                Event::NumberAfterHandover,
            ],
        },
    ]
}

/// Returns a run in which a session without a lease fetches the routes of a peer: a former owner, and an owner that has
/// not received its grant.
fn peer_routes(more: u8) -> Run {
    Run {
        name: "peer routes without a lease",
        bounds: Bounds { fetches: 1 + more, slips: more, ..FAILOVER },
        must_reach: &[
            Event::Failover,
            Event::RevokedByPeerRoutes,
            Event::GrantedAfterPeerRoutes,
            Event::ReassignLostToRenewal,
            Event::UpperBoundRead,
        ],
    }
}

/// Returns a run with a uid that is raised by an advance, under a lease.
fn advance(more: u8) -> Run {
    Run {
        name: "an advance",
        bounds: Bounds { max_seq: 3, advances: 1, renewals: [more, 1, 0], slips: more, ..FAILOVER },
        must_reach: &[
            Event::Advanced,
            Event::AdvancePast,
            Event::NumberAfterAdvance,
            Event::Failover,
            Event::ExactRead,
        ],
    }
}

/// Returns the runs of handovers.
pub(crate) fn handovers(large: bool) -> Vec<Run> {
    use Event::{
        Failover, ForgedActivate, FrozenSlotMet, Granted, LateActivateIgnored, NumberAfterHandover,
        NumberAfterTakeover, RenewedAtActivate, StaleCopySkipped, Thawed, TransferRefused, TransferRepeated,
    };
    let more = u8::from(large);
    vec![
        Run {
            name: "a handover under lease",
            bounds: Bounds { handovers: 1, renewals: [more, 1, 0], slips: more, late_update: true, ..FAILOVER },
            must_reach: &[Failover, RenewedAtActivate, Granted, Thawed, StaleCopySkipped, NumberAfterHandover],
        },
        Run {
            name: "a handover to a session that is over",
            bounds: Bounds { slips: more, ..REFUSED_HANDOVER },
            must_reach: &[Failover, TransferRefused, Thawed, Event::UpperBoundRead],
        },
        Run {
            name: "a handover without clocks",
            bounds: Bounds {
                takes: 3,
                renewals: [more, 1, 0],
                raises: 1 + more,
                reassigns: 1,
                duplicates: 1,
                ..HANDOVER
            },
            must_reach: &[
                Failover,
                RenewedAtActivate,
                Granted,
                Thawed,
                StaleCopySkipped,
                TransferRefused,
                TransferRepeated,
                LateActivateIgnored,
                FrozenSlotMet,
                NumberAfterHandover,
                NumberAfterTakeover,
            ],
        },
        Run {
            name: "a forged Activate",
            bounds: Bounds { renewals: [0, more, 0], reassigns: 1, forged: 1, ..HANDOVER },
            must_reach: &[ForgedActivate, RenewedAtActivate, Granted, Failover, StaleCopySkipped, NumberAfterHandover],
        },
        Run {
            name: "a forged Activate under lease",
            bounds: Bounds { forged: 1, slips: more, renewals: [1, more, 0], ..FAILOVER },
            must_reach: &[ForgedActivate, Failover, Event::ReassignLostToRenewal, Event::UpperBoundRead],
        },
    ]
    .into_iter()
    .chain(entangled_handovers(more))
    .collect()
}

/// Returns runs of handovers during another handover, with routes from peers, or with a second session of one side.
fn entangled_handovers(more: u8) -> Vec<Run> {
    use Event::{Failover, Granted, NumberAfterHandover, RenewedAtActivate, StaleCopySkipped, Thawed, TransferRefused};
    vec![
        Run {
            name: "two handovers without clocks",
            bounds: Bounds {
                handovers: 2,
                renewals: [1, 1, 0],
                reassigns: 1,
                duplicates: more,
                late_update: true,
                ..HANDOVER
            },
            must_reach: &[Failover, RenewedAtActivate, Thawed, StaleCopySkipped, TransferRefused, NumberAfterHandover],
        },
        Run {
            name: "peer routes during a handover",
            bounds: Bounds { fetches: 1 + more, renewals: [1, 1, 0], reassigns: 1, ..HANDOVER },
            must_reach: &[
                Event::RevokedByPeerRoutes,
                Event::GrantedAfterPeerRoutes,
                Event::PeerRoutesIgnored,
                Failover,
                Granted,
                Thawed,
                TransferRefused,
                NumberAfterHandover,
            ],
        },
        Run {
            name: "the target's second session",
            bounds: Bounds {
                renewals: [0, 1, 1],
                reassigns: 1,
                duplicates: more,
                releases: 1,
                reregistered: Some(B),
                ..HANDOVER
            },
            must_reach: &[
                TransferRefused,
                Thawed,
                Event::FailoverOfEndedSession,
                Event::EndedSessionRefused,
                NumberAfterHandover,
            ],
        },
        Run {
            name: "the owner's second session",
            bounds: Bounds {
                renewals: [0, 1, 1],
                reassigns: 1,
                duplicates: 1,
                raises: more,
                reregistered: Some(A),
                ..HANDOVER
            },
            must_reach: &[TransferRefused, Thawed, Event::FailoverOfEndedSession, NumberAfterHandover],
        },
    ]
}

/// Returns the runs without faults, in which a handover must be invisible to callers.
pub(crate) fn calm(large: bool) -> Vec<Run> {
    use Event::{
        EarlyCallHeld, Forwarded, ForwardedToTheLimit, FrozenSlotMet, Granted, LateActivateIgnored,
        NumberAfterHandover, RenewedAtActivate,
    };
    let more = u8::from(large);
    let felt = &[Forwarded, ForwardedToTheLimit, EarlyCallHeld, FrozenSlotMet, NumberAfterHandover];
    vec![
        Run {
            name: "a handover without faults",
            bounds: Bounds { takes: 2 + more, reads: 1, max_seq: 2 + more, renewals: [1, 1, 0], handovers: 1, ..CALM },
            must_reach: &[
                Forwarded,
                ForwardedToTheLimit,
                EarlyCallHeld,
                FrozenSlotMet,
                NumberAfterHandover,
                RenewedAtActivate,
                Granted,
                LateActivateIgnored,
                Event::ExactRead,
            ],
        },
        Run {
            name: "an advance during a handover",
            bounds: Bounds { takes: 1, reads: 1, advances: 1, max_seq: 3, renewals: [0, 1, 0], handovers: 1, ..CALM },
            must_reach: &[
                Event::Advanced,
                Event::NumberAfterAdvance,
                FrozenSlotMet,
                NumberAfterHandover,
                Event::ExactRead,
            ],
        },
        Run {
            name: "a handover at the ceiling",
            bounds: Bounds { takes: 2 + more, max_seq: 1, renewals: [0, 1, 0], handovers: 1, raises: 2 + more, ..CALM },
            must_reach: felt,
        },
    ]
}

/// Returns the small world in which a bug is planted.
pub(crate) fn world_of(bug: Bug) -> Bounds {
    match bug {
        Bug::ExpiryFromResponse | Bug::LivenessNotCompared | Bug::LeaseBeforeUpdate | Bug::LostSectionKept => FAILOVER,
        Bug::CachedClock | Bug::ClockStopsInSuspend => Bounds { renewals: [0, 1, 0], ..FAILOVER },
        Bug::EndedSessionNotCompared | Bug::EndedSessionWaitKept => REREGISTRATION,
        Bug::ClockBeforeState => Bounds { stalls: 1, ..FAILOVER },
        Bug::WaitOfALease => Bounds { renewals: [0, 1, 0], slips: 1, ..FAILOVER },
        Bug::UnfencedRaise => {
            Bounds { takes: 3, raises: 2, max_seq: 1, renewals: [0, 1, 0], reassigns: 1, ..CLOCKLESS }
        }
        Bug::RelativeRaise => Bounds { takes: 1, raises: 1, max_seq: 1, duplicates: 1, ..CLOCKLESS },
        Bug::StartBelowCeiling => Bounds { takes: 2, max_seq: 1, renewals: [0, 1, 0], reassigns: 1, ..CLOCKLESS },
        Bug::ResponseFromMemory => Bounds { leaders: 1, ..FAILOVER },
        Bug::RefusalExtends => REFUSED_HANDOVER,
        Bug::OldUpdateAdopted => Bounds { renewals: [0, 2, 0], ..RETURN },
        Bug::LateActivate => RETURN,
        Bug::CopyWithoutFreeze | Bug::BlindAdd | Bug::ThawWithoutResponse => HANDOVER,
        Bug::StaleCopy => Bounds { renewals: [0, 1, 0], reassigns: 1, ..HANDOVER },
        Bug::PrevIsCeiling => {
            Bounds { takes: 1, raises: 1, max_seq: 1, renewals: [0, 1, 0], reassigns: 1, ..CLOCKLESS }
        }
        Bug::PrevIsTarget => Bounds { takes: 1, advances: 1, max_seq: 3, ..CALM },
        Bug::ExactAlways => Bounds { takes: 0, ..FAILOVER },
        Bug::AdvanceUncovered => Bounds { takes: 1, advances: 1, max_seq: 1, raises: 1, ..CALM },
        Bug::TrustsActivate => Bounds { takes: 2, forged: 1, ..CLOCKLESS },
        Bug::GuessedAttempt => Bounds { forged: 1, ..HANDOVER },
        Bug::PeerRoutesGrant => {
            Bounds { takes: 2, raises: 1, max_seq: 1, renewals: [1, 0, 0], reassigns: 1, fetches: 1, ..CLOCKLESS }
        }
        Bug::PeerRoutesExtendLease => Bounds { renewals: [0, 1, 0], fetches: 1, ..FAILOVER },
        Bug::DeathNotReaped => Bounds { deaths: 1, renewals: [0, 1, 0], ..FAILOVER },
        Bug::DeathOfNode => Bounds { renewals: [0, 1, 0], ..RESTARTED },
        Bug::DeathOfEarlier => Bounds { deaths: 1, renewals: [0, 1, 0], ..REREGISTRATION },
        Bug::ThawBeforeUpdate => Bounds { reassigns: 1, duplicates: 1, ..HANDOVER },
    }
}
