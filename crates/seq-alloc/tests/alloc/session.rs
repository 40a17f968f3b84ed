//! Registration, grants, incarnations.

use std::time::Duration;

use futures::FutureExt;
use seq_alloc::{AllocOptions, Halt, report_death};
use seq_api::service::{Item, SequenceService};
use seq_channel::Dial;
use seq_core::state::{ClaimStoreId, Command};
use seq_core::{Epoch, Incarnation, Layout, Refusal, RouteVersion, SectionId, Uid};

use crate::store::{Mode, Store};
use crate::world::{SECTIONS, STEP, World, ask, call, given, impatient, quick, slow, spec, until};

#[tokio::test]
async fn a_node_registers_is_granted_sections_and_serves() {
    let world = World::new();
    let node = world.start_owning("a1", 0..SECTIONS).await;
    assert_eq!(node.next(42).await, Ok(given(1, 0, 1)));
    assert_eq!(node.next(42).await, Ok(given(2, 1, 1)));
    let current = node.allocator.current(call(), Uid(42), Epoch(0)).await.unwrap();
    assert_eq!((current.reading.value.0, current.reading.exact, current.epoch.0), (2, true, 1));
    assert_eq!(node.allocator.ready(), Ok(()));
    let status = node.allocator.status();
    assert_eq!((status.id, status.incarnation, status.sections), (1, 1, SECTIONS));
    assert_eq!((status.allocations, status.raises, status.raises_refused), (2, 1, 0));
    until("the slots are read", || node.allocator.status().slot_bytes > 0).await;
    let routes = node.allocator.routes_since(RouteVersion(0)).unwrap();
    assert_eq!((routes.version, routes.runs.len()), (node.allocator.route_version(), 1));
    assert_eq!(node.allocator.routes_since(routes.version), None);
}

#[tokio::test]
async fn before_sections_are_granted_nothing_is_served() {
    let world = World::new();
    let node = world.start("a1");
    assert_eq!(node.impatient(42).await, Err(Refusal::Unserved { section: SectionId(0) }));
    let failing = node.allocator.ready().unwrap_err();
    assert!(failing.iter().any(|(name, _)| name == "routes"), "{failing:?}");
}

#[tokio::test]
async fn a_new_process_starts_above_everything_the_old_one_gave_out() {
    let world = World::new();
    let old = world.start_owning("a1", 0..SECTIONS).await;
    assert_eq!(old.next(42).await, Ok(given(1, 0, 1)));
    drop(old);
    let new = world.start_owning("a1", 0..SECTIONS).await;
    assert_eq!(new.next(42).await, Ok(given(STEP + 1, 0, 2)));
    assert_eq!(new.next(150).await, Ok(given(1, 0, 2)), "a section that was never used starts at 1");
    let current = new.allocator.current(call(), Uid(43), Epoch(0)).await.unwrap();
    assert_eq!((current.reading.value.0, current.reading.exact), (STEP, false));
}

#[tokio::test]
async fn a_life_that_is_over_gives_nothing_out_and_a_new_one_begins() {
    let world = World::new();
    let node = world.start_owning("a1", 0..SECTIONS).await;
    assert_eq!(node.next(42).await, Ok(given(1, 0, 1)));
    let addr = world.store.state.lock().nodes[0].addr.clone();
    world.store.register_other("a1", &addr);
    until("the node begins a new session", || world.store.incarnation("a1") == Some(Incarnation(3))).await;
    until("the sections are dropped", || node.allocator.status().sections == 0).await;
    assert_eq!(node.impatient(42).await, Err(Refusal::Unserved { section: SectionId(0) }));
    world.store.assign("a1", 0..SECTIONS);
    until("the sections are granted again", || node.allocator.status().sections == SECTIONS).await;
    assert_eq!(node.next(42).await, Ok(given(STEP + 1, 0, 2)));
}

/// Two processes under one name do not end each other's incarnation in turns. The process whose name was taken stops
/// permanently.
#[tokio::test]
async fn a_process_whose_name_was_taken_halts_and_names_the_other() {
    let world = World::new();
    let node = world.start_owning("a1", 0..SECTIONS).await;
    let mut halted = node.allocator.halted();
    world.store.register_other("a1", "127.0.0.1:9");
    let halt = halted.wait_for(Option::is_some).await.unwrap().clone();
    assert_eq!(halt, Some(Halt::Evicted { addr: "127.0.0.1:9".to_owned() }));
    until("the sections are dropped", || node.allocator.status().sections == 0).await;
    until("the probe says why", || format!("{:?}", node.allocator.ready()).contains("127.0.0.1:9")).await;
    assert_eq!(world.store.incarnation("a1"), Some(Incarnation(2)), "it does not come back");
}

/// A process that lives although it was reported dead serves nothing more, and registers no more.
#[tokio::test]
async fn a_process_that_was_reported_dead_halts() {
    let world = World::new();
    let node = world.start_owning("a1", 0..SECTIONS).await;
    assert_eq!(node.next(42).await, Ok(given(1, 0, 1)));
    let mut halted = node.allocator.halted();
    let process = world.store.state.lock().nodes[0].process;
    let report = |name: &'static str, process| {
        let spec = world.spec.clone();
        async move { report_death(&spec, &Dial::tcp(), name, process).await }
    };
    assert_eq!(report("a1", process ^ 1).await.unwrap(), None, "the number of another process");
    assert_eq!(report("a1", process).await.unwrap(), Some(Incarnation(1)));
    assert_eq!(report("a1", process).await.unwrap(), None, "a repeat");
    let unknown = report("a9", process).await.unwrap_err().to_string();
    assert_eq!(unknown, "the store refused the report with UNKNOWN_NODE: no such node");
    let halt = halted.wait_for(Option::is_some).await.unwrap().clone();
    assert_eq!(halt, Some(Halt::ReportedDead));
    until("the sections are dropped", || node.allocator.status().sections == 0).await;
    assert_eq!(world.store.incarnation("a1"), Some(Incarnation(1)), "it does not come back");
}

/// The store's data directories were restored from copies, so that the entries of its later responses are lost.
#[tokio::test]
async fn a_store_that_lost_what_it_answered_is_not_served_from() {
    for (what, between) in [("a renewal", 0), ("many renewals", 20), ("all there was", u64::MAX)] {
        let world = World::new();
        let node = world.start_owning("a1", 0..SECTIONS).await;
        assert_eq!(node.next(42).await, Ok(given(1, 0, 1)));
        let old = match between {
            u64::MAX => {
                Store::only("test", Layout::new(0..100 * u64::from(SECTIONS), 100).unwrap()).state.lock().clone()
            }
            _ => world.store.state.lock().clone(),
        };
        let revision = old.revision.0;
        until("more is applied", || world.store.state.lock().revision.0 > revision + 1 + between.min(20)).await;
        *world.store.state.lock() = old;
        let mut halted = node.allocator.halted();
        let halt = halted.wait_for(Option::is_some).await.unwrap().clone();
        assert!(matches!(halt, Some(Halt::StoreBehind { .. })), "{what}: {halt:?}");
        until("nothing is served", || node.allocator.status().sections == 0).await;
        until("the store has the report", || world.store.state.lock().loss.is_some()).await;
        assert_eq!(world.store.state.lock().loss.as_ref().map(|loss| loss.node.clone()), Some("a1".into()));
        // Other processes write to the store until it is past the lost entries. This process stays halted.
        let past = world.store.state.lock().revision.0 + 1_000;
        while world.store.state.lock().revision.0 < past {
            world.store.state.lock().apply(&Command::ClaimStoreId(ClaimStoreId { id: past }));
        }
        assert!(node.impatient(42).await.is_err(), "{what}");
        assert_eq!(node.allocator.status().sections, 0);
    }
}

#[tokio::test]
async fn a_lost_answer_ends_no_life() {
    let world = World::new();
    let node = world.start_owning("a1", 0..SECTIONS).await;
    world.store.set_mode(Mode::ForgetAnswers);
    let calls = world.store.calls.load(std::sync::atomic::Ordering::SeqCst);
    until("renewals are lost", || world.store.calls.load(std::sync::atomic::Ordering::SeqCst) > calls + 5).await;
    world.store.set_mode(Mode::Serve);
    let renewed = world.store.state.lock().nodes[0].renew_seq;
    until("renewals go on", || world.store.state.lock().nodes[0].renew_seq.0 > renewed.0 + 3).await;
    assert_eq!(world.store.incarnation("a1"), Some(Incarnation(1)));
    assert_eq!(node.next(42).await, Ok(given(1, 0, 1)));
}

#[tokio::test]
async fn the_leader_is_found_by_way_of_a_follower() {
    let mut world = World::new();
    let leader = world.spec.stores[0].addr.parse().unwrap();
    let follower = world.store.follower(leader);
    let addr = follower.serve(&world.group);
    let dead = "127.0.0.1:1".parse().unwrap();
    world.spec = spec(&[dead, addr, leader]);
    world.spec.stores.iter_mut().for_each(|store| store.http = format!("127.0.0.1:{}", 40 + store.id));
    let node = world.start_owning("a1", 0..SECTIONS).await;
    assert_eq!(node.next(42).await, Ok(given(1, 0, 1)));
    let asked = follower.calls.load(std::sync::atomic::Ordering::SeqCst);
    assert!(asked <= 2, "the leader is remembered: the follower was asked {asked} times");
}

#[tokio::test]
async fn a_store_of_another_set_is_not_served_from() {
    let mut world = World::new();
    let other = Store::only("test", Layout::new(0..77, 7).unwrap());
    world.spec = spec(&[other.serve(&world.group)]);
    let node = world.start("a1");
    until("the store is asked", || other.incarnation("a1").is_some()).await;
    other.assign("a1", 0..11);
    let named = || format!("{:?}", node.allocator.ready()).contains("sections of 7");
    until("the probe names the difference", named).await;
    // The process ends, because the layout of a set never changes, so waiting would not help.
    until("it has halted", || matches!(node.allocator.halt(), Some(Halt::OtherSet { .. }))).await;
    assert!(node.impatient(1).await.is_err());
}

#[tokio::test]
async fn a_caller_that_has_seen_a_newer_ownership_is_answered_after_one_word_of_the_store() {
    let world = World::new();
    let node = world.start_with("a1", slow());
    world.registered_after("a1", None).await;
    world.store.assign("a1", 0..1);
    until("the section is granted", || node.allocator.status().sections == 1).await;
    let forged = Item { epoch: Epoch(7), ..ask(42, 1) };
    world.store.set_mode(Mode::Down);
    let stale = Refusal::StaleEpoch { section: SectionId(0), mine: Epoch(1), callers: Epoch(7) };
    assert_eq!(node.allocator.next(impatient(), forged).await, Err(stale));
    assert_eq!(node.allocator.current(impatient(), Uid(42), Epoch(7)).await, Err(stale));
    let read = node.allocator.current_many(impatient(), vec![(Uid(42), Epoch(7)), (Uid(43), Epoch(1))]).await;
    assert_eq!(read, [Err(stale); 2], "later items of the section wait behind the one that does");
    world.store.set_mode(Mode::Serve);
    assert_eq!(node.next(42).await, Ok(given(1, 0, 1)), "the refused calls moved nothing");
    let before = world.store.state.lock().nodes[0].renew_seq.0;
    assert_eq!(node.allocator.next(call(), forged).await, Ok(given(2, 1, 1)));
    let asked = world.store.state.lock().nodes[0].renew_seq.0 - before;
    assert!((1..=3).contains(&asked), "{asked} renewals for one wrong epoch");
}

#[tokio::test]
async fn old_routes_are_refreshed_as_soon_as_they_prove_old() {
    let world = World::new();
    let node = world.start_with("a1", slow());
    world.registered_after("a1", None).await;
    world.store.assign("a1", 0..1);
    until("the section is granted", || node.allocator.status().sections == 1).await;
    world.store.assign("a1", 0..1);
    let newer = Item { epoch: Epoch(2), ..ask(42, 1) };
    assert_eq!(node.allocator.next(call(), newer).await, Ok(given(1, 0, 2)));
}

#[tokio::test]
async fn without_a_lease_nothing_is_answered_and_with_the_next_one_it_goes_on() {
    let world = World::new();
    let ms = Duration::from_millis;
    let short = AllocOptions { lease: ms(400), lease_margin: ms(50), store_timeout: ms(100), ..quick() };
    let node = world.start_with("a1", short);
    world.registered_after("a1", None).await;
    world.store.assign("a1", 0..1);
    until("the section is granted", || node.allocator.status().sections == 1).await;
    assert_eq!(node.next(42).await, Ok(given(1, 0, 1)));
    world.store.set_mode(Mode::Down);
    until("the lease is over", || format!("{:?}", node.allocator.ready()).contains("lease")).await;
    let expired = Refusal::LeaseExpired { section: SectionId(0) };
    assert_eq!(node.impatient(42).await, Err(expired));
    assert_eq!(node.allocator.current(impatient(), Uid(42), Epoch(0)).await, Err(expired));
    let mut held = Box::pin(node.next(42));
    assert_eq!((&mut held).now_or_never(), None);
    world.store.set_mode(Mode::Serve);
    assert_eq!(held.await, Ok(given(2, 1, 1)));
}
