//! Finds where frames begin and end in one direction of an HTTP/2 connection, because an additional frame may be
//! inserted only between two frames.

/// Length of a frame's header: three bytes for the length of the payload, one for the type, one for the flags, and four
/// for the stream's number.
pub(super) const HEAD: usize = 9;

/// Positions of the type and the flags in the header.
const KIND: usize = 3;
const FLAGS: usize = 4;

/// The types of frames that contain a block of headers, and the flag that ends a block. No frame of another kind may be
/// inserted within a block.
const BLOCK: [u8; 3] = [1, 5, 9];
const END_HEADERS: u8 = 4;

/// The position of the connection within a frame.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// Number of bytes of the current frame's header that were followed; [`HEAD`] while the payload is being followed.
    head: usize,
    /// Remaining bytes of the current frame's payload. While the header is being followed, the part of the payload's
    /// length that was found so far.
    payload: usize,
    kind: u8,
    /// Whether a block of headers continues in the next frame.
    has_open_block: bool,
}

impl Frames {
    /// Returns whether an additional frame may be inserted at this position: the last frame is complete, the next frame
    /// has not begun, and the two need not follow each other directly.
    pub(super) fn is_between(&self) -> bool {
        self.head == 0 && !self.has_open_block
    }

    fn flags(&mut self, flags: u8) {
        if BLOCK.contains(&self.kind) {
            self.has_open_block = flags & END_HEADERS == 0;
        }
    }

    /// Continues to follow the frames in `bytes`. For each frame whose type is in these bytes, calls `kind` with the
    /// position of the type in `bytes` and the length of the frame's payload.
    pub(super) fn follow(&mut self, bytes: &[u8], mut kind: impl FnMut(usize, usize)) {
        let mut at = 0;
        while at < bytes.len() {
            if self.head == HEAD {
                let part = self.payload.min(bytes.len() - at);
                at += part;
                self.payload -= part;
            } else if let (0, Some(head)) = (self.head, bytes.get(at..at + HEAD)) {
                // In the common case the header arrives as a whole.
                self.payload = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
                self.kind = head[KIND];
                self.flags(head[FLAGS]);
                kind(at + KIND, self.payload);
                self.head = HEAD;
                at += HEAD;
            } else {
                match self.head {
                    0 => self.payload = bytes[at].into(),
                    1 | 2 => self.payload = self.payload << 8 | usize::from(bytes[at]),
                    KIND => {
                        self.kind = bytes[at];
                        kind(at, self.payload);
                    }
                    FLAGS => self.flags(bytes[at]),
                    _ => {}
                }
                self.head += 1;
                at += 1;
            }
            if self.head == HEAD && self.payload == 0 {
                self.head = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Checks that the same frames, and the same places for insertion between them, are found for any division of
        /// the bytes into parts.
        #[test]
        fn frames_are_found_in_any_parts(
            frames in prop::collection::vec((0..12_u8, 0..8_u8, prop::collection::vec(any::<u8>(), 0..300)), 0..8),
            cuts in prop::collection::vec(1..40usize, 1..50),
        ) {
            let mut bytes = Vec::new();
            let (mut kinds, mut borders) = (Vec::new(), vec![0]);
            let mut is_open = false;
            for (kind, flags, payload) in &frames {
                kinds.push((bytes.len() + KIND, payload.len()));
                bytes.extend(&(payload.len() as u32).to_be_bytes()[1..]);
                bytes.extend([*kind, *flags, 0, 0, 0, 1]);
                bytes.extend(payload);
                is_open = if BLOCK.contains(kind) { flags & END_HEADERS == 0 } else { is_open };
                borders.extend(Some(bytes.len()).filter(|_| !is_open));
            }
            let (mut follower, mut found, mut at) = (Frames::default(), Vec::new(), 0);
            for cut in cuts.iter().cycle() {
                prop_assert_eq!(follower.is_between(), borders.contains(&at));
                if at == bytes.len() {
                    break;
                }
                let part = &bytes[at..bytes.len().min(at + cut)];
                follower.follow(part, |kind, length| found.push((at + kind, length)));
                at += part.len();
            }
            prop_assert_eq!(found, kinds);
        }
    }
}
