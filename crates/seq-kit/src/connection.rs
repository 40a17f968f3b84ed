//! Listeners and connections of a server: of a socket of [`crate::listen`], or of a simulated network.
//!
//! A server takes a [`Listener`] and reads [`Connection`]s, whatever the transport below. A real socket has no
//! overhead: it is an enum variant, not a trait object.

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

/// A source of incoming connections.
pub struct Listener(Source);

enum Source {
    Tcp(std::net::TcpListener),
    Other(Connections),
}

impl Listener {
    /// A listener on a stream of connections that are not sockets.
    pub fn new<C>(connections: impl Stream<Item = io::Result<C>> + Send + 'static) -> Listener
    where
        C: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let connection = |accepted: io::Result<C>| accepted.map(|other| Connection::Other(Box::new(other)));
        Listener(Source::Other(Box::pin(connections.map(connection))))
    }

    /// The incoming connections. Sockets have TCP_NODELAY: a response could otherwise wait 40 ms for the client's
    /// delayed acknowledgement.
    ///
    /// # Errors
    /// When the socket cannot be registered with the current runtime.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn incoming(self) -> io::Result<Incoming> {
        Ok(Incoming(match self.0 {
            Source::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                let listener = tokio::net::TcpListener::from_std(listener)?;
                Accepting::Tcp(TcpIncoming::from(listener).with_nodelay(Some(true)))
            }
            Source::Other(connections) => Accepting::Other(connections),
        }))
    }
}

impl From<std::net::TcpListener> for Listener {
    fn from(listener: std::net::TcpListener) -> Listener {
        Listener(Source::Tcp(listener))
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Tcp(listener) => listener.fmt(f),
            Source::Other(_) => f.write_str("Listener"),
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

/// Incoming connections; endless for a socket.
pub struct Incoming(Accepting);

enum Accepting {
    Tcp(TcpIncoming),
    Other(Connections),
}

impl Stream for Incoming {
    type Item = io::Result<Connection>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match &mut self.get_mut().0 {
            Accepting::Tcp(incoming) => {
                Pin::new(incoming).poll_next(cx).map(|accepted| accepted.map(|accepted| accepted.map(Connection::Tcp)))
            }
            Accepting::Other(connections) => connections.as_mut().poll_next(cx),
        }
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Incoming")
    }
}

/// The traits of a connection.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<C: AsyncRead + AsyncWrite + Send + Unpin> Duplex for C {}

/// One connection. Its reads are counted: [`reads_on_this_thread`].
pub enum Connection {
    /// A TCP socket.
    Tcp(TcpStream),
    /// Any other transport.
    Other(Box<dyn Duplex>),
}

impl Connection {
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
        let Connection::Tcp(stream) = self else { return Ok(()) };
        let keepalive = TcpKeepalive::new().with_time(idle).with_interval(every).with_retries(tries);
        SockRef::from(stream).set_tcp_keepalive(&keepalive)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Connection::Tcp(stream) => stream.fmt(f),
            Connection::Other(_) => f.write_str("Connection"),
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        match self {
            Connection::Tcp(stream) => stream.connect_info(),
            Connection::Other(_) => TcpConnectInfo { local_addr: None, remote_addr: None },
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = match self.get_mut() {
            Connection::Tcp(stream) => Pin::new(stream).poll_read(cx, into),
            Connection::Other(other) => Pin::new(other).poll_read(cx, into),
        };
        if read.is_ready() {
            READS.set(READS.get().wrapping_add(1));
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Connection::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Connection::Other(other) => Pin::new(other).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Connection::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            Connection::Other(other) => Pin::new(other).poll_write_vectored(cx, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Connection::Tcp(stream) => stream.is_write_vectored(),
            Connection::Other(other) => other.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Connection::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Connection::Other(other) => Pin::new(other).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Connection::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Connection::Other(other) => Pin::new(other).poll_shutdown(cx),
        }
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
        let Connection::Tcp(stream) = &connection else { panic!("a socket") };
        assert!(!SockRef::from(stream).keepalive().unwrap());
        connection.keep_alive(Duration::from_secs(30), Duration::from_secs(10), 3).unwrap();
        assert!(SockRef::from(stream).keepalive().unwrap());
    }
}
