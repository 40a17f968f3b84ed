//! Connections of a node that a fault can cut.
//!
//! A task copies the bytes of each connection between its socket and the endpoint. So a cut closes the socket at once,
//! whatever the endpoint does at the time.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use parking_lot::Mutex;
use seq_kit::connection::Listener;
use seq_kit::tasks::{Kind, TaskGroup};
use tokio::io::{DuplexStream, copy_bidirectional, duplex};
use tokio::net::TcpStream;
use tokio::sync::watch;

/// Bytes of each direction of a connection that the endpoint or the socket has not taken yet.
const BUFFER: usize = 64 << 10;

/// The connections of a node's ports. Clones are handles to the same connections.
#[derive(Clone, Debug, Default)]
pub(super) struct Connections(Arc<Mutex<Generation>>);

/// Connections that were accepted since the last cut. The value of both channels is whether the connections are cut.
#[derive(Debug, Default)]
struct Generation {
    /// Each open socket has a receiver.
    sockets: watch::Sender<bool>,
    /// Each waiting request has a receiver.
    requests: watch::Sender<bool>,
}

impl Connections {
    /// Cuts all open connections, and completes when their sockets are closed. Later connections are not affected.
    pub(super) async fn cut(&self) {
        let Generation { sockets, requests } = std::mem::take(&mut *self.0.lock());
        sockets.send_replace(true);
        sockets.closed().await;
        // The requests end last, so that no caller gets their refusals. If this future was dropped, they end at its
        // drop.
        requests.send_replace(true);
    }

    /// Returns a future that completes when the present connections are cut.
    pub(super) fn until_cut(&self) -> impl Future<Output = ()> + use<> {
        let cut = self.0.lock().requests.subscribe();
        until(cut)
    }

    /// Returns a listener on a socket, whose connections can be cut. Each connection has a task in `tasks`.
    ///
    /// # Errors
    /// If the socket cannot be registered with the runtime.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(super) fn listen(&self, socket: TcpListener, tasks: &TaskGroup) -> io::Result<Listener> {
        socket.set_nonblocking(true)?;
        let socket = tokio::net::TcpListener::from_std(socket)?;
        let state = (socket, self.clone(), tasks.clone());
        Ok(Listener::new(futures::stream::unfold(state, |(socket, connections, tasks)| async move {
            let accepted = socket.accept().await.and_then(|(stream, _)| connections.open(stream, &tasks));
            Some((accepted, (socket, connections, tasks)))
        })))
    }

    /// Starts to copy the bytes of a connection, and returns the end of the endpoint.
    fn open(&self, mut stream: TcpStream, tasks: &TaskGroup) -> io::Result<DuplexStream> {
        // Without this option, a response could wait 40 ms for the delayed acknowledgement of the client.
        stream.set_nodelay(true)?;
        let (near, mut far) = duplex(BUFFER);
        let cut = self.0.lock().sockets.subscribe();
        tasks.spawn("copy of a connection", Kind::Disposable, async move {
            // Dropped after the socket, because a cut waits for it.
            let open = cut.clone();
            tokio::select! {
                biased;
                () = until(cut) => {
                    // The peer gets a reset instead of an orderly end, because the process of a killed node sends no
                    // end either. If the option cannot be set, the peer gets the orderly end.
                    let _ = stream.set_zero_linger();
                }
                // An error ends the connection, too.
                _ = copy_bidirectional(&mut stream, &mut far) => {}
            }
            drop(stream);
            drop(open);
        });
        Ok(near)
    }
}

/// Completes when connections are cut.
async fn until(mut cut: watch::Receiver<bool>) {
    // The error means that the sender was dropped, and so does a cut.
    let _ = cut.wait_for(|cut| *cut).await;
}
