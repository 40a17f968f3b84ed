//! Backends that use the SDK, and the order checker over all their calls.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use seq_channel::Dial;
use seq_client::{CallError, Client};
use seq_load::caller::{self, AdvanceRange, Ended, UidHistory};
use seq_order::{Advancing, Checker, User};
use tonic::transport::{Channel, Endpoint};

use crate::net;
use crate::report::Report;

/// Deadline of a call: more than a failover takes.
const DEADLINE: Duration = Duration::from_secs(5);

/// Most calls of one backend in flight.
const CONCURRENT: usize = 3;

/// Most numbers in one item: sometimes more than a step.
const MAX_COUNT: u32 = 120;

/// Most items in one batch; uids may repeat.
const MAX_ITEMS: usize = 6;

/// Range of advances: around the largest number of the uid, and sometimes beyond a step.
const ADVANCES: AdvanceRange =
    AdvanceRange { below: 20, width: 150, deadline: DEADLINE, pause: Duration::from_millis(50) };

/// The history of all calls. Clones share it.
#[derive(Clone, Debug)]
pub struct History {
    inner: Rc<RefCell<Inner>>,
    uids: Rc<[u64]>,
    report: Report,
}

#[derive(Debug)]
struct Inner {
    checker: Checker,
    /// Number of violations that were reported.
    reported: usize,
    order: bool,
    served: BTreeSet<User>,
}

impl History {
    /// Creates a history without calls for any of `uids`.
    #[must_use]
    pub fn new(uids: impl IntoIterator<Item = u64>, report: Report) -> History {
        let uids: Rc<[u64]> = uids.into_iter().collect();
        let mut checker = Checker::new(uids.len());
        // The history has the calls of all backends, from the first number.
        checker.complete();
        let inner = Inner { checker, reported: 0, served: BTreeSet::new(), order: true };
        History { inner: Rc::new(RefCell::new(inner)), uids, report }
    }

    /// Restarts [`History::all_served`].
    pub fn expect_all(&self) {
        self.inner.borrow_mut().served.clear();
    }

    /// Returns whether every uid got a number since [`History::expect_all`].
    #[must_use]
    pub fn all_served(&self) -> bool {
        self.inner.borrow().served.len() == self.uids.len()
    }

    /// Restricts the check to properties that need no clock: numbers are well-formed and unique.
    pub fn unordered(&self) {
        self.inner.borrow_mut().order = false;
    }

    /// Requires a seamless history: from here on sections change owner only by handover, so every item gets its number,
    /// and no number is missing.
    pub fn seamless(&self) {
        self.inner.borrow_mut().checker.seamless();
    }

    /// Adds a result: numbers to the trace, failures also to the events.
    fn note(&self, what: &str, user: User, result: Result<(u64, u64, u64), &CallError>) {
        let uid = self.uid(user);
        match result {
            Ok((value, second, epoch)) => {
                self.report.count("numbers answered");
                tracing::debug!(target: "seq_turmoil", uid, value, second, epoch, "{what}");
            }
            Err(error) => {
                self.report.count("items without an answer");
                self.report.note(format_args!("uid {uid}: {error}"));
            }
        }
    }

    /// Copies new violations from the checker into the report.
    fn report_violations(&self) {
        let inner = &mut *self.inner.borrow_mut();
        let tally = inner.checker.tally();
        if !inner.order {
            if tally.duplicates + tally.malformed > 0 {
                self.report.violation(format_args!("{tally:?}"));
            }
            let reported = std::mem::replace(&mut inner.reported, (tally.decreases + tally.stale_reads) as usize);
            self.report.add("answers out of order", (inner.reported - reported) as u64);
            return;
        }
        for violation in &inner.checker.details()[inner.reported..] {
            let uid = self.uids[violation.item.user.0 as usize];
            self.report.violation(format_args!("uid {uid}: {violation:?}"));
        }
        inner.reported = inner.checker.details().len();
        // A violation without details is an item without a number, in a seamless history.
        if tally.violations() > inner.reported as u64 {
            self.report.violation(format_args!("{tally:?}, {:?}", inner.checker.phantoms()));
        }
    }
}

impl UidHistory for History {
    fn uid(&self, user: User) -> u64 {
        self.uids[user.0 as usize]
    }
}

impl seq_load::caller::History for History {
    fn record<T>(&self, f: impl FnOnce(&mut Checker, Duration) -> T) -> T {
        f(&mut self.inner.borrow_mut().checker, self.report.now())
    }

    fn on_end(&self, call: &Ended<'_>) {
        match call {
            Ended::Next { users, results, .. } => {
                for (user, result) in users.iter().zip(*results) {
                    self.note("gave", *user, result.as_ref().map(|given| (given.value, given.prev, given.epoch)));
                    if result.is_ok() {
                        self.inner.borrow_mut().served.insert(*user);
                    }
                }
            }
            Ended::Current { user, result, .. } => {
                self.note("reads", *user, result.as_ref().map(|read| (read.value, u64::from(read.exact), read.epoch)));
                match result {
                    Ok(current) if current.exact => self.report.count("exact reads"),
                    Ok(_) => self.report.count("upper bounds read"),
                    Err(_) => {}
                }
            }
            Ended::Advance { user, to, outcome } => {
                let uid = self.uid(*user);
                match outcome {
                    Advancing::Done => self.report.count("advances"),
                    Advancing::Past => self.report.count("advances refused as past"),
                    Advancing::Failed => self.report.note(format_args!("uid {uid}: no response to an advance to {to}")),
                }
                tracing::debug!(target: "seq_turmoil", uid, to, ?outcome, "advances");
            }
            Ended::Direct => {}
        }
        self.report_violations();
    }
}

/// One backend.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Nodes that it knows at its start.
    pub seeds: Vec<String>,
    /// The history that it adds its calls to.
    pub history: History,
    /// Longest pause between two calls.
    pub pause: Duration,
}

/// Sends calls until the run is over.
///
/// # Errors
/// Never; violations go into the report.
pub async fn run(caller: Caller) -> turmoil::Result {
    let Caller { seeds, history, pause } = caller;
    let client = loop {
        let builder = Client::builder().connections(1).deadline(DEADLINE).dial(Dial::new(net::dial));
        match seeds.iter().fold(builder, |builder, seed| builder.seed(seed)).connect().await {
            Ok(client) => break client,
            Err(error) => history.report.note(format_args!("a backend cannot connect: {error}")),
        }
        if history.report.is_over() {
            return Ok(());
        }
        tokio::time::sleep(pause).await;
    };
    let node =
        |seed: &String| net::dial(Endpoint::from_shared(format!("http://{seed}")).expect("a host of this world"));
    let nodes: Vec<Channel> = seeds.iter().map(node).collect();
    let user = || User(fastrand::usize(..history.uids.len()) as u32);
    let call = async || match fastrand::u8(..10) {
        3 if fastrand::u8(..3) == 0 => caller::advance(&nodes, &history, user(), ADVANCES).await,
        0 => caller::current(&client, &history, user()).await,
        1 => {
            let users: Vec<User> = (0..fastrand::usize(1..=MAX_ITEMS)).map(|_| user()).collect();
            caller::next(&client, &history, &users, fastrand::u32(1..=MAX_COUNT)).await;
        }
        2 => caller::next(&client, &history, &[user()], fastrand::u32(1..=MAX_COUNT)).await,
        _ => caller::next(&client, &history, &[user()], 1).await,
    };
    let pauses = || pause.mul_f64(fastrand::f64());
    let calling = async || caller::closed_loop(|| history.report.is_over(), pauses, call).await;
    futures::future::join_all((0..CONCURRENT).map(|_| calling())).await;
    Ok(())
}
