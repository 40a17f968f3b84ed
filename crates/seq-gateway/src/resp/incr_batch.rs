//! Fast path for INCR: parses consecutive INCR and INCRBY commands into one batch of items.

use std::io::Write;

use seq_api::service::{DecodedItem, Item};
use seq_core::{Count, Epoch, Uid};

use crate::resp::parse::{Args, Command, Malformed, Parser};

/// Limit on the digits of a uid in a key, including leading zeros, which benchmarks add to their keys. A key with
/// leading zeros names the same uid as a key without them.
const MAX_UID_DIGITS: usize = 20;

/// Reason why a batch ends.
pub(crate) enum BatchEnd<'a> {
    /// The input is exhausted, or its last command is incomplete.
    Input,
    /// The batch is full.
    Full,
    /// Another command follows, for example an INCR with invalid arguments.
    Other(Command<'a>),
    /// The following input is not a command.
    Malformed(Malformed),
}

/// Parses the INCR and INCRBY commands at the start of `input` into `items`, at most `most` of them. Returns their
/// length in bytes, and the reason for which the batch ends.
pub(crate) fn parse_batch<'a>(
    parser: &mut Parser,
    input: &'a [u8],
    keys: Keys<'_>,
    most: usize,
    items: &mut Vec<DecodedItem>,
) -> (usize, BatchEnd<'a>) {
    let mut at = 0;
    while items.len() < most {
        let rest = &input[at..];
        if let Some((item, bytes)) = plain(rest, keys).or_else(|| short(rest, keys)) {
            *parser = Parser::default();
            items.push(Ok(item));
            at += bytes;
            continue;
        }
        match parser.next(rest) {
            Ok(Some(command)) => match increment(&command.args, keys) {
                Some(item) => {
                    items.push(Ok(item));
                    at += command.bytes;
                }
                None => return (at, BatchEnd::Other(command)),
            },
            Ok(None) => return (at, BatchEnd::Input),
            Err(malformed) => return (at, BatchEnd::Malformed(malformed)),
        }
    }
    (at, BatchEnd::Full)
}

/// Parses an INCR in the form that nearly every client sends, and also returns its length in bytes. For commands in
/// other forms, the caller uses the slower [`short`], and if this fails too, the [`Parser`].
#[inline]
fn plain(input: &[u8], keys: Keys<'_>) -> Option<(Item, usize)> {
    let (key, rest) = sized(input.strip_prefix(b"*2\r\n$4\r\nINCR\r\n$")?)?;
    let item = Item { uid: keys.uid(key)?, count: Count::ONE, epoch: Epoch(0) };
    Some((item, input.len() - rest.len()))
}

/// Parses an INCR or INCRBY whose arguments each have less than a hundred bytes. Also returns the length of the command
/// in bytes.
fn short(input: &[u8], keys: Keys<'_>) -> Option<(Item, usize)> {
    let (by, rest) = match input {
        [b'*', b'2', b'\r', b'\n', rest @ ..] => (false, rest),
        [b'*', b'3', b'\r', b'\n', rest @ ..] => (true, rest),
        _ => return None,
    };
    let (name, rest) = sized(rest.strip_prefix(b"$")?)?;
    let (key, rest) = sized(rest.strip_prefix(b"$")?)?;
    let (count, rest) = if by { sized(rest.strip_prefix(b"$")?)? } else { (&b"1"[..], rest) };
    let matches = name.eq_ignore_ascii_case(if by { b"INCRBY" } else { b"INCR" });
    let item = Item { uid: keys.uid(key).filter(|_| matches)?, count: amount(count)?, epoch: Epoch(0) };
    Some((item, input.len() - rest.len()))
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
fn increment(args: &Args<'_>, keys: Keys<'_>) -> Option<Item> {
    let mut args = args.iter();
    let name = args.next()?;
    let by = match name.len() {
        4 if name.eq_ignore_ascii_case(b"INCR") => false,
        6 if name.eq_ignore_ascii_case(b"INCRBY") => true,
        _ => return None,
    };
    let uid = keys.uid(args.next()?)?;
    let count = if by { amount(args.next()?)? } else { Count::ONE };
    args.next().is_none().then_some(Item { uid, count, epoch: Epoch(0) })
}

/// Mapping from keys to uids.
#[derive(Clone, Copy)]
pub(crate) struct Keys<'a> {
    pub(crate) prefix: &'a [u8],
}

impl Keys<'_> {
    /// Returns the uid that a key names; `None` if the key does not name a sequence.
    #[inline]
    pub(crate) fn uid(self, key: &[u8]) -> Option<Uid> {
        number(key.strip_prefix(self.prefix)?).map(Uid)
    }

    /// Returns an example of a key, for error texts.
    pub(crate) fn example(self) -> String {
        let mut key = self.prefix.to_vec();
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

    use super::*;

    const KEYS: Keys<'_> = Keys { prefix: b"seq:" };

    /// Parses the items of an input. Checks that the same input in single bytes yields the same items.
    fn parsed(input: &[u8]) -> Vec<(u64, u32)> {
        let parse = |input: &[u8]| {
            let mut items = Vec::new();
            let (bytes, _) = parse_batch(&mut Parser::default(), input, KEYS, 100, &mut items);
            let items = items.into_iter().map(|item| item.map(|item| (item.uid.0, item.count.get())).unwrap());
            (bytes, items.collect::<Vec<_>>())
        };
        let (whole, items) = parse(input);
        let (mut parser, mut found, mut at) = (Parser::default(), Vec::new(), 0);
        for end in 0..=input.len() {
            at += parse_batch(&mut parser, &input[at..end], KEYS, 100, &mut found).0;
        }
        assert_eq!((at, found.len()), (whole, items.len()));
        items
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
                let Some(item) = increment(&command.args, KEYS) else { break };
                items.push((item.uid.0, item.count.get()));
                at += command.bytes;
            }
            prop_assert_eq!(parsed(&input), items);
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
