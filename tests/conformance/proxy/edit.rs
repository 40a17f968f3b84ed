//! Changes of a response: an HTTP/2 frame with one gRPC message.

/// Bytes of the header of an HTTP/2 frame, and of the header of a gRPC message.
pub(super) const HEADER: usize = 9;
const PREFIX: usize = 5;

/// The type of frames with data, and the flag of frames with padding.
const DATA: u8 = 0;
const PADDED: u8 = 8;

/// Most bytes of a frame that every client accepts.
const MAX_FRAME: usize = 16_384;

/// Fields that no release has: field 2,046 is the number 1, field 2,047 is the text `new`.
const FIELDS: &[u8] = &[0xf0, 0x7f, 1, 0xfa, 0x7f, 3, b'n', b'e', b'w'];

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
    /// Changes a frame; returns whether it is one with a whole message.
    pub(super) fn apply(self, frame: &mut Vec<u8>) -> bool {
        let is_whole = is_response(frame)
            && frame[4] & PADDED == 0
            && frame.len() > HEADER + PREFIX
            && stated(frame) == frame.len() - HEADER - PREFIX
            && frame.len() + FIELDS.len() <= MAX_FRAME;
        if !is_whole {
            return false;
        }
        match self {
            Edit::Fields => frame.extend_from_slice(FIELDS),
            Edit::Truncate => drop(frame.pop()),
            Edit::Oversize => {}
        }
        let length = frame.len() - HEADER;
        let of_message = if self == Edit::Oversize { i32::MAX as usize } else { length - PREFIX };
        frame[..3].copy_from_slice(&(length as u32).to_be_bytes()[1..]);
        frame[HEADER + 1..HEADER + PREFIX].copy_from_slice(&(of_message as u32).to_be_bytes());
        true
    }
}

/// Returns the length after the header of a frame.
pub(super) fn length(frame: &[u8]) -> usize {
    usize::from(frame[0]) << 16 | usize::from(frame[1]) << 8 | usize::from(frame[2])
}

/// Returns whether a frame has data of a response.
pub(super) fn is_response(frame: &[u8]) -> bool {
    let has_stream = frame[5..HEADER].iter().any(|byte| *byte != 0);
    frame[3] == DATA && has_stream && frame.len() > HEADER
}

/// Returns the length that the header of the gRPC message in a frame states.
fn stated(frame: &[u8]) -> usize {
    frame[HEADER + 1..HEADER + PREFIX].iter().fold(0, |length, byte| length << 8 | usize::from(*byte))
}
