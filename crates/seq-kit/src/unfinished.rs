//! Limits the unfinished connections of a port. These are connections that were accepted, but whose peer has not yet
//! proved that it is a caller.
//!
//! Each accepted connection takes a [`Seat`]. It holds the seat until its peer has proved an identity, or, if the port
//! requires no proof, until the peer has sent a request. Unknown addresses may try to take any number of seats. If a
//! port is full, [`seats::Seats`] decides which connection is dropped. It never drops the newest one.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use metrics::Counter;
use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

mod seats;

use seats::Seats;

/// Time within which the peer of a connection must prove an identity, or, if the port requires no proof, send the head
/// of a request.
pub const FINISH_TIMEOUT: Duration = Duration::from_secs(10);

/// Limit on the unfinished connections of a port that serves callers. Each of them may hold a handshake message of 64
/// KiB.
pub const CALLERS: usize = 1_024;

/// Limit on the unfinished connections of a port that serves other nodes, operators or probes.
pub const FEW: usize = 128;

/// Divisor of a port's limit on unfinished connections. One connection in `RESERVED_SHARE` cannot come from an unknown
/// address.
const RESERVED_SHARE: usize = 8;

/// Divisor of the process' limit on open files. The unfinished connections of a port may use one file in `FILES_SHARE`.
/// So all ports of a node together leave some of the connections that [`crate::admission`] reserves for nodes and
/// operators.
const FILES_SHARE: usize = 16;

/// Limit on the number of addresses that a port remembers because a node or an operator proved its identity from them.
const MAX_LEARNED: usize = 256;

/// The unfinished connections of a port. Clones share them.
#[derive(Clone)]
pub struct Unfinished(Arc<Inner>);

struct Inner {
    seats: Mutex<Seats<oneshot::Sender<()>>>,
    needs_credential: bool,
    dropped: Counter,
    origin: Instant,
}

impl Unfinished {
    /// Creates the limit on the unfinished connections of a port. The limit is `most`, or less if the process may open
    /// few files. An eighth of it is reserved for known addresses. These are the addresses in `known`, this host's own
    /// addresses, and addresses from which nodes and operators have connected.
    #[must_use]
    pub fn new(most: usize, known: impl IntoIterator<Item = IpAddr>, dropped: Counter) -> Unfinished {
        let files = getrlimit(Resource::Nofile).current.and_then(|files| usize::try_from(files).ok());
        let most = most.min(files.map_or(usize::MAX, |files| files / FILES_SHARE)).max(RESERVED_SHARE);
        let known = known.into_iter().map(host).collect();
        let seats = Mutex::new(Seats::new(most, most / RESERVED_SHARE, known));
        Unfinished(Arc::new(Inner { seats, needs_credential: false, dropped, origin: Instant::now() }))
    }

    /// Returns the same limit with a stricter rule. Under this rule a connection is unfinished until its peer has
    /// proved an identity, even if the peer has sent a request.
    #[must_use]
    pub fn until_proved(self) -> Unfinished {
        let Inner { seats, dropped, origin, .. } = Arc::into_inner(self.0).expect("a port that is not open");
        Unfinished(Arc::new(Inner { seats, needs_credential: true, dropped, origin }))
    }

    /// Takes a seat, that is, a place among the unfinished connections, for an accepted connection. If another
    /// connection loses its seat to the accepted connection, notifies that other connection.
    pub(crate) fn take(&self, peer: Option<IpAddr>) -> (Seat, Opening) {
        let (sender, receiver) = oneshot::channel();
        let mut losing = Vec::new();
        let now = self.0.origin.elapsed();
        let id = self.0.seats.lock().take(peer.map(host), sender, now, |loser| losing.push(loser));
        self.0.dropped.increment(losing.len() as u64);
        for loser in losing {
            // If the connection has just ended, it needs no notification.
            let _ = loser.send(());
        }
        let opening = Opening { dropped: receiver, timeout: Box::pin(tokio::time::sleep(FINISH_TIMEOUT)) };
        (Seat { port: self.clone(), id }, opening)
    }
}

/// The place of a connection among the unfinished connections of its port. It is freed when it is dropped.
pub(crate) struct Seat {
    port: Unfinished,
    id: u64,
}

impl Seat {
    /// Returns whether the peer has to prove its identity, so that a request alone does not finish the connection.
    pub(crate) fn needs_credential(&self) -> bool {
        self.port.0.needs_credential
    }

    /// Remembers the address of the seat's connection as a known address, because a node or an operator has connected
    /// from this address.
    pub(crate) fn learn(&self) {
        self.port.0.seats.lock().learn(self.id, MAX_LEARNED);
    }
}

impl std::fmt::Debug for Seat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seat").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        drop(self.port.0.seats.lock().leave(self.id));
    }
}

/// Condition under which an unfinished connection has to end: its timeout, or the loss of its seat to another
/// connection.
pub(crate) struct Opening {
    dropped: oneshot::Receiver<()>,
    timeout: Pin<Box<Sleep>>,
}

impl Opening {
    /// Returns `Ready(Ok)` once the connection is finished. Returns an error if the connection has lost its seat, or if
    /// its time has passed.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let late = |what| Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, what)));
        match Pin::new(&mut self.dropped).poll(cx) {
            Poll::Ready(Ok(())) => late("dropped for a newer connection: the port has too many unfinished connections"),
            Poll::Ready(Err(_)) => Poll::Ready(Ok(())),
            Poll::Pending => {
                std::task::ready!(self.timeout.as_mut().poll(cx));
                late("no proof of an identity, or no request, within the timeout")
            }
        }
    }
}

/// Returns the address, or the network of addresses, that is limited as one host. For IPv6 it is the /64 network,
/// because a host can use all addresses of its network.
pub(crate) fn host(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
        v4 => v4,
    }
}
