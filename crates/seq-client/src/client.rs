//! The client and its public calls. They are implemented with the modules for routes, attempts and batches.

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
use crate::directory::place::{BatchItem, Place};
use crate::discovery;
use crate::error::CallError;
use crate::node_client;
use crate::shared::Shared;
use crate::stream_call;

/// Default deadline of a call. It is longer than the time until the sections of a node whose host failed have new
/// owners.
pub const DEADLINE: Duration = Duration::from_secs(5);

/// Longest deadline of a call. A longer deadline is reduced to this deadline, so that the computation of an [`Instant`]
/// does not overflow.
pub(crate) const MAX_DEADLINE: Duration = Duration::from_secs(24 * 3_600);

/// Results of a batch call, one for each item, in the order of the items. The outer error means that no item got a
/// response.
pub type BatchResult<T> = Result<Vec<Result<T, CallError>>, CallError>;

/// A handle to the sequence service. Clones share connections, routes and retry budgets, so one client for each process
/// is enough.
///
/// # Deadline
/// Each call has one deadline for all its attempts, [`crate::DEADLINE`] by default. Each request carries the remaining
/// time, and a server stops working on a request when this time has passed.
///
/// # Retries
/// A call with a retryable failure is retried until its deadline, within a retry budget for each set. The number of
/// retries is at most a fifth of the number of calls to the set, plus ten for each second. After a failed connection,
/// the next attempt is sent to another node of the set, because any node of a set serves any of its uids.
///
/// # Sets
/// Sections of uids can migrate between the sets of a cluster while calls are served. The client merges the routes of
/// all sets. If a section has moved, the client sends the request to the new set without a backoff. If no node of a set
/// can be reached, the client requests routes from the other sets. Connections and retry budget are separate for each
/// set. So only calls and items for a set that is down fail, with [`CallError::SetUnavailable`] if the cluster has
/// other sets, and calls and items for other sets are not delayed.
///
/// # Concurrency
/// Concurrent calls of [`Client::next`] and [`Client::next_n`] share the messages of one stream to each node; see
/// [`crate::ClientBuilder::coalesce`]. No call is delayed to fill a message, and no call waits for the response to
/// another call. At most 65,536 calls to one node are in flight. Further calls wait, up to their deadlines, until
/// another call has completed.
///
/// # Cancel safety
/// Dropping the future of any call abandons the call and leaves the client usable. The call may have consumed numbers.
/// Such numbers are skipped and never allocated again.
///
/// # Runtime
/// The connections are driven by the tokio runtime in which [`Client::connect`] was called. Calls may be made in other
/// runtimes.
///
/// # Tasks
/// The client owns the tasks of its connections and streams. When its last clone is dropped, these tasks are aborted.
/// Nothing has to be awaited.
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

    /// Returns another handle to the same client. Calls of this handle have the deadline `deadline`, at most a day.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Client {
        Client { shared: self.shared.clone(), deadline: deadline.min(MAX_DEADLINE) }
    }

    /// Returns the uid ranges of the clusters that the client knows so far, in the order of uids. The end of a range is
    /// exclusive.
    #[must_use]
    pub fn known_uids(&self) -> Vec<Range<u64>> {
        self.shared.routes.load().uids().collect()
    }

    /// Allocates the next number of a uid.
    ///
    /// # Errors
    /// [`CallError`]. If [`CallError::may_have_applied`] returns `true`, a number may have been consumed, which is then
    /// skipped.
    ///
    /// # Cancel safety
    /// Dropping the future may consume a number.
    pub async fn next(&self, uid: u64) -> Result<Allocation, CallError> {
        self.next_n(uid, 1).await
    }

    /// Allocates the next `count` numbers of a uid, which are contiguous. `count` is in `1 ..= 1_000_000`.
    ///
    /// # Errors
    /// [`CallError`]. If [`CallError::may_have_applied`] returns `true`, numbers may have been consumed, which are then
    /// skipped.
    ///
    /// # Cancel safety
    /// Dropping the future may consume the numbers.
    pub async fn next_n(&self, uid: u64, count: u32) -> Result<Allocation, CallError> {
        check_count(uid, count)?;
        let mut attempts = self.attempts();
        if let Some(allocation) = stream_call::next(&mut attempts, uid, count).await? {
            return Ok(allocation);
        }
        // Boxed to keep the future of the common call small.
        Box::pin(self.next_unary(attempts, uid, count)).await
    }

    async fn next_unary(&self, mut attempts: Attempts<'_>, uid: u64, count: u32) -> Result<Allocation, CallError> {
        self.refresh_if_outside(uid, &attempts).await;
        loop {
            let target = attempts.target(uid)?;
            let request = attempts.request(v1::NextRequest {
                uid: Some(uid),
                count,
                route_version: target.route_version,
                epoch: target.epoch,
                hops: 0,
                above: None,
            });
            match attempts.attempt(node_client::of_uids(&target.channel).next(request)).await {
                Ok(response) => {
                    self.shared.adopt(response.routes.as_ref(), &target.addr);
                    let checked =
                        Allocation::checked(response.value, response.prev, response.epoch, count, &target.addr);
                    let lost = attempts.lost().saturating_add(response.lost.unwrap_or(0));
                    return checked.map(|allocation| Allocation { lost, ..allocation });
                }
                Err(failed) => attempts.prepare_retry(Some(Place::Uid(uid)), &target.addr, failed).await?,
            }
        }
    }

    /// Allocates one number for each uid. Sends one request to each node that owns sections of these uids. A uid that
    /// occurs twice gets two numbers, of which the first occurrence gets the smaller one, unless its item had to be
    /// retried. The number of uids is not limited. If more than 10,000 of the uids have the same owner, they are sent
    /// to the owner in several requests, one after another.
    ///
    /// If the uids are in several sets and no node of one of these sets can be reached, the items of this set fail with
    /// [`CallError::SetUnavailable`] as soon as the connections to all nodes of the set have failed. They are not
    /// retried, so the call does not wait for them until its deadline.
    ///
    /// # Errors
    /// Each inner error, including [`CallError::UidOutside`], concerns one item. The outer error means that no item got
    /// a response. If its [`CallError::may_have_applied`] returns `true`, numbers of any of the items may have been
    /// consumed.
    ///
    /// # Cancel safety
    /// Dropping the future may consume numbers of any of the uids.
    pub async fn next_many(&self, uids: &[u64]) -> BatchResult<Allocation> {
        self.batch(&NextMany, uids, &[]).await
    }

    /// Allocates `count` numbers for each pair `(uid, count)`, otherwise as [`Client::next_many`]. Each count is in
    /// `1 ..= 1_000_000`.
    ///
    /// # Errors
    /// As [`Client::next_many`]. If a count is out of range, the outer error is [`CallError::CountOutOfRange`], and no
    /// request is sent.
    ///
    /// # Cancel safety
    /// Dropping the future may consume numbers of any of the uids.
    pub async fn next_many_n(&self, items: &[(u64, u32)]) -> BatchResult<Allocation> {
        for (uid, count) in items {
            check_count(*uid, *count)?;
        }
        let (uids, counts): (Vec<u64>, Vec<u32>) = items.iter().copied().unzip();
        self.batch(&NextMany, &uids, &counts).await
    }

    /// Raises the counter of a uid to `to`, which is in `0 ..= 2^62`, so that the uid's next number is greater than
    /// `to`. This is used to import counters. It is idempotent. Returns the epoch of the ownership that applied the
    /// advance, 1 or above.
    ///
    /// # Errors
    /// [`CallError`]. The refusal `ALREADY_PAST` means that the last number of the uid is greater than `to`. One
    /// possible cause is an earlier attempt of this same call that was applied before another call allocated a number.
    /// [`CallError::may_have_applied`] returns whether there may have been such an attempt.
    ///
    /// # Cancel safety
    /// Dropping the future may raise the uid.
    pub async fn advance(&self, uid: u64, to: u64) -> Result<u64, CallError> {
        let mut attempts = self.attempts();
        self.refresh_if_outside(uid, &attempts).await;
        loop {
            let target = attempts.target(uid)?;
            let request = attempts.request(v1::AdvanceRequest {
                uid: Some(uid),
                to: Some(to),
                route_version: target.route_version,
                epoch: target.epoch,
                hops: 0,
            });
            match attempts.attempt(node_client::of_uids(&target.channel).advance(request)).await {
                Ok(response) => {
                    self.shared.adopt(response.routes.as_ref(), &target.addr);
                    return Ok(response.epoch);
                }
                Err(failed) => attempts.prepare_retry(Some(Place::Uid(uid)), &target.addr, failed).await?,
            }
        }
    }

    /// Reads the last number of a uid. The call changes no counter, so [`CallError::may_have_applied`] has no meaning
    /// for its errors.
    ///
    /// # Errors
    /// [`CallError`].
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn current(&self, uid: u64) -> Result<Current, CallError> {
        let mut attempts = self.attempts();
        self.refresh_if_outside(uid, &attempts).await;
        loop {
            let target = attempts.target(uid)?;
            let request = attempts.request(v1::CurrentRequest {
                uid: Some(uid),
                route_version: target.route_version,
                epoch: target.epoch,
                hops: 0,
            });
            match attempts.attempt(node_client::of_uids(&target.channel).current(request)).await {
                Ok(response) => {
                    self.shared.adopt(response.routes.as_ref(), &target.addr);
                    return Current::checked(response.value, response.exactness, response.epoch, &target.addr);
                }
                Err(failed) => attempts.prepare_retry(Some(Place::Uid(uid)), &target.addr, failed).await?,
            }
        }
    }

    /// Reads the last number of each uid. Sends one request to each node that owns sections of these uids. Changes no
    /// counter.
    ///
    /// # Errors
    /// As [`Client::next_many`].
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn current_many(&self, uids: &[u64]) -> BatchResult<Current> {
        self.batch(&CurrentMany, uids, &[]).await
    }

    /// Sends the items of a batch call, and merges their results.
    pub(crate) async fn batch<A: BatchMethod>(
        &self,
        method: &A,
        items: &[A::Item],
        counts: &[u32],
    ) -> BatchResult<A::Answer> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let deadline = Instant::now() + self.deadline;
        let mut plan = self.plan(items, counts);
        if plan.has_outside() {
            discovery::refresh(&self.shared, deadline).await;
            plan = self.plan(items, counts);
        }
        let attempts = || Attempts::new(&self.shared, deadline).failing_fast(plan.spans_sets());
        let results = match plan.groups.as_slice() {
            [group] => vec![group_results(method, group, attempts).await],
            groups => join_all(groups.iter().map(|group| group_results(method, group, attempts))).await,
        };
        let outside = |item: &A::Item| CallError::UidOutside { uid: item.place().uid().unwrap_or_default() };
        let results = plan.merge(items, results, |item| Err(outside(item)));
        if results.iter().all(|result| matches!(result, Err(error) if error.is_unanswered())) {
            return Err(batch_error(results));
        }
        Ok(results)
    }

    fn plan<'a, T: BatchItem>(&self, items: &'a [T], counts: &'a [u32]) -> Plan<'a, T> {
        let directory = self.shared.routes.load();
        Plan::new(items, counts, |item| {
            directory.route_of(item.place()).map(|route| Destination { set: route.set, owner: route.owner })
        })
    }

    pub(crate) fn attempts(&self) -> Attempts<'_> {
        Attempts::new(&self.shared, Instant::now() + self.deadline)
    }

    /// If a uid is in no known set, fetches the routes of the seeds' sets once more, because the cluster may have new
    /// sets.
    async fn refresh_if_outside(&self, uid: u64, attempts: &Attempts<'_>) {
        let known = self.shared.routes.load().route(uid).is_some();
        if !known {
            discovery::refresh(&self.shared, attempts.deadline()).await;
        }
    }
}

/// Limit on the bytes of the keys of one request. It is half of the largest request that a server reads. The other half
/// is for the counts and epochs of the items and for the frames of the keys.
const MAX_KEYS_BYTES: usize = 128 * 1024;

/// Sends the items of one group, in as many requests as they need, and returns their results. The requests are sent one
/// after another, so the items of a uid or key are processed in order.
async fn group_results<'a, A: BatchMethod>(
    method: &A,
    group: &Group<'_, A::Item>,
    attempts: impl Fn() -> Attempts<'a>,
) -> Vec<Result<A::Answer, CallError>> {
    let mut results = Vec::new();
    let (mut items, mut counts) = (&group.items[..], &group.counts[..]);
    while !items.is_empty() {
        let (now, later) = items.split_at(fitting(items));
        let (of_now, of_later) = counts.split_at(now.len().min(counts.len()));
        let mut chunk = batch_call::send_with_retries(method, attempts(), now, of_now).await;
        if results.is_empty() {
            // In the common case the group fits into one request, and the results are not copied.
            results = chunk;
        } else {
            results.append(&mut chunk);
        }
        (items, counts) = (later, of_later);
    }
    results
}

/// Returns the number of the first items that fit into one request. It is 1 or above, because every key is shorter than
/// the limit.
fn fitting<T: BatchItem>(items: &[T]) -> usize {
    let mut bytes = 0;
    let fits = |item: &&T| {
        bytes += item.key_bytes();
        bytes <= MAX_KEYS_BYTES
    };
    items.iter().take(MAX_ITEMS).take_while(fits).count()
}

fn check_count(uid: u64, count: u32) -> Result<(), CallError> {
    if (1..=MAX_COUNT).contains(&count) { Ok(()) } else { Err(CallError::CountOutOfRange { uid: Some(uid), count }) }
}

/// Returns the error of a batch call in which no item got a response. It is the error of the first item. It is marked
/// as possibly applied if the error of any item is.
fn batch_error<T>(results: Vec<Result<T, CallError>>) -> CallError {
    let mut errors = results.into_iter().filter_map(Result::err);
    let first = errors.next().expect("a batch has items");
    let moved = errors.any(|error| error.may_have_applied());
    if moved { first.having_applied() } else { first }
}
