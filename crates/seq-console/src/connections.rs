//! Connections of browsers, within limits. Any process of the machine can connect to the console, even a process of
//! another user, so no limit depends on a login.
//!
//! A connection waits until its first request arrives. If all places are taken, the oldest connection that waits gives
//! its place to the next connection, so connections without a request keep no browser out. The response to a refused
//! request, or to a request without a login, ends its connection (`server.rs`), so such requests keep no browser out
//! either.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Sleep, sleep};

/// Open connections: a browser has up to six to a host, and a stream of updates for each page.
const MAX_CONNECTIONS: usize = 128;

/// Time for the head of a request, from the beginning of the connection or from the end of the response before. So it
/// is also the time for which a connection may be idle. Browsers send a head at once, and connect again if an idle
/// connection was closed.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for which a peer may read nothing of a response that does not fit into the buffers of the system.
const WRITE_TIMEOUT: Duration = Duration::from_secs(15);

/// Bytes of the head of a request. A browser sends the cookies of all servers of the host, on any port, so it is larger
/// than an address with its parameters.
const MAX_HEAD: usize = 65_536;

/// Pause after a failed accept, as without a file descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves connections of a listener, without an end. Dropping the future closes all of them.
pub(crate) async fn serve(listener: TcpListener, router: Router) -> Infallible {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_header_size(MAX_HEAD);
    let (mut open, waiting) = (JoinSet::new(), Waiting::default());
    for id in 0.. {
        let stream = accept(&listener, &mut open).await;
        while open.len() >= MAX_CONNECTIONS {
            waiting.end_oldest();
            open.join_next().await;
        }
        let (builder, router) = (builder.clone(), router.clone());
        let place = Place { id, waiting: waiting.clone() };
        // The connection cannot remove its entry before it has one.
        let mut entries = waiting.0.lock();
        let handle = open.spawn(async move {
            let service = TowerToHyperService::new(router);
            let service = service_fn(|request: Request<Incoming>| {
                place.end();
                service.call(request)
            });
            // A connection that fails concerns only its browser, which connects again.
            drop(builder.serve_connection(TokioIo::new(Paced { stream, stall: None }), service).await);
        });
        entries.insert(id, handle);
    }
    unreachable!("ids of 64 bits do not end")
}

/// Accepts the next connection. In the meantime, removes connections that have ended.
async fn accept(listener: &TcpListener, open: &mut JoinSet<()>) -> TcpStream {
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => return stream,
                Err(_) => sleep(ACCEPT_PAUSE).await,
            },
            Some(_) = open.join_next() => {}
        }
    }
}

/// The connections that have sent no request yet, the oldest first.
#[derive(Clone, Default)]
struct Waiting(Arc<Mutex<BTreeMap<u64, AbortHandle>>>);

impl Waiting {
    /// Ends the oldest connection that waits, if there is one.
    fn end_oldest(&self) {
        if let Some((_, connection)) = self.0.lock().pop_first() {
            connection.abort();
        }
    }
}

/// The place of a connection among the waiting connections. Dropping the place removes the connection from them.
struct Place {
    id: u64,
    waiting: Waiting,
}

impl Place {
    /// Records that the connection has sent a request.
    fn end(&self) {
        self.waiting.0.lock().remove(&self.id);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.end();
    }
}

/// A connection that fails if its peer reads nothing for [`WRITE_TIMEOUT`].
struct Paced {
    stream: TcpStream,
    /// Timer of the write that waits.
    stall: Option<Pin<Box<Sleep>>>,
}

impl AsyncRead for Paced {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Paced {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        if written.is_ready() {
            self.stall = None;
            return written;
        }
        ready!(self.stall.get_or_insert_with(|| Box::pin(sleep(WRITE_TIMEOUT))).as_mut().poll(cx));
        Poll::Ready(Err(std::io::ErrorKind::TimedOut.into()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::Instant;

    use super::*;

    /// Bytes of a response that fills every buffer of a connection.
    const LARGE: usize = 64 << 20;

    /// A server with the limits, which ends when this value is dropped.
    struct Served {
        addr: SocketAddr,
        _task: JoinSet<()>,
    }

    impl Served {
        async fn start() -> Served {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            let addr = listener.local_addr().expect("an address");
            let large = get(|| async { vec![0_u8; LARGE] });
            let router = Router::new().route("/", get(|| async { "page" })).route("/large", large);
            let mut task = JoinSet::new();
            task.spawn(async move { match serve(listener, router).await {} });
            Served { addr, _task: task }
        }

        async fn connect(&self) -> TcpStream {
            TcpStream::connect(self.addr).await.expect("a connection")
        }
    }

    async fn send(stream: &mut TcpStream, path: &str) {
        stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.expect("sent");
    }

    /// Reads a response with the body `page`.
    async fn read_page(stream: &mut TcpStream) {
        let mut text = String::new();
        while !text.ends_with("page") {
            let mut bytes = [0; 1_024];
            let count = stream.read(&mut bytes).await.expect("a response");
            assert!(count > 0, "the connection ended: {text:?}");
            text += &String::from_utf8_lossy(&bytes[..count]);
        }
    }

    /// Waits until the server ends the connection, and returns the time that it took.
    async fn end_of(stream: &mut TcpStream) -> Duration {
        let begin = Instant::now();
        let mut rest = Vec::new();
        // The end may be a reset.
        drop(stream.read_to_end(&mut rest).await);
        begin.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_whole_head_ends() {
        let served = Served::start().await;
        let (mut silent, mut slow) = (served.connect().await, served.connect().await);
        slow.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nx: ").await.expect("sent");
        let begin = Instant::now();
        tokio::join!(end_of(&mut silent), end_of(&mut slow));
        assert!(begin.elapsed() >= HEAD_TIMEOUT && begin.elapsed() < 2 * HEAD_TIMEOUT, "{:?}", begin.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_ends_after_its_last_response() {
        let served = Served::start().await;
        let mut stream = served.connect().await;
        for _ in 0..2 {
            tokio::time::advance(HEAD_TIMEOUT / 2).await;
            send(&mut stream, "/").await;
            read_page(&mut stream).await;
        }
        let idle = end_of(&mut stream).await;
        assert!(idle >= HEAD_TIMEOUT && idle < 2 * HEAD_TIMEOUT, "{idle:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn connections_without_a_request_keep_no_browser_out() {
        let served = Served::start().await;
        let mut browser = served.connect().await;
        send(&mut browser, "/").await;
        read_page(&mut browser).await;
        let mut silent = Vec::new();
        for _ in 0..2 * MAX_CONNECTIONS {
            silent.push(served.connect().await);
        }
        let begin = Instant::now();
        let mut next = served.connect().await;
        send(&mut next, "/").await;
        read_page(&mut next).await;
        send(&mut browser, "/").await;
        read_page(&mut browser).await;
        assert_eq!(begin.elapsed(), Duration::ZERO, "no timeout was awaited");
        assert_eq!(end_of(&mut silent[0]).await, Duration::ZERO, "the oldest connection gave its place");
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_nothing_ends_its_connection() {
        let served = Served::start().await;
        let mut stream = served.connect().await;
        send(&mut stream, "/large").await;
        // The first bytes have arrived, so the rest waits for the peer.
        assert!(stream.peek(&mut [0; 1]).await.expect("a response") > 0);
        tokio::time::sleep(WRITE_TIMEOUT + Duration::from_secs(1)).await;
        let mut rest = Vec::new();
        drop(stream.read_to_end(&mut rest).await);
        assert!(rest.len() < LARGE, "{} bytes arrived", rest.len());
    }
}
