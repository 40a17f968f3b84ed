//! The answer to a batch, as parallel lists.

use seq_core::Refusal;
use seq_kit::frontend::Allocation;
use seq_proto::{status, v1};

/// The response with these results, in request order.
pub(crate) fn response(
    results: impl Iterator<Item = Result<Allocation, Refusal>>,
    routes: Option<v1::Routes>,
) -> v1::NextManyResponse {
    let (items, _) = results.size_hint();
    let mut answer = v1::NextManyResponse {
        values: Vec::with_capacity(items),
        prevs: Vec::with_capacity(items),
        epochs: Vec::with_capacity(items),
        errors: Vec::new(),
        routes,
    };
    for (index, result) in (0..).zip(results) {
        let (value, prev, epoch) = match result {
            Ok(given) => (given.value.0, given.prev.0, given.epoch.0),
            Err(refusal) => {
                answer.errors.push(status::to_item(index, &refusal));
                (0, 0, 0)
            }
        };
        answer.values.push(value);
        answer.prevs.push(prev);
        answer.epochs.push(epoch);
    }
    answer
}
