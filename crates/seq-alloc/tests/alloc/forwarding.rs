//! What a node answers for sections of another one.

use std::time::Duration;

use seq_alloc::AllocTuning;
use seq_core::{AdvanceLimit, Epoch, NodeId, Refusal, SectionId, Seq, Target, Uid, limits};
use seq_kit::frontend::{Call, Frontend, Via};
use tokio::time::Instant;

use crate::store::Mode;
use crate::world::{Node, PATIENCE, SECTIONS, SIZE, World, ask, call, given, impatient, quick};

/// a1 owns the first half of the sections, a2 the other.
async fn two_nodes() -> (World, Node, Node) {
    two_nodes_with(quick()).await
}

async fn two_nodes_with(tuning: AllocTuning) -> (World, Node, Node) {
    let world = World::new();
    let one = world.start_owning_with("a1", 0..SECTIONS / 2, tuning).await;
    let two = world.start_owning_with("a2", SECTIONS / 2..SECTIONS, tuning).await;
    world.routed(&[&one, &two]).await;
    (world, one, two)
}

/// The first uid of a2's sections.
const THEIRS: u64 = SIZE * SECTIONS as u64 / 2;

#[tokio::test]
async fn any_node_answers_for_any_uid() {
    let (_world, one, two) = two_nodes().await;
    assert_eq!(one.next(THEIRS).await, Ok(given(1, 0, 1)));
    assert_eq!(two.next(THEIRS).await, Ok(given(2, 1, 1)));
    assert_eq!(two.next(0).await, Ok(given(1, 0, 1)));
    let current = one.allocator.current(call(), Uid(THEIRS), Epoch(0)).await.unwrap();
    assert_eq!((current.reading.value.0, current.reading.exact), (2, true));
    assert_eq!((one.allocator.status().forwarded, one.allocator.status().allocations), (2, 1));
}

#[tokio::test]
async fn a_batch_is_merged_in_order_from_all_owners() {
    let (_world, one, _two) = two_nodes().await;
    let batch = [(THEIRS, 1), (1, 1), (THEIRS, 3), (1, 2), (THEIRS + 99, 1), (THEIRS, 1), (1, 1)];
    assert_eq!(one.next_many(&batch).await, [Ok(1), Ok(1), Ok(4), Ok(3), Ok(1), Ok(5), Ok(4)]);
    let outside = u64::from(SECTIONS) * SIZE;
    let uids = [THEIRS, outside, 1, THEIRS + 99, 2].map(Uid).to_vec();
    let read = one.allocator.current_many(call(), uids).await;
    let values: Vec<_> = read.iter().map(|read| read.as_ref().map(|current| current.reading.value.0).ok()).collect();
    assert_eq!(values, [Some(5), None, Some(4), Some(1), Some(0)]);
    assert_eq!(read[1], Err(Refusal::UidOutOfRange { uid: Uid(outside), start: 0, end: outside }));
}

#[tokio::test]
async fn any_node_raises_any_uid_and_nobody_lowers_one() {
    let far = AllocTuning { max_advance: AdvanceLimit(1 << 40), ..quick() };
    let (_world, one, two) = two_nodes_with(far).await;
    let to = |to| Target::new(to).unwrap();
    for uid in [1, THEIRS + 1].map(Uid) {
        let advance = |value| one.allocator.advance(call(), uid, to(value), Epoch(0));
        assert_eq!(advance(0).await, Ok(Epoch(1)), "where it stands");
        // Far above the ceiling: the call waits for its raises, each of a bounded length.
        assert_eq!(advance(1_000_000_000_000).await, Ok(Epoch(1)));
        assert_eq!(advance(1_000_000_000_000).await, Ok(Epoch(1)), "repeating it changes nothing");
        assert_eq!(advance(999_999_999_999).await, Err(Refusal::AlreadyPast { uid }));
        assert_eq!(two.next(uid.0).await, Ok(given(1_000_000_000_001, 1_000_000_000_000, 1)));
        assert_eq!(advance(1_000_000_000_000).await, Err(Refusal::AlreadyPast { uid }));
    }
    assert_eq!(one.next(2).await, Ok(given(1, 0, 1)), "the neighbours stay");
    let outside = u64::from(SECTIONS) * SIZE;
    let refused = one.allocator.advance(call(), Uid(outside), to(1), Epoch(0)).await;
    assert_eq!(refused, Err(Refusal::UidOutOfRange { uid: Uid(outside), start: 0, end: outside }));
}

#[tokio::test]
async fn an_advance_beyond_the_limit_is_refused_with_its_bound_and_moves_no_ceiling() {
    let (world, one, _two) = two_nodes().await;
    let (section, uid) = (SECTIONS / 2, Uid(THEIRS));
    assert_eq!(one.next(THEIRS).await, Ok(given(1, 0, 1)));
    let before = world.store.ceiling(section);
    for to in [1 << 53, limits::MAX_ADVANCE] {
        let refused = one.allocator.advance(call(), uid, Target::new(to).unwrap(), Epoch(0)).await;
        let bound = Seq(before.0 + limits::DEFAULT_MAX_ADVANCE);
        assert_eq!(refused, Err(Refusal::AdvanceTooFar { to, bound }), "the owner's bound, through another node");
    }
    assert_eq!(one.next(THEIRS + 1).await, Ok(given(1, 0, 1)));
    assert_eq!(world.store.ceiling(section), before, "the neighbours' ceiling is where it was");
    let nearest = Target::new(before.0 + limits::DEFAULT_MAX_ADVANCE).unwrap();
    assert_eq!(one.allocator.advance(call(), uid, nearest, Epoch(0)).await, Ok(Epoch(1)));
}

#[tokio::test]
async fn bad_items_are_refused_beside_good_ones() {
    let (_world, one, _two) = two_nodes().await;
    let outside = u64::from(SECTIONS) * SIZE;
    let bad = Refusal::CountOutOfRange { count: 0 };
    let asks = vec![Ok(ask(THEIRS, 1)), Err(bad), Ok(ask(outside, 1)), Ok(ask(1, 1))];
    let out_of_range = Refusal::UidOutOfRange { uid: Uid(outside), start: 0, end: outside };
    let answers = one.allocator.next_many(call(), &asks).await;
    assert_eq!(answers, [Ok(given(1, 0, 1)), Err(bad), Err(out_of_range), Ok(given(1, 0, 1))]);
}

#[tokio::test]
async fn the_owners_refusals_are_told_as_they_are() {
    let (world, one, two) = two_nodes().await;
    let theirs = SectionId(SECTIONS / 2);
    world.store.set_mode(Mode::HoldRaises);
    let stalled = Err(Refusal::CeilingStalled { section: theirs });
    // Long enough that the owner's refusal arrives also on a busy machine.
    let patient = || Call { deadline: Instant::now() + Duration::from_millis(800), ..call() };
    assert_eq!(one.allocator.next(patient(), ask(THEIRS, 1)).await, stalled);
    let asks = vec![Ok(ask(THEIRS, 1)), Ok(ask(THEIRS, 1))];
    assert_eq!(one.allocator.next_many(patient(), &asks).await, [stalled, stalled]);
    world.store.set_mode(Mode::Serve);
    assert_eq!(two.next(THEIRS).await, Ok(given(1, 0, 1)), "refused calls moved nothing");
}

#[tokio::test]
async fn a_call_is_forwarded_twice_at_most() {
    let (_world, one, _two) = two_nodes().await;
    let forwarded = |hops| Call { hops, via: Via::Forwarded, ..impatient() };
    let not_owner = Refusal::NotOwner { section: SectionId(SECTIONS / 2), owner: Some(NodeId(2)) };
    assert_eq!(one.allocator.next(forwarded(2), ask(THEIRS, 1)).await, Err(not_owner));
    assert_eq!(one.allocator.status().forwarded, 0);
    assert_eq!(one.allocator.next(Call { hops: 1, ..call() }, ask(THEIRS, 1)).await, Ok(given(1, 0, 1)));
}

#[tokio::test]
async fn a_dead_owner_costs_only_its_own_items() {
    let (_world, one, two) = two_nodes().await;
    two.group.shutdown(PATIENCE).await.unwrap();
    let unreachable = Refusal::OwnerUnreachable { section: SectionId(SECTIONS / 2), owner: NodeId(2) };
    // Long enough that a dial fails by itself also on a busy machine.
    let patient = || Call { deadline: Instant::now() + Duration::from_millis(500), ..call() };
    assert_eq!(one.allocator.next(patient(), ask(THEIRS, 1)).await, Err(unreachable));
    let asks = [1, THEIRS, 2].map(|uid| Ok(ask(uid, 1))).to_vec();
    let answers = one.allocator.next_many(patient(), &asks).await;
    assert_eq!(answers, [Ok(given(1, 0, 1)), Err(unreachable), Ok(given(1, 0, 1))]);
    let read = one.allocator.current(patient(), Uid(THEIRS), Epoch(0)).await;
    assert_eq!(read, Err(unreachable));
}
