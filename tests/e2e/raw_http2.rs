//! An HTTP/2 client that costs almost no CPU, and can do things that a library prevents: leave responses unread, end
//! requests half-way, cancel requests at any time. Requests are encoded by hand; responses are only distinguished by
//! their frames.

use std::io;

/// Types of the frames that the client sends and distinguishes.
pub(crate) mod frame {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const WINDOW_UPDATE: u8 = 8;
}

/// Length of a frame's header.
const HEAD: usize = 9;

/// Flags of frames. The flag 0x1 is an acknowledgement in SETTINGS and PING.
const END_STREAM: u8 = 0x1;
const ACK: u8 = 0x1;
const END_HEADERS: u8 = 0x4;

/// Identifiers of settings.
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_CONCURRENT_STREAMS: u16 = 3;

/// The error code of a cancelled request.
const CANCEL: u32 = 8;

/// Largest payload of a frame that every server accepts.
pub(crate) const MAX_PAYLOAD: usize = 16 << 10;

/// Largest window.
pub(crate) const OPEN_WINDOW: u32 = (1 << 31) - 1;

/// The requests of one connection.
pub(crate) struct Requests {
    path: &'static str,
    timeout: String,
    next_stream: u32,
}

impl Requests {
    /// Creates requests to a method, each with this value of `grpc-timeout`.
    pub(crate) fn new(path: &'static str, timeout: &str) -> Requests {
        Requests { path, timeout: timeout.to_owned(), next_stream: 1 }
    }

    /// Returns the start of a connection. Responses are limited to `window` bytes each, and to 64 KiB together unless
    /// the window is [`OPEN_WINDOW`].
    pub(crate) fn open(window: u32) -> Vec<u8> {
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        let mut settings = INITIAL_WINDOW_SIZE.to_be_bytes().to_vec();
        settings.extend(window.to_be_bytes());
        put(&mut bytes, frame::SETTINGS, 0, 0, &settings);
        if window == OPEN_WINDOW {
            put(&mut bytes, frame::WINDOW_UPDATE, 0, 0, &(OPEN_WINDOW - 65_535).to_be_bytes());
        }
        bytes
    }

    /// Appends the head of a request; returns its stream.
    pub(crate) fn head(&mut self, bytes: &mut Vec<u8>) -> u32 {
        let stream = self.next_stream;
        self.next_stream += 2;
        // POST and http are in the static table. The first request adds its other headers to the dynamic table, the
        // last header at 62, and later requests index them, as with any library.
        let mut block = vec![0x83, 0x86];
        if stream == 1 {
            literal(&mut block, Name::Indexed(4), self.path);
            literal(&mut block, Name::Indexed(1), "localhost");
            literal(&mut block, Name::Indexed(31), "application/grpc");
            literal(&mut block, Name::New("te"), "trailers");
            literal(&mut block, Name::New("grpc-timeout"), &self.timeout);
        } else {
            block.extend((62..=66).rev().map(|index| 0x80 | index));
        }
        put(bytes, frame::HEADERS, END_HEADERS, stream, &block);
        stream
    }

    /// Appends a whole request; returns its stream.
    pub(crate) fn whole(&mut self, bytes: &mut Vec<u8>, message: &[u8]) -> u32 {
        let stream = self.head(bytes);
        let body = grpc_message(message);
        let mut parts = body.chunks(MAX_PAYLOAD).peekable();
        while let Some(part) = parts.next() {
            put(bytes, frame::DATA, if parts.peek().is_none() { END_STREAM } else { 0 }, stream, part);
        }
        stream
    }

    /// Appends the cancellation of a request.
    pub(crate) fn cancel(bytes: &mut Vec<u8>, stream: u32) {
        put(bytes, frame::RST_STREAM, 0, stream, &CANCEL.to_be_bytes());
    }
}

/// Returns a message with its length, as gRPC frames it.
pub(crate) fn grpc_message(message: &[u8]) -> Vec<u8> {
    let mut framed = vec![0];
    framed.extend((message.len() as u32).to_be_bytes());
    framed.extend(message);
    framed
}

/// An event that a caller needs of the frames that a server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A part of a message.
    Message(u32),
    /// The end of a response.
    End(u32),
    /// A request was reset, or ended without a message.
    Refused(u32),
    /// The number of concurrent requests that the server accepts.
    Streams(u32),
    /// The number of bytes that the server accepts in each new request.
    Window(u32),
    /// The number of additional bytes that the server accepts in a request, or on the connection (0).
    More(u32, u32),
    /// The server closes the connection.
    GoAway,
}

/// Decodes frames from a server, across reads.
#[derive(Default)]
pub(crate) struct Decoder {
    unread: Vec<u8>,
}

impl Decoder {
    /// Decodes the frames of received bytes; appends the responses that HTTP/2 requires to `send`.
    pub(crate) fn decode(&mut self, received: &[u8], send: &mut Vec<u8>, mut event: impl FnMut(Event)) {
        self.unread.extend_from_slice(received);
        let mut at = 0;
        while let Some(head) = self.unread.get(at..at + HEAD) {
            let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
            let (kind, flags) = (head[3], head[4]);
            let stream = u32::from_be_bytes(head[5..9].try_into().unwrap());
            let Some(payload) = self.unread.get(at + HEAD..at + HEAD + length) else { break };
            at += HEAD + length;
            match kind {
                frame::DATA if length > 0 => event(Event::Message(stream)),
                frame::HEADERS if flags & END_STREAM != 0 => event(Event::End(stream)),
                frame::RST_STREAM => event(Event::Refused(stream)),
                frame::SETTINGS if flags & ACK == 0 => {
                    for setting in payload.chunks_exact(6) {
                        let value = u32::from_be_bytes(setting[2..].try_into().unwrap());
                        match u16::from_be_bytes(setting[..2].try_into().unwrap()) {
                            MAX_CONCURRENT_STREAMS => event(Event::Streams(value)),
                            INITIAL_WINDOW_SIZE => event(Event::Window(value)),
                            _ => {}
                        }
                    }
                    put(send, frame::SETTINGS, ACK, 0, &[]);
                }
                frame::PING if flags & ACK == 0 => put(send, frame::PING, ACK, 0, payload),
                frame::WINDOW_UPDATE => {
                    event(Event::More(stream, u32::from_be_bytes(payload.try_into().unwrap())));
                }
                frame::GOAWAY => event(Event::GoAway),
                _ => {}
            }
        }
        self.unread.drain(..at);
    }
}

enum Name {
    Indexed(u8),
    New(&'static str),
}

/// Appends a header that is added to the dynamic table.
fn literal(block: &mut Vec<u8>, name: Name, value: &str) {
    let text = |block: &mut Vec<u8>, text: &str| {
        assert!(text.len() < 127, "a length of one byte");
        block.push(text.len() as u8);
        block.extend(text.as_bytes());
    };
    match name {
        Name::Indexed(index) => block.push(0x40 | index),
        Name::New(name) => {
            block.push(0x40);
            text(block, name);
        }
    }
    text(block, value);
}

fn put(bytes: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    bytes.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend_from_slice(payload);
}

/// Returns whether a socket just has no more space or bytes at this time.
pub(crate) fn is_blocked(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// Appends a number as protobuf encodes it.
pub(crate) fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}
