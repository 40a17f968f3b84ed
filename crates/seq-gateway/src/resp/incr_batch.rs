//! What comes in at its fastest: INCR after INCR, which become one batch of asks.

use std::io::Write;

use seq_core::{Count, Epoch, Uid};
use seq_kit::frontend::{Ask, Asked};

use crate::resp::parse::{Args, Command, Malformed, Parser};

/// Digits of the largest uid. Zeros in front count as well: keys of benchmarks are padded, and mean the same uid.
const MAX_UID_DIGITS: usize = 20;

/// Why a run of takes ends.
pub(crate) enum Halt<'a> {
    /// The input does, or the command at its end goes on behind it.
    Input,
    /// The batch is full.
    Full,
    /// Another command follows; a take that is wrong in some way is another command.
    Other(Command<'a>),
    /// What follows is no command.
    Malformed(Malformed),
}

/// Adds the takes at the start of `input` to `asks`, up to `most` of them. Answers their bytes, and what ends the run.
pub(crate) fn takes<'a>(
    parser: &mut Parser,
    input: &'a [u8],
    keys: Keys<'_>,
    most: usize,
    asks: &mut Vec<Asked>,
) -> (usize, Halt<'a>) {
    let mut at = 0;
    while asks.len() < most {
        let rest = &input[at..];
        if let Some((ask, bytes)) = plain(rest, keys).or_else(|| short(rest, keys)) {
            *parser = Parser::default();
            asks.push(Ok(ask));
            at += bytes;
            continue;
        }
        match parser.next(rest) {
            Ok(Some(command)) => match take(&command.args, keys) {
                Some(ask) => {
                    asks.push(Ok(ask));
                    at += command.bytes;
                }
                None => return (at, Halt::Other(command)),
            },
            Ok(None) => return (at, Halt::Input),
            Err(malformed) => return (at, Halt::Malformed(malformed)),
        }
    }
    (at, Halt::Full)
}

/// An INCR as nearly every client sends it, with the bytes of all of it. Anything else is for [`short`], and then for the
/// parser, which find the same and take longer.
#[inline]
fn plain(input: &[u8], keys: Keys<'_>) -> Option<(Ask, usize)> {
    let (key, rest) = sized(input.strip_prefix(b"*2\r\n$4\r\nINCR\r\n$")?)?;
    let ask = Ask { uid: keys.uid(key)?, count: Count::ONE, epoch: Epoch(0) };
    Some((ask, input.len() - rest.len()))
}

/// A take that is an array of arguments under a hundred bytes, with the bytes of all of it.
fn short(input: &[u8], keys: Keys<'_>) -> Option<(Ask, usize)> {
    let (by, rest) = match input {
        [b'*', b'2', b'\r', b'\n', rest @ ..] => (false, rest),
        [b'*', b'3', b'\r', b'\n', rest @ ..] => (true, rest),
        _ => return None,
    };
    let (name, rest) = sized(rest.strip_prefix(b"$")?)?;
    let (key, rest) = sized(rest.strip_prefix(b"$")?)?;
    let (count, rest) = if by { sized(rest.strip_prefix(b"$")?)? } else { (&b"1"[..], rest) };
    let right = name.eq_ignore_ascii_case(if by { b"INCRBY" } else { b"INCR" });
    let ask = Ask { uid: keys.uid(key).filter(|_| right)?, count: amount(count)?, epoch: Epoch(0) };
    Some((ask, input.len() - rest.len()))
}

/// A length of one or two digits, and so many bytes with their end; answers the bytes and what follows.
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

/// How many numbers INCRBY asks for.
fn amount(digits: &[u8]) -> Option<Count> {
    Count::new(u32::try_from(integer(digits)?).ok()?).ok()
}

/// The command at the start of `input`, a take or not.
pub(crate) fn other<'a>(parser: &mut Parser, input: &'a [u8]) -> (usize, Halt<'a>) {
    let halt = match parser.next(input) {
        Ok(Some(command)) => Halt::Other(command),
        Ok(None) => Halt::Input,
        Err(malformed) => Halt::Malformed(malformed),
    };
    (0, halt)
}

/// The take that a command is; `None` when it is something else, or wrong.
fn take(args: &Args<'_>, keys: Keys<'_>) -> Option<Ask> {
    let mut args = args.iter();
    let name = args.next()?;
    let by = match name.len() {
        4 if name.eq_ignore_ascii_case(b"INCR") => false,
        6 if name.eq_ignore_ascii_case(b"INCRBY") => true,
        _ => return None,
    };
    let uid = keys.uid(args.next()?)?;
    let count = if by { amount(args.next()?)? } else { Count::ONE };
    args.next().is_none().then_some(Ask { uid, count, epoch: Epoch(0) })
}

/// How keys name uids.
#[derive(Clone, Copy)]
pub(crate) struct Keys<'a> {
    pub(crate) prefix: &'a [u8],
}

impl Keys<'_> {
    /// The uid of a key; `None` when it is none.
    #[inline]
    pub(crate) fn uid(self, key: &[u8]) -> Option<Uid> {
        number(key.strip_prefix(self.prefix)?).map(Uid)
    }

    /// A key of a uid, for messages.
    pub(crate) fn example(self) -> String {
        let mut key = self.prefix.to_vec();
        let _ = key.write_all(b"42");
        String::from_utf8_lossy(&key).into_owned()
    }
}

/// An integer as Redis reads one: digits alone, and no zeros in front.
pub(crate) fn integer(digits: &[u8]) -> Option<u64> {
    number(digits).filter(|_| digits.len() == 1 || digits[0] != b'0')
}

/// A number in decimal digits and nothing else.
#[inline]
pub(crate) fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > MAX_UID_DIGITS {
        return None;
    }
    let mut number: u64 = 0;
    // Nineteen digits fit in any case; only the twentieth can be too much.
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

    /// The asks of an input in one piece, and of its bytes one by one.
    fn gathered(input: &[u8]) -> Vec<(u64, u32)> {
        let plainly = |input: &[u8]| {
            let mut asks = Vec::new();
            let (bytes, _) = takes(&mut Parser::default(), input, KEYS, 100, &mut asks);
            let asks = asks.into_iter().map(|ask| ask.map(|ask| (ask.uid.0, ask.count.get())).unwrap());
            (bytes, asks.collect::<Vec<_>>())
        };
        let (whole, asks) = plainly(input);
        let (mut parser, mut found, mut at) = (Parser::default(), Vec::new(), 0);
        for end in 0..=input.len() {
            at += takes(&mut parser, &input[at..end], KEYS, 100, &mut found).0;
        }
        assert_eq!((at, found.len()), (whole, asks.len()));
        asks
    }

    #[test]
    fn takes_are_gathered_however_they_are_spelled() {
        let input = b"*2\r\n$4\r\nINCR\r\n$5\r\nseq:1\r\n*2\r\n$4\r\nincr\r\n$5\r\nseq:2\r\n*3\r\n$6\r\nINCRBY\r\n$6\r\nseq:03\r\n$2\r\n40\r\n\
            incr seq:4\r\n*2\r\n$4\r\nINCR\r\n$16\r\nseq:000000000005\r\n*2\r\n$4\r\nINCR\r\n$5\r\nseq:x\r\n";
        assert_eq!(gathered(input), [(1, 1), (2, 1), (3, 40), (4, 1), (5, 1)]);
        for wrong in [
            &b"*2\r\n$4\r\nINCR\r\n$6\r\nseq:1\r\n\r"[..],
            b"*2\r\n$4\r\nINCR\r\n$4\r\nseq:1\r\n",
            b"*2\r\n$4\r\nINCR\r\n$:\r\nseq:1\r\n",
            b"*2\r\n$4\r\nINCR\r\n$5\r\nsex:1\r\n",
            b"*2\r\n$4\r\nINCR\r\n$5\r\nseq:1",
            b"INCRBY seq:1 1000001\r\n",
            b"INCR seq:1 1\r\n",
        ] {
            assert_eq!(gathered(wrong), [], "{}", wrong.escape_ascii());
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
        fn the_short_way_finds_what_the_parser_finds(input in inputs()) {
            let (mut asks, mut parser, mut at) = (Vec::new(), Parser::default(), 0);
            while let Ok(Some(command)) = parser.next(&input[at..]) {
                let Some(ask) = take(&command.args, KEYS) else { break };
                asks.push((ask.uid.0, ask.count.get()));
                at += command.bytes;
            }
            prop_assert_eq!(gathered(&input), asks);
        }
    }

    #[test]
    fn an_integer_has_no_zeros_in_front() {
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
