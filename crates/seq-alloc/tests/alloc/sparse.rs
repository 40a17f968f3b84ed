//! Sparse uids: the same calls as for declared uids, which the keyspace of uids serves.

use seq_api::service::{Call, Current, SequenceService, Via};
use seq_core::keyspace::{BUCKETS, Bucket};
use seq_core::layout::address;
use seq_core::{Epoch, Refusal, SectionId, Seq, SlotIndex, Target, Uid};
use seq_proto::v1;
use seq_proto::v1::sequence_service_client::SequenceServiceClient;

use crate::store::Mode;
use crate::world::{Node, PATIENCE, SECTIONS, SIZE, World, ask, call, given, quick, until};

/// End of the declared uids.
const END: u64 = SIZE * SECTIONS as u64;

/// Number of buckets that each of two nodes owns.
const HALF: u32 = BUCKETS as u32 / 2;

/// A Snowflake id. Its bucket is 5,033, in the lower half.
const LOW: u64 = 1_234_567_890_123_456_789;

/// Starts two nodes, each with half of the declared uids and half of the buckets of a keyspace of uids.
async fn start() -> (World, Node, Node) {
    let world = World::of("test");
    let buckets = world.store.create_keyspace_of_uids("users");
    let middle = buckets.start + HALF;
    let one = world.start_owning("a1", 0..middle).await;
    let two = world.start_owning_with("a2", middle..buckets.end, quick()).await;
    world.routed(&[&one, &two]).await;
    (world, one, two)
}

/// Returns the index of a uid's bucket.
fn bucket(uid: u64) -> u32 {
    Bucket::of_uid(Uid(uid)).index().into()
}

fn outside<T>(uid: u64) -> Result<T, Refusal> {
    Err(Refusal::UidOutOfRange { uid: Uid(uid), start: 0, end: END })
}

async fn current(node: &Node, uid: u64) -> (u64, bool) {
    let Current { reading, .. } = node.allocator.current(call(), Uid(uid), Epoch(0)).await.unwrap();
    (reading.value.0, reading.exact)
}

async fn advance(node: &Node, uid: u64, to: u64) -> Result<Epoch, Refusal> {
    node.allocator.advance(call(), Uid(uid), Target::new(to).unwrap(), Epoch(0)).await
}

#[tokio::test]
async fn every_sparse_uid_has_its_own_numbers_at_every_node() {
    let (_world, one, two) = start().await;
    let high = (END + 1..).find(|uid| bucket(*uid) >= HALF).unwrap();
    // The address of a lane is a uid as any other one if a caller sends it.
    let lane = address(SectionId(SECTIONS), SlotIndex(0)).0;
    assert!(bucket(LOW) < HALF);
    for uid in [LOW, high, END, lane, u64::MAX] {
        assert_eq!(current(&one, uid).await, (0, true), "uid {uid} never had a number");
        assert_eq!(one.next(uid).await, Ok(given(1, 0, 1)), "uid {uid}");
        assert_eq!(two.next(uid).await, Ok(given(2, 1, 1)), "uid {uid}");
        assert_eq!(current(&two, uid).await, (2, true));
        assert_eq!(advance(&two, uid, 5).await, Ok(Epoch(1)));
        assert_eq!(current(&one, uid).await, (5, true));
        for node in [&one, &two] {
            assert_eq!(advance(node, uid, 4).await, Err(Refusal::AlreadyPast { uid: Uid(uid) }), "it names the uid");
        }
        assert_eq!(one.next(uid).await, Ok(given(6, 0, 1)), "no call took 5");
    }
    assert_eq!(one.next(END - 1).await, Ok(given(1, 0, 1)), "a declared uid has a slot");
}

#[tokio::test]
async fn a_batch_mixes_declared_and_sparse_uids() {
    let (_world, one, two) = start().await;
    let high = (END + 1..).find(|uid| bucket(*uid) >= HALF).unwrap();
    for (round, node) in (0..).zip([&one, &two]) {
        let asks = [(LOW, 1), (7, 2), (high, 3), (LOW, 2), (u64::MAX, 1), (7, 1), (END - 1, 1), (high, 1)];
        let values = [1, 2, 3, 3, 1, 3, 1, 4];
        let last = [3, 3, 4, 3, 1, 3, 1, 4];
        let expected: Vec<_> = values.iter().zip(last).map(|(value, last)| Ok(value + round * last)).collect();
        assert_eq!(node.next_many(&asks).await, expected, "round {round}");
    }
    let uids = [END - 1, high, LOW, u64::MAX, END, 7].map(|uid| (Uid(uid), Epoch(0))).to_vec();
    for node in [&one, &two] {
        let read = node.allocator.current_many(call(), uids.clone()).await;
        let values: Vec<u64> = read.into_iter().map(|read| read.unwrap().reading.value.0).collect();
        assert_eq!(values, [2, 8, 6, 2, 0, 6]);
    }
    let refused = Err(Refusal::CountOutOfRange { count: 0 });
    let items = [Ok(ask(LOW, 1)), refused, Ok(ask(7, 1))];
    let results = two.allocator.next_many(call(), &items).await;
    assert_eq!(results[1].map(|given| given.value.0), refused.map(|_| 0), "an item that the endpoint refused stays");
    assert_eq!((results[0].unwrap().value.0, results[2].unwrap().value.0), (7, 7));
}

/// A uid outside is refused as before if the cluster has no keyspace of uids, even if it has another keyspace.
#[tokio::test]
async fn without_a_keyspace_of_uids_sparse_uids_are_refused() {
    let world = World::of("test");
    world.store.create_keyspace("main", [7; 16]);
    let node = world.start_owning("a1", 0..SECTIONS + u32::from(BUCKETS)).await;
    world.routed(&[&node]).await;
    for uid in [END, LOW, u64::MAX] {
        assert_eq!(node.next(uid).await, outside(uid));
        assert_eq!(node.allocator.current(call(), Uid(uid), Epoch(0)).await, outside(uid));
        assert_eq!(advance(&node, uid, 5).await, outside(uid));
        assert_eq!(node.next_many(&[(uid, 1), (7, 1)]).await[0], outside(uid));
    }
    let read = node.allocator.current_many(call(), vec![(Uid(END), Epoch(0)), (Uid(7), Epoch(0))]).await;
    assert_eq!((read[0], read[1].unwrap().reading.value), (outside(END), Seq(3)));
    world.store.create_keyspace_of_uids("users");
    let section = SECTIONS + u32::from(BUCKETS) + bucket(LOW);
    world.store.assign("a1", [section]);
    until("the keyspace is known", || node.allocator.keyspace("users").is_some()).await;
    assert_eq!(node.next(LOW).await.map(|given| given.value), Ok(Seq(1)), "from then on they are served");
}

/// Between nodes, such a number is the address of a lane, and sparse uids are sent as hashes.
#[tokio::test]
async fn another_node_cannot_send_sparse_uids() {
    let (_world, one, _two) = start().await;
    for via in [Via::Forwarded, Via::Id] {
        let call = Call { hops: 1, via, ..call() };
        assert_eq!(one.allocator.next(call, ask(LOW, 1)).await, outside(LOW));
        let results = one.allocator.next_many(call, &[Ok(ask(LOW, 1)), Ok(ask(7, 1))]).await;
        assert_eq!(results[0], outside(LOW));
        assert!(results[1].is_ok());
    }
    assert_eq!(current(&one, LOW).await, (0, true));
}

#[tokio::test]
async fn a_node_without_routes_refuses_sparse_uids_for_now() {
    let world = World::of("test");
    world.store.create_keyspace_of_uids("users");
    world.store.set_mode(Mode::Down);
    let node = world.start("a1");
    let unserved = Refusal::Unserved { section: SectionId(SECTIONS) };
    assert_eq!(node.next(LOW).await, Err(unserved));
    assert_eq!(node.next_many(&[(LOW, 1)]).await, [Err(unserved)]);
}

#[tokio::test]
async fn after_a_takeover_sparse_uids_continue_above_the_ceiling() {
    let (world, one, two) = start().await;
    assert_eq!(two.next(LOW).await, Ok(given(1, 0, 1)));
    one.group.shutdown(PATIENCE).await.unwrap();
    let section = SECTIONS + bucket(LOW);
    world.store.assign("a2", [section]);
    until("the bucket is taken over", || two.allocator.status().sections == HALF + 1).await;
    let ceiling = world.store.ceiling(section);
    assert!(ceiling >= Seq(1));
    assert_eq!(current(&two, LOW).await, (ceiling.0, false));
    assert_eq!(two.next(LOW).await, Ok(given(ceiling.0 + 1, 0, 2)));
}

/// Checks the path of a real request, which a client sends to the node that does not own the bucket.
#[tokio::test]
async fn a_request_for_sparse_uids_is_the_request_for_any_uid() {
    let (_world, one, two) = start().await;
    let mut client = SequenceServiceClient::connect(format!("http://{}", two.addr)).await.unwrap();
    let next = v1::NextRequest { uid: Some(u64::MAX), ..v1::NextRequest::default() };
    assert_eq!(client.next(next).await.unwrap().into_inner().value, 1);
    let many = v1::NextManyRequest { uids: vec![LOW, 7, u64::MAX], ..v1::NextManyRequest::default() };
    assert_eq!(client.next_many(many).await.unwrap().into_inner().values, [1, 1, 2]);
    let current = v1::CurrentRequest { uid: Some(u64::MAX), ..v1::CurrentRequest::default() };
    let current = client.current(current).await.unwrap().into_inner();
    assert_eq!((current.value, current.exactness()), (2, v1::Exactness::Exact));
    let describe = |uid| {
        one.allocator
            .describe_section(v1::DescribeSectionRequest { which: Some(v1::describe_section_request::Which::Uid(uid)) })
    };
    let described = describe(LOW).unwrap()();
    assert_eq!((described.section, described.touched), (SECTIONS + bucket(LOW), 1));
}
