use std::fmt::Write;

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

/// Parses the input in pieces of `piece` bytes; returns one command per line, then the end of the input.
fn read(input: &[u8], piece: usize) -> String {
    let mut text = String::new();
    let (mut parser, mut begin, mut end) = (Parser::default(), 0, piece.min(input.len()));
    loop {
        match parser.next(&input[begin..end]) {
            Ok(Some(command)) => {
                assert!(command.bytes > 0);
                let args: Vec<_> = command.args.iter().map(|argument| argument.escape_ascii().to_string()).collect();
                assert_eq!(args.len(), command.args.count());
                writeln!(text, "{args:?}").unwrap();
                begin += command.bytes;
            }
            Ok(None) if end < input.len() => end = (end + piece).min(input.len()),
            Ok(None) => return text + &format!("{} bytes left\n", end - begin),
            Err(malformed) => return text + &format!("{malformed}\n"),
        }
    }
}

fn check(inputs: &[&[u8]], expected: &Expect) {
    let mut text = String::new();
    for input in inputs {
        let whole = read(input, input.len().max(1));
        for piece in [1, 2, 3, 7] {
            assert_eq!(read(input, piece), whole, "in pieces of {piece}: {}", input.escape_ascii());
        }
        text += &whole;
    }
    expected.assert_eq(&text);
}

#[test]
fn commands_are_arrays_or_lines() {
    let expected = expect![[r#"
        ["INCR", "seq:42"]
        ["PING"]
        0 bytes left
        ["get", "a\\r\\nb"]
        ["ECHO", ""]
        12 bytes left
        ["INCR", "seq:42"]
        []
        ["PING"]
        3 bytes left
        []
        []
        0 bytes left
    "#]];
    check(
        &[
            b"*2\r\n$4\r\nINCR\r\n$6\r\nseq:42\r\n*1\r\n$4\r\nPING\r\n",
            b"*2\r\n$3\r\nget\r\n$4\r\na\r\nb\r\n*2\r\n$4\r\nECHO\r\n$0\r\n\r\n*2\r\n$4\r\nINCR",
            b"INCR \t seq:42 \r\n\r\nPING\nQUI",
            b"*0\r\n*-1\r\n",
        ],
        &expected,
    );
}

#[test]
fn what_is_no_command_is_named() {
    let inline = [b'x'; MAX_INLINE_BYTES];
    let expected = expect![[r#"
        a length is not a number that ends in CR LF
        a length is not a number that ends in CR LF
        a length is not a number that ends in CR LF
        a length is not a number that ends in CR LF
        10002 arguments are more than the 10001 a command may have
        9999999999 arguments are more than the 10001 a command may have
        a bulk string of 1025 bytes is not in 0..=1024
        a bulk string of -1 bytes is not in 0..=1024
        expected '$', got '*'
        expected '$', got '\x00'
        a bulk string does not end in CR LF
        a line is longer than 1024 bytes
    "#]];
    check(
        &[
            b"*\r\n",
            b"*12345678901\r\n",
            b"*1x\r\n",
            b"*1\r*",
            b"*10002\r\n",
            b"*9999999999\r\n",
            b"*1\r\n$1025\r\n",
            b"*1\r\n$-1\r\n",
            b"*2\r\n*1\r\n$1\r\na\r\n",
            b"*1\r\n\0",
            b"*1\r\n$4\r\nPINGxx",
            &inline,
        ],
        &expected,
    );
}

#[test]
fn the_largest_batch_of_keys_fits_and_more_does_not() {
    let command = |key: &str| {
        let mut input = format!("*{MAX_ARGS}\r\n$4\r\nMGET\r\n");
        (1..MAX_ARGS).for_each(|_| write!(input, "${}\r\n{key}\r\n", key.len()).unwrap());
        input
    };
    let key = format!("{:p<width$}{}", "", u64::MAX, width = crate::resp::MAX_PREFIX_BYTES);
    let input = command(&key);
    assert!(input.len() <= MAX_COMMAND_BYTES, "{}", input.len());
    let read = Parser::default().next(input.as_bytes()).unwrap().unwrap();
    assert_eq!((read.bytes, read.args.count(), read.args.iter().count()), (input.len(), MAX_ARGS, MAX_ARGS));
    let long = command(&"k".repeat(MAX_BULK_BYTES));
    assert_eq!(
        Parser::default().next(&long.as_bytes()[..MAX_COMMAND_BYTES + 1]).err(),
        Some(Malformed::CommandTooLong)
    );
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        Just(&b"*2\r\n"[..]),
        Just(&b"$4\r\nINCR\r\n"[..]),
        Just(&b"$-3\r\n"[..]),
        Just(&b"\r\n"[..]),
        Just(&b"PING x\n"[..]),
        Just(&b"$"[..]),
        Just(&b"*"[..]),
        Just(&b"7"[..]),
    ];
    let parts = prop::collection::vec(part, 0..20).prop_map(|parts| parts.concat());
    prop_oneof![parts, prop::collection::vec(any::<u8>(), 0..200)]
}

proptest! {
    #[test]
    fn pieces_change_nothing(input in bytes(), piece in 1usize..20) {
        prop_assert_eq!(read(&input, piece), read(&input, input.len().max(1)));
    }
}
