//! The client: the calls of the public API over routes, attempts and batches.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use seq_core::limits::{MAX_COUNT, MAX_ITEMS};
use seq_proto::v1;
use tokio::time::Instant;

use crate::answer::{Allocation, Current};
use crate::ask::{self, Ask, CurrentMany, NextMany};
use crate::attempts::{Attempts, Shared};
use crate::batch::{Group, Place, Plan};
use crate::coalesce;
use crate::connect::{self, ClientBuilder};
use crate::error::{CallError, ConnectError};

/// Results of a batch, one for each item in request order. The outer error says that nobody answered any item.
pub type BatchResult<T> = Result<Vec<Result<T, CallError>>, CallError>;

/// A handle on the sequence service. Clones share connections, routes and the retry budget; make one per process.
///
/// # Deadline
/// Each call has one deadline over everything it does, [`crate::DEADLINE`] unless set otherwise; servers are told it and
/// stop working on the call when it passes.
///
/// # Retries
/// What can succeed later is repeated until the deadline, as long as the client's retry budget lasts: a fifth of its
/// calls, and ten a second. A connection that failed is followed by a call to another node of the set; any node answers
/// for any uid.
///
/// # Concurrency
/// Calls of [`Client::next`] and [`Client::next_n`] that are there at the same time share messages of a stream, one to each
/// node; see [`ClientBuilder::coalesce`]. A call is never held back for company, and none waits for another's number.
/// 65,536 calls to a node are under way at a time; more of them wait for room, up to their deadline.
///
/// # Cancel safety
/// Dropping the future of any call abandons it and leaves the client as it was. Numbers may have been consumed: they
/// become a gap, never a duplicate.
///
/// # Runtime
/// The connections are driven by the tokio runtime that [`Client::connect`] was called on. Calls may be made from others.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
    deadline: Duration,
}

impl Client {
    /// Connects through one node, given as `http://host:port` or `host:port`, with the defaults of [`Client::builder`].
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn connect(url: impl AsRef<str>) -> Result<Client, ConnectError> {
        Client::builder().seed(url).connect().await
    }

    /// Starts a client with several seeds or other settings.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::new()
    }

    pub(crate) fn new(shared: Shared, deadline: Duration) -> Client {
        Client { shared: Arc::new(shared), deadline }
    }

    /// The same client with another deadline for its calls, up to a day.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Client {
        Client { shared: self.shared.clone(), deadline: deadline.min(connect::MAX_DEADLINE) }
    }

    /// Takes the next number of a uid.
    ///
    /// # Errors
    /// [`CallError`]; [`CallError::may_have_applied`] says whether a number may be lost to a gap.
    ///
    /// # Cancel safety
    /// A call that is dropped may have consumed a number.
    pub async fn next(&self, uid: u64) -> Result<Allocation, CallError> {
        self.next_n(uid, 1).await
    }

    /// Takes the next `count` numbers of a uid, `1 ..= 1_000_000`; they follow each other without a gap.
    ///
    /// # Errors
    /// [`CallError`]; [`CallError::may_have_applied`] says whether numbers may be lost to a gap.
    ///
    /// # Cancel safety
    /// A call that is dropped may have consumed its numbers.
    pub async fn next_n(&self, uid: u64, count: u32) -> Result<Allocation, CallError> {
        check_count(uid, count)?;
        let mut attempts = self.attempts();
        if let Some(answer) = coalesce::ask(&mut attempts, uid, count).await? {
            return Ok(answer);
        }
        // Boxed, so that the usual call does not carry the size of the rare one.
        Box::pin(self.next_alone(attempts, uid, count)).await
    }

    async fn next_alone(&self, mut attempts: Attempts<'_>, uid: u64, count: u32) -> Result<Allocation, CallError> {
        self.know(uid, &attempts).await;
        loop {
            let mut target = attempts.target(uid)?;
            let request = attempts.request(v1::NextRequest {
                uid,
                count,
                route_version: Some(target.route_version),
                epoch: target.epoch,
                hops: 0,
            });
            match attempts.attempt(target.client.next(request)).await {
                Ok(answer) => {
                    attempts.adopt(answer.routes.as_ref(), &target.addr);
                    let checked = Allocation::checked(answer.value, answer.prev, answer.epoch, count, &target.addr);
                    let lost = attempts.lost().saturating_add(answer.lost.unwrap_or(0));
                    return checked.map(|answer| Allocation { lost, ..answer });
                }
                Err(failed) => attempts.again(uid, &target.addr, failed).await?,
            }
        }
    }

    /// Takes one number for each uid, in one call to each owner concerned. A uid that is named twice takes twice, in that
    /// order, unless its first item had to be repeated. Any number of uids; more than 10,000 of one owner go in several
    /// calls, one after the other.
    ///
    /// # Errors
    /// The inner ones are each item's own, [`CallError::UidOutside`] among them; the outer one says that nobody answered
    /// any item, and then [`CallError::may_have_applied`] speaks for all.
    ///
    /// # Cancel safety
    /// A call that is dropped may have consumed numbers of any of the uids.
    pub async fn next_many(&self, uids: &[u64]) -> BatchResult<Allocation> {
        self.batch::<NextMany>(uids, &[]).await
    }

    /// Takes `count` numbers for each `(uid, count)`, as [`Client::next_many`] does; each count is `1 ..= 1_000_000`.
    ///
    /// # Errors
    /// As [`Client::next_many`]; also an outer [`CallError::CountOutOfRange`], before anything is sent.
    ///
    /// # Cancel safety
    /// A call that is dropped may have consumed numbers of any of the uids.
    pub async fn next_many_n(&self, items: &[(u64, u32)]) -> BatchResult<Allocation> {
        for (uid, count) in items {
            check_count(*uid, *count)?;
        }
        let (uids, counts): (Vec<u64>, Vec<u32>) = items.iter().copied().unzip();
        self.batch::<NextMany>(&uids, &counts).await
    }

    /// Reads the last number of a uid. Moves nothing, so [`CallError::may_have_applied`] has no meaning for it.
    ///
    /// # Errors
    /// [`CallError`].
    ///
    /// # Cancel safety
    /// Dropping it has no effect.
    pub async fn current(&self, uid: u64) -> Result<Current, CallError> {
        let mut attempts = self.attempts();
        self.know(uid, &attempts).await;
        loop {
            let mut target = attempts.target(uid)?;
            let request = attempts.request(v1::CurrentRequest {
                uid,
                route_version: Some(target.route_version),
                epoch: target.epoch,
                hops: 0,
            });
            match attempts.attempt(target.client.current(request)).await {
                Ok(answer) => {
                    attempts.adopt(answer.routes.as_ref(), &target.addr);
                    return Current::checked(answer.value, answer.exactness, answer.epoch, &target.addr);
                }
                Err(failed) => attempts.again(uid, &target.addr, failed).await?,
            }
        }
    }

    /// Reads the last number of each uid, in one call to each owner concerned. Moves nothing.
    ///
    /// # Errors
    /// As [`Client::next_many`].
    ///
    /// # Cancel safety
    /// Dropping it has no effect.
    pub async fn current_many(&self, uids: &[u64]) -> BatchResult<Current> {
        self.batch::<CurrentMany>(uids, &[]).await
    }

    async fn batch<A: Ask>(&self, uids: &[u64], counts: &[u32]) -> BatchResult<A::Answer> {
        if uids.is_empty() {
            return Ok(Vec::new());
        }
        let deadline = Instant::now() + self.deadline;
        let mut plan = self.plan(uids, counts);
        if plan.has_outside() {
            connect::refresh(&self.shared, deadline).await;
            plan = self.plan(uids, counts);
        }
        let results = match plan.groups.as_slice() {
            [group] => vec![self.group::<A>(group, deadline).await],
            groups => join_all(groups.iter().map(|group| self.group::<A>(group, deadline))).await,
        };
        let results = plan.merge(uids, results, |uid| Err(CallError::UidOutside { uid }));
        if results.iter().all(|result| matches!(result, Err(error) if error.is_unanswered())) {
            return Err(whole(results));
        }
        Ok(results)
    }

    fn plan<'a>(&self, uids: &'a [u64], counts: &'a [u32]) -> Plan<'a> {
        let directory = self.shared.routes.load();
        Plan::new(uids, counts, |uid| {
            let set = directory.set_of(uid)?;
            Some(Place { set, owner: directory.set(set).route(uid).owner })
        })
    }

    /// Asks one owner, in as many calls as the items need. They follow each other, so that a uid's items stay in order.
    async fn group<A: Ask>(&self, group: &Group<'_>, deadline: Instant) -> Vec<Result<A::Answer, CallError>> {
        let mut results = Vec::new();
        let mut counts = group.counts.chunks(MAX_ITEMS);
        for uids in group.uids.chunks(MAX_ITEMS) {
            let counts = counts.next().unwrap_or_default();
            let mut answered = ask::ask::<A>(Attempts::new(&self.shared, deadline), uids, counts).await;
            if results.is_empty() {
                // The usual group is one call; its results are not copied.
                results = answered;
            } else {
                results.append(&mut answered);
            }
        }
        results
    }

    fn attempts(&self) -> Attempts<'_> {
        Attempts::new(&self.shared, Instant::now() + self.deadline)
    }

    /// Looks for new sets once when a uid lies outside all that are known.
    async fn know(&self, uid: u64, attempts: &Attempts<'_>) {
        let known = self.shared.routes.load().set_of(uid).is_some();
        if !known {
            connect::refresh(&self.shared, attempts.deadline()).await;
        }
    }
}

fn check_count(uid: u64, count: u32) -> Result<(), CallError> {
    if (1..=MAX_COUNT).contains(&count) { Ok(()) } else { Err(CallError::CountOutOfRange { uid, count }) }
}

/// The error of a batch of which no item was answered: the first item's, and whether any may have moved a counter.
fn whole<T>(results: Vec<Result<T, CallError>>) -> CallError {
    let mut errors = results.into_iter().filter_map(Result::err);
    let first = errors.next().expect("a batch has items");
    let moved = errors.any(|error| error.may_have_applied());
    if moved { first.having_applied() } else { first }
}
