//! Calls for sections of other sets: any node of any set serves any uid, no call is forwarded in a circle, and a set
//! that does not respond affects only its own calls.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{join, join_all};
use futures::stream::BoxStream;
use parking_lot::Mutex;
use seq_api::service::{Call, SequenceService};
use seq_core::calls::MAX_PENDING_OF_SET;
use seq_core::{Epoch, Refusal, SectionId, SetId, Target, Uid};
use seq_kit::tasks::{Kind, TaskGroup};
use seq_proto::v1::sequence_service_server::{SequenceService as Rpcs, SequenceServiceServer};
use seq_proto::{status, v1};
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::{Request, Response, Status, Streaming};

use crate::world::{Node, PATIENCE, SIZE, World, ask, call, given, until};

/// Sections that a node of the first set owns.
const OWNED: u32 = 4;

/// Limit on the response time of a call for a set that does not respond. A node waits for 250 ms; a quarter of the
/// call's deadline shows that it does not wait for the deadline, on a busy machine too.
const IN_TIME: Duration = PATIENCE.checked_div(4).unwrap();

/// Sets that know each other. The first set has the sections, and its a1 owns some of them.
struct Sets {
    worlds: Vec<World>,
    nodes: Vec<Node>,
}

async fn sets(names: &[&str]) -> Sets {
    let mut worlds = vec![World::of(names[0])];
    worlds.extend(names[1..].iter().map(|name| worlds[0].beside(name)).collect::<Vec<_>>());
    let mut nodes = vec![worlds[0].start_owning("a1", 0..OWNED).await];
    for world in &worlds[1..] {
        nodes.push(world.start("a1"));
        world.registered_after("a1", None).await;
    }
    for (index, world) in worlds.iter().enumerate() {
        worlds.iter().enumerate().filter(|(other, _)| *other != index).for_each(|(_, other)| {
            world.store.learn(&other.store);
        });
    }
    for (world, node) in worlds.iter().zip(&nodes) {
        world.routed(&[node]).await;
    }
    Sets { worlds, nodes }
}

impl Sets {
    /// Migrates sections from one set to another.
    async fn migrate(&self, sections: std::ops::Range<u32>, from: usize, to: usize) {
        let (from, target, node) = (&self.worlds[from].store, &self.worlds[to].store, &self.nodes[to]);
        let count = sections.len() as u32;
        let before = node.allocator.status().sections;
        let migration = from.migrate(sections.clone(), target);
        from.arrive_at(target);
        from.plan_departures(sections, migration, target, "a1");
        until("the sections are moved", || node.allocator.status().sections == before + count).await;
    }
}

#[tokio::test]
async fn any_node_of_any_set_serves_any_uid() {
    let sets = sets(&["one", "two"]).await;
    let [here, there] = &sets.nodes[..] else { unreachable!() };
    assert_eq!(there.allocator.ready(), Ok(()), "a set without sections serves by forwarding");
    assert_eq!(there.next(3).await, Ok(given(1, 0, 1)));
    assert_eq!(here.next(3).await, Ok(given(2, 1, 1)));
    assert_eq!(there.next_many(&[(3, 1), (103, 2), (3, 1), (104, 1)]).await, [Ok(3), Ok(2), Ok(4), Ok(1)]);
    let advanced = there.allocator.advance(call(), Uid(5), Target::new(70).unwrap(), Epoch(0)).await;
    assert_eq!(advanced, Ok(Epoch(1)));
    let read = there.allocator.current(call(), Uid(5), Epoch(0)).await.unwrap();
    assert_eq!((read.reading.value.0, read.epoch.0), (70, 1));
    let read = there.allocator.current_many(call(), [3, 103, 5].map(|uid| (Uid(uid), Epoch(0))).into()).await;
    let values: Vec<_> = read.into_iter().map(|read| read.unwrap().reading.value.0).collect();
    assert_eq!(values, [4, 2, 70]);
    let bad = there.next(SIZE * 1_000).await;
    assert!(matches!(bad, Err(Refusal::UidOutOfRange { .. })), "{bad:?}");
    assert_eq!(there.allocator.status().allocations, 0);
    assert_eq!(there.allocator.status().forwarded, 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_at_both_sets_are_served_exactly_while_sections_depart() {
    let sets = sets(&["one", "two"]).await;
    let done = std::sync::atomic::AtomicBool::new(false);
    let caller = |node: &Node, uid: u64| {
        let (allocator, done) = (node.allocator.clone(), &done);
        async move {
            let mut last = 0;
            while !done.load(std::sync::atomic::Ordering::SeqCst) {
                let taken = allocator.next(call(), ask(uid, 1)).await.unwrap();
                assert_eq!((taken.value.0, taken.prev.0, taken.lost), (last + 1, last, 0), "uid {uid}");
                last += 1;
            }
        }
    };
    let uids = (0..u64::from(OWNED)).flat_map(|section| [(0, section * SIZE), (1, section * SIZE + 50)]);
    let callers = uids.map(|(node, uid)| caller(&sets.nodes[node], uid));
    let operator = async {
        let allocations = |node: usize| sets.nodes[node].allocator.status().allocations;
        until("numbers go", || allocations(0) > 500).await;
        sets.migrate(0..OWNED, 0, 1).await;
        let before = allocations(1);
        until("numbers go on", || allocations(1) > before + 500).await;
        done.store(true, std::sync::atomic::Ordering::SeqCst);
    };
    join(join_all(callers), operator).await;
}

#[tokio::test]
async fn a_section_that_moved_is_followed_by_a_node_that_does_not_know() {
    let sets = sets(&["one", "two", "three"]).await;
    let third = &sets.nodes[2];
    assert_eq!(third.next(3).await, Ok(given(1, 0, 1)));
    sets.migrate(0..2, 0, 1).await;
    // The third set does not adopt the change.
    assert_eq!(third.next(3).await, Ok(given(2, 1, 2)));
    assert_eq!(third.next_many(&[(3, 1), (103, 1), (203, 1)]).await, [Ok(3), Ok(1), Ok(1)]);
    let read = third.allocator.current_many(call(), [103, 203].map(|uid| (Uid(uid), Epoch(0))).into()).await;
    assert_eq!(read.into_iter().map(|read| read.unwrap().reading.value.0).collect::<Vec<_>>(), [1, 1]);
}

/// Set whose only node is a service of the test.
#[derive(Clone)]
struct Scripted(Arc<Script>);

/// Response to a request; `None` if the request gets no response.
type Respond = Box<dyn Fn(&v1::NextRequest) -> Option<Result<v1::NextResponse, Status>> + Send + Sync>;

struct Script {
    /// Response to a separate request; `None` if it gets no response.
    next: Respond,
    /// Whether the node responds to no request.
    silent: watch::Sender<bool>,
    requests: Mutex<Vec<v1::NextRequest>>,
}

impl Scripted {
    fn new(
        next: impl Fn(&v1::NextRequest) -> Option<Result<v1::NextResponse, Status>> + Send + Sync + 'static,
    ) -> Scripted {
        let (silent, requests) = (watch::Sender::new(false), Mutex::default());
        Scripted(Arc::new(Script { next: Box::new(next), silent, requests }))
    }

    async fn answers(&self) {
        self.0.silent.subscribe().wait_for(|silent| !silent).await.unwrap();
    }

    /// Hops and epoch of each request.
    fn requests(&self) -> Vec<(u32, u64)> {
        self.0.requests.lock().iter().map(|request| (request.hops, request.epoch)).collect()
    }
}

#[tonic::async_trait]
impl Rpcs for Scripted {
    type NextStreamStream = BoxStream<'static, Result<v1::NextStreamResponse, Status>>;

    async fn next_stream(
        &self,
        _: Request<Streaming<v1::NextStreamRequest>>,
    ) -> Result<Response<Self::NextStreamStream>, Status> {
        self.answers().await;
        Err(Status::unimplemented("not in these tests"))
    }

    async fn next(&self, request: Request<v1::NextRequest>) -> Result<Response<v1::NextResponse>, Status> {
        self.0.requests.lock().push(*request.get_ref());
        self.answers().await;
        match (self.0.next)(request.get_ref()) {
            Some(response) => response.map(Response::new),
            None => std::future::pending().await,
        }
    }

    async fn next_many(&self, _: Request<v1::NextManyRequest>) -> Result<Response<v1::NextManyResponse>, Status> {
        Err(Status::unimplemented("not in these tests"))
    }

    async fn current(&self, _: Request<v1::CurrentRequest>) -> Result<Response<v1::CurrentResponse>, Status> {
        Err(Status::unimplemented("not in these tests"))
    }

    async fn current_many(
        &self,
        _: Request<v1::CurrentManyRequest>,
    ) -> Result<Response<v1::CurrentManyResponse>, Status> {
        Err(Status::unimplemented("not in these tests"))
    }

    async fn advance(&self, _: Request<v1::AdvanceRequest>) -> Result<Response<v1::AdvanceResponse>, Status> {
        Err(Status::unimplemented("not in these tests"))
    }

    async fn get_routes(&self, _: Request<v1::GetRoutesRequest>) -> Result<Response<v1::GetRoutesResponse>, Status> {
        self.answers().await;
        Ok(Response::new(v1::GetRoutesResponse { routes: None }))
    }
}

const P: SetId = SetId(71);
const Q: SetId = SetId(72);

/// First sections of the scripted sets, since epoch 5.
const OF_P: u32 = 10;
const OF_Q: u32 = 20;

fn uid_of(section: u32) -> u64 {
    u64::from(section) * SIZE + 3
}

/// Starts a set whose a1 owns the first sections, with two scripted sets: sections 10 and 11 are in set P, 20 and 21 in
/// set Q.
async fn beside(p: Option<&Scripted>, q: Option<&Scripted>) -> (World, Node) {
    let world = World::with_homes("test", OWNED);
    for (set, scripted, first) in [(P, p, OF_P), (Q, q, OF_Q)] {
        let addr = match scripted {
            Some(scripted) => world.store.serve_beside(SequenceServiceServer::new(scripted.clone()), &world.group),
            // No server listens there any more.
            None => std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap(),
        };
        world.store.place(first..first + 2, set, Epoch(5), addr);
    }
    let node = world.start_owning("a1", 0..OWNED).await;
    world.routed(&[&node]).await;
    (world, node)
}

fn moved(section: u32, set: SetId, since: u64) -> Status {
    status::to_status(&Refusal::Moved { section: SectionId(section), set, since: Epoch(since) })
}

fn first_number(_: &v1::NextRequest) -> Option<Result<v1::NextResponse, Status>> {
    Some(Ok(v1::NextResponse { value: 1, prev: 0, epoch: 7, ..v1::NextResponse::default() }))
}

#[tokio::test]
async fn a_newer_claim_is_followed_at_once_under_its_epoch() {
    let p = Scripted::new(|_| Some(Err(moved(OF_P, Q, 7))));
    let q = Scripted::new(first_number);
    let (_world, node) = beside(Some(&p), Some(&q)).await;
    assert_eq!(node.next(uid_of(OF_P)).await, Ok(given(1, 0, 7)));
    assert_eq!((p.requests(), q.requests()), (vec![(1, 5)], vec![(1, 7)]));
}

#[tokio::test]
async fn a_call_between_two_sets_with_old_routes_does_not_circle() {
    // Each set refers to the other set, under the epoch that the request carries.
    let p = Scripted::new(|request| Some(Err(moved(OF_P, Q, request.epoch))));
    let q = Scripted::new(|request| Some(Err(moved(OF_P, P, request.epoch))));
    let (_world, node) = beside(Some(&p), Some(&q)).await;
    let patient = Call { deadline: Instant::now() + Duration::from_millis(700), ..call() };
    let refused = node.allocator.next(patient, ask(uid_of(OF_P), 1)).await;
    assert!(matches!(refused, Err(Refusal::Moved { .. } | Refusal::SetTimedOut { .. })), "{refused:?}");
    // One request at once, and retries after 25, 50, 100 ms and so on.
    assert!((2..=6).contains(&p.requests().len()), "{:?}", p.requests());
    assert!(p.requests().iter().all(|request| *request == (1, 5)), "{:?}", p.requests());
    assert_eq!(q.requests(), []);
}

#[tokio::test]
async fn a_call_that_was_forwarded_is_not_sent_to_another_set() {
    let p = Scripted::new(first_number);
    let (_world, node) = beside(Some(&p), None).await;
    for epoch in [0, 5] {
        let forwarded = Call { hops: 1, ..call() };
        let item = seq_api::service::Item { epoch: Epoch(epoch), ..ask(uid_of(OF_P), 1) };
        let refused = node.allocator.next(forwarded, item).await;
        let section = SectionId(OF_P);
        assert_eq!(refused, Err(Refusal::Moved { section, set: P, since: Epoch(5) }));
    }
    // The request names a newer epoch than the routes here, so it waits for newer routes.
    let forwarded = Call { hops: 1, deadline: Instant::now() + Duration::from_millis(60), ..call() };
    let item = seq_api::service::Item { epoch: Epoch(6), ..ask(uid_of(OF_P), 1) };
    let refused = node.allocator.next(forwarded, item).await;
    assert!(matches!(refused, Err(Refusal::StaleEpoch { .. })), "{refused:?}");
    assert_eq!(p.requests(), []);
}

#[tokio::test]
async fn a_set_without_a_node_that_can_be_reached_is_unavailable_in_time() {
    let q = Scripted::new(first_number);
    let (_world, node) = beside(None, Some(&q)).await;
    let unavailable = Err(Refusal::SetUnavailable { section: SectionId(OF_P), set: P });
    for _ in 0..3 {
        let began = Instant::now();
        assert_eq!(node.next(uid_of(OF_P)).await, unavailable);
        assert!(began.elapsed() < IN_TIME, "{:?}", began.elapsed());
    }
    let items = [(uid_of(OF_P), 1), (3, 1), (uid_of(OF_P + 1), 1)];
    let section = SectionId(OF_P + 1);
    let other = Err(Refusal::SetUnavailable { section, set: P });
    assert_eq!(node.next_many(&items).await, [unavailable.map(|_| 0), Ok(1), other]);
    assert_eq!(node.next(uid_of(OF_Q)).await, Ok(given(1, 0, 7)), "the other set is");
}

#[tokio::test]
async fn a_set_that_stops_responding_is_unavailable_until_it_responds_again() {
    let p = Scripted::new(first_number);
    let (_world, node) = beside(Some(&p), None).await;
    assert_eq!(node.next(uid_of(OF_P)).await, Ok(given(1, 0, 7)));
    p.0.silent.send_replace(true);
    let began = Instant::now();
    let (in_flight, own) = join(node.next(uid_of(OF_P)), node.next(3)).await;
    let (section, set) = (SectionId(OF_P), P);
    assert_eq!(in_flight, Err(Refusal::SetTimedOut { section, set }), "it may have been processed");
    assert!(began.elapsed() < IN_TIME, "{:?}", began.elapsed());
    assert_eq!(own, Ok(given(1, 0, 1)));
    let began = Instant::now();
    let again = node.next(uid_of(OF_P)).await;
    assert_eq!(
        again,
        Err(Refusal::SetUnavailable { section, set }),
        "it waits for a moment, since the set was up just now"
    );
    assert!(began.elapsed() < IN_TIME, "{:?}", began.elapsed());
    p.0.silent.send_replace(false);
    let began = Instant::now();
    while node.next(uid_of(OF_P)).await.is_err() {
        assert!(began.elapsed() < Duration::from_secs(10), "the set responds again");
        tokio::task::yield_now().await;
    }
}

/// Duration of a new connection: longer than two rounds of probes and the wait for a set that has just gone down.
const SLOW: Duration = Duration::from_millis(400);

/// Proxy in front of a node, which can be closed, and slow for new connections.
struct Way {
    addr: std::net::SocketAddr,
    open: watch::Sender<bool>,
    /// Number of connections since the proxy was opened last.
    passed: Arc<std::sync::atomic::AtomicUsize>,
}

impl Way {
    async fn to(node: std::net::SocketAddr, group: &TaskGroup) -> Way {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (addr, open) = (listener.local_addr().unwrap(), watch::Sender::new(true));
        let passed = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let (seen, count) = (open.subscribe(), passed.clone());
        let tasks = group.clone();
        group.spawn("way", Kind::Disposable, async move {
            loop {
                let (mut from, _) = listener.accept().await.unwrap();
                let (mut seen, count) = (seen.clone(), count.clone());
                if !*seen.borrow() {
                    continue;
                }
                tasks.spawn("connection of a way", Kind::Disposable, async move {
                    let pass = async {
                        tokio::time::sleep(SLOW).await;
                        count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                        let mut to = tokio::net::TcpStream::connect(node).await.unwrap();
                        let _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
                    };
                    tokio::select! {
                        () = pass => {}
                        _ = seen.wait_for(|open| !open) => {}
                    }
                });
            }
        });
        Way { addr, open, passed }
    }

    fn close(&self) {
        self.open.send_replace(false);
    }

    /// Returns whether there is a connection for calls, which are made while the other node serves, and another for
    /// probes.
    fn is_used(&self) -> bool {
        self.passed.load(std::sync::atomic::Ordering::SeqCst) >= 2
    }

    fn open(&self) {
        self.passed.store(0, std::sync::atomic::Ordering::SeqCst);
        self.open.send_replace(true);
    }
}

/// The nodes of a set restart in turn. As long as a node responds, no call of a node of another set finds the set
/// unavailable, although connections take long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_a_set_restart_in_turn_and_it_stays_available() {
    let world = World::with_homes("test", OWNED);
    let p = Scripted::new(first_number);
    let mut ways = Vec::new();
    for _ in 0..2 {
        let served = world.store.serve_beside(SequenceServiceServer::new(p.clone()), &world.group);
        ways.push(Way::to(served, &world.group).await);
    }
    let addrs: Vec<_> = ways.iter().map(|way| way.addr).collect();
    world.store.place_at(OF_P..OF_P + 2, P, Epoch(5), &addrs);
    let node = world.start_owning("a1", 0..OWNED).await;
    world.routed(&[&node]).await;
    let began = Instant::now();
    while node.next(uid_of(OF_P)).await.is_err() || !ways.iter().all(Way::is_used) {
        assert!(began.elapsed() < Duration::from_secs(10), "both nodes are connected to");
    }
    for restarted in [0, 1] {
        ways[restarted].close();
        let closed = Instant::now();
        // Longer than the detection of a set that is down.
        while closed.elapsed() < SLOW * 2 {
            let response = node.next(uid_of(OF_P)).await;
            // A call that was in flight to the node may have been processed.
            let unknown = matches!(response, Err(Refusal::SetTimedOut { .. }));
            assert!(unknown || response == Ok(given(1, 0, 7)), "node {restarted} is down: {response:?}");
        }
        ways[restarted].open();
        let began = Instant::now();
        while !ways[restarted].is_used() {
            assert_eq!(node.next(uid_of(OF_P)).await, Ok(given(1, 0, 7)), "node {restarted} is back");
            assert!(began.elapsed() < Duration::from_secs(10), "the node that is back is connected to");
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn calls_that_wait_in_another_set_are_bounded_and_leave_room_for_others() {
    let p = Scripted::new(|_| None);
    let q = Scripted::new(first_number);
    let (_world, node) = beside(Some(&p), Some(&q)).await;
    assert_eq!(node.next(uid_of(OF_Q)).await, Ok(given(1, 0, 7)));
    let under_way = node.allocator.status().forwarded;
    let mut waiting = tokio::task::JoinSet::new();
    for calls in 1..=MAX_PENDING_OF_SET {
        let allocator = node.allocator.clone();
        waiting.spawn(async move { allocator.next(call(), ask(uid_of(OF_P), 1)).await });
        // A few at a time, because all sets of this test share a thread that also has to serve the probes in time.
        if calls % 16 == 0 {
            until("the calls are under way", || node.allocator.status().forwarded == under_way + calls as u64).await;
        }
    }
    let (section, set, pending) = (SectionId(OF_P), P, MAX_PENDING_OF_SET);
    let refused = node.next(uid_of(OF_P)).await;
    assert_eq!(refused, Err(Refusal::TooManyPendingOfSet { section, set, pending }));
    assert_eq!(node.next(uid_of(OF_Q)).await, Ok(given(1, 0, 7)));
    assert_eq!(node.next(3).await, Ok(given(1, 0, 1)));
    // The calls wait although the set sends only responses to probes.
    tokio::time::timeout(Duration::from_millis(400), waiting.join_next()).await.unwrap_err();
    waiting.shutdown().await;
}
