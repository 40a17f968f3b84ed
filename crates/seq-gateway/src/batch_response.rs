//! The response to a batch, as parallel lists.

use seq_api::service::{Allocation, ItemReply};
use seq_proto::{status, v1};

use crate::timeout::Deadline;

/// Encodes the results of the items, in the order of the request. An item without a result is refused with
/// `WOULD_WAIT`. If no result had to wait, `deadline` may be `None`.
#[inline]
pub(crate) fn encode(
    results: impl Iterator<Item = ItemReply<Allocation>>,
    deadline: Option<Deadline>,
    routes: Option<v1::Routes>,
) -> v1::NextManyResponse {
    let (items, _) = results.size_hint();
    let mut response = v1::NextManyResponse {
        values: Vec::with_capacity(items),
        prevs: Vec::with_capacity(items),
        epochs: Vec::with_capacity(items),
        errors: Vec::new(),
        routes,
        lost: None,
    };
    for (index, result) in (0..).zip(results) {
        let (value, prev, epoch) = match result {
            Some(Ok(allocation)) => {
                if allocation.lost > 0 {
                    add_lost(&mut response, index, allocation.lost);
                }
                (allocation.value.0, allocation.prev.0, allocation.epoch.0)
            }
            Some(Err(refusal)) => {
                response.errors.push(match deadline {
                    Some(deadline) => deadline.item(index, &refusal),
                    None => status::to_item(index, &refusal),
                });
                (0, 0, 0)
            }
            None => {
                response.errors.push(status::would_wait(index));
                (0, 0, 0)
            }
        };
        response.values.push(value);
        response.prevs.push(prev);
        response.epochs.push(epoch);
    }
    response
}

/// Adds the lost attempts of an item. It is cold, because attempts are lost only when an owner is lost.
#[cold]
fn add_lost(response: &mut v1::NextManyResponse, index: u32, attempts: u32) {
    let lost = response.lost.get_or_insert_default();
    lost.indexes.push(index);
    lost.attempts.push(attempts);
}
