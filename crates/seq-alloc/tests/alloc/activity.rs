//! Activity of sections: figures, columns and descriptions, over handovers.

use seq_api::service::SequenceService;
use seq_core::{Epoch, Target, Uid};
use seq_proto::reason::Reason;
use seq_proto::status::known_reason;
use seq_proto::v1;
use seq_proto::v1::describe_section_request::Which;
use tonic::Status;

use crate::world::{Node, SECTIONS, SIZE, World, call, until};

fn describe(node: &Node, which: Which) -> Result<v1::DescribeSectionResponse, Status> {
    node.allocator.describe_section(v1::DescribeSectionRequest { which: Some(which) }).map(|report| report())
}

fn activity(node: &Node, request: v1::ListActivityRequest) -> v1::ListActivityResponse {
    node.allocator.activity(request).unwrap()()
}

fn refused(result: Result<impl Sized, Status>) -> Option<Reason> {
    result.err().and_then(|status| known_reason(&status))
}

#[tokio::test]
async fn a_section_is_described_with_its_raises() {
    let world = World::new();
    let node = world.start_owning("a1", 0..SECTIONS).await;
    for _ in 0..32 {
        node.next(3 * SIZE).await.unwrap();
    }
    node.next_many(&[(3 * SIZE + 7, 4), (2 * SIZE, 9)]).await;
    node.allocator.advance(call(), Uid(3 * SIZE + 8), Target::new(20).unwrap(), Epoch(0)).await.unwrap();
    let shown = describe(&node, Which::Uid(3 * SIZE + 99)).unwrap();
    assert_eq!((&*shown.set, &*shown.node, shown.section, shown.epoch), ("test", "a1", 3, 1));
    assert_eq!((shown.numbers, shown.touched, shown.uids), (36, 3, 100));
    assert_eq!((shown.base, shown.highest, shown.skipped_by_advances), (0, 32, 20));
    assert_eq!((shown.skipped_at_begin, shown.skip_cause()), (0, v1::SkipCause::Unspecified));
    assert!(shown.ceiling >= 32 && shown.remaining == shown.ceiling - 32, "{shown:?}");
    assert!(shown.clock_ms - shown.owned_since_ms < 60_000, "{shown:?}");
    let raises: Vec<(u64, u64)> = shown.raises.iter().map(|raise| (raise.from, raise.to)).collect();
    assert!(raises.len() >= 3 && raises[0].0 == 0, "{raises:?}");
    assert!(raises.windows(2).all(|two| two[0].1 == two[1].0), "each begins where the one before ended: {raises:?}");
    assert_eq!(raises.last().unwrap().1, shown.ceiling);
    assert_eq!(describe(&node, Which::Section(2)).unwrap().numbers, 9);
}

#[tokio::test]
async fn a_description_is_refused_where_the_section_is_not() {
    let world = World::new();
    let node = world.start_owning("a1", 0..5).await;
    assert_eq!(refused(describe(&node, Which::Section(5))), Some(Reason::NotOwner));
    assert_eq!(refused(describe(&node, Which::Section(SECTIONS))), Some(Reason::UnknownSection));
    assert_eq!(refused(describe(&node, Which::Uid(SIZE * u64::from(SECTIONS)))), Some(Reason::UidOutOfRange));
    let nothing = node.allocator.describe_section(v1::DescribeSectionRequest { which: None });
    assert_eq!(refused(nothing), Some(Reason::UnknownSection));
}

#[tokio::test]
async fn reports_are_bounded() {
    let world = World::new();
    let node = world.start_owning("a1", 0..5).await;
    let request = v1::ListActivityRequest::default();
    let mut reports: Vec<_> = (0..16).map(|_| node.allocator.activity(request).unwrap()).collect();
    assert_eq!(refused(node.allocator.activity(request)), Some(Reason::TooManyReports));
    reports.pop().unwrap()();
    drop(reports.pop());
    assert!((0..2).map(|_| node.allocator.activity(request)).collect::<Result<Vec<_>, _>>().is_ok());
    let described = || (0..30).filter(|_| describe(&node, Which::Section(1)).is_ok()).count();
    // The second may end in between.
    assert!([10, 20].contains(&described()));
}

/// Takes numbers before and after a handover, and compares the totals of both owners and the figures of the columns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_owners_of_a_section_count_their_own_numbers() {
    let world = World::new();
    let source = world.start_owning("a1", 0..8).await;
    let target = world.start_owning("a2", 8..9).await;
    world.routed(&[&source, &target]).await;
    // Raises its ceiling to 500, so that the load after the handover needs no raise.
    source.next_many(&[(500, 500)]).await;
    let before = describe(&source, Which::Section(5)).unwrap();
    let top = |node: &Node| activity(node, v1::ListActivityRequest { top: 3, ..Default::default() }).top;
    until("the reader has seen them", || !top(&source).is_empty()).await;
    world.store.plan(0..8, "a2");
    until("the sections are moved", || target.allocator.status().sections == 9).await;
    let begun = describe(&target, Which::Section(5)).unwrap();
    for _ in 0..20 {
        target.next_many(&[(501, 10), (502, 1)]).await;
    }
    let after = describe(&target, Which::Section(5)).unwrap();
    assert_eq!((before.numbers, begun.numbers, after.numbers), (500, 0, 220));
    assert_eq!((before.highest, begun.highest, after.touched), (500, 500, 3));
    assert_eq!((begun.base, begun.skipped_at_begin, begun.raises.len()), (0, 0, 0));
    assert_eq!(refused(describe(&source, Which::Section(5))), Some(Reason::NotOwner));
    // The columns close within five seconds. The columns of the source stay.
    until("the numbers are in the figures", || {
        top(&target).iter().any(|found| found.section == 5 && (1..=220).contains(&found.numbers))
    })
    .await;
    until("the source has no section", || top(&source).is_empty()).await;
    let columns =
        || activity(&source, v1::ListActivityRequest { since_ms: after.clock_ms - 60_000, ..Default::default() });
    until("the column of the source closes", || columns().sections.contains(&5)).await;
    let shown = columns();
    assert_eq!((shown.column_ms, shown.period_ms / 1_000), (5_000, 1));
    let place = shown.sections.iter().position(|section| *section == 5).expect("its column stays");
    let levels: Vec<u8> = shown.columns.iter().map(|column| column.levels[place]).collect();
    assert!(levels.iter().any(|level| (1..=62).contains(level)), "{levels:?}");
}
