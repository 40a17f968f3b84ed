use std::sync::Arc;
use std::task::Wake;

use proptest::prelude::*;

use super::*;

const BOUNDS: Bounds = Bounds { calls: 8, message: 4, in_flight: 2 };

struct NoopWaker;

impl Wake for NoopWaker {
    fn wake(self: Arc<Self>) {}
}

/// A queue, the instant of its creation, and the waker of its sender.
struct Bench {
    queue: CallQueue,
    began: Instant,
    waker: Waker,
}

impl Bench {
    fn new() -> Bench {
        Bench { queue: CallQueue::new(BOUNDS), began: Instant::now(), waker: Waker::from(Arc::new(NoopWaker)) }
    }

    fn at(&self, ms: u64) -> Instant {
        self.began + Duration::from_millis(ms)
    }

    /// Enqueues a call with a deadline in `ms` milliseconds.
    fn enqueue(&mut self, uid: u64, ms: u64) -> (oneshot::Receiver<Outcome>, Enqueued) {
        let (reply, outcome) = oneshot::channel();
        let deadline = self.at(ms);
        let call = Call { uid, count: 1, epoch: uid + 1, route_version: 7, deadline, reply: Some(reply) };
        (outcome, self.queue.enqueue(call))
    }

    /// The tag and the uids of the next message.
    fn next_message(&mut self) -> Option<(u64, Vec<u64>)> {
        match self.queue.next_message(self.queue.generation, &self.waker, || self.began) {
            NextMessage::Ready(message) => Some((message.tag, message.request.unwrap().uids)),
            NextMessage::Pending => None,
            NextMessage::Closed => panic!("the stream is open"),
        }
    }

    /// Completes a message: the number of each uid is the uid.
    fn respond(&mut self, tag: u64) {
        let (calls, _) = self.queue.take_message(tag).expect("a message in flight");
        let values: Vec<u64> = calls.iter().map(|call| call.uid).collect();
        let zeros = vec![0; values.len()];
        let answer = v1::NextManyResponse { values, prevs: zeros.clone(), epochs: zeros, ..Default::default() };
        complete(calls, Some(Response::Response(answer)));
    }
}

fn failed() -> Status {
    Status::unavailable("no")
}

/// The outcome of a call, in short.
fn outcome_of(outcome: &mut oneshot::Receiver<Outcome>) -> &'static str {
    match outcome.try_recv().expect("a queue does not lose its calls") {
        None => "-",
        Some(Outcome::Allocated { .. }) => "allocated",
        Some(Outcome::Refused { .. }) => "refused",
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
    let NextMessage::Ready(message) = it.queue.next_message(it.queue.generation, &it.waker, || it.began) else {
        panic!()
    };
    let request = message.request.unwrap();
    assert_eq!((message.tag, message.timeout_ms, message.now_only), (1, 50, true));
    assert_eq!(
        (request.uids, request.counts, request.known_epochs, request.route_version),
        (vec![3], vec![], vec![4], Some(7))
    );
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
fn a_dropped_call_is_not_sent_and_takes_no_space() {
    let mut it = Bench::new();
    let (kept, _) = it.enqueue(1, 100);
    for uid in 0..1_000 {
        drop(it.enqueue(uid, 100));
        assert!(it.queue.pending.len() <= 2 * BOUNDS.calls);
    }
    let (_other, _) = it.enqueue(2, 100);
    assert_eq!(it.next_message(), Some((0, vec![1])), "the others of the first four are gone");
    drop(kept);
    it.respond(0);
    while let Some((_, uids)) = it.next_message() {
        assert_eq!(uids, [2]);
    }
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
    assert_eq!(it.queue.timer(), Some(it.at(100)));
    it.respond(0);
    assert!(matches!(patient.try_recv(), Ok(Some(Outcome::Allocated { value: 2, .. }))));
    assert!(it.queue.expire(it.at(200)).is_empty());
    assert_eq!((it.queue.timer(), it.next_message()), (None, None));
}

#[test]
fn the_end_of_a_stream_decides_the_outcome_of_its_calls() {
    let until = Instant::now();
    let ends: [(StreamEnd, bool, [&str; 2]); 6] = [
        (StreamEnd::Broke(failed()), true, ["failed", "-"]),
        (StreamEnd::Broke(failed()), false, ["failed", "failed unsent"]),
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
            it.respond(0);
        }
        let (mut sent, _) = it.enqueue(1, 100);
        it.next_message();
        let (mut pending, _) = it.enqueue(2, 100);
        let ended = it.queue.end(generation, &end);
        assert_eq!(ended.open.is_some(), expected[1] == "-", "{end:?}");
        for (mut call, sent) in ended.failed {
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
fn refusals_reach_their_calls_and_routes_the_first_waiting_caller() {
    let mut it = Bench::new();
    let (gone, _) = it.enqueue(1, 100);
    let (mut refused, _) = it.enqueue(2, 100);
    let (mut allocated, _) = it.enqueue(3, 100);
    it.next_message();
    drop(gone);
    let answer = v1::NextManyResponse {
        values: vec![1, 0, 3],
        prevs: vec![0; 3],
        epochs: vec![1, 0, 1],
        errors: vec![
            v1::ItemError { index: 0, ..Default::default() },
            v1::ItemError { index: 1, ..Default::default() },
        ],
        routes: Some(v1::Routes { version: 9, ..Default::default() }),
        lost: Some(v1::LostAttempts { indexes: vec![2], attempts: vec![4] }),
    };
    let (calls, _) = it.queue.take_message(0).unwrap();
    complete(calls, Some(Response::Response(answer.clone())));
    assert!(
        matches!(refused.try_recv(), Ok(Some(Outcome::Refused { routes: Some(routes), .. })) if routes.version == 9)
    );
    assert!(matches!(allocated.try_recv(), Ok(Some(Outcome::Allocated { value: 3, lost: 4, routes: None, .. }))));
    // A response that does not match the message fails all of its calls.
    for bad in [v1::NextManyResponse { values: vec![1, 2], ..answer.clone() }, {
        let beyond = v1::ItemError { index: 3, ..Default::default() };
        v1::NextManyResponse { errors: vec![beyond], ..answer }
    }] {
        let mut outcomes: Vec<_> = (0..3).map(|uid| it.enqueue(uid, 100).0).collect();
        let (tag, _) = it.next_message().unwrap();
        let (calls, _) = it.queue.take_message(tag).unwrap();
        complete(calls, Some(Response::Response(bad)));
        assert_eq!(outcomes.iter_mut().map(outcome_of).collect::<Vec<_>>(), ["invalid"; 3]);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Enqueue { ms: u64 },
    Drop(usize),
    NextMessage,
    Respond(usize),
    Expire { ms: u64 },
    End(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (1u64..100).prop_map(|ms| Step::Enqueue { ms }),
        1 => (0usize..50).prop_map(Step::Drop),
        4 => Just(Step::NextMessage),
        3 => (0usize..3).prop_map(Step::Respond),
        1 => (1u64..100).prop_map(|ms| Step::Expire { ms }),
        1 => (0u8..4).prop_map(Step::End),
    ];
    prop::collection::vec(step, 1..120)
}

proptest! {
    #[test]
    fn every_call_is_sent_at_most_once_and_completes_once(steps in steps()) {
        let mut it = Bench::new();
        let mut callers: Vec<Option<oneshot::Receiver<Outcome>>> = Vec::new();
        let mut sent: Vec<u64> = Vec::new();
        let mut tags: Vec<u64> = Vec::new();
        let mut generation = None;
        let mut now_ms = 0;
        for step in steps {
            match step {
                Step::Enqueue { ms } => {
                    let (outcome, enqueued) = it.enqueue(callers.len() as u64, now_ms + ms);
                    callers.push(Some(outcome));
                    generation = enqueued.open.or(generation);
                }
                Step::Drop(index) => {
                    if let Some(caller) = callers.get_mut(index) {
                        *caller = None;
                    }
                }
                Step::NextMessage => {
                    if it.queue.open && let Some((tag, uids)) = it.next_message() {
                        sent.extend(uids);
                        tags.push(tag);
                    }
                }
                Step::Respond(index) => {
                    if index < tags.len() {
                        it.respond(tags.remove(index));
                    }
                }
                Step::Expire { ms } => {
                    now_ms += ms;
                    for (reply, sent) in it.queue.expire(it.at(now_ms)) {
                        _ = reply.send(Outcome::TimedOut { sent });
                    }
                    let earliest = it.queue.pending.iter().chain(it.queue.in_flight.values().flatten())
                        .filter(|call| call.is_wanted()).map(|call| call.deadline).min();
                    prop_assert_eq!(it.queue.timer(), earliest);
                }
                Step::End(how) => {
                    let Some(ending) = generation else { continue };
                    let end = match how {
                        0 => StreamEnd::Broke(failed()),
                        1 => StreamEnd::NeverSent(failed()),
                        2 => StreamEnd::Unsupported { until: it.began },
                        _ => StreamEnd::RuntimeGone(failed()),
                    };
                    let ended = it.queue.end(ending, &end);
                    for (mut call, sent) in ended.failed {
                        call.complete(Outcome::Failed { status: failed(), sent });
                    }
                    tags.clear();
                    generation = ended.open;
                }
            }
        }
        // At the end every remaining call completes.
        if let Some(generation) = generation {
            for (mut call, sent) in it.queue.end(generation, &StreamEnd::RuntimeGone(failed())).failed {
                call.complete(Outcome::Failed { status: failed(), sent });
            }
        }
        let mut once = sent.clone();
        once.sort_unstable();
        once.dedup();
        prop_assert_eq!(once.len(), sent.len(), "a call was sent twice");
        for (uid, caller) in (0..).zip(callers) {
            let Some(mut caller) = caller else { continue };
            match caller.try_recv() {
                Ok(Some(Outcome::Allocated { value, .. })) => prop_assert!(value == uid && once.contains(&uid)),
                Ok(Some(Outcome::TimedOut { sent } | Outcome::Failed { sent, .. })) => {
                    // A failed dial sent nothing, even if a message had been built.
                    prop_assert!(!sent || once.contains(&uid));
                }
                other => prop_assert!(false, "uid {} got {:?}", uid, other),
            }
        }
    }
}
