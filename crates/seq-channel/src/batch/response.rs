//! The response to a message, divided among the calls in the message. Each call gets access to the range of its own
//! items, without a copy.
//!
//! Invariant: each list of a [`Response`] has one entry for each of the response's items. A response that violates the
//! protocol is refused as a whole before it is divided.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use seq_proto::v1;

/// Results of one call's items.
#[derive(Clone, Debug)]
pub struct Response {
    message: Arc<Message>,
    items: Range<usize>,
}

/// Numbers that the node allocated for an item. They are not validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocated {
    /// The last number.
    pub value: u64,
    /// The number that was allocated for the uid directly before the first number; 0 if it is unknown.
    pub prev: u64,
    /// Epoch of the ownership that allocated the numbers.
    pub epoch: u64,
    /// Number of earlier attempts for the item that nodes made by forwarding it, and whose outcome is unknown.
    pub lost: u32,
}

/// A valid response to a message.
#[derive(Debug)]
pub(super) struct Message {
    response: v1::NextManyResponse,
    /// Whether the response contained routes.
    has_routes: bool,
    /// Routes in the response; `None` once a caller has taken them.
    routes: Mutex<Option<v1::Routes>>,
}

impl Message {
    /// Checks the response to a message with `items` items against the protocol.
    ///
    /// # Errors
    /// A description of the way in which the response violates the protocol.
    pub(super) fn checked(mut response: v1::NextManyResponse, items: usize) -> Result<Arc<Message>, &'static str> {
        let v1::NextManyResponse { values, prevs, epochs, errors, lost, .. } = &response;
        if [values, prevs, epochs].iter().any(|list| list.len() != items) {
            return Err("lists of other lengths than the request's");
        }
        if errors.last().is_some_and(|item| item.index as usize >= items) {
            return Err("an error of an item that was not sent");
        }
        if !errors.is_sorted_by(|one, next| one.index < next.index) {
            return Err("errors that are not in order of index");
        }
        let lost = lost.as_ref().map_or((&[][..], 0), |lost| (&lost.indexes[..], lost.attempts.len()));
        if lost.0.len() != lost.1 || !lost.0.is_sorted_by(|one, next| one < next) {
            return Err("lost attempts that are not in order of index");
        }
        let routes = response.routes.take();
        Ok(Arc::new(Message { has_routes: routes.is_some(), response, routes: Mutex::new(routes) }))
    }

    /// Returns the part of the response that belongs to one call. `items` is the range of the call's items in the
    /// message.
    pub(super) fn part(self: &Arc<Message>, items: Range<usize>) -> Response {
        Response { message: self.clone(), items }
    }
}

impl Response {
    /// Returns the results in the order of the call's items. A result is either the allocated numbers or a refusal. The
    /// index in a refusal is the index of the item in the message, not in the call.
    pub fn results(&self) -> impl Iterator<Item = Result<Allocated, &v1::ItemError>> {
        let v1::NextManyResponse { values, prevs, epochs, errors, lost, .. } = &self.message.response;
        let first = errors.partition_point(|item| (item.index as usize) < self.items.start);
        let mut errors = errors[first..].iter().peekable();
        self.items.clone().map(move |index| {
            if let Some(refused) = errors.next_if(|item| item.index as usize == index) {
                return Err(refused);
            }
            let lost = lost.as_ref().map_or(0, |lost| attempts(lost, index));
            Ok(Allocated { value: values[index], prev: prevs[index], epoch: epochs[index], lost })
        })
    }

    /// Takes the routes out of the response to the message. Only the first call of this method for a message returns
    /// them; later calls return `None`.
    #[must_use]
    pub fn take_routes(&self) -> Option<v1::Routes> {
        if self.message.has_routes { self.message.routes.lock().take() } else { None }
    }
}

/// Returns the number of attempts with unknown outcome that nodes made for the item with the index `index`. The
/// function is marked as cold, because such attempts occur only after an owner failed.
#[cold]
fn attempts(lost: &v1::LostAttempts, index: usize) -> u32 {
    let at = lost.indexes.binary_search(&(index as u32));
    at.ok().and_then(|at| lost.attempts.get(at)).copied().unwrap_or(0)
}
