//! A late thread lets callers have fewer concurrent requests, and as many as before once it is in time again.

use std::time::Duration;

use seq_proto::v1;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::twin::TestServer;

/// Timeout of any wait, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Longer than a thread may be late.
const LATE: Duration = Duration::from_millis(300);

/// Time between two requests.
const PAUSE: Duration = Duration::from_millis(20);

/// Length of a frame's header, and of one setting.
const HEAD: usize = 9;
const SETTING: usize = 6;

/// The types of frames, their flag of an acknowledgement, and the setting of the limit.
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const ACK: u8 = 1;
const MAX_CONCURRENT_STREAMS: [u8; 2] = [0, 3];

/// A connection whose settings are read frame by frame.
struct Peer {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Peer {
    async fn connect(server: &TestServer) -> Peer {
        let mut stream = TcpStream::connect(server.addr).await.unwrap();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        stream.write_all(&[0, 0, 0, SETTINGS, 0, 0, 0, 0, 0]).await.unwrap();
        Peer { stream, unread: Vec::new() }
    }

    /// Sends a ping, so that the server has something to send.
    async fn ping(&mut self) {
        self.stream.write_all(&[0, 0, 8, PING, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]).await.unwrap();
    }

    /// Receives until the server states a limit; acknowledges it, as every setting. Cancel safe.
    async fn stated(&mut self) -> u32 {
        loop {
            while let Some(frame) = self.frame() {
                if frame[3] != SETTINGS || frame[4] & ACK != 0 {
                    continue;
                }
                let acknowledgement = [0, 0, 0, SETTINGS, ACK, 0, 0, 0, 0];
                assert_eq!(self.stream.try_write(&acknowledgement).unwrap(), HEAD);
                let mut settings = frame[HEAD..].chunks(SETTING);
                if let Some(limit) = settings.find(|setting| setting[..2] == MAX_CONCURRENT_STREAMS) {
                    return u32::from_be_bytes(limit[2..].try_into().unwrap());
                }
            }
            assert_ne!(self.stream.read_buf(&mut self.unread).await.unwrap(), 0, "the server closed the connection");
        }
    }

    fn frame(&mut self) -> Option<Vec<u8>> {
        let head = self.unread.get(..HEAD)?;
        let end = HEAD + (usize::from(head[1]) << 8 | usize::from(head[2]));
        (self.unread.len() >= end).then(|| self.unread.drain(..end).collect())
    }
}

#[tokio::test]
async fn a_thread_that_is_late_states_a_lower_limit_and_serves_on() {
    let server = TestServer::open().await;
    let next = async || {
        let request = v1::NextRequest { uid: Some(1), count: 1, ..v1::NextRequest::default() };
        tokio::time::timeout(TIMEOUT, server.client().next(request)).await.expect("a response").unwrap()
    };
    next().await;
    let mut peer = Peer::connect(&server).await;
    let most = tokio::time::timeout(TIMEOUT, peer.stated()).await.expect("the first limit");
    #[expect(clippy::disallowed_methods, reason = "a thread that is held up is what is tested")]
    let hold_up = || std::thread::sleep(LATE);
    let mut limit_after = async |late: bool| {
        let exchange = async {
            loop {
                if late {
                    // Hold up the server, which runs on the thread of this test.
                    hold_up();
                }
                next().await;
                peer.ping().await;
                if let Ok(limit) = tokio::time::timeout(PAUSE, peer.stated()).await {
                    return limit;
                }
            }
        };
        tokio::time::timeout(TIMEOUT, exchange).await.expect("a limit")
    };
    let lowered = limit_after(true).await;
    assert!(lowered < most, "{lowered} of {most}");
    while limit_after(false).await < most {}
    next().await;
}
