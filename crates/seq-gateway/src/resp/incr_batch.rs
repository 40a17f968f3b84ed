//! Fast path for INCR: parses consecutive INCR and INCRBY commands into one batch of items. All items of a batch are
//! uids, or all are keys, so that each batch is one request to the service and the commands stay in order.

use std::io::Write;

use seq_api::keys::{KeyedItem, Keyspace};
use seq_api::service::{DecodedItem, Item};
use seq_core::{Count, Epoch, Uid, limits};

use crate::resp::parse::{Args, Command, Malformed, Parser};

/// Limit on the digits of a uid in a key, including leading zeros, which benchmarks add to their keys. A key with
/// leading zeros names the same uid as a key without them.
const MAX_UID_DIGITS: usize = 20;

/// Number of keys for which a batch has room from its first key on. It is a usual length of a pipeline.
const KEYS_AT_ONCE: usize = 64;

/// Reason why a batch ends.
pub(crate) enum BatchEnd<'a> {
    /// The input is exhausted, or its last command is incomplete.
    Input,
    /// The batch is full, or an INCR of the other kind of counter follows.
    Full,
    /// Another command follows, for example an INCR with invalid arguments.
    Other(Command<'a>),
    /// The following input is not a command.
    Malformed(Malformed),
}

/// The items of a batch.
///
/// Invariant: at most one of the two lists has items.
#[derive(Debug, Default)]
pub(crate) struct Items {
    pub(crate) uids: Vec<DecodedItem>,
    pub(crate) keys: Vec<KeyedItem>,
}

impl Items {
    /// Returns whether the batch has no item.
    pub(crate) fn is_empty(&self) -> bool {
        self.uids.is_empty() && self.keys.is_empty()
    }

    /// Returns the number of items.
    fn len(&self) -> usize {
        self.uids.len() + self.keys.len()
    }

    /// Adds the item of a command, and returns whether it could be added: all items of a batch are of one kind.
    #[inline]
    fn push(&mut self, increment: Increment) -> bool {
        match increment {
            Increment::Uid(item) if self.keys.is_empty() => self.uids.push(Ok(item)),
            Increment::Key(item) if self.uids.is_empty() => {
                if self.keys.capacity() == 0 {
                    self.keys.reserve(KEYS_AT_ONCE);
                }
                self.keys.push(item);
            }
            _ => return false,
        }
        true
    }
}

/// The item of an INCR or INCRBY.
enum Increment {
    Uid(Item),
    Key(KeyedItem),
}

/// Parses the INCR and INCRBY commands at the start of `input` into `items`, at most `most` of them. Returns their
/// length in bytes, and the reason for which the batch ends.
pub(crate) fn parse_batch<'a>(
    parser: &mut Parser,
    input: &'a [u8],
    keys: Keys<'_>,
    most: usize,
    items: &mut Items,
) -> (usize, BatchEnd<'a>) {
    let mut at = 0;
    while items.len() < most {
        let bytes = plain_run(&input[at..], keys, most - items.len(), items);
        if bytes > 0 {
            *parser = Parser::default();
            at += bytes;
            continue;
        }
        let rest = &input[at..];
        let (increment, bytes) = match short(rest, keys) {
            Some(parsed) => {
                *parser = Parser::default();
                parsed
            }
            None => match parser.next(rest) {
                Ok(Some(command)) => match increment(&command.args, keys) {
                    Some(item) => (item, command.bytes),
                    None => return (at, BatchEnd::Other(command)),
                },
                Ok(None) => return (at, BatchEnd::Input),
                Err(malformed) => return (at, BatchEnd::Malformed(malformed)),
            },
        };
        if !items.push(increment) {
            break;
        }
        at += bytes;
    }
    (at, BatchEnd::Full)
}

/// Returns the keys of the commands of a batch, whose encoded commands are `batch`.
pub(crate) fn keys_of(batch: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut parser, mut at) = (Parser::default(), 0);
    std::iter::from_fn(move || {
        let command = parser.next(&batch[at..]).ok()??;
        at += command.bytes;
        command.args.iter().nth(1)
    })
}

/// Parses INCR commands in the form that nearly every client sends into `items`, at most `most` of them. Ends before
/// the first command of another form, and before the first key of another kind than the items have: uids at first.
/// Returns the length of the commands in bytes. For the command at which it ends, the caller uses the slower [`short`],
/// and if this fails too, the [`Parser`].
fn plain_run(input: &[u8], keys: Keys<'_>, most: usize, items: &mut Items) -> usize {
    let mut left = input;
    for _ in 0..most {
        let Some((key, rest)) = left.strip_prefix(b"*2\r\n$4\r\nINCR\r\n$").and_then(sized) else { break };
        match (items.keys.is_empty(), keys.uid(key)) {
            (true, Some(uid)) => items.uids.push(Ok(Item { uid, count: Count::ONE, epoch: Epoch(0) })),
            (false, None) => match keys.keyed(key, Count::ONE) {
                Some(item) => items.keys.push(item),
                None => break,
            },
            _ => break,
        }
        left = rest;
    }
    input.len() - left.len()
}

/// Parses an INCR or INCRBY whose arguments each have less than a hundred bytes. Also returns the length of the command
/// in bytes.
fn short(input: &[u8], keys: Keys<'_>) -> Option<(Increment, usize)> {
    let (by, rest) = match input {
        [b'*', b'2', b'\r', b'\n', rest @ ..] => (false, rest),
        [b'*', b'3', b'\r', b'\n', rest @ ..] => (true, rest),
        _ => return None,
    };
    let (name, rest) = sized(rest.strip_prefix(b"$")?)?;
    let (key, rest) = sized(rest.strip_prefix(b"$")?)?;
    let (count, rest) = if by { sized(rest.strip_prefix(b"$")?)? } else { (&b"1"[..], rest) };
    if !name.eq_ignore_ascii_case(if by { b"INCRBY" } else { b"INCR" }) {
        return None;
    }
    Some((keys.increment(key, amount(count)?)?, input.len() - rest.len()))
}

/// Parses a length of one or two digits, and the string of this length that follows. Returns the string and the rest of
/// the input.
#[inline]
fn sized(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let (size, bytes) = match input {
        [ones, b'\r', b'\n', bytes @ ..] => (value(*ones)?, bytes),
        [tens, ones, b'\r', b'\n', bytes @ ..] => (value(*tens)? * 10 + value(*ones)?, bytes),
        _ => return None,
    };
    let (bytes, rest) = bytes.split_at_checked(size.into())?;
    Some((bytes, rest.strip_prefix(b"\r\n")?))
}

/// Parses the count of an INCRBY.
fn amount(digits: &[u8]) -> Option<Count> {
    Count::new(u32::try_from(integer(digits)?).ok()?).ok()
}

/// Parses the command at the start of `input`, of any kind. It is not part of a batch, so the returned length of the
/// batch is 0.
pub(crate) fn parse_one<'a>(parser: &mut Parser, input: &'a [u8]) -> (usize, BatchEnd<'a>) {
    let end = match parser.next(input) {
        Ok(Some(command)) => BatchEnd::Other(command),
        Ok(None) => BatchEnd::Input,
        Err(malformed) => BatchEnd::Malformed(malformed),
    };
    (0, end)
}

/// Returns the item of an INCR or INCRBY; `None` if it is another command or has invalid arguments.
fn increment(args: &Args<'_>, keys: Keys<'_>) -> Option<Increment> {
    let mut args = args.iter();
    let name = args.next()?;
    let by = match name.len() {
        4 if name.eq_ignore_ascii_case(b"INCR") => false,
        6 if name.eq_ignore_ascii_case(b"INCRBY") => true,
        _ => return None,
    };
    let key = args.next()?;
    let count = if by { amount(args.next()?)? } else { Count::ONE };
    if args.next().is_some() { None } else { keys.increment(key, count) }
}

/// Mapping from the keys of Redis to counters.
#[derive(Clone, Copy)]
pub(crate) struct Keys<'a> {
    /// Prefix of the keys that name uids; `None` if there are none.
    pub(crate) prefix: Option<&'a [u8]>,
    /// Prefix of the keys that name series; empty if there are none.
    pub(crate) id_prefix: &'a [u8],
    /// Keyspace of all other keys; `None` if they name no counter.
    pub(crate) keyspace: Option<&'a Keyspace>,
}

impl Keys<'_> {
    /// Returns the item of an INCR that allocates `count` numbers; `None` if the key names no counter.
    #[inline]
    fn increment(self, key: &[u8], count: Count) -> Option<Increment> {
        match self.uid(key) {
            Some(uid) => Some(Increment::Uid(Item { uid, count, epoch: Epoch(0) })),
            None => self.keyed(key, count).map(Increment::Key),
        }
    }

    /// Returns the item of a key of the keyspace, of a key that names no uid; `None` if it is no key of the keyspace.
    #[inline]
    fn keyed(self, key: &[u8], count: Count) -> Option<KeyedItem> {
        let keyspace = self.keyspace?;
        if self.is_series(key) || !(1..=limits::MAX_KEY_BYTES).contains(&key.len()) {
            return None;
        }
        Some(KeyedItem { key: keyspace.locate(key)?, count, epoch: Epoch(0) })
    }

    /// Returns whether a key names a series, by its prefix.
    #[inline]
    pub(crate) fn is_series(self, key: &[u8]) -> bool {
        !self.id_prefix.is_empty() && key.starts_with(self.id_prefix)
    }

    /// Returns the uid that a key names; `None` if the key does not name a sequence.
    #[inline]
    pub(crate) fn uid(self, key: &[u8]) -> Option<Uid> {
        number(key.strip_prefix(self.prefix?)?).map(Uid)
    }

    /// Returns an example of a key, for error texts.
    pub(crate) fn example(self) -> String {
        let mut key = self.prefix.unwrap_or_default().to_vec();
        let _ = key.write_all(b"42");
        String::from_utf8_lossy(&key).into_owned()
    }
}

/// Parses an integer in the same way as Redis: only digits, without leading zeros.
pub(crate) fn integer(digits: &[u8]) -> Option<u64> {
    number(digits).filter(|_| digits.len() == 1 || digits[0] != b'0')
}

/// Parses a number that consists of decimal digits only.
#[inline]
pub(crate) fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > MAX_UID_DIGITS {
        return None;
    }
    let mut number: u64 = 0;
    // Nineteen digits never overflow the number. Only the twentieth digit can.
    let (sure, last) = digits.split_at(digits.len().min(MAX_UID_DIGITS - 1));
    for digit in sure {
        number = number * 10 + u64::from(value(*digit)?);
    }
    match last {
        [] => Some(number),
        [digit] => number.checked_mul(10)?.checked_add(u64::from(value(*digit)?)),
        _ => None,
    }
}

#[inline]
fn value(digit: u8) -> Option<u8> {
    let value = digit.wrapping_sub(b'0');
    (value <= 9).then_some(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use seq_core::SectionId;
    use seq_core::keyspace::{BUCKETS, Hashing, Seed};
    use seq_core::layout::SectionRun;

    use super::*;

    const KEYS: Keys<'_> = Keys { prefix: Some(b"seq:"), id_prefix: b"id:", keyspace: None };

    fn keyspace() -> Keyspace {
        let buckets = SectionRun { first: SectionId(10), sections: BUCKETS.into() };
        Keyspace { name: "main".to_owned(), hashing: Hashing::new(Seed::new([7; 16])), buckets }
    }

    /// Parses the items of an input. Checks that the same input in single bytes yields the same items.
    fn parsed(input: &[u8]) -> Vec<(u64, u32)> {
        let parse = |input: &[u8]| {
            let mut items = Items::default();
            let (bytes, _) = parse_batch(&mut Parser::default(), input, KEYS, 100, &mut items);
            let items = items.uids.into_iter().map(|item| item.map(|item| (item.uid.0, item.count.get())).unwrap());
            (bytes, items.collect::<Vec<_>>())
        };
        let (whole, items) = parse(input);
        let (mut parser, mut found, mut at) = (Parser::default(), Items::default(), 0);
        for end in 0..=input.len() {
            at += parse_batch(&mut parser, &input[at..end], KEYS, 100, &mut found).0;
        }
        assert_eq!((at, found.uids.len()), (whole, items.len()));
        items
    }

    /// Returns an INCR as clients send it.
    fn incr(key: &[u8]) -> Vec<u8> {
        [format!("*2\r\n$4\r\nINCR\r\n${}\r\n", key.len()).as_bytes(), key, b"\r\n"].concat()
    }

    #[test]
    fn a_batch_has_uids_or_keys_and_ends_at_the_other_kind() {
        let keyspace = keyspace();
        let keys = Keys { keyspace: Some(&keyspace), ..KEYS };
        let sent: [&[u8]; 6] = [b"seq:1", b"conv:1", b"\0\r\n\xff", b"seq:x", b"seq:2", b"conv:1"];
        let input: Vec<u8> = sent.iter().flat_map(|key| incr(key)).collect();
        let (mut at, mut runs) = (0, Vec::new());
        loop {
            let mut items = Items::default();
            let (bytes, end) = parse_batch(&mut Parser::default(), &input[at..], keys, 100, &mut items);
            let sent: Vec<_> = keys_of(&input[at..at + bytes]).collect();
            assert_eq!(sent.len(), items.len());
            for (item, key) in items.keys.iter().zip(sent) {
                assert_eq!(Some(item.key), keyspace.locate(key));
            }
            runs.push((items.uids.len(), items.keys.len()));
            at += bytes;
            if let BatchEnd::Input = end {
                break;
            }
        }
        assert_eq!((at, runs), (input.len(), vec![(1, 0), (0, 3), (1, 0), (0, 1)]));
    }

    #[test]
    fn a_key_is_taken_whole_in_every_form_of_an_increment() {
        let keyspace = keyspace();
        let keys = Keys { keyspace: Some(&keyspace), ..KEYS };
        let long = [b'x'; limits::MAX_KEY_BYTES];
        let taken = |input: &[u8]| {
            let mut items = Items::default();
            let (bytes, _) = parse_batch(&mut Parser::default(), input, keys, 100, &mut items);
            assert_eq!(bytes > 0, !items.is_empty());
            items.keys.iter().map(|item| (item.key, item.count.get())).collect::<Vec<_>>()
        };
        let located = |key: &[u8]| keyspace.locate(key).unwrap();
        assert_eq!(taken(b"*3\r\n$6\r\nincrby\r\n$5\r\na{b}c\r\n$2\r\n40\r\n"), [(located(b"a{b}c"), 40)]);
        assert_eq!(taken(b"INCR conv:42\r\n"), [(located(b"conv:42"), 1)]);
        assert_eq!(taken(&incr(&long)), [(located(&long), 1)]);
        for other in [&b"id:orders"[..], b"", &[b'x'; limits::MAX_KEY_BYTES + 1]] {
            assert_eq!(taken(&incr(other)), [], "{}", other.escape_ascii());
        }
        assert_eq!(taken(&incr(b"ids:7")), [(located(b"ids:7"), 1)]);
        let none = Keys { id_prefix: b"", ..keys };
        assert!(none.keyed(b"id:orders", Count::ONE).is_some(), "without a prefix no key names a series");
        assert!(KEYS.keyed(b"conv:42", Count::ONE).is_none());
    }

    #[test]
    fn every_form_of_an_increment_is_batched() {
        let input = b"*2\r\n$4\r\nINCR\r\n$5\r\nseq:1\r\n*2\r\n$4\r\nincr\r\n$5\r\nseq:2\r\n*3\r\n$6\r\nINCRBY\r\n$6\r\nseq:03\r\n$2\r\n40\r\n\
            incr seq:4\r\n*2\r\n$4\r\nINCR\r\n$16\r\nseq:000000000005\r\n*2\r\n$4\r\nINCR\r\n$5\r\nseq:x\r\n";
        assert_eq!(parsed(input), [(1, 1), (2, 1), (3, 40), (4, 1), (5, 1)]);
        for wrong in [
            &b"*2\r\n$4\r\nINCR\r\n$6\r\nseq:1\r\n\r"[..],
            b"*2\r\n$4\r\nINCR\r\n$4\r\nseq:1\r\n",
            b"*2\r\n$4\r\nINCR\r\n$:\r\nseq:1\r\n",
            b"*2\r\n$4\r\nINCR\r\n$5\r\nsex:1\r\n",
            b"*2\r\n$4\r\nINCR\r\n$5\r\nseq:1",
            b"INCRBY seq:1 1000001\r\n",
            b"INCR seq:1 1\r\n",
        ] {
            assert_eq!(parsed(wrong), [], "{}", wrong.escape_ascii());
        }
    }

    fn inputs() -> impl Strategy<Value = Vec<u8>> {
        let whole = prop::sample::select(vec![
            &b"*2\r\n$4\r\nINCR\r\n$5\r\nseq:1\r\n"[..],
            b"*2\r\n$4\r\nincr\r\n$05\r\nseq:2\r\n",
            b"*3\r\n$6\r\nINCRBY\r\n$6\r\nseq:03\r\n$2\r\n40\r\n",
            b"*3\r\n$4\r\nINCR\r\n$5\r\nseq:3\r\n$1\r\n4\r\n",
            b"*2\r\n$6\r\nINCRBY\r\n$5\r\nseq:3\r\n",
            b"INCR seq:4\r\n",
        ]);
        let part =
            prop::sample::select(vec![&b"*2\r\n"[..], b"$4\r\n", b"INCR\r\n", b"$", b"5", b"\r\n", b"seq:", b"\0"]);
        let piece = prop_oneof![6 => whole, 1 => part];
        prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn the_fast_path_agrees_with_the_parser(input in inputs()) {
            let (mut items, mut parser, mut at) = (Vec::new(), Parser::default(), 0);
            while let Ok(Some(command)) = parser.next(&input[at..]) {
                let Some(Increment::Uid(item)) = increment(&command.args, KEYS) else { break };
                items.push((item.uid.0, item.count.get()));
                at += command.bytes;
            }
            prop_assert_eq!(parsed(&input), items);
        }
    }

    fn inputs_with_keys() -> impl Strategy<Value = Vec<u8>> {
        let key = prop_oneof![
            prop::sample::select(vec![&b"conv:1"[..], b"seq:7", b"seq:", b"id:orders", b"{a}b", b"\r\n", b""])
                .prop_map(<[u8]>::to_vec),
            prop::collection::vec(any::<u8>(), 95..105),
            prop::collection::vec(any::<u8>(), 510..515),
        ];
        let command = key.prop_flat_map(|key| {
            let head = format!("*3\r\n$6\r\nINCRBY\r\n${}\r\n", key.len());
            let by = [head.as_bytes(), &key, b"\r\n$1\r\n7\r\n"].concat();
            prop::sample::select(vec![incr(&key), by])
        });
        let whole = prop::collection::vec(command, 0..6).prop_map(|commands| commands.concat());
        (whole, any::<prop::sample::Index>()).prop_map(|(whole, end)| match end.index(4) {
            0 => whole[..end.index(whole.len() + 1)].to_vec(),
            _ => whole,
        })
    }

    proptest! {
        #[test]
        fn runs_of_keys_and_uids_agree_with_the_parser(input in inputs_with_keys()) {
            let keyspace = keyspace();
            let keys = Keys { keyspace: Some(&keyspace), ..KEYS };
            let (mut expected, mut parser, mut at) = (Vec::new(), Parser::default(), 0);
            while let Ok(Some(command)) = parser.next(&input[at..]) {
                let item = match increment(&command.args, keys) {
                    Some(Increment::Uid(item)) => format!("{item:?}"),
                    Some(Increment::Key(item)) => format!("{item:?}"),
                    None => "another command".to_owned(),
                };
                expected.push(item);
                at += command.bytes;
            }
            let (mut found, mut parser, mut at) = (Vec::new(), Parser::default(), 0);
            loop {
                let mut items = Items::default();
                let (bytes, end) = parse_batch(&mut parser, &input[at..], keys, 3, &mut items);
                prop_assert!(items.uids.is_empty() || items.keys.is_empty());
                found.extend(items.uids.iter().map(|item| format!("{:?}", item.unwrap())));
                found.extend(items.keys.iter().map(|item| format!("{item:?}")));
                at += bytes;
                match end {
                    BatchEnd::Full => {}
                    BatchEnd::Other(command) => {
                        found.push("another command".to_owned());
                        at += command.bytes;
                    }
                    BatchEnd::Input | BatchEnd::Malformed(_) => break,
                }
            }
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn an_integer_has_no_leading_zeros() {
        for (digits, expected) in
            [("0", Some(0)), ("10", Some(10)), ("00", None), ("007", None), ("", None), ("+7", None)]
        {
            assert_eq!(integer(digits.as_bytes()), expected, "{digits:?}");
        }
    }

    #[test]
    fn a_number_is_digits_that_fit() {
        for (digits, expected) in [
            ("0", Some(0)),
            ("000000000042", Some(42)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("99999999999999999999", None),
            ("000000000000000000001", None),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("1 ", None),
            ("1a", None),
        ] {
            assert_eq!(number(digits.as_bytes()), expected, "{digits:?}");
        }
    }
}
