use std::sync::Arc;
use std::task::Wake;

use proptest::prelude::*;

use super::*;

const BOUNDS: Bounds = Bounds { calls: 8, message: 4, under_way: 2 };

struct Sleeper;

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {}
}

/// A line, an instant it began at, and who sends.
struct Bench {
    line: Line,
    began: Instant,
    waker: Waker,
}

impl Bench {
    fn new() -> Bench {
        Bench { line: Line::new(BOUNDS), began: Instant::now(), waker: Waker::from(Arc::new(Sleeper)) }
    }

    fn at(&self, ms: u64) -> Instant {
        self.began + Duration::from_millis(ms)
    }

    /// A call with a deadline in so many milliseconds.
    fn join(&mut self, uid: u64, ms: u64) -> (oneshot::Receiver<Outcome>, Joined) {
        let (sender, told) = oneshot::channel();
        let deadline = self.at(ms);
        let call = Call { uid, count: 1, epoch: uid + 1, route_version: 7, deadline, told: Some(sender) };
        (told, self.line.join(call))
    }

    /// The tag and the uids of the next message.
    fn gather(&mut self) -> Option<(u64, Vec<u64>)> {
        match self.line.gather(self.line.generation, &self.waker, || self.began) {
            Gathered::Message(message) => Some((message.tag, message.ask.unwrap().uids)),
            Gathered::Nothing => None,
            Gathered::Over => panic!("the stream is open"),
        }
    }

    /// Answers a message: each uid gets the number that it is.
    fn answer(&mut self, tag: u64) {
        let (calls, _) = self.line.answered(tag).expect("a message under way");
        let values: Vec<u64> = calls.iter().map(|call| call.uid).collect();
        let zeros = vec![0; values.len()];
        let answer = v1::NextManyResponse { values, prevs: zeros.clone(), epochs: zeros, ..Default::default() };
        tell(calls, Some(Responded::Answer(answer)));
    }
}

fn failed() -> Status {
    Status::unavailable("no")
}

/// What a caller was told, in short.
fn heard(told: &mut oneshot::Receiver<Outcome>) -> &'static str {
    match told.try_recv().expect("a line does not lose its calls") {
        None => "-",
        Some(Outcome::Given { .. }) => "given",
        Some(Outcome::Refused { .. }) => "refused",
        Some(Outcome::Failed { sent: true, .. }) => "failed",
        Some(Outcome::Failed { sent: false, .. }) => "failed unsent",
        Some(Outcome::Late { sent: true }) => "late",
        Some(Outcome::Late { sent: false }) => "late unsent",
        Some(Outcome::Bad(_)) => "bad",
        Some(Outcome::NotServed) => "not served",
    }
}

#[test]
fn the_first_call_opens_and_everybody_in_line_is_one_message() {
    let mut it = Bench::new();
    let (_a, joined) = it.join(1, 100);
    assert!(joined.open.is_some() && joined.sooner && joined.wake.is_none());
    let (_b, joined) = it.join(2, 200);
    assert!(joined.open.is_none() && !joined.sooner);
    assert_eq!(it.gather(), Some((0, vec![1, 2])));
    assert_eq!(it.gather(), None);
    let (_c, joined) = it.join(3, 50);
    assert!(joined.wake.is_some() && joined.sooner, "whoever sends is asleep, and the timer is set to 100 ms");
    let Gathered::Message(message) = it.line.gather(it.line.generation, &it.waker, || it.began) else { panic!() };
    let ask = message.ask.unwrap();
    assert_eq!((message.tag, message.timeout_ms, message.now_only), (1, 50, true));
    assert_eq!((ask.uids, ask.counts, ask.known_epochs, ask.route_version), (vec![3], vec![], vec![4], Some(7)));
}

#[test]
fn messages_and_their_items_are_bounded_and_an_answer_makes_room() {
    let mut it = Bench::new();
    let mut told: Vec<_> = (0..10).map(|uid| it.join(uid, 100).0).collect();
    assert_eq!(it.gather(), Some((0, vec![0, 1, 2, 3])));
    assert_eq!(it.gather(), Some((1, vec![4, 5, 6, 7])));
    assert_eq!(it.gather(), None, "two messages are under way");
    let (calls, wake) = it.line.answered(1).unwrap();
    assert!(wake.is_some(), "there is room for those in line");
    tell(calls, None);
    assert_eq!(told.iter_mut().map(heard).filter(|heard| *heard == "bad").count(), 4);
    assert_eq!(it.gather(), Some((2, vec![8, 9])));
    assert!(it.line.answered(1).is_none(), "a message is answered once");
}

#[test]
fn who_went_away_is_not_sent_and_takes_no_room() {
    let mut it = Bench::new();
    let (kept, _) = it.join(1, 100);
    for uid in 0..1_000 {
        drop(it.join(uid, 100));
        assert!(it.line.waiting.len() <= 2 * BOUNDS.calls);
    }
    let (_other, _) = it.join(2, 100);
    assert_eq!(it.gather(), Some((0, vec![1])), "the others of the first four are gone");
    drop(kept);
    it.answer(0);
    while let Some((_, uids)) = it.gather() {
        assert_eq!(uids, [2]);
    }
}

#[test]
fn late_calls_are_told_and_the_others_get_their_own_answers() {
    let mut it = Bench::new();
    let (mut early, _) = it.join(1, 10);
    let (mut patient, _) = it.join(2, 100);
    it.gather();
    let (mut waiting, _) = it.join(3, 20);
    assert_eq!(it.line.timer(), Some(it.at(10)));
    for (told, sent) in it.line.expire(it.at(25)) {
        _ = told.send(Outcome::Late { sent });
    }
    assert_eq!((heard(&mut early), heard(&mut waiting)), ("late", "late unsent"));
    assert_eq!(it.line.timer(), Some(it.at(100)));
    it.answer(0);
    assert!(matches!(patient.try_recv(), Ok(Some(Outcome::Given { value: 2, .. }))));
    assert!(it.line.expire(it.at(200)).is_empty());
    assert_eq!((it.line.timer(), it.gather()), (None, None));
}

#[test]
fn the_end_of_a_stream_is_told_by_how_it_ended() {
    let until = Instant::now();
    let ends: [(End, bool, [&str; 2]); 6] = [
        (End::Broke(failed()), true, ["failed", "-"]),
        (End::Broke(failed()), false, ["failed", "failed unsent"]),
        (End::NeverSent(failed()), false, ["failed unsent", "failed unsent"]),
        (End::NeverSent(failed()), true, ["failed unsent", "failed unsent"]),
        (End::NotServed { until }, false, ["not served", "not served"]),
        (End::Gone(failed()), true, ["failed", "failed unsent"]),
    ];
    for (end, answered, expected) in ends {
        let mut it = Bench::new();
        let (_first, joined) = it.join(0, 100);
        let generation = joined.open.unwrap();
        it.gather();
        if answered {
            it.answer(0);
        }
        let (mut sent, _) = it.join(1, 100);
        it.gather();
        let (mut waiting, _) = it.join(2, 100);
        let ended = it.line.end(generation, &end);
        assert_eq!(ended.open.is_some(), expected[1] == "-", "{end:?}");
        for (mut call, sent) in ended.failed {
            call.tell(match &end {
                End::NotServed { .. } => Outcome::NotServed,
                _ => Outcome::Failed { status: failed(), sent },
            });
        }
        assert_eq!([heard(&mut sent), heard(&mut waiting)], expected, "{end:?} {answered}");
        let over = it.line.gather(generation, &it.waker, || it.began);
        assert!(matches!(over, Gathered::Over), "an old stream sends nothing any more");
        assert!(it.line.end(generation, &End::Gone(failed())).failed.is_empty(), "and ends once");
    }
}

#[test]
fn refusals_find_their_calls_and_routes_somebody_who_listens() {
    let mut it = Bench::new();
    let (gone, _) = it.join(1, 100);
    let (mut refused, _) = it.join(2, 100);
    let (mut given, _) = it.join(3, 100);
    it.gather();
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
    let (calls, _) = it.line.answered(0).unwrap();
    tell(calls, Some(Responded::Answer(answer.clone())));
    assert!(
        matches!(refused.try_recv(), Ok(Some(Outcome::Refused { routes: Some(routes), .. })) if routes.version == 9)
    );
    assert!(matches!(given.try_recv(), Ok(Some(Outcome::Given { value: 3, lost: 4, routes: None, .. }))));
    // What does not fit the message is told to all of its calls.
    for bad in [v1::NextManyResponse { values: vec![1, 2], ..answer.clone() }, {
        let beyond = v1::ItemError { index: 3, ..Default::default() };
        v1::NextManyResponse { errors: vec![beyond], ..answer }
    }] {
        let mut told: Vec<_> = (0..3).map(|uid| it.join(uid, 100).0).collect();
        let (tag, _) = it.gather().unwrap();
        let (calls, _) = it.line.answered(tag).unwrap();
        tell(calls, Some(Responded::Answer(bad)));
        assert_eq!(told.iter_mut().map(heard).collect::<Vec<_>>(), ["bad"; 3]);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Join { ms: u64 },
    Drop(usize),
    Gather,
    Answer(usize),
    Expire { ms: u64 },
    End(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (1u64..100).prop_map(|ms| Step::Join { ms }),
        1 => (0usize..50).prop_map(Step::Drop),
        4 => Just(Step::Gather),
        3 => (0usize..3).prop_map(Step::Answer),
        1 => (1u64..100).prop_map(|ms| Step::Expire { ms }),
        1 => (0u8..4).prop_map(Step::End),
    ];
    prop::collection::vec(step, 1..120)
}

proptest! {
    #[test]
    fn every_call_is_sent_at_most_once_and_told_once(steps in steps()) {
        let mut it = Bench::new();
        let mut callers: Vec<Option<oneshot::Receiver<Outcome>>> = Vec::new();
        let mut sent: Vec<u64> = Vec::new();
        let mut tags: Vec<u64> = Vec::new();
        let mut generation = None;
        let mut late = 0;
        for step in steps {
            match step {
                Step::Join { ms } => {
                    let (told, joined) = it.join(callers.len() as u64, late + ms);
                    callers.push(Some(told));
                    generation = joined.open.or(generation);
                }
                Step::Drop(index) => {
                    if let Some(caller) = callers.get_mut(index) {
                        *caller = None;
                    }
                }
                Step::Gather => {
                    if it.line.open && let Some((tag, uids)) = it.gather() {
                        sent.extend(uids);
                        tags.push(tag);
                    }
                }
                Step::Answer(index) => {
                    if index < tags.len() {
                        it.answer(tags.remove(index));
                    }
                }
                Step::Expire { ms } => {
                    late += ms;
                    for (told, sent) in it.line.expire(it.at(late)) {
                        _ = told.send(Outcome::Late { sent });
                    }
                    let earliest = it.line.waiting.iter().chain(it.line.under_way.values().flatten())
                        .filter(|call| call.is_wanted()).map(|call| call.deadline).min();
                    prop_assert_eq!(it.line.timer(), earliest);
                }
                Step::End(how) => {
                    let Some(ending) = generation else { continue };
                    let end = match how {
                        0 => End::Broke(failed()),
                        1 => End::NeverSent(failed()),
                        2 => End::NotServed { until: it.began },
                        _ => End::Gone(failed()),
                    };
                    let ended = it.line.end(ending, &end);
                    for (mut call, sent) in ended.failed {
                        call.tell(Outcome::Failed { status: failed(), sent });
                    }
                    tags.clear();
                    generation = ended.open;
                }
            }
        }
        // At the end everybody who is still there is told.
        if let Some(generation) = generation {
            for (mut call, sent) in it.line.end(generation, &End::Gone(failed())).failed {
                call.tell(Outcome::Failed { status: failed(), sent });
            }
        }
        let mut once = sent.clone();
        once.sort_unstable();
        once.dedup();
        prop_assert_eq!(once.len(), sent.len(), "a call was sent twice");
        for (uid, caller) in (0..).zip(callers) {
            let Some(mut caller) = caller else { continue };
            match caller.try_recv() {
                Ok(Some(Outcome::Given { value, .. })) => prop_assert!(value == uid && once.contains(&uid)),
                Ok(Some(Outcome::Late { sent } | Outcome::Failed { sent, .. })) => {
                    // Of a dial that failed nothing was sent, whatever had been gathered.
                    prop_assert!(!sent || once.contains(&uid));
                }
                other => prop_assert!(false, "uid {} was told {:?}", uid, other),
            }
        }
    }
}
