//! Encodes replies into one buffer, in version 2 or 3 of the protocol.

use std::fmt::{self, Write};

/// Limit on the bytes of a request that the text of an error repeats. They are enough to find the request.
const MAX_EXCERPT_BYTES: usize = 64;

/// The encoded replies of one batch.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    bytes: Vec<u8>,
    /// Whether the client requested version 3.
    pub(crate) resp3: bool,
}

impl Replies {
    /// Returns the encoded bytes, in order.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Removes the replies after they have been sent. Keeps at most `keep` bytes of the buffer's capacity for the next
    /// batch.
    pub(crate) fn clear(&mut self, keep: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(keep);
    }

    /// Encodes an integer.
    #[inline]
    pub(crate) fn integer(&mut self, value: u64) {
        self.line(b':', value);
    }

    /// Encodes an integer that may be negative.
    pub(crate) fn signed(&mut self, value: i64) {
        self.bytes.push(b':');
        self.bytes.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        self.end();
    }

    /// Encodes a simple string such as OK.
    pub(crate) fn simple(&mut self, text: &str) {
        self.bytes.push(b'+');
        self.bytes.extend_from_slice(text.as_bytes());
        self.end();
    }

    /// Encodes a bulk string.
    pub(crate) fn bulk(&mut self, value: &[u8]) {
        self.line(b'$', value.len() as u64);
        self.bytes.extend_from_slice(value);
        self.end();
    }

    /// Encodes a number as a bulk string, because Redis encodes values in this form. Encodes `None` as nil.
    pub(crate) fn value(&mut self, value: Option<u64>) {
        match value {
            Some(value) => self.bulk(itoa::Buffer::new().format(value).as_bytes()),
            None => self.nil(),
        }
    }

    /// Encodes the nil reply.
    pub(crate) fn nil(&mut self) {
        self.bytes.extend_from_slice(if self.resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// Encodes a text as a verbatim string, which is a bulk string in version 2.
    pub(crate) fn verbatim(&mut self, text: &str) {
        const FORMAT: &str = "txt:";
        if self.resp3 {
            self.line(b'=', (FORMAT.len() + text.len()) as u64);
            self.bytes.extend_from_slice(FORMAT.as_bytes());
            self.bytes.extend_from_slice(text.as_bytes());
            self.end();
        } else {
            self.bulk(text.as_bytes());
        }
    }

    /// Encodes the header of an array of `items` replies.
    pub(crate) fn array(&mut self, items: usize) {
        self.line(b'*', items as u64);
    }

    /// Encodes the header of a map of `pairs` pairs of replies.
    pub(crate) fn map(&mut self, pairs: usize) {
        if self.resp3 { self.line(b'%', pairs as u64) } else { self.array(pairs * 2) }
    }

    /// Encodes an error. `kind` is the kind of the error in capitals, by which clients decide whether to retry. `text`
    /// is for humans.
    pub(crate) fn error(&mut self, kind: &str, text: fmt::Arguments<'_>) {
        self.bytes.push(b'-');
        self.bytes.extend_from_slice(kind.as_bytes());
        self.bytes.push(b' ');
        let _ = OneLine(&mut self.bytes).write_fmt(text);
        self.end();
    }

    #[inline]
    fn line(&mut self, kind: u8, value: u64) {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(value).as_bytes();
        // The capacity is checked only once for the whole line.
        self.bytes.reserve(digits.len() + 3);
        self.bytes.push(kind);
        self.bytes.extend_from_slice(digits);
        self.end();
    }

    #[inline]
    fn end(&mut self) {
        self.bytes.extend_from_slice(b"\r\n");
    }
}

/// A writer that replaces control characters, so that a text stays on one line.
struct OneLine<'a>(&'a mut Vec<u8>);

impl Write for OneLine<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend(text.bytes().map(|byte| if byte.is_ascii_control() { b' ' } else { byte }));
        Ok(())
    }
}

/// Bytes of a request, escaped and shortened for an error text.
pub(crate) struct Excerpt<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = &self.0[..self.0.len().min(MAX_EXCERPT_BYTES)];
        let more = if part.len() < self.0.len() { "..." } else { "" };
        write!(f, "'{}{more}'", part.escape_ascii())
    }
}
