//! Batch calls: encodes `NextMany` and `CurrentMany` requests, decodes the responses, and retries the items that failed
//! for now.

use seq_proto::v1;
use tonic::Status;

use crate::allocation::{self, Allocation, Current};
use crate::attempts::{self, Attempts, Target};
use crate::error::CallError;

/// An RPC over many uids.
pub(crate) trait BatchMethod {
    /// The result of one item.
    type Answer: Send;

    /// Adds earlier attempts with unknown outcome: they may have moved the item's counter.
    fn add_lost(answer: &mut Self::Answer, attempts: u32);

    /// Sends one request and decodes its response; an empty `counts` means one number per item.
    fn attempt(
        attempts: &mut Attempts<'_>,
        target: &mut Target,
        uids: &[u64],
        counts: &[u32],
    ) -> impl Future<Output = Result<BatchResponse<Self::Answer>, Status>> + Send;
}

/// A decoded response to a batch.
pub(crate) struct BatchResponse<T> {
    /// One per item, in request order; the value of a refused item is arbitrary. `None` when the lengths of the lists
    /// do not match the request.
    pub(crate) items: Option<Vec<Result<T, CallError>>>,
    pub(crate) errors: Vec<v1::ItemError>,
    pub(crate) routes: Option<v1::Routes>,
}

/// Allocates numbers.
pub(crate) struct NextMany;

/// Reads the last numbers.
pub(crate) struct CurrentMany;

impl BatchMethod for NextMany {
    type Answer = Allocation;

    fn add_lost(answer: &mut Allocation, attempts: u32) {
        answer.lost += attempts;
    }

    async fn attempt(
        attempts: &mut Attempts<'_>,
        target: &mut Target,
        uids: &[u64],
        counts: &[u32],
    ) -> Result<BatchResponse<Allocation>, Status> {
        let request = attempts.request(v1::NextManyRequest {
            uids: uids.to_vec(),
            counts: counts.to_vec(),
            route_version: Some(target.route_version),
            hops: 0,
            known_epochs: attempts.epochs(uids),
        });
        let response = attempts.attempt(target.client.next_many(request)).await?;
        let fits = [&response.values, &response.prevs, &response.epochs].iter().all(|list| list.len() == uids.len());
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
        Ok(BatchResponse { items, errors: response.errors, routes: response.routes })
    }
}

impl BatchMethod for CurrentMany {
    type Answer = Current;

    fn add_lost(_: &mut Current, _: u32) {}

    async fn attempt(
        attempts: &mut Attempts<'_>,
        target: &mut Target,
        uids: &[u64],
        _counts: &[u32],
    ) -> Result<BatchResponse<Current>, Status> {
        let request = attempts.request(v1::CurrentManyRequest {
            uids: uids.to_vec(),
            route_version: Some(target.route_version),
            hops: 0,
        });
        let response = attempts.attempt(target.client.current_many(request)).await?;
        let fits = response.values.len() == uids.len()
            && response.exactness.len() == uids.len()
            && response.epochs.len() == uids.len();
        let items = fits.then(|| {
            let lists = response.values.iter().zip(&response.exactness).zip(&response.epochs);
            let item = |((value, exactness), epoch): ((&u64, &i32), &u64)| {
                Current::checked(*value, *exactness, *epoch, &target.addr)
            };
            lists.map(item).collect()
        });
        Ok(BatchResponse { items, errors: response.errors, routes: response.routes })
    }
}

/// Sends requests until every item has a result or a permanent refusal, or the deadline or the retry budget is
/// exhausted. Returns one result per item, in order.
///
/// After the first attempt only the items with a retryable refusal are sent again, in one request: any node forwards
/// what it does not own. `uids` is not empty and fits one request.
pub(crate) async fn send_with_retries<A: BatchMethod>(
    mut attempts: Attempts<'_>,
    uids: &[u64],
    counts: &[u32],
) -> Vec<Result<A::Answer, CallError>> {
    let mut results = match send_once::<A>(&mut attempts, uids, counts).await {
        Ok(results) => results,
        Err(error) => return uids.iter().map(|_| Err(error.clone())).collect(),
    };
    // Refusals with unknown outcome per item; empty until the first.
    let mut unknown: Vec<u32> = Vec::new();
    loop {
        let mut wait_for = None;
        let mut remaining = Vec::new();
        for (index, result) in results.iter().enumerate() {
            if let Err(CallError::Refused(refused)) = result
                && refused.is_retryable()
            {
                wait_for = wait_for.max(refused.retry_after);
                if attempts::is_outcome_unknown(&refused.reason) {
                    unknown.resize(uids.len(), 0);
                    unknown[index] += 1;
                }
                remaining.push(index);
            }
        }
        if remaining.is_empty() || !attempts.pause(wait_for, false).await {
            for (result, unknown) in results.iter_mut().zip(unknown) {
                if let Ok(answer) = result {
                    A::add_lost(answer, unknown);
                }
            }
            return results;
        }
        let remaining_uids: Vec<u64> = remaining.iter().map(|index| uids[*index]).collect();
        let remaining_counts: Vec<u32> = remaining.iter().filter_map(|index| counts.get(*index).copied()).collect();
        match send_once::<A>(&mut attempts, &remaining_uids, &remaining_counts).await {
            Ok(retried) => {
                for (index, result) in remaining.into_iter().zip(retried) {
                    replace(&mut results[index], result);
                }
            }
            Err(error) => {
                for index in remaining {
                    replace(&mut results[index], Err(error.clone()));
                }
                return results;
            }
        }
    }
}

/// Replaces a refusal by a later result, keeping its `may_have_applied`.
fn replace<T>(result: &mut Result<T, CallError>, later: Result<T, CallError>) {
    let moved = matches!(result, Err(error) if error.may_have_applied());
    *result = if moved { later.map_err(CallError::having_applied) } else { later };
}

/// Sends the request, to other nodes if one fails, until a response to the whole request arrives.
async fn send_once<A: BatchMethod>(
    attempts: &mut Attempts<'_>,
    uids: &[u64],
    counts: &[u32],
) -> Result<Vec<Result<A::Answer, CallError>>, CallError> {
    loop {
        let mut target = attempts.target(uids[0])?;
        match A::attempt(attempts, &mut target, uids, counts).await {
            Ok(response) => {
                attempts.adopt(response.routes.as_ref(), &target.addr);
                let bad = |what| CallError::BadAnswer { addr: target.addr.clone(), what };
                let mut items = response.items.ok_or_else(|| bad("lists of other lengths than the request's"))?;
                for error in response.errors {
                    let index = error.index as usize;
                    let item = items.get_mut(index).ok_or_else(|| bad("an error of an item that was not sent"))?;
                    *item = Err(CallError::Refused(Box::new(attempts.item(uids[index], error))));
                }
                if attempts.lost() > 0 {
                    items.iter_mut().flatten().for_each(|answer| A::add_lost(answer, attempts.lost()));
                }
                return Ok(items);
            }
            Err(failed) => attempts.prepare_retry(uids[0], &target.addr, failed).await?,
        }
    }
}
