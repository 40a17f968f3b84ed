//! Encodes the values of a command as bytes: little-endian numbers in the order of the command's fields, without
//! padding or separators.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::id::{
    Epoch, HandoverId, Incarnation, LayoutId, Lineage, Liveness, MigrationId, NodeId, RenewSeq, Revision, RouteVersion,
    SectionId, Seq, SetId,
};

/// A value with exactly one encoding, of at least one byte. Once a release has a command that contains a value of some
/// type, the encoding of that type never changes.
pub trait Fields: Sized {
    /// Appends the encoding of the value to `body`.
    fn put(&self, body: &mut Vec<u8>);

    /// Decodes a value from the front of `body`, and removes its bytes. Returns `None` if `body` does not begin with
    /// the encoding of a value.
    fn take(body: &mut &[u8]) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ident)*) => {$(
        impl Fields for $number {
            fn put(&self, body: &mut Vec<u8>) {
                body.extend_from_slice(&self.to_le_bytes());
            }

            fn take(body: &mut &[u8]) -> Option<$number> {
                let (number, rest) = body.split_first_chunk()?;
                *body = rest;
                Some($number::from_le_bytes(*number))
            }
        }
    )*};
}

numbers! { u8 u16 u32 u64 }

macro_rules! ids {
    ($($id:ident)*) => {$(
        impl Fields for $id {
            fn put(&self, body: &mut Vec<u8>) {
                self.0.put(body);
            }

            fn take(body: &mut &[u8]) -> Option<$id> {
                Fields::take(body).map($id)
            }
        }
    )*};
}

ids! {
    Epoch HandoverId Incarnation LayoutId Lineage Liveness MigrationId NodeId RenewSeq Revision RouteVersion SectionId
    Seq SetId
}

/// One byte, 0 or 1.
impl Fields for bool {
    fn put(&self, body: &mut Vec<u8>) {
        u8::from(*self).put(body);
    }

    fn take(body: &mut &[u8]) -> Option<bool> {
        match u8::take(body)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

/// Encoded as a byte, 0 or 1, that states whether there is a value, and then the value.
impl<T: Fields> Fields for Option<T> {
    fn put(&self, body: &mut Vec<u8>) {
        self.is_some().put(body);
        if let Some(value) = self {
            value.put(body);
        }
    }

    fn take(body: &mut &[u8]) -> Option<Option<T>> {
        if bool::take(body)? { T::take(body).map(Some) } else { Some(None) }
    }
}

impl<T: Fields, U: Fields> Fields for (T, U) {
    fn put(&self, body: &mut Vec<u8>) {
        self.0.put(body);
        self.1.put(body);
    }

    fn take(body: &mut &[u8]) -> Option<(T, U)> {
        Some((T::take(body)?, U::take(body)?))
    }
}

/// The length in 4 bytes, then the values.
impl<T: Fields> Fields for Vec<T> {
    fn put(&self, body: &mut Vec<u8>) {
        put_length(self.len(), body);
        for value in self {
            value.put(body);
        }
    }

    fn take(body: &mut &[u8]) -> Option<Vec<T>> {
        (0..take_length(body)?).map(|_| T::take(body)).collect()
    }
}

/// The length in 4 bytes, then UTF-8.
impl Fields for String {
    fn put(&self, body: &mut Vec<u8>) {
        put_length(self.len(), body);
        body.extend_from_slice(self.as_bytes());
    }

    fn take(body: &mut &[u8]) -> Option<String> {
        let length = take_length(body)?;
        let (text, rest) = body.split_at(length);
        *body = rest;
        String::from_utf8(text.to_vec()).ok()
    }
}

/// Encoded as nanoseconds in 8 bytes. A duration of more than 584 years, which no rule accepts, is encoded as 584
/// years.
impl Fields for Duration {
    fn put(&self, body: &mut Vec<u8>) {
        u64::try_from(self.as_nanos()).unwrap_or(u64::MAX).put(body);
    }

    fn take(body: &mut &[u8]) -> Option<Duration> {
        u64::take(body).map(Duration::from_nanos)
    }
}

fn put_length(length: usize, body: &mut Vec<u8>) {
    u32::try_from(length).expect("a command is far shorter than 4 GiB").put(body);
}

/// Decodes the length of a list or text, and removes its bytes. Returns `None` if fewer bytes than this length follow,
/// because each value has at least one byte.
fn take_length(body: &mut &[u8]) -> Option<usize> {
    let length = u32::take(body)? as usize;
    (length <= body.len()).then_some(length)
}

#[cfg(test)]
mod tests {
    use core::fmt::Debug;

    use alloc::vec;
    use proptest::prelude::*;

    use super::*;

    /// Checks that `value` is encoded as the bytes `expected`, is decoded from them, and is not decoded from any
    /// shorter beginning of them.
    fn check<T: Fields + PartialEq + Debug>(value: T, expected: &[u8]) {
        let mut body = Vec::new();
        value.put(&mut body);
        assert_eq!(body, expected);
        for end in 0..body.len() {
            assert_eq!(T::take(&mut &body[..end]), None, "of {end} bytes");
        }
        body.push(0xee);
        let rest = &mut &*body;
        assert_eq!(T::take(rest), Some(value));
        assert_eq!(*rest, [0xee]);
    }

    #[test]
    fn bytes_of_values() {
        check(0x0102_u16, &[2, 1]);
        check(SectionId(0x0102_0304), &[4, 3, 2, 1]);
        check(Seq(5), &[5, 0, 0, 0, 0, 0, 0, 0]);
        check(true, &[1]);
        check(None::<NodeId>, &[0]);
        check(Some(7_u8), &[1, 7]);
        check(vec![(SectionId(1), false), (SectionId(2), true)], &[2, 0, 0, 0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 1]);
        check(String::from("a1"), &[2, 0, 0, 0, b'a', b'1']);
        check(Duration::from_nanos(258), &[2, 1, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn other_bytes_are_refused() {
        assert_eq!(bool::take(&mut &[2][..]), None);
        assert_eq!(String::take(&mut &[1, 0, 0, 0, 0xff][..]), None);
        assert_eq!(Vec::<u8>::take(&mut &[0xff; 64][..]), None, "a length that the bytes cannot hold");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let rest = &mut &*bytes;
            if let Some(value) = Vec::<(String, Option<Duration>)>::take(rest) {
                let mut again = Vec::new();
                value.put(&mut again);
                prop_assert_eq!(again, &bytes[..bytes.len() - rest.len()]);
            }
        }
    }
}
