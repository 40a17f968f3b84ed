//! Encodes the response to a batch, whose fields are parallel lists with one entry for each item.

use seq_api::service::{Allocation, ItemReply};
use seq_proto::{status, v1};

use crate::timeout::Deadline;

/// Encodes the results of the items of a batch, in the order of the items. An item without a result is encoded as
/// refused with `WOULD_WAIT`. `deadline` is the deadline of the request, or `None` if no item waited.
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

/// Adds the number of attempts with unknown outcome that were made for an item. The function is marked as cold, because
/// such attempts occur only after an owner failed.
#[cold]
fn add_lost(response: &mut v1::NextManyResponse, index: u32, attempts: u32) {
    let lost = response.lost.get_or_insert_default();
    lost.indexes.push(index);
    lost.attempts.push(attempts);
}
