//! Listeners and connections of a server. A listener accepts connections from sockets of [`crate::listen`], with or
//! without TLS, or from a simulated network.
//!
//! A server gets a [`Listener`] and reads from [`Connection`]s, for any transport. A real socket has no overhead,
//! because it is not behind a trait object. The TLS handshake takes place in the first read or write of a connection,
//! so it delays only that connection. [`handshake`] limits the handshakes.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::stream::{FuturesUnordered, SelectAll, select_all};
use parking_lot::Mutex;
use seq_auth::{Identity, Role};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_stream::{Stream, StreamExt};
use tokio_util::either::Either;
use tonic::transport::server::{Connected, TcpIncoming};

use crate::listen::Sockets;
use crate::memory::{Account, MemoryBudget};
use crate::proxy_protocol::{Headers, SIGNATURE};
use crate::unfinished::{Opening, Seat, Unfinished};

mod handshake;
mod linger;

pub use handshake::Tls;
use handshake::{Handshake, Secure};
use linger::Linger;

thread_local! {
    static READS: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of reads that all [`Connection`]s have completed on the current thread. The number wraps around.
#[inline]
#[must_use]
pub fn reads_on_this_thread() -> u64 {
    READS.get()
}

/// Pause after accepting a connection failed. The usual cause is that the process has no file descriptors left. Trying
/// again at once would take CPU time from the open connections.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

type Connections = Pin<Box<dyn Stream<Item = io::Result<Connection>> + Send>>;

/// A source of incoming connections: TCP sockets, with or without TLS, or any stream of connections.
pub struct Listener {
    source: Either<Sockets, Connections>,
    tls: Option<Tls>,
    unfinished: Option<Unfinished>,
    headers: Option<Headers>,
}

impl Listener {
    /// Creates a listener whose connections are not sockets but the items of a stream.
    pub fn new<C>(connections: impl Stream<Item = io::Result<C>> + Send + 'static) -> Listener
    where
        C: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let connections: Connections = Box::pin(connections.map(|accepted| accepted.map(Connection::other)));
        Listener { source: Either::Right(connections), tls: None, unfinished: None, headers: None }
    }

    /// Creates a listener on the sockets of a port. Its connections use TLS if `tls` is given.
    #[must_use]
    pub fn socket(sockets: impl Into<Sockets>, tls: Option<Tls>) -> Listener {
        Listener { source: Either::Left(sockets.into()), tls, unfinished: None, headers: None }
    }

    /// Returns the same listener with a limit on its unfinished connections. `unfinished` counts them for the whole
    /// port, to which several listeners may belong.
    #[must_use]
    pub fn of_port(self, unfinished: &Unfinished) -> Listener {
        Listener { unfinished: Some(unfinished.clone()), ..self }
    }

    /// Returns the same listener, which now accepts a header of the PROXY protocol at the beginning of a connection.
    #[must_use]
    pub fn with_headers(self, headers: &Headers) -> Listener {
        Listener { headers: Some(headers.clone()), ..self }
    }

    /// Returns whether its connections have TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns the TLS of its connections.
    #[must_use]
    pub fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// Returns the incoming connections. For sockets, this stream has no end. Sockets have the option TCP_NODELAY,
    /// because without it a response could wait 40 ms for the client's delayed acknowledgement.
    ///
    /// # Errors
    /// If the socket cannot be registered with the current runtime.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn incoming(self) -> io::Result<impl Stream<Item = io::Result<Connection>> + Send + Unpin + use<>> {
        let Listener { source, tls, unfinished, headers } = self;
        Ok(match source {
            Either::Left(sockets) => {
                let mut accepting = Vec::new();
                for listener in sockets {
                    listener.set_nonblocking(true)?;
                    let listener = tokio::net::TcpListener::from_std(listener)?;
                    accepting.push(TcpIncoming::from(listener).with_nodelay(Some(true)));
                }
                let (sockets, accept) = (select_all(accepting), Accept { tls, unfinished, headers });
                Either::Left(Accepting { sockets, accept, beginning: FuturesUnordered::new() })
            }
            Either::Right(connections) => Either::Right(connections),
        })
    }
}

/// Makes connections from accepted sockets.
#[derive(Clone)]
struct Accept {
    tls: Option<Tls>,
    unfinished: Option<Unfinished>,
    headers: Option<Headers>,
}

impl Accept {
    fn connection(&self, stream: TcpStream, peer: Option<SocketAddr>) -> Connection {
        Connection::accepted(stream, peer, self)
    }

    /// Reads the PROXY header of a connection, and then creates the connection; `None` if the header is refused or
    /// takes too long to arrive. While the header is being read, the connection is counted as an unfinished connection
    /// from the address of its sender, and afterwards as one from the address of the client in the header.
    async fn begin(self, headers: Headers, mut stream: TcpStream, peer: SocketAddr) -> Option<Connection> {
        let seat = self.unfinished.as_ref().map(|port| port.take(Some(peer.ip())));
        let client = {
            let reading = headers.read(&mut stream, peer);
            match seat {
                Some((_seat, mut opening)) => tokio::select! {
                    read = reading => read.ok()?,
                    _ = std::future::poll_fn(|cx| opening.poll(cx)) => return None,
                },
                None => reading.await.ok()?,
            }
        };
        Some(self.connection(stream, Some(client.unwrap_or(peer))))
    }
}

type Beginning = Pin<Box<dyn Future<Output = Option<Connection>> + Send>>;

/// The incoming connections of a port.
struct Accepting {
    sockets: SelectAll<TcpIncoming>,
    accept: Accept,
    /// Connections whose PROXY headers have not arrived yet. Their number is limited by the port's limit on unfinished
    /// connections.
    beginning: FuturesUnordered<Beginning>,
}

impl Stream for Accepting {
    type Item = io::Result<Connection>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Connection>>> {
        let this = &mut *self;
        loop {
            while let Poll::Ready(Some(begun)) = Pin::new(&mut this.beginning).poll_next(cx) {
                if let Some(connection) = begun {
                    return Poll::Ready(Some(Ok(connection)));
                }
            }
            let accepted = std::task::ready!(Pin::new(&mut this.sockets).poll_next(cx));
            let stream = match accepted {
                Some(Ok(stream)) => stream,
                other => return Poll::Ready(other.map(|accepted| accepted.map(|_| unreachable!("matched above")))),
            };
            let peer = stream.peer_addr().ok();
            let headers = this.accept.headers.as_ref().filter(|headers| headers.are_believed_from(peer));
            match (headers, peer) {
                (Some(headers), Some(peer)) => {
                    let begin = this.accept.clone().begin(headers.clone(), stream, peer);
                    this.beginning.push(Box::pin(begin));
                }
                _ => return Poll::Ready(Some(Ok(this.accept.connection(stream, peer)))),
            }
        }
    }
}

impl From<std::net::TcpListener> for Listener {
    fn from(listener: std::net::TcpListener) -> Listener {
        Listener::socket(listener, None)
    }
}

impl From<Sockets> for Listener {
    fn from(sockets: Sockets) -> Listener {
        Listener::socket(sockets, None)
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Either::Left(sockets) => sockets.fmt(f),
            Either::Right(_) => f.write_str("Listener"),
        }
    }
}

/// Returns `accepted`, the result of accepting a connection. If it is an error that would occur again at once, first
/// logs it and waits for [`ACCEPT_PAUSE`].
///
/// # Errors
/// The given error.
pub async fn paced(accepted: io::Result<Connection>) -> io::Result<Connection> {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    if let Err(error) = &accepted {
        // If the error is only that a client disconnected before it was accepted, the next client must not be delayed.
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

/// The peer of a connection. Clones belong to the same connection. Each request on the connection has the peer among
/// its extensions.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    addr: Option<SocketAddr>,
    state: Arc<PeerState>,
}

#[derive(Debug, Default)]
struct PeerState {
    identity: OnceLock<Identity>,
    attachment: OnceLock<Attachment>,
    account: OnceLock<Account>,
    /// Whether `seat` is set. This field can be read without the lock.
    is_unfinished: AtomicBool,
    seat: Mutex<Option<Seat>>,
}

/// A value that lives as long as a connection.
pub type Attachment = Box<dyn Any + Send + Sync>;

impl Peer {
    /// Creates the peer of a connection whose transport itself has proved the peer's identity.
    #[must_use]
    pub fn identified(identity: Identity) -> Peer {
        let state = PeerState { identity: identity.into(), ..PeerState::default() };
        Peer { addr: None, state: Arc::new(state) }
    }

    /// Creates a peer that is at an address and whose handshake has ended.
    #[cfg(test)]
    pub(crate) fn known(addr: SocketAddr, identity: Option<Identity>) -> Peer {
        Peer { addr: Some(addr), ..identity.map_or_else(Peer::default, Peer::identified) }
    }

    /// Ends the unfinished state of the connection and frees its seat, because the peer has proved its identity. A seat
    /// is a place in the port's limit on unfinished connections. Later calls have no effect.
    #[inline]
    pub fn proved(&self) {
        if self.state.is_unfinished.load(Relaxed) {
            self.state.is_unfinished.store(false, Relaxed);
            drop(self.state.seat.lock().take());
        }
    }

    /// Does the same as [`Peer::proved`] if the port requires no proof of identity. It is called after the peer has
    /// sent a request, because on such a port a request is enough.
    #[inline]
    pub fn requested(&self) {
        if self.state.is_unfinished.load(Relaxed) && !self.needs_credential() {
            self.proved();
        }
    }

    fn needs_credential(&self) -> bool {
        self.state.seat.lock().as_ref().is_some_and(Seat::needs_credential)
    }

    /// Stores the identity that the handshake has proved.
    fn identify(&self, identity: Identity) {
        // Nodes and operators usually connect again from the same addresses, but clients may connect from any address.
        if identity.role() != Role::Client
            && let Some(seat) = &*self.state.seat.lock()
        {
            seat.learn();
        }
        let first = self.state.identity.set(identity);
        debug_assert!(first.is_ok(), "one handshake");
        self.proved();
    }

    /// Returns the peer's address; `None` if the connection is not a socket.
    #[must_use]
    pub fn addr(&self) -> Option<SocketAddr> {
        self.addr
    }

    /// Returns the identity in the peer's certificate; `None` before the handshake has ended, without TLS, or if the
    /// peer presented no certificate.
    #[must_use]
    pub fn identity(&self) -> Option<&Identity> {
        self.state.identity.get()
    }

    /// Returns the account of the memory that the connection holds. The account is created in `budget` at the first
    /// call. All calls must pass the budget of the same port.
    pub fn account(&self, budget: &MemoryBudget) -> &Account {
        self.state.account.get_or_init(|| budget.account())
    }

    /// Returns whether the connection has an attached value.
    #[must_use]
    pub fn has_attachment(&self) -> bool {
        self.state.attachment.get().is_some()
    }

    /// Attaches a value to the connection. Does nothing if a value is already attached. The value is dropped when the
    /// connection and the last request on it have ended.
    pub fn attach(&self, value: Attachment) {
        let _ = self.state.attachment.set(value);
    }
}

/// A connection: a TCP socket, with or without TLS, or any other transport. Its reads are counted in
/// [`reads_on_this_thread`].
pub struct Connection {
    transport: Transport,
    peer: Peer,
    /// Timeout of the unfinished connection, and notification that another connection took its place in the limit on
    /// unfinished connections. Either of them ends the connection. `None` once the connection is finished.
    opening: Option<Opening>,
    /// Settings of the port for PROXY headers, with which a header in the first bytes of the connection is refused;
    /// `None` once bytes were received.
    first: Option<Headers>,
    /// Wait for the peer, once this side of the connection is shut down.
    linger: Option<Linger>,
}

enum Transport {
    Socket(TcpStream),
    /// In the handshake of TLS.
    Opening(Box<Handshake>),
    Secure(Box<Secure>),
    Other(Box<dyn Duplex>),
}

impl Connection {
    /// Creates a connection that is not a socket.
    #[must_use]
    pub fn other(transport: impl Duplex + 'static) -> Connection {
        Connection {
            transport: Transport::Other(Box::new(transport)),
            peer: Peer::default(),
            opening: None,
            first: None,
            linger: None,
        }
    }

    /// Creates the connection of an accepted socket on a port that accepts no PROXY headers. If `unfinished` is given,
    /// the connection is counted in it.
    pub(crate) fn of_socket(stream: TcpStream, tls: Option<&Tls>, unfinished: Option<&Unfinished>) -> Connection {
        let addr = stream.peer_addr().ok();
        let accept = Accept { tls: tls.cloned(), unfinished: unfinished.cloned(), headers: None };
        Connection::accepted(stream, addr, &accept)
    }

    /// Creates the connection of an accepted socket whose peer is at `addr`.
    fn accepted(stream: TcpStream, addr: Option<SocketAddr>, accept: &Accept) -> Connection {
        let Accept { tls, unfinished, headers } = accept;
        let transport = match tls {
            Some(tls) => Transport::Opening(Box::new(tls.begin(stream))),
            None => Transport::Socket(stream),
        };
        let (seat, opening) = unfinished.as_ref().map(|port| port.take(addr.map(|addr| addr.ip()))).unzip();
        let is_unfinished = AtomicBool::new(seat.is_some());
        let state = Arc::new(PeerState { seat: Mutex::new(seat), is_unfinished, ..PeerState::default() });
        Connection { transport, peer: Peer { addr, state }, opening, first: headers.clone(), linger: None }
    }

    /// Returns the peer.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Returns whether the connection has TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        matches!(self.transport, Transport::Opening(_) | Transport::Secure(_))
    }

    /// Returns whether the handshake is in progress.
    #[must_use]
    pub(crate) fn is_opening(&self) -> bool {
        matches!(self.transport, Transport::Opening(_))
    }

    /// Returns the underlying socket; `None` for another transport.
    fn socket(&self) -> Option<&TcpStream> {
        match &self.transport {
            Transport::Socket(stream) => Some(stream),
            Transport::Opening(handshake) => handshake.socket(),
            Transport::Secure(secure) => Some(secure.stream.get_ref().0),
            Transport::Other(_) => None,
        }
    }

    /// Enables TCP keepalive. After the time `idle` without traffic, the kernel probes the peer at the interval
    /// `every`, and ends the connection after `tries` probes without a response. Has no effect if the transport is not
    /// a socket.
    ///
    /// # Errors
    /// If the system refuses it.
    pub fn keep_alive(&self, idle: Duration, every: Duration, tries: u32) -> io::Result<()> {
        let Some(stream) = self.socket() else { return Ok(()) };
        let keepalive = TcpKeepalive::new().with_time(idle).with_interval(every).with_retries(tries);
        SockRef::from(stream).set_tcp_keepalive(&keepalive)
    }

    /// Makes the system send the next write together with the end of the connection, so that the peer never receives
    /// only one of the two. The caller must end the connection directly after that write. Has no effect if the
    /// transport is not a socket.
    pub fn join_end_to_last_write(&self) {
        if let Some(stream) = self.socket() {
            // If the system refuses this option, the end of the connection follows a moment after the write.
            let _ = SockRef::from(stream).set_tcp_cork(true);
        }
    }

    /// Completes the TLS handshake, if the connection has TLS. Cancel safe.
    ///
    /// # Errors
    /// The peer does not prove an identity that is accepted at this port, or takes too long to do so.
    pub async fn open(&mut self) -> io::Result<()> {
        std::future::poll_fn(|cx| self.poll_handshake(cx)).await
    }

    /// Completes the handshake like [`Connection::open`].
    pub(crate) fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_open(cx).map_ok(drop)
    }

    /// Returns an error, which ends the connection, if the connection has been unfinished for too long, or if another
    /// connection took its place in the limit on unfinished connections.
    #[inline]
    fn check_opening(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let Some(opening) = &mut self.opening else { return Ok(()) };
        if let Poll::Ready(finished) = opening.poll(cx) {
            finished?;
            self.opening = None;
        }
        Ok(())
    }

    /// Completes the handshake, and returns the transport.
    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Pin<&mut dyn Duplex>>> {
        if let Transport::Opening(handshake) = &mut self.transport {
            if let (Some(headers), Some(stream)) = (&self.first, handshake.socket()) {
                let mut bytes = [0; SIGNATURE.len()];
                let mut first = ReadBuf::new(&mut bytes);
                if stream.poll_peek(cx, &mut first)?.is_ready() {
                    headers.check_first(self.peer.addr, first.filled())?;
                    self.first = None;
                }
            }
            let Poll::Ready(secure) = handshake.poll(self.peer.addr, cx) else {
                self.check_opening(cx)?;
                return Poll::Pending;
            };
            let secure = secure?;
            if let Some(identity) = seq_auth::peer(&secure.stream) {
                self.peer.identify(identity);
            }
            self.transport = Transport::Secure(Box::new(secure));
        }
        Poll::Ready(Ok(match &mut self.transport {
            Transport::Socket(stream) => Pin::new(stream),
            Transport::Secure(secure) => Pin::new(&mut secure.stream),
            Transport::Other(transport) => Pin::new(&mut **transport),
            Transport::Opening(_) => unreachable!("opened above"),
        }))
    }
}

impl From<TcpStream> for Connection {
    fn from(stream: TcpStream) -> Connection {
        let addr = stream.peer_addr().ok();
        let peer = Peer { addr, ..Peer::default() };
        Connection { transport: Transport::Socket(stream), peer, opening: None, first: None, linger: None }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("socket", &self.socket()).field("peer", &self.peer).finish()
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !matches!(self.transport, Transport::Opening(_)) {
            self.check_opening(cx)?;
        }
        let filled = into.filled().len();
        let read = match &mut self.transport {
            Transport::Socket(stream) => Pin::new(stream).poll_read(cx, into),
            _ => std::task::ready!(self.poll_open(cx))?.poll_read(cx, into),
        };
        if read.is_ready() {
            READS.set(READS.get().wrapping_add(1));
            if let Some(headers) = self.first.take() {
                let checked = headers.check_first(self.peer.addr, &into.filled()[filled..]);
                if checked.is_err() {
                    into.set_filled(filled);
                }
                checked?;
            }
            if let Transport::Secure(secure) = &mut self.transport {
                secure.standing.check()?;
            }
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.transport {
            Transport::Socket(stream) => Pin::new(stream).poll_write(cx, bytes),
            _ => std::task::ready!(self.poll_open(cx))?.poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.transport {
            Transport::Socket(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            _ => std::task::ready!(self.poll_open(cx))?.poll_write_vectored(cx, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.transport {
            Transport::Socket(stream) => stream.is_write_vectored(),
            Transport::Opening(_) | Transport::Secure(_) => true,
            Transport::Other(transport) => transport.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.poll_open(cx))?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Transport::Opening(_) = self.transport {
            // A peer that has not completed the handshake gets no closing message.
            return Poll::Ready(Ok(()));
        }
        if self.linger.is_none() {
            std::task::ready!(std::task::ready!(self.poll_open(cx))?.poll_shutdown(cx))?;
            self.linger = Some(Linger::start());
        }
        let Connection { transport, linger: Some(linger), .. } = &mut *self else { return Poll::Ready(Ok(())) };
        match transport {
            Transport::Socket(stream) => linger.poll(stream, cx).map(Ok),
            Transport::Secure(secure) => linger.poll(secure.stream.get_mut().0, cx).map(Ok),
            Transport::Opening(_) | Transport::Other(_) => Poll::Ready(Ok(())),
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
    async fn a_peer_that_still_sends_reads_everything() {
        let listener = crate::listen::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap().remove(0);
        let addr = listener.local_addr().unwrap();
        let mut incoming = Listener::from(listener).incoming().unwrap();
        let mut peer = TcpStream::connect(addr).await.unwrap();
        peer.write_all(b"not read").await.unwrap();
        let mut connection = incoming.next().await.unwrap().unwrap();
        let closing = async {
            connection.write_all(b"bye").await.unwrap();
            connection.shutdown().await.unwrap();
            drop(connection);
        };
        let peer = async {
            // It sends until it has read everything, as a client whose requests are in flight.
            let mut bytes = [0; 3];
            peer.read_exact(&mut bytes).await.unwrap();
            for _ in 0..100 {
                peer.write_all(&[0; 1_000]).await.unwrap();
                tokio::task::yield_now().await;
            }
            assert_eq!((&bytes, peer.read(&mut [0; 1]).await.unwrap()), (b"bye", 0));
        };
        tokio::join!(closing, peer);
    }

    #[tokio::test]
    async fn a_peer_that_never_closes_delays_the_end_shortly() {
        let listener = crate::listen::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap().remove(0);
        let addr = listener.local_addr().unwrap();
        let mut incoming = Listener::from(listener).incoming().unwrap();
        let _peer = TcpStream::connect(addr).await.unwrap();
        let mut connection = incoming.next().await.unwrap().unwrap();
        tokio::time::timeout(Duration::from_secs(10), connection.shutdown()).await.unwrap().unwrap();
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
        let stream = connection.socket().unwrap();
        assert!(!SockRef::from(stream).keepalive().unwrap());
        connection.keep_alive(Duration::from_secs(30), Duration::from_secs(10), 3).unwrap();
        assert!(SockRef::from(stream).keepalive().unwrap());
    }
}
