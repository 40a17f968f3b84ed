//! Callers of the SDK, over every section, and the book that is kept of their calls.
//!
//! Each section is asked by callers of its own, evenly, so that a time without an answer is seen; beside them others take
//! several numbers at once, take for many sections in one call, read, and raise uids by name. All callers are in the
//! history: each number that a `prev` or an exact read names must have been given out.
//!
//! Strangers know no routes and keep to one node, whatever becomes of it: when a section has a new owner, the others go
//! there, and the strangers' calls, sent on and on over a connection that nobody gives up, are what an old owner would
//! wrongly answer. Only the order of what they are given counts. Everything goes through the order checker:
//! a start is noted before the call is sent and an end after it was answered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::future::{BoxFuture, join_all};
use futures::stream::FuturesUnordered;
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use seq_client::{Allocation, CallError, Client};
use seq_order::{Advancing, Checker, Outcome, Reading, User};
use seq_proto::v1;
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

use crate::cluster::{Cluster, SECTION_SIZE, STEP};
use crate::machine::eventually;

/// Users of a section: few, so that each is asked often.
const USERS_PER_SECTION: u32 = 4;

/// How many callers each section has of its own, and how long each waits between two calls. A section without an answer
/// is seen to within about the wait divided by the callers.
const PROBES: u32 = 2;
const PROBE_EVERY: Duration = Duration::from_millis(40);

/// Callers of other kinds, and how long each waits between two calls.
const MIXED: u64 = 4;
const MIXED_EVERY: Duration = Duration::from_millis(30);

/// Most numbers that one item takes.
const MAX_COUNT: u32 = 20;

/// Users of one call for many.
const BATCH: usize = 8;

/// How often each stranger calls, without waiting for its earlier calls.
const STRANGE_EVERY: Duration = Duration::from_millis(100);

/// How often the caller that raises uids by name does so: seldom, because the step is met each time.
const ADVANCE_EVERY: Duration = Duration::from_millis(150);

/// How far below the largest number of its uid an advance may name one.
const ADVANCE_BACK: u64 = 50;

/// Attempts that may have taken numbers in a call that failed: the SDK says whether there was one, not how many, and a node
/// that was asked may have asked another.
const UNKNOWN_ATTEMPTS: u32 = 8;

/// The deadline of a call: the SDK's own.
const DEADLINE: Duration = seq_client::DEADLINE;

/// A load under way.
pub(crate) struct Load {
    book: Arc<Mutex<Book>>,
    stopping: Arc<AtomicBool>,
    strangers: Arc<Strangers>,
    thread: Option<JoinHandle<()>>,
}

/// What the strangers do.
#[derive(Default)]
struct Strangers {
    sent_home: AtomicBool,
    in_flight: AtomicUsize,
}

/// What is known of the calls so far.
struct Book {
    began: Instant,
    checker: Checker,
    advances: u64,
    micros: Histogram<u64>,
    sections: Vec<SectionBook>,
    calls: u64,
    failures: Failures,
}

/// Items without a number, by reason.
pub(crate) type Failures = BTreeMap<String, u64>;

/// One section, as its callers see it.
#[derive(Clone, Debug, Default)]
struct SectionBook {
    /// When its last answer came.
    answered: Option<Duration>,
    /// The longest time without one, and when that ended.
    longest: Duration,
    longest_until: Duration,
    failed: u64,
}

/// What came of a load.
pub(crate) struct Report {
    pub(crate) tally: seq_order::Tally,
    details: Vec<seq_order::Violation>,
    phantoms: Vec<seq_order::Phantom>,
    /// Advances that were done.
    advances: u64,
    /// Per section: the longest time without an answer, and calls that failed.
    pub(crate) unserved: Vec<Duration>,
    pub(crate) failed: Vec<u64>,
    pub(crate) failures: Failures,
    pub(crate) calls: u64,
    percentiles: [(f64, u64); 4],
    worst_at: Duration,
}

impl Load {
    /// Starts the callers and waits until every section has answered.
    pub(crate) fn start(cluster: &Cluster) -> Load {
        let sections = cluster.shape.sections;
        let mut checker = Checker::new((sections * USERS_PER_SECTION) as usize);
        checker.complete();
        let book = Book {
            began: Instant::now(),
            checker,
            advances: 0,
            micros: Histogram::new_with_bounds(1, 600_000_000, 3).unwrap(),
            sections: vec![SectionBook::default(); sections as usize],
            calls: 0,
            failures: Failures::new(),
        };
        let (book, stopping) = (Arc::new(Mutex::new(book)), Arc::new(AtomicBool::new(false)));
        let strangers = Arc::new(Strangers::default());
        let (seeds, callers) = (
            cluster.seeds(),
            Callers { book: book.clone(), stopping: stopping.clone(), strangers: strangers.clone(), sections },
        );
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(callers.run(&seeds));
        });
        let load = Load { book, stopping, strangers, thread: Some(thread) };
        load.wait_served();
        load
    }

    /// Waits until every section has answered a call that ended after now.
    pub(crate) fn wait_served(&self) {
        let now = self.book.lock().began.elapsed();
        eventually("every section answers", || {
            let book = self.book.lock();
            book.sections.iter().all(|section| section.answered > Some(now)).then_some(())
        });
    }

    /// Forgets the times without an answer and the failures so far: what is measured begins now.
    pub(crate) fn reset(&self) {
        let mut book = self.book.lock();
        let now = book.began.elapsed();
        for section in &mut book.sections {
            *section = SectionBook { answered: Some(now), ..SectionBook::default() };
        }
        book.failures.clear();
        book.micros.reset();
        book.calls = 0;
    }

    /// From here on sections only move as planned: every call gets its number, and none is left out. The strangers go
    /// home: whoever keeps to one node cannot be served by others while that one is away.
    pub(crate) fn seamless(&self) {
        self.strangers.sent_home.store(true, Ordering::Relaxed);
        eventually("the strangers are gone", || (self.strangers.in_flight.load(Ordering::Relaxed) == 0).then_some(()));
        self.book.lock().checker.seamless();
    }

    /// What came of it so far.
    pub(crate) fn report(&self) -> Report {
        let mut book = self.book.lock();
        let now = book.began.elapsed();
        book.sections.iter_mut().for_each(|section| section.silent_until(now));
        let percentiles = [0.5, 0.99, 0.999, 1.0].map(|at| (at, book.micros.value_at_quantile(at)));
        let worst = book.sections.iter().max_by_key(|section| section.longest);
        Report {
            tally: book.checker.tally(),
            details: book.checker.details().to_vec(),
            phantoms: book.checker.phantoms(),
            advances: book.advances,
            unserved: book.sections.iter().map(|section| section.longest).collect(),
            failed: book.sections.iter().map(|section| section.failed).collect(),
            failures: book.failures.clone(),
            calls: book.calls,
            percentiles,
            worst_at: worst.map_or(Duration::ZERO, |section| section.longest_until),
        }
    }

    /// Lets every call end and answers what came of all.
    pub(crate) fn finish(mut self) -> Report {
        self.stop();
        self.report()
    }

    fn stop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic in it has been printed; the test must fail of it.
            assert!(thread.join().is_ok() || std::thread::panicking(), "the callers panicked");
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop();
    }
}

impl SectionBook {
    fn silent_until(&mut self, now: Duration) {
        if let Some(silent) = self.answered.map(|before| now - before).filter(|silent| *silent > self.longest) {
            (self.longest, self.longest_until) = (silent, now);
        }
    }
}

impl Report {
    /// Whatever the fault, the order holds.
    #[track_caller]
    pub(crate) fn assert_order(&self) {
        assert!(self.tally.allocations > 0, "nothing was given out");
        assert_eq!(self.tally.violations(), 0, "{:?}\n{:#?}\n{:#?}", self.tally, self.details, self.phantoms);
    }

    /// The longest time without an answer among some sections.
    pub(crate) fn longest(&self, sections: impl IntoIterator<Item = usize>) -> Duration {
        sections.into_iter().map(|section| self.unserved[section]).max().unwrap_or_default()
    }

    /// One line for people.
    pub(crate) fn print(&self, what: &str) {
        let times: Vec<String> =
            self.percentiles.iter().map(|(at, us)| format!("p{} {:.1} ms", at * 100.0, *us as f64 / 1e3)).collect();
        let failed: u64 = self.failures.values().sum();
        println!(
            "  {what}: {} numbers in {} calls, {} advances, {} violations, {failed} failed items {:?}, longest unserved {:.2} s (until {:.1} s), {}",
            self.tally.allocations,
            self.calls,
            self.advances,
            self.tally.violations(),
            self.failures,
            self.longest(0..self.unserved.len()).as_secs_f64(),
            self.worst_at.as_secs_f64(),
            times.join(", "),
        );
    }
}

/// Those who call.
struct Callers {
    book: Arc<Mutex<Book>>,
    stopping: Arc<AtomicBool>,
    strangers: Arc<Strangers>,
    sections: u32,
}

impl Callers {
    async fn run(&self, seeds: &[String]) {
        let connect = || async {
            loop {
                let builder = Client::builder().deadline(DEADLINE).connections(2);
                match seeds.iter().fold(builder, |builder, seed| builder.seed(seed)).connect().await {
                    Ok(client) => return client,
                    Err(error) if error.is_retryable() => tokio::time::sleep(PROBE_EVERY).await,
                    Err(error) => panic!("callers cannot connect: {error}"),
                }
            }
        };
        // Two of them, so that one can have routes that the other has not.
        let clients = [connect().await, connect().await];
        let probes = (0..self.sections * PROBES).map(|at| {
            let client = &clients[(at % PROBES) as usize % clients.len()];
            Box::pin(self.probe(client, at / PROBES)) as BoxFuture<'_, ()>
        });
        let mixed =
            (0..MIXED).map(|at| Box::pin(self.mixed(&clients[at as usize % clients.len()], at)) as BoxFuture<'_, ()>);
        let strangers = seeds.iter().map(|addr| Box::pin(self.stranger(addr)) as BoxFuture<'_, ()>);
        let advancing = std::iter::once(Box::pin(self.advancing(seeds)) as BoxFuture<'_, ()>);
        join_all(probes.chain(mixed).chain(strangers).chain(advancing)).await;
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    async fn probe(&self, client: &Client, section: u32) {
        while !self.is_stopping() {
            let user = section * USERS_PER_SECTION + fastrand::u32(..USERS_PER_SECTION);
            self.take(&[user], async { vec![client.next(uid(user)).await] }, 1).await;
            tokio::time::sleep(PROBE_EVERY).await;
        }
    }

    async fn mixed(&self, client: &Client, kind: u64) {
        let users = self.sections * USERS_PER_SECTION;
        while !self.is_stopping() {
            match kind % MIXED {
                0 => {
                    let (user, count) = (fastrand::u32(..users), fastrand::u32(1..=MAX_COUNT));
                    self.take(&[user], async { vec![client.next_n(uid(user), count).await] }, count).await;
                }
                1 => {
                    let many: Vec<u32> = (0..BATCH).map(|_| fastrand::u32(..users)).collect();
                    let uids: Vec<u64> = many.iter().copied().map(uid).collect();
                    let all =
                        async { client.next_many(&uids).await.unwrap_or_else(|error| vec![Err(error); uids.len()]) };
                    self.take(&many, all, 1).await;
                }
                _ => self.read(client, fastrand::u32(..users)).await,
            }
            tokio::time::sleep(MIXED_EVERY).await;
        }
    }

    /// Raises a uid by name now and then: around where it stands, now and then past the ceiling.
    async fn advancing(&self, seeds: &[String]) {
        let nodes: Vec<Channel> = seeds.iter().map(|addr| channel(addr)).collect();
        while !self.is_stopping() {
            let user = User(fastrand::u32(..self.sections * USERS_PER_SECTION));
            let (id, to) = {
                let mut book = self.book.lock();
                let to = book.checker.floor(user).saturating_sub(ADVANCE_BACK) + fastrand::u64(..2 * STEP);
                let now = book.began.elapsed();
                (book.checker.start_advance(now, user, to), to)
            };
            let ended = tokio::time::timeout(DEADLINE, advance(&nodes, user, to)).await.unwrap_or(Advancing::Failed);
            {
                let mut book = self.book.lock();
                let now = book.began.elapsed();
                book.advances += u64::from(ended == Advancing::Done);
                book.checker.end_advance(id, now, ended);
            }
            tokio::time::sleep(ADVANCE_EVERY).await;
        }
    }

    async fn stranger(&self, addr: &str) {
        let channel = channel(addr);
        let mut calls = FuturesUnordered::new();
        let mut tick = tokio::time::interval(STRANGE_EVERY);
        loop {
            let done = self.is_stopping() || self.strangers.sent_home.load(Ordering::Relaxed);
            tokio::select! {
                _ = tick.tick(), if !done => {
                    self.strangers.in_flight.fetch_add(1, Ordering::Relaxed);
                    calls.push(self.strange_call(channel.clone()));
                }
                Some(()) = calls.next() => {
                    self.strangers.in_flight.fetch_sub(1, Ordering::Relaxed);
                }
                () = std::future::ready(()), if done && calls.is_empty() => return,
            }
        }
    }

    async fn strange_call(&self, channel: Channel) {
        let user = User(fastrand::u32(..self.sections * USERS_PER_SECTION));
        let id = {
            let mut book = self.book.lock();
            let now = book.began.elapsed();
            book.checker.start(now, [user])
        };
        let question = v1::NextRequest { uid: uid(user.0), count: 1, ..v1::NextRequest::default() };
        let answer = tokio::time::timeout(DEADLINE, SequenceServiceClient::new(channel).next(question)).await;
        let outcome = match answer {
            Ok(Ok(answer)) => {
                let answer = answer.into_inner();
                Outcome::Given { value: answer.value, prev: answer.prev, count: 1, lost: answer.lost.unwrap_or(0) }
            }
            Ok(Err(_)) | Err(_) => Outcome::Maybe { lost: UNKNOWN_ATTEMPTS },
        };
        let mut book = self.book.lock();
        let now = book.began.elapsed();
        book.checker.end(id, now, [outcome]);
    }

    async fn take(&self, users: &[u32], call: impl Future<Output = Vec<Result<Allocation, CallError>>>, count: u32) {
        let (id, sent) = {
            let mut book = self.book.lock();
            let now = book.began.elapsed();
            (book.checker.start(now, users.iter().copied().map(User)), now)
        };
        let results = call.await;
        let mut book = self.book.lock();
        let now = book.began.elapsed();
        let outcome = |result: &Result<Allocation, CallError>| match result {
            Ok(given) => Outcome::Given { value: given.value, prev: given.prev, count, lost: given.lost },
            Err(error) if error.may_have_applied() => Outcome::Maybe { lost: UNKNOWN_ATTEMPTS },
            Err(_) => Outcome::Refused,
        };
        book.checker.end(id, now, results.iter().map(outcome));
        book.note(sent, now, users, results.iter().map(|result| result.as_ref().err()));
    }

    async fn read(&self, client: &Client, user: u32) {
        let (id, sent) = {
            let mut book = self.book.lock();
            let now = book.began.elapsed();
            (book.checker.start_read(now, [User(user)]), now)
        };
        let result = client.current(uid(user)).await;
        let mut book = self.book.lock();
        let now = book.began.elapsed();
        let reading = match &result {
            Ok(current) if current.exact => Reading::Exact(current.value),
            Ok(current) => Reading::UpperBound(current.value),
            Err(_) => Reading::Failed,
        };
        book.checker.end_read(id, now, [reading]);
        book.note(sent, now, &[user], [result.as_ref().err()].into_iter());
    }
}

impl Book {
    fn note<'a>(
        &mut self,
        sent: Duration,
        now: Duration,
        users: &[u32],
        errors: impl Iterator<Item = Option<&'a CallError>>,
    ) {
        self.calls += 1;
        let micros = u64::try_from((now - sent).as_micros()).unwrap_or(u64::MAX);
        self.micros.saturating_record(micros.max(1));
        for (user, error) in users.iter().zip(errors) {
            let section = &mut self.sections[(user / USERS_PER_SECTION) as usize];
            match error {
                None => {
                    section.silent_until(now);
                    section.answered = Some(now);
                }
                Some(error) => {
                    section.failed += 1;
                    *self.failures.entry(reason(error)).or_default() += 1;
                }
            }
        }
    }
}

/// Raises a user to a number, through one node after the other until one answers: a repeat changes nothing.
async fn advance(nodes: &[Channel], user: User, to: u64) -> Advancing {
    let request = v1::AdvanceRequest { uid: uid(user.0), to, ..v1::AdvanceRequest::default() };
    loop {
        let node = nodes[fastrand::usize(..nodes.len())].clone();
        match SequenceServiceClient::new(node).advance(request).await {
            Ok(_) => return Advancing::Done,
            Err(status) if status.code() == Code::FailedPrecondition => return Advancing::Past,
            Err(_) => tokio::time::sleep(PROBE_EVERY).await,
        }
    }
}

/// A connection that lasts, without pings, so that what lies in a stopped node's sockets stays there.
fn channel(addr: &str) -> Channel {
    Endpoint::from_shared(format!("http://{addr}")).unwrap().connect_timeout(DEADLINE).connect_lazy()
}

fn reason(error: &CallError) -> String {
    match error {
        CallError::Refused(refused) => format!("{}:{}", refused.code as i32, refused.reason),
        CallError::Unreachable(_) => "UNREACHABLE".to_owned(),
        CallError::DeadlineExceeded { .. } => "DEADLINE_EXCEEDED".to_owned(),
        other => format!("{other:?}"),
    }
}

/// The uid of a user: spread over its section.
fn uid(user: u32) -> u64 {
    let (section, place) = (user / USERS_PER_SECTION, user % USERS_PER_SECTION);
    u64::from(section) * u64::from(SECTION_SIZE) + u64::from(place * (SECTION_SIZE / USERS_PER_SECTION))
}
