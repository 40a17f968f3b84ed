//! The PROXY protocol, version 2: a balancer sends the address of its client before the client's first byte.
//!
//! A header is believed only from the addresses that the settings list, so a port without such a list believes none. A
//! connection from a listed address may come without a header, like those of health checks and of other nodes on the
//! balancer's machine; then it counts as a connection of its sender. A client behind a balancer that sends headers
//! cannot add a header of its own, because only the first header counts, and a second header is no valid TLS, HTTP or
//! command of Redis.
//!
//! [`parse`] decides about a header; [`Headers`] reads them, concurrently with the accepting of further connections.

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

/// Number of bytes that distinguish a header from all else: clients of Redis may send empty lines.
const TELLING: usize = 5;

/// Length of the part that every header has: the signature, version and command, family, length.
const HEAD: usize = 16;

/// Longest rest of a header: the addresses and some hundred bytes of details, which are not read here.
const MAX_REST: usize = 1_024;

/// The source of a connection, by its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The client behind the balancer.
    Client(SocketAddr),
    /// The balancer itself, such as a health check.
    Balancer,
}

/// Reason why a connection with a header is ended.
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

/// Returns the length of the rest, which follows the first part of a header.
fn rest(head: &[u8; HEAD]) -> Result<usize, Refused> {
    if !head.starts_with(SIGNATURE) || head[12] >> 4 != 2 {
        return Err(Refused::Malformed);
    }
    let rest = usize::from(u16::from_be_bytes([head[14], head[15]]));
    if rest > MAX_REST { Err(Refused::TooLong { bytes: HEAD + rest }) } else { Ok(rest) }
}

/// Returns the source in a header, which is given as its first part and the rest.
fn parse(head: &[u8; HEAD], rest: &[u8]) -> Result<Source, Refused> {
    match head[12] & 0xf {
        // The command is LOCAL: the rest of the header does not count.
        0 => return Ok(Source::Balancer),
        1 => {}
        _ => return Err(Refused::Malformed),
    }
    // The two addresses come first, then the two ports.
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

/// Networks, each as an address or as `address/prefix`, with commas in between.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks(Vec<(IpAddr, u8)>);

/// A part of a list that is no network.
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

/// The headers of a port's connections. Clones belong to one node.
#[derive(Clone)]
pub struct Headers(Arc<Inner>);

struct Inner {
    from: Networks,
    logged: Mutex<Repeats>,
}

impl Headers {
    /// Returns the headers of a port that believes headers from these networks.
    #[must_use]
    pub fn from(from: Networks) -> Headers {
        Headers(Arc::new(Inner { from, logged: Mutex::default() }))
    }

    /// Returns whether an address may send a header.
    pub(crate) fn are_believed_from(&self, peer: Option<SocketAddr>) -> bool {
        peer.is_some_and(|peer| self.0.from.contain(peer.ip()))
    }

    /// Reads the header of a connection from a believed address, if it begins with a header. Returns the client's
    /// address if the header has it. An error is logged.
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

    /// Refuses the first bytes of a connection from any other address, if they are a header.
    ///
    /// # Errors
    /// The bytes are a header, which is logged.
    pub(crate) fn check_first(&self, peer: Option<SocketAddr>, first: &[u8]) -> io::Result<()> {
        let is = |begin: &[u8]| first.len() >= TELLING && begin.starts_with(&first[..first.len().min(begin.len())]);
        if !is(SIGNATURE) && !is(VERSION_1) {
            return Ok(());
        }
        let error = refuse(Refused::NotListed);
        self.log(peer, &error);
        Err(error)
    }

    /// Logs why a connection was ended; the first event at once, then one a minute.
    fn log(&self, peer: Option<SocketAddr>, error: &io::Error) {
        // A connection that ends without a byte is a check that only connects.
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
