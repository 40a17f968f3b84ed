//! The memory that a request holds: its body as it arrives, its items while they are processed, and its response until the
//! transport has sent it.
//!
//! Nothing is reserved for what a request might become; what does not fit is refused before any number is allocated.

use std::mem::size_of;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use seq_api::service::{Allocation, DecodedItem, ItemReply};
use seq_core::Refusal;
use seq_kit::connection::Peer;
use seq_kit::memory::{Charge, MemoryBudget, OutOfMemory};
use seq_proto::Reason;
use tonic::Status;
use tonic::body::Body;

/// What a request takes beside its message: the state of a stream of HTTP/2, its headers, and its task.
pub(crate) const REQUEST_BYTES: usize = 2 << 10;

/// What an item takes until the response is encoded: as it was decoded, its result, and its part of the response.
pub(crate) const ITEM_BYTES: usize = size_of::<DecodedItem>() + size_of::<ItemReply<Allocation>>() + 32;

/// The memory of one request. Clones are of the same request.
#[derive(Clone, Debug)]
pub(crate) struct Memory(Arc<Charge>);

impl Memory {
    /// The memory of a request that begins, of the connection's account.
    pub(crate) fn of(budget: &MemoryBudget, peer: Option<&Peer>) -> Result<Memory, Status> {
        let charge = match peer {
            Some(peer) => peer.account(budget).charge(REQUEST_BYTES),
            None => budget.account().charge(REQUEST_BYTES),
        };
        charge.map(|charge| Memory(Arc::new(charge))).map_err(status)
    }

    /// Adds items that are about to be processed.
    pub(crate) fn add_items(&self, items: usize) -> Result<(), Refusal> {
        self.0.grow(items * ITEM_BYTES).map_err(|OutOfMemory| Refusal::OutOfMemory)
    }

    /// Adds a response that is about to be encoded.
    pub(crate) fn add_response(&self, bytes: usize) -> Result<(), Refusal> {
        self.0.grow(bytes).map_err(|OutOfMemory| Refusal::OutOfMemory)
    }

    /// States what a stream holds now: unread bytes of its messages, and items.
    pub(crate) fn set_stream(&self, unread: usize, items: usize) {
        self.0.set(REQUEST_BYTES + unread + items * ITEM_BYTES);
    }

    /// A body whose bytes are held as they arrive.
    pub(crate) fn receive<B>(&self, body: B) -> Received<B> {
        Received { body, charge: self.0.clone() }
    }

    /// A body whose bytes are held until they are sent. Of the rest of the request only what a stream states is held on.
    pub(crate) fn send(self, body: Body) -> Body {
        self.0.set(REQUEST_BYTES);
        Body::new(Sent { body, charge: self.0 })
    }
}

/// The status of a request that does not fit.
fn status(out: OutOfMemory) -> Status {
    Reason::OutOfMemory.status(out.to_string())
}

/// The body of a request.
pub(crate) struct Received<B> {
    body: B,
    charge: Arc<Charge>,
}

impl HttpBody for Received<Body> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        Poll::Ready(frame.map(|frame| {
            let frame = frame?;
            match frame.data_ref() {
                Some(data) => this.charge.grow(data.len()).map(|()| frame).map_err(status),
                None => Ok(frame),
            }
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a response.
struct Sent {
    body: Body,
    /// The request's, as long as its response goes on.
    charge: Arc<Charge>,
}

impl HttpBody for Sent {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        Poll::Ready(frame.map(|frame| Ok(frame?.map_data(|bytes| unsent(&this.charge, bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Size from which a frame is copied to memory of its own: buffers that messages are encoded into grow by doubling, and
/// would be held with all that is not used of them.
const COPIED_BYTES: usize = 32 << 10;

/// Bytes of a response that are held until the transport drops them.
fn unsent(of: &Charge, bytes: Bytes) -> Bytes {
    let bytes = if bytes.len() >= COPIED_BYTES { Bytes::copy_from_slice(&bytes) } else { bytes };
    let charge = of.account().charge_present(bytes.len());
    Bytes::from_owner(Unsent { bytes, _charge: charge })
}

struct Unsent {
    bytes: Bytes,
    _charge: Charge,
}

impl AsRef<[u8]> for Unsent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
