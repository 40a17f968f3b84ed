//! Callers that take ids of three series from a cluster, and a check of all ids that they got.
//!
//! If a node does not respond in time, the caller tries another node, but still awaits the first attempt in the
//! background until the end of the load, because the ids of a late response are checked too.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use seq_kit::wall_clock::now_ms;
use seq_order::{IdCall, IdPromises, IdTime, check_ids};
use seq_proto::v1::id_service_client::IdServiceClient;
use seq_proto::v1::{NextIdsRequest, NextIdsResponse};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint};

use crate::{TIMEOUT, eventually, eventually_within};

/// Most ids of a call.
const MAX_COUNT: u32 = 300;

/// Pause of a caller between two calls, and between two attempts of a call.
const PAUSE: Duration = Duration::from_millis(4);

/// Time after which a caller without a response sends its request to the next node.
const ATTEMPT: Duration = Duration::from_millis(700);

/// Time after which a call that has not got ids from any node has failed.
const DEADLINE: Duration = Duration::from_secs(5);

/// Longest time for which a caller awaits late responses at the end of the load.
const LATE: Duration = Duration::from_secs(10);

/// A series under load.
#[derive(Clone, Copy, Debug)]
pub struct Series {
    /// Name of the series.
    pub name: &'static str,
    /// Shape of the series, as arguments of `seqsvr series create`.
    shape: &'static [&'static str],
    lane: Option<u32>,
    is_ordered: bool,
    /// Position of the time in an id, given by time 0 in milliseconds since 1970 and the number of bits below the time.
    /// `None` if the ids of the series have no time.
    time: Option<(u64, u32)>,
}

/// A counter.
pub const ORDERS: Series = Series { name: "orders", shape: &["--counter"], lane: None, is_ordered: true, time: None };
/// A series whose lanes the nodes choose.
pub const TWEETS: Series = Series {
    name: "tweets",
    shape: &["--shape", "snowflake"],
    lane: None,
    is_ordered: false,
    time: Some((1_288_834_974_657, 22)),
};
/// A series whose lanes callers name.
pub const MEDIA: Series = Series {
    name: "media",
    shape: &["--shape", "instagram"],
    lane: Some(1_341),
    is_ordered: true,
    time: Some((1_314_220_021_721, 23)),
};

/// A series with named lanes of 128 ids a millisecond, so few that slow callers reach the limit of a lane.
pub const NARROW: Series = Series {
    name: "narrow",
    shape: &["--bits", "41/15/7", "--epoch", "2026-01-01", "--named-lanes"],
    lane: Some(5),
    is_ordered: true,
    time: Some((1_767_225_600_000, 22)),
};

/// The series of an [`IdLoad`]. A position in this array identifies a series in the functions of [`IdLoad`].
pub const SERIES: [Series; 3] = [ORDERS, TWEETS, MEDIA];

/// Position of [`TWEETS`] in [`SERIES`].
pub const TWEETS_AT: usize = 1;

/// Largest differences that the check allows between the times in ids and the wall clock of the callers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clocks {
    /// Time by which ids may be behind the callers' clock, because the clocks of nodes were behind.
    pub behind: Duration,
    /// Time by which ids may be ahead of the callers' clock.
    pub ahead: Duration,
}

impl Clocks {
    /// Limits for nodes whose clocks are right. The times in ids are then at most 1 s ahead of the clock, because 1 s
    /// is the default of `--ahead` of `seqsvr series create`.
    pub const RIGHT: Clocks = Clocks { behind: Duration::ZERO, ahead: Duration::from_secs(1) };
}

/// The figures of one series since the last [`IdLoad::reset`].
#[derive(Clone, Debug)]
pub struct Figures {
    /// Calls that got ids.
    pub calls: u64,
    /// Calls that got no ids within the deadline.
    pub failed: u64,
    /// Largest number of attempts that a call needed to get ids. A caller sends each attempt of a call to the next of
    /// its nodes.
    pub attempts: u32,
    /// Number of failed attempts by reason.
    pub refusals: BTreeMap<String, u64>,
    /// Longest time between two responses with ids.
    pub silence: Duration,
    last: Instant,
}

/// A running load.
pub struct IdLoad {
    runtime: tokio::runtime::Runtime,
    stopped: Arc<AtomicBool>,
    figures: Arc<[Mutex<Figures>; SERIES.len()]>,
    callers: Vec<(usize, JoinHandle<Vec<IdCall>>)>,
}

impl IdLoad {
    /// Starts one caller for each pair of a series and a node, and waits until each series has given ids. `nodes` has
    /// addresses of the form `host:port`. A caller begins with its own node, and tries the next node whenever a node
    /// gives no ids.
    #[must_use]
    pub fn start(nodes: &[String]) -> IdLoad {
        let mut load = IdLoad::idle();
        for first in 0..nodes.len() {
            let mut nodes = nodes.to_vec();
            nodes.rotate_left(first);
            (0..SERIES.len()).for_each(|series| load.add(series, nodes.clone()));
        }
        load.wait_served();
        load.reset();
        load
    }

    /// Returns a load without callers.
    fn idle() -> IdLoad {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let figures = Arc::new([0; SERIES.len()].map(|_| Mutex::new(Figures::new())));
        IdLoad { runtime, stopped: Arc::default(), figures, callers: Vec::new() }
    }

    /// Adds a caller of the series at position `series` of [`SERIES`]. The caller begins with the first node, and tries
    /// the next node whenever a node gives no ids.
    pub fn add(&mut self, series: usize, nodes: Vec<String>) {
        let (stopped, figures) = (self.stopped.clone(), self.figures.clone());
        let caller = self.runtime.spawn(async move {
            let clients = nodes.iter().map(|addr| {
                let endpoint = Endpoint::from_shared(format!("http://{addr}")).unwrap().connect_timeout(ATTEMPT);
                IdServiceClient::new(endpoint.connect_lazy())
            });
            let mut caller = Caller { series: SERIES[series], clients: clients.collect(), at: 0, late: Vec::new() };
            let mut calls = Vec::new();
            while !stopped.load(SeqCst) {
                calls.extend(caller.call(&figures[series], &stopped).await);
                tokio::time::sleep(PAUSE).await;
            }
            calls.extend(caller.late().await);
            calls
        });
        self.callers.push((series, caller));
    }

    /// Forgets the figures so far.
    pub fn reset(&self) {
        self.figures.iter().for_each(|figures| *figures.lock() = Figures::new());
    }

    /// Returns the figures of a series. [`Figures::silence`] includes the time from the last response until now.
    pub fn figures(&self, series: usize) -> Figures {
        let mut figures = self.figures[series].lock().clone();
        figures.silence = figures.silence.max(figures.last.elapsed());
        figures
    }

    /// Waits until each series gives ids again.
    pub fn wait_served(&self) {
        self.wait_served_within(TIMEOUT);
    }

    /// Waits until each series gives ids again, like [`IdLoad::wait_served`], but for at most `limit` per series.
    pub fn wait_served_within(&self, limit: Duration) {
        (0..SERIES.len()).for_each(|series| self.wait_within(series, limit));
    }

    /// Waits until six more calls of a series have got ids.
    pub fn wait_for_more(&self, series: usize) {
        self.wait_within(series, TIMEOUT);
    }

    fn wait_within(&self, series: usize, limit: Duration) {
        let calls = || self.figures[series].lock().calls;
        let before = calls();
        let what = format!("{} gives ids", SERIES[series].name);
        eventually_within(limit, &what, || (calls() > before + 5).then_some(()));
    }

    /// Ends the load, checks the ids of all calls and prints the figures. Returns the calls of each series that got
    /// ids.
    ///
    /// # Panics
    ///
    /// If a promise was broken; the message names the series and the ids.
    pub fn end(self, what: &str, clocks: Clocks) -> [Vec<IdCall>; SERIES.len()] {
        self.stopped.store(true, SeqCst);
        let mut calls: [Vec<IdCall>; SERIES.len()] = Default::default();
        for (series, caller) in self.callers {
            calls[series].extend(self.runtime.block_on(caller).unwrap());
        }
        for ((series, calls), figures) in SERIES.iter().zip(&calls).zip(self.figures.iter()) {
            let ids = series.check(calls, clocks);
            let Figures { failed, attempts, refusals, silence, .. } = figures.lock().clone();
            println!(
                "  {what}: {}: {ids} ids in {} calls, none twice; {failed} calls failed, up to {attempts} nodes tried, \
                 longest silence {:.2} s {refusals:?}",
                series.name,
                calls.len(),
                silence.as_secs_f64()
            );
        }
        calls
    }
}

impl Series {
    /// Creates the series. Calls `seqsvr` with the arguments of the command `series create`, followed by `more`, until
    /// `seqsvr` returns true.
    pub fn create(&self, more: &[&str], mut seqsvr: impl FnMut(&[&str]) -> bool) {
        let args = [&["series", "create", self.name, "--yes"], self.shape, more].concat();
        eventually(&format!("{} is created", self.name), || seqsvr(&args).then_some(()));
    }

    /// Returns whether its ids have a time.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        self.time.is_some()
    }

    /// Checks the ids of all calls of the series that got ids. Returns the number of ids.
    ///
    /// # Panics
    ///
    /// If a promise was broken; the message names the series and the ids.
    #[must_use]
    pub fn check(&self, calls: &[IdCall], clocks: Clocks) -> usize {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap();
        let time = self.time.map(|(epoch_ms, bits_below)| IdTime {
            epoch_ms,
            bits_below,
            behind_ms: ms(clocks.behind),
            ahead_ms: ms(clocks.ahead),
        });
        let promises = IdPromises { is_ordered: self.is_ordered, time };
        check_ids(promises, calls).unwrap_or_else(|violation| panic!("{}: {violation}", self.name))
    }
}

impl Figures {
    fn new() -> Figures {
        let (refusals, silence, last) = (BTreeMap::new(), Duration::ZERO, Instant::now());
        Figures { calls: 0, failed: 0, attempts: 0, refusals, silence, last }
    }
}

/// A caller, with a connection to each of its nodes.
struct Caller {
    series: Series,
    clients: Vec<IdServiceClient<Channel>>,
    /// Index of the node that gets the next request.
    at: usize,
    /// Attempts that timed out and may still get a response.
    late: Vec<JoinHandle<Result<IdCall, String>>>,
}

impl Caller {
    /// Requests a random number of ids from one node after another until a node gives them. Returns `None` if no node
    /// gives ids within [`DEADLINE`] or the load is stopped.
    async fn call(&mut self, figures: &Mutex<Figures>, stopped: &AtomicBool) -> Option<IdCall> {
        let (began, mut attempts) = (Instant::now(), 0);
        while began.elapsed() < DEADLINE && !stopped.load(SeqCst) {
            attempts += 1;
            let mut attempt =
                Handle::current().spawn(take(self.clients[self.at].clone(), self.series, fastrand::u32(1..=MAX_COUNT)));
            let refusal = match tokio::time::timeout(ATTEMPT, &mut attempt).await {
                Ok(taken) => match taken.unwrap() {
                    Ok(call) => {
                        let mut figures = figures.lock();
                        figures.silence = figures.silence.max(figures.last.elapsed());
                        figures.last = Instant::now();
                        figures.calls += 1;
                        figures.attempts = figures.attempts.max(attempts);
                        return Some(call);
                    }
                    Err(refusal) => refusal,
                },
                Err(_) => {
                    self.late.push(attempt);
                    "no response".to_owned()
                }
            };
            *figures.lock().refusals.entry(refusal).or_default() += 1;
            self.at = (self.at + 1) % self.clients.len();
            tokio::time::sleep(PAUSE).await;
        }
        figures.lock().failed += u64::from(!stopped.load(SeqCst));
        None
    }

    /// Waits for attempts that timed out earlier, and returns the calls of attempts that got ids after all.
    async fn late(self) -> Vec<IdCall> {
        let end = tokio::time::Instant::now() + LATE;
        let mut calls = Vec::new();
        for attempt in self.late {
            if let Ok(Ok(Ok(call))) = tokio::time::timeout_at(end, attempt).await {
                calls.push(call);
            }
        }
        calls
    }
}

/// Takes ids from a node.
///
/// # Errors
///
/// The reason with which the node refused the request, or the gRPC code of an error without a reason.
pub async fn take(mut client: IdServiceClient<Channel>, series: Series, count: u32) -> Result<IdCall, String> {
    let request = NextIdsRequest { series: series.name.into(), count, lane: series.lane, after: None };
    let (sent, before) = (Instant::now(), now_ms());
    let response = client.next(request).await;
    let (received, clock_ms) = (Instant::now(), (before, now_ms()));
    let NextIdsResponse { runs, step, .. } = response.map_err(|status| reason(&status))?.into_inner();
    let ids: Vec<u64> = runs.iter().flat_map(|run| (0..u64::from(run.count)).map(|at| run.first + at * step)).collect();
    assert_eq!(ids.len(), count as usize, "{}", series.name);
    Ok(IdCall { sent, received, clock_ms, ids })
}

fn reason(status: &tonic::Status) -> String {
    seq_proto::status::reason(status).unwrap_or_else(|| status.code().to_string())
}
