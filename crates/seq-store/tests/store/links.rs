//! The network between members, whose links can be cut or slowed. Connections over a cut link break, and new
//! connections are refused. On a slow link every byte, and the start of a connection, is delayed. Servers may have
//! certificates, against which new connections are checked as over TLS.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use seq_auth::{ExpectedServer, Identity};
use seq_store::Dial;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tonic::transport::{Endpoint, Uri};

/// Links between members. Clones share the network.
#[derive(Clone, Default)]
pub(crate) struct Links {
    /// Addresses of members that are cut off from all others, in both directions.
    alone: Arc<Mutex<BTreeSet<String>>>,
    /// Addresses of two members that cannot reach each other, in order.
    apart: Arc<Mutex<BTreeSet<[String; 2]>>>,
    /// The round trip of every link; without a delay if zero.
    round_trip: Arc<Mutex<Duration>>,
    /// The certificates of servers, by address. Without a certificate, any server is accepted at an address.
    certificates: Arc<Mutex<BTreeMap<String, Identity>>>,
    /// Addresses at which a dialer found another server than expected since the server there got its certificate.
    refused: Arc<Mutex<BTreeSet<String>>>,
}

impl Links {
    /// Sets the certificate that the server at an address shows to new connections.
    pub(crate) fn certify(&self, addr: &str, holder: &str) {
        self.certificates.lock().insert(addr.to_owned(), Identity::in_cluster("im", holder).unwrap());
        self.refused.lock().remove(addr);
    }

    /// Returns whether a dialer found another server than expected at an address since the server there got its
    /// certificate.
    pub(crate) fn is_refused(&self, addr: &str) -> bool {
        self.refused.lock().contains(addr)
    }

    fn check_server(&self, addr: &str, expected: &ExpectedServer) -> io::Result<()> {
        match self.certificates.lock().get(addr) {
            Some(holder) if !expected.accepts(holder) => {
                self.refused.lock().insert(addr.to_owned());
                let text = format!("{addr}: a {expected} is expected, and the certificate is of {holder}");
                Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
            }
            _ => Ok(()),
        }
    }

    /// Cuts a member off from all others.
    pub(crate) fn cut_off(&self, addr: &str) {
        self.alone.lock().insert(addr.to_owned());
    }

    /// Cuts the link between two members, in both directions.
    pub(crate) fn cut_between(&self, one: &str, other: &str) {
        self.apart.lock().insert(sorted([one.to_owned(), other.to_owned()]));
    }

    /// Delays every new connection by this round trip.
    pub(crate) fn delay(&self, round_trip: Duration) {
        *self.round_trip.lock() = round_trip;
    }

    /// Restores every link.
    pub(crate) fn mend(&self) {
        self.alone.lock().clear();
        self.apart.lock().clear();
    }

    /// Returns the dialer of the member at `from`.
    pub(crate) fn dial(&self, from: &str) -> Dial {
        let (links, from) = (self.clone(), from.to_owned());
        Dial::checked(move |endpoint: Endpoint, expected: &ExpectedServer| {
            let (links, from, expected) = (links.clone(), from.clone(), expected.clone());
            endpoint.connect_with_connector_lazy(tower::service_fn(move |uri: Uri| {
                let link = Link { links: links.clone(), ends: [from.clone(), uri.authority().unwrap().to_string()] };
                let checked = links.check_server(&link.ends[1], &expected);
                async move {
                    link.check()?;
                    checked?;
                    let round_trip = *link.links.round_trip.lock();
                    // The handshake of TCP.
                    tokio::time::sleep(round_trip).await;
                    let stream = TcpStream::connect(link.ends[1].parse::<SocketAddr>().unwrap()).await?;
                    stream.set_nodelay(true)?;
                    Ok::<_, io::Error>(TokioIo::new(Wire { link, stream: slowed(stream, round_trip / 2) }))
                }
            }))
        })
    }
}

fn sorted(mut ends: [String; 2]) -> [String; 2] {
    ends.sort_unstable();
    ends
}

struct Link {
    links: Links,
    ends: [String; 2],
}

impl Link {
    fn check(&self) -> io::Result<()> {
        let alone = self.links.alone.lock();
        let apart = self.links.apart.lock().contains(&sorted(self.ends.clone()));
        if apart || self.ends.iter().any(|end| alone.contains(end)) {
            return Err(io::Error::new(io::ErrorKind::ConnectionReset, "the link is cut"));
        }
        Ok(())
    }
}

/// Most bytes of a slow connection in flight.
const ON_THE_WAY: usize = 1024 * 1024;

/// Most chunks of a slow connection in flight.
const CHUNKS: usize = 4_096;

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Returns a connection whose bytes arrive `delay` after they were sent, in both directions.
#[expect(clippy::disallowed_methods, reason = "its tasks end with the connection")]
fn slowed(stream: TcpStream, delay: Duration) -> Box<dyn Stream> {
    if delay.is_zero() {
        return Box::new(stream);
    }
    let (near, far): (DuplexStream, DuplexStream) = tokio::io::duplex(ON_THE_WAY);
    let ((far_in, far_out), (wire_in, wire_out)) = (tokio::io::split(far), stream.into_split());
    tokio::spawn(carry(far_in, wire_out, delay));
    tokio::spawn(carry(wire_in, far_out, delay));
    Box::new(near)
}

/// Copies bytes in one direction until either end is closed.
async fn carry(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, delay: Duration) {
    let (sender, mut receiver) = mpsc::channel::<(Instant, Vec<u8>)>(CHUNKS);
    let reading = async {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = from.read(&mut buffer).await {
            if sender.send((Instant::now() + delay, buffer[..read].to_vec())).await.is_err() {
                break;
            }
        }
        drop(sender);
    };
    let writing = async {
        while let Some((at, bytes)) = receiver.recv().await {
            tokio::time::sleep_until(at).await;
            if to.write_all(&bytes).await.is_err() {
                break;
            }
        }
        let _ = to.shutdown().await;
    };
    tokio::join!(reading, writing);
}

struct Wire {
    link: Link,
    stream: Box<dyn Stream>,
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.link.check()?;
        let read = std::task::ready!(Pin::new(&mut self.stream).poll_read(cx, buf));
        // Bytes that arrived after the cut are dropped.
        self.link.check()?;
        Poll::Ready(read)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.link.check()?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.link.check()?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
