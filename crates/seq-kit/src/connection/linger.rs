//! The end of a connection to which the peer may still send.
//!
//! A socket that is closed while received bytes are unread resets its connection. The peer may then fail in its next
//! write, before it reads the last bytes that were sent to it: a client of HTTP/2, for example, fails all requests of
//! the connection, although the server had responded to each of them. So the server closes its direction first, and
//! discards the bytes that arrive until the peer closes the other direction (RFC 9112, section 9.6).

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// Time after which a connection is closed whose peer does not close it. A peer in another region has done so by then.
const LONGEST: Duration = Duration::from_millis(250);

/// Wait for the peer of a socket that was shut down for writing.
pub(super) struct Linger(Pin<Box<Sleep>>);

impl Linger {
    /// Begins to wait.
    pub(super) fn start() -> Linger {
        Linger(Box::pin(sleep(LONGEST)))
    }

    /// Discards the bytes that the peer sends, until the peer closes the connection, the connection fails, or
    /// [`LONGEST`] has passed.
    pub(super) fn poll(&mut self, stream: &mut TcpStream, cx: &mut Context<'_>) -> Poll<()> {
        let mut bytes = [0; 4_096];
        while self.0.as_mut().poll(cx).is_pending() {
            let mut discarded = ReadBuf::new(&mut bytes);
            let read: io::Result<()> = ready!(Pin::new(&mut *stream).poll_read(cx, &mut discarded));
            if read.is_err() || discarded.filled().is_empty() {
                break;
            }
        }
        Poll::Ready(())
    }
}
