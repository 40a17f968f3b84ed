//! Listening sockets. A socket is bound before its address is announced. A server with one runtime for each thread has
//! several sockets on the same port.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

/// Backlog of a listening socket. It is above the usual limit of Linux, so that the limit of the system applies.
const BACKLOG: i32 = 4_096;

/// Binds `sockets` listeners to one address. The kernel distributes connections over them. If the port in `addr` is 0,
/// the kernel chooses a port, which all listeners share. The sockets do not block.
///
/// # Errors
/// If the address is taken or may not be used. The error names the address.
pub fn bind(addr: SocketAddr, sockets: usize) -> io::Result<Vec<TcpListener>> {
    let bind = || {
        // The first socket is bound exclusively, and gets SO_REUSEPORT only afterwards. If it had SO_REUSEPORT from the
        // start, a second process could bind the same port unnoticed and get half of the connections.
        let first = socket(addr)?;
        first.bind(&addr.into())?;
        if sockets > 1 {
            first.set_reuse_port(true)?;
        }
        first.listen(BACKLOG)?;
        let first = TcpListener::from(first);
        let addr = first.local_addr()?;
        let mut listeners = vec![first];
        while listeners.len() < sockets {
            let next = socket(addr)?;
            next.set_reuse_port(true)?;
            next.bind(&addr.into())?;
            next.listen(BACKLOG)?;
            listeners.push(next.into());
        }
        Ok(listeners)
    };
    let threads = if sockets > 1 { format!(" with {sockets} threads") } else { String::new() };
    bind()
        .map_err(|error: io::Error| io::Error::new(error.kind(), format!("cannot listen on {addr}{threads}: {error}")))
}

/// The sockets of a port for one thread. There is one socket for each address of the port's host, because the name of a
/// host, such as `localhost`, may have two addresses.
#[derive(Debug)]
pub struct Sockets(Vec<TcpListener>);

impl Sockets {
    /// Returns the address of the first socket.
    ///
    /// # Errors
    /// When the system does not return it.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0[0].local_addr()
    }
}

impl From<TcpListener> for Sockets {
    fn from(socket: TcpListener) -> Sockets {
        Sockets(vec![socket])
    }
}

impl IntoIterator for Sockets {
    type Item = TcpListener;
    type IntoIter = std::vec::IntoIter<TcpListener>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// Binds a port at every address of its host, with `threads` sockets for each address, in the same way as [`bind`].
/// Returns the sockets for each thread. If an address does not belong to this machine and at least one other address
/// does, passes it to `left_out` instead. If the port is 0, all addresses get the port that was chosen for the first
/// address.
///
/// # Errors
/// If an address is taken or may not be used, or if no address belongs to this machine. The error names the address.
///
/// # Panics
/// If `addrs` is empty.
pub fn bind_all(
    addrs: &[SocketAddr],
    threads: usize,
    mut left_out: impl FnMut(SocketAddr),
) -> io::Result<Vec<Sockets>> {
    let mut bound: Vec<Sockets> = Vec::new();
    let mut unusable = Vec::new();
    for (at, addr) in addrs.iter().enumerate() {
        if addrs[..at].contains(addr) {
            continue;
        }
        let chosen = bound.first().map(Sockets::local_addr).transpose()?.filter(|_| addr.port() == 0);
        let addr = chosen.map_or(*addr, |chosen| SocketAddr::new(addr.ip(), chosen.port()));
        match bind(addr, threads) {
            Ok(listeners) if bound.is_empty() => bound = listeners.into_iter().map(Sockets::from).collect(),
            Ok(listeners) => bound.iter_mut().zip(listeners).for_each(|(sockets, one)| sockets.0.push(one)),
            Err(error) if is_not_here(&error) => unusable.push((addr, error)),
            Err(error) => return Err(error),
        }
    }
    if bound.is_empty() {
        return Err(unusable.into_iter().next().expect("a host has an address").1);
    }
    unusable.into_iter().for_each(|(addr, _)| left_out(addr));
    Ok(bound)
}

/// Returns whether binding to an address failed because the address does not belong to this machine, or is of a family
/// that this machine does not support.
fn is_not_here(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported)
}

fn socket(addr: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    // A server that is restarted must not have to wait until the TIME_WAIT of its earlier connections is over.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn a_port_is_shared_within_a_server_only() {
        for sockets in [1, 3] {
            let listeners = bind("127.0.0.1:0".parse().unwrap(), sockets).unwrap();
            assert_eq!(listeners.len(), sockets);
            let addr = listeners[0].local_addr().unwrap();
            assert!(listeners.iter().all(|listener| listener.local_addr().unwrap() == addr));
            for others in [1, 2] {
                let error = bind(addr, others).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
                assert!(error.to_string().contains(&addr.to_string()), "{error}");
            }
            drop(listeners);
            bind(addr, sockets).unwrap();
        }
    }

    #[test]
    fn a_port_is_at_every_address_of_its_host() {
        let addrs = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let (mut left_out, foreign) = (Vec::new(), "192.0.2.1:0");
        let hosts = addrs(&[foreign, "127.0.0.1:0", "127.0.0.2:0", "127.0.0.1:0"]);
        let bound = bind_all(&hosts, 2, |addr| left_out.push(addr)).unwrap();
        let port = bound[0].local_addr().unwrap().port();
        for sockets in bound {
            let at: Vec<_> = sockets.into_iter().map(|socket| socket.local_addr().unwrap().to_string()).collect();
            assert_eq!(at, [format!("127.0.0.1:{port}"), format!("127.0.0.2:{port}")]);
        }
        assert_eq!(left_out, addrs(&[foreign]));
        let error = bind_all(&addrs(&[foreign]), 1, |_| {}).unwrap_err();
        assert!(error.to_string().contains(foreign), "{error}");
        // If another process has taken one of this machine's addresses, that is an error and no reason to serve at only
        // the other address.
        let taken = bind("127.0.0.2:0".parse().unwrap(), 1).unwrap();
        let other = SocketAddr::new([127, 0, 0, 1].into(), taken[0].local_addr().unwrap().port());
        let error = bind_all(&[other, taken[0].local_addr().unwrap()], 1, |_| {}).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn connections_reach_every_socket_of_a_port() {
        let listeners = bind("127.0.0.1:0".parse().unwrap(), 2).unwrap();
        let addr = listeners[0].local_addr().unwrap();
        // The kernel chooses the socket by a hash of the peer's port. With 64 connections and two sockets, one socket
        // gets none in 2^-63 of runs.
        let connections: Vec<_> = (0..64).map(|_| TcpStream::connect(addr).unwrap()).collect();
        for listener in &listeners {
            listener.accept().unwrap();
        }
        drop(connections);
    }
}
