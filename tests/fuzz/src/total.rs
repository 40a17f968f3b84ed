//! The targets behind the wire validation on random input, with every run of the tests, and their first findings.

use proptest::prelude::*;
use seq_core::state::{Answer, Command, CommandRefusal, Reassign, Registration, Transfer};
use seq_core::{Epoch, HandoverId, Incarnation, NodeId, SectionId};

use crate::replica::Replica;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_command_is_applied_or_refused(data in prop::collection::vec(any::<u8>(), 0..2_048)) {
        crate::apply(&data);
    }

    #[test]
    fn no_peer_begins_an_ownership(data in prop::collection::vec(any::<u8>(), 0..1_024)) {
        crate::handover(&data);
    }

    #[test]
    fn any_message_is_obeyed_or_refused(data in prop::collection::vec(any::<u8>(), 0..512)) {
        crate::control(&data);
    }
}

#[test]
fn every_command_is_generated() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut missing: Vec<&str> = Command::NAMES.to_vec();
    for _ in 0..1_000 {
        let data: Vec<u8> = (0..2_048).map(|_| random.u8(..)).collect();
        let applied = crate::apply::applied(&data);
        missing.retain(|name| !applied.contains(name));
        if missing.is_empty() {
            return;
        }
    }
    panic!("generate {missing:?} in tests/fuzz/src/apply.rs or sets.rs");
}

/// Creates a set in which an incarnation owns a section.
fn owned() -> Replica {
    let mut replica = Replica::new();
    for name in ["a1", "a2"] {
        replica.apply(&Command::Register(Registration::new(name, "host:1", 1)));
    }
    let (section, to, incarnation) = (SectionId(0), NodeId(1), Incarnation(1));
    replica.apply(&Command::Reassign(vec![Reassign { section, expected: Epoch(0), liveness: None, to, incarnation }]));
    replica
}

/// Such an entry stopped every member of a store at every start.
#[test]
fn a_transfer_of_the_last_epoch_is_refused() {
    for epoch in [2, u64::MAX - 1, u64::MAX].map(Epoch) {
        let answer = owned().apply(&Command::Transfer(Transfer {
            section: SectionId(0),
            epoch,
            from: NodeId(1),
            incarnation: Incarnation(1),
            to: NodeId(2),
            to_incarnation: Incarnation(1),
            handover_id: HandoverId(1),
        }));
        let refused = matches!(answer, Answer::Transferred(Err(CommandRefusal::OtherOwnership { .. })));
        assert!(refused, "epoch {epoch}: {answer:?}");
    }
}
