//! Version 2 of the PROXY protocol. In this protocol, a balancer sends a header with the address of its client before
//! the first byte of the client.
//!
//! A header is accepted only from the addresses that the settings list, so a port without such a list accepts no
//! header. A connection from a listed address may also begin without a header, e.g. if it is made for a health check or
//! by another node on the balancer's machine. The address of such a connection is that of its sender. A client behind a
//! balancer that sends headers cannot add a header of its own, because only the first header is read, and a second
//! header is not valid as TLS, HTTP or a Redis command.
//!
//! [`parse`] decodes a header. [`Headers`] reads the headers of connections, while other connections are being
//! accepted.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::repeats::Repeats;

/// The first bytes of a header. No other protocol begins with them.
pub(crate) const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// The first bytes of a header of version 1, which is text.
const VERSION_1: &[u8] = b"PROXY ";

/// Number of first bytes of a connection that distinguish a header from any other protocol. Fewer bytes are not enough,
/// because clients of Redis may send empty lines.
const TELLING: usize = 5;

/// Length of the first part of a header, which every header has: the signature, the version and command, the family,
/// and the length of the rest.
const HEAD: usize = 16;

/// Largest length of the rest of a header. The rest contains the addresses, and up to some hundred bytes of details
/// that are not read here.
const MAX_REST: usize = 1_024;

/// The source of a connection, as its header states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The client behind the balancer.
    Client(SocketAddr),
    /// The balancer itself, for example for a health check.
    Balancer,
}

/// Reason why a connection is ended because of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Refused {
    #[error("a PROXY header from an address that proxy_protocol.from does not list")]
    NotListed,
    #[error("a PROXY header of version 1: have the balancer send version 2 (HAProxy: send-proxy-v2)")]
    Version1,
    #[error("not a PROXY header of version 2")]
    Malformed,
    #[error("a PROXY header of {bytes} bytes is longer than {}", HEAD + MAX_REST)]
    TooLong { bytes: usize },
    #[error("a PROXY header for no TCP connection")]
    NotTcp,
}

/// Returns the length of the rest of a header, that is, of the bytes after the first part `head`.
fn rest(head: &[u8; HEAD]) -> Result<usize, Refused> {
    if !head.starts_with(SIGNATURE) || head[12] >> 4 != 2 {
        return Err(Refused::Malformed);
    }
    let rest = usize::from(u16::from_be_bytes([head[14], head[15]]));
    if rest > MAX_REST { Err(Refused::TooLong { bytes: HEAD + rest }) } else { Ok(rest) }
}

/// Returns the source of the connection that a header states. `head` is the first part of the header, and `rest` the
/// bytes after it.
fn parse(head: &[u8; HEAD], rest: &[u8]) -> Result<Source, Refused> {
    match head[12] & 0xf {
        // The command is LOCAL, so the rest of the header is ignored.
        0 => return Ok(Source::Balancer),
        1 => {}
        _ => return Err(Refused::Malformed),
    }
    // The rest begins with the two addresses, which are followed by the two ports.
    let client = match head[13] {
        // The family is unknown.
        0 => return Ok(Source::Balancer),
        0x11 => rest.first_chunk::<12>().map(|all| {
            let [a, b, c, d, _, _, _, _, port @ .., _, _] = *all;
            SocketAddr::new(Ipv4Addr::new(a, b, c, d).into(), u16::from_be_bytes(port))
        }),
        0x21 => rest.first_chunk::<36>().map(|all| {
            let ip: [u8; 16] = *all.first_chunk().expect("16 of 36");
            SocketAddr::new(Ipv6Addr::from(ip).into(), u16::from_be_bytes([all[32], all[33]]))
        }),
        _ => return Err(Refused::NotTcp),
    };
    client.map(Source::Client).ok_or(Refused::Malformed)
}

/// Networks, parsed from a list of items `address` or `address/prefix` with commas between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks(Vec<(IpAddr, u8)>);

/// Error of an item of a list that is not a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither an IP address nor a network as in 10.0.0.0/8")]
pub struct NoNetwork(String);

impl FromStr for Networks {
    type Err = NoNetwork;

    fn from_str(text: &str) -> Result<Networks, NoNetwork> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let network = |part: &str| {
            let (ip, prefix) = part.split_once('/').map_or((part, None), |(ip, prefix)| (ip, Some(prefix)));
            let ip = ip.parse::<IpAddr>().ok()?;
            let bits = if ip.is_ipv4() { 32 } else { 128 };
            let prefix = prefix.map_or(Some(bits), |prefix| prefix.parse().ok())?;
            (prefix <= bits).then_some((ip, prefix))
        };
        let parsed = parts.map(|part| network(part).ok_or_else(|| NoNetwork(part.to_owned())));
        parsed.collect::<Result<_, _>>().map(Networks)
    }
}

impl Networks {
    /// Returns whether an address is in any of these networks.
    fn contain(&self, ip: IpAddr) -> bool {
        self.0.iter().any(|(network, prefix)| match (network, ip.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(ip)) => {
                let differ = u32::from(*network) ^ u32::from(ip);
                differ.checked_shr(32 - u32::from(*prefix)).unwrap_or(0) == 0
            }
            (IpAddr::V6(network), IpAddr::V6(ip)) => {
                let differ = u128::from(*network) ^ u128::from(ip);
                differ.checked_shr(128 - u32::from(*prefix)).unwrap_or(0) == 0
            }
            _ => false,
        })
    }
}

/// The settings of a node's ports for PROXY headers. Clones share the rate limit on log lines about refused headers.
#[derive(Clone)]
pub struct Headers(Arc<Inner>);

struct Inner {
    from: Networks,
    logged: Mutex<Repeats>,
}

impl Headers {
    /// Creates the settings of a port that accepts headers from the addresses in `from`.
    #[must_use]
    pub fn from(from: Networks) -> Headers {
        Headers(Arc::new(Inner { from, logged: Mutex::default() }))
    }

    /// Returns whether a header that comes from this address is accepted.
    pub(crate) fn are_believed_from(&self, peer: Option<SocketAddr>) -> bool {
        peer.is_some_and(|peer| self.0.from.contain(peer.ip()))
    }

    /// Reads the header at the beginning of a connection, if there is one. `peer` is the address of the connection's
    /// sender, from which headers are accepted. Returns the client's address in the header; `None` if there is no
    /// header, or if the header states no client. Logs the error if the header is refused.
    pub(crate) async fn read(&self, stream: &mut TcpStream, peer: SocketAddr) -> io::Result<Option<SocketAddr>> {
        let read = async {
            let mut first = [0; VERSION_1.len()];
            let there = stream.peek(&mut first).await?;
            let first = &first[..there];
            if first == VERSION_1 {
                return Err(refuse(Refused::Version1));
            }
            if first.first() != SIGNATURE.first() {
                return Ok(Source::Balancer);
            }
            let mut head = [0; HEAD];
            stream.read_exact(&mut head).await?;
            let mut bytes = vec![0; rest(&head).map_err(refuse)?];
            stream.read_exact(&mut bytes).await?;
            parse(&head, &bytes).map_err(refuse)
        };
        match read.await {
            Ok(Source::Client(client)) => Ok(Some(client)),
            Ok(Source::Balancer) => Ok(None),
            Err(error) => {
                self.log(Some(peer), &error);
                Err(error)
            }
        }
    }

    /// Refuses a connection whose first bytes are the beginning of a header, because headers are not accepted from its
    /// address.
    ///
    /// # Errors
    /// The bytes are the beginning of a header. The error is logged.
    pub(crate) fn check_first(&self, peer: Option<SocketAddr>, first: &[u8]) -> io::Result<()> {
        let is = |begin: &[u8]| first.len() >= TELLING && begin.starts_with(&first[..first.len().min(begin.len())]);
        if !is(SIGNATURE) && !is(VERSION_1) {
            return Ok(());
        }
        let error = refuse(Refused::NotListed);
        self.log(peer, &error);
        Err(error)
    }

    /// Logs the error for which a connection was ended. The first such error is logged at once, and then at most one a
    /// minute.
    fn log(&self, peer: Option<SocketAddr>, error: &io::Error) {
        // A connection that ends before its first byte is a health check that only connects, so it is not logged.
        if error.kind() == io::ErrorKind::InvalidData
            && let Some(suppressed) = self.0.logged.lock().admit()
        {
            let peer = peer.map(tracing::field::display);
            tracing::warn!(peer, %error, suppressed, "connection refused");
        }
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Headers").field("from", &self.0.from).finish_non_exhaustive()
    }
}

fn refuse(refused: Refused) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, refused)
}

#[cfg(test)]
mod tests;
