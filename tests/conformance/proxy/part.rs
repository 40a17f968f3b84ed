//! A part of the bytes of a node: a frame of HTTP/2, or a response of HTTP/1.1.

use std::io::{self, BufRead, Read as _};

/// Bytes of the header of a frame. The status line of HTTP/1.1 begins with as many.
pub(super) const HEADER: usize = 9;
const HTTP_1: &[u8; HEADER] = b"HTTP/1.1 ";

/// The type of frames with data.
const DATA: u8 = 0;

/// Header of the length of a response.
const LENGTH: &str = "content-length: ";

/// Limit on the header of a response, in bytes. Nodes send some hundred.
const MAX_HEAD: u64 = 16_384;

/// A part of the bytes of a node.
#[derive(Debug)]
pub(super) enum Part {
    /// A frame: its header, and its data.
    Frame([u8; HEADER], Vec<u8>),
    /// A response: status line and headers with the empty line after them, and the body.
    Response(String, Vec<u8>),
}

impl Part {
    /// Reads the next part.
    pub(super) fn read(node: &mut impl BufRead) -> io::Result<Part> {
        let mut header = [0; HEADER];
        node.read_exact(&mut header)?;
        if header != *HTTP_1 {
            let mut data = vec![0; usize::from(header[0]) << 16 | usize::from(header[1]) << 8 | usize::from(header[2])];
            node.read_exact(&mut data)?;
            return Ok(Part::Frame(header, data));
        }
        let mut head = String::from_utf8_lossy(HTTP_1).into_owned();
        let mut limited = node.take(MAX_HEAD);
        while !head.ends_with("\r\n\r\n") {
            if limited.read_line(&mut head)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix(LENGTH)?.parse().ok());
        // Every response of a node states its length.
        let mut body = vec![0; length.ok_or(io::ErrorKind::InvalidData)?];
        node.read_exact(&mut body)?;
        Ok(Part::Response(head, body))
    }

    /// Returns whether this is data of a response.
    pub(super) fn is_response(&self) -> bool {
        match self {
            Part::Frame(header, data) => {
                header[3] == DATA && header[5..].iter().any(|byte| *byte != 0) && !data.is_empty()
            }
            Part::Response(_, body) => !body.is_empty(),
        }
    }

    /// Returns the bytes in front of the data, and the data.
    pub(super) fn bytes(&self) -> (&[u8], &[u8]) {
        match self {
            Part::Frame(header, data) => (header, data),
            Part::Response(head, body) => (head.as_bytes(), body),
        }
    }

    /// Changes the length that the part states.
    pub(super) fn state(&mut self, length: usize) {
        match self {
            Part::Frame(header, _) => header[..3].copy_from_slice(&(length as u32).to_be_bytes()[1..]),
            Part::Response(head, _) => {
                let lines = head.lines().map(|line| {
                    let is_length = line.to_ascii_lowercase().starts_with(LENGTH);
                    if is_length { format!("{LENGTH}{length}\r\n") } else { format!("{line}\r\n") }
                });
                *head = lines.collect();
            }
        }
    }
}
