//! Requests for sections of another node.

use std::time::Duration;

use seq_alloc::AllocOptions;
use seq_api::service::{Call, Redirects, SequenceService, Via};
use seq_core::{AdvanceLimit, Epoch, NodeId, Refusal, SectionId, Seq, Target, Uid, limits};
use seq_kit::tasks::Kind;
use seq_proto::v1;
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use crate::store::Mode;
use crate::world::{Node, PATIENCE, SECTIONS, SIZE, World, ask, call, given, impatient, quick, slow, until};

/// Starts a world in which a1 owns the first half of the sections, and a2 the second half.
async fn two_nodes() -> (World, Node, Node) {
    two_nodes_with(quick()).await
}

async fn two_nodes_with(options: AllocOptions) -> (World, Node, Node) {
    let world = World::new();
    let one = world.start_owning_with("a1", 0..SECTIONS / 2, options).await;
    let two = world.start_owning_with("a2", SECTIONS / 2..SECTIONS, options).await;
    world.routed(&[&one, &two]).await;
    (world, one, two)
}

/// First uid of a2's sections.
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
    let uids = [THEIRS, outside, 1, THEIRS + 99, 2].map(|uid| (Uid(uid), Epoch(0))).to_vec();
    let read = one.allocator.current_many(call(), uids).await;
    let values: Vec<_> = read.iter().map(|read| read.as_ref().map(|current| current.reading.value.0).ok()).collect();
    assert_eq!(values, [Some(5), None, Some(4), Some(1), Some(0)]);
    assert_eq!(read[1], Err(Refusal::UidOutOfRange { uid: Uid(outside), start: 0, end: outside }));
}

#[tokio::test]
async fn any_node_raises_any_uid_and_nobody_lowers_one() {
    let far = AllocOptions { max_advance: AdvanceLimit(1 << 40), ..quick() };
    let (_world, one, two) = two_nodes_with(far).await;
    let to = |to| Target::new(to).unwrap();
    for uid in [1, THEIRS + 1].map(Uid) {
        let advance = |value| one.allocator.advance(call(), uid, to(value), Epoch(0));
        assert_eq!(advance(0).await, Ok(Epoch(1)), "where it stands");
        // The target is far above the ceiling, so the call waits for several raises of a bounded length.
        assert_eq!(advance(1_000_000_000_000).await, Ok(Epoch(1)));
        assert_eq!(advance(1_000_000_000_000).await, Ok(Epoch(1)), "repeating it changes nothing");
        assert_eq!(advance(999_999_999_999).await, Err(Refusal::AlreadyPast { uid }));
        assert_eq!(two.next(uid.0).await, Ok(given(1_000_000_000_001, 0, 1)), "the target is no prev");
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
    // Long enough that the owner's refusal also arrives on a busy machine.
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
async fn a_call_whose_client_follows_redirects_is_not_forwarded() {
    let (_world, one, two) = two_nodes().await;
    let redirected = || Call { redirects: Redirects::Refuse, ..call() };
    let theirs = Refusal::NotOwner { section: SectionId(SECTIONS / 2), owner: Some(NodeId(2)) };
    assert_eq!(one.allocator.next(redirected(), ask(THEIRS, 1)).await, Err(theirs));
    let asks = [Ok(ask(THEIRS, 1)), Ok(ask(1, 1)), Ok(ask(THEIRS, 1))];
    let results = one.allocator.next_many(redirected(), &asks).await;
    assert_eq!(results, [Err(theirs), Ok(given(1, 0, 1)), Err(theirs)]);
    assert_eq!(one.allocator.current(redirected(), Uid(THEIRS), Epoch(0)).await, Err(theirs));
    let advanced = one.allocator.advance(redirected(), Uid(THEIRS), Target::new(5).unwrap(), Epoch(0)).await;
    assert_eq!((advanced, one.allocator.status().forwarded), (Err(theirs), 0));
    assert_eq!(two.allocator.next(redirected(), ask(THEIRS, 1)).await, Ok(given(1, 0, 1)));
}

#[tokio::test]
async fn a_call_that_is_late_before_it_is_sent_is_no_unreachable_owner() {
    let (_world, one, two) = two_nodes().await;
    let late = || Call { deadline: Instant::now(), ..call() };
    assert_eq!(one.next(1).await, Ok(given(1, 0, 1)));
    let passed = Refusal::DeadlinePassed { section: SectionId(SECTIONS / 2) };
    assert_eq!(one.allocator.next(late(), ask(THEIRS, 1)).await, Err(passed));
    assert_eq!(
        one.allocator.next_many(late(), &[Ok(ask(THEIRS, 1)), Ok(ask(1, 1))]).await,
        [Err(passed), Ok(given(2, 1, 1))]
    );
    assert_eq!(one.allocator.current(late(), Uid(THEIRS), Epoch(0)).await, Err(passed));
    assert_eq!(one.allocator.advance(late(), Uid(THEIRS), Target::new(5).unwrap(), Epoch(0)).await, Err(passed));
    assert_eq!(two.next(THEIRS).await, Ok(given(1, 0, 1)), "nothing was sent");
}

/// Repeats a call while its deadline cuts off a retry, whose outcome is unknown then; at most five times.
async fn until_outcome_is_known<T>(mut call: impl AsyncFnMut() -> Result<T, Refusal>) -> Result<T, Refusal> {
    for _ in 0..4 {
        match call().await {
            Err(Refusal::OwnerTimedOut { .. }) => {}
            result => return result,
        }
    }
    call().await
}

#[tokio::test]
async fn a_dead_owner_costs_only_its_own_items() {
    let (_world, one, two) = two_nodes().await;
    two.group.shutdown(PATIENCE).await.unwrap();
    // Bound but not listening, so that no node of another test gets the port while calls are sent to it.
    let port = tokio::net::TcpSocket::new_v4().unwrap();
    port.set_reuseaddr(true).unwrap();
    port.bind(two.addr).unwrap();
    let (section, owner) = (SectionId(SECTIONS / 2), NodeId(2));
    // Between two retries, at 1,975 and 2,375 ms plus the time of dials.
    let patient = || Call { deadline: Instant::now() + Duration::from_millis(2_200), ..call() };
    let unreachable = Refusal::OwnerUnreachable { section, owner };
    let next = until_outcome_is_known(async || one.allocator.next(patient(), ask(THEIRS, 1)).await).await;
    assert_eq!(next, Err(unreachable));
    let asks = [1, THEIRS, 2].map(|uid| Ok(ask(uid, 1))).to_vec();
    let answers = one.allocator.next_many(patient(), &asks).await;
    let timed_out = Refusal::OwnerTimedOut { section, owner };
    assert!(answers[1] == Err(unreachable) || answers[1] == Err(timed_out), "{answers:?}");
    assert_eq!([answers[0], answers[2]], [Ok(given(1, 0, 1)); 2]);
    let read = until_outcome_is_known(async || one.allocator.current(patient(), Uid(THEIRS), Epoch(0)).await).await;
    assert_eq!(read, Err(unreachable));
}

/// Starts a world in which a1 sends calls for its neighbour's section to a server that reads each call, then sends the
/// given bytes and closes the connection; `None` if it sends nothing and keeps the connection open.
async fn beside_an_odd_owner(frames: Option<&'static [u8]>) -> (World, Node) {
    let world = World::new();
    let one = world.start_owning("a1", 0..1).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    world.store.register_as("a2", listener.local_addr().unwrap());
    world.store.assign("a2", 1..2);
    world.routed(&[&one]).await;
    let token = world.group.token();
    world.group.spawn("odd owner", Kind::Disposable, async move {
        let mut held = Vec::new();
        let serving = async {
            loop {
                let (mut connection, _) = listener.accept().await.unwrap();
                match frames {
                    // A dialled connection without a call ends with the test.
                    Some(frames) => {
                        if until_called(&mut connection).await.is_ok() && connection.write_all(frames).await.is_ok() {
                            let _ = connection.shutdown().await;
                            let _ = connection.read_to_end(&mut Vec::new()).await;
                        }
                    }
                    None => held.push(connection),
                }
            }
        };
        tokio::select! {
            () = serving => {}
            () = token.cancelled() => {}
        }
    });
    (world, one)
}

/// Reads the preface of a connection, and its frames up to the headers of a call.
async fn until_called(connection: &mut tokio::net::TcpStream) -> std::io::Result<()> {
    // Settings without a value.
    connection.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await?;
    connection.read_exact(&mut [0; 24]).await?;
    loop {
        let mut head = [0; 9];
        connection.read_exact(&mut head).await?;
        let [a, b, c, kind, ..] = head;
        connection.read_exact(&mut vec![0; u32::from_be_bytes([0, a, b, c]) as usize]).await?;
        if kind == 1 {
            return Ok(());
        }
    }
}

/// Returns the refusal of a call for the neighbour's section. Repeats a call whose deadline passed during an attempt,
/// as on a busy machine.
async fn refused_in_time(one: &Node) -> Refusal {
    loop {
        match one.impatient(SIZE).await {
            Err(Refusal::OwnerTimedOut { .. }) => {}
            outcome => return outcome.unwrap_err(),
        }
    }
}

#[tokio::test]
async fn a_call_that_an_ending_owner_did_not_process_consumed_nothing() {
    // GOAWAY without an error: no stream was processed.
    let (_world, one) = beside_an_odd_owner(Some(&[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])).await;
    let (section, owner) = (SectionId(1), NodeId(2));
    assert_eq!(refused_in_time(&one).await, Refusal::OwnerUnreachable { section, owner });
}

#[tokio::test]
async fn a_call_whose_connection_broke_is_not_one_that_took_too_long() {
    let (_world, one) = beside_an_odd_owner(Some(&[])).await;
    let (section, owner) = (SectionId(1), NodeId(2));
    assert_eq!(refused_in_time(&one).await, Refusal::OwnerConnectionLost { section, owner });
}

/// Makes a call at a1 for the neighbour's section, which the neighbour receives and does not respond to; then a1 is
/// granted the section.
async fn given_up<T>(world: &World, one: &Node, call: impl Future<Output = T>) -> T {
    let moved = async {
        until("the call is forwarded", || one.allocator.status().forwarded > 0).await;
        world.store.assign("a1", 1..2);
    };
    futures::future::join(call, moved).await.0
}

async fn client(world: &World) -> SequenceServiceClient<tonic::transport::Channel> {
    let addr = world.store.state.lock().nodes().find(|(_, record)| record.name == "a1").unwrap().1.addr.clone();
    SequenceServiceClient::connect(format!("http://{addr}")).await.unwrap()
}

#[tokio::test]
async fn an_attempt_at_an_owner_that_was_replaced_is_counted_in_the_response() {
    let (world, one) = beside_an_odd_owner(None).await;
    let mut backend = client(&world).await;
    let next = v1::NextRequest { uid: Some(SIZE), count: 1, ..v1::NextRequest::default() };
    let answer = given_up(&world, &one, backend.next(next)).await.unwrap().into_inner();
    assert_eq!((answer.value, answer.lost), (1, Some(1)), "the number before may be the silent owner's");
    assert_eq!(backend.next(next).await.unwrap().into_inner().lost, None);
}

#[tokio::test]
async fn an_attempt_of_an_item_at_an_owner_that_was_replaced_is_counted_in_the_response() {
    let (world, one) = beside_an_odd_owner(None).await;
    let mut backend = client(&world).await;
    let many = v1::NextManyRequest { uids: vec![0, SIZE, 1, SIZE], ..v1::NextManyRequest::default() };
    let answer = given_up(&world, &one, backend.next_many(many)).await.unwrap().into_inner();
    assert_eq!(answer.values, [1, 1, 1, 2]);
    assert_eq!(answer.lost, Some(v1::LostAttempts { indexes: vec![1, 3], attempts: vec![1, 1] }));
}

#[tokio::test]
async fn a_refusal_after_such_an_attempt_does_not_say_that_nothing_moved() {
    let (world, one) = beside_an_odd_owner(None).await;
    world.store.set_mode(Mode::HoldRaises);
    let patient = Call { deadline: Instant::now() + Duration::from_secs(1), ..call() };
    let refused = given_up(&world, &one, one.allocator.next(patient, ask(SIZE, 1))).await;
    assert_eq!(refused, Err(Refusal::OwnerTimedOut { section: SectionId(1), owner: NodeId(2) }));
}

#[tokio::test]
async fn a_call_that_was_forwarded_too_often_goes_back_at_once() {
    let (_world, one, _two) = two_nodes().await;
    let astray = Call { hops: limits::MAX_HOPS, ..call() };
    let began = Instant::now();
    let refused = one.allocator.next(astray, ask(THEIRS, 1)).await;
    assert!(matches!(refused, Err(Refusal::NotOwner { .. })), "{refused:?}");
    assert!(began.elapsed() < Duration::from_secs(5), "it was held for {:?}", began.elapsed());
}

/// The old owner forwards a call before the new owner is granted the section. The call makes the new owner renew, and
/// completes with the grant.
#[tokio::test]
async fn a_call_that_comes_before_the_grant_is_answered_with_it() {
    // Each section has an owner, so that a node without sections does not request sections all the time.
    let world = World::sized("test", 1);
    let old = world.start_owning("a1", 0..1).await;
    let new = world.start_with("a2", slow());
    world.registered_after("a2", None).await;
    world.routed(&[&old, &new]).await;
    old.next(3).await.unwrap();
    for attempt in 1..5 {
        // Only the call makes the new owner renew.
        let (from, to) = if attempt % 2 == 1 { (&old, "a2") } else { (&old, "a1") };
        world.store.commit(0, to, attempt);
        world.routed(&[from]).await;
        // The deadline of the call is before the next renewal without a cause.
        from.next(3).await.unwrap_or_else(|refusal| panic!("attempt {attempt}: {refusal:?}"));
    }
}
