//! The runs of the model of two sets: their bounds, the events that each must reach, the world of each planted bug.

use crate::sets::bounds::{Bounds, Budget, Bug, Setting};
use crate::sets::events::Event::{
    self, ArriveFenced, ArriveOtherLineage, ArrivePast, ArriveRepeated, ArriveUnowned, BothQuarantined, CeilingStart,
    Completed, DepartLost, DepartRefused, DepartRepeated, DepartSilent, ExactStart, Forwarded, FrozenSlotMet, Gone,
    GossipNewer, GossipOlder, Home, OldResponseDropped, RaiseRefused, Returned, SilentLostToRenewal, StaleCopySkipped,
    Thawed, TombstoneInResponse,
};
use crate::sets::world::PerSet;

/// An exploration of the correct protocol.
pub(crate) struct Run {
    pub(crate) name: &'static str,
    pub(crate) bounds: Bounds,
    /// Events without which the run would prove nothing.
    pub(crate) must_reach: &'static [Event],
}

const NONE: Budget = Budget::NONE;

/// Two numbers and a handover to the other set.
const MOVE: Budget = Budget { takes: 2, migrations: 1, handovers: 1, ..NONE };
/// Two numbers, a handover to the other set, and a handover back.
const RETURN: Budget = Budget { takes: 2, migrations: 2, handovers: 2, ..NONE };
/// A migration whose source is restored.
const RESTORED_SOURCE: Budget =
    Budget { registrations: PerSet([1, 0]), reassigns: 1, restores: PerSet([1, 0]), ..MOVE };
/// A migration whose target is restored.
const RESTORED_TARGET: Budget =
    Budget { registrations: PerSet([0, 1]), reassigns: 1, restores: PerSet([0, 1]), ..MOVE };

/// There and back, after which T's first session dies and another session may get the section.
const ZOMBIE_RESIDENCE: Budget =
    Budget { takes: 1, reads: 1, lapses: PerSet([0, 1]), registrations: PerSet([0, 1]), reassigns: 1, ..RETURN };
/// A migration without the owner.
const SILENT: Budget = Budget { takes: 1, reads: 1, migrations: 1, silents: 1, reassigns: 1, ..NONE };

/// A migration without the owner, and a restore of each store.
const LOST_BOTH: Budget =
    Budget { takes: 1, migrations: 1, silents: 1, lapses: PerSet([1, 0]), restores: PerSet([1, 1]), ..NONE };

/// A migration, then a restore of each store: the target's forgets that the section has an owner there.
const FORGOTTEN_RESIDENCE: Budget =
    Budget { takes: 1, reads: 1, registrations: PerSet([1, 0]), reassigns: 1, restores: PerSet([1, 1]), ..MOVE };

const fn calm(max_seq: u8, budget: Budget) -> Bounds {
    Bounds { setting: Setting::Calm, max_seq, budget, bug: None }
}

const fn ordered(max_seq: u8, budget: Budget) -> Bounds {
    Bounds { setting: Setting::Ordered, max_seq, budget, bug: None }
}

const fn clockless(max_seq: u8, budget: Budget) -> Bounds {
    Bounds { setting: Setting::Clockless, max_seq, budget, bug: None }
}

/// Returns the runs without faults, in which a migration must be invisible to callers.
pub(crate) fn calm_runs(large: bool) -> Vec<Run> {
    let more = u8::from(large);
    vec![
        Run {
            name: "calm: a migration that no caller notices",
            bounds: calm(1, Budget { reads: 1, raises: 3, ..MOVE }),
            must_reach: &[ExactStart, FrozenSlotMet, Forwarded, RaiseRefused],
        },
        Run {
            name: "calm: there and back, claims to all",
            bounds: calm(3, Budget { reads: more, duplicates: 1, claims: 1, ..RETURN }),
            must_reach: &[
                ExactStart,
                DepartRepeated,
                DepartLost,
                FrozenSlotMet,
                ArriveRepeated,
                ArrivePast,
                GossipOlder,
                GossipNewer,
                Forwarded,
            ],
        },
    ]
}
/// Returns the runs under lease.
pub(crate) fn ordered_runs(large: bool) -> Vec<Run> {
    let more = u8::from(large);
    let (one, both) = (PerSet([1, 0]), PerSet([1, 1]));
    let dying = Budget { takes: 1 + more, reads: 1, lapses: both, registrations: both, reassigns: 2, ..MOVE };
    vec![
        Run {
            name: "ordered: both allocators die",
            bounds: ordered(2, Budget { raises: 1, handovers: 2, ..dying }),
            must_reach: &[
                ExactStart,
                CeilingStart,
                DepartLost,
                Thawed,
                FrozenSlotMet,
                RaiseRefused,
                ArriveRepeated,
                ArriveUnowned,
                StaleCopySkipped,
            ],
        },
        Run {
            name: "ordered: sections of silent owners depart",
            bounds: ordered(
                2,
                Budget { reads: 1, raises: 1, silents: 2, renewals: 1, lapses: one, reassigns: 1, ..MOVE },
            ),
            must_reach: &[
                ExactStart,
                CeilingStart,
                DepartLost,
                DepartSilent,
                SilentLostToRenewal,
                Thawed,
                FrozenSlotMet,
                ArriveRepeated,
                ArriveUnowned,
            ],
        },
        Run {
            name: "ordered: there and back, deaths",
            bounds: ordered(2, Budget { migrations: 2, handovers: 2, ..dying }),
            must_reach: &[
                ExactStart,
                CeilingStart,
                DepartLost,
                Thawed,
                FrozenSlotMet,
                ArriveRepeated,
                ArrivePast,
                ArriveUnowned,
            ],
        },
        Run {
            name: "ordered: there and back, claims to all",
            bounds: ordered(2, Budget { reads: 1, claims: 2, ..RETURN }),
            must_reach: &[ExactStart, Thawed, FrozenSlotMet, ArriveRepeated, ArrivePast, GossipOlder, GossipNewer],
        },
    ]
}

/// Returns the runs in which stores are restored.
pub(crate) fn restores(large: bool) -> Vec<Run> {
    restores_of_one(large).into_iter().chain(restores_of_both()).collect()
}

/// Returns the runs in which one store is restored.
fn restores_of_one(large: bool) -> Vec<Run> {
    let more = u8::from(large);
    let (source, target, twice) = (PerSet([1, 0]), PerSet([0, 1]), PerSet([2, 0]));
    let calls = Budget { takes: 1 + more, reads: 1, ..MOVE };
    let zombies = Budget { takes: 2, raises: 2, migrations: 1, silents: 1, ..NONE };
    vec![
        Run {
            name: "ordered: the source is restored",
            bounds: ordered(2, Budget { takes: 1 + more, reads: 1, migrations: 2, handovers: 2, ..RESTORED_SOURCE }),
            must_reach: &[
                ExactStart,
                CeilingStart,
                ArriveUnowned,
                ArriveFenced,
                ArriveOtherLineage,
                TombstoneInResponse,
                Gone,
                Home,
            ],
        },
        Run {
            name: "ordered: the target is restored",
            bounds: ordered(2, Budget { takes: 1 + more, reads: 1, migrations: 2, handovers: 2, ..RESTORED_TARGET }),
            must_reach: &[
                ExactStart,
                CeilingStart,
                ArrivePast,
                ArriveUnowned,
                ArriveFenced,
                ArriveOtherLineage,
                TombstoneInResponse,
                Gone,
                Home,
            ],
        },
        Run {
            name: "ordered: the source is restored twice",
            bounds: ordered(2, Budget { restores: twice, registrations: twice, reassigns: 2, ..calls }),
            must_reach: &[ExactStart, CeilingStart, ArriveFenced, Gone, Home],
        },
        Run {
            name: "clockless: the source is restored, zombies",
            bounds: clockless(1, Budget { registrations: source, reassigns: 1, restores: source, ..zombies }),
            must_reach: &[CeilingStart, ArriveFenced, Gone, Home],
        },
        Run {
            name: "clockless: the target is restored, zombies",
            bounds: clockless(1, Budget { registrations: target, reassigns: 2, restores: target, ..zombies }),
            must_reach: &[CeilingStart, ArriveOtherLineage, TombstoneInResponse, Gone, Home],
        },
    ]
}

/// Returns the runs in which both stores are restored.
fn restores_of_both() -> Vec<Run> {
    let (source, target) = (PerSet([1, 0]), PerSet([0, 1]));
    vec![
        Run {
            name: "ordered: both are restored, the source serves",
            bounds: ordered(2, Budget { reads: 1, registrations: source, reassigns: 1, ..LOST_BOTH }),
            must_reach: &[
                CeilingStart,
                ArriveFenced,
                ArriveOtherLineage,
                TombstoneInResponse,
                Gone,
                Home,
                BothQuarantined,
                OldResponseDropped,
            ],
        },
        Run {
            name: "ordered: both are restored, the target serves",
            bounds: ordered(2, Budget { reads: 1, registrations: target, reassigns: 1, ..LOST_BOTH }),
            must_reach: &[
                CeilingStart,
                ArriveFenced,
                ArriveOtherLineage,
                TombstoneInResponse,
                Gone,
                Home,
                BothQuarantined,
                OldResponseDropped,
            ],
        },
        Run {
            name: "clockless: both are restored",
            bounds: clockless(2, Budget { lapses: PerSet([0, 0]), ..LOST_BOTH }),
            must_reach: &[ArriveFenced, ArriveOtherLineage, Gone, Home, BothQuarantined],
        },
    ]
}

/// Returns the runs without clocks.
pub(crate) fn clockless_runs(large: bool) -> Vec<Run> {
    let more = u8::from(large);
    vec![
        Run {
            name: "clockless: zombies, raises, repeats",
            bounds: clockless(
                1,
                Budget {
                    takes: 3,
                    raises: 1 + more,
                    handovers: 1 + more,
                    duplicates: 1,
                    registrations: PerSet([1, 1]),
                    reassigns: 2,
                    ..MOVE
                },
            ),
            must_reach: &[
                ExactStart,
                CeilingStart,
                DepartLost,
                Thawed,
                FrozenSlotMet,
                RaiseRefused,
                ArriveRepeated,
                ArriveUnowned,
            ],
        },
        Run {
            name: "clockless: three migrations, repeats",
            bounds: clockless(
                2,
                Budget {
                    migrations: 2 + more,
                    handovers: 2 + more,
                    duplicates: 1,
                    registrations: PerSet([more, 1]),
                    reassigns: 1,
                    ..MOVE
                },
            ),
            must_reach: &[
                ExactStart,
                CeilingStart,
                DepartRepeated,
                DepartLost,
                Thawed,
                FrozenSlotMet,
                ArriveRepeated,
                ArrivePast,
                ArriveUnowned,
            ],
        },
        Run {
            name: "clockless: pause, rollback, repeats",
            bounds: clockless(
                2,
                Budget { duplicates: 1, pauses: 1, rollbacks: 1, completions: 1, handovers: 2, ..MOVE },
            ),
            must_reach: &[ExactStart, DepartRepeated, DepartLost, DepartRefused, Thawed, Returned, Completed],
        },
    ]
}

/// Returns the small world in which a bug is planted.
pub(crate) fn world_of(bug: Bug) -> Bounds {
    match bug {
        Bug::CopyWithoutFreeze | Bug::ThawWithoutResponse => ordered(2, MOVE),
        Bug::StaleCopy => ordered(2, Budget { handovers: 2, ..MOVE }),
        Bug::PauseRefusesDepart => ordered(2, Budget { duplicates: 1, pauses: 1, ..MOVE }),
        Bug::ProposedTombstoneSent => ordered(
            2,
            Budget { takes: 1, reads: 1, lapses: PerSet([1, 0]), registrations: PerSet([1, 0]), reassigns: 1, ..MOVE },
        ),
        Bug::CeilingOfTheBeginning => ordered(1, Budget { takes: 3, raises: 2, ..MOVE }),
        Bug::RepeatedArriveWrites => {
            let registrations = PerSet([0, 1]);
            clockless(1, Budget { takes: 3, raises: 2, registrations, reassigns: 1, ..MOVE })
        }
        Bug::ReturnTakesTheOldEpoch => ordered(2, Budget { takes: 1, duplicates: 1, ..RETURN }),
        Bug::TombstoneDeleted => ordered(2, ZOMBIE_RESIDENCE),
        Bug::ClaimLowersTheFence => ordered(2, Budget { claims: 1, ..ZOMBIE_RESIDENCE }),
        Bug::NewerClaimIsAFence => calm(2, Budget { takes: 1, claims: 1, ..MOVE }),
        Bug::OlderClaimAdopted => calm(2, Budget { claims: 1, ..MOVE }),
        Bug::ForwardedWithoutNewerClaim => calm(2, Budget { takes: 1, ..MOVE }),
        Bug::RollbackByFiat => ordered(2, Budget { takes: 1, reads: 1, rollbacks: 1, reassigns: 1, ..MOVE }),
        Bug::SilentAtOnce => ordered(2, SILENT),
        Bug::SilentNotCompared => ordered(2, Budget { lapses: PerSet([1, 0]), renewals: 1, ..SILENT }),
        Bug::LineageNotCompared => ordered(
            2,
            Budget { takes: 1, reads: 1, raises: 1, renewals: 1, migrations: 0, handovers: 0, ..RESTORED_SOURCE },
        ),
        Bug::QuarantineWithoutWait => {
            ordered(2, Budget { takes: 1, reads: 1, migrations: 0, handovers: 0, ..RESTORED_SOURCE })
        }
        Bug::WaitForOwnLeasesOnly => ordered(2, FORGOTTEN_RESIDENCE),
        Bug::RestoredSourceContinues | Bug::QuarantineEndsOnARead => {
            ordered(2, Budget { takes: 1, reads: 1, ..RESTORED_SOURCE })
        }
        Bug::RestoredTargetTakesArrive => clockless(
            1,
            Budget {
                takes: 2,
                raises: 2,
                migrations: 1,
                silents: 1,
                registrations: PerSet([0, 1]),
                reassigns: 2,
                restores: PerSet([0, 1]),
                ..NONE
            },
        ),
        Bug::OneMargin => ordered(
            1,
            Budget {
                takes: 2,
                raises: 2,
                registrations: PerSet([2, 0]),
                reassigns: 2,
                restores: PerSet([2, 0]),
                ..NONE
            },
        ),
        Bug::TombstoneNotTakenFromResponse => ordered(2, Budget { migrations: 2, silents: 2, ..LOST_BOTH }),
        Bug::OldResponseTaken => ordered(2, LOST_BOTH),
        Bug::CompletedTombstoneShrinks => ordered(2, Budget { completions: 1, restores: PerSet([0, 1]), ..LOST_BOTH }),
    }
}
