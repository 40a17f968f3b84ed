//! The client: the calls of the public API over routes, attempts and batches.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use seq_core::limits::{MAX_COUNT, MAX_ITEMS};
use seq_proto::v1;
use tokio::time::Instant;

use crate::allocation::{Allocation, Current};
use crate::attempts::Attempts;
use crate::batch_call::{self, BatchMethod, CurrentMany, NextMany};
use crate::batch_plan::{Destination, Group, Plan};
use crate::discovery;
use crate::error::CallError;
use crate::shared::Shared;
use crate::stream_call;

/// The default deadline of a call: longer than the sections of a lost host wait for their next owner.
pub const DEADLINE: Duration = Duration::from_secs(5);

/// The longest deadline of a call. A longer one is clamped to it: instants must not overflow.
pub(crate) const MAX_DEADLINE: Duration = Duration::from_secs(24 * 3_600);

/// Results of a batch, one per item in request order. The outer error means that no item got a response.
pub type BatchResult<T> = Result<Vec<Result<T, CallError>>, CallError>;

/// A handle on the sequence service. Clones share connections, routes and retry budgets; make one per process.
///
/// # Deadline
/// Each call has one deadline over all its attempts, [`crate::DEADLINE`] unless set otherwise. Requests carry it, and
/// servers stop working on a request when it passes.
///
/// # Retries
/// Retryable failures are retried until the deadline, within a retry budget for each set: a fifth of the calls to it,
/// and ten a second. After a connection failure the next attempt goes to another node of the set; any node serves any
/// uid.
///
/// # Sets
/// Sections of uids migrate between the sets of a cluster, under load. The client merges the routes of all sets,
/// follows a section that moved without a backoff, and asks the other sets when no node of a set can be reached.
/// Connections and retry budgets are those of a set: one that is down fails its own calls and items, with
/// [`CallError::SetUnavailable`] where another set reports it, and delays no others.
///
/// # Concurrency
/// Concurrent calls of [`Client::next`] and [`Client::next_n`] share the messages of one stream per node;
/// see [`crate::ClientBuilder::coalesce`]. No call is delayed to fill a message, and none waits for the response of
/// another. At most 65,536 calls per node are in flight; more of them wait for a permit, up to their deadline.
///
/// # Cancel safety
/// Dropping the future of any call abandons it and leaves the client usable. Numbers may have been consumed: they
/// become a gap, never a duplicate.
///
/// # Runtime
/// The tokio runtime that [`Client::connect`] was called on drives the connections. Calls may be made from others.
///
/// # Tasks
/// The client owns the tasks of its connections and streams. Dropping its last clone aborts them; nothing has to be
/// awaited.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
    deadline: Duration,
}

impl Client {
    pub(crate) fn new(shared: Shared, deadline: Duration) -> Client {
        Client { shared: Arc::new(shared), deadline }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The same client with another deadline for its calls, up to a day.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Client {
        Client { shared: self.shared.clone(), deadline: deadline.min(MAX_DEADLINE) }
    }

    /// The uid ranges of the clusters known so far, in order, end exclusive.
    #[must_use]
    pub fn known_uids(&self) -> Vec<Range<u64>> {
        self.shared.routes.load().uids().collect()
    }

    /// Allocates the next number of a uid.
    ///
    /// # Errors
    /// [`CallError`]; with [`CallError::may_have_applied`] a number may be lost to a gap.
    ///
    /// # Cancel safety
    /// A call that is dropped may have consumed a number.
    pub async fn next(&self, uid: u64) -> Result<Allocation, CallError> {
        self.next_n(uid, 1).await
    }

    /// Allocates the next `count` numbers of a uid, `1 ..= 1_000_000`; they are contiguous.
    ///
    /// # Errors
    /// [`CallError`]; with [`CallError::may_have_applied`] numbers may be lost to a gap.
    ///
    /// # Cancel safety
    /// A call that is dropped may have consumed its numbers.
    pub async fn next_n(&self, uid: u64, count: u32) -> Result<Allocation, CallError> {
        check_count(uid, count)?;
        let mut attempts = self.attempts();
        if let Some(allocation) = stream_call::next(&mut attempts, uid, count).await? {
            return Ok(allocation);
        }
        // Boxed: keeps the future of the usual call small.
        Box::pin(self.next_unary(attempts, uid, count)).await
    }

    async fn next_unary(&self, mut attempts: Attempts<'_>, uid: u64, count: u32) -> Result<Allocation, CallError> {
        self.refresh_if_outside(uid, &attempts).await;
        loop {
            let mut target = attempts.target(uid)?;
            let request = attempts.request(v1::NextRequest {
                uid: Some(uid),
                count,
                route_version: target.route_version,
                epoch: target.epoch,
                hops: 0,
            });
            match attempts.attempt(target.client.next(request)).await {
                Ok(response) => {
                    self.shared.adopt(response.routes.as_ref(), &target.addr);
                    let checked =
                        Allocation::checked(response.value, response.prev, response.epoch, count, &target.addr);
                    let lost = attempts.lost().saturating_add(response.lost.unwrap_or(0));
                    return checked.map(|allocation| Allocation { lost, ..allocation });
                }
                Err(failed) => attempts.prepare_retry(uid, &target.addr, failed).await?,
            }
        }
    }

    /// Allocates one number for each uid, in one request to each owner concerned. A uid that occurs twice gets two
    /// numbers, in that order, unless its first item had to be retried. Any number of uids; more than 10,000 of one
    /// owner go in several requests, one after the other.
    ///
    /// If the uids are of several sets, an item of a set of which no node can be reached is not retried up to the
    /// deadline: it fails with [`CallError::SetUnavailable`] as soon as its nodes have failed, and the other items do
    /// not wait for it.
    ///
    /// # Errors
    /// The inner ones are each item's own, [`CallError::UidOutside`] among them; the outer one means that no item got a
    /// response, and then [`CallError::may_have_applied`] covers all items.
    ///
    /// # Cancel safety
    /// A call that is dropped may have consumed numbers of any of the uids.
    pub async fn next_many(&self, uids: &[u64]) -> BatchResult<Allocation> {
        self.batch::<NextMany>(uids, &[]).await
    }

    /// Allocates `count` numbers for each `(uid, count)`, as [`Client::next_many`] does; each count is `1 ..=
    /// 1_000_000`.
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

    /// Raises a uid to a number, `0 ..= 2^62`, so that its next number is above it: for imports. Idempotent. Returns
    /// the epoch of the ownership that did it, 1 or above.
    ///
    /// # Errors
    /// [`CallError`]; refused as `ALREADY_PAST` if the uid is above the number, which it also is when an attempt of
    /// this call that is counted by [`CallError::may_have_applied`] raised it and another call then took a number.
    ///
    /// # Cancel safety
    /// A call that is dropped may have raised the uid.
    pub async fn advance(&self, uid: u64, to: u64) -> Result<u64, CallError> {
        let mut attempts = self.attempts();
        self.refresh_if_outside(uid, &attempts).await;
        loop {
            let mut target = attempts.target(uid)?;
            let request = attempts.request(v1::AdvanceRequest {
                uid: Some(uid),
                to: Some(to),
                route_version: target.route_version,
                epoch: target.epoch,
                hops: 0,
            });
            match attempts.attempt(target.client.advance(request)).await {
                Ok(response) => {
                    self.shared.adopt(response.routes.as_ref(), &target.addr);
                    return Ok(response.epoch);
                }
                Err(failed) => attempts.prepare_retry(uid, &target.addr, failed).await?,
            }
        }
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
        self.refresh_if_outside(uid, &attempts).await;
        loop {
            let mut target = attempts.target(uid)?;
            let request = attempts.request(v1::CurrentRequest {
                uid: Some(uid),
                route_version: target.route_version,
                epoch: target.epoch,
                hops: 0,
            });
            match attempts.attempt(target.client.current(request)).await {
                Ok(response) => {
                    self.shared.adopt(response.routes.as_ref(), &target.addr);
                    return Current::checked(response.value, response.exactness, response.epoch, &target.addr);
                }
                Err(failed) => attempts.prepare_retry(uid, &target.addr, failed).await?,
            }
        }
    }

    /// Reads the last number of each uid, in one request to each owner concerned. Moves nothing.
    ///
    /// # Errors
    /// As [`Client::next_many`].
    ///
    /// # Cancel safety
    /// Dropping it has no effect.
    pub async fn current_many(&self, uids: &[u64]) -> BatchResult<Current> {
        self.batch::<CurrentMany>(uids, &[]).await
    }

    async fn batch<A: BatchMethod>(&self, uids: &[u64], counts: &[u32]) -> BatchResult<A::Answer> {
        if uids.is_empty() {
            return Ok(Vec::new());
        }
        let deadline = Instant::now() + self.deadline;
        let mut plan = self.plan(uids, counts);
        if plan.has_outside() {
            discovery::refresh(&self.shared, deadline).await;
            plan = self.plan(uids, counts);
        }
        let attempts = || Attempts::new(&self.shared, deadline).failing_fast(plan.spans_sets());
        let results = match plan.groups.as_slice() {
            [group] => vec![group_results::<A>(group, attempts).await],
            groups => join_all(groups.iter().map(|group| group_results::<A>(group, attempts))).await,
        };
        let results = plan.merge(uids, results, |uid| Err(CallError::UidOutside { uid }));
        if results.iter().all(|result| matches!(result, Err(error) if error.is_unanswered())) {
            return Err(batch_error(results));
        }
        Ok(results)
    }

    fn plan<'a>(&self, uids: &'a [u64], counts: &'a [u32]) -> Plan<'a> {
        let directory = self.shared.routes.load();
        Plan::new(uids, counts, |uid| {
            directory.route(uid).map(|route| Destination { set: route.set, owner: route.owner })
        })
    }

    fn attempts(&self) -> Attempts<'_> {
        Attempts::new(&self.shared, Instant::now() + self.deadline)
    }

    /// Fetches the routes of new sets, once, if a uid is outside every known set.
    async fn refresh_if_outside(&self, uid: u64, attempts: &Attempts<'_>) {
        let known = self.shared.routes.load().route(uid).is_some();
        if !known {
            discovery::refresh(&self.shared, attempts.deadline()).await;
        }
    }
}

/// Sends the items of one owner, in as many requests as they need. The requests are sequential, so a uid's items stay
/// in order.
async fn group_results<'a, A: BatchMethod>(
    group: &Group<'_>,
    attempts: impl Fn() -> Attempts<'a>,
) -> Vec<Result<A::Answer, CallError>> {
    let mut results = Vec::new();
    let mut counts = group.counts.chunks(MAX_ITEMS);
    for uids in group.uids.chunks(MAX_ITEMS) {
        let counts = counts.next().unwrap_or_default();
        let mut chunk = batch_call::send_with_retries::<A>(attempts(), uids, counts).await;
        if results.is_empty() {
            // The usual group is one request; its results are not copied.
            results = chunk;
        } else {
            results.append(&mut chunk);
        }
    }
    results
}

fn check_count(uid: u64, count: u32) -> Result<(), CallError> {
    if (1..=MAX_COUNT).contains(&count) { Ok(()) } else { Err(CallError::CountOutOfRange { uid, count }) }
}

/// The error of a batch without a response to any item: the first item's, with `may_have_applied` if any item has it.
fn batch_error<T>(results: Vec<Result<T, CallError>>) -> CallError {
    let mut errors = results.into_iter().filter_map(Result::err);
    let first = errors.next().expect("a batch has items");
    let moved = errors.any(|error| error.may_have_applied());
    if moved { first.having_applied() } else { first }
}
