use std::sync::Arc;

use seq_core::arbiter::Departure;
use seq_core::owner::Session;
use seq_core::owner::handover::Commit;
use seq_core::{HandoverId, MigrationId};

use super::*;
use crate::reason::{Outcome, key};
use crate::status;

const ITEM: RefusedItem = RefusedItem {
    uid: Uid(42),
    count: 11,
    to: Some(9_000),
    epoch: Epoch(6),
    section: SectionId(3),
    owner: NodeId(2),
    uids: 0..1_000,
};

fn handover(departs: bool) -> Handover {
    let (set, lineage, migration, addr) = (SetId(2), Lineage(5), MigrationId(7), String::new());
    Handover {
        session: Session { node: NodeId(1), incarnation: Incarnation(3) },
        section: SectionId(3),
        epoch: Epoch(8),
        to: NodeId(2),
        incarnation: Incarnation(4),
        handover_id: HandoverId(9),
        departure: departs.then(|| Arc::new(Departure { set, lineage, migration, addr })),
    }
}

#[test]
fn the_wire_changes_no_meaning_of_a_refused_commit() {
    let (section, from, migration) = (SectionId(3), NodeId(1), MigrationId(7));
    let (set, newest, given) = (SetId(2), Lineage(6), Lineage(5));
    let departures: [CommandRefusal; 4] = [
        SetRefusal::MigrationOver { migration }.into(),
        SetRefusal::SetClosing { set }.into(),
        SetRefusal::OtherMigration { migration }.into(),
        SetRefusal::OldLineage { set, newest, given }.into(),
    ];
    let (current, given) = (Incarnation(4), Incarnation(3));
    let of_both = [
        CommandRefusal::OtherOwnership { section, current: Epoch(9), from, given: Epoch(8) },
        CommandRefusal::OtherIncarnation { node: from, current, given },
        CommandRefusal::UnknownNode { node: from },
    ];
    for (departs, refusal) in departures.iter().map(|one| (true, one)).chain(of_both.iter().map(|one| (false, one))) {
        let handover = handover(departs);
        let reason = Reason::of_command(refusal).name();
        let decoded = RefusedHandover { handover: &handover, reason, current: 4 }.meaning();
        assert_eq!(decoded, RefusedCommit::of(refusal, handover.target_here()), "{refusal}");
    }
}

#[test]
fn a_commit_that_the_log_did_not_decide_is_repeated() {
    let handover = handover(true);
    let undecided = |reason| RefusedHandover { handover: &handover, reason, current: 0 }.meaning();
    for reason in [Reason::Quarantined, Reason::StoreBehind, Reason::TooManyProposals, Reason::RaftStopped] {
        assert_eq!(undecided(reason.name()).commit(), Some(Commit::Unknown), "{reason}");
    }
    assert_eq!(undecided("OF_A_LATER_RELEASE"), RefusedCommit::Undecided);
    assert_eq!(undecided(Reason::TargetGone.name()), RefusedCommit::TargetGone { current: Incarnation(0) });
}

#[test]
fn the_refusal_of_an_item_is_the_one_that_the_other_server_sent() {
    let RefusedItem { uid, count, section, owner, epoch, .. } = ITEM;
    let sent = [
        Refusal::UidOutOfRange { uid, start: 0, end: 1_000 },
        Refusal::CountOutOfRange { count },
        Refusal::OtherTenantsUid { uid },
        Refusal::CountAboveQuota { count, most: 10 },
        Refusal::QuotaExceeded,
        Refusal::OutOfMemory,
        Refusal::NotOwner { section, owner: Some(owner) },
        Refusal::Unserved { section },
        Refusal::DeadlinePassed { section },
        Refusal::OwnerUnreachable { section, owner },
        Refusal::OwnerConnectionLost { section, owner },
        Refusal::StaleEpoch { section, mine: Epoch(5), callers: epoch },
        Refusal::LeaseExpired { section },
        Refusal::TooManyPending { section, pending: MAX_PENDING },
        Refusal::CeilingStalled { section },
        Refusal::Exhausted { uid, count },
        Refusal::AlreadyPast { uid },
        Refusal::ShuttingDown,
        Refusal::Moved { section, set: SetId(2), since: Epoch(7) },
        Refusal::SetUnavailable { section, set: SetId(2) },
    ];
    for refusal in sent {
        let item = status::to_item(0, &refusal);
        let (set, since) = (item.set_id.map(SetId), item.since.map(Epoch));
        let details = Details { set, since, text: &item.message, ..Details::default() };
        assert_eq!(ITEM.refusal(Reason::of(&refusal), details), Some(refusal));
    }
    let (ahead_ms, node) = (Some(71_005), owner);
    let ahead = Refusal::ClockAhead { section, node, ahead_ms: 71_005 };
    assert_eq!(ITEM.refusal(Reason::ClockAhead, Details { ahead_ms, ..Details::default() }), Some(ahead));
    let sent = status::to_status(&ahead);
    assert_eq!(status::metadata(&sent, key::AHEAD_MS).as_deref(), Some("71005"));
    assert!(sent.message().contains("is 71.005 s ahead"), "{sent:?}");
    let bound = Some(Seq(8_000));
    let far = Refusal::AdvanceTooFar { to: 9_000, bound: Seq(8_000) };
    assert_eq!(ITEM.refusal(Reason::AdvanceTooFar, Details { bound, ..Details::default() }), Some(far));
}

#[test]
fn no_reason_of_unknown_outcome_becomes_a_refusal_that_changed_nothing() {
    for reason in Reason::ALL.iter().filter(|reason| reason.outcome() == Outcome::Unknown) {
        let decoded = ITEM.refusal(*reason, Details::default());
        let certain = decoded.is_some_and(|refusal| Reason::of(&refusal).outcome() == Outcome::Unchanged);
        assert!(!certain, "{reason}: {decoded:?}");
    }
    assert_eq!(ITEM.refusal(Reason::AdvanceTooFar, Details::default()), None, "without its bound");
    let unserved = Some(Refusal::Unserved { section: ITEM.section });
    for reason in [Reason::Moved, Reason::RoleDenied, Reason::Unserved] {
        assert_eq!(ITEM.refusal(reason, Details::default()), unserved, "{reason}");
    }
}
