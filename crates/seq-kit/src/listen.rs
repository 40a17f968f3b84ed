//! Listening sockets: bound before they are announced; several on one port for a thread-per-core server.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

/// Backlog of a listening socket; above the usual Linux limit, so the limit of the system applies.
const BACKLOG: i32 = 4_096;

/// Binds `sockets` listeners to one address; the kernel spreads connections over them. With port 0 all share the port
/// the kernel chose. The sockets do not block.
///
/// # Errors
/// When the address is taken or may not be used; the error names it.
pub fn bind(addr: SocketAddr, sockets: usize) -> io::Result<Vec<TcpListener>> {
    let bind = || {
        // The first socket is bound exclusively and gets SO_REUSEPORT only afterwards. With SO_REUSEPORT from the
        // start, a second process could silently take half of the connections.
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

fn socket(addr: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    // A restarted server must not wait for the TIME_WAIT of its previous connections.
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
    fn connections_reach_every_socket_of_a_port() {
        let listeners = bind("127.0.0.1:0".parse().unwrap(), 2).unwrap();
        let addr = listeners[0].local_addr().unwrap();
        // The kernel hashes the peer's port: with 64 connections, one of two sockets gets none in 2^-63 of runs.
        let connections: Vec<_> = (0..64).map(|_| TcpStream::connect(addr).unwrap()).collect();
        for listener in &listeners {
            listener.accept().unwrap();
        }
        drop(connections);
    }
}
