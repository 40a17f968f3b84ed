//! Keys of records, in one allocation, so that a key takes little more memory than its bytes.

use std::cmp::Ordering;

use seq_core::limits::{MAX_CALL_BYTES, MAX_ITEMS, MAX_KEY_BYTES};

/// Limit on the characters of a key in messages.
const MAX_SHOWN: usize = 64;

/// Maximum size of the keys of one batch, in bytes. The other half of the largest request is for lengths and tags.
const MAX_BATCH_BYTES: usize = MAX_CALL_BYTES / 2;

/// Bytes of keys, each behind its length.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyBytes(Vec<u8>);

/// Keys in the order of their bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct SortedKeys {
    bytes: KeyBytes,
    /// Places of the keys in `bytes`, by their ranks.
    places: Vec<u64>,
}

impl KeyBytes {
    /// Adds a key, and returns its place.
    ///
    /// # Errors
    /// A text that describes a key that is empty or too long.
    pub(super) fn push(&mut self, key: &[u8]) -> Result<u64, String> {
        if !(1..=MAX_KEY_BYTES).contains(&key.len()) {
            return Err(format!("the key has {} bytes: a key has 1 to {MAX_KEY_BYTES}", key.len()));
        }
        let place = self.0.len() as u64;
        let bytes = u16::try_from(key.len()).expect("MAX_KEY_BYTES fits");
        self.0.extend_from_slice(&bytes.to_le_bytes());
        self.0.extend_from_slice(key);
        Ok(place)
    }

    /// Returns the key at a place that [`KeyBytes::push`] returned.
    fn get(&self, place: u64) -> &[u8] {
        let rest = &self.0[usize::try_from(place).expect("a place is an index")..];
        let (bytes, rest) = rest.split_first_chunk().expect("a length precedes a key");
        &rest[..u16::from_le_bytes(*bytes).into()]
    }

    /// Compares the keys at two places by their bytes.
    pub(super) fn order(&self, one: u64, other: u64) -> Ordering {
        self.get(one).cmp(self.get(other))
    }

    /// Replaces the places, which must be in the order of the keys' bytes, by the ranks of their keys, and returns the
    /// keys by their ranks. Equal keys have equal ranks.
    pub(super) fn rank<'a>(self, places: impl IntoIterator<Item = &'a mut u64>) -> SortedKeys {
        let mut sorted = SortedKeys { bytes: self, places: Vec::new() };
        for place in places {
            if sorted.places.last().is_none_or(|last| sorted.bytes.order(*last, *place) != Ordering::Equal) {
                sorted.places.push(*place);
            }
            *place = sorted.places.len() as u64 - 1;
        }
        sorted.places.shrink_to_fit();
        sorted
    }
}

impl SortedKeys {
    /// Returns the key of a rank.
    pub(super) fn get(&self, rank: u64) -> &[u8] {
        self.bytes.get(self.places[usize::try_from(rank).expect("a rank is an index")])
    }
}

/// Returns a key for messages: its text, or its bytes with escapes, shortened.
pub(crate) fn shown(key: &[u8]) -> String {
    let (text, cut) = match std::str::from_utf8(key) {
        Ok(text) => {
            let start: String = text.chars().take(MAX_SHOWN).collect();
            let cut = start.len() < text.len();
            (format!("{start:?}"), cut)
        }
        Err(_) => (format!("b\"{}\"", key[..key.len().min(MAX_SHOWN)].escape_ascii()), key.len() > MAX_SHOWN),
    };
    if cut { format!("{text}...") } else { text }
}

/// Splits keys into batches, each of which fits into a request.
pub(crate) fn batches<'a>(mut keys: &'a [&'a [u8]]) -> impl Iterator<Item = &'a [&'a [u8]]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |key: &&&[u8]| {
            bytes += key.len();
            bytes <= MAX_BATCH_BYTES
        };
        let count = keys.iter().take(MAX_ITEMS).take_while(fits).count();
        let (batch, rest) = keys.split_at(count);
        keys = rest;
        (!batch.is_empty()).then_some(batch)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_ranked_by_their_bytes() {
        let mut bytes = KeyBytes::default();
        let long = [b'x'; MAX_KEY_BYTES];
        let keys: [&[u8]; 6] = [b"b", &long, b"a\0", b"a", b"b", b"\xff"];
        let mut places = keys.map(|key| bytes.push(key).unwrap());
        assert_eq!(bytes.push(b""), Err("the key has 0 bytes: a key has 1 to 512".to_owned()));
        assert_eq!(bytes.push(&[0; 513]), Err("the key has 513 bytes: a key has 1 to 512".to_owned()));
        places.sort_by(|one, other| bytes.order(*one, *other));
        let sorted = bytes.rank(&mut places);
        assert_eq!(places, [0, 1, 2, 2, 3, 4]);
        let expected: [&[u8]; 5] = [b"a", b"a\0", b"b", &long, b"\xff"];
        assert_eq!([0, 1, 2, 3, 4].map(|rank| sorted.get(rank)), expected);
    }

    #[test]
    fn a_batch_fits_into_a_request() {
        let long = [7; MAX_KEY_BYTES];
        let keys: Vec<&[u8]> = vec![&long; 600];
        assert_eq!(batches(&keys).map(<[&[u8]]>::len).collect::<Vec<_>>(), [256, 256, 88]);
        let keys: Vec<&[u8]> = vec![b"k"; 10_001];
        assert_eq!(batches(&keys).map(<[&[u8]]>::len).collect::<Vec<_>>(), [10_000, 1]);
        assert_eq!(batches(&[]).count(), 0);
    }

    #[test]
    fn a_key_is_shown_on_one_line() {
        let shown = ["conv:ü".as_bytes(), b"a\nb", b"\xff\n", &[b'x'; 65], &[0xfe; 65]].map(shown);
        let (long, binary) = ("x".repeat(64), "\\xfe".repeat(64));
        let expected =
            ["\"conv:ü\"", r#""a\nb""#, r#"b"\xff\n""#, &format!("\"{long}\"..."), &format!("b\"{binary}\"...")];
        assert_eq!(shown, expected);
    }
}
