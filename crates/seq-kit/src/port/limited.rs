//! A connection of a port that enforces two limits. It states the current limit on concurrent requests to its peer. It
//! ends if the peer sends more frames without a request than its [`Allowance`] admits.
//!
//! The HTTP/2 library sends a limit on requests only once, when a connection opens, and enforces this limit. To state a
//! lower limit for some time, this module inserts a SETTINGS frame between two frames of the library. The peer
//! acknowledges each inserted frame. The library does not expect such an acknowledgement, so this module changes the
//! acknowledgement's type to a type that every implementation must ignore.
//!
//! **Invariant:** the library sends only one SETTINGS frame, when the connection opens. So every acknowledgement after
//! the first belongs to a frame that was inserted here. At most one inserted frame is unacknowledged at a time.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

use crate::admission::Admission;
use crate::port::allowance::{Allowance, earns};
use crate::port::frames::{Frames, HEAD};
use crate::port::stream_limit::Member;

/// The bytes with which every HTTP/2 client begins a connection.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The type of SETTINGS frames, and the flag that makes them an acknowledgement.
const SETTINGS: u8 = 4;
const ACK: u8 = 1;

/// The last frame that is sent to a peer which sends too many frames: GOAWAY with ENHANCE_YOUR_CALM and a reason. It
/// names the highest possible stream as the last processed stream, because any request of the peer may have been
/// processed.
const CALM_DOWN: &[u8] = b"\0\0\x21\x07\0\0\0\0\0\x7f\xff\xff\xff\0\0\0\x0btoo many frames of no use";

/// A frame type that no specification defines.
const IGNORED: u8 = 0xfa;

/// The identifier of SETTINGS_MAX_CONCURRENT_STREAMS.
const MAX_CONCURRENT_STREAMS: [u8; 2] = [0, 3];

/// Length of one setting in a SETTINGS frame.
const SETTING: usize = 6;

/// The protocol of a connection, as far as it has been recognised.
#[derive(Debug, PartialEq, Eq)]
enum Protocol {
    /// The protocol is not known yet. The value is the number of bytes of [`PREFACE`] that were received.
    Preface(usize),
    /// HTTP/2. `acknowledged` is whether the peer has acknowledged the library's settings.
    Http2 { acknowledged: bool },
    /// HTTP/1.1, or another protocol.
    Other,
}

/// A connection, with the limit that was stated to its peer.
pub(super) struct Limited<C> {
    connection: C,
    /// Membership in the [`super::stream_limit::StreamLimit`] of the listener, from which the limit of this connection
    /// is computed; `None` if the limit of this connection never changes.
    member: Option<Member>,
    /// The limit that was sent last.
    stated: u32,
    protocol: Protocol,
    received: Frames,
    sent: Frames,
    /// The bytes of inserted frames that have not been sent yet.
    inserted: Vec<u8>,
    /// Whether an inserted SETTINGS frame has not been acknowledged yet.
    awaits_ack: bool,
    allowance: Allowance,
    /// Whether the peer has exceeded its allowance. In that case the peer is sent a last frame, and nothing more is
    /// read from it.
    is_over: bool,
    /// The admission of the node and the address of the peer, which are needed for the log and the metrics.
    of: (Admission, Option<SocketAddr>),
}

impl<C> Limited<C> {
    pub(super) fn new(connection: C, member: Option<Member>, of: (Admission, Option<SocketAddr>)) -> Limited<C> {
        Limited {
            connection,
            stated: member.as_ref().map_or(0, Member::most),
            member,
            protocol: Protocol::Preface(0),
            received: Frames::default(),
            sent: Frames::default(),
            inserted: Vec::new(),
            awaits_ack: false,
            allowance: Allowance::new(),
            is_over: false,
            of,
        }
    }

    /// Follows the frames in received bytes: counts them, and hides the acknowledgements of inserted frames from the
    /// library.
    fn receive(&mut self, mut bytes: &mut [u8]) {
        if let Protocol::Preface(seen) = self.protocol {
            let part = bytes.len().min(PREFACE.len() - seen);
            self.protocol = match seen + part {
                _ if bytes[..part] != PREFACE[seen..seen + part] => Protocol::Other,
                seen if seen == PREFACE.len() => Protocol::Http2 { acknowledged: false },
                seen => Protocol::Preface(seen),
            };
            bytes = &mut bytes[part..];
        }
        let Protocol::Http2 { acknowledged } = &mut self.protocol else { return };
        let (mut acks, mut is_over, allowance) = (Vec::new(), false, &mut self.allowance);
        self.received.follow(bytes, |kind, length| {
            is_over |= !allowance.receive(bytes[kind], length);
            // If the bytes end before the flags of the header, the frame is taken for an acknowledgement, because no
            // other frame has this type and an empty payload.
            if bytes[kind] == SETTINGS && length == 0 && bytes.get(kind + 1).is_none_or(|flags| flags & ACK != 0) {
                acks.push(kind);
            }
        });
        for kind in acks {
            if *acknowledged && self.awaits_ack {
                self.awaits_ack = false;
                bytes[kind] = IGNORED;
            }
            *acknowledged = true;
        }
        if is_over {
            self.is_over = true;
            self.of.0.flooded(self.of.1);
            // If the library is within a frame or a block of headers, the last frame cannot be inserted and is left
            // out.
            if self.sent.is_between() {
                self.inserted.extend_from_slice(CALM_DOWN);
            }
        }
    }

    /// Follows bytes that the library has sent to the peer.
    fn follow_sent(&mut self, bytes: &[u8]) {
        if self.protocol != Protocol::Other {
            let allowance = &mut self.allowance;
            self.sent.follow(bytes, |kind, _| {
                if earns(bytes[kind]) {
                    allowance.earn();
                }
            });
        }
    }
}

impl<C: AsyncWrite + Unpin> Limited<C> {
    /// Sends a SETTINGS frame with the current limit on requests, if the limit has changed and a frame may be inserted
    /// now. Once this returns `Ready`, the library may send its own bytes.
    #[inline]
    fn poll_insert(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let changed = self.member.as_ref().map(Member::limit).filter(|limit| *limit != self.stated);
        if let Some(limit) = changed {
            self.state(limit);
        }
        if self.inserted.is_empty() { Poll::Ready(Ok(())) } else { self.poll_inserted(cx) }
    }

    /// Inserts a frame that states `limit` to the peer, if a frame may be inserted at this position.
    #[cold]
    fn state(&mut self, limit: u32) {
        let may_begin = self.protocol == Protocol::Http2 { acknowledged: true };
        if self.inserted.is_empty() && may_begin && !self.awaits_ack && self.sent.is_between() {
            self.stated = limit;
            let mut frame = [0; HEAD + SETTING];
            (frame[2], frame[3]) = (SETTING as u8, SETTINGS);
            frame[HEAD..HEAD + 2].copy_from_slice(&MAX_CONCURRENT_STREAMS);
            frame[HEAD + 2..].copy_from_slice(&self.stated.to_be_bytes());
            self.inserted.extend(frame);
            self.awaits_ack = true;
            // The allowance is increased for the acknowledgement that the peer will send.
            self.allowance.earn();
        }
    }

    #[cold]
    fn poll_inserted(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.inserted.is_empty() {
            let bytes = ready!(Pin::new(&mut self.connection).poll_write(cx, &self.inserted))?;
            if bytes == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.inserted.drain(..bytes);
        }
        Poll::Ready(Ok(()))
    }

    /// Sends the last frame to the peer, and then returns the error that ends the connection.
    #[cold]
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_inserted(cx))?;
        ready!(Pin::new(&mut self.connection).poll_flush(cx))?;
        Poll::Ready(Err(io::Error::other("the peer sends more frames than its requests and responses explain")))
    }
}

impl<C: AsyncRead + AsyncWrite + Unpin> AsyncRead for Limited<C> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.is_over {
            let before = into.filled().len();
            ready!(Pin::new(&mut this.connection).poll_read(cx, into))?;
            if this.protocol != Protocol::Other {
                this.receive(&mut into.filled_mut()[before..]);
            }
        }
        if this.is_over { this.poll_end(cx) } else { Poll::Ready(Ok(())) }
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for Limited<C> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_insert(cx))?;
        let written = ready!(Pin::new(&mut this.connection).poll_write(cx, bytes))?;
        this.follow_sent(&bytes[..written]);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_insert(cx))?;
        let written = ready!(Pin::new(&mut this.connection).poll_write_vectored(cx, parts))?;
        let mut left = written;
        for part in parts {
            let of_part = part.len().min(left);
            this.follow_sent(&part[..of_part]);
            left -= of_part;
        }
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_insert(cx))?;
        Pin::new(&mut this.connection).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().connection).poll_shutdown(cx)
    }
}

impl<C: Connected> Connected for Limited<C> {
    type ConnectInfo = C::ConnectInfo;

    fn connect_info(&self) -> C::ConnectInfo {
        self.connection.connect_info()
    }
}

#[cfg(test)]
mod tests;
