//! The load generator of `seqsvr bench`. Each of its workers sends calls in rounds, and has one round in flight at a
//! time. A run begins with a warm-up. The measured part follows the warm-up.
//!
//! In a closed loop, a worker sends its next round when all replies to its previous round have arrived, so the rate of
//! calls adapts to the speed of the service. In an open loop, calls are scheduled at a fixed rate (see [`OpenLoop`]),
//! and the number of workers only limits the number of calls in flight.
//!
//! Workers are futures on one thread, so they share the state of the load without a lock. They never borrow the state
//! across an `await`.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use futures::future::join_all;
use seq_order::{CallId, Checker, User};
use tokio::time::Instant;

use crate::endpoint::Transport;
use crate::key_distribution::{Distribution, UidSampler};
use crate::latency::Latency;
use crate::open_loop::OpenLoop;
use crate::reply::{self, Reasons, Reply};
use crate::silence::Silence;
use crate::time_series::TimeSeries;

/// Pause of a worker after a round that got no number. Without the pause, the worker would send rounds to an
/// unavailable service in a busy loop.
const AFTER_FAILURE: Duration = Duration::from_millis(10);

/// The parameters of a load.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Number of workers.
    pub concurrency: usize,
    /// Calls per round of a worker, 1 or above.
    pub pipeline: usize,
    /// Uids per call, 1 or above.
    pub batch: usize,
    /// Duration of the warm-up.
    pub warmup: Duration,
    /// End of the measured part.
    pub end: End,
    /// Calls scheduled per second; `None` in a closed loop.
    pub rate: Option<f64>,
    /// The first uid.
    pub first_uid: u64,
    /// Number of uids, 1 or above.
    pub uids: u32,
    /// Distance between two uids, 1 or above.
    pub uid_stride: u64,
    /// Distribution of the calls over the uids.
    pub distribution: Distribution,
    /// Seed of the distribution.
    pub seed: u64,
    /// Whether the order is checked.
    pub check: bool,
    /// Whether a failed item, or a number that is skipped, is a violation. See [`Checker::seamless`].
    pub seamless: bool,
}

impl Plan {
    /// Returns the uid of a user.
    #[must_use]
    pub fn uid(&self, user: User) -> u64 {
        self.first_uid + u64::from(user.0) * self.uid_stride
    }
}

/// End of the measured part.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// After this time.
    After(Duration),
    /// After this number of calls.
    Calls(u64),
}

/// A running load.
#[derive(Debug)]
pub struct Load<L> {
    transports: RefCell<Vec<L>>,
    plan: Plan,
    began: Instant,
    open_loop: Option<OpenLoop>,
    stopping: Cell<bool>,
    /// Start of the measured part, since `began`. Calls sent before it are not counted.
    measured_from: Cell<Option<Duration>>,
    /// Number of measured calls sent so far.
    sent: Cell<u64>,
    state: RefCell<Outcome>,
}

/// The results of a load.
#[derive(Debug)]
pub struct Outcome {
    /// Order checker with the history of all calls, including the calls of the warm-up; `None` if the order is not
    /// checked.
    pub checker: Option<Checker>,
    /// Latency of the measured calls.
    pub latency: Latency,
    /// The measured part, second by second.
    pub time_series: TimeSeries,
    /// Numbers allocated by measured calls.
    pub numbers: u64,
    /// Numbers allocated by all calls, including the calls of the warm-up.
    pub all_numbers: u64,
    /// Failed items of measured calls, by reason.
    pub failed_items: Reasons,
    /// Number of scheduled calls of an open loop that were not sent, because every worker had a round in flight.
    pub unsent: u64,
    /// Length of the measured part.
    pub took: Duration,
    /// Time without a number in the measured part.
    pub silence: Silence,
}

/// A round to send.
struct Round {
    calls: usize,
    /// Time from which the latency of the round's calls counts. In an open loop, it is the scheduled time of the
    /// round's first call; in a closed loop, the time at which the round is sent.
    due: Duration,
    measured: bool,
}

impl<L: Transport> Load<L> {
    /// Creates a load, with one transport for each worker. Its warm-up and the schedule of an open loop start now; its
    /// calls start with [`Load::run`].
    ///
    /// # Errors
    /// If the thread of an open loop cannot be started.
    ///
    /// # Panics
    /// If the number of transports differs from the number of workers.
    pub fn new(transports: Vec<L>, plan: Plan) -> std::io::Result<Load<L>> {
        assert_eq!(transports.len(), plan.concurrency);
        let state = Outcome {
            checker: plan.check.then(|| checker(plan)),
            latency: Latency::new(),
            time_series: TimeSeries::default(),
            numbers: 0,
            all_numbers: 0,
            failed_items: Reasons::new(),
            unsent: 0,
            took: Duration::ZERO,
            silence: Silence::default(),
        };
        Ok(Load {
            transports: RefCell::new(transports),
            plan,
            began: Instant::now(),
            open_loop: plan.rate.map(OpenLoop::start).transpose()?,
            stopping: Cell::new(false),
            measured_from: Cell::new(None),
            sent: Cell::new(0),
            state: RefCell::new(state),
        })
    }

    /// Sends the calls of the plan. Completes when the last call has ended.
    ///
    /// # Cancel safety
    /// Dropping the future abandons the calls in flight, so the outcome lacks them.
    pub async fn run(&self) {
        let transports = self.transports.take();
        join_all(transports.into_iter().enumerate().map(|(worker, transport)| self.work(worker, transport))).await;
        let mut state = self.state.borrow_mut();
        let now = self.began.elapsed();
        state.took = now.saturating_sub(self.measured_from.get().unwrap_or(now));
        // The time from the last number to the end of the run counts as silence, too.
        state.silence.extend(now);
        state.time_series.close();
        if let (Some(open_loop), End::After(duration), Some(from)) =
            (&self.open_loop, self.plan.end, self.measured_from.get())
        {
            state.unsent = open_loop.unsent(self.began + (from + duration).min(now));
        }
    }

    /// Stops sending calls; calls in flight complete.
    pub fn stop(&self) {
        self.stopping.set(true);
        self.open_loop.as_ref().inspect(|open_loop| open_loop.stop());
    }

    /// Returns the progress of the measured part. It is in milliseconds if the plan is [`End::After`] a time, and a
    /// number of calls if the plan is [`End::Calls`].
    pub fn progress(&self) -> u64 {
        match (self.plan.end, self.measured_from.get()) {
            (_, None) => 0,
            (End::After(_), Some(from)) => self.began.elapsed().saturating_sub(from).as_millis() as u64,
            (End::Calls(_), Some(_)) => self.sent.get(),
        }
    }

    /// Consumes the load and returns its results.
    pub fn into_outcome(self) -> Outcome {
        self.state.into_inner()
    }

    async fn work(&self, worker: usize, mut transport: L) {
        let Plan { batch, pipeline, uids, distribution, seed, .. } = self.plan;
        let mut sampler = UidSampler::new(distribution, uids, seed, worker..self.plan.concurrency);
        let (mut users, mut requested) = (Vec::with_capacity(batch * pipeline), Vec::with_capacity(batch * pipeline));
        let (mut calls, mut replies) = (Vec::new(), Vec::with_capacity(batch * pipeline));
        while let Some(round) = self.admit().await {
            users.clear();
            users.extend((0..round.calls * batch).map(|_| sampler.sample()));
            requested.clear();
            requested.extend(users.iter().map(|user| self.plan.uid(*user)));
            replies.clear();
            let sent = self.began.elapsed();
            if let Some(checker) = &mut self.state.borrow_mut().checker {
                calls.extend(users.chunks(batch).map(|users| checker.start(sent, users.iter().copied())));
            }
            transport.round(&requested, &mut replies).await;
            assert_eq!(replies.len(), requested.len(), "one reply for each uid");
            let now = self.began.elapsed();
            self.state.borrow_mut().end(&mut calls, batch, &round, now, &replies, self.measured_from.get());
            if replies.iter().all(|reply| matches!(reply, Reply::Failed(_))) {
                tokio::time::sleep(AFTER_FAILURE).await;
            }
        }
    }

    /// Waits until a call is due. Returns the scheduled time of the first due call and the number of calls for one
    /// round; `None` at the end of the load. In a closed loop, a full round is always due.
    async fn due(&self) -> Option<(Duration, usize)> {
        let Some(open_loop) = &self.open_loop else { return Some((self.began.elapsed(), self.plan.pipeline)) };
        loop {
            let (due, calls) = open_loop.take(self.plan.pipeline).await?;
            let due = due.saturating_duration_since(self.began);
            // If the service is overloaded, calls scheduled in the warm-up may still be unsent at the end of the
            // warm-up. They are dropped here, so that they do not delay the calls of the measured part.
            if due >= self.plan.warmup || self.began.elapsed() < self.plan.warmup {
                return Some((due, calls));
            }
        }
    }

    /// Waits until a round may be sent. Returns `None` at the end of the load.
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
            self.state.borrow_mut().silence = Silence::since(due);
            due
        });
        let more = match self.plan.end {
            // The end of the measured part limits both the scheduled time of a call and the current time, so that calls
            // that an overloaded service has delayed past this end count as unsent instead of being sent.
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
        replies: &[Reply],
        measured_from: Option<Duration>,
    ) {
        if let Some(checker) = &mut self.checker {
            for (call, replies) in calls.drain(..).zip(replies.chunks(batch)) {
                checker.end(call, now, replies.iter().map(Reply::outcome));
            }
        }
        let given = replies.iter().filter(|reply| matches!(reply, Reply::Given { .. })).count() as u64;
        self.all_numbers += given;
        let Some(from) = measured_from.filter(|_| round.measured) else { return };
        let took = now - round.due;
        self.latency.record_n(took, round.calls as u64);
        self.time_series.add(now - from, round.calls as u64, given, replies.len() as u64 - given, took);
        self.numbers += given;
        if given < replies.len() as u64 {
            reply::count_failures(&mut self.failed_items, replies);
        }
        if given > 0 {
            self.silence.end(now);
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
    use crate::reply::Failure;

    /// Service in memory that takes a millisecond for a round. All uids share one counter, which does not move if
    /// `stuck`.
    #[derive(Default)]
    struct Memory {
        last: Cell<u64>,
        stuck: bool,
        dead: bool,
    }

    impl Transport for Rc<Memory> {
        async fn round(&mut self, uids: &[u64], replies: &mut Vec<Reply>) {
            for _ in uids {
                if self.dead {
                    let failure =
                        Failure { reason: "UNREACHABLE".into(), message: "no".into(), retryable: true, lost: 0 };
                    replies.push(Reply::Failed(Rc::new(failure)));
                    continue;
                }
                self.last.set(if self.stuck { 1 } else { self.last.get() + 1 });
                replies.push(Reply::Given { value: Seq(self.last.get()), prev: Seq(0), lost: 0 });
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
        uid_stride: 1,
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
    async fn an_open_loop_measures_from_the_scheduled_time() {
        // One worker with a millisecond per round of one call sends a tenth of the scheduled calls.
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
    async fn duplicate_numbers_are_found() {
        let outcome = run(Memory { stuck: true, ..Memory::default() }, PLAN).await;
        let tally = outcome.checker.unwrap().tally();
        assert!(tally.duplicates > 50 && tally.decreases > 50, "{tally:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_dead_service_is_counted_by_reason() {
        let outcome = run(Memory { dead: true, ..Memory::default() }, PLAN).await;
        assert_eq!((outcome.numbers, outcome.failed_items["UNREACHABLE"]), (0, 100));
        assert_eq!(outcome.silence.longest(), outcome.took, "the whole run was silence");
        assert!(outcome.took > Duration::ZERO);
    }
}
