//! Callers over every section, the order checker over their calls, and the times without a response.
//!
//! Each section has its own callers, evenly paced, so that a time without a response is detected. Other callers
//! allocate several seqs at once, call for many sections, read, and advance uids. All of them are in the history: each
//! seq in a `prev` or an exact read must have been allocated.
//!
//! Stale clients have no routes, and each keeps to one node. When a section has a new owner, the other callers go
//! there, and the stale clients' calls, over a connection that stays open, are the calls that a replaced owner would
//! wrongly serve. For stale clients, only the order of the allocated seqs counts.
//!
//! `keys` has callers over keys of a keyspace instead. Times without a response are measured for groups of users: the
//! users of a section, or the keys with the same prefix.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::future::{LocalBoxFuture, join_all};
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use seq_client::{CallError, Client};
use seq_load::caller::{self, AdvanceRange, Ended, History, UidHistory};
use seq_load::latency::Latency;
use seq_load::outcome;
use seq_load::reply::Reasons;
use seq_load::silence::Silence;
use seq_order::{Advancing, Checker, User};
use seq_testkit::eventually;
use tonic::transport::{Channel, Endpoint};

use crate::cluster::{Cluster, SECTION_SIZE, STEP};

pub(crate) mod keys;

/// Users of a section: few, so that each user is called for often.
const USERS_PER_SECTION: u32 = 4;

/// Callers of each section, and the pause of each between two calls. A time without a response is measured with a
/// precision of about the pause divided by the callers.
const PROBES: u32 = 2;
const PROBE_PAUSE: Duration = Duration::from_millis(40);

/// Callers of other kinds, and the pause of each between two calls.
const MIXED: u32 = 4;
const MIXED_PAUSE: Duration = Duration::from_millis(30);

/// Largest count of one item.
const MAX_COUNT: u32 = 20;

/// Users of one batch.
const BATCH: usize = 8;

/// Interval of each stale client's calls, even if earlier calls are in flight.
const STALE_INTERVAL: Duration = Duration::from_millis(100);

/// Pause of the caller that advances uids: long, because most advances take a step.
const ADVANCE_PAUSE: Duration = Duration::from_millis(150);

/// Range of advances: from a number slightly below the largest seq of the uid to a number past its ceiling.
const ADVANCES: AdvanceRange = AdvanceRange { below: 50, width: 2 * STEP, deadline: DEADLINE, pause: PROBE_PAUSE };

/// The deadline of a call: the SDK's default.
const DEADLINE: Duration = seq_client::DEADLINE;

/// A running load.
pub(crate) struct Load {
    record: Record,
    stale_clients: Arc<StaleClients>,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// State of the stale clients.
#[derive(Default)]
struct StaleClients {
    stopping: AtomicBool,
    in_flight: AtomicUsize,
}

/// The history and the figures of all calls so far. Clones share one state.
#[derive(Clone)]
struct Record(Arc<Mutex<State>>);

struct State {
    began: Instant,
    checker: Checker,
    /// Advances that succeeded.
    advances: u64,
    latency: Latency,
    users_per_group: u32,
    groups: Vec<Group>,
    failures: Reasons,
}

/// One group of users, as their callers observe it.
#[derive(Clone, Debug, Default)]
struct Group {
    silence: Silence,
    failed: u64,
    /// Items whose numbers do not begin right after their `prev`.
    skips: u64,
}

/// The results of a load.
pub(crate) struct Report {
    pub(crate) tally: seq_order::Tally,
    details: Vec<seq_order::Violation>,
    phantoms: Vec<seq_order::Phantom>,
    /// Advances that succeeded.
    advances: u64,
    /// For each group of users, the longest time without a response, the number of failed items, and the number of
    /// items that skipped numbers.
    pub(crate) unserved: Vec<Duration>,
    pub(crate) failed: Vec<u64>,
    pub(crate) skips: Vec<u64>,
    /// Items without a seq, by reason.
    pub(crate) failures: Reasons,
    pub(crate) calls: u64,
    pub(crate) latency: seq_load::latency::Percentiles,
    /// End of the longest time without a response.
    worst_until: Duration,
}

impl Load {
    /// Starts the callers for uids, and waits until every section is served.
    pub(crate) fn start(cluster: &Cluster) -> Load {
        let (sections, seeds) = (cluster.shape.sections, cluster.seeds());
        Load::spawn(sections, USERS_PER_SECTION, async move |record, stopping, stale_clients| {
            Callers { record, stopping, stale_clients, sections }.run(&seeds).await;
        })
    }

    /// Starts a thread of callers for groups of users, and waits until every group is served.
    fn spawn<C>(groups: u32, users_per_group: u32, callers: C) -> Load
    where
        C: AsyncFnOnce(Record, Arc<AtomicBool>, Arc<StaleClients>) + Send + 'static,
    {
        let mut checker = Checker::new((groups * users_per_group) as usize);
        checker.complete();
        let state = State {
            began: Instant::now(),
            checker,
            advances: 0,
            latency: Latency::new(),
            users_per_group,
            groups: vec![Group::default(); groups as usize],
            failures: Reasons::new(),
        };
        let (record, stopping) = (Record(Arc::new(Mutex::new(state))), Arc::new(AtomicBool::new(false)));
        let stale_clients = Arc::new(StaleClients::default());
        let shared = (record.clone(), stopping.clone(), stale_clients.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(callers(shared.0, shared.1, shared.2));
        });
        let load = Load { record, stopping, stale_clients, thread: Some(thread) };
        load.wait_served();
        load
    }

    /// Waits until a call for every group has succeeded that began after this point.
    pub(crate) fn wait_served(&self) {
        let now = self.record.now();
        eventually("every section or group of keys is served", || {
            let state = self.record.0.lock();
            state.groups.iter().all(|group| group.silence.last() > Some(now)).then_some(())
        });
    }

    /// Restarts the measurement: times without a response, failures and latency.
    pub(crate) fn reset(&self) {
        let mut state = self.record.0.lock();
        let now = state.began.elapsed();
        for group in &mut state.groups {
            *group = Group { silence: Silence::since(now), ..Group::default() };
        }
        state.failures.clear();
        state.latency.reset();
    }

    /// Restricts the load to faults in which sections change owner only by handover: every call gets its seq, and no
    /// seq is missing. The stale clients end, because a client that keeps to one node is not served while that node is
    /// down.
    pub(crate) fn seamless(&self) {
        self.stale_clients.stopping.store(true, Ordering::Relaxed);
        eventually("the stale clients have ended", || {
            (self.stale_clients.in_flight.load(Ordering::Relaxed) == 0).then_some(())
        });
        self.record.0.lock().checker.seamless();
    }

    /// Returns the results so far.
    pub(crate) fn report(&self) -> Report {
        let mut state = self.record.0.lock();
        let now = state.began.elapsed();
        state.groups.iter_mut().for_each(|group| group.silence.extend(now));
        let silences = || state.groups.iter().map(|group| &group.silence);
        let worst = silences().max_by_key(|silence| silence.longest());
        Report {
            tally: state.checker.tally(),
            details: state.checker.details().to_vec(),
            phantoms: state.checker.phantoms(),
            advances: state.advances,
            unserved: silences().map(Silence::longest).collect(),
            failed: state.groups.iter().map(|group| group.failed).collect(),
            skips: state.groups.iter().map(|group| group.skips).collect(),
            failures: state.failures.clone(),
            calls: state.latency.calls(),
            latency: state.latency.percentiles(),
            worst_until: worst.map_or(Duration::ZERO, Silence::longest_until),
        }
    }

    /// Completes all calls, and returns the results.
    pub(crate) fn finish(mut self) -> Report {
        self.stop();
        self.report()
    }

    fn stop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed; it must also fail the test.
            assert!(thread.join().is_ok() || std::thread::panicking(), "the callers panicked");
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Report {
    /// Asserts the order, which holds under every fault.
    #[track_caller]
    pub(crate) fn assert_order(&self) {
        assert!(self.tally.allocations > 0, "no number was allocated");
        assert_eq!(self.tally.violations(), 0, "{:?}\n{:#?}\n{:#?}", self.tally, self.details, self.phantoms);
    }

    /// Returns the longest time without a response among some groups.
    pub(crate) fn longest(&self, groups: impl IntoIterator<Item = usize>) -> Duration {
        groups.into_iter().map(|group| self.unserved[group]).max().unwrap_or_default()
    }

    /// Prints a summary line.
    pub(crate) fn print(&self, what: &str) {
        let failed: u64 = self.failures.values().sum();
        println!(
            "  {what}: {} numbers in {} calls, {} advances, {} violations, {failed} failed items {:?}, longest unserved {:.2} s (until {:.1} s), {}",
            self.tally.allocations,
            self.calls,
            self.advances,
            self.tally.violations(),
            self.failures,
            self.longest(0..self.unserved.len()).as_secs_f64(),
            self.worst_until.as_secs_f64(),
            self.latency,
        );
    }
}

/// All callers.
struct Callers {
    record: Record,
    stopping: Arc<AtomicBool>,
    stale_clients: Arc<StaleClients>,
    sections: u32,
}

impl Callers {
    async fn run(&self, seeds: &[String]) {
        // There are two clients, so that their routes can differ.
        let clients = [connect(seeds).await, connect(seeds).await];
        let client = |at: u32| &clients[at as usize % clients.len()];
        let probes = (0..self.sections * PROBES)
            .map(|at| Box::pin(self.probe(client(at % PROBES), at / PROBES)) as LocalBoxFuture<'_, ()>);
        let mixed = (0..MIXED).map(|kind| Box::pin(self.mixed(client(kind), kind)) as LocalBoxFuture<'_, ()>);
        let stale_clients = seeds.iter().map(|addr| Box::pin(self.stale_client(addr)) as LocalBoxFuture<'_, ()>);
        let advancing = std::iter::once(Box::pin(self.advancing(seeds)) as LocalBoxFuture<'_, ()>);
        join_all(probes.chain(mixed).chain(stale_clients).chain(advancing)).await;
    }

    async fn repeat(&self, pause: Duration, call: impl AsyncFnMut()) {
        caller::closed_loop(|| self.stopping.load(Ordering::Relaxed), || pause, call).await;
    }

    fn user(&self) -> User {
        User(fastrand::u32(..self.sections * USERS_PER_SECTION))
    }

    async fn probe(&self, client: &Client, section: u32) {
        let call = async || {
            let user = User(section * USERS_PER_SECTION + fastrand::u32(..USERS_PER_SECTION));
            caller::next(client, &self.record, &[user], 1).await;
        };
        self.repeat(PROBE_PAUSE, call).await;
    }

    async fn mixed(&self, client: &Client, kind: u32) {
        let call = async || match kind {
            0 => caller::next(client, &self.record, &[self.user()], fastrand::u32(1..=MAX_COUNT)).await,
            1 => {
                let users: Vec<User> = (0..BATCH).map(|_| self.user()).collect();
                caller::next(client, &self.record, &users, 1).await;
            }
            _ => caller::current(client, &self.record, self.user()).await,
        };
        self.repeat(MIXED_PAUSE, call).await;
    }

    async fn advancing(&self, seeds: &[String]) {
        let nodes: Vec<Channel> = seeds.iter().map(|addr| channel(addr)).collect();
        let call = async || caller::advance(&nodes, &self.record, self.user(), ADVANCES).await;
        self.repeat(ADVANCE_PAUSE, call).await;
    }

    /// Runs an open loop: a stale client sends at its interval, even if earlier calls have not ended.
    async fn stale_client(&self, addr: &str) {
        let channel = channel(addr);
        let mut calls = FuturesUnordered::new();
        let mut tick = tokio::time::interval(STALE_INTERVAL);
        loop {
            let done = self.stopping.load(Ordering::Relaxed) || self.stale_clients.stopping.load(Ordering::Relaxed);
            tokio::select! {
                _ = tick.tick(), if !done => {
                    self.stale_clients.in_flight.fetch_add(1, Ordering::Relaxed);
                    calls.push(caller::next_directly(channel.clone(), &self.record, self.user(), DEADLINE));
                }
                Some(()) = calls.next() => {
                    self.stale_clients.in_flight.fetch_sub(1, Ordering::Relaxed);
                }
                () = std::future::ready(()), if done && calls.is_empty() => return,
            }
        }
    }
}

impl Record {
    /// Returns the time since the start.
    fn now(&self) -> Duration {
        self.0.lock().began.elapsed()
    }
}

impl UidHistory for Record {
    /// The uids of users are spread over the section.
    fn uid(&self, User(user): User) -> u64 {
        let (section, place) = (user / USERS_PER_SECTION, user % USERS_PER_SECTION);
        u64::from(section) * u64::from(SECTION_SIZE) + u64::from(place * (SECTION_SIZE / USERS_PER_SECTION))
    }
}

impl History for Record {
    fn record<T>(&self, f: impl FnOnce(&mut Checker, Duration) -> T) -> T {
        let mut state = self.0.lock();
        let now = state.began.elapsed();
        f(&mut state.checker, now)
    }

    fn on_end(&self, call: &Ended<'_>) {
        let mut state = self.0.lock();
        match call {
            Ended::Next { users, times, results } => {
                state.latency.record(times.1 - times.0);
                for (user, result) in users.iter().zip(*results) {
                    state.on_item(*user, times.1, result.as_ref().err());
                    let skips = result.as_ref().is_ok_and(|given| given.first() != given.prev + 1);
                    state.group(*user).skips += u64::from(skips);
                }
            }
            Ended::Current { user, times, result } => {
                state.latency.record(times.1 - times.0);
                state.on_item(*user, times.1, result.as_ref().err());
            }
            Ended::Advance { outcome, .. } => state.advances += u64::from(*outcome == Advancing::Done),
            Ended::Direct => {}
        }
    }
}

impl State {
    fn group(&mut self, user: User) -> &mut Group {
        &mut self.groups[(user.0 / self.users_per_group) as usize]
    }

    fn on_item(&mut self, user: User, now: Duration, error: Option<&CallError>) {
        let group = self.group(user);
        match error {
            None => group.silence.end(now),
            Some(error) => {
                group.failed += 1;
                *self.failures.entry(outcome::failure(error).reason).or_default() += 1;
            }
        }
    }
}

/// Connects a client of the SDK, once a seed responds.
async fn connect(seeds: &[String]) -> Client {
    loop {
        let builder = Client::builder().deadline(DEADLINE).connections(2);
        match seeds.iter().fold(builder, |builder, seed| builder.seed(seed)).connect().await {
            Ok(client) => return client,
            Err(error) if error.is_retryable() => tokio::time::sleep(PROBE_PAUSE).await,
            Err(error) => panic!("callers cannot connect: {error}"),
        }
    }
}

/// Creates a connection without pings, so that the bytes in the sockets of a stopped node stay there.
fn channel(addr: &str) -> Channel {
    Endpoint::from_shared(format!("http://{addr}")).unwrap().connect_timeout(DEADLINE).connect_lazy()
}
