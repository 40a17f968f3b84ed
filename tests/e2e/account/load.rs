//! Callers that each have one uid to themselves, and note every call and every attempt without an outcome.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

use futures::future::{LocalBoxFuture, join_all};
use seq_client::{Allocation, CallError, Client};
use seq_load::outcome::UNKNOWN_ATTEMPTS;
use seq_proto::Reason;
use seq_testkit::account::{Step, UidCalls};
use seq_testkit::eventually;

/// Kinds of uids of each section, and the count of the numbers that a call for each takes.
pub(super) const UIDS: [(Kind, u32); 5] =
    [(Kind::Busy, 1), (Kind::Busy, 40), (Kind::Idle, 3), (Kind::Advanced, 5), (Kind::Untouched, 1)];

/// Distance between the uids of a section that have callers.
const APART: u64 = 7;

/// Pause of a caller between two calls.
const PAUSE: Duration = Duration::from_millis(100);

/// Deadline of a call: longer than any takeover, so that few attempts end without an outcome.
const DEADLINE: Duration = Duration::from_secs(20);

/// Calls for an advanced uid for each advance, and the most numbers by which an advance moves the uid.
const ADVANCES: (u32, u64) = (5, 300);

/// Use of a uid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A uid that takes numbers all the time.
    Busy,
    /// A uid that takes numbers at the begin and at the end, so that all changes of the owner are in one hole.
    Idle,
    /// Like [`Kind::Busy`], with advances.
    Advanced,
    /// A uid that is only read.
    Untouched,
}

/// A running load.
pub(super) struct Load {
    stopped: Arc<AtomicBool>,
    /// Number of responses for each section.
    responses: Arc<Vec<AtomicU64>>,
    thread: Option<JoinHandle<Vec<UidCalls>>>,
}

impl Load {
    /// Starts the callers, which know the node at `addr`.
    pub(super) fn start(addr: &str, sections: u32, section_size: u64) -> Load {
        let (stopped, addr) = (Arc::new(AtomicBool::new(false)), addr.to_owned());
        let responses: Arc<Vec<AtomicU64>> = Arc::new((0..sections).map(|_| AtomicU64::new(0)).collect());
        let (stopping, counted) = (stopped.clone(), responses.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let client = connect(&addr).await;
                let callers = (0..sections).flat_map(|section| {
                    let (client, stopping, counted) = (&client, &stopping, &counted);
                    UIDS.iter().enumerate().map(move |(place, (kind, count))| {
                        let uid = u64::from(section) * section_size + place as u64 * APART;
                        let calls = UidCalls { uid, section, count: u64::from(*count), steps: Vec::new() };
                        let caller = Caller { client, kind: *kind, calls, last: 0 };
                        Box::pin(caller.run(stopping, &counted[section as usize])) as LocalBoxFuture<'_, UidCalls>
                    })
                });
                join_all(callers).await
            })
        });
        Load { stopped, responses, thread: Some(thread) }
    }

    /// Waits until a call for each section has got numbers that began after this point.
    pub(super) fn wait_served(&self) {
        // The busy uids of a section have one call in flight each.
        let enough: Vec<u64> = self.responses.iter().map(|count| count.load(SeqCst) + UIDS.len() as u64).collect();
        eventually("every section is served", || {
            self.responses.iter().zip(&enough).all(|(count, enough)| count.load(SeqCst) > *enough).then_some(())
        });
    }

    /// Completes all calls, reads each uid, and returns the calls.
    pub(super) fn finish(mut self) -> Vec<UidCalls> {
        self.stopped.store(true, SeqCst);
        self.thread.take().unwrap().join().expect("the callers do not panic")
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stopped.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            // If the test has failed, its processes may be gone, and the callers would wait for them.
            drop(thread);
        }
    }
}

async fn connect(addr: &str) -> Client {
    loop {
        match Client::builder().deadline(DEADLINE).seed(addr).connect().await {
            Ok(client) => return client,
            Err(error) if error.is_retryable() => tokio::time::sleep(PAUSE).await,
            Err(error) => panic!("callers cannot connect: {error}"),
        }
    }
}

struct Caller<'a> {
    client: &'a Client,
    kind: Kind,
    calls: UidCalls,
    /// The last number that it got.
    last: u64,
}

impl Caller<'_> {
    async fn run(mut self, stopped: &AtomicBool, responses: &AtomicU64) -> UidCalls {
        if self.kind != Kind::Untouched {
            self.next().await;
        }
        while !stopped.load(SeqCst) {
            match self.kind {
                Kind::Busy => self.next().await,
                Kind::Advanced if fastrand::u32(..ADVANCES.0) == 0 => self.advance().await,
                Kind::Advanced => self.next().await,
                Kind::Idle | Kind::Untouched => tokio::time::sleep(PAUSE).await,
            }
            if matches!(self.kind, Kind::Busy | Kind::Advanced) {
                responses.fetch_add(1, SeqCst);
                tokio::time::sleep(PAUSE).await;
            }
        }
        if self.kind == Kind::Idle {
            self.next().await;
        }
        self.read().await;
        self.calls
    }

    /// Takes numbers, and repeats the call until it gets them.
    async fn next(&mut self) {
        let count = u32::try_from(self.calls.count).unwrap();
        loop {
            match self.client.next_n(self.calls.uid, count).await {
                Ok(Allocation { value, prev, epoch, lost, .. }) => {
                    (0..lost).for_each(|_| self.calls.steps.push(Step::Lost));
                    self.calls.steps.push(Step::Given { epoch, last: value, prev });
                    self.last = value;
                    return;
                }
                Err(error) => {
                    let attempts = if error.may_have_applied() { UNKNOWN_ATTEMPTS } else { 0 };
                    (0..attempts).for_each(|_| self.calls.steps.push(Step::Lost));
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Advances the uid, and repeats the same advance until its outcome is known. If the uid is past the number, a
    /// takeover has moved it further, so there is no step of an advance.
    async fn advance(&mut self) {
        let to = self.last + fastrand::u64(1..=ADVANCES.1);
        loop {
            match self.client.advance(self.calls.uid, to).await {
                Ok(epoch) => {
                    self.calls.steps.push(Step::Advanced { epoch, to });
                    self.last = to;
                    return;
                }
                Err(CallError::Refused(refused)) if refused.reason == Reason::AlreadyPast.name() => return,
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Reads the uid, and repeats the read until it gets a response.
    async fn read(&mut self) {
        loop {
            match self.client.current(self.calls.uid).await {
                Ok(seq_client::Current { value, exact, epoch, .. }) => {
                    self.calls.steps.push(Step::Read { epoch, value, exact });
                    return;
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}
