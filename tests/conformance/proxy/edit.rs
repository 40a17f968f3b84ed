//! Changes of a response with one whole message: of gRPC in a frame of HTTP/2, or of the Connect protocol in HTTP/1.1.

use super::part::Part;

/// Bytes in front of a message of gRPC.
const PREFIX: usize = 5;

/// The flag of frames with padding.
const PADDED: u8 = 8;

/// Most bytes of a frame that every client accepts.
const MAX_FRAME: usize = 16_384;

/// Fields that no release has: field 2,046 is the number 1, field 2,047 is the text `new`.
const FIELDS: &[u8] = &[0xf0, 0x7f, 1, 0xfa, 0x7f, 3, b'n', b'e', b'w'];

/// A length that no client accepts.
const OVERSIZE: usize = i32::MAX as usize;

/// Beginning of a response with a message.
const SUCCESS: &str = "HTTP/1.1 200";

/// A change of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edit {
    /// The message has further fields, as of a later release.
    Fields,
    /// The message lacks its last byte.
    Truncate,
    /// The message states to have 2 GiB.
    Oversize,
}

impl Edit {
    /// Changes a part; returns whether it is a response with a whole message.
    pub(super) fn apply(self, part: &mut Part) -> bool {
        if !has_message(part) {
            return false;
        }
        let (Part::Frame(_, data) | Part::Response(_, data)) = part;
        match self {
            Edit::Fields => data.extend_from_slice(FIELDS),
            Edit::Truncate => drop(data.pop()),
            Edit::Oversize => {}
        }
        let length = data.len();
        if let Part::Frame(_, data) = part {
            let of_message = if self == Edit::Oversize { OVERSIZE } else { length - PREFIX };
            data[1..PREFIX].copy_from_slice(&(of_message as u32).to_be_bytes());
            part.state(length);
        } else {
            part.state(if self == Edit::Oversize { OVERSIZE } else { length });
        }
        true
    }
}

/// Returns whether a part is a response with a whole message that is not empty.
fn has_message(part: &Part) -> bool {
    part.is_response()
        && match part {
            Part::Frame(header, data) => {
                let is_small = data.len() + FIELDS.len() <= MAX_FRAME;
                header[4] & PADDED == 0 && data.len() > PREFIX && stated(data) == data.len() - PREFIX && is_small
            }
            Part::Response(head, _) => head.starts_with(SUCCESS),
        }
}

/// Returns the length that a message of gRPC states.
fn stated(data: &[u8]) -> usize {
    data[1..PREFIX].iter().fold(0, |length, byte| length << 8 | usize::from(*byte))
}
