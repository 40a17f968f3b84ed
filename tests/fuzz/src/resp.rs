//! The port for clients of Redis: bytes to commands.

use seq_gateway::resp::parse::{MAX_ARGS, MAX_BULK_BYTES, Malformed, Parser};

/// A command's arguments.
type Command = Vec<Vec<u8>>;

/// Parses `data` as a client's bytes, at once and in pieces of the size in its first byte. The commands must be the
/// same, and none may exceed its limits.
pub fn resp(data: &[u8]) {
    let Some((piece, input)) = data.split_first() else { return };
    let whole = commands(input, input.len().max(1));
    assert_eq!(commands(input, usize::from(*piece).max(1)), whole);
    for command in &whole.0 {
        assert!(command.len() <= MAX_ARGS && command.iter().all(|argument| argument.len() <= MAX_BULK_BYTES));
    }
}

/// Returns the commands, and the error that ends them.
fn commands(input: &[u8], piece: usize) -> (Vec<Command>, Option<Malformed>) {
    let (mut parser, mut begin, mut end) = (Parser::default(), 0, piece.min(input.len()));
    let mut commands = Vec::new();
    loop {
        match parser.next(&input[begin..end]) {
            Ok(Some(command)) => {
                assert!(command.bytes > 0 && command.bytes <= end - begin);
                let args: Command = command.args.iter().map(<[u8]>::to_vec).collect();
                assert_eq!(args.len(), command.args.count());
                commands.push(args);
                begin += command.bytes;
            }
            Ok(None) if end < input.len() => end = (end + piece).min(input.len()),
            Ok(None) => return (commands, None),
            Err(malformed) => return (commands, Some(malformed)),
        }
    }
}
