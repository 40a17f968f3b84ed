//! The answer to a batch, as parallel lists.

use seq_kit::frontend::{Allocation, Answered};
use seq_proto::{status, v1};

/// The response with these answers, in request order. An item that has none is refused because it would wait.
pub(crate) fn response(
    answers: impl Iterator<Item = Answered<Allocation>>,
    routes: Option<v1::Routes>,
) -> v1::NextManyResponse {
    let (items, _) = answers.size_hint();
    let mut response = v1::NextManyResponse {
        values: Vec::with_capacity(items),
        prevs: Vec::with_capacity(items),
        epochs: Vec::with_capacity(items),
        errors: Vec::new(),
        routes,
        lost: None,
    };
    for (index, answer) in (0..).zip(answers) {
        let (value, prev, epoch) = match answer {
            Some(Ok(given)) => {
                if given.lost > 0 {
                    note_lost(&mut response, index, given.lost);
                }
                (given.value.0, given.prev.0, given.epoch.0)
            }
            Some(Err(refusal)) => {
                response.errors.push(status::to_item(index, &refusal));
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

/// Out of line: attempts are lost only where an owner was.
#[cold]
fn note_lost(response: &mut v1::NextManyResponse, index: u32, attempts: u32) {
    let lost = response.lost.get_or_insert_default();
    lost.indexes.push(index);
    lost.attempts.push(attempts);
}
