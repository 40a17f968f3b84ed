//! The closed loop: workers that each have one call in flight, a warm-up, and a measured part.
//!
//! Workers are plain futures on one thread: they share the state without a lock, and never across an `await`.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use futures::future::join_all;
use tokio::time::Instant;

use super::pick::{Distribution, Picker};
use crate::traffic::{Answer, Latency, Reasons, Service};
use seq_order::{CallId, Checker, User};

/// Wait of a worker whose call gave it no number at all, so that a dead service is not asked in a tight loop.
const AFTER_FAILURE: Duration = Duration::from_millis(10);

/// What is sent, and until when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) concurrency: usize,
    /// Uids in a call, 1 or above.
    pub(crate) batch: usize,
    pub(crate) warmup: Duration,
    pub(crate) end: End,
    pub(crate) first_uid: u64,
    /// Number of uids, 1 or above.
    pub(crate) uids: u32,
    pub(crate) distribution: Distribution,
    pub(crate) seed: u64,
    pub(crate) check: bool,
    /// Whether no number may be missing.
    pub(crate) seamless: bool,
}

/// When the measured part ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    After(Duration),
    Calls(u64),
}

/// A load under way.
#[derive(Debug)]
pub(crate) struct Load<S> {
    service: S,
    plan: Plan,
    began: Instant,
    stopping: Cell<bool>,
    /// When the measured part began; calls sent before it are not counted.
    measured_from: Cell<Option<Duration>>,
    /// Measured calls sent so far.
    sent: Cell<u64>,
    state: RefCell<Outcome>,
}

/// What came of a load.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The history, warm-up included, when it was asked for.
    pub(crate) checker: Option<Checker>,
    /// How long the measured calls took.
    pub(crate) latency: Latency,
    /// Numbers given out to measured calls.
    pub(crate) numbers: u64,
    /// Items of measured calls that got none, by reason.
    pub(crate) failed_items: Reasons,
    /// Length of the measured part.
    pub(crate) took: Duration,
    /// Longest time without a number in the measured part.
    pub(crate) longest_silence: Duration,
    last_answer: Duration,
}

impl<S: Service> Load<S> {
    /// A load that has not begun.
    pub(crate) fn new(service: S, plan: Plan) -> Load<S> {
        let state = Outcome {
            checker: plan.check.then(|| checker(plan)),
            latency: Latency::new(),
            numbers: 0,
            failed_items: Reasons::new(),
            took: Duration::ZERO,
            longest_silence: Duration::ZERO,
            last_answer: Duration::ZERO,
        };
        Load {
            service,
            plan,
            began: Instant::now(),
            stopping: Cell::new(false),
            measured_from: Cell::new(None),
            sent: Cell::new(0),
            state: RefCell::new(state),
        }
    }

    /// Runs to the end of the plan; completes when the last call has ended.
    pub(crate) async fn run(&self) {
        join_all((0..self.plan.concurrency).map(|worker| self.work(worker))).await;
        let mut state = self.state.borrow_mut();
        let now = self.began.elapsed();
        state.took = now.saturating_sub(self.measured_from.get().unwrap_or(now));
    }

    /// Sends no new call; calls in flight end.
    pub(crate) fn stop(&self) {
        self.stopping.set(true);
    }

    /// How far the measured part is: milliseconds or calls, as the plan counts.
    pub(crate) fn progress(&self) -> u64 {
        match (self.plan.end, self.measured_from.get()) {
            (_, None) => 0,
            (End::After(_), Some(from)) => self.began.elapsed().saturating_sub(from).as_millis() as u64,
            (End::Calls(_), Some(_)) => self.sent.get(),
        }
    }

    /// Ends the load.
    pub(crate) fn into_outcome(self) -> Outcome {
        self.state.into_inner()
    }

    async fn work(&self, worker: usize) {
        let Plan { batch, uids, distribution, seed, .. } = self.plan;
        let mut picker = Picker::new(distribution, uids, seed, worker..self.plan.concurrency);
        let mut users = vec![User(0); batch];
        let mut asked = vec![0; batch];
        let mut now = self.began.elapsed();
        while let Some(measured) = self.admit(now) {
            for (user, uid) in users.iter_mut().zip(&mut asked) {
                *user = picker.pick();
                *uid = self.plan.first_uid + u64::from(user.0);
            }
            let call = self.state.borrow_mut().checker.as_mut().map(|it| it.start(now, users.iter().copied()));
            let sent = now;
            let answers = match asked.as_slice() {
                [uid] => Answers::One([self.service.next(*uid).await]),
                uids => Answers::Many(self.service.next_many(uids).await),
            };
            let answers = answers.as_slice();
            now = self.began.elapsed();
            self.state.borrow_mut().end(call, (sent, now), answers, measured);
            if answers.iter().all(|answer| matches!(answer, Answer::Failed(_))) {
                tokio::time::sleep(AFTER_FAILURE).await;
                now = self.began.elapsed();
            }
        }
    }

    /// Whether one more call may be sent, and if so whether it is measured.
    fn admit(&self, now: Duration) -> Option<bool> {
        if self.stopping.get() {
            return None;
        }
        if now < self.plan.warmup {
            return Some(false);
        }
        let from = self.measured_from.get().unwrap_or_else(|| {
            self.measured_from.set(Some(now));
            self.state.borrow_mut().last_answer = now;
            now
        });
        let more = match self.plan.end {
            End::After(duration) => now < from + duration,
            End::Calls(calls) => self.sent.get() < calls,
        };
        self.sent.set(self.sent.get() + u64::from(more));
        more.then_some(true)
    }
}

impl Outcome {
    fn end(&mut self, call: Option<CallId>, (sent, now): (Duration, Duration), answers: &[Answer], measured: bool) {
        if let (Some(checker), Some(call)) = (&mut self.checker, call) {
            checker.end(call, now, answers.iter().map(Answer::outcome));
        }
        if !measured {
            return;
        }
        self.latency.record(now - sent);
        let before = self.numbers;
        for answer in answers {
            match answer {
                Answer::Given { .. } => self.numbers += 1,
                Answer::Failed(failure) => *self.failed_items.entry(failure.reason.clone()).or_default() += 1,
            }
        }
        if self.numbers > before {
            self.longest_silence = self.longest_silence.max(now.saturating_sub(self.last_answer));
            self.last_answer = now;
        }
    }
}

/// The answers of a call, without a list for a single one.
enum Answers {
    One([Answer; 1]),
    Many(Vec<Answer>),
}

impl Answers {
    fn as_slice(&self) -> &[Answer] {
        match self {
            Answers::One(answer) => answer,
            Answers::Many(answers) => answers,
        }
    }
}

fn checker(plan: Plan) -> Checker {
    let mut checker = Checker::new(plan.uids as usize);
    if plan.seamless {
        checker.seamless();
    }
    checker
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use seq_core::Seq;

    use super::*;
    use crate::traffic::Failure;

    /// Takes a millisecond for a call; counts for all uids together unless `stuck`.
    #[derive(Default)]
    struct Memory {
        last: Cell<u64>,
        stuck: bool,
        dead: bool,
    }

    impl Service for &Memory {
        async fn next(&self, _uid: u64) -> Answer {
            if self.dead {
                let failure = Failure { reason: "UNREACHABLE".into(), message: "no".into(), retryable: true, lost: 0 };
                return Answer::Failed(Rc::new(failure));
            }
            self.last.set(if self.stuck { 1 } else { self.last.get() + 1 });
            let value = Seq(self.last.get());
            tokio::time::sleep(Duration::from_millis(1)).await;
            Answer::Given { value, prev: Seq(0), lost: 0 }
        }

        async fn next_many(&self, uids: &[u64]) -> Vec<Answer> {
            let mut answers = Vec::new();
            for uid in uids {
                answers.push(self.next(*uid).await);
            }
            answers
        }
    }

    const PLAN: Plan = Plan {
        concurrency: 4,
        batch: 1,
        warmup: Duration::from_millis(50),
        end: End::Calls(100),
        first_uid: 10,
        uids: 50,
        distribution: Distribution::Uniform,
        seed: 1,
        check: true,
        seamless: false,
    };

    async fn run(service: Memory, plan: Plan) -> Outcome {
        let load = Load::new(&service, plan);
        load.run().await;
        load.into_outcome()
    }

    #[tokio::test(start_paused = true)]
    async fn calls_are_counted_after_the_warm_up() {
        let outcome = run(Memory::default(), PLAN).await;
        assert_eq!((outcome.latency.calls(), outcome.numbers), (100, 100));
        let tally = outcome.checker.unwrap().tally();
        assert!(tally.allocations >= 100 + 4 * 20, "{tally:?}");
        assert_eq!(tally.violations(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_takes_a_number_for_each_uid() {
        let outcome = run(Memory::default(), Plan { batch: 5, ..PLAN }).await;
        assert_eq!((outcome.latency.calls(), outcome.numbers), (100, 500));
    }

    #[tokio::test(start_paused = true)]
    async fn time_ends_the_load() {
        let end = End::After(Duration::from_millis(200));
        let outcome = run(Memory::default(), Plan { end, ..PLAN }).await;
        assert!((200..=210).contains(&outcome.took.as_millis()), "{:?}", outcome.took);
        assert!(outcome.numbers >= 4 * 90, "{}", outcome.numbers);
    }

    #[tokio::test(start_paused = true)]
    async fn numbers_given_twice_are_found() {
        let outcome = run(Memory { stuck: true, ..Memory::default() }, PLAN).await;
        let tally = outcome.checker.unwrap().tally();
        assert!(tally.duplicates > 50 && tally.decreases > 50, "{tally:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_dead_service_is_counted_by_reason() {
        let outcome = run(Memory { dead: true, ..Memory::default() }, PLAN).await;
        assert_eq!((outcome.numbers, outcome.failed_items["UNREACHABLE"]), (0, 100));
    }
}
