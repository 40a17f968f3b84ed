//! Handovers to a node of another set: exact, and served again or given up if the departure is refused.

use std::sync::atomic::Ordering::SeqCst;

use seq_alloc::AllocOptions;
use seq_core::state::{Answer, Command, Rollback};
use seq_core::{MigrationId, SectionId};
use seq_proto::v1::handover_service_client::HandoverServiceClient;
use seq_proto::{status, v1};
use tonic::Status;

use crate::world::{Node, World, given, quick, slow, until};

/// Sections that the source owns.
const OWNED: u32 = 4;

/// Starts two sets: a1 of the first set owns some sections, a1 of the second set none.
struct Sets {
    from: World,
    to: World,
    source: Node,
    target: Node,
}

async fn two_sets(target: AllocOptions) -> Sets {
    let from = World::of("from");
    let to = from.beside("to");
    let source = from.start_owning("a1", 0..OWNED).await;
    let target = to.start_with("a1", target);
    to.registered_after("a1", None).await;
    from.store.learn(&to.store);
    from.routed(&[&source]).await;
    to.routed(&[&target]).await;
    Sets { from, to, source, target }
}

impl Sets {
    /// Returns whether the section has departed by the log of the first set.
    fn has_departed(&self, section: u32) -> bool {
        self.from.store.state.lock().sections.resident(SectionId(section)).is_none()
    }
}

#[tokio::test]
async fn numbers_go_on_exactly_in_another_set() {
    let sets = two_sets(quick()).await;
    assert_eq!(sets.source.next(3).await, Ok(given(1, 0, 1)));
    assert_eq!(sets.source.next(3).await, Ok(given(2, 1, 1)));
    let migration = sets.from.store.migrate(0..2, &sets.to.store);
    sets.from.store.arrive_at(&sets.to.store);
    sets.from.store.plan_departures(0..2, migration, &sets.to.store, "a1");
    until("the sections are moved", || sets.target.allocator.status().sections == 2).await;
    assert_eq!(sets.target.next(3).await, Ok(given(3, 2, 2)));
    assert_eq!(sets.target.next(103).await, Ok(given(1, 0, 2)));
    assert_eq!(sets.source.allocator.status().sections, OWNED - 2);
    assert_eq!(sets.source.next(203).await, Ok(given(1, 0, 1)), "what is not migrated stays");
}

#[tokio::test]
async fn a_section_that_arrives_after_the_response_is_activated_by_a_repeat() {
    // Only an Activate makes the target renew.
    let sets = two_sets(slow()).await;
    assert_eq!(sets.source.next(3).await, Ok(given(1, 0, 1)));
    let migration = sets.from.store.migrate(0..1, &sets.to.store);
    sets.from.store.plan_departures(0..1, migration, &sets.to.store, "a1");
    let renewals = || sets.to.store.state.lock().nodes[0].renew_seq.0;
    until("the section has departed", || sets.has_departed(0)).await;
    let before = renewals();
    until("the target is notified", || renewals() > before).await;
    assert_eq!(sets.target.allocator.status().sections, 0);
    sets.from.store.arrive_at(&sets.to.store);
    until("the target is notified again", || sets.target.allocator.status().sections == 1).await;
    assert_eq!(sets.target.next(3).await, Ok(given(2, 1, 2)));
    assert_eq!(sets.from.store.departures.load(SeqCst), 1);
}

#[tokio::test]
async fn a_section_of_a_migration_that_was_rolled_back_is_served_again() {
    let sets = two_sets(quick()).await;
    let migration = sets.from.store.migrate(0..1, &sets.to.store);
    let ended = sets.from.store.state.lock().apply(&Command::Rollback(Rollback { id: migration }));
    assert_eq!(ended, Answer::RolledBack(Ok(())));
    sets.from.store.plan_departures(0..1, migration, &sets.to.store, "a1");
    let mut last = 0;
    while sets.from.store.departures.load(SeqCst) < 3 {
        let next = sets.source.next(3).await.unwrap();
        assert_eq!((next.value.0, next.prev.0, next.epoch.0), (last + 1, last, 1));
        last += 1;
    }
    assert!(!sets.has_departed(0));
}

#[tokio::test]
async fn a_section_of_an_unknown_migration_is_given_up() {
    let sets = two_sets(quick()).await;
    assert_eq!(sets.source.next(3).await, Ok(given(1, 0, 1)));
    sets.from.store.plan_departures(0..1, MigrationId(99), &sets.to.store, "a1");
    let record =
        || *sets.from.store.state.lock().sections.resident(SectionId(0)).expect("it departs with no migration");
    until("the section is given up", || record().owner.is_none()).await;
    assert!(record().epoch.0 > 1, "a repeat of the departure names an ownership that is past");
    assert_eq!(sets.source.allocator.status().sections, OWNED - 1);
}

#[tokio::test]
async fn an_offer_names_the_set_and_the_layout_of_its_target() {
    let sets = two_sets(quick()).await;
    let addr = sets.to.store.state.lock().nodes().next().unwrap().1.addr.clone();
    let mut target = HandoverServiceClient::connect(format!("http://{addr}")).await.unwrap();
    let layout_id = sets.to.store.state.lock().set.as_ref().unwrap().layout.id_of(SectionId(0)).unwrap().0;
    let mut prepare = async |to_set_id, layout_id| -> Result<(), Status> {
        let offer = v1::HandoverOffer {
            set: String::new(),
            section: 0,
            epoch: 7,
            handover_id: 1,
            incarnation: sets.to.store.incarnation("a1").unwrap().0,
            from_set_id: sets.from.store.id().0,
            to_set_id,
            layout_id,
        };
        target.prepare(v1::PrepareRequest { offer: Some(offer) }).await.map(drop)
    };
    let (mine, other) = (sets.to.store.id().0, sets.from.store.id().0);
    for (set, layout, expected) in
        [(other, layout_id, "OTHER_SET"), (0, layout_id, "OTHER_SET"), (mine, layout_id + 1, "OTHER_LAYOUT")]
    {
        let refused = prepare(set, layout).await.unwrap_err();
        assert_eq!(status::reason(&refused).as_deref(), Some(expected), "{refused:?}");
    }
    prepare(mine, layout_id).await.unwrap();
}
