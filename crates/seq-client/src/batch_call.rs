//! Sends the requests of batch calls, and retries items that got a retryable error. The methods for many uids are in
//! this module, those for many keys in `keyspace/batch.rs`.
//!
//! Invariant: items of different sets are retried separately, each under the retry budget of its own set. So a set that
//! is down does not delay items of another set.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use seq_core::Epoch;
use seq_proto::v1;
use tonic::Status;

use crate::allocation::{self, Allocation, Current};
use crate::attempts::{self, Attempts, Classified, NamedSet, Target};
use crate::directory::place::BatchItem;
use crate::directory::sections::SetIndex;
use crate::error::CallError;
use crate::node_client;

/// A method for many uids or keys.
pub(crate) trait BatchMethod: Sync {
    /// An item of a request.
    type Item: BatchItem;

    /// Result of one item.
    type Answer: Send;

    /// Adds the number of earlier attempts with unknown outcome to the item's result. Each such attempt may have
    /// consumed numbers for the item.
    fn add_lost(answer: &mut Self::Answer, attempts: u32);

    /// Sends one request with the items to `target` and decodes the response. If `counts` is empty, each item gets one
    /// number. `epochs` are the newest known epochs of the items' sections.
    fn attempt(
        &self,
        attempts: &mut Attempts<'_>,
        target: &Target,
        items: &[Self::Item],
        counts: &[u32],
        epochs: Vec<u64>,
    ) -> impl Future<Output = Result<BatchResponse<Self::Answer>, Status>> + Send;
}

/// A decoded response to a batch.
pub(crate) struct BatchResponse<T> {
    /// Results of the items, in the order of the request. The result of a refused item has no meaning. `None` if the
    /// lists in the response do not have the lengths that the request requires.
    pub(crate) items: Option<Vec<Result<T, CallError>>>,
    pub(crate) errors: Vec<v1::ItemError>,
    pub(crate) routes: Option<v1::Routes>,
}

/// The method `NextMany`: allocates numbers.
pub(crate) struct NextMany;

/// The method `CurrentMany`: reads the last numbers.
pub(crate) struct CurrentMany;

impl BatchMethod for NextMany {
    type Item = u64;
    type Answer = Allocation;

    fn add_lost(answer: &mut Allocation, attempts: u32) {
        answer.lost += attempts;
    }

    async fn attempt(
        &self,
        attempts: &mut Attempts<'_>,
        target: &Target,
        uids: &[u64],
        counts: &[u32],
        known_epochs: Vec<u64>,
    ) -> Result<BatchResponse<Allocation>, Status> {
        let request = attempts.request(v1::NextManyRequest {
            uids: uids.to_vec(),
            counts: counts.to_vec(),
            route_version: target.route_version,
            hops: 0,
            known_epochs,
        });
        let mut node = node_client::of_uids(&target.channel);
        let response = attempts.attempt(node.next_many(request)).await?;
        Ok(BatchResponse::of_numbers(response, uids.len(), counts, target))
    }
}

impl BatchMethod for CurrentMany {
    type Item = u64;
    type Answer = Current;

    fn add_lost(_: &mut Current, _: u32) {}

    async fn attempt(
        &self,
        attempts: &mut Attempts<'_>,
        target: &Target,
        uids: &[u64],
        _counts: &[u32],
        known_epochs: Vec<u64>,
    ) -> Result<BatchResponse<Current>, Status> {
        let request = attempts.request(v1::CurrentManyRequest {
            uids: uids.to_vec(),
            route_version: target.route_version,
            hops: 0,
            known_epochs,
        });
        let mut node = node_client::of_uids(&target.channel);
        let response = attempts.attempt(node.current_many(request)).await?;
        Ok(BatchResponse::of_reads(response, uids.len(), target))
    }
}

impl BatchResponse<Allocation> {
    /// Decodes the response with the numbers of `items` items, which was sent by `target`.
    pub(crate) fn of_numbers(
        response: v1::NextManyResponse,
        items: usize,
        counts: &[u32],
        target: &Target,
    ) -> BatchResponse<Allocation> {
        let fits = [&response.values, &response.prevs, &response.epochs].iter().all(|list| list.len() == items);
        let items = fits.then(|| {
            let lists = response.values.iter().zip(&response.prevs).zip(&response.epochs).enumerate();
            let item = |(index, ((value, prev), epoch)): (usize, ((&u64, &u64), &u64))| {
                Allocation::checked(*value, *prev, *epoch, counts.get(index).copied().unwrap_or(1), &target.addr)
            };
            let mut items: Vec<_> = lists.map(item).collect();
            for (index, attempts) in allocation::lost(response.lost.as_ref()) {
                if let Some(Ok(allocation)) = items.get_mut(index) {
                    allocation.lost = attempts;
                }
            }
            items
        });
        BatchResponse { items, errors: response.errors, routes: response.routes }
    }
}

impl BatchResponse<Current> {
    /// Decodes the response with the last numbers of `items` items, which was sent by `target`.
    pub(crate) fn of_reads(response: v1::CurrentManyResponse, items: usize, target: &Target) -> BatchResponse<Current> {
        let fits =
            response.values.len() == items && response.exactness.len() == items && response.epochs.len() == items;
        let items = fits.then(|| {
            let lists = response.values.iter().zip(&response.exactness).zip(&response.epochs);
            let item = |((value, exactness), epoch): ((&u64, &i32), &u64)| {
                Current::checked(*value, *exactness, *epoch, &target.addr)
            };
            lists.map(item).collect()
        });
        BatchResponse { items, errors: response.errors, routes: response.routes }
    }
}

/// Outcome of one request.
enum Sent<T> {
    /// A response arrived. `results` has the result of each item, and `retries` the items that have to be sent again.
    Response { results: Vec<Result<T, CallError>>, retries: Vec<Retry> },
    /// The request got no response, so all its items are sent again.
    Again,
    /// The request got no response and is not retried.
    Failed(CallError),
    /// No request was sent, because the deadline or the retry budget allowed no retry.
    Nothing,
}

/// An item to send again.
struct Retry {
    /// Index of the item in the request.
    index: usize,
    group: RetryGroup,
    retry_after: Option<Duration>,
    /// Whether the item may have consumed numbers although it was refused.
    is_unknown: bool,
}

/// Group of the items that are sent again in one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RetryGroup {
    /// Set of the items' sections.
    set: Option<SetIndex>,
    /// Set whose retry budget pays for the retry; `None` if it is the set to which the last attempt was sent.
    charged: Option<SetIndex>,
    /// Whether the items are sent without a backoff, because their sections moved to another set.
    moved: bool,
}

/// Items of a call that were sent together.
struct Part<'a, T> {
    attempts: Attempts<'a>,
    /// Indexes of the items in the call's list of items.
    indexes: Vec<usize>,
    sent: Sent<T>,
}

/// Sends requests until every item has a result or a permanent refusal, or until the deadline has passed or the retry
/// budget is exhausted. Returns one result for each item, in the order of `items`.
///
/// After the first request, only items with a retryable refusal are sent again. They are sent in one request for each
/// set, because any node of a set forwards items to their owners. `items` must not be empty and must fit into one
/// request.
pub(crate) async fn send_with_retries<A: BatchMethod>(
    method: &A,
    mut attempts: Attempts<'_>,
    items: &[A::Item],
    counts: &[u32],
) -> Vec<Result<A::Answer, CallError>> {
    match send_once(method, &mut attempts, items, counts).await {
        Sent::Response { results, retries } if retries.is_empty() => results,
        sent => {
            let first = Part { attempts, indexes: (0..items.len()).collect(), sent };
            // Boxed to keep the future of the common call small.
            Box::pin(send_remaining(method, first, items, counts)).await
        }
    }
}

/// Retries the items that have no final result after the first request. The items of each set are retried separately.
async fn send_remaining<A: BatchMethod>(
    method: &A,
    first: Part<'_, A::Answer>,
    items: &[A::Item],
    counts: &[u32],
) -> Vec<Result<A::Answer, CallError>> {
    let mut results: Vec<Option<Result<A::Answer, CallError>>> = items.iter().map(|_| None).collect();
    // For each item, the number of refusals after which the item may have consumed numbers.
    let mut unknown = vec![0; items.len()];
    let mut running = FuturesUnordered::new();
    let mut next = Some(first);
    while let Some(Part { attempts, indexes, sent }) = next {
        let again = |group: RetryGroup, retry_after, indexes| {
            let wait = (!group.moved).then_some(retry_after);
            send_again(method, attempts.fork(group.charged), indexes, (items, counts), wait)
        };
        match sent {
            Sent::Response { results: given, retries } => {
                for retry in &retries {
                    unknown[indexes[retry.index]] += u32::from(retry.is_unknown);
                }
                for (index, result) in indexes.iter().zip(given) {
                    replace(&mut results[*index], result);
                }
                for (group, retries) in grouped(&retries, |retry| retry.group) {
                    let retry_after = retries.iter().map(|retry| retry.retry_after).max().flatten();
                    let of_group = retries.iter().map(|retry| indexes[retry.index]).collect();
                    running.push(again(group, retry_after, of_group));
                }
            }
            Sent::Again => {
                let places = indexes.iter().map(|index| items[*index].place());
                let sets: Vec<_> = attempts.sets(places).into_iter().zip(indexes).collect();
                for (set, of_set) in grouped(&sets, |(set, _)| *set) {
                    // These items are sent without a backoff, because `prepare_retry` has already waited for it.
                    let group = RetryGroup { set, charged: None, moved: true };
                    running.push(again(group, None, of_set.iter().map(|(_, index)| *index).collect()));
                }
            }
            Sent::Failed(error) => {
                for index in indexes {
                    replace(&mut results[index], Err(error.clone()));
                }
            }
            Sent::Nothing => {}
        }
        next = running.next().await;
    }
    let finished = results.into_iter().zip(unknown).map(|(result, unknown)| {
        let mut result = result.expect("the first request has a result for each item");
        if let Ok(answer) = &mut result {
            A::add_lost(answer, unknown);
        }
        result
    });
    finished.collect()
}

/// Groups the items by the value that `group` returns. The groups are in the order of their first items, and the items
/// in each group keep their order.
fn grouped<T, G: PartialEq>(items: &[T], group: impl Fn(&T) -> G) -> Vec<(G, Vec<&T>)> {
    let mut groups: Vec<(G, Vec<&T>)> = Vec::new();
    for item in items {
        let group = group(item);
        // There are few sets, so a scan is faster than a map.
        match groups.iter_mut().find(|(known, _)| *known == group) {
            Some((_, items)) => items.push(item),
            None => groups.push((group, vec![item])),
        }
    }
    groups
}

/// Sends the items with the given indexes again, in one request. If `wait` has a time, first waits for a backoff of at
/// least this time.
async fn send_again<'a, A: BatchMethod>(
    method: &A,
    mut attempts: Attempts<'a>,
    indexes: Vec<usize>,
    (items, counts): (&[A::Item], &[u32]),
    wait: Option<Option<Duration>>,
) -> Part<'a, A::Answer> {
    let may_send = match wait {
        None => true,
        Some(at_least) => attempts.pause(at_least, false).await,
    };
    let sent = if may_send {
        let items: Vec<A::Item> = indexes.iter().map(|index| items[*index]).collect();
        let counts: Vec<u32> = indexes.iter().filter_map(|index| counts.get(*index).copied()).collect();
        send_once(method, &mut attempts, &items, &counts).await
    } else {
        Sent::Nothing
    };
    Part { attempts, indexes, sent }
}

/// Replaces the result of an item by the result of a later attempt. If both results are errors, and the replaced error
/// states that numbers may have been consumed, the later error is marked to state this too.
fn replace<T>(result: &mut Option<Result<T, CallError>>, later: Result<T, CallError>) {
    let moved = matches!(result, Some(Err(error)) if error.may_have_applied());
    *result = Some(if moved { later.map_err(CallError::having_applied) } else { later });
}

/// Sends a request with the items once. If the request gets no response and may be retried, waits for the backoff.
async fn send_once<A: BatchMethod>(
    method: &A,
    attempts: &mut Attempts<'_>,
    items: &[A::Item],
    counts: &[u32],
) -> Sent<A::Answer> {
    let first = items[0].place();
    let target = match attempts.target(first) {
        Ok(target) => target,
        Err(error) => return Sent::Failed(error),
    };
    let epochs = attempts.epochs(items.iter().map(|item| item.place()));
    match method.attempt(attempts, &target, items, counts, epochs.clone()).await {
        Ok(response) => match read::<A>(attempts, &target, response, items, &epochs) {
            Ok((results, retries)) => Sent::Response { results, retries },
            Err(what) => Sent::Failed(CallError::BadAnswer { addr: target.addr.clone(), what }),
        },
        Err(failed) => match attempts.prepare_retry(Some(first), &target.addr, failed).await {
            Ok(()) => Sent::Again,
            Err(error) => Sent::Failed(error),
        },
    }
}

/// Results of the items of a request, and the items to send again.
type Results<T> = (Vec<Result<T, CallError>>, Vec<Retry>);

/// Reads the response to a request with `items`, which was sent to `target`.
///
/// # Errors
/// A description of the way in which the response violates the protocol.
fn read<A: BatchMethod>(
    attempts: &mut Attempts<'_>,
    target: &Target,
    response: BatchResponse<A::Answer>,
    items: &[A::Item],
    epochs: &[u64],
) -> Result<Results<A::Answer>, &'static str> {
    attempts.adopt(response.routes.as_ref(), &target.addr);
    let mut results = response.items.ok_or("lists of other lengths than the request's")?;
    let mut retries = Vec::new();
    for item in response.errors {
        let index = item.index as usize;
        let result = results.get_mut(index).ok_or("an error of an item that was not sent")?;
        let (named, is_unknown) = (NamedSet::of(&item), attempts::is_outcome_unknown(&item.reason));
        let place = items[index].place();
        let refused = attempts.item(place, item);
        let Classified { error, moved, charged, retry_after } =
            attempts.classify(Some(place), refused, named, Some(Epoch(epochs[index])));
        if error.is_retryable() && !attempts.is_final(&error) {
            let group = RetryGroup { set: None, charged, moved };
            retries.push(Retry { index, group, retry_after, is_unknown });
        }
        *result = Err(error);
    }
    if attempts.lost() > 0 {
        results.iter_mut().flatten().for_each(|answer| A::add_lost(answer, attempts.lost()));
    }
    if retries.iter().any(|retry| retry.group.moved) {
        attempts.count_followed();
    }
    // The sets are computed after the response's routes and all its statements about moved sections were adopted.
    let sets = attempts.sets(retries.iter().map(|retry| items[retry.index].place()));
    for (retry, set) in retries.iter_mut().zip(sets) {
        retry.group.set = set;
    }
    Ok((results, retries))
}
