//! The frames of one direction of an HTTP/2 connection, as far as their borders: where one ends, another may be inserted.

/// Length of a frame's header: three bytes of length, its type, flags, four bytes of stream.
pub(super) const HEAD: usize = 9;

/// Position of the type in it.
const KIND: usize = 3;

/// Where in a frame the connection is.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// Bytes of the present header; [`HEAD`] within a payload.
    head: usize,
    /// Length of the payload, and what is left of it within one.
    payload: usize,
}

impl Frames {
    /// Whether a frame is complete and no other one has begun.
    pub(super) fn is_between(&self) -> bool {
        self.head == 0
    }

    /// Follows bytes. Calls `kind` with the position of each frame's type and the length of its payload.
    pub(super) fn follow(&mut self, bytes: &[u8], mut kind: impl FnMut(usize, usize)) {
        let mut at = 0;
        while at < bytes.len() {
            if self.head == HEAD {
                let part = self.payload.min(bytes.len() - at);
                at += part;
                self.payload -= part;
            } else if let (0, Some(head)) = (self.head, bytes.get(at..at + HEAD)) {
                // The usual header, which is there as a whole.
                self.payload = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
                kind(at + KIND, self.payload);
                self.head = HEAD;
                at += HEAD;
            } else {
                match self.head {
                    0 => self.payload = bytes[at].into(),
                    1 | 2 => self.payload = self.payload << 8 | usize::from(bytes[at]),
                    KIND => kind(at, self.payload),
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
        /// However the bytes are cut, the same frames are found, and the border only after each.
        #[test]
        fn frames_are_found_in_any_parts(
            frames in prop::collection::vec((any::<u8>(), prop::collection::vec(any::<u8>(), 0..300)), 0..8),
            cuts in prop::collection::vec(1..40usize, 1..50),
        ) {
            let mut bytes = Vec::new();
            let (mut kinds, mut borders) = (Vec::new(), vec![0]);
            for (kind, payload) in &frames {
                kinds.push((bytes.len() + KIND, payload.len()));
                bytes.extend(&(payload.len() as u32).to_be_bytes()[1..]);
                bytes.extend([*kind, 0, 0, 0, 0, 1]);
                bytes.extend(payload);
                borders.push(bytes.len());
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
