//! Counts the memory of each request: its body as the body arrives, its items while they are processed, and its
//! response until the transport has sent it.
//!
//! No memory is reserved for parts of a request that have not arrived. If a part does not fit into the memory that is
//! left, the request is refused before any number is allocated.

use std::mem::size_of;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
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

/// Bytes that are counted for a request in addition to its message. They stand for the state of an HTTP/2 stream, its
/// headers, and its task.
pub(crate) const REQUEST_BYTES: usize = 4 << 10;

/// Bytes that are counted for an item until the response is encoded. They stand for the item's decoded form, its
/// result, and its part of the response.
pub(crate) const ITEM_BYTES: usize = size_of::<DecodedItem>() + size_of::<ItemReply<Allocation>>() + 32;

/// The memory of one request. Clones belong to the same request.
#[derive(Clone, Debug)]
pub(crate) struct Memory(Arc<Held>);

#[derive(Debug)]
struct Held {
    charge: Charge,
    /// Number of bytes of the body that have arrived. It wraps around.
    received: AtomicUsize,
}

impl Memory {
    /// Begins to count the memory of a request in the account of its connection, which is part of `budget`.
    pub(crate) fn of(budget: &MemoryBudget, peer: Option<&Peer>) -> Result<Memory, Status> {
        let charge = match peer {
            Some(peer) => peer.account(budget).charge(REQUEST_BYTES),
            None => budget.account().charge(REQUEST_BYTES),
        };
        charge.map(|charge| Memory(Arc::new(Held { charge, received: AtomicUsize::new(0) }))).map_err(status)
    }

    /// Adds items that are about to be processed.
    pub(crate) fn add_items(&self, items: usize) -> Result<(), Refusal> {
        self.0.charge.grow(items * ITEM_BYTES).map_err(|OutOfMemory| Refusal::OutOfMemory)
    }

    /// Adds a response that is about to be encoded.
    pub(crate) fn add_response(&self, bytes: usize) -> Result<(), Refusal> {
        self.0.charge.grow(bytes).map_err(|OutOfMemory| Refusal::OutOfMemory)
    }

    /// Sets the memory that is counted for a stream. `buffers` is the number of bytes in the stream's buffers, and
    /// `items` the number of items of the messages that it holds.
    pub(crate) fn set_stream(&self, buffers: usize, items: usize) {
        self.0.charge.set(REQUEST_BYTES + buffers + items * ITEM_BYTES);
    }

    /// Returns the number of bytes of the request's body that have arrived so far. The number wraps around.
    pub(crate) fn received(&self) -> usize {
        self.0.received.load(Relaxed)
    }

    /// Returns the body of the request, whose bytes are counted as they arrive.
    pub(crate) fn receive<B>(&self, body: B) -> Received<B> {
        Received { body, memory: self.0.clone() }
    }

    /// Returns the body of the response, whose bytes are counted until they are sent. Of the memory of the request
    /// itself, only [`REQUEST_BYTES`] and the memory set by [`Memory::set_stream`] remain counted.
    pub(crate) fn send(self, body: Body, cx: &mut Context<'_>) -> Body {
        self.0.charge.set(REQUEST_BYTES);
        Body::new(Sent::new(body, self.0, cx))
    }
}

/// Returns the status of a request that does not fit into the memory.
fn status(out: OutOfMemory) -> Status {
    Reason::OutOfMemory.status(out.to_string())
}

/// The body of a request.
pub(crate) struct Received<B> {
    body: B,
    memory: Arc<Held>,
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
                Some(data) => {
                    this.memory.received.fetch_add(data.len(), Relaxed);
                    this.memory.charge.grow(data.len()).map(|()| frame).map_err(status)
                }
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
///
/// While a response waits for the transport, only a copy of the encoded message is held, but neither the message itself
/// nor the buffer into which it was encoded. Therefore the first message is encoded at once, and not only when the
/// transport has space for it. If the response consists of only one message and its trailers, the original body is
/// dropped at the same time.
struct Sent {
    /// The first frame, if it was ready when the response was made and has not been sent yet.
    first: Option<Result<Frame<Bytes>, Status>>,
    second: Option<Result<Frame<Bytes>, Status>>,
    body: Body,
    /// The size of the body, until the first frame has been sent.
    size: SizeHint,
    /// Memory of the request, held until the response is complete.
    memory: Arc<Held>,
}

impl Sent {
    fn new(body: Body, memory: Arc<Held>, cx: &mut Context<'_>) -> Sent {
        let mut sent = Sent { first: None, second: None, size: body.size_hint(), body, memory };
        if sent.body.is_end_stream() {
            return sent;
        }
        let Poll::Ready(first) = sent.poll_body(cx) else { return sent };
        sent.first = first;
        if is_message(sent.first.as_ref()) {
            let Poll::Ready(second) = sent.poll_body(cx) else { return sent };
            sent.second = second;
            if is_message(sent.second.as_ref()) {
                return sent;
            }
        }
        // The body has ended, because no frame follows trailers or an error.
        sent.body = Body::empty();
        sent
    }

    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        Poll::Ready(frame.map(|frame| Ok(frame?.map_data(|bytes| unsent(&self.memory.charge, &bytes)))))
    }
}

fn is_message(frame: Option<&Result<Frame<Bytes>, Status>>) -> bool {
    matches!(frame, Some(Ok(frame)) if frame.is_data())
}

impl HttpBody for Sent {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        if let Some(frame) = this.first.take().or_else(|| this.second.take()) {
            this.size = SizeHint::default();
            return Poll::Ready(Some(frame));
        }
        this.poll_body(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.second.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.size
    }
}

/// Returns a copy of a part of a response. The copy is counted until the transport drops it.
fn unsent(of: &Charge, bytes: &[u8]) -> Bytes {
    let charge = of.account().charge_present(bytes.len());
    Bytes::from_owner(Unsent { bytes: bytes.into(), _charge: charge })
}

struct Unsent {
    bytes: Box<[u8]>,
    _charge: Charge,
}

impl AsRef<[u8]> for Unsent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::future::poll_fn;
    use std::task::Waker;

    use tonic::codegen::http::HeaderMap;

    use super::*;

    /// A body that consists of the given frames. It holds a reference until its last frame has been taken.
    struct Frames {
        frames: VecDeque<Frame<Bytes>>,
        _held: Arc<()>,
    }

    impl HttpBody for Frames {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            let frames = &mut self.get_mut().frames;
            if frames.front().is_some_and(|frame| frame.data_ref().is_some_and(Bytes::is_empty)) {
                // An empty message stands for a message that is not ready yet.
                frames.pop_front();
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(frames.pop_front().map(Ok))
        }
    }

    fn data(text: &'static str) -> Frame<Bytes> {
        Frame::data(Bytes::from_static(text.as_bytes()))
    }

    fn trailers() -> Frame<Bytes> {
        Frame::trailers(HeaderMap::new())
    }

    fn body(frames: impl IntoIterator<Item = Frame<Bytes>>) -> (Body, Arc<()>, MemoryBudget) {
        let (budget, held) = (MemoryBudget::unlimited(), Arc::new(()));
        let memory = Memory::of(&budget, None).unwrap();
        let frames = Body::new(Frames { frames: frames.into_iter().collect(), _held: held.clone() });
        (memory.send(frames, &mut Context::from_waker(Waker::noop())), held, budget)
    }

    /// Returns the frames of a body: their data, or `None` for trailers.
    async fn all(body: &mut Body) -> Vec<Option<Bytes>> {
        let mut frames = Vec::new();
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
            frames.push(frame.unwrap().into_data().ok());
        }
        frames
    }

    #[tokio::test]
    async fn a_message_that_waits_for_the_transport_holds_itself_alone() {
        let (mut sent, held, _budget) = body([data("message"), trailers()]);
        assert_eq!(Arc::strong_count(&held), 1, "the body below is dropped");
        let first = poll_fn(|cx| Pin::new(&mut sent).poll_frame(cx)).await.unwrap().unwrap();
        assert_eq!(first.into_data().unwrap(), "message");
        assert!(!sent.is_end_stream());
        assert_eq!(all(&mut sent).await, [None]);
        assert!(sent.is_end_stream());
    }

    #[tokio::test]
    async fn frames_pass_in_their_order() {
        let later = || data("");
        for frames in [
            vec![],
            vec![trailers()],
            vec![data("a")],
            vec![data("a"), data("b"), trailers()],
            vec![data("a"), later(), data("b"), data("c"), later(), trailers()],
            vec![later(), data("a"), data("b")],
        ] {
            let expected: Vec<_> = frames
                .iter()
                .filter(|frame| frame.data_ref().is_none_or(|data| !data.is_empty()))
                .map(|frame| frame.data_ref().cloned())
                .collect();
            let (mut sent, held, budget) = body(frames);
            assert_eq!(all(&mut sent).await, expected);
            drop(sent);
            assert_eq!((Arc::strong_count(&held), budget.used()), (1, 0));
        }
    }
}
