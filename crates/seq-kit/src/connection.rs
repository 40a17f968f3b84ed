//! Listeners and connections of a server: of a socket of [`crate::listen`], or of a simulated network.
//!
//! A server takes a [`Listener`] and reads [`Connection`]s, whatever the transport below. A real socket has no
//! overhead: it is not behind a trait object.

use std::cell::Cell;
use std::fmt;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_stream::{Stream, StreamExt};
use tokio_util::either::Either;
use tonic::transport::server::{Connected, TcpConnectInfo, TcpIncoming};

thread_local! {
    static READS: Cell<u64> = const { Cell::new(0) };
}

/// Number of reads that [`Connection`]s have completed on the current thread; wraps around.
#[inline]
#[must_use]
pub fn reads_on_this_thread() -> u64 {
    READS.get()
}

/// Pause after a failed accept. The usual cause is that the process has no file descriptors left; an immediate retry
/// would starve the open connections of CPU.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

type Connections = Pin<Box<dyn Stream<Item = io::Result<Connection>> + Send>>;

/// A source of incoming connections: a TCP socket, or any stream.
pub struct Listener(Either<std::net::TcpListener, Connections>);

impl Listener {
    /// A listener on a stream of connections that are not sockets.
    pub fn new<C>(connections: impl Stream<Item = io::Result<C>> + Send + 'static) -> Listener
    where
        C: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        Listener(Either::Right(Box::pin(connections.map(|accepted| accepted.map(Connection::other)))))
    }

    /// The incoming connections, endless for a socket. Sockets have TCP_NODELAY: a response could otherwise wait 40 ms
    /// for the client's delayed acknowledgement.
    ///
    /// # Errors
    /// When the socket cannot be registered with the current runtime.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn incoming(self) -> io::Result<impl Stream<Item = io::Result<Connection>> + Send + Unpin + use<>> {
        Ok(match self.0 {
            Either::Left(listener) => {
                listener.set_nonblocking(true)?;
                let listener = tokio::net::TcpListener::from_std(listener)?;
                let sockets = TcpIncoming::from(listener).with_nodelay(Some(true));
                Either::Left(sockets.map(|accepted: io::Result<TcpStream>| accepted.map(Connection::from)))
            }
            Either::Right(connections) => Either::Right(connections),
        })
    }
}

impl From<std::net::TcpListener> for Listener {
    fn from(listener: std::net::TcpListener) -> Listener {
        Listener(Either::Left(listener))
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Either::Left(listener) => listener.fmt(f),
            Either::Right(_) => f.write_str("Listener"),
        }
    }
}

/// Pauses accepting after an error that the next attempt would return as well.
///
/// # Errors
/// The given error.
pub async fn paced(accepted: io::Result<Connection>) -> io::Result<Connection> {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    if let Err(error) = &accepted {
        // A client that disconnected while queued must not delay the next one.
        if !matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted) {
            tracing::warn!(%error, "cannot accept a connection");
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }
    accepted
}

/// The traits of a connection.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<C: AsyncRead + AsyncWrite + Send + Unpin> Duplex for C {}

/// One connection: a TCP socket, or any other transport. Its reads are counted: [`reads_on_this_thread`].
pub struct Connection(Either<TcpStream, Box<dyn Duplex>>);

impl Connection {
    /// A connection that is not a socket.
    #[must_use]
    pub fn other(transport: impl Duplex + 'static) -> Connection {
        Connection(Either::Right(Box::new(transport)))
    }

    /// Address of the peer's host; only sockets have one.
    #[must_use]
    pub fn peer(&self) -> Option<IpAddr> {
        self.connect_info().remote_addr().map(|addr| addr.ip())
    }

    /// Enables TCP keepalive: after `idle` without traffic the kernel probes the peer every `every`, and ends the
    /// connection after `tries` probes without a response. No effect on other transports.
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn keep_alive(&self, idle: Duration, every: Duration, tries: u32) -> io::Result<()> {
        let Either::Left(stream) = &self.0 else { return Ok(()) };
        let keepalive = TcpKeepalive::new().with_time(idle).with_interval(every).with_retries(tries);
        SockRef::from(stream).set_tcp_keepalive(&keepalive)
    }
}

impl From<TcpStream> for Connection {
    fn from(stream: TcpStream) -> Connection {
        Connection(Either::Left(stream))
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Either::Left(stream) => stream.fmt(f),
            Either::Right(_) => f.write_str("Connection"),
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        match &self.0 {
            Either::Left(stream) => stream.connect_info(),
            Either::Right(_) => TcpConnectInfo { local_addr: None, remote_addr: None },
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.0).poll_read(cx, into);
        if read.is_ready() {
            READS.set(READS.get().wrapping_add(1));
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::*;

    /// Echoes one message of one connection.
    async fn echo(listener: Listener) {
        let mut incoming = listener.incoming().unwrap();
        let mut connection = incoming.next().await.unwrap().unwrap();
        let mut bytes = [0; 5];
        connection.read_exact(&mut bytes).await.unwrap();
        connection.write_all(&bytes).await.unwrap();
        connection.shutdown().await.unwrap();
    }

    async fn call(mut stream: impl Duplex) -> Vec<u8> {
        stream.write_all(b"hello").await.unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).await.unwrap();
        reply
    }

    #[tokio::test]
    async fn a_server_accepts_a_socket() {
        let listener = crate::listen::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap().remove(0);
        let addr = listener.local_addr().unwrap();
        let calling = async { call(TcpStream::connect(addr).await.unwrap()).await };
        assert_eq!(tokio::join!(echo(listener.into()), calling).1, b"hello");
    }

    #[tokio::test]
    async fn a_server_accepts_any_other_transport() {
        let (near, far): (DuplexStream, DuplexStream) = tokio::io::duplex(64);
        let listener = Listener::new(tokio_stream::once(Ok(far)));
        assert_eq!(tokio::join!(echo(listener), call(near)).1, b"hello");
    }

    #[tokio::test]
    async fn keepalive_is_enabled_on_a_socket() {
        let listener = crate::listen::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap().remove(0);
        let addr = listener.local_addr().unwrap();
        let mut incoming = Listener::from(listener).incoming().unwrap();
        let _peer = TcpStream::connect(addr).await.unwrap();
        let connection = incoming.next().await.unwrap().unwrap();
        let Either::Left(stream) = &connection.0 else { panic!("a socket") };
        assert!(!SockRef::from(stream).keepalive().unwrap());
        connection.keep_alive(Duration::from_secs(30), Duration::from_secs(10), 3).unwrap();
        assert!(SockRef::from(stream).keepalive().unwrap());
    }
}
