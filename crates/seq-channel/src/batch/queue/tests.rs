use std::sync::Arc;
use std::task::Wake;

use proptest::prelude::*;

use super::*;
use crate::batch::kind::{Keys, Uids};

const BOUNDS: Bounds = Bounds { items: 8, message: 4, in_flight: 2 };

struct NoopWaker;

impl Wake for NoopWaker {
    fn wake(self: Arc<Self>) {}
}

/// A queue, the instant of its creation, and the waker of its sender.
struct Bench {
    queue: CallQueue<Uids>,
    began: Instant,
    waker: Waker,
}

type Caller = oneshot::Receiver<Outcome>;

fn item(uid: u64) -> Item {
    Item { counter: uid, count: 1, epoch: uid + 1 }
}

impl Bench {
    fn new() -> Bench {
        Bench {
            queue: CallQueue::new(Arc::new(Uids), BOUNDS),
            began: Instant::now(),
            waker: Waker::from(Arc::new(NoopWaker)),
        }
    }

    fn at(&self, ms: u64) -> Instant {
        self.began + Duration::from_millis(ms)
    }

    /// Enqueues a call with a deadline in `ms` milliseconds.
    fn enqueue(&mut self, uid: u64, ms: u64) -> (Caller, Enqueued) {
        self.enqueue_items(CallItems::One(item(uid)), 0, Some(7), ms)
    }

    /// Enqueues a forwarded call of several items.
    fn forward(&mut self, items: impl IntoIterator<Item = Item>, hops: u32) -> Caller {
        self.enqueue_items(CallItems::Many(items.into_iter().collect()), hops, None, 100).0
    }

    fn enqueue_items(&mut self, items: CallItems, hops: u32, routes: Option<u64>, ms: u64) -> (Caller, Enqueued) {
        let (reply, outcome) = oneshot::channel();
        let call = Call { items, hops, route_version: routes, deadline: self.at(ms) };
        (outcome, self.queue.enqueue(call, reply))
    }

    fn message(&mut self) -> Option<v1::NextStreamRequest> {
        match self.queue.next_message(self.queue.generation, &self.waker, || self.began) {
            NextMessage::Ready(message) => Some(message),
            NextMessage::Pending => None,
            NextMessage::Closed => panic!("the stream is open"),
        }
    }

    /// Returns the tag and the uids of the next message.
    fn next_message(&mut self) -> Option<(u64, Vec<u64>)> {
        self.message().map(|message| (message.tag, message.request.unwrap().uids))
    }

    /// Completes a message with these uids; the number of each uid equals the uid.
    fn respond(&mut self, tag: u64, uids: &[u64]) {
        let (calls, _) = self.queue.take_message(tag).expect("a message in flight");
        let zeros = vec![0; uids.len()];
        let response =
            v1::NextManyResponse { values: uids.to_vec(), prevs: zeros.clone(), epochs: zeros, ..Default::default() };
        complete(calls, Some(MessageOutcome::Response(response)));
    }
}

fn failed() -> Status {
    Status::unavailable("no")
}

fn values(response: &Response) -> Vec<u64> {
    response.results().map(|result| result.unwrap().value).collect()
}

/// Returns a short form of a call's outcome.
fn outcome_of(outcome: &mut Caller) -> &'static str {
    match outcome.try_recv().expect("a queue does not lose its calls") {
        None => "-",
        Some(Outcome::Response(_)) => "response",
        Some(Outcome::Refused(_)) => "refused",
        Some(Outcome::Failed { sent: true, .. }) => "failed",
        Some(Outcome::Failed { sent: false, .. }) => "failed unsent",
        Some(Outcome::TimedOut { sent: true }) => "timed out",
        Some(Outcome::TimedOut { sent: false }) => "timed out unsent",
        Some(Outcome::Invalid(_)) => "invalid",
        Some(Outcome::Unsupported) => "unsupported",
    }
}

#[test]
fn the_first_call_opens_the_stream_and_pending_calls_are_one_message() {
    let mut it = Bench::new();
    let (_a, enqueued) = it.enqueue(1, 100);
    assert!(enqueued.open.is_some() && enqueued.timer_moved && enqueued.wake.is_none());
    let (_b, enqueued) = it.enqueue(2, 200);
    assert!(enqueued.open.is_none() && !enqueued.timer_moved);
    assert_eq!(it.next_message(), Some((0, vec![1, 2])));
    assert_eq!(it.next_message(), None);
    let (_c, enqueued) = it.enqueue(3, 50);
    assert!(
        enqueued.wake.is_some() && enqueued.timer_moved,
        "the sender waits to be woken, and the timer is set to 100 ms"
    );
    let message = it.message().unwrap();
    let request = message.request.unwrap();
    assert_eq!((message.tag, message.timeout_ms, message.now_only), (1, 50, true));
    assert_eq!(
        (request.uids, request.counts, request.known_epochs, request.route_version, request.hops),
        (vec![3], vec![], vec![4], Some(7), 0)
    );
}

#[test]
fn a_message_carries_what_its_calls_state() {
    let mut it = Bench::new();
    let unknown = |uid| Item { counter: uid, count: 1, epoch: 0 };
    let _callers = [it.forward([unknown(1), unknown(2)], 1), it.forward([unknown(3)], 1)];
    let request = it.message().unwrap().request.unwrap();
    assert_eq!((request.hops, request.route_version), (1, None), "a node that forwards keeps no routes of a caller");
    assert!(request.counts.is_empty() && request.known_epochs.is_empty(), "nothing that the defaults mean already");
    let _callers = [it.forward([item(1), Item { count: 9, ..item(2) }], 2), it.forward([item(3)], 1)];
    let request = it.message().unwrap().request.unwrap();
    assert_eq!((request.uids, request.counts), (vec![1, 2, 3], vec![1, 9, 1]));
    assert_eq!((request.known_epochs, request.hops), (vec![2, 3, 4], 2));
}

#[test]
fn messages_and_their_items_are_bounded_and_a_response_admits_the_next() {
    let mut it = Bench::new();
    let mut outcomes: Vec<_> = (0..10).map(|uid| it.enqueue(uid, 100).0).collect();
    assert_eq!(it.next_message(), Some((0, vec![0, 1, 2, 3])));
    assert_eq!(it.next_message(), Some((1, vec![4, 5, 6, 7])));
    assert_eq!(it.next_message(), None, "two messages are in flight");
    let (calls, wake) = it.queue.take_message(1).unwrap();
    assert!(wake.is_some(), "the pending calls can be sent");
    complete(calls, None);
    assert_eq!(outcomes.iter_mut().map(outcome_of).filter(|outcome| *outcome == "invalid").count(), 4);
    assert_eq!(it.next_message(), Some((2, vec![8, 9])));
    assert!(it.queue.take_message(1).is_none(), "a message gets one response");
}

#[test]
fn the_items_of_a_call_stay_together_and_get_their_own_results() {
    let mut it = Bench::new();
    let mut callers = [
        it.forward((0..3).map(item), 1),
        it.forward((3..5).map(item), 1),
        it.forward((5..11).map(item), 1),
        it.forward((11..12).map(item), 1),
    ];
    assert_eq!(it.next_message(), Some((0, vec![0, 1, 2])), "the next call does not fit");
    assert_eq!(it.next_message(), Some((1, vec![3, 4])));
    it.respond(0, &[0, 1, 2]);
    assert_eq!(it.next_message(), Some((2, (5..11).collect())), "a large call is a message of its own");
    it.respond(1, &[3, 4]);
    it.respond(2, &(5..11).collect::<Vec<_>>());
    assert_eq!(it.next_message(), Some((3, vec![11])));
    let _last = it.forward([item(12)], 1);
    it.respond(3, &[11]);
    for (caller, uids) in callers.iter_mut().zip([0..3, 3..5, 5..11, 11..12]) {
        let Ok(Some(Outcome::Response(response))) = caller.try_recv() else { panic!("{uids:?}") };
        assert_eq!(values(&response), uids.collect::<Vec<_>>());
    }
}

#[test]
fn a_dropped_call_is_not_sent_and_takes_no_space() {
    let mut it = Bench::new();
    let (kept, _) = it.enqueue(1, 100);
    for uid in 0..1_000 {
        drop(it.forward([item(uid), item(uid)], 1));
        assert!(it.queue.pending_items <= 2 * BOUNDS.items + 1);
    }
    let (_other, _) = it.enqueue(2, 100);
    assert_eq!(it.next_message(), Some((0, vec![1, 2])));
    assert_eq!(it.queue.pending_items, 0);
    drop(kept);
    it.respond(0, &[1, 2]);
    assert_eq!(it.next_message(), None);
}

#[test]
fn expired_calls_complete_and_the_others_get_their_own_items() {
    let mut it = Bench::new();
    let (mut early, _) = it.enqueue(1, 10);
    let (mut patient, _) = it.enqueue(2, 100);
    it.next_message();
    let (mut pending, _) = it.enqueue(3, 20);
    assert_eq!(it.queue.timer(), Some(it.at(10)));
    for (reply, sent) in it.queue.expire(it.at(25)) {
        _ = reply.send(Outcome::TimedOut { sent });
    }
    assert_eq!((outcome_of(&mut early), outcome_of(&mut pending)), ("timed out", "timed out unsent"));
    assert_eq!((it.queue.timer(), it.queue.pending_items), (Some(it.at(100)), 0));
    it.respond(0, &[1, 2]);
    assert!(matches!(patient.try_recv(), Ok(Some(Outcome::Response(response))) if values(&response) == [2]));
    assert!(it.queue.expire(it.at(200)).is_empty());
    assert_eq!((it.queue.timer(), it.next_message()), (None, None));
}

#[test]
fn the_end_of_a_stream_decides_the_outcome_of_its_calls() {
    let until = Instant::now();
    let ends: [(StreamEnd, bool, [&str; 2]); 8] = [
        (StreamEnd::Broke(failed()), true, ["failed", "-"]),
        (StreamEnd::Broke(failed()), false, ["failed", "failed unsent"]),
        (StreamEnd::Closed(failed()), true, ["failed unsent", "failed unsent"]),
        (StreamEnd::Closed(failed()), false, ["failed unsent", "failed unsent"]),
        (StreamEnd::NeverSent(failed()), false, ["failed unsent", "failed unsent"]),
        (StreamEnd::NeverSent(failed()), true, ["failed unsent", "failed unsent"]),
        (StreamEnd::Unsupported { until }, false, ["unsupported", "unsupported"]),
        (StreamEnd::RuntimeGone(failed()), true, ["failed", "failed unsent"]),
    ];
    for (end, answered, expected) in ends {
        let mut it = Bench::new();
        let (_first, enqueued) = it.enqueue(0, 100);
        let generation = enqueued.open.unwrap();
        it.next_message();
        if answered {
            it.respond(0, &[0]);
        }
        let (mut sent, _) = it.enqueue(1, 100);
        it.next_message();
        let (mut pending, _) = it.enqueue(2, 100);
        let ended = it.queue.end(generation, &end);
        assert_eq!(ended.open.is_some(), expected[1] == "-", "{end:?}");
        for (call, sent) in ended.failed {
            call.complete(match &end {
                StreamEnd::Unsupported { .. } => Outcome::Unsupported,
                _ => Outcome::Failed { status: failed(), sent },
            });
        }
        assert_eq!([outcome_of(&mut sent), outcome_of(&mut pending)], expected, "{end:?} {answered}");
        let next = it.queue.next_message(generation, &it.waker, || it.began);
        assert!(matches!(next, NextMessage::Closed), "an ended stream sends nothing");
        assert!(it.queue.end(generation, &StreamEnd::RuntimeGone(failed())).failed.is_empty(), "and ends once");
    }
}

#[test]
fn refusals_reach_their_calls_and_routes_the_first_caller_that_takes_them() {
    let mut it = Bench::new();
    let (gone, _) = it.enqueue(1, 100);
    let (mut refused, _) = it.enqueue(2, 100);
    let (mut allocated, _) = it.enqueue(3, 100);
    it.next_message();
    drop(gone);
    let error = |index| v1::ItemError { index, ..Default::default() };
    let answer = v1::NextManyResponse {
        values: vec![1, 0, 3],
        prevs: vec![0; 3],
        epochs: vec![1, 0, 1],
        errors: vec![error(0), error(1)],
        routes: Some(v1::Routes { version: 9, ..Default::default() }),
        lost: Some(v1::LostAttempts { indexes: vec![2], attempts: vec![4] }),
    };
    let (calls, _) = it.queue.take_message(0).unwrap();
    complete(calls, Some(MessageOutcome::Response(answer.clone())));
    let Ok(Some(Outcome::Response(response))) = refused.try_recv() else { panic!() };
    assert_eq!(response.results().collect::<Vec<_>>(), [Err(&error(1))]);
    assert_eq!(response.take_routes().map(|routes| routes.version), Some(9));
    let Ok(Some(Outcome::Response(response))) = allocated.try_recv() else { panic!() };
    let numbers = super::super::Allocated { value: 3, prev: 0, epoch: 1, lost: 4 };
    assert_eq!((response.results().collect::<Vec<_>>(), response.take_routes()), (vec![Ok(numbers)], None));
    // A response that does not match the message fails all its calls.
    let lost = |indexes, attempts| Some(v1::LostAttempts { indexes, attempts });
    for bad in [
        v1::NextManyResponse { values: vec![1, 2], ..answer.clone() },
        v1::NextManyResponse { errors: vec![error(3)], ..answer.clone() },
        v1::NextManyResponse { errors: vec![error(1), error(0)], ..answer.clone() },
        v1::NextManyResponse { lost: lost(vec![1], vec![]), ..answer.clone() },
        v1::NextManyResponse { lost: lost(vec![2, 1], vec![1, 1]), ..answer },
    ] {
        let mut outcomes: Vec<_> = (0..3).map(|uid| it.enqueue(uid, 100).0).collect();
        let (tag, _) = it.next_message().unwrap();
        let (calls, _) = it.queue.take_message(tag).unwrap();
        complete(calls, Some(MessageOutcome::Response(bad)));
        assert_eq!(outcomes.iter_mut().map(outcome_of).collect::<Vec<_>>(), ["invalid"; 3]);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Enqueue { items: u64, ms: u64 },
    Drop(usize),
    NextMessage,
    Respond(usize),
    Expire { ms: u64 },
    End(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (1u64..7, 1u64..100).prop_map(|(items, ms)| Step::Enqueue { items, ms }),
        1 => (0usize..50).prop_map(Step::Drop),
        4 => Just(Step::NextMessage),
        3 => (0usize..3).prop_map(Step::Respond),
        1 => (1u64..100).prop_map(|ms| Step::Expire { ms }),
        1 => (0u8..5).prop_map(Step::End),
    ];
    prop::collection::vec(step, 1..120)
}

/// Returns uids that no other call has.
fn uids(call: usize, items: u64) -> Vec<u64> {
    (0..items).map(|item| call as u64 * 10 + item).collect()
}

proptest! {
    #[test]
    fn every_call_is_sent_whole_at_most_once_in_order_and_completes_once(steps in steps()) {
        let mut it = Bench::new();
        let mut callers: Vec<(Option<Caller>, Vec<u64>)> = Vec::new();
        let mut sent: Vec<u64> = Vec::new();
        let mut messages: Vec<(u64, Vec<u64>)> = Vec::new();
        let mut generation = None;
        let mut now_ms = 0;
        for step in steps {
            match step {
                Step::Enqueue { items, ms } => {
                    let uids = uids(callers.len(), items);
                    let many = CallItems::Many(uids.iter().map(|uid| item(*uid)).collect());
                    let (caller, enqueued) = it.enqueue_items(many, 1, None, now_ms + ms);
                    callers.push((Some(caller), uids));
                    generation = enqueued.open.or(generation);
                }
                Step::Drop(index) => {
                    if let Some((caller, _)) = callers.get_mut(index) {
                        *caller = None;
                    }
                }
                Step::NextMessage => {
                    if it.queue.open && let Some((tag, uids)) = it.next_message() {
                        let calls: Vec<_> = uids.chunk_by(|one, next| one / 10 == next / 10).collect();
                        prop_assert!(uids.len() <= BOUNDS.message || calls.len() == 1, "{:?}", uids);
                        for call in calls {
                            prop_assert_eq!(call, &callers[call[0] as usize / 10].1, "a call is sent whole");
                        }
                        sent.extend(&uids);
                        messages.push((tag, uids));
                        prop_assert!(messages.len() <= BOUNDS.in_flight);
                    }
                }
                Step::Respond(index) => {
                    if index < messages.len() {
                        let (tag, uids) = messages.remove(index);
                        it.respond(tag, &uids);
                    }
                }
                Step::Expire { ms } => {
                    now_ms += ms;
                    for (reply, sent) in it.queue.expire(it.at(now_ms)) {
                        _ = reply.send(Outcome::TimedOut { sent });
                    }
                    let pending = it.queue.pending.iter().map(|(_, waiter)| waiter);
                    let earliest = pending.chain(it.queue.in_flight.values().flatten())
                        .filter(|waiter| waiter.is_wanted()).map(|waiter| waiter.deadline).min();
                    prop_assert_eq!(it.queue.timer(), earliest);
                }
                Step::End(how) => {
                    let Some(ending) = generation else { continue };
                    let end = match how {
                        0 => StreamEnd::Broke(failed()),
                        1 => StreamEnd::Closed(failed()),
                        2 => StreamEnd::NeverSent(failed()),
                        3 => StreamEnd::Unsupported { until: it.began },
                        _ => StreamEnd::RuntimeGone(failed()),
                    };
                    let ended = it.queue.end(ending, &end);
                    for (call, sent) in ended.failed {
                        call.complete(Outcome::Failed { status: failed(), sent });
                    }
                    messages.clear();
                    generation = ended.open;
                }
            }
            let pending: usize = it.queue.pending.iter().map(|(call, _)| call.items.len()).sum();
            prop_assert_eq!(it.queue.pending_items, pending);
        }
        // At the end every remaining call completes.
        if let Some(generation) = generation {
            for (call, sent) in it.queue.end(generation, &StreamEnd::RuntimeGone(failed())).failed {
                call.complete(Outcome::Failed { status: failed(), sent });
            }
        }
        prop_assert!(sent.is_sorted_by(|one, next| one < next), "sent in the order of the calls, each once: {:?}", sent);
        for (caller, uids) in callers {
            let Some(mut caller) = caller else { continue };
            match caller.try_recv() {
                Ok(Some(Outcome::Response(response))) => prop_assert_eq!(values(&response), uids),
                Ok(Some(Outcome::TimedOut { sent: was } | Outcome::Failed { sent: was, .. })) => {
                    // A failed dial sent no call, even if a message had been built.
                    prop_assert!(!was || sent.contains(&uids[0]));
                }
                other => prop_assert!(false, "{:?} got {:?}", uids, other),
            }
        }
    }
}

#[test]
fn a_message_of_keys_has_a_limit_on_their_bytes() {
    let mut queue = CallQueue::new(Arc::new(Keys("main".into())), Bounds::DEFAULT);
    let deadline = Instant::now() + Duration::from_secs(1);
    let callers: Vec<Caller> = (0..300u32)
        .map(|key| {
            let (reply, outcome) = oneshot::channel();
            let counter = format!("{key:0512}").into_bytes();
            let items = CallItems::One(Item { counter, count: 1 + key % 2, epoch: 0 });
            queue.enqueue(Call { items, hops: 0, route_version: Some(3), deadline }, reply);
            outcome
        })
        .collect();
    let waker = Waker::from(Arc::new(NoopWaker));
    let mut next = || match queue.next_message(queue.generation, &waker, Instant::now) {
        NextMessage::Ready(message) => message,
        other => panic!("{other:?}"),
    };
    let messages = [next(), next()];
    let requests = messages.map(|message| {
        assert!(message.now_only);
        message.request.unwrap()
    });
    assert_eq!(requests.each_ref().map(|request| request.raw_keys.len()), [256, 44]);
    let [first, second] = requests;
    assert_eq!((&*first.keyspace, first.route_version, &first.counts[..3]), ("main", Some(3), &[1, 2, 1][..]));
    assert_eq!(second.raw_keys[0], format!("{:0512}", 256).into_bytes());
    drop(callers);
}
