//! Connections of a node that a fault can cut.

use std::io;
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::{FusedFuture, Shared};
use parking_lot::Mutex;
use seq_kit::connection::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

/// The connections of a node's ports. Clones are handles to the same connections.
#[derive(Clone, Debug, Default)]
pub(super) struct Connections(Arc<Mutex<Generation>>);

/// Connections that were accepted since the last cut.
#[derive(Debug)]
struct Generation {
    /// Sender whose drop cuts the connections.
    open: oneshot::Sender<()>,
    cut: Cut,
}

/// Future that completes when the connections of a generation are cut.
type Cut = Shared<oneshot::Receiver<()>>;

impl Default for Generation {
    fn default() -> Generation {
        let (open, cut) = oneshot::channel();
        Generation { open, cut: cut.shared() }
    }
}

impl Connections {
    /// Cuts all open connections. Later connections are not affected.
    pub(super) fn cut(&self) {
        let Generation { open, .. } = std::mem::take(&mut *self.0.lock());
        drop(open);
    }

    /// Returns a listener on a socket, whose connections can be cut.
    ///
    /// # Errors
    /// If the socket cannot be registered with the runtime.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(super) fn listen(&self, socket: TcpListener) -> io::Result<Listener> {
        socket.set_nonblocking(true)?;
        let socket = tokio::net::TcpListener::from_std(socket)?;
        let state = (socket, self.clone());
        Ok(Listener::new(futures::stream::unfold(state, |(socket, connections)| async move {
            let accepted = socket.accept().await.and_then(|(stream, _)| {
                // Without this option, a response could wait 40 ms for the delayed acknowledgement of the client.
                stream.set_nodelay(true)?;
                let cut = connections.0.lock().cut.clone();
                Ok(Connection { stream, cut })
            });
            Some((accepted, (socket, connections)))
        })))
    }
}

/// A connection that ends with an error when it is cut.
struct Connection {
    stream: TcpStream,
    cut: Cut,
}

impl Connection {
    /// Returns an error if the connection is cut, and otherwise wakes the current task at the cut.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if !self.cut.is_terminated() && self.cut.poll_unpin(cx).is_pending() {
            return Ok(());
        }
        // The peer gets a reset instead of an orderly end, because the process of a killed node sends no end either. If
        // the option cannot be set, the peer gets the orderly end.
        let _ = self.stream.set_zero_linger();
        Err(io::ErrorKind::ConnectionReset.into())
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
