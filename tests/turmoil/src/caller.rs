//! Backends that use the SDK, and the order checker over everything they are answered.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use seq_client::pool::Dial;
use seq_client::{Allocation, CallError, Client, Current};
use seq_order::{Advancing, Checker, Outcome, Reading, User};
use seq_proto::v1;
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

use crate::books::Books;
use crate::net;

/// Deadline of a call: more than a failover takes.
const DEADLINE: Duration = Duration::from_secs(5);

/// Calls of one backend that are under way at a time.
const CONCURRENT: usize = 3;

/// Most numbers in one item: now and then past a step.
const MAX_COUNT: u32 = 120;

/// Most items in one batch; uids may repeat.
const MAX_ITEMS: usize = 6;

/// How far below the largest number of its uid an advance may name one, and how many numbers it is drawn from: past a step.
const ADVANCE_BACK: u64 = 20;
const ADVANCE_RANGE: u64 = 150;

/// Time between two attempts of an advance.
const ADVANCE_AGAIN: Duration = Duration::from_millis(50);

/// Attempts that may have taken numbers in a call that failed: the SDK says whether there was one, not how many, and a node
/// that was asked may have asked another.
const UNKNOWN_ATTEMPTS: u32 = 8;

/// The history of all calls. Clones are the same.
#[derive(Clone, Debug)]
pub struct History {
    inner: Rc<RefCell<Inner>>,
    uids: Rc<[u64]>,
    books: Books,
}

#[derive(Debug)]
struct Inner {
    checker: Checker,
    told: usize,
    order: bool,
    served: BTreeSet<usize>,
}

impl History {
    /// No call was made for any of `uids`.
    #[must_use]
    pub fn new(uids: impl IntoIterator<Item = u64>, books: Books) -> History {
        let uids: Rc<[u64]> = uids.into_iter().collect();
        let mut checker = Checker::new(uids.len());
        // All backends are in it, from the first number on.
        checker.complete();
        let inner = Inner { checker, told: 0, served: BTreeSet::new(), order: true };
        History { inner: Rc::new(RefCell::new(inner)), uids, books }
    }

    /// Waits for every uid anew.
    pub fn expect_all(&self) {
        self.inner.borrow_mut().served.clear();
    }

    /// Whether every uid was given a number since [`History::expect_all`].
    #[must_use]
    pub fn all_served(&self) -> bool {
        self.inner.borrow().served.len() == self.uids.len()
    }

    /// Holds the history only against what no clock is needed for: numbers are given out once, and are numbers.
    pub fn unordered(&self) {
        self.inner.borrow_mut().order = false;
    }

    /// From here on sections only move as planned: no item goes unanswered, and no number is skipped.
    pub fn seamless(&self) {
        self.inner.borrow_mut().checker.seamless();
    }

    /// Makes one call and judges its answer.
    async fn allocate(&self, client: &Client, users: &[usize], count: u32) {
        let id = self.start(users);
        let results = match users {
            [user] => vec![client.next_n(self.uids[*user], count).await],
            users => {
                let items: Vec<_> = users.iter().map(|user| (self.uids[*user], count)).collect();
                match client.next_many_n(&items).await {
                    Ok(results) => results,
                    Err(error) => vec![Err(error); users.len()],
                }
            }
        };
        let now = self.books.now();
        let mut inner = self.inner.borrow_mut();
        for (user, result) in users.iter().zip(&results) {
            self.note("gave", *user, result.as_ref().map(|given| (given.value, given.prev, given.epoch)));
            if result.is_ok() {
                inner.served.insert(*user);
            }
        }
        inner.checker.end(id, now, results.into_iter().map(outcome));
        self.tell(&mut inner);
    }

    /// Makes one read and judges its answer.
    async fn read(&self, client: &Client, user: usize) {
        let id = self.inner.borrow_mut().checker.start_read(self.books.now(), [User(user as u32)]);
        let result = client.current(self.uids[user]).await;
        self.note("reads", user, result.as_ref().map(|read| (read.value, u64::from(read.exact), read.epoch)));
        let reading = match result {
            Ok(Current { value, exact: true, .. }) => {
                self.books.count("exact reads");
                Reading::Exact(value)
            }
            Ok(Current { value, exact: false, .. }) => {
                self.books.count("upper bounds read");
                Reading::UpperBound(value)
            }
            Err(_) => Reading::Failed,
        };
        let now = self.books.now();
        let mut inner = self.inner.borrow_mut();
        inner.checker.end_read(id, now, [reading]);
        self.tell(&mut inner);
    }

    /// Raises a user to a number around where it stands, through one node after the other until one answers: a repeat changes
    /// nothing.
    async fn advance(&self, nodes: &[Channel], user: usize) {
        let (id, to) = {
            let mut inner = self.inner.borrow_mut();
            let user = User(user as u32);
            let to = inner.checker.floor(user).saturating_sub(ADVANCE_BACK) + fastrand::u64(..ADVANCE_RANGE);
            (inner.checker.start_advance(self.books.now(), user, to), to)
        };
        let request = v1::AdvanceRequest { uid: self.uids[user], to, ..v1::AdvanceRequest::default() };
        let attempts = async {
            loop {
                let node = nodes[fastrand::usize(..nodes.len())].clone();
                match SequenceServiceClient::new(node).advance(request.clone()).await {
                    Ok(_) => return Advancing::Done,
                    Err(status) if status.code() == Code::FailedPrecondition => return Advancing::Past,
                    Err(_) => tokio::time::sleep(ADVANCE_AGAIN).await,
                }
            }
        };
        let ended = tokio::time::timeout(DEADLINE, attempts).await.unwrap_or(Advancing::Failed);
        let uid = self.uids[user];
        match ended {
            Advancing::Done => self.books.count("advances"),
            Advancing::Past => self.books.count("advances refused as past"),
            Advancing::Failed => self.books.note(format_args!("uid {uid}: no answer to an advance to {to}")),
        }
        tracing::debug!(target: "seq_turmoil", uid, to, ?ended, "advances");
        let now = self.books.now();
        let mut inner = self.inner.borrow_mut();
        inner.checker.end_advance(id, now, ended);
        self.tell(&mut inner);
    }

    fn start(&self, users: &[usize]) -> seq_order::CallId {
        self.inner.borrow_mut().checker.start(self.books.now(), users.iter().map(|user| User(*user as u32)))
    }

    /// Numbers go into the trace; for people only failures are interesting.
    fn note(&self, what: &str, user: usize, result: Result<(u64, u64, u64), &CallError>) {
        let uid = self.uids[user];
        match result {
            Ok((value, second, epoch)) => {
                self.books.count("numbers answered");
                tracing::debug!(target: "seq_turmoil", uid, value, second, epoch, "{what}");
            }
            Err(error) => {
                self.books.count("items without an answer");
                self.books.note(format_args!("uid {uid}: {error}"));
            }
        }
    }

    /// Brings the checker's verdict into the books.
    fn tell(&self, inner: &mut Inner) {
        let tally = inner.checker.tally();
        if !inner.order {
            if tally.duplicates + tally.malformed > 0 {
                self.books.violation(format_args!("{tally:?}"));
            }
            let told = std::mem::replace(&mut inner.told, (tally.decreases + tally.stale_reads) as usize);
            self.books.add("answers out of order", (inner.told - told) as u64);
            return;
        }
        for violation in &inner.checker.details()[inner.told..] {
            let uid = self.uids[violation.item.user.0 as usize];
            self.books.violation(format_args!("uid {uid}: {violation:?}"));
        }
        inner.told = inner.checker.details().len();
        // What has no details: in a seamless history, an item that went unanswered.
        if tally.violations() > inner.told as u64 {
            self.books.violation(format_args!("{tally:?}, {:?}", inner.checker.phantoms()));
        }
    }
}

fn outcome(result: Result<Allocation, CallError>) -> Outcome {
    match result {
        Ok(Allocation { value, prev, count, lost, .. }) => Outcome::Given { value, prev, count, lost },
        Err(error) if error.may_have_applied() => Outcome::Maybe { lost: UNKNOWN_ATTEMPTS },
        Err(_) => Outcome::Refused,
    }
}

/// One backend.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Nodes it knows at its start.
    pub seeds: Vec<String>,
    /// The history it writes.
    pub history: History,
    /// Longest pause between two calls.
    pub pause: Duration,
}

/// Calls until the run is over.
///
/// # Errors
/// Never; what is wrong is a violation in the books.
pub async fn run(caller: Caller) -> turmoil::Result {
    let Caller { seeds, history, pause } = caller;
    let client = loop {
        let builder = Client::builder().connections(1).deadline(DEADLINE).dial(Dial::new(net::dial));
        match seeds.iter().fold(builder, |builder, seed| builder.seed(seed)).connect().await {
            Ok(client) => break client,
            Err(error) => history.books.note(format_args!("a backend finds nobody: {error}")),
        }
        if history.books.is_over() {
            return Ok(());
        }
        tokio::time::sleep(pause).await;
    };
    let node =
        |seed: &String| net::dial(Endpoint::from_shared(format!("http://{seed}")).expect("a host of this world"));
    let nodes: Vec<Channel> = seeds.iter().map(node).collect();
    let calling = async || {
        while !history.books.is_over() {
            let users = history.uids.len();
            match fastrand::u8(..10) {
                3 if fastrand::u8(..3) == 0 => history.advance(&nodes, fastrand::usize(..users)).await,
                0 => history.read(&client, fastrand::usize(..users)).await,
                1 => {
                    let items: Vec<_> = (0..fastrand::usize(1..=MAX_ITEMS)).map(|_| fastrand::usize(..users)).collect();
                    history.allocate(&client, &items, fastrand::u32(1..=MAX_COUNT)).await;
                }
                2 => history.allocate(&client, &[fastrand::usize(..users)], fastrand::u32(1..=MAX_COUNT)).await,
                _ => history.allocate(&client, &[fastrand::usize(..users)], 1).await,
            }
            tokio::time::sleep(pause.mul_f64(fastrand::f64())).await;
        }
    };
    futures::future::join_all((0..CONCURRENT).map(|_| calling())).await;
    Ok(())
}
