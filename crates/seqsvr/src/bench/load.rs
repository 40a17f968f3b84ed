//! The load: workers that each have a round of calls in flight, a warm-up, and a measured part.
//!
//! In a closed loop a worker sends its next round when the last one is answered, so the load adapts to the service. In an open
//! loop calls are due at a rate, see [`Pace`]; the number of workers only bounds how many are in flight.
//!
//! Workers are plain futures on one thread: they share the state without a lock, and never across an `await`.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use futures::future::join_all;
use tokio::time::Instant;

use super::door::Lane;
use super::pace::Pace;
use super::pick::{Distribution, Picker};
use super::seconds::Seconds;
use crate::traffic::{Answer, Latency, Reasons};
use seq_order::{CallId, Checker, User};

/// Wait of a worker whose round gave it no number at all, so that a dead service is not asked in a tight loop.
const AFTER_FAILURE: Duration = Duration::from_millis(10);

/// What is sent, and until when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Workers.
    pub(crate) concurrency: usize,
    /// Calls in a worker's round, 1 or above.
    pub(crate) pipeline: usize,
    /// Uids in a call, 1 or above.
    pub(crate) batch: usize,
    pub(crate) warmup: Duration,
    pub(crate) end: End,
    /// Calls due in a second; `None` in a closed loop.
    pub(crate) rate: Option<f64>,
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
pub(crate) struct Load<L> {
    lanes: RefCell<Vec<L>>,
    plan: Plan,
    began: Instant,
    pace: Option<Pace>,
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
    /// The measured part, second by second.
    pub(crate) seconds: Seconds,
    /// Numbers given out to measured calls.
    pub(crate) numbers: u64,
    /// Numbers given out, warm-up included.
    pub(crate) all_numbers: u64,
    /// Items of measured calls that got none, by reason.
    pub(crate) failed_items: Reasons,
    /// Calls of an open loop that were due and not sent, because as many as there are workers were in flight.
    pub(crate) unsent: u64,
    /// Length of the measured part.
    pub(crate) took: Duration,
    /// Longest time without a number in the measured part.
    pub(crate) longest_silence: Duration,
    last_answer: Duration,
}

/// A round that may be sent.
struct Round {
    calls: usize,
    /// When its calls were due, in an open loop; now, in a closed one.
    due: Duration,
    measured: bool,
}

impl<L: Lane> Load<L> {
    /// A load that begins now, with one lane for each worker.
    ///
    /// # Errors
    /// When the thread of an open loop cannot be started.
    pub(crate) fn new(lanes: Vec<L>, plan: Plan) -> std::io::Result<Load<L>> {
        assert_eq!(lanes.len(), plan.concurrency);
        let state = Outcome {
            checker: plan.check.then(|| checker(plan)),
            latency: Latency::new(),
            seconds: Seconds::default(),
            numbers: 0,
            all_numbers: 0,
            failed_items: Reasons::new(),
            unsent: 0,
            took: Duration::ZERO,
            longest_silence: Duration::ZERO,
            last_answer: Duration::ZERO,
        };
        Ok(Load {
            lanes: RefCell::new(lanes),
            plan,
            began: Instant::now(),
            pace: plan.rate.map(Pace::start).transpose()?,
            stopping: Cell::new(false),
            measured_from: Cell::new(None),
            sent: Cell::new(0),
            state: RefCell::new(state),
        })
    }

    /// Runs to the end of the plan; completes when the last call has ended.
    pub(crate) async fn run(&self) {
        let lanes = self.lanes.take();
        join_all(lanes.into_iter().enumerate().map(|(worker, lane)| self.work(worker, lane))).await;
        let mut state = self.state.borrow_mut();
        let now = self.began.elapsed();
        state.took = now.saturating_sub(self.measured_from.get().unwrap_or(now));
        // What came after the last number is silence, too.
        let silence = self.measured_from.get().map_or(Duration::ZERO, |_| now.saturating_sub(state.last_answer));
        state.longest_silence = state.longest_silence.max(silence);
        state.seconds.close();
        if let (Some(pace), End::After(duration), Some(from)) = (&self.pace, self.plan.end, self.measured_from.get()) {
            state.unsent = pace.unsent(self.began + (from + duration).min(now));
        }
    }

    /// Sends no new call; calls in flight end.
    pub(crate) fn stop(&self) {
        self.stopping.set(true);
        self.pace.as_ref().inspect(|pace| pace.stop());
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

    async fn work(&self, worker: usize, mut lane: L) {
        let Plan { batch, pipeline, uids, distribution, seed, .. } = self.plan;
        let mut picker = Picker::new(distribution, uids, seed, worker..self.plan.concurrency);
        let (mut users, mut asked) = (Vec::with_capacity(batch * pipeline), Vec::with_capacity(batch * pipeline));
        let (mut calls, mut answers) = (Vec::new(), Vec::with_capacity(batch * pipeline));
        while let Some(round) = self.admit().await {
            users.clear();
            users.extend((0..round.calls * batch).map(|_| picker.pick()));
            asked.clear();
            asked.extend(users.iter().map(|user: &User| self.plan.first_uid + u64::from(user.0)));
            answers.clear();
            let sent = self.began.elapsed();
            if let Some(checker) = &mut self.state.borrow_mut().checker {
                calls.extend(users.chunks(batch).map(|users| checker.start(sent, users.iter().copied())));
            }
            lane.round(&asked, &mut answers).await;
            assert_eq!(answers.len(), asked.len(), "one answer for each uid");
            let now = self.began.elapsed();
            self.state.borrow_mut().end(&mut calls, batch, &round, now, &answers, self.measured_from.get());
            if answers.iter().all(|answer| matches!(answer, Answer::Failed(_))) {
                tokio::time::sleep(AFTER_FAILURE).await;
            }
        }
    }

    /// Waits for calls that are due: when they were, and how many.
    async fn due(&self) -> Option<(Duration, usize)> {
        let Some(pace) = &self.pace else { return Some((self.began.elapsed(), self.plan.pipeline)) };
        loop {
            let (due, calls) = pace.take(self.plan.pipeline).await?;
            let due = due.saturating_duration_since(self.began);
            // What the warm-up of an overrun service leaves over is not carried into the measured part.
            if due >= self.plan.warmup || self.began.elapsed() < self.plan.warmup {
                return Some((due, calls));
            }
        }
    }

    /// Waits until a round may be sent; `None` when there is no further one.
    async fn admit(&self) -> Option<Round> {
        let (due, mut calls) = self.due().await?;
        if self.stopping.get() {
            return None;
        }
        if due < self.plan.warmup {
            return Some(Round { calls, due, measured: false });
        }
        let from = self.measured_from.get().unwrap_or_else(|| {
            self.measured_from.set(Some(due));
            self.state.borrow_mut().last_answer = due;
            due
        });
        let more = match self.plan.end {
            // Also by the time it is: what an overrun service leaves unsent is counted, not waited for.
            End::After(duration) => due.max(self.began.elapsed()) < from + duration,
            End::Calls(most) => {
                calls = calls.min((most - self.sent.get()) as usize);
                calls > 0
            }
        };
        if !more {
            self.stop();
            return None;
        }
        self.sent.set(self.sent.get() + calls as u64);
        Some(Round { calls, due, measured: true })
    }
}

impl Outcome {
    fn end(
        &mut self,
        calls: &mut Vec<CallId>,
        batch: usize,
        round: &Round,
        now: Duration,
        answers: &[Answer],
        measured_from: Option<Duration>,
    ) {
        if let Some(checker) = &mut self.checker {
            for (call, answers) in calls.drain(..).zip(answers.chunks(batch)) {
                checker.end(call, now, answers.iter().map(Answer::outcome));
            }
        }
        let given = answers.iter().filter(|answer| matches!(answer, Answer::Given { .. })).count() as u64;
        self.all_numbers += given;
        let Some(from) = measured_from.filter(|_| round.measured) else { return };
        let took = now - round.due;
        self.latency.record_n(took, round.calls as u64);
        self.seconds.add(now - from, round.calls as u64, given, answers.len() as u64 - given, took);
        self.numbers += given;
        if given < answers.len() as u64 {
            for answer in answers {
                if let Answer::Failed(failure) = answer {
                    *self.failed_items.entry(failure.reason.clone()).or_default() += 1;
                }
            }
        }
        if given > 0 {
            self.longest_silence = self.longest_silence.max(now.saturating_sub(self.last_answer));
            self.last_answer = now;
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

    impl Lane for Rc<Memory> {
        async fn round(&mut self, uids: &[u64], answers: &mut Vec<Answer>) {
            for _ in uids {
                if self.dead {
                    let failure =
                        Failure { reason: "UNREACHABLE".into(), message: "no".into(), retryable: true, lost: 0 };
                    answers.push(Answer::Failed(Rc::new(failure)));
                    continue;
                }
                self.last.set(if self.stuck { 1 } else { self.last.get() + 1 });
                answers.push(Answer::Given { value: Seq(self.last.get()), prev: Seq(0), lost: 0 });
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    const PLAN: Plan = Plan {
        concurrency: 4,
        pipeline: 1,
        batch: 1,
        warmup: Duration::from_millis(50),
        end: End::Calls(100),
        rate: None,
        first_uid: 10,
        uids: 50,
        distribution: Distribution::Uniform,
        seed: 1,
        check: true,
        seamless: false,
    };

    async fn run(service: Memory, plan: Plan) -> Outcome {
        let service = Rc::new(service);
        let load = Load::new(vec![service; plan.concurrency], plan).unwrap();
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
    async fn the_calls_of_a_round_are_counted_one_by_one() {
        let outcome = run(Memory::default(), Plan { batch: 5, pipeline: 8, ..PLAN }).await;
        assert_eq!((outcome.latency.calls(), outcome.numbers), (100, 500), "the last round is a short one");
        assert_eq!(outcome.checker.unwrap().tally().violations(), 0);
    }

    #[tokio::test]
    async fn an_open_loop_counts_from_when_calls_are_due() {
        // One worker, a millisecond for a round of one: a tenth of what is due gets sent.
        let end = End::After(Duration::from_millis(200));
        let plan = Plan { concurrency: 1, rate: Some(10_000.0), end, check: false, ..PLAN };
        let outcome = run(Memory::default(), plan).await;
        assert!(outcome.unsent > 1_000, "{}", outcome.unsent);
        let late = outcome.latency.percentiles();
        assert!(late.max_us > 100_000 && late.p50_us > 50_000, "{late:?}");
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
        assert_eq!(outcome.longest_silence, outcome.took, "all of it was silence");
        assert!(outcome.took > Duration::ZERO);
    }
}
