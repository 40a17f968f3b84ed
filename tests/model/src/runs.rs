//! The runs: what each explores, what it must come across, and where each planted bug shows.

use crate::bounds::{Bounds, Bug, Setting};
use crate::seen::Event;
use crate::world::{A, B};

/// One exploration of the correct protocol.
pub(crate) struct Run {
    pub(crate) name: &'static str,
    pub(crate) bounds: Bounds,
    /// Without these the run would say nothing.
    pub(crate) must_see: &'static [Event],
}

const TIMED: Bounds = Bounds::quiet(Setting::Timed);
const CLOCKLESS: Bounds = Bounds::quiet(Setting::Clockless);
const CALM: Bounds = Bounds { astray: true, ..Bounds::quiet(Setting::Calm) };

/// One taker and one reader, one renewal each, and a change of owner.
const FAILOVER: Bounds = Bounds { takes: 1, reads: 1, renewals: [1, 1, 0], reassigns: 1, ..TIMED };
/// The same between two lives of one node.
const REBIRTH: Bounds = Bounds { takes: 1, reads: 1, renewals: [1, 0, 1], reassigns: 1, reborn: Some(A), ..TIMED };
/// Two takers and a planned move.
const MOVE: Bounds = Bounds { takes: 2, moves: 1, ..CLOCKLESS };
/// A planned move under lease to a node that has begun its second life.
const REFUSED_MOVE: Bounds = Bounds { moves: 1, renewals: [0, 0, 1], reborn: Some(B), ..FAILOVER };
/// A planned move and one back, with a taker and a reader.
const RETURN: Bounds = Bounds { takes: 1, reads: 1, renewals: [0, 1, 0], moves: 2, ..CALM };

/// The runs under lease and clock.
pub(crate) fn timed(large: bool) -> Vec<Run> {
    use Event::{
        ExactRead, ExtendedForHeldCall, Failover, LeaseOver, NumberAfterTakeover, OldNewsIgnored, RaiseRefused,
        ReassignLostToRenewal, SlotOfLostSectionMoved, UpperBoundRead,
    };
    let more = u8::from(large);
    vec![
        Run {
            name: "a clock that falls behind",
            bounds: Bounds { slips: 1 + more, ..FAILOVER },
            must_see: &[Failover, ReassignLostToRenewal, LeaseOver, UpperBoundRead],
        },
        Run {
            name: "a call that comes too early",
            bounds: Bounds { astray: true, slips: more, ..FAILOVER },
            must_see: &[Failover, ReassignLostToRenewal, ExtendedForHeldCall, UpperBoundRead],
        },
        Run {
            name: "renewals that overtake each other",
            bounds: Bounds { renewals: [2, 1 + more, 0], slips: more, ..FAILOVER },
            must_see: &[
                Failover,
                ReassignLostToRenewal,
                LeaseOver,
                ExtendedForHeldCall,
                OldNewsIgnored,
                SlotOfLostSectionMoved,
                ExactRead,
                UpperBoundRead,
            ],
        },
        Run {
            name: "lease and raise",
            bounds: Bounds { takes: 2, raises: 1 + more, max_seq: 1, slips: more, reads: 0, ..FAILOVER },
            must_see: &[Failover, Event::Raised, RaiseRefused, NumberAfterTakeover, ReassignLostToRenewal],
        },
        Run {
            name: "a second life beside the first",
            bounds: Bounds { slips: 1, renewals: [1 + more, 0, 1 + more], ..REBIRTH },
            must_see: &[
                Failover,
                Event::FailoverOfEndedLife,
                Event::EndedLifeRefused,
                Event::WaitGoesOn,
                ReassignLostToRenewal,
            ],
        },
        Run {
            name: "there and back",
            bounds: Bounds { reassigns: 2, slips: more, late_news: true, ..FAILOVER },
            must_see: &[Failover, ReassignLostToRenewal, SlotOfLostSectionMoved, UpperBoundRead],
        },
        Run {
            name: "an owner that gives up",
            bounds: Bounds { give_ups: 1, slips: more, reassigns: 1 + more, ..FAILOVER },
            must_see: &[Event::ReleasedSectionAssigned, Failover, SlotOfLostSectionMoved],
        },
        Run {
            name: "an arbiter that stands still",
            bounds: Bounds { stalls: 1 + more, slips: more, ..FAILOVER },
            must_see: &[Failover, Event::StalledLookEnded, ReassignLostToRenewal],
        },
        Run {
            name: "a new leader",
            bounds: Bounds { leaders: 1 + more, slips: more, renewals: [1 + more, 1, 0], ..FAILOVER },
            must_see: &[Event::LeaderChanged, Failover, ReassignLostToRenewal],
        },
        advance(more),
    ]
}

/// A uid that is raised by name, under a lease.
fn advance(more: u8) -> Run {
    Run {
        name: "an advance",
        bounds: Bounds { max_seq: 3, advances: 1, renewals: [more, 1, 0], slips: more, ..FAILOVER },
        must_see: &[Event::Advanced, Event::AdvancePast, Event::NumberAfterAdvance, Event::Failover, Event::ExactRead],
    }
}

/// The runs of planned moves.
pub(crate) fn moves(large: bool) -> Vec<Run> {
    use Event::{
        AskedAtActivate, Failover, ForgedActivate, FrozenSlotMet, Granted, LateActivateIgnored, NumberAfterMove,
        NumberAfterTakeover, StaleCopyPassedOver, Thawed, TransferRefused, TransferRepeated,
    };
    let more = u8::from(large);
    vec![
        Run {
            name: "a move under lease",
            bounds: Bounds { moves: 1, renewals: [more, 1, 0], slips: more, late_news: true, ..FAILOVER },
            must_see: &[Failover, AskedAtActivate, Granted, Thawed, StaleCopyPassedOver, NumberAfterMove],
        },
        Run {
            name: "a move to a life that is over",
            bounds: Bounds { slips: more, ..REFUSED_MOVE },
            must_see: &[Failover, TransferRefused, Thawed, Event::UpperBoundRead],
        },
        Run {
            name: "a move without clocks",
            bounds: Bounds { takes: 3, renewals: [more, 1, 0], raises: 1 + more, reassigns: 1, duplicates: 1, ..MOVE },
            must_see: &[
                Failover,
                AskedAtActivate,
                Granted,
                Thawed,
                StaleCopyPassedOver,
                TransferRefused,
                TransferRepeated,
                LateActivateIgnored,
                FrozenSlotMet,
                NumberAfterMove,
                NumberAfterTakeover,
            ],
        },
        Run {
            name: "a stranger's Activate",
            bounds: Bounds { renewals: [0, more, 0], reassigns: 1, forged: 1, ..MOVE },
            must_see: &[ForgedActivate, AskedAtActivate, Granted, Failover, StaleCopyPassedOver, NumberAfterMove],
        },
        Run {
            name: "a stranger's Activate under lease",
            bounds: Bounds { forged: 1, slips: more, renewals: [1, more, 0], ..FAILOVER },
            must_see: &[ForgedActivate, Failover, Event::ReassignLostToRenewal, Event::UpperBoundRead],
        },
        Run {
            name: "two moves without clocks",
            bounds: Bounds { moves: 2, renewals: [1, 1, 0], reassigns: 1, duplicates: more, late_news: true, ..MOVE },
            must_see: &[Failover, AskedAtActivate, Thawed, StaleCopyPassedOver, TransferRefused, NumberAfterMove],
        },
        Run {
            name: "the target's second life",
            bounds: Bounds {
                renewals: [0, 1, 1],
                reassigns: 1,
                duplicates: more,
                give_ups: 1,
                reborn: Some(B),
                ..MOVE
            },
            must_see: &[TransferRefused, Thawed, Event::FailoverOfEndedLife, Event::EndedLifeRefused, NumberAfterMove],
        },
        Run {
            name: "the owner's second life",
            bounds: Bounds { renewals: [0, 1, 1], reassigns: 1, duplicates: 1, raises: more, reborn: Some(A), ..MOVE },
            must_see: &[TransferRefused, Thawed, Event::FailoverOfEndedLife, NumberAfterMove],
        },
    ]
}

/// The runs in which nothing fails, so that nothing may be felt of a planned move.
pub(crate) fn calm(large: bool) -> Vec<Run> {
    use Event::{
        AskedAtActivate, EarlyCallHeld, Forwarded, ForwardedToTheLimit, FrozenSlotMet, Granted, LateActivateIgnored,
        NumberAfterMove,
    };
    let more = u8::from(large);
    let felt = &[Forwarded, ForwardedToTheLimit, EarlyCallHeld, FrozenSlotMet, NumberAfterMove];
    vec![
        Run {
            name: "a move that nobody feels",
            bounds: Bounds { takes: 2 + more, reads: 1, max_seq: 2 + more, renewals: [1, 1, 0], moves: 1, ..CALM },
            must_see: &[
                Forwarded,
                ForwardedToTheLimit,
                EarlyCallHeld,
                FrozenSlotMet,
                NumberAfterMove,
                AskedAtActivate,
                Granted,
                LateActivateIgnored,
                Event::ExactRead,
            ],
        },
        Run {
            name: "an advance in a move",
            bounds: Bounds { takes: 1, reads: 1, advances: 1, max_seq: 3, renewals: [0, 1, 0], moves: 1, ..CALM },
            must_see: &[Event::Advanced, Event::NumberAfterAdvance, FrozenSlotMet, NumberAfterMove, Event::ExactRead],
        },
        Run {
            name: "a move at the ceiling",
            bounds: Bounds { takes: 2 + more, max_seq: 1, renewals: [0, 1, 0], moves: 1, raises: 2 + more, ..CALM },
            must_see: felt,
        },
    ]
}

/// A small world in which the bug shows once it is planted.
pub(crate) fn where_it_shows(bug: Bug) -> Bounds {
    match bug {
        Bug::ExpiryFromAnswer | Bug::HeardNotCompared | Bug::LeaseBeforeNews | Bug::LostSectionKept => FAILOVER,
        Bug::CachedClock | Bug::ClockStopsInSuspend => Bounds { renewals: [0, 1, 0], ..FAILOVER },
        Bug::EndedLifeNotCompared | Bug::EndedLifeWaitKept => REBIRTH,
        Bug::ClockBeforeState => Bounds { stalls: 1, ..FAILOVER },
        Bug::WaitOfALease => Bounds { renewals: [0, 1, 0], slips: 1, ..FAILOVER },
        Bug::UnfencedRaise => {
            Bounds { takes: 3, raises: 2, max_seq: 1, renewals: [0, 1, 0], reassigns: 1, ..CLOCKLESS }
        }
        Bug::RelativeRaise => Bounds { takes: 1, raises: 1, max_seq: 1, duplicates: 1, ..CLOCKLESS },
        Bug::StartBelowCeiling => Bounds { takes: 2, max_seq: 1, renewals: [0, 1, 0], reassigns: 1, ..CLOCKLESS },
        Bug::AnswerFromMemory => Bounds { leaders: 1, ..FAILOVER },
        Bug::RefusalExtends => REFUSED_MOVE,
        Bug::OldNewsAdopted => Bounds { renewals: [0, 2, 0], ..RETURN },
        Bug::LateActivate => RETURN,
        Bug::CopyWithoutFreeze | Bug::BlindAdd | Bug::ThawWithoutAnswer => MOVE,
        Bug::StaleCopy => Bounds { renewals: [0, 1, 0], reassigns: 1, ..MOVE },
        Bug::PrevIsCeiling => {
            Bounds { takes: 1, raises: 1, max_seq: 1, renewals: [0, 1, 0], reassigns: 1, ..CLOCKLESS }
        }
        Bug::PrevIsTarget => Bounds { takes: 1, advances: 1, max_seq: 3, ..CALM },
        Bug::ExactAlways => Bounds { takes: 0, ..FAILOVER },
        Bug::AdvanceUncovered => Bounds { takes: 1, advances: 1, max_seq: 1, raises: 1, ..CALM },
        Bug::TrustsActivate => Bounds { takes: 2, forged: 1, ..CLOCKLESS },
        Bug::GuessedAttempt => Bounds { forged: 1, ..MOVE },
        Bug::ThawBeforeNews => Bounds { reassigns: 1, duplicates: 1, ..MOVE },
    }
}
