//! Calls of the handover service by a stranger that reaches the port: they start no ownership and stop no process.

use futures::future::join_all;
use seq_proto::v1::handover_service_client::HandoverServiceClient;
use seq_proto::{status, v1};
use tonic::Status;
use tonic::transport::Channel;

use crate::world::{Node, World, given, slow, until};

/// Section that the stranger wants, which a1 owns.
const SECTION: u32 = 0;

/// Made-up attempt of the stranger.
const ATTEMPT: u64 = 77;

/// Returns a client of a2's handover service, as any process that reaches the port can have it.
async fn stranger(world: &World) -> HandoverServiceClient<Channel> {
    let addr = world.store.state.lock().nodes().find(|(_, record)| record.name == "a2").unwrap().1.addr.clone();
    HandoverServiceClient::connect(format!("http://{addr}")).await.unwrap()
}

fn offer(world: &World, epoch: u64) -> Option<v1::HandoverOffer> {
    let incarnation = world.store.incarnation("a2").unwrap().0;
    let set = "test".to_owned();
    let (section, handover_id) = (SECTION, ATTEMPT);
    Some(v1::HandoverOffer { set, section, epoch, handover_id, incarnation, ..v1::HandoverOffer::default() })
}

/// Sends Prepare and Stage for the section to a2, under the made-up attempt.
async fn stage(world: &World, epoch: u64, base: u64, distance: u64) -> [Result<(), Status>; 2] {
    let mut target = stranger(world).await;
    let prepared = target.prepare(v1::PrepareRequest { offer: offer(world, epoch) }).await.map(drop);
    let copy = v1::StageRequest {
        offer: offer(world, epoch),
        base,
        slots: vec![0],
        distances: vec![distance],
        ..v1::StageRequest::default()
    };
    [prepared, target.stage(futures::stream::iter([copy])).await.map(drop)]
}

async fn activate(world: &World, epoch: u64) -> Result<(), Status> {
    stranger(world).await.activate(v1::ActivateRequest { offer: offer(world, epoch) }).await.map(drop)
}

fn reason(answer: Result<(), Status>) -> Option<String> {
    status::reason(&answer.unwrap_err())
}

/// Starts a world in which a1 owns the section, and a2 another section.
async fn owner_and_other() -> (World, Node, Node) {
    let world = World::new();
    let owner = world.start_owning("a1", SECTION..SECTION + 1).await;
    let other = world.start_owning("a2", 1..2).await;
    world.routed(&[&owner, &other]).await;
    (world, owner, other)
}

#[tokio::test]
async fn forged_calls_make_no_second_owner() {
    let (world, owner, other) = owner_and_other().await;
    assert_eq!(owner.next(3).await, Ok(given(1, 0, 1)));
    stage(&world, 2, 0, 1).await.into_iter().for_each(Result::unwrap);
    assert_eq!(reason(activate(&world, 2).await).as_deref(), Some("NOT_GRANTED"));
    assert_eq!(other.allocator.status().sections, 1, "a2 serves a section that the store did not grant");
    assert_eq!(other.next(3).await, Ok(given(2, 1, 1)), "forwarded to the owner");
}

#[tokio::test]
async fn a_forged_copy_is_not_used_for_another_attempt() {
    let (world, owner, other) = owner_and_other().await;
    let last = owner.next(3).await.unwrap().value;
    stage(&world, 2, 0, 1).await.into_iter().for_each(Result::unwrap);
    let ceiling = world.store.ceiling(SECTION);
    world.store.commit(SECTION, "a2", ATTEMPT + 1);
    activate(&world, 2).await.unwrap();
    let first = other.next(3).await.unwrap();
    assert!(first.value > ceiling && ceiling >= last, "{first:?} after {last}, under {ceiling}");
}

#[tokio::test]
async fn a_copy_above_its_ceiling_is_not_used_and_stops_nothing() {
    let (world, owner, other) = owner_and_other().await;
    owner.next(3).await.unwrap();
    let ceiling = world.store.ceiling(SECTION);
    stage(&world, 2, ceiling.0 + 50, 100).await.into_iter().for_each(Result::unwrap);
    world.store.commit(SECTION, "a2", ATTEMPT);
    activate(&world, 2).await.unwrap();
    assert_eq!(other.allocator.status().sections, 2);
    assert_eq!(other.next(3).await, Ok(given(ceiling.0 + 1, 0, 2)), "a gap, and nothing worse");
}

#[tokio::test]
async fn an_epoch_that_cannot_come_next_is_refused_and_not_remembered() {
    let (world, _owner, other) = owner_and_other().await;
    for epoch in [3, u64::MAX] {
        let [prepared, staged] = stage(&world, epoch, 0, 1).await;
        for refused in [prepared, staged, activate(&world, epoch).await] {
            assert_eq!(reason(refused).as_deref(), Some("UNKNOWN_EPOCH"), "epoch {epoch}");
        }
    }
    // The section can still be granted to a2.
    world.store.assign("a2", [SECTION]);
    until("the section is granted", || other.allocator.status().sections == 2).await;
}

#[tokio::test]
async fn activates_share_renewals() {
    let world = World::new();
    let _owner = world.start_owning("a1", SECTION..SECTION + 1).await;
    let other = world.start_with("a2", slow());
    world.registered_after("a2", None).await;
    world.routed(&[&other]).await;
    stage(&world, 2, 0, 1).await.into_iter().for_each(Result::unwrap);
    let renewals = || world.store.state.lock().nodes[1].renew_seq.0;
    let before = renewals();
    let target = stranger(&world).await;
    let activates = (0..200).map(|_| {
        let (mut target, offer) = (target.clone(), offer(&world, 2));
        async move { target.activate(v1::ActivateRequest { offer }).await.map(drop) }
    });
    let refused = join_all(activates).await;
    assert!(refused.into_iter().all(|answer| reason(answer).as_deref() == Some("NOT_GRANTED")));
    let asked = renewals() - before;
    assert!((1..100).contains(&asked), "{asked} renewals for 200 Activates");
}
