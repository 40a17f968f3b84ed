//! The response to a message, divided among the calls in the message. Each call gets the range of its items, without a
//! copy.
//!
//! Invariant: each list of a [`Response`] has an entry for each of the response's items. A message that violates the
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
    /// The number of the uid that was allocated before the first number; 0 if it is unknown.
    pub prev: u64,
    /// Epoch of the ownership that allocated the numbers.
    pub epoch: u64,
    /// Number of earlier attempts by nodes whose outcome is unknown.
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
    /// Checks the response to a message of `items` items.
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

    /// Returns the part of the response that belongs to one call, whose items in the message are `items`.
    pub(super) fn part(self: &Arc<Message>, items: Range<usize>) -> Response {
        Response { message: self.clone(), items }
    }
}

impl Response {
    /// Returns the results in the order of the call's items. A result is numbers, or a refusal. The index in a refusal
    /// is relative to the message, not to the call.
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

    /// Takes the routes in the response to the message. Only the first caller gets them; later callers get `None`.
    #[must_use]
    pub fn take_routes(&self) -> Option<v1::Routes> {
        if self.message.has_routes { self.message.routes.lock().take() } else { None }
    }
}

/// Returns the number of lost attempts of an item. It is cold, because attempts are lost only when an owner is lost.
#[cold]
fn attempts(lost: &v1::LostAttempts, index: usize) -> u32 {
    let at = lost.indexes.binary_search(&(index as u32));
    at.ok().and_then(|at| lost.attempts.get(at)).copied().unwrap_or(0)
}
