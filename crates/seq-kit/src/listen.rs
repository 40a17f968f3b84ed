//! Listening sockets: bound before anything is announced, several on one port where a server runs a thread per core.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

/// Connections the kernel queues while every thread is busy; above Linux' usual limit, so that the system's counts.
const BACKLOG: i32 = 4_096;

/// Binds `sockets` listeners to one address; the kernel spreads connections over them. With port 0 all share the port the
/// kernel chose. The sockets do not block.
///
/// # Errors
/// When the address is taken or may not be used; the error names it.
pub fn bind(addr: SocketAddr, sockets: usize) -> io::Result<Vec<TcpListener>> {
    let first = bind_one(addr)?;
    let addr = first.local_addr()?;
    let mut listeners = vec![first];
    while listeners.len() < sockets {
        listeners.push(bind_one(addr)?);
    }
    Ok(listeners)
}

fn bind_one(addr: SocketAddr) -> io::Result<TcpListener> {
    let bind = || {
        let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&addr.into())?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    };
    bind().map_err(|error: io::Error| io::Error::new(error.kind(), format!("cannot listen on {addr}: {error}")))
}
