//! A connection of a port that states its present limit on requests to its peer.
//!
//! The library states a limit once, when a connection opens, and enforces it. A lower one for some time is stated here:
//! a SETTINGS frame is inserted between two of the library's frames. The peer acknowledges each one; the library does
//! not expect that, so the type of the acknowledgement is changed to one that every implementation must ignore.
//!
//! **Invariant:** the library sends SETTINGS once, when the connection opens. So every acknowledgement after the first
//! one is of a frame that was inserted here, and one of these is under way at a time.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

use crate::port::frames::{Frames, HEAD};
use crate::port::stream_limit::Member;

/// How every HTTP/2 client begins.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The type of SETTINGS frames, and their flag of an acknowledgement.
const SETTINGS: u8 = 4;
const ACK: u8 = 1;

/// A type that no specification defines.
const IGNORED: u8 = 0xfa;

/// The identifier of SETTINGS_MAX_CONCURRENT_STREAMS.
const MAX_CONCURRENT_STREAMS: [u8; 2] = [0, 3];

/// Length of one setting.
const SETTING: usize = 6;

/// What is known of the protocol.
#[derive(Debug, PartialEq, Eq)]
enum Protocol {
    /// So many bytes of [`PREFACE`] were received.
    Preface(usize),
    /// HTTP/2, with or without the acknowledgement of the library's settings.
    Http2 { acknowledged: bool },
    /// HTTP/1.1, or one whose limit does not change.
    Other,
}

/// A connection and the limit that its peer knows.
pub(super) struct Limited<C> {
    connection: C,
    /// `None` where the limit does not change.
    member: Option<Member>,
    /// The limit that was stated last.
    stated: u32,
    protocol: Protocol,
    received: Frames,
    sent: Frames,
    /// The frame that is being inserted, and how much of it is sent.
    inserted: Option<([u8; HEAD + SETTING], usize)>,
    /// Whether an inserted frame is not acknowledged.
    awaits_ack: bool,
}

impl<C> Limited<C> {
    pub(super) fn new(connection: C, member: Option<Member>) -> Limited<C> {
        Limited {
            connection,
            stated: member.as_ref().map_or(0, Member::most),
            protocol: if member.is_some() { Protocol::Preface(0) } else { Protocol::Other },
            member,
            received: Frames::default(),
            sent: Frames::default(),
            inserted: None,
            awaits_ack: false,
        }
    }

    /// Follows received bytes; hides acknowledgements of inserted frames from the library.
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
        let mut acks = Vec::new();
        self.received.follow(bytes, |kind, length| {
            // A header that is cut just here is taken for an acknowledgement: nothing else has this type and no
            // content.
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
    }

    /// Follows bytes that the library has sent.
    fn follow_sent(&mut self, bytes: &[u8]) {
        if self.protocol != Protocol::Other {
            self.sent.follow(bytes, |_, _| {});
        }
    }
}

impl<C: AsyncWrite + Unpin> Limited<C> {
    /// Sends a changed limit where a frame may begin. The library's bytes follow when it is `Ready`.
    #[inline]
    fn poll_insert(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.member {
            Some(member) if self.inserted.is_some() || member.limit() != self.stated => {
                let limit = member.limit();
                self.poll_changed(limit, cx)
            }
            _ => Poll::Ready(Ok(())),
        }
    }

    #[cold]
    fn poll_changed(&mut self, limit: u32, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let may_begin = self.protocol == Protocol::Http2 { acknowledged: true };
        if self.inserted.is_none() && may_begin && !self.awaits_ack && self.sent.is_between() {
            self.stated = limit;
            let mut frame = [0; HEAD + SETTING];
            (frame[2], frame[3]) = (SETTING as u8, SETTINGS);
            frame[HEAD..HEAD + 2].copy_from_slice(&MAX_CONCURRENT_STREAMS);
            frame[HEAD + 2..].copy_from_slice(&self.stated.to_be_bytes());
            self.inserted = Some((frame, 0));
            self.awaits_ack = true;
        }
        while let Some((frame, sent)) = &mut self.inserted {
            let bytes = ready!(Pin::new(&mut self.connection).poll_write(cx, &frame[*sent..]))?;
            if bytes == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            *sent += bytes;
            if *sent == frame.len() {
                self.inserted = None;
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<C: AsyncRead + Unpin> AsyncRead for Limited<C> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = into.filled().len();
        ready!(Pin::new(&mut this.connection).poll_read(cx, into))?;
        if this.protocol != Protocol::Other {
            this.receive(&mut into.filled_mut()[before..]);
        }
        Poll::Ready(Ok(()))
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
