//! A proxy between a client and a node that works on bytes: it cuts connections before, in the middle of or after a
//! response, holds responses back, and changes them.
//!
//! It forwards requests as they come. The bytes of the server it reads part by part, to find the next response: in
//! HTTP/2 a frame with data on a stream, in HTTP/1.1 a whole response with a body. With TLS it cannot, and only
//! forwards.

mod edit;
mod part;

use std::io::{self, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use socket2::SockRef;

pub(crate) use edit::Edit;
use part::Part;

/// Timeout of a connection to the node behind the proxy.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Place of a cut in the next response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The client gets nothing of the response.
    Before,
    /// The client gets the first half of its data.
    Middle,
    /// The client gets all of its data.
    After,
}

impl Cut {
    pub(crate) const ALL: [Cut; 3] = [Cut::Before, Cut::Middle, Cut::After];
}

/// End of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The proxy closes them.
    Close,
    /// The proxy resets them, so that the client may lose bytes that it has not read.
    Reset,
}

/// A proxy on a port of its own. Dropping it ends its connections.
#[derive(Debug)]
pub(crate) struct Proxy {
    listen: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    node: SocketAddr,
    /// Whether the proxy reads the responses of the node.
    reads: bool,
    state: Mutex<State>,
    /// Notified when responses are no longer held back, and when connections end.
    resumed: Condvar,
    stopping: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    armed: Option<Cut>,
    cuts: u64,
    /// Change of the next responses, and the number of them.
    edit: Option<(Edit, u64)>,
    edits: u64,
    holds: bool,
    connections: Vec<Arc<Connection>>,
}

/// A connection of a client, with the connection to the node for it. Both are closed when it is dropped.
#[derive(Debug)]
struct Connection {
    client: TcpStream,
    node: TcpStream,
    /// Whether [`Proxy::end_all`] ended it.
    is_ended: AtomicBool,
}

impl Proxy {
    /// Starts a proxy at `listen` in front of the node at `node`.
    pub(crate) fn start(listen: SocketAddr, node: SocketAddr) -> Proxy {
        Proxy::start_by(listen, node, true)
    }

    /// Starts a proxy at a free port of 127.0.0.1 that only forwards.
    pub(crate) fn forward(node: SocketAddr) -> Proxy {
        Proxy::start_by((Ipv4Addr::LOCALHOST, 0).into(), node, false)
    }

    fn start_by(listen: SocketAddr, node: SocketAddr, reads: bool) -> Proxy {
        let listener = TcpListener::bind(listen).unwrap();
        let listen = listener.local_addr().unwrap();
        let (state, resumed) = (Mutex::new(State::default()), Condvar::new());
        let shared = Arc::new(Shared { node, reads, state, resumed, stopping: AtomicBool::new(false) });
        let accepts = shared.clone();
        let acceptor = std::thread::spawn(move || accepts.accept(&listener));
        Proxy { listen, shared, acceptor: Some(acceptor) }
    }

    /// Returns the address of the proxy.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.listen
    }

    /// Returns the number of open connections.
    pub(crate) fn connections(&self) -> usize {
        let state = self.shared.state.lock();
        state.connections.iter().filter(|connection| !connection.is_ended.load(Ordering::Relaxed)).count()
    }

    /// Cuts the connection of the next response.
    pub(crate) fn cut_next(&self, cut: Cut) {
        self.shared.state.lock().armed = Some(cut);
    }

    /// Withdraws a cut that was not made.
    pub(crate) fn disarm(&self) {
        self.shared.state.lock().armed = None;
    }

    /// Returns the number of cuts.
    pub(crate) fn cuts(&self) -> u64 {
        self.shared.state.lock().cuts
    }

    /// Changes the next `responses` responses that are a whole message.
    pub(crate) fn edit_next(&self, edit: Edit, responses: u64) {
        self.shared.state.lock().edit = Some((edit, responses));
    }

    /// Returns the number of changed responses.
    pub(crate) fn edits(&self) -> u64 {
        self.shared.state.lock().edits
    }

    /// Holds responses back, or lets them pass again.
    pub(crate) fn hold(&self, holds: bool) {
        self.shared.state.lock().holds = holds;
        self.shared.resumed.notify_all();
    }

    /// Ends all connections. Responses that are held back are lost.
    pub(crate) fn end_all(&self, end: End) {
        let mut state = self.shared.state.lock();
        state.connections.drain(..).for_each(|connection| connection.end(end));
        self.shared.resumed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        // The acceptor looks at the flag after the next connection.
        let _ = TcpStream::connect_timeout(&self.listen, CONNECT_TIMEOUT);
        self.hold(false);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

impl Connection {
    fn end(&self, end: End) {
        self.is_ended.store(true, Ordering::Relaxed);
        let _ = self.node.shutdown(Shutdown::Both);
        if end == End::Close {
            let _ = self.client.shutdown(Shutdown::Both);
        } else {
            // A socket that does not linger is reset when it is closed. A shutdown for writing would send a FIN.
            let _ = SockRef::from(&self.client).set_linger(Some(Duration::ZERO));
            let _ = self.client.shutdown(Shutdown::Read);
        }
    }

    /// Ends both connections after one direction has ended.
    fn finish(&self) {
        if !self.is_ended.load(Ordering::Relaxed) {
            self.end(End::Close);
        }
    }
}

impl Shared {
    fn accept(self: &Arc<Shared>, listener: &TcpListener) {
        let mut pumps = Vec::new();
        for client in listener.incoming() {
            if self.stopping.load(Ordering::Relaxed) {
                break;
            }
            let Ok(client) = client else { continue };
            // If the node does not listen, the connection of the client ends here.
            let Ok(node) = TcpStream::connect_timeout(&self.node, CONNECT_TIMEOUT) else { continue };
            let _ = (client.set_nodelay(true), node.set_nodelay(true));
            let connection = Arc::new(Connection { client, node, is_ended: AtomicBool::new(false) });
            {
                let connections = &mut self.state.lock().connections;
                connections.retain(|connection| !connection.is_ended.load(Ordering::Relaxed));
                connections.push(connection.clone());
            }
            let (of_requests, of_responses, shared) = (connection.clone(), connection, self.clone());
            pumps.push(std::thread::spawn(move || {
                let _ = io::copy(&mut &of_requests.client, &mut &of_requests.node);
                of_requests.finish();
            }));
            pumps.push(std::thread::spawn(move || {
                let _ = shared.respond(&of_responses);
                of_responses.finish();
            }));
        }
        let connections = std::mem::take(&mut self.state.lock().connections);
        connections.iter().for_each(|connection| connection.end(End::Close));
        drop(connections);
        for pump in pumps {
            let _ = pump.join();
        }
    }

    /// Forwards the bytes of the node until the connection ends or is cut.
    fn respond(&self, connection: &Connection) -> io::Result<()> {
        let (mut node, mut client) = (&connection.node, &connection.client);
        if !self.reads {
            return io::copy(&mut node, &mut client).map(drop);
        }
        let mut node = BufReader::new(node);
        loop {
            let mut part = Part::read(&mut node)?;
            let cut = {
                let is_ended = || connection.is_ended.load(Ordering::Relaxed);
                let mut state = self.state.lock();
                self.resumed.wait_while(&mut state, |state| state.holds && !is_ended());
                if is_ended() {
                    return Ok(());
                }
                let cut = if part.is_response() { state.armed.take() } else { None };
                state.cuts += u64::from(cut.is_some());
                if let Some((edit, left)) = state.edit.filter(|(edit, left)| *left > 0 && edit.apply(&mut part)) {
                    state.edit = Some((edit, left - 1));
                    state.edits += 1;
                }
                cut
            };
            let (head, data) = part.bytes();
            let passes = match cut {
                None | Some(Cut::After) => data,
                Some(Cut::Middle) => &data[..data.len() / 2],
                Some(Cut::Before) => &[],
            };
            if cut != Some(Cut::Before) {
                client.write_all(&[head, passes].concat())?;
            }
            if cut.is_some() {
                return Ok(());
            }
        }
    }
}
