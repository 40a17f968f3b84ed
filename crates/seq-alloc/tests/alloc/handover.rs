//! Handovers: exact, without a refused call, and thawed or completed after any failure.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{join, join_all};
use seq_api::service::SequenceService;
use seq_core::{Epoch, Refusal, Uid};
use seq_proto::v1;
use seq_proto::v1::handover_service_server::{HandoverService, HandoverServiceServer};
use tokio::time::Instant;
use tonic::{Request, Response, Status, Streaming};

use crate::store::{Mode, record};
use crate::world::{Node, PATIENCE, SIZE, World, call, given, until};

/// Sections that are handed over.
const MOVED: u32 = 8;

/// Starts a world in which a1 owns some sections, and a2 none.
async fn source_and_target() -> (World, Node, Node) {
    let world = World::new();
    let source = world.start_owning("a1", 0..MOVED).await;
    let target = world.start_owning("a2", MOVED..MOVED + 1).await;
    world.routed(&[&source, &target]).await;
    (world, source, target)
}

async fn moved(target: &Node) {
    until("the sections are moved", || target.allocator.status().sections == MOVED + 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_go_on_exactly_across_a_move_and_nobody_is_refused() {
    let (world, source, target) = source_and_target().await;
    let done = AtomicBool::new(false);
    let caller = |node: &Node, uid: u64| {
        let (allocator, done) = (node.allocator.clone(), &done);
        async move {
            let mut last = 0;
            while !done.load(SeqCst) {
                let taken = allocator.next(call(), crate::world::ask(uid, 1)).await.unwrap();
                assert_eq!((taken.value.0, taken.prev.0), (last + 1, last), "uid {uid}");
                last += 1;
            }
            last
        }
    };
    let uids = || (0..u64::from(MOVED)).flat_map(|section| [section * SIZE, section * SIZE + 50]);
    let callers = uids().map(|uid| caller(if uid % SIZE == 0 { &source } else { &target }, uid));
    let operator = async {
        until("numbers go", || source.allocator.status().allocations > 1_000).await;
        world.store.plan(0..MOVED, "a2");
        moved(&target).await;
        let before = target.allocator.status().allocations;
        until("numbers go on", || target.allocator.status().allocations > before + 1_000).await;
        done.store(true, SeqCst);
    };
    let (lasts, ()) = join(join_all(callers), operator).await;
    assert!(lasts.iter().all(|last| *last > 0));
    assert_eq!(source.allocator.status().sections, 0);
    for (uid, last) in uids().zip(lasts) {
        let read = source.allocator.current(call(), Uid(uid), Epoch(0)).await.unwrap();
        assert_eq!((read.reading.value.0, read.reading.exact, read.epoch.0), (last, true, 2));
    }
}

#[tokio::test]
async fn a_uid_that_never_had_a_number_reads_so_after_a_move() {
    let (world, _source, target) = source_and_target().await;
    world.store.plan(0..MOVED, "a2");
    moved(&target).await;
    let read = target.allocator.current(call(), Uid(3), Epoch(0)).await.unwrap();
    assert_eq!((read.reading.value.0, read.reading.exact), (0, true));
    assert_eq!(target.next(3).await, Ok(given(1, 0, 2)));
}

#[tokio::test]
async fn a_move_to_a_node_that_is_gone_moves_nothing() {
    let (world, source, target) = source_and_target().await;
    assert_eq!(source.next(3).await, Ok(given(1, 0, 1)));
    target.group.shutdown(PATIENCE).await.unwrap();
    world.store.plan(0..MOVED, "a2");
    let renewals = || world.store.state.lock().nodes[0].renew_seq.0;
    let before = renewals();
    until("the move was tried", || renewals() > before + 10).await;
    assert_eq!(source.next(3).await, Ok(given(2, 1, 1)));
    assert_eq!(source.allocator.status().sections, MOVED);
}

#[tokio::test]
async fn a_commit_whose_answer_was_lost_is_asked_for_again_and_callers_wait() {
    let (world, source, target) = source_and_target().await;
    assert_eq!(source.next(3).await, Ok(given(1, 0, 1)));
    world.store.plan(0..1, "a2");
    // From the freeze of the section on, the store forgets its responses.
    let mut held = None;
    while held.is_none() {
        let mut next = Box::pin(source.next(3));
        if (&mut next).now_or_never().is_none() {
            world.store.set_mode(Mode::ForgetAnswers);
            held = Some(next);
        } else {
            tokio::task::yield_now().await;
        }
    }
    let calls = world.store.calls.load(SeqCst);
    until("answers are lost", || world.store.calls.load(SeqCst) > calls + 5).await;
    world.store.set_mode(Mode::Serve);
    let taken = held.unwrap().await.unwrap();
    assert_eq!(taken.prev.0 + 1, taken.value.0);
    until("the section is moved", || target.allocator.status().sections == 2).await;
    let next = target.next(3).await.unwrap();
    assert_eq!((next.prev, next.epoch.0), (taken.value, 2));
}

#[tokio::test]
async fn whoever_leaves_hands_everything_over_first() {
    let (world, source, target) = source_and_target().await;
    assert_eq!(source.next(3).await, Ok(given(1, 0, 1)));
    world.store.plan(0..MOVED, "a2");
    assert!(source.allocator.drain(PATIENCE).await);
    assert_eq!((source.allocator.status().sections, target.allocator.status().sections), (0, MOVED + 1));
    assert_eq!(source.next(3).await, Ok(given(2, 1, 2)), "late calls are sent on");
}

#[tokio::test]
async fn whoever_leaves_alone_gives_its_sections_up() {
    let world = World::new();
    let node = world.start_owning("a1", 0..MOVED).await;
    assert_eq!(node.next(3).await, Ok(given(1, 0, 1)));
    assert!(node.allocator.drain(PATIENCE).await);
    let owners: Vec<_> = world.store.state.lock().sections.residents().map(|(_, record)| record.owner).collect();
    assert!(owners.iter().all(Option::is_none));
    let unserved = node.impatient(3).await.unwrap_err();
    assert!(matches!(unserved, Refusal::Unserved { .. }), "{unserved:?}");
    let again = world.start_owning("a2", 0..MOVED).await;
    assert!(again.next(3).await.unwrap().value.0 > 1);
}

#[tokio::test]
async fn more_sections_than_one_call_takes_are_given_up_as_well() {
    let sections = 5_000;
    let world = World::sized("test", sections);
    let node = world.start_owning("a1", 0..sections).await;
    assert!(node.allocator.drain(PATIENCE).await);
    assert!(world.store.state.lock().sections.residents().all(|(_, record)| record.owner.is_none()));
}

/// Target that stops after Prepare, and responds to no other request.
struct StopsAfterPrepare;

#[tonic::async_trait]
impl HandoverService for StopsAfterPrepare {
    async fn prepare(&self, _: Request<v1::PrepareRequest>) -> Result<Response<v1::PrepareResponse>, Status> {
        Ok(Response::new(v1::PrepareResponse {}))
    }

    async fn stage(&self, _: Request<Streaming<v1::StageRequest>>) -> Result<Response<v1::StageResponse>, Status> {
        std::future::pending().await
    }

    async fn activate(&self, _: Request<v1::ActivateRequest>) -> Result<Response<v1::ActivateResponse>, Status> {
        std::future::pending().await
    }

    async fn make_steps(&self, _: Request<v1::StepsRequest>) -> Result<Response<v1::StepsResponse>, Status> {
        std::future::pending().await
    }
}

/// Target of the release before, which makes one step in a call. It counts the steps.
#[derive(Clone, Default)]
struct Singly(Arc<[AtomicUsize; 3]>);

#[tonic::async_trait]
impl HandoverService for Singly {
    async fn prepare(&self, _: Request<v1::PrepareRequest>) -> Result<Response<v1::PrepareResponse>, Status> {
        self.0[0].fetch_add(1, SeqCst);
        Ok(Response::new(v1::PrepareResponse {}))
    }

    async fn stage(&self, _: Request<Streaming<v1::StageRequest>>) -> Result<Response<v1::StageResponse>, Status> {
        self.0[1].fetch_add(1, SeqCst);
        Ok(Response::new(v1::StageResponse {}))
    }

    async fn activate(&self, _: Request<v1::ActivateRequest>) -> Result<Response<v1::ActivateResponse>, Status> {
        self.0[2].fetch_add(1, SeqCst);
        Ok(Response::new(v1::ActivateResponse {}))
    }

    async fn make_steps(&self, _: Request<v1::StepsRequest>) -> Result<Response<v1::StepsResponse>, Status> {
        Err(Status::unimplemented("the method of a later release"))
    }
}

#[tokio::test]
async fn steps_go_one_by_one_to_a_target_and_a_store_of_the_release_before() {
    let world = World::new();
    let source = world.start_owning("a1", 0..MOVED).await;
    let target = Singly::default();
    world.store.serve_as("a2", HandoverServiceServer::new(target.clone()), &world.group);
    world.store.commits_singly.store(true, SeqCst);
    world.routed(&[&source]).await;
    world.store.plan(0..MOVED, "a2");
    until("the sections are moved", || source.allocator.status().sections == 0).await;
    let steps = || target.0.each_ref().map(|steps| steps.load(SeqCst));
    until("each step was made", || steps() == [MOVED as usize; 3]).await;
    let state = world.store.state.lock();
    assert!((0..MOVED).all(|section| record(&state, section).epoch == Epoch(2)), "an attempt was repeated");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_sections_move_in_a_few_calls() {
    let sections = 600;
    let world = World::sized("test", sections + 1);
    let source = world.start_owning("a1", 0..sections).await;
    let target = world.start_owning("a2", sections..sections + 1).await;
    world.routed(&[&source, &target]).await;
    for section in (0..u64::from(sections)).step_by(7) {
        assert_eq!(source.next(section * SIZE).await, Ok(given(1, 0, 1)));
    }
    world.store.plan(0..sections, "a2");
    until("the sections are moved", || target.allocator.status().sections == sections + 1).await;
    let commits = world.store.commits.load(SeqCst) as u32;
    for section in 0..u64::from(sections) {
        let last = u64::from(section % 7 == 0);
        assert_eq!(target.next(section * SIZE).await, Ok(given(last + 1, last, 2)), "section {section}");
    }
    assert!(commits < sections / 4, "{sections} sections in {commits} calls");
}

#[tokio::test]
async fn a_target_that_stops_after_prepare_keeps_a_section_frozen_for_a_moment_only() {
    let world = World::new();
    let source = world.start_owning("a1", 0..1).await;
    let routes = HandoverServiceServer::new(StopsAfterPrepare);
    let addr = world.store.serve_as("a2", routes, &world.group);
    world.routed(&[&source]).await;
    assert_eq!(source.next(3).await, Ok(given(1, 0, 1)), "before {addr} is a target");
    world.store.plan(0..1, "a2");
    // Several attempts are made and withdrawn while numbers are allocated.
    let (mut slowest, began) = (Duration::ZERO, Instant::now());
    let mut last = 1;
    while began.elapsed() < Duration::from_secs(2) {
        let asked = Instant::now();
        let taken = source.next(3).await.unwrap();
        assert_eq!((taken.value.0, taken.prev.0), (last + 1, last));
        last += 1;
        slowest = slowest.max(asked.elapsed());
    }
    assert!(slowest > Duration::from_millis(100), "no attempt froze it: {slowest:?}");
    assert!(slowest < Duration::from_secs(1), "a call waited {slowest:?} for a section that was frozen");
}

#[tokio::test]
async fn without_the_store_nobody_leaves_in_time() {
    let world = World::new();
    let node = world.start_owning("a1", 0..MOVED).await;
    world.store.set_mode(Mode::Down);
    assert!(!node.allocator.drain(Duration::from_millis(50)).await);
}
