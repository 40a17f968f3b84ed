//! Forwarded allocations that share the stream to their owner, whose responses the test decides.

use std::collections::VecDeque;
use std::task::Poll;
use std::time::Duration;

use futures::channel::{mpsc, oneshot};
use futures::future::{join, join_all};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use seq_api::service::{Call, SequenceService};
use seq_core::{NodeId, Refusal, SectionId, limits};
use seq_kit::tasks::Kind;
use seq_proto::v1::next_stream_response::Outcome;
use seq_proto::v1::sequence_service_server::{SequenceService as Service, SequenceServiceServer};
use seq_proto::{Reason, v1};
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

use crate::world::{Node, PATIENCE, SIZE, World, ask, call, given, until};

type Responses = mpsc::UnboundedSender<Result<v1::NextStreamResponse, Status>>;

/// Request that arrived at the owner.
enum Arrival {
    /// Message of a stream, with the sender of the stream's responses; the stream ends with OK when it is closed.
    Message(v1::NextStreamRequest, Responses),
    /// Separate request, with the sender of its response.
    Unary(v1::NextManyRequest, oneshot::Sender<v1::NextManyResponse>),
}

/// Service of the owner, which passes every request to the test.
struct Scripted {
    arrivals: mpsc::UnboundedSender<Arrival>,
    streams: bool,
}

impl Scripted {
    async fn unary(&self, request: v1::NextManyRequest) -> Result<v1::NextManyResponse, Status> {
        let (respond, response) = oneshot::channel();
        self.arrivals.unbounded_send(Arrival::Unary(request, respond)).map_err(|_| Status::unavailable("over"))?;
        response.await.map_err(|_| Status::unavailable("over"))
    }
}

#[tonic::async_trait]
impl Service for Scripted {
    type NextStreamStream = BoxStream<'static, Result<v1::NextStreamResponse, Status>>;

    async fn next_stream(
        &self,
        request: Request<Streaming<v1::NextStreamRequest>>,
    ) -> Result<Response<Self::NextStreamStream>, Status> {
        if !self.streams {
            return Err(Status::unimplemented("no streams"));
        }
        let (responses, mut stream) = mpsc::unbounded();
        let (arrivals, mut messages) = (self.arrivals.clone(), request.into_inner());
        let stream = stream::poll_fn(move |context| {
            while let Poll::Ready(Some(Ok(message))) = messages.poll_next_unpin(context) {
                // The test is over when its receiver is dropped.
                let _ = arrivals.unbounded_send(Arrival::Message(message, responses.clone()));
            }
            stream.poll_next_unpin(context)
        });
        Ok(Response::new(stream.boxed()))
    }

    async fn next(&self, request: Request<v1::NextRequest>) -> Result<Response<v1::NextResponse>, Status> {
        let v1::NextRequest { uid, count, hops, epoch, .. } = request.into_inner();
        let many = v1::NextManyRequest {
            uids: vec![uid.expect("a uid")],
            counts: vec![count],
            known_epochs: vec![epoch],
            hops,
            ..Default::default()
        };
        let v1::NextManyResponse { values, prevs, epochs, .. } = self.unary(many).await?;
        let response = v1::NextResponse { value: values[0], prev: prevs[0], epoch: epochs[0], ..Default::default() };
        Ok(Response::new(response))
    }

    async fn next_many(&self, request: Request<v1::NextManyRequest>) -> Result<Response<v1::NextManyResponse>, Status> {
        self.unary(request.into_inner()).await.map(Response::new)
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
        Ok(Response::new(v1::GetRoutesResponse { routes: None }))
    }
}

/// Owner, as the test controls it.
struct Owner {
    arrivals: mpsc::UnboundedReceiver<Arrival>,
}

impl Owner {
    async fn arrival(&mut self) -> Arrival {
        tokio::time::timeout(PATIENCE, self.arrivals.next()).await.expect("something arrives").unwrap()
    }

    /// Waits for the next message.
    async fn message(&mut self) -> (v1::NextStreamRequest, Responses) {
        match self.arrival().await {
            Arrival::Message(message, responses) => (message, responses),
            Arrival::Unary(request, _) => panic!("{request:?}"),
        }
    }

    /// Waits for the next separate request.
    async fn unary(&mut self) -> (v1::NextManyRequest, oneshot::Sender<v1::NextManyResponse>) {
        match self.arrival().await {
            Arrival::Unary(request, respond) => (request, respond),
            Arrival::Message(message, _) => panic!("{message:?}"),
        }
    }
}

/// Returns a response with numbers for items, 0 for an item that would wait.
fn response(values: &[u64]) -> v1::NextManyResponse {
    let waits = (0..).zip(values).filter(|(_, value)| **value == 0);
    let error = |(index, _)| v1::ItemError { index, reason: Reason::WouldWait.name().to_owned(), ..Default::default() };
    v1::NextManyResponse {
        values: values.to_vec(),
        prevs: values.iter().map(|value| value.saturating_sub(1)).collect(),
        epochs: values.iter().map(|value| u64::from(*value > 0)).collect(),
        errors: waits.map(error).collect(),
        ..Default::default()
    }
}

fn respond(to: &(v1::NextStreamRequest, Responses), values: &[u64]) {
    let outcome = Some(Outcome::Response(response(values)));
    to.1.unbounded_send(Ok(v1::NextStreamResponse { tag: to.0.tag, outcome })).unwrap();
}

fn uids(message: &v1::NextStreamRequest) -> Vec<u64> {
    message.request.as_ref().unwrap().uids.clone()
}

/// Starts a world in which a1 owns section 0, and the scripted owner the two sections after it.
async fn beside_a_scripted_owner(streams: bool) -> (World, Node, Owner) {
    let world = World::new();
    let one = world.start_owning("a1", 0..1).await;
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    world.store.register_as("a2", incoming.local_addr().unwrap());
    world.store.assign("a2", 1..3);
    world.routed(&[&one]).await;
    let (send, arrivals) = mpsc::unbounded();
    let service = SequenceServiceServer::new(Scripted { arrivals: send, streams });
    let server = tonic::transport::Server::builder().add_service(service);
    let token = world.group.token();
    world.group.spawn("scripted owner", Kind::Disposable, async move {
        tokio::select! {
            served = server.serve_with_incoming(incoming) => served.unwrap(),
            () = token.cancelled() => {}
        }
    });
    (world, one, Owner { arrivals })
}

/// Section of the scripted owner.
const SECTION: SectionId = SectionId(1);

#[tokio::test]
async fn what_is_forwarded_in_one_turn_shares_a_message_in_the_order_of_the_calls() {
    let (_world, one, mut owner) = beside_a_scripted_owner(true).await;
    let calls = join_all((0..100).map(|call| one.next(SIZE + call)));
    let serving = async {
        let message = owner.message().await;
        let request = message.0.request.clone().unwrap();
        assert_eq!(request.uids, (SIZE..SIZE + 100).collect::<Vec<_>>());
        assert_eq!((request.hops, request.route_version, message.0.now_only), (1, None, true));
        assert!((1..=PATIENCE.as_millis() as u32).contains(&message.0.timeout_ms), "{}", message.0.timeout_ms);
        respond(&message, &(1..=100).collect::<Vec<_>>());
    };
    let (results, ()) = join(calls, serving).await;
    for (value, result) in (1..).zip(results) {
        assert_eq!(result, Ok(given(value, value - 1, 1)));
    }
    assert_eq!(one.allocator.status().forwarded, 100);
}

#[tokio::test]
async fn an_item_that_would_wait_at_the_owner_waits_there_in_a_request_of_its_own() {
    let (_world, one, mut owner) = beside_a_scripted_owner(true).await;
    let batch = [(SIZE, 1), (2 * SIZE, 1), (SIZE + 1, 1), (2 * SIZE + 1, 3), (1, 1)];
    let serving = async {
        let message = owner.message().await;
        assert_eq!(uids(&message.0), [SIZE, 2 * SIZE, SIZE + 1, 2 * SIZE + 1]);
        respond(&message, &[5, 0, 6, 0]);
        let (request, respond) = owner.unary().await;
        assert_eq!((request.uids, request.counts, request.hops), (vec![2 * SIZE, 2 * SIZE + 1], vec![1, 3], 1));
        respond.send(response(&[7, 8])).unwrap();
    };
    let (results, ()) = join(one.next_many(&batch), serving).await;
    assert_eq!(results, [Ok(5), Ok(7), Ok(6), Ok(8), Ok(1)]);
    assert_eq!(one.allocator.status().forwarded, 4, "an item that was forwarded twice in one attempt counts once");
}

#[tokio::test]
async fn an_item_of_unknown_outcome_is_not_sent_again_with_those_that_would_wait() {
    let (_world, one, mut owner) = beside_a_scripted_owner(true).await;
    let asks = [SIZE, SIZE + 1].map(|uid| Ok(ask(uid, 1)));
    let serving = async {
        let (message, responses) = owner.message().await;
        let mut response_of_both = response(&[0, 0]);
        // A reason of a later version, so numbers may have been consumed.
        response_of_both.errors[0].reason = "A_LATER_REASON".to_owned();
        let outcome = Some(Outcome::Response(response_of_both));
        responses.unbounded_send(Ok(v1::NextStreamResponse { tag: message.tag, outcome })).unwrap();
        let (request, respond) = owner.unary().await;
        assert_eq!(request.uids, [SIZE + 1]);
        respond.send(response(&[8])).unwrap();
    };
    let (results, ()) = join(one.allocator.next_many(call(), &asks), serving).await;
    assert_eq!(results, [Err(Refusal::OwnerTimedOut { section: SECTION, owner: NodeId(2) }), Ok(given(8, 7, 1))]);
}

#[tokio::test]
async fn numbers_that_an_owner_gave_are_kept_when_the_rest_is_abandoned() {
    let (world, one, mut owner) = beside_a_scripted_owner(true).await;
    let asks = [SIZE, 2 * SIZE].map(|uid| Ok(ask(uid, 1)));
    let serving = async {
        let message = owner.message().await;
        respond(&message, &[7, 0]);
        let (request, unanswered) = owner.unary().await;
        assert_eq!(request.uids, [2 * SIZE]);
        world.store.assign("a1", 1..3);
        until("a1 owns it", || one.allocator.status().sections == 3).await;
        unanswered
    };
    let (results, _unanswered) = join(one.allocator.next_many(call(), &asks), serving).await;
    let [first, second] = [&results[0], &results[1]].map(|result| result.unwrap());
    assert_eq!(first, given(7, 6, 1), "nothing of it was lost");
    assert_eq!((second.lost, second.epoch.0), (1, 2), "the silent owner may have given a number");
}

#[tokio::test]
async fn a_section_that_got_its_numbers_and_moves_does_not_abandon_the_request_of_the_others() {
    let (world, one, mut owner) = beside_a_scripted_owner(true).await;
    let asks = [SIZE, 2 * SIZE].map(|uid| Ok(ask(uid, 1)));
    let serving = async {
        let message = owner.message().await;
        respond(&message, &[7, 0]);
        let (_, mut pending) = owner.unary().await;
        world.store.assign("a1", 1..2);
        until("a1 owns it", || one.allocator.status().sections == 2).await;
        let longer_than_a_replaced_owner_may_take = Duration::from_millis(400);
        let abandoned = tokio::time::timeout(longer_than_a_replaced_owner_may_take, pending.cancellation()).await;
        assert!(abandoned.is_err(), "the owner of the other section is the same");
        pending.send(response(&[8])).unwrap();
    };
    let (results, ()) = join(one.allocator.next_many(call(), &asks), serving).await;
    assert_eq!(results, [Ok(given(7, 6, 1)), Ok(given(8, 7, 1))]);
}

#[tokio::test]
async fn a_stream_that_breaks_leaves_the_outcome_of_its_calls_unknown_and_is_opened_again() {
    let (_world, one, mut owner) = beside_a_scripted_owner(true).await;
    for _ in 0..3 {
        let serving = async {
            let (_, responses) = owner.message().await;
            responses.unbounded_send(Err(Status::internal("broken"))).unwrap();
        };
        let (result, ()) = join(one.next(SIZE), serving).await;
        assert_eq!(result, Err(Refusal::OwnerConnectionLost { section: SECTION, owner: NodeId(2) }));
        let serving = async {
            let message = owner.message().await;
            respond(&message, &[9]);
        };
        assert_eq!(join(one.next(SIZE), serving).await.0, Ok(given(9, 8, 1)));
    }
}

#[tokio::test]
async fn a_message_without_a_response_when_its_stream_ended_with_ok_was_not_processed() {
    let (_world, one, mut owner) = beside_a_scripted_owner(true).await;
    let serving = async {
        owner.message().await.1.close_channel();
        let message = owner.message().await;
        assert_eq!(uids(&message.0), [SIZE], "sent again");
        respond(&message, &[3]);
    };
    let (result, ()) = join(one.next(SIZE), serving).await;
    assert_eq!(result, Ok(given(3, 2, 1)), "without a lost attempt");
}

#[tokio::test]
async fn an_owner_without_streams_gets_requests() {
    let (_world, one, mut owner) = beside_a_scripted_owner(false).await;
    let serving = async {
        let (request, respond) = owner.unary().await;
        assert_eq!((request.uids, request.hops), (vec![SIZE], 1));
        respond.send(response(&[3])).unwrap();
    };
    assert_eq!(join(one.next(SIZE), serving).await.0, Ok(given(3, 2, 1)));
}

#[tokio::test]
async fn a_full_queue_refuses_what_does_not_fit_and_a_dropped_call_makes_room() {
    /// Limit on items from one thread to one node.
    const ITEMS: usize = 262_144;
    let (_world, one, mut owner) = beside_a_scripted_owner(true).await;
    let asks: Vec<_> = (0..limits::MAX_ITEMS as u64).map(|item| Ok(ask(SIZE + item % SIZE, 1))).collect();
    let batch = || one.allocator.next_many(call(), &asks);
    let mut held: VecDeque<_> = (0..ITEMS / asks.len()).map(|_| Box::pin(batch())).collect();
    for pending in &mut held {
        assert!(pending.now_or_never().is_none());
    }
    let refused = Refusal::TooManyPending { section: SECTION, pending: ITEMS };
    for result in batch().await {
        assert_eq!(result, Err(refused), "at once");
    }
    // The bound is exact: a smaller call fits into the rest.
    let patient = || Call { deadline: call().deadline + Duration::from_secs(1), ..call() };
    let mut small = Box::pin(one.allocator.next(patient(), ask(SIZE, 1)));
    assert!((&mut small).now_or_never().is_none());
    held.pop_back();
    let mut again = Box::pin(batch());
    assert!((&mut again).now_or_never().is_none(), "there is room for it");
    drop((held, again));
    let serving = async {
        loop {
            let message = owner.message().await;
            if uids(&message.0) == [SIZE] {
                return respond(&message, &[4]);
            }
        }
    };
    assert_eq!(join(small, serving).await.0, Ok(given(4, 3, 1)));
}
