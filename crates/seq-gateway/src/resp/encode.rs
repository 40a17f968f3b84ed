//! Replies as bytes, in either version of the protocol, appended to one buffer.

use std::fmt::{self, Write};

/// Longest part of what a caller sent that an error repeats: enough to find it by.
const MAX_REPEATED_BYTES: usize = 64;

/// The replies of one batch, and how they are spelled.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    bytes: Vec<u8>,
    /// Whether the client asked for version 3.
    pub(crate) resp3: bool,
}

impl Replies {
    /// As bytes, in the order in which they were given.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets what was sent. Keeps so much memory for the next batch and no more.
    pub(crate) fn clear(&mut self, keep: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(keep);
    }

    /// An integer.
    #[inline]
    pub(crate) fn integer(&mut self, value: u64) {
        self.line(b':', value);
    }

    /// An integer that may be below 0.
    pub(crate) fn signed(&mut self, value: i64) {
        self.bytes.push(b':');
        self.bytes.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        self.end();
    }

    /// A fixed answer such as OK.
    pub(crate) fn simple(&mut self, text: &str) {
        self.bytes.push(b'+');
        self.bytes.extend_from_slice(text.as_bytes());
        self.end();
    }

    /// A string of any bytes.
    pub(crate) fn bulk(&mut self, value: &[u8]) {
        self.line(b'$', value.len() as u64);
        self.bytes.extend_from_slice(value);
        self.end();
    }

    /// A number as a string, which is how Redis tells values; nil where there is none.
    pub(crate) fn value(&mut self, value: Option<u64>) {
        match value {
            Some(value) => self.bulk(itoa::Buffer::new().format(value).as_bytes()),
            None => self.nil(),
        }
    }

    /// No value.
    pub(crate) fn nil(&mut self) {
        self.bytes.extend_from_slice(if self.resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// So many replies follow as one.
    pub(crate) fn array(&mut self, items: usize) {
        self.line(b'*', items as u64);
    }

    /// So many pairs of replies follow as one.
    pub(crate) fn map(&mut self, pairs: usize) {
        if self.resp3 { self.line(b'%', pairs as u64) } else { self.array(pairs * 2) }
    }

    /// An error: its kind in capitals, by which clients decide what to do, and what is wrong for people.
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
        // Room is looked for once.
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

/// Text that cannot end the line it stands in.
struct OneLine<'a>(&'a mut Vec<u8>);

impl Write for OneLine<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend(text.bytes().map(|byte| if byte.is_ascii_control() { b' ' } else { byte }));
        Ok(())
    }
}

/// What a caller sent, as an error repeats it.
pub(crate) struct Repeated<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Repeated<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = &self.0[..self.0.len().min(MAX_REPEATED_BYTES)];
        let more = if part.len() < self.0.len() { "..." } else { "" };
        write!(f, "'{}{more}'", part.escape_ascii())
    }
}
