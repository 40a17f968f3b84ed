//! Enforces the timeouts of an admitted connection, and the limits that apply after its handshake.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;
use tonic::transport::server::Connected;

use super::{Admission, FIRST_RESPONSE_TIMEOUT, Permit, WRITE_TIMEOUT};
use crate::connection::{Connection, Peer};

/// An admitted connection that is closed when its peer exceeds a timeout.
pub struct Watched {
    connection: Connection,
    /// Timer that runs until the first response.
    opening: Option<Pin<Box<Sleep>>>,
    /// Timer that runs while a write is blocked.
    stalled: Option<Pin<Box<Sleep>>>,
    permit: Permit,
}

impl Admission {
    /// Admits a connection, and returns it with its timeouts enforced; `None` if a limit is reached.
    #[must_use]
    pub fn watch(&self, connection: Connection) -> Option<Watched> {
        let permit = self.admit(&connection)?;
        let opening = Some(Box::pin(tokio::time::sleep(FIRST_RESPONSE_TIMEOUT)));
        Some(Watched { connection, opening, stalled: None, permit })
    }
}

impl Watched {
    /// Completes the handshake. Closes the connection if a limit is reached that applies to the kind of sender that the
    /// handshake shows.
    #[inline]
    fn poll_admitted(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.permit.is_settled() { Poll::Ready(Ok(())) } else { self.poll_settled(cx) }
    }

    #[cold]
    fn poll_settled(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.connection.poll_handshake(cx))?;
        let is_admitted = self.permit.settle(&self.connection);
        let refused = || io::Error::other("the node has as many connections as it takes");
        Poll::Ready(if is_admitted { Ok(()) } else { Err(refused()) })
    }

    /// Ends the connection with an error if a write has been blocked for too long. `written` is the result of polling
    /// the write.
    fn written(&mut self, written: Poll<io::Result<usize>>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            if self.opening.take().is_some() {
                self.connection.peer().requested();
            }
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(WRITE_TIMEOUT)));
        stalled.as_mut().poll(cx).map(|()| Err(timed_out("the peer does not read")))
    }
}

fn timed_out(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}

impl AsyncRead for Watched {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let read = match this.poll_admitted(cx)? {
            Poll::Ready(()) => Pin::new(&mut this.connection).poll_read(cx, into),
            Poll::Pending => Poll::Pending,
        };
        if let (Poll::Pending, Some(opening)) = (&read, &mut this.opening) {
            return opening.as_mut().poll(cx).map(|()| Err(timed_out("no request to respond to within the timeout")));
        }
        read
    }
}

impl AsyncWrite for Watched {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_admitted(cx))?;
        let written = Pin::new(&mut this.connection).poll_write(cx, bytes);
        this.written(written, cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_admitted(cx))?;
        let written = Pin::new(&mut this.connection).poll_write_vectored(cx, parts);
        this.written(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().connection).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().connection).poll_shutdown(cx)
    }
}

impl Connected for Watched {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.connection.connect_info()
    }
}
