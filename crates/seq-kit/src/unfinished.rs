//! Unfinished connections of a port: they are accepted, but have no proof yet that their peer is a caller.
//!
//! Each connection takes a [`Seat`] until its peer has proved an identity, or, if the port requires none, has sent a
//! request. Strangers can take any number of seats: [`seats::Seats`] decides which connection a full port drops, and it
//! is never the newcomer.

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

/// Time within which a connection must prove an identity or, if the port requires none, send the head of a request.
pub const FINISH_TIMEOUT: Duration = Duration::from_secs(10);

/// Seats of a port for callers. Each seat may hold a message of 64 KiB in its handshake.
pub const CALLERS: usize = 1_024;

/// Seats of a port for other nodes, operators or probes.
pub const FEW: usize = 128;

/// The share of a port's seats, one in so many, that strangers do not get.
const RESERVED_SHARE: usize = 8;

/// The share of the process' open files, one in so many, that the seats of a port may take. Together the ports of a
/// node leave some of the connections that [`crate::admission`] reserves for nodes and operators.
const FILES_SHARE: usize = 16;

/// Most addresses that are remembered because a node or an operator proved its identity there.
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
    /// Creates a port with so many seats, or fewer if the process may open few files. An eighth of them is for the
    /// addresses `known`, this host's own addresses, and those from which nodes and operators have come.
    #[must_use]
    pub fn new(most: usize, known: impl IntoIterator<Item = IpAddr>, dropped: Counter) -> Unfinished {
        let files = getrlimit(Resource::Nofile).current.and_then(|files| usize::try_from(files).ok());
        let most = most.min(files.map_or(usize::MAX, |files| files / FILES_SHARE)).max(RESERVED_SHARE);
        let known = known.into_iter().map(host).collect();
        let seats = Mutex::new(Seats::new(most, most / RESERVED_SHARE, known));
        Unfinished(Arc::new(Inner { seats, needs_credential: false, dropped, origin: Instant::now() }))
    }

    /// Returns the same port, where a request finishes a connection only if it proves the identity of its sender.
    #[must_use]
    pub fn until_proved(self) -> Unfinished {
        let Inner { seats, dropped, origin, .. } = Arc::into_inner(self.0).expect("a port that is not open");
        Unfinished(Arc::new(Inner { seats, needs_credential: true, dropped, origin }))
    }

    /// Takes a seat for an accepted connection, and notifies connections that lose their seats for it.
    pub(crate) fn take(&self, peer: Option<IpAddr>) -> (Seat, Opening) {
        let (sender, receiver) = oneshot::channel();
        let mut losing = Vec::new();
        let now = self.0.origin.elapsed();
        let id = self.0.seats.lock().take(peer.map(host), sender, now, |loser| losing.push(loser));
        self.0.dropped.increment(losing.len() as u64);
        for loser in losing {
            // A connection that has just ended needs no message.
            let _ = loser.send(());
        }
        let opening = Opening { dropped: receiver, timeout: Box::pin(tokio::time::sleep(FINISH_TIMEOUT)) };
        (Seat { port: self.clone(), id }, opening)
    }
}

/// The seat of an unfinished connection; free again on drop.
pub(crate) struct Seat {
    port: Unfinished,
    id: u64,
}

impl Seat {
    /// Returns whether a connection needs a proof of its sender's identity, so that a request alone does not finish it.
    pub(crate) fn needs_credential(&self) -> bool {
        self.port.0.needs_credential
    }

    /// Remembers the address, because a node or an operator has come from it.
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

/// The end of a connection that stays unfinished.
pub(crate) struct Opening {
    dropped: oneshot::Receiver<()>,
    timeout: Pin<Box<Sleep>>,
}

impl Opening {
    /// Returns `Ready(Ok)` once the connection is finished, and an error if it lost its seat or its time is over.
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

/// Returns the unit of limits by address: for IPv6 the /64 network, because a host has all addresses of its network.
pub(crate) fn host(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
        v4 => v4,
    }
}
