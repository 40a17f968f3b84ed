//! Raises: early, in batches, with waiting calls and after failures.

use futures::FutureExt;
use futures::future::join_all;
use seq_alloc::AllocOptions;
use seq_api::service::SequenceService;
use seq_core::{Refusal, SectionId, Seq};
use std::sync::atomic::Ordering::SeqCst;

use crate::store::Mode;
use crate::world::{SECTIONS, SIZE, STEP, World, ask, call, given, impatient, quick, slow, until};

#[tokio::test]
async fn sections_that_wait_together_share_a_call() {
    let world = World::new();
    let node = world.start_owning("a1", 0..SECTIONS).await;
    let firsts = (0..u64::from(SECTIONS)).map(|section| node.next(section * SIZE));
    let all = join_all(firsts).await;
    assert!(all.iter().all(|result| *result == Ok(given(1, 0, 1))), "{all:?}");
    assert_eq!(node.allocator.status().raises, u64::from(SECTIONS));
    let calls = world.store.raise_calls.load(SeqCst);
    assert!(calls <= 10, "{calls} calls for {SECTIONS} sections");
}

#[tokio::test]
async fn callers_at_the_ceiling_wait_and_wake() {
    let world = World::new();
    let node = world.start_owning("a1", 0..1).await;
    world.store.set_mode(Mode::HoldRaises);
    let mut calls: Vec<_> = (0..5).map(|uid| Box::pin(node.next(uid))).collect();
    for call in &mut calls {
        assert_eq!(call.now_or_never(), None, "nothing is free yet");
    }
    until("the raise is asked for", || world.store.raise_calls.load(SeqCst) == 1).await;
    world.store.set_mode(Mode::Serve);
    assert_eq!(join_all(calls).await, vec![Ok(given(1, 0, 1)); 5]);
    assert_eq!(world.store.raise_calls.load(SeqCst), 1);
}

#[tokio::test]
async fn a_raise_that_is_too_fast_delays_its_section_alone() {
    let world = World::new();
    let node = world.start_owning("a1", 0..2).await;
    *world.store.too_fast.lock() = Some(0);
    let mut delayed = Box::pin(node.next(7));
    assert_eq!((&mut delayed).now_or_never(), None);
    assert_eq!(node.next(SIZE + 7).await, Ok(given(1, 0, 1)), "the other section of the batch");
    // The raise is refused and sent again, and the ownership goes on.
    let calls = world.store.raise_calls.load(SeqCst);
    until("the raise is sent again", || world.store.raise_calls.load(SeqCst) >= calls + 2).await;
    assert_eq!((&mut delayed).now_or_never(), None);
    *world.store.too_fast.lock() = None;
    assert_eq!(delayed.await, Ok(given(1, 0, 1)));
}

#[tokio::test]
async fn a_call_whose_time_is_over_moves_nothing() {
    let world = World::new();
    let node = world.start_owning("a1", 0..1).await;
    world.store.set_mode(Mode::HoldRaises);
    let stalled = Err(Refusal::CeilingStalled { section: SectionId(0) });
    assert_eq!(node.allocator.next(impatient(), ask(7, 1)).await, stalled);
    let asks = vec![Ok(ask(7, 1)), Ok(ask(8, 2))];
    assert_eq!(node.allocator.next_many(impatient(), &asks).await, [stalled, stalled]);
    world.store.set_mode(Mode::Serve);
    assert_eq!(node.next(7).await, Ok(given(1, 0, 1)));
    assert_eq!(node.allocator.status().allocations, 1);
}

#[tokio::test]
async fn without_the_store_numbers_last_to_the_ceiling() {
    let world = World::new();
    let node = world.start_owning("a1", 0..1).await;
    assert_eq!(node.next(7).await, Ok(given(1, 0, 1)));
    world.store.set_mode(Mode::Down);
    for value in 2..=STEP {
        assert_eq!(node.next(7).await, Ok(given(value, value - 1, 1)));
    }
    let stalled = Refusal::CeilingStalled { section: SectionId(0) };
    assert_eq!(node.allocator.next(impatient(), ask(7, 1)).await, Err(stalled));
    assert_eq!(world.store.ceiling(0), Seq(STEP));
    world.store.set_mode(Mode::Serve);
    assert_eq!(node.next(7).await, Ok(given(STEP + 1, STEP, 1)));
}

#[tokio::test]
async fn a_raise_whose_answer_was_lost_is_repeated_and_does_not_run_away() {
    let world = World::new();
    let node = world.start_owning("a1", 0..1).await;
    world.store.set_mode(Mode::ForgetAnswers);
    let mut call = Box::pin(node.next(7));
    assert_eq!((&mut call).now_or_never(), None, "nothing is free yet");
    until("the raise was lost", || world.store.raise_calls.load(SeqCst) > 4).await;
    world.store.set_mode(Mode::Serve);
    assert_eq!(call.await, Ok(given(1, 0, 1)));
    assert_eq!(world.store.ceiling(0), Seq(STEP));
}

#[tokio::test]
async fn a_large_count_is_raised_for_at_once() {
    let world = World::new();
    let node = world.start_owning("a1", 0..1).await;
    let taken = node.allocator.next(call(), ask(7, 1_000_000)).await;
    assert_eq!(taken, Ok(given(1_000_000, 0, 1)));
    assert_eq!(node.allocator.status().raises, 1);
}

#[tokio::test]
async fn the_raise_hides_behind_the_numbers_that_are_left() {
    let world = World::new();
    let node = world.start_owning("a1", 0..1).await;
    assert_eq!(node.next(7).await, Ok(given(1, 0, 1)));
    for value in 2..500 {
        // A call that completes at its first poll did not wait.
        let answer = node.next(7).now_or_never();
        assert_eq!(answer, Some(Ok(given(value, value - 1, 1))));
        let due = world.store.ceiling(0).0 - value <= STEP / 2;
        if due {
            until("the ceiling is raised", || world.store.ceiling(0).0 - value > STEP / 2).await;
            until("the node knows it", || node.allocator.status().raises * STEP == world.store.ceiling(0).0).await;
        }
    }
    assert!(node.allocator.status().raises <= 500 / (STEP / 2) + 1);
}

#[tokio::test]
async fn a_refused_raise_is_the_end_of_the_ownership() {
    let world = World::new();
    let node = world.start_with("a1", slow());
    world.registered_after("a1", None).await;
    world.store.assign("a1", 0..2);
    until("the sections are granted", || node.allocator.status().sections == 2).await;
    assert_eq!(node.next(7).await, Ok(given(1, 0, 1)));
    let heir = world.start("a2");
    world.registered_after("a2", None).await;
    world.store.assign("a2", 0..1);
    until("the heir has it", || heir.allocator.status().sections == 1).await;
    assert_eq!(heir.next(7).await, Ok(given(STEP + 1, 0, 2)));
    // The old owner has not renewed. The numbers that it may still allocate are below all numbers of the new owner.
    let mut last = 1;
    while node.allocator.status().raises_refused == 0 {
        if let Ok(taken) = node.next(7).await {
            assert!(taken.value.0 > last);
            last = taken.value.0;
        }
    }
    until("the section is dropped", || node.allocator.status().sections == 1).await;
    world.routed(&[&node]).await;
    let forwarded = node.next(7).await.unwrap();
    assert!(forwarded.epoch.0 == 2 && forwarded.value.0 > STEP + 1, "{forwarded:?}");
}

#[tokio::test]
async fn a_uid_named_twice_takes_in_order_also_across_a_wait() {
    let world = World::new();
    let node = world.start_owning("a1", 0..1).await;
    assert_eq!(node.next(7).await, Ok(given(1, 0, 1)));
    let after = node.next_many(&[(7, 5), (7, STEP as u32), (7, 1), (8, 1), (7, 1)]).await;
    let last = 6 + STEP;
    assert_eq!(after, [Ok(6), Ok(last), Ok(last + 1), Ok(1), Ok(last + 2)]);
}

#[tokio::test]
async fn a_lost_ownership_in_line_does_not_hold_up_the_next_one() {
    let world = World::new();
    let node = world.start_with("a1", AllocOptions { raises_in_flight: 1, ..quick() });
    world.registered_after("a1", None).await;
    world.store.assign("a1", 0..2);
    until("the sections are granted", || node.allocator.status().sections == 2).await;
    world.store.set_mode(Mode::HoldRaises);
    let mut first = Box::pin(node.next(SIZE));
    assert_eq!((&mut first).now_or_never(), None);
    until("the only raise there may be is under way", || world.store.raise_calls.load(SeqCst) == 1).await;
    let mut second = Box::pin(node.next(7));
    assert_eq!((&mut second).now_or_never(), None);
    // The section is in the queue under its first epoch, and then also under its second.
    world.store.assign("a1", 0..1);
    world.routed(&[&node]).await;
    assert_eq!((&mut second).now_or_never(), None);
    world.store.set_mode(Mode::Serve);
    assert_eq!(first.await, Ok(given(1, 0, 1)));
    assert_eq!(second.await, Ok(given(1, 0, 2)));
}
