//! The two questions a batch can ask, as requests and answers on the wire.

use seq_proto::v1;
use tonic::Status;

use crate::answer::{self, Allocation, Current};
use crate::attempts::{self, Attempts, Target};
use crate::error::CallError;

/// A question about many uids.
pub(crate) trait Ask {
    /// What one item is answered with.
    type Answer: Send;

    /// Notes attempts before that may have moved the item's counter.
    fn lost(answer: &mut Self::Answer, attempts: u32);

    /// Makes one attempt; `counts` is empty for one number each.
    fn attempt(
        attempts: &mut Attempts<'_>,
        target: &mut Target,
        uids: &[u64],
        counts: &[u32],
    ) -> impl Future<Output = Result<Answers<Self::Answer>, Status>> + Send;
}

/// An answer to many items.
pub(crate) struct Answers<T> {
    /// One for each item, in request order; a refused item is anything. `None` when the lists do not fit the request.
    pub(crate) items: Option<Vec<Result<T, CallError>>>,
    pub(crate) errors: Vec<v1::ItemError>,
    pub(crate) routes: Option<v1::Routes>,
}

/// Takes numbers.
pub(crate) struct NextMany;

/// Reads the last numbers.
pub(crate) struct CurrentMany;

impl Ask for NextMany {
    type Answer = Allocation;

    fn lost(answer: &mut Allocation, attempts: u32) {
        answer.lost += attempts;
    }

    async fn attempt(
        attempts: &mut Attempts<'_>,
        target: &mut Target,
        uids: &[u64],
        counts: &[u32],
    ) -> Result<Answers<Allocation>, Status> {
        let request = attempts.request(v1::NextManyRequest {
            uids: uids.to_vec(),
            counts: counts.to_vec(),
            route_version: Some(target.route_version),
            hops: 0,
            known_epochs: attempts.epochs(uids),
        });
        let answer = attempts.attempt(target.client.next_many(request)).await?;
        let fits = [&answer.values, &answer.prevs, &answer.epochs].iter().all(|list| list.len() == uids.len());
        let items = fits.then(|| {
            let lists = answer.values.iter().zip(&answer.prevs).zip(&answer.epochs).enumerate();
            let item = |(index, ((value, prev), epoch)): (usize, ((&u64, &u64), &u64))| {
                Allocation::checked(*value, *prev, *epoch, counts.get(index).copied().unwrap_or(1), &target.addr)
            };
            let mut items: Vec<_> = lists.map(item).collect();
            for (index, attempts) in answer::lost(answer.lost.as_ref()) {
                if let Some(Ok(given)) = items.get_mut(index) {
                    given.lost = attempts;
                }
            }
            items
        });
        Ok(Answers { items, errors: answer.errors, routes: answer.routes })
    }
}

impl Ask for CurrentMany {
    type Answer = Current;

    fn lost(_: &mut Current, _: u32) {}

    async fn attempt(
        attempts: &mut Attempts<'_>,
        target: &mut Target,
        uids: &[u64],
        _counts: &[u32],
    ) -> Result<Answers<Current>, Status> {
        let request = attempts.request(v1::CurrentManyRequest {
            uids: uids.to_vec(),
            route_version: Some(target.route_version),
            hops: 0,
        });
        let answer = attempts.attempt(target.client.current_many(request)).await?;
        let fits = answer.values.len() == uids.len()
            && answer.exactness.len() == uids.len()
            && answer.epochs.len() == uids.len();
        let items = fits.then(|| {
            let lists = answer.values.iter().zip(&answer.exactness).zip(&answer.epochs);
            let item = |((value, exactness), epoch): ((&u64, &i32), &u64)| {
                Current::checked(*value, *exactness, *epoch, &target.addr)
            };
            lists.map(item).collect()
        });
        Ok(Answers { items, errors: answer.errors, routes: answer.routes })
    }
}

/// Asks until every item is answered, refused for good, or out of time or budget; one result for each item, in order.
///
/// After the first attempt only the items that were refused for now are sent again, in one call: any node forwards what it
/// does not own. `uids` is not empty and fits one request.
pub(crate) async fn ask<A: Ask>(
    mut attempts: Attempts<'_>,
    uids: &[u64],
    counts: &[u32],
) -> Vec<Result<A::Answer, CallError>> {
    let mut results = match once::<A>(&mut attempts, uids, counts).await {
        Ok(results) => results,
        Err(error) => return uids.iter().map(|_| Err(error.clone())).collect(),
    };
    // How often each item was refused in doubt; empty until one was.
    let mut doubts: Vec<u32> = Vec::new();
    loop {
        let mut wait_for = None;
        let mut left = Vec::new();
        for (index, result) in results.iter().enumerate() {
            if let Err(CallError::Refused(refused)) = result
                && refused.is_retryable()
            {
                wait_for = wait_for.max(refused.retry_after);
                if attempts::moves_unseen(&refused.reason) {
                    doubts.resize(uids.len(), 0);
                    doubts[index] += 1;
                }
                left.push(index);
            }
        }
        if left.is_empty() || !attempts.pause(wait_for, false).await {
            for (result, doubts) in results.iter_mut().zip(doubts) {
                if let Ok(answer) = result {
                    A::lost(answer, doubts);
                }
            }
            return results;
        }
        let left_uids: Vec<u64> = left.iter().map(|index| uids[*index]).collect();
        let left_counts: Vec<u32> = left.iter().filter_map(|index| counts.get(*index).copied()).collect();
        match once::<A>(&mut attempts, &left_uids, &left_counts).await {
            Ok(again) => {
                for (index, result) in left.into_iter().zip(again) {
                    replace(&mut results[index], result);
                }
            }
            Err(error) => {
                for index in left {
                    replace(&mut results[index], Err(error.clone()));
                }
                return results;
            }
        }
    }
}

/// Puts a later result in the place of a refusal; what an earlier attempt may have moved is not forgotten.
fn replace<T>(result: &mut Result<T, CallError>, later: Result<T, CallError>) {
    let moved = matches!(result, Err(error) if error.may_have_applied());
    *result = if moved { later.map_err(CallError::having_applied) } else { later };
}

/// Sends until somebody answers the call as a whole.
async fn once<A: Ask>(
    attempts: &mut Attempts<'_>,
    uids: &[u64],
    counts: &[u32],
) -> Result<Vec<Result<A::Answer, CallError>>, CallError> {
    loop {
        let mut target = attempts.target(uids[0])?;
        match A::attempt(attempts, &mut target, uids, counts).await {
            Ok(answers) => {
                attempts.adopt(answers.routes.as_ref(), &target.addr);
                let bad = |what| CallError::BadAnswer { addr: target.addr.clone(), what };
                let mut items = answers.items.ok_or_else(|| bad("lists of other lengths than the request's"))?;
                for error in answers.errors {
                    let index = error.index as usize;
                    let item = items.get_mut(index).ok_or_else(|| bad("an error of an item that was not sent"))?;
                    *item = Err(CallError::Refused(Box::new(attempts.item(uids[index], error))));
                }
                if attempts.lost() > 0 {
                    items.iter_mut().flatten().for_each(|answer| A::lost(answer, attempts.lost()));
                }
                return Ok(items);
            }
            Err(failed) => attempts.again(uids[0], &target.addr, failed).await?,
        }
    }
}
