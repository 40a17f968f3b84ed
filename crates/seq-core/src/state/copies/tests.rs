use alloc::vec;

use super::*;
use crate::id::{Liveness, RenewSeq};
use crate::layout::Layout;
use crate::state::{Answer, Command, Raise, RaiseCeilings, Reassign, Registration, Renew, SetDefinition, Transfer};

const SECTION: SectionId = SectionId(0);

/// Creates a set of one section that node 1 owns under epoch 1; node 2 owns none.
fn served() -> State {
    let mut state = State::default();
    state.apply(&Command::DefineSet(SetDefinition::only("im-a", Layout::new(0..100, 100).unwrap())));
    for name in ["a1", "a2"] {
        state.apply(&Command::Register(Registration::new(name, "a:1", 7)));
    }
    assign(&mut state, 1);
    state.apply(&Command::Raise(RaiseCeilings {
        node: NodeId(1),
        incarnation: Incarnation(1),
        raises: vec![Raise { section: SECTION, epoch: Epoch(1), to: Seq(100) }],
    }));
    state
}

/// Gives the section to a node, regardless of its owner; returns the epoch.
fn assign(state: &mut State, node: u32) -> Epoch {
    let record = *state.sections.resident(SECTION).unwrap();
    let liveness: Option<Liveness> = record.owner.and_then(|owner| state.node(owner)).map(|node| node.liveness);
    let (to, incarnation) = (NodeId(node), Incarnation(1));
    let change = Reassign { section: SECTION, expected: record.epoch, liveness, to, incarnation };
    let Answer::Reassigned(epochs) = state.apply(&Command::Reassign(vec![change])) else { panic!("another answer") };
    epochs[0].expect("the record is as it was read")
}

fn part(epoch: Epoch, length: u32, offset: u32, bytes: &[u8]) -> CopyPart {
    CopyPart { section: SECTION, epoch, highest: Seq(40), length, offset, bytes: bytes.to_vec() }
}

/// Applies the next renewal of a node.
fn renew(state: &mut State, node: u32, copies: Vec<CopyPart>, released: &[Epoch], taken: &[Epoch]) {
    let node = NodeId(node);
    let renew_seq = RenewSeq(state.node(node).unwrap().renew_seq.0 + 1);
    let ownerships = |epochs: &[Epoch]| epochs.iter().map(|epoch| (SECTION, *epoch)).collect();
    let (released, taken) = (ownerships(released), ownerships(taken));
    let incarnation = Incarnation(1);
    let renew = Renew { node, incarnation, renew_seq, copies, released, taken, leaving: true };
    assert_eq!(state.apply(&Command::Renew(renew)), Answer::Renewed(Ok(())));
}

/// Returns the copies that a node's ownerships start from, by epoch.
fn granted(state: &State, node: u32) -> Vec<(u64, Vec<u8>)> {
    state.copies_for(NodeId(node), Incarnation(1)).map(|(_, epoch, kept)| (epoch.0, kept.bytes.to_vec())).collect()
}

#[test]
fn the_next_ownership_starts_from_the_copy_and_no_later_one() {
    let mut state = served();
    renew(&mut state, 1, vec![part(Epoch(1), 4, 0, b"ab")], &[], &[]);
    renew(&mut state, 1, vec![part(Epoch(1), 4, 2, b"cd")], &[Epoch(1)], &[]);
    assert_eq!(granted(&state, 2), [], "nobody owns the section yet");
    let epoch = assign(&mut state, 2);
    assert_eq!(granted(&state, 2), [(epoch.0, b"abcd".to_vec())]);
    assert_eq!(granted(&state, 1), []);
    renew(&mut state, 1, vec![], &[], &[epoch]);
    assert_eq!(granted(&state, 2).len(), 1, "another node has not taken it");
    assign(&mut state, 1);
    assert_eq!(state.copies, Copies::default(), "the ownership that it was kept for is over");
}

#[test]
fn a_copy_is_removed_once_its_ownership_has_started() {
    let mut state = served();
    renew(&mut state, 1, vec![part(Epoch(1), 2, 0, b"ab")], &[Epoch(1)], &[]);
    let epoch = assign(&mut state, 2);
    renew(&mut state, 2, vec![], &[], &[epoch.next()]);
    assert_eq!(granted(&state, 2).len(), 1, "another ownership");
    renew(&mut state, 2, vec![], &[], &[epoch]);
    assert_eq!(state.copies, Copies::default());
}

/// An AllocSvr of a release without kept copies never reports that it has started from a kept copy.
#[test]
fn a_copy_is_removed_once_its_ownership_raises_the_ceiling() {
    let mut state = served();
    renew(&mut state, 1, vec![part(Epoch(1), 2, 0, b"ab")], &[Epoch(1)], &[]);
    let epoch = assign(&mut state, 2);
    let raise = |node, epoch| {
        Command::Raise(RaiseCeilings {
            node: NodeId(node),
            incarnation: Incarnation(1),
            raises: vec![Raise { section: SECTION, epoch, to: Seq(200) }],
        })
    };
    state.apply(&raise(1, Epoch(1)));
    assert_eq!(granted(&state, 2).len(), 1, "a late raise of the owner before is refused");
    state.apply(&raise(2, epoch));
    assert_eq!(state.copies, Copies::default());
}

#[test]
fn an_owner_that_dies_after_its_copy_is_followed_exactly() {
    let mut state = served();
    renew(&mut state, 1, vec![part(Epoch(1), 2, 0, b"ab")], &[], &[]);
    let epoch = assign(&mut state, 2);
    assert_eq!(granted(&state, 2), [(epoch.0, b"ab".to_vec())], "it had frozen the section permanently");
}

#[test]
fn an_incomplete_copy_is_used_by_nobody() {
    let mut state = served();
    renew(&mut state, 1, vec![part(Epoch(1), 4, 0, b"ab")], &[Epoch(1)], &[]);
    assert_eq!(state.copies, Copies::default());
    assign(&mut state, 2);
    assert_eq!(granted(&state, 2), []);
}

#[test]
fn parts_are_of_the_owner_and_in_order() {
    let mut state = served();
    renew(&mut state, 2, vec![part(Epoch(1), 2, 0, b"xx")], &[], &[]);
    renew(&mut state, 1, vec![part(Epoch(2), 2, 0, b"xx")], &[], &[]);
    assert_eq!(state.copies, Copies::default(), "of another node, and of another epoch");
    renew(&mut state, 1, vec![part(Epoch(1), 4, 0, b"ab")], &[], &[]);
    let skips = [part(Epoch(1), 4, 3, b"d"), part(Epoch(1), 5, 2, b"cd"), part(Epoch(1), 4, 2, b"cde")];
    renew(&mut state, 1, skips.to_vec(), &[], &[]);
    renew(&mut state, 1, vec![part(Epoch(1), 4, 0, b"ab"), part(Epoch(1), 4, 2, b"cd")], &[Epoch(1)], &[]);
    let epoch = assign(&mut state, 2);
    assert_eq!(granted(&state, 2), [(epoch.0, b"abcd".to_vec())], "a part at 0 begins anew");
}

#[test]
fn a_handover_brings_its_own_copy() {
    let mut state = served();
    renew(&mut state, 1, vec![part(Epoch(1), 2, 0, b"ab")], &[], &[]);
    let (from, to, handover_id) = (NodeId(1), NodeId(2), crate::id::HandoverId(9));
    let (incarnation, to_incarnation, epoch) = (Incarnation(1), Incarnation(1), Epoch(1));
    let transfer = Transfer { section: SECTION, epoch, from, incarnation, to, to_incarnation, handover_id };
    assert!(matches!(state.apply(&Command::Transfer(transfer)), Answer::Transferred(Ok(_))));
    assert_eq!(state.copies, Copies::default());
}

#[test]
fn a_restore_forgets_copies() {
    let mut state = served();
    renew(&mut state, 1, vec![part(Epoch(1), 2, 0, b"ab")], &[Epoch(1)], &[]);
    state.restore(crate::id::Lineage(1 << 32)).unwrap();
    assert_eq!(state.copies, Copies::default(), "numbers were allocated after the backup");
}

#[test]
fn without_room_the_highest_number_is_kept() {
    let mut copies = Copies::default();
    let largest = limits::MAX_KEPT_COPY_BYTES as u32;
    let fits = (limits::MAX_KEPT_BYTES / u64::from(largest)) as u32;
    for section in 0..=fits {
        let section = SectionId(section);
        copies.keep(&CopyPart { section, ..part(Epoch(1), largest, 0, b"ab") });
    }
    let kept = |section| copies.iter().find(|(one, _)| *one == SectionId(section)).unwrap().1;
    assert_eq!((kept(fits - 1).length, kept(fits - 1).is_complete()), (largest, false));
    assert_eq!((kept(fits).length, kept(fits).is_complete(), kept(fits).highest), (0, true, Seq(40)));
    copies.keep(&CopyPart { section: SectionId(0), ..part(Epoch(1), largest + 1, 0, b"ab") });
    assert_eq!(copies.iter().next().unwrap().1.length, 0, "a copy that is too large");
}
